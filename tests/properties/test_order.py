"""ORDER BY, SKIP and KEEP PARTIAL: what is after what, which matches remain, and how far runs got."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import hand_worked
import oracle
import seqube as sq
from answers import assert_equal_matches, counted, rows_of, run, show, shown
from seqube.engine import evaluation, matching, order
from seqube.engine.matching import Matcher
from seqube.language import parse
from seqube.language.definitions import spell_out
from seqube.plan.planner import plan_matches
from steps import assert_goes_on, feed_anyhow
from strategies import queries, streams, table

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


@given(data=st.data(), text=queries(depth=2, words=WORDS, clauses=["ORDER BY"]), events=tied)
def test_any_cutting_of_an_ordered_stream(data: st.DataObject, text: str, events: list[oracle.Event]) -> None:
    assert_goes_on(data, text, events)


@given(text=queries(repeats=True, depth=2, words=WORDS, clauses=["SKIP"]), events=small)
def test_skip(text: str, events: list[oracle.Event]) -> None:
    assert_equal_matches(text, events)


@given(text=queries(repeats=True, depth=2, words=WORDS, clauses=["SKIP"]), events=small)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_matches_without_a_chance_are_not_held(monkeypatch: pytest.MonkeyPatch, text: str, events: list[oracle.Event]) -> None:
    monkeypatch.setattr(order, "HELD", 0)
    monkeypatch.setattr(evaluation, "PIECE", 2)
    assert_equal_matches(text, events)


def test_of_millions_of_matches_those_are_held_that_may_be_taken() -> None:
    n = 3_000
    many = pa.table({"type": ["A"] * n + ["B"] * n, "ts": range(2 * n)})
    found = sq.run("SEQ(A a, B b) SKIP TO NEXT WITHIN 9999 RETURN b.ts AS b", many, max_state_bytes=32 << 20)
    assert set(found.table.column("b").to_pylist()) == {n}  # of 9,000,000, which would take 144 MB


@given(text=queries(depth=1, words=("SEQ",), clauses=["SKIP", "ORDER BY"]), events=tied)
def test_skip_in_an_ordered_stream(text: str, events: list[oracle.Event]) -> None:
    assert_equal_matches(text, events)


@given(data=st.data(), text=queries(repeats=True, depth=2, words=WORDS, clauses=["SKIP"]), events=small)
def test_any_cutting_of_a_stream_that_is_thinned_out(data: st.DataObject, text: str, events: list[oracle.Event]) -> None:
    assert_goes_on(data, text, events)


@given(data=st.data(), text=queries(depth=1, words=("SEQ",), clauses=["SKIP"]), events=streams())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_flat_sequences_go_on_with_skip(
    monkeypatch: pytest.MonkeyPatch, data: st.DataObject, text: str, events: list[oracle.Event]
) -> None:
    """Whatever is forgotten at every step, and whether or not the state was bytes between two steps."""
    monkeypatch.setattr(matching, "SLACK", 0)
    assert_goes_on(data, text, events)


def test_skip_reads_variables_that_are_not_returned() -> None:
    found = sq.run("SEQ(A a, B b, C c) SKIP TO LAST b WITHIN 9 RETURN a.ts AS at", table(hand_worked.events("A1 B2 A3 C4 B5 C6")))
    assert found.table.to_pylist() == [{"at": 1}, {"at": 3}]


def test_a_match_waits_until_all_that_end_before_it_are_known() -> None:
    """A2 begins a match that ends before the one of A1, and is final only when its own window is over."""
    stream = sq.Stream({"q": "SEQ(A a, !D, B b, !C) WITHIN 10 SKIP PAST LAST"})
    assert stream.push(table(hand_worked.events("A1 A2 B3 D4"))) == {}
    assert stream.advance(12) == {}
    assert stream.advance(13)["q"].column("start").to_pylist() == [1]


def test_a_thinned_out_query_that_comes_late_does_not_say_since_when_it_is_whole() -> None:
    stream = sq.Stream({"q": "SEQ(A a, B b) WITHIN 3"}, keep=3)
    stream.push(table(hand_worked.events(" ".join(f"A{n}" for n in range(1, 12_000)))))
    stream.add("late", "SEQ(A a, B b) WITHIN 3 SKIP PAST LAST")
    assert stream.stats.queries["late"].since is None


@given(text=queries(depth=2, words=WORDS), events=tied)
def test_the_order_of_events_is_that_of_every_query_without_one(text: str, events: list[oracle.Event]) -> None:
    show(text, events)
    ordered = sq.Events(table(events), order=["x", "s"])
    found, expected = sq.run(text, ordered).table, sq.run(f"{text} ORDER BY x, s", table(events)).table
    assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, expected.to_pylist()))


def test_an_order_of_events_gives_way_to_that_of_a_query_and_names_columns_that_are_there() -> None:
    log = pa.table({"type": ["Done", "Start"], "ts": [5, 5], "seq": [2, 1], "back": [1, 2], "n": [[1], [2]]})
    query = "SEQ(Start a, Done b) WITHIN 10"
    assert [len(sq.run(query, sq.Events(log, order=order))) for order in ((), "seq", ["back"])] == [0, 1, 0]
    assert len(sq.run(f"{query} ORDER BY seq", sq.Events(log, order="back"))) == 1
    assert len(sq.run(sq.parse(query), sq.Events(sq.Events(log), order="seq"))) == 1
    with pytest.raises(sq.SchemaError, match="order names 'sec', and there is no such column"):
        sq.Events(log, order="sec")
    with pytest.raises(sq.SchemaError, match="order names 'n', which holds nested"):
        sq.Events(log, order=["n"])


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


@given(data=st.data(), text=partial, events=streams())
def test_any_cutting_of_partial_runs(data: st.DataObject, text: str, events: list[oracle.Event]) -> None:
    show(text, events)
    found = feed_anyhow(data, Matcher(plan_matches(spell_out(parse(text)))), events)
    assert counted(kept(found)) == counted(oracle.partial_runs(parse(text), events))


def test_partial_runs_with_return() -> None:
    events = table(hand_worked.events("A1:7 B3:7 A5:8"))
    found = sq.run("NEXT(A a, B b) PARTITION BY id KEEP PARTIAL WITHIN 9 RETURN id, b.ts AS at", events).table.to_pylist()
    assert found == [{"id": 7, "at": 3, "reached": 2, "end": 3}, {"id": 8, "at": None, "reached": 1, "end": 5}]
