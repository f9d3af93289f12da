"""The instances of a node in an interval, from scratch: its own events first, then its sub-queries for each of these own results.

For every way to choose a node's single events, its sub-queries are asked in the interval that these leave them (which is tightened
on the way down: `narrow_kid`, `narrow_negation`), and what they return is joined. `_combine` is that algorithm as stages:

    COVERED   balanced views are complete for what all own results will ask
    EARLY     a negation between own events was sought: one that is there drops the own result
    CHILD     the results of a sub-query are on the arena: none drops the own result
    JOIN      the next combination of the children's results that agree
    LATE      a negation next to a sub-query was sought: one that is there drops the combination

Cost: per own result, what the sub-queries cost and the combinations of their results. Invariant: see `frames`.

    Paper (nested queries)           | Here
    WinSeq, WinAnd, WinOr            | SEQUENCE, CONJUNCTION, ALTERNATIVES
    selfCompute                      | `_find_own`
    Figure 3, interval constraints   | `narrow_kid`, `narrow_negation`
    Figure 5, result evaluation      | JOIN and LATE
    bound by adjacent query          | a gap that is LATE
    Paper (sliding views)            | Here
    the first pass of B-CSV          | `_collect_requests`, and `requests`
"""

from __future__ import annotations

from seqube.engine.jit import inner_kernel, kernel_part
from seqube.engine.predicates import Ints
from seqube.engine.views.frames import (
    BEGIN,
    COUNTERS,
    HIGH,
    JOINED,
    LEVEL,
    LIMIT,
    LOW,
    MARK,
    MATCH_FIRST,
    MATCH_LAST,
    N_FOUND,
    N_RESULTS,
    NEXT,
    OF,
    OUT,
    OWN_END,
    REQUEST,
    RESULT,
    SEEK,
    SINCE,
    STAGE,
    UNTIL,
    VIEW,
    ask,
    call,
    finish,
)
from seqube.engine.views.program import (
    AFTER,
    AFTER_END,
    AFTERS,
    ALTERNATIVES,
    AROUND,
    AROUND_END,
    BASES,
    BEFORE,
    BEFORE_END,
    BEGINS,
    FIRST,
    GAP_IS_LATE,
    GAP_NEGATION,
    GAPS_AT,
    IS_FIRST,
    IS_LAST,
    KID_FLAGS,
    KID_FOLLOWS_KID,
    KID_LEFT,
    KID_NODE,
    KID_PLACE,
    KID_RIGHT,
    KIDS_AT,
    KINDS,
    LAST,
    MEMBERS,
    N_POSITIONS,
    NEGATED_NODE,
    NO_LIMIT,
    OLDEST,
    OWN_AT,
    OWN_FLAGS,
    OWN_PLACE,
    OWN_VARIABLE,
    PLACES,
    RETURNED,
    ROW_BEGINS,
    ROW_ENDS,
    SCAN,
    SEQUENCE,
    TOP,
    WHEN,
    WHEN_END,
    WIDTHS,
    any_bound,
    at_or_after,
    bind,
    bind_record,
    bound,
    first_bound,
    gap,
    holds,
    kid,
    last_bound,
    look_at_clock,
    move_down,
    negation,
    own,
    reserve,
    stride,
    word,
)
from seqube.engine.views.requests import FROM, REQUEST_WORDS, UPTO, add_request, bind_request, has_first_pass

BRANCH, COVERED, EARLY, CHILD, LATE = range(BEGIN + 1, BEGIN + 6)  # what was asked for
NEXT_RESULT, ASK_EARLY, ASK_CHILD, JOIN, ASK_LATE = range(LATE + 1, LATE + 6)  # what is done next
KID_BEGIN, KID_END, KID_AT, KID_COUNTERS = range(4)  # the results of a child on the arena, and the present one


@inner_kernel
def compute(p: Ints, w: Ints, arena: Ints, f: int) -> None:
    """Go on with an evaluation from scratch."""
    kind = word(p, KINDS, w[f + OF])
    if w[f + LOW] >= w[f + HIGH]:
        finish(w, 0)
    elif kind == SCAN:
        finish(w, _scan(p, w, arena, f))
    elif kind == ALTERNATIVES:
        _choose(p, w, arena, f)
    else:
        _combine(p, w, arena, f)


# ---------------------------------------------------------------- intervals


@kernel_part
def narrow_kid(p: Ints, w: Ints, c: int, low: int, high: int) -> tuple[int, int]:
    """The query interval of a child: between its neighbours among the own events, else as inherited."""
    left, right = kid(p, c, KID_LEFT), kid(p, c, KID_RIGHT)
    if left >= 0:
        low = word(p, AFTERS, bound(w, left))
    if right >= 0:
        high = word(p, BEGINS, bound(w, right))
    return low, high


