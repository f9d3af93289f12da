"""A SQL statement, taken apart: what stands around MATCH_RECOGNIZE clauses and SEQUBE(...) is another engine's, these are ours.

Each of them, with the table it stands behind, becomes a *step*, and a name in its place; the statement that is left is plain SQL.
A step says which table it is over, as SQL that sees the same names as the step did: with the common table expressions around it,
which sqlglot knows. Places in clauses are places in the whole statement.

Cost: for each step, linear in the text, and a parse of the statement where it has common table expressions; so steps are limited.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from seqube.errors import Problem, QueryError
from seqube.extras import need
from seqube.language.tokens import place, refuse_halves

_PIECES = re.compile(
    r"""(?P<string>'(?:[^']|'')*')|(?P<quoted>"(?:[^"]|"")*"|`(?:[^`]|``)*`)|(?P<comment>--[^\n]*|/\*.*?\*/)"""
    r"""|(?P<word>[^\W\d]\w*)|(?P<number>\d[\w.]*)|(?P<arrow>=>)|(?P<space>\s+)|(?P<other>.)""",
    re.DOTALL,
)
_BEFORE_TABLES = frozenset({"FROM", "JOIN", "LATERAL"})
_VIEW = re.compile(r"\s*create\s+(or\s+replace\s+)?((global\s+)?temp(orary)?\s+)?view\b", re.IGNORECASE)
_OPTIONS = ("type", "time", "unit")
_STEP = "seqube_step_"
MOST_STEPS = 100


def all_of(table: str, columns: str = "*") -> str:
    """A query for the rows of a table, or of a query in parentheses; it is the user's own SQL."""
    return f"SELECT {columns} FROM {table}"  # noqa: S608


@dataclass(frozen=True, slots=True)
class SqlStep:
    """A clause, or a query of our own, and the table it is over."""

    name: str  # what stands in its place
    table: str  # SQL: a name, or a query in parentheses
    clause: str = ""  # the statement with everything outside the clause blanked out, and numbers for its sub-queries
    source: str = ""  # the statement
    query: str = ""  # of SEQUBE(table, 'query')
    options: tuple[tuple[str, str], ...] = ()
    queries: tuple[str, ...] = ()  # the sub-queries of the clause

    def queried(self, statement: Statement) -> list[str]:
        """The sub-queries in its expressions, each as a query that can be run alone: they see what the table sees."""
        return [f"{_with(statement, self)}{all_of(f'({query})')}" for query in self.queries]

    def input(self, statement: Statement) -> str:
        """The rows it is over, as a query that can be run alone."""
        return f"{_with(statement, self)}{all_of(self.table)}"


@dataclass(frozen=True, slots=True)
class Statement:
    """Plain SQL, and the steps that some of its names stand for."""

    text: str
    steps: tuple[SqlStep, ...]
    dialect: str
    is_explained: bool = False

    def needed(self, sql: str) -> list[SqlStep]:
        """The steps whose names stand in some SQL."""
        return [step for step in self.steps if re.search(rf"\b{step.name}\b", sql)]


def read_statement(text: str, dialect: str) -> Statement:
    """Take a statement apart; `dialect` is that of the engine around it, by sqlglot's name for it."""
    need("sql")
    refuse_halves(text, "statement")
    explained = re.match(r"\s*explain\b", text, re.IGNORECASE)
    return _Splitter(text, explained.end() if explained else 0).split(dialect, explained is not None)


@dataclass(frozen=True, slots=True)
class _Piece:
    kind: str
    text: str
    start: int
    end: int

    def says(self, *words: str) -> bool:
        return self.kind in ("word", "other") and self.text.upper() in words


