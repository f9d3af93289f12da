"""What is asked of the rows of matches, as columns: a row of a match further on, an aggregate over rows, the number of the match.

Matches are a flat list of rows, the *path*, each with the variable it is mapped to. For every place of the path the running value
is computed in one pass; what is FINAL is the running value at the last place of the match. A result asks for some places: the
last one of each match, or all.

Cost: the path, once for each frame. Aggregates that need their values side by side (DISTINCT, MEDIAN, ARRAY_AGG ..., and sums of
decimals) make lists of them, which for a running value of every row is quadratic in the match: under the limits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from seqube.engine import numbers
from seqube.engine.bindings import Bindings, offsets_of, ranges
from seqube.engine.jit import kernel
from seqube.engine.limits import Budget
from seqube.engine.predicates import NULL, Evaluator, Ints, Mask, normalise, rank, shown, take
from seqube.events.schema import TIME, Kind, is_bytes, value_type
from seqube.language.rows.tree import CLASSIFIER, NUMBER_OF_MATCH, OF_MATCH, Expression, Frame, MatchNumber, Navigation, RowFold
from seqube.language.tree import Attribute, Call, Literal, Predicate, Value, walk

Floats = npt.NDArray[np.float64]
Summed = TypeVar("Summed", Ints, Floats)

_BEST = ("MIN", "MAX", "EVERY", "BOOL_OR", "MIN_BY", "MAX_BY", "ANY_VALUE")  # the value of one of the rows


class PlainColumns:
    """Columns by name, as an `Evaluator` reads them. A table has no time of its own: a period is a duration, never a number."""

    unit = "us"
    schema: Mapping[str, Kind] = {TIME: "time"}

    def __init__(self, columns: Mapping[str, pa.Array]) -> None:
        self._columns = columns

    def column(self, name: str) -> pa.Array:
        return pa.nulls(0) if name == TIME and TIME not in self._columns else self._columns[name]


def evaluate_columns(root: Value | Predicate, columns: Mapping[str, pa.Array], size: int) -> pa.Array:
    """A value or a predicate over columns of one length."""
    evaluator = _OfRows(PlainColumns(columns))
    found = evaluator.predicate(root, {}) if isinstance(root, Predicate) else evaluator.value(root, {})
    return pa.repeat(found, size) if isinstance(found, pa.Scalar) else found


class _OfRows(Evaluator):
    """Every row has a value: a column is taken whole, not row by row as variables are bound to them."""

    def value(self, node: Value, bindings: Bindings) -> pa.Array | pa.Scalar:
        return self._column(node.name) if isinstance(node, Attribute) else super().value(node, bindings)


def names_in(value: Value | Predicate) -> set[str]:
    """The columns that a value over columns names."""
    return {node.name for node in walk(value) if isinstance(node, Attribute)}


@dataclass(frozen=True)
class Paths:
    """Matches: which rows they have, and what these are mapped to."""

    offsets: Ints  # of matches in the path
    starts: Ints  # the first row of each
    variables: Ints  # of every place of the path, the number of its variable
    numbers: Ints  # of matches in their partitions
    low: Ints  # of every match, its partition's first row
    high: Ints  # and the row behind its last

    @cached_property
    def rows(self) -> Ints:
        """Of every place of the path."""
        return np.arange(len(self.variables)) + np.repeat(self._ahead, np.diff(self.offsets))

    @cached_property
    def _ahead(self) -> Ints:
        """By how much the rows of each match are ahead of their places."""
        return self.starts - self.offsets[:-1]

    def rows_at(self, places: Ints, matches: Ints) -> Ints:
        """The rows of places of matches; -1 stays."""
        if not len(self.starts):
            return places
        rows = places + self._ahead[matches]
        return np.where(places >= 0, rows, -1) if len(places) and places.min() < 0 else rows


@dataclass(frozen=True)
class Places:
    """Which values a result has: the match of each (-1: none), and the place in the path (-1: the match has no row)."""

    matches: Ints
    at: Ints
    is_last: bool = False  # whether these are the last places of all matches


def comparable(column: pa.Array, name: str = "") -> pa.Array:
    """A column of a table of SQL in a type that is compared and computed with: times of day and binary values too."""
    while isinstance(column, pa.ExtensionArray):
        column = column.storage
    kind = value_type(column.type)
    if pat.is_time(kind):
        return (column if kind is column.type else column.dictionary_decode()).cast(pa.time64("us"), safe=False)
    if is_bytes(kind):
        return column.cast(pa.binary())
    return normalise(column, name)


class RowValues:
    """Values of every row of a table, each computed once."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table
        self._values: dict[Value, pa.Array] = {}

    def of(self, value: Value) -> pa.Array:
        if value not in self._values:
            if isinstance(value, Attribute):
                self._values[value] = comparable(self.table.column(value.name).chunk(0), value.name)
            else:
                columns = {name: self.of(Attribute(None, name)) for name in names_in(value)}
                self._values[value] = evaluate_columns(value, columns, self.table.num_rows)
        return self._values[value]

    def as_is(self, name: str) -> pa.Array:
        """A column as a result shows it."""
        return shown(self.table.column(name).chunk(0))


