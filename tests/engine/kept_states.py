"""The kinds of states there are, and what goes on with each: their bytes lie in `states`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

import seqube as sq
from seqube.engine.aggregates.sharing import SharedAggregator
from seqube.engine.ecube.adaptation import SharedMatcher
from seqube.engine.operator import Operator, open_plan
from seqube.language import parse
from seqube.plan.measured import Measurements
from seqube.plan.optimizer import optimize
from seqube.query import prepare

STATES = Path(__file__).parent / "states"
KINDS = {  # each is cut after the sixth event, where something is kept, something waits and something is still to come of both
    "keyed": "SEQ(A a, B b, C c, [id]) WITHIN 10",
    "compared": "SEQ(A a, C c, a.x < c.x, a.name != c.name) WITHIN 10",
    "negated": "SEQ(A a, !B b, C c, [id]) WITHIN 10",
    "waiting": "SEQ(A a, C c, !B b, [id]) WITHIN 10",
    "partitioned": "PATTERN SEQ(A a, C c) PARTITION BY name WITHIN 10",
    "events": "SEQ(A a, C c) WITHIN 5 EVENTS",
    "events of a partition": "PATTERN SEQ(A a, C c, !B b) PARTITION BY id WITHIN 3 EVENTS",
    "thinned out": "PATTERN SEQ(A a, C c) PARTITION BY name SKIP PAST LAST WITHIN 10",
    "thinned out events": "SEQ(A a, C c, !B b) SKIP TO NEXT WITHIN 5 EVENTS",
    "replayed": "AND(A a, C c, [id]) WITHIN 10",
    "products": "SEQ(A a, B b, C c) WITHIN 10 AGG COUNT(*), SUM(a.x), MIN(c.id)",
    "keyed products": "SEQ(A a, C c, [id]) WITHIN 10 AGG COUNT(*)",
    "grouped products": "SEQ(A a, C c, [id]) WITHIN 10 AGG COUNT(*), MAX(a.x) GROUP BY a.id EMIT EVERY 3",
    "counters": "SEQ(!B b, A a, C c) WITHIN 10 AGG COUNT(*), AVG(c.x)",
    "totals": "SEQ(A a, C c, !B b) WITHIN 5 AGG COUNT(*) EMIT TOTAL",
    "products of lists": "SEQ(A a, B* b, C+ c) WITHIN 10 AGG COUNT(*), SUM(c.x), MIN(b.id)",
    "counters of lists": "SEQ(A{1,2} a, !B b, C c, [id]) WITHIN 10 AGG COUNT(*), APPROX_COUNT(*), MAX(a.x)",
    "buckets": "SEQ(A a, C c, [id]) WITHIN 10 AGG COUNT(*), SUM(c.x) GROUP BY a.id EMIT PER 8",
    "replayed buckets": "SEQ(A a, C c, !B b) WITHIN 3 AGG COUNT(*), MAX(c.x) GROUP BY a.name EMIT PER 4",
    "replayed aggregates": "SEQ(A a, C c) WITHIN 10 AGG COUNT(*) GROUP BY a.name",
    "aggregates of what is thinned out": "SEQ(A a, C c) SKIP TO NEXT WITHIN 2 AGG COUNT(*), SUM(c.x)",
    "totals of what is thinned out": "SEQ(A a, C c) SKIP PAST LAST WITHIN 5 EVENTS AGG COUNT(*), SUM(c.x) EMIT TOTAL",
    "nested": "SEQ(A a, !SEQ(B b, C c, [id]), C d) WITHIN 10",
    "views": "SEQ(A a, !SEQ(B b, C c, a.x < c.x), C d) WITHIN 10",
    "views that wait": "SEQ(A a, AND(B b, C c), !SEQ(A e, B f)) WITHIN 6",
}
STRATEGIES = {"products": "window-product", "keyed products": "window-product", "grouped products": "window-product"}
STRATEGIES |= {
    "counters": "per-start",
    "totals": "window-product",
    "buckets": "window-product",
    "replayed aggregates": "window-product",
}
STRATEGIES |= {"products of lists": "window-product", "counters of lists": "per-start"}
STRATEGIES |= {"nested": "latest-start", "views": "balanced", "views that wait": "passive"}
COUNTED = {
    "one": "SEQ(A a, B b, C c) WITHIN 10 AGG COUNT(*)",
    "other": "SEQ(A a, B b) WITHIN 10 AGG COUNT(*)",
    "third": "SEQ(B b, C c) WITHIN 8 AGG COUNT(*)",
}
MATCHED = {"wide": "SEQ(A a, C c) WITHIN 10", "longer": "SEQ(A a, B b, C c, [id]) WITHIN 10", "last": "SEQ(C c, !B b) WITHIN 5"}
WORKLOADS = {  # the queries, and how they share
    "counted by a prefix tree": (COUNTED, "prefix-tree"),
    "counted in pieces": (COUNTED, "chop-connect"),
    "matched together": (MATCHED, "top-down"),
}


def stream() -> sq.Events:
    types = "ABACBCCABC"
    return sq.Events(
        pa.table(
            {
                "type": list(types),
                "ts": [1, 2, 2, 4, 5, 6, 6, 8, 9, 12],
                "id": pa.array([1, 1, 2, 1, 2, 2, 1, 1, None, 1], pa.int32()),
                "x": [0.5, 1.0, -1.0, 2.0, 0.0, 3.5, 0.25, -2.0, 1.0, 4.0],
                "name": ["p", "q", "p", "p", "q", "p", "q", "p", None, "p"],
            }
        )
    )


def opened(kind: str) -> Operator[Any, pa.Table]:
    return open_plan(prepare(KINDS[kind], None, strategy=STRATEGIES.get(kind, "auto")))


def opened_together(kind: str) -> Operator[Any, dict[str, pa.Table]]:
    texts, strategy = WORKLOADS[kind]
    queries = {name: parse(text) for name, text in texts.items()}
    if texts is MATCHED:
        return SharedMatcher(queries, strategy=strategy)
    plan = optimize(queries, None, Measurements(stream().statistics, "ms"), strategy)
    assert plan.counts is not None
    return SharedAggregator(plan.counts, plan.aggregates)
