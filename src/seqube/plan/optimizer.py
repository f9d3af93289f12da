"""The one place where it is decided how a workload is evaluated: queries, and what is known of the events, to a `WorkloadPlan`.

Every query gets a plan of its own, its strategy the one asked for or the cheapest of those that apply. Where a workload shares
(matches from each other, counts with each other) the plan says that too. What was weighed is kept beside what was taken, so that
`explain` and the explorer tell it without deciding anything again.

A strategy asked for by name is taken or refused, never replaced. In a workload it is meant for the queries of its kind: those that
return matches, or those that return aggregates. It must apply to all of them; the others go by `auto`. Only for the strategies by
which matches are shared it is enough that one query can take part, because a query that cannot is computed by itself, which is a
part of these plans anyway.

Cost: linear in the queries, but for the sharing of matches, which looks at pairs of them that are coarser and finer. Invariant: the
same queries, hierarchy and measurements give the same plan in every process.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import inf

from seqube.errors import PlanError
from seqube.events import Hierarchy
from seqube.language.definitions import spell_out
from seqube.language.mentions import attributes
from seqube.language.tree import Comparison, Query
from seqube.plan.aggregates import AggregatePlan, Aggregation, looked_up
from seqube.plan.chase import Chase, Estimates, SharedPlan
from seqube.plan.ecube import Cuboid
from seqube.plan.measured import Measurements
from seqube.plan.needs import Plan, why_replayed
from seqube.plan.physical import MatchPlan, Option, PlanNode, Way, taking
from seqube.plan.sharing import CHOPPED, Counted, Counting, SharingPlan
from seqube.plan.strategies import (
    AGGREGATING,
    COUNTING,
    LOOPS,
    MATCHING,
    NOTHING_KNOWN,
    OWN_STRATEGY,
    SHARING,
    STRATEGIES,
    Case,
    MatchSharing,
    StrategyKind,
    names,
)
from seqube.plan.views import Costs, Subquery, equated, negated_events, subqueries

AUTO = "auto"
ALONE = ""  # the name of a query that is no workload
BEGINS_ANEW = "on a stream it evaluates its window again at every step"


@dataclass(frozen=True)
class WorkloadPlan:
    """How every query of a workload is evaluated by itself, and which are evaluated together instead."""

    plans: Mapping[str, Plan]
    strategy: str = AUTO  # as asked for
    matches: SharedPlan | None = None  # where it was weighed; it may say that every query is found by itself
    counts: SharingPlan | None = None
    notes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # what a person should know of a query over its events

    @property
    def aggregates(self) -> dict[str, AggregatePlan]:
        return {name: plan for name, plan in self.plans.items() if isinstance(plan, AggregatePlan)}


def optimize(
    queries: Mapping[str, Query],
    hierarchy: Hierarchy | None = None,
    measured: Measurements | None = None,
    strategy: str = AUTO,
    shares: bool = True,
) -> WorkloadPlan:
    """The plan of a workload, or of one query under the name ALONE, by the strategy asked for or by the cheapest.

    Without `shares`, for whoever evaluates every query by itself, nothing is shared.
    """
    cases = {name: Case(spell_out(query), hierarchy, measured, shares) for name, query in queries.items()}
    plans = _each(cases, strategy)
    if set(cases) == {ALONE} or measured is None or not shares:
        return WorkloadPlan(plans, strategy)
    return _sharing(cases, plans, hierarchy, measured, strategy)


def plan_apart(
    queries: Mapping[str, Query], hierarchy: Hierarchy | None, measured: Measurements | None, strategy: str = AUTO
) -> WorkloadPlan:
    """The plan of every query by itself, where it is not known yet which of them may share: that is `share_among`."""
    cases = {name: Case(spell_out(query), hierarchy, measured) for name, query in queries.items()}
    return WorkloadPlan(_each(cases, strategy), strategy)


def _each(cases: Mapping[str, Case], strategy: str) -> dict[str, Plan]:
    """The plan of every query, or an error that says why there is none by this strategy."""
    for name, case in cases.items():
        if case.unknown is not None:
            raise PlanError(f"{_the(name)} cannot be evaluated: {case.unknown}")
    if strategy != AUTO and (refused := _refusal(strategy, cases)) is not None:
        apply = [AUTO, *(name for name in names() if _refusal(name, cases) is None)]
        hint = f"one of {', '.join(apply)}" if len(apply) > 1 else "auto does"
        raise PlanError(f"{refused}\n  hint: {hint}")
    return {name: _plan(case, strategy) for name, case in cases.items()}


def share_among(
    queries: Mapping[str, Query], hierarchy: Hierarchy | None, measured: Measurements, planned: WorkloadPlan
) -> WorkloadPlan:
    """The plan of some queries of a workload that was planned, whose events meet in one place: what they share with each other."""
    cases = {name: Case(spell_out(query), hierarchy, measured) for name, query in queries.items()}
    return _sharing(cases, {name: planned.plans[name] for name in queries}, hierarchy, measured, planned.strategy)


def _sharing(
    cases: Mapping[str, Case], plans: Mapping[str, Plan], hierarchy: Hierarchy | None, measured: Measurements, strategy: str
) -> WorkloadPlan:
    """Plans of queries, with what is found or counted together."""
    matching = {name: case.query for name, case in cases.items() if not case.query.aggregates}
    counting = {name: case.counted for name, case in cases.items() if isinstance(case.counted, Counted)}
    matches, counts = None, None
    by = _shared_by("matches", "shared matches", strategy)
    if by is not None and len(matching) >= (2 if by == AUTO else 1):
        matches = share_matches(matching, hierarchy, measured, by)
        if by == AUTO and len(matches.steps) < 2:
            matches = None  # of the others none can be made from another's matches, so there was nothing to weigh
    by = _shared_by("aggregates", "shared counts", strategy)
    if by is not None and len(counting) >= (2 if by in (AUTO, "independent") else 1):
        alone = {name: expected_seconds(plans[name]) for name in counting}
        counts = share_counts(counting, measured, by, {name: seconds for name, seconds in alone.items() if seconds})
    return WorkloadPlan(plans, strategy, matches, counts)


def undecided(queries: Mapping[str, Query], hierarchy: Hierarchy | None = None, strategy: str = AUTO) -> dict[str, frozenset[str]]:
    """The queries that can be evaluated in several ways, so that it is the events that decide; for each, the columns to look at.

    Whoever must pay for looking at events asks this first.
    """
    found = {}
    for name, query in queries.items():
        case = Case(query, hierarchy, shares=False)
        if case.unknown is not None:
            continue
        if isinstance(case.plan, AggregatePlan):
            if strategy not in names("aggregates") and sum(row.applies(case) is None for row in AGGREGATING) > 1:
                found[name] = looked_up(case.plan, case.chain)
        elif strategy not in names("matches") and any(subqueries(case.plan)) and _loops(case):
            found[name] = frozenset(equated(query.pattern))
    return found


def looked_at(queries: Mapping[str, Query], hierarchy: Hierarchy | None = None, strategy: str = AUTO) -> frozenset[str] | None:
    """The columns to look at to say how queries are best evaluated together; None where there are none that could be."""
    if strategy == "independent":
        return None
    cases = [Case(spell_out(query), hierarchy) for query in queries.values()]
    cuboids = [case.cuboid for case in cases if isinstance(case.cuboid, Cuboid) and strategy not in names("matches")]
    counted = [case.counted for case in cases if isinstance(case.counted, Counted) and strategy not in names("aggregates")]
    if len(cuboids) < 2 and len(counted) < 2:
        return None
    equal = (predicate for cuboid in cuboids for predicate in cuboid.predicates if isinstance(predicate, Comparison))
    tied = {found.name for predicate in equal if predicate.op == "=" for found in attributes(predicate)}
    return frozenset(tied).union(*(cuboid.query.partition_by for cuboid in cuboids))


def plan_query(
    query: Query, hierarchy: Hierarchy | None = None, measured: Measurements | None = None, strategy: str = AUTO
) -> Plan:
    """The plan of one query by itself."""
    return optimize({ALONE: query}, hierarchy, measured, strategy).plans[ALONE]


def _shared_by(alone: StrategyKind, shared: StrategyKind, strategy: str) -> str | None:
    """How queries are to share; None where they are asked to be evaluated by a strategy for each."""
    if strategy in names(alone):
        return None
    return strategy if strategy in names(shared) else AUTO


# ---------------------------------------------------------------- what was asked for


def _refusal(strategy: str, cases: Mapping[str, Case]) -> str | None:
    """Why a strategy cannot be taken for these queries; None where it can."""
    rows = [row for row in STRATEGIES if row.name == strategy]
    if not rows:
        return f"there is no strategy {strategy!r}"
    is_alone = set(cases) == {ALONE}
    if is_alone:
        rows = [row for row in rows if row.kind in ("matches", "aggregates")]
        if not rows:
            return f"strategy {strategy!r} does not apply to this query: it is for several queries at once, given by their names"
    reasons = {name: row.applies(case) for row in rows for name, case in cases.items() if is_alone or row.is_for(case)}
    if not reasons:
        return f"strategy {strategy!r} does not apply to this workload: no query of it returns {rows[0].returns}"
    against = {name: reason for name, reason in reasons.items() if reason is not None}
    if not against or (rows[0].kind == "shared matches" and len(against) < len(reasons)):
        return None
    name, reason = next(iter(against.items()))
    return f"strategy {strategy!r} does not apply to {_the(name)}: {reason}"


def _the(name: str) -> str:
    return "this query" if name == ALONE else f"the query {name!r}"


# ---------------------------------------------------------------- one query


def _plan(case: Case, asked: str) -> Plan:
    if isinstance(case.plan, AggregatePlan):
        return _plan_aggregates(case, case.plan, asked if asked in names("aggregates") else AUTO)
    return _plan_matches(case, case.plan, asked if asked in names("matches") else AUTO)


def _plan_aggregates(case: Case, plan: AggregatePlan, strategy: str) -> AggregatePlan:
    """The plan with the strategy asked for, or the cheapest; without measurements, the last that applies."""
    refused = [Option(row.name, reason=reason) for row in AGGREGATING if (reason := row.applies(case)) is not None]
    rows = [row for row in AGGREGATING if row.applies(case) is None]
    if case.known is None:
        weighed = [Option(row.name, reason=NOTHING_KNOWN) for row in rows]
    else:
        weighed = [Option(row.name, row.cost(Aggregation(plan, case.chain, case.known))) for row in rows]
    if strategy == AUTO:
        if case.known is not None and case.known.continuous:
            begins_anew = {row.name for row in rows if why_replayed(replace(plan, strategy=row.name)) is not None}
            weighed = _set_aside(weighed, begins_anew) if len(begins_anew) < len(rows) else weighed
        strategy = weighed[-1].strategy if case.known is None else _least([option for option in weighed if not option.reason])
    return replace(plan, strategy=strategy, options=taking(strategy, [*weighed, *refused]))


def _set_aside(options: Iterable[Option], strategies: Collection[str]) -> list[Option]:
    """The same without those that evaluate their window again at every step of a stream, where others go on."""
    return [
        Option(option.strategy, reason=option.reason or BEGINS_ANEW) if option.strategy in strategies else option
        for option in options
    ]


def _least(options: list[Option]) -> str:
    """The cheapest; of equals, the first."""
    return min(options, key=lambda option: option.seconds or 0.0).strategy


def _plan_matches(case: Case, flat: MatchPlan, strategy: str) -> MatchPlan:
    """The flat plan where the matcher's own way is asked for or cheapest, else the nested one with a way for every sub-query."""
    if strategy == AUTO:
        return _cheapest(case, flat)
    if strategy == OWN_STRATEGY:
        return _by_itself(case, flat)
    nested = case.nested
    ways = [_way(part.node, strategy, _weigh(case, nested, part)) for part in subqueries(nested)]
    return replace(nested, ways=tuple(ways or [_way(nested.pattern, strategy, _weigh_whole(case, nested, strategy))]))


