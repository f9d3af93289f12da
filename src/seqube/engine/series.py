"""Many ascending series side by side, one per code, that grow at their end and are forgotten at their front.

A series is a stretch of one pool of values. New values are appended in place; where a stretch is full, what fell out of the window
(values before a floor) leaves it, and what remains moves to a longer stretch if it still fills more than half of this one. When the
pool is full, or as many values came as it holds, all stretches close ranks in a new pool. Searches see plain ascending arrays.

    pool   3 5 8 _ | 1 2 4 4 9 _ _ | 7 _        series 0: 3 5 8, series 1: 1 2 4 4 9, series 2: 7
           begins   begins+ends     stops

Codes are numbers from 0 on, each with a series of its own from the start, or any 64-bit integers, which get a number when they are
first seen (`CodeNumbers`, a hash table) and lose it when the series has run dry.

Cost: a copy per value, amortised. Memory: at most about four times what is inside the window.
Invariant: a series ascends in its first column; values before the floor may still stand at its front, and matter to nobody.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from seqube.engine.jit import kernel
from seqube.engine.predicates import Ints

_SPREAD = np.uint64(0x9E3779B97F4A7C15)  # 2**64 by the golden ratio: neighbouring codes end up far apart
_LEAST = 1024  # values that a pool has room for at least


# ---------------------------------------------------------------- codes


class NumberTable(NamedTuple):
    """Codes by number, and a hash table of the numbers; without one, every code is its own number."""

    codes: Ints
    slots: Ints  # a power of two; -1 where there is none


@kernel
def number_of(table: NumberTable, code: int) -> int:
    """The number of a code, or -1."""
    if table.slots.size == 0:
        return code
    mask = table.slots.size - 1
    at = np.int64((np.uint64(code) * _SPREAD) >> np.uint64(20)) & mask
    while table.slots[at] >= 0:
        if table.codes[table.slots[at]] == code:
            return int(table.slots[at])
        at = (at + 1) & mask
    return -1


@kernel
def _number_all(table: NumberTable, count: int, codes: Ints, numbers: Ints) -> int:
    """The numbers of codes, new ones where they have none; how many there are then. There is room."""
    mask = table.slots.size - 1
    for i in range(codes.size):
        at = np.int64((np.uint64(codes[i]) * _SPREAD) >> np.uint64(20)) & mask
        while table.slots[at] >= 0 and table.codes[table.slots[at]] != codes[i]:
            at = (at + 1) & mask
        if table.slots[at] < 0:
            table.slots[at] = count
            table.codes[count] = codes[i]
            count += 1
        numbers[i] = table.slots[at]
    return count


class CodeNumbers:
    """Dense numbers for codes, given as they come; `n_fixed` codes from 0 on may have their own number for good instead."""

    def __init__(self, n_fixed: int | None = None) -> None:
        self._is_fixed = n_fixed is not None
        self.count = n_fixed or 0
        empty = np.empty(0, np.int64)
        self.table = NumberTable(empty, empty if self._is_fixed else np.full(16, -1, np.int64))

    @property
    def codes(self) -> Ints:
        """The codes, by number."""
        return np.arange(self.count) if self._is_fixed else self.table.codes[: self.count]

    def number(self, codes: Ints) -> Ints:
        """The numbers of codes; those not seen before get the next ones."""
        if self._is_fixed:
            return codes
        most = self.count + len(codes)
        if most > len(self.table.codes):
            known = np.empty(2 * most, np.int64)
            known[: self.count] = self.codes
            self.table = NumberTable(known, np.full(1 << (4 * most).bit_length(), -1, np.int64))
            _number_all(self.table, 0, known[: self.count].copy(), np.empty(self.count, np.int64))
        numbers = np.empty(len(codes), np.int64)
        self.count = _number_all(self.table, self.count, np.ascontiguousarray(codes, np.int64), numbers)
        return numbers


# ---------------------------------------------------------------- values


class Stretches(NamedTuple):
    """Where each series lies in the pool. Series s is `values[:, begins[s] .. ends[s]]`, with room from bases[s] to stops[s]."""

    bases: Ints
    begins: Ints
    ends: Ints
    stops: Ints
    values: Ints  # (columns, pool)


@kernel
def _extend(at: Stretches, top: int, first: int, numbers: Ints, starts: Ints, columns: Ints, floor: int) -> tuple[int, int]:
    """Append group after group from `first` on, as far as there is room: the next group, and how much of the pool is used."""
    for g in range(first, numbers.size):
        s = numbers[g]
        n_new = starts[g + 1] - starts[g]
        if at.ends[s] + n_new > at.stops[s]:
            begin = at.begins[s]
            while begin < at.ends[s] and at.values[0, begin] < floor:
                begin += 1
            n_live = at.ends[s] - begin
            to, room = at.bases[s], at.stops[s] - at.bases[s]
            if 2 * (n_live + n_new) > room:
                to, room = top, 2 * (n_live + n_new) + 2
                if top + room > at.values.shape[1]:
                    return g, top
                top += room
            for c in range(at.values.shape[0]):
                for i in range(n_live):
                    at.values[c, to + i] = at.values[c, begin + i]
            at.bases[s], at.begins[s], at.ends[s], at.stops[s] = to, to, to + n_live, to + room
        for c in range(at.values.shape[0]):
            for i in range(n_new):
                at.values[c, at.ends[s] + i] = columns[c, starts[g] + i]
        at.ends[s] += n_new
    return numbers.size, top


@kernel
def _trim(at: Stretches, floor: int) -> None:
    """Move all fronts to the first value that is not before the floor."""
    for s in range(at.begins.size):
        low, high = at.begins[s], at.ends[s]
        while low < high:
            middle = (low + high) // 2
            if at.values[0, middle] < floor:
                low = middle + 1
            else:
                high = middle
        at.begins[s] = low


@kernel
def _close_ranks(at: Stretches, chosen: Ints, target: Stretches) -> None:
    """Copy the chosen series into another pool, each with as much room again."""
    top = 0
    for number in range(chosen.size):
        s = chosen[number]
        size = at.ends[s] - at.begins[s]
        for c in range(at.values.shape[0]):
            for i in range(size):
                target.values[c, top + i] = at.values[c, at.begins[s] + i]
        target.bases[number], target.begins[number] = top, top
        target.ends[number], target.stops[number] = top + size, top + 2 * size
        top += 2 * size


class SeriesPool:
    """Series of values in one or more columns; the first ascends. `numbering` gives a series to every code."""

    def __init__(self, n_columns: int = 1, n_fixed: int | None = None) -> None:
        self.numbering = CodeNumbers(n_fixed)
        none = np.zeros(n_fixed or 0, np.int64)
        self.stretches = Stretches(none, none.copy(), none.copy(), none.copy(), np.empty((n_columns, _LEAST), np.int64))
        self._top = 0
        self._since = 0  # values that came since ranks were closed

    def extend(self, codes: Ints, starts: Ints, columns: Ints, floor: int) -> None:
        """Append `columns[:, starts[g] .. starts[g + 1]]` to the series of `codes[g]`; what is before the floor may go."""
        numbers = self.numbering.number(codes)
        self._make_series()
        done = 0
        while True:
            done, self._top = _extend(self.stretches, self._top, done, numbers, starts, columns, floor)
            if done == len(codes):
                break
            self._close_ranks(floor, int(starts[-1] - starts[done]))
            numbers = self.numbering.number(codes)
            self._make_series()
        self._since += columns.shape[1]
        if self._since > self.stretches.values.shape[1]:
            self._close_ranks(floor, 0)

    def _make_series(self) -> None:
        """Empty series for the codes that are new; room for twice as many."""
        at, count = self.stretches, self.numbering.count
        if count > len(at.begins):
            more = np.zeros(2 * count - len(at.begins), np.int64)
            bases, begins, ends, stops = (np.concatenate((part, more)) for part in at[:-1])
            self.stretches = Stretches(bases, begins, ends, stops, at.values)

    def _close_ranks(self, floor: int, n_new: int) -> None:
        """A new pool, with twice the room for what is inside the window and what is to come now."""
        at = self.stretches
        _trim(at, floor)
        count = self.numbering.count
        sizes = (at.ends - at.begins)[:count]
        chosen = np.arange(count)
        if self.numbering.table.slots.size:
            chosen = np.flatnonzero(sizes)
            codes, self.numbering = self.numbering.codes[chosen], CodeNumbers()
            self.numbering.number(codes)
        room = 4 * int(sizes.sum()) + 4 * n_new + 2 * len(chosen) + _LEAST
        bases, begins, ends, stops = np.zeros((4, len(chosen)), np.int64)
        self.stretches = Stretches(bases, begins, ends, stops, np.empty((at.values.shape[0], room), np.int64))
        _close_ranks(at, chosen, self.stretches)
        self._top, self._since = 2 * int(sizes.sum()), 0

    def contents(self, floor: int) -> tuple[Ints, Ints]:
        """What is not before the floor: the code of each value, and the columns; series after series."""
        at = self.stretches
        _trim(at, floor)
        sizes = (at.ends - at.begins)[: self.numbering.count]
        places = np.repeat(at.begins[: len(sizes)] - (np.cumsum(sizes) - sizes), sizes) + np.arange(int(sizes.sum()))
        return np.repeat(self.numbering.codes, sizes), at.values[:, places]

    @property
    def n_values(self) -> int:
        """How many values there are, those included that were not forgotten yet."""
        return int((self.stretches.ends - self.stretches.begins).sum())

    @property
    def n_bytes(self) -> int:
        return sum(part.nbytes for part in (*self.stretches, *self.numbering.table))
