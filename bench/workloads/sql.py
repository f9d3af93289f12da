"""MATCH_RECOGNIZE: from an Arrow table to the Arrow table of matches, DuckDB around the clause and one thread.

V-shape    a fall and a rise of prices at random: conditions of a row and the one before it, in one partition and in 10,000
bound      the same where conditions look at rows that are bound: the start of the match, the mean of the fall so far
equal      `A+ B+` over equal rows, on which an engine that goes back takes quadratic time
peer       the V-shape beside `pandas-match-recognize`, where it is installed, over as many rows as it can be waited for
Spark      the same events by a clause and by a keyed batch of our own language, CPU of the whole tree of processes
"""

from __future__ import annotations

import functools
import importlib.util
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import seqube as sq
from bench.measure import Measurement, compare
from bench.workloads.spark import in_session, write_events

WORKLOAD = "sql"
SEED = 1
PEER = "pandas-match-recognize"
MEASURES = "MEASURES FIRST(down.ts) AS began, LAST(down.price) AS low, LAST(up.ts) AS ended"
V_SHAPE = "PATTERN (strt down+ up+) DEFINE down AS price < PREV(price), up AS price > PREV(price)"
CLAUSES = {
    "V-shape": V_SHAPE,
    "V-shape, bound to its start": f"{V_SHAPE} AND up.price < 2 * strt.price",
    "V-shape, bound to a mean": f"{V_SHAPE} AND up.price < 2 * AVG(down.price)",
}
STATEMENT = (
    "SELECT * FROM trades MATCH_RECOGNIZE ({apart} ORDER BY ts {measures} ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW {rest})"
)


def measurements(quick: bool = False) -> Iterator[Measurement]:
    n, repetitions = (500_000, 3) if quick else (2_000_000, 9)
    pa.set_cpu_count(1)
    for n_partitions in (1, 10_000):
        table = trades(n, n_partitions)
        for task, rest in CLAUSES.items():
            text = statement(rest, n_partitions)
            named = f"{task}, {n_partitions:,} partition{'s' * (n_partitions > 1)}"
            yield from compare(WORKLOAD, named, n, {"seqube": lambda t=table, q=text: found(q, t)}, repetitions=repetitions)
    yield from _equal(repetitions)
    yield from _beside_peer(10_000 if quick else 100_000, repetitions)
    yield from _on_spark(quick)


def trades(n: int, n_partitions: int) -> pa.Table:
    """Prices at random, one per tick, by symbol."""
    random = np.random.default_rng(SEED)
    symbols = np.sort(random.integers(0, n_partitions, n))
    return pa.table({"symbol": symbols, "ts": np.arange(n), "price": random.integers(0, 1_000, n)})


def statement(rest: str, n_partitions: int) -> str:
    return STATEMENT.format(apart="PARTITION BY symbol" if n_partitions > 1 else "", measures=MEASURES, rest=rest)


def found(text: str, table: pa.Table) -> tuple[int, int]:
    """How many matches, and where they end."""
    return summed(sq.sql(text, trades=table, connection=_connection(), threads=1))


@functools.cache
def _connection() -> Any:
    """One for all: to start DuckDB takes longer than a small clause."""
    import duckdb

    return duckdb.connect(config={"threads": 1})


def summed(matches: Any) -> tuple[int, int]:
    ended = np.asarray(matches["ended"])
    return len(ended), int(ended.sum())


def _equal(repetitions: int) -> Iterator[Measurement]:
    equal = pa.table({"ts": np.arange(5_000), "price": np.ones(5_000)})
    rest = "MEASURES LAST(ts) AS ended PATTERN (a+ b+) DEFINE a AS price = 1, b AS price = 1"
    text = f"SELECT * FROM trades MATCH_RECOGNIZE (ORDER BY ts {rest})"
    yield from compare(WORKLOAD, "A+ B+ over equal rows", 5_000, {"seqube": lambda: found(text, equal)}, repetitions=repetitions)


def _beside_peer(n: int, repetitions: int) -> Iterator[Measurement]:
    table, text = trades(n, 100), statement(V_SHAPE, 100)
    contenders: dict[str, Callable[[], Any]] = {"seqube": lambda: found(text, table)}
    if importlib.util.find_spec("pandas_match_recognize"):
        from pandas_match_recognize import match_recognize

        frame = table.to_pandas()
        contenders[PEER] = lambda: summed(match_recognize(text, frame))
    else:
        print(f"{PEER} is not installed: make bench-peers")
    yield from compare(WORKLOAD, "V-shape beside a peer, 100 partitions", n, contenders, repetitions=repetitions, once_above_s=1.0)


def _on_spark(quick: bool) -> Iterator[Measurement]:
    n, n_keys = (300_000, 3_000) if quick else (10_000_000, 100_000)
    with tempfile.TemporaryDirectory() as folder:
        write_events(Path(folder) / "keyed", n, n_keys)
        for measured in in_session(2, ("row patterns", folder, n, n_keys)):
            yield replace(measured, workload=WORKLOAD)