def _cheapest(case: Case, flat: MatchPlan) -> MatchPlan:
    """For every sub-query the strategy that costs least; the flat plan if the sum of its sub-queries does."""
    own = _by_itself(case, flat)
    if case.known is None or not any(subqueries(flat)):
        return own
    loops = _loops(case)
    if not loops:
        return own
    looping = replace(case.nested, ways=(Way(case.nested.pattern, loops[0]),))
    if case.known.continuous and why_replayed(own) is None and why_replayed(looping) is not None:
        return replace(own, ways=tuple(replace(way, options=tuple(_set_aside(way.options, loops))) for way in own.ways))
    ways = []
    for part in subqueries(case.nested):
        options = _weigh(case, case.nested, part)
        ways.append(_way(part.node, _least([option for option in options if option.strategy in loops]), options))
    by_itself = {way.subquery: way for way in own.ways}
    if _seconds(ways) < _seconds([by_itself[part.node] for part in subqueries(flat)]):
        return replace(case.nested, ways=tuple(ways))
    return own


def _loops(case: Case) -> list[str]:
    """The loops over nested sub-queries that can evaluate it."""
    return [row.name for row in MATCHING if row.name in LOOPS and row.applies(case) is None]


def _by_itself(case: Case, flat: MatchPlan) -> MatchPlan:
    """The flat plan with the matcher's own way for each of its parts, beside what the others would cost."""
    if case.known is None:
        return flat
    nested = list(subqueries(flat))
    weighed = [(part.node, _weigh(case, flat, part)) for part in (*nested, *negated_events(flat))]
    if not nested:
        weighed.append((flat.pattern, _weigh_whole(case, flat, LOOPS[0])))
    own = [next(option.strategy for option in options if option.strategy not in LOOPS) for _, options in weighed]
    return replace(flat, ways=tuple(_way(node, name, options) for name, (node, options) in zip(own, weighed, strict=True)))


