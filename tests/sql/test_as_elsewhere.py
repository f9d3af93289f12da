"""What other systems that have the clause are known to answer: labels of rows, empty cycles, skips, backward references, aggregates.

Where they differ from the standard, the standard is followed: FIRST(x, 2) of a row looks at the rows up to it.
"""

# ruff: noqa: E501 - a case is a line

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import seqube as sq

N = None
FALL = pa.table({"id": [1, 2, 3, 4], "v": [9, 8, 7, 7]})
WAVES = pa.table({"id": range(1, 9), "v": [9, 8, 7, 8, 9, 5, 4, 6]})
COUNTED = pa.table({"id": range(1, 9)})
EMPTY = "1-1 2-2 3-3 4-4"


def told(text: str, **tables: pa.Table) -> list[Any]:
    rows = [tuple(row.values()) for row in sq.sql(text, **tables).to_pylist()]
    return [row[0] if len(row) == 1 else row for row in rows]


def labels(rest: str, table: pa.Table, options: str = "ALL ROWS PER MATCH") -> str:
    """Each row with what it is mapped to and the number of its match; `-` is an empty match, `.` none."""
    text = f"SELECT id, k, c FROM t MATCH_RECOGNIZE (ORDER BY id MEASURES MATCH_NUMBER() AS k, CLASSIFIER() AS c {options} {rest})"
    return " ".join(f"{row}." if match is None else f"{row}{name or '-'}{match}" for row, match, name in told(text, t=table))


NOT_RISING = "DEFINE B AS B.v <= PREV(B.v)"
FALLING = "DEFINE B AS B.v < PREV(B.v)"
STAR, PLUS, EACH = "1-1 2B2 3B2 4B2", "2B1 3B1 4B1", "2B1 3B2 4B3"
OPTIONAL, TWO = "1-1 2B2 3B3 4B4", "2B1 3B1"
OVER_FALL = [
    *[(f"(B{quantifier})", NOT_RISING, expected) for quantifier, expected in {
        "*": STAR, "*?": EMPTY, "+": PLUS, "+?": EACH, "?": OPTIONAL, "??": EMPTY, "{,}": STAR, "{,}?": EMPTY, "{1,}": PLUS, "{1,}?": EACH,
        "{2,}": PLUS, "{2,}?": TWO, "{5,}": "", "{5,}?": "", "{,1}": OPTIONAL, "{,1}?": EMPTY, "{,2}": "1-1 2B2 3B2 4B3", "{,2}?": EMPTY,
        "{,5}": STAR, "{,5}?": EMPTY, "{1,1}": EACH, "{1,1}?": EACH, "{1,5}": PLUS, "{1,5}?": EACH, "{5,7}": "", "{5,7}?": "", "{1}": EACH,
        "{1}?": EACH, "{2}": TWO, "{2}?": TWO, "{5}": "", "{5}?": "",
    }.items()],
    ("(() | A)", "DEFINE A AS TRUE", EMPTY), ("(^A)", "", "1A1"), ("(A^)", "", ""), ("(^A^)", "", ""), ("(A$)", "", "4A1"), ("($A)", "", ""),
    ("($A$)", "", ""), ("(()* | B)", FALLING, EMPTY), ("(()+ | B)", FALLING, EMPTY), ("((){5,} | B)", FALLING, EMPTY),
    ("(B | ()*)", FALLING, "1-1 2B2 3B3 4-4"), ("((B ()*)*)", FALLING, "1-1 2B2 3B2 4-3"), ("((B ()*)*?)", FALLING, EMPTY), ("(^* | B)", FALLING, EMPTY),
    ("(^+ | B)", FALLING, "1-1 2B2 3B3"), ("(^* A B)", FALLING, "1A1 2B1"), ("($* | B)", FALLING, EMPTY), ("($+ | B)", FALLING, "2B1 3B2"),
    ("(B A $+)", FALLING, "3B1 4A1"), ("((A) (B (C)))", f"{FALLING}, C AS C.v = PREV(C.v)", "2A1 3B1 4C1"),
    ("(B | C | A)", f"{FALLING}, C AS C.v <= PREV(C.v)", "1A1 2B2 3B3 4C4"), ("(PERMUTE(B, C))", f"{FALLING}, C AS C.v < PREV(C.v)", "2B1 3C1"),
    ("(PERMUTE(A B?, C+))", f"{FALLING}, A AS v = 9", "1A1 2B1 3C1 4C1"), ("(PERMUTE(B+, A)?)", f"{FALLING}, A AS v = 9", "1A1 2B1 3B1 4-2"),
]  # fmt: skip


