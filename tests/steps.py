"""A stream in pieces: what comes of it, step by step, where the state goes on in place or was bytes between two steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from answers import rows_of
from seqube.engine.operator import Operator
from seqube.events import Events


def rows(matches: pa.Table) -> list[dict[str, Any]]:
    return [{name: rows_of(events) for name, events in row.items() if name not in ("start", "end")} for row in matches.to_pylist()]


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
        state, table = operator.step(state, events.slice(start, stop))
        found.append(table)
        if watermarks and stop < len(events):
            state, more = operator.step(state, None, watermark=int(events.times[stop]))
            found.append(more)
        if saved is None or saved[number]:
            state = operator.restore(state.to_bytes())
    found.append(operator.finish(state)[1])
    tables = [table for table in found if table is not None]
    return pa.concat_tables(tables, promote_options="permissive") if tables else pa.table({})
