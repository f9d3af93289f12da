"""What columns there are, and what may be done with them.

A `Schema` maps every column to its kind ("number", "string", "boolean", "time", "duration", "null" for a column that can hold
nothing else, or "other"; in tables of SQL also "clock" and "binary"): all that type checking needs to know. `type` and `ts` are
always there, whatever the columns are called, and win over columns of the same name. It is made from an Arrow schema alone, so a
query can be checked before the first row is read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Literal

import pyarrow as pa
import pyarrow.types as pat

from seqube.errors import SchemaError, did_you_mean

TYPE = "type"
TIME = "ts"
# How a query asks for a column that has such a name, which the event's own may hide.
HIDDEN_COLUMNS = {f'"{name}"': name for name in (TYPE, TIME)}
ANY = "ANY"  # the type that every event is of

Kind = Literal["number", "string", "boolean", "time", "duration", "clock", "binary", "null", "other"]

# How many nanoseconds one tick of the time column lasts.
UNITS: dict[str, int] = {
    "ns": 1,
    "us": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "min": 60_000_000_000,
    "h": 3_600_000_000_000,
    "d": 86_400_000_000_000,
}


def is_of(name: str, types: Collection[str]) -> bool:
    """Whether events of a type are among those of these types."""
    return name in types or ANY in types


def is_text(arrow: pa.DataType) -> bool:
    return bool(pat.is_string(arrow) or pat.is_large_string(arrow) or pat.is_string_view(arrow))


def is_bytes(arrow: pa.DataType) -> bool:
    return bool(pat.is_binary(arrow) or pat.is_large_binary(arrow) or pat.is_binary_view(arrow) or pat.is_fixed_size_binary(arrow))


def is_moment(arrow: pa.DataType) -> bool:
    """Whether values of this Arrow type are points in time: these are taken in microseconds."""
    return bool(pat.is_timestamp(arrow) or pat.is_date(arrow))


def kind_of(arrow: pa.DataType) -> Kind:
    """The kind of a column of this Arrow type."""
    if pat.is_dictionary(arrow):
        return kind_of(arrow.value_type)
    if pat.is_integer(arrow) or pat.is_floating(arrow) or pat.is_decimal(arrow):
        return "number"
    if is_text(arrow):
        return "string"
    if pat.is_boolean(arrow):
        return "boolean"
    if is_moment(arrow):
        return "time"
    if pat.is_duration(arrow):
        return "duration"
    if pat.is_null(arrow):
        return "null"
    return "other"


def sql_kind_of(arrow: pa.DataType) -> Kind:
    """The kind of a column of a table of SQL, where times of day and binary values have kinds of their own, and compare."""
    if isinstance(arrow, pa.BaseExtensionType):
        return sql_kind_of(arrow.storage_type)
    if pat.is_dictionary(arrow) or pat.is_run_end_encoded(arrow):
        return sql_kind_of(arrow.value_type)
    if pat.is_time(arrow):
        return "clock"
    return "binary" if is_bytes(arrow) else kind_of(arrow)


class Schema(Mapping[str, Kind]):
    """Column name -> kind, and which columns hold the type and the time of an event. Immutable, hashable, picklable."""

    def __init__(self, columns: pa.Schema, type_column: str = "type", time_column: str = "ts", unit: str = "ms") -> None:
        check_unit(unit)
        _check_names(columns.names, type_column, time_column)
        arrow_type = value_type(columns.field(type_column).type)
        if not (is_text(arrow_type) or pat.is_integer(arrow_type) or pat.is_boolean(arrow_type) or pat.is_null(arrow_type)):
            raise SchemaError(
                f"the type column {type_column!r} holds {arrow_type}, which cannot name event types\n"
                '  hint: choose a column of strings, integers or booleans with type="..."'
            )
        arrow_time = value_type(columns.field(time_column).type)
        is_number = pat.is_integer(arrow_time) or pat.is_floating(arrow_time) or pat.is_null(arrow_time)
        if not (is_number or is_moment(arrow_time) or is_text(arrow_time)):
            raise SchemaError(
                f"the time column {time_column!r} holds {arrow_time}, which cannot be a time\n"
                '  hint: choose a column of timestamps, dates, integers or ISO 8601 strings with time="..."'
            )
        self.columns = columns
        self.type_column = type_column
        self.time_column = time_column
        self.unit = unit if is_number else "us"
        self._kinds: dict[str, Kind] = {field.name: kind_of(field.type) for field in columns}
        self.hidden = frozenset(
            name for name, own in ((TYPE, type_column), (TIME, time_column)) if name != own and name in columns.names
        )
        self._kinds |= {quoted: self._kinds[name] for quoted, name in HIDDEN_COLUMNS.items() if name in self.hidden}
        self._kinds |= {TYPE: "string", TIME: "number" if is_number else "time"}

    def resolve(self, name: str) -> str:
        """An attribute as it is known here: `"type"` is the event's type where no other column has that name."""
        return name if name in self._kinds else HIDDEN_COLUMNS.get(name, name)

    def column_of(self, name: str) -> str:
        """The column that an attribute is read from."""
        name = self.resolve(name)
        return HIDDEN_COLUMNS.get(name) or {TYPE: self.type_column, TIME: self.time_column}.get(name, name)

    def arrow(self, name: str) -> pa.DataType:
        """The Arrow type of an attribute; `type` is a string whatever its column holds."""
        return pa.string() if self.resolve(name) == TYPE else self.columns.field(self.column_of(name)).type

    def __getitem__(self, name: str) -> Kind:
        return self._kinds[self.resolve(name)]

    def __iter__(self) -> Iterator[str]:
        return iter(self._kinds)

    def __len__(self) -> int:
        return len(self._kinds)

    def _identity(self) -> tuple[Any, ...]:
        return self.columns, self.type_column, self.time_column, self.unit

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Schema):
            return self._identity() == other._identity()
        return NotImplemented

    def __hash__(self) -> int:
        return hash((tuple(self.columns.names), self.type_column, self.time_column, self.unit))

    def __repr__(self) -> str:
        return f"Schema({', '.join(f'{name}: {kind}' for name, kind in self._kinds.items())})"


