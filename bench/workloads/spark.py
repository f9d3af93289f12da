"""Spark: what the pipeline costs beside Spark itself, on two cores beside one, and how fast a stream goes.

    keyed      from Parquet to matches of a 3-step pattern over many keys, beside Spark alone that reads, repartitions by key and
               sorts the same columns, and beside a call of the same engine per key (groupBy.applyInArrow). All events are of the
               pattern's types, so that nothing is saved by filtering.
    slices     the same pattern without a key, cut into slices of time, with one core and with two
    counts     COUNT of a pattern without a key, ON TRIGGER and TOTAL, with one core and with two
    workloads  workloads 1 to 3 of the E-Cube paper, each as one batch: shared, and every query by itself in the same pass. Most of
               what a batch costs is to move rows, and five queries have little to share.
    streamed   the same workloads as streams: one micro-batch for each file, every query by itself, and shared as they go on
    related    many related queries, counts and matches of one key: shared, by themselves, and a few of them, beside one alone
    stream     micro-batches over 100,000 keys, with a window of many of them; of 50,000 events (median latency) with a window of
               few and of many micro-batches, over the same events, and as large as a steady stream would make them (rate).
               Nearly all events begin matches and stay in the state for a window; a few can end one. Rates and state are
               those of the micro-batches after the longest window has filled.

CPU time is that of the whole tree of processes: Python, the JVM and its workers.
"""

from __future__ import annotations

import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.measure import Measurement, compare, tree_cpu
from bench.workloads.cube import COMPANIES, PATTERNS, named, related_patterns, workload

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WORKLOAD = "spark"
SEED = 7
N_KEYS = 100_000  # of streams
N_ENDS = 4  # events of a micro-batch that can end matches, each of as many as its key has in the window
USUAL = 50_000  # events of a micro-batch
N_FILES = 2  # of a micro-batch: one for each core
KEYED = "SEQ(A a, B b, C c, [id]) WITHIN {window} RETURN a.ts AS x, b.ts AS y, c.ts AS z"
ROW_PATTERN = """SELECT x, y, z FROM events MATCH_RECOGNIZE (PARTITION BY id ORDER BY ts MEASURES a.ts AS x, b.ts AS y, c.ts AS z
  AFTER MATCH SKIP TO NEXT ROW PATTERN (a p*? b q*? c) WITHIN {window} DEFINE a AS type = 'A', b AS type = 'B', c AS type = 'C')"""
FREE = "SEQ(A a, B b, C c) WITHIN 12 RETURN a.ts AS x, c.ts AS z"
COUNTS = {
    "on trigger": "SEQ(A a, B b, C c) AGG COUNT(*) WITHIN 1000",
    "total": "SEQ(A a, B b, C c) AGG COUNT(*) WITHIN 1000 EMIT TOTAL",
}
AUDITED = 0.01  # of the trades
LONG_S = 3.0  # for a million events: what takes longer is run once
SHORT_MS = 30  # a window of few matches: what is written is the same for all contenders


def measurements(quick: bool = False, chosen: Collection[str] | None = None) -> Iterator[Measurement]:
    """All tasks, or those chosen."""
    with tempfile.TemporaryDirectory() as folder:
        n, n_keys = (1_000_000, 10_000) if quick else (10_000_000, 100_000)
        streams: list[tuple[Any, ...]] = [("stream", folder, 14, (2, 7), USUAL)]
        if not quick:
            streams = [("stream", folder, 230, (10, 200), USUAL), ("stream", folder, 130, (100,), 400_000)]
        # Slices and counts come first in both sessions, so that both are equally warm.
        cut = [("slices", folder, n), ("counts", folder, n)]
        numbers, n_related = ("1", 40) if quick else ("123", 200)
        together = [("workloads", folder, n, numbers), ("related", folder, n, n_keys, n_related)]
        if not quick:
            together.insert(1, ("streamed", folder, n, numbers))
        more = [("keyed", folder, n, n_keys), *together, *streams]
        if chosen:
            cut, more = ([task for task in tasks if task[0] in chosen] for tasks in (cut, more))
        wanted = {task for task, *_ in (*cut, *more)}
        if "keyed" in wanted:
            write_events(Path(folder) / "keyed", n, n_keys)
        if cut:
            write_events(Path(folder) / "slices", n, 1)
        if wanted & {"workloads", "streamed", "related"}:
            write_trades(Path(folder) / "trades", n, n_keys)
        ones = in_session(1, *cut) if cut else []
        twos = in_session(2, *cut, *more)
        for one, two in zip(ones, twos, strict=False):
            yield one
            if one.wall_s and two.wall_s:
                # Both do the same work; what a second core gives is seen in the time that passes.
                times = one.wall_s / two.wall_s
                two = replace(two, contender=f"2 cores, {times:.2f} times as fast", right=one.answer == two.answer)
            yield two
        yield from twos[len(ones) :]
        yield from wanted_of_streams([measured for measured in twos if measured.task == "stream"])


