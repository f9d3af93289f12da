"""How nested sub-queries are evaluated: which strategies there are, where each applies, what each costs.

`latest-start` (and, for positive sub-queries, building them once) is what the matcher does by itself on a flattened plan. The
published strategies `iterative`, `aggressive`, `passive` and `balanced` need the tree as it was written (`nested_root`) and
predicates that a loop can test on single events (`clauses`); `plan_nested` gives such a plan, with one way per sub-query.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import factorial, log2, prod
from typing import assert_never

from seqube.errors import PlanError
from seqube.events import Statistics
from seqube.language.tree import (
    AllOf,
    And,
    AnyOf,
    Chain,
    Comparison,
    ComparisonOp,
    FirstOf,
    Not,
    Or,
    Part,
    Pattern,
    Predicate,
    Query,
    Same,
    Seq,
    Type,
    Value,
    attributes,
)
from seqube.language.writer import write_predicate
from seqube.plan.physical import (
    Absence,
    Atom,
    MatchAlternatives,
    MatchConjunction,
    MatchPlan,
    MatchSequence,
    Node,
    Scan,
    Way,
    all_checks,
    ticks,
    walk,
)
from seqube.plan.rewrite import conjuncts, spread_same

LOOPS = ("iterative", "aggressive", "passive", "balanced")
STRATEGIES = (*LOOPS, "latest-start")


def nested_root(query: Query) -> Pattern:
    """The pattern with WHERE at its root and `[id]` spread, its operators nested as they were written."""
    pattern = query.pattern
    if isinstance(pattern, Type):
        pattern = Seq((pattern,))
    return spread_same(replace(pattern, where=pattern.where + query.where))


# ---------------------------------------------------------------- predicates that loops can test


@dataclass(frozen=True, slots=True)
class Test:
    """A comparison whose sides name one variable each (or several, one of which is bound); without `op`, a predicate on one."""

    op: ComparisonOp | None
    left: tuple[Value, ...]
    right: tuple[Value, ...]
    predicate: Predicate


Tests = tuple[Test, ...]  # true when any of them is


def clauses(predicate: Predicate) -> list[Tests] | None:
    """The predicate as a conjunction of disjunctions of tests; None where a test would have to compute with several events."""
    found: list[Tests] = []
    for conjunct in conjuncts(predicate):
        for parts in _distribute(conjunct):
            tests = [_test(part) for part in parts]
            if any(test is None for test in tests):
                return None
            found.append(tuple(test for test in tests if test is not None))
    return found


def _distribute(predicate: Predicate) -> Iterator[tuple[Predicate, ...]]:
    """(a AND b) OR c as (a OR c) AND (b OR c); SQL's three-valued logic distributes like this too."""
    if isinstance(predicate, AllOf):
        for part in predicate.parts:
            yield from _distribute(part)
    elif isinstance(predicate, AnyOf):
        products: list[tuple[Predicate, ...]] = [()]
        for part in predicate.parts:
            products = [product + more for product in products for more in _distribute(part)]
        yield from products
    else:
        yield (predicate,)


def _test(predicate: Predicate) -> Test | None:
    if len({attribute.variable for attribute in attributes(predicate)}) < 2:
        return Test(None, (), (), predicate)
    if not isinstance(predicate, Comparison):
        return None
    left, right = _choices(predicate.left), _choices(predicate.right)
    if left is None or right is None:
        return None
    return Test(predicate.op, left, right, predicate)


def _choices(value: Value) -> tuple[Value, ...] | None:
    if isinstance(value, FirstOf):
        inner = [_choices(part) for part in value.values]
        return None if any(part is None for part in inner) else tuple(v for part in inner if part for v in part)
    return (value,) if len({attribute.variable for attribute in attributes(value)}) < 2 else None


def equated(pattern: Pattern) -> set[str]:
    """The attributes in equalities of a pattern that nests: how many values they have tells how much the equalities leave."""
    nests = not isinstance(pattern, Type) and any(isinstance(_inside(part), Seq | And | Or) for part in pattern.parts)
    return set(_equated(pattern)) if nests else set()


def _inside(part: Part) -> Pattern:
    return part.part if isinstance(part, Not) else part


