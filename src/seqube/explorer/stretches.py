"""A query stretch by stretch, so that a person sees how far it is, and nothing is held but the piece that was found last.

However a stream is cut, the same rows come out. Of matches, a stretch has those that end in it; to find them, the events of one
window before it are looked at again, so a stretch is several windows long. Where that leaves only one, rows are handed on as they
are found, and how far it is cannot be said. Aggregates are stepped through with the state that they have anyway.

Cost: that of the whole, and about a quarter more for looking again.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from seqube.engine.aggregates.aggregation import Aggregator
from seqube.engine.limits import Limits
from seqube.engine.state import Matcher
from seqube.events import Events
from seqube.plan.aggregates import AggregatePlan
from seqube.plan.physical import MatchPlan, ticks

MOST = 100
SHORTEST = 5_000
WINDOWS = 4

Pieces = Iterator[tuple[float | None, pa.Table]]


def run_by_stretches(plan: MatchPlan | AggregatePlan, events: Events) -> Pieces:
    """Pieces of the result, at least one, each with the share of the events that is done, where that is known."""
    limits = Limits()
    budget = limits.budget()
    matches = plan.matches if isinstance(plan, AggregatePlan) else plan
    length = _length(matches, events)
    found = _aggregates(plan, events, length, limits) if isinstance(plan, AggregatePlan) else _matches(plan, events, length, limits)
    for share, piece in found:
        budget.find(len(piece))
        budget.hold(piece.nbytes)  # in a file: no more than would be in memory
        budget.check()
        yield share, piece


def _length(plan: MatchPlan, events: Events) -> int:
    """How many events a stretch has."""
    if plan.window.counts_events:
        in_window = len(events) if plan.partition_by else plan.window.length  # each partition has a window of its own
    else:
        span = max(events.statistics.span, 1)
        in_window = len(events) * min(ticks(plan.window, events.unit), span) // span
    return max(len(events) // MOST, WINDOWS * in_window, SHORTEST)


def _aggregates(plan: AggregatePlan, events: Events, length: int, limits: Limits) -> Pieces:
    aggregator = Aggregator(plan, limits)
    state = aggregator.start()
    for begin in range(0, max(len(events), 1), length):
        state, rows = aggregator.step(state, events.slice(begin, begin + length))
        yield min(begin + length, len(events)) / max(len(events), 1), rows
    _, rest = aggregator.finish(state)
    assert rest is not None, "the stream began with its first stretch"
    yield 1.0, rest


def _matches(plan: MatchPlan, events: Events, length: int, limits: Limits) -> Pieces:
    matcher = Matcher(plan)
    n, times = len(events), events.times
    if length >= n:
        for piece in matcher.pieces(events, limits.budget()):
            yield None, piece
        return
    window = ticks(plan.window, events.unit)
    nothing = next(matcher.pieces(events.slice(0, 0), limits.budget()))
    done, after = 0, int(times[0]) - 1
    while done < n:
        upto = int(times[min(done + length, n) - 1])
        end = int(np.searchsorted(times, upto, "right"))
        if plan.window.counts_events:
            low, high = max(done - window, 0), min(end + window, n) if plan.waits else end
            numbers = np.arange(low, high)
        else:
            low = int(np.searchsorted(times, after - window, "right"))
            high = int(np.searchsorted(times, upto + window, "right")) if plan.waits else end
            numbers = None
        for piece in matcher.within(events.slice(low, high), after, upto, numbers, limits.budget()):
            yield done / n, piece
        done, after = end, upto
        yield done / n, nothing  # where nothing was found, too, it is told how far it is
