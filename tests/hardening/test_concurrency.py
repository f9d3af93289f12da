"""Several threads and processes at once: the same answers as one after the other, from a cold kernel cache too."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import seqube as sq
from seqube.generate import generate
from seqube.spark.streaming.checkpoint import hold

QUERIES = [
    "SEQ(Recycle r, Wash w, Operate o, [id]) WITHIN 2 hours",
    "SEQ(Recycle r, !Wash w, Operate o, [id]) WITHIN 2 hours",
    "AND(Wash w, Check c, [id]) WITHIN 30 min",
    "SEQ(Recycle r, !SEQ(Wash w, Check c), Operate o) WITHIN 5 min",
    "SEQ(Recycle r, Wash w, Operate o) WITHIN 10 min AGG COUNT(*), MIN(w.ts)",
    "SEQ(Wash w, OR(Check c, Operate o)) WITHIN 10 min AGG COUNT(*) GROUP BY w.type EMIT EVERY 1 hour",
]


def digest(query: str, events: sq.Events) -> tuple[int, list[str]]:
    table = sq.run(query, events).table
    return table.num_rows, sorted(map(str, table.to_pylist()))


def test_threads_share_events_and_kernels() -> None:
    events = sq.Events(generate("hospital", 2_000, seed=5))
    alone = [digest(query, events) for query in QUERIES]
    fresh = sq.Events(generate("hospital", 2_000, seed=5))  # whatever it remembers is made by all at once
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda query: digest(query, fresh), QUERIES * 4))
    assert together == alone * 4
    assert all(n_rows > 0 for n_rows, _ in alone)


def test_threads_parse_at_once() -> None:
    texts = [f"SEQ(A a, B b, a.x = {number}) WITHIN {number + 1}" for number in range(400)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda text: str(sq.parse(text)), texts))
    assert found == [str(sq.parse(text)) for text in texts]


def test_processes_start_together_on_a_cold_cache(tmp_path: Path) -> None:
    """All compile, all write the same new cache folder; and what they leave there works for the next."""
    code = textwrap.dedent("""
        import pyarrow as pa
        import seqube as sq
        events = sq.Events(pa.table({"type": list("ABAB") * 50, "ts": range(200)}))
        print(len(sq.run("SEQ(A a, B b) WITHIN 10", events)))
    """)
    environment = os.environ | {"SEQUBE_CACHE": str(tmp_path / "cache")}
    said = []
    for n_processes in (2, 1):
        running = [
            subprocess.Popen(
                [sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
            for _ in range(n_processes)
        ]
        said += [process.communicate(timeout=600) for process in running]
        assert [process.returncode for process in running] == [0] * n_processes, said
    assert len({out for out, _ in said}) == 1, said
    assert list((tmp_path / "cache").rglob("*.nbi"))


@pytest.mark.slow
def test_two_pipelines_side_by_side(tmp_path: Path) -> None:
    """Two processes, two checkpoints, one source: each writes what it would write alone."""
    query = "SEQ(Recycle r, Wash w, [id]) WITHIN 30 min RETURN r.id AS tool, r.ts AS a, w.ts AS b"
    day = generate("hospital", 1_500, seed=5)
    (tmp_path / "in").mkdir()
    pq.write_table(day, tmp_path / "in" / "1.parquet")
    running = []
    for name in ("one", "two"):
        declared = {
            "source": {"path": "in"},
            "queries": {"pairs": query},
            "sinks": {"matches": f"{name}/matches"},
            "trigger": "available now",
            "checkpoint": f"{name}/checkpoint",
        }
        (tmp_path / f"{name}.yaml").write_text(json.dumps(declared))
        command = [sys.executable, "-m", "seqube", "pipeline", f"{name}.yaml"]
        running.append(subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
    said = [process.communicate(timeout=600) for process in running]
    assert [process.returncode for process in running] == [0, 0], said
    newest = day.column("ts").to_pylist()[-1]
    decided = sorted(str(row) for row in sq.run(query, day).table.to_pylist() if row["b"] < newest)
    for name in ("one", "two"):
        files = (tmp_path / name / "matches" / "pairs").rglob("*.parquet")
        rows = [row for file in files for row in pq.ParquetFile(file).read().drop_columns(["match_id"]).to_pylist()]
        found = [{**row, "a": row["a"].replace(tzinfo=None), "b": row["b"].replace(tzinfo=None)} for row in rows]
        assert sorted(map(str, found)) == decided
    assert decided


def test_a_checkpoint_belongs_to_one_pipeline_at_a_time(tmp_path: Path) -> None:
    """Side by side on two checkpoints; refused on the same, in this process or another; free again when the first has ended."""
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    code = f"from seqube.spark.streaming.checkpoint import hold\nwith hold({str(one)!r}): print('held')"
    with hold(str(one)), hold(str(two)):
        with pytest.raises(sq.DataError, match=r"the checkpoint .*one is in use by process \d+"):
            hold(str(one)).__enter__()
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert "is in use by process" in done.stderr
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "held\n"