@kernel_part
def narrow_negation(p: Ints, w: Ints, n: int, low: int, high: int) -> tuple[int, int]:
    """The scope of a negation; empty where the OR branch that it stands in was not taken."""
    if negation(p, n, WHEN) >= 0 and not any_bound(w, negation(p, n, WHEN), negation(p, n, WHEN_END)):
        return 0, 0
    if negation(p, n, AFTER) >= 0:
        low = word(p, AFTERS, last_bound(w, negation(p, n, AFTER), negation(p, n, AFTER_END)))
    if negation(p, n, BEFORE) >= 0:
        high = word(p, BEGINS, first_bound(w, negation(p, n, BEFORE), negation(p, n, BEFORE_END)))
    if negation(p, n, AROUND) >= 0:
        last = last_bound(w, negation(p, n, AROUND), negation(p, n, AROUND_END))
        low, high = max(low, word(p, OLDEST, last)), min(high, word(p, AFTERS, last))
    return low, high


# ---------------------------------------------------------------- single events, and OR


@kernel_part
def _scan(p: Ints, w: Ints, arena: Ints, f: int) -> int:
    """Push the events of a branch of OR that is a single event."""
    node = w[f + OF]
    variable = word(p, BASES, node)
    low, high = max(w[f + LOW], w[f + SINCE]), min(w[f + HIGH], w[f + UNTIL])
    end = word(p, ROW_ENDS, variable)
    n = 0
    for i in range(at_or_after(p, word(p, ROW_BEGINS, variable), end, low), end):
        if p[i] >= high:
            break
        bind(w, variable, p[i])
        if holds(p, w, word(p, PLACES, node)):
            reserve(w, arena, MEMBERS + 1)
            top = w[TOP]
            arena[top + FIRST], arena[top + LAST], arena[top + MEMBERS] = p[i], p[i], p[i]
            w[TOP] = top + MEMBERS + 1
            n += 1
    return n


@kernel_part
def _choose(p: Ints, w: Ints, arena: Ints, f: int) -> None:
    """OR: the results of one branch after the other."""
    node = w[f + OF]
    if w[f + STAGE] == BEGIN:
        w[f + STAGE], w[f + NEXT] = BRANCH, word(p, KIDS_AT, node)
    else:
        w[f + N_FOUND] += _widen(p, w, arena, node, kid(p, w[f + NEXT], KID_NODE), w[f + OUT], w[RETURNED])
        w[f + NEXT] += 1
    if w[f + NEXT] == word(p, KIDS_AT, node + 1):
        finish(w, w[f + N_FOUND])
        return
    w[f + OUT] = w[TOP]
    ask(p, w, kid(p, w[f + NEXT], KID_NODE), w[f + LOW], w[f + HIGH], w[f + SINCE], w[f + UNTIL], NO_LIMIT)


@kernel_part
def _widen(p: Ints, w: Ints, arena: Ints, node: int, branch: int, begin: int, n: int) -> int:
    """Make n records of a branch records of its OR, and keep those that pass its predicates; how many."""
    narrow, wide = stride(p, branch), stride(p, node)
    shift, width = word(p, BASES, branch) - word(p, BASES, node), word(p, WIDTHS, branch)
    reserve(w, arena, n * (wide - narrow))
    for r in range(n - 1, -1, -1):  # they grow, so from the last one backwards
        source, target = begin + r * narrow, begin + r * wide
        for v in range(width - 1, -1, -1):
            arena[target + MEMBERS + shift + v] = arena[source + MEMBERS + v]
        first, last = arena[source + FIRST], arena[source + LAST]
        arena[target + FIRST], arena[target + LAST] = first, last
        for v in range(wide - MEMBERS):
            if v < shift or v >= shift + width:
                arena[target + MEMBERS + v] = -1
    out = begin
    for at in range(begin, begin + n * wide, wide):
        bind_record(p, w, arena, node, at)
        if holds(p, w, word(p, PLACES, node)):
            move_down(arena, at, out, wide)
            out += wide
    w[TOP] = out
    return (out - begin) // wide


# ---------------------------------------------------------------- SEQ and AND


