"""What is remembered of a stream to be asked by what is new: events of a component or a partition, matches that may still grow.

Entries stand in the order in which they end, and each knows the one of its key before it, so a question walks back from the last
that ends before a moment and stops where the window begins. Without keys the walk begins at a binary search.

    entry      end  begin  before  rows
    e7          40     40      e4  [r12]           an event: it begins when it ends
    e8          45     31      e7  [r9, r14]       a match of two events

Cost: an append and a question cost constant time, with keys also the entries of that key that end too late to be asked for; a
join costs what it writes and, of matches, those that end in the window but began before it.
Invariant: ends ascend; an entry below the head is gone, and a walk that comes to one ends.
"""

from __future__ import annotations

import numpy as np

from seqube.engine.growing import Growing
from seqube.engine.jit import kernel
from seqube.engine.partitions import NOWHERE, KeyCodes
from seqube.engine.predicates import Ints, Mask
from seqube.engine.sequence import HIGHEST

_END, _BEGIN, _BEFORE, _ROWS = range(4)
_NO_KEYS = np.empty(0, np.int64)
_SLACK = 1 << 10  # entries that began before the window and are held in vain, before all are looked through


class Chained:
    """Entries of so many rows each, with keys of so many values."""

    __slots__ = ("_entries", "_latest", "_n_live", "keys")

    def __init__(self, n_rows: int, n_values: int) -> None:
        self._entries = Growing(_ROWS + n_rows)
        self.keys = KeyCodes([str(number) for number in range(n_values)], False) if n_values else None
        self._latest = _NO_KEYS  # of each key
        self._n_live = 0  # when all were last looked through

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def n_bytes(self) -> int:
        return self._entries.data.nbytes + self._latest.nbytes

    @property
    def n_codes(self) -> int:
        return 0 if self.keys is None else len(self.keys)

    def append(self, rows: Ints, begins: Ints, ends: Ints, codes: Ints | None) -> None:
        """More entries, a column of rows each; they ascend by their ends, and none is before those that are there."""
        entries = self._entries
        if codes is not None:
            known = codes != NOWHERE
            if not known.all():
                rows, begins, ends, codes = rows[:, known], begins[known], ends[known], codes[known]
            if self.n_codes > len(self._latest):
                grown = np.full(2 * self.n_codes, -1)
                grown[: len(self._latest)] = self._latest
                self._latest = grown
        size = len(ends)
        entries.reserve(size)
        new = entries.data[entries.tail - entries.base : entries.tail - entries.base + size]
        new[:, _END], new[:, _BEGIN], new[:, _ROWS:] = ends, begins, rows.T
        if codes is None:
            new[:, _BEFORE] = np.arange(entries.tail - 1, entries.tail - 1 + size)
        else:
            chain(new, entries.tail, codes, self._latest)
        entries.tail += size

    def find(self, codes: Ints | None, lows: Ints, highs: Ints, most: int = HIGHEST) -> tuple[Ints, Ints]:
        """For each question the last entry of its key that ends before `high`, and how many of those begin after `low`."""
        entries = self._entries
        asked, latest = (_NO_KEYS, _NO_KEYS) if codes is None else (codes, self._latest)
        return find_between(
            entries.data, entries.base, entries.head, entries.tail, codes is not None, latest, asked, lows, highs, most
        )

    def join(self, asking: Ints, lows: Ints, found: tuple[Ints, Ints], at: Ints, out: Ints) -> None:
        """Every question's rows with those of each entry that it found, which go to the rows `at` of `out`."""
        others = np.array([row for row in range(len(out)) if row not in at], np.int64)
        join_entries(np.ascontiguousarray(asking), lows, *found, self._entries.data, self._entries.base, others, at, out)

    def rows_at(self, numbers: Ints) -> Ints:
        """The first row of entries, by their numbers; -1 where there is none."""
        entries = self._entries
        there = (numbers >= entries.head) & (numbers < entries.tail)
        return np.where(there, entries.data[np.where(there, numbers, entries.head) - entries.base, _ROWS], -1)

    def drop(self, upto: int) -> None:
        """Forget what ends up to a time; what began up to it goes as soon as it is worth the work."""
        entries = self._entries
        entries.drop_upto(upto, _END)
        if len(entries) <= 2 * self._n_live + _SLACK:
            return
        chosen: Mask = entries.live[:, _BEGIN] > upto
        live = entries.live[chosen]
        self._n_live = len(live)
        if len(live) < len(entries):
            codes = None if self.keys is None else read_codes(entries.live, entries.head, self._latest)[chosen]
            self._entries, self._latest = Growing(entries.data.shape[1]), np.full(len(self._latest), -1)
            self.append(live[:, _ROWS:].T, live[:, _BEGIN], live[:, _END], codes)


@kernel
def chain(new: Ints, first: int, codes: Ints, latest: Ints) -> None:
    """Tell new entries, the first of which has this number, which one of their key is before them."""
    for i in range(len(codes)):
        new[i, _BEFORE] = latest[codes[i]]
        latest[codes[i]] = first + i


@kernel
def read_codes(entries: Ints, head: int, latest: Ints) -> Ints:
    """The key of every entry, by the chains that they are in."""
    codes = np.empty(len(entries), np.int64)
    for code in range(len(latest)):
        e = latest[code]
        while e >= head:
            codes[e - head] = code
            e = entries[e - head, _BEFORE]
    return codes


@kernel
def find_between(
    data: Ints,
    base: int,
    head: int,
    tail: int,
    has_keys: bool,
    latest: Ints,
    codes: Ints,
    lows: Ints,
    highs: Ints,
    most: int,
) -> tuple[Ints, Ints]:
    """The last entry of the key that ends before `high`, and how many, up to `most`, begin after `low`."""
    last, counts = np.empty(len(lows), np.int64), np.empty(len(lows), np.int64)
    for q in range(len(lows)):
        if has_keys:
            e = latest[codes[q]] if 0 <= codes[q] < len(latest) else -1
            while e >= head and data[e - base, _END] >= highs[q]:
                e = data[e - base, _BEFORE]
        else:
            begin, end = head, tail
            while begin < end:
                middle = (begin + end) // 2
                if data[middle - base, _END] < highs[q]:
                    begin = middle + 1
                else:
                    end = middle
            e = begin - 1
        last[q], count = e, 0
        while e >= head and count < most and data[e - base, _END] > lows[q]:
            if data[e - base, _BEGIN] > lows[q]:
                count += 1
            e = data[e - base, _BEFORE]
        counts[q] = count
    return last, counts


@kernel
def join_entries(
    asking: Ints, lows: Ints, last: Ints, counts: Ints, data: Ints, base: int, others: Ints, at: Ints, out: Ints
) -> None:
    """Write what `find_between` counted."""
    write = 0
    for q in range(len(lows)):
        e, left = last[q], counts[q]
        while left > 0:
            if data[e - base, _BEGIN] > lows[q]:
                for s in range(len(others)):
                    out[others[s], write] = asking[s, q]
                for s in range(len(at)):
                    out[at[s], write] = data[e - base, _ROWS + s]
                write += 1
                left -= 1
            e = data[e - base, _BEFORE]
