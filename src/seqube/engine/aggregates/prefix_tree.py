"""Counting patterns together by a tree of their prefixes, as products over the window.

All patterns of one family that begin alike share a tree; its nodes are prefixes. The row of counters of `window_product` gets an
entry per node, an event adds the entry of every parent, times what it weighs there, to that of the child it fills, and a negated
one sets entries to zero. The queue of two stacks works as before, one for every lane: the back keeps for every node a column over
its own path, the front a row over all nodes per start. Nodes are numbered in preorder, so that what lies below a node is a range.
Steps and rows are nodes of two pools, linked, so that lanes go on from call to call.

Cost: per event, the nodes it fills times their depth, amortised. Memory: a row per start in the window, a step per node filled
since the last turn, and for every lane the back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from seqube.engine.aggregates.labels import LabelLayout, LabelMaps, lists
from seqube.engine.aggregates.lanes import Numbers
from seqube.engine.aggregates.readings import (
    N_COLUMNS,
    EventWeights,
    Operations,
    Passage,
    Path,
    PathChanges,
    Reads,
    carried,
    due_at,
    joined_changes,
    met,
    more_changes,
    noted,
    write_change,
)
from seqube.engine.jit import inner_kernel, kernel, kernel_part
from seqube.engine.limits import Budget
from seqube.engine.predicates import Ints
from seqube.engine.sequence import HIGHEST
from seqube.plan.sharing import SlotLabel, SlotPattern, Weight, unweighed

# Columns of lanes: NEXT_GONE is when the first start of the back leaves, NEXT_READ when patterns are read, where there is a period.
TOP_ROW, LAST_STEP, N_BEGUN, NEXT_GONE, NEXT_READ = range(5)
GOES_AT, NEXT_ONE, NODE = range(3)  # columns of rows and steps; a step that sets to zero has the node's number less one, negated
FIRST_ROOM = 64


class Tree(NamedTuple):
    """Prefixes in preorder; node 0 is the empty one. Nodes of a label come deepest first."""

    parents: Ints
    depths: Ints
    sizes: Ints  # of the subtree
    paths: Ints  # (nodes, depth + 1): from the empty prefix to the node
    weights: Ints  # which row of the weights a node's event has, -1: it counts as one
    counts: Ints  # the node that counts what is weighed here, -1 if there is none: where it is zero, nothing comes of nothing
    at: Ints  # where each label's nodes begin in `nodes`
    nodes: Ints
    cuts_at: Ints  # where the nodes begin in `cuts` that each label sets to zero
    cuts: Ints


class Prefixes:
    """The prefixes of some patterns: a tree, and where each pattern ends in it."""

    def __init__(self, patterns: Sequence[SlotPattern]) -> None:
        children: dict[SlotPattern, dict[SlotPattern, None]] = {}
        for pattern in patterns:
            for i in range(len(pattern)):
                children.setdefault(pattern[:i], {})[pattern[: i + 1]] = None
        self.order: list[SlotPattern] = []
        waiting: list[SlotPattern] = [()]
        while waiting:
            prefix = waiting.pop()
            self.order.append(prefix)
            waiting += reversed(children.get(prefix, {}))
        self.numbers = {prefix: i for i, prefix in enumerate(self.order)}
        self._parents = set(children)

    def tree(self, layout: LabelLayout, weights: Sequence[Weight]) -> Tree:
        n, deepest = len(self.order), max(map(len, self.order))
        paths, sizes = np.zeros((n, deepest + 1), np.int64), np.ones(n, np.int64)
        filling: list[list[int]] = [[] for _ in range(layout.n_labels)]
        cutting: list[list[int]] = [[] for _ in range(layout.n_labels)]
        of_weights = np.full(n, -1, np.int64)
        for i, prefix in enumerate(self.order):
            paths[i, : len(prefix) + 1] = [self.numbers[prefix[:k]] for k in range(len(prefix) + 1)]
            for k in range(len(prefix)):
                sizes[self.numbers[prefix[:k]]] += 1
            if prefix:
                label: SlotLabel = prefix[-1]
                filling[layout.filling[label.kind]].append(i)
                for absent in label.absent:
                    cutting[layout.cancelling[absent]].append(i)
                of_weights[i] = weights.index(label.weight) if label.weight is not None else -1
        at, nodes = lists(sorted(found, key=lambda i: -len(self.order[i])) for found in filling)
        cuts_at, cuts = lists(sorted(found, key=lambda i: -len(self.order[i])) for found in cutting)
        parents = np.array([self.numbers[prefix[:-1]] if prefix else -1 for prefix in self.order], np.int64)
        depths = np.array([len(prefix) for prefix in self.order], np.int64)
        counts = np.array([self.numbers.get(unweighed(prefix), -1) for prefix in self.order], np.int64)
        return Tree(parents, depths, sizes, paths, of_weights, counts, at, nodes, cuts_at, cuts)

    def reads(self, paths: Sequence[Path], ends: Sequence[SlotPattern]) -> Reads:
        """What is read of paths, each of which ends with one of these patterns."""
        nodes = np.array([self.numbers[end] for end in ends], np.int64)
        ends_at, at_nodes = lists([p for p in range(len(paths)) if nodes[p] == i] for i in range(len(self.order)))
        held = np.array([prefix in self._parents for prefix in self.order], np.bool_)
        held[[node for node, path in zip(nodes, paths, strict=True) if path.bucket < 0]] = True
        ending = {path.pattern: number for number, path in enumerate(paths) if path.fresh and path.at_ends}
        follows = [ending.get(unweighed(path.pattern), -1) if path.at_ends else -1 for path in paths]
        return Reads(
            nodes,
            np.array([path.watches for path in paths], np.bool_),
            np.array([path.bucket for path in paths], np.int64),
            np.array([path.fresh for path in paths], np.bool_),
            np.array(follows, np.int64),
            ends_at,
            at_nodes,
            held,
        )


class TreeStacks(NamedTuple):
    """The queues of two stacks of all lanes. `free`: how many rows and steps are."""

    lanes: Ints
    back: Numbers  # (lane, node, place on its path)
    rows: Ints
    entries: Numbers  # (row, node)
    free_rows: Ints
    steps: Ints
    step_weights: Numbers
    free_steps: Ints
    values: Numbers  # (lane, path): as they were read last
    free: Ints


class PrefixTree:
    """The counters of patterns that begin alike."""

    def __init__(
        self, numbers: Sequence[int], paths: Sequence[Path], layout: LabelLayout, weights: Sequence[Weight], arithmetic: Operations
    ) -> None:
        self._numbers, self._arithmetic = np.array(numbers, np.int64), arithmetic
        prefixes = Prefixes([path.pattern for path in paths])
        self._tree = prefixes.tree(layout, weights)
        self._reads = prefixes.reads(paths, [path.pattern for path in paths])
        self._fills, self._cuts = np.diff(self._tree.at), np.diff(self._tree.cuts_at)
        self._starts = np.array(
            [(self._tree.parents[nodes] == 0).sum() for nodes in np.split(self._tree.nodes, self._tree.at[1:-1])]
        )
        self._is_watched = bool(self._reads.watches.any())
        self._stacks = self._empty(0)

    def _empty(self, n_lanes: int) -> TreeStacks:
        n_nodes, width = self._tree.paths.shape
        kind = np.array(self._arithmetic.zero).dtype
        lanes = np.tile(np.array([-1, -1, 0, HIGHEST, HIGHEST]), (n_lanes, 1))
        back = np.full((n_lanes, n_nodes, width), self._arithmetic.zero, kind)
        back[:, np.arange(n_nodes), self._tree.depths] = self._arithmetic.one
        values = np.full((n_lanes, len(self._numbers)), self._arithmetic.zero, kind)
        none, nothing = np.empty(0, np.int64), np.empty(0, kind)
        rows = np.empty((0, 2), np.int64), np.empty((0, n_nodes), kind), none
        return TreeStacks(lanes, back, *rows, np.empty((0, 3), np.int64), nothing, none, values, np.zeros(2, np.int64))

    @property
    def n_bytes(self) -> int:
        return sum(column.nbytes for column in self._stacks)

    def take(self, maps: LabelMaps, n_lanes: int, weights: EventWeights, clock: Passage, budget: Budget) -> PathChanges:
        """The changes of all patterns when these events have come."""
        maps = maps.only((self._fills > 0) | (self._cuts > 0))
        clock = clock._replace(is_watched=self._is_watched)
        self._reserve(maps, 1 if clock.is_last else n_lanes, clock)
        if not clock.is_last:
            busy = np.zeros(n_lanes, np.bool_)
            busy[maps.lanes[np.diff(maps.offsets) > 0]] = True
            if self._is_watched:
                busy |= self._leaving()[:n_lanes] <= clock.upto
                busy |= self._stacks.lanes[:n_lanes, NEXT_READ] <= clock.upto
            maps = maps.over(np.flatnonzero(busy))
        kind = np.array(self._arithmetic.zero).dtype
        out = np.empty((FIRST_ROOM, N_COLUMNS), np.int64), np.empty(FIRST_ROOM, kind)
        with budget.bell() as bell:
            facts, values, n = slide_tree(
                maps, self._tree, self._reads, self._stacks, weights, self._arithmetic, clock, self._numbers, bell, *out
            )
        return PathChanges(facts[:n], values[:n])

    def _leaving(self) -> Ints:
        """When the next start of every lane leaves."""
        leaves, rows = self._stacks.lanes[:, NEXT_GONE].copy(), self._stacks.lanes[:, TOP_ROW]
        leaves[rows >= 0] = self._stacks.rows[rows[rows >= 0], GOES_AT]
        return leaves

    def _reserve(self, maps: LabelMaps, n_lanes: int, clock: Passage) -> None:
        """Lanes, and as many steps and rows as there can be."""
        stacks = self._stacks
        if n_lanes > len(stacks.lanes):
            more = self._empty(max(n_lanes, 2 * len(stacks.lanes)) - len(stacks.lanes))
            stacks = stacks._replace(
                lanes=np.concatenate([stacks.lanes, more.lanes]),
                back=np.concatenate([stacks.back, more.back]),
                values=np.concatenate([stacks.values, more.values]),
            )
        n_starts = most_in_window(maps, self._starts, clock.window, clock.is_last)
        n_steps = most_in_window(maps, self._fills + self._cuts, clock.window, clock.is_last)
        if not clock.is_last:  # a start of the back becomes a row
            n_starts += int(stacks.lanes[:, N_BEGUN].sum())
        if (missing := n_starts - stacks.free[0]) > 0:
            missing += len(stacks.rows)
            rows, entries, free = (_longer(each, missing) for each in (stacks.rows, stacks.entries, stacks.free_rows))
            _set_free(free, stacks.free, 0, len(stacks.rows), missing)
            stacks = stacks._replace(rows=rows, entries=entries, free_rows=free)
        if (missing := n_steps - stacks.free[1]) > 0:
            missing += len(stacks.steps)
            steps, numbers, free = (_longer(each, missing) for each in (stacks.steps, stacks.step_weights, stacks.free_steps))
            _set_free(free, stacks.free, 1, len(stacks.steps), missing)
            stacks = stacks._replace(steps=steps, step_weights=numbers, free_steps=free)
        self._stacks = stacks


@kernel
def most_in_window(maps: LabelMaps, sizes: Ints, window: int, one_by_one: bool) -> int:
    """How much of what comes with new events, by label, there can be at once: in any lane, or in all together.

    Steps stay until the queue turns. Until then there are those of less than two windows: while starts of the front are alive, and
    while the first of the back is.
    """
    total = 0
    for number in range(len(maps.lanes)):
        first, now, most, of_all = maps.offsets[number], 0, 0, 0
        for k in range(maps.offsets[number], maps.offsets[number + 1]):
            until = maps.times[k]
            while first < k and maps.times[first] <= HIGHEST - window and maps.times[first] + window <= until:
                now -= sizes[maps.labels[first]]
                first += 1
            now += sizes[maps.labels[k]]
            of_all += sizes[maps.labels[k]]
            most = max(most, now)
        of_lane = min(of_all, 2 * most)
        total = max(total, of_lane) if one_by_one else total + of_lane
    return total


def _longer(array: Numbers, more: int) -> Numbers:
    return np.concatenate([array, np.empty((more, *array.shape[1:]), array.dtype)])


def _set_free(free: Ints, n_free: Ints, which: int, first: int, more: int) -> None:
    free[n_free[which] : n_free[which] + more] = np.arange(first, first + more)
    n_free[which] += more


class PrefixTrees:
    """The counters of a family's patterns, a tree for all that begin alike."""

    def __init__(self, paths: Sequence[Path], layout: LabelLayout, weights: Sequence[Weight], arithmetic: Operations) -> None:
        self._arithmetic = arithmetic
        alike: dict[SlotLabel, list[int]] = {}
        for number, path in enumerate(paths):
            alike.setdefault(path.pattern[0].kind, []).append(number)
        self._trees = [
            PrefixTree(numbers, [paths[number] for number in numbers], layout, weights, arithmetic) for numbers in alike.values()
        ]

    @property
    def n_bytes(self) -> int:
        return sum(tree.n_bytes for tree in self._trees)

    def take(self, maps: LabelMaps, n_lanes: int, weights: EventWeights, clock: Passage, budget: Budget) -> PathChanges:
        return joined_changes([tree.take(maps, n_lanes, weights, clock, budget) for tree in self._trees], self._arithmetic)


