"""The rows of a query that is counted together with others: from the changes of its patterns to what is reported when.

A change says what a pattern's value is in a lane from a time on. What is due when, and for which groups, follows from the plan as
always; the value of a group at a moment is the last change of its lane or, where it has several, put together from those of all of
them. Matches that count once come added up already, and are merged into totals.

Cost: the changes and the rows; where a group has several lanes, also a look at every lane.
Invariant: `values` are those of all lanes after the last change that was told.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from seqube.engine.aggregates.aggregation import (
    Aggregator,
    Task,
    add_totals,
    distinct,
    measured,
    result_rows,
    shown_times,
    strategy,
)
from seqube.engine.aggregates.counting import Changes, combine
from seqube.engine.aggregates.lanes import Numbers, Ring
from seqube.engine.aggregates.live import group_columns, told_apart
from seqube.engine.aggregates.measured import Measured
from seqube.engine.aggregates.measures import unless_empty
from seqube.engine.aggregates.readings import AT_ENDS, HAS_ENDED, LEAST, OF_LANE, PathChanges, arithmetic_of
from seqube.engine.aggregates.state import State
from seqube.engine.aggregates.totals import total_keys
from seqube.engine.aggregates.tracks import is_wide, value_of_bits
from seqube.engine.jit import kernel
from seqube.engine.numbers import EXACT
from seqube.engine.partitions import KeyCodes
from seqube.engine.predicates import Ints
from seqube.engine.sequence import HIGHEST, LOWEST, by_code
from seqube.events import Events
from seqube.language.tree import Attribute
from seqube.plan.aggregates import AggregatePlan, Measure
from seqube.plan.sharing import COMPARING, Counted, is_extreme


@dataclass(slots=True)
class Told:
    """What is remembered of one query: the groups of lanes, the values of its patterns in each, and what is out."""

    groups: KeyCodes
    lane_groups: Ints
    values: list[Numbers]  # for each measure, by lane
    reported: int = LOWEST
    totals: pa.Table | None = None
    largest: dict[str, float] = field(default_factory=dict)  # of the columns that are added up
    is_beyond: bool = False  # whether values are compared that whole numbers of 64 bits do not tell apart

    @property
    def n_bytes(self) -> int:
        return sum(column.nbytes for column in (self.lane_groups, *self.values)) + (self.totals.nbytes if self.totals else 0)


@dataclass(frozen=True, slots=True)
class DueCells:
    """Groups and times to be reported, ascending."""

    groups: Ints
    times: Ints

    def __len__(self) -> int:
        return len(self.groups)

    def only(self, kept: Ints) -> DueCells:
        return DueCells(self.groups[kept], self.times[kept])


def _cells(groups: Ints, times: Ints, are_ordered: bool = False) -> DueCells:
    """Each once, in order; where the times are in order, or all is, in linear time."""
    later = (groups[1:] > groups[:-1]) | ((groups[1:] == groups[:-1]) & (times[1:] >= times[:-1]))
    if not later.all():
        order = by_code(groups, int(groups.max(initial=-1)) + 1)[0] if are_ordered else np.lexsort((times, groups))
        groups, times = groups[order], times[order]
    new = np.ones(len(groups), np.bool_)
    new[1:] = (groups[1:] != groups[:-1]) | (times[1:] != times[:-1])
    return DueCells(groups[new], times[new])


class Sizes:
    """How large the values of columns are, each looked at once for all queries."""

    def __init__(self, events: Events) -> None:
        self._events = events
        self._largest: dict[str, float] = {}
        self._beyond: dict[str, bool] = {}

    def largest(self, name: str) -> float:
        """The largest whole number of a column, whatever its sign; doubles do not count."""
        if name not in self._largest:
            column = Measured.of(self._events.column(name), name)
            self._largest[name] = column.largest if column.is_whole else 0.0
        return self._largest[name]

    def is_beyond(self, name: str) -> bool:
        """Whether a value may be taken for that of nothing, or needs more than 64 bits to be compared."""
        if name not in self._beyond:
            column = Measured.of(self._events.column(name), name)
            ends = (column.numbers == HIGHEST) | (column.numbers == LOWEST) if column.is_whole else np.zeros(0, np.bool_)
            self._beyond[name] = is_wide(column.column.type) or bool(ends.any())
        return self._beyond[name]


class SharedRows:
    """Makes the rows of one query of changes."""

    def __init__(self, aggregator: Aggregator, counted: Counted, name: str) -> None:
        self._aggregator, self.plan, self._counted = aggregator, aggregator.plan, counted
        self._arithmetics = [arithmetic_of(is_extreme(path.pattern)) for path in counted.paths(name).values()]  # of its measures
        self._names, self._compared = self._columns("SUM"), self._columns(*COMPARING)

    def _columns(self, *functions: str) -> list[str]:
        """The columns that some functions measure."""
        arguments = (measure.argument for measure in self.plan.measures if measure.function in functions)
        return [argument.name for argument in arguments if isinstance(argument, Attribute)]

    @cached_property
    def _is_single(self) -> bool:
        """Whether every group is one lane."""
        return is_single(self._counted)

    def start(self) -> Told:
        zeros = [np.zeros(0, np.array(arithmetic.zero).dtype) for arithmetic in self._arithmetics]
        return Told(KeyCodes([f"group{i}" for i in range(2 * len(self.plan.group_by))]), np.zeros(0, np.int64), zeros)

    def meet(self, told: Told, keys: KeyCodes | None, sizes: Sizes) -> None:
        """Take note of new lanes, and of what new events weigh."""
        known, now = len(told.lane_groups), 1 if keys is None else len(keys)
        if now > known:
            groups = np.zeros(now - known, np.int64)
            if self.plan.group_by:
                assert keys is not None
                values = keys.values(np.arange(known, now))
                groups = told.groups.code(told_apart([values[place] for place in self._counted.groups]))
            told.lane_groups = np.concatenate([told.lane_groups, groups])
            for i, arithmetic in enumerate(self._arithmetics):
                more = np.full(now - known, arithmetic.zero, told.values[i].dtype)
                told.values[i] = np.concatenate([told.values[i], more])
        for name in self._names:
            told.largest[name] = max(told.largest.get(name, 0.0), sizes.largest(name))
        told.is_beyond |= any(map(sizes.is_beyond, self._compared))

    # ------------------------------------------------------------ what is due

    def decide(self, told: Told, task: Task, changes: Sequence[PathChanges], lane_of: Ints, whole: Callable[[], State]) -> pa.Table:
        """The rows that are due, of the changes of every measure; `whole` is the window, should doubles not hold its numbers."""
        if self.plan.emit.counts_once:
            return self._totals(told, task, changes, whole)
        cells = self._due(told, task, changes[0], lane_of)
        values = [self._bring(told, i, change, cells) for i, change in enumerate(changes)]
        for i, change in enumerate(changes):
            _settle(told.values[i], change)
        if not self._is_exact(told, [*values, changes[0].values]):
            return self._aggregator.decide(whole(), task.upto, task.final)[1]
        if self.plan.report == "present":
            there = np.flatnonzero(values[0] > 0)
            cells, values = cells.only(there), [each[there] for each in values]
        if self.plan.group_by:
            order = np.argsort(cells.times, kind="stable")
            cells, values = cells.only(order), [each[order] for each in values]
        columns = group_columns(self.plan, told.groups, task.batch.events, cells.groups) if self.plan.group_by else []
        measures = self._measures(values, task.batch.events)
        return result_rows(task, [shown_times(task, cells.times)], columns, measures, len(cells))

    def forget(self, told: Told, changes: Sequence[PathChanges]) -> None:
        """Take changes that were reported before."""
        if not self.plan.emit.counts_once:
            for i, change in enumerate(changes):
                _settle(told.values[i], change)

    def _due(self, told: Told, task: Task, counts: PathChanges, lane_of: Ints) -> DueCells:
        plan = self.plan
        if plan.emit.when == "every":
            if not plan.group_by:
                return DueCells(np.zeros(len(task.moments), np.int64), task.moments)
            return self._present(told, task.moments, counts)
        if plan.report == "new":
            fresh = counts.facts[counts.facts[:, HAS_ENDED] > 0]
            return _cells(told.lane_groups[fresh[:, OF_LANE]], fresh[:, AT_ENDS])
        rows = task.trigger_rows
        for name in plan.matches.partition_by:
            valid = task.batch.events.column(name).is_valid()
            rows = rows[np.asarray(valid)[rows]] if valid.false_count else rows
        times = task.batch.events.times[rows]
        if not plan.group_by:
            times = distinct(times)
            return DueCells(np.zeros(len(times), np.int64), times)
        lanes = lane_of[rows]
        groups = told.lane_groups[lanes] if len(told.lane_groups) else lanes
        if (nowhere := np.flatnonzero(lanes < 0)).size:  # without a key it ends no match, and is a group all the same
            columns = [task.batch.events.column(key.name).take(pa.array(rows[nowhere])) for key in plan.group_by]
            groups[nowhere] = told.groups.code(told_apart(columns))
        return _cells(groups, times, are_ordered=True)

    def _present(self, told: Told, moments: Ints, counts: PathChanges) -> DueCells:
        """Moments at which a group may have a match: from its first change to the last, and where it has some before or after."""
        times, groups = counts.facts[:, AT_ENDS], told.lane_groups[counts.facts[:, OF_LANE]]
        after = told.values[0].copy()
        _settle(after, counts)
        first, last = np.full(max(len(told.groups), 1), HIGHEST), np.full(max(len(told.groups), 1), LOWEST)
        np.minimum.at(first, groups, times)
        np.maximum.at(last, groups, times)
        first[told.lane_groups[told.values[0] != 0]] = LOWEST
        last[told.lane_groups[after != 0]] = HIGHEST
        begin, end = np.searchsorted(moments, first), np.searchsorted(moments, last)
        counts_of = np.maximum(end - begin, 0)
        within = np.arange(int(counts_of.sum())) - np.repeat(np.cumsum(counts_of) - counts_of, counts_of)
        return DueCells(np.repeat(np.arange(len(first)), counts_of), moments[np.repeat(begin, counts_of) + within])

    # ------------------------------------------------------------ values

    def _bring(self, told: Told, i: int, changes: PathChanges, cells: DueCells) -> Numbers:
        """The value of a measure in every cell."""
        arithmetic, before = self._arithmetics[i], told.values[i]
        times, lanes, values = changes.facts[:, AT_ENDS], changes.facts[:, OF_LANE], changes.values
        if len(before) == 1:
            values = np.concatenate([before, values])
            return values[np.searchsorted(times, cells.times, "right")]
        if self._is_single and _is_range(told.lane_groups):
            return carry(lanes, times, values, before, arithmetic.zero, cells.groups, cells.times)
        touched, places = np.unique(lanes, return_inverse=True)
        by_group = np.argsort(told.lane_groups[touched], kind="stable")
        touched, number = touched[by_group], np.argsort(by_group)
        out = self._untouched(told, i, touched, cells)
        # What lanes had before is a change before all others.
        values = np.concatenate([before[touched], values])
        times = np.concatenate([np.full(len(touched), LOWEST), times])
        lane_of = np.concatenate([np.arange(len(touched)), number[places]])
        groups = told.lane_groups[touched]
        known, firsts = np.unique(groups, return_index=True)
        order = np.lexsort((times, groups[lane_of])) if len(known) < len(touched) else np.lexsort((times, lane_of))
        of_changes = np.append(np.searchsorted(groups[lane_of][order], known), len(order))
        begin, end = np.searchsorted(cells.groups, known), np.searchsorted(cells.groups, known, "right")
        ring, found = Ring(arithmetic.one, arithmetic.zero, arithmetic.least), np.full(len(cells), arithmetic.zero, before.dtype)
        combine(
            Changes(np.append(firsts, len(touched)), of_changes, order, lane_of, times),
            values,
            ring,
            begin,
            end,
            cells.times,
            found,
        )
        return out + found if arithmetic.least is None else np.minimum(out, found)

    def _untouched(self, told: Told, i: int, touched: Ints, cells: DueCells) -> Numbers:
        """What lanes add to cells that have not changed."""
        arithmetic, rest = self._arithmetics[i], told.values[i].copy()
        rest[touched] = arithmetic.zero
        bases = np.full(max(len(told.groups), 1), arithmetic.zero, rest.dtype)
        there = np.flatnonzero(rest != arithmetic.zero)
        add = np.add if arithmetic.least is None else np.minimum
        add.at(bases, told.lane_groups[there], rest[there])
        return bases[cells.groups]

    def _is_exact(self, told: Told, values: Sequence[Numbers]) -> bool:
        """Whether doubles hold what was counted and added up."""
        by_measure = dict(zip(self.plan.measures, values, strict=False))
        if told.is_beyond or not all((each < EXACT).all() for each in (values[0], values[-1])):
            return False
        for measure in self.plan.measures:
            if measure.function == "SUM" and isinstance(measure.argument, Attribute):
                sizes = by_measure[Measure("COUNT", measure.argument)]
                if float(sizes.max(initial=0.0)) * told.largest.get(measure.argument.name, 0.0) >= EXACT:
                    return False
        return True

    def _measures(self, values: Sequence[Numbers], events: Events) -> dict[Measure, pa.Array]:
        found: dict[Measure, pa.Array] = {}
        for measure, numbers in zip(self.plan.measures, values, strict=True):
            if measure.function == "COUNT":
                found[measure] = pa.array(numbers.astype(np.int64))
        for measure, numbers in zip(self.plan.measures, values, strict=True):
            if measure.function == "COUNT":
                continue
            assert isinstance(measure.argument, Attribute)
            kind = Measured.of(events.column(measure.argument.name).slice(0, 0), measure.argument.name)
            if measure.function in COMPARING:
                sign = 1.0 if measure.function == "MIN" else -1.0
                none = numbers == LEAST.zero
                found[measure] = value_of_bits(numbers, none, sign, kind.column.type)
            else:
                sums = pa.array(numbers.astype(np.int64) if kind.is_whole else numbers)
                found[measure] = unless_empty(found[Measure("COUNT", measure.argument)], sums)
        return found

    # ------------------------------------------------------------ totals

    def _totals(self, told: Told, task: Task, changes: Sequence[PathChanges], whole: Callable[[], State]) -> pa.Table:
        told.totals, rows = add_totals(task, told.totals, self.share(told, task, changes, whole))
        return rows

    def share(self, told: Told, task: Task, changes: Sequence[PathChanges], whole: Callable[[], State]) -> pa.Table:
        """What changes add to the totals."""
        counts, plan = changes[0], self.plan
        cells = _cells(told.lane_groups[counts.facts[:, OF_LANE]], counts.facts[:, AT_ENDS])
        if plan.emit.when == "total" and not plan.group_by:
            cells = DueCells(np.zeros(1, np.int64), np.zeros(1, np.int64))
        values = [self._added(told, i, change, cells) for i, change in enumerate(changes)]
        if self._is_exact(told, [*values, counts.values]):
            names = [*total_keys(plan), *(f"#measure{i}" for i in range(len(plan.measures)))]
            columns = [pa.array(cells.times)] if plan.emit.when == "per" else []
            columns += group_columns(plan, told.groups, task.batch.events, cells.groups) if plan.group_by else []
            measures = self._measures(values, task.batch.events)
            return pa.table([*columns, *(measures[measure] for measure in plan.measures)], names=names)
        again = self._aggregator.task(whole(), task.upto, task.final)
        return measured(again, strategy(plan.strategy)(again))

    def _added(self, told: Told, i: int, changes: PathChanges, cells: DueCells) -> Numbers:
        """What a measure adds up to in every cell."""
        arithmetic = self._arithmetics[i]
        found = np.full(len(cells), arithmetic.zero, changes.values.dtype)
        groups, times = told.lane_groups[changes.facts[:, OF_LANE]], changes.facts[:, AT_ENDS]
        buckets = np.unique(cells.times)
        codes = cells.groups * max(len(buckets), 1) + np.searchsorted(buckets, cells.times)
        places = np.searchsorted(codes, groups * max(len(buckets), 1) + np.searchsorted(buckets, times))
        add = np.add if arithmetic.least is None else np.minimum
        add.at(found, places, changes.values)
        return found


def _settle(values: Numbers, changes: PathChanges) -> None:
    """Values after changes, which are in the order of lanes and times."""
    lanes = changes.facts[:, OF_LANE]
    last = np.append(lanes[1:] != lanes[:-1], True) if len(lanes) else np.zeros(0, np.bool_)
    values[lanes[last]] = changes.values[last]


def _is_range(numbers: Ints) -> bool:
    """Whether they are 0, 1, 2 and so on."""
    return bool((numbers == np.arange(len(numbers))).all())


def is_single(counted: Counted) -> bool:
    return set(counted.groups) == set(range(len(counted.key)))


@kernel
def carry(lanes: Ints, times: Ints, values: Numbers, before: Numbers, zero: Any, groups: Ints, moments: Ints) -> Numbers:
    """The value of every cell, where groups are lanes: that of the last change up to its moment, or what there was before."""
    found = np.empty(len(groups), values.dtype)
    k = 0
    for cell in range(len(groups)):
        group = groups[cell]
        while k < len(lanes) and lanes[k] < group:
            k += 1
        while k < len(lanes) and lanes[k] == group and times[k] <= moments[cell]:
            k += 1
        if k > 0 and lanes[k - 1] == group and times[k - 1] <= moments[cell]:
            found[cell] = values[k - 1]
        else:
            found[cell] = before[group] if group < len(before) else zero
    return found


def watches(plan: AggregatePlan, counted: Counted) -> bool:
    """Whether it matters when starts leave: not where every row is due at an event that is read anyway."""
    if plan.emit.counts_once:
        return False
    if plan.emit.when == "every" or not is_single(counted):
        return True
    return plan.report != "new" and not counted.is_due_at_ends
