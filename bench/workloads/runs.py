"""NEXT, STRICT and funnels: the first event that fits instead of every combination.

Over the events of the peer suite, from an `Events` to the Arrow table of matches; what is asked between events is asked in a loop,
so it has rows of its own. A funnel over a million keys stands beside ClickHouse's `windowFunnel`, where `chdb` is installed: one
thread each, events in memory, the same number of keys at every step. A sequence of each key, where every key has every step once,
stands beside the engine of EQL and ClickHouse.

"Lists" counts SEQ(A, B+, C), whose matches double with every B: over windows of 10 to 10,000 events, all of which count, with up to
20 B's in one, and with up to 200, whose counts have 60 digits; and bursts of 20 B's, beside building what there is to count (GRETA,
COGRA and HAMLET report 10^4 to 10^6 times over building).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

import seqube as sq
from bench import clickhouse, eql_engine
from bench.measure import Measurement, compare
from bench.workloads.aggregates import digest, runner
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
    yield from _funnel(3_000_000 if quick else 10_000_000, repetitions=2 if quick else 5)
    yield from _by_key(10_000 if quick else 300_000)
    yield from _lists(
        200_000 if quick else 1_000_000, 3 if quick else 10, repetitions=3 if quick else 7
    )  # last: what is built takes gigabytes


def _lists(n: int, n_bursts: int, repetitions: int) -> Iterator[Measurement]:
    """Every list of B's counts."""
    text = "SEQ(A a, B+ b, C c) WITHIN {} ms AGG COUNT(*)"
    for every in (500, 50):
        numbers = np.arange(n)
        types = np.where(numbers % every == every // 2, "B", np.where(numbers % 2 == 0, "A", "C"))
        events = sq.Events(pa.table({"type": types, "ts": numbers}))
        for window in (10, 100, 1_000, 10_000):
            ours = {"window-product": runner(text.format(window), events, "window-product")}
            yield from compare(
                WORKLOAD, f"lists, a B in {every} events, window {window:,} events", n, ours, repetitions, judge=digest
            )
    # Of each burst a million matches, of which each is a list.
    times = np.concatenate([np.arange(22) + 1_000 * burst for burst in range(n_bursts)])
    bursts = sq.Events(pa.table({"type": ["A", *["B"] * 20, "C"] * n_bursts, "ts": times}))
    ways = {strategy: runner(text.format(22), bursts, strategy) for strategy in ("two-step", "window-product")}
    yield from compare(WORKLOAD, f"lists of 20 B's, {n_bursts} times, counted and built", len(bursts), ways, 3, 1.0, digest)


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


def _by_key(n: int) -> Iterator[Measurement]:
    """Every key has each of three steps once, at any time: how many have them in order."""
    steps, within, n_keys = STEPS[:3], n // 2, n // 3
    times = np.random.default_rng(SEED).permutation(3 * n_keys)
    order = np.argsort(times)
    types = np.repeat(steps, n_keys)[order]
    table = pa.table({"key": np.tile(np.arange(n_keys), 3)[order], "ts": times[order], "type": types})
    events, text = sq.Events(table, unit="s"), f"SEQ({', '.join(steps)}, [key]) WITHIN {within} s"
    contenders: dict[str, Any] = {"seqube": lambda: sq.run(text, events, threads=1).table.num_rows}
    for name, reason in {"ClickHouse": clickhouse.missing(), "eql": eql_engine.missing()}.items():
        if reason:
            print(f"{name}: {reason}")
    funnels = None if clickhouse.missing() else clickhouse.Funnels(table)
    if funnels is not None:
        contenders["ClickHouse"] = lambda: funnels.reached(steps, within)[-1]
    if not eql_engine.missing():
        keyed = eql_engine.KeyedEvents(table)
        contenders["eql"] = lambda: keyed.n_sequences(steps, within)
    yield from compare(WORKLOAD, f"a sequence of {len(steps)} by key, each step once", n, contenders, 5, once_above_s=1.0)
    if funnels is not None:
        funnels.close()
