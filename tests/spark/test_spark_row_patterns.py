"""Row patterns on Spark: the same rows as in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

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
    with pytest.raises(sq.QueryError, match="nothing"):
        sqs.sql("SELECT * FROM nothing")
    ((told,),) = sqs.sql(f"EXPLAIN {STATEMENTS[0]}").collect()
    assert "tasks by their key" in told
