"""How the queries of a batch on Spark are evaluated: each by its own plan, and together where their events meet in tasks.

Whatever is decided by the events is decided by a sample of them, taken by one job before the workload's own (`EventFrame.survey`).
Queries share within a group (`batch.Group`): the same key, the same kind of cut. Each task of a group runs the same shared plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from seqube.events import Hierarchy, Statistics
from seqube.language import Query
from seqube.plan.measured import Measurements
from seqube.plan.needs import Plan
from seqube.plan.optimizer import WorkloadPlan, looked_at, plan_apart, share_among, undecided
from seqube.plan.strategies import names
from seqube.spark import ingest

SHARED = names("shared matches", "shared counts")
UNSEEN = Measurements(Statistics(0, None, None, {}))  # of events that nobody has looked at


@dataclass(frozen=True)
class BatchPlan:
    """How the queries of a batch are evaluated, and what is known of the events; those whose events meet in tasks may share."""

    workload: WorkloadPlan
    queries: Mapping[str, Query] = field(default_factory=dict)
    hierarchy: Hierarchy | None = None
    measured: Measurements | None = None

    @property
    def plans(self) -> Mapping[str, Plan]:
        return self.workload.plans

    def among(self, names: Iterable[str]) -> WorkloadPlan:
        """What these queries share with each other, where their events meet."""
        together = {name: self.queries[name] for name in names}
        if self.measured is None or len(together) < 2 or self.workload.strategy == "independent":
            return WorkloadPlan({name: self.plans[name] for name in together}, self.workload.strategy)
        return share_among(together, self.hierarchy, self.measured, self.workload)


def plan_stream(
    queries: Mapping[str, Query], hierarchy: Hierarchy | None, strategy: str, refuses: bool = True
) -> Mapping[str, Plan]:
    """The plans of queries for events that are still to come, each by itself, also where they are to share.

    A strategy to share by that does not apply is refused; of queries that come and go, some may be left that it is not for.
    """
    if strategy not in SHARED:
        return plan_apart(queries, hierarchy, None, strategy).plans
    if refuses:
        plan_apart(queries, hierarchy, UNSEEN, strategy)
    return plan_apart(queries, hierarchy, None).plans


def plan_batch(
    queries: Mapping[str, str | Query],
    source: ingest.EventFrame,
    hierarchy: Hierarchy | None = None,
    strategy: str = "auto",
    warns: bool = False,
) -> BatchPlan:
    """Queries checked against the columns they are for, and planned for events that are all there.

    Where it is the events that decide (how one query is evaluated, or which are evaluated together), a sample of them is looked at.

    With `warns`, rows that are no events are warned of, by the same job where there is one.
    """
    bound = ingest.bind_all(queries, source)
    # What is wrong is said before anything is read; whether queries can share is asked as if the events were known.
    workload = plan_apart(bound, hierarchy, UNSEEN if strategy in SHARED else None, strategy)
    looked_up = list(undecided(bound, hierarchy, strategy).values())
    shared = looked_at(bound, hierarchy, strategy)
    measured: Measurements | None = None
    rejected: dict[str, int] | None = None
    if looked_up or shared is not None:
        measured, rejected = source.survey(frozenset().union(*looked_up, shared or ()))
        if measured is not None:
            workload = plan_apart(bound, hierarchy, measured, strategy)
    if warns:
        source.warn(rejected)
    return BatchPlan(workload, bound, hierarchy, measured)
