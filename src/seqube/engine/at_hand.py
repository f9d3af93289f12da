"""The matches of events that are at hand: of a whole stream, slice by slice, or of one slice.

Cost: that of the evaluation, once for every slice. Invariant: the slices' matches, one slice after the other, are all there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from seqube.engine.evaluation import Evaluation
from seqube.engine.instances import Batch
from seqube.engine.keys import event_numbers, partition_codes
from seqube.engine.limits import Budget
from seqube.engine.order import Skipping, order_events, rank_events
from seqube.engine.output import MatchWriter, read_by_return
from seqube.engine.predicates import Evaluator, Ints
from seqube.engine.sequence import HIGHEST, LOWEST
from seqube.engine.slices import Slices, StreamSlice, answer_slices
from seqube.engine.thinning import thinned
from seqube.events import Events
from seqube.plan.needs import needs_of
from seqube.plan.physical import MatchPlan
from seqube.plan.slices import cut_of

if TYPE_CHECKING:
    from seqube.engine.views.iterative import NestedEvaluation


def find_everywhere(plan: MatchPlan, events: Events, budget: Budget, threads: int = 1) -> Iterator[pa.Table]:
    """The matches of a whole stream, in pieces, as they are found; the first piece is empty and tells the columns."""
    writer = MatchWriter(plan, events, Evaluator(events))
    yield writer.empty()
    cut = cut_of(plan, events.unit, events.statistics)
    if cut.by is not None and plan.order_by:
        events = order_events(events, plan.order_by)
    slices = Slices(plan, events, cut, number_all(plan, events) if cut.by is not None else None)
    found = [partial(_find_in, make, plan, writer, budget) for make in slices.makers]
    yield from thinned(plan, answer_slices(found, threads, budget, len))


def _find_in(make: Callable[[], StreamSlice], plan: MatchPlan, writer: MatchWriter, budget: Budget) -> Iterator[pa.Table]:
    return find_in_slice(plan, make(), writer, budget)


def find_in_slice(plan: MatchPlan, part: StreamSlice, writer: MatchWriter, budget: Budget) -> Iterator[pa.Table]:
    """The matches that a slice owns, in pieces, written as a writer of any of its stream's events would."""
    events, numbers = part.events, part.numbers
    if plan.order_by:
        events = order_events(events, plan.order_by)
    if numbers is None:
        numbers = number_all(plan, events)
    evaluation = evaluation_of(plan, batch_for(plan, events, numbers, budget), part.after, part.upto)
    pieces = evaluation.matches()
    if plan.skip is not None:
        pieces = iter([Skipping(plan).remaining(pieces, events, np.arange(len(events)), budget)])
    yield from thinned(plan, map(writer.over(events, evaluation.evaluator).write, pieces))


def number_all(plan: MatchPlan, events: Events) -> Ints | None:
    """The numbers of the events of a whole stream, each in its partition; None where they do not matter."""
    return event_numbers(events, plan.partition_by) if plan.numbers_events else None


def batch_for(plan: MatchPlan, events: Events, numbers: Ints | None, budget: Budget) -> Batch:
    """The events with the clocks, partitions and ranks that the plan goes by."""
    clocks = numbers if plan.window.counts_events and numbers is not None else events.times
    window, partitions = needs_of(plan, events.unit).window, partition_codes(events, plan.partition_by)
    ranks = rank_events(events, plan.order_by) if plan.order_by else None
    return Batch(events, window, clocks, partitions, budget, numbers, ranks)


def evaluation_of(plan: MatchPlan, batch: Batch, after: int = LOWEST, upto: int = HIGHEST) -> Evaluation | NestedEvaluation:
    if plan.is_nested:
        from seqube.engine.views.iterative import NestedEvaluation  # which most queries need nothing of

        return NestedEvaluation(plan, batch, after, upto)
    return Evaluation(plan, batch, after, upto, read_by_return(plan))