def wanted_of_streams(measured: Sequence[Measurement]) -> Iterator[Measurement]:
    """What is asked of micro-batches, beside what they did: by the window, the latency of usual ones, the rate of large ones."""
    usual = [m for m in measured if m.events == USUAL]
    told = []
    for first, last in zip(usual[:1], usual[-1:], strict=True):
        assert first.wall_s
        assert first.cpu_s
        assert last.wall_s
        assert last.cpu_s
        times = f"{last.wall_s / first.wall_s:.2f} times the time, {last.cpu_s / first.cpu_s:.2f} times the CPU"
        told.append((USUAL, f"{last.contender} beside {first.contender}: at most 1.2 times", times))
        told.append((USUAL, f"the median, with {last.contender}: less than 400 ms", f"{1_000 * last.wall_s:,.0f} ms"))
    told += [(m.events, "sustained: at least 400,000 events/s", m.note.partition(";")[0]) for m in measured if m.events > USUAL]
    for events, asked, found in told:
        yield Measurement(WORKLOAD, f"micro-batches of {events:,}", asked, events, None, right=True, note=found)


def write_events(
    path: Path, n_events: int, n_keys: int, first: int = 0, n_files: int = 8, shares: Sequence[float] = (1 / 3, 1 / 3, 1 / 3)
) -> None:
    """Events of types A, B and C in these shares, one per tick, over keys at random."""
    path.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(SEED + first)
    size = n_events // n_files
    for number in range(n_files):
        times = np.arange(first + number * size, first + (number + 1) * size)
        types = pa.DictionaryArray.from_arrays(random.choice(3, size, p=shares).astype(np.int8), ["A", "B", "C"])
        table = pa.table({"ts": times, "type": types.cast(pa.string()), "id": random.integers(0, n_keys, size)})
        file = path / f"{first:012d}-{number:03d}.parquet"
        pq.write_table(table, file)
        moment = 1_000_000_000 + first // 1_000 + number
        os.utime(file, (moment, moment))


def write_trades(path: Path, n_events: int, n_keys: int, n_files: int = 8) -> None:
    """Trades of the companies of the E-Cube paper, one per millisecond, over keys at random, and now and then an audit."""
    path.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(SEED)
    names = [*(name for below in COMPANIES.values() for name in below), "Audit"]
    size = n_events // n_files
    for number in range(n_files):
        codes = np.where(random.random(size) < AUDITED, len(names) - 1, random.integers(0, len(names) - 1, size))
        types = pa.DictionaryArray.from_arrays(codes.astype(np.int8), names).cast(pa.string())
        times = np.arange(number * size, (number + 1) * size)
        pq.write_table(pa.table({"ts": times, "type": types, "id": random.integers(0, n_keys, size)}), path / f"{number}.parquet")


