"""Seqube on Spark. Importing this is cheap: PySpark is imported, and a JVM started, by the first call that needs it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from seqube.engine.limits import LIMITS, Limits
from seqube.spark.session import session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from seqube.events import Hierarchy
    from seqube.language import Query
    from seqube.language.tree import Window
    from seqube.plan.explain import Explanation
    from seqube.predict import Rule, Rules
    from seqube.predict.mining import Progress
    from seqube.spark.batch import Tables

__all__ = ["explain", "forecast", "mine", "quarantine", "register", "run", "session"]


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
    max_matches: int | None = ...,
    max_state_bytes: int | None = ...,
    max_seconds: float | None = ...,
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
    max_matches: int | None = ...,
    max_state_bytes: int | None = ...,
    max_seconds: float | None = ...,
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
    max_matches: int | None = LIMITS.max_matches,
    max_state_bytes: int | None = LIMITS.max_state_bytes,
    max_seconds: float | None = LIMITS.max_seconds,
) -> DataFrame | Tables:
    """Run a query, or several by name, over a DataFrame of events; their rows come as a DataFrame each.

    Rows that are no events (no type, no time) take no part; `quarantine` shows them. `ids` adds a column `match_id`, the same for
    the same match in every run. `slices` asks for so many slices of time, or tasks, instead of as many as the data suggests.

    A streaming DataFrame gives streaming DataFrames. Events may come out of order by `lateness`; results are final when they come.

    Each task of a query (keys, or a slice of time) may give so many rows, hold so many bytes and take so many seconds, or None: any
    number. On a stream this is said of one micro-batch and its keys, and of the state they leave. Past that it is a `LimitError`.
    """
    from seqube.spark import batch, ingest
    from seqube.spark.streaming import stream

    limits = Limits(max_matches, max_state_bytes, max_seconds)
    source = ingest.read_source(events, type, time, unit)
    queries = query if isinstance(query, Mapping) else {"": query}
    plans = ingest.prepare_all(queries, source, hierarchy, strategy)
    if events.isStreaming:
        watched = {
            name: stream.watch_stream({name: plan}, source, lateness, with_ids=ids, limits=limits) for name, plan in plans.items()
        }
        tables = batch.Tables({name: each.matches(name) for name, each in watched.items()})
        return tables if isinstance(query, Mapping) else tables[""]
    tables = batch.find(plans, source, with_ids=ids, slices=slices, limits=limits)
    return tables if isinstance(query, Mapping) else tables[""]


def explain(
    query: str | Query | Mapping[str, str | Query],
    events: DataFrame,
    *,
    type: str = "type",
    time: str = "ts",
    unit: str = "ms",
    hierarchy: Hierarchy | None = None,
    strategy: str = "auto",
) -> Explanation:
    """How Spark runs a query over a DataFrame: how it is split and what that means for scale, what is left out before the shuffle.

    Nothing is read for it.
    """
    from seqube.spark import explanation, ingest

    source = ingest.read_source(events, type, time, unit)
    queries = query if isinstance(query, Mapping) else {"": query}
    return explanation.explain(ingest.prepare_all(queries, source, hierarchy, strategy), source)


def forecast(
    rules: Rules | Rule | Iterable[Rule] | Mapping[str, Any] | str | Path,
    events: DataFrame,
    *,
    type: str = "type",
    time: str = "ts",
    unit: str = "ms",
    hierarchy: Hierarchy | None = None,
    strategy: str = "auto",
    lateness: str = "10 seconds",
    slices: int | None = None,
    max_matches: int | None = LIMITS.max_matches,
    max_state_bytes: int | None = LIMITS.max_state_bytes,
    max_seconds: float | None = LIMITS.max_seconds,
) -> DataFrame:
    """Every useful prediction of these rules over a DataFrame of events, with the columns of `seqube.forecast(...).table`.

    Rules may also be a rule file's path or content. Rules with `partition_by` are spread by their key, others by slices of time;
    `slices` asks for so many of them, or tasks, instead of as many as the data suggests.

    A streaming DataFrame gives a streaming DataFrame. Events may come out of order by `lateness`; a prediction comes when the
    watermark has passed the end of its occurrence. Tasks and micro-batches are limited as those of `run` are.
    """
    from seqube.errors import PlanError
    from seqube.predict.forecasts import read_rules
    from seqube.spark import forecasting, ingest

    limits = Limits(max_matches, max_state_bytes, max_seconds)
    source = ingest.read_source(events, type, time, unit)
    known = read_rules(rules)
    if not events.isStreaming:
        return forecasting.forecast(known, source, hierarchy, strategy, slices, limits)
    if not known:
        raise PlanError("there are no rules to watch the stream for\n  hint: give at least one")
    from seqube.spark.streaming.stream import watch_stream

    shares = forecasting.share_rules(known, source.schema, hierarchy, strategy, limits)
    return watch_stream({}, source, lateness, shares=shares).forecasts()


def mine(
    events: DataFrame,
    window: int | str | Window,
    min_support: float,
    min_confidence: float,
    *,
    horizon: int | str | Window | None = None,
    max_events: int = 3,
    kinds: Sequence[str] = ("serial", "parallel"),
    partition_by: str | Sequence[str] = (),
    limit: int | None = None,
    type: str = "type",
    time: str = "ts",
    unit: str = "ms",
    slices: int | None = None,
    progress: Progress | None = None,
) -> Rules:
    """Rules over event types that held in a DataFrame of events, as `seqube.mine` finds them; the counting is done on Spark."""
    from seqube.predict.mining import read_aim
    from seqube.spark import forecasting, ingest

    source = ingest.read_source(events, type, time, unit)
    lengths = (source.schema.unit, window, min_support, min_confidence, horizon)
    return forecasting.mine(source, read_aim(*lengths, max_events, kinds, partition_by, limit), slices, progress)


def quarantine(events: DataFrame, *, type: str = "type", time: str = "ts", unit: str = "ms") -> DataFrame:
    """The rows that are no events, as they came, with the column `reason`."""
    from seqube.spark import ingest

    return ingest.read_source(events, type, time, unit).quarantined()


def register(spark: SparkSession) -> None:
    """Make queries known to SQL: `SELECT * FROM seqube(TABLE(events), 'PATTERN ... WITHIN ...')`."""
    from seqube.spark import sql

    sql.register(spark)
