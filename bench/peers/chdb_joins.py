"""ClickHouse in a process of ours (`chdb`): bucketed self-joins (`bench.peers.joins`), negation by an ASOF join.

Joins are left in the order in which they are written: the one that it finds itself takes minutes from 200,000 events on. Its own
functions for sequences (`windowFunnel`, `sequenceCount`) give no matches, so they are measured by `bench.workloads.runs`.
"""

from __future__ import annotations

import pyarrow as pa

from bench import clickhouse
from bench.peers import Ints, Peer, Task
from bench.peers.joins import by_asof


class Adapter(Peer):
    name = "ClickHouse"
    package = "chdb"
    cores = 2
    about = "SQL self-joins on buckets of time, negation by ASOF join; two threads; a table in its memory, types of low cardinality"

    def missing(self) -> str:
        return clickhouse.missing()

    def prepare(self, events: pa.Table) -> None:
        self._session = clickhouse.open_table(events, "row, ts, id, CAST(type AS LowCardinality(String)) AS type")
        self._session.query("USE bench")

    def run(self, task: Task) -> list[Ints]:
        settings = f"max_threads = {self.cores}, join_use_nulls = 1, query_plan_optimize_join_order_limit = 0"
        found = self._session.query(f"{statement(task)} SETTINGS {settings}", "ArrowTable")
        return [column.to_numpy() for column in found.columns]

    def close(self) -> None:
        if hasattr(self, "_session"):
            self._session.close()


def statement(task: Task) -> str:
    left = "(SELECT *, 1 AS one FROM {before}) AS {before}"  # its ASOF join wants something equal
    later = "x.one = {before}.one AND x.forbidden > {before}.ts"
    nearest = f"SELECT {{before}}.*, x.forbidden FROM {left} ASOF LEFT JOIN x ON {later}"
    return by_asof(task, "intDiv(ts, {window})", "arrayJoin([{own}, {own} - 1])", nearest)
