"""On a standalone cluster: a master and two workers. A program of its own drives it, as there is one session in a process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import cluster
import pytest
from pipelines import PAIRS, WAITS, add_file, expected, results, write_pipeline

from seqube.generate import generate

# What a Python worker runs first: it notes each loop that it has to compile.
NOTING = """
import os
if "COMPILED" in os.environ:
    from pathlib import Path
    from seqube.engine.jit import KernelCache
    kept = KernelCache.save_overload
    def save(self, sig, data):
        Path(os.environ["COMPILED"], f"{os.getpid()}-{self._name}").touch()
        kept(self, sig, data)
    KernelCache.save_overload = save
"""


@pytest.mark.slow
def test_a_pipeline_on_a_cluster_whose_executors_compile_nothing(tmp_path: Path) -> None:
    """By `--master`: the compiled folder travels with the job, into working folders; HOME is not there to be written to."""
    table = generate("hospital", 1_500, seed=3)
    queries = {"pairs": PAIRS, "waits": WAITS}
    for number in range(3):
        add_file(tmp_path, str(number), table.slice(500 * number, 500))
    compiled = tmp_path / "compiled"
    compiled.mkdir()
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(NOTING)
    # Everything that these queries need is compiled here first, as `seqube warm` does it.
    local = write_pipeline(tmp_path, queries, sinks={"matches": "local/matches"}, checkpoint="local/checkpoint", drain=True)
    command = [sys.executable, "-m", "seqube", "pipeline", str(local), "--json", "--conf", "spark.driver.memory=700m"]
    subprocess.run(command, check=True, capture_output=True, timeout=600)
    file = write_pipeline(tmp_path, queries, drain=True)
    with cluster.running(tmp_path) as found:
        settings = {
            "spark.executor.memory": "700m",
            "spark.driver.memory": "700m",
            "spark.driver.host": "127.0.0.1",
            "spark.sql.shuffle.partitions": "2",
            "spark.executorEnv.COMPILED": str(compiled),
            "spark.executorEnv.PYTHONPATH": str(site),
            "spark.executorEnv.HOME": "/nonexistent",
        }
        command = [sys.executable, "-m", "seqube", "pipeline", str(file), "--json", "--master", found.url]
        command += [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900, env=os.environ)
    assert done.returncode == 0, done.stderr[-3_000:]
    assert json.loads(done.stdout)["read"] == 1_500
    for name, query in queries.items():
        assert results(tmp_path, name) == expected(table, query), name
    assert list((tmp_path / "worker0").rglob("seqube-kernels")), "executors were not handed the compiled folder"
    assert [path.name for path in compiled.iterdir()] == []
