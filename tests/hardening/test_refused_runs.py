"""Repetition, NEXT, STRICT, ORDER BY, SKIP, KEEP PARTIAL: whoever does not know them says so by name."""

from __future__ import annotations

import pyarrow as pa
import pytest

import seqube as sq
from seqube.language import parse
from seqube.plan.optimizer import plan_query
from seqube.spark.rows import refuse_in_streams

EVENTS = sq.Events(pa.table({"type": ["A", "B", "B"], "ts": [1, 2, 3], "x": [1, 2, 3]}))
QUERIES = (
    "SEQ(A a, B+ b) WITHIN 5",
    "NEXT(A a, B b) WITHIN 5",
    "SEQ(A a, !STRICT(B b, B c), B d) WITHIN 5",
    "SEQ(A a, B b) ORDER BY x WITHIN 5",
    "SEQ(A a, B b) SKIP PAST LAST WITHIN 5",
    "NEXT(A a, B b) KEEP PARTIAL WITHIN 5",
)


@pytest.mark.parametrize("query", [*QUERIES, "SEQ(A a, B b) SKIP PAST LAST WITHIN 5 AGG COUNT(*)"])
def test_streams_on_spark_take_them(query: str) -> None:
    refuse_in_streams(plan_query(parse(query)))


@pytest.mark.parametrize(
    ("clause", "what"),
    [("RETURN DISTINCT a.x", "RETURN DISTINCT"), ("LIMIT 3", "LIMIT")],
)
def test_streams_on_spark_refuse_what_is_asked_of_all_rows(clause: str, what: str) -> None:
    with pytest.raises(sq.PlanError, match=f"{what} cannot be run in a stream on Spark yet"):
        refuse_in_streams(plan_query(parse(f"SEQ(A a, B b) WITHIN 5 {clause}")))


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("strategy", ["iterative", "aggressive", "passive", "balanced"])
def test_views_refuse(query: str, strategy: str) -> None:
    if "SKIP" in query:  # which matches remain does not depend on how they were found
        assert len(sq.run(query, EVENTS, strategy=strategy)) == 1
        return
    with pytest.raises(sq.PlanError, match=f"strategy '{strategy}' does not apply to this query"):
        sq.run(query, EVENTS, strategy=strategy)


@pytest.mark.parametrize("query", QUERIES)
def test_cubes_refuse(query: str) -> None:
    with pytest.raises(sq.PlanError, match="a cube"):
        sq.Cube(EVENTS, query)


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("strategy", ["top-down", "bottom-up", "chase"])
def test_shared_matches_leave_them_apart(query: str, strategy: str) -> None:
    alone = sq.run(query, EVENTS).table.to_pylist()
    workload = {"one": query, "two": "SEQ(A a, B b) WITHIN 5", "three": "SEQ(A a, B b, B c) WITHIN 5"}
    assert sq.run(workload, EVENTS, strategy=strategy)["one"].table.to_pylist() == alone
