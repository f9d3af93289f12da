"""Queries over a streaming DataFrame: the same engine, its state in Spark's state store, one columnar state per query and bucket.

    rows -> blobs by (query, bucket) -> stateful operator: late rows out, the rest waits for the watermark, matches out -> rows

What a bucket does is in `watch`; here it meets Spark. Its state is one small value and a map of chunks, of which a micro-batch
writes one and reads those that the worker does not have at hand. Timers wake a bucket without new rows: when a waiting event is
due, when a match that waits for its end is final, and when the window has left everything behind, so that its state can go.

Rules of one partition are watched as a query is (`foresight`). A query without a key has one bucket, and so one task.
Cost of a micro-batch: the new rows, and the events of the keys that have something new.
Invariant: a micro-batch that is repeated after a crash writes what it would have written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from seqube.engine.limits import NO_LIMITS, Limits
from seqube.engine.sequence import LOWEST
from seqube.errors import PlanError
from seqube.events import Hierarchy
from seqube.events.schema import UNITS, value_type
from seqube.plan.needs import Plan, needs_of
from seqube.spark import ingest
from seqube.spark.batch import WriteBatch, in_worker, keep_loaded
from seqube.spark.forecasting import Share
from seqube.spark.ingest import IDENTITY, INPUT_ORDER, KEY, REASON, TEXT, EventFrame
from seqube.spark.streaming.foresight import RULES
from seqube.spark.streaming.held import Held
from seqube.spark.streaming.placing import CountGenerations, Placing
from seqube.spark.streaming.sightings import count_types
from seqube.spark.streaming.together import SharedWorkload
from seqube.spark.streaming.watch import FIRST_TAKER, STATE_BUCKETS, Watch, adapt
from seqube.spark.streaming.workloads import ChangingWatches, Workload, as_json, row_schema
from seqube.spark.transport.blobs import PIECE_ROWS, gather_batches, read_blobs, write_blob
from seqube.spark.transport.folding import Fold, Texts

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter
    from pyspark.sql.streaming.stateful_processor import (
        ExpiredTimerInfo,
        MapState,
        StatefulProcessorHandle,
        TimerValues,
        ValueState,
    )

END_ROW = "#end"  # the reason of the row that is no event because it ends the stream
QUARANTINE = "#quarantine"  # the "query" that rows which are no events go to
MATCH_ROW, LATE_ROW, REJECTED_ROW, PROGRESS_ROW = "match", "late", "rejected", "progress"  # the kinds of rows that come out
# A blob has `n` rows of a query; of progress, the plan that is gone on by after `n` switches, if there were any.
OUT_ROWS = "kind string, query string, n long, state_rows long, state_bytes long, blob binary"
PlaceRows: TypeAlias = Callable[[pa.Table, Watch], pa.Array]
ROUTED_BLOBS = "query string, bucket int, blob binary"


def buckets_for(n_cores: int) -> int:
    """How many buckets keep so many cores busy: twice as many, because keys fall on them by chance, in steps of twice as many."""
    return max(STATE_BUCKETS, 1 << (2 * n_cores - 1).bit_length())


def tick_of(watermark_ms: int, unit: str) -> int:
    """The last tick that a watermark of Spark's has passed; none has been passed while there is no watermark."""
    if watermark_ms <= 0:
        return LOWEST
    nanoseconds = UNITS[unit]
    if nanoseconds < 1_000:
        return watermark_ms * 1_000_000 + 999
    return watermark_ms * 1_000_000 // nanoseconds


