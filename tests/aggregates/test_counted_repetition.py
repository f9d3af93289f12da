"""Repeated and optional parts are counted without building their lists: what the oracle says, however it is run."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import oracle
import seqube as sq
from aggregate_queries import COUNTED, applies, assert_same_rows, expected, repeated_chains
from answers import show
from hand_worked import events as read
from seqube.engine.aggregates.aggregation import Aggregator
from seqube.engine.aggregates.state import LiveCounts
from seqube.events import Events
from seqube.language import parse
from seqube.plan.aggregates import chain_of, plan_aggregates
from steps import feed, feed_anyhow
from strategies import streams, table


def counting(text: str, strategy: str) -> Aggregator:
    return Aggregator(replace(plan_aggregates(parse(text)), strategy=strategy))


@pytest.mark.parametrize("strategy", COUNTED)
@given(data=st.data(), text=repeated_chains(), events=streams(max_size=10))
def test_counters_of_lists_equal_the_oracle(strategy: str, data: st.DataObject, text: str, events: list[oracle.Event]) -> None:
    """Whole, and in steps between which the state goes on in place or through bytes."""
    assume(applies(text))
    show(text, events)
    aggregator, wanted = counting(text, strategy), expected(text, events)
    assert_same_rows(aggregator.run(Events(table(events))).to_pylist(), wanted)
    assert_same_rows(feed_anyhow(data, aggregator, events).to_pylist(), wanted)


@given(data=st.data(), text=repeated_chains(), events=streams(max_size=10))
def test_what_is_not_counted_is_built(data: st.DataObject, text: str, events: list[oracle.Event]) -> None:
    """By the strategy that is right for every pattern, and by the one that is taken."""
    show(text, events)
    wanted = expected(text, events)
    assert_same_rows(counting(text, "two-step").run(Events(table(events))).to_pylist(), wanted)
    assert_same_rows(sq.run(text, table(events)).table.to_pylist(), wanted)


@pytest.mark.parametrize("strategy", ["two-step", *COUNTED])
@pytest.mark.parametrize(
    ("query", "text", "rows"),
    [
        ("SEQ(A, B+ b, C)", "A1 B2 B3 C4", [(4, 3)]),
        ("SEQ(A, B* b, C)", "A1 B2 B3 C4", [(4, 4)]),
        ("SEQ(A, B? b, C)", "A1 B2 B3 C4", [(4, 3)]),
        ("SEQ(A, B{2} b, C)", "A1 B2 B3 B4 C5", [(5, 3)]),
        ("SEQ(A, B{2,} b, C)", "A1 B2 B3 B4 C5", [(5, 4)]),
        ("SEQ(A, B{1,2} b, C)", "A1 B2 B3 B4 C5", [(5, 6)]),
        ("SEQ(A, B{,2} b, C)", "A1 B2 B3 B4 C5", [(5, 7)]),
        ("SEQ(A, B+ b, C)", "A1 B2 B2 C4", [(4, 2)]),  # one time: no list has both
        ("SEQ(A+ a)", "A1 A2 A2 A9", [(1, 1), (2, 5), (9, 1)]),
        ("SEQ(A, B+ b)", "A1 B2 B3 B9", [(2, 1), (3, 3), (9, 0)]),
        ("SEQ(A? a, B* b)", "A1 B2", [(1, 1), (2, 3)]),
        ("SEQ(A, !D, B* b, C)", "A1 D2 B3 C4", [(4, 0)]),  # between A and the B, or the C where there is no B
        ("SEQ(A, !D, B* b, C)", "A1 B2 D3 C4", [(4, 1)]),
        ("SEQ(A, B* b, !D, C)", "A1 D2 B3 C4", [(4, 1)]),
        ("SEQ(A, B* b, !D, C)", "A1 B2 D3 C4", [(4, 0)]),
        ("SEQ(A, !D, B? b)", "A1 D2 B3", [(1, 1)]),  # at 3 the D has cancelled both
        ("SEQ(!D, A+ a, B)", "D1 A2 A3 B4 B8", [(4, 0), (8, 1)]),  # of A3 alone: A2 has left
    ],
)
def test_hand_worked_counts(query: str, text: str, rows: list[tuple[int, int]], strategy: str) -> None:
    events, text = read(text), f"{query} WITHIN 6 AGG COUNT(*)"
    assert [tuple(row.values()) for row in expected(text, events)] == rows
    found = counting(text, strategy).run(Events(table(events))).to_pylist()
    assert [tuple(row.values()) for row in found] == rows


@pytest.mark.parametrize("strategy", ["two-step", *COUNTED])
def test_measures_are_over_every_event_of_every_list(strategy: str) -> None:
    """The lists of 1, 2 and 4 are seven, in which each stands four times."""
    stream = Events(table(read("A1:9 B2:1 B3:2 B4:4 C5:3")))
    asked = "SUM(b.id) AS s, AVG(b.id) AS m, MIN(b.id) AS low, MAX(b.id) AS high, SUM(a.id) AS a, AVG(c.id) AS c"
    for emit in ("", "EMIT TOTAL", "EMIT EVERY 5"):
        rows = counting(f"SEQ(A a, B+ b, C c) WITHIN 9 AGG COUNT(*) AS n, {asked} {emit}", strategy).run(stream).to_pylist()
        assert {"n": 7, "s": 28, "m": 28 / 12, "low": 1, "high": 4, "a": 63, "c": 3.0}.items() <= rows[-1].items()


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("SEQ(A a, B+ b) WHERE b.x > PREV(b.x)", "events of the list 'b' are compared with each other (PREV)"),
        ("SEQ(A a, B+ b) WHERE COUNT(b) > 2", "something is asked of the list 'b' as a whole"),
        ("SEQ(A a, B+ b) WHERE b.x > a.x", "a predicate compares events by more than one equality through all components"),
        ("SEQ(A a, B+ b, C c) WHERE b.id = PREV(b.id)", "events of the list 'b' agree on more, or less, than the key of the SEQ"),
        ("SEQ(A? a, B b, [id])", "a part that is there alone needs no equal, though the others have a key"),
        ("SEQ(A? a, !C, B b)", "a negation stands first where the parts before it are absent"),
        ("SEQ(A a, B? b) GROUP BY b.id", "GROUP BY names a part that may be absent"),
        ("SEQ(A a, B b) ORDER BY x", "ORDER BY says what is after what"),
        ("SEQ(A a, B b) SKIP TO NEXT", "SKIP asks which matches there are"),
        ("SEQ(A a, B{1,200} b)", "its lists have more than 100 lengths that would have to be counted apart"),
        ("NEXT(A a, B+ b)", "the pattern is not a SEQ"),
        ("STRICT(A a, B+ b)", "the pattern is not a SEQ"),
    ],
)
def test_what_is_built_is_told(query: str, reason: str) -> None:
    text = f"{query} WITHIN 9 AGG COUNT(*)"
    assert chain_of(plan_aggregates(parse(text))) == reason
    assert f"rejected: window-product, {reason}" in str(sq.explain(text, table(read("A1 B2"))))


def test_windows_of_events_say_what_they_cannot_count() -> None:
    for query, reason in {
        "SEQ(A a, B? b) WITHIN 9 EVENTS AGG COUNT(*)": "a part at the edge may be absent, in a window that counts events",
        "SEQ(A a, B+ b) WITHIN 9 EVENTS AGG COUNT(*) EMIT TOTAL": "its last part is repeated, in a window that counts events",
    }.items():
        assert chain_of(plan_aggregates(parse(query))) == reason


# ---------------------------------------------------------------- many lists


def doubling(n: int) -> Events:
    """An A, n B's and a C: 2^n - 1 lists."""
    return Events(pa.table({"type": ["A", *["B"] * n, "C"], "ts": range(n + 2), "x": [0, *[-3] * n, 0]}))


