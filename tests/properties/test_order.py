"""ORDER BY, SKIP and KEEP PARTIAL: what is after what, which matches remain, and how far runs got."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import hand_worked
import oracle
import seqube as sq
from answers import assert_equal_matches, counted, rows_of, run, show, shown
from seqube.engine.matching import Matcher
from seqube.events import Events
from seqube.language import parse
from seqube.plan.planner import plan_matches
from steps import assert_any_cutting_equals_whole, feed
from strategies import cuts, queries, streams, table

WORDS = ("SEQ", "SEQ", "AND", "OR", "NEXT", "STRICT")
small = streams(max_size=9)
tied = streams(max_size=9, max_time=3)


@pytest.mark.parametrize(("query", "text", "expected"), hand_worked.SKIPS + hand_worked.ORDERS)
def test_hand_worked_cases(query: str, text: str, expected: list[str]) -> None:
    assert sorted(map(shown, run(query, hand_worked.events(text)))) == sorted(expected)


@given(text=queries(repeats=True, depth=2, words=WORDS, clauses=["ORDER BY"]), events=tied)
def test_order_by(text: str, events: list[oracle.Event]) -> None:
    assert_equal_matches(text, events)


@given(text=queries(depth=2, clauses=["ORDER BY"]), events=tied)
def test_order_by_of_single_events(text: str, events: list[oracle.Event]) -> None:
    assert_equal_matches(text, events)


@given(data=st.data(), text=queries(depth=2, words=WORDS, clauses=["ORDER BY"]), events=tied, watermarks=st.booleans())
def test_any_cutting_of_an_ordered_stream(data: st.DataObject, text: str, events: list[oracle.Event], watermarks: bool) -> None:
    assert_any_cutting_equals_whole(text, events, data.draw(cuts(len(events))), watermarks)


@given(text=queries(repeats=True, depth=2, words=WORDS, clauses=["SKIP"]), events=small)
def test_skip(text: str, events: list[oracle.Event]) -> None:
    assert_equal_matches(text, events)


@given(text=queries(depth=1, words=("SEQ",), clauses=["SKIP", "ORDER BY"]), events=tied)
def test_skip_in_an_ordered_stream(text: str, events: list[oracle.Event]) -> None:
    assert_equal_matches(text, events)


def test_skip_needs_the_whole_stream() -> None:
    matcher = Matcher(plan_matches(parse("SEQ(A, B) SKIP PAST LAST WITHIN 5")))
    with pytest.raises(sq.PlanError, match=r"SKIP .* needs the whole stream"):
        matcher.start()


# ---------------------------------------------------------------- how far runs got


@pytest.mark.parametrize(("query", "text", "expected"), hand_worked.PARTIAL)
def test_hand_worked_runs(query: str, text: str, expected: list[str]) -> None:
    assert sorted(f"{shown(row)} {row['reached']}" for row in run(query, hand_worked.events(text))) == sorted(expected)


def kept(table: Any) -> list[dict[str, Any]]:
    return [
        {name: value if name in ("start", "end", "reached") else rows_of(value) for name, value in row.items()}
        for row in table.to_pylist()
    ]


def _begins_surely(text: str) -> bool:
    """Whether KEEP PARTIAL takes it: no negation stands where nothing surely stands before it."""
    try:
        parse(text)
    except sq.QueryError:
        return False
    return True


partial = queries(repeats=True, depth=1, words=("NEXT",), clauses=["KEEP PARTIAL"]).filter(_begins_surely)


@given(text=partial, events=streams())
def test_partial_runs(text: str, events: list[oracle.Event]) -> None:
    show(text, events)
    assert counted(kept(sq.run(text, table(events)).table)) == counted(oracle.partial_runs(parse(text), events))


@given(data=st.data(), text=partial, events=streams(), watermarks=st.booleans())
def test_any_cutting_of_partial_runs(data: st.DataObject, text: str, events: list[oracle.Event], watermarks: bool) -> None:
    show(text, events)
    stream = Events(table(events))
    plan = plan_matches(parse(text))
    pieces = feed(Matcher(plan), stream, data.draw(cuts(len(events))), watermarks)
    assert counted(kept(pieces)) == counted(kept(Matcher(plan).run(stream)))


def test_partial_runs_with_return() -> None:
    events = table(hand_worked.events("A1:7 B3:7 A5:8"))
    found = sq.run("NEXT(A a, B b) PARTITION BY id KEEP PARTIAL WITHIN 9 RETURN id, b.ts AS at", events).table.to_pylist()
    assert found == [{"id": 7, "at": 3, "reached": 2, "end": 3}, {"id": 8, "at": None, "reached": 1, "end": 5}]
