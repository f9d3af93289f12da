"""How cost grows: with the window, the pattern, the queries, the keys, the events, and what a second core gives.

One thing is varied at a time, the rest stays: a million trades, SEQ of three types within 100 ms, row numbers as the result.
`model` fits what was measured to two numbers, the cost of an event and the cost of an event in a match, and says how far off the
fit is; `docs/benchmarks/scaling.md` is written from it. Streams come from a Parquet file in pieces of half a million events and
hold no more than a piece and a window (a full run streams 50 million). With several cores each process takes its own stretch of
the file, with one window before it (`Matcher.within`), as a Spark task does.
"""

from __future__ import annotations

import multiprocessing
import os
import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import seqube as sq
from bench.measure import Measurement, spread
from bench.peers.worker import forget_peak, peak_mb
from seqube.engine.matching import Matcher
from seqube.generate import TICKERS, generate
from seqube.plan.physical import MatchPlan
from seqube.query import prepare

WORKLOAD = "scaling"
SEED = 0
BUILD = Path("build/bench/scaling")
PIECE = 500_000
WINDOW = 100
PIECES_PER_TASK = 2

Query = str | dict[str, str]


def measurements(quick: bool = False) -> Iterator[Measurement]:
    n_events, repetitions = (1_000_000, 3) if quick else (4_000_000, 7)
    table = trades(n_events)
    events = sq.Events(table)
    too_long_s = 1.0 if quick else 30.0

    def series(name: str, unit: str, points: Iterable[tuple[int, Callable[[], tuple[Query, sq.Events]]]]) -> Iterator[Measurement]:
        """One point after the other; the series ends early where a point takes too long, since the next takes longer."""
        for value, make in points:
            measured = _timed(name, value, unit, *make(), repetitions)
            yield measured
            if measured.wall_s is not None and measured.wall_s > too_long_s:
                return

    def over_same(query: Callable[[int], Query], *values: int) -> list[tuple[int, Callable[[], tuple[Query, sq.Events]]]]:
        return [(value, partial(lambda value: (query(value), events), value)) for value in values]

    yield from series("window, matches", "ms", over_same(lambda w: sequence(3, w), 25, 50, 100, 200, 400))
    yield from series("window, COUNT", "ms", over_same(lambda w: counted(3, w), 100, 1_000, 10_000, 100_000))
    yield from series("length, matches", "types", over_same(lambda n: sequence(n, WINDOW), 2, 3, 4, 5, 6))
    yield from series("length, COUNT", "types", over_same(lambda n: counted(n, WINDOW), 2, 4, 6, 8, 10))
    yield from series("queries", "queries", over_same(lambda n: {str(i): sequence(3, 20, i) for i in range(n)}, 1, 4, 16, 64))
    # The window grows with the keys, so that a key has as many events in it whatever their number.
    keys = [(n, lambda n=n: (sequence(3, 100 * n, keyed=True), sq.Events(keyed_by(table, n)))) for n in (10, 100, 1_000, 10_000)]
    yield from series("keys", "keys", keys)
    sizes = [(n, lambda n=n: (sequence(3, WINDOW), sq.Events(trades(n)))) for n in (100_000, 400_000, 1_600_000, 6_400_000)]
    yield from series("events", "events", sizes)
    stream = write_stream(4_000_000 if quick else 50_000_000)
    yield from streamed(stream)
    yield from on_cores(stream)


# ---------------------------------------------------------------- queries and events


