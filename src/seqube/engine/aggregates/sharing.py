"""Counting a workload together: one tree of prefixes, or shared pieces connected by snapshots.

Prefix tree. All patterns of one window share a tree; its nodes are prefixes. The row of counters of `window_product` gets an entry
per node, an event adds the entry of every parent to that of the child it fills, and the queue of two stacks works as before: the
back keeps for every node a column over its own path, the front a row over all nodes per start. Nodes are numbered in preorder, so
that what lies below a node is a range.

Chop-Connect. A piece has prefix counters per start, as in `per_start`, whoever uses it. When a piece begins (a CNET event d), every
query in which it follows other pieces takes a snapshot for d: how many matches of the pieces before it each live first event has. A
query's count is then, over the starts d of its last piece, the count on d times the snapshot's entries that have not expired.

    Paper (A-Seq)              | Here
    PreTree                    | Tree: parents, sizes, paths
    CNET                       | rank 0 of a piece that is not the first
    SnapShot, its table rows   | snapshots[connection, d, a]
    expiration in a snapshot   | only a's whose time is inside the query's own window are added
    multi-connect              | connections[c] reads connections[c - 1] and the counters of the piece between

Cost: prefix tree: per event, the nodes it fills times their depth, amortised. Chop-Connect: per event, the live starts of the
pieces it is in; per CNET event, the live first events (times the live starts of the piece between); per trigger, both.
Invariant: counts are doubles; a query whose counts reach 2^53 is computed again by itself, exactly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from seqube.engine.aggregates.aggregation import Aggregator, Answer, Cells, Floats, Task, write
from seqube.engine.aggregates.counting import EXACT
from seqube.engine.jit import kernel
from seqube.engine.predicates import Evaluator, Ints
from seqube.engine.sequence import HIGHEST
from seqube.errors import PlanError
from seqube.events import Events
from seqube.plan.aggregates import MATCHES, AggregatePlan
from seqube.plan.sharing import Label, Pattern, SharingPlan

LARGEST_SNAPSHOTS = 1 << 26  # numbers in all snapshots


def count_together(sharing: SharingPlan, plans: Mapping[str, AggregatePlan], events: Events) -> dict[str, pa.Table]:
    """The results of all queries of a sharing plan, by name."""
    if sharing.strategy == "independent" or not sharing.queries:
        return {name: Aggregator(plans[name]).run(events) for name in sharing.queries}
    labels = Labels(sharing, events)
    counts = _by_tree(sharing, labels, events) if sharing.strategy == "prefix-tree" else _by_pieces(sharing, labels, events)
    return {
        name: _table(plans[name], labels.moments(sharing.queries[name].pattern[-1]), counts[name], events)
        for name in sharing.queries
    }


def _table(plan: AggregatePlan, moments: Ints, counts: Floats, events: Events) -> pa.Table:
    aggregator = Aggregator(plan)
    if not (counts < EXACT).all():
        return aggregator.run(events)
    task = Task(plan, aggregator._batch(aggregator._add(aggregator.start(), events)), 0, HIGHEST, 0, True)
    task.__dict__["moments"] = moments  # found for all queries at once
    cells = Cells(np.zeros(len(moments), np.int64), np.arange(len(moments)))
    return write(task, Answer(cells, {MATCHES: pa.array(counts.astype(np.int64))}))


class Labels:
    """The labels of a workload as numbers, and which events bear them."""

    def __init__(self, sharing: SharingPlan, events: Events) -> None:
        self.numbers: dict[Label, int] = {}
        for query in sharing.queries.values():
            for label in query.pattern:
                self.numbers.setdefault(label, len(self.numbers))
        evaluator = Evaluator(events)
        self._times = events.times
        self._rows: list[Ints] = []
        for label in self.numbers:
            rows = events.rows_of(label.types)
            self._rows.append(rows[evaluator.true(label.filters, {"": rows}, len(rows))] if label.filters else rows)
        # Labels of every event, one behind the other: plain ones by its type, those with predicates by its row.
        self.masks = np.zeros((len(self.numbers), len(events) if any(label.filters for label in self.numbers) else 0), np.bool_)
        of_type: list[list[int]] = [[] for _ in events.type_names]
        for label, number in self.numbers.items():
            for code, name in enumerate(events.type_names):
                if name in label.types:
                    of_type[code].append(number)
            if self.masks.shape[1]:
                self.masks[number, self._rows[number]] = True
        width = max(map(len, of_type), default=0)
        self.table = np.full((len(of_type), max(width, 1)), -1, np.int64)
        for code, numbers in enumerate(of_type):
            self.table[code, : len(numbers)] = numbers

    def moments(self, label: Label) -> Ints:
        """The distinct times at which events of a label come."""
        times = self._times[self._rows[self.numbers[label]]]
        return times[np.concatenate(([True], times[1:] != times[:-1]))] if len(times) else times

    def most(self, label: Label, window: int) -> int:
        """The most events of a label that are inside a window at once, with those of one more timestamp."""
        times = self._times[self._rows[self.numbers[label]]]
        if not len(times):
            return 0
        return int((np.searchsorted(times, times, "right") - np.searchsorted(times, times - window, "left")).max())


def _lists(lists: Sequence[Sequence[int]]) -> tuple[Ints, Ints]:
    """Lists behind each other, and where each begins."""
    offsets = np.concatenate(([0], np.cumsum([len(items) for items in lists]))).astype(np.int64)
    return offsets, np.array([item for items in lists for item in items], np.int64)


# ---------------------------------------------------------------- prefix tree


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


def make_tree(patterns: Sequence[Pattern], labels: Labels) -> Tree:
    children: dict[Pattern, list[Pattern]] = {}
    for pattern in patterns:
        for i in range(len(pattern)):
            siblings = children.setdefault(pattern[:i], [])
            if pattern[: i + 1] not in siblings:
                siblings.append(pattern[: i + 1])
    order: list[Pattern] = []

    def visit(prefix: Pattern) -> None:
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
    by_label: list[list[int]] = [[] for _ in labels.numbers]
    for i, prefix in enumerate(order):
        if prefix:
            by_label[labels.numbers[prefix[-1]]].append(i)
    at, nodes = _lists([sorted(found, key=lambda i: -len(order[i])) for found in by_label])
    ends_at, queries = _lists([[q for q, pattern in enumerate(patterns) if number[pattern] == i] for i in range(len(order))])
    return Tree(parents, depths, sizes, paths, at, nodes, ends_at, queries)


def _by_tree(sharing: SharingPlan, labels: Labels, events: Events) -> dict[str, Floats]:
    counts: dict[str, Floats] = {}
    for window in sorted({query.window for query in sharing.queries.values()}):
        names = [name for name, query in sharing.queries.items() if query.window == window]
        patterns = [sharing.queries[name].pattern for name in names]
        tree = make_tree(patterns, labels)
        offsets = np.concatenate(([0], np.cumsum([len(labels.moments(pattern[-1])) for pattern in patterns]))).astype(np.int64)
        out = np.zeros(offsets[-1])
        slide_tree(events.times, events.types, labels.table, labels.masks, tree, window, offsets, out)
        counts |= {name: out[offsets[i] : offsets[i + 1]] for i, name in enumerate(names)}
    return counts


@kernel
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
    times: Ints,
    types: npt.NDArray[np.int32],
    table: Ints,
    masks: npt.NDArray[np.bool_],
    tree: Tree,
    window: int,
    offsets: Ints,
    out: Floats,
) -> None:
    """The counts of all queries of a tree at their triggers; those of query q begin at `offsets[q]`."""
    n_nodes, width = len(tree.parents), table.shape[1]
    masked = masks.shape[1] > 0
    deepest = tree.paths.shape[1] - 1
    written = offsets.copy()
    back = np.zeros((n_nodes, deepest + 1))
    product = np.empty((n_nodes, n_nodes))
    rows, entry_untils = np.empty((64, n_nodes)), np.empty(64, np.int64)
    steps, step_untils = np.empty(1024, np.int64), np.empty(1024, np.int64)  # of the back
    hit = np.zeros(n_nodes, np.bool_)
    hits = np.empty(n_nodes, np.int64)
    for i in range(n_nodes):
        back[i, tree.depths[i]] = 1.0
    n_steps, n_starts, top, oldest = 0, 0, 0, HIGHEST
    row, n_rows = 0, len(times)
    while row < n_rows:
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
                            more[:n_steps], more_untils[:n_steps] = steps, step_untils
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


# ---------------------------------------------------------------- chop and connect


class Pieces(NamedTuple):
    """Pieces, how they are connected, and the queries made of them. A connection is a query's pieces up to and with `next`."""

    lengths: Ints
    windows: Ints  # the longest of the queries that use the piece
    at: Ints  # where each label's places begin in `places`
    places: Ints  # (piece, slot) of each label, the last slots first
    firsts: Ints  # connection: the query's first piece
    befores: Ints  # connection: the piece before `next`
    nexts: Ints
    earlier: Ints  # connection: the one that ends with the piece before, -1 if that is the first piece
    last_pieces: Ints  # query
    connections: Ints  # query: the one that ends with its last piece, -1 if it is in one piece
    first_pieces: Ints  # query
    query_windows: Ints
    ends_at: Ints  # where each label's queries begin in `queries`
    queries: Ints


