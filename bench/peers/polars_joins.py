"""Polars: bucketed joins (`bench.peers.joins` says how) on lazy frames; negation by `join_asof` to the next forbidden event."""

from __future__ import annotations

import importlib.util
import os
from itertools import pairwise
from typing import Any

import pyarrow as pa

from bench.peers import Ints, Peer, Task


class Adapter(Peer):
    name = "Polars"
    package = "polars"
    cores = 2
    about = "lazy joins on buckets of time, negation by join_asof; two threads; types as categories"

    def missing(self) -> str:
        return "" if importlib.util.find_spec("polars") else "polars is not installed: make bench-peers"

    def prepare(self, events: pa.Table) -> None:
        os.environ["POLARS_MAX_THREADS"] = str(self.cores)
        import polars as pl

        frame = pl.from_arrow(events.select(["row", "ts", "id", "type"]))
        assert isinstance(frame, pl.DataFrame)
        self._events = frame.with_columns(pl.col("type").cast(pl.Categorical), pl.col("ts").set_sorted())

    def run(self, task: Task) -> list[Ints]:
        found = plan(self._events.lazy(), task).collect()
        return [found.get_column(name).to_numpy() for name in found.columns]


def plan(events: Any, task: Task) -> Any:
    import polars as pl

    slots = [slot for slot in range(len(task.types)) if slot != task.negated]
    own = pl.col("ts") // task.window
    keys = ["bucket", "id"] if task.keyed else ["bucket"]

    def listed(slot: int) -> Any:
        """One slot's events; all but the first slot's under two buckets."""
        one = events.filter(pl.col("type") == task.types[slot])
        if task.negated is not None and slot == task.negated - 1:
            forbidden = events.filter(pl.col("type") == task.types[task.negated]).select("ts", forbidden="ts")
            one = one.join_asof(forbidden, on="ts", strategy="forward", allow_exact_matches=False)
        columns = [pl.col("row").alias(f"r{slot}"), pl.col("ts").alias(f"ts{slot}"), "id"]
        columns += ["forbidden"] * (task.negated is not None and slot == task.negated - 1)
        if slot == 0:
            return one.select(*columns, bucket=own)
        return pl.concat([one.select(*columns, bucket=own), one.select(*columns, bucket=own - 1)])

    found = listed(0)
    for before, slot in pairwise(slots):
        other = listed(slot) if task.keyed else listed(slot).drop("id")
        found = found.join(other, on=keys).filter(
            pl.col(f"ts{slot}") > pl.col(f"ts{before}"), pl.col(f"ts{slot}") < pl.col("ts0") + task.window
        )
        if task.negated is not None and before == task.negated - 1:
            found = found.filter(pl.col("forbidden").is_null() | (pl.col("forbidden") >= pl.col(f"ts{slot}")))
    return found.select(*(f"r{slot}" for slot in slots))
