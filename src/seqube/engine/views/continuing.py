"""Nested evaluation over a stream that never stops: the views are what is remembered, and go on from step to step.

New events become positions behind those that are there (`loading`), each trigger among them is evaluated once, and what the views
were complete for before they are complete for still. Matches that must wait for a trailing negation lie aside until the window that
began with them is over, and are checked then.

When there is no room for more positions, those that fell out of the window go: the others are numbered from 0 on again, in the
program and in the views alike. So it is with the values that a view is divided by.

The loops compare 64-bit integers, which an event keeps for as long as it is there; what has none is `Unsteady`, and the window is
evaluated anew at every step instead.

Cost of a step: the new events, a pass for each value that is tested, and what the strategy computes for the new triggers: a matter
of the papers, not of the window. Moving up is amortised. Memory: positions of at most about two windows, and the views.
Invariant: position i is row `base + i` of what is kept; triggers are evaluated once, when all events of their time are there.

    Paper (sliding views)            | Here
    continuous sliding view          | `Loops.store`, which stays
    A-CSV, P-CSV, B-CSV              | the modes of `program`, event by event
    purge                            | `intervals._collect`, and `move_up`
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from seqube.engine.bindings import UNBOUND
from seqube.engine.limits import Budget
from seqube.engine.partitions import KeyCodes
from seqube.engine.predicates import NULL, Evaluator, Ints, Unsteady, compared, steady
from seqube.engine.sequence import LOWEST
from seqube.engine.views.intervals import forget_before
from seqube.engine.views.iterative import PIECE, Loops, check_matches, find_matches
from seqube.engine.views.loading import Positions
from seqube.engine.views.program import FIRST, MEMBERS, Store
from seqube.engine.views.tables import Tables, TestColumn
from seqube.events import Events
from seqube.events.schema import is_text
from seqube.plan.needs import needs_of
from seqube.plan.physical import MatchPlan

_LEAST = 1 << 10  # positions that there is room for at least
_FEW = 16  # values of a divided view that there is room for at least
_NOTHING = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class NewPositions:
    """Events of the plan's types as the loops need them: reading them can fail, going on with them cannot."""

    times: Ints
    rows: list[Ints]  # per variable
    values: list[Ints]  # per column, at its variable's rows
    codes: list[Ints]  # per divided view, at its variable's rows


