"""A pipeline file that is edited while its stream runs, without Spark: what changed, what is refused, and when it is read."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest
from pipelines import FREE, PAIRS, add_file, write_pipeline

import seqube as sq
from seqube.spark.streaming.changes import FileWatch, WorkloadChange
from seqube.spark.streaming.declaration import Declaration, read_declaration

RULE = {"name": "r", "predicate": "A -> B", "consequent": "C", "within": "10 s", "horizon": "20 s", "probability": 0.5}
SINKS = {"sinks": {"matches": "out/matches", "forecasts": "out/forecasts"}}


def any_may_run(declared: Declaration) -> None:
    pass


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    add_file(tmp_path, "1", pa.table({"type": ["A"], "ts": [1]}))
    return tmp_path


def watch(folder: Path) -> FileWatch:
    watching = FileWatch(read_declaration(folder / "pipeline.yaml"), any_may_run)
    assert watching.look() is None
    return watching


def rested(watching: FileWatch) -> tuple[Declaration, WorkloadChange] | None:
    """What a look says after one that saw a file being written."""
    assert watching.look() is None
    return watching.look()


def test_what_changed_is_told_once(folder: Path) -> None:
    write_pipeline(folder, {"pairs": PAIRS, "free": FREE, "gone": PAIRS}, rules=[RULE], **SINKS)
    watching = watch(folder)
    queries = {"pairs": PAIRS, "free": FREE.replace("2 min", "1 min"), "new": PAIRS}
    write_pipeline(folder, queries, rules=[{**RULE, "probability": 0.75}, {**RULE, "name": "s"}], **SINKS)
    found = rested(watching)
    assert found is not None
    declared, change = found
    assert (str(change), list(declared.queries)) == ("added: new; replaced: free; removed: gone; rules: r, s", list(queries))
    assert watching.look() is None


def test_a_wrong_file_changes_nothing_and_says_why(folder: Path) -> None:
    write_pipeline(folder, {"pairs": PAIRS})
    watching = watch(folder)
    write_pipeline(folder, {"pairs": PAIRS, "wrong": "SEQ(A a, B b, a.x = c.x) WITHIN 5 s"})
    found = rested(watching)
    assert found is not None
    declared, change = found
    assert list(declared.queries) == ["pairs"]
    assert change.refused is not None
    assert "there is no variable 'c'" in change.refused
    assert watching.look() is None
    write_pipeline(folder, {"pairs": PAIRS})  # repaired: as it was
    assert rested(watching) is None


def test_what_a_stream_stands_on_cannot_change(folder: Path) -> None:
    write_pipeline(folder, {"pairs": PAIRS})
    watching = watch(folder)
    write_pipeline(folder, {"pairs": PAIRS, "more": PAIRS}, sinks={"matches": "elsewhere"})
    found = rested(watching)
    assert found is not None
    assert str(found[1]) == "refused: sinks cannot change while the stream runs; start it again"


def test_what_cannot_run_is_refused(folder: Path) -> None:
    def refuse(declared: Declaration) -> None:
        raise sq.QueryError(sq.errors.Problem("the events have no column 'price'"))

    write_pipeline(folder, {"pairs": PAIRS})
    watching = FileWatch(read_declaration(folder / "pipeline.yaml"), refuse)
    write_pipeline(folder, {"more": PAIRS})
    found = rested(watching)
    assert found is not None
    assert str(found[1]) == "refused: the events have no column 'price'"


def test_files_that_are_named_are_looked_at_and_other_writing_is_not_told(folder: Path) -> None:
    (folder / "care.sqb").write_text(f"-- name: pairs\n{PAIRS}\n")
    write_pipeline(folder, "care.sqb")  # type: ignore[arg-type]
    watching = watch(folder)
    (folder / "care.sqb").write_text(f"-- name: pairs\n{PAIRS}\n-- name: free\n{FREE}\n")
    found = rested(watching)
    assert found is not None
    assert str(found[1]) == "added: free"
    (folder / "care.sqb").write_text(f"-- name: free\n{FREE}\n-- a comment\n-- name: pairs\n{PAIRS}\n")
    assert rested(watching) is None


def test_a_file_that_is_being_written_is_not_read(folder: Path) -> None:
    file = write_pipeline(folder, {"pairs": PAIRS})
    watching = watch(folder)
    for number in range(3):
        file.write_text("source: {")
        os.utime(file, (number, number))
        assert watching.look() is None
    file.unlink()
    assert watching.look() is None
    write_pipeline(folder, {"free": FREE})
    found = rested(watching)
    assert found is not None
    assert str(found[1]) == "added: free; removed: pairs"
