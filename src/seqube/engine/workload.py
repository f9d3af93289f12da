"""A workload over a whole stream: what is shared is found together, each other query by itself, when it is asked for.

Cost: shared queries at once; of the others, nothing until their rows are taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TypeAlias

import pyarrow as pa

from seqube.engine.limits import Budget, Limits
from seqube.engine.operator import open_plan
from seqube.events import Events, Hierarchy
from seqube.language.tree import Query
from seqube.plan.measured import Measurements
from seqube.plan.optimizer import WorkloadPlan

RowsFound: TypeAlias = pa.Table | Callable[[Budget], Iterator[pa.Table]]  # rows, or how to find them piece by piece


def run_workload(workload: WorkloadPlan, events: Events, limits: Limits) -> dict[str, RowsFound]:
    """The rows of every query."""
    tables: dict[str, pa.Table] = {}
    if workload.matches is not None:
        from seqube.engine.ecube.reuse import run_shared

        tables |= run_shared(workload.matches, events, limits)
    if workload.counts is not None:
        from seqube.engine.aggregates.sharing import SharedAggregator

        tables |= SharedAggregator(workload.counts, workload.aggregates, limits).run(events)
    return {
        name: tables[name] if name in tables else partial(open_plan(plan, limits).pieces, events)
        for name, plan in workload.plans.items()
    }


def measure(queries: Mapping[str, Query], events: Events, hierarchy: Hierarchy | None) -> Measurements:
    """What is known of the events; for several queries that may share their matches, also how many those are, by a sample."""
    measured = Measurements(events.statistics, events.unit, events.distinct)
    matching = {name: query for name, query in queries.items() if not query.aggregates}
    if len(matching) < 2:
        return measured
    from seqube.engine.ecube.reuse import sample_sizes

    return replace(measured, sizes=sample_sizes(matching, events, hierarchy))
