"""A-Seq's own counters: one prefix counter for every start in the window, updated by every event.

Dynamic prefix counting: an event of slot i adds the count of the first i slots to that of the first i + 1, in the counter of
every live start; what it adds where parts are repeated, `automaton` says. Start-event marking: a counter is marked with the time
its start expires at, and what has expired is skipped. Recounting: a negated event sets the count of the prefix before it to zero.
Keys (hashed prefix counters) are lanes.

    A1  A2  B3  A4  B5  C6      window 5: A1 expires at 6
    counters at C6              A1 gone    A2: AB 2, ABC 2    A4: AB 1, ABC 1    -> 3

Counters are columns: one array per prefix, with the live starts in a contiguous range, so an update runs through memory in order.

Cost: every step of an event's map touches all live starts; O(starts in the window), whatever the pattern's length. Memory: a number
per state and live start.

    Paper (A-Seq)                             | Here
    PreCntr, one per START instance           | column c of `counters`
    PreCntr.exp                               | untils[c]; live while exp > ts (Figure 3.6 prints `<`)
    update rule ii (UPD), TRIG                | a slot's map, a sample
    RR, negation in the middle and at the end | counters[p] = 0
    RR, negation second (purge the PreCntr)   | counters[1] = 0: prefixes that went on from it stay valid
    RR, negation first (list of expirations)  | blocked[c]: ends before the last A leaves do not count
    HPC                                       | a lane per key
"""

from __future__ import annotations

import numpy as np

from seqube.engine.aggregates.automaton import Automaton
from seqube.engine.aggregates.lanes import Maps, Numbers, Ring, Samples, plus, times
from seqube.engine.jit import kernel
from seqube.engine.predicates import Ints
from seqube.engine.sequence import LOWEST


@kernel
def count_per_start(
    maps: Maps,
    weights: Numbers | None,
    samples: Samples,
    ring: Ring,
    auto: Automaton,
    leading: int,
    span: tuple[int, int],
    own: bool,
    bell: Ints,
    values: Numbers,
    news: Numbers,
) -> None:
    """As `window_product.slide`."""
    one, zero, tropical, modulus = ring
    after, upto = span
    wants_news = len(news) > 0
    n, capacity = len(auto.before), 64
    counters = np.empty((n, capacity), values.dtype)
    untils = np.empty(capacity, np.int64)
    blocked = np.empty(capacity, np.int64)
    for lane in range(len(maps.offsets) - 1):
        k, end = maps.offsets[lane], maps.offsets[lane + 1]
        e, last_e = samples.offsets[lane], samples.offsets[lane + 1]
        head, tail, block = 0, 0, LOWEST
        while bell[0] == 0:
            sampled = e < last_e and (k == end or samples.times[e] < maps.times[k])
            if not sampled and k == end:
                break
            moment = samples.times[e] if sampled else maps.times[k]
            while head < tail and untils[head] <= moment:
                if own and after < untils[head] <= upto and e < last_e:
                    for state in range(auto.final, n):
                        news[e] = plus(news[e], counters[state, head], tropical, modulus)
                head += 1
            if sampled:
                value = zero
                for state in range(auto.final, n):
                    for c in range(head, tail):
                        value = plus(value, counters[state, c], tropical, modulus)
                values[e] = value
                e += 1
                continue
            rank = maps.ranks[k]
            weight = one if weights is None else weights[k]
            begins, others = auto.begins[rank], tail
            if begins:
                if tail == capacity:  # move the live ones to the front, into more room if they fill it
                    live = tail - head
                    capacity = capacity if 2 * live < capacity else 2 * capacity
                    room = np.empty((n, capacity), values.dtype)
                    room_untils, room_blocked = np.empty(capacity, np.int64), np.empty(capacity, np.int64)
                    for c in range(live):
                        room_untils[c], room_blocked[c] = untils[head + c], blocked[head + c]
                        for i in range(n):
                            room[i, c] = counters[i, head + c]
                    counters, untils, blocked = room, room_untils, room_blocked
                    head, tail = 0, live
                for i in range(n):
                    counters[i, tail] = zero
                untils[tail], blocked[tail] = maps.untils[k], block
                counters[0, tail] = one
                others = tail
                tail += 1
            counts = wants_news and not own and after < moment <= upto and e < last_e
            for step in range(auto.firsts[rank], auto.firsts[rank + 1]):
                to, source = auto.tos[step], auto.sources[step]
                if source < 0:
                    if to == 0:  # ends before it leaves the window do not count for starts that come now
                        block = max(block, maps.untils[k])
                    else:
                        for c in range(head, tail):
                            counters[to, c] = zero
                    continue
                first, last = (others, tail) if source == 0 else (head, others)  # a new start counts on itself alone
                weighted, ends = auto.weighted[step], to >= auto.final
                for c in range(first, last):
                    if ends and blocked[c] > moment:
                        continue
                    term = times(counters[source, c], weight, tropical, modulus) if weighted else counters[source, c]
                    if counts and ends:
                        news[e] = plus(news[e], term, tropical, modulus)
                    counters[to, c] = plus(counters[to, c], term, tropical, modulus)
            k += 1
