"""What the tasks of a job on Spark took: jobs are run in a session of their own, and read from the log that Spark keeps of events.

A run is a list of stages, one after the other, as our jobs are. A stage has the time in which the driver prepared it, and its
tasks: their seconds, the events that each took (rows read, or its share of the bytes that were shuffled) and the bytes that it left
for the next stage.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.workloads.spark import COUNTS, FREE, KEYED, N_FILES, write_events

N_KEYS = 10_000
BATCH_JOBS = {"keyed matches": KEYED.format(window=4 * N_KEYS), "matches in slices": FREE, "COUNT, EMIT TOTAL": COUNTS["total"]}
STREAM_JOB = "keyed stream"
WARM, TIMED = 2, 3  # runs of a batch, micro-batches of a stream
EMPTY_TASKS = 1_000


@dataclass(frozen=True)
class Stage:
    """One stage of a run; the arrays have an element for each task."""

    driver_s: float
    reads: str  # "input", "shuffle", or "aside" for a task over next to nothing
    run_s: list[float]
    events: list[float]
    written: list[float]


@dataclass(frozen=True)
class Run:
    """One run of a job, or one micro-batch of a stream."""

    job: str
    n_events: int
    cores: int
    wall_s: float
    after_s: float  # what the driver did after the last stage
    input_bytes: int
    stages: list[Stage]
    where: str = "local"


def record(n_events: int, cores: int, master: str | None = None) -> tuple[list[Run], float]:
    """All jobs over so many events, on so many cores here or on the cluster of `master`; and what a task takes of the driver."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "bench.recording", folder, str(n_events), str(cores), *([master] if master else [])]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr[-2_000:])
        told = json.loads(done.stdout.splitlines()[-1])
        log = [json.loads(line) for path in (Path(folder) / "log").iterdir() for line in path.read_text().splitlines()]
    where = "local" if master is None else "standalone cluster"
    runs = []
    for job, began, ended in told["runs"]:
        jobs = [
            event for event in log if event["Event"] == "SparkListenerJobStart" and began <= event["Submission Time"] / 1e3 <= ended
        ]
        stages, last = _stages(jobs, log, n_events, began)
        runs.append(Run(job, n_events, cores, ended - began, max(0.0, ended - last), told["input_bytes"], stages, where))
    return runs, told["dispatch_s"]


def _stages(jobs: list[Any], log: list[Any], n_events: int, began: float) -> tuple[list[Stage], float]:
    """The stages of these jobs in the order of time, and when the last one ended."""
    of_stage: dict[int, list[Any]] = {}
    known = {stage for each in jobs for stage in each["Stage IDs"]}
    for event in log:
        if event["Event"] == "SparkListenerTaskEnd" and event["Stage ID"] in known and not event["Task Info"]["Failed"]:
            of_stage.setdefault(event["Stage ID"], []).append(event)
    stages, before = [], began
    for tasks in sorted(of_stage.values(), key=lambda tasks: min(task["Task Info"]["Launch Time"] for task in tasks)):
        first = min(task["Task Info"]["Launch Time"] for task in tasks) / 1e3
        stages.append(_stage(tasks, n_events, max(0.0, first - before)))
        before = max(before, max(task["Task Info"]["Finish Time"] for task in tasks) / 1e3)
    return stages, before


def _stage(tasks: list[Any], n_events: int, driver_s: float) -> Stage:
    rows = [task["Task Metrics"]["Input Metrics"]["Records Read"] for task in tasks]
    shuffled = [
        sum(task["Task Metrics"]["Shuffle Read Metrics"][name] for name in ("Local Bytes Read", "Remote Bytes Read"))
        for task in tasks
    ]
    if sum(rows) >= n_events / 2:
        reads, sizes = "input", rows
    elif len(tasks) > 1 and sum(shuffled):
        reads, sizes = "shuffle", shuffled
    else:
        reads, sizes = "aside", [0] * len(tasks)
    total = sum(sizes) or 1
    return Stage(
        driver_s,
        reads,
        [(task["Task Info"]["Finish Time"] - task["Task Info"]["Launch Time"]) / 1e3 for task in tasks],
        [n_events * size / total for size in sizes],
        [float(task["Task Metrics"]["Shuffle Write Metrics"]["Shuffle Bytes Written"]) for task in tasks],
    )


# ---------------------------------------------------------------- in the process of a session


def main(folder: str, n_events: str, cores: str, master: str = "") -> None:
    import seqube.spark as sqs

    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: int(cores)])
    log = Path(folder) / "log"
    log.mkdir()
    logged = {"dir": str(log), "enabled": "true", "rolling.enabled": "false", "compress": "false"}
    settings = {"spark.master": master or f"local[{cores}]", "spark.driver.memory": "4g", "spark.sql.shuffle.partitions": "4"}
    spark = sqs.session(**settings, **{f"spark.eventLog.{name}": value for name, value in logged.items()})
    write_events(Path(folder) / "events", int(n_events), N_KEYS)
    events = spark.read.parquet(f"{folder}/events")
    runs = []
    for job, query in BATCH_JOBS.items():
        for number in range(WARM + TIMED):
            began = time.time()
            sqs.run(query, events).write.format("noop").mode("overwrite").save()
            if number >= WARM:
                runs.append((job, began, time.time()))
    runs += _micro_batches(spark, folder, int(n_events), int(cores))
    walls = []
    for _ in range(3):
        began = time.perf_counter()
        spark.range(0, EMPTY_TASKS, 1, EMPTY_TASKS).write.format("noop").mode("overwrite").save()
        walls.append(time.perf_counter() - began)
    spark.stop()
    input_bytes = sum(path.stat().st_size for path in (Path(folder) / "events").iterdir())
    print(json.dumps({"runs": runs, "dispatch_s": statistics.median(walls) / EMPTY_TASKS, "input_bytes": input_bytes}))


def _micro_batches(spark: Any, folder: str, n_events: int, cores: int) -> Iterator[tuple[str, float, float]]:
    """Micro-batches of `n_events` each, by when they began and ended."""
    import seqube.spark as sqs

    place = Path(folder) / "stream"
    for number in range(WARM + TIMED):
        write_events(place / "in", n_events, N_KEYS, number * n_events, n_files=N_FILES)
    spark.conf.set("spark.sql.shuffle.partitions", str(2 * cores))
    read = spark.readStream.schema("ts long, type string, id long").option("maxFilesPerTrigger", N_FILES).parquet(str(place / "in"))
    writer = sqs.run(KEYED.format(window=4 * N_KEYS), read, lateness="1 second").writeStream.format("noop")
    started = writer.option("checkpointLocation", str(place / "checkpoint")).trigger(availableNow=True).start()
    started.awaitTermination()
    full = [row for row in started.recentProgress if row.numInputRows == n_events]
    for row in full[WARM:]:
        began = _seconds(row.timestamp)
        yield STREAM_JOB, began, began + row.durationMs["triggerExecution"] / 1e3


def _seconds(timestamp: str) -> float:
    from datetime import datetime

    return datetime.fromisoformat(timestamp).timestamp()


def as_lines(runs: list[Run]) -> str:
    return "".join(json.dumps(asdict(run)) + "\n" for run in runs)


def from_lines(text: str) -> list[Run]:
    made = (json.loads(line) for line in text.splitlines())
    return [Run(**{**run, "stages": [Stage(**stage) for stage in run["stages"]]}) for run in made]


if __name__ == "__main__":
    main(*sys.argv[1:])
