"""Sinks that are no folders: a table of PostgreSQL or another database, a webhook, a command, and whatever else Spark can write to.

    postgres    {url, table}        rows by `match_id`: one that is there is replaced, so a repeated micro-batch changes nothing
    jdbc        {url, dbtable, ...} the same in any database that Spark has a driver for, by statements that all of them know
    webhook     {url, headers}      rows as JSON lists by POST, at least once; `match_id` says which were there before
    command     {command}           rows as JSON lines on the standard input of a program, at least once
    any other   options of Spark's writer: kafka, console, delta, iceberg ...

Each has what a folder has (`seqube.spark.sinks`): `write`, `write_row`, `claim`, `refuse`, `refuse_stream`. One that does not take
its rows raises, and the micro-batch is repeated with the next start. Rows of aggregates have no `match_id`: in a table they have
the number of their micro-batch, whose rows are replaced together.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import time
import urllib.error
import urllib.request
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from seqube.errors import DataError, PlanError, SchemaError
from seqube.extras import need
from seqube.spark.ingest import column
from seqube.spark.rows import MATCH_ID
from seqube.spark.sinks import folder_of, frame_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row, SparkSession
    from pyspark.sql.types import DataType

ROWS_AT_ONCE = 1_000
TRIES, PAUSE = 4, 1.0  # of a webhook, and seconds before the second; each further pause is twice as long
PATIENCE = 60.0


@dataclass(frozen=True)
class Outlet(ABC):
    """A place of rows that is told by options."""

    format: str
    options: Mapping[str, str]
    path: str = ""

    def check(self) -> None:
        """Refuse options that are wrong; whatever Spark writes to, Spark knows."""
        return

    @abstractmethod
    def write(self, frame: DataFrame, *inside: str) -> None:
        """Write rows; the last of `inside` says of which micro-batch they are, what is before that of which query."""

    def write_row(self, spark: SparkSession, row: Mapping[str, Any], columns: Mapping[str, str], number: int | str) -> None:
        """Write what there is to say about one micro-batch."""
        self.write(frame_of(spark, row, columns), folder_of(number))

    def claim(self, name: str) -> dict[str, str]:
        """What a checkpoint remembers: a stream that went on elsewhere would leave half of its results behind."""
        return {name: f"{self.format} {self.where}"}

    @property
    def where(self) -> str:
        return self.path

    def refuse(self, spark: SparkSession, name: str) -> None:
        """Refuse, before a row is read, what cannot be written to."""
        return

    def refuse_stream(self, spark: SparkSession, name: str, *inside: str) -> None:
        """A batch may follow a stream: rows that are there are known by their `match_id`."""
        return


def open_outlet(kind: str, options: Mapping[str, str], path: str) -> Outlet:
    """The sink of a format that is no folder of files; what is wrong with its options is a SchemaError."""
    outlet = _KINDS.get(kind, SparkOutlet)(kind, options, path)
    outlet.check()
    return outlet


# ---------------------------------------------------------------- whatever Spark can write


class SparkOutlet(Outlet):
    """Rows are added by Spark's own writer of a format."""

    def write(self, frame: DataFrame, *inside: str) -> None:
        options, kind = dict(self.options), self.format
        if kind == "kafka":
            from seqube.spark.streaming.kafka import kafka_format

            kind, frame = kafka_format(frame.sparkSession), _as_messages(frame)
        if kind == "delta":  # which knows by these that it has the rows of a repeated micro-batch already
            options = {"txnAppId": " ".join((self.path, *inside[:-1])), "txnVersion": inside[-1].rpartition("=")[2], **options}
        writer = frame.write.mode("append").format(kind).options(**options)
        if self.path:
            writer.save("/".join((self.path.rstrip("/"), *inside[:-1])))
        else:
            writer.save()


def _as_messages(frame: DataFrame) -> DataFrame:
    """Rows as records of Kafka: JSON, with the `match_id` as the key."""
    from pyspark.sql import functions as F  # noqa: N812

    key = column(MATCH_ID).cast("string") if MATCH_ID in frame.columns else F.lit(None).cast("string")
    return frame.select(
        key.cast("binary").alias("key"), F.to_json(F.struct(*map(column, frame.columns))).cast("binary").alias("value")
    )


