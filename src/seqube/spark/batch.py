"""Queries over a static DataFrame: rows are packed into blobs by task, shuffled once, and each task is one call of the engine.

    read, filter, bucket, fold (JVM) -> pack into blobs (Arrow) -> shuffle of blobs -> sort and match (NumPy, Numba) -> rows

With a key (`plan.needs`) tasks hold many keys; a bucket of keys that is too large for one task is cut into time slices.
Without one, time is cut into slices of about equally many events. A count of rows per bucket, or quantiles of time, is taken first,
by a job that reads those columns alone. Windows of so many EVENTS without a key need the number of every event in the whole stream:
rows are shuffled by time, numbered, and shuffled again.

All queries of a workload that share a key share the blobs, and are answered in one pass over them (`answers`), in which they share
what their plans can share; what was found for all is kept until `unpersist`.
Cost: one read, one shuffle of the needed columns, one sort per task.
Invariant: the matches are those of the whole stream in one place.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from seqube.engine.limits import NO_LIMITS, Limits
from seqube.errors import PlanError
from seqube.events import Events
from seqube.events.schema import TIME
from seqube.plan.aggregates import AggregatePlan
from seqube.plan.needs import Plan, needs_of
from seqube.spark import ingest
from seqube.spark.answers import (
    NUMBER,
    AnswerColumns,
    ShippedWorkload,
    answer,
    answer_alone,
    by_task,
    collect_answers,
    read_answers,
)
from seqube.spark.ingest import IDENTITY, INPUT_ORDER, REASON, EventFrame
from seqube.spark.planning import BatchPlan
from seqube.spark.routing import Layout, SparkTask, lay_out
from seqube.spark.rows import ShippedQuery, ship_query
from seqube.spark.session import described, step_of
from seqube.spark.transport.blobs import gather_batches, read_blobs, write_blob
from seqube.spark.transport.columns import Columns, needed_schema
from seqube.spark.transport.folding import Fold, Texts, Work

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

WriteBatch = Callable[[Mapping[str, "DataFrame"], int], None]  # the rows of every query in a micro-batch, and its number
Route = Callable[["DataFrame"], "DataFrame"]  # the rows that matter, with a bucket for every group that wants them

TASK_BLOBS = "task int, blob binary"

BUCKETS_PER_TASK = 16  # so that tasks can be filled evenly, and a hot key does not take many others with it
TASK_ROWS = 2_000_000  # about what one task holds; more rows make more tasks
SMALL = 50_000  # rows for which a further task does not pay
LOADED = 20_000  # objects that the garbage collector should not look through again and again
SAMPLED, MARKS = 100, 256  # one row in so many tells the sizes and cuts of all, and the marks in time to cut at
HALO = 4  # a slice is at least so many windows long, unless it is asked to be shorter


def n_tasks_for(total: int, parallelism: int) -> int:
    """Tasks for so many rows: enough for all cores but none too small, or, where those are too large, rounds of as many."""
    rounds = -(-total // (TASK_ROWS * parallelism))
    return max(1, min(parallelism, -(-total // SMALL)) * max(1, rounds))


# ---------------------------------------------------------------- groups of queries that travel together


@dataclass(frozen=True, slots=True)
class Group:
    """Queries whose events can be shuffled together: the same key and the same kind of window."""

    number: int
    key: tuple[str, ...]
    counts_events: bool
    can_be_cut: bool  # a task may be a slice of time; a report may depend on all events
    plans: Mapping[str, Plan]
    before: int  # how far a slice of time reaches back, in ticks or events
    ahead: int  # the longest window of those that wait

    @property
    def column(self) -> str:
        return f"#bucket{self.number}"

    @property
    def reports_nothing(self) -> bool:
        """Whether there is something to say of no events at all: a total without a key."""
        totals = (isinstance(plan, AggregatePlan) and plan.emit.when == "total" for plan in self.plans.values())
        return not self.key and any(totals)

    @property
    def numbers_rows(self) -> bool:
        """Whether the events must be numbered over the whole stream."""
        return self.counts_events and not self.key and self.can_be_cut


def group_plans(plans: Mapping[str, Plan], unit: str) -> list[Group]:
    sorted_out: dict[tuple[tuple[str, ...], bool, bool], dict[str, Plan]] = {}
    for name, plan in plans.items():
        needs = needs_of(plan, unit)
        sorted_out.setdefault((needs.key, needs.by_position, needs.can_be_cut), {})[name] = plan
    groups = []
    for number, (kind, members) in enumerate(sorted_out.items()):
        of_all = [needs_of(plan, unit) for plan in members.values()]
        groups.append(Group(number, *kind, members, max(n.halo for n in of_all), max(n.ahead for n in of_all)))
    return groups


# ---------------------------------------------------------------- what a worker does


def in_worker(work: Work) -> Work:
    """Work on the rows of a partition, in a process that does so many times."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        keep_loaded()
        yield from work(batches)

    return run


