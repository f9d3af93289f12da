"""Counting patterns together by common pieces, connected by snapshots (Chop-Connect).

A piece has prefix counters per start, as in `per_start`, whoever uses it. When a piece begins (a CNET event d), every query in
which it follows other pieces takes a snapshot for d: how many matches of the pieces before it each live first event has. A query's
count is then, over the starts d of its last piece, the count on d times the snapshot's entries that have not expired.

    Paper (A-Seq)              | Here
    CNET                       | rank 0 of a piece that is not the first
    SnapShot, its table rows   | snapshots[connection, d, a]
    expiration in a snapshot   | only a's whose time is inside the query's own window are added
    multi-connect              | connections[c] reads connections[c - 1] and the counters of the piece between

Counters and snapshots go on from call to call.

Cost: per event, the live starts of the pieces it is in; per CNET event, the live first events (times the live starts of the piece
between); per trigger, both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from seqube.engine.aggregates.aggregation import Floats
from seqube.engine.aggregates.labels import Labelled, Labels, lists
from seqube.engine.jit import inner_kernel, kernel
from seqube.engine.limits import Budget
from seqube.engine.predicates import Ints
from seqube.errors import PlanError
from seqube.plan.sharing import SharingPlan, SlotLabel, SlotPattern

LARGEST_SNAPSHOTS = 1 << 26  # numbers in all snapshots


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


def make_pieces(sharing: SharingPlan, label_numbers: Mapping[SlotLabel, int]) -> Pieces:
    numbers: dict[SlotPattern, int] = {}
    windows: list[int] = []
    connections: dict[tuple[SlotPattern, ...], int] = {}
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
    by_label: list[list[tuple[int, int]]] = [[] for _ in label_numbers]
    for piece, number in numbers.items():
        for slot, label in enumerate(piece):
            by_label[label_numbers[label]].append((number, slot))
    at, _ = lists([[0] * len(places) for places in by_label])
    places = [place for found in by_label for place in sorted(found, key=lambda place: -place[1])]
    ends_at, queries = lists(
        [[q for q, query in enumerate(sharing.queries.values()) if query.pattern[-1] == label] for label in label_numbers]
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


class Pool(NamedTuple):
    """Counters and snapshots of live starts, in rings: the number of a start, modulo the capacity, is its place."""

    counters: Floats  # (piece, slot, start)
    started: Ints  # (piece, start): when
    heads: Ints  # the first live start of every piece
    tails: Ints  # the next one
    snapshots: Floats  # (connection, start of the next piece, first event)
    limits: Ints  # (connection, start of the next piece): first events that came before it


def empty_pool(pieces: Pieces, capacity: int) -> Pool:
    n_pieces, n_connections, ends = len(pieces.lengths), len(pieces.nexts), np.zeros(len(pieces.lengths), np.int64)
    return Pool(
        np.zeros((n_pieces, pieces.lengths.max(), capacity)),
        np.zeros((n_pieces, capacity), np.int64),
        ends,
        ends.copy(),
        np.zeros((n_connections, capacity, capacity)),
        np.zeros((n_connections, capacity), np.int64),
    )


class Connected:
    """The counters of a workload, piece by piece, and the snapshots that connect them."""

    def __init__(self, sharing: SharingPlan, numbers: Mapping[SlotLabel, int]) -> None:
        self._pieces = make_pieces(sharing, numbers)
        self._firsts = list(dict.fromkeys(piece for name in sharing.queries for piece in sharing.pieces[name]))
        self._patterns = {name: query.pattern for name, query in sharing.queries.items()}
        self._longest = max(query.window for query in sharing.queries.values())
        self._pool = empty_pool(self._pieces, 2)

    @property
    def n_bytes(self) -> int:
        return sum(column.nbytes for column in self._pool)

    def count(self, labels: Labels, budget: Budget) -> dict[str, Floats]:
        """The counts of every query at the moments of its last label, when these events have come."""
        self._reserve(labels)
        offsets = labels.offsets(self._patterns.values())
        out = np.zeros(offsets[-1])
        with budget.bell() as bell:
            connect(labels.events, self._pieces, self._pool, offsets, bell, out)
        return {name: out[offsets[i] : offsets[i + 1]] for i, name in enumerate(self._patterns)}

    def _reserve(self, labels: Labels) -> None:
        """Room for all starts that will be alive at once: rings of twice the size or more, in which each start has a new place."""
        pool, capacity = self._pool, self._pool.started.shape[1]
        live = [np.arange(head, tail) for head, tail in zip(pool.heads, pool.tails, strict=True)]
        most = max(
            labels.most(piece[0], self._longest, pool.started[number, live[number] % capacity])
            for number, piece in enumerate(self._firsts)
        )
        if most < capacity:
            return
        wanted, n_connections = 1 << int(most + 1).bit_length(), len(self._pieces.nexts)
        if n_connections * wanted * wanted > LARGEST_SNAPSHOTS:
            raise PlanError(
                f"chop-connect would keep snapshots of {wanted:,} by {wanted:,} starts for {n_connections} connections\n"
                "  hint: take prefix-tree or independent, or shorten the window"
            )
        wider = empty_pool(self._pieces, wanted)._replace(heads=pool.heads, tails=pool.tails)
        for piece, starts in enumerate(live):
            wider.counters[piece][:, starts % wanted] = pool.counters[piece][:, starts % capacity]
            wider.started[piece, starts % wanted] = pool.started[piece, starts % capacity]
        for number, (first, following) in enumerate(zip(self._pieces.firsts, self._pieces.nexts, strict=True)):
            starts, firsts = live[following], live[first]
            old, new = (np.ix_(starts % size, firsts % size) for size in (capacity, wanted))
            wider.snapshots[number][new] = pool.snapshots[number][old]
            wider.limits[number, starts % wanted] = pool.limits[number, starts % capacity]
        self._pool = wider


@inner_kernel
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
def connect(arrived: Labelled, pieces: Pieces, pool: Pool, offsets: Ints, bell: Ints, out: Floats) -> None:
    """The counts of all queries at their triggers, until the `bell` rings; those of query q begin at `offsets[q]`."""
    times, types, table, masks = arrived
    counters, started, heads, tails, snapshots, limits = pool
    n_pieces, n_connections, width = len(pieces.lengths), len(pieces.nexts), table.shape[1]
    mask = started.shape[1] - 1
    longest = pieces.lengths.max()
    masked = masks.shape[1] > 0
    written = offsets.copy()
    fresh = np.zeros(n_pieces, np.int64)
    hit = np.zeros(len(pieces.ends_at) - 1, np.bool_)
    row, n_rows = 0, len(times)
    while row < n_rows and bell[0] == 0:
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
