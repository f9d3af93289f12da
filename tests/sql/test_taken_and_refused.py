"""What the standard lets a clause say and what it forbids, case by case, as the suites of other systems ask it.

Here is only whether a clause is taken; what the refusals say is in `test_clause_errors.py`.
"""

# ruff: noqa: E501 - a case is a line

from __future__ import annotations

import pytest

from seqube.errors import QueryError
from seqube.events.schema import Kind
from seqube.language.rows.binder import bind_clause

COLUMNS: dict[str, Kind] = {"t": "number", "x": "number", "y": "number", "p": "boolean", "s": "string"}


def is_taken(clause: str) -> bool:
    try:
        bind_clause(clause, COLUMNS)
    except QueryError:
        return False
    return True


MEASURES_TAKEN = [
    "LAST(A.x)", "FINAL FIRST(A.x)", "RUNNING SUM(x)", "PREV(LAST(A.x, 2), 3)", "PREV(FINAL LAST(A.x))", "PREV(LAST(A.x + A.y + 1), 1)", "PREV(CLASSIFIER())", "LAST(CLASSIFIER(U))",
    "CLASSIFIER(U)", "CLASSIFIER()", "LAST(A.x + MATCH_NUMBER())", "MAX_BY(A.x, CLASSIFIER(A))", "COUNT(U.*)", "COUNT(*)", "COUNT()", "COUNT(DISTINCT U.x)", "SUM(ALL x)", "A.X", '"x"', "a.x",
    '"A".x', "p", "NOT p", "CASE WHEN A.x > 0 THEN COUNT(*) ELSE 0 END", "LAST(A.x) + LAST(B.x) + SUM(U.x)", "FIRST(A.x, 0)", "PREV(x, 2147483647)", "1", "NULL", "MATCH_NUMBER() * 2",
]  # fmt: skip
MEASURES_REFUSED = [
    '"LAST"(x)', "A.LAST(x)", "LAT(A.x)", "FINAL PREV(A.x)", "FINAL NEXT(A.x)", "FINAL CLASSIFIER(A)", "FINAL MATCH_NUMBER()", "RUNNING x", "FINAL LOWER(s)", "PREV()", "PREV(A.x, 'q')", "PREV(A.x, -5)",
    "PREV(A.x, 3000000000)", "PREV(A.x, 1, 2)", "PREV(A.x, x)", "PREV(A.x, NULL)", "PREV(A.x, 1.5)", "LAST(NEXT(A.x, 2))", "PREV(NEXT(A.x, 2))", "LAST(FIRST(A.x))", "PREV(LAST(A.x) + 1)",
    "PREV(LAST(A.x) + LAST(B.x))", "PREV(A.x + B.x)", "LAST(A.x + x)", "LAST(A.x + LAST(x))", "CLASSIFIER(A, B)", "CLASSIFIER(A.x)", "CLASSIFIER(C)", "CLASSIFIER('A')", "MATCH_NUMBER(A)", "PREV(5)",
    "LAST(MATCH_NUMBER())", "LAST(CLASSIFIER(A) || CLASSIFIER(B))", "LAST(A.s || CLASSIFIER(B))", "SUM(A.x + B.x)", "SUM(A.x + x)", "SUM(LAST(A.x))", "SUM(PREV(A.x))", "SUM(AVG(x))", "LAST(SUM(x))",
    "MAX_BY(A.x, B.x)", "MAX_BY(A.x, CLASSIFIER())", "COUNT(A.*, B.*)", "SUM(A.*)", "COUNT(DISTINCT *)", "COUNT(DISTINCT A.*)", "ARRAY_AGG(x ORDER BY y)", "SUM(x) OVER ()", "COUNT(C.*)", "A.*", "*", "A",
    "U", "C.x", "m.x", "A.B.x", 'A."X9"', '"a".x', "x AND p", "x + s", "? + 1", "SUM(s)", "LAST(DISTINCT x)",
]  # fmt: skip


@pytest.mark.parametrize(
    ("value", "taken"), [*((value, True) for value in MEASURES_TAKEN), *((value, False) for value in MEASURES_REFUSED)]
)
def test_measures(value: str, taken: bool) -> None:
    assert is_taken(f"ORDER BY t MEASURES {value} AS m PATTERN (A B+) SUBSET U = (A, B) DEFINE B AS B.y > 5") == taken


