"""SQL with row patterns: MATCH_RECOGNIZE, and queries of our own, in statements that DuckDB runs.

    statement ──► steps (language) ──► each: its table by DuckDB, the clause by the engine, its rows under a name ──► DuckDB

Cost: what DuckDB takes for the tables and the statement, and the clauses (`engine.rows`). Only the columns that a clause needs are
read. Invariant: a statement means what it would if DuckDB had the clause; unless a connection is given, it sees what was handed in
and nothing else: no files, no network, no variables of Python.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from seqube.arguments import checked
from seqube.engine.limits import Limits
from seqube.errors import DataError, Problem, QueryError, did_you_mean
from seqube.events.schema import sql_kind_of
from seqube.events.sources import load
from seqube.language.parser import in_order
from seqube.language.rows.binder import bind_clause
from seqube.language.rows.parser import draft_clause
from seqube.language.rows.statement import SqlStep, Statement, all_of, read_statement
from seqube.language.tokens import place
from seqube.plan.rows import RowPlan, explain_rows, plan_rows
from seqube.threads import read_threads

_INTERVAL = np.dtype([("months", np.int32), ("days", np.int32), ("nanoseconds", np.int64)])  # as Arrow has it
_MOST_DAYS = 106_000_000  # which are microseconds of 64 bits, with any nanoseconds beside them


@checked
def sql(text: str, *, limits: Limits | None = None, connection: Any = None, threads: int | None = None, **tables: Any) -> pa.Table:
    """Run a SQL statement that may hold MATCH_RECOGNIZE clauses and queries of our own, and give a PyArrow table.

    - `text`: the statement. `FROM SEQUBE(trades, 'SEQ(A a, B b) WITHIN 5 min')` is a query of our own in the place of a table.
      With EXPLAIN before it, the table says how each clause is run.
    - `tables`: what the names in it stand for: PyArrow tables, pandas or polars frames, or paths of files.
    - `limits`: what each clause may use.
    - `connection`: a connection of DuckDB, whose tables and views can be named too, and files where it may read them. Without one
      a statement sees `tables` alone.
    - `threads`: as for `run`; those of a clause share its partitions.

    >>> trades = pa.table({"ts": [1, 2, 3, 4], "price": [12, 9, 7, 11]})
    >>> found = sq.sql('''
    ...     SELECT low, ended FROM trades MATCH_RECOGNIZE (
    ...       ORDER BY ts MEASURES LAST(down.price) AS low, LAST(up.ts) AS ended
    ...       PATTERN (strt down+ up+) DEFINE down AS price < PREV(price), up AS price > PREV(price))''', trades=trades)
    >>> found.to_pylist()
    [{'low': 7, 'ended': 4}]
    """
    statement = read_statement(text, "duckdb")
    import duckdb

    if connection is None:  # by itself DuckDB reads and writes any file that a statement names
        connection = duckdb.connect(config={"enable_external_access": "false"})
    database = _Database(connection, duckdb, read_threads(threads))
    try:
        for name, data in tables.items():
            try:
                database.register(name, _known_to_duckdb(load(data, "")[0]))
            except DataError as problem:
                raise DataError(f"table {name!r}: {problem}") from None
        if statement.is_explained:
            plans = [database.plan(step, statement) for step in statement.steps if step.clause]
            told = [explain_rows(plan, "partitions: on all threads" if plan.clause.partition_by else "") for plan in plans]
            return pa.table({"plan": pa.array(told, pa.string())})
        return database.answer(statement, limits or Limits())
    finally:
        database.forget()


def plan_step(step: SqlStep, columns: pa.Schema, queried: Sequence[Sequence[Any]] | None = None) -> RowPlan:
    """A clause, bound to the columns of its table and to what its sub-queries gave, and planned."""
    kinds = {field.name: sql_kind_of(field.type) for field in columns}
    return plan_rows(bind_clause(step.clause, kinds, step.source, queried))


def check_clauses(text: str, tables: Mapping[str, pa.Schema]) -> None:
    """Raise what is wrong with the clauses of a statement, as far as it can be told without running it.

    Names of columns are looked at where a clause stands directly behind one of the tables.
    """
    statement = read_statement(text, "duckdb")
    for step in statement.steps:
        if step.clause and step.input(statement) == all_of(step.table) and step.table in tables:
            plan_step(step, tables[step.table])
        elif step.clause:
            problems = draft_clause(step.clause).problems
            if problems:
                raise QueryError(in_order(problems), step.source)


class _Database:
    """DuckDB, with the rows of steps under their names."""

    def __init__(self, connection: Any, duckdb: Any, threads: int) -> None:
        self._connection, self._duckdb, self._threads = connection, duckdb, threads
        self._known: dict[str, pa.Table] = {}

    def register(self, name: str, table: pa.Table) -> None:
        _refuse_long_durations(table)
        self._connection.register(name, table)
        self._known[name] = table

    def forget(self) -> None:
        """The connection may be the caller's: nothing of ours stays in it."""
        for name in self._known:
            self._connection.unregister(name)

    def answer(self, statement: Statement, limits: Limits) -> pa.Table:
        self._make(statement, statement.text, limits)
        return self._rows(statement.text)

    def plan(self, step: SqlStep, statement: Statement) -> RowPlan:
        self._make(statement, step.input(statement), Limits())
        return plan_step(step, self._schema(step.input(statement)), self._queried(step, statement, Limits()))

    def _queried(self, step: SqlStep, statement: Statement, limits: Limits) -> list[list[Any]]:
        """What the sub-queries of a clause give: the values of their one column."""
        answers = []
        for number, sql in enumerate(step.queried(statement)):
            self._make(statement, sql, limits)
            found = self._rows(sql)
            if found.num_columns != 1:
                at = place(step.source, step.clause.index(f"(?{number} "), len(step.queries[number]) + 2)
                wrong = f"a sub-query in a clause gives one column, and this one {found.num_columns}"
                raise QueryError(Problem(wrong, at, "choose one of them"), step.source)
            answers.append(found.column(0).to_pylist())
        return answers

    def _make(self, statement: Statement, sql: str, limits: Limits) -> None:
        """The rows of the steps that some SQL names."""
        for step in statement.needed(sql):
            if step.name not in self._known:
                self._make(statement, step.input(statement), limits)
                self.register(step.name, self._step(step, statement, limits))

    def _step(self, step: SqlStep, statement: Statement, limits: Limits) -> pa.Table:
        wanted = step.input(statement)
        if step.query:
            from seqube.query import run

            options: Any = dict(step.options)
            return run(step.query, self._rows(wanted), limits=limits, threads=self._threads, **options).to_native()
        from seqube.engine.rows.clause import match_rows, needed_columns

        if wanted == all_of(step.table) and step.table in self._known:  # it is at hand, and DuckDB would copy it
            table = self._known[step.table]
            plan = plan_step(step, table.schema, self._queried(step, statement, limits))
        else:
            plan = plan_step(step, self._schema(wanted), self._queried(step, statement, limits))
            names = ", ".join('"' + name.replace('"', '""') + '"' for name in needed_columns(plan))
            table = self._rows(all_of(f"({wanted})", names or "1 AS nothing"))
        return match_rows(plan, table, limits, self._threads)

    def _schema(self, sql: str) -> pa.Schema:
        return self._rows(all_of(f"({sql}) LIMIT 0")).schema

    def _rows(self, sql: str) -> pa.Table:
        try:
            found = self._connection.sql(sql)
            return pa.table({}) if found is None else _with_durations(found.to_arrow_table())
        except self._duckdb.CatalogException as error:
            message = str(error)
            name = message.partition("Table with name ")[2].partition(" ")[0]
            hint = did_you_mean(name, self._known) or "give it by name: sq.sql(text, trades=table)"
            raise DataError(f"there is no table {name!r}\n  hint: {hint}") from None if name else error
        except self._duckdb.PermissionException as error:
            hint = "hand files in by name: trades='trades.csv' (--table trades=trades.csv), or give a connection that may do this"
            raise QueryError(Problem(str(error), hint=hint)) from None
        except self._duckdb.Error as error:
            raise QueryError(Problem(str(error))) from None


