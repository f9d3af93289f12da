"""SQL with row patterns on Spark: clauses over the session's tables and views, and Spark around them.

    table (Spark) -> task by partition key, pack into blobs (Arrow) -> shuffle of blobs -> match each task's partitions -> rows

A clause's rows are a DataFrame that the rest of the statement names. Without PARTITION BY all rows go to one task. A DataFrame has
no order of its own: ties that ORDER BY leaves are put in the order of a hash of the whole row, so that every run gives the same.

Cost: one read and one shuffle of the columns that a clause needs. Invariant: the rows are those of `seqube.sql`.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from seqube.engine.limits import NO_LIMITS, Limits
from seqube.errors import Problem, QueryError
from seqube.language.rows.statement import SqlStep, Statement, read_statement
from seqube.plan.rows import RowPlan, explain_rows
from seqube.spark.batch import TASK_BLOBS, in_worker
from seqube.spark.ingest import IDENTITY, arrow_columns, column, session_zone
from seqube.spark.session import session
from seqube.spark.transport.blobs import gather_batches, read_blobs, write_blob
from seqube.spark.transport.columns import conform
from seqube.statements import plan_step

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

TASKS_PER_CORE = 2  # so that a task with large partitions does not hold up all others
_TASK = "#task"
_CLOCK = pa.time64("ns")  # the only times of day that Spark reads


def run_statement(text: str, limits: Limits | None) -> DataFrame:
    """The rows of a statement."""
    from pyspark.sql import SparkSession

    spark = SparkSession.getActiveSession() or session()
    return _Warehouse(spark, read_statement(text, "spark"), limits or NO_LIMITS).answer()


class _Warehouse:
    """A session of Spark, with the rows of steps as views for as long as the statement is read."""

    def __init__(self, spark: SparkSession, statement: Statement, limits: Limits) -> None:
        self._spark, self._statement, self._limits = spark, statement, limits
        self._views: dict[str, str] = {}
        self._zone = session_zone(spark)

    def answer(self) -> DataFrame:
        try:
            if self._statement.is_explained:
                return self._explained()
            return self._rows(self._statement.text)
        finally:  # what was read holds on to the plans of views, not to their names
            for view in self._views.values():
                self._spark.catalog.dropTempView(view)

    def _rows(self, sql: str) -> DataFrame:
        """What some SQL gives, with the rows of steps in the place of their names."""
        from pyspark.errors import AnalysisException, ParseException

        for step in self._statement.needed(sql):
            if step.name not in self._views:
                frame = self._step(step)
                self._views[step.name] = f"{step.name}_{uuid.uuid4().hex[:12]}"
                frame.createOrReplaceTempView(self._views[step.name])
            sql = sql.replace(step.name, self._views[step.name])
        try:
            return self._spark.sql(sql)
        except (AnalysisException, ParseException) as error:
            raise QueryError(Problem(str(error).splitlines()[0])) from None

    def _step(self, step: SqlStep) -> DataFrame:
        frame = self._rows(step.input(self._statement))
        if step.query:
            from seqube.spark import run

            options: Any = dict(step.options)
            return _flat(run(step.query, frame, limits=self._limits, **options))
        return find_rows(self._plan(step, frame), frame, self._limits)

    def _plan(self, step: SqlStep, frame: DataFrame) -> RowPlan:
        queried = [[row[0] for row in self._rows(sql).collect()] for sql in step.queried(self._statement)]
        return plan_step(step, arrow_columns(frame.schema, self._zone), queried)

    def _explained(self) -> DataFrame:
        told = []
        for step in self._statement.steps:
            if step.clause:
                plan = self._plan(step, self._rows(step.input(self._statement)))
                n_tasks = _n_tasks(self._spark, plan)
                told.append((explain_rows(plan, f"partitions: over {n_tasks} tasks by their key" if n_tasks > 1 else "one task"),))
        return self._spark.createDataFrame(told, "plan string")


def _flat(frame: DataFrame) -> DataFrame:
    """Structs of variables as columns, `a_price` for `a.price`."""
    from pyspark.sql.types import StructType

    columns: list[Column] = []
    for each in frame.schema:
        if isinstance(each.dataType, StructType):
            columns += [column(each.name).getField(name).alias(f"{each.name}_{name}") for name in each.dataType.names]
        else:
            columns.append(column(each.name))
    return frame.select(*columns)


def _n_tasks(spark: SparkSession, plan: RowPlan) -> int:
    return TASKS_PER_CORE * spark.sparkContext.defaultParallelism if plan.clause.partition_by else 1


def find_rows(plan: RowPlan, frame: DataFrame, limits: Limits) -> DataFrame:
    """The rows that a clause gives over a DataFrame."""
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.pandas.types import from_arrow_schema

    from seqube.engine.rows.clause import match_rows, needed_columns

    n_tasks = _n_tasks(frame.sparkSession, plan)
    names = needed_columns(plan)
    zone = session_zone(frame.sparkSession)
    task = (
        F.pmod(F.xxhash64(*(_hashed(frame, name) for name in plan.clause.partition_by)), F.lit(n_tasks))
        if n_tasks > 1
        else F.lit(0)
    )
    contents = F.xxhash64(*(_hashed(frame, name) for name in frame.columns), *(column(name).isNull() for name in frame.columns))
    sent = frame.select(*map(column, names), contents.alias(IDENTITY), task.cast("int").alias(_TASK))
    schema = pa.schema([arrow_columns(frame.schema, zone).field(name) for name in names])
    given = match_rows(plan, schema.empty_table()).schema
    result = pa.schema([field.with_type(_CLOCK) if pa.types.is_time(field.type) else field for field in given])

    def pack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for table in gather_batches(batches):
            tasks = table.column(_TASK).to_numpy()
            rows = table.drop_columns([_TASK])
            for number in np.unique(tasks):
                blob = write_blob(rows.take(pa.array(np.flatnonzero(tasks == number))))
                yield pa.RecordBatch.from_arrays([pa.array([number], pa.int32()), pa.array([blob], pa.binary())], ["task", "blob"])

    def match(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        blobs: dict[int, list[bytes]] = {}
        for batch in batches:
            for number, blob in zip(batch.column(0).to_pylist(), batch.column(1), strict=True):
                blobs.setdefault(number, []).append(blob.as_buffer())
        for number in sorted(blobs):
            table = read_blobs(blobs.pop(number))
            assert table is not None
            rows = conform(_without_ties(table, [each.column for each in plan.clause.order_by]).drop_columns([IDENTITY]), schema)
            yield from conform(match_rows(plan, rows, limits), result).to_batches()

    blobs = sent.mapInArrow(in_worker(pack), TASK_BLOBS).repartitionById(n_tasks, "task")
    return blobs.mapInArrow(in_worker(match), from_arrow_schema(result))


def _without_ties(table: pa.Table, ordered_by: list[str]) -> pa.Table:
    """The rows that ORDER BY may leave in a tie by a hash of each; what no other is equal to stays where it came, at no cost."""
    tied = np.arange(table.num_rows)
    column = table.column(ordered_by[0]) if ordered_by else pa.nulls(0)
    if (pa.types.is_int64(column.type) or pa.types.is_timestamp(column.type)) and not column.null_count:
        values = column.cast(pa.int64()).to_numpy()
        ascending = np.sort(values)
        twice = ascending[1:][ascending[1:] == ascending[:-1]]
        tied = np.flatnonzero(np.isin(values, twice)) if len(twice) else tied[:0]
    if not len(tied):
        return table
    order = np.arange(table.num_rows)
    order[tied] = tied[np.argsort(table.column(IDENTITY).to_numpy()[tied], kind="stable")]
    return table.take(pa.array(order))


def _hashed(frame: DataFrame, name: str) -> Column:
    """A column that has a hash which is equal where values are: maps and variants have none, and -0.0 equals 0.0."""
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import DoubleType, FloatType

    kind = frame.schema[name].dataType
    if re.search(r"\b(map<|variant\b)", kind.simpleString()):
        return F.to_json(column(name))
    return column(name) + F.lit(0.0) if isinstance(kind, DoubleType | FloatType) else column(name)
