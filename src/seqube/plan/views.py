"""Nested sub-queries as the optimizer sees them: what they are, which predicates a loop can test, and the numbers of each.

`latest-start` (and, for positive sub-queries, building them once) is what the matcher does by itself on a flattened plan. The
published strategies `iterative`, `aggressive`, `passive` and `balanced` need the tree as it was written (`nested_root`) and
predicates that a loop can test on single events (`clauses`). What each costs, in the numbers given here, is in `strategies`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import factorial, prod
from typing import assert_never

from seqube.language.mentions import attributes
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
)
from seqube.plan.measured import Measurements
from seqube.plan.pairs import Pair, indexed, pairs_of
from seqube.plan.physical import (
    PAIR_INDEX,
    Absence,
    Atom,
    Clause,
    Gap,
    MatchAlternatives,
    MatchConjunction,
    MatchPlan,
    MatchRepeat,
    MatchRun,
    MatchSequence,
    PlanNode,
    Scan,
    all_checks,
    ticks,
    walk,
)
from seqube.plan.rewrite import conjuncts, spread_same
from seqube.plan.witnesses import slots_of


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

    node: PlanNode
    parent: PlanNode
    negated: bool
    tied: bool = False  # to outer events, by more than equalities: its instances must be looked at


def subqueries(plan: MatchPlan) -> Iterator[Subquery]:
    """Every sub-query of a plan, each before what is inside it."""
    yield from _below(plan.pattern)
    for check in plan.checks:
        yield from _negated(check, plan.pattern)


def negated_events(plan: MatchPlan) -> Iterator[Subquery]:
    """The single events that must not be there: the smallest of sub-queries, for which there is nothing to choose."""
    yield from (Subquery(node, plan.pattern, negated=True) for node in plan.pattern.absent if isinstance(node, Scan))
    for check in plan.checks:
        if isinstance(check.instance, Scan):
            yield Subquery(check.instance, plan.pattern, negated=True, tied=bool(check.filters or check.checks))


def _below(node: PlanNode) -> Iterator[Subquery]:
    for child in node.parts:
        if not isinstance(child, Scan | MatchRepeat):  # lists are built in one way alone
            yield Subquery(child, node, negated=False)
            yield from _below(child)
    for child in node.absent:
        if not isinstance(child, Scan):
            yield Subquery(child, node, negated=True)
            yield from _below(child)


def _negated(absence: Absence, parent: PlanNode) -> Iterator[Subquery]:
    if not isinstance(absence.instance, Scan):
        yield Subquery(absence.instance, parent, negated=True, tied=bool(absence.filters or absence.checks))
        yield from _below(absence.instance)
    for check in absence.checks:
        yield from _negated(check, absence.instance)


def untestable(plan: MatchPlan) -> Predicate | None:
    """A predicate that belongs to a negation and that no loop can test."""
    negated = [node for check in plan.checks for node in walk(check)]
    negated += [node for outer in walk(plan.pattern) for inner in outer.absent for node in walk(inner)]
    asked = [predicate for node in negated for predicate in node.predicates]
    asked += [predicate for check in all_checks(plan) for predicate in check.predicates]
    return next((predicate for predicate in asked if clauses(predicate) is None), None)


# ---------------------------------------------------------------- costs


# More lists than anybody waits for: they are counted no further.
COUNTLESS = 1e18

# Seconds for an instance that a loop over nested sub-queries touches (the median of 56 runs; half of them lay between 0.15 and 0.65
# us), and the share of that which one in the flat matcher's loops takes.
INSTANCE = 4e-7
FLAT = 0.12
# The shares of that which an event takes that is looked up by a pair, and one that a walk of the flat matcher tests.
LOOKED_UP, TESTED = 0.4, 0.15
# And that of one which a loop over nested sub-queries goes through for nothing: where none is bound, it is 0.4 to 5.
PASSED_OVER = 0.4

# What the matcher's own loops do for each kind of pattern that nests no other.
OWN_NAMES: dict[type[PlanNode], str] = {
    Scan: "scan",
    MatchSequence: "array-stacks",
    MatchConjunction: "time-join",
    MatchAlternatives: "merge",
    MatchRepeat: "lists",
    MatchRun: "runs",
}


@dataclass(frozen=True, slots=True)
class Weighed:
    """A sub-query in numbers: what its costs by any strategy are made of, over the whole stream."""

    own: str  # what the matcher does for it by itself
    negated: bool
    events: float  # that it looks at
    triggers: float  # events that complete an outer result
    outer: float  # outer results it is evaluated for
    strangers: float  # combinations of outer events with different keys, which loops over nested sub-queries do not know
    everything: float  # its instances
    in_interval: float  # those in the interval of one outer result
    tied: float  # and those of them that agree with that result
    steps: float  # what a walk touches to find the instances of an interval
    intervals: float  # that differ


@dataclass(frozen=True, slots=True)
class Costs:
    """The cost model of the sliding-views paper (section 7): instances over the whole stream.

    Paper            | Here
    |Si|             | `_in_window`: events of a type in one window
    Pt, P            | order: 1 / n! for n events; predicates: `_kept`
    C_compute        | `_steps`: partial and whole instances that a stack walk touches in an interval
    |S_q|            | `_found`: instances in an interval
    Ov               | what an interval shares with those of the triggers before it: all but the trigger's own share of the window
    """

    measured: Measurements
    window: float  # in ticks, or in events
    counts_events: bool
    partitions: int = 1  # each is a stream of its own, as long as the whole

    @staticmethod
    def of(plan: MatchPlan, measured: Measurements) -> Costs:
        partitions = prod(map(measured.values, plan.partition_by))
        window = float(ticks(plan.window, measured.unit))
        return Costs(measured, window, plan.window.counts_events, min(partitions, max(measured.statistics.n, 1)))

    def weigh(self, asked: Subquery) -> Weighed:
        """The numbers of one sub-query."""
        subquery, parent, negated = asked.node, asked.parent, asked.negated
        own = [slot for slot in parent.parts if isinstance(slot, Scan)]
        share = 1 / max(len(own), 1)  # of the window: the expected interval between two neighbours among the own events
        triggers = self._in_stream(own[-1]) if own else self._in_stream(subquery)
        combinations = triggers * self._product(own[:-1], 1.0) / factorial(max(len(own) - 1, 0))
        outer = max(combinations * self._kept(parent), 1.0)
        in_interval = self._found(subquery, share)
        first = min((self._found(part, share) for part in subquery.parts), default=in_interval)
        steps = self._steps(subquery, share)
        return Weighed(
            own=("candidates" if asked.tied else "latest-start") if negated else "once",
            negated=negated,
            events=self._in_stream(subquery),
            triggers=triggers,
            outer=outer,
            strangers=combinations * (1 - self._akin(parent, own)),
            everything=self._windows() * self._found(subquery, 1.0),
            in_interval=in_interval,
            tied=in_interval * self._tied(parent, subquery),
            steps=min(steps, first + steps * self._tied(parent, subquery)),
            intervals=min(outer, triggers * self._product(own[:-1], share) + 1),
        )

    def weigh_whole(self, pattern: PlanNode, loop: str) -> dict[str, float]:
        """Seconds for a pattern without sub-queries: in the matcher's own loops, without its key, and trigger by trigger."""
        events = self._in_stream(pattern)
        found = self._windows() * self._found(pattern, 1.0)
        steps = self._windows() * self._steps(pattern, 1.0)
        costs = {OWN_NAMES[type(pattern)]: FLAT * (events + found)}
        if isinstance(pattern, MatchSequence) and (pairs := pairs_of(pattern)):
            costs = {
                "array-stacks": FLAT * (events + found) + TESTED * self._walked(pattern, {}),
                PAIR_INDEX: LOOKED_UP * events + FLAT * found + TESTED * self._walked(pattern, indexed(pairs)),
            }
            costs = dict(sorted(costs.items(), key=lambda cost: cost[1]))
        if isinstance(pattern, MatchSequence | MatchConjunction) and pattern.key:
            costs["equality in the loop, no key"] = FLAT * (events + max(steps, found))
        costs[loop] = events + max(steps, found)
        return {name: INSTANCE * touched for name, touched in costs.items()}

    def _walked(self, node: MatchSequence, looked_up: Mapping[int, Pair]) -> float:
        """Events that a walk from the last slot to the first looks at, where those of some slots are looked up by a pair."""
        by_index = {clause for pair in looked_up.values() for clause in pair.clauses}
        total, chains = 0.0, 1.0
        for n, i in enumerate(reversed(range(len(node.slots))), start=1):
            shares = [self.measured.share(column[i], column[i + 1]) for column in node.key if n > 1]
            if i in looked_up:
                shares += [self.measured.share(*values) for values in looked_up[i].values]
            chains *= self._found(node.slots[i], 1.0) / n * prod(shares)
            total += chains
            tested = [clause for clause in node.clauses if min(slots_of(clause)) == i and clause not in by_index]
            chains *= prod(map(self._share, tested))
        return self._windows() * total

    def _share(self, clause: Clause) -> float:
        """The share of combinations that a clause keeps: a third where it is no equality."""
        atom = clause[0]
        equal = len(clause) == 1 and isinstance(atom, Atom) and atom.op == "="
        return self.measured.share(atom.left, atom.right) if equal and isinstance(atom, Atom) else 1 / 3

    def _in_stream(self, node: PlanNode) -> float:
        if isinstance(node, Scan):
            return float(self.measured.statistics.count(node.types))
        return sum(map(self._in_stream, node.parts))

    def _windows(self) -> float:
        """How many windows the stream is long, or all its partitions together are."""
        length = self.measured.statistics.n / self.partitions if self.counts_events else self.measured.statistics.span
        return self.partitions * max(length / max(self.window, 1.0), 1.0)

    def _in_window(self, scan: Scan) -> float:
        return self.measured.statistics.count(scan.types) / self._windows() * 0.5 ** len(scan.filters)

    def _product(self, nodes: Iterable[PlanNode], share: float) -> float:
        return prod((self._found(node, share) for node in nodes), start=1.0)

    def _found(self, node: PlanNode, share: float) -> float:
        """Instances in an interval that is this share of a window."""
        match node:
            case Scan():
                return self._in_window(node) * share
            case MatchAlternatives():
                return sum(self._found(branch, share) for branch in node.branches)
            case MatchRun():
                return self._found(node.parts[0], share)  # at most one for each start
            case MatchRepeat():
                n_keys = 1 / min((self.measured.share(value, value) for value in node.key), default=1.0)
                return n_keys * _lists(node, self._found(node.item, share) / n_keys)
            case MatchSequence() | MatchConjunction():
                orders = factorial(len(node.slots)) if isinstance(node, MatchSequence) else 1
                return self._product(node.slots, share) / orders * self._kept(node)
            case _:
                assert_never(node)

    def _kept(self, node: PlanNode) -> float:
        """The share of combinations of a node's parts that its predicates keep; a third for each that is not an equality."""
        if isinstance(node, Scan | MatchAlternatives | MatchRepeat | MatchRun):
            return 1.0
        shares = [self.measured.share(a, b) for column in node.key for a, b in pairwise(column)]
        for clause in node.clauses:
            atom = clause[0]
            if len(clause) > 1 or not isinstance(atom, Atom) or atom.op != "=":
                shares.append(1 / 3)
            elif all(isinstance(node.slots[i], Scan) for i in (atom.left_slot, atom.right_slot)):
                shares.append(self.measured.share(atom.left, atom.right))
        if isinstance(node, MatchSequence):
            shares += [self._spared(gap, node) for gap in node.gaps if 0 < gap.position < len(node.slots)]
        return prod(shares) * (1 / 3) ** len(node.filters)

    def _spared(self, gap: Gap, node: MatchSequence) -> float:
        """The share of neighbours with no instance of a negated part between them: only those up to the next one."""
        absent = self._found(gap.instance, 1.0) * (1.0 if gap.key is None else prod(self.measured.share(v, v) for v in gap.key))
        return min(1.0, len(node.slots) / max(absent, 1.0))

    def _akin(self, parent: PlanNode, own: Sequence[Scan]) -> float:
        """The share of combinations of a node's own events that have one key."""
        columns = parent.key if isinstance(parent, MatchSequence | MatchConjunction) else ()
        return prod(self.measured.share(column[0], column[-1]) ** max(len(own) - 1, 0) for column in columns)

    def _tied(self, parent: PlanNode, subquery: PlanNode) -> float:
        """The share of a sub-query's instances that agree with one outer result, by equalities that are not part of a key."""
        if isinstance(parent, Scan | MatchAlternatives | MatchRepeat | MatchRun) or subquery not in parent.slots:
            return 1.0
        atoms = [clause[0] for clause in parent.clauses if len(clause) == 1]
        position = parent.slots.index(subquery)
        return prod(
            self.measured.share(atom.left, atom.right)
            for atom in atoms
            if isinstance(atom, Atom) and atom.op == "=" and position in (atom.left_slot, atom.right_slot)
        )

    def _steps(self, node: PlanNode, share: float) -> float:
        """What a walk touches to find them: every chain from the last event on (Equation 1)."""
        if isinstance(node, Scan):
            return self._in_window(node) * share
        if isinstance(node, MatchAlternatives):
            return sum(self._steps(branch, share) for branch in node.branches)
        if isinstance(node, MatchRepeat | MatchRun):
            return self._found(node, share)
        total, chains = 0.0, 1.0
        for n, slot in enumerate(reversed(node.slots), start=1):
            chains *= self._found(slot, share) / (n if isinstance(node, MatchSequence) else 1)
            total += chains
        return total + sum(self._steps(slot, share) for slot in node.slots if not isinstance(slot, Scan))


def _lists(node: MatchRepeat, n_events: float) -> float:
    """How many lists so many events make: of neighbours, a third remain for each condition between them."""
    kept = (1 / 3) ** len(node.steps)
    total, of_length, length = 0.0, 1.0, 0
    while of_length and length != node.most and total < COUNTLESS:
        length += 1
        of_length = min(of_length * max(n_events - length + 1, 0.0) / length * (kept if length > 1 else 1.0), COUNTLESS)
        total += of_length if length >= node.least else 0.0
    return min(total, COUNTLESS)
