"""Events that are kept come out as they went in: every type of column, nulls, pieces of any size, whatever was dropped before."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from seqube import Events
from seqube.engine.kept import Kept

KINDS = [
    (pa.int8(), [-128, 127, None]),
    (pa.uint16(), [0, 65_535]),
    (pa.uint64(), [2**64 - 1, None, 0]),
    (pa.int64(), [-(2**63), 2**63 - 1]),
    (pa.float16(), [np.float16(0.5), None]),
    (pa.float32(), [1.5, -0.0, float("inf")]),
    (pa.float64(), [float("nan"), None, -0.0]),
    (pa.bool_(), [True, None, False]),
    (pa.timestamp("ns", "Europe/Amsterdam"), [datetime(2026, 1, 1, tzinfo=UTC), None]),
    (pa.date32(), [date(1900, 1, 1), None]),
    (pa.date64(), [date(2100, 1, 1)]),
    (pa.time32("s"), [time(1), None]),
    (pa.duration("ms"), [timedelta(seconds=-1), None]),
    (pa.decimal128(20, 2), [Decimal("1.50"), None]),
    (pa.string(), ["a", "", None]),
    (pa.dictionary(pa.int32(), pa.string()), ["x", None, "y"]),
    (pa.list_(pa.int64()), [[1], None, []]),
    (pa.null(), [None]),
]
COLUMNS = {f"c{number}": kind for number, (kind, _) in enumerate(KINDS)}


def table(n: int, time_type: pa.DataType | None = None, columns: dict[str, pa.DataType] = COLUMNS) -> pa.Table:
    """So many events; every column runs through its values, each at its own pace."""
    found = {
        "kind": pa.array([f"T{i % 3}" for i in range(n)]),
        "at": pa.array(range(0, 10 * n, 10), pa.int64()).cast(time_type or pa.int64()),
    }
    for name, kind in columns.items():
        values = next(values for known, values in KINDS if known == kind)
        found[name] = pa.array([values[i % len(values)] for i in range(n)], kind)
    return pa.table(found)


def events_of(rows: pa.Table) -> Events:
    return Events(rows, type="kind", time="at")


def same(found: Events, expected: pa.Table) -> None:
    assert found.table.schema == expected.schema
    assert repr(found.table.to_pylist()) == repr(expected.to_pylist())  # as texts, because no number equals nan
    assert [found.type_names[code] for code in found.types] == expected.column("kind").to_pylist()
    assert found.times.tolist() == expected.column("at").cast(pa.int64()).to_pylist()


@pytest.mark.parametrize("time_type", [pa.int64(), pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.int32()], ids=str)
@pytest.mark.parametrize("columns", [COLUMNS, {"c3": pa.int64(), "c6": pa.float64()}, {}], ids=["all", "numbers", "none"])
def test_what_is_kept_comes_out_as_it_went_in(time_type: pa.DataType, columns: dict[str, pa.DataType]) -> None:
    whole = table(60, time_type, columns)
    kept = Kept(events_of(whole.slice(0, 0)))
    for begin, end in ((0, 1), (1, 2), (2, 35), (35, 36), (36, 60)):
        events = events_of(whole.slice(begin, end - begin))
        assert kept.append(events, events.times) == begin
        same(kept.events, whole.slice(0, end))
    kept.drop_upto(120, is_time=True)
    assert (kept.head, len(kept)) == (13, 47)
    same(kept.events, whole.slice(13))
    same(kept.between(20, 40), whole.slice(20, 21))
    rows = np.array([13, 34, 35, 36, 59])
    same(kept.take(rows), whole.take(pa.array(rows)))
    mixed = np.array([40, 13, 40, 59, 14])
    found = pa.Table.from_arrays(kept.columns(mixed, has_types=True), schema=whole.schema)
    assert repr(found.to_pylist()) == repr(whole.take(pa.array(mixed)).to_pylist())


def test_only_the_chosen_are_kept() -> None:
    whole = table(40)
    events, chosen = events_of(whole), np.array([3, 4, 9, 30])
    kept = Kept(events.slice(0, 0))
    for _ in range(2):
        kept.append(events, np.arange(40), chosen)
    assert kept.clocks.tolist() == [3, 4, 9, 30] * 2
    same(kept.between(4, 7), whole.take(pa.array(chosen)))
    kept.append(events, np.arange(40), np.empty(0, np.int64))
    assert len(kept) == 8


def test_more_columns_than_an_event_has_bits_for() -> None:
    numbers = {f"n{i}": pa.array([None if (row + i) % 5 == 0 else row * i for row in range(9)], pa.int64()) for i in range(80)}
    whole = pa.table({"kind": ["A"] * 9, "at": range(9), **numbers})
    events = events_of(whole)
    kept = Kept(events.slice(0, 0))
    kept.append(events, events.times)
    same(kept.events, whole)


def test_a_window_that_moves_on_holds_what_it_needs() -> None:
    """Texts come event by event, and what has left is given back."""
    whole = table(5_000, columns={"c14": pa.string(), "c3": pa.int64()})
    events = events_of(whole)
    kept = Kept(events.slice(0, 0))
    for row in range(5_000):
        kept.append(events.slice(row, row + 1), events.times[row : row + 1])
        kept.drop_upto(10 * (row - 100), is_time=True)
    assert len(kept) == 100
    same(kept.events, whole.slice(4_900))
    assert kept.n_bytes < 100_000