@pytest.mark.parametrize(("pattern", "define", "expected"), OVER_FALL)
def test_over_a_fall(pattern: str, define: str, expected: str) -> None:
    assert labels(f"PATTERN {pattern} {define}", FALL) == expected


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("A B+ C+", "1A1 2B1 3B1 4C1 5C1 6A2 7B2 8C2"),
        ("A {- B+ -} C+", "1A1 4C1 5C1 6A2 8C2"),
        ("{- A -} {- B+ -} C+", "4C1 5C1 8C2"),
        ("A {- {- B+ -} C+ -}", "1A1 6A2"),
        ("{- A B+ C+ -}", ""),
        ("A B+ {- ()* -} C+", "1A1 2B1 3B1 4C1 5C1 6A2 7B2 8C2"),
        ("A {- B -}+ {- C -}+", "1A1 6A2"),
        ("A {- B -}* {- C -}*", "1A1 6A2"),
        ("A {- B -}{1,2} {- C -}{1,2}", "1A1 6A2"),
        ("A {- C -}{2,3} {- B -}{2,3}", "3A1"),
    ],
)
def test_exclusions(pattern: str, expected: str) -> None:
    assert labels(f"PATTERN ({pattern}) {FALLING}, C AS C.v > PREV(C.v)", WAVES) == expected


ONE, TWO_MATCHES = "1A1 2B1 3B1 4C1", "1A1 2B1 3B1 4C1 4A2 5B2 6C2"


@pytest.mark.parametrize(
    ("skip", "expected"),
    [("PAST LAST ROW", ONE), ("TO NEXT ROW", f"{ONE} 2A2 3B2 4C2 4A3 5B3 6C3"), ("TO FIRST C", TWO_MATCHES), ("TO LAST B", TWO_MATCHES), ("TO B", TWO_MATCHES), ("TO U", TWO_MATCHES), ("TO FIRST U", TWO_MATCHES)],
)  # fmt: skip
def test_skips(skip: str, expected: str) -> None:
    table = pa.table({"id": range(1, 7), "v": [9, 8, 7, 8, 7, 8]})
    rest = f"PATTERN (A B+ C+ D?) SUBSET U = (C, D) {FALLING}, C AS C.v > PREV(C.v), D AS FALSE"
    assert labels(rest, table, f"ALL ROWS PER MATCH AFTER MATCH SKIP {skip}") == expected


@pytest.mark.parametrize(("to", "message"), [("A", "leads back to the first row"), ("D", "has no row of D")])
def test_skips_that_lead_nowhere_end_the_search(to: str, message: str) -> None:
    with pytest.raises(sq.DataError, match=message):
        labels(f"PATTERN (A B+ D?) {FALLING}, D AS FALSE", WAVES, f"ALL ROWS PER MATCH AFTER MATCH SKIP TO {to}")


def test_unmatched_rows_are_those_of_no_match_at_all() -> None:
    table = pa.table({"id": range(1, 7), "v": [10, 10, 9, 8, 7, 10]})
    options = "ALL ROWS PER MATCH WITH UNMATCHED ROWS AFTER MATCH SKIP TO NEXT ROW"
    assert labels(f"PATTERN (A B{{2}}) {FALLING}", table, options) == "1. 2A1 3B1 4B1 3A2 4B2 5B2 6."


FEW = pa.table({"n": [2, 2]})


def mapped(
    pattern: str, define: str, table: pa.Table = COUNTED, measure: str = "CLASSIFIER()", rows: str = "ALL ROWS"
) -> list[Any]:
    text = f"SELECT m FROM t MATCH_RECOGNIZE (ORDER BY id MEASURES {measure} AS m {rows} PER MATCH PATTERN ({pattern}) {define})"
    return told(text, t=table, few=FEW)


