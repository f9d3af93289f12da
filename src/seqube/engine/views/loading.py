"""Events become positions of a program: where they stand in time, which variables they are of, and the values that tests compare.

A program has room for so many positions, and events are loaded behind those that are there: all of a batch at once, or those of a
stream as they come. `Positions` is what is written; where the integers come from that tests compare is a matter of who loads.

Cost: a pass over the new events per variable and per value that is tested. Invariant: all events of one time are loaded at once.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from seqube.engine.bindings import UNBOUND
from seqube.engine.instances import Batch
from seqube.engine.jit import kernel, kernel_part
from seqube.engine.predicates import NULL, Evaluator, Ints, code_columns, rank
from seqube.engine.sequence import LOWEST
from seqube.engine.views.program import (
    AFTERS,
    BEGINS,
    CODES,
    HORIZONS,
    N_POSITIONS,
    NO_LIMIT,
    OLDEST,
    ROW_BEGINS,
    ROW_ENDS,
    VALUES,
    flattened,
    part_of,
)
from seqube.engine.views.tables import Tables, TestColumn


@kernel_part
def _is_window_apart(earlier: int, later: int, window: int) -> bool:
    """Whether a window lies between two clocks; their difference may be more than 64 bits hold."""
    return later >= LOWEST + window and earlier <= later - window


@kernel
def _mark(
    begins: Ints,
    afters: Ints,
    oldest: Ints,
    horizons: Ints,
    clocks: Ints,
    n: int,
    times: Ints,
    partitions: Ints,
    window: int,
    pointers: Ints,
) -> None:
    """Mark new positions from n on: the first of its time, the first later one, the first in the window that ends here.

    And, for those before whose window is over now, the first behind it. `pointers` has the begin of the present window, and the
    first position whose window is not over.
    """
    old, far = pointers[0], pointers[1]
    begin = n
    for j in range(len(times)):
        i = n + j
        is_other = j > 0 and partitions[j] != partitions[j - 1]
        if is_other:
            for k in range(far, i):
                horizons[k] = i
            old, far = i, i
        if is_other or (j > 0 and times[j] != times[j - 1]):
            for k in range(begin, i):
                afters[k] = i
            begin = i
        begins[i] = begin
        while _is_window_apart(clocks[old], clocks[i], window):
            old += 1
        oldest[i] = old
        while far < i and _is_window_apart(clocks[far], clocks[i], window):
            horizons[far] = i
            far += 1
        horizons[i] = NO_LIMIT
    for k in range(begin, n + len(times)):
        afters[k] = n + len(times)
    pointers[0], pointers[1] = old, far


class Positions:
    """A program, and the positions loaded into it."""

    def __init__(self, tables: Tables, room: int, window: int, n_values: Sequence[int]) -> None:
        self._tables, self.room, self._window = tables, room, window
        self.program = flattened(tables.program(room, n_values))
        self._bases, _ = tables.value_bases(room)
        self.clocks = np.empty(room, np.int64)
        self.pointers = np.zeros(2, np.int64)

    @property
    def n(self) -> int:
        return int(self.program[N_POSITIONS])

    def add(self, times: Ints, clocks: Ints, partitions: Ints) -> None:
        """New positions, by partition and time."""
        p, n, n_new = self.program, self.n, len(times)
        self.clocks[n : n + n_new] = clocks
        begins, afters, oldest, horizons = (part_of(p, table, self.room) for table in (BEGINS, AFTERS, OLDEST, HORIZONS))
        _mark(begins, afters, oldest, horizons, self.clocks, n, times, partitions, self._window, self.pointers)
        p[N_POSITIONS] = n + n_new

    def take_over(self, old: Positions, shift: int) -> None:
        """All positions of another one but the first so many, which are those of the same tables with other room."""
        n = old.n - shift
        for table in (BEGINS, AFTERS, OLDEST, HORIZONS):
            marks = part_of(old.program, table, old.n)[shift:]
            part_of(self.program, table, n)[:] = np.where(marks == NO_LIMIT, NO_LIMIT, np.maximum(marks - shift, 0))
        self.clocks[:n] = old.clocks[shift : old.n]
        self.pointers[:] = np.maximum(old.pointers - shift, 0)
        for variable in range(len(self._tables.scans)):
            rows = old.rows(variable)
            self.add_rows(variable, rows[np.searchsorted(rows, shift) :] - shift)
        for number, column in enumerate(self._tables.columns):
            if column.name is not None:
                self.values(number)[:n] = old.values(number)[shift : old.n]
        for number in range(len(self._tables.divided)):
            self.codes(number)[:n] = old.codes(number)[shift : old.n]
        self.program[N_POSITIONS] = n

    def add_rows(self, variable: int, positions: Ints) -> None:
        """The positions of a variable's new events, which ascend."""
        ends = part_of(self.program, ROW_ENDS, len(self._tables.scans))
        self.program[ends[variable] : ends[variable] + len(positions)] = positions
        ends[variable] += len(positions)

    def values(self, column: int) -> Ints:
        """The values of a column: one for each position there is room for, then that of "not bound"; or the constant."""
        size = 1 if self._tables.columns[column].name is None else self.room + 1
        return part_of(self.program, VALUES, size, int(self._bases[column]))

    def codes(self, divided: int) -> Ints:
        """The outer values that a view is divided by, as codes, in the same way."""
        return part_of(self.program, CODES, self.room + 1, divided * (self.room + 1))

    def rows(self, variable: int) -> Ints:
        """The positions of a variable's events."""
        at = (int(part_of(self.program, table, len(self._tables.scans))[variable]) for table in (ROW_BEGINS, ROW_ENDS))
        return self.program[slice(*at)]


