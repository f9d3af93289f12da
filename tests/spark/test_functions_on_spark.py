"""Functions of values on Spark: what a query gives there, and what Spark SQL itself says, for every row of `function_rows`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import seqube.spark as sqs
from function_rows import ROWS, SPARK_SAYS, numbered, of, plain, table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_spark_gives_the_same_and_means_the_same(spark: SparkSession) -> None:
    expressions = [expression for expression, _ in ROWS]
    rows = numbered()
    first, last = (
        {expression: bound(n for n, e, _, _ in rows if e == expression) for expression in expressions} for bound in (min, max)
    )
    asked = [
        f"CASE WHEN a.row BETWEEN {first[e]} AND {last[e]} THEN {of(e, 'a.{0}')} END AS v{k}" for k, e in enumerate(expressions)
    ]
    kept = {name: spark.conf.get(name) for name in ("spark.sql.ansi.enabled", "spark.sql.session.timeZone")}
    spark.conf.set("spark.sql.ansi.enabled", "false")  # what cannot be computed is null, not an error
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        made = spark.createDataFrame(table())
        frame = made.withColumn("n", made["n"].cast("timestamp_ntz"))
        ours = sqs.run(f"A a WITHIN 9 RETURN a.row AS row, {', '.join(asked)}", frame)
        given = {row["row"]: row for row in ours.toArrow().to_pylist()}
        theirs = frame.where("type = 'A'").selectExpr("row", *(f"({_in_spark(e)}) AS v{k}" for k, e in enumerate(expressions)))
        said = {row["row"]: row for row in theirs.toArrow().to_pylist()}
    finally:
        for name, value in kept.items():
            spark.conf.set(name, str(value))
    differing: dict[tuple[str, str], Any] = {}
    for number, expression, columns, value in rows:
        column = f"v{expressions.index(expression)}"
        assert plain(given[number][column]) == plain(value), (expression, columns)
        if plain(said[number][column]) != plain(value):
            differing[expression, repr(columns)] = said[number][column]
    assert differing == SPARK_SAYS


def _in_spark(expression: str) -> str:
    """The same in Spark's words."""
    spelled = {
        "STARTS_WITH": "startswith",
        "ENDS_WITH": "endswith",
        "1 sec": "INTERVAL 1 SECOND",
        "2 hours": "INTERVAL 2 HOURS",
        "\\": "\\\\",
    }
    for ours, theirs in spelled.items():
        expression = expression.replace(ours, theirs)
    return expression
