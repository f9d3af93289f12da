"""The matches of a NEXT or STRICT: for every start at most one, found in the cheapest way that its parts allow.

    plain       one event for each part, tied by nothing but a key: for every start the first event after it, part by part, all
                starts at once (`next_after`); of STRICT, the event at the next position, and whatever is asked of those so far
    walking     a compiled loop for each start, where what is asked compares a value of one event with a value of another
    threads     all starts at once, over columns, whatever is asked

Cost: plain parts, linear in the events; otherwise the events in the window of each start that fit a part its run can be in.
Invariant: a run depends on the events of its window alone, so a stream may be cut anywhere outside of it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from seqube.engine.bindings import UNBOUND, Ints
from seqube.engine.instances import Batch, Instances, plus
from seqube.engine.jit import kernel
from seqube.engine.predicates import Evaluator, code_columns
from seqube.engine.runs.courses import RunCourse, Runs, values_of
from seqube.engine.runs.threads import Threading
from seqube.engine.runs.walking import walk_along
from seqube.language.mentions import variables_of
from seqube.plan.physical import MatchRun, Scan


def find_runs(node: MatchRun, batch: Batch, evaluator: Evaluator, scan: Callable[[Scan], Ints], partial: bool = False) -> Runs:
    """The matches of a NEXT or STRICT, ascending by last row; with `partial`, all its runs."""
    found = [scan(each) for step in node.steps for each in step.scans]
    if node.has_single_parts and node.is_strict:
        return _plain_strict(node, batch, evaluator, found)
    if node.has_single_parts and not node.asked:
        return _plain_next(node, batch, evaluator, found, partial)
    course = RunCourse(node, batch, evaluator, found)
    runs = walk_along(course, partial)
    if runs is None:
        threading = Threading(course)
        runs = threading.strict() if node.is_strict else threading.next(partial)
    order = np.argsort(runs.instances.last_rows, kind="stable")
    return Runs(runs.instances.select(order), runs.are_matches[order], runs.reached[order])


# ---------------------------------------------------------------- parts of one event each, tied by nothing but a key


def _plain_next(node: MatchRun, batch: Batch, evaluator: Evaluator, found: list[Ints], partial: bool) -> Runs:
    """For every start the first event of the next part after it, and so on: all starts at once."""
    codes, n_codes = _codes(node, batch, evaluator, found)
    closed = plus(batch.clocks[found[0]], batch.window)
    rows = [found[0], *(np.full(len(found[0]), UNBOUND, np.int64) for _ in found[1:])]
    going = np.arange(len(found[0]))  # the starts that have come this far
    places = going  # where the last event of each stands among those of its part
    reached = np.ones(len(found[0]), np.int64)
    for n in range(1, len(found)):
        if not len(found[n]):
            going = going[:0]
            break
        if codes is None:
            following = next_after(batch.times, rows[n - 1][going], found[n])
        else:
            places = next_of_code(batch.times, found[n - 1], codes[n - 1], found[n], codes[n], n_codes)[places]
            following = np.where(places >= 0, found[n][places], -1)
        kept = (following >= 0) & (batch.clocks[following] < closed[going])
        going, places = going[kept], places[kept] if codes is not None else places
        rows[n][going] = following[kept]
        reached[going] = n + 1
    if partial:
        last = np.maximum.reduce(rows)
        order = np.argsort(last, kind="stable")
        runs = Instances(dict(zip(node.binds, rows, strict=True)), rows[0], last).select(order)
        return Runs(runs, (reached == len(found))[order], reached[order])
    rows = [column[going] for column in rows] if len(going) < len(rows[0]) else rows
    by_end = np.argsort(rows[-1], kind="stable") if codes is not None else None
    instances = Instances(dict(zip(node.binds, rows, strict=True)), rows[0], rows[-1])
    return Runs(instances if by_end is None else instances.select(by_end), np.ones(len(going), np.bool_), reached[going])


@kernel
def next_after(times: Ints, starts: Ints, others: Ints) -> Ints:
    """For every start the first of the others that is after it; -1 where there is none. The times of both ascend.

    starts   1     5  6
    others   1  3     6  9       out  3, 6, 9
    """
    out = np.empty(len(starts), np.int64)
    j = 0
    for k in range(len(starts)):
        time = times[starts[k]]
        while j < len(others) and times[others[j]] <= time:
            j += 1
        out[k] = others[j] if j < len(others) else -1
    return out


@kernel
def next_of_code(times: Ints, starts: Ints, codes: Ints, others: Ints, other_codes: Ints, n_codes: int) -> Ints:
    """For every start the place, among the others, of the first that is after it and has its code; -1 where there is none.

    From the end back, the newest place of every code is the next one of what comes before it. Code -1 is equal to none.
    """
    newest = np.full(n_codes, -1, np.int64)
    out = np.full(len(starts), -1, np.int64)
    j = len(others) - 1
    for k in range(len(starts) - 1, -1, -1):
        time = times[starts[k]]
        while j >= 0 and times[others[j]] > time:
            if other_codes[j] >= 0:
                newest[other_codes[j]] = j
            j -= 1
        if codes[k] >= 0:
            out[k] = newest[codes[k]]
    return out


def _plain_strict(node: MatchRun, batch: Batch, evaluator: Evaluator, found: list[Ints]) -> Runs:
    """Starts whose next positions hold the other parts, as far as they fit."""
    assert batch.positions is not None
    order, place = _in_order(batch)
    codes, _ = _codes(node, batch, evaluator, found) if node.key else (None, 0)
    rows = [found[0]]
    for n, other in enumerate(found[1:], 1):
        following = place[rows[-1]] + 1
        kept = following < len(order)
        rows, following = [column[kept] for column in rows], order[following[kept]]
        is_other = np.zeros(len(batch.times), np.bool_)
        is_other[other] = True
        kept = is_other[following] & (batch.positions[following] == batch.positions[rows[-1]] + 1)
        if batch.partitions is not None:
            kept &= batch.partitions[following] == batch.partitions[rows[-1]]
        if codes is not None:
            code_of = np.full(len(batch.times), -1)
            code_of[found[n - 1]], code_of[other] = codes[n - 1], codes[n]
            kept &= (code_of[following] == code_of[rows[-1]]) & (code_of[following] >= 0)
        rows = [column[kept] for column in (*rows, following)]
        named = dict(zip(node.binds, rows, strict=False))
        asked = [each for each in node.asked if node.binds[n] in variables_of(each) <= named.keys()]
        if asked:
            kept = evaluator.true(asked, named, len(rows[0]))
            rows = [column[kept] for column in rows]
    kept = batch.clocks[rows[-1]] < plus(batch.clocks[rows[0]], batch.window)
    rows = [column[kept] for column in rows]
    found_rows = Instances(dict(zip(node.binds, rows, strict=True)), rows[0], rows[-1])
    n_found = len(rows[0])
    by_end = np.argsort(rows[-1], kind="stable")
    return Runs(found_rows.select(by_end), np.ones(n_found, np.bool_), np.full(n_found, len(node.steps)))


def _in_order(batch: Batch) -> tuple[Ints, Ints]:
    """All rows partition by partition, and the place of each among them."""
    if batch.partitions is None:
        rows = np.arange(len(batch.times))
        return rows, rows
    order = np.argsort(batch.partitions, kind="stable")
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return order, place


def _codes(node: MatchRun, batch: Batch, evaluator: Evaluator, found: list[Ints]) -> tuple[list[Ints] | None, int]:
    """Codes that are equal for events of one partition and key (-1: a key is null), and how many; None where there is neither."""
    if batch.partitions is None and not node.key:
        return None, 0
    tables = [batch.partition_column(rows) + [values_of(evaluator, key, rows) for key in node.key] for rows in found]
    return code_columns(tables)
