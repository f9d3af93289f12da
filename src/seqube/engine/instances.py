"""Columns of row numbers: instances of a node, the batch they come from, and the scopes that negations look into.

Everything here is a whole array at a time; an instance is never an object. Instances are ascending by their last row, which is the
invariant every search below leans on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from seqube.engine.bindings import (
    UNBOUND,
    Bindings,
    Column,
    Lists,
    first_rows,
    is_bound,
    last_rows,
    nothing,
    offsets_of,
    one_after_another,
)
from seqube.engine.limits import NO_LIMITS, Budget
from seqube.engine.predicates import Evaluator, Ints, Mask
from seqube.engine.sequence import HIGHEST, LOWEST, Stacks, latest_starts
from seqube.events import Events
from seqube.plan.physical import MatchAlternatives, Scan, list_variables

NO_LISTS: Mapping[str, bool] = {}


@dataclass(frozen=True, slots=True)
class Instances:
    """Instances of a node, ascending by last row.

    `rows` has a column of row numbers per variable, UNBOUND where it is not taken, or of lists of them.
    """

    rows: Mapping[str, Column]
    first_rows: Ints
    last_rows: Ints
    reached: Ints | None = None  # of runs that are kept though unfinished: how far they got

    def __len__(self) -> int:
        return len(self.last_rows)

    def select(self, which: Ints | Mask) -> Instances:
        # Single events have one column in all three places; it is read once.
        ends = self.last_rows[which]
        rows = {name: ends if column is self.last_rows else column[which] for name, column in self.rows.items()}
        reached = None if self.reached is None else self.reached[which]
        return Instances(rows, ends if self.first_rows is self.last_rows else self.first_rows[which], ends, reached)

    @property
    def are_events(self) -> bool:
        """Whether they are single events: their rows are what is known of them."""
        return len(self.rows) == 1 and not isinstance(next(iter(self.rows.values())), Lists)

    @property
    def single_rows(self) -> dict[str, Ints]:
        """The columns, for whoever knows single events only."""
        assert not any(isinstance(column, Lists) for column in self.rows.values()), "lists are refused where they are not known"
        return dict(self.rows)  # type: ignore[arg-type]  # there are only arrays

    @property
    def n_bytes(self) -> int:
        return sum(column.nbytes for column in (*self.rows.values(), self.first_rows, self.last_rows))

    def copy(self) -> Instances:
        return Instances({name: rows.copy() for name, rows in self.rows.items()}, self.first_rows.copy(), self.last_rows.copy())


def spanning(rows: Mapping[str, Column]) -> Instances:
    """Instances from their rows: the first is the smallest bound row, the last the largest."""
    if len(rows) == 1:
        (column,) = rows.values()
        return Instances(rows, first_rows(column), last_rows(column))
    last = np.maximum.reduce([last_rows(column) for column in rows.values()])
    begins = [first_rows(column) for column in rows.values()]
    first = np.minimum.reduce([np.where(column < 0, HIGHEST, column) if (column < 0).any() else column for column in begins])
    return Instances(rows, first, last)


@dataclass(frozen=True, slots=True)
class Batch:
    """Events with the clocks that measure the window and, with PARTITION BY, the code of each row's partition (-1: in none).

    `budget` is what the run over them may use.
    """

    events: Events
    window: int
    clocks: Ints
    partitions: Ints | None = None
    budget: Budget = field(default_factory=NO_LIMITS.budget)
    positions: Ints | None = None  # the numbers of the events, where they matter
    ranks: Ints | None = None  # with ORDER BY: what is after what, also among equal times

    @property
    def times(self) -> Ints:
        """What is after what: larger, never equal."""
        return self.events.times if self.ranks is None else self.ranks

    @property
    def counts_events(self) -> bool:
        return self.clocks is not self.events.times

    @property
    def has_one_clock(self) -> bool:
        """Whether what is after what and how long something takes are told by the same numbers."""
        return self.clocks is self.times

    def partitions_of(self, rows: Ints) -> Ints:
        """The partition of each of these rows; all events are one without PARTITION BY."""
        return np.zeros(len(rows), np.int64) if self.partitions is None else self.partitions[rows]

    def partition_column(self, rows: Ints) -> list[pa.Array]:
        """The same as a column of a key, where there are partitions."""
        return [] if self.partitions is None else [pa.array(self.partitions[rows])]

    def scan(self, node: Scan, evaluator: Evaluator, among: Callable[[Ints], Mask] | None = None) -> Ints:
        """The rows of a scan: of its types, in a partition, passing its own predicates; and `among` those that are wanted."""
        rows = self.events.rows_of(node.types)
        if self.partitions is not None:
            rows = rows[self.partitions[rows] >= 0]
        if among is not None:
            rows = rows[among(rows)]
        if node.filters:
            rows = rows[evaluator.true(node.filters, {node.variable: rows}, len(rows))]
        return rows


@dataclass(frozen=True, slots=True)
class Reach:
    """The scopes of negations for many matches: what cancels starts after and ends before these, in time and by the clock."""

    after_times: Ints
    before_times: Ints
    after_clocks: Ints
    before_clocks: Ints

    def select(self, which: Ints | Mask) -> Reach:
        return Reach(self.after_times[which], self.before_times[which], self.after_clocks[which], self.before_clocks[which])


def minus(clocks: Ints, window: int) -> Ints:
    """Clocks a window earlier; what would leave 64 bits is before everything."""
    return np.where(clocks >= LOWEST + window, clocks - window, LOWEST) if window > 0 else clocks


def plus(clocks: Ints, window: int) -> Ints:
    return np.where(clocks <= HIGHEST - window, clocks + window, HIGHEST)


def gather(pieces: list[Instances], names: Sequence[str], lists: Mapping[str, bool] = NO_LISTS) -> Instances:
    """Pieces as one, ascending by last row. `lists` are the variables that stand for lists, and whether for at most one event."""
    if not pieces:
        empty = np.empty(0, np.int64)
        return Instances(nothing(names, lists), empty, empty)
    rows = {name: one_after_another([piece.rows[name] for piece in pieces]) for name in names}
    firsts = np.concatenate([piece.first_rows for piece in pieces])
    lasts = np.concatenate([piece.last_rows for piece in pieces])
    whole = Instances(rows, firsts, lasts)
    return whole if (np.diff(lasts) >= 0).all() else whole.select(np.argsort(lasts, kind="stable"))


def order_by_code(codes: Ints) -> Ints:
    """What sorts by code and leaves the order within a code as it is."""
    is_narrow = len(codes) > 0 and codes.min() >= 0 and codes.max() < 65_536
    return np.argsort(codes.astype(np.uint16) if is_narrow else codes, kind="stable")  # NumPy sorts 16 bits by radix


def latest_before(codes: Ints, ends: Ints, starts: Ints, asked: Ints, times: Ints) -> Ints:
    """For every question (code, time): the latest start of an instance of that code that ends before; LOWEST if there is none."""
    ascend = bool((np.diff(ends) >= 0).all())
    if ascend and len(codes) and codes.max() == codes.min() == 0:
        return latest_starts(np.array([0, len(codes)]), ends, starts, asked, times)
    usable = np.flatnonzero(codes >= 0)
    order = usable[order_by_code(codes[usable]) if ascend else np.lexsort((ends[usable], codes[usable]))]
    counts = np.bincount(codes[usable], minlength=int(codes.max(initial=-1)) + 1)
    groups = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
    return latest_starts(groups, ends[order], starts[order], asked, times)


def sorted_by_group(slots: list[Instances], codes: list[Ints], drop_null: bool) -> tuple[list[Instances], list[Ints]]:
    """Slots sorted by (code, last row); instances without a key can join nothing and are dropped."""
    sorted_slots, sorted_codes = [], []
    for slot, code in zip(slots, codes, strict=True):
        if drop_null and len(code) and code.min() < 0:
            slot, code = slot.select(code >= 0), code[code >= 0]
        if len(code) and code.min() != code.max():
            order = order_by_code(code)
            slot, code = slot.select(order), code[order]
        sorted_slots.append(slot)
        sorted_codes.append(code)
    return sorted_slots, sorted_codes


def expand(slots: list[Instances], ids: Ints, read: frozenset[str], in_order: bool) -> Instances:
    """Matches from the ids written for each slot: its rows where it is of single events, else the numbers of its instances.

    Only variables that will be `read` get rows. In SEQ the first and last slot tell where a match begins and ends.
    """
    rows: dict[str, Column] = {}
    for slot, chosen in zip(slots, ids, strict=True):
        for name, column in slot.rows.items():
            if name in read:
                rows[name] = chosen if slot.are_events else column[chosen]
    if not in_order:
        return spanning(rows)
    first, last = (
        chosen if slot.are_events else side[chosen]
        for slot, side, chosen in ((slots[0], slots[0].first_rows, ids[0]), (slots[-1], slots[-1].last_rows, ids[-1]))
    )
    return Instances(rows, first, last)


@dataclass(frozen=True, slots=True)
class Keys:
    """Instances sorted by (code, last row), searched for the ones of a code that end inside a scope."""

    codes: Ints
    ends: Ints
    lasts: Ints

    def ranges(self, asked: Ints, reach: Reach) -> tuple[Ints, Ints]:
        begin, end = np.searchsorted(self.codes, asked, "left"), np.searchsorted(self.codes, asked, "right")
        low = np.maximum(
            _bisect(self.ends, reach.after_times, begin, end, True), _bisect(self.lasts, reach.after_clocks, begin, end, True)
        )
        high = np.minimum(
            _bisect(self.ends, reach.before_times, begin, end, False), _bisect(self.lasts, reach.before_clocks, begin, end, False)
        )
        return low, high


def _bisect(values: Ints, bounds: Ints, begin: Ints, end: Ints, right: bool) -> Ints:
    """Binary search of many bounds, each in its own range begin .. end, all at once."""
    low, high = begin.copy(), end.copy()
    while True:
        open_ = low < high
        if not open_.any():
            return low
        middle = np.where(open_, (low + high) // 2, 0)
        below = values[middle] <= bounds if right else values[middle] < bounds
        low = np.where(open_ & below, middle + 1, low)
        high = np.where(open_ & ~below, middle, high)


def where_bound(when: frozenset[str], rows: Bindings) -> Mask:
    """Where one of these variables is bound."""
    taken: Mask = np.logical_or.reduce([is_bound(rows[name]) for name in sorted(when)])
    return taken


def unbind(column: Column, which: Ints) -> Column:
    """The column without what these instances are bound to."""
    if isinstance(column, Lists):
        counts = column.counts
        kept = np.ones(len(column), np.bool_)
        kept[which] = False
        return Lists(column.rows[np.repeat(kept, counts)], offsets_of(np.where(kept, counts, 0)), column.single)
    result = column.copy()
    result[which] = UNBOUND
    return result


def with_others(piece: Instances, node: MatchAlternatives) -> Instances:
    """The instances of a branch with the variables of the others, which they do not bind."""
    others = nothing((name for name in node.binds if name not in piece.rows), list_variables(node), len(piece))
    rows = {name: piece.rows[name] if name in piece.rows else others[name] for name in node.binds}
    return Instances(rows, piece.first_rows, piece.last_rows)


def stack_slots(batch: Batch, slots: list[Instances], codes: list[Ints], n_codes: int, guarded: bool = False) -> Stacks:
    """The instances of the slots, group by group, as the loops walk them; `guarded`: with room for what is forbidden."""
    sizes = np.array([len(slot) for slot in slots], np.int64)
    offsets = np.concatenate(([0], np.cumsum(sizes)[:-1]))
    groups = np.empty((n_codes + 1, len(slots)), np.int64)
    for i, code in enumerate(codes):
        groups[0, i] = 0
        np.cumsum(np.bincount(code, minlength=n_codes), out=groups[1:, i])
    last_rows = np.concatenate([slot.last_rows for slot in slots])
    single = all(slot.first_rows is slot.last_rows for slot in slots)
    first_rows = last_rows if single else np.concatenate([slot.first_rows for slot in slots])
    ends = batch.times[last_rows]
    starts = ends if single else batch.times[first_rows]
    lasts = ends if batch.has_one_clock else batch.clocks[last_rows]
    firsts = lasts if single else starts if batch.has_one_clock else batch.clocks[first_rows]
    are_events = all(slot.are_events for slot in slots)  # a slot of single events writes its rows straight out
    ids = (
        last_rows if are_events else np.concatenate([slot.last_rows if slot.are_events else np.arange(len(slot)) for slot in slots])
    )
    size = len(ends) if guarded else 0
    return Stacks(offsets, groups, starts, ends, firsts, lasts, np.full(size, LOWEST), np.full(size, HIGHEST), ids)
