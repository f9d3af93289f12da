"""Measures, options and orders of the clause, each answer worked out by hand.

One match: A A B B C over the rows 1 to 5, and a row of no match behind it.

    n  1   2   3   4     5   6
    c  A   A   B   B     C   A
    x  10  20  30  null  50  60
"""

# ruff: noqa: DTZ001, E501 - columns without a zone are times too, and a case is a line

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import seqube as sq
from seqube.engine.rows.clause import match_rows
from seqube.events.schema import kind_of
from seqube.language.rows.binder import bind_clause
from seqube.plan.rows import plan_rows

TABLE = pa.table({"n": [1, 2, 3, 4, 5, 6], "c": list("AABBCA"), "x": pa.array([10, 20, 30, None, 50, 60], pa.int64())})
REST = "PATTERN (A+ B+ C) SUBSET S = (A, B) DEFINE A AS c = 'A', B AS c = 'B', C AS c = 'C'"


def given(clause: str, table: pa.Table = TABLE) -> pa.Table:
    return match_rows(plan_rows(bind_clause(clause, {field.name: kind_of(field.type) for field in table.schema})), table)


def measured(value: str, rows: str = "ONE ROW") -> list[Any]:
    return list(given(f"ORDER BY n MEASURES {value} AS m {rows} PER MATCH {REST}")["m"].to_pylist())


ONE = [
    ("COUNT(*)", 5), ("COUNT(A.*)", 2), ("COUNT(B.x)", 1), ("COUNT(x)", 4), ("COUNT(S.*)", 4), ("COUNT(S.x)", 3),
    ("SUM(x)", 110), ("SUM(A.x)", 30), ("SUM(S.x)", 60), ("SUM(x * 2)", 220), ("SUM(A.x + A.n)", 33), ("SUM(DISTINCT A.n)", 3),
    ("AVG(A.x)", 15.0), ("AVG(S.x)", 20.0), ("AVG(x)", 27.5), ("MIN(x)", 10), ("MAX(x)", 50), ("MAX(B.x)", 30), ("MIN(c)", "A"),
    ("MAX(c)", "C"), ("MAX(S.x) - MIN(S.x)", 20), ("STDDEV(S.n)", (5 / 3) ** 0.5), ("VARIANCE(A.x)", 50.0), ("VARIANCE(C.x)", None),
    ("MEDIAN(x)", 25.0), ("MEDIAN(S.x)", 20.0), ("COUNT(DISTINCT c)", 3), ("COUNT(DISTINCT A.c)", 1), ("ARRAY_AGG(A.x)", [10, 20]),
    ("ARRAY_AGG(B.x)", [30, None]), ("ARRAY_AGG(CLASSIFIER(S))", ["A", "A", "B", "B"]), ("ARRAY_AGG(DISTINCT c)", ["A", "B", "C"]),
    ("x", 50), ("A.x", 20), ("B.x", None), ("S.c", "B"), ("FIRST(B.x)", 30), ("LAST(B.x)", None), ("LAST(B.x, 1)", 30),
    ("FIRST(x, 2)", 30), ("FIRST(A.x, 5)", None), ("LAST(A.x, 2)", None), ("LAST(x, 0)", 50), ("FIRST(S.x, 3)", None),
    ("LAST(S.n, 3)", 1), ("FIRST(A.x + A.n)", 11), ("PREV(x)", None), ("PREV(x, 2)", 30), ("PREV(x, 0)", 50), ("NEXT(x)", 60),
    ("NEXT(x, 2)", None), ("PREV(A.x)", 10), ("NEXT(A.x)", 30), ("PREV(FIRST(A.x))", None), ("PREV(FIRST(A.x, 1))", 10),
    ("NEXT(LAST(C.x))", 60), ("PREV(C.x, 3)", 20), ("PREV(LAST(B.n, 1), 2)", 1), ("NEXT(FIRST(x), 4)", 50),
    ("PREV(COALESCE(A.x, 0), 5)", None), ("CLASSIFIER()", "C"), ("CLASSIFIER(A)", "A"), ("CLASSIFIER(S)", "B"),
    ("FIRST(CLASSIFIER())", "A"), ("LAST(CLASSIFIER(), 1)", "B"), ("PREV(CLASSIFIER())", "B"), ("NEXT(CLASSIFIER())", None),
    ("PREV(CLASSIFIER(), 4)", "A"), ("PREV(CLASSIFIER(), 5)", None), ("MATCH_NUMBER()", 1), ("FINAL LAST(x)", 50),
    ("RUNNING LAST(x)", 50), ("FINAL SUM(A.x)", 30), ("RUNNING COUNT(*)", 5), ("C.x / A.x", 2.5), ("C.x + FIRST(A.x)", 60),
    ("COALESCE(B.x, -1)", -1), ("CASE WHEN COUNT(*) > 4 THEN 'long' ELSE 'short' END", "long"), ("A.x IS NULL", False),
    ("B.x IS NULL", True), ("x BETWEEN 40 AND 60", True), ("c IN ('B', 'C')", True), ("x IN (A.x, C.x)", True),
    ("UPPER(c) || '!'", "C!"), ("CAST(x AS VARCHAR)", "50"), ("CAST(c || 'xyz' AS VARCHAR(2))", "Cx"), ("ROUND(AVG(x), 0)", 28.0),
    ("ABS(A.x - C.x)", 30), ("-A.x", -20), ("+A.x", 20), ("x % 7", 1), ("MOD(x, 7)", 1), ("NULLIF(A.x, 20)", None),
    ("GREATEST(A.x, C.x)", 50), ("LEAST(A.x, C.x)", 20), ("1 + 1", 2), ("'k'", "k"), ("TRUE", True), ("NOT A.x = 20", False),
    ("SUM(A.x) / COUNT(A.*)", 15.0), ("LAST(A.x) = FIRST(A.x)", False), ("A.x = 20 AND B.x = 1", None), ("A.x = 20 OR B.x = 1", True),
    ("B.x IS DISTINCT FROM A.x", True), ("(A.x > 1) IS TRUE", True), ("c LIKE 'C%'", True), ("c NOT LIKE 'C%'", False),
    ("LENGTH(c)", 1), ("a.X", 20), ('"A".x', 20), ("COUNT(CLASSIFIER())", 5),
]  # fmt: skip


