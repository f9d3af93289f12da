"""Rows on their way into Spark are events, or none, by the rules that hold in one process; what Spark leaves out never mattered."""

from __future__ import annotations

import datetime
import itertools
import warnings
from collections import Counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pipelines import add_file, write_pipeline
from tables import rows_of

import seqube as sq
import seqube.spark as sqs
from seqube.events import Events
from seqube.plan.aggregates import AggregatePlan
from seqube.query import prepare
from seqube.spark import ingest, planning
from seqube.spark.moments import read_text
from seqube.spark.streaming.declaration import read_declaration
from seqube.spark.streaming.pipeline import run_once, run_stream

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

LAST = 2**63 - 1  # stands for after all time, as -LAST - 1 does for before it


DATES = ["2024-02-29", "2023-02-29", "0000-01-01", "0001-01-01", "9999-12-31", "1960-01-31", "2024-13-01", "2024-04-31", "24-1-1"]
CLOCKS = [
    "", "T10", " 10:00", "T10:01", "T1002", " 10:00:59", "T235959", "T10:00:00.1234567", " 10:00:00,5", "T24:00", "T10:60", "10",
]  # fmt: skip
ZONES = ["", "Z", "+01", "-0130", "+19:00", "-23:59", "+24:00", " +02:00", "z", "+1"]
ODD = [
    "2024", "T10:00", "10:00", "now", "", " 2024-01-01 ", "2024-01-01\n", "\x0b2024-01-01", "٢٠٢٤-01-01", "17", "2024-01-01 UTC",
]  # fmt: skip
TEXTS = ["".join(parts) for parts in itertools.product(DATES, CLOCKS, ZONES)] + ODD  # times, and what nearly is one


def test_one_rule_for_texts_that_are_times(spark: SparkSession) -> None:
    """The same texts are events, of the same time, and the others are rejected for the same reason."""
    table = pa.table({"type": ["A"] * len(TEXTS), "ts": TEXTS, "row": range(len(TEXTS))})
    here = Events(table)
    expected = dict(zip(here.column("row").to_pylist(), here.times.tolist(), strict=True))
    reasons = Counter(here.rejected.reasons)
    source = ingest.read_source(spark.createDataFrame(table), "type", "ts", "ms")
    rows = source.frame.select("row", ingest.column(ingest.REASON).alias("reason"), ingest.clock(source).alias("time")).collect()
    assert {row.row: row.time for row in rows if row.reason is None} == expected
    assert Counter(row.reason for row in rows if row.reason) == reasons
    assert len(expected) > 200
    assert sum(reasons.values()) > 200
    for text in ("2024-01-01 10:00", "2024-01-01T10:01Z", "2024-01-01T10", "2024-01-01T10:00+01", "2024-01-01T10:00-19:30"):
        assert Events(pa.table({"type": ["A"], "ts": [text]})).times.size == 1
    assert Events(pa.table({"type": ["A"], "ts": ["0000-01-01"]})).rejected.reasons == {"time is not a timestamp": 1}


ZONE = "spark.sql.session.timeZone"
SUMMER = ["2024-03-31 00:30", "2024-03-31T02:30:00.25", "2024-07-01", "1969-12-31 23:59:59.999999", "2024-03-31 23:10"]
ASKED = (
    "SEQ(A a, B b) WHERE a.ts < '2024-03-31 12:00' WITHIN 400 days "
    "RETURN a.ts AS began, b.ts - a.ts AS lag, EXTRACT(HOUR FROM b.ts) AS hour, DATE_TRUNC('day', b.ts) AS day"
)


