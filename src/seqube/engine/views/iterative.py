"""Nested evaluation as published: outer results first, then their sub-queries in a tightened interval, with or without views.

Three kinds of evaluation call each other (`frames`): of a node from scratch (`compute`), of a node out of its view (`_use_view`),
and of a negation (`_seek`); `evaluate` drives them, `find_matches` asks for the matches of one trigger after the other.

Cost: iterative, per outer result, the instances of its children in their interval; with views, each such instance once
per interval that needs it, plus what `intervals` costs. Invariant: an evaluation leaves the arena as it was, save the records it
pushed.

    Paper                   | Here
    WinSeq, WinAnd, WinOr   | `compute`
    Query-Interval          | LOW and HIGH of a frame
    ViewUpdate              | the first half of `_use_view`
    isEmpty                 | `_seek_by_flags`
    delayed constraint      | a check of the root or of the enclosing negation, not of the node
    postponed negation      | a check of the root, whose matches wait (`state`)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from time import perf_counter

import numpy as np

from seqube.engine.bindings import UNBOUND, is_bound
from seqube.engine.instances import Batch, Instances
from seqube.engine.jit import borrowed, inner_kernel, kernel, kernel_part
from seqube.engine.limits import Budget
from seqube.engine.predicates import Evaluator, Ints
from seqube.engine.sequence import HIGHEST, LOWEST
from seqube.engine.views.compute import compute, narrow_negation
from seqube.engine.views.frames import (
    AGAIN_LOW,
    AGAIN_SINCE,
    BEGIN,
    COMPUTE,
    COVER_HIGH,
    COVER_LOW,
    ENTRY,
    HIGH,
    LIMIT,
    LOW,
    MARK,
    NEXT,
    OF,
    OUT,
    SEEK,
    SINCE,
    STAGE,
    UNTIL,
    VIEW,
    VIEW_NUMBER,
    ask,
    call,
    finish,
)
from seqube.engine.views.intervals import (
    INTERVAL_WORDS,
    add_narrowest,
    add_widest,
    contains_one,
    fetch_records,
    is_inside,
    joined,
    make_room,
    missing,
    store_records,
    view_of,
)
from seqube.engine.views.loading import LoadedBatch
from seqube.engine.views.program import (
    AGGRESSIVE,
    ARENA,
    BASES,
    CHECKS,
    CHECKS_AT,
    FIRST,
    FLOOR,
    FRAME,
    FRAME_WORDS,
    FRAMES,
    FULL,
    HORIZONS,
    INTERVAL_TOP,
    INTERVALS,
    KINDS,
    LAST,
    MEMBERS,
    MODES,
    N_COMPUTED,
    N_POSITIONS,
    N_ROOT_CHECKS,
    NEGATED_NODE,
    NEGATED_PLACE,
    NO_LIMIT,
    NOTHING,
    OLDEST,
    PASSIVE,
    PEAK,
    PLACES,
    PLACES_AT,
    POOL,
    POOL_TOP,
    RETURNED,
    ROOT_CHECKS,
    ROW_BEGINS,
    ROW_ENDS,
    RUNG,
    SCAN,
    TOP,
    VIEW_N_VALUES,
    Store,
    at_or_after,
    bind,
    bind_record,
    holds,
    look_at_clock,
    move_down,
    negation,
    reserve,
    stride,
    view,
    word,
)
from seqube.engine.views.requests import FROM, REQUEST_WORDS, UPTO, add_request, bind_request, has_first_pass
from seqube.engine.views.tables import Tables
from seqube.plan.physical import Guarded, MatchPlan

FIRST_PART, SECOND_PART, FOUND, CHECKED = range(BEGIN + 1, BEGIN + 5)  # what was asked for
ROOT = 0
PIECE = 1 << 19  # words of matches after which a piece is handed on
SECONDS = 0.1  # about how long the loops run before they come back, found or not


@inner_kernel
def evaluate(
    p: Ints,
    w: Ints,
    arena: Ints,
    pool: Ints,
    intervals: Ints,
    entry: int,
    of: int,
    low: int,
    high: int,
    since: int,
    until: int,
    limit: int,
) -> int:
    """Evaluate to the end, and return the answer; see `frames` for what is asked."""
    w[FRAME] = w[FRAMES] - w[FRAME_WORDS]
    call(w, entry, of, low, high, since, until, limit)
    while w[FRAME] >= w[FRAMES]:
        look_at_clock(w)
        f = w[FRAME]
        if w[f + ENTRY] == COMPUTE:
            compute(p, w, arena, f)
        elif w[f + ENTRY] == VIEW:
            _use_view(p, w, arena, pool, intervals, f)
        else:
            _seek(p, w, arena, pool, intervals, f)
    return int(w[RETURNED])


# ---------------------------------------------------------------- out of a view


@inner_kernel
def _use_view(p: Ints, w: Ints, arena: Ints, pool: Ints, intervals: Ints, f: int) -> None:
    """See to it that the view is complete for the interval, by computing what is missing; then fetch what lies in it."""
    node = w[f + OF]
    if w[f + STAGE] == BEGIN:
        u = view_of(p, w, node)
        if u < 0 or w[f + LOW] >= w[f + HIGH]:
            finish(w, 0)
            return
        w[f + VIEW_NUMBER] = u
        low, high = w[f + LOW], w[f + HIGH]
        if word(p, MODES, node) == AGGRESSIVE:
            low = w[FLOOR]
        if not is_inside(w, intervals, u, low, high):
            if word(p, MODES, node) != PASSIVE:
                low, high = joined(w, intervals, u, low, high)
            w[f + COVER_LOW] = low
            _ask_for_missing(p, w, intervals, f, u, node, low, high, NO_LIMIT)
            return
    else:
        if _ask_for_rest(p, w, f, node, NO_LIMIT):
            return
        store_records(
            w, arena, pool, intervals, w[f + VIEW_NUMBER], stride(p, node), w[f + MARK], w[f + COVER_LOW], w[f + COVER_HIGH]
        )
    n = 0
    if w[f + LIMIT] > 0:
        low, high, since, until, limit = w[f + LOW], w[f + HIGH], w[f + SINCE], w[f + UNTIL], w[f + LIMIT]
        n = fetch_records(w, arena, pool, intervals, w[f + VIEW_NUMBER], stride(p, node), low, high, since, until, limit)
    finish(w, n)


@kernel_part
def _ask_for_missing(p: Ints, w: Ints, intervals: Ints, f: int, u: int, node: int, low: int, high: int, limit: int) -> None:
    """Begin to compute what view u lacks of [low, high), and note what is to be computed after that."""
    since, until, w[f + AGAIN_LOW], w[f + AGAIN_SINCE] = missing(w, intervals, u, low, high, p[N_POSITIONS])
    w[f + COVER_HIGH], w[f + STAGE] = high, FIRST_PART
    call(w, COMPUTE, node, low, high, since, until, limit)


@kernel_part
def _ask_for_rest(p: Ints, w: Ints, f: int, node: int, limit: int) -> bool:
    """Begin to compute the second part of what is missing, if there is one."""
    if w[f + STAGE] == SECOND_PART or w[f + AGAIN_LOW] >= w[f + COVER_HIGH]:
        return False
    w[f + STAGE] = SECOND_PART
    call(w, COMPUTE, node, w[f + AGAIN_LOW], w[f + COVER_HIGH], w[f + AGAIN_SINCE], p[N_POSITIONS], limit)
    return True


# ---------------------------------------------------------------- negations


@inner_kernel
def _seek(p: Ints, w: Ints, arena: Ints, pool: Ints, intervals: Ints, f: int) -> None:
    """Whether a negated sub-query has an instance in its scope."""
    n = w[f + OF]
    node, place = negation(p, n, NEGATED_NODE), negation(p, n, NEGATED_PLACE)
    has_checks = word(p, CHECKS_AT, n) < word(p, CHECKS_AT, n + 1)
    is_plain = not has_checks and word(p, PLACES_AT, place) == word(p, PLACES_AT, place + 1)
    stage = w[f + STAGE]
    if stage == BEGIN:
        low, high = narrow_negation(p, w, n, w[f + LOW], w[f + HIGH])
        w[f + LOW], w[f + HIGH] = low, high
        if low >= high:
            finish(w, 0)
        elif word(p, KINDS, node) == SCAN:
            finish(w, _is_among_events(p, w, node, place, low, high))
        elif is_plain and word(p, MODES, node) == PASSIVE:
            _seek_by_flags(p, w, pool, intervals, f, node)
        else:
            w[f + STAGE] = FOUND
            ask(p, w, node, low, high, 0, p[N_POSITIONS], 1 if is_plain else NO_LIMIT)
    elif stage in (FIRST_PART, SECOND_PART):
        _seek_by_flags(p, w, pool, intervals, f, node)
    elif is_plain:
        w[TOP] = w[f + MARK]
        finish(w, min(w[RETURNED], 1))
    else:
        _seek_among_found(p, w, arena, f, node, place)


@kernel_part
def _is_among_events(p: Ints, w: Ints, node: int, place: int, low: int, high: int) -> int:
    variable = word(p, BASES, node)
    end = word(p, ROW_ENDS, variable)
    for i in range(at_or_after(p, word(p, ROW_BEGINS, variable), end, low), end):
        if p[i] >= high:
            break
        bind(w, variable, p[i])
        if holds(p, w, word(p, PLACES, node)) and holds(p, w, place):
            return 1
    return 0


@kernel_part
def _seek_by_flags(p: Ints, w: Ints, pool: Ints, intervals: Ints, f: int, node: int) -> None:
    """Passive views of negated sub-queries: intervals known to be empty, and intervals known not to be."""
    low, high = w[f + LOW], w[f + HIGH]
    if w[f + STAGE] == BEGIN:
        empty = view_of(p, w, node)
        w[f + VIEW_NUMBER] = empty
        if empty < 0 or is_inside(w, intervals, empty, low, high):
            finish(w, 0)
        elif contains_one(w, intervals, empty + view(p, node, VIEW_N_VALUES), low, high):
            finish(w, 1)
        else:
            _ask_for_missing(p, w, intervals, f, empty, node, low, high, 1)
        return
    found = min(w[RETURNED], 1)
    w[N_COMPUTED] += found
    w[TOP] = w[f + MARK]
    if found == 0 and _ask_for_rest(p, w, f, node, 1):
        return
    make_room(w, pool, intervals, 0)
    if found == 1:
        add_narrowest(w, intervals, w[f + VIEW_NUMBER] + view(p, node, VIEW_N_VALUES), low, high)
    else:
        add_widest(w, pool, intervals, w[f + VIEW_NUMBER], low, high, -1, -1)
    finish(w, found)


@kernel_part
def _seek_among_found(p: Ints, w: Ints, arena: Ints, f: int, node: int, place: int) -> None:
    """Look through the instances found for one that agrees with what is outside and is itself not cancelled."""
    n = w[f + OF]
    size = stride(p, node)
    if w[f + STAGE] == FOUND:
        w[f + OUT], w[f + STAGE] = w[f + MARK] - size, CHECKED
        is_cancelled = True  # there is none yet
    else:
        is_cancelled = w[RETURNED] == 1
    while True:
        if is_cancelled:  # the next instance
            w[f + OUT] += size
            if w[f + OUT] >= w[TOP]:
                break
            bind_record(p, w, arena, node, w[f + OUT])
            if not holds(p, w, place):
                continue
            w[f + NEXT] = word(p, CHECKS_AT, n)
        if w[f + NEXT] == word(p, CHECKS_AT, n + 1):
            w[TOP] = w[f + MARK]
            finish(w, 1)
            return
        w[f + NEXT] += 1
        call(w, SEEK, word(p, CHECKS, w[f + NEXT] - 1), w[f + LOW], w[f + HIGH], 0, 0, 0)
        return
    w[TOP] = w[f + MARK]
    finish(w, 0)


# ---------------------------------------------------------------- matches


@kernel
def find_matches(
    p: Ints, w: Ints, arena: Ints, pool: Ints, intervals: Ints, triggers: Ints, begin: int, enough: int, checked: bool
) -> int:
    """Matches that end with the triggers from number `begin` on, pushed until there are enough words; the next trigger's number.

    Where something was full, -1 less that number. Matches that wait are `checked` later.
    """
    p, w, arena, pool, intervals = borrowed(p), borrowed(w), borrowed(arena), borrowed(pool), borrowed(intervals)
    w[TOP] = 0
    for t in range(begin, len(triggers)):
        mark = w[TOP]
        if mark >= enough:
            return t
        w[FLOOR] = word(p, OLDEST, triggers[t])
        try:
            evaluate(p, w, arena, pool, intervals, COMPUTE, ROOT, w[FLOOR], triggers[t] + 1, triggers[t], p[N_POSITIONS], NO_LIMIT)
            if checked:
                _check_root(p, w, arena, pool, intervals, mark)
        except Exception:  # noqa: BLE001  # compiled loops know no other clause; `FULL` says what it was
            w[TOP] = mark
            return -t - 1
    return len(triggers)


@kernel
def check_matches(p: Ints, w: Ints, arena: Ints, pool: Ints, intervals: Ints, matches: Ints, begin: int, enough: int) -> int:
    """Push the matches (a row each) from number `begin` on that no negation cancels, as `find_matches` does."""
    p, w, arena, pool, intervals = borrowed(p), borrowed(w), borrowed(arena), borrowed(pool), borrowed(intervals)
    w[TOP] = 0
    for m in range(begin, len(matches)):
        mark = w[TOP]
        if mark >= enough:
            return m
        w[FLOOR] = word(p, OLDEST, matches[m, LAST])
        try:
            reserve(w, arena, matches.shape[1])
            for i in range(matches.shape[1]):
                arena[mark + i] = matches[m, i]
            w[TOP] = mark + matches.shape[1]
            _check_root(p, w, arena, pool, intervals, mark)
        except Exception:  # noqa: BLE001  # as above
            w[TOP] = mark
            return -m - 1
    return len(matches)


@kernel_part
def _check_root(p: Ints, w: Ints, arena: Ints, pool: Ints, intervals: Ints, mark: int) -> None:
    """Drop the matches from `mark` on that a negation cancels whose scope needs the whole match."""
    size = stride(p, ROOT)
    for c in range(p[N_ROOT_CHECKS]):
        n = word(p, ROOT_CHECKS, c)
        if has_first_pass(p, negation(p, n, NEGATED_NODE)):
            _cover_root(p, w, arena, pool, intervals, mark, n)
        out = mark
        for at in range(mark, w[TOP], size):
            bind_record(p, w, arena, ROOT, at)
            if evaluate(p, w, arena, pool, intervals, SEEK, n, w[FLOOR], _horizon(p, arena, at), 0, 0, 0) == 0:
                move_down(arena, at, out, size)
                out += size
        w[TOP] = out


@kernel_part
def _horizon(p: Ints, arena: Ints, at: int) -> int:
    """The first position behind the window that begins with a match."""
    return int(min(word(p, HORIZONS, arena[at + FIRST]), p[N_POSITIONS]))


@kernel_part
def _cover_root(p: Ints, w: Ints, arena: Ints, pool: Ints, intervals: Ints, mark: int, n: int) -> None:
    """Make the view of what negation n negates complete for all that the matches from `mark` on will ask."""
    node, end = negation(p, n, NEGATED_NODE), w[TOP]
    for at in range(mark, end, stride(p, ROOT)):
        bind_record(p, w, arena, ROOT, at)
        low, high = narrow_negation(p, w, n, w[FLOOR], _horizon(p, arena, at))
        add_request(p, w, arena, end, node, low, high)
    for at in range(end, w[TOP], REQUEST_WORDS):
        bind_request(p, w, arena, node, at)
        evaluate(p, w, arena, pool, intervals, VIEW, node, arena[at + FROM], arena[at + UPTO], 0, 0, 0)
    w[TOP] = end


# ---------------------------------------------------------------- the run


class Loops:
    """The loops over a program, and the memory they write to: as much as they turn out to need."""

    def __init__(self, work: Ints) -> None:
        self.store = Store(
            work, np.empty(1 << 16, np.int64), np.empty((2, 1 << 12), np.int64), np.empty((2, 64, INTERVAL_WORDS), np.int64)
        )
        self.peak_words = 0  # of the views

    @property
    def n_computed(self) -> int:
        """How many instances were computed for views so far."""
        return int(self.store.work[N_COMPUTED])

    @property
    def words(self) -> int:
        """What the views take."""
        return int(self.store.work[POOL_TOP] + INTERVAL_WORDS * self.store.work[INTERVAL_TOP])

    def run(self, loop: Callable[[Store, int, int], int], n: int, width: int, budget: Budget) -> Iterator[Ints]:
        """Records (a row each), in pieces, of items 0 .. n; `loop` takes those from one number to another, as far as it gets."""
        done, at_once = 0, 64
        while done < n:
            began = perf_counter()
            work = self.store.work
            work[FULL] = NOTHING
            with budget.bell(work[RUNG : RUNG + 1]):
                reached = loop(self.store, done, min(n, done + at_once))
            at_once = 2 * at_once if perf_counter() - began < SECONDS else max(1, at_once // 2)
            done = -reached - 1 if reached < 0 else reached
            self.peak_words = max(self.peak_words, int(work[PEAK]), self.words)
            records = self.store.arena[: work[TOP]].reshape(-1, width).copy()
            if reached < 0:
                assert work[FULL] != NOTHING, "a loop failed, and not because something was full"
                budget.need(2 * sum(array.nbytes for array in self.store))
                self._grow()
            if len(records):
                yield records

    def _grow(self) -> None:
        """Twice the room where there was none left; what views hold stays."""
        work, arena, pool, intervals = self.store
        if work[FULL] == ARENA:
            arena = np.empty(2 * len(arena), np.int64)
        elif work[FULL] == POOL:
            pool = _wider(pool)
        elif work[FULL] == INTERVALS:
            intervals = _wider(intervals)
        self.store = Store(work, arena, pool, intervals)


def _wider(halves: Ints) -> Ints:
    wide = np.empty((2, 2 * halves.shape[1], *halves.shape[2:]), np.int64)
    wide[:, : halves.shape[1]] = halves
    return wide


def passing(rest: Sequence[Guarded], piece: Instances, evaluator: Evaluator) -> Instances:
    """The matches that pass what no loop can test."""
    for guarded in rest:
        true = evaluator.true([guarded.predicate], piece.rows, len(piece))
        if guarded.when:
            true |= ~np.logical_or.reduce([is_bound(piece.rows[name]) for name in sorted(guarded.when)])
        piece = piece.select(true)
    return piece


class NestedEvaluation:
    """One nested plan over one batch; `upto` and `after` restrict the matches by the time of their end (after, upto]."""

    def __init__(self, plan: MatchPlan, batch: Batch, after: int = LOWEST, upto: int = HIGHEST) -> None:
        self._plan, self._batch = plan, batch
        self._ends = (after, upto)
        self.evaluator = Evaluator(batch.events)
        self.peak_words = 0  # of the views

    def matches(self) -> Iterator[Instances]:
        """The matches, in pieces."""
        tables = Tables(self._plan)
        loaded = LoadedBatch(tables, self._batch, self.evaluator, self._plan.types)
        program, loops = loaded.positions.program, Loops(tables.work(loaded.n_values))
        triggers = self._triggers(tables, loaded)

        def find(store: Store, begin: int, end: int) -> int:
            return find_matches(program, *store, triggers[:end], begin, PIECE, True)

        names = self._plan.variables
        for records in loops.run(find, len(triggers), len(names) + MEMBERS, self._batch.budget):
            self.peak_words = loops.peak_words
            rows = np.where(records < 0, UNBOUND, loaded.order[records]).T
            piece = Instances(dict(zip(names, rows[MEMBERS:], strict=True)), rows[FIRST], rows[LAST])
            piece = passing(tables.rest, piece, self.evaluator)
            if len(piece):
                yield piece
        self.peak_words = loops.peak_words

    def _triggers(self, tables: Tables, loaded: LoadedBatch) -> Ints:
        """Positions of events that may be the last of a match and whose time lies in (after, upto]."""
        positions = np.unique(np.concatenate([loaded.positions.rows(variable) for variable in tables.last]))
        times = self._batch.events.times[loaded.order[positions]]
        chosen: Ints = positions[(times > self._ends[0]) & (times <= self._ends[1])]
        return chosen
