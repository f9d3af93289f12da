"""The thesis' worked examples by every strategy that applies, and its chopped ones by Chop-Connect."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import seqube as sq
from seqube.events import Events
from seqube.language import parse_file

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
FOLDERS = sorted(EXAMPLES.glob("aggregate-*"))


def load(folder: Path) -> tuple[dict[str, sq.Query], Events, dict[str, list[dict[str, Any]]]]:
    expected = json.loads((folder / "expected.json").read_text())
    return parse_file((folder / "query.sqb").read_text()), Events(str(folder / "events.csv")), expected


@pytest.mark.parametrize("strategy", ["two-step", "per-start", "window-product"])
@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_every_strategy_agrees(folder: Path, strategy: str) -> None:
    queries, events, expected = load(folder)
    for name, query in queries.items():
        assert sq.run(query, events, strategy=strategy).table.to_pylist() == expected[name]


@pytest.mark.parametrize("strategy", ["prefix-tree", "chop-connect", "independent"])
@pytest.mark.parametrize("name", ["aggregate-connect", "aggregate-snapshot", "aggregate-multi-connect"])
def test_pieces_are_connected(name: str, strategy: str) -> None:
    queries, events, expected = load(EXAMPLES / name)
    results = sq.run(queries, events, strategy=strategy)
    assert {query: results[query].table.to_pylist() for query in queries} == expected
