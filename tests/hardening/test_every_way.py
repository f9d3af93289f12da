"""One random query, every way to run it: all strategies, whole, cut, in batches, pushed; each finds what the oracle finds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from hypothesis import given, note, reject
from hypothesis import strategies as st

import oracle
import seqube as sq
from aggregate_queries import aggregate_queries, assert_same_rows
from answers import counted, show
from cube.workloads import workloads
from seqube.engine.aggregates.aggregation import Aggregator
from seqube.engine.matching import Matcher
from seqube.language import parse
from seqube.plan.aggregates import AggregatePlan
from seqube.plan.physical import MatchPlan
from seqube.plan.strategies import names
from seqube.query import prepare
from steps import feed, rows
from strategies import SCHEMA, concepts, cuts, hierarchies, queries, streams, table

RUNS = ("SEQ", "SEQ", "AND", "OR", "NEXT", "STRICT")
CLAUSES: list[list[str]] = [[], [], ["SKIP"], ["ORDER BY"], ["SKIP", "ORDER BY"]]


@given(data=st.data(), hierarchy=hierarchies(), events=streams())
def test_matches(data: st.DataObject, hierarchy: dict[str, Any] | None, events: list[oracle.Event]) -> None:
    text = data.draw(queries(names=concepts(hierarchy)))
    expected = oracle.matches(parse(text), events, hierarchy)
    assert_every_way_finds(expected, text, events, hierarchy, data.draw(cuts(len(events))))


@given(data=st.data(), hierarchy=hierarchies(), events=streams(max_size=9))
def test_repetition_and_runs(data: st.DataObject, hierarchy: dict[str, Any] | None, events: list[oracle.Event]) -> None:
    clauses = data.draw(st.sampled_from(CLAUSES))
    text = data.draw(queries(names=concepts(hierarchy), repeats=True, depth=2, words=RUNS, clauses=clauses))
    expected = oracle.matches(parse(text), events, hierarchy)
    assert_every_way_finds(expected, text, events, hierarchy, data.draw(cuts(len(events))))


@given(data=st.data(), hierarchy=hierarchies(), events=streams())
def test_partial_runs(data: st.DataObject, hierarchy: dict[str, Any] | None, events: list[oracle.Event]) -> None:
    text = data.draw(queries(names=concepts(hierarchy), repeats=True, depth=1, words=("NEXT",), clauses=["KEEP PARTIAL"]))
    try:
        query = parse(text)
    except sq.QueryError:  # a negation where nothing surely stands before it
        reject()
    found = [
        {name: v for name, v in run.items() if name not in ("start", "end")}
        for run in oracle.partial_runs(query, events, hierarchy)
    ]
    assert_every_way_finds(found, text, events, hierarchy, data.draw(cuts(len(events))))


def assert_every_way_finds(
    matches: list[dict[str, Any]],
    text: str,
    events: list[oracle.Event],
    hierarchy: dict[str, Any] | None,
    pieces: Sequence[tuple[int, int]],
) -> None:
    show(text, events, hierarchy)
    expected = counted(matches)
    tree = sq.Hierarchy.from_dict(hierarchy) if hierarchy else None
    stream = sq.Events(table(events))
    for strategy in ("auto", *names("matches")):
        note(strategy)
        try:
            result = sq.run(text, stream, hierarchy=tree, strategy=strategy)
        except sq.PlanError:
            assert strategy != "auto"
            continue
        assert counted(rows(result.table)) == expected
        assert counted(rows(pa.Table.from_batches(result.batches()))) == expected
        plan = prepare(text, stream, tree, strategy)
        assert isinstance(plan, MatchPlan)
        assert counted(rows(feed(Matcher(plan), stream, pieces, watermarks=True))) == expected
    pushed = sq.Stream(text, hierarchy=tree, columns=SCHEMA)
    tables = [pushed.push(table(events[start:stop])) for start, stop in pieces]
    found = [match for each in (*tables, pushed.close()) for one in each.values() for match in rows(one)]
    assert counted(found) == expected


@given(data=st.data(), hierarchy=hierarchies(), events=streams())
def test_aggregates(data: st.DataObject, hierarchy: dict[str, Any] | None, events: list[oracle.Event]) -> None:
    text = data.draw(aggregate_queries(names=concepts(hierarchy), depth=2))
    assert_every_way_adds_up(data, text, events, hierarchy)


@given(data=st.data(), hierarchy=hierarchies(), events=streams(max_size=9))
def test_aggregates_of_repetition_and_runs(
    data: st.DataObject, hierarchy: dict[str, Any] | None, events: list[oracle.Event]
) -> None:
    clauses = data.draw(st.sampled_from(CLAUSES))
    text = data.draw(aggregate_queries(names=concepts(hierarchy), repeats=True, depth=2, words=RUNS, clauses=clauses))
    assert_every_way_adds_up(data, text, events, hierarchy)


def assert_every_way_adds_up(data: st.DataObject, text: str, events: list[oracle.Event], hierarchy: dict[str, Any] | None) -> None:
    show(text, events, hierarchy)
    tree = sq.Hierarchy.from_dict(hierarchy) if hierarchy else None
    stream = sq.Events(table(events))
    expected = oracle.aggregates(parse(text), events, hierarchy)
    pieces = data.draw(cuts(len(events)))
    for strategy in ("auto", *names("aggregates")):
        note(strategy)
        try:
            plan = prepare(text, stream, tree, strategy)
        except sq.PlanError:
            assert strategy != "auto"
            continue
        assert isinstance(plan, AggregatePlan)
        assert_same_rows(Aggregator(plan).run(stream).to_pylist(), expected)
        assert_same_rows(feed(Aggregator(plan), stream, pieces).to_pylist(), expected)


@given(data=st.data(), hierarchy=hierarchies(), events=streams(), is_counted=st.booleans())
def test_workloads(data: st.DataObject, hierarchy: dict[str, Any] | None, events: list[oracle.Event], is_counted: bool) -> None:
    texts = data.draw(workloads(hierarchy, counted=is_counted))
    show("\n".join(texts.values()), events, hierarchy)
    tree = sq.Hierarchy.from_dict(hierarchy) if hierarchy else None
    expected = {name: counted(oracle.matches(parse(text), events, hierarchy)) for name, text in texts.items()}
    for strategy in ("auto", *names("shared matches")):
        note(strategy)
        found = sq.run(texts, table(events), hierarchy=tree, strategy=strategy)
        assert {name: counted(rows(result.table)) for name, result in found.items()} == expected


SHARED = {"matches": ["SEQ(A a, B b) WITHIN 5", "SEQ(A a, B b, C c) WITHIN 5"]}
SHARED["counts"] = [f"{text} AGG COUNT(*) AS n" for text in SHARED["matches"]]


@given(data=st.data(), kind=st.sampled_from(["matches", "counts"]), events=streams(max_size=9))
def test_workloads_run_by_itself_what_they_cannot_share(data: st.DataObject, kind: str, events: list[oracle.Event]) -> None:
    """Repetition, NEXT, STRICT, ORDER BY and SKIP beside queries that share: here at once, and as a stream."""
    drawn = aggregate_queries if kind == "counts" else queries
    clauses = data.draw(st.sampled_from(CLAUSES))
    texts = [*SHARED[kind], *data.draw(st.lists(drawn(repeats=True, depth=2, words=RUNS, clauses=clauses), min_size=1, max_size=2))]
    workload = {f"q{number}": text for number, text in enumerate(texts)}
    show("\n".join(texts), events)

    def assert_right(found: dict[str, list[dict[str, Any]]]) -> None:
        for name, text in workload.items():
            if kind == "counts":
                assert_same_rows(found[name], oracle.aggregates(parse(text), events))
            else:
                assert counted(found[name]) == counted(oracle.matches(parse(text), events))

    def read(one: pa.Table) -> list[dict[str, Any]]:
        return one.to_pylist() if kind == "counts" else rows(one)

    for strategy in ("auto", "independent", *names(f"shared {kind}")):
        note(strategy)
        try:
            result = sq.run(workload, table(events), strategy=strategy)
        except sq.PlanError:  # who asks for shared counts by name is told what cannot share
            assert strategy in names("shared counts")
            continue
        assert_right({name: read(one.table) for name, one in result.items()})
    pushed = sq.Stream(workload, columns=SCHEMA)
    came = [pushed.push(table(events[start:stop])) for start, stop in data.draw(cuts(len(events)))] + [pushed.close()]
    assert_right({name: [row for each in came if name in each for row in read(each[name])] for name in workload})


@given(data=st.data(), hierarchy=hierarchies(), events=streams())
def test_cubes(data: st.DataObject, hierarchy: dict[str, Any] | None, events: list[oracle.Event]) -> None:
    """A cuboid and its neighbours count what their queries find."""
    text = next(iter(data.draw(workloads(hierarchy, size=1, negations=False)).values()))
    show(text, events, hierarchy)
    tree = sq.Hierarchy.from_dict(hierarchy) if hierarchy else sq.Hierarchy.from_dict({})
    cube = sq.Cube(sq.Events(table(events)), text, hierarchy=tree)
    for cuboid in (cube, *cube.children(), *cube.parents()):
        note(str(cuboid.query))
        assert cuboid.count == len(oracle.matches(parse(str(cuboid.query)), events, hierarchy))
