"""Aggregates of a stream that was cut by time, each slice in a place of its own, are those of the whole."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
from hypothesis import assume, given
from hypothesis import strategies as st

import oracle
import seqube as sq
from aggregate_queries import aggregate_queries, assert_same_rows, expected
from answers import show
from seqube.engine.aggregates.aggregation import Aggregator
from seqube.engine.instances import minus
from seqube.engine.sequence import HIGHEST, LOWEST
from seqube.events import Events
from seqube.language import parse
from seqube.plan.needs import needs_of
from seqube.plan.optimizer import plan_query
from seqube.plan.strategies import names
from strategies import streams, table


def by_slices(aggregator: Aggregator, events: Events, cuts: list[int]) -> pa.Table:
    """Each slice has its own events and those of its halo, and nothing of what comes after it."""
    needs, found = needs_of(aggregator.plan, events.unit), []
    for after, upto in pairwise([LOWEST, *sorted(set(cuts)), HIGHEST]):
        lowest = int(minus(np.array([after]), needs.halo)[0]) if after > LOWEST else LOWEST
        first, last = np.searchsorted(events.times, [lowest, upto], "right") if after > LOWEST else (0, len(events))
        own = events.slice(int(first), int(last))
        found += [aggregator.totals_within(own, after, upto)] if needs.adds_up else aggregator.within(own, after, upto)
    if needs.adds_up:
        return aggregator.merge_slices(found, events.slice(0, 0))
    return pa.concat_tables(found, promote_options="default")


@given(text=aggregate_queries(), events=streams(max_time=12), data=st.data())
def test_any_cutting_by_time(text: str, events: list[oracle.Event], data: st.DataObject) -> None:
    strategy = data.draw(st.sampled_from(["auto", *names("aggregates")]))
    show(text, events)
    stream = Events(table(events))
    try:
        plan = plan_query(parse(text), strategy=strategy)
    except sq.PlanError:
        assume(False)
    assume(needs_of(plan, "ms").can_be_cut)
    # A cut is the time of an event, and none is the last: of every slice there is an event.
    times = sorted({event.ts for event in events})[:-1]
    cuts = data.draw(st.lists(st.sampled_from(times), max_size=4)) if times else []
    assert_same_rows(by_slices(Aggregator(plan), stream, cuts).to_pylist(), expected(text, events))
