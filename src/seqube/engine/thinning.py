"""Which rows of a result remain: of equal ones the first (RETURN DISTINCT), and so many at most (LIMIT).

Rows come in pieces and are let through as they come, so a LIMIT ends whatever finds them. Equal is what is equal as a key, and null
is equal to null: each column is coded by itself, its nulls too, and a row is known by the codes of its columns.

Cost: a look-up per value; the distinct rows are held, as codes. Invariant: thinning what is thinned changes nothing, so tasks may
thin their parts of a result, which is thinned again when they are put together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from seqube.engine.display import flat
from seqube.engine.partitions import KeyCodes
from seqube.plan.physical import MatchPlan


def thinned(plan: MatchPlan, pieces: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """The rows of a plan that remain of all that are found."""
    seen = _Seen() if plan.is_distinct else None
    room = plan.limit
    if room == 0:
        return
    for piece in pieces:
        if seen is not None:
            piece = seen.new_in(piece)
        if room is not None:
            piece = piece.slice(0, room)
            room -= len(piece)
        yield piece
        if room == 0:
            return


class _Seen:
    """The rows that were there so far."""

    def __init__(self) -> None:
        self._columns: list[KeyCodes] = []
        self._rows: KeyCodes | None = None

    def new_in(self, table: pa.Table) -> pa.Table:
        """The rows that were not there before, each once."""
        columns = flat(table)
        if self._rows is None:
            self._columns = [KeyCodes([name], has_values=False) for name in columns.column_names]
            self._rows = KeyCodes(columns.column_names, has_values=False)
        if not len(table):
            return table
        codes = [known.code([column.combine_chunks()]) for known, column in zip(self._columns, columns.columns, strict=True)]
        n_known = len(self._rows)
        _, firsts = np.unique(rows := self._rows.code_whole(np.stack(codes)), return_index=True)
        return table.take(pa.array(np.sort(firsts[rows[firsts] >= n_known])))
