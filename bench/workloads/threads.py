"""Threads on more cores than there are here: the slices of the peer suite's queries timed one by one on one core, then scheduled.

Slices are begun in their order by whichever core is free; what is no part of a slice (parsing, planning, the index by type where it
is not there yet, putting the pieces together) is taken to be done by one core while all others wait. Two cores are measured, too,
where there are two: what they take beyond the simulation is what threads pay for together, page faults of fresh arrays above all.
What bounds a query is found by lifting one limit at a time.
"""

from __future__ import annotations

import heapq
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import seqube as sq
from bench.measure import Measurement
from bench.peers import Task, tasks
from bench.workloads.peers import stock20
from seqube.engine import at_hand

WORKLOAD = "threads"
CORES = (2, 4, 8, 16)


@dataclass(frozen=True)
class Timed:
    """What a run took on one core: all of it, and each of its slices."""

    total_s: float
    slices: tuple[float, ...]
    n_rows: int

    @property
    def serial_s(self) -> float:
        return max(0.0, self.total_s - sum(self.slices))


def measurements(quick: bool = False) -> Iterator[Measurement]:
    n, repetitions = (2_000_000, 3) if quick else (10_000_000, 7)
    events = sq.Events(stock20(n))
    for task in tasks().values():
        timed = sorted((time_slices(task, events) for _ in range(repetitions + 1)), key=lambda run: run.total_s)
        yield from simulated(f"Q-{task.name}", n, timed[len(timed) // 2])
        if len(os.sched_getaffinity(0)) > 1:
            yield two_threads(f"Q-{task.name}", task, events, repetitions)


def time_slices(task: Task, events: sq.Events) -> Timed:
    costs: list[float] = []

    def one_by_one(slices: Sequence[Callable[[], Iterator[Any]]], *_: Any) -> Iterator[Any]:
        for begin in slices:
            began = time.thread_time()
            found = list(begin())
            costs.append(time.thread_time() - began)
            yield from found

    with patch.object(at_hand, "answer_slices", one_by_one):
        began = time.thread_time()
        n_rows = sq.run(task.text, events, threads=1).table.num_rows
        return Timed(time.thread_time() - began, tuple(costs), n_rows)


def makespan(slices: Sequence[float], cores: int) -> float:
    """When the last slice is done, if each is begun in order by the core that is free first."""
    free = [0.0] * cores
    for cost in slices:
        heapq.heapreplace(free, free[0] + cost)
    return max(free)


def simulated(task: str, n_events: int, run: Timed) -> Iterator[Measurement]:
    about = {"slices": len(run.slices), "serial_s": run.serial_s, "longest_s": max(run.slices)}
    yield Measurement(
        WORKLOAD,
        task,
        "1 core",
        n_events,
        run.n_rows,
        True,
        run.total_s,
        cpu_s=None,
        note=f"{len(run.slices):,} slices",
        about=about,
    )
    for cores in CORES:
        seconds = run.serial_s + makespan(run.slices, cores)
        yield Measurement(
            WORKLOAD, task, f"{cores} cores, simulated", n_events, run.n_rows, True, seconds, note=bound(run, cores), cores=cores
        )


def bound(run: Timed, cores: int) -> str:
    """The limit whose absence would gain most."""
    seconds = run.serial_s + makespan(run.slices, cores)
    gains = {
        f"what is no slice ({run.serial_s / run.total_s:.0%} of one core)": run.serial_s,
        f"{len(run.slices):,} slices of which the longest has {max(run.slices) / sum(run.slices):.0%}": makespan(run.slices, cores)
        - sum(run.slices) / cores,
        "the cores": seconds - (run.serial_s + makespan(run.slices, 2 * cores)),
    }
    return f"bound by {max(gains, key=lambda limit: gains[limit])}"


def two_threads(label: str, task: Task, events: sq.Events, repetitions: int) -> Measurement:
    walls, cpus = [], []
    for _ in range(repetitions):
        began, cpu = time.perf_counter(), time.process_time()
        n_rows = sq.run(task.text, events, threads=2).table.num_rows
        walls.append(time.perf_counter() - began)
        cpus.append(time.process_time() - cpu)
    note = f"{statistics.median(cpus) * 1000:.0f} ms of CPU"
    seconds = statistics.median(walls)
    return Measurement(WORKLOAD, label, "2 cores, measured", len(events), n_rows, True, seconds, note=note, cores=2)
