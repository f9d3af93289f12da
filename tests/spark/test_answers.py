"""All queries of a group in one task, or one for each slice of time: each has the rows that it has by itself. Without Spark."""

from __future__ import annotations

from itertools import pairwise
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from tables import bound_rows

import oracle
import seqube as sq
from answers import show
from cube.workloads import workloads
from seqube.engine.aggregates.aggregation import Aggregator
from seqube.engine.aggregates.sharing import SharedAggregator
from seqube.engine.instances import minus, plus
from seqube.engine.sequence import HIGHEST, LOWEST
from seqube.events import Events
from seqube.language import parse
from seqube.plan.measured import Measurements
from seqube.plan.needs import needs_of
from seqube.plan.optimizer import optimize
from seqube.plan.strategies import names
from seqube.spark.answers import AnswerColumns, ShippedWorkload, answer, finish_answers
from seqube.spark.batch import blob_for
from seqube.spark.routing import SparkTask
from seqube.spark.rows import ship_query
from seqube.spark.transport.blobs import write_blob
from seqube.spark.transport.columns import Columns
from strategies import hierarchies, streams
from strategies import spark_table as as_table


def by_slices(texts: dict[str, str], events: Events, tree: Any, strategy: str, cuts: list[int]) -> dict[str, list[dict[str, Any]]]:
    """What tasks would do, one for each slice, with the longest halo of all queries; and what is made of their answers."""
    concepts = sq.Hierarchy.from_dict(tree) if tree else None
    planned = optimize({name: parse(text) for name, text in texts.items()}, concepts, Measurements(events.statistics), strategy)
    columns = Columns(events.schema)
    shipped = {name: ship_query(plan, events.schema) for name, plan in planned.plans.items()}
    workload = ShippedWorkload.of(planned, shipped)
    needs = [needs_of(plan, events.unit) for plan in planned.plans.values()]
    tasks, blobs = {}, []
    for number, (after, upto) in enumerate(pairwise([LOWEST, *sorted(set(cuts)), HIGHEST])):
        tasks[number] = SparkTask(number, 0, after, upto)
        low = minus(np.array([after]), max(n.halo for n in needs))[0] if after > LOWEST else LOWEST
        high = plus(np.array([upto]), max(n.ahead for n in needs))[0]
        inside = np.flatnonzero((events.times > low) & (events.times <= high) if after > LOWEST else events.times <= high)
        blobs.append(blob_for(number, events.table.take(inside)))
    # Rows travel in lists or, here where the cuts are of an even number, all as blobs.
    into = AnswerColumns.of(workload, events.unit) if len(cuts) % 2 else AnswerColumns(workload.tags)
    names = {tag: name for name, tag in into.tags.items()}
    found: dict[str, list[tuple[int, bytes]]] = {name: [] for name in texts}
    for batch in answer(blobs[::-1], columns, tasks, workload, into):
        assert batch.schema == into.schema
        (row,) = batch.to_pylist()
        name = names[row["query"]]
        found[name].append((row["task"], row["blob"] or listed(batch.column(into.listed(name))[0], shipped[name].schema)))
    return {name: finish_answers(pairs, columns, shipped[name]).to_pylist() for name, pairs in found.items()}


def listed(rows: pa.ListScalar, schema: pa.Schema) -> bytes:
    """What a list of rows would be as a blob; its columns have no names."""
    return write_blob(pa.Table.from_arrays(rows.values.flatten(), schema=schema))


@given(data=st.data(), tree=hierarchies(), events=streams(max_time=12), strategy=st.sampled_from(names("shared matches")))
def test_matches_of_a_workload_in_slices(data: st.DataObject, tree: Any, events: list[oracle.Event], strategy: str) -> None:
    texts = data.draw(workloads(tree))
    show("\n".join(texts.values()), events, tree)
    stream = Events(as_table(events))
    cuts = data.draw(st.lists(st.integers(0, 12), max_size=3))
    concepts = sq.Hierarchy.from_dict(tree) if tree else None
    for name, rows in by_slices(texts, stream, tree, strategy, cuts).items():
        assert bound_rows(rows) == bound_rows(sq.run(texts[name], stream, hierarchy=concepts).table.to_pylist()), name


