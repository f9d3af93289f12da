"""The events that a stream keeps, at the price of what is new: an event is a row of words, and stands in one place.

Rows are known by numbers that stay: row 0 is the first that ever came. Most columns are fixed in width, and the bits of a value are
a word of 64 bits; so an event is one row of a growing array, written once and found again with one look, however long the window
is. What has no fixed width (texts, lists, decimals) lies beside it, in chunks of Arrow tables. The type is a code, and the text
is made again when it is asked for.

    row     clock  time  type  nulls  price      id         chunks beside it, of texts
    r7         70    70     2      0  <bits>     17         [  ...  r7 r8 ][ r9 ]
    r8         75    75     0      2  <bits>  (null)

Small chunks of about a size are put together, `NEIGHBOURS` at a time, so that a stream that comes event by event is not kept as a
million tables; each row is copied a few times in all, as often as the window has digits (in base `NEIGHBOURS`).

Cost: constant per row, amortised; a gather costs its rows and, where there are texts, the chunks that they lie in.
Invariant: at most about twice of what lives is held: in an array, and in chunks, of which the first may be dead in part. What comes
out has the columns, types, values and nulls that went in.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pat

from seqube.engine.growing import Growing, first_after
from seqube.engine.jit import kernel
from seqube.engine.predicates import Ints
from seqube.errors import SchemaError
from seqube.events import Events
from seqube.events.schema import is_of
from seqube.events.sources import one_chunk

NEIGHBOURS = 32  # chunks of about a size before they are put together
FREELY = 1 << 12  # rows of a chunk that may be put together whatever is kept beside it
CLOSE_ROWS = 1 << 10  # rows that are taken as they stand, where those that are asked for lie between them
LARGE = 1 << 30  # bytes of a chunk that is not made larger

_CLOCK, _MOMENT, _TYPE, _NULLS = range(4)  # the words of every event; those of its values follow
_WORDS = 4
_MOST = 63  # values of an event that are words: each has a bit in _NULLS


@dataclass(frozen=True, slots=True)
class _Fixed:
    """A column whose values are words: where they stand, and as what they come out."""

    number: int
    word: int
    kind: pa.DataType
    bits: np.dtype[np.signedinteger]


class Kept:
    """Events in time order, with the clock of each (its time, or its number in the stream) beside it."""

    __slots__ = ("_chunks", "_codes", "_fixed", "_has_nulls", "_loose", "_none", "_rows", "_type_number", "schema")

    def __init__(self, none: Events) -> None:
        self.schema, self._none = none.schema, none
        columns = self.schema.columns
        self._type_number = -1  # of the column that is made of codes
        self._fixed: list[_Fixed] = []
        self._loose: list[int] = []
        for number, field in enumerate(columns):
            kind = field.type
            if field.name == self.schema.type_column and pat.is_string(kind):
                self._type_number = number
            elif field.name == self.schema.time_column and (pat.is_int64(kind) or (pat.is_timestamp(kind) and kind.unit == "us")):
                self._fixed.append(_Fixed(number, _MOMENT, kind, np.dtype(np.int64)))
            elif _is_fixed(kind) and len(self._fixed) < _MOST:
                bits = np.dtype(f"i{kind.bit_width // 8}")
                self._fixed.append(_Fixed(number, _WORDS + sum(each.word >= _WORDS for each in self._fixed), kind, bits))
            else:
                self._loose.append(number)
        self._rows = Growing(1 + max([_NULLS, *(each.word for each in self._fixed)]))
        self._chunks = _Chunks() if self._loose else None
        self._codes: dict[str, int] = {}  # of types
        self._has_nulls = False

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

    def append(self, events: Events, clocks: Ints, chosen: Ints | None = None) -> int:
        """Keep events that come after all others, all or those at the chosen places; the number of the first."""
        rows, first = self._rows, self._rows.tail
        size = len(events) if chosen is None else len(chosen)
        if not size:
            return first
        rows.reserve(size)
        new = rows.data[first - rows.base : first - rows.base + size]
        recoded = np.array([self._codes.setdefault(name, len(self._codes)) for name in events.type_names], np.int64)
        which = slice(None) if chosen is None else chosen
        new[:, _CLOCK], new[:, _MOMENT], new[:, _TYPE] = clocks[which], events.times[which], recoded[events.types[which]]
        new[:, _NULLS] = 0
        for fixed in self._fixed:
            if fixed.word != _MOMENT:
                column = events.table.column(fixed.number).chunk(0)
                new[:, fixed.word] = _bits(column, fixed.bits)[which]
                if column.null_count:
                    self._has_nulls = True
                    new[:, _NULLS] |= np.left_shift(np.asarray(column.is_null())[which].astype(np.int64), fixed.word - _WORDS)
        rows.tail += size
        if self._chunks is not None:
            loose = events.table.select(self._loose)
            self._chunks.append(loose if chosen is None else loose.take(pa.array(chosen)), first, len(rows))
        return first

    def drop_upto(self, clock: int, is_time: bool) -> None:
        """Forget the rows up to a clock, or up to a time."""
        rows = self._rows
        rows.head = first_after(rows.data, _MOMENT if is_time else _CLOCK, rows.base, rows.head, rows.tail, clock)
        if self._chunks is not None:
            self._chunks.drop_before(rows.head, rows.tail)

    def take(self, rows: Ints) -> Events:
        """The events of these rows, which ascend."""
        loose = None if self._chunks is None else self._chunks.take(rows)
        return self._events(gather_words(self._rows.data, rows, self._rows.base), loose)

    def columns(self, rows: Ints, has_types: bool) -> list[pa.Array | None]:
        """The columns of these rows, in any order; None in place of a text that is the type, unless it is asked for."""
        loose = None
        if self._chunks is not None:
            distinct, places = np.unique(rows, return_inverse=True)
            loose = self._chunks.take(distinct).take(pa.array(places))
        return self._arrays(gather_words(self._rows.data, rows, self._rows.base), loose, has_types)

    def between(self, first: int, last: int) -> Events:
        """The events from one row to another, both included."""
        loose = None if self._chunks is None else self._chunks.between(first, last)
        return self._events(self._rows.data[first - self._rows.base : last + 1 - self._rows.base].T.copy(), loose)

    def placed(self, rows: Ints) -> tuple[Events, Ints, Ints]:
        """The events of these rows, or of all between where they lie close together, and their numbers; and where each row stands.

        UNBOUND stays.
        """
        first, last = int(rows[0].min()), int(rows.max())
        if last - first < max(CLOSE_ROWS, 4 * rows.size):
            return self.between(first, last), np.arange(first, last + 1), np.where(rows < 0, rows, rows - first)
        distinct, places = np.unique(rows, return_inverse=True)
        n_unbound = int(np.searchsorted(distinct, 0))
        return self.take(distinct[n_unbound:]), distinct[n_unbound:], places.reshape(rows.shape) - n_unbound

    def clocks_of(self, rows: Ints) -> Ints:
        """The clocks of these rows, in any order."""
        clocks: Ints = self._rows.data[rows - self._rows.base, _CLOCK]
        return clocks

    def times_of(self, rows: Ints) -> Ints:
        """Their times."""
        times: Ints = self._rows.data[rows - self._rows.base, _MOMENT]
        return times

    def types_of(self, rows: Ints) -> Ints:
        """The codes of their types."""
        codes: Ints = self._rows.data[rows - self._rows.base, _TYPE]
        return codes

    def are_of(self, types: frozenset[str]) -> npt.NDArray[np.bool_]:
        """For every code of a type, whether it is one of these."""
        return np.array([is_of(name, types) for name in self._codes], np.bool_)

    @property
    def events(self) -> Events:
        """All of them as one batch."""
        return self.between(self._rows.head, self._rows.tail - 1) if len(self) else self._none

    def _events(self, words: Ints, loose: pa.Table | None) -> Events:
        """The events of words, a row of them for each column."""
        table = pa.Table.from_arrays(self._arrays(words, loose), schema=self.schema.columns)
        return self._none.like(table, words[_MOMENT], words[_TYPE].astype(np.int32), tuple(self._codes))

    def _arrays(self, words: Ints, loose: pa.Table | None, has_types: bool = True) -> list[pa.Array | None]:
        arrays = [None] * len(self.schema.columns)
        nulls = words[_NULLS] if self._has_nulls else None
        for fixed in self._fixed:
            arrays[fixed.number] = _array(fixed, words[fixed.word], nulls)
        if self._type_number >= 0 and has_types:
            arrays[self._type_number] = pa.array(list(self._codes), pa.string()).take(pa.array(words[_TYPE]))
        for number, column in zip(self._loose, () if loose is None else loose.columns, strict=True):
            arrays[number] = column.chunk(0)
        return arrays

    @property
    def n_bytes(self) -> int:
        return int(self._rows.data.nbytes) + (0 if self._chunks is None else self._chunks.n_bytes)

    def check(self, batch: Events) -> None:
        """Refuse events that have other columns."""
        if batch.schema is not self.schema and batch.schema != self.schema:
            raise SchemaError(f"pieces of a stream differ in their columns: {self.schema} and {batch.schema}")


def _is_fixed(kind: pa.DataType) -> bool:
    is_number = pat.is_integer(kind) or pat.is_floating(kind)
    return bool(is_number or pat.is_timestamp(kind) or pat.is_date(kind) or pat.is_time(kind) or pat.is_duration(kind))


def _bits(column: pa.Array, bits: np.dtype[np.signedinteger]) -> npt.NDArray[np.signedinteger]:
    """The values of a column as whole numbers with the same bits; any where it is null."""
    return np.frombuffer(column.buffers()[1], bits, len(column), column.offset * bits.itemsize)


def _array(fixed: _Fixed, words: Ints, nulls: Ints | None) -> pa.Array:
    """The column that words were made of."""
    valid = None
    if nulls is not None and fixed.word != _MOMENT:
        valid = pa.py_buffer(np.packbits((nulls >> (fixed.word - _WORDS)) & 1 == 0, bitorder="little"))
    values = words if fixed.bits.itemsize == words.itemsize else words.astype(fixed.bits)
    return pa.Array.from_buffers(fixed.kind, len(words), [valid, pa.py_buffer(values)])


@kernel
def gather_words(data: Ints, rows: Ints, base: int) -> Ints:
    """Rows of an array as columns."""
    out = np.empty((data.shape[1], len(rows)), np.int64)
    for i in range(len(rows)):
        for word in range(data.shape[1]):
            out[word, i] = data[rows[i] - base, word]
    return out


class _Chunks:
    """Columns of any type, in pieces of some rows each."""

    __slots__ = ("_firsts", "_pieces", "_sizes")

    def __init__(self) -> None:
        self._pieces: list[pa.Table] = []
        self._sizes: list[int] = []  # bytes of each piece: to ask all of them at every step is a cost of the window
        self._firsts: list[int] = []  # the number of each piece's first row

    def append(self, piece: pa.Table, first: int, n_kept: int) -> None:
        """Put the last pieces together where there are some of about a size, unless they are large beside all that is kept."""
        pieces = self._pieces
        pieces.append(piece)
        self._sizes.append(int(piece.nbytes))
        self._firsts.append(first)
        while len(pieces) >= NEIGHBOURS and len(pieces[-NEIGHBOURS]) <= NEIGHBOURS * len(pieces[-1]):
            last = pieces[-NEIGHBOURS:]
            size = sum(map(len, last))
            if size > FREELY and (size > n_kept // 4 or sum(self._sizes[-NEIGHBOURS:]) > LARGE):
                return
            pieces[-NEIGHBOURS:] = [one_chunk(pa.concat_tables(last))]
            self._sizes[-NEIGHBOURS:] = [int(pieces[-1].nbytes)]
            del self._firsts[-NEIGHBOURS + 1 :]

    def drop_before(self, head: int, tail: int) -> None:
        n_dead = len(self._pieces) if head == tail else bisect_right(self._firsts, head) - 1
        if n_dead > 0:
            del self._pieces[:n_dead], self._firsts[:n_dead], self._sizes[:n_dead]

    def take(self, rows: Ints) -> pa.Table:
        """These rows, which ascend."""
        numbers = np.searchsorted(self._firsts, rows, "right") - 1
        cuts = [0, *(np.flatnonzero(numbers[1:] != numbers[:-1]) + 1).tolist(), len(rows)]
        found = []
        for begin, end in pairwise(cuts):
            piece, first = self._pieces[numbers[begin]], self._firsts[numbers[begin]]
            # One row by itself is looked at where it stands: a few matches are mostly in as many pieces as they have events.
            alone = end == begin + 1
            found.append(piece.slice(rows[begin] - first, 1) if alone else piece.take(pa.array(rows[begin:end] - first)))
        return one_chunk(pa.concat_tables(found))

    def between(self, first: int, last: int) -> pa.Table:
        low, high = (bisect_right(self._firsts, row) - 1 for row in (first, last))
        found = self._pieces[low : high + 1]
        found[-1] = found[-1].slice(0, last + 1 - self._firsts[high])
        found[0] = found[0].slice(first - self._firsts[low])
        return one_chunk(pa.concat_tables(found))

    @property
    def n_bytes(self) -> int:
        return sum(self._sizes)
