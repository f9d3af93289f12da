"""Seqube on Spark. Importing this is cheap: PySpark is imported, and a JVM started, by the first call that needs it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, overload

from seqube.spark.session import session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from seqube.events import Hierarchy
    from seqube.language import Query
    from seqube.spark.batch import Tables

__all__ = ["quarantine", "register", "run", "session"]


@overload
def run(
    query: str | Query,
    events: DataFrame,
    *,
    type: str = ...,
    time: str = ...,
    unit: str = ...,
    hierarchy: Hierarchy | None = ...,
    strategy: str = ...,
    lateness: str = ...,
    ids: bool = ...,
    slices: int | None = ...,
) -> DataFrame: ...
@overload
def run(
    query: Mapping[str, str | Query],
    events: DataFrame,
    *,
    type: str = ...,
    time: str = ...,
    unit: str = ...,
    hierarchy: Hierarchy | None = ...,
    strategy: str = ...,
    lateness: str = ...,
    ids: bool = ...,
    slices: int | None = ...,
) -> Tables: ...
def run(
    query: str | Query | Mapping[str, str | Query],
    events: DataFrame,
    *,
    type: str = "type",
    time: str = "ts",
    unit: str = "ms",
    hierarchy: Hierarchy | None = None,
    strategy: str = "auto",
    lateness: str = "10 seconds",
    ids: bool = False,
    slices: int | None = None,
) -> DataFrame | Tables:
    """Run a query, or several by name, over a DataFrame of events; their rows come as a DataFrame each.

    Rows that are no events (no type, no time) take no part; `quarantine` shows them. `ids` adds a column `match_id`, the same for
    the same match in every run. `slices` asks for so many slices of time, or tasks, instead of as many as the data suggests.

    A streaming DataFrame gives streaming DataFrames. Events may come out of order by `lateness`; results are final when they come.
    """
    from seqube.spark import batch, ingest, stream

    source = ingest.read_source(events, type, time, unit)
    queries = query if isinstance(query, Mapping) else {"": query}
    plans = {name: ingest.prepare(text, source, hierarchy, strategy) for name, text in queries.items()}
    if events.isStreaming:
        watched = {name: stream.watch_stream({name: plan}, source, lateness, with_ids=ids) for name, plan in plans.items()}
        tables = batch.Tables({name: each.matches(name) for name, each in watched.items()})
        return tables if isinstance(query, Mapping) else tables[""]
    tables = batch.find(plans, source, with_ids=ids, slices=slices)
    return tables if isinstance(query, Mapping) else tables[""]


def quarantine(events: DataFrame, *, type: str = "type", time: str = "ts", unit: str = "ms") -> DataFrame:
    """The rows that are no events, as they came, with the column `reason`."""
    from seqube.spark import ingest

    return ingest.read_source(events, type, time, unit).quarantined()


def register(spark: SparkSession) -> None:
    """Make queries known to SQL: `SELECT * FROM seqube(TABLE(events), 'PATTERN ... WITHIN ...')`."""
    from seqube.spark import sql

    sql.register(spark)