@pytest.mark.parametrize(
    ("pattern", "define", "n", "expected"),
    [
        ("(A | B)* X", "DEFINE X AS id = B.id + 1", 2, "BX"),
        ("(A | B)* X", "DEFINE X AS id = PREV(LAST(A.id), 3) + FIRST(A.id) + PREV(LAST(B.id), 2)", 6, "BAAABX"),
        ("(A | B)* X $", "SUBSET U = (A, B) DEFINE X AS PREV(CLASSIFIER(U), 1) = 'A' AND LAST(CLASSIFIER(), 3) = 'B' AND FIRST(CLASSIFIER(U)) = 'B'", 5, "BBAAX"),
        ("(A | B)*", "DEFINE A AS MAX(id + MATCH_NUMBER()) > 5", 6, "BBBBAA"),
        ("(A | B)*", "DEFINE A AS COUNT(A.*) + SUM(0) > 0 AND LOWER(FIRST(CLASSIFIER())) = 'b'", 3, "BAA"),
        ("A+", "DEFINE A AS NEXT(CLASSIFIER()) = 'A'", 3, ""),
        ("^(A | B)* (X | Y)$", "DEFINE X AS SUM(A.id) + id = SUM(B.id), Y AS SUM(B.id) + id = SUM(A.id)", 8, "AAAABBBX"),
        ("(A | B)+ LAST", "DEFINE LAST AS " + " AND ".join(f"FIRST(CLASSIFIER(), {k}) = 'B'" for k in range(7)), 8, ["B"] * 7 + ["LAST"]),
        ("(A | B | C)* X", "DEFINE X AS LISTAGG(CLASSIFIER(), '') = 'CABX'", 4, "CABX"),
        ("(A | B)*", "DEFINE A AS id > (SELECT min(n) FROM few) OR id IN (SELECT 1)", 4, "ABAA"),
        ("(A | B)*", "DEFINE A AS EVERY(id > 1) OR BOOL_OR(id > 2)", 3, "BBA"),
        ("(A | B)*", "DEFINE A AS LAST(id * MATCH_NUMBER()) > 1", 3, "BAA"),
        ("(A | B)*", "DEFINE A AS LAST(LOWER(CLASSIFIER()) || 'x') = 'ax'", 3, "AAA"),
    ],
)  # fmt: skip
def test_conditions_that_look_back(pattern: str, define: str, n: int, expected: Any) -> None:
    assert mapped(pattern, define, COUNTED.slice(0, n)) == list(expected)


@pytest.mark.parametrize(
    ("measure", "expected"),
    [
        ("COUNT(1)", [1, 2, 3]), ("COUNT()", [1, 2, 3]), ("SUM(2)", [2, 4, 6]), ("ARRAY_AGG('x')", [["x"], ["x"] * 2, ["x"] * 3]),
        ("SUM(id + MATCH_NUMBER())", [2, 5, 9]), ("RUNNING SUM(MATCH_NUMBER() * 100)", [100, 200, 300]), ("FINAL SUM(-MATCH_NUMBER())", [-3] * 3),
        ("LAST(id + MATCH_NUMBER())", [2, 3, 4]), ("PREV(id * MATCH_NUMBER())", [N, 1, 2]), ("LAST(LOWER(CLASSIFIER()))", ["x", "y", "z"]),
        ("NEXT(kind || CLASSIFIER())", ["bY", "aZ", N]), ("FIRST(U.kind || CLASSIFIER(U), 1)", [N, N, "aZ"]), ("PREV(LOWER(CLASSIFIER()), 5)", [N] * 3),
        ("ARRAY_AGG(kind || CLASSIFIER())", [["aX"], ["aX", "bY"], ["aX", "bY", "aZ"]]), ("ARRAY_AGG(U.kind || CLASSIFIER(U))", [["aX"], ["aX"], ["aX", "aZ"]]),
        ("MAX_BY(id, CLASSIFIER())", [1, 2, 3]), ("MIN_BY(id, -id)", [1, 2, 3]), ("MAX_BY(CLASSIFIER(), -id)", ["X"] * 3), ("MAX_BY(U.id, U.id)", [1, 1, 3]),
        ("ANY_VALUE(NULLIF(id, 1))", [N, 2, 2]), ("EVERY(id < 3)", [True, True, False]), ("BOOL_AND(id < 0)", [False] * 3), ("BOOL_OR(id > 1)", [False, True, True]),
        ("STDDEV_POP(id)", [0.0, 0.5, pytest.approx((2 / 3) ** 0.5)]), ("VAR_POP(id)", [0.0, 0.25, pytest.approx(2 / 3)]), ("VAR_SAMP(id)", [N, 0.5, 1.0]),
        ("STDDEV_SAMP(id)", [N, pytest.approx(0.5**0.5), 1.0]), ("LISTAGG(CLASSIFIER(), '-')", ["X", "X-Y", "X-Y-Z"]), ("STRING_AGG(DISTINCT U.kind, ',')", ["a", "a", "a"]),
        ("FINAL LISTAGG(U.kind, '')", ["aa"] * 3), ("FIRST(id, 2)", [N, N, 3]), ("FINAL FIRST(id, 2)", [3] * 3), ("FINAL LAST(id, 2)", [1] * 3),
        ("NEXT(FINAL LAST(id), 0)", [3] * 3), ("NEXT(FIRST(id), 2)", [3] * 3), ("PREV(RUNNING LAST(id))", [N, 1, 2]), ("NEXT(CLASSIFIER())", ["Y", "Z", N]),
        ("FIRST(id < 0 OR TRUE)", [True] * 3), ("CLASSIFIER() IN ('Q', LOWER(CLASSIFIER()))", [False] * 3), ("MATCH_NUMBER() IN (0, MATCH_NUMBER())", [True] * 3),
        ("CAST(LOWER(LAST(CLASSIFIER())) || '_label' AS VARCHAR(4))", ["x_la", "y_la", "z_la"]), ("COUNT(U.*)", [1, 1, 2]), ("CLASSIFIER(U)", ["X", "X", "Z"]),
        ("(SELECT 'q')", ["q"] * 3), ("LAST(id + (SELECT 1000))", [1001, 1002, 1003]), ("id IN (SELECT 2)", [False, True, False]), ("id NOT IN (SELECT n FROM few)", [True, False, True]),
        ("FIRST(id % 2 IN (SELECT 0))", [False] * 3), ("EXISTS (SELECT 1 WHERE FALSE)", [False] * 3), ("NOT EXISTS (SELECT n FROM few WHERE n > 5)", [True] * 3),
        ("ARRAY_AGG(CLASSIFIER() || (SELECT 'A'))", [["XA"], ["XA", "YA"], ["XA", "YA", "ZA"]]), ("(SELECT max(n) FROM few) + id", [3, 4, 5]), ("(SELECT 1 WHERE FALSE)", [N] * 3),
    ],
)  # fmt: skip
def test_measures_of_three_rows(measure: str, expected: list[Any]) -> None:
    table = pa.table({"id": [1, 2, 3], "kind": ["a", "b", "a"]})
    assert mapped("X Y Z", "SUBSET U = (X, Z)", table, measure) == expected


