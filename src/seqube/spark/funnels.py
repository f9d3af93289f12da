"""Funnels over DataFrames: the runs come from keyed tasks, and Spark takes the furthest of each key and counts.

Cost: the rows of the queries, a sort of those of each key, and one small row for each value of the breakdown that comes back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from seqube.events.schema import UNITS
from seqube.funnels import Funnel, FunnelQueries, funnel_table, step_rows
from seqube.spark.session import described

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

REACHED_STEP, IN_ORDER = "#reached", "#number"


def tell_funnel(asked: FunnelQueries, frames: Sequence[DataFrame], unit: str) -> Funnel:
    """The funnel of the rows that its queries gave."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812

    numbers = range(1, len(asked.steps) + 1)
    keys = [f"key{i}" for i in range(len(asked.keys))]
    beside = ["breakdown"] if asked.breakdown is not None else []
    runs: DataFrame | None = None
    for n, frame in zip(asked.lengths, frames, strict=True):
        kind = dict(frame.dtypes)["start"]
        reached = F.col("reached").cast("long") if asked.keeps_runs else F.lit(n).cast("long")
        times = [F.col(f"at{k}") if k <= n else F.lit(None).cast(kind).alias(f"at{k}") for k in numbers]
        rows = frame.select(*keys, *beside, "start", *times, reached.alias(REACHED_STEP))
        runs = rows if runs is None else runs.unionByName(rows)
    assert runs is not None
    best = Window.partitionBy(*keys).orderBy(F.desc(REACHED_STEP), F.asc("start"))
    furthest = runs.withColumn(IN_ORDER, F.row_number().over(best)).where(F.col(IN_ORDER) == 1)
    told: list[Column] = []
    for n in numbers:
        there = F.col(REACHED_STEP) >= n
        told.append(F.coalesce(F.sum(there.cast("long")), F.lit(0)).alias(f"count{n}"))
        told.append(F.percentile(F.when(there, _seconds(runs, n, unit)), 0.5).alias(f"median{n}"))
    with described(runs.sparkSession, "seqube: funnel: count keys"):
        counted: list[Any] = furthest.groupBy(*beside).agg(*told).collect()
    groups = sorted(counted, key=lambda row: (bool(beside) and row[0] is None, str(row[0])))
    rows_told = []
    for row in groups:
        counts, medians = [row[f"count{n}"] for n in numbers], [row[f"median{n}"] for n in numbers]
        rows_told += step_rows(asked, counts, medians, row["breakdown"] if beside else None)
    return Funnel(funnel_table(asked, rows_told, None), asked.breakdown)


def _seconds(runs: DataFrame, n: int, unit: str) -> Column:
    """From the first step to this one: between moments, or between numbers in the unit of the time column."""
    from pyspark.sql import functions as F  # noqa: N812

    first, then = F.col("start"), F.col(f"at{n}")
    if dict(runs.dtypes)["start"].startswith(("timestamp", "date")):
        first, then = (F.unix_micros(time.cast("timestamp")) for time in (first, then))
        return (then - first) / 1e6
    return (then - first) * (UNITS[unit] / 1e9)
