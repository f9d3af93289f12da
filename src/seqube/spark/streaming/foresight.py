"""Rules on a streaming DataFrame: one bucket of the rules of one partition, kept and woken as a bucket of a query is.

Events wait for the watermark and stay for the longest predicate window, in the chunks of `watch`. When some are due, predictions
whose occurrence ends up to the watermark are made from the events of their keys, as a slice of time of a batch makes them: an
occurrence that ends in a slice needs the events of one predicate window before it and no memory of what was reported. So a
restart, or another cutting, cannot change them.

Cost of a call: that of `watch`, and the loops of a forecast over the window of the keys that have something new.
Invariant: predictions are those of the ordered stream; each comes once, when the watermark has passed the end of its occurrence.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from seqube.engine.limits import Limits
from seqube.events import Events
from seqube.plan.needs import Needs
from seqube.predict.forecasts import find_halo
from seqube.spark.forecasting import Share, predict_task
from seqube.spark.routing import SparkTask
from seqube.spark.streaming.watch import Held, Watch

RULES = "#rules"  # what the "queries" that rules are begin with


@dataclass(frozen=True)
class Predictions:
    """The rules of a watch, and the rows they give."""

    share: Share

    @property
    def schema(self) -> pa.Schema:
        return self.share.rows

    @property
    def limits(self) -> Limits:
        return self.share.limits


@dataclass(frozen=True)
class RuleWatch(Watch):
    """The rules of one partition on a stream, as workers need them."""

    wanted: Predictions  # type: ignore[assignment]  # in the place of a query's answer

    @cached_property
    def asks(self) -> str:
        """Changes when one of the rules does, or what they are about."""
        share = self.wanted.share
        concepts = sorted(share.types)
        about = ([rule.to_dict() for rule in share.rules], concepts, share.schema.unit)
        return hashlib.sha256(repr(about).encode()).hexdigest()

    @cached_property
    def needs(self) -> Needs:
        share = self.wanted.share
        return Needs(window=find_halo(share.rules, self.keeping.schema.unit), key=share.key, ends=share.types)

    @property
    def goes_on(self) -> bool:
        return False  # what ends in a slice is made of its events

    def _evaluate(self, held: Held, decided: int, events: Events) -> tuple[Held, pa.Table | None]:
        return held, predict_task(events, SparkTask(0, 0, decided, held.decided), self.wanted.share)
