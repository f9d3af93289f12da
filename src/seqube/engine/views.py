"""Nested evaluation as published: outer results first, then their sub-queries in a tightened interval, with or without views.

Everything is a position: the events that matter, sorted by partition and time, and numbered. An instance is the positions of its
variables; "before" and "within the window" are look-ups in four arrays (`Program.begins`, `afters`, `oldest`, `horizons`), so
every interval of the papers is a half-open range of positions `[low, high)`, whatever clock the window uses.

`evaluate` is one recursive loop with four entries, since only a function that calls nothing but itself can be compiled and cached:

    COMPUTE    the instances of a node in an interval, from scratch: own events, then children for each of these own results
    RESULTS    the same for a sub-query, by its strategy: from scratch (iterative), or out of its view after COVER
    COVER      see to it that a view is complete for an interval, by computing what is missing
    CANCELLED  whether a negated sub-query has an instance in its scope

Records lie behind each other on one arena: first and last position, then one position per variable (-1: OR branch not taken).

A view is a sorted list of intervals for which it is complete, none inside another, so both their ends ascend (that is the interval
index: every question is a binary search), each with a chain of records. An instance is stored once: under the first interval that
needed it. What is missing for an interval is at most two rectangles in the plane of (first, last):

    contained in one       nothing                       overlaps on its right   last beyond that one's end
    overlaps on its left   first before that one's begin contains it             both
    disjoint               everything

`aggressive` asks for everything from the window's begin, so it has one growing interval; `passive` asks for exactly the query
interval; `balanced` joins the query intervals of all results of a trigger that overlap, and grows the interval that is there.
A negated sub-query without further conditions keeps, when passive, no records but two such lists: intervals known to be empty
(the widest) and intervals known not to be (the narrowest). A correlated equality gives a view per value.

Cost: iterative, per outer result, the instances of its children in their interval; with views, each such instance once per
interval that needs it, plus a walk over the stored records that overlap. Invariant: an interval of a view holds, directly or under
an earlier overlapping interval, every instance inside it that begins no earlier than the window of the present trigger.

    Paper                   | Here
    WinSeq, WinAnd, WinOr   | SEQUENCE, CONJUNCTION, ALTERNATIVES
    selfCompute             | the first phase of COMPUTE (`_own_results`)
    Query-Interval          | low, high of RESULTS and CANCELLED
    View-Interval           | Store.intervals
    ViewUpdate              | COVER
    purge                   | _collect
    delayed constraint      | a check of the root or of the enclosing negation, not of the node
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from seqube.engine.jit import kernel, recursive_kernel
from seqube.engine.predicates import NULL, Ints

SCAN, SEQUENCE, CONJUNCTION, ALTERNATIVES = range(4)
ITERATIVE, AGGRESSIVE, PASSIVE, BALANCED = range(4)
COMPUTE, RESULTS, COVER, CANCELLED = range(4)
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
def _holds(p: Ints, s: Store, place: int) -> bool:
    """Whether all clauses of a place hold for the present bindings."""
    for c in range(p[p[PLACES_AT] + place], p[p[PLACES_AT] + place + 1]):
        clause = p[p[PLACED] + c]
        begin, end = p[p[GUARDS] + 2 * clause], p[p[GUARDS] + 2 * clause + 1]
        if begin >= 0 and not _any_bound(s, begin, end):
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
def _any_bound(s: Store, begin: int, end: int) -> bool:
    for v in range(begin, end):  # noqa: SIM110  # compiled
        if s.work[s.work[BOUND] + v] >= 0:
            return True
    return False


@kernel
def _last_bound(s: Store, begin: int, end: int) -> int:
    last = -1
    for v in range(begin, end):
        last = max(last, s.work[s.work[BOUND] + v])
    return last


@kernel
def _first_bound(s: Store, begin: int, end: int) -> int:
    first = NO_LIMIT
    for v in range(begin, end):
        if s.work[s.work[BOUND] + v] >= 0:
            first = min(first, s.work[s.work[BOUND] + v])
    return first


@kernel
def _at_or_after(rows: Ints, begin: int, end: int, bound: int) -> int:
    while begin < end:
        middle = (begin + end) // 2
        if rows[middle] < bound:
            begin = middle + 1
        else:
            end = middle
    return begin


# ---------------------------------------------------------------- memory


@kernel
def _reserve(s: Store, words: int) -> None:
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
def _make_room(s: Store, words: int) -> None:
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
def _preceding(s: Store, u: int, low: int) -> int:
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
def _interval_of(s: Store, u: int, i: int, which: int) -> int:
    return int(s.intervals[s.work[HALF], s.work[s.work[SLABS] + 4 * u + 0] + i, which])


@kernel
def _is_inside(s: Store, u: int, low: int, high: int) -> bool:
    """Whether one interval of the view contains [low, high): the one with the largest begin has the largest end."""
    i = _preceding(s, u, low)
    return i >= 0 and _interval_of(s, u, i, 1) >= high


@kernel
def _put(s: Store, u: int, i: int, n_replaced: int, low: int, high: int, head: int, tail: int) -> None:
    """Write an interval at index i of a view, in place of `n_replaced` others. There is room (`_make_room`)."""
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
def _add_widest(s: Store, u: int, low: int, high: int, head: int, tail: int) -> None:
    """Add an interval that none contains; those it contains give it their records (before its own) and go."""
    half = s.work[HALF]
    i = _preceding(s, u, low - 1) + 1
    n = 0
    while i + n < s.work[s.work[SLABS] + 4 * u + 1] and _interval_of(s, u, i + n, 1) <= high:
        n += 1
    for j in range(i + n - 1, i - 1, -1):
        first, last = _interval_of(s, u, j, 2), _interval_of(s, u, j, 3)
        if first >= 0:
            if head >= 0:
                s.pool[half, last] = head
            else:
                tail = last
            head = first
    _put(s, u, i, n, low, high, head, tail)


@kernel
def _add_narrowest(s: Store, u: int, low: int, high: int) -> None:
    """Add an interval that contains none; those that contain it go."""
    i = _preceding(s, u, low) + 1
    n = 0
    while i - n - 1 >= 0 and _interval_of(s, u, i - n - 1, 1) >= high:
        n += 1
    _put(s, u, i - n, n, low, high, -1, -1)


@kernel
def _store(s: Store, u: int, stride: int, mark: int, low: int, high: int) -> None:
    """Move the records from `mark` on into the view, as those of the interval [low, high), unless an interval has them."""
    arena = s.arena
    end = s.work[TOP]
    _make_room(s, (end - mark) // stride * (stride + 2) + 4 * s.work[s.work[SLABS] + 4 * u + 1])
    half, pool = s.work[HALF], s.pool
    head, tail = -1, -1
    for at in range(mark, end, stride):
        if _is_inside(s, u, arena[at], arena[at + 1] + 1):
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
    _add_widest(s, u, low, high, head, tail)


@kernel
def _fetch(s: Store, u: int, stride: int, low: int, high: int, since: int, until: int, limit: int) -> int:
    """Push the view's records inside [low, high) that end at `since` or later and begin before `until`; how many, up to a limit."""
    half, pool, arena = s.work[HALF], s.pool, s.arena
    n = 0
    i = max(_preceding(s, u, low), 0)
    while i > 0 and _interval_of(s, u, i - 1, 1) > low:
        i -= 1
    while i < s.work[s.work[SLABS] + 4 * u + 1] and _interval_of(s, u, i, 0) < high:
        record = _interval_of(s, u, i, 2)
        while record >= 0:
            first, last = pool[half, record + 2], pool[half, record + 3]
            if first >= low and last < high and last >= since and first < until:
                _reserve(s, stride)
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
def _view_of(p: Ints, s: Store, node: int) -> int:
    """The view that serves the present outer value; -1 where that value is null, so that nothing equals it."""
    variable = p[p[VIEWS] + 4 * node + 2]
    if variable < 0:
        return int(p[p[VIEWS] + 4 * node])
    position = s.work[s.work[BOUND] + variable]
    if position < 0:
        return -1
    code = p[p[CODES] + p[p[VIEWS] + 4 * node + 3] + position]
    return p[p[VIEWS] + 4 * node] + code if code >= 0 else -1


