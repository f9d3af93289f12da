"""Queries inside SQL give the rows of the same queries outside it, in columns that follow their text."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from tables import rows_of

import seqube as sq
import seqube.spark as sqs
from seqube.generate import generate

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEYED = "SEQ(Recycle r, Wash w, [id]) WITHIN 30 min"
FREE = "SEQ(Recycle r, !Check c, Operate o) WITHIN 5 min RETURN r.id AS x, o.id AS y, o.ts - r.ts AS lag"
ALONE = "SEQ(Recycle r, Wash w) WITHIN 30 min RETURN r.id AS x, w.ts AS t"


@pytest.fixture(scope="module")
def tools(spark: SparkSession) -> pa.Table:
    table = generate("hospital", 1_000, seed=2)
    spark.createDataFrame(table).createOrReplaceTempView("tools")
    sqs.register(spark)
    return table


@pytest.mark.parametrize("query", [KEYED, FREE])
def test_select_from_a_query(spark: SparkSession, tools: pa.Table, query: str) -> None:
    found = spark.sql(f"SELECT * FROM seqube(TABLE(tools), '{query}')")
    assert rows_of(found.toArrow()) == rows_of(sq.run(query, tools).table)


def test_the_statement_splits_the_stream(spark: SparkSession, tools: pa.Table) -> None:
    found = spark.sql(f"SELECT * FROM seqube_by(TABLE(tools) PARTITION BY (id), '{ALONE}')").toArrow()
    assert rows_of(found) == rows_of(sq.run(ALONE.replace("WITHIN", "PARTITION BY id WITHIN"), tools).table)


def test_values_for_parameters(spark: SparkSession, tools: pa.Table) -> None:
    query = "SEQ(Recycle r, Wash w, [id]) WHERE r.id < :most AND r.type = :name WITHIN 30 min RETURN r.id AS x"
    given = "named_struct('most', 3, 'name', 'Recycle')"
    found = spark.sql(f"SELECT * FROM seqube(TABLE(tools), '{query}', params => {given})").toArrow()
    assert rows_of(found) == rows_of(sq.run(query, tools, params={"most": 3, "name": "Recycle"}).table)
    assert len(found) > 0
    with pytest.raises(Exception, match="no value for :most"):
        spark.sql(f"SELECT * FROM seqube(TABLE(tools), '{query}')")
    frame = spark.table("tools")
    assert rows_of(sqs.run(query, frame, params={"most": 3, "name": "Recycle"}).toArrow()) == rows_of(found)
    everything = "SEQ(Recycle r, Wash w, [id]) WITHIN 5 min RETURN *"
    assert rows_of(sqs.run(everything, frame).toArrow()) == rows_of(sq.run(everything, tools).table)
    assert sqs.run(everything, frame, ids=True).columns == ["match_id", *sq.run(everything, tools).table.column_names]
    with pytest.raises(sq.QueryError, match="no parameter :least"):
        sqs.run(query, frame, params={"most": 3, "name": "Recycle", "least": 0})


def test_mistakes_are_found_when_it_is_planned(spark: SparkSession, tools: pa.Table) -> None:
    for query, words in (("SEQ(Wash w", "expected"), ("SEQ(Wash w) WHERE w.colour = 3 WITHIN 1 min", "no column")):
        with pytest.raises(Exception, match=f"(?s){words}"):
            spark.sql(f"SELECT * FROM seqube(TABLE(tools), '{query}')")


def test_pyspark_is_inside_as_functions_over_arrow_need_it() -> None:
    """What `sql.register` sets by hand is no public face of PySpark: a version in which it is otherwise is told of here."""
    from pyspark.errors import PySparkAttributeError
    from pyspark.sql.functions import arrow_udtf, udtf
    from pyspark.util import PythonEvalType

    from seqube.spark.table_functions import _function

    function = udtf(_function(True, case_sensitive=False, zone="UTC"))
    see = "see seqube.spark.sql.register"
    assert "evalType" in vars(function), f"a table function has no evalType any more: {see}"
    assert hasattr(PythonEvalType, "SQL_ARROW_UDTF"), f"PySpark calls functions over Arrow otherwise: {see}"
    try:
        arrow_udtf(_function(True, case_sensitive=False, zone="UTC"))
    except PySparkAttributeError:
        return
    pytest.fail(f"PySpark now takes `analyze` of functions over Arrow, so nothing need be set by hand: {see}")


EMPTY = {
    "no rows": "SELECT 'A' AS type, 1L AS ts WHERE rand() > 2",
    "surely no rows": "SELECT 'A' AS type, 1L AS ts WHERE false",
    "no events": "SELECT cast(null AS string) AS type, 1L AS ts",
}


@pytest.mark.parametrize("rows", EMPTY.values(), ids=EMPTY)
def test_the_total_of_nothing(spark: SparkSession, tools: pa.Table, rows: str) -> None:
    query = "SEQ(A a, B b) AGG COUNT(*), MAX(a.ts) AS latest WITHIN 5 EMIT TOTAL"
    spark.sql(rows).createOrReplaceTempView("nothing")
    found = spark.sql(f"SELECT * FROM seqube(TABLE(nothing), '{query}')").toArrow()
    assert (
        found.to_pylist()
        == sq.run(query, pa.table({"type": ["A"], "ts": [1]}).slice(1)).table.to_pylist()
        == [{"count": 0, "latest": None}]
    )


def test_the_total_of_a_table(spark: SparkSession, tools: pa.Table) -> None:
    query = "SEQ(Recycle r, Wash w) AGG COUNT(*), MAX(w.ts) AS latest WITHIN 30 min EMIT TOTAL"
    found = spark.sql(f"SELECT * FROM seqube(TABLE(tools), '{query}')").toArrow()
    assert rows_of(found) == rows_of(sq.run(query, tools).table)


def test_columns_that_differ_in_case_alone(spark: SparkSession, tools: pa.Table) -> None:
    spark.createDataFrame(pa.table({"type": ["A"], "ts": [1], "TYPE": ["x"]})).createOrReplaceTempView("clash")
    with pytest.raises(Exception, match="'type' and 'TYPE' differ in upper and lower case alone"):
        spark.sql("SELECT * FROM seqube(TABLE(clash), 'SEQ(A a) WITHIN 5')")
