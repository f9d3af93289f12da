"""Queries inside SQL: `SELECT * FROM seqube(TABLE(events), 'PATTERN ... WITHIN ...')`.

The columns of the result follow the query's text, and what is wrong with it is said when the statement is planned. The table is
split by a bucket of the query's key, and goes to one task where there is none; `seqube_by` takes the split of the statement:

    SELECT * FROM seqube(TABLE(trades), 'SEQ(A a, B b, [id]) WITHIN 5 min', type => 'ticker')
    SELECT * FROM seqube(TABLE(trades), 'A a WHERE a.x > :limit WITHIN 1 min', params => named_struct('limit', 500))
    SELECT * FROM seqube_by(TABLE(trades) PARTITION BY (region), 'SEQ(A a, B b) WITHIN 5 min')

Spark calls no function over a table without rows, and the total over everything is reported over nothing, too: its events are
gathered into one row first, which is always there (and is limited to 2 GB; `seqube.spark.run` is not).

Cost: only the columns that the query needs travel, as Arrow; but Spark shuffles and sorts them row by row, and calls the function
anew for every value of PARTITION BY. Invariant: the rows are those of `seqube.spark.run`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from seqube.engine.limits import LIMITS
from seqube.errors import SchemaError
from seqube.events.schema import Schema
from seqube.language import check, parse
from seqube.language.definitions import spell_out
from seqube.language.parameters import refuse_unknown
from seqube.plan.aggregates import AggregatePlan
from seqube.plan.needs import needs_of
from seqube.query import prepare
from seqube.spark.answers import answer_alone
from seqube.spark.ingest import IDENTITY, arrow_columns, refuse_clashes, session_zone
from seqube.spark.routing import SparkTask
from seqube.spark.rows import ShippedQuery, refuse_in_tasks, ship_query
from seqube.spark.transport.columns import Columns, conform, needed_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BUCKETS = 64
GATHERED = "#events"  # all events of a table as one value


def register(spark: SparkSession) -> None:
    """Make the functions `seqube` and `seqube_by` known to a session."""
    from pyspark.sql.functions import udtf
    from pyspark.util import PythonEvalType

    case_sensitive = spark.conf.get("spark.sql.caseSensitive") == "true"
    for name, split_by_query in (("seqube", True), ("seqube_by", False)):
        function: Any = udtf(_function(split_by_query, case_sensitive, session_zone(spark)))
        # Functions over Arrow may not say their columns by `analyze` where they are made, but where they are run it is understood.
        function.evalType = PythonEvalType.SQL_ARROW_UDTF
        spark.udtf.register(name, function)


def _function(split_by_query: bool, case_sensitive: bool, zone: str) -> Any:
    from pyspark.sql.udtf import AnalyzeArgument, AnalyzeResult, PartitioningColumn, SelectedColumn

    @dataclass
    class Planned(AnalyzeResult):
        """What planning found out, on its way to the workers."""

        wanted: ShippedQuery | None = None
        columns: Columns | None = None

    def plan(
        events: AnalyzeArgument,
        query: AnalyzeArgument,
        type: AnalyzeArgument | None = None,
        time: AnalyzeArgument | None = None,
        unit: AnalyzeArgument | None = None,
        params: AnalyzeArgument | None = None,
    ) -> Planned:
        from pyspark.sql.pandas.types import from_arrow_schema

        if not events.isTable or not isinstance(query.value, str):
            raise SchemaError("seqube takes a table and the text of a query\n  hint: seqube(TABLE(events), 'PATTERN ...')")
        texts = [given.value if given is not None else default for given, default in ((type, "type"), (time, "ts"), (unit, "ms"))]
        schema = Schema(arrow_columns(events.dataType, zone), *texts)  # type: ignore[arg-type]
        refuse_clashes(schema.columns.names, case_sensitive)
        if pa.types.is_string(schema.columns.field(schema.time_column).type):
            raise SchemaError(f"the time column {schema.time_column!r} holds texts\n  hint: CAST it to a timestamp in a sub-query")
        given = _params(params.value if params is not None else {})
        refuse_unknown([query.value], given)
        bound = spell_out(parse(query.value, params=given))
        check(bound, schema)
        planned = prepare(bound, None)
        refuse_in_tasks(planned)
        wanted = ship_query(planned, schema, limits=LIMITS)
        needs = needs_of(planned, schema.unit)
        key = needs.key if split_by_query else ()
        columns = ", ".join(_quoted(schema.column_of(name)) for name in key)
        needed = needed_schema([planned], schema)
        select = [SelectedColumn(_quoted(name), name) for name in needed.columns.names]
        if needs.by_order:
            select.append(SelectedColumn(_contents(events.dataType), IDENTITY))
        if split_by_query and isinstance(planned, AggregatePlan) and planned.emit.when == "total" and not planned.group_by:
            select = [SelectedColumn(f"collect_list(struct({', '.join(each.name for each in select)}))", GATHERED)]
        return Planned(
            schema=from_arrow_schema(wanted.schema),
            withSinglePartition=split_by_query and not key,
            partitionBy=[PartitioningColumn(f"pmod(xxhash64({columns}), {BUCKETS})")] if key else [],
            select=select,
            wanted=wanted,
            columns=Columns(needed, (IDENTITY,) if needs.by_order else (), by_contents=needs.by_order),
        )

    class Function:
        def __init__(self, planned: Planned) -> None:
            assert planned.wanted is not None
            assert planned.columns is not None
            self._wanted = planned.wanted
            self._columns = planned.columns
            self._batches: list[pa.RecordBatch] = []

        analyze = staticmethod(plan)

        def eval(
            self, events: pa.RecordBatch, query: Any, type: Any = None, time: Any = None, unit: Any = None, params: Any = None
        ) -> None:
            self._batches.append(events)

        def terminate(self) -> Iterator[pa.Table]:
            if self._batches:
                table = pa.Table.from_batches(self._batches)
                if table.column_names == [GATHERED]:
                    table = pa.Table.from_struct_array(pc.list_flatten(table.column(GATHERED)))
                events = self._columns.events(conform(table, self._columns.arrow))
                yield from answer_alone(events, SparkTask(0, 0), self._wanted)

    return Function


def _params(given: Any) -> dict[str, Any]:
    """Values for parameters, from a map or a struct of SQL."""
    found = given.asDict() if hasattr(given, "asDict") else given
    if not isinstance(found, Mapping):
        raise SchemaError("params are a struct or a map\n  hint: params => named_struct('limit', 500)")
    return {str(name): value for name, value in found.items()}


def _contents(columns: Any) -> str:
    """A hash of all columns of a row, by which rows with equal times are put in order: a table has no other."""
    from pyspark.sql.types import MapType

    # Maps have no hash. Nulls leave one as it is, so that which column is null would not be told.
    values = [f"to_json({_quoted(each.name)})" if isinstance(each.dataType, MapType) else _quoted(each.name) for each in columns]
    return f"xxhash64({', '.join([*values, *(f'isnull({_quoted(each.name)})' for each in columns if each.nullable)])})"


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