def related_queries(n: int, n_keys: int) -> dict[str, str]:
    """Half of them matches of a key, half counts at every audit."""
    half = related_patterns(n // 2)
    matches = {f"m{i}": f"SEQ({named(text)}, [id]) WITHIN {4 * n_keys} ms RETURN v0.ts AS at" for i, text in enumerate(half)}
    return matches | {f"c{i}": f"SEQ({named(text)}, Audit last) AGG COUNT(*) WITHIN 1 s" for i, text in enumerate(half)}


def in_session(cores: int, *tasks: tuple[Any, ...]) -> list[Measurement]:
    """Tasks in a session of their own, which is the only way to have another number of cores."""
    command = [sys.executable, "-m", "bench.workloads.spark", str(cores), json.dumps(tasks)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr[-2_000:])
    return [Measurement(**json.loads(line)) for line in done.stdout.splitlines() if line.startswith("{")]


# ---------------------------------------------------------------- in the process of a session


def main(cores: str, tasks: str) -> None:
    import seqube.spark as sqs

    # Python works beside the JVM and so does the garbage collector: only what is bound to one core uses no more than one.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: int(cores)])
    spark = sqs.session(**{"spark.master": f"local[{cores}]", "spark.driver.memory": "4g"})
    known: dict[str, Callable[..., Iterator[dict[str, Any]]]] = {
        "keyed": keyed, "slices": slices, "counts": counts, "workloads": workloads, "related": related, "stream": stream,
        "streamed": streamed, "row patterns": row_patterns,
    }  # fmt: skip
    for task, *arguments in json.loads(tasks):
        # In a stream each partition is a store of state that every micro-batch commits.
        spark.conf.set("spark.sql.shuffle.partitions", cores if task in ("stream", "streamed") else "4")
        for measured in known[task](spark, *arguments):
            print(json.dumps({"workload": WORKLOAD, "right": True, "cores": int(cores), **measured}))


def _timed(
    task: str, n_events: int, answer: int, contenders: dict[str, Callable[[], None]], once_above_s: float = math.inf
) -> Iterator[dict[str, Any]]:
    """Those whose rows nobody looks at, in turns; how much memory the JVM takes is its own affair."""
    for m in compare(WORKLOAD, task, n_events, contenders, repetitions=3, once_above_s=once_above_s, cpu_clock=tree_cpu):
        yield asdict(replace(m, answer=answer, peak_mb=None, cores=len(os.sched_getaffinity(0))))


def _sink(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def keyed(spark: SparkSession, folder: str, n: int, n_keys: int) -> Iterator[dict[str, Any]]:
    import seqube.spark as sqs
    from seqube.engine.matching import Matcher
    from seqube.events import Events
    from seqube.language import parse
    from seqube.plan.planner import plan_matches

    events = spark.read.parquet(f"{folder}/keyed")
    query = KEYED.format(window=n_keys * 4)
    about = {"task": "keyed", "events": n}
    answer = sqs.run(query, events).count()
    plan = plan_matches(parse(query))
    by_key = events.groupBy("id").applyInArrow(lambda table: Matcher(plan).run(Events(table)), "x long, y long, z long")
    contenders: dict[str, Callable[[], None]] = {
        "Spark alone: read, repartition, sort": lambda: _sink(events.repartition("id").sortWithinPartitions("id", "ts")),
        "Seqube: read, shuffle, match": lambda: _sink(sqs.run(query, events)),
    }
    yield from _timed("keyed", n, answer, contenders)
    wall, cpu = time.perf_counter(), tree_cpu()
    n_found = by_key.count()
    timed = {"wall_s": time.perf_counter() - wall, "cpu_s": tree_cpu() - cpu, "repetitions": 1}
    yield {**about, "contender": "groupBy(id).applyInArrow", "answer": n_found, **timed, "right": n_found == answer}


def slices(spark: SparkSession, folder: str, n: int) -> Iterator[dict[str, Any]]:
    import seqube.spark as sqs

    events = spark.read.parquet(f"{folder}/slices")
    answer = sqs.run(FREE, events).count()
    cores = spark.sparkContext.defaultParallelism
    yield from _timed("slices", n, answer, {f"{cores} cores": lambda: _sink(sqs.run(FREE, events))})


def counts(spark: SparkSession, folder: str, n: int) -> Iterator[dict[str, Any]]:
    import seqube.spark as sqs

    events, cores = spark.read.parquet(f"{folder}/slices"), spark.sparkContext.defaultParallelism
    for name, text in COUNTS.items():
        answer = sqs.run(text, events).agg({"count": "sum"}).collect()[0][0]
        yield from _timed(f"COUNT {name}", n, answer, {f"{cores} cores": lambda text=text: _sink(sqs.run(text, events))})


Told = dict[str, tuple[int, int]]  # of each query: how many rows it has, and a number that follows from what is in them


def _tell_all(queries: dict[str, str], events: DataFrame, strategy: str) -> Told:
    """All rows of a workload, each DataFrame by itself, as a user would write them, and what is told of them on the way."""
    import seqube as sq
    import seqube.spark as sqs

    found = sqs.run(queries, events, hierarchy=sq.Hierarchy.from_dict(COMPANIES), strategy=strategy)
    told = {name: _tell(frame) for name, frame in found.items()}
    found.unpersist()
    return told


def _tell(frame: DataFrame) -> tuple[int, int]:
    from pyspark.sql import Observation
    from pyspark.sql import functions as F  # noqa: N812

    seen = Observation()
    digest = F.sum(F.pmod(F.xxhash64(*frame.columns), F.lit(1_000_003)))
    _sink(frame.observe(seen, F.count(F.lit(1)).alias("rows"), digest.alias("digest")))
    return seen.get["rows"], seen.get["digest"] or 0


def _compare_told(
    task: str, n: int, contenders: dict[str, Callable[[], Told]], expected: Told | None = None, alike: int | None = None
) -> Iterator[dict[str, Any]]:
    """Those that tell what they found: the first so many of them (or all) the same, which is `expected` where that is known."""
    found: dict[str, Told] = {}
    timed = {name: lambda name=name, tell=tell: found.update({name: tell()}) for name, tell in contenders.items()}
    of_all = list(contenders)[:alike]
    for row in _timed(task, n, 0, timed, once_above_s=LONG_S * n / 1e6):
        told = found[row["contender"]]
        truth = expected or found[of_all[0]]
        right = told == (truth if row["contender"] in of_all else {name: truth[name] for name in told})
        yield {**row, "answer": sum(rows for rows, _ in told.values()), "right": right}


def workloads(spark: SparkSession, folder: str, n: int, numbers: str) -> Iterator[dict[str, Any]]:
    events = spark.read.parquet(f"{folder}/trades")
    for number in numbers:
        queries = workload(PATTERNS[number], SHORT_MS)
        contenders = {by: partial(_tell_all, queries, events, by) for by in ("independent", "auto", "chase")}
        yield from _compare_told(f"workload {number}", n, contenders)


def streamed(spark: SparkSession, folder: str, n: int, numbers: str) -> Iterator[dict[str, Any]]:
    events = spark.read.parquet(f"{folder}/trades")
    for number in numbers:
        queries = workload(PATTERNS[number], SHORT_MS)
        contenders = {by: partial(_tell_stream, spark, f"{folder}/trades", queries, by) for by in ("independent", "chase")}
        expected = _tell_all(queries, events, "independent")
        yield from _compare_told(f"workload {number} as a stream", n, contenders, expected)


def _tell_stream(spark: SparkSession, path: str, queries: dict[str, str], strategy: str) -> Told:
    """What `_tell_all` tells, of a stream with a micro-batch for each file."""
    import seqube as sq
    import seqube.spark as sqs

    told: Told = dict.fromkeys(queries, (0, 0))

    def write(rows: Mapping[str, DataFrame], number: int) -> None:
        for name, frame in rows.items():
            n_rows, digest = _tell(frame)
            told[name] = told[name][0] + n_rows, told[name][1] + digest

    read = spark.readStream.schema(spark.read.parquet(path).schema).option("maxFilesPerTrigger", 1).parquet(path)
    found = sqs.run(queries, read, hierarchy=sq.Hierarchy.from_dict(COMPANIES), strategy=strategy, lateness="0 seconds")
    with tempfile.TemporaryDirectory() as checkpoint:
        writer = found.foreach_batch(write).option("checkpointLocation", checkpoint)
        writer.trigger(availableNow=True).start().awaitTermination()
    return told


def related(spark: SparkSession, folder: str, n: int, n_keys: int, n_queries: int) -> Iterator[dict[str, Any]]:
    events, queries = spark.read.parquet(f"{folder}/trades"), related_queries(n_queries, n_keys)
    n_some = n_queries // 8  # of each kind: a quarter of all
    some = {name: queries[name] for name in (*list(queries)[:n_some], *list(queries)[-n_some:])}
    one = dict([next(iter(queries.items()))])
    few = events.where(events.ts < n // 20)
    for strategy in ("independent", "auto"):  # the first run of a long one counts, and Spark is slow where all is new to it
        _tell_all(some, few, strategy)
    contenders: dict[str, Callable[[], Told]] = {
        f"{len(queries)} by themselves": partial(_tell_all, queries, events, "independent"),
        f"{len(queries)} shared": partial(_tell_all, queries, events, "auto"),
        f"{len(some)} shared": partial(_tell_all, some, events, "auto"),
        "one": partial(_tell_all, one, events, "auto"),
    }
    yield from _compare_told("related queries", n, contenders, alike=2)


def row_patterns(spark: SparkSession, folder: str, n: int, n_keys: int) -> Iterator[dict[str, Any]]:
    """A clause beside the keyed batch, over the same events: by key, three types one after the other. They answer differently."""
    import seqube.spark as sqs

    events = spark.read.parquet(f"{folder}/keyed")
    events.createOrReplaceTempView("events")
    query, clause = KEYED.format(window=n_keys * 4), ROW_PATTERN.format(window=n_keys * 4)
    answers = {"keyed batch": sqs.run(query, events).count(), "MATCH_RECOGNIZE": sqs.sql(clause).count()}
    contenders: dict[str, Callable[[], None]] = {
        "keyed batch": lambda: _sink(sqs.run(query, events)),
        "MATCH_RECOGNIZE": lambda: _sink(sqs.sql(clause)),
    }
    for row in _timed("Spark: a clause beside the keyed batch", n, 0, contenders):
        yield {**row, "answer": answers[row["contender"]]}


def stream(spark: SparkSession, folder: str, n_batches: int, windows: Sequence[int], n_events: int) -> Iterator[dict[str, Any]]:
    """The same stream with each of these windows, one after the other."""
    place = Path(folder) / f"stream{n_events}"
    shares = (0.5 - N_ENDS / n_events / 2, 0.5 - N_ENDS / n_events / 2, N_ENDS / n_events)
    for number in range(n_batches):
        write_events(place / "in", n_events, N_KEYS, number * n_events, n_files=N_FILES, shares=shares)
    # The last events are decided when the watermark has passed them.
    write_events(place / "in", N_FILES, N_KEYS, (n_batches + 2 * max(windows)) * n_events, n_files=N_FILES)
    spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", "10000")
    first: dict[str, Any] = {}
    for window in windows:
        row = _stream(spark, place, window, n_events, after=max(windows))
        if first:
            times = f"{row['cpu_s'] / first['cpu_s']:.2f} times the CPU, {row['wall_s'] / first['wall_s']:.2f} times the time"
            row["note"] += f"; {times} of {first['contender']}"
        first = first or row
        yield row


def _stream(spark: SparkSession, place: Path, window: int, n_events: int, after: int) -> dict[str, Any]:
    import seqube.spark as sqs

    schema = "ts long, type string, id long"
    read = spark.readStream.schema(schema).option("maxFilesPerTrigger", N_FILES).parquet(str(place / "in"))
    query = KEYED.format(window=window * n_events)
    writer = sqs.run(query, read, lateness="1 second").writeStream.format("noop")
    started = writer.option("checkpointLocation", str(place / f"checkpoint{window}")).trigger(availableNow=True).start()
    cpu, begun = 0.0, -1  # when the longest window has filled, and at which micro-batch that was
    while started.isActive:
        started.awaitTermination(0.2)  # type: ignore[arg-type]
        newest = started.lastProgress.batchId if started.lastProgress else -1
        if begun < 0 and newest > after:
            cpu, begun = tree_cpu(), newest
    cpu = tree_cpu() - cpu
    found = sum(row.observedMetrics["seqube"]["matches"] for row in started.recentProgress if row.observedMetrics)
    full = [row for row in started.recentProgress if row.numInputRows == n_events and row.batchId > after]
    n_timed = sum(row.batchId > begun for row in full)
    states = [row.observedMetrics["seqube"]["state_bytes"] for row in full]
    seconds = [row.durationMs["triggerExecution"] / 1_000 for row in full]
    answer = sqs.run(query, spark.read.schema(schema).parquet(str(place / "in"))).count()
    return {
        "task": "stream", "events": n_events, "contender": f"a window of {window} micro-batches", "answer": found,
        "right": found == answer, "wall_s": statistics.median(seconds), "cpu_s": cpu / n_timed, "repetitions": len(full),
        "note": f"{n_events * len(full) / sum(seconds):,.0f} events/s; state {min(states):,} to {max(states):,} bytes",
        "about": {"window": window, "parts_ms": _parts(full)},
    }  # fmt: skip


def _parts(progress: Sequence[Any]) -> dict[str, float]:
    """The median of what Spark says of the parts of a micro-batch, in milliseconds; those of state are sums over tasks."""
    found: dict[str, list[float]] = defaultdict(list)
    for row in progress:
        for name, value in row.durationMs.items():
            found[name].append(value)
        for operator in row.stateOperators:
            for name in ("commitTimeMs", "allUpdatesTimeMs", "allRemovalsTimeMs"):
                found[f"state {name}"].append(getattr(operator, name))
    return {name: statistics.median(values) for name, values in found.items()}


if __name__ == "__main__":
    main(*sys.argv[1:])
