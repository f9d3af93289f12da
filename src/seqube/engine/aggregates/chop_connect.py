"""Counting patterns together by counters for every live start: trees of prefixes (PreTree), connected by snapshots (Chop-Connect).

Patterns lie in pieces. All pieces share a tree of prefixes, and every start (an event that begins a piece) has a row of counters
over the nodes below it. When a piece begins (a CNET event d), every pattern in which it follows other pieces takes a snapshot for
d: how many matches of the pieces before it each live first event has. A pattern's count is then, over the starts d of its last
piece, the count on d times the snapshot's entries that have not expired. A pattern in one piece is read off its starts: that is the
thesis' PreTree.

    Paper (A-Seq)                  | Here
    PreTree, a PreTreeCntr         | `Prefixes`; counters[lane, :, start]
    CNET                           | a first node of a piece that is not the first piece
    SnapShot, its table rows       | snapshots[lane, connection, d, a]
    expiration in a snapshot       | only a's that are alive are added
    multi-connect                  | connections[c] reads connections[c - 1] and the counters of the piece between
    Q5, a prefix of others' trees  | a piece ends at an inner node

Counters and snapshots go on from call to call, lane by lane.

Cost: per event, the live starts of its lane and the nodes it fills; per CNET event, the live first events (times the live starts of
the piece between); where a pattern is read, both. Memory: as many starts for every lane as the busiest has alive, and their
squares.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from seqube.engine.aggregates.labels import LabelLayout, LabelMaps, lists
from seqube.engine.aggregates.lanes import Numbers
from seqube.engine.aggregates.prefix_tree import FIRST_ROOM, Prefixes, Tree
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
    met,
    more_changes,
    noted,
    write_change,
)
from seqube.engine.jit import inner_kernel, kernel
from seqube.engine.limits import Budget
from seqube.engine.predicates import Ints, Mask
from seqube.engine.sequence import HIGHEST
from seqube.errors import PlanError
from seqube.plan.sharing import SlotPattern, Weight

LARGEST_SNAPSHOTS = 1 << 26  # numbers in all snapshots
LIVE_FROM, LIVE_TO = range(2)  # the first live start, and the next one


class Pieces(NamedTuple):
    """How pieces are connected. A connection is a pattern's pieces up to and with the one whose first node is `nexts`."""

    starts: Ints  # the first nodes
    start_of: Ints  # of every node, the number of its first node
    firsts: Ints  # connection: the start of the pattern's first piece
    befores: Ints  # connection: the node that ends the piece before
    nexts: Ints  # connection: the start of the last piece
    earlier: Ints  # connection: the one that ends with the piece before, -1 if that is the first piece
    of_paths: Ints  # path: its connection, -1 if it is in one piece
    taken_at: Ints  # where each start's connections begin in `taken`: those that take a snapshot for it
    taken: Ints


class Pool(NamedTuple):
    """Counters and snapshots of live starts, in rings: the number of a start, modulo the capacity, is its place."""

    counters: Numbers  # (lane, node, start)
    started: Ints  # (lane, first node, start): when
    ends: Ints  # (lane, first node, LIVE_FROM or LIVE_TO)
    snapshots: Numbers  # (lane, connection, start of the next piece, first event)
    limits: Ints  # (lane, connection, start of the next piece): first events that came before it
    values: Numbers  # (lane, path): as they were read last
    next_reads: Ints  # (lane): when patterns are read, where there is a period


def make_pieces(paths: Sequence[Path], prefixes: Prefixes) -> Pieces:
    starts = [i for i, prefix in enumerate(prefixes.order) if len(prefix) == 1]
    number = {prefixes.order[node]: i for i, node in enumerate(starts)}
    start_of = np.array([number[prefix[:1]] if prefix else -1 for prefix in prefixes.order], np.int64)
    connections: dict[tuple[SlotPattern, ...], int] = {}
    rows: list[tuple[int, int, int, int]] = []
    for path in paths:
        for k in range(1, len(path.pieces)):
            if path.pieces[: k + 1] not in connections:
                connections[path.pieces[: k + 1]] = len(connections)
                before, following = path.pieces[k - 1], path.pieces[k]
                earlier = connections[path.pieces[:k]] if k > 1 else -1
                rows.append((number[path.pieces[0][:1]], prefixes.numbers[before], number[following[:1]], earlier))
    of_paths = [connections[path.pieces] if len(path.pieces) > 1 else -1 for path in paths]
    firsts, befores, nexts, earlier_ones = np.array(rows, np.int64).reshape(-1, 4).T.copy()
    taken = lists(np.flatnonzero(nexts == start) for start in range(len(starts)))
    columns = firsts, befores, nexts, earlier_ones, np.array(of_paths, np.int64)
    return Pieces(np.array(starts, np.int64), start_of, *columns, *taken)


