"""A workload over a stream that comes in batches: plans follow the stream, and queries come and go.

Every query's matches come out as if it ran by itself, however they are computed. Events are stored once, for all queries, as
long as the longest window reaches; of matches, only those are kept that a longer pattern may still be made from, as long as
their own window lasts.

After each batch the running estimates are compared with those the plan was made for. When they have drifted Chase plans anew,
and where that promises enough, the plan is switched: matches that the new plan needs and the old one did not keep are computed
from the events in the window, and nothing of that is put out. A query that is added sees the events that arrive from then on;
until those are all that is kept, it runs by itself.

Cost of a step: the events kept and the new ones, for each query, plus the matches found and those kept.

    Paper (section 6)                  | Here
    running estimate of statistics     | Pace
    error threshold, theta             | drift
    performance threshold, gamma       | gain
    discard and rebuild results        | SharedMatcher.switch
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from seqube.engine.ecube.reuse import Batches, Matches, Sharing, batch_of, write_matches
from seqube.engine.instances import Batch, minus
from seqube.engine.operator import Operator, open_plan
from seqube.engine.predicates import Evaluator, Ints
from seqube.engine.sequence import HIGHEST, LOWEST
from seqube.errors import DataError, PlanError, did_you_mean
from seqube.events import Events, Hierarchy, Statistics
from seqube.language.tree import Query
from seqube.plan.chase import UNIT_COSTS, Chase, Estimates, SharedPlan, SharedStep, Units
from seqube.plan.derivation import Narrow
from seqube.plan.measured import Measurements
from seqube.plan.optimizer import plan_query
from seqube.plan.physical import ticks
from seqube.plan.planner import plan_matches

HORIZON = 8  # windows after which the running estimates have half forgotten
FEW = 16  # events of a type below which its rate says nothing

NONE = Matches()  # at the beginning of a stream

Value = TypeVar("Value")


@dataclass(frozen=True)
class Pace:
    """A running estimate of a stream: events by type, matches by query and batches over a span of time. The old fades out."""

    counts: Mapping[str, float] = field(default_factory=dict)
    matches: Mapping[str, float] = field(default_factory=dict)
    n: float = 0.0
    span: float = 0.0
    n_batches: float = 0.0

    def after(self, batch: Events, elapsed: int, found: Mapping[str, int], horizon: int) -> Pace:
        fade = 0.5 ** (elapsed / max(horizon, 1))
        return Pace(
            _faded(self.counts, fade, batch.statistics.counts),
            _faded(self.matches, fade, found),
            self.n * fade + len(batch),
            self.span * fade + elapsed,
            self.n_batches * fade + 1,
        )

    def estimates(self, unit: str, units: Units = UNIT_COSTS) -> Estimates:
        statistics = Statistics(round(self.n), 0, round(self.span), {name: round(count) for name, count in self.counts.items()})
        # What is paid whatever the size is paid for every batch.
        n_batches = max(1.0, self.n_batches)
        units = units._replace(query=units.query * n_batches, step=units.step * n_batches)
        sizes = {name: max(found, 0.5) for name, found in self.matches.items()}
        return Estimates(Measurements(statistics, unit, sizes=sizes), units)

    def drifted(self, since: Pace, threshold: float) -> bool:
        """Whether the rate of a type that is not rare has changed by more than the threshold."""
        for name in {*self.counts, *since.counts}:
            now, then = (pace.counts.get(name, 0.0) / max(pace.span, 1.0) for pace in (self, since))
            if max(now, then) * self.span >= FEW and abs(now - then) > threshold * then:
                return True
        return False


def _faded(old: Mapping[str, float], fade: float, new: Mapping[str, int]) -> dict[str, float]:
    return {name: old.get(name, 0.0) * fade + new.get(name, 0) for name in {*old, *new}}


@dataclass(frozen=True)
class SharedState:
    """What must be remembered of a stream for a workload: events in the window, and matches that others are made from."""

    queries: Mapping[str, Query]
    optimizer: Chase
    plan: SharedPlan
    events: Events | None = None
    arrivals: Ints = field(default_factory=lambda: np.empty(0, np.int64))  # of the kept events, counted from the beginning
    n_seen: int = 0
    decided: int = LOWEST
    kept: Mapping[str, Matches] = field(default_factory=dict)
    young: Mapping[str, int] = field(default_factory=dict)  # queries that must not see events that arrived before this one
    apart: Mapping[str, Any] = field(default_factory=dict)  # states of queries that cannot share
    pace: Pace = Pace()
    planned: Pace = Pace()  # what the plan was made for
    n_switches: int = 0


class SharedMatcher:
    """Runs a workload over a stream: `start`, `step` for each batch, `finish`; `add`, `remove` and `switch` between steps."""

    def __init__(
        self,
        hierarchy: Hierarchy | None = None,
        strategy: str = "chase",
        drift: float = 0.5,
        gain: float = 0.1,
        units: Units = UNIT_COSTS,
    ) -> None:
        self._hierarchy, self._strategy, self._drift, self._gain, self._units = hierarchy, strategy, drift, gain, units

    def start(self, queries: Mapping[str, Query]) -> SharedState:
        optimizer = Chase(queries, self._hierarchy, streaming=True)
        plan = optimizer.plan(self._strategy, Pace().estimates("ms", self._units))
        apart = {name: self._alone(queries[name]).start() for name in optimizer.apart}
        return SharedState(dict(queries), optimizer, plan, apart=apart)

    def step(self, state: SharedState, batch: Events) -> tuple[SharedState, dict[str, pa.Table]]:
        """Take the next batch, which must not begin before the last one ended."""
        if state.events is not None and len(batch) and int(batch.times[0]) <= state.decided:
            raise DataError(
                f"an event at {int(batch.times[0])} comes after the stream was decided up to {state.decided}\n"
                "  hint: feed events in time order; late ones belong to the late output"
            )
        since = state.events.times[-1] if state.events is not None and len(state.events) else None
        events = batch if state.events is None else Events.concat([state.events, batch])
        arrivals = np.concatenate([state.arrivals, np.arange(state.n_seen, state.n_seen + len(batch))])
        state = replace(state, events=events, arrivals=arrivals, n_seen=state.n_seen + len(batch))
        upto = max(state.decided, int(batch.times[-1]) - 1) if len(batch) else state.decided
        tables: dict[str, pa.Table] = {}
        apart: dict[str, Any] = {}
        for name, alone in state.apart.items():
            apart[name], tables[name] = self._alone(state.queries[name]).step(alone, batch)
        state, found = self._decide(replace(state, apart=apart), upto)
        if len(batch):
            elapsed = int(batch.times[-1] - (since if since is not None else batch.times[0]))
            sizes = {name: len(table) for name, table in found.items()}
            state = replace(state, pace=state.pace.after(batch, elapsed, sizes, HORIZON * self._window(state)))
        return self._adapt(state), tables | found

    def finish(self, state: SharedState) -> tuple[SharedState, dict[str, pa.Table]]:
        """All that is left at the end of the stream."""
        if state.events is None:
            return state, {}
        left = {name: self._alone(state.queries[name]).finish(alone)[1] for name, alone in state.apart.items()}
        state, found = self._decide(state, HIGHEST)
        return state, {name: table for name, table in left.items() if table is not None} | found

    def add(self, state: SharedState, name: str, query: Query) -> SharedState:
        """Another query, for the events that arrive from now on."""
        if name in state.queries:
            raise PlanError(f"there is a query {name!r} already\n  hint: remove it first, or take another name")
        optimizer = Chase({name: query}, self._hierarchy, streaming=True)
        queries = {**state.queries, name: query}
        if name in optimizer.apart:
            return replace(state, queries=queries, apart={**state.apart, name: self._alone(query).start()})
        return self._grown(replace(state, queries=queries, young={**state.young, name: state.n_seen}))

    def remove(self, state: SharedState, name: str) -> SharedState:
        if name not in state.queries:
            raise PlanError(f"there is no query {name!r}\n  hint: {did_you_mean(name, state.queries)}")
        state = replace(
            state, queries=_without(state.queries, name), young=_without(state.young, name), apart=_without(state.apart, name)
        )
        return self._replanned(state) if name in state.optimizer.cuboids else state

    def switch(self, state: SharedState, plan: SharedPlan) -> SharedState:
        """Go on by another plan for the same queries; nothing is lost or found twice."""
        kept = {}
        batches = Batches(state.events) if state.events is not None else None
        for step in plan.steps:
            if batches is not None and step.name in _extended(plan):
                if step.name in state.kept:
                    kept[step.name] = state.kept[step.name]
                else:
                    batch = batches.of(step.query)
                    found = Sharing(batch, LOWEST, state.decided).compute(step.plan)
                    kept[step.name] = _still_open(found, batch, state.decided)
        return replace(state, plan=plan, kept=kept, planned=state.pace, n_switches=state.n_switches + 1)

    # ------------------------------------------------------------ deciding

    def _decide(self, state: SharedState, upto: int) -> tuple[SharedState, dict[str, pa.Table]]:
        assert state.events is not None
        events, batches = state.events, Batches(state.events)
        evaluator = Evaluator(events)
        extended = _extended(state.plan)
        new: dict[str, Matches] = {}
        kept: dict[str, Matches] = {}
        tables: dict[str, pa.Table] = {}
        for step in state.plan.steps:
            batch = batches.of(step.query)
            sharing = Sharing(batch, state.decided, upto)
            if step.source is None:
                new[step.name] = sharing.compute(step.plan)
            else:
                # What ends later than its source can be made from matches that were found before.
                older = state.kept.get(step.source, NONE).pieces if _extends(step) else ()
                new[step.name] = sharing.derive(step.derivation, Matches((*older, *new[step.source].pieces)))
            if step.name in extended:
                found = Matches((*state.kept.get(step.name, NONE).pieces, *new[step.name].pieces))
                kept[step.name] = _still_open(found, batch, upto)
            tables[step.name] = write_matches(step.plan, new[step.name], events, evaluator)
        for name, arrival in state.young.items():
            plan, query = plan_matches(state.queries[name], self._hierarchy), state.queries[name]
            first = int(np.searchsorted(state.arrivals, arrival))
            sharing = Sharing(batch_of(query, events.slice(first, len(events))), state.decided, upto)
            tables[name] = write_matches(
                plan, Matches(tuple(piece + first for piece in sharing.compute(plan).pieces)), events, evaluator
            )
        return self._purge(replace(state, kept=kept, decided=upto), batches), tables

    def _purge(self, state: SharedState, batches: Batches) -> SharedState:
        """Forget events that no later match can hold or be cancelled by, and number the rest anew."""
        events = batches.events
        plans = [plan_matches(query, self._hierarchy) for name, query in state.queries.items() if name not in state.apart]
        rows = events.rows_of(frozenset().union(*(plan.types for plan in plans)))
        rows = rows[events.times[rows] > minus(np.array([state.decided]), self._window(state))[0]]
        numbers = np.zeros(len(events), np.int64)
        numbers[rows] = np.arange(len(rows))
        kept = {name: Matches(tuple(numbers[piece] for piece in matches.pieces)) for name, matches in state.kept.items()}
        return self._grown(replace(state, events=events.take(rows), arrivals=state.arrivals[rows], kept=kept))

    def _window(self, state: SharedState) -> int:
        """The longest window of the queries that share their events."""
        assert state.events is not None
        queries = [query for name, query in state.queries.items() if name not in state.apart]
        return max((ticks(query.window, state.events.unit) for query in queries), default=0)

    # ------------------------------------------------------------ changing plans

    def _adapt(self, state: SharedState) -> SharedState:
        if state.events is None or not state.pace.drifted(state.planned, self._drift):
            return state
        estimates = state.pace.estimates(state.events.unit, self._units)
        plan = state.optimizer.plan(self._strategy, estimates)
        if plan.seconds * (1 + self._gain) < state.optimizer.cost(state.plan, estimates):
            return self.switch(state, plan)
        return replace(state, planned=state.pace)

    def _grown(self, state: SharedState) -> SharedState:
        """Queries that see all the events that are kept take part in the plan."""
        oldest = int(state.arrivals[0]) if len(state.arrivals) else state.n_seen
        young = {name: arrival for name, arrival in state.young.items() if arrival > oldest}
        return state if len(young) == len(state.young) else self._replanned(replace(state, young=young))

    def _replanned(self, state: SharedState) -> SharedState:
        """A plan for the queries that there are now."""
        sharing = {name: query for name, query in state.queries.items() if name not in state.young and name not in state.apart}
        optimizer = Chase(sharing, self._hierarchy, streaming=True)
        unit = state.events.unit if state.events is not None else "ms"
        plan = optimizer.plan(self._strategy, state.pace.estimates(unit, self._units))
        return self.switch(replace(state, optimizer=optimizer), plan)

    def _alone(self, query: Query) -> Operator[Any, pa.Table]:
        return open_plan(plan_query(query, self._hierarchy))


def _without(of: Mapping[str, Value], name: str) -> dict[str, Value]:
    return {other: value for other, value in of.items() if other != name}


def _extends(step: SharedStep) -> bool:
    first = step.derivation[0]
    return isinstance(first, Narrow) and first.extends


def _extended(plan: SharedPlan) -> set[str]:
    """The queries whose matches are kept for the window, because matches that end later are made from them."""
    return {step.source for step in plan.steps if step.source is not None and _extends(step)}


def _still_open(matches: Matches, batch: Batch, upto: int) -> Matches:
    """Matches whose window is not over."""
    bound = minus(np.array([upto]), batch.window)[0]
    return matches.select(batch.clocks[piece[0]] > bound for piece in matches.pieces)
