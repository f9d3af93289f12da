"""Where the events of a pipeline come from: any reader of Spark, what its rows are decoded and selected to, and which are refused.

    reader -> decode (a column of JSON, CSV or Avro into columns) -> select (expressions of Spark SQL) -> checks -> events

A row that cannot be decoded, fails a demand of the schema, or lacks the key by which every query that wants it finds its partners,
is rejected with the reason. Nothing is left out without one.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, Any

from seqube.errors import SchemaError
from seqube.plan.aggregates import AggregatePlan
from seqube.plan.needs import Plan, needs_of
from seqube.spark import ingest
from seqube.spark.failures import spark_errors
from seqube.spark.forecasting import Share
from seqube.spark.ingest import REASON, Check, EventFrame
from seqube.spark.streaming.declaration import Declaration, Decoding, Demand

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

FILES = ("parquet", "orc", "csv", "json", "text", "xml", "avro")  # whose streams want to know their columns beforehand
# Spark leaves out files that are a week older than the newest it has seen: once a clock was ahead, all that come after.
AGE = {"maxFileAge": "36500d"}
CORRUPT = "_corrupt_record"  # where Spark's readers put a line that is no row


def open_source(spark: SparkSession, declared: Declaration, *, streaming: bool) -> EventFrame:
    """The declared source with its checks: columns that are not there are an error, rows that fail are marked."""
    frame = _made_into_events(_load(spark, declared, streaming), declared)
    missing = [name for name in declared.schema if name not in frame.columns]
    if missing:
        known = ", ".join(map(repr, frame.columns))
        raise SchemaError(f"{declared.file}: the source has no column {', '.join(map(repr, missing))}; it has {known}")
    for name, demand in declared.schema.items():
        actual = frame.schema[name].dataType
        if demand.type is not None and actual != _spark_type(demand.type):
            raise SchemaError(
                f"{declared.file}: the column {name!r} is declared {demand.type} and holds {actual.simpleString()}\n"
                "  hint: change the declaration, or the source"
            )
    checks = list(_checks(declared, frame))
    # A pipeline gives the same types over what is there and over what comes, so it does not look at texts that are there.
    return ingest.read_source(frame, declared.type, declared.time, declared.unit, checks, looks=False)


def _made_into_events(frame: DataFrame, declared: Declaration) -> DataFrame:
    """The rows of the source, with the columns that they are decoded to and those that are selected of them."""
    with spark_errors(declared.path):
        if declared.decode is not None:
            frame = _decoded(frame, declared.decode)
        if declared.select:
            kept = [CORRUPT] if CORRUPT in frame.columns else []
            frame = frame.selectExpr(*(f"{text} AS `{name}`" for name, text in declared.select.items()), *kept)
            len(frame.columns)  # what is wrong with an expression is said here
    return frame


def _decoded(frame: DataFrame, asked: Decoding) -> DataFrame:
    """A column of texts or bytes, read as columns of their own beside those that came with it. What cannot be read is kept."""
    from pyspark.sql import functions as F  # noqa: N812

    if asked.column not in frame.columns:
        known = ", ".join(map(repr, frame.columns))
        raise SchemaError(f"the source has no column {asked.column!r} to decode; it has {known}")
    value = ingest.column(asked.column)
    text = value.cast("string")
    options = {"mode": "PERMISSIVE", **asked.options}
    if asked.format == "avro":
        from pyspark.sql.avro.functions import from_avro

        read, corrupt = from_avro(value, asked.schema, options), F.when(F.isnull("#read"), F.hex(value))
    else:
        options["columnNameOfCorruptRecord"] = CORRUPT
        fields = f"{asked.schema}, {CORRUPT} string"
        read = F.from_json(text, fields, options) if asked.format == "json" else F.from_csv(text, fields, options)
        corrupt = F.when(F.isnull(text), F.lit("")).otherwise(F.col(f"`#read`.`{CORRUPT}`"))
    frame = frame.withColumn("#read", read)
    inner = [name for name in frame.schema["#read"].dataType.names if name != CORRUPT]  # type: ignore[attr-defined]
    beside = [ingest.column(name) for name in frame.columns if name not in (*inner, asked.column, "#read")]
    return frame.select(*(F.col("`#read`")[name].alias(name) for name in inner), *beside, corrupt.alias(CORRUPT))


def _load(spark: SparkSession, declared: Declaration, streaming: bool) -> DataFrame:
    kind = declared.format
    if kind == "kafka":
        from seqube.spark.streaming.kafka import kafka_format

        kind = kafka_format(spark)
    text = declared.format in ("csv", "json") and declared.decode is None and not declared.select
    options = {"header": "true", **declared.options} if declared.format == "csv" else dict(declared.options)
    schema = None
    if text and declared.schema and all(demand.type for demand in declared.schema.values()):
        from pyspark.sql.types import StringType, StructField, StructType

        fields = [StructField(name, _spark_type(str(demand.type))) for name, demand in declared.schema.items()]
        schema = StructType([*fields, StructField(CORRUPT, StringType())])
        options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT, **options}
    elif declared.format in ("csv", "json"):
        options = {"inferSchema": "true", **options}
    with spark_errors(declared.path):
        if (
            schema is None and streaming and declared.path is not None and declared.format in FILES
        ):  # a stream of files wants to know its columns beforehand
            schema = spark.read.format(declared.format).options(**options).load(declared.path).schema
        reader = spark.readStream if streaming else spark.read
        reader = reader.format(kind).options(**{**(AGE if streaming and kind in FILES else {}), **options})
        if schema is not None:
            reader = reader.schema(schema)
        return reader.load(declared.path) if declared.path is not None else reader.load()


def _spark_type(text: str) -> Any:
    from pyspark.sql.types import DataType

    return DataType.fromDDL(text)


def _checks(declared: Declaration, frame: DataFrame) -> Iterator[Check]:
    from pyspark.sql import functions as F  # noqa: N812

    if CORRUPT in frame.columns:
        yield Check("the line does not fit the declared columns", F.isnotnull(ingest.column(CORRUPT)))
    for name, demand in declared.schema.items():
        yield from _demands(name, demand, ingest.column(name))


def _demands(name: str, demand: Demand, value: Column) -> Iterator[Check]:
    from pyspark.sql import functions as F  # noqa: N812

    if demand.required:
        yield Check(f"{name} is missing", F.isnull(value))
    if demand.min is not None:
        yield Check(f"{name} is less than {demand.min}", value < F.lit(demand.min))
    if demand.max is not None:
        yield Check(f"{name} is more than {demand.max}", value > F.lit(demand.max))
    if demand.allowed:
        yield Check(f"{name} is none of {', '.join(map(str, demand.allowed))}", ~value.isin(*demand.allowed))


# ---------------------------------------------------------------- keys


def without_key(source: EventFrame, declared: Declaration, plans: Mapping[str, Plan], shares: Sequence[Share]) -> Column:
    """Rows that lack the key of some query or rule that looks at them, which therefore cannot see them."""
    from pyspark.sql import functions as F  # noqa: N812

    lacking = [wanted & null for wanted, null in _lacks(source, declared, plans, shares) if null is not None]
    return reduce(operator.or_, lacking) if lacking else F.lit(False)


def require_keys(source: EventFrame, declared: Declaration, plans: Mapping[str, Plan], shares: Sequence[Share]) -> EventFrame:
    """Reject rows that all who look at them need a key of, and that have none: they could be in no match.

    `required: false` of a column in the schema says that it may be null.
    """
    from pyspark.sql import functions as F  # noqa: N812

    found = _lacks(source, declared, plans, shares)
    names = sorted({name for key in _keys(source, declared, plans, shares) for name in key})
    if not names:
        return source
    lost = without_key(source, declared, plans, shares)
    seen = reduce(operator.or_, (wanted if null is None else wanted & ~null for wanted, null in found))
    fails = F.isnull(ingest.column(REASON)) & lost & ~F.coalesce(seen, F.lit(False))  # what fails a test by a null is not looked at
    which = F.concat_ws(", ", *(F.when(F.isnull(_column_of(name, source)), F.lit(name)) for name in names))
    reason = F.when(fails, F.concat(which, F.lit(" is missing"))).otherwise(ingest.column(REASON))
    return replace(source, frame=source.frame.withColumn(REASON, reason), faulty=source.faulty | fails)


def _lacks(
    source: EventFrame, declared: Declaration, plans: Mapping[str, Plan], shares: Sequence[Share]
) -> list[tuple[Column, Column | None]]:
    """For each query and each group of rules, the rows that it looks at, and those that lack its key; None where it has none."""
    from pyspark.sql import functions as F  # noqa: N812

    wanted = [ingest.relevant([plan], source) for plan in plans.values()] + [share.wants(source) for share in shares]
    nulls = [[F.isnull(_column_of(name, source)) for name in key] for key in _keys(source, declared, plans, shares)]
    return [(want, reduce(operator.or_, null) if null else None) for want, null in zip(wanted, nulls, strict=True)]


def _keys(source: EventFrame, declared: Declaration, plans: Mapping[str, Plan], shares: Sequence[Share]) -> list[list[str]]:
    """The columns that must not be null, of each query and group of rules.

    An aggregate may report a group whose key is null, unless it is a partition: events with a null key are in none.
    """
    keys = [
        plan.matches.partition_by if isinstance(plan, AggregatePlan) else needs_of(plan, source.schema.unit).key
        for plan in plans.values()
    ] + [share.key for share in shares]
    optional = {name for name, demand in declared.schema.items() if demand.required is False}
    return [[name for name in key if name not in optional] for key in keys]


def _column_of(name: str, source: EventFrame) -> Column:
    return ingest.column(source.schema.column_of(name))