class _Splitter:
    def __init__(self, text: str, begin: int) -> None:
        self.text, self.begin = text, begin
        found = (_Piece(str(piece.lastgroup), piece[0], piece.start(), piece.end()) for piece in _PIECES.finditer(text))
        self.pieces = [piece for piece in found if piece.kind not in ("space", "comment")]
        self.steps: list[SqlStep] = []
        clauses = [piece for piece, after in pairwise(self.pieces) if after.says("(") and piece.says("MATCH_RECOGNIZE", "SEQUBE")]
        if len(clauses) > MOST_STEPS:
            raise self.fail(f"there are more than {MOST_STEPS} clauses of ours", clauses[MOST_STEPS], "write several statements")

    def split(self, dialect: str, explained: bool) -> Statement:
        rest = self._rendered(self.begin, len(self.text.rstrip().rstrip(";")))
        if self.steps and _VIEW.match(rest):
            hint = {"spark": "sqs.sql('SELECT ...').createOrReplaceTempView('name')"}.get(
                dialect, "CREATE TABLE name AS SELECT ..."
            )
            raise self.fail(
                "a view is asked anew each time, and the rows of clauses are gone by then", self.pieces[0], f"write {hint}"
            )
        return Statement(rest, tuple(self.steps), dialect, explained)

    def fail(self, message: str, at: _Piece, hint: str | None = None) -> QueryError:
        return QueryError(Problem(message, place(self.text, at.start, len(at.text)), hint), self.text)

    def _rendered(self, start: int, end: int) -> str:
        """The text from `start` to `end` with a name in the place of every step."""
        written, at = [], start
        for begin, stop, make in self._outermost(start, end):
            written += [self.text[at:begin], make()]
            at = stop
        return "".join([*written, self.text[at:end]])

    def _outermost(self, start: int, end: int) -> Iterator[tuple[int, int, Any]]:
        """Steps that stand in no table of another: where each begins and ends, and what makes it."""
        found: list[tuple[int, int, Any]] = []
        for number, piece in enumerate(self.pieces):
            opens = number + 1 < len(self.pieces) and self.pieces[number + 1].says("(")
            if piece.start < start or piece.end > end or not opens:
                continue
            if piece.says("MATCH_RECOGNIZE"):
                first, last = self._table_before(number)
                close = self._closing(number + 1)
                found.append((self.pieces[first].start, self.pieces[close].end, self._clause(number, first, last, close)))
            elif piece.says("SEQUBE"):
                close = self._closing(number + 1)
                found.append((piece.start, self.pieces[close].end, self._query(number, close)))
        reached = start
        for begin, stop, make in sorted(found, key=lambda each: (each[0], -each[1])):
            if begin >= reached:
                yield begin, stop, make
                reached = stop

    def _closing(self, opening: int) -> int:
        depth = 0
        for number in range(opening, len(self.pieces)):
            depth += {"(": 1, ")": -1}.get(self.pieces[number].text, 0) if self.pieces[number].kind == "other" else 0
            if depth == 0:
                return number
        raise self.fail("this parenthesis is not closed", self.pieces[opening], "is a ')' missing?")

    def _opening(self, closing: int) -> int:
        depth = 0
        for number in range(closing, -1, -1):
            depth += {")": 1, "(": -1}.get(self.pieces[number].text, 0) if self.pieces[number].kind == "other" else 0
            if depth == 0:
                return number
        raise self.fail("this parenthesis was not opened", self.pieces[closing], "is a '(' missing?")

    def _is_name(self, number: int) -> bool:
        return (
            number >= 0 and self.pieces[number].kind in ("word", "quoted") and not self.pieces[number].says(*_BEFORE_TABLES, "AS")
        )

    def _table_before(self, number: int) -> tuple[int, int]:
        """The first and last piece of the table before a clause, with the alias that it may have."""
        last = number - 1
        first = self._primary(last, number)
        before = self.pieces[first - 1] if first > 0 else None
        if before is not None and before.says("AS"):
            first = self._primary(first - 2, number)
        elif before is not None and (before.says(")") or self._is_name(first - 1)):
            first = self._primary(first - 1, number)
        return first, last

    def _primary(self, last: int, number: int) -> int:
        """The first piece of a name, of a query in parentheses, or of a name with parentheses behind it."""
        if last < 0 or not (self._is_name(last) or self.pieces[last].says(")")):
            raise self.fail(
                "MATCH_RECOGNIZE stands behind no table", self.pieces[number], "write FROM trades MATCH_RECOGNIZE (...)"
            )
        first = last
        if self.pieces[last].says(")"):
            first = self._opening(last)
            if not self._is_name(first - 1):
                return first
            first -= 1
        while first >= 2 and self.pieces[first - 1].says(".") and self._is_name(first - 2):
            first -= 2
        return first

    def _add(self, step: SqlStep) -> str:
        self.steps.append(step)
        return step.name

    def _name(self) -> str:
        return f"{_STEP}{len(self.steps) + 1}"

    def _clause(self, number: int, first: int, last: int, close: int) -> Any:
        def make() -> str:
            table = self._rendered(self.pieces[first].start, self.pieces[last].end)
            begin, end = self.pieces[number + 1].end, self.pieces[close].start
            written: list[str] = []
            queries: list[str] = []
            at = begin
            for opening, closing in self._sub_queries(number + 2, close):
                inside = self.text[self.pieces[opening].end : self.pieces[closing].start]
                written += [
                    self.text[at : self.pieces[opening].start],
                    f"(?{len(queries)}{_blank(inside)[len(str(len(queries))) + 1 :]})",
                ]
                queries.append(self._rendered(self.pieces[opening].end, self.pieces[closing].start))
                at = self.pieces[closing].end
            clause = f"{_blank(self.text[:begin])}{''.join(written)}{self.text[at:end]}{_blank(self.text[end:])}"
            return self._add(SqlStep(self._name(), table, clause, self.text, queries=tuple(queries)))

        return make

    def _sub_queries(self, begin: int, end: int) -> Iterator[tuple[int, int]]:
        """The parentheses of the outermost sub-queries between two pieces."""
        number = begin
        while number < end:
            if self.pieces[number].says("(") and self.pieces[number + 1].says("SELECT", "WITH"):
                closing = self._closing(number)
                yield number, closing
                number = closing
            number += 1

    def _query(self, number: int, close: int) -> Any:
        def make() -> str:
            arguments = self._arguments(number + 1, close)
            word = self.pieces[number]
            if len(arguments) < 2 or [piece.kind for piece in arguments[1]] != ["string"]:
                raise self.fail(
                    "SEQUBE takes a table and a query in quotes", word, "write SEQUBE(trades, 'SEQ(A a, B b) WITHIN 5 min')"
                )
            table, query, *options = arguments
            if table[0].says("TABLE") and len(table) > 2:  # as Spark's functions over tables have it
                table = table[2:-1]
            rendered = self._rendered(table[0].start, table[-1].end)
            if table[0].says("SELECT", "WITH"):
                rendered = f"({rendered})"
            read = [self._option(option) for option in options]
            return self._add(SqlStep(self._name(), rendered, query=_unquoted(query[0].text), options=tuple(read)))

        return make

    def _arguments(self, opening: int, closing: int) -> list[list[_Piece]]:
        arguments: list[list[_Piece]] = [[]]
        depth = 0
        for piece in self.pieces[opening + 1 : closing]:
            depth += {"(": 1, ")": -1}.get(piece.text, 0)
            if depth == 0 and piece.says(","):
                arguments.append([])
            else:
                arguments[-1].append(piece)
        return [argument for argument in arguments if argument]

    def _option(self, pieces: list[_Piece]) -> tuple[str, str]:
        if len(pieces) != 3 or pieces[0].text not in _OPTIONS or pieces[1].kind != "arrow" or pieces[2].kind != "string":
            known = ", ".join(f"{name} => '...'" for name in _OPTIONS)
            raise self.fail("this is no option of SEQUBE", pieces[0], f"there are {known}")
        return pieces[0].text, _unquoted(pieces[2].text)