@pytest.mark.parametrize("strategy", COUNTED)
@pytest.mark.parametrize("n", [20, 60, 240])
def test_lists_beyond_64_bits_are_counted_exactly(strategy: str, n: int) -> None:
    text = "SEQ(A a, B+ b, C c) WITHIN 1000 AGG COUNT(*) AS n, SUM(b.x) AS s, AVG(b.x) AS m, MIN(b.x) AS low"
    wanted = (2**n - 1, -3 * n * 2 ** (n - 1), -3.0, -3)
    pieces = [(begin, min(begin + 37, n + 2)) for begin in range(0, n + 2, 37)]
    for rows in (counting(text, strategy).run(doubling(n)), feed(counting(text, strategy), doubling(n), pieces)):
        (row,) = rows.to_pylist()
        assert (int(row["n"]), int(row["s"]), row["m"], row["low"]) == wanted


@pytest.mark.parametrize("strategy", COUNTED)
def test_more_than_76_digits_name_the_approximate_count(strategy: str) -> None:
    events, text = doubling(300), "SEQ(A a, B+ b, C c) WITHIN 1000 AGG COUNT(*)"
    with pytest.raises(sq.DataError, match=r"more than 76 digits\n.*APPROX_COUNT\(\*\)"):
        counting(text, strategy).run(events)
    with pytest.raises(sq.DataError, match=r"more than 76 digits\n.*APPROX_COUNT\(\*\)"):
        feed(counting(text, strategy), events, [(0, 150), (150, 302)])


