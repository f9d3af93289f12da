"""A standalone cluster on this machine, from the classes that PySpark brings along: a master and two workers, each a JVM."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pyspark

from seqube.spark.java import find_java

HOME = Path(pyspark.__file__).parent
STARTED = 120.0  # seconds that a part may take to answer


@dataclass
class Cluster:
    """What runs; `workers` are processes, which a test may kill, and start again."""

    folder: Path
    port: int
    master: subprocess.Popen[bytes]
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"spark://127.0.0.1:{self.port}"

    def add_worker(self) -> None:
        place = self.folder / f"worker{len(self.workers)}"
        options = ["--cores", "1", "--memory", "1g", "--host", "127.0.0.1", "--work-dir", str(place), "--webui-port", "0"]
        self.workers.append(launch(self.folder, "worker.Worker", *options, self.url))


def launch(folder: Path, name: str, *options: str) -> subprocess.Popen[bytes]:
    java = find_java().path / "bin" / "java"
    command = [str(java), "-cp", f"{HOME}/jars/*", "-Xmx512m", f"org.apache.spark.deploy.{name}", *options]
    with (folder / f"{name}.log").open("ab") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, env=os.environ | {"SPARK_HOME": str(HOME)})


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextmanager
def running(folder: Path, n_workers: int = 2) -> Iterator[Cluster]:
    """A cluster of so many workers with a core each, until it is left."""
    port = free_port()
    master = launch(folder, "master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0")
    cluster = Cluster(folder, port, master)
    try:
        until = time.monotonic() + STARTED
        while time.monotonic() < until:
            with socket.socket() as asking:
                if asking.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.2)
        for _ in range(n_workers):
            cluster.add_worker()
        yield cluster
    finally:
        for process in (*cluster.workers, master):
            process.kill()
            process.wait()
