"""The columns that travel to a task, in one fixed schema, and the events that are made of them there.

Events that are equal in all columns are told apart by a number, so that the same match has the same id in every run. A column that
is computed piece by piece may come in a narrower or wider type of its kind; `conform` gives all pieces the declared one.

Cost: a cast per column, nothing where the types are the declared ones already.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from seqube.engine.predicates import Ints
from seqube.events import Events
from seqube.events.schema import TIME, TYPE, Schema
from seqube.events.sources import one_chunk
from seqube.events.times import read_times
from seqube.plan.needs import Plan, needs_of, together
from seqube.spark.ingest import EPOCH, IDENTITY, INPUT_ORDER, KEY
from seqube.spark.transport.folding import CODED


@dataclass(frozen=True)
class Columns:
    """What travels: the events' columns in one fixed schema, and how to make `Events` of them."""

    schema: Schema
    hidden: tuple[str, ...] = ()  # columns of our own beside them
    types: tuple[str, ...] = ()  # the types there can be, which then travel as codes
    by_contents: bool = False  # ties in an order that follows from what the rows hold: a frame has no other

    @property
    def arrow(self) -> pa.Schema:
        own = [pa.field(name, pa.int32() if name in (KEY, EPOCH) else pa.int64()) for name in self.hidden]
        coded = {self.schema.type_column} if self.types else set()
        columns = [field.with_type(CODED) if field.name in coded else field for field in self.schema.columns]
        return pa.schema([*columns, *own])

    def select(self, table: pa.Table) -> pa.Table:
        """The travelling columns of rows that come from Spark."""
        return pa.Table.from_arrays(
            [table.column(name).cast(self.arrow.field(name).type) for name in self.arrow.names], schema=self.arrow
        )

    def times(self, table: pa.Table) -> Ints:
        return read_times(one_chunk(table.select([self.schema.time_column])).column(0).chunk(0)).times

    def events(self, table: pa.Table) -> Events:
        """Events in time order; ties in the order of the input where that was kept, or of their contents where they need one."""
        if INPUT_ORDER in self.hidden:
            order = np.lexsort((table.column(INPUT_ORDER).to_numpy(), self.times(table)))
            table = table.take(pa.array(order)).drop_columns([INPUT_ORDER])
        elif self.by_contents:
            table = table.take(pa.array(np.lexsort((table.column(IDENTITY).to_numpy(), self.times(table)))))
        events = Events(table, type=self.schema.type_column, time=self.schema.time_column, unit=self.schema.unit, threads=1)
        return number_identities(events) if IDENTITY in self.hidden else events


def number_identities(events: Events) -> Events:
    """Tell apart events that are equal in all columns, so that matches of different events have different ids."""
    table = events.table
    hashes = table.column(IDENTITY).to_numpy()
    place = table.schema.get_field_index(IDENTITY)
    table = table.set_column(place, IDENTITY, pa.array(mix(hashes, number_equals(hashes))))
    return Events(table, type=events.type_column, time=events.time_column, unit=events.unit, threads=1)


def needed_schema(plans: Iterable[Plan], schema: Schema) -> Schema:
    """The columns that have to travel: all of them where whole events are returned."""
    _, names = together(needs_of(plan, schema.unit) for plan in plans)
    if names is None:
        return schema
    wanted = {schema.column_of(name) for name in (TYPE, TIME, *names)}
    kept = pa.schema([field for field in schema.columns if field.name in wanted])
    return Schema(kept, schema.type_column, schema.time_column, schema.unit)


def mix(hashes: Ints, more: Ints) -> Ints:
    """Two columns of hashes as one (the finaliser of SplitMix64, which spreads every bit)."""
    with np.errstate(over="ignore"):
        x = hashes.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + more.astype(np.uint64)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (x ^ (x >> np.uint64(31))).view(np.int64)


def number_equals(hashes: Ints) -> Ints:
    """0, 1, 2 ... for every further row with the same hash, so that rows that are equal in all columns are still told apart."""
    order = np.argsort(hashes, kind="stable")
    ordered = hashes[order]
    fresh = np.concatenate(([True], ordered[1:] != ordered[:-1])) if len(ordered) else np.empty(0, np.bool_)
    starts = np.flatnonzero(fresh)
    numbers = np.empty(len(hashes), np.int64)
    numbers[order] = np.arange(len(hashes)) - np.repeat(starts, np.diff(np.append(starts, len(hashes))))
    return numbers


def conform(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The table in the declared types: what is computed row by row may come in a narrower or wider type of its kind."""
    if table.schema.equals(schema):
        return table
    columns = []
    for field, column in zip(schema, table.columns, strict=True):
        if pat.is_timestamp(field.type) and pat.is_timestamp(column.type) and column.type.tz != field.type.tz:
            column = column.cast(pa.timestamp(column.type.unit, field.type.tz))
        # A cast to the same type is no idle move: of structs whose fields are never null it refuses those that are null themselves.
        columns.append(column if column.type.equals(field.type) else column.cast(field.type))
    return pa.Table.from_arrays(columns, schema=schema)