def ms_of(tick: int, unit: str) -> int:
    """The first watermark of Spark's, in milliseconds, that has passed a tick."""
    return -(-tick * UNITS[unit] // 1_000_000)


# ---------------------------------------------------------------- what a worker does


def pack_stream(
    batches: Iterable[pa.RecordBatch],
    watches: Mapping[str, Watch],
    place: PlaceRows,
    raw: pa.Schema,
    time: str,
) -> Iterator[pa.RecordBatch]:
    """Rows from Spark -> blobs by query and bucket; `place` gives a number for the key of every row, null where it is not wanted.

    `raw` are the columns as they came, among them the time column, which may have come as texts. Without a reason all are events.
    """
    numbers = _arrivals()
    for table in gather_batches(batches):
        table = table.append_column(INPUT_ORDER, pa.array(numbers + np.arange(table.num_rows)))
        numbers += table.num_rows
        bad = table.column(REASON).is_valid().combine_chunks() if REASON in table.column_names else None
        if bad is not None and bad.true_count:
            rejected = table.filter(bad)
            if TEXT in table.column_names:
                rejected = rejected.set_column(rejected.schema.get_field_index(time), time, rejected.column(TEXT))
            yield _routed(QUARANTINE, 0, adapt(rejected, pa.schema([*raw, pa.field(REASON, pa.string())])))
        seen = np.zeros(table.num_rows, np.bool_)
        for name, watch in watches.items():
            places = place(table, watch)
            here = np.asarray(places.is_valid())
            own = table
            if FIRST_TAKER in watch.arriving.hidden:
                own = own.append_column(FIRST_TAKER, pa.array((~seen).astype(np.int64)))
                seen |= here
            rows = np.flatnonzero(here)
            if not len(rows):
                continue
            keys = np.asarray(places.fill_null(0))
            if KEY in watch.arriving.hidden:
                own = own.append_column(KEY, pa.array((keys >> 32).astype(np.int32)))  # the lower bits tell the bucket
            buckets = (keys[rows] % watch.n_buckets).astype(np.int32)
            order = np.argsort(buckets, kind="stable")
            sent = watch.arriving.select(own).take(pa.array(rows[order]))
            found, starts = np.unique(buckets[order], return_index=True)
            for bucket, start, stop in zip(found, starts, [*starts[1:], len(rows)], strict=True):
                yield _routed(name, int(bucket), sent.slice(start, stop - start))


def _arrivals() -> int:
    """The first number of the rows of this task, in the order of the input; Spark's own function for that takes no streams."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return context.partitionId() << 33 if context is not None else 0


def _routed(query: str, bucket: int, table: pa.Table) -> pa.RecordBatch:
    columns = [pa.array([query]), pa.array([bucket], pa.int32()), pa.array([write_blob(table)], pa.binary())]
    return pa.RecordBatch.from_arrays(columns, names=["query", "bucket", "blob"])


class Chunks(MutableMapping[int, bytes]):
    """The chunks of the bucket at hand in Spark's state store, of which each can be read and written alone."""

    def __init__(self, state: MapState) -> None:
        self._state = state

    def __getitem__(self, number: int) -> bytes:
        row = self._state.getValue((number,))
        if row is None:
            raise KeyError(number)
        return bytes(row[0])

    def __setitem__(self, number: int, blob: bytes) -> None:
        self._state.updateValue((number,), (blob,))

    def __delitem__(self, number: int) -> None:
        self._state.removeKey((number,))

    def __iter__(self) -> Iterator[int]:
        return (key[0] for key in self._state.keys())  # noqa: SIM118

    def __len__(self) -> int:
        return sum(1 for _ in self)


class Buckets(StatefulProcessor):
    """The stateful operator: one call for each query and bucket that has new rows or whose time has come."""

    def __init__(self, watches: Callable[[], Mapping[str, Watch]]) -> None:
        self._watches = watches

    def init(self, handle: StatefulProcessorHandle) -> None:
        keep_loaded()
        self._handle = handle
        self._about: ValueState = handle.getValueState("about", "fingerprint string, held string, engine binary, timer long")
        self._chunks: MapState = handle.getMapState("chunks", "number long", "blob binary")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: TimerValues) -> Iterator[Row]:  # noqa: N802, N803
        yield from self._call(key, [bytes(row["blob"]) for row in rows], timerValues)

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,
        timerValues: TimerValues,  # noqa: N803
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: N803
    ) -> Iterator[Row]:
        yield from self._call(key, [], timerValues, fired=True)

    def close(self) -> None:
        pass

    def _call(self, key: tuple[str, int], blobs: list[bytes], timers: TimerValues, fired: bool = False) -> Iterator[Row]:
        query, bucket = key
        if query == QUARANTINE:
            yield from (_row(REJECTED_ROW, query, read_blobs([blob]), blob) for blob in blobs)
            return
        watch = self._watches().get(query)
        fingerprint, text, engine, timer = self._about.get() or (None, None, None, None)
        timer = None if fired else timer  # Spark takes away those that went off
        if watch is None or (fingerprint is not None and fingerprint != watch.fingerprint):
            self._chunks.clear()  # removed or replaced since the last run: its state goes, and with it its timers
            text = None
        if watch is None:
            self._set(None, timer, None)
            return
        unit = watch.keeping.schema.unit
        watermark_ms = timers.getCurrentWatermarkInMs()
        held = None if text is None else Held.from_text(text, None if engine is None else bytes(engine))
        outcome = watch.take(held, blobs, tick_of(watermark_ms, unit), Chunks(self._chunks), bucket)
        wake = timer_for(outcome.wake, unit, watermark_ms)
        self._set(wake, timer, None if outcome.held is None else (watch.fingerprint, outcome.held))
        out = [] if outcome.matches is None else [(MATCH_ROW, *found) for found in watch.by_query(outcome.matches)]
        out += [] if outcome.late is None else [(LATE_ROW, query, outcome.late)]
        for kind, name, table in out:
            yield from (_row(kind, name, table.slice(start, PIECE_ROWS)) for start in range(0, table.num_rows, PIECE_ROWS))
        rows, size = (outcome.held.n_rows, outcome.held.n_bytes) if outcome.held is not None else (0, 0)
        plan = None if outcome.plan is None else outcome.plan.encode()
        yield Row(kind=PROGRESS_ROW, query=query, n=outcome.switches, state_rows=rows, state_bytes=size, blob=plan)

    def _set(self, wake: int | None, timer: int | None, about: tuple[str, Held] | None) -> None:
        """Remember, and be woken in time; a bucket has one timer, which `timer` was."""
        if timer is not None and timer != wake:
            self._handle.deleteTimer(timer)
        if wake is not None and timer != wake:
            self._handle.registerTimer(wake)
        if about is None:
            self._about.clear()
        else:
            self._about.update((about[0], about[1].to_text(), about[1].engine, wake))


