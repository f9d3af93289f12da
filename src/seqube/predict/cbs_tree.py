"""The CBS-tree: a circular binary search tree over the recent instances, asked for "the latest e between l and r".

The leaves are a ring of the last L instances, numbered as they arrive; instance s sits in leaf s mod L. Every inner node knows
which symbols lie below it, so a search walks down at most two paths. L is a power of two and covers the longest predicate window:
where the next instance would overwrite one inside it, the tree moves to twice the leaves, and it stays from step to step. So the
memory does not depend on the number of rules. Keyed rules have a tree for each key, all in one pool. The numbers below a node
follow from the newest instance alone (the leaf j holds the largest s <= head with s mod L = j), so the paper's timestamp sets are
computed, not stored; leaves not yet filled hold numbers below 0 and no symbol, which makes the tree that is not yet full an
ordinary case.

Cost: O(log L) per arrival and per vertex of a rule whose sink arrived; growing is amortised. Memory: L bitsets of symbols.
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
| rejected event instances (Definition 3) | `Visits.rejected`, by vertex; several vertices may share the start time, and all are |
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from seqube.engine.jit import inner_kernel, kernel
from seqube.engine.series import CodeNumbers
from seqube.events.batch import Codes
from seqube.events.times import Ints
from seqube.predict.episodes import NEVER, Arrivals, Episodes, Found, Lasts, Reported, double_room, look_up


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


class Forest(NamedTuple):
    """A tree per key in one pool: tree t has `n_leaves[t]` leaves from `begins[t]` on, and `heads[t]` is its newest number."""

    begins: Ints
    n_leaves: Ints
    heads: Ints
    trees: CbsTree  # all of them, side by side


class Visits(NamedTuple):
    """What is known of rules and vertices between two arrivals; a note of another key, or another step, counts as none."""

    lasts: Ints  # by rule: the start reported last
    runs: Ints  # by rule: of which run of one key that is
    looked: Ints  # by rule: the visit it was last looked at in
    rejected: Ints  # by vertex
    owners: Ints  # by vertex: the key that it was rejected for


class TreeMemory:
    """What `cbs-tree` remembers: a tree (one for each key where there are keys) that grows with its window."""

    def __init__(self, episodes: Episodes, keyed: bool) -> None:
        self._episodes = episodes
        self._numbering = CodeNumbers(None if keyed else 1)
        nothing = np.zeros(self._numbering.count, np.int64)
        self._forest = Forest(nothing, nothing.copy(), nothing - 1, plant(16, episodes.n_symbols))
        self._top = 0  # leaves of the pool that are in use, or were
        self._since = 0  # instances that came since ranks were closed
        n_rules, n_vertices = episodes.n_rules, len(episodes.vertex_symbols)
        self._rejected, self._owners = np.full(n_vertices, NEVER, np.int64), np.full(n_vertices, -1, np.int64)
        self._by_rule = np.empty((3, n_rules), np.int64)

    def match(self, new: Arrivals, reported: Reported | None) -> tuple[Found, Ints]:
        """Remember the next events, and give the occurrences that end at one of them, with their keys; without `reported`, none."""
        order = np.argsort(new.keys, kind="stable")
        times, symbols, keys = new.times[order], new.symbols[order], new.keys[order]
        oldest = int(times.min()) - self._episodes.longest
        pieces: list[tuple[Codes, Ints, Ints, Ints]] = []
        row = 0
        while row < len(times):
            numbers = self._number(keys)
            self._by_rule[:] = -1
            lasts_seen, runs, looked = self._by_rule
            visits = Visits(lasts_seen, runs, looked, self._rejected, self._owners)
            silent = reported is None
            lasts = (reported or Reported(1, keyed=True)).lasts
            row, self._top, n_found, rules, starts, ends, found_keys = _match(
                times, symbols, keys, numbers, row, silent, lasts, visits, self._forest, self._top, self._episodes
            )
            rules, starts, found_keys = rules[:n_found], starts[:n_found], found_keys[:n_found]
            pieces.append((rules, starts, ends[:n_found], found_keys))
            if row < len(times):  # no tree found room: what goes on must know what was reported so far
                if reported is not None:
                    reported.note(rules, starts, found_keys, oldest)
                self._close_ranks(oldest, len(times))
        self._since += len(times)
        if self._since > len(self._forest.trees.times):
            self._close_ranks(oldest, 0)
        rules, starts, ends, found_keys = (np.concatenate(column) for column in zip(*pieces, strict=True))
        return Found(rules, starts, ends), found_keys

    def _number(self, keys: Ints) -> Ints:
        """The numbers of the keys' trees; a new one is empty."""
        numbers = self._numbering.number(keys)
        forest, count = self._forest, self._numbering.count
        if (n_more := 2 * count - len(forest.heads)) > count:
            none = np.zeros(n_more, np.int64)
            begins, n_leaves = np.concatenate((forest.begins, none)), np.concatenate((forest.n_leaves, none))
            self._forest = Forest(begins, n_leaves, np.concatenate((forest.heads, none - 1)), forest.trees)
        return numbers

    def _close_ranks(self, oldest: int, n_new: int) -> None:
        """A new pool: trees that are empty go, others get the leaves that they need, with room for twice as many in all."""
        forest, count = self._forest, self._numbering.count
        sizes = _count_live(forest, oldest)[:count]
        chosen = np.arange(count)
        if self._numbering.table.slots.size:
            chosen = np.flatnonzero(sizes)
            codes, self._numbering = self._numbering.codes[chosen], CodeNumbers()
            self._numbering.number(codes)
        needed = np.maximum(2, 1 << np.ceil(np.log2(np.maximum(sizes[chosen], 1))).astype(np.int64))
        room = 4 * int(needed.sum()) + 8 * n_new + 16
        self._forest = Forest(np.cumsum(needed) - needed, needed, sizes[chosen] - 1, plant(room, self._episodes.n_symbols))
        _transplant_all(forest, chosen, self._forest)
        self._top, self._since = int(needed.sum()), 0

    def contents(self, oldest: int) -> Arrivals:
        """The instances from `oldest` on."""
        sizes = _count_live(self._forest, oldest)[: self._numbering.count]
        times, symbols = _gather(self._forest, sizes)
        order = np.argsort(times, kind="stable")
        return Arrivals(times[order], symbols[order], np.repeat(self._numbering.codes, sizes)[order])

    @property
    def n_kept(self) -> int:
        return int(np.minimum(self._forest.n_leaves, self._forest.heads + 1).sum())

    @property
    def n_bytes(self) -> int:
        return sum(part.nbytes for part in (*self._forest[:-1], *self._forest.trees))


