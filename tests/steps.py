"""A stream in pieces: what comes of it, step by step, where the state goes on in place or was bytes between two steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

import oracle
from answers import counted, rows_of, show
from seqube.engine.matching import Matcher
from seqube.engine.operator import Operator
from seqube.events import Events
from seqube.language import parse
from seqube.plan.planner import plan_matches
from strategies import table


def rows(matches: pa.Table) -> list[dict[str, Any]]:
    """What each match binds, and how far a run got."""
    return [
        {name: events if name == "reached" else rows_of(events) for name, events in row.items() if name not in ("start", "end")}
        for row in matches.to_pylist()
    ]


def assert_any_cutting_equals_whole(
    text: str, events: Sequence[oracle.Event], pieces: Sequence[tuple[int, int]], watermarks: bool
) -> None:
    """Matches of the stream in these pieces are those of the whole."""
    show(text, events)
    stream, plan = Events(table(events)), plan_matches(parse(text))
    found = feed(Matcher(plan), stream, pieces, watermarks)
    assert counted(rows(found)) == counted(rows(Matcher(plan).run(stream)))


def feed(
    operator: Operator[Any, pa.Table],
    events: Events,
    pieces: Sequence[tuple[int, int]],
    watermarks: bool = False,
    saved: Sequence[bool] | None = None,
) -> pa.Table:
    """All that comes of steps over the pieces; after those where it is `saved` (all, unless told) the state goes through bytes."""
    state, found = operator.start(), []
    for number, (start, stop) in enumerate(pieces):
        state, piece = operator.step(state, events.slice(start, stop))
        found.append(piece)
        if watermarks and stop < len(events):
            state, more = operator.step(state, None, watermark=int(events.times[stop]))
            found.append(more)
        if saved is None or saved[number]:
            state = operator.restore(state.to_bytes())
    found.append(operator.finish(state)[1])
    tables = [piece for piece in found if piece is not None]
    return pa.concat_tables(tables, promote_options="permissive") if tables else pa.table({})
