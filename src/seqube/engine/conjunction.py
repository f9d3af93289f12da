"""AND as nested ranges: one instance of every slot inside one window, in any order, no event twice.

Slots are chosen from left to right. With the span of what is chosen so far known, the candidates of the next slot are a
contiguous range of its stack (those that end inside the window that is still open), found by binary search; the walk is
resumable like that of SEQ.

Cost: the combinations of every prefix of the slots that fit the window, and a binary search for each.
Invariant: as in `sequence`: instances ascend by (key, end).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from seqube.engine.bindings import UNBOUND, Column, Lists, ranges
from seqube.engine.instances import Instances
from seqube.engine.jit import inner_kernel, kernel
from seqube.engine.predicates import Ints
from seqube.engine.sequence import HIGHEST, LOWEST, STEPS, Clauses, Stacks, holds


class Members(NamedTuple):
    """The rows of every instance, to see that no event is used twice.

    Instance k of slot i has the `widths[i]` rows from `rows[bases[i] + k * widths[i]]` on.
    """

    widths: Ints
    bases: Ints
    rows: Ints


def members_of(slots: Sequence[Instances]) -> Members:
    tables = [np.stack([part for column in slot.rows.values() for part in in_columns(column)], axis=1) for slot in slots]
    widths = np.array([table.shape[1] for table in tables], np.int64)
    flat = [table.ravel() for table in tables]
    bases = np.concatenate(([0], np.cumsum([len(part) for part in flat])[:-1])).astype(np.int64)
    return Members(widths, bases, np.concatenate(flat))


def in_columns(column: Column) -> list[Ints]:
    """The rows of a column as columns of one row each; UNBOUND past the end of a list."""
    if not isinstance(column, Lists):
        return [column]
    width = int(column.counts.max(initial=0))
    table = np.full((len(column), max(width, 1)), UNBOUND, np.int64)
    table[np.repeat(np.arange(len(column)), column.counts), ranges(np.zeros(len(column), np.int64), column.counts)] = column.rows
    return list(table.T)


@inner_kernel
def _shares_event(members: Members, slot: int, chosen: Ints) -> bool:
    for a in range(members.widths[slot]):
        row = members.rows[members.bases[slot] + chosen[slot] * members.widths[slot] + a]
        if row < 0:
            continue
        for other in range(slot):
            for b in range(members.widths[other]):
                if members.rows[members.bases[other] + chosen[other] * members.widths[other] + b] == row:
                    return True
    return False


@inner_kernel
def _first_after(lasts: Ints, begin: int, end: int, bound: int) -> int:
    while begin < end:
        middle = (begin + end) // 2
        if lasts[middle] <= bound:
            begin = middle + 1
        else:
            end = middle
    return begin


@kernel
def enumerate_combinations(stacks: Stacks, clauses: Clauses, members: Members, window: int, cursor: Ints, out: Ints) -> int:
    """Fill `out` (n_slots, capacity) with ids of the next combinations and return how many; the cursor tells when that was all.

    `members` without rows means that no two slots can hold the same event.
    """
    offsets, groups, firsts, lasts, ids = stacks.offsets, stacks.groups, stacks.firsts, stacks.lasts, stacks.ids
    n_slots, capacity = out.shape
    n_groups = groups.shape[0] - 1
    may_share = len(members.rows) > 0
    chosen = np.zeros(n_slots, np.int64)
    earliest = np.full(n_slots + 1, HIGHEST, np.int64)
    latest = np.full(n_slots + 1, LOWEST, np.int64)
    current, stop = cursor[:n_slots], cursor[n_slots : 2 * n_slots]
    group, level = cursor[-3], cursor[-2]
    for i in range(level):  # what was chosen before the last buffer was full
        chosen[i] = current[i] - offsets[i]
        earliest[i + 1] = min(earliest[i], firsts[current[i]])
        latest[i + 1] = max(latest[i], lasts[current[i]])
    count, steps = 0, 0
    while True:
        steps += 1
        if steps > STEPS:
            cursor[-3], cursor[-2] = group, level
            return count
        if level < 0:
            group += 1
            if group >= n_groups:
                cursor[-4] = 1
                return count
            level = 0
            current[0] = offsets[0] + groups[group, 0] - 1
            stop[0] = offsets[0] + groups[group + 1, 0]
        current[level] += 1
        c = current[level]
        # In the order of their ends, the first instance that ends after the open window ends the range.
        if c >= stop[level] or (earliest[level] < HIGHEST - window and lasts[c] >= earliest[level] + window):
            level -= 1
            continue
        early, late = min(earliest[level], firsts[c]), max(latest[level], lasts[c])
        if early <= (late - window if late >= LOWEST + window else LOWEST):
            continue
        chosen[level] = c - offsets[level]
        if may_share and _shares_event(members, level, chosen):
            continue
        if not holds(clauses, level, chosen):
            continue
        if level == n_slots - 1:
            for i in range(n_slots):
                out[i, count] = ids[current[i]]
            count += 1
            if count == capacity:
                cursor[-3], cursor[-2] = group, level
                return count
            continue
        earliest[level + 1], latest[level + 1] = early, late
        level += 1
        begin, end = offsets[level] + groups[group, level], offsets[level] + groups[group + 1, level]
        bound = late - window if late >= LOWEST + window else LOWEST
        current[level] = _first_after(lasts, begin, end, bound) - 1
        stop[level] = end


@kernel
def latest_combinations(offsets: Ints, codes: Ints, rows: Ints) -> Ints:
    """At every event, the latest one of each slot of its key, wherever the earliest of these has moved on: (n_slots, n).

    Slots lie behind each other (slot i from `offsets[i]` on), ascend by (code, row), and share no events.
    """
    n_slots = len(offsets) - 1
    out = np.empty((n_slots, len(rows)), np.int64)
    following, latest = offsets[:-1].copy(), np.full(n_slots, -1, np.int64)
    n, code, earliest = 0, -1, -1
    for _ in range(len(rows)):
        slot = -1
        for i in range(n_slots):
            at = following[i]
            if at < offsets[i + 1]:
                best = following[slot]
                if slot < 0 or codes[at] < codes[best] or (codes[at] == codes[best] and rows[at] < rows[best]):
                    slot = i
        at = following[slot]
        following[slot] += 1
        if codes[at] != code:
            code, earliest = codes[at], -1
            latest[:] = -1
        was_earliest = latest[slot] <= earliest
        latest[slot] = rows[at]
        if was_earliest:  # else the earliest is still the same one
            first = latest.min()
            if first > earliest:
                earliest = first
                for i in range(len(latest)):
                    out[i, n] = latest[i]
                n += 1
    return out[:, :n]
