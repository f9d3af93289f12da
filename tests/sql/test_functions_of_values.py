"""Every function of the language in MEASURES and in DEFINE, those of other dialects, FILTER, and lists; answers by hand."""

# ruff: noqa: E501 - a case is a line

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import seqube as sq
from seqube.language.functions import VALUE_FUNCTIONS

N = None
DAY = datetime(2024, 3, 5, 8, 30, 15)  # noqa: DTZ001 - a column without a zone
TABLE = pa.table(
    {"id": [1, 2, 3], "x": [4, -9, None], "s": ["ab", " c ", None], "t": pa.array([DAY, DAY, None], pa.timestamp("us"))}
)


def measured(value: str, pattern: str = "(a b c)") -> list[Any]:
    text = f"SELECT m FROM t MATCH_RECOGNIZE (ORDER BY id MEASURES {value} AS m ALL ROWS PER MATCH PATTERN {pattern} SUBSET u = (a, c))"
    return sq.sql(text, t=TABLE)["m"].to_pylist()


# Of each function, what it gives for the three rows.
EACH: dict[str, tuple[str, list[Any]]] = {
    "CASE": ("CASE WHEN x > 0 THEN 'p' WHEN x < 0 THEN 'q' ELSE 'r' END", ["p", "q", "r"]),
    "COALESCE": ("COALESCE(x, id)", [4, -9, 3]),
    "NULLIF": ("NULLIF(id, 2)", [1, N, 3]),
    "LEAST": ("LEAST(x, id, 2)", [1, -9, 2]),
    "GREATEST": ("GREATEST(x, id)", [4, 2, 3]),
    "IS DISTINCT FROM": ("x IS DISTINCT FROM 4", [False, True, True]),
    "CAST": ("CAST(x AS VARCHAR)", ["4", "-9", N]),
    "ABS": ("ABS(x)", [4, 9, N]),
    "SIGN": ("SIGN(x)", [1, -1, N]),
    "ROUND": ("ROUND(x / 8.0, 1)", [0.5, -1.1, N]),
    "FLOOR": ("FLOOR(x / 8)", [0.0, -2.0, N]),
    "CEIL": ("CEIL(x / 8)", [1.0, -1.0, N]),
    "SQRT": ("SQRT(x)", [2.0, N, N]),
    "EXP": ("EXP(x - x)", [1.0, 1.0, N]),
    "LN": ("LN(x / x)", [0.0, 0.0, N]),
    "LOG10": ("LOG10(10)", [1.0, 1.0, 1.0]),
    "POWER": ("POWER(x, 2)", [16.0, 81.0, N]),
    "MOD": ("MOD(x, 3)", [1, 0, N]),
    "LOWER": ("LOWER('A' || s)", ["aab", "a c ", N]),
    "UPPER": ("UPPER(s)", ["AB", " C ", N]),
    "TRIM": ("TRIM(s)", ["ab", "c", N]),
    "LENGTH": ("LENGTH(s)", [2, 3, N]),
    "SUBSTRING": ("SUBSTRING(s, 2, 1)", ["b", "c", N]),
    "REPLACE": ("REPLACE(s, ' ', '-')", ["ab", "-c-", N]),
    "CONCAT": ("CONCAT(s, CLASSIFIER())", ["abA", " c B", N]),
    "STARTS_WITH": ("STARTS_WITH(s, 'a')", [True, False, N]),
    "ENDS_WITH": ("ENDS_WITH(s, 'b')", [True, False, N]),
    "CONTAINS": ("CONTAINS(s, 'c')", [False, True, N]),
    "LIKE": ("s LIKE '_c%'", [False, True, N]),
    "ILIKE": ("s NOT ILIKE 'A_'", [False, True, N]),
    "RLIKE": ("s RLIKE '^[ab]+$'", [True, False, N]),
    "EXTRACT": ("EXTRACT(HOUR FROM t)", [8, 8, N]),
    "DATE_TRUNC": ("DATE_TRUNC('hour', t)", [DAY.replace(minute=0, second=0)] * 2 + [N]),
}


def test_no_function_is_missing() -> None:
    assert set(EACH) == set(VALUE_FUNCTIONS)


def written(value: Any) -> str:
    if isinstance(value, str):
        return f"'{value}'"
    return f"TIMESTAMP '{value}'" if isinstance(value, datetime) else "NULL" if value is None else str(value).upper()


