"""Syntax errors: what is said, where, and what to do."""

from __future__ import annotations

import pyarrow as pa
import pytest

import seqube as sq
from seqube.errors import QueryError
from seqube.language import parse

START = "a query starts with its pattern: PATTERN SEQ(A a, B b) WITHIN 10 min"
QUOTES = "strings take single quotes: 'foo'"
SPECIAL = 'a name with special characters takes double quotes: "ER-Triage"'
DOT = 'a name with a dot in it takes double quotes: a."b..."; what is in a struct is made a column first'
STRAIGHT = "strings take straight single quotes: 'A'"
ONE = "one query at a time; a file holds several, each headed by a line -- name: hygiene"
CLOSE = "end it with a single quote; a quote inside a string is written twice: 'it''s'"
TYPES = "there are BIGINT, DOUBLE, DECIMAL, STRING, BOOLEAN, TIMESTAMP"


@pytest.mark.parametrize(
    ("text", "message", "line", "column", "hint"),
    [
        ("", "the query is empty", 1, 1, START),
        (" -- nothing\n ;", "the query is empty", 1, 1, START),
        ("SEQ(A a, B b", "the query ends too early: expected ',' or ')' after 'b'", 1, 13, "is a ')' missing?"),
        ("SEQ(A) WITHIN", "the query ends too early: expected a length of time after 'WITHIN'", 1, 14, None),
        ("A WHERE A.x = 3 AND -- more\n", "the query ends too early: expected a value after 'AND'", 1, 20, None),
        ("SEQ(A a B b) WITHIN 5", "expected ',' or ')' after 'a', found 'B'", 1, 9, "is a comma missing before it?"),
        ("SEQ(A,) WITHIN 5", "expected an event type or a predicate after ',', found ')'", 1, 7, None),
        ("SEQ() WITHIN 5", "expected an event type or a predicate after '(', found ')'", 1, 5, None),
        (
            "SEQ(A a,\n a.x = 3 C c) WITHIN 5",
            "expected an operator, ',' or ')' after '3', found 'C'",
            2,
            10,
            "is a comma missing before it?",
        ),
        ("SEQ(A a)) WITHIN 5", "expected a clause such as WITHIN after ')', found ')'", 1, 9, None),
        ("SEQ(A a) 5 min", "expected a clause such as WITHIN after ')', found '5 min'", 1, 10, "a window is written WITHIN 5 min"),
        ("SEQ(A a) WITHN 5 min", "expected a clause such as WITHIN after ')', found 'WITHN'", 1, 10, "did you mean WITHIN?"),
        ("WHERE a.x = 3 PATTERN A", "WHERE stands before the pattern", 1, 8, START),
        ("SEQUENCE(A) WITHIN 5", "there is no operator or function 'SEQUENCE'", 1, 1, None),
        ("SEQ(A, XOR(B)) WITHIN 5", "there is no operator or function 'XOR'", 1, 8, "did you mean OR?"),
        ("A WITHIN 5 AGG SUMM(A.x)", "there is no function 'SUMM'", 1, 16, "did you mean SUM?"),
        ('SEQ(A a, a.x = "foo") WITHIN 5', '"foo" is a name, not a string', 1, 16, QUOTES),
        (
            "SEQ(A a, a.x = foo) WITHIN 5",
            "'foo' has no variable",
            1,
            16,
            "write whose it is: a.foo; a string takes single quotes: 'foo'",
        ),
        ("A WHERE A.x IN (foo) WITHIN 5", "IN takes plain values, not 'foo'", 1, 17, QUOTES + "; join comparisons with OR"),
        ("A WHERE A.x IN () WITHIN 5", "expected a value after '(', found ')'", 1, 17, None),
        (
            "A WHERE A.x IN (5 min) WITHIN 5",
            "IN takes plain values: numbers, strings, TRUE, FALSE, NULL",
            1,
            17,
            "join comparisons with OR instead",
        ),
        ("A WHERE A.x = 'foo WITHIN 5", "this string is not closed", 1, 15, CLOSE),
        ('A WHERE "foo WITHIN 5', "this name is not closed", 1, 9, "end it with a double quote; strings take single quotes: 'A'"),
        ("A WHERE `foo WITHIN 5", "this name is not closed", 1, 9, "end it with a backtick"),
        ("A WHERE A.x = ‘foo’ WITHIN 5", "‘ is a typographic quote", 1, 15, STRAIGHT),
        ("A WHERE A.x && A.y WITHIN 5", "'&' is not an operator", 1, 13, "write AND"),
        ("A WHERE A.x | A.y WITHIN 5", "'|' is not an operator", 1, 13, "write OR"),
        ("A WHERE A.x || A.y WITHIN 5", "a string is not a condition", 1, 9, "|| puts texts behind each other: write OR"),
        ("A WHERE hour(A.ts) = 9 WITHIN 5", "there is no function 'hour'", 1, 9, "EXTRACT(HOUR FROM A.ts)"),
        ("A WHERE rond(A.x) = 9 WITHIN 5", "there is no function 'rond'", 1, 9, "did you mean ROUND?"),
        ("A WHERE xyzzy(A.x) = 9 WITHIN 5", "there is no function 'xyzzy'", 1, 9, None),
        ("A WHERE ROUND() = 9 WITHIN 5", "ROUND does not take 0 arguments", 1, 9, "write ROUND(x1[, x2])"),
        ("A WHERE ABS(A.x, 2) = 9 WITHIN 5", "ABS does not take 2 arguments", 1, 9, "write ABS(x)"),
        ("A WHERE CAST(A.x AS blob) = 9 WITHIN 5", "there is no type 'blob' to make of a value", 1, 21, TYPES),
        ("A # all\nWITHIN 5", "unexpected character '#'", 1, 3, "comments start with --"),
        ("A WHERE A.x /* all */ WITHIN 5", "'/*' does not start a comment", 1, 14, "comments start with --"),
        ("SEQ(ER-Triage) WITHIN 5", "expected a variable, ',' or ')' after 'ER', found '-'", 1, 7, SPECIAL),
        ("A WHERE a.b.c = 3 WITHIN 5", "expected an operator or a clause such as WITHIN after 'b', found '.'", 1, 12, DOT),
        ("A WITHIN 10 hurs", "'hurs' is not a unit of time", 1, 13, "did you mean 'hours'?"),
        (
            "A WITHIN 1h30",
            "expected a clause such as WITHIN after '1h', found '30'",
            1,
            12,
            "every part of a duration takes a unit: 1h30m",
        ),
        ("A WITHIN 1.5", "a window without a unit must be a whole number", 1, 10, "give it a unit: 1.5 s, 10 min, 2 days"),
        ("A WITHIN -5 min", "a length of time cannot be negative", 1, 11, None),
        (
            "A WITHIN 1.5 us",
            "this duration is not a whole number of microseconds",
            1,
            10,
            "microseconds are the finest time there is",
        ),
        ("A WITHIN 9223372036854775808", "this number does not fit into 64 bits", 1, 10, None),
        (
            "A WHERE A.x > WITHIN 5",
            "a value is missing before WITHIN",
            1,
            15,
            None,
        ),
        (
            "A WHERE A.x > 3, A.y > 4 WITHIN 5",
            "expected an operator or a clause such as WITHIN after '3', found ','",
            1,
            16,
            "join predicates with AND",
        ),
        ("A WHERE A.x BETWEEN 3 WITHIN 5", "expected AND after '3', found 'WITHIN'", 1, 23, None),
        ("A WHERE A.x IS 3 WITHIN 5", "expected NULL after 'IS', found '3'", 1, 16, None),
        ("A WHERE A.x NOT 3 WITHIN 5", "expected IN or BETWEEN after 'NOT', found '3'", 1, 17, None),
        ("A WHERE [id WITHIN 5", "expected ',' or ']' after 'id', found 'WITHIN'", 1, 13, None),
        ("A WITHIN 5 GROUP A.x", "expected BY after 'GROUP', found 'A'", 1, 18, None),
        ("A WITHIN 5 EMIT ALWAYS", "expected ON TRIGGER, EVERY, PER or TOTAL after 'EMIT', found 'ALWAYS'", 1, 17, None),
        (
            "A WITHIN 5 RETURN A.x it",
            "expected an operator, ',', AS or a clause such as WITHIN after 'x', found 'it'",
            1,
            23,
            "a column is named with AS it",
        ),
        ("A WITHIN 5; B WITHIN 5", "expected the end of the query after ';', found 'B'", 1, 13, ONE),
        ("A WHERE 1 < A.x < 5 WITHIN 5", "only = can be chained", 1, 9, "join the comparisons with AND: a < b AND b < c"),
        (
            "A WHERE (A.x = 3) + 4 > 5 WITHIN 5",
            "a condition stands where a value is needed",
            1,
            10,
            "compare values, and join comparisons with AND or OR",
        ),
        ('SEQ(A, "") WITHIN 5', "a name cannot be empty", 1, 8, None),
        (
            "SEQ(A a, a.x = 3, B b) WITHIN 5",
            "a component stands after a predicate",
            1,
            19,
            "inside an operator, components come first, then predicates",
        ),
        ("SEQ(a.x = 3) WITHIN 5", "SEQ has no component", 1, 1, "write event types first: SEQ(A a, B b, a.x = b.x)"),
        ("!A WITHIN 5", "the whole pattern cannot be negated", 1, 1, "negate a component: SEQ(A, !B)"),
        (
            "SEQ(A, NOT !B) WITHIN 5",
            "a negation of a negation",
            1,
            8,
            "one ! is enough; !SEQ(B, !C) negates a sequence that has a negation",
        ),
        ("A WITHIN 5 AGG COUNT(A.x)", "COUNT takes *: it counts matches", 1, 16, "write COUNT(*)"),
        (
            "A WITHIN 5 AGG SUM(x)",
            "SUM takes one attribute of one variable",
            1,
            16,
            "write SUM(v.x), with a variable of the pattern",
        ),
        (
            "A WITHIN 5 AGG SUM(*)",
            "SUM takes one attribute of one variable",
            1,
            16,
            "write SUM(v.x), with a variable of the pattern",
        ),
    ],
)
def test_syntax_errors(text: str, message: str, line: int, column: int, hint: str | None) -> None:
    with pytest.raises(QueryError) as caught:
        parse(text)
    error = caught.value
    assert (error.problems[0].message, error.line, error.column, error.hint) == (message, line, column, hint)
    assert len(error.problems) == 1


