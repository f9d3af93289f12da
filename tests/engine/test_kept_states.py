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
from seqube.engine.operator import Operator, open_plan
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
}
STRATEGIES = {"products": "window-product", "keyed products": "window-product", "grouped products": "window-product"}
STRATEGIES |= {
    "counters": "per-start",
    "totals": "window-product",
    "buckets": "window-product",
    "replayed aggregates": "window-product",
}
STRATEGIES |= {"products of lists": "window-product", "counters of lists": "per-start"}


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
    path = STATES / f"{kind.replace(' ', '-')}.arrow"
    if os.environ.get("SEQUBE_STATES") == "write" and not path.exists():
        path.write_bytes(state.to_bytes())
    before, after = found.to_pylist(), rest(operator, opened(kind).restore(path.read_bytes()))
    assert after
    key = str
    assert sorted(before + after, key=key) == sorted(operator.run(stream()).to_pylist(), key=key)
