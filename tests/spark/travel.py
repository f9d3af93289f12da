"""The same events in other types, and those types as Spark has them.

`recasts` draws what a column may be: identifiers of 64 bits, without a sign or with decimals, dictionary-coded strings, times
before 1970, and time columns of every unit and zone. `carried` is the table that Spark can take: it knows no unsigned numbers,
dictionaries or units but microseconds.

Invariant: which events are equal, and in which order they come, is as it was drawn.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pat
from hypothesis import strategies as st

import oracle
import strategies
from seqube.events import Events

# For the identifiers 0, 1 and 2. Beyond 2**53 neighbours share one double.
IDENTIFIERS: list[tuple[pa.DataType, list[Any]]] = [
    (pa.int64(), [0, 1, 2]),
    (pa.int64(), [-(2**63), 2**53, 2**53 + 1]),
    (pa.int64(), [2**63 - 2, 2**63 - 1, 0]),
    (pa.int8(), [-128, 0, 127]),
    (pa.uint64(), [1, 2**63, 2**64 - 1]),
    (pa.uint32(), [0, 1, 2**32 - 1]),
    (pa.decimal128(20, 2), [Decimal("0.10"), Decimal("0.20"), Decimal(2**53) + Decimal("0.01")]),
]
CLOCKS: list[pa.DataType] = [
    pa.int64(), pa.int64(), pa.int64(), pa.float64(), pa.timestamp("ms"), pa.timestamp("us", "UTC"),
    pa.timestamp("ns", "Asia/Kolkata"), pa.timestamp("s", "America/New_York"),
]  # fmt: skip
SHIFTS = [0, 0, -5, -(2**30)]  # times before 1970, and across it


@dataclass(frozen=True)
class Recast:
    """What becomes of a table of events (`strategies.spark_table`)."""

    identifiers: tuple[pa.DataType, list[Any]]
    clock: pa.DataType
    shift: int
    coded: bool

    def table(self, events: list[oracle.Event]) -> pa.Table:
        plain = strategies.spark_table(events)
        kind, values = self.identifiers
        words = plain.column("s").combine_chunks()
        columns = {
            "id": pa.array([None if value is None else values[value] for value in plain.column("id").to_pylist()], kind),
            "ts": pa.array(plain.column("ts").to_numpy() + self.shift).cast(self.clock),
            "s": words.dictionary_encode() if self.coded else words,
        }
        return pa.table({name: columns.get(name, plain.column(name)) for name in plain.column_names})

    def tick(self, time: int) -> int:
        """A time of the events as the engine counts it."""
        return int(Events(self.table([oracle.Event("A", time, {}, 0)])).times[0])

    def takes(self, text: str) -> bool:
        """Whether a query can be asked of it: a timestamp is no number."""
        return ".ts" not in text or not pat.is_timestamp(self.clock)


def recasts(clocks: list[pa.DataType] = CLOCKS, shifts: list[int] = SHIFTS) -> st.SearchStrategy[Recast]:
    return st.builds(Recast, st.sampled_from(IDENTIFIERS), st.sampled_from(clocks), st.sampled_from(shifts), st.booleans())


def carried(table: pa.Table) -> pa.Table:
    """The table in types that Spark has."""
    return pa.table({field.name: _carried(table.column(field.name).combine_chunks()) for field in table.schema})


def _carried(column: pa.Array) -> pa.Array:
    kind = column.type
    if pat.is_dictionary(kind):
        return _carried(column.dictionary_decode())
    if pat.is_uint64(kind):
        return column.cast(pa.decimal128(20, 0))
    if pat.is_unsigned_integer(kind):
        return column.cast(pa.int64())
    if pat.is_duration(kind):
        return column.cast(pa.duration("us"))
    if pat.is_timestamp(kind) and kind.unit == "ns":  # rounded down, also before 1970
        microseconds = np.asarray(column.cast(pa.int64()).fill_null(0)) // 1_000
        return pa.array(microseconds, mask=np.asarray(column.is_null())).cast(pa.timestamp("us", kind.tz))
    if pat.is_timestamp(kind):
        return column.cast(pa.timestamp("us", kind.tz))
    return column
