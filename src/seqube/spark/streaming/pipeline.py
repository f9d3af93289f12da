"""A declared pipeline: read, check, match, write; as a stream that goes on where it stopped, or once over what is there.

Every micro-batch of the stream writes into folders of its own, `<sink>/<query>/batch=<number>`, each replaced as a whole. Spark
repeats a micro-batch that was not finished with the same input and the same state, and it writes the same rows to the same folder:
nothing is lost and nothing is there twice, whatever was killed when. Any reader of partitioned folders can read a sink.

Counts always add up: every row that is read is used, irrelevant, late, or rejected and then counted as `quarantined`.
"""

from __future__ import annotations

import logging
import operator
import signal
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from functools import partial, reduce
from typing import TYPE_CHECKING, Any

from seqube.errors import DataError, PlanError, SchemaError, SequbeError
from seqube.language.tree import Query
from seqube.plan.needs import Plan
from seqube.plan.notes import missing_types
from seqube.spark import batch, forecasting, ingest, planning
from seqube.spark.failures import explain_failure, spark_errors, text_of
from seqube.spark.forecasting import Share
from seqube.spark.ingest import REASON, EventFrame
from seqube.spark.outlets import Outlet
from seqube.spark.session import described, hushed, session
from seqube.spark.sinks import ONCE, Sink, folder_of
from seqube.spark.streaming.changes import FileWatch, WorkloadChange
from seqube.spark.streaming.checkpoint import Section, announce_end, claim, count_generations, end_of, hold, note_end
from seqube.spark.streaming.declaration import AVAILABLE_NOW, Declaration
from seqube.spark.streaming.gauges import Gauges
from seqube.spark.streaming.sightings import types_present
from seqube.spark.streaming.sources import open_source, require_keys, without_key
from seqube.spark.streaming.stream import LATE_ROW, MATCH_ROW, PROGRESS_ROW, REJECTED_ROW, WatchedStream, buckets_for, watch_stream
from seqube.spark.streaming.together import SharedWorkload

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

POLL_SECONDS = 0.5
PATIENCE_SECONDS = 60.0  # that a micro-batch may take before a changed file stops it
LOGGER = logging.getLogger("seqube.pipeline")
METRICS = {  # the columns of what is said about a micro-batch, beside its number
    **dict.fromkeys(("read", "used", "irrelevant", "late", "quarantined", "null_keys"), "bigint"),
    "matches": "map<string, bigint>",
    "forecasts": "bigint",
    **dict.fromkeys(("at", "watermark"), "string"),
    "watermark_lag_seconds": "double",
    "duration_ms": "bigint",
    **dict.fromkeys(("changes", "unknown_types", "plans"), "string"),
    "rows_per_second": "double",
    **dict.fromkeys(("state_rows", "state_bytes", "plan_switches"), "bigint"),
}


@dataclass(frozen=True, slots=True)
class Counts:
    """What became of the rows that were read, and what was found. Rows read are known when a micro-batch is over.

    `null_keys` are rows that some query looks at and cannot find partners for, because they lack its key. Where no query can, they
    are rejected, and among the `quarantined`. `plans` says by what plan queries that share are gone on with, where it was changed.
    """

    read: int | None = 0
    used: int | None = 0
    irrelevant: int | None = 0
    late: int = 0
    quarantined: int = 0
    matches: Mapping[str, int] | None = None
    forecasts: int = 0
    null_keys: int | None = 0
    plans: str | None = None

    def __add__(self, other: Counts) -> Counts:
        def total(one: int | None, two: int | None) -> int | None:
            return None if one is None or two is None else one + two

        names = {**(self.matches or {}), **(other.matches or {})}
        return Counts(
            total(self.read, other.read),
            total(self.used, other.used),
            total(self.irrelevant, other.irrelevant),
            self.late + other.late,
            self.quarantined + other.quarantined,
            {name: (self.matches or {}).get(name, 0) + (other.matches or {}).get(name, 0) for name in names},
            self.forecasts + other.forecasts,
            total(self.null_keys, other.null_keys),
        )


ReportBatch = Callable[[int, Counts], None]


