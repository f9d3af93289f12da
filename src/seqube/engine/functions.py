"""Functions of values over columns: for every row of `language/functions.py` that is a call, what it computes, with Arrow.

Arguments are Arrow columns or constants in the few types that `predicates.normalise` leaves; those that must stand in the query are
Python values. A function of one shape for all rows needs no care for null: Arrow's functions give null where an argument is.
NaN is no number here as everywhere: what would be NaN is null.

Cost: a pass over the column, or a few; a regular expression for LIKE, RLIKE and what is read from text.
Invariant: the type of a result follows from the types of the arguments alone, save that a whole number beyond 64 bits is a double
in its row (`numbers.MIXED`).
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from seqube.engine import numbers
from seqube.events.times import read_texts

_INTEGER = r"^[+-]?[0-9]{1,37}$"
_NUMBER = r"^[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?$"
_TIME_OF_DAY = r"^(?:[01][0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9](?:\.[0-9]{1,6})?)?$"
_SPACES = " \t\n\r\f\v"
_TRUE, _FALSE = ("t", "true", "y", "yes", "1"), ("f", "false", "n", "no", "0")
_HALVES = "half_towards_infinity"
_DIGITS = 308  # of a double, before or after its point: more do not matter


def _over(column: Any, function: Callable[[pa.Array], Any]) -> Any:
    """A function of columns, of a constant too."""
    return function(pa.repeat(column, 1))[0] if isinstance(column, pa.Scalar) else function(column)


# ---------------------------------------------------------------- numbers


def _absolute(value: Any) -> Any:
    if pat.is_duration(value.type):
        return pc.abs_checked(value.cast(pa.int64())).cast(value.type)
    return numbers.absolute(value)


def _sign(value: Any) -> Any:
    if pat.is_duration(value.type):
        value = value.cast(pa.int64())
    found = pc.sign(numbers.double(value) if value.type == numbers.MIXED else value)
    return found if pat.is_floating(found.type) else found.cast(pa.int64())


def _floor(value: Any) -> Any:
    return _stepped(value, pc.floor)


def _ceil(value: Any) -> Any:
    return _stepped(value, pc.ceil)


def _stepped(value: Any, step: Callable[[Any], Any]) -> Any:
    if pat.is_decimal(value.type):
        return step(numbers.with_room(value))
    if value.type == numbers.MIXED:
        return numbers.double(value)  # whole, or so large that it is whole
    return value if pat.is_integer(value.type) else step(value)


def _round(value: Any, digits: int = 0) -> Any:
    digits = max(-_DIGITS, min(_DIGITS, digits))
    if value.type == numbers.MIXED:
        value = numbers.double(value)
    if pat.is_decimal(value.type):
        wide = numbers.with_room(value)
        return pc.round(wide, ndigits=max(digits, -wide.type.precision), round_mode=_HALVES) if digits < wide.type.scale else wide
    if pat.is_integer(value.type):
        return value if digits >= 0 else numbers.round_whole(value, digits)
    found = pc.round(value, ndigits=digits, round_mode=_HALVES)
    return pc.if_else(pc.is_finite(found), found, value)  # a digit so far behind the point that the number has none there


def _of_doubles(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *values: numbers.without_nan(function(*map(numbers.double, values)))


def _logarithm(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def found(value: Any) -> Any:
        value = numbers.double(value)
        return function(pc.if_else(pc.greater(value, 0.0), value, pa.scalar(None, pa.float64())))

    return found


# ---------------------------------------------------------------- text


def _substring(text: Any, start: int, length: int | None = None) -> Any:
    begin = start - 1 if start > 0 else start
    stop = None if length is None else begin + max(length, 0)
    if stop is not None and (stop <= begin or begin < 0 <= stop):
        stop = begin if stop <= begin else None
    return pc.utf8_slice_codeunits(text, _place(begin), None if stop is None else _place(stop))


def _place(at: int) -> int:
    """A place in a text, or one behind all that there are: Arrow takes 64 bits."""
    return max(-(1 << 62), min(at, 1 << 62))


def _replace(text: Any, old: str, new: str) -> Any:
    return pc.replace_substring(text, old, new) if old else text  # Arrow would look for nothing without an end


def _concat(*texts: Any) -> Any:
    return pc.binary_join_element_wise(*texts, "", null_handling="emit_null")


# ---------------------------------------------------------------- times


def _extract(part: str, time: Any) -> Any:
    match part.upper():
        case "DOW":  # Sunday is 1
            found = pc.day_of_week(time, count_from_zero=False, week_start=7)
        case "SECOND":
            local = _local(time)
            since = pc.subtract(local, pc.floor_temporal(local, unit="minute")).cast(pa.int64()).cast(pa.decimal128(19, 0))
            return pc.multiply(since, pa.scalar(Decimal("0.000001"))).cast(pa.decimal128(8, 6))
        case name:
            found = _PARTS[name](time)
    return found.cast(pa.int64())


def _local(time: Any) -> Any:
    return time if time.type.tz is None else pc.local_timestamp(time)


def truncate(unit: str, time: Any) -> Any:
    """The start of the unit that a time lies in, by the clocks of its own zone."""
    local = _local(time)
    floor = pc.floor_temporal(local, unit=unit.lower())
    if time.type.tz is None:
        return floor
    if unit.upper() in _SHORT:  # also where clocks were set back and an hour is there twice
        return pc.subtract(time, pc.subtract(local, floor))
    return pc.assume_timezone(floor, time.type.tz, ambiguous="earliest", nonexistent="latest")


_SHORT = ("HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND")
_PARTS: dict[str, Callable[[Any], Any]] = {
    "YEAR": pc.year,
    "QUARTER": pc.quarter,
    "MONTH": pc.month,
    "WEEK": pc.iso_week,
    "DAY": pc.day,
    "DOY": pc.day_of_year,
    "HOUR": pc.hour,
    "MINUTE": pc.minute,
}


# ---------------------------------------------------------------- other types


def cast(value: Any, made: str, zone: str | None) -> Any:
    """A value as another type, null where it cannot be one. A text without a zone that is made a time is one of `zone`."""
    name, _, digits = made.rstrip(")").partition("(")
    if name == "TIMESTAMP":
        return value if pat.is_timestamp(value.type) else _over(_text(value), lambda texts: moments(texts, zone))
    if name == "DATE":  # the midnight that it begins with
        return truncate("day", cast(value, "TIMESTAMP", zone))
    if name == "STRING":
        return _text(value)
    if name == "TIME":
        return _over(value, _clock)
    if name == "BINARY":
        return value if pat.is_binary(value.type) else value.cast(pa.string()).cast(pa.binary())
    if name == "BOOLEAN":
        return _boolean(value)
    if pat.is_string(value.type):
        value = pc.utf8_trim(value, _SPACES)
        value = pc.if_else(pc.match_substring_regex(value, _NUMBER), value, pa.scalar(None, pa.string()))
    if name == "DOUBLE":
        return numbers.without_nan(numbers.double(value.cast(pa.int64()) if pat.is_boolean(value.type) else value))
    if name == "BIGINT":
        return _over(value, _whole)
    precision, scale = map(int, digits.split(","))
    return _over(value, lambda column: numbers.as_decimal(_plain_number(column), pa.decimal128(precision, scale)))


def _clock(column: pa.Array) -> pa.Array:
    """The time of day of a time, by the clocks of its own zone, or of a text."""
    if pat.is_string(column.type) or pat.is_null(column.type):
        known = pc.match_substring_regex(column.cast(pa.string()), _TIME_OF_DAY)
        text = pc.binary_join_element_wise("1970-01-01T", column.cast(pa.string()), "")
        column = moments(pc.if_else(known, text, pa.scalar(None, pa.string())), None)
    return (_local(column) if pat.is_timestamp(column.type) else column).cast(pa.time64("us"))


def _whole(column: pa.Array) -> pa.Array:
    if pat.is_string(column.type):
        column = pc.if_else(pc.match_substring_regex(column, _INTEGER), column, pa.scalar(None, pa.string()))
        column = column.cast(pa.decimal128(38, 0))
    return numbers.as_whole(_plain_number(column))


def _plain_number(column: pa.Array) -> pa.Array:
    if pat.is_boolean(column.type) or pat.is_null(column.type):
        return column.cast(pa.int64())
    return column.cast(pa.float64()) if pat.is_string(column.type) else column


def _boolean(value: Any) -> Any:
    if pat.is_string(value.type):
        word = pc.utf8_lower(pc.utf8_trim(value, _SPACES))
        true, false = (pc.is_in(word, value_set=pa.array(words)) for words in (_TRUE, _FALSE))
        return pc.if_else(pc.or_(true, false), true, pa.scalar(None, pa.bool_()))
    if numbers.is_number(value.type):
        return pc.not_equal(numbers.double(value), 0.0)
    return value.cast(pa.bool_())


def _text(value: Any) -> Any:
    kind = value.type
    if pat.is_string(kind):
        return value
    if pat.is_timestamp(kind) or pat.is_time(kind):
        text = (value if pat.is_time(kind) else _local(value)).cast(pa.string())
        return pc.replace_substring_regex(text, r"\.0+$|(\.[0-9]*[1-9])0+$", r"\1")
    if pat.is_floating(kind) or kind == numbers.MIXED:
        return pc.replace_substring_regex(numbers.double(value).cast(pa.string()), r"^(-?[0-9]+)$", r"\1.0")
    return value.cast(pa.string())


def moments(texts: pa.Array, zone: str | None) -> pa.Array:
    """ISO 8601 texts as times, null where they are none; those without a zone are in this one."""
    times, valid, zoned = read_texts(texts)
    found = pa.array(times, mask=~valid).cast(pa.timestamp("us"))
    if zone is None:
        return found
    local = pc.assume_timezone(found, zone, ambiguous="earliest", nonexistent="latest")
    return pc.if_else(pa.array(zoned), found.cast(pa.timestamp("us", "UTC")).cast(local.type), local)


COMPUTED: dict[str, Callable[..., Any]] = {
    "ABS": _absolute,
    "SIGN": _sign,
    "ROUND": _round,
    "FLOOR": _floor,
    "CEIL": _ceil,
    "SQRT": _of_doubles(pc.sqrt),
    "EXP": _of_doubles(pc.exp),
    "LN": _logarithm(pc.ln),
    "LOG10": _logarithm(pc.log10),
    "POWER": _of_doubles(pc.power),
    "LOWER": pc.utf8_lower,
    "UPPER": pc.utf8_upper,
    "TRIM": lambda text: pc.utf8_trim(text, " "),
    "LENGTH": lambda text: pc.utf8_length(text).cast(pa.int64()),
    "SUBSTRING": _substring,
    "REPLACE": _replace,
    "CONCAT": _concat,
    "STARTS_WITH": pc.starts_with,
    "ENDS_WITH": pc.ends_with,
    "CONTAINS": pc.match_substring,
    "LIKE": pc.match_like,
    "ILIKE": lambda text, pattern: pc.match_like(text, pattern, ignore_case=True),
    "RLIKE": pc.match_substring_regex,
    "EXTRACT": _extract,
    "DATE_TRUNC": truncate,
}
