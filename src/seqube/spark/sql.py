"""Queries inside SQL: `SELECT * FROM seqube(TABLE(events), 'PATTERN ... WITHIN ...')`.

The columns of the result follow the query's text, and what is wrong with it is said when the statement is planned. The table is
split by a bucket of the query's key, and goes to one task where there is none; `seqube_by` takes the split of the statement:

    SELECT * FROM seqube(TABLE(trades), 'SEQ(A a, B b, [id]) WITHIN 5 min', type => 'ticker')
    SELECT * FROM seqube_by(TABLE(trades) PARTITION BY (region), 'SEQ(A a, B b) WITHIN 5 min')

Cost: Spark hands such functions row after row, as Python objects, which is far slower than `seqube.spark.run`; the engine still
sees columns. Invariant: the rows are those of `seqube.spark.run`.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from seqube.errors import SchemaError
from seqube.events import Events
from seqube.events.schema import Schema
from seqube.language import check, parse
from seqube.query import prepare
from seqube.spark.batch import Answer, answer, match_task
from seqube.spark.ingest import arrow_columns
from seqube.spark.routing import Task, shuffle_key

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BUCKETS = 64


def register(spark: SparkSession) -> None:
    """Make the functions `seqube` and `seqube_by` known to a session."""
    from pyspark.sql.functions import udtf

    for name, split_by_query in (("seqube", True), ("seqube_by", False)):
        spark.udtf.register(name, udtf(_function(split_by_query)))  # type: ignore[arg-type]


def _function(split_by_query: bool) -> Any:
    from pyspark.sql.udtf import AnalyzeArgument, AnalyzeResult, PartitioningColumn

    @dataclass
    class Planned(AnalyzeResult):
        """What planning found out, on its way to the workers."""

        wanted: Answer | None = None
        events: Schema | None = None

    def plan(
        events: AnalyzeArgument,
        query: AnalyzeArgument,
        type: AnalyzeArgument | None = None,
        time: AnalyzeArgument | None = None,
        unit: AnalyzeArgument | None = None,
    ) -> Planned:
        from pyspark.sql.pandas.types import from_arrow_schema

        if not events.isTable or not isinstance(query.value, str):
            raise SchemaError("seqube takes a table and the text of a query\n  hint: seqube(TABLE(events), 'PATTERN ...')")
        texts = [given.value if given is not None else default for given, default in ((type, "type"), (time, "ts"), (unit, "ms"))]
        schema = Schema(arrow_columns(events.dataType), *texts)  # type: ignore[arg-type]
        if pa.types.is_string(schema.columns.field(schema.time_column).type):
            raise SchemaError(f"the time column {schema.time_column!r} holds texts\n  hint: CAST it to a timestamp in a subquery")
        bound = parse(query.value)
        check(bound, schema)
        planned = prepare(bound, None)
        wanted = answer(planned, schema)
        key = shuffle_key(planned) if split_by_query else ()
        places = {"type": schema.type_column, "ts": schema.time_column}
        columns = ", ".join(f"`{places.get(name, name)}`" for name in key)
        return Planned(
            schema=from_arrow_schema(wanted.schema),
            withSinglePartition=split_by_query and not key,
            partitionBy=[PartitioningColumn(f"pmod(xxhash64({columns}), {BUCKETS})")] if key else [],
            wanted=wanted,
            events=schema,
        )

    class Function:
        def __init__(self, planned: Planned) -> None:
            assert planned.wanted is not None
            assert planned.events is not None
            self._wanted = planned.wanted
            self._schema = planned.events
            self._rows: list[Any] = []

        analyze = staticmethod(plan)

        def eval(self, events: Any, query: str, type: str = "", time: str = "", unit: str = "") -> None:
            self._rows.append(events)

        def terminate(self) -> Iterator[tuple[Any, ...]]:
            columns = [
                pa.array([_taken(row[name], field.type) for row in self._rows], field.type)
                for name, field in ((field.name, field) for field in self._schema.columns)
            ]
            schema = self._schema
            table = pa.Table.from_arrays(columns, schema=schema.columns)
            events = Events(table, type=schema.type_column, time=schema.time_column, unit=schema.unit)
            for found in match_task(events, Task(0, 0), self._wanted):
                for row in found.to_pylist():
                    yield tuple(_given(value) for value in row.values())

    return Function


def _taken(value: Any, kind: pa.DataType) -> Any:
    """A value as Arrow takes it. Spark hands over instants as local times without a zone."""
    if isinstance(value, datetime.datetime) and pa.types.is_timestamp(kind) and kind.tz is not None:
        return value.astimezone(datetime.UTC)
    return value.asDict(recursive=True) if hasattr(value, "asDict") else value


def _given(value: Any) -> Any:
    """A value as Spark takes it: structs as tuples, instants as local times without a zone."""
    if isinstance(value, dict):
        return tuple(_given(inner) for inner in value.values())
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        return value.astimezone().replace(tzinfo=None)
    return value