# ---------------------------------------------------------------- the loop


@kernel_part
def _read(tree: Tree, entries: Numbers, row: int, back: Numbers, node: int, arithmetic: Operations) -> Any:
    """What there is at a node of a lane now."""
    _, zero, least = arithmetic
    if row < 0:
        return back[node, 0]
    value = zero
    for k in range(tree.depths[node] + 1):
        value = met(value, carried(entries[row, tree.paths[node, k]], back[node, k], least), least)
    return value


@inner_kernel
def _turn_tree(tree: Tree, s: TreeStacks, lane: int, moment: int, product: Numbers, arithmetic: Operations) -> None:
    """Multiply steps up from their end; keep the rows of starts that live at `moment`, and no step."""
    one, zero, least = arithmetic
    n_nodes = len(tree.parents)
    for i in range(n_nodes):
        for x in range(i, i + tree.sizes[i]):
            product[i, x] = zero
        product[i, i] = one
    first, step, lives = -1, s.lanes[lane, LAST_STEP], True
    while step >= 0:
        node = s.steps[step, NODE]
        if not lives:
            pass
        elif node < 0:
            node = -node - 1
            for x in range(node, node + tree.sizes[node]):
                product[node, x] = zero
        elif tree.parents[node] == 0 and s.steps[step, GOES_AT] <= moment:
            lives = False  # this start has left, and so have all before it
        else:
            parent, weight = tree.parents[node], s.step_weights[step]
            for x in range(node, node + tree.sizes[node]):
                product[parent, x] = met(product[parent, x], carried(product[node, x], weight, least), least)
            before = s.steps[step, NEXT_ONE]
            if parent == 0 and not (before >= 0 and _is_start_of(tree, s, before, s.steps[step, GOES_AT])):
                s.free[0] -= 1
                row = s.free_rows[s.free[0]]
                for x in range(n_nodes):
                    s.entries[row, x] = product[0, x]
                s.rows[row, GOES_AT], s.rows[row, NEXT_ONE] = s.steps[step, GOES_AT], first
                first = row
        s.free_steps[s.free[1]] = step
        s.free[1] += 1
        step = s.steps[step, NEXT_ONE]
    s.lanes[lane, TOP_ROW], s.lanes[lane, LAST_STEP] = first, -1
    s.lanes[lane, N_BEGUN], s.lanes[lane, NEXT_GONE] = 0, HIGHEST
    _empty_back(tree, s.back[lane], arithmetic)


