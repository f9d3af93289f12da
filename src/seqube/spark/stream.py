"""Queries over a streaming DataFrame: the same engine, its state in Spark's state store, one columnar state per query and bucket.

    rows -> blobs by (query, bucket) -> stateful operator: late rows out, the rest waits for the watermark, matches out -> rows

An event waits until the watermark has passed it; then all events up to there are put in order and handed to the engine at once, so
that results are those of the ordered stream and final when they come. A row that comes after the watermark has passed it is late:
it goes to the late output and changes nothing. Timers wake a bucket without new rows: when a waiting event is due, when a match
that waits for its end is final, and when the window has left everything behind, so that its state can go.

State is Arrow bytes: the events inside the window, and those that wait. A query without a key has one bucket, and so one task.
Cost of a micro-batch: the new rows, and for buckets that are touched the events in their window.
Invariant: what comes out depends on the events and the watermarks alone, not on how they were cut into micro-batches.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from seqube.engine.instances import plus
from seqube.engine.predicates import Ints
from seqube.engine.sequence import LOWEST
from seqube.engine.state import State, ticks
from seqube.errors import PlanError
from seqube.events import Events
from seqube.events.schema import UNITS
from seqube.plan.physical import MatchPlan
from seqube.spark import ingest
from seqube.spark.batch import Answer, Columns, answer, needed_schema, number_identities
from seqube.spark.blobs import gather_batches, read_blobs, write_blob
from seqube.spark.ingest import IDENTITY, REASON, SEQUENCE, TEXT, Source
from seqube.spark.routing import Plan, matches_of, shuffle_key

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.state import GroupState

BUCKETS = 16  # per query with a key; part of its state's layout, so a running query keeps the number it began with
FIRST = "#first"  # 1 where this query is the first of those a row goes to
QUARANTINE = "#quarantine"  # the "query" that rows which are no events go to
MATCH, LATE, REJECTED, PROGRESS = "match", "late", "quarantine", "progress"  # the kinds of rows that come out
OUT = "kind string, query string, n long, state_rows long, state_bytes long, blob binary"
BLOBS = "query string, bucket int, blob binary"
STATE = "fingerprint string, kept binary, waiting binary"
PIECE = 100_000  # rows of a blob that comes out


# ---------------------------------------------------------------- one bucket of one query, without Spark


@dataclass(frozen=True, slots=True)
class Held:
    """What a bucket remembers between micro-batches: the engine's state, and events that the watermark has not passed."""

    kept: bytes | None = None
    waiting: bytes | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    held: Held | None  # None: nothing is left to remember
    matches: pa.Table | None
    late: pa.Table | None
    wake: int | None  # the tick that, once the watermark has reached it, there is something to do
    n_rows: int = 0  # events that are remembered