def timer_for(wake: int | None, unit: str, watermark_ms: int) -> int | None:
    """A timer for when the watermark has reached a tick: it goes off when that is past it, and may not lie behind the watermark."""
    return None if wake is None else min(max(ms_of(wake, unit) - 1, watermark_ms + 1), 2**53)


def _row(kind: str, query: str, table: pa.Table, blob: bytes | None = None) -> Row:
    return Row(kind=kind, query=query, n=table.num_rows, state_rows=0, state_bytes=0, blob=blob or write_blob(table))


def unpack(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for blob in batch.column(0):
            table = adapt(pa.ipc.open_stream(blob.as_buffer()).read_all(), schema)
            yield from table.to_batches()


# ---------------------------------------------------------------- what the driver does


@dataclass(frozen=True)
class WatchedStream:
    """A stream under watch. `out` holds rows of every kind as blobs; the methods read one kind, of the stream or a batch of it."""

    out: DataFrame
    watches: Mapping[str, Watch]
    whole: pa.Schema  # the source's own columns
    raw: pa.Schema  # and these as they came

    def matches(self, name: str, out: DataFrame | None = None) -> DataFrame:
        schemas = {query: schema for watch in self.watches.values() for query, schema in watch.schemas.items()}
        return self._read(out, MATCH_ROW, schemas[name], [name])

    def forecasts(self, out: DataFrame | None = None) -> DataFrame:
        names = [name for name in self.watches if name.startswith(RULES)]
        return self._read(out, MATCH_ROW, self.watches[names[0]].wanted.schema, names)

    def late(self, out: DataFrame | None = None) -> DataFrame:
        return self._read(out, LATE_ROW, self.whole)

    def rejected(self, out: DataFrame | None = None) -> DataFrame:
        reason = "reason" if "reason" not in self.whole.names else "reason_"
        rows = self._read(out, REJECTED_ROW, pa.schema([*self.raw, pa.field(REASON, pa.string())]))
        return rows.withColumnRenamed(REASON, reason)

    def _read(self, out: DataFrame | None, kind: str, schema: pa.Schema, names: Sequence[str] | None = None) -> DataFrame:
        from pyspark.sql.pandas.types import from_arrow_schema

        out = self.out if out is None else out
        chosen = out.where(ingest.column("kind") == kind)
        if names is not None:
            chosen = chosen.where(ingest.column("query").isin(*names))
        work = in_worker(lambda batches: unpack(batches, schema))
        return chosen.select("blob").mapInArrow(work, from_arrow_schema(schema))


def _demand_rocksdb(spark: SparkSession) -> None:
    setting = "spark.sql.streaming.stateStore.providerClass"
    if "RocksDB" not in str(spark.conf.get(setting)):
        rocksdb = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        raise PlanError(
            f"streams keep their state in RocksDB, and this session does not\n  hint: spark.conf.set({setting!r}, {rocksdb!r})"
        )


def watch_stream(
    plans: Mapping[str, Plan],
    source: EventFrame,
    lateness: str,
    *,
    with_ids: bool = False,
    whole_rows: bool = False,
    shares: Sequence[Share] = (),
    limits: Limits = NO_LIMITS,
    generations: CountGenerations | None = None,
    counted: Mapping[str, Column] | None = None,
    end: str | None = None,
    workload: SharedWorkload | None = None,
    n_buckets: int = STATE_BUCKETS,
    own_buckets: Mapping[str, int] | None = None,
) -> WatchedStream:
    """Put queries and rules on a streaming DataFrame. `whole_rows`: late and rejected rows come out with all their columns.

    Queries of a `workload` are watched together, those of each key. Where they may be others in the next run, `generations` knows,
    from what each query asks, which of them have been there in every run since their state began, and which go together. `counted`
    are kinds of rows whose number is told with that of all rows, `seqube_rows`. A file in the folder `end` ends the stream.
    State with a key is kept in `n_buckets`, by which as many tasks can work on it, or in those that a query has of its own, by its
    fingerprint.
    """
    from pyspark.sql import functions as F  # noqa: N812

    schema = source.schema
    _demand_rocksdb(source.frame.sparkSession)
    watches, wanted = Placing(source, with_ids, whole_rows, limits).place(plans, shares, workload, generations)
    own = own_buckets or {}
    watches = {name: replace(watch, n_buckets=own.get(watch.fingerprint, n_buckets)) for name, watch in watches.items()}

    is_event = F.isnull(ingest.column(REASON))  # rows that are not events do not move the watermark
    moment = F.when(is_event, ingest.moment_of(ingest.clock(source), schema.unit)).otherwise(F.timestamp_micros(F.lit(0)))
    frame = source.frame.withColumn("#moment", moment)
    if end is not None:
        frame = frame.unionByName(_end_row(end, source), allowMissingColumns=True)
    frame = frame.withWatermark("`#moment`", lateness)
    columns = {name: f"#key{number}" for number, name in enumerate(watches)}
    places = [
        F.when(is_event & condition, ingest.key_hash(key, source)).alias(columns[name]) for name, (key, condition) in wanted.items()
    ]
    hidden = {name for watch in watches.values() for name in watch.arriving.hidden}
    if IDENTITY in hidden:
        places.append(ingest.identity(source).alias(IDENTITY))
    travelling = {name for watch in watches.values() for name in watch.arriving.schema.columns.names}
    names = [name for name in source.names if whole_rows or name in travelling]
    texts = [TEXT] if whole_rows and TEXT in source.frame.columns else []
    matters = F.coalesce(*(ingest.column(name) for name in columns.values())).isNotNull()
    kinds = {f"#{name}": condition for name, condition in (counted or {}).items()}
    marks = [condition.alias(name) for name, condition in kinds.items()]
    frame = frame.select(*(ingest.column(name) for name in [*names, *texts, REASON]), *places, *marks)
    comes_from_source = ~ingest.column(REASON).eqNullSafe(END_ROW)
    frame = frame.observe(
        "seqube_rows",
        F.count(F.when(comes_from_source, 1)).alias("read"),
        F.count(F.when(comes_from_source, ingest.column(REASON))).alias("quarantined"),
        F.count(F.when(matters, 1)).alias("relevant"),
        *(F.count(F.when(ingest.column(name), 1)).alias(name[1:]) for name in kinds),
        *count_types((name for plan in plans.values() for name in needs_of(plan, schema.unit).types), source),
    )
    is_rejected = comes_from_source & F.isnotnull(ingest.column(REASON))
    # Every column costs what a number of the row costs many times over: rows that are events have no reason, and few types.
    frame = frame.where(matters | is_rejected).drop(*kinds) if whole_rows else frame.where(matters).drop(REASON, *kinds)
    types = () if whole_rows or shares else ingest.coded_types(plans.values(), source)
    whole = pa.schema([field for field in schema.columns if field.name in names])
    raw = whole
    if texts:
        raw = whole.set(whole.get_field_index(source.time_column), pa.field(source.time_column, pa.string()))
    fold, time = Fold.of(frame, {source.type_column: Texts(types)} if types else {}), source.time_column

    def place(table: pa.Table, watch: Watch) -> pa.Array:
        return table.column(columns[watch.name]).chunk(0)

    packed = fold.map(frame, in_worker(lambda batches: pack_stream(batches, watches, place, raw, time)), ROUTED_BLOBS)
    return WatchedStream(_keep_state(packed, lambda: watches), watches, whole, raw)


def _end_row(folder: str, source: EventFrame) -> DataFrame:
    """A row for each line of a file in the folder: no event, at the end of all times, past which the watermark is brought by it."""
    from pyspark.sql import functions as F  # noqa: N812

    lines = source.frame.sparkSession.readStream.text(folder)
    last = F.timestamp_micros(F.lit(ingest.LAST_MOMENT_US))
    return lines.select(F.lit(END_ROW).alias(REASON), last.alias("#moment"))


def write_together(
    plans: Mapping[str, Plan],
    source: EventFrame,
    lateness: str,
    write: WriteBatch,
    *,
    with_ids: bool,
    limits: Limits,
    workload: SharedWorkload | None = None,
) -> DataStreamWriter:
    """One stream for a workload, whose micro-batches are handed to `write`, the rows of every query by its name."""
    stream = watch_stream(plans, source, lateness, with_ids=with_ids, limits=limits, workload=workload)

    def each(out: DataFrame, number: int) -> None:
        out = out.persist()
        try:
            write({name: stream.matches(name, out) for name in plans}, number)
        finally:
            out.unpersist()

    return stream.out.writeStream.foreachBatch(each)


def watch_changing(
    workload: Workload, source: EventFrame, hierarchy: Hierarchy | None, strategy: str, lateness: str, limits: Limits
) -> DataFrame:
    """Put a workload on a streaming DataFrame that may change while it runs; the rows of all queries, as JSON."""
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.pandas.types import from_arrow_schema

    schema = source.schema
    _demand_rocksdb(source.frame.sparkSession)
    workload.watched_over(schema, hierarchy, strategy)
    changing = ChangingWatches(workload.folder, schema, hierarchy, limits, strategy)
    frame = source.frame.where(F.isnull(ingest.column(REASON)))  # rows that are not events do not move the watermark
    frame = frame.withColumn("#moment", ingest.moment_of(ingest.clock(source), schema.unit)).withWatermark("`#moment`", lateness)
    frame = frame.select(*map(ingest.column, source.names), ingest.identity(source).alias(IDENTITY))
    fold, time = Fold.of(frame, {}), source.time_column
    pack = in_worker(lambda batches: pack_stream(batches, changing.now(), changing.place, schema.columns, time))
    out = _keep_state(fold.map(frame, pack, ROUTED_BLOBS), changing.now)
    rows = row_schema(value_type(schema.columns.field(time).type))
    found = out.where(ingest.column("kind") == MATCH_ROW).select("query", "blob")
    return found.mapInArrow(in_worker(lambda batches: as_json(batches, rows)), from_arrow_schema(rows))


def with_state(packed: DataFrame, operator: Buckets) -> DataFrame:
    """What the operator makes of what comes for each query and bucket."""
    from pyspark.sql import functions as F  # noqa: N812

    # The watermark was made of single rows. The operator below asks for a column of event time as well, and drops rows that are
    # behind the watermark by it; a blob holds rows of many times, and late ones have an output of their own: none may be dropped.
    never = F.lit("2261-01-01").cast("timestamp").alias("moment", metadata={"spark.watermarkDelayMs": 0})
    grouped = packed.select(*packed.columns, never).groupBy("query", "bucket")
    return grouped.transformWithState(operator, OUT_ROWS, "Append", "EventTime")


def _keep_state(packed: DataFrame, watches: Callable[[], Mapping[str, Watch]]) -> DataFrame:
    """Blobs by query and bucket -> rows of every kind, by way of the state of each bucket."""
    from pyspark.sql import functions as F  # noqa: N812

    out = with_state(packed, Buckets(watches))
    n_of = {kind: F.sum(F.when(ingest.column("kind") == kind, ingest.column("n"))) for kind in (MATCH_ROW, LATE_ROW, PROGRESS_ROW)}
    return out.observe(
        "seqube",
        F.coalesce(n_of[MATCH_ROW], F.lit(0)).alias("matches"),
        F.coalesce(n_of[LATE_ROW], F.lit(0)).alias("late"),
        F.coalesce(F.sum("state_rows"), F.lit(0)).alias("state_rows"),
        F.coalesce(F.sum("state_bytes"), F.lit(0)).alias("state_bytes"),
        F.coalesce(n_of[PROGRESS_ROW], F.lit(0)).alias("plan_switches"),
    )
