"""`sqs.Cube`: what `sq.Cube` gives for the same events, each step by one workload."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import seqube as sq
import seqube.spark as sqs
from seqube.generate import generate
from seqube.spark import batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COMPANIES = sq.Hierarchy.from_dict({"Computer": ["DELL", "INTC", "MSFT"], "Finance": ["QQQ", "FCF", "ROM"]})
TEXT = "SEQ(Computer a, Finance b, a.price > 10) WITHIN 60 ms"


@pytest.fixture(scope="module")
def trades() -> pa.Table:
    return generate("stock", 3_000, seed=4)


@pytest.fixture(scope="module")
def frame(spark: SparkSession, trades: pa.Table) -> DataFrame:
    return spark.createDataFrame(trades).repartition(3).cache()


def test_counts_moves_and_tables(frame: DataFrame, trades: pa.Table) -> None:
    here, there = sqs.Cube(frame, TEXT, COMPANIES), sq.Cube(trades, TEXT, COMPANIES)
    assert here.count == there.count > 0
    assert repr(here) == repr(there)
    assert here.pivot(rows=1, columns=2).equals(there.pivot(rows=1, columns=2))

    def moved(cube: sq.Cube) -> sq.Cube:
        return cube.drill_down(concept=[("Computer", "DELL", 1)], pattern=[("!ROM", 2)]).slice("b.price < 80")

    assert isinstance(moved(here), sqs.Cube)
    assert moved(here).count == moved(there).count == moved(here).table().count() > 0
    assert moved(here).roll_up(pattern=[("ROM", 2)]).count == moved(there).roll_up(pattern=[("ROM", 2)]).count


def test_each_step_is_one_workload(frame: DataFrame, trades: pa.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    collect = batch.collect

    def counted(planned: Any, source: Any) -> dict[str, pa.Table]:
        asked.append(len(planned.plans))
        return collect(planned, source)

    monkeypatch.setattr(batch, "collect", counted)
    here, there = sqs.Cube(frame, TEXT, COMPANIES), sq.Cube(trades, TEXT, COMPANIES)
    assert here.children(insert=["!ROM"]).table == there.children(insert=["!ROM"]).table
    assert asked == [1 + 3]  # by the types at both positions, and where ROM was put in
    assert here.drill_down(concept=[("Computer", "DELL", 1), ("Finance", "QQQ", 2)]).count > 0
    here.pivot(rows=1, columns=2)
    assert len(asked) == 1  # told already
    assert here.parents().table == there.parents().table
    assert len(asked) == 2
    assert len(here.plot().to_dict()["data"]["values"]) == 1 + len(here.parents()) + len(here.children())


def test_what_is_refused(frame: DataFrame, spark: SparkSession) -> None:
    with pytest.raises(sq.PlanError, match="no type 'HAL' to put in"):
        sqs.Cube(frame, TEXT, COMPANIES).drill_down(pattern=[("HAL", 1)])
    with pytest.raises(sq.QueryError, match="cost"):
        sqs.Cube(frame, "SEQ(DELL a, QQQ b, a.cost > 3) WITHIN 5 ms")
    with pytest.raises(sq.PlanError, match="a stream has no end"):
        sqs.Cube(spark.readStream.format("rate").load().selectExpr("'A' AS type", "value AS ts"), "SEQ(A a) WITHIN 5")
