"""The machine that goes back: where conditions look at rows that are bound, choices are tried in their order of preference.

Whether a row can be taken depends on how the rows before it are mapped, so a choice that looked right may have to be undone. What
the columns tell (`automaton`) still rules out whatever cannot lead to a match. What is carried from row to row (counts, first and
last rows, sums) stands on a stack, so that going back costs nothing.

Cost: each choice that is tried, once; that can be exponential in the rows of a match, and stands under the limits on time.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from seqube.engine.jit import kernel
from seqube.engine.limits import Budget
from seqube.engine.predicates import Ints
from seqube.engine.rows.automaton import (
    ASK,
    AT_ROW,
    LOOKED,
    N_MATCHES,
    N_PATH,
    NO_ROOM,
    PARTITION,
    SEARCHED,
    TOO_LONG,
    Bytes,
    PartitionedRows,
    PatternTables,
    Search,
    is_open,
    look_through,
    note_match,
)
from seqube.engine.rows.conditions import FALSE, INEXACT, MAX_STACK, TRUE, Bound, Programs, bind_row, condition_holds

# Further words of a search's state: rows bound so far (-1 where a start was not begun), whether a row is being tried, the condition
# that is asked, the answer that was given (-1: none), choices tried, the match's number in its partition, whether sums are exact.
DEPTH, TRYING, CONDITION, ANSWER, TRIED, MATCH_NUMBER, IS_EXACT = 5, 6, 7, 8, 9, 10, 11
STATE_WORDS = 12

Floats = npt.NDArray[np.float64]


def room_for(programs: Programs, longest: int, budget: Budget) -> tuple[Bound, Ints]:
    """What is carried along a match of the longest partition, and the choices of each of its rows."""
    sets, folds = len(programs.among), len(programs.folds)
    budget.need((longest + 2) * 8 * (3 * sets + 2 * folds + 2))
    counts, first, last = (np.zeros((longest + 2, sets), np.int64) for _ in range(3))
    return Bound(counts, first, last, np.zeros((longest + 2, folds)), np.zeros((longest + 2, folds), np.int64)), np.zeros(
        (longest + 2, 2), np.int64
    )


def search_asking(
    tables: PatternTables, rows: PartitionedRows, search: Search, skip: int, target: Bytes, programs: Programs, bound: Bound,
    choices: Ints,
    bell: Ints, answer: Callable[[], bool],
) -> int:  # fmt: skip
    """Find matches, from where the search was left. What has no program, `answer` is asked for."""
    stack, known = np.zeros(MAX_STACK + 1), np.zeros(MAX_STACK + 1, np.uint8)
    while (found := _search(tables, rows, search, skip, target, programs, bound, choices, stack, known, bell)) == ASK:
        search.state[ANSWER] = TRUE if answer() else FALSE
    return int(found)


@kernel
def _search(
    tables: PatternTables, rows: PartitionedRows, search: Search, skip: int, target: Bytes, programs: Programs, bound: Bound,
    choices: Ints,
    stack: Floats, known: Bytes, bell: Ints,
) -> int:  # fmt: skip
    state, path = search.state, search.path
    n = len(tables.variable)
    while state[PARTITION] < len(rows.bounds) - 1:
        if state[LOOKED] == 0:
            state[MATCH_NUMBER] = 1
            state[DEPTH] = -1
        look_through(tables, rows, search)
        low, high = rows.bounds[state[PARTITION]], rows.bounds[state[PARTITION] + 1]
        while state[AT_ROW] < high:
            start, base = state[AT_ROW], state[N_PATH]
            if state[N_MATCHES] >= len(search.starts):
                return NO_ROOM
            if state[DEPTH] < 0:
                first = n if start == low else n + 1
                choices[0, 0], choices[0, 1] = tables.begin[first], tables.begin[first + 1]
                state[DEPTH] = 0
            is_match = False
            while True:
                depth = state[DEPTH]
                if state[TRYING] == 0:
                    if start + depth == high:
                        is_match = True
                        break
                    if choices[depth, 0] >= choices[depth, 1]:
                        if depth == 0:
                            break
                        state[DEPTH] = depth - 1
                        continue
                    choice = tables.follow[choices[depth, 0]]
                    if choice == n:
                        is_match = True
                        break
                    if not is_open(search, rows, start, start + depth - low, choice):
                        choices[depth, 0] += 1
                        continue
                    if base + depth >= len(path):
                        return NO_ROOM
                    state[TRIED] += 1
                    if state[TRIED] & 1023 == 0 and bell[0]:
                        return TOO_LONG
                    choices[depth, 0] += 1
                    path[base + depth] = choice
                    exact = bind_row(programs, bound, depth, tables.variable[choice], start + depth)
                    state[IS_EXACT] = exact
                    state[CONDITION] = programs.of_variable[tables.variable[choice]]
                    state[TRYING] = 1
                taken = path[base + depth]
                variable = tables.variable[taken]
                is_true = True
                while state[CONDITION] < programs.of_variable[variable + 1]:
                    condition = state[CONDITION]
                    if state[ANSWER] >= 0:
                        truth = state[ANSWER]
                        state[ANSWER] = -1
                    elif programs.begin[condition] == programs.begin[condition + 1] or not state[IS_EXACT]:
                        return ASK
                    else:
                        truth = condition_holds(
                            programs, bound, tables.variable, path, base, start, depth + 1, low, high, state[MATCH_NUMBER],
                            condition, stack, known,
                        )  # fmt: skip
                        if truth == INEXACT:
                            return ASK
                    if truth != TRUE:
                        is_true = False
                        break
                    state[CONDITION] += 1
                state[TRYING] = 0
                if is_true:
                    state[DEPTH] = depth + 1
                    choices[depth + 1, 0], choices[depth + 1, 1] = tables.begin[taken], tables.begin[taken + 1]
            length = state[DEPTH]
            state[DEPTH] = -1
            if not is_match:
                state[AT_ROW] += 1
                continue
            state[MATCH_NUMBER] += 1
            problem = note_match(tables, search, start, length, skip, target)
            if problem != SEARCHED:
                return problem
        state[PARTITION] += 1
        state[LOOKED] = 0
    return SEARCHED
