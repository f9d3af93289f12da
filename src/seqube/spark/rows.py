"""The rows of a query that come back from its tasks: known before any input is (`ship_query`), in Spark's own types."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa

from seqube.engine.aggregates.aggregation import Aggregator
from seqube.engine.display import flat
from seqube.engine.limits import NO_LIMITS, Limits
from seqube.engine.operator import Operator, open_plan
from seqube.engine.predicates import Ints
from seqube.errors import DataError, PlanError
from seqube.events import Events
from seqube.events.schema import Schema
from seqube.events.sources import one_chunk
from seqube.language.tree import Attribute, Output, Query
from seqube.plan.aggregates import AggregatePlan
from seqube.plan.needs import Plan
from seqube.plan.physical import MatchPlan
from seqube.spark.ingest import IDENTITY
from seqube.spark.transport.columns import conform, mix

MATCH_ID = "match_id"


@dataclass(frozen=True)
class ShippedQuery:
    """One query of a workload as workers need it: its plan, the schema of its rows, and what a task of it may use."""

    plan: Plan
    schema: pa.Schema
    with_ids: bool = False
    limits: Limits = NO_LIMITS

    @property
    def operator(self) -> Operator[Any, pa.Table]:
        return open_plan(self.returning(self.plan) if isinstance(self.plan, MatchPlan) else self.plan, self.limits)

    def returning(self, plan: MatchPlan) -> MatchPlan:
        """A plan that returns what `rows` makes the user's rows of."""
        # Flat columns are made where ids have been taken out of the structs.
        return _returning_ids(plan) if self.with_ids and plan.returns else replace(plan, is_flat=False)

    @property
    def totals(self) -> Aggregator:
        """What adds up over slices of time (`needs.adds_up`)."""
        assert isinstance(self.plan, AggregatePlan)
        return Aggregator(self.plan, self.limits)

    @property
    def unlimited(self) -> ShippedQuery:
        return replace(self, limits=NO_LIMITS)

    @property
    def has_counters(self) -> bool:
        """Whether a state that goes on may be less than the events it was made of."""
        return isinstance(self.plan, AggregatePlan)

    @property
    def replays_keys(self) -> bool:
        """Whether it can be asked about some keys alone in the place of a state that goes on."""
        return not self.has_counters

    def rows(self, table: pa.Table) -> pa.Table:
        """The engine's rows as the user's: without our own columns, in the declared types, with their id if that is wanted."""
        table = one_chunk(table)
        columns = {}
        ids: list[Ints] = []
        for name, column in zip(table.column_names, table.columns, strict=True):
            kind = column.type
            if name.startswith(IDENTITY):
                ids.append(_of_lists(column.chunk(0)) if pa.types.is_list(kind) else column.fill_null(0).to_numpy())
                continue
            if pa.types.is_struct(kind) and kind.get_field_index(IDENTITY) >= 0:
                column = pa.chunked_array([_without_identity(chunk, ids) for chunk in column.chunks], _visible(kind))
            elif pa.types.is_list(kind) and pa.types.is_struct(kind.value_type) and kind.value_type.get_field_index(IDENTITY) >= 0:
                column = pa.chunked_array([_lists_without_identity(chunk, ids) for chunk in column.chunks])
            columns[name] = column
        if self.with_ids:
            combined = np.zeros(table.num_rows, np.int64)
            for number, hashes in enumerate(ids):
                combined = mix(combined + number, hashes)
            columns = {MATCH_ID: pa.chunked_array([pa.array(combined)])} | columns
        found = pa.table(columns)
        try:
            return conform(flat(found) if isinstance(self.plan, MatchPlan) and self.plan.is_flat else found, self.schema)
        except pa.ArrowInvalid as error:
            raise DataError(
                f"a value does not fit the column it is for: {error}\n"
                "  hint: whole numbers beyond 64 bits have no column in Spark; multiply by 1.0, or run it without Spark"
            ) from error


def _visible(kind: pa.StructType) -> pa.StructType:
    return pa.struct([field for field in kind if not field.name.startswith("#")])


