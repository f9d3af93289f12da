"""The linear machine: where all conditions are columns, the preferred match of a start is followed without ever going back.

Two passes over a partition. From the last row to the first it is noted, for every row and position of the pattern, whether the row
may be taken there and a match can still come of it: a bit for each (with WITHIN, the row behind the earliest end of such a match).
From the first row on, of the choices in their order of preference the first that can lead to a match is taken; so each row of a
match is looked at once, and a start without a match is told by a glance.

    PATTERN (a+ b+) over a a a b: the last row can be b, the others can be a with a match ahead

Cost: rows times positions, and the rows of the matches. Memory: a bit for each (eight bytes with WITHIN), of one
partition at a time.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from seqube.engine.jit import inner_kernel, kernel
from seqube.engine.predicates import Ints
from seqube.plan.rows import RowPlan

Bits = npt.NDArray[np.uint64]
Bytes = npt.NDArray[np.uint8]

FEW_POSITIONS = 8  # up to which the choice for all that may be open is looked up
UNREACHED = np.int64(np.iinfo(np.int64).max)
PAST_LAST, TO_NEXT, TO_FIRST, TO_LAST = 0, 1, 2, 3
SEARCHED, NO_ROOM, ASK, NO_TARGET, SAME_ROW, TOO_LONG = 0, 1, 2, 3, 4, 5  # what a search comes back with


class PatternTables(NamedTuple):
    """A pattern as arrays. The choices that follow position p are follow[begin[p]:begin[p + 1]]; behind them those of starts."""

    variable: Ints  # of every position
    begin: Ints
    follow: Ints
    ends: Bytes
    masks: Bits  # [list of choices, word]: which they are, the end of a match as the last bit
    chosen: Ints  # [list of choices, bits that are open]: the preferred of them, -1 for none; empty where positions are many
    truth_of: Ints  # of every variable: its row in `truth`, -1 for one that every row may be mapped to


class PartitionedRows(NamedTuple):
    """The rows of a table, by partition, and what is known of them."""

    bounds: Ints  # of partitions
    truth: Bytes  # [condition, row]
    limits: Ints  # of every row, the first that is too far from it for one match; nothing without WITHIN


class Search(NamedTuple):
    """How far a search has come, and what it found."""

    state: Ints  # partition, row, matches, rows of matches, whether the partition was looked through, ...
    starts: Ints
    offsets: Ints
    path: Ints  # the position of every row of every match
    open_bits: Bits
    reach: Ints


PARTITION, AT_ROW, N_MATCHES, N_PATH, LOOKED = 0, 1, 2, 3, 4


def tables_of(plan: RowPlan) -> PatternTables:
    """The arrays of a plan."""
    n = plan.end
    lists = [*plan.follows, plan.starts, plan.later_starts]
    begin = np.cumsum([0, *map(len, lists)]).astype(np.int64)
    follow = np.array([choice for choices in lists for choice in choices], np.int64)
    masks = np.zeros((len(lists), n // 64 + 1), np.uint64)
    for number, choices in enumerate(lists):
        for choice in choices:
            masks[number, choice // 64] |= np.uint64(1 << (choice % 64))
    chosen = np.full((len(lists) if n <= FEW_POSITIONS else 0, 2 ** (n + 1) if n <= FEW_POSITIONS else 0), -1, np.int64)
    for number in range(len(chosen)):
        for choice in reversed(lists[number]):
            chosen[number, (np.arange(chosen.shape[1]) >> choice) & 1 == 1] = choice
    truth_of, used = [], 0
    for condition in plan.conditions:
        truth_of.append(used if condition.columns else -1)
        used += bool(condition.columns)
    return PatternTables(
        np.array(plan.variable_of, np.int64),
        begin,
        follow,
        np.array(plan.ends, np.uint8),
        masks,
        chosen,
        np.array(truth_of, np.int64),
    )


@inner_kernel
def look_ahead_of_few(tables: PatternTables, truth: Bytes, low: int, high: int, open_bits: Bits) -> None:
    """The same where the bits of a row are one word, which stays at hand from row to row.

    Nothing is branched on: what a condition says of the next row is what no processor can foresee.
    """
    n = len(tables.variable)
    masks = tables.masks[:, 0]
    always, ends = np.uint64(0), np.uint64(0)
    held = np.zeros(len(truth), np.uint64)  # of every condition, the positions that it is asked at
    for position in range(n):
        bit = np.uint64(1) << np.uint64(position)
        condition = tables.truth_of[tables.variable[position]]
        if condition < 0:
            always |= bit
        else:
            held[condition] |= bit
        if tables.ends[position]:
            ends |= bit
    end = np.uint64(1) << np.uint64(n)
    ahead = np.uint64(0)
    for row in range(high - 1, low - 1, -1):
        allowed = always
        for condition in range(len(truth)):
            allowed |= held[condition] * np.uint64(truth[condition, row])
        bits = ends
        if row < high - 1:
            bits = np.uint64(0)
            reached = ahead | end
            for position in range(n):
                bits |= np.uint64((masks[position] & reached) != 0) << np.uint64(position)
        ahead = bits & allowed
        open_bits[row - low, 0] = ahead


@inner_kernel
def look_ahead(tables: PatternTables, rows: PartitionedRows, low: int, high: int, open_bits: Bits) -> None:
    """Note for every row of a partition at which positions it can be taken with a match ahead."""
    n = len(tables.variable)
    n_words = open_bits.shape[1]
    if n_words == 1:
        look_ahead_of_few(tables, rows.truth, low, high, open_bits)
        return
    for row in range(high - 1, low - 1, -1):
        at = row - low
        for word in range(n_words):
            open_bits[at, word] = 0
        for position in range(n):
            condition = tables.truth_of[tables.variable[position]]
            if condition >= 0 and rows.truth[condition, row] == 0:
                continue
            if row == high - 1:
                leads = tables.ends[position] != 0
            else:
                leads = False
                for word in range(n_words):
                    ahead = open_bits[at + 1, word]
                    if word == n_words - 1:
                        ahead |= np.uint64(1) << np.uint64(n % 64)
                    if tables.masks[position, word] & ahead:
                        leads = True
                        break
            if leads:
                open_bits[at, position // 64] |= np.uint64(1) << np.uint64(position % 64)


@inner_kernel
def look_for_ends(tables: PatternTables, rows: PartitionedRows, low: int, high: int, reach: Ints) -> None:
    """The same with WITHIN: the row behind the earliest end of a match that goes on from here, or UNREACHED."""
    n = len(tables.variable)
    for row in range(high - 1, low - 1, -1):
        at = row - low
        for position in range(n):
            reach[at, position] = UNREACHED
            condition = tables.truth_of[tables.variable[position]]
            if condition >= 0 and rows.truth[condition, row] == 0:
                continue
            if row == high - 1:
                if tables.ends[position]:
                    reach[at, position] = row + 1
                continue
            for i in range(tables.begin[position], tables.begin[position + 1]):
                choice = tables.follow[i]
                if choice == n:
                    reach[at, position] = row + 1
                    break
                reach[at, position] = min(reach[at, position], reach[at + 1, choice])


@inner_kernel
def is_open(search: Search, rows: PartitionedRows, start: int, at: int, position: int) -> bool:
    """Whether the row at this place of its partition can be taken at a position by a match from a start."""
    if len(rows.limits):
        return bool(search.reach[at, position] <= rows.limits[start])
    word = search.open_bits[at, position // 64]
    return bool((word >> np.uint64(position % 64)) & np.uint64(1))


@inner_kernel
def look_through(tables: PatternTables, rows: PartitionedRows, search: Search) -> None:
    """The first pass over the partition that a search is in, once."""
    state = search.state
    if state[LOOKED] == 0:
        low, high = rows.bounds[state[PARTITION]], rows.bounds[state[PARTITION] + 1]
        if len(rows.limits):
            look_for_ends(tables, rows, low, high, search.reach)
        else:
            look_ahead(tables, rows, low, high, search.open_bits)
        state[LOOKED] = 1
        state[AT_ROW] = low


@inner_kernel
def note_match(tables: PatternTables, search: Search, start: int, length: int, skip: int, target: Bytes) -> int:
    """Keep a match whose positions stand behind the others' in `path`, and go on where the skip leads; a problem, or SEARCHED."""
    state = search.state
    base = state[N_PATH]
    following = start + 1
    if length > 0:
        if skip == PAST_LAST:
            following = start + length
        elif skip != TO_NEXT:
            found = -1
            for i in range(length):
                if target[tables.variable[search.path[base + i]]]:
                    found = i
                    if skip == TO_FIRST:
                        break
            if found < 0:
                return NO_TARGET
            if found == 0:
                return SAME_ROW
            following = start + found
    search.starts[state[N_MATCHES]] = start
    state[N_MATCHES] += 1
    state[N_PATH] += length
    search.offsets[state[N_MATCHES]] = state[N_PATH]
    state[AT_ROW] = following
    return SEARCHED


