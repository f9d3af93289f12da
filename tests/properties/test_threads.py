"""However many threads there are, the same rows come in the same order, and they are the oracle's; with every event a slice."""

from __future__ import annotations

import os
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
from predict.streams import Stream, rule_sets
from predict.streams import streams as symbol_streams
from seqube import threads as threads_of
from seqube.engine import slices as engine_slices
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
        patch.setattr(threads_of, "FEWEST_ROWS", 1)
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


# ---------------------------------------------------------------- several queries


def run_together(texts: dict[str, str], events: list[oracle.Event], strategy: str) -> dict[str, list[dict[str, Any]]]:
    """The rows of every query by one thread, which are those of two and three."""
    show("\n".join(texts.values()), events)
    one, *others = (sq.run(texts, sq.Events(table(events)), strategy=strategy, threads=n) for n in (1, 2, 3))
    for other in others:
        assert all(str(other[name].table.to_pylist()) == str(one[name].table.to_pylist()) for name in texts)
    return {name: one[name].table.to_pylist() for name in texts}


@st.composite
def sequences(draw: st.DrawFn) -> dict[str, str]:
    """Sequences that have parts in common."""
    window, key = draw(st.sampled_from([3, 6])), draw(st.sampled_from(["", ", [id]"]))
    found = {}
    for number in range(draw(st.integers(2, 4))):
        names = draw(st.lists(st.sampled_from("ABC"), min_size=2, max_size=4))
        found[f"q{number}"] = f"SEQ({', '.join(f'{name} v{i}' for i, name in enumerate(names))}{key}) WITHIN {window}"
    return found


@few
@given(texts=sequences(), strategy=st.sampled_from(["chase", "top-down", "bottom-up"]), events=streams(max_size=20, max_time=14))
def test_matches_that_are_shared(texts: dict[str, str], strategy: str, events: list[oracle.Event]) -> None:
    for name, rows in run_together(texts, events, strategy).items():
        found = [{variable: rows_of(bound) for variable, bound in row.items() if variable[0] == "v"} for row in rows]
        assert counted(found) == counted(oracle.matches(parse(texts[name]), events, None))


@few
@given(
    texts=sequences(),
    tails=st.lists(st.sampled_from(["ON TRIGGER", "TOTAL", "TOTAL", "EVERY 3", "PER 4"]), min_size=4, max_size=4),
    asked=st.sampled_from(["COUNT(*) AS n", "COUNT(*) AS n, SUM(v1.x) AS s, MIN(v0.x) AS low"]),
    events=streams(max_size=20, max_time=14),
)
def test_counts_that_are_shared(texts: dict[str, str], tails: list[str], asked: str, events: list[oracle.Event]) -> None:
    texts = {
        name: f"{text.replace(' WITHIN', ' GROUP BY v0.id WITHIN') if '[id]' in text else text} AGG {asked} EMIT {tail}"
        for (name, text), tail in zip(texts.items(), tails, strict=False)
    }
    for name, rows in run_together(texts, events, "prefix-tree").items():
        assert_same_rows(rows, oracle.aggregates(parse(texts[name]), events))


# ---------------------------------------------------------------- predictions, rules, events


def symbols(stream: Stream) -> pa.Table:
    times, keys = pa.array(stream.times, pa.int64()), pa.array(stream.keys, pa.int32())
    return pa.table({"type": pa.array(stream.names, pa.string()), "ts": times, "id": keys})


@pytest.mark.parametrize(
    "strategy", ["index", *(pytest.param(name, marks=pytest.mark.slow) for name in ("cbs-tree", "tofel", "direct"))]
)
@few
@given(chosen=rule_sets(), stream=symbol_streams(14))
def test_forecasts(strategy: str, chosen: list[sq.Rule], stream: Stream) -> None:
    keyed = [
        sq.Rule(rule.predicate, rule.consequent.text, rule.within, rule.horizon, 0.5, rule.name + "k", ["id"]) for rule in chosen
    ]
    one, *others = (sq.forecast([*chosen, *keyed], symbols(stream), strategy=strategy, threads=n) for n in (1, 2, 3))
    assert all(other.table.equals(one.table) for other in others)


@few
@given(stream=symbol_streams(30), window=st.integers(1, 6), more=st.integers(0, 4), key=st.sampled_from([(), "id"]))
def test_mined_rules(stream: Stream, window: int, more: int, key: Any) -> None:
    aim: dict[str, Any] = {"window": window, "horizon": window + more, "min_support": 2, "min_confidence": 0.3, "partition_by": key}
    one, *others = (list(sq.mine(symbols(stream), **aim, threads=n)) for n in (1, 2, 3))
    assert all(other == one for other in others)