def keep_loaded() -> None:
    """Hide what a process has loaded from the garbage collector, which Spark runs after every task.

    To look through it takes longer (75 ms) than many a task. When a task begins, what is there has just been looked through.
    """
    if len(gc.get_objects()) > LOADED:
        gc.freeze()


def pack(batches: Iterable[pa.RecordBatch], columns: Columns, layouts: Mapping[str, Layout]) -> Iterator[pa.RecordBatch]:
    """Rows from Spark -> blobs, one for each task that has rows in a piece of input. `layouts` are by bucket column."""
    for table in gather_batches(batches):
        events = columns.select(table)
        times = columns.times(events)
        for name, layout in layouts.items():
            buckets = table.column(name).chunk(0)
            rows = np.flatnonzero(np.asarray(buckets.is_valid()))
            values = np.asarray(buckets.fill_null(0)).astype(np.int64)[rows]
            for task, chosen in layout.route(values, times[rows]):
                yield blob_for(task.number, events.take(pa.array(rows[chosen])))


def blob_for(task: int, table: pa.Table) -> pa.RecordBatch:
    """Rows as one of `TASK_BLOBS`."""
    return pa.RecordBatch.from_arrays(
        [pa.array([task], pa.int32()), pa.array([write_blob(table)], pa.binary())], names=["task", "blob"]
    )


def match(
    batches: Iterable[pa.RecordBatch], columns: Columns, tasks: Mapping[int, SparkTask], wanted: ShippedQuery
) -> Iterator[pa.RecordBatch]:
    """Blobs -> the rows of one query that their tasks own."""
    found = by_task(batches)
    for number in sorted(found):
        table = read_blobs(found.pop(number))
        assert table is not None
        for rows in answer_alone(columns.events(table), tasks[number], wanted):
            yield from rows.to_batches()


@dataclass(frozen=True)
class Numbering:
    """Cells of time that numbers are given in, and the tasks that numbered events go to."""

    offsets: tuple[int, ...]  # the number of the first event of each cell
    layout: Layout  # by number
    types: frozenset[str]

    def number(self, cell: int, events: Events) -> Iterator[tuple[SparkTask, pa.Table]]:
        numbers = self.offsets[cell] + np.arange(len(events), dtype=np.int64)
        rows = events.rows_of(self.types)
        table = events.table.take(pa.array(rows)).append_column(NUMBER, pa.array(numbers[rows]))
        for task, chosen in self.layout.route(np.zeros(len(rows), np.int64), numbers[rows]):
            yield task, table.take(pa.array(chosen))


def number_rows(batches: Iterable[pa.RecordBatch], columns: Columns, numbering: Numbering) -> Iterator[pa.RecordBatch]:
    """Blobs of cells -> blobs of numbered events for the tasks that need them."""
    found = by_task(batches)
    for cell in sorted(found):
        table = read_blobs(found.pop(cell))
        assert table is not None
        for task, numbered in numbering.number(cell, columns.events(table)):
            yield blob_for(task.number, numbered)


# ---------------------------------------------------------------- what the driver does


