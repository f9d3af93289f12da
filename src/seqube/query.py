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
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack, overload

from seqube.engine.limits import Limits, Named, read_limits
from seqube.errors import PlanError, Problem, QueryError
from seqube.events import Events, Hierarchy
from seqube.language import Query, check, parse
from seqube.language.tree import leaves
from seqube.plan.aggregates import AggregatePlan, choose, looked_up, plan_aggregates
from seqube.plan.chase import STRATEGIES as SHARING
from seqube.plan.chase import Optimizer, SharedPlan, explain_shared
from seqube.plan.explain import Explanation, explain_aggregates, explain_matches
from seqube.plan.physical import MatchPlan
from seqube.plan.planner import plan_matches
from seqube.plan.sharing import STRATEGIES as COUNTING
from seqube.plan.sharing import SharingPlan, counted, explain_sharing, plan_sharing
from seqube.plan.views import STRATEGIES as NESTED
from seqube.plan.views import Measured, equated

if TYPE_CHECKING:
    import pyarrow as pa

    from seqube.engine.results import Result, Results

Workload = Mapping[str, str | Query]

STRATEGIES = ("auto", *NESTED)


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
    limits: Limits | None = ...,
    **named: Unpack[Named],
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
    limits: Limits | None = ...,
    **named: Unpack[Named],
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
    limits: Limits | None = None,
    **named: Unpack[Named],
) -> Result | Results:
    """Run a query, or several by name, over events, and give a `Result`, or `Results` by name.

    - `query`: a text, a parsed `Query`, or a mapping from names to these; several share work where that pays.
    - `events`: an `Events`, a PyArrow table, a pandas or polars frame, or a path of CSV, JSON lines or Parquet files.
    - `type`, `time`, `unit`: the columns with the type and the time, and the unit of integer times. An `Events` has its own.
    - `hierarchy`: the concepts above the event types, a `Hierarchy`.
    - `strategy`: how to evaluate; "auto" takes what is expected to cost least, and `explain` says what there is.
    - `limits`: what each query may use. Past that it is a `LimitError`, or, with `on_limit="truncate"`, its matches so far, marked.
    - `named`: the same limits one by one: `max_matches=1_000`.

    >>> events = pa.table({"ts": [0, 60, 90], "type": ["Card", "Card", "Withdrawal"], "id": [1, 2, 1]})
    >>> result = sq.run("SEQ(Card c, Withdrawal w, [id]) WITHIN 5 min RETURN c.id AS card, w.ts - c.ts AS lag", events, unit="s")
    >>> result.table.to_pylist()
    [{'card': 1, 'lag': 90}]
    """
    from seqube.engine.aggregates.sharing import SharedAggregator
    from seqube.engine.ecube.reuse import run_shared
    from seqube.engine.operator import open_plan
    from seqube.engine.results import Result, Results

    limits = read_limits(limits, named, may_truncate=True)
    stream = events if isinstance(events, Events) else Events(events, type=type, time=time, unit=unit)
    alone = "auto" if isinstance(query, Mapping) and strategy in (*SHARING, *COUNTING) else strategy
    plans = {name: prepare(text, stream, hierarchy, alone) for name, text in _by_name(query).items()}
    tables: dict[str, pa.Table] = {}
    if isinstance(query, Mapping) and (shared := _share(query, stream, hierarchy, strategy)) is not None:
        tables |= run_shared(shared, stream, limits)
    if isinstance(query, Mapping) and (counts := _share_counts(plans, stream, strategy)) is not None:
        aggregates = {name: plan for name, plan in plans.items() if isinstance(plan, AggregatePlan)}
        tables |= SharedAggregator(counts, aggregates, limits).run(stream)
    results = {}
    for name, plan in plans.items():
        found = tables[name] if name in tables else partial(open_plan(plan, limits).pieces, stream)
        results[name] = Result(found, stream.rejected, limits)
    return Results(results) if isinstance(query, Mapping) else results[""]


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
    """How a query, or a workload, is run over these events, and why: an `Explanation`.

    - `query`, `events`, `type`, `time`, `unit`, `hierarchy`, `strategy`: as for `run`. Without events there are no numbers in it.

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
    statistics = stream.statistics if stream is not None else None
    alone = "auto" if isinstance(query, Mapping) and strategy in (*SHARING, *COUNTING) else strategy
    plans = {name: prepare(text, stream, hierarchy, alone) for name, text in _by_name(query).items()}
    together: dict[str, Explanation] = {}
    if isinstance(query, Mapping) and stream is not None:
        if (shared := _share(query, stream, hierarchy, strategy)) is not None and (shared.reuses or strategy in SHARING):
            together["matches"] = explain_shared(shared)
            if strategy in SHARING:
                return together["matches"]
            plans = {name: plan for name, plan in plans.items() if name not in shared.sources}
        if (counts := _share_counts(plans, stream, strategy)) is not None:
            together["counts"] = explain_sharing(counts)
            plans = {name: plan for name, plan in plans.items() if name not in counts.queries}
    return Explanation.join(
        together
        | {
            name: explain_aggregates(plan, statistics) if isinstance(plan, AggregatePlan) else explain_matches(plan, statistics)
            for name, plan in plans.items()
        }
    )


def prepare(
    query: str | Query, events: Events | None, hierarchy: Hierarchy | None = None, strategy: str = "auto"
) -> MatchPlan | AggregatePlan:
    """A query checked against the events it is for, and planned."""
    bound = parse(query, events.schema if events is not None else None) if isinstance(query, str) else query
    if not isinstance(bound, Query):
        raise QueryError(Problem(f"a query is a text or a parsed Query, not a {type(bound).__name__}"))
    if strategy not in STRATEGIES and not bound.aggregates:
        raise PlanError(f"strategy {strategy!r} does not apply to this query\n  hint: one of {', '.join(STRATEGIES)}")
    if events is not None:
        check(bound, events.schema)
        check_types(bound, events.type_names, hierarchy)
    if not bound.aggregates:
        if events is None:
            return plan_matches(bound, hierarchy, strategy)
        measured = Measured(events.statistics, events.unit, _distinct(events, equated(bound.pattern)))
        return plan_matches(bound, hierarchy, strategy, measured)
    plan = plan_aggregates(bound, hierarchy)
    if events is None:
        return choose(plan, strategy)
    return choose(plan, strategy, events.statistics, events.unit, _distinct(events, looked_up(plan)))


def _distinct(events: Events, names: Iterable[str]) -> dict[str, int]:
    """How many values columns have among the first events: enough to tell few keys from many."""
    from seqube.engine.predicates import code_columns

    return {name: code_columns([[events.column(name).slice(0, 65_536)]])[1] for name in names}


def _share(workload: Workload, events: Events, hierarchy: Hierarchy | None, strategy: str) -> SharedPlan | None:
    """How the queries of a workload are computed from each other's matches; None where they are not."""
    from seqube.engine.ecube.reuse import measure

    if strategy not in ("auto", *SHARING):
        return None
    queries = {name: parse(text) if isinstance(text, str) else text for name, text in workload.items()}
    if strategy == "auto" and sum(not query.aggregates for query in queries.values()) < 2:
        return None
    optimizer = Optimizer(queries, hierarchy)
    return optimizer.plan("chase" if strategy == "auto" else strategy, measure(optimizer, events))


def _share_counts(plans: Mapping[str, MatchPlan | AggregatePlan], events: Events, strategy: str) -> SharingPlan | None:
    """How the queries of a workload that count plain sequences are counted together; None where there are not two of them."""
    found = {name: counted(plan, events.unit) for name, plan in plans.items() if isinstance(plan, AggregatePlan)}
    queries = {name: query for name, query in found.items() if query is not None}
    if len(queries) < 2 or strategy not in ("auto", *COUNTING):
        return None
    return plan_sharing(queries, events.statistics, strategy)


def _by_name(query: str | Query | Workload) -> Workload:
    return query if isinstance(query, Mapping) else {"": query}


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