@dataclass(frozen=True)
class Watch:
    """One query of a stream as workers need it."""

    name: str
    wanted: Answer
    arriving: Columns  # what comes in, whole rows where late ones are wanted
    keeping: Columns  # what the query looks at

    @cached_property
    def fingerprint(self) -> str:
        """Changes when the query does: the state of another query is not continued."""
        return hashlib.sha256(repr(_plain((self.wanted.plan, self.wanted.with_ids, self.keeping.schema.unit))).encode()).hexdigest()

    @property
    def plan(self) -> MatchPlan:
        return matches_of(self.wanted.plan)

    def take(self, held: Held | None, blobs: Iterable[bytes], watermark: int) -> Outcome:
        """Take new rows, and decide all that ends up to the watermark."""
        held = held or Held()
        state = State.from_bytes(held.kept) if held.kept is not None else State()
        if state.events is not None:
            state = replace(state, events=self._as_events(state.events.table))
        arrived = read_blobs(blobs)
        late = None
        if arrived is not None:
            arrived = self._in_order_of_arrival(_adapt(arrived, self.arriving.arrow))
            times = self.arriving.times(arrived)
            if (times <= watermark).any():
                late = self._reported(arrived.filter(pa.array(times <= watermark)))
                arrived = arrived.filter(pa.array(times > watermark))
            arrived = arrived.select(self._names)
        waiting = self._join(held.waiting, arrived)
        times = self.keeping.times(waiting)
        due = times <= watermark
        ready = self._as_events(waiting.filter(pa.array(due)))
        if IDENTITY in self.keeping.hidden:
            ready = number_identities(ready)
        matches = None
        if state.events is not None or len(ready):
            state, matches = self.wanted.matcher.advance(state, ready, watermark + 1)
            matches = self.wanted.rows(matches)
        return self._outcome(state, waiting.filter(pa.array(~due)), times[~due], matches, late)

    def _outcome(self, state: State, waiting: pa.Table, times: Ints, matches: pa.Table | None, late: pa.Table | None) -> Outcome:
        wakes = [int(times.min())] if len(times) else []
        n_kept = 0 if state.events is None else len(state.events)
        if state.events is not None and n_kept and state.numbers is None:
            window = ticks(self.plan.window, state.events.unit)
            oldest, newest = state.events.times[[0, -1]]
            wakes.append(int(plus(newest, window * (2 if self.plan.waits and self.plan.looks_back else 1))))
            if self.plan.waits:
                wakes.append(int(plus(oldest, window)))
        # A count of events must outlive the events.
        keeps = n_kept > 0 or (self.plan.window.unit == "events" and state.events is not None)
        held = None
        if keeps or waiting.num_rows:
            held = Held(state.to_bytes() if keeps else None, write_blob(waiting) if waiting.num_rows else None)
        return Outcome(held, matches, late, min(wakes, default=None), n_kept + waiting.num_rows)

    @property
    def _names(self) -> list[str]:
        return [name for name in self.keeping.arrow.names if name != SEQUENCE]

    def _join(self, waiting: bytes | None, arrived: pa.Table | None) -> pa.Table:
        schema = pa.schema([field for field in self.keeping.arrow if field.name != SEQUENCE])
        tables = [] if waiting is None else [_adapt(read_blobs([waiting]), schema)]
        tables += [] if arrived is None else [arrived]
        return pa.concat_tables(tables).combine_chunks() if tables else schema.empty_table()

    def _as_events(self, table: pa.Table) -> Events:
        schema = self.keeping.schema
        table = _adapt(table, pa.schema([field for field in self.keeping.arrow if field.name != SEQUENCE]))
        return Events(table, type=schema.type_column, time=schema.time_column, unit=schema.unit)

    def _in_order_of_arrival(self, table: pa.Table) -> pa.Table:
        if SEQUENCE not in table.column_names:
            return table
        return table.take(pa.array(np.argsort(table.column(SEQUENCE).to_numpy(), kind="stable")))

    def _reported(self, table: pa.Table) -> pa.Table | None:
        """Late rows that this query is the first to look at, so that each is reported once."""
        table = table.filter(pa.array(table.column(FIRST).to_numpy() == 1)) if FIRST in table.column_names else table
        return table.select([name for name in table.column_names if not name.startswith("#")]) if table.num_rows else None


