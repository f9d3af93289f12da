"""NEXT and STRICT: one run for each start, all of them at once, an event at a time.

A *thread* is a run as far as it has come: the part it is in, how many events that part has, and what its variables are bound to.
All threads take a step together, over arrays: each has an event before it, and those in the same part try the same choices in the
same order (the event in this part, in the next one, past parts that may be absent in one after that). What a choice is asked,
`_asked` says: every predicate that can be asked with this event and could not be asked before.

    NEXT     a thread stays one: it takes the first choice that fits, or skips the event.
             Events that fit no part it can be in are stepped over; plain parts without further predicates need no threads at
             all: for every start the first event after it, part by part (`next_after`).
    STRICT   the event is the next one in the stream. Every choice that fits is a thread of its own; they stand in the order of
             preference, and one that is over cuts off those behind it. Without predicates two threads of a start in the same part,
             with the same number of events, have the same future, and the first of them goes on.

Rows that lists are made of are kept in a log, each with the one before it in its thread: a step appends, nothing is copied.

Cost: for NEXT, the events in the window of each start that fit a part its run can be in; for plain parts, linear in the events.
Invariant: a run depends on the events of its window alone, so a stream may be cut anywhere outside of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa

from seqube.engine.bindings import UNBOUND, Column, Ints, Lists, Mask, offsets_of
from seqube.engine.instances import Batch, Instances, plus
from seqube.engine.jit import kernel
from seqube.engine.predicates import Evaluator, code_columns
from seqube.language.mentions import named_as_lists, named_before, named_by_event, variables_of
from seqube.language.tree import Attribute, Predicate
from seqube.plan.physical import MatchRun, Scan

_NOWHERE = -1  # no part yet, or no event before
_ANY_NUMBER = 1 << 60  # events that a part takes at most, where no number is given


@dataclass(frozen=True, slots=True)
class Runs:
    """Runs as instances; which of them are matches, and the number of the last part that each has reached (from 1)."""

    instances: Instances
    are_matches: Mask
    reached: Ints


def find_runs(node: MatchRun, batch: Batch, evaluator: Evaluator, scan: Callable[[Scan], Ints], partial: bool = False) -> Runs:
    """The matches of a NEXT or STRICT, ascending by last row; with `partial`, all its runs."""
    found = [scan(each) for step in node.steps for each in step.scans]
    if not node.is_strict and node.is_plain:
        return _plain_next(node, batch, evaluator, found, partial)
    if node.is_strict and node.is_plain and not node.key:
        return _plain_strict(node, batch, found)
    runner = _Runner(node, batch, evaluator, found)
    runs = runner.strict() if node.is_strict else runner.next(partial)
    order = np.argsort(runs.instances.last_rows, kind="stable")
    return Runs(runs.instances.select(order), runs.are_matches[order], runs.reached[order])


# ---------------------------------------------------------------- parts of one event each, tied by nothing but a key


def _plain_next(node: MatchRun, batch: Batch, evaluator: Evaluator, found: list[Ints], partial: bool) -> Runs:
    """For every start the first event of the next part after it, and so on: all starts at once."""
    codes, n_codes = _codes(node, batch, evaluator, found)
    closed = plus(batch.clocks[found[0]], batch.window)
    rows = [found[0], *(np.full(len(found[0]), UNBOUND, np.int64) for _ in found[1:])]
    going = np.arange(len(found[0]))  # the starts that have come this far
    places = going  # where the last event of each stands among those of its part
    reached = np.ones(len(found[0]), np.int64)
    for n in range(1, len(found)):
        if not len(found[n]):
            going = going[:0]
            break
        if codes is None:
            following = next_after(batch.times, rows[n - 1][going], found[n])
        else:
            places = next_of_code(batch.times, found[n - 1], codes[n - 1], found[n], codes[n], n_codes)[places]
            following = np.where(places >= 0, found[n][places], -1)
        kept = (following >= 0) & (batch.clocks[following] < closed[going])
        going, places = going[kept], places[kept] if codes is not None else places
        rows[n][going] = following[kept]
        reached[going] = n + 1
    if partial:
        last = np.maximum.reduce(rows)
        order = np.argsort(last, kind="stable")
        runs = Instances(dict(zip(node.binds, rows, strict=True)), rows[0], last).select(order)
        return Runs(runs, (reached == len(found))[order], reached[order])
    rows = [column[going] for column in rows] if len(going) < len(rows[0]) else rows
    by_end = np.argsort(rows[-1], kind="stable") if codes is not None else None
    instances = Instances(dict(zip(node.binds, rows, strict=True)), rows[0], rows[-1])
    return Runs(instances if by_end is None else instances.select(by_end), np.ones(len(going), np.bool_), reached[going])


@kernel
def next_after(times: Ints, starts: Ints, others: Ints) -> Ints:
    """For every start the first of the others that is after it; -1 where there is none. The times of both ascend.

    starts   1     5  6
    others   1  3     6  9       out  3, 6, 9
    """
    out = np.empty(len(starts), np.int64)
    j = 0
    for k in range(len(starts)):
        time = times[starts[k]]
        while j < len(others) and times[others[j]] <= time:
            j += 1
        out[k] = others[j] if j < len(others) else -1
    return out


@kernel
def next_of_code(times: Ints, starts: Ints, codes: Ints, others: Ints, other_codes: Ints, n_codes: int) -> Ints:
    """For every start the place, among the others, of the first that is after it and has its code; -1 where there is none.

    From the end back, the newest place of every code is the next one of what comes before it. Code -1 is equal to none.
    """
    newest = np.full(n_codes, -1, np.int64)
    out = np.full(len(starts), -1, np.int64)
    j = len(others) - 1
    for k in range(len(starts) - 1, -1, -1):
        time = times[starts[k]]
        while j >= 0 and times[others[j]] > time:
            if other_codes[j] >= 0:
                newest[other_codes[j]] = j
            j -= 1
        if codes[k] >= 0:
            out[k] = newest[codes[k]]
    return out


def _plain_strict(node: MatchRun, batch: Batch, found: list[Ints]) -> Runs:
    """Starts whose next positions hold the other parts."""
    assert batch.positions is not None
    order, place = _in_order(batch)
    rows = [found[0]]
    for other in found[1:]:
        following = place[rows[-1]] + 1
        kept = following < len(order)
        rows, following = [column[kept] for column in rows], order[following[kept]]
        is_other = np.zeros(len(batch.times), np.bool_)
        is_other[other] = True
        kept = is_other[following] & (batch.positions[following] == batch.positions[rows[-1]] + 1)
        if batch.partitions is not None:
            kept &= batch.partitions[following] == batch.partitions[rows[-1]]
        rows = [column[kept] for column in (*rows, following)]
    kept = batch.clocks[rows[-1]] < plus(batch.clocks[rows[0]], batch.window)
    rows = [column[kept] for column in rows]
    found_rows = Instances(dict(zip(node.binds, rows, strict=True)), rows[0], rows[-1])
    n_found = len(rows[0])
    by_end = np.argsort(rows[-1], kind="stable")
    return Runs(found_rows.select(by_end), np.ones(n_found, np.bool_), np.full(n_found, len(node.steps)))


def _in_order(batch: Batch) -> tuple[Ints, Ints]:
    """All rows partition by partition, and the place of each among them."""
    if batch.partitions is None:
        rows = np.arange(len(batch.times))
        return rows, rows
    order = np.argsort(batch.partitions, kind="stable")
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return order, place


def _codes(node: MatchRun, batch: Batch, evaluator: Evaluator, found: list[Ints]) -> tuple[list[Ints] | None, int]:
    """Codes that are equal for events of one partition and key (-1: a key is null), and how many; None where there is neither."""
    if batch.partitions is None and not node.key:
        return None, 0
    tables = []
    for rows in found:
        columns = [] if batch.partitions is None else [pa.array(batch.partitions[rows])]
        tables.append(columns + [_values(evaluator, key, rows) for key in node.key])
    return code_columns(tables)


def _values(evaluator: Evaluator, name: str, rows: Ints) -> pa.Array:
    """An attribute of events."""
    return evaluator.array(Attribute("event", name), {"event": rows}, len(rows))


# ---------------------------------------------------------------- threads


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


@dataclass(frozen=True, slots=True)
class _Choice:
    """The event in a part, by one of its variables; or, without a variable, the end of the run."""

    part: int
    variable: str | None = None


@dataclass
class _Runner:
    """One NEXT or STRICT over one batch."""

    node: MatchRun
    batch: Batch
    evaluator: Evaluator
    found: list[Ints]  # the rows of each variable
    log: _Log = field(default_factory=_Log)

    def __post_init__(self) -> None:
        self.steps = self.node.steps
        self.names = self.node.binds
        self.number = {name: n for n, name in enumerate(self.names)}
        self.part_of = {scan.variable: n for n, step in enumerate(self.steps) for scan in step.scans}
        self.repeated = {scan.variable: step.is_single for step in self.steps if step.is_repeated for scan in step.scans}
        rows = np.unique(np.concatenate(self.found))
        groups = self._groups(rows)
        order = np.lexsort((rows, groups))
        self.rows, self.groups = rows[order], groups[order]
        self.fits = {name: np.isin(self.rows, each) for name, each in zip(self.names, self.found, strict=True)}
        times, clocks = self.batch.times[self.rows], self.batch.clocks[self.rows]
        self.clocks, self.closed = clocks, plus(clocks, self.batch.window)
        size = len(self.rows)
        self.stop = np.searchsorted(self.groups, self.groups, "right")
        same_time = np.zeros(size, np.bool_)  # as the place after it, in one group
        same_time[:-1] = (np.diff(times) == 0) & (np.diff(self.groups) == 0)
        ends = np.flatnonzero(~same_time) + 1
        self.later = ends[np.searchsorted(ends, np.arange(size), "right")] if size else np.empty(0, np.int64)

    def _groups(self, rows: Ints) -> Ints:
        """Events that can stand in one run: of a partition and, unless others between them matter, of a key."""
        keys = () if self.node.is_strict else self.node.key
        if self.batch.partitions is None and not keys:
            return np.zeros(len(rows), np.int64)
        columns = [] if self.batch.partitions is None else [pa.array(self.batch.partitions[rows])]
        columns += [_values(self.evaluator, key, rows) for key in keys]
        (codes,), n_codes = code_columns([columns])
        return np.where(codes < 0, n_codes + np.arange(len(codes)), codes)

    # ------------------------------------------------------------ what is asked

    def _asked(self, part: int, to: int) -> list[Predicate]:
        """What can be asked when a run that is in a part takes an event in another (or the same), or ends (past the last)."""
        asked = []
        for predicate in self.node.asked:
            each = {self.part_of[name] for name in named_by_event(predicate)}
            as_lists = {self.part_of[name] for name in named_as_lists(predicate)}
            can_be = max(each, default=_NOWHERE) <= to and max(as_lists, default=_NOWHERE) < to
            if can_be and (to in each or any(part <= left < to for left in as_lists)):
                asked.append(predicate)
        return asked

    def _holds(self, threads: _Threads, part: int, choice: _Choice, rows: Ints | None) -> Mask:
        """Whether what can be asked of threads in a part is true when they take these rows, or end."""
        asked = self._asked(part, choice.part)
        mask = np.ones(len(threads), np.bool_)
        for predicate in asked:
            named = {name: self._bound(threads, part, choice, rows, name, predicate) for name in variables_of(predicate)}
            mask &= self.evaluator.true([predicate], named, len(threads))
        return mask

    def _bound(self, threads: _Threads, part: int, choice: _Choice, rows: Ints | None, name: str, predicate: Predicate) -> Column:
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

    def _taken(self, threads: _Threads, part: int, choice: _Choice, places: Ints) -> _Threads:
        """The threads after they took the events at these places."""
        assert choice.variable is not None
        rows = self.rows[places]
        tip = self.log.add(threads.tip, self.number[choice.variable], rows)
        count = threads.count + 1 if choice.part == part else np.ones(len(threads), np.int64)
        bound = threads.rows if choice.variable in self.repeated else {**threads.rows, choice.variable: rows}
        start = np.where(threads.start == _NOWHERE, places, threads.start)
        return _Threads(start, np.full(len(threads), choice.part), count, places, tip, bound)

    def _fresh(self, size: int) -> _Threads:
        none = np.full(size, _NOWHERE)
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
            threads, at = _together([waiting, moved]), np.concatenate([at + 1, self.later[moved.last]])
            threads, at = self._closed(threads, self._next_place(threads, at), done, partial)
            threads, taken = self._stepped(threads, at)
            waiting, at, moved = threads.select(~taken), at[~taken], threads.select(taken)
        return self._runs([each for each, _ in done], np.concatenate([np.empty(0, np.bool_), *(mask for _, mask in done)]))

    def _closed(self, threads: _Threads, at: Ints, done: list[tuple[_Threads, Mask]], partial: bool) -> tuple[_Threads, Ints]:
        """The threads that still have an event before them; the others are over, as matches or not."""
        size = len(self.rows)
        inside = (at < self.stop[threads.start]) & (self.clocks[np.minimum(at, size - 1)] < self.closed[threads.start])
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
            for choice in self._choices(part):
                fits |= self.fits[choice.variable or ""]
            places = np.flatnonzero(fits)
            self._following[part] = np.append(places, size)[np.searchsorted(places, np.arange(size + 1))]
        return self._following[part]

    @cached_property
    def _following(self) -> dict[int, Ints]:
        return {}

    def _choices(self, part: int) -> list[_Choice]:
        """What an event can be for a run in a part, in the order in which it is tried."""
        here = [_Choice(part, scan.variable) for scan in self.steps[part].scans] if part != _NOWHERE else []
        further = []
        for to in range(part + 1, len(self.steps)):
            further += [_Choice(to, scan.variable) for scan in self.steps[to].scans]
            if self.steps[to].least > 0:
                break
        return further + here if part != _NOWHERE and self.steps[part].is_reluctant else here + further

    def _stepped(self, threads: _Threads, at: Ints) -> tuple[_Threads, Mask]:
        """The threads after looking at the events at these places, and which of them took theirs."""
        results, masks, order = [], [], []
        for part in np.unique(threads.part):
            numbers = np.flatnonzero(threads.part == part)
            for choice in self._choices(int(part)):
                if not len(numbers):
                    break
                here, places = threads.select(numbers), at[numbers]
                assert choice.variable is not None
                kept = np.flatnonzero(self._can(here, int(part), choice) & self.fits[choice.variable][places])
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

    def _can(self, threads: _Threads, part: int, choice: _Choice) -> Mask:
        """Whether there is room in the part, or the part has its minimum and may be left."""
        if part == _NOWHERE:
            return np.ones(len(threads), np.bool_)
        step = self.steps[part]
        return threads.count < (step.most or _ANY_NUMBER) if choice.part == part else threads.count >= step.least

    def _may_end(self, threads: _Threads) -> Mask:
        mask = np.zeros(len(threads), np.bool_)
        for part in np.unique(threads.part):
            step = self.steps[part]
            if all(later.least == 0 for later in self.steps[part + 1 :]):
                here = np.flatnonzero((threads.part == part) & (threads.count >= step.least))
                mask[here] = self._holds(threads.select(here), int(part), _Choice(len(self.steps)), None)
        return mask

    def _is_over(self, threads: _Threads) -> Mask:
        """Which wait for nothing and are matches now."""
        mask = np.zeros(len(threads), np.bool_)
        for part in np.unique(threads.part):
            step = self.steps[part]
            if all(later.is_reluctant for later in self.steps[part + 1 :]):
                full = threads.count >= (step.most or _ANY_NUMBER)
                here = np.flatnonzero((threads.part == part) & (full | step.is_reluctant))
                mask[here] = self._may_end(threads.select(here))
        return mask

    # ------------------------------------------------------------ STRICT

    def strict(self) -> Runs:
        size = len(self.rows)
        follows = self._consecutive()
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
        newest = np.full(size, _NOWHERE)
        newest[ends.start] = np.arange(len(ends))  # of a start, what is over later stood before it
        chosen = ends.select(newest[newest != _NOWHERE])
        return self._runs([chosen], np.ones(len(chosen), np.bool_))

    def _consecutive(self) -> Mask:
        """Whether each place follows the one before without an event between them, and agrees with it on the key."""
        positions = self.batch.positions
        assert positions is not None
        follows = np.zeros(len(self.rows), np.bool_)
        follows[1:] = (np.diff(self.groups) == 0) & (np.diff(positions[self.rows]) == 1)
        if self.node.key:
            keys = [_values(self.evaluator, key, self.rows) for key in self.node.key]
            (codes,), _ = code_columns([keys])
            follows[1:] &= (np.diff(codes) == 0) & (codes[1:] >= 0)
        return follows

    def _spread(self, threads: _Threads, place: Ints, there: Mask) -> tuple[_Threads, Mask, Ints]:
        """Every choice of every thread that fits, in the order of preference; which are the end, and their ranks."""
        results, overs, keys = [], [], []
        for part in np.unique(threads.part):
            numbers = np.flatnonzero(threads.part == part)
            for rank, choice in enumerate(self._preferred(int(part))):
                here, places = threads.select(numbers), place[numbers]
                if choice.variable is None:
                    can = self._can(here, int(part), choice) if part != _NOWHERE else np.zeros(len(here), np.bool_)
                    kept = np.flatnonzero(can)
                    kept = kept[self._holds(here.select(kept), int(part), choice, None)]
                    results.append(here.select(kept))
                else:
                    kept = np.flatnonzero(self._can(here, int(part), choice) & there[numbers])
                    kept = kept[self.fits[choice.variable][places[kept]]]
                    kept = kept[self._holds(here.select(kept), int(part), choice, self.rows[places[kept]])]
                    results.append(self._taken(here.select(kept), int(part), choice, places[kept]))
                overs.append(np.full(len(kept), choice.variable is None))
                keys.append(np.stack([numbers[kept], np.full(len(kept), rank)]))
        order = np.lexsort(np.concatenate(keys, axis=1)[::-1])
        return _together(results).select(order), np.concatenate(overs)[order], np.arange(len(order))

    def _preferred(self, part: int) -> list[_Choice]:
        """The choices of a regular expression in a part, the preferred ones first."""

        def leave(to: int) -> list[_Choice]:
            if to == len(self.steps):
                return [_Choice(to)]
            step = self.steps[to]
            take = [_Choice(to, scan.variable) for scan in step.scans]
            if step.least > 0:
                return take
            return leave(to + 1) + take if step.is_reluctant else take + leave(to + 1)

        if part == _NOWHERE:
            return leave(0)
        here = [_Choice(part, scan.variable) for scan in self.steps[part].scans]
        return leave(part + 1) + here if self.steps[part].is_reluctant else here + leave(part + 1)

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