# ---------------------------------------------------------------- own results


@kernel
def _own_results(p: Ints, s: Store, node: int, low: int, high: int, since: int, until: int) -> None:
    """Push the positions of a node's single events, for every way to choose them: a walk of nested ranges."""
    begin, n_own = p[p[OWN_AT] + node], p[p[OWN_AT] + node + 1] - p[p[OWN_AT] + node]
    is_sequence = p[p[KINDS] + node] == SEQUENCE
    frame = s.work[FRAME]  # the present index of every level; nothing below calls back
    level = 0
    s.work[s.work[FRAMES] + frame] = -1
    while level >= 0:
        variable, flags = p[p[OWN] + 3 * (begin + level)], p[p[OWN] + 3 * (begin + level) + 2]
        least, bound = low, high
        if is_sequence:
            if level > 0:
                bound = p[p[BEGINS] + s.work[s.work[BOUND] + p[p[OWN] + 3 * (begin + level - 1)]]]
            if flags & 2:
                least = max(least, since)
            if flags & 1:
                bound = min(bound, until)
        i = s.work[s.work[FRAMES] + frame + level]
        i = _at_or_after(p, p[p[ROWS_AT] + variable], p[p[ROWS_AT] + variable + 1], least) if i < 0 else i + 1
        s.work[s.work[FRAMES] + frame + level] = i
        if i >= p[p[ROWS_AT] + variable + 1] or p[i] >= bound:
            level -= 1
            continue
        s.work[s.work[BOUND] + variable] = p[i]
        if not is_sequence:
            twice = False
            for other in range(level):
                twice = twice or s.work[s.work[BOUND] + p[p[OWN] + 3 * (begin + other)]] == p[i]
            if twice:
                continue
        if not _holds(p, s, p[p[OWN] + 3 * (begin + level) + 1]):
            continue
        if level < n_own - 1:
            level += 1
            s.work[s.work[FRAMES] + frame + level] = -1
            continue
        _reserve(s, n_own)
        for j in range(n_own):
            s.arena[s.work[TOP] + j] = s.work[s.work[BOUND] + p[p[OWN] + 3 * (begin + j)]]
        s.work[TOP] += n_own


