"""Aggregates over repeated parts, NEXT and STRICT, with ORDER BY and SKIP: those of the oracle's matches and all their events."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
import seqube as sq
from aggregate_queries import aggregate_queries, assert_same_rows, expected, found
from answers import show
from hand_worked import events as read
from seqube.engine.operator import open_plan
from seqube.events import Events
from seqube.language import parse
from seqube.plan.aggregates import plan_aggregates
from steps import feed_anyhow
from strategies import streams, table

WORDS = ("SEQ", "SEQ", "AND", "OR", "NEXT", "STRICT")
small = streams(max_size=8)


@pytest.mark.parametrize(
    ("query", "text", "rows"),
    [
        ("SEQ(A, B+ b) AGG COUNT(*), SUM(b.id) WITHIN 9 EMIT TOTAL", "A1 B2:1 B3:2", [(3, 6)]),
        ("SEQ(A, B+ b) AGG COUNT(*) WITHIN 9", "A1 B2 B3", [(2, 1), (3, 3)]),
        ("SEQ(A, B* b) AGG COUNT(*), MAX(b.id) WITHIN 9", "A1 B2:7", [(1, 1, None), (2, 2, 7)]),
        ("SEQ(A, B+ b) WHERE b.id > 1 AGG COUNT(*) WITHIN 9", "A1 B2:1 B3:2", [(3, 1)]),
        ("NEXT(A, B) AGG COUNT(*) WITHIN 9 EMIT TOTAL", "A1 A2 B3 B4", [(2,)]),
        ("NEXT(A a, B b, [id]) GROUP BY a.id AGG COUNT(*) WITHIN 9 EMIT TOTAL", "A1:1 A2:2 B3:2 A4:1 B5:1", [(1, 2), (2, 1)]),
        ("NEXT(A, B+ b) AGG COUNT(*), AVG(b.id) WITHIN 9 EMIT TOTAL", "A1 B2:1 B3:3", [(1, 2.0)]),
        ("NEXT(A, B+ b) AGG COUNT(*) WITHIN 9", "A1 B2 B3", [(2, 1), (3, 1)]),
        ("STRICT(A, B+ b) AGG COUNT(*), SUM(b.id) WITHIN 9 EMIT TOTAL", "A1 B2:1 B3:2 C4 A5 C6 B7", [(1, 3)]),
        ("STRICT(A, B) AGG COUNT(*) WITHIN 9", "A1 B2 A3 C4 B5", [(2, 1)]),
        ("SEQ(A a, B b) ORDER BY id AGG COUNT(*) WITHIN 9", "A1:1 B1:2 B3:0", [(1, 1), (3, 2)]),
        ("SEQ(A a, B b) SKIP PAST LAST AGG COUNT(*) WITHIN 9", "A1 B2 B3 A4 B5", [(2, 1), (3, 1), (5, 2)]),
        ("SEQ(A a, B b) SKIP TO NEXT AGG COUNT(*) WITHIN 9 EMIT TOTAL", "A1 A2 B3 B4", [(2,)]),
        ("SEQ(A a, NEXT(B b, B+ c)) AGG COUNT(*) WITHIN 9 EMIT TOTAL", "A1 B2 B3 B4", [(2,)]),
    ],
)
def test_hand_worked_cases(query: str, text: str, rows: list[tuple[object, ...]]) -> None:
    events = read(text)
    assert [tuple(row.values()) for row in expected(query, events)] == rows
    assert sorted(tuple(row.values()) for row in found(query, events)) == sorted(rows)


def test_a_key_of_decimals_where_a_part_is_absent() -> None:
    stream = table(oracle.stream(*((kind, ts, {"c": Decimal("0.20")}) for ts, kind in enumerate("BAA"))))
    query = "SEQ(OR(C v1, B v2), SEQ(D? v3, A{2,} v4, [c]), [c]) WITHIN 9 AGG COUNT(*) AS n EMIT TOTAL"
    assert sq.run(query, stream).table.to_pylist() == [{"n": 1}]


@given(text=aggregate_queries(repeats=True, depth=2, words=WORDS), events=small)
def test_any_query(text: str, events: list[oracle.Event]) -> None:
    show(text, events)
    assert_same_rows(found(text, events), expected(text, events))


CLAUSES = st.sampled_from([("ORDER BY",), ("SKIP",), ("ORDER BY", "SKIP")])


@given(text=CLAUSES.flatmap(lambda c: aggregate_queries(repeats=True, depth=1, words=(*WORDS, "STRICT"), clauses=c)), events=small)
def test_order_and_skip(text: str, events: list[oracle.Event]) -> None:
    show(text, events)
    assert_same_rows(found(text, events), expected(text, events))


@given(
    data=st.data(),
    text=CLAUSES.flatmap(lambda c: aggregate_queries(repeats=True, depth=2, words=WORDS, clauses=c)),
    events=small,
)
def test_any_cutting_of_a_stream_that_is_thinned_out(data: st.DataObject, text: str, events: list[oracle.Event]) -> None:
    """Whether or not the state was bytes between two steps: what was settled about the matches before is part of it."""
    show(text, events)
    found = feed_anyhow(data, open_plan(plan_aggregates(parse(text))), events)
    assert_same_rows(found.to_pylist(), expected(text, events))


@pytest.mark.parametrize("emit", ["", "EMIT EVERY 7", "EMIT PER 50", "EMIT TOTAL"])
@pytest.mark.parametrize(
    "query",
    [
        "SEQ(A a, B b) SKIP PAST LAST WITHIN 20",
        "NEXT(A a, B{1,2} b, C c) PARTITION BY id SKIP TO FIRST b WITHIN 30",
        "SEQ(A a, B b, !C c) SKIP TO NEXT WITHIN 9",
        "STRICT(A a, B b) SKIP PAST LAST WITHIN 8 EVENTS",
    ],
)
def test_a_long_stream_that_is_thinned_out_keeps_a_few_windows(query: str, emit: str) -> None:
    n = 600
    types = [("A", "B", "B", "C", "A")[(i * i + i // 7) % 5] for i in range(n)]
    events = Events(pa.table({"type": types, "ts": range(n), "id": [i % 3 for i in range(n)]}))
    text = f"{query} AGG COUNT(*) AS n, SUM(b.ts) AS s {emit}"
    operator = open_plan(plan_aggregates(parse(text)))
    state, found, most = operator.start(), [], 0
    for start in range(0, n, 13):
        state, rows = operator.step(state, events.slice(start, min(start + 13, n)))
        found.append(rows)
        most = max(most, state.n_kept)
    found.append(operator.finish(state)[1])
    assert_same_rows(pa.concat_tables(found).to_pylist(), operator.run(events).to_pylist())
    assert most < 120


@given(text=aggregate_queries(repeats=True, depth=1, words=("SEQ", "NEXT")), events=small)
def test_flat_queries(text: str, events: list[oracle.Event]) -> None:
    show(text, events)
    assert_same_rows(found(text, events), expected(text, events))


@given(data=st.data(), text=aggregate_queries(repeats=True, depth=1, words=("SEQ", "NEXT", "STRICT")), events=small)
def test_any_cutting(data: st.DataObject, text: str, events: list[oracle.Event]) -> None:
    show(text, events)
    found = feed_anyhow(data, open_plan(plan_aggregates(parse(text))), events)
    assert_same_rows(found.to_pylist(), expected(text, events))


@given(
    data=st.data(),
    text=aggregate_queries(repeats=True, depth=1, words=("SEQ", "NEXT", "STRICT"), clauses=("ORDER BY",)),
    events=small,
)
def test_any_cutting_of_what_is_ordered(data: st.DataObject, text: str, events: list[oracle.Event]) -> None:
    show(text, events)
    found = feed_anyhow(data, open_plan(plan_aggregates(parse(text))), events)
    assert_same_rows(found.to_pylist(), expected(text, events))
