"""Partitions of a stream: every key has a code that stays, and every event a number in its partition.

A stream comes in batches, and a step may cost what is new. So keys are not coded anew with all that is kept: `KeyCodes` goes on
where the batch before ended. A key that was met has its code, a new one gets the next, and `keep` forgets those that nothing needs
any more. `Partitions` counts the events of each key beside it; `number_events` does so for events that are at hand as a whole.

Keys are equal where their values are, exactly, whatever Arrow type they come in: a value is a tag and a word of 64 bits. Whole
numbers, times and truth values are their own word, and so is a double or a decimal that is a whole number; other doubles are their
bits; texts, other decimals and larger numbers are numbered by their bytes.

    keys   7  x   7  8      next batch:   8  9  7
    codes  0  -1  0  1                    1  2  0      x: null, in no partition
    number 0  -1  1  0                    1  0  2

The table of words has the hash of a key beside its code. So one look finds a key, as long as the hash is the key itself, mixed (one
column of whole numbers); else a second one sees whether it really is that key.

Cost: the rows of a batch, in expectation (two open-addressing tables, one of words and one of bytes), whatever is known already.
Memory: some 50 bytes for every column of a key and its value, doubled where it grows.
Invariant: codes are dense, in the order in which keys were first met; `KeyCodes.of(codes.table)` has the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from seqube.engine.jit import kernel, kernel_part
from seqube.engine.predicates import Ints, normalise, shown
from seqube.errors import DataError
from seqube.events import Events

NOWHERE = -1  # the code of a key that is null, and the number of an event in no partition

NONE_KNOWN = np.empty(0, np.int64)

_NULL, _WHOLE, _DOUBLE, _TEXT, _EXACT = -1, 0, 1, 2, 3  # what a word says; the last two number texts
_EVENTS = "#events"  # the column of counts beside those of keys
_ROWS = 1 << 16  # coded at once: what is reserved for new keys stays small beside a long batch
_LAST = str(np.iinfo(np.int64).min), str(np.iinfo(np.int64).max)  # texts of one length are ordered like the numbers they show

_Tags = npt.NDArray[np.int8]
_Bytes = npt.NDArray[np.uint8]


def number_events(codes: Ints | None, size: int, known: Ints = NONE_KNOWN) -> Ints:
    """The number of every event in its partition, NOWHERE without one.

    Those of the first events may be known: what is kept of a partition is its last events, without a hole.
    """
    if codes is None:
        return np.arange(size, dtype=np.int64) + (known[0] if len(known) else 0)
    counts = np.zeros(int(codes.max(initial=NOWHERE)) + 2, np.int64)  # the last one is of no partition
    counts[codes[: len(known)][::-1]] = known[::-1]
    return count_on(codes, counts)


@kernel
def count_on(codes: Ints, counts: Ints) -> Ints:
    """The number of every event in its partition, which has had `counts` events; these go on counting."""
    numbers = np.empty(len(codes), np.int64)
    for i in range(len(codes)):
        if codes[i] < 0:
            numbers[i] = -1
        else:
            numbers[i] = counts[codes[i]]
            counts[codes[i]] += 1
    return numbers


# ---------------------------------------------------------------- keys


class KeyCodes:
    """Codes of keys, for a whole stream: `code` batch after batch."""

    def __init__(self, names: Sequence[str], has_values: bool = True) -> None:
        self.names = tuple(names)
        self._has_values = has_values  # whether the keys themselves are kept, for `table` and `keep`
        self._texts = [_Texts() for _ in names]
        self._seen: list[set[int]] = [set() for _ in names]  # the tags of each column
        self._table = _words(len(names), 0)
        self._is_plain = len(self.names) == 1  # one column, of which every value so far was a whole number
        self._n = 0
        self._values: list[pa.Table] = []  # the keys in order of their codes, in pieces, each at least twice as long as the next

    @staticmethod
    def of(table: pa.Table) -> KeyCodes:
        """Those that the rows of a table are the keys of, in their order."""
        known = KeyCodes(table.column_names)
        if known.names:
            known.code([column.combine_chunks() for column in table.columns])
        assert len(known) == len(table), "keys in a state stand once"
        return known

    def __len__(self) -> int:
        return self._n

    @property
    def table(self) -> pa.Table:
        """The keys in order of their codes, as a result would show them."""
        if not self._values:
            return pa.table([pa.nulls(0) for _ in self.names], names=self.names)
        return _one_table(self._values)

    def values(self, codes: Ints) -> list[pa.Array]:
        """The keys of these codes, a column for each name; costs these, whatever is known beside them."""
        if not self._values:
            return [pa.nulls(0) for _ in self.names]
        pieces = pa.concat_tables(self._values, promote_options="permissive").take(pa.array(codes))
        return [column.combine_chunks() for column in pieces.columns]

    def code(self, columns: Sequence[pa.Array]) -> Ints:
        """The code of every row's key, a new one for a new key; NOWHERE where a column is null."""
        size = len(columns[0])
        tags, words = np.empty((len(columns), size), np.int8), np.empty((len(columns), size), np.int64)
        for k, column in enumerate(columns):
            self._write(k, column, tags[k], words[k])
        codes, known = np.empty(size, np.int64), self._n
        firsts = []
        for start in range(0, size, _ROWS):
            part = slice(start, start + _ROWS)
            self._reserve(min(_ROWS, size - start))
            found = np.empty(min(_ROWS, size - start), np.int64)
            n_before, self._n = self._n, self._coded(tags[:, part], words[:, part], codes[part], found)
            firsts.append(found[: self._n - n_before] + start)
        if self._n > known and self._has_values:
            rows = pa.array(np.concatenate(firsts))
            self._values.append(pa.table([shown(column.take(rows)) for column in columns], names=self.names))
            while len(self._values) > 1 and len(self._values[-2]) < 2 * len(self._values[-1]):
                self._values[-2:] = [_one_table(self._values[-2:])]
        return codes

    def code_whole(self, words: Ints) -> Ints:
        """The same for keys without values whose columns, a row of `words` each, are whole numbers without a null."""
        size = words.shape[1]
        self._reserve(size)
        codes = np.empty(size, np.int64)
        self._n = self._coded(np.zeros(words.shape, np.int8), words, codes, np.empty(size, np.int64))
        return codes

    def _coded(self, tags: _Tags, words: Ints, codes: Ints, firsts: Ints) -> int:
        return code_words(tags, words, *self._table, self._is_plain, self._n, codes, firsts)

    def keep(self, codes: Ints) -> Ints:
        """Forget all other keys. Gives the new code of every old one, NOWHERE of those forgotten; they keep their order."""
        chosen = np.zeros(self._n, np.bool_)
        chosen[codes] = True
        table = self.table.filter(pa.array(chosen))
        self.__dict__.update(KeyCodes.of(table).__dict__)
        return np.where(chosen, np.cumsum(chosen) - 1, NOWHERE)

    def _reserve(self, more: int) -> None:
        if self._n + more > self._table.words.shape[1]:
            grown = _words(len(self.names), 2 * (self._n + more))
            grown.tags[:, : self._n], grown.words[:, : self._n] = self._table.tags[:, : self._n], self._table.words[:, : self._n]
            place_words(self._table.places, grown.places)
            self._table = grown

    def _write(self, k: int, column: pa.Array, tags: _Tags, words: Ints) -> None:
        """The values of a column of the key as tags and words."""
        column = normalise(column, self.names[k])
        kind = column.type
        if pat.is_null(kind):
            tags[:] = _NULL
            return
        if pat.is_floating(kind):
            split_doubles(np.asarray(column.fill_null(0.0)), tags, words)
        elif pat.is_decimal(kind) or pat.is_uint64(kind):
            self._write_exact(k, column, tags, words)
        elif pat.is_primitive(kind):
            tags[:] = _WHOLE
            whole = column.cast(pa.int64())
            words[:] = np.asarray(whole.fill_null(0) if column.null_count else whole)
        else:
            tags[:] = _TEXT
            self._texts[k].number(self._as_bytes(k, column), words)
        if column.null_count:
            tags[np.asarray(column.is_null())] = _NULL
        self._check(k, tags)

    def _write_exact(self, k: int, column: pa.Array, tags: _Tags, words: Ints) -> None:
        """Decimals and unsigned numbers: whole ones of 64 bits as such, others by their digits."""
        digits, fits = _digits(column)
        whole = np.asarray(fits).astype(np.bool_)
        tags[:] = np.where(whole, _WHOLE, _EXACT)
        words[whole] = np.asarray(digits.filter(fits).cast(pa.int64()))
        numbers = np.empty(int((~whole).sum()), np.int64)
        self._texts[k].number(digits.filter(pc.invert(fits)).cast(pa.binary()), numbers)
        words[~whole] = numbers

    def _as_bytes(self, k: int, column: pa.Array) -> pa.Array:
        try:
            return column.cast(pa.binary())
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
            raise DataError(
                f"column {self.names[k]!r} is a key, and values of type {column.type} cannot be told apart as keys\n"
                "  hint: make it a number, a text or a time"
            ) from None

    def _check(self, k: int, tags: _Tags) -> None:
        """Doubles and decimals that are no whole numbers are not compared: refused, where a column has both."""
        if tags.max(initial=_NULL) > _WHOLE:
            self._is_plain = False
            seen = self._seen[k]
            seen.update(np.unique(tags).tolist())
            if _DOUBLE in seen and _EXACT in seen:
                raise DataError(
                    f"column {self.names[k]!r} is a key and came as doubles in one batch, "
                    "as decimals or numbers beyond 64 bits in another\n"
                    "  hint: cast it to one type"
                )


