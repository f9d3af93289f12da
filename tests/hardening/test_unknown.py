"""What nobody knows is refused by name at every door: an aggregate, a strategy, a node of a plan. Nothing runs in its place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet
import pytest

import seqube as sq
from seqube.explorer.jobs import Desk
from seqube.explorer.sources import Source
from seqube.language import Query, parse
from seqube.plan import strategies
from seqube.plan.physical import MatchPlan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PAIR = "SEQ(A a, B b) WITHIN 5"
MODE = "SEQ(A a, B b) WITHIN 5 AGG MODE(a.x) AS m"
TABLE = pa.table({"type": ["A", "B", "A", "B"], "ts": [0, 1, 2, 3], "x": [1, 2, 3, 4]})

Ask = Callable[[str | Query, str], object]  # a query and a strategy, asked at some door

HERE: dict[str, Ask] = {
    "run": lambda query, strategy: sq.run(query, TABLE, strategy=strategy),
    "explain": lambda query, strategy: sq.explain(query, TABLE, strategy=strategy),
    "workload": lambda query, strategy: sq.run({"one": query, "other": PAIR}, TABLE, strategy=strategy),
    "explain workload": lambda query, strategy: sq.explain({"one": query, "other": PAIR}, TABLE, strategy=strategy),
}


@dataclass(frozen=True, slots=True)
class MatchDream:
    """A node of a plan that nobody has heard of."""


@pytest.fixture
def with_dreams(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every plan is one of `MatchDream`."""
    monkeypatch.setattr(strategies, "plan_matches", lambda query, *_: MatchPlan(MatchDream(), query.window))  # type: ignore[arg-type]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    path = tmp_path / "events.parquet"
    pa.parquet.write_table(TABLE, path)
    return Desk(Source("few", path))


@pytest.fixture(params=["batch", "stream"])
def on_spark(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Ask:
    import seqube.spark as sqs

    frame: DataFrame = spark.createDataFrame(TABLE)
    if request.param == "stream":
        frame.write.parquet(str(tmp_path / "in"))
        frame = spark.readStream.schema(frame.schema).parquet(str(tmp_path / "in"))
    return lambda query, strategy: sqs.run(query, frame, strategy=strategy)


# ---------------------------------------------------------------- an aggregate


@pytest.mark.parametrize("ask", HERE.values(), ids=HERE)
def test_an_aggregate(ask: Ask) -> None:
    with pytest.raises(sq.QueryError, match="'MODE'"):
        ask(MODE, "auto")


def test_an_aggregate_in_a_cube() -> None:
    with pytest.raises(sq.QueryError, match="'MODE'"):
        sq.Cube(TABLE, MODE)


def test_an_aggregate_on_the_page(desk: Desk, tmp_path: Path) -> None:
    with pytest.raises(sq.QueryError, match="'MODE'"):
        desk.run(MODE, "auto", tmp_path / "out")


def test_an_aggregate_on_spark(on_spark: Ask) -> None:
    with pytest.raises(sq.QueryError, match="'MODE'"):
        on_spark(MODE, "auto")


def test_an_aggregate_in_sql(spark: SparkSession) -> None:
    import seqube.spark as sqs

    sqs.register(spark)
    spark.createDataFrame(TABLE).createOrReplaceTempView("few")
    with pytest.raises(Exception, match="'MODE'"):
        spark.sql(f"SELECT * FROM seqube(TABLE(few), '{MODE}')")


# ---------------------------------------------------------------- a strategy


@pytest.mark.parametrize("ask", HERE.values(), ids=HERE)
def test_a_strategy(ask: Ask) -> None:
    with pytest.raises(sq.PlanError, match="'dreaming'"):
        ask(PAIR, "dreaming")


def test_a_strategy_on_the_page(desk: Desk, tmp_path: Path) -> None:
    with pytest.raises(sq.PlanError, match="'dreaming'"):
        desk.run(PAIR, "dreaming", tmp_path / "out")


def test_a_strategy_on_spark(on_spark: Ask) -> None:
    with pytest.raises(sq.PlanError, match="'dreaming'"):
        on_spark(PAIR, "dreaming")


def test_a_strategy_of_forecasts() -> None:
    rule = sq.Rule("A", "B", "5 ms", "9 ms", 0.5)
    with pytest.raises(sq.PlanError, match="'dreaming'"):
        sq.forecast(rule, TABLE, strategy="dreaming")


# ---------------------------------------------------------------- a node of a plan


@pytest.mark.usefixtures("with_dreams")
@pytest.mark.parametrize("ask", HERE.values(), ids=HERE)
def test_a_node(ask: Ask) -> None:
    with pytest.raises(sq.PlanError, match="nothing is known of MatchDream"):
        ask(parse(PAIR), "auto")


@pytest.mark.usefixtures("with_dreams")
def test_a_node_in_a_cube() -> None:
    with pytest.raises(sq.PlanError, match="nothing is known of MatchDream"):
        sq.Cube(TABLE, PAIR)


@pytest.mark.usefixtures("with_dreams")
def test_a_node_on_the_page(desk: Desk, tmp_path: Path) -> None:
    with pytest.raises(sq.PlanError, match="nothing is known of MatchDream"):
        desk.run(PAIR, "auto", tmp_path / "out")


@pytest.mark.usefixtures("with_dreams")
def test_a_node_on_spark(on_spark: Ask) -> None:
    with pytest.raises(sq.PlanError, match="nothing is known of MatchDream"):
        on_spark(PAIR, "auto")
