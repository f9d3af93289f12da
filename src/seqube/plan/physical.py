"""What the engine does, as frozen data: a tree of nodes that say which arrays to build and which loops to run over them.

A plan is made once, is pickled to Spark workers as it is, and knows neither rows nor type codes: names of types, variables and
columns only. Every node binds variables to rows; its `filters` are predicates over those variables that no earlier step could
take.

    Scan              rows of some types that pass their own predicates
    MatchSequence     one instance of every slot, in strict order (a loop over array stacks)
    MatchConjunction  one instance of every slot, in any order
    MatchAlternatives an instance of any branch
    Absence           what must not be there: inside a MatchSequence as a `gap` (one number per event), else checked per match
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from seqube.language.tree import ComparisonOp, Output, Predicate, Value, Window

# What the matcher does by itself, from the inside out: for whole patterns, and for sub-queries.
OWN_WAYS = ("scan", "array-stacks", "time-join", "merge", "latest-start", "candidates", "once")


@dataclass(frozen=True, slots=True)
class Scan:
    """The events of one variable: their type is one of `types`, and they pass `filters`, which name this variable alone."""

    variable: str
    name: str  # as written in the pattern
    types: frozenset[str]  # that name and everything below it in the hierarchy
    filters: tuple[Predicate, ...] = ()


@dataclass(frozen=True, slots=True)
class Atom:
    """One test inside a loop: a value of one slot against a value of another."""

    op: ComparisonOp
    left_slot: int
    left: Value
    right_slot: int
    right: Value


@dataclass(frozen=True, slots=True)
class LocalAtom:
    """A test of one slot alone that stands in an OR with tests of others."""

    slot: int
    predicate: Predicate


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

    `after`: it starts after the end of these variables; `before`: it ends before their start. `around` (a negation in AND): it
    ends no later than these variables end and starts within the window that ends there, on top of what is inherited.
    """

    after: tuple[str, ...] | None = None
    before: tuple[str, ...] | None = None
    around: tuple[str, ...] | None = None


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

    instance: Node
    scope: Scope
    links: tuple[Link, ...] = ()
    filters: tuple[Guarded, ...] = ()
    checks: tuple[Absence, ...] = ()
    when: frozenset[str] = frozenset()  # applies to matches that bind one of these (an OR branch that was taken)


@dataclass(frozen=True, slots=True)
class Gap:
    """A negation that one number per event answers: no instance between slot `position - 1` and slot `position`.

    Position 0 stands before the first slot, the number of slots after the last. With `key`, only instances of the same key count.
    """

    position: int
    instance: Node
    key: tuple[Value, ...] | None = None  # in the order of the sequence's key columns; None: instances of any key cancel


@dataclass(frozen=True, slots=True)
class MatchSequence:
    slots: tuple[Node, ...]
    clauses: tuple[Clause, ...] = ()
    key: tuple[KeyColumn, ...] = ()
    gaps: tuple[Gap, ...] = ()
    filters: tuple[Guarded, ...] = ()


@dataclass(frozen=True, slots=True)
class MatchConjunction:
    slots: tuple[Node, ...]
    clauses: tuple[Clause, ...] = ()
    key: tuple[KeyColumn, ...] = ()
    filters: tuple[Guarded, ...] = ()


@dataclass(frozen=True, slots=True)
class MatchAlternatives:
    branches: tuple[Node, ...]
    filters: tuple[Guarded, ...] = ()


Node = Scan | MatchSequence | MatchConjunction | MatchAlternatives


@dataclass(frozen=True, slots=True)
class Way:
    """How a sub-query, or the whole, is evaluated, and what each way was estimated to cost (in instances touched), where known."""

    subquery: Node
    strategy: str
    costs: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class MatchPlan:
    """A query that returns matches. `ways` says how its sub-queries are evaluated, where there is a choice."""

    pattern: Node
    window: Window
    checks: tuple[Absence, ...] = ()
    partition_by: tuple[str, ...] = ()
    returns: tuple[Output, ...] = ()
    ways: tuple[Way, ...] = ()

    @property
    def variables(self) -> tuple[str, ...]:
        return variables(self.pattern)

    @property
    def is_nested(self) -> bool:
        """Whether sub-queries are evaluated outer first, each for the results of the expression around it."""
        return any(way.strategy not in OWN_WAYS for way in self.ways)

    @property
    def waits(self) -> bool:
        """A trailing negation: a match is final only when the window that began with it is over."""
        trailing_gap = isinstance(self.pattern, MatchSequence) and any(
            gap.position == len(self.pattern.slots) for gap in self.pattern.gaps
        )
        return trailing_gap or any(check.scope.before is None and check.scope.around is None for check in self.checks)

    @property
    def looks_back(self) -> bool:
        """A negation reaches back to a window before the match's end, so further than the match itself."""
        leading_gap = isinstance(self.pattern, MatchSequence) and any(gap.position == 0 for gap in self.pattern.gaps)
        return leading_gap or any(check.scope.after is None or check.scope.around is not None for check in self.checks)

    @property
    def types(self) -> frozenset[str]:
        """All types that can take part in a match or cancel one."""
        return frozenset().union(*(scan.types for scan in scans(self)))


def variables(node: Node) -> tuple[str, ...]:
    """The variables that an instance of `node` binds, in pattern order."""
    match node:
        case Scan():
            return (node.variable,)
        case MatchAlternatives():
            return tuple(name for branch in node.branches for name in variables(branch))
        case _:
            return tuple(name for slot in node.slots for name in variables(slot))


def scans(node: MatchPlan | Node | Absence) -> Iterator[Scan]:
    """Every scan below a plan or node, those of negations included."""
    match node:
        case MatchPlan():
            yield from scans(node.pattern)
            for check in node.checks:
                yield from scans(check)
        case Absence():
            yield from scans(node.instance)
            for check in node.checks:
                yield from scans(check)
        case Scan():
            yield node
        case MatchAlternatives():
            for branch in node.branches:
                yield from scans(branch)
        case MatchSequence():
            for slot in node.slots:
                yield from scans(slot)
            for gap in node.gaps:
                yield from scans(gap.instance)
        case MatchConjunction():
            for slot in node.slots:
                yield from scans(slot)
