"""What an operator relies on: keys that are missing are told, a stream that ends says all, a pipeline is called from a program."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pipelines import FREE, PAIRS, WAITS, add_file, expected, results, write_pipeline

import seqube as sq
import seqube.spark as sqs
from seqube.engine.limits import LIMITS
from seqube.finding import RunRequest, find_on_spark
from seqube.generate import generate
from seqube.language.files import read_query
from seqube.spark.streaming import pipeline
from seqube.spark.streaming.declaration import read_declaration
from seqube.spark.streaming.pipeline import run_once, run_stream
from seqube.spark.streaming.stream import buckets_for

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def without_ids(table: pa.Table, n: int) -> pa.Table:
    """The last n rows have no id."""
    ids = table.column("id").to_pylist()
    return table.set_column(table.schema.get_field_index("id"), "id", pa.array([*ids[:-n], *[None] * n], pa.int64()))


def names_of_jobs(spark: SparkSession) -> set[str]:
    """What the newest jobs are called on Spark's pages."""
    jobs = spark._jsparkSession.sparkContext().statusStore().jobsList(None)
    names = [jobs.apply(number).description() for number in range(jobs.size())]
    return {name.get() for name in names if name.isDefined()}


def test_jobs_of_a_batch_are_called_by_its_queries_and_steps(spark: SparkSession, tmp_path: Path) -> None:
    table = generate("hospital", 300, seed=4)
    pq.write_table(table, tmp_path / "day.parquet")
    asked = RunRequest(str(tmp_path / "day.parquet"), "type", "ts", "ms", None, "auto", None)
    queries = {"tidy": read_query(PAIRS), "near": read_query(FREE)}
    found = find_on_spark({}, asked, queries, LIMITS, {})
    assert found.totals == {name: sum(expected(table, text).values()) for name, text in (("tidy", PAIRS), ("near", FREE))}
    assert sqs.mine(spark.createDataFrame(table), "5 min", 5, 0.5, max_events=2)
    steps = {f"{name}: {step}" for name in queries for step in ("count rows to spread them", "match", "fetch rows")}
    steps |= {"count events", "mine: count events of each type", "mine: count episodes"}
    assert {f"seqube: {step}" for step in steps} <= names_of_jobs(spark)


@pytest.mark.parametrize("once", [True, False])
def test_rows_without_the_key_are_rejected_and_counted(spark: SparkSession, tmp_path: Path, once: bool) -> None:
    table = without_ids(generate("hospital", 300, seed=4), 100)
    add_file(tmp_path, "1", table)
    kinds = Counter(table.column("type").to_pylist()[-100:])
    file = write_pipeline(tmp_path, {"pairs": PAIRS})
    counts = sqs.run_pipeline(spark, file, once=once)
    keyless = kinds["Recycle"] + kinds["Wash"]
    assert (counts.quarantined, counts.null_keys) == (keyless, keyless)
    assert (counts.read or 0) == (counts.used or 0) + (counts.irrelevant or 0) + counts.quarantined == 300
    files = (tmp_path / "out" / "quarantine").rglob("*.parquet")
    assert {row["reason"] for path in files for row in pq.ParquetFile(path).read().to_pylist()} == {"id is missing"}


def test_rows_without_the_key_are_used_by_who_needs_none(spark: SparkSession, tmp_path: Path) -> None:
    table = without_ids(generate("hospital", 300, seed=4), 100)
    add_file(tmp_path, "1", table)
    kinds = Counter(table.column("type").to_pylist()[-100:])
    keyless = kinds["Recycle"] + kinds["Wash"]
    free = {"pairs": PAIRS, "free": "SEQ(Recycle r, Operate o) WITHIN 2 min RETURN r.ts AS x, o.ts AS y"}
    sinks = {"matches": "other/matches", "quarantine": "other/quarantine"}
    counts = run_once(read_declaration(write_pipeline(tmp_path, free, sinks=sinks)), spark)
    assert (counts.quarantined, counts.null_keys) == (kinds["Wash"], keyless)
    assert counts.matches == {name: sum(expected(table, query).values()) for name, query in free.items()}

    optional = {"id": {"type": "bigint", "required": False}}
    sinks = {"matches": "third/matches", "quarantine": "third/quarantine"}
    counts = run_once(read_declaration(write_pipeline(tmp_path, {"pairs": PAIRS}, sinks=sinks, schema=optional)), spark)
    assert counts.quarantined == 0


def test_a_stream_that_is_drained_says_what_a_batch_says(spark: SparkSession, tmp_path: Path) -> None:
    table = generate("hospital", 900, seed=9)
    queries = {"pairs": PAIRS, "waits": WAITS, "free": FREE}
    for number in range(3):
        add_file(tmp_path, str(number), table.slice(300 * number, 300))
    file = write_pipeline(tmp_path, queries, drain=True)
    counts = run_stream(read_declaration(file))
    assert (counts.read, counts.late, counts.quarantined) == (900, 0, 0)
    for name, query in queries.items():
        assert results(tmp_path, name) == expected(table, query), name
    with pytest.raises(sq.DataError, match="was brought to its end"):
        run_stream(read_declaration(file))
    assert {f"pipeline: micro-batch {number}: {step}" for number in (1, 2) for step in ("match", "matches pairs")} <= names_of_jobs(
        spark
    )


