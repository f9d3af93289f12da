"""Counters that go on: the products and prefix counters of all lanes, as columns that a stream is taken into.

A lane keeps what its strategy needs, and no event:

    window product   the back as a matrix, its maps as a list that ends with the newest (a turn goes through them from there), and
                     the front rows as a list that begins with the oldest live start
    per start        a row of prefix counters for every live start, the newest first

Rows and maps of all lanes are nodes of two pools, linked, and taken from those that are free: nothing is sorted, nothing is moved,
and what leaves the window is free again. A group of several lanes has a binary tree over their values, of which only the paths
above lanes that changed are added up anew: a lane changes when a match ends in it and when a start leaves it, as the queue knows.

Numbers are doubles side by side, one for each track; the first counts matches and bounds the others. What plus and times are, the
ring of a track says: those of numbers (0), of residues modulo a prime, or (-1) min and max, with which the smallest of all values
is a sum like others: HIGHEST is zero, and LOWEST is one. What is compared are the bits, as a whole number.

Memory: per lane the back, per live start a row, per map since the last turn a node. `progress` says how they go on.
Invariant: a node is in one list, or free.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from seqube.engine.aggregates.automaton import Automaton
from seqube.engine.jit import inner_kernel, kernel_part
from seqube.engine.predicates import Ints
from seqube.engine.sequence import HIGHEST

Array = npt.NDArray[Any]

# Columns of lanes: the first row (of the oldest live start in a product, of the newest per start), the newest map of the back,
# starts in the back, when the next start leaves (the back, or per start the lane) and when the last one does; per start, until when
# ends do not count for new starts; its group and its leaf in the tree of that, its domain, whether it changed. And, whatever the
# lane, the list of those that changed.
FIRST_ROW, LAST_MAP, N_STARTS, NEXT_LEAVES, LAST_LEAVES, BLOCK, GROUP_OF, LEAF, DOMAIN_OF, IS_DIRTY, DIRTY = range(11)

# Columns of nodes: when it leaves, the next one of its list and, whatever the node, the list of free ones. Then, of rows, until
# when ends do not count for it; of maps, the rank; of what waits to leave, its lane and what it is.
LEAVES_AT, LINK, FREE, BLOCKED = range(4)
RANK = 3
LANE, KIND = 3, 4
START_LEAVES, NEGATION_LEAVES = 0, 1

# Columns of groups: the one lane of each, where it has one; how many it has, where its tree begins and how many leaves it has;
# whether a match ended in it just now. And, whatever the group, the list of those.
ONE_LANE, N_OF_LANES, OFFSET, WIDTH, IS_FRESH, FRESH = range(6)

# Columns of domains, which are what has a clock (the stream or, where a window counts events, a partition): the time or the number
# of the last event, and the list of what waits to leave.
CLOCK_NOW, FIRST_WAITING, LAST_WAITING = range(3)

# Where a stream stands within a batch, and how much there is of everything: places in `at`, the first WITHIN_BATCH of a batch.
IS_OPEN, NOW, NEXT_TICK, NEXT_MAP, NEXT_SAMPLE, GROUP, N_OUT = range(7)
WITHIN_BATCH = 7
FLUSHED, N_DIRTY, N_FRESH, FREE_ROWS, FREE_MAPS, FREE_WAITING, BACK_STARTS = range(7, 14)
N_LANES, N_GROUPS, N_DOMAINS, N_TREES = range(14, 18)
N_PLACES = 18


class Counters(NamedTuple):
    lanes: Ints
    back: Array  # (lane, to, from, track)
    rows: Ints
    entries: Array  # (row, prefix, track)
    maps: Ints
    weights: Array  # (map, track)
    queue: Ints
    groups: Ints
    totals: Array  # (group, track)
    trees: Array  # (node, track): those of all groups, each from its offset on
    domains: Ints
    scratch: Array  # (to, from, track): what a turn multiplies up
    at: Ints


class How(NamedTuple):
    """What is counted."""

    auto: Automaton
    leading: int  # the rank of negations that stand first
    window: int
    by_position: bool
    total: bool  # each match counts once, for its group
    own: bool  # what a start has counts when it leaves
    news: bool  # groups are reported where a match ends; in a total, at the next sample, and begun anew
    single: bool  # a group is one lane


class Exact(NamedTuple):
    """The ring of every track, its zero and its one, which final states it reads, and what no count goes beyond."""

    rings: Array
    zeros: Array
    ones: Array
    reads: Array  # (final state, track)
    limit: float  # in a state
    most: float  # in what is read


# ---------------------------------------------------------------- arithmetic


@kernel_part
def added(left: float, right: float, ring: float) -> float:
    if ring == 0.0:
        return left + right
    if ring > 0.0:
        return (left + right) % ring
    return left if np.float64(left).view(np.int64) <= np.float64(right).view(np.int64) else right


@kernel_part
def multiplied(left: float, right: float, ring: float) -> float:
    if ring == 0.0:
        return left * right if left != 0.0 and right != 0.0 else 0.0  # nothing times infinity is nothing
    if ring > 0.0:
        return left * right % ring
    return left if np.float64(left).view(np.int64) >= np.float64(right).view(np.int64) else right


@inner_kernel
def fill_row(entries: Array, values: Array) -> None:
    """One number of each track, in all entries of a row."""
    for j in range(entries.shape[0]):
        for t in range(len(values)):
            entries[j, t] = values[t]


@inner_kernel
def identity_matrix(matrix: Array, exact: Exact) -> None:
    for i in range(matrix.shape[0]):
        fill_row(matrix[i], exact.zeros)
        for t in range(len(exact.ones)):
            matrix[i, i, t] = exact.ones[t]


@inner_kernel
def raise_entries(to: Array, source: Array, weights: Array, span: tuple[int, int], rings: Array) -> None:
    """Add weighted entries of one row to those of another."""
    for j in range(span[0], span[1]):
        for t in range(len(rings)):
            to[j, t] = added(to[j, t], multiplied(source[j, t], weights[t], rings[t]), rings[t])


@inner_kernel
def join_row(row: Array, column: Array, size: int, exact: Exact, out: Array) -> None:
    """A front row times a column of the back, of which so many entries count."""
    for t in range(len(out)):
        ring, value = exact.rings[t], exact.zeros[t]
        for j in range(size):
            value = added(value, multiplied(row[j, t], column[j, t], ring), ring)
        out[t] = value


@inner_kernel
def add_read(to: Array, numbers: Array, final: int, exact: Exact) -> None:
    """Add what is in a final state, for the tracks that read it."""
    for t in range(len(to)):
        if exact.reads[final, t]:
            to[t] = added(to[t], numbers[t], exact.rings[t])


@inner_kernel
def put(to: Array, numbers: Array) -> None:
    for t in range(len(to)):
        to[t] = numbers[t]


@inner_kernel
def add(to: Array, numbers: Array, rings: Array) -> None:
    for t in range(len(to)):
        to[t] = added(to[t], numbers[t], rings[t])


# ---------------------------------------------------------------- nodes


@inner_kernel
def take_node(nodes: Ints, at: Ints, free: int) -> Any:
    at[free] -= 1
    return nodes[at[free], FREE]


@inner_kernel
def free_node(nodes: Ints, at: Ints, free: int, node: int) -> None:
    nodes[at[free], FREE] = node
    at[free] += 1


@inner_kernel
def push_map(lanes: Ints, maps: Ints, weights: Array, at: Ints, lane: int, rank: int, until: int, weight: Array) -> None:
    """Add a map to the list of the back."""
    node = take_node(maps, at, FREE_MAPS)
    maps[node, RANK], maps[node, LEAVES_AT], maps[node, LINK] = rank, until, lanes[lane, LAST_MAP]
    lanes[lane, LAST_MAP] = node
    put(weights[node], weight)


@inner_kernel
def empty_back(lanes: Ints, back: Array, maps: Ints, at: Ints, lane: int, exact: Exact) -> None:
    node = lanes[lane, LAST_MAP]
    while node >= 0:
        free_node(maps, at, FREE_MAPS, node)
        node = maps[node, LINK]
    at[BACK_STARTS] -= lanes[lane, N_STARTS]
    lanes[lane, LAST_MAP], lanes[lane, N_STARTS], lanes[lane, NEXT_LEAVES] = -1, 0, HIGHEST
    identity_matrix(back[lane], exact)


@inner_kernel
def wait(queue: Ints, domains: Ints, at: Ints, domain: int, until: int, lane: int, kind: int) -> None:
    """Something of a lane will leave then."""
    node = take_node(queue, at, FREE_WAITING)
    queue[node, LEAVES_AT], queue[node, LANE], queue[node, KIND], queue[node, LINK] = until, lane, kind, -1
    if domains[domain, FIRST_WAITING] < 0:
        domains[domain, FIRST_WAITING] = node
    else:
        queue[domains[domain, LAST_WAITING], LINK] = node
    domains[domain, LAST_WAITING] = node
