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

Cost: iterative, per outer result, the instances of its children in their interval; with views, each such instance once per
interval that needs it, plus what `views` costs. Invariant: a call leaves the arena as it was, save what it pushed.

    Paper                   | Here
    WinSeq, WinAnd, WinOr   | SEQUENCE, CONJUNCTION, ALTERNATIVES
    selfCompute             | the first phase of COMPUTE (`_own_results`)
    Query-Interval          | low, high of RESULTS and CANCELLED
    ViewUpdate              | COVER
    delayed constraint      | a check of the root or of the enclosing negation, not of the node
    postponed negation      | a check of the root, whose matches wait (`state`)
"""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter

import numpy as np

from seqube.engine.instances import Batch, Instances
from seqube.engine.jit import kernel, recursive_kernel
from seqube.engine.nesting.tables import Tables
from seqube.engine.nesting.views import (
    AFTERS,
    AGGRESSIVE,
    ALTERNATIVES,
    BALANCED,
    BASES,
    BEGINS,
    BOUND,
    CHECKS,
    CHECKS_AT,
    FLOOR,
    FRAME,
    FRAMES,
    FULL,
    GAPS,
    GAPS_AT,
    HALF,
    HORIZONS,
    INTERVAL_TOP,
    ITERATIVE,
    KIDS,
    KIDS_AT,
    KINDS,
    LIVE,
    MODES,
    N_POSITIONS,
    N_ROOT_CHECKS,
    NEGATIONS,
    NO_LIMIT,
    OLDEST,
    OWN,
    OWN_AT,
    PASSIVE,
    PEAK,
    PLACES,
    PLACES_AT,
    POOL_TOP,
    ROOT_CHECKS,
    ROWS_AT,
    SCAN,
    SEQUENCE,
    SLABS,
    TOP,
    VIEWS,
    WIDTHS,
    Store,
    add_narrowest,
    add_widest,
    any_bound,
    at_or_after,
    fetch_records,
    first_bound,
    flattened,
    holds,
    interval_of,
    is_inside,
    last_bound,
    make_room,
    preceding,
    reserve,
    store_records,
    view_of,
)
from seqube.engine.predicates import UNBOUND, Evaluator, Ints
from seqube.engine.sequence import HIGHEST, LOWEST
from seqube.plan.physical import MatchPlan

COMPUTE, RESULTS, COVER, CANCELLED = range(4)
PIECE = 1 << 19  # words of matches after which a piece is handed on
SECONDS = 0.1  # about how long the loops run before the limits are looked at, found or not


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
        i = at_or_after(p, p[p[ROWS_AT] + variable], p[p[ROWS_AT] + variable + 1], least) if i < 0 else i + 1
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
        if not holds(p, s, p[p[OWN] + 3 * (begin + level) + 1]):
            continue
        if level < n_own - 1:
            level += 1
            s.work[s.work[FRAMES] + frame + level] = -1
            continue
        reserve(s, n_own)
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
    if p[about + 8] >= 0 and not any_bound(s, p[about + 8], p[about + 9]):
        return 0, 0
    if p[about + 2] >= 0:
        low = p[p[AFTERS] + last_bound(s, p[about + 2], p[about + 3])]
    if p[about + 4] >= 0:
        high = p[p[BEGINS] + first_bound(s, p[about + 4], p[about + 5])]
    if p[about + 6] >= 0:
        last = last_bound(s, p[about + 6], p[about + 7])
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
    reserve(s, 3)
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
            for i in range(at_or_after(p, p[p[ROWS_AT] + variable], end, low), end):
                if p[i] >= high:
                    break
                s.work[s.work[BOUND] + variable] = p[i]
                if holds(p, s, p[p[PLACES] + node]) and holds(p, s, place):
                    return 1
            return 0
        is_plain = p[p[CHECKS_AT] + k] == p[p[CHECKS_AT] + k + 1] and p[p[PLACES_AT] + place] == p[p[PLACES_AT] + place + 1]
        if is_plain and p[p[MODES] + node] == PASSIVE:
            u = view_of(p, s, node)
            if u < 0:
                return 0
            known = u + p[p[VIEWS] + 4 * node + 1]  # the intervals known to hold something; those of u hold nothing
            i = preceding(s, known, low - 1) + 1
            if i < s.work[s.work[SLABS] + 4 * known + 1] and interval_of(s, known, i, 1) <= high:
                return 1
            if is_inside(s, u, low, high):
                return 0
            i = preceding(s, u, low)
            j = i + 1
            if i >= 0 and interval_of(s, u, i, 1) > low:
                found = evaluate(p, s, compute, node, low, high, interval_of(s, u, i, 1), n_positions, one)
            elif j < s.work[s.work[SLABS] + 4 * u + 1] and interval_of(s, u, j, 0) < high:
                begin, end = interval_of(s, u, j, 0), interval_of(s, u, j, 1)
                found = evaluate(p, s, compute, node, low, high, none, begin, one)
                if found == 0 and end < high:
                    found = evaluate(p, s, compute, node, begin, high, end, n_positions, one)
            else:
                found = evaluate(p, s, compute, node, low, high, none, n_positions, one)
            s.work[TOP] = mark
            make_room(s, 0)
            if found > 0:
                add_narrowest(s, known, low, high)
                return 1
            add_widest(s, u, low, high, -1, -1)
            return 0
        found = evaluate(p, s, results, node, low, high, none, n_positions, one if is_plain else no_limit)
        if is_plain:
            s.work[TOP] = mark
            return min(found, 1)
        stride = p[p[WIDTHS] + node] + 2
        for at in range(mark, s.work[TOP], stride):
            for v in range(stride - 2):
                s.work[s.work[BOUND] + p[p[BASES] + node] + v] = arena[at + 2 + v]
            if not holds(p, s, place):
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
        u = view_of(p, s, k)
        if u < 0 or low >= high:
            return 0
        if p[p[MODES] + k] == AGGRESSIVE:
            evaluate(p, s, cover, k, s.work[FLOOR], high, u, one, none)
        else:
            evaluate(p, s, cover, k, low, high, u, one if p[p[MODES] + k] == BALANCED else none, none)
        return fetch_records(s, u, stride, low, high, since, until, limit)

    if entry == COVER:
        u, grows = since, until
        if is_inside(s, u, low, high):
            return 0
        i = preceding(s, u, low)
        if grows:
            j = max(i, 0)
            while j < s.work[s.work[SLABS] + 4 * u + 1] and interval_of(s, u, j, 0) <= high:
                if interval_of(s, u, j, 1) >= low:
                    low = min(low, max(interval_of(s, u, j, 0), s.work[FLOOR]))
                    high = max(high, interval_of(s, u, j, 1))
                j += 1
            i = preceding(s, u, low)
        j = i + 1
        if i >= 0 and interval_of(s, u, i, 1) > low:
            evaluate(p, s, compute, k, low, high, interval_of(s, u, i, 1), n_positions, no_limit)
        elif j < s.work[s.work[SLABS] + 4 * u + 1] and interval_of(s, u, j, 0) < high:
            begin, end = interval_of(s, u, j, 0), interval_of(s, u, j, 1)
            evaluate(p, s, compute, k, low, high, none, begin, no_limit)
            if end < high:
                evaluate(p, s, compute, k, begin, high, end, n_positions, no_limit)
        else:
            evaluate(p, s, compute, k, low, high, none, n_positions, no_limit)
        store_records(s, u, stride, mark, low, high)
        return 0

    # COMPUTE
    if low >= high:
        return 0
    base = p[p[BASES] + k]
    n_found = 0
    if p[p[KINDS] + k] == SCAN:
        end = p[p[ROWS_AT] + base + 1]
        for i in range(at_or_after(p, p[p[ROWS_AT] + base], end, max(low, since)), end):
            if p[i] >= min(high, until):
                break
            s.work[s.work[BOUND] + base] = p[i]
            if holds(p, s, p[p[PLACES] + k]):
                reserve(s, 3)
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
            reserve(s, n * (stride - width - 2))
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
                if holds(p, s, p[p[PLACES] + k]):
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
                u = view_of(p, s, p[p[KIDS] + 6 * c])
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
                        last = last_bound(s, p[p[BASES] + previous], p[p[BASES] + previous] + p[p[WIDTHS] + previous])
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
                if not holds(p, s, p[p[KIDS] + 6 * (kid_begin + level) + 1]):
                    continue
                level += 1
                if level < n_kids:
                    s.work[s.work[FRAMES] + frame + 3 * level + 2] = s.work[s.work[FRAMES] + frame + 3 * level]
                    continue
            first, last = first_bound(s, base, base + stride - 2), last_bound(s, base, base + stride - 2)
            level -= 1  # back to the last child; below zero where there is none
            if last < since or first >= until or not holds(p, s, p[p[PLACES] + k]):
                continue
            stands = True
            for g in range(p[p[GAPS_AT] + k], p[p[GAPS_AT] + k + 1]):
                if p[p[GAPS] + 2 * g + 1] == 1 and evaluate(p, s, cancelled, p[p[GAPS] + 2 * g], low, high, none, none, none) == 1:
                    stands = False
                    break
            if stands:
                reserve(s, stride)
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


# ---------------------------------------------------------------- the run


class NestedEvaluation:
    """One nested plan over one batch; `upto` and `after` restrict the matches by the time of their end (after, upto]."""

    def __init__(self, plan: MatchPlan, batch: Batch, after: int = LOWEST, upto: int = HIGHEST) -> None:
        self._plan, self._batch = plan, batch
        self._ends = (after, upto)
        self.evaluator = Evaluator(batch.events)
        self.peak_words = 0  # of the views

    def matches(self) -> Iterator[Instances]:
        """The matches, in pieces."""
        tables = Tables(self._plan, self._batch, self.evaluator)
        program = flattened(tables.build())
        store = tables.store()
        triggers = tables.triggers(*self._ends)
        names = self._plan.variables
        done, at_once = 0, 64
        while done < len(triggers):
            began = perf_counter()
            reached = find_matches(program, store, triggers[: done + at_once], done, PIECE)
            at_once = 2 * at_once if perf_counter() - began < SECONDS else max(1, at_once // 2)
            self._batch.budget.check()
            done = -reached - 1 if reached < 0 else reached
            self.peak_words = max(self.peak_words, int(store.work[PEAK]), int(store.work[LIVE]))
            records = store.arena[: store.work[TOP]].reshape(-1, len(names) + 2).T.copy()
            if reached < 0:
                self._batch.budget.need(2 * sum(array.nbytes for array in store))
                store = _grown(store)
            if records.shape[1]:
                rows = np.where(records < 0, UNBOUND, tables.order[records])
                piece = Instances(dict(zip(names, rows[2:], strict=True)), rows[0], rows[1])
                for guarded in tables.rest:
                    true = self.evaluator.true([guarded.predicate], piece.rows, len(piece))
                    if guarded.when:
                        true |= ~np.logical_or.reduce([piece.rows[name] >= 0 for name in sorted(guarded.when)])
                    piece = piece.select(true)
                if len(piece):
                    yield piece


def _grown(store: Store) -> Store:
    """Twice the room where there was none left; views begin anew, they only hold what can be computed again."""
    work, full = store.work, store.work[FULL]
    arena = np.empty(2 * len(store.arena), np.int64) if full == 0 else store.arena
    pool = np.empty((2, 2 * store.pool.shape[1]), np.int64) if full == 1 else store.pool
    intervals = np.empty((2, 2 * store.intervals.shape[1], 4), np.int64) if full == 2 else store.intervals
    work[work[SLABS] :].reshape(-1, 4)[:, :3] = 0
    work[[FRAME, POOL_TOP, HALF, INTERVAL_TOP, LIVE]] = 0
    return Store(work, arena, pool, intervals)
