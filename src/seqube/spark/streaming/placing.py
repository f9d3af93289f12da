"""Which watches a stream has: one for the queries of each key that go together, one for each other query and group of rules.

queries -> how each is to be shipped -> which go together, and since when -> watches, and for each its key and which rows it wants
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from seqube.engine.limits import Limits
from seqube.errors import PlanError
from seqube.plan.aggregates import AggregatePlan
from seqube.plan.needs import Plan
from seqube.spark import ingest
from seqube.spark.forecasting import Share
from seqube.spark.ingest import KEY, EventFrame
from seqube.spark.rows import refuse_in_streams, ship_query
from seqube.spark.streaming.foresight import RULES, Predictions, RuleWatch
from seqube.spark.streaming.together import SharedWorkload, going_together
from seqube.spark.streaming.watch import FIRST_TAKER, Watch, asked_of, watch_query
from seqube.spark.transport.columns import Columns

if TYPE_CHECKING:
    from pyspark.sql import Column

# From what each watch or query asks, and which would go together: the generation of each, and whether it does.
CountGenerations: TypeAlias = Callable[[Mapping[str, str], Collection[str]], Mapping[str, tuple[int, bool]]]


def refuse_totals(plan: Plan) -> None:
    """Refuse what a stream never reports."""
    if isinstance(plan, AggregatePlan) and plan.emit.when == "total":
        raise PlanError("EMIT TOTAL reports at the end of the input, and a stream has none\n  hint: EMIT PER 1 hour, or a batch")


@dataclass(frozen=True)
class Placing:
    """What all watches of a stream have in common."""

    source: EventFrame
    with_ids: bool
    whole_rows: bool  # late and rejected ones come out with all their columns
    limits: Limits

    def place(
        self,
        plans: Mapping[str, Plan],
        shares: Sequence[Share],
        workload: SharedWorkload | None,
        generations: CountGenerations | None,
    ) -> tuple[dict[str, Watch], dict[str, tuple[Sequence[str], Column]]]:
        """The watches; and for each the key that splits its events, and which those are."""
        schema, source = self.source.schema, self.source
        for plan in plans.values():
            refuse_totals(plan)
            refuse_in_streams(plan)
        shipped = {name: ship_query(plan, schema, self.with_ids, self.limits) for name, plan in plans.items()}
        rules = {watch.name: (watch, share) for share in shares for watch in [self._rules(share)]}
        known: Mapping[str, tuple[int, bool]] = {}
        if generations is not None:
            asked = {name: asked_of(own, schema.unit) for name, own in shipped.items()}
            asked |= {name: watch.asks for name, (watch, _) in rules.items()}
            known = generations(asked, going_together(shipped, schema))
        since = None if generations is None else {name: known[name][0] for name in shipped if known[name][1]}
        groups = {} if workload is None else workload.watches(shipped, schema, self.limits, since)
        watches: dict[str, Watch] = dict(groups)
        wanted: dict[str, tuple[Sequence[str], Column]] = {}
        for name, group in groups.items():
            wanted[name] = group.needs.key, ingest.relevant([plans[query] for query in group.wanted.queries], source)
        together = {query for group in groups.values() for query in group.wanted.queries}
        for name in (name for name in plans if name not in together):
            watches[name] = watch_query(name, shipped[name], schema)
            wanted[name] = watches[name].needs.key, ingest.relevant([plans[name]], source)
        for name, (watch, share) in rules.items():
            watches[name] = watch
            wanted[name] = share.key, share.wants(source)
        n_watches = len(watches)
        return {name: self._arriving(watch, known.get(name, (0, False))[0], n_watches) for name, watch in watches.items()}, wanted

    def _rules(self, share: Share) -> RuleWatch:
        name = " ".join((RULES, *share.key))  # the same while the partition is, so that other rules do not lose their state
        columns = Columns(share.schema, (KEY,) if share.key else ())
        return RuleWatch(name, Predictions(share), columns, columns)

    def _arriving(self, watch: Watch, generation: int, n_watches: int) -> Watch:
        """The watch, for what its rows come with."""
        schema = self.source.schema if self.whole_rows else watch.arriving.schema
        first = (FIRST_TAKER,) if n_watches > 1 else ()
        return replace(watch, arriving=Columns(schema, (*watch.arriving.hidden, *first)), generation=generation)
