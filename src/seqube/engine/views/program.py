"""What the loops of nested evaluation read and write: a plan as tables, the present bindings, and memory.

Everything is a position: the events that matter, sorted by partition and time, and numbered. "Before" and "within the window" are
look-ups in four arrays (`Program.begins`, `afters`, `oldest`, `horizons`), so every interval of the papers is a half-open range of
positions `[low, high)`, whatever clock the window uses. There is room for more positions than there are: a stream goes on behind
those that it had.

A plan is one array of integers (`flattened`, called `p`) and so is most of what evaluation writes (`Store.work`, called `w`),
because a call that hands on forty arrays costs more than what it does. Nothing is read from them by a bare number: words have
names, and rows of tables are read through `word`, `own`, `kid`, `gap`, `negation` and `view`, which cost nothing once compiled. The
arrays of a `Store` are handed on one by one: a tuple would count references whenever one is taken out of it.

An instance found is a record on the arena: first and last position, then one position per variable (-1: OR branch not taken).

Cost: constant per look-up; a clause costs its tests. Invariant: `bound` is -1 for a variable of an OR branch that is not taken.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from seqube.engine.jit import kernel_part
from seqube.engine.predicates import NULL, Ints
from seqube.engine.sequence import compare

SCAN, SEQUENCE, CONJUNCTION, ALTERNATIVES = range(4)
ITERATIVE, AGGRESSIVE, PASSIVE, BALANCED = range(4)
IS_FIRST, IS_LAST = 1, 2  # flags of a slot
NO_LIMIT = np.iinfo(np.int64).max


class Program(NamedTuple):
    """A plan as tables. `x_at[k] .. x_at[k + 1]` is the range of k's entries in `x`."""

    # positions
    begins: Ints  # the first position of the same time
    afters: Ints  # the first position of a later time
    oldest: Ints  # the first position inside the window that ends here
    horizons: Ints  # the first position outside the window that begins here; NO_LIMIT while there is none
    row_begins: Ints  # per variable: its events
    row_ends: Ints
    rows: Ints
    # nodes
    kinds: Ints
    modes: Ints
    bases: Ints  # the first variable of a node; its variables are numbered on from there
    widths: Ints
    places: Ints  # clauses of the finished instance
    own_at: Ints  # slots that are single events: SEQ from right to left, AND from left to right
    own: Ints
    kids_at: Ints  # slots (or branches) that are sub-queries, from left to right
    kids: Ints
    gaps_at: Ints
    gaps: Ints
    # negations
    negations: Ints
    checks_at: Ints  # negations inside a negation that reach outside of it
    checks: Ints
    root_checks: Ints
    # views
    views: Ints  # per node
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
(BEGINS, AFTERS, OLDEST, HORIZONS, ROW_BEGINS, ROW_ENDS, ROWS, KINDS, MODES, BASES, WIDTHS, PLACES, OWN_AT, OWN, KIDS_AT, KIDS,
 GAPS_AT, GAPS, NEGATIONS, CHECKS_AT, CHECKS, ROOT_CHECKS, VIEWS, CODES, PLACES_AT, PLACED, GUARDS, CLAUSES_AT, ATOMS, SIDES_AT,
 SIDES, VALUES, N_POSITIONS, N_ROOM, N_ROOT_CHECKS, N_WORDS) = range(36)  # fmt: skip

# The words of one row of a table that has several. LEFT and RIGHT of a kid are the variables of its neighbours (-1: none); a gap
# that is LATE can be told only when the children are known; a scope is named by ranges of variables (-1: none).
OWN_VARIABLE, OWN_PLACE, OWN_FLAGS, OWN_WORDS = range(4)
KID_NODE, KID_PLACE, KID_LEFT, KID_RIGHT, KID_FOLLOWS_KID, KID_FLAGS, KID_WORDS = range(7)
GAP_NEGATION, GAP_IS_LATE, GAP_WORDS = range(3)
(NEGATED_NODE, NEGATED_PLACE, AFTER, AFTER_END, BEFORE, BEFORE_END, AROUND, AROUND_END, WHEN, WHEN_END,
 NEGATION_WORDS) = range(11)  # fmt: skip
VIEW_FIRST, VIEW_N_VALUES, VIEW_VARIABLE, VIEW_CODES, VIEW_WORDS = range(5)  # VARIABLE: of the outer value, -1: one view for all


def flattened(program: Program) -> Ints:
    """A program as one array, still without positions but with room for as many as its marks have."""
    sizes = np.array([part.size for part in program], np.int64)
    offsets = N_WORDS + np.cumsum(sizes) - sizes
    # Ranges of rows are ranges of the whole array.
    moved = program._replace(row_begins=program.row_begins + offsets[ROWS], row_ends=program.row_ends + offsets[ROWS])
    counts = np.array([0, len(program.begins), len(program.root_checks)], np.int64)
    return np.concatenate([offsets, counts, *(part.ravel() for part in moved)])


def part_of(p: Ints, table: int, size: int, begin: int = 0) -> Ints:
    """Words of a part, to be written to."""
    at = int(p[table]) + begin
    return p[at : at + size]


class Store(NamedTuple):
    """What evaluation writes.

    `work` holds registers, the stack of calls (`frames`), the position that each variable is bound to, and a row of SLAB words per
    view.
    """

    work: Ints
    arena: Ints
    pool: Ints  # (2, words): records of views in chains (next, size, record), one half in use
    intervals: Ints  # (2, n, 4): low, high, first record, last record


