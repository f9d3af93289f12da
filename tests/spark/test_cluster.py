"""On a standalone cluster: the answers of this process, by executors that compile nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from cluster import Cluster, standalone
from pipelines import FREE, PAIRS, WAITS, add_file, expected, results, write_pipeline

from seqube.engine.jit import cache_folder
from seqube.generate import generate

pytestmark = pytest.mark.slow

SEQUBE = [sys.executable, "-m", "seqube"]
FEW = ["--conf", "spark.sql.shuffle.partitions=4"]
QUERIES = {"pairs": PAIRS, "waits": WAITS, "free": FREE}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with standalone(tmp_path_factory.mktemp("cluster")) as running:
        yield running


def seqube(*arguments: str) -> str:
    done = subprocess.run([*SEQUBE, *arguments], capture_output=True, text=True, check=False, timeout=500)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def compiled(folder: Path) -> int:
    return sum(1 for _ in folder.rglob("*.nbc"))


def test_a_batch_says_what_this_process_says_and_compiles_nothing(cluster: Cluster, tmp_path: Path) -> None:
    pq.write_table(generate("hospital", 2_000, seed=1), tmp_path / "day.parquet")
    command = ["run", "--query", PAIRS, "--events", str(tmp_path / "day.parquet"), "--format", "json"]
    here = seqube(*command)
    seqube(*command, "--spark")  # which compiles what is missing
    there = seqube(*command, "--spark", "--master", cluster.url, *FEW)
    assert here.strip()
    assert sorted(there.splitlines()) == sorted(here.splitlines())
    handed = list(cluster.folder.glob("work*/*/*/seqube-kernels"))
    assert handed, "executors were handed nothing"
    assert {compiled(folder) for folder in handed} == {compiled(cache_folder())}


def test_a_pipeline_says_what_a_batch_says_and_is_rescaled(cluster: Cluster, tmp_path: Path) -> None:
    table = generate("hospital", 900, seed=9)
    add_file(tmp_path, "0", table.slice(0, 500))
    file = write_pipeline(tmp_path, QUERIES)
    seqube("pipeline", str(file), "--master", cluster.url, *FEW)
    told = json.loads(seqube("pipeline", str(file), "--rescale", "24", "--master", cluster.url, *FEW, "--json"))
    assert told == {"buckets": 24, "before": 16, "uncut": []}
    add_file(tmp_path, "1", table.slice(500))
    seqube("pipeline", str(file), "--drain", "--master", cluster.url, *FEW)
    for name, query in QUERIES.items():
        assert results(tmp_path, name) == expected(table, query), name