def _known_to_duckdb(table: pa.Table) -> pa.Table:
    """Columns of types that DuckDB has not, as the nearest that it has."""
    for number, field in enumerate(table.schema):
        kind, column = field.type, table.column(number)
        if pat.is_float16(kind):
            column = column.cast(pa.float32())
        elif pat.is_decimal256(kind):
            try:
                column = column.cast(pa.decimal128(38, kind.scale))
            except (pa.ArrowInvalid, ValueError):
                hint = "cast it to decimal128(38, ...), to float64 or to a string"
                raise DataError(f"column {field.name!r} has decimals of more than 38 digits\n  hint: {hint}") from None
        table = table if column.type == kind else table.set_column(number, field.name, column)
    return table


def _refuse_long_durations(table: pa.Table) -> None:
    """DuckDB gives intervals back in nanoseconds of 64 bits, and one that is longer as another one, without a word."""
    for field, column in zip(table.schema, table.columns, strict=True):
        if pat.is_duration(field.type):
            longest = (2**63 - 1) // {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}[field.type.unit]
            bounds = pc.min_max(column.cast(pa.int64())).as_py()
            if bounds["min"] is not None and (bounds["min"] < -longest or bounds["max"] > longest):
                wrong = f"column {field.name!r} has durations of more than 292 years, which DuckDB does not keep"
                raise DataError(f"{wrong}\n  hint: give it as a number, of seconds or days")


def _with_durations(table: pa.Table) -> pa.Table:
    """DuckDB's intervals as durations, where they are: without months, whose length nobody knows. A day has 24 hours."""
    for number, field in enumerate(table.schema):
        if field.type == pa.month_day_nano_interval():
            column = table.column(number).combine_chunks()
            parts = np.frombuffer(column.buffers()[1] or b"", _INTERVAL)[column.offset : column.offset + len(column)]
            null = np.asarray(column.is_null()).astype(np.bool_)  # where anything may stand
            if not parts["months"][~null].any():
                if np.any(np.abs(parts["days"][~null].astype(np.int64)) > _MOST_DAYS):
                    raise DataError(f"column {field.name!r} has intervals of more than 292,000 years")
                lengths = parts["days"] * np.int64(86_400_000_000) + parts["nanoseconds"] // 1_000
                durations = pa.array(lengths, pa.duration("us"), mask=null)
                table = table.set_column(number, field.name, durations)
    return table
