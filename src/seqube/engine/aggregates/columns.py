"""What aggregates are taken of, over events: columns that are computed once, values of whole matches, and sums taken apart.

A sum over the events of a match (`AVG(b.ts - a.ts)`) is added up term by term: what b weighs in all matches, less what a weighs. A
match in which one of them is null has no value, so each event also weighs whether it has one. Whole numbers, times, durations and
decimals are exact whatever their size. Doubles are multiples of one power of two, added up exactly and rounded once; where one of
them is infinite, or they are too far apart for that, the matches are built instead.

Cost: a pass over the events for every column.
Invariant: the type of a value is the one it has without a row; whole numbers that leave 64 bits are an error, as in RETURN.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from seqube.engine.aggregates.measured import Measured, whole_numbers
from seqube.engine.aggregates.measures import multiples, scaled, unless_empty
from seqube.engine.bindings import Bindings, last_rows
from seqube.engine.numbers import double, settled
from seqube.engine.predicates import Evaluator, Ints, Mask, take
from seqube.errors import DataError
from seqube.events import Events, Schema
from seqube.language.mentions import variables_of
from seqube.language.tree import Attribute, Value
from seqube.language.writer import write_value
from seqube.plan.arguments import ComputedColumn, terms_of

_NO_ROWS = np.empty(0, np.int64)
_EXACT = pa.decimal128(30, 0)


def with_columns(events: Events, columns: Sequence[ComputedColumn]) -> Events:
    """The events with computed columns beside their own."""
    missing = [column for column in columns if column.name not in events.schema]
    if not missing:
        return events
    table = events.table
    for column in missing:
        rows = events.rows_of(column.types)
        values = values_of_matches(column.value, events, {column.variable: rows}, len(rows))
        if len(rows) < len(events):
            places = np.full(len(events), -1)
            places[rows] = np.arange(len(rows))
            values = values.take(pa.array(places, mask=places < 0))
        table = table.append_column(column.name, values)
    schema = events.schema
    return events.with_table(table, Schema(table.schema, schema.type_column, schema.time_column, schema.unit))


def kind_of_value(value: Value, events: Events) -> pa.DataType:
    """The type of a value of matches."""
    return Evaluator(events.slice(0, 0)).array(value, dict.fromkeys(variables_of(value), _NO_ROWS), 0).type


def values_of_matches(value: Value, events: Events, rows: Bindings, size: int) -> pa.Array:
    """A value for every match."""
    found = settled(Evaluator(events).array(value, rows, size), kind_of_value(value, events))
    if found is None:
        raise DataError(
            f"{write_value(value)} is a whole number, and somewhere leaves 64 bits\n"
            "  hint: make it a decimal number: multiply by 1.0 first"
        )
    return found


# ---------------------------------------------------------------- sums over events


@dataclass(frozen=True, slots=True)
class Term:
    """What the events of a variable add to a sum, or (-1) take from it."""

    sign: int
    variable: str
    column: Measured


@dataclass(frozen=True)
class SumOverEvents:
    """The terms of an argument over the events at hand; of doubles, as multiples of two to this power."""

    terms: tuple[Term, ...]
    exponent: int | None = None

    @cached_property
    def valid(self) -> dict[str, Mask]:
        """Where the events of each variable have all that is asked of them."""
        found: dict[str, Mask] = {}
        for term in self.terms:
            found[term.variable] = found.get(term.variable, True) & term.column.valid
        return found

    @property
    def largest(self) -> float:
        return max(term.column.largest for term in self.terms)

    def total(self, counts: pa.Array, sums: Sequence[Ints | pa.Array]) -> pa.Array:
        """The sum over matches, of which so many have a value, from the sums of the terms."""
        signs = [term.sign for term in self.terms]
        bound = sum(float(np.abs(part).max(initial=0)) if isinstance(part, np.ndarray) else inf for part in sums)
        if bound < 2.0**62:
            small = np.sum([sign * np.asarray(part) for sign, part in zip(signs, sums, strict=True)], axis=0)
            found = pa.array(small if self.exponent is None else np.ldexp(small.astype(np.float64), self.exponent))
            return unless_empty(counts, found)
        rows = zip(*(pa.array(part).to_pylist() for part in sums), strict=True)
        whole = [sum(sign * int(part) for sign, part in zip(signs, parts, strict=True)) for parts in rows]
        if self.exponent is None:
            return unless_empty(counts, whole_numbers(whole))
        return unless_empty(counts, pa.array([scaled(number, 1, self.exponent) for number in whole], pa.float64()))


def sum_over_events(argument: Value, events: Events) -> SumOverEvents | str:
    """An argument as a sum over events, or why it is none over these."""
    terms, kind = terms_of(argument), kind_of_value(argument, events)
    assert terms is not None, "the plan asks for sums over events only"
    columns = [_in_kind(column, kind, events) for _, column in terms]
    if any(column is None for column in columns):
        return f"{write_value(argument)} mixes numbers of different types"
    measured = [Measured.of(column, attribute.name) for column, (_, attribute) in zip(columns, terms, strict=True)]
    exponent = None
    if pat.is_floating(kind):
        if not all(np.isfinite(column.numbers).all() for column in measured):
            return f"{write_value(argument)} has infinite values"
        found = multiples(measured)
        if found is None:
            return f"{write_value(argument)} has values that are too far apart to be added up exactly"
        exponent, measured = found
    return SumOverEvents(
        tuple(Term(sign, attribute.variable or "", column) for (sign, attribute), column in zip(terms, measured, strict=True)),
        exponent,
    )


def exact_value(argument: Value, events: Events, rows: Bindings, size: int) -> pa.Array:
    """A sum over events for every match, of whole numbers or durations: exact, also where it leaves 64 bits."""
    kind, total = kind_of_value(argument, events), pa.repeat(pa.scalar(0, _EXACT), size)
    if not (pat.is_int64(kind) or pat.is_duration(kind)):
        return values_of_matches(argument, events, rows, size)
    for sign, attribute in terms_of(argument) or ():
        column = _in_kind(attribute, kind, events)
        if column is None:
            return values_of_matches(argument, events, rows, size)
        numbers = take(column, last_rows(rows[attribute.variable or ""])).cast(_EXACT)
        total = (pc.add if sign > 0 else pc.subtract)(total, numbers).cast(_EXACT)
    return total


def _in_kind(attribute: Attribute, kind: pa.DataType, events: Events) -> pa.Array | None:
    """A column that is added up to a value of this type, as numbers that can be; None where it is another."""
    column = Evaluator(events).array(attribute, {attribute.variable or "": np.arange(len(events))}, len(events))
    if pat.is_null(column.type):
        column = column.cast(pa.int64())
    if pat.is_floating(kind):
        return double(column)
    if pat.is_decimal(kind):
        return column.cast(kind) if pat.is_decimal(column.type) or pat.is_int64(column.type) else None
    if pat.is_duration(kind) and (pat.is_timestamp(column.type) or pat.is_duration(column.type)):
        unit = pa.timestamp("us", column.type.tz) if pat.is_timestamp(column.type) else pa.duration("us")
        return column.cast(unit).cast(pa.int64())
    return column if pat.is_int64(kind) and pat.is_int64(column.type) else None