class Framing:
    """Columns for values of matches of one table."""

    def __init__(self, values: RowValues, names: tuple[str, ...], paths: Paths, budget: Budget) -> None:
        self._values, self._names, self._paths, self._budget = values, names, paths, budget
        self._bases: dict[tuple[frozenset[str] | None, str, int], Ints] = {}

    def column(self, expression: Expression, places: Places) -> pa.Array:
        """The value of an expression at each of these places."""
        root, frames = expression.root, dict(expression.frames)
        if isinstance(root, Attribute):  # as it stands in the table, whatever its type is
            found = self._frame(frames[root.name], places, as_is=True)
        else:
            columns = {name: comparable(self._frame(frame, places)) for name, frame in frames.items()}
            found = evaluate_columns(root, columns, len(places.at))
        made = self._made(root, frames)
        if pat.is_date(made) and pat.is_timestamp(found.type):
            return (found if found.type.tz is None else pc.local_timestamp(found)).cast(pa.date32())
        if isinstance(made, pa.BaseExtensionType) and not isinstance(found, pa.ExtensionArray):
            return pa.ExtensionArray.from_storage(made, found.cast(made.storage_type))
        return found

    def _made(self, node: Value | Predicate, frames: Mapping[str, Frame]) -> pa.DataType:
        """The type that a value has in SQL where it is computed in another (what is chosen among dates is one), else null."""
        match node:
            case Call("CAST", (_, Literal("DATE"))):
                return pa.date32()
            case Attribute(_, name):
                frame = frames.get(name)
                value = frame.argument if isinstance(frame, RowFold) else getattr(frame, "value", node if frame is None else None)
                if value is None or (isinstance(frame, RowFold) and frame.function not in _BEST):
                    return pa.null()
                if not isinstance(value, Attribute):
                    return self._made(value, {})
                return pa.null() if value.name in OF_MATCH else value_type(self._values.table.schema.field(value.name).type)
            case Call("COALESCE" | "LEAST" | "GREATEST" | "NULLIF", values):
                chosen = values
            case Call("CASE", arguments):
                chosen = (*arguments[1::2], arguments[-1])
            case _:
                return pa.null()
        kinds = {self._made(value, frames) for value in chosen if value != Literal(None)}
        return kinds.pop() if len(kinds) == 1 else pa.null()

    def _frame(self, frame: Frame, places: Places, as_is: bool = False) -> pa.Array:
        match frame:
            case MatchNumber():
                return pa.array(_at(self._paths.numbers, places.matches), mask=places.matches < 0)
            case Navigation():
                return self._navigate(frame, places, as_is)
            case RowFold():
                return self._fold(frame, places)

    def _members(self, variables: frozenset[str] | None) -> npt.NDArray[np.uint8]:
        among = np.ones(len(self._names), np.uint8)
        if variables is not None:
            among[:] = [name in variables for name in self._names]
        return among

    def _asked(self, places: Places, final: bool) -> Ints:
        """The place of the path that a value is of; -1 where the match has no row."""
        if not final or places.is_last:
            return places.at
        last = self._paths.offsets[1:] - 1
        return np.where(places.at >= 0, last[np.where(places.at >= 0, places.matches, 0)], -1) if len(last) else places.at

    # ------------------------------------------------------------ rows of a match

    def _navigate(self, frame: Navigation, places: Places, as_is: bool) -> pa.Array:
        paths, base = self._paths, self._base(frame, places)
        there = base >= 0
        matches = np.where(there, places.matches, 0)
        if frame.value is None:
            return self._classified(base, matches, frame.physical)
        rows = paths.rows_at(base, matches)
        if frame.physical and len(paths.low):
            moved = rows + frame.physical
            rows = np.where(there & (moved >= paths.low[matches]) & (moved < paths.high[matches]), moved, -1)
        if as_is and isinstance(frame.value, Attribute):
            return take(self._values.as_is(frame.value.name), rows)
        names = names_in(frame.value)
        if not names & OF_MATCH:
            return take(self._values.of(frame.value), rows)
        columns = {name: take(self._values.of(Attribute(None, name)), rows) for name in names - OF_MATCH}
        columns[CLASSIFIER] = self._classified(base, matches, frame.physical)
        columns[NUMBER_OF_MATCH] = pa.array(_at(paths.numbers, places.matches))
        found = evaluate_columns(frame.value, columns, len(rows))
        return take(found, np.where(rows >= 0, np.arange(len(rows)), -1))  # where no row is, no value is

    def _base(self, frame: Navigation, places: Places) -> Ints:
        """The place of the path that a navigation leads to before it moves on to rows beside it, -1 for none."""
        key = (frame.variables, frame.end, frame.logical)
        if key not in self._bases:
            how = navigate_last if places.is_last else navigate
            member, first = self._members(frame.variables), frame.end == "FIRST"
            self._bases[key] = how(self._paths.offsets, self._paths.variables, member, first, frame.logical)
        return self._bases[key] if places.is_last else _at(self._bases[key], self._asked(places, frame.final))

    def _classified(self, base: Ints, matches: Ints, physical: int) -> pa.Array:
        """The variables of places of the path, or of those so many further on that are of the same match."""
        offsets, there = self._paths.offsets, base >= 0
        base = np.where(there, base + physical, -1)
        if len(offsets) > 1:
            base = np.where(there & (base >= offsets[matches]) & (base < offsets[matches + 1]), base, -1)
        return take(pa.array(self._names, pa.string()), _at(self._paths.variables, base))

    # ------------------------------------------------------------ aggregates

    def _fold(self, frame: RowFold, places: Places) -> pa.Array:
        paths = self._paths
        member = self._members(frame.variables)[paths.variables].astype(np.bool_)
        asked = self._asked(places, frame.final)
        if frame.argument is None:
            return _counted(paths.offsets, member, asked)
        values = self._along(frame.argument)
        if pat.is_null(values.type):
            values = values.cast(pa.int64())
        known = member & np.asarray(values.is_valid()).astype(np.bool_)
        if frame.function in _BEST:
            return self._best(frame, values, member, known, asked)
        if frame.distinct or frame.function not in ("COUNT", "SUM", "AVG"):
            return self._of_lists(frame, values, member if frame.function == "ARRAY_AGG" else known, asked, places)
        if frame.function == "COUNT":
            return _counted(paths.offsets, known, asked)
        return self._sum(frame, values, known, asked, places)

    def _along(self, value: Value) -> pa.Array:
        """A value at every place of the path."""
        paths, names = self._paths, names_in(value)
        columns = {name: take(self._values.of(Attribute(None, name)), paths.rows) for name in names - OF_MATCH}
        if CLASSIFIER in names:
            columns[CLASSIFIER] = take(pa.array(self._names, pa.string()), paths.variables)
        if NUMBER_OF_MATCH in names:
            columns[NUMBER_OF_MATCH] = pa.array(np.repeat(paths.numbers, np.diff(paths.offsets)))
        return evaluate_columns(value, columns, len(paths.rows))

    def _best(self, frame: RowFold, values: pa.Array, member: Mask, known: Mask, asked: Ints) -> pa.Array:
        """The value of the row where something is smallest or largest: the value itself, or what MAX_BY compares."""
        ranks = np.zeros(len(values), np.int64)  # of ANY_VALUE: the first that is there stays
        if frame.function != "ANY_VALUE":
            compared = values if frame.second is None else self._along(frame.second)
            (ranks,) = rank([compared], Evaluator(PlainColumns({})))
            known = (known if frame.second is None else member) & (ranks != NULL)
        extreme = best_so_far(self._paths.offsets, known, ranks, frame.function in ("MIN", "EVERY", "MIN_BY"))
        if isinstance(frame.argument, Attribute) and frame.argument.name not in OF_MATCH:  # as it stands in the table
            return take(self._values.as_is(frame.argument.name), _at(self._paths.rows, _at(extreme, asked)))
        return take(values, _at(extreme, asked))

    def _sum(self, frame: RowFold, values: pa.Array, known: Mask, asked: Ints, places: Places) -> pa.Array:
        """SUM and AVG, running where they are of doubles or of whole numbers that stay far from 64 bits."""
        kind, offsets = values.type, self._paths.offsets
        whole = values.cast(pa.int64()) if pat.is_duration(kind) else values
        if pat.is_int64(whole.type):
            plain = np.asarray(whole.fill_null(0))
            longest = int(np.diff(offsets).max(initial=1))
            if float(np.abs(plain.astype(np.float64)).max(initial=0)) * longest >= 2**62:
                return self._of_lists(frame, values, known, asked, places)
            sums: Any = _at(running_sums(offsets, known, plain), asked, 0)
        elif pat.is_floating(kind):
            sums = _at(running_sums(offsets, known, np.asarray(values.fill_null(0.0), np.float64)), asked, 0)
        else:
            return self._of_lists(frame, values, known, asked, places)
        counts = np.asarray(_counted(offsets, known, asked))
        if frame.function == "AVG":
            with np.errstate(all="ignore"):
                sums = sums / counts
            if pat.is_duration(kind):
                sums = np.round(np.where(counts > 0, sums, 0)).astype(np.int64)
        result = numbers.without_nan(pa.array(sums, mask=counts == 0))
        return result.cast(kind) if pat.is_duration(kind) else result

    def _of_lists(self, frame: RowFold, values: pa.Array, known: Mask, asked: Ints, places: Places) -> pa.Array:
        """An aggregate of values that stand side by side: a list for each place that is asked for."""
        starts = self._paths.offsets[np.where(asked >= 0, places.matches, 0)]
        counts = np.where(asked >= 0, asked + 1 - starts, 0)
        self._budget.need(int(counts.sum()) * 16)
        at = ranges(starts, counts)
        owner = np.repeat(np.arange(len(asked)), counts)[known[at]]
        at = at[known[at]]
        if frame.distinct and len(at):
            (ranks,) = rank([values], Evaluator(PlainColumns({})))
            order = np.lexsort((at, ranks[at], owner))
            first = np.ones(len(order), np.bool_)
            first[1:] = (np.diff(owner[order]) != 0) | (np.diff(ranks[at][order]) != 0)
            kept = np.sort(order[first])
            at, owner = at[kept], owner[kept]
        offsets = offsets_of(np.bincount(owner, minlength=len(asked)))
        if frame.function == "ARRAY_AGG" and isinstance(frame.argument, Attribute) and frame.argument.name not in OF_MATCH:
            values = take(self._values.as_is(frame.argument.name), self._paths.rows)  # as it stands in the table
        between = frame.second.value if isinstance(frame.second, Literal) else ""
        return aggregate_lists(frame.function, take(values, at), offsets, str(between))