@pytest.mark.parametrize("name", EACH)
def test_each_is_measured_and_asked(name: str) -> None:
    value, expected = EACH[name]
    assert measured(value) == expected
    # Each row takes the variable whose condition says what its value is: of the row alone, and beside what is bound.
    for bound in ("", " AND COUNT(*) > 0"):
        conditions = ", ".join(
            f"{variable} AS ({value.replace('CLASSIFIER()', repr(variable.upper()))}) IS NOT DISTINCT FROM {written(answer)}{bound}"
            for variable, answer in zip("abc", expected, strict=True)
        )
        text = f"SELECT n FROM t MATCH_RECOGNIZE (ORDER BY id MEASURES COUNT(*) AS n PATTERN (a b c) DEFINE {conditions})"
        assert sq.sql(text, t=TABLE)["n"].to_pylist() == [3]


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("BIGINT", "'12'", 12), ("INTEGER", "1.9", 1), ("SMALLINT", "'x'", N), ("DOUBLE", "'1.5'", 1.5), ("DECIMAL(5, 2)", "1.255", Decimal("1.26")), ("VARCHAR(2)", "'abc'", "ab"),
        ("CHAR(1)", "'abc'", "a"), ("BOOLEAN", "'yes'", True), ("TIMESTAMP", "'2024-03-05 08:30:15'", DAY), ("DATE", "'2024-03-05 08:30:15'", DAY.date()), ("TIME", "'08:30:15'", DAY.time()),
        ("VARBINARY", "'ab'", b"ab"),
    ],
)  # fmt: skip
def test_casts(kind: str, value: str, expected: Any) -> None:
    assert measured(f"CAST({value} AS {kind})") == [expected] * 3


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("CHAR_LENGTH(s)", [2, 3, N]), ("SUBSTR(s, 2)", ["b", "c ", N]), ("CEILING(1.5)", [2.0] * 3), ("POW(x, 2)", [16.0, 81.0, N]), ("NVL(x, 0)", [4, -9, 0]),
        ("IFNULL(s, '-')", ["ab", " c ", "-"]), ("REGEXP_LIKE(s, 'c')", [False, True, N]), ("YEAR(t)", [2024, 2024, N]), ("DAYOFWEEK(t)", [3, 3, N]), ("MINUTE(t)", [30, 30, N]),
        ("IF(x > 0, 'p', 'q')", ["p", "q", "q"]), ("IIF(x > 0, 1)", [1, N, N]), ("NVL2(x, 'k', 'n')", ["k", "k", "n"]), ("LEFT(s, 1)", ["a", " ", N]), ("RIGHT(s, 1)", ["b", " ", N]),
        ("SUBSTRING(s FROM 2)", ["b", "c ", N]), ("SUBSTRING('abcde' FROM 2 FOR 3)", ["bcd"] * 3), ("CONCAT_WS('-', s, CLASSIFIER(), s)", ["ab-A-ab", " c -B- c ", "C"]), ("CONCAT_WS('-', s)", ["ab", " c ", ""]),
        ("CONCAT_WS('', ARRAY_AGG(LOWER(CLASSIFIER(u))))", ["a", "a", "ac"]), ("CONCAT_WS(',', ARRAY_AGG(c.s))", ["", "", ""]), ("ARRAY_JOIN(FINAL ARRAY_AGG(CLASSIFIER()), '+')", ["A+B+C"] * 3),
        ("ARRAY_TO_STRING(ARRAY_AGG(DISTINCT LEFT(CLASSIFIER(), 0)), '+')", [""] * 3), ("ARBITRARY(s)", ["ab"] * 3),
        ("SUM(x) FILTER (WHERE x > 0)", [4, 4, 4]), ("COUNT(*) FILTER (WHERE x < 0 OR x IS NULL)", [0, 1, 2]), ("COUNT(u.*) FILTER (WHERE u.x IS NULL)", [0, 0, 1]),
        ("FINAL COUNT(*) FILTER (WHERE CLASSIFIER() = 'B')", [1] * 3), ("MAX_BY(id, id) FILTER (WHERE id < 3)", [1, 2, 2]), ("COUNT(DISTINCT s) FILTER (WHERE id > 1)", [0, 1, 1]),
        ("LISTAGG(CLASSIFIER(), '') FILTER (WHERE id <> 2)", ["A", "A", "AC"]), ("MIN(x) FILTER (WHERE FALSE)", [N] * 3), ("SUM(ALL id)", [1, 3, 6]), ("COUNT(ALL x)", [1, 2, 2]),
        ("ARRAY_AGG(id) = ARRAY[1, 2]", [False, True, False]), ("ARRAY_AGG(id) <> ARRAY[1, 2]", [True, False, True]), ("ARRAY[1] = RUNNING ARRAY_AGG(a.id)", [True] * 3),
        ("FINAL ARRAY_AGG(CLASSIFIER(u)) = ARRAY['A', 'C']", [True] * 3), ("ARRAY_AGG(b.id) = ARRAY[2]", [N, True, True]), ("ARRAY_AGG(x) = ARRAY[4, -9, 0]", [False, False, N]),
        ("ARRAY_AGG(LOWER(CLASSIFIER())) = ARRAY['a', LOWER('B')]", [False, True, False]), ("ARRAY_AGG(id) = ARRAY[]", [False] * 3),
    ],
)  # fmt: skip
def test_by_the_names_of_other_dialects(value: str, expected: list[Any]) -> None:
    assert measured(value) == expected


def test_lists_and_filters_in_conditions() -> None:
    text = (
        "SELECT m FROM t MATCH_RECOGNIZE (ORDER BY id MEASURES LISTAGG(CLASSIFIER(), '') AS m PATTERN ({pattern}) DEFINE {define})"
    )
    for pattern, define, expected in (
        ("(a | b | c)* x", "x AS ARRAY_AGG(CLASSIFIER()) = ARRAY['C', 'A', 'X']", ["CAX"]),
        ("(a | b)+", "a AS COUNT(*) FILTER (WHERE x < 0) = 0", ["ABB"]),
        ("a+ b", "b AS ARRAY_AGG(a.id) = ARRAY[1]", ["AB"]),
    ):
        assert sq.sql(text.format(pattern=pattern, define=define), t=TABLE)["m"].to_pylist() == expected
