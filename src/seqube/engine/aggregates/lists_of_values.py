"""Lists of values, one for each cell: how they are made of matches, joined, and what is made of them.

Values that are in order are beside the times at which their matches ended and began. The first value is that of the match that
ended first; of those that ended together, of the one that began first; of those, the smallest: so it depends on no order of input,
and on no cut of a stream. The last is its contrary.

Cost: a sort of the values. Invariant: a list holds no null.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from seqube.engine import numbers
from seqube.engine.predicates import Ints, normalise
from seqube.events.schema import value_type

ENDED, BEGAN, TAKEN = "end", "start", "value"


def listed(column: pa.Array) -> pa.Array:
    """A column as values that are listed: of the same type whatever its rows are."""
    values = normalise(column)
    return column.cast(pa.uint64()) if pat.is_uint64(value_type(column.type)) else values


def in_lists(cells: Ints, values: pa.Array, n_cells: int) -> pa.ListArray:
    """The values of every cell, whose numbers are given for each value."""
    offsets = np.zeros(n_cells + 1, np.int64)
    np.cumsum(np.bincount(cells, minlength=n_cells), out=offsets[1:])
    return pa.LargeListArray.from_arrays(pa.array(offsets), values.take(pa.array(np.argsort(cells, kind="stable"))))


def joined_lists(lists: pa.Array, groups: Ints, n_groups: int) -> pa.ListArray:
    """The lists of each group as one."""
    return in_lists(groups[_cells(lists)], lists.flatten(), n_groups)


def _cells(lists: pa.Array) -> Ints:
    sizes = np.asarray(lists.value_lengths())
    return np.repeat(np.arange(len(lists)), sizes)


def n_distinct(lists: pa.Array) -> pa.Array:
    """How many different values each has."""
    values = lists.flatten()
    if pat.is_floating(values.type):
        values = pc.add(values, 0.0)  # -0.0 equals 0.0
    pairs = pa.table({"cell": _cells(lists), "value": values}).group_by(["cell", "value"]).aggregate([])
    return pa.array(np.bincount(pairs.column("cell").to_numpy(), minlength=len(lists)).astype(np.int64))


def percentile(lists: pa.Array, share: float, kind: pa.DataType) -> pa.Array:
    """The value below which this share of them lies, as doubles: between two, in proportion. Of durations, to the microsecond."""
    values = lists.flatten()
    values = values.cast(pa.int64()) if pat.is_duration(values.type) or pat.is_null(values.type) else values
    doubles, cells = np.asarray(numbers.double(values)), _cells(lists)
    doubles = doubles[np.lexsort((doubles, cells))]
    sizes = np.asarray(lists.value_lengths()).astype(np.int64)
    known = np.flatnonzero(sizes)
    places = share * (sizes[known] - 1)
    low = np.floor(places).astype(np.int64)
    parts, firsts = places - low, (np.cumsum(sizes) - sizes)[known]
    below, above = doubles[firsts + low], doubles[firsts + np.minimum(low + 1, sizes[known] - 1)]
    with np.errstate(invalid="ignore"):
        between = np.where((parts == 0) | (below == above), below, below + (above - below) * parts)
    found = np.full(len(lists), np.nan)
    found[known] = between
    result = numbers.without_nan(pa.array(found))
    return pc.round(result).cast(pa.int64()).cast(kind) if pat.is_duration(kind) else result


def at_an_end(lists: pa.Array, first: bool) -> pa.Array:
    """The first value of each, or the last; null where there is none."""
    structs, cells = lists.flatten(), _cells(lists)
    values = structs.field(TAKEN)
    ranked = values.cast(pa.int8()) if pat.is_boolean(values.type) else values
    ranks = (
        np.asarray(pc.rank(ranked, tiebreaker="dense")) if len(values) and not pat.is_null(values.type) else np.zeros(len(values))
    )
    order = np.lexsort((ranks, structs.field(BEGAN).to_numpy(), structs.field(ENDED).to_numpy(), cells))
    sizes = np.asarray(lists.value_lengths()).astype(np.int64)
    stops = np.cumsum(sizes)
    places = np.where(sizes > 0, stops - sizes if first else stops - 1, 0)
    chosen = order[np.minimum(places, max(len(order) - 1, 0))] if len(order) else places
    return values.take(pa.array(chosen, mask=sizes == 0))
