"""Functions of values: every row of `function_rows`, over columns and between two events."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import seqube as sq
from function_rows import ROWS, naive, numbered, of, plain, table
from seqube.engine.functions import COMPUTED
from seqube.language.functions import VALUE_FUNCTIONS

EVENTS = sq.Events(table())
EXPRESSIONS = [expression for expression, _ in ROWS]


def test_every_function_has_rows() -> None:
    text = " ".join(EXPRESSIONS)
    assert [name for name in VALUE_FUNCTIONS if name.split()[-1] not in text] == []
    assert set(COMPUTED) == set(VALUE_FUNCTIONS) - {
        "CASE",
        "CAST",
        "COALESCE",
        "NULLIF",
        "LEAST",
        "GREATEST",
        "IS DISTINCT FROM",
        "MOD",
    }


def test_the_page_has_every_function() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "functions.md").read_text(encoding="utf-8").replace("\\|", "|")
    assert [row.call for row in VALUE_FUNCTIONS.values() if f"\n| `{row.call}` | {row.meaning} |\n" not in page] == []


def test_an_expression_that_cannot_be_read_is_an_error() -> None:
    with pytest.raises(sq.QueryError, match=r"RLIKE cannot be computed: .*missing \)"):
        sq.run("A a WHERE a.s RLIKE '(' WITHIN 9", EVENTS)


@pytest.mark.parametrize(
    ("zone", "condition", "n"),
    [
        (None, "a.ts >= '2026-03-29 00:00'", 1),
        ("Europe/Berlin", "a.ts >= '2026-03-29 00:00'", 2),
        ("Europe/Berlin", "a.ts >= '2026-03-29T00:00Z'", 1),
        ("Europe/Berlin", "a.ts IN ('2026-03-29')", 1),
        ("Europe/Berlin", "COALESCE(a.ts, '2026-03-29') < '2026-03-29 00:00:01'", 1),
        ("Europe/Berlin", "a.ts = CAST('2026-03-29 00:00' AS TIMESTAMP)", 1),
        ("+05:30", "a.ts >= '2026-03-29 04:30:00'", 2),
    ],
)
def test_a_time_without_a_zone_is_in_that_of_the_time_column(zone: str | None, condition: str, n: int) -> None:
    moments = [naive("2026-03-28 23:00"), naive("2026-03-29 00:30")]  # in UTC
    times = pa.array(moments, pa.timestamp("us", "UTC")).cast(pa.timestamp("us", zone))
    assert len(sq.run(f"A a WHERE {condition} WITHIN 1 s", pa.table({"type": ["A", "A"], "ts": times}))) == n


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_on_columns(expression: str) -> None:
    asked = [(number, given, value) for number, other, given, value in numbered() if other == expression]
    rows = f"a.row BETWEEN {asked[0][0]} AND {asked[-1][0]}"
    found = sq.run(f"A a WHERE {rows} WITHIN 9 RETURN a.row AS row, {of(expression, 'a.{0}')} AS v", EVENTS).table.to_pylist()
    by_row = {row["row"]: row["v"] for row in found}
    assert [(given, plain(by_row[number])) for number, given, _ in asked] == [(given, plain(value)) for _, given, value in asked]


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_between_two_events(expression: str) -> None:
    """Each column is one of another event too, so that the whole is asked of both; the answer is that of one event."""
    both = of(expression, "(CASE WHEN b.row >= 0 THEN a.{0} END)")
    query = f"SEQ(A a, B b, a.row = b.row) WHERE ({both}) IS NOT DISTINCT FROM ({of(expression, 'b.{0}')}) WITHIN 9"
    assert len(sq.run(query, EVENTS)) == len(numbered())
