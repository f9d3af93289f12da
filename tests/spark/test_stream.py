"""Streams through real Spark, stopped and started again: aggregates, matches that wait, and what a stream cannot do."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tables import rows_of

import seqube as sq
import seqube.spark as sqs
from seqube.generate import generate
from seqube.spark import ingest
from seqube.spark.streaming.stream import watch_stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

QUERIES = {
    "by key": "SEQ(Recycle r, Wash w, [id]) GROUP BY r.id AGG COUNT(*), AVG(w.weight) AS mean WITHIN 30 min",
    "every": "SEQ(Recycle r, Wash w, [id]) GROUP BY r.id AGG COUNT(*), SUM(r.duration) AS s WITHIN 30 min EMIT EVERY 1 hour",
    "per": "SEQ(Recycle r, Wash w, [id]) GROUP BY r.id AGG COUNT(*), SUM(r.duration) AS s WITHIN 30 min EMIT PER 1 hour",
    "expressions": "SEQ(Recycle r, Wash w, [id]) GROUP BY r.id AGG AVG(w.ts - r.ts) AS wait, SUM(w.weight * 2) AS s WITHIN 30 min",
    "spread": "SEQ(Recycle r, Wash w, [id]) GROUP BY r.id AGG STDDEV(w.weight) AS s, VARIANCE(w.duration) AS v WITHIN 30 min",
    "counted": "SEQ(Recycle r, Wash w) PARTITION BY id AGG COUNT(*) WITHIN 6 EVENTS",
    "matches": "SEQ(Recycle r, Wash w, !Operate o, [id]) WITHIN 30 min RETURN r.id AS id, w.ts AS washed",
}


def write(folder: Path, number: int, table: pa.Table) -> None:
    folder.mkdir(exist_ok=True)
    pq.write_table(table, folder / f"{number}.parquet")
    os.utime(folder / f"{number}.parquet", (1_000 + number, 1_000 + number))


def read(spark: SparkSession, table: pa.Table, folder: Path) -> DataFrame:
    columns = spark.createDataFrame(table.slice(0, 1)).schema
    return spark.readStream.schema(columns).option("maxFilesPerTrigger", 1).parquet(str(folder))


@pytest.mark.slow
def test_stopped_and_started_again(spark: SparkSession, tmp_path: Path) -> None:
    table = generate("hospital", 3_000, seed=5)
    last = table.slice(table.num_rows - 1).to_pylist()[0]
    end = pa.Table.from_pylist([{**last, "type": "End", "ts": last["ts"].replace(year=2027)}], table.schema)
    step = table.num_rows // 4
    pieces = [table.slice(start, step) for start in range(0, table.num_rows, step)]
    for round_, numbers in enumerate((range(2), range(2, len(pieces)))):
        for number in numbers:
            write(tmp_path / "in", number, pieces[number])
        if round_ == 1:
            write(tmp_path / "in", len(pieces), end)
        source = ingest.read_source(read(spark, table, tmp_path / "in"), "type", "ts", "ms")
        plans = {name: ingest.plan_over(text, source) for name, text in QUERIES.items() if name != "every"}
        stream = watch_stream(plans, source, "1 minute")
        writer = stream.out.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.option("path", str(tmp_path / "out")).trigger(availableNow=True).start().awaitTermination()
    out = spark.read.parquet(str(tmp_path / "out")).cache()
    for name in plans:
        expected = rows_of(sq.run(QUERIES[name], table).table)
        assert rows_of(stream.matches(name, out).toArrow()) == expected, name
        assert expected, name
    assert out.where("kind = 'late'").count() == 0


@pytest.mark.slow  # in the everyday run: related queries by one stream
def test_reports_at_regular_times_and_matches_by_one_stream(spark: SparkSession, tmp_path: Path) -> None:
    table = generate("hospital", 1_000, seed=6)
    write(tmp_path / "in", 0, table.slice(0, 500))
    write(tmp_path / "in", 1, table.slice(500))
    queries = {name: QUERIES[name] for name in ("every", "matches")}
    found = sqs.run(queries, read(spark, table, tmp_path / "in"), lateness="1 minute")

    def keep(rows: Mapping[str, DataFrame], number: int) -> None:
        for name, frame in rows.items():
            frame.write.parquet(str(tmp_path / "out" / name / f"batch={number}"))

    writer = found.foreach_batch(keep).option("checkpointLocation", str(tmp_path / "checkpoint"))
    started = writer.trigger(availableNow=True).start()
    started.awaitTermination()
    assert {len(progress.stateOperators) for progress in started.recentProgress} == {1}
    for name, query in queries.items():
        rows = rows_of(spark.read.parquet(str(tmp_path / "out" / name)).drop("batch").toArrow())
        assert rows, name
        assert rows <= rows_of(sq.run(query, table).table), name  # what the watermark has not passed is still to come
        assert max(rows.values()) == 1
    with pytest.raises(sq.PlanError, match="a batch comes once"):
        sqs.run(queries, spark.createDataFrame(table.slice(0, 1))).foreach_batch(keep)


def test_related_queries_by_one_stream_share_its_events(spark: SparkSession, tmp_path: Path) -> None:
    table = generate("hospital", 1_000, seed=6)
    write(tmp_path / "in", 0, table.slice(0, 500))
    write(tmp_path / "in", 1, table.slice(500))
    queries = {
        "washed": "SEQ(Recycle r, Wash w, [id]) WITHIN 30 min",
        "used": "SEQ(Recycle r, Wash w, Operate o, [id]) WITHIN 30 min RETURN r.id AS tool, o.ts AS at",
        "counted": "SEQ(Recycle r, Wash w) AGG COUNT(*) WITHIN 5 min",
    }
    found = sqs.run(queries, read(spark, table, tmp_path / "in"), lateness="1 minute", strategy="chase", ids=True)
    with pytest.raises(sq.PlanError, match="queries share in one stream"):
        found["washed"]

    def keep(rows: Mapping[str, DataFrame], number: int) -> None:
        for name, frame in rows.items():
            frame.write.parquet(str(tmp_path / "out" / name / f"batch={number}"))

    writer = found.foreach_batch(keep).option("checkpointLocation", str(tmp_path / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()
    for name, query in queries.items():
        rows = rows_of(spark.read.parquet(str(tmp_path / "out" / name)).drop("batch", "match_id").toArrow())
        assert len(rows) > 10, name
        assert rows <= rows_of(sq.run(query, table).table), name  # what the watermark has not passed is still to come


def test_a_total_has_no_end(spark: SparkSession) -> None:
    stream = spark.readStream.format("rate").load().selectExpr("'A' AS type", "timestamp AS ts", "value AS id")
    with pytest.raises(sq.PlanError, match="EMIT TOTAL"):
        sqs.run("SEQ(A a, A b) AGG COUNT(*) WITHIN 5 min EMIT TOTAL", stream)


def test_state_needs_rocksdb(spark: SparkSession) -> None:
    setting = "spark.sql.streaming.stateStore.providerClass"
    before = spark.conf.get(setting)
    stream = spark.readStream.format("rate").load().selectExpr("'A' AS type", "timestamp AS ts", "value AS id")
    spark.conf.set(setting, "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider")
    try:
        with pytest.raises(sq.PlanError, match="RocksDB"):
            sqs.run("SEQ(A a, A b) WITHIN 5 min", stream)
    finally:
        spark.conf.set(setting, str(before))
