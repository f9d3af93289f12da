"""What is kept of a stream, at the price of what is new: appended at one end, dropped at the other, and never copied at a step.

Rows are known by numbers that stay: row 0 is the first that ever came. `Growing` holds rows of 64-bit integers in one array, `Kept`
the events themselves, in chunks of Arrow tables. A row is dropped by moving the head; its memory is given back when the array is
full, and what lives moves to the front of one of twice its size.

    dropped        live           room
    . . . . . . | r7 r8 r9 r10 | . . . .        data[r7 - base] is row r7
    base         head           tail

Small chunks of about a size are put together, `NEIGHBOURS` at a time, so that a stream that comes event by event is not kept as a
million tables; each row is copied a few times in all, as often as the window has digits (in base `NEIGHBOURS`).

Cost: constant per row, amortised; a gather costs its rows and the chunks that they lie in.
Invariant: at most about twice of what lives is held: in an array, and in chunks, of which the first may be dead in part.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from seqube.engine.jit import kernel
from seqube.engine.predicates import Ints
from seqube.errors import SchemaError
from seqube.events import Events
from seqube.events.sources import one_chunk

NEIGHBOURS = 32  # chunks of about a size before they are put together
FREELY = 1 << 12  # rows of a chunk that may be put together whatever is kept beside it
LARGE = 1 << 30  # bytes of a chunk that is not made larger
ROOM = 64  # rows that an array has room for at least


class Growing:
    """Rows of integers. Kernels write behind `tail`, where `reserve` made room; who wrote moves it."""

    __slots__ = ("base", "data", "head", "tail")

    def __init__(self, width: int) -> None:
        self.data = np.empty((ROOM, width), np.int64)
        self.base = self.head = self.tail = 0  # the numbers of the first row of the array, the first that lives, and the next

    def __len__(self) -> int:
        return self.tail - self.head

    @property
    def live(self) -> Ints:
        """The rows that live, as a view."""
        return self.data[self.head - self.base : self.tail - self.base]

    def reserve(self, more: int) -> None:
        """Make room for so many rows."""
        if self.tail - self.base + more <= len(self.data):
            return
        live, size = len(self), max(ROOM, 2 * (len(self) + more))
        data = self.data if len(self.data) == size else np.empty((size, self.data.shape[1]), np.int64)
        data[:live] = self.live
        self.data, self.base = data, self.head

    def drop_upto(self, clock: int, column: int) -> None:
        """Drop the rows up to a clock, where the clocks in a column ascend."""
        self.head = first_after(self.data, column, self.base, self.head, self.tail, clock)


@kernel
def first_after(rows: Ints, column: int, base: int, begin: int, end: int, clock: int) -> int:
    """The first row after a clock, from `begin` on, where the clocks of a column ascend; mostly it is near."""
    step = 1
    while begin + step <= end and rows[begin + step - 1 - base, column] <= clock:
        begin += step
        step *= 2
    end = min(end, begin + step - 1)
    while begin < end:
        middle = (begin + end) // 2
        if rows[middle - base, column] <= clock:
            begin = middle + 1
        else:
            end = middle
    return begin


_CLOCK, _MOMENT, _TYPE = range(3)  # the columns that stand beside kept events


class Kept:
    """Events in time order, in chunks, with the clock of each (its time, or its number in the stream) beside it."""

    __slots__ = ("_chunks", "_codes", "_firsts", "_has_dictionaries", "_none", "_rows", "_sizes", "schema")

    def __init__(self, none: Events) -> None:
        self.schema, self._none = none.schema, none
        self._has_dictionaries = any(map(pat.is_dictionary, none.table.schema.types))
        self._chunks = [none.table]  # at least one, which tells the columns
        self._firsts = [0]  # the number of each chunk's first row
        self._sizes = [0]  # bytes of each chunk: to ask all of them at every step is a cost of the window
        self._rows = Growing(3)
        self._codes: dict[str, int] = {}  # of types

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def head(self) -> int:
        """The number of the first row."""
        return self._rows.head

    @property
    def clocks(self) -> Ints:
        return self._rows.live[:, _CLOCK].copy()

    @property
    def times(self) -> Ints:
        return self._rows.live[:, _MOMENT].copy()

    def append(self, events: Events, clocks: Ints) -> int:
        """Keep events that come after all others; the number of the first."""
        rows, first, size = self._rows, self._rows.tail, len(events)
        if not size:
            return first
        rows.reserve(size)
        new = rows.data[first - rows.base : first - rows.base + size]
        recoded = np.array([self._codes.setdefault(name, len(self._codes)) for name in events.type_names], np.int64)
        new[:, _CLOCK], new[:, _MOMENT], new[:, _TYPE] = clocks, events.times, recoded[events.types]
        rows.tail += size
        if not len(self._chunks[-1]):
            self._chunks.pop()
            self._firsts.pop()
            self._sizes.pop()
        self._chunks.append(events.table)
        self._firsts.append(first)
        self._sizes.append(int(events.table.nbytes))
        self._merge()
        return first

    def _merge(self) -> None:
        """Put the last chunks together where there are some of about a size, unless they are large beside all that is kept."""
        chunks = self._chunks
        while len(chunks) >= NEIGHBOURS and len(chunks[-NEIGHBOURS]) <= NEIGHBOURS * len(chunks[-1]):
            last = chunks[-NEIGHBOURS:]
            size = sum(map(len, last))
            if size > FREELY and (size > len(self) // 4 or sum(self._sizes[-NEIGHBOURS:]) > LARGE):
                return
            chunks[-NEIGHBOURS:] = [one_chunk(pa.concat_tables(last))]
            self._sizes[-NEIGHBOURS:] = [int(chunks[-1].nbytes)]
            del self._firsts[-NEIGHBOURS + 1 :]

    def drop_upto(self, clock: int, is_time: bool) -> None:
        """Forget the rows up to a clock, or up to a time."""
        rows = self._rows
        rows.head = first_after(rows.data, _MOMENT if is_time else _CLOCK, rows.base, rows.head, rows.tail, clock)
        n_dead = bisect_right(self._firsts, rows.head) - 1
        if n_dead > 0:
            del self._chunks[:n_dead], self._firsts[:n_dead], self._sizes[:n_dead]
        if not len(rows):
            self._chunks, self._firsts, self._sizes = [self._none.table], [rows.head], [0]

    def take(self, rows: Ints) -> Events:
        """The events of these rows, which ascend."""
        numbers = np.searchsorted(self._firsts, rows, "right") - 1
        cuts = [0, *(np.flatnonzero(numbers[1:] != numbers[:-1]) + 1).tolist(), len(rows)]
        pieces = []
        for begin, end in pairwise(cuts):
            chunk, first = self._chunks[numbers[begin]], self._firsts[numbers[begin]]
            # One row by itself is looked at where it stands: a few matches are mostly in as many chunks as they have events.
            alone = end == begin + 1
            pieces.append(chunk.slice(rows[begin] - first, 1) if alone else chunk.take(pa.array(rows[begin:end] - first)))
        return self._events(pieces, self._rows.data[rows - self._rows.base])

    def between(self, first: int, last: int) -> Events:
        """The events from one row to another, both included."""
        low, high = (bisect_right(self._firsts, row) - 1 for row in (first, last))
        pieces = self._chunks[low : high + 1]
        pieces[-1] = pieces[-1].slice(0, last + 1 - self._firsts[high])
        pieces[0] = pieces[0].slice(first - self._firsts[low])
        return self._events(pieces, self._rows.data[first - self._rows.base : last + 1 - self._rows.base])

    @property
    def events(self) -> Events:
        """All of them as one batch."""
        return self.between(self._rows.head, self._rows.tail - 1) if len(self) else self._none

    def _events(self, pieces: list[pa.Table], beside: Ints) -> Events:
        table = pieces[0] if len(pieces) == 1 else pa.concat_tables(pieces)
        if not self._has_dictionaries:  # of which each chunk has its own
            table = table.combine_chunks()
        return self._none.like(table, beside[:, _MOMENT].copy(), beside[:, _TYPE].astype(np.int32), tuple(self._codes))

    @property
    def n_bytes(self) -> int:
        return int(self._rows.data.nbytes) + sum(self._sizes)

    def check(self, batch: Events) -> None:
        """Refuse events that have other columns."""
        if batch.schema is not self.schema and batch.schema != self.schema:
            raise SchemaError(f"pieces of a stream differ in their columns: {self.schema} and {batch.schema}")
