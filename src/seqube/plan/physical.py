"""What the engine does, as frozen data: a tree of nodes that say which arrays to build and which loops to run over them.

A plan is made once, is pickled to Spark workers as it is, and knows neither rows nor type codes: names of types, variables and
columns only. Every node binds variables to rows; its `filters` are predicates over those variables that no earlier step could
take.

    Scan              rows of some types that pass their own predicates
    MatchSequence     one instance of every slot, in strict order (a loop over array stacks)
    MatchConjunction  one instance of every slot, in any order
    MatchAlternatives an instance of any branch; variables may be shared by branches (parts that may be absent make such)
    MatchRepeat       every list of events of a scan, each after the one before
    MatchRun          NEXT and STRICT: for every start the first, or the preferred, way through its parts
    Absence           what must not be there: inside a MatchSequence as a `gap` (one number per event), else checked per match

Every node says the same five things of itself, so that nobody has to ask which kind it is to look through a plan:

    parts       the nodes whose instances it is made of
    absent      the nodes of which it forbids an instance
    predicates  what it asks of its events itself, equalities of its key included; not what its parts ask
    binds       the variables of an instance, in pattern order
    may_end     the scans whose event can be the last one of an instance
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain, pairwise
from typing import assert_never

from seqube.errors import PlanError
from seqube.events.schema import UNITS
from seqube.language.tree import Attribute, Comparison, ComparisonOp, Emit, Output, Predicate, Skip, Value, Window

ALL_OF_TIME = 2**63 - 1  # ticks: all of time

# What the matcher does by itself, from the inside out: for whole patterns, and for sub-queries.
PAIR_INDEX = "pair-index"
OWN_WAYS = ("scan", "array-stacks", PAIR_INDEX, "time-join", "merge", "lists", "runs", "latest-start", "candidates", "once")


@dataclass(frozen=True, slots=True)
class Scan:
    """The events of one variable: their type is one of `types`, and they pass `filters`, which name this variable alone."""

    variable: str
    name: str  # as written in the pattern
    types: frozenset[str]  # that name and everything below it in the hierarchy
    filters: tuple[Predicate, ...] = ()

    @property
    def parts(self) -> tuple[PlanNode, ...]:
        return ()

    @property
    def absent(self) -> tuple[PlanNode, ...]:
        return ()

    @property
    def predicates(self) -> tuple[Predicate, ...]:
        return self.filters

    @property
    def binds(self) -> tuple[str, ...]:
        return (self.variable,)

    @property
    def may_end(self) -> tuple[Scan, ...]:
        return (self,)


@dataclass(frozen=True, slots=True)
class Atom:
    """One test inside a loop: a value of one slot against a value of another."""

    op: ComparisonOp
    left_slot: int
    left: Value
    right_slot: int
    right: Value

    @property
    def predicate(self) -> Predicate:
        return Comparison(self.op, self.left, self.right)

    @property
    def slots(self) -> frozenset[int]:
        return frozenset({self.left_slot, self.right_slot})


@dataclass(frozen=True, slots=True)
class LocalAtom:
    """A test of one slot alone that stands in an OR with tests of others."""

    slot: int
    predicate: Predicate

    @property
    def slots(self) -> frozenset[int]:
        return frozenset({self.slot})


Clause = tuple[Atom | LocalAtom, ...]  # true when any of its atoms is true

# One column of a key: the value that each slot must agree on, in slot order.
KeyColumn = tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Guarded:
    """A predicate that was lifted out of an OR branch: it holds for matches that bind one of `when`, others pass."""

    predicate: Predicate
    when: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Scope:
    """Where a cancelling instance may lie. A side that is None is inherited from where the enclosing expression stands.

    So is one that `may_inherit`, where none of its variables is bound: the parts on that side may all be absent.
    `after`: it starts after the end of these variables; `before`: it ends before their start. `around` (a negation in AND): it
    ends no later than these variables end and starts within the window that ends there, on top of what is inherited.
    """

    after: tuple[str, ...] | None = None
    before: tuple[str, ...] | None = None
    around: tuple[str, ...] | None = None
    after_may_inherit: bool = False
    before_may_inherit: bool = False


@dataclass(frozen=True, slots=True)
class Link:
    """A correlated equality: only instances whose `inner` equals the match's `outer` can cancel it."""

    inner: Value
    outer: Value


@dataclass(frozen=True, slots=True)
class Absence:
    """A negated expression, checked match by match.

    It cancels when an instance lies in the scope, agrees on the links, passes `filters`, and is itself not cancelled by `checks`
    (negations inside it whose scope or predicates reach outside of it).
    """

    instance: PlanNode
    scope: Scope
    links: tuple[Link, ...] = ()
    filters: tuple[Guarded, ...] = ()
    checks: tuple[Absence, ...] = ()
    when: frozenset[str] = frozenset()  # applies to matches that bind one of these (an OR branch that was taken)

    @property
    def predicates(self) -> tuple[Predicate, ...]:
        """What ties an instance to the match it cancels."""
        links = (Comparison("=", link.inner, link.outer) for link in self.links)
        return (*links, *(guarded.predicate for guarded in self.filters))


