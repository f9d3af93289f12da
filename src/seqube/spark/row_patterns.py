"""SQL with row patterns on Spark: clauses over the session's tables and views, and Spark around them.

    table (Spark) -> task by partition key, pack into blobs (Arrow) -> shuffle of blobs -> match each task's partitions -> rows

A clause's rows are a DataFrame that the rest of the statement names. Without PARTITION BY all rows go to one task. A DataFrame has
no order of its own: ties that ORDER BY leaves are put in the order of what else the clause sees of the rows, so that every run
gives the same. Numbers travel side by side, and texts that are only compared with a few as numbers (`transport.folding`).

Cost: one read and one shuffle of the columns that a clause needs. Invariant: the rows are those of `seqube.sql`.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from seqube.engine.limits import NO_LIMITS, Limits
from seqube.errors import Problem, QueryError
from seqube.language.rows.statement import SqlStep, Statement, read_statement
from seqube.plan.rows import RowPlan, compared_texts, explain_rows
from seqube.spark.answers import by_task
from seqube.spark.batch import TASK_BLOBS, blob_for, in_worker
from seqube.spark.ingest import IDENTITY, MOST_CODED, arrow_columns, column, is_plain_string, session_zone
from seqube.spark.session import described, session
from seqube.spark.transport.blobs import gather_batches, read_blobs
from seqube.spark.transport.columns import conform
from seqube.spark.transport.folding import CODED, Fold, Texts
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
        with described(self._spark, "seqube: ask sub-queries"):
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

    from seqube.engine.rows.clause import gather_groups, match_rows, needed_columns

    n_tasks = _n_tasks(frame.sparkSession, plan)
    names = needed_columns(plan)
    kinds = arrow_columns(frame.schema, session_zone(frame.sparkSession))
    coded = _coded(plan, frame)
    nested = [name for name in names if pa.types.is_nested(kinds.field(name).type)]
    columns = [column(name) for name in names]
    fields = [kinds.field(name).with_type(CODED) if name in coded else kinds.field(name) for name in names]
    if nested:  # they have no order: a hash of them has one
        contents = F.xxhash64(*(_hashed(frame, name) for name in nested), *(column(name).isNull() for name in nested))
        columns.append(contents.alias(IDENTITY))
        fields.append(pa.field(IDENTITY, pa.int64()))
    schema = pa.schema(fields)
    compared = {*plan.clause.partition_by, *(each.column for each in plan.clause.order_by)}  # which are mostly equal in a tie
    ties_by = sorted((name for name in schema.names if name not in nested), key=lambda name: name in compared)
    task = (
        F.pmod(F.xxhash64(*(_hashed(frame, name) for name in plan.clause.partition_by)), F.lit(n_tasks))
        if n_tasks > 1
        else F.lit(0)
    )
    sent = frame.select(*columns, task.cast("int").alias(_TASK))
    given = match_rows(plan, schema.empty_table()).schema
    result = pa.schema([field.with_type(_CLOCK) if pa.types.is_time(field.type) else field for field in given])

    def pack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for table in gather_batches(batches):
            tasks = table.column(_TASK).to_numpy().astype(np.int64)
            bounds = np.concatenate(([0], np.cumsum(np.bincount(tasks))))
            rows = table.select(schema.names).take(pa.array(gather_groups(tasks, bounds)))
            for number, (low, high) in enumerate(pairwise(bounds)):
                if low < high:
                    yield blob_for(number, rows.slice(low, high - low))

    def match(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        blobs = by_task(batches)
        for number in sorted(blobs):
            table = read_blobs(blobs.pop(number))
            assert table is not None
            yield from conform(match_rows(plan, conform(table, schema), limits, ties_by=ties_by), result).to_batches()

    blobs = Fold.of(sent, coded).map(sent, in_worker(pack), TASK_BLOBS).repartitionById(n_tasks, "task")
    return blobs.mapInArrow(in_worker(match), from_arrow_schema(result))


def _coded(plan: RowPlan, frame: DataFrame) -> dict[str, Texts]:
    """The columns of texts that a clause only compares with a few."""
    known = {name: texts for name, texts in compared_texts(plan.clause).items() if len(texts) <= MOST_CODED}
    # Behind all of them, for any other: a text that is longer than each.
    return {
        name: Texts(texts, f"{''.join(texts)}?") for name, texts in known.items() if is_plain_string(frame.schema[name].dataType)
    }


def _hashed(frame: DataFrame, name: str) -> Column:
    """A column that has a hash which is equal where values are: maps and variants have none, -0.0 equals 0.0, NaN is null."""
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import DoubleType, FloatType

    kind = frame.schema[name].dataType
    if re.search(r"\b(map<|variant\b)", kind.simpleString()):
        return F.to_json(column(name))
    if isinstance(kind, DoubleType | FloatType):
        return F.when(~F.isnan(column(name)), column(name) + F.lit(0.0))
    return column(name)
