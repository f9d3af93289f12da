"""Predictions over DataFrames, and rules learnt from them: the same loops as in one process, each over its share of the events.

    events -> blobs by key, or by slices of time -> `Forecaster` by task -> predictions
    events -> blobs by key, or by slices of time -> `Slice` by task, kept -> counts, added up for every level of the search

Rules that share a partition travel together, with a layout of tasks of their own. A slice of time reaches back by the longest
predicate window of its rules (mining: and ahead by the horizon), and answers for the occurrences that end in it.

Only types are sifted before the shuffle: rules come by the thousand, and so would their conditions.
Cost: one count of rows, one read, one shuffle of the needed columns; mining: also one job over the kept slices per level.
Invariant: rows and rules are those of the whole stream in one place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from seqube.engine.limits import NO_LIMITS, Limits
from seqube.engine.sequence import HIGHEST
from seqube.errors import PlanError, SchemaError, did_you_mean
from seqube.events import Events, Hierarchy
from seqube.events.batch import Codes
from seqube.events.schema import TIME, TYPE, Schema
from seqube.events.times import Ints, read_times
from seqube.language.mentions import attributes
from seqube.plan.optimizer import WorkloadPlan
from seqube.predict.episodes import Episodes, line_up
from seqube.predict.forecasts import Forecaster, find_halo
from seqube.predict.matcher import compile_strategy
from seqube.predict.mining import Aim, MiningProgress, Slice, cut_slices
from seqube.predict.rules import Rule, Rules
from seqube.predict.ruletext import read_condition
from seqube.spark import ingest
from seqube.spark.answers import by_task
from seqube.spark.batch import Group, Job
from seqube.spark.ingest import REASON, EventFrame
from seqube.spark.planning import BatchPlan
from seqube.spark.routing import SparkTask
from seqube.spark.session import described
from seqube.spark.transport.blobs import read_blobs, write_blob
from seqube.spark.transport.columns import Columns, conform

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

SLICE_BLOBS = "blob binary"
COUNTS = "answer int, place long, n long"
_MOMENT, _SYMBOL = np.zeros(1, np.int64), np.zeros(1, np.int32)
_YES = np.ones(1, np.bool_)
_ONE = line_up(np.zeros((1, 1), np.int32), True, 0, 1)


# ---------------------------------------------------------------- rules as workers need them


@dataclass(frozen=True)
class Share:
    """The rules of one partition: the columns they look at, and the rows that all rules together give."""

    rules: Rules
    schema: Schema
    hierarchy: Hierarchy | None
    strategy: str
    rows: pa.Schema
    limits: Limits = NO_LIMITS  # of a task

    @property
    def key(self) -> tuple[str, ...]:
        return self.rules[0].partition_by

    @property
    def types(self) -> frozenset[str]:
        names = {vertex.type for rule in self.rules for vertex in rule.vertices}
        return frozenset().union(*(self.hierarchy.covers(name) for name in names)) if self.hierarchy else frozenset(names)

    def wants(self, source: EventFrame) -> Column:
        return _is_of(source, self.types)

    def make_forecaster(self) -> Forecaster:
        return Forecaster(self.rules, self.schema, self.hierarchy, self.strategy)

    def write(self, predictions: pa.Table) -> pa.Table:
        """Predictions with the key columns of all rules."""
        known = set(predictions.column_names)
        columns = {
            field.name: predictions.column(field.name) if field.name in known else pa.nulls(predictions.num_rows, field.type)
            for field in self.rows
        }
        return conform(pa.table(columns), self.rows)


def share_rules(
    rules: Rules, schema: Schema, hierarchy: Hierarchy | None = None, strategy: str = "auto", limits: Limits = NO_LIMITS
) -> list[Share]:
    """The rules by their partition, checked against the columns they are for."""
    # What workers will load is compiled here, because they must not all write the cache at once.
    compile_strategy(strategy)
    rows = describe_rows(rules, schema, hierarchy, strategy)
    members: dict[tuple[str, ...], list[Rule]] = {}
    for rule in rules:
        members.setdefault(rule.partition_by, []).append(rule)
    return [Share(Rules(own), _narrow(schema, _looked_at(own)), hierarchy, strategy, rows, limits) for own in members.values()]


def describe_rows(rules: Rules, schema: Schema, hierarchy: Hierarchy | None = None, strategy: str = "auto") -> pa.Schema:
    """The schema of predictions. A narrow time column may not hold what lies beyond its last event, so `latest` has the widest."""
    found = Forecaster(rules, schema, hierarchy, strategy).schema
    place = found.get_field_index("latest")
    kind = found.field(place).type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        kind = pa.int64() if pa.types.is_integer(kind) else pa.float64()
    return found.set(place, pa.field("latest", kind))


def _looked_at(rules: Iterable[Rule]) -> set[str]:
    names = set()
    for rule in rules:
        names |= set(rule.partition_by)
        for vertex in rule.vertices:
            if vertex.where is not None:
                parts = read_condition(vertex.type, vertex.where).where
                names |= {each.name for part in parts for each in attributes(part)}
    return names


def _narrow(schema: Schema, names: Iterable[str]) -> Schema:
    """The type, the time and these columns."""
    wanted = {schema.column_of(name) for name in (TYPE, TIME, *names)}
    kept = pa.schema([field for field in schema.columns if field.name in wanted])
    return Schema(kept, schema.type_column, schema.time_column, schema.unit)


def predict_task(events: Events, task: SparkTask, share: Share) -> pa.Table:
    """The predictions whose occurrence ends in the task's stretch of time."""
    found = share.make_forecaster().run(events, share.limits.budget("forecast"))
    ends = read_times(found.column("end").combine_chunks()).times
    return share.write(found.filter(pa.array((ends > task.after) & (ends <= task.upto))))


