"""A thousand queries whose types are rare cost about what their events cost: nothing is looked at per query that is not its own."""

from __future__ import annotations

import threading

import pyarrow as pa
import pytest

import oracle
import seqube as sq
from aggregate_queries import assert_same_rows
from seqube.engine.aggregates.aggregation import Task
from seqube.language import parse
from seqube.plan.ecube import Cuboid, Lattice, _Relation, cuboid_of
from strategies import table

RARE = 20
AGGREGATES = [
    "b) WITHIN 40 AGG COUNT(*)",
    "b, [id]) WITHIN 40 AGG COUNT(*), SUM(b.x) EMIT TOTAL",
    "b, [id]) WITHIN 40 AGG AVG(b.x) GROUP BY a.id",
    "b, !C0 c) WITHIN 40 AGG COUNT(*), MAX(a.x)",
    "b) WITHIN 40 AGG COUNT(*) EMIT EVERY 25",
    "b) WITHIN 90 EVENTS AGG COUNT(*)",
    "b) WHERE a.x != b.x WITHIN 40 AGG COUNT(*) EMIT TOTAL",
]
# Mostly common events: each of the rare types is one in a hundred.
EVENTS = oracle.stream(
    *(
        (f"R{i // 5 * 7 % RARE}" if i % 5 == 0 else f"C{i % 3}", i, {"id": i // 5 % 3, "x": i % 11, "name": "never looked at"})
        for i in range(400)
    )
)


@pytest.fixture(scope="module")
def events() -> pa.Table:
    return table(EVENTS)


@pytest.mark.parametrize("rest", AGGREGATES)
def test_rare_types_among_others_mean_what_they_mean_alone(rest: str, events: pa.Table) -> None:
    queries = {f"q{i}": f"SEQ(R{i} a, R{(i + 7) % RARE} {rest}" for i in range(0, RARE, 7)}
    found = sq.run(queries, events)
    for name, query in queries.items():
        assert_same_rows(found[name].table.to_pylist(), oracle.aggregates(parse(query), EVENTS))


def test_an_aggregate_of_rare_types_looks_at_its_own_events_and_columns(events: pa.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[sq.Events] = []
    begin = Task.__post_init__

    def spy(task: Task) -> None:
        seen.append(task.batch.events)
        begin(task)

    monkeypatch.setattr(Task, "__post_init__", spy)
    sq.run("SEQ(R0 a, R7 b, [id]) WITHIN 40 AGG SUM(b.x) EMIT TOTAL", events)
    (batch,) = seen
    assert len(batch) == sum(event.type in ("R0", "R7") for event in EVENTS)
    assert set(batch.table.column_names) == {"ts", "type", "id", "x"}


def test_only_queries_that_may_be_related_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = []
    compare = _Relation.compare
    monkeypatch.setattr(_Relation, "compare", lambda *both: compared.append(1) or compare(*both))
    found = {f"q{i}": cuboid_of(parse(f"SEQ(A{i} a, B{i % 50} b) WITHIN 5")) for i in range(1_000)}
    cuboids = {name: cuboid for name, cuboid in found.items() if isinstance(cuboid, Cuboid)}
    assert not Lattice.of(cuboids).edges
    assert len(compared) <= len(cuboids)


def test_no_thread_is_started_for_a_query(events: pa.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    query = "SEQ(R0 a, R7 b) WITHIN 40 AGG COUNT(*) EMIT TOTAL"
    sq.run(query, events)  # the clock of the process is running now
    started: list[threading.Thread] = []
    monkeypatch.setattr(threading.Thread, "start", started.append)
    sq.run({f"q{i}": query for i in range(5)}, events)
    assert not started
