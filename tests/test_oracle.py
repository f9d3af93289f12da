"""The oracle must be right before others are held to it: it is held to cases that were worked out by hand (`hand_worked.py`)."""

from __future__ import annotations

from typing import Any

import pytest

from hand_worked import CASES, events
from oracle import aggregates, matches, results, stream
from seqube.language import parse

NAN = float("nan")


def found(query: str, text: str, hierarchy: Any = None) -> list[str]:
    """The matches, each as the names of its events."""
    given = events(text)
    names = [f"{event.type}{event.ts}" for event in given]
    return [" ".join("-" if row is None else names[row] for row in m.values()) for m in matches(parse(query), given, hierarchy)]


@pytest.mark.parametrize(("query", "text", "expected"), CASES)
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


FUNCTIONS = "SUM(b.id), AVG(b.id), MIN(b.id), MAX(b.id)"
AGGREGATES = [
    # ON TRIGGER: a row at every B, over the window that ends there
    ("SEQ(A, B) AGG COUNT(*) WITHIN 3", "A1 B2 B3 B4", [(2, 1), (3, 2), (4, 0)]),
    ("SEQ(A, B) AGG COUNT WITHIN 3 EMIT ON TRIGGER", "B1 A2", [(1, 0)]),
    # two triggers with one timestamp give one row; events of the trigger's own time all count
    ("SEQ(A, B) AGG COUNT(*) WITHIN 3", "A1 B2 B2", [(2, 2)]),
    # what fails its own predicates is no trigger; what fails others is
    ("SEQ(A a, B b, b.id > 1) AGG COUNT(*) WITHIN 9", "A1 B2:1 B3:2", [(3, 1)]),
    ("SEQ(A a, B b) WHERE b.id > 1 AGG COUNT(*) WITHIN 9", "A1 B2:1 B3:2", [(3, 1)]),
    ("SEQ(A a, B b, b.id > a.id) AGG COUNT(*) WITHIN 9", "A1:1 B2:1 B3:2", [(2, 0), (3, 1)]),
    # trailing negation: the matches not cancelled so far
    ("SEQ(A, B, !C) AGG COUNT(*) WITHIN 9", "A1 B2 C3 B4", [(2, 1), (4, 1)]),
    ("SEQ(A, B, !C) AGG COUNT(*) WITHIN 9", "A1 B2 B4 C4", [(2, 1), (4, 1)]),
    ("SEQ(A, !C, B) AGG COUNT(*) WITHIN 9", "A1 C2 B3 A4 B5", [(3, 0), (5, 1)]),
    # not a SEQ that ends in a type: the times at which matches end
    ("AND(A, B) AGG COUNT(*) WITHIN 3", "A1 B2 B3 A5", [(2, 1), (3, 2), (5, 1)]),
    ("SEQ(A, OR(B, C)) AGG COUNT(*) WITHIN 9", "B1 A2 B3 C4", [(3, 1), (4, 2)]),
    # functions: null is skipped, over nothing they are null
    (f"SEQ(A, B b) AGG COUNT(*), {FUNCTIONS} WITHIN 9 EMIT TOTAL", "A1 B2:1 B3:- B4:4", [(3, 5, 2.5, 1, 4)]),
    (f"SEQ(A, B b) AGG COUNT(*), {FUNCTIONS} WITHIN 9 EMIT TOTAL", "A1", [(0, None, None, None, None)]),
    # a match counts once each
    ("SEQ(A, B b) AGG SUM(b.id) WITHIN 9 EMIT TOTAL", "A1 A2 B3:5", [(10,)]),
    ("SEQ(A a, B) AGG SUM(a.id) WITHIN 9 EMIT TOTAL", "A1:9223372036854775807 B2 B3", [(18446744073709551614,)]),
    # TOTAL: all matches of the input, one row per group
    ("SEQ(A, B) AGG COUNT(*) WITHIN 3 EMIT TOTAL", "A1 B2 B3 A5 B6", [(3,)]),
    ("SEQ(A a, B) GROUP BY a.id AGG COUNT(*) WITHIN 9 EMIT TOTAL", "A1:1 A2:2 A3:- B4 B5", [(1, 2), (2, 2), (None, 2)]),
    ("SEQ(A a, B) GROUP BY a.id AGG COUNT(*) WITHIN 9 EMIT TOTAL", "A1:1", []),
    ("OR(A a, B b) GROUP BY a.type AGG COUNT(*) WITHIN 9 EMIT TOTAL", "A1 B2 B3", [("A", 1), (None, 2)]),
    # EVERY: at the multiples, over the window (t - W, t]
    ("SEQ(A, B) AGG COUNT(*) WITHIN 4 EMIT EVERY 3", "A1 B2 B4 B7", [(3, 1), (6, 0), (9, 0)]),
    ("SEQ(A, B) AGG COUNT(*) WITHIN 6 EMIT EVERY 3", "A1 B3 B4 B6", [(3, 1), (6, 3)]),
    ("SEQ(A a, B) GROUP BY a.id AGG COUNT(*) WITHIN 9 EMIT EVERY 4", "A1:1 B2 A3:2 B6", [(4, 1, 1), (8, 1, 2), (8, 2, 1)]),
    ("SEQ(A, B) AGG COUNT(*) WITHIN 4 EMIT EVERY 3", "", []),
    # GROUP BY with ON TRIGGER: the groups with a new match ...
    ("SEQ(A a, B) GROUP BY a.id AGG COUNT(*) WITHIN 3", "A1:1 B2 A3:2 B4", [(2, 1, 1), (4, 2, 1)]),
    # ... and the trigger's own group even at 0
    ("SEQ(A a, B b) GROUP BY b.id AGG COUNT(*) WITHIN 3", "B1:7 A2 B3:7 B3:8 B9:7", [(1, 7, 0), (3, 7, 1), (3, 8, 1), (9, 7, 0)]),
    (
        "SEQ(A a, B b) PARTITION BY id GROUP BY id AGG COUNT(*) WITHIN 9",
        "A1:1 B2:2 B3:1 B4:- B5:1",
        [(2, 2, 0), (3, 1, 1), (5, 1, 2)],
    ),
    # PARTITION BY alone restricts the matches and does not split the result
    ("SEQ(A a, B b) PARTITION BY id AGG COUNT(*) WITHIN 9", "A1:1 A1:2 B2:2 B2:1 B4:-", [(2, 2)]),
    # tuple-count window: the last n events up to the trigger's time
    ("SEQ(A, B) AGG COUNT(*) WITHIN 3 EVENTS", "A1 B2 B3 B4", [(2, 1), (3, 2), (4, 0)]),
    # HAVING filters the rows
    ("SEQ(A, B) AGG COUNT(*) HAVING COUNT(*) > 1 WITHIN 3", "A1 B2 B3 B4", [(3, 2)]),
    ("SEQ(A, B b) AGG SUM(b.id) AS total HAVING total > 1 WITHIN 9", "A1 B2:1 B3:1", [(3, 2)]),
]


@pytest.mark.parametrize(("query", "text", "expected"), AGGREGATES)
def test_aggregates(query: str, text: str, expected: list[tuple[Any, ...]]) -> None:
    assert aggregated(query, text) == expected


def test_aggregate_columns() -> None:
    query = "SEQ(A a, B b) PARTITION BY id GROUP BY id, b.type AGG COUNT(*), AVG(b.x), MAX(a.x) AS top WITHIN 9"
    given = stream(("A", 1, {"id": 1, "x": 3}), ("B", 2, {"id": 1, "x": 4}))
    assert aggregates(parse(query), given) == [{"ts": 2, "id": 1, "b_type": "B", "count": 1, "avg_b_x": 4.0, "top": 3}]
