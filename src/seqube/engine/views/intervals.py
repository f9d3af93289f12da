"""Views of sub-queries: intervals for which they are complete, chains of records, and the memory both live in.

A view is a sorted list of intervals (half-open ranges of positions, see `program`) for which it is complete, none inside another,
so both their ends ascend: that is the interval index, every question is a binary search. Each interval has a chain of records. An
instance is stored once: under the first interval that needed it. What is missing for an interval is at most two rectangles in the
plane of (first, last) position:

    contained in one       nothing                       overlaps on its right   last beyond that one's end
    overlaps on its left   first before that one's begin contains it             both
    disjoint               everything

`aggressive` asks for everything from the window's begin, so it has one growing interval; `passive` asks for exactly the query
interval; `balanced` joins the query intervals of all results of a trigger that overlap (`requests`), and grows the interval that
is there. A negated sub-query without further conditions keeps, when passive, no records but two such lists: intervals known to be
empty (the widest) and intervals known not to be (the narrowest). A correlated equality gives a view per value.

Records and intervals lie in one half of their memory; purging copies what begins inside the window to the other half, each time
the views have doubled. So it costs no more than what was stored, and memory follows the window.

Cost: a binary search per question, plus a walk over the stored records that overlap. Invariant: an interval of a view holds,
directly or under an earlier overlapping one, every instance inside it that begins no earlier than the present trigger's window.

    Paper            | Here
    View-Interval    | Store.intervals
    isEmpty          | two lists of intervals: `add_widest` (empty), `add_narrowest` (not)
    purge            | _collect
    View size        | the register PEAK
    computed results | the register N_COMPUTED
    Figure 13        | `missing`: the kinds of overlap
"""

from __future__ import annotations

from seqube.engine.jit import inner_kernel, kernel, kernel_part
from seqube.engine.predicates import Ints
from seqube.engine.views.program import (
    CODES,
    FIRST,
    FLOOR,
    FULL,
    HALF,
    INTERVAL_TOP,
    INTERVALS,
    LAST,
    LIVE,
    N_COMPUTED,
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
    bound,
    reserve,
    view,
    word,
)

BEGIN, END, HEAD, TAIL, INTERVAL_WORDS = range(5)  # of an interval: its bounds, the first and the last record of its chain
NEXT, SIZE, RECORD = range(3)  # of a record in the pool


@kernel_part
def slab(w: Ints, u: int, field: int) -> int:
    """A word about view `u`."""
    return int(w[w[SLABS] + SLAB_WORDS * u + field])


@kernel_part
def _set_slab(w: Ints, u: int, begin: int, count: int, room: int) -> None:
    at = w[SLABS] + SLAB_WORDS * u
    w[at + SLAB_BEGIN], w[at + SLAB_COUNT], w[at + SLAB_ROOM] = begin, count, room


# ---------------------------------------------------------------- memory


@inner_kernel
def _collect(w: Ints, pool: Ints, intervals: Ints) -> None:
    """Purge: keep what begins inside the window of the present trigger, and close ranks."""
    half, floor = w[HALF], w[FLOOR]
    other = 1 - half
    top, n = 0, 0
    for u in range(w[N_VIEWS]):
        begin, is_narrow = slab(w, u, SLAB_BEGIN), slab(w, u, SLAB_IS_NARROW) == 1
        first = n
        for i in range(begin, begin + slab(w, u, SLAB_COUNT)):
            if intervals[half, i, END] <= floor or (is_narrow and intervals[half, i, BEGIN] < floor):
                continue
            head, tail = -1, -1
            record = intervals[half, i, HEAD]
            while record >= 0:
                if pool[half, record + RECORD + FIRST] >= floor:
                    size = pool[half, record + SIZE]
                    for i_word in range(SIZE, size):
                        pool[other, top + i_word] = pool[half, record + i_word]
                    pool[other, top + NEXT] = -1
                    if tail >= 0:
                        pool[other, tail + NEXT] = top
                    else:
                        head = top
                    tail = top
                    top += size
                record = pool[half, record + NEXT]
            intervals[other, n, BEGIN], intervals[other, n, END] = max(intervals[half, i, BEGIN], floor), intervals[half, i, END]
            intervals[other, n, HEAD], intervals[other, n, TAIL] = head, tail
            n += 1
        _set_slab(w, u, first, n - first, n - first)
    w[HALF], w[POOL_TOP], w[INTERVAL_TOP] = other, top, n
    w[LIVE] = top + INTERVAL_WORDS * n


@kernel
def forget_before(w: Ints, pool: Ints, intervals: Ints, floor: int) -> None:
    """Purge what begins before a position, and number positions from there on."""
    w[FLOOR] = floor
    _collect(w, pool, intervals)
    half = w[HALF]
    for i in range(w[INTERVAL_TOP]):
        intervals[half, i, BEGIN] -= floor
        intervals[half, i, END] -= floor
    record = 0
    while record < w[POOL_TOP]:
        size = pool[half, record + SIZE]
        for i in range(record + RECORD, record + size):
            if pool[half, i] >= 0:  # a variable of an OR branch that is not taken has no position
                pool[half, i] -= floor
        record += size


