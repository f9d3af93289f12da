"""On a standalone cluster: the answers of this process, by executors that compile nothing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from bench.standalone import Cluster, standalone
from pipelines import PAIRS

from seqube.engine.jit import cache_folder
from seqube.generate import generate

pytestmark = pytest.mark.slow

SEQUBE = [sys.executable, "-m", "seqube"]
FEW = ["--conf", "spark.sql.shuffle.partitions=4"]


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
