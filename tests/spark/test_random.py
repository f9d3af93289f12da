"""Random queries over random streams through real Spark: batch = stream = one process. Many queries share a job, to stay quick."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from tables import bound_rows, keyed_queries
from travel import Recast, carried, recasts

import oracle
import seqube as sq
import seqube.spark as sqs
from seqube.language import parse
from seqube.plan.planner import plan_matches
from seqube.spark import ingest
from seqube.spark.streaming.stream import watch_stream
from strategies import ATTRIBUTES, queries, streams

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

END = oracle.Event("Z", 10_000, dict.fromkeys(ATTRIBUTES), -1)
IN_MS = [pa.int64(), pa.timestamp("ms"), pa.timestamp("ms", "Asia/Kolkata")]  # the lateness is in milliseconds

# To make a failing case smaller would take an hour.
few = settings(max_examples=2 if "SEQUBE_EXAMPLES" in os.environ else 1, phases=[Phase.generate])

# Half of them with a key, null keys among them.
workloads = st.tuples(
    st.lists(queries(durations=False, depth=2), min_size=6, max_size=6), st.lists(keyed_queries(depth=2), min_size=6, max_size=6)
).map(lambda texts: {f"q{i}": text for i, text in enumerate([*texts[0], *texts[1]])})


@few
@given(workload=workloads, events=streams(max_size=40, max_time=25), slices=st.sampled_from([None, 3, 7]), recast=recasts())
def test_batch(
    spark: SparkSession, workload: dict[str, str], events: list[oracle.Event], slices: int | None, recast: Recast
) -> None:
    workload = {name: text for name, text in workload.items() if recast.takes(text)}
    table = carried(recast.table(events))
    found = sqs.run(workload, spark.createDataFrame(table), slices=slices)
    try:
        for name, text in workload.items():
            expected = sq.run(text, table).table
            assert bound_rows(found[name].toArrow().to_pylist()) == bound_rows(expected.to_pylist()), text
    finally:
        found.unpersist()


@few
@given(workload=workloads, events=streams(max_size=40, max_time=25), recast=recasts(IN_MS, [0, -5]), data=st.data())
def test_stream(
    spark: SparkSession, workload: dict[str, str], events: list[oracle.Event], recast: Recast, data: st.DataObject
) -> None:
    """In any order of arrival that the lateness allows; ties keep their order, which counts where events are counted."""
    plans = {name: plan_matches(parse(text)) for name, text in workload.items()}
    workload = {name: text for name, text in workload.items() if not (plans[name].waits and plans[name].window.unit == "events")}
    workload = {name: text for name, text in workload.items() if recast.takes(text)}
    table, end = carried(recast.table(events)), carried(recast.table([END]))
    order = sorted(range(len(events)), key=lambda row: (events[row].ts + data.draw(st.integers(0, 8)) * (row % 3), row))
    arrived = table.take(pa.array(order, pa.int64()))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(events)), min_size=2, max_size=2)))
    assert_a_stream_finds_what_one_process_does(spark, workload, arrived, end, cuts)


def assert_a_stream_finds_what_one_process_does(
    spark: SparkSession, workload: dict[str, str], arrived: pa.Table, end: pa.Table, cuts: list[int]
) -> None:
    """Where the rows arrive in pieces, and one at the end that is late enough to decide on all others."""
    folder = Path(tempfile.mkdtemp())
    try:
        ends = [*cuts, len(arrived)]
        pieces = [arrived.slice(start, stop - start) for start, stop in zip([0, *ends], ends, strict=False)]
        for number, piece in enumerate([*pieces, end]):
            (folder / "in").mkdir(exist_ok=True)
            pq.write_table(piece, folder / "in" / f"{number}.parquet")
            os.utime(folder / "in" / f"{number}.parquet", (1_000 + number, 1_000 + number))
        columns = spark.createDataFrame(arrived).schema
        frame = spark.readStream.schema(columns).option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
        source = ingest.read_source(frame, "type", "ts", "ms")
        stream = watch_stream({name: ingest.plan_over(text, source) for name, text in workload.items()}, source, "20 milliseconds")
        writer = stream.out.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
        writer.option("path", str(folder / "out")).trigger(availableNow=True).start().awaitTermination()
        out = spark.read.parquet(str(folder / "out")).cache()
        for name, text in workload.items():
            found = stream.matches(name, out).toArrow()
            assert bound_rows(found.to_pylist()) == bound_rows(sq.run(text, arrived).table.to_pylist()), text
        assert out.where("kind = 'late'").count() == 0
    finally:
        shutil.rmtree(folder)