@kernel_part
def _combine(p: Ints, w: Ints, arena: Ints, f: int) -> None:
    """SEQ and AND; see the module's text for the stages."""
    stage, answer = w[f + STAGE], w[RETURNED]
    if stage == BEGIN:
        _find_own(p, w, arena, f)
        stage = COVERED
    if stage == COVERED:
        if _ask_to_cover(p, w, arena, f):
            w[f + STAGE] = COVERED
            return
        stage = NEXT_RESULT
    while True:
        if stage == JOIN:
            if _bind_combination(p, w, arena, f):
                w[f + NEXT] = word(p, GAPS_AT, w[f + OF])
                stage = ASK_LATE
            else:
                _close_up(w, arena, f)
                stage = NEXT_RESULT
        elif stage == ASK_LATE:
            if _ask_gap(p, w, f, 1):
                w[f + STAGE] = LATE
                return
            _push_combination(p, w, arena, f)
            stage = JOIN
            if w[f + N_FOUND] >= w[f + LIMIT]:
                _close_up(w, arena, f)
                w[f + RESULT] = w[f + N_RESULTS]
                stage = NEXT_RESULT
        elif stage == LATE:
            stage = JOIN if answer == 1 else ASK_LATE
        elif stage == NEXT_RESULT:
            if not _bind_own(p, w, arena, f):
                _drop_own(w, arena, f)
                finish(w, w[f + N_FOUND])
                return
            w[f + NEXT] = word(p, GAPS_AT, w[f + OF])
            stage = ASK_EARLY
        elif stage == ASK_EARLY:
            if _ask_gap(p, w, f, 0):
                w[f + STAGE] = EARLY
                return
            w[f + NEXT] = 0
            stage = ASK_CHILD
        elif stage == EARLY:
            stage = NEXT_RESULT if answer == 1 else ASK_EARLY
        elif stage == ASK_CHILD:
            if _ask_child(p, w, f):
                w[f + STAGE] = CHILD
                return
            _begin_join(w, f)
            stage = JOIN
        else:  # CHILD
            w[f + COUNTERS + KID_COUNTERS * w[f + NEXT] + KID_END] = w[TOP]
            w[f + NEXT] += 1
            stage = ASK_CHILD
            if answer == 0:
                w[TOP] = w[f + OUT]
                stage = NEXT_RESULT


@kernel_part
def _find_own(p: Ints, w: Ints, arena: Ints, f: int) -> None:
    """Push the positions of a node's single events, for every way to choose them: a walk of nested ranges."""
    node = w[f + OF]
    begin, n_own = word(p, OWN_AT, node), word(p, OWN_AT, node + 1) - word(p, OWN_AT, node)
    is_sequence = word(p, KINDS, node) == SEQUENCE
    index = f + COUNTERS  # the present one of every level
    level = 0 if n_own > 0 else -1
    w[index] = -1
    while level >= 0:
        look_at_clock(w)
        variable, flags = own(p, begin + level, OWN_VARIABLE), own(p, begin + level, OWN_FLAGS)
        least, most = w[f + LOW], w[f + HIGH]
        if is_sequence:
            if level > 0:
                most = word(p, BEGINS, bound(w, own(p, begin + level - 1, OWN_VARIABLE)))
            if flags & IS_LAST:
                least = max(least, w[f + SINCE])
            if flags & IS_FIRST:
                most = min(most, w[f + UNTIL])
        end = word(p, ROW_ENDS, variable)
        i = w[index + level]
        i = at_or_after(p, word(p, ROW_BEGINS, variable), end, least) if i < 0 else i + 1
        w[index + level] = i
        if i >= end or p[i] >= most:
            level -= 1
            continue
        bind(w, variable, p[i])
        if not is_sequence:
            twice = False
            for other in range(level):
                twice = twice or bound(w, own(p, begin + other, OWN_VARIABLE)) == p[i]
            if twice:
                continue
        if not holds(p, w, own(p, begin + level, OWN_PLACE)):
            continue
        if level < n_own - 1:
            level += 1
            w[index + level] = -1
            continue
        reserve(w, arena, n_own)
        for j in range(n_own):
            arena[w[TOP] + j] = bound(w, own(p, begin + j, OWN_VARIABLE))
        w[TOP] += n_own
    w[f + N_RESULTS] = (w[TOP] - w[f + MARK]) // n_own if n_own > 0 else 1
    w[f + OWN_END], w[f + OUT], w[f + REQUEST] = w[TOP], w[TOP], w[TOP]
    w[f + RESULT], w[f + NEXT] = 0, 0