def make_pieces(sharing: SharingPlan, labels: Labels) -> Pieces:
    numbers: dict[Pattern, int] = {}
    windows: list[int] = []
    connections: dict[tuple[Pattern, ...], int] = {}
    rows: list[tuple[int, int, int, int]] = []
    of_queries: list[tuple[int, int, int, int]] = []
    for name, query in sharing.queries.items():
        pieces = sharing.pieces[name]
        for piece in pieces:
            if piece not in numbers:
                numbers[piece] = len(numbers)
                windows.append(0)
            windows[numbers[piece]] = max(windows[numbers[piece]], query.window)
        for k in range(1, len(pieces)):
            if pieces[: k + 1] not in connections:
                connections[pieces[: k + 1]] = len(connections)
                earlier = connections[pieces[:k]] if k > 1 else -1
                rows.append((numbers[pieces[0]], numbers[pieces[k - 1]], numbers[pieces[k]], earlier))
        last = connections[tuple(pieces)] if len(pieces) > 1 else -1
        of_queries.append((numbers[pieces[-1]], last, numbers[pieces[0]], query.window))
    by_label: list[list[tuple[int, int]]] = [[] for _ in labels.numbers]
    for piece, number in numbers.items():
        for slot, label in enumerate(piece):
            by_label[labels.numbers[label]].append((number, slot))
    at, _ = _lists([[0] * len(places) for places in by_label])
    places = [place for found in by_label for place in sorted(found, key=lambda place: -place[1])]
    ends_at, queries = _lists(
        [[q for q, query in enumerate(sharing.queries.values()) if query.pattern[-1] == label] for label in labels.numbers]
    )
    firsts, befores, nexts, earlier_ = np.array(rows, np.int64).reshape(-1, 4).T.copy()
    last_pieces, last_connections, first_pieces, query_windows = np.array(of_queries, np.int64).reshape(-1, 4).T.copy()
    return Pieces(
        np.array([len(piece) for piece in numbers], np.int64),
        np.array(windows, np.int64),
        at,
        np.array(places, np.int64).reshape(-1, 2),
        firsts,
        befores,
        nexts,
        earlier_,
        last_pieces,
        last_connections,
        first_pieces,
        query_windows,
        ends_at,
        queries,
    )