def _one_table(pieces: list[pa.Table]) -> pa.Table:
    """Pieces whose columns may come in different types as one table."""
    for name in pieces[0].column_names:
        kinds = {piece.schema.field(name).type for piece in pieces}
        exact = any(pat.is_decimal(kind) or pat.is_uint64(kind) for kind in kinds) and not any(map(pat.is_floating, kinds))
        if exact and len(kinds) > 1:  # Arrow finds no type that holds both
            wide = pa.decimal256(76, max(getattr(kind, "scale", 0) for kind in kinds))
            at = pieces[0].column_names.index(name)
            pieces = [piece.set_column(at, name, piece.column(at).cast(wide)) for piece in pieces]
    return pa.concat_tables(pieces, promote_options="permissive").combine_chunks()


def _digits(column: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Numbers as texts that are equal where they are, and which of them are whole numbers of 64 bits; null is 0."""
    if pat.is_decimal(column.type) and column.type.scale < 0:
        column = column.cast(pa.decimal256(76, 0))
    texts = column.cast(pa.string()).fill_null("0")
    # 1.50 and 1.500, 1.5E-9 and 1.50E-9 are the same: the zeros at the end of the fraction go.
    parts = pc.extract_regex(texts, r"^(?P<whole>-?\d+)(?:\.(?P<fraction>\d*?)0*)?(?P<exponent>E.*)?$")
    whole, fraction, exponent = parts.flatten()
    zero = pc.and_(pc.equal(whole, "0"), pc.equal(fraction, ""))  # 0E-12 too
    is_whole = pc.or_(zero, pc.and_(pc.equal(fraction, ""), pc.equal(exponent, "")))
    size = pc.binary_length(whole)
    last = pc.if_else(pc.starts_with(whole, "-"), *_LAST)
    longest = pc.binary_length(last)
    fits = pc.or_(pc.less(size, longest), pc.and_(pc.equal(size, longest), pc.less_equal(whole, last)))
    fits = pc.and_(is_whole, fits)
    return pc.if_else(is_whole, whole, pc.binary_join_element_wise(whole, ".", fraction, exponent, "")), fits


class _Words(NamedTuple):
    """Keys as tags and words, a column for each, and an open-addressing table of their hashes and codes."""

    tags: _Tags
    words: Ints
    places: Ints


def _words(n_columns: int, size: int) -> _Words:
    places = np.full((_table_size(size), 2), NOWHERE, np.int64)
    return _Words(np.empty((n_columns, size), np.int8), np.empty((n_columns, size), np.int64), places)


def _table_size(size: int) -> int:
    return 1 << max(3, (2 * size).bit_length())  # a power of two, at most half full


@kernel_part
def mixed(value: Any) -> Any:
    """A hash of 64 bits, all of which depend on all bits of the value."""
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


@kernel_part
def hash_words(tags: _Tags, words: Ints, row: int) -> np.int64:
    """A hash of a key; different ones of different keys, where these are one column of whole numbers."""
    value = np.uint64(0)
    for k in range(len(words)):
        value = mixed(value + np.uint64(words[k, row]) + np.uint64(tags[k, row]))
    return np.int64(value)


@kernel
def code_words(
    tags: _Tags,
    words: Ints,
    known_tags: _Tags,
    known_words: Ints,
    places: Ints,
    is_plain: bool,
    n_known: int,
    codes: Ints,
    firsts: Ints,
) -> int:
    """The codes of these keys, and the rows where new ones were first met; how many are known then."""
    n, last = n_known, len(places) - 1
    for i in range(len(codes)):
        usable = True
        for k in range(len(words)):
            if tags[k, i] < 0:
                usable = False
        if not usable:
            codes[i] = -1
            continue
        value = hash_words(tags, words, i)
        at = value & last
        while True:
            code = places[at, 1]
            if code < 0:
                for k in range(len(words)):
                    known_tags[k, n], known_words[k, n] = tags[k, i], words[k, i]
                places[at, 0], places[at, 1] = value, n
                codes[i] = n
                firsts[n - n_known] = i
                n += 1
                break
            equal = places[at, 0] == value
            if equal and not is_plain:
                for k in range(len(words)):
                    if known_words[k, code] != words[k, i] or known_tags[k, code] != tags[k, i]:
                        equal = False
            if equal:
                codes[i] = code
                break
            at = (at + 1) & last
    return n


@kernel
def place_words(known: Ints, places: Ints) -> None:
    """Put the keys of a table into a larger one that is empty."""
    last = len(places) - 1
    for i in range(len(known)):
        if known[i, 1] >= 0:
            at = known[i, 0] & last
            while places[at, 1] >= 0:
                at = (at + 1) & last
            places[at, 0], places[at, 1] = known[i, 0], known[i, 1]


@kernel
def split_doubles(values: Any, tags: _Tags, words: Ints) -> None:
    """Doubles as whole numbers where they are, else as their bits."""
    bits = values.view(np.int64)
    for i in range(len(values)):
        value = values[i]
        if -9223372036854775808.0 <= value < 9223372036854775808.0 and np.floor(value) == value:
            tags[i], words[i] = 0, np.int64(value)
        else:
            tags[i], words[i] = 1, bits[i]


# ---------------------------------------------------------------- texts


class _Texts:
    """Texts numbered in the order in which they are met."""

    def __init__(self) -> None:
        self._n = 0
        self._ends = np.zeros(1, np.int64)  # text i lies in _ends[i] .. _ends[i + 1]
        self._bytes = np.empty(0, np.uint8)
        self._places = np.full(_table_size(0), NOWHERE, np.int64)

    def number(self, texts: pa.Array, out: Ints) -> None:
        """The number of every text; any where it is null."""
        _, offsets, data = texts.buffers()
        ends = np.frombuffer(offsets, np.int32, len(texts) + 1, 4 * texts.offset) if len(texts) else np.zeros(1, np.int32)
        content = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
        for start in range(0, len(texts), _ROWS):
            part = ends[start : start + _ROWS + 1]
            self._reserve(len(part) - 1, int(part[-1] - part[0]))
            self._n = number_texts(part, content, self._ends, self._bytes, self._places, self._n, out[start : start + _ROWS])

    def _reserve(self, more: int, n_bytes: int) -> None:
        if self._n + more >= len(self._ends):
            self._ends = np.concatenate((self._ends[: self._n + 1], np.empty(self._n + 2 * more, np.int64)))
            self._places = np.full(_table_size(len(self._ends)), NOWHERE, np.int64)
            place_texts(self._ends, self._bytes, self._places, self._n)
        used = int(self._ends[self._n])
        if used + n_bytes > len(self._bytes):
            self._bytes = np.concatenate((self._bytes[:used], np.empty(used + 2 * n_bytes, np.uint8)))


@kernel_part
def hash_bytes(data: _Bytes, start: int, end: int) -> Any:
    value = np.uint64(14695981039346656037)
    for at in range(start, end):
        value = (value ^ np.uint64(data[at])) * np.uint64(1099511628211)
    return mixed(value)


@kernel
def number_texts(ends: Any, data: _Bytes, known_ends: Ints, known: _Bytes, places: Ints, n_known: int, out: Ints) -> int:
    """The numbers of texts, of which new ones are added; how many there are then."""
    n = n_known
    for i in range(len(out)):
        start, size = ends[i], ends[i + 1] - ends[i]
        at = np.int64(hash_bytes(data, start, start + size) & np.uint64(len(places) - 1))
        while True:
            number = places[at]
            if number < 0:
                begin = known_ends[n]
                for k in range(size):
                    known[begin + k] = data[start + k]
                known_ends[n + 1] = begin + size
                places[at] = out[i] = n
                n += 1
                break
            begin = known_ends[number]
            if known_ends[number + 1] - begin == size:
                same = 0
                while same < size and known[begin + same] == data[start + same]:
                    same += 1
                if same == size:
                    out[i] = number
                    break
            at = (at + 1) & (len(places) - 1)
    return n


@kernel
def place_texts(ends: Ints, data: _Bytes, places: Ints, n: int) -> None:
    for number in range(n):
        at = np.int64(hash_bytes(data, ends[number], ends[number + 1]) & np.uint64(len(places) - 1))
        while places[at] >= 0:
            at = (at + 1) & (len(places) - 1)
        places[at] = number


# ---------------------------------------------------------------- events


class Partitions:
    """The partitions of a stream and how many events each had; without names, the stream is one."""

    def __init__(self, names: Sequence[str] = ()) -> None:
        self.keys = KeyCodes(names)
        self.counts = np.zeros(0 if names else 1, np.int64)  # for every code, and some to grow

    @staticmethod
    def of(table: pa.Table) -> Partitions:
        """Those that `table` was given for."""
        names = [name for name in table.column_names if name != _EVENTS]
        known = Partitions(names)
        if names:
            known.keys = KeyCodes.of(table.select(names))
        known.counts = table.column(_EVENTS).to_numpy().copy()
        return known

    @property
    def table(self) -> pa.Table:
        """The keys in order of their codes, and how many events each has."""
        keys = self.keys.table
        columns = {name: keys.column(name) for name in keys.column_names}
        return pa.table({**columns, _EVENTS: pa.array(self.counts[: len(keys) if columns else 1])})

    def code(self, batch: Events) -> Ints:
        """The partition of every event."""
        if not self.keys.names:
            return np.zeros(len(batch), np.int64)
        codes = self.keys.code([batch.column(name) for name in self.keys.names])
        if len(self.keys) > len(self.counts):
            self.counts = np.concatenate((self.counts, np.zeros(2 * len(self.keys) - len(self.counts), np.int64)))
        return codes

    def number(self, codes: Ints) -> Ints:
        """The number of every event in its partition; they are counted."""
        return count_on(codes, self.counts)

    def keep(self, codes: Ints) -> Ints:
        """Forget all other partitions; what `KeyCodes.keep` gives. One that comes back begins anew."""
        renumbered = self.keys.keep(codes)
        kept = renumbered >= 0
        self.counts = self.counts[: len(kept)][kept]
        return renumbered