class Connected:
    """The counters of a family's patterns, start by start, and the snapshots that connect their pieces."""

    def __init__(self, paths: Sequence[Path], layout: LabelLayout, weights: Sequence[Weight], arithmetic: Operations) -> None:
        self._arithmetic, self._n_paths = arithmetic, len(paths)
        prefixes = Prefixes([piece for path in paths for piece in path.pieces])
        self._tree = prefixes.tree(layout, weights)
        self._pieces = make_pieces(paths, prefixes)
        self._reads = prefixes.reads(paths, [path.pieces[-1] for path in paths])
        held = self._reads.held.copy()
        held[self._pieces.befores] = True
        held[self._pieces.starts] = True
        self._reads = self._reads._replace(held=held)
        self._is_watched = bool(self._reads.watches.any())
        self._is_start = np.zeros(layout.n_labels, np.bool_)
        self._is_start[[layout.filling[prefixes.order[node][0].kind] for node in self._pieces.starts]] = True
        self._pool = self._empty(0, 2)

    def _empty(self, n_lanes: int, capacity: int) -> Pool:
        zero = self._arithmetic.zero
        kind, n_starts, n_connections = np.array(zero).dtype, len(self._pieces.starts), len(self._pieces.nexts)
        return Pool(
            np.full((n_lanes, len(self._tree.parents), capacity), zero, kind),
            np.zeros((n_lanes, n_starts, capacity), np.int64),
            np.zeros((n_lanes, n_starts, 2), np.int64),
            np.full((n_lanes, n_connections, capacity, capacity), zero, kind),
            np.zeros((n_lanes, n_connections, capacity), np.int64),
            np.full((n_lanes, self._n_paths), zero, kind),
            np.full(n_lanes, HIGHEST),
        )

    @property
    def n_bytes(self) -> int:
        return sum(column.nbytes for column in self._pool)

    def take(self, maps: LabelMaps, n_lanes: int, weights: EventWeights, clock: Passage, budget: Budget) -> PathChanges:
        """The changes of all patterns when these events have come."""
        clock = clock._replace(is_watched=self._is_watched)
        self._reserve(maps, 1 if clock.is_last else n_lanes, clock)
        if not clock.is_last:
            busy = np.zeros(n_lanes, np.bool_)
            busy[maps.lanes[np.diff(maps.offsets) > 0]] = True
            if self._is_watched:
                busy |= self._leaves(clock)[:n_lanes] | (self._pool.next_reads[:n_lanes] <= clock.upto)
            maps = maps.over(np.flatnonzero(busy))
        out = np.empty((FIRST_ROOM, N_COLUMNS), np.int64), np.empty(FIRST_ROOM, self._pool.values.dtype)
        with budget.bell() as bell:
            facts, values, n = connect(
                maps, self._tree, self._reads, self._pieces, self._pool, weights, self._arithmetic, clock, bell, *out
            )
        return PathChanges(facts[:n], values[:n])

    def _leaves(self, clock: Passage) -> Mask:
        """Whether a start of a lane leaves by now."""
        pool, heads = self._pool, self._pool.ends[:, :, LIVE_FROM]
        places = heads[:, :, None] % pool.started.shape[2]
        since = np.take_along_axis(pool.started, places, 2)[:, :, 0]
        return np.asarray(((heads < pool.ends[:, :, LIVE_TO]) & (since <= clock.upto - clock.window)).any(1))

    def _reserve(self, maps: LabelMaps, n_lanes: int, clock: Passage) -> None:
        """Room for all starts that will be alive at once: rings of twice the size or more, in which each start has a new place."""
        pool, capacity = self._pool, self._pool.started.shape[2]
        live = 0 if clock.is_last else int((pool.ends[:, :, LIVE_TO] - pool.ends[:, :, LIVE_FROM]).max(initial=0))
        most = live + most_alive(maps, self._is_start, clock.window)
        wanted = capacity if most < capacity else 1 << int(most + 1).bit_length()
        lanes = len(pool.ends) if n_lanes <= len(pool.ends) else max(n_lanes, 2 * len(pool.ends))
        if (lanes, wanted) == (len(pool.ends), capacity):
            return
        n_connections = len(self._pieces.nexts)
        if lanes * n_connections * wanted * wanted > LARGEST_SNAPSHOTS:
            raise PlanError(
                f"chop-connect would keep snapshots of {wanted:,} by {wanted:,} starts for {n_connections} connections"
                f"{f' of {lanes:,} keys' if lanes > 1 else ''}\n  hint: take prefix-tree or independent, or shorten the window"
            )
        wider = self._empty(lanes, wanted)
        for column, known in ((wider.ends, pool.ends), (wider.values, pool.values), (wider.next_reads, pool.next_reads)):
            column[: len(known)] = known
        widen_pool(self._pieces, pool, wider)
        self._pool = wider


