"""A cube over a DataFrame: what `seqube.cube` has, with its counts found by jobs on Spark.

Each step (a count, a pivot, the children of a cube, its parents) is one workload over one reading of the events: `batch.collect`.
Its counts come back as the totals of tasks, which are merged here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from seqube import cube
from seqube.errors import PlanError
from seqube.events import Hierarchy
from seqube.language.parameters import Params
from seqube.language.tree import Query
from seqube.plan.needs import Plan
from seqube.spark import batch, ingest, planning
from seqube.spark.session import checked_on_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Cube(cube.Cube):
    """A flat SEQ over a batch DataFrame, and the queries around it: all that `seqube.Cube` has; `table()` is a DataFrame.

    - `events`: a DataFrame, with `type`, `time` and `unit` as for `run`.
    - `query`: a text or a `Query`, of one SEQ without nesting.
    - `hierarchy`: the concepts that `roll_up` and `drill_down` walk along.
    - `params`: values for the parameters of the query (`:limit`), by name.

    >>> concepts = sq.Hierarchy.from_dict({"Computer": ["DELL", "INTC"], "Finance": ["QQQ"]})
    >>> trades = spark.createDataFrame([("DELL", 1), ("INTC", 2), ("QQQ", 3)], ["type", "ts"])
    >>> cube = sqs.Cube(trades, "SEQ(Computer a, Finance b) WITHIN 1 s", concepts)
    >>> cube.count, [child.count for child in cube.children()]
    (2, [1, 1, 2])
    """

    @checked_on_spark
    def __init__(
        self,
        events: DataFrame,
        query: str | Query,
        hierarchy: Hierarchy | None = None,
        *,
        type: str | None = "type",
        time: str = "ts",
        unit: str = "ms",
        params: Params | None = None,
    ) -> None:
        if events.isStreaming:
            raise PlanError("a cube counts all events, and a stream has no end\n  hint: give the table that it is written to")
        self._source = ingest.read_source(events, type, time, unit)
        self._seen: list[str] = []  # the types of events, once they were asked for, of all cubes that moves lead to
        self._begin(query, hierarchy, params)
        self._source.warn()

    def _plan(self, query: Query, hierarchy: Hierarchy | None) -> Plan:
        return ingest.plan_over(query, self._source, hierarchy)

    def _ask(self, queries: Mapping[str, Query]) -> Mapping[str, pa.Table]:
        return batch.collect(planning.plan_batch(queries, self._source, self.hierarchy), self._source)

    @property
    def _known_types(self) -> Collection[str]:
        if not self._seen:
            self._seen += self._source.tally()[2]
        return self._seen

    def table(self) -> Any:
        """The matches themselves, as a DataFrame."""
        plan = planning.plan_batch({"": self.query}, self._source, self.hierarchy)
        return batch.find(plan, self._source)[""]
