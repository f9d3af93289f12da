"""Every row of docs/truth-tables.md is run: the page says what the engine does, or this fails."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import seqube as sq

PAGE = Path(__file__).resolve().parent.parent / "docs" / "truth-tables.md"
ROWS = re.findall(r"^\| `([^`]+)` \| `([^`]+)` \|([^|]*)\|", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)


def matches_of(query: str, text: str) -> list[tuple[int, ...]]:
    names = text.split()
    events = pa.table(
        {
            "type": [name[0] for name in names],
            "ts": [int(name[1:]) for name in names],
            "none": pa.nulls(len(names), pa.int64()),
        }
    )
    table = sq.run(query, sq.Events(events, unit="s")).table
    variables = [name for name in table.column_names if name not in ("start", "end")]
    return sorted(tuple(time for name in variables for time in times_of(row[name])) for row in table.to_pylist())


def times_of(bound: Any) -> list[int]:
    """The times of an event, of a list of them, or of none; of an aggregate, itself."""
    if isinstance(bound, int):
        return [bound]
    return [event["ts"] for event in bound] if isinstance(bound, list) else [bound["ts"]] if bound else []


def test_the_page_has_its_tables() -> None:
    assert len(ROWS) > 90


@pytest.mark.parametrize(("query", "events", "expected"), ROWS)
def test_row(query: str, events: str, expected: str) -> None:
    told = [tuple(int(time) for time in group.split(",")) for group in re.findall(r"\(([\d, ]+)\)", expected)]
    assert matches_of(query, events) == sorted(told)