# ---------------------------------------------------------------- the loops


@kernel
def most_alive(maps: LabelMaps, starts: Mask, window: int) -> int:
    """The most events of one of the labels that start something that are in a window of a lane at once."""
    most = 0
    alive = np.zeros(len(starts), np.int64)
    for number in range(len(maps.lanes)):
        first, end = maps.offsets[number], maps.offsets[number + 1]
        alive[:] = 0
        for m in range(first, end):
            label = maps.labels[m]
            if not starts[label]:
                continue
            alive[label] += 1
            while not starts[maps.labels[first]] or maps.times[first] <= maps.times[m] - window:
                alive[maps.labels[first]] -= starts[maps.labels[first]]
                first += 1
            most = max(most, alive[label])
    return most


@kernel
def widen_pool(pieces: Pieces, pool: Pool, wider: Pool) -> None:
    """Every live start to its place in larger rings."""
    old, new = pool.started.shape[2] - 1, wider.started.shape[2] - 1
    for lane in range(len(pool.ends)):
        for node in range(pool.counters.shape[1]):
            start = pieces.start_of[node]
            if start >= 0:
                for c in range(pool.ends[lane, start, LIVE_FROM], pool.ends[lane, start, LIVE_TO]):
                    wider.counters[lane, node, c & new] = pool.counters[lane, node, c & old]
                    wider.started[lane, start, c & new] = pool.started[lane, start, c & old]
        for n in range(len(pieces.nexts)):
            first, following = pieces.firsts[n], pieces.nexts[n]
            for d in range(pool.ends[lane, following, LIVE_FROM], pool.ends[lane, following, LIVE_TO]):
                wider.limits[lane, n, d & new] = pool.limits[lane, n, d & old]
                for a in range(pool.ends[lane, first, LIVE_FROM], pool.ends[lane, first, LIVE_TO]):
                    wider.snapshots[lane, n, d & new, a & new] = pool.snapshots[lane, n, d & old, a & old]


@inner_kernel
def _snapshot(pieces: Pieces, pool: Pool, lane: int, n: int, d: int, arithmetic: Operations) -> None:
    """What the start `d` (of the next piece) can be connected with: for every live first event, the matches before it."""
    mask, least = pool.started.shape[2] - 1, arithmetic.least
    first, before, earlier = pieces.firsts[n], pieces.befores[n], pieces.earlier[n]
    head, tail = pool.ends[lane, first, LIVE_FROM], pool.ends[lane, first, LIVE_TO]
    pool.limits[lane, n, d & mask] = tail
    row = pool.snapshots[lane, n, d & mask]
    if earlier < 0:
        for a in range(head, tail):
            row[a & mask] = pool.counters[lane, before, a & mask]
        return
    for a in range(head, tail):
        row[a & mask] = arithmetic.zero
    start = pieces.start_of[before]
    for c in range(pool.ends[lane, start, LIVE_FROM], pool.ends[lane, start, LIVE_TO]):
        count = pool.counters[lane, before, c & mask]
        if count != arithmetic.zero:
            for a in range(head, pool.limits[lane, earlier, c & mask]):
                row[a & mask] = met(row[a & mask], carried(pool.snapshots[lane, earlier, c & mask, a & mask], count, least), least)