def test_buckets_follow_the_cores() -> None:
    assert [buckets_for(n) for n in (1, 8, 9, 16, 17, 500)] == [16, 16, 32, 32, 64, 1024]


@pytest.mark.slow  # in the everyday run: how many there are, above, and the mark of a kept checkpoint
def test_buckets_stay(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chosen when a stream first starts; another number of cores changes nothing for one that has begun, nor for an older one."""
    table = generate("hospital", 600, seed=2)
    add_file(tmp_path, "0", table.slice(0, 300))
    monkeypatch.setattr(pipeline, "buckets_for", lambda _: 32)
    run_stream(read_declaration(write_pipeline(tmp_path, {"pairs": PAIRS})))
    monkeypatch.setattr(pipeline, "buckets_for", lambda _: 16)
    add_file(tmp_path, "1", table.slice(300))
    run_stream(read_declaration(write_pipeline(tmp_path, {"pairs": PAIRS}, drain=True)))
    assert results(tmp_path, "pairs") == expected(table, PAIRS)
    assert json.loads((tmp_path / "out" / "checkpoint" / "seqube.json").read_text())["buckets"] == 32


def test_drain_is_for_streams_that_end(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for wrong in ({"drain": True, "trigger": "1 second"}, {"drain": "yes"}):
        with pytest.raises(sq.SchemaError, match=r"drain is .* \(line 1"):
            read_declaration(write_pipeline(tmp_path, {"pairs": PAIRS}, **wrong))


@pytest.mark.parametrize("form", ["csv", "json"])
def test_lines_are_decoded_and_columns_made_of_them(spark: SparkSession, tmp_path: Path, form: str) -> None:
    """Those that are none are in the quarantine, as they came."""
    table = generate("hospital", 300, seed=4).select(["type", "ts", "id"])
    rows = [{"id": row["id"], "kind": row["type"].lower(), "at": row["ts"].isoformat(" ")} for row in table.to_pylist()]
    lines = [json.dumps(row) if form == "json" else ",".join(map(str, row.values())) for row in rows]
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.txt").write_text("\n".join([*lines[:200], "seven,Wash,soon", *lines[200:]]) + "\n")
    decode = {"format": form, "column": "value", "schema": "id bigint, kind string, at timestamp_ntz"}
    select = {"type": "initcap(kind)", "ts": "at + INTERVAL 0 SECONDS", "id": "id"}
    source = {"format": "text", "path": "in", "decode": decode, "select": select}
    counts = run_once(read_declaration(write_pipeline(tmp_path, {"pairs": PAIRS}, source=source)), spark)
    assert (counts.read, counts.quarantined) == (301, 1)
    assert counts.matches == {"pairs": sum(expected(table, PAIRS).values())}
    (kept,) = (
        row for path in (tmp_path / "out" / "quarantine").rglob("*.parquet") for row in pq.ParquetFile(path).read().to_pylist()
    )
    assert kept["_corrupt_record"] == "seven,Wash,soon"


@pytest.mark.slow  # in the everyday run: decoding and `select` over files, above
def test_columns_are_made_of_what_any_source_gives(spark: SparkSession, tmp_path: Path) -> None:
    """Spark's own source of numbered rows, so many of them in a micro-batch."""
    options = {"rowsPerBatch": 300, "numPartitions": 2, "startTimestamp": 0, "advanceMillisPerBatch": 300_000}
    kind, moment = (
        "IF(value % 2 = 0, 'Recycle', 'Wash')",
        "CAST(timestamp + make_dt_interval(0, 0, 0, value % 300) AS TIMESTAMP_NTZ)",
    )
    source = {"format": "rate-micro-batch", "options": options, "select": {"type": kind, "ts": moment, "id": "value % 7"}}
    counts = run_stream(read_declaration(write_pipeline(tmp_path, {"pairs": PAIRS}, source=source, drain=True)))
    assert counts.read >= 300
    values = range(counts.read)
    table = pa.table(
        {
            "type": ["Wash" if value % 2 else "Recycle" for value in values],
            "ts": pa.array([1_000_000 * value for value in values], pa.timestamp("us")),
            "id": [value % 7 for value in values],
        }
    )
    assert results(tmp_path, "pairs") == expected(table, PAIRS)


def test_avro_is_refused_by_the_name_of_its_package(spark: SparkSession, tmp_path: Path) -> None:
    """Spark has the words for it, and the rest is a jar."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.txt").write_text("x\n")
    schema = json.dumps(
        {"type": "record", "name": "e", "fields": [{"name": "type", "type": "string"}, {"name": "ts", "type": "long"}]}
    )
    source = {"format": "text", "path": "in", "decode": {"format": "avro", "column": "value", "schema": schema}}
    with pytest.raises(sq.SequbeError, match=r"org\.apache\.spark:spark-avro_2\.13"):
        run_once(read_declaration(write_pipeline(tmp_path, {"pairs": "SEQ(A a, B b) WITHIN 5"}, source=source)), spark)