# ---------------------------------------------------------------- a table of PostgreSQL

_TYPES = {
    "boolean": "boolean",
    "tinyint": "smallint",
    "smallint": "smallint",
    "int": "integer",
    "bigint": "bigint",
    "float": "real",
    "double": "double precision",
    "date": "date",
    "timestamp": "timestamptz",
    "timestamp_ntz": "timestamp",
    "binary": "bytea",
}


class Postgres(Outlet):
    """A table for each query; it is made where there is none. Tasks write side by side, each in a transaction of its own."""

    def check(self) -> None:
        unknown = set(self.options) - {"url", "table"}
        if unknown or not self.options.get("url"):
            raise SchemaError(
                "a table of PostgreSQL has a url and a table\n  hint: {url: 'postgresql://user@host/base', table: '{query}'}"
            )

    @property
    def where(self) -> str:
        return self.options.get("table", "{query}")  # the URL may hold a password

    def refuse(self, spark: SparkSession, name: str) -> None:
        need("postgres")
        with _connected(self.options["url"], name):
            pass

    def write(self, frame: DataFrame, *inside: str) -> None:
        from pyspark.sql import functions as F  # noqa: N812

        number = inside[-1].rpartition("=")[2]
        query = inside[0] if len(inside) > 1 else "rows"
        table = self.where.replace("{query}", query)
        keyed = MATCH_ID in frame.columns
        frame = frame if keyed else frame.withColumn("batch", F.lit(number))
        fields = [(field.name, _TYPES.get(field.dataType.simpleString(), _other(field.dataType))) for field in frame.schema]
        url = self.options["url"]
        _prepare(url, table, fields, None if keyed else number)
        texts = [column(name) if kind != "jsonb" else F.to_json(column(name)).alias(name) for name, kind in fields]
        frame.select(*texts).foreachPartition(lambda rows: _insert(rows, url, table, [name for name, _ in fields], keyed))


def _other(kind: DataType) -> str:
    name = kind.simpleString()
    if name.startswith("decimal"):
        return name.replace("decimal", "numeric")
    if name.startswith("interval") and "month" not in name and "year" not in name:
        return "interval"
    return "jsonb" if name.startswith(("struct", "array", "map")) else "text"


def _connected(url: str, name: str = "") -> Any:
    import psycopg

    try:
        return psycopg.connect(url, connect_timeout=int(PATIENCE))
    except psycopg.Error as error:
        whose = f"the sink {name!r}: " if name else ""
        raise DataError(f"{whose}PostgreSQL cannot be reached: {str(error).strip().splitlines()[-1]}") from None


def _prepare(url: str, table: str, fields: Sequence[tuple[str, str]], batch: str | None) -> None:
    """Make the table where there is none, and take out what a micro-batch without ids has written before."""
    from psycopg import sql

    columns = [sql.SQL("{} {}").format(sql.Identifier(name), sql.SQL(kind)) for name, kind in fields]
    if batch is None:
        columns.append(sql.SQL("PRIMARY KEY ({})").format(sql.Identifier(MATCH_ID)))
    with _connected(url) as connection:
        made = sql.SQL("CREATE TABLE IF NOT EXISTS {} ({})").format(_table(table), sql.SQL(", ").join(columns))
        connection.execute(made)
        if batch is not None:
            connection.execute(sql.SQL("DELETE FROM {} WHERE batch = %s").format(_table(table)), [batch])


def _insert(rows: Iterator[Row], url: str, table: str, names: Sequence[str], keyed: bool) -> None:
    """The rows of a task: those whose id is there already replace what is there."""
    from psycopg import sql

    columns = sql.SQL(", ").join(map(sql.Identifier, names))
    values = sql.SQL(", ").join([sql.Placeholder()] * len(names))
    changes = sql.SQL(", ").join(sql.SQL("{0} = EXCLUDED.{0}").format(sql.Identifier(name)) for name in names)
    conflict = sql.SQL(" ON CONFLICT ({}) DO UPDATE SET {}").format(sql.Identifier(MATCH_ID), changes) if keyed else sql.SQL("")
    statement = sql.SQL("INSERT INTO {} ({}) VALUES ({})").format(_table(table), columns, values) + conflict
    with _connected(url) as connection, connection.cursor() as cursor:
        for some in _some(rows):
            cursor.executemany(statement, [tuple(row) for row in some])


