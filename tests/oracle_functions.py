"""What functions mean, one value at a time, from their definitions in SQL; None is null."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from oracle_values import calculate, compare


def call(name: str, values: list[Any]) -> Any:
    """The value of a function whose arguments have these values; CASE and CAST are the oracle's own."""
    if name in SKIPPING:
        return SKIPPING[name](*values)
    return None if None in values else STRICT[name](*values)


def _coalesce(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)


def _extreme(op: str) -> Callable[..., Any]:
    def found(*values: Any) -> Any:
        best = None
        for value in values:
            if value is not None and (best is None or compare(op, value, best)):
                best = value
        return best

    return found


def _distinct(left: Any, right: Any) -> bool:
    return (left is None) != (right is None) if left is None or right is None else compare("=", left, right) is False


def _absolute(value: Any) -> Any:
    zero = timedelta(0) if isinstance(value, timedelta) else 0
    return calculate("-", zero, value) if compare("<", value, zero) else value


def _sign(value: Any) -> int:
    zero = timedelta(0) if isinstance(value, timedelta) else 0
    return bool(compare(">", value, zero)) - bool(compare("<", value, zero))


def _round(value: Any, digits: int = 0) -> Any:
    if isinstance(value, float) and math.isinf(value):
        return value
    exact = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    rounded = exact.quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP) if exact.adjusted() < 20 else exact
    return type(value)(rounded)


def _finite(function: Callable[[float], float]) -> Callable[[Any], Any]:
    return lambda value: value if isinstance(value, float) and math.isinf(value) else type(value)(function(value))


def _like(text: str, pattern: str, flags: int = 0) -> bool:
    parts = re.findall(r"\\.|.", pattern, re.DOTALL)
    spelled = "".join({"%": ".*", "_": "."}.get(part) or re.escape(part[-1]) for part in parts)
    return re.fullmatch(spelled, text, re.DOTALL | flags) is not None


def _substring(text: str, start: int, length: int | None = None) -> str:
    first = start - 1 if start > 0 else len(text) + start if start < 0 else 0
    last = len(text) if length is None else first + length
    return "".join(char for at, char in enumerate(text) if first <= at < last)


def _part(part: str, time: datetime) -> Any:
    return {
        "YEAR": time.year, "QUARTER": (time.month + 2) // 3, "MONTH": time.month, "WEEK": time.isocalendar().week,
        "DAY": time.day, "DOW": time.isoweekday() % 7 + 1, "DOY": time.timetuple().tm_yday, "HOUR": time.hour,
        "MINUTE": time.minute, "SECOND": time.second + Decimal(time.microsecond) / 1_000_000,
    }[part]  # fmt: skip


def _truncated(unit: str, time: datetime) -> datetime:
    """The start of what the time lies in, by the clocks of its own zone."""
    if unit in CLOCK_HANDS:
        kept = dict.fromkeys(CLOCK_HANDS[: CLOCK_HANDS.index(unit)], 0)
        return time.replace(**kept)
    first = {
        "day": time.date(),
        "week": time.date() - timedelta(days=time.weekday()),
        "month": time.date().replace(day=1),
        "quarter": time.date().replace(month=(time.month - 1) // 3 * 3 + 1, day=1),
        "year": time.date().replace(month=1, day=1),
    }[unit]
    return datetime(first.year, first.month, first.day, tzinfo=time.tzinfo)


def _exponential(value: Any) -> float:
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf


def _power(base: Any, exponent: Any) -> float | None:
    try:
        return math.pow(base, exponent)
    except OverflowError:
        return -math.inf if base < 0 and exponent % 2 == 1 else math.inf
    except ValueError:  # zero to a negative power, and roots of negative numbers
        return math.inf if base == 0 else None


CLOCK_HANDS = ("microsecond", "second", "minute", "hour")


def cast(value: Any, made: str) -> Any:
    """For texts and numbers: what random queries ask."""
    if value is None:
        return None
    if made == "STRING":
        return str(value)
    text = value.strip() if isinstance(value, str) else value
    try:
        return {"BIGINT": int, "DOUBLE": float}[made](text)
    except (ValueError, OverflowError):
        return None


SKIPPING: dict[str, Callable[..., Any]] = {
    "COALESCE": _coalesce,
    "NULLIF": lambda left, right: None if compare("=", left, right) else left,
    "LEAST": _extreme("<"),
    "GREATEST": _extreme(">"),
    "IS DISTINCT FROM": _distinct,
}
STRICT: dict[str, Callable[..., Any]] = {
    "ABS": _absolute,
    "SIGN": _sign,
    "ROUND": _round,
    "FLOOR": _finite(math.floor),
    "CEIL": _finite(math.ceil),
    "SQRT": lambda value: math.sqrt(value) if value >= 0 else None,
    "EXP": _exponential,
    "LN": lambda value: math.log(value) if value > 0 else None,
    "LOG10": lambda value: math.log10(value) if value > 0 else None,
    "POWER": _power,
    "MOD": lambda left, right: calculate("%", left, right),
    "LOWER": str.lower,
    "UPPER": str.upper,
    "TRIM": lambda text: text.strip(" "),
    "LENGTH": len,
    "SUBSTRING": _substring,
    "REPLACE": lambda text, old, new: text.replace(old, new) if old else text,
    "CONCAT": lambda *texts: "".join(texts),
    "STARTS_WITH": str.startswith,
    "ENDS_WITH": str.endswith,
    "CONTAINS": lambda text, part: part in text,
    "LIKE": _like,
    "ILIKE": lambda text, pattern: _like(text, pattern, re.IGNORECASE),
    "RLIKE": lambda text, expression: re.search(expression, text) is not None,
    "EXTRACT": _part,
    "DATE_TRUNC": lambda unit, time: _truncated(unit.lower(), time).astimezone(UTC),
}
