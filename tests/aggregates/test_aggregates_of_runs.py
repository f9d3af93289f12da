"""Aggregates over repeated parts and over NEXT: those of the matches that the oracle finds, over every event of every list."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
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
from steps import feed
from strategies import cuts, streams, table

WORDS = ("SEQ", "SEQ", "AND", "OR", "NEXT", "NEXT")
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
    ],
)
def test_hand_worked_cases(query: str, text: str, rows: list[tuple[object, ...]]) -> None:
    events = read(text)
    assert [tuple(row.values()) for row in expected(query, events)] == rows
    assert sorted(tuple(row.values()) for row in found(query, events)) == sorted(rows)


def is_known(text: str) -> bool:
    try:
        plan_aggregates(parse(text))
    except sq.PlanError:
        return False
    return True


@given(text=aggregate_queries(repeats=True, depth=2, words=WORDS), events=small)
def test_any_query(text: str, events: list[oracle.Event]) -> None:
    assume(is_known(text))
    show(text, events)
    assert_same_rows(found(text, events), expected(text, events))


@given(text=aggregate_queries(repeats=True, depth=1, words=("SEQ", "NEXT")), events=small)
def test_flat_queries(text: str, events: list[oracle.Event]) -> None:
    show(text, events)
    assert_same_rows(found(text, events), expected(text, events))


@given(data=st.data(), text=aggregate_queries(repeats=True, depth=1, words=("SEQ", "NEXT")), events=small)
def test_any_cutting_equals_whole(data: st.DataObject, text: str, events: list[oracle.Event]) -> None:
    show(text, events)
    stream = Events(table(events))
    operator = open_plan(plan_aggregates(parse(text)))
    pieces = feed(operator, stream, data.draw(cuts(len(events))))
    assert_same_rows(pieces.to_pylist(), operator.run(stream).to_pylist())
