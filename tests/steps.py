"""A stream in pieces: what comes of it, step by step, where the state goes on in place or was bytes between two steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

import oracle
from answers import counted, rows_of, show
from seqube.engine.matching import Matcher
from seqube.engine.operator import Operator
from seqube.events import Events
from seqube.language import parse
from seqube.language.definitions import spell_out
from seqube.plan.planner import plan_matches
from strategies import cuts, table


def rows(matches: pa.Table) -> list[dict[str, Any]]:
    """What each match binds, and how far a run got."""
    return [
        {name: events if name == "reached" else rows_of(events) for name, events in row.items() if name not in ("start", "end")}
        for row in matches.to_pylist()
    ]


def assert_goes_on(
    data: st.DataObject, text: str, events: Sequence[oracle.Event], operator: Operator[Any, pa.Table] | None = None
) -> None:
    """Cut anywhere, time told or not, bytes between two steps or not: the oracle's matches, by this operator or the query's own."""
    show(text, events)
    found = feed_anyhow(data, operator or Matcher(plan_matches(spell_out(parse(text)))), events)
    assert counted(rows(found)) == counted(oracle.matches(parse(text), events))


def feed_anyhow(data: st.DataObject, operator: Operator[Any, pa.Table], events: Sequence[oracle.Event]) -> pa.Table:
    """All that comes of steps over any pieces, wherever time is told and the state saved."""
    pieces = data.draw(cuts(len(events)))
    saved = data.draw(st.lists(st.booleans(), min_size=len(pieces), max_size=len(pieces)))
    return feed(operator, Events(table(events)), pieces, data.draw(st.booleans()), saved)


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