def _weigh(case: Case, plan: MatchPlan, part: Subquery) -> tuple[Option, ...]:
    """What a sub-query costs by each strategy, cheapest first; the matcher's own way under the name of what it does there."""
    if case.known is None:
        return ()
    weighed = Costs.of(plan, case.known).weigh(part)
    options = []
    for row in sorted(MATCHING, key=lambda row: row.name != OWN_STRATEGY):
        if row.name == OWN_STRATEGY:
            options.append(Option(weighed.own, row.cost(weighed)))
        elif (reason := row.applies(case)) is not None:
            options.append(Option(row.name, reason=reason))
        else:
            options.append(Option(row.name, row.cost(weighed)))
    return tuple(sorted(options, key=lambda option: inf if option.seconds is None else option.seconds))


def _weigh_whole(case: Case, plan: MatchPlan, loop: str) -> tuple[Option, ...]:
    """What a pattern without sub-queries costs by the matcher's own way, and by one of the loops for nested ones."""
    if case.known is None:
        return ()
    costs = Costs.of(plan, case.known).weigh_whole(plan.pattern, loop)
    reasons = {row.name: row.applies(case) for row in MATCHING if row.name == loop}
    return tuple(
        Option(name, reason=reason) if (reason := reasons.get(name)) else Option(name, seconds) for name, seconds in costs.items()
    )


