"""Exact numbers over columns: whole numbers, decimals and doubles, side by side.

Whole numbers are `int64`; a column with a value above that is `uint64`. A result of whole numbers that leaves 64 bits is a double
in its own row and in no other: such a column is `MIXED`, of which every row is whole or a double. Decimals are added, subtracted
and multiplied exactly (`/` gives doubles), in 38 digits or in 76. Next to a decimal, whole numbers and numbers that stand in the
query are decimals; next to a column of doubles decimals are doubles, as in SQL.

Comparisons are exact: 2^53 + 1 is not 9007199254740992.0. `aligned` brings columns into one Arrow type that orders like the
numbers; where none can (large whole numbers next to doubles) into their joint ranks.

Cost: a pass per operation; where whole numbers leave 64 bits a few more, and ranks are a sort.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from seqube.errors import DataError

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

MIXED = pa.struct([("whole", pa.int64()), ("real", pa.float64())])  # per row one of the two, or null
DIGITS = 76  # of the widest decimals there are

_LOW, _HIGH = -(1 << 63), (1 << 63) - 1
EXACT = 1 << 53  # doubles hold every whole number up to this
_SPLIT = 2048  # a multiple of this, up to 2^64, is a double
_WHOLE = pa.decimal128(20, 0)  # holds every whole number of 64 bits
_CHECKED: dict[str, Callable[[Any, Any], Any]] = {"+": pc.add_checked, "-": pc.subtract_checked, "*": pc.multiply_checked}


def is_number(kind: pa.DataType) -> bool:
    return _is_whole(kind) or bool(pat.is_floating(kind) or pat.is_decimal(kind))


def _is_whole(kind: pa.DataType) -> bool:
    return bool(pat.is_int64(kind) or pat.is_uint64(kind) or kind == MIXED)


def double(value: Any) -> Any:
    """As the nearest double."""
    kind = value.type
    if kind == MIXED:
        return pc.coalesce(pc.struct_field(value, "real"), double(pc.struct_field(value, "whole")))
    if pat.is_decimal(kind):  # Arrow's own cast multiplies by powers of ten, which are no doubles: 0.3 would be 3 * 0.1
        return value.cast(pa.string()).cast(pa.float64())
    return value.cast(pa.float64(), safe=False)


def without_nan(values: Any) -> Any:
    """NaN is no number: it counts as null."""
    if pat.is_floating(values.type):
        nan = pc.is_nan(values)
        if isinstance(nan, pa.Scalar) or pc.any(nan).as_py():
            return pc.if_else(nan, pa.scalar(None, values.type), values)
    return values


# ---------------------------------------------------------------- comparing


def aligned(columns: Sequence[Any]) -> list[Any]:
    """Numbers (or nulls) in one Arrow type that compares like they do; of constants, one that stands beside a decimal is one."""
    kinds = {column.type for column in columns if not pat.is_null(column.type)}
    if not kinds:
        return [column.cast(pa.int64()) for column in columns]
    if len(kinds) == 1 and MIXED not in kinds:
        return [column.cast(next(iter(kinds))) for column in columns]
    if any(pat.is_decimal(kind) for kind in kinds):
        decimals = _decimals(columns)
        return [double(column) for column in columns] if decimals is None else _one_width(decimals)
    if not any(pat.is_floating(kind) or kind == MIXED for kind in kinds):
        return [column.cast(_WHOLE) for column in columns]
    if kinds == {pa.int64(), pa.float64()} and all(map(_is_small, columns)):
        return [double(column) for column in columns]
    return _ranked(columns)


def _is_small(column: Any) -> bool:
    """Whether doubles hold all its whole numbers exactly."""
    if not pat.is_int64(column.type):
        return True
    if isinstance(column, pa.Scalar):
        return column.as_py() is None or abs(column.as_py()) <= EXACT
    low, high = (value.as_py() for value in pc.min_max(column).values())
    return low is None or (low >= -EXACT and high <= EXACT)


def _ranked(columns: Sequence[Any]) -> list[Any]:
    """Joint ranks of whole numbers and doubles."""
    arrays = [pa.array([column.as_py()], column.type) if isinstance(column, pa.Scalar) else column for column in columns]
    arrays = [array.cast(pa.int64()) if pat.is_null(array.type) else array for array in arrays]
    halves = [_halves(array) for array in arrays]
    high, low = (np.concatenate([pair[half] for pair in halves]) for half in (0, 1))
    order = np.lexsort((low, high))
    steps = (high[order][1:] != high[order][:-1]) | (low[order][1:] != low[order][:-1])
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.concatenate((np.zeros(min(len(order), 1), np.int64), np.cumsum(steps)))
    pieces = np.split(ranks, np.cumsum([len(array) for array in arrays])[:-1])
    found = [pa.array(piece, mask=np.asarray(array.is_null())) for piece, array in zip(pieces, arrays, strict=True)]
    return [array[0] if isinstance(column, pa.Scalar) else array for array, column in zip(found, columns, strict=True)]


def _halves(column: pa.Array) -> tuple[Floats, Floats]:
    """Two doubles that add up to the number, exactly: a multiple of 2048, and what is left. In this order they compare like it."""
    if column.type == MIXED:
        real = pc.struct_field(column, "real")
        pairs = zip(_halves(real), _halves(pc.struct_field(column, "whole")), strict=True)
        high, low = (np.where(np.asarray(real.is_valid()), *pair) for pair in pairs)
        return high, low
    values = np.asarray(column.fill_null(pa.scalar(0, column.type)))
    if pat.is_floating(column.type):
        high = np.trunc(values / _SPLIT) * _SPLIT
        return high, np.where(np.isinf(values), 0.0, values - np.where(np.isinf(values), 0.0, high)) + 0.0
    parts = values // _SPLIT
    parts += ((values < 0) & (values % _SPLIT != 0)).astype(values.dtype)  # towards zero, as above
    return parts.astype(np.float64) * _SPLIT, (values - parts * _SPLIT).astype(np.float64)


def among(operand: Any, listed: Sequence[int | float]) -> Any:
    """Whether a number is one of those listed; not false but unknown where it is null."""
    kind = operand.type
    if kind == MIXED:
        whole, real = (among(pc.struct_field(operand, name), listed) for name in ("whole", "real"))
        return pc.coalesce(whole, real)
    if pat.is_floating(kind):
        operand = pc.add(operand, 0.0)  # -0.0 equals 0.0
        values = pa.array([float(value) for value in listed if float(value) == value], pa.float64())
    elif pat.is_decimal(kind):
        values = _fitting(listed, kind)
    else:
        low, high = (_LOW, _HIGH) if pat.is_int64(kind) else (0, (1 << 64) - 1)
        values = pa.array([int(value) for value in listed if float(value).is_integer() and low <= value <= high], kind)
    return pc.if_else(pc.is_valid(operand), pc.is_in(operand, value_set=values), pa.scalar(None, pa.bool_()))


def _fitting(listed: Sequence[int | float], kind: pa.DataType) -> pa.Array:
    """Those of the numbers that a decimal of this type can be."""
    found = []
    for value in listed:
        exact = Decimal(repr(value))
        _, digits, exponent = exact.normalize().as_tuple()
        assert isinstance(exponent, int)
        if -exponent <= kind.scale and len(digits) + exponent <= kind.precision - kind.scale:
            found.append(exact)
    return pa.array(found, kind)


# ---------------------------------------------------------------- standing for each other


def common(columns: Sequence[Any]) -> list[Any]:
    """Numbers (or nulls) in one Arrow type that holds them, as SQL takes values of which one is chosen.

    Next to a double all are doubles, next to a decimal decimals. What `aligned` gives compares like numbers; these are the numbers.
    """
    kinds = {column.type for column in columns if not pat.is_null(column.type)}
    if any(pat.is_decimal(kind) for kind in kinds):
        decimals = _decimals([_typed(column, pa.int64()) for column in columns])
        return [double(_typed(column, pa.int64())) for column in columns] if decimals is None else _one_width(decimals)
    if any(pat.is_floating(kind) for kind in kinds) or {MIXED, pa.uint64()} <= kinds:
        return [double(_typed(column, pa.float64())) for column in columns]
    if MIXED in kinds:
        return [_as_mixed(_typed(column, pa.int64())) for column in columns]
    if len(kinds) > 1:
        return [column.cast(_WHOLE) for column in columns]
    return [_typed(column, *(kinds or {pa.int64()})) for column in columns]


def _typed(column: Any, kind: pa.DataType) -> Any:
    return column.cast(kind) if pat.is_null(column.type) else column


def _as_mixed(value: Any) -> Any:
    if value.type == MIXED:
        return value
    if isinstance(value, pa.Scalar):
        return pa.scalar(None if value.as_py() is None else {"whole": value.as_py(), "real": None}, MIXED)
    return pa.StructArray.from_arrays([value, pa.nulls(len(value), pa.float64())], fields=list(MIXED), mask=value.is_null())


def whole_if_all(column: pa.Array) -> pa.Array:
    """Whole numbers as such, where no row that left 64 bits was chosen."""
    mixed = column.type == MIXED and not pc.any(pc.struct_field(column, "real").is_valid()).as_py()
    return pc.struct_field(column, "whole") if mixed else column


def settled(column: pa.Array, kind: pa.DataType) -> pa.Array | None:
    """A column in the type that it has without a row, so that no row decides it; None where whole numbers cannot stay whole."""
    column = whole_if_all(column)
    if column.type == kind:
        return column
    try:
        if pat.is_integer(column.type) or not pat.is_integer(kind):
            return column.cast(kind)
    except pa.ArrowInvalid:
        pass
    return None


def absolute(value: Any) -> Any:
    """Without its sign."""
    if value.type != MIXED:
        try:
            return pc.abs_checked(value)
        except pa.ArrowInvalid:  # the least whole number has no counterpart
            pass
    if isinstance(value, pa.Scalar):
        return absolute(pa.repeat(value, 1))[0]
    positive, negated = common([value, _whole("-", pa.scalar(0), value)])
    return pc.if_else(pc.less(double(value), 0.0), negated, positive)


def with_room(value: Any) -> Any:
    """A decimal with a digit more before the point, for what is rounded up."""
    return value.cast(decimal_of(value.type.precision + 1, value.type.scale))


def round_whole(value: Any, digits: int) -> Any:
    """Whole numbers to a power of ten, halves away from zero; a double in those rows where that leaves 64 bits."""
    if isinstance(value, pa.Scalar):
        return round_whole(pa.repeat(value, 1), digits)[0]
    exact = pc.round(value.cast(pa.decimal128(38, 0)), ndigits=max(digits, -37), round_mode="half_towards_infinity")
    return _in_64_bits(exact, double(exact))


def as_whole(column: pa.Array) -> pa.Array:
    """Numbers without what is behind their point, null where they leave 64 bits."""
    if column.type == MIXED:
        return pc.coalesce(pc.struct_field(column, "whole"), as_whole(pc.struct_field(column, "real")))
    if pat.is_floating(column.type):
        fits = pc.and_(pc.greater_equal(column, float(_LOW)), pc.less(column, -float(_LOW)))
        return pc.if_else(pc.fill_null(fits, False), pc.trunc(column), pa.scalar(None, column.type)).cast(pa.int64())
    wide = pc.trunc(column.cast(_widest(column))) if pat.is_decimal(column.type) else column.cast(_WHOLE)
    fits = pc.and_(pc.less_equal(wide, _limit(_HIGH)), pc.greater_equal(wide, _limit(_LOW)))
    return pc.if_else(pc.fill_null(fits, False), wide, pa.scalar(None, wide.type)).cast(pa.decimal256(DIGITS, 0)).cast(pa.int64())


def _widest(column: pa.Array) -> pa.DataType:
    return pa.decimal256(DIGITS, column.type.scale)


def as_decimal(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Numbers as decimals of this type, halves away from zero, null where they have more digits before the point."""
    if column.type == MIXED:
        column = double(column)
    if pat.is_floating(column.type):
        limit = 10.0 ** (kind.precision - kind.scale)
        fits = pc.and_(pc.is_finite(column), pc.less(pc.abs(column), limit))
        column = pc.if_else(pc.fill_null(fits, False), column, pa.scalar(None, pa.float64()))
        column = _written(column, kind.scale)
    column = column.cast(_WHOLE) if pat.is_integer(column.type) else column
    wide = column.cast(pa.decimal256(DIGITS, max(column.type.scale, kind.scale)))
    wide = pc.round(wide, ndigits=kind.scale, round_mode="half_towards_infinity")
    most = pa.scalar(Decimal((0, (9,) * kind.precision, -kind.scale)), wide.type)  # one more has a digit that may have no room
    fits = pc.less_equal(pc.abs(wide), most)
    return pc.if_else(pc.fill_null(fits, False), wide, pa.scalar(None, wide.type)).cast(kind)


