"""EMIT PER: a row for every bucket in which a match ends, over the matches that end in it; each match counts once."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import oracle
import seqube as sq
from aggregate_queries import COUNTED, applies, chains, found
from seqube.engine import standing
from seqube.engine.aggregates.aggregation import Aggregator
from seqube.engine.aggregates.buckets import TimeBuckets
from seqube.language import parse
from seqube.plan.aggregates import plan_aggregates
from seqube.plan.strategies import names
from strategies import streams

HOUR = 3_600_000_000


def events(text: str) -> pa.Table:
    """`A1 B2 ...`: types and times."""
    words = text.split()
    return pa.table({"type": [word[0] for word in words], "ts": pa.array([int(word[1:]) for word in words], pa.int64())})


def rows(query: str, table: pa.Table, strategy: str = "auto") -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in sq.run(query, table, strategy=strategy).table.to_pylist()]


# ---------------------------------------------------------------- what is reported

#                  0 .. 9            10 .. 19      20 .. 29   30 .. 39
STREAM = events("A1 B2 A8            B11 B12       A25        B30")


@pytest.mark.parametrize("strategy", names("aggregates"))
def test_a_match_counts_in_the_bucket_in_which_it_ends(strategy: str) -> None:
    assert rows("SEQ(A a, B b) WITHIN 11 AGG COUNT(*), MAX(b.ts) EMIT PER 10", STREAM, strategy) == [
        (0, 1, 2),
        (10, 3, 12),  # (1, 11), (8, 11) and (8, 12): a match that began in the bucket before is of this one
        (30, 1, 30),  # and nothing is said of 20 .. 29, where none ends
    ]


def test_every_is_over_windows_and_per_over_buckets() -> None:
    """EVERY 10 says what is in the window that ends there, so a match is in as many rows as windows; PER 10 says it once."""
    query = "SEQ(A a, B b) WITHIN 25 AGG COUNT(*) AS n EMIT {}"
    assert rows(query.format("EVERY 10"), STREAM) == [(10, 1), (20, 5), (30, 4)]
    assert rows(query.format("PER 10"), STREAM) == [(0, 1), (10, 4), (30, 2)]
    assert rows(query.format("TOTAL"), STREAM) == [(7,)]


def test_buckets_of_times_before_1970_begin_at_multiples_too() -> None:
    assert rows("A a WITHIN 5 AGG COUNT(*) EMIT PER 10", events("A-11 A-10 A-1 A0")) == [(-20, 1), (-10, 2), (0, 1)]


@pytest.mark.parametrize("strategy", COUNTED)
@given(text=chains(), stream=streams(max_size=14, max_time=12))
def test_counts_of_buckets_add_up_to_the_total(strategy: str, text: str, stream: list[oracle.Event]) -> None:
    query, _, _ = text.partition("\nEMIT")
    query = "\n".join(line for line in query.split("\n") if not line.startswith("HAVING"))
    assume(applies(query + "\nEMIT PER 3 ms"))
    assume("GROUP BY" in query)
    per, total = (found(f"{query}\nEMIT {emit}", stream, strategy=strategy) for emit in ("PER 3 ms", "TOTAL"))
    summed: Counter[str] = Counter()
    for row in per:
        summed[_group(row)] += row["n"]
    assert summed == {_group(row): row["n"] for row in total}


def _group(row: dict[str, Any]) -> str:
    return repr([value for name, value in row.items() if name != "ts" and not (name == "n" or name.startswith("a"))])


# ---------------------------------------------------------------- while events come


def steps(query: str, *batches: tuple[str, int]) -> list[list[int]]:
    """Where the buckets begin that are reported by each step, of events and the watermark after them."""
    operator = Aggregator(plan_aggregates(parse(query)))
    state, said = operator.start(), []
    for text, watermark in batches:
        batch = sq.Events(events(text)) if text else None
        state, table = operator.step(state, batch, watermark)
        assert table is not None
        said.append(table.column("ts").to_pylist())
    return said


def test_a_bucket_is_reported_when_it_is_over() -> None:
    assert steps("A a WITHIN 5 AGG COUNT(*) EMIT PER 10", ("A1 A9", 9), ("", 10), ("A11 A12 A25", 25), ("", 30)) == [
        [],
        [0],
        [10],
        [20],
    ]


def test_a_bucket_waits_for_matches_that_may_be_cancelled() -> None:
    said = steps("SEQ(A a, !B b) WITHIN 5 AGG COUNT(*) EMIT PER 10", ("A4 A9", 11), ("", 13), ("B13", 14), ("", 15), ("", 30))
    assert said == [[], [], [], [0], []]


@pytest.mark.parametrize(
    ("query", "strategy", "wakes"),
    [
        ("A a", "two-step", [10, 20, None]),
        ("A a", "window-product", [10, 20, None]),
        ("SEQ(A a, !B b)", "two-step", [15, 25, None]),
    ],
)
def test_when_there_will_be_something_to_say(query: str, strategy: str, wakes: list[int | None]) -> None:
    operator = Aggregator(replace(plan_aggregates(parse(f"{query} WITHIN 5 AGG COUNT(*) EMIT PER 10")), strategy=strategy))
    state, _ = operator.step(operator.start(), sq.Events(events("A1 A2 A12")), 3)
    found = []
    for _ in range(3):
        found.append(operator.wake(state))
        state, _ = operator.step(state, None, found[-1] or 100)
    assert found == wakes


def test_groups_of_buckets_that_are_over_are_forgotten() -> None:
    n = 20_000
    table = pa.table({"type": ["A", "B"] * n, "ts": range(2 * n), "id": [k // 2 for k in range(2 * n)]})
    query = "SEQ(A a, B b, [id]) WITHIN 5 GROUP BY a.id AGG COUNT(*) EMIT PER 100"
    operator = Aggregator(replace(plan_aggregates(parse(query)), strategy="window-product"))
    stream, state, n_rows = sq.Events(table), operator.start(), 0
    for start in range(0, 2 * n, 500):
        state, said = operator.step(state, stream.slice(start, start + 500))
        n_rows += said.num_rows if said is not None else 0
        assert state.n_bytes < 4_000_000
    assert n_rows + operator.finish(state)[1].num_rows == n  # type: ignore[union-attr]


def test_a_stream_reports_buckets_as_time_passes() -> None:
    stream = sq.Stream({"q": "SEQ(A a, B b) WITHIN 11 AGG COUNT(*) AS n EMIT PER 10"})
    assert "q" not in stream.push(STREAM.slice(0, 3))
    stream = sq.Stream.load(stream.save())
    assert stream.push(STREAM.slice(3, 2))["q"].to_pylist() == [{"ts": 0, "n": 1}]
    assert stream.advance(20)["q"].to_pylist() == [{"ts": 10, "n": 3}]
    stream.push(STREAM.slice(5))
    assert stream.close()["q"].to_pylist() == [{"ts": 30, "n": 1}]


def test_a_query_that_comes_late_is_whole_with_its_first_whole_bucket(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standing, "KEPT_ANYWAY", 0)
    stream = sq.Stream({"p": "SEQ(A a, B b) WITHIN 3"}, keep=3)
    stream.push(events("A1 A5 A9"))
    assert stream.add("q", "SEQ(A a, B b) WITHIN 4 AGG COUNT(*) EMIT PER 20") == 20


# ---------------------------------------------------------------- by the clocks of a zone


def clock(text: str, zone: str, fold: int = 0) -> int:
    """A time as clocks show it, in microseconds."""
    return round(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone), fold=fold).timestamp() * 1e6)


@pytest.mark.parametrize(
    ("zone", "length", "moment", "start", "hours"),
    [
        ("Europe/Berlin", 24, ("2026-03-29T12:00", 0), ("2026-03-29T00:00", 0), 23),
        ("Europe/Berlin", 24, ("2026-10-25T02:30", 1), ("2026-10-25T00:00", 0), 25),
        ("Europe/Berlin", 1, ("2026-10-25T02:30", 0), ("2026-10-25T02:00", 0), 1),
        ("Europe/Berlin", 1, ("2026-10-25T02:30", 1), ("2026-10-25T02:00", 1), 1),
        ("Europe/Berlin", 2, ("2026-03-29T03:30", 0), ("2026-03-29T03:00", 0), 1),
        ("Europe/Berlin", 4, ("2026-10-25T03:30", 0), ("2026-10-25T00:00", 0), 5),
        ("Asia/Kolkata", 1, ("2026-01-01T00:10", 0), ("2026-01-01T00:00", 0), 1),
        ("America/Sao_Paulo", 24, ("2018-11-04T13:00", 0), ("2018-11-04T01:00", 0), 23),  # its midnight was skipped
        ("America/Havana", 24, ("2026-11-01T00:30", 1), ("2026-11-01T00:00", 0), 25),  # and this one was there twice
    ],
)
def test_buckets_where_clocks_change(zone: str, length: int, moment: tuple[str, int], start: tuple[str, int], hours: int) -> None:
    buckets, times = TimeBuckets(length * HOUR, zone), np.array([clock(moment[0], zone, moment[1])])
    begins, ends = buckets.starts(times), buckets.ends(times)
    assert begins.tolist() == [clock(start[0], zone, start[1])]
    assert (ends - begins).tolist() == [hours * HOUR]


@given(
    zone=st.sampled_from(["Europe/Berlin", "America/Sao_Paulo", "Australia/Lord_Howe", "America/Havana", "Asia/Kolkata"]),
    minutes=st.sampled_from([1, 15, 45, 60, 90, 120, 240, 1_440, 2_160, 10_080]),
    day=st.integers(16_436, 20_819),  # of the years 2015 to 2026
)
def test_buckets_follow_each_other_without_a_hole(zone: str, minutes: int, day: int) -> None:
    times = day * 24 * HOUR + np.arange(0, 600 * HOUR, 7 * 60_000_000)
    buckets = TimeBuckets(minutes * 60_000_000, zone)
    begins, ends = buckets.starts(times), buckets.ends(times)
    assert ((begins <= times) & (times < ends)).all()
    assert (np.unique(ends) >= np.unique(begins)).all()
    assert ((begins[1:] == begins[:-1]) | (begins[1:] >= ends[:-1])).all()
    assert buckets.starts(begins).tolist() == begins.tolist()
    assert buckets.starts(ends).tolist() == ends.tolist()
    assert buckets.ends(ends - 1).tolist() == ends.tolist()


def test_a_day_of_a_zone_begins_at_its_midnight() -> None:
    zone = ZoneInfo("Europe/Berlin")
    times = [datetime(2026, 3, 28, 23, 30, tzinfo=zone), datetime(2026, 3, 29, 0, 30, tzinfo=zone)]
    table = pa.table({"type": ["A", "A"], "ts": pa.array(times, pa.timestamp("s", "Europe/Berlin"))})
    found = sq.run("A a WITHIN 1 h AGG COUNT(*) AS n EMIT PER 1 day", table).table
    assert found.schema.field("ts").type == pa.timestamp("s", "Europe/Berlin")
    assert [str(row["ts"]) for row in found.to_pylist()] == ["2026-03-28 00:00:00+01:00", "2026-03-29 00:00:00+01:00"]
    utc = table.set_column(1, "ts", table.column("ts").cast(pa.timestamp("s", "UTC")))
    assert sq.run("A a WITHIN 1 h AGG COUNT(*) AS n EMIT PER 1 day", utc).table.column("n").to_pylist() == [2]


def test_the_start_of_a_bucket_may_be_finer_than_the_times() -> None:
    table = pa.table({"type": ["A"], "ts": pa.array([1_767_225_602], pa.timestamp("s"))})
    (row,) = sq.run("A a WITHIN 1 s AGG COUNT(*) EMIT PER 1500 ms", table).table.to_pylist()
    assert str(row["ts"]) == "2026-01-01 00:00:01.500000"


# ---------------------------------------------------------------- what is written, and what is refused


def test_it_is_written_as_it_is_read() -> None:
    query = parse("SEQ(A a, B b) WITHIN 5 min AGG COUNT(*) EMIT PER 1 hour")
    assert "EMIT PER 1 h" in str(query)
    assert parse(str(query)) == query


@pytest.mark.parametrize(
    ("emit", "said"),
    [
        ("PER 0 s", "EMIT PER must be longer than zero"),
        ("PER 5 EVENTS", "EMIT PER takes a time, not a number of events"),
        ("PER", "expected"),
    ],
)
def test_what_is_no_bucket_is_refused(emit: str, said: str) -> None:
    with pytest.raises(sq.QueryError, match=said):
        parse(f"A a WITHIN 5 AGG COUNT(*) EMIT {emit}")


def test_a_bucket_is_a_whole_number_of_ticks() -> None:
    with pytest.raises(sq.PlanError, match="EMIT PER 1500 us is not a whole number of ms"):
        sq.run("A a WITHIN 5 AGG COUNT(*) EMIT PER 1500 us", STREAM)


def test_explain_says_when_and_which_way() -> None:
    told = str(sq.explain("SEQ(A a, B b) WITHIN 12 AGG COUNT(*) EMIT PER 10", STREAM, strategy="window-product"))
    assert "reported for every bucket, when it is over: each match once, where it ends" in told
    assert "matches, counted without being built" in told
    told = str(sq.explain("SEQ(A a, !B b) WITHIN 12 AGG COUNT(*) EMIT PER 10", STREAM))
    assert "by two-step" in told
    assert "a trailing negation decides on a match when its bucket may be over" in told


def test_a_plot_of_buckets_is_a_line() -> None:
    chart = sq.run("SEQ(A a, B b) WITHIN 11 AGG COUNT(*) AS n EMIT PER 10", STREAM).plot().to_dict()
    assert chart["mark"]["type"] == "line"
    assert [(row["ts"], row["value"]) for row in chart["data"]["values"]] == [(0, 1), (10, 3), (30, 1)]