def test_the_caret_points_into_the_text() -> None:
    with pytest.raises(QueryError) as caught:
        parse("SEQ(A a,\n    B b C c)\nWITHIN 5")
    assert str(caught.value) == (
        "expected ',' or ')' after 'b', found 'C' (line 2, column 9)\n"
        "      B b C c)\n"
        "          ^\n"
        "  hint: is a comma missing before it?"
    )


# ---------------------------------------------------------------- a first day


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("SEQ(ER Sepsis Triage t, B b) WITHIN 5", 'a name of several words takes double quotes: "ER Sepsis Triage"'),
        ("SEQ(21 a, B b) WITHIN 5", 'a name that begins with a digit takes double quotes: "21"'),
        ("SEQ('ER Triage' t, B b) WITHIN 5", 'a name takes double quotes, single ones are for strings: "ER Triage"'),
        ("SEQ(A a B b) WITHIN 5", "is a comma missing before it?"),
        ("SEQ(A a, B b) WHERE hour(a.ts) = 3 WITHIN 5", "EXTRACT(HOUR FROM a.ts)"),
        ("SEQ(A a, B b) WHERE hour(LEAST(a.ts, b.ts)) = 3 WITHIN 5", "EXTRACT(HOUR FROM ...)"),
        ("SEQ(A a -> B b) WITHIN 5", "parts are separated by commas: SEQ(A a, B b)"),
        ("SEQ(A a; B b) WITHIN 5", "parts are separated by commas: SEQ(A a, B b)"),
        ("(A a, B b) WITHIN 5", "what comes one after the other is written SEQ(A a, B b)"),
        ("SELECT * FROM events", "a query starts with its pattern: PATTERN SEQ(A a, B b) WITHIN 10 min"),
        ("SEQ(A AS a, B AS b) WITHIN 5", "the variable stands right after the type, without AS: A a"),
        ("SEQ(A a, (B b OR C c)) WITHIN 5", "in a pattern OR stands before its parts: OR(A a, B b)"),
        ("SEQ(A a, B|C b) WITHIN 5", "in a pattern OR stands before its parts: OR(A a, B b)"),
        ("SEQ(A a{2}, B b) WITHIN 5", "a quantifier stands right after the type: A{2} a"),
        ("SEQ(A a, B b WHERE a.x = 1 WITHIN 5", "is a ')' missing before it?"),
        ("SEQ(A a, B b) WHERE a.x => 1 WITHIN 5", "write >="),
        ("SEQ(A a, B b) WHERE a.x ~ 'y' WITHIN 5", "write RLIKE"),
        ("SEQ(A a, B b) WHERE a.x IN 'y' WITHIN 5", "values stand in parentheses: IN ('y')"),
        ("SEQ(A a, B b) WHERE LOWER(a.x = 'y' WITHIN 5", "is a ')' missing before it?"),
        ("SEQ(A a, B b) WITHIN 5 RETURN a.x b.x", "is a comma missing before it?"),
        ("SEQ(A a, B b) WITHIN 5 AGG COUNT()", "COUNT(*) counts the matches"),
        ("SEQ(A a, B b) WITHIN INTERVAL '1' HOUR", "a length of time is written 1 hour"),
        ("SEQ(A a, B b) WITHIN 5 AGG MEAN(a.x)", "did you mean AVG?"),
        ("SEQ(A a, B b) WHERE qwertz(a.x) = 1 WITHIN 5", None),
        ("SEQ(A a, B b) WITHIN 5 min LAMIT 5", "did you mean LIMIT?"),
        ("SEQ(A a, B b) WITHIN 5 min SURELY 5", None),
        (
            "SEQ(A a, B b) WHERE a.m.x = 1 WITHIN 5",
            'a name with a dot in it takes double quotes: a."m..."; what is in a struct is made a column first',
        ),
    ],
)
def test_a_hint_is_something_that_then_works(text: str, hint: str | None) -> None:
    with pytest.raises(QueryError) as caught:
        parse(text)
    assert caught.value.hint == hint


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        ("SEQ(A a, B b) WHERE c.x > 1 WITHIN 5 RETURN a.x +", ["there is no variable 'c'", "the query ends too early"]),
        ("SEQ(A a, B b) WHERE a.x > > 1 AGG SUM(d.x) WITHIN 5", ["expected a value after '>'", "there is no variable 'd'"]),
        ("SEQ(A a, B b) WITHIN 5 AGG COUNT(* HAVING COUNT(*) > 1", ["expected"]),
        ("SEQ(A a, B b) WITHIN 5 AGG COUNT(*) + HAVING COUNT(*) > 1", ["value is missing before HAVING"]),
        ("SEQ(A a B b) WHERE c.x > 1 WITHIN 5", ["expected"]),
        ("SEQ(A a, B b) WHERE a.x = 'WITHIN' 5 RETURN q.x WITHIN 5", ["expected", "there is no variable 'q'"]),
    ],
)
def test_a_clause_that_cannot_be_read_does_not_hide_what_is_wrong_in_others(text: str, messages: list[str]) -> None:
    with pytest.raises(QueryError) as caught:
        parse(text)
    assert len(caught.value.problems) == len(messages), str(caught.value)
    for problem, message in zip(caught.value.problems, messages, strict=True):
        assert message in problem.message


