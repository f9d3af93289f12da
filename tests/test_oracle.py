"""The oracle must be right before others are held to it: it is held to cases that were worked out by hand (`hand_worked.py`)."""

from __future__ import annotations

from typing import Any

import pytest

from hand_worked import AGGREGATES, CASES, PARTIAL, RUNS, events
from oracle import Event, aggregates, matches, partial_runs, results, stream
from seqube.language import parse

NAN = float("nan")


def found(query: str, text: str, hierarchy: Any = None) -> list[str]:
    """The matches, each as the names of its events."""
    given = events(text)
    return [shown(match, given) for match in matches(parse(query), given, hierarchy)]


def shown(match: dict[str, Any], given: list[Event]) -> str:
    names = [f"{event.type}{event.ts}" for event in given]
    lists = {v: f"[{' '.join(names[row] for row in rows)}]" for v, rows in match.items() if isinstance(rows, tuple)}
    return " ".join(lists[v] if v in lists else "-" if row is None else names[row] for v, row in match.items())


@pytest.mark.parametrize(("query", "text", "expected"), PARTIAL)
def test_partial_runs(query: str, text: str, expected: list[str]) -> None:
    given = events(text)
    told = partial_runs(parse(query), given)
    found = [f"{shown({v: run[v] for v in run if v not in ('start', 'end', 'reached')}, given)} {run['reached']}" for run in told]
    assert found == expected


@pytest.mark.parametrize(("query", "text", "expected"), CASES + RUNS)
def test_matches(query: str, text: str, expected: list[str]) -> None:
    assert sorted(found(query, text)) == sorted(expected)


def test_a_concept_matches_its_descendants() -> None:
    hierarchy = {"P": {"Q": ["A", "B"]}, "C": None}
    assert found("SEQ(P, C) WITHIN 10", "A1 B2 C3 P4 C5", hierarchy) == ["A1 C3", "A1 C5", "B2 C3", "B2 C5", "P4 C5"]
    assert found("SEQ(A, !Q, C) WITHIN 10", "A1 B2 C3", hierarchy) == []
    assert found("SEQ(A, !Q, C) WITHIN 10", "A1 P2 C3", hierarchy) == ["A1 C3"]
    assert found("SEQ(Q, C) WITHIN 10", "A1 C3", ["C", {"Q": ["A"]}]) == ["A1 C3"]


def test_nan_is_null() -> None:
    given = stream(("A", 1, {"y": NAN}), ("A", 2, {"y": 1.0}))
    assert matches(parse("A a WHERE a.y IS NULL WITHIN 1"), given) == [{"a": 0}]
    assert matches(parse("A a WHERE a.y != 2 WITHIN 1"), given) == [{"a": 1}]
    assert matches(parse("SEQ(A a, A b, [y]) WITHIN 5"), stream(("A", 1, {"y": NAN}), ("A", 2, {"y": NAN}))) == []


def test_a_boolean_is_a_predicate() -> None:
    given = stream(("A", 1, {"f": True}), ("A", 2, {"f": False}), ("A", 3, {"f": None}))
    assert matches(parse("A a WHERE a.f WITHIN 1"), given) == [{"a": 0}]
    assert matches(parse("A a WHERE NOT a.f WITHIN 1"), given) == [{"a": 1}]


def test_units_of_time() -> None:
    given = stream(("A", 0), ("B", 59), ("B", 60))
    assert matches(parse("SEQ(A, B) WITHIN 1 min"), given, unit="s") == [{"A": 0, "B": 1}]
    assert matches(parse("SEQ(A, B) WITHIN 60"), given, unit="s") == [{"A": 0, "B": 1}]


def test_default_columns() -> None:
    given = stream(("A", 1, {"id": 5}), ("B", 3, {"id": None}))
    assert results(parse("SEQ(A a, OR(B b, C c)) WITHIN 9"), given) == [
        {"start": 1, "end": 3, "a": {"type": "A", "ts": 1, "id": 5}, "b": {"type": "B", "ts": 3, "id": None}, "c": None}
    ]


def test_returned_columns() -> None:
    given = stream(("A", 1, {"id": 5, "k": 7}), ("B", 3, {"id": None, "k": 7}))
    query = "SEQ(A a, B b) PARTITION BY k WITHIN 9 RETURN a.id, b.ts - a.ts AS lag, a.id + b.id AS total, a.id / 2 AS half, k"
    assert results(parse(query), given) == [{"a_id": 5, "lag": 2, "total": None, "half": 2.5, "k": 7}]


# ---------------------------------------------------------------- aggregates


def aggregated(query: str, text: str) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in aggregates(parse(query), events(text))]


@pytest.mark.parametrize(("query", "text", "expected"), AGGREGATES)
def test_aggregates(query: str, text: str, expected: list[tuple[Any, ...]]) -> None:
    assert aggregated(query, text) == expected


def test_aggregate_columns() -> None:
    query = "SEQ(A a, B b) PARTITION BY id GROUP BY id, b.type AGG COUNT(*), AVG(b.x), MAX(a.x) AS top WITHIN 9"
    given = stream(("A", 1, {"id": 1, "x": 3}), ("B", 2, {"id": 1, "x": 4}))
    assert aggregates(parse(query), given) == [{"ts": 2, "id": 1, "b_type": "B", "count": 1, "avg_b_x": 4.0, "top": 3}]