def test_a_column_and_a_variable_of_one_name() -> None:
    table = pa.table({"id": [1, 2, 3, 4], "A": ["p", "q", None, "s"]})
    measures = "COUNT(A.A) AS own, COUNT(A) AS any_, COUNT(A.*) AS n"
    text = f"SELECT own, any_, n FROM t MATCH_RECOGNIZE (ORDER BY id MEASURES {measures} ALL ROWS PER MATCH PATTERN (A B A A))"
    assert told(text, t=table) == [(1, 1, 1), (1, 2, 1), (1, 2, 2), (2, 3, 3)]


def test_sums_in_balance() -> None:
    table = pa.table({"id": range(1, 10), "v": [4, 6, 10, 1, 1, 1, 10, 5, 1]})
    assert "".join(mapped("(A | B)*", "DEFINE A AS SUM(A.v) - A.v <= SUM(B.v)", table)) == "BABAAAABA"


def test_what_takes_long_elsewhere() -> None:
    equal = pa.table({"id": range(40), "v": [1] * 40})
    assert mapped("(A+)+ B", "DEFINE A AS v = 1, B AS v = 2", equal) == []
    assert mapped("(Y?){2,}", "", equal, "COUNT(*)", "ONE ROW") == [40]


def test_three_clauses_beside_each_other_and_columns_in_their_places() -> None:
    one = "(VALUES {rows}) t(id) MATCH_RECOGNIZE (ORDER BY id MEASURES CLASSIFIER() AS c ALL ROWS PER MATCH PATTERN ({name})) AS {name}s"
    tables = ", ".join(
        one.format(rows=rows, name=name) for rows, name in (("(1), (2), (3)", "x"), ("(10), (20)", "y"), ("(100)", "z"))
    )
    assert told(f"SELECT xs.c AS a, ys.c AS b, zs.c AS c FROM {tables}") == [("X", "Y", "Z")] * 6
    table = pa.table({"id": ["o"], "part": ["p"], "v": [90]})
    text = "SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY part ORDER BY id MEASURES CLASSIFIER() AS c {rows} PER MATCH PATTERN (A))"
    assert sq.sql(text.format(rows="ALL ROWS"), t=table).column_names == ["part", "id", "c", "v"]
    assert sq.sql(text.format(rows="ONE ROW"), t=table).column_names == ["part", "c"]


def test_values_keep_their_types() -> None:
    day, large = date(2020, 1, 2), Decimal("1" * 38)
    table = pa.table({"id": [1, 2], "d": [day, day], "n": [large, None], "b": [b"x", None], "f": [-0.0, 1.0], "l": [[1], None]})
    measures = "ARRAY_AGG(d) AS ds, ANY_VALUE(l) AS l1, COUNT(b) AS bs, SUM(n) AS ns, MAX_BY(l, f) AS lm, CAST(d AS DATE) AS dd, ARRAY_AGG(f) AS fs"
    (found,) = sq.sql(f"SELECT * FROM t MATCH_RECOGNIZE (ORDER BY id MEASURES {measures} PATTERN (A B))", t=table).to_pylist()
    assert found == {"ds": [day, day], "l1": [1], "bs": 1, "ns": large, "lm": None, "dd": day, "fs": [0.0, 1.0]}
    (sums,) = mapped("A B", "", table, "SUM(n + n)", "ONE ROW")
    assert sums == Decimal("2" * 38)
