"""NEXT, STRICT and funnels: the first event that fits instead of every combination.

Over the events of the peer suite, from an `Events` to the Arrow table of matches; what is asked between events is asked in a loop,
so it has rows of its own. A funnel over a million keys stands beside ClickHouse's `windowFunnel`, where `chdb` is installed: one
thread each, events in memory, the same number of keys at every step.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

import seqube as sq
from bench import clickhouse
from bench.measure import Measurement, compare
from seqube.generate import generate

WORKLOAD = "runs"
SEED = 0

QUERIES = {
    "NEXT of three": "NEXT(DELL a, IPIX b, QQQ c) WITHIN 100 ms",
    "STRICT of three": "STRICT(DELL a, IPIX b, QQQ c) WITHIN 100 ms",
    "NEXT of three, same id": "NEXT(DELL a, IPIX b, QQQ c, [id]) WITHIN 10 s",
    "NEXT of three, in each partition": "NEXT(DELL a, IPIX b, QQQ c) PARTITION BY id WITHIN 10 s",
    "NEXT with a repeated part": "NEXT(DELL a, IPIX+ b, QQQ c) WITHIN 100 ms",
    "NEXT, rising ids": "NEXT(DELL a, IPIX b, QQQ c) WHERE a.id < b.id AND b.id < c.id WITHIN 100 ms",
    "NEXT, a repeated part that rises": "NEXT(DELL a, IPIX+ b, QQQ c) WHERE b.id > PREV(b.id) WITHIN 100 ms",
    "NEXT, one match at a time": "NEXT(DELL a, IPIX b, QQQ c) SKIP PAST LAST WITHIN 100 ms",
}
STEPS = ("view", "click", "cart", "ship", "pay")
SHARES = (0.3, 0.25, 0.2, 0.15, 0.1)


def measurements(quick: bool = False) -> Iterator[Measurement]:
    n = 1_000_000
    events = sq.Events(generate("stock", n, SEED))
    for task, text in QUERIES.items():

        def ours(text: str = text) -> int:
            return sq.run(text, events, threads=1).table.num_rows

        yield from compare(WORKLOAD, task, n, {"seqube": ours}, repetitions=5 if quick else 15)
    yield from _funnel(10_000_000, repetitions=2 if quick else 5)


def visits(n: int) -> pa.Table:
    """Events of ten times fewer keys, by time."""
    random = np.random.default_rng(SEED)
    keys, times = random.integers(0, n // 10, n), np.sort(random.integers(0, n, n))
    return pa.table({"key": keys, "ts": times, "type": random.choice(STEPS, n, p=SHARES)})


def _funnel(n: int, repetitions: int) -> Iterator[Measurement]:
    table, within = visits(n), n // 3
    events = sq.Events(table)

    def ours() -> Any:
        return sq.funnel(events, STEPS, by="key", within=within, mode="any").table.column("reached").to_pylist()

    contenders = {"seqube": ours}
    if reason := clickhouse.missing():
        print(reason)
        peer = None
    else:
        peer = clickhouse.Funnels(table)
        contenders["ClickHouse"] = lambda: peer.reached(STEPS, within)
    task = f"funnel of {len(STEPS)} steps, {n // 10:,} keys"
    yield from compare(WORKLOAD, task, n, contenders, repetitions=repetitions)
    if peer is not None:
        peer.close()
