"""Limits on Spark: a task or a micro-batch that would use too much ends in the error it ends in elsewhere, and nothing is lost."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from pipelines import add_file, expected, results, write_pipeline
from watching import watch

import seqube as sq
import seqube.spark as sqs
from seqube.engine.limits import Limits
from seqube.spark.failures import read_failure, spark_errors
from seqube.spark.streaming.declaration import read_declaration
from seqube.spark.streaming.pipeline import run_once, run_stream
from seqube.spark.table_functions import _function
from seqube.spark.transport.blobs import write_blob

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

PAIRS = "SEQ(A a, B b) WITHIN 1000"
TOOLS = "SEQ(Recycle r, Wash w, [id]) WITHIN 30 min RETURN r.id AS tool, r.ts AS a, w.ts AS b"


def events(n: int, types: str = "AB") -> pa.Table:
    return pa.table({"type": [types[k % len(types)] for k in range(n)], "ts": np.arange(n), "x": np.arange(n) % 7})


@pytest.fixture(scope="module")
def frame(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(events(60))


@pytest.mark.parametrize("query", [PAIRS, f"PATTERN {PAIRS} AGG COUNT GROUP BY a.x"], ids=["matches", "aggregates"])
def test_rows_of_a_task(frame: DataFrame, query: str) -> None:
    from pyspark.errors import PySparkException

    with pytest.raises(PySparkException, match=r"LimitError: the query was stopped after 5 rows: it has more than 5 rows"):
        sqs.run(query, frame, max_matches=5, slices=1).collect()
    with (
        pytest.raises(sq.LimitError, match=r"^the query was stopped after 5 rows: .*\(max_matches\)\n  hint: .* allow more$"),
        spark_errors(None),
    ):
        sqs.run(query, frame, max_matches=5, slices=1).collect()
    whole = sq.run(query, events(60)).table.num_rows
    assert sqs.run(query, frame, max_matches=whole, slices=1).count() == whole


def test_memory_of_a_task(spark: SparkSession) -> None:
    """Instances of a sub-query are held; rows that are handed on are not."""
    many = spark.createDataFrame(events(3_000, "ABCD"))
    nested = "SEQ(A a, !SEQ(B b, C c, b.x * c.x = a.x), D d) WITHIN 100000"
    with pytest.raises(sq.LimitError, match=r"may hold 2,000,000 \(max_state_bytes\)"), spark_errors(None):
        sqs.run(nested, many, max_state_bytes=2_000_000, slices=1).count()
    assert sqs.run("SEQ(A a, B b) WITHIN 100000", many, max_state_bytes=2_000_000, slices=1).count() > 250_000


def test_time_of_a_task(spark: SparkSession) -> None:
    many = spark.createDataFrame(events(20_000, "ABC"))
    with pytest.raises(sq.LimitError, match=r"may take 0.2 s \(max_seconds\)"), spark_errors(None):
        sqs.run("SEQ(A a, B b, C c, a.ts + b.ts > c.ts * 5) WITHIN 100000", many, max_seconds=0.2, slices=1).count()


def test_forecasts_of_a_task(spark: SparkSession) -> None:
    rule = sq.Rule(predicate="A", consequent="B", within=5, horizon=10, probability=0.5)
    with pytest.raises(sq.LimitError, match=r"the forecast was stopped after 7 rows: .*\(max_matches\)"), spark_errors(None):
        sqs.forecast([rule], spark.createDataFrame(events(60)), max_matches=7, slices=1).count()


def test_sql_has_the_defaults(spark: SparkSession, frame: DataFrame) -> None:
    from pyspark.sql.types import StringType
    from pyspark.sql.udtf import AnalyzeArgument

    sqs.register(spark)
    frame.createOrReplaceTempView("limited")
    assert spark.sql(f"SELECT * FROM seqube(TABLE(limited), '{PAIRS}')").count() == 465
    table = AnalyzeArgument(frame.schema, None, isTable=True, isConstantExpression=False)
    planned = _function(True, case_sensitive=False, zone="UTC").analyze(
        table, AnalyzeArgument(StringType(), PAIRS, isTable=False, isConstantExpression=True)
    )
    assert planned.wanted.limits == Limits()


@pytest.mark.parametrize("wrong", [{"max_matches": -1}, {"max_state_bytes": 1.5}, {"max_seconds": "long"}])
def test_limits_that_are_none(frame: DataFrame, wrong: dict[str, Any]) -> None:
    with pytest.raises(sq.PlanError, match=next(iter(wrong))):
        sqs.run(PAIRS, frame, **wrong)


# ---------------------------------------------------------------- streams and pipelines


@pytest.mark.slow  # in the everyday run: the limits of tasks, above
def test_a_stream_goes_on_where_a_limit_stopped_it(spark: SparkSession, tmp_path: Path, day: pa.Table) -> None:
    n = day.num_rows
    add_file(tmp_path, "1", day.slice(0, n // 2))
    add_file(tmp_path, "2", day.slice(n // 2))
    file = write_pipeline(tmp_path, {"pairs": TOOLS}, limits={"max_matches": 2})
    with pytest.raises(
        sq.LimitError, match=r"^the query was stopped after 2 rows: it has more than 2 rows \(max_matches\)\n  hint"
    ):
        run_stream(read_declaration(file))
    run_stream(read_declaration(write_pipeline(tmp_path, {"pairs": TOOLS}, limits={"max_matches": None})))
    assert results(tmp_path, "pairs") == expected(day, TOOLS)


def test_a_pipeline_once(spark: SparkSession, tmp_path: Path, day: pa.Table) -> None:
    add_file(tmp_path, "1", day)
    file = write_pipeline(tmp_path, {"pairs": TOOLS}, limits={"max_matches": 2, "max_seconds": 100})
    with pytest.raises(sq.LimitError, match="max_matches"):
        run_once(read_declaration(file))
    assert not (tmp_path / "out" / "matches").exists()


def test_what_a_bucket_holds_between_micro_batches() -> None:
    table = events(4_000)
    watched = watch("SEQ(A a, B b, [x]) WITHIN 100000", table)
    limited = replace(watched, wanted=replace(watched.wanted, limits=Limits(max_state_bytes=10_000)))
    blob = write_blob(table.append_column("#key", pa.array(np.zeros(4_000), pa.int32())))
    assert watched.take(None, [blob], -1, {}).held is not None
    with pytest.raises(sq.LimitError, match=r"it needs \d+,\d+ bytes at once and may hold 10,000 \(max_state_bytes\)"):
        limited.take(None, [blob], -1, {})
    assert limited.fingerprint == watched.fingerprint  # with other limits, the state goes on


def test_limits_of_a_pipeline_file(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    file = write_pipeline(tmp_path, {"q": PAIRS}, limits={"max_matches": 10, "max_seconds": None})
    assert read_declaration(file).limits == replace(Limits(), max_matches=10, max_seconds=None)
    assert read_declaration(write_pipeline(tmp_path, {"q": PAIRS})).limits == Limits()
    wrong = {"max_matches": -1, "max_seconds": "long", "max_rows": 3}
    with pytest.raises(sq.SchemaError) as caught:
        read_declaration(write_pipeline(tmp_path, {"q": PAIRS}, limits=wrong))
    for said in ("max_matches is a number", "max_seconds is a number", "unknown key 'max_rows'"):
        assert said in str(caught.value)
    with pytest.raises(sq.SchemaError, match="'limits' is a mapping"):
        read_declaration(write_pipeline(tmp_path, {"q": PAIRS}, limits=[1]))


@pytest.mark.parametrize("kind", [sq.DataError, sq.LimitError, sq.PlanError, sq.SchemaError])
def test_what_a_task_said_is_said_again(kind: type[sq.SequbeError]) -> None:
    ours = f"{kind.__module__}.{kind.__name__}: one\n  hint: two"
    java = f"Job aborted: Traceback (most recent call last):\n  File x\n{ours}\n\n\tat org.apache"
    found = read_failure(java, None)
    assert type(found) is kind
    assert str(found) == "one\n  hint: two"
