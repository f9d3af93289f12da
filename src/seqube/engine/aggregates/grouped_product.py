"""Counts by the values of one or two components (GROUP BY a.type, b.type) in one pass: the window product with rows for numbers.

In `window_product` an entry of a matrix says in how many ways some slots are filled. Here an entry that spans a slot which is
grouped by has such a number for each of its values, and one that spans two such slots for each pair. An event of that slot adds to
the number of its own value; two entries that are multiplied span different slots, so their product is every number of one times
every number of the other. Ends add to the cells of what came before them.

    SEQ(A a, B b) GROUP BY a.x, b.x         a1 b1 a2 a1 b2         (letter: the slot, number: x)
    entry of slot a, by x                   1: 1, 1, 1, 2, 2   2: 0, 0, 1, 1, 1
    cells at b1, b2                         (1, 1) += 1            (1, 2) += 2, (2, 2) += 1

Without this every value would be a lane (`lanes`), and every other event would lie in each of them.

Where what events add can be taken back (`undoing_product`), it is: then nothing is kept for each start.

Cost: that of these products, and a few numbers in a row for every value; a row of numbers for every start in the window.
Invariant: as counts in doubles, exact below 2^53; beyond that, and for what does not fit, nothing is answered here.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from seqube.engine.aggregates.aggregation import Answer, Cells, Floats, Task
from seqube.engine.aggregates.automaton import slot_rank
from seqube.engine.aggregates.lanes import Maps, Numbers, make_lanes
from seqube.engine.aggregates.undoing_product import Words
from seqube.engine.jit import kernel
from seqube.engine.numbers import EXACT
from seqube.engine.predicates import Ints
from seqube.engine.sequence import HIGHEST
from seqube.plan.aggregates import MATCHES, can_be_taken_back, free_slots
from seqube.plan.chains import EventChain

MOST_NUMBERS = 1 << 25  # in all rows of starts, or in all cells; beyond this, groups are lanes


class Grouping(NamedTuple):
    """The slots that are grouped by (the first before the second; -1: there is none), and how many values each has."""

    first: int
    second: int
    n_first: int
    n_second: int


class Pass(NamedTuple):
    """What is counted in one pass: maps with the value of each, and which ends are new, those in (after, upto]."""

    maps: Maps
    codes: Ints
    grouping: Grouping
    n_slots: int
    width: int  # the most numbers of an entry
    span: tuple[int, int]
    of_lane: npt.NDArray[np.int64]  # the row of the result for each lane


def count_groups(task: Task, chain: EventChain) -> Answer | None:
    """The matches of every group; None where they cannot be counted so."""
    slots = free_slots(task.plan, chain)
    if slots is None or not slots:
        return None
    n_slots = len(chain.slots)
    free = {chain.slots[number].variable for number in slots}
    kept = tuple(key for key in task.plan.group_by if key.variable not in free)
    apart = replace(task, plan=replace(task.plan, group_by=kept))
    lanes = make_lanes(apart, chain)
    if lanes is None:
        return None
    ranks = lanes.maps.ranks
    codes, values = np.zeros(len(ranks), np.int64), []
    for number in slots:
        groups = task.groups.only(tuple(key for key in task.plan.group_by if key.variable == chain.slots[number].variable))
        here = np.flatnonzero(ranks == slot_rank(n_slots, number))
        rows = lanes.rows[here]
        if groups.size > MOST_NUMBERS:
            return None
        found = groups.codes({chain.slots[number].variable: rows}, len(rows))
        seen = np.zeros(groups.size, np.bool_)
        seen[found] = True
        codes[here] = (np.cumsum(seen) - 1)[found]
        values.append(groups.digits(np.flatnonzero(seen)))
    sizes = [len(found[0]) for found in values]
    grouping = Grouping(slots[0], slots[1] if len(slots) > 1 else -1, max(sizes[0], 1), max(sizes[1], 1) if len(slots) > 1 else 1)
    own, of_lane = np.unique(lanes.groups, return_inverse=True)
    n_starts = int(np.count_nonzero(ranks == slot_rank(n_slots, 0)))
    widest = _width(grouping, n_slots)
    if max(n_starts * widest * n_slots, len(own) * grouping.n_first * grouping.n_second) > MOST_NUMBERS:
        return None
    asked = Pass(lanes.maps, codes, grouping, n_slots, widest, (task.after, task.upto), of_lane)
    size = (len(own), grouping.n_first * grouping.n_second)
    out: Numbers = np.zeros(size, np.uint64)
    bound = np.inf
    if can_be_taken_back(task.plan, chain):
        with task.batch.budget.bell() as bell:
            bound = count_and_undo_groups(asked, bell, out)
    if bound >= EXACT:
        out = np.zeros(size)
        with task.batch.budget.bell() as bell:
            slide_groups(asked, bell, out)
        if out.size and out.max() >= EXACT:
            return None
    group, cell = np.nonzero(out)
    digits = dict(zip(kept, task.groups.only(kept).digits(own[group]), strict=True))
    places = np.divmod(cell, grouping.n_second)
    if grouping.second == n_slots - 1:
        places = np.divmod(cell, grouping.n_first)[::-1]
    for number, by_key, place in zip(slots, values, places, strict=False):
        keys = [key for key in task.plan.group_by if key.variable == chain.slots[number].variable]
        digits |= {key: digit[place] for key, digit in zip(keys, by_key, strict=True)}
    result = task.groups.join([digits[key] for key in task.plan.group_by], len(group))
    order = np.argsort(result, kind="stable")
    counts = out[group, cell].astype(np.int64)[order]
    return Answer(Cells(result[order], np.zeros(len(group), np.int64)), {MATCHES: pa.array(counts)})


def _width(grouping: Grouping, n_slots: int) -> int:
    """The most numbers of an entry: those of whatever is spanned before the last slot."""
    first = grouping.n_first if grouping.first < n_slots - 1 else 1
    return first * (grouping.n_second if grouping.second < n_slots - 1 else 1)


@kernel
def _size(grouping: Grouping, begin: int, end: int) -> int:
    """How many numbers an entry has that spans the slots begin .. end - 1."""
    size = 1
    if begin <= grouping.first < end:
        size *= grouping.n_first
    if begin <= grouping.second < end:
        size *= grouping.n_second
    return size


@kernel
def _place(grouping: Grouping, slot: int, code: int, size: int) -> int:
    """Where the numbers for the value of an event begin, so many for each value; in a slot that is not grouped by, at 0."""
    return code * size if slot in (grouping.first, grouping.second) else 0


@kernel
def _reset(matrix: Numbers) -> None:
    matrix[:] = 0
    for i in range(matrix.shape[0]):
        matrix[i, i, 0] = 1


@kernel
def _add(matrix: Numbers, source: tuple[int, int], target: tuple[int, int], size: int, at: int, step: int) -> None:
    """Add the numbers of an entry to those of another, from a place on: by its place, as a view would cost more than to add it."""
    for i in range(size):
        matrix[target[0], target[1], at + i * step] += matrix[source[0], source[1], i]


@kernel
def _append(back: Numbers, slot: int, code: int, grouping: Grouping) -> None:
    """Multiply the map of an event from the right."""
    for i in range(slot + 1):
        size = _size(grouping, i, slot)
        if slot == grouping.second:
            _add(back, (slot, i), (slot + 1, i), size, code, grouping.n_second)
        else:
            _add(back, (slot, i), (slot + 1, i), size, code if slot == grouping.first else 0, 1)


@kernel
def _take_back(inside: Words, slot: int, code: int, grouping: Grouping) -> None:
    """Take back what the oldest event began."""
    for j in range(slot + 1, inside.shape[0]):
        size = _size(grouping, slot + 1, j)
        at = _place(grouping, slot, code, size)
        for i in range(size):
            inside[j, slot, at + i] -= inside[j, slot + 1, i]


@kernel
def _turn(
    maps: Maps, codes: Ints, grouping: Grouping, part: tuple[int, int, int], product: Floats, rows: Floats, untils: Ints
) -> int:
    """As `window_product._turn`: rows of the starts in a part (begin, end, moment) of the maps that live at `moment`."""
    begin, end, moment = part
    n_slots = product.shape[0]
    _reset(product)
    top = 0
    for k in range(end - 1, begin - 1, -1):
        rank = maps.ranks[k]
        if rank & 1:
            slot = n_slots - 1 - (rank >> 1)
            if slot == 0 and maps.untils[k] <= moment:
                break  # this start has left, and so have all before it
            for j in range(slot + 1, n_slots):
                size = _size(grouping, slot + 1, j)
                at = _place(grouping, slot, codes[k], size)
                _add(product, (slot + 1, j), (slot, j), size, at, 1)
            if slot == 0:
                for j in range(n_slots):
                    size = _size(grouping, 0, j)
                    for i in range(size):
                        rows[top, j, i] = product[0, j, i]
                untils[top] = maps.untils[k]
                top += 1
        else:
            position = n_slots - (rank >> 1)
            product[position, position:] = 0.0
    return top


@kernel
def _end(left: Numbers, right: Numbers, middle: int, last: int, code: int, grouping: Grouping, cells: Numbers) -> None:
    """Add the products of what spans the slots before `middle` and what spans those from there to the last, for an end.

    Cells lie by the value of the second slot within that of the first; where the second is the last, the other way round, so that
    an end adds to neighbours.
    """
    first, second, n_first, n_second = grouping
    if first == last:
        cells[code] += left[0] * right[0]
    elif second < 0 or second == last:
        at = code * n_first if second == last else 0
        if first < middle:
            for g in range(n_first):
                cells[at + g] += left[g] * right[0]
        else:
            for g in range(n_first):
                cells[at + g] += left[0] * right[g]
    else:
        left_2, right_2 = (1, 0) if second < middle else (0, 1)
        left_1 = (n_second if left_2 else 1) if first < middle else 0
        right_1 = n_second if first >= middle else 0
        for g in range(n_first):
            for h in range(n_second):
                cells[g * n_second + h] += left[g * left_1 + h * left_2] * right[g * right_1 + h * right_2]


@kernel
def slide_groups(asked: Pass, bell: Ints, out: Floats) -> None:
    """Add every match that ends in `span` (after, upto] to its cell: a row of `out` for the group of its lane. See `slide`."""
    maps, codes, grouping, n_slots, width, (after, upto), of_lane = asked
    last = n_slots - 1
    back = np.empty((n_slots, n_slots, width))  # transposed, and without the last column: ends are counted as they come
    product = np.empty_like(back)
    rows = np.empty((64, n_slots, width))
    untils = np.empty(64, np.int64)
    unit = np.ones(1)
    start_rank = 2 * n_slots - 1
    for lane in range(len(maps.offsets) - 1):
        cells = out[of_lane[lane]]
        begin, top, oldest, n_starts = maps.offsets[lane], 0, HIGHEST, 0
        _reset(back)
        for k in range(maps.offsets[lane], maps.offsets[lane + 1]):
            if bell[0] != 0:
                return
            now, rank = maps.times[k], maps.ranks[k]
            if rank == 1 and after < now <= upto:
                while True:
                    if top > 0:
                        if untils[top - 1] > now:
                            break
                        top -= 1
                    elif n_starts > 0 and oldest <= now:
                        if n_starts > len(untils):
                            rows = np.empty((2 * n_starts, n_slots, width))
                            untils = np.empty(2 * n_starts, np.int64)
                        top = _turn(maps, codes, grouping, (begin, k, now), product, rows, untils)
                        _reset(back)
                        begin, oldest, n_starts = k, HIGHEST, 0
                    else:
                        break
                if top == 0:
                    _end(unit, back[last, 0], 0, last, codes[k], grouping, cells)
                else:
                    for j in range(n_slots):
                        _end(rows[top - 1, j], back[last, j], j, last, codes[k], grouping, cells)
            if rank & 1:
                slot = last - (rank >> 1)
                if slot < last:
                    _append(back, slot, codes[k], grouping)
            else:
                position = n_slots - (rank >> 1)
                back[position, : position + 1] = 0.0
            if rank >= start_rank:
                oldest = min(oldest, maps.untils[k])
                n_starts += 1


@kernel
def count_and_undo_groups(asked: Pass, bell: Ints, out: Words) -> float:
    """As `slide_groups`, of events that each come once, and modulo 2^64; the most matches there can be. See `count_and_undo`."""
    maps, codes, grouping, n_slots, width, (after, upto), of_lane = asked
    last, bound = n_slots - 1, 0.0
    inside, present = np.empty((n_slots, n_slots, width), np.uint64), np.empty(n_slots)
    size = _size(grouping, 0, last)
    for lane in range(len(maps.offsets) - 1):
        cells, leaving = out[of_lane[lane]], maps.offsets[lane]
        _reset(inside)
        present[:] = 0.0
        for k in range(maps.offsets[lane], maps.offsets[lane + 1]):
            if bell[0] != 0:
                return bound
            slot, now = last - (maps.ranks[k] >> 1), maps.times[k]
            if slot < last:
                _append(inside, slot, codes[k], grouping)
                present[slot] += 1.0
            elif after < now <= upto:
                while maps.untils[leaving] <= now:
                    left = last - (maps.ranks[leaving] >> 1)
                    if left < last:
                        _take_back(inside, left, codes[leaving], grouping)
                        present[left] -= 1.0
                    leaving += 1
                at = _place(grouping, last, codes[k], size)
                here = cells[at : at + size]
                for i in range(size):
                    here[i] += inside[last, 0, i]
                most = 1.0
                for j in range(last):
                    most *= present[j]
                bound += most
    return bound