class LiveViews:
    """A nested plan that goes on. `none` tells what events look like."""

    def __init__(self, plan: MatchPlan, none: Events, base: int = 0) -> None:
        self.tables = Tables(plan)
        self._width = len(plan.variables) + MEMBERS
        self._waits = plan.waits
        self._window = needs_of(plan, none.unit).window
        self._values = _Values(self.tables, none)
        self._known = [KeyCodes([divided.name]) for divided in self.tables.divided]
        self._n_values = [_FEW] * len(self._known)
        self.loops = Loops(self.tables.work(self._n_values))
        self._positions = self._new_positions(_LEAST)
        self._base = base  # the row that position 0 stands for
        self._n_done = 0  # positions before this one were evaluated as triggers
        self._floor = LOWEST  # what has this clock or an earlier one matters to nobody
        self._waiting = np.empty((0, self._width), np.int64)  # matches whose window is not over, by their first position

    def _new_positions(self, room: int) -> Positions:
        positions = Positions(self.tables, room, self._window, self._n_values)
        for number, fixed in enumerate(self._values.fixed):
            positions.values(number)[-1] = fixed
        return positions

    @property
    def n_bytes(self) -> int:
        return sum(array.nbytes for array in (*self.loops.store, self._positions.program, self._positions.clocks, self._waiting))

    # ------------------------------------------------------------ new events

    def read(self, events: Events) -> NewPositions:
        """What the loops need of new events, which are all of the plan's types."""
        evaluator = Evaluator(events)
        rows = []
        for scan in self.tables.scans:
            own = events.rows_of(scan.types)
            if scan.filters:
                own = own[evaluator.true(scan.filters, {scan.variable: own}, len(own))]
            rows.append(own)
        of = {scan.variable: own for scan, own in zip(self.tables.scans, rows, strict=True)}
        values = [
            _NOTHING if column.name is None else self._values.read(number, column, evaluator, of[column.name])
            for number, column in enumerate(self.tables.columns)
        ]
        codes = []
        for divided, known in zip(self.tables.divided, self._known, strict=True):
            own = of[divided.name]
            codes.append(known.code([evaluator.array(divided.value, {divided.name: own}, len(own))]))
        return NewPositions(events.times, rows, values, codes)

    def append(self, new: NewPositions, clocks: Ints) -> None:
        """Events come behind those that are there, and after all of them."""
        n_new = len(new.times)
        has_values = all(len(known) <= room for known, room in zip(self._known, self._n_values, strict=True))
        new_codes = new.codes
        if self._positions.n + n_new > self._positions.room or not has_values:
            new_codes = self.move_up(n_new, new_codes)
        positions, n = self._positions, self._positions.n
        positions.add(new.times, clocks, np.zeros(n_new, np.int64))
        for variable, rows in enumerate(new.rows):
            positions.add_rows(variable, n + rows)
        for number, (column, values) in enumerate(zip(self.tables.columns, new.values, strict=True)):
            if column.name is not None:
                positions.values(number)[n + new.rows[self.tables.number[column.name]]] = values
        for number, (divided, codes) in enumerate(zip(self.tables.divided, new_codes, strict=True)):
            positions.codes(number)[n + new.rows[self.tables.number[divided.name]]] = codes

    # ------------------------------------------------------------ matches

    def matches(self, due: int, budget: Budget) -> Iterator[Ints]:
        """The rows of the matches that are final: first, last, and one per variable (-1: not bound), a match in each column.

        Where matches wait, those that begin up to the clock `due`; else those that end with a new event.
        """
        positions, tables = self._positions, self.tables
        triggers = np.concatenate([own[np.searchsorted(own, self._n_done) :] for own in map(positions.rows, tables.last)])
        triggers = np.unique(triggers)
        self._n_done = positions.n

        def find(store: Store, begin: int, end: int) -> int:
            return find_matches(positions.program, *store, triggers[:end], begin, PIECE, not self._waits)

        found = self.loops.run(find, len(triggers), self._width, budget)
        yield from map(self._rows, self._due(list(found), due, budget) if self._waits else found)

    def _due(self, found: list[Ints], due: int, budget: Budget) -> Iterator[Ints]:
        """Put matches aside, and give those whose window is over and that no negation cancels."""
        positions = self._positions
        waiting = np.concatenate([self._waiting, *found])
        if found:
            waiting = waiting[np.argsort(waiting[:, FIRST], kind="stable")]
        n_due = int(np.searchsorted(positions.clocks[waiting[:, FIRST]], due, "right"))
        ready, self._waiting = waiting[:n_due], waiting[n_due:]

        def check(store: Store, begin: int, end: int) -> int:
            return check_matches(positions.program, *store, ready[:end], begin, PIECE)

        return self.loops.run(check, n_due, self._width, budget)

    def _rows(self, records: Ints) -> Ints:
        return np.where(records < 0, UNBOUND, records + self._base).T

    def catch_up(self, due: int, budget: Budget) -> None:
        """What is there was gone through before, and what was due is out; matches that still wait are found again."""
        if not self._waits:
            self._n_done = self._positions.n
            return
        for _ in self.matches(LOWEST, budget):
            pass
        firsts = self._positions.clocks[self._waiting[:, FIRST]]
        self._waiting = self._waiting[np.searchsorted(firsts, due, "right") :]

    @property
    def next_due(self) -> list[int]:
        """The clock of the first match that waits, if there is one."""
        return [int(clock) for clock in self._positions.clocks[self._waiting[:1, FIRST]]]

    # ------------------------------------------------------------ forgetting

    def drop(self, upto: int) -> None:
        """What has this clock or an earlier one will matter to nobody; its room is used when there is no other left."""
        self._floor = upto

    def move_up(self, n_new: int, new_codes: list[Ints]) -> list[Ints]:
        """Room for new positions and new values: those out of the window go, the others are numbered anew. The new codes, then."""
        old, old_values = self._positions, self._n_values
        n = old.n
        shift = min(int(np.searchsorted(old.clocks[:n], self._floor, "right")), self._n_done)
        forget_before(*self.loops.store[:1], *self.loops.store[2:], shift)
        used = [np.concatenate((old.codes(number)[shift:n], codes)) for number, codes in enumerate(new_codes)]
        renumbered = [_forget_values(known, codes[codes >= 0]) for known, codes in zip(self._known, used, strict=True)]
        self._n_values = [2 * len(known) + _FEW for known in self._known]
        work = self.tables.moved(self.loops.store.work, old_values, self._n_values, renumbered)
        self.loops.store = self.loops.store._replace(work=work)
        self._positions = self._new_positions(max(_LEAST, 2 * (n - shift + n_new)))
        self._positions.take_over(old, shift)
        for number, codes in enumerate(renumbered):
            target = self._positions.codes(number)[: n - shift]
            target[:] = np.append(codes, -1)[target]  # null stays -1
        self._waiting = np.where(self._waiting >= 0, self._waiting - shift, self._waiting)
        self._base += shift
        self._n_done -= shift
        return [np.append(new, -1)[codes] for codes, new in zip(new_codes, renumbered, strict=True)]


def _forget_values(known: KeyCodes, used: Ints) -> Ints:
    """The new code of every old one, where more than about half of the values are not used any more."""
    used = np.unique(used)
    return known.keep(used) if len(known) > 2 * len(used) + _LEAST else np.arange(len(known))


class _Values:
    """How the values of each column become integers that stay; `fixed` is its constant, or its value where nothing is bound."""

    def __init__(self, tables: Tables, none: Events) -> None:
        evaluator = Evaluator(none)
        columns = tables.columns
        kinds = [None if column.truth is not None else self._type_of(column, evaluator) for column in columns]
        self._how = []
        self._texts: dict[int, KeyCodes] = {}  # by test
        for column in columns:
            alike = [kind for other, kind in zip(columns, kinds, strict=True) if other.test == column.test and kind is not None]
            self._how.append(compared(alike, column.op) if alike else "truth")
            if self._how[-1] == "text":
                self._texts[column.test] = KeyCodes(["text"])
        unbound = np.array([UNBOUND])
        self.fixed = [int(self.read(number, column, evaluator, unbound)[0]) for number, column in enumerate(columns)]

    def _type_of(self, column: TestColumn, evaluator: Evaluator) -> pa.DataType:
        assert column.value is not None
        if column.name is None:
            return evaluator.value(column.value, {}).type
        return evaluator.array(column.value, {column.name: _NOTHING}, 0).type

    def read(self, number: int, column: TestColumn, evaluator: Evaluator, rows: Ints) -> Ints:
        bindings = {} if column.name is None else {column.name: rows}
        if column.truth is not None:
            return np.where(evaluator.true([column.truth], bindings, len(rows)), 1, NULL)
        assert column.value is not None
        if column.name is None:
            found = pa.repeat(evaluator.value(column.value, {}), 1)
        else:
            found = evaluator.array(column.value, bindings, len(rows))
        if self._how[number] == "text":
            if not (is_text(found.type) or pat.is_null(found.type)):
                raise Unsteady
            codes = self._texts[column.test].code([found])
            return np.where(codes < 0, NULL, codes)
        return steady(found, self._how[number])
