"""What explain says of Spark: how a query is split, what that means for scale, and what the files are asked for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

import seqube.spark as sqs
from seqube.generate import generate

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

KEYED = "SEQ(Recycle r, Wash w, [id]) WHERE r.weight > 3 WITHIN 30 min RETURN r.id AS x"
FREE = "SEQ(Check c, !Wash w) WITHIN 2 min"


@pytest.fixture(scope="module")
def tools(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tools") / "1.parquet"
    pq.write_table(generate("hospital", 100, seed=1), path)
    return path.parent


def explained(query: str, frame: DataFrame) -> str:
    return str(sqs.explain(query, frame))


def test_a_batch(spark: SparkSession, tools: Path) -> None:
    frame = spark.read.parquet(str(tools))
    keyed, free = explained(KEYED, frame), explained(FREE, frame)
    assert "split by a hash of id" in keyed
    assert "a key too large for one task is cut by time" in keyed
    assert "columns that travel: 4 of 8" in keyed
    asked = next(line for line in keyed.splitlines() if "the files are asked for" in line)
    assert "In(type, [Recycle,Wash])" in asked
    assert "cut by time" in free
    assert "the events of 2 min before it, and 2 min after it" in free
    assert "as a stream: state in one bucket" in free
    assert "not split: one task" in explained("SEQ(Check c) AGG COUNT(*) WITHIN 5 EVENTS", frame)
    assert "a slice has the rows that are due in it, and the events of 5 min before" in explained(
        "SEQ(Check c) AGG COUNT(*) WITHIN 5 min", frame
    )
    assert "a slice has its share of the totals" in explained("SEQ(Check c) AGG COUNT(*) WITHIN 5 min EMIT TOTAL", frame)
    assert "numbered over the whole input" in explained("SEQ(Check c, Wash w) WITHIN 5 EVENTS", frame)
    assert "query b" in str(sqs.explain({"a": KEYED, "b": FREE}, frame))


def test_a_stream(spark: SparkSession, tools: Path) -> None:
    frame = spark.readStream.schema(spark.read.parquet(str(tools)).schema).parquet(str(tools))
    assert "state in 16 buckets by a hash of id" in explained(KEYED, frame)
    free = explained(FREE, frame)
    assert "one task does all of its work, whatever the number of machines" in free
    assert "hint: a key" in free


def test_who_decides_where_several_strategies_apply(spark: SparkSession, tools: Path) -> None:
    counting = "SEQ(Check c, Wash w) AGG COUNT(*) WITHIN 5 min"
    frame = spark.read.parquet(str(tools))
    assert "one event in 100 is looked at when it is run" in explained(counting, frame)
    assert "looked at" not in explained(KEYED, frame)
    assert "looked at" not in str(sqs.explain(counting, frame, strategy="two-step"))
    stream = spark.readStream.schema(frame.schema).parquet(str(tools))
    assert "taken where nothing is known of the events" in explained(counting, stream)
