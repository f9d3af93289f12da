"""Matching by index: a growing series of times per symbol and key, cursors that only move forward, leaps over what cannot match.

A rule is looked at only if one of its sinks has arrived. Its vertices then are mapped, sinks first, each by an exponential and
binary search: from the newest instance backwards at first, then from where its cursor stood before. If a vertex falls below the
lower bound (too old, or already used by the occurrence reported last), the search stops, and the rule sleeps until that vertex can
have moved: no earlier end time can give an occurrence.

Cost of a step: the new events once into their series, and per rule with a new sink about as many searches as its rarest event has
new instances, whatever the window. Memory: the times of one window, by symbol and key; independent of the number of rules.
Invariant: as the end time grows, no cursor ever moves back (the min-latest mapping is monotone in each vertex).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from seqube.engine.jit import inner_kernel, kernel, kernel_part
from seqube.engine.predicates import Ints
from seqube.engine.series import CodeNumbers, NumberTable, SeriesPool, Stretches, number_of
from seqube.events.batch import Codes
from seqube.predict.episodes import (
    NEVER,
    NOTHING_CAME,
    NOTHING_FOUND,
    Arrivals,
    Episodes,
    Found,
    Lasts,
    Reported,
    double_room,
    look_up,
)

FOREVER = 2**62


class Fresh(NamedTuple):
    """New instances by key, then symbol, then time: those of group g are `times[starts[g] .. starts[g + 1]]`."""

    keys: Ints  # by group
    symbols: Ints  # by group
    starts: Ints
    times: Ints


def group_fresh(times: Ints, symbols: Codes, keys: Ints | None, n_symbols: int) -> Fresh:
    """Group instances, which ascend in time."""
    if keys is None:
        starts, grouped = _group_times(times, symbols, n_symbols)
        found = np.flatnonzero(np.diff(starts))
        return Fresh(np.zeros(len(found), np.int64), found, np.append(starts[found], len(times)), grouped)
    order = np.lexsort((symbols, keys))
    codes = keys[order] * n_symbols + symbols[order]
    begins = np.flatnonzero(np.diff(codes, prepend=-1))
    return Fresh(codes[begins] // n_symbols, codes[begins] % n_symbols, np.append(begins, len(codes)), times[order])


class IndexMemory:
    """What `index` remembers: the times of each symbol, of each key where there are keys."""

    def __init__(self, episodes: Episodes, keyed: bool) -> None:
        self._episodes = episodes
        self._keyed = keyed
        self._pool = SeriesPool(1, None if keyed else episodes.n_symbols)

    def match(self, new: Arrivals, reported: Reported | None) -> tuple[Found, Ints]:
        """Remember the next events, and give the occurrences that end at one of them, with their keys; without `reported`, none."""
        episodes = self._episodes
        fresh = group_fresh(new.times, new.symbols, new.keys if self._keyed else None, episodes.n_symbols)
        codes = fresh.keys * episodes.n_symbols + fresh.symbols
        self._pool.extend(codes, fresh.starts, fresh.times.reshape(1, -1), int(new.times[0]) - episodes.longest)
        if reported is None:
            return NOTHING_FOUND, NOTHING_CAME.keys
        n_found, keys, rules, starts, ends = _match(
            self._pool.numbering.table, self._pool.stretches, fresh, reported.lasts, episodes
        )
        return Found(rules[:n_found], starts[:n_found], ends[:n_found]), keys[:n_found]

    def contents(self, oldest: int) -> Arrivals:
        """The instances from `oldest` on."""
        codes, columns = self._pool.contents(oldest)
        order = np.argsort(columns[0], kind="stable")
        codes, n_symbols = codes[order], self._episodes.n_symbols
        return Arrivals(columns[0][order], (codes % n_symbols).astype(np.int32), codes // n_symbols)

    @property
    def n_kept(self) -> int:
        return self._pool.n_values

    @property
    def n_bytes(self) -> int:
        return self._pool.n_bytes


def match_index(times: Ints, symbols: Codes, episodes: Episodes) -> Found:
    """The min-latest occurrences in a whole stream: its grouped times are the series."""
    fresh = group_fresh(times, symbols, None, episodes.n_symbols)
    begins, ends = np.zeros(episodes.n_symbols, np.int64), np.zeros(episodes.n_symbols, np.int64)
    begins[fresh.symbols], ends[fresh.symbols] = fresh.starts[:-1], fresh.starts[1:]
    stretches = Stretches(begins, begins, ends, ends, fresh.times.reshape(1, -1))
    own_numbers = CodeNumbers(episodes.n_symbols).table
    lasts = Lasts(own_numbers, np.full(episodes.n_rules, NEVER, np.int64))
    n_found, _, rules, starts, found_ends = _match(own_numbers, stretches, fresh, lasts, episodes)
    return Found(rules[:n_found], starts[:n_found], found_ends[:n_found])


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


@kernel_part
def _first_between(times: Ints, low: int, high: int, bound: int) -> int:
    """The first position in (low, high] whose time is at least `bound`; that at `low` is not, that at `high` counts as one."""
    while high - low > 1:
        middle = (low + high) // 2
        if times[middle] < bound:
            low = middle
        else:
            high = middle
    return high


@inner_kernel
def _first_from(times: Ints, position: int, stop: int, bound: int) -> int:
    """The first position from `position` on whose time is at least `bound`, or `stop`: doubling steps, then halving."""
    if position >= stop or times[position] >= bound:
        return position
    low, step = position, 1
    while low + step < stop and times[low + step] < bound:
        low += step
        step *= 2
    return _first_between(times, low, min(low + step, stop), bound)


@inner_kernel
def _first_from_end(times: Ints, begin: int, stop: int, bound: int) -> int:
    """The same, sought from `stop` backwards: new instances are mapped to recent ones."""
    high, step = stop, 1
    while high - step >= begin and times[high - step] >= bound:
        high -= step
        step *= 2
    return _first_between(times, max(high - step, begin - 1), high, bound)


@kernel
def _match(
    table: NumberTable, stretches: Stretches, fresh: Fresh, lasts: Lasts, episodes: Episodes
) -> tuple[int, Ints, Codes, Ints, Ints]:
    """The occurrences that end at a fresh instance, key by key: their number, keys, rules, starts and ends."""
    n_found = 0
    out_keys = np.empty(1024, np.int64)
    out_rules = np.empty(1024, np.int32)
    out_starts = np.empty(1024, np.int64)
    out_ends = np.empty(1024, np.int64)
    n_rules, n_symbols = episodes.withins.size, episodes.sink_starts.size - 1
    times = stretches.values[0]
    widest = np.int64(1)
    for r in range(n_rules):
        widest = max(widest, episodes.vertex_starts[r + 1] - episodes.vertex_starts[r])
    begins = np.empty(widest, np.int64)  # by vertex: its series
    cursors = np.empty(widest, np.int64)  # by vertex: the first instance at or after the vertex's bound, -1 where not yet sought
    stops = np.empty(widest, np.int64)
    triggers = np.empty(widest, np.int64)  # by sink: the next fresh instance
    trigger_stops = np.empty(widest, np.int64)
    found = np.empty(widest, np.int64)
    groups = np.full(n_symbols, -1, np.int64)  # by symbol: its group of fresh instances of the present key
    touched = np.full(n_rules, -1, np.int64)  # by rule: the group that began the key it was last looked at for
    group = 0
    while group < fresh.keys.size:
        begin, key = group, fresh.keys[group]
        while group < fresh.keys.size and fresh.keys[group] == key:
            groups[fresh.symbols[group]] = group
            group += 1
        for g in range(begin, group):
            for k in range(episodes.sink_starts[fresh.symbols[g]], episodes.sink_starts[fresh.symbols[g] + 1]):
                rule = int(episodes.sink_rules[k])
                if touched[rule] == begin:
                    continue
                touched[rule] = begin
                first = episodes.vertex_starts[rule]
                n_vertices = episodes.vertex_starts[rule + 1] - first
                n_sinks = episodes.n_sinks[rule]
                within = episodes.withins[rule]
                possible = True
                for v in range(n_vertices):
                    symbol = np.int64(episodes.vertex_symbols[first + v])
                    series = number_of(table, key * n_symbols + symbol)
                    possible = possible and series >= 0 and stretches.begins[series] < stretches.ends[series]
                    if not possible:
                        break
                    begins[v], cursors[v], stops[v] = stretches.begins[series], -1, stretches.ends[series]
                    if v < n_sinks:
                        own = groups[symbol]
                        triggers[v] = fresh.starts[own] if own >= 0 else 0
                        trigger_stops[v] = fresh.starts[own + 1] if own >= 0 else 0
                last = look_up(lasts, key * n_rules + rule) if possible else NEVER
                wake = NEVER
                while possible:
                    end = FOREVER
                    for v in range(n_sinks):
                        triggers[v] = _first_from(fresh.times, triggers[v], trigger_stops[v], wake)
                        if triggers[v] < trigger_stops[v]:
                            end = min(end, fresh.times[triggers[v]])
                    if end == FOREVER:
                        break
                    floor = max(end - within, last + 1)
                    start = FOREVER
                    slowest = 0  # the vertex that must move before there can be another occurrence
                    for v in range(n_vertices):
                        bound = end + 1
                        for j in range(episodes.next_starts[first + v], episodes.next_starts[first + v + 1]):
                            bound = min(bound, found[episodes.nexts[j]])
                        if cursors[v] < 0:
                            cursors[v] = _first_from_end(times, begins[v], stops[v], bound)
                        else:
                            cursors[v] = _first_from(times, cursors[v], stops[v], bound)
                        moment = times[cursors[v] - 1] if cursors[v] > begins[v] else NEVER
                        found[v] = moment
                        if moment < start:
                            start = moment
                            slowest = v
                            if moment < floor:
                                break
                    if start >= floor:
                        if n_found == out_rules.size:
                            out_rules, out_starts, out_ends = double_room(out_rules, out_starts, out_ends)
                            out_keys = np.concatenate((out_keys, np.empty_like(out_keys)))
                        out_keys[n_found] = key
                        out_rules[n_found] = rule
                        out_starts[n_found] = start
                        out_ends[n_found] = end
                        n_found += 1
                        last = start
                    possible = cursors[slowest] < stops[slowest]
                    if possible:
                        wake = max(end + 1, times[cursors[slowest]] + episodes.lifts[first + slowest])
        for g in range(begin, group):
            groups[fresh.symbols[g]] = -1
    return n_found, out_keys, out_rules, out_starts, out_ends
