"""Where the rows of a pipeline go: the declared format and the declared place, or an error; never something else in silence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pipelines import PAIRS, add_file, expected, write_pipeline

import seqube as sq
from seqube.spark.streaming.declaration import read_declaration
from seqube.spark.streaming.pipeline import run_once, run_stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def matches_of(value: Any) -> dict[str, int]:
    """The matches by query, which CSV has as a text, and JSON, where Spark guesses its columns, as a row."""
    return json.loads(value) if isinstance(value, str) else value if isinstance(value, dict) else value.asDict()


@pytest.mark.parametrize("kind", ["parquet", "json", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("orc", "csv"))])
def test_metrics_honour_their_format(spark: SparkSession, tmp_path: Path, day: pa.Table, kind: str) -> None:
    add_file(tmp_path, "1", day)
    sinks = {"matches": "out/matches", "metrics": {"path": "out/metrics", "format": kind}}
    counts = run_once(read_declaration(write_pipeline(tmp_path, {"pairs": PAIRS}, sinks=sinks)))
    written = {path.suffix[1:] for path in (tmp_path / "out/metrics").rglob("[!._]*") if path.is_file()}
    assert written == {kind}
    (row,) = spark.read.options(header="true").format(kind).load(str(tmp_path / "out/metrics")).collect()
    assert (int(row.read), int(row.used), row.batch) == (day.num_rows, counts.used, "once")
    assert matches_of(row.matches) == counts.matches == {"pairs": sum(expected(day, PAIRS).values())}


@pytest.mark.slow  # in the everyday run: the URL, and metrics of batches
def test_metrics_of_a_stream_in_columns(spark: SparkSession, tmp_path: Path, day: pa.Table) -> None:
    """A row for every micro-batch, also where it is written a second time."""
    add_file(tmp_path, "1", day.slice(0, 500))
    add_file(tmp_path, "2", day.slice(500))
    sinks = {"matches": "out/matches", "metrics": {"path": "out/metrics", "format": "parquet"}}
    total = run_stream(read_declaration(write_pipeline(tmp_path, {"pairs": PAIRS}, sinks=sinks)))
    rows = spark.read.parquet(str(tmp_path / "out/metrics")).orderBy("batch").collect()
    assert [row.batch for row in rows] == list(range(len(rows)))
    assert sum(row.read for row in rows) == total.read == day.num_rows
    assert sum(row.matches["pairs"] for row in rows) == (total.matches or {})["pairs"] > 0
    assert rows[-1].state_rows == 0


@pytest.mark.slow
def test_a_url_is_written_where_it_points(
    spark: SparkSession, tmp_path: Path, day: pa.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Through Spark's file systems, and the results that are there are seen through them, too."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    add_file(tmp_path, "1", day)
    sinks = {name: f"file://{tmp_path}/out/{name}" for name in ("matches", "quarantine", "late", "metrics")}
    file = write_pipeline(tmp_path, {"pairs": PAIRS}, sinks=sinks)
    counts = run_stream(read_declaration(file))
    assert not list((tmp_path / "here").iterdir())
    metrics = spark.read.json(f"{tmp_path}/out/metrics").collect()
    assert sum(row.read for row in metrics) == counts.read == day.num_rows
    assert spark.read.parquet(f"{tmp_path}/out/matches/pairs").count() == sum(expected(day, PAIRS).values())
    with pytest.raises(sq.DataError, match=r"out/matches/pairs holds the results of a stream"):
        run_once(read_declaration(file))
    again = write_pipeline(tmp_path, {"pairs": PAIRS}, sinks={name: f"file://{tmp_path}/once/{name}" for name in sinks})
    assert run_once(read_declaration(again)).matches == run_once(read_declaration(again)).matches == counts.matches


def test_file_systems_that_spark_does_not_know(spark: SparkSession, tmp_path: Path, day: pa.Table) -> None:
    """Refused before a row is read, with the name of the sink."""
    add_file(tmp_path, "1", day)
    sinks = {"matches": "out/matches", "metrics": "nowhere://bucket/metrics"}
    declared = read_declaration(write_pipeline(tmp_path, {"pairs": PAIRS}, sinks=sinks))
    for run in (run_once, run_stream):
        with pytest.raises(sq.DataError, match=r"the sink 'metrics'.*nowhere://bucket/metrics.*no file system"):
            run(declared)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "place", ["hdfs:///matches", "s3a://bucket/matches", "file:///tmp/matches", "abfss://box@host.net/matches"]
)
def test_urls_stay_as_they_are_written(tmp_path: Path, place: str) -> None:
    (tmp_path / "in").mkdir()
    declared = read_declaration(write_pipeline(tmp_path, {"pairs": PAIRS}, sinks={"matches": place, "late": "./a:b"}))
    assert (declared.sinks["matches"].path, declared.sinks["late"].path) == (place, str(tmp_path / "a:b"))


@pytest.mark.parametrize("place", ["s3:/bucket/matches", "s3a:bucket", "file:/tmp/matches", "://matches"])
def test_what_is_neither_a_path_nor_a_url(tmp_path: Path, place: str) -> None:
    (tmp_path / "in").mkdir()
    with pytest.raises(sq.SchemaError, match=r"is neither a path nor a URL \(line 1, column") as caught:
        read_declaration(write_pipeline(tmp_path, {"pairs": PAIRS}, sinks={"matches": place}))
    assert "hint: a URL begins like" in str(caught.value)