@inner_kernel
def _before(pieces: Pieces, pool: Pool, lane: int, n: int, d: int, arithmetic: Operations) -> Any:
    """What comes before a start: the live entries of its snapshot; without a connection, nothing has to."""
    one, zero, least = arithmetic
    if n < 0:
        return one
    mask, value = pool.started.shape[2] - 1, zero
    for a in range(pool.ends[lane, pieces.firsts[n], LIVE_FROM], pool.limits[lane, n, d & mask]):
        value = met(value, pool.snapshots[lane, n, d & mask, a & mask], least)
    return value


@inner_kernel
def _read(pieces: Pieces, pool: Pool, lane: int, n: int, node: int, arithmetic: Operations) -> Any:
    """What there is at a node now, over all starts, with all that comes before them."""
    _, zero, least = arithmetic
    mask, value, start = pool.started.shape[2] - 1, zero, pieces.start_of[node]
    for c in range(pool.ends[lane, start, LIVE_FROM], pool.ends[lane, start, LIVE_TO]):
        count = pool.counters[lane, node, c & mask]
        if count != zero:
            value = met(value, carried(count, _before(pieces, pool, lane, n, c, arithmetic), least), least)
    return value


@inner_kernel
def _begin(tree: Tree, pieces: Pieces, pool: Pool, lane: int, node: int, moment: int, weight: Any, arithmetic: Operations) -> None:
    """A new start, with nothing behind it yet."""
    start = pieces.start_of[node]
    place = pool.ends[lane, start, LIVE_TO] & (pool.started.shape[2] - 1)
    for below in range(node, node + tree.sizes[node]):
        pool.counters[lane, below, place] = arithmetic.zero
    pool.counters[lane, node, place] = weight
    pool.started[lane, start, place] = moment
    pool.ends[lane, start, LIVE_TO] += 1