def _table(name: str) -> Any:
    from psycopg import sql

    return sql.SQL(".").join(map(sql.Identifier, name.split(".", 1)))


# ---------------------------------------------------------------- a table of any database

_ARRIVING = "_arriving"  # at the end of the name of the table that rows of a micro-batch come to first
_BATCH_TYPE = "batch VARCHAR(64)"


class Jdbc(Outlet):
    """A table for each query, which Spark makes where there is none.

    No statement replaces rows in every database. So Spark writes those of a micro-batch to a table beside it, and one transaction
    takes out of the table what it has of them and adds them: whenever it is killed, the next start repeats that.
    """

    def check(self) -> None:
        if not self.options.get("url", "").startswith("jdbc:") or self.options.get("query"):
            hint = "{url: 'jdbc:mysql://host/base', dbtable: '{query}', driver: CLASS}"
            raise SchemaError(f"a table by JDBC has a url and a dbtable\n  hint: {hint}")

    @property
    def where(self) -> str:
        return self.options.get("dbtable", "{query}")  # the URL may hold a password

    def refuse(self, spark: SparkSession, name: str) -> None:
        if not hasattr(spark, "_jvm"):
            raise PlanError(
                f"the sink {name!r}: a table by JDBC is written by the driver, which Spark Connect does not show\n"
                "  hint: run the pipeline where the driver is, or write to files"
            )

    def write(self, frame: DataFrame, *inside: str) -> None:
        from pyspark.sql import functions as F  # noqa: N812

        number = inside[-1].rpartition("=")[2]
        table = self.where.replace("{query}", inside[0] if len(inside) > 1 else "rows")
        keyed = MATCH_ID in frame.columns
        frame = frame if keyed else frame.withColumn("batch", F.lit(number))
        frame = frame.select(*(_as_plain(field.name, field.dataType) for field in frame.schema))
        options = dict(self.options)
        if not keyed:  # texts may be of a type that cannot be compared
            options["createTableColumnTypes"] = ", ".join(filter(None, [options.get("createTableColumnTypes"), _BATCH_TYPE]))
        with _by_jdbc(frame.sparkSession, {**options, "dbtable": table}) as (connection, quoted, is_there):
            if not is_there:
                _written(_emptied(frame), options, table, "append")
            _written(frame, options, table + _ARRIVING, "overwrite")
            columns = ", ".join(quoted(name) for name in frame.columns)
            known = quoted(MATCH_ID if keyed else "batch")
            these = f"IN (SELECT {known} FROM {table}{_ARRIVING})" if keyed else f"= '{number}'"  # noqa: S608 - as below
            connection.setAutoCommit(False)
            statement = connection.createStatement()
            statement.executeUpdate(f"DELETE FROM {table} WHERE {known} {these}")  # noqa: S608 - names of the file and of the query
            statement.executeUpdate(f"INSERT INTO {table} ({columns}) SELECT {columns} FROM {table}{_ARRIVING}")  # noqa: S608
            connection.commit()


def _written(frame: DataFrame, options: Mapping[str, str], table: str, mode: str) -> None:
    frame.write.mode(mode).format("jdbc").options(**{**options, "dbtable": table}).save()


def _emptied(frame: DataFrame) -> DataFrame:
    """Its columns without rows; any of them may be null in a later micro-batch, if not in this one."""
    from pyspark.sql.types import StructField, StructType

    return frame.sparkSession.createDataFrame([], StructType([StructField(each.name, each.dataType) for each in frame.schema]))


def _as_plain(name: str, kind: DataType) -> Column:
    """A column as databases have them: what is made of others is JSON, an interval a text."""
    from pyspark.sql import functions as F  # noqa: N812

    written = kind.simpleString()
    if written.startswith(("struct", "array", "map")):
        return F.to_json(column(name)).alias(name)
    return column(name).cast("string").alias(name) if written.startswith("interval") else column(name)


