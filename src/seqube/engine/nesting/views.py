"""Views of sub-queries: intervals for which they are complete, chains of records, and the memory both live in.

A view is a sorted list of intervals (half-open ranges of positions, see `program`) for which it is complete, none inside another,
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
    Figure 13      | `missing`: the kinds of overlap
"""

from __future__ import annotations

from seqube.engine.jit import kernel
from seqube.engine.nesting.program import (
    CODES,
    FIRST,
    FLOOR,
    FULL,
    HALF,
    INTERVAL_TOP,
    INTERVALS,
    LAST,
    LIVE,
    N_VIEWS,
    PEAK,
    POOL,
    POOL_TOP,
    SLAB_BEGIN,
    SLAB_COUNT,
    SLAB_IS_NARROW,
    SLAB_ROOM,
    SLAB_WORDS,
    SLABS,
    TOP,
    VIEW_CODES,
    VIEW_FIRST,
    VIEW_VARIABLE,
    Store,
    bound,
    reserve,
    view,
    word,
)
from seqube.engine.predicates import Ints

BEGIN, END, HEAD, TAIL, INTERVAL_WORDS = range(5)  # of an interval: its bounds, the first and the last record of its chain
NEXT, SIZE, RECORD = range(3)  # of a record in the pool


@kernel
def slab(s: Store, u: int, field: int) -> int:
    """A word about view `u`."""
    return int(s.work[s.work[SLABS] + SLAB_WORDS * u + field])


@kernel
def _set_slab(s: Store, u: int, begin: int, count: int, room: int) -> None:
    at = s.work[SLABS] + SLAB_WORDS * u
    s.work[at + SLAB_BEGIN], s.work[at + SLAB_COUNT], s.work[at + SLAB_ROOM] = begin, count, room


# ---------------------------------------------------------------- memory


@kernel
def _collect(s: Store) -> None:
    """Purge: keep what begins inside the window of the present trigger, and close ranks."""
    half, floor = s.work[HALF], s.work[FLOOR]
    other = 1 - half
    old, new = s.intervals[half], s.intervals[other]
    records, kept_records = s.pool[half], s.pool[other]
    top, n = 0, 0
    for u in range(s.work[N_VIEWS]):
        begin, is_narrow = slab(s, u, SLAB_BEGIN), slab(s, u, SLAB_IS_NARROW) == 1
        first = n
        for i in range(begin, begin + slab(s, u, SLAB_COUNT)):
            if old[i, END] <= floor or (is_narrow and old[i, BEGIN] < floor):
                continue
            head, tail = -1, -1
            record = old[i, HEAD]
            while record >= 0:
                if records[record + RECORD + FIRST] >= floor:
                    size = records[record + SIZE]
                    for w in range(SIZE, size):
                        kept_records[top + w] = records[record + w]
                    kept_records[top + NEXT] = -1
                    if tail >= 0:
                        kept_records[tail + NEXT] = top
                    else:
                        head = top
                    tail = top
                    top += size
                record = records[record + NEXT]
            new[n, BEGIN], new[n, END] = max(old[i, BEGIN], floor), old[i, END]
            new[n, HEAD], new[n, TAIL] = head, tail
            n += 1
        _set_slab(s, u, first, n - first, n - first)
    s.work[HALF], s.work[POOL_TOP], s.work[INTERVAL_TOP] = other, top, n
    s.work[LIVE] = top + INTERVAL_WORDS * n


@kernel
def make_room(s: Store, words: int) -> None:
    """Room for records and one more interval in the views, after a purge if much may have gone."""
    used = s.work[POOL_TOP] + INTERVAL_WORDS * s.work[INTERVAL_TOP]
    s.work[PEAK] = max(s.work[PEAK], used)
    if (
        used > 2 * s.work[LIVE] + 4096
        or s.work[POOL_TOP] + words > s.pool.shape[1]
        or 3 * s.work[INTERVAL_TOP] + 8 > s.intervals.shape[1]
    ):
        _collect(s)
    if s.work[POOL_TOP] + words > s.pool.shape[1]:
        s.work[FULL] = POOL
        raise OverflowError("pool")
    if 3 * s.work[INTERVAL_TOP] + 8 > s.intervals.shape[1]:
        s.work[FULL] = INTERVALS
        raise OverflowError("intervals")