@kernel
def connect(
    maps: LabelMaps,
    tree: Tree,
    reads: Reads,
    pieces: Pieces,
    pool: Pool,
    weights: EventWeights,
    arithmetic: Operations,
    clock: Passage,
    bell: Ints,
    facts: Ints,
    values: Numbers,
) -> tuple[Ints, Numbers, int]:
    """The changes of all patterns, until the `bell` rings, and how many there are."""
    one, zero, least = arithmetic
    window, upto, is_watched, is_last, period = clock
    n_paths, n_starts, n_connections = len(reads.nodes), len(pieces.starts), len(pieces.nexts)
    deepest, mask = tree.paths.shape[1] - 1, pool.started.shape[2] - 1
    hit, hits, fresh = np.zeros(n_paths, np.bool_), np.zeros(n_paths, np.int64), np.zeros(n_paths, np.bool_)
    news, bucket, coming = np.full(n_paths, zero, values.dtype), np.zeros(n_paths, np.int64), np.zeros(n_starts, np.int64)
    n = 0
    for number in range(len(maps.lanes)):
        lane = 0 if is_last else maps.lanes[number]
        k, end = maps.offsets[number], maps.offsets[number + 1]
        ends, counters = pool.ends[lane], pool.counters[lane]
        while bell[0] == 0:
            moment = maps.times[k] if k < end else HIGHEST
            if is_watched:
                for f in range(n_starts):
                    if ends[f, LIVE_FROM] < ends[f, LIVE_TO]:
                        since = pool.started[lane, f, ends[f, LIVE_FROM] & mask]
                        moment = min(moment, due_at(since + window if since <= HIGHEST - window else HIGHEST, period))
            is_due = pool.next_reads[lane] < moment  # all that comes at that time has come
            moment = min(moment, pool.next_reads[lane])
            if moment > upto or moment == HIGHEST:
                break
            gone, n_hits = False, 0
            for f in range(n_starts):
                coming[f] = 0
                while ends[f, LIVE_FROM] < ends[f, LIVE_TO] and pool.started[lane, f, ends[f, LIVE_FROM] & mask] <= moment - window:
                    ends[f, LIVE_FROM] += 1
                    gone = True
            upto_k = k
            while upto_k < end and maps.times[upto_k] == moment:
                upto_k += 1
            tied = upto_k > k + 1
            facts, values = more_changes(facts, values, n, 2 * n_paths)
            # In this order events of one time do not see each other: snapshots, then from the last slot on what is cancelled and
            # what is filled, then starts.
            for m in range(k, upto_k if n_connections else k):
                for at in range(tree.at[maps.labels[m]], tree.at[maps.labels[m] + 1]):
                    node = tree.nodes[at]
                    if tree.depths[node] == 1:
                        f = pieces.start_of[node]
                        for c in range(pieces.taken_at[f], pieces.taken_at[f + 1]):
                            _snapshot(pieces, pool, lane, pieces.taken[c], ends[f, LIVE_TO] + coming[f], arithmetic)
                        coming[f] += 1
            for depth in range(deepest if tied else 1, 0, -1):
                for m in range(k, upto_k):
                    label = maps.labels[m]
                    for at in range(tree.cuts_at[label], tree.cuts_at[label + 1]):
                        node = tree.cuts[at]
                        if tied and tree.depths[node] != depth:
                            continue
                        f = pieces.start_of[node]
                        for c in range(ends[f, LIVE_FROM], ends[f, LIVE_TO]):
                            counters[node, c & mask] = zero
                        for e in range(reads.ends_at[node], reads.ends_at[node + 1]):
                            n_hits = noted(hit, hits, n_hits, reads.ends[e])
                for m in range(k, upto_k):
                    label = maps.labels[m]
                    for at in range(tree.at[label], tree.at[label + 1]):
                        node = tree.nodes[at]
                        if tied and tree.depths[node] != depth:
                            continue
                        parent, weight, f = tree.parents[node], one, pieces.start_of[node]
                        if tree.weights[node] >= 0:
                            weight = weights.numbers[tree.weights[node], maps.rows[m]]
                        for e in range(reads.ends_at[node], reads.ends_at[node + 1]):
                            path = reads.ends[e]
                            kind, c = reads.buckets[path], pieces.of_paths[path]
                            if kind < 0 and not reads.fresh[path]:
                                n_hits = noted(hit, hits, n_hits, path)
                                continue
                            value = zero
                            if parent == 0:
                                value = carried(_before(pieces, pool, lane, c, ends[f, LIVE_TO], arithmetic), weight, least)
                            else:
                                value = carried(_read(pieces, pool, lane, c, parent, arithmetic), weight, least)
                            if kind < 0:
                                n_hits = noted(hit, hits, n_hits, path)
                                fresh[path] = fresh[path] or value != zero
                                continue
                            now = weights.buckets[kind, maps.rows[m]]
                            if news[path] != zero and now != bucket[path]:
                                facts, values = more_changes(facts, values, n, 2 * n_paths)
                                n = write_change(facts, values, n, bucket[path], path, maps.lanes[number], True, news[path])
                                news[path] = zero
                            bucket[path] = now
                            news[path] = met(news[path], value, least)
                        if not reads.held[node]:
                            continue
                        if parent == 0:
                            _begin(tree, pieces, pool, lane, node, moment, weight, arithmetic)
                            continue
                        for c in range(ends[f, LIVE_FROM], ends[f, LIVE_TO]):
                            more = carried(counters[parent, c & mask], weight, least)
                            counters[node, c & mask] = met(counters[node, c & mask], more, least)
            if period > 0:
                pool.next_reads[lane] = HIGHEST if is_due else min(pool.next_reads[lane], due_at(moment, period))
            looks_at_all = is_due or (gone and is_watched)
            for number_of in range(n_paths if looks_at_all else n_hits):
                path = number_of if looks_at_all else hits[number_of]
                if reads.follows[path] >= 0 and not fresh[reads.follows[path]]:
                    continue
                if is_due or (period == 0 and (hit[path] or (gone and reads.watches[path]))):
                    value = _read(pieces, pool, lane, pieces.of_paths[path], reads.nodes[path], arithmetic)
                    if value != pool.values[lane, path] or fresh[path]:
                        n = write_change(facts, values, n, moment, path, maps.lanes[number], fresh[path], value)
                        pool.values[lane, path] = value
            for number_of in range(n_hits):
                hit[hits[number_of]] = fresh[hits[number_of]] = False
            k = upto_k
        facts, values = more_changes(facts, values, n, n_paths)
        for path in range(n_paths):
            if news[path] != zero:
                n = write_change(facts, values, n, bucket[path], path, maps.lanes[number], True, news[path])
                news[path] = zero
            if is_last:
                pool.values[lane, path] = zero
        if is_last:
            pool.next_reads[lane] = HIGHEST
            for f in range(n_starts):
                ends[f, LIVE_FROM] = ends[f, LIVE_TO] = 0
    return facts, values, n
