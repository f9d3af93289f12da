"""A workload over a stream that comes in batches: plans follow the stream, and queries come and go.

Every query's matches come out as if it ran by itself, however they are computed. Events are stored once, for all queries, as
long as the longest window reaches; what each way to compute a query remembers of them goes on from step to step (`live`), matches
among it that a longer pattern may still be made from, as long as their own window lasts.

After each batch the running estimates, of events and of matches, are compared with those the plan was made for. When they have
drifted Chase plans anew, and where that promises more than switching costs, the plan is switched: what the new plan remembers is
made from the events in the window, and nothing of that is put out. A query that is added sees the events that arrive from then on;
until those are all that is kept, it runs by itself.

Written as bytes are the events, and what was counted of the stream. The plan is made again from that and may be another one than
before; what it remembers is made from the events as for any switch.

Cost of a step: the new events, for each query, plus the matches found. Of a switch: the events kept, and the matches among them
that longer patterns may be made from.

    Paper (section 6)                  | Here
    running estimate of statistics     | Pace
    error threshold, theta             | drift
    performance threshold, gamma       | gain
    discard and rebuild results        | SharedMatcher.switch
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from seqube.engine.aggregates.state import Pending
from seqube.engine.ecube.live import CannotGoOn, LiveMatches, New
from seqube.engine.instances import minus
from seqube.engine.kept import Kept
from seqube.engine.limits import NO_LIMITS, Limits
from seqube.engine.operator import Operator, open_plan
from seqube.engine.predicates import Evaluator, Unsteady
from seqube.engine.sequence import LOWEST
from seqube.engine.snapshots import check_version, read_state, write_state
from seqube.errors import DataError, PlanError, did_you_mean
from seqube.events import Events, Hierarchy, Statistics
from seqube.language.tree import Query
from seqube.plan.chase import UNIT_COSTS, Chase, Estimates, SharedPlan, SharedStep, Units, planned
from seqube.plan.derivation import Narrow
from seqube.plan.measured import Measurements
from seqube.plan.optimizer import plan_query
from seqube.plan.physical import ticks

HORIZON = 8  # windows after which the running estimates have half forgotten
SHARED_LAYOUT = 2  # of what is written beside the events
RARE = 16  # events of a type below which its rate says nothing
SPARE_KEYS = 1 << 14  # keys that may be held in vain before all that is remembered is made anew


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


@dataclass(slots=True)
class SharedState:
    """What must be remembered of a stream for a workload: events in the window, and what ways to compute matches know of them."""

    queries: dict[str, Query]
    optimizer: Chase
    plan: SharedPlan
    alone: dict[str, Any]  # states of queries that have their own operator: those that cannot share, and young ones
    young: dict[str, int] = field(default_factory=dict)  # queries that will share, when nothing up to this time is kept any more
    pending: Pending | None = None  # events that are not decided; None before the first batch
    kept: Kept | None = None
    live: LiveMatches | None = None  # None: still to be made of what is kept
    decided: int = LOWEST
    pace: Pace = field(default_factory=Pace)
    planned: Pace = field(default_factory=Pace)  # what the plan was made for
    n_switches: int = 0

    @property
    def reported(self) -> int:
        return self.decided

    @property
    def last(self) -> int:
        """The time of the last event."""
        return LOWEST if self.pending is None else self.pending.last

    @property
    def has_begun(self) -> bool:
        return self.pending is not None

    @property
    def shared(self) -> dict[str, Query]:
        """The queries that share."""
        return {name: query for name, query in self.queries.items() if name not in self.alone}

    @property
    def events(self) -> Events | None:
        if self.kept is None or self.pending is None:
            return None
        return Events.concat([self.kept.events, self.pending.events])

    @property
    def n_kept(self) -> int:
        own = 0 if self.kept is None or self.pending is None else len(self.kept) + len(self.pending)
        return own + sum(int(state.n_kept) for state in self.alone.values())

    @property
    def n_bytes(self) -> int:
        parts = (self.kept, self.pending, self.live, *self.alone.values())
        return sum(int(part.n_bytes) for part in parts if part is not None)

    def to_bytes(self) -> bytes:
        """The events and what was counted; plans, and what is remembered for them, follow from these."""
        about = {
            "layout": SHARED_LAYOUT,
            "decided": self.decided,
            "last": self.last,
            "kept": 0 if self.kept is None else len(self.kept),
            "switches": self.n_switches,
            "young": self.young,
            "alone": list(self.alone),
            "queries": _texts(self.queries),
            "pace": asdict(self.pace),
            "planned": asdict(self.planned),
        }
        begun = {name: state for name, state in self.alone.items() if state.has_begun}
        states = pa.array([state.to_bytes() for state in begun.values()], pa.binary())
        return write_state(self.events, None, about, pa.table({"query": pa.array(begun, pa.string()), "state": states}))


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
        alone = {name: self._alone(self._queries[name]).start() for name in optimizer.apart}
        return SharedState(dict(self._queries), optimizer, plan, alone)

    def _restored(self, data: bytes) -> SharedState:
        events, _, about, written = read_state(data)
        check_version(about.get("layout", 1), SHARED_LAYOUT)
        if about["queries"] != _texts(self._queries):
            raise DataError("this is the state of other queries\n  hint: give the queries that it was written with")
        state = self.start()
        state.alone = {name: self._alone(self._queries[name]).start() for name in about["alone"]}
        if written is not None:
            for name, own in zip(written.column("query").to_pylist(), written.column("state").to_pylist(), strict=True):
                state.alone[name] = self._alone(self._queries[name]).restore(own)
        _hold(state, events, about["kept"], about["decided"], about["last"])
        state.young, state.pace = about["young"], Pace(**about["pace"])
        before = Pace(**about["planned"])
        self._replan(state, before)
        state.n_switches, state.planned = about["switches"], before
        return state

    def resume(self, events: Events, decided: int, reported: int, last: int) -> SharedState:
        state = self.start()
        state.alone = {name: self._alone(self._queries[name]).resume(events, decided, reported, last) for name in state.alone}
        _hold(state, events, int(np.searchsorted(events.times, decided, "right")), decided, last)
        return state

    def goes_on(self, events: Events) -> bool:
        return all(self._alone(query).goes_on(events) for query in self._queries.values())

    def wake(self, state: SharedState) -> int | None:
        """Those that share never wait; of the others, the first that does."""
        due = [self._alone(state.queries[name]).wake(alone) for name, alone in state.alone.items()]
        return min((time for time in due if time is not None), default=None)

    def take(self, state: SharedState, batch: Events) -> SharedState:
        if state.pending is None:
            _hold(state, batch.slice(0, 0), 0, state.decided, LOWEST)
        assert state.pending is not None
        before = state.last
        rows = batch.rows_of(self._types(state))
        state.pending.take(batch if len(rows) == len(batch) else batch.take(rows))
        if len(batch):
            state.pending.last = max(before, int(batch.times[-1]))
        for name, alone in state.alone.items():
            state.alone[name] = self._alone(state.queries[name]).take(alone, batch)
        if len(batch):
            elapsed = int(batch.times[-1]) - (int(batch.times[0]) if before == LOWEST else before)
            state.pace = state.pace.after(batch, elapsed, HORIZON * self._window(state))
        return state

    def decide(self, state: SharedState, upto: int, final: bool) -> tuple[SharedState, dict[str, pa.Table]]:
        self._go_on(state)
        found = self._find(state, upto)
        for name, alone in state.alone.items():
            if alone.has_begun and name not in found:
                state.alone[name], found[name] = self._alone(state.queries[name]).decide(alone, upto, final)
        state.decided = upto
        state.pace = state.pace.finding({name: len(found[name]) for name in state.shared})
        if not final:
            self._purge(state)
            self._adapt(state)
        return state, found

    def add(self, state: SharedState, name: str, query: Query) -> SharedState:
        """Another query, for the events that arrive from now on."""
        if name in state.queries:
            raise PlanError(f"there is a query {name!r} already\n  hint: remove it first, or take another name")
        state.queries[name] = query
        if name not in Chase({name: query}, self._hierarchy, streaming=True).apart:
            state.young[name] = state.last
        state.alone[name] = self._alone(query).start()
        self._grow(state)
        return state

    def remove(self, state: SharedState, name: str) -> SharedState:
        if name not in state.queries:
            raise PlanError(f"there is no query {name!r}\n  hint: {did_you_mean(name, state.queries)}")
        is_shared = name in state.shared
        del state.queries[name]
        state.young.pop(name, None)
        state.alone.pop(name, None)
        if is_shared:
            self._replan(state)
        return state

    def switch(self, state: SharedState, plan: SharedPlan) -> SharedState:
        """Go on by another plan for the same queries; nothing is lost or found twice."""
        state.plan, state.live, state.planned = plan, None, state.pace
        state.n_switches += 1
        return state

    # ------------------------------------------------------------ deciding

    def _find(self, state: SharedState, upto: int) -> dict[str, pa.Table]:
        """The matches of the queries that share, which the events up to here make final."""
        assert state.pending is not None
        assert state.kept is not None
        events, budget = state.pending.release(upto), self._limits.budget()
        if state.live is None:  # nothing shares yet; who is young will begin with what is kept
            state.kept.append(events, events.times)
            return {}
        try:
            read = state.live.read(events)
        except Unsteady:
            return self._fall_apart(state, events, upto)
        first = state.kept.append(events, events.times)
        found = state.live.step(New(events, first, Evaluator(events), state.kept, budget), read)
        return state.live.write(found, state.kept, budget)

    def _go_on(self, state: SharedState) -> None:
        """Make what the plan remembers of the events that are kept, where it is missing; where that cannot be, plan otherwise."""
        assert state.kept is not None
        while state.live is None and state.plan.steps:
            events = state.kept.events
            try:
                live = LiveMatches(state.plan, events.slice(0, 0))
                live.load(New(events, state.kept.head, Evaluator(events), state.kept, self._limits.budget()))
            except CannotGoOn as refused:
                self._refuse(state, refused.step)
            except Unsteady:
                self._fall_apart(state, events.slice(0, 0), state.decided)
            else:
                state.live = live

    def _refuse(self, state: SharedState, step: SharedStep) -> None:
        """Plan without a way that a plan has, or without a query that cannot be computed by itself with what is new alone."""
        if step.source is None:
            self._set_apart(state, step.name)
            state.optimizer = Chase(state.shared, self._hierarchy, streaming=True)
        else:
            state.optimizer.refuse(step)
        state.plan = state.optimizer.plan(state.plan.strategy, self._estimates(state))

    def _set_apart(self, state: SharedState, name: str) -> None:
        events, query = state.events, state.queries[name]
        assert events is not None
        state.alone[name] = self._alone(query).resume(events, state.decided, state.decided, state.last)

    def _fall_apart(self, state: SharedState, events: Events, upto: int) -> dict[str, pa.Table]:
        """There is a value that cannot be compared as it comes: from here on every query has its own operator, which may replay."""
        assert state.kept is not None
        names = list(state.shared)
        state.kept.append(events, events.times)
        for name in names:
            self._set_apart(state, name)
        state.optimizer = Chase({}, self._hierarchy, streaming=True)
        state.plan, state.live = state.optimizer.plan(state.plan.strategy, self._estimates(state)), None
        found = {}
        for name in names if len(events) else ():
            state.alone[name], found[name] = self._alone(state.queries[name]).decide(state.alone[name], upto, final=False)
        return found

    def _purge(self, state: SharedState) -> None:
        """Forget events that no later match can hold or be cancelled by."""
        assert state.kept is not None
        state.kept.drop_upto(self._forgotten(state), True)
        if state.live is not None:
            state.live.drop(state.decided, self._window(state))
            if state.live.n_codes > 2 * len(state.kept) + SPARE_KEYS:  # keys come and go: those that are gone are forgotten
                state.live = None
        self._grow(state)

    def _forgotten(self, state: SharedState) -> int:
        return int(minus(np.array([state.decided]), self._window(state))[0])

    def _sharing(self, state: SharedState) -> list[Query]:
        """The queries that share, and those that will: whose events are kept."""
        return [query for name, query in state.queries.items() if name not in state.alone or name in state.young]

    def _window(self, state: SharedState) -> int:
        """The longest window of the queries that share their events."""
        assert state.pending is not None
        return max((ticks(query.window, state.pending.template.unit) for query in self._sharing(state)), default=0)

    def _types(self, state: SharedState) -> frozenset[str]:
        return frozenset[str]().union(*(planned(query, self._hierarchy).types for query in self._sharing(state)))

    # ------------------------------------------------------------ changing plans

    def _adapt(self, state: SharedState) -> None:
        if not state.pace.drifted(state.planned, self._drift):
            return
        estimates = self._estimates(state)
        plan = state.optimizer.plan(self._strategy, estimates)
        if plan.seconds * (1 + self._gain) + self._rebuilding(state, plan, estimates) < state.optimizer.cost(state.plan, estimates):
            self.switch(state, plan)
        else:
            state.planned = state.pace

    def _rebuilding(self, state: SharedState, plan: SharedPlan, estimates: Estimates) -> float:
        """What it costs to switch to another plan: the matches of the window that it goes on from."""
        if plan is state.plan:
            return 0.0
        found = {step.source for step in plan.steps if step.source is not None and _extends(step)}
        sizes = estimates.all_sizes({name: state.optimizer.cuboids[name] for name in found})
        windows = self._window(state) / max(state.pace.span, 1.0)  # of the time that the estimates are for
        return windows * sum(estimates.alone(state.optimizer.cuboids[name], size) for name, size in sizes.items())

    def _grow(self, state: SharedState) -> None:
        """Queries that see all the events that are kept take part in the plan."""
        forgotten = LOWEST if state.pending is None else self._forgotten(state)
        grown = [name for name, time in state.young.items() if time <= forgotten]
        for name in grown:
            del state.young[name], state.alone[name]
        if grown:
            self._replan(state)

    def _replan(self, state: SharedState, pace: Pace | None = None) -> None:
        """A plan for the queries that there are now, and for how the stream is now, or was."""
        state.optimizer = Chase(state.shared, self._hierarchy, streaming=True)
        self.switch(state, state.optimizer.plan(self._strategy, self._estimates(state, pace)))

    def _estimates(self, state: SharedState, pace: Pace | None = None) -> Estimates:
        unit = "ms" if state.pending is None else state.pending.template.unit
        return (pace or state.pace).estimates(unit, self._units)

    def _alone(self, query: Query) -> Operator[Any, pa.Table]:
        if query not in self._operators:
            self._operators[query] = open_plan(plan_query(query, self._hierarchy), self._limits)
        return self._operators[query]


def _hold(state: SharedState, events: Events, n_kept: int, decided: int, last: int) -> None:
    """Let a state begin with these events, of which so many are decided."""
    state.kept, state.decided = Kept(events.slice(0, 0)), decided
    kept = events.slice(0, n_kept)
    state.kept.append(kept, kept.times)
    state.pending = Pending(events.slice(n_kept, len(events)), last)


def _extends(step: SharedStep) -> bool:
    """Whether matches end later than those they are made from."""
    first = step.derivation[0]
    return isinstance(first, Narrow) and first.extends


def _texts(queries: Mapping[str, Query]) -> dict[str, str]:
    return {name: str(query) for name, query in queries.items()}