def _written(column: pa.Array, digits: int) -> pa.Array:
    """Doubles as the decimals that they are written as, those below one rounded to so many digits: they have too many of them."""
    is_small = pc.less(pc.abs(column), 1.0)
    held = pc.if_else(pc.less(pc.abs(column), 1e-39), 0.0, column)  # what is never seen, since no decimal has more than 38 digits
    small = pc.if_else(is_small, held, pa.scalar(None, pa.float64())).cast(pa.string()).cast(pa.decimal256(DIGITS, 56))
    small = pc.round(small, ndigits=digits, round_mode="half_towards_infinity").cast(pa.decimal256(DIGITS, 38))
    large = pc.if_else(is_small, pa.scalar(None, pa.float64()), column).cast(pa.string()).cast(pa.decimal256(DIGITS, 38))
    return pc.coalesce(small, large)


# ---------------------------------------------------------------- calculating


def calculate(op: str, left: Any, right: Any) -> Any:
    """`left op right` over numbers; null where a divisor is zero or the result is no number."""
    if op != "/":
        if pat.is_decimal(left.type) or pat.is_decimal(right.type):
            pair = _decimals((left, right))
            if pair is not None:
                return _exactly(op, *pair)
        elif not (pat.is_floating(left.type) or pat.is_floating(right.type)):
            return _whole(op, left, right)
    return _doubles(op, double(left), double(right))