@inner_kernel
def make_room(w: Ints, pool: Ints, intervals: Ints, words: int) -> None:
    """Room for records and one more interval in the views, after a purge if much may have gone."""
    used = w[POOL_TOP] + INTERVAL_WORDS * w[INTERVAL_TOP]
    w[PEAK] = max(w[PEAK], used)
    if (
        used > 2 * w[LIVE] + SLAB_WORDS * w[N_VIEWS] + 4096
        or w[POOL_TOP] + words > pool.shape[1]
        or 3 * w[INTERVAL_TOP] + 8 > intervals.shape[1]
    ):
        _collect(w, pool, intervals)
    if w[POOL_TOP] + words > pool.shape[1]:
        w[FULL] = POOL
        raise OverflowError("pool")
    if 3 * w[INTERVAL_TOP] + 8 > intervals.shape[1]:
        w[FULL] = INTERVALS
        raise OverflowError("intervals")


# ---------------------------------------------------------------- intervals of a view


@kernel_part
def interval(w: Ints, intervals: Ints, u: int, i: int, field: int) -> int:
    """A word of interval number `i` of view `u`."""
    return int(intervals[w[HALF], slab(w, u, SLAB_BEGIN) + i, field])


@kernel_part
def preceding(w: Ints, intervals: Ints, u: int, low: int) -> int:
    """The number of the last interval of view `u` that begins at or before `low`; -1 if none does."""
    begin, end = 0, slab(w, u, SLAB_COUNT)
    while begin < end:
        middle = (begin + end) // 2
        if interval(w, intervals, u, middle, BEGIN) <= low:
            begin = middle + 1
        else:
            end = middle
    return begin - 1


@kernel_part
def is_inside(w: Ints, intervals: Ints, u: int, low: int, high: int) -> bool:
    """Whether one interval of the view contains [low, high): the one with the largest begin has the largest end."""
    i = preceding(w, intervals, u, low)
    return i >= 0 and interval(w, intervals, u, i, END) >= high


@kernel_part
def contains_one(w: Ints, intervals: Ints, u: int, low: int, high: int) -> bool:
    """Whether [low, high) contains an interval of the view: the one with the smallest begin has the smallest end."""
    i = preceding(w, intervals, u, low - 1) + 1
    return i < slab(w, u, SLAB_COUNT) and interval(w, intervals, u, i, END) <= high


@kernel_part
def joined(w: Ints, intervals: Ints, u: int, low: int, high: int) -> tuple[int, int]:
    """[low, high) with all intervals of the view that touch it, as far as they lie in the window."""
    i = max(preceding(w, intervals, u, low), 0)
    while i < slab(w, u, SLAB_COUNT) and interval(w, intervals, u, i, BEGIN) <= high:
        if interval(w, intervals, u, i, END) >= low:
            low, high = min(low, max(interval(w, intervals, u, i, BEGIN), w[FLOOR])), max(high, interval(w, intervals, u, i, END))
        i += 1
    return low, high


@kernel_part
def missing(w: Ints, intervals: Ints, u: int, low: int, high: int, nowhere: int) -> tuple[int, int, int, int]:
    """What a view lacks of [low, high), which none of its intervals contains: at most two rectangles of (first, last) position.

    The first lies in [low, high), ends at `since` or later and begins before `until`; the second lies in [begin, high) and ends at
    `end` or later, and is empty where begin is high. Returned: since, until, begin, end. `nowhere` is behind all positions.
    """
    i = preceding(w, intervals, u, low)
    if i >= 0 and interval(w, intervals, u, i, END) > low:
        return interval(w, intervals, u, i, END), nowhere, high, high
    i += 1
    if i < slab(w, u, SLAB_COUNT) and interval(w, intervals, u, i, BEGIN) < high:
        begin, end = interval(w, intervals, u, i, BEGIN), interval(w, intervals, u, i, END)
        return 0, begin, begin if end < high else high, end
    return 0, nowhere, high, high


@kernel_part
def _move_interval(intervals: Ints, half: int, source: int, target: int) -> None:
    for field in range(INTERVAL_WORDS):
        intervals[half, target, field] = intervals[half, source, field]


