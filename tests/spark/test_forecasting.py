"""Predictions and mined rules on Spark are those of one process, however the events are cut and spread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tables import keyed, rows_of, table_of

import seqube as sq
import seqube.spark as sqs
from predict.streams import Stream, rule_sets, streams
from seqube.events import Events
from seqube.predict.forecasts import find_halo
from seqube.predict.mining import read_aim
from seqube.spark.batch import pack
from seqube.spark.forecasting import count_slices, predict, share_rules, write_slices
from seqube.spark.routing import lay_out
from seqube.spark.transport.columns import Columns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def pieces(table: pa.Table, places: dict[str, Any]) -> list[pa.RecordBatch]:
    """Rows with their buckets in two pieces, as two tasks of Spark would read them."""
    for name, buckets in places.items():
        table = table.append_column(name, pa.array(buckets, pa.int32()))
    half = table.num_rows // 2
    return [*table.slice(0, half).to_batches(), *table.slice(half).to_batches()]


@given(chosen=rule_sets(), stream=streams(24), every=st.integers(1, 5), data=st.data())
def test_slices_and_buckets_have_the_predictions_of_the_whole(
    chosen: list[sq.Rule], stream: Stream, every: int, data: st.DataObject
) -> None:
    cuts = [time - 1 for time in stream.times[::every]]  # right before events, where what a slice needs lies farthest back
    rules = sq.Rules(keyed(rule, data.draw(st.sampled_from([(), ("id",)]))) for rule in chosen)
    table = table_of(stream)
    shares = share_rules(rules, Events(table).schema)
    layouts, buckets, first = {}, {}, 0
    for number, share in enumerate(shares):
        ids = np.array(stream.keys, np.int32) if share.key else np.zeros(len(stream.names), np.int32)
        # Of the keys, one is as hot as can be and cut, the other is not.
        layout = lay_out(number, first, [1] * (2 if share.key else 1), {0: cuts}, 2, find_halo(share.rules, "ms"), 0)
        layouts[f"#bucket{number}"], buckets[f"#bucket{number}"] = layout, ids
        first += len(layout.tasks)
    columns = Columns(Events(table).schema)
    tasks = {task.number: task for layout in layouts.values() for task in layout.tasks}
    blobs = [blob for piece in pieces(table, buckets) for blob in pack([piece], columns, layouts)]
    found = pa.Table.from_batches(list(predict(blobs, columns, tasks, shares)), shares[0].rows)
    assert rows_of(found) == rows_of(sq.forecast(rules, table).table)


@given(stream=streams(30), cuts=st.lists(st.integers(0, 40), max_size=3), key=st.sampled_from([(), ("id",)]))
def test_counts_of_slices_add_up(stream: Stream, cuts: list[int], key: tuple[str, ...]) -> None:
    table = table_of(stream)
    aim = read_aim("ms", 4, 1, 0.2, 6, 3, ("serial", "parallel"), key, None)
    names, newest = sorted(set(stream.names)), max(stream.times, default=0)
    columns = Columns(Events(table).schema)
    layout = lay_out(0, 0, [1, 1], {0: cuts}, 2, *aim.ticks)  # with a key, one of two buckets is as hot as can be, and cut
    places = {"#bucket0": stream.keys if key else [0] * len(stream.names)}
    blobs = [blob for piece in pieces(table, places) for blob in pack([piece], columns, {"#bucket0": layout})]
    slices = list(write_slices(blobs, columns, {task.number: task for task in layout.tasks}, names, aim, newest))

    class Sum:
        """What Spark does with the counts of slices: adds them up by place."""

        def totals(self) -> Any:
            return self.add(lambda piece: (piece.totals(),), len(names))[0]

        def count(self, episodes: Any) -> Any:
            return self.add(lambda piece: (piece.count(episodes),), episodes.n_rules)[0]

        def follow(self, episodes: Any, symbols: Any) -> Any:
            n_hits = episodes.n_rules * len(symbols)
            closed, hits = self.add(lambda piece: piece.follow(episodes, symbols), episodes.n_rules, n_hits)
            return closed, hits.reshape(episodes.n_rules, len(symbols))

        def add(self, count: Any, *sizes: int) -> list[Any]:
            sums = [np.zeros(size, np.int64) for size in sizes]
            for batch in count_slices(slices, aim.ticks[1], len(names), count):
                for row in batch.to_pylist():
                    sums[row["answer"]][row["place"]] += row["n"]
            return sums

    mined = sq.mine(table, 4, 1, 0.2, horizon=6, partition_by=key)
    assert list(aim.find(Sum(), names, len(stream.names))) == list(mined)


# ---------------------------------------------------------------- through Spark


def random_rules(seed: int) -> sq.Rules:
    rng = np.random.default_rng(seed)
    rules = []
    for number in range(12):
        events = [str(name) for name in rng.permutation(["A", "B", "C", "D WHERE x > 0.5", "Group"])[: rng.integers(1, 4)]]
        edges = [[u, v] for k, u in enumerate(events) for v in events[k + 1 :] if rng.random() < 0.5]
        within = int(rng.integers(3, 40))
        graph = {"vertices": {event: event for event in events}, "edges": edges}
        key = [(), ("id",), ("id", "ward")][number % 3]
        rules.append(sq.Rule(graph, "A", f"{within} s", f"{within + 9} s", 0.5, f"rule {number}", key))
    return sq.Rules(rules)


GROUP = sq.Hierarchy.from_dict({"Group": ["E", "F"]})


def random_events(seed: int, n_events: int = 3_000) -> pa.Table:
    rng = np.random.default_rng(seed)
    moments = np.cumsum(rng.choice([0, 1, 1, 3], n_events)) * 1_000_000
    return pa.table(
        {
            "kind": rng.choice([*"ABCDEFX"], n_events),
            "at": pa.array(moments).cast(pa.timestamp("us", "UTC")),
            "id": pa.array(
                np.where(rng.random(n_events) < 0.6, 0, rng.integers(0, 30, n_events)), mask=rng.random(n_events) < 0.02
            ),
            "ward": rng.choice(["n", "s"], n_events),
            "x": rng.random(n_events),
            "note": ["not looked at"] * n_events,
        }
    ).take(pa.array(rng.permutation(n_events)))


@pytest.mark.parametrize(("seed", "slices", "strategy"), [(1, None, "auto"), (2, 7, "cbs-tree")])
def test_forecasts_equal_those_of_one_process(spark: SparkSession, seed: int, slices: int | None, strategy: str) -> None:
    table, rules = random_events(seed), random_rules(seed)
    found = sqs.forecast(
        rules, spark.createDataFrame(table), type="kind", time="at", hierarchy=GROUP, strategy=strategy, slices=slices
    )
    expected = sq.forecast(rules, table, type="kind", time="at", hierarchy=GROUP).table
    assert found.columns == expected.column_names
    assert rows_of(found.toArrow()) == rows_of(expected)
    assert expected.num_rows > 1_000


def test_narrow_times_no_rules_and_rows_that_are_no_events(spark: SparkSession) -> None:
    rule = sq.Rule("A -> B", "C", 5, 9, 0.5)
    last = 2**31 - 2
    frame = spark.createDataFrame([("A", last - 1), ("B", last), (None, last), ("B", None)], "type string, ts int")
    with pytest.warns(UserWarning, match="2 rows are not events"):
        found = sqs.forecast(rule, frame)
    assert found.schema["end"].dataType.simpleString() == "int"
    assert [(row.start, row.end, row.latest) for row in found.collect()] == [(last - 1, last, last + 8)]
    nothing = sqs.forecast([], frame.where("type = 'A'"))
    assert nothing.columns == found.columns
    assert nothing.count() == 0
    with pytest.raises(sq.SchemaError, match="no column 'ward'"):
        sqs.forecast(keyed(rule, ("ward",)), frame)
    with pytest.raises(sq.PlanError, match="unknown strategy 'magic'"):
        sqs.forecast(rule, frame, strategy="magic")


@pytest.mark.parametrize(
    ("key", "window", "horizon", "slices"),
    [((), "3 s", "7 s", 3), (("id", "ward"), "12 s", "25 s", None), (("id",), "6 s", "11 s", 6)],
)
def test_mined_rules_equal_those_of_one_process(
    spark: SparkSession, key: tuple[str, ...], window: str, horizon: str, slices: int | None
) -> None:
    table = random_events(3)
    wanted: dict[str, Any] = {"window": window, "min_support": 0.02, "min_confidence": 0.4, "horizon": horizon, "partition_by": key}
    expected = sq.mine(table, type="kind", time="at", max_events=2, **wanted)
    found = sqs.mine(spark.createDataFrame(table), type="kind", time="at", max_events=2, slices=slices, **wanted)
    assert found == expected
    assert len(found) > 20


def test_what_cannot_be_mined_or_forecast(spark: SparkSession) -> None:
    frame = spark.createDataFrame([("A", 1)], "type string, ts long")
    assert len(sqs.mine(frame, 5, 2, 0)) == 0
    with pytest.raises(sq.SchemaError, match="no column 'ward'"):
        sqs.mine(frame, 5, 1, 0, partition_by="ward")
    with pytest.raises(sq.QueryError, match="not a length of time"):
        sqs.mine(frame, "x", 1, 0)
    stream = spark.readStream.format("rate").load()
    with pytest.raises(sq.PlanError, match="from history"):
        sqs.mine(stream, 5, 1, 0, type="value", time="timestamp")