# ---------------------------------------------------------------- intervals of a view


@kernel
def interval(s: Store, u: int, i: int, field: int) -> int:
    """A word of interval number `i` of view `u`."""
    return int(s.intervals[s.work[HALF], slab(s, u, SLAB_BEGIN) + i, field])


@kernel
def preceding(s: Store, u: int, low: int) -> int:
    """The number of the last interval of view `u` that begins at or before `low`; -1 if none does."""
    begin, end = 0, slab(s, u, SLAB_COUNT)
    while begin < end:
        middle = (begin + end) // 2
        if interval(s, u, middle, BEGIN) <= low:
            begin = middle + 1
        else:
            end = middle
    return begin - 1


@kernel
def is_inside(s: Store, u: int, low: int, high: int) -> bool:
    """Whether one interval of the view contains [low, high): the one with the largest begin has the largest end."""
    i = preceding(s, u, low)
    return i >= 0 and interval(s, u, i, END) >= high


@kernel
def contains_one(s: Store, u: int, low: int, high: int) -> bool:
    """Whether [low, high) contains an interval of the view: the one with the smallest begin has the smallest end."""
    i = preceding(s, u, low - 1) + 1
    return i < slab(s, u, SLAB_COUNT) and interval(s, u, i, END) <= high


@kernel
def joined(s: Store, u: int, low: int, high: int) -> tuple[int, int]:
    """[low, high) with all intervals of the view that touch it, as far as they lie in the window."""
    i = max(preceding(s, u, low), 0)
    while i < slab(s, u, SLAB_COUNT) and interval(s, u, i, BEGIN) <= high:
        if interval(s, u, i, END) >= low:
            low, high = min(low, max(interval(s, u, i, BEGIN), s.work[FLOOR])), max(high, interval(s, u, i, END))
        i += 1
    return low, high


@kernel
def missing(s: Store, u: int, low: int, high: int, nowhere: int) -> tuple[int, int, int, int]:
    """What a view lacks of [low, high), which none of its intervals contains: at most two rectangles of (first, last) position.

    The first lies in [low, high), ends at `since` or later and begins before `until`; the second lies in [begin, high) and ends at
    `end` or later, and is empty where begin is high. Returned: since, until, begin, end. `nowhere` is behind all positions.
    """
    i = preceding(s, u, low)
    if i >= 0 and interval(s, u, i, END) > low:
        return interval(s, u, i, END), nowhere, high, high
    i += 1
    if i < slab(s, u, SLAB_COUNT) and interval(s, u, i, BEGIN) < high:
        begin, end = interval(s, u, i, BEGIN), interval(s, u, i, END)
        return 0, begin, begin if end < high else high, end
    return 0, nowhere, high, high


@kernel
def _move_interval(intervals: Ints, source: int, target: int) -> None:
    for field in range(INTERVAL_WORDS):
        intervals[target, field] = intervals[source, field]


@kernel
def _put(s: Store, u: int, i: int, n_replaced: int, low: int, high: int, head: int, tail: int) -> None:
    """Write interval number i of a view, in place of `n_replaced` others. There is room (`make_room`)."""
    intervals = s.intervals[s.work[HALF]]
    begin, count, room = slab(s, u, SLAB_BEGIN), slab(s, u, SLAB_COUNT), slab(s, u, SLAB_ROOM)
    if n_replaced == 0 and count == room:
        fresh = s.work[INTERVAL_TOP]
        for j in range(count):
            _move_interval(intervals, begin + j, fresh + j)
        begin, room = fresh, 2 * count + 2
        s.work[INTERVAL_TOP] = fresh + room
    if n_replaced == 0:
        for j in range(begin + count - 1, begin + i - 1, -1):
            _move_interval(intervals, j, j + 1)
    elif n_replaced > 1:
        for j in range(begin + i + n_replaced, begin + count):
            _move_interval(intervals, j, j + 1 - n_replaced)
    _set_slab(s, u, begin, count + 1 - n_replaced, room)
    intervals[begin + i, BEGIN], intervals[begin + i, END] = low, high
    intervals[begin + i, HEAD], intervals[begin + i, TAIL] = head, tail


