"""Repetition, NEXT, STRICT, SKIP and KEEP PARTIAL on Spark, over a batch, a stream and in SQL: what they are here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pipelines import add_file
from tables import rows_of

import seqube as sq
import seqube.spark as sqs
from seqube.spark import ingest
from seqube.spark.streaming.stream import watch_stream

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

QUERIES = {
    "lists": "SEQ(A a, B+ b, C? c, [id]) WHERE b.x > PREV(b.x) WITHIN 30 RETURN a.id, b.x AS xs, COUNT(b) AS n, c.x AS c",
    "events": "NEXT(A a, B{1,2} b, C c) PARTITION BY id WITHIN 60",
    "strict": "STRICT(A a, OR(B b, C c)) WITHIN 60 RETURN a.x AS a, b.x AS b, c.x AS c",
    "skip": "SEQ(A a, B b) PARTITION BY id SKIP PAST LAST WITHIN 40 RETURN a.x AS a, b.x AS b",
    "skip keys": "SEQ(A a, B b, [id]) SKIP PAST LAST WITHIN 40 RETURN a.x AS a, b.x AS b",  # a match of any key leaves out others
    "partial": "NEXT(A a, !D d, B b, C c) PARTITION BY id KEEP PARTIAL WITHIN 40 RETURN id, a.x AS a, c.x AS c",
    "waits": "NEXT(A a, B* b) PARTITION BY id WITHIN 25 RETURN a.x AS a, b.x AS xs",
    "order": "SEQ(A a, B b) ORDER BY x WITHIN 5 RETURN a.x AS a, b.x AS b",
    "distinct": "SEQ(A a, B b) WITHIN 40 RETURN DISTINCT a.id AS a, b.id AS b",
}


@pytest.fixture(scope="module")
def events() -> pa.Table:
    n = 240  # the times are apart, so that input order and contents tell the same
    types = [("A", "B", "B", "C", "D")[(i * i + i // 7) % 5] for i in range(n)]
    return pa.table(
        {
            "type": types,
            "ts": pa.array(range(0, 3 * n, 3)),
            "id": [i * 7 % 5 for i in range(n)],
            "x": [i * 37 % 101 for i in range(n)],
        }
    )


def test_a_batch_on_spark(spark: SparkSession, events: pa.Table) -> None:
    limited = {"limit": "SEQ(A a, B b) WITHIN 40 RETURN DISTINCT a.id AS a, b.id AS b LIMIT 7"}
    found = sqs.run(QUERIES | limited, spark.createDataFrame(events.to_pandas()))
    assert len(set(rows_of(found["limit"].toArrow())) & set(rows_of(found["distinct"].toArrow()))) == 7
    for name, query in QUERIES.items():
        assert rows_of(found[name].toArrow()) == rows_of(sq.run(query, events).table), name


END = pa.table({"type": ["End"], "ts": [100_000], "id": [0], "x": [0]})


def watched_in_pieces(
    spark: SparkSession, events: pa.Table, folder: Path, queries: dict[str, str], with_ids: bool
) -> dict[str, pa.Table]:
    """What a stream finds that comes in three pieces, of which the last is the end."""
    for number, piece in enumerate((events.slice(0, 100), events.slice(100), END)):
        add_file(folder, str(number), piece)
    stream = spark.readStream.schema("type string, ts long, id long, x long").option("maxFilesPerTrigger", 1)
    source = ingest.read_source(stream.parquet(str(folder / "in")), "type", "ts", "ms")
    plans = {name: ingest.plan_over(text, source) for name, text in queries.items()}
    watched = watch_stream(plans, source, "1 second", with_ids=with_ids)
    writer = watched.out.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
    writer.option("path", str(folder / "out")).trigger(availableNow=True).start().awaitTermination()
    out = spark.read.parquet(str(folder / "out")).cache()
    return {name: watched.matches(name, out).toArrow() for name in plans}


@pytest.mark.slow  # in the everyday run: the stream, above, and the same cut anywhere without Spark
def test_aggregates_of_what_is_thinned_out_in_a_stream_on_spark(spark: SparkSession, events: pa.Table, tmp_path: Path) -> None:
    base = "NEXT(A a, B b) SKIP PAST LAST WITHIN 40 AGG COUNT(*) AS n, SUM(b.x) AS s"
    emits = {"trigger": base, "every": f"{base} EMIT EVERY 50", "per": f"{base} EMIT PER 90"}
    found = watched_in_pieces(spark, events, tmp_path, emits, with_ids=False)
    for name, query in emits.items():  # the end itself is not decided, so nothing is due after the last of the events
        assert rows_of(found[name]) == rows_of(sq.run(query, events).table), name
        assert found[name].num_rows > 5, name


@pytest.mark.slow
def test_a_stream_on_spark(spark: SparkSession, events: pa.Table, tmp_path: Path) -> None:
    asked = {name: text for name, text in QUERIES.items() if name != "distinct"}
    for name, found in watched_in_pieces(spark, events, tmp_path, asked, with_ids=True).items():
        assert rows_of(found.drop_columns(["match_id"])) == rows_of(sq.run(QUERIES[name], events).table), name
        assert found.num_rows == len(set(found.column("match_id").to_pylist())) > 0, name


def test_sql(spark: SparkSession, events: pa.Table) -> None:
    sqs.register(spark)
    spark.createDataFrame(events.to_pandas()).createOrReplaceTempView("runs")
    for name in ("events", "strict", "skip", "order"):
        found = spark.sql(f"SELECT * FROM seqube(TABLE(runs), '{QUERIES[name]}')").toArrow()
        assert rows_of(found) == rows_of(sq.run(QUERIES[name], events).table), name
    tied = spark.createDataFrame([("A", 1, 5), ("B", 1, 7), ("B", 1, None), ("B", 2, 9)], "type string, ts long, x long")
    tied.createOrReplaceTempView("tied")
    with pytest.raises(Exception, match=r"LIMIT cannot be run in the SQL function yet\n  hint: ask SQL for it"):
        spark.sql("SELECT * FROM seqube(TABLE(runs), 'SEQ(A a, B b) WITHIN 40 LIMIT 7')")
    query = "STRICT(A a, B b) WITHIN 5 RETURN b.x AS x"  # of rows with equal times, their contents tell which is first
    assert spark.sql(f"SELECT * FROM seqube(TABLE(tied), '{query}')").collect() == sqs.run(query, tied).collect()


def test_columns_that_are_called_like_the_own_ones_of_events(spark: SparkSession, events: pa.Table) -> None:
    asked = """SEQ(A a, B b, ["type"]) WHERE a."ts" > 30 AND TYPE(b) != 'C' WITHIN 40"""
    query = f'{asked} RETURN TYPE(a), TIME(b), b."type" AS t, a."ts" AS x'
    given = events.rename_columns(["kind", "when", "type", "ts"])
    found = sqs.run(query, spark.createDataFrame(given.to_pandas()), type="kind", time="when").toArrow()
    assert rows_of(found) == rows_of(sq.run(query, given, type="kind", time="when").table)
    assert found.num_rows > 0


def test_a_stream_on_spark_refuses(spark: SparkSession, events: pa.Table, tmp_path: Path) -> None:
    spark.createDataFrame(events.to_pandas()).write.parquet(str(tmp_path / "events"))
    stream = spark.readStream.schema("type string, ts long, id long, x long").parquet(str(tmp_path / "events"))
    limited = "SEQ(A a, B b) WITHIN 40 LIMIT 7"
    refused = {"RETURN DISTINCT": QUERIES["distinct"], "LIMIT": limited}
    for what, query in refused.items():
        with pytest.raises(sq.PlanError, match=f"{what} cannot be run in a stream on Spark yet"):
            sqs.run(query, stream, lateness="1 s")
    with pytest.raises(sq.PlanError, match="a row of RETURN DISTINCT stands for many matches and has no id"):
        sqs.run(QUERIES["distinct"], spark.createDataFrame(events.to_pandas()), ids=True)


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"mode": "strict", "breakdown": "land"},
        {"mode": "any", "without": {2: "D"}},
        {"without": {3: "D"}, "breakdown": "land"},
    ],
)
def test_a_funnel_on_spark(spark: SparkSession, events: pa.Table, asked: dict[str, Any]) -> None:
    given = events.append_column("land", pa.array([None if i % 5 == 4 else "xy"[i % 2] for i in range(len(events))]))
    given = given.set_column(2, "id", pa.array([i * 7 % 23 for i in range(len(events))]))
    steps: dict[str, Any] = {"steps": ["A", "B", "C"], "by": "id", "within": 250, **asked}
    frame = spark.createDataFrame(given.to_pylist(), "type string, ts long, id long, x long, land string")
    assert sqs.funnel(frame, **steps).table.to_pylist() == sq.funnel(given, **steps).table.to_pylist()


def test_explain_says_how_they_are_split(spark: SparkSession, events: pa.Table) -> None:
    frame = spark.createDataFrame(events.to_pandas())
    assert "as a stream: RETURN DISTINCT cannot be run there yet" in str(sqs.explain(QUERIES["distinct"], frame))
    assert "because SKIP leaves out matches" in str(sqs.explain("SEQ(A a, B b) SKIP PAST LAST WITHIN 5", frame))