class ResultFrames(Mapping[str, "DataFrame"]):
    """The results of a workload by query name. Queries with the same key are answered together, when the first is asked for.

    What was found, and events that several groups of queries need, is kept; `unpersist` lets it go.
    Over a stream each DataFrame is a stream of its own, with events and a state of its own; `foreach_batch` is one for all.
    """

    def __init__(
        self,
        frames: Mapping[str, DataFrame],
        kept: Sequence[DataFrame] = (),
        together: Callable[[WriteBatch], DataStreamWriter] | None = None,
    ) -> None:
        self._frames = dict(frames)
        self._kept = list(kept)
        self._together = together

    def __getitem__(self, name: str) -> DataFrame:
        if self._together is not None and not self._frames:
            raise PlanError("by this strategy queries share in one stream\n  hint: foreach_batch is one for all; 'auto' has more")
        return self._frames[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._frames)

    def __len__(self) -> int:
        return len(self._frames)

    def unpersist(self) -> None:
        """Let go of what is kept; whoever asks again computes it again."""
        for frame in self._kept:
            frame.unpersist()

    def foreach_batch(self, write: WriteBatch) -> DataStreamWriter:
        """Over a stream: all queries by one reading and one state; start what comes back, with a checkpoint.

        - `write`: called for every micro-batch with the rows of each query, by name, and the number of the micro-batch. It is
          called again with the same rows where a micro-batch is repeated.
        """
        if self._together is None:
            raise PlanError("a batch comes once, as a whole\n  hint: take the DataFrame of each query by its name")
        return self._together(write)


def find(
    planned: BatchPlan,
    source: EventFrame,
    *,
    with_ids: bool = False,
    slices: int | None = None,
    skew: float = 2.0,
    limits: Limits = NO_LIMITS,
) -> ResultFrames:
    """The rows of all queries, one DataFrame each. `slices` asks for that many slices of time (or tasks, with a key)."""
    return Job(planned, source, with_ids, slices, skew, limits).tables()


def collect(planned: BatchPlan, source: EventFrame, limits: Limits = NO_LIMITS) -> dict[str, pa.Table]:
    """The rows of all queries here, by one job for those that have the same key; of queries that return every row."""
    found = Job(planned, source, False, None, 2.0, limits).found()
    try:
        return {name: table for collect_group in found.collects for name, table in collect_group().items()}
    finally:
        for frame in found.kept:
            frame.unpersist()


