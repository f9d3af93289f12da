"""Values and predicates over columns: one vectorised evaluator for masks, keys, comparisons in loops, filters and RETURN.

A `Bindings` says which row each variable is bound to, for many candidates at once; a value over it is an Arrow array, a
predicate a mask that is true where the predicate is true (not false, not unknown: SQL's rule). Values are normalised on the way
in: integers are 64-bit, moments are microseconds (rounded down) in their own zone, dictionaries are what they stand for; NaN is no
number and counts as null. `numbers` calculates and compares; moments and durations are integers that are checked.

Loops compare 64-bit integers only. `rank` turns columns of any kind into integers that compare like the originals, with
`NULL` for null; `code_columns` turns columns into dense codes that are equal where the values are.

Cost: a pass over the candidates per operator of the expression.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from seqube.engine import functions, numbers
from seqube.engine.bindings import Bindings, Column, Lists, before, every_way, last_rows, whole
from seqube.errors import DataError, PlanError, Problem, QueryError
from seqube.events.schema import TIME, UNITS, Kind, is_text
from seqube.events.times import microseconds
from seqube.language.functions import value_function
from seqube.language.mentions import named_before, named_by_event, variables_of
from seqube.language.tree import (
    AllOf,
    Among,
    AnyOf,
    Arithmetic,
    AtLevel,
    Attribute,
    Between,
    Call,
    Comparison,
    Condition,
    Duration,
    FirstOf,
    Inverse,
    IsNull,
    IsTrue,
    Literal,
    Minus,
    OfList,
    Predicate,
    Prev,
    Value,
)
from seqube.language.writer import write_value

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

NULL = np.iinfo(np.int64).min  # stands for null among ranks; no valid rank has this value
_INT64 = np.iinfo(np.int64)

_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "=": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
_CHECKED = {"+": pc.add_checked, "-": pc.subtract_checked}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_UTC = pa.timestamp("us")  # what moments of different zones are compared in


class Readable(Protocol):
    """What values are evaluated against: columns by name, the kind of the time among them, and the unit of one that is a number."""

    @property
    def unit(self) -> str: ...
    @property
    def schema(self) -> Mapping[str, Kind]: ...
    def column(self, name: str) -> pa.Array: ...


class Evaluator:
    """Evaluates values and predicates against the columns of one batch."""

    def __init__(self, events: Readable) -> None:
        self._events = events
        self._columns: dict[str, pa.Array] = {}

    def true(self, predicates: Sequence[Predicate], bindings: Bindings, size: int) -> Mask:
        """Where all the predicates are true."""
        mask = np.ones(size, np.bool_)
        for predicate in predicates:
            lists = sorted(name for name in named_by_event(predicate) if isinstance(bindings.get(name), Lists))
            mask &= (
                self._true_of_all(predicate, bindings, lists, size) if lists else _mask(self.predicate(predicate, bindings), size)
            )
        return mask

    def _true_of_all(self, predicate: Predicate, bindings: Bindings, lists: list[str], size: int) -> Mask:
        """Where a predicate is true of every event of the lists it names, or of every pair of neighbours."""
        named = {name: bindings[name] for name in variables_of(predicate)}
        candidates, ways = every_way(named, lists, named_before(predicate), size)
        mask = np.ones(size, np.bool_)
        mask[candidates[~_mask(self.predicate(predicate, ways), len(candidates))]] = False
        return mask

    def array(self, value: Value, bindings: Bindings, size: int) -> pa.Array:
        """A value for every candidate."""
        result = self.value(value, bindings)
        if isinstance(result, pa.Scalar):
            return pa.repeat(result, size)
        return result

    # ------------------------------------------------------------ predicates

    def predicate(self, node: Predicate, bindings: Bindings) -> pa.Array | pa.Scalar:
        match node:
            case Comparison(op, left, right):
                return self._compare(op, self.value(left, bindings), self.value(right, bindings))
            case Among(operand, values, negated):
                listed = [literal.value for literal in values if isinstance(literal, Literal)]
                found = self._among(self.value(operand, bindings), listed)
                return pc.invert(found) if negated else found
            case Between(operand, low, high, negated):
                bounds = AllOf((Comparison(">=", operand, low), Comparison("<=", operand, high)))
                return self.predicate(Inverse(bounds) if negated else bounds, bindings)
            case IsNull(operand, negated):
                value = self.value(operand, bindings)
                return pc.is_valid(value) if negated else pc.is_null(value)
            case IsTrue(operand):
                return self.value(operand, bindings).cast(pa.bool_())  # of a column without values, null
            case Inverse(part):
                return pc.invert(self.predicate(part, bindings))
            case AllOf(parts) | AnyOf(parts):
                join = pc.and_kleene if isinstance(node, AllOf) else pc.or_kleene
                result = self.predicate(parts[0], bindings)
                for part in parts[1:]:
                    result = join(result, self.predicate(part, bindings))
                return result
            case _:
                raise PlanError(f"{type(node).__name__} is resolved before anything is evaluated")

    def _compare(self, op: str, left: Any, right: Any) -> Any:
        left, right = self.alike([left, right])
        return _COMPARE[op](left, right)

    def _among(self, operand: Any, values: list[Any]) -> Any:
        listed = [value for value in values if value is not None]
        if numbers.is_number(operand.type):
            found = numbers.among(operand, listed)
        else:
            found = self._found(operand, listed)
        if None in values:  # SQL: nothing is outside a list that holds null
            found = pc.if_else(found, found, pa.scalar(None, pa.bool_()))
        return found

    def _found(self, operand: Any, values: list[Any]) -> Any:
        if pat.is_timestamp(operand.type):
            zone = self._zone_of([operand])
            operand, values = operand.cast(_UTC), [read_moment(value, zone) for value in values]
        if pat.is_null(operand.type):
            operand = operand.cast(pa.string())
            values = []
        found = pc.is_in(operand, value_set=pa.array(values, operand.type))
        return pc.if_else(pc.is_valid(operand), found, pa.scalar(None, pa.bool_()))  # SQL: null is neither in nor out of a list

    # ------------------------------------------------------------ values

    def value(self, node: Value, bindings: Bindings) -> pa.Array | pa.Scalar:
        match node:
            case Literal(value):
                return pa.scalar(value, pa.uint64()) if type(value) is int and value > _INT64.max else pa.scalar(value)
            case Duration(microseconds):
                return pa.scalar(microseconds, pa.duration("us"))
            case Attribute(variable, name):
                if variable is None:  # a partition key: the same on every event of the match, so any bound one tells it
                    return _first_of([take(self._column(name), last_rows(rows)) for rows in bindings.values()])
                rows = bindings[variable]
                if isinstance(rows, Lists) and not rows.single:
                    return pa.ListArray.from_arrays(pa.array(rows.offsets, pa.int32()), take(self._column(name), rows.rows))
                return take(self._column(name), last_rows(rows))
            case Prev(Attribute(variable, name)):
                return take(self._column(name), last_rows(bindings[before(variable or "")]))
            case OfList(function, Attribute(variable, name)):
                return self._of_list(function, name, bindings.get(whole(variable or ""), bindings[variable or ""]))
            case Minus(operand):
                inner = self.value(operand, bindings)
                zero = pa.scalar(0, pa.int64() if not pat.is_duration(inner.type) else inner.type)
                return self._calculate(node, "-", zero, inner)
            case Arithmetic(op, left, right):
                return self._calculate(node, op, self.value(left, bindings), self.value(right, bindings))
            case AtLevel(argument, _, concepts=concepts):
                names = self.value(argument, bindings)
                below, above = (pa.array([pair[i] for pair in concepts], pa.string()) for i in (0, 1))
                return pc.coalesce(above.take(pc.index_in(names, value_set=below)), names)
            case FirstOf(values):
                return _first_of([self.value(value, bindings) for value in values])
            case Call():
                return self._call(node, bindings)
            case Condition(predicate):
                return self.predicate(predicate, bindings)
            case _:
                raise PlanError(f"{type(node).__name__} has no value of its own per match")

    def _of_list(self, function: str, name: str, lists: Column) -> pa.Array:
        """A value of each list: how many events it has, the value at one of its ends, or one of all its values."""
        assert isinstance(lists, Lists), "only a repeated part is a list"
        if function == "COUNT":
            return pa.array(lists.counts)
        column = self._column(name)
        if function in ("FIRST", "LAST"):
            return take(column, lists.firsts if function == "FIRST" else lists.lasts)
        values = take(column, lists.rows)
        if not pat.is_duration(column.type) or function in ("MIN", "MAX"):
            return numbers.of_lists(function, values, lists.offsets)
        found = numbers.of_lists(function, values.cast(pa.int64()), lists.offsets)
        if not pat.is_int64(found.type):
            found = pc.round(numbers.double(found), round_mode="half_to_even").cast(pa.int64())
        return found.cast(pa.duration("us"))

    def _column(self, name: str) -> pa.Array:
        if name not in self._columns:
            self._columns[name] = normalise(self._events.column(name), name)
        return self._columns[name]

    # ------------------------------------------------------------ functions

    def _call(self, node: Call, bindings: Bindings) -> pa.Array | pa.Scalar:
        function, arguments = value_function(node.function, node.at), node.arguments
        if node.function == "CASE":
            return self._case(arguments, bindings)
        values: list[Any] = [
            argument.value if place in function.constants and isinstance(argument, Literal) else self.value(argument, bindings)
            for place, argument in enumerate(arguments)
        ]
        match node.function:
            case "CAST":
                return functions.cast(values[0], values[1], self._zone)
            case "COALESCE":
                return pc.coalesce(*self.alike(values, numbers.common))
            case "NULLIF":
                first, _ = self.alike(values, numbers.common)
                return pc.if_else(pc.fill_null(self._compare("=", *values), False), pa.scalar(None, first.type), first)
            case "LEAST" | "GREATEST":
                return self._extreme("<=" if node.function == "LEAST" else ">=", self.alike(values, numbers.common))
            case "IS DISTINCT FROM":
                same = pc.and_(*(pc.is_null(value) for value in values))
                return pc.invert(pc.coalesce(self._compare("=", *values), same))
            case name:
                typed = [
                    value
                    if place in function.constants
                    else _of_kind(value, function.takes[min(place, len(function.takes) - 1)][0])
                    for place, value in enumerate(values)
                ]
                try:
                    return functions.COMPUTED[name](*typed)
                except pa.ArrowInvalid as error:
                    raise QueryError(Problem(f"{node.function} cannot be computed: {error}")) from None

    def _case(self, arguments: tuple[Value, ...], bindings: Bindings) -> pa.Array | pa.Scalar:
        """From the last to the first: what is chosen where a condition holds, else what was chosen so far."""
        conditions = [self.value(condition, bindings).cast(pa.bool_()) for condition in arguments[:-1:2]]
        *choices, result = self.alike([self.value(value, bindings) for value in (*arguments[1::2], arguments[-1])], numbers.common)
        for condition, choice in zip(reversed(conditions), reversed(choices), strict=True):
            result = pc.if_else(pc.fill_null(condition, False), choice, result)
        return result

    def _extreme(self, op: str, values: list[Any]) -> Any:
        result = values[0]
        for value in values[1:]:
            first = pc.coalesce(self._compare(op, result, value), pc.is_null(value))
            result = pc.if_else(first, result, value)
        return result

    @property
    def _zone(self) -> str | None:
        """The zone of the time column."""
        kind = self._events.column(TIME).type
        return kind.tz if pat.is_timestamp(kind) else None

    def _zone_of(self, columns: Sequence[Any]) -> str | None:
        """The zone of a text next to moments that says none: that of the time column, if they have one at all."""
        zones = [column.type.tz for column in columns if pat.is_timestamp(column.type) and column.type.tz is not None]
        return self._zone or zones[0] if zones else None

    def alike(self, columns: Sequence[Any], join: Callable[[Sequence[Any]], list[Any]] = numbers.aligned) -> list[Any]:
        """Columns and constants in one Arrow type, in which they compare (or, if `join` makes one, of which one is chosen).

        Text next to a moment is read as one; a period next to a number means the ticks of an integer time column.
        """
        kinds = [column.type for column in columns]
        if any(pat.is_timestamp(kind) for kind in kinds):
            zone = self._zone_of(columns)
            columns = [_as_moment(column, zone) if pat.is_string(column.type) else column for column in columns]
        elif any(numbers.is_number(kind) for kind in kinds):
            columns = [self._ticks(column) if pat.is_duration(column.type) else column for column in columns]
        return one_type(columns, join)

    def _ticks(self, period: pa.Scalar) -> pa.Scalar:
        """A period as a number in the unit of the time column."""
        if period.as_py() is None:
            return pa.scalar(None, pa.int64())
        ticks = Fraction(period.cast(pa.int64()).as_py() * 1_000, UNITS[self._events.unit])
        return pa.scalar(ticks.numerator if ticks.denominator == 1 else float(ticks))

    def _calculate(self, node: Value, op: str, left: Any, right: Any) -> Any:
        if self._events.schema[TIME] == "number":  # there a period that meets a number is one
            if numbers.is_number(right.type) and pat.is_duration(left.type) and isinstance(left, pa.Scalar):
                left = self._ticks(left)
            elif numbers.is_number(left.type) and pat.is_duration(right.type) and isinstance(right, pa.Scalar):
                right = self._ticks(right)
        if not any(pat.is_temporal(side.type) for side in (left, right)):
            return numbers.calculate(op, *(side.cast(pa.int64()) if pat.is_null(side.type) else side for side in (left, right)))
        try:
            return self._calculate_time(op, left, right)
        except pa.ArrowInvalid:
            raise DataError(
                f"{write_value(node)} is longer or later than there is time for: 2^63 - 1 microseconds, about 292,000 years\n"
                "  hint: make it smaller, or leave out such events with a condition"
            ) from None

    def _calculate_time(self, op: str, left: Any, right: Any) -> Any:
        """Moments and durations, checked; a duration times or by a number, to the microsecond; by a duration, a number."""
        if pat.is_null(left.type) or pat.is_null(right.type):
            sizes = [len(side) for side in (left, right) if isinstance(side, pa.Array)]
            return pa.nulls(sizes[0]) if sizes else pa.scalar(None)
        if op in _CHECKED:
            if pat.is_timestamp(left.type) and pat.is_timestamp(right.type):
                left, right = one_type([left, right])
            if pat.is_duration(left.type) and pat.is_duration(right.type):  # Arrow checks numbers, not durations
                return _CHECKED[op](_microseconds(left), _microseconds(right)).cast(pa.duration("us"))
            return _CHECKED[op](left, right)
        result = numbers.calculate(op, _microseconds(left), _microseconds(right))
        if op == "/" and pat.is_duration(left.type) and pat.is_duration(right.type):
            return result
        if not pat.is_int64(result.type):
            result = pc.round(numbers.double(result)).cast(pa.int64())
        return result.cast(pa.duration("us"))


_OF_KIND: dict[str, pa.DataType] = {
    "number": pa.int64(), "string": pa.string(), "boolean": pa.bool_(), "time": _UTC, "duration": pa.duration("us"),
}  # fmt: skip


def _of_kind(value: Any, kind: str) -> Any:
    """A column without values as one of that kind."""
    return value.cast(_OF_KIND[kind]) if pat.is_null(value.type) else value


def _microseconds(value: Any) -> Any:
    return value.cast(pa.int64()) if pat.is_duration(value.type) else value


def _as_moment(text: Any, zone: str | None) -> Any:
    if isinstance(text, pa.Scalar):
        return pa.scalar(read_moment(text.as_py(), zone), _UTC)
    return functions.moments(text, zone).cast(_UTC)


def read_moment(text: str | None, zone: str | None) -> int | None:
    """An ISO 8601 text in microseconds since 1970; one that names no zone is in this one, or in UTC.

    A zone may carry it beyond the years that Python has.
    """
    if text is None:
        return None
    moment = datetime.fromisoformat(text)
    local = (moment.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND
    if moment.tzinfo is not None or zone is None:
        return local - (moment.utcoffset() or timedelta(0)) // _MICROSECOND
    there = pc.assume_timezone(pa.scalar(local, _UTC), zone, ambiguous="earliest", nonexistent="latest")
    return int(there.cast(pa.int64()).as_py())


def _first_of(values: list[Any]) -> Any:
    known = [value for value in values if not pat.is_null(value.type)] or values[:1]  # a part that is absent has no type
    return known[0] if len(known) == 1 else pc.coalesce(*known)


def one_type(columns: Sequence[Any], join: Callable[[Sequence[Any]], list[Any]] = numbers.aligned) -> list[Any]:
    """Columns and constants of one kind in one Arrow type, in which they compare; numbers as `join` makes them alike."""
    kinds = {column.type for column in columns if not pat.is_null(column.type)}
    if all(numbers.is_number(kind) for kind in kinds):
        return join(columns)
    kind = next(iter(kinds)) if len(kinds) == 1 else _UTC
    return [column.cast(kind) for column in columns]


def normalise(column: pa.Array, name: str = "") -> pa.Array:
    """A column in one of the few Arrow types that are computed with."""
    kind = column.type
    if pat.is_dictionary(kind):
        return normalise(column.dictionary_decode(), name)
    if pat.is_uint64(kind):
        highest = pc.max(column).as_py()
        return column if highest is not None and highest > _INT64.max else column.cast(pa.int64())
    if pat.is_integer(kind):
        return column.cast(pa.int64())
    if pat.is_floating(kind):
        return numbers.without_nan(column.cast(pa.float64()))
    if pat.is_decimal(kind) and kind.bit_width < 128:
        return column.cast(pa.decimal128(kind.precision, kind.scale))
    if pat.is_large_string(kind) or pat.is_string_view(kind):
        return column.cast(pa.string())
    if pat.is_timestamp(kind) or pat.is_date(kind) or pat.is_duration(kind):
        try:
            return microseconds(column)
        except pa.ArrowInvalid:
            raise DataError(
                f"column {name!r} has a value beyond 2^63 - 1 microseconds, about 292,000 years\n"
                "  hint: make it null, or leave the row out"
            ) from None
    return column


def shown(column: pa.Array) -> pa.Array:
    """Values as a result shows them: as they came, but equal ones alike (no dictionary, nothing below a microsecond, no -0.0)."""
    kind = column.type
    if pat.is_dictionary(kind):
        return shown(column.dictionary_decode())
    if (pat.is_timestamp(kind) or pat.is_duration(kind)) and kind.unit == "ns":
        return microseconds(column)
    return pc.add(column, pa.scalar(0, kind)) if pat.is_floating(kind) and not pat.is_float16(kind) else column


def take(column: pa.Array, rows: Ints) -> pa.Array:
    """The column at these rows; null where a row is UNBOUND."""
    if rows.min(initial=0) < 0:
        return column.take(pa.array(rows, mask=rows < 0))
    return gather(column, rows)


def gather(column: pa.Array, rows: Ints) -> pa.Array:
    """The column at these rows, all of which are bound."""
    kind = column.type
    if column.null_count or not (pat.is_integer(kind) or pat.is_floating(kind) or pat.is_timestamp(kind)) or pat.is_float16(kind):
        return column.take(pa.array(rows))
    width = np.dtype(f"i{kind.bit_width // 8}")
    values = np.frombuffer(column.buffers()[1], width, count=len(column), offset=column.offset * width.itemsize)
    # Arrow's memory pool hands out pages that it has used before; NumPy's fresh ones would cost more than the gather itself.
    buffer = pa.allocate_buffer(len(rows) * width.itemsize)
    np.take(values, rows, out=np.frombuffer(buffer, width), mode="clip")
    return pa.Array.from_buffers(kind, len(rows), [None, buffer])


def _mask(result: Any, size: int) -> Mask:
    if isinstance(result, pa.Scalar):
        return np.full(size, result.as_py() is True)
    if pat.is_null(result.type):
        return np.zeros(size, np.bool_)
    return np.asarray(result.fill_null(False) if result.null_count else result).astype(np.bool_)


# ---------------------------------------------------------------- integers that compare like the originals


def rank(columns: Sequence[Any], evaluator: Evaluator) -> list[Ints]:
    """Columns (and constants, as columns of one row) as integers with the same order and equality between them; NULL for null."""
    alike = evaluator.alike(columns)
    arrays = [pa.repeat(column, 1) if isinstance(column, pa.Scalar) else column for column in alike]
    kind = arrays[0].type
    if pat.is_int64(kind) or pat.is_timestamp(kind) or pat.is_duration(kind) or pat.is_boolean(kind):
        ranks = [_integers(array) for array in arrays]
        if not any(valid.size and valid.min() == NULL for valid in (r[v] for r, v in ranks)):
            return [_with_null(*each) for each in ranks]
    elif pat.is_floating(kind):
        return [_with_null(*_sortable(array)) for array in arrays]
    both = pa.concat_arrays(arrays)
    codes, valid = _integers(pc.rank(both, sort_keys="ascending", tiebreaker="dense").cast(pa.int64())), np.asarray(both.is_valid())
    return np.split(_with_null(codes[0], valid), np.cumsum([len(array) for array in arrays])[:-1])


class Unsteady(Exception):  # noqa: N818 - not an error: whoever goes on with values has to take another way
    """There is no 64-bit integer that stands for a value, whatever it is compared with later."""


def steady(column: pa.Array, how: str) -> Ints:
    """A column as integers that compare like the originals with those of any other column, now or later; NULL for null.

    `how` says what both sides of a comparison are: "whole" (numbers, times, truth values), or "double" where one of them is.
    """
    kind = column.type
    if how == "double":
        if pat.is_int64(kind):
            column = numbers.aligned([column, pa.scalar(0.0)])[0]
        if not (pat.is_floating(column.type) or pat.is_null(kind)):
            raise Unsteady
        return _with_null(*_sortable(column))
    if not (pat.is_int64(kind) or pat.is_timestamp(kind) or pat.is_duration(kind) or pat.is_boolean(kind) or pat.is_null(kind)):
        raise Unsteady
    values, valid = _integers(column)
    if (values[valid] == NULL).any():
        raise Unsteady
    return _with_null(values, valid)


def compared(kinds: Iterable[pa.DataType], op: str) -> str:
    """How the sides of a comparison become integers that stay: "whole", "double", or "text" (codes that are equal or not)."""
    known = [kind for kind in kinds if not pat.is_null(kind)]
    families = {
        "number" if numbers.is_number(kind) else "moment" if pat.is_timestamp(kind) else "text" if is_text(kind) else str(kind)
        for kind in known
    }
    if len(families) > 1 or any(pat.is_decimal(kind) or pat.is_uint64(kind) or pat.is_nested(kind) for kind in known):
        raise Unsteady
    if families == {"text"}:
        if op not in ("=", "!="):
            raise Unsteady
        return "text"
    return "double" if any(map(pat.is_floating, known)) else "whole"


def _integers(column: pa.Array) -> tuple[Ints, Mask]:
    valid = np.asarray(column.is_valid()).astype(np.bool_)
    if pat.is_null(column.type):
        return np.zeros(len(column), np.int64), valid
    whole = column.cast(pa.int64())
    return np.asarray(whole.fill_null(0) if whole.null_count else whole), valid


def _sortable(column: pa.Array) -> tuple[Ints, Mask]:
    """Doubles by their bits: positive ones order like integers, negative ones the other way round."""
    valid = np.asarray(column.is_valid()).astype(np.bool_)
    values = np.asarray(column.cast(pa.float64()).fill_null(0.0)) + 0.0  # -0.0 becomes 0.0
    bits = values.view(np.int64)
    return np.where(bits < 0, bits ^ np.int64(np.iinfo(np.int64).max), bits), valid


def _with_null(values: Ints, valid: Mask) -> Ints:
    return values if valid.all() else np.where(valid, values, NULL)


def code_columns(columns: Sequence[Sequence[pa.Array]]) -> tuple[list[Ints], int]:
    """Keys of several tables of columns as dense codes, equal where all columns are; -1 where one of them is null.

    `columns[i][k]` is column k of table i. Returns the codes of each table and how many codes there are.
    """
    sizes = [len(table[0]) for table in columns]
    codes, n_codes = np.zeros(sum(sizes), np.int64), 1
    null = np.zeros(len(codes), np.bool_)
    for k in range(len(columns[0])):
        column = _one_column([table[k] for table in columns])
        if column.null_count:
            null |= np.asarray(column.is_null()).astype(np.bool_)
        part, n_values = _code(column)
        if k == 0:
            codes, n_codes = part, n_values
        else:
            # Numbered anew after every column, so that the product of many columns stays small.
            distinct, codes = np.unique(codes * n_values + part, return_inverse=True)
            n_codes = len(distinct)
    codes = np.where(null, -1, codes) if null.any() else codes
    return np.split(codes.astype(np.int64, copy=False), np.cumsum(sizes)[:-1]), n_codes


def _code(column: pa.Array) -> tuple[Ints, int]:
    """A column as dense codes, equal where its values are, and how many there are; any code where it is null."""
    if pat.is_int64(column.type) and len(column) > column.null_count:
        low, high = (value.as_py() for value in pc.min_max(column).values())
        if high - low < len(column):
            # Numbers close together, as those of things mostly are, need no hash table: they are codes but for the gaps.
            numbers = np.asarray(column.fill_null(low) if column.null_count else column) - low
            seen = np.zeros(high - low + 1, np.bool_)
            seen[numbers] = True
            return (numbers, len(seen)) if seen.all() else ((np.cumsum(seen) - 1)[numbers], int(np.count_nonzero(seen)))
    encoded = column.dictionary_encode()
    return np.asarray(encoded.indices.fill_null(0)).astype(np.int64), max(1, len(encoded.dictionary))


def _one_column(pieces: list[pa.Array]) -> pa.Array:
    """Pieces as one column, equal where the values are."""
    column = pa.concat_arrays(one_type([normalise(piece) for piece in pieces]))
    return pc.add(column, 0.0) if pat.is_floating(column.type) else column  # -0.0 equals 0.0
