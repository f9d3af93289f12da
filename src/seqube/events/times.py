"""Time columns of every kind -> 64-bit integers.

Timestamps and dates become microseconds since 1970 in UTC, rounded down; integers stay as they are; floats count when they are
whole. Strings are ISO 8601 timestamps (or integers, where most of them look like that). A value that cannot be a time is a fault of
its row, never of the column: `Clock.faults` says which rows, and why.

Cost: microseconds and integers are not copied; strings of one shape take one Arrow cast, mixed ones a regular expression and
arithmetic on whole columns.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from seqube.events.schema import UNITS, is_text

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

NO_TIME = "no time"
NOT_TIMESTAMP = "time is not a timestamp"
NOT_INTEGER = "time is not an integer"
NOT_WHOLE = "time is not a whole number"
OUT_OF_RANGE = "time is out of range"

_INT64 = np.iinfo(np.int64)
_DAY_US = 86_400_000_000
_INTEGER = r"^[+-]?[0-9]{1,19}$"
# What a text must look like to be a time, here and on Spark: ISO 8601 from year 1 to 9999, a date alone or with hours, minutes and
# seconds, with fractions of any length and zones mixed freely. It leaves open only whether a month has that many days. RE2 and Java
# read it alike, so that it names its spaces and ends with \z.
TEXT_TIME = (
    r"^[ \t\n\f\r]*"
    r"(?P<year>[0-9]{3}[1-9]|[0-9]{2}[1-9]0|[0-9][1-9]00|[1-9]000)-(?P<month>0[1-9]|1[0-2])-(?P<day>0[1-9]|[12][0-9]|3[01])"
    r"(?:[T ](?P<hour>[01][0-9]|2[0-3])(?::?(?P<minute>[0-5][0-9])(?::?(?P<second>[0-5][0-9])(?:[.,](?P<fraction>[0-9]+))?)?)?"
    r"[ \t\n\f\r]?(?P<zone>Z|[+-](?:[01][0-9]|2[0-3])(?::?[0-5][0-9])?)?)?[ \t\n\f\r]*\z"
)
_YEAR_0_OVER = -62_135_510_400_000_000  # 0001-01-02T00:00: no text of the year 0 is later, whatever its zone


class Clock(NamedTuple):
    """The times of a column's rows, the column as the table keeps it, and the rows that have no time, by reason."""

    times: Ints
    column: pa.Array
    faults: list[tuple[Mask, str]]


def read_times(column: pa.Array) -> Clock:
    """Read a time column whose type `Schema` has accepted."""
    if pat.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pat.is_null(column.type):
        return Clock(np.zeros(len(column), np.int64), column, [(np.ones(len(column), np.bool_), NO_TIME)])
    faults: list[tuple[Mask, str]] = []
    if column.null_count:
        faults.append((np.asarray(column.is_null()), NO_TIME))
    if is_text(column.type):
        clock = _read_strings(column)
    elif pat.is_floating(column.type):
        clock = _read_floats(column)
    elif pat.is_uint64(column.type):
        values = _filled(column)
        clock = Clock(values.astype(np.int64), column, _faults(values > np.uint64(_INT64.max), OUT_OF_RANGE))
    elif pat.is_integer(column.type):
        clock = Clock(_filled(column if pat.is_int64(column.type) else column.cast(pa.int64())), column, [])
    else:
        clock = _read_moments(column)
    # The two ends of the 64-bit range stand for before and after all time.
    times = clock.times
    if len(times) and (times.min() == _INT64.min or times.max() == _INT64.max):
        faults_at_ends = _faults((times == _INT64.min) | (times == _INT64.max), OUT_OF_RANGE)
        return clock._replace(faults=faults + clock.faults + faults_at_ends)
    return clock._replace(faults=faults + clock.faults) if faults else clock