class Job:
    """One reading of a source for a workload; without plans of its own, it lays out and packs rows for the groups it is given."""

    def __init__(
        self,
        planned: BatchPlan,
        source: EventFrame,
        with_ids: bool,
        slices: int | None,
        skew: float,
        limits: Limits = NO_LIMITS,
    ) -> None:
        self.planned, self.plans, self.limits = planned, planned.plans, limits
        self.source = source
        self.with_ids = with_ids
        self.slices = slices
        self.skew = skew
        self.groups = group_plans(self.plans, source.schema.unit)
        # A number that Spark Connect knows too; in one machine it is about the number of cores.
        self.parallelism = int(source.frame.sparkSession.conf.get("spark.sql.shuffle.partitions") or 200)

    def tables(self) -> ResultFrames:
        found = self.found()
        return ResultFrames({name: found.frames[name] for name in self.plans}, found.kept)

    def found(self) -> WorkloadFrames:
        shipped = {name: ship_query(plan, self.source.schema, self.with_ids, self.limits) for name, plan in self.plans.items()}
        columns = self._columns()
        route = partial(self._route, columns)
        found = WorkloadFrames()
        together = [group for group in self.groups if not group.numbers_rows]
        if together:
            self._match(self.pack_all(route, columns, together), columns, shipped, found)
        for group in self.groups:
            if group.numbers_rows:
                with described(self.source.frame.sparkSession, step_of(group.plans, "count rows to spread them")):
                    numbered, tasks = self._pack_numbered(route(self.source.frame), columns, group)
                arriving = replace(columns, hidden=(*(name for name in columns.hidden if name != INPUT_ORDER), NUMBER))
                self._match((numbered, {group.number: tasks}), arriving, shipped, found)
        return found

    # ------------------------------------------------------------ rows that matter, with their buckets

    def _columns(self) -> Columns:
        schema = needed_schema(self.plans.values(), self.source.schema)
        hidden = [INPUT_ORDER] if any(group.counts_events for group in self.groups) else []
        by_contents = any(needs_of(plan, self.source.schema.unit).by_order for plan in self.plans.values())
        types = ingest.coded_types(self.plans.values(), self.source)
        return Columns(schema, tuple(hidden + ([IDENTITY] if self.with_ids or by_contents else [])), types, by_contents)

    def _route(self, columns: Columns, frame: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F  # noqa: N812

        own: list[Column] = []
        for group in self.groups:
            place = ingest.bucket(group.key, self.n_buckets(group), self.source)
            if len(self.groups) > 1:  # a row goes only where it matters
                place = F.when(ingest.relevant(group.plans.values(), self.source), place)
            own.append(place.cast("int").alias(group.column))
        if INPUT_ORDER in columns.hidden:
            own.append(F.monotonically_increasing_id().alias(INPUT_ORDER))
        if IDENTITY in columns.hidden:
            own.append(ingest.identity(self.source).alias(IDENTITY))
        frame = frame.where(F.isnull(ingest.column(REASON)))
        frame = frame.where(ingest.relevant(self.plans.values(), self.source))
        return frame.select(*(ingest.column(name) for name in columns.schema.columns.names), *own)

    def n_buckets(self, group: Group) -> int:
        return BUCKETS_PER_TASK * (self.slices or self.parallelism) if group.key else 1

    # ------------------------------------------------------------ layouts

    def pack_all(self, route: Route, columns: Columns, groups: list[Group]) -> tuple[DataFrame, dict[int, tuple[SparkTask, ...]]]:
        """Blobs of all rows that some group wants, each in the partition of its task; and the tasks."""
        frame = route(self.source.frame)
        layouts: dict[str, Layout] = {}
        n_tasks = 0
        for group in groups:
            with described(frame.sparkSession, step_of(group.plans, "count rows to spread them")):
                layout = self._lay_out(frame, route, group, n_tasks)
            layouts[group.column] = layout
            n_tasks += len(layout.tasks)
        packed = self._pack(frame, columns, layouts)
        # The total over everything is reported over nothing, too: its task must run, whatever comes in.
        nothing = bytearray(write_blob(columns.arrow.empty_table()))
        alone = [layouts[group.column].tasks[0].number for group in groups if group.reports_nothing]
        if alone:
            packed = packed.union(frame.sparkSession.createDataFrame([(number, nothing) for number in alone], TASK_BLOBS))
        blobs = packed.repartitionById(max(1, n_tasks), "task")
        return blobs, {group.number: layouts[group.column].tasks for group in groups}

    @staticmethod
    def _pack(frame: DataFrame, columns: Columns, layouts: Mapping[str, Layout]) -> DataFrame:
        fold = Fold.of(frame, {columns.schema.type_column: Texts(columns.types)} if columns.types else {})
        return fold.map(frame, in_worker(lambda batches: pack(batches, columns, layouts)), TASK_BLOBS)

    def _lay_out(self, frame: DataFrame, route: Route, group: Group, first: int) -> Layout:
        if not group.key:
            total, cuts = self._survey(frame, group)
            return lay_out(group.number, first, [total], {0: cuts} if cuts else {}, 1, group.before, group.ahead)
        sizes = self._count(route, group)
        total = sum(sizes)
        n_tasks = self.slices or n_tasks_for(total, self.parallelism)
        # A bucket that alone is more than its share of a task holds a hot key; numbering in a partition needs all of it at once.
        limit = max(self.skew * total / n_tasks, 1 if self.slices else SMALL)
        hot = [bucket for bucket, size in enumerate(sizes) if size > limit] if group.can_be_cut and not group.counts_events else []
        cuts_of = {bucket: self._quantiles(frame, group, bucket, math.ceil(sizes[bucket] * n_tasks / total)) for bucket in hot}
        return lay_out(group.number, first, sizes, cuts_of, n_tasks, group.before, group.ahead)

    def _count(self, route: Route, group: Group) -> list[int]:
        """About how many rows each bucket has, from a sample; exactly where a number of tasks was asked for."""
        frame, one_in = self.source.frame, 1
        if self.slices is None:
            # By a hash of what is quick to read, before all else: other conditions are then looked at in the sample alone, and
            # can still be pushed to Parquet, which they could not be beside a random number.
            frame, one_in = frame.where(ingest.bucket((TIME, *group.key), SAMPLED, self.source) == 0), SAMPLED
        place = ingest.column(group.column)
        sizes = [0] * self.n_buckets(group)
        for row in route(frame).where(place.isNotNull()).groupBy(place.alias("bucket")).count().collect():
            sizes[row["bucket"]] = row["count"] * one_in
        return sizes

    def _survey(self, frame: DataFrame, group: Group) -> tuple[int, list[int]]:
        """How many rows of a group without a key there are, and times that cut them into slices: one pass over a few columns.

        Cuts need only be about even, so that they are taken from a sample.
        """
        from pyspark.sql import functions as F  # noqa: N812

        own = frame.where(ingest.column(group.column).isNotNull())
        if self.slices or not group.can_be_cut:
            return own.count(), self._quantiles(frame, group, 0, self.slices or 1) if group.can_be_cut else []
        marks = [number / MARKS for number in range(1, MARKS)]
        timed = own.select(self._clock.alias("time"), F.when(F.rand(0) < 1 / SAMPLED, self._clock).alias("sample"))
        surveyed = timed.agg(F.count("*"), F.min("time"), F.max("time"), F.percentile_approx("sample", marks, 10 * MARKS))
        total, first, last, times = surveyed.collect()[0]
        span = last - first if total else 0  # which may leave the 64 bits of either
        n_slices = max(1, min(n_tasks_for(total, self.parallelism), span // max(1, HALO * group.before)))
        if n_slices > MARKS:
            return total, self._quantiles(frame, group, 0, n_slices)
        cuts = [int(times[number * MARKS // n_slices - 1]) for number in range(1, n_slices)] if times else []
        return total, [cut for cut in cuts if cut < last]

    @property
    def _clock(self) -> Column:
        return ingest.clock(self.source)

    def _quantiles(self, frame: DataFrame, group: Group, bucket: int, n_slices: int) -> list[int]:
        """Times of events that cut a bucket into about equal parts, after each of which there is an event."""
        from pyspark.sql import functions as F  # noqa: N812

        shares = [number / n_slices for number in range(1, n_slices)]
        if not shares:
            return []
        rows = frame.where(ingest.column(group.column) == bucket)
        quantiles = F.percentile_approx(self._clock, shares, max(1_000, 10 * n_slices))
        cuts, last = rows.agg(quantiles, F.max(self._clock)).collect()[0]
        return [int(cut) for cut in cuts or () if cut < last]

    # ------------------------------------------------------------ numbers over the whole stream

    def _pack_numbered(self, frame: DataFrame, columns: Columns, group: Group) -> tuple[DataFrame, tuple[SparkTask, ...]]:
        from pyspark.sql import functions as F  # noqa: N812

        total = frame.count()
        n_slices = self.slices or max(min(self.parallelism, total // max(SMALL, HALO * group.before)), -(-total // TASK_ROWS), 1)
        place = ingest.column(group.column)
        everything = frame.where(place.isNotNull())
        bounds = self._quantiles(frame, group, 0, n_slices)
        cell = sum(((self._clock > bound).cast("int") for bound in sorted(set(bounds))), F.lit(0))
        counted = {row["cell"]: row["count"] for row in everything.groupBy(cell.alias("cell")).count().collect()}
        # Every cell holds events, so that cuts in time and in numbers correspond.
        sizes = [counted.get(number, 0) for number in range(len(set(bounds)) + 1)]
        ends = [bound for bound, size in zip(sorted(set(bounds)), sizes, strict=False) if size]
        if sizes[-1] == 0 and ends:
            ends.pop()
        starts = np.cumsum([0, *(size for size in sizes if size)])[:-1] if any(sizes) else np.array([0])
        in_time = lay_out(group.number, 0, [total], {0: ends}, 1, 0, 0)
        by_number = lay_out(group.number, 0, [total], {0: [int(start) - 1 for start in starts[1:]]}, 1, group.before, group.ahead)
        types = frozenset[str]().union(*(plan.matches.types for plan in group.plans.values()))
        numbering = Numbering(tuple(int(start) for start in starts), by_number, types)
        n_tasks = len(in_time.tasks)
        cells = self._pack(frame, columns, {group.column: in_time}).repartitionById(n_tasks, "task")
        numbered = cells.mapInArrow(in_worker(lambda batches: number_rows(batches, columns, numbering)), TASK_BLOBS)
        return numbered.repartitionById(n_tasks, "task"), in_time.tasks

    # ------------------------------------------------------------ matches

    def _match(
        self,
        shuffled: tuple[DataFrame, dict[int, tuple[SparkTask, ...]]],
        columns: Columns,
        shipped: Mapping[str, ShippedQuery],
        found: WorkloadFrames,
    ) -> None:
        blobs, tasks_of = shuffled
        groups = [group for group in self.groups if group.number in tasks_of]
        if len(groups) > 1:
            blobs = found.keep(blobs)
        for group in groups:
            tasks = {task.number: task for task in tasks_of[group.number]}
            own = blobs if len(groups) == 1 else blobs.where(ingest.column("task").isin(*tasks))
            self._answer(group, own, columns, tasks, {name: shipped[name] for name in group.plans}, found)

    def _answer(
        self,
        group: Group,
        blobs: DataFrame,
        columns: Columns,
        tasks: Mapping[int, SparkTask],
        queries: Mapping[str, ShippedQuery],
        found: WorkloadFrames,
    ) -> None:
        """The rows of a group of queries: of one by itself as they are found, of several from what is found for all of them."""
        from pyspark.sql.pandas.types import from_arrow_schema

        workload = ShippedWorkload(queries, limits=self.limits)
        if not group.numbers_rows:
            workload = ShippedWorkload.of(self.planned.among(queries), queries, self.limits)

        def answers(into: AnswerColumns) -> DataFrame:
            work = in_worker(lambda batches: answer(batches, columns, tasks, workload, into))
            return blobs.mapInArrow(work, from_arrow_schema(into.schema))

        found.collects.append(lambda: collect_answers(answers(AnswerColumns(workload.tags)), columns, workload))
        into = AnswerColumns.of(workload, columns.schema.unit)
        of_all = answers(into) if len(queries) == 1 else found.keep(answers(into))
        for name, wanted in queries.items():
            if len(queries) > 1 or needs_of(wanted.plan, columns.schema.unit).adds_up:
                frame = read_answers(of_all, into, name, columns, wanted)
            else:
                frame = _matched(blobs, columns, tasks, wanted)
            found.frames[name] = _thinned(frame, wanted)


@dataclass
class WorkloadFrames:
    """What comes of a workload: a DataFrame for each query, how to have all of them here, and what is kept for all."""

    frames: dict[str, DataFrame] = field(default_factory=dict)
    collects: list[Callable[[], dict[str, pa.Table]]] = field(default_factory=list)
    kept: list[DataFrame] = field(default_factory=list)

    def keep(self, frame: DataFrame) -> DataFrame:
        self.kept.append(frame.persist())
        return self.kept[-1]


def _matched(blobs: DataFrame, columns: Columns, tasks: Mapping[int, SparkTask], wanted: ShippedQuery) -> DataFrame:
    from pyspark.sql.pandas.types import from_arrow_schema

    work = in_worker(lambda batches: match(batches, columns, tasks, wanted))
    return blobs.mapInArrow(work, from_arrow_schema(wanted.schema))


def _thinned(frame: DataFrame, wanted: ShippedQuery) -> DataFrame:
    """Rows that each task has thinned by itself, thinned as a whole."""
    matches = wanted.plan.matches
    frame = frame.distinct() if matches.is_distinct else frame
    return frame if matches.limit is None else frame.limit(matches.limit)
