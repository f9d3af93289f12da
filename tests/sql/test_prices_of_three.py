"""The questions that manuals of other systems ask of a table of prices, over prices of our own; answers read off the drawing.

aa   7 6 4 5 8 8 6 7 3 3 5      bb   5 4 3 2 3 4 6 5 4 5 6      cc   1 2 3 4 5 5 4 3 2 1 1
     1 2 3 4 5 6 7 8 9 . .           1 2 3 4 5 6 7 8 9 . .           1 2 3 4 5 6 7 8 9 . .
"""

# ruff: noqa: E501 - a case is a line

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import seqube as sq

PRICES = {"aa": [7, 6, 4, 5, 8, 8, 6, 7, 3, 3, 5], "bb": [5, 4, 3, 2, 3, 4, 6, 5, 4, 5, 6], "cc": [1, 2, 3, 4, 5, 5, 4, 3, 2, 1, 1]}
TABLE = pa.table({
    "name": [name for name, prices in PRICES.items() for _ in prices],
    "day": [day for prices in PRICES.values() for day in range(1, len(prices) + 1)],
    "price": [price for prices in PRICES.values() for price in prices],
})  # fmt: skip
RISES = "DEFINE up AS price > PREV(price)"
MOVES = f"{RISES}, down AS price < PREV(price)"
TWICE = "DEFINE d AS price < PREV(price), u AS price > PREV(price), e AS price < PREV(price), v AS price > PREV(price)"

CASES = [
    # Falls and rises, the next from the last day of the one before, or behind it.
    ("MEASURES strt.day AS a, LAST(down.day) AS b, LAST(up.day) AS c AFTER MATCH SKIP TO LAST up PATTERN (strt down+ up+)", MOVES,
     [("aa", 1, 3, 5), ("aa", 6, 7, 8), ("bb", 1, 4, 7), ("bb", 7, 9, 11)]),
    ("MEASURES strt.day AS a, LAST(down.day) AS b, LAST(up.day) AS c AFTER MATCH SKIP PAST LAST ROW PATTERN (strt down+ up+)", MOVES,
     [("aa", 1, 3, 5), ("aa", 6, 7, 8), ("bb", 1, 4, 7), ("bb", 8, 9, 11)]),
    # Two of them, as one pattern; only where the second begins on the day that the first ends.
    ("MEASURES FIRST(day) AS a, LAST(day) AS b PATTERN (strt d+ u+ e+ v+)", TWICE, [("bb", 1, 11)]),
    # Rises that stay below the price the fall began with, and not far below the mean of the fall.
    ("MEASURES a.day AS began, c.day AS over, c.price AS price PATTERN (a b+ c+) SUBSET s = (a, b)",
     "DEFINE b AS b.price < PREV(b.price), c AS c.price > PREV(c.price) AND c.price < a.price AND c.price > AVG(s.price) - 1",
     [("aa", 1, 4, 5), ("aa", 6, 8, 7), ("bb", 1, 6, 4), ("bb", 7, 10, 5)]),
    # A flat top.
    ("MEASURES FIRST(up.day) AS a, COUNT(flat.*) AS n, LAST(down.day) AS b PATTERN (up+ flat+ down+)", f"{MOVES}, flat AS price = PREV(price)",
     [("aa", 4, 1, 7), ("cc", 2, 1, 10)]),
    # The largest rise from one day to the next, within a rise.
    ("MEASURES MAX(up.price - up.day) AS k, MAX_BY(up.day, up.price) AS day PATTERN (up{2,})", RISES, [("aa", 3, 5), ("bb", -1, 7), ("bb", -5, 11), ("cc", 0, 5)]),
    # The shortest way up to 5 or more, and the longest.
    ("MEASURES FIRST(day) AS a, LAST(day) AS b PATTERN (strt up+? top)", f"{RISES}, top AS price >= 5 AND price > PREV(price)",
     [("aa", 3, 5), ("bb", 4, 7), ("bb", 9, 11), ("cc", 1, 5)]),
    ("MEASURES FIRST(day) AS a, LAST(day) AS b PATTERN (any_* last_)", "DEFINE last_ AS price = 5", [("aa", 1, 11), ("bb", 1, 10), ("cc", 1, 6)]),
    ("MEASURES FIRST(day) AS a, LAST(day) AS b PATTERN (any_*? last_)", "DEFINE last_ AS price = 5",
     [("aa", 1, 4), ("aa", 5, 11), ("bb", 1, 1), ("bb", 2, 8), ("bb", 9, 10), ("cc", 1, 5), ("cc", 6, 6)]),
    # Days in pairs; what is left at the end is none.
    ("MEASURES COUNT(*) AS n, SUM(price) AS s PATTERN (^ (a b)+ c $)", "", [("aa", 11, 62), ("bb", 11, 47), ("cc", 11, 31)]),
    # As many falls as rises before a day, counted while matching.
    ("MEASURES LISTAGG(CLASSIFIER(), '') AS way PATTERN (s (u | d)+ z)", "DEFINE u AS price > PREV(price), d AS price < PREV(price), z AS COUNT(u.*) = COUNT(d.*) AND price <> PREV(price)",
     [("aa", "SDUZ"), ("aa", "SDUZ"), ("bb", "SDDDUUUZ")]),
]  # fmt: skip


def found(rest: str, define: str) -> list[Any]:
    text = f"SELECT * FROM prices MATCH_RECOGNIZE (PARTITION BY name ORDER BY day {rest} {define})"
    return [tuple(row.values()) for row in sq.sql(text, prices=TABLE).to_pylist()]


@pytest.mark.parametrize(("rest", "define", "expected"), CASES)
def test_questions_of_manuals(rest: str, define: str, expected: list[Any]) -> None:
    assert found(rest, define) == expected
