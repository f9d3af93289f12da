"""Which columns of texts need not travel as they are: those that a clause only compares with a few."""

from __future__ import annotations

import pytest

from seqube.events.schema import Kind
from seqube.language.rows.binder import bind_clause
from seqube.plan.rows import compared_texts

COLUMNS: dict[str, Kind] = {"ts": "number", "name": "string", "other": "string"}


@pytest.mark.parametrize(
    ("rest", "expected"),
    [
        ("MEASURES LAST(ts) AS t PATTERN (a) DEFINE a AS name = 'x'", {"name": ("x",)}),
        ("MEASURES name = 'x' AS t PATTERN (a) DEFINE a AS PREV(name) != 'z' AND 'y' = name", {"name": ("x", "y", "z")}),
        ("MEASURES 1 AS t PATTERN (a b) DEFINE b AS a.name IN ('x', 'y') AND b.name IS NOT NULL", {"name": ("x", "y")}),
        ("MEASURES 1 AS t PATTERN (a) DEFINE a AS name IS NULL AND other = 'o'", {"name": (), "other": ("o",)}),
        ("MEASURES name AS t PATTERN (a) DEFINE a AS name = 'x' AND other = 'o'", {"other": ("o",)}),
        ("MEASURES MAX(name) AS t PATTERN (a) DEFINE a AS name = 'x'", {}),
        ("MEASURES UPPER(name) = 'X' AS t PATTERN (a) DEFINE a AS name = 'x'", {}),
        ("MEASURES LISTAGG(name, ', ') AS t PATTERN (a) DEFINE a AS name = 'x'", {}),
        ("MEASURES 1 AS t PATTERN (a) DEFINE a AS name = other AND other = 'x'", {}),
        ("MEASURES 1 AS t PATTERN (a) DEFINE a AS name = PREV(name) OR name = 'x'", {}),
        ("MEASURES 1 AS t PATTERN (a) DEFINE a AS name > 'x' OR name = 'x'", {}),
        ("MEASURES 1 AS t PATTERN (a) DEFINE a AS name LIKE 'x%' OR name = 'x'", {}),
        ("MEASURES 1 AS t PATTERN (a) DEFINE a AS name IN ('x', NULL)", {}),
        ("MEASURES COUNT(name) AS t PATTERN (a) DEFINE a AS name = 'x'", {}),
        ("MEASURES 1 AS t ALL ROWS PER MATCH PATTERN (a) DEFINE a AS name = 'x'", {}),
    ],
)
def test_texts_that_a_clause_only_compares(rest: str, expected: dict[str, tuple[str, ...]]) -> None:
    assert compared_texts(bind_clause(f"ORDER BY ts {rest}", COLUMNS)) == expected


@pytest.mark.parametrize("by", ["PARTITION BY name ORDER BY ts", "ORDER BY ts, name"])
def test_what_partitions_and_orders_is_needed_as_it_is(by: str) -> None:
    text = f"{by} MEASURES 1 AS t PATTERN (a) DEFINE a AS name = 'x'"
    assert compared_texts(bind_clause(text, COLUMNS)) == {}
