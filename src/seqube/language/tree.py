"""The language's trees: patterns, values and predicates, and the query that holds them.

All nodes are frozen dataclasses, equal when they mean the same text; `at` (their place in the source) does not take part in
equality. The parser builds these nodes with names as they were written, the binder returns the same kinds of nodes with every name
resolved: a bound tree has a variable on every `Type`, no `Chain`, and its predicates split into conjuncts.

Patterns are the language's own words (`Seq`, `And`, `Or`, `Not`); the logic of predicates has other names (`AllOf`, `AnyOf`,
`Inverse`), so that the two never mix.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal as OneOf

from seqube.errors import Span

ComparisonOp = OneOf["=", "!=", "<", "<=", ">", ">="]
ArithmeticOp = OneOf["+", "-", "*", "/", "%"]
AggregateFunction = OneOf["COUNT", "SUM", "AVG", "MIN", "MAX"]

TYPE_ATTRIBUTE = "type"  # v.type and v.ts are always there, whatever the columns are called
TIME_ATTRIBUTE = "ts"


def _place() -> Span | None:
    return field(default=None, compare=False, repr=False)


# ---------------------------------------------------------------- values


@dataclass(frozen=True, slots=True)
class Literal:
    """A number, a string, TRUE, FALSE or NULL."""

    value: int | float | str | bool | None
    at: Span | None = _place()


@dataclass(frozen=True, slots=True)
class Duration:
    """A length of time in a predicate or RETURN (`o.ts - r.ts < 10 min`), in microseconds."""

    microseconds: int
    at: Span | None = _place()


@dataclass(frozen=True, slots=True)
class Attribute:
    """`r.id`. A bare name (a partition key in GROUP BY or RETURN, an aggregate's name in HAVING) has `variable` None."""

    variable: str | None
    name: str
    at: Span | None = _place()


@dataclass(frozen=True, slots=True)
class Arithmetic:
    op: ArithmeticOp
    left: Value
    right: Value
    at: Span | None = _place()


@dataclass(frozen=True, slots=True)
class Minus:
    """Unary minus of something that is not a plain number."""

    operand: Value
    at: Span | None = _place()


@dataclass(frozen=True, slots=True)
class Aggregate:
    """`COUNT(*)` (argument None) or `SUM(v.x)`; only in AGG and HAVING."""

    function: AggregateFunction
    argument: Attribute | None
    at: Span | None = _place()


@dataclass(frozen=True, slots=True)
class FirstOf:
    """The first of these values whose variable is bound. Nobody writes it: planning makes it where `[id]` reaches into an OR."""

    values: tuple[Value, ...]
    at: Span | None = _place()


Value = Literal | Duration | Attribute | Arithmetic | Minus | Aggregate | FirstOf

# ---------------------------------------------------------------- predicates


@dataclass(frozen=True, slots=True)
class Comparison:
    op: ComparisonOp
    left: Value
    right: Value
    at: Span | None = _place()


@dataclass(frozen=True, slots=True)
class Chain:
    """`a.id = b.id = c.id` as written; the binder turns it into `Comparison`s of neighbours."""

    operands: tuple[Value, ...]
    at: Span | None = _place()


@dataclass(frozen=True, slots=True)
class Among:
    """`x IN (1, 2)` and `x NOT IN (1, 2)`."""

    operand: Value
    values: tuple[Literal, ...]
    negated: bool = False
    at: Span | None = _place()


@dataclass(frozen=True, slots=True)
class Between:
    operand: Value
    low: Value
    high: Value
    negated: bool = False
    at: Span | None = _place()


@dataclass(frozen=True, slots=True)
class IsNull:
    operand: Value
    negated: bool = False
    at: Span | None = _place()


@dataclass(frozen=True, slots=True)
class IsTrue:
    """A boolean value used as a predicate: `c.infusion`, `TRUE`."""

    operand: Value
    at: Span | None = _place()


@dataclass(frozen=True, slots=True)
class AllOf:
    """Predicates joined by AND (two or more)."""

    parts: tuple[Predicate, ...]
    at: Span | None = _place()


@dataclass(frozen=True, slots=True)
class AnyOf:
    """Predicates joined by OR (two or more)."""

    parts: tuple[Predicate, ...]
    at: Span | None = _place()


@dataclass(frozen=True, slots=True)
class Inverse:
    """NOT of a predicate, by SQL's three-valued logic: unknown stays unknown."""

    part: Predicate
    at: Span | None = _place()


@dataclass(frozen=True, slots=True)
class Same:
    """`[id]`: equal `id` on all components of the operator (or query) it stands in, negated ones included.

    It binds the events that are there: a variable of an OR branch not taken takes no part.
    """

    attribute: str
    at: Span | None = _place()


Predicate = Comparison | Chain | Among | Between | IsNull | IsTrue | AllOf | AnyOf | Inverse | Same

# ---------------------------------------------------------------- patterns


@dataclass(frozen=True, slots=True)
class Type:
    """One event of a type, or of any type below it in the hierarchy. Bound trees always have a variable."""

    name: str
    variable: str | None = None
    at: Span | None = _place()


@dataclass(frozen=True, slots=True)
class Seq:
    parts: tuple[Part, ...]
    where: tuple[Predicate, ...] = ()
    at: Span | None = _place()


@dataclass(frozen=True, slots=True)
class And:
    parts: tuple[Part, ...]
    where: tuple[Predicate, ...] = ()
    at: Span | None = _place()


@dataclass(frozen=True, slots=True)
class Or:
    parts: tuple[Pattern, ...]
    where: tuple[Predicate, ...] = ()
    at: Span | None = _place()


@dataclass(frozen=True, slots=True)
class Not:
    """A negated component of SEQ or AND; never the whole pattern, never directly inside OR or another Not."""

    part: Pattern
    at: Span | None = _place()


Pattern = Type | Seq | And | Or
Part = Pattern | Not

# ---------------------------------------------------------------- query


@dataclass(frozen=True, slots=True)
class Window:
    """The length of a window or of EMIT EVERY: in microseconds (`us`), in the time column's own unit (`ticks`), or in `events`."""

    length: int
    unit: OneOf["us", "ticks", "events"]
    at: Span | None = _place()


@dataclass(frozen=True, slots=True)
class Emit:
    """When aggregates are reported. `every` is the period of EMIT EVERY."""

    when: OneOf["trigger", "every", "total"]
    every: Window | None = None
    at: Span | None = _place()


@dataclass(frozen=True, slots=True)
class Output:
    """One column of the result: what it holds and what it is called. Bound trees always have a name."""

    value: Value
    name: str | None = None
    at: Span | None = _place()


@dataclass(frozen=True, slots=True)
class Query:
    """A query whose names are bound, as `parse` gives it. `str(query)` is its canonical text, which parses back to an equal query.

    >>> query = sq.parse("seq(A, B, [id]) within 300 s")
    >>> print(query)
    PATTERN SEQ(A, B, [id])
    WITHIN 5 min
    >>> sq.parse(str(query)) == query
    True
    """

    pattern: Pattern
    window: Window
    where: tuple[Predicate, ...] = ()
    partition_by: tuple[str, ...] = ()
    group_by: tuple[Attribute, ...] = ()
    aggregates: tuple[Output, ...] = ()
    having: tuple[Predicate, ...] = ()
    emit: Emit | None = None  # bound: set exactly when there are aggregates
    returns: tuple[Output, ...] = ()
    source: str = field(default="", compare=False, repr=False)

    def __str__(self) -> str:
        from seqube.language.writer import write

        return write(self)


# ---------------------------------------------------------------- walks


def leaves(part: Part) -> Iterator[Type]:
    """The types of a pattern from left to right, negated ones included."""
    if isinstance(part, Type):
        yield part
    elif isinstance(part, Not):
        yield from leaves(part.part)
    else:
        for child in part.parts:
            yield from leaves(child)


def positives(part: Part) -> Iterator[Type]:
    """The types that a match of `part` binds: those under no negation inside it."""
    if isinstance(part, Type):
        yield part
    elif not isinstance(part, Not):
        for child in part.parts:
            yield from positives(child)


def attributes(node: Value | Predicate) -> Iterator[Attribute]:
    """Every attribute that a value or predicate names, from left to right. `Same` names none by itself."""
    match node:
        case Attribute():
            yield node
        case Arithmetic(_, left, right) | Comparison(_, left, right):
            yield from attributes(left)
            yield from attributes(right)
        case Minus(operand) | Among(operand) | IsNull(operand) | IsTrue(operand):
            yield from attributes(operand)
        case Between(operand, low, high):
            for value in (operand, low, high):
                yield from attributes(value)
        case AllOf(parts) | AnyOf(parts) | Chain(parts) | FirstOf(parts):
            for part in parts:
                yield from attributes(part)
        case Inverse(part):
            yield from attributes(part)
        case Aggregate(_, argument) if argument is not None:
            yield argument
