"""Seqube on Spark. Importing this is cheap: PySpark is imported, and a JVM started, by the first call that needs it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack, overload

from seqube.engine.limits import Limits, Named, read_limits
from seqube.errors import PlanError
from seqube.extras import need
from seqube.spark.session import checked_on_spark, session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from seqube.events import Hierarchy
    from seqube.funnels import Funnel
    from seqube.language import Query
    from seqube.language.parameters import Params
    from seqube.language.tree import Window
    from seqube.plan.explain import Explanation
    from seqube.predict import Rule, Rules
    from seqube.predict.mining import MiningProgress
    from seqube.spark.batch import ResultFrames
    from seqube.spark.cube import Cube
    from seqube.spark.streaming.pipeline import Counts
    from seqube.spark.streaming.workloads import Workload

need("spark")

__all__ = [
    "Cube",
    "Workload",
    "explain",
    "forecast",
    "funnel",
    "mine",
    "quarantine",
    "register",
    "run",
    "run_pipeline",
    "session",
    "sql",
]


def __getattr__(name: str) -> Any:
    if name == "Workload":
        from seqube.spark.streaming.workloads import Workload

        return Workload
    if name == "Cube":
        from seqube.spark.cube import Cube

        return Cube
    raise AttributeError(f"module 'seqube.spark' has no attribute {name!r}")


@overload
def run(
    query: str | Query,
    events: DataFrame,
    *,
    type: str | None = ...,
    time: str = ...,
    unit: str = ...,
    hierarchy: Hierarchy | None = ...,
    strategy: str = ...,
    params: Params | None = ...,
    lateness: str = ...,
    ids: bool = ...,
    slices: int | None = ...,
    limits: Limits | None = ...,
    **named: Unpack[Named],
) -> DataFrame: ...
@overload
def run(
    query: Mapping[str, str | Query],
    events: DataFrame,
    *,
    type: str | None = ...,
    time: str = ...,
    unit: str = ...,
    hierarchy: Hierarchy | None = ...,
    strategy: str = ...,
    params: Params | None = ...,
    lateness: str = ...,
    ids: bool = ...,
    slices: int | None = ...,
    limits: Limits | None = ...,
    **named: Unpack[Named],
) -> ResultFrames: ...
@overload
def run(
    query: Workload,
    events: DataFrame,
    *,
    type: str = ...,
    time: str = ...,
    unit: str = ...,
    hierarchy: Hierarchy | None = ...,
    strategy: str = ...,
    lateness: str = ...,
    limits: Limits | None = ...,
    **named: Unpack[Named],
) -> DataFrame: ...
@checked_on_spark
def run(
    query: str | Query | Mapping[str, str | Query] | Workload,
    events: DataFrame,
    *,
    type: str | None = "type",
    time: str = "ts",
    unit: str = "ms",
    hierarchy: Hierarchy | None = None,
    strategy: str = "auto",
    params: Params | None = None,
    lateness: str = "10 seconds",
    ids: bool = False,
    slices: int | None = None,
    limits: Limits | None = None,
    **named: Unpack[Named],
) -> DataFrame | ResultFrames:
    """Run a query, or several by name, over a DataFrame of events; their rows come as a DataFrame each.

    - `query`, `hierarchy`, `strategy`, `params`: as for `seqube.run`; on a stream also a `Workload`, which may change meanwhile.
      The DataFrames of several queries on a stream are streams of their own; `foreach_batch` of the result is one for all.
    - `events`: a DataFrame, batch or streaming, with a column for the type and one for the time.
    - `type`, `time`, `unit`: those columns, and the unit of integer times.
    - `lateness`: on a stream, by how much events may come out of order; results are final when they come.
    - `ids`: add a column `match_id`, the same for the same match in every run.
    - `slices`: how many slices of time, or tasks; as many as the data suggests unless given.
    - `limits`: what each task (keys, or a slice of time) may use; on a stream, a micro-batch and its keys, and their state.
      Past that it is a `LimitError`.
    - `named`: the same limits one by one: `max_matches=1_000`.

    Rows that are no events (no type, no time) take no part: a warning says how many, `quarantine` shows them.

    >>> events = spark.createDataFrame([("Card", 0, 1), ("Withdrawal", 90, 1)], ["type", "ts", "id"])
    >>> sqs.run("SEQ(Card c, Withdrawal w, [id]) WITHIN 5 min RETURN c.id AS card", events, unit="s").collect()
    [Row(card=1)]
    """
    from seqube.spark import batch, ingest, planning
    from seqube.spark.streaming import stream
    from seqube.spark.streaming.together import SharedWorkload
    from seqube.spark.streaming.workloads import Workload

    limits = read_limits(limits, named)
    source = ingest.read_source(events, type, time, unit)
    if isinstance(query, Workload):
        if not events.isStreaming:
            raise PlanError("a Workload changes while a stream runs, and this is a batch\n  hint: give its queries, work.queries")
        if params or ids:
            raise PlanError("a Workload takes no params or ids\n  hint: its rows have ids; write values into the queries")
        return stream.watch_changing(query, source, hierarchy, strategy, lateness, limits)
    queries = query if isinstance(query, Mapping) else {"": query}
    bound = ingest.bind_all(queries, source, params)
    if events.isStreaming:
        shares = strategy in planning.SHARED and strategy != "independent"
        plans = planning.plan_stream(bound, hierarchy, strategy)
        alone = {} if shares else plans  # what is shared is shared by the queries of one stream
        frames = {
            name: stream.watch_stream({name: plan}, source, lateness, with_ids=ids, limits=limits).matches(name)
            for name, plan in alone.items()
        }
        workload = SharedWorkload(bound, hierarchy, strategy)
        together = partial(stream.write_together, plans, source, lateness, with_ids=ids, limits=limits, workload=workload)
        tables = batch.ResultFrames(frames, together=together)
        return tables if isinstance(query, Mapping) else tables[""]
    planned = planning.plan_batch(bound, source, hierarchy, strategy, warns=True)
    tables = batch.find(planned, source, with_ids=ids, slices=slices, limits=limits)
    return tables if isinstance(query, Mapping) else tables[""]


@checked_on_spark
def explain(
    query: str | Query | Mapping[str, str | Query],
    events: DataFrame,
    *,
    type: str | None = "type",
    time: str = "ts",
    unit: str = "ms",
    hierarchy: Hierarchy | None = None,
    strategy: str = "auto",
    params: Params | None = None,
) -> Explanation:
    """How Spark runs a query over a DataFrame: how it is split and what that means for scale, what is left out before the shuffle.

    Nothing is read for it. A batch looks at a sample of its events where they decide which strategy is cheapest; that is said.

    - `query`, `hierarchy`, `strategy`, `params`: as for `seqube.run`.
    - `events`: a DataFrame, batch or streaming, with a column for the type and one for the time.
    - `type`, `time`, `unit`: those columns, and the unit of integer times.

    >>> events = spark.createDataFrame([("Card", 0, 1)], ["type", "ts", "id"])
    >>> print(sqs.explain("SEQ(Card c, Withdrawal w, [id]) WITHIN 5 min", events))
    on Spark, as a batch
    │   split by a hash of id...
    """
    from seqube.plan.optimizer import undecided
    from seqube.spark import explanation, ingest

    source = ingest.read_source(events, type, time, unit)
    queries = query if isinstance(query, Mapping) else {"": query}
    bound = ingest.bind_all(queries, source, params)
    plans = ingest.plan_all_over(bound, source, hierarchy, strategy)
    return explanation.explain_on_spark(plans, source, undecided(bound, hierarchy, strategy))


@checked_on_spark
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
    limits: Limits | None = None,
    **named: Unpack[Named],
) -> DataFrame:
    """Every useful prediction of these rules over a DataFrame of events, with the columns of `seqube.forecast(...).table`.

    - `rules`, `hierarchy`, `strategy`: as for `seqube.forecast`. Rules with `partition_by` are spread by their key, others by time.
    - `events`: a DataFrame, batch or streaming, with a column for the type and one for the time.
    - `type`, `time`, `unit`: those columns, and the unit of integer times.
    - `lateness`: on a stream, by how much events may come out of order; a prediction comes when the watermark has passed
      the end of its occurrence.
    - `slices`, `limits`, `named`: as for `run`.

    >>> events = spark.createDataFrame([("Jam", 0), ("Rain", 4)], ["type", "ts"])
    >>> rule = sq.Rule("Jam -> Rain", "Crash", 5, 10, 0.5, name="wet")
    >>> sqs.forecast(rule, events).select("rule", "end", "latest").collect()
    [Row(rule='wet', end=4, latest=10)]
    """
    from seqube.errors import PlanError
    from seqube.predict.forecasts import read_rules
    from seqube.spark import forecasting, ingest

    limits = read_limits(limits, named)
    source = ingest.read_source(events, type, time, unit)
    known = read_rules(rules)
    if not events.isStreaming:
        found = forecasting.forecast(known, source, hierarchy, strategy, slices, limits)
        source.warn()
        return found
    if not known:
        raise PlanError("there are no rules to watch the stream for\n  hint: give at least one")
    from seqube.spark.streaming.stream import watch_stream

    shares = forecasting.share_rules(known, source.schema, hierarchy, strategy, limits)
    return watch_stream({}, source, lateness, shares=shares).forecasts()


@checked_on_spark
def funnel(
    events: DataFrame,
    steps: Sequence[str],
    *,
    by: str | Sequence[str],
    within: str | int,
    mode: str = "next",
    without: Mapping[int, str | Sequence[str]] | None = None,
    breakdown: str | None = None,
    type: str = "type",
    time: str = "ts",
    unit: str = "ms",
    hierarchy: Hierarchy | None = None,
    limits: Limits | None = None,
    **named: Unpack[Named],
) -> Funnel:
    """How many keys got how far through some steps, over a DataFrame of events: what `sq.funnel` gives.

    - `events`: a batch DataFrame.
    - `steps`: event types, in order.
    - `by`: the column, or columns, that tell whose events they are; each of their values is a key.
    - `within`: how long all steps may take: "30 min", or a number in the unit of the time column.
    - `mode`: "next" takes the first event that fits, "strict" consecutive events of a key, "any" some way through the steps.
    - `without`: types that must not occur before a step, since the step before: `{2: "logout"}`.
    - `breakdown`: a column; the funnel is told for each of its values at the first step.
    - `type`, `time`, `unit`, `hierarchy`: as for `run`.
    - `limits`, `named`: what a task may use, as for `run`.

    >>> events = spark.createDataFrame([(1, "view", 0), (1, "pay", 90), (2, "view", 0)], "user long, type string, ts long")
    >>> print(sqs.funnel(events, ["view", "pay"], by="user", within="30 min", unit="s"))
    1 view: 2 (100.0%)
    2 pay: 1 (50.0%)
    """
    from seqube.funnels import ask_funnel
    from seqube.spark.funnels import tell_funnel

    asked = ask_funnel(steps, by, within, mode, without, breakdown)
    asked.check_columns(events.columns)
    allowed = read_limits(limits, named)
    given: dict[str, Any] = {"type": type, "time": time, "unit": unit, "hierarchy": hierarchy, "limits": allowed}
    frames = [run(asked.query(n, moments=True), events, **given) for n in asked.lengths]
    return tell_funnel(asked, frames, unit)


@checked_on_spark
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
    min_lift: float = 0,
    min_gain: float | None = None,
    limit: int | None = None,
    type: str = "type",
    time: str = "ts",
    unit: str = "ms",
    slices: int | None = None,
    progress: MiningProgress | None = None,
) -> Rules:
    """Rules over event types that held in a DataFrame of events, as `seqube.mine` finds them; the counting is done on Spark.

    - `events`: a DataFrame, with `type`, `time` and `unit` as for `run`.
    - `window`, `min_support`, `min_confidence`, `horizon`, `max_events`, `kinds`, `partition_by`, `limit`, `progress`: as for
      `seqube.mine`.
    - `min_lift`, `min_gain`: as there, too.
    - `slices`: how many slices of time; as many as the data suggests unless given.

    >>> rows = [("Jam", 0), ("Crash", 1), ("Jam", 10), ("Crash", 11), ("Rain", 20)]
    >>> events = spark.createDataFrame(rows, ["type", "ts"])
    >>> [rule.name for rule in sqs.mine(events, window=5, min_support=2, min_confidence=0.5)]
    ['Jam => Crash']
    """
    from seqube.predict.mining import read_aim
    from seqube.spark import forecasting, ingest

    source = ingest.read_source(events, type, time, unit)
    lengths = (source.schema.unit, window, min_support, min_confidence, horizon)
    aim = read_aim(*lengths, max_events, kinds, partition_by, limit, min_lift, min_gain)
    if not events.isStreaming:
        source.warn()
    return forecasting.mine(source, aim, slices, progress)


@checked_on_spark
def quarantine(events: DataFrame, *, type: str = "type", time: str = "ts", unit: str = "ms") -> DataFrame:
    """The rows that are no events, as they came, with the column `reason`.

    - `events`: a DataFrame, with `type`, `time` and `unit` as for `run`.

    >>> events = spark.createDataFrame([("Card", 0), (None, 1)], "type string, ts bigint")
    >>> sqs.quarantine(events).collect()
    [Row(type=None, ts=1, reason='no type')]
    """
    from seqube.spark import ingest

    return ingest.read_source(events, type, time, unit).rejected()


@checked_on_spark
def run_pipeline(spark: SparkSession, path: str | Path, *, once: bool = False, drain: bool = False) -> Counts:
    """Run a declared pipeline: source, checks, queries, rules, sinks; as a stream, until it is stopped or has taken what is there.

    - `spark`: the session to run on.
    - `path`: the pipeline file.
    - `once`: as a batch over all that is there now, instead of a stream.
    - `drain`: as a stream that ends: what is there is taken, and all that waits for events that could still come is decided.

    >>> sqs.run_pipeline(spark, "no-such-file.yaml")
    Traceback (most recent call last):
    seqube.errors.SchemaError: cannot read the pipeline file no-such-file.yaml...
    """
    from seqube.spark.streaming.declaration import AVAILABLE_NOW, read_declaration
    from seqube.spark.streaming.pipeline import run_once, run_stream

    declared = read_declaration(path)
    if drain:
        declared = replace(declared, trigger=AVAILABLE_NOW, drain=True)
    return run_once(declared, spark) if once else run_stream(declared, spark=spark)


@checked_on_spark
def register(spark: SparkSession) -> None:
    """Make queries known to SQL, as the table functions `seqube` and `seqube_by`.

    - `spark`: the session that learns them.

    >>> sqs.register(spark)
    >>> spark.createDataFrame([("A", 1), ("B", 2)], ["type", "ts"]).createOrReplaceTempView("letters")
    >>> spark.sql("SELECT start, end FROM seqube(TABLE(letters), 'SEQ(A a, B b) WITHIN 5')").collect()
    [Row(start=1, end=2)]
    """
    from seqube.spark import table_functions

    table_functions.register(spark)


@checked_on_spark
def sql(text: str, *, limits: Limits | None = None) -> DataFrame:
    """Run a SQL statement with MATCH_RECOGNIZE clauses, or queries of our own, over the tables and views of the session.

    - `text`: the statement, as for `seqube.sql`; whatever stands around clauses is Spark's own SQL.
    - `limits`: what each task of a clause may use.

    >>> spark.createDataFrame([(1, 12), (2, 9), (3, 7), (4, 11)], "ts int, price int").createOrReplaceTempView("trades")
    >>> sqs.sql('''
    ...     SELECT low, ended FROM trades MATCH_RECOGNIZE (
    ...       ORDER BY ts MEASURES LAST(down.price) AS low, LAST(up.ts) AS ended
    ...       PATTERN (strt down+ up+) DEFINE down AS price < PREV(price), up AS price > PREV(price))''').collect()
    [Row(low=7, ended=4)]
    """
    from seqube.spark.row_patterns import run_statement

    return run_statement(text, limits)