def _by_pieces(sharing: SharingPlan, labels: Labels, events: Events) -> dict[str, Floats]:
    pieces = make_pieces(sharing, labels)
    names = list(sharing.queries)
    longest = max(query.window for query in sharing.queries.values())
    most = max(labels.most(piece[0], longest) for name in names for piece in sharing.pieces[name])
    capacity = 1 << int(most + 1).bit_length()
    if len(pieces.nexts) * capacity * capacity > LARGEST_SNAPSHOTS:
        raise PlanError(
            f"chop-connect would keep snapshots of {capacity:,} by {capacity:,} starts for {len(pieces.nexts)} connections\n"
            "  hint: take prefix-tree or independent, or shorten the window"
        )
    offsets = np.concatenate(([0], np.cumsum([len(labels.moments(q.pattern[-1])) for q in sharing.queries.values()]))).astype(
        np.int64
    )
    out = np.zeros(offsets[-1])
    connect(events.times, events.types, labels.table, labels.masks, pieces, capacity, offsets, out)
    return {name: out[offsets[i] : offsets[i + 1]] for i, name in enumerate(names)}


@kernel
def _snapshot(
    pieces: Pieces, connection: int, start: int, counters: Floats, heads: Ints, tails: Ints, snapshots: Floats, limits: Ints
) -> None:
    """What `start` (of the next piece) can be connected with: for every live first event, the matches before it."""
    mask = counters.shape[2] - 1
    first, before, earlier = pieces.firsts[connection], pieces.befores[connection], pieces.earlier[connection]
    d = start & mask
    limits[connection, d] = tails[first]
    last = pieces.lengths[before] - 1
    if earlier < 0:
        for a in range(heads[first], tails[first]):
            snapshots[connection, d, a & mask] = counters[first, last, a & mask]
        return
    for a in range(heads[first], tails[first]):
        snapshots[connection, d, a & mask] = 0.0
    for c in range(heads[before], tails[before]):
        count = counters[before, last, c & mask]
        if count > 0.0:
            for a in range(heads[first], limits[earlier, c & mask]):
                snapshots[connection, d, a & mask] += snapshots[earlier, c & mask, a & mask] * count


