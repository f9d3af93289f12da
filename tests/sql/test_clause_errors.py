"""What the clause refuses: each with its place, and several at once."""

# ruff: noqa: E501 - a case is a line

from __future__ import annotations

from datetime import timedelta

import pyarrow as pa
import pytest

import seqube as sq
from seqube.errors import QueryError
from seqube.language.rows.binder import bind_clause

TABLE = pa.table({"n": [1, 2], "price": [1.0, 2.0], "name": ["a", "b"], "tags": [[1], [2]]})


def refused(clause: str) -> QueryError:
    with pytest.raises(QueryError) as caught:
        sq.sql(f"SELECT *\nFROM t MATCH_RECOGNIZE (\n{clause}\n)", t=TABLE)
    return caught.value


MISTAKES = [
    ("ORDER BY n PATTERN (a) DEFINE a AS prise > 1", "there is no column 'prise'", 36),
    ("ORDER BY n PATTERN (a) DEFINE b AS price > 1", "'B' is not in the pattern", 31),
    ("ORDER BY n PATTERN (a) DEFINE a AS c.price > 1", "there is no variable 'C' in the pattern", 36),
    ("ORDER BY n PATTERN (a) DEFINE a AS price > 1, a AS price > 2", "'A' is defined twice", 47),
    ("ORDER BY n PATTERN (a) DEFINE a AS a > 1", "'a' is a variable of the pattern", 36),
    ("ORDER BY n PATTERN (a) DEFINE a AS name > 1", "is compared with", 36),
    ("ORDER BY n PATTERN (a) DEFINE a AS price + name > 1", "a string in a calculation", 36),
    ("ORDER BY n PATTERN (a) DEFINE a AS price", "a number is not a condition", 36),
    ("ORDER BY n PATTERN (a) DEFINE a AS FINAL LAST(price) > 1", "FINAL in DEFINE", 36),
    ("ORDER BY n PATTERN (a) DEFINE a AS PREV(FINAL LAST(price)) > 1", "FINAL in DEFINE", 41),
    ("ORDER BY n PATTERN (a) DEFINE a AS LAST(PREV(price)) > 1", "PREV inside LAST", 41),
    ("ORDER BY n PATTERN (a) DEFINE a AS PREV(PREV(price)) > 1", "PREV inside PREV", 41),
    ("ORDER BY n PATTERN (a) DEFINE a AS FIRST(LAST(price)) > 1", "LAST inside FIRST", 42),
    ("ORDER BY n PATTERN (a) DEFINE a AS SUM(AVG(price)) > 1", "aggregates do not nest", 40),
    ("ORDER BY n PATTERN (a) DEFINE a AS SUM(PREV(price)) > 1", "PREV inside SUM", 40),
    ("ORDER BY n PATTERN (a) DEFINE a AS LAST(SUM(price)) > 1", "SUM inside LAST", 41),
    ("ORDER BY n PATTERN (a) DEFINE a AS PREV(price, -1) > 1", "a whole number of rows that is not negative", 48),
    ("ORDER BY n PATTERN (a) DEFINE a AS PREV(price, n) > 1", "a whole number of rows that is not negative", 48),
    ("ORDER BY n PATTERN (a) DEFINE a AS PREV(1) > 1", "of a value that is of no row", 36),
    ("ORDER BY n PATTERN (a b) DEFINE b AS PREV(a.price + b.price) > 1", "of a value of several variables", 38),
    ("ORDER BY n PATTERN (a b) DEFINE b AS SUM(a.price + price) > 1", "of a value of several variables", 38),
    ("ORDER BY n PATTERN (a) DEFINE a AS SUM(name) > 1", "SUM of a string", 36),
    ("ORDER BY n PATTERN (a) DEFINE a AS SUM(*) > 1", "only COUNT takes", 36),
    ("ORDER BY n PATTERN (a) DEFINE a AS CLASSIFIER(z) = 'A'", "there is no variable 'Z' in the pattern", 47),
    ("ORDER BY n PATTERN (a) DEFINE a AS CLASSIFIER(1) = 'A'", "CLASSIFIER takes a variable, or nothing", 36),
    ("ORDER BY n PATTERN (a) DEFINE a AS MATCH_NUMBER(1) = 1", "MATCH_NUMBER takes nothing", 36),
    ("ORDER BY n PATTERN (a) DEFINE a AS RUNNING PREV(price) = 1", "RUNNING PREV has no meaning", 36),
    ("ORDER BY n PATTERN (a) DEFINE a AS NOSUCH(price) = 1", "there is no function 'NOSUCH'", 36),
    ("ORDER BY n PATTERN (a) DEFINE a AS tags = 1", "nested values or intervals of months cannot be compared", 36),
    ("ORDER BY m PATTERN (a)", "there is no column 'm'", 10),
    ("PARTITION BY zone ORDER BY n PATTERN (a)", "there is no column 'zone'", 14),
    ("PARTITION BY tags ORDER BY n PATTERN (a)", "PARTITION BY needs values that compare", 1),
    ("ORDER BY n", "the clause has no PATTERN", None),
    ("ORDER BY n PATTERN (a) PATTERN (b)", "given twice", 24),
    ("ORDER BY n PATTERN (a{3,1})", "at least 3 and at most 1 rows", 22),
    ("ORDER BY n PATTERN (a{0})", "a part that takes no row at all", 22),
    ("ORDER BY n PATTERN (a{20000})", "repeated at most 10,000 times", 22),
    ("ORDER BY n PATTERN (a |)", "cannot stand here", 24),
    ("ORDER BY n PATTERN (a)", "the clause gives no column", 12),
    ("ORDER BY n PATTERN (a) SUBSET s = (a, b)", "there is no variable 'B' in the pattern", 39),
    ("ORDER BY n PATTERN (a b) SUBSET a = (a, b)", "'A' is a variable of the pattern already", 33),
    ("ORDER BY n PATTERN (a b) SUBSET s = (a), s = (b)", "the subset 'S' is defined twice", 42),
    ("ORDER BY n PATTERN (a b) SUBSET s = (a) DEFINE s AS price > 1", "'S' is a subset", 48),
    ("ORDER BY n AFTER MATCH SKIP TO LAST z PATTERN (a)", "there is no variable 'Z' in the pattern", 37),
    ("ORDER BY n ALL ROWS PER MATCH WITH UNMATCHED ROWS PATTERN (a {- b -})", "leaves rows out", 65),
    ("ORDER BY n MEASURES price PATTERN (a)", "a measure has no name", 21),
    ("ORDER BY n MEASURES price AS p, n AS P PATTERN (a)", "'P' is a measure already", 38),
    ("PARTITION BY name ORDER BY n MEASURES price AS Name PATTERN (a)", "'Name' is a column of the result", 48),
    ("ORDER BY n MEASURES price AS name ALL ROWS PER MATCH PATTERN (a)", "'name' is a column of the result", 30),
    ("PATTERN (a) WITHIN 5", "WITHIN measures along ORDER BY", 13),
    ("ORDER BY name PATTERN (a) WITHIN 5", "have no distance", 27),
    ("ORDER BY n PATTERN (a) WITHIN INTERVAL '5' MINUTE", "WITHIN takes a number above zero", 24),
    ("ORDER BY n PATTERN (a) DEFINE a AS price > INTERVAL '2' MONTH", "this interval is not understood", 44),
    ("ORDER BY n MEASURES * AS x PATTERN (a)", "cannot stand here", 21),
    ("ORDER BY n MEASURES COUNT(DISTINCT *) AS x PATTERN (a)", "cannot stand here", 36),
    ("ORDER BY n INITIAL PATTERN (a)", "cannot stand here", 12),
    ("ORDER BY n MEASURES t.price AS p PATTERN (a)", "there is no variable 'T' in the pattern", 21),
    ("ORDER BY n MEASURES MATCH_NUMBER AS p PATTERN (a)", "there is no column 'MATCH_NUMBER'", 21),
    ("ORDER BY n MEASURES EVERY(price) AS p PATTERN (a)", "EVERY of a number", 21),
    ("ORDER BY n MEASURES LISTAGG(name) AS p PATTERN (a)", "LISTAGG takes two values", 21),
    ("ORDER BY n MEASURES LISTAGG(name, name) AS p PATTERN (a)", "puts a text between values", 35),
    ("ORDER BY n MEASURES MAX_BY(a.n, b.n) AS p PATTERN (a b)", "of a value of several variables", 21),
    ("ORDER BY n MEASURES MAX_BY(n, tags) AS p PATTERN (a b)", "cannot be compared", 31),
    ("ORDER BY n MEASURES MAX_BY(DISTINCT n, n) AS p PATTERN (a b)", "DISTINCT changes nothing", 21),
    ("ORDER BY n MEASURES SUM(tags) AS p PATTERN (a)", "SUM of nested values", 21),
    ("ORDER BY n MEASURES ARRAY_AGG(DISTINCT tags) AS p PATTERN (a)", "which do not compare", 21),
    ("ORDER BY n MEASURES FIRST(MATCH_NUMBER()) AS p PATTERN (a)", "of a value that is of no row", 21),
    ("ORDER BY n MEASURES (SELECT n FROM t) AS p PATTERN (a)", "gives more than one row", 21),
    ("ORDER BY n MEASURES (SELECT n, n FROM t) AS p PATTERN (a)", "gives one column, and this one 2", 21),
    ("ORDER BY n MEASURES (SELECT tags FROM t LIMIT 1) AS p PATTERN (a)", "this sub-query gives a list", 21),
    ("ORDER BY n MEASURES (SELECT 170141183460469231731687303715884105727) AS p PATTERN (a)", "gives a number beyond 64 bits", 21),
]

