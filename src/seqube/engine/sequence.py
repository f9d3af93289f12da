"""SEQ as array stacks: one sorted array of instances per slot, joined by pointers, enumerated from the last slot to the first.

Linking (`link`) walks the slots once from left to right. For every instance it notes the range of instances in the slot before
it that may precede it: those that end before it starts (`high`), and that no forbidden instance lies behind (`low`, from the
barrier: the latest start of a forbidden instance that ends before this one starts). An instance with an empty range is dropped
at once. `reach` is the latest start of any chain that ends here or earlier in the stack: since it never falls, a binary search
tells where chains still lie in a window, and no dead branch is ever walked.

    A1   A2   B3   A4   B5          low high reach      window 3: for B5, chains must start after 2
    stack A: A1 A2 A4               B3:  A1..A2    2
    stack B: B3 B5                  B5:  A1..A4    4    -> only A4

Enumeration (`enumerate_matches`) is a resumable depth-first walk over these ranges; it fills a buffer and returns, so memory
does not depend on the number of matches. Keys cost nothing here: instances are sorted by (key, time) and ranges never leave
their key.

Cost: linear in the instances, plus the matches; with clauses, plus the chains that fail them. Invariant: within a slot and key,
instances ascend by end (time and clock alike). Bounds are exclusive; `-inf` and `+inf` are the ends of the 64-bit range, which
no event has as its time.

    Paper (stack-based SEQ)            | Here
    active instance stack of type Ei   | slot i: instances offsets[i] .. offsets[i] + sizes[i]
    most recent instance pointer (RIP) | high
    sequence construction              | enumerate_matches
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from seqube.engine.jit import inner_kernel, kernel, kernel_part
from seqube.engine.predicates import NULL, Ints, Mask

LOWEST = np.iinfo(np.int64).min
HIGHEST = np.iinfo(np.int64).max

OPS = {"=": 0, "!=": 1, "<": 2, "<=": 3, ">": 4, ">=": 5}


class Stacks(NamedTuple):
    """The instances of all slots behind each other; slot i begins at `offsets[i]`. Times order, clocks measure the window.

    Where they are single events, starts are ends, and firsts lasts: the same arrays, which nobody writes to.
    """

    offsets: Ints
    groups: Ints  # (n_groups + 1, n_slots): where each key begins in each slot
    starts: Ints
    ends: Ints
    firsts: Ints  # clock of the first event
    lasts: Ints  # clock of the last event
    barriers: Ints  # slot i > 0: the predecessor must not end before this; slot 0: clock that the window must not reach back to
    limits: Ints  # last slot: the match must not have begun after this clock (a trailing negation); elsewhere unused
    ids: Ints  # what is written out for the instance


class Clauses(NamedTuple):
    """Tests inside the loop. Clause c is `tests[bounds[c]] .. tests[bounds[c + 1] - 1]`, true if any of them is."""

    at: Ints  # n_slots + 1: clauses at[i] .. at[i + 1] - 1 are checked when slot i has been chosen
    bounds: Ints
    tests: Ints  # (n_tests, 5): op, left slot, left base, right slot, right base
    values: Ints  # values[base + number of the instance in its slot]


class Links(NamedTuple):
    """The instances that remain, each with its predecessors; those of slot i begin at `offsets[i]`, as before.

    `origins` numbers an instance within its slot as it was given, before any were dropped. `barriers` and `limits` are empty where
    nothing was forbidden. `plain`: starts of chains ascend and no negation stands before them, so that whatever is in reach lies in
    the window.
    """

    offsets: Ints
    groups: Ints
    firsts: Ints
    lasts: Ints
    barriers: Ints
    limits: Ints
    ids: Ints
    sizes: Ints  # instances of each slot that remain
    low: Ints
    high: Ints
    reach: Ints
    origins: Ints
    plain: bool


def link(stacks: Stacks, window: int) -> Links:
    """Find the predecessors of all instances, and leave out those at which no chain ends that lies inside the window."""
    return link_slots(stacks, stacks.firsts is stacks.lasts, stacks.ends is stacks.lasts, len(stacks.barriers) > 0, window)


@kernel
def link_slots(stacks: Stacks, single: bool, one_clock: bool, guarded: bool, window: int) -> Links:
    """`single`: all are single events. `one_clock`: times are clocks. `guarded`: something was forbidden."""
    offsets, starts, ends, clocks = stacks.offsets, stacks.starts, stacks.ends, stacks.lasts
    n_groups, n_slots, size = stacks.groups.shape[0] - 1, stacks.groups.shape[1], len(starts)
    groups, sizes = np.empty_like(stacks.groups), np.empty(n_slots, np.int64)
    # There is room for all; the pages of what is left out are never touched.
    low, high, reach, origins = (
        np.empty(size, np.int64),
        np.empty(size, np.int64),
        np.empty(size, np.int64),
        np.empty(size, np.int64),
    )
    lasts, ids = np.empty(size, np.int64), np.empty(size, np.int64)
    firsts, ended = lasts if single else np.empty(size, np.int64), lasts if one_clock else np.empty(size, np.int64)
    barriers, limits = np.empty(size if guarded else 0, np.int64), np.empty(size if guarded else 0, np.int64)
    plain = True
    for i in range(n_slots):
        write = offsets[i]
        for g in range(n_groups):
            groups[g, i] = write - offsets[i]
            left, right = 0, 0
            if i > 0:
                left, right = offsets[i - 1] + groups[g, i - 1], offsets[i - 1] + groups[g + 1, i - 1]
                if left == right:
                    continue
            best, pointer, floor = LOWEST, left, left
            for j in range(offsets[i] + stacks.groups[g, i], offsets[i] + stacks.groups[g + 1, i]):
                latest = stacks.firsts[j]
                if i > 0:
                    # Starts of composite instances do not ascend with their ends, so both pointers may have to move back.
                    while pointer < right and ended[pointer] < starts[j]:
                        pointer += 1
                    while pointer > left and ended[pointer - 1] >= starts[j]:
                        pointer -= 1
                    if guarded:
                        while floor < right and ended[floor] < stacks.barriers[j]:
                            floor += 1
                        while floor > left and ended[floor - 1] >= stacks.barriers[j]:
                            floor -= 1
                    if floor >= pointer:
                        continue
                    latest = reach[pointer - 1]
                if clocks[j] >= LOWEST + window and latest <= clocks[j] - window:
                    continue
                if i == 0:
                    plain = plain and latest >= best and (not guarded or stacks.barriers[j] == LOWEST)
                best = max(best, latest)
                low[write], high[write], reach[write], origins[write] = floor, pointer, best, j - offsets[i]
                lasts[write], ids[write] = clocks[j], stacks.ids[j]
                if not single:
                    firsts[write] = stacks.firsts[j]
                if not one_clock:
                    ended[write] = ends[j]
                if guarded:
                    barriers[write], limits[write] = stacks.barriers[j], stacks.limits[j]
                write += 1
        groups[n_groups, i] = sizes[i] = write - offsets[i]
    return Links(offsets, groups, firsts, lasts, barriers, limits, ids, sizes, low, high, reach, origins, plain)


@kernel_part
def compare(op: int, left: int, right: int) -> bool:
    """Whether a comparison holds; `op` is its number in `OPS`."""
    if op == 0:
        return left == right
    if op == 1:
        return left != right
    if op == 2:
        return left < right
    if op == 3:
        return left <= right
    if op == 4:
        return left > right
    return left >= right


@inner_kernel
def holds(clauses: Clauses, slot: int, chosen: Ints) -> bool:
    """Whether all clauses of `slot` hold; `chosen[i]` is the number of the instance within slot i."""
    for c in range(clauses.at[slot], clauses.at[slot + 1]):
        any_true = False
        for t in range(clauses.bounds[c], clauses.bounds[c + 1]):
            op = clauses.tests[t, 0]
            left = clauses.values[clauses.tests[t, 2] + chosen[clauses.tests[t, 1]]]
            right = clauses.values[clauses.tests[t, 4] + chosen[clauses.tests[t, 3]]]
            if left == NULL or right == NULL:
                continue
            any_true = compare(op, left, right)
            if any_true:
                break
        if not any_true:
            return False
    return True


STEPS = 1 << 22  # of a walk before it comes back, found or not: time is looked at in between


# The cursor of a walk: current instance and end of range per slot, the lower end of live chains per slot, whether the walk is over,
# then group, level and last.
def new_cursor(n_slots: int) -> Ints:
    return np.full(3 * n_slots + 4, -1, np.int64)


def is_over(cursor: Ints) -> bool:
    return bool(cursor[-4] == 1)


@kernel
def enumerate_matches(links: Links, clauses: Clauses, window: int, cursor: Ints, written: Mask, out: Ints) -> int:
    """Fill `out` (n_slots, capacity) with ids of the next matches and return how many; the cursor tells when that was all.

    Only slots to be `written` are: the first one always, others as asked.
    """
    offsets, groups, firsts, lasts, ids = links.offsets, links.groups, links.firsts, links.lasts, links.ids
    low, high, reach, origins = links.low, links.high, links.reach, links.origins
    guarded = len(links.barriers) > 0
    n_slots, capacity = out.shape
    n_groups = groups.shape[0] - 1
    top = n_slots - 1
    tested = len(clauses.bounds) > 1
    chosen = np.zeros(n_slots, np.int64)
    # Views into the cursor: the walk can stop anywhere and go on with the next buffer.
    current, stop, floor = cursor[:n_slots], cursor[n_slots : 2 * n_slots], cursor[2 * n_slots : 3 * n_slots]
    group, level, last = cursor[-3], cursor[-2], cursor[-1]
    count, steps = 0, 0
    if tested and last >= 0:
        for i in range(max(level, 0), n_slots):
            chosen[i] = origins[current[i]]
    while True:
        if steps > STEPS:
            cursor[-3], cursor[-2], cursor[-1] = group, level, last
            return count
        if level < 0 or level >= top:  # the walk from the present last instance is over: take the next one
            last += 1
            while group < 0 or last >= offsets[top] + groups[group + 1, top]:
                group += 1
                if group >= n_groups:
                    cursor[-4] = 1
                    return count
                last = offsets[top] + groups[group, top]
                for i in range(n_slots):
                    floor[i] = offsets[i] + groups[group, i]
            current[top] = last
            if tested:
                chosen[top] = origins[last]
                if not holds(clauses, top, chosen):
                    steps += 1
                    level = -1
                    continue
            bound = lasts[last] - window if lasts[last] >= LOWEST + window else LOWEST
            for i in range(top):
                while floor[i] < offsets[i] + groups[group + 1, i] and reach[floor[i]] <= bound:
                    floor[i] += 1
            if top == 0:
                level = -1
                allowed = not guarded or (links.barriers[last] <= bound and firsts[last] <= links.limits[last])
                if allowed and firsts[last] > bound:
                    out[0, count] = ids[last]
                    count += 1
                    if count == capacity:
                        cursor[-3], cursor[-2], cursor[-1] = group, level, last
                        return count
                continue
            level = top - 1
            current[level] = max(low[last], floor[level]) - 1
            stop[level] = high[last]
        bound = lasts[last] - window if lasts[last] >= LOWEST + window else LOWEST
        if level > 0:
            current[level] += 1
            c = current[level]
            if c >= stop[level]:
                level += 1
                continue
            if tested:
                chosen[level] = origins[c]
                if not holds(clauses, level, chosen):
                    steps += 1
                    continue
            level -= 1
            current[level] = max(low[c], floor[level]) - 1
            stop[level] = high[c]
            continue
        # The first slot: its range is written out in one go.
        limit = links.limits[last] if guarded else HIGHEST
        begin = count
        c = current[0] + 1
        if links.plain and not tested and limit == HIGHEST:
            run = max(min(stop[0] - c, capacity - count), 0)
            for k in range(run):
                out[0, count + k] = ids[c + k]
            c += run
            count += run
        while c < stop[0] and count < capacity:
            if firsts[c] > bound and (not guarded or links.barriers[c] <= bound) and firsts[c] <= limit:
                if tested:
                    chosen[0] = origins[c]
                if not tested or holds(clauses, 0, chosen):
                    out[0, count] = ids[c]
                    count += 1
            c += 1
        for i in range(1, n_slots):
            if written[i]:
                value = ids[current[i]]
                for k in range(begin, count):
                    out[i, k] = value
        steps += c - current[0]
        current[0] = c - 1
        if c >= stop[0]:
            level = 1
        if count == capacity:
            cursor[-3], cursor[-2], cursor[-1] = group, level, last
            return count


@kernel
def by_code(codes: Ints, n_codes: int) -> tuple[Ints, Ints]:
    """Places by code, those of a code in their order, without those of none (-1); and where each code begins."""
    offsets = np.zeros(n_codes + 1, np.int64)
    for code in codes:
        if code >= 0:
            offsets[code + 1] += 1
    for code in range(n_codes):
        offsets[code + 1] += offsets[code]
    order, filled = np.empty(offsets[n_codes], np.int64), offsets[:n_codes].copy()
    for i in range(len(codes)):
        if codes[i] >= 0:
            order[filled[codes[i]]] = i
            filled[codes[i]] += 1
    return order, offsets


@kernel
def latest_starts(groups: Ints, ends: Ints, starts: Ints, query_groups: Ints, query_times: Ints) -> Ints:
    """For every question (key, t): the latest start of an instance of that key that ends before t; LOWEST where there is none.

    Instances ascend by (key, end). `groups[g] .. groups[g + 1]` are those of key g; a key outside of 0 .. has no instances.
    """
    latest = np.empty(len(starts), np.int64)
    for g in range(len(groups) - 1):
        best = LOWEST
        for j in range(groups[g], groups[g + 1]):
            best = max(best, starts[j])
            latest[j] = best
    out = np.empty(len(query_times), np.int64)
    asked, at = -1, 0
    for q in range(len(query_times)):
        g, t = query_groups[q], query_times[q]
        out[q] = LOWEST
        if 0 <= g < len(groups) - 1:
            # Questions mostly ascend: the answer lies a few steps behind the one before, so the steps grow from there.
            begin, end = groups[g], groups[g + 1]
            if g == asked and at > begin and ends[at - 1] < t:
                begin, step = at, 1
                while begin + step <= end and ends[begin + step - 1] < t:
                    begin += step
                    step *= 2
                end = min(end, begin + step)
            while begin < end:
                middle = (begin + end) // 2
                if ends[middle] < t:
                    begin = middle + 1
                else:
                    end = middle
            asked, at = g, begin
            if begin > groups[g]:
                out[q] = latest[begin - 1]
    return out