@kernel_part
def _bind_own(p: Ints, w: Ints, arena: Ints, f: int) -> bool:
    """Bind the next own result; False after the last one."""
    look_at_clock(w)
    node = w[f + OF]
    if w[f + RESULT] >= w[f + N_RESULTS]:
        return False
    begin, n_own = word(p, OWN_AT, node), word(p, OWN_AT, node + 1) - word(p, OWN_AT, node)
    at = w[f + MARK] + w[f + RESULT] * n_own
    for j in range(n_own):
        bind(w, own(p, begin + j, OWN_VARIABLE), arena[at + j])
    w[f + RESULT] += 1
    return True


@kernel_part
def _drop_own(w: Ints, arena: Ints, f: int) -> None:
    """Leave the instances found, which lie behind the own results, in place of these."""
    size = w[f + OUT] - w[f + OWN_END]
    move_down(arena, w[f + OWN_END], w[f + MARK], size)
    w[TOP] = w[f + MARK] + size


# ---------------------------------------------------------------- what is asked of others


@kernel_part
def _ask_gap(p: Ints, w: Ints, f: int, late: int) -> bool:
    """Seek the next negation that can be told now, if there is one."""
    end = word(p, GAPS_AT, w[f + OF] + 1)
    while w[f + NEXT] < end:
        g = w[f + NEXT]
        w[f + NEXT] = g + 1
        if gap(p, g, GAP_IS_LATE) == late:
            call(w, SEEK, gap(p, g, GAP_NEGATION), w[f + LOW], w[f + HIGH], 0, 0, 0)
            return True
    return False


@kernel_part
def _ask_child(p: Ints, w: Ints, f: int) -> bool:
    """Ask for the results of the next child, if there is one."""
    node = w[f + OF]
    c = word(p, KIDS_AT, node) + w[f + NEXT]
    if c == word(p, KIDS_AT, node + 1):
        return False
    low, high = narrow_kid(p, w, c, w[f + LOW], w[f + HIGH])
    since, until = 0, p[N_POSITIONS]
    if word(p, KINDS, node) == SEQUENCE:
        if kid(p, c, KID_FLAGS) & IS_LAST:
            since = w[f + SINCE]
        if kid(p, c, KID_FLAGS) & IS_FIRST:
            until = w[f + UNTIL]
    w[f + COUNTERS + KID_COUNTERS * w[f + NEXT] + KID_BEGIN] = w[TOP]
    ask(p, w, kid(p, c, KID_NODE), low, high, since, until, NO_LIMIT)
    return True


@kernel_part
def _ask_to_cover(p: Ints, w: Ints, arena: Ints, f: int) -> bool:
    """Have the next interval that balanced views must be complete for made ready, if there is one."""
    node = w[f + OF]
    n_kids = word(p, KIDS_AT, node + 1) - word(p, KIDS_AT, node)
    n_gaps = word(p, GAPS_AT, node + 1) - word(p, GAPS_AT, node)
    while w[f + REQUEST] == w[TOP]:
        w[TOP], w[f + REQUEST] = w[f + OWN_END], w[f + OWN_END]
        if w[f + NEXT] == n_kids + n_gaps:
            return False
        w[f + NEXT] += 1
        _collect_requests(p, w, arena, f)
    at, part = w[f + REQUEST], _part(p, node, w[f + NEXT] - 1)
    w[f + REQUEST] = at + REQUEST_WORDS
    bind_request(p, w, arena, part, at)
    call(w, VIEW, part, arena[at + FROM], arena[at + UPTO], 0, 0, 0)
    return True


@kernel_part
def _part(p: Ints, node: int, i: int) -> int:
    """The sub-query that is part number i of a node: its children, then what its gaps negate; -1 if that cannot be told yet."""
    n_kids = word(p, KIDS_AT, node + 1) - word(p, KIDS_AT, node)
    if i < n_kids:
        return kid(p, word(p, KIDS_AT, node) + i, KID_NODE)
    g = word(p, GAPS_AT, node) + i - n_kids
    return negation(p, gap(p, g, GAP_NEGATION), NEGATED_NODE) if gap(p, g, GAP_IS_LATE) == 0 else -1


@kernel_part
def _collect_requests(p: Ints, w: Ints, arena: Ints, f: int) -> None:
    """Push what all own results ask the next part for, where its view is balanced."""
    node = w[f + OF]
    i = w[f + NEXT] - 1
    part = _part(p, node, i)
    if part < 0 or not has_first_pass(p, part):
        return
    n_kids = word(p, KIDS_AT, node + 1) - word(p, KIDS_AT, node)
    while _bind_own(p, w, arena, f):
        if i < n_kids:
            low, high = narrow_kid(p, w, word(p, KIDS_AT, node) + i, w[f + LOW], w[f + HIGH])
        else:
            sought = gap(p, word(p, GAPS_AT, node) + i - n_kids, GAP_NEGATION)
            low, high = narrow_negation(p, w, sought, w[f + LOW], w[f + HIGH])
        add_request(p, w, arena, w[f + OWN_END], part, low, high)
    w[f + RESULT] = 0


