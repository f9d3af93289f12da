"""The CBS-tree: a circular binary search tree over the recent instances, asked for "the latest e between l and r".

The leaves are a ring of the last L instances, numbered as they arrive; instance s sits in leaf s mod L. Every inner node knows
which symbols lie below it, so a search walks down at most two paths. L is a power of two and covers the longest predicate window,
so the memory does not depend on the number of rules. The numbers below a node follow from the newest instance alone (the leaf j
holds the largest s <= head with s mod L = j), so the paper's timestamp sets are computed, not stored; leaves not yet filled hold
numbers below 0 and no symbol, which makes the tree that is not yet full an ordinary case.

Cost: O(log L) per arrival and per vertex of a rule whose sink arrived. Memory: L bitsets of symbols.
Invariant: below a node, leaves up to the newest one ascend and are all newer than those right of it, which ascend too.

| Paper (CBS-Tree) | Here |
|---|---|
| timestamp t of an instance | its number; `firsts` maps it to the first instance of the same time, because times may be equal |
| R_E, LR_E, RR_E | `sets` (bits), asked by `_holds` |
| n.lmt, n.rmt, n.lat, n.smt | `_number` of the leaf in question |
| Cases 1 to 4 | `_find` |
| Case 4, line 2: `lt <= n.lch.rmt` | `lt <= n.lch.lat`: as printed, the newest leaves of a left child may never be searched |
| Case 4, line 4: right end `n.lch.rmt` | also cut to `rt`: as printed, an instance after `rt` can be returned |
| Case 4, line 3: `n.lch.lmt - 1 = n.rch.rmt` | true for the root alone, so: at the root |
| rejected event instances (Definition 3) | `rejected`, by vertex; several vertices may share the start time, and all are |
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from seqube.engine.jit import kernel
from seqube.events.batch import Codes
from seqube.events.times import Ints
from seqube.predict.episodes import NEVER, Episodes, Found, Seeds, double_room


class CbsTree(NamedTuple):
    """The ring of leaves and the symbol sets above it. Node 1 is the root, below n are 2n and 2n + 1, leaf j is node L + j."""

    times: Ints  # by leaf
    symbols: Codes  # by leaf, -1 where it is not filled
    firsts: Ints  # by leaf: the number of the first instance with the same time
    sets: npt.NDArray[np.uint64]  # by inner node


def plant(n_leaves: int, n_symbols: int) -> CbsTree:
    """An empty tree; `n_leaves` is a power of two, at least 2."""
    return CbsTree(
        np.full(n_leaves, NEVER, np.int64),
        np.full(n_leaves, -1, np.int32),
        np.zeros(n_leaves, np.int64),
        np.zeros((n_leaves, max(1, (n_symbols + 63) // 64)), np.uint64),
    )


def match_cbs_tree(times: Ints, symbols: Codes, fresh: npt.NDArray[np.bool_], seeds: Seeds, episodes: Episodes) -> Found:
    """Min-latest occurrences that end at a fresh event. Times ascend; the events of one time are all fresh or all old."""
    n_leaves = max(2, 1 << (_most_at_once(times, episodes.longest) - 1).bit_length())
    tree = plant(n_leaves, episodes.n_symbols)
    n_found, rules, starts, ends = _match(times, symbols, fresh, seeds, tree, episodes)
    return Found(rules[:n_found], starts[:n_found], ends[:n_found])


@kernel
def _most_at_once(times: Ints, window: int) -> int:
    """The largest number of events whose times lie within one closed window."""
    most = 1
    oldest = 0
    for row in range(times.size):
        while times[oldest] < times[row] - window:
            oldest += 1
        most = max(most, row - oldest + 1)
    return most


@kernel
def _match(
    times: Ints, symbols: Codes, fresh: npt.NDArray[np.bool_], seeds: Seeds, tree: CbsTree, episodes: Episodes
) -> tuple[int, Codes, Ints, Ints]:
    n_found = 0
    out_rules = np.empty(1024, np.int32)
    out_starts = np.empty(1024, np.int64)
    out_ends = np.empty(1024, np.int64)
    lasts = np.full(episodes.withins.size, NEVER, np.int64)
    ends = np.full(episodes.withins.size, NEVER, np.int64)  # by rule: the end time it was last looked at for
    rejected = np.full(episodes.vertex_symbols.size, NEVER, np.int64)
    widest = np.int64(1)
    for rule in range(episodes.withins.size):
        widest = max(widest, episodes.vertex_starts[rule + 1] - episodes.vertex_starts[rule])
    mapped = np.empty(widest, np.int64)
    stack = np.empty((256, 5), np.int64)
    seed = 0
    row = 0
    while row < times.size:
        end = times[row]
        stop = row
        while stop < times.size and times[stop] == end:
            _insert(stop, end, symbols[stop], row, tree)
            stop += 1
        while seed < seeds.starts.size and seeds.starts[seed] <= end:
            lasts[seeds.rules[seed]] = seeds.starts[seed]
            seed += 1
        head = stop - 1
        if fresh[row]:
            for k in range(row, stop):
                for j in range(episodes.sink_starts[symbols[k]], episodes.sink_starts[symbols[k] + 1]):
                    rule = episodes.sink_rules[j]
                    if ends[rule] == end:
                        continue
                    ends[rule] = end
                    floor = max(end - episodes.withins[rule], lasts[rule] + 1)
                    start = _retrieve(rule, head, floor, rejected, mapped, stack, tree, episodes)
                    if start != NEVER:
                        if n_found == out_rules.size:
                            out_rules, out_starts, out_ends = double_room(out_rules, out_starts, out_ends)
                        out_rules[n_found] = rule
                        out_starts[n_found] = start
                        out_ends[n_found] = end
                        n_found += 1
                        lasts[rule] = start
                        _reject(rule, head, start, rejected, mapped, stack, tree, episodes)
        row = stop
    return n_found, out_rules, out_starts, out_ends


# ---------------------------------------------------------------- the tree


@kernel
def _holds(node: int, symbol: int, tree: CbsTree) -> bool:
    n_leaves = tree.symbols.size
    if node >= n_leaves:
        return bool(tree.symbols[node - n_leaves] == symbol)
    return bool((tree.sets[node, symbol >> 6] >> np.uint64(symbol & 63)) & np.uint64(1))


@kernel
def _insert(number: int, time: int, symbol: int, first: int, tree: CbsTree) -> None:
    """Put an instance into the leaf of the oldest one, and bring the sets on the path to the root up to date."""
    n_leaves = tree.symbols.size
    leaf = number & (n_leaves - 1)
    gone = tree.symbols[leaf]
    tree.times[leaf] = time
    tree.symbols[leaf] = symbol
    tree.firsts[leaf] = first
    node = (n_leaves + leaf) >> 1
    while node >= 1:
        # Above a node that still holds the symbol that left, all do.
        if gone >= 0 and (_holds(2 * node, gone, tree) or _holds(2 * node + 1, gone, tree)):
            gone = -1
        if gone >= 0:
            tree.sets[node, gone >> 6] &= ~(np.uint64(1) << np.uint64(gone & 63))
        tree.sets[node, symbol >> 6] |= np.uint64(1) << np.uint64(symbol & 63)
        node >>= 1


@kernel
def _number(leaf: int, head: int, n_leaves: int) -> int:
    """The number of the instance in a leaf, given the number of the newest instance of all."""
    return head - ((head - leaf) & (n_leaves - 1))


@kernel
def _push(stack: npt.NDArray[np.int64], depth: int, node: int, leaf: int, width: int, lt: int, rt: int) -> int:
    """Note that the leaves `leaf .. leaf + width - 1` below a node are to be searched for numbers from lt to rt."""
    stack[depth, 0] = node
    stack[depth, 1] = leaf
    stack[depth, 2] = width
    stack[depth, 3] = lt
    stack[depth, 4] = rt
    return depth + 1


@kernel
def _find(symbol: int, lt: int, rt: int, head: int, stack: npt.NDArray[np.int64], tree: CbsTree) -> int:
    """FindLatestEventOccurrence: the latest instance of a symbol numbered from lt to rt, or -1; `stack` is its working space."""
    n_leaves = tree.symbols.size
    newest = head & (n_leaves - 1)
    if rt < lt or not _holds(1, symbol, tree):
        return -1
    depth = _push(stack, 0, 1, 0, n_leaves, lt, rt)
    while depth:
        depth -= 1
        node, leaf, width = stack[depth, 0], stack[depth, 1], stack[depth, 2]
        lt, rt = stack[depth, 3], stack[depth, 4]
        if width == 1:
            number = _number(leaf, head, n_leaves)
            if lt <= number <= rt:
                return number
            continue
        half = width >> 1
        middle = leaf + half
        left, right = 2 * node, 2 * node + 1
        in_left, in_right = _holds(left, symbol, tree), _holds(right, symbol, tree)
        l_lmt, l_rmt = _number(leaf, head, n_leaves), _number(middle - 1, head, n_leaves)
        r_lmt, r_rmt = _number(middle, head, n_leaves), _number(leaf + width - 1, head, n_leaves)
        # What is pushed last is tried first.
        if newest < leaf or newest >= leaf + width - 1:
            if rt == r_rmt:  # Case 1: one path
                if in_right:
                    depth = _push(stack, depth, right, middle, half, max(lt, r_lmt), rt)
                elif in_left and lt <= l_rmt:
                    depth = _push(stack, depth, left, leaf, half, lt, l_rmt)
            else:  # Cases 2 and 3: the right child as far as rt reaches into it, then the left one
                if in_left and lt <= l_rmt:
                    depth = _push(stack, depth, left, leaf, half, lt, min(rt, l_rmt))
                if in_right and rt >= r_lmt:
                    depth = _push(stack, depth, right, middle, half, max(lt, r_lmt), rt)
            continue
        # Case 4: the newest leaf is not the right-most one; the leaves up to it are newer than those after it.
        is_split_left = newest < middle
        l_lat = head if is_split_left else l_rmt
        r_smt = r_lmt if is_split_left else head + 1 - n_leaves
        if rt >= l_lmt:
            if node == 1:
                if in_left and lt <= l_rmt:
                    depth = _push(stack, depth, left, leaf, half, lt, min(rt, l_rmt))
                if in_right and lt <= r_rmt:
                    depth = _push(stack, depth, right, middle, half, max(lt, r_smt), r_rmt)
            if in_left and lt <= l_lat:
                depth = _push(stack, depth, left, leaf, half, lt, min(rt, l_lat))
            if in_right and not is_split_left and rt >= r_lmt:
                depth = _push(stack, depth, right, middle, half, max(lt, r_lmt), rt)
        else:
            if in_left and lt < r_smt:
                depth = _push(stack, depth, left, leaf, half, lt, min(rt, l_rmt))
            if in_right and rt >= r_smt:
                depth = _push(stack, depth, right, middle, half, max(lt, r_smt), rt)
    return -1


# ---------------------------------------------------------------- rules over the tree


@kernel
def _oldest_from(floor: int, head: int, tree: CbsTree) -> int:
    """The number of the oldest instance in the tree that is not before `floor`; instances ascend in time."""
    n_leaves = tree.symbols.size
    low, high = max(-1, head - n_leaves), head
    while high - low > 1:
        middle = (low + high) >> 1
        if tree.times[middle & (n_leaves - 1)] < floor:
            low = middle
        else:
            high = middle
    return high


@kernel
def _retrieve(
    rule: int,
    head: int,
    floor: int,
    rejected: Ints,
    mapped: Ints,
    stack: npt.NDArray[np.int64],
    tree: CbsTree,
    episodes: Episodes,
) -> int:
    """Algorithm 1: the start of the rule's min-latest occurrence to the newest instance, or NEVER; `mapped` gets the numbers."""
    mask = tree.symbols.size - 1
    first = episodes.vertex_starts[rule]
    n_vertices = episodes.vertex_starts[rule + 1] - first
    for v in range(n_vertices):
        if not _holds(1, episodes.vertex_symbols[first + v], tree):
            return NEVER
    lt = _oldest_from(floor, head, tree)
    start: int = tree.times[head & mask]
    for v in range(n_vertices):
        rt = head
        for k in range(episodes.next_starts[first + v], episodes.next_starts[first + v + 1]):
            rt = min(rt, tree.firsts[mapped[episodes.nexts[k]] & mask] - 1)
        number = _find(episodes.vertex_symbols[first + v], lt, rt, head, stack, tree)
        if number < 0:
            return NEVER
        moment = tree.times[number & mask]
        if moment < floor or moment <= rejected[first + v]:
            return NEVER
        mapped[v] = number
        start = min(start, moment)
    return start


@kernel
def _reject(
    rule: int,
    head: int,
    start: int,
    rejected: Ints,
    mapped: Ints,
    stack: npt.NDArray[np.int64],
    tree: CbsTree,
    episodes: Episodes,
) -> None:
    """Definition 3: the instances that any later occurrence with the same start would contain."""
    mask = tree.symbols.size - 1
    first = episodes.vertex_starts[rule]
    for v in range(episodes.vertex_starts[rule + 1] - first - 1, -1, -1):  # predecessors come before their successors
        moment = tree.times[mapped[v] & mask]
        is_rejected = moment == start
        for k in range(episodes.before_starts[first + v], episodes.before_starts[first + v + 1]):
            u = episodes.befores[k]
            if not is_rejected and rejected[first + u] == tree.times[mapped[u] & mask]:
                later = tree.firsts[mapped[v] & mask] - 1
                is_rejected = _find(episodes.vertex_symbols[first + u], mapped[u] + 1, later, head, stack, tree) < 0
        if is_rejected:
            rejected[first + v] = moment