def _adapt(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows remembered under an older schema in today's: a new column is null, one that is gone is left out."""
    if table.schema.equals(schema):
        return table
    columns = [
        table.column(field.name).cast(field.type) if field.name in table.column_names else pa.nulls(table.num_rows, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _plain(part: Any) -> Any:
    """A plan as nested lists that print the same in every process."""
    if is_dataclass(part):
        return [type(part).__name__, *(_plain(getattr(part, field.name)) for field in fields(part) if field.compare)]
    if isinstance(part, (tuple, list)):
        return [_plain(item) for item in part]
    return sorted(part) if isinstance(part, frozenset) else part


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
    batches: Iterable[pa.RecordBatch], watches: Mapping[str, Watch], columns: Mapping[str, str], raw: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Rows from Spark -> blobs by query and bucket; `columns` names the bucket column of each query."""
    numbers = _arrivals()
    for table in gather_batches(batches):
        table = table.append_column(SEQUENCE, pa.array(numbers + np.arange(table.num_rows)))
        numbers += table.num_rows
        bad = table.column(REASON).is_valid().combine_chunks()
        if bad.true_count:
            rejected = table.filter(bad)
            if TEXT in table.column_names:
                time = next(field.name for field in raw if rejected.schema.field(field.name).type != field.type)
                rejected = rejected.set_column(rejected.schema.get_field_index(time), time, rejected.column(TEXT))
            yield _routed(QUARANTINE, 0, _adapt(rejected, pa.schema([*raw, pa.field(REASON, pa.string())])))
        seen = np.zeros(table.num_rows, np.bool_)
        for name, watch in watches.items():
            places = table.column(columns[name]).chunk(0)
            here = np.asarray(places.is_valid())
            own = table
            if FIRST in watch.arriving.hidden:
                own = own.append_column(FIRST, pa.array((~seen).astype(np.int64)))
                seen |= here
            rows = np.flatnonzero(here)
            if not len(rows):
                continue
            buckets = np.asarray(places.fill_null(0))[rows]
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


def watch_bucket(
    key: tuple[str, int], frames: Iterator[pd.DataFrame], state: GroupState, watches: Mapping[str, Watch]
) -> Iterator[pd.DataFrame]:
    """The stateful operator: one call for each query and bucket that has new rows or whose time has come."""
    query, _ = key
    blobs = [bytes(blob) for frame in frames for blob in frame["blob"]]
    if query == QUARANTINE:
        yield _frame([(REJECTED, query, read_blobs([blob]).num_rows, 0, 0, blob) for blob in blobs])  # type: ignore[union-attr]
        return
    watch = watches.get(query)
    if watch is None:  # removed since the last run: its state goes, and with it its timers
        state.remove()
        return
    unit = watch.keeping.schema.unit
    watermark_ms = state.getCurrentWatermarkMs()
    held = None
    if state.exists:
        fingerprint, kept, waiting = state.get
        if fingerprint == watch.fingerprint:
            held = Held(_bytes(kept), _bytes(waiting))
    outcome = watch.take(held, blobs, tick_of(watermark_ms, unit))
    rows: list[tuple[Any, ...]] = []
    size = 0
    if outcome.held is not None:
        size = len(outcome.held.kept or b"") + len(outcome.held.waiting or b"")
        state.update((watch.fingerprint, outcome.held.kept, outcome.held.waiting))
        if outcome.wake is not None:
            # A timer goes off when the watermark is past it, and may not lie behind the watermark.
            state.setTimeoutTimestamp(min(max(ms_of(outcome.wake, unit) - 1, watermark_ms + 1), 2**53))
    elif state.exists:
        state.remove()
    for kind, table in ((MATCH, outcome.matches), (LATE, outcome.late)):
        if table is not None:
            rows += [
                (kind, query, piece.num_rows, 0, 0, write_blob(piece))
                for start in range(0, table.num_rows, PIECE)
                for piece in [table.slice(start, PIECE)]
            ]
    yield _frame([*rows, (PROGRESS, query, 0, outcome.n_rows, size, None)])


def _bytes(value: Any) -> bytes | None:
    return None if value is None else bytes(value)


def _frame(rows: list[tuple[Any, ...]]) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame(rows, columns=["kind", "query", "n", "state_rows", "state_bytes", "blob"])


def unpack(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for blob in batch.column(0):
            table = _adapt(pa.ipc.open_stream(blob.as_buffer()).read_all(), schema)
            yield from table.to_batches()


# ---------------------------------------------------------------- what the driver does


@dataclass(frozen=True)
class Stream:
    """A stream under watch. `out` holds rows of every kind as blobs; the methods read one kind, of the stream or a batch of it."""

    out: DataFrame
    watches: Mapping[str, Watch]
    whole: pa.Schema  # the source's own columns
    raw: pa.Schema  # and these as they came

    def matches(self, name: str, out: DataFrame | None = None) -> DataFrame:
        return self._read(out, MATCH, self.watches[name].wanted.schema, name)

    def late(self, out: DataFrame | None = None) -> DataFrame:
        return self._read(out, LATE, self.whole)

    def quarantined(self, out: DataFrame | None = None) -> DataFrame:
        reason = "reason" if "reason" not in self.whole.names else "reason_"
        rows = self._read(out, REJECTED, pa.schema([*self.raw, pa.field(REASON, pa.string())]))
        return rows.withColumnRenamed(REASON, reason)

    def _read(self, out: DataFrame | None, kind: str, schema: pa.Schema, name: str | None = None) -> DataFrame:
        from pyspark.sql.pandas.types import from_arrow_schema

        out = self.out if out is None else out
        chosen = out.where(ingest.column("kind") == kind)
        if name is not None:
            chosen = chosen.where(ingest.column("query") == name)
        return chosen.select("blob").mapInArrow(lambda batches: unpack(batches, schema), from_arrow_schema(schema))


def watch_stream(
    plans: Mapping[str, Plan], source: Source, lateness: str, *, with_ids: bool = False, whole_rows: bool = False
) -> Stream:
    """Put queries on a streaming DataFrame. `whole_rows`: late and quarantined rows come out with all their columns."""
    from pyspark.sql import functions as F  # noqa: N812

    schema = source.schema
    watches: dict[str, Watch] = {}
    for name, plan in plans.items():
        if not isinstance(plan, MatchPlan):
            raise PlanError(
                "aggregates do not run over streams yet\n  hint: run them over a batch, or RETURN matches and count those"
            )
        own = ([SEQUENCE] if plan.window.unit == "events" else []) + ([IDENTITY] if with_ids else [])
        keeping = Columns(needed_schema([plan], schema), tuple(own))
        arriving = replace(keeping, schema=schema) if whole_rows else keeping
        arriving = replace(arriving, hidden=(*own, *([FIRST] if len(plans) > 1 else [])))
        watches[name] = Watch(name, answer(plan, schema, with_ids), arriving, keeping)

    is_event = F.isnull(ingest.column(REASON))  # a row that is none has no say in what time it is
    moment = F.when(is_event, ingest.moment_of(ingest.clock(source), schema.unit)).otherwise(F.timestamp_micros(F.lit(0)))
    frame = source.frame.withColumn("#moment", moment).withWatermark("`#moment`", lateness)
    columns = {name: f"#bucket{number}" for number, name in enumerate(plans)}
    places = []
    for name, plan in plans.items():
        place = ingest.bucket(shuffle_key(plan), BUCKETS, source)
        places.append(F.when(is_event & ingest.relevant([plan], source), place).alias(columns[name]))
    hidden = {name for watch in watches.values() for name in watch.arriving.hidden}
    if IDENTITY in hidden:
        places.append(ingest.identity(source).alias(IDENTITY))
    travelling = {name for watch in watches.values() for name in watch.arriving.schema.columns.names}
    names = [name for name in source.names if whole_rows or name in travelling]
    texts = [TEXT] if whole_rows and TEXT in source.frame.columns else []
    matters = F.coalesce(*(ingest.column(name) for name in columns.values())).isNotNull()
    frame = frame.select(*(ingest.column(name) for name in [*names, *texts, REASON]), *places)
    frame = frame.observe(
        "seqube_rows",
        F.count(F.lit(1)).alias("read"),
        F.count(ingest.column(REASON)).alias("quarantined"),
        F.count(F.when(matters, 1)).alias("relevant"),
    )
    frame = frame.where(matters | F.isnotnull(ingest.column(REASON)) if whole_rows else matters)
    whole = pa.schema([field for field in schema.columns if field.name in names])
    raw = whole
    if texts:
        raw = whole.set(whole.get_field_index(source.time_column), pa.field(source.time_column, pa.string()))
    packed = frame.mapInArrow(lambda batches: pack_stream(batches, watches, columns, raw), BLOBS)
    # The watermark is made of the rows above. The operator below asks for a column of event time as well, and drops rows that are
    # behind the watermark by it; a blob holds rows of many times, and late ones have an output of their own: none may be dropped.
    never = F.lit("2261-01-01").cast("timestamp").alias("moment", metadata={"spark.watermarkDelayMs": 0})
    grouped = packed.select("query", "bucket", "blob", never).groupBy("query", "bucket")
    out = grouped.applyInPandasWithState(
        lambda key, frames, state: watch_bucket(key, frames, state, watches), OUT, STATE, "append", "EventTimeTimeout"
    )
    n_of = {kind: F.sum(F.when(ingest.column("kind") == kind, ingest.column("n"))) for kind in (MATCH, LATE)}
    out = out.observe(
        "seqube",
        F.coalesce(n_of[MATCH], F.lit(0)).alias("matches"),
        F.coalesce(n_of[LATE], F.lit(0)).alias("late"),
        F.coalesce(F.sum("state_rows"), F.lit(0)).alias("state_rows"),
        F.coalesce(F.sum("state_bytes"), F.lit(0)).alias("state_bytes"),
    )
    return Stream(out, watches, whole, raw)
