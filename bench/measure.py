"""How a thing is measured: warmed up, repeated, with the answer checked and the machine written down.

Machines are noisy, so what counts is the ratio of two things measured in turns in one run: `compare` alternates between its
contenders and takes the median of each. CPU time is noted beside wall time, because it is the steadier of the two on a shared
machine. A contender whose answer differs from the first one's is reported as wrong, without a time. The peak memory of contenders
in one process is the process's own, the same for all; peers have processes of their own (`bench.peers`).
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import platform
import resource
import statistics
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from threading import Thread
from typing import Any

from numba.core.event import install_recorder


@dataclass(frozen=True)
class Measurement:
    """One contender at one task. Times are seconds per run; `events` is what one run processes."""

    workload: str
    task: str
    contender: str
    events: int
    answer: Any
    right: bool
    wall_s: float | None = None
    spread_s: float | None = None  # half the distance between the quartiles
    cpu_s: float | None = None
    peak_mb: int | None = None
    note: str = ""
    repetitions: int = 0
    prepare_s: float | None = None  # to take the events in, once
    cores: int = 1
    about: dict[str, Any] = field(default_factory=dict)  # what was varied, for those who draw it

    @property
    def rate(self) -> float | None:
        return self.events / self.wall_s if self.wall_s else None


_REMEMBERED: dict[tuple[str, str, int], list[Measurement]] = {}


def remember(measured: Iterable[Measurement]) -> None:
    """What an earlier piece of this run has measured: `compare` gives it back."""
    _REMEMBERED.clear()
    for one in measured:
        _REMEMBERED.setdefault((one.workload, one.task, one.events), []).append(one)


def compare(
    workload: str,
    task: str,
    events: int,
    contenders: Mapping[str, Callable[[], Any]],
    repetitions: int = 7,
    once_above_s: float = math.inf,
    judge: Callable[[Any], Any] = lambda answer: answer,
    cpu_clock: Callable[[], float] = time.process_time,
) -> Iterable[Measurement]:
    """Run every contender in turns; the first one's answer is the right one.

    The first run is the warm-up; it counts, and is the only one, where it takes longer than `once_above_s`, by the clock and by CPU
    time, although no kernel was compiled in it. (By the clock alone, other work on the machine makes a run long that loads them.)
    A contender whose next run takes so long is not run again either. `judge` makes of what a contender returns the
    answer to compare, outside of its time; `cpu_clock` counts the CPU seconds of those who work in other processes, too.
    """
    known = _REMEMBERED.get((workload, task, events), [])
    if [one.contender for one in known] == list(contenders):
        yield from known
        return
    walls: dict[str, list[float]] = {name: [] for name in contenders}
    cpus: dict[str, list[float]] = {name: [] for name in contenders}

    def time_one(name: str) -> Any:
        wall, cpu = time.perf_counter(), cpu_clock()
        returned = contenders[name]()
        walls[name].append(time.perf_counter() - wall)
        cpus[name].append(cpu_clock() - cpu)
        return returned

    def is_long(name: str) -> bool:
        return bool(walls[name]) and min(walls[name][0], cpus[name][0]) > once_above_s

    answers = {}
    for name in contenders:
        with install_recorder("numba:compile") as compiled:
            answers[name] = judge(time_one(name))
        if compiled.buffer or not is_long(name):
            walls[name].clear()
            cpus[name].clear()
    truth = next(iter(answers.values()))
    for _ in range(repetitions):
        for name in contenders:
            if answers[name] == truth and not is_long(name):
                time_one(name)
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    for name in contenders:
        if answers[name] != truth:
            yield Measurement(
                workload, task, name, events, answers[name], right=False, note=f"answered {answers[name]}, not {truth}"
            )
            continue
        yield Measurement(
            workload,
            task,
            name,
            events,
            truth,
            right=True,
            wall_s=statistics.median(walls[name]),
            spread_s=spread(walls[name]),
            cpu_s=statistics.median(cpus[name]),
            peak_mb=peak_mb,
            repetitions=len(walls[name]),
        )


def wake_cores(cores: int, seconds: float = 0.03) -> None:
    """Keep so many cores at work for a moment, before something short is timed on them.

    Virtual machines may keep the threads of who has just woken up on one core for 15 ms, which is longer than a query takes.
    """
    until = time.perf_counter() + seconds
    block = bytes(1 << 16)

    def work() -> None:
        while time.perf_counter() < until:
            hashlib.sha256(block)  # leaves other threads alone

    others = [Thread(target=work) for _ in range(cores - 1)]
    for other in others:
        other.start()
    work()
    while any(other.is_alive() for other in others):  # who sleeps until they are done has to be woken again
        pass


def spread(times: Sequence[float]) -> float | None:
    """Half the distance between the quartiles; nothing can be said of fewer than three."""
    if len(times) < 3:
        return None
    quartiles = statistics.quantiles(times, n=4)
    return (quartiles[2] - quartiles[0]) / 2


def about_this_run(command: str = "") -> dict[str, Any]:
    """Where and with what: enough to compare two runs, or to know that they cannot be compared."""
    packages = (
        "seqube",
        "numba",
        "numpy",
        "pyarrow",
        "pyspark",
        "duckdb",
        "polars",
        "apache-flink-libraries",
        "chdb",
        "pandas-match-recognize",
    )
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": command,
        "commit": _commit(),
        "python": platform.python_version(),
        "system": platform.system(),
        "machine": platform.machine(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "load": _busy_cores(),
        "versions": {name: found for name in packages if (found := version_of(name))},
    }


def version_of(package: str) -> str:
    """The version that is installed; empty for what is not."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _busy_cores(seconds: float = 1.0) -> float:
    """How many cores are at work while this process waits. (The system's load is a mean of the past, with our own work in it.)"""

    def work() -> int:
        ticks = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
        return sum(ticks) - ticks[3] - ticks[4]  # neither idle nor waiting for a disk

    try:
        before = work()
        time.sleep(seconds)
        return round((work() - before) / os.sysconf("SC_CLK_TCK") / seconds, 2)
    except OSError:  # not a Linux
        return round(os.getloadavg()[0], 2)


def _commit() -> str:
    done = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return done.stdout.strip()


def _processor() -> str:
    """What Linux calls the processor; the machine's kind elsewhere."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.processor())


def as_line(measurement: Measurement) -> str:
    return json.dumps(asdict(measurement) | {"rate": measurement.rate}, default=str)


def from_line(line: Mapping[str, Any]) -> Measurement:
    """What `as_line` wrote, or what was written before Measurement had all its fields."""
    return Measurement(**{each.name: line[each.name] for each in fields(Measurement) if each.name in line})


def tree_cpu() -> float:
    """CPU seconds of this process and all below it, those that have ended included."""
    parents: dict[int, int] = {}
    used: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        pid = int(stat.parent.name)
        parents[pid], used[pid] = int(fields[1]), sum(map(int, fields[11:15]))

    def is_below(pid: int) -> bool:
        while pid > 1:
            if pid == os.getpid():
                return True
            pid = parents.get(pid, 0)
        return False

    return sum(ticks for pid, ticks in used.items() if is_below(pid)) / os.sysconf("SC_CLK_TCK")
