"""From any DataFrame to rows that are ready to travel: which are no events and why, which matter to which query, and their bucket.

Everything here is Spark columns, so it runs in the JVM before anything is shuffled, and what Parquet can answer from its
statistics is pushed to it. A row is *rejected* (it has no type or no time, or fails a declared check), *irrelevant* (no query
looks at it) or it gets a bucket for every group of queries that looks at it.

What is pushed down never decides: the engine evaluates every predicate again. So a translation may let rows pass that fail (NaN is
the largest number to Spark and null to us), but never the other way round.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

import pyarrow as pa
import pyarrow.compute as pc

from seqube.engine.predicates import read_moment
from seqube.errors import DataError, SchemaError, warn
from seqube.events import Hierarchy, Statistics
from seqube.events.batch import NO_TYPE
from seqube.events.schema import ANY, TIME, TYPE, UNITS, Schema
from seqube.events.times import NO_TIME, NOT_TIMESTAMP, NOT_WHOLE, OUT_OF_RANGE
from seqube.language import Query
from seqube.language.files import read_query
from seqube.language.parameters import Params, refuse_unknown
from seqube.language.tree import AllOf, Among, AnyOf, Attribute, Call, Comparison, IsNull, IsTrue, Literal, Predicate
from seqube.plan.measured import Measurements
from seqube.plan.needs import Plan, needs_of, together
from seqube.plan.optimizer import ALONE, optimize
from seqube.spark.moments import names_zone, read_text, ticks_of_plain
from seqube.spark.session import described

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

TEXT = "#text"  # a time column of texts as it came
REASON = "#reason"  # why a row is no event; null for events
INPUT_ORDER = "#sequence"  # the order of the input, where ties are numbered
KEY = "#key"  # a hash of the key, by which the state of a stream is sorted
EPOCH = "#epoch"  # when a row came, in generations of the queries that are watched together
IDENTITY = "#id"  # a hash of the whole event, from which match ids are made
MOST_CODED = 16  # types that a row is compared with; with more of them it is quicker to carry the name
SURVEYED = 100  # one event in so many is looked at before a plan is made
SOME_TYPES = 10_000  # with more of them, nobody can say which one was meant
LAST_ASKED_US = 2**63 - 10**15  # readers are asked in times of Java's, which overflow in the last years of Spark's
LAST_MOMENT_US = 9_151_488_000_000_000  # 2260: what a stream waits for must lie before the last moment that pandas knows

# Tests of texts that mean the same in Spark; LIKE does where nothing is escaped, which Spark reads more strictly.
_TEXT_TESTS: dict[str, Callable[[Any, str], Any]] = {
    "STARTS_WITH": lambda place, text: place.startswith(text),
    "ENDS_WITH": lambda place, text: place.endswith(text),
    "CONTAINS": lambda place, text: place.contains(text),
    "LIKE": lambda place, text: place.like(text),
}
_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "!=": "!="}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_INTEGERS = ("tinyint", "smallint", "int", "bigint")


@dataclass(frozen=True, slots=True)
class Check:
    """A declared demand on rows: those for which `fails` is true are rejected with this reason."""

    reason: str
    fails: Any  # a Column, which cannot be named here without importing PySpark


class Survey(NamedTuple):
    """What a look at a source tells: what its events are like, None where none were seen, and the rows that are none, by reason."""

    measured: Measurements | None
    rejected: dict[str, int]


# How many rows of a DataFrame are no events, by reason, for the columns that were asked for; while somebody holds it.
_REJECTED: MutableMapping[DataFrame, dict[tuple[str, str, str], Mapping[str, int]]] = WeakKeyDictionary()
# What a look at it told, for the columns that were asked for; while somebody holds the DataFrame.
_SURVEYED: MutableMapping[DataFrame, dict[tuple[str, ...], Survey]] = WeakKeyDictionary()
# Whether some text of a column names a zone, by column; while somebody holds the DataFrame.
_ZONED: MutableMapping[DataFrame, dict[str, bool]] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class EventFrame:
    """A DataFrame of events: its columns in Arrow types, and `frame` with the column REASON added and texts read as times."""

    frame: DataFrame
    schema: Schema
    faulty: Any = None  # a Column: which rows may have a reason, asked in a way that readers of files understand
    given: DataFrame | None = None  # as it came, where nothing else is demanded of it than that its rows are events

    @property
    def names(self) -> list[str]:
        return [str(name) for name in self.schema.columns.names]

    def rejected(self) -> DataFrame:
        """The rows that are no events, as they came, and why."""
        from pyspark.sql import functions as F  # noqa: N812

        read = TEXT in self.frame.columns
        shown = [column(TEXT).alias(name) if read and name == self.time_column else column(name) for name in self.names]
        reason = "reason" if "reason" not in self.names else "reason_"
        return self.frame.where(F.isnotnull(column(REASON))).select(*shown, column(REASON).alias(reason))

    def warn(self, reasons: Mapping[str, int] | None = None) -> None:
        """Say how many rows are no events, and why: a result alone would not show that they are missing.

        Where that is not known yet the statistics of Parquet files mostly tell that there are none; other files, and texts, are
        read for it. That is a job of its own, so the same DataFrame is asked once, however many queries are run over it.
        """
        asked = (self.type_column, self.time_column, self.schema.unit)
        known = {} if self.given is None else _REJECTED.setdefault(self.given, {})
        if reasons is None:
            reasons = known[asked] if asked in known else self._count_rejected()
        known[asked] = reasons
        if reasons:
            listed = ", ".join(f"{n:,} {reason}" for reason, n in sorted(reasons.items(), key=lambda each: -each[1]))
            warn(
                f"{sum(reasons.values()):,} rows are not events and take no part ({listed})\n"
                "  hint: seqube.spark.quarantine shows them"
            )

    def _count_rejected(self) -> dict[str, int]:
        from pyspark.sql import functions as F  # noqa: N812

        faults = self.frame.where(self.faulty & F.isnotnull(column(REASON)))
        with described(self.frame.sparkSession, "seqube: count rows that are no events"):
            counted = faults.groupBy(column(REASON).alias("reason")).count().collect()
        return {row["reason"]: row["count"] for row in counted}

    def survey(self, looked_up: Iterable[str]) -> Survey:
        """What one row in SURVEYED says of the events, and of the columns that are looked up; and all rows that are no events.

        One job that reads the type, the time and these columns; the same DataFrame is looked at once for them, however many
        workloads are planned for it.
        """
        names = sorted(looked_up)
        asked = (self.type_column, self.time_column, self.schema.unit, *names)
        known = {} if self.given is None else _SURVEYED.setdefault(self.given, {})
        if asked not in known:
            known[asked] = self._look_at_some(names)
        return known[asked]

    def _look_at_some(self, names: Sequence[str]) -> Survey:
        """Taken by a hash, so that the sample is the same every time."""
        from pyspark.sql import functions as F  # noqa: N812

        values = [F.approx_count_distinct(column(self.schema.column_of(name))) for name in names]
        sampled = self.frame.where(F.isnotnull(column(REASON)) | (bucket((TIME, *names), SURVEYED, self) == 0))
        type_name = F.when(F.isnull(column(REASON)), column(self.type_column).cast("string"))
        told = sampled.groupBy(column(REASON), type_name).agg(F.count(F.lit(1)), F.min(clock(self)), F.max(clock(self)), *values)
        with described(self.frame.sparkSession, "seqube: look at a sample of the events"):
            rows = told.collect()
        rejected: dict[str, int] = {}
        for reason, _, n, *_ in rows:
            if reason is not None:
                rejected[reason] = rejected.get(reason, 0) + n
        events = [row for row in rows if row[0] is None]
        if not events:
            return Survey(None, rejected)
        counts = {row[1]: row[2] * SURVEYED for row in events}
        statistics = Statistics(sum(counts.values()), min(row[3] for row in events), max(row[4] for row in events), counts)
        distinct = {name: max(row[5 + number] for row in events) for number, name in enumerate(names)}
        return Survey(Measurements(statistics, self.schema.unit, distinct), rejected)

    def tally(self) -> tuple[int, dict[str, int], list[str]]:
        """How many rows are events, how many are not, by reason, and the types of events (some, where there are very many)."""
        from pyspark.sql import functions as F  # noqa: N812

        names = F.slice(F.collect_set(column(self.type_column).cast("string")), 1, SOME_TYPES)
        told = self.frame.groupBy(column(REASON)).agg(F.count(F.lit(1)).alias("n"), names.alias("types"))
        with described(self.frame.sparkSession, "seqube: count events"):
            counted = told.collect()
        found = {row[REASON]: (row["n"], row["types"]) for row in counted}
        n_events, types = found.pop(None, (0, []))
        return n_events, {reason: n for reason, (n, _) in found.items()}, types

    @property
    def type_column(self) -> str:
        return self.schema.type_column

    @property
    def time_column(self) -> str:
        return self.schema.time_column


def read_source(
    frame: DataFrame, typed: str | None, time: str, unit: str, checks: Sequence[Check] = (), *, looks: bool = True
) -> EventFrame:
    """Check that the columns can hold events, and mark the rows that do not. Without a type column, events are of any type.

    Times that are texts are read in UTC, whatever the session's zone is, and have no zone where no text names one, as in one
    process. That is looked up, in a job of its own; where it is not (`looks`), and in a stream, one may still come that does.
    """
    from pyspark.sql import functions as F  # noqa: N812

    type, given = typed or TYPE, None if checks else frame  # noqa: A001
    if typed is None:
        if TYPE in frame.columns:
            raise SchemaError(f"there is a column {TYPE!r}, so its events have types\n  hint: leave out type=None, or rename it")
        frame = frame.withColumn(TYPE, F.lit(ANY))
    columns = arrow_columns(frame.schema, session_zone(frame.sparkSession))
    clash = [name for name in frame.columns if name.startswith("#")]
    if clash:
        raise SchemaError(f"the column {clash[0]!r} begins with '#', which is kept for columns of our own\n  hint: rename it")
    refuse_clashes(frame.columns, frame.sparkSession.conf.get("spark.sql.caseSensitive") == "true")
    Schema(columns, type, time, unit)  # says what is wrong with the type or time column
    moment = column(time)
    faults = [(F.isnull(column(type)), NO_TYPE), (F.isnull(moment), NO_TIME)]
    kind = columns.field(time).type
    if pa.types.is_string(kind):
        zoned = frame.isStreaming or not looks or _names_zone(given if given is not None else frame, time)
        # The text stays beside the time it stands for, so that a rejected row is shown as it came.
        frame = frame.withColumn(TEXT, moment).withColumn(time, read_text(moment, zoned=zoned))
        columns = columns.set(columns.get_field_index(time), pa.field(time, pa.timestamp("us", "UTC" if zoned else None)))
        faults = [(F.isnull(column(type)), NO_TYPE), (F.isnull(column(TEXT)), NO_TIME), (F.isnull(column(time)), NOT_TIMESTAMP)]
    elif pa.types.is_floating(kind):
        value = moment.cast("double")
        faults.append((F.isnan(value) | (F.abs(value) == float("inf")) | (F.rint(value) != value), NOT_WHOLE))
        faults.append((F.abs(value) > 2.0**53, OUT_OF_RANGE))
    schema = Schema(columns, type, time, unit)
    last = LAST_MOMENT_US * 1_000 // UNITS[schema.unit] if frame.isStreaming else 2**63 - 2
    first, bare = -last if frame.isStreaming else 1 - 2**63, EventFrame(frame, schema)
    faults = [*((demand.fails, demand.reason) for demand in checks), *faults]
    suspects = [*(fails for fails, _ in faults), _is_outside(bare, max(first, -LAST_ASKED_US), min(last, LAST_ASKED_US))]
    faults.append((_is_outside(bare, first, last), OUT_OF_RANGE))
    reason = F.lit(None).cast("string")
    for fails, text in reversed(faults):
        reason = F.when(fails, F.lit(text)).otherwise(reason)
    return EventFrame(frame.withColumn(REASON, reason), schema, reduce(operator.or_, suspects), given)


def _names_zone(frame: DataFrame, time: str) -> bool:
    known = _ZONED.setdefault(frame, {})
    if time not in known:
        with described(frame.sparkSession, f"seqube: look for zones in {time}"):
            known[time] = names_zone(frame, column(time))
    return known[time]


def _is_outside(source: EventFrame, first: int, last: int) -> Column:
    """Whether a time is not in a range of ticks, asked in a way that Parquet understands where that can be."""
    from pyspark.sql import functions as F  # noqa: N812

    kind = source.schema.columns.field(source.time_column).type
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        moment = column(source.time_column)
        return (moment < F.timestamp_micros(F.lit(first))) | (moment > F.timestamp_micros(F.lit(last)))
    ticks = clock(source)
    return F.isnull(ticks) | (ticks < first) | (ticks > last)


def refuse_clashes(names: Sequence[str], case_sensitive: bool) -> None:
    """Refuse columns that Spark cannot tell apart by their names."""
    seen: dict[str, str] = {}
    for name in () if case_sensitive else names:
        if seen.setdefault(name.lower(), name) != name:
            raise SchemaError(
                f"the columns {seen[name.lower()]!r} and {name!r} differ in upper and lower case alone, which Spark does not see\n"
                "  hint: rename one of them, or spark.conf.set('spark.sql.caseSensitive', 'true')"
            )


def load_files(spark: SparkSession, path: str, time: str) -> DataFrame:
    """A file or folder of events; its ending, or that of a file in it, says what it holds.

    The times of a CSV file are texts, to be read by our rule: Spark's takes those without a zone for moments of the session's.
    """
    from pyspark.sql.types import StringType, StructField, StructType

    place = Path(path)
    if "://" not in path and not place.exists():
        raise DataError(f"there is no file {path!r}\n  hint: check the path; relative paths start at {str(Path.cwd())!r}")
    names = [place, *sorted(place.rglob("*"))] if place.is_dir() else [place]
    kind = next((_FORMATS[name.suffix.lower()] for name in names if name.suffix.lower() in _FORMATS), None)
    if kind is None:
        raise DataError(
            f"{path!r} ends in none of {', '.join(_FORMATS)}\n  hint: rename it, or read it with Spark and use seqube.spark"
        )
    reader = spark.read.format(kind)
    if kind == "csv":
        reader = reader.options(header="true", inferSchema="true", mode="PERMISSIVE")
    # Relative to this process: the JVM may have been started elsewhere.
    full = path if "://" in path else str(place.resolve())
    frame = reader.load(full)
    if kind != "csv" or dict(frame.dtypes).get(time) != "timestamp":
        return frame
    texts = StructType([StructField(each.name, StringType()) if each.name == time else each for each in frame.schema])
    return reader.schema(texts).load(full)


_FORMATS = {".parquet": "parquet", ".csv": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json", ".orc": "orc"}


def session_zone(spark: SparkSession) -> str:
    """The zone that Spark shows times in, and takes them apart in; UTC where Arrow does not know it."""
    zone = str(spark.conf.get("spark.sql.session.timeZone"))
    try:
        pc.local_timestamp(pa.scalar(0, pa.timestamp("us", zone)))
    except pa.ArrowInvalid:
        return "UTC"
    return zone


def arrow_columns(schema: StructType, zone: str = "UTC") -> pa.Schema:
    """The columns of a DataFrame in Arrow types; times are in this zone."""
    from pyspark.sql.pandas.types import to_arrow_type

    fields = []
    for field in schema:
        try:
            fields.append(pa.field(field.name, to_arrow_type(field.dataType, timezone=zone)))
        except Exception as error:
            raise SchemaError(
                f"the column {field.name!r} is of a kind that cannot travel: {field.dataType.simpleString()}"
            ) from error
    return pa.schema(fields)


def column(name: str) -> Column:
    """A column by its plain name, dots and quotes included."""
    from pyspark.sql import functions as F  # noqa: N812

    return F.col("`" + name.replace("`", "``") + "`")


def plan_over(query: str | Query, source: EventFrame, hierarchy: Hierarchy | None = None, strategy: str = "auto") -> Plan:
    """A query checked against the columns it is for, and planned."""
    return plan_all_over({ALONE: query}, source, hierarchy, strategy)[ALONE]


def plan_all_over(
    queries: Mapping[str, str | Query],
    source: EventFrame,
    hierarchy: Hierarchy | None = None,
    strategy: str = "auto",
    measured: Measurements | None = None,
) -> dict[str, Plan]:
    """Queries checked against the columns they are for, and planned, each for itself.

    Nothing is read for it, so which types there are, and how many events of each, is known only where it is said (`measured`).
    """
    return dict(optimize(bind_all(queries, source), hierarchy, measured, strategy, shares=False).plans)


def bind_all(queries: Mapping[str, str | Query], source: EventFrame, params: Params | None = None) -> dict[str, Query]:
    """Queries with the values of their parameters, checked against the columns they are for."""
    refuse_unknown(queries.values(), params or {})
    return {name: read_query(query, source.schema, params) for name, query in queries.items()}


def refuse_unknown_types(query: Query, present: Sequence[str], hierarchy: Hierarchy | None) -> None:
    """Refuse a misspelt type, as runs in one process do, where the types of all events are known."""
    from seqube.language.spelling import check_types

    if 0 < len(present) < SOME_TYPES:
        check_types(query, present, hierarchy)


# ---------------------------------------------------------------- clocks


def clock(source: EventFrame) -> Column:
    """The time of an event in ticks, as the engine counts them; null where they leave 64 bits."""
    from pyspark.sql import functions as F  # noqa: N812

    moment, kind = column(source.time_column), source.schema.columns.field(source.time_column).type
    if pa.types.is_timestamp(kind):
        return ticks_of_plain(moment) if kind.tz is None else F.unix_micros(moment)
    if pa.types.is_date(kind):
        return F.try_multiply(F.unix_date(moment).cast("long"), F.lit(86_400_000_000))
    return moment.try_cast("long")


def moment_of(ticks: Column, unit: str) -> Column:
    """Ticks as a Spark timestamp, which watermarks are made of; rounded down to microseconds."""
    from pyspark.sql import functions as F  # noqa: N812

    nanoseconds = UNITS[unit]
    if nanoseconds < 1_000:
        return F.timestamp_micros(F.floor(ticks / (1_000 // nanoseconds)))
    return F.timestamp_micros(ticks * (nanoseconds // 1_000))


# ---------------------------------------------------------------- relevance


def relevant(plans: Iterable[Plan], source: EventFrame) -> Column:
    """Rows that some variable of some plan could be: of its types, and not failing what of its own predicates Spark understands."""
    from pyspark.sql import functions as F  # noqa: N812

    kinds = {field.name: field.dataType for field in source.frame.schema}
    name = column(source.type_column)
    if not is_plain_string(kinds[source.type_column]):
        name = name.cast("string")
    needs = [needs_of(plan, source.schema.unit) for plan in plans]
    everything, _ = together(needs)
    if everything is None:
        return F.lit(True)
    wanted: dict[tuple[str, ...], Any] = {}
    for each in needs:
        for scan in each.scans:
            types = tuple(sorted(scan.types))
            own = [translated for predicate in scan.filters if (translated := translate(predicate, source, kinds)) is not None]
            condition = reduce(operator.and_, own) if own else None
            if types not in wanted:
                wanted[types] = condition
            elif wanted[types] is not None:
                wanted[types] = None if condition is None else wanted[types] | condition
    typed = name.isin(*sorted(everything)) if everything else F.lit(False)
    if all(condition is None for condition in wanted.values()):
        return typed
    parts = [name.isin(*types) if condition is None else name.isin(*types) & condition for types, condition in wanted.items()]
    return typed & reduce(operator.or_, parts)  # the first half is one that Parquet understands


def coded_types(plans: Iterable[Plan], source: EventFrame) -> tuple[str, ...]:
    """The types of all rows that matter, where those are few enough to be told apart in Spark; () where they are not."""
    types = together(needs_of(plan, source.schema.unit) for plan in plans)[0] or ()
    plain = is_plain_string(source.frame.schema[source.type_column].dataType)
    return tuple(sorted(types)) if plain and len(types) <= MOST_CODED else ()


def is_plain_string(kind: DataType) -> bool:
    return kind.simpleString() == "string"


def translate(node: Predicate, source: EventFrame, kinds: dict[str, DataType]) -> Column | None:
    """A predicate on one event as a Spark condition that is true wherever ours is; None where Spark means something else."""
    match node:
        case AllOf(parts):
            found = [each for part in parts if (each := translate(part, source, kinds)) is not None]
            return reduce(operator.and_, found) if found else None
        case AnyOf(parts):
            choices: list[Any] = [translate(part, source, kinds) for part in parts]
            return None if any(choice is None for choice in choices) else reduce(operator.or_, choices)
        case Comparison(op, Attribute() as left, Literal(value)):
            return _compare(op, left, value, source, kinds)
        case Comparison(op, Literal(value), Attribute() as right):
            return _compare(_MIRRORED[op], right, value, source, kinds)
        case Among(Attribute() as operand, values, negated):
            return _among(operand, [literal.value for literal in values if isinstance(literal, Literal)], negated, source, kinds)
        case IsNull(Attribute() as operand, negated):
            from pyspark.sql import functions as F  # noqa: N812

            place, kind = _resolve(operand, source, kinds)
            if negated:
                return place.isNotNull()
            return place.isNull() | F.isnan(place) if kind in ("float", "double") else place.isNull()
        case IsTrue(Attribute() as operand):
            place, kind = _resolve(operand, source, kinds)
            return place if kind == "boolean" else None
        case IsTrue(Call(name, (Attribute() as operand, Literal(str(text))))) if name in _TEXT_TESTS and "\\" not in text:
            place, kind = _resolve(operand, source, kinds)
            return _TEXT_TESTS[name](place, text) if kind == "string" else None
        case _:
            return None


def _resolve(attribute: Attribute, source: EventFrame, kinds: dict[str, DataType]) -> tuple[Column, str]:
    name = source.schema.column_of(attribute.name)
    kind = kinds[name].simpleString()
    return column(name), "type" if source.schema.resolve(attribute.name) == TYPE and kind != "string" else kind


def _literal(value: Any, kind: str, zone: str | None) -> Any:
    """The value as Spark compares it with a column of this kind in the way we do, which is exactly; None where it does not."""
    from pyspark.sql import functions as F  # noqa: N812

    if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 2**62:
        if kind in _INTEGERS:
            # Beside a double, Spark makes doubles of integers. Where the double is whole it can be an integer itself; where it is
            # not it is so small that no integer becomes a double on its other side.
            return F.lit(int(value) if value == int(value) else value)
        if kind in ("float", "double"):
            return F.lit(float(value)) if float(value) == value else None
    if kind == "string" and isinstance(value, str):
        return F.lit(value)
    if kind == "timestamp" and isinstance(value, str):
        try:
            return F.lit(_EPOCH + timedelta(microseconds=read_moment(value, zone) or 0))
        except OverflowError:  # beyond the years that Python knows
            return None
    return None


def _zone(source: EventFrame) -> str:
    """The zone of a text next to a time that names none: that of the time column, or the session's."""
    kind = source.schema.columns.field(source.time_column).type
    return kind.tz if pa.types.is_timestamp(kind) and kind.tz is not None else session_zone(source.frame.sparkSession)


