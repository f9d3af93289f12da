"""How a thing is measured: warmed up, repeated, with the answer checked and the machine written down.

Machines are noisy, so what counts is the ratio of two things measured in turns in one run: `compare` alternates between its
contenders and takes the median of each. CPU time of this process is noted beside wall time, because it is the steadier of the
two on a shared machine. A contender whose answer differs from the first one's is reported as wrong, without a time.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any


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

    @property
    def rate(self) -> float | None:
        return self.events / self.wall_s if self.wall_s else None


def compare(
    workload: str, task: str, events: int, contenders: dict[str, Callable[[], Any]], repetitions: int = 7
) -> Iterable[Measurement]:
    """Run every contender in turns; the first one's answer is the right one."""
    answers = {name: run() for name, run in contenders.items()}  # also the warm-up
    truth = next(iter(answers.values()))
    walls: dict[str, list[float]] = {name: [] for name in contenders}
    cpus: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(repetitions):
        for name, run in contenders.items():
            if answers[name] == truth:
                wall, cpu = time.perf_counter(), time.process_time()
                run()
                walls[name].append(time.perf_counter() - wall)
                cpus[name].append(time.process_time() - cpu)
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    for name in contenders:
        if answers[name] != truth:
            yield Measurement(
                workload, task, name, events, answers[name], right=False, note=f"answered {answers[name]}, not {truth}"
            )
            continue
        quartiles = statistics.quantiles(walls[name], n=4)
        yield Measurement(
            workload,
            task,
            name,
            events,
            truth,
            right=True,
            wall_s=statistics.median(walls[name]),
            spread_s=(quartiles[2] - quartiles[0]) / 2,
            cpu_s=statistics.median(cpus[name]),
            peak_mb=peak_mb,
        )


def about_this_run() -> dict[str, Any]:
    """Where and with what: enough to compare two runs, or to know that they cannot be compared."""
    packages = ("seqube", "numba", "numpy", "pyarrow", "pyspark")
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "versions": {name: version(name) for name in packages},
    }


def as_line(measurement: Measurement) -> str:
    return json.dumps(asdict(measurement) | {"rate": measurement.rate}, default=str)
