"""What aggregates and groups are taken of, made simple: columns that are computed once for every event, and sums over events.

    SUM(b.price * b.volume)    the column of b's events "b.price * b.volume", summed
    AVG(b.ts - a.ts)           a sum over the events of a match: what b adds, less what a adds
    MAX(b.price / a.price)     neither: it is a value of the whole match

The first two need no matches: counters weigh events. A computed column has its own text as its name, behind a `#`, which no column
of events begins with; it is null on events that its variable never stands for.

Cost: linear in the query. Invariant: an argument means the same as before, over events that have the columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from seqube.language.mentions import variables_of
from seqube.language.tree import Aggregate, Arithmetic, Attribute, Minus, N, Node, Value, transform
from seqube.language.writer import write_value

COMPUTED_MARK = "#"  # before the names of computed columns
COLLECTED = ("VALUES", "IN_ORDER")  # measures that are made of all values, of each match by itself
ADDED_UP = ("COUNT", "SUM")  # measures of a sum over events that are made of those of its terms

Terms = tuple[tuple[int, Attribute], ...]  # signs, and what they stand before


@dataclass(frozen=True, slots=True)
class ComputedColumn:
    """A column of the events of a variable, which are of these types."""

    name: str
    variable: str
    types: frozenset[str]
    value: Value


@dataclass(slots=True)
class ColumnsToCompute:
    """Collects computed columns; `types` are those of the variables."""

    types: Mapping[str, frozenset[str]]
    found: dict[tuple[str, str], ComputedColumn] = field(default_factory=dict)

    def of_aggregates(self, node: N) -> N:
        """The same with simple arguments."""

        def change(part: Node) -> Node:
            if isinstance(part, Aggregate) and part.argument is not None:
                return replace(part, argument=self.simple(part.argument))
            return part

        return transform(node, change)

    def simple(self, value: Value) -> Value:
        """A column in place of a value of one event; a sum over several events stays as it is, and has a column for each term."""
        if len(variables_of(value)) == 1:
            return self.column(value)
        for _, term in _terms(value) or ():
            self.column(term)
        return value

    def column(self, value: Value) -> Attribute:
        attribute = _column(value)
        if attribute != value:
            variable = attribute.variable or ""
            self.found[variable, attribute.name] = ComputedColumn(attribute.name, variable, self.types[variable], value)
        return attribute


def _column(value: Value) -> Attribute:
    """A value of one event as a column."""
    if isinstance(value, Attribute):
        return value
    (variable,) = variables_of(value)
    return Attribute(variable, COMPUTED_MARK + write_value(value), value.at)


def _terms(value: Value) -> list[tuple[int, Value]] | None:
    """A value as a sum of values of single events, with their signs; a constant goes with the first. None where it is none."""
    constants: list[tuple[int, Value]] = []
    found: list[tuple[int, Value]] = []

    def take(part: Value, sign: int) -> bool:
        match part:
            case _ if not variables_of(part):
                constants.append((sign, part))
            case _ if len(variables_of(part)) == 1:
                found.append((sign, part))
            case Arithmetic("+" | "-" as op, left, right):
                return take(left, sign) and take(right, sign if op == "+" else -sign)
            case Minus(operand):
                return take(operand, -sign)
            case _:
                return False
        return True

    if not take(value, 1):
        return None
    sign, first = found[0]
    for each, constant in constants:
        first = Arithmetic("+" if each == sign else "-", first, constant, first.at)
    return [(sign, first), *found[1:]]


def terms_of(argument: Value) -> Terms | None:
    """The columns that an argument adds up, with their signs; None where it is a value of a whole match."""
    terms = _terms(argument)
    return None if terms is None else tuple((sign, _column(term)) for sign, term in terms)


def as_written(node: N, columns: tuple[ComputedColumn, ...]) -> N:
    """The same with computed columns as the query has them."""
    values = {Attribute(column.variable, column.name): column.value for column in columns}
    return transform(node, lambda part: values.get(part, part) if isinstance(part, Attribute) else part)