@pytest.fixture(params=["UTC", "Europe/Berlin", "America/New_York"])
def zone(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[str]:
    before = spark.conf.get(ZONE)
    spark.conf.set(ZONE, request.param)
    yield request.param
    spark.conf.set(ZONE, before)


def test_texts_without_a_zone_are_times_without_one(spark: SparkSession, zone: str) -> None:
    """They have the type and give the answers that they give in one process, whatever the session's zone is."""
    table = pa.table({"type": list("ABBAB"), "ts": SUMMER})
    here = sq.run(ASKED, table).table
    there = sqs.run(ASKED, spark.createDataFrame(table))
    assert dict(there.dtypes)["began"] == dict(there.dtypes)["day"] == "timestamp_ntz"
    assert here.schema.field("began").type.tz is None
    assert rows_of(there.toArrow()) == rows_of(here)
    assert len(here) == 3


def test_texts_of_which_one_names_a_zone_are_moments(spark: SparkSession, zone: str) -> None:
    table = pa.table({"type": list("ABBAB"), "ts": [*SUMMER[:-1], "2024-04-01T01:10+02:00"]})
    here, there = sq.run(ASKED, table).table, sqs.run(ASKED, spark.createDataFrame(table))
    assert here.schema.field("began").type.tz == "UTC"
    assert dict(there.dtypes)["began"] == dict(there.dtypes)["day"] == "timestamp"
    assert rows_of(there.toArrow()) == rows_of(here)
    assert len(here) == 3


@pytest.mark.parametrize("once", [True, False], ids=["batch", "stream"])
def test_texts_of_a_pipeline_mean_the_same(spark: SparkSession, zone: str, tmp_path: Path, once: bool) -> None:
    """What comes may name a zone, so that they are moments there; but they give the answers of one process."""
    table = pa.table({"type": list("ABBAB"), "ts": SUMMER})
    add_file(tmp_path, "1", table)
    declared = read_declaration(write_pipeline(tmp_path, {"q": ASKED}, drain=True))
    (run_once if once else run_stream)(declared, spark=spark)
    files = sorted((tmp_path / "out" / "matches" / "q").rglob("*.parquet"))
    found = pa.concat_tables([pq.ParquetFile(file).read() for file in files])
    here = sq.run(ASKED, table).table
    assert rows_of(found.drop_columns("match_id").cast(here.schema)) == rows_of(here)


def test_a_zone_that_comes_after_the_look_is_not_lost(spark: SparkSession, zone: str) -> None:
    """A table may grow under a DataFrame that was looked at."""
    texts = ["2024-03-31T01:30-05:00", "2024-01-01 00:30+01:00", "2024-07-01"]
    read = spark.createDataFrame([(text,) for text in texts], "ts string").select(read_text(ingest.column("ts"), zoned=False))
    assert [str(row[0]) for row in read.collect()] == ["2024-03-31 06:30:00", "2023-12-31 23:30:00", "2024-07-01 00:00:00"]


def test_times_of_a_csv_file_are_read_by_one_rule(spark: SparkSession, zone: str, tmp_path: Path) -> None:
    path = tmp_path / "events.csv"
    path.write_text("type,ts\n" + "".join(f"{name},{text}:00\n" for name, text in zip("AB", (SUMMER[0], SUMMER[4]), strict=True)))
    there = sqs.run(ASKED, ingest.load_files(spark, str(path), "ts"))
    assert dict(there.dtypes)["began"] == "timestamp_ntz"
    assert rows_of(there.toArrow()) == rows_of(sq.run(ASKED, str(path)).table)


def test_times_without_a_zone_are_counted_without_one(spark: SparkSession, zone: str) -> None:
    table = pa.table({"type": ["A"] * len(SUMMER), "ts": SUMMER})
    frame = spark.createDataFrame(Events(table).table.to_pylist(), "type string, ts timestamp_ntz")
    source = ingest.read_source(frame, "type", "ts", "ms")
    assert sorted(row[0] for row in source.frame.select(ingest.clock(source)).collect()) == Events(table).times.tolist()


def found_at(frame: DataFrame, **options: Any) -> list[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = sqs.run("SEQ(A a) WITHIN 5 RETURN a.ts AS ts", frame, **options)
    return sorted(row.ts for row in found.collect())


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.float64(), [1e19, -1e19, 1e300, float("inf"), float("nan"), 1.5, 2.0**53, 2.0**53 + 2, 7.0, None]),
        (pa.float32(), [1e19, 7.0, 7.5]),
        (pa.int64(), [-LAST - 1, -LAST, -LAST + 1, LAST - 1, LAST, 0, None]),
        (pa.timestamp("us"), [-LAST - 1, -LAST, LAST - 1, LAST, 0, None]),
        (pa.timestamp("us", "UTC"), [-LAST - 1, -LAST, LAST - 1, LAST, 0, None]),
        (pa.date32(), [2**31 - 1, -(2**31), 0, None]),
    ],
    ids=str,
)
def test_times_at_the_edge_of_their_range(spark: SparkSession, tmp_path: Path, kind: pa.DataType, values: Sequence[Any]) -> None:
    """No value stops a job; those that are times here are times there, and the others are rejected for the same reasons."""
    table = pa.table({"type": ["A"] * len(values), "ts": pa.array(values, kind)})
    here = Events(table)
    source = ingest.read_source(spark.createDataFrame(table), "type", "ts", "ms")
    reason = ingest.column(ingest.REASON).alias("reason")
    rows = source.frame.select(reason, ingest.clock(source).alias("time")).collect()
    assert sorted(row.time for row in rows if row.reason is None) == here.times.tolist()
    assert Counter(row.reason for row in rows if row.reason) == here.rejected.reasons
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        assert found_at(spark.createDataFrame(table)) == found_at(spark.createDataFrame(table), slices=3) == here.times.tolist()