@dataclass(frozen=True, slots=True)
class Gap:
    """A negation that one number per event answers: no instance between slot `position - 1` and slot `position`.

    Position 0 stands before the first slot, the number of slots after the last. With `key`, only instances of the same key count.
    """

    position: int
    instance: PlanNode
    key: tuple[Value, ...] | None = None  # in the order of the sequence's key columns; None: instances of any key cancel


@dataclass(frozen=True, slots=True)
class MatchSequence:
    slots: tuple[PlanNode, ...]
    clauses: tuple[Clause, ...] = ()
    key: tuple[KeyColumn, ...] = ()
    gaps: tuple[Gap, ...] = ()
    filters: tuple[Guarded, ...] = ()

    @property
    def parts(self) -> tuple[PlanNode, ...]:
        return self.slots

    @property
    def absent(self) -> tuple[PlanNode, ...]:
        return tuple(gap.instance for gap in self.gaps)

    @property
    def predicates(self) -> tuple[Predicate, ...]:
        tied = (
            Comparison("=", value, column[0]) for gap in self.gaps for value, column in zip(gap.key or (), self.key, strict=False)
        )
        return (*_joining(self), *tied)

    @property
    def binds(self) -> tuple[str, ...]:
        return _all_bound(self)

    @property
    def may_end(self) -> tuple[Scan, ...]:
        return self.slots[-1].may_end


@dataclass(frozen=True, slots=True)
class MatchConjunction:
    slots: tuple[PlanNode, ...]
    clauses: tuple[Clause, ...] = ()
    key: tuple[KeyColumn, ...] = ()
    filters: tuple[Guarded, ...] = ()

    @property
    def parts(self) -> tuple[PlanNode, ...]:
        return self.slots

    @property
    def absent(self) -> tuple[PlanNode, ...]:
        return ()

    @property
    def predicates(self) -> tuple[Predicate, ...]:
        return _joining(self)

    @property
    def binds(self) -> tuple[str, ...]:
        return _all_bound(self)

    @property
    def may_end(self) -> tuple[Scan, ...]:
        return tuple(scan for slot in self.slots for scan in slot.may_end)


@dataclass(frozen=True, slots=True)
class MatchAlternatives:
    branches: tuple[PlanNode, ...]
    filters: tuple[Guarded, ...] = ()

    @property
    def parts(self) -> tuple[PlanNode, ...]:
        return self.branches

    @property
    def absent(self) -> tuple[PlanNode, ...]:
        return ()

    @property
    def predicates(self) -> tuple[Predicate, ...]:
        return tuple(guarded.predicate for guarded in self.filters)

    @property
    def binds(self) -> tuple[str, ...]:
        return _all_bound(self)

    @property
    def may_end(self) -> tuple[Scan, ...]:
        return tuple(scan for branch in self.branches for scan in branch.may_end)


@dataclass(frozen=True, slots=True)
class MatchRepeat:
    """Every list of `least` to `most` events of a scan, each after the one before, with equal values of `key`.

    `steps` are asked of each event but the first and the one before it, as the list grows.
    """

    item: Scan
    least: int
    most: int | None
    is_single: bool = False  # of an optional part: not a list but an event, where it is there
    key: tuple[Value, ...] = ()
    steps: tuple[Predicate, ...] = ()
    filters: tuple[Guarded, ...] = ()

    @property
    def parts(self) -> tuple[PlanNode, ...]:
        return (self.item,)

    @property
    def absent(self) -> tuple[PlanNode, ...]:
        return ()

    @property
    def predicates(self) -> tuple[Predicate, ...]:
        same = (Comparison("=", value, value) for value in self.key)
        return (*same, *self.steps, *(guarded.predicate for guarded in self.filters))

    @property
    def binds(self) -> tuple[str, ...]:
        return self.item.binds

    @property
    def may_end(self) -> tuple[Scan, ...]:
        return self.item.may_end


@dataclass(frozen=True, slots=True)
class RunStep:
    """A part of a run: the events it takes (an earlier scan before a later one), and how many."""

    scans: tuple[Scan, ...]
    least: int = 1
    most: int | None = 1
    is_reluctant: bool = False
    is_repeated: bool = False  # it carries a quantifier, so that it binds a list
    is_single: bool = False  # of an optional part: not a list but an event, where it is there

    @property
    def may_vary(self) -> bool:
        return self.least != self.most


