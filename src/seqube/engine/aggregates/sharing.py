"""A workload counted together over a stream: one store of events for all queries, one pass over what is new for all counts.

The counters of a way to share go on from step to step. Counts are doubles; of a query whose counts reach 2^53 the window is counted
again by itself, exactly. So the events of the window are kept, and only looked at then, and when a state that was written goes on:
counters are made of them anew.

Cost: that of the way the plan chose (`prefix_tree`, `chop_connect`, or every query by itself) for the new events.
Invariant: counters have seen the events up to `decided`, each once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from seqube.engine.aggregates.aggregation import Aggregator
from seqube.engine.aggregates.chop_connect import Connected
from seqube.engine.aggregates.labels import Labels, label_numbers
from seqube.engine.aggregates.lanes import EXACT
from seqube.engine.aggregates.prefix_tree import PrefixTrees
from seqube.engine.aggregates.state import Pending, State
from seqube.engine.instances import minus
from seqube.engine.kept import Kept
from seqube.engine.limits import NO_LIMITS, Limits
from seqube.engine.operator import Operator
from seqube.engine.sequence import LOWEST
from seqube.engine.snapshots import bundle, read_state, unbundle, write_state
from seqube.errors import DataError
from seqube.events import Events
from seqube.plan.aggregates import AggregatePlan
from seqube.plan.sharing import SharingPlan

_WAYS: dict[str, type[PrefixTrees] | type[Connected]] = {
    "prefix-tree": PrefixTrees,
    "chop-connect": Connected,
    "exhaustive": Connected,
}


@dataclass(slots=True)
class Together:
    """What is remembered of a stream whose queries are counted together."""

    alone: dict[str, Any]  # the states of queries that are counted by themselves
    pending: Pending | None = None  # None before the first batch
    kept: Kept | None = None  # events of the window that were taken
    counters: PrefixTrees | Connected | None = None
    decided: int = LOWEST
    reported: int = LOWEST

    @property
    def has_begun(self) -> bool:
        return self.pending is not None

    @property
    def n_kept(self) -> int:
        return (len(self.pending) if self.pending else 0) + (len(self.kept) if self.kept else 0)

    @property
    def n_bytes(self) -> int:
        parts = (self.pending, self.kept, self.counters, *self.alone.values())
        return sum(part.n_bytes for part in parts if part is not None)

    @property
    def events(self) -> Events | None:
        return self._events if self.n_kept else None

    @property
    def _events(self) -> Events:
        assert self.pending is not None
        return Events.concat([*([self.kept.events] if self.kept else []), self.pending.events])

    def to_bytes(self) -> bytes:
        if self.pending is None:
            raise DataError("a stream that has not begun has no state to write")
        about = {"decided": self.decided, "reported": self.reported, "last": self.pending.last}
        states = {name: np.frombuffer(state.to_bytes(), np.uint8) for name, state in self.alone.items()}
        return write_state(self._events, None, about, bundle(states) if states else None)


class SharedAggregator(Operator[Together, dict[str, pa.Table]]):
    """Runs the queries of a sharing plan over a stream that comes in batches; a report has a table for each, by name.

    The limits are those of a step for all that is counted together, and for each query that is counted by itself.
    """

    def __init__(self, sharing: SharingPlan, plans: Mapping[str, AggregatePlan], limits: Limits = NO_LIMITS) -> None:
        self._sharing, self._limits = sharing, limits
        self._way = _WAYS.get(sharing.strategy)
        self._aggregators = {name: Aggregator(plans[name], limits) for name in sharing.queries}
        self._labels = label_numbers(sharing)
        self._types = frozenset().union(*(plans[name].matches.types for name in sharing.queries))
        self._window = max((query.window for query in sharing.queries.values()), default=0)

    def start(self) -> Together:
        alone = {} if self._way else {name: aggregator.start() for name, aggregator in self._aggregators.items()}
        return Together(alone, counters=self._way(self._sharing, self._labels) if self._way else None)

    def restore(self, data: bytes) -> Together:
        events, _, about, beside = read_state(data)
        state = self.resume(events, about["decided"], about["reported"], about["last"])
        for name, written in (unbundle(beside) if beside is not None else {}).items():
            state.alone[name] = self._aggregators[name].restore(written.tobytes())
        return state

    def resume(self, events: Events, decided: int, reported: int, last: int) -> Together:
        state = self.start()
        state.pending, state.decided, state.reported = Pending(events, last), decided, reported
        if state.counters is not None:
            self._count(state, state.pending.release(decided))
        return state

    def wake(self, state: Together) -> None:
        """Reports are made at events."""

    def take(self, state: Together, batch: Events) -> Together:
        if state.pending is None:
            state.pending = Pending(batch.slice(0, 0))
        state.pending.take(batch)
        if len(batch) and state.reported == LOWEST:
            state.reported = int(batch.times[0]) - 1
        state.alone = {name: self._aggregators[name].take(own, batch) for name, own in state.alone.items()}
        return state

    def decide(self, state: Together, upto: int, final: bool) -> tuple[Together, dict[str, pa.Table]]:
        assert state.pending is not None
        events, tables = state.pending.release(upto), {}
        for name, own in state.alone.items():
            state.alone[name], tables[name] = self._aggregators[name].decide(own, upto, final)
        if state.counters is not None:
            labels = Labels(self._labels, events)
            counts = state.counters.count(labels, self._limits.budget())
            seen = State(events, reported=state.reported, last=state.pending.last)
            for name, aggregator in self._aggregators.items():
                if (counts[name] < EXACT).all():
                    tables[name] = aggregator.report_counts(seen, upto, final, counts[name].astype(np.int64))
                else:
                    tables[name] = aggregator.decide(self._whole(state, events), upto, final)[1]
            if not final:
                self._keep(state, events, upto)
        state.decided = state.reported = upto
        return state, tables

    def _whole(self, state: Together, events: Events) -> State:
        """The window with its new events."""
        assert state.pending is not None
        kept = [] if state.kept is None else [state.kept.events]
        return State(Events.concat([*kept, events]), reported=state.reported, last=state.pending.last)

    def _count(self, state: Together, events: Events) -> None:
        """Take events that were reported."""
        assert state.counters is not None
        state.counters.count(Labels(self._labels, events), self._limits.budget())
        self._keep(state, events, state.decided)

    def _keep(self, state: Together, events: Events, upto: int) -> None:
        assert state.pending is not None
        if state.kept is None:
            state.kept = Kept(state.pending.template)
        state.kept.append(events, events.times, events.rows_of(self._types))
        state.kept.drop_upto(int(minus(np.array([upto]), self._window)[0]), True)
