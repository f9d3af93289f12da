"""Time columns: every kind becomes the same 64-bit integers, and what is no time is said so."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqube.events import Events

US = dt.timedelta(microseconds=1)
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
FIRST, LAST = dt.datetime(1, 1, 2), dt.datetime(9999, 12, 30)  # noqa: DTZ001 - their zone is drawn, too


def utc(year: int, month: int, day: int, *clock: int) -> dt.datetime:
    return dt.datetime(year, month, day, *clock, tzinfo=dt.UTC)  # type: ignore[misc,arg-type]


def read(times: Any) -> Events:
    return Events(pa.table({"type": ["A"] * len(times), "ts": times}))


@pytest.mark.parametrize(
    ("column", "times", "unit"),
    [
        (pa.array([-1, 2], pa.int8()), [-1, 2], "ms"),
        (pa.array([1, 2**63 - 2], pa.uint64()), [1, 2**63 - 2], "ms"),
        (pa.array([-2.0, 3.0], pa.float32()), [-2, 3], "ms"),
        (pa.array([-1, 1], pa.timestamp("s")), [-1_000_000, 1_000_000], "us"),
        (pa.array([-1, 1], pa.timestamp("ms", "America/New_York")), [-1_000, 1_000], "us"),
        (pa.array([-1, 1], pa.timestamp("us")), [-1, 1], "us"),
        (pa.array([-1, 1999], pa.timestamp("ns")), [-1, 1], "us"),
        (pa.array([-1, 1], pa.date32()), [-86_400_000_000, 86_400_000_000], "us"),
        (pa.array([0, 86_400_000], pa.date64()), [0, 86_400_000_000], "us"),
        (pa.array([5, 7], pa.timestamp("us")).dictionary_encode(), [5, 7], "us"),
    ],
)
def test_every_kind_of_time(column: pa.Array, times: list[int], unit: str) -> None:
    events = read(column)
    assert events.times.tolist() == times
    assert events.unit == unit
    assert not events.rejected


@pytest.mark.parametrize(
    ("column", "kept", "reasons"),
    [
        (pa.array([1.0, 1.5, float("nan"), float("inf"), None]), [1], {"time is not a whole number": 3, "no time": 1}),
        (pa.array([1e300, 2.0**53, 2.0**53 + 2]), [2**53], {"time is out of range": 2}),
        (pa.array([2**63, 5], pa.uint64()), [5], {"time is out of range": 1}),
        (pa.array([-(2**63), 1 - 2**63, 2**63 - 1], pa.int64()), [1 - 2**63], {"time is out of range": 2}),
        (pa.array([2**62, -(2**62), 1], pa.timestamp("s")), [1_000_000], {"time is out of range": 2}),
        (pa.array([2**31 - 1, 1], pa.date32()), [86_400_000_000], {"time is out of range": 1}),
        (pa.array([None, "2020-02-30", "now", "1970-01-01"]), [0], {"no time": 1, "time is not a timestamp": 2}),
        (pa.array(["5", "x", "7", None]), [5, 7], {"no time": 1, "time is not an integer": 1}),
        (
            pa.array(["9223372036854775806", "9223372036854775808", "x"]),
            [2**63 - 2],
            {"time is out of range": 1, "time is not an integer": 1},
        ),
        (pa.nulls(2), [], {"no time": 2}),
        (pa.nulls(2, pa.string()), [], {"no time": 2}),
    ],
)
def test_what_is_no_time_is_rejected(column: pa.Array, kept: list[int], reasons: dict[str, int]) -> None:
    events = read(column)
    assert events.times.tolist() == kept
    assert events.rejected.reasons == reasons
    assert len(events) + events.rejected.count == len(column)
    assert events.rejected.table.schema.field("ts").type == column.type  # as they came


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2020-01-02", utc(2020, 1, 2)),
        ("2020-01-02 03", utc(2020, 1, 2, 3)),
        ("2020-01-02T03:04", utc(2020, 1, 2, 3, 4)),
        ("2020-01-02 03:04:05", utc(2020, 1, 2, 3, 4, 5)),
        ("2020-01-02T03:04:05.6", utc(2020, 1, 2, 3, 4, 5, 600_000)),
        ("2020-01-02T03:04:05.123456789", utc(2020, 1, 2, 3, 4, 5, 123_456)),
        ("1960-01-02T03:04:05.9999999", utc(1960, 1, 2, 3, 4, 5, 999_999)),
        ("2020-01-02T03:04:05Z", utc(2020, 1, 2, 3, 4, 5)),
        ("2020-01-02T03:04:05.5+01:30", utc(2020, 1, 2, 1, 34, 5, 500_000)),
        ("2020-01-02T03:04:05-0100", utc(2020, 1, 2, 4, 4, 5)),
        ("2020-01-02 03:04:05 +02", utc(2020, 1, 2, 1, 4, 5)),
        ("2024-02-29", utc(2024, 2, 29)),
        ("9999-12-31T23:59:59", utc(9999, 12, 31, 23, 59, 59)),
    ],
)
@pytest.mark.parametrize(
    "company", [[], ["rubbish"], ["2020-01-01", "2020-01-01T00:00:00Z"]], ids=["alone", "with-rubbish", "with-others"]
)
def test_iso_texts(text: str, expected: dt.datetime, company: list[str]) -> None:
    times = Events(pa.table({"type": ["wanted"] + ["other"] * len(company), "ts": [text, *company]}))
    assert times.times[times.rows_of("wanted")].tolist() == [(expected - EPOCH) // US]
    assert times.rejected.count == company.count("rubbish")
    assert times.unit == "us"
    assert times.schema["ts"] == "time"


@pytest.mark.parametrize(
    "text",
    ["2023-02-29", "2020-13-01", "2020-00-10", "2020-01-00", "2020-01-01T24:00", "2020-01-01T00:60", "2020-01-01T00:00:60",
     "2020-01-01T00:00:00+25:00", "2020-01-01T", "01/02/2020", "2020-1-1", "", "12:00", "0000-01-01"],
)  # fmt: skip
def test_what_only_looks_like_a_timestamp(text: str) -> None:
    for company in (["2020-01-01"], ["2020-01-01T00:00:00+01:00"]):
        events = read([text, *company])
        assert events.rejected.reasons == {"time is not a timestamp": 1}
        assert events.rejected.table.column("ts").to_pylist() == [text]


def test_texts_are_kept_as_the_times_they_stand_for() -> None:
    assert read(["2020-01-01", "2020-01-02"]).schema.arrow("ts") == pa.timestamp("us")
    assert read(["2020-01-01T00:00:00Z", "2020-01-02"]).schema.arrow("ts") == pa.timestamp("us", "UTC")
    events = read(["2", "1"])
    assert events.column("ts").to_pylist() == [1, 2]
    assert (events.unit, events.schema["ts"]) == ("ms", "number")


@given(
    st.lists(st.datetimes(FIRST, LAST), min_size=1),
    st.integers(-14 * 60, 14 * 60),
    st.booleans(),
)
def test_any_moment_written_as_text_reads_back(moments: list[dt.datetime], offset: int, mixed: bool) -> None:
    zone = dt.timezone(dt.timedelta(minutes=offset))
    texts = [moment.replace(tzinfo=zone).isoformat() for moment in moments]
    expected = sorted((moment.replace(tzinfo=zone) - EPOCH) // US for moment in moments)
    if mixed:
        texts.append("1970-01-01")
        expected = sorted([*expected, 0])
    assert read(texts).times.tolist() == expected
