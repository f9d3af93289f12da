"""States that this version wrote are read for ever, or refused by version: the bytes lie in `states`, one file for each kind.

What is written there is never written again; `SEQUBE_STATES=write` adds the files of kinds that are new.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

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


def kept_bytes(kind: str, written: bytes) -> bytes:
    """What was written once, by the first version that knew this kind; `written` where that is this one."""
    path = STATES / f"{kind.replace(' ', '-')}.arrow"
    if os.environ.get("SEQUBE_STATES") == "write" and not path.exists():
        path.write_bytes(written)
    return path.read_bytes()


def rest(operator: Operator[Any, pa.Table], state: Any) -> list[dict[str, Any]]:
    """What comes after the cut."""
    events = stream()
    state, found = operator.step(state, events.slice(6, len(events)))
    last = operator.finish(state)[1]
    assert found is not None
    assert last is not None
    rows: list[dict[str, Any]] = pa.concat_tables([found, last]).to_pylist()
    return rows


@pytest.mark.parametrize("kind", KINDS)
def test_a_state_that_was_kept_goes_on(kind: str) -> None:
    operator = opened(kind)
    state, found = operator.step(operator.start(), stream().slice(0, 6))
    assert found is not None
    before, after = found.to_pylist(), rest(operator, opened(kind).restore(kept_bytes(kind, state.to_bytes())))
    assert after
    key = str
    assert sorted(before + after, key=key) == sorted(operator.run(stream()).to_pylist(), key=key)


@pytest.mark.parametrize("kind", WORKLOADS)
def test_a_state_of_a_workload_that_was_kept_goes_on(kind: str) -> None:
    operator, events = opened_together(kind), stream()
    state, before = operator.step(operator.start(), events.slice(0, 6))
    other = opened_together(kind)
    state, after = other.step(other.restore(kept_bytes(kind, state.to_bytes())), events.slice(6, len(events)))
    last = other.finish(state)[1]
    for name, expected in operator.run(events).items():
        rows = [row for found in (before, after, last) if found is not None for row in found[name].to_pylist()]
        assert expected.num_rows
        assert sorted(rows, key=str) == sorted(expected.to_pylist(), key=str), name


RULES = sq.Rules([sq.Rule("A -> B", "C", 4, 9, 0.5, name="serial")])


def pushed(live: sq.Stream, begin: int, end: int) -> list[Any]:
    found = live.push(stream().table.slice(begin, end - begin))
    return [(name, row) for name, table in found.items() for row in table.to_pylist()]


def test_a_stream_that_was_saved_goes_on() -> None:
    """With events that wait for the watermark, states of operators, rules, and a query that was added."""
    queries = {name: KINDS[name] for name in ("keyed", "waiting", "products", "views")} | COUNTED
    live = sq.Stream(queries, rules=RULES, lateness=2, strategy="auto")
    before = pushed(live, 0, 4)
    live.add("more", KINDS["negated"])
    before += pushed(live, 4, 6)
    loaded = sq.Stream.load(kept_bytes("stream", live.save()))
    assert loaded.queries == live.queries
    ends = []
    for each in (live, loaded):
        rows = pushed(each, 6, 10)
        ends.append(rows + [(name, row) for name, table in each.close().items() for row in table.to_pylist()])
    assert ends[0]
    assert sorted(ends[0], key=str) == sorted(ends[1], key=str)
