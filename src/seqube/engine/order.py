"""Order beyond that of time: ORDER BY among events with equal times, and SKIP among matches.

ORDER BY sorts events that share a time by its columns, nulls last, and gives every event a rank: one event is after another where
its rank is larger, and equal ranks are never one after the other.

SKIP goes through the matches of a stream in the order in which they end. A match that is taken drops those behind it that start
before some event of it, which is a bound for each partition that only grows; or that start with the same event (TO NEXT).

    PAST LAST   the event after its last one          TO FIRST v, TO LAST v   that event; an absent v bounds nothing

Of the events that are kept, these are the ones that begin no match any more: all that must be remembered of the matches before.

Of matches with one start, none is taken behind the first that drops that start: whether it is taken or the start was dropped
before, the others are dropped. So not all matches that are final at once are held, but about as many as there are starts.

Cost: a sort of the events; a sort of the matches that are final at once, some at a time, and a pass over them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from seqube.engine.bindings import Ints, Mask, first_rows, last_rows
from seqube.engine.conjunction import in_columns
from seqube.engine.instances import Instances, gather
from seqube.engine.jit import kernel
from seqube.engine.limits import Budget
from seqube.engine.partitions import KeyCodes
from seqube.engine.predicates import Evaluator, normalise, rank
from seqube.engine.sequence import LOWEST
from seqube.errors import PlanError
from seqube.events import Events
from seqube.plan.needs import Plan, why_whole
from seqube.plan.physical import MatchPlan, list_variables

HELD = 1 << 18  # matches that wait for their turn before those that have none are let go

# ---------------------------------------------------------------- events


def _order_keys(events: Events, names: tuple[str, ...]) -> list[Ints]:
    """The time, and for each column whether it is null and where its value stands among the others."""
    keys, evaluator = [events.times], Evaluator(events)
    for name in names:
        column = normalise(events.column(name), name)
        (values,) = rank([column], evaluator)
        is_null = np.asarray(pc.is_null(column)).astype(np.int64)
        keys += [is_null, np.where(is_null, 0, values)]
    return keys


def order_events(events: Events, names: tuple[str, ...]) -> Events:
    """Events in the order of ORDER BY."""
    return events.take(np.lexsort(_order_keys(events, names)[::-1]))


def rank_events(events: Events, names: tuple[str, ...]) -> Ints:
    """The ranks of events that are in order: equal where time and columns are."""
    differs = np.zeros(len(events), np.bool_)
    for key in _order_keys(events, names):
        differs[1:] |= np.diff(key) != 0
    return np.cumsum(differs)


# ---------------------------------------------------------------- matches


def refuse_steps(plan: Plan) -> None:
    """Raise a `PlanError` for what is said of a whole stream alone."""
    if (why := why_whole(plan)) is not None:
        raise PlanError(f"{why}: it needs the whole stream\n  hint: use sq.run")


def refuse_resuming(plan: Plan) -> None:
    """Raise a `PlanError` for what the events of a window do not tell."""
    if plan.matches.skip is not None:
        raise PlanError("SKIP leaves out matches by all that end before them, which the events of a window do not tell")


class Skipping:
    """What the matches that were taken forbid to those behind them: to begin before a row of their partition, or with a row again.

    Rows are known by numbers that ascend with the stream, wherever a match is looked at.
    """

    def __init__(self, plan: MatchPlan) -> None:
        assert plan.skip is not None
        self._plan, self._skip = plan, plan.skip
        self._keys = KeyCodes(plan.partition_by, has_values=False)
        self._bounds = np.full(1, LOWEST)  # of every partition the first row that may begin a match, and some to grow
        self._begun = np.empty(0, np.int64)  # with TO NEXT, the rows that began one

    def __len__(self) -> int:
        """How many partitions, or rows, are remembered."""
        return len(self._keys) + len(self._begun)

    def remaining(self, pieces: Iterator[Instances], events: Events, numbers: Ints, budget: Budget) -> Instances:
        """The matches that remain of those that end next, in the order in which they end; `numbers` are those of the events."""
        held: list[Instances] = []
        n_held, n_allowed = 0, HELD
        for piece in pieces:
            budget.hold(piece.n_bytes)
            held.append(piece.copy())
            n_held += len(piece)
            if n_held > n_allowed:
                before = sum(each.n_bytes for each in held)
                held = [self._with_a_chance(self._in_order(held), numbers)]
                budget.hold(held[0].n_bytes - before)
                n_held = len(held[0])
                n_allowed = max(HELD, 2 * n_held)
        found = self._in_order(held)
        starts = numbers[found.first_rows]
        if self._skip.to == "TO NEXT":
            begun, firsts = np.unique(starts, return_index=True)
            taken = np.sort(firsts[np.isin(begun, self._begun, invert=True)])
            self._begun = np.union1d(self._begun, begun)
            return found.select(taken)
        groups = self._partitions(events, found.last_rows)
        return found.select(_taken(groups, starts, self._drops_before(found, numbers), self._bounds))

    def _in_order(self, pieces: list[Instances]) -> Instances:
        """Matches in the order in which they end; then by their events."""
        found = gather(pieces, self._plan.variables, list_variables(self._plan.pattern))
        keys = [found.last_rows, found.first_rows]
        keys += [rows for name in self._plan.variables for rows in in_columns(found.rows[name])]
        return found.select(np.lexsort(keys[::-1]))

    def _with_a_chance(self, found: Instances, numbers: Ints) -> Instances:
        """Matches in their order without those that are dropped in any case, by one before with the same start."""
        drops = np.ones(len(found), np.bool_)
        if self._skip.to != "TO NEXT":
            drops = self._drops_before(found, numbers) > numbers[found.first_rows]
        return found.select(_up_to_the_first(found.first_rows, drops, np.zeros(len(numbers), np.bool_)))

    def _drops_before(self, found: Instances, numbers: Ints) -> Ints:
        """The row before which none begins any more once a match is taken."""
        if self._skip.variable is None:
            return numbers[found.last_rows] + 1
        column = found.rows[self._skip.variable]
        rows = (first_rows if self._skip.to == "TO FIRST" else last_rows)(column)
        return np.where(rows < 0, LOWEST, numbers[rows]) if len(numbers) else rows

    def _partitions(self, events: Events, rows: Ints) -> Ints:
        names = self._keys.names
        if not names:
            return np.zeros(len(rows), np.int64)
        chosen = pa.array(rows)
        codes = self._keys.code([events.column(name).take(chosen) for name in names])
        more = len(self._keys) - len(self._bounds)
        if more > 0:
            self._bounds = np.concatenate((self._bounds, np.full(len(self._bounds) + more, LOWEST)))
        return codes

    # ------------------------------------------------------------ as a mark on each event that is kept

    def marks(self, events: Events, first: int) -> Mask:
        """Which of these events, numbered from `first` on, can begin no match any more."""
        numbers = first + np.arange(len(events))
        if self._skip.to == "TO NEXT":
            return np.isin(numbers, self._begun)
        codes = self._partitions(events, np.arange(len(events)))
        return (codes >= 0) & (numbers < self._bounds[codes])

    def marked(self, events: Events, first: int, marks: Mask) -> Skipping:
        """The same for events whose marks these are: nothing is remembered of others."""
        anew = Skipping(self._plan)
        rows = np.flatnonzero(marks)
        if self._skip.to == "TO NEXT":
            anew._begun = first + rows
        else:
            codes = anew._partitions(events, rows)
            np.maximum.at(anew._bounds, codes, first + rows + 1)
        return anew


@dataclass(frozen=True, slots=True)
class Settled:
    """Where matches of a window are found again and again: what was settled about those that ended before, as marks on events.

    A match that ends at an event of `ends` is over: which of these were taken shows in `begun`, the events that begin no match
    any more. The marks are those of the first events at hand; the others have none.
    """

    ends: Mask
    begun: Mask

    @staticmethod
    def nothing() -> Settled:
        return Settled(np.zeros(0, np.bool_), np.zeros(0, np.bool_))

    def over(self, size: int) -> Settled:
        """The marks of so many events."""
        more = np.zeros(max(0, size - len(self.ends)), np.bool_)
        return Settled(np.append(self.ends[:size], more), np.append(self.begun[:size], more))

    def take(self, rows: Ints) -> Settled:
        return Settled(self.ends[rows], self.begun[rows])

    def remaining(self, plan: MatchPlan, pieces: Iterator[Instances], events: Events, budget: Budget) -> Instances:
        """The matches that remain of those that are not over."""
        return self._skip(plan, events, pieces, np.zeros(len(events), np.bool_), budget)[1]

    def settle(self, plan: MatchPlan, pieces: Iterator[Instances], events: Events, ends: Mask, budget: Budget) -> Settled:
        """What is known when all matches that end at `ends` are over, too."""
        skipping, _ = self._skip(plan, events, pieces, ~ends, budget)
        return Settled(ends, skipping.marks(events, 0))

    def _skip(
        self, plan: MatchPlan, events: Events, pieces: Iterator[Instances], leave: Mask, budget: Budget
    ) -> tuple[Skipping, Instances]:
        """Go through the matches that are not over, but for those that end where they are left for later."""
        marks = self.over(len(events))
        skipping, asked = Skipping(plan).marked(events, 0, marks.begun), ~(marks.ends | leave)
        chosen = (piece.select(asked[piece.last_rows]) for piece in pieces)
        return skipping, skipping.remaining(chosen, events, np.arange(len(events)), budget)


@kernel
def _taken(groups: Ints, starts: Ints, bounds: Ints, bound_of: Ints) -> Mask:
    """Which matches are taken: those that begin at or after the bound of their group, which grows with each of them."""
    taken = np.zeros(len(starts), np.bool_)
    for k in range(len(starts)):
        if starts[k] >= bound_of[groups[k]]:
            taken[k] = True
            bound_of[groups[k]] = max(bound_of[groups[k]], bounds[k])
    return taken


@kernel
def _up_to_the_first(starts: Ints, drops: Mask, is_over: Mask) -> Mask:
    """Of the matches with each start those up to the first that drops it."""
    has_a_chance = np.zeros(len(starts), np.bool_)
    for k in range(len(starts)):
        if not is_over[starts[k]]:
            has_a_chance[k] = True
            is_over[starts[k]] = drops[k]
    return has_a_chance
