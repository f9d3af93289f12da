"""However many threads there are, the same rows come in the same order, and they are the oracle's; with every event a slice."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hand_worked
import oracle
import seqube as sq
from aggregate_queries import aggregate_queries, assert_same_rows
from answers import counted, rows_of, show, shown
from seqube.engine import slices as threads_of
from seqube.language import parse
from seqube.plan import slices
from strategies import concepts, hierarchies, queries, streams, table

few = settings(max_examples=max(20, settings().max_examples // 3))  # each is run three times


@pytest.fixture(autouse=True, scope="module")
def short_slices() -> Iterator[None]:
    """Slices of an event, whatever the window."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slices, "SLICE_EVENTS", 1)
        patch.setattr(slices, "SLICE_WORK", 1)
        patch.setattr(slices, "LEAST_WINDOWS", 0)
        yield


def run_all_ways(text: str, events: list[oracle.Event], hierarchy: Any = None) -> list[dict[str, Any]]:
    """The rows of one thread, which are those of two and three."""
    stream, tree = sq.Events(table(events)), sq.Hierarchy.from_dict(hierarchy) if hierarchy else None
    one, *others = (sq.run(text, stream, hierarchy=tree, threads=n).table for n in (1, 2, 3))
    rows: list[dict[str, Any]] = one.to_pylist()
    for other in others:
        assert other.schema == one.schema
        assert str(other.to_pylist()) == str(rows)  # in their order; no number is itself
    return rows


def assert_matches(text: str, events: list[oracle.Event], hierarchy: Any = None) -> None:
    show(text, events, hierarchy)
    rows = [
        {name: rows_of(bound) for name, bound in row.items() if name not in ("start", "end")}
        for row in run_all_ways(text, events, hierarchy)
    ]
    assert counted(rows) == counted(oracle.matches(parse(text), events, hierarchy))


@few
@given(data=st.data(), hierarchy=hierarchies(), events=streams())
def test_matches(data: st.DataObject, hierarchy: dict[str, Any] | None, events: list[oracle.Event]) -> None:
    assert_matches(data.draw(queries(names=concepts(hierarchy))), events, hierarchy)


@few
@given(text=queries(repeats=True, depth=2, words=("SEQ", "AND", "OR", "NEXT", "NEXT", "STRICT")), events=streams(max_size=10))
def test_runs_and_lists(text: str, events: list[oracle.Event]) -> None:
    assert_matches(text, events)


@few
@given(text=queries(depth=2, counted=True), events=streams(max_time=4))
def test_windows_of_events(text: str, events: list[oracle.Event]) -> None:
    assert_matches(text, events)


@few
@given(text=aggregate_queries(depth=2), events=streams())
def test_aggregates(text: str, events: list[oracle.Event]) -> None:
    show(text, events)
    assert_same_rows(run_all_ways(text, events), oracle.aggregates(parse(text), events))


@few
@given(text=queries(depth=2), events=streams())
def test_slices_by_key(text: str, events: list[oracle.Event]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slices, "why_not_in_time", lambda plan, needs: "it is asked not to be")
        assert_matches(f"{text} PARTITION BY id" if "PARTITION" not in text and "id" in text else text, events)


@pytest.mark.parametrize(("query", "text", "expected"), [*hand_worked.SKIPS, *hand_worked.ORDERS, *hand_worked.PARTIAL])
def test_hand_worked_cases(query: str, text: str, expected: list[str]) -> None:
    rows = run_all_ways(query, list(hand_worked.events(text)))
    reached = [f" {row['reached']}" if "reached" in row else "" for row in rows]
    assert sorted(shown(row) + more for row, more in zip(rows, reached, strict=True)) == sorted(expected)


# ---------------------------------------------------------------- what holds with threads, too


def stream(n: int) -> sq.Events:
    return sq.Events(pa.table({"type": ["AB"[k % 2] for k in range(n)], "ts": np.arange(n), "x": np.arange(n)}))


def test_what_is_found_ahead_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever takes a batch holds a few; the threads have found some ahead, and wait."""
    monkeypatch.setattr(slices, "SLICE_EVENTS", 200)
    monkeypatch.setattr(slices, "SLICE_WORK", 200)
    monkeypatch.setattr(threads_of, "AHEAD_ROWS", 1)
    written = []
    events = stream(2_000)
    result = sq.run("SEQ(A a, B b) WITHIN 100", events, threads=2)
    from seqube.engine.output import MatchWriter

    write = MatchWriter.write
    monkeypatch.setattr(MatchWriter, "write", lambda self, piece: written.append(len(piece)) or write(self, piece))
    batches = list(islice(result.batches(), 2))
    assert len(batches) == 2
    assert sum(written) < len(result.table) / 2


def test_a_limit_stops_early_and_says_so() -> None:
    found = sq.run("SEQ(A a, B b) WITHIN 100 LIMIT 7", stream(400), threads=3)
    assert found.table.equals(sq.run("SEQ(A a, B b) WITHIN 100", stream(400), threads=1).table.slice(0, 7))
    with pytest.raises(sq.LimitError, match="more than 50 rows"):
        sq.run("SEQ(A a, B b) WITHIN 100", stream(400), threads=3, max_matches=50)
    cut = sq.run("SEQ(A a, B b) WITHIN 100", stream(400), threads=3, max_matches=50, on_limit="truncate")
    assert (len(cut.table), bool(cut.truncated)) == (50, True)
    with pytest.raises(sq.LimitError, match="max_seconds"):
        _ = sq.run("SEQ(A a, B b) WITHIN 100", stream(400), threads=3, max_seconds=0).table


def test_an_error_of_a_slice_is_the_runs() -> None:
    events = sq.Events(pa.table({"type": ["A", "B"] * 50, "ts": range(100), "x": [2**62] * 100}))
    for n in (1, 3):
        with pytest.raises(sq.DataError, match="leaves 64 bits"):
            _ = sq.run("SEQ(A a, B b) WITHIN 5 RETURN a.x + b.x AS s", events, threads=n).table


def test_nobody_works_on_for_a_result_that_is_dropped() -> None:
    before = threading.active_count()
    result = sq.run("SEQ(A a, B b) WITHIN 100", stream(400), threads=3)
    assert next(result.batches()).num_rows
    del result
    for thread in threading.enumerate():
        if thread.name.startswith("seqube_"):
            thread.join(5)
    assert threading.active_count() <= before


def test_how_many_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    assert threads_of.read_threads(3) == 3
    assert threads_of.read_threads(None) >= 1
    monkeypatch.setenv("SEQUBE_THREADS", "5")
    assert threads_of.read_threads(None) == 5
    assert threads_of.read_threads(2) == 2
    monkeypatch.setenv("SEQUBE_THREADS", "many")
    with pytest.raises(sq.PlanError, match="SEQUBE_THREADS is 'many'"):
        sq.run("A WITHIN 1", stream(2))
    with pytest.raises(sq.PlanError, match="at least one"):
        sq.run("A WITHIN 1", stream(2), threads=0)


def test_explain_says_what_is_cut_and_why_not() -> None:
    events = stream(100)
    assert "on all threads: about 99 slices, cut by time" in str(sq.explain("SEQ(A a, B b) WITHIN 5", events))
    told = str(sq.explain("SEQ(A a, B b) SKIP PAST LAST WITHIN 5", events))
    assert "on one thread: SKIP leaves out matches by all that end before them, and it has no key" in told
    assert "on all threads: about 100 slices, cut by key" in str(
        sq.explain("SEQ(A a, B b) PARTITION BY x SKIP PAST LAST WITHIN 5", events)
    )