def predict(
    batches: Iterable[pa.RecordBatch], columns: Columns, tasks: Mapping[int, SparkTask], shares: Sequence[Share]
) -> Iterator[pa.RecordBatch]:
    """Blobs -> the predictions their tasks own."""
    for task, events in _tasks(batches, columns, tasks):
        yield from predict_task(events, task, shares[task.group]).to_batches()


def _tasks(
    batches: Iterable[pa.RecordBatch], columns: Columns, tasks: Mapping[int, SparkTask]
) -> Iterator[tuple[SparkTask, Events]]:
    found = by_task(batches)
    for number in sorted(found):
        table = read_blobs(found.pop(number))
        assert table is not None
        yield tasks[number], columns.events(table)


# ---------------------------------------------------------------- forecasts


def forecast(
    rules: Rules,
    source: EventFrame,
    hierarchy: Hierarchy | None = None,
    strategy: str = "auto",
    slices: int | None = None,
    limits: Limits = NO_LIMITS,
) -> DataFrame:
    """The predictions of rules over a source; `slices` asks for that many slices of time (or tasks, with a key)."""
    from pyspark.sql.pandas.types import from_arrow_schema

    rows = from_arrow_schema(describe_rows(rules, source.schema, hierarchy, strategy))
    if not rules:
        return source.frame.sparkSession.createDataFrame([], rows)
    shares = share_rules(rules, source.schema, hierarchy, strategy, limits)
    columns = Columns(_narrow(source.schema, {name for share in shares for name in share.schema.columns.names}))
    groups = [
        Group(number, share.key, False, True, {}, find_halo(share.rules, source.schema.unit), 0)
        for number, share in enumerate(shares)
    ]
    blobs, tasks = _spread(source, columns, groups, [share.wants(source) for share in shares], slices)
    return blobs.mapInArrow(lambda batches: predict(batches, columns, tasks, shares), rows)


def _is_of(source: EventFrame, types: Iterable[str]) -> Column:
    return ingest.column(source.type_column).cast("string").isin(*sorted(types))


def _spread(
    source: EventFrame, columns: Columns, groups: list[Group], wanted: Sequence[Column], slices: int | None
) -> tuple[DataFrame, dict[int, SparkTask]]:
    """Blobs of the events that each group wants, by task."""
    from pyspark.sql import functions as F  # noqa: N812

    job = Job(BatchPlan(WorkloadPlan({})), source, False, slices, 2.0)
    places = [
        F.when(condition, ingest.bucket(group.key, job.n_buckets(group), source)).cast("int").alias(group.column)
        for group, condition in zip(groups, wanted, strict=True)
    ]
    matters = wanted[0]
    for condition in wanted[1:]:
        matters = matters | condition
    names = [ingest.column(name) for name in columns.arrow.names]

    def route(frame: DataFrame) -> DataFrame:
        return frame.where(F.isnull(ingest.column(REASON)) & matters).select(*names, *places)

    blobs, tasks = job.pack_all(route, columns, groups)
    return blobs, {task.number: task for own in tasks.values() for task in own}


# ---------------------------------------------------------------- mining


