"""Spark: what the pipeline costs beside Spark itself, on two cores beside one, and how fast a stream goes.

    keyed      from Parquet to matches of a 3-step pattern over many keys, beside Spark alone that reads, repartitions by key and
               sorts the same columns, and beside a call of the same engine per key (groupBy.applyInArrow). All events are of the
               pattern's types, so that nothing is saved by filtering.
    slices     the same pattern without a key, cut into slices of time, with one core and with two
    stream     micro-batches of 50,000 events over many keys, with a window of many micro-batches: rate, median latency, state

CPU time is that of the whole tree of processes: Python, the JVM and its workers.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.measure import Measurement

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WORKLOAD = "spark"
SEED = 7
KEYED = "SEQ(A a, B b, C c, [id]) WITHIN {window} RETURN a.ts AS x, b.ts AS y, c.ts AS z"
FREE = "SEQ(A a, B b, C c) WITHIN 60 RETURN a.ts AS x, c.ts AS z"


def measurements(quick: bool = False) -> Iterator[Measurement]:
    with tempfile.TemporaryDirectory() as folder:
        n, n_keys = (1_000_000, 10_000) if quick else (10_000_000, 100_000)
        write_events(Path(folder) / "keyed", n, n_keys)
        yield from _in_processes("keyed", 2, folder, n, n_keys)
        n = 2_000_000 if quick else 10_000_000
        write_events(Path(folder) / "slices", n, 1)
        for cores in (1, 2):
            yield from _in_processes("slices", cores, folder, n, 1)
        n_batches, window = (40, 20) if quick else (250, 100)
        yield from _in_processes("stream", 2, folder, n_batches, window)


def write_events(path: Path, n_events: int, n_keys: int, first: int = 0, n_files: int = 8) -> None:
    """Events of three types, one per tick, over keys at random."""
    path.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(SEED + first)
    size = n_events // n_files
    for number in range(n_files):
        times = np.arange(first + number * size, first + (number + 1) * size)
        types = pa.DictionaryArray.from_arrays(random.integers(0, 3, size).astype(np.int8), ["A", "B", "C"])
        table = pa.table({"ts": times, "type": types.cast(pa.string()), "id": random.integers(0, n_keys, size)})
        file = path / f"{first:012d}-{number:03d}.parquet"
        pq.write_table(table, file)
        moment = 1_000_000_000 + first // 1_000 + number
        os.utime(file, (moment, moment))


def _in_processes(task: str, cores: int, *arguments: Any) -> Iterator[Measurement]:
    """A task in a session of its own, which is the only way to have another number of cores."""
    command = [sys.executable, "-m", "bench.workloads.spark", task, str(cores), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr[-2_000:])
    for line in done.stdout.splitlines():
        if line.startswith("{"):
            yield Measurement(**json.loads(line))


# ---------------------------------------------------------------- in the process of a task


def main(task: str, cores: str, *arguments: str) -> None:
    import seqube.spark as sqs

    spark = sqs.session(**{"spark.master": f"local[{cores}]", "spark.driver.memory": "4g", "spark.sql.shuffle.partitions": "4"})
    tasks: dict[str, Callable[..., Iterator[dict[str, Any]]]] = {"keyed": keyed, "slices": slices, "stream": stream}
    for measured in tasks[task](spark, *arguments):
        print(json.dumps({"workload": WORKLOAD, "right": True, "cores": int(cores), **measured}))


def _timed(run: Callable[[], Any], repetitions: int = 3) -> dict[str, Any]:
    run()  # warms up the JVM and the workers
    walls, cpus = [], []
    for _ in range(repetitions):
        wall, cpu = time.perf_counter(), tree_cpu()
        run()
        walls.append(time.perf_counter() - wall)
        cpus.append(tree_cpu() - cpu)
    return {"wall_s": statistics.median(walls), "cpu_s": statistics.median(cpus), "repetitions": repetitions}


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


def _sink(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def keyed(spark: SparkSession, folder: str, n: str, n_keys: str) -> Iterator[dict[str, Any]]:
    import seqube.spark as sqs
    from seqube.engine.state import Matcher
    from seqube.events import Events
    from seqube.language import parse
    from seqube.plan.planner import plan_matches

    events = spark.read.parquet(f"{folder}/keyed")
    query = KEYED.format(window=int(n_keys) * 4)
    about = {"task": "keyed", "events": int(n)}
    answer = sqs.run(query, events).count()
    plan = plan_matches(parse(query))
    by_key = events.groupBy("id").applyInArrow(lambda table: Matcher(plan).run(Events(table)), "x long, y long, z long")
    contenders: dict[str, Callable[[], Any]] = {
        "Spark alone: read, repartition, sort": lambda: _sink(events.repartition("id").sortWithinPartitions("id", "ts")),
        "Seqube: read, shuffle, match": lambda: _sink(sqs.run(query, events)),
    }
    for name, run in contenders.items():
        yield {**about, "contender": name, "answer": answer, **_timed(run)}
    wall, cpu = time.perf_counter(), tree_cpu()
    n_found = by_key.count()
    timed = {"wall_s": time.perf_counter() - wall, "cpu_s": tree_cpu() - cpu, "repetitions": 1}
    yield {**about, "contender": "groupBy(id).applyInArrow", "answer": n_found, **timed, "right": n_found == answer}


def slices(spark: SparkSession, folder: str, n: str, _: str) -> Iterator[dict[str, Any]]:
    import seqube.spark as sqs

    events = spark.read.parquet(f"{folder}/slices")
    answer = sqs.run(FREE, events).count()
    cores = spark.sparkContext.defaultParallelism
    yield {
        "task": "slices", "events": int(n), "contender": f"{cores} cores", "answer": answer,
        **_timed(lambda: _sink(sqs.run(FREE, events))),
    }  # fmt: skip


def stream(spark: SparkSession, folder: str, n_batches: str, window: str) -> Iterator[dict[str, Any]]:
    import seqube.spark as sqs

    size = 50_000
    place = Path(folder) / "stream"
    for number in range(int(n_batches)):
        write_events(place / "in", size, 100_000, first=number * size, n_files=1)
    read = spark.readStream.schema("ts long, type string, id long").option("maxFilesPerTrigger", 1).parquet(str(place / "in"))
    found = sqs.run(KEYED.format(window=int(window) * size), read, lateness="1 second")
    writer = found.writeStream.format("noop").option("checkpointLocation", str(place / "checkpoint")).trigger(availableNow=True)
    spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", "10000")
    query = writer.start()
    query.awaitTermination()
    full = [row for row in query.recentProgress if row.numInputRows and row.batchId >= int(window)]
    states = [row.observedMetrics["seqube"]["state_bytes"] for row in full]
    seconds = [row.durationMs["triggerExecution"] / 1_000 for row in full]
    yield {
        "task": "stream", "events": size, "contender": f"a window of {window} micro-batches", "answer": None,
        "wall_s": statistics.median(seconds), "repetitions": len(full),
        "note": f"{size * len(full) / sum(seconds):,.0f} events/s; state {min(states):,} to {max(states):,} bytes",
    }  # fmt: skip


if __name__ == "__main__":
    main(*sys.argv[1:])