def test_a_batch_says_what_it_leaves_out(spark: SparkSession) -> None:
    rows = [("A", "2024-01-01"), (None, "2024-01-01"), ("A", None), ("B", "soon"), ("B", "later")]
    frame = spark.createDataFrame(rows, "type string, ts string")
    rule = {"predicate": "A", "consequent": "B", "within": "5 s", "horizon": "9 s", "probability": 0.5}
    for run in (
        lambda: sqs.run("SEQ(A a, B b) WITHIN 3 s", frame),
        lambda: sqs.forecast({"rules": [rule]}, frame),
        lambda: sqs.mine(frame, "5 s", 0.1, 0.1),
    ):
        with pytest.warns(UserWarning, match=r"4 rows are not events.*2 time is not a timestamp") as caught:
            run()
        assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sqs.run("SEQ(A a, B b) WITHIN 3 s", frame.where("ts = '2024-01-01' AND type IS NOT NULL"))


BIG = 2**53
EXACT = [
    f"a.x NOT IN ({BIG}.0)", f"a.x IN ({BIG}.0, 1.5)", f"a.x NOT IN ({BIG}.0, 1.5, 3)", f"a.x != {BIG}.0", f"a.x = {BIG}.0",
    f"a.x > {BIG}.0", f"a.x <= {BIG}.0", "a.x < 1.5", "a.x NOT IN (1.5)", f"a.x IN (1.5, {BIG + 1})", f"{BIG}.0 < a.x",
    f"a.y != {BIG + 1}", f"a.y NOT IN ({BIG + 1})", f"a.y < {BIG + 1}", f"a.y IN ({BIG + 1}, 2)", "a.x > 1e19", "a.x IN (1, 1e15)",
]  # fmt: skip


def means(predicate: str, x: int, y: float) -> bool:
    """Python compares integers and doubles exactly."""
    text = predicate.replace("a.", "").replace("NOT IN (", "not in (").replace("IN (", "in (").replace(" = ", " == ")
    return bool(eval(text.replace(")", ",)"), {"x": x, "y": y}))


def test_integers_and_doubles_are_compared_exactly_where_rows_are_left_out(spark: SparkSession) -> None:
    numbers = [1, 2, 3, BIG - 1, BIG, BIG + 1, BIG + 2, -BIG - 1, 2**63 - 1]
    table = pa.table({"type": ["A"] * len(numbers), "ts": range(len(numbers)), "x": numbers, "y": [float(n) for n in numbers]})
    source = ingest.read_source(spark.createDataFrame(table), "type", "ts", "ms")
    plans = [ingest.plan_over(f"SEQ(A a) WHERE {predicate} WITHIN 1 RETURN a.x", source) for predicate in EXACT]
    conditions = [ingest.relevant([plan], source).alias(f"p{number}") for number, plan in enumerate(plans)]
    passed = source.frame.select("x", "y", *conditions).collect()
    for number, predicate in enumerate(EXACT):
        for row in passed:
            assert row[f"p{number}"] or not means(predicate, row.x, row.y), (predicate, row)
    assert sum(not row[f"p{number}"] for row in passed for number in range(len(EXACT))) > 40  # and it does filter