@kernel
def _narrow_kid(p: Ints, s: Store, kid: int, low: int, high: int) -> tuple[int, int]:
    """The query interval of a child: between its neighbours among the own events, else as inherited."""
    left, right = p[p[KIDS] + 6 * kid + 2], p[p[KIDS] + 6 * kid + 3]
    if left >= 0:
        low = p[p[AFTERS] + s.work[s.work[BOUND] + left]]
    if right >= 0:
        high = p[p[BEGINS] + s.work[s.work[BOUND] + right]]
    return low, high


@kernel
def _narrow_negation(p: Ints, s: Store, negation: int, low: int, high: int) -> tuple[int, int]:
    """The scope of a negation; empty where the OR branch that it stands in was not taken."""
    about = p[NEGATIONS] + 10 * negation
    if p[about + 8] >= 0 and not _any_bound(s, p[about + 8], p[about + 9]):
        return 0, 0
    if p[about + 2] >= 0:
        low = p[p[AFTERS] + _last_bound(s, p[about + 2], p[about + 3])]
    if p[about + 4] >= 0:
        high = p[p[BEGINS] + _first_bound(s, p[about + 4], p[about + 5])]
    if p[about + 6] >= 0:
        last = _last_bound(s, p[about + 6], p[about + 7])
        low, high = max(low, p[p[OLDEST] + last]), min(high, p[p[AFTERS] + last])
    return low, high


@kernel
def _shares_position(s: Store, begin: int, end: int, base: int, width: int) -> bool:
    """Whether a variable of `base` .. is bound to the same event as one of begin .. end (which may include those)."""
    for v in range(base, base + width):
        if s.work[s.work[BOUND] + v] >= 0:
            for w in range(begin, end):
                if (w < base or w >= base + width) and s.work[s.work[BOUND] + w] == s.work[s.work[BOUND] + v]:
                    return True
    return False


@kernel
def _merge_request(s: Store, mark: int, u: int, low: int, high: int) -> None:
    """Join an interval of view u into the requests (u, low, high) from `mark` on: one that it overlaps grows."""
    arena = s.arena
    for at in range(mark, s.work[TOP], 3):
        if arena[at] == u and low <= arena[at + 2] and arena[at + 1] <= high:
            arena[at + 1], arena[at + 2] = min(arena[at + 1], low), max(arena[at + 2], high)
            return
    _reserve(s, 3)
    top = s.work[TOP]
    arena[top], arena[top + 1], arena[top + 2] = u, low, high
    s.work[TOP] = top + 3


# ---------------------------------------------------------------- evaluation


