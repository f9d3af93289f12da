"""How counters go on: what leaves the window, what comes, and what is read, in the order of time.

    for every time      starts that have left make their lanes dirty          `pass_time`
                        maps are multiplied into their lanes, by rank         `multiply`, or `count_on_starts`
                        dirty lanes are brought into the trees                `flush`
                        samples are read                                      `sample`

Where a count would reach the limit up to which numbers are exact, the loop comes back before anything is written; it is called
again with wider numbers, and goes on where it stopped. So each of these steps is done whole, or not at all.

Cost: O(n) per map of a window product, amortised, and O(live starts of its lane) per map of per-start; O(log lanes) for every
change of a group of several lanes. None of it depends on the window.
Invariant: between two calls, the first double of every entry is below the limit of that time, so that every number is exact.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from seqube.engine.aggregates.counters import (
    BACK_STARTS,
    BLOCK,
    BLOCKED,
    CLOCK_NOW,
    DIRTY,
    DOMAIN_OF,
    FIRST_ROW,
    FIRST_WAITING,
    FLUSHED,
    FREE_ROWS,
    FREE_WAITING,
    FRESH,
    GROUP,
    GROUP_OF,
    IS_DIRTY,
    IS_FRESH,
    IS_OPEN,
    KIND,
    LANE,
    LAST_LEAVES,
    LAST_MAP,
    LEAF,
    LEAVES_AT,
    LINK,
    N_DIRTY,
    N_FRESH,
    N_GROUPS,
    N_OUT,
    N_STARTS,
    NEGATION_LEAVES,
    NEXT_LEAVES,
    NEXT_MAP,
    NEXT_SAMPLE,
    NEXT_TICK,
    NOW,
    OFFSET,
    ONE_LANE,
    RANK,
    START_LEAVES,
    WIDTH,
    Array,
    Counters,
    Exact,
    How,
    add,
    add_read,
    empty_back,
    fill_row,
    free_node,
    identity_matrix,
    join_row,
    multiplied,
    push_map,
    put,
    raise_entries,
    take_node,
    wait,
)
from seqube.engine.jit import inner_kernel, kernel
from seqube.engine.predicates import Ints
from seqube.engine.sequence import HIGHEST

ALL_TAKEN, TOO_NARROW, NO_MORE_ROOM = 0, 1, 2  # why a call came back

# Columns of what arrives: maps by (time, rank), all events where they are numbered (with room for the number), samples by time (of
# a group, or (-1) of all that have a match).
AT_TIME, OF_RANK, IN_LANE, OF_ROW = range(4)
AT_TICK, IN_DOMAIN, NUMBERED = range(3)
DUE_AT, OF_GROUP = range(2)


class Arrived(NamedTuple):
    maps: Ints
    weights: Array
    ticks: Ints
    samples: Ints


class Sampled(NamedTuple):
    """What was sampled, in the first N_OUT cells: when (DUE_AT) and of which group (OF_GROUP)."""

    cells: Ints
    values: Array


# ---------------------------------------------------------------- what leaves


@inner_kernel
def turn(c: Counters, lane: int, clock: int, how: How, exact: Exact) -> bool:
    """Multiply up the back of a lane from its end, and keep rows of its live starts; beyond the limit, False and nothing done."""
    auto, own, product, entries = how.auto, how.own, c.scratch, c.entries
    n = len(auto.before)
    identity_matrix(product, exact)
    first, node, fits = -1, c.lanes[lane, LAST_MAP], True
    while node >= 0 and fits:
        rank, until = c.maps[node, RANK], c.maps[node, LEAVES_AT]
        kept = auto.begins[rank] or (rank == how.leading and not own)
        if kept and until <= clock and not own:
            break  # this one has left, and so has all before it
        if kept:
            row = take_node(c.rows, c.at, FREE_ROWS)
            c.rows[row, LEAVES_AT], c.rows[row, LINK] = until, first
            first = row
            fill_row(entries[row], exact.zeros)
        for step in range(auto.firsts[rank + 1] - 1, auto.firsts[rank] - 1, -1):
            to, source = auto.tos[step], auto.sources[step]
            if source < 0:
                fill_row(product[to], exact.zeros)
                continue
            weights = c.weights[node] if auto.weighted[step] else exact.ones
            target = entries[first] if own and source == 0 else product[source]  # what this start has by itself
            raise_entries(target, product[to], weights, (auto.behind[to], n), exact.rings)
            for j in range(auto.behind[to], n):
                fits = fits and target[j, 0] <= exact.limit
        if kept and not own:
            for j in range(n):
                put(entries[first, j], product[0, j])
        node = c.maps[node, LINK]
    if not fits:
        while first >= 0:
            free_node(c.rows, c.at, FREE_ROWS, first)
            first = c.rows[first, LINK]
        return False
    c.lanes[lane, FIRST_ROW] = first
    empty_back(c.lanes, c.back, c.maps, c.at, lane, exact)
    return True


@inner_kernel
def read_back(c: Counters, lane: int, state: int, top: int, how: How, exact: Exact, room: Array) -> None:
    """The numbers of a state of a lane: from its oldest live start on, or (-1) in the back."""
    if top < 0:
        put(room, c.back[lane, state, 0])
    else:
        join_row(c.entries[top], c.back[lane, state], how.auto.before[state], exact, room)


@inner_kernel
def read_finals(c: Counters, lane: int, top: int, how: How, exact: Exact, room: Array) -> None:
    """The numbers of all ways that have come to their end."""
    final, n = how.auto.final, len(how.auto.before)
    if n - final == 1 and exact.reads[0].all():
        read_back(c, lane, final, top, how, exact, room)
        return
    found = c.scratch[0, 0]
    put(room, exact.zeros)
    for state in range(final, n):
        read_back(c, lane, state, top, how, exact, found)
        add_read(room, found, state - final, exact)


@inner_kernel
def leave_with_its_own(c: Counters, row: int, lane: int, how: How, exact: Exact, room: Array, starts: int | None) -> bool:
    """Add what a start has to the total of its group; beyond the limit, False and nothing done."""
    group = c.lanes[lane, GROUP_OF]
    if starts is None:
        read_finals(c, lane, row, how, exact, room)
    else:
        put(room, exact.zeros)
        for state in range(how.auto.final, len(how.auto.before)):
            add_read(room, c.entries[row, state], state - how.auto.final, exact)
    if not c.totals[group, 0] + room[0] <= exact.most:
        return False
    add(c.totals[group], room, exact.rings)
    return True


@inner_kernel
def expire(c: Counters, lane: int, clock: int, how: How, exact: Exact, room: Array, starts: int | None) -> bool:
    """Let go of the starts of a lane that have left; False where that has to wait for a wider limit."""
    lanes, rows = c.lanes, c.rows
    if starts is not None:
        if lanes[lane, NEXT_LEAVES] > clock:
            return True
        node, before = lanes[lane, FIRST_ROW], -1
        while node >= 0 and rows[node, LEAVES_AT] > clock:
            before, node = node, rows[node, LINK]
        while node >= 0:
            if how.own and not leave_with_its_own(c, node, lane, how, exact, room, starts):
                return False
            following = rows[node, LINK]
            if before >= 0:
                rows[before, LINK] = following
            else:
                lanes[lane, FIRST_ROW] = following
            free_node(rows, c.at, FREE_ROWS, node)
            node = following
        lanes[lane, NEXT_LEAVES] = rows[before, LEAVES_AT] if before >= 0 else HIGHEST
        return True
    while True:
        top = lanes[lane, FIRST_ROW]
        if top >= 0:
            if rows[top, LEAVES_AT] > clock:
                return True
            if how.own and not leave_with_its_own(c, top, lane, how, exact, room, starts):
                return False
            lanes[lane, FIRST_ROW] = rows[top, LINK]
            free_node(rows, c.at, FREE_ROWS, top)
        elif lanes[lane, N_STARTS] > 0 and lanes[lane, NEXT_LEAVES] <= clock:
            if not turn(c, lane, clock, how, exact):
                return False
        else:
            if lanes[lane, N_STARTS] == 0 and lanes[lane, LAST_MAP] >= 0:
                empty_back(lanes, c.back, c.maps, c.at, lane, exact)  # without a start, what is there matters to nobody
            return True


@inner_kernel
def mark_dirty(lanes: Ints, at: Ints, lane: int) -> None:
    if lanes[lane, IS_DIRTY] == 0:
        lanes[lane, IS_DIRTY] = 1
        lanes[at[N_DIRTY], DIRTY] = lane
        at[N_DIRTY] += 1


@kernel
def pass_time(c: Counters, domain: int, how: How, exact: Exact, room: Array, starts: int | None) -> bool:
    """Note which lanes change because something has left them; False where that has to wait for a wider limit."""
    queue = c.queue
    while (
        c.domains[domain, FIRST_WAITING] >= 0 and queue[c.domains[domain, FIRST_WAITING], LEAVES_AT] <= c.domains[domain, CLOCK_NOW]
    ):
        node = c.domains[domain, FIRST_WAITING]
        lane = queue[node, LANE]
        if queue[node, KIND] == NEGATION_LEAVES:
            if not expire(c, lane, queue[node, LEAVES_AT], how, exact, room, starts):
                return False
            if c.lanes[lane, FIRST_ROW] >= 0 or c.lanes[lane, N_STARTS] > 0:
                # A match looks back from its own end: those that ended before the negation left stay void.
                for state in range(how.auto.final, len(how.auto.before)):
                    fill_row(c.back[lane, state], exact.zeros)
                push_map(c.lanes, c.maps, c.weights, c.at, lane, 0, HIGHEST, exact.ones)
        if not how.single and not how.total:
            mark_dirty(c.lanes, c.at, lane)
        c.domains[domain, FIRST_WAITING] = queue[node, LINK]
        free_node(queue, c.at, FREE_WAITING, node)
    return True


# ---------------------------------------------------------------- what comes


@inner_kernel
def mark_fresh(groups: Ints, at: Ints, group: int) -> None:
    if groups[group, IS_FRESH] == 0:
        groups[group, IS_FRESH] = 1
        groups[at[N_FRESH], FRESH] = group
        at[N_FRESH] += 1


@inner_kernel
def multiply(c: Counters, batch: Arrived, k: int, until: int, how: How, exact: Exact, room: Array) -> bool:
    """Multiply a map into the back of its lane; beyond the limit, False and nothing done."""
    auto, lane, rank = how.auto, batch.maps[k, IN_LANE], batch.maps[k, OF_RANK]
    back, weights, top = c.back[lane], batch.weights[k], c.lanes[lane, FIRST_ROW]
    first, last = auto.firsts[rank], auto.firsts[rank + 1]
    for step in range(first, last):
        to, source = auto.tos[step], auto.sources[step]
        for j in range(auto.before[source] if source >= 0 else 0):
            if not back[to, j, 0] + (last - first) * back[source, j, 0] <= exact.limit:
                return False
    if auto.ends[rank] and (how.news or (how.total and not how.own)):
        group, found = c.lanes[lane, GROUP_OF], c.scratch[0, 0]
        put(room, exact.zeros)
        for step in range(first, last):
            to, source = auto.tos[step], auto.sources[step]
            if to >= auto.final and source >= 0:
                read_back(c, lane, source, top, how, exact, found)
                if auto.weighted[step]:
                    for t in range(len(found)):
                        found[t] = multiplied(found[t], weights[t], exact.rings[t])
                add_read(room, found, to - auto.final, exact)
        if not room[0] <= exact.most or (how.total and not c.totals[group, 0] + room[0] <= exact.most):
            return False
        if how.total:
            add(c.totals[group], room, exact.rings)
        if how.news and room[0] > 0.0:
            mark_fresh(c.groups, c.at, group)
    for step in range(first, last):
        to, source = auto.tos[step], auto.sources[step]
        if source < 0:
            fill_row(back[to], exact.zeros)
        else:
            factors = weights if auto.weighted[step] else exact.ones
            raise_entries(back[to], back[source], factors, (0, auto.before[source]), exact.rings)
    push_map(c.lanes, c.maps, c.weights, c.at, lane, rank, until, weights)
    if auto.begins[rank] or rank == how.leading:
        c.lanes[lane, NEXT_LEAVES] = min(c.lanes[lane, NEXT_LEAVES], until)
        c.lanes[lane, N_STARTS] += 1
        c.at[BACK_STARTS] += 1
    return True


@inner_kernel
def fits_on_start(c: Counters, node: int, rank: int, clock: int, how: How, exact: Exact) -> float:
    """How many ways of a live start a map ends; infinitely many where a counter of it would go beyond the limit."""
    auto, entries, fresh = how.auto, c.entries, 0.0
    first, last = auto.firsts[rank], auto.firsts[rank + 1]
    for step in range(first, last):
        to, source = auto.tos[step], auto.sources[step]
        if source <= 0 or (to >= auto.final and c.rows[node, BLOCKED] > clock):
            continue
        if not entries[node, to, 0] + (last - first) * entries[node, source, 0] <= exact.limit:
            return np.inf
        if to >= auto.final:
            fresh += entries[node, source, 0]
    return fresh


@inner_kernel
def count_on_starts(c: Counters, batch: Arrived, k: int, clock: int, until: int, how: How, exact: Exact, room: Array) -> bool:
    """Update the counters of all live starts of a lane by a map; beyond the limit, False and nothing done."""
    auto, lanes, rows, entries = how.auto, c.lanes, c.rows, c.entries
    lane, rank = batch.maps[k, IN_LANE], batch.maps[k, OF_RANK]
    group = lanes[lane, GROUP_OF]
    if rank == how.leading:
        lanes[lane, BLOCK] = max(lanes[lane, BLOCK], until)
        return True
    begins, ends, goes_on, fresh = auto.begins[rank], auto.ends[rank], False, 0.0
    for step in range(auto.firsts[rank], auto.firsts[rank + 1]):  # a start counts on itself alone
        goes_on = goes_on or auto.sources[step] != 0
        if auto.sources[step] == 0 and auto.tos[step] >= auto.final and not lanes[lane, BLOCK] > clock:
            fresh += 1.0
    node = lanes[lane, FIRST_ROW] if goes_on else -1
    while node >= 0:  # look before anything is written
        fresh += fits_on_start(c, node, rank, clock, how, exact)
        node = rows[node, LINK]
    counts = ends and how.total and not how.own
    if not fresh <= exact.most or (counts and not c.totals[group, 0] + fresh <= exact.most):
        return False
    new = -1
    if begins:
        new = take_node(rows, c.at, FREE_ROWS)
        fill_row(entries[new], exact.zeros)
        put(entries[new, 0], exact.ones)
        rows[new, LEAVES_AT], rows[new, LINK], rows[new, BLOCKED] = until, lanes[lane, FIRST_ROW], lanes[lane, BLOCK]
        if lanes[lane, FIRST_ROW] < 0:
            lanes[lane, NEXT_LEAVES] = until
        lanes[lane, FIRST_ROW] = new
    if ends and how.news and fresh > 0.0:
        mark_fresh(c.groups, c.at, group)
    node = lanes[lane, FIRST_ROW]
    while node >= 0:
        for step in range(auto.firsts[rank], auto.firsts[rank + 1]):
            to, source = auto.tos[step], auto.sources[step]
            if source < 0:
                put(entries[node, to], exact.zeros)
                continue
            if (source == 0) != (node == new) or (to >= auto.final and rows[node, BLOCKED] > clock):
                continue
            put(room, entries[node, source])
            if auto.weighted[step]:
                for t in range(len(room)):
                    room[t] = multiplied(room[t], batch.weights[k, t], exact.rings[t])
            add(entries[node, to], room, exact.rings)
            if counts and to >= auto.final:
                add_read(c.totals[group], room, to - auto.final, exact)
        node = rows[node, LINK] if goes_on else -1
    return True


# ---------------------------------------------------------------- what is read


@inner_kernel
def read(c: Counters, lane: int, how: How, exact: Exact, room: Array, starts: int | None) -> Any:
    """The value of a lane now; False where that has to wait for a wider limit."""
    if not expire(c, lane, c.domains[c.lanes[lane, DOMAIN_OF], CLOCK_NOW], how, exact, room, starts):
        return False
    if starts is None:
        read_finals(c, lane, c.lanes[lane, FIRST_ROW], how, exact, room)
    else:
        put(room, exact.zeros)
        node = c.lanes[lane, FIRST_ROW]
        while node >= 0:
            for state in range(how.auto.final, len(how.auto.before)):
                add_read(room, c.entries[node, state], state - how.auto.final, exact)
            node = c.rows[node, LINK]
    return room[0] <= exact.most


@inner_kernel
def flush(c: Counters, how: How, exact: Exact, room: Array, starts: int | None) -> bool:
    """Bring the trees up to date with the lanes that changed; False where that has to wait for a wider limit."""
    trees, at = c.trees, c.at
    while at[FLUSHED] < at[N_DIRTY]:
        lane = c.lanes[at[FLUSHED], DIRTY]
        if not read(c, lane, how, exact, room, starts):
            return False
        group = c.lanes[lane, GROUP_OF]
        offset, node = c.groups[group, OFFSET], c.groups[group, WIDTH] + c.lanes[lane, LEAF]
        above, count = node, room[0]
        while above > 1:
            count += trees[offset + (above ^ 1), 0]
            above //= 2
        if not count <= exact.most:
            return False
        put(trees[offset + node], room)
        while node > 1:
            node //= 2
            put(trees[offset + node], trees[offset + 2 * node])
            add(trees[offset + node], trees[offset + 2 * node + 1], exact.rings)
        c.lanes[lane, IS_DIRTY] = 0
        at[FLUSHED] += 1
    at[FLUSHED] = at[N_DIRTY] = 0
    return True


@inner_kernel
def sample(c: Counters, group: int, how: How, exact: Exact, room: Array, starts: int | None) -> Any:
    """The value of a group now; False where that has to wait for a wider limit."""
    if how.single and c.groups[group, ONE_LANE] >= 0:
        return read(c, c.groups[group, ONE_LANE], how, exact, room, starts)
    put(room, exact.zeros)
    if not how.single and c.groups[group, WIDTH] > 0:
        put(room, c.trees[c.groups[group, OFFSET] + 1])
    return True


@inner_kernel
def take_map(c: Counters, batch: Arrived, k: int, how: How, exact: Exact, room: Array, starts: int | None) -> bool:
    lane, rank, now = batch.maps[k, IN_LANE], batch.maps[k, OF_RANK], batch.maps[k, AT_TIME]
    domain, begins, leads = c.lanes[lane, DOMAIN_OF], how.auto.begins[rank], rank == how.leading
    born = batch.ticks[batch.maps[k, OF_ROW], NUMBERED] if how.by_position else now
    # In a total, an end looks back from its own number, not from that of the last event of its time.
    clock = born if how.total else c.domains[domain, CLOCK_NOW]
    until = born + how.window if born <= HIGHEST - how.window else HIGHEST
    if not expire(c, lane, clock, how, exact, room, starts):
        return False
    if not (begins or leads) and c.lanes[lane, FIRST_ROW] < 0 and c.lanes[lane, N_STARTS] == 0:
        return True  # nobody to count on
    if starts is not None:
        if not count_on_starts(c, batch, k, clock, until, how, exact, room):
            return False
    elif not multiply(c, batch, k, until, how, exact, room):
        return False
    if how.auto.changes[rank] and not how.single and not how.total:
        mark_dirty(c.lanes, c.at, lane)
    if begins or leads:
        c.lanes[lane, LAST_LEAVES] = max(c.lanes[lane, LAST_LEAVES], until)
    if begins and not how.single and not how.total:
        wait(c.queue, c.domains, c.at, domain, until, lane, START_LEAVES)
    elif leads and starts is None:
        wait(c.queue, c.domains, c.at, domain, until, lane, NEGATION_LEAVES)
    return True


@kernel
def go_on(c: Counters, batch: Arrived, how: How, exact: Exact, room: Array, starts: int | None, out: Sampled) -> int:
    """Take what is new, and fill the cells that are due, in the order of time; why it came back. Called again, it goes on."""
    at, maps, ticks, samples = c.at, batch.maps, batch.ticks, batch.samples
    while True:
        if at[IS_OPEN] == 0:
            now, is_over = HIGHEST, True
            if at[NEXT_MAP] < len(maps):
                now, is_over = maps[at[NEXT_MAP], AT_TIME], False
            if at[NEXT_SAMPLE] < len(samples):
                now, is_over = min(now, samples[at[NEXT_SAMPLE], DUE_AT]), False
            if at[NEXT_TICK] < len(ticks):
                now, is_over = min(now, ticks[at[NEXT_TICK], AT_TICK]), False
            if is_over:
                return ALL_TAKEN
            at[IS_OPEN], at[NOW] = 1, now
            if not how.by_position:
                c.domains[0, CLOCK_NOW] = now
        now = at[NOW]
        while at[NEXT_TICK] < len(ticks) and ticks[at[NEXT_TICK], AT_TICK] == now:
            domain = ticks[at[NEXT_TICK], IN_DOMAIN]
            if domain >= 0:
                c.domains[domain, CLOCK_NOW] += 1
                ticks[at[NEXT_TICK], NUMBERED] = c.domains[domain, CLOCK_NOW]
                pass_time(c, domain, how, exact, room, starts)  # no leading negation looks back over events
            at[NEXT_TICK] += 1
        if not how.by_position and not pass_time(c, 0, how, exact, room, starts):
            return TOO_NARROW
        while at[NEXT_MAP] < len(maps) and maps[at[NEXT_MAP], AT_TIME] == now:
            if not take_map(c, batch, at[NEXT_MAP], how, exact, room, starts):
                return TOO_NARROW
            at[NEXT_MAP] += 1
        is_due = at[NEXT_SAMPLE] < len(samples) and samples[at[NEXT_SAMPLE], DUE_AT] == now
        while at[N_FRESH] > 0 and (is_due or not how.total):
            group = c.groups[at[N_FRESH] - 1, FRESH]
            if at[N_OUT] == len(out.cells):
                return NO_MORE_ROOM
            if how.total:
                put(room, c.totals[group])
                put(c.totals[group], exact.zeros)
            elif not flush(c, how, exact, room, starts) or not sample(c, group, how, exact, room, starts):
                return TOO_NARROW
            out.cells[at[N_OUT], DUE_AT], out.cells[at[N_OUT], OF_GROUP] = now, group
            put(out.values[at[N_OUT]], room)
            c.groups[group, IS_FRESH] = 0
            at[N_OUT] += 1
            at[N_FRESH] -= 1
        if how.total:
            at[NEXT_SAMPLE] += is_due
        while at[NEXT_SAMPLE] < len(samples) and samples[at[NEXT_SAMPLE], DUE_AT] == now:
            if not flush(c, how, exact, room, starts):
                return TOO_NARROW
            one = samples[at[NEXT_SAMPLE], OF_GROUP]
            while at[GROUP] < (1 if one >= 0 else at[N_GROUPS]):
                group = one if one >= 0 else at[GROUP]
                if at[N_OUT] == len(out.cells):
                    return NO_MORE_ROOM
                if not sample(c, group, how, exact, room, starts):
                    return TOO_NARROW
                if one >= 0 or room[0] > 0.0:
                    out.cells[at[N_OUT], DUE_AT], out.cells[at[N_OUT], OF_GROUP] = now, group
                    put(out.values[at[N_OUT]], room)
                    at[N_OUT] += 1
                at[GROUP] += 1
            at[GROUP] = 0
            at[NEXT_SAMPLE] += 1
        at[IS_OPEN] = 0


@kernel
def leave(c: Counters, chosen: Ints, upto: int, how: How, exact: Exact, room: Array, starts: int | None) -> bool:
    """Let go of all that leaves these lanes up to a time; False where that has to wait for a wider limit."""
    for lane in chosen:  # noqa: SIM110 - Numba knows no generators here
        if not expire(c, lane, upto, how, exact, room, starts):
            return False
    return True