@pytest.mark.parametrize(
    "quantifier", ["*", "*?", "+", "+?", "?", "??", "{,}", "{0,}", "{5}", "{5,}", "{5}?", "{ 1 , 2 }", " +", "+ ?"]
)
def test_quantifiers_that_there_are(quantifier: str) -> None:
    assert is_taken(f"MEASURES x AS m PATTERN (A B{quantifier} C)")


@pytest.mark.parametrize(
    "quantifier", ["{0}", "{,0}", "{0,0}", "{3000000000}", "{5,1}", "{-1}", "{}", "{1.5}", "**", "+*", "?+", "{2}{3}"]
)
def test_quantifiers_that_there_are_not(quantifier: str) -> None:
    assert not is_taken(f"MEASURES x AS m PATTERN (A B{quantifier} C)")


OPTIONS = [
    ("AFTER MATCH SKIP TO B", True), ("AFTER MATCH SKIP TO U", True), ("AFTER MATCH SKIP TO FIRST U", True), ("AFTER MATCH SKIP PAST LAST ROW", True), ("AFTER MATCH SKIP TO NEXT ROW", True),
    ("ALL ROWS PER MATCH OMIT EMPTY MATCHES", True), ("ALL ROWS PER MATCH SHOW EMPTY MATCHES", True), ("ALL ROWS PER MATCH WITH UNMATCHED ROWS", True), ("AFTER MATCH SKIP TO C", False),
    ("AFTER MATCH SKIP TO FIRST ROW", False), ("SKIP PAST LAST ROW", False), ("AFTER MATCH SKIP TO PREV ROW", False), ("ONE ROW PER MATCH SHOW EMPTY MATCHES", False),
    ("ALL ROWS PER MATCH UNMATCHED ROWS", False), ("ALL ROWS PER MATCH WITH EMPTY MATCHES", False), ("ONE ROWS PER MATCH", False),
]  # fmt: skip


@pytest.mark.parametrize(("option", "taken"), OPTIONS)
def test_options(option: str, taken: bool) -> None:
    assert is_taken(f"ORDER BY t MEASURES x AS m {option} PATTERN (A B+) SUBSET U = (A, B)") == taken


REST = [
    ("PATTERN (A B) SUBSET U = (A, A)", True), ("PATTERN (A B) DEFINE B AS RUNNING LAST(B.y) > 5", True), ("PATTERN (A B) DEFINE B AS NULL", True), ('PATTERN (A "B") DEFINE B AS TRUE', True),
    ('PATTERN (A "b" B) DEFINE B AS TRUE, "b" AS FALSE', True), ("PATTERN (A PERMUTE(A))", True), ("PATTERN (A (B | ()))", True), ("PATTERN (^ A $)", True), ("PATTERN ($ ^)", True), ("PATTERN ((^ | A)+)", True),
    ("PATTERN (A B) DEFINE B AS MATCH_NUMBER() = 1", True), ("PATTERN (A B) DEFINE A AS B.x IS NULL", True), ("PATTERN ({- A -} B)", True), ("PATTERN ({- A {- B -} -})", True), ("PATTERN (first last one)", True),
    ("PATTERN (A B) SUBSET A = (B)", False), ("PATTERN (A B) SUBSET U = (A), U = (B)", False), ("PATTERN (A B) SUBSET U = (A, C)", False), ("PATTERN (A B) SUBSET U = (A, B), V = (U, A)", False),
    ("PATTERN (A B) DEFINE C AS TRUE", False), ("PATTERN (A B) DEFINE B AS TRUE, b AS TRUE", False), ("PATTERN (A B) DEFINE B AS B.y", False), ("PATTERN (A B) SUBSET U = (A, B) DEFINE U AS TRUE", False),
    ("PATTERN (A U) SUBSET U = (A)", False), ("PATTERN (A B) DEFINE B AS COUNT(*) OVER () > 1", False), ("PATTERN (A B) DEFINE B AS FINAL COUNT(*) > 1", False), ("PATTERN A B", False), ("PATTERN (A, B)", False),
    ("PATTERN (PERMUTE())", False), ("PATTERN (A {- -} B)", False), ("PATTERN (A | | B)", False), ("PATTERN (+)", False), ("PATTERN (A B", False), ("PATTERN (A.B)", False), ("PATTERN (A B) PATTERN (A B)", False),
]  # fmt: skip


@pytest.mark.parametrize(("rest", "taken"), REST)
def test_patterns_subsets_and_definitions(rest: str, taken: bool) -> None:
    assert is_taken(f"ORDER BY t MEASURES x AS m {rest}") == taken
