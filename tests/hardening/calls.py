"""Public functions with arguments that fit, and values that fit nowhere: exchanged in `test_arguments.py`, and at random."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import AsyncIterator, Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa

import seqube as sq
from seqube.generate import generate, hierarchy

TABLE = pa.table({"type": ["A", "B", "A", "B"], "ts": [1, 2, 3, 4], "x": [1, 2, 3, 4]})
EVENTS = sq.Events(TABLE)
QUERY = "SEQ(A a, B b) WITHIN 5"
CONCEPTS = sq.Hierarchy.from_dict({"C": ["A", "B"]})
RULE = {"name": "r", "predicate": "A -> B", "consequent": "A", "within": "5", "horizon": "10", "probability": 0.5}
RULES = sq.Rules.from_dict({"rules": [RULE]})
CUBE = sq.Cube(EVENTS, "SEQ(C a, C b) WITHIN 5", hierarchy=CONCEPTS)

STRANGE: tuple[Any, ...] = (
    *(
        None,
        True,
        -1,
        1.5,
        float("nan"),
        "",
        "nonsense",
        "\0",
        b"bytes",
        [],
        [1],
        ["A"],
        [None],
        (),
        {},
        {"a": 1},
        {None: "x"},
        {1: QUERY},
    ),
    *(object(), TABLE, EVENTS, CONCEPTS, RULES, sq.parse(QUERY), datetime.timedelta(1), Decimal(1), 10**30, set(), lambda: 1),
)
WHERE = {"type": "type", "time": "ts", "unit": "ms"}
RUN = {"query": QUERY, "events": EVENTS, **WHERE, "hierarchy": CONCEPTS, "strategy": "auto"}
LIMITS = {"max_matches": 5, "max_seconds": 5.0, "max_state_bytes": 10**9, "on_limit": "error"}
MINE = {"events": EVENTS, "window": "5", "min_support": 1, "min_confidence": 0.5, "horizon": "10", "max_events": 2}
FUNNEL = {
    "events": EVENTS,
    "steps": ["A", "B"],
    "by": "x",
    "within": "5",
    "mode": "next",
    "without": {2: "A"},
    "breakdown": "x",
    **WHERE,
}
STREAM = {"queries": {"p": QUERY}, "hierarchy": CONCEPTS, "lateness": 0, "columns": None, "keep": None, "strategy": "auto", **WHERE}


def begun() -> sq.Stream:
    stream = sq.Stream(QUERY)
    stream.push(TABLE)
    return stream


class Rows:
    """Rows that come one after the other."""

    async def __aiter__(self) -> AsyncIterator[Any]:
        yield TABLE


ROWS = Rows()


def follow(source: Any) -> list[str]:
    async def names() -> list[str]:
        return [name async for name, _ in sq.Stream(QUERY).follow(source)]

    return asyncio.run(names())


CALLS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "run": (sq.run, RUN | LIMITS | {"limits": None}),
    "explain": (sq.explain, RUN),
    "parse": (sq.parse, {"text": QUERY, "schema": EVENTS.schema, "params": {}}),
    "Events": (sq.Events, {"data": TABLE, **WHERE}),
    "Cube": (sq.Cube, {"events": EVENTS, "query": QUERY, "hierarchy": CONCEPTS}),
    "Hierarchy.from_dict": (sq.Hierarchy.from_dict, {"tree": {"C": ["A"]}}),
    "Hierarchy.load": (sq.Hierarchy.load, {"path": "nowhere.yaml"}),
    "Rules.load": (sq.Rules.load, {"path": "nowhere.yaml"}),
    "Rules.from_dict": (sq.Rules.from_dict, {"document": {"rules": []}}),
    "Rule": (sq.Rule, RULE),
    "Rules": (sq.Rules, {"rules": list(RULES)}),
    "Rules.save": (RULES.save, {"path": "nowhere/at/all.yaml"}),
    "forecast": (sq.forecast, {"rules": RULES, "events": EVENTS, "hierarchy": CONCEPTS, "strategy": "auto", "key": None}),
    "funnel": (sq.funnel, FUNNEL | WHERE),
    "Events with an order": (sq.Events, {"data": TABLE, **WHERE, "order": "x"}),
    "column": (EVENTS.column, {"name": "x"}),
    "to_pandas": (lambda flat: sq.run(QUERY, EVENTS).to_pandas(flat=flat), {"flat": True}),
    "head": (lambda n: sq.run(QUERY, EVENTS).head(n), {"n": 2}),
    "sample": (lambda n, seed: sq.run(QUERY, EVENTS).sample(n, seed), {"n": 2, "seed": 7}),
    "sample of an aggregate": (
        lambda n, seed: sq.run("SEQ(A a, B b) AGG COUNT(*) WITHIN 5", EVENTS).sample(n, seed),
        {"n": 1, "seed": 7},
    ),
    "mine": (sq.mine, MINE | {"limit": 5, "partition_by": (), "kinds": ["serial"]}),
    "Limits": (sq.Limits, LIMITS),
    "Stream": (sq.Stream, STREAM | LIMITS | {"limits": None}),
    "Stream of rules": (sq.Stream, {"queries": {}, "rules": RULES}),
    "push": (lambda batch: sq.Stream(QUERY).push(batch), {"batch": TABLE}),
    "advance": (lambda time: begun().advance(time), {"time": 9}),
    "add": (lambda name, query: begun().add(name, query), {"name": "p", "query": QUERY}),
    "replace": (lambda name, query: begun().replace(name, query), {"name": "query", "query": QUERY}),
    "Stream.cube": (lambda **given: begun().cube(**given), {"name": "p", "query": QUERY, "every": "2 ms", "params": {}}),
    "Stream.load": (sq.Stream.load, {"data": b""}),
    "drill_down": (CUBE.drill_down, {"concept": [("C", "A", 1)], "pattern": []}),
    "roll_up": (CUBE.roll_up, {"concept": [], "pattern": []}),
    "slice": (CUBE.slice, {"predicate": "a.x > 1"}),
    "children": (CUBE.children, {"insert": ["A"]}),
    "follow": (follow, {"source": ROWS}),
    "Rules.from_text": (sq.Rules.from_text, {"text": "rules: []"}),
    "generate": (generate, {"kind": "stock", "n": 5, "seed": 0}),
    "hierarchy": (hierarchy, {"kind": "stock"}),
    "is_a": (CONCEPTS.is_a, {"name": "A", "ancestor": "C"}),
    **{each: (getattr(CONCEPTS, each), {"name": "A"}) for each in ("covers", "parent", "ancestors", "descendants", "level")},
    "Hierarchy.children": (CONCEPTS.children, {"name": "A"}),
    "to_polars": (lambda flat: sq.run(QUERY, EVENTS).to_polars(flat=flat), {"flat": True}),
    "to_native": (lambda flat: sq.run(QUERY, EVENTS).to_native(flat=flat), {"flat": True}),
    "remove": (lambda name: begun().remove(name), {"name": "query"}),
    "sql": (lambda text, t: sq.sql(text, t=t), {"text": "SELECT * FROM t", "t": TABLE}),
    "pivot": (CUBE.pivot, {"rows": 1, "columns": 2}),
}