def run_once(declared: Declaration, spark: SparkSession | None = None) -> Counts:
    """The pipeline as a batch over all that is there now: every match is final at the end of the input."""
    spark = spark or session()
    _refuse_places(spark, declared)
    source = open_source(spark, declared, streaming=False)
    _, plans = _plan(declared, source)
    shares = _share_rules(declared, source)
    source = require_keys(source, declared, plans, shares)
    for name in plans:
        declared.sinks[declared.sink_of(name)].refuse_stream(spark, declared.sink_of(name), name)
    if shares:
        declared.sinks["forecasts"].refuse_stream(spark, "forecasts")
    with spark_errors(declared.path):
        with described(spark, f"{declared.file.stem}: count rows"):
            counts, types = _count(source, declared, plans, shares)
        for query in declared.workload.values():
            ingest.refuse_unknown_types(query, types, declared.hierarchy)
        found = {}
        if plans:
            planned = planning.plan_batch(declared.workload, source, declared.hierarchy, declared.strategy)
            tables = batch.find(planned, source, with_ids=True, limits=declared.limits)
            for name in plans:
                with described(spark, f"{declared.file.stem}: {name}"):
                    found[name] = _write_once(tables[name], declared.sinks[declared.sink_of(name)], name)
            tables.unpersist()
        n_forecasts = 0
        if shares:
            predictions = forecasting.forecast(declared.rules, source, declared.hierarchy, limits=declared.limits)
            with described(spark, f"{declared.file.stem}: forecasts"):
                n_forecasts = _write_once(predictions, declared.sinks["forecasts"])
        if counts.quarantined and "quarantine" in declared.sinks:
            declared.sinks["quarantine"].write(source.rejected(), folder_of(ONCE))
    counts = replace(counts, matches=found, forecasts=n_forecasts)
    unknown = _unknown_types(declared, source, types) if len(types) < ingest.SOME_TYPES else None
    _write_metrics(spark, declared, ONCE, asdict(counts) | {"unknown_types": unknown})
    return counts


def run_stream(
    declared: Declaration,
    report: ReportBatch | None = None,
    stop: Callable[[], bool] = lambda: False,
    tell: Callable[[WorkloadChange], None] | None = None,
    spark: SparkSession | None = None,
) -> Counts:
    """The pipeline as a stream, from where it stopped the last time, until it is interrupted (or has taken what is there).

    Where its file is edited meanwhile, it goes on with the queries and rules that are there now; `tell` hears of it.
    """
    if declared.checkpoint is None:
        raise SchemaError(f"{declared.file}: a stream needs a place to remember how far it is\n  hint: checkpoint: out/checkpoint")
    spark = spark or session()
    if ".connect." in type(spark).__module__:
        raise PlanError(
            "a pipeline writes its sinks in this process, and through Spark Connect a stream is written elsewhere\n"
            "  hint: run it where the driver runs, or with --once, or write what seqube.spark.run gives yourself"
        )
    _refuse_places(spark, declared)
    # After the session, which has a way with Ctrl-C of its own.
    checkpoint = declared.checkpoint
    with hold(checkpoint), _interruptible() as interrupted, _served(declared.port) as gauges:
        following = _Following(spark, report, lambda: interrupted() or stop(), tell, gauges)
        while True:
            changed = _run_stream(declared, following)
            if changed is None:
                break
            declared = changed
        if declared.drain and not following.stop():
            announce_end(checkpoint)
            _run_stream(declared, following)
            if not following.stop():
                note_end(checkpoint)
        return following.total


def _run_stream(declared: Declaration, following: _Following) -> Declaration | None:
    """Run until it ends; the declaration to go on with, where there is another one."""
    source, section, stream = prepare_stream(declared, following.spark)
    counted: dict[int, Counts] = {}

    def write(out: DataFrame, number: int) -> None:
        try:
            counted[section.first + number] = _write_batch(out, section.first + number, stream, declared)
        except Exception:
            if following.is_stopping:
                # Spark searches what it is told for signs of a stop, and a long text overflows the stack of the thread that does.
                raise InterruptedError("stopped") from None
            raise

    writer = stream.out.writeStream.foreachBatch(write).option("checkpointLocation", section.folder).queryName(declared.file.stem)
    timed = (
        writer.trigger(availableNow=True) if declared.trigger == AVAILABLE_NOW else writer.trigger(processingTime=declared.trigger)
    )
    with spark_errors(declared.path):
        following.is_stopping = False
        query = timed.start()
        try:
            return following.follow(query, counted, declared, source, section.first)
        finally:
            following.end(query)


