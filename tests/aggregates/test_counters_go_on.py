"""Counters of a stream go on from step to step: the oracle's answer however it is cut and saved, and nothing kept but counters."""

from __future__ import annotations

import math
from dataclasses import replace
from math import comb

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import oracle
from aggregate_queries import COUNTED, applies, assert_same_rows, chains, expected
from answers import show
from seqube.engine.aggregates.aggregation import Aggregator
from seqube.engine.aggregates.counters import BACK_STARTS, FREE_MAPS, FREE_ROWS, N_GROUPS, N_LANES
from seqube.engine.aggregates.ledger import FEWEST, LEVELS
from seqube.engine.aggregates.state import LiveCounts
from seqube.events import Events
from seqube.language import parse
from seqube.plan.aggregates import plan_aggregates
from seqube.plan.needs import why_replayed
from steps import feed, feed_anyhow
from strategies import streams, table


def aggregator(text: str, strategy: str = "window-product") -> Aggregator:
    return Aggregator(replace(plan_aggregates(parse(text)), strategy=strategy))


@pytest.mark.parametrize("strategy", COUNTED)
@given(data=st.data(), text=chains(), events=streams(max_size=18, max_time=12))
def test_in_place_or_from_bytes(strategy: str, data: st.DataObject, text: str, events: list[oracle.Event]) -> None:
    """Whatever is saved between steps, and whatever time is known to have passed."""
    assume(applies(text))
    show(text, events)
    assert_same_rows(feed_anyhow(data, aggregator(text, strategy), events).to_pylist(), expected(text, events))


# ---------------------------------------------------------------- what goes on


@pytest.mark.parametrize("strategy", COUNTED)
@pytest.mark.parametrize(
    "query",
    [
        "SEQ(A a, B b) WITHIN 9 AGG COUNT(*)",
        "SEQ(A a, B b, [id]) WITHIN 9 AGG COUNT(*)",
        "SEQ(A a, B b, [id]) WITHIN 9 AGG COUNT(*) GROUP BY a.id",
        "SEQ(A a, B b, [id]) WITHIN 9 AGG COUNT(*) GROUP BY b.id EMIT EVERY 2",
        "SEQ(A a, B b, [id]) PARTITION BY s WITHIN 9 AGG COUNT(*) GROUP BY s",
        "SEQ(A a, !C c, B b, [id]) WITHIN 9 AGG COUNT(*) EMIT TOTAL",
        "SEQ(!C c, A a, B b) WITHIN 9 AGG COUNT(*)",
        "SEQ(A a, B b, !C c) WITHIN 9 AGG COUNT(*) EMIT TOTAL",
        "SEQ(A a, B b) WITHIN 9 EVENTS PARTITION BY s AGG COUNT(*)",
        "SEQ(A a, B b) WITHIN 9 AGG SUM(a.x), AVG(b.y), MIN(a.w), MAX(b.y), MIN(a.ts), SUM(a.c), SUM(a.u), SUM(b.d)",
        "SEQ(A a, B b) WITHIN 9 AGG STDDEV(a.x), VARIANCE(b.c), STDDEV(a.d)",
    ],
)
def test_what_goes_on(query: str, strategy: str) -> None:
    events = Events(table(oracle.stream(("A", 1, {"id": 1, "s": "p", "x": 1}), ("B", 3, {"id": 1, "s": "p", "x": 2}))))
    counting = aggregator(query, strategy)
    assert why_replayed(counting.plan) is None
    assert not isinstance(counting.course(events), str)
    assert isinstance(counting.step(counting.start(), events)[0], LiveCounts)


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("AND(A a, B b) WITHIN 9 AGG COUNT(*)", "the pattern is not a SEQ"),
        ("SEQ(A a, B b) WITHIN 9 AGG COUNT(*)", "its matches are built"),
        ("SEQ(A a, B b) WITHIN 9 AGG COUNT(*) GROUP BY a.id", "GROUP BY names more of a component than its key"),
        ("SEQ(A a, !C c, B b, a.id = b.id) WITHIN 9 AGG COUNT(*)", "a negated event of any key cancels"),
        ("SEQ(A a, B b) WITHIN 9 AGG STDDEV(a.y)", "the spread of 'y', a column of doubles, is that of all its values at hand"),
        ("SEQ(A a, B b) WITHIN 9 AGG MIN(a.u)", "values of 'u' need more than 64 bits to be compared"),
        ("SEQ(A a, B b, a.id = b.y) WITHIN 9 AGG COUNT(*)", "components name keys of different types"),
    ],
)
def test_what_is_replayed_and_why(query: str, reason: str) -> None:
    events = Events(table(oracle.stream(("A", 1, {"id": 1, "y": 1.0, "u": 1}), ("B", 3, {"id": 1, "y": 2.0, "u": 2}))))
    built = reason in ("the pattern is not a SEQ", "its matches are built")
    counting = aggregator(query, "two-step" if built else "window-product")
    assert counting.course(events) == reason
    assert not isinstance(counting.step(counting.start(), events)[0], LiveCounts)


# ---------------------------------------------------------------- what is kept


