"""A stream in pieces: what comes of it, step by step, when the state between any two steps was bytes."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from answers import rows_of
from seqube.engine.operator import Operator
from seqube.events import Events


def rows(matches: pa.Table) -> list[dict[str, Any]]:
    return [{name: rows_of(events) for name, events in row.items() if name not in ("start", "end")} for row in matches.to_pylist()]


def feed(operator: Operator[Any, pa.Table], events: Events, pieces: list[tuple[int, int]], watermarks: bool = False) -> pa.Table:
    """All that comes of steps over the pieces; the state goes through bytes between any two."""
    state, found = operator.start(), []
    for start, stop in pieces:
        state, table = operator.step(state, events.slice(start, stop))
        found.append(table)
        if watermarks and stop < len(events):
            state, more = operator.step(state, None, watermark=int(events.times[stop]))
            found.append(more)
        state = operator.restore(state.to_bytes())
    found.append(operator.finish(state)[1])
    tables = [table for table in found if table is not None]
    return pa.concat_tables(tables, promote_options="permissive") if tables else pa.table({})