def test_a_literal_beyond_the_years_that_python_knows_is_not_pushed_down(spark: SparkSession) -> None:
    frame = spark.createDataFrame(pa.table({"type": ["A"], "ts": pa.array([0], pa.timestamp("us", "UTC"))}))
    source = ingest.read_source(frame, "type", "ts", "ms")
    assert ingest._literal("9999-12-31T23:59:59-01:00", "timestamp", "UTC") is None
    assert ingest._literal("9999-12-31T23:59:59+01:00", "timestamp", "UTC") is not None
    assert source.schema.unit == "us"


def test_ids_of_events_that_differ_in_a_map_do_not_depend_on_the_order_of_rows(spark: SparkSession) -> None:
    maps = ["map('k', 1)", "map('k', 2)", "map('k', 2, 'l', 3)", "map('l', 3, 'm', 2)", "map()", "null"]
    ids = []
    for order in (maps, maps[::-1]):
        rows = [f"SELECT 'A' AS type, 1L AS ts, cast({value} AS map<string, int>) AS m" for value in order]
        frame = spark.sql(" UNION ALL ".join(rows)).selectExpr("*", "array(m) AS list", "struct(m) AS struct").coalesce(1)
        found = sqs.run("SEQ(A a) WITHIN 5", frame, ids=True).selectExpr("match_id", "to_json(a) AS event").collect()
        ids.append({row.event: row.match_id for row in found})
    assert ids[0] == ids[1]
    assert len(set(ids[0].values())) == len(maps)
    turned = spark.sql("SELECT 'A' AS type, 1L AS ts, map('l', 3, 'k', 2) AS m, map('k', 2, 'l', 3) AS n")
    one, other = (ingest.read_source(turned.select("type", "ts", name), "type", "ts", "ms") for name in ("m", "n"))
    assert one.frame.select(ingest.identity(one)).collect() == other.frame.select(ingest.identity(other)).collect()


def test_ids_tell_which_column_is_null(spark: SparkSession) -> None:
    frame = spark.createDataFrame([("A", 1, 5, None), ("A", 1, None, 5)], "type string, ts long, x long, y long")
    ids = []
    for order in ("x", "y"):
        found = sqs.run("SEQ(A a) WITHIN 5", frame.orderBy(order).coalesce(1), ids=True).selectExpr("match_id", "a.x").collect()
        ids.append({row.x: row.match_id for row in found})
    assert ids[0] == ids[1]
    assert len(set(ids[0].values())) == 2


def test_columns_that_differ_in_case_alone(spark: SparkSession) -> None:
    frame = spark.createDataFrame(pa.table({"type": ["A", "B"], "ts": [1, 2], "TYPE": ["x", "y"]}))
    for run in (sqs.run, sqs.explain):
        with pytest.raises(sq.SchemaError, match="'type' and 'TYPE' differ in upper and lower case alone") as caught:
            run("SEQ(A a, B b) WITHIN 5", frame)
    assert "spark.sql.caseSensitive" in str(caught.value)
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        found = sqs.run("SEQ(A a, B b) WITHIN 5", frame).toArrow().to_pylist()
    finally:
        spark.conf.unset("spark.sql.caseSensitive")
    assert [row["a"] for row in found] == [{"type": "A", "ts": 1, "TYPE": "x"}]


def test_a_time_of_another_zone_is_the_same_moment(spark: SparkSession) -> None:
    moments = [datetime.datetime(2024, 3, 10, 7, 0, second, tzinfo=datetime.UTC) for second in (0, 1)]
    table = pa.table({"type": ["A", "A"], "ts": pa.array(moments, pa.timestamp("us", "Asia/Kolkata"))})
    assert [row.astimezone(datetime.UTC) for row in found_at(spark.createDataFrame(table))] == moments


# ---------------------------------------------------------------- what decides between strategies

SPARSE = "SEQ(A a, B b) AGG COUNT(*) WITHIN 5 EMIT TOTAL"