# What the grammar does not take, and what the hint says of it.
OUT_OF_PLACE = [
    ("MEASURES FINAL ABS(n) AS p PATTERN (a)", "'ABS' cannot stand here", "RUNNING and FINAL stand before"),
    ("MEASURES ARRAY_AGG(n ORDER BY n) AS p PATTERN (a)", "'ORDER' cannot stand here", "in the order of the match"),
    ("MEASURES SUM(n) FILTER (n > 1) AS p PATTERN (a)", "'FILTER' cannot stand here", "FILTER (WHERE a.x > 1)"),
    ("MEASURES ARRAY_AGG(n) FILTER (WHERE n > 1) AS p PATTERN (a)", "ARRAY_AGG takes no FILTER", "CASE WHEN"),
    ("MEASURES LAST(n) FILTER (WHERE n > 1) AS p PATTERN (a)", "LAST takes no FILTER", "behind aggregates"),
    (
        "MEASURES COUNT(a.*) FILTER (WHERE n > 1) AS p PATTERN (a)",
        "rows of A looks at others",
        "columns of the rows that are counted",
    ),
    ("MEASURES FIRST(DISTINCT n) AS p PATTERN (a)", "DISTINCT stands in aggregates", "COUNT(DISTINCT a.x)"),
    ("MEASURES n = ARRAY[1] AS p PATTERN (a)", "there is no function 'ARRAY'", "arrays stand beside ARRAY_AGG"),
    ("MEASURES ARRAY_AGG(DISTINCT n) = ARRAY[1] AS p PATTERN (a)", "there is no function 'ARRAY'", "arrays stand beside ARRAY_AGG"),
    ("MEASURES LPAD(name, 3) AS p PATTERN (a)", "there is no function 'LPAD'", "FROM (SELECT *, LPAD(...) AS x FROM t)"),
    ("MEASURES SUM(DATEDIFF(n, n)) AS p PATTERN (a)", "there is no function 'DATEDIFF'", "a time minus a time is a duration"),
    ("MEASURES CURRENT_TIMESTAMP AS p PATTERN (a)", "there is no column 'CURRENT_TIMESTAMP'", "(SELECT CURRENT_TIMESTAMP)"),
    ("MEASURES CHAR_LENGTH(name, 1) AS p PATTERN (a)", "CHAR_LENGTH does not take 2 arguments", "LENGTH(s)"),
    ("MEASURES IF(n) AS p PATTERN (a)", "IF does not take 1 arguments", "write IF"),
    ("MEASURES CONCAT_WS(name, name) AS p PATTERN (a)", "CONCAT_WS puts a text between values", "CONCAT_WS(', ', a.x, a.y)"),
    ("MEASURES ARRAY_JOIN(name, ',') AS p PATTERN (a)", "only what ARRAY_AGG lists can be joined", "LISTAGG"),
    ("MEASURES RIGHT(name, n) AS p PATTERN (a)", "RIGHT takes how many characters", "RIGHT(s, 3)"),
    ("MEASURES LOWER(name FROM 2) AS p PATTERN (a)", "LOWER takes values with commas", "LOWER(a.x"),
    ("MEASURES name LIKE 'a!%' ESCAPE '!' AS p PATTERN (a)", "'ESCAPE' cannot stand here", "takes the next character as it is"),
    ("MEASURES SUM(n) OVER () AS p PATTERN (a)", "'OVER' cannot stand here", "around the clause"),
    ("MEASURES n p PATTERN (a)", "'p' cannot stand here", "measures are values with names"),
    ("ORDER BY n + 1 PATTERN (a)", "'+' cannot stand here", "only columns stand here"),
    ("PARTITION BY lower(name) PATTERN (a)", "lower(...) cannot stand here", "only columns stand here"),
    ("AFTER MATCH SKIP PAST FIRST ROW PATTERN (a)", "'FIRST' cannot stand here", "PAST LAST ROW, TO NEXT ROW"),
    ("ONE ROW PER MATCH SHOW EMPTY MATCHES PATTERN (a)", "'SHOW' cannot stand here", "perhaps with SHOW EMPTY MATCHES"),
    ("PATTERN (a {- b)", "')' cannot stand here", "a pattern is made of variables"),
    ("PATTERN (a) DEFINE a AS n > 1 b AS n > 2", "'b' cannot stand here", "commas between them"),
    ("PATTERN (a) SUBSET s = ()", "')' cannot stand here", "SUBSET s = (a, b)"),
    ("PATERN (a)", "'PATERN' cannot stand here", "did you mean 'PATTERN'?"),
]


