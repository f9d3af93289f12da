"""The example folders with several queries give their answers by every strategy, and as the moves of a cube."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import seqube as sq
from answers import bag
from seqube.language import parse_file
from seqube.plan.strategies import names

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
FOLDERS = ["ecube-figure-1", *sorted(path.name for path in EXAMPLES.glob("cube-*"))]


def read(name: str) -> tuple[dict[str, sq.Query], sq.Events, sq.Hierarchy, dict[str, list[dict[str, Any]]]]:
    folder = EXAMPLES / name
    queries = parse_file((folder / "query.sqb").read_text())
    expected = json.loads((folder / "expected.json").read_text())
    return queries, sq.Events(str(folder / "events.csv")), sq.Hierarchy.load(folder / "hierarchy.yaml"), expected


@pytest.mark.parametrize("strategy", names("shared matches"))
@pytest.mark.parametrize("name", FOLDERS)
def test_by_every_strategy(name: str, strategy: str) -> None:
    queries, events, hierarchy, expected = read(name)
    results = sq.run(queries, events, hierarchy=hierarchy, strategy=strategy)
    assert {query: bag(result.table.to_pylist()) for query, result in results.items()} == {
        query: bag(rows) for query, rows in expected.items()
    }


def test_the_moves_lead_where_they_say() -> None:
    queries, events, hierarchy, expected = read("cube-moves")
    cubes = {name: sq.Cube(events, query, hierarchy=hierarchy) for name, query in queries.items()}
    moves = {
        "down-by-concept": cubes["start"].drill_down(concept=[("TX", "D", 1)]),
        "down-by-both-concepts": cubes["start"].drill_down(concept=[("TX", "D", 1), ("OK", "T", 2)]),
        "down-by-pattern": cubes["from-three"].drill_down(pattern=[("!D", 2)]),
        "up-by-pattern": cubes["from-four"].roll_up(pattern=[("G", 1), ("A", 2)]),
        "up-by-concept": cubes["up-by-pattern"].roll_up(concept=[("D", "TX", 1)]),
    }
    for name, cube in moves.items():
        assert cube.pattern == cubes[name].pattern
        assert cube.count == cubes[name].count == len(expected[name])


def test_bottom_up_reuses_what_the_examples_say() -> None:
    for name, sources in {"cube-pattern-up": {"q6": None, "q3": "q6"}, "cube-concept-up": {"q2": None, "q1": "q2"}}.items():
        queries, events, hierarchy, _ = read(name)
        explained = sq.explain(queries, events, hierarchy=hierarchy, strategy="bottom-up")
        assert {node["id"]: node["source"] for node in explained.graph["nodes"]} == sources
    queries, events, hierarchy, _ = read("cube-pattern-down")
    explained = sq.explain(queries, events, hierarchy=hierarchy, strategy="top-down")
    assert {node["id"]: node["source"] for node in explained.graph["nodes"]} == {"q3": None, "q6": "q3", "q7": "q3"}