@given(data=st.data(), events=streams(max_time=12), strategy=st.sampled_from(["auto", *names("shared counts")]))
def test_counts_of_a_workload_in_slices(data: st.DataObject, events: list[oracle.Event], strategy: str) -> None:
    words = st.sampled_from(["ON TRIGGER", "TOTAL", "PER 3", "EVERY 2"])
    values = st.sampled_from(["COUNT(*)", "COUNT(*), SUM(v0.x)", "COUNT(*), MAX(v0.x) AS m"])
    pattern, window = st.lists(st.sampled_from("ABC"), min_size=1, max_size=3), st.sampled_from([3, 5, 5])
    texts = {}
    for number in range(3):
        parts = ", ".join(f"{name} v{place}" for place, name in enumerate(data.draw(pattern)))
        texts[f"q{number}"] = f"SEQ({parts}) AGG {data.draw(values)} WITHIN {data.draw(window)} EMIT {data.draw(words)}"
    show("\n".join(texts.values()), events)
    stream = Events(as_table(events))
    times = sorted({event.ts for event in events})[:-1]
    cuts = data.draw(st.lists(st.sampled_from(times), max_size=3)) if times else []
    for name, rows in by_slices(texts, stream, None, strategy, cuts).items():
        expected = sq.run(texts[name], stream).table.to_pylist()
        assert sorted(rows, key=repr) == sorted(expected, key=repr), texts[name]


def test_what_a_task_is_sent_is_what_was_asked_for() -> None:
    """By name, each strategy runs what it says; what nobody shares is not planned to be."""
    related = {"all": "SEQ(A a, B b, [id]) WITHIN 9", "longer": "SEQ(A a, B b, C c, [id]) WITHIN 9", "any": "OR(A a, B b) WITHIN 9"}
    counted = {"two": "SEQ(A a, B b) AGG COUNT(*) WITHIN 9", "three": "SEQ(A a, B b, C c) AGG COUNT(*) WITHIN 9"}
    events = Events(as_table([oracle.Event("ABC"[i % 3], i, {"id": 1}, i) for i in range(60)]))
    queries = {name: parse(text) for name, text in (related | counted).items()}
    for strategy, sources, way in (
        ("top-down", {"all": None, "longer": "all"}, None),
        ("bottom-up", {"all": "longer", "longer": None}, None),
        ("independent", None, None),
        ("prefix-tree", None, "prefix-tree"),
        ("chop-connect", None, "chop-connect"),
        ("pre-tree", None, "pre-tree"),
    ):
        planned = optimize(queries, None, Measurements(events.statistics), strategy)
        workload = ShippedWorkload.of(planned, {name: ship_query(plan, events.schema) for name, plan in planned.plans.items()})
        if sources is not None:
            assert workload.matches is not None
            assert workload.matches.sources == sources
        if way is not None:
            assert workload.counts is not None
            assert workload.counts.strategy == way
        if strategy == "independent":
            assert workload.matches is workload.counts is None


def test_totals_are_counted_together_in_every_slice() -> None:
    """Without a key they are added up from slices; what a slice adds is counted by one pass over its events for all queries."""
    texts = {
        "two": "SEQ(A a, B b) AGG COUNT(*) WITHIN 9 EMIT TOTAL",
        "three": "SEQ(A a, B b, C c) AGG COUNT(*) WITHIN 9 EMIT PER 20",
    }
    events = Events(as_table([oracle.Event("ABC"[i % 3], i, {"id": 1}, i) for i in range(60)]))
    with (
        mock.patch.object(SharedAggregator, "within", autospec=True, side_effect=SharedAggregator.within) as shared,
        mock.patch.object(Aggregator, "totals_within", autospec=True, side_effect=Aggregator.totals_within) as alone,
    ):
        for strategy, n_shared, n_alone in (("prefix-tree", 3, 0), ("independent", 0, 6)):
            shared.reset_mock()
            alone.reset_mock()
            found = by_slices(texts, events, None, strategy, [19, 40])
            assert (shared.call_count, alone.call_count) == (n_shared, n_alone)
            assert found == {name: sq.run(text, events).table.to_pylist() for name, text in texts.items()}
