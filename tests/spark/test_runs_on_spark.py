"""Repetition, NEXT, STRICT, SKIP and KEEP PARTIAL over a batch on Spark: what they are here; a stream refuses them by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from tables import rows_of

import seqube as sq
import seqube.spark as sqs

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

QUERIES = {
    "lists": "SEQ(A a, B+ b, C? c, [id]) WHERE b.x > PREV(b.x) WITHIN 30 RETURN a.id, b.x AS xs, COUNT(b) AS n, c.x AS c",
    "events": "NEXT(A a, B{1,2} b, C c) PARTITION BY id WITHIN 60",
    "strict": "STRICT(A a, OR(B b, C c)) WITHIN 60 RETURN a.x AS a, b.x AS b, c.x AS c",
    "skip": "SEQ(A a, B b) PARTITION BY id SKIP PAST LAST WITHIN 40 RETURN a.x AS a, b.x AS b",
    "partial": "NEXT(A a, !D d, B b, C c) PARTITION BY id KEEP PARTIAL WITHIN 40 RETURN id, a.x AS a, c.x AS c",
    "waits": "NEXT(A a, B* b) PARTITION BY id WITHIN 25 RETURN a.x AS a, b.x AS xs",
    "order": "SEQ(A a, B b) ORDER BY x WITHIN 5 RETURN a.x AS a, b.x AS b",
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
    found = sqs.run(QUERIES, spark.createDataFrame(events.to_pandas()))
    for name, query in QUERIES.items():
        assert rows_of(found[name].toArrow()) == rows_of(sq.run(query, events).table), name


def test_a_stream_on_spark_refuses(spark: SparkSession, events: pa.Table, tmp_path: Path) -> None:
    spark.createDataFrame(events.to_pandas()).write.parquet(str(tmp_path / "events"))
    stream = spark.readStream.schema("type string, ts long, id long, x long").parquet(str(tmp_path / "events"))
    with pytest.raises(sq.PlanError, match="NEXT and STRICT cannot be run in a stream on Spark yet"):
        sqs.run(QUERIES["events"], stream, lateness="1 s")


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
