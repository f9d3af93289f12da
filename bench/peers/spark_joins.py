"""Spark SQL: bucketed self-joins (`bench.peers.joins`), negation by NOT EXISTS; the answer is computed inside Spark."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bench.peers import Answer, Peer, Task
from bench.peers.joins import checksum, joined, listed, rows_of


class Adapter(Peer):
    name = "Spark SQL"
    package = "pyspark"
    cores = 2
    about = "SQL self-joins on buckets of time, two cores, events cached; only count and checksum leave Spark, not the matches"

    def missing(self) -> str:
        return "" if importlib.util.find_spec("pyspark") else "pyspark is not installed: make setup"

    def prepare(self, events: pa.Table) -> None:
        from seqube.spark import session

        self._spark: Any = session("bench", **{"spark.master": f"local[{self.cores}]", "spark.driver.memory": "4g"})
        self._spark.catalog.clearCache()
        with TemporaryDirectory() as folder:
            path = Path(folder) / "events.parquet"
            pq.write_table(events.select(["row", "ts", "id", "type"]), path, row_group_size=max(1, -(-len(events) // 4)))
            frame = self._spark.read.parquet(str(path)).repartition(self.cores).cache()
            frame.count()
        frame.createOrReplaceTempView("events")

    def run(self, task: Task) -> Any:
        return self._spark.sql(statement(task)).collect()[0]

    def answer(self, outcome: Any) -> Answer:
        return Answer(int(outcome[0]), int(outcome[1]))

    @property
    def pid(self) -> int:
        return int(self._spark._jvm.java.lang.ProcessHandle.current().pid())

    def close(self) -> None:
        if hasattr(self, "_spark"):
            self._spark.stop()


def statement(task: Task) -> str:
    parts = [listed(slot, task, "floor(ts / {window})", "explode(array({own}, {own} - 1))") for slot in range(len(task.types))]
    text = f"SELECT {rows_of(task)} {joined(task)}"
    if task.negated is not None:
        before, after, x = f"t{task.negated - 1}", f"t{task.negated + 1}", f"t{task.negated}"
        text += (
            f" WHERE NOT EXISTS (SELECT 1 FROM {x} WHERE {x}.bucket = t0.bucket AND {x}.ts > {before}.ts AND {x}.ts < {after}.ts)"
        )
    total = checksum(task, "(({value}) % {modulus})")
    return f"WITH {', '.join(parts)} SELECT count(*), {total} FROM ({text})"