@kernel
def _match(
    times: Ints,
    symbols: Codes,
    keys: Ints,
    numbers: Ints,
    row: int,
    silent: bool,
    reported: Lasts,
    visits: Visits,
    forest: Forest,
    top: int,
    episodes: Episodes,
) -> tuple[int, int, int, Codes, Ints, Ints, Ints]:
    """Insert instances from `row` on, key by key, and look at the rules whose sinks they are, until a tree finds no room.

    Returned: the next row, the leaves in use, and the occurrences: how many, their rules, starts, ends and keys.
    """
    n_found = 0
    out_rules = np.empty(1024, np.int32)
    out_starts = np.empty(1024, np.int64)
    out_ends = np.empty(1024, np.int64)
    out_keys = np.empty(1024, np.int64)
    n_rules = episodes.withins.size
    widest, longest = np.int64(1), np.int64(0)
    for r in range(n_rules):
        widest = max(widest, episodes.vertex_starts[r + 1] - episodes.vertex_starts[r])
        longest = max(longest, episodes.withins[r])
    mapped = np.empty(widest, np.int64)
    stack = np.empty((256, 5), np.int64)
    run = row
    while row < times.size:
        end, key, number = times[row], keys[row], numbers[row]
        if key != keys[run]:
            run = row
        stop = row
        while stop < times.size and times[stop] == end and keys[stop] == key:
            stop += 1
        size = _size_needed(forest, number, stop - row, end - longest)
        if size > forest.n_leaves[number]:
            if top + size > forest.trees.times.size:
                break
            grown = _tree_at(forest.trees, top, size)
            _transplant(_tree_at(forest.trees, forest.begins[number], forest.n_leaves[number]), forest.heads[number], grown)
            forest.begins[number], forest.n_leaves[number] = top, size
            top += size
        tree = _tree_at(forest.trees, forest.begins[number], size)
        first = forest.heads[number] + 1
        for k in range(row, stop):
            _insert(first + k - row, end, symbols[k], first, tree)
        head = first + stop - row - 1
        forest.heads[number] = head
        if not silent:
            for k in range(row, stop):
                for j in range(episodes.sink_starts[symbols[k]], episodes.sink_starts[symbols[k] + 1]):
                    rule = int(episodes.sink_rules[j])
                    if visits.looked[rule] == row:
                        continue
                    visits.looked[rule] = row
                    if visits.runs[rule] != run:
                        visits.runs[rule] = run
                        visits.lasts[rule] = look_up(reported, key * n_rules + rule)
                    floor = max(end - episodes.withins[rule], visits.lasts[rule] + 1)
                    start = _retrieve(rule, key, head, floor, visits, mapped, stack, tree, episodes)
                    if start != NEVER:
                        if n_found == out_rules.size:
                            out_rules, out_starts, out_ends = double_room(out_rules, out_starts, out_ends)
                            out_keys = np.concatenate((out_keys, np.empty_like(out_keys)))
                        out_rules[n_found] = rule
                        out_starts[n_found] = start
                        out_ends[n_found] = end
                        out_keys[n_found] = key
                        n_found += 1
                        visits.lasts[rule] = start
                        _reject(rule, key, head, start, visits, mapped, stack, tree, episodes)
        row = stop
    return row, top, n_found, out_rules, out_starts, out_ends, out_keys