def _equated(pattern: Pattern) -> Iterator[str]:
    if isinstance(pattern, Type):
        return
    for part in pattern.parts:
        yield from _equated(_inside(part))
    for predicate in pattern.where:
        for conjunct in conjuncts(predicate) if not isinstance(predicate, Same | Chain) else ():
            if isinstance(conjunct, Comparison) and conjunct.op == "=" and len({a.variable for a in attributes(conjunct)}) > 1:
                yield from (a.name for a in attributes(conjunct))


# ---------------------------------------------------------------- sub-queries


@dataclass(frozen=True, slots=True)
class Subquery:
    """An expression of several events nested in another one, or negated in it."""

    node: Node
    parent: Node
    negated: bool
    tied: bool = False  # to outer events, by more than equalities: its instances must be looked at


def subqueries(plan: MatchPlan) -> Iterator[Subquery]:
    """Every sub-query of a plan, each before what is inside it."""
    yield from _below(plan.pattern)
    for check in plan.checks:
        yield from _negated(check, plan.pattern)


def _negated_events(plan: MatchPlan) -> Iterator[Subquery]:
    """The single events that must not be there: the smallest of sub-queries, for which there is nothing to choose."""
    yield from (Subquery(node, plan.pattern, negated=True) for node in plan.pattern.absent if isinstance(node, Scan))
    for check in plan.checks:
        if isinstance(check.instance, Scan):
            yield Subquery(check.instance, plan.pattern, negated=True, tied=bool(check.filters or check.checks))


def _below(node: Node) -> Iterator[Subquery]:
    for child in node.parts:
        if not isinstance(child, Scan):
            yield Subquery(child, node, negated=False)
            yield from _below(child)
    for child in node.absent:
        if not isinstance(child, Scan):
            yield Subquery(child, node, negated=True)
            yield from _below(child)


def _negated(absence: Absence, parent: Node) -> Iterator[Subquery]:
    if not isinstance(absence.instance, Scan):
        yield Subquery(absence.instance, parent, negated=True, tied=bool(absence.filters or absence.checks))
        yield from _below(absence.instance)
    for check in absence.checks:
        yield from _negated(check, absence.instance)


def _refused(plan: MatchPlan) -> Predicate | None:
    """A predicate that belongs to a negation and that no loop can test."""
    negated = [node for check in plan.checks for node in walk(check)]
    negated += [node for outer in walk(plan.pattern) for inner in outer.absent for node in walk(inner)]
    asked = [predicate for node in negated for predicate in node.predicates]
    asked += [predicate for check in all_checks(plan) for predicate in check.predicates]
    return next((predicate for predicate in asked if clauses(predicate) is None), None)


# ---------------------------------------------------------------- costs


@dataclass(frozen=True, slots=True)
class Measured:
    """What is known of the events: how many of which type over how long, and how many values the attributes in equalities have."""

    statistics: Statistics
    unit: str = "ms"
    distinct: Mapping[str, int] = field(default_factory=dict)

    def share(self, left: Value, right: Value) -> float:
        """The share of pairs of events that agree on two values."""
        names = {attribute.name for value in (left, right) for attribute in attributes(value)}
        return 1 / max(1, *([self.distinct[name] for name in names if name in self.distinct] or [10]))


