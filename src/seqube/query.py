"""The story on one screen: text is parsed and bound, bound queries are planned, plans are run, and a plan can explain itself.

parse    text -> Query                     language
check    Query against the columns         language, events
plan     Query -> physical plan            plan
run      plan, events -> result            engine, loaded only then: importing Seqube compiles nothing
explain  plan, statistics -> its reasons   plan
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack, overload

from seqube.arguments import checked
from seqube.engine.limits import Limits, Named, read_limits
from seqube.events import Events, Hierarchy
from seqube.language import Query
from seqube.language.files import read_query
from seqube.language.parameters import Params, refuse_unknown
from seqube.language.spelling import check_types
from seqube.plan.explain import Explanation, explain_workload
from seqube.plan.needs import Plan
from seqube.plan.optimizer import ALONE, WorkloadPlan, optimize

if TYPE_CHECKING:
    from seqube.engine.results import Result, Results

QueriesByName = Mapping[str, str | Query]


class Options(Named, total=False):
    """What `run` takes by name."""

    type: str | None
    time: str
    unit: str
    hierarchy: Hierarchy | None
    strategy: str
    params: Params | None
    threads: int | None
    limits: Limits | None


@overload
def run(query: str | Query, events: Any, **options: Unpack[Options]) -> Result: ...
@overload
def run(query: QueriesByName, events: Any, **options: Unpack[Options]) -> Results: ...
@checked
def run(
    query: str | Query | QueriesByName,
    events: Any,
    *,
    type: str | None = "type",
    time: str = "ts",
    unit: str = "ms",
    hierarchy: Hierarchy | None = None,
    strategy: str = "auto",
    params: Params | None = None,
    threads: int | None = None,
    limits: Limits | None = None,
    **named: Unpack[Named],
) -> Result | Results:
    """Run a query, or several by name, over events, and give a `Result`, or `Results` by name.

    - `query`: a text, a parsed `Query`, or a mapping from names to these; several share work where that pays.
    - `events`: an `Events`, a PyArrow table, a pandas or polars frame, or a path of CSV, JSON lines or Parquet files.
    - `type`, `time`, `unit`: the columns with the type and the time, and the unit of integer times. An `Events` has its own.
    - `hierarchy`: the concepts above the event types, a `Hierarchy`.
    - `strategy`: how to evaluate; "auto" takes what is expected to cost least, and `explain` says what there is.
    - `params`: values for the parameters of the query (`:limit`), by name: numbers, strings, times, durations, and lists for IN.
    - `threads`: how many may work at once; None: as SEQUBE_THREADS says, or all cores. The same rows come in the same order.
    - `limits`: what each query may use. Past that it is a `LimitError`, or, with `on_limit="truncate"`, its matches so far, marked.
    - `named`: the same limits one by one: `max_matches=1_000`.

    >>> events = pa.table({"ts": [0, 60, 90], "type": ["Card", "Card", "Withdrawal"], "id": [1, 2, 1]})
    >>> result = sq.run("SEQ(Card c, Withdrawal w, [id]) WITHIN 5 min RETURN c.id AS card, w.ts - c.ts AS lag", events, unit="s")
    >>> result.table.to_pylist()
    [{'card': 1, 'lag': 90}]
    """
    from seqube.engine.results import Results
    from seqube.engine.workload import run_workload

    limits = read_limits(limits, named, may_truncate=True)
    stream = events if isinstance(events, Events) else Events(events, type=type, time=time, unit=unit, threads=threads)
    results = run_workload(plan(query, stream, hierarchy, strategy, params), stream, limits, threads)
    return Results(results) if isinstance(query, Mapping) else results[ALONE]


@checked
def explain(
    query: str | Query | QueriesByName,
    events: Any = None,
    *,
    type: str | None = "type",
    time: str = "ts",
    unit: str = "ms",
    hierarchy: Hierarchy | None = None,
    strategy: str = "auto",
    params: Params | None = None,
) -> Explanation:
    """How a query, or a workload, is run over these events, and why: an `Explanation`.

    - `query`, `events`, `type`, `time`, `unit`, `hierarchy`, `strategy`, `params`: as for `run`. Without events it has no numbers.

    >>> print(sq.explain("SEQ(A a, B b, [id]) WITHIN 5 min"))
    return matches
    │   window: 5 min
    └─ match sequence of 2
       │   array stacks, enumerated from the last slot
       │   key: a.id = b.id (sorted by key, then time)
       ├─ scan A as a
       └─ scan B as b
    """
    stream = events if events is None or isinstance(events, Events) else Events(events, type=type, time=time, unit=unit)
    planned = plan(query, stream, hierarchy, strategy, params)
    return explain_workload(planned) if stream is None else explain_workload(planned, stream.statistics, stream.unit)


def plan(
    query: str | Query | QueriesByName,
    events: Events | None,
    hierarchy: Hierarchy | None = None,
    strategy: str = "auto",
    params: Params | None = None,
) -> WorkloadPlan:
    """One query or several, checked against the events they are for, and planned."""
    by_name = query if isinstance(query, Mapping) else {ALONE: query}
    refuse_unknown(by_name.values(), params or {})
    queries = {name: bind(text, events, hierarchy, params) for name, text in by_name.items()}
    if events is None:
        return optimize(queries, hierarchy, None, strategy)
    from seqube.engine.workload import plan_measured

    return plan_measured(queries, events, hierarchy, strategy)


def prepare(query: str | Query, events: Events | None, hierarchy: Hierarchy | None = None, strategy: str = "auto") -> Plan:
    """One query, checked and planned."""
    return plan(query, events, hierarchy, strategy).plans[ALONE]


def bind(query: str | Query, events: Events | None, hierarchy: Hierarchy | None = None, params: Params | None = None) -> Query:
    """A query, checked against the columns and the types of the events it is for."""
    bound = read_query(query, None if events is None else events.schema, params)
    if events is None:
        return bound
    check_types(bound, events.type_names, hierarchy)
    return bound if bound.order_by else replace(bound, order_by=events.order)
