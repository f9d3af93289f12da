"""The peer suite (Q-a to Q-f) against hard-wired loops, joins of neighbours, building `Events`, and how cost grows with the input.

Both sides start from an `Events` and end with the same Arrow table of matches (`start`, `end`, every event's own columns).
Beside it stands the loop alone, which stops at row numbers: what is between the two is the price of the table.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import seqube as sq
from bench.measure import Measurement, compare
from bench.reference import as_table, match
from seqube.generate import generate

WORKLOAD = "matching"
SEED = 0

QUERIES = {
    "a": "SEQ(DELL a, IPIX b, QQQ c) WITHIN 100 ms",
    "b": "SEQ(DELL a, IPIX b, QQQ c, AMAT d) WITHIN 100 ms",
    "c": "SEQ(DELL a, IPIX b, QQQ c, AMAT d, MSFT e) WITHIN 100 ms",
    "d": "SEQ(DELL a, IPIX b, QQQ c) WITHIN 500 ms",
    "e": "SEQ(DELL a, IPIX b, QQQ c, [id]) WITHIN 10 s",
    "f": "SEQ(DELL a, IPIX b, !QQQ x, AMAT c) WITHIN 100 ms",
}


def measurements(quick: bool = False) -> Iterator[Measurement]:
    n = 1_000_000
    table = generate("stock", n, SEED)
    yield from compare(WORKLOAD, "build Events", n, {"seqube": lambda: len(sq.Events(table))})
    events = sq.Events(table)
    types, ids = events.types.astype(np.int64), events.column("id").to_numpy()
    code_of = {name: code for code, name in enumerate(events.type_names)}
    for task, text in QUERIES.items():

        def loop(task: str = task) -> int:
            return len(as_table(match(task, types, events.times, ids, code_of), events.table))

        def rows_alone(task: str = task) -> int:
            return len(match(task, types, events.times, ids, code_of)[0])

        def ours(text: str = text) -> int:
            return sq.run(text, events, threads=1).table.num_rows

        contenders = {"hard-wired loop": loop, "its row numbers alone": rows_alone, "seqube": ours}
        yield from compare(WORKLOAD, f"Q-{task}", n, contenders, repetitions=3 if quick else 9)
    yield from _joins(n, 3 if quick else 9)
    yield from _growth(10 if quick else 30)


def _joins(n: int, repetitions: int) -> Iterator[Measurement]:
    """A chain of four parts with another equality for each pair of neighbours, of which few hold, over all of time."""
    random = np.random.default_rng(SEED)
    columns = {name: random.integers(0, n, n) for name in "xyz"}
    events = sq.Events(pa.table({"type": np.array(list("ABCD"))[random.integers(0, 4, n)], "ts": np.arange(n), **columns}))
    parts = [events.table.filter(pc.equal(events.table["type"], name)).to_pandas() for name in "ABCD"]

    def merged() -> int:
        found = parts[0]
        for number, (name, part) in enumerate(zip("xyz", parts[1:], strict=True)):
            found = found[["ts", name]].merge(part, on=name, suffixes=(f"_{number}", ""))
            found = found[found[f"ts_{number}"] < found["ts"]]
        return len(found)

    text = f"SEQ(A a, B b, C c, D d) WHERE a.x = b.x AND b.y = c.y AND c.z = d.z WITHIN {n}"
    contenders = {"pandas merges": merged, "seqube": lambda: sq.run(text, events, threads=1).table.num_rows}
    yield from compare(WORKLOAD, "joins of neighbours", n, contenders, repetitions=repetitions)


def _growth(times: int) -> Iterator[Measurement]:
    """The same query over a tenth of the events, and over all of them."""
    for size in (100_000, 100_000 * times):
        events = sq.Events(generate("stock", size, SEED))

        def run(events: Any = events) -> int:
            return sq.run(QUERIES["a"], events, threads=1).table.num_rows

        yield from compare(WORKLOAD, f"Q-a over {size:,} events", size, {"seqube": run})
