"""Row patterns on Spark: the same rows as in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import functions as F  # noqa: N812

import seqube as sq
import seqube.spark as sqs
from seqube.generate import generate

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

V = (
    "MATCH_RECOGNIZE (PARTITION BY ticker ORDER BY ts, price MEASURES MATCH_NUMBER() AS n, LAST(down.price) AS low, "
    "LAST(up.ts) AS ended, COUNT(*) AS k, CLASSIFIER() AS c, AVG(down.price) AS mean {rows} PATTERN (strt down+ up+) "
    "DEFINE down AS price < PREV(price), up AS price > PREV(price){more})"
)
STATEMENTS = [
    f"SELECT * FROM trades {V.format(rows='', more='')}",
    f"SELECT * FROM trades {V.format(rows='ALL ROWS PER MATCH WITH UNMATCHED ROWS', more=' AND up.price < 2 * AVG(down.price)')}",
    (
        f"WITH dear AS (SELECT * FROM trades WHERE price > 20), m AS (SELECT * FROM dear {V.format(rows='', more='')}) "
        "SELECT ticker, count(*) AS n, max(k) AS k FROM m GROUP BY ticker"
    ),
    "SELECT * FROM trades MATCH_RECOGNIZE (ORDER BY ts, ticker, price MEASURES COUNT(*) AS k PATTERN (a{5}))",
    "SELECT count(*) AS n FROM SEQUBE(trades, 'SEQ(DELL a, QQQ b, a.price < b.price) WITHIN 1 s', type => 'ticker') AS q",
]


@pytest.fixture(scope="module")
def trades(spark: SparkSession) -> pa.Table:
    table = generate("stock", 600, 3).select(["type", "ts", "price"]).rename_columns(["ticker", "ts", "price"])
    spark.createDataFrame(table.to_pandas()).repartition(3).createOrReplaceTempView("trades")
    return table


def in_any_order(table: pa.Table) -> list[str]:
    plain = table.to_pylist()
    return sorted(
        str([value.replace(tzinfo=None) if hasattr(value, "tzinfo") else value for value in row.values()]) for row in plain
    )


@pytest.mark.spark
@pytest.mark.parametrize("text", STATEMENTS)
def test_spark_gives_the_rows_of_this_process(text: str, trades: pa.Table, spark: SparkSession) -> None:
    found = sqs.sql(text).toArrow()
    expected = sq.sql(text, trades=trades)
    assert found.column_names == expected.column_names
    assert in_any_order(found) == in_any_order(expected)
    assert found.num_rows > 0
    assert not [table.name for table in spark.catalog.listTables() if table.name.startswith("seqube_step")]


@pytest.mark.spark
def test_mistakes_and_explain_on_spark(trades: pa.Table) -> None:
    with pytest.raises(sq.QueryError, match="there is no column 'prise'"):
        sqs.sql("SELECT * FROM trades MATCH_RECOGNIZE (ORDER BY ts MEASURES prise AS p PATTERN (a))")
    with pytest.raises(sq.QueryError, match="no_such_table"):
        sqs.sql("SELECT * FROM no_such_table")
    ((told,),) = sqs.sql(f"EXPLAIN {STATEMENTS[0]}").collect()
    assert "tasks by their key" in told


KINDS = """
SELECT * FROM VALUES
  (1, 'p', 1Y, 1S, 1L, cast(1.5 AS float), 2.5D, 1.25BD, true, X'01', DATE'2020-01-01', TIMESTAMP'2020-01-01 10:00:00',
   TIMESTAMP_NTZ'2020-01-01 10:00:00', array(1, 2), named_struct('x', 1, 'y', 'a'),
   map('k', 1), INTERVAL '1' HOUR, array(map('k', 1)), parse_json('{"k": 1}'), TIME'08:30:00'),
  (2, 'p', null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null),
  (3, null, 3Y, 3S, 3L, cast(3.5 AS float), 4.5D, 3.25BD, false, X'03', DATE'2020-01-03', TIMESTAMP'2020-01-03 10:00:00',
   TIMESTAMP_NTZ'2020-01-03 10:00:00', array(null), named_struct('x', 3, 'y', null),
   map(), INTERVAL '3' HOUR, array(), parse_json('[2]'), TIME'13:30:00')
