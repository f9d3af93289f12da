"""What values mean, one at a time: comparing, calculating, and SQL's three truths. The oracle's (f) and (l) say how."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, tzinfo
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any
from zoneinfo import ZoneInfo

from seqube.language import tree

MOMENTS = "moments"  # the unit of times that are points in time: microseconds since 1970
MICROSECONDS = {
    "ns": Fraction(1, 1000), "us": Fraction(1), "ms": Fraction(1000), "s": Fraction(1_000_000), MOMENTS: Fraction(1),
}  # fmt: skip


class Moments(str):
    """The unit of times that are points in time, whose column has a zone: that of texts that name none."""

    zone: str | None = None


def moments_in(zone: str | None) -> Moments:
    unit = Moments(MOMENTS)
    unit.zone = zone
    return unit


def zone_of(unit: str) -> tzinfo:
    name = getattr(unit, "zone", None)
    if name is None:
        return UTC
    return datetime.strptime(name, "%z").tzinfo or UTC if name[0] in "+-" else ZoneInfo(name)


def ticks(window: tree.Window, unit: str) -> Fraction:
    """A length of time in the unit of the timestamps."""
    assert window.unit != "events", "a number of events is not a length of time"
    return Fraction(window.length) / (MICROSECONDS[unit] if window.unit == "us" else 1)


def whole(number: Fraction) -> int | Fraction:
    return number.numerator if number.denominator == 1 else number


class Written(float):
    """A number that stands in the query: next to a decimal it is the decimal that was written."""


class Period(timedelta):
    """A length of time that stands in the query."""


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


def ticks_of(period: Period, unit: str) -> int | float:
    ticks = Fraction(period // MICROSECOND) / MICROSECONDS[unit]
    return ticks.numerator if ticks.denominator == 1 else float(ticks)


def is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def decimal_of(value: Fraction) -> Decimal:
    """A number with an end as the decimal it is."""
    with localcontext(prec=400):
        found = Decimal(value.numerator) / Decimal(value.denominator)
    assert Fraction(found) == value
    return found


def or_null(value: Any) -> Any:
    return None if isinstance(value, float) and math.isnan(value) else value


def all_same(values: list[Any]) -> bool:
    return len(values) < 2 or (None not in values and all(value == values[0] for value in values))


def compare(op: str, left: Any, right: Any) -> bool | None:
    if left is None or right is None:
        return None
    return bool(COMPARE[op](*as_sql(left, right)))


def as_sql(left: Any, right: Any) -> tuple[Any, Any]:
    """Two numbers as SQL takes them side by side: where one is a decimal, both are; or both are doubles."""
    if not (isinstance(left, Decimal) or isinstance(right, Decimal)) or not (is_number(left) and is_number(right)):
        return left, right
    if any(isinstance(side, float) and not isinstance(side, Written) for side in (left, right)):
        return float(left), float(right)
    return Decimal(repr(left) if isinstance(left, float) else left), Decimal(repr(right) if isinstance(right, float) else right)


def calculate(op: str, left: Any, right: Any) -> Any:
    if left is None or right is None:
        return None
    if isinstance(left, datetime) or isinstance(right, datetime):
        return CALCULATE[op](left, right)
    if isinstance(left, timedelta) or isinstance(right, timedelta):
        return calculate_durations(op, left, right)
    if op in "/%" and right == 0:
        return None
    left, right = as_sql(left, right)
    if op == "/" or isinstance(left, float) or isinstance(right, float):
        return in_doubles(op, float(left), float(right))
    if isinstance(left, Decimal):
        left, right = Fraction(left), Fraction(right)
    exact = remainder(left, right) if op == "%" else CALCULATE[op](left, right)
    if isinstance(left, Fraction):
        return decimal_of(exact)
    return exact if -(2**63) <= exact < 2**63 else in_doubles(op, float(left), float(right))


def in_doubles(op: str, left: float, right: float) -> float | None:
    result = math.fmod(left, right) if op == "%" else CALCULATE[op](left, right)
    return None if math.isnan(result) else float(result)


def remainder(left: Any, right: Any) -> Any:
    """What a division leaves, with the sign of the dividend."""
    return abs(left) % abs(right) * (1 if left >= 0 else -1)


def calculate_durations(op: str, left: Any, right: Any) -> Any:
    both = isinstance(left, timedelta) and isinstance(right, timedelta)
    numbers = [side // MICROSECOND if isinstance(side, timedelta) else side for side in (left, right)]
    result = calculate(op, *numbers)
    if result is None or (both and op == "/"):
        return result
    return timedelta(microseconds=round(result))


def of_list(function: str, values: list[Any]) -> Any:
    """A value of a list of values, nulls among them. Only COUNT and the ends see these."""
    if function == "COUNT":
        return len(values)
    if function in ("FIRST", "LAST"):
        return None if not values else values[0 if function == "FIRST" else -1]
    known = [value for value in values if value is not None]
    if not known:
        return None
    if function in ("MIN", "MAX"):
        return min(known) if function == "MIN" else max(known)
    if isinstance(known[0], float):
        total: Any = math.fsum(known)
        return total if function == "SUM" else total / len(known)
    if isinstance(known[0], timedelta):
        microseconds = sum(value // MICROSECOND for value in known)
        return timedelta(microseconds=microseconds if function == "SUM" else round(microseconds / len(known)))
    exact = sum(map(Fraction, known), Fraction(0))
    if function == "AVG":
        return float(exact / len(known))
    if isinstance(known[0], Decimal):
        return decimal_of(exact)
    return int(exact) if -(2**63) <= exact < 2**63 else float(exact)


def inverse(verdict: bool | None) -> bool | None:
    return None if verdict is None else not verdict


def all_true(verdicts: list[bool | None]) -> bool | None:
    return False if False in verdicts else None if None in verdicts else True


def any_true(verdicts: list[bool | None]) -> bool | None:
    return True if True in verdicts else None if None in verdicts else False


COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
CALCULATE: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv,
}  # fmt: skip
