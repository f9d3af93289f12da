"""Cut into slices of any length, or spread over buckets by key, a stream has the matches it has in one place. Without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import assume, given
from hypothesis import strategies as st
from tables import bound_rows, keyed_queries
from travel import Recast, carried, recasts

import oracle
import seqube as sq
from seqube.engine.sequence import LOWEST
from seqube.events import Events
from seqube.language import parse
from seqube.plan.needs import needs_of
from seqube.plan.physical import MatchPlan, ticks
from seqube.plan.planner import plan_matches
from seqube.spark.answers import answer_alone
from seqube.spark.batch import Numbering, match, number_rows, pack
from seqube.spark.ingest import IDENTITY, INPUT_ORDER
from seqube.spark.routing import Layout, SparkTask, lay_out
from seqube.spark.rows import ShippedQuery, ship_query
from seqube.spark.transport.blobs import read_blobs, write_blob
from seqube.spark.transport.columns import Columns, number_equals
from strategies import queries, streams
from strategies import spark_table as as_table


def spread(table: pa.Table, plan: MatchPlan, buckets: np.ndarray[Any, Any], layout: Layout, hidden: dict[str, Any]) -> pa.Table:
    """What Spark would do: pack in two pieces, shuffle, match by task."""
    columns = Columns(Events(table).schema, tuple(hidden))
    wanted = ship_query(plan, columns.schema, IDENTITY in hidden)
    for name, values in hidden.items():
        table = table.append_column(name, pa.array(values, pa.int64()))
    table = table.append_column("#bucket0", pa.array(buckets, pa.int32()))
    half = table.num_rows // 2
    pieces = [*table.slice(0, half).to_batches(), *table.slice(half).to_batches()]
    blobs = [blob for piece in pieces for blob in pack([piece], columns, {"#bucket0": layout})]
    tasks = {task.number: task for task in layout.tasks}
    found = list(match(blobs[::-1], columns, tasks, wanted))
    return pa.Table.from_batches(found, wanted.schema)


def cut_anywhere(plan: MatchPlan, bounds: list[int], sizes: list[int], cut: list[int], n_tasks: int, unit: str = "ms") -> Layout:
    window = ticks(plan.window, unit)
    return lay_out(0, 0, sizes, dict.fromkeys(cut, bounds), n_tasks, window, window if plan.waits else 0)


bounds = st.lists(st.integers(-1, 10), max_size=10)


@given(text=queries(durations=False, counted=False), events=streams(), cuts=bounds, recast=recasts())
def test_slices_of_any_length(text: str, events: list[oracle.Event], cuts: list[int], recast: Recast) -> None:
    assume(recast.takes(text))
    plan, table = plan_matches(parse(text)), carried(recast.table(events))
    layout = cut_anywhere(plan, [recast.tick(cut) for cut in cuts], [len(events)], [0], 1, Events(table).unit)
    found = spread(table, plan, np.zeros(len(events)), layout, {})
    assert bound_rows(found.to_pylist()) == bound_rows(sq.run(text, table).table.to_pylist())


@given(
    text=queries(durations=False, predicates=False, counted=False),
    events=streams(max_time=20),
    cuts=st.lists(st.integers(-1, 21), max_size=20),
)
def test_slices_with_negation_at_every_edge(text: str, events: list[oracle.Event], cuts: list[int]) -> None:
    plan, table = plan_matches(parse(text)), as_table(events)
    layout = cut_anywhere(plan, cuts, [len(events)], [0], 1)
    found = spread(table, plan, np.zeros(len(events)), layout, {})
    assert bound_rows(found.to_pylist()) == bound_rows(sq.run(text, table).table.to_pylist())


RUNS = ("SEQ", "AND", "OR", "NEXT", "NEXT", "STRICT")


@given(
    text=queries(durations=False, counted=False, repeats=True, depth=2, words=RUNS),
    events=streams(max_size=10, max_time=15),
    cuts=st.lists(st.integers(-1, 16), max_size=6),
)
def test_slices_of_runs(text: str, events: list[oracle.Event], cuts: list[int]) -> None:
    plan, table = plan_matches(parse(text)), as_table(events)
    layout = cut_anywhere(plan, cuts, [len(events)], [0], 1)
    found = spread(table, plan, np.zeros(len(events)), layout, {INPUT_ORDER: np.arange(len(events))})
    assert bound_rows(found.to_pylist()) == bound_rows(sq.run(text, table).table.to_pylist())


@given(
    text=queries(durations=False, counted=False, repeats=True, depth=2, words=RUNS),
    events=streams(max_size=9, max_time=15),
    shuffled=st.randoms(use_true_random=False),
)
def test_ids_and_ties_of_runs_follow_from_what_the_rows_hold(text: str, events: list[oracle.Event], shuffled: Random) -> None:
    plan, table = plan_matches(parse(text)), as_table(events)
    columns = Columns(Events(table).schema, (IDENTITY,), by_contents=True)
    hashes = np.array([hash((event.type, event.ts, repr(event.attributes))) % 2**40 for event in events], np.int64)
    wanted = ship_query(plan, columns.schema, with_ids=True)
    answers = []
    for _ in range(2):
        order = list(range(len(events)))
        shuffled.shuffle(order)
        rows = table.append_column(IDENTITY, pa.array(hashes)).take(pa.array(order, pa.int64()))
        found = list(answer_alone(columns.events(columns.select(rows)), SparkTask(0, 0), wanted))
        answers.append(sorted((row["match_id"], repr(row)) for piece in found for row in piece.to_pylist()))
    assert answers[0] == answers[1]
    assert len({number for number, _ in answers[0]}) == len(answers[0])


@given(text=keyed_queries(), events=streams(), cuts=bounds, recast=recasts(), data=st.data())
def test_buckets_by_key_some_of_them_cut(
    text: str, events: list[oracle.Event], cuts: list[int], recast: Recast, data: st.DataObject
) -> None:
    assume(recast.takes(text))
    plan, table = plan_matches(parse(text)), carried(recast.table(events))
    key = needs_of(plan, "ms").key
    n_buckets = data.draw(st.integers(1, 5))
    values = [repr([event.attributes.get(name) for name in key]) for event in events]
    buckets = np.array([hash(value) % n_buckets for value in values], np.int64)
    counted = plan.window.counts_events
    if counted and not key:
        return  # numbered over the whole stream: below
    hot = [] if counted else data.draw(st.lists(st.integers(0, n_buckets - 1), unique=True))
    sizes, ends = np.bincount(buckets, minlength=n_buckets).tolist(), [recast.tick(cut) for cut in cuts]
    layout = cut_anywhere(plan, ends, sizes, hot, data.draw(st.integers(1, 3)), Events(table).unit)
    found = spread(table, plan, buckets, layout, {INPUT_ORDER: range(len(events))} if counted else {})
    assert bound_rows(found.to_pylist()) == bound_rows(sq.run(text, table).table.to_pylist())


def numbered(table: pa.Table, plan: MatchPlan, ends: list[int], wanted: ShippedQuery) -> Iterator[pa.Table]:
    columns = Columns(Events(table).schema, (INPUT_ORDER,))
    table = table.append_column(INPUT_ORDER, pa.array(range(table.num_rows), pa.int64()))
    times = Events(table).times
    ends = [end for end in sorted(set(ends)) if (times <= end).any() and (times > end).any()]
    ends = [end for last, end in zip([LOWEST, *ends], ends, strict=False) if ((times > last) & (times <= end)).any()]
    starts = [0, *(int((times <= end).sum()) for end in ends)]
    in_time = lay_out(0, 0, [table.num_rows], {0: ends}, 1, 0, 0)
    ahead = plan.window.length if plan.waits else 0
    by_number = lay_out(0, 0, [table.num_rows], {0: [start - 1 for start in starts[1:]]}, 1, plan.window.length, ahead)
    table = table.append_column("#bucket0", pa.array(np.zeros(table.num_rows), pa.int32()))
    cells = list(pack(table.to_batches(), columns, {"#bucket0": in_time}))
    tasks = {task.number: task for task in in_time.tasks}
    blobs: dict[int, list[Any]] = {}
    for batch in number_rows(cells, columns, Numbering(tuple(starts), by_number, plan.types)):
        blobs.setdefault(batch.column(0)[0].as_py(), []).append(batch.column(1)[0].as_py())
    for number, own in blobs.items():
        yield from answer_alone(Events(read_blobs(own)), tasks[number], wanted)


@given(text=queries(durations=False, counted=True, repeats=True, depth=2, words=RUNS), events=streams(max_size=10), cuts=bounds)
def test_numbered_slices_of_runs(text: str, events: list[oracle.Event], cuts: list[int]) -> None:
    plan, table = plan_matches(parse(text)), as_table(events)
    if plan.partition_by:
        return
    wanted = ship_query(plan, Events(table).schema)
    found = pa.concat_tables([wanted.schema.empty_table(), *numbered(table, plan, cuts, wanted)])
    assert bound_rows(found.to_pylist()) == bound_rows(sq.run(text, table).table.to_pylist())


@given(text=queries(durations=False, counted=True), events=streams(), cuts=bounds, recast=recasts())
def test_numbered_slices(text: str, events: list[oracle.Event], cuts: list[int], recast: Recast) -> None:
    assume(recast.takes(text))
    plan, table = plan_matches(parse(text)), carried(recast.table(events))
    if plan.partition_by:
        return
    wanted = ship_query(plan, Events(table).schema)
    found = pa.concat_tables([wanted.schema.empty_table(), *numbered(table, plan, [recast.tick(cut) for cut in cuts], wanted)])
    assert bound_rows(found.to_pylist()) == bound_rows(sq.run(text, table).table.to_pylist())


@given(text=queries(durations=False, counted=False), events=streams(), cuts=bounds, seed=st.integers(0, 100))
def test_ids_depend_on_the_events_alone(text: str, events: list[oracle.Event], cuts: list[int], seed: int) -> None:
    plan, table = plan_matches(parse(text)), as_table(events)
    hashes = np.random.default_rng(seed).integers(0, 2**62, 10)[table.column("x").fill_null(0).to_numpy()]
    hashes += table.column("ts").to_numpy()  # events of one time that are equal in all columns
    whole = cut_anywhere(plan, [], [len(events)], [], 1)
    sliced = cut_anywhere(plan, cuts, [len(events)], [0], 1)
    one, many = (spread(table, plan, np.zeros(len(events)), layout, {IDENTITY: hashes}) for layout in (whole, sliced))
    assert sorted(one.column("match_id").to_pylist()) == sorted(many.column("match_id").to_pylist())
    assert len(set(one.column("match_id").to_pylist())) == one.num_rows


def test_what_may_split_a_stream() -> None:
    keys = {
        "SEQ(A a, B b, [id]) WITHIN 5": ("id",),
        "SEQ(A a, B b, a.id = b.id) WITHIN 5": ("id",),
        "SEQ(A a, B b, a.id = b.x) WITHIN 5": (),
        "SEQ(A a, B b) WITHIN 5": (),
        "SEQ(A a, !C c, B b, a.id = b.id) WITHIN 5": (),  # a C of any id cancels
        "SEQ(A a, !C c, B b, [id]) WITHIN 5": ("id",),
        "SEQ(A a, SEQ(B b, C c)) WHERE a.id = b.id WITHIN 5": (),  # c is free
        "SEQ(A a, SEQ(B b, C c), [id]) WITHIN 5": ("id",),
        "SEQ(A a, OR(B b, C c), [id]) WITHIN 5": ("id",),
        "SEQ(A a, B b, [id]) PARTITION BY s WITHIN 5": ("s",),
        "SEQ(A a, B b, [id]) WITHIN 5 EVENTS": (),  # numbers run over all ids
        "SEQ(A a, B b) PARTITION BY s WITHIN 5 EVENTS": ("s",),
        "SEQ(A a, !SEQ(C c, D d, c.id = a.id), B b, a.id = b.id) WITHIN 5": (),  # d is free
        "SEQ(A a, !SEQ(C c, D d, c.id = d.id = a.id), B b, a.id = b.id) WITHIN 5": ("id",),
    }
    assert {text: needs_of(plan_matches(parse(text)), "ms").key for text in keys} == keys


def test_blobs_keep_what_they_hold() -> None:
    table = pa.table({"a": [1, None, 3], "s": ["x", None, ""]})
    assert read_blobs([write_blob(table.slice(0, 1)), write_blob(table.slice(1))]) == table
    assert read_blobs([]) is None


def test_equal_hashes_are_numbered() -> None:
    assert number_equals(np.array([5, 3, 5, 5, 3])).tolist() == [0, 0, 1, 2, 1]
    assert number_equals(np.array([], np.int64)).tolist() == []
