"""A workload counted together over a stream: one store of events for all queries, one pass for all counts.

Cost: that of the way the plan chose (`prefix_tree`, `chop_connect`, or every query by itself), and once the events at hand.
Invariant: counts are doubles; a query whose counts reach 2^53 is computed again by itself, exactly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa

from seqube.engine.aggregates.aggregation import Aggregator, Floats
from seqube.engine.aggregates.chop_connect import count_by_pieces
from seqube.engine.aggregates.counting import EXACT
from seqube.engine.aggregates.labels import Labels
from seqube.engine.aggregates.prefix_tree import count_by_tree
from seqube.engine.aggregates.state import Reporter, State
from seqube.engine.instances import minus
from seqube.engine.limits import NO_LIMITS, Limits
from seqube.engine.predicates import Ints
from seqube.events import Events
from seqube.plan.aggregates import AggregatePlan
from seqube.plan.sharing import SharingPlan

_WAYS = {"prefix-tree": count_by_tree, "chop-connect": count_by_pieces}


class SharedAggregator(Reporter[dict[str, pa.Table]]):
    """Runs the queries of a sharing plan over a stream that comes in batches; a report has a table for each, by name.

    The limits are those of a step for all that is counted together, and for each query that is counted by itself.
    """

    def __init__(self, sharing: SharingPlan, plans: Mapping[str, AggregatePlan], limits: Limits = NO_LIMITS) -> None:
        self._sharing, self._limits = sharing, limits
        self._alone = {name: Aggregator(plans[name], limits) for name in sharing.queries}
        self._types = frozenset().union(*(plans[name].matches.types for name in sharing.queries))
        self._window = max((query.window for query in sharing.queries.values()), default=0)

    def number(self, events: Events, known: Ints | None) -> None:
        """Windows that count events are not shared."""

    def wake(self, state: State) -> None:
        """Reports are made at events."""

    def decide(self, state: State, upto: int, final: bool) -> tuple[State, dict[str, pa.Table]]:
        assert state.events is not None
        events, counts = state.events, dict[str, Floats]()
        if self._sharing.strategy in _WAYS:
            labels = Labels(self._sharing, events)
            counts = _WAYS[self._sharing.strategy](self._sharing, labels, events, self._limits.budget())
        tables = {}
        for name, aggregator in self._alone.items():
            if name not in counts or not (counts[name] < EXACT).all():
                tables[name] = aggregator.decide(state, upto, final)[1]
                continue
            moments = labels.moments(self._sharing.queries[name].pattern[-1])
            due = (moments > state.reported) & (moments <= upto)
            tables[name] = aggregator.report_counts(state, upto, final, counts[name][due].astype(np.int64))
        rows = events.rows_of(self._types)
        kept = rows[events.times[rows] > minus(np.array([upto]), self._window)[0]]
        return replace(state, events=events.take(kept), decided=upto, reported=upto), tables