@kernel_part
def _is_start_of(tree: Tree, s: TreeStacks, step: int, until: int) -> bool:
    """Whether a step begins matches at the same time as another: they leave together, in one row."""
    node = s.steps[step, NODE]
    return bool(node >= 0 and tree.parents[node] == 0 and s.steps[step, GOES_AT] == until)


@inner_kernel
def _empty_back(tree: Tree, back: Numbers, arithmetic: Operations) -> None:
    one, zero, _ = arithmetic
    for i in range(len(tree.parents)):
        for k in range(tree.depths[i]):
            back[i, k] = zero
        back[i, tree.depths[i]] = one


@inner_kernel
def _drop_row(s: TreeStacks, lane: int) -> None:
    row = s.lanes[lane, TOP_ROW]
    s.lanes[lane, TOP_ROW] = s.rows[row, NEXT_ONE]
    s.free_rows[s.free[0]] = row
    s.free[0] += 1


@inner_kernel
def _push_step(s: TreeStacks, lane: int, node: int, until: int, weight: Any) -> None:
    s.free[1] -= 1
    step = s.free_steps[s.free[1]]
    s.steps[step, NODE], s.steps[step, GOES_AT], s.steps[step, NEXT_ONE] = node, until, s.lanes[lane, LAST_STEP]
    s.step_weights[step] = weight
    s.lanes[lane, LAST_STEP] = step


