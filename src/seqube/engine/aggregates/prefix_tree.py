"""Counting patterns together by a tree of their prefixes (PreTree).

All patterns of one window share a tree; its nodes are prefixes. The row of counters of `window_product` gets an entry per node, an
event adds the entry of every parent to that of the child it fills, and the queue of two stacks works as before: the back keeps for
every node a column over its own path, the front a row over all nodes per start. Nodes are numbered in preorder, so that what lies
below a node is a range. Both stacks go on from call to call.

Cost: per event, the nodes it fills times their depth, amortised. Memory: a row per start in the window, a step per map of the back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from seqube.engine.aggregates.aggregation import Floats
from seqube.engine.aggregates.labels import Labelled, Labels, lists
from seqube.engine.jit import inner_kernel, kernel
from seqube.engine.limits import Budget
from seqube.engine.predicates import Ints
from seqube.engine.sequence import HIGHEST
from seqube.plan.sharing import SharingPlan, SlotLabel, SlotPattern


class Tree(NamedTuple):
    """Prefixes in preorder; node 0 is the empty one."""

    parents: Ints
    depths: Ints
    sizes: Ints  # of the subtree
    paths: Ints  # (nodes, depth + 1): from the empty prefix to the node
    at: Ints  # where each label's nodes begin in `nodes`
    nodes: Ints  # nodes of each label, the deepest first
    ends_at: Ints  # where each node's queries begin in `queries`
    queries: Ints


class TreeStacks(NamedTuple):
    """The queue of two stacks over a tree. `sizes`: steps and starts of the back, rows of the front, when its first leaves."""

    back: Floats
    steps: Ints  # nodes, as they were filled since the last turn
    untils: Ints  # of the steps
    rows: Floats
    row_untils: Ints
    sizes: Ints


def empty_stacks(tree: Tree) -> TreeStacks:
    n_nodes, none = len(tree.parents), np.empty(64, np.int64)
    back = np.zeros((n_nodes, tree.paths.shape[1]))
    back[np.arange(n_nodes), tree.depths] = 1.0
    return TreeStacks(back, none, none.copy(), np.empty((64, n_nodes)), none.copy(), np.array([0, 0, 0, HIGHEST]))


def make_tree(patterns: Sequence[SlotPattern], numbers: Mapping[SlotLabel, int]) -> Tree:
    children: dict[SlotPattern, list[SlotPattern]] = {}
    for pattern in patterns:
        for i in range(len(pattern)):
            siblings = children.setdefault(pattern[:i], [])
            if pattern[: i + 1] not in siblings:
                siblings.append(pattern[: i + 1])
    order: list[SlotPattern] = []

    def visit(prefix: SlotPattern) -> None:
        order.append(prefix)
        for child in children.get(prefix, []):
            visit(child)

    visit(())
    number = {prefix: i for i, prefix in enumerate(order)}
    deepest = max(map(len, order))
    paths = np.zeros((len(order), deepest + 1), np.int64)
    sizes = np.ones(len(order), np.int64)
    for i, prefix in enumerate(order):
        paths[i, : len(prefix) + 1] = [number[prefix[:k]] for k in range(len(prefix) + 1)]
        for k in range(len(prefix)):
            sizes[number[prefix[:k]]] += 1
    depths = np.array([len(prefix) for prefix in order], np.int64)
    parents = np.array([number[prefix[:-1]] if prefix else -1 for prefix in order], np.int64)
    by_label: list[list[int]] = [[] for _ in numbers]
    for i, prefix in enumerate(order):
        if prefix:
            by_label[numbers[prefix[-1]]].append(i)
    at, nodes = lists([sorted(found, key=lambda i: -len(order[i])) for found in by_label])
    ends_at, queries = lists([[q for q, pattern in enumerate(patterns) if number[pattern] == i] for i in range(len(order))])
    return Tree(parents, depths, sizes, paths, at, nodes, ends_at, queries)


class PrefixTrees:
    """The counters of a workload, a tree for every window."""

    def __init__(self, sharing: SharingPlan, numbers: Mapping[SlotLabel, int]) -> None:
        self._patterns = {name: query.pattern for name, query in sharing.queries.items()}
        self._names: dict[int, list[str]] = {}
        for name, query in sharing.queries.items():
            self._names.setdefault(query.window, []).append(name)
        self._trees = {
            window: make_tree([self._patterns[name] for name in names], numbers) for window, names in self._names.items()
        }
        self._stacks = {window: empty_stacks(tree) for window, tree in self._trees.items()}

    @property
    def n_bytes(self) -> int:
        return sum(column.nbytes for stacks in self._stacks.values() for column in stacks)

    def count(self, labels: Labels, budget: Budget) -> dict[str, Floats]:
        """The counts of every query at the moments of its last label, when these events have come."""
        counts: dict[str, Floats] = {}
        for window, names in self._names.items():
            offsets = labels.offsets(self._patterns[name] for name in names)
            out = np.zeros(offsets[-1])
            with budget.bell() as bell:
                self._stacks[window] = slide_tree(
                    labels.events, self._trees[window], self._stacks[window], window, offsets, bell, out
                )
            counts |= {name: out[offsets[i] : offsets[i + 1]] for i, name in enumerate(names)}
        return counts


@inner_kernel
def _turn_tree(tree: Tree, steps: Ints, untils: Ints, moment: int, rows: Floats, entry_untils: Ints, product: Floats) -> int:
    """Multiply steps (nodes) up from their end; keep the rows of starts that live at `moment`, and count them."""
    n_nodes = len(tree.parents)
    product[:, :] = 0.0
    for i in range(n_nodes):
        product[i, i] = 1.0
    top = 0
    for k in range(len(steps) - 1, -1, -1):
        node = steps[k]
        parent = tree.parents[node]
        if parent == 0 and untils[k] <= moment:
            break
        for x in range(node, node + tree.sizes[node]):
            product[parent, x] += product[node, x]
        if parent == 0:
            for x in range(n_nodes):
                rows[top, x] = product[0, x]
            entry_untils[top] = untils[k]
            top += 1
    return top


@kernel
def slide_tree(
    arrived: Labelled, tree: Tree, stacks: TreeStacks, window: int, offsets: Ints, bell: Ints, out: Floats
) -> TreeStacks:
    """The counts of all queries of a tree at their triggers, until the `bell` rings; those of query q begin at `offsets[q]`."""
    times, types, table, masks = arrived
    n_nodes, width = len(tree.parents), table.shape[1]
    masked = masks.shape[1] > 0
    deepest = tree.paths.shape[1] - 1
    written = offsets.copy()
    back, steps, step_untils, rows, entry_untils, sizes = stacks
    product = np.empty((n_nodes, n_nodes))
    hit = np.zeros(n_nodes, np.bool_)
    hits = np.empty(n_nodes, np.int64)
    n_steps, n_starts, top, oldest = sizes
    row, n_rows = 0, len(times)
    while row < n_rows and bell[0] == 0:
        time = times[row]
        end = row + 1
        while end < n_rows and times[end] == time:
            end += 1
        n_hits = 0
        # Deeper nodes first, so that events of one time do not see each other; those of one label are in that order already.
        tied = end > row + 1 or (width > 1 and table[types[row], 1] >= 0)
        for depth in range(deepest if tied else 1, 0, -1):
            for r in range(row, end):
                for i in range(width):
                    label = table[types[r], i]
                    if label < 0:
                        break
                    if masked and not masks[label, r]:
                        continue
                    for at in range(tree.at[label], tree.at[label + 1]):
                        node = tree.nodes[at]
                        if tied and tree.depths[node] != depth:
                            continue
                        parent = tree.parents[node]
                        for k in range(tree.depths[node]):
                            back[node, k] += back[parent, k]
                        if n_steps == len(steps):
                            more, more_untils = np.empty(2 * n_steps, np.int64), np.empty(2 * n_steps, np.int64)
                            for k in range(n_steps):
                                more[k], more_untils[k] = steps[k], step_untils[k]
                            steps, step_untils = more, more_untils
                        until = time + window if time <= HIGHEST - window else HIGHEST
                        steps[n_steps], step_untils[n_steps] = node, until
                        n_steps += 1
                        if parent == 0:
                            oldest = min(oldest, until)
                            n_starts += 1
                        if tree.ends_at[node + 1] > tree.ends_at[node] and not hit[node]:
                            hit[node] = True
                            hits[n_hits] = node
                            n_hits += 1
        while True:
            if top > 0:
                if entry_untils[top - 1] > time:
                    break
                top -= 1
            elif n_starts > 0 and oldest <= time:
                if n_starts > len(entry_untils):
                    rows, entry_untils = np.empty((2 * n_starts, n_nodes)), np.empty(2 * n_starts, np.int64)
                top = _turn_tree(tree, steps[:n_steps], step_untils, time, rows, entry_untils, product)
                for i in range(n_nodes):
                    for k in range(tree.depths[i]):
                        back[i, k] = 0.0
                n_steps, n_starts, oldest = 0, 0, HIGHEST
            else:
                break
        for h in range(n_hits):
            node = hits[h]
            hit[node] = False
            value = back[node, 0]
            if top > 0:
                value = 0.0
                for k in range(tree.depths[node] + 1):
                    value += rows[top - 1, tree.paths[node, k]] * back[node, k]
            for q in range(tree.ends_at[node], tree.ends_at[node + 1]):
                query = tree.queries[q]
                out[written[query]] = value
                written[query] += 1
        row = end
    return TreeStacks(back, steps, step_untils, rows, entry_untils, np.array([n_steps, n_starts, top, oldest]))
