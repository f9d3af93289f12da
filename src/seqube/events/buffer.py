"""Events of a stream that are kept for a while, in the order in which they came.

Pieces are appended, and events leave by their time. Small pieces are put together by and by, many at once, so that an event that
came alone is copied a few times and never costs an object of its own for long.

    append      [ .... ][ .. ][.][.][.]  <-
    take(t)      the events up to t leave, in time order, ties as they came
    forget(t)    the events up to t leave for good

Cost: an event is copied once for every factor of `FAN` in the number of pieces, and once when it leaves.
Invariant: the memory held is that of the events inside and of at most as many that have left.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from seqube.events.batch import Events

FAN = 64  # pieces that are put together at once
LARGE_PIECE = 4096  # events of a piece that stays as it is


class EventBuffer:
    """Holds events. `len(buffer)` is their number."""

    def __init__(self) -> None:
        self._pieces: list[Events] = []
        self._heads: list[int] = []  # rows of each piece that have left already
        self._ranks: list[int] = []  # how often a piece was put together; large ones have none
        self._first: list[int] = []  # the time of the first row that is still there
        self._n = 0

    def __len__(self) -> int:
        return self._n

    @property
    def n_bytes(self) -> int:
        return sum(piece.table.nbytes for piece in self._pieces)

    def append(self, piece: Events) -> None:
        if not len(piece):
            return
        self._put(piece, 0 if len(piece) < LARGE_PIECE else -1)
        while len(self._ranks) >= FAN and self._ranks[-1] >= 0 and self._ranks[-FAN:] == [self._ranks[-1]] * FAN:
            rank, last = self._ranks[-1] + 1, range(len(self._pieces) - FAN, len(self._pieces))
            piece = Events.concat([self._rest(number) for number in last])
            self._drop(list(last))
            self._n -= len(piece)
            self._put(piece, rank if len(piece) < LARGE_PIECE else -1)

    def all(self) -> Events | None:
        """Every event in time order, ties as they came; None where there is none."""
        rests = [self._rest(number) for number in range(len(self._pieces))]
        return Events.concat(rests) if rests else None

    def take(self, upto: int) -> Events | None:
        """Take out the events up to a time; None where there is none."""
        if not self._first or min(self._first) > upto:
            return None
        taken, empty = [], []
        for number, first in enumerate(self._first):
            if first <= upto:
                piece, head = self._pieces[number], self._heads[number]
                stop = _place_after(piece, upto)
                taken.append(piece if (head, stop) == (0, len(piece)) else piece.slice(head, stop))
                if self._move(number, stop):
                    empty.append(number)
        self._drop(empty)
        return Events.concat(taken)

    def forget(self, upto: int, at_least: int) -> int | None:
        """Let go of events up to a time, but keep the last `at_least`; the time of the last that went, None where none did.

        For pieces that came in time order.
        """
        gone, empty = None, []
        for number, first in enumerate(self._first):
            if first > upto or self._n <= at_least:
                break
            piece, head = self._pieces[number], self._heads[number]
            stop = min(_place_after(piece, upto), head + self._n - at_least)
            gone = int(piece.times[stop - 1])
            if self._move(number, stop):
                empty.append(number)
        self._drop(empty)
        return gone

    def changed(self, change: Callable[[Events], Events]) -> EventBuffer:
        """A buffer with the same events after a change to each; this one stays as it is, since a change may be refused."""
        other = EventBuffer()
        other._pieces = [change(piece) for piece in self._pieces]
        other._heads, other._ranks, other._first, other._n = list(self._heads), list(self._ranks), list(self._first), self._n
        return other

    # ------------------------------------------------------------ pieces

    def _put(self, piece: Events, rank: int) -> None:
        self._pieces.append(piece)
        self._heads.append(0)
        self._ranks.append(rank)
        self._first.append(int(piece.times[0]))
        self._n += len(piece)

    def _rest(self, number: int) -> Events:
        piece, head = self._pieces[number], self._heads[number]
        return piece.slice(head, len(piece)) if head else piece

    def _move(self, number: int, head: int) -> bool:
        """The first rows of a piece leave, up to this one; whether nothing is left."""
        piece = self._pieces[number]
        self._n -= head - self._heads[number]
        if len(piece) > head > LARGE_PIECE and head > len(piece) // 2:
            piece, head = piece.take(np.arange(head, len(piece))), 0  # a copy: a slice would hold on to what has left
            self._pieces[number] = piece
        self._heads[number] = head
        if head < len(piece):
            self._first[number] = int(piece.times[head])
        return head == len(piece)

    def _drop(self, numbers: list[int]) -> None:
        """Without these pieces, of which nothing is left."""
        for number in reversed(numbers):
            for each in (self._pieces, self._heads, self._ranks, self._first):
                del each[number]


def _place_after(piece: Events, time: int) -> int:
    return len(piece) if int(piece.times[-1]) <= time else int(np.searchsorted(piece.times, time, side="right"))