@pytest.mark.parametrize(("value", "expected"), ONE)
def test_one_row(value: str, expected: Any) -> None:
    assert measured(value) == [pytest.approx(expected) if isinstance(expected, float) else expected]


N = None
ALL = [
    ("COUNT(*)", [1, 2, 3, 4, 5]),
    ("COUNT(A.*)", [1, 2, 2, 2, 2]),
    ("COUNT(x)", [1, 2, 3, 3, 4]),
    ("SUM(x)", [10, 30, 60, 60, 110]),
    ("RUNNING SUM(B.x)", [N, N, 30, 30, 30]),
    ("AVG(A.x)", [10, 15, 15, 15, 15]),
    ("MIN(B.x)", [N, N, 30, 30, 30]),
    ("MAX(x)", [10, 20, 30, 30, 50]),
    ("COUNT(DISTINCT c)", [1, 1, 2, 2, 3]),
    ("MEDIAN(A.x)", [10, 15, 15, 15, 15]),
    ("ARRAY_AGG(B.n)", [N, N, [3], [3, 4], [3, 4]]),
    ("x", [10, 20, 30, N, 50]),
    ("A.x", [10, 20, 20, 20, 20]),
    ("B.x", [N, N, 30, N, N]),
    ("C.x", [N, N, N, N, 50]),
    ("S.n", [1, 2, 3, 4, 4]),
    ("FIRST(x)", [10] * 5),
    ("FIRST(x, 1)", [N, 20, 20, 20, 20]),
    ("LAST(x, 1)", [N, 10, 20, 30, N]),
    ("LAST(A.x, 1)", [N, 10, 10, 10, 10]),
    ("PREV(x)", [N, 10, 20, 30, N]),
    ("NEXT(x)", [20, 30, N, 50, 60]),
    ("NEXT(A.x)", [20, 30, 30, 30, 30]),
    ("PREV(FIRST(B.x))", [N, N, 20, 20, 20]),
    ("CLASSIFIER()", list("AABBC")),
    ("CLASSIFIER(S)", list("AABBB")),
    ("PREV(CLASSIFIER())", [N, *"AABB"]),
    ("NEXT(CLASSIFIER())", [*"ABBC", N]),
    ("MATCH_NUMBER()", [1] * 5),
    ("FINAL COUNT(*)", [5] * 5),
    ("FINAL LAST(A.x)", [20] * 5),
    ("FINAL FIRST(B.x)", [30] * 5),
    ("FINAL LAST(x, 2)", [30] * 5),
    ("FINAL SUM(S.x)", [60] * 5),
    ("FINAL LAST(CLASSIFIER())", ["C"] * 5),
    ("NEXT(FINAL LAST(A.x))", [30] * 5),
    ("PREV(FINAL LAST(C.n), 2)", [3] * 5),
    ("FINAL COUNT(*) - RUNNING COUNT(*)", [4, 3, 2, 1, 0]),
    ("SUM(x) - FINAL SUM(x)", [-100, -80, -50, -50, 0]),
]