def test_a_sample_tells_what_the_events_are_like(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    n = 20_000
    rows = [("AB"[number % 10 == 0], number, number % 7) for number in range(n)]
    frame = spark.createDataFrame([*rows, (None, 5, 1), ("A", None, 1)], "type string, ts long, k long")
    source = ingest.read_source(frame, "type", "ts", "ms")
    measured, rejected = source.survey(["k"])
    assert rejected == {"no type": 1, "no time": 1}
    assert measured is not None
    assert measured.statistics.count("A") == pytest.approx(0.9 * n, rel=0.3)
    assert measured.statistics.count("B") == pytest.approx(0.1 * n, rel=0.6)
    assert measured.statistics.span == pytest.approx(n, rel=0.1)
    assert measured.distinct == {"k": 7}
    assert source._look_at_some(["k"]).measured == measured
    monkeypatch.setattr(ingest.EventFrame, "_look_at_some", lambda *_: pytest.fail("looked at again"))
    assert ingest.read_source(frame, "type", "ts", "ms").survey(["k"]).measured == measured
    with pytest.raises(pytest.fail.Exception, match="looked at again"):
        source.survey(["type"])


def test_auto_is_costed_where_several_strategies_apply(spark: SparkSession) -> None:
    table = pa.table({"type": ["A", "B"] * 10_000, "ts": range(20_000)})
    source = ingest.read_source(spark.createDataFrame(table), "type", "ts", "ms")
    (plan,) = planning.plan_batch({"q": SPARSE}, source).plans.values()
    assert isinstance(plan, AggregatePlan)
    assert all(option.seconds is not None for option in plan.options if option.strategy == plan.strategy)
    here = prepare(SPARSE, sq.Events(table))
    assert isinstance(here, AggregatePlan)
    assert plan.strategy == here.strategy
    (unknown,) = ingest.plan_all_over({"q": SPARSE}, source).values()
    assert isinstance(unknown, AggregatePlan)
    assert all(option.seconds is None for option in unknown.options)
    (asked,) = planning.plan_batch({"q": SPARSE}, source, strategy="two-step").plans.values()
    assert isinstance(asked, AggregatePlan)
    assert asked.strategy == "two-step"


def test_nothing_is_looked_at_where_there_is_no_choice(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a sample was taken")

    monkeypatch.setattr(ingest.EventFrame, "survey", refuse)
    source = ingest.read_source(spark.createDataFrame([("A", 1)], "type string, ts long"), "type", "ts", "ms")
    planning.plan_batch({"q": "SEQ(A a, B b) WITHIN 5"}, source)
    planning.plan_batch({"q": SPARSE}, source, strategy="window-product")
    with pytest.raises(AssertionError, match="a sample was taken"):
        planning.plan_batch({"q": SPARSE}, source)


def test_no_events_decide_nothing(spark: SparkSession) -> None:
    source = ingest.read_source(spark.createDataFrame([(None, 1)], "type string, ts long"), "type", "ts", "ms")
    with pytest.warns(sq.SequbeWarning, match="1 rows are not events"):
        (plan,) = planning.plan_batch({"q": SPARSE}, source, warns=True).plans.values()
    assert plan == ingest.plan_over(SPARSE, source)


def test_a_dataframe_is_asked_once_for_rows_that_are_no_events(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = spark.createDataFrame([(None, 1, 2), ("A", 1, None)], "type string, ts long, at long")
    for _ in range(2):
        with pytest.warns(sq.SequbeWarning, match="1 no type"):
            ingest.read_source(frame, "type", "ts", "ms").warn()
        with pytest.warns(sq.SequbeWarning, match="1 no time, 1 no type|1 no type, 1 no time"):
            ingest.read_source(frame, "type", "at", "ms").warn()
        monkeypatch.setattr(ingest.EventFrame, "_count_rejected", lambda _: pytest.fail("asked again"))


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_readers_of_files_are_asked_for_rows_that_are_no_events(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    """What is asked of a reader has to be a time that it can hold."""
    rows = spark.createDataFrame([("A", "2026-01-01 00:00:00"), (None, "2026-01-01 00:00:01")], "type string, at string")
    rows.selectExpr("type", "at::timestamp AS ts").write.format(kind).save(str(tmp_path / "in"))
    frame = spark.read.schema("type string, ts timestamp").format(kind).load(str(tmp_path / "in"))
    source = ingest.read_source(frame, "type", "ts", "ms")
    with pytest.warns(sq.SequbeWarning, match="1 rows are not events and take no part"):
        source.warn()
    assert source.survey(["type"]).rejected == {"no type": 1}
