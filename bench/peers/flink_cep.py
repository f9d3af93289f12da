"""Apache Flink CEP: a Java program of ours, compiled against the jars of the PyPI package `apache-flink-libraries`.

The program (`flink/SequencePatterns.java`) keeps the events in memory and runs a pattern whenever it is told to, in one JVM, so
that later runs are warm. Compiling needs a JDK.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pyarrow as pa

from bench.peers import Answer, Peer, Task

SOURCES = Path(__file__).with_name("flink")
BUILD = Path("build/bench/flink")


class Adapter(Peer):
    name = "Flink CEP"
    package = "apache-flink-libraries"
    about = "followedByAny without skipping, event time, parallelism 1; job start and end not counted"
    largest = {"a": 50_000, "b": 20_000, "c": 10_000, "d": 2_000, "e": 200_000, "f": 100_000}  # noqa: RUF012
    filtered = False

    def missing(self) -> str:
        if jars() is None:
            return "Flink's jars are not installed: make bench-peers"
        if shutil.which("javac") is None:
            return "Flink needs our Java program compiled, and there is no javac here: install a JDK (17 or newer)"
        return ""

    def prepare(self, events: pa.Table) -> None:
        if not hasattr(self, "_java"):
            self._java = start("SequencePatterns")
        types = events.column("type").combine_chunks().dictionary_encode()
        self._code_of = {name: code for code, name in enumerate(types.dictionary.to_pylist())}
        path = BUILD / f"events-{os.getpid()}.bin"
        with path.open("wb") as file:
            file.write(events.column("ts").to_numpy().astype("<i8").tobytes())
            file.write(types.indices.to_numpy().astype("<i4").tobytes())
            file.write(events.column("id").to_numpy().astype("<i8").tobytes())
        self._ask(f"load {path.resolve()} {len(events)}")
        path.unlink()

    def run(self, task: Task) -> Any:
        # A type that no event has still needs a code of its own.
        codes = ",".join(str(self._code_of.setdefault(name, len(self._code_of))) for name in task.types)
        negated = -1 if task.negated is None else task.negated
        return self._ask(f"run {codes} {negated} {task.window} {int(task.keyed)} {int(self.filtered)}")

    def answer(self, outcome: Any) -> Answer:
        return Answer(outcome["count"], outcome["checksum"])

    def seconds(self, outcome: Any, wall_s: float) -> float:
        del wall_s
        return float(outcome["seconds"])

    @property
    def pid(self) -> int:
        return self._java.pid

    def close(self) -> None:
        if hasattr(self, "_java"):
            self._java.communicate()

    def _ask(self, command: str) -> Any:
        assert self._java.stdin is not None
        assert self._java.stdout is not None
        self._java.stdin.write(command + "\n")
        self._java.stdin.flush()
        line = self._java.stdout.readline()
        if not line:
            raise RuntimeError(f"the Flink program ended with exit code {self._java.wait()}")
        return json.loads(line)


def jars() -> Path | None:
    """The folder with Flink's jars, if they are installed."""
    spec = importlib.util.find_spec("pyflink")
    folders = [Path(place) / "lib" for place in (spec.submodule_search_locations or [])] if spec else []
    return next((folder for folder in folders if any(folder.glob("flink-cep-*.jar"))), None)


def _class_path() -> str:
    folder = jars()
    assert folder is not None
    return os.pathsep.join(str(path) for path in sorted(folder.glob("*.jar")) if "planner" not in path.name)


def _compile(program: str) -> Path:
    """A compiled program of ours, made anew when its source or Flink changed."""
    source = SOURCES / f"{program}.java"
    state = hashlib.sha256(source.read_bytes() + _class_path().encode()).hexdigest()[:12]
    folder = BUILD / state
    if not (folder / f"{program}.class").exists():
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run(["javac", "-nowarn", "-cp", _class_path(), "-d", str(folder), str(source)], check=True)
    return folder


def start(program: str) -> subprocess.Popen[str]:
    """A JVM that runs one of the programs here, which waits for commands."""
    folder = _compile(program)
    opened = [f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in ("java.lang", "java.util", "java.time")]
    command = ["java", "-Xmx4g", "-Dlog4j2.level=OFF", *opened, "-cp", f"{folder}{os.pathsep}{_class_path()}", program]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