@pytest.mark.parametrize("strategy", COUNTED)
def test_approximate_counts_are_doubles_however_many_there_are(strategy: str) -> None:
    text = "SEQ(A a, B+ b, C c) WITHIN 9999 AGG APPROX_COUNT(*)"
    for n, wanted in ((3, 7.0), (300, 2.0**300), (2_000, math.inf)):
        for rows in (counting(text, strategy).run(doubling(n)), feed(counting(text, strategy), doubling(n), [(0, n), (n, n + 2)])):
            assert rows.schema.field("approx_count").type == pa.float64()
            assert rows.column("approx_count").to_pylist() == [wanted]


@pytest.mark.parametrize("strategy", ["two-step", *COUNTED])
def test_the_two_counts_side_by_side(strategy: str) -> None:
    text = "SEQ(A a, B+ b, C c) WITHIN 99 AGG COUNT(*) AS n, APPROX_COUNT(*) AS about, SUM(b.x) AS s HAVING about > 2"
    for emit in ("", "EMIT TOTAL"):
        aggregator = counting(f"{text} {emit}", strategy)
        for rows in (aggregator.run(doubling(5)), feed(aggregator, doubling(5), [(0, 3), (3, 7)])):
            assert [(row["n"], row["about"], row["s"]) for row in rows.to_pylist()] == [(31, 31.0, -240)]


@pytest.mark.parametrize("strategy", COUNTED)
def test_lists_that_never_end_may_be_as_many_as_they_like(strategy: str) -> None:
    """The C comes when the first A and its B's have left: what is reported is small, whatever there was between."""
    n = 1_500
    types = ["A", "B", "C", "A", *["B"] * n, "A", "B", "C"]
    times = [0, 1, 2, 3, *range(4, 4 + n), 9_000, 9_001, 9_002]
    events, text = Events(pa.table({"type": types, "ts": times})), "SEQ(A a, B+ b, C c) WITHIN 2000 AGG COUNT(*) AS n"
    for rows in (counting(text, strategy).run(events), feed(counting(text, strategy), events, [(0, 700), (700, len(types))])):
        assert rows.to_pylist() == [{"ts": 2, "n": 1}, {"ts": 9_002, "n": 1}]


def test_counters_of_lists_go_on_without_events() -> None:
    events = Events(pa.table({"type": ["A", "B", "B", "C"] * 100, "ts": range(400)}))
    aggregator = counting("SEQ(A a, B+ b, C c) WITHIN 40 AGG COUNT(*)", "window-product")
    state = aggregator.start()
    for row in range(len(events)):
        state, _ = aggregator.step(state, events.slice(row, row + 1), watermark=row + 1)
    assert isinstance(state, LiveCounts)
    assert state.n_kept == 0


def test_a_stream_counts_lists() -> None:
    query = "SEQ(A a, B+ b, C c, [id]) WITHIN 99 AGG COUNT(*) AS n, APPROX_COUNT(*) AS about"
    events = pa.table({"type": list("ABBBCABBC"), "ts": np.arange(9), "id": [1] * 9})
    stream = sq.Stream({"lists": query})
    found = [stream.push(events.slice(begin, 3))["lists"] for begin in (0, 3, 6)]
    rows = [row for piece in (*found, stream.close()["lists"]) for row in piece.to_pylist()]
    assert rows == [{"ts": 4, "n": 7, "about": 7.0}, {"ts": 8, "n": 41, "about": 41.0}]


def test_events_that_come_together_are_counted_however_far_apart_most_are() -> None:
    """Twenty B's in one window, a thousand times, with nothing for long between: building them would be a billion matches."""
    times = np.concatenate([np.arange(22) + 1_000_000 * burst for burst in range(1_000)])
    events = sq.Events(pa.table({"type": ["A", *["B"] * 20, "C"] * 1_000, "ts": times}))
    query = "SEQ(A a, B+ b, C c) WITHIN 100 AGG COUNT(*) AS n EMIT TOTAL"
    assert sq.run(query, events, max_seconds=60).table.to_pylist() == [{"n": 1_000 * (2**20 - 1)}]
    assert "rejected: two-step" in str(sq.explain(query, events))
