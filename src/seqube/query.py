"""The story on one screen: text is parsed and bound, bound queries are planned, plans are run, and a plan can explain itself.

    parse    text -> Query                     language
    check    Query against the columns         language, events
    plan     Query -> physical plan            plan
    run      plan, events -> result            engine
    explain  plan, statistics -> its reasons   plan

The engine is loaded when something is run, so that importing Seqube compiles nothing.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, overload

from seqube.engine.limits import LIMITS, Limits
from seqube.errors import Problem, QueryError
from seqube.events import Events, Hierarchy
from seqube.language import Query, check, parse
from seqube.language.tree import leaves
from seqube.plan import explain as words
from seqube.plan.aggregates import AggregatePlan
from seqube.plan.explain import Explanation
from seqube.plan.measured import Measured
from seqube.plan.optimizer import ALONE, WorkloadPlan, optimize
from seqube.plan.physical import MatchPlan

if TYPE_CHECKING:
    import pyarrow as pa

    from seqube.engine.results import Result, Results

Workload = Mapping[str, str | Query]


@overload
def run(
    query: str | Query,
    events: Any,
    *,
    type: str = ...,
    time: str = ...,
    unit: str = ...,
    hierarchy: Hierarchy | None = ...,
    strategy: str = ...,
    max_matches: int | None = ...,
    max_state_bytes: int | None = ...,
    max_seconds: float | None = ...,
    on_limit: str = ...,
) -> Result: ...
@overload
def run(
    query: Workload,
    events: Any,
    *,
    type: str = ...,
    time: str = ...,
    unit: str = ...,
    hierarchy: Hierarchy | None = ...,
    strategy: str = ...,
    max_matches: int | None = ...,
    max_state_bytes: int | None = ...,
    max_seconds: float | None = ...,
    on_limit: str = ...,
) -> Results: ...
def run(
    query: str | Query | Workload,
    events: Any,
    *,
    type: str = "type",
    time: str = "ts",
    unit: str = "ms",
    hierarchy: Hierarchy | None = None,
    strategy: str = "auto",
    max_matches: int | None = LIMITS.max_matches,
    max_state_bytes: int | None = LIMITS.max_state_bytes,
    max_seconds: float | None = LIMITS.max_seconds,
    on_limit: str = "error",
) -> Result | Results:
    """Run a query, or several by name, over events: a table, a data frame, a path, or an `Events` made before.

    Each query may use so many rows, bytes and seconds (None: any number). Past that it is a `LimitError`, or, with
    `on_limit="truncate"`, its matches so far, marked as `truncated`. A result larger than memory is taken by its `batches()`.
    """
    from seqube.engine.aggregates.aggregation import Aggregator
    from seqube.engine.aggregates.sharing import SharedAggregator
    from seqube.engine.ecube.reuse import run_shared
    from seqube.engine.results import Result, Results
    from seqube.engine.state import Matcher

    limits = Limits(max_matches, max_state_bytes, max_seconds, on_limit)
    stream = events if isinstance(events, Events) else Events(events, type=type, time=time, unit=unit)
    workload = plan(query, stream, hierarchy, strategy)
    tables: dict[str, pa.Table] = {}
    if workload.matches is not None:
        tables |= run_shared(workload.matches, stream, limits)
    if workload.counts is not None:
        tables |= SharedAggregator(workload.counts, workload.aggregates, limits).run(stream)
    results = {}
    for name, each in workload.plans.items():
        if isinstance(each, AggregatePlan) and name not in tables:
            tables[name] = Aggregator(each, limits).run(stream)
        found = partial(Matcher(each).pieces, stream) if isinstance(each, MatchPlan) and name not in tables else tables[name]
        results[name] = Result(found, stream.rejected, limits)
    return Results(results) if isinstance(query, Mapping) else results[ALONE]


def explain(
    query: str | Query | Workload,
    events: Any = None,
    *,
    type: str = "type",
    time: str = "ts",
    unit: str = "ms",
    hierarchy: Hierarchy | None = None,
    strategy: str = "auto",
) -> Explanation:
    """How a query is run over these events, and why."""
    stream = events if events is None or isinstance(events, Events) else Events(events, type=type, time=time, unit=unit)
    return words.explain(plan(query, stream, hierarchy, strategy), stream.statistics if stream is not None else None)


def plan(
    query: str | Query | Workload, events: Events | None, hierarchy: Hierarchy | None = None, strategy: str = "auto"
) -> WorkloadPlan:
    """One query or several, checked against the events they are for, and planned."""
    queries = {name: bind(text, events, hierarchy) for name, text in _by_name(query).items()}
    return optimize(queries, hierarchy, _measure(queries, events, hierarchy) if events is not None else None, strategy)


def prepare(
    query: str | Query, events: Events | None, hierarchy: Hierarchy | None = None, strategy: str = "auto"
) -> MatchPlan | AggregatePlan:
    """One query, checked and planned."""
    return plan(query, events, hierarchy, strategy).plans[ALONE]


def bind(query: str | Query, events: Events | None, hierarchy: Hierarchy | None = None) -> Query:
    """A query, checked against the columns and the types of the events it is for."""
    schema = events.schema if events is not None else None
    if not isinstance(query, str | Query):
        raise QueryError(Problem(f"a query is a text or a parsed Query, not a {type(query).__name__}"))
    bound = parse(query, schema) if isinstance(query, str) else query
    if events is not None:
        if bound is query:
            check(bound, schema)
        check_types(bound, events.type_names, hierarchy)
    return bound


def _measure(queries: Mapping[str, Query], events: Events, hierarchy: Hierarchy | None) -> Measured:
    """What is known of the events; for several queries that may share their matches, also how many those are, by a sample."""
    measured = Measured(events.statistics, events.unit, events.distinct)
    matching = {name: query for name, query in queries.items() if not query.aggregates}
    if len(matching) < 2:
        return measured
    from seqube.engine.ecube.reuse import sample_sizes

    return replace(measured, sizes=sample_sizes(matching, events, hierarchy))


def _by_name(query: str | Query | Workload) -> Workload:
    return query if isinstance(query, Mapping) else {ALONE: query}


# ---------------------------------------------------------------- misspelt types


def check_types(query: Query, present: Iterable[str], hierarchy: Hierarchy | None) -> None:
    """Refuse a type that no event has when it looks like a misspelling of one that some have.

    A type without events is nothing wrong: a quiet day has no matches. So it is only called unknown when it differs in case alone
    from a type that is there, or in a letter or so of a long name, and the query does not use that other type as well.
    """
    names = set(present) | (set(hierarchy.names) if hierarchy else set())
    used = {leaf.name for leaf in leaves(query.pattern)}
    problems = []
    for leaf in leaves(query.pattern):
        if leaf.name not in names:
            meant = next((name for name in sorted(names - used) if _looks_like(leaf.name, name)), None)
            if meant is not None:
                problems.append(Problem(f"unknown event type {leaf.name!r}", leaf.at, f"did you mean {meant!r}?"))
    if problems:
        raise QueryError(problems, query.source)


def _looks_like(name: str, other: str) -> bool:
    if name.casefold() == other.casefold():
        return True
    letters = [text.translate({ord(digit): None for digit in "0123456789"}) for text in (name, other)]
    return (
        min(len(name), len(other)) >= 5
        and letters[0] != letters[1]  # sensor1 and sensor2 are two names, not one misspelt
        and difflib.SequenceMatcher(None, name, other).ratio() >= 0.85
    )
