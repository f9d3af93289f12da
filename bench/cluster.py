"""What a cluster would do: a discrete-event simulation of our jobs on Spark with up to a thousand cores, from tasks measured here.

    python -m bench.cluster               record jobs, hold the simulation against real runs, write docs/benchmarks/cluster.md
    python -m bench.cluster --recorded    the same from the records that are checked in

A job is a row of stages (`recording`). What a task of a stage takes is fitted to its events, a fixed part and a part for each, and
what the fit leaves over is drawn again for every simulated task: distributions, not means. How many tasks there are, and how many
events fall on each, is asked of the code that decides it on Spark (`seqube.spark.batch`, `routing`, `streaming.stream`).

The cluster: a driver that hands out tasks one after the other; nodes with some cores, one network card and one disk each, which
serve whoever comes first; nodes that are slow, and nodes that are lost with what they were doing and with what they kept for the
next stage, and come back. What bounds a job is found by lifting one limit at a time.
"""

from __future__ import annotations

import argparse
import heapq
import json
import math
import statistics
import tempfile
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.measure import about_this_run
from bench.recording import STREAM_JOB, Run, as_lines, from_lines, record
from bench.report import Run as Measured
from bench.report import provenance
from bench.standalone import standalone
from seqube.spark.batch import BUCKETS_PER_TASK, HALO, SMALL, n_tasks_for
from seqube.spark.routing import lay_out
from seqube.spark.streaming.stream import STATE_BUCKETS, buckets_for

Floats = NDArray[np.float64]

PAGE = Path("docs/benchmarks/cluster.md")
RECORDS = Path("docs/benchmarks/measured/cluster.jsonl")
SIZES = (500_000, 2_000_000)  # of what is recorded: two, so that fixed costs can be told from those of an event
CORES = (1, 2, 8, 32, 128, 512, 1_000)
SPLIT, OPENING = 128 << 20, 4 << 20  # how Spark cuts files: the bytes of a task, and what opening a file counts
SPARK_PARTITIONS = 200  # Spark's own number of shuffle partitions
WINDOW_EVENTS = {"matches in slices": 12, "COUNT, EMIT TOTAL": 1_000}
N_KEYS = 1_000_000
SEEDS = 5


