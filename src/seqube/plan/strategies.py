"""Every strategy there is, as one table: its name, the paper it is from, what it is for, where it applies and what it costs.

    kind                matches         of one query: how its nested sub-queries are evaluated
                        aggregates      of one query: how they are computed
                        shared matches  of a workload: which query is computed from which other
                        shared counts   of a workload: what is counted once for several queries

A strategy applies to a query only where it says so, so that whatever is new (a node of plans, an aggregate) is refused until
somebody has thought of it. `applies` looks at one query, as a `Case`; None means yes, else it is the reason why not. `cost` is in
seconds on one core and takes the numbers of its kind: of a sub-query (`Weighed`), an aggregation, or a workload.

    Paper                                                          | Here
    NEEL: nested queries over event streams                        | iterative
    continuous sliding views for nested queries                    | aggressive, passive, balanced
    A-Seq: dynamic prefix counters, PreTree, Chop-Connect          | per-start, prefix-tree, pre-tree, chop-connect, exhaustive
    E-Cube: top-down and bottom-up reuse, Chase                    | top-down, bottom-up, chase
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from math import log2
from typing import Any, Generic, TypeVar
from typing import Literal as OneOf

from seqube.events import Hierarchy
from seqube.language.functions import AGGREGATES
from seqube.language.tree import Predicate, Query
from seqube.language.writer import write_predicate
from seqube.plan.aggregates import AggregatePlan, Aggregation, chain_of, looked_up, plan_aggregates
from seqube.plan.chains import EventChain
from seqube.plan.chase import Chase, Estimates, SharedPlan
from seqube.plan.ecube import Cuboid, cuboid_of
from seqube.plan.measured import Measurements
from seqube.plan.pairs import agreed
from seqube.plan.physical import MatchPlan, MatchRepeat, MatchRun, PlanNode, walk
from seqube.plan.planner import plan_matches, plan_nested
from seqube.plan.sharing import Counted, Counting, counted
from seqube.plan.views import FLAT, INSTANCE, OWN_NAMES, PASSED_OVER, Weighed, equated, untestable

StrategyKind = OneOf["matches", "aggregates", "shared matches", "shared counts"]

NOTHING_KNOWN = "nothing is known about the events"

Priced = TypeVar("Priced")


@dataclass(frozen=True)
class Case:
    """One query, and what has to be known of it to see which strategies apply; each is worked out once, when it is asked for."""

    query: Query
    hierarchy: Hierarchy | None = None
    measured: Measurements | None = None
    shares: bool = True  # whether queries can be evaluated together where it is run

    @property
    def apart(self) -> str | None:
        """Why it cannot share with any query; None where that depends on the query."""
        if not self.shares:
            return "every query is evaluated by itself here"
        return NOTHING_KNOWN if self.measured is None else None

    @cached_property
    def plan(self) -> MatchPlan | AggregatePlan:
        """The plan that is right for every query."""
        return plan_aggregates(self.query, self.hierarchy) if self.query.aggregates else plan_matches(self.query, self.hierarchy)

    @property
    def matches(self) -> MatchPlan:
        return self.plan.matches

    @cached_property
    def nested(self) -> MatchPlan:
        """The plan with its sub-queries as they were written."""
        return plan_nested(self.query, self.hierarchy)

    @cached_property
    def untestable(self) -> Predicate | None:
        """A predicate of a negation that no loop over nested sub-queries can test."""
        negates = self.matches.checks or any(node.absent for node in walk(self.matches))
        return untestable(self.nested) if negates else None

    @cached_property
    def chain(self) -> EventChain | str:
        return chain_of(self.plan) if isinstance(self.plan, AggregatePlan) else "it returns matches"

    @cached_property
    def counted(self) -> Counted | str:
        if not isinstance(self.plan, AggregatePlan):
            return "it returns matches"
        return counted(self.plan, self.chain, self.measured.unit if self.measured is not None else "ms")

    @cached_property
    def cuboid(self) -> Cuboid | str:
        return cuboid_of(self.query, self.hierarchy)

    @cached_property
    def known(self) -> Measurements | None:
        """What is known of the events, as far as it concerns this query."""
        if self.measured is None:
            return None
        if isinstance(self.plan, AggregatePlan):
            return self.measured.only(looked_up(self.plan, self.chain))
        return self.measured.only(equated(self.query.pattern) | agreed(self.matches))

    @cached_property
    def unknown(self) -> str | None:
        """What no strategy has been thought through for: a node of its plan, or an aggregate."""
        for node in _nodes(self.matches):
            if type(node) not in OWN_NAMES:
                return f"nothing is known of {type(node).__name__}"
        for aggregate in self.plan.asked if isinstance(self.plan, AggregatePlan) else ():
            if aggregate.function not in AGGREGATES:
                return f"there is no aggregate {aggregate.function!r}"
        return None


def _nodes(plan: MatchPlan) -> Iterator[PlanNode]:
    """The nodes of a plan, of whatever kind they are; below one that is not known, nothing is looked at."""
    checks = list(plan.checks)
    waiting: list[PlanNode] = [plan.pattern]
    while waiting or checks:
        if not waiting:
            check = checks.pop()
            checks += check.checks
            waiting.append(check.instance)
        node = waiting.pop()
        yield node
        if type(node) in OWN_NAMES:
            waiting += (*node.parts, *node.absent)


@dataclass(frozen=True)
class MatchSharing:
    """A workload of matches to be priced: a strategy costs what its plan does, and each plan is made once."""

    chase: Chase
    estimates: Estimates
    _plans: dict[str, SharedPlan] = field(default_factory=dict)

    def plan(self, strategy: str) -> SharedPlan:
        if strategy not in self._plans:
            self._plans[strategy] = self.chase.plan(strategy, self.estimates)
        return self._plans[strategy]


@dataclass(frozen=True, slots=True)
class Strategy(Generic[Priced]):
    """A row of the table."""

    name: str
    kind: StrategyKind
    paper: str | None
    _applies: Callable[[Case], str | None]
    cost: Callable[[Priced], float]

    @property
    def returns(self) -> str:
        """What the queries return that it is for."""
        return "aggregates" if self.kind in ("aggregates", "shared counts") else "matches"

    def is_for(self, case: Case) -> bool:
        """Whether a query returns what the strategy is for; whether it applies to it is another question."""
        return self.returns == ("aggregates" if case.query.aggregates else "matches")

    def applies(self, case: Case) -> str | None:
        """None where it applies to a query, else why not."""
        if not self.is_for(case):
            return f"it is for queries that return {self.returns}"
        return case.unknown or self._applies(case)


# ---------------------------------------------------------------- where they apply


def _always(_: Case) -> str | None:
    return None


def _by_loops(case: Case) -> str | None:
    if any(isinstance(node, MatchRepeat | MatchRun) for node in walk(case.matches)):
        return "it has repeated parts, or a NEXT or STRICT, which are found by themselves"
    if case.matches.order_by:
        return "ORDER BY says what is after what, and its loops go by time"
    predicate = case.untestable
    return None if predicate is None else f"{write_predicate(predicate)}, under a negation, computes with several events"


def _by_latest_start(case: Case) -> str | None:
    tied = any(check.filters or check.checks for check in case.matches.checks)
    return "a negation is tied to outer events by more than equalities" if tied else None


def _by_counters(case: Case) -> str | None:
    return None if isinstance(case.chain, EventChain) else case.chain


def _from_another(case: Case) -> str | None:
    return case.apart or (None if isinstance(case.cuboid, Cuboid) else case.cuboid)


def _counted_together(case: Case) -> str | None:
    return case.apart or (None if isinstance(case.counted, Counted) else case.counted)


# ---------------------------------------------------------------- what evaluating a sub-query costs


def _iterative(part: Weighed) -> float:
    return INSTANCE * (PASSED_OVER * part.strangers + part.outer * (part.steps + (0 if part.negated else part.tied)))


def _aggressive(part: Weighed) -> float:
    looked_at = part.outer * (log2(2 + part.everything) + (1 if part.negated else 1 + part.tied))
    return INSTANCE * (PASSED_OVER * part.strangers + part.triggers + part.everything + looked_at)


def _passive(part: Weighed) -> float:
    kept = part.intervals * (log2(2 + part.intervals) + (1 if part.negated else part.tied))
    return INSTANCE * (PASSED_OVER * part.strangers + kept + part.outer * (1 if part.negated else 1 + part.tied))


def _balanced(part: Weighed) -> float:
    found = min(part.everything, part.intervals * part.tied)
    return INSTANCE * (PASSED_OVER * part.strangers + found + part.outer * (2 if part.negated else 2 + part.tied))


def _own(part: Weighed) -> float:
    """One number per event; or, where instances are needed, each built once and those of an interval looked at."""
    if part.own == "latest-start":
        return INSTANCE * FLAT * (part.events + part.outer)
    return INSTANCE * FLAT * (part.everything + part.outer * (1 + part.in_interval))


# ---------------------------------------------------------------- the table

OWN_STRATEGY = "latest-start"  # what the matcher does by itself
NEEL, SLIDING_VIEWS, A_SEQ, E_CUBE = "NEEL", "continuous sliding views", "A-Seq", "E-Cube"

MATCHING: tuple[Strategy[Weighed], ...] = (
    Strategy("iterative", "matches", NEEL, _by_loops, _iterative),
    Strategy("aggressive", "matches", SLIDING_VIEWS, _by_loops, _aggressive),
    Strategy("passive", "matches", SLIDING_VIEWS, _by_loops, _passive),
    Strategy("balanced", "matches", SLIDING_VIEWS, _by_loops, _balanced),
    Strategy(OWN_STRATEGY, "matches", None, _by_latest_start, _own),
)
AGGREGATING: tuple[Strategy[Aggregation], ...] = (
    Strategy("two-step", "aggregates", None, _always, Aggregation.two_step),
    Strategy("per-start", "aggregates", A_SEQ, _by_counters, Aggregation.per_start),
    Strategy("window-product", "aggregates", None, _by_counters, Aggregation.window_product),
)
SHARING: tuple[Strategy[MatchSharing], ...] = (
    Strategy("independent", "shared matches", None, _always, lambda workload: workload.plan("independent").seconds),
    Strategy("top-down", "shared matches", E_CUBE, _from_another, lambda workload: workload.plan("top-down").seconds),
    Strategy("bottom-up", "shared matches", E_CUBE, _from_another, lambda workload: workload.plan("bottom-up").seconds),
    Strategy("chase", "shared matches", E_CUBE, _from_another, lambda workload: workload.plan("chase").seconds),
)
COUNTING: tuple[Strategy[Counting], ...] = (
    Strategy("independent", "shared counts", None, _always, Counting.independent),
    Strategy("prefix-tree", "shared counts", A_SEQ, _counted_together, Counting.by_tree),
    Strategy("pre-tree", "shared counts", A_SEQ, _counted_together, Counting.by_starts),
    Strategy("chop-connect", "shared counts", A_SEQ, _counted_together, Counting.by_pieces),
    Strategy("exhaustive", "shared counts", A_SEQ, _counted_together, Counting.by_pieces),
)
LOOPS = tuple(row.name for row in MATCHING if row.name != OWN_STRATEGY)
STRATEGIES: tuple[Strategy[Any], ...] = (*MATCHING, *AGGREGATING, *SHARING, *COUNTING)


def names(*kinds: StrategyKind) -> tuple[str, ...]:
    """The strategies of some kinds, or all, each name once."""
    return tuple(dict.fromkeys(strategy.name for strategy in STRATEGIES if not kinds or strategy.kind in kinds))
