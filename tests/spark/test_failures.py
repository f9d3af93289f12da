"""What Spark says when it fails, in one line and a hint."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import seqube as sq
from seqube.spark.failures import explain_failure, innermost, spark_errors

JAVA = """An error occurred while calling o398.load.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 1.0 failed
\tat org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:1)
== Physical Plan ==
*(1) Project [id#1, ts#2]
Caused by: java.lang.RuntimeException: something around it
\tat java.base/java.lang.Thread.run(Thread.java:1)
Caused by: java.net.ConnectException: Connection refused
\t... 12 more
"""
PYTHON = """[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Job aborted
Caused by: org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "worker.py", line 1, in main
    process()
ZeroDivisionError: division by zero

\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:1)
"""


def test_the_innermost_cause_is_told_and_all_of_it_kept() -> None:
    told = explain_failure(JAVA, None)
    assert told.startswith("ConnectException: Connection refused (all that Spark said: ")
    kept = re.search(r"said: (.+?)\)", told)
    assert kept is not None
    assert Path(kept[1]).read_text() == JAVA
    assert Path(kept[1]).stat().st_mode & 0o077 == 0
    Path(kept[1]).unlink()


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (PYTHON, "ZeroDivisionError: division by zero"),
        ("An error occurred while calling o1.load.\n: java.io.IOException: gone\n\tat x", "IOException: gone"),
        ("[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: no more", "no more"),
        ("something", "something"),
    ],
)
def test_whatever_says_why_is_told(said: str, told: str) -> None:
    assert innermost(said) == told


@pytest.mark.parametrize(
    ("sign", "hint"),
    [
        (
            "Failed to find the data source: kafka. Make sure",
            r"spark\.jars\.packages=org\.apache\.spark:spark-sql-kafka-0-10_2\.13:4\.3",
        ),
        ("Failed to find the data source: delta. Make sure", r"io\.delta:delta-spark_2\.13"),
        ("Python worker failed to connect back.", "PYSPARK_PYTHON.*SPARK_LOCAL_IP"),
        ("[AMBIGUOUS_REFERENCE] Reference `id` is ambiguous, could be: [`id`, `ID`].", r"spark\.sql\.caseSensitive=true"),
        ("java.lang.OutOfMemoryError: Java heap space", r"spark\.driver\.memory"),
        ("java.io.IOException: No space left on device", "make room"),
        ("java.io.FileNotFoundException: /x (Permission denied)", "give this user the right"),
        ("java.sql.SQLException: No suitable driver", r"org\.postgresql:postgresql"),
    ],
)
def test_what_is_known_to_happen_comes_with_something_to_do(sign: str, hint: str) -> None:
    assert re.search(rf"\n  hint: .*{hint}", explain_failure(sign, "in"))


def test_causes_that_only_java_knows_are_asked_for(tmp_path: Path) -> None:
    from pyspark.errors import PySparkException

    class Cause:
        def __init__(self, text: str, inner: Cause | None) -> None:
            self.text, self.inner = text, inner

        def getCause(self) -> Cause | None:  # noqa: N802
            return self.inner

        def toString(self) -> str:  # noqa: N802
            return self.text

    error = PySparkException("Job aborted")
    error._origin = Cause("outer", Cause("java.lang.RuntimeException: between", Cause("java.io.IOException: the disk", None)))  # type: ignore[attr-defined]
    with pytest.raises(sq.DataError, match=r"^IOException: the disk \(all that Spark said"), spark_errors(None):
        raise error