def sequence(length: int, window: int, first: int = 0, keyed: bool = False) -> str:
    """`length` types in a row, the n-th query from the n-th ticker on, with row numbers as the result."""
    names = [TICKERS[(first + slot * (1 + first // len(TICKERS))) % len(TICKERS)] for slot in range(length)]
    parts = [f"{name} v{slot}" for slot, name in enumerate(names)] + ["[id]"] * keyed
    returned = ", ".join(f"v{slot}.row AS v{slot}" for slot in range(length))
    return f"SEQ({', '.join(parts)}) WITHIN {window} ms RETURN {returned}"


def counted(length: int, window: int) -> str:
    return f"{sequence(length, window).partition(' RETURN ')[0]} AGG COUNT"


def trades(n_events: int, seed: int = SEED, first_row: int = 0) -> pa.Table:
    table = generate("stock", n_events, seed).select(["ts", "type", "id"])
    rows = np.arange(first_row, first_row + n_events)
    return table.set_column(0, "ts", pa.array(rows)).append_column("row", pa.array(rows))


def keyed_by(table: pa.Table, n_keys: int) -> pa.Table:
    ids = np.random.default_rng(SEED + 1).integers(0, n_keys, len(table))
    return table.set_column(table.schema.get_field_index("id"), "id", pa.array(ids))


def write_stream(n_events: int) -> Path:
    """Events as a Parquet file, a row group per piece; made once."""
    BUILD.mkdir(parents=True, exist_ok=True)
    path = BUILD / f"trades-{n_events}.parquet"
    if not path.exists():
        draft = path.with_suffix(".draft")
        with pq.ParquetWriter(draft, trades(1).schema) as writer:
            for piece, first_row in enumerate(range(0, n_events, PIECE)):
                writer.write_table(trades(min(PIECE, n_events - first_row), piece, first_row), row_group_size=PIECE)
        draft.replace(path)
    return path


# ---------------------------------------------------------------- measuring


def _timed(series: str, value: int, unit: str, query: Query, events: sq.Events, repetitions: int) -> Measurement:
    """One point of a series; what is known about it goes along for the model."""

    def run() -> int:
        if isinstance(query, str):
            return sq.run(query, events, threads=1).table.num_rows
        return sum(result.table.num_rows for result in sq.run(query, events, threads=1).values())

    n_rows = run()
    walls, cpus = [], []
    forget_peak(os.getpid())
    for _ in range(repetitions):
        wall, cpu = time.perf_counter(), time.process_time()
        run()
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
    about: dict[str, Any] = {"series": series, "value": value, "unit": unit}
    if isinstance(query, str) and "AGG" not in query and "[id]" not in query:
        about |= {"slots": query.count(" AS ")}
    return Measurement(
        WORKLOAD,
        f"{series} {value:,}",
        "seqube",
        len(events),
        n_rows,
        right=True,
        wall_s=statistics.median(walls),
        spread_s=spread(walls),
        cpu_s=statistics.median(cpus),
        peak_mb=peak_mb(os.getpid()),
        repetitions=repetitions,
        about=about,
    )


def streamed(path: Path) -> Iterator[Measurement]:
    """The whole file through `Matcher.step`, a piece at a time, from Parquet to tables of matches."""
    file = pq.ParquetFile(path)
    _step_through(file, range(1))
    for n_pieces in (file.num_row_groups // 4, file.num_row_groups):
        forget_peak(os.getpid())
        wall, cpu = time.perf_counter(), time.process_time()
        n_matches = _step_through(file, range(n_pieces))
        wall, cpu, peak = time.perf_counter() - wall, time.process_time() - cpu, peak_mb(os.getpid())
        yield Measurement(
            WORKLOAD,
            f"stream of {n_pieces * PIECE:,}",
            "seqube",
            n_pieces * PIECE,
            n_matches,
            right=n_matches == _whole(path, n_pieces) if n_pieces * PIECE <= 8_000_000 else True,
            wall_s=wall,
            cpu_s=cpu,
            peak_mb=peak,
            repetitions=1,
            about={"series": "stream", "value": n_pieces * PIECE, "unit": "events"},
        )


def _step_through(file: pq.ParquetFile, pieces: range) -> int:
    batch = sq.Events(file.read_row_group(pieces[0]))
    matcher = Matcher(_plan(batch))
    state, found = matcher.step(matcher.start(), batch)
    n_matches = len(found)
    for piece in pieces[1:]:
        state, found = matcher.step(state, sq.Events(file.read_row_group(piece)))
        n_matches += len(found)
    left = matcher.finish(state)[1]
    return n_matches + (len(left) if left is not None else 0)


def _whole(path: Path, n_pieces: int) -> int:
    table = pq.ParquetFile(path).read_row_groups(range(n_pieces))
    return sq.run(sequence(3, WINDOW), sq.Events(table), threads=1).table.num_rows


def _plan(events: sq.Events) -> MatchPlan:
    plan = prepare(sequence(3, WINDOW), events)
    assert isinstance(plan, MatchPlan)
    return plan


def on_cores(path: Path) -> Iterator[Measurement]:
    """The same file cut into stretches, by one process and by two."""
    n_pieces = pq.ParquetFile(path).num_row_groups
    stretches = [(str(path), first, min(first + PIECES_PER_TASK, n_pieces)) for first in range(0, n_pieces, PIECES_PER_TASK)]
    truth = None
    for cores in (1, 2):
        with ProcessPoolExecutor(cores, multiprocessing.get_context("spawn")) as pool:
            list(pool.map(_match_stretch, stretches[:cores] * 2))  # started and compiled
            walls, cpus = [], []
            for _ in range(3):
                wall = time.perf_counter()
                done = list(pool.map(_match_stretch, stretches))
                walls.append(time.perf_counter() - wall)
                cpus.append(sum(cpu_s for _, cpu_s in done))
        n_matches = sum(found for found, _ in done)
        truth = n_matches if truth is None else truth
        n_events = pq.read_metadata(path).num_rows
        yield Measurement(
            WORKLOAD,
            f"{cores} core{'s' * (cores > 1)}",
            "seqube",
            n_events,
            n_matches,
            right=n_matches == truth,
            wall_s=statistics.median(walls),
            spread_s=spread(walls),
            cpu_s=statistics.median(cpus),
            repetitions=3,
            cores=cores,
            about={"series": "cores", "value": cores, "unit": "cores"},
        )


def _match_stretch(stretch: tuple[str, int, int]) -> tuple[int, float]:
    """The matches that end in a stretch of row groups, and the CPU time they took."""
    began = time.process_time()
    path, first, beyond = stretch
    file = pq.ParquetFile(path)
    table = file.read_row_groups(range(first, beyond))
    start = table.column("ts")[0].as_py()
    if first:
        before = file.read_row_group(first - 1)
        table = pa.concat_tables([before.slice(max(0, len(before) - WINDOW)), table])  # an event per ms: a window is that many rows
    events = sq.Events(table)
    last = int(events.times[-1])
    n_matches = sum(len(found) for found in Matcher(_plan(events)).within(events, start - 1, last))
    return n_matches, time.process_time() - began


# ---------------------------------------------------------------- the model


def model(measured: list[dict[str, Any]]) -> dict[str, float]:
    """What an event costs and what an event in a match costs, in ns of one core: a least-squares fit, and how far off it is."""
    points = [line for line in measured if line["about"].get("slots") and line["cpu_s"]]
    work = np.array([[line["events"], line["answer"] * line["about"]["slots"]] for line in points], np.float64)
    cpu_s = np.array([line["cpu_s"] for line in points])
    # Relative errors are made small, not absolute ones: a short run says as much as a long one.
    costs = np.linalg.lstsq(work / cpu_s[:, None], np.ones(len(points)), rcond=None)[0]
    errors = np.abs(work @ costs / cpu_s - 1)
    return {
        "event_ns": 1e9 * float(costs[0]),
        "bound_ns": 1e9 * float(costs[1]),
        "points": len(points),
        "median_error": float(np.median(errors)),
        "largest_error": float(errors.max()),
    }
