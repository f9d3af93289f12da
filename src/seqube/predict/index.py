"""Matching by index: a sorted array of times per symbol, cursors that only move forward, and leaps over what cannot match.

A rule is looked at only if one of its sinks has arrived. Its vertices then are mapped, sinks first, each by an exponential and
binary search from where its cursor stood before. If a vertex falls below the lower bound (too old, or already used by the
occurrence reported last), the search stops, and the rule sleeps until that vertex can have moved: no earlier end time can give an
occurrence.

Cost: one counting sort of the events; then per rule about as many steps as its rarest event has instances, whatever the window.
Memory: the events of the batch and of one window before it, sorted by symbol; independent of the number of rules.
Invariant: as the end time grows, no cursor ever moves back (the min-latest mapping is monotone in each vertex).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from seqube.engine.jit import kernel
from seqube.events.batch import Codes
from seqube.events.times import Ints
from seqube.predict.episodes import NEVER, Episodes, Found, Seeds, double_room

FOREVER = 2**62


def match_index(times: Ints, symbols: Codes, fresh: npt.NDArray[np.bool_], seeds: Seeds, episodes: Episodes) -> Found:
    """Min-latest occurrences that end at a fresh event. Times ascend; the events of one time are all fresh or all old."""
    starts, grouped = _group_times(times, symbols, episodes.n_symbols)
    if fresh.all():
        new_starts, new_grouped = starts, grouped
    else:
        new_starts, new_grouped = _group_times(times[fresh], symbols[fresh], episodes.n_symbols)
    order = np.argsort(seeds.rules, kind="stable")
    seed_starts = np.searchsorted(seeds.rules[order], np.arange(episodes.n_rules + 1))
    n_found, rules, begins, ends = _match(
        starts, grouped, new_starts, new_grouped, seed_starts, seeds.starts[order], _awake(new_starts, episodes), episodes
    )
    return Found(rules[:n_found], begins[:n_found], ends[:n_found])


@kernel
def _group_times(times: Ints, symbols: Codes, n_symbols: int) -> tuple[Ints, Ints]:
    """A counting sort: where each symbol's times begin, and the times by symbol, ascending in each."""
    starts = np.zeros(n_symbols + 1, np.int64)
    for symbol in symbols:
        starts[symbol + 1] += 1
    for symbol in range(n_symbols):
        starts[symbol + 1] += starts[symbol]
    filled = starts[:-1].copy()
    grouped = np.empty(times.size, np.int64)
    for row in range(times.size):
        symbol = symbols[row]
        grouped[filled[symbol]] = times[row]
        filled[symbol] += 1
    return starts, grouped


@kernel
def _awake(new_starts: Ints, episodes: Episodes) -> Codes:
    """The rules that have a sink among the fresh events, ascending."""
    touched = np.zeros(episodes.withins.size, np.bool_)
    for symbol in range(new_starts.size - 1):
        if new_starts[symbol] < new_starts[symbol + 1]:
            for k in range(episodes.sink_starts[symbol], episodes.sink_starts[symbol + 1]):
                touched[episodes.sink_rules[k]] = True
    return np.flatnonzero(touched).astype(np.int32)


@kernel
def _first_from(times: Ints, position: int, stop: int, bound: int) -> int:
    """The first position from `position` on whose time is at least `bound`, or `stop`: doubling steps, then halving."""
    if position >= stop or times[position] >= bound:
        return position
    low, step = position, 1
    while low + step < stop and times[low + step] < bound:
        low += step
        step *= 2
    high = min(low + step, stop)
    while high - low > 1:
        middle = (low + high) // 2
        if times[middle] < bound:
            low = middle
        else:
            high = middle
    return high


@kernel
def _match(
    starts: Ints,
    times: Ints,
    new_starts: Ints,
    new_times: Ints,
    seed_starts: Ints,
    seeds: Ints,
    awake: Codes,
    episodes: Episodes,
) -> tuple[int, Codes, Ints, Ints]:
    n_found = 0
    out_rules = np.empty(1024, np.int32)
    out_starts = np.empty(1024, np.int64)
    out_ends = np.empty(1024, np.int64)
    widest = np.int64(1)
    for rule in awake:
        widest = max(widest, episodes.vertex_starts[rule + 1] - episodes.vertex_starts[rule])
    cursors = np.empty(widest, np.int64)  # by vertex: the first instance at or after the vertex's bound
    stops = np.empty(widest, np.int64)
    triggers = np.empty(widest, np.int64)  # by sink: the next fresh instance
    trigger_stops = np.empty(widest, np.int64)
    found = np.empty(widest, np.int64)
    for rule in awake:
        first = episodes.vertex_starts[rule]
        n_vertices = episodes.vertex_starts[rule + 1] - first
        n_sinks = episodes.n_sinks[rule]
        within = episodes.withins[rule]
        possible = True
        for v in range(n_vertices):
            symbol = episodes.vertex_symbols[first + v]
            cursors[v] = starts[symbol]
            stops[v] = starts[symbol + 1]
            possible = possible and cursors[v] < stops[v]
            if v < n_sinks:
                triggers[v] = new_starts[symbol]
                trigger_stops[v] = new_starts[symbol + 1]
        seed = seed_starts[rule]
        last = NEVER
        wake = NEVER
        while possible:
            end = FOREVER
            for v in range(n_sinks):
                triggers[v] = _first_from(new_times, triggers[v], trigger_stops[v], wake)
                if triggers[v] < trigger_stops[v]:
                    end = min(end, new_times[triggers[v]])
            if end == FOREVER:
                break
            while seed < seed_starts[rule + 1] and seeds[seed] <= end:
                last = seeds[seed]
                seed += 1
            floor = max(end - within, last + 1)
            start = FOREVER
            slowest = 0  # the vertex that must move before there can be another occurrence
            for v in range(n_vertices):
                bound = end + 1
                for k in range(episodes.next_starts[first + v], episodes.next_starts[first + v + 1]):
                    bound = min(bound, found[episodes.nexts[k]])
                cursors[v] = _first_from(times, cursors[v], stops[v], bound)
                symbol = episodes.vertex_symbols[first + v]
                moment = times[cursors[v] - 1] if cursors[v] > starts[symbol] else NEVER
                found[v] = moment
                if moment < start:
                    start = moment
                    slowest = v
                    if moment < floor:
                        break
            if start >= floor:
                if n_found == out_rules.size:
                    out_rules, out_starts, out_ends = double_room(out_rules, out_starts, out_ends)
                out_rules[n_found] = rule
                out_starts[n_found] = start
                out_ends[n_found] = end
                n_found += 1
                last = start
            possible = cursors[slowest] < stops[slowest]
            if possible:
                wake = max(end + 1, times[cursors[slowest]] + episodes.lifts[first + slowest])
    return n_found, out_rules, out_starts, out_ends
