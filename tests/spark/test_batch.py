"""The batch path through real Spark: the same rows as in one process, typed as Spark types, with nothing lost on the way."""

from __future__ import annotations

import datetime
from random import Random
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from tables import rows_of
from travel import IDENTIFIERS, carried

import oracle
import seqube as sq
import seqube.spark as sqs
from seqube.generate import generate
from seqube.generate import hierarchy as concept_tree
from seqube.spark import batch, ingest
from strategies import SPARK_SCHEMA
from strategies import spark_table as as_table

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

HYGIENE = """
PATTERN SEQ(Recycle r, Wash w, !SEQ(Sharpen s, Disinfect d, Check c, s.id = d.id = c.id = o.id), Operate o, r.id = w.id = o.id)
WHERE o.instrument = 'surgery' WITHIN 90 min"""

QUERIES = {
    "keyed": HYGIENE,
    "returned": HYGIENE + " RETURN r.id AS tool, o.ts AS used, o.ts - r.ts AS lag, r.weight * 2 AS twice",
    "unkeyed, waiting": "SEQ(Recycle r, Wash w, !Operate o) WITHIN 10 min",
    "leading": "SEQ(!Check c, Recycle r, Wash w) WITHIN 10 min",
    "numbered": "SEQ(Recycle r, Wash w, Operate o) WITHIN 20 EVENTS",
    "numbered in partitions": "SEQ(Recycle r, Wash w, Operate o) PARTITION BY id WITHIN 8 EVENTS",
    "any": "OR(SEQ(Recycle r, Wash w, r.id = w.id), Check c) WHERE c.weight > 3 OR r.weight > 3 WITHIN 10 min",
}


@pytest.fixture(scope="module")
def tools() -> pa.Table:
    return generate("hospital", 6_000, seed=3)


@pytest.fixture(scope="module")
def frame(spark: SparkSession, tools: pa.Table) -> DataFrame:
    return spark.createDataFrame(tools).repartition(3).cache()


@pytest.mark.parametrize("slices", [None, pytest.param(7, marks=pytest.mark.slow)])  # in the everyday run: aggregates, below
def test_a_workload_equals_the_same_queries_in_one_process(frame: DataFrame, tools: pa.Table, slices: int | None) -> None:
    timed = {name: text for name, text in QUERIES.items() if "numbered" not in name}
    found = sqs.run(timed, frame, slices=slices)
    expected = sq.run(timed, tools)
    try:
        for name in timed:
            assert rows_of(found[name].toArrow()) == rows_of(expected[name].table), name
            assert len(expected[name]) > 0, name
    finally:
        found.unpersist()


RELATED = {
    "all": "SEQ(Recycle r, Wash w, [id]) WITHIN 30 min",
    "longer": "SEQ(Recycle r, Wash w, Operate o, [id]) WITHIN 30 min RETURN r.id AS tool, o.ts AS used",
    "unchecked": "SEQ(Recycle r, Wash w, !Check c, Operate o, [id]) WITHIN 30 min",
    "free": "SEQ(Recycle r, Wash w) WITHIN 3 min",
    "free, longer": "SEQ(Recycle r, Wash w, Operate o) WITHIN 3 min",
    "counted": "SEQ(Recycle r, Wash w) AGG COUNT(*) WITHIN 3 min",
    "counted, longer": "SEQ(Recycle r, Wash w, Operate o) AGG COUNT(*) WITHIN 3 min",
    "every": "SEQ(Recycle r, Wash w) AGG COUNT(*) WITHIN 3 min EMIT EVERY 2 min",
    "every, longer": "SEQ(Recycle r, Wash w, Operate o) AGG COUNT(*), SUM(r.duration) AS s WITHIN 3 min EMIT EVERY 2 min",
    "by key": "SEQ(Recycle r, Wash w, [id]) GROUP BY r.id AGG COUNT(*) WITHIN 30 min EMIT TOTAL",
    "by key, longer": "SEQ(Recycle r, Wash w, Operate o, [id]) GROUP BY r.id AGG COUNT(*) WITHIN 30 min EMIT TOTAL",
}


