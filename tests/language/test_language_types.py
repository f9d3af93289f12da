"""Checking a query against the columns and types the events have."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pytest

from seqube.errors import QueryError
from seqube.language import Kind, check, parse

TIMESTAMPS: dict[str, Kind] = {
    "type": "string",
    "ts": "time",
    "id": "number",
    "price": "number",
    "ward": "string",
    "infused": "boolean",
    "born": "time",
    "stay": "duration",
    "tags": "other",
}
INTEGERS: dict[str, Kind] = {**TIMESTAMPS, "ts": "number"}
ISO = "write times in single quotes as '2024-03-01' or '2024-03-01T08:30:00'"


def problems(
    text: str, schema: Mapping[str, Kind] = TIMESTAMPS, known: Collection[str] | None = None
) -> list[tuple[str, int | None, str | None]]:
    try:
        check(parse(text), schema, known)
    except QueryError as error:
        return [(problem.message, problem.at.column if problem.at else None, problem.hint) for problem in error.problems]
    return []


@pytest.mark.parametrize(
    "predicate",
    [
        "a.price * 2 > b.id - 1",
        "a.ward = b.type",
        "a.ward < 'M' AND a.ward IN ('A', NULL)",
        "a.infused AND NOT b.infused AND a.infused = TRUE",
        "a.ts > '2024-03-01' AND a.ts BETWEEN '2024-03-01T08:30:00' AND '2024-03-02T08:30:00+02:00'",
        "a.born IN ('2024-03-01')",
        "b.ts - a.ts < 10 min AND b.ts - a.ts <= a.stay AND a.stay > 1h",
        "a.ts + 10 min < b.ts AND b.ts - 2 * 5 min > a.ts AND 1 h + a.stay > 2 h - a.stay",
        "(b.ts - a.ts) / 1 s > 5 AND (b.ts - a.ts) * 2 < a.stay / 3 AND -a.stay < 1 s AND a.stay % 1 min = 0 s",
        "a.price = NULL AND a.tags IS NULL",
        "[id] AND [type]",
        "ROUND(a.price, 2) = ABS(b.id) AND LOWER(a.ward) LIKE 'x%' AND EXTRACT(HOUR FROM a.ts) < 9",
        "COALESCE(a.price, 0) > 1 AND COALESCE(a.ts, '2024-03-01') < b.ts AND ABS(b.ts - a.ts) < 5 min",
        "CASE WHEN a.infused THEN a.price ELSE NULL END > 1 AND CAST(a.price AS STRING) || a.ward = 'x'",
        "(a.price > 1) = b.infused AND (a.price > 1) IS NULL AND LEAST(a.stay, 1 h) < b.ts - a.ts",
    ],
)
def test_what_fits(predicate: str) -> None:
    assert problems(f"SEQ(A a, B b) WHERE {predicate} WITHIN 5") == []


@pytest.mark.parametrize(
    "predicate",
    [
        "b.ts - a.ts < 10 min",
        "b.ts - a.ts < 600",
        "a.ts + 10 min < b.ts",
        "a.ts > 1700000000",
        "a.stay < 10 min",
        "b.ts - a.ts < 2 * 10 min",
    ],
)
def test_integer_time_is_a_number(predicate: str) -> None:
    assert problems(f"SEQ(A a, B b) WHERE {predicate} WITHIN 5", INTEGERS) == []


@pytest.mark.parametrize(
    ("predicate", "message", "column", "hint"),
    [
        ("a.pirce > 3", "the events have no column 'pirce'", 21, "did you mean 'price'?"),
        ("a.ward > 3", "a.ward (a string) is compared with a number", 21, "strings are written in single quotes"),
        ("a.price = '3'", "a.price (a number) is compared with a string", 21, "numbers are written without quotes"),
        ("a.price IN (1, 'x', 'y')", "a.price (a number) is compared with a string", 36, "numbers are written without quotes"),
        ("a.price BETWEEN 1 AND 'x'", "a.price (a number) is compared with a string", 21, "numbers are written without quotes"),
        ("a.infused = 1", "a.infused (a boolean) is compared with a number", 21, None),
        ("a.ward", "a string is not a condition", 21, "compare it with something"),
        ("a.price OR a.infused", "a number is not a condition", 21, "compare it with something"),
        ("a.ward + 1 > 2", "a string in a calculation with +", 21, "calculate with numbers, times and durations"),
        ("-a.ward = 2", "minus a.ward (a string)", 21, "only numbers and durations have a sign"),
        ("a.ts > 'soon'", "'soon' is not a date or time", 28, ISO),
        ("a.ts IN ('2024-03-01', '2024-02-31')", "'2024-02-31' is not a date or time", 44, ISO),
        ("a.ts > a.ward", "a.ts (a time) is compared with a.ward (a string)", 21, None),
        ("a.ts > 3", "a.ts (a time) is compared with a number", 21, ISO),
        ("b.ts - a.ts < 3", "a duration is compared with a number", 21, "a length of time takes a unit: 3 s, 3 min"),
        ("a.price < 10 min", "a.price (a number) is compared with a duration", 21, None),
        ("a.ts + 3 > b.ts", "a time + a number has no meaning", 21, "give the number a unit: 10 min"),
        ("a.ts + b.ts > a.ts", "a time + a time has no meaning", 21, "a time minus a time is a duration"),
        ("a.tags = b.tags", "nested or binary values cannot be compared", 21, "only IS NULL and RETURN take them"),
        (
            "[tags]",
            "[tags] needs plain values, and 'tags' holds nested or binary ones",
            22,
            "use a column of numbers, strings or times",
        ),
        ("[idd]", "the events have no column 'idd'", 22, "did you mean 'id'?"),
        ("LOWER(a.price) = 'x'", "LOWER of a.price (a number)", 27, "make it a text: CAST(... AS STRING)"),
        ("ABS(a.ward) = 1", "ABS of a.ward (a string)", 25, "ABS takes numbers or durations"),
        ("a.price LIKE 'x'", "LIKE of a.price (a number)", 21, "make it a text: CAST(... AS STRING)"),
        (
            "a.ward LIKE b.ward",
            "LIKE takes a string in single quotes here, as it stands in the query",
            33,
            "write s [NOT] LIKE 'pattern'",
        ),
        ("ROUND(a.price, b.id) = 1", "ROUND takes a whole number here, as it stands in the query", 36, "write ROUND(x1[, x2])"),
        ("COALESCE(a.price, 'x') IS NULL", "COALESCE of a.price (a number) and a string", 39, "they must be of one kind"),
        ("CASE WHEN a.price THEN 1 END = 1", "a number is not a condition", 31, "compare it with something"),
        ("CASE WHEN TRUE THEN 1 ELSE 'x' END = 1", "CASE of a number and a string", 48, "they must be of one kind"),
        (
            "EXTRACT(SOON FROM a.ts) = 1",
            "EXTRACT knows no 'SOON'",
            29,
            "there are YEAR, QUARTER, MONTH, WEEK, DAY, DOW, DOY, HOUR, MINUTE, SECOND",
        ),
        ("EXTRACT(HOUR FROM a.price) = 1", "EXTRACT of a.price (a number)", 39, "EXTRACT takes times"),
        ("CAST(a.stay AS BIGINT) = 1", "a duration has no unit to be a number in", 21, "divide it by one: (b.ts - a.ts) / 1 s"),
        ("CAST(a.ts AS BIGINT) = 1", "a time cannot be made a BIGINT", 21, "take a part of it: EXTRACT(HOUR FROM a.ts)"),
        ("CAST(a.id AS TIMESTAMP) = a.ts", "a number cannot be made a time", 21, ISO),
        ("UPPER(a.ward) > 3", "a string is compared with a number", 21, "strings are written in single quotes"),
    ],
)
def test_what_does_not_fit(predicate: str, message: str, column: int, hint: str | None) -> None:
    assert problems(f"SEQ(A a, B b) WHERE {predicate} WITHIN 5") == [(message, column, hint)]


def test_integer_times_have_no_calendar() -> None:
    (problem,) = problems("A a WHERE EXTRACT(HOUR FROM a.ts) = 9 WITHIN 5", INTEGERS)
    assert problem[::2] == (
        "EXTRACT of a.ts (a number)",
        "where times are integers they have no calendar: give the events a column of timestamps",
    )


@pytest.mark.parametrize(
    ("clauses", "message", "column", "hint"),
    [
        ("PARTITION BY id, wrad", "the events have no column 'wrad'", 31, "did you mean 'ward'?"),
        (
            "PARTITION BY tags",
            "PARTITION BY needs plain values, and 'tags' holds nested or binary ones",
            27,
            "use a column of numbers, strings or times",
        ),
        ("AGG COUNT GROUP BY a.wrad", "the events have no column 'wrad'", 33, "did you mean 'ward'?"),
        ("AGG SUM(a.ward)", "SUM of a.ward (a string)", 18, "SUM takes numbers or durations"),
        ("AGG AVG(a.ts)", "AVG of a.ts (a time)", 18, "AVG takes numbers or durations"),
        ("AGG MAX(a.ward)", "MAX of a.ward (a string)", 18, "MAX takes numbers, durations or times"),
        ("RETURN a.ward * 2 AS x", "a string in a calculation with *", 21, "calculate with numbers, times and durations"),
        ("RETURN a.wrad", "the events have no column 'wrad'", 21, "did you mean 'ward'?"),
    ],
)
def test_clauses(clauses: str, message: str, column: int, hint: str) -> None:
    assert problems(f"A a WITHIN 5 {clauses}") == [(message, column, hint)]


def test_aggregates_have_kinds() -> None:
    assert (
        problems(
            "A a WITHIN 5 AGG MIN(a.ts) AS first, AVG(a.stay) AS mean HAVING first > '2024-03-01' AND mean > 1 min AND COUNT > 1"
        )
        == []
    )
    assert problems("A a WITHIN 5 AGG SUM(a.price) AS total HAVING total > 1 min") == [
        ("SUM(a.price) (a number) is compared with a duration", 47, None)
    ]


def test_predicates_inside_operators_and_negations_are_checked() -> None:
    found = problems("SEQ(A a, !SEQ(B b, b.ward > 3), a.price = 'x') WITHIN 5")
    assert [message for message, _, _ in found] == [
        "b.ward (a string) is compared with a number",
        "a.price (a number) is compared with a string",
    ]


def test_unknown_types() -> None:
    text = "PATTERN SEQ(Card, Withdrawl, !Recharge) WITHIN 5"
    with pytest.raises(QueryError) as caught:
        check(parse(text), TIMESTAMPS, {"Card", "Withdrawal", "Recharge"})
    assert str(caught.value) == (
        "unknown event type 'Withdrawl' (line 1, column 19)\n"
        "  PATTERN SEQ(Card, Withdrawl, !Recharge) WITHIN 5\n"
        "                    ^^^^^^^^^\n"
        "  hint: did you mean 'Withdrawal'?"
    )
    assert problems(text, known=None) == []


def test_trees_without_a_source_are_checked_too() -> None:
    query = parse(str(parse("A WHERE A.ward > 3 PARTITION BY no WITHIN 5")))
    bare = type(query)(query.pattern, query.window, query.where, query.partition_by)
    with pytest.raises(QueryError) as caught:
        check(bare, TIMESTAMPS)
    assert len(caught.value.problems) == 2


def test_names_and_kinds_are_shown_together() -> None:
    text = "SEQ(A a, B b) WITHIN 5 min WHERE a.idd = 3 AND c.id = 2 AND a.id = 'x'"
    with pytest.raises(QueryError) as caught:
        parse(text, {"type": "string", "ts": "time", "id": "number"})
    problems = caught.value.problems
    assert [problem.at.column for problem in problems if problem.at] == [34, 48, 61]
    assert [word in problem.message for word, problem in zip(("idd", "'c'", "string"), problems, strict=True)] == [True] * 3