@few
@given(
    types=st.lists(st.sampled_from(["A", "B", "C", None]), max_size=20),
    times=st.lists(st.one_of(st.none(), st.integers(-5, 5)), min_size=20, max_size=20),
)
def test_events_are_coded_and_sorted(types: list[str | None], times: list[int | None]) -> None:
    times = times[: len(types)]
    raw = pa.table({"type": pa.array(types, pa.string()), "ts": pa.array(times, pa.int64()), "x": range(len(types))})
    one, *others = (sq.Events(raw, threads=n) for n in (1, 2, 3))
    for other in others:
        assert other.table.equals(one.table)
        assert (other.type_names, other.types.tolist(), other.times.tolist()) == (
            one.type_names,
            one.types.tolist(),
            one.times.tolist(),
        )
        assert other.rejected.table.equals(one.rejected.table)


def test_progress_of_a_forecast_reaches_all_events() -> None:
    events, told = stream(400), []
    sq.forecast(sq.Rule("A", "B", 5, 10, 0.5), events, progress=lambda done, total: told.append((done, total)), threads=3)
    assert told == sorted(told)
    assert told[-1] == (400, 400)
    with pytest.raises(sq.LimitError, match="more than 50 rows"):
        sq.forecast(sq.Rule("A", "B", 5, 10, 0.5), events, max_matches=50, threads=3)


# ---------------------------------------------------------------- what holds with threads, too


def stream(n: int) -> sq.Events:
    return sq.Events(pa.table({"type": ["AB"[k % 2] for k in range(n)], "ts": np.arange(n), "x": np.arange(n)}))


def test_what_is_found_ahead_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever takes a batch holds a few; the threads have found some ahead, and wait."""
    monkeypatch.setattr(slices, "SLICE_EVENTS", 200)
    monkeypatch.setattr(slices, "SLICE_WORK", 200)
    monkeypatch.setattr(engine_slices, "AHEAD_ROWS", 1)
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
    result = sq.run("SEQ(A a, B b) WITHIN 100", stream(400), threads=3)
    assert next(result.batches()).num_rows
    del result
    both = threading.Barrier(2)  # which nobody passes while another one works
    for passed in [threads_of.helpers(2).submit(both.wait, 5) for _ in range(2)]:
        passed.result()


def test_threads_stay_and_may_be_asked_by_threads() -> None:
    def triple(number: int) -> int:
        return sum(threads_of.spread(lambda part: part * number, [1, 2], threads=3))

    before = threading.active_count()
    for _ in range(20):
        assert threads_of.spread(triple, range(50), threads=3) == [3 * number for number in range(50)]
    assert threading.active_count() <= before + 3  # two of those who triple, one of those who add
    with pytest.raises(ZeroDivisionError):
        threads_of.spread(lambda number: 1 // number, [1, 0, 1, 1], threads=3)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
def test_a_process_that_was_forked_begins_its_own_threads() -> None:
    assert threads_of.spread(abs, [-1, -2], threads=2) == [1, 2]
    child = os.fork()
    if child == 0:
        os._exit(threads_of.spread(abs, [-3, -4], threads=2) != [3, 4])
    assert os.waitpid(child, 0)[1] == 0


def test_how_many_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    assert threads_of.read_threads(3) == 3
    assert threads_of.read_threads(None) >= 1
    monkeypatch.setenv("SEQUBE_THREADS", "5")
    assert threads_of.read_threads(None) == 5
    assert threads_of.read_threads(2) == 2
    events = stream(2)
    monkeypatch.setenv("SEQUBE_THREADS", "many")
    with pytest.raises(sq.PlanError, match="SEQUBE_THREADS is 'many'"):
        sq.run("A WITHIN 1", events)
    with pytest.raises(sq.PlanError, match="at least one"):
        sq.run("A WITHIN 1", events, threads=0)


def test_explain_says_what_is_cut_and_why_not() -> None:
    events = stream(100)
    assert "on all threads: about 99 slices, cut by time" in str(sq.explain("SEQ(A a, B b) WITHIN 5", events))
    told = str(sq.explain("SEQ(A a, B b) SKIP PAST LAST WITHIN 5", events))
    assert "on one thread: SKIP leaves out matches by all that end before them, and it has no key" in told
    assert "on all threads: about 100 slices, cut by key" in str(
        sq.explain("SEQ(A a, B b) PARTITION BY x SKIP PAST LAST WITHIN 5", events)
    )