AS t(id, p, i8, i16, i64, f32, f64, dec, b, bin, d, ts, ntz, arr, st, mp, span, maps, any, clock)
"""


@pytest.mark.spark
def test_every_type_of_spark_passes_through_and_is_measured(spark: SparkSession) -> None:
    spark.sql(KINDS).createOrReplaceTempView("kinds")
    spark.table("kinds").withColumn("any", F.to_json("any")).createOrReplaceTempView("plain_kinds")
    names = spark.table("kinds").columns
    text = "SELECT * FROM kinds MATCH_RECOGNIZE (PARTITION BY p ORDER BY id MEASURES {measures} ALL ROWS PER MATCH PATTERN (a+))"
    firsts = ", ".join(f"FIRST(a.{name}) AS first_{name}" for name in names[2:])
    frame = sqs.sql(text.format(measures=f"COUNT(*) AS n, {firsts}"))
    found = frame.withColumns({name: F.to_json(name) for name in ("any", "first_any")}).orderBy("id").collect()
    rows = spark.table("plain_kinds").orderBy("id").collect()
    assert [[row[name] for name in names] for row in found] == [list(row) for row in rows]
    first_of = {1: rows[0], 2: rows[0], 3: rows[2]}
    assert [[row[f"first_{name}"] for name in names[2:]] for row in found] == [list(first_of[row.id])[2:] for row in rows]
    lists = sqs.sql(
        text.format(measures="ARRAY_AGG(d) AS ds, SUM(dec) AS sum, MAX(ts) AS last, AVG(span) AS mean, COUNT(arr) AS k")
    )
    told = {row.id: row for row in lists.collect()}
    assert (told[2].ds, told[2].k) == ([rows[0].d, None], 1)
    assert (told[2]["sum"], told[2]["last"], told[2]["mean"]) == (rows[0].dec, rows[0].ts, rows[0].span)


@pytest.mark.spark
def test_every_type_of_spark_that_compares(spark: SparkSession) -> None:
    spark.sql(KINDS).where("id <> 2").createOrReplaceTempView("kinds")
    known = ("i8", "i16", "i64", "f32", "f64", "dec", "bin", "d", "ts", "ntz", "span", "clock")
    rising = " AND ".join(f"{name} > a.{name} AND {name} > PREV({name}) AND {name} = MAX({name})" for name in known)
    largest = ", ".join(f"MAX({name}) AS max_{name}, COALESCE(PREV({name}), {name}) AS was_{name}" for name in known)
    text = f"SELECT * FROM kinds MATCH_RECOGNIZE (ORDER BY id MEASURES {largest}, COUNT(*) AS n PATTERN (a b) DEFINE b AS {rising})"
    first, last = spark.table("kinds").orderBy("id").collect()
    (found,) = sqs.sql(text).collect()
    assert {name: found[f"max_{name}"] for name in known} == {name: last[name] for name in known}
    assert {name: found[f"was_{name}"] for name in known} == {name: first[name] for name in known}
    apart = ", ".join((*known, "b", "p"))
    by_all = (
        f"SELECT * FROM kinds MATCH_RECOGNIZE (PARTITION BY {apart} ORDER BY bin DESC, d, span MEASURES COUNT(*) AS n PATTERN (a+))"
    )
    assert sorted(row.n for row in sqs.sql(by_all).collect()) == [1, 1]
    backwards = "SELECT * FROM kinds MATCH_RECOGNIZE (ORDER BY bin DESC MEASURES FIRST(id) AS f, LAST(id) AS l PATTERN (a a))"
    assert [tuple(row) for row in sqs.sql(backwards).collect()] == [(3, 1)]
    literal = (
        "SELECT * FROM kinds MATCH_RECOGNIZE (ORDER BY id MEASURES id AS i PATTERN (a) DEFINE a AS bin > X'01' AND bin < {limit})"
    )
    assert [row.i for row in sqs.sql(literal.format(limit="(SELECT X'04')")).collect()] == [3]
    for name in ("arr", "st", "mp", "maps", "any"):
        with pytest.raises(sq.QueryError, match="nested values or intervals of months"):
            sqs.sql(f"SELECT * FROM kinds MATCH_RECOGNIZE (PARTITION BY {name} MEASURES id AS i PATTERN (a))")


@pytest.mark.spark
def test_views_sub_queries_and_joins_of_the_session(trades: pa.Table, spark: SparkSession) -> None:
    spark.table("trades").where("price > 10").createOrReplaceGlobalTempView("dear")
    apart = "PARTITION BY ticker ORDER BY ts, price MEASURES COUNT(*) AS k"
    clause = f"MATCH_RECOGNIZE ({apart} PATTERN (a b+) DEFINE b AS b.price > {{than}})"
    by_query = sqs.sql(f"SELECT * FROM global_temp.dear {clause.format(than='(SELECT avg(price) FROM trades)')}")
    mean = sum(trades["price"].to_pylist()) / trades.num_rows
    dear = trades.filter(pc.greater(trades["price"], 10))
    assert in_any_order(by_query.toArrow()) == in_any_order(sq.sql(f"SELECT * FROM dear {clause.format(than=mean)}", dear=dear))
    by_query.createOrReplaceTempView("kept")  # what a statement gave is a DataFrame like any other
    joined = sqs.sql(f"SELECT count(*) AS n FROM kept JOIN trades {clause.format(than=mean)} AS m ON kept.ticker = m.ticker")
    assert joined.collect()[0].n > 0
    with pytest.raises(sq.QueryError, match="createOrReplaceTempView"):
        sqs.sql(f"CREATE TEMPORARY VIEW v AS SELECT * FROM trades {clause.format(than=1)}")


TIED = """SELECT cast(id % 3 AS long) AS k, cast(id % 4 AS long) AS ts, cast(id % 7 AS string) AS name, cast(id % 5 AS double) AS x,
  array(id % 11) AS list, map('k', id % 13) AS more FROM range(400)"""


@pytest.mark.spark
@pytest.mark.parametrize("measured", ["name AS m", "x AS m", "list AS m", "more AS m", "name AS m, x AS l, FIRST(more) AS f"])
@pytest.mark.parametrize("apart", ["PARTITION BY k ORDER BY ts", "ORDER BY ts DESC, k", "PARTITION BY k"])
def test_ties_are_in_an_order_that_follows_from_what_rows_hold(measured: str, apart: str, spark: SparkSession) -> None:
    frame = spark.sql(TIED)
    text = (
        f"SELECT * FROM tied MATCH_RECOGNIZE ({apart} MEASURES MATCH_NUMBER() AS n, FIRST(ts) AS ts, {measured} PATTERN (a{{3}}))"
    )
    found = []
    for seed in range(3):
        frame.orderBy(F.rand(seed)).repartition(seed + 1).createOrReplaceTempView("tied")
        found.append(sorted(str(row) for row in sqs.sql(text).collect()))
    assert found[0] == found[1] == found[2]
    assert len(found[0]) > 100


COMPARED = [
    "a AS name = 'p'",
    "a AS name != 'p' AND PREV(name) = 'q'",
    "a AS 'q' = name OR name IS NULL",
    "a AS name IN ('p', 'q') AND NOT (NEXT(name) IN ('r', 'pqr?'))",
    "a AS name NOT IN ('p', 'pq?') AND b.name = 'r'",
    "a AS name = PREV(name) AND name != 'p'",
    "a AS name > 'p'",
    "a AS LENGTH(name) = 1 AND name = 'p'",
]


@pytest.mark.spark
@pytest.mark.parametrize("condition", COMPARED)
def test_texts_that_are_compared_with_a_few(condition: str, spark: SparkSession) -> None:
    names = ["p", "q", "r", "", None, "pqr?", "pq?", "p?", "?", "other"]
    table = pa.table({"ts": range(200), "k": [i % 3 for i in range(200)], "name": [names[i * i % 17 % 10] for i in range(200)]})
    spark.createDataFrame(table).createOrReplaceTempView("named")
    text = (
        "SELECT * FROM named MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES FIRST(ts) AS f, LAST(ts) AS l, COUNT(*) AS n, "
        f"LAST(name) = 'q' AS is_q PATTERN (b a+) DEFINE {condition})"
    )
    expected = sq.sql(text, named=table)
    assert expected.num_rows > 0
    assert in_any_order(sqs.sql(text).toArrow()) == in_any_order(expected)


@pytest.mark.spark
def test_nan_is_null_in_partitions_too(spark: SparkSession) -> None:
    table = pa.table({"ts": range(8), "k": [float("nan"), None, 0.0, -0.0] * 2})
    spark.createDataFrame(
        [(t, k) for t, k in zip(*table.to_pydict().values(), strict=True)], "ts long, k double"
    ).createOrReplaceTempView("numbers")
    text = "SELECT n FROM numbers MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES COUNT(*) AS n PATTERN (a+))"
    assert [row.n for row in sqs.sql(text).collect()] == [4, 4] == sq.sql(text, numbers=table)["n"].to_pylist()