@pytest.mark.parametrize(("strategy", "slices"), [("bottom-up", None), ("prefix-tree", 3)])
def test_related_queries_share(frame: DataFrame, tools: pa.Table, strategy: str, slices: int | None) -> None:
    expected = sq.run(RELATED, tools, strategy="independent")
    found = sqs.run(RELATED, frame, strategy=strategy, slices=slices, ids=True)
    try:
        for name in RELATED:
            rows = found[name].drop("match_id").toArrow()
            assert rows_of(rows) == rows_of(expected[name].table), name
            assert rows.num_rows > 0, name
        alone = sqs.run(RELATED["longer"], frame, ids=True)
        assert {row[0] for row in alone.select("match_id").collect()} == {
            row[0] for row in found["longer"].select("match_id").collect()
        }
    finally:
        found.unpersist()


def test_rows_of_more_kinds_than_have_a_column(frame: DataFrame, tools: pa.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """Totals have the types of the rows that are listed, and yet have to be added up."""
    monkeypatch.setattr("seqube.spark.answers.MOST_KINDS", 1)
    pair = "SEQ(Recycle r, Wash w, [id]) WITHIN 30 min RETURN r.id AS a, {} AS b"
    queries = {str(number): pair.format(f"w.id + {number}") for number in range(3)}
    queries |= {"as text": pair.format("w.type"), "whole": "SEQ(Recycle r, Wash w, [id]) WITHIN 30 min"}
    queries |= {"total": "SEQ(Recycle r, Wash w) AGG COUNT(*) AS n, SUM(r.id) AS s WITHIN 3 min EMIT TOTAL"}
    queries |= {"free": "SEQ(Recycle r, Wash w) WITHIN 1 min RETURN r.id AS n, w.id AS s"}
    found, expected = sqs.run(queries, frame, slices=3), sq.run(queries, tools)
    for name in queries:
        assert rows_of(found[name].toArrow()) == rows_of(expected[name].table), name
        assert len(expected[name]) > 0, name
    found.unpersist()


@pytest.mark.slow  # in the everyday run: the same without Spark, in test_answers
def test_totals_of_slices_are_counted_together(frame: DataFrame, tools: pa.Table) -> None:
    total = {name: f"{text} EMIT TOTAL" for name, text in RELATED.items() if name.startswith("counted")}
    found = sqs.run(total, frame, strategy="prefix-tree", slices=3)
    for name, text in total.items():
        assert [row.asDict() for row in found[name].collect()] == sq.run(text, tools).table.to_pylist()


AGGREGATES = {
    "by key": "SEQ(Recycle r, Wash w, [id]) GROUP BY r.id AGG COUNT(*), AVG(w.weight) AS mean WITHIN 30 min",
    "total by key": "SEQ(Recycle r, Wash w) PARTITION BY id GROUP BY id AGG COUNT(*), MAX(r.ts) AS latest WITHIN 30 min EMIT TOTAL",
    "in one place": "SEQ(Recycle r, Wash w) AGG COUNT(*) WITHIN 5 min",
    "every hour": "SEQ(Recycle r, Wash w, [id]) GROUP BY r.id AGG COUNT(*), SUM(r.duration) AS s WITHIN 30 min EMIT EVERY 1 hour",
    "per hour by key": "SEQ(Recycle r, Wash w, [id]) GROUP BY r.id AGG COUNT(*), AVG(w.weight) AS w WITHIN 30 min EMIT PER 1 hour",
    "per day": "SEQ(Recycle r, Wash w, !Operate o, [id]) AGG COUNT(*) WITHIN 30 min EMIT PER 1 day",
    "of expressions": "SEQ(Recycle r, Wash w, [id]) GROUP BY r.id AGG AVG(w.ts - r.ts) AS t, SUM(w.weight * 2) WITHIN 9 min",
    "values": "SEQ(Recycle r, Wash w, [id]) GROUP BY UPPER(r.type) AGG MEDIAN(w.ts - r.ts), COUNT(DISTINCT w.id) WITHIN 9 min",
    "of events": "SEQ(Recycle r, Wash w) AGG COUNT(*) WITHIN 20 EVENTS EMIT TOTAL",
    "spread": "SEQ(Recycle r, Wash w, [id]) GROUP BY r.id AGG STDDEV(w.weight) AS s, VARIANCE(w.duration) WITHIN 30 min EMIT TOTAL",
    "of lists": "SEQ(Recycle r, Check* c, Wash w, [id]) GROUP BY r.id AGG COUNT(*), APPROX_COUNT(*), MAX(c.ts) AS m WITHIN 30 min",
    "skipping": "SEQ(Recycle r, Wash w, [id]) SKIP PAST LAST AGG COUNT(*) WITHIN 5 min EMIT TOTAL",
    "total": "SEQ(Recycle r, Wash w, !Check c) AGG COUNT(*), SUM(r.duration) AS s, MAX(w.weight) AS m WITHIN 5 min EMIT TOTAL",
    "every minute": "SEQ(Recycle r, Wash w) AGG COUNT(*) WITHIN 5 min EMIT EVERY 7 min",
    "by type": "SEQ(Recycle r, !Check c, ANY w) GROUP BY w.type AGG COUNT(*), MIN(w.weight) AS m WITHIN 5 min EMIT PER 1 hour",
    "of nothing": "SEQ(Nothing n) AGG COUNT(*), MIN(n.id) AS least WITHIN 20 min EMIT TOTAL",
}


@pytest.mark.parametrize("slices", [None, pytest.param(5, marks=pytest.mark.slow)])
def test_aggregates(frame: DataFrame, tools: pa.Table, slices: int | None) -> None:
    # Cut by time, doubles are added up in another order.
    wanted = {name: text for name, text in AGGREGATES.items() if slices is None or not {"AVG", "STDDEV"} & set(text.split("("))}
    found = sqs.run(wanted, frame, slices=slices)
    expected = sq.run(wanted, tools)
    try:
        for name in wanted:
            assert rows_of(found[name].toArrow()) == rows_of(expected[name].table), name
            assert len(expected[name]) > 0, name
    finally:
        found.unpersist()


def test_keys_of_every_type(spark: SparkSession) -> None:
    """Null keys included, which are in no partition and equal nothing."""
    draw = Random(7)
    plain = [draw.choice([0, 1, 2, None]) for _ in range(60)]
    words, moments = ["p", "q", "it's"], [-1, 0, 1_500]
    exact = [(kind, values) for kind, values in IDENTIFIERS if max(values) > 2**53]
    kinds = [*exact, (pa.dictionary(pa.int8(), pa.string()), words), (pa.timestamp("ms", "Asia/Kolkata"), moments)]
    columns = {f"k{i}": pa.array([None if n is None else values[n] for n in plain], kind) for i, (kind, values) in enumerate(kinds)}
    table = pa.table({"type": [draw.choice("AABBC") for _ in plain], "ts": range(-30, 30), **columns})
    texts = (
        "SEQ(A a, !C c, B b, [{}]) WITHIN 12 RETURN a.ts AS x, b.ts AS y",
        "SEQ(A a, B b) PARTITION BY {} WITHIN 12 RETURN a.ts AS x, b.{} AS y",
    )
    workload = {name: texts[number % 2].format(name, name) for number, name in enumerate(columns)}
    found = sqs.run(workload, spark.createDataFrame(carried(table)))
    try:
        for name, text in workload.items():
            expected = carried(sq.run(text, table).table)
            assert rows_of(found[name].toArrow()) == rows_of(expected), text
            assert expected.num_rows > 0, text
    finally:
        found.unpersist()


@pytest.mark.parametrize("name", ["numbered", "numbered in partitions"])
def test_windows_of_so_many_events(spark: SparkSession, tools: pa.Table, name: str) -> None:
    """Ties are numbered in the order of the input, so the input has one."""
    frame = spark.createDataFrame(tools)
    for slices in (None, 5):
        found = sqs.run(QUERIES[name], frame, slices=slices).toArrow()
        assert rows_of(found) == rows_of(sq.run(QUERIES[name], tools).table)


def test_results_are_spark_types(frame: DataFrame) -> None:
    """And are known before anything is run."""
    found = sqs.run(HYGIENE, frame)
    event = "struct<ts:timestamp,type:string,id:bigint,ward:string,instrument:string,weight:double,duration:bigint,hospital:string>"
    assert found.schema.simpleString() == f"struct<start:timestamp,end:timestamp,r:{event},w:{event},o:{event}>"
    returned = sqs.run(QUERIES["returned"], frame)
    assert returned.schema.simpleString() == "struct<tool:bigint,used:timestamp,lag:interval day to second,twice:double>"


def test_match_ids_are_the_same_however_it_is_cut(frame: DataFrame) -> None:
    ids = [
        [row.match_id for row in sqs.run(QUERIES["unkeyed, waiting"] + " RETURN r.id", frame, ids=True, slices=slices).collect()]
        for slices in (1, 6)
    ]
    assert sorted(ids[0]) == sorted(ids[1])
    assert len(set(ids[0])) == len(ids[0])


@pytest.mark.parametrize(
    "asked", ["RETURN a.id, a.type, b.type", "GROUP BY a.type AT 2, b.type AT 1 AGG COUNT(*), MAX(b.ts) AS latest EMIT TOTAL"]
)
def test_concepts(spark: SparkSession, asked: str) -> None:
    travellers = generate("transit", 3_000, seed=1)
    places = sq.Hierarchy.from_dict(concept_tree("transit"))
    query = f"SEQ(TX a, OK b, [id]) WITHIN 48 h {asked}"
    found = sqs.run(query, spark.createDataFrame(travellers), hierarchy=places).toArrow()
    assert rows_of(found) == rows_of(sq.run(query, travellers, hierarchy=places).table)
    assert len(found) > 1


def test_a_hot_key_is_cut_into_slices(spark: SparkSession) -> None:
    from pyspark.sql import functions as F  # noqa: N812

    rows = [{"type": "AB"[i % 2], "ts": i, "id": 0 if i % 10 else i} for i in range(3_000)]
    table = pa.Table.from_pylist(rows)
    query = "SEQ(A a, B b, [id]) WITHIN 20 RETURN a.ts AS x, b.ts AS y"
    found = sqs.run(query, spark.createDataFrame(table), slices=8)
    assert rows_of(found.toArrow()) == rows_of(sq.run(query, table).table)
    sizes = [row["count"] for row in found.groupBy(F.spark_partition_id()).count().collect()]
    assert max(sizes) < 0.5 * sum(sizes)  # although one key has nine of ten events


def test_many_events_without_a_key_are_cut_into_even_slices(spark: SparkSession) -> None:
    from pyspark.sql import functions as F  # noqa: N812

    table = pa.table({"type": ["A", "B", "C"] * batch.SMALL, "ts": range(3 * batch.SMALL)})
    query = "SEQ(A a, B b, C c) WITHIN 3 RETURN a.ts AS x, c.ts AS z"
    found = sqs.run(query, spark.createDataFrame(table))
    assert found.toArrow().sort_by("z") == sq.run(query, table).table.cast(found.toArrow().schema).sort_by("z")
    sizes = [row["count"] for row in found.groupBy(F.spark_partition_id()).count().collect()]
    assert len(sizes) == 3
    assert max(sizes) < 0.5 * sum(sizes)


def test_rows_that_are_no_events_are_rejected(spark: SparkSession) -> None:
    frame = spark.createDataFrame(
        [("A", "2024-01-01T00:00:00"), (None, "2024-01-01"), ("A", None), ("B", "soon"), ("B", "2024-01-01 00:00:02+00:00")],
        "type string, ts string",
    )
    bad = sqs.quarantine(frame).collect()
    assert sorted((row.type or "", row.ts or "", row.reason) for row in bad) == [
        ("", "2024-01-01", "no type"),
        ("A", "", "no time"),
        ("B", "soon", "time is not a timestamp"),
    ]
    with pytest.warns(UserWarning, match="3 rows are not events"):
        found = sqs.run("SEQ(A a, B b) WITHIN 3 s", frame).collect()
    assert len(found) == 1
    assert frame.count() == len(bad) + 2


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_any_session_time_zone(spark: SparkSession, zone: str) -> None:
    moments = [datetime.datetime(2024, 3, 10, 6, 59, 59 - 5 + i, tzinfo=datetime.UTC) for i in range(5)]
    table = pa.table({"type": list("ABABA"), "ts": pa.array(moments, pa.timestamp("us", "UTC"))})
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        found = sqs.run(
            "SEQ(A a, B b) WHERE a.ts >= '2024-03-10T06:59:55Z' WITHIN 3 s RETURN a.ts AS x, b.ts AS y",
            spark.createDataFrame(table),
        )
        texts = [(row.x, row.y) for row in found.selectExpr("unix_seconds(x) x", "unix_seconds(y) y").collect()]
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    base = int(moments[0].timestamp())
    assert sorted(texts) == [(base + 2, base + 3)]


def test_predicates_reach_parquet(spark: SparkSession, tmp_path: Path) -> None:
    spark.createDataFrame(as_table(oracle.stream(("A", 1, {"x": 1}), ("B", 2, {"x": 5})))).write.parquet(str(tmp_path / "events"))
    frame = spark.read.parquet(str(tmp_path / "events"))
    plan = sqs.run("SEQ(A a, B b) WHERE b.x > 3 AND a.x > 0 WITHIN 5 RETURN a.x", frame)._jdf.queryExecution().toString()
    scan = next(line for line in plan.splitlines() if "FileScan" in line)
    assert "PushedFilters: [In(type, [A,B])" in scan
    assert "GreaterThan(x,3)" in scan
    assert "ReadSchema: struct<type:string,ts:bigint,x:bigint>" in scan


ODD = [None, float("nan"), -0.0, 0.0, 1.5, 2.0, 3.0]
PREDICATES = [
    "a.y > 1", "a.y < 1", "a.y = 0", "a.y != 0", "a.y IS NULL", "a.y IS NOT NULL", "NOT a.y > 1", "a.y IN (0, 2)",
    "a.y NOT IN (0, 2)", "a.y BETWEEN 0 AND 2", "a.y NOT BETWEEN 0 AND 2", "a.y > 1 OR a.s = 'p'", "NOT (a.y > 1 OR a.s = 'p')",
    "a.f", "NOT a.f", "a.x > 1.5", "a.x IN (1.5, 2)", "1 < a.x", "a.s >= 'p'", "a.s NOT IN ('q')", "a.type = 'A'", "a.ts > 3",
    "a.x IN (1, NULL)", "a.x NOT IN (1, NULL)", "a.x = NULL", "a.y > 1 AND a.x + 1 > 2",
]  # fmt: skip


def test_what_is_pushed_down_never_loses_a_row(spark: SparkSession) -> None:
    """Nulls and NaN included: whatever our meaning accepts, Spark's lets pass."""
    odd = pa.Table.from_pylist(
        [
            {
                "type": "A",
                "ts": i,
                "row": i,
                "x": [None, 1, 2, 3][i % 4],
                "y": y,
                "s": [None, "p", "q"][i % 3],
                "f": [None, True, False][i % 3],
            }
            for i, y in enumerate(ODD * 12)
        ],
        SPARK_SCHEMA,
    )
    source = ingest.read_source(spark.createDataFrame(odd), "type", "ts", "ms")
    texts = [f"SEQ(A a) WHERE {predicate} WITHIN 1 RETURN a.row" for predicate in PREDICATES]
    conditions = [ingest.relevant([ingest.plan_over(text, source)], source).alias(str(i)) for i, text in enumerate(texts)]
    passed = source.frame.select("row", *conditions).toArrow().to_pylist()
    for number, text in enumerate(texts):
        wanted = set(sq.run(text, odd).table.column("a_row").to_pylist())
        assert wanted <= {row["row"] for row in passed if row[str(number)]}, text
    assert (
        sum(bool(row[str(i)]) for row in passed for i in range(len(texts))) < len(passed) * len(texts) * 0.7
    )  # and it does filter


def test_wrong_queries_and_columns_fail_at_once(frame: DataFrame) -> None:
    with pytest.raises(sq.QueryError, match="no column 'wight'"):
        sqs.run("SEQ(Wash w) WHERE w.wight > 3 WITHIN 1 min", frame)
    with pytest.raises(sq.SchemaError, match="no type column 'kind'"):
        sqs.run("SEQ(Wash w) WITHIN 1 min", frame, type="kind")
    with pytest.raises(sq.PlanError, match="strategy"):
        sqs.run("SEQ(Wash w) WITHIN 1 min", frame, strategy="magic")
    with pytest.raises(sq.PlanError, match="'chase' does not apply to the query 'any': its pattern is not a SEQ"):
        sqs.run({"any": "OR(Wash w, Check c) WITHIN 1 min"}, frame, strategy="chase")
