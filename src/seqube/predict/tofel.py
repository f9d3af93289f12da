"""The two methods that the CBS-tree was measured against, both from its authors' earlier paper: DirectMatch and ToFel.

DirectMatch scans the stream backwards at every sink, until all vertices are mapped or the window ends. It has no index and no
state but the events themselves: the simplest strategy, and the yardstick of the others. Cost: per sink and rule, the events of
one window times the vertices of the rule.

ToFel (topological forward retrieval) keeps queues of partial matches for every rule. Each vertex of each rule has a queue of
instances. An arriving event enters the queue of every vertex it fills if each direct predecessor of that vertex has an earlier
instance, inside the window, in its own queue. When a sink has entered, the latest occurrence is read off the queues from their
tails. Cost: every event is offered to every rule that names it, sink or not. Memory: proportional to the number of rules.
Invariant: a queue ascends in time, and what left it can be in no later occurrence.

| Paper (CBS-Tree, on its peers) | Here |
|---|---|
| DirectMatch | `match_direct` |
| ToFel: event filter with a queue for each predicate | a ring of times per vertex: `queues`, `heads`, `lengths` |
| "kept if there are some instances kept for all its direct predecessors" | `_is_reached` |
| false alarms | entries that no sink ever reads |
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from seqube.engine.jit import inner_kernel, kernel
from seqube.events.batch import Codes
from seqube.events.times import Ints
from seqube.predict.episodes import NEVER, Episodes, Found, Seeds, double_room

# ---------------------------------------------------------------- DirectMatch


def match_direct(times: Ints, symbols: Codes, fresh: npt.NDArray[np.bool_], seeds: Seeds, episodes: Episodes) -> Found:
    """Min-latest occurrences that end at a fresh event. Times ascend; the events of one time are all fresh or all old."""
    n_found, rules, starts, ends = _match_direct(times, symbols, fresh, seeds, episodes)
    return Found(rules[:n_found], starts[:n_found], ends[:n_found])


@kernel
def _match_direct(
    times: Ints, symbols: Codes, fresh: npt.NDArray[np.bool_], seeds: Seeds, episodes: Episodes
) -> tuple[int, Codes, Ints, Ints]:
    n_found = 0
    out_rules = np.empty(1024, np.int32)
    out_starts = np.empty(1024, np.int64)
    out_ends = np.empty(1024, np.int64)
    lasts = np.full(episodes.withins.size, NEVER, np.int64)
    ends = np.full(episodes.withins.size, NEVER, np.int64)  # by rule: the end time it was last looked at for
    seed = 0
    row = 0
    while row < times.size:
        end = times[row]
        stop = row + 1
        while stop < times.size and times[stop] == end:
            stop += 1
        while seed < seeds.starts.size and seeds.starts[seed] <= end:
            lasts[seeds.rules[seed]] = seeds.starts[seed]
            seed += 1
        if fresh[row]:
            for k in range(row, stop):
                for j in range(episodes.sink_starts[symbols[k]], episodes.sink_starts[symbols[k] + 1]):
                    rule = episodes.sink_rules[j]
                    if ends[rule] == end:
                        continue
                    ends[rule] = end
                    floor = max(end - episodes.withins[rule], lasts[rule] + 1)
                    start = _scan_back(times, symbols, stop, floor, rule, episodes)
                    if start >= floor:
                        if n_found == out_rules.size:
                            out_rules, out_starts, out_ends = double_room(out_rules, out_starts, out_ends)
                        out_rules[n_found] = rule
                        out_starts[n_found] = start
                        out_ends[n_found] = end
                        n_found += 1
                        lasts[rule] = start
        row = stop
    return n_found, out_rules, out_starts, out_ends


@inner_kernel
def _scan_back(times: Ints, symbols: Codes, stop: int, floor: int, rule: int, episodes: Episodes) -> int:
    """The start of the rule's latest occurrence among the events before `stop`, or NEVER where it begins before `floor`."""
    first = episodes.vertex_starts[rule]
    n_vertices = episodes.vertex_starts[rule + 1] - first
    found = np.full(n_vertices, NEVER, np.int64)
    n_mapped = 0
    for row in range(stop - 1, -1, -1):
        moment: int = times[row]
        if moment < floor:
            break
        for v in range(n_vertices):
            if found[v] != NEVER or episodes.vertex_symbols[first + v] != symbols[row]:
                continue
            free = True
            for k in range(episodes.next_starts[first + v], episodes.next_starts[first + v + 1]):
                # A successor not yet mapped is NEVER, which no time precedes.
                free = free and moment < found[episodes.nexts[k]]
            if free:
                found[v] = moment
                n_mapped += 1
                if n_mapped == n_vertices:
                    return moment
    return NEVER


# ---------------------------------------------------------------- ToFel


def match_tofel(times: Ints, symbols: Codes, fresh: npt.NDArray[np.bool_], seeds: Seeds, episodes: Episodes) -> Found:
    """Min-latest occurrences that end at a fresh event. Times ascend; the events of one time are all fresh or all old."""
    n_found, rules, starts, ends = _match_tofel(times, symbols, fresh, seeds, episodes)
    return Found(rules[:n_found], starts[:n_found], ends[:n_found])


