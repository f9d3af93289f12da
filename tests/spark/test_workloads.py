"""Workloads that change while a stream runs: the log that all tasks read, what a worker makes of it, and an edited stream."""

from __future__ import annotations

import json
import threading
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pipelines import add_file

import seqube as sq
import seqube.spark as sqs
from seqube.engine.limits import NO_LIMITS
from seqube.events.schema import Schema
from seqube.language import parse
from seqube.spark.streaming import workloads
from seqube.spark.streaming.workloads import ChangingWatches, WorkloadLog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAIRS = "SEQ(A a, B b, [id]) WITHIN 10 s RETURN b.ts - a.ts AS lag"
COLUMNS = pa.schema([("type", pa.string()), ("ts", pa.int64()), ("id", pa.int64())])


# ---------------------------------------------------------------- the log


def test_every_task_of_a_micro_batch_sees_one_entry(tmp_path: Path) -> None:
    log = WorkloadLog(tmp_path)
    log.append({"p": (PAIRS, 0, True)})
    assert log.of_batch(5) == 0
    log.append({"p": (PAIRS, 0, True), "q": (PAIRS, 1, False)})
    assert [log.of_batch(batch) for batch in (5, 6, 5)] == [0, 1, 0]
    log.append({})
    assert [WorkloadLog(tmp_path).of_batch(batch) for batch in (5, 6, 7)] == [0, 1, 2]
    assert log.read(1) == {"p": (PAIRS, 0, True), "q": (PAIRS, 1, False)}


def test_tasks_that_ask_at_once_agree(tmp_path: Path) -> None:
    log = WorkloadLog(tmp_path)
    log.append({})
    seen: dict[int, set[int]] = {batch: set() for batch in range(40)}

    def ask() -> None:
        for batch, found in seen.items():
            found.add(WorkloadLog(tmp_path).of_batch(batch))

    tasks = [threading.Thread(target=ask) for _ in range(4)]
    for task in tasks:
        task.start()
    for _ in range(20):
        log.append({})
    for task in tasks:
        task.join()
    assert all(len(found) == 1 for found in seen.values())
    assert [min(found) for found in seen.values()] == sorted(min(found) for found in seen.values())


def test_old_notes_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workloads, "NOTES_KEPT", 3)
    log = WorkloadLog(tmp_path)
    log.append({})
    for batch in range(10):
        log.of_batch(batch)
    assert sorted(path.name for path in tmp_path.glob("batch-*")) == ["batch-00000007", "batch-00000008", "batch-00000009"]


def test_a_log_that_is_gone_is_told(tmp_path: Path) -> None:
    with pytest.raises(sq.DataError, match=r"the workload log .* is gone"):
        WorkloadLog(tmp_path).of_batch(1)


# ---------------------------------------------------------------- the workload


def test_changes_are_entries_and_generations_tell_what_is_new(tmp_path: Path) -> None:
    work, log = sqs.Workload({"p": PAIRS, "q": PAIRS}, log=tmp_path), WorkloadLog(tmp_path)
    work.add("r", PAIRS)
    work.remove("q")
    work.add("q", PAIRS)
    work.replace("p", PAIRS.replace("10", "20"))
    generations = [{name: generation for name, (_, generation, _) in log.read(number).items()} for number in range(5)]
    assert generations == [
        {"p": 0, "q": 0},
        {"p": 0, "q": 0, "r": 1},
        {"p": 0, "r": 1},
        {"p": 0, "r": 1, "q": 3},
        {"p": 4, "r": 1, "q": 3},
    ]
    # Started again with the same queries nothing changes; what is other then is new.
    again = {name: str(query) for name, query in work.queries.items()}
    sqs.Workload(again, log=tmp_path)
    assert log.last() == 4
    sqs.Workload({**again, "p": PAIRS}, log=tmp_path)
    assert {name: generation for name, (_, generation, _) in log.read(5).items()} == {"p": 5, "r": 1, "q": 3}


def test_misuse_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    work = sqs.Workload({"pairs": PAIRS}, log=tmp_path)
    work.watched_over(Schema(COLUMNS), None, "auto")
    calls: list[tuple[Any, str]] = [
        (lambda: work.add("pairs", PAIRS), "there is a query 'pairs' already"),
        (lambda: work.remove("piars"), "did you mean 'pairs'"),
        (lambda: work.replace("piars", PAIRS), "there is no query 'piars'"),
        (lambda: work.add("x", "SEQ(A a, B b, a.price = 1) WITHIN 5 s"), "no column 'price'"),
        (lambda: work.replace("pairs", "SEQ(A a, B b) WITHIN"), "WITHIN"),
        (lambda: work.add("x", "A a WITHIN 5 s AGG COUNT(*) EMIT TOTAL"), "EMIT TOTAL reports at the end"),
        (lambda: work.add(5, PAIRS), "name is"),  # type: ignore[arg-type]
    ]
    for call, said in calls:
        with pytest.raises(sq.SequbeError, match=said):
            call()
    assert (list(work.queries), WorkloadLog(tmp_path).last()) == (["pairs"], 0)


# ---------------------------------------------------------------- what a worker does


def test_rows_are_placed_by_type_and_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sqs.Workload({"keyed": PAIRS, "free": "SEQ(A a, C c) WITHIN 5 s", "n": "SEQ(A a, B b) WITHIN 3 EVENTS"}, log=tmp_path)
    changing = ChangingWatches(str(tmp_path), Schema(COLUMNS), None, NO_LIMITS)
    monkeypatch.setattr(workloads, "_micro_batch", lambda: 0)
    watches = changing.now()
    table = pa.table({"type": ["A", "B", "C", "A"], "ts": [1, 2, 3, 4], "id": [7, 7, 8, None]}, schema=COLUMNS)
    keyed = changing.place(table, watches["#together id"]).to_pylist()
    assert keyed[0] == keyed[1] is not None
    assert keyed[2:] == [None, None]
    assert changing.place(table, watches["#together"]).to_pylist() == [0, None, 0, 0]
    assert changing.place(table, watches["n"]).to_pylist() == [0, 0, 0, 0]