def test_per_start_holds_counters_only() -> None:
    """A counter for every live start, and nothing of any other event."""
    types = ["A", "B", "B", "C", "X"] * 200
    events = Events(pa.table({"type": types, "ts": range(1_000)}))
    counting = aggregator("SEQ(A a, B b, C c) WITHIN 50 AGG COUNT(*)", "per-start")
    state = counting.start()
    for row in range(len(events)):
        state, _ = counting.step(state, events.slice(row, row + 1), watermark=row + 1)
        assert state.n_kept == 0
        live = sum(1 for time in range(max(0, row - 49), row + 1) if types[time] == "A")
        used = len(state.ledger.columns.rows) - int(state.ledger.at[FREE_ROWS])
        assert used in (live, live + 1)  # one that has just left is let go with the next event of its lane
        assert len(state.ledger.columns.maps) == 0
    written = state.to_bytes()
    assert len(written) < 10_000
    assert counting.restore(written).n_kept == 0


def test_a_product_keeps_rows_of_starts_and_maps_since_the_turn() -> None:
    random = np.random.default_rng(3)
    events = Events(pa.table({"type": random.choice(list("ABCX"), 20_000), "ts": np.arange(20_000)}))
    counting = aggregator("SEQ(A a, B b, C c) WITHIN 500 AGG COUNT(*)")
    state = counting.start()
    for begin in range(0, 20_000, 100):
        state, _ = counting.step(state, events.slice(begin, begin + 100))
        ledger = state.ledger
        assert len(ledger.columns.rows) - ledger.at[FREE_ROWS] + ledger.at[BACK_STARTS] <= 500
        assert len(ledger.columns.maps) - ledger.at[FREE_MAPS] <= 600
        assert state.n_bytes < 500_000


@pytest.mark.parametrize("query", ["", "GROUP BY a.id", "PARTITION BY s"])
def test_keys_that_do_not_come_back_are_forgotten(query: str) -> None:
    n = 30_000
    types = np.where(np.arange(n) % 3 == 0, "A", np.where(np.arange(n) % 3 == 1, "B", "C"))
    events = Events(pa.table({"type": types, "ts": np.arange(n), "id": np.arange(n) // 3, "s": np.arange(n) // 300}))
    where, _, group = query.partition("GROUP")
    text = f"SEQ(A a, B b, C c, [id]) {where} WITHIN 30 AGG COUNT(*) {'GROUP' + group if group else ''}"
    counting = aggregator(text)
    state, found = counting.start(), 0
    for begin in range(0, n, 500):
        state, rows = counting.step(state, events.slice(begin, begin + 500))
        found += rows.num_rows
        assert state.ledger.at[N_LANES] <= 2 * 200 + FEWEST + 500
        assert state.ledger.at[N_GROUPS] <= 2 * 200 + FEWEST + 500
    assert found == n // 3 - 1


# ---------------------------------------------------------------- exact, however large


@pytest.mark.parametrize("strategy", COUNTED)
@pytest.mark.parametrize(("n", "length", "level"), [(60, 4, 0), (400, 9, 1), (700, 12, 2)])
def test_counts_outgrow_doubles_as_a_stream_goes_on(strategy: str, n: int, length: int, level: int) -> None:
    """n events of one type hold binomial(n, k) sequences of length k; numbers are widened in the middle of a step."""
    stream = Events(pa.table({"type": ["A"] * n, "ts": list(range(n)), "x": [-3] * n}))
    parts = ", ".join(f"A v{i}" for i in range(length))
    text = f"SEQ({parts}) WITHIN {n} AGG COUNT(*) AS n, SUM(v0.x) AS s, MIN(v1.x) AS m"
    counting = aggregator(text, strategy)
    pieces = [(begin, min(begin + 37, n)) for begin in range(0, n, 37)]
    rows = feed(counting, stream, pieces, saved=[number % 5 == 0 for number in range(len(pieces))]).to_pylist()
    assert [int(row["n"]) for row in rows] == [math.comb(i, length) for i in range(1, n + 1)]
    assert [int(row["s"]) for row in rows if row["n"]] == [-3 * math.comb(i, length) for i in range(length, n + 1)]
    assert {row["m"] for row in rows if row["n"]} == {-3}
    state = counting.start()
    for begin, end in pieces:
        state, _ = counting.step(state, stream.slice(begin, end))
    assert state.ledger.level == level < len(LEVELS)


def test_reports_are_due_on_time_alone() -> None:
    events = Events(pa.table({"type": ["A", "B"], "ts": [1, 2]}))
    counting = aggregator("SEQ(A a, B b) WITHIN 9 AGG COUNT(*) EMIT EVERY 5")
    state, rows = counting.step(counting.start(), events, watermark=3)
    assert rows.num_rows == 0
    assert counting.wake(state) == 6
    state, rows = counting.step(state, None, watermark=6)
    assert rows.to_pylist() == [{"ts": 5, "count": 1}]
    assert counting.wake(state) is None


@pytest.mark.parametrize("size", [37, 1_000])
@pytest.mark.parametrize("strategy", COUNTED)
def test_rows_before_a_count_outgrows_its_numbers_stay_as_they_are(strategy: str, size: int) -> None:
    """A step that has to go on with wider numbers half way gives what it had sampled before, too."""
    n = 150
    stream = Events(pa.table({"type": ["A"] * n, "ts": range(n)}))
    text = f"SEQ({', '.join(f'A a{i}' for i in range(12))}) WITHIN 400 AGG COUNT(*)"
    pieces = [(begin, min(begin + size, n)) for begin in range(0, n, size)]
    rows = feed(aggregator(text, strategy), stream, pieces).to_pylist()
    assert [(row["ts"], row["count"]) for row in rows] == [(t, comb(t + 1, 12)) for t in range(n)]