@inner_kernel
def _put(w: Ints, intervals: Ints, u: int, i: int, n_replaced: int, low: int, high: int, head: int, tail: int) -> None:
    """Write interval number i of a view, in place of `n_replaced` others. There is room (`make_room`)."""
    half = w[HALF]
    begin, count, room = slab(w, u, SLAB_BEGIN), slab(w, u, SLAB_COUNT), slab(w, u, SLAB_ROOM)
    if n_replaced == 0 and count == room:
        fresh = w[INTERVAL_TOP]
        for j in range(count):
            _move_interval(intervals, half, begin + j, fresh + j)
        begin, room = fresh, 2 * count + 2
        w[INTERVAL_TOP] = fresh + room
    if n_replaced == 0:
        for j in range(begin + count - 1, begin + i - 1, -1):
            _move_interval(intervals, half, j, j + 1)
    elif n_replaced > 1:
        for j in range(begin + i + n_replaced, begin + count):
            _move_interval(intervals, half, j, j + 1 - n_replaced)
    _set_slab(w, u, begin, count + 1 - n_replaced, room)
    intervals[half, begin + i, BEGIN], intervals[half, begin + i, END] = low, high
    intervals[half, begin + i, HEAD], intervals[half, begin + i, TAIL] = head, tail


@inner_kernel
def add_widest(w: Ints, pool: Ints, intervals: Ints, u: int, low: int, high: int, head: int, tail: int) -> None:
    """Add an interval that none contains; those it contains give it their records (before its own) and go."""
    half = w[HALF]
    i = preceding(w, intervals, u, low - 1) + 1
    n = 0
    while i + n < slab(w, u, SLAB_COUNT) and interval(w, intervals, u, i + n, END) <= high:
        n += 1
    for j in range(i + n - 1, i - 1, -1):
        first, last = interval(w, intervals, u, j, HEAD), interval(w, intervals, u, j, TAIL)
        if first >= 0:
            if head >= 0:
                pool[half, last + NEXT] = head
            else:
                tail = last
            head = first
    _put(w, intervals, u, i, n, low, high, head, tail)


@inner_kernel
def add_narrowest(w: Ints, intervals: Ints, u: int, low: int, high: int) -> None:
    """Add an interval that contains none; those that contain it go."""
    i = preceding(w, intervals, u, low) + 1
    n = 0
    while i - n - 1 >= 0 and interval(w, intervals, u, i - n - 1, END) >= high:
        n += 1
    _put(w, intervals, u, i - n, n, low, high, -1, -1)


# ---------------------------------------------------------------- records of a view


@inner_kernel
def store_records(w: Ints, arena: Ints, pool: Ints, intervals: Ints, u: int, stride: int, mark: int, low: int, high: int) -> None:
    """Move the records from `mark` on into the view, as those of the interval [low, high), unless an interval has them."""
    end = w[TOP]
    w[N_COMPUTED] += (end - mark) // stride
    make_room(w, pool, intervals, (end - mark) // stride * (stride + RECORD))
    half = w[HALF]
    head, tail = -1, -1
    for at in range(mark, end, stride):
        if is_inside(w, intervals, u, arena[at + FIRST], arena[at + LAST] + 1):
            continue
        record = w[POOL_TOP]
        w[POOL_TOP] = record + RECORD + stride
        pool[half, record + NEXT], pool[half, record + SIZE] = -1, RECORD + stride
        for i in range(stride):
            pool[half, record + RECORD + i] = arena[at + i]
        if tail >= 0:
            pool[half, tail + NEXT] = record
        else:
            head = record
        tail = record
    w[TOP] = mark
    add_widest(w, pool, intervals, u, low, high, head, tail)


@inner_kernel
def fetch_records(
    w: Ints, arena: Ints, pool: Ints, intervals: Ints, u: int, stride: int, low: int, high: int, since: int, until: int, limit: int
) -> int:
    """Push the view's records inside [low, high) that end at `since` or later and begin before `until`; how many, up to a limit."""
    half = w[HALF]
    n = 0
    i = max(preceding(w, intervals, u, low), 0)
    while i > 0 and interval(w, intervals, u, i - 1, END) > low:
        i -= 1
    while i < slab(w, u, SLAB_COUNT) and interval(w, intervals, u, i, BEGIN) < high:
        record = interval(w, intervals, u, i, HEAD)
        while record >= 0:
            first, last = pool[half, record + RECORD + FIRST], pool[half, record + RECORD + LAST]
            if first >= low and last < high and last >= since and first < until:
                reserve(w, arena, stride)
                top = w[TOP]
                for j in range(stride):
                    arena[top + j] = pool[half, record + RECORD + j]
                w[TOP] = top + stride
                n += 1
                if n >= limit:
                    return n
            record = pool[half, record + NEXT]
        i += 1
    return n


@kernel_part
def view_of(p: Ints, w: Ints, node: int) -> int:
    """The view that serves the present outer value; -1 where that value is null, so that nothing equals it."""
    variable = view(p, node, VIEW_VARIABLE)
    if variable < 0:
        return view(p, node, VIEW_FIRST)
    if bound(w, variable) < 0:
        return -1
    code = word(p, CODES, view(p, node, VIEW_CODES) + bound(w, variable))
    return view(p, node, VIEW_FIRST) + code if code >= 0 else -1