@dataclass(frozen=True, slots=True)
class MatchRun:
    """NEXT or, if strict, STRICT: for every start at most one instance. All its events agree on `key`.

    `asked` are predicates over several events, or lists, of the run: they decide which event it takes.
    """

    steps: tuple[RunStep, ...]
    is_strict: bool = False
    asked: tuple[Predicate, ...] = ()
    key: tuple[str, ...] = ()
    filters: tuple[Guarded, ...] = ()

    @property
    def parts(self) -> tuple[PlanNode, ...]:
        return tuple(scan for step in self.steps for scan in step.scans)

    @property
    def absent(self) -> tuple[PlanNode, ...]:
        return ()

    @property
    def predicates(self) -> tuple[Predicate, ...]:
        keyed = (Attribute(name, attribute) for name in self.binds for attribute in self.key)
        return (
            *(Comparison("=", value, value) for value in keyed),
            *self.asked,
            *(guarded.predicate for guarded in self.filters),
        )

    @property
    def binds(self) -> tuple[str, ...]:
        return _all_bound(self)

    @property
    def may_end(self) -> tuple[Scan, ...]:
        found: list[Scan] = []
        for step in reversed(self.steps):
            found += step.scans
            if step.least > 0:
                break
        return tuple(found)

    @property
    def has_single_parts(self) -> bool:
        """Whether its parts are one event of one variable each."""
        return all(len(step.scans) == 1 and not step.is_repeated for step in self.steps)

    @property
    def waits(self) -> bool:
        """Whether a run can be a match and still go on: it is known only when its window is over."""
        if self.is_strict:
            return any(step.may_vary for step in self.steps)
        for step in reversed(self.steps):
            if step.may_vary and not step.is_reluctant:
                return True
            if step.least > 0:
                break
        return False


PlanNode = Scan | MatchSequence | MatchConjunction | MatchAlternatives | MatchRepeat | MatchRun


def _all_bound(node: PlanNode) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for part in node.parts for name in part.binds))


def _joining(node: MatchSequence | MatchConjunction) -> tuple[Predicate, ...]:
    """What joins slots: clauses of the loop, the key, and filters."""
    clauses = (atom.predicate for clause in node.clauses for atom in clause)
    keys = (Comparison("=", left, right) for column in node.key for left, right in pairwise(column))
    return (*clauses, *keys, *(guarded.predicate for guarded in node.filters))


@dataclass(frozen=True, slots=True)
class Option:
    """A strategy that was weighed: its expected cost, or why there is none (it does not apply, say), and whether it was taken."""

    strategy: str
    seconds: float | None = None
    reason: str = ""
    is_taken: bool = False

    def __str__(self) -> str:
        cost = [] if self.seconds is None else [f"about {milliseconds(self.seconds)}"]
        told = [f"{'taken' if self.is_taken else 'rejected'}: {self.strategy}", *cost, *([self.reason] if self.reason else [])]
        return ", ".join(told)


def taking(strategy: str, options: Iterable[Option]) -> tuple[Option, ...]:
    """The options, of which this one is taken."""
    return tuple(replace(option, is_taken=option.strategy == strategy) for option in options)


def milliseconds(seconds: float) -> str:
    """A cost for people: to a tenth of a millisecond, below one to a microsecond, and what nobody waits for roughly."""
    if abs(seconds) >= 1e9:
        return f"{1e3 * seconds:.0e} ms"
    return f"{1e3 * seconds:,.{1 if abs(seconds) >= 1e-3 else 3}f} ms"


@dataclass(frozen=True, slots=True)
class Way:
    """How a sub-query, or the whole, is evaluated, and what else was weighed, where something was."""

    subquery: PlanNode
    strategy: str
    options: tuple[Option, ...] = ()