def prepare_stream(
    declared: Declaration, spark: SparkSession, n_buckets: int | None = None
) -> tuple[EventFrame, Section, WatchedStream]:
    """What is read, where the stream stopped, and the stream. A new one has so many buckets, or as many as the cluster asks for."""
    assert declared.checkpoint is not None
    source = open_source(spark, declared, streaming=True)
    columns = {field.name: field.dataType.simpleString() for field in source.frame.schema if field.name in source.names}
    section = claim(declared, columns, n_buckets or buckets_for(spark.sparkContext.defaultParallelism))
    queries, plans = _plan(declared, source)
    shares = _share_rules(declared, source)
    stream = watch_stream(
        plans,
        require_keys(source, declared, plans, shares),
        declared.lateness,
        with_ids=True,
        whole_rows=True,
        shares=shares,
        limits=declared.limits,
        generations=partial(count_generations, declared.checkpoint),
        workload=SharedWorkload(queries, declared.hierarchy, declared.strategy),
        end=end_of(declared.checkpoint),
        n_buckets=section.buckets,
        own_buckets=section.own_buckets,
        counted={"null_keys": without_key(source, declared, plans, shares)},
    )
    return source, section, stream


def _check_workload(source: EventFrame, declared: Declaration) -> None:
    """Raise what is wrong with queries and rules for this source."""
    _plan(declared, source)
    _share_rules(declared, source)


def _plan(declared: Declaration, source: EventFrame) -> tuple[dict[str, Query], Mapping[str, Plan]]:
    """The queries, checked against the columns of a stream, and the plan of each by itself."""
    queries = ingest.bind_all(declared.workload, source)
    return queries, planning.plan_stream(queries, declared.hierarchy, declared.strategy)


def _share_rules(declared: Declaration, source: EventFrame) -> list[Share]:
    if not declared.rules:
        return []
    return forecasting.share_rules(declared.rules, source.schema, declared.hierarchy, limits=declared.limits)


def _unknown_types(declared: Declaration, source: EventFrame, present: Collection[str]) -> str | None:
    """What a person should know of types that queries name and no event has; None where there is nothing to say."""
    queries = ingest.bind_all(declared.workload, source).values() if present else ()
    notes = dict.fromkeys(note for query in queries for note in missing_types(query, present, declared.hierarchy))
    return " | ".join(notes) or None


