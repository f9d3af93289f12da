"""What variables are bound to: columns of row numbers, one row each, or for a repeated part a list of rows in Arrow's layout.

A column of single events is a plain array, so that whatever knows nothing of lists is as fast as without them. A repeated part's
column is `Lists`: list k has the rows `rows[offsets[k]:offsets[k + 1]]`; with `single` it is the event of an optional part, at most
one. Both are selected by `column[which]`, so instances are selected without asking which they hold.

`every_way` is how a predicate that names lists event by event is asked: of every combination of their events, or of their pairs of
neighbours where it asks for the event before.

Cost: linear in the rows of what is selected.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

UNBOUND = -1


@dataclass(frozen=True, slots=True)
class Lists:
    """A column of lists of rows."""

    rows: Ints
    offsets: Ints
    single: bool = False

    @staticmethod
    def empty(size: int, single: bool = False) -> Lists:
        """So many lists without a row."""
        return Lists(np.empty(0, np.int64), np.zeros(size + 1, np.int64), single)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, which: Ints | Mask) -> Lists:
        chosen = np.flatnonzero(which) if which.dtype == np.bool_ else which
        counts = self.counts[chosen]
        return Lists(self.rows[ranges(self.offsets[chosen], counts)], offsets_of(counts), self.single)

    @property
    def nbytes(self) -> int:
        return self.rows.nbytes + self.offsets.nbytes

    def copy(self) -> Lists:
        return Lists(self.rows.copy(), self.offsets.copy(), self.single)

    @property
    def counts(self) -> Ints:
        return np.diff(self.offsets)

    @property
    def firsts(self) -> Ints:
        """The first row of each list, UNBOUND where it has none."""
        return self._at(self.offsets[:-1])

    @property
    def lasts(self) -> Ints:
        return self._at(self.offsets[1:] - 1)

    def _at(self, places: Ints) -> Ints:
        if not len(self.rows):
            return np.full(len(self), UNBOUND, np.int64)
        return np.where(self.counts > 0, self.rows[np.clip(places, 0, len(self.rows) - 1)], UNBOUND)


Column = Ints | Lists
Bindings = Mapping[str, Column]  # variable -> rows, UNBOUND (or an empty list) where it is not bound


def offsets_of(counts: Ints) -> Ints:
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)))


def ranges(begins: Ints, counts: Ints) -> Ints:
    """The numbers begin .. begin + count of many ranges, one after the other."""
    ends = np.cumsum(counts)
    numbers: Ints = np.arange(ends[-1] if len(ends) else 0) + np.repeat(begins - (ends - counts), counts)
    return numbers


def first_rows(column: Column) -> Ints:
    """Where each begins; UNBOUND where it has no event."""
    return column.firsts if isinstance(column, Lists) else column


def last_rows(column: Column) -> Ints:
    return column.lasts if isinstance(column, Lists) else column


def is_bound(column: Column) -> Mask:
    return column.counts > 0 if isinstance(column, Lists) else column >= 0


def shifted(column: Column, by: int) -> Column:
    """The column where what was row 0 is another."""
    if isinstance(column, Lists):
        return Lists(column.rows + by, column.offsets, column.single)
    return np.where(column < 0, UNBOUND, column + by)


def one_after_another(columns: Sequence[Column]) -> Column:
    """Columns of one variable as one."""
    lists = [column for column in columns if isinstance(column, Lists)]
    if not lists:
        return np.concatenate(columns)  # type: ignore[arg-type]  # there are only arrays
    assert len(lists) == len(columns), "a variable is a list everywhere or nowhere"
    counts = np.concatenate([column.counts for column in lists])
    return Lists(np.concatenate([column.rows for column in lists]), offsets_of(counts), lists[0].single)


def nothing(names: Iterable[str], lists: Mapping[str, bool], size: int = 0) -> dict[str, Column]:
    """These variables, bound to nothing; `lists` says which stand for lists, and which of these for at most one event."""
    unbound = np.full(size, UNBOUND, np.int64)
    return {name: Lists.empty(size, lists[name]) if name in lists else unbound for name in names}


# ---------------------------------------------------------------- events of lists, one by one

# Names that no variable has, since no text of a query holds this character.
_WHOLE, _BEFORE = "\0list ", "\0before "


def whole(variable: str) -> str:
    """The name under which a list is kept while its variable stands for one of its events."""
    return _WHOLE + variable


def before(variable: str) -> str:
    """The name of the event before the one that a variable stands for."""
    return _BEFORE + variable


def every_way(bindings: Bindings, lists: Sequence[str], pairs: frozenset[str], size: int) -> tuple[Ints, dict[str, Column]]:
    """All combinations of the events of some lists: of which candidate each is, and the bindings in which variables are events.

    b         [2 4 5]  []  [7]
    ways      0 0 0        2        b  2 4 5 7
    in pairs  0 0                   b  4 5   before  2 4
    """
    candidates: Ints = np.arange(size)
    chosen: dict[str, Ints] = {}
    for name in lists:
        column = bindings[name]
        assert isinstance(column, Lists)
        begins = column.offsets[:-1] + (name in pairs)
        counts = np.maximum(column.offsets[1:] - begins, 0)[candidates]
        at = ranges(begins[candidates], counts)
        again = np.repeat(np.arange(len(candidates)), counts)
        candidates, chosen = candidates[again], {known: rows[again] for known, rows in chosen.items()}
        chosen[name] = column.rows[at]
        if name in pairs:
            chosen[before(name)] = column.rows[at - 1]
    inner: dict[str, Column] = {name: column[candidates] for name, column in bindings.items() if name not in chosen}
    inner |= {whole(name): bindings[name][candidates] for name in lists}
    return candidates, {**inner, **chosen}
