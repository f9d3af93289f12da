"""Every folder of `examples/` gives the answers it says it gives, by the oracle and by the engine."""

from __future__ import annotations

import csv
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

import oracle
import seqube as sq
from answers import bag
from seqube.language import Query, parse_file

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


def cases() -> list[Any]:
    """Each query of each folder that holds expected answers: the folder, the query, the expected rows."""
    found = []
    for folder in sorted(path.parent for path in EXAMPLES.glob("*/expected.json")):
        expected = json.loads((folder / "expected.json").read_text())
        queries = parse_file((folder / "query.sqb").read_text())
        if isinstance(expected, list):
            expected = dict.fromkeys(queries, expected)
        assert queries.keys() == expected.keys(), f"{folder.name}: queries and expected answers have different names"
        found += [pytest.param(folder, query, expected[name], id=f"{folder.name}:{name}") for name, query in queries.items()]
    return found


def read(path: Path) -> tuple[list[oracle.Event], str]:
    """The events of a file, and the unit of their time: integers are milliseconds, timestamps are taken in microseconds."""
    with path.open() as file:
        rows = list(csv.DictReader(file))
    unit = "ms" if rows[0]["ts"].isdigit() else "us"
    events = []
    for row in rows:
        attributes = {name: int(value) if value.isdigit() else value for name, value in row.items() if name not in ("ts", "type")}
        events.append((row["type"], int(row["ts"]) if unit == "ms" else microseconds(row["ts"]), attributes))
    return oracle.stream(*events), unit


def microseconds(text: str) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * 1_000_000


@pytest.mark.parametrize(("folder", "query", "expected"), cases())
def test_the_oracle_agrees(folder: Path, query: Query, expected: list[dict[str, Any]]) -> None:
    events, unit = read(folder / "events.csv")
    hierarchy = folder / "hierarchy.yaml"
    tree = yaml.safe_load(hierarchy.read_text()) if hierarchy.exists() else None
    answer = oracle.aggregates if query.aggregates else oracle.results
    assert bag(answer(query, events, tree, unit)) == bag(expected)


MATCHING = ("iterative", "aggressive", "passive", "balanced", "latest-start")
COUNTING = ("two-step", "per-start", "window-product")
# Of workloads, never of one query.
SHARING = ("independent", "top-down", "bottom-up", "chase", "prefix-tree", "chop-connect", "exhaustive")


@pytest.mark.parametrize(("folder", "query", "expected"), cases())
def test_the_engine_agrees(folder: Path, query: Query, expected: list[dict[str, Any]]) -> None:
    """By every strategy that applies: all of a kind, since no example asks for more than all of them can do."""
    hierarchy = folder / "hierarchy.yaml"
    tree = sq.Hierarchy.load(str(hierarchy)) if hierarchy.exists() else None
    events = sq.Events(str(folder / "events.csv"))
    applying = COUNTING if query.aggregates else MATCHING
    for strategy in ("auto", *applying):
        assert bag(sq.run(query, events, hierarchy=tree, strategy=strategy).table.to_pylist()) == bag(expected), strategy
    for strategy in {*MATCHING, *COUNTING, *SHARING} - set(applying):
        with pytest.raises(sq.PlanError, match=f"{strategy}.* does not apply(?s:.*){applying[0]}"):
            sq.run(query, events, hierarchy=tree, strategy=strategy)
