"""Every list of a repeated part: lists of one event, each of them with every event after it, and so on while they grow.

All lists of a length grow at once: for each, the events that may follow are a range of the part's rows (those after its last one,
of its own key, inside the window that its first one opens), so a round is a few gathers.

    rows    2 4 5          1   [2] [4] [5]
                           2   [2 4] [2 5] [4 5]
                           3   [2 4 5]

Cost: the events of all lists, 2^n of them for n events that fit together: whoever asks for them pays for them, within the limits.
Invariant: rows of a list ascend, in time and by the clock.
"""

from __future__ import annotations

import numpy as np

from seqube.engine.bindings import Ints, Lists, before, one_after_another, ranges
from seqube.engine.instances import Batch, Instances, order_by_code
from seqube.engine.predicates import Evaluator
from seqube.plan.physical import MatchRepeat


def grow_lists(node: MatchRepeat, rows: Ints, codes: Ints, batch: Batch, evaluator: Evaluator) -> Instances:
    """All lists of these rows, of which those of one code may stand together; -1 stands with no other."""
    codes = np.where(codes < 0, np.arange(len(codes)) + codes.max(initial=0) + 1, codes)
    order = order_by_code(codes)
    rows, codes = rows[order], codes[order]
    follows, stop = _followers(rows, codes, batch)
    variable = node.item.variable
    grown = np.arange(len(rows)).reshape(-1, 1)  # places in `rows`, a column for each event
    found: list[Lists] = [] if node.least > 1 else [Lists(rows, np.arange(len(rows) + 1), node.is_single)]
    while len(grown) and grown.shape[1] != node.most:
        first, last = grown[:, 0], grown[:, -1]
        counts = np.maximum(stop[first] - follows[last], 0)
        batch.budget.need(8 * int(counts.sum()) * (grown.shape[1] + 1))
        batch.budget.check()
        again, added = np.repeat(np.arange(len(grown)), counts), ranges(follows[last], counts)
        if node.steps and len(added):
            bound = {variable: rows[added], before(variable): rows[last[again]]}
            kept = evaluator.true(node.steps, bound, len(added))
            again, added = again[kept], added[kept]
        grown = np.column_stack([grown[again], added])
        if grown.shape[1] >= node.least:
            found.append(Lists(rows[grown].ravel(), grown.shape[1] * np.arange(len(grown) + 1), node.is_single))
            batch.budget.hold(found[-1].nbytes)
    column = one_after_another(found) if found else Lists.empty(0, node.is_single)
    assert isinstance(column, Lists)
    instances = Instances({variable: column}, column.firsts, column.lasts)
    return instances.select(np.argsort(instances.last_rows, kind="stable"))


def _followers(rows: Ints, codes: Ints, batch: Batch) -> tuple[Ints, Ints]:
    """For each row, the place of the first row of its code that is after it, and of the first that is outside its window."""
    times, clocks = batch.times[rows], batch.clocks[rows]
    bounds = np.searchsorted(codes, codes, "right")
    follows, stop = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64)
    for begin, end in _stretches(codes):
        follows[begin:end] = begin + np.searchsorted(times[begin:end], times[begin:end], "right")
        closed = clocks[begin:end].astype(object) + batch.window if batch.window > 2**62 else clocks[begin:end] + batch.window
        stop[begin:end] = begin + np.searchsorted(clocks[begin:end], closed, "left")
    return np.minimum(follows, bounds), np.minimum(stop, bounds)


def _stretches(codes: Ints) -> list[tuple[int, int]]:
    """Where each code begins and ends."""
    edges = np.flatnonzero(np.diff(codes)) + 1
    return list(zip([0, *edges], [*edges, len(codes)], strict=True)) if len(codes) else []
