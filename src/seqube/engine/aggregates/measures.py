"""Measures as a table: what is computed over matches, by which arithmetic, and what an aggregate is made of.

A measure is a number (or value) per cell. Every strategy can compute three kinds:

    Count     how many matches, or values, there are
    Sum       what the events of a variable weigh, added up over matches: whole numbers exactly, else doubles
    Extreme   the smallest of numbers that stand for the values, by (min, +)

A row says what is added up or compared, how the totals of two pieces of a stream become one, and which other measures of the same
argument it needs. `FINISHES` are the functions by which an aggregate is made of its measures; `language/functions.py` says which.

Cost: a pass over the column for what its rows weigh, a pass over the cells to finish.
Invariant: strategies ask the rows; no other module knows a measure by its name, but for COUNT, how many there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from seqube.engine.aggregates.measured import Measured, mean_of, total_of
from seqube.errors import PlanError

Row = TypeVar("Row")
Moved = Callable[[Mapping[str, pa.Array], Mapping[str, pa.Array]], pa.Array]
Finish = Callable[
    ..., pa.Array
]  # the kind of the argument (None: it has none), and the measures in the order of the aggregate's row


@dataclass(frozen=True, slots=True)
class Weights:
    """What is added up for a measure, and what it is then: `total` of the number of values in each cell and the sums, in order."""

    parts: tuple[Measured, ...]
    total: Callable[..., pa.Array]


@dataclass(frozen=True, slots=True)
class Count:
    """A measure to which every value (or match) adds one."""

    name: str
    merge: str = "sum"  # in Arrow's words


@dataclass(frozen=True, slots=True)
class Sum:
    """A measure that is added up."""

    name: str
    weights: Callable[[Measured], Weights]
    needs: tuple[str, ...] = ()
    merge: str = "sum"
    moved: Moved | None = (
        None  # what pieces add, where it is more than their numbers: from their measures and those of their groups
    )


@dataclass(frozen=True, slots=True)
class Extreme:
    """A measure that is the smallest, or with sign -1 the largest."""

    name: str
    merge: str
    sign: float


Means = Count | Sum | Extreme


def _plain(column: Measured) -> Weights:
    """The values themselves; null where there are none."""
    return Weights((column,), lambda counts, sums: pc.if_else(pc.equal(counts, _zero(counts)), pa.scalar(None, sums.type), sums))


def _zero(values: pa.Array) -> pa.Scalar:
    return pa.scalar(0, pa.int64()).cast(values.type)


MEASURES: dict[str, Means] = {
    row.name: row
    for row in (
        Count("COUNT"),
        Sum("SUM", _plain, needs=("COUNT",)),
        Extreme("MIN", "min", 1.0),
        Extreme("MAX", "max", -1.0),
    )
}


def means(measure: str) -> Means:
    """The row of a measure; a `PlanError` where there is none of that name."""
    return _known(measure, MEASURES, "measure")


# ---------------------------------------------------------------- finishing


def _value(_: pa.DataType | None, values: pa.Array) -> pa.Array:
    return values


def _total(kind: pa.DataType, _: pa.Array, totals: pa.Array) -> pa.Array:
    return total_of(totals, kind)


def _mean(kind: pa.DataType, counts: pa.Array, totals: pa.Array) -> pa.Array:
    return mean_of(totals, counts, kind)


FINISHES: dict[str, Finish] = {"value": _value, "total": _total, "mean": _mean}


def finish(name: str) -> Finish:
    """The function of this name; a `PlanError` where there is none."""
    return _known(name, FINISHES, "way to finish an aggregate,")


def _known(name: str, table: Mapping[str, Row], what: str) -> Row:
    if name not in table:
        raise PlanError(f"there is no {what} {name!r}\n  hint: there are {_listed(table)}")
    return table[name]


def _listed(names: Iterable[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}"
