"""Rows as Python has them, dictionaries -> columns.

A column takes the type that is expected of it, or else the one that its values have in common. A key that a row does not have is a
null. Columns may *grow*, because rows that come one by one show what they hold only with time: a new key is a new column, a column
that had only nulls takes the type of its first value, and one of whole numbers becomes one of doubles when a fraction comes. A
value that does not fit otherwise makes its row no event: it is rejected with a reason.

Cost: a pass over the rows for each column; one by one only where a value does not fit.
Invariant: rows of the table + malformed rows == rows given.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from seqube.events.files import Malformed

MISFITS = (pa.ArrowException, TypeError, ValueError, OverflowError)
NO_OBJECT = "not an object with names and values"
MAX_NESTING = 64  # levels of lists and objects in a value: time and memory that Arrow takes for a type grow with their square
_NESTED = frozenset({list, dict, tuple})


def read_rows(
    rows: Sequence[Any], expected: Mapping[str, pa.DataType], loose: str | None = None
) -> tuple[pa.Table, Malformed | None]:
    """The rows as a table, and those that are none. Columns have the expected types, or grow.

    Values of the column `loose` may be of another type than is expected; that is for whoever reads times in many forms.
    """
    wrong = {number: NO_OBJECT for number, row in enumerate(rows) if not isinstance(row, Mapping)}
    names = dict.fromkeys(expected)
    for number, row in enumerate(rows):
        if number not in wrong:
            for name in row:
                if name in names or _is_text(name):
                    names[name] = None
                else:
                    wrong[number] = f"the name {name!r} is no text"
    if not names:  # and no column that could hold as many nulls
        wrong = dict.fromkeys(range(len(rows)), NO_OBJECT) | wrong
    sound = [row for number, row in enumerate(rows) if number not in wrong] if wrong else rows
    numbers = [number for number in range(len(rows)) if number not in wrong] if wrong else range(len(rows))
    columns: dict[str, pa.Array] = {}
    for name in names:
        values = [row.get(name) for row in sound]
        if not _NESTED.isdisjoint(map(type, values)):
            for place, value in enumerate(values):
                if _is_deep(value):
                    values[place] = None
                    wrong.setdefault(numbers[place], f"{name} is nested more than {MAX_NESTING} levels deep")
        column, misfits = _column(name, values, None if name == loose else expected.get(name))
        columns[name] = column
        for place, reason in misfits.items():
            wrong.setdefault(numbers[place], reason)
    table = pa.table(columns)
    if not wrong:
        return table, None
    bad = np.array(sorted(wrong), np.int64)
    if len(sound):
        table = table.filter(pa.array([number not in wrong for number in numbers]))
    texts = pa.array([_written(rows[number]) for number in bad], pa.string())
    return table, Malformed(bad, texts, pa.array([wrong[number] for number in bad], pa.string()))


def _is_text(name: Any) -> bool:
    """Whether a name is a text that Arrow can hold: not half of a character."""
    return isinstance(name, str) and (name.isascii() or not any("\ud800" <= char <= "\udfff" for char in name))


def _is_deep(value: Any) -> bool:
    """Whether there are too many levels; with a stack of its own, since there may be thousands."""
    waiting = [(value, 0)]
    while waiting:
        value, depth = waiting.pop()
        if type(value) in _NESTED:
            if depth == MAX_NESTING:
                return True
            waiting.extend((part, depth + 1) for part in (value.values() if type(value) is dict else value))
    return False


def _written(row: Any) -> str:
    try:
        return json.dumps(row, default=str, skipkeys=True)
    except RecursionError:
        return "nested too deeply to be shown"


def _column(name: str, values: list[Any], expected: pa.DataType | None) -> tuple[pa.Array, dict[int, str]]:
    """The values as a column, and what is wrong with those that do not fit, by their places: these are null."""
    for arrow in _attempts(expected):
        if not any(is_truncated(value, arrow) for value in values):
            try:
                return pa.array(values, arrow), {}
            except MISFITS:
                pass
    arrow = expected if expected is not None and not pat.is_null(expected) else _first_type(values)
    misfits: dict[int, str] = {}
    fitting: list[pa.Array] = []  # one by one: what Arrow takes for a struct depends on what stands before it
    for place, value in enumerate(values):
        try:
            fits = not is_truncated(value, arrow)
            fitting.append(pa.array([value if fits else None], arrow))
        except MISFITS:
            fits = False
            fitting.append(pa.nulls(1, arrow))
        if not fits:
            misfits[place] = f"{name} is {_brief(value)}, which is no {arrow}"
    return pa.concat_arrays(fitting), misfits


def is_truncated(value: Any, arrow: pa.DataType | None) -> bool:
    """Whether Arrow would take a fraction for a whole number, without a word."""
    return isinstance(value, float) and arrow is not None and pat.is_integer(arrow) and not value.is_integer()


def _attempts(expected: pa.DataType | None) -> list[pa.DataType | None]:
    """Types to try: what is expected, then what it may grow to; None is whatever the values have in common."""
    if expected is None or pat.is_null(expected):
        return [None]
    return [expected, pa.float64()] if pat.is_integer(expected) else [expected]


def _first_type(values: list[Any]) -> pa.DataType:
    """The type of the first value that has one."""
    for value in values:
        try:
            arrow = pa.array([value]).type
        except MISFITS:
            continue
        if not pat.is_null(arrow):
            return arrow
    return pa.null()


def _brief(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."
