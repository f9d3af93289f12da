"""Columns that are summed up or compared: their values as numbers that loops can add, and what the results stand for.

Whole numbers, durations and decimals are summed exactly. All of them are integers here, a decimal without its point: 64-bit ones,
or, where a value needs more, words of 32 bits (`words`), which are added up word by word or taken modulo a prime. A sum is a whole
number until `total_of` and `mean_of` say what it is a sum of.

Cost: a pass over the column.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from seqube.engine import numbers
from seqube.engine.predicates import Ints, Mask, normalise
from seqube.engine.sequence import HIGHEST, LOWEST
from seqube.errors import DataError
from seqube.events.schema import value_type

Floats = npt.NDArray[np.float64]

WORD = 32  # bits
PRIMES = (2147483647, 2147483629, 2147483587, 2147483579, 2147483563, 2147483549, 2147483543, 2147483497, 2147483489)  # below 2^31


@dataclass(frozen=True)
class Measured:
    """A column as numbers, by row: whole numbers where it holds them, else doubles; `valid` where it is not null."""

    column: pa.Array
    valid: Mask
    numbers: Ints | Floats  # of wide numbers, those modulo 2^64
    wide: tuple[Ints, ...] = ()  # where 64 bits do not suffice: all words, the last of which has the sign
    bound: float | None = None  # what no whole number exceeds, where that is known without looking

    @staticmethod
    def of(column: pa.Array, name: str = "") -> Measured:
        whole = normalise(column, name)
        if pat.is_uint64(value_type(column.type)):
            column = column.cast(pa.uint64())  # also where 63 bits would do: the type does not depend on the rows
        else:
            column = whole.cast(pa.int64()) if pat.is_null(whole.type) else whole
        valid = np.asarray(column.is_valid()).astype(np.bool_)
        if pat.is_floating(whole.type):
            return Measured(column, valid, np.asarray(column.fill_null(0.0)))
        if not (pat.is_decimal(whole.type) or pat.is_uint64(whole.type)):
            return Measured(column, valid, np.asarray(whole.cast(pa.int64()).fill_null(0)))
        words = _words(whole if pat.is_decimal(whole.type) else whole.cast(pa.decimal128(20, 0)), valid)
        low = (words[1] << WORD) + words[0]
        beyond = np.where(low < 0, (1 << WORD) - 1, 0)
        fits = all((word & ((1 << WORD) - 1) == beyond).all() for word in words[2:])
        return Measured(column, valid, low, () if fits else words)

    @property
    def is_whole(self) -> bool:
        return self.numbers.dtype == np.int64

    @cached_property
    def words(self) -> tuple[Ints, ...]:
        """Whole numbers word by word, the lowest first; only the last has a sign."""
        whole = self._whole
        return self.wide or (whole & ((1 << WORD) - 1), whole >> WORD)

    @property
    def _whole(self) -> Ints:
        assert self.is_whole
        return self.numbers  # type: ignore[return-value]

    @cached_property
    def largest(self) -> float:
        """The largest whole number, whatever its sign."""
        if self.bound is not None:
            return self.bound
        if self.wide:
            digits = [Decimal(end.as_py()).as_tuple().digits for end in pc.min_max(self.column).values()]
            return float(max(int("".join(map(str, each))) for each in digits))
        return float(max(abs(int(self.numbers.min(initial=0))), abs(int(self.numbers.max(initial=0)))))

    def modulo(self, modulus: int | None) -> Ints:
        """Whole numbers modulo a prime below 2^31, or (None) modulo 2^64."""
        if modulus is None:
            return self._whole
        if not self.wide:
            return self._whole % modulus
        found = np.zeros(len(self.numbers), np.int64)
        for k, word in enumerate(self.wide):
            found = (found + word % modulus * pow(2, WORD * k, modulus)) % modulus
        return found

    def where(self, valid: Mask) -> Measured:
        """Whole numbers where these rows are valid, else zero."""
        wide = tuple(np.where(valid, word, 0) for word in self.wide)
        return replace(self, valid=valid, numbers=np.where(valid, self._whole, 0), wide=wide, bound=self.largest)

    def ordered(self, sign: float) -> tuple[Floats, Callable[[Floats], pa.Array]]:
        """Doubles whose smallest stands for the smallest value, or with sign -1 the largest (null is beyond all), and for what."""
        exact = self.numbers.astype(np.float64)
        plain = not (self.wide or pat.is_decimal(self.column.type)) and bool(np.isfinite(exact).all())
        if plain and (not self.is_whole or (np.abs(exact) < float(1 << 53)).all()):
            return np.where(self.valid, sign * exact, np.inf), lambda best: self._values(sign * best, np.isfinite(best))
        known = np.flatnonzero(self.valid)
        order = np.asarray(pc.rank(self.column, tiebreaker="dense")).astype(np.int64) if self.wide else self.numbers
        _, first, inverse = np.unique(order[known], return_index=True, return_inverse=True)
        ranks = np.full(len(self.numbers), np.inf)
        ranks[known] = sign * inverse

        def look_up(best: Floats) -> pa.Array:
            found = np.isfinite(best)
            places = np.abs(np.where(found, best, 0.0)).astype(np.int64)
            return self.column.take(pa.array(known[first[places]] if len(first) else places, mask=~found))

        return ranks, look_up

    def _values(self, found_numbers: Floats, found: Mask) -> pa.Array:
        filled = np.where(found, found_numbers, 0.0)
        return pa.array(filled.astype(self.numbers.dtype), mask=~found).cast(self.column.type)


def _words(column: pa.Array, valid: Mask) -> tuple[Ints, ...]:
    """Decimals without their point, as words of 32 bits."""
    width = column.type.byte_width // 4
    raw = np.zeros((len(column), width), np.uint32)
    if len(column):
        first = column.offset * width
        raw[:] = np.frombuffer(column.buffers()[1], "<u4", first + raw.size)[first:].reshape(raw.shape)
        raw[~valid] = 0
    return (*(raw[:, k].astype(np.int64) for k in range(width - 1)), raw[:, -1].view(np.int32).astype(np.int64))


def whole_numbers(values: list[int] | Ints | pa.Array) -> pa.Array:
    """Exact whole numbers: 64 bits where they suffice, else decimals of 38 or of 76 digits."""
    if not isinstance(values, list):
        return values if isinstance(values, pa.Array) else pa.array(values)
    size = max((abs(value) for value in values), default=0)
    if all(LOWEST <= value <= HIGHEST for value in values):
        return pa.array(values, pa.int64())
    if size < 10**38:
        return pa.array(values, pa.decimal128(38, 0))
    if size < 10**76:
        return pa.array(values, pa.decimal256(76, 0))
    raise count_too_long()


def count_too_long() -> DataError:
    return DataError(
        "a count or sum has more than 76 digits\n"
        "  hint: APPROX_COUNT(*) counts matches in a double; or shorten the window or the pattern"
    )


def from_residues(residues: Sequence[npt.NDArray[np.integer[Any]]], primes: Sequence[int]) -> pa.Array:
    """Whole numbers from what they are modulo primes: those nearest to zero.

    A number is written with digits of which each counts what the primes before it make together (Garner): as many operations on
    columns as there are pairs of primes. The half of all numbers has half of the largest digit at every place; beyond it are the
    negative ones, and the digits that are missing to the largest are those of what lies between them and -1.
    """
    digits: list[npt.NDArray[np.uint64]] = []
    for prime, column in zip(primes, residues, strict=True):
        digit = column.astype(np.uint64)
        for before, known in zip(primes, digits, strict=False):
            digit = (digit + np.uint64(prime) - known % np.uint64(prime)) * np.uint64(pow(before, -1, prime)) % np.uint64(prime)
        digits.append(digit)
    negative, undecided = np.zeros(len(digits[0]), np.bool_), np.ones(len(digits[0]), np.bool_)
    for prime, digit in zip(reversed(primes), reversed(digits), strict=True):
        half = np.uint64((prime - 1) // 2)
        negative |= undecided & (digit > half)
        undecided &= digit == half
    words = [np.zeros(len(negative), np.uint64) for _ in range(len(primes))]
    for place in reversed(range(len(primes))):
        base, digit = np.uint64(primes[place]), digits[place]
        carry = np.where(negative, base - np.uint64(1) - digit, digit)
        for k in range(len(primes) - place):
            product = words[k] * base + carry
            words[k], carry = product & _LOW, product >> np.uint64(WORD)
    return _whole_numbers_of_words(words, negative)


_LOW = np.uint64((1 << WORD) - 1)


def _whole_numbers_of_words(words: list[npt.NDArray[np.uint64]], negative: Mask) -> pa.Array:
    """Whole numbers from their words; of the negative ones, those of what lies between them and -1."""
    if not _reach(words, 1 << 63):
        low = words[0] | (words[1] << np.uint64(WORD) if len(words) > 1 else np.uint64(0))
        return pa.array(np.where(negative, ~low, low).view(np.int64))
    for kind in (pa.decimal128(38, 0), pa.decimal256(76, 0)):
        if not (
            _reach([word[~negative] for word in words], 10**kind.precision)
            or _reach([word[negative] for word in words], 10**kind.precision - 1)
        ):
            raw = np.zeros((len(negative), kind.byte_width // 4), np.uint32)
            for k, word in enumerate(words[: raw.shape[1]]):
                raw[:, k] = word
            raw[negative] = ~raw[negative]
            return pa.Array.from_buffers(kind, len(negative), [None, pa.py_buffer(raw)])
    raise count_too_long()


def _reach(words: list[npt.NDArray[np.uint64]], limit: int) -> bool:
    """Whether a number is as large as this."""
    larger, equal = np.zeros(len(words[0]), np.bool_), np.ones(len(words[0]), np.bool_)
    for k in reversed(range(len(words))):
        part = np.uint64(limit >> (WORD * k) & int(_LOW))
        larger |= equal & (words[k] > part)
        equal &= words[k] == part
    return limit < 1 << (WORD * len(words)) and bool((larger | equal).any())


# ---------------------------------------------------------------- what sums are sums of


def total_of(totals: pa.Array, kind: pa.DataType) -> pa.Array:
    """Sums of values of this kind; an `ArrowInvalid` where a duration leaves its range."""
    if pat.is_duration(kind):
        return totals.cast(pa.int64()).cast(kind)
    if not pat.is_decimal(kind):
        return totals
    exact = numbers.calculate("*", totals, pa.scalar(Decimal(1).scaleb(-kind.scale)))
    try:
        return exact.cast(pa.decimal128(38, kind.scale))
    except pa.ArrowInvalid:
        return exact.cast(pa.decimal256(numbers.DIGITS, kind.scale))


def mean_of(totals: pa.Array, counts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Means of values of this kind, as doubles; those of durations to the microsecond. Null where there is nothing to divide by."""
    means = _divide(totals, counts, 10**kind.scale if pat.is_decimal(kind) else 1)
    return pc.round(means).cast(pa.int64()).cast(kind) if pat.is_duration(kind) else means


def _divide(totals: pa.Array, counts: pa.Array, point: int) -> pa.Array:
    if pat.is_floating(totals.type):
        return pc.divide(totals, counts.cast(pa.float64(), safe=False))
    limit = 1 << 53
    if pat.is_int64(totals.type) and pat.is_int64(counts.type):
        sizes = [pc.min_max(values) for values in (totals, counts)]
        highest = [max((abs(end.as_py() or 0) for end in size.values()), default=0) for size in sizes]
        if highest[0] < limit and highest[1] * point < limit:
            return pc.divide(totals.cast(pa.float64()), pc.multiply(counts, point).cast(pa.float64()))
    # Beyond what doubles hold exactly, whole numbers are divided as such.
    pairs = zip(totals.to_pylist(), counts.to_pylist(), strict=True)
    return pa.array([None if total is None else int(total) / (int(count) * point) for total, count in pairs], pa.float64())