@pytest.mark.parametrize(("clause", "message", "hint"), OUT_OF_PLACE)
def test_what_is_out_of_place_gets_a_hint_of_its_own(clause: str, message: str, hint: str) -> None:
    (problem,) = refused(clause).problems
    assert problem.at is not None
    assert message in problem.message
    assert hint in (problem.hint or "")


@pytest.mark.parametrize(("clause", "message", "column"), MISTAKES)
def test_mistakes_are_named_with_their_place(clause: str, message: str, column: int | None) -> None:
    error = refused(clause)
    assert message in str(error)
    if column is not None:
        assert (error.line, error.column) == (3, column)
        assert error.problems[0].hint or "string in a" in message or "takes a number" in message


def test_a_name_that_could_be_several_columns() -> None:
    with pytest.raises(QueryError, match="'KIND' could be any of the columns Kind, kind"):
        bind_clause("MEASURES kind AS k PATTERN (a) DEFINE a AS KIND = 'x'", {"Kind": "string", "kind": "string"})


def test_all_mistakes_are_shown_at_once() -> None:
    error = refused("ORDER BY m MEASURES z.price AS p PATTERN (a b) DEFINE a AS prise > 1, c AS TRUE")
    assert [problem.message for problem in error.problems] == [
        "there is no column 'm'", "there is no variable 'Z' in the pattern", "there is no column 'prise'", "'C' is not in the pattern",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("clause", "messages"),
    [
        (
            "ORDER BY n MEASURES n p, LAST(prise) AS q, FOO(n) AS z ONE ROW PER PATTERN (a b) DEFINE a AS n >, b AS prise > 1, c AS n",
            [
                "'p' cannot",
                "no column 'prise'",
                "no function 'FOO'",
                "missing behind 'PER'",
                "missing behind '>'",
                "no column 'prise'",
                "'C' is not",
            ],
        ),
        (
            "ORDER BY n + 1 AFTER MATCH SKIP PAST FIRST ROW PATTERN (a{3,1}) SUBSET s = () DEFINE a AS n > INTERVAL '2' MONTH",
            ["'+' cannot", "'FIRST' cannot", "at least 3", "')' cannot", "this interval"],
        ),
        ("PATTERN (a | ) DEFINE a AS n >, b AS > 1, c AS prise > 1", ["')' cannot", "missing behind '>'", "'>' cannot"]),
        ("PATERN (a) DEFINE a AS > 1", ["'PATERN' cannot", "'>' cannot"]),
        ("MEASURES 'x, n AS k PATTERN (a)", ["this string is not closed"]),
        # Words of clauses that are names here, and mistakes inside of brackets, quotes and comments.
        (
            "MEASURES n AS measures, n AS within, MAX(n, ) AS k, n AS one PATTERN (a) DEFINE a AS n >",
            ["')' cannot", "missing behind '>'"],
        ),
        ("MEASURES n + AS k, 'PATTERN (' AS l /* DEFINE a AS */, m AS \"ORDER BY\" PATTERN (a)", ["'k' cannot", "no column 'm'"]),
    ],
)
def test_mistakes_of_the_grammar_are_shown_at_once_too(clause: str, messages: list[str]) -> None:
    told = [problem.message for problem in refused(clause).problems]
    assert len(told) == len(messages), told
    assert all(message in problem for message, problem in zip(messages, told, strict=True)), told
    assert all(problem.at and problem.hint for problem in refused(clause).problems)