def _blank(text: str) -> str:
    """As many blanks, in as many lines."""
    return re.sub(r"[^\n]", " ", text)


def _unquoted(text: str) -> str:
    return text[1:-1].replace("''", "'")


# ---------------------------------------------------------------- common table expressions


def _with(statement: Statement, step: SqlStep) -> str:
    """The common table expressions that a step sees, as the start of a query."""
    if not re.search(r"\bwith\b", statement.text, re.IGNORECASE) and not any(
        "with" in each.table.lower() for each in statement.steps
    ):
        return ""
    seen = _scope(statement, step.name)
    return f"WITH {', '.join(seen)} " if seen else ""


def _scope(statement: Statement, name: str) -> list[str]:
    """What a name sees, where it stands: in the statement, or in the table of another step, which sees what is around that."""
    import sqlglot

    for holder, sql in ((None, statement.text), *((step, all_of(step.table)) for step in statement.steps)):
        if not re.search(rf"\b{name}\b", sql):
            continue
        try:
            tree = sqlglot.parse_one(sql, read=statement.dialect)
        except sqlglot.errors.SqlglotError:
            continue  # the engine around it says what is wrong, in its own words
        except RecursionError:
            raise QueryError(Problem("the statement is nested too deeply", None, "put parts of it into views"), sql) from None
        node: Any = next((table for table in tree.find_all(sqlglot.exp.Table) if table.name == name), None)
        around = _scope(statement, holder.name) if holder is not None else []
        found: list[str] = []
        while node is not None:
            parent = node.parent
            held = parent.args.get("with_") if parent is not None else None
            if isinstance(parent, sqlglot.exp.With):
                before = parent.expressions[: parent.expressions.index(node)]
                found = [each.sql(statement.dialect) for each in before] + found
            elif held is not None and held is not node:
                found = [each.sql(statement.dialect) for each in held.expressions] + found
            node = parent
        return [*around, *found]
    return []