def check_unit(unit: str) -> None:
    if unit not in UNITS:
        raise SchemaError(f"unknown time unit {unit!r}\n  hint: one of {', '.join(UNITS)}")


@lru_cache(maxsize=64)
def schema_of(columns: pa.Schema, type_column: str, time_column: str, unit: str) -> Schema:
    """The schema of these columns; the pieces of a stream, which have the same, share it."""
    return Schema(columns, type_column, time_column, unit)


def value_type(arrow: pa.DataType) -> pa.DataType:
    return arrow.value_type if pat.is_dictionary(arrow) else arrow


def check_unique(names: Iterable[str]) -> None:
    repeated = [name for name, times in Counter(names).items() if times > 1]
    if repeated:
        raise SchemaError(
            f"several columns have the name {', '.join(map(repr, repeated))}\n  hint: rename them, so that each name stands once"
        )


def _check_names(names: list[str], type_column: str, time_column: str) -> None:
    check_unique(names)
    for role, column in (("type", type_column), ("time", time_column)):
        if column not in names:
            hint = _between(names) or f'{_suggest(column, names)}choose it with {role}="..."'
            raise SchemaError(
                f"there is no {role} column {column!r}; the columns are {', '.join(map(repr, names)) or 'none'}\n  hint: {hint}"
            )
    if type_column == time_column:
        raise SchemaError(
            f'column {type_column!r} cannot be both the type and the time\n  hint: choose them with type="..." and time="..."'
        )


def _between(names: list[str]) -> str:
    """What to do about a file whose columns were not told apart, because no commas are between them."""
    sign = next((sign for sign in (";", "\t", "|") if len(names) == 1 and sign in names[0]), None)
    return f"are its columns separated by {sign!r}? without commas: pandas.read_csv(path, sep={sign!r})" if sign else ""


def _suggest(name: str, names: list[str]) -> str:
    hint = did_you_mean(name, names) or ""
    return f"{hint} " if hint.startswith("did you mean") else ""
