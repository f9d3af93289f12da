"""A workload over events that are at hand: planned for them, and run; what is shared is found together, each other query by itself.

Cost: shared queries as a whole; of the others, what it takes to find their first rows (`engine/results.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial

import pyarrow as pa

from seqube.engine.at_hand import find_everywhere
from seqube.engine.limits import Limits
from seqube.engine.operator import open_plan
from seqube.engine.results import Result, begin_result, whole_result
from seqube.engine.unbuilt import Unbuilt
from seqube.errors import warn
from seqube.events import Events, Hierarchy
from seqube.language.tree import Query
from seqube.plan.measured import Measurements
from seqube.plan.needs import Plan
from seqube.plan.notes import notes_on
from seqube.plan.optimizer import WorkloadPlan, expected_seconds, optimize
from seqube.plan.physical import MatchPlan
from seqube.threads import read_threads

YEAR = 365 * 86_400.0  # seconds


def run_workload(workload: WorkloadPlan, events: Events, limits: Limits, threads: int | None = 1) -> dict[str, Result]:
    """The result of every query; what a person should know of one is said, each note once."""
    threads = read_threads(threads)
    notes = {name: (*workload.notes.get(name, ()), *_too_long(plan, limits)) for name, plan in workload.plans.items()}
    for note in dict.fromkeys(note for own in notes.values() for note in own):
        warn(note)
    tables: dict[str, pa.Table] = {}
    if workload.matches is not None:
        from seqube.engine.ecube.reuse import run_shared

        tables |= run_shared(workload.matches, events, limits, threads)
    if workload.counts is not None and workload.counts.shares:
        from seqube.engine.aggregates.sharing import SharedAggregator

        tables |= next(SharedAggregator(workload.counts, workload.aggregates, limits).pieces(events, limits.budget(), threads))
    results = {}
    for name, plan in workload.plans.items():
        about = events.rejected, limits, (*events.notes, *notes[name])
        if name in tables:
            results[name] = whole_result(tables[name], *about)
        else:
            find = partial(find_everywhere, plan) if isinstance(plan, MatchPlan) else open_plan(plan, limits).pieces
            unbuilt = Unbuilt(plan, events, limits, threads) if isinstance(plan, MatchPlan) else None
            results[name] = begin_result(partial(find, events, threads=threads), *about, unbuilt)
        results[name].native = events.native
        results[name].groups = None if isinstance(plan, MatchPlan) else plan.group_names
    return results


def _too_long(plan: Plan, limits: Limits) -> Iterator[str]:
    """Said before it starts: that it is expected to take longer than it may. What LIMIT ends soon is not weighed."""
    if plan.matches.limit is None and limits.max_seconds is not None and (expected := expected_seconds(plan)) > limits.max_seconds:
        about = f"about {expected:,.0f} s" if expected < YEAR else "years"
        yield (
            f"this is expected to take {about}, and may take {limits.max_seconds:,.0f} s (max_seconds): "
            "narrow the window, or tie its parts by equalities"
        )


def plan_measured(queries: Mapping[str, Query], events: Events, hierarchy: Hierarchy | None, strategy: str) -> WorkloadPlan:
    """The plan of queries for events that are at hand, with what a person should know of them."""
    notes = {name: notes_on(query, events, hierarchy) for name, query in queries.items()}
    return replace(optimize(queries, hierarchy, measure(queries, events, hierarchy), strategy), notes=notes)


def measure(queries: Mapping[str, Query], events: Events, hierarchy: Hierarchy | None) -> Measurements:
    """What is known of the events; for several queries that may share their matches, also how many those are, by a sample."""
    measured = Measurements(events.statistics, events.unit, events.distinct)
    matching = {name: query for name, query in queries.items() if not query.aggregates}
    if len(matching) < 2:
        return measured
    from seqube.engine.ecube.reuse import sample_sizes

    return replace(measured, sizes=sample_sizes(matching, events, hierarchy))