def _without_identity(struct: pa.StructArray, ids: list[Ints]) -> pa.StructArray:
    ids.append(struct.field(IDENTITY).fill_null(0).to_numpy(zero_copy_only=False))
    fields = list(_visible(struct.type))
    mask = struct.is_null() if struct.null_count else None
    return pa.StructArray.from_arrays([struct.field(field.name) for field in fields], fields=fields, mask=mask)


def _lists_without_identity(lists: pa.ListArray, ids: list[Ints]) -> pa.ListArray:
    of_events: list[Ints] = []
    events = _without_identity(lists.values, of_events)
    ids.append(_of_lists(pa.ListArray.from_arrays(lists.offsets, pa.array(of_events[0]))))
    return pa.ListArray.from_arrays(lists.offsets, events)


def _of_lists(hashes: pa.ListArray) -> Ints:
    """One hash for each list of them, which tells their order too."""
    offsets, values = hashes.offsets.to_numpy().astype(np.int64), hashes.values.fill_null(0).to_numpy()
    counts = np.diff(offsets)
    combined: Ints = counts.copy()
    for place in range(int(counts.max(initial=0))):
        longer = np.flatnonzero(counts > place)
        combined[longer] = mix(combined[longer], values[offsets[longer] + place])
    return combined


def _returning_ids(plan: MatchPlan) -> MatchPlan:
    return replace(plan, returns=(*plan.returns, *_ids(plan)))


def _ids(plan: MatchPlan) -> tuple[Output, ...]:
    return tuple(Output(Attribute(name, IDENTITY), f"{IDENTITY}.{name}") for name in plan.variables)


def asking_ids(query: Query, wanted: ShippedQuery) -> Query:
    """A query that returns what `wanted.rows` makes the user's rows of."""
    if not wanted.with_ids or not query.returns:
        return replace(query, returns_all=False)
    return replace(query, returns=(*query.returns, *_ids(wanted.plan.matches)))


def refuse_in_streams(plan: Plan) -> None:
    """Raise a `PlanError` for what no stream on Spark knows."""
    if (new := unknown_to_tasks(plan)) is not None:
        _refuse(new, "a stream on Spark", "run it over a batch, or in this process")


def refuse_in_tasks(plan: Plan) -> None:
    """Raise a `PlanError` for what no task of the SQL function knows."""
    if (new := unknown_to_tasks(plan)) is not None:
        _refuse(new, "the SQL function", "ask SQL for it: SELECT DISTINCT ... FROM seqube(...) LIMIT 10")


def _refuse(new: str, where: str, hint: str) -> NoReturn:
    raise PlanError(f"{new} cannot be run in {where} yet\n  hint: {hint}")


def unknown_to_tasks(plan: Plan) -> str | None:
    """What is asked of all rows together, which no task has."""
    matches = plan.matches
    return "RETURN DISTINCT" if matches.is_distinct else None if matches.limit is None else "LIMIT"


def ship_query(plan: Plan, schema: Schema, with_ids: bool = False, limits: Limits = NO_LIMITS) -> ShippedQuery:
    """The rows a plan will give, known without a row of input; running it on none also compiles what workers will load."""
    nothing = Events(schema.columns.empty_table(), type=schema.type_column, time=schema.time_column, unit=schema.unit)
    aggregates = isinstance(plan, AggregatePlan)
    if with_ids and plan.matches.is_distinct:
        raise PlanError("a row of RETURN DISTINCT stands for many matches and has no id\n  hint: leave out DISTINCT, or match_id")
    fields = []
    for field in open_plan(plan).run(nothing).schema:
        kind = field.type
        if pa.types.is_null(kind):
            kind = pa.int64() if aggregates else pa.string()
        if pa.types.is_decimal256(kind):  # Spark has 38 digits; a value that needs more is an error
            kind = pa.decimal128(38, min(kind.scale, 38))
        fields.append(pa.field(field.name, kind))
    with_ids = with_ids and not aggregates
    return ShippedQuery(plan, pa.schema([pa.field(MATCH_ID, pa.int64()), *fields] if with_ids else fields), with_ids, limits)
