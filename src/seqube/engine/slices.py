"""A stream at hand in slices, answered by several threads, their rows in the order of the slices.

`plan/slices.py` says how a stream is cut; here are the rows that each slice sees and what it owns, and who answers it. Whoever asks
for the rows is one of the threads. Slices are begun in order, and their pieces handed on in order. A slice whose turn has not come
finds a few rows ahead and waits, so that what is held does not depend on how many rows there are; unless all rows will be kept
anyway (`Budget.keeps_all`).

Cost: that of the slices, and of what each looks at beside its own.
Invariant: the pieces are those of one thread, in the same order; nobody works on when nobody asks for more.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from threading import Event
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from seqube.engine.instances import minus, plus
from seqube.engine.keys import whole_codes
from seqube.engine.limits import Budget
from seqube.engine.predicates import Ints
from seqube.engine.sequence import HIGHEST, LOWEST
from seqube.events import Events
from seqube.plan.needs import Plan, needs_of
from seqube.plan.slices import Cut
from seqube.threads import done_here, helpers

AHEAD_ROWS = 1 << 18  # that a slice finds before its turn
MARKED = 64  # rows of a slice that are looked at to cut evenly

Portion = TypeVar("Portion")


class StreamSlice(NamedTuple):
    """A part of a stream: what it sees, and the times of the ends that it owns, (after, upto]."""

    events: Events
    after: int = LOWEST
    upto: int = HIGHEST
    numbers: Ints | None = None  # of its events in the whole stream, where positions matter


@dataclass(frozen=True, slots=True)
class Slices:
    """The slices of a stream; each is made when its turn comes. `numbers` are those of all events, where positions matter."""

    plan: Plan
    events: Events
    cut: Cut
    numbers: Ints | None = None

    @property
    def makers(self) -> list[Callable[[], StreamSlice]]:
        if self.cut.by == "time":
            return self._in_time()
        if self.cut.by == "key":
            return self._by_key()
        return [lambda: StreamSlice(self.events, numbers=self.numbers)]

    def _in_time(self) -> list[Callable[[], StreamSlice]]:
        needs = needs_of(self.plan, self.events.unit)
        times, n = self.events.times, self.cut.n_slices
        rows = self.events.some_rows_of(needs.sent_types, MARKED * n)
        marks = np.unique(times[rows[np.arange(1, n) * len(rows) // n]])
        afters, uptos = np.append(LOWEST, marks), np.append(marks, HIGHEST)
        if needs.by_position:
            lows = np.maximum(np.searchsorted(times, afters, "right") - needs.back, 0)
            highs = np.minimum(np.searchsorted(times, uptos, "right") + needs.ahead * needs.reaches, len(times))
        else:
            lows = np.searchsorted(times, np.where(afters == LOWEST, LOWEST, minus(afters, needs.back)), "right")
            highs = np.searchsorted(times, plus(uptos, min(needs.ahead * needs.reaches, HIGHEST)), "right")
            lows[0] = 0

        def make(low: int, high: int, after: int, upto: int) -> Callable[[], StreamSlice]:
            numbers = None if self.numbers is None else self.numbers[low:high]
            return lambda: StreamSlice(self.events.stretch(low, high), after, upto, numbers)

        bounds = (column.tolist() for column in (lows, highs, afters, uptos))
        return [make(*each) for each in zip(*bounds, strict=True)]

    def _by_key(self) -> list[Callable[[], StreamSlice]]:
        """Keys are dealt out in turn; what has none can be anywhere."""
        needs, n = needs_of(self.plan, self.events.unit), self.cut.n_slices
        codes, _ = whole_codes(self.events, needs.key)
        dealt = (codes % n).astype(np.uint16 if n < 1 << 16 else np.int64)
        if needs.sent_types is None:
            rows = np.argsort(dealt, kind="stable")
            sizes = np.bincount(dealt, minlength=n)
        else:
            wanted = self.events.rows_of(needs.sent_types)
            rows = wanted[np.argsort(dealt[wanted], kind="stable")]
            sizes = np.bincount(dealt[wanted], minlength=n)
        bounds = np.append(0, np.cumsum(sizes)).tolist()

        def make(own: Ints) -> Callable[[], StreamSlice]:
            return lambda: StreamSlice(self.events.take(own), numbers=None if self.numbers is None else self.numbers[own])

        return [make(rows[low:high]) for low, high in itertools.pairwise(bounds)]


# ---------------------------------------------------------------- threads


class _Work(Generic[Portion]):
    """The pieces of one slice, found by one thread at a time."""

    def __init__(self, pieces: Iterator[Portion], size: Callable[[Portion], int], budget: Budget, stopped: Event) -> None:
        self._pieces, self._size, self._budget, self._stopped = pieces, size, budget, stopped
        self.found: deque[Portion] = deque()
        self.is_over = False
        self.future: Future[None] | None = None

    def go_on(self) -> None:
        """Find pieces until these are all, or enough for now."""
        n_rows = 0
        for piece in self._pieces:
            self.found.append(piece)
            n_rows += self._size(piece)
            if self._stopped.is_set() or (n_rows >= AHEAD_ROWS and not self._budget.keeps_all):
                return
        self.is_over = True


def answer_slices(
    slices: Sequence[Callable[[], Iterator[Portion]]], threads: int, budget: Budget, size: Callable[[Portion], int]
) -> Iterator[Portion]:
    """The pieces of all slices, in their order, found by so many threads; `size` is how many rows a piece has."""
    if threads == 1 or len(slices) == 1:
        for begin in slices:
            yield from begin()
        return
    stopped, left = Event(), deque(slices)
    works: deque[_Work[Portion]] = deque()
    others = helpers(min(threads, len(slices)) - 1)
    try:
        while left or works:
            while left and len(works) <= threads:  # one more than can be worked on, so that whoever is done goes on with it
                works.append(_Work(_begun(left.popleft()), size, budget, stopped))
            for work in works:
                if work.future is None or (budget.keeps_all and work.future.done() and not work.is_over):
                    _check(work.future)
                    work.future = others.submit(work.go_on)
            first = works[0]
            assert first.future is not None
            while not first.future.done() and (unbegun := next((work for work in works if _taken(work.future)), None)) is not None:
                unbegun.future = done_here(unbegun.go_on)
            first.future.result()
            found = list(first.found)
            first.found.clear()
            if first.is_over:
                works.popleft()
            else:
                first.future = others.submit(first.go_on)
            yield from found
    finally:
        stopped.set()
        for work in works:
            _taken(work.future)


def _begun(begin: Callable[[], Iterator[Portion]]) -> Iterator[Portion]:
    """The pieces of a slice, which is made by whoever asks for the first."""
    yield from begin()


def _taken(future: Future[None] | None) -> bool:
    """Whether nobody had begun with it, and nobody will."""
    return future is not None and future.cancel()


def _check(future: Future[Any] | None) -> None:
    if future is not None:
        future.result()
