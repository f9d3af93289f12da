"""Long, deep and odd texts: they work, or there is a clear error; never a crash."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from seqube.errors import QueryError
from seqube.language import parse, parse_file
from seqube.language.tree import Among, AnyOf, Or, Seq


def outcome(read: Callable[[str], object], text: str) -> QueryError | None:
    try:
        read(text)
    except QueryError as error:
        return error
    return None


def failure(text: str) -> QueryError:
    with pytest.raises(QueryError) as caught:
        parse(text)
    return caught.value


@pytest.mark.parametrize(
    "text",
    [
        "SEQ(" * 101 + "A" + ")" * 101 + " WITHIN 5",
        "SEQ(A a, !" * 5_000 + "B" + ")" * 5_000 + " WITHIN 5",
        "A WHERE " + "NOT " * 5_000 + "A.x WITHIN 5",
        "A WHERE A.x = " + "- " * 5_000 + "A.x WITHIN 5",
        "A WHERE " + "(A.y OR A.z AND " * 5_000 + "A.x" + ")" * 5_000 + " WITHIN 5",
        "A WITHIN 5 RETURN " + "(A.y + " * 5_000 + "A.x" + ")" * 5_000,
        "A WITHIN 5 AGG COUNT(*) GROUP BY " + "UPPER(" * 5_000 + "A.x" + ")" * 5_000,
    ],
)
def test_deep_nesting_is_a_clear_error(text: str) -> None:
    error = failure(text)
    assert error.problems[0].message == "the query is nested more than 100 levels deep"
    assert error.line == 1
    assert error.hint is not None


def test_long_sums_are_a_clear_error() -> None:
    assert "more than 100 terms" in failure("A WHERE A.x = 1" + " + A.x" * 5_000 + " WITHIN 5").problems[0].message
    assert parse("A WHERE A.x = 1" + " + A.x" * 97 + " WITHIN 5")


def test_nesting_below_the_limit_works() -> None:
    text = "SEQ(" * 98 + "A" + ")" * 98 + " WITHIN 5"
    assert parse(str(parse(text))) == parse(text)
    text = "A WHERE " + "NOT " * 95 + "A.x WITHIN 5"
    assert parse(str(parse(text))) == parse(text)


def test_redundant_parentheses_cost_nothing() -> None:
    assert parse("A WHERE " + "(" * 5_000 + "A.x" + ")" * 5_000 + " WITHIN 5") == parse("A WHERE A.x WITHIN 5")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(" * 100_000, "the query ends too early: expected an event type, SEQ, AND or OR after '('"),
        ("SEQ(" * 50_000, "the query ends too early: expected an event type or a predicate after '('"),
        ("!" * 5_000 + "A WITHIN 5", "a negation of a negation"),
        ("SEQ(A, " + "!" * 5_000, "the query ends too early: expected an event type or a predicate after '!'"),
        ("A WHERE A.x = '" + "''" * 50_000, "this string is not closed"),
        (")" * 100_000, "unexpected ')'"),
    ],
)
def test_unfinished_nesting(text: str, message: str) -> None:
    assert failure(text).problems[0].message == message


def test_long_lists_work() -> None:
    (among,) = parse(f"A WHERE A.x IN ({', '.join(map(str, range(100_000)))}) WITHIN 5").where
    assert isinstance(among, Among)
    assert len(among.values) == 100_000
    (either,) = parse(f"A WHERE {' OR '.join(['A.x = 1'] * 2_000)} WITHIN 5").where
    assert isinstance(either, AnyOf)
    assert len(either.parts) == 2_000
    assert len(parse(f"A WHERE {' AND '.join(['A.x = 1'] * 5_000)} WITHIN 5").where) == 5_000
    assert len(parse(f"A WHERE {' = '.join(['A.x'] * 5_000)} WITHIN 5").where) == 4_999
    pattern = parse(f"OR({', '.join(['A'] * 2_000)}) WITHIN 5").pattern
    assert isinstance(pattern, Or)
    assert pattern.parts[1_999].variable == "A_2000"  # type: ignore[union-attr]
    assert isinstance(parse(f"SEQ({', '.join(f'A a{i}' for i in range(2_000))}) WITHIN 5").pattern, Seq)


def test_text_that_is_too_long() -> None:
    error = failure("A WITHIN 5" + " " * 1_000_000)
    assert error.problems[0].message == "the query has 1,000,010 characters; the limit is 1,000,000"
    assert parse("A WITHIN 5" + " " * 999_990).window.length == 5


def test_a_million_characters_of_one_thing() -> None:
    assert parse(f"{'A' * 900_000} WITHIN 5")
    assert parse(f"A WHERE A.x = '{'x' * 900_000}' WITHIN 5")
    assert "64 bits" in failure(f"A WHERE A.x = {'9' * 900_000} WITHIN 5").problems[0].message
    assert "64 bits" in failure(f"A WITHIN {'9' * 900_000}").problems[0].message
    assert "too long" in failure(f"A WITHIN {'9' * 900_000} s").problems[0].message


@pytest.mark.parametrize(
    ("text", "message", "column"),
    [
        ("A WHERE A.x = 'a\0' WITHIN 5", "the query contains a NUL character", 17),
        ("A WHERE A.x = '\ud800' WITHIN 5", "the query contains half of a character (a lone surrogate)", 16),
        ("A\u200b WITHIN 5", "unexpected character '\\u200b'", 2),
        ("A \N{PILE OF POO} WITHIN 5", "unexpected character '💩'", 3),
        ("A WHERE A.x = 18446744073709551616 WITHIN 5", "this number does not fit into 64 bits", 15),
        ("SEQ(A{" + "9" * 5_000 + "} a, B b) WITHIN 5", "a part is repeated at most 1,000,000 times, or any number of times", 6),
        ("A WITHIN " + "0" * 5_000 + "9223372036854775808", "this number does not fit into 64 bits", 10),
        ("A WHERE A.x IN (1, -9223372036854775809) WITHIN 5", "this number does not fit into 64 bits", 20),
        ("A WITHIN 5 AGG COUNT GROUP BY A.x + 18446744073709551616", "this number does not fit into 64 bits", 37),
        ("A WHERE A.x = 1e999 WITHIN 5", "this number is too large for a float", 15),
        ("A WHERE A.x = 99999999999 days WITHIN 5", "this duration is too long", 15),
    ],
)
def test_odd_characters_and_numbers(text: str, message: str, column: int) -> None:
    error = failure(text)
    assert (error.problems[0].message, error.line, error.column) == (message, 1, column)


def test_only_text_is_parsed() -> None:
    with pytest.raises(TypeError, match="text is a bytes, where str is expected"):
        parse(b"A WITHIN 5")  # type: ignore[arg-type]


def test_strings_hold_any_character() -> None:
    text = "A WHERE A.x = '\U0001f600\u202e\n\t\u0301' WITHIN 5"
    assert parse(str(parse(text))) == parse(text)


# fmt: off
WORDS = [
    "PATTERN", "SEQ", "AND", "OR", "NOT", "!", "(", "(", ")", ")", "[", "]", ",", ",", ".", "A", "a", "B", "b", "a.x", "b.y",
    "A.x", "=", "==", "!=", "<", ">=", "+", "-", "*", "/", "%", "1", "2.5", "1e3", "10", "min", "5", "EVENTS", "'x'", '"y"',
    "`z`", "IN", "BETWEEN", "IS", "NULL", "TRUE", "WHERE", "PARTITION", "BY", "GROUP", "GROUPBY", "AGG", "COUNT", "COUNT(*)",
    "SUM(a.x)", "HAVING", "WITHIN", "EMIT", "ON", "TRIGGER", "EVERY", "TOTAL", "RETURN", "AS", ";", "--", "\n", "'", '"', "#",
    "é",
]
# fmt: on


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(WORDS), max_size=25).map(" ".join) | st.text(max_size=30))
@example("")
@example("\n")
def test_any_text_parses_or_is_a_query_error(text: str) -> None:
    for read in (parse, parse_file):
        error = outcome(read, text)
        assert error is None or (error.problems and "Token(" not in str(error))


def test_damaged_queries_parse_or_are_a_query_error() -> None:
    good = (
        "PATTERN SEQ(A a, !B b, OR(C c, D d), a.x = b.x) WHERE a.y IN (1, 2) AND [id] "
        "WITHIN 1h30m AGG COUNT(*), SUM(a.x) AS s EMIT EVERY 5 min"
    )
    assert outcome(parse, good) is None
    chance = random.Random(7)
    for _ in range(500):
        cut, length = chance.randrange(len(good)), chance.randrange(1, 8)
        damaged = good[:cut] + chance.choice(["", "(", ")", "'", '"', "--", " AND ", ",", "."]) + good[cut + length :]
        error = outcome(parse, damaged)
        assert error is None or error.line is not None
