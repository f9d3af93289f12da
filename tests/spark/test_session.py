"""A session of ours: what the user has set stays, wherever it was set."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
import pytest

import seqube as sq
import seqube.spark as sqs
from seqube.spark.session import _JAVA_SETTINGS, _defaults, described, users_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_what_the_user_has_set_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "spark-defaults.conf").write_text(
        "# spark.none 1\nspark.master   spark://file:7077\nspark.a=1\n  spark.b : 2 \nspark.c\t3 4\nother.d 5\n"
    )
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    found = {"spark.master": "spark://file:7077", "spark.a": "1", "spark.b": "2", "spark.c": "3 4"}
    assert users_settings() == found
    monkeypatch.setenv(
        "PYSPARK_SUBMIT_ARGS",
        "--master spark://h:7077 --conf spark.a=9 -c 'spark.e=x y' --driver-memory=5g --verbose --archives e.zip#e pyspark-shell",
    )
    more = {
        "spark.master": "spark://h:7077",
        "spark.a": "9",
        "spark.e": "x y",
        "spark.driver.memory": "5g",
        "spark.archives": "e.zip#e",
    }
    assert users_settings() == {**found, **more}
    monkeypatch.delenv("SPARK_CONF_DIR")
    monkeypatch.delenv("SPARK_HOME", raising=False)
    assert users_settings() == more


def test_settings_that_come_too_late_are_told(spark: SparkSession) -> None:
    with pytest.warns(sq.SequbeWarning, match=r"runs already, with another spark\.driver\.memory than"):
        assert sqs.session(**{"spark.driver.memory": "77g"}) is not None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert sqs.session(**{"spark.sql.shuffle.partitions": 3}).conf.get("spark.ui.enabled") == "false"  # of spark-defaults.conf


def test_a_local_session_collects_garbage_beside_its_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    def options(**chosen: str) -> str:
        return str(_defaults({f"spark.{name}": value for name, value in chosen.items()})["spark.driver.extraJavaOptions"])

    for name in _JAVA_SETTINGS:
        monkeypatch.delenv(name, raising=False)
    assert "-XX:+UseParallelGC" in options()
    assert "GC" not in options(master="spark://host:7077")
    # A JVM that is told of two does not start.
    assert "GC" not in options(**{"driver.defaultJavaOptions": "-XX:+UseSerialGC"})
    monkeypatch.setenv("JDK_JAVA_OPTIONS", "-XX:+UseZGC")
    assert "GC" not in options()


def test_jobs_are_called_by_what_they_do(spark: SparkSession) -> None:
    context = spark.sparkContext
    with described(spark, "outer"):
        with described(spark, "inner"):
            assert context.getLocalProperty("spark.job.description") == "inner"
        assert context.getLocalProperty("spark.job.description") == "outer"
    assert context.getLocalProperty("spark.job.description") is None


def test_files_of_a_checkpoint_are_written_whole_and_leave_nothing(spark: SparkSession, tmp_path: Path) -> None:
    """No sum stands beside a file: it would be that of the bytes before, if a kill came between the two."""
    jvm = spark._jvm
    assert jvm is not None
    path = jvm.org.apache.hadoop.fs.Path
    settings = spark._jsparkSession.sessionState().newHadoopConf()
    managers = jvm.org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
    manager = managers.create(path(tmp_path.as_uri()), settings)
    for text in ("once", "again"):
        out = manager.createAtomic(path((tmp_path / "0").as_uri()), True)
        out.write(text.encode())
        assert (tmp_path / "0").exists() == (text == "again")
        out.close()
        assert {file.name: file.read_text() for file in tmp_path.iterdir()} == {"0": text}


@pytest.mark.slow
def test_under_spark_submit_its_arguments_hold(tmp_path: Path) -> None:
    job = tmp_path / "job.py"
    job.write_text(
        textwrap.dedent("""
        import seqube.spark as sqs
        spark = sqs.session()
        names = ("master", "sql.shuffle.partitions", "app.name", "sql.session.timeZone", "driver.memory")
        print("RESULT", [spark.conf.get(f"spark.{name}") for name in names])
        spark.stop()
        """)
    )
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    options = ["--master", "local[3]", "--conf", "spark.sql.shuffle.partitions=7", "--name", "mine", "--driver-memory", "700m"]
    done = subprocess.run(
        [str(submit), *options, str(job)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYSPARK_PYTHON": sys.executable},
        timeout=240,
    )
    assert "RESULT ['local[3]', '7', 'mine', 'UTC', '700m']" in done.stdout, done.stderr[-2000:]
