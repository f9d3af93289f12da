"""Rules on a streaming DataFrame: one bucket of the rules of one partition, kept and woken as a bucket of a query is.

Events wait for the watermark and stay for the longest predicate window, in the chunks of `watch`. An occurrence that ends after
some moment needs the events of one predicate window before it and no other memory of what was reported: the same predictions come
from a forecaster that goes on, and from one that is made of those events. So a restart, or another cutting, cannot change them.

Cost of a call: that of `watch`; strategies that go over the window anew, the loops of a forecast over the keys with something new.
Invariant: predictions are those of the ordered stream; each comes once, when the watermark has passed the end of its occurrence.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from seqube.engine.limits import Limits
from seqube.plan.needs import Needs
from seqube.predict.forecasts import Forecaster, find_halo
from seqube.spark.forecasting import Share
from seqube.spark.streaming.watch import Watch

RULES = "#rules"  # what the "queries" that rules are begin with


@dataclass(frozen=True)
class Predictions:
    """The rules of a watch, and the rows they give."""

    share: Share

    has_counters = replays_keys = False

    @property
    def schema(self) -> pa.Schema:
        return self.share.rows

    @property
    def limits(self) -> Limits:
        return self.share.limits

    @property
    def operator(self) -> Forecaster:
        return self.share.make_forecaster()

    @property
    def unlimited(self) -> Predictions:
        return self  # a forecaster has no limits of its own

    def rows(self, table: pa.Table) -> pa.Table:
        return self.share.write(table)


@dataclass(frozen=True)
class RuleWatch(Watch):
    """The rules of one partition on a stream, as workers need them."""

    wanted: Predictions  # type: ignore[assignment]  # in the place of a query's answer

    called = "forecast"

    @cached_property
    def asks(self) -> str:
        """Changes when one of the rules does, or what they are about."""
        share = self.wanted.share
        concepts: object = sorted(share.types)
        if (hierarchy := share.hierarchy) is not None:
            names = {vertex.type for rule in share.rules for vertex in rule.vertices}
            concepts = [(name, sorted(hierarchy.covers(name))) for name in sorted(names)]
        about = ([rule.to_dict() for rule in share.rules], concepts, share.schema.unit)
        return hashlib.sha256(repr(about).encode()).hexdigest()

    @cached_property
    def needs(self) -> Needs:
        share = self.wanted.share
        return Needs(window=find_halo(share.rules, self.keeping.schema.unit), key=share.key, ends=share.types)