# The first words of `Store.work`: scalars that calls share, and where its other parts begin.
(TOP, FRAME, FRAME_WORDS, RETURNED, FLOOR, POOL_TOP, HALF, INTERVAL_TOP, LIVE, PEAK, N_COMPUTED, FULL, RUNG, N_VIEWS, FRAMES, BOUND,
 SLABS, N_REGISTERS) = range(18)  # fmt: skip
# Per view: where its intervals begin, how many there are, room for how many, 1 if they are those known not to be empty; and where
# the arena has its latest request (`requests`).
SLAB_BEGIN, SLAB_COUNT, SLAB_ROOM, SLAB_IS_NARROW, SLAB_REQUEST, SLAB_WORDS = range(6)
FIRST, LAST, MEMBERS = range(3)  # words of a record; a position per variable from MEMBERS on
NOTHING, ARENA, POOL, INTERVALS, OVERTIME = range(5)  # what is full, or over


# ---------------------------------------------------------------- tables


@kernel_part
def word(p: Ints, table: int, i: int) -> int:
    return int(p[p[table] + i])


@kernel_part
def own(p: Ints, i: int, field: int) -> int:
    return int(p[p[OWN] + OWN_WORDS * i + field])


@kernel_part
def kid(p: Ints, i: int, field: int) -> int:
    return int(p[p[KIDS] + KID_WORDS * i + field])


@kernel_part
def gap(p: Ints, i: int, field: int) -> int:
    return int(p[p[GAPS] + GAP_WORDS * i + field])


@kernel_part
def negation(p: Ints, i: int, field: int) -> int:
    return int(p[p[NEGATIONS] + NEGATION_WORDS * i + field])


@kernel_part
def view(p: Ints, node: int, field: int) -> int:
    return int(p[p[VIEWS] + VIEW_WORDS * node + field])


@kernel_part
def stride(p: Ints, node: int) -> int:
    """The words of a record of a node's instance."""
    return int(p[p[WIDTHS] + node]) + MEMBERS


@kernel_part
def at_or_after(rows: Ints, begin: int, end: int, bound: int) -> int:
    while begin < end:
        middle = (begin + end) // 2
        if rows[middle] < bound:
            begin = middle + 1
        else:
            end = middle
    return begin


# ---------------------------------------------------------------- bindings


@kernel_part
def bound(w: Ints, variable: int) -> int:
    """The position that a variable is bound to."""
    return int(w[w[BOUND] + variable])


@kernel_part
def bind(w: Ints, variable: int, position: int) -> None:
    w[w[BOUND] + variable] = position


@kernel_part
def bind_record(p: Ints, w: Ints, arena: Ints, node: int, at: int) -> None:
    """Bind a node's variables as in the record at this place of the arena."""
    to = w[BOUND] + p[p[BASES] + node]
    for v in range(p[p[WIDTHS] + node]):
        w[to + v] = arena[at + MEMBERS + v]


@kernel_part
def any_bound(w: Ints, begin: int, end: int) -> bool:
    for v in range(begin, end):  # noqa: SIM110  # compiled
        if bound(w, v) >= 0:
            return True
    return False


@kernel_part
def last_bound(w: Ints, begin: int, end: int) -> int:
    last = -1
    for v in range(begin, end):
        last = max(last, bound(w, v))
    return last


@kernel_part
def first_bound(w: Ints, begin: int, end: int) -> int:
    first = NO_LIMIT
    for v in range(begin, end):
        if bound(w, v) >= 0:
            first = min(first, bound(w, v))
    return first


# ---------------------------------------------------------------- clauses


@kernel_part
def _side(p: Ints, w: Ints, side: int) -> int:
    first = word(p, SIDES_AT, side)
    for i in range(first, word(p, SIDES_AT, side + 1)):
        variable, base = word(p, SIDES, 2 * i), word(p, SIDES, 2 * i + 1)
        if variable < 0:
            return word(p, VALUES, base)
        if bound(w, variable) >= 0:
            return word(p, VALUES, base + bound(w, variable))
    # None is bound: the value that stands behind those of all positions that there is room for.
    return word(p, VALUES, word(p, SIDES, 2 * first + 1) + p[N_ROOM])


@kernel_part
def holds(p: Ints, w: Ints, place: int) -> bool:
    """Whether all clauses of a place hold for the present bindings."""
    for c in range(word(p, PLACES_AT, place), word(p, PLACES_AT, place + 1)):
        clause = word(p, PLACED, c)
        begin, end = word(p, GUARDS, 2 * clause), word(p, GUARDS, 2 * clause + 1)
        if begin >= 0 and not any_bound(w, begin, end):
            continue
        true = False
        for a in range(word(p, CLAUSES_AT, clause), word(p, CLAUSES_AT, clause + 1)):
            op = word(p, ATOMS, 3 * a)
            left, right = _side(p, w, word(p, ATOMS, 3 * a + 1)), _side(p, w, word(p, ATOMS, 3 * a + 2))
            if left == NULL or right == NULL:
                continue
            true = compare(op, left, right)
            if true:
                break
        if not true:
            return False
    return True


# ---------------------------------------------------------------- the arena


@kernel_part
def reserve(w: Ints, arena: Ints, words: int) -> None:
    if w[TOP] + words > len(arena):
        w[FULL] = ARENA
        raise OverflowError("arena")


@kernel_part
def look_at_clock(w: Ints) -> None:
    """Give up where the time is over."""
    if w[RUNG] != 0:
        w[FULL] = OVERTIME
        raise OverflowError("time")


@kernel_part
def move_down(arena: Ints, source: int, target: int, words: int) -> None:
    """Move words of the arena to an earlier place, which they may overlap."""
    for i in range(words):
        arena[target + i] = arena[source + i]
