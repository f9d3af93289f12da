"""Files of results as the page needs them: a page of rows in some order, the matches in a stretch of time, an export.

A file is mapped into memory, never read whole; a page takes the rows it shows. Structs are seen as columns (`a_price`).

Cost: a page is a slice; in another order, a sort of one column, kept until another is asked for. A stretch of time is two
comparisons per match.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv, parquet

from seqube import output
from seqube.engine.display import flat, shown_columns
from seqube.engine.jsonable import plain
from seqube.events.times import wall_clock

Floats = npt.NDArray[np.float64]

N_BINS = 200
_CHUNK = 20_000


class ResultFile:
    """The rows that a job wrote."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.table: pa.Table = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
        self._order: tuple[str, bool] | None = None
        self._rows: pa.Array | None = None

    def __len__(self) -> int:
        return int(self.table.num_rows)

    @cached_property
    def flat(self) -> pa.Table:
        return flat(self.table)

    @cached_property
    def telling(self) -> list[str]:
        """The columns that have something to show; what they hold is exported with the others."""
        return list(shown_columns(self.table).column_names)

    def page(self, start: int, n: int, order: str | None = None, descending: bool = False) -> list[dict[str, Any]]:
        """Some rows as plain values, in the order of a column or of the file."""
        if order is None or order not in self.flat.column_names:
            return plain_rows(output.flatten(self.flat.slice(start, n)))
        if self._order != (order, descending):
            ways = [(order, "descending" if descending else "ascending")]
            column = self.flat.select([order])
            values = output.flatten(column) if pa.types.is_nested(column.schema.field(0).type) else column  # lists have no order
            self._rows = pc.sort_indices(values, sort_keys=ways)
            self._order = (order, descending)
        assert self._rows is not None
        return plain_rows(output.flatten(self.flat.take(self._rows.slice(start, n))))

    def row(self, number: int) -> dict[str, Any]:
        rows = plain_rows(self.table.slice(number, 1))
        return rows[0] if rows else {}

    def close(self) -> None:
        self.path.unlink(missing_ok=True)

    # ------------------------------------------------------------ matches in time

    @cached_property
    def starts(self) -> Floats:
        return to_axis(self.table.column("start"))

    @cached_property
    def ends(self) -> Floats:
        return to_axis(self.table.column("end"))

    @property
    def is_in_time(self) -> bool:
        """Whether these are matches with their events; RETURN may call its own columns as it likes."""
        has_events = any(map(holds_events, self.table.schema.types))
        return has_events and {"start", "end"} <= set(self.table.column_names) and len(self) > 0

    @cached_property
    def density(self) -> tuple[Floats, npt.NDArray[np.int64]]:
        """How many matches end in each of some equal stretches of time: where these begin and end, and the counts."""
        low, high = float(min(self.starts.min(), self.ends.min())), float(self.ends.max())  # clocks go back in autumn
        counts, edges = np.histogram(self.ends, bins=N_BINS, range=(low, max(high, low + 1)))
        return edges, counts

    def between(self, low: float, high: float, n: int) -> tuple[npt.NDArray[np.int64], int]:
        """The n matches that end first of those that touch a stretch of time, and how many there are."""
        rows = np.flatnonzero((self.ends >= low) & (self.starts <= high))
        total = len(rows)
        if total > n:
            rows = rows[np.argpartition(self.ends[rows], n)[:n]]
        return np.sort(rows), total

    # ------------------------------------------------------------ exports

    def as_parquet(self) -> Iterator[bytes]:
        """The file row group by row group; nothing is held beyond one."""
        sink = io.BytesIO()
        with parquet.ParquetWriter(sink, self.table.schema) as writer:
            for batch in self.table.to_batches(max_chunksize=_CHUNK * 10):
                writer.write_batch(batch)
                yield sink.getvalue()
                sink.seek(0)
                sink.truncate()
        yield sink.getvalue()

    def as_csv(self) -> Iterator[bytes]:
        """What `seqube run --format csv` prints, piece by piece."""
        sink = io.BytesIO()
        with csv.CSVWriter(sink, output.flatten(self.flat.slice(0, 0)).schema) as writer:
            for begin in range(0, len(self), _CHUNK):
                writer.write_table(output.flatten(self.flat.slice(begin, _CHUNK)))
                yield sink.getvalue()
                sink.seek(0)
                sink.truncate()
        yield sink.getvalue()


def holds_events(kind: pa.DataType) -> bool:
    """Whether a column is a variable: an event in each row, or a list of them."""
    return bool(pa.types.is_struct(kind.value_type if pa.types.is_list(kind) else kind))


def to_axis(column: pa.ChunkedArray) -> Floats:
    """Times as numbers on an axis: for timestamps milliseconds by the clocks of their zone, which the charts take for UTC."""
    if pa.types.is_temporal(column.type):
        clocks = wall_clock(column).cast(pa.timestamp("us"), safe=False).cast(pa.int64())
        return np.asarray(clocks.to_numpy(), np.float64) / 1000
    return np.asarray(column.to_numpy(), np.float64)


def plain_rows(table: pa.Table) -> list[dict[str, Any]]:
    """Rows as values that the page can hold."""
    rows: list[dict[str, Any]] = for_browser(table.to_pylist())
    return rows


def for_browser(value: Any) -> Any:
    """A value as JSON and the page can hold it: numbers that a browser would round are text."""
    return plain(value, widest=2**53)
