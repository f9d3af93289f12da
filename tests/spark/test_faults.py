"""Killed at random moments and started again, a pipeline writes what it would have written: nothing lost, nothing twice."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from test_pipeline import FREE, PAIRS, WAITS, add_file, expected, results, write_pipeline

import seqube as sq
from seqube.generate import generate

KILLS = int(os.environ.get("SEQUBE_KILLS", "3"))  # `make soak` asks for more
QUERIES = {"pairs": PAIRS, "waits": WAITS, "free": FREE}


def run(file: Path) -> subprocess.Popen[bytes]:
    """The pipeline in processes of its own, which can be killed together."""
    command = [sys.executable, "-m", "seqube", "pipeline", str(file)]
    return subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def kill(process: subprocess.Popen[bytes]) -> None:
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@pytest.mark.slow
def test_killed_at_random_moments(tmp_path: Path) -> None:
    table = generate("hospital", 6_000, seed=11)
    last = table.slice(table.num_rows - 1).to_pylist()[0]
    end = pa.Table.from_pylist([{**last, "type": "End", "ts": last["ts"].replace(year=2027)}], table.schema)
    bad = pa.Table.from_pylist([{**last, "type": None}] * 7, table.schema)
    n_files = 4 * KILLS + 4
    step = -(-table.num_rows // n_files)
    for number in range(n_files):
        add_file(tmp_path, str(number), pa.concat_tables([table.slice(number * step, step), bad]))
    add_file(tmp_path, str(n_files), end)
    file = write_pipeline(tmp_path, QUERIES)

    chance = random.Random(7)
    seconds = 45.0  # about how long a start takes on a busy machine; what matters is that kills fall everywhere
    for _ in range(KILLS):
        process = run(file)
        began = time.monotonic()
        commits = tmp_path / "out" / "checkpoint" / "commits"
        n_before = len(list(commits.glob("[0-9]*")))
        while process.poll() is None and len(list(commits.glob("[0-9]*"))) <= n_before and time.monotonic() - began < 4 * seconds:
            time.sleep(0.05)
        time.sleep(chance.uniform(0, 4))
        if process.poll() is None:
            kill(process)
        else:
            assert process.returncode == 0, process.stderr.read().decode()  # type: ignore[union-attr]
    process = run(file)
    _, said = process.communicate(timeout=600)
    assert process.returncode == 0, said.decode()

    for name, query in QUERIES.items():
        assert results(tmp_path, name) == expected(table, query), name
        assert sum(expected(table, query).values()) > 0
    quarantined = sum(pq.ParquetFile(path).metadata.num_rows for path in (tmp_path / "out" / "quarantine").rglob("*.parquet"))
    assert quarantined == 7 * n_files
    assert ids_are_distinct(tmp_path)
    assert len(sq.run(PAIRS, table)) > 0


def ids_are_distinct(folder: Path) -> bool:
    ids: Counter[int] = Counter()
    for path in (folder / "out" / "matches" / "pairs").rglob("*.parquet"):
        ids.update(pq.ParquetFile(path).read(columns=["match_id"]).column(0).to_pylist())
    return max(ids.values()) == 1
