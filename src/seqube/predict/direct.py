"""Direct matching: at every sink, scan the stream backwards until all vertices are mapped or the window ends.

No index and no state but the events themselves: the simplest strategy, and the yardstick of the others.
Cost: per sink and rule, the events of one window times the vertices of the rule.

| Paper (CBS-Tree) | Here |
|---|---|
| DirectMatch | `match_direct` |
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from seqube.engine.jit import kernel
from seqube.predict.episodes import NEVER, Codes, Episodes, Found, Ints, Seeds


def match_direct(times: Ints, symbols: Codes, fresh: npt.NDArray[np.bool_], seeds: Seeds, episodes: Episodes) -> Found:
    """Min-latest occurrences that end at a fresh event. Times ascend; the events of one time are all fresh or all old."""
    n_found, rules, starts, ends = _match(times, symbols, fresh, seeds, episodes)
    return Found(rules[:n_found], starts[:n_found], ends[:n_found])


@kernel
def _match(
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
                            out_rules = np.concatenate((out_rules, np.empty_like(out_rules)))
                            out_starts = np.concatenate((out_starts, np.empty_like(out_starts)))
                            out_ends = np.concatenate((out_ends, np.empty_like(out_ends)))
                        out_rules[n_found] = rule
                        out_starts[n_found] = start
                        out_ends[n_found] = end
                        n_found += 1
                        lasts[rule] = start
        row = stop
    return n_found, out_rules, out_starts, out_ends


@kernel
def _scan_back(times: Ints, symbols: Codes, stop: int, floor: int, rule: int, episodes: Episodes) -> int:
    """The start of the rule's latest occurrence among the events before `stop`, or NEVER where it begins before `floor`."""
    first = episodes.vertex_starts[rule]
    n_vertices = episodes.vertex_starts[rule + 1] - first
    found = np.full(n_vertices, NEVER, np.int64)
    n_mapped = 0
    for row in range(stop - 1, -1, -1):
        moment = times[row]
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