@pytest.mark.parametrize(
    ("text", "unread"),
    [
        ("SEQ(A a, B b) WHERE c.x > 1 AND a.x > > 1 WITHIN 5", "clause"),
        ("SEQ(A a, B b, c.x > ) WHERE d.x > 1 WITHIN 5", "query"),
        ("SEQ(A a, B b) WHERE 'c.x' > > 1 WITHIN 5 -- c.x", None),
        ("SEQ(A a B b) WITHIN 5", None),
    ],
)
def test_what_cannot_be_read_says_what_it_may_hide(text: str, unread: str | None) -> None:
    """Names are looked up in what can be read; where there are some that were not, the message says so."""
    with pytest.raises(QueryError) as caught:
        parse(text)
    note = f"note: no other name in this {unread} is looked up until this can be read"
    assert (note in str(caught.value)) is (unread is not None)
    assert [problem.note is None for problem in caught.value.problems] == [unread is None]


def test_a_wrong_name_is_told_once() -> None:
    """That an unknown variable has no such column either, or that a string in double quotes is no column, follows."""
    schema = sq.Events(pa.table({"type": ["A"], "ts": [1], "x": [1]})).schema
    for text in ('SEQ(A a, B b) WHERE a.x = "bob" WITHIN 5', "SEQ(A a, B b) WITHIN 5 RETURN c.y"):
        with pytest.raises(QueryError) as caught:
            parse(text, schema)
        assert len(caught.value.problems) == 1