def test_rows_of_all_kinds_are_told_alike() -> None:
    schema = workloads.row_schema(pa.int64())
    tables = {
        "plain": pa.table({"match_id": [5], "start": [1], "end": [3], "a": [{"id": 1}]}),
        "returned": pa.table({"match_id": [6], "lag": [2], "#at.a": [1], "#at.b": pa.array([None], pa.int64()), "#at.c": [4]}),
        "counted": pa.table({"ts": [9], "count": [3]}),
    }
    rows = [workloads._told(name, table, schema).to_pylist()[0] for name, table in tables.items()]
    assert rows == [
        {"query": "plain", "match_id": 5, "start": 1, "end": 3, "row": '{"start": 1, "end": 3, "a": {"id": 1}}'},
        {"query": "returned", "match_id": 6, "start": 1, "end": 4, "row": '{"lag": 2}'},
        {"query": "counted", "match_id": None, "start": None, "end": 9, "row": '{"ts": 9, "count": 3}'},
    ]


# ---------------------------------------------------------------- a stream


def test_queries_keep_their_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that counts alone stays by itself, and those that come later go together; what an older log has stays as it was."""
    count = "SEQ(A a, B b, [id]) AGG COUNT(*) GROUP BY a.id WITHIN 10 s"
    monkeypatch.setattr(workloads, "_micro_batch", lambda: 0)

    def placed(folder: Path) -> dict[str, list[str]]:
        now = ChangingWatches(str(folder), Schema(COLUMNS), None, NO_LIMITS).now()
        return {name: list(watch.schemas) for name, watch in now.items()}

    work = sqs.Workload({"first": count}, log=tmp_path / "new")
    work.add("second", count)
    work.add("waits", "SEQ(A a, !B b, [id]) WITHIN 10 s")
    work.add("pairs", PAIRS)
    assert placed(tmp_path / "new") == {"#together id": ["second", "pairs"], "first": ["first"], "waits": ["waits"]}
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "entry-00000000.json").write_text(json.dumps({"p": [str(parse(PAIRS)), 0]}))
    sqs.Workload({"p": PAIRS, "q": PAIRS}, log=tmp_path / "old")
    assert placed(tmp_path / "old") == {"#together id": ["q"], "p": ["p"]}


def test_a_strategy_to_share_by_is_for_those_that_are_there(tmp_path: Path) -> None:
    work = sqs.Workload({"n": "SEQ(A a, B b) AGG COUNT(*) WITHIN 10 s"}, log=tmp_path)
    work.watched_over(Schema(COLUMNS), None, "prefix-tree")
    with pytest.raises(sq.PlanError, match="'prefix-tree' does not apply to the query 'm'"):
        work.add("m", "SEQ(A a, B+ b) AGG COUNT(*) WITHIN 10 s")
    work.add("m", PAIRS)
    work.remove("n")  # nothing is left to be counted, and the stream goes on
    assert list(work.queries) == ["m"]


@pytest.mark.slow  # in the everyday run: a pipeline whose file changes
def test_a_stream_is_edited_while_it_runs_and_goes_on_where_it_stopped(spark: SparkSession, tmp_path: Path) -> None:
    def come(number: int, *events: tuple[str, int]) -> None:
        kinds, seconds = zip(*events, strict=True)
        columns = [list(kinds), [second * 1_000 for second in seconds], [7] * len(events)]
        add_file(tmp_path, str(number), pa.table(columns, schema=COLUMNS))
        query.processAllAvailable()

    def start() -> Any:
        frame = spark.readStream.schema("type string, ts long, id long").parquet(str(tmp_path / "in"))
        found = sqs.run(work, frame, lateness="0 seconds", strategy="chase")
        writer = found.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
        return writer.start(str(tmp_path / "out"))

    (tmp_path / "in").mkdir()
    work = sqs.Workload({"p": PAIRS, "q": PAIRS}, log=tmp_path / "log")
    query = start()
    try:
        come(1, ("A", 1), ("B", 2), ("Z", 3))
        work.remove("q")
        work.add("r", "SEQ(A a, B b, [id]) WITHIN 10 s AGG COUNT(*)")
        come(2, ("A", 4), ("B", 5), ("Z", 6))
        query.stop()
        work = sqs.Workload({"p": PAIRS, "r": "SEQ(A a, B b, [id]) WITHIN 10 s AGG COUNT(*)"}, log=tmp_path / "log")
        query = start()
        come(3, ("B", 7), ("Z", 100))
        come(4, ("Z", 200))
    finally:
        query.stop()
    rows = [row.asDict() for row in spark.read.parquet(str(tmp_path / "out")).collect()]
    found = Counter((row["query"], row["start"], row["end"], json.dumps(json.loads(row["row"]))) for row in rows)
    pairs = [(a, b) for a in (1, 4) for b in (2, 5, 7) if a < b]
    wanted = Counter({("p", a * 1_000, b * 1_000, json.dumps({"lag": (b - a) * 1_000})): 1 for a, b in pairs})
    wanted |= Counter({("q", 1_000, 2_000, json.dumps({"lag": 1_000})): 1})
    assert Counter({row: n for row, n in found.items() if row[0] != "r"}) == wanted
    assert [json.loads(row[3]) for row in sorted(found, key=str) if row[0] == "r"][-1] == {"ts": 7_000, "count": 2}
