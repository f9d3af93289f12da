"""A query that is watched for, and events in the order in which a stream may bring them."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import strategies as st

from seqube.events import Events
from seqube.plan.needs import needs_of
from seqube.query import prepare
from seqube.spark.rows import ship_query
from seqube.spark.streaming.watch import Watch, own_columns
from seqube.spark.transport.columns import Columns, needed_schema


def watch(text: str, table: pa.Table, strategy: str = "auto") -> Watch:
    schema = Events(table).schema
    plan = prepare(text, None, strategy=strategy)
    hidden = own_columns(needs_of(plan, schema.unit), with_ids=False)
    keeping = Columns(needed_schema([plan], schema), hidden)
    return Watch("q", ship_query(plan, schema), Columns(schema, hidden), keeping)


@st.composite
def arrivals(draw: st.DrawFn, n: int) -> list[list[int]]:
    """Row numbers in the order in which they come, cut into micro-batches, empty ones among them."""
    order = draw(st.permutations(range(n))) if draw(st.booleans()) else list(range(n))
    ends = sorted(draw(st.lists(st.integers(0, n), max_size=6)))
    return [list(order[start:stop]) for start, stop in zip([0, *ends], [*ends, n], strict=True)]