# ---------------------------------------------------------------- trees that grow


@inner_kernel
def _tree_at(trees: CbsTree, begin: int, n_leaves: int) -> CbsTree:
    end = begin + n_leaves
    return CbsTree(trees.times[begin:end], trees.symbols[begin:end], trees.firsts[begin:end], trees.sets[begin:end])


@inner_kernel
def _size_needed(forest: Forest, number: int, n_new: int, oldest: int) -> int:
    """The leaves that a tree must have so that so many more instances overwrite none from `oldest` on."""
    n_leaves, head = forest.n_leaves[number], forest.heads[number]
    size = max(n_leaves, 2)
    while True:
        gone = head + n_new - size  # the newest that is overwritten
        if gone <= head and (gone < 0 or gone <= head - n_leaves):
            return int(size)
        if gone <= head and forest.trees.times[forest.begins[number] + (gone & (n_leaves - 1))] < oldest:
            return int(size)
        size *= 2


@inner_kernel
def _transplant(old: CbsTree, head: int, new: CbsTree) -> None:
    """Insert the newest instances of a tree into another one, as many as it has leaves for, under the same numbers."""
    new.times[:] = NEVER
    new.symbols[:] = -1
    new.firsts[:] = 0
    new.sets[:] = 0
    mask = old.times.size - 1
    for number in range(max(0, head + 1 - min(old.times.size, new.times.size)), head + 1):
        leaf = number & mask
        _insert(number, old.times[leaf], old.symbols[leaf], old.firsts[leaf], new)


@kernel
def _count_live(forest: Forest, oldest: int) -> Ints:
    """By tree: how many instances are not before `oldest`."""
    sizes = np.zeros(forest.heads.size, np.int64)
    for t in range(sizes.size):
        if forest.n_leaves[t] > 0:
            head = forest.heads[t]
            tree = _tree_at(forest.trees, forest.begins[t], forest.n_leaves[t])
            if head >= 0 and tree.times[head & (forest.n_leaves[t] - 1)] >= oldest:
                sizes[t] = head + 1 - _oldest_from(oldest, head, tree)
    return sizes


@kernel
def _transplant_all(forest: Forest, chosen: Ints, target: Forest) -> None:
    """The chosen trees into another forest, their live instances numbered from 0 on."""
    for t in range(chosen.size):
        old, begin = chosen[t], forest.begins[chosen[t]]
        n_live, mask = target.heads[t] + 1, forest.n_leaves[old] - 1
        tree = _tree_at(target.trees, target.begins[t], target.n_leaves[t])
        shift = forest.heads[old] + 1 - n_live
        for number in range(n_live):
            leaf = begin + ((number + shift) & mask)
            first = max(0, forest.trees.firsts[leaf] - shift)
            _insert(number, forest.trees.times[leaf], forest.trees.symbols[leaf], first, tree)


@kernel
def _gather(forest: Forest, sizes: Ints) -> tuple[Ints, Codes]:
    """Times and symbols of the newest instances of each tree, so many, tree after tree."""
    n = sizes.sum()
    times, symbols = np.empty(n, np.int64), np.empty(n, np.int32)
    at = 0
    for t in range(sizes.size):
        for number in range(forest.heads[t] + 1 - sizes[t], forest.heads[t] + 1):
            leaf = forest.begins[t] + (number & (forest.n_leaves[t] - 1))
            times[at], symbols[at] = forest.trees.times[leaf], forest.trees.symbols[leaf]
            at += 1
    return times, symbols


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


@inner_kernel
def _number(leaf: int, head: int, n_leaves: int) -> int:
    """The number of the instance in a leaf, given the number of the newest instance of all."""
    return head - ((head - leaf) & (n_leaves - 1))


@inner_kernel
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


@inner_kernel
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


@inner_kernel
def _retrieve(
    rule: int,
    key: int,
    head: int,
    floor: int,
    visits: Visits,
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
        if moment < floor or (visits.owners[first + v] == key and moment <= visits.rejected[first + v]):
            return NEVER
        mapped[v] = number
        start = min(start, moment)
    return start


@inner_kernel
def _reject(
    rule: int,
    key: int,
    head: int,
    start: int,
    visits: Visits,
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
            if not is_rejected and visits.owners[first + u] == key and visits.rejected[first + u] == tree.times[mapped[u] & mask]:
                later = tree.firsts[mapped[v] & mask] - 1
                is_rejected = _find(episodes.vertex_symbols[first + u], mapped[u] + 1, later, head, stack, tree) < 0
        if is_rejected:
            visits.rejected[first + v], visits.owners[first + v] = moment, key
