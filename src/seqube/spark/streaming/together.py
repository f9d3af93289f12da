"""Queries of a workload that have the same key, as one watch on a stream: their events travel, and are kept, once for all of them.

Each query has its operator, as if it were alone; where a strategy is asked for by which queries share, those that can have one
between them (`SharedMatcher`, which follows the stream with its plans, or `SharedAggregator`). By `auto`, counts share where that
is expected to pay, by the events of the first bucket of a worker that has enough of them to say so. Only queries are put together
whose state the events of their windows tell, and whose operators go on in place: `why_apart` says of the others why they have
watches of their own.

Who reports at its own moments (EMIT EVERY) looks at every event, if only to know when the stream began and how far it has come.
Such queries go together with each other alone, so that nobody else has to keep those events; nor do they: of the events that no
query looks for, one for each period says as much. When the first and the last event came that queries of a generation have seen,
their *span*, tells what they have reported, and is all that is remembered of them beside the events.

What is remembered are the events; whatever is made of them is made again where it is missing, or where the queries are others.
Queries come and go: one that is new sees the rows that come from then on, and every row says in which *epoch* it came, which is the
highest generation among the queries of then. A generation is higher than all before it, so a query has seen the rows whose epoch is
not below its own generation:

    generations    pairs 0       pairs 0, more 3        pairs 0, more 3, last 4
    epochs      ---- 0 0 0 -------- 3 3 3 3 --------------- 4 4 4 --------------> rows
                                    ^ seen by `more`         ^ seen by `last`

Queries share as far as they have seen the same of what is kept: a new one is by itself until the rows before it are forgotten.

A workload that is fixed has no generations. Its state is dropped as a whole when a query of it is another one.

Cost of a call: that of the operators, and its rows once; where queries or what they share have changed, the events kept.
Invariant: each query has the rows that it has by itself.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from seqube.engine.aggregates.aggregation import last_due
from seqube.engine.aggregates.sharing import SharedAggregator
from seqube.engine.ecube.adaptation import SharedMatcher, SharedState
from seqube.engine.instances import minus
from seqube.engine.limits import NO_LIMITS, Limits
from seqube.engine.operator import Operator, State
from seqube.engine.sequence import LOWEST
from seqube.engine.snapshots import bundle, seal, unbundle, unseal
from seqube.engine.workload import measure
from seqube.events import Events, Hierarchy
from seqube.events.schema import ANY, Schema
from seqube.language.tree import Query
from seqube.plan.aggregates import AggregatePlan
from seqube.plan.measured import Measurements
from seqube.plan.needs import Needs, Plan, needs_of
from seqube.plan.optimizer import WorkloadPlan, share_among
from seqube.plan.sharing import SharingPlan
from seqube.plan.strategies import names
from seqube.spark.ingest import EPOCH, IDENTITY, KEY
from seqube.spark.planning import UNSEEN
from seqube.spark.rows import ShippedQuery, asking_ids
from seqube.spark.streaming.at_hand import Live
from seqube.spark.streaming.held import Held, SeenSpan
from seqube.spark.streaming.watch import Outcome, Watch, asked_of
from seqube.spark.transport.columns import Columns, needed_schema

TOGETHER = "#together"  # what the "queries" begin with that are several
EVERY_EVENT = "#every"  # what follows then, where they look at every event
TELLING_EVENTS = 1_000  # events of a bucket that say something about the stream
Generations = Mapping[str, int]


class RowsByQuery(dict[str, pa.Table]):
    """Rows of several queries, in the place of a table."""

    @property
    def num_rows(self) -> int:
        return sum(table.num_rows for table in self.values())


# ---------------------------------------------------------------- operators side by side


@dataclass(slots=True)
class StatesBeside:
    """The states of operators that take the same events."""

    parts: dict[str, Any]

    @property
    def has_begun(self) -> bool:
        return all(part.has_begun for part in self.parts.values())

    @property
    def decided(self) -> int:
        return min(int(part.decided) for part in self.parts.values())

    @property
    def reported(self) -> int:
        return min(int(part.reported) for part in self.parts.values())

    @property
    def n_kept(self) -> int:
        return max(int(part.n_kept) for part in self.parts.values())

    @property
    def n_bytes(self) -> int:
        return sum(int(part.n_bytes) for part in self.parts.values())

    @property
    def n_switches(self) -> int:
        """How often a plan was changed, because its events or matches had."""
        return sum(part.n_switches for part in self._sharing)

    @property
    def plan(self) -> str:
        """What is found from what, as it is now."""
        steps = (step for part in self._sharing for step in part.plan.steps)
        return ", ".join(f"{step.name} {'by itself' if step.source is None else f'from {step.source}'}" for step in steps)

    @property
    def _sharing(self) -> list[SharedState]:
        return [part for part in self.parts.values() if isinstance(part, SharedState)]

    @property
    def events(self) -> None:
        """Each of them has its own; the watch keeps them once."""

    def to_bytes(self) -> bytes:
        return seal(bundle({name: np.frombuffer(part.to_bytes(), np.uint8) for name, part in self.parts.items()}))


@dataclass(frozen=True)
class Beside:
    """An operator of a query, or of several that share, and the first epoch whose rows it sees."""

    operator: Operator[Any, Any]
    queries: tuple[str, ...]
    since: int = 0


class OperatorsBeside(Operator[StatesBeside, RowsByQuery]):
    """Operators over one stream, by the name of their query, or what those do that share. Some have not seen its first rows."""

    def __init__(self, parts: Mapping[str, Beside]) -> None:
        self._parts = parts

    def start(self) -> StatesBeside:
        return StatesBeside({name: part.operator.start() for name, part in self._parts.items()})

    def _restored(self, data: bytes) -> StatesBeside:
        (written,) = unseal(data)
        states = unbundle(written)
        return StatesBeside({name: part.operator.restore(states[name].tobytes()) for name, part in self._parts.items()})

    def resume(self, events: Events, decided: int, reported: int, last: int) -> StatesBeside:
        return self.resume_each(events, decided, {name: (reported, last) for part in self._parts.values() for name in part.queries})

    def resume_each(self, events: Events, decided: int, told: Mapping[str, tuple[int, int]]) -> StatesBeside:
        """As `resume`, where up to when every row is out, and the last event that was seen, differ from query to query."""
        seen, states = self._seen(events), {}
        for name, part in self._parts.items():
            reports, last = {query: told[query][0] for query in part.queries}, max(told[query][1] for query in part.queries)
            if isinstance(part.operator, SharedAggregator):
                states[name] = part.operator.resume_each(seen[part.since], decided, reports, last)
            else:
                states[name] = part.operator.resume(seen[part.since], decided, min(reports.values()), last)
        return StatesBeside(states)

    def wake(self, state: StatesBeside) -> int | None:
        due = [part.operator.wake(state.parts[name]) for name, part in self._parts.items()]
        return min((time for time in due if time is not None), default=None)

    def goes_on(self, events: Events) -> bool:
        return True

    def take(self, state: StatesBeside, batch: Events) -> StatesBeside:
        seen = self._seen(batch)
        return StatesBeside({name: part.operator.take(state.parts[name], seen[part.since]) for name, part in self._parts.items()})

    def decide(self, state: StatesBeside, upto: int, final: bool) -> tuple[StatesBeside, RowsByQuery]:
        after, found = {}, RowsByQuery()
        for name, part in self._parts.items():
            after[name], rows = part.operator.decide(state.parts[name], upto, final)
            found |= rows if isinstance(rows, dict) else {name: rows}
        return StatesBeside(after), found

    def _seen(self, events: Events) -> dict[int, Events]:
        """The events of each epoch and all later ones."""
        since = {part.since for part in self._parts.values()}
        if EPOCH not in events.table.column_names:
            return dict.fromkeys(since, events)
        epochs = events.table.column(EPOCH).to_numpy()
        table = events.table.drop_columns([EPOCH])
        events = Events(table, type=events.type_column, time=events.time_column, unit=events.unit, threads=1)
        return {first: events if np.all(epochs >= first) else events.take(np.flatnonzero(epochs >= first)) for first in since}


# ---------------------------------------------------------------- what is asked


@dataclass(frozen=True)
class AnswersTogether:
    """The queries of a watch, and what they share."""

    queries: Mapping[str, ShippedQuery]
    asked: Mapping[str, Query]
    strategy: str = "auto"
    hierarchy: Hierarchy | None = None
    limits: Limits = NO_LIMITS
    counts: SharingPlan | None = None  # the counts that are shared, as they were planned
    since: Generations = field(default_factory=dict)  # the first epoch that a query has seen, where they differ

    has_counters = False  # counters are no smaller than events that are kept once for all queries
    replays_keys = False  # each query counts from an epoch of its own

    @property
    def unlimited(self) -> AnswersTogether:
        return replace(self, queries={name: own.unlimited for name, own in self.queries.items()}, limits=NO_LIMITS)

    @property
    def operator(self) -> OperatorsBeside:
        parts: dict[str, Beside] = {}
        for first in sorted({self._since(name) for name in self.queries}):
            parts |= self._parts(first)
        return OperatorsBeside(parts)

    def _since(self, name: str) -> int:
        return self.since.get(name, 0)

    def _parts(self, first: int) -> dict[str, Beside]:
        """The operators of the queries that have seen the same."""
        own = {name: wanted for name, wanted in self.queries.items() if self._since(name) == first}
        parts: dict[str, Beside] = {}
        matching = {}
        if self.strategy != "independent" and self.strategy in names("shared matches"):
            matching = {name: asking_ids(self.asked[name], own[name]) for name in own if not self.asked[name].aggregates}
        if matching:
            matcher = SharedMatcher(matching, self.hierarchy, self.strategy, limits=self.limits)
            parts[f"#matches {first}"] = Beside(matcher, tuple(matching), first)
        counted = [] if self.counts is None else [name for name in self.counts.queries if name in own]
        if self.counts is not None and len(counted) > (self.strategy not in names("shared counts")):
            plans = {name: plan for name in counted if isinstance(plan := own[name].plan, AggregatePlan)}
            aggregator = SharedAggregator(self.counts.only(counted), plans, self.limits)
            parts[f"#counts {first}"] = Beside(aggregator, tuple(counted), first)
        else:
            counted = []
        alone = (name for name in own if name not in matching and name not in counted)
        return parts | {name: Beside(own[name].operator, (name,), first) for name in alone}

    def rows(self, found: RowsByQuery) -> RowsByQuery:
        return RowsByQuery({name: self.queries[name].rows(table) for name, table in found.items() if table.num_rows})

    # ------------------------------------------------------------ what is counted together

    @property
    def is_open(self) -> bool:
        """Whether it is for the events to say which counts are shared."""
        by_events = self.strategy != "independent" and self.strategy not in names("aggregates", "shared counts")
        return by_events and sum(bool(query.aggregates) for query in self.asked.values()) > 1

    def counting(self, measured: Measurements) -> SharingPlan | None:
        """How counts are shared over such events; None where each is counted by itself."""
        asked = {name: query for name, query in self.asked.items() if query.aggregates}
        planned = WorkloadPlan({name: self.queries[name].plan for name in asked}, self.strategy)
        counts = share_among(asked, self.hierarchy, measured, planned).counts
        return counts if counts is not None and counts.shares else None


@dataclass(frozen=True)
class WatchTogether(Watch):
    """Several queries of one key on a stream, as workers need them."""

    wanted: AnswersTogether  # type: ignore[assignment]  # in the place of a query's answer
    generations: Generations | None = None  # of the queries, where they come and go

    @property
    def schemas(self) -> dict[str, pa.Schema]:
        return {name: own.schema for name, own in self.wanted.queries.items()}

    def by_query(self, found: Any) -> Iterator[tuple[str, pa.Table]]:
        yield from found.items()

    @cached_property
    def members(self) -> str:
        """Changes when one of the queries does, or how they are to share."""
        unit = self.keeping.schema.unit
        asked = [(name, asked_of(own, unit)) for name, own in self.wanted.queries.items()]
        about = (asked, self.wanted.strategy, sorted((self.generations or {}).items()))
        return hashlib.sha256(repr(about).encode()).hexdigest()

    @cached_property
    def asks(self) -> str:
        """What is remembered is that of these queries, if they are fixed; else it is of whatever queries of the key there are."""
        if self.generations is None:
            return self.members
        return hashlib.sha256(repr((self.name, self.keeping.schema.unit)).encode()).hexdigest()

    @cached_property
    def working(self) -> str:
        counts = self.wanted.counts
        shared = None if counts is None else (counts.strategy, sorted(counts.pieces.items()))
        return f"{self.members} {sorted(self.wanted.since.items())} {shared}"

    @property
    def own_columns(self) -> tuple[str, ...]:
        return (KEY,) if self.wanted.since else (KEY, EPOCH)

    @cached_property
    def needs(self) -> Needs:
        """Those of all: the longest window of any, and events at which any may end."""
        unit = self.keeping.schema.unit
        needs = [needs_of(own.plan, unit) for own in self.wanted.queries.values()]
        ends = frozenset[str]().union(*(each.ends for each in needs))
        scans = tuple(scan for each in needs for scan in each.scans)
        every_event = any(each.every_event for each in needs)
        return Needs(window=max(each.back for each in needs), key=needs[0].key, ends=ends, scans=scans, every_event=every_event)

    @cached_property
    def _periods(self) -> dict[str, int]:
        """The ticks of EMIT EVERY, of the queries that report so."""
        needs = {name: needs_of(own.plan, self.keeping.schema.unit) for name, own in self.wanted.queries.items()}
        return {name: each.period for name, each in needs.items() if each.period is not None}

    @property
    def _has_periods(self) -> bool:
        return bool(self._periods)

    def take(
        self, held: Held | None, blobs: Iterable[bytes], watermark: int, store: MutableMapping[int, bytes], bucket: int = 0
    ) -> Outcome:
        since, counts = self._since(held or Held()), self._counts(held or Held(), store)
        watch = self if not since and counts is self.wanted.counts else self._arranged(since, counts)
        return Watch.take(watch, held, blobs, watermark, store, bucket)

    def _arranged(self, since: Generations, counts: SharingPlan | None) -> WatchTogether:
        """The same queries, as they share over what is held."""
        place = tuple(since.items()), counts is None
        if place not in self._arrangements:
            arranged = replace(self, wanted=replace(self.wanted, since=since, counts=counts))
            arranged.__dict__.update(members=self.members, needs=self.needs, _periods=self._periods)
            self._arrangements[place] = arranged
        return self._arrangements[place]

    @cached_property
    def _arrangements(self) -> dict[Any, WatchTogether]:
        return {}

    def _since(self, held: Held) -> Generations:
        """The first epoch that each query has seen of what is held; nothing where it is the same for all.

        A query is known by its generation until it has seen all that is held, and the same last event: then by the newest such one.
        """
        if self.generations is None:
            return {}
        first = min((chunk.epoch for chunk in held.chunks), default=self.epoch)
        ended = {span.generation: span.ended for span in held.spans}
        newest = max(ended.values(), default=LOWEST)
        alike = {each for each in self.generations.values() if each <= first and ended.get(each, LOWEST) == newest}
        since = {name: max(alike) if each in alike else each for name, each in self.generations.items()}
        return since if len(set(since.values())) > 1 or max(since.values()) > first else {}

    def _counts(self, held: Held, store: MutableMapping[int, bytes]) -> SharingPlan | None:
        """What is counted together; if the events say that, by the first that are there."""
        if not self.wanted.is_open:
            return self.wanted.counts
        plans = self.at_hand.plans
        if self.members not in plans and sum(chunk.n_rows for chunk in held.chunks) >= TELLING_EVENTS:
            events = self._events(self._between(held, LOWEST, held.decided, store))
            if len(events) >= TELLING_EVENTS:
                plans[self.members] = self.wanted.counting(replace(measure({}, events, None), continuous=True))
        return plans.get(self.members)

    @property
    def epoch(self) -> int:
        """In which rows come now."""
        return max((self.generations or {"": 0}).values())

    def _kept(self, table: pa.Table) -> pa.Table:
        if self.generations is not None:
            table = table.append_column(EPOCH, pa.array(np.full(len(table), self.epoch, np.int32)))
        table = super()._kept(table)
        return self._thinned(table) if self._periods and ANY not in self.needs.types else table

    def _thinned(self, table: pa.Table) -> pa.Table:
        """Of the events that no query looks for, the first of every period: no later one in it makes another row due."""
        names = table.column(self.keeping.schema.type_column).cast(pa.string())
        wanted = np.asarray(pc.is_in(names, pa.array(sorted(self.needs.types), pa.string())))
        others = np.flatnonzero(~wanted)
        times = self.keeping.times(table)[others]
        order = np.argsort(times, kind="stable")
        for period in set(self._periods.values()):
            _, firsts = np.unique(-(-times[order] // period), return_index=True)
            wanted[others[order[firsts]]] = True
        return table if wanted.all() else table.filter(pa.array(wanted))

    def _go_on(self, live: Live, held: Held, upto: int, store: MutableMapping[int, bytes]) -> tuple[Held, Live, pa.Table | None]:
        before, spans = _state(live).n_switches, self._spans(held, upto, store)
        held, live, rows = super()._go_on(live, held, upto, store)
        last = max((span.ended for span in spans), default=LOWEST)
        held = replace(held, spans=spans, last=last, wake=self.operator.wake(live.state))
        switches = _state(live).n_switches - before
        return held, replace(live, switches=switches, plan=_state(live).plan if switches else None), rows

    # ------------------------------------------------------------ reports at moments of their own

    def _generation(self, name: str) -> int:
        return 0 if self.generations is None else self.generations[name]

    def _spans(self, held: Held, upto: int, store: MutableMapping[int, bytes]) -> tuple[SeenSpan, ...]:
        """What the queries of each generation have seen, with the events that are due now."""
        known = {span.generation: span for span in held.spans}
        spans = {each: known.get(each, SeenSpan(each)) for each in sorted(set(map(self._generation, self._periods)))}
        for rows, numbers in self._between(held, held.decided, upto, store) if spans else ():
            times = rows.times[numbers]
            epochs = np.zeros(len(times)) if self.generations is None else rows.table.column(EPOCH).to_numpy()[numbers]
            for generation, span in spans.items():
                if len(seen := times[epochs >= generation]):
                    times_of = int(seen.min()), int(seen.max())
                    spans[generation] = SeenSpan(generation, min(span.begun, times_of[0]), max(span.ended, times_of[1]))
        return tuple(spans.values())

    def _told(self, held: Held) -> dict[str, tuple[int, int]]:
        """Up to when every row of each query is out, and when the last event came that it has seen."""
        spans = {span.generation: span for span in held.spans}
        told = dict.fromkeys(self.wanted.queries, (held.decided, LOWEST))
        for name, period in self._periods.items():
            span = spans.get(self._generation(name), SeenSpan(0))
            has_begun = span.ended > LOWEST
            told[name] = last_due(period, span.begun - 1, span.ended, held.decided) if has_begun else LOWEST, span.ended
        return told

    def _resumed(self, held: Held, events: Events) -> State:
        assert isinstance(self.operator, OperatorsBeside)
        return self.operator.resume_each(events, held.decided, self._told(held))

    def _floor(self, held: Held) -> int:
        told = self._told(held)
        waits = [(told[name][0] // period + 1) * period - 1 for name, period in self._periods.items() if told[name][0] > LOWEST]
        return int(minus(np.array([min([held.decided, *waits])]), self.needs.back)[0])


def _state(live: Live) -> StatesBeside:
    assert isinstance(live.state, StatesBeside)
    return live.state


# ---------------------------------------------------------------- which queries


@dataclass(frozen=True)
class SharedWorkload:
    """The queries of a stream, and how they are to share."""

    queries: Mapping[str, Query]
    hierarchy: Hierarchy | None = None
    strategy: str = "auto"

    def watches(
        self, shipped: Mapping[str, ShippedQuery], schema: Schema, limits: Limits, generations: Generations | None = None
    ) -> dict[str, WatchTogether]:
        """The watches of those that go together, by their own names: in a fixed workload those of a key that have company.

        In one that changes these are the ones that have `generations`, which say when they came.
        """
        if generations is None:
            nothing = no_events(schema)
            alike = companies({name: own for name, own in shipped.items() if may_go_together(own, nothing)}, schema.unit)
            groups = {company: group for company, group in alike.items() if len(group) > 1}
        else:
            groups = companies({name: shipped[name] for name in generations}, schema.unit)
        found = {}
        for company, group in groups.items():
            name = " ".join((TOGETHER, *([EVERY_EVENT] if company.every_event else []), *company.key))
            own = None if generations is None else {query: generations[query] for query in group}
            found[name] = self._watch(name, company.key, {query: shipped[query] for query in group}, schema, limits, own)
        return found

    def _watch(
        self,
        name: str,
        key: tuple[str, ...],
        shipped: Mapping[str, ShippedQuery],
        schema: Schema,
        limits: Limits,
        generations: Generations | None,
    ) -> WatchTogether:
        answers = AnswersTogether(shipped, {each: self.queries[each] for each in shipped}, self.strategy, self.hierarchy, limits)
        if self.strategy != "independent" and self.strategy in names("shared counts"):
            answers = replace(answers, counts=answers.counting(replace(UNSEEN, unit=schema.unit)))
        with_ids = any(own.with_ids for own in shipped.values())
        hidden = {KEY: bool(key), IDENTITY: with_ids, EPOCH: generations is not None}
        needed = needed_schema([own.plan for own in shipped.values()], schema)
        keeping = Columns(needed, tuple(column for column, is_wanted in hidden.items() if is_wanted))
        arriving = Columns(needed, tuple(column for column in keeping.hidden if column != EPOCH))
        return WatchTogether(name, answers, arriving, keeping, generations=generations)


def no_events(schema: Schema) -> Events:
    return Events(schema.columns.empty_table(), type=schema.type_column, time=schema.time_column, unit=schema.unit)


class Company(NamedTuple):
    """What queries have in common that go together."""

    key: tuple[str, ...]
    every_event: bool  # others would have to keep events for them that they do not look at


def company_of(plan: Plan, unit: str) -> Company:
    needs = needs_of(plan, unit)
    return Company(needs.key, needs.every_event)


def companies(queries: Mapping[str, ShippedQuery], unit: str) -> dict[Company, list[str]]:
    found: dict[Company, list[str]] = {}
    for name, wanted in queries.items():
        found.setdefault(company_of(wanted.plan, unit), []).append(name)
    return found


def why_apart(wanted: ShippedQuery, nothing: Events) -> str | None:
    """Why a query has a watch of its own; None where it can be watched beside others."""
    needs = needs_of(wanted.plan, nothing.unit)
    if needs.by_position:
        return "its window counts EVENTS, and how many there were is remembered beside them"
    if needs.bucket is not None:
        return "what an open bucket of EMIT PER holds is remembered when its events are forgotten"
    if needs.skips:
        return "what SKIP has taken is remembered when its events are forgotten"
    if needs.by_order:
        return "which of two events of one time comes first can matter, and is remembered beside them"
    if needs.ahead:
        return "its matches are final when their window is over, and events that others have forgotten are kept until then"
    if not replace(wanted, with_ids=False).operator.goes_on(nothing):  # ids change nothing of that
        return "its window is evaluated again"
    return None


def may_go_together(wanted: ShippedQuery, nothing: Events) -> bool:
    return why_apart(wanted, nothing) is None


def going_together(shipped: Mapping[str, ShippedQuery], schema: Schema) -> set[str]:
    """Which queries of a workload that may change go together from now on, if they are new to it.

    Counters that are smaller than their events are all that is remembered of an aggregate that is by itself (`watch`): it goes with
    others only where there are some.
    """
    nothing = no_events(schema)
    alike = companies({name: own for name, own in shipped.items() if may_go_together(own, nothing)}, schema.unit)
    return {name for group in alike.values() for name in group if len(group) > 1 or not shipped[name].has_counters}
