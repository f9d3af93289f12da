"""Spark's errors in the user's words: the one line that says what happened, and what to do about it.

Spark reports a broken file, a full disk or a type that does not fit as a page of Java, in one of several kinds of exception. What
is known to happen to people is told by its sign; of anything else the last line that says something is kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from seqube.errors import DataError, LimitError, PlanError, SchemaError, SequbeError

_KNOWN = (
    ("PATH_NOT_FOUND", "there is no {path}", "check the path of the source"),
    ("UNABLE_TO_INFER_SCHEMA", "there are no events in {path} yet, and the columns are not declared", "declare them under schema"),
    ("No space left on device", "a sink or the checkpoint has no space left", "make room, and start again where it stopped"),
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
)


_OURS = {kind.__name__: kind for kind in (DataError, LimitError, PlanError, SchemaError)}
_SAID = re.compile(rf"\bseqube\.errors\.({'|'.join(_OURS)}): (.+(?:\n  hint: .+)?)")


@contextmanager
def spark_errors(path: str | None) -> Iterator[None]:
    """Errors of Spark, and of what is read and written beside it, are errors of the data in `path`; those of a task stay as is."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JJavaError, OSError) as error:
        raise read_failure(str(error), path) from error


def read_failure(message: str, path: str | None) -> SequbeError:
    said = _SAID.search(message)
    return _OURS[said[1]](said[2]) if said else DataError(explain_failure(message, path))


def explain_failure(message: str, path: str | None) -> str:
    for sign, words, hint in _KNOWN:
        if sign in message:
            line = next((line.strip() for line in message.splitlines() if sign in line), "")
            return f"{words.format(path=path, line=line[:300])}\n  hint: {hint}"
    inner = [line.strip() for line in message.splitlines() if "Error: " in line or "[" in line]
    return (inner[-1] if inner else message.splitlines()[0])[:600]
