"""How counters go on: what leaves the window, what comes, and what is read, in the order of time.

    for every time      starts that have left make their lanes dirty          `pass_time`
                        maps are multiplied into their lanes, by rank         `multiply`, or `count_on_starts`
                        dirty lanes are brought into the trees                `flush`
                        samples are read                                      `sample`

Where a count would reach the limit up to which numbers are exact, the loop comes back before anything is written; it is called
again with wider numbers, and goes on where it stopped. So each of these steps is done whole, or not at all.

The strategy is the argument that is not None: `starts` of per-start, `products` of a window product. Numba compiles nothing that
hangs on an argument that is None, so each strategy is compiled alone, in less time.

Cost: O(n) per map of a window product, amortised, and O(live starts of its lane) per map of per-start; O(log lanes) for every
change of a group of several lanes. None of it depends on the window.
Invariant: between two calls, the first double of every entry is below the limit of that time, so that every number is exact.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

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

Chosen: TypeAlias = int | None  # 1 where it is this strategy

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
    n, own, product, entries = how.n_slots, how.own, c.scratch, c.entries
    identity_matrix(product, exact)
    first, node, fits = -1, c.lanes[lane, LAST_MAP], True
    while node >= 0 and fits:
        rank, until = c.maps[node, RANK], c.maps[node, LEAVES_AT]
        slot = n - 1 - (rank >> 1) if rank & 1 else -1
        position = -1 if rank & 1 else n - (rank >> 1)
        if until <= clock and not own and (slot == 0 or position == 0):
            break  # this one has left, and so has all before it
        if slot > 0 or (slot == 0 and not own):
            raise_entries(product[slot], product[slot + 1], c.weights[node], slot + 1, n + 1, exact.rings)
            for j in range(slot + 1, n + 1):
                fits = fits and product[slot, j, 0] < exact.limit
        elif slot < 0:
            fill_row(product[position], exact.zeros)
        if slot == 0 or (position == 0 and not own):
            row = take_node(c.rows, c.at, FREE_ROWS)
            c.rows[row, LEAVES_AT], c.rows[row, LINK] = until, first
            first = row
            if own:  # what this start has by itself
                fill_row(entries[row], exact.zeros)
                raise_entries(entries[row], product[1], c.weights[node], 1, n + 1, exact.rings)
            else:
                for j in range(n + 1):
                    put(entries[row, j], product[0, j])
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
def leave_with_its_own(
    c: Counters, row: int, lane: int, how: How, exact: Exact, room: Array, starts: Chosen, products: Chosen
) -> bool:
    """Add what a start has to the total of its group; beyond the limit, False and nothing done."""
    n, group, entries = how.n_slots, c.lanes[lane, GROUP_OF], c.entries
    if products is not None:
        join_row(entries[row], c.back[lane, n], 1, n + 1, exact, room)
    if starts is not None:
        put(room, entries[row, n])
    if not c.totals[group, 0] + room[0] < exact.limit:
        return False
    add(c.totals[group], room, exact.rings)
    return True


@inner_kernel
def expire(c: Counters, lane: int, clock: int, how: How, exact: Exact, room: Array, starts: Chosen, products: Chosen) -> bool:
    """Let go of the starts of a lane that have left; False where that has to wait for a wider limit."""
    lanes, rows = c.lanes, c.rows
    if starts is not None:
        if lanes[lane, NEXT_LEAVES] > clock:
            return True
        node, before = lanes[lane, FIRST_ROW], -1
        while node >= 0 and rows[node, LEAVES_AT] > clock:
            before, node = node, rows[node, LINK]
        while node >= 0:
            if how.own and not leave_with_its_own(c, node, lane, how, exact, room, starts, products):
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
    if products is not None:
        while True:
            top = lanes[lane, FIRST_ROW]
            if top >= 0:
                if rows[top, LEAVES_AT] > clock:
                    return True
                if how.own and not leave_with_its_own(c, top, lane, how, exact, room, starts, products):
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
    return True


@inner_kernel
def mark_dirty(lanes: Ints, at: Ints, lane: int) -> None:
    if lanes[lane, IS_DIRTY] == 0:
        lanes[lane, IS_DIRTY] = 1
        lanes[at[N_DIRTY], DIRTY] = lane
        at[N_DIRTY] += 1


@kernel
def pass_time(c: Counters, domain: int | np.int64, how: How, exact: Exact, room: Array, starts: Chosen, products: Chosen) -> bool:
    """Note which lanes change because something has left them; False where that has to wait for a wider limit."""
    queue, n = c.queue, how.n_slots
    while (
        c.domains[domain, FIRST_WAITING] >= 0 and queue[c.domains[domain, FIRST_WAITING], LEAVES_AT] <= c.domains[domain, CLOCK_NOW]
    ):
        node = c.domains[domain, FIRST_WAITING]
        lane = queue[node, LANE]
        if queue[node, KIND] == NEGATION_LEAVES:
            if not expire(c, lane, queue[node, LEAVES_AT], how, exact, room, starts, products):
                return False
            if c.lanes[lane, FIRST_ROW] >= 0 or c.lanes[lane, N_STARTS] > 0:
                # A match looks back from its own end: those that ended before the negation left stay void.
                fill_row(c.back[lane, n], exact.zeros)
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
def read_back(column: Array, entries: Array, top: int, position: int, exact: Exact, room: Array) -> None:
    """The numbers of all ways to fill the slots up to a position, in a product."""
    if top < 0:
        put(room, column[0])
    else:
        join_row(entries[top], column, 0, position + 1, exact, room)


@inner_kernel
def multiply(c: Counters, batch: Arrived, k: int, until: int, how: How, exact: Exact, room: Array) -> bool:
    """Multiply a map into the back of its lane; beyond the limit, False and nothing done."""
    n = how.n_slots
    lane, rank = batch.maps[k, IN_LANE], batch.maps[k, OF_RANK]
    back, weights = c.back[lane], batch.weights[k]
    if rank & 1:
        slot = n - 1 - (rank >> 1)
        for j in range(slot + 1):
            if not back[slot + 1, j, 0] + back[slot, j, 0] < exact.limit:
                return False
        if rank == 1 and (how.news or (how.total and not how.own)):
            group = c.lanes[lane, GROUP_OF]
            read_back(back[slot], c.entries, c.lanes[lane, FIRST_ROW], slot, exact, room)
            if not room[0] < exact.limit or (how.total and not c.totals[group, 0] + room[0] < exact.limit):
                return False
            if how.total:
                for t in range(len(room)):
                    room[t] = multiplied(room[t], weights[t], exact.rings[t])
                add(c.totals[group], room, exact.rings)
            if how.news and room[0] > 0.0:
                mark_fresh(c.groups, c.at, group)
        raise_entries(back[slot + 1], back[slot], weights, 0, slot + 1, exact.rings)
    else:
        position = n - (rank >> 1)
        fill_row(back[position], exact.zeros)
    push_map(c.lanes, c.maps, c.weights, c.at, lane, rank, until, weights)
    if rank >= 2 * n - 1:
        c.lanes[lane, NEXT_LEAVES] = min(c.lanes[lane, NEXT_LEAVES], until)
        c.lanes[lane, N_STARTS] += 1
        c.at[BACK_STARTS] += 1
    return True


@inner_kernel
def count_on_starts(c: Counters, batch: Arrived, k: int, clock: int, until: int, how: How, exact: Exact, room: Array) -> bool:
    """Update the counters of all live starts of a lane by a map; beyond the limit, False and nothing done."""
    n, lanes, rows, entries = how.n_slots, c.lanes, c.rows, c.entries
    lane, rank = batch.maps[k, IN_LANE], batch.maps[k, OF_RANK]
    group = lanes[lane, GROUP_OF]
    if rank & 1 == 0:
        position, node = n - (rank >> 1), lanes[lane, FIRST_ROW]
        if position == 0:
            lanes[lane, BLOCK] = max(lanes[lane, BLOCK], until)
            return True
        while node >= 0:
            put(entries[node, position], exact.zeros)
            node = rows[node, LINK]
        return True
    slot = n - 1 - (rank >> 1)
    ends = rank == 1
    fresh, node = 0.0, lanes[lane, FIRST_ROW]
    if slot == 0:  # a start counts on itself alone
        fresh, node = 0.0 if ends and lanes[lane, BLOCK] > clock else 1.0, -1
    while node >= 0:  # look before anything is written
        if not (ends and rows[node, BLOCKED] > clock):
            fresh += entries[node, slot, 0]
            if not entries[node, slot + 1, 0] + entries[node, slot, 0] < exact.limit:
                return False
        node = rows[node, LINK]
    counts = ends and how.total and not how.own
    if not fresh < exact.limit or (counts and not c.totals[group, 0] + fresh < exact.limit):
        return False
    if slot == 0:
        node = take_node(rows, c.at, FREE_ROWS)
        fill_row(entries[node], exact.zeros)
        put(entries[node, 0], exact.ones)
        rows[node, LEAVES_AT], rows[node, LINK], rows[node, BLOCKED] = until, lanes[lane, FIRST_ROW], lanes[lane, BLOCK]
        if lanes[lane, FIRST_ROW] < 0:
            lanes[lane, NEXT_LEAVES] = until
        lanes[lane, FIRST_ROW] = node
    if ends and how.news and fresh > 0.0:
        mark_fresh(c.groups, c.at, group)
    node = lanes[lane, FIRST_ROW]
    while node >= 0:
        if not (ends and rows[node, BLOCKED] > clock):
            for t in range(len(room)):
                room[t] = multiplied(entries[node, slot, t], batch.weights[k, t], exact.rings[t])
            add(entries[node, slot + 1], room, exact.rings)
            if counts:
                add(c.totals[group], room, exact.rings)
        node = -1 if slot == 0 else rows[node, LINK]
    return True


# ---------------------------------------------------------------- what is read


@inner_kernel
def read(c: Counters, lane: int, how: How, exact: Exact, room: Array, starts: Chosen, products: Chosen) -> Any:
    """The value of a lane now; False where that has to wait for a wider limit."""
    if not expire(c, lane, c.domains[c.lanes[lane, DOMAIN_OF], CLOCK_NOW], how, exact, room, starts, products):
        return False
    if products is not None:
        n = how.n_slots
        read_back(c.back[lane, n], c.entries, c.lanes[lane, FIRST_ROW], n, exact, room)
    if starts is not None:
        put(room, exact.zeros)
        node = c.lanes[lane, FIRST_ROW]
        while node >= 0:
            add(room, c.entries[node, how.n_slots], exact.rings)
            node = c.rows[node, LINK]
    return room[0] < exact.limit


@inner_kernel
def flush(c: Counters, how: How, exact: Exact, room: Array, starts: Chosen, products: Chosen) -> bool:
    """Bring the trees up to date with the lanes that changed; False where that has to wait for a wider limit."""
    trees, at = c.trees, c.at
    while at[FLUSHED] < at[N_DIRTY]:
        lane = c.lanes[at[FLUSHED], DIRTY]
        if not read(c, lane, how, exact, room, starts, products):
            return False
        group = c.lanes[lane, GROUP_OF]
        offset, node = c.groups[group, OFFSET], c.groups[group, WIDTH] + c.lanes[lane, LEAF]
        above, count = node, room[0]
        while above > 1:
            count += trees[offset + (above ^ 1), 0]
            above //= 2
        if not count < exact.limit:
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
def sample(c: Counters, group: int, how: How, exact: Exact, room: Array, starts: Chosen, products: Chosen) -> Any:
    """The value of a group now; False where that has to wait for a wider limit."""
    if how.single and c.groups[group, ONE_LANE] >= 0:
        return read(c, c.groups[group, ONE_LANE], how, exact, room, starts, products)
    put(room, exact.zeros)
    if not how.single and c.groups[group, WIDTH] > 0:
        put(room, c.trees[c.groups[group, OFFSET] + 1])
    return True


@inner_kernel
def take_map(c: Counters, batch: Arrived, k: int, how: How, exact: Exact, room: Array, starts: Chosen, products: Chosen) -> bool:
    lane, rank, now = batch.maps[k, IN_LANE], batch.maps[k, OF_RANK], batch.maps[k, AT_TIME]
    domain, start_rank = c.lanes[lane, DOMAIN_OF], 2 * how.n_slots - 1
    born = batch.ticks[batch.maps[k, OF_ROW], NUMBERED] if how.by_position else now
    # In a total, an end looks back from its own number, not from that of the last event of its time.
    clock = born if how.total else c.domains[domain, CLOCK_NOW]
    until = born + how.window if born <= HIGHEST - how.window else HIGHEST
    if not expire(c, lane, clock, how, exact, room, starts, products):
        return False
    if rank < start_rank and c.lanes[lane, FIRST_ROW] < 0 and c.lanes[lane, N_STARTS] == 0:
        return True  # nobody to count on
    if starts is not None:  # noqa: SIM102 - Numba leaves out what hangs on a name alone
        if not count_on_starts(c, batch, k, clock, until, how, exact, room):
            return False
    if products is not None:  # noqa: SIM102
        if not multiply(c, batch, k, until, how, exact, room):
            return False
    if rank <= 1 and not how.single and not how.total:
        mark_dirty(c.lanes, c.at, lane)
    if rank >= start_rank:
        c.lanes[lane, LAST_LEAVES] = max(c.lanes[lane, LAST_LEAVES], until)
    if rank == start_rank and not how.single and not how.total:
        wait(c.queue, c.domains, c.at, domain, until, lane, START_LEAVES)
    elif rank > start_rank and starts is None:
        wait(c.queue, c.domains, c.at, domain, until, lane, NEGATION_LEAVES)
    return True


@kernel
def go_on(c: Counters, batch: Arrived, how: How, exact: Exact, room: Array, starts: Chosen, products: Chosen, out: Sampled) -> int:
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
                pass_time(c, domain, how, exact, room, starts, products)  # no leading negation looks back over events
            at[NEXT_TICK] += 1
        if not how.by_position and not pass_time(c, np.int64(0), how, exact, room, starts, products):
            return TOO_NARROW
        while at[NEXT_MAP] < len(maps) and maps[at[NEXT_MAP], AT_TIME] == now:
            if not take_map(c, batch, at[NEXT_MAP], how, exact, room, starts, products):
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
            elif not flush(c, how, exact, room, starts, products) or not sample(c, group, how, exact, room, starts, products):
                return TOO_NARROW
            out.cells[at[N_OUT], DUE_AT], out.cells[at[N_OUT], OF_GROUP] = now, group
            put(out.values[at[N_OUT]], room)
            c.groups[group, IS_FRESH] = 0
            at[N_OUT] += 1
            at[N_FRESH] -= 1
        if how.total:
            at[NEXT_SAMPLE] += is_due
        while at[NEXT_SAMPLE] < len(samples) and samples[at[NEXT_SAMPLE], DUE_AT] == now:
            if not flush(c, how, exact, room, starts, products):
                return TOO_NARROW
            one = samples[at[NEXT_SAMPLE], OF_GROUP]
            while at[GROUP] < (1 if one >= 0 else at[N_GROUPS]):
                group = one if one >= 0 else at[GROUP]
                if at[N_OUT] == len(out.cells):
                    return NO_MORE_ROOM
                if not sample(c, group, how, exact, room, starts, products):
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
def leave(c: Counters, chosen: Ints, upto: int, how: How, exact: Exact, room: Array, starts: Chosen, products: Chosen) -> bool:
    """Let go of all that leaves these lanes up to a time; False where that has to wait for a wider limit."""
    for lane in chosen:  # noqa: SIM110 - Numba knows no generators here
        if not expire(c, lane, upto, how, exact, room, starts, products):
            return False
    return True
