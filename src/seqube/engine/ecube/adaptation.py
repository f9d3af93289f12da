"""A workload over a stream that comes in batches: plans follow the stream, and queries come and go.

Every query's matches come out as if it ran by itself, however they are computed. Events are stored once, for all queries, as
long as the longest window reaches; of matches, only those are kept that a longer pattern may still be made from, as long as
their own window lasts.

After each batch the running estimates, of events and of matches, are compared with those the plan was made for. When they have
drifted Chase plans anew, and where that promises more than switching costs, the plan is switched: matches that the new plan needs
and the old one did not keep are computed from the events in the window, and nothing of that is put out. A query that is added sees
the events that arrive from then on; until those are all that is kept, it runs by itself.

Written as bytes are the events, and what was counted of the stream. The plan is made again from that and may be another one than
before; matches that it keeps are computed from the events as for any switch.

Cost of a step: the events kept and the new ones, for each query, plus the matches found and those kept.

    Paper (section 6)                  | Here
    running estimate of statistics     | Pace
    error threshold, theta             | drift
    performance threshold, gamma       | gain
    discard and rebuild results        | SharedMatcher.switch
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from seqube.engine.ecube.reuse import Batches, Matches, Sharing, batch_of, write_matches
from seqube.engine.instances import Batch, minus
from seqube.engine.limits import NO_LIMITS, Limits
from seqube.engine.operator import Operator, open_plan
from seqube.engine.predicates import Evaluator, Ints
from seqube.engine.sequence import LOWEST
from seqube.engine.snapshots import read_state, write_state
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
RARE = 16  # events of a type below which its rate says nothing

NONE = Matches()  # at the beginning of a stream

_Value = TypeVar("_Value")


@dataclass(frozen=True)
class Pace:
    """A running estimate of a stream: events by type, matches by query and batches over a span of time. The old fades out."""

    counts: Mapping[str, float] = field(default_factory=dict)
    matches: Mapping[str, float] = field(default_factory=dict)
    n: float = 0.0
    span: float = 0.0
    n_batches: float = 0.0

    def after(self, batch: Events, elapsed: int, horizon: int) -> Pace:
        """With a batch more, so long after the one before."""
        fade = 0.5 ** (elapsed / max(horizon, 1))
        return Pace(
            _sum(self.counts, batch.statistics.counts, fade),
            _sum(self.matches, {}, fade),
            self.n * fade + len(batch),
            self.span * fade + elapsed,
            self.n_batches * fade + 1,
        )

    def finding(self, found: Mapping[str, int]) -> Pace:
        """With so many matches more."""
        return replace(self, matches=_sum(self.matches, found))

    def estimates(self, unit: str, units: Units = UNIT_COSTS) -> Estimates:
        statistics = Statistics(round(self.n), 0, round(self.span), {name: round(count) for name, count in self.counts.items()})
        # What is paid whatever the size is paid for every batch.
        n_batches = max(1.0, self.n_batches)
        units = units._replace(query=units.query * n_batches, step=units.step * n_batches)
        sizes = {name: max(found, 0.5) for name, found in self.matches.items()}
        return Estimates(Measurements(statistics, unit, sizes=sizes), units)

    def drifted(self, since: Pace, threshold: float) -> bool:
        """Whether the rate of a type or of a query's matches that is not rare has changed by more than the threshold.

        Rates of types alone do not tell: the same events may come in another order, or agree on other values.
        """
        return self._changed(self.counts, since.counts, since, threshold) or self._changed(
            self.matches, since.matches, since, threshold
        )

    def _changed(self, found: Mapping[str, float], before: Mapping[str, float], since: Pace, threshold: float) -> bool:
        for name in {*found, *before}:
            now, then = found.get(name, 0.0) / max(self.span, 1.0), before.get(name, 0.0) / max(since.span, 1.0)
            if max(now, then) * self.span >= RARE and abs(now - then) > threshold * then:
                return True
        return False


def _sum(old: Mapping[str, float], new: Mapping[str, int], fade: float = 1.0) -> dict[str, float]:
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
    last: int = LOWEST  # time of the last event
    kept: Mapping[str, Matches] = field(default_factory=dict)
    young: Mapping[str, int] = field(default_factory=dict)  # queries that must not see events that arrived before this one
    apart: Mapping[str, Any] = field(default_factory=dict)  # states of queries that cannot share
    pace: Pace = Pace()
    planned: Pace = Pace()  # what the plan was made for
    n_switches: int = 0

    @property
    def reported(self) -> int:
        return self.decided

    @property
    def has_begun(self) -> bool:
        return self.events is not None

    @property
    def n_kept(self) -> int:
        return (0 if self.events is None else len(self.events)) + sum(int(state.n_kept) for state in self.apart.values())

    @property
    def n_bytes(self) -> int:
        own = 0 if self.events is None else int(self.events.table.nbytes) + self.arrivals.nbytes
        matches = sum(piece.nbytes for matches in self.kept.values() for piece in matches.pieces)
        return own + matches + sum(int(state.n_bytes) for state in self.apart.values())

    def to_bytes(self) -> bytes:
        """The events and what was counted; plans and the matches that are kept follow from these."""
        about = {
            "decided": self.decided,
            "last": self.last,
            "seen": self.n_seen,
            "switches": self.n_switches,
            "young": self.young,
            "queries": _texts(self.queries),
            "pace": asdict(self.pace),
            "planned": asdict(self.planned),
        }
        begun = {name: state for name, state in self.apart.items() if state.has_begun}
        states = pa.array([state.to_bytes() for state in begun.values()], pa.binary())
        apart = pa.table({"query": pa.array(begun, pa.string()), "state": states})
        return write_state(self.events, self.arrivals, about, apart)


class SharedMatcher(Operator[SharedState, dict[str, pa.Table]]):
    """Runs a workload over a stream; what comes out is a table for each query, by name.

    Between steps queries come (`add`) and go (`remove`), and plans change (`switch`). What was written is restored by a matcher of
    the queries there were then. The limits are those of a step.
    """

    def __init__(
        self,
        queries: Mapping[str, Query],
        hierarchy: Hierarchy | None = None,
        strategy: str = "chase",
        drift: float = 0.5,
        gain: float = 0.1,
        units: Units = UNIT_COSTS,
        limits: Limits = NO_LIMITS,
    ) -> None:
        self._queries, self._hierarchy, self._strategy, self._limits = dict(queries), hierarchy, strategy, limits
        self._drift, self._gain, self._units = drift, gain, units
        self._operators: dict[Query, Operator[Any, pa.Table]] = {}

    def start(self) -> SharedState:
        optimizer = Chase(self._queries, self._hierarchy, streaming=True)
        plan = optimizer.plan(self._strategy, Pace().estimates("ms", self._units))
        apart = {name: self._alone(self._queries[name]).start() for name in optimizer.apart}
        return SharedState(self._queries, optimizer, plan, apart=apart)

    def restore(self, data: bytes) -> SharedState:
        events, arrivals, about, apart = read_state(data)
        if about["queries"] != _texts(self._queries):
            raise DataError("this is the state of other queries\n  hint: give the queries that it was written with")
        state = self.start()
        assert arrivals is not None
        if apart is not None:
            for name, written in zip(apart.column("query").to_pylist(), apart.column("state").to_pylist(), strict=True):
                state = replace(state, apart={**state.apart, name: self._alone(self._queries[name]).restore(written)})
        state = replace(
            state,
            events=events,
            arrivals=arrivals,
            n_seen=about["seen"],
            decided=about["decided"],
            last=about["last"],
            young=about["young"],
            pace=Pace(**about["pace"]),
        )
        planned = Pace(**about["planned"])
        return replace(self._replanned(state, planned), n_switches=about["switches"], planned=planned)

    def resume(self, events: Events, decided: int, reported: int, last: int) -> SharedState:
        state = self.start()
        apart = {name: self._alone(self._queries[name]).resume(events, decided, reported, last) for name in state.apart}
        known = replace(state, events=events, arrivals=np.arange(len(events)), n_seen=len(events), decided=decided, last=last)
        return self.switch(replace(known, apart=apart), state.plan)

    def wake(self, state: SharedState) -> int | None:
        """Those that share never wait; of the others, the first that does."""
        due = [self._alone(state.queries[name]).wake(alone) for name, alone in state.apart.items()]
        return min((time for time in due if time is not None), default=None)

    def take(self, state: SharedState, batch: Events) -> SharedState:
        events = batch if state.events is None else Events.concat([state.events, batch])
        arrivals = np.concatenate([state.arrivals, np.arange(state.n_seen, state.n_seen + len(batch))])
        apart = {name: self._alone(state.queries[name]).take(alone, batch) for name, alone in state.apart.items()}
        state = replace(state, events=events, arrivals=arrivals, n_seen=state.n_seen + len(batch), apart=apart)
        if not len(batch):
            return state
        elapsed = int(batch.times[-1]) - (int(batch.times[0]) if state.last == LOWEST else state.last)
        pace = state.pace.after(batch, elapsed, HORIZON * self._window(state))
        return replace(state, pace=pace, last=int(batch.times[-1]))

    def decide(self, state: SharedState, upto: int, final: bool) -> tuple[SharedState, dict[str, pa.Table]]:
        tables: dict[str, pa.Table] = {}
        apart: dict[str, Any] = dict(state.apart)
        for name, alone in state.apart.items():
            if alone.has_begun:
                apart[name], tables[name] = self._alone(state.queries[name]).decide(alone, upto, final)
        state, found = self._find(replace(state, apart=apart), upto)
        state = replace(state, pace=state.pace.finding({name: len(table) for name, table in found.items()}))
        return state if final else self._adapt(state), tables | found

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
        batches = self._batches(state.events) if state.events is not None else None
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

    def _find(self, state: SharedState, upto: int) -> tuple[SharedState, dict[str, pa.Table]]:
        """The matches of the queries that share, and of those that will."""
        assert state.events is not None
        events, batches = state.events, self._batches(state.events)
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
        if plan.seconds * (1 + self._gain) + self._rebuilding(state, plan, estimates) < state.optimizer.cost(state.plan, estimates):
            return self.switch(state, plan)
        return replace(state, planned=state.pace)

    def _rebuilding(self, state: SharedState, plan: SharedPlan, estimates: Estimates) -> float:
        """What it costs to switch: the matches of the window that the plan goes on from, and that are not kept yet."""
        missing = {name: state.optimizer.cuboids[name] for name in _extended(plan) - state.kept.keys()}
        windows = self._window(state) / max(state.pace.span, 1.0)  # of the time that the estimates are for
        return windows * sum(estimates.alone(missing[name], size) for name, size in estimates.all_sizes(missing).items())

    def _batches(self, events: Events) -> Batches:
        return Batches(events, self._limits.budget())

    def _grown(self, state: SharedState) -> SharedState:
        """Queries that see all the events that are kept take part in the plan."""
        oldest = int(state.arrivals[0]) if len(state.arrivals) else state.n_seen
        young = {name: arrival for name, arrival in state.young.items() if arrival > oldest}
        return state if len(young) == len(state.young) else self._replanned(replace(state, young=young))

    def _replanned(self, state: SharedState, pace: Pace | None = None) -> SharedState:
        """A plan for the queries that there are now, and for how the stream is now, or was."""
        sharing = {name: query for name, query in state.queries.items() if name not in state.young and name not in state.apart}
        optimizer = Chase(sharing, self._hierarchy, streaming=True)
        unit = state.events.unit if state.events is not None else "ms"
        plan = optimizer.plan(self._strategy, (pace or state.pace).estimates(unit, self._units))
        return self.switch(replace(state, optimizer=optimizer), plan)

    def _alone(self, query: Query) -> Operator[Any, pa.Table]:
        if query not in self._operators:
            self._operators[query] = open_plan(plan_query(query, self._hierarchy), self._limits)
        return self._operators[query]


def _texts(queries: Mapping[str, Query]) -> dict[str, str]:
    return {name: str(query) for name, query in queries.items()}


def _without(of: Mapping[str, _Value], name: str) -> dict[str, _Value]:
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
