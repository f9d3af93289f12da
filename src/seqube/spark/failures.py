"""Spark's errors in the user's words: the one line that says what happened, and what to do about it.

Spark reports a broken file, a full disk or a type that does not fit as a page of Java, in one of several kinds of exception. What
is known to happen to people is told by its sign; of anything else the innermost cause is told, which is the last one in the text.
All that Spark said is kept in a file that the message names, where it is more than the message.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from seqube.errors import DataError, LimitError, PlanError, SchemaError, SequbeError

_RIGHTS = "give this user the right to, or name another place"
_KNOWN = (  # a sign, what it means, what to do; {line} is the line that the sign stands in
    ("PATH_NOT_FOUND", "there is no {path}", "check the path of the source"),
    ("UNABLE_TO_INFER_SCHEMA", "there are no events in {path} yet, and the columns are not declared", "declare them under schema"),
    ("No space left on device", "a sink or the checkpoint has no space left", "make room, and start again where it stopped"),
    ("Disk quota exceeded", "a sink or the checkpoint has no space left", "make room, and start again where it stopped"),
    (
        "CANNOT_MERGE",
        "the columns of its files do not fit together: {line}",
        "a column has one type in all files; convert the others",
    ),
    ("FAILED_READ_FILE", "a file of the source cannot be read: {line}", "repair or remove it and start again: nothing is lost"),
    (
        "MALFORMED_RECORD",
        "a record of the source cannot be read: {line}",
        "declare all columns with types, and it is rejected",
    ),
    ("STATE_STORE", "the state in the checkpoint cannot be continued: {line}", "keep a checkpoint with the version that wrote it"),
    (
        "failed to connect back",
        "a Python worker did not start, or could not reach Spark",
        "PYSPARK_PYTHON names a Python with Seqube on every machine; behind a VPN or a firewall, set SPARK_LOCAL_IP=127.0.0.1",
    ),
    (
        "No module named 'seqube'",
        "the Python of Spark's workers has no Seqube",
        "PYSPARK_PYTHON names one that has it on every machine, or send it along: --py-files seqube.zip",
    ),
    (
        "AMBIGUOUS_REFERENCE",
        "two columns have the same name: {line}",
        "rename one; where upper and lower case tell them apart, --conf spark.sql.caseSensitive=true",
    ),
    (
        "COLUMN_ALREADY_EXISTS",
        "two columns have the same name: {line}",
        "rename one; where upper and lower case tell them apart, --conf spark.sql.caseSensitive=true",
    ),
    (
        "OutOfMemoryError",
        "Spark has no memory left: {line}",
        "--conf spark.driver.memory=8g, on a cluster spark.executor.memory, or smaller micro-batches (options of the source)",
    ),
    (
        "exit code 137",
        "the machine stopped a process of Spark, mostly because memory ran out",
        "give executors less to do at once, or more memory: --conf spark.executor.memory=8g",
    ),
    ("No suitable driver", "Spark has no driver for this database", "--conf spark.jars.packages=org.postgresql:postgresql:42.7.4"),
    ("Permission denied", "a file or folder may not be read or written: {line}", _RIGHTS),
    ("AccessControlException", "a file or folder may not be read or written: {line}", _RIGHTS),
)  # fmt: skip

# Connectors that Spark does not bring along, by the name of their format; {version} is that of PySpark.
_PACKAGES = {
    "kafka": "org.apache.spark:spark-sql-kafka-0-10_2.13:{version}",
    "avro": "org.apache.spark:spark-avro_2.13:{version}",
    "delta": "io.delta:delta-spark_2.13:VERSION",
    "iceberg": "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:VERSION",
}
_NO_FORMAT = re.compile(r"(?:Failed to find (?:the )?data source: |to find data source: )([\w.-]+)")

_OURS = {kind.__name__: kind for kind in (DataError, LimitError, PlanError, SchemaError)}
_SAID = re.compile(rf"\bseqube\.errors\.({'|'.join(_OURS)}): (.+(?:\n  hint: .+)?)")
_LONGEST = 600
_DEEPEST = 50  # causes of causes
_CLASS = re.compile(r"^(?:[a-z_]\w*\.)+(?=[A-Z]\w*(?:Exception|Error))")  # the packages of a class of Java
_STREAM = re.compile(r"^\[STREAM_FAILED\].*?terminated with exception: ")


@contextmanager
def spark_errors(path: str | None) -> Iterator[None]:
    """Errors of Spark, and of what is read and written beside it, are errors of the data in `path`; those of a task stay as is."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JJavaError, OSError) as error:
        raise read_failure(text_of(error), path) from error


def text_of(error: Exception) -> str:
    """All that an error says, with the causes in Java that Python's own text leaves out."""
    lines, java = [str(error)], getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    try:
        while java is not None and (java := java.getCause()) is not None and len(lines) < _DEEPEST:
            lines.append(f"Caused by: {java.toString()}")
    except Exception:  # noqa: BLE001 - the JVM may be what has died
        lines.append("(Spark cannot be asked for the causes any more)")
    return "\n".join(dict.fromkeys(lines))


def read_failure(message: str, path: str | None) -> SequbeError:
    said = _SAID.search(message)
    return _OURS[said[1]](said[2]) if said else DataError(explain_failure(message, path))


def explain_failure(message: str, path: str | None) -> str:
    """What happened and what to do, in two lines; and where all of it can be read."""
    what, hint = _in_our_words(message, path)
    kept = _keep(message) if len(message.splitlines()) > 2 else None
    if kept is not None:
        what = f"{what} (all that Spark said: {kept})"
    return f"{what}\n  hint: {hint}" if hint else what


def _in_our_words(message: str, path: str | None) -> tuple[str, str | None]:
    missing = _NO_FORMAT.search(message)
    lacking = "avro" if "AVRO_NOT_LOADED" in message else missing and missing[1].rstrip(".")
    if lacking:
        from importlib.metadata import version

        package = _PACKAGES.get(lacking, "GROUP:ARTIFACT:VERSION").format(version=version("pyspark"))
        return f"Spark has no connector for {lacking!r}", f"--conf spark.jars.packages={package}"
    for sign, words, hint in _KNOWN:
        if sign in message:
            line = next((line.strip() for line in message.splitlines() if sign in line), "")
            return words.format(path=path, line=line[:300]), hint
    return innermost(message)[:_LONGEST], None


def innermost(message: str) -> str:
    """The cause that all others were caused by: the last one that is named, and of a Python traceback its last line."""
    lines = message.strip().splitlines()
    causes = [number for number, line in enumerate(lines) if line.strip().startswith("Caused by: ")]
    start = causes[-1] if causes else 0
    tracebacks = [number for number, line in enumerate(lines) if number >= start and "Traceback (most recent call last)" in line]
    if tracebacks:
        raised = [line for line in lines[tracebacks[-1] + 1 :] if re.match(r"[\w.]+(?:: |$)", line) and not line.startswith("at ")]
        if raised:
            return raised[0].strip()
    if causes:
        return _CLASS.sub("", lines[start].strip().removeprefix("Caused by: "))
    # "An error occurred while calling o398.load." says nothing; what follows its colon does.
    told = next((line[2:] for line in lines if line.startswith(": ")), lines[0] if lines else "Spark gave no reason")
    return _STREAM.sub("", _CLASS.sub("", told.strip()))


def _keep(text: str) -> str | None:
    """The file that a text is kept in, for its owner alone; None where there is no place for one."""
    try:
        with tempfile.NamedTemporaryFile("w", prefix="seqube-spark-", suffix=".txt", delete=False, encoding="utf-8") as file:
            file.write(text)
    except OSError:
        return None
    return file.name
