"""Workloads over streams: any cutting, any switching of plans, queries that come and go; nothing lost, nothing twice."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
import seqube as sq
from answers import counted, show
from cube.workloads import workloads
from seqube.engine.ecube.adaptation import SharedMatcher, SharedState
from seqube.engine.sequence import LOWEST
from seqube.events import Events
from seqube.language import parse
from seqube.plan.chase import Units
from seqube.plan.physical import ticks
from seqube.plan.strategies import names
from strategies import cuts, hierarchies, streams, table


def rows(found: pa.Table) -> list[dict[str, Any]]:
    return [{name: event["row"] for name, event in row.items() if name not in ("start", "end")} for row in found.to_pylist()]


class Collected:
    """What came out, by query."""

    def __init__(self) -> None:
        self.rows: dict[str, list[dict[str, Any]]] = {}

    def take(self, step: tuple[SharedState, dict[str, pa.Table] | None]) -> SharedState:
        state, tables = step
        for name, found in (tables or {}).items():
            self.rows.setdefault(name, []).extend(rows(found))
        return state


@settings(max_examples=settings.default.max_examples // 2)
@given(data=st.data(), tree=hierarchies(), events=streams(max_time=12), strategy=st.sampled_from(names("shared matches")))
def test_any_cutting_and_any_switching(data: st.DataObject, tree: Any, events: list[oracle.Event], strategy: str) -> None:
    texts = data.draw(workloads(tree, counted=data.draw(st.sampled_from([False, False, False, True]))))
    show("\n".join(texts.values()), events, tree)
    stream, found = Events(table(events)), Collected()
    queries = {name: parse(text) for name, text in texts.items()}
    matcher = SharedMatcher(queries, sq.Hierarchy.from_dict(tree) if tree else None, strategy)
    state = matcher.start()
    for start, stop in data.draw(cuts(len(events))):
        state = found.take(matcher.step(state, stream.slice(start, stop)))
        if stop < len(events) and data.draw(st.booleans()):
            state = found.take(matcher.step(state, None, watermark=int(stream.times[stop])))
        if data.draw(st.booleans()):
            state = matcher.restore(state.to_bytes())
        if data.draw(st.booleans()):
            other = data.draw(st.sampled_from(names("shared matches")))
            state = matcher.switch(state, state.optimizer.plan(other, state.pace.estimates("ms")))
    found.take(matcher.finish(state))
    for name, text in texts.items():
        assert counted(found.rows.get(name, [])) == counted(oracle.matches(parse(text), events, tree)), name


@settings(max_examples=settings.default.max_examples // 2)
@given(data=st.data(), tree=hierarchies(), events=streams(max_time=12))
def test_queries_come_and_go(data: st.DataObject, tree: Any, events: list[oracle.Event]) -> None:
    """A query finds what it finds by itself in the events between its coming and its going."""
    texts = data.draw(workloads(tree))
    show("\n".join(texts.values()), events, tree)
    stream, found = Events(table(events)), Collected()
    concepts = sq.Hierarchy.from_dict(tree) if tree else None
    came = {"q0": 0, "q1": 0}
    matcher = SharedMatcher({name: parse(texts[name]) for name in came}, concepts)
    state = matcher.start()
    gone: set[str] = set()
    for start, stop in data.draw(cuts(len(events))):
        state = found.take(matcher.step(state, stream.slice(start, stop)))
        for name in data.draw(st.lists(st.sampled_from(list(texts)), unique=True, max_size=2)):
            if name not in came:
                came[name] = stop
                state = matcher.add(state, name, parse(texts[name]))
            elif name not in gone and len(gone) < 2:
                gone.add(name)
                state = matcher.remove(state, name)
        if data.draw(st.booleans()):
            matcher = SharedMatcher(state.queries, concepts)
            state = matcher.restore(state.to_bytes())
    found.take(matcher.finish(state))
    for name, start in came.items():
        if name not in gone:
            expected = oracle.matches(parse(texts[name]), events[start:], tree)
            assert counted(found.rows.get(name, [])) == counted(expected), f"{name}, from event {start}"


@pytest.mark.parametrize("first", ["SEQ(C v0) WITHIN 3", "SEQ(A v0, C v1, !A v2) WITHIN 3", "SEQ(A v0, C v1) WITHIN 3"])
def test_a_query_comes_where_nothing_shares_yet(first: str) -> None:
    """What it will begin with is kept, also where it is alone with that."""
    events = oracle.stream(("A", 0, {}), ("C", 11, {}), ("C", 12, {}), ("C", 13, {}))
    stream, found = Events(table(events)), Collected()
    matcher = SharedMatcher({"first": parse(first)})
    state = found.take(matcher.step(matcher.start(), stream.slice(0, 1)))
    state = matcher.add(state, "second", parse("SEQ(C v0, C v1) WITHIN 3"))
    state = found.take(matcher.step(state, stream.slice(1, 4)))
    found.take(matcher.finish(state))
    assert counted(found.rows["second"]) == counted(oracle.matches(parse("SEQ(C v0, C v1) WITHIN 3"), events, {}))


def random_stream(n: int, names: str, seed: int = 0) -> Events:
    generator = np.random.default_rng(seed)
    types = np.array(list(names))[generator.integers(0, len(names), n)]
    return Events(pa.table({"type": types.tolist(), "ts": np.arange(n) * 10, "row": np.arange(n)}))


TREE = sq.Hierarchy.from_dict({"P": ["A", "B"], "Q": ["C", "D"]})
TEXTS = {"wide": "SEQ(P, Q) WITHIN 2000", "fine": "SEQ(A, C) WITHIN 2000", "longer": "SEQ(A, C, D) WITHIN 2000"}
QUERIES = {name: parse(text) for name, text in TEXTS.items()}


def test_drifting_rates_change_the_plan_and_lose_nothing() -> None:
    n = 700
    pieces = [random_stream(n, "AAAAAAAAACCCCCCCCCCBD"), random_stream(n, "BBBBBBBBBBDDDDDDDDDDAC", 1)]
    both = pa.concat_tables([pieces[0].table, pieces[1].table.set_column(1, "ts", pa.array(np.arange(n, 2 * n) * 10))])
    stream = Events(both.set_column(2, "row", pa.array(np.arange(2 * n))))
    # Without the cost of a query as such, matches alone decide: nearly all of `wide` is `fine` at first, and nearly none later.
    matcher, found = SharedMatcher(QUERIES, TREE, units=Units(query=0.0, step=0.0)), Collected()
    state = matcher.start()
    plans = []
    for start in range(0, 2 * n, 100):
        state = found.take(matcher.step(state, stream.slice(start, start + 100)))
        plans.append(tuple(state.plan.sources.items()))
    found.take(matcher.finish(state))
    assert len(set(plans)) > 1
    assert state.n_switches >= 1
    assert state.live is not None
    whole = sq.run(TEXTS, stream, hierarchy=TREE)
    assert {name: counted(rows(result.table)) for name, result in whole.items()} == {
        name: counted(of) for name, of in found.rows.items()
    }


AGREEING = {name: text.replace(")", ", [key])") for name, text in TEXTS.items()}


def agreeing_stream(n: int) -> Events:
    """At first nearly no two events agree on their key, then all do: from some matches to thousands, at the same rates."""
    keys = np.where(np.arange(n) < n // 2, np.arange(n) // 2, -1)
    return Events(random_stream(n, "ABCD", 3).table.append_column("key", pa.array(keys)))


def test_a_workload_is_planned_anew_when_its_matches_change_and_its_rates_do_not() -> None:
    n, texts, stream = 3_000, AGREEING, agreeing_stream(3_000)
    matcher, found = SharedMatcher({name: parse(text) for name, text in texts.items()}, TREE), Collected()
    state, planned, plans = matcher.start(), [], []
    for start in range(0, n, 100):
        state = found.take(matcher.step(state, stream.slice(start, start + 100)))
        planned.append(state.planned)
        plans.append(state.plan.sources)
    found.take(matcher.finish(state))
    halfway = len(planned) // 2
    assert planned[halfway - 5] == planned[halfway - 1]  # the rates are known, and stay
    assert planned[halfway - 1] != planned[-1]
    assert plans[halfway - 1] != plans[-1]
    whole = sq.run(texts, stream, hierarchy=TREE)
    assert sum(row["P"] < n // 2 for row in found.rows["wide"]) < 1_000 < 5_000 < len(whole["wide"])
    assert {name: counted(rows(result.table)) for name, result in whole.items()} == {
        name: counted(of) for name, of in found.rows.items()
    }


@pytest.mark.parametrize("strategy", ["chase", "top-down", "bottom-up"])
def test_nothing_new_is_found_from_nothing_new(strategy: str) -> None:
    """A longer pattern is made from one that is itself made from a shorter one, of which some steps have no new matches."""
    texts = {
        "short": "SEQ(B a, D b) WITHIN 6",
        "longer": "SEQ(B a, D b, D c) WITHIN 6",
        "longest": "SEQ(B a, C b, D c, D d) WITHIN 6",
    }
    stream, found = sq.Stream(texts, strategy=strategy), []
    for i in range(12):
        found += [(name, len(table)) for name, table in stream.push([{"type": "ABCD"[i % 4], "ts": i}]).items()]
    found += [(name, len(table)) for name, table in stream.close().items()]
    events = pa.table({"type": ["ABCD"[i % 4] for i in range(12)], "ts": range(12)})
    assert {name: sum(n for of, n in found if of == name) for name in texts} == {
        name: len(result) for name, result in sq.run(texts, events).items()
    }


def test_switching_has_its_price() -> None:
    """A plan that is a little better is not taken where the matches that it goes on from would have to be found first."""
    stream, matcher = random_stream(600, "ABCD"), SharedMatcher(QUERIES, TREE, drift=0.0, gain=0.0)
    state, _ = matcher.step(matcher.start(), stream.slice(0, 300))
    estimates = state.pace.estimates("ms")
    other = state.optimizer.plan("top-down", estimates)  # `longer` is made of what `fine` had before
    apart = matcher.switch(state, state.optimizer.plan("independent", estimates))
    assert matcher._rebuilding(apart, other, estimates) > 0
    assert matcher._rebuilding(matcher.switch(apart, other), other, estimates) == 0


def test_a_stream_tells_its_plan_and_how_often_it_changed() -> None:
    stream, events = sq.Stream(AGREEING, hierarchy=TREE, strategy="chase"), agreeing_stream(3_000)
    for start in range(0, 3_000, 100):
        stream.push(events.table.slice(start, 100))
    stats = stream.stats.queries["fine"]
    assert stats.shared_with == ("wide", "longer")
    assert stats.switches >= 1
    assert "fine: " in stats.plan


@pytest.mark.parametrize("strategy", names("shared matches"))
def test_nothing_older_than_the_window_is_kept(strategy: str) -> None:
    queries = {name: parse(text.replace("2000", "200")) for name, text in TEXTS.items()}
    stream, matcher = random_stream(400, "ABCDE"), SharedMatcher(queries, TREE, strategy)
    state = matcher.start()
    for start in range(0, 400, 7):
        state, _ = matcher.step(state, stream.slice(start, start + 7))
        assert state.events is not None
        if state.decided > LOWEST:
            assert all(state.events.times > state.decided - ticks(queries["wide"].window, "ms"))
        assert "E" not in state.events.column("type").to_pylist()
        if state.live is not None:
            assert state.live.n_open <= 2 * 20 * 20  # pairs of some of the twenty events of a window


@pytest.mark.parametrize("strategy", names("shared matches"))
@pytest.mark.parametrize("kind", [pa.int64(), pa.decimal128(30, 2)])
def test_values_that_cannot_be_compared_as_they_come(strategy: str, kind: pa.DataType) -> None:
    """Decimals, known from the first batch on, and the one number of 64 bits that stands for null: each query goes its own way."""
    plain = random_stream(100, "ABCD").table
    values = np.arange(100)
    values[plain.column("type").to_pylist().index("A", 50)] = -(2**63) if kind == pa.int64() else -1
    stream = Events(plain.append_column("x", pa.array(values).cast(kind)))
    texts = {**TEXTS, "rising": "SEQ(A a, C c, a.x < c.x) WITHIN 2000", "more": "SEQ(A a, C c, D d, a.x < c.x) WITHIN 2000"}
    matcher, found = SharedMatcher({name: parse(text) for name, text in texts.items()}, TREE, strategy), Collected()
    state = matcher.start()
    for start in range(0, 100, 10):
        state = found.take(matcher.step(state, stream.slice(start, start + 10)))
        state = matcher.restore(state.to_bytes()) if start == 70 else state
    found.take(matcher.finish(state))
    if strategy == "independent":  # else some are made from others' matches, of which values are compared as they are
        assert {"rising", "more"} <= state.alone.keys()
    for name, text in texts.items():
        assert counted(found.rows[name]) == counted(rows(sq.run(text, stream, hierarchy=TREE).table)), name


def test_mistakes_are_told() -> None:
    matcher = SharedMatcher(QUERIES, TREE)
    state = matcher.start()
    with pytest.raises(sq.PlanError, match="already"):
        matcher.add(state, "wide", parse(TEXTS["wide"]))
    with pytest.raises(sq.PlanError, match="did you mean 'wide'"):
        matcher.remove(state, "wid")
    state, _ = matcher.step(state, random_stream(50, "ABCD"))
    with pytest.raises(sq.DataError, match="time order"):
        matcher.step(state, random_stream(50, "ABCD"))
    with pytest.raises(sq.DataError, match=r"state of other queries(.|\n)*hint"):
        SharedMatcher({"wide": QUERIES["wide"]}, TREE).restore(state.to_bytes())


def test_a_stream_that_is_taken_up_again_goes_on_with_its_events() -> None:
    """As where events are kept by another: what was decided is not found again, and what ends later is found with them."""
    stream, matcher, found = random_stream(300, "ABCD"), SharedMatcher(QUERIES, TREE), Collected()
    state = found.take(matcher.step(matcher.start(), stream.slice(0, 150)))
    assert state.events is not None
    state = matcher.resume(state.events, state.decided, state.reported, state.last)
    found.take(matcher.finish(found.take(matcher.step(state, stream.slice(150, 300)))))
    for name, text in TEXTS.items():
        assert counted(found.rows[name]) == counted(rows(sq.run(text, stream, hierarchy=TREE).table)), name


def test_it_wakes_for_a_query_that_waits() -> None:
    queries = {**QUERIES, "late": parse("SEQ(A a, !B b) WITHIN 500")}
    matcher = SharedMatcher(queries, TREE)
    assert matcher.wake(matcher.start()) is None
    state, _ = matcher.step(matcher.start(), Events(pa.table({"type": ["A"], "ts": [1000], "row": [0]})))
    due = matcher.wake(state)
    assert due is not None
    state, tables = matcher.step(state, None, watermark=due)
    assert tables is not None
    assert len(tables["late"]) == 1
    assert matcher.wake(state) is None
    assert (state.n_kept, state.n_bytes > 0) == (len(state.events or ()) + state.alone["late"].n_kept, True)


def test_aggregates_and_other_patterns_run_beside() -> None:
    texts = {**TEXTS, "count": "SEQ(A, C) AGG COUNT(*) WITHIN 2000 EMIT TOTAL", "both": "AND(A, C) WITHIN 100"}
    stream, sizes = random_stream(300, "ABCD"), dict.fromkeys(texts, 0)
    matcher = SharedMatcher({name: parse(text) for name, text in texts.items()}, TREE)
    state = matcher.start()
    for start in range(0, 300, 50):
        state, tables = matcher.step(state, stream.slice(start, start + 50))
        assert tables is not None
        sizes = {name: sizes[name] + len(tables[name]) for name in texts}
    state, tables = matcher.finish(state)
    assert tables is not None
    assert tables["count"].to_pylist() == [{"count": len(sq.run(TEXTS["fine"], stream))}]
    assert sizes["both"] + len(tables["both"]) == len(sq.run(texts["both"], stream))
