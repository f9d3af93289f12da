"""The language's trees: patterns, values and predicates, and the query that holds them.

All nodes are frozen dataclasses, equal when they mean the same text; `at` (their place in the source) does not take part in
equality. The parser builds these nodes with names as they were written, the binder returns the same kinds of nodes with every name
resolved: a bound tree has a variable on every `Type`, no `Chain`, and its predicates split into conjuncts.

Patterns are the language's own words (`Seq`, `Next`, `Strict`, `And`, `Or`, `Not`); the logic of predicates has other names
(`AllOf`, `AnyOf`, `Inverse`), so that the two never mix.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, assert_never
from typing import Literal as OneOf

from seqube.errors import Span

ComparisonOp = OneOf["=", "!=", "<", "<=", ">", ">="]
ArithmeticOp = OneOf["+", "-", "*", "/", "%"]

TYPE_ATTRIBUTE = "type"  # TYPE(v) and TIME(v) are always there, whatever the columns are called; v.type and v.ts are short for them
TIME_ATTRIBUTE = "ts"


def _place() -> Span | None:
    return field(default=None, compare=False, repr=False)


# ---------------------------------------------------------------- values


@dataclass(frozen=True, slots=True)
class Literal:
    """A number, a string, TRUE, FALSE or NULL; in SQL also a binary value."""

    value: int | float | str | bool | bytes | None
    at: Span | None = _place()


@dataclass(frozen=True, slots=True)
class Duration:
    """A length of time in a predicate or RETURN (`o.ts - r.ts < 10 min`), in microseconds."""

    microseconds: int
    at: Span | None = _place()


@dataclass(frozen=True, slots=True)
class Attribute:
    """`r.id`. A bare name (a partition key in GROUP BY or RETURN, an aggregate's name in HAVING) has `variable` None.

    The event's own type and time may be written `TYPE(r)` and `TIME(r)`: then they are `sure` to be no columns of that name, which
    are written `r."type"` (`events.schema.HIDDEN_COLUMNS`).
    """

    variable: str | None
    name: str
    at: Span | None = _place()
    sure: bool = field(default=False, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Parameter:
    """`:limit`: a value that is given when the query is run (`parameters.fill`)."""

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
    """`COUNT(*)` (argument None) or `AVG(b.ts - a.ts)`; only in AGG and HAVING. Which there are, `functions.AGGREGATES` says."""

    function: str
    argument: Value | None
    at: Span | None = _place()
    share: Value | None = None  # that of PERCENTILE, a constant


@dataclass(frozen=True, slots=True)
class Call:
    """A function of values: `ROUND(a.price, 2)`, and what has a form of its own, such as `a.name LIKE 'x%'` or CASE.

    `functions.VALUE_FUNCTIONS` says which there are. CASE has its conditions and values in turn, and last what ELSE gives.
    """

    function: str
    arguments: tuple[Value, ...]
    at: Span | None = _place()


@dataclass(frozen=True, slots=True)
class OfList:
    """`LAST(f.x)`: a value of the list that a repeated part binds. What functions there are, `functions.OF_LISTS` says.

    Of COUNT(f), which asks for no attribute, the argument is the time, which every event has.
    """

    function: str
    argument: Attribute
    at: Span | None = _place()


@dataclass(frozen=True, slots=True)
class Condition:
    """A predicate where a value stands: TRUE, FALSE, or NULL where it is unknown."""

    predicate: Predicate
    at: Span | None = _place()


@dataclass(frozen=True, slots=True)
class Prev:
    """`PREV(f.x)`: the value of the event before, in the list that a repeated part binds."""

    argument: Attribute
    at: Span | None = _place()


@dataclass(frozen=True, slots=True)
class FirstOf:
    """The first of these values whose variable is bound. Nobody writes it: planning makes it where `[id]` reaches into an OR."""

    values: tuple[Value, ...]
    at: Span | None = _place()


@dataclass(frozen=True, slots=True)
class AtLevel:
    """`a.type AT 1`, in GROUP BY alone: what stands above a type on that level of the hierarchy, 1 being that of the roots.

    A type that is not further down stays as it is. Planning, which knows the hierarchy, gives each that is its concept.
    """

    argument: Attribute
    level: int
    at: Span | None = _place()
    concepts: tuple[tuple[str, str], ...] = ()


Value = (
    Literal
    | Duration
    | Attribute
    | Parameter
    | Arithmetic
    | Minus
    | Aggregate
    | OfList
    | Prev
    | Call
    | Condition
    | FirstOf
    | AtLevel
)

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
    values: tuple[Literal | Parameter, ...]
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
class Quantifier:
    """How many events a part takes: `B+`, `B{2,5}`. `most` None: any number; a reluctant one (`B+?`) takes as few as it can."""

    least: int
    most: int | None
    reluctant: bool = False
    at: Span | None = _place()

    def __str__(self) -> str:
        least, most = self.least, self.most
        short = {(1, None): "+", (0, None): "*", (0, 1): "?", (least, least): f"{{{least}}}"}.get((least, most))
        return (short or f"{{{least},{'' if most is None else most}}}") + "?" * self.reluctant

    @property
    def is_optional(self) -> bool:
        """Whether the part may be absent."""
        return self.least == 0

    @property
    def is_list(self) -> bool:
        """Whether the variable stands for a list; that of `B?` stands for one event or null."""
        return (self.least, self.most) != (0, 1)


@dataclass(frozen=True, slots=True)
class Type:
    """One event of a type, or of any type below it in the hierarchy; with a quantifier, several.

    Bound trees always have a variable.
    """

    name: str
    variable: str | None = None
    quantifier: Quantifier | None = None
    at: Span | None = _place()

    @property
    def is_list(self) -> bool:
        return self.quantifier is not None and self.quantifier.is_list

    @property
    def is_optional(self) -> bool:
        return self.quantifier is not None and self.quantifier.is_optional


@dataclass(frozen=True, slots=True)
class Seq:
    parts: tuple[Part, ...]
    where: tuple[Predicate, ...] = ()
    at: Span | None = _place()


@dataclass(frozen=True, slots=True)
class Next:
    """The first event that fits, part by part: one match for each start. Its positive parts are types, or an OR of types."""

    parts: tuple[Part, ...]
    where: tuple[Predicate, ...] = ()
    at: Span | None = _place()


@dataclass(frozen=True, slots=True)
class Strict:
    """Consecutive events, part by part: one match for each start. Its positive parts are types, or an OR of types."""

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
    """A negated component of SEQ, NEXT, STRICT or AND; never the whole pattern, never directly inside OR or another Not."""

    part: Pattern
    at: Span | None = _place()


Composite = Seq | Next | Strict | And | Or
Pattern = Type | Composite
Part = Pattern | Not

# ---------------------------------------------------------------- query


@dataclass(frozen=True, slots=True)
class Window:
    """A window, or the period of EMIT: in microseconds (`us`), in the time column's own unit (`ticks`), or in `events`."""

    length: int
    unit: OneOf["us", "ticks", "events"]
    at: Span | None = _place()

    @property
    def counts_events(self) -> bool:
        return self.unit == "events"


@dataclass(frozen=True, slots=True)
class Emit:
    """When aggregates are reported. `period` is that of EMIT EVERY and EMIT PER."""

    when: OneOf["trigger", "every", "per", "total"]
    period: Window | None = None
    at: Span | None = _place()

    @property
    def counts_once(self) -> bool:
        """Whether a match counts in one row alone, and not in that of every window it lies in."""
        return self.when in ("per", "total")


@dataclass(frozen=True, slots=True)
class Skip:
    """Which matches a match that is taken leaves out; FIRST and LAST are of a variable."""

    to: OneOf["PAST LAST", "TO NEXT", "TO FIRST", "TO LAST"]
    variable: str | None = None
    at: Span | None = _place()


@dataclass(frozen=True, slots=True)
class Output:
    """One column of the result: what it holds and what it is called. Bound trees always have a name."""

    value: Value
    name: str | None = None
    at: Span | None = _place()


@dataclass(frozen=True, slots=True)
class Definition:
    """`DEFINE Big AS Trade WHERE price > 1000`: a type of those events of a type that meet conditions on their own attributes."""

    name: str
    type: str
    where: tuple[Predicate, ...]  # with bare attributes
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
    group_by: tuple[Value, ...] = ()
    aggregates: tuple[Output, ...] = ()
    having: tuple[Predicate, ...] = ()
    emit: Emit | None = None  # bound: set exactly when there are aggregates
    returns: tuple[Output, ...] = ()
    returns_all: bool = False  # RETURN *: the default columns, flat
    is_distinct: bool = False  # RETURN DISTINCT: equal rows once
    limit: int | None = None  # so many rows at most
    order_by: tuple[str, ...] = ()
    skip: Skip | None = None
    keeps_partial: bool = False
    definitions: tuple[Definition, ...] = ()
    source: str = field(default="", compare=False, repr=False)

    def __str__(self) -> str:
        from seqube.language.writer import write

        return write(self)


# ---------------------------------------------------------------- walks
#
# Nobody else takes trees apart just to look through them: `children` and `rebuilt` are the only two places that know what is below
# a node, and the type checker sees to it that they know every kind.

Node = Value | Predicate | Part
N = TypeVar("N", bound=Node)


def children(node: Node) -> tuple[Node, ...]:
    """What stands directly below a node, from left to right; an operator's predicates come after its parts."""
    match node:
        case Literal() | Duration() | Attribute() | Parameter() | Same() | Type():
            return ()
        case Arithmetic() | Comparison():
            return (node.left, node.right)
        case Minus() | IsNull() | IsTrue():
            return (node.operand,)
        case OfList() | Prev() | AtLevel():
            return (node.argument,)
        case Aggregate():
            return tuple(part for part in (node.argument, node.share) if part is not None)
        case FirstOf():
            return node.values
        case Call():
            return node.arguments
        case Condition():
            return (node.predicate,)
        case Among():
            return (node.operand, *node.values)
        case Between():
            return (node.operand, node.low, node.high)
        case Chain():
            return node.operands
        case AllOf() | AnyOf():
            return node.parts
        case Inverse() | Not():
            return (node.part,)
        case Seq() | Next() | Strict() | And() | Or():
            return (*node.parts, *node.where)
        case _:
            assert_never(node)


def rebuilt(node: N, change: Callable[[Any], Any]) -> N:
    """The node with `change` applied to each of its children; the node itself where that changes nothing."""
    before = children(node)
    after = tuple(map(change, before))
    if all(new is old for new, old in zip(after, before, strict=True)):
        return node
    result: Any
    match node:
        case Literal() | Duration() | Attribute() | Parameter() | Same() | Type():
            result = node
        case Arithmetic() | Comparison():
            result = replace(node, left=after[0], right=after[1])
        case Minus() | IsNull() | IsTrue():
            result = replace(node, operand=after[0])
        case Aggregate():
            result = replace(node, argument=after[0], share=after[1] if node.share is not None else None)
        case OfList() | Prev() | AtLevel():
            result = replace(node, argument=after[0])
        case FirstOf():
            result = replace(node, values=after)
        case Call():
            result = replace(node, arguments=after)
        case Condition():
            result = replace(node, predicate=after[0])
        case Among():
            result = replace(node, operand=after[0], values=after[1:])
        case Between():
            result = replace(node, operand=after[0], low=after[1], high=after[2])
        case Chain():
            result = replace(node, operands=after)
        case AllOf() | AnyOf():
            result = replace(node, parts=after)
        case Inverse() | Not():
            result = replace(node, part=after[0])
        case Seq() | Next() | Strict() | And() | Or():
            result = replace(node, parts=after[: len(node.parts)], where=after[len(node.parts) :])
        case _:
            assert_never(node)
    changed: N = result
    return changed


def walk(node: Node) -> Iterator[Node]:
    """The node and everything below it, from left to right, each before what is below it."""
    yield node
    for child in children(node):
        yield from walk(child)


def transform(node: N, change: Callable[[Any], Any]) -> N:
    """The tree with `change` applied to every node, to what is below a node before the node itself."""
    changed: N = change(rebuilt(node, lambda child: transform(child, change)))
    return changed


def transform_query(query: Query, change: Callable[[Any], Any]) -> Query:
    """The query with `change` applied to every node of every clause."""

    def each(nodes: Iterable[N]) -> tuple[N, ...]:
        return tuple(transform(node, change) for node in nodes)

    def outputs(items: Iterable[Output]) -> tuple[Output, ...]:
        return tuple(replace(item, value=transform(item.value, change)) for item in items)

    return replace(
        query,
        pattern=transform(query.pattern, change),
        where=each(query.where),
        group_by=each(query.group_by),
        aggregates=outputs(query.aggregates),
        having=each(query.having),
        returns=outputs(query.returns),
        definitions=tuple(replace(definition, where=each(definition.where)) for definition in query.definitions),
    )


def query_nodes(query: Query) -> Iterator[Node]:
    """Every node of every clause."""
    outputs = (output.value for output in (*query.aggregates, *query.returns))
    defined = (condition for definition in query.definitions for condition in definition.where)
    for root in (query.pattern, *query.where, *query.group_by, *outputs, *query.having, *defined):
        yield from walk(root)


def renaming(names: Mapping[str, str]) -> Callable[[Any], Any]:
    """A change for `transform`: other variables."""

    def change(node: Node) -> Node:
        if isinstance(node, Attribute | Type) and (new := names.get(node.variable or "")) is not None:
            return replace(node, variable=new)
        return node

    return change