@recursive_kernel
def evaluate(p: Ints, s: Store, entry: int, k: int, low: int, high: int, since: int, until: int, limit: int) -> int:
    """See the module's text. `k` is a node, or for CANCELLED a negation.

    COMPUTE and RESULTS push instances that lie in [low, high), end at `since` or later and begin before `until`, and return how
    many; they may stop at `limit`. COVER takes the view as `since`, and as `until` whether intervals that are there may grow.
    """
    arena = s.arena
    n_positions = p[N_POSITIONS]
    # A constant counts as a type of its own, for which this function would be compiled once more.
    compute, results, cover, cancelled = (
        int(np.int64(COMPUTE)),
        int(np.int64(RESULTS)),
        int(np.int64(COVER)),
        int(np.int64(CANCELLED)),
    )
    none, one, no_limit = int(np.int64(0)), int(np.int64(1)), int(np.int64(NO_LIMIT))
    mark = s.work[TOP]
    if entry == CANCELLED:
        node, place = p[p[NEGATIONS] + 10 * k], p[p[NEGATIONS] + 10 * k + 1]
        low, high = _narrow_negation(p, s, k, low, high)
        if low >= high:
            return 0
        if p[p[KINDS] + node] == SCAN:
            variable = p[p[BASES] + node]
            end = p[p[ROWS_AT] + variable + 1]
            for i in range(_at_or_after(p, p[p[ROWS_AT] + variable], end, low), end):
                if p[i] >= high:
                    break
                s.work[s.work[BOUND] + variable] = p[i]
                if _holds(p, s, p[p[PLACES] + node]) and _holds(p, s, place):
                    return 1
            return 0
        is_plain = p[p[CHECKS_AT] + k] == p[p[CHECKS_AT] + k + 1] and p[p[PLACES_AT] + place] == p[p[PLACES_AT] + place + 1]
        if is_plain and p[p[MODES] + node] == PASSIVE:
            u = _view_of(p, s, node)
            if u < 0:
                return 0
            known = u + p[p[VIEWS] + 4 * node + 1]  # the intervals known to hold something; those of u hold nothing
            i = _preceding(s, known, low - 1) + 1
            if i < s.work[s.work[SLABS] + 4 * known + 1] and _interval_of(s, known, i, 1) <= high:
                return 1
            if _is_inside(s, u, low, high):
                return 0
            i = _preceding(s, u, low)
            j = i + 1
            if i >= 0 and _interval_of(s, u, i, 1) > low:
                found = evaluate(p, s, compute, node, low, high, _interval_of(s, u, i, 1), n_positions, one)
            elif j < s.work[s.work[SLABS] + 4 * u + 1] and _interval_of(s, u, j, 0) < high:
                begin, end = _interval_of(s, u, j, 0), _interval_of(s, u, j, 1)
                found = evaluate(p, s, compute, node, low, high, none, begin, one)
                if found == 0 and end < high:
                    found = evaluate(p, s, compute, node, begin, high, end, n_positions, one)
            else:
                found = evaluate(p, s, compute, node, low, high, none, n_positions, one)
            s.work[TOP] = mark
            _make_room(s, 0)
            if found > 0:
                _add_narrowest(s, known, low, high)
                return 1
            _add_widest(s, u, low, high, -1, -1)
            return 0
        found = evaluate(p, s, results, node, low, high, none, n_positions, one if is_plain else no_limit)
        if is_plain:
            s.work[TOP] = mark
            return min(found, 1)
        stride = p[p[WIDTHS] + node] + 2
        for at in range(mark, s.work[TOP], stride):
            for v in range(stride - 2):
                s.work[s.work[BOUND] + p[p[BASES] + node] + v] = arena[at + 2 + v]
            if not _holds(p, s, place):
                continue
            stands = True
            for c in range(p[p[CHECKS_AT] + k], p[p[CHECKS_AT] + k + 1]):
                if evaluate(p, s, cancelled, p[p[CHECKS] + c], low, high, none, none, none) == 1:
                    stands = False
                    break
            if stands:
                s.work[TOP] = mark
                return 1
        s.work[TOP] = mark
        return 0

    stride = p[p[WIDTHS] + k] + 2
    if entry == RESULTS:
        if p[p[MODES] + k] == ITERATIVE or p[p[KINDS] + k] == SCAN:
            return evaluate(p, s, compute, k, low, high, since, until, limit)
        u = _view_of(p, s, k)
        if u < 0 or low >= high:
            return 0
        if p[p[MODES] + k] == AGGRESSIVE:
            evaluate(p, s, cover, k, s.work[FLOOR], high, u, one, none)
        else:
            evaluate(p, s, cover, k, low, high, u, one if p[p[MODES] + k] == BALANCED else none, none)
        return _fetch(s, u, stride, low, high, since, until, limit)

    if entry == COVER:
        u, grows = since, until
        if _is_inside(s, u, low, high):
            return 0
        i = _preceding(s, u, low)
        if grows:
            j = max(i, 0)
            while j < s.work[s.work[SLABS] + 4 * u + 1] and _interval_of(s, u, j, 0) <= high:
                if _interval_of(s, u, j, 1) >= low:
                    low = min(low, max(_interval_of(s, u, j, 0), s.work[FLOOR]))
                    high = max(high, _interval_of(s, u, j, 1))
                j += 1
            i = _preceding(s, u, low)
        j = i + 1
        if i >= 0 and _interval_of(s, u, i, 1) > low:
            evaluate(p, s, compute, k, low, high, _interval_of(s, u, i, 1), n_positions, no_limit)
        elif j < s.work[s.work[SLABS] + 4 * u + 1] and _interval_of(s, u, j, 0) < high:
            begin, end = _interval_of(s, u, j, 0), _interval_of(s, u, j, 1)
            evaluate(p, s, compute, k, low, high, none, begin, no_limit)
            if end < high:
                evaluate(p, s, compute, k, begin, high, end, n_positions, no_limit)
        else:
            evaluate(p, s, compute, k, low, high, none, n_positions, no_limit)
        _store(s, u, stride, mark, low, high)
        return 0

    # COMPUTE
    if low >= high:
        return 0
    base = p[p[BASES] + k]
    n_found = 0
    if p[p[KINDS] + k] == SCAN:
        end = p[p[ROWS_AT] + base + 1]
        for i in range(_at_or_after(p, p[p[ROWS_AT] + base], end, max(low, since)), end):
            if p[i] >= min(high, until):
                break
            s.work[s.work[BOUND] + base] = p[i]
            if _holds(p, s, p[p[PLACES] + k]):
                _reserve(s, 3)
                top = s.work[TOP]
                arena[top], arena[top + 1], arena[top + 2] = p[i], p[i], p[i]
                s.work[TOP] = top + 3
                n_found += 1
        return n_found

    if p[p[KINDS] + k] == ALTERNATIVES:
        for b in range(p[p[KIDS_AT] + k], p[p[KIDS_AT] + k + 1]):
            branch = p[p[KIDS] + 6 * b]
            begin = s.work[TOP]
            width = p[p[WIDTHS] + branch]
            n = evaluate(p, s, results, branch, low, high, since, until, no_limit)
            _reserve(s, n * (stride - width - 2))
            # The records grow to the width of the whole OR, from the last one backwards; then those that fail it go.
            shift = p[p[BASES] + branch] - base
            for r in range(n - 1, -1, -1):
                source, target = begin + r * (width + 2), begin + r * stride
                for v in range(width - 1, -1, -1):
                    arena[target + 2 + shift + v] = arena[source + 2 + v]
                first, last = arena[source], arena[source + 1]
                arena[target], arena[target + 1] = first, last
                for v in range(stride - 2):
                    if v < shift or v >= shift + width:
                        arena[target + 2 + v] = -1
            write = begin
            for r in range(n):
                at = begin + r * stride
                for v in range(stride - 2):
                    s.work[s.work[BOUND] + base + v] = arena[at + 2 + v]
                if _holds(p, s, p[p[PLACES] + k]):
                    for word in range(stride):
                        arena[write + word] = arena[at + word]
                    write += stride
                    n_found += 1
            s.work[TOP] = write
        return n_found

    is_sequence = p[p[KINDS] + k] == SEQUENCE
    own_begin, n_own = p[p[OWN_AT] + k], p[p[OWN_AT] + k + 1] - p[p[OWN_AT] + k]
    kid_begin, n_kids = p[p[KIDS_AT] + k], p[p[KIDS_AT] + k + 1] - p[p[KIDS_AT] + k]
    frame = s.work[FRAME]
    if n_own > 0:
        _own_results(p, s, k, low, high, since, until)
        n_results = (s.work[TOP] - mark) // n_own
    else:
        n_results = 1
    own_end = s.work[TOP]
    s.work[FRAME] = frame + 3 * n_kids

    # Balanced children: the intervals that all own results ask for, joined where they overlap, are made ready at once.
    for c in range(kid_begin, kid_begin + n_kids):
        if p[p[MODES] + p[p[KIDS] + 6 * c]] == BALANCED:
            for r in range(n_results):
                for j in range(n_own):
                    s.work[s.work[BOUND] + p[p[OWN] + 3 * (own_begin + j)]] = arena[mark + r * n_own + j]
                begin, end = _narrow_kid(p, s, c, low, high)
                u = _view_of(p, s, p[p[KIDS] + 6 * c])
                if begin < end and u >= 0:
                    _merge_request(s, own_end, u, begin, end)
            n_requests = (s.work[TOP] - own_end) // 3
            for r in range(n_requests):
                at = own_end + 3 * r
                if p[p[VIEWS] + 4 * p[p[KIDS] + 6 * c] + 2] < 0:
                    evaluate(p, s, cover, p[p[KIDS] + 6 * c], arena[at + 1], arena[at + 2], arena[at], one, none)
            s.work[TOP] = own_end
    for g in range(p[p[GAPS_AT] + k], p[p[GAPS_AT] + k + 1]):
        negation = p[p[GAPS] + 2 * g]
        node = p[p[NEGATIONS] + 10 * negation]
        if (
            p[p[GAPS] + 2 * g + 1] == 0
            and p[p[MODES] + node] == BALANCED
            and p[p[KINDS] + node] != SCAN
            and p[p[VIEWS] + 4 * node + 2] < 0
        ):
            for r in range(n_results):
                for j in range(n_own):
                    s.work[s.work[BOUND] + p[p[OWN] + 3 * (own_begin + j)]] = arena[mark + r * n_own + j]
                begin, end = _narrow_negation(p, s, negation, low, high)
                if begin < end:
                    _merge_request(s, own_end, p[p[VIEWS] + 4 * node], begin, end)
            n_requests = (s.work[TOP] - own_end) // 3
            for r in range(n_requests):
                at = own_end + 3 * r
                evaluate(p, s, cover, node, arena[at + 1], arena[at + 2], arena[at], one, none)
            s.work[TOP] = own_end

    out = own_end  # the instances found so far lie from own_end to here
    for r in range(n_results):
        for j in range(n_own):
            s.work[s.work[BOUND] + p[p[OWN] + 3 * (own_begin + j)]] = arena[mark + r * n_own + j]
        stands = True
        for g in range(p[p[GAPS_AT] + k], p[p[GAPS_AT] + k + 1]):
            if p[p[GAPS] + 2 * g + 1] == 0 and evaluate(p, s, cancelled, p[p[GAPS] + 2 * g], low, high, none, none, none) == 1:
                stands = False
                break
        if not stands:
            continue
        # Children, each computed once for this own result.
        for c in range(n_kids):
            child, flags = p[p[KIDS] + 6 * (kid_begin + c)], p[p[KIDS] + 6 * (kid_begin + c) + 5]
            begin, end = _narrow_kid(p, s, kid_begin + c, low, high)
            s.work[s.work[FRAMES] + frame + 3 * c] = s.work[TOP]
            n = evaluate(
                p,
                s,
                results,
                child,
                begin,
                end,
                since if is_sequence and flags & 2 else none,
                until if is_sequence and flags & 1 else n_positions,
                no_limit,
            )
            s.work[s.work[FRAMES] + frame + 3 * c + 1] = s.work[TOP]
            if n == 0:
                stands = False
                break
        if not stands:
            s.work[TOP] = out
            continue
        # The join: a counter per child, from left to right.
        joined = s.work[TOP]
        level = 0
        if n_kids > 0:
            s.work[s.work[FRAMES] + frame + 2] = s.work[s.work[FRAMES] + frame]
        while level >= 0:
            if level < n_kids:
                child = p[p[KIDS] + 6 * (kid_begin + level)]
                at = s.work[s.work[FRAMES] + frame + 3 * level + 2]
                if at >= s.work[s.work[FRAMES] + frame + 3 * level + 1]:
                    level -= 1
                    continue
                s.work[s.work[FRAMES] + frame + 3 * level + 2] = at + p[p[WIDTHS] + child] + 2
                for v in range(p[p[WIDTHS] + child]):
                    s.work[s.work[BOUND] + p[p[BASES] + child] + v] = arena[at + 2 + v]
                if is_sequence:
                    if p[p[KIDS] + 6 * (kid_begin + level) + 4] == 1:
                        previous = p[p[KIDS] + 6 * (kid_begin + level - 1)]
                        last = _last_bound(s, p[p[BASES] + previous], p[p[BASES] + previous] + p[p[WIDTHS] + previous])
                        if arena[at] < p[p[AFTERS] + last]:
                            continue
                else:
                    # Slots to the right may hold what an earlier result left there, so each side is looked at by itself.
                    twice = False
                    for j in range(n_own):
                        v = p[p[OWN] + 3 * (own_begin + j)]
                        twice = twice or _shares_position(s, v, v + 1, p[p[BASES] + child], p[p[WIDTHS] + child])
                    for j in range(level):
                        other = p[p[KIDS] + 6 * (kid_begin + j)]
                        twice = twice or _shares_position(
                            s,
                            p[p[BASES] + other],
                            p[p[BASES] + other] + p[p[WIDTHS] + other],
                            p[p[BASES] + child],
                            p[p[WIDTHS] + child],
                        )
                    if twice:
                        continue
                if not _holds(p, s, p[p[KIDS] + 6 * (kid_begin + level) + 1]):
                    continue
                level += 1
                if level < n_kids:
                    s.work[s.work[FRAMES] + frame + 3 * level + 2] = s.work[s.work[FRAMES] + frame + 3 * level]
                    continue
            first, last = _first_bound(s, base, base + stride - 2), _last_bound(s, base, base + stride - 2)
            level -= 1  # back to the last child; below zero where there is none
            if last < since or first >= until or not _holds(p, s, p[p[PLACES] + k]):
                continue
            stands = True
            for g in range(p[p[GAPS_AT] + k], p[p[GAPS_AT] + k + 1]):
                if p[p[GAPS] + 2 * g + 1] == 1 and evaluate(p, s, cancelled, p[p[GAPS] + 2 * g], low, high, none, none, none) == 1:
                    stands = False
                    break
            if stands:
                _reserve(s, stride)
                top = s.work[TOP]
                arena[top], arena[top + 1] = first, last
                for v in range(stride - 2):
                    arena[top + 2 + v] = s.work[s.work[BOUND] + base + v]
                s.work[TOP] = top + stride
                n_found += 1
                if n_found >= limit:
                    break
        # The children's results go, what was joined closes up.
        size = s.work[TOP] - joined
        for word in range(size):
            arena[out + word] = arena[joined + word]
        out += size
        s.work[TOP] = out
        if n_found >= limit:
            break
    s.work[FRAME] = frame
    size = out - own_end
    for word in range(size):
        arena[mark + word] = arena[own_end + word]
    s.work[TOP] = mark + size
    return n_found


