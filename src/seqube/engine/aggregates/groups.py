"""The values of GROUP BY as one code for every match, and back.

Cost: each column is coded once; a code is a digit for each key, put together. Invariant: equal codes are equal values, and null is
equal to null.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from seqube.engine.bindings import UNBOUND, Bindings, last_rows
from seqube.engine.keys import whole_codes
from seqube.engine.predicates import Ints, shown, take
from seqube.engine.sequence import HIGHEST
from seqube.errors import PlanError
from seqube.events import Events
from seqube.events.schema import TYPE
from seqube.language.tree import Attribute

Digits = npt.NDArray[Any]  # whole numbers of the narrowest kind


class Groups:
    """The values of GROUP BY as one code per match: digits in a mixed radix, 0 for null."""

    def __init__(self, keys: tuple[Attribute, ...], events: Events) -> None:
        self.keys = keys
        self._events = events
        self._digits: list[Digits] = []  # per key: a digit for every row
        self._rows: list[Ints] = []  # per key: a row with that value, for every digit
        self.size = 1  # how many groups there may be
        known: dict[str, tuple[Digits, Ints]] = {}
        for key in keys:
            if key.name not in known:
                known[key.name] = _key_digits(key.name, events)
            digits, rows = known[key.name]
            self._digits.append(digits)
            self._rows.append(rows)
            self.size *= len(rows)
        if self.size > HIGHEST:
            raise PlanError("GROUP BY has more combinations of values than can be told apart\n  hint: group by fewer attributes")

    def only(self, keys: tuple[Attribute, ...]) -> Groups:
        """The same by some of the keys."""
        groups = copy(self)
        places = [self.keys.index(key) for key in keys]
        groups.keys, groups._digits = keys, [self._digits[place] for place in places]
        groups._rows = [self._rows[place] for place in places]
        groups.size = prod(map(len, groups._rows))
        return groups

    def codes(self, bindings: Bindings, size: int) -> Ints:
        """The group of every match (or of every trigger, where it alone decides)."""
        found = []
        for key, digits in zip(self.keys, self._digits, strict=True):
            bound = _any_row(bindings) if key.variable is None else last_rows(bindings[key.variable])
            digit = digits[bound].astype(np.int64) if len(digits) else np.zeros(size, np.int64)
            unbound = bound < 0
            found.append(np.where(unbound, 0, digit) if unbound.any() else digit)
        return self.join(found, size)

    def join(self, digits: Sequence[Ints], size: int) -> Ints:
        """Groups, from a digit for every key."""
        if not digits:
            return np.zeros(size, np.int64)
        codes = digits[0]
        for digit, rows in zip(digits[1:], self._rows[1:], strict=True):
            codes = codes * len(rows) + digit
        return codes

    def digits(self, codes: Ints) -> list[Ints]:
        """A digit for every key of these groups."""
        found: list[Ints] = []
        for rows in reversed(self._rows):
            codes, digit = np.divmod(codes, len(rows))
            found.append(digit)
        return found[::-1]

    def columns(self, codes: Ints) -> list[pa.Array]:
        """The values of the keys for these groups."""
        found = zip(self.keys, self._rows, self.digits(codes), strict=True)
        return [shown(take(self._events.column(key.name), rows[digit])) for key, rows, digit in found]


def _key_digits(name: str, events: Events) -> tuple[Digits, Ints]:
    """The values of a key as digits, 0 for null, one for every row; and for every digit a row that has it."""
    codes, n_codes = (events.types, len(events.type_names)) if name == TYPE else whole_codes(events, [name])
    digits = np.add(codes, 1, dtype=np.min_scalar_type(n_codes), casting="unsafe")  # narrow: they are looked up in no order
    rows = np.full(n_codes + 1, UNBOUND, np.int64)
    rows[digits[::-1]] = np.arange(len(digits))[::-1]
    rows[0] = UNBOUND
    return digits, rows


def _any_row(bindings: Bindings) -> Ints:
    rows: Ints = np.maximum.reduce([last_rows(column) for column in bindings.values()])
    return rows
