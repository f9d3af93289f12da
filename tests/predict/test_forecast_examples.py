"""The folders `examples/forecast-*` give the predictions they say they give, by the oracle and by every strategy."""

from __future__ import annotations

import csv
import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from predict.oracle import predictions
from seqube.predict import Rules, forecast
from seqube.predict.matcher import EPISODE_STRATEGIES

FOLDERS = sorted((Path(__file__).resolve().parents[2] / "examples").glob("forecast-*"))


def plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else value


@pytest.fixture(params=FOLDERS, ids=lambda folder: folder.name)
def folder(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    return path


@pytest.mark.parametrize("strategy", EPISODE_STRATEGIES)
def test_strategies_agree(folder: Path, strategy: str) -> None:
    expected = json.loads((folder / "predictions.json").read_text())
    found = forecast(folder / "rules.yaml", folder / "events.csv", strategy=strategy)
    assert [{name: plain(value) for name, value in row.items()} for row in found.table.to_pylist()] == expected["predictions"]
    assert found.outcomes["outcome"].to_pylist() == expected["outcomes"]


def test_the_oracle_agrees(folder: Path) -> None:
    rules = Rules.load(folder / "rules.yaml")
    with (folder / "events.csv").open() as file:
        rows = list(csv.DictReader(file))
    in_ticks = rows[0]["ts"].isdigit()
    epoch = datetime.fromisoformat("1970-01-01")
    stream = [
        (row["type"], int(row["ts"]) if in_ticks else round((datetime.fromisoformat(row["ts"]) - epoch).total_seconds() * 1e6))
        for row in rows
    ]
    found = []
    for number, rule in enumerate(rules):
        vertices = {vertex.alias: vertex.type for vertex in rule.vertices}
        for start, end, _, _ in predictions(stream, vertices, list(rule.edges), *rule.ticks("ms" if in_ticks else "us")):
            found.append((end, number, start))
    expected = json.loads((folder / "predictions.json").read_text())["predictions"]
    names = [rule.name for rule in rules]

    def ticks(value: Any) -> int:
        return value if in_ticks else round((datetime.fromisoformat(value) - epoch).total_seconds() * 1e6)

    assert sorted(found) == [(ticks(row["end"]), names.index(row["rule"]), ticks(row["start"])) for row in expected]