@dataclass(frozen=True, slots=True)
class Costs:
    """The cost model of the sliding-views paper (section 7), in instances touched over the whole stream.

    Paper            | Here
    |Si|             | `_in_window`: events of a type in one window
    Pt, P            | order: 1 / n! for n events; predicates: `_kept`
    C_compute        | `_steps`: partial and whole instances that a stack walk touches in an interval
    |S_q|            | `_found`: instances in an interval
    Ov               | what an interval shares with those of the triggers before it: all but the trigger's own share of the window
    """

    measured: Measured
    window: float  # in ticks, or in events
    counts_events: bool

    @staticmethod
    def of(plan: MatchPlan, measured: Measured) -> Costs:
        return Costs(measured, float(ticks(plan.window, measured.unit)), plan.window.counts_events)

    def estimate(self, asked: Subquery) -> tuple[tuple[str, float], ...]:
        """What each strategy costs for one sub-query, cheapest first."""
        subquery, parent, negated = asked.node, asked.parent, asked.negated
        own = [slot for slot in parent.parts if isinstance(slot, Scan)]
        share = 1 / max(len(own), 1)  # of the window: the expected interval between two neighbours among the own events
        triggers = self._in_stream(own[-1]) if own else self._in_stream(subquery)
        outer = triggers * self._product(own[:-1], 1.0) / factorial(max(len(own) - 1, 0)) * self._kept(parent)
        outer = max(outer, 1.0)
        everything = self._windows() * self._found(subquery, 1.0)
        in_interval = self._found(subquery, share)
        tied = in_interval * self._tied(parent, subquery)  # those that agree with the outer result
        first = min((self._found(part, share) for part in subquery.parts), default=in_interval)
        steps = self._steps(subquery, share)
        steps = min(steps, first + steps * self._tied(parent, subquery))
        intervals = min(outer, triggers * self._product(own[:-1], share) + 1)  # distinct intervals
        if negated and not asked.tied:
            flat = ("latest-start", self._in_stream(subquery) + outer)
        else:
            flat = ("candidates" if negated else "once", everything + outer * (1 + in_interval))
        costs = {
            flat[0]: FLAT * flat[1],
            "iterative": outer * (steps + (0 if negated else tied)),
            "aggressive": triggers + everything + outer * (log2(2 + everything) + (1 if negated else 1 + tied)),
            "passive": intervals * (log2(2 + intervals) + (1 if negated else tied)) + outer * (1 if negated else 1 + tied),
            "balanced": min(everything, intervals * tied) + outer * (2 if negated else 2 + tied),
        }
        return tuple(sorted(costs.items(), key=lambda item: item[1]))

    def estimate_whole(self, pattern: Node, loop: str = LOOPS[0]) -> tuple[tuple[str, float], ...]:
        """What a pattern without sub-queries costs: in the matcher's own loops, without its key, and trigger by trigger."""
        events = self._in_stream(pattern)
        found = self._windows() * self._found(pattern, 1.0)
        steps = self._windows() * self._steps(pattern, 1.0)
        costs = {OWN[type(pattern)]: FLAT * (events + found)}
        if isinstance(pattern, MatchSequence | MatchConjunction) and pattern.key:
            costs["equality in the loop, no key"] = FLAT * (events + max(steps, found))
        costs[loop] = events + max(steps, found)
        return tuple(costs.items())

    def _in_stream(self, node: Node) -> float:
        if isinstance(node, Scan):
            return float(self.measured.statistics.count(node.types))
        return sum(map(self._in_stream, node.parts))

    def _windows(self) -> float:
        """How many windows the stream is long."""
        length = self.measured.statistics.n if self.counts_events else self.measured.statistics.span
        return max(length / max(self.window, 1.0), 1.0)

    def _in_window(self, scan: Scan) -> float:
        return self.measured.statistics.count(scan.types) / self._windows() * 0.5 ** len(scan.filters)

    def _product(self, nodes: Iterable[Node], share: float) -> float:
        return prod((self._found(node, share) for node in nodes), start=1.0)

    def _found(self, node: Node, share: float) -> float:
        """Instances in an interval that is this share of a window."""
        match node:
            case Scan():
                return self._in_window(node) * share
            case MatchAlternatives():
                return sum(self._found(branch, share) for branch in node.branches)
            case MatchSequence() | MatchConjunction():
                orders = factorial(len(node.slots)) if isinstance(node, MatchSequence) else 1
                return self._product(node.slots, share) / orders * self._kept(node)
            case _:
                assert_never(node)

    def _kept(self, node: Node) -> float:
        """The share of combinations of a node's parts that its predicates keep; a third for each that is not an equality."""
        if isinstance(node, Scan | MatchAlternatives):
            return 1.0
        shares = [self.measured.share(a, b) for column in node.key for a, b in pairwise(column)]
        for clause in node.clauses:
            atom = clause[0]
            if len(clause) > 1 or not isinstance(atom, Atom) or atom.op != "=":
                shares.append(1 / 3)
            elif all(isinstance(node.slots[i], Scan) for i in (atom.left_slot, atom.right_slot)):
                shares.append(self.measured.share(atom.left, atom.right))
        return prod(shares) * (1 / 3) ** len(node.filters)

    def _tied(self, parent: Node, subquery: Node) -> float:
        """The share of a sub-query's instances that agree with one outer result, by equalities that are not part of a key."""
        if isinstance(parent, Scan | MatchAlternatives) or subquery not in parent.slots:
            return 1.0
        atoms = [clause[0] for clause in parent.clauses if len(clause) == 1]
        position = parent.slots.index(subquery)
        return prod(
            self.measured.share(atom.left, atom.right)
            for atom in atoms
            if isinstance(atom, Atom) and atom.op == "=" and position in (atom.left_slot, atom.right_slot)
        )

    def _steps(self, node: Node, share: float) -> float:
        """What a walk touches to find them: every chain from the last event on (Equation 1)."""
        if isinstance(node, Scan):
            return self._in_window(node) * share
        if isinstance(node, MatchAlternatives):
            return sum(self._steps(branch, share) for branch in node.branches)
        total, chains = 0.0, 1.0
        for n, slot in enumerate(reversed(node.slots), start=1):
            chains *= self._found(slot, share) / (n if isinstance(node, MatchSequence) else 1)
            total += chains
        return total + sum(self._steps(slot, share) for slot in node.slots if not isinstance(slot, Scan))