def _way(node: PlanNode, strategy: str, options: tuple[Option, ...]) -> Way:
    return Way(node, strategy, taking(strategy, options or (Option(strategy),)))


def _seconds(ways: list[Way]) -> float:
    return sum(option.seconds or 0.0 for way in ways for option in way.options if option.is_taken)


def expected_seconds(plan: Plan) -> float:
    """What a query is expected to take by the strategy that was taken; 0 where nothing was weighed."""
    options = plan.options if isinstance(plan, AggregatePlan) else [option for way in plan.ways for option in way.options]
    return sum(option.seconds or 0.0 for option in options if option.is_taken)


# ---------------------------------------------------------------- many queries


def share_matches(
    queries: Mapping[str, Query], hierarchy: Hierarchy | None, measured: Measurements, strategy: str = AUTO
) -> SharedPlan:
    """Which query's matches are made from which other's: by `auto` as Chase finds cheapest, if anything is gained by it."""
    workload = MatchSharing(Chase(queries, hierarchy), Estimates(measured))
    wanted = "chase" if strategy == AUTO else strategy
    options = [Option(row.name, row.cost(workload)) for row in SHARING if row.name in ("independent", wanted)]
    taken = "independent" if strategy == AUTO and not workload.plan(wanted).reuses else wanted
    return replace(workload.plan(taken), options=taking(taken, options))


def share_counts(
    queries: Mapping[str, Counted], measured: Measurements, strategy: str = AUTO, alone: Mapping[str, float] | None = None
) -> SharingPlan:
    """The cheapest way to count these queries together, or the one asked for. What each takes `alone` is known of some."""
    tries_all = strategy == "exhaustive"
    workload = Counting(queries, measured, alone or {}, must_chop=strategy in CHOPPED, tries_all=tries_all)
    idle = {"chop-connect": workload.why_not_chopped()} if strategy == AUTO else {}
    rows = [row for row in COUNTING if row.name not in CHOPPED or (row.name == "exhaustive") == tries_all]  # one way to chop
    options = [Option(row.name, row.cost(workload), idle.get(row.name, "")) for row in rows]
    taken = _least([option for option in options if not option.reason]) if strategy == AUTO else strategy
    return workload.plan(taken, taking(taken, options))