def doubt_unit(first: int, last: int, unit: str) -> str | None:
    """What to say of integer times that are dates of our day in another unit, and none in their own."""
    if _is_our_day(first, last, unit):
        return None
    meant = next((other for other in ("s", "ms", "us", "ns") if _is_our_day(first, last, other)), None)
    if meant is None:
        return None
    return (
        f"times in {unit} run from {_day(first, unit)} to {_day(last, unit)}, in {meant} they would run from "
        f'{_day(first, meant)} to {_day(last, meant)}; perhaps unit="{meant}" is meant'
    )


# The years from 1990 to 2100 in ticks; units longer than a second have none.
_OUR_DAY = {
    unit: (20 * ticks, 130 * ticks)
    for unit, ticks in ((unit, 31_556_952 * UNITS["s"] // length if length <= UNITS["s"] else 0) for unit, length in UNITS.items())
}


def _is_our_day(first: int, last: int, unit: str) -> bool:
    begin, end = _OUR_DAY[unit]
    return begin <= first <= last <= end


def _day(time: int, unit: str) -> str:
    """The date of an integer time, or about which year it is where NumPy has no dates."""
    seconds = time * UNITS[unit] // UNITS["s"]
    year = 1970 + seconds // 31_556_952
    return str(np.datetime64(seconds, "s").astype("datetime64[D]")) if 0 < year < 10_000 else f"the year {year}"


def microseconds(column: pa.Array) -> pa.Array:
    """Moments, dates and durations in microseconds, rounded down; an `ArrowInvalid` where one is out of range. Zones stay."""
    kind = column.type
    target = pa.duration("us") if pat.is_duration(kind) else pa.timestamp("us", None if pat.is_date(kind) else kind.tz)
    if pat.is_date(kind) or kind.unit != "ns":
        return column.cast(target)
    values = _filled(column.cast(pa.int64())) // 1000
    return pa.array(values, mask=np.asarray(column.is_null()) if column.null_count else None).cast(target)


def wall_clock(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Moments as the clocks of their zone show them, without a zone."""
    return pc.local_timestamp(column) if getattr(column.type, "tz", None) else column


def iso_times(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Moments as ISO 8601 texts by the clocks of their zone, with its distance from UTC; fractions where there are any."""
    texts = pc.replace_substring_regex(pc.strftime(wall_clock(column), "%Y-%m-%dT%H:%M:%S"), r"\.0+$", "")
    return pc.binary_join_element_wise(texts, pc.strftime(column, "%Ez"), "") if column.type.tz else texts


def _filled(column: pa.Array) -> Any:
    """The values as a NumPy array, without a copy where nothing is null; nulls become 0."""
    return (column.fill_null(0) if column.null_count else column).to_numpy()


def _faults(mask: Mask, reason: str) -> list[tuple[Mask, str]]:
    return [(mask, reason)] if mask.any() else []


def _read_moments(column: pa.Array) -> Clock:
    if pat.is_date32(column.type):
        values, factor = _filled(column.cast(pa.int32())).astype(np.int64), _DAY_US
    else:
        values = _filled(column.cast(pa.int64()))
        unit = "ms" if pat.is_date64(column.type) else column.type.unit
        if unit == "ns":
            return Clock(values // 1000, column, [])
        factor = {"s": 1_000_000, "ms": 1_000, "us": 1}[unit]
    if factor == 1:
        return Clock(values, column, [])
    outside = (values > _INT64.max // factor) | (values < -(_INT64.max // factor))
    return Clock(np.where(outside, 0, values) * factor, column, _faults(outside, OUT_OF_RANGE))


def _read_floats(column: pa.Array) -> Clock:
    values = _filled(column.cast(pa.float64()))
    whole = np.isfinite(values) & (np.floor(values) == values)
    # Beyond 2**53 neighbouring integers share one float, so the time that was meant is lost already.
    exact = np.abs(values) <= 2.0**53
    times = np.where(whole & exact, values, 0.0).astype(np.int64)
    return Clock(times, column, _faults(~whole, NOT_WHOLE) + _faults(whole & ~exact, OUT_OF_RANGE))


def _read_strings(column: pa.Array) -> Clock:
    if not pat.is_string(column.type):
        column = column.cast(pa.large_string())
    for zone in (None, "UTC"):
        try:
            parsed = column.cast(pa.timestamp("us", zone))
        except pa.ArrowInvalid:
            continue
        times = _filled(parsed.cast(pa.int64()))
        if len(times) and times.min() < _YEAR_0_OVER:
            break  # Arrow also reads the year 0
        return Clock(times, parsed, [])
    integers = pc.match_substring_regex(column, _INTEGER)
    fields = pc.extract_regex(column, TEXT_TIME)
    if (pc.sum(integers).as_py() or 0) > len(fields) - fields.null_count:
        return _read_integers(column, integers)
    times, valid, zoned = _read_fields(fields)
    parsed = pa.array(times).view(pa.timestamp("us", "UTC" if zoned.any() else None))
    return Clock(times, parsed, _faults(~valid & np.asarray(column.is_valid()), NOT_TIMESTAMP))


def _read_integers(column: pa.Array, integers: pa.Array) -> Clock:
    digits = pc.if_else(integers, column, "0").fill_null("0")
    # Nineteen digits may still be too many for 64 bits.
    wide = digits.cast(pa.decimal128(20, 0))
    inside = pc.and_(pc.less_equal(wide, _exact(_INT64.max)), pc.greater_equal(wide, _exact(_INT64.min)))
    times = pc.if_else(inside, wide, _exact(0)).cast(pa.int64())
    outside = ~np.asarray(inside)
    wrong = ~np.asarray(integers.fill_null(True))
    return Clock(times.to_numpy(), times, _faults(wrong, NOT_INTEGER) + _faults(outside, OUT_OF_RANGE))


def _exact(value: int) -> pa.Scalar:
    return pa.scalar(Decimal(int(value)), pa.decimal128(20, 0))


def read_texts(texts: pa.Array) -> tuple[Ints, Mask, Mask]:
    """Microseconds from ISO 8601 texts; which of them are real moments, and which name a zone."""
    return _read_fields(pc.extract_regex(texts, TEXT_TIME))


def _read_fields(fields: pa.StructArray) -> tuple[Ints, Mask, Mask]:
    matched = np.asarray(fields.is_valid())

    def number(texts: pa.Array) -> Ints:
        texts = pc.if_else(pc.equal(pc.fill_null(texts, ""), ""), "0", pc.fill_null(texts, "0"))
        values: Ints = texts.cast(pa.int64()).to_numpy()
        return values

    year, month, day, hour, minute, second = (
        number(pc.struct_field(fields, name)) for name in ("year", "month", "day", "hour", "minute", "second")
    )
    fraction = number(pc.utf8_slice_codeunits(pc.utf8_rpad(pc.struct_field(fields, "fraction"), 6, "0"), 0, 6))
    zone = pc.fill_null(pc.struct_field(fields, "zone"), "")
    digits = pc.replace_substring(zone, ":", "")
    behind = np.where(np.asarray(pc.starts_with(zone, "-")), -1, 1)
    zone_hour = number(pc.if_else(pc.equal(zone, "Z"), "0", pc.utf8_slice_codeunits(digits, 1, 3)))
    zone_minute = number(pc.utf8_slice_codeunits(digits, 3, 5))

    months = np.where(matched, (year - 1970) * 12 + month - 1, 0).astype("datetime64[M]")
    first_day = months.astype("datetime64[D]").astype(np.int64)
    valid = matched & (day <= (months + 1).astype("datetime64[D]").astype(np.int64) - first_day)
    minutes = hour * 60 + minute - behind * (zone_hour * 60 + zone_minute)
    times = (first_day + day - 1) * _DAY_US + (minutes * 60 + second) * 1_000_000 + fraction
    return np.where(valid, times, 0), valid, np.asarray(pc.not_equal(zone, ""))