@kernel
def _match_tofel(
    times: Ints, symbols: Codes, fresh: npt.NDArray[np.bool_], seeds: Seeds, episodes: Episodes
) -> tuple[int, Codes, Ints, Ints]:
    n_found = 0
    out_rules = np.empty(1024, np.int32)
    out_starts = np.empty(1024, np.int64)
    out_ends = np.empty(1024, np.int64)
    n_vertices = episodes.vertex_symbols.size
    queues = np.empty((n_vertices, 4), np.int64)
    heads = np.zeros(n_vertices, np.int32)
    lengths = np.zeros(n_vertices, np.int32)
    lasts = np.full(episodes.withins.size, NEVER, np.int64)
    ends = np.full(episodes.withins.size, NEVER, np.int64)  # by rule: the end time it was last looked at for
    seed = 0
    row = 0
    while row < times.size:
        now = times[row]
        stop = row + 1
        while stop < times.size and times[stop] == now:
            stop += 1
        while seed < seeds.starts.size and seeds.starts[seed] <= now:
            lasts[seeds.rules[seed]] = seeds.starts[seed]
            seed += 1
        for k in range(row, stop):
            for j in range(episodes.role_starts[symbols[k]], episodes.role_starts[symbols[k] + 1]):
                vertex = episodes.roles[j]
                oldest = now - episodes.withins[episodes.vertex_rules[vertex]]
                if not _is_reached(vertex, now, oldest, queues, heads, lengths, episodes):
                    continue
                capacity = queues.shape[1]
                while lengths[vertex] > 0 and queues[vertex, heads[vertex]] < oldest:
                    heads[vertex] = (heads[vertex] + 1) % capacity
                    lengths[vertex] -= 1
                if lengths[vertex] == capacity:
                    queues = _widen(queues, heads)
                    capacity = queues.shape[1]
                queues[vertex, (heads[vertex] + lengths[vertex]) % capacity] = now
                lengths[vertex] += 1
        if fresh[row]:
            for k in range(row, stop):
                for j in range(episodes.sink_starts[symbols[k]], episodes.sink_starts[symbols[k] + 1]):
                    rule = episodes.sink_rules[j]
                    if ends[rule] == now:
                        continue
                    ends[rule] = now
                    floor = max(now - episodes.withins[rule], lasts[rule] + 1)
                    start = _read_back(rule, now, floor, queues, heads, lengths, episodes)
                    if start >= floor:
                        if n_found == out_rules.size:
                            out_rules, out_starts, out_ends = double_room(out_rules, out_starts, out_ends)
                        out_rules[n_found] = rule
                        out_starts[n_found] = start
                        out_ends[n_found] = now
                        n_found += 1
                        lasts[rule] = start
        row = stop
    return n_found, out_rules, out_starts, out_ends


@inner_kernel
def _latest(vertex: int, bound: int, queues: npt.NDArray[np.int64], heads: Codes, lengths: Codes) -> int:
    """The latest time in the vertex's queue before `bound`, or NEVER."""
    capacity = queues.shape[1]
    for k in range(lengths[vertex] - 1, -1, -1):
        moment: int = queues[vertex, (heads[vertex] + k) % capacity]
        if moment < bound:
            return moment
    return NEVER


@inner_kernel
def _is_reached(
    vertex: int, now: int, oldest: int, queues: npt.NDArray[np.int64], heads: Codes, lengths: Codes, episodes: Episodes
) -> bool:
    """Whether each direct predecessor has an instance before `now` that is not older than the window."""
    first = episodes.vertex_starts[episodes.vertex_rules[vertex]]
    for k in range(episodes.before_starts[vertex], episodes.before_starts[vertex + 1]):
        if _latest(first + episodes.befores[k], now, queues, heads, lengths) < oldest:
            return False
    return True


@inner_kernel
def _read_back(
    rule: int, now: int, floor: int, queues: npt.NDArray[np.int64], heads: Codes, lengths: Codes, episodes: Episodes
) -> int:
    """The start of the rule's latest occurrence to `now`, or NEVER where a vertex falls below `floor`."""
    first = episodes.vertex_starts[rule]
    n_vertices = episodes.vertex_starts[rule + 1] - first
    found = np.empty(n_vertices, np.int64)
    start = now
    for v in range(n_vertices):
        bound = now + 1
        for k in range(episodes.next_starts[first + v], episodes.next_starts[first + v + 1]):
            bound = min(bound, found[episodes.nexts[k]])
        found[v] = _latest(first + v, bound, queues, heads, lengths)
        if found[v] < floor:
            return NEVER
        start = min(start, found[v])
    return start


@inner_kernel
def _widen(queues: npt.NDArray[np.int64], heads: Codes) -> npt.NDArray[np.int64]:
    """Rings of twice the length, each unrolled to begin at its slot 0."""
    capacity = queues.shape[1]
    wide = np.empty((queues.shape[0], capacity * 2), np.int64)
    for vertex in range(queues.shape[0]):
        for k in range(capacity):
            wide[vertex, k] = queues[vertex, (heads[vertex] + k) % capacity]
        heads[vertex] = 0
    return wide