@contextmanager
def _by_jdbc(spark: SparkSession, options: Mapping[str, str]) -> Iterator[tuple[Any, Callable[[str], str], bool]]:
    """A connection of the driver, how it writes names, and whether the table is there; Spark finds the class for it."""
    jvm: Any = spark._jvm
    ours = jvm.org.apache.spark.sql.execution.datasources.jdbc
    chosen = ours.JdbcOptionsInWrite(jvm.PythonUtils.toScalaMap(options))
    dialect = jvm.org.apache.spark.sql.jdbc.JdbcDialects.get(options["url"])
    connection = dialect.createConnectionFactory(chosen).apply(-1)
    try:
        yield connection, dialect.quoteIdentifier, ours.JdbcUtils.tableExists(connection, chosen)
    finally:
        if not connection.getAutoCommit():
            connection.rollback()  # of what was not committed; some databases close no connection before
        connection.close()


# ---------------------------------------------------------------- alarms


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A POST that is sent elsewhere becomes a GET without its rows, with our headers: it is an answer like others that are no."""

    def redirect_request(self, *_: Any) -> None:
        return None


_POSTS = urllib.request.build_opener(_NoRedirects)


class Webhook(Outlet):
    """Rows as JSON lists, by POST. A refusal that may pass (a server that is down or busy) is tried again a few times."""

    def check(self) -> None:
        if not re.match(r"https?://", self.options.get("url", "")):
            raise SchemaError("a webhook has the url that rows are sent to\n  hint: {url: 'https://host/alarm'}")

    @property
    def where(self) -> str:
        return self.options["url"].partition("?")[0]

    def write(self, frame: DataFrame, *inside: str) -> None:
        for number, rows in enumerate(_pieces(frame)):
            body = json.dumps({"from": " ".join(inside[:-1]), "batch": inside[-1].rpartition("=")[2], "rows": rows}).encode()
            self._post(body, "/".join((*inside, str(number))))

    def _post(self, body: bytes, name: str) -> None:
        headers = {"Content-Type": "application/json", "Idempotency-Key": name}
        headers |= {key[8:]: value for key, value in self.options.items() if key.startswith("headers.")}
        for attempt in range(TRIES):
            if attempt:
                time.sleep(PAUSE * 2 ** (attempt - 1))
            request = urllib.request.Request(self.options["url"], body, headers)  # noqa: S310 - http and https alone, above
            try:
                with _POSTS.open(request, timeout=PATIENCE):
                    return
            except urllib.error.HTTPError as error:
                why = f"it answered {error.code}"
                if error.code < 500 and error.code not in (408, 425, 429):
                    break
            except OSError as error:
                why = str(getattr(error, "reason", error))
        raise DataError(f"the webhook {self.where} has not taken its rows: {why}")


class Command(Outlet):
    """Rows as JSON lines, on the standard input of a program that must end well."""

    def check(self) -> None:
        try:
            words = shlex.split(self.options.get("command", ""))
        except ValueError:  # a quotation without an end
            words = []
        if not words:
            raise SchemaError("a command is a program with its arguments\n  hint: {command: 'notify --channel alarms'}")

    @property
    def where(self) -> str:
        return shlex.split(self.options["command"])[0]

    def write(self, frame: DataFrame, *inside: str) -> None:
        for rows in _pieces(frame):
            lines = "".join(json.dumps(row) + "\n" for row in rows)
            words = shlex.split(self.options["command"])
            done = subprocess.run(words, input=lines, text=True, capture_output=True, check=False)  # noqa: S603 - what the file says
            if done.returncode:
                said = (done.stderr.strip().splitlines() or ["nothing"])[-1]
                raise DataError(f"the command {words[0]!r} ended with {done.returncode} and said {said!r}")


def _some(rows: Iterable[Row]) -> Iterator[list[Row]]:
    each = iter(rows)
    while some := list(islice(each, ROWS_AT_ONCE)):
        yield some


def _pieces(frame: DataFrame) -> Iterator[list[Any]]:
    """Rows as they are in JSON, some at a time, so that the driver never holds all of them."""
    from pyspark.sql import functions as F  # noqa: N812

    texts = frame.select(F.to_json(F.struct(*map(column, frame.columns)), {"ignoreNullFields": "false"}).alias("row"))
    for some in _some(texts.toLocalIterator()):
        yield [json.loads(row[0]) for row in some]


_KINDS: Mapping[str, type[Outlet]] = {"postgres": Postgres, "jdbc": Jdbc, "webhook": Webhook, "command": Command}
