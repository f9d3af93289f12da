"""The clause's trees: row patterns, what a value asks of the rows of a match, and the clause that holds them.

All nodes are frozen. A bound value is an ordinary value of the language (`seqube.language.tree`) over columns that it names, its
*frames*: what stood in the text as `price`, `PREV(price)`, `LAST(down.price, 1)` or `AVG(down.price)` is an attribute, and the
frame of its name says how the column is made of the rows of a match. Whoever evaluates makes the columns, and then
evaluates as ever.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal as OneOf
from typing import assert_never

from seqube.errors import Span
from seqube.language.tree import Predicate, Quantifier, Value

# ---------------------------------------------------------------- patterns


@dataclass(frozen=True, slots=True)
class Variable:
    """A row that the condition of this name holds of."""

    name: str
    at: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Concatenation:
    """One part after the other; without parts, the empty pattern."""

    parts: tuple[RowPattern, ...] = ()


@dataclass(frozen=True, slots=True)
class Alternation:
    """One of the parts; an earlier one is preferred."""

    parts: tuple[RowPattern, ...]


@dataclass(frozen=True, slots=True)
class Permutation:
    """All parts, in any order; the orders in which earlier parts come first are preferred."""

    parts: tuple[RowPattern, ...]
    at: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Repetition:
    part: RowPattern
    quantifier: Quantifier


@dataclass(frozen=True, slots=True)
class Exclusion:
    """`{- ... -}`: rows that belong to the match and are not shown."""

    part: RowPattern
    at: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Anchor:
    """The start (`^`) or the end (`$`) of the partition."""

    where: OneOf["^", "$"]


RowPattern = Variable | Concatenation | Alternation | Permutation | Repetition | Exclusion | Anchor


def parts_of(pattern: RowPattern) -> tuple[RowPattern, ...]:
    """What stands directly below a node of a pattern."""
    match pattern:
        case Variable() | Anchor():
            return ()
        case Concatenation() | Alternation() | Permutation():
            return pattern.parts
        case Repetition() | Exclusion():
            return (pattern.part,)
        case _:
            assert_never(pattern)


def walk_pattern(pattern: RowPattern) -> Iterator[RowPattern]:
    """The node and everything below it, from left to right."""
    yield pattern
    for part in parts_of(pattern):
        yield from walk_pattern(part)


# ---------------------------------------------------------------- what is asked of the rows of a match


@dataclass(frozen=True, slots=True)
class Navigation:
    """A value of one row: of the rows of some variables the first or last, so many further, and from there so many rows on.

    `value` is over the columns of a table and those that `OF_MATCH` names; None stands for CLASSIFIER() alone.
    """

    value: Value | None
    variables: frozenset[str] | None  # None: of whatever variable
    end: OneOf["FIRST", "LAST"] = "LAST"
    logical: int = 0
    physical: int = 0
    final: bool = False


@dataclass(frozen=True, slots=True)
class RowFold:
    """An aggregate over the rows of some variables."""

    function: str
    argument: Value | None  # None: COUNT(*), which counts rows
    variables: frozenset[str] | None
    distinct: bool = False
    final: bool = False
    second: Value | None = None  # what MAX_BY compares, what LISTAGG puts between


@dataclass(frozen=True, slots=True)
class MatchNumber:
    """The number of the match in its partition, from 1."""


Frame = Navigation | RowFold | MatchNumber

CLASSIFIER = "CLASSIFIER()"  # the column of variables, among those of a table
NUMBER_OF_MATCH = "MATCH_NUMBER()"  # and that of the match's number
OF_MATCH = frozenset({CLASSIFIER, NUMBER_OF_MATCH})  # what a table does not hold


@dataclass(frozen=True, slots=True)
class Expression:
    """A value or a predicate over columns, and what these are."""

    root: Value | Predicate
    frames: tuple[tuple[str, Frame], ...]


# ---------------------------------------------------------------- the clause

RowsShown = OneOf["one", "show", "omit", "unmatched"]


@dataclass(frozen=True, slots=True)
class Ordered:
    """A column of ORDER BY."""

    column: str
    descending: bool = False
    nulls_first: bool = False


@dataclass(frozen=True, slots=True)
class RowSkip:
    """Where the search goes on after a match. `variables` are those of FIRST and LAST, a subset's or one."""

    to: OneOf["PAST LAST", "NEXT", "FIRST", "LAST"] = "PAST LAST"
    variables: frozenset[str] = frozenset()
    name: str = ""
    at: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class RowClause:
    """A bound MATCH_RECOGNIZE clause: every name is resolved, the columns' against the table it is for."""

    pattern: RowPattern
    partition_by: tuple[str, ...] = ()
    order_by: tuple[Ordered, ...] = ()
    measures: tuple[tuple[str, Expression], ...] = ()
    shown: RowsShown = "one"
    skip: RowSkip = RowSkip()
    within: int | float | None = None  # microseconds, or a number where rows are in the order of one
    definitions: tuple[tuple[str, Expression], ...] = ()
    variables: tuple[str, ...] = ()  # of the pattern, in the order in which they stand there
    columns: tuple[str, ...] = ()  # of the table
    source: str = field(default="", compare=False, repr=False)

    @property
    def output(self) -> tuple[str, ...]:
        """The columns of the table that a result has beside the measures: before them, then behind them."""
        return (*self.leading, *self.trailing)

    @property
    def leading(self) -> tuple[str, ...]:
        if self.shown == "one":
            return self.partition_by
        return tuple(dict.fromkeys((*self.partition_by, *(each.column for each in self.order_by))))

    @property
    def trailing(self) -> tuple[str, ...]:
        return () if self.shown == "one" else tuple(name for name in self.columns if name not in self.leading)
