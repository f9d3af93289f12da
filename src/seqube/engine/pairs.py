"""SEQ by an index for each pair of parts: equalities that differ from pair to pair are looked up, not tested in a loop.

Joining (`join_pairs`) walks the slots once from left to right. For each equality of a slot with one before it the events of both
are coded, equal where the values are, and an event stays only if there is one before it with its code, from which a chain may reach
back inside the window (`reach`, as in `sequence`: the latest start of a chain that may end there). What is dropped is never coded
again: where matches are few, so are the events of the later slots.

    A1(x=7)  A2(x=8)  B3(x=8, y=5)  B4(x=9, y=5)  C5(y=5)      a.x = b.x AND b.y = c.y
    B3 stays by A2, B4 is dropped; C5 stays by B3.              index of A by x: 8 -> A2; of B by y: 5 -> B3

Enumeration (`enumerate_pairs`) is a resumable depth-first walk from the last slot to the first, like that of `sequence`: the events
of a slot are those of its index that have the code of the event chosen in the other slot of the pair, which ascend by time, so that
those before the next slot's event and inside the window are a range.

Cost: linear in the events, a look-up in a hash table for each equality, plus the chains, each found by two binary searches; other
clauses add the chains that fail them. Invariant: within an index, events of one code are of one key, and ascend by time and clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from seqube.engine.instances import Instances
from seqube.engine.jit import kernel
from seqube.engine.partitions import KeyCodes
from seqube.engine.predicates import Evaluator, Ints, Mask, code_columns
from seqube.engine.sequence import HIGHEST, LOWEST, STEPS, Clauses, Stacks, by_code, holds
from seqube.plan.pairs import Pair, indexed


class PairStacks(NamedTuple):
    """The events of all slots that may be in a match, behind each other: those of slot i begin at `offsets[i]`.

    `order` has the events of slot after slot, by code and then time; those of slot i and code k begin at `begins[bases[i] + k]`
    and end where the next code begins.
    `probes[starts_of_probes[i] + n]` is the code by which event n of slot `partners[i]` looks into it.
    """

    offsets: Ints
    times: Ints
    clocks: Ints
    reach: Ints
    barriers: Ints
    limits: Ints
    ids: Ints
    origins: Ints  # the number of each among all events of its slot
    partners: Ints
    order: Ints
    bases: Ints
    begins: Ints
    probe_offsets: Ints
    probes: Ints


class _Slot:
    """The events of a slot that are left: their numbers, how far back chains from them reach, and the codes of its pairs."""

    def __init__(self, stacks: Stacks, number: int, size: int) -> None:
        self.first = int(stacks.offsets[number])
        self.alive = np.arange(size)
        self.reach = stacks.firsts[self.first : self.first + size].copy()
        self.bounds = stacks.groups[:, number].copy()  # of keys, among those that are alive
        self.probes: dict[int, Ints] = {}  # by the slot that is looked into

    def rows(self, instances: Instances) -> Instances:
        return instances if len(self.alive) == len(instances) else instances.select(self.alive)

    def keep(self, kept: Mask) -> None:
        if kept.all():
            return
        self.bounds = np.concatenate(([0], np.cumsum(kept)))[self.bounds]
        self.alive, self.reach = self.alive[kept], self.reach[kept]
        self.probes = {left: codes[kept] for left, codes in self.probes.items()}

    @property
    def groups(self) -> Ints:
        """The key of every event that is left."""
        return np.repeat(np.arange(len(self.bounds) - 1), np.diff(self.bounds))


def join_pairs(pairs: Sequence[Pair], slots: list[Instances], stacks: Stacks, window: int, evaluator: Evaluator) -> PairStacks:
    """Drop what is in no match by any pair, and index what is left."""
    if not len(stacks.barriers):
        size = len(stacks.ends)
        stacks = stacks._replace(barriers=np.full(size, LOWEST), limits=np.full(size, HIGHEST))
    left_over = [_Slot(stacks, i, len(slot)) for i, slot in enumerate(slots)]
    by = indexed(tuple(pairs))
    codes_of: dict[int, tuple[Ints, int]] = {}  # of each slot in its index
    for right in range(1, len(slots)):
        own = {pair.left: pair for pair in pairs if pair.right == right}
        for left in sorted({*own, right - 1}, reverse=True):
            of_left, of_right = left_over[left], left_over[right]
            if left in own:
                sides = of_left.rows(slots[left]), of_right.rows(slots[right])
                columns = [
                    [evaluator.array(values[side], found.rows, len(found)) for values in own[left].values]
                    for side, found in enumerate(sides)
                ]
                (codes, probes), n_codes = code_columns(columns)
                codes, probes, n_codes = _within_keys(codes, probes, n_codes, of_left, of_right)
            else:
                codes, probes, n_codes = of_left.groups, of_right.groups, len(of_left.bounds) - 1
            at = of_right.first + of_right.alive
            barriers = stacks.barriers[at] if left == right - 1 else np.full(len(at), LOWEST)
            reach = reach_back(
                of_left.bounds,
                stacks.ends[of_left.first + of_left.alive],
                of_left.reach,
                codes,
                of_right.bounds,
                stacks.starts[at],
                stacks.lasts[at],
                barriers,
                probes,
                n_codes,
                window,
            )
            of_right.reach = np.minimum(reach, of_right.reach)
            if left in own and by[left] is own[left]:
                codes_of[left], of_right.probes[left] = (codes, n_codes), probes
            of_right.keep(reach > LOWEST)
    for i in range(len(slots) - 1):
        if i not in by:  # nothing to look up by: its index is that of its key
            codes_of[i], left_over[i + 1].probes[i] = (left_over[i].groups, len(left_over[i].bounds) - 1), left_over[i + 1].groups
    return _stacked(stacks, left_over, codes_of, [by[i].right if i in by else i + 1 for i in range(len(slots) - 1)])


def _within_keys(codes: Ints, probes: Ints, n_codes: int, left: _Slot, right: _Slot) -> tuple[Ints, Ints, int]:
    """Codes that are equal only within a key; -1 stays."""
    if left.bounds[1] == len(left.alive) and right.bounds[1] == len(right.alive):  # there is one key
        return codes, probes, n_codes
    known = KeyCodes(["key", "value"], has_values=False)
    both = np.concatenate([codes, probes])
    found = known.code_whole(np.stack([np.concatenate([left.groups, right.groups]), both]))
    found[both < 0] = -1
    return found[: len(codes)], found[len(codes) :], max(1, len(known))


def _stacked(stacks: Stacks, slots: list[_Slot], codes_of: dict[int, tuple[Ints, int]], partners: list[int]) -> PairStacks:
    at = np.concatenate([slot.first + slot.alive for slot in slots])
    offsets = np.cumsum([0, *(len(slot.alive) for slot in slots)])
    orders, begins = zip(*(by_code(*codes_of[i]) for i in range(len(partners))), strict=True)
    placed = np.cumsum([0, *map(len, orders)])
    probes = [slots[partner].probes[i] for i, partner in enumerate(partners)]
    return PairStacks(
        offsets,
        stacks.ends[at],
        stacks.lasts[at],
        np.concatenate([slot.reach for slot in slots]),
        stacks.barriers[at],
        stacks.limits[at],
        stacks.ids[at],
        np.concatenate([slot.alive for slot in slots]),
        np.array(partners, np.int64),
        np.concatenate([order + offsets[i] for i, order in enumerate(orders)]),
        np.cumsum([0, *map(len, begins)])[:-1],
        np.concatenate([begin + placed[i] for i, begin in enumerate(begins)]),
        np.cumsum([0, *map(len, probes)])[:-1],
        np.concatenate(probes),
    )


@kernel
def reach_back(
    left_bounds: Ints,
    left_times: Ints,
    left_reach: Ints,
    codes: Ints,
    right_bounds: Ints,
    right_times: Ints,
    clocks: Ints,
    barriers: Ints,
    probes: Ints,
    n_codes: int,
    window: int,
) -> Ints:
    """For every event of a slot the latest start of a chain that ends before it with its code; LOWEST where none is in the window.

    Events ascend by time within each key, of which the bounds are given. The last event before must not be before the barrier.
    """
    out = np.full(len(right_times), LOWEST)
    last = np.full(n_codes, -1)  # the last event of each code so far
    best = np.full(n_codes, LOWEST)  # and the latest start of any chain up to there
    for g in range(len(left_bounds) - 1):
        pointer = left_bounds[g]
        for j in range(right_bounds[g], right_bounds[g + 1]):
            while pointer < left_bounds[g + 1] and left_times[pointer] < right_times[j]:
                if codes[pointer] >= 0:
                    last[codes[pointer]] = pointer
                    best[codes[pointer]] = max(best[codes[pointer]], left_reach[pointer])
                pointer += 1
            code = probes[j]
            if code < 0 or last[code] < 0 or left_times[last[code]] < barriers[j]:
                continue
            bound = clocks[j] - window if clocks[j] >= LOWEST + window else LOWEST
            if best[code] > bound:
                out[j] = best[code]
    return out


@kernel
def enumerate_pairs(stacks: PairStacks, clauses: Clauses, window: int, cursor: Ints, written: Mask, out: Ints) -> int:
    """Fill `out` (n_slots, capacity) with ids of the next matches and return how many; the cursor tells when that was all.

    The cursor is that of `sequence.new_cursor`: for each slot the place in its index and the end of its range.
    """
    offsets, times, clocks, order = stacks.offsets, stacks.times, stacks.clocks, stacks.order
    n_slots, capacity = out.shape
    top = n_slots - 1
    tested = len(clauses.bounds) > 1
    current, stop, events = cursor[:n_slots], cursor[n_slots : 2 * n_slots], cursor[2 * n_slots : 3 * n_slots]
    level, last = cursor[-2], cursor[-1]
    chosen = np.zeros(n_slots, np.int64)
    if tested and last >= 0:
        for i in range(max(level, 0), n_slots):
            chosen[i] = stacks.origins[events[i]]
    count, steps = 0, 0
    while steps <= STEPS and count < capacity:
        steps += 1
        if level < 0 or level >= top:  # the walk from the present last event is over: take the next one
            last += 1
            if offsets[top] + last >= offsets[top + 1]:
                cursor[-4] = 1
                break
            level = top
            events[top] = offsets[top] + last
        else:
            current[level] += 1
            if current[level] >= stop[level]:
                level += 1
                continue
            events[level] = order[current[level]]
        event, final = events[level], events[top]
        bound = clocks[final] - window if clocks[final] >= LOWEST + window else LOWEST
        if stacks.reach[event] <= bound:
            continue
        if level == 0 and (stacks.barriers[event] > bound or clocks[event] > stacks.limits[final]):
            continue
        if tested:
            chosen[level] = stacks.origins[event]
            if not holds(clauses, level, chosen):
                continue
        if level == 0:
            for i in range(n_slots):
                if written[i]:
                    out[i, count] = stacks.ids[events[i]]
            count += 1
            continue
        # The events of the slot before: of the code that is looked up, after the barrier and inside the window, before this one.
        barrier, level = stacks.barriers[event], level - 1
        partner = stacks.partners[level]
        code = stacks.probes[stacks.probe_offsets[level] + events[partner] - offsets[partner]]
        begin, end = stacks.begins[stacks.bases[level] + code], stacks.begins[stacks.bases[level] + code + 1]
        low, high = begin, end
        while low < high:
            middle = (low + high) // 2
            if times[order[middle]] < barrier or clocks[order[middle]] <= bound:
                low = middle + 1
            else:
                high = middle
        current[level] = low - 1
        high = end
        while low < high:
            middle = (low + high) // 2
            if times[order[middle]] < times[event]:
                low = middle + 1
            else:
                high = middle
        stop[level] = low
    cursor[-2], cursor[-1] = level, last
    return count
