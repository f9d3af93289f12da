"""Rows that a stream keeps, at the price of what is new: appended at one end, dropped at the other, and never copied at a step.

Rows are known by numbers that stay: row 0 is the first that ever came. A row is dropped by moving the head; its memory is given
back when the array is full, and what lives moves to its front, or to the front of one of half as much again.

    dropped        live           room
    . . . . . . | r7 r8 r9 r10 | . . . .        data[r7 - base] is row r7
    base         head           tail

Cost: constant per row, amortised.
Invariant: at most about twice of what lives is held when it moves.
"""

from __future__ import annotations

import numpy as np

from seqube.engine.jit import kernel
from seqube.engine.predicates import Ints

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
        live, needed = len(self), len(self) + more
        if needed <= 3 * len(self.data) // 4 <= 3 * needed // 2:
            to_front(self.data, self.head - self.base, live)  # into pages that are there: fresh ones cost more than the rows
        else:
            data = np.empty((max(ROOM, 3 * needed // 2), self.data.shape[1]), np.int64)
            data[:live] = self.live
            self.data = data
        self.base = self.head

    def drop_upto(self, clock: int, column: int) -> None:
        """Drop the rows up to a clock, where the clocks in a column ascend."""
        self.head = first_after(self.data, column, self.base, self.head, self.tail, clock)


@kernel
def to_front(rows: Ints, begin: int, count: int) -> None:
    """Move so many rows from a place on to the front."""
    for row in range(count):
        rows[row] = rows[begin + row]


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