@dataclass(frozen=True, slots=True)
class MatchPlan:
    """A query that returns matches. `ways` says how its sub-queries are evaluated, where there is a choice."""

    pattern: PlanNode
    window: Window
    checks: tuple[Absence, ...] = ()
    partition_by: tuple[str, ...] = ()
    returns: tuple[Output, ...] = ()
    is_flat: bool = False  # the default columns without structs
    is_distinct: bool = False  # of equal rows, one
    limit: int | None = None  # so many rows at most
    ways: tuple[Way, ...] = ()
    order_by: tuple[str, ...] = ()  # columns that say what is after what among equal times
    skip: Skip | None = None
    # Of KEEP PARTIAL: for each check, how many parts of the run stand before that negation. None: only matches are kept.
    cut_at: tuple[int, ...] | None = None

    @property
    def keeps_partial(self) -> bool:
        return self.cut_at is not None

    @property
    def matches(self) -> MatchPlan:
        """The matches that a plan is about: its own, as those of an aggregate are the ones it is over."""
        return self

    @property
    def variables(self) -> tuple[str, ...]:
        return self.pattern.binds

    @property
    def is_nested(self) -> bool:
        """Whether sub-queries are evaluated outer first, each for the results of the expression around it."""
        return any(way.strategy not in OWN_WAYS for way in self.ways)

    @property
    def waits(self) -> bool:
        """A trailing negation, or a run that may go on: a match is final only when the window that began with it is over."""
        trailing_gap = isinstance(self.pattern, MatchSequence) and any(
            gap.position == len(self.pattern.slots) for gap in self.pattern.gaps
        )
        return (
            trailing_gap
            or self.keeps_partial
            or self.has_runs_that_wait
            or any(
                (check.scope.before is None or check.scope.before_may_inherit) and check.scope.around is None
                for check in self.checks
            )
        )

    @property
    def has_runs_that_wait(self) -> bool:
        return any(isinstance(node, MatchRun) and node.waits for node in walk(self))

    @property
    def waits_from_end(self) -> bool:
        """Whether a match is final only a window after its end.

        A run inside it (or negated) that waits may begin that late, and so may, with SKIP, a match that ends before it and waits.
        """
        if self.skip is not None and self.waits:
            return True
        return any(isinstance(node, MatchRun) and node.waits and node is not self.pattern for node in walk(self))

    @property
    def numbers_events(self) -> bool:
        """Whether the positions of events matter: for a window that counts them, and for consecutive ones."""
        return self.window.counts_events or any(isinstance(node, MatchRun) and node.is_strict for node in walk(self))

    @property
    def looks_back(self) -> bool:
        """A negation reaches back to a window before the match's end, so further than the match itself."""
        leading_gap = isinstance(self.pattern, MatchSequence) and any(gap.position == 0 for gap in self.pattern.gaps)
        return leading_gap or any(
            check.scope.after is None or check.scope.after_may_inherit or check.scope.around is not None for check in self.checks
        )

    @property
    def types(self) -> frozenset[str]:
        """All types that can take part in a match or cancel one."""
        return frozenset[str]().union(*(scan.types for scan in scans(self)))


def ticks(window: Window, unit: str) -> int:
    """A window in ticks of the time column, rounded up: `te - ts < W` holds for whole ticks exactly when it holds for W.

    A number of events stays that number; what is longer than all of time is as long as all of time.
    """
    length = -(-window.length * 1_000 // UNITS[unit]) if window.unit == "us" else window.length
    return min(length, ALL_OF_TIME)


def whole_ticks(emit: Emit, unit: str) -> int:
    """The period of EMIT EVERY or PER in ticks, which must be a whole number of them."""
    period = emit.period
    assert period is not None
    if period.unit == "us" and period.length * 1_000 % UNITS[unit]:
        raise PlanError(
            f"EMIT {emit.when.upper()} {period.length} us is not a whole number of {unit}, the unit of the events' times\n"
            f"  hint: report at whole {unit}, or give the times in a finer unit"
        )
    return ticks(period, unit)


# ---------------------------------------------------------------- looking through a plan


def walk(part: MatchPlan | Absence | PlanNode) -> Iterator[PlanNode]:
    """Every node of a plan, or below a node and with it, those of negations included; each before what it is made of."""
    match part:
        case MatchPlan():
            yield from walk(part.pattern)
            yield from chain.from_iterable(map(walk, part.checks))
        case Absence():
            yield from walk(part.instance)
            yield from chain.from_iterable(map(walk, part.checks))
        case Scan() | MatchSequence() | MatchConjunction() | MatchAlternatives() | MatchRepeat() | MatchRun():
            yield part
            yield from chain.from_iterable(map(walk, (*part.parts, *part.absent)))
        case _:
            assert_never(part)


def scans(part: MatchPlan | Absence | PlanNode) -> Iterator[Scan]:
    """Every scan of a plan or below a node, those of negations included."""
    return (node for node in walk(part) if isinstance(node, Scan))


@lru_cache(maxsize=4096)
def list_variables(node: PlanNode) -> dict[str, bool]:
    """The variables below a node that stand for lists, and whether for at most one event; the caller changes nothing in it."""
    found: dict[str, bool] = {}
    for each in walk(node):
        if isinstance(each, MatchRepeat):
            found[each.item.variable] = each.is_single
        elif isinstance(each, MatchRun):
            found |= {scan.variable: step.is_single for step in each.steps if step.is_repeated for scan in step.scans}
    return found


def all_checks(part: MatchPlan | Absence) -> Iterator[Absence]:
    """Every negation that is checked match by match, with those inside it."""
    for check in part.checks:
        yield check
        yield from all_checks(check)


def predicates(plan: MatchPlan) -> Iterator[Predicate]:
    """Everything that a plan asks of its events."""
    for node in walk(plan):
        yield from node.predicates
    for check in all_checks(plan):
        yield from check.predicates