@dataclass
class _Following:
    """Waits for streams to end, or to be stopped or changed, and puts together what each micro-batch did."""

    spark: SparkSession
    report: ReportBatch | None
    stop: Callable[[], bool]
    tell: Callable[[WorkloadChange], None] | None
    gauges: Gauges | None = None
    total: Counts = field(default_factory=lambda: Counts(matches={}))
    seen: int = -1
    types: set[str] = field(default_factory=set)  # of events that came, as far as somebody asked
    changes: list[WorkloadChange] = field(default_factory=list)  # those that no metrics have told yet
    watch: FileWatch | None = None
    is_stopping: bool = False  # the query that runs is being stopped

    def follow(
        self, query: StreamingQuery, counted: dict[int, Counts], declared: Declaration, source: EventFrame, first: int
    ) -> Declaration | None:
        """Wait for one run of the stream, whose first micro-batch has this number.

        Gives the declaration to go on with, where there is another one.
        """
        if self.watch is None:
            self.watch = FileWatch(declared, partial(_check_workload, source))
        look = None
        while query.isActive and not self.stop():
            query.awaitTermination(POLL_SECONDS)  # type: ignore[arg-type]
            self._drain(query, counted, declared, source, first)
            # What is there is taken as it was begun, where it then ends: the next run will find the other file.
            look = self.watch.look() if declared.trigger != AVAILABLE_NOW else None
            if look is not None and look[1].refused is None:
                self._end_between(query)
                break
            if look is not None:
                self._hear(look[1], declared, is_idle=not counted and not query.status["isTriggerActive"])
                look = None
        if query.exception() is not None and not self.is_stopping:
            raise query.exception()  # type: ignore[misc]
        self.end(query)
        self._drain(query, counted, declared, source, first)
        if look is None:
            return None
        self._hear(look[1], declared, is_idle=True)
        return look[0]

    def _end_between(self, query: StreamingQuery) -> None:
        """Stop when a micro-batch is over; one that takes very long is repeated with the next start, as after any other stop."""
        until = time.monotonic() + PATIENCE_SECONDS
        while query.isActive and query.status["isTriggerActive"] and time.monotonic() < until:
            time.sleep(0.01)
        self.end(query)

    def end(self, query: StreamingQuery) -> None:
        """Stop at once. A micro-batch that is not finished ends in an error that nobody needs: the next start repeats it."""
        if query.isActive:
            self.is_stopping = True
            with hushed(self.spark):
                query.stop()

    def _hear(self, change: WorkloadChange, declared: Declaration, is_idle: bool) -> None:
        """Tell of a change: at once, and with the next micro-batch, whose place in the metrics it has until then."""
        LOGGER.log(logging.INFO if change.refused is None else logging.WARNING, "%s: %s", declared.file, change)
        self.changes.append(change)
        if is_idle and self.seen >= 0:
            _write_metrics(self.spark, declared, self.seen + 1, asdict(Counts(None, None, None, 0, 0, {})) | self._changed)
        if self.tell is not None:
            self.tell(change)

    @property
    def _changed(self) -> dict[str, str | None]:
        return {"changes": " | ".join(map(str, self.changes)) or None}

    def _drain(
        self, query: StreamingQuery, counted: dict[int, Counts], declared: Declaration, source: EventFrame, first: int
    ) -> None:
        for progress in query.recentProgress:
            number = first + progress.batchId
            if number <= self.seen or number not in counted:
                continue
            self.seen = number
            rows = progress.observedMetrics.get("seqube_rows")
            counts = counted.pop(number)
            if rows is not None:
                counts = replace(counts, read=rows["read"], used=rows["relevant"] - counts.late)
                counts = replace(counts, irrelevant=rows["read"] - rows["relevant"] - counts.quarantined)
                counts = replace(counts, null_keys=rows["null_keys"])
                self.types |= types_present(rows.asDict())
            self.total += counts
            unknown = {"unknown_types": _unknown_types(declared, source, self.types)}
            _write_metrics(self.spark, declared, number, asdict(counts) | _timing(progress) | self._changed | unknown)
            self.changes = []
            if self.gauges is not None:
                self.gauges.show(number, asdict(self.total), _timing(progress))
            if self.report is not None:
                self.report(number, counts)


def _timing(progress: Any) -> dict[str, Any]:
    watermark = progress.eventTime.get("watermark")
    newest = progress.eventTime.get("max")
    observed = progress.observedMetrics.get("seqube")
    state = {name: observed[name] for name in ("state_rows", "state_bytes", "plan_switches")} if observed else {}
    lag = None
    if watermark and newest:
        lag = (datetime.fromisoformat(newest) - datetime.fromisoformat(watermark)).total_seconds()
    return {
        "at": progress.timestamp,
        "watermark": watermark,
        "watermark_lag_seconds": lag,
        "duration_ms": progress.durationMs.get("triggerExecution"),
        "rows_per_second": progress.processedRowsPerSecond,
        **state,
    }


# ---------------------------------------------------------------- counts


def _count(
    source: EventFrame, declared: Declaration, plans: Mapping[str, Any], shares: Sequence[Share]
) -> tuple[Counts, list[str]]:
    """What becomes of the rows, and the types of those that are events (some, where there are very many)."""
    from pyspark.sql import functions as F  # noqa: N812

    bad = F.isnotnull(ingest.column(REASON))
    wanted = [ingest.relevant(plans.values(), source), *(share.wants(source) for share in shares)]
    used = ~bad & reduce(operator.or_, wanted)
    name = ingest.column(source.type_column).cast("string")
    row = source.frame.agg(
        F.count(F.lit(1)).alias("read"),
        F.count(F.when(bad, 1)).alias("bad"),
        F.count(F.when(used, 1)).alias("used"),
        F.count(F.when(without_key(source, declared, plans, shares), 1)).alias("null_keys"),
        F.slice(F.collect_set(F.when(~bad, name)), 1, ingest.SOME_TYPES).alias("types"),
    ).collect()[0]
    counts = Counts(row["read"], row["used"], row["read"] - row["used"] - row["bad"], 0, row["bad"], null_keys=row["null_keys"])
    return counts, row["types"]