@kernel
def connect(
    times: Ints,
    types: npt.NDArray[np.int32],
    table: Ints,
    masks: npt.NDArray[np.bool_],
    pieces: Pieces,
    capacity: int,
    offsets: Ints,
    out: Floats,
) -> None:
    """The counts of all queries at their triggers; those of query q begin at `offsets[q]`."""
    n_pieces, n_connections, width = len(pieces.lengths), len(pieces.nexts), table.shape[1]
    mask = capacity - 1
    longest = pieces.lengths.max()
    masked = masks.shape[1] > 0
    written = offsets.copy()
    counters = np.zeros((n_pieces, longest, capacity))
    started = np.zeros((n_pieces, capacity), np.int64)
    heads, tails, fresh = np.zeros(n_pieces, np.int64), np.zeros(n_pieces, np.int64), np.zeros(n_pieces, np.int64)
    snapshots = np.zeros((n_connections, capacity, capacity))
    limits = np.zeros((n_connections, capacity), np.int64)
    hit = np.zeros(len(pieces.ends_at) - 1, np.bool_)
    row, n_rows = 0, len(times)
    while row < n_rows:
        time = times[row]
        end = row + 1
        while end < n_rows and times[end] == time:
            end += 1
        for p in range(n_pieces):
            while heads[p] < tails[p] and started[p, heads[p] & mask] <= time - pieces.windows[p]:
                heads[p] += 1
            fresh[p] = 0
        # In this order events of one time do not see each other: snapshots, then updates from the last slot on, then starts.
        for stage in range(longest, -1, -1):
            for r in range(row, end):
                for i in range(width):
                    label = table[types[r], i]
                    if label < 0:
                        break
                    if masked and not masks[label, r]:
                        continue
                    hit[label] = True
                    for at in range(pieces.at[label], pieces.at[label + 1]):
                        p, slot = pieces.places[at, 0], pieces.places[at, 1]
                        if stage == longest:
                            if slot == 0:
                                for c in range(n_connections):
                                    if pieces.nexts[c] == p:
                                        _snapshot(pieces, c, tails[p] + fresh[p], counters, heads, tails, snapshots, limits)
                                fresh[p] += 1
                        elif slot == stage and slot > 0:
                            for c in range(heads[p], tails[p]):
                                counters[p, slot, c & mask] += counters[p, slot - 1, c & mask]
                        elif slot == stage:
                            new = tails[p] & mask
                            for k in range(longest):
                                counters[p, k, new] = 0.0
                            counters[p, 0, new] = 1.0
                            started[p, new] = time
                            tails[p] += 1
        for label in range(len(hit)):
            if not hit[label]:
                continue
            hit[label] = False
            for at in range(pieces.ends_at[label], pieces.ends_at[label + 1]):
                q = pieces.queries[at]
                p, connection, first = pieces.last_pieces[q], pieces.connections[q], pieces.first_pieces[q]
                last = pieces.lengths[p] - 1
                alive = heads[first]
                while alive < tails[first] and started[first, alive & mask] <= time - pieces.query_windows[q]:
                    alive += 1
                value = 0.0
                for d in range(alive if connection < 0 else heads[p], tails[p]):
                    count = counters[p, last, d & mask]
                    if connection < 0:
                        value += count
                    elif count > 0.0:
                        matches = 0.0
                        for a in range(alive, limits[connection, d & mask]):
                            matches += snapshots[connection, d & mask, a & mask]
                        value += count * matches
                out[written[q]] = value
                written[q] += 1
        row = end