def aggregate_lists(function: str, values: pa.Array, offsets: Ints, between: str = "") -> pa.Array:
    """An aggregate of each list of values; LISTAGG puts a text between them."""
    counts = np.diff(offsets)
    match function:
        case "LISTAGG":
            lists = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values.cast(pa.string()), mask=pa.array(counts == 0))
            return pc.binary_join(lists, between)
        case "COUNT":
            return pa.array(counts)
        case "ARRAY_AGG":
            return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values, mask=pa.array(counts == 0))
        case "SUM" | "AVG":
            kind = values.type
            found = numbers.of_lists(function, values.cast(pa.int64()) if pat.is_duration(kind) else values, offsets)
            if pat.is_duration(kind):
                return pc.round(numbers.double(found)).cast(pa.int64()).cast(kind)
            return numbers.whole_if_all(found) if found.type == numbers.MIXED else found
        case _:
            return _of_doubles(function, values, offsets)


def _of_doubles(function: str, values: pa.Array, offsets: Ints) -> pa.Array:
    counts = np.diff(offsets)
    doubles = np.asarray(numbers.double(values))
    owner = np.repeat(np.arange(len(counts)), counts)
    with np.errstate(all="ignore"):
        if function == "MEDIAN":
            ordered = doubles[np.lexsort((doubles, owner))]
            ordered = ordered if len(ordered) else np.zeros(1)
            low = np.minimum(offsets[:-1] + np.maximum(counts - 1, 0) // 2, len(ordered) - 1)
            high = np.minimum(offsets[:-1] + counts // 2, len(ordered) - 1)
            return pa.array((ordered[low] + ordered[high]) / 2, mask=counts == 0)
        means = np.bincount(owner, doubles, len(counts)) / counts
        least = 1 if function.endswith("_POP") else 2
        variance = np.bincount(owner, (doubles - means[owner]) ** 2, len(counts)) / (counts + 1 - least)
        return pa.array(np.sqrt(variance) if function.startswith("STDDEV") else variance, mask=counts < least)


def _at(values: npt.NDArray[Any], places: Ints, missing: int = -1) -> npt.NDArray[Any]:
    """The values at these places; where there is none, `missing`."""
    if not len(values):
        return np.full(len(places), missing, values.dtype)
    found = values[np.maximum(places, 0)]
    return np.where(places >= 0, found, missing) if len(places) and places.min() < 0 else found


def _counted(offsets: Ints, member: Mask, asked: Ints) -> pa.Array:
    return pa.array(_at(running_sums(offsets, member, np.ones(len(member), np.int64)), asked, 0))


def columns_asked(expressions: Iterable[Expression]) -> set[str]:
    """The columns of the table that expressions need."""
    found: set[str] = set()
    for expression in expressions:
        for _, frame in expression.frames:
            values = (frame.argument, frame.second) if isinstance(frame, RowFold) else (getattr(frame, "value", None),)
            for value in values:
                found |= set() if value is None else names_in(value) - OF_MATCH
    return found


# ---------------------------------------------------------------- one pass over the path


@kernel
def navigate(offsets: Ints, variables: Ints, among: npt.NDArray[np.uint8], first: bool, logical: int) -> Ints:
    """For every place of the path, of those up to it that are of some variables the first or last, so many further; -1: none."""
    found = np.empty(len(variables), np.int64)
    members = np.empty(len(variables) if logical else 1, np.int64)
    for match in range(len(offsets) - 1):
        n_members = 0
        only = -1  # where nothing has to be counted, one place is enough
        for place in range(offsets[match], offsets[match + 1]):
            if among[variables[place]]:
                if logical:
                    members[n_members] = place
                elif not first or n_members == 0:
                    only = place
                n_members += 1
            if not logical:
                found[place] = only
            elif n_members <= logical:
                found[place] = -1
            else:
                found[place] = members[logical if first else n_members - 1 - logical]
    return found


@kernel
def navigate_last(offsets: Ints, variables: Ints, among: npt.NDArray[np.uint8], first: bool, logical: int) -> Ints:
    """The same for the last place of every match alone."""
    found = np.empty(len(offsets) - 1, np.int64)
    for match in range(len(offsets) - 1):
        begin, end = offsets[match], offsets[match + 1]
        left, found[match] = logical, -1
        for step in range(end - begin):
            place = begin + step if first else end - 1 - step
            if among[variables[place]]:
                if left == 0:
                    found[match] = place
                    break
                left -= 1
    return found


@kernel
def running_sums(offsets: Ints, member: Mask, values: Summed) -> Summed:
    """For every place, the sum of the match so far."""
    sums = np.empty_like(values)
    for match in range(len(offsets) - 1):
        total = values.dtype.type(0)
        for place in range(offsets[match], offsets[match + 1]):
            if member[place]:
                total += values[place]
            sums[place] = total
    return sums


@kernel
def best_so_far(offsets: Ints, member: Mask, ranks: Ints, smallest: bool) -> Ints:
    """For every place, where the smallest or largest value of the match so far is; -1 for none."""
    found = np.empty(len(ranks), np.int64)
    for match in range(len(offsets) - 1):
        best = -1
        for place in range(offsets[match], offsets[match + 1]):
            if member[place] and (best < 0 or ((ranks[place] < ranks[best]) == smallest and ranks[place] != ranks[best])):
                best = place
            found[place] = best
    return found
