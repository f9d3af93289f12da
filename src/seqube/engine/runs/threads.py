"""Runs all at once, over columns, an event at a time: whatever they ask.

A *thread* is a run as far as it has come: the part it is in, how many events that part has, and what its variables are bound to.
All threads take a step together, over arrays: each has an event before it, and those in the same part try the same choices in the
same order (the event in this part, in the next one, past parts that may be absent in one after that). What a choice is asked,
`_asked` says: every predicate that can be asked with this event and could not be asked before.

    NEXT     a thread stays one: it takes the first choice that fits, or skips the event.
             Events that fit no part it can be in are stepped over.
    STRICT   the event is the next one in the stream. Every choice that fits is a thread of its own; they stand in the order of
             preference, and one that is over cuts off those behind it. Without predicates two threads of a start in the same part,
             with the same number of events, have the same future, and the first of them goes on.

Rows that lists are made of are kept in a log, each with the one before it in its thread: a step appends, nothing is copied.

Cost: the events in the window of each start that fit a part its run can be in, and some microseconds for each step of the longest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from seqube.engine.bindings import UNBOUND, Column, Ints, Lists, Mask, offsets_of
from seqube.engine.instances import Instances
from seqube.engine.runs.courses import ANY_NUMBER, NO_PLACE, Choice, RunCourse, Runs
from seqube.language.mentions import named_as_lists, named_before, named_by_event, variables_of
from seqube.language.tree import Predicate


class _Log:
    """Events in the order in which threads took them: by which variable, and the one before in the same thread."""

    def __init__(self) -> None:
        self._size = 0
        self._columns = np.empty((3, 1024), np.int64)

    def add(self, parents: Ints, variable: int, rows: Ints) -> Ints:
        """Append, and give the places of what was appended."""
        stop = self._size + len(rows)
        if stop > self._columns.shape[1]:
            self._columns = np.concatenate([self._columns[:, : self._size], np.empty((3, max(stop, self._size)), np.int64)], axis=1)
        self._columns[:, self._size : stop] = parents, np.full(len(rows), variable), rows
        places = np.arange(self._size, stop)
        self._size = stop
        return places

    @property
    def n_bytes(self) -> int:
        return self._columns.nbytes

    def lists(self, variable: int, tips: Ints, single: bool) -> Lists:
        """What threads with these last events have bound a variable to."""
        parents, variables, rows = self._columns
        owners, at = np.flatnonzero(tips >= 0), tips[tips >= 0]
        of, taken = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        while len(at):  # from the last event back, so that what is found later belongs before
            hit = variables[at] == variable
            of.append(owners[hit])
            taken.append(rows[at[hit]])
            at = parents[at]
            owners, at = owners[at >= 0], at[at >= 0]
        owner, row = np.concatenate(of)[::-1], np.concatenate(taken)[::-1]
        order = np.argsort(owner, kind="stable")
        return Lists(row[order], offsets_of(np.bincount(owner, minlength=len(tips))), single)


@dataclass(slots=True)
class _Threads:
    """Runs as far as they have come: columns."""

    start: Ints  # the place of the first event
    part: Ints
    count: Ints  # events in that part
    last: Ints  # the place of the last event
    tip: Ints  # its place in the log
    rows: dict[str, Ints]  # of variables that are one event

    def __len__(self) -> int:
        return len(self.start)

    def select(self, which: Ints | Mask) -> _Threads:
        rows = {name: column[which] for name, column in self.rows.items()}
        return _Threads(self.start[which], self.part[which], self.count[which], self.last[which], self.tip[which], rows)


class Threading:
    """The runs of a course, by threads."""

    def __init__(self, course: RunCourse) -> None:
        self.course, self.log = course, _Log()
        self.node, self.batch, self.evaluator = course.node, course.batch, course.evaluator
        self.steps, self.names, self.number = course.steps, course.names, course.number
        self.part_of, self.repeated = course.part_of, course.repeated
        self.rows, self.clocks, self.closed = course.rows, course.clocks, course.closed

    # ------------------------------------------------------------ what is asked

    def _asked(self, part: int, to: int) -> list[Predicate]:
        """What can be asked when a run that is in a part takes an event in another (or the same), or ends (past the last)."""
        asked = []
        for predicate in self.node.asked:
            each = {self.part_of[name] for name in named_by_event(predicate)}
            as_lists = {self.part_of[name] for name in named_as_lists(predicate)}
            can_be = max(each, default=NO_PLACE) <= to and max(as_lists, default=NO_PLACE) < to
            if can_be and (to in each or any(part <= left < to for left in as_lists)):
                asked.append(predicate)
        return asked

    def _holds(self, threads: _Threads, part: int, choice: Choice, rows: Ints | None) -> Mask:
        """Whether what can be asked of threads in a part is true when they take these rows, or end."""
        asked = self._asked(part, choice.part)
        mask = np.ones(len(threads), np.bool_)
        for predicate in asked:
            named = {name: self._bound(threads, part, choice, rows, name, predicate) for name in variables_of(predicate)}
            mask &= self.evaluator.true([predicate], named, len(threads))
        return mask

    def _bound(self, threads: _Threads, part: int, choice: Choice, rows: Ints | None, name: str, predicate: Predicate) -> Column:
        if name not in self.repeated:
            if self.part_of[name] != choice.part:
                return threads.rows[name]
            return rows if rows is not None and name == choice.variable else np.full(len(threads), UNBOUND, np.int64)
        if name != choice.variable or rows is None:
            return self.log.lists(self.number[name], threads.tip, self.repeated[name])
        if name in named_before(predicate) and part == choice.part:  # only this event is new, with the one before it
            before = self.rows[threads.last]
            return Lists(np.column_stack([before, rows]).ravel(), 2 * np.arange(len(rows) + 1))
        return Lists(rows, np.arange(len(rows) + 1))

    def _taken(self, threads: _Threads, part: int, choice: Choice, places: Ints) -> _Threads:
        """The threads after they took the events at these places."""
        assert choice.variable is not None
        rows = self.rows[places]
        tip = self.log.add(threads.tip, self.number[choice.variable], rows)
        count = threads.count + 1 if choice.part == part else np.ones(len(threads), np.int64)
        bound = threads.rows if choice.variable in self.repeated else {**threads.rows, choice.variable: rows}
        start = np.where(threads.start == NO_PLACE, places, threads.start)
        return _Threads(start, np.full(len(threads), choice.part), count, places, tip, bound)

    def _fresh(self, size: int) -> _Threads:
        none = np.full(size, NO_PLACE)
        bound = {name: np.full(size, UNBOUND, np.int64) for name in self.names if name not in self.repeated}
        return _Threads(none, none.copy(), np.zeros(size, np.int64), none.copy(), none.copy(), bound)

    # ------------------------------------------------------------ NEXT

    def next(self, partial: bool) -> Runs:
        size = len(self.rows)
        threads, taken = self._stepped(self._fresh(size), np.arange(size))
        moved, waiting, at = threads.select(taken), self._fresh(0), np.empty(0, np.int64)
        done: list[tuple[_Threads, Mask]] = []
        while len(moved) or len(waiting):
            self.batch.budget.check()
            over = self._is_over(moved)
            done.append((moved.select(over), over[over]))
            moved = moved.select(~over)
            threads, at = _together([waiting, moved]), np.concatenate([at + 1, self.course.later[moved.last]])
            threads, at = self._closed(threads, self._next_place(threads, at), done, partial)
            threads, taken = self._stepped(threads, at)
            waiting, at, moved = threads.select(~taken), at[~taken], threads.select(taken)
        return self._runs([each for each, _ in done], np.concatenate([np.empty(0, np.bool_), *(mask for _, mask in done)]))

    def _closed(self, threads: _Threads, at: Ints, done: list[tuple[_Threads, Mask]], partial: bool) -> tuple[_Threads, Ints]:
        """The threads that still have an event before them; the others are over, as matches or not."""
        size = len(self.rows)
        inside = (at < self.course.stop[threads.start]) & (self.clocks[np.minimum(at, size - 1)] < self.closed[threads.start])
        out = threads.select(~inside)
        if len(out):
            ends = self._may_end(out)
            done.append((out, ends) if partial else (out.select(ends), ends[ends]))
        return threads.select(inside), at[inside]

    def _next_place(self, threads: _Threads, at: Ints) -> Ints:
        """From these places on the first that fits a part the thread can be in."""
        result = at.copy()
        for part in np.unique(threads.part):
            here = threads.part == part
            following = self._places_of(int(part))
            result[here] = following[at[here]]
        return result

    def _places_of(self, part: int) -> Ints:
        """For every place, and past the last, the first from there on with an event that a run in this part can take."""
        if part not in self._following:
            size = len(self.rows)
            fits = np.zeros(size, np.bool_)
            for choice in self.course.choices(part):
                fits |= self.course.fits(choice.variable or "")
            places = np.flatnonzero(fits)
            self._following[part] = np.append(places, size)[np.searchsorted(places, np.arange(size + 1))]
        return self._following[part]

    @cached_property
    def _following(self) -> dict[int, Ints]:
        return {}

    def _stepped(self, threads: _Threads, at: Ints) -> tuple[_Threads, Mask]:
        """The threads after looking at the events at these places, and which of them took theirs."""
        results, masks, order = [], [], []
        for part in np.unique(threads.part):
            numbers = np.flatnonzero(threads.part == part)
            for choice in self.course.choices(int(part)):
                if not len(numbers):
                    break
                here, places = threads.select(numbers), at[numbers]
                assert choice.variable is not None
                kept = np.flatnonzero(self._can(here, int(part), choice) & self.course.fits(choice.variable)[places])
                kept = kept[self._holds(here.select(kept), int(part), choice, self.rows[places[kept]])]
                if len(kept):
                    results.append(self._taken(here.select(kept), int(part), choice, places[kept]))
                    masks.append(np.ones(len(kept), np.bool_))
                    order.append(numbers[kept])
                    numbers = np.delete(numbers, kept)
            results.append(threads.select(numbers))
            masks.append(np.zeros(len(numbers), np.bool_))
            order.append(numbers)
        if not results:
            return threads, np.zeros(0, np.bool_)
        back = np.argsort(np.concatenate(order))
        return _together(results).select(back), np.concatenate(masks)[back]

    def _can(self, threads: _Threads, part: int, choice: Choice) -> Mask:
        """Whether there is room in the part, or the part has its minimum and may be left."""
        if part == NO_PLACE:
            return np.ones(len(threads), np.bool_)
        step = self.steps[part]
        return threads.count < (step.most or ANY_NUMBER) if choice.part == part else threads.count >= step.least

    def _may_end(self, threads: _Threads) -> Mask:
        mask = np.zeros(len(threads), np.bool_)
        for part in np.unique(threads.part):
            step = self.steps[part]
            if all(later.least == 0 for later in self.steps[part + 1 :]):
                here = np.flatnonzero((threads.part == part) & (threads.count >= step.least))
                mask[here] = self._holds(threads.select(here), int(part), Choice(len(self.steps)), None)
        return mask

    def _is_over(self, threads: _Threads) -> Mask:
        """Which wait for nothing and are matches now."""
        mask = np.zeros(len(threads), np.bool_)
        for part in np.unique(threads.part):
            step = self.steps[part]
            if all(later.is_reluctant for later in self.steps[part + 1 :]):
                full = threads.count >= (step.most or ANY_NUMBER)
                here = np.flatnonzero((threads.part == part) & (full | step.is_reluctant))
                mask[here] = self._may_end(threads.select(here))
        return mask

    # ------------------------------------------------------------ STRICT

    def strict(self) -> Runs:
        size = len(self.rows)
        follows = self.course.follows()
        threads = self._fresh(size)
        starts = np.arange(size)  # threads stand by start, and for each start by preference
        threads.start[:] = starts
        place = starts.copy()  # of the event that each thread looks at
        best: list[_Threads] = []
        may_merge = not self.node.asked
        while len(threads):
            self.batch.budget.check()
            there = place < size
            there &= self.clocks[np.minimum(place, size - 1)] < self.closed[threads.start]
            there &= (place == threads.start) | follows[np.clip(place, 0, size - 1)]
            grown, over, ranks = self._spread(threads, place, there)
            # Of a start, what stands behind a thread that is over is cut off.
            first_over = np.full(size, np.iinfo(np.int64).max)
            np.minimum.at(first_over, grown.start[over], ranks[over])
            kept = ranks <= first_over[grown.start]
            grown, over, ranks = grown.select(kept), over[kept], ranks[kept]
            best.append(grown.select(over))
            threads = grown.select(~over)
            if may_merge and len(threads):
                threads = threads.select(self._first_of_each(threads))
            self.batch.budget.need(threads.start.nbytes * (6 + len(threads.rows)) + self.log.n_bytes)
            place = threads.last + 1
        ends = _together(best) if best else self._fresh(0)
        newest = np.full(size, NO_PLACE)
        newest[ends.start] = np.arange(len(ends))  # of a start, what is over later stood before it
        chosen = ends.select(newest[newest != NO_PLACE])
        return self._runs([chosen], np.ones(len(chosen), np.bool_))

    def _spread(self, threads: _Threads, place: Ints, there: Mask) -> tuple[_Threads, Mask, Ints]:
        """Every choice of every thread that fits, in the order of preference; which are the end, and their ranks."""
        results, overs, keys = [], [], []
        for part in np.unique(threads.part):
            numbers = np.flatnonzero(threads.part == part)
            for rank, choice in enumerate(self.course.preferred(int(part))):
                here, places = threads.select(numbers), place[numbers]
                if choice.variable is None:
                    can = self._can(here, int(part), choice) if part != NO_PLACE else np.zeros(len(here), np.bool_)
                    kept = np.flatnonzero(can)
                    kept = kept[self._holds(here.select(kept), int(part), choice, None)]
                    results.append(here.select(kept))
                else:
                    kept = np.flatnonzero(self._can(here, int(part), choice) & there[numbers])
                    kept = kept[self.course.fits(choice.variable)[places[kept]]]
                    kept = kept[self._holds(here.select(kept), int(part), choice, self.rows[places[kept]])]
                    results.append(self._taken(here.select(kept), int(part), choice, places[kept]))
                overs.append(np.full(len(kept), choice.variable is None))
                keys.append(np.stack([numbers[kept], np.full(len(kept), rank)]))
        order = np.lexsort(np.concatenate(keys, axis=1)[::-1])
        return _together(results).select(order), np.concatenate(overs)[order], np.arange(len(order))

    def _first_of_each(self, threads: _Threads) -> Ints:
        """Of threads of a start in the same part and with as many events, as far as that matters, the first."""
        enough = np.array([step.most or step.least for step in self.steps])
        counts = np.minimum(threads.count, enough[threads.part])
        width = int(counts.max()) + 1
        _, first = np.unique((threads.start * len(self.steps) + threads.part) * width + counts, return_index=True)
        return np.sort(first)

    # ------------------------------------------------------------ results

    def _runs(self, done: Sequence[_Threads], are_matches: Mask) -> Runs:
        threads = _together(list(done)) if done else self._fresh(0)
        rows: dict[str, Column] = {}
        for name in self.names:
            if name in self.repeated:
                rows[name] = self.log.lists(self.number[name], threads.tip, self.repeated[name])
            else:
                rows[name] = threads.rows[name]
        reached = np.where(are_matches, len(self.steps), threads.part + 1)
        return Runs(Instances(rows, self.rows[threads.start], self.rows[threads.last]), are_matches, reached)


def _together(threads: Sequence[_Threads]) -> _Threads:
    if len(threads) == 1:
        return threads[0]
    return _Threads(
        np.concatenate([each.start for each in threads]),
        np.concatenate([each.part for each in threads]),
        np.concatenate([each.count for each in threads]),
        np.concatenate([each.last for each in threads]),
        np.concatenate([each.tip for each in threads]),
        {name: np.concatenate([each.rows[name] for each in threads]) for name in threads[0].rows},
    )