@kernel
def add_widest(s: Store, u: int, low: int, high: int, head: int, tail: int) -> None:
    """Add an interval that none contains; those it contains give it their records (before its own) and go."""
    half = s.work[HALF]
    i = preceding(s, u, low - 1) + 1
    n = 0
    while i + n < slab(s, u, SLAB_COUNT) and interval(s, u, i + n, END) <= high:
        n += 1
    for j in range(i + n - 1, i - 1, -1):
        first, last = interval(s, u, j, HEAD), interval(s, u, j, TAIL)
        if first >= 0:
            if head >= 0:
                s.pool[half, last + NEXT] = head
            else:
                tail = last
            head = first
    _put(s, u, i, n, low, high, head, tail)


@kernel
def add_narrowest(s: Store, u: int, low: int, high: int) -> None:
    """Add an interval that contains none; those that contain it go."""
    i = preceding(s, u, low) + 1
    n = 0
    while i - n - 1 >= 0 and interval(s, u, i - n - 1, END) >= high:
        n += 1
    _put(s, u, i - n, n, low, high, -1, -1)


# ---------------------------------------------------------------- records of a view


@kernel
def store_records(s: Store, u: int, stride: int, mark: int, low: int, high: int) -> None:
    """Move the records from `mark` on into the view, as those of the interval [low, high), unless an interval has them."""
    arena = s.arena
    end = s.work[TOP]
    make_room(s, (end - mark) // stride * (stride + RECORD))
    pool = s.pool[s.work[HALF]]
    head, tail = -1, -1
    for at in range(mark, end, stride):
        if is_inside(s, u, arena[at + FIRST], arena[at + LAST] + 1):
            continue
        record = s.work[POOL_TOP]
        s.work[POOL_TOP] = record + RECORD + stride
        pool[record + NEXT], pool[record + SIZE] = -1, RECORD + stride
        for w in range(stride):
            pool[record + RECORD + w] = arena[at + w]
        if tail >= 0:
            pool[tail + NEXT] = record
        else:
            head = record
        tail = record
    s.work[TOP] = mark
    add_widest(s, u, low, high, head, tail)


@kernel
def fetch_records(s: Store, u: int, stride: int, low: int, high: int, since: int, until: int, limit: int) -> int:
    """Push the view's records inside [low, high) that end at `since` or later and begin before `until`; how many, up to a limit."""
    pool, arena = s.pool[s.work[HALF]], s.arena
    n = 0
    i = max(preceding(s, u, low), 0)
    while i > 0 and interval(s, u, i - 1, END) > low:
        i -= 1
    while i < slab(s, u, SLAB_COUNT) and interval(s, u, i, BEGIN) < high:
        record = interval(s, u, i, HEAD)
        while record >= 0:
            first, last = pool[record + RECORD + FIRST], pool[record + RECORD + LAST]
            if first >= low and last < high and last >= since and first < until:
                reserve(s, stride)
                top = s.work[TOP]
                for w in range(stride):
                    arena[top + w] = pool[record + RECORD + w]
                s.work[TOP] = top + stride
                n += 1
                if n >= limit:
                    return n
            record = pool[record + NEXT]
        i += 1
    return n


@kernel
def view_of(p: Ints, s: Store, node: int) -> int:
    """The view that serves the present outer value; -1 where that value is null, so that nothing equals it."""
    variable = view(p, node, VIEW_VARIABLE)
    if variable < 0:
        return view(p, node, VIEW_FIRST)
    if bound(s, variable) < 0:
        return -1
    code = word(p, CODES, view(p, node, VIEW_CODES) + bound(s, variable))
    return view(p, node, VIEW_FIRST) + code if code >= 0 else -1