@kernel
def search_linear(tables: PatternTables, rows: PartitionedRows, search: Search, skip: int, target: Bytes, bell: Ints) -> int:
    """Find matches, from where the search was left; NO_ROOM where there is no room for the next one."""
    state, path, begin, follow, masks, bits = search.state, search.path, tables.begin, tables.follow, tables.masks, search.open_bits
    n = len(tables.variable)
    end = np.uint64(1) << np.uint64(n % 64)
    is_one_word = len(rows.limits) == 0 and bits.shape[1] == 1
    is_looked_up = is_one_word and len(tables.chosen) > 0
    while state[PARTITION] < len(rows.bounds) - 1:
        look_through(tables, rows, search)
        low, high = rows.bounds[state[PARTITION]], rows.bounds[state[PARTITION] + 1]
        while state[AT_ROW] < high:
            start = state[AT_ROW]
            if state[N_MATCHES] >= len(search.starts):
                return NO_ROOM
            if start & 1023 == 0 and bell[0]:
                return TOO_LONG
            base, length = state[N_PATH], 0
            at = n if start == low else n + 1  # the list of choices
            while True:
                chosen = -1
                if start + length == high:
                    chosen = n
                elif is_looked_up:
                    chosen = tables.chosen[at, np.int64(bits[start + length - low, 0] | end)]
                elif is_one_word:
                    can = (bits[start + length - low, 0] | end) & masks[at, 0]
                    if can:
                        for i in range(begin[at], begin[at + 1]):
                            if (can >> np.uint64(follow[i])) & np.uint64(1):
                                chosen = follow[i]
                                break
                else:
                    for i in range(begin[at], begin[at + 1]):
                        choice = follow[i]
                        if choice == n or is_open(search, rows, start, start + length - low, choice):
                            chosen = choice
                            break
                if chosen == n or chosen < 0:
                    break
                if base + length >= len(path):
                    return NO_ROOM
                path[base + length] = chosen
                length += 1
                at = chosen
            if chosen < 0:
                state[AT_ROW] += 1
                continue
            problem = note_match(tables, search, start, length, skip, target)
            if problem != SEARCHED:
                return problem
        state[PARTITION] += 1
        state[LOOKED] = 0
    return SEARCHED