def _compare(op: str, attribute: Attribute, value: Any, source: EventFrame, kinds: dict[str, DataType]) -> Column | None:
    place, kind = _resolve(attribute, source, kinds)
    literal = _literal(value, kind, _zone(source))
    if literal is None:
        return None
    return _COMPARE[op](place.cast("double") if kind == "float" else place, literal)  # type: ignore[no-any-return]


def _among(attribute: Attribute, values: list[Any], negated: bool, source: EventFrame, kinds: dict[str, DataType]) -> Column | None:
    place, kind = _resolve(attribute, source, kinds)
    if kind in _INTEGERS:  # a double among them would make doubles of all, and one that is not whole equals no integer
        values = [value for value in values if not isinstance(value, float) or value.is_integer()]
    literals = [_literal(value, kind, _zone(source)) for value in values]
    if not literals or any(literal is None for literal in literals):
        return None
    place = place.cast("double") if kind == "float" else place
    return ~place.isin(*literals) if negated else place.isin(*literals)


# ---------------------------------------------------------------- buckets


def key_hash(key: Sequence[str], source: EventFrame) -> Column:
    """A hash of the key of an event: equal keys, as the engine compares them, have equal ones; 0 where there is no key."""
    from pyspark.sql import functions as F  # noqa: N812

    return F.xxhash64(*(_comparable(name, source) for name in key)) if key else F.lit(0).cast("long")