def _doubles(op: str, left: Any, right: Any) -> Any:
    if op in _CHECKED:
        return without_nan(_CHECKED[op](left, right))
    right = _unless_zero(right)
    return without_nan(pc.divide(left, right) if op == "/" else _by_rows(np.fmod, left, right))


def _unless_zero(divisor: Any) -> Any:
    return pc.if_else(pc.equal(divisor, _zero(divisor)), pa.scalar(None, divisor.type), divisor)


def _by_rows(function: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
    """A function of NumPy over two columns or constants."""
    size = max(len(side) if isinstance(side, pa.Array) else 1 for side in (left, right))
    if any(isinstance(side, pa.Array) and not len(side) for side in (left, right)):
        size = 0
    sides = [pa.repeat(side, size) if isinstance(side, pa.Scalar) else side for side in (left, right)]
    null = np.asarray(pc.or_(pc.is_null(sides[0]), pc.is_null(sides[1])))
    with np.errstate(invalid="ignore"):
        values = function(*(np.asarray(side.fill_null(pa.scalar(1, side.type))) for side in sides))
    result = pa.array(values, mask=null)
    return result[0] if isinstance(left, pa.Scalar) and isinstance(right, pa.Scalar) else result


def _whole(op: str, left: Any, right: Any) -> Any:
    """Whole numbers: 64 bits where they suffice, a double in those rows where they do not."""
    if not pat.is_uint64(left.type) and not pat.is_uint64(right.type) and MIXED not in (left.type, right.type):
        if op == "%":
            left, right = (side.cast(pa.int64()) for side in (left, right))
            return _by_rows(_remainder, left, _unless_zero(right))
        try:
            return _CHECKED[op](left, right)
        except pa.ArrowInvalid:
            pass
    if isinstance(left, pa.Scalar) and isinstance(right, pa.Scalar):
        return _whole(op, pa.repeat(left, 1), right)[0]
    exact = _exactly(op, *(_wholes(side) for side in (left, right)))
    return _in_64_bits(exact, _doubles(op, double(left), double(right)))


def _in_64_bits(exact: pa.Array, doubles: Any) -> pa.Array:
    """Whole numbers in 64 bits, where they suffice; elsewhere the doubles."""
    fits = pc.fill_null(pc.and_(pc.less_equal(exact, _limit(_HIGH)), pc.greater_equal(exact, _limit(_LOW))), False)
    whole = pc.if_else(fits, exact, pa.scalar(None, exact.type)).cast(pa.int64())
    real = pc.if_else(fits, pa.scalar(None, pa.float64()), doubles)
    if real.null_count == len(real):
        return whole
    null = pc.and_(whole.is_null(), real.is_null())
    return pa.StructArray.from_arrays([whole, real], fields=list(MIXED), mask=null)


def _limit(value: int) -> pa.Scalar:
    return pa.scalar(Decimal(value), _WHOLE)


def _remainder(left: Ints, right: Ints) -> Ints:
    return np.where(right == -1, 0, np.fmod(left, np.where(right == -1, 1, right)))  # the least number by -1 leaves 64 bits


def _wholes(value: Any) -> Any:
    """Whole numbers as decimals; null where they are doubles."""
    return (pc.struct_field(value, "whole") if value.type == MIXED else value).cast(_WHOLE)


def of_lists(function: str, values: pa.Array, offsets: Ints) -> pa.Array:
    """SUM, AVG, MIN or MAX of the values of each list; null where it has none. A sum is exact, a mean a double."""
    lists = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    is_whole, name = _is_whole(values.type), {"SUM": "sum", "AVG": "sum", "MIN": "min", "MAX": "max"}[function]
    if pat.is_null(values.type):
        return pa.nulls(len(offsets) - 1, pa.float64() if function == "AVG" else pa.int64())
    exact = is_whole and name == "sum"
    told = pa.table({"list": lists, "value": values.cast(_WHOLE) if exact else values}).filter(pc.field("value").is_valid())
    found = told.group_by("list").aggregate([("value", name), ("value", "count")]).combine_chunks()
    place = np.full(len(offsets) - 1, -1)
    place[found.column("list").to_numpy()] = np.arange(len(found))
    at = pa.array(place, mask=place < 0)
    totals = found.column(f"value_{name}").combine_chunks().take(at)
    if function == "AVG":
        return pc.divide(double(totals), found.column("value_count").combine_chunks().take(at).cast(pa.float64()))
    return _in_64_bits(totals, double(totals)) if exact else totals


# ---------------------------------------------------------------- decimals


def _decimals(columns: Sequence[Any]) -> list[Any] | None:
    """All as decimals, of which one is among them; None where a column of doubles makes all of them doubles."""
    found = []
    for column in columns:
        if isinstance(column, pa.Scalar) and not pat.is_decimal(column.type) and column.type != MIXED:
            number = column.as_py()
            try:  # a number that stands in the query is the decimal that was written
                found.append(pa.scalar(None, _WHOLE) if number is None else pa.scalar(Decimal(repr(number))))
            except pa.ArrowInvalid:
                return None
        elif pat.is_floating(column.type) or column.type == MIXED:
            return None
        else:
            found.append(column if pat.is_decimal(column.type) else column.cast(_WHOLE))
    return found


def decimal_of(precision: int, scale: int) -> pa.DataType:
    """The type of decimals with so many digits, or of as many as there can be."""
    if scale > DIGITS:
        raise too_many_digits()
    return pa.decimal128(precision, scale) if precision <= 38 else pa.decimal256(min(precision, DIGITS), scale)


def too_many_digits() -> DataError:
    return DataError(f"a decimal has more than {DIGITS} digits\n  hint: divide by 1 first: a quotient is a double")


def _one_width(decimals: Sequence[Any]) -> list[Any]:
    scale = max(each.type.scale for each in decimals)
    kind = decimal_of(max(each.type.precision - each.type.scale for each in decimals) + scale, scale)
    return [_fit(each, kind) for each in decimals]


def _fit(value: Any, kind: pa.DataType) -> Any:
    try:
        return value.cast(kind)
    except pa.ArrowInvalid:
        raise too_many_digits() from None


def _exactly(op: str, left: Any, right: Any) -> Any:
    """`+`, `-`, `*` or `%` of decimals. The type of the result follows from the types alone, as in SQL."""
    if op == "%":
        return _modulo(left, right)
    (p, s), (q, t) = ((side.type.precision, side.type.scale) for side in (left, right))
    scale = s + t if op == "*" else max(s, t)
    precision = p + q + 1 if op == "*" else max(p - s, q - t) + scale + 1
    kind = decimal_of(precision, scale)
    try:
        if op == "*" and precision > 38:
            left, right = _narrow(left), _narrow(right)
        elif precision > 38:
            left, right = (side.cast(pa.decimal256(DIGITS - 1, scale)) for side in (left, right))
        return _UNCHECKED[op](left, right).cast(kind)
    except pa.ArrowInvalid:
        raise too_many_digits() from None


def _modulo(left: Any, right: Any) -> Any:
    """What a division leaves, with the sign of the dividend.

    Arrow's division of decimals beyond 128 bits is not to be relied on (26.0 gives wrong digits), so quotients are estimated by
    doubles, each of which takes some fifteen digits off what is left.
    """
    if isinstance(left, pa.Scalar) and isinstance(right, pa.Scalar):
        return _modulo(pa.repeat(left, 1), right)[0]
    scale = max(left.type.scale, right.type.scale)
    whole = max(side.type.precision - side.type.scale for side in (left, right))
    right, kind = _unless_zero(right), pa.decimal256(DIGITS - 1, scale)
    rest, size = _fit(left, kind), _fit(pc.abs(right), kind)
    while pc.any(pc.greater_equal(pc.abs(rest), size)).as_py():
        times = pc.round(pc.divide(rest.cast(pa.float64()), size.cast(pa.float64()))).cast(pa.decimal256(DIGITS - 1, 0))
        rest = _fit(_exactly("-", rest, _exactly("*", times, size)), kind)
    # The nearest quotient may be one too many: then the rest lies on the other side of zero.
    back = pc.if_else(pc.less(left, _zero(left)), pc.negate(size), size)
    crossed = pc.and_(pc.not_equal(rest, _zero(rest)), pc.not_equal(pc.less(rest, _zero(rest)), pc.less(left, _zero(left))))
    rest = pc.if_else(crossed, _fit(_exactly("+", rest, back), kind), rest)
    return _fit(pc.if_else(pc.is_valid(right), rest, pa.scalar(None, kind)), decimal_of(whole + scale, scale))


def _zero(value: Any) -> pa.Scalar:
    return pa.scalar(0, value.type)


def _narrow(value: Any) -> Any:
    """A decimal in the fewest digits that hold it, of the widest kind, so that there is room for what is made of it."""
    extremes = [value] if isinstance(value, pa.Scalar) else pc.min_max(value).values()
    digits = [len(each.as_py().as_tuple().digits) for each in extremes if each.is_valid]
    return value.cast(pa.decimal256(max([*digits, value.type.scale, 1]), value.type.scale))


_UNCHECKED: dict[str, Callable[[Any, Any], Any]] = {"+": pc.add, "-": pc.subtract, "*": pc.multiply}
