"""A query that is watched for, and events in the order in which a stream may bring them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st
from numpy.typing import NDArray

from seqube.engine.sequence import LOWEST
from seqube.events import Events
from seqube.plan.needs import needs_of
from seqube.query import prepare
from seqube.spark.ingest import INPUT_ORDER, KEY
from seqube.spark.rows import ship_query
from seqube.spark.streaming.watch import Outcome, Watch, own_columns
from seqube.spark.transport.columns import Columns, needed_schema


def watch(text: str, table: pa.Table, strategy: str = "auto") -> Watch:
    schema = Events(table).schema
    plan = prepare(text, None, strategy=strategy)
    hidden = own_columns(needs_of(plan, schema.unit), with_ids=False)
    keeping = Columns(needed_schema([plan], schema), hidden)
    return Watch("q", ship_query(plan, schema), Columns(schema, hidden), keeping)


class Watched(ABC):
    """Is fed micro-batches, with the watermark that Spark would give each, and remembers what was found in them."""

    def __init__(self, watch: Watch, lateness: int) -> None:
        self.watch, self.lateness = watch, lateness
        self.newest, self.arrived = LOWEST, 0
        self.matches: list[dict[str, Any]] = []
        self.late: list[dict[str, Any]] = []

    @property
    def watermark(self) -> int:
        return LOWEST if self.newest == LOWEST else self.newest - self.lateness

    def feed(self, piece: pa.Table) -> None:
        if INPUT_ORDER in self.watch.arriving.hidden:
            piece = piece.append_column(INPUT_ORDER, pa.array(self.arrived + np.arange(piece.num_rows)))
        if KEY in self.watch.arriving.hidden:
            piece = piece.append_column(KEY, pa.array(self.hidden_key(piece)))
        self.arrived += piece.num_rows
        self.take(piece)
        if piece.num_rows:
            self.newest = max(self.newest, int(piece.column("ts").to_numpy().max()))

    @abstractmethod
    def take(self, piece: pa.Table) -> None:
        """Give the rows to whoever is to see them, at this watermark."""

    @abstractmethod
    def hidden_key(self, piece: pa.Table) -> NDArray[Any]:
        """What tells the rows' keys apart, as far as a hash does."""

    def hashes(self, piece: pa.Table) -> NDArray[np.int64]:
        rows = piece.select(self.watch.needs.key).to_pylist()
        return np.array(
            [hash(tuple(None if value != value else value for value in row.values())) for row in rows], np.int64
        )  # NaN is null

    def note(self, outcome: Outcome) -> None:
        for table, found in ((outcome.matches, self.matches), (outcome.late, self.late)):
            found += [] if table is None else table.to_pylist()

    def end(self) -> None:
        self.newest = 10_000
        self.feed(self.watch.arriving.schema.columns.empty_table())


@st.composite
def arrivals(draw: st.DrawFn, n: int) -> list[list[int]]:
    """Row numbers in the order in which they come, cut into micro-batches, empty ones among them."""
    order = draw(st.permutations(range(n))) if draw(st.booleans()) else list(range(n))
    ends = sorted(draw(st.lists(st.integers(0, n), max_size=6)))
    return [list(order[start:stop]) for start, stop in zip([0, *ends], [*ends, n], strict=True)]
