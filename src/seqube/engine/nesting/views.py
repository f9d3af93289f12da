"""Views of sub-queries: intervals for which they are complete, chains of records, and the memory both live in.

A view is a sorted list of intervals (half-open ranges of positions, see `iterative`) for which it is complete, none inside another,
so both their ends ascend: that is the interval index, every question is a binary search. Each interval has a chain of records. An
instance is stored once: under the first interval that needed it. What is missing for an interval is at most two rectangles in the
plane of (first, last) position:

    contained in one       nothing                       overlaps on its right   last beyond that one's end
    overlaps on its left   first before that one's begin contains it             both
    disjoint               everything

`aggressive` asks for everything from the window's begin, so it has one growing interval; `passive` asks for exactly the query
interval; `balanced` joins the query intervals of all results of a trigger that overlap, and grows the interval that is there.
A negated sub-query without further conditions keeps, when passive, no records but two such lists: intervals known to be empty
(the widest) and intervals known not to be (the narrowest). A correlated equality gives a view per value.

Records and intervals lie in one half of their memory; purging copies what begins inside the window to the other half, each time
the views have doubled. So it costs no more than what was stored, and memory follows the window.

Cost: a binary search per question, plus a walk over the stored records that overlap. Invariant: an interval of a view holds,
directly or under an earlier overlapping one, every instance inside it that begins no earlier than the present trigger's window.

    Paper          | Here
    View-Interval  | Store.intervals
    isEmpty        | two lists of intervals: `add_widest` (empty), `add_narrowest` (not)
    purge          | _collect
    View size      | the register PEAK
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from seqube.engine.jit import kernel
from seqube.engine.predicates import NULL, Ints

SCAN, SEQUENCE, CONJUNCTION, ALTERNATIVES = range(4)
ITERATIVE, AGGRESSIVE, PASSIVE, BALANCED = range(4)
# The first words of `Store.work`: scalars that calls share, and where its other parts begin.
TOP, FRAME, FLOOR, POOL_TOP, HALF, INTERVAL_TOP, LIVE, PEAK, FULL, N_VIEWS, FRAMES, BOUND, SLABS, N_REGISTERS = range(14)
NO_LIMIT = np.iinfo(np.int64).max


class Program(NamedTuple):
    """A plan as tables. `x_at[k] .. x_at[k + 1]` is the range of k's entries in `x`.

    Loops get it as one array (`flattened`), because a call that hands on forty arrays costs more than what it does.
    """

    # positions
    begins: Ints  # the first position of the same time
    afters: Ints  # the first position of a later time
    oldest: Ints  # the first position inside the window that ends here
    horizons: Ints  # the first position outside the window that begins here
    rows_at: Ints  # per variable: its events
    rows: Ints
    # nodes
    kinds: Ints
    modes: Ints
    bases: Ints  # the first variable of a node; its variables are numbered on from there
    widths: Ints
    places: Ints  # clauses of the finished instance
    own_at: Ints  # slots that are single events: SEQ from right to left, AND from left to right
    own: Ints  # (n, 3): variable, place, flags (1: the first slot, 2: the last slot)
    kids_at: Ints  # slots (or branches) that are sub-queries, from left to right
    kids: Ints  # (n, 6): node, place, variable left of it, variable right of it, 1 if its left neighbour is a kid too, flags
    gaps_at: Ints
    gaps: Ints  # (n, 2): negation, 1 if it can be told only when the children are known
    # negations
    negations: Ints  # (n, 10): node, place, then begin and end of the variables: after, before, around, when; begin -1: none
    checks_at: Ints  # negations inside a negation that reach outside of it
    checks: Ints
    root_checks: Ints
    # views
    views: Ints  # per node: first view, number of values, variable of the outer value (-1: one view), base of its codes
    codes: Ints
    # clauses
    places_at: Ints
    placed: Ints
    guards: Ints  # (n, 2): begin and end of the variables of which one must be bound for the clause to apply; -1: always
    clauses_at: Ints
    atoms: Ints  # (n, 3): op, left side, right side
    sides_at: Ints
    sides: Ints  # (n, 2): variable (-1: constant), base of its values; the first bound one counts
    values: Ints


# Where the parts of a flattened program begin is written in its first words, in the order of `Program`.
(BEGINS, AFTERS, OLDEST, HORIZONS, ROWS_AT, ROWS, KINDS, MODES, BASES, WIDTHS, PLACES, OWN_AT, OWN, KIDS_AT, KIDS, GAPS_AT, GAPS,
 NEGATIONS, CHECKS_AT, CHECKS, ROOT_CHECKS, VIEWS, CODES, PLACES_AT, PLACED, GUARDS, CLAUSES_AT, ATOMS, SIDES_AT, SIDES, VALUES,
 N_POSITIONS, N_ROOT_CHECKS, N_WORDS) = range(34)  # fmt: skip


def flattened(program: Program) -> Ints:
    sizes = np.array([part.size for part in program], np.int64)
    offsets = N_WORDS + np.cumsum(sizes) - sizes
    moved = program._replace(rows_at=program.rows_at + offsets[ROWS])  # ranges of rows are ranges of the whole array
    counts = np.array([len(program.begins), len(program.root_checks)], np.int64)
    return np.concatenate([offsets, counts, *(part.ravel() for part in moved)])


class Store(NamedTuple):
    """What evaluation writes.

    `work` holds registers, frames of counters, the position that each variable is bound to (-1: none), and per view (`SLABS`) where
    its intervals begin, how many there are, room for how many, and 1 if they are those known not to be empty.
    """

    work: Ints
    arena: Ints
    pool: Ints  # (2, words): records of views in chains (next, size, first, last, positions), one half in use
    intervals: Ints  # (2, n, 4): low, high, first record, last record


# ---------------------------------------------------------------- clauses


@kernel
def _side(p: Ints, s: Store, side: int) -> int:
    first = p[p[SIDES_AT] + side]
    for i in range(first, p[p[SIDES_AT] + side + 1]):
        variable = p[p[SIDES] + 2 * i]
        if variable < 0:
            return int(p[p[VALUES] + p[p[SIDES] + 2 * i + 1]])
        if s.work[s.work[BOUND] + variable] >= 0:
            return int(p[p[VALUES] + p[p[SIDES] + 2 * i + 1] + s.work[s.work[BOUND] + variable]])
    # None is bound: the value that stands behind those of all positions.
    return int(p[p[VALUES] + p[p[SIDES] + 2 * first + 1] + p[N_POSITIONS]])


@kernel
def holds(p: Ints, s: Store, place: int) -> bool:
    """Whether all clauses of a place hold for the present bindings."""
    for c in range(p[p[PLACES_AT] + place], p[p[PLACES_AT] + place + 1]):
        clause = p[p[PLACED] + c]
        begin, end = p[p[GUARDS] + 2 * clause], p[p[GUARDS] + 2 * clause + 1]
        if begin >= 0 and not any_bound(s, begin, end):
            continue
        true = False
        for a in range(p[p[CLAUSES_AT] + clause], p[p[CLAUSES_AT] + clause + 1]):
            op = p[p[ATOMS] + 3 * a]
            left, right = _side(p, s, p[p[ATOMS] + 3 * a + 1]), _side(p, s, p[p[ATOMS] + 3 * a + 2])
            if left == NULL or right == NULL:
                continue
            if op == 0:
                true = left == right
            elif op == 1:
                true = left != right
            elif op == 2:
                true = left < right
            elif op == 3:
                true = left <= right
            elif op == 4:
                true = left > right
            else:
                true = left >= right
            if true:
                break
        if not true:
            return False
    return True


@kernel
def any_bound(s: Store, begin: int, end: int) -> bool:
    for v in range(begin, end):  # noqa: SIM110  # compiled
        if s.work[s.work[BOUND] + v] >= 0:
            return True
    return False


@kernel
def last_bound(s: Store, begin: int, end: int) -> int:
    last = -1
    for v in range(begin, end):
        last = max(last, s.work[s.work[BOUND] + v])
    return last


@kernel
def first_bound(s: Store, begin: int, end: int) -> int:
    first = NO_LIMIT
    for v in range(begin, end):
        if s.work[s.work[BOUND] + v] >= 0:
            first = min(first, s.work[s.work[BOUND] + v])
    return first


@kernel
def at_or_after(rows: Ints, begin: int, end: int, bound: int) -> int:
    while begin < end:
        middle = (begin + end) // 2
        if rows[middle] < bound:
            begin = middle + 1
        else:
            end = middle
    return begin


# ---------------------------------------------------------------- memory


@kernel
def reserve(s: Store, words: int) -> None:
    if s.work[TOP] + words > len(s.arena):
        s.work[FULL] = 0
        raise OverflowError("arena")


@kernel
def _collect(s: Store) -> None:
    """Purge: keep what begins inside the window of the present trigger, and close ranks."""
    half, floor = s.work[HALF], s.work[FLOOR]
    other = 1 - half
    top, n = 0, 0
    for u in range(s.work[N_VIEWS]):
        begin, count = s.work[s.work[SLABS] + 4 * u + 0], s.work[s.work[SLABS] + 4 * u + 1]
        kept = n
        for i in range(begin, begin + count):
            if s.intervals[half, i, 1] <= floor or (s.work[s.work[SLABS] + 4 * u + 3] == 1 and s.intervals[half, i, 0] < floor):
                continue
            head, tail = -1, -1
            record = s.intervals[half, i, 2]
            while record >= 0:
                size = s.pool[half, record + 1]
                if s.pool[half, record + 2] >= floor:
                    for word in range(1, size):
                        s.pool[other, top + word] = s.pool[half, record + word]
                    s.pool[other, top] = -1
                    if tail >= 0:
                        s.pool[other, tail] = top
                    else:
                        head = top
                    tail = top
                    top += size
                record = s.pool[half, record]
            s.intervals[other, n, 0] = max(s.intervals[half, i, 0], floor)
            s.intervals[other, n, 1] = s.intervals[half, i, 1]
            s.intervals[other, n, 2], s.intervals[other, n, 3] = head, tail
            n += 1
        s.work[s.work[SLABS] + 4 * u + 0], s.work[s.work[SLABS] + 4 * u + 1], s.work[s.work[SLABS] + 4 * u + 2] = (
            kept,
            n - kept,
            n - kept,
        )
    s.work[HALF], s.work[POOL_TOP], s.work[INTERVAL_TOP] = other, top, n
    s.work[LIVE] = top + 4 * n


@kernel
def make_room(s: Store, words: int) -> None:
    """Room for records and one more interval in the views, after a purge if much may have gone."""
    used = s.work[POOL_TOP] + 4 * s.work[INTERVAL_TOP]
    s.work[PEAK] = max(s.work[PEAK], used)
    if (
        used > 2 * s.work[LIVE] + 4096
        or s.work[POOL_TOP] + words > s.pool.shape[1]
        or 3 * s.work[INTERVAL_TOP] + 8 > s.intervals.shape[1]
    ):
        _collect(s)
    if s.work[POOL_TOP] + words > s.pool.shape[1]:
        s.work[FULL] = 1
        raise OverflowError("pool")
    if 3 * s.work[INTERVAL_TOP] + 8 > s.intervals.shape[1]:
        s.work[FULL] = 2
        raise OverflowError("intervals")


# ---------------------------------------------------------------- intervals of a view


@kernel
def preceding(s: Store, u: int, low: int) -> int:
    """The index of the last interval of view `u` that begins at or before `low`; -1 if none does."""
    intervals, half = s.intervals, s.work[HALF]
    begin, end = s.work[s.work[SLABS] + 4 * u + 0], s.work[s.work[SLABS] + 4 * u + 0] + s.work[s.work[SLABS] + 4 * u + 1]
    first = begin
    while begin < end:
        middle = (begin + end) // 2
        if intervals[half, middle, 0] <= low:
            begin = middle + 1
        else:
            end = middle
    return int(begin - first - 1)


@kernel
def interval_of(s: Store, u: int, i: int, which: int) -> int:
    return int(s.intervals[s.work[HALF], s.work[s.work[SLABS] + 4 * u + 0] + i, which])


@kernel
def is_inside(s: Store, u: int, low: int, high: int) -> bool:
    """Whether one interval of the view contains [low, high): the one with the largest begin has the largest end."""
    i = preceding(s, u, low)
    return i >= 0 and interval_of(s, u, i, 1) >= high


@kernel
def _put(s: Store, u: int, i: int, n_replaced: int, low: int, high: int, head: int, tail: int) -> None:
    """Write an interval at index i of a view, in place of `n_replaced` others. There is room (`make_room`)."""
    half, intervals = s.work[HALF], s.intervals
    begin, count, room = s.work[s.work[SLABS] + 4 * u + 0], s.work[s.work[SLABS] + 4 * u + 1], s.work[s.work[SLABS] + 4 * u + 2]
    if n_replaced == 0 and count == room:
        fresh = s.work[INTERVAL_TOP]
        for j in range(count):
            for which in range(4):
                intervals[half, fresh + j, which] = intervals[half, begin + j, which]
        begin, room = fresh, 2 * count + 2
        s.work[s.work[SLABS] + 4 * u + 0], s.work[s.work[SLABS] + 4 * u + 2] = begin, room
        s.work[INTERVAL_TOP] = fresh + room
    move = 1 - n_replaced
    if move == 1:
        for j in range(count - 1, i - 1, -1):
            for which in range(4):
                intervals[half, begin + j + 1, which] = intervals[half, begin + j, which]
    elif move < 0:
        for j in range(i + n_replaced, count):
            for which in range(4):
                intervals[half, begin + j + move, which] = intervals[half, begin + j, which]
    s.work[s.work[SLABS] + 4 * u + 1] = count + move
    intervals[half, begin + i, 0], intervals[half, begin + i, 1] = low, high
    intervals[half, begin + i, 2], intervals[half, begin + i, 3] = head, tail


@kernel
def add_widest(s: Store, u: int, low: int, high: int, head: int, tail: int) -> None:
    """Add an interval that none contains; those it contains give it their records (before its own) and go."""
    half = s.work[HALF]
    i = preceding(s, u, low - 1) + 1
    n = 0
    while i + n < s.work[s.work[SLABS] + 4 * u + 1] and interval_of(s, u, i + n, 1) <= high:
        n += 1
    for j in range(i + n - 1, i - 1, -1):
        first, last = interval_of(s, u, j, 2), interval_of(s, u, j, 3)
        if first >= 0:
            if head >= 0:
                s.pool[half, last] = head
            else:
                tail = last
            head = first
    _put(s, u, i, n, low, high, head, tail)


@kernel
def add_narrowest(s: Store, u: int, low: int, high: int) -> None:
    """Add an interval that contains none; those that contain it go."""
    i = preceding(s, u, low) + 1
    n = 0
    while i - n - 1 >= 0 and interval_of(s, u, i - n - 1, 1) >= high:
        n += 1
    _put(s, u, i - n, n, low, high, -1, -1)


@kernel
def store_records(s: Store, u: int, stride: int, mark: int, low: int, high: int) -> None:
    """Move the records from `mark` on into the view, as those of the interval [low, high), unless an interval has them."""
    arena = s.arena
    end = s.work[TOP]
    make_room(s, (end - mark) // stride * (stride + 2) + 4 * s.work[s.work[SLABS] + 4 * u + 1])
    half, pool = s.work[HALF], s.pool
    head, tail = -1, -1
    for at in range(mark, end, stride):
        if is_inside(s, u, arena[at], arena[at + 1] + 1):
            continue
        record = s.work[POOL_TOP]
        s.work[POOL_TOP] = record + stride + 2
        pool[half, record], pool[half, record + 1] = -1, stride + 2
        for word in range(stride):
            pool[half, record + 2 + word] = arena[at + word]
        if tail >= 0:
            pool[half, tail] = record
        else:
            head = record
        tail = record
    s.work[TOP] = mark
    add_widest(s, u, low, high, head, tail)


@kernel
def fetch_records(s: Store, u: int, stride: int, low: int, high: int, since: int, until: int, limit: int) -> int:
    """Push the view's records inside [low, high) that end at `since` or later and begin before `until`; how many, up to a limit."""
    half, pool, arena = s.work[HALF], s.pool, s.arena
    n = 0
    i = max(preceding(s, u, low), 0)
    while i > 0 and interval_of(s, u, i - 1, 1) > low:
        i -= 1
    while i < s.work[s.work[SLABS] + 4 * u + 1] and interval_of(s, u, i, 0) < high:
        record = interval_of(s, u, i, 2)
        while record >= 0:
            first, last = pool[half, record + 2], pool[half, record + 3]
            if first >= low and last < high and last >= since and first < until:
                reserve(s, stride)
                top = s.work[TOP]
                for word in range(stride):
                    arena[top + word] = pool[half, record + 2 + word]
                s.work[TOP] = top + stride
                n += 1
                if n >= limit:
                    return n
            record = pool[half, record]
        i += 1
    return n


@kernel
def view_of(p: Ints, s: Store, node: int) -> int:
    """The view that serves the present outer value; -1 where that value is null, so that nothing equals it."""
    variable = p[p[VIEWS] + 4 * node + 2]
    if variable < 0:
        return int(p[p[VIEWS] + 4 * node])
    position = s.work[s.work[BOUND] + variable]
    if position < 0:
        return -1
    code = p[p[CODES] + p[p[VIEWS] + 4 * node + 3] + position]
    return p[p[VIEWS] + 4 * node] + code if code >= 0 else -1
