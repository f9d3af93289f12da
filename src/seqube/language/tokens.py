"""What single tokens of the text mean: their places, names, numbers and durations, and the first mistake among them.

Cost: linear in the token. Invariant: a number or duration that leaves its range is refused here, with its place.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from fractions import Fraction
from typing import TYPE_CHECKING, NoReturn

from seqube.errors import Problem, QueryError, Span
from seqube.events.schema import HIDDEN_COLUMNS

if TYPE_CHECKING:
    from lark import Token

MAX_INT64 = 2**63 - 1
MAX_UINT64 = 2**64 - 1

UNIT_US = {
    unit: microseconds
    for units, microseconds in (
        ("us usec usecs µs microsecond microseconds", 1),
        ("ms msec msecs millisecond milliseconds", 1_000),
        ("s sec secs second seconds", 1_000_000),
        ("m min mins minute minutes", 60_000_000),
        ("h hr hrs hour hours", 3_600_000_000),
        ("d day days", 86_400_000_000),
        ("w week weeks", 604_800_000_000),
    )
    for unit in units.split()
}


def place(text: str, offset: int, length: int = 1) -> Span:
    """The span that starts at `offset` in `text`."""
    return Span(text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset), length)


def fail(message: str, at: Span | None, hint: str | None = None) -> NoReturn:
    raise QueryError(Problem(message, at, hint))


def refuse_halves(text: str, what: str) -> None:
    """No encoding can write half of a character: neither Arrow nor another engine could take it."""
    if half := re.search("[\ud800-\udfff]", text):
        message, hint = f"the {what} contains half of a character (a lone surrogate)", "remove it; was a binary file read as text?"
        raise QueryError(Problem(message, place(text, half.start()), hint), text)


def at_token(token: Token) -> Span:
    return Span(token.line or 1, token.column or 1, len(token))


def cover(first: Span | None, last: Span | None) -> Span | None:
    """From the start of `first` to the end of `last`, or `first` alone when the two are on different lines."""
    if first is None or last is None or first.line != last.line:
        return first
    return Span(first.line, first.column, max(1, last.column + last.length - first.column))


def name_of(token: Token) -> str:
    quote = token[0]
    if quote not in '"`':
        return str(token)
    name = token[1:-1].replace(quote * 2, quote)
    if not name:
        fail("a name cannot be empty", at_token(token))
    return name


def column_of(token: Token) -> str:
    """The name of a column: in quotes, one that the event's type or time may hide is that column."""
    name = name_of(token)
    if name in HIDDEN_COLUMNS:
        fail(f"a column called {name}, with its quotes, cannot be asked for", at_token(token), "rename the column")
    return f'"{name}"' if token[0] in '"`' and name in HIDDEN_COLUMNS.values() else name


def duration_of(token: Token) -> int:
    parts = re.findall(r"(\d+(?:\.\d+)?)\s*([^\W\d]+)", token)
    total = microseconds_of(parts, at_token(token))
    if total.denominator != 1:
        fail("this duration is not a whole number of microseconds", at_token(token), "microseconds are the finest time there is")
    return int(total)


def microseconds_of(parts: Iterable[tuple[str, str]], at: Span) -> Fraction:
    """The length of numbers with their units, all together."""
    total = Fraction(0)
    for number, unit in parts:
        if len(number) > 40:
            fail("this duration is too long", at)
        total += Fraction(number) * UNIT_US[unit.lower()]
    if abs(total) > MAX_INT64:
        fail("this duration is too long", at, "the longest is 2^63 - 1 microseconds, about 292,000 years")
    return total


def whole_of(digits: str) -> int:
    """The number of some decimal digits; of very many digits, which `int` refuses, one that is beyond all limits too."""
    return int(digits.lstrip("0")[:40] or 0)


def read_number(token: Token) -> int | float:
    if token.isdecimal():
        if len(token) > 40 and len(token.lstrip("0")) > 20:
            fail("this number does not fit into 64 bits", at_token(token), "write it with a decimal point to make it a float")
        return whole_of(token)
    value = float(token)
    if value == float("inf"):
        fail("this number is too large for a float", at_token(token))
    return value