@pytest.mark.parametrize(("value", "expected"), ALL)
def test_all_rows(value: str, expected: list[Any]) -> None:
    assert measured(value, "ALL ROWS") == expected


def rows_of(clause: str, table: pa.Table = TABLE) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in given(clause, table).to_pylist()]


OPTIONS = [
    ("ORDER BY n MEASURES COUNT(*) AS k ONE ROW PER MATCH PATTERN (A*) DEFINE A AS c = 'A'", [(2,), (0,), (0,), (0,), (1,)]),
    ("ORDER BY n MEASURES COUNT(*) AS k PATTERN (A+) DEFINE A AS c = 'A'", [(2,), (1,)]),
    ("ORDER BY n MEASURES MATCH_NUMBER() AS m ALL ROWS PER MATCH SHOW EMPTY MATCHES PATTERN (A*) DEFINE A AS c = 'A'",
     [(1, 1, "A", 10), (2, 1, "A", 20), (3, 2, "B", 30), (4, 3, "B", N), (5, 4, "C", 50), (6, 5, "A", 60)]),
    ("ORDER BY n MEASURES MATCH_NUMBER() AS m ALL ROWS PER MATCH OMIT EMPTY MATCHES PATTERN (A*) DEFINE A AS c = 'A'",
     [(1, 1, "A", 10), (2, 1, "A", 20), (6, 5, "A", 60)]),
    ("ORDER BY n MEASURES MATCH_NUMBER() AS m ALL ROWS PER MATCH WITH UNMATCHED ROWS PATTERN (B+) DEFINE B AS c = 'B'",
     [(1, N, "A", 10), (2, N, "A", 20), (3, 1, "B", 30), (4, 1, "B", N), (5, N, "C", 50), (6, N, "A", 60)]),
    ("ORDER BY n MEASURES COUNT(*) AS k ALL ROWS PER MATCH WITH UNMATCHED ROWS PATTERN (A*) DEFINE A AS c = 'A'",
     [(1, 1, "A", 10), (2, 2, "A", 20), (3, 0, "B", 30), (4, 0, "B", N), (5, 0, "C", 50), (6, 1, "A", 60)]),
    ("PARTITION BY c ORDER BY n MEASURES COUNT(*) AS k PATTERN (x+)", [("A", 3), ("B", 2), ("C", 1)]),
    ("PARTITION BY c ORDER BY n DESC MEASURES FIRST(n) AS f, LAST(n) AS l PATTERN (x+)", [("A", 6, 1), ("B", 4, 3), ("C", 5, 5)]),
    ("ORDER BY x MEASURES LAST(n) AS l PATTERN (a+)", [(4,)]),
    ("ORDER BY x NULLS FIRST MEASURES FIRST(n) AS l PATTERN (a+)", [(4,)]),
    ("ORDER BY x DESC MEASURES FIRST(n) AS f, LAST(n) AS l PATTERN (a+)", [(6, 4)]),
    ("ORDER BY x DESC NULLS FIRST MEASURES FIRST(n) AS f, LAST(n) AS l PATTERN (a+)", [(4, 1)]),
    ("ORDER BY c, n DESC MEASURES ARRAY_AGG(n) AS l PATTERN (a+)", [([6, 2, 1, 4, 3, 5],)]),
    ("MEASURES ARRAY_AGG(n) AS l PATTERN (a{2})", [([1, 2],), ([3, 4],), ([5, 6],)]),
    ("PARTITION BY c ORDER BY n ALL ROWS PER MATCH PATTERN (x) AFTER MATCH SKIP PAST LAST ROW",
     [("A", 1, 10), ("A", 2, 20), ("A", 6, 60), ("B", 3, 30), ("B", 4, N), ("C", 5, 50)]),
    ("ORDER BY n MEASURES n AS k PATTERN (a) DEFINE a AS x > AVG(x) OR n = 2", [(2,)]),
    ("ORDER BY n MEASURES COUNT(*) AS k PATTERN (a+) DEFINE a AS SUM(x) <= 30", [(2,), (2,)]),
    ("ORDER BY n MEASURES COUNT(*) AS k PATTERN (a b+) DEFINE b AS x >= 2 * FIRST(a.x)", [(3,)]),
]  # fmt: skip


