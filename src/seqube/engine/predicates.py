"""Values and predicates over columns: one vectorised evaluator for masks, keys, comparisons in loops, filters and RETURN.

A `Bindings` says which row each variable is bound to, for many candidates at once; a value over it is an Arrow array, a
predicate a mask that is true where the predicate is true (not false, not unknown: SQL's rule). Values are normalised on the way
in: integers are 64-bit, other numbers are doubles, moments are microseconds; NaN is no number and counts as null.

Loops compare 64-bit integers only. `rank_pair` turns two columns of any kind into integers that compare like the originals, with
`NULL` for null; `code_columns` turns columns into dense codes that are equal where the values are.

Cost: a pass over the candidates per operator of the expression.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from seqube.errors import PlanError
from seqube.events import Events
from seqube.events.schema import UNITS
from seqube.language.tree import (
    AllOf,
    Among,
    AnyOf,
    Arithmetic,
    Attribute,
    Comparison,
    Duration,
    FirstOf,
    Inverse,
    IsNull,
    IsTrue,
    Literal,
    Minus,
    Predicate,
    Value,
)

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Bindings = Mapping[str, Ints]  # variable -> row numbers, -1 where it is not bound

NULL = np.iinfo(np.int64).min  # stands for null among ranks; no valid rank has this value
UNBOUND = -1

_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "=": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
_CHECKED = {"+": pc.add_checked, "-": pc.subtract_checked, "*": pc.multiply_checked}


class Evaluator:
    """Evaluates values and predicates against the columns of one batch."""

    def __init__(self, events: Events) -> None:
        self._events = events
        self._columns: dict[str, pa.Array] = {}

    def true(self, predicates: Sequence[Predicate], bindings: Bindings, size: int) -> Mask:
        """Where all the predicates are true."""
        mask = np.ones(size, np.bool_)
        for predicate in predicates:
            mask &= _mask(self.predicate(predicate, bindings), size)
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
                found = self._among(self.value(operand, bindings), [literal.value for literal in values])
                return pc.invert(found) if negated else found
            case IsNull(operand, negated):
                value = self.value(operand, bindings)
                return pc.is_valid(value) if negated else pc.is_null(value)
            case IsTrue(operand):
                return self.value(operand, bindings)
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
        left, right = self.alike(left, right)
        return _COMPARE[op](left, right)

    def _among(self, operand: Any, values: list[Any]) -> Any:
        listed = self._listed(operand, [value for value in values if value is not None])
        if pat.is_floating(operand.type):
            operand = pc.add(operand, 0.0)  # -0.0 equals 0.0
        found = pc.is_in(operand, value_set=listed)
        # SQL: null is neither in nor out of a list; nothing is outside a list that holds null.
        known = pc.is_valid(operand)
        if None in values:
            known = pc.and_(known, found)
        return pc.if_else(known, found, pa.scalar(None, pa.bool_()))

    def _listed(self, operand: Any, values: list[Any]) -> pa.Array:
        kind = operand.type
        if pat.is_timestamp(kind):
            return pa.array([self._moment(value) for value in values], kind)
        if pat.is_int64(kind) and any(isinstance(value, float) for value in values):
            values = [int(value) for value in values if float(value).is_integer()]
        if pat.is_floating(kind):
            values = [float(value) for value in values]
        return pa.array(values, pa.string() if pat.is_null(kind) else kind)

    # ------------------------------------------------------------ values

    def value(self, node: Value, bindings: Bindings) -> pa.Array | pa.Scalar:
        match node:
            case Literal(value):
                return pa.scalar(value)
            case Duration(microseconds):
                return pa.scalar(microseconds, pa.duration("us"))
            case Attribute(variable, name):
                if variable is None:  # a partition key: the same on every event of the match, so any bound one tells it
                    return _first_of([take(self._column(name), rows) for rows in bindings.values()])
                return take(self._column(name), bindings[variable])
            case Minus(operand):
                inner = self.value(operand, bindings)
                zero = pa.scalar(0, pa.int64() if pat.is_null(inner.type) else inner.type)
                return self._calculate("-", zero, inner)
            case Arithmetic(op, left, right):
                return self._calculate(op, self.value(left, bindings), self.value(right, bindings))
            case FirstOf(values):
                return _first_of([self.value(value, bindings) for value in values])
            case _:
                raise PlanError(f"{type(node).__name__} has no value of its own per match")

    def _column(self, name: str) -> pa.Array:
        if name not in self._columns:
            self._columns[name] = normalise(self._events.column(name))
        return self._columns[name]

    def alike(self, left: Any, right: Any) -> tuple[Any, Any]:
        """Both sides in one Arrow type, where they can be compared or added.

        Text next to a moment is read as one; an integer next to a double becomes one; a duration next to a number means the
        ticks of an integer time column.
        """
        if pat.is_timestamp(left.type) and pat.is_string(right.type):
            right = self._as_moment(right)
        elif pat.is_timestamp(right.type) and pat.is_string(left.type):
            left = self._as_moment(left)
        elif pat.is_duration(left.type) and _is_number(right.type):
            left = self._ticks(left)
        elif pat.is_duration(right.type) and _is_number(left.type):
            right = self._ticks(right)
        if pat.is_floating(left.type) != pat.is_floating(right.type):
            return (left, _double(right)) if pat.is_floating(left.type) else (_double(left), right)
        return left, right

    def _ticks(self, duration: Any) -> Any:
        ticks = pc.divide(pc.multiply(_double(_microseconds(duration)), 1_000.0), float(UNITS[self._events.unit]))
        whole = ticks.cast(pa.int64(), safe=False)
        exact = pc.equal(_double(whole), ticks)
        is_exact = exact if isinstance(exact, pa.Scalar) else pc.all(exact)
        return whole if is_exact.as_py() else ticks

    def _as_moment(self, text: Any) -> Any:
        if isinstance(text, pa.Scalar):
            return pa.scalar(self._moment(text.as_py()), pa.timestamp("us"))
        return text.cast(pa.timestamp("us"))

    def _moment(self, text: str | None) -> datetime | None:
        if text is None:
            return None
        moment = datetime.fromisoformat(text)
        return moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment

    def _calculate(self, op: str, left: Any, right: Any) -> Any:
        if op in "*/" and (pat.is_duration(left.type) or pat.is_duration(right.type)):
            return self._scale(op, left, right)
        left, right = self.alike(left, right)
        if op in _CHECKED:
            try:
                return _without_nan(_CHECKED[op](left, right))
            except pa.ArrowInvalid:  # out of 64 bits: doubles hold the size, if not every digit
                return _without_nan(_CHECKED[op](_double(left), _double(right)))
        if op == "%" and pat.is_int64(left.type) and pat.is_int64(right.type):
            return _remainder(left, right)
        left, right = _double(left), _double(right)
        right = pc.if_else(pc.equal(right, 0.0), pa.scalar(None, pa.float64()), right)  # by zero: null
        return _without_nan(pc.divide(left, right)) if op == "/" else _remainder(left, right)

    def _scale(self, op: str, left: Any, right: Any) -> Any:
        """A duration times or by a number, to the microsecond; a duration by a duration, which is a number."""
        result = self._calculate(op, _microseconds(left), _microseconds(right))
        if pat.is_duration(left.type) and pat.is_duration(right.type):
            return result
        if pat.is_floating(result.type):
            result = pc.round(result).cast(pa.int64(), safe=False)
        return result.cast(pa.duration("us"))


def _is_number(kind: pa.DataType) -> bool:
    return bool(pat.is_int64(kind) or pat.is_floating(kind))


def _microseconds(value: Any) -> Any:
    return value.cast(pa.int64()) if pat.is_duration(value.type) else value


def _double(value: Any) -> Any:
    """As a double, rounded where an integer has more digits than one holds (SQL's rule)."""
    return value.cast(pa.float64(), safe=False)


def _first_of(values: list[Any]) -> Any:
    return values[0] if len(values) == 1 else pc.coalesce(*values)


def _remainder(left: Any, right: Any) -> Any:
    """What is left of a division, with the sign of the dividend; null where the divisor is zero."""
    scalar = isinstance(left, pa.Scalar) and isinstance(right, pa.Scalar)
    right = pc.if_else(pc.equal(right, pa.scalar(0, right.type)), pa.scalar(None, right.type), right)
    size = len(left) if isinstance(left, pa.Array) else len(right) if isinstance(right, pa.Array) else 1
    dividends, divisors = (pa.repeat(side, size) if isinstance(side, pa.Scalar) else side for side in (left, right))
    null = np.asarray(pc.or_(pc.is_null(dividends), pc.is_null(divisors)))
    values = np.fmod(np.asarray(dividends.fill_null(0)), np.asarray(divisors.fill_null(1)))
    result = _without_nan(pa.array(values, mask=null))
    return result[0] if scalar else result


def _without_nan(values: Any) -> Any:
    """NaN is no number: it counts as null in predicates."""
    if pat.is_floating(values.type):
        nan = pc.is_nan(values)
        if isinstance(nan, pa.Scalar) or pc.any(nan).as_py():
            return pc.if_else(nan, pa.scalar(None, values.type), values)
    return values


def normalise(column: pa.Array) -> pa.Array:
    """A column in one of the few Arrow types that are computed with."""
    kind = column.type
    if pat.is_dictionary(kind):
        return normalise(column.dictionary_decode())
    if pat.is_uint64(kind):
        try:
            return column.cast(pa.int64())
        except pa.ArrowInvalid:
            return column.cast(pa.float64(), safe=False)
    if pat.is_integer(kind):
        return column.cast(pa.int64())
    if pat.is_floating(kind) or pat.is_decimal(kind):
        return _without_nan(column.cast(pa.float64()))
    if pat.is_large_string(kind) or pat.is_string_view(kind):
        return column.cast(pa.string())
    if pat.is_timestamp(kind) or pat.is_date(kind):
        if pat.is_timestamp(kind) and kind.tz is not None:
            column = column.cast(pa.timestamp(kind.unit, "UTC")).cast(pa.timestamp(kind.unit, "UTC"))
            return column.cast(pa.timestamp("us", "UTC"), safe=False).cast(pa.timestamp("us"))
        return column.cast(pa.timestamp("us"), safe=False)
    if pat.is_duration(kind):
        return column.cast(pa.duration("us"), safe=False)
    return column


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
    return np.asarray(result.fill_null(False) if result.null_count else result).astype(np.bool_)


# ---------------------------------------------------------------- integers that compare like the originals


def rank_pair(left: pa.Array, right: pa.Array, evaluator: Evaluator) -> tuple[Ints, Ints]:
    """Two columns as integers with the same order and equality between them; null becomes NULL."""
    left, right = evaluator.alike(left, right)
    kind = left.type if not pat.is_null(left.type) else right.type
    if pat.is_int64(kind) or pat.is_timestamp(kind) or pat.is_duration(kind) or pat.is_boolean(kind):
        ranks = [_integers(side) for side in (left, right)]
        if not any(valid.size and valid.min() == NULL for valid in (r[v] for r, v in ranks)):
            return _with_null(*ranks[0]), _with_null(*ranks[1])
    elif pat.is_floating(kind):
        return _with_null(*_sortable(left)), _with_null(*_sortable(right))
    both = pa.concat_arrays([left.cast(kind), right.cast(kind)])
    codes, valid = _integers(pc.rank(both, sort_keys="ascending", tiebreaker="dense").cast(pa.int64())), np.asarray(both.is_valid())
    ranks_of_both = _with_null(codes[0], valid)
    return ranks_of_both[: len(left)], ranks_of_both[len(left) :]


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
        column = pa.concat_arrays(_one_type([table[k] for table in columns]))
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


def _one_type(pieces: list[pa.Array]) -> list[pa.Array]:
    kinds = {piece.type for piece in pieces if not pat.is_null(piece.type)}
    if not kinds:
        return [piece.cast(pa.string()) for piece in pieces]
    kind = next(iter(kinds)) if len(kinds) == 1 else pa.float64()
    if pat.is_floating(kind):
        return [pc.add(_double(piece), 0.0) for piece in pieces]  # -0.0 equals 0.0
    return [piece.cast(kind) for piece in pieces]
