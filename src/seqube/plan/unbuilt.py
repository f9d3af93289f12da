"""Whether the matches of a plan are counted, and a sample of them drawn, without building them; and why not.

Cost: linear in the plan. Invariant: what is not known here is walked through.
"""

from __future__ import annotations

from dataclasses import replace

from seqube.language.tree import Aggregate, Emit, Output
from seqube.plan.aggregates import AggregatePlan, chain_of
from seqube.plan.physical import MatchPlan, MatchSequence, Scan

COUNT_COLUMN = "n"  # the column with the count


def counting_plan(plan: MatchPlan, emit: Emit) -> AggregatePlan | str:
    """What counts the matches of a plan with counters, or why they have to be walked through."""
    if plan.keeps_partial:
        return "runs are kept, as far as they got"
    matches = replace(plan, returns=(), is_flat=False, is_distinct=False, limit=None, ways=())
    found = AggregatePlan(matches, emit, (Output(Aggregate("COUNT", None), COUNT_COLUMN),), strategy="window-product")
    chain = chain_of(found)
    return chain if isinstance(chain, str) else found


def without_tests(plan: MatchPlan) -> MatchPlan:
    """The plan of a sequence without what is asked of several of its events together, but for their key."""
    pattern = plan.pattern
    assert isinstance(pattern, MatchSequence)
    return replace(plan, pattern=replace(pattern, clauses=(), filters=()), checks=(), returns=())


def is_tested(plan: MatchPlan) -> bool:
    """Whether something is asked of several events of a sequence together, beside their key."""
    pattern = plan.pattern
    assert isinstance(pattern, MatchSequence)
    return bool(pattern.clauses or pattern.filters or plan.checks)


def why_walked(plan: MatchPlan) -> str | None:
    """Why a sample is found by walking through all matches; None where it can be drawn."""
    pattern = plan.pattern
    if plan.is_distinct or plan.limit is not None:
        return "which rows there are depends on those before them"
    if plan.is_nested or not isinstance(pattern, MatchSequence) or not all(isinstance(slot, Scan) for slot in pattern.slots):
        return "it is no sequence of single events"
    counted = counting_plan(without_tests(plan), Emit("total"))
    return counted if isinstance(counted, str) else None


def how_told(plan: MatchPlan) -> str:
    """How it is found out how many matches there are, and what a sample of them is, as `explain` says it."""
    counted, walked = counting_plan(plan, Emit("total")), why_walked(plan)
    if isinstance(counted, str):
        length = f"len walks through the matches ({counted})"
    else:
        length = "len counts without a match"
    if walked is not None:
        return f"{length}; a sample is taken of all matches as they are found ({walked})"
    if is_tested(plan):
        return f"{length}; a sample is drawn by the number of ways, and tested; of all matches if less than one in a thousand holds"
    return f"{length}; a sample is drawn by the number of ways"
