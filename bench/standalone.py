"""A standalone cluster of Spark on this machine: a master and workers from the classes that PySpark brings along."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pyspark

from seqube.spark.java import find_java

HOME = Path(pyspark.__file__).parent
HOST = "127.0.0.1"
EXECUTOR = b"CoarseGrainedExecutorBackend"


@dataclass(frozen=True)
class Cluster:
    url: str
    folder: Path
    workers: tuple[subprocess.Popen[bytes], ...]

    def executors(self) -> list[int]:
        """The processes that tasks run in, of all that use the cluster."""
        found = []
        for worker in self.workers:
            with suppress(OSError):
                children = Path(f"/proc/{worker.pid}/task").glob("*/children")
                found += [int(pid) for file in children for pid in file.read_text().split()]
        return [pid for pid in found if EXECUTOR in _command(pid)]

    def kill_executor(self, chance: random.Random) -> bool:
        """End one of them without a word, with the Python workers below it; False where there is none."""
        running = self.executors()
        if running:
            with suppress(ProcessLookupError):
                os.kill(chance.choice(running), signal.SIGKILL)
        return bool(running)


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def free_port() -> int:
    with socket.socket() as found:
        found.bind((HOST, 0))
        return int(found.getsockname()[1])


@contextmanager
def standalone(folder: Path, n_workers: int = 2, cores: int = 1, memory: str = "1g") -> Iterator[Cluster]:
    """A cluster that runs meanwhile; its logs and what its executors leave are in the folder."""
    port = free_port()
    # Workers ask which Scala Spark was built with, and find it in folders that a package has not.
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_", "SEQUBE_"))},
        "SPARK_HOME": str(HOME),
        "SPARK_SCALA_VERSION": "2.13",
        "JAVA_HOME": str(find_java().path),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_NO_DAEMONIZE": "1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_LOCAL_DIRS": str(folder / "local"),
    }

    def run(name: str, *arguments: str) -> subprocess.Popen[bytes]:
        with (folder / f"{name}.log").open("wb") as log:
            command = [str(HOME / "bin" / "spark-class"), *arguments]
            return subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, env=environment, start_new_session=True)

    folder.mkdir(parents=True, exist_ok=True)
    started = [
        run(
            "master", "org.apache.spark.deploy.master.Master", "--host", HOST, "--port", str(port), "--webui-port", str(free_port())
        )
    ]
    try:
        wait_for_text(folder / "master.log", "I have been elected leader", started[0])
        url = f"spark://{HOST}:{port}"
        for number in range(n_workers):
            size = ["--cores", str(cores), "--memory", memory, "--work-dir", str(folder / f"work{number}")]
            place = ["--host", HOST, "--webui-port", str(free_port())]
            started.append(run(f"worker{number}", "org.apache.spark.deploy.worker.Worker", *place, *size, url))
        for number, worker in enumerate(started[1:]):
            wait_for_text(folder / f"worker{number}.log", "Successfully registered with master", worker)
        yield Cluster(url, folder, tuple(started[1:]))
    finally:
        for process in reversed(started):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def wait_for_text(log: Path, text: str, process: subprocess.Popen[bytes], seconds: float = 90) -> None:
    until = time.monotonic() + seconds
    while text not in log.read_text(errors="replace"):
        if process.poll() is not None or time.monotonic() > until:
            raise RuntimeError(f"{text!r} is not in {log}:\n{log.read_text(errors='replace')[-3000:]}")
        time.sleep(0.1)