@dataclass(frozen=True)
class Cluster:
    """The machines, by the rates that their papers give: 10 Gbit/s and a gigabyte per second of disk for eight cores."""

    cores: int
    dispatch_s: float = 0.002
    cores_per_node: int = 8
    network: float = 1.25e9
    disk: float = 1e9
    slow_nodes: float = 0.0  # the share of them
    slow_by: float = 2.0
    losses_per_hour: float = 0.0  # of a node
    back_after_s: float = 20.0

    @property
    def n_nodes(self) -> int:
        return -(-self.cores // self.cores_per_node)


@dataclass(frozen=True)
class Work:
    """A task: bytes that come over the network, seconds on a core, bytes that go to disk."""

    read: float
    compute_s: float
    write: float


@dataclass(frozen=True)
class Step:
    """A stage: what the driver does first, then the tasks."""

    driver_s: float
    tasks: Sequence[Work]


@dataclass(frozen=True)
class Outcome:
    seconds: float
    core_s: float  # of all tasks, those that were lost included
    n_again: int  # tasks that were done a second time


# ---------------------------------------------------------------- the simulation


class _Nodes:
    """The cores, cards and disks, and what is going to happen to them."""

    def __init__(self, cluster: Cluster, random: np.random.Generator) -> None:
        self.cluster, self.random = cluster, random
        self.now = self.driver_free = self.core_s = 0.0
        self.n_again = self._number = 0
        self.events: list[tuple[float, int, str, int, int, int]] = []  # when, tie-break, what, node, life of the node, task
        self.idle = deque(core % cluster.n_nodes for core in range(cluster.cores))
        self.life = [0] * cluster.n_nodes
        self.network_free, self.disk_free = [0.0] * cluster.n_nodes, [0.0] * cluster.n_nodes
        self.speed = np.where(random.random(cluster.n_nodes) < cluster.slow_nodes, cluster.slow_by, 1.0)
        for node in range(cluster.n_nodes):
            self._expect_loss(node)

    def put(self, when: float, what: str, node: int, task: int = -1) -> None:
        self._number += 1
        heapq.heappush(self.events, (when, self._number, what, node, self.life[node], task))

    def _expect_loss(self, node: int) -> None:
        if self.cluster.losses_per_hour:
            self.put(self.now + self.random.exponential(3_600 / self.cluster.losses_per_hour), "lost", node)

    def run(self, step: Step, before: Sequence[Work], kept: list[int]) -> list[int]:
        """Do the tasks of a step, and say on which node each left its rows; `kept` says the same of the step before."""
        self.now += step.driver_s
        tasks, place = list(step.tasks), [-1] * len(step.tasks)
        waiting, running, left = deque(range(len(tasks))), {}, len(tasks)
        while left:
            while waiting and self.idle:
                node, task = self.idle.popleft(), waiting.popleft()
                self.driver_free = max(self.now, self.driver_free) + self.cluster.dispatch_s
                running[task] = node
                self.put(self.driver_free, "read", node, task)
            self.now, _, what, node, life, task = heapq.heappop(self.events)
            if life != self.life[node]:
                continue  # of a node that has been lost since
            match what:
                case "read":
                    self.put(self._serve(self.network_free, node, tasks[task].read / self.cluster.network), "compute", node, task)
                case "compute":
                    seconds = tasks[task].compute_s * float(self.speed[node])
                    self.core_s += seconds
                    self.put(self.now + seconds, "write", node, task)
                case "write":
                    self.put(self._serve(self.disk_free, node, tasks[task].write / self.cluster.disk), "done", node, task)
                case "done":
                    del running[task]
                    place[task] = node
                    self.idle.append(node)
                    left -= 1
                case "lost":
                    again = [task for task, where in running.items() if where == node]
                    # What the step before had left there is made again, ahead of everything that waits.
                    redone = [before[task] for task, where in enumerate(kept) if where == node]
                    kept = [where if where != node else -1 for where in kept]
                    waiting.extendleft([*again, *range(len(tasks), len(tasks) + len(redone))])
                    tasks += redone
                    place += [-1] * len(redone)
                    left += len(redone)
                    self.n_again += len(again) + len(redone)
                    for task in again:
                        del running[task]
                    self.idle = deque(where for where in self.idle if where != node)
                    self.life[node] += 1
                    self.put(self.now + self.cluster.back_after_s, "back", node)
                case "back":
                    self.network_free[node] = self.disk_free[node] = self.now
                    here = self.cluster.cores // self.cluster.n_nodes + (node < self.cluster.cores % self.cluster.n_nodes)
                    self.idle.extend([node] * here)
                    self._expect_loss(node)
        return place[: len(step.tasks)]

    def _serve(self, free: list[float], node: int, seconds: float) -> float:
        """When a card or a disk is done, which takes one after the other."""
        free[node] = max(self.now, free[node]) + seconds
        return free[node]


def simulate(steps: Sequence[Step], cluster: Cluster, random: np.random.Generator) -> Outcome:
    nodes = _Nodes(cluster, random)
    before: Sequence[Work] = ()
    kept: list[int] = []
    for step in steps:
        kept = nodes.run(step, before, kept)
        before = step.tasks
    return Outcome(nodes.now, nodes.core_s, nodes.n_again)


# ---------------------------------------------------------------- jobs as they were measured


@dataclass(frozen=True)
class StageCost:
    """What a stage costs: the driver before it, a task for itself and for each event, and what was seen beside that."""

    reads: str
    driver_s: float
    task_s: float
    event_s: float
    noise: Floats  # seconds of a task over those of the fit
    written: float  # bytes for an event


@dataclass(frozen=True)
class Job:
    name: str
    stages: Sequence[StageCost]
    after_s: float
    input_bytes: float  # for an event


def learn(runs: Sequence[Run]) -> Job:
    """The costs of a job from its runs on one core, of two sizes."""
    shape = [stage.reads for stage in runs[-1].stages]
    alike = [run for run in runs if [stage.reads for stage in run.stages] == shape]
    costs = []
    for number, reads in enumerate(shape):
        stages = [run.stages[number] for run in alike]
        seconds = np.concatenate([stage.run_s for stage in stages])
        events = np.concatenate([stage.events for stage in stages])
        task_s, event_s = _fit(events, seconds)
        written = sum(sum(stage.written) for stage in stages) / sum(run.n_events for run in alike)
        driver_s = statistics.median(stage.driver_s for stage in stages)
        costs.append(StageCost(reads, driver_s, task_s, event_s, seconds / (task_s + event_s * events), written))
    after_s = statistics.median(run.after_s for run in alike)
    return Job(runs[0].job, costs, after_s, runs[-1].input_bytes / runs[-1].n_events)


def _fit(events: Floats, seconds: Floats) -> tuple[float, float]:
    """Seconds of a task and of an event, neither below nothing, by relative errors: a short task says as much as a long one."""
    if np.ptp(events) == 0:
        return float(np.median(seconds)), 0.0
    points = np.stack([np.ones_like(events), events], axis=1) / seconds[:, None]
    task_s, event_s = np.linalg.lstsq(points, np.ones(len(events)), rcond=None)[0]
    if event_s < 0:
        return float(np.median(seconds)), 0.0
    if task_s < 0:
        return 1e-3, float(np.median(seconds / np.maximum(events, 1)))
    return float(task_s), float(event_s)


@dataclass(frozen=True)
class Load:
    """What a job is given, and what decides how it is cut."""

    n_events: int
    partitions: int  # of a shuffle
    zipf: float = 0.0  # how uneven the keys are; 0 is even
    n_files: int | None = None
    even: bool = False  # as if every task had its share, and no task were slower than another
    buckets: int | None = None  # of the state of a stream; None: as many as the cluster asks for


def steps_of(job: Job, load: Load, cluster: Cluster, random: np.random.Generator) -> list[Step]:
    remote = 1 - 1 / cluster.n_nodes
    steps, left = [], 0.0
    for stage in job.stages:
        sizes = _sizes(job, stage, load, cluster, random)
        if load.even and len(sizes):
            sizes = np.full(len(sizes), sizes.mean())
        noise = np.ones(len(sizes)) if load.even else random.choice(stage.noise, len(sizes))
        read = job.input_bytes if stage.reads == "input" else left * remote
        seconds = (stage.task_s + stage.event_s * sizes) * noise
        tasks = [Work(*each) for each in zip(read * sizes, seconds, stage.written * sizes, strict=True)]
        steps.append(Step(stage.driver_s, tasks))
        left = stage.written
    return [*steps, Step(job.after_s, [])]


def _sizes(job: Job, stage: StageCost, load: Load, cluster: Cluster, random: np.random.Generator) -> Floats:
    """How many events each task of a stage takes."""
    if stage.reads == "aside":
        return np.zeros(1)
    if stage.reads == "input":
        total = load.n_events * job.input_bytes
        n_files = load.n_files or max(8, math.ceil(total / SPLIT))
        split = min(SPLIT, max(OPENING, (total + n_files * OPENING) / cluster.cores))
        n_tasks = max(1, math.ceil((total + n_files * OPENING) / split))
        return np.full(n_tasks, load.n_events / n_tasks)
    if job.name == STREAM_JOB:
        buckets = _spread(load, load.buckets or buckets_for(cluster.cores), random)
        return np.bincount(random.integers(0, load.partitions, len(buckets)), buckets, load.partitions)
    n_tasks = n_tasks_for(load.n_events, load.partitions)
    if (window := WINDOW_EVENTS.get(job.name)) is not None:
        n_slices = max(1, min(n_tasks, load.n_events // (HALO * window)))
        return np.full(n_slices, load.n_events / n_slices + window)
    sizes = _spread(load, BUCKETS_PER_TASK * load.partitions, random)
    limit = max(2 * load.n_events / n_tasks, SMALL)  # as `sqs.run` has it
    hot = np.flatnonzero(sizes > limit)
    cuts = {int(each): range(1, math.ceil(sizes[each] * n_tasks / load.n_events)) for each in hot}
    layout = lay_out(0, 0, [int(size) for size in sizes], cuts, n_tasks, 0, 0)
    of_task = np.zeros(len(layout.tasks))
    for bucket, positions in enumerate(layout.of_bucket):
        of_task[list(positions)] += sizes[bucket] / len(positions)
    return of_task


def _spread(load: Load, n_buckets: int, random: np.random.Generator) -> Floats:
    """The events of each bucket, into which keys fall by chance."""
    weights = np.arange(1, N_KEYS + 1) ** -load.zipf
    buckets = np.bincount(random.integers(0, n_buckets, N_KEYS), weights, n_buckets)
    return load.n_events * buckets / weights.sum()


# ---------------------------------------------------------------- what it says


def seconds_of(job: Job, load: Load, cluster: Cluster) -> float:
    return statistics.median(_one(job, load, cluster, seed).seconds for seed in range(SEEDS))


def _one(job: Job, load: Load, cluster: Cluster, seed: int) -> Outcome:
    random = np.random.default_rng(seed)
    return simulate(steps_of(job, load, cluster, random), cluster, random)


def bound(job: Job, load: Load, cluster: Cluster) -> tuple[str, float]:
    """The limit without which a job would be the fastest, and by how much."""
    by_hand = replace(job, stages=[replace(stage, driver_s=0.0) for stage in job.stages], after_s=0.0)
    lifted = {
        "what the driver does between stages": seconds_of(by_hand, load, cluster),
        "handing out tasks": seconds_of(job, load, replace(cluster, dispatch_s=0.0)),
        "the slowest task": seconds_of(job, replace(load, even=True), cluster),
        "network and disk": seconds_of(job, load, replace(cluster, network=math.inf, disk=math.inf)),
    }
    whole = seconds_of(job, load, cluster)
    name = min(lifted, key=lifted.__getitem__)
    gain = whole / lifted[name]
    return (name, gain) if gain > 1.15 else ("the cores", 1.0)


@dataclass(frozen=True)
class Check:
    """A real run beside what was simulated for it from runs on one core."""

    job: str
    where: str
    n_events: int
    real_s: float
    simulated_s: float


def checks(jobs: dict[str, Job], runs: Sequence[Run], dispatch_s: float) -> Iterator[Check]:
    groups: dict[tuple[str, str, int], list[Run]] = {}
    for run in runs:
        groups.setdefault((run.job, f"{run.cores} cores, {run.where}", run.n_events), []).append(run)
    for (name, where, n_events), alike in groups.items():
        cores = alike[0].cores
        one_machine = Cluster(cores, dispatch_s, cores_per_node=cores, network=math.inf, disk=math.inf)
        load = Load(n_events, 2 * cores, n_files=2) if name == STREAM_JOB else Load(n_events, 4, n_files=8)
        yield Check(name, where, n_events, statistics.median(r.wall_s for r in alike), seconds_of(jobs[name], load, one_machine))


def page(runs: Sequence[Run], about: dict[str, Any]) -> list[str]:
    dispatch_s = about["dispatch_s"]
    names = dict.fromkeys(run.job for run in runs)
    jobs = {name: learn([run for run in runs if run.job == name and run.cores == 1 and run.where == "local"]) for name in names}
    assumed = (
        f"Jobs were recorded over {' and '.join(f'{size:,}' for size in SIZES)} events on one core; "
        f"the driver needs {1e3 * dispatch_s:.1f} ms for a task.\n"
        "Not measured but assumed: nodes of 8 cores with 10 Gbit/s and 1 GB/s of disk each."
    )
    lines = ["# A cluster, simulated", "", *provenance(Measured("cluster", about, [])), assumed, ""]
    lines += _checked(list(checks(jobs, runs, dispatch_s)))
    for name, job in jobs.items():
        lines += _predicted(job, dispatch_s) if name != STREAM_JOB else _sustained(job, dispatch_s)
    return [*lines, *_adversity(jobs["keyed matches"], dispatch_s), *_decided(jobs, dispatch_s)]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(head)} |", f"|{'---|' + '---:|' * (len(head) - 1)}", *(f"| {' | '.join(row)} |" for row in rows), ""]


def _checked(found: Sequence[Check]) -> list[str]:
    off = [abs(check.simulated_s / check.real_s - 1) for check in found if not check.where.startswith("1 cores")]
    rows = [
        (
            check.job,
            check.where.replace("1 cores", "1 core"),
            f"{check.n_events:,}",
            f"{check.real_s:.2f}",
            f"{check.simulated_s:.2f}",
        )
        for check in found
    ]
    finding = (
        "Runs on more than one core, of which the simulation knows nothing, are met within "
        f"{statistics.median(off):.0%} in the median and {max(off):.0%} at worst."
    )
    return ["## Held against real runs", "", finding, "", *_table(("job", "where", "events", "real s", "simulated s"), rows)]


def _predicted(job: Job, dispatch_s: float) -> list[str]:
    n_events = 1_000_000_000
    rows, ends = [], None
    first = 0.0
    for cores in CORES:
        cluster = Cluster(cores, dispatch_s)
        fixed, ours = (seconds_of(job, Load(n_events, p), cluster) for p in (SPARK_PARTITIONS, max(SPARK_PARTITIONS, 2 * cores)))
        first = first or ours * cores
        name, gain = bound(job, Load(n_events, max(SPARK_PARTITIONS, 2 * cores)), cluster)
        efficiency = first / (ours * cores)
        ends = ends or (cores if efficiency < 0.5 else None)
        rows.append(
            (
                f"{cores:,}",
                f"{fixed:,.1f}",
                f"{ours:,.1f}",
                f"{efficiency:.0%}",
                f"{name}" + (f" ({gain:.1f} times)" if gain > 1 else ""),
            )
        )
    finding = (
        f"Half of the cores are idle from {ends:,} cores on."
        if ends
        else f"It scales to {CORES[-1]:,} cores: more than half of their time is used."
    )
    head = ("cores", f"s with Spark's {SPARK_PARTITIONS} partitions", "s with two for each core", "of the cores used", "bound by")
    return [f"## {job.name}, {n_events:,} events", "", finding, "", *_table(head, rows)]


def _sustained(job: Job, dispatch_s: float) -> list[str]:
    """For streams, the rate that is kept up with micro-batches of at most two seconds."""
    rows = []
    for cores in CORES:
        cluster = Cluster(cores, dispatch_s)
        best = {}
        for partitions in {min(2 * cores, SPARK_PARTITIONS), 2 * cores}:
            n_events = 50_000
            while (seconds := seconds_of(job, Load(2 * n_events, partitions), cluster)) <= 2 and n_events < 1 << 30:
                n_events *= 2
            seconds = seconds_of(job, Load(n_events, partitions), cluster)
            best[n_events / seconds] = (n_events, seconds, partitions)
        rate = max(best)
        n_events, seconds, partitions = best[rate]
        name, gain = bound(job, Load(n_events, partitions), cluster)
        rows.append(
            (
                f"{cores:,}",
                f"{rate / 1e6:.2f} M",
                f"{n_events:,}",
                f"{seconds:.2f}",
                f"{partitions:,}",
                f"{name}" + (f" ({gain:.1f} times)" if gain > 1 else ""),
            )
        )
    head = ("cores", "events/s", "a micro-batch", "its seconds", "partitions", "bound by")
    return [f"## {job.name}, micro-batches of two seconds at most", "", *_table(head, rows)]


def _adversity(job: Job, dispatch_s: float) -> list[str]:
    """What goes wrong on clusters: uneven keys, slow nodes, lost nodes."""
    n_events, rows = 1_000_000_000, []
    cases = {
        "nothing": ({}, {}),
        "keys by Zipf's law (1.1)": ({"zipf": 1.1}, {}),
        "every twentieth node at half its speed": ({}, {"slow_nodes": 0.05}),
        "each node lost twice an hour": ({}, {"losses_per_hour": 2.0}),
        "a tenth of the network": ({}, {"network": 1.25e8}),
    }
    for what, (of_load, of_cluster) in cases.items():
        row = [what]
        for cores in (32, 128, 512):
            load = Load(n_events, max(SPARK_PARTITIONS, 2 * cores), **of_load)
            row.append(f"{seconds_of(job, load, Cluster(cores, dispatch_s, **of_cluster)):.1f}")
        rows.append(row)
    return [f"## What goes wrong: {job.name}, {n_events:,} events", "", *_table(("what", "s on 32 cores", "128", "512"), rows)]


def _decided(jobs: dict[str, Job], dispatch_s: float) -> list[str]:
    """What could be otherwise: the buckets of streams, the tasks of batches."""
    n_batch, n_events = 3_200_000, 1_000_000_000
    stream, batch = jobs[STREAM_JOB], jobs["keyed matches"]
    cores = [each for each in CORES if each >= 32]
    choices = {
        f"a micro-batch of {n_batch:,}, state in {STATE_BUCKETS} buckets": lambda n: (
            stream,
            Load(n_batch, 2 * n, buckets=STATE_BUCKETS),
        ),
        "**the same, two buckets for each core**": lambda n: (stream, Load(n_batch, 2 * n)),
        f"**{n_events:,} events in a batch, tasks by Spark's {SPARK_PARTITIONS} partitions**": lambda _: (
            batch,
            Load(n_events, SPARK_PARTITIONS),
        ),
        "the same, a task for each core": lambda n: (batch, Load(n_events, n)),
        "the same, four for each core": lambda n: (batch, Load(n_events, 4 * n)),
    }
    rows = [(what, *(f"{seconds_of(*choice(n), Cluster(n, dispatch_s)):.1f}" for n in cores)) for what, choice in choices.items()]
    told = "What stands in bold is what Seqube does; streams had 16 buckets on any cluster before."
    return [
        "## What was decided by it",
        "",
        told,
        "",
        *_table(("what", f"s on {cores[0]} cores", *(f"{n:,}" for n in cores[1:])), rows),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.cluster", description="Simulate a cluster from jobs that are measured here.")
    parser.add_argument("--recorded", action="store_true", help="by the records that are checked in")
    if not parser.parse_args().recorded:
        about = about_this_run("python -m bench.cluster")
        runs, dispatch = [], []
        for size in SIZES:
            for cores in (1, 2):
                found, dispatch_s = record(size, cores)
                runs += found
                dispatch.append(dispatch_s)
        with tempfile.TemporaryDirectory() as folder, standalone(Path(folder), memory="2g") as running:
            runs += record(SIZES[-1], 2, running.url)[0]
        about["dispatch_s"] = statistics.median(dispatch)
        RECORDS.write_text(json.dumps(about) + "\n" + as_lines(runs), encoding="utf-8")
    first, _, rest = RECORDS.read_text(encoding="utf-8").partition("\n")
    PAGE.write_text("\n".join(page(from_lines(rest), json.loads(first))), encoding="utf-8")
    print(PAGE)


if __name__ == "__main__":
    main()
