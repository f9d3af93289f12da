"""A query stretch by stretch, so that a person sees how far it is, and nothing is held but the piece that was found last.

However a stream is cut, the same rows come out. Of matches, a stretch has those that end in it; to find them, the events of one
window before it are looked at again, so a stretch is several windows long. Where that leaves only one, and where what remains of
the rows depends on all before them, rows are handed on as they are found, and how far it is cannot be said. Aggregates are stepped
through with the state that they have anyway.

Cost: that of the whole, and about a quarter more for looking again.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from seqube.engine.limits import Limits
from seqube.engine.operator import open_plan
from seqube.events import Events
from seqube.plan.needs import Needs, Plan, needs_of, why_whole
from seqube.plan.physical import MatchPlan

MOST_STRETCHES = 100
SHORTEST = 5_000
WINDOWS = 4

Portions = Iterator[tuple[float | None, pa.Table]]


def run_by_stretches(plan: Plan, events: Events) -> Portions:
    """Pieces of the result, at least one, each with the share of the events that is done, where that is known."""
    limits = Limits()
    budget = limits.budget()
    needs = needs_of(plan, events.unit)
    if why_whole(plan) is not None:
        portions = _cut(plan, needs, events, len(events), limits)
    elif needs.can_be_cut and isinstance(plan, MatchPlan):
        portions = _cut(plan, needs, events, _length(plan, needs, events), limits)
    else:
        portions = _fed(plan, events, _length(plan, needs, events), limits)
    for share, piece in portions:
        budget.find(len(piece))
        budget.hold(piece.nbytes)  # in a file: no more than would be in memory
        budget.check()
        yield share, piece


def _length(plan: Plan, needs: Needs, events: Events) -> int:
    """How many events a stretch has."""
    if needs.by_position:
        in_window = len(events) if plan.matches.partition_by else needs.window  # each partition has a window of its own
    else:
        span = max(events.statistics.span, 1)
        in_window = len(events) * min(needs.window, span) // span
    return max(len(events) // MOST_STRETCHES, WINDOWS * in_window, SHORTEST)


def _fed(plan: Plan, events: Events, length: int, limits: Limits) -> Portions:
    """One stretch after the other, what matters of it kept for the next."""
    operator = open_plan(plan, limits)
    state = operator.start()
    for begin in range(0, max(len(events), 1), length):
        state, rows = operator.step(state, events.slice(begin, begin + length))
        assert rows is not None, "the stream began with its first stretch"
        yield min(begin + length, len(events)) / max(len(events), 1), rows
    _, rest = operator.finish(state)
    assert rest is not None, "the stream began with its first stretch"
    yield 1.0, rest


def _cut(plan: Plan, needs: Needs, events: Events, length: int, limits: Limits) -> Portions:
    """Each stretch by itself, with the events around it that it needs."""
    operator = open_plan(plan)
    n, times, window = len(events), events.times, needs.window
    if length >= n:
        for piece in operator.pieces(events, limits.budget()):
            yield None, piece
        return
    nothing = next(operator.pieces(events.slice(0, 0), limits.budget()))
    done, after = 0, int(times[0]) - 1
    while done < n:
        upto = int(times[min(done + length, n) - 1])
        end = int(np.searchsorted(times, upto, "right"))
        if needs.by_position:
            low, high = max(done - window, 0), min(end + needs.ahead, n)
            numbers = np.arange(low, high)
        else:
            low = int(np.searchsorted(times, after - window, "right"))
            high = int(np.searchsorted(times, upto + needs.ahead, "right"))
            numbers = None
        for piece in operator.within(events.slice(low, high), after, upto, numbers, limits.budget()):
            yield done / n, piece
        done, after = end, upto
        yield done / n, nothing  # where nothing was found, too, it is told how far it is
