"""Through Spark Connect, in a process and a server of its own: what Spark allows there works as it does without."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pipelines import PAIRS, write_pipeline

import seqube as sq
from seqube.generate import generate
from seqube.spark.streaming.declaration import read_declaration
from seqube.spark.streaming.pipeline import run_stream

PROGRAM = """
import os, sys
from pathlib import Path
from seqube.spark.java import find_java

os.environ["PYSPARK_PYTHON"] = sys.executable
os.environ["JAVA_HOME"] = str(find_java().path)
from pyspark.sql import SparkSession

settings = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
}
spark = SparkSession.builder.remote("local[2]").config(map=settings).getOrCreate()
assert "connect" in type(spark).__module__

import seqube as sq
import seqube.spark as sqs

folder = Path(sys.argv[1])
query = "SEQ(Recycle r, Wash w, [id]) WITHIN 30 min RETURN r.id AS x"
rule = sq.Rule("Recycle -> Wash", "Operate", "30 min", "60 min", 0.5)
table = sq.Events(str(folder / "in" / "1.parquet"))
n_matches, n_predictions = len(sq.run(query, table)), len(sq.forecast(rule, table))
frame = spark.read.parquet(str(folder / "in"))
assert sqs.run(query, frame).count() == n_matches > 0
assert sqs.run(query.replace(", [id]", ", r.id = w.id"), frame, slices=3).count() == n_matches
assert sqs.forecast(rule, frame).count() == n_predictions > 0
assert sqs.mine(frame, "5 min", 50, 0.1, max_events=2) == sq.mine(table, "5 min", 50, 0.1, max_events=2)
assert "split by a hash of id" in str(sqs.explain(query, frame))
frame.createOrReplaceTempView("tools")
sqs.register(spark)
assert spark.sql(f"SELECT * FROM seqube(TABLE(tools), '{query}')").count() == n_matches
stream = sqs.run(query, spark.readStream.schema(frame.schema).parquet(str(folder / "in")), lateness="1 minute")
writer = stream.writeStream.format("parquet").option("path", str(folder / "out")).option("checkpointLocation", str(folder / "c"))
writing = writer.trigger(availableNow=True).start()
writing.awaitTermination()
assert writing.exception() is None, writing.exception()
assert 0 < spark.read.parquet(str(folder / "out")).count() <= n_matches
spark.stop()
"""


def test_a_pipeline_says_that_it_cannot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Session:
        __module__ = "pyspark.sql.connect.session"

    (tmp_path / "in").mkdir()
    monkeypatch.setattr("seqube.spark.streaming.pipeline.session", Session)
    with pytest.raises(sq.PlanError, match="through Spark Connect a stream is written elsewhere"):
        run_stream(read_declaration(write_pipeline(tmp_path, {"pairs": PAIRS})))


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("grpc") is None, reason="Spark Connect needs grpcio, which is not installed")
def test_what_works_through_connect(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    pq.write_table(generate("hospital", 2_000, seed=1), tmp_path / "in" / "1.parquet")
    done = subprocess.run([sys.executable, "-c", PROGRAM, str(tmp_path)], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
