"""What is measured beside the count, as tracks of counters that go on: what every event weighs, and what the numbers are then.

A track is a number that maps carry along (`counters`): the count of matches, whole numbers and doubles that are added up, smallest
ones. Weights are those of new events alone, so a column must say what its values weigh without those that came before: whole
numbers, times and doubles do, and also the squares of the former. The squares of doubles are measured from the mean of a cell, and
the order of wide numbers is that of their ranks; a query that asks for these replays its window (`why_not`).

Cost: a pass over the new values of every column.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pat

from seqube.engine.aggregates.automaton import automaton, needs_layer, slot_rank, tied_rank
from seqube.engine.aggregates.columns import SumOverEvents, sum_over_events
from seqube.engine.aggregates.counters import Array
from seqube.engine.aggregates.ledger import LEVELS, Ledger, Widths
from seqube.engine.aggregates.measured import Measured, total_of, whole_numbers
from seqube.engine.aggregates.measures import Collected, Count, Extreme, Sum, Weights, means
from seqube.engine.predicates import Ints, Mask
from seqube.engine.sequence import HIGHEST
from seqube.events import Events
from seqube.language.tree import Attribute, Value
from seqube.language.writer import write_value
from seqube.plan.aggregates import ABOUT, Measure
from seqube.plan.chains import EventChain

Floats = npt.NDArray[np.float64]

SAFE_DIGITS = 18  # of decimals that are 64-bit numbers without their point


def why_not(measures: Sequence[Measure], events: Events) -> str | None:
    """Why measures cannot be taken of new events alone; None where they can."""
    for measure in measures:
        argument = measure.argument
        if argument is None:
            continue
        if not isinstance(argument, Attribute):
            found = sum_over_events(argument, events.slice(0, 0))
            if isinstance(found, str):
                return found
            if found.exponent is not None:
                return f"{write_value(argument)}, of doubles, is added up in a unit that is that of all its values at hand"
            continue
        column, row = _column(argument, events), means(measure.function)
        if isinstance(row, Sum) and row.moved is not None and not column.is_whole:
            return f"the spread of {argument.name!r}, a column of doubles, is that of all its values at hand"
        if isinstance(row, Extreme) and is_wide(column.column.type):
            return f"values of {argument.name!r} need more than 64 bits to be compared"
    return None


def _column(argument: Attribute, events: Events) -> Measured:
    return Measured.of(events.column(argument.name).slice(0, 0), argument.name)


def is_wide(kind: pa.DataType) -> bool:
    """Whether values of a type need more than 64 bits to be compared."""
    return bool(pat.is_uint64(kind) or (pat.is_decimal(kind) and kind.precision > SAFE_DIGITS))


@dataclass(frozen=True, slots=True)
class _Adding:
    """What is added up of an argument: a part of what it weighs (of a sum over events, a term), or (None) how many there are."""

    argument: Value
    row: Sum | None
    part: int = 0


# The matches themselves and, where lists have layers of their own, the ways in all of them: the first track bounds all others.
# How many matches there are in doubles is one of those.
_MATCHES, _WAYS, _ABOUT = (_Adding(Attribute(None, name), None) for name in ("", "*", "~"))
_OF_NO_COLUMN = (_MATCHES, _WAYS, _ABOUT)


@dataclass(frozen=True, slots=True)
class _Comparing:
    argument: Attribute
    row: Extreme


class Weighing:
    """The tracks of a plan over a chain, for events of one schema."""

    def __init__(self, measures: Sequence[Measure], chain: EventChain, events: Events) -> None:
        self._measures, n = tuple(measures), len(chain.slots)
        self._ranks = {slot.variable: (slot_rank(n, i), tied_rank(n, i)) for i, slot in enumerate(chain.slots)}
        named = (str(measure.argument.variable) for measure in measures if isinstance(measure.argument, Attribute))
        layered = list(dict.fromkeys(name for name in named if needs_layer(chain, name)))
        self.automaton = automaton(chain, tuple(layered))
        self._whole: list[_Adding] = [_WAYS, _MATCHES] if layered else [_MATCHES]
        self._real: list[_Adding] = [_ABOUT] if ABOUT in measures else []
        self._low: list[_Comparing] = []
        self._columns: dict[Attribute, Measured] = {}  # empty ones, which tell the types
        self._totals: dict[Measure, Weights] = {}
        self._sums: dict[Value, SumOverEvents] = {}  # likewise
        for measure in measures:
            if isinstance(measure.argument, Attribute):
                self._add(measure, measure.argument, events)
            elif measure.argument is not None:
                self._add_sum(measure, measure.argument, events)
        arguments = [*(track.argument for track in (*self._whole, *self._real)), *(track.argument for track in self._low)]
        reads = np.stack([self._read(argument, layered) for argument in arguments], 1)
        self.widths = Widths(
            len(self._whole), len(self._real), len(self._low), reads, any(measure != ABOUT for measure in measures)
        )

    def _read(self, argument: Value, layered: list[str]) -> Mask:
        """The final states that a track reads."""
        layers = self.automaton.layers
        if argument == _WAYS.argument:
            return np.ones(len(layers), np.bool_)
        variable = argument.variable if isinstance(argument, Attribute) else None
        found: Mask = layers == (layered.index(variable) if variable in layered else -1)
        return found

    def _add(self, measure: Measure, argument: Attribute, events: Events) -> None:
        column = self._columns.setdefault(argument, _column(argument, events))
        row = means(measure.function)
        if _Adding(argument, None) not in self._whole:
            self._whole.append(_Adding(argument, None))
        match row:
            case Count():
                pass
            case Sum():
                weights = self._totals[measure] = row.weights(column)
                for number, part in enumerate(weights.parts):
                    (self._whole if part.is_whole else self._real).append(_Adding(argument, row, number))
            case Extreme():
                self._low.append(_Comparing(argument, row))
            case Collected():
                raise AssertionError("the plan builds matches for this")
            case _:
                assert_never(row)

    def _add_sum(self, measure: Measure, argument: Value, events: Events) -> None:
        found = sum_over_events(argument, events.slice(0, 0))
        assert isinstance(found, SumOverEvents), found
        row, self._sums[argument] = means(measure.function), found
        tracks = [_Adding(argument, None)]
        tracks += [_Adding(argument, row, number) for number in range(len(found.terms))] if isinstance(row, Sum) else []
        self._whole += [track for track in tracks if track not in self._whole]

    # ------------------------------------------------------------ weights

    def weigh(self, events: Events, ranks: Ints, rows: Ints, ledger: Ledger) -> Array:
        """What maps (their ranks, and the rows they are of) weigh; the ledger is widened where they need it."""
        columns = {argument: Measured.of(events.column(argument.name), argument.name) for argument in self._columns}
        sums = {argument: sum_over_events(argument, events) for argument in self._sums}
        weighed = {n: _weighed(track, columns, sums) for n, track in enumerate(self._whole) if track not in _OF_NO_COLUMN}
        for each in weighed.values():
            ledger.bear(max(part.largest for part in each.values()))
        weights = np.empty((len(ranks), len(ledger.exact.ones)))
        weights[:] = ledger.exact.ones
        primes = LEVELS[ledger.level].primes
        for number, each in weighed.items():
            for variable, part in each.items():
                here = self._places(variable, ranks)
                if not primes:
                    weights[here, number] = part.numbers[rows[here]]
                for i, prime in enumerate(primes):
                    weights[here, 1 + number * len(primes) + i] = part.modulo(prime)[rows[here]]
        for number, track in enumerate(self._real):
            if track in _OF_NO_COLUMN:
                continue
            ((variable, part),) = _weighed(track, columns, sums).items()
            here = self._places(variable, ranks)
            weights[here, ledger.place(number)] = part.numbers[rows[here]]
        for number, low in enumerate(self._low, len(self._real)):
            here = self._places(low.argument.variable, ranks)
            weights[here, ledger.place(number)] = order_bits(columns[low.argument], low.row.sign).view(np.float64)[rows[here]]
        return weights

    def _places(self, variable: str | None, ranks: Ints) -> Ints:
        return np.flatnonzero(np.isin(ranks, self._ranks[variable or ""]))

    # ------------------------------------------------------------ measures

    def measures(self, numbers: Array, ledger: Ledger) -> dict[Measure, pa.Array]:
        """The measures of cells, whose numbers these are."""
        return {measure: self._measure(measure, numbers, ledger) for measure in self._measures}

    def _measure(self, measure: Measure, numbers: Array, ledger: Ledger) -> pa.Array:
        argument, row = measure.argument, means(measure.function)
        if measure == ABOUT:
            return pa.array(numbers[:, ledger.place(self._real.index(_ABOUT))])
        if argument is None:
            return whole_numbers(ledger.whole(numbers, self._whole.index(_MATCHES)))
        counts = whole_numbers(ledger.whole(numbers, self._whole.index(_Adding(argument, None))))
        if not isinstance(argument, Attribute):
            terms = [_Adding(argument, row, k) for k in range(len(self._sums[argument].terms))] if isinstance(row, Sum) else []
            of_terms = [ledger.whole(numbers, self._whole.index(term)) for term in terms]
            return self._sums[argument].total(counts, of_terms) if terms else counts
        match row:
            case Count():
                return counts
            case Sum():
                sums = [
                    whole_numbers(ledger.whole(numbers, self._whole.index(track)))
                    if (track := _Adding(argument, row, part)) in self._whole
                    else pa.array(numbers[:, ledger.place(self._real.index(track))])
                    for part in range(len(self._totals[measure].parts))
                ]
                return self._totals[measure].total(counts, *sums)
            case Extreme(sign=sign):
                found = numbers[:, ledger.place(len(self._real) + self._low.index(_Comparing(argument, row)))]
                none = np.asarray(counts.cast(pa.float64(), safe=False)) == 0.0
                return value_of_bits(np.ascontiguousarray(found).view(np.int64), none, sign, self._columns[argument].column.type)
            case Collected():
                raise AssertionError("the plan builds matches for this")
            case _:
                assert_never(row)


def _weighed(
    track: _Adding, columns: Mapping[Attribute, Measured], sums: Mapping[Value, SumOverEvents | str]
) -> dict[str, Measured]:
    """What the events of variables weigh on a track; all others weigh one."""
    if isinstance(track.argument, Attribute):
        column = columns[track.argument]
        part = _ones(column.column, column.valid) if track.row is None else track.row.weights(column).parts[track.part]
        return {track.argument.variable or "": part}
    found = sums[track.argument]
    assert isinstance(found, SumOverEvents), found  # types are those of the schema
    parts = {variable: _ones(found.terms[0].column.column, valid) for variable, valid in found.valid.items()}
    if track.row is not None:
        term = found.terms[track.part]
        parts[term.variable] = term.column.where(found.valid[term.variable])
    return parts


def _ones(column: pa.Array, valid: Mask) -> Measured:
    return Measured(column, valid, valid.astype(np.int64))


# ---------------------------------------------------------------- bits whose smallest stands for a value


def order_bits(column: Measured, sign: float) -> Ints:
    """Whole numbers in the order of a column's values or, with sign -1, against it; HIGHEST for null."""
    numbers: Ints = column.numbers  # type: ignore[assignment]
    if not column.is_whole:  # positive doubles order like their bits, negative ones the other way round
        bits = (column.numbers + 0.0).view(np.int64)
        numbers = np.where(bits < 0, bits ^ np.int64(HIGHEST), bits)
    return np.where(column.valid, numbers if sign > 0 else ~numbers, HIGHEST)


def value_of_bits(bits: Ints, none: Mask, sign: float, kind: pa.DataType) -> pa.Array:
    """The values that such numbers stand for; null where there are none."""
    numbers = bits if sign > 0 else ~bits
    if pat.is_floating(kind):
        return pa.array(np.where(numbers < 0, numbers ^ np.int64(HIGHEST), numbers).view(np.float64), mask=none)
    values = pa.array(numbers, mask=none)
    return total_of(values, kind).cast(kind) if pat.is_decimal(kind) else values.cast(kind)
