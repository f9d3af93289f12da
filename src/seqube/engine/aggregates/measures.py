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
from dataclasses import dataclass, replace
from itertools import repeat
from math import inf, nan
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from seqube.engine import numbers
from seqube.engine.aggregates.measured import WORD, Measured, mean_of, total_of
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
    """A measure to which every value (or match) adds one: a whole number or, where it is not to be exact, a double."""

    name: str
    merge: str = "sum"  # in Arrow's words
    is_exact: bool = True


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
    """The values themselves."""
    return Weights((column,), _unless_empty)


def _unless_empty(counts: pa.Array, sums: pa.Array) -> pa.Array:
    """Sums; null where there is nothing to add up."""
    return pc.if_else(pc.equal(counts, pa.scalar(0, pa.int64()).cast(counts.type)), pa.scalar(None, sums.type), sums)


# ---------------------------------------------------------------- squares
#
# Of whole numbers, the exact sum of their squares. Of doubles that sum would be of no use, since nearly all of it may cancel:
# theirs is the sum of the squares of the distances from the mean of the cell. It is worked out exactly as well, from multiples of a
# power of two, which doubles are, and rounded once.

BITS = 80  # what lies further below a column's largest double is rounded: then squares leave 90 bits to the number of matches


def _squares(column: Measured) -> Weights:
    if column.is_whole:
        return Weights((_squared(column),), _unless_empty)
    exponent, multiples = _multiples(column)
    infinite = np.isinf(column.numbers)
    odd = (Measured(column.column, column.valid, infinite.astype(np.int64)),) if infinite.any() else ()

    def total(counts: pa.Array, sums: pa.Array, squares: pa.Array, *infinities: pa.Array) -> pa.Array:
        cells = zip(_ints(counts), _ints(sums), _ints(squares), _ints(infinities[0]) if odd else repeat(0), strict=False)
        found = [nan if none else _scaled(n * q - s * s, n, 2 * exponent) if n else None for n, s, q, none in cells]
        return pa.array(found, pa.float64())

    return Weights((multiples, _squared(multiples), *odd), total)


def _multiples(column: Measured) -> tuple[int, Measured]:
    """Doubles as multiples of a power of two, and its exponent; infinite ones as zero."""
    doubles = np.where(np.isfinite(column.numbers), column.numbers, 0.0)
    fractions, exponents = np.frexp(doubles[doubles != 0])
    mantissas = np.ldexp(fractions, 53).astype(np.int64)
    lowest = np.frexp((mantissas & -mantissas).astype(np.float64))[1] + exponents - 54  # the place of the last bit that is set
    exponent = max(int(lowest.min()), int(exponents.max()) - BITS) if len(mantissas) else 0
    rest = np.rint(np.ldexp(doubles, -exponent))
    bound = float(np.abs(rest).max(initial=0.0))
    if bound < 2.0**62:
        return exponent, replace(column, numbers=rest.astype(np.int64))
    words = []
    for _ in range(BITS // WORD):
        above = np.floor(rest / 2.0**WORD)
        words.append((rest - above * 2.0**WORD).astype(np.int64))
        rest = above
    words.append(rest.astype(np.int64))
    return exponent, replace(column, numbers=(words[1] << WORD) + words[0], wide=tuple(words), bound=bound)


def _squared(column: Measured) -> Measured:
    """The squares of whole numbers: multiplied as by hand, in digits of half a word, where 64 bits do not suffice."""
    bound = column.largest**2
    if bound < 2.0**62:
        return replace(column, numbers=column.numbers**2, wide=(), bound=bound)
    half = WORD // 2
    digits = [digit for word in column.words for digit in (word & ((1 << half) - 1), word >> half)]  # the last has the sign
    words, carry = [], np.zeros(len(column.numbers), np.int64)
    for place in range(len(digits)):
        for k in (2 * place, 2 * place + 1):
            pairs = range(max(0, k - len(digits) + 1), min(k, len(digits) - 1) + 1)
            carry = carry + (sum(digits[i] * digits[k - i] for i in pairs) << (half * (k % 2)))
        words.append(carry & ((1 << WORD) - 1))
        carry = carry >> WORD
    return replace(column, numbers=(words[1] << WORD) + words[0], wide=tuple(words), bound=bound)


def _from_the_mean_of_all(own: Mapping[str, pa.Array], group: Mapping[str, pa.Array]) -> pa.Array:
    """The squares of distances of doubles, from the mean of the whole group in place of the piece's own.

    Two means that differ by no more than their rounding are one.
    """
    if not pat.is_floating(own["SQUARES"].type):
        return own["SQUARES"]
    piece, whole = (pc.divide(measures["SUM"], numbers.double(measures["COUNT"])) for measures in (own, group))
    distances = pc.subtract(piece, whole)
    rounding = pc.multiply(pc.abs(whole), 2.0**-48)
    distances = pc.if_else(pc.less_equal(pc.abs(distances), rounding), 0.0, distances)
    return pc.add(own["SQUARES"], pc.multiply(numbers.double(own["COUNT"]), pc.multiply(distances, distances)))


def _ints(values: pa.Array) -> list[int]:
    return [int(value or 0) for value in values.to_pylist()]


def _scaled(dividend: int, divisor: int, exponent: int) -> float:
    """The double nearest to a quotient times a power of two."""
    try:
        return (dividend << max(exponent, 0)) / (divisor << max(-exponent, 0))
    except OverflowError:
        return inf


# ---------------------------------------------------------------- the table


MEASURES: dict[str, Means] = {
    row.name: row
    for row in (
        Count("COUNT"),
        Count("APPROX", is_exact=False),
        Sum("SUM", _plain, needs=("COUNT",)),
        Sum("SQUARES", _squares, needs=("COUNT", "SUM"), moved=_from_the_mean_of_all),
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


def _variance(kind: pa.DataType, counts: pa.Array, sums: pa.Array, squares: pa.Array) -> pa.Array:
    """That of a sample, as doubles: null with fewer than two values, and where a value is infinite."""
    many = pc.greater(counts, pa.scalar(1, pa.int64()).cast(counts.type))
    if pat.is_floating(squares.type):
        ones_less = pc.subtract(numbers.double(counts), 1.0)
        return pc.if_else(many, numbers.without_nan(pc.divide(squares, ones_less)), pa.scalar(None, pa.float64()))
    point = 10 ** (2 * kind.scale) if pat.is_decimal(kind) else 1
    cells = zip(_ints(counts), _ints(sums), _ints(squares), strict=True)
    return pa.array([(n * q - s * s) / (n * (n - 1) * point) if n > 1 else None for n, s, q in cells], pa.float64())


def _deviation(kind: pa.DataType, counts: pa.Array, sums: pa.Array, squares: pa.Array) -> pa.Array:
    """The root of the variance; that of durations to the microsecond."""
    found = pc.sqrt(_variance(kind, counts, sums, squares))
    return pc.round(found).cast(pa.int64()).cast(kind) if pat.is_duration(kind) else found


FINISHES: dict[str, Finish] = {"value": _value, "total": _total, "mean": _mean, "variance": _variance, "deviation": _deviation}


def finisher(name: str) -> Finish:
    """The function of this name; a `PlanError` where there is none."""
    return _known(name, FINISHES, "way to finish an aggregate,")


def _known(name: str, table: Mapping[str, Row], what: str) -> Row:
    if name not in table:
        raise PlanError(f"there is no {what} {name!r}\n  hint: there are {_listed(table)}")
    return table[name]


def _listed(names: Iterable[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}"
