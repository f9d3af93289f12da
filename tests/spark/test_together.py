"""Queries of one key that are watched together: each has the rows that it has by itself, however it is cut. Without Spark."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tables import bound_rows

import oracle
import seqube as sq
from answers import show
from cube.workloads import workloads
from seqube.engine.aggregates.sharing import SharedAggregator
from seqube.engine.ecube.adaptation import SharedMatcher
from seqube.engine.limits import NO_LIMITS
from seqube.events import Events
from seqube.language import parse
from seqube.plan.strategies import names
from seqube.spark.ingest import KEY
from seqube.spark.planning import plan_stream
from seqube.spark.rows import ship_query
from seqube.spark.streaming.at_hand import AT_HAND
from seqube.spark.streaming.together import FixedWorkload, WatchTogether
from seqube.spark.transport.blobs import write_blob
from seqube.spark.transport.columns import Columns
from strategies import hierarchies, streams
from strategies import spark_table as as_table


def watches(texts: dict[str, str], schema: Any, tree: Any, strategy: str) -> list[WatchTogether]:
    concepts, queries = sq.Hierarchy.from_dict(tree) if tree else None, {name: parse(text) for name, text in texts.items()}
    shipped = {name: ship_query(plan, schema) for name, plan in plan_stream(queries, concepts, strategy).items()}
    groups = FixedWorkload(queries, concepts, strategy).groups(shipped, schema, NO_LIMITS)
    return [WatchTogether(name, own, Columns(schema), Columns(schema)) for name, own in groups.items()]


def replayed(watch: WatchTogether, table: pa.Table, cuts: list[int], forget: set[int]) -> dict[str, list[dict[str, Any]]]:
    """What comes out of micro-batches, each with the watermark that the ones before have brought; some workers know nothing."""
    held, store, found = None, {}, {name: [] for name in watch.wanted.queries}
    times, ends = table.column("ts").to_numpy(), [-1, *sorted(set(cuts)), 1_000]
    for number, (before, end) in enumerate([*pairwise(ends), (1_000, 1_000)]):
        if number in forget:
            AT_HAND.clear()
        piece = table.filter(pa.array((times > before) & (times <= end)))
        outcome = watch.take(held, [write_blob(piece)] if piece.num_rows else [], before, store)
        held = outcome.held
        for name, rows in watch.by_query(outcome.matches) if outcome.matches is not None else ():
            found[name] += rows.to_pylist()
    return found


@settings(max_examples=settings.default.max_examples // 2)
@given(data=st.data(), tree=hierarchies(), events=streams(max_time=12), strategy=st.sampled_from(names("shared matches")))
def test_matches_of_a_workload(data: st.DataObject, tree: Any, events: list[oracle.Event], strategy: str) -> None:
    texts = data.draw(workloads(tree))
    show("\n".join(texts.values()), events, tree)
    table, concepts = as_table(events), sq.Hierarchy.from_dict(tree) if tree else None
    cuts, forget = data.draw(st.lists(st.integers(0, 12), max_size=4)), data.draw(st.sets(st.integers(0, 5), max_size=2))
    for watch in watches(texts, Events(table).schema, tree, strategy):
        AT_HAND.clear()
        for name, rows in replayed(watch, table, cuts, forget).items():
            assert bound_rows(rows) == bound_rows(sq.run(texts[name], table, hierarchy=concepts).table.to_pylist()), texts[name]


@pytest.mark.parametrize("strategy", ["auto", "chase", "prefix-tree"])
def test_what_shares_is_what_was_asked_for(strategy: str) -> None:
    texts = {
        "all": "SEQ(A a, B b) WITHIN 5",
        "longer": "SEQ(A a, B b, C c) WITHIN 5",
        "count": "SEQ(A a, B b) AGG COUNT(*) WITHIN 5",
        "longer count": "SEQ(A a, B b, C c) AGG COUNT(*) WITHIN 5",
        "keyed": "SEQ(A a, B b, [id]) WITHIN 5",  # has another key
        "waiting": "SEQ(A a, !B b) WITHIN 5",  # is final when its window is over
        "counted": "SEQ(A a, B b) WITHIN 5 EVENTS",  # other events count
    }
    table = as_table([oracle.Event("ABCB"[i % 4], i, {"id": 1}, i) for i in range(60)])
    (watch,) = watches(texts, Events(table).schema, None, strategy)
    together = list(texts)[:4]
    assert list(watch.wanted.queries) == together
    kinds = {type(part) for part in watch.wanted.operator._parts.values()}
    assert (SharedMatcher in kinds, SharedAggregator in kinds) == (strategy == "chase", strategy == "prefix-tree")
    found = replayed(watch, table, [7, 20, 21, 50], {2})
    for name in together:
        expected = sq.run(texts[name], table).table.to_pylist()
        assert sorted(map(repr, found[name])) == sorted(map(repr, expected)), name
    assert (
        watch.fingerprint
        != watches({**texts, "all": "SEQ(A a, B b) WITHIN 6"}, Events(table).schema, None, strategy)[0].fingerprint
    )
    assert KEY not in watch.keeping.hidden