@inner_kernel
def _forget_lane(tree: Tree, s: TreeStacks, lane: int, arithmetic: Operations) -> None:
    """Begin a lane anew."""
    while s.lanes[lane, TOP_ROW] >= 0:
        _drop_row(s, lane)
    step, n_steps = s.lanes[lane, LAST_STEP], 0
    while step >= 0:
        s.free_steps[s.free[1]] = step
        s.free[1] += 1
        n_steps += 1
        step = s.steps[step, NEXT_ONE]
    s.lanes[lane, LAST_STEP], s.lanes[lane, N_BEGUN] = -1, 0
    s.lanes[lane, NEXT_GONE] = s.lanes[lane, NEXT_READ] = HIGHEST
    if n_steps > 0:
        _empty_back(tree, s.back[lane], arithmetic)
    for path in range(s.values.shape[1]):
        s.values[lane, path] = arithmetic.zero


@kernel
def slide_tree(
    maps: LabelMaps,
    tree: Tree,
    reads: Reads,
    s: TreeStacks,
    weights: EventWeights,
    arithmetic: Operations,
    clock: Passage,
    numbers: Ints,
    bell: Ints,
    facts: Ints,
    values: Numbers,
) -> tuple[Ints, Numbers, int]:
    """The changes of all patterns of a tree, which have these `numbers`, until the `bell` rings; and how many there are."""
    one, zero, least = arithmetic
    window, upto, is_watched, is_last, period = clock
    n_nodes, n_paths = len(tree.parents), len(numbers)
    deepest = tree.paths.shape[1] - 1
    product = np.empty((n_nodes, n_nodes), values.dtype)
    hit, hits, fresh = np.zeros(n_paths, np.bool_), np.zeros(n_paths, np.int64), np.zeros(n_paths, np.bool_)
    news, bucket = np.full(n_paths, zero, values.dtype), np.zeros(n_paths, np.int64)
    n = 0
    for number in range(len(maps.lanes)):
        lane = 0 if is_last else maps.lanes[number]
        k, end = maps.offsets[number], maps.offsets[number + 1]
        back = s.back[lane]
        while bell[0] == 0:
            moment = maps.times[k] if k < end else HIGHEST
            if is_watched:
                row = s.lanes[lane, TOP_ROW]
                moment = min(moment, due_at(s.rows[row, GOES_AT] if row >= 0 else s.lanes[lane, NEXT_GONE], period))
            is_due = s.lanes[lane, NEXT_READ] < moment  # all that comes at that time has come
            moment = min(moment, s.lanes[lane, NEXT_READ])
            if moment > upto or moment == HIGHEST:
                break
            gone, n_hits = False, 0
            while True:
                row = s.lanes[lane, TOP_ROW]
                if row >= 0:
                    if s.rows[row, GOES_AT] > moment:
                        break
                    _drop_row(s, lane)
                elif s.lanes[lane, NEXT_GONE] <= moment:
                    _turn_tree(tree, s, lane, moment, product, arithmetic)
                else:
                    break
                gone = True
            upto_k = k
            while upto_k < end and maps.times[upto_k] == moment:
                upto_k += 1
            tied = upto_k > k + 1
            until = moment + window if moment <= HIGHEST - window else HIGHEST
            begun = s.lanes[lane, TOP_ROW] >= 0 or s.lanes[lane, N_BEGUN] > 0
            # Deeper nodes first, and what is cancelled before what is filled, so that events of one time do not see each other.
            for depth in range(deepest if tied else 1, 0, -1):
                for m in range(k, upto_k):
                    label = maps.labels[m]
                    for at in range(tree.cuts_at[label], tree.cuts_at[label + 1]):
                        node = tree.cuts[at]
                        if not begun or (tied and tree.depths[node] != depth):
                            continue
                        for j in range(tree.depths[node] + 1):
                            back[node, j] = zero
                        _push_step(s, lane, -node - 1, until, one)
                        for e in range(reads.ends_at[node], reads.ends_at[node + 1]):
                            n_hits = noted(hit, hits, n_hits, reads.ends[e])
                for m in range(k, upto_k):
                    label = maps.labels[m]
                    for at in range(tree.at[label], tree.at[label + 1]):
                        node = tree.nodes[at]
                        if tied and tree.depths[node] != depth:
                            continue
                        parent, weight = tree.parents[node], one
                        if parent != 0 and not begun:  # what has left since it was read is gone
                            for e in range(reads.ends_at[node], reads.ends_at[node + 1]):
                                if reads.buckets[reads.ends[e]] < 0:
                                    n_hits = noted(hit, hits, n_hits, reads.ends[e])
                            continue
                        row, plain, count = s.lanes[lane, TOP_ROW], tree.counts[parent], one
                        if parent != 0 and plain >= 0:
                            count = _read(tree, s.entries, row, back, plain, arithmetic)
                        if tree.weights[node] >= 0:
                            weight = weights.numbers[tree.weights[node], maps.rows[m]]
                        for e in range(reads.ends_at[node], reads.ends_at[node + 1]):
                            path = reads.ends[e]
                            kind = reads.buckets[path]
                            if kind < 0 and not reads.fresh[path]:
                                n_hits = noted(hit, hits, n_hits, path)
                                continue
                            value = zero
                            if count != zero:
                                value = count if plain == parent else _read(tree, s.entries, row, back, parent, arithmetic)
                                value = carried(value, weight, least)
                            if kind < 0:
                                n_hits = noted(hit, hits, n_hits, path)
                                fresh[path] = fresh[path] or value != zero
                                continue
                            now = weights.buckets[kind, maps.rows[m]]
                            if news[path] != zero and now != bucket[path]:
                                facts, values = more_changes(facts, values, n, 1)
                                lane_of = maps.lanes[number]
                                n = write_change(facts, values, n, bucket[path], numbers[path], lane_of, True, news[path])
                                news[path] = zero
                            bucket[path] = now
                            news[path] = met(news[path], value, least)
                        if count == zero or not reads.held[node]:
                            continue
                        for j in range(tree.depths[node]):
                            back[node, j] = met(back[node, j], carried(back[parent, j], weight, least), least)
                        _push_step(s, lane, node, until, weight)
                        if parent == 0:
                            s.lanes[lane, NEXT_GONE] = min(s.lanes[lane, NEXT_GONE], until)
                            s.lanes[lane, N_BEGUN] += 1
            if period > 0:
                s.lanes[lane, NEXT_READ] = HIGHEST if is_due else min(s.lanes[lane, NEXT_READ], due_at(moment, period))
            looks_at_all = is_due or (gone and is_watched)
            if looks_at_all or n_hits > 0:
                facts, values = more_changes(facts, values, n, n_paths)
            for number_of in range(n_paths if looks_at_all else n_hits):
                path = number_of if looks_at_all else hits[number_of]
                if reads.follows[path] >= 0 and not fresh[reads.follows[path]]:
                    continue
                if is_due or (period == 0 and (hit[path] or (gone and reads.watches[path]))):
                    value = _read(tree, s.entries, s.lanes[lane, TOP_ROW], back, reads.nodes[path], arithmetic)
                    if value != s.values[lane, path] or fresh[path]:
                        n = write_change(facts, values, n, moment, numbers[path], maps.lanes[number], fresh[path], value)
                        s.values[lane, path] = value
            for number_of in range(n_hits):
                hit[hits[number_of]] = fresh[hits[number_of]] = False
            k = upto_k
        facts, values = more_changes(facts, values, n, n_paths)
        for path in range(n_paths):
            if news[path] != zero:
                n = write_change(facts, values, n, bucket[path], numbers[path], maps.lanes[number], True, news[path])
                news[path] = zero
        if is_last:
            _forget_lane(tree, s, lane, arithmetic)
    return facts, values, n