# ---------------------------------------------------------------- the join


@kernel_part
def _begin_join(w: Ints, f: int) -> None:
    w[f + JOINED], w[f + LEVEL] = w[TOP], 0
    w[f + COUNTERS + KID_AT] = w[f + COUNTERS + KID_BEGIN]


@kernel_part
def _bind_combination(p: Ints, w: Ints, arena: Ints, f: int) -> bool:
    """Bind the next combination of the children's results that agree: a counter per child, from left to right."""
    node = w[f + OF]
    n_kids = word(p, KIDS_AT, node + 1) - word(p, KIDS_AT, node)
    base, end = word(p, BASES, node), word(p, BASES, node) + word(p, WIDTHS, node)
    level = w[f + LEVEL]
    while level >= 0:
        look_at_clock(w)
        if level < n_kids:
            counter = f + COUNTERS + KID_COUNTERS * level
            c = word(p, KIDS_AT, node) + level
            at = w[counter + KID_AT]
            if at >= w[counter + KID_END]:
                level -= 1
                continue
            w[counter + KID_AT] = at + stride(p, kid(p, c, KID_NODE))
            bind_record(p, w, arena, kid(p, c, KID_NODE), at)
            if not _agrees(p, w, arena, node, c, at) or not holds(p, w, kid(p, c, KID_PLACE)):
                continue
            level += 1
            if level < n_kids:
                w[counter + KID_COUNTERS + KID_AT] = w[counter + KID_COUNTERS + KID_BEGIN]
                continue
        level -= 1  # where to go on: at the last child, or below zero where there is none
        first, last = first_bound(w, base, end), last_bound(w, base, end)
        if last >= w[f + SINCE] and first < w[f + UNTIL] and holds(p, w, word(p, PLACES, node)):
            w[f + LEVEL], w[f + MATCH_FIRST], w[f + MATCH_LAST] = level, first, last
            return True
    return False


@kernel_part
def _agrees(p: Ints, w: Ints, arena: Ints, node: int, c: int, at: int) -> bool:
    """Whether the present result of child c fits those to the left of it: in SEQ behind them, in AND of other events."""
    child = kid(p, c, KID_NODE)
    if word(p, KINDS, node) == SEQUENCE:
        if kid(p, c, KID_FOLLOWS_KID) == 0:
            return True
        left = kid(p, c - 1, KID_NODE)
        last = last_bound(w, word(p, BASES, left), word(p, BASES, left) + word(p, WIDTHS, left))
        return bool(arena[at + FIRST] >= word(p, AFTERS, last))
    # Slots to the right may hold what an earlier result left there, so only what is chosen is looked at.
    for i in range(word(p, OWN_AT, node), word(p, OWN_AT, node + 1)):
        if _uses(p, w, child, bound(w, own(p, i, OWN_VARIABLE))):
            return False
    for i in range(word(p, KIDS_AT, node), c):
        left = kid(p, i, KID_NODE)
        for v in range(word(p, BASES, left), word(p, BASES, left) + word(p, WIDTHS, left)):
            if bound(w, v) >= 0 and _uses(p, w, child, bound(w, v)):
                return False
    return True


@kernel_part
def _uses(p: Ints, w: Ints, node: int, position: int) -> bool:
    """Whether a variable of the node is bound to this position."""
    for v in range(word(p, BASES, node), word(p, BASES, node) + word(p, WIDTHS, node)):  # noqa: SIM110  # compiled
        if bound(w, v) == position:
            return True
    return False


@kernel_part
def _push_combination(p: Ints, w: Ints, arena: Ints, f: int) -> None:
    node = w[f + OF]
    size = stride(p, node)
    reserve(w, arena, size)
    top, base = w[TOP], word(p, BASES, node)
    arena[top + FIRST], arena[top + LAST] = w[f + MATCH_FIRST], w[f + MATCH_LAST]
    for v in range(size - MEMBERS):
        arena[top + MEMBERS + v] = bound(w, base + v)
    w[TOP] = top + size
    w[f + N_FOUND] += 1


@kernel_part
def _close_up(w: Ints, arena: Ints, f: int) -> None:
    """The children's results go, what was joined takes their place."""
    size = w[TOP] - w[f + JOINED]
    move_down(arena, w[f + JOINED], w[f + OUT], size)
    w[f + OUT] += size
    w[TOP] = w[f + OUT]