def mine(source: EventFrame, aim: Aim, slices: int | None = None, progress: MiningProgress | None = None) -> Rules:
    """The rules that hold in a source; `slices` asks for that many slices of time (or tasks, with a key)."""
    if source.frame.isStreaming:
        raise PlanError("rules are learnt from history, not from a stream\n  hint: mine a table that the stream was written to")
    schema = source.schema
    for column in aim.partition_by:
        if column not in schema:
            raise SchemaError(f"there is no column {column!r} to partition by\n  hint: {did_you_mean(column, schema)}")
    totals, newest = _count_types(source)
    n_events = sum(totals.values())
    least = aim.least(n_events)
    names = sorted(name for name, total in totals.items() if total >= least)
    if not names:
        return Rules()
    columns = Columns(_narrow(schema, aim.partition_by))
    group = Group(0, aim.partition_by, False, True, {}, *aim.ticks)
    blobs, tasks = _spread(source, columns, [group], [_is_of(source, names)], slices)
    kept = blobs.mapInArrow(lambda batches: write_slices(batches, columns, tasks, names, aim, newest), SLICE_BLOBS).persist()
    Slice(_MOMENT, _SYMBOL, _YES, _YES, 1, 1).follow(_ONE, _SYMBOL)  # compiled here, as above
    counter = SliceCounter(kept, aim.ticks[1], len(names))
    try:
        return aim.find(counter, names, n_events, progress)
    finally:
        kept.unpersist()


def _count_types(source: EventFrame) -> tuple[dict[str, int], int]:
    """How many events each type has, and the time of the newest of all."""
    from pyspark.sql import functions as F  # noqa: N812

    name = ingest.column(source.type_column).cast("string").alias("name")
    counted = source.frame.where(F.isnull(ingest.column(REASON))).groupBy(name)
    told = counted.agg(F.count(F.lit(1)).alias("n"), F.max(ingest.clock(source)).alias("newest"))
    with described(source.frame.sparkSession, "seqube: mine: count events of each type"):
        rows = told.collect()
    return {row["name"]: row["n"] for row in rows}, max((row["newest"] for row in rows), default=0)


def write_slices(
    batches: Iterable[pa.RecordBatch], columns: Columns, tasks: Mapping[int, SparkTask], names: Sequence[str], aim: Aim, newest: int
) -> Iterator[pa.RecordBatch]:
    """Blobs -> slices in order and in codes, ready to be counted again and again."""
    for task, events in _tasks(batches, columns, tasks):
        high = newest if task.upto == HIGHEST else task.upto
        for piece in cut_slices(events, names, aim, newest, task.after + 1, high + 1):
            arrays = {"times": piece.times, "symbols": piece.symbols, "closed": piece.closed, "own": piece.own}
            blob = write_blob(pa.table({name: pa.array(values) for name, values in arrays.items()}))
            yield pa.RecordBatch.from_pydict({"blob": [blob]})


def count_slices(
    batches: Iterable[pa.RecordBatch], horizon: int, n_symbols: int, count: Callable[[Slice], tuple[Ints, ...]]
) -> Iterator[pa.RecordBatch]:
    """Slices -> the counts of each that are not zero; several arrays of counts are told apart by their number."""
    for batch in batches:
        for blob in batch.column(0):
            table = pa.ipc.open_stream(blob.as_buffer()).read_all().combine_chunks()
            # Copies, because the loops are compiled for arrays that may be written to.
            times, symbols, closed, own = (np.array(column) for column in table.columns)
            piece = Slice(times, symbols, closed, own, horizon, n_symbols)
            for number, counts in enumerate(count(piece)):
                flat = counts.ravel()
                places = np.flatnonzero(flat)
                numbers = np.full(len(places), number, np.int32)
                yield pa.RecordBatch.from_pydict({"answer": numbers, "place": places, "n": flat[places]})


@dataclass(frozen=True)
class SliceCounter:
    """What the search for rules asks, answered by one job over all slices."""

    slices: DataFrame
    horizon: int
    n_symbols: int

    def totals(self) -> Ints:
        return self._add_up(lambda piece: (piece.totals(),), (self.n_symbols,))[0]

    def count(self, episodes: Episodes) -> Ints:
        return self._add_up(lambda piece: (piece.count(episodes),), (episodes.n_rules,))[0]

    def follow(self, episodes: Episodes, symbols: Codes) -> tuple[Ints, Ints]:
        closed, hits = self._add_up(
            lambda piece: piece.follow(episodes, symbols), (episodes.n_rules,), (episodes.n_rules, len(symbols))
        )
        return closed, hits

    def _add_up(self, count: Callable[[Slice], tuple[Ints, ...]], *shapes: tuple[int, ...]) -> list[Ints]:
        horizon, n_symbols = self.horizon, self.n_symbols
        told = self.slices.mapInArrow(lambda batches: count_slices(batches, horizon, n_symbols, count), COUNTS)
        with described(self.slices.sparkSession, "seqube: mine: count episodes"):
            found = told.toArrow()
        numbers, places, counts = (column.to_numpy() for column in found.columns)
        sums = []
        for number, shape in enumerate(shapes):
            total = np.zeros(int(np.prod(shape)), np.int64)
            np.add.at(total, places[numbers == number], counts[numbers == number])
            sums.append(total.reshape(shape))
        return sums