@pytest.mark.parametrize(("clause", "expected"), OPTIONS)
def test_options(clause: str, expected: list[tuple[Any, ...]]) -> None:
    assert rows_of(clause) == expected


TYPES = [
    (pa.int8(), [1, 2, 3]), (pa.uint64(), [1, 2, 2**64 - 1]), (pa.float32(), [1.0, 2.0, 3.5]), (pa.decimal128(9, 2), [Decimal("1.10"), Decimal("2.20"), Decimal("3.30")]),
    (pa.string(), ["a", "b", "c"]), (pa.dictionary(pa.int8(), pa.string()), ["a", "b", "c"]), (pa.date32(), [date(2026, 1, day) for day in (1, 2, 3)]),
    (pa.timestamp("us"), [datetime(2026, 1, day) for day in (1, 2, 3)]), (pa.timestamp("us", "Asia/Tokyo"), [datetime(2026, 1, day, tzinfo=UTC) for day in (1, 2, 3)]),
    (pa.duration("us"), [timedelta(seconds=each) for each in (1, 2, 3)]), (pa.bool_(), [False, True, True]),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "values"), TYPES, ids=[str(kind) for kind, _ in TYPES])
def test_types_are_compared_bound_and_given_back(kind: pa.DataType, values: list[Any]) -> None:
    table = pa.table({"n": [1, 2, 3, 4], "v": pa.array([*values, None], kind)})
    clause = "ORDER BY n MEASURES FIRST(v) AS f, MAX(b.v) AS m, LAST(b.v) AS l, COUNT(DISTINCT v) AS d PATTERN (a b+) DEFINE b AS v >= PREV(v) AND v > FIRST(v)"
    assert rows_of(clause, table) == [(values[0], values[2], values[2], len(set(values)))]


