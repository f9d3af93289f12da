"""Queries of a workload that have the same key, as one watch on a stream: their events travel, and are kept, once for all of them.

Each query has its operator, as if it were alone; where a strategy is asked for by which queries share, those that can have one
between them (`SharedMatcher`, which follows the stream with its plans, or `SharedAggregator`). Only queries are put together whose
operators go on in place, and that report when an event comes: those that replay their window, wait for its end or count events
have watches of their own.

A workload that may change keeps a state for each query (`workloads`, pipelines). Here it is fixed, and its state is dropped as a
whole when a query of it is another one.

Cost of a call: that of the operators, and its rows once.
Invariant: each query has the rows that it has by itself.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from seqube.engine.limits import NO_LIMITS, Limits
from seqube.engine.operator import Operator
from seqube.events import Events, Hierarchy
from seqube.events.schema import Schema
from seqube.language.tree import Query
from seqube.plan.aggregates import AggregatePlan
from seqube.plan.needs import Needs, needs_of
from seqube.plan.optimizer import WorkloadPlan, share_among
from seqube.plan.sharing import SharingPlan
from seqube.plan.strategies import names
from seqube.spark.planning import UNSEEN
from seqube.spark.rows import ShippedQuery, asking_ids
from seqube.spark.streaming.watch import Watch, plain_plan

TOGETHER = "#together"  # what the "queries" begin with that are several


class RowsByQuery(dict[str, pa.Table]):
    """Rows of several queries, in the place of a table."""

    @property
    def num_rows(self) -> int:
        return sum(table.num_rows for table in self.values())


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
    def events(self) -> None:
        """Each of them has its own; the watch keeps them once."""

    def to_bytes(self) -> bytes:
        raise NotImplementedError("what is remembered are the events of the watch")


class OperatorsBeside(Operator[StatesBeside, RowsByQuery]):
    """Operators of a query each, or of several that share, over one stream."""

    def __init__(self, parts: Mapping[str, Operator[Any, Any]]) -> None:
        self._parts = parts

    def start(self) -> StatesBeside:
        return StatesBeside({name: part.start() for name, part in self._parts.items()})

    def restore(self, data: bytes) -> StatesBeside:
        raise NotImplementedError("what is remembered are the events of the watch")

    def resume(self, events: Events, decided: int, reported: int, last: int) -> StatesBeside:
        return StatesBeside({name: part.resume(events, decided, reported, last) for name, part in self._parts.items()})

    def wake(self, state: StatesBeside) -> int | None:
        due = [part.wake(state.parts[name]) for name, part in self._parts.items()]
        return min((time for time in due if time is not None), default=None)

    def goes_on(self, events: Events) -> bool:
        return True

    def take(self, state: StatesBeside, batch: Events) -> StatesBeside:
        return StatesBeside({name: part.take(state.parts[name], batch) for name, part in self._parts.items()})

    def decide(self, state: StatesBeside, upto: int, final: bool) -> tuple[StatesBeside, RowsByQuery]:
        after, found = {}, RowsByQuery()
        for name, part in self._parts.items():
            after[name], rows = part.decide(state.parts[name], upto, final)
            found |= rows if isinstance(rows, dict) else {name: rows}
        return StatesBeside(after), found


@dataclass(frozen=True)
class AnswersTogether:
    """The queries of a watch, and what they share by the strategy that was asked for."""

    queries: Mapping[str, ShippedQuery]
    matching: Mapping[str, Query] = field(default_factory=dict)  # those whose matches are made from each other's
    strategy: str = "independent"
    hierarchy: Hierarchy | None = None
    counts: SharingPlan | None = None
    limits: Limits = NO_LIMITS

    has_counters = False

    @property
    def unlimited(self) -> AnswersTogether:
        return replace(self, queries={name: own.unlimited for name, own in self.queries.items()}, limits=NO_LIMITS)

    @property
    def operator(self) -> OperatorsBeside:
        parts: dict[str, Operator[Any, Any]] = {}
        if self.matching:
            from seqube.engine.ecube.adaptation import SharedMatcher

            asked = {name: asking_ids(query, self.queries[name]) for name, query in self.matching.items()}
            parts["#matches"] = SharedMatcher(asked, self.hierarchy, self.strategy, limits=self.limits)
        if self.counts is not None:
            from seqube.engine.aggregates.sharing import SharedAggregator

            plans = {name: own.plan for name, own in self.queries.items() if isinstance(own.plan, AggregatePlan)}
            parts["#counts"] = SharedAggregator(self.counts, plans, self.limits)
        shared = {*self.matching, *(self.counts.queries if self.counts is not None else ())}
        parts |= {name: own.operator for name, own in self.queries.items() if name not in shared}
        return OperatorsBeside(parts)

    def rows(self, found: RowsByQuery) -> RowsByQuery:
        return RowsByQuery({name: self.queries[name].rows(table) for name, table in found.items() if table.num_rows})


@dataclass(frozen=True)
class WatchTogether(Watch):
    """Several queries of one key on a stream, as workers need them."""

    wanted: AnswersTogether  # type: ignore[assignment]  # in the place of a query's answer

    @property
    def schemas(self) -> dict[str, pa.Schema]:
        return {name: own.schema for name, own in self.wanted.queries.items()}

    def by_query(self, found: Any) -> Iterator[tuple[str, pa.Table]]:
        yield from found.items()

    @cached_property
    def asks(self) -> str:
        """Changes when one of the queries does, or how they share."""
        plans = [(name, plain_plan((own.plan, own.with_ids))) for name, own in self.wanted.queries.items()]
        return hashlib.sha256(repr((plans, self.wanted.strategy, self.keeping.schema.unit)).encode()).hexdigest()

    @cached_property
    def needs(self) -> Needs:
        """Those of all: the longest window of any, and events at which any may end."""
        unit = self.keeping.schema.unit
        needs = [needs_of(own.plan, unit) for own in self.wanted.queries.values()]
        ends = frozenset[str]().union(*(each.ends for each in needs))
        return Needs(window=max(each.back for each in needs), key=needs[0].key, ends=ends)


def may_go_together(wanted: ShippedQuery, nothing: Events) -> bool:
    """Whether a query can be watched beside others: it goes on in place, and says what it has to say when an event comes."""
    needs = needs_of(wanted.plan, nothing.unit)
    waits = needs.ahead or needs.period is not None or needs.outlives_events or needs.by_order or needs.every_event
    return not waits and replace(wanted, with_ids=False).operator.goes_on(nothing)  # ids change nothing of that


@dataclass(frozen=True)
class FixedWorkload:
    """The queries of a stream that do not change while it runs, and how they are to share."""

    queries: Mapping[str, Query]
    hierarchy: Hierarchy | None = None
    strategy: str = "auto"

    def groups(self, shipped: Mapping[str, ShippedQuery], schema: Schema, limits: Limits) -> dict[str, AnswersTogether]:
        """Those that are watched together, by the name of their watch."""
        nothing = Events(schema.columns.empty_table(), type=schema.type_column, time=schema.time_column, unit=schema.unit)
        by_key: dict[tuple[str, ...], list[str]] = {}
        for name, wanted in shipped.items():
            if may_go_together(wanted, nothing):
                by_key.setdefault(needs_of(wanted.plan, schema.unit).key, []).append(name)
        return {
            " ".join((TOGETHER, *key)): self._answers({name: shipped[name] for name in group}, limits)
            for key, group in by_key.items()
            if len(group) > 1
        }

    def _answers(self, shipped: Mapping[str, ShippedQuery], limits: Limits) -> AnswersTogether:
        queries, matching, counts = {name: self.queries[name] for name in shipped}, {}, None
        if self.strategy != "independent" and self.strategy in names("shared matches"):
            matching = {name: query for name, query in queries.items() if not query.aggregates}
        if self.strategy != "independent" and self.strategy in names("shared counts"):
            planned = WorkloadPlan({name: own.plan for name, own in shipped.items()}, self.strategy)
            counts = share_among(queries, self.hierarchy, UNSEEN, planned).counts
        return AnswersTogether(shipped, matching, self.strategy, self.hierarchy, counts, limits)