class LoadedBatch:
    """A batch as positions; `order` are the rows that they stand for."""

    def __init__(self, tables: Tables, batch: Batch, evaluator: Evaluator, types: frozenset[str]) -> None:
        self._tables, self._evaluator = tables, evaluator
        rows = batch.events.rows_of(types)
        parts = np.zeros(len(rows), np.int64)
        if batch.partitions is not None:
            rows = rows[batch.partitions[rows] >= 0]
            rows = rows[np.argsort(batch.partitions[rows], kind="stable")]
            parts = batch.partitions[rows]
        self.order = rows
        position = np.full(len(batch.events) + 1, -1, np.int64)
        position[rows] = np.arange(len(rows))
        self._rows: dict[str, Ints] = {}
        places: dict[str, Ints] = {}
        for scan in tables.scans:
            own = batch.scan(scan, evaluator)
            if batch.partitions is not None:
                own = own[np.argsort(position[own], kind="stable")]
            self._rows[scan.variable], places[scan.variable] = np.append(own, UNBOUND), position[own]
        codes = [self._codes(divided.value, divided.name) for divided in tables.divided]
        self.n_values = [max(1, int(code.max(initial=0)) + 1) for code in codes]
        self.positions = Positions(tables, len(rows), batch.window, self.n_values)
        self.positions.add(batch.events.times[rows], batch.clocks[rows], parts)
        for variable, scan in enumerate(tables.scans):
            self.positions.add_rows(variable, places[scan.variable])
        for number, column in enumerate(tables.columns):
            if column.test != (tables.columns[number - 1].test if number else -1):
                self._load_test(number, [other for other in tables.columns[number:] if other.test == column.test], places)
        for number, (divided, code) in enumerate(zip(tables.divided, codes, strict=True)):
            self._spread(self.positions.codes(number), places[divided.name], code)

    def _codes(self, value: object, name: str) -> Ints:
        rows = self._rows[name]
        return code_columns([[self._evaluator.array(value, {name: rows}, len(rows))]])[0][0]  # type: ignore[arg-type]

    def _load_test(self, first: int, columns: list[TestColumn], places: dict[str, Ints]) -> None:
        """Values of one test as integers that compare like them: ranked together."""
        found = [self._column(column) for column in columns]
        ranks = found if columns[0].truth is not None else rank(found, self._evaluator)
        for number, (column, values) in enumerate(zip(columns, ranks, strict=True), start=first):
            target = self.positions.values(number)
            if column.name is None:
                target[:] = values
            else:
                self._spread(target, places[column.name], values)

    def _column(self, column: TestColumn) -> pa.Array | pa.Scalar | Ints:
        rows = np.array([UNBOUND]) if column.name is None else self._rows[column.name]
        bindings = {} if column.name is None else {column.name: rows}
        if column.truth is not None:
            return np.where(self._evaluator.true([column.truth], bindings, len(rows)), 1, NULL)
        assert column.value is not None
        if column.name is None:
            return self._evaluator.value(column.value, {})
        return self._evaluator.array(column.value, bindings, len(rows))

    @staticmethod
    def _spread(target: Ints, places: Ints, values: Ints) -> None:
        """Values at the events of a variable, and where it is not bound, as values at positions."""
        target[places], target[-1] = values[:-1], values[-1]