def test_times_and_intervals() -> None:
    table = pa.table({"t": pa.array([datetime(2026, 3, 1, 8, minute) for minute in (0, 5, 9, 20, 21)]), "x": [1, 2, 3, 4, 5]})
    near = "DEFINE b AS t - PREV(t) < INTERVAL '10' MINUTE"
    assert rows_of(f"ORDER BY t MEASURES COUNT(*) AS k, LAST(t) - FIRST(t) AS d PATTERN (a b*) {near}", table) == [
        (3, timedelta(minutes=9)), (2, timedelta(minutes=1))]  # fmt: skip
    assert rows_of("ORDER BY t MEASURES COUNT(*) AS k PATTERN (a+) WITHIN INTERVAL '9' MINUTE", table) == [(2,), (1,), (2,)]
    assert rows_of("ORDER BY t MEASURES COUNT(*) AS k PATTERN (a+) WITHIN INTERVAL '10 minutes'", table) == [(3,), (2,)]
    assert rows_of("ORDER BY t MEASURES x AS k PATTERN (a) DEFINE a AS t = TIMESTAMP '2026-03-01 08:20:00'", table) == [(4,)]
    assert rows_of("ORDER BY t MEASURES x AS k PATTERN (a) DEFINE a AS t > '2026-03-01 08:20:00'", table) == [(5,)]
    assert rows_of("ORDER BY t MEASURES x AS k PATTERN (a) DEFINE a AS EXTRACT(MINUTE FROM t) = 9", table) == [(3,)]


def test_durations_go_through_duckdb() -> None:
    table = pa.table({"n": [1, 2, 3], "d": pa.array([1, None, 3], pa.duration("us"))})
    text = "SELECT * FROM t MATCH_RECOGNIZE (ORDER BY n MEASURES SUM(d) AS s, LAST(d) AS l PATTERN (a+) DEFINE a AS d IS NULL OR d < INTERVAL '1' DAY)"
    assert sq.sql(text, t=table).to_pylist() == [{"s": timedelta(microseconds=4), "l": timedelta(microseconds=3)}]


def test_null_keys_are_a_partition_of_their_own() -> None:
    table = pa.table({"k": [1, None, None, 1], "j": [None, 1, None, None], "n": [1, 2, 3, 4]})
    assert rows_of("PARTITION BY k, j ORDER BY n MEASURES COUNT(*) AS c PATTERN (a+)", table) == [(1, N, 2), (N, 1, 1), (N, N, 1)]


def test_large_whole_numbers_stay_exact_while_matching() -> None:
    table = pa.table({"n": [1, 2, 3], "v": pa.array([2**60, 2**60 + 1, 2**60 + 1], pa.int64())})
    assert rows_of("ORDER BY n MEASURES COUNT(*) AS k PATTERN (a b+) DEFINE b AS v = FIRST(v) + 1", table) == [(3,)]
    assert rows_of("ORDER BY n MEASURES SUM(v) AS k PATTERN (a b) DEFINE b AS SUM(v) = 2305843009213693953", table) == [
        (2**61 + 1,)
    ]
    assert rows_of("ORDER BY n MEASURES COUNT(*) AS k PATTERN (a b) DEFINE b AS v * v > FIRST(v)", table) == [(2,)]


def test_decimals_are_added_as_decimals() -> None:
    table = pa.table({"n": [1, 2, 3], "v": pa.array([Decimal("0.10"), Decimal("0.20"), Decimal("0.30")])})
    assert rows_of("ORDER BY n MEASURES SUM(v) AS k PATTERN (a b c) DEFINE c AS c.v = a.v + b.v", table) == [(Decimal("0.60"),)]


def test_an_empty_table_has_no_match_and_its_columns() -> None:
    found = sq.sql(
        f"SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY c ORDER BY n MEASURES x AS l, COUNT(*) AS k {REST})", t=TABLE.slice(0, 0)
    )
    assert (found.num_rows, found.column_names) == (0, ["c", "l", "k"])
    assert found.schema.field("k").type == pa.int64()