@kernel
def find_matches(p: Ints, s: Store, triggers: Ints, begin: int, enough: int) -> int:
    """Matches that end with the triggers from number `begin` on, pushed until there are enough words; the next trigger's number."""
    root, n_positions = int(np.int64(0)), p[N_POSITIONS]
    compute, cancelled, none, no_limit = int(np.int64(COMPUTE)), int(np.int64(CANCELLED)), int(np.int64(0)), int(np.int64(NO_LIMIT))
    arena = s.arena
    stride = p[p[WIDTHS] + root] + 2
    s.work[TOP], s.work[FRAME] = 0, 0
    for t in range(begin, len(triggers)):
        trigger = triggers[t]
        mark = s.work[TOP]
        if mark >= enough:
            return t
        low = p[p[OLDEST] + trigger]
        s.work[FLOOR] = low
        try:
            evaluate(p, s, compute, root, low, trigger + 1, trigger, n_positions, no_limit)
            write = mark
            for at in range(mark, s.work[TOP], stride):
                for v in range(stride - 2):
                    s.work[s.work[BOUND] + p[p[BASES] + root] + v] = arena[at + 2 + v]
                stands = True
                for c in range(p[N_ROOT_CHECKS]):
                    if evaluate(p, s, cancelled, p[p[ROOT_CHECKS] + c], low, p[p[HORIZONS] + arena[at]], none, none, none) == 1:
                        stands = False
                        break
                if stands:
                    for word in range(stride):
                        arena[write + word] = arena[at + word]
                    write += stride
            s.work[TOP] = write
        except Exception:  # noqa: BLE001  # the only one there is: something is full
            s.work[TOP] = mark
            return -t - 1
    return len(triggers)