def test_a_long_clause_with_a_mistake_is_not_read_without_end() -> None:
    many = ", ".join(f"n AS m{k}" for k in range(5_000))
    (problem,) = refused(f"MEASURES n +, {many} PATTERN (a)").problems
    assert "'+'" in problem.message or "missing behind '+'" in problem.message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT * FROM nothing", "there is no table 'nothing'"),
        ("SELECT nothing FROM t", "nothing"),
        ("SELECT * FROM t MATCH_RECOGNIZE (PATTERN (a)", "this parenthesis is not closed"),
        ("SELECT * FROM MATCH_RECOGNIZE (PATTERN (a))", "stands behind no table"),
        ("CREATE OR REPLACE TEMP VIEW v AS SELECT * FROM t MATCH_RECOGNIZE (MEASURES n AS m PATTERN (a))", "a view is asked anew"),
        ("SELECT * FROM SEQUBE(t)", "SEQUBE takes a table and a query"),
        ("SELECT * FROM SEQUBE(t, 'SEQ(A a, B b) WITHIN 5', kind => 'x')", "no option of SEQUBE"),
        ("SELECT * FROM t MATCH_RECOGNIZE (ALL ROWS PER MATCH PATTERN (PERMUTE(a,b,c,d,e,f,g,h,i,j,k)))", "too large"),
    ],
)
def test_statements_that_are_wrong(text: str, message: str) -> None:
    with pytest.raises(sq.SequbeError, match=message):
        sq.sql(text, t=TABLE)


def test_backtracking_stands_under_the_limits() -> None:
    rows = pa.table({"n": range(60), "x": [1.0] * 60})
    text = "SELECT * FROM t MATCH_RECOGNIZE (ORDER BY n MEASURES COUNT(*) AS k PATTERN ((a | b)+ c) DEFINE c AS COUNT(a.*) > 1000)"
    with pytest.raises(sq.LimitError, match="max_seconds"):
        sq.sql(text, t=rows, limits=sq.Limits(max_seconds=0.3))


def test_durations_that_duckdb_does_not_keep_are_refused() -> None:
    rows = pa.table({"ts": pa.array([1, 2], pa.timestamp("us"))})
    clause = "SELECT n FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES (SELECT INTERVAL {} DAYS) AS n PATTERN (a))"
    kept = sq.sql(clause.format(106_751), t=rows)
    assert kept.column("n").to_pylist() == [timedelta(days=106_751)] * 2
    with pytest.raises(sq.DataError, match="column 'n' has durations of more than 292 years"):
        sq.sql(clause.format(106_752), t=rows)
    with pytest.raises(sq.DataError, match="has intervals of more than 292,000 years"):
        sq.sql(clause.format(999_999_999), t=rows)
