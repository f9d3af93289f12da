"""The queries of a running stream, which come, go and are replaced: each answers as if it had always been there.

That holds as far as the stream remembers. The last events are kept for queries that come later. A query that is added sees those,
and reports what becomes final from then on. Events up to `origin` are forgotten, so its answers are whole from `origin` plus what
it looks back on: that moment is its `since`. A query that is replaced goes on until its successor is whole: from the first
step on that comes to that moment, the other one reports.

           forgotten | kept           decided | still to come
    ------------------|------------------------|--------------------> time
                   origin        added here: ^         ^ since = origin + what it looks back on

Queries that are planned to be counted together have one operator between them, and so have those whose matches are to be made from
each other's, by a strategy that is asked for; what is added later has its own.

Cost of a step: that of the operators, and what it takes to keep the batch. Adding a query costs a run over the kept events.
Invariant: of every query each row comes out once, however it was replaced and whenever others came or went.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from seqube.engine.aggregates.buckets import TimeBuckets
from seqube.engine.ecube.adaptation import SharedMatcher, SharedState
from seqube.engine.limits import Limits
from seqube.engine.operator import Operator, open_plan
from seqube.engine.predicates import Ints
from seqube.engine.sequence import HIGHEST, LOWEST
from seqube.errors import PlanError, SchemaError, did_you_mean
from seqube.events import Events, Hierarchy, Schema, Statistics
from seqube.events.buffer import EventBuffer
from seqube.language import check, parse
from seqube.language.tree import Query
from seqube.plan.aggregates import AggregatePlan
from seqube.plan.explain import explain_workload
from seqube.plan.measured import Measurements
from seqube.plan.needs import Plan, needs_of
from seqube.plan.optimizer import ALONE, AUTO, WorkloadPlan, optimize
from seqube.plan.strategies import names

MOST_MOMENTS = 10_000  # that anybody asks for at once
KEPT_ANYWAY = 10_000  # events that are kept whatever the windows: while a stream is young, nothing has been forgotten

FinalTables = dict[str, pa.Table]


@dataclass(frozen=True)
class Asked:
    """What is asked of a stream beside its queries, all the time: an operator for its columns, and how far that looks back."""

    open: Callable[[Schema], Operator[Any, pa.Table]]
    back: Callable[[str], int]  # in ticks of a unit


@dataclass(eq=False)
class Standing:
    """One operator at work, for a query or for several that share."""

    queries: dict[str, Query]  # those that it answers, whether or not somebody wants to hear it
    plan: WorkloadPlan  # without a plan: what is asked beside the queries, under that name
    operator: Operator[Any, Any]
    origin: int = LOWEST  # it has seen every event after this time
    since: int | None = LOWEST  # its answers are whole from this time on; None where that is not known
    state: Any = None
    has_begun: bool = False
    n_rows: dict[str, int] = field(default_factory=dict)
    asked: str = ""  # the name of what is asked, where it is no query

    @property
    def is_shared(self) -> bool:
        return len(self.queries) > 1

    @property
    def n_switches(self) -> int:
        """How often the plan of a workload was changed, because its events or matches had."""
        return self.state.n_switches if isinstance(self.state, SharedState) else 0

    @property
    def plan_now(self) -> WorkloadPlan:
        """The plan, as it is after all changes."""
        return replace(self.plan, matches=self.state.plan) if isinstance(self.state, SharedState) else self.plan

    def is_whole_at(self, watermark: int) -> bool:
        """Whether all that becomes final from here on is whole."""
        return self.since is not None and self.since <= watermark

    def step(self, batch: Events | None, watermark: int) -> FinalTables:
        if batch is None and not self.has_begun:
            return {}
        self.state, rows = self.operator.step(self._started(), batch, watermark)
        self.has_begun = True
        return self._named(rows)

    def finish(self) -> FinalTables:
        if not self.has_begun:
            return {}
        self.state, rows = self.operator.finish(self.state)
        return self._named(rows)

    def restore(self, data: bytes | None) -> None:
        if data is not None:
            self.state, self.has_begun = self.operator.restore(data), True

    def to_bytes(self) -> bytes | None:
        return self.state.to_bytes() if self.has_begun else None

    def _started(self) -> Any:
        return self.state if self.has_begun else self.operator.start()

    def _named(self, rows: Any) -> FinalTables:
        if rows is None:
            return {}
        return rows if isinstance(rows, dict) else dict.fromkeys(self.queries or [self.asked], rows)


class StandingQueries:
    """All queries of a stream. Nothing is planned before the columns are known: `begin`."""

    def __init__(
        self,
        queries: Mapping[str, Query],
        hierarchy: Hierarchy | None,
        strategy: str,
        limits: Limits,
        asked: Mapping[str, Asked],
    ) -> None:
        self.queries = dict(queries)
        self._asked = asked
        self.hierarchy, self.strategy, self.limits = hierarchy, strategy, limits
        self.keep: int | None = None  # ticks; None: what the windows of the queries that return matches reach
        self.schema: Schema | None = None
        self.measured: Measurements | None = None
        self.watermark = LOWEST  # everything before it is decided
        self._span = (HIGHEST, LOWEST)  # when the first event came, and the last
        self.history = EventBuffer()
        self.origin = LOWEST  # every event after this time is in the history
        self._at_work: list[Standing] = []
        self._reporting: dict[str, Standing] = {}  # whose rows of a query go out
        self._successors: dict[str, Standing] = {}
        self._empty: dict[str, pa.Schema] = {}  # the columns that a query's rows had
        self._reach: int | None = None  # for how long events are kept, where that has been worked out since the last change

    # ------------------------------------------------------------ planning

    def begin(self, schema: Schema, measured: Measurements | None) -> None:
        """Check all queries against the columns, and plan them."""
        for query in self.queries.values():
            check(query, schema)
        self.schema, self.measured = schema, measured
        whole = optimize(self.queries, self.hierarchy, measured, self.strategy)
        together = {name: self.queries[name] for name in whole.counts.queries} if whole.counts is not None else {}
        matching = {name: query for name, query in self.queries.items() if not query.aggregates and self._shares_matches}
        groups = [group for group in (together, matching) if len(group) > 1]
        shared = {name for group in groups for name in group}
        groups += [{name: query} for name, query in self.queries.items() if name not in shared]
        for group in groups:
            self._put(self._made(group), group)
        for name in self._asked:
            self._put(self._made({}, name), [name])

    def _made(self, queries: Mapping[str, Query], asked: str = "") -> Standing:
        """An operator for these queries, or for what else is asked: the same whenever it is made for the same."""
        if not queries:
            assert self.schema is not None
            since = LOWEST if self.origin == LOWEST else self.origin + self._asked[asked].back(self.schema.unit)
            return Standing({}, WorkloadPlan({}), self._asked[asked].open(self.schema), since=since, asked=asked)
        if len(queries) > 1:
            plan = optimize(queries, self.hierarchy, self.measured, self.strategy)
            return Standing(dict(queries), plan, self._opened(plan, queries), since=self._since(plan))
        ((name, query),) = queries.items()
        strategies = names("aggregates") if query.aggregates else names("matches")
        alone = optimize({ALONE: query}, self.hierarchy, self.measured, self.strategy if self.strategy in strategies else AUTO)
        plan = WorkloadPlan({name: alone.plans[ALONE]}, alone.strategy)
        return Standing({name: query}, plan, open_plan(plan.plans[name], self.limits), since=self._since(plan))

    def _opened(self, plan: WorkloadPlan, queries: Mapping[str, Query]) -> Operator[Any, FinalTables]:
        """The operator of several queries that share."""
        if plan.counts is not None:
            from seqube.engine.aggregates.sharing import SharedAggregator

            return SharedAggregator(plan.counts, plan.aggregates, self.limits)
        return SharedMatcher(queries, self.hierarchy, self.strategy, limits=self.limits)

    @property
    def _shares_matches(self) -> bool:
        """Only where it is asked for: a query by itself goes on in place too, and costs little where its matches are few."""
        return self.strategy in names("shared matches") and self.strategy != "independent"

    def _since(self, plan: WorkloadPlan) -> int | None:
        """From when on an operator is whole that begins with the events that are kept."""
        if self.origin == LOWEST:
            return LOWEST
        ends = [self._whole_after(each) for each in plan.plans.values()]
        return None if None in ends else max(end for end in ends if end is not None)

    def _whole_after(self, plan: Plan) -> int | None:
        assert self.schema is not None
        needs = needs_of(plan, self.schema.unit)
        is_total = isinstance(plan, AggregatePlan) and plan.emit.when == "total"
        since = self.origin + needs.back
        thinned = plan.matches.skip is not None  # by all matches that there ever were
        if is_total or needs.by_position or thinned or since >= HIGHEST:
            return None
        if needs.bucket is not None:  # the one that is open then lacks what ended in it before
            kind = self.schema.columns.field(self.schema.time_column).type
            since = int(TimeBuckets.of(needs.bucket, kind).ends(np.array([since]))[0]) + (needs.window if plan.matches.waits else 0)
        return since

    def _put(self, standing: Standing, reported: Iterable[str] = ()) -> None:
        self._at_work.append(standing)
        self._reach = None
        self._reporting |= dict.fromkeys(reported, standing)

    # ------------------------------------------------------------ events

    def step(self, batch: Events | None, watermark: int) -> FinalTables:
        """Take the next events, all of them before the watermark, and give what is final."""
        found = self._step(batch, watermark)
        self.watermark = watermark
        if batch is not None:
            self.history.append(batch)
        self._forget()
        for name in [name for name, standing in self._successors.items() if standing.is_whole_at(watermark)]:
            self._hand_over(name)
        return found

    def finish(self, rest: Events | None) -> FinalTables:
        """Take the last events, and give all that is left at the end of the stream; who answered until now does so to the end."""
        found = self._step(rest, self.watermark if rest is None else int(rest.times[-1]))
        for standing in self._at_work:
            for name, table in self._reported(standing, standing.finish()).items():
                found[name] = pa.concat_tables([found[name], table]) if name in found else table
        return found

    def _step(self, batch: Events | None, watermark: int) -> FinalTables:
        found: FinalTables = {}
        if batch is not None and len(batch):
            self._span = min(self._span[0], int(batch.times[0])), int(batch.times[-1])
        for standing in self._at_work:
            found |= self._reported(standing, standing.step(batch, watermark))
        return found

    def _reported(self, standing: Standing, rows: FinalTables) -> FinalTables:
        """Those rows that somebody wants to hear."""
        found = {}
        for name, table in rows.items():
            if table is not None and self._reporting.get(name) is standing:
                self._empty[name] = table.schema
                if table.num_rows:
                    found[name] = table
                    standing.n_rows[name] = standing.n_rows.get(name, 0) + table.num_rows
        return found

    def _forget(self) -> None:
        if self._reach is None:
            self._reach = self.keep if self.keep is not None else self._longest()
        gone = self.history.forget(self.watermark - self._reach, KEPT_ANYWAY)
        if gone is not None:
            self.origin = max(self.origin, gone)

    def _longest(self) -> int:
        """How far the queries look back that return matches, and so keep their events anyway."""
        assert self.schema is not None
        plans = [plan for standing in self._at_work for plan in standing.plan.plans.values()]
        needs = [needs_of(plan, self.schema.unit) for plan in plans if not isinstance(plan, AggregatePlan)]
        backs = [each.back for each in needs if not each.by_position]
        return max([0, *backs, *(asked.back(self.schema.unit) for asked in self._asked.values())])

    # ------------------------------------------------------------ looking

    @property
    def everyone(self) -> tuple[Standing, ...]:
        return tuple(self._at_work)

    def at_work(self, name: str) -> tuple[Standing | None, Standing | None]:
        """Who answers a query, and who will instead; None where nobody does."""
        return self._reporting.get(name), self._successors.get(name)

    def moments(self, name: str, after: int | None) -> Ints:
        """The multiples of EMIT EVERY at which rows of a query were due after a moment; None: after its first event."""
        reporting = self._reporting.get(name)
        if reporting is None or not reporting.has_begun or self.schema is None:
            return np.empty(0, np.int64)
        period = needs_of(reporting.plan.plans[name], self.schema.unit).period
        assert period is not None
        first, last = (-(-time // period) * period for time in (self._span[0] if after is None else after + 1, self._span[1]))
        last = min(last, reporting.state.reported // period * period)
        return np.arange(max(first, last - MOST_MOMENTS * period), last + 1, period)

    def reported(self, name: str) -> int | None:
        """Until when rows of a query were due, whoever wanted to hear them; None where it has not begun."""
        reporting = self._reporting.get(name)
        return int(reporting.state.reported) if reporting is not None and reporting.has_begun else None

    def explain(self, name: str) -> str:
        """The plan of a query, or of those that it shares with."""
        plan = self._reporting[name].plan_now
        return str(explain_workload(plan if len(plan.plans) > 1 else WorkloadPlan({ALONE: plan.plans[name]}), None))

    def empty(self, name: str) -> pa.Table:
        """No rows of a query, in the columns that are known of it."""
        if name not in self.queries and name not in self._asked:
            raise KeyError(name)
        return self._empty.get(name, pa.schema([])).empty_table()

    # ------------------------------------------------------------ coming and going

    def add(self, name: str, query: Query) -> None:
        if name in self.queries or name in self._asked:
            raise PlanError(f"there is a query {name!r} already\n  hint: replace it, remove it first, or take another name")
        if self.schema is not None:
            self._put(self._seeded({name: query}), [name])
        self.queries[name] = query

    def remove(self, name: str) -> None:
        self._demand(name)
        del self.queries[name]
        self._drop_successor(name)
        self._silence(name)

    def replace(self, name: str, query: Query) -> None:
        """Let a query be answered by another one, from when that is whole; until then, it goes on."""
        self._demand(name)
        if self.schema is not None:
            standing = self._seeded({name: query})
            if standing.since is None:
                raise PlanError(
                    f"it is not known from when on the new {name!r} would be whole: the stream has forgotten events, and it counts "
                    "all of them, or so many\n  hint: add it under another name, or remove the old one first"
                )
            self._drop_successor(name)
            self._put(standing)
            self._successors[name] = standing
            if standing.is_whole_at(self.watermark):
                self._hand_over(name)
        self.queries[name] = query

    def _seeded(self, queries: Mapping[str, Query], asked: str = "") -> Standing:
        """An operator that has seen the events that are kept."""
        assert self.schema is not None
        for query in queries.values():
            check(query, self.schema)
        standing = self._made(queries, asked)
        standing.origin = self.origin
        known = self.history.all()
        if known is not None:
            known = known.slice(int(np.searchsorted(known.times, self.origin, side="right")), len(known))
            if len(known):
                standing.step(known, self.watermark)
        return standing

    def _hand_over(self, name: str) -> None:
        standing = self._successors.pop(name)
        before = self._silence(name)
        standing.n_rows[name] = before.n_rows.get(name, 0) if before is not None else 0
        self._reporting[name] = standing

    def _drop_successor(self, name: str) -> None:
        if (standing := self._successors.pop(name, None)) is not None:
            self._at_work.remove(standing)
            self._reach = None

    def _silence(self, name: str) -> Standing | None:
        """Nobody reports this query any more; who reports nothing else is done."""
        standing = self._reporting.pop(name, None)
        if standing is not None and standing not in self._reporting.values():
            self._at_work.remove(standing)
            self._reach = None
        return standing

    def _demand(self, name: str) -> None:
        if name not in self.queries:
            raise PlanError(f"there is no query {name!r}\n  hint: {did_you_mean(name, self.queries) or 'the stream has none'}")

    # ------------------------------------------------------------ other columns

    def grow(self, schema: Schema, conform: Callable[[Events], Events]) -> None:
        """Go on with more or wider columns: every operator begins anew, with the events that are kept; or nothing is changed."""
        lost = [
            name
            for standing in self._at_work
            if standing.origin != self.origin and not self._could_begin_now(standing)
            for name in standing.queries or [standing.asked]
        ]
        if lost:
            raise SchemaError(
                f"these rows have other columns than the stream, and it has forgotten events that {lost[0]!r} needs to begin anew\n"
                "  hint: declare all columns when the stream is made, with columns=, or let it remember more, with keep="
            )
        before = self.schema, self.history
        try:
            self.schema, self.history = schema, self.history.changed(conform)
            fresh = [self._seeded(standing.queries, standing.asked) for standing in self._at_work]
        except BaseException:
            self.schema, self.history = before
            raise
        for standing, anew in zip(self._at_work, fresh, strict=True):
            standing.plan, standing.operator = anew.plan, anew.operator
            standing.state, standing.has_begun, standing.origin = anew.state, anew.has_begun, anew.origin

    def _could_begin_now(self, standing: Standing) -> bool:
        since = self._since(standing.plan) if standing.queries else self._made({}, standing.asked).since
        return since is not None and since <= self.watermark

    # ------------------------------------------------------------ states

    def facts(self) -> dict[str, Any]:
        """All that is not in the states of operators, as JSON can hold it."""
        return {
            "queries": {name: str(query) for name, query in self.queries.items()},
            "hierarchy": None if self.hierarchy is None else {name: self.hierarchy.parent(name) for name in self.hierarchy.names},
            "strategy": self.strategy,
            "limits": asdict(self.limits),
            "measured": None if self.measured is None else asdict(self.measured),
            "origin": self.origin,
            "span": self._span,
            "decided": self.watermark,
            "at_work": [
                {
                    "queries": {name: str(query) for name, query in standing.queries.items()},
                    "asked": standing.asked,
                    "origin": standing.origin,
                    "since": standing.since,
                    "rows": standing.n_rows,
                    "reports": [name for name, reporting in self._reporting.items() if reporting is standing],
                    "succeeds": [name for name, successor in self._successors.items() if successor is standing],
                }
                for standing in self._at_work
            ],
        }

    def restore(self, facts: Mapping[str, Any], states: Iterable[bytes | None], schema: Schema, history: Events) -> None:
        """Go on where `facts` and the states of `everyone` were written."""
        self.schema = schema
        if (known := facts["measured"]) is not None:
            self.measured = Measurements(**{**known, "statistics": Statistics(**known["statistics"])})
        for entry, state in zip(facts["at_work"], states, strict=True):
            standing = self._made({name: parse(text) for name, text in entry["queries"].items()}, entry["asked"])
            standing.origin, standing.since, standing.n_rows = entry["origin"], entry["since"], entry["rows"]
            standing.restore(state)
            self._put(standing, entry["reports"])
            self._successors |= dict.fromkeys(entry["succeeds"], standing)
        self.origin, self.watermark = facts["origin"], facts["decided"]
        self._span = tuple(facts.get("span", self._span))  # only cubes ask for it
        self.history.append(history)