def bucket(key: Sequence[str], n_buckets: int, source: EventFrame) -> Column:
    """The bucket of an event, by the hash of its key."""
    from pyspark.sql import functions as F  # noqa: N812

    return F.pmod(key_hash(key, source), F.lit(n_buckets)).cast("int") if key else F.lit(0)


def _comparable(name: str, source: EventFrame) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    name = source.schema.column_of(name)
    place, kind = column(name), source.schema.columns.field(name).type
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        value = place.cast("double")
        return F.when(~F.isnan(value), value + 0.0)  # -0.0 equals 0.0, NaN is null
    return place


def identity(source: EventFrame) -> Column:
    """A hash of all columns of an event: the same event has the same one in every run."""
    from pyspark.sql import functions as F  # noqa: N812

    fields = [source.frame.schema[name] for name in source.names]
    values = [_hashable(column(field.name), field.dataType) for field in fields]
    # Nulls leave a hash as it is, so that which column is null would not be told.
    return F.xxhash64(*values, *(F.isnull(column(field.name)) for field in fields if field.nullable))


def _hashable(value: Column, kind: DataType) -> Column:
    """The same value without maps, which Spark does not hash because their entries have no order: these are lists in order."""
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import ArrayType, MapType, StructType

    match kind:
        case MapType():

            def pair(entry: Column) -> Column:
                return F.struct(_hashable(entry["key"], kind.keyType), _hashable(entry["value"], kind.valueType))

            return F.array_sort(F.transform(F.map_entries(value), pair))
        case ArrayType():
            return F.transform(value, lambda item: _hashable(item, kind.elementType)) if _holds_map(kind) else value
        case StructType():
            if not _holds_map(kind):
                return value
            return F.when(value.isNotNull(), F.struct(*(_hashable(value[field.name], field.dataType) for field in kind)))
        case _:
            return value


def _holds_map(kind: DataType) -> bool:
    return "map<" in kind.simpleString()
