"""A stream in pieces: what comes of it, step by step, when the state between any two steps was bytes."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from seqube.engine.aggregates.aggregation import Aggregator
from seqube.engine.aggregates.state import State as AggregateState
from seqube.engine.state import Matcher, State
from seqube.events import Events


def rows(matches: pa.Table) -> list[dict[str, Any]]:
    return [
        {name: event and event["row"] for name, event in row.items() if name not in ("start", "end")} for row in matches.to_pylist()
    ]


def feed(matcher: Matcher, events: Events, pieces: list[tuple[int, int]], watermarks: bool = False) -> list[dict[str, Any]]:
    """The rows found by steps over the pieces; the state goes through bytes between any two."""
    state, found = matcher.start(), []
    for start, stop in pieces:
        piece = events.slice(start, stop)
        state, matches = matcher.step(state, piece)
        found += rows(matches)
        if watermarks and stop < len(events):
            state, more = matcher.finish(state, watermark=int(events.times[stop]))
            assert more is not None
            found += rows(more)
        state = State.from_bytes(state.to_bytes())
    state, matches_left = matcher.finish(state)
    return found + (rows(matches_left) if matches_left is not None else [])


def feed_reports(aggregator: Aggregator, events: Events, pieces: list[tuple[int, int]], watermarks: bool) -> list[dict[str, Any]]:
    """The rows reported by steps over the pieces; the state goes through bytes between any two."""
    state, rows = aggregator.start(), []
    for start, stop in pieces:
        state, reported = aggregator.step(state, events.slice(start, stop))
        rows += reported.to_pylist()
        if watermarks and stop < len(events):
            state, more = aggregator.finish(state, watermark=int(events.times[stop]))
            assert more is not None
            rows += more.to_pylist()
        state = AggregateState.from_bytes(state.to_bytes())
    state, rest = aggregator.finish(state)
    return rows + (rest.to_pylist() if rest is not None else [])
