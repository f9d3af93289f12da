"""Answers side by side: what the engine finds against what the oracle says, in no order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from hypothesis import note

import oracle
import seqube as sq
from oracle_values import moments_in
from seqube.language import parse
from strategies import Clock, table


def show(text: str, events: Sequence[oracle.Event], hierarchy: Any = None) -> None:
    """The case, as a person would write it down, beside Hypothesis' own account of it."""
    note(text)
    if hierarchy:
        note(f"hierarchy {hierarchy}")
    for event in events:
        values = " ".join(f"{name}={value!r}" for name, value in event.attributes.items() if value is not None)
        note(f"{event.row:>2}  {event.type}{event.ts} {values}")


def run(text: str, events: Sequence[oracle.Event], hierarchy: Any = None, clock: Clock | None = None) -> list[dict[str, Any]]:
    given_hierarchy = sq.Hierarchy.from_dict(hierarchy) if hierarchy else None
    stream = clock.table(events) if clock else table(events)
    rows: list[dict[str, Any]] = sq.run(text, stream, unit="ms", hierarchy=given_hierarchy).table.to_pylist()
    return rows


def assert_equal_matches(text: str, events: Sequence[oracle.Event], hierarchy: Any = None, clock: Clock | None = None) -> None:
    show(text, events, hierarchy)
    expected = oracle.matches(parse(text), events, hierarchy, moments_in(clock.zone) if clock else "ms")
    found = run(text, events, hierarchy, clock)
    rows = [{name: rows_of(events) for name, events in row.items() if name not in ("start", "end")} for row in found]
    assert counted(rows) == counted(expected)
    for row in found:
        bound = [events for name, events in row.items() if name not in ("start", "end") and events]
        times = [event["ts"] for events in bound for event in (events if isinstance(events, list) else [events])]
        assert (row["start"], row["end"]) == (min(times), max(times))


def rows_of(bound: Any) -> Any:
    """The row of an event, or the rows of a list of them."""
    return tuple(event["row"] for event in bound) if isinstance(bound, list) else bound and bound["row"]


def shown(row: dict[str, Any]) -> str:
    """A match as hand-worked cases write it."""

    def named(event: dict[str, Any] | None) -> str:
        return f"{event['type']}{event['ts']}" if event else "-"

    bound = [events for name, events in row.items() if name not in ("start", "end", "reached")]
    return " ".join(f"[{' '.join(map(named, events))}]" if isinstance(events, list) else named(events) for events in bound)


def counted(rows: list[dict[str, Any]]) -> Counter[tuple[tuple[str, Any], ...]]:
    """The rows as a multiset: order means nothing, how often a row comes does."""
    return Counter(tuple(sorted(row.items())) for row in rows)


def bag(rows: list[dict[str, Any]]) -> Counter[tuple[tuple[str, Any], ...]]:
    return Counter(tuple(row.items()) for row in rows)
