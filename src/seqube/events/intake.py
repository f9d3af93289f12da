"""What is pushed into a stream, in any form, push by push -> `Events` of the one schema that the stream has.

The first push decides the columns. A table that comes later must have the same ones, of types that can be taken for those without
losing anything; dictionaries may lack keys, and where they bring new ones the schema grows (`rows`), so that `schema` may be
another one after a push: what was read before is then brought to it with `conform`.

Cost: that of reading a table; a single dictionary is put into columns directly, without any inference.
Invariant: all events that were read have the schema of the last one, once they are conformed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.types as pat

from seqube.errors import SchemaError, did_you_mean
from seqube.events.batch import Events, with_one_type
from seqube.events.files import Malformed
from seqube.events.rows import MISFITS, is_truncated, read_rows
from seqube.events.schema import ANY, TYPE, Schema, check_unique, is_moment
from seqube.events.sources import as_table, one_chunk, plain_columns
from seqube.events.times import TEXT_TIME

_TEXT_TIME = re.compile(TEXT_TIME.replace(r"\z", r"\Z"))
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST, _LAST = -(2**63), 2**63 - 1  # before and after all time

Declared: TypeAlias = pa.Schema | Mapping[str, str | pa.DataType]


def read_columns(declared: Any) -> dict[str, pa.DataType]:
    """Columns that somebody declared, by name."""
    if declared is None:
        return {}
    if isinstance(declared, pa.Schema):
        return {field.name: field.type for field in declared}
    if not isinstance(declared, Mapping):
        raise SchemaError(f"columns is a {type(declared).__name__}\n  hint: columns={{'id': 'int64', 'price': 'double'}}")
    found = {}
    for name, arrow in declared.items():
        try:
            found[str(name)] = arrow if isinstance(arrow, pa.DataType) else pa.type_for_alias(arrow)
        except (ValueError, TypeError):
            raise SchemaError(
                f"columns: {arrow!r} of {name!r} is no type\n  hint: int64, double, string, bool, timestamp[us], or a pyarrow type"
            ) from None
    return found


class Intake:
    """Reads pushes. `schema` is None until the first one is taken."""

    def __init__(self, type_column: str | None, time_column: str, unit: str, declared: Mapping[str, pa.DataType]) -> None:
        self._type, self._time, self._unit = TYPE if type_column is None else type_column, time_column, unit
        self._has_types = type_column is not None  # else every event is of the type ANY, in a column that is added
        self.declared = dict(declared)
        self.schema: Schema | None = None

    def read(self, data: Any, asked: Callable[[], Iterable[str]] = tuple) -> Events:
        """The next push. Columns that are asked for, and that dictionaries do not have yet, hold nulls until they come."""
        if type(data) is dict and self.schema is not None and (single := self._read_one(data)) is not None:
            return single
        malformed = None
        if isinstance(data, Mapping | list | tuple):
            raw, malformed = self._read_rows([data] if isinstance(data, Mapping) else data, asked)
            if self.schema is None and not len(raw):  # no row says what the columns are
                nothing = pa.table({self._type: pa.nulls(0, pa.string()), self._time: pa.nulls(0, pa.int64())})
                return Events.of_rows(nothing, malformed, self._type, self._time, self._unit)
        else:
            table = data.table if isinstance(data, Events) else as_table(data)
            table = plain_columns(table)
            raw = self._match_table(table if self._has_types or isinstance(data, Events) else with_one_type(table))
        events = Events.of_rows(raw, malformed, self._type, self._time, self._unit)
        if self.schema is not None and events.schema is not self.schema:
            same = self.schema.columns == events.schema.columns
            events = events.with_table(events.table, self.schema) if same else self._settle(events)
        self.adopt(events.schema)
        return events

    def adopt(self, schema: Schema | None) -> None:
        """Take this schema for that of the stream."""
        if schema is self.schema:
            return
        self.schema = schema
        if schema is None:
            return
        self._names = frozenset(schema.columns.names)
        self._fields = [(field.name, field.type) for field in schema.columns]
        times = schema.columns.field(self._time).type
        self._has_texts = pat.is_string(schema.columns.field(self._type).type)
        self._any = None if self._has_types else with_one_type(pa.table({self._time: [0]})).column(TYPE).chunk(0)
        self._has_numbers = pat.is_int64(times)
        self._has_moments = pat.is_timestamp(times) and times.unit == "us"

    def conform(self, events: Events) -> Events:
        """Events that were read before, in the schema that there is now."""
        schema = self.schema
        assert schema is not None
        if events.schema is schema:
            return events
        have = events.table
        arrays = [
            _widened(field, have.column(field.name).chunk(0))
            if field.name in have.column_names
            else pa.nulls(len(have), field.type)
            for field in schema.columns
        ]
        return events.with_table(pa.Table.from_arrays(arrays, schema=schema.columns), schema)

    # ------------------------------------------------------------ one dictionary

    def _read_one(self, row: dict[str, Any]) -> Events | None:
        """A dictionary that fits as it is, the one case that must be quick; None where it needs a closer look."""
        name, tick = row.get(self._type), self._tick(row.get(self._time))
        if tick is None or not row.keys() <= self._names:
            return None
        if self._any is not None and name is None:
            name = ANY
        elif type(name) is not str or not self._has_texts:
            return None
        assert self.schema is not None
        arrays = []
        try:
            for column, arrow in self._fields:
                if self._any is not None and column == self._type:
                    arrays.append(self._any)
                    continue
                value = tick if column == self._time else row.get(column)
                if type(value) is float and is_truncated(value, arrow):
                    return None
                arrays.append(pa.array((value,), arrow))
        except MISFITS:
            return None
        return Events.single(pa.Table.from_arrays(arrays, schema=self.schema.columns), tick, name, self.schema)

    def _tick(self, value: Any) -> int | None:
        """A time in ticks, where it is written in one of the usual ways; None says nothing."""
        if type(value) is int:
            return value if self._has_numbers and _FIRST < value < _LAST else None
        if not self._has_moments:
            return None
        if type(value) is str and _TEXT_TIME.match(value) is not None:
            try:
                value = datetime.fromisoformat(value)
            except ValueError:
                return None
        if type(value) is not datetime:
            return None
        passed = (value if value.tzinfo is not None else value.replace(tzinfo=UTC)) - _EPOCH
        return (passed.days * 86_400 + passed.seconds) * 1_000_000 + passed.microseconds

    # ------------------------------------------------------------ rows and tables

    def _read_rows(self, rows: Any, asked: Callable[[], Iterable[str]]) -> tuple[pa.Table, Malformed | None]:
        known = self.declared if self.schema is None else {field.name: field.type for field in self.schema.columns}
        if not self._has_types:
            known = {name: kind for name, kind in known.items() if name != self._type}
        table, malformed = read_rows(rows, known, loose=self._time)
        if not self._has_types:
            table = with_one_type(one_chunk(table))
            if self.schema is not None:  # in its order
                names = self.schema.columns.names
                table = table.select([*names, *(name for name in table.column_names if name not in names)])
        if self.schema is None:
            for name in asked():
                if name not in table.column_names:
                    table = table.append_column(name, pa.nulls(len(table)))
        return one_chunk(table), malformed

    def _match_table(self, raw: pa.Table) -> pa.Table:
        """The columns of a table in the stream's order and types; only the time may still be in another form."""
        if self.schema is not None and raw.schema == self.schema.columns:
            return raw
        check_unique(raw.column_names)
        if self.schema is None:
            known = pa.schema([field.with_type(self.declared.get(field.name, field.type)) for field in raw.schema])
            missing = [name for name in self.declared if name not in raw.column_names]
        else:
            known = self.schema.columns
            missing = [name for name in known.names if name not in raw.column_names]
            if unknown := [name for name in raw.column_names if name not in known.names]:
                raise SchemaError(
                    f"this push has a column {unknown[0]!r} that the stream does not have\n"
                    f"  hint: leave it out, or declare it with columns= at the beginning; {did_you_mean(unknown[0], known.names)}"
                )
        if missing:
            raise SchemaError(
                f"this push has no column {missing[0]!r}, and the stream has one\n"
                "  hint: give it, with nulls where there is nothing to say"
            )
        arrays = []
        for field in known:
            column = raw.column(field.name).chunk(0)
            if field.name != self._time and column.type != field.type and not pat.is_null(field.type):
                column = _cast(field, column)
            arrays.append(column)
        return pa.table(arrays, names=known.names)

    def _settle(self, events: Events) -> Events:
        """Events whose times came in another form, or whose columns are more or wider: in the stream's schema, or a grown one.

        Only what an event holds lets a schema grow, not a row that was rejected.
        """
        assert self.schema is not None
        if not len(events):
            return events.with_table(self.schema.columns.empty_table(), self.schema)
        idle = [
            name
            for name, column in zip(events.table.column_names, events.table.columns, strict=True)
            if name not in self.schema.columns.names and column.null_count == len(column)
        ]
        if idle:
            table = events.table.drop_columns(idle)
            events = events.with_table(table, Schema(table.schema, self._type, self._time, self._unit))
        times, known = events.table.column(self._time).chunk(0), self.schema.columns.field(self._time)
        if times.type != known.type and not pat.is_null(known.type):
            if is_moment(times.type) != is_moment(known.type) and not pat.is_null(times.type):
                raise SchemaError(
                    f"the times of this push are {times.type}, and those of the stream are {known.type}\n"
                    "  hint: write all times in one way"
                )
            place = events.table.schema.get_field_index(self._time)
            table = events.table.set_column(place, known, _cast(known, times))
            events = events.with_table(table, Schema(table.schema, self._type, self._time, self._unit))
        same = events.schema.columns == self.schema.columns
        return events.with_table(events.table, self.schema) if same else events


def _widened(field: pa.Field, column: pa.Array) -> pa.Array:
    """A column that was read before, in the type that it has grown to: a double holds not every whole number beyond 2^53."""
    try:
        return column.cast(field.type)
    except pa.ArrowException:
        raise SchemaError(
            f"the column {field.name!r} of this push is {field.type}, "
            f"and the stream holds {column.type} values that are no {field.type}\n"
            f"  hint: declare columns={{{field.name!r}: ...}} when the stream is made, so that one type holds for all rows"
        ) from None


def _cast(field: pa.Field, column: pa.Array) -> pa.Array:
    try:
        return column.cast(field.type)
    except pa.ArrowException:
        raise SchemaError(
            f"the column {field.name!r} of this push is {column.type}, and the stream's is {field.type}\n"
            f"  hint: cast it, or declare columns={{{field.name!r}: ...}} when the stream is made"
        ) from None
