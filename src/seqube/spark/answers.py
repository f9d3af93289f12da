"""What a task answers: all queries of a group over the events that it has, which are read and put in order once for all of them.

    blobs of a task -> events in order -> shared matches, shared counts, each other query by itself -> pieces of rows, by query

Every task of a group runs the same shared plan. Over a slice of time it is run as over a whole stream, and what ends outside the
slice is left out: a match that ends inside has all that it could be made from among the slice's events. Of totals (`needs.adds_up`)
a slice has its share; the shares are merged, in the order of time, in one place.

Rows that stand where they are found travel in lists, in columns of Spark's own types (`AnswerColumns`), so that Spark hands them
out without asking Python again: a task of Python costs 20 ms, and every query is read by a job of its own. Others travel as blobs.

Cost: that of the shared plan, and a copy of the rows.
Invariant: a query has the rows that it has by itself, whatever it shares.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from seqube.engine.limits import NO_LIMITS, Limits
from seqube.engine.sequence import HIGHEST, LOWEST
from seqube.events import Events
from seqube.events.sources import one_chunk
from seqube.plan.aggregates import AggregatePlan
from seqube.plan.chase import SharedPlan
from seqube.plan.needs import needs_of
from seqube.plan.optimizer import WorkloadPlan
from seqube.plan.sharing import SharingPlan
from seqube.spark.ingest import column
from seqube.spark.routing import SparkTask
from seqube.spark.rows import ShippedQuery
from seqube.spark.session import described, step_of
from seqube.spark.transport.blobs import PIECE_ROWS, read_blobs, write_blob
from seqube.spark.transport.columns import Columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BLOBS = pa.schema([("query", pa.string()), ("task", pa.int32()), ("blob", pa.binary())])
LISTED_ROWS = 4_096  # of a list of rows, which Spark holds as one value
MOST_KINDS = 8  # columns of lists: Spark reserves megabytes for each, in every task that keeps answers
NUMBER = "#number"  # of an event in the whole stream, for windows of so many EVENTS


@dataclass(frozen=True)
class ShippedWorkload:
    """The queries of a group as workers need them, and what they share."""

    queries: Mapping[str, ShippedQuery]
    matches: SharedPlan | None = None
    counts: SharingPlan | None = None
    limits: Limits = NO_LIMITS

    @property
    def tags(self) -> dict[str, str]:
        """What queries are called in answers: by their place among what a task answers.

        Neighbours then stand together in what Spark keeps, which passes over the rest by their range. It generates and compiles
        code anew for other numbers, and not for other texts.
        """
        shared = [] if self.matches is None else [step.name for step in self.matches.steps]
        shared += [] if self.counts is None else self.counts.queries
        return {name: f"{place:06}" for place, name in enumerate(dict.fromkeys([*shared, *self.queries]))}

    @staticmethod
    def of(planned: WorkloadPlan, queries: Mapping[str, ShippedQuery], limits: Limits = NO_LIMITS) -> ShippedWorkload:
        """As it was planned; what is planned to be found by itself is."""
        matches, counts = planned.matches, planned.counts
        return ShippedWorkload(
            queries,
            matches.sharing if matches is not None and matches.reuses else None,
            counts if counts is not None and counts.strategy != "independent" and counts.queries else None,
            limits,
        )

    def answer(self, events: Events, task: SparkTask) -> Iterator[tuple[str, pa.Table]]:
        """The rows of each query that a task owns, in pieces; of a query that adds up, its totals."""
        together: set[str] = set()
        if self.matches is not None:
            together |= {step.name for step in self.matches.steps}
            yield from self._matches(self.matches, events, task)
        if self.counts is not None:
            together |= set(self.counts.queries)
            yield from self._counts(self.counts, events, task)
        for name, wanted in self.queries.items():
            if name in together:
                continue
            if needs_of(wanted.plan, events.unit).adds_up:
                yield name, wanted.totals.totals_within(events, task.after, task.upto)
            else:
                yield from ((name, piece) for piece in answer_alone(events, task, wanted))

    def _matches(self, plan: SharedPlan, events: Events, task: SparkTask) -> Iterator[tuple[str, pa.Table]]:
        from seqube.engine.ecube.reuse import compute_shared, write_matches
        from seqube.engine.predicates import Evaluator

        evaluator = Evaluator(events)
        for step, matches in compute_shared(plan, events, self.limits):
            wanted = self.queries[step.name]
            if (task.after, task.upto) != (LOWEST, HIGHEST):
                ends = [events.times[piece[-1]] for piece in matches.pieces]
                matches = matches.select((times > task.after) & (times <= task.upto) for times in ends)
            self.limits.budget().find(len(matches))
            yield step.name, wanted.rows(write_matches(wanted.returning(step.plan), matches, events, evaluator))

    def _counts(self, plan: SharingPlan, events: Events, task: SparkTask) -> Iterator[tuple[str, pa.Table]]:
        from seqube.engine.aggregates.sharing import SharedAggregator

        plans = {name: own.plan for name, own in self.queries.items() if isinstance(own.plan, AggregatePlan)}
        shared = SharedAggregator(plan, plans, self.limits)
        (tables,) = shared.within(events, task.after, task.upto)
        for name, table in tables.items():
            self.limits.budget().find(table.num_rows)
            adds_up = needs_of(self.queries[name].plan, events.unit).adds_up
            yield name, table if adds_up else self.queries[name].rows(table)


def answer_alone(events: Events, task: SparkTask, wanted: ShippedQuery) -> Iterator[pa.Table]:
    """The rows of one query that a task owns, in pieces."""
    budget = wanted.limits.budget()
    numbers = None
    if NUMBER in events.table.column_names:
        numbers = events.table.column(NUMBER).to_numpy()
        table = events.table.drop_columns([NUMBER])
        events = Events(table, type=events.type_column, time=events.time_column, unit=events.unit, threads=1)
    for piece in wanted.operator.within(events, task.after, task.upto, numbers, budget):
        budget.find(piece.num_rows)
        budget.pause()  # what Spark does with the rows is its own time
        yield wanted.rows(piece)
        budget.resume()


# ---------------------------------------------------------------- blobs


def by_task(batches: Iterable[pa.RecordBatch]) -> dict[int, list[bytes]]:
    """The blobs of each task."""
    found: dict[int, list[bytes]] = {}
    for batch in batches:
        for task, blob in zip(batch.column(0).to_pylist(), batch.column(1), strict=True):
            found.setdefault(task, []).append(blob.as_buffer())
    return found


@dataclass(frozen=True)
class AnswerColumns:
    """The columns that the rows of a workload travel in: blobs, and one for the lists of rows of each of some kinds.

    A kind is the types of the columns of rows, by their place.
    """

    tags: Mapping[str, str]  # what each query is called
    kinds: Sequence[Sequence[pa.DataType]] = ()
    kind_of: Mapping[str, int] = field(default_factory=dict)  # the rows of other queries travel as blobs

    @staticmethod
    def of(workload: ShippedWorkload, unit: str) -> AnswerColumns:
        """Lists for the kinds that most queries have whose rows stand where they are found."""
        standing = {
            name: tuple(wanted.schema.types) for name, wanted in workload.queries.items() if not needs_of(wanted.plan, unit).adds_up
        }
        kinds = [kind for kind, _ in Counter(standing.values()).most_common(MOST_KINDS)]
        kind_of = {name: kinds.index(kind) for name, kind in standing.items() if kind in kinds}
        return AnswerColumns(workload.tags, kinds, kind_of)

    @property
    def schema(self) -> pa.Schema:
        structs = [pa.struct([(str(place), own) for place, own in enumerate(kind)]) for kind in self.kinds]
        return pa.schema([*BLOBS, *((f"rows{number}", pa.list_(struct)) for number, struct in enumerate(structs))])

    def listed(self, name: str) -> str | None:
        """The column of lists that the rows of a query are in."""
        return f"rows{self.kind_of[name]}" if name in self.kind_of else None

    def write(self, name: str, task: int, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        """The rows that a task has found for a query, in pieces."""
        schema, listed = self.schema, self.listed(name)
        rows, size = one_chunk(rows), LISTED_ROWS if listed else PIECE_ROWS
        for start in range(0, rows.num_rows, size):
            piece = rows.slice(start, size)
            columns = {"query": pa.array([self.tags[name]]), "task": pa.array([task], pa.int32())}
            if listed:
                kind = schema.field(listed).type
                structs = pa.StructArray.from_arrays([c.chunk(0) for c in piece.columns], fields=list(kind.value_type))
                columns[listed] = pa.ListArray.from_arrays([0, len(structs)], structs, type=kind)
            else:
                columns["blob"] = pa.array([write_blob(piece)], pa.binary())
            yield pa.record_batch([columns.get(field.name, pa.nulls(1, field.type)) for field in schema], schema=schema)


def answer(
    batches: Iterable[pa.RecordBatch],
    columns: Columns,
    tasks: Mapping[int, SparkTask],
    workload: ShippedWorkload,
    into: AnswerColumns,
) -> Iterator[pa.RecordBatch]:
    """Blobs of tasks -> the rows that their queries have there."""
    found = by_task(batches)
    for number in sorted(found):
        table = read_blobs(found.pop(number))
        assert table is not None
        for name, rows in workload.answer(columns.events(table), tasks[number]):
            yield from into.write(name, number, rows)


def finish_answers(answers: Sequence[tuple[int, bytes | pa.Buffer]], columns: Columns, wanted: ShippedQuery) -> pa.Table:
    """The rows of a query, of what its tasks have answered."""
    pieces = [pa.ipc.open_stream(blob).read_all() for _, blob in sorted(answers, key=lambda found: found[0])]
    if not pieces or not needs_of(wanted.plan, columns.schema.unit).adds_up:
        return pa.concat_tables([wanted.schema.empty_table(), *pieces])
    return wanted.rows(wanted.totals.merge_slices(pieces, columns.events(columns.arrow.empty_table())))


def read_answers(answers: DataFrame, into: AnswerColumns, name: str, columns: Columns, wanted: ShippedQuery) -> DataFrame:
    """The rows of one query as a DataFrame: where they stand, or all at once where they have to be merged."""
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.pandas.types import from_arrow_schema

    own = answers.where(column("query") == into.tags[name])
    listed = into.listed(name)
    if listed:
        return own.select(F.inline(listed)).toDF(*wanted.schema.names)
    adds_up = needs_of(wanted.plan, columns.schema.unit).adds_up

    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found = (pair for batch in batches for pair in zip(batch.column(0).to_pylist(), batch.column(1), strict=True))
        pairs = ((task, blob.as_buffer()) for task, blob in found)
        if adds_up:
            yield from finish_answers(list(pairs), columns, wanted).to_batches()
        else:
            for _, blob in pairs:
                yield from pa.ipc.open_stream(blob).read_all().to_batches()

    own = own.select("task", "blob")
    return (own.repartition(1) if adds_up else own).mapInArrow(work, from_arrow_schema(wanted.schema))


def collect_answers(answers: DataFrame, columns: Columns, workload: ShippedWorkload) -> dict[str, pa.Table]:
    """The rows of all queries here, by one job."""
    names = {tag: name for name, tag in workload.tags.items()}
    found: dict[str, list[tuple[int, bytes]]] = {name: [] for name in workload.queries}
    with described(answers.sparkSession, step_of(workload.queries, "match")):
        rows = answers.collect()
    for row in rows:
        found[names[row["query"]]].append((row["task"], bytes(row["blob"])))
    return {name: finish_answers(pairs, columns, workload.queries[name]) for name, pairs in found.items()}