# What the matcher's own loops do for each kind of pattern that nests no other.
OWN: dict[type[Node], str] = {
    Scan: "scan",
    MatchSequence: "array-stacks",
    MatchConjunction: "time-join",
    MatchAlternatives: "merge",
}
FLAT = 0.12  # an instance in the flat matcher's loops, beside one on the arena of the nested ones: measured


# ---------------------------------------------------------------- choosing


def choose_ways(flat: MatchPlan, make_nested: Callable[[], MatchPlan], strategy: str, measured: Measured | None) -> MatchPlan:
    """The flat plan where the matcher's own way is asked for or cheapest, else the nested one with a way for every sub-query."""
    if strategy == "auto":
        return _cheapest(flat, make_nested, measured)
    if strategy == "latest-start":
        if any(check.filters or check.checks for check in flat.checks):
            raise PlanError(
                "strategy 'latest-start' does not apply: a negation is tied to outer events by more than equalities\n"
                f"  hint: one of {', '.join(('auto', *(LOOPS if _refused(make_nested()) is None else ())))}"
            )
        return _with_reasons(flat, measured)
    nested = make_nested()
    if (refused := _refused(nested)) is not None:
        raise PlanError(
            f"strategy {strategy!r} does not apply: {write_predicate(refused)}, under a negation, computes with several events\n"
            "  hint: auto does"
        )
    ways = [Way(subquery.node, strategy, _costs(nested, subquery, measured)) for subquery in subqueries(nested)]
    if not ways:
        costs = Costs.of(nested, measured).estimate_whole(nested.pattern, strategy) if measured is not None else ()
        ways = [Way(nested.pattern, strategy, costs)]
    return replace(nested, ways=tuple(ways))


def _cheapest(flat: MatchPlan, make_nested: Callable[[], MatchPlan], measured: Measured | None) -> MatchPlan:
    """For every sub-query the strategy that costs least; the flat plan if the sum of its sub-queries does."""
    if measured is None or not any(subqueries(flat)):
        return _with_reasons(flat, measured)
    estimates = [_costs(flat, subquery, measured) for subquery in subqueries(flat)]
    own = [next(cost for name, cost in costs if name not in LOOPS) for costs in estimates]
    flat = _with_reasons(flat, measured)
    nested = make_nested()
    if _refused(nested) is not None:
        return flat
    loops = []
    for subquery in subqueries(nested):
        costs = _costs(nested, subquery, measured)
        name, cost = next(item for item in costs if item[0] in LOOPS)
        loops.append((Way(subquery.node, name, costs), cost))
    if sum(cost for _, cost in loops) < sum(own):
        return replace(nested, ways=tuple(way for way, _ in loops))
    return flat


def _with_reasons(flat: MatchPlan, measured: Measured | None) -> MatchPlan:
    """The flat plan with the matcher's own way for each of its parts, beside what the others would cost."""
    if measured is None:
        return flat
    nested = list(subqueries(flat))
    ways = [(subquery.node, _costs(flat, subquery, measured)) for subquery in (*nested, *_negated_events(flat))]
    if not nested:
        ways.append((flat.pattern, Costs.of(flat, measured).estimate_whole(flat.pattern)))
    return replace(flat, ways=tuple(Way(node, next(name for name, _ in costs if name not in LOOPS), costs) for node, costs in ways))


def _costs(plan: MatchPlan, subquery: Subquery, measured: Measured | None) -> tuple[tuple[str, float], ...]:
    return Costs.of(plan, measured).estimate(subquery) if measured is not None else ()
