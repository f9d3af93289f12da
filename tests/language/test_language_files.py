"""Files of queries: names, line numbers, mistakes."""

from __future__ import annotations

import pytest

from seqube.errors import QueryError
from seqube.language import check, parse, parse_file

FILE = """\
-- Two queries about instruments.

-- name: hygiene
PATTERN SEQ(Recycle r, Wash w)
WITHIN 1 hour

--  Name :  second one
SEQ(A, B) WHERE A.x = '
-- name: inside a string
' WITHIN 5 -- name: not at the start of a line
"""


def failure(text: str) -> QueryError:
    with pytest.raises(QueryError) as caught:
        parse_file(text)
    return caught.value


def test_one_query_without_a_name() -> None:
    assert parse_file("-- a comment\nSEQ(A, B) WITHIN 5\n") == {"query": parse("SEQ(A, B) WITHIN 5")}


def test_several_queries() -> None:
    queries = parse_file(FILE)
    assert list(queries) == ["hygiene", "second one"]
    assert queries["hygiene"] == parse("SEQ(Recycle r, Wash w) WITHIN 1 hour")
    assert parse_file(FILE.replace("\n", "\r\n"))["hygiene"] == queries["hygiene"]


def test_mistakes_of_all_queries_have_their_lines_in_the_file() -> None:
    text = "-- name: one\nSEQ(A a, a.x = b.x) WITHIN 5\n\n-- name: two\nSEQ(A a)\nWITHIN\n-- name: three\nA WITHIN 5"
    error = failure(text)
    assert [(problem.message, problem.at.line, problem.at.column) for problem in error.problems if problem.at] == [
        ("there is no variable 'b'", 2, 16),
        ("the query ends too early: expected a length of time after 'WITHIN'", 6, 7),
    ]
    assert "SEQ(A a, a.x = b.x)" in str(error)


def test_a_mistake_found_later_still_points_into_the_file() -> None:
    query = parse_file("-- name: one\nA WITHIN 5\n-- name: two\nA WHERE A.y = 3 WITHIN 5")["two"]
    with pytest.raises(QueryError) as caught:
        check(query, {"type": "string", "ts": "time", "x": "number"})
    assert (caught.value.line, caught.value.column) == (4, 9)
    assert "A WHERE A.y = 3 WITHIN 5" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message", "line", "column", "hint"),
    [
        (
            "-- name: one\nA WITHIN 5\n-- name: one\nB WITHIN 5",
            "two queries are called 'one' (the first in line 1)",
            3,
            1,
            "give one another name",
        ),
        (
            "-- name: one\n-- name: two\nB WITHIN 5",
            "there is no query under the name 'one'",
            1,
            1,
            "write it below, or remove this line",
        ),
        (
            "-- name: one\nA WITHIN 5\n  -- name: two\n-- soon\n",
            "there is no query under the name 'two'",
            3,
            3,
            "write it below, or remove this line",
        ),
        ("-- name:\nA WITHIN 5", "a query without a name", 1, 1, "write the name after the colon: -- name: hygiene"),
        (
            "-- all\nA WITHIN 5\n-- name: two\nB WITHIN 5",
            "a query stands before the first '-- name:' line",
            2,
            1,
            "give it a name of its own",
        ),
        ("", "the query is empty", 1, 1, "a query starts with its pattern: PATTERN SEQ(A a, B b) WITHIN 10 min"),
    ],
)
def test_mistakes(text: str, message: str, line: int, column: int, hint: str) -> None:
    error = failure(text)
    assert (error.problems[0].message, error.line, error.column, error.hint) == (message, line, column, hint)
