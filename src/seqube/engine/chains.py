"""SEQ over a stream that never stops: every event is linked once, when it is decided, and found again through chains.

An event that may take part is an *entry* in one growing array, in the order of the stream. Entries of a slot and a key form a
chain, and every entry points across to the neighbouring slot of its key. A table of keys has the newest entry of each slot. Nothing
is sorted and nothing is copied: what the window has left behind lies before the array's head, and a chain that gets there ends.

    entry      A1  A2  B3  A4  B5
    SAME        -  A1   -  A2  B3      the entry before, of the same slot and key
    ACROSS      -   -  A2   -  A4      the newest entry of the slot before that came earlier

Without a trailing negation a match is final with its last event, which walks back (`walk_back`) over what it reports. With one, a
match is final when the window that began with it is over: its first event then walks on (`walk_on`), so here chains and
pointers run forwards: SAME is the entry after, ACROSS the first of the next slot that came later, written when it comes.

A forbidden event needs no entry. Before a slot it leaves its time in the table of keys, and an entry takes the latest along as its
barrier: what precedes must not have come before that. After the last slot it writes a limit to the entries that wait for it.
What is forbidden may be several events (a negated sub-query). Then each of its parts is a *stage*, and what the table has of a
stage is the latest start of what got as far: one number for each part and key, and the last one is the barrier.

`REACH` is the latest start of a chain of events that ends here or earlier in the SAME chain. It never falls, so a walk that meets
one outside of the window can stop, and no dead branch is walked again and again.

Cost: constant for an event, and for each match its length; with clauses, plus the chains that fail them.
Invariant: entries ascend in time and number alike (those of one partition, where events are counted in each); what lies before the
head is not there, whoever points to it.

    Paper (stack-based SEQ)            | Here
    active instance stack of type Ei   | the chains of slot i
    most recent instance pointer (RIP) | ACROSS
    sequence construction              | walk_back
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from seqube.engine.jit import kernel, kernel_part
from seqube.engine.predicates import NULL, Ints, Mask
from seqube.engine.sequence import HIGHEST, LOWEST, STEPS, compare
from seqube.events.batch import Codes

# The columns of an entry: eight words, a line of the processor's cache. Where matches wait also SLOT, its slot; FORBIDDEN, the
# clock of the first event after it that a trailing negation forbids; AWAITS, the next entry that waits for a follower; DUE, the
# next of the first slot; and behind them, for each trailing negation, the next that waits for it. Then the values of clauses.
MOMENT, CLOCK, ROW, BARRIER, REACH, SAME, ACROSS, EARLIER, SLOT, FORBIDDEN, AWAITS, DUE = range(12)
FIELDS, WAITING_FIELDS = 8, 12

NO_ENTRY = -1  # an entry that is not there

# The columns of a key: newest entry and newest entry that waits for its follower, for every slot; behind them, for every stage of a
# gap, `STAGED` ones, then the first and the last entry of the first slot that was not reported yet. Of a stage: the time at which
# it was last reached, the latest start of what reached it (and its clock), the same of what had reached it before that time; and
# the newest entry that waits for it.
ARRIVED, LATEST, LATEST_CLOCK, SOONER, SOONER_CLOCK, WAITING = range(6)
STAGED = 6
GAP_POSITION, GAP_IS_KEYED, GAP_TRAILING, GAP_STAGE = range(4)
STAGE_GAP, STAGE_AFTER, STAGE_FIRST = range(3)


class ChainShape(NamedTuple):
    """What a sequence asks of its events, and where entries have what."""

    n_slots: int
    window: int
    waits: bool
    values: int  # the first column of an entry's values
    gaps: Ints  # (n_gaps, 4): its position, whether it is of the key, its place among the trailing ones, its last stage
    stages: Ints  # (n_stages, 3): its gap, the stage before it (-1: none), the first of those that all must be reached (-1: none)
    at: Ints  # n_slots + 1: clauses at[i] .. at[i + 1] - 1 are checked when slot i has been chosen
    bounds: Ints  # clause c is tests[bounds[c]] .. tests[bounds[c + 1] - 1], true if any of them is
    tests: Ints  # (n_tests, 5): op, left slot, its column of values, right slot, its column


class Linkable(NamedTuple):
    """New events that are of a slot (its number) or a stage of a gap (-1 minus its number), in order."""

    kinds: Ints
    places: Ints  # in the batch
    ranks: Ints  # among what is kept of the batch
    codes: Ints  # of their key, -1 for none
    parts: Ints  # of their partition


def new_key(n_slots: int, n_stages: int) -> Ints:
    """The row of a key that nothing is known of."""
    row = np.full(2 * n_slots + STAGED * n_stages + 2, NO_ENTRY, np.int64)
    for stage in range(n_stages):
        begin = 2 * n_slots + STAGED * stage
        row[begin : begin + WAITING] = LOWEST
    return row


@kernel_part
def earlier(clock: int, window: int) -> int:
    """A clock a window before; what would leave 64 bits is before everything."""
    return clock - window if clock >= LOWEST + window else LOWEST


@kernel_part
def later(clock: int, window: int) -> int:
    return clock + window if clock <= HIGHEST - window else HIGHEST


@kernel
def find_linkable(types: Codes, roles: Ints, starts: Ints, scans: Ints, passes: Mask, parts: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """The events that take part in something: the scan of each, its place, and its number among the places that are kept.

    A type has a role, and role r the scans from `starts[r]` on. An event must pass what its scan asks (unless nothing is asked of
    any), and be in a partition (where there are some).
    """
    size = len(types) * max(1, len(scans))
    found, places, ranks = np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size, np.int64)
    kept = np.empty(len(types), np.int64)
    count, n_kept = 0, 0
    for place in range(len(types)):
        role = roles[types[place]]
        if role < 0 or (len(parts) > 0 and parts[place] < 0):
            continue
        before = count
        for at in range(starts[role], starts[role + 1]):
            if len(passes) == 0 or passes[scans[at], place]:
                found[count], places[count], ranks[count] = scans[at], place, n_kept
                count += 1
        if count > before:
            kept[n_kept] = place
            n_kept += 1
    return found[:count], places[:count], ranks[:count], kept[:n_kept]


@kernel
def link_entries(
    shape: ChainShape,
    found: Linkable,
    first: int,
    times: Ints,
    clocks: Ints,
    values: Ints,
    entries: Ints,
    span: Ints,
    keys: Ints,
    parts: Ints,
    ends: Ints,
) -> int:
    """Make entries of what was found, and note those of the last slot in `ends`; how many these are.

    `span` has the numbers of the first entry in `entries`, the first that lives, and the next, which moves on.
    """
    n_slots, gaps, window = shape.n_slots, shape.gaps, shape.window
    base, head = span[0], span[1]
    n_ends = 0
    for n in range(len(found.kinds)):
        kind, place, code, part = found.kinds[n], found.places[n], found.codes[n], found.parts[n]
        time, clock = times[place], clocks[place]
        if kind < 0:
            stage = -1 - kind
            table, key = (keys, code) if gaps[shape.stages[stage, STAGE_GAP], GAP_IS_KEYED] else (parts, part)
            if key >= 0:
                reach_stage(shape, stage, table[key], time, clock, entries, base, head)
            continue
        if code < 0 and n_slots > 1:
            continue  # without a key it joins nothing
        barrier = LOWEST
        for gap in range(len(gaps)):
            if gaps[gap, GAP_POSITION] == kind:
                table, key = (keys, code) if gaps[gap, GAP_IS_KEYED] else (parts, part)
                if key >= 0:
                    at = start_column(shape, gaps[gap, GAP_STAGE], table[key], time)
                    barrier = max(barrier, table[key, at + (1 if kind == 0 else 0)])
        before, reach = NO_ENTRY, clock
        if kind > 0:
            before = keys[code, kind - 1]
            if before >= head and entries[before - base, MOMENT] >= time:
                before = entries[before - base, EARLIER]
            if before < head or entries[before - base, MOMENT] < barrier:
                continue
            reach = entries[before - base, REACH]
            if reach <= earlier(clock, window):
                continue
        number = span[2]
        span[2] += 1
        entry = entries[number - base]
        entry[MOMENT], entry[CLOCK], entry[ROW], entry[BARRIER] = time, clock, first + found.ranks[n], barrier
        entry[SAME], entry[ACROSS], entry[EARLIER] = NO_ENTRY, NO_ENTRY, NO_ENTRY
        if shape.waits:
            entry[SLOT], entry[FORBIDDEN], entry[AWAITS], entry[DUE] = kind, HIGHEST, NO_ENTRY, NO_ENTRY
        for k in range(values.shape[1]):
            entry[shape.values + k] = values[n, k]
        if code >= 0:
            newest = keys[code, kind]
            if newest >= head:
                other = entries[newest - base]
                reach = max(reach, other[REACH])
                entry[EARLIER] = newest if other[MOMENT] < time else other[EARLIER]
                if shape.waits:
                    other[SAME] = number
                else:
                    entry[SAME] = newest
            if not shape.waits:
                entry[ACROSS] = before
            else:
                if kind > 0 and (newest < head or entries[newest - base, MOMENT] < time):
                    follow(keys[code], n_slots + kind - 1, time, number, entries, base, head)
                if kind < n_slots - 1:
                    entry[AWAITS] = keys[code, n_slots + kind]
                    keys[code, n_slots + kind] = number
            keys[code, kind] = number
        entry[REACH] = reach
        if kind == n_slots - 1:
            ends[n_ends] = number
            n_ends += 1
            for gap in range(len(gaps)):
                if gaps[gap, GAP_POSITION] == n_slots:
                    table, key = (keys, code) if gaps[gap, GAP_IS_KEYED] else (parts, part)
                    entry[WAITING_FIELDS + gaps[gap, GAP_TRAILING]] = NO_ENTRY
                    if key >= 0:
                        at = 2 * n_slots + STAGED * gaps[gap, GAP_STAGE] + WAITING
                        entry[WAITING_FIELDS + gaps[gap, GAP_TRAILING]] = table[key, at]
                        table[key, at] = number
        if shape.waits and kind == 0:
            at = parts.shape[1] - 2
            if parts[part, at] < head:
                parts[part, at] = number
            else:
                entries[parts[part, at + 1] - base, DUE] = number
            parts[part, at + 1] = number
    return n_ends


@kernel_part
def start_column(shape: ChainShape, stage: int, key: Ints, time: int) -> int:
    """The column with the latest start of what reached a stage before this time; the next one has its clock."""
    at = 2 * shape.n_slots + STAGED * stage
    return at + (LATEST if key[at + ARRIVED] < time else SOONER)


@kernel_part
def note_stage(shape: ChainShape, stage: int, key: Ints, time: int, start: int, clock: int) -> None:
    """What starts then has reached a stage."""
    at = 2 * shape.n_slots + STAGED * stage
    if key[at + ARRIVED] != time:
        key[at + SOONER], key[at + SOONER_CLOCK] = key[at + LATEST], key[at + LATEST_CLOCK]
        key[at + ARRIVED] = time
    key[at + LATEST], key[at + LATEST_CLOCK] = max(key[at + LATEST], start), max(key[at + LATEST_CLOCK], clock)


@kernel_part
def reach_stage(shape: ChainShape, stage: int, key: Ints, time: int, clock: int, entries: Ints, base: int, head: int) -> None:
    """A forbidden event, or one of several: entries to come find it in their key, entries that wait for it get their limit."""
    gap, before, first = shape.stages[stage, STAGE_GAP], shape.stages[stage, STAGE_AFTER], shape.stages[stage, STAGE_FIRST]
    last = shape.gaps[gap, GAP_STAGE]
    start, start_clock = time, clock
    if before >= 0:
        at = start_column(shape, before, key, time)
        start, start_clock = key[at], key[at + 1]
        if start == LOWEST:
            return
    at = 2 * shape.n_slots + STAGED * last
    is_told = key[at + ARRIVED] == time  # what came earlier was told by the first one of this time
    note_stage(shape, stage, key, time, start, start_clock)
    if first >= 0:  # one of several in any order: what is whole now starts with the one that was reached first
        for other in range(first, last):
            at = 2 * shape.n_slots + STAGED * other
            start, start_clock = min(start, key[at + LATEST]), min(start_clock, key[at + LATEST_CLOCK])
        if start > LOWEST:
            note_stage(shape, last, key, time, start, start_clock)
        return
    if stage == last and shape.gaps[gap, GAP_POSITION] == shape.n_slots and not is_told:
        column = WAITING_FIELDS + shape.gaps[gap, GAP_TRAILING]
        number, kept = key[at + WAITING], NO_ENTRY
        while number >= head and entries[number - base, MOMENT] >= time:
            kept, number = number, entries[number - base, column]
        while number >= head:
            entries[number - base, FORBIDDEN] = min(entries[number - base, FORBIDDEN], clock)
            number = entries[number - base, column]
        if kept == NO_ENTRY:
            key[at + WAITING] = NO_ENTRY
        else:
            entries[kept - base, column] = NO_ENTRY


@kernel_part
def follow(key: Ints, at: int, time: int, number: int, entries: Ints, base: int, head: int) -> None:
    """Tell the entries that wait for a follower, and came earlier, that this is it."""
    other, kept = key[at], NO_ENTRY
    while other >= head and entries[other - base, MOMENT] >= time:
        kept, other = other, entries[other - base, AWAITS]
    while other >= head:
        entries[other - base, ACROSS] = number
        other = entries[other - base, AWAITS]
    if kept == NO_ENTRY:
        key[at] = NO_ENTRY
    else:
        entries[kept - base, AWAITS] = NO_ENTRY


@kernel_part
def allows(shape: ChainShape, slot: int, entries: Ints, base: int, chosen: Ints) -> bool:
    """Whether all clauses of a slot hold for the entries chosen so far."""
    for c in range(shape.at[slot], shape.at[slot + 1]):
        any_true = False
        for t in range(shape.bounds[c], shape.bounds[c + 1]):
            left = entries[chosen[shape.tests[t, 1]] - base, shape.values + shape.tests[t, 2]]
            right = entries[chosen[shape.tests[t, 3]] - base, shape.values + shape.tests[t, 4]]
            if left != NULL and right != NULL and compare(shape.tests[t, 0], left, right):
                any_true = True
                break
        if not any_true:
            return False
    return True


def new_walk(n_slots: int) -> Ints:
    """The cursor of a walk: at which end it is, at which slot, and the entry chosen for each."""
    return np.full(n_slots + 2, -1, np.int64)


@kernel
def walk_back(shape: ChainShape, entries: Ints, base: int, head: int, ends: Ints, cursor: Ints, out: Ints) -> int:
    """Fill `out` (n_slots, capacity) with the rows of the next matches that end with these entries; how many.

    It is over when the cursor is behind the ends.
    """
    top, capacity = shape.n_slots - 1, out.shape[1]
    chosen = cursor[2:]
    tested = len(shape.bounds) > 1
    at, slot = cursor[0], cursor[1]
    count, steps = 0, 0
    bound = LOWEST
    if slot >= 0:
        bound = earlier(entries[ends[at] - base, CLOCK], shape.window)
    while count < capacity and steps < STEPS:
        steps += 1
        if slot < 0:
            at += 1
            if at >= len(ends):
                break
            chosen[top] = ends[at]
            bound = earlier(entries[ends[at] - base, CLOCK], shape.window)
            if tested and not allows(shape, top, entries, base, chosen):
                continue
            if top == 0:
                if entries[ends[at] - base, BARRIER] <= bound:
                    out[0, count] = entries[ends[at] - base, ROW]
                    count += 1
                continue
            slot = top - 1
            chosen[slot] = entries[ends[at] - base, ACROSS]
        number, after = chosen[slot], entries[chosen[slot + 1] - base]
        if number < head or entries[number - base, MOMENT] < after[BARRIER] or entries[number - base, REACH] <= bound:
            slot += 1  # nor does any that came before it fit
            if slot == top:
                slot = -1
            else:
                chosen[slot] = entries[chosen[slot] - base, SAME]
            continue
        if tested and not allows(shape, slot, entries, base, chosen):
            chosen[slot] = entries[number - base, SAME]
            continue
        if slot > 0:
            slot -= 1
            chosen[slot] = entries[number - base, ACROSS]
            continue
        if entries[number - base, BARRIER] <= bound:
            for i in range(top + 1):
                out[i, count] = entries[chosen[i] - base, ROW]
            count += 1
        chosen[0] = entries[number - base, SAME]
    cursor[0], cursor[1] = at, slot
    return count


@kernel
def walk_on(shape: ChainShape, entries: Ints, base: int, starts: Ints, cursor: Ints, out: Ints) -> int:
    """The same for matches that begin with these entries, whose window is over."""
    top, capacity = shape.n_slots - 1, out.shape[1]
    chosen = cursor[2:]
    tested = len(shape.bounds) > 1
    at, slot = cursor[0], cursor[1]
    count, steps = 0, 0
    bound = HIGHEST
    if slot >= 0:
        bound = later(entries[starts[at] - base, CLOCK], shape.window)
    while count < capacity and steps < STEPS:
        steps += 1
        if slot < 0:
            at += 1
            if at >= len(starts):
                break
            first = entries[starts[at] - base]
            chosen[0] = starts[at]
            bound = later(first[CLOCK], shape.window)
            if tested and not allows(shape, 0, entries, base, chosen):
                continue
            if top == 0:
                if first[FORBIDDEN] >= bound and first[BARRIER] <= earlier(first[CLOCK], shape.window):
                    out[0, count] = first[ROW]
                    count += 1
                continue
            slot = 1
            chosen[1] = first[ACROSS]
        number = chosen[slot]
        if (
            number < 0
            or entries[number - base, BARRIER] > entries[chosen[slot - 1] - base, MOMENT]
            or completed(number, top - slot, entries, base) >= bound
        ):
            slot -= 1  # nor does any that came after it fit
            if slot == 0:
                slot = -1
            else:
                chosen[slot] = entries[chosen[slot] - base, SAME]
            continue
        if tested and not allows(shape, slot, entries, base, chosen):
            chosen[slot] = entries[number - base, SAME]
            continue
        if slot < top:
            slot += 1
            chosen[slot] = entries[number - base, ACROSS]
            continue
        last = entries[number - base]
        if last[FORBIDDEN] >= bound and entries[chosen[0] - base, BARRIER] <= earlier(last[CLOCK], shape.window):
            for i in range(top + 1):
                out[i, count] = entries[chosen[i] - base, ROW]
            count += 1
        chosen[top] = last[SAME]
    cursor[0], cursor[1] = at, slot
    return count


@kernel_part
def completed(number: int, n_more: int, entries: Ints, base: int) -> int:
    """The clock at which the sequence can be complete at the earliest; HIGHEST if its events did not come."""
    for _ in range(n_more):
        number = entries[number - base, ACROSS]
        if number < 0:
            return HIGHEST
    clock: int = entries[number - base, CLOCK]
    return clock


@kernel
def due_starts(entries: Ints, base: int, begin: int, end: int, upto: int, out: Ints) -> tuple[int, int]:
    """The entries of the first slot from `begin` on that came up to this clock: how many, and the first that did not."""
    count, number = 0, begin
    while number < end:
        if entries[number - base, SLOT] == 0:
            if entries[number - base, CLOCK] > upto:
                break
            out[count] = number
            count += 1
        number += 1
    return count, number


@kernel
def due_starts_of(asked: Ints, counts: Ints, window: int, entries: Ints, base: int, head: int, parts: Ints, out: Ints) -> int:
    """The same where each of the partitions asked for has a count of events, which must have reached the end of the window."""
    at, count = parts.shape[1] - 2, 0
    for part in asked:
        number = parts[part, at]
        while number >= head and later(entries[number - base, CLOCK], window) <= counts[part]:
            out[count] = number
            count += 1
            number = entries[number - base, DUE]
        parts[part, at] = number
    return count