# ---------------------------------------------------------------- sinks


def _write_batch(out: DataFrame, number: int, stream: WatchedStream, declared: Declaration) -> Counts:
    """One micro-batch: everything it found, each kind into a folder of its own."""
    from pyspark.sql import functions as F  # noqa: N812

    out = out.persist()
    try:
        with described(out.sparkSession, f"{declared.file.stem}: micro-batch {number}: match"):
            plan = F.max(F.when(ingest.column("kind") == PROGRESS_ROW, ingest.column("blob").cast("string"))).alias("plan")
            rows = out.groupBy("kind", "query").agg(F.sum("n").alias("n"), plan).collect()
        counts = {(row["kind"], row["query"]): row["n"] for row in rows if row["kind"] != PROGRESS_ROW}
        folder = folder_of(number)
        matches = {name: counts.get((MATCH_ROW, name), 0) for name in declared.workload}
        n_forecasts = sum(n for (kind, name), n in counts.items() if kind == MATCH_ROW and name not in matches)
        for name, n_matches in matches.items():
            if n_matches:
                _write(declared, declared.sink_of(name), number, stream.matches(name, out), name, folder)
        if n_forecasts:
            _write(declared, "forecasts", number, stream.forecasts(out), folder)
        totals = {kind: sum(n for (found, _), n in counts.items() if found == kind) for kind in (LATE_ROW, REJECTED_ROW)}
        if totals[LATE_ROW] and "late" in declared.sinks:
            _write(declared, "late", number, stream.late(out), folder)
        if totals[REJECTED_ROW] and "quarantine" in declared.sinks:
            _write(declared, "quarantine", number, stream.rejected(out), folder)
    finally:
        out.unpersist()
    plans = " | ".join(f"{row['query'].lstrip('#')}: {row['plan']}" for row in rows if row["plan"]) or None
    found = Counts(None, None, None, totals[LATE_ROW], totals[REJECTED_ROW], matches, n_forecasts, None, plans)
    _write_metrics(out.sparkSession, declared, number, asdict(found))
    return found


def _write(declared: Declaration, sink: str, number: int, rows: DataFrame, *inside: str) -> None:
    """Write rows to a sink. One that fails stops the stream, with its name; the micro-batch is repeated with the next start."""
    what = f"{declared.file.stem}: micro-batch {number}: {' '.join((sink, *inside[:-1]))}"
    try:
        with described(rows.sparkSession, what):
            declared.sinks[sink].write(rows, *inside)
    except SequbeError:
        raise
    except Exception as error:
        why = explain_failure(text_of(error), declared.path).replace("\n", "; ")
        raise DataError(
            f"the sink {sink!r} cannot be written: {why}\n  hint: once that is mended, the next start goes on; nothing is lost"
        ) from error


def _refuse_places(spark: SparkSession, declared: Declaration) -> None:
    for name, sink in declared.sinks.items():
        sink.refuse(spark, name)


def _write_once(frame: DataFrame, sink: Sink | Outlet, *inside: str) -> int:
    """Write all of it, and say how many rows that are."""
    frame = frame.cache()
    n_rows = frame.count()
    sink.write(frame, *inside, folder_of(ONCE))
    frame.unpersist()
    return n_rows


def _write_metrics(spark: SparkSession, declared: Declaration, number: int | str, row: dict[str, Any]) -> None:
    if "metrics" in declared.sinks:
        declared.sinks["metrics"].write_row(spark, row, METRICS, number)


# ---------------------------------------------------------------- running


@contextmanager
def _served(port: int | None) -> Iterator[Gauges | None]:
    """The counts at a port, where one is named."""
    gauges = None if port is None else Gauges(port)
    try:
        yield gauges
    finally:
        if gauges is not None:
            gauges.close()


@contextmanager
def _interruptible() -> Iterator[Callable[[], bool]]:
    """Ctrl-C and a polite kill ask the stream to stop after what it is doing, instead of tearing it down."""
    asked: list[int] = []

    def ask(number: int, _: Any) -> None:
        if asked:
            raise KeyboardInterrupt
        asked.append(number)

    try:
        before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:  # not in the main thread: whoever runs it there stops it
        before = {}
    try:
        yield lambda: bool(asked)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
