"""DuckDB: bucketed self-joins (`bench.peers.joins`); negation by an ASOF join to the next forbidden event."""

from __future__ import annotations

import importlib.util
from typing import Any

import pyarrow as pa

from bench.peers import Ints, Peer, Task
from bench.peers.joins import by_asof


class Adapter(Peer):
    name = "DuckDB"
    package = "duckdb"
    cores = 2
    about = "SQL self-joins on buckets of time, negation by ASOF join; two threads; events in a table of its own, types as an ENUM"

    def missing(self) -> str:
        return "" if importlib.util.find_spec("duckdb") else "duckdb is not installed: make bench-peers"

    def prepare(self, events: pa.Table) -> None:
        import duckdb

        self._base: Any = duckdb.connect(config={"threads": self.cores, "memory_limit": "6GB", "preserve_insertion_order": False})
        self._base.register("arrow", events)
        self._base.execute("CREATE TYPE ticker AS ENUM (SELECT DISTINCT type FROM arrow)")
        self._base.execute("CREATE TABLE events AS SELECT row, ts, id, type::ticker AS type FROM arrow")
        self._base.unregister("arrow")

    def run(self, task: Task) -> list[Ints]:
        found = self._base.sql(statement(task)).to_arrow_table()
        return [column.to_numpy() for column in found.columns]

    def close(self) -> None:
        if hasattr(self, "_base"):
            self._base.close()


def statement(task: Task) -> str:
    nearest = "SELECT * FROM {before} ASOF LEFT JOIN x ON x.forbidden > {before}.ts"
    return by_asof(task, "ts // {window}", "unnest([{own}, {own} - 1])", nearest)
