"""A MATCH_RECOGNIZE clause over a table: rows in order, conditions, matches, and the rows of the result.

Cost: putting the rows in order where they are not, a pass for each condition, the matching (`automaton`, `asking`), and the rows of
the matches for each measure. Invariant: partitions are independent of each other, so any set of whole partitions may be
matched alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import ceil

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from seqube.engine.bindings import ranges
from seqube.engine.jit import kernel
from seqube.engine.limits import LIMITS, Budget, Limits
from seqube.engine.predicates import NULL, Evaluator, Ints, Mask, rank, take
from seqube.engine.rows.asking import ANSWER, CONDITION, DEPTH, MATCH_NUMBER, STATE_WORDS, room_for, search_asking
from seqube.engine.rows.automaton import (
    AT_ROW,
    N_MATCHES,
    N_PATH,
    NO_ROOM,
    NO_TARGET,
    PAST_LAST,
    SAME_ROW,
    SEARCHED,
    TO_FIRST,
    TO_LAST,
    TO_NEXT,
    TOO_LONG,
    PartitionedRows,
    Search,
    search_linear,
    tables_of,
)
from seqube.engine.rows.conditions import compile_conditions
from seqube.engine.rows.framing import Framing, Paths, Places, PlainColumns, RowValues, columns_asked, comparable, evaluate_columns
from seqube.errors import DataError, Problem
from seqube.events.sources import plain_columns
from seqube.language.rows.tree import Expression, Navigation
from seqube.language.tree import Predicate, Value
from seqube.plan.rows import RowPlan
from seqube.threads import n_pieces, spread

_SKIPS = {"PAST LAST": PAST_LAST, "NEXT": TO_NEXT, "FIRST": TO_FIRST, "LAST": TO_LAST}
_FAR = np.iinfo(np.int64).max
_FARTHEST = 2**64 - 1  # from one whole number to another
_SIGN = np.uint64(1 << 63)


def match_rows(
    plan: RowPlan, table: pa.Table, limits: Limits = LIMITS, threads: int = 1, ties_by: Sequence[str] | None = None
) -> pa.Table:
    """The rows that a clause gives over a table; several threads share its partitions.

    Rows that ORDER BY leaves in a tie are taken as they come, or in the order of the columns `ties_by`, whose types Arrow sorts.
    """
    needed, budget = needed_columns(plan), limits.budget("clause")
    whole = plain_columns(table.select(list(dict.fromkeys((*needed, *(ties_by or ()))))))
    table = whole.select(needed)
    order, bounds = _in_order(plan, table, None if ties_by is None else whole.select(ties_by))
    if order is not None:
        table = plain_columns(table.take(pa.array(order)))

    def columns_of(part: Ints) -> dict[str, pa.Array]:
        return _Matching(plan, plain_columns(table.slice(part[0], part[-1] - part[0])), part - part[0], budget).columns()

    found = spread(columns_of, _parts(bounds, threads), threads)
    if len({tuple(column.type for column in columns.values()) for columns in found}) > 1:
        return match_rows(plan, table, limits)  # what type a column has depends on all its values
    return pa.table({name: _settled(pa.concat_arrays([columns[name] for columns in found])) for name in found[0]})


def _parts(bounds: Ints, threads: int) -> list[Ints]:
    """Partitions in as many parts as are worth it, about as long as each other: the bounds of those of each."""
    n = n_pieces(int(bounds[-1]), threads)
    marks = np.searchsorted(bounds, np.arange(1, n) * bounds[-1] // n)
    cuts = np.unique([0, *marks, len(bounds) - 1])
    return [bounds[low : high + 1] for low, high in pairwise(cuts)] or [bounds]


def needed_columns(plan: RowPlan) -> tuple[str, ...]:
    """The columns that a clause needs of its table, in the table's order."""
    clause = plan.clause
    expressions = [expression for _, expression in (*clause.measures, *clause.definitions)]
    needed = {*columns_asked(expressions), *clause.output, *clause.partition_by, *(each.column for each in clause.order_by)}
    return tuple(name for name in clause.columns if name in needed)


@dataclass(frozen=True)
class _Found:
    """Matches: where each starts, and the positions of its rows."""

    starts: Ints
    offsets: Ints
    path: Ints


class _Matching:
    """A clause over rows that are in order, partition behind partition."""

    def __init__(self, plan: RowPlan, table: pa.Table, bounds: Ints, budget: Budget) -> None:
        self.plan, self.clause, self.budget = plan, plan.clause, budget
        self.table, self.bounds = table, bounds
        self.values = RowValues(self.table)
        self._columns: dict[tuple[Value, int], pa.Array] = {}
        self.variable_of = np.array(plan.variable_of, np.int64)

    @property
    def n_rows(self) -> int:
        return int(self.table.num_rows)

    # ------------------------------------------------------------ conditions

    def _beside(self, column: pa.Array, physical: int) -> pa.Array:
        """Of every row the value so many rows on, null where the partition has no such row."""
        size, far = self.n_rows, min(abs(physical), self.n_rows)
        outside = pa.nulls(far, column.type)
        parts = [outside, column.slice(0, size - far)] if physical < 0 else [column.slice(far), outside]
        moved = pa.concat_arrays(parts)
        inner = self.bounds[1:-1]  # where one partition ends and the next begins
        if not len(inner):
            return moved
        sizes = np.minimum(np.diff(self.bounds)[1:] if physical < 0 else np.diff(self.bounds)[:-1], far)
        edges = ranges(inner if physical < 0 else inner - sizes, sizes)
        known = np.ones(size, np.bool_)
        known[edges] = False
        return pc.if_else(pa.array(known), moved, pa.scalar(None, moved.type))

    def _column(self, value: Value, physical: int) -> pa.Array:
        """A value of every row, or of the one so many rows on."""
        if (value, physical) not in self._columns:
            column = self.values.of(value)
            self._columns[value, physical] = self._beside(column, physical) if physical else column
        return self._columns[value, physical]

    def _truth(self, expressions: Sequence[Expression]) -> npt.NDArray[np.uint8]:
        """Where conditions of a row and those beside it hold."""
        truth = np.ones(self.n_rows, np.uint8)
        for expression in expressions:
            columns = {}
            for name, frame in expression.frames:
                assert isinstance(frame, Navigation)
                assert frame.value is not None
                columns[name] = self._column(frame.value, frame.physical)
            assert isinstance(expression.root, Predicate)
            found = evaluate_columns(expression.root, columns, self.n_rows)
            truth &= np.asarray(found.cast(pa.bool_()).fill_null(False)).view(np.uint8)
        return truth

    @cached_property
    def rows(self) -> PartitionedRows:
        truth = [self._truth(condition.columns) for condition in self.plan.conditions if condition.columns]
        stacked = np.stack(truth) if truth else np.ones((0, self.n_rows), np.uint8)
        return PartitionedRows(self.bounds, stacked, self._limits())

    def _limits(self) -> Ints:
        """With WITHIN, for each row the first of its partition that is too far away for one match."""
        length = self.clause.within
        if length is None:
            return np.empty(0, np.int64)
        first = self.clause.order_by[0]
        column = comparable(self.table.column(first.column).chunk(0))
        if column.null_count:
            raise DataError(
                f"WITHIN measures along {first.column!r}, which is null in some rows\n  hint: leave these rows out in a sub-query"
            )
        clock = column.cast(pa.int64()) if pa.types.is_temporal(column.type) else column
        values = np.asarray(clock.cast(pa.float64())) if pa.types.is_decimal(clock.type) else np.asarray(clock)
        if values.dtype.kind not in "iu":
            return reach_of(self.bounds, -values if first.descending else values, float(length))
        # Whole numbers are counted from the lowest or the highest there is: no distance leaves 64 bits then.
        places = values.astype(np.uint64) if values.dtype.kind == "u" else values.astype(np.int64).view(np.uint64) ^ _SIGN
        if length > _FARTHEST:
            return np.repeat(self.bounds[1:], np.diff(self.bounds))
        return reach_of(self.bounds, ~places if first.descending else places, np.uint64(ceil(length)))

    # ------------------------------------------------------------ matches

    def _find(self) -> _Found:
        plan, n_rows = self.plan, self.n_rows
        longest = int(np.diff(self.bounds).max(initial=0))
        timed = self.clause.within is not None
        words = plan.end // 64 + 1
        self.budget.need(longest * (plan.end if timed else words) * 8)
        bits = np.empty((0 if timed else longest + 1, words), np.uint64)
        reach = np.empty((longest + 1 if timed else 0, max(1, plan.end)), np.int64)
        state = np.zeros(STATE_WORDS, np.int64)
        state[[DEPTH, ANSWER]] = -1
        capacity = n_rows // 4 + 64
        search = Search(
            state, np.empty(capacity, np.int64), np.zeros(capacity + 1, np.int64), np.empty(n_rows + 64, np.int64), bits, reach
        )
        skip = self.clause.skip
        target = np.array([name in skip.variables for name in self.clause.variables] or [False], np.uint8)
        tables = tables_of(plan)
        if plan.asks:
            programs, asked = compile_conditions(plan, self.values)
            bound, choices = room_for(programs, longest, self.budget)
        with self.budget.bell() as bell:
            while True:
                if plan.asks:
                    current = search
                    found = search_asking(
                        tables, self.rows, search, _SKIPS[skip.to], target, programs, bound, choices, bell,
                        lambda: self._answer(current, asked),  # noqa: B023 - it is called before the next round
                    )  # fmt: skip
                else:
                    found = search_linear(tables, self.rows, search, _SKIPS[skip.to], target, bell)
                if found != NO_ROOM:
                    break
                search = self._grown(search)
        if found == TOO_LONG:
            self.budget.check()
        if found != SEARCHED:
            self._fail_skip(found, int(state[AT_ROW]))
        n_matches, n_path = int(state[N_MATCHES]), int(state[N_PATH])
        self.budget.find(n_matches)
        return _Found(search.starts[:n_matches], search.offsets[: n_matches + 1], search.path[:n_path])

    def _grown(self, search: Search) -> Search:
        """The same search with more room."""
        self.budget.need(2 * (search.starts.nbytes + search.offsets.nbytes + search.path.nbytes))

        def larger(array: Ints) -> Ints:
            return np.concatenate((array, np.zeros(len(array), np.int64)))

        is_path_full = search.state[N_MATCHES] < len(search.starts)
        if is_path_full:
            return search._replace(path=larger(search.path))
        return search._replace(starts=larger(search.starts), offsets=larger(search.offsets))

    def _answer(self, search: Search, asked: list[Expression]) -> bool:
        """A condition that the machine cannot tell, of the rows that are bound with the one that is tried."""
        state = search.state
        start, length, base = int(state[AT_ROW]), int(state[DEPTH]) + 1, int(state[N_PATH])
        place = np.searchsorted(self.bounds, start, "right") - 1
        paths = Paths(
            np.array([0, length]),
            np.array([start]),
            self.variable_of[search.path[base : base + length]],
            np.array([state[MATCH_NUMBER]]),
            self.bounds[[place]],
            self.bounds[[place + 1]],
        )
        places = Places(np.zeros(1, np.int64), np.array([length - 1]))
        framing = Framing(self.values, self.clause.variables, paths, self.budget)
        self.budget.check()
        return framing.column(asked[int(state[CONDITION])], places)[0].as_py() is True

    def _fail_skip(self, found: int, start: int) -> None:
        skip = self.clause.skip
        to = f"AFTER MATCH SKIP TO {skip.to} {skip.name}"
        where = ", ".join(
            f"{name} = {self.table.column(name)[start].as_py()!s}"
            for name in dict.fromkeys((*self.clause.partition_by, *(each.column for each in self.clause.order_by)))
        )
        wrong = {
            NO_TARGET: f"{to}: a match has no row of {skip.name}",
            SAME_ROW: f"{to}: it leads back to the first row of the match, which would be found again without end",
        }[found]
        hint = "skip to a variable that every match has behind its first row, or write AFTER MATCH SKIP TO NEXT ROW"
        raise DataError(
            Problem(f"{wrong} (the match that starts at {where or f'row {start}'})", skip.at, hint).show(self.clause.source)
        )

    # ------------------------------------------------------------ the result

    def columns(self) -> dict[str, pa.Array]:
        clause, found = self.clause, self._find()
        partition = np.searchsorted(self.bounds, found.starts, "right") - 1
        lengths = np.diff(found.offsets)
        paths = Paths(
            found.offsets,
            found.starts,
            self.variable_of[found.path] if len(found.path) else found.path,
            np.arange(len(found.starts)) - np.searchsorted(partition, partition, "left") + 1,
            self.bounds[partition],
            self.bounds[partition + 1],
        )
        places, shown_rows = self._one(found, lengths) if clause.shown == "one" else self._all(found, lengths, paths.rows)
        framing = Framing(self.values, clause.variables, paths, self.budget)
        measures = {}
        for name, expression in clause.measures:
            column = framing.column(expression, places)
            if clause.shown == "unmatched":
                column = pc.if_else(pa.array(places.matches >= 0), column, pa.scalar(None, column.type))
            measures[name] = column
            self.budget.check()
        columns = {name: take(self.values.as_is(name), shown_rows) for name in clause.leading}
        columns |= measures
        columns |= {name: take(self.values.as_is(name), shown_rows) for name in clause.trailing}
        return columns

    def _one(self, found: _Found, lengths: Ints) -> tuple[Places, Ints]:
        at = np.where(lengths > 0, found.offsets[1:] - 1, -1)
        return Places(np.arange(len(at)), at, is_last=True), found.starts

    def _all(self, found: _Found, lengths: Ints, rows: Ints) -> tuple[Places, Ints]:
        """Every row of every match that is not excluded; as asked for also empty matches, and rows of none."""
        at = np.flatnonzero(~np.array(self.plan.excluded, np.bool_)[found.path]) if len(found.path) else np.empty(0, np.int64)
        matches = np.repeat(np.arange(len(lengths)), lengths)[at]
        parts = [(matches, at, rows[at])]
        empty = np.flatnonzero(lengths == 0)
        if self.clause.shown != "omit":
            parts.append((empty, np.full(len(empty), -1), found.starts[empty]))
        if self.clause.shown == "unmatched":
            alone = np.ones(self.n_rows, np.bool_)
            alone[rows] = False
            alone[found.starts[empty]] = False
            left = np.flatnonzero(alone)
            parts.append((np.full(len(left), -1), np.full(len(left), -1), left))
        matches, at, shown_rows = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        if len(parts) > 1:
            begins = np.where(matches >= 0, found.starts[np.maximum(matches, 0)], shown_rows) if len(found.starts) else shown_rows
            order = np.argsort(begins, kind="stable")
            matches, at, shown_rows = matches[order], at[order], shown_rows[order]
        return Places(matches, at), shown_rows


def _settled(column: pa.Array) -> pa.Array:
    """A column of a result, of a type that others have too.

    Numbers that are whole in some rows and doubles in others are doubles; decimals have 38 digits where that is enough.
    """
    from seqube.engine import numbers

    if pa.types.is_decimal256(column.type):
        try:
            return column.cast(pa.decimal128(38, column.type.scale))
        except pa.ArrowInvalid:
            return numbers.double(column)
    return numbers.double(column) if column.type == numbers.MIXED else column


# ---------------------------------------------------------------- rows in order


def _in_order(plan: RowPlan, table: pa.Table, ties_by: pa.Table | None) -> tuple[Ints | None, Ints]:
    """The rows by partition and order (None where they stand so), and the bounds of the partitions."""
    keys = _order_keys(plan, table)
    order, bounds = _sorted_out(plan, table, keys)
    return (order if ties_by is None else _without_ties(order, bounds, keys, ties_by)), bounds


def _order_keys(plan: RowPlan, table: pa.Table) -> list[Ints]:
    """What ORDER BY compares, as ascending integers."""
    keys = []
    for each in plan.clause.order_by:
        (ranks,) = rank([comparable(table.column(each.column).chunk(0), each.column)], Evaluator(PlainColumns({})))
        null = ranks == NULL
        key = ~ranks if each.descending else ranks
        if null.any():
            key = np.where(null, -_FAR - 1 if each.nulls_first else _FAR, key)
        keys.append(key)
    return keys


def _sorted_out(plan: RowPlan, table: pa.Table, keys: list[Ints]) -> tuple[Ints | None, Ints]:
    """The same, where equal rows stay as they come."""
    clause, size = plan.clause, table.num_rows
    if not clause.partition_by or not size:
        return None if _is_sorted(keys) else np.lexsort(keys[::-1]), np.array([0, size] if size else [0], np.int64)
    codes = _partition_codes(table, clause.partition_by)
    bounds = np.concatenate(([0], np.cumsum(np.bincount(codes))))
    if _is_sorted([codes, *keys]):
        return None, bounds
    order = None if _is_sorted(keys) else np.lexsort(keys[::-1])
    grouped = gather_groups(codes if order is None else codes[order], bounds)
    return (grouped if order is None else order[grouped]), bounds


def _without_ties(order: Ints | None, bounds: Ints, keys: list[Ints], ties_by: pa.Table) -> Ints | None:
    """The same order, but rows of one partition that are equal in all keys by what they hold."""
    size = ties_by.num_rows
    as_before = np.ones(size, np.bool_)  # whether a row ties with the one before it
    as_before[bounds[:-1]] = False
    for key in keys:
        values = key if order is None else key[order]
        as_before[1:] &= values[1:] == values[:-1]
    if not as_before.any():
        return order
    places = np.flatnonzero(as_before | np.append(as_before[1:], False))
    rows = places if order is None else order[places]
    held = ties_by.take(pa.array(rows)).columns
    plain = [each.cast(each.type.value_type) if pa.types.is_dictionary(each.type) else each for each in held]
    columns = [pa.array(np.cumsum(~as_before)[places]), *plain]  # which tie it is, then the rest
    tied = pa.table(columns, [str(number) for number in range(len(columns))])
    order = np.arange(size) if order is None else order
    order[places] = rows[np.asarray(pc.sort_indices(tied, [(name, "ascending") for name in tied.column_names]))]
    return order


def _is_sorted(keys: list[Ints]) -> bool:
    tied: Mask | None = None
    for key in keys:
        before, after = key[:-1], key[1:]
        if not ((after >= before) if tied is None else (after >= before) | ~tied).all():
            return False
        tied = (after == before) if tied is None else tied & (after == before)
    return True


def _partition_codes(table: pa.Table, names: Sequence[str]) -> Ints:
    """Dense numbers of partitions; nulls are a partition of their own, as in SQL."""
    codes: Ints | None = None
    for name in names:
        column = comparable(table.column(name).chunk(0), name)
        column = pc.add(column, 0.0) if pa.types.is_floating(column.type) else column  # -0.0 equals 0.0
        encoded = column.dictionary_encode(null_encoding="encode")
        part = np.asarray(encoded.indices).astype(np.int64)
        if codes is None:
            codes = part
        else:
            # Numbered anew after every column, in the order in which they come.
            _, first, codes = np.unique(codes * len(encoded.dictionary) + part, return_index=True, return_inverse=True)
            place = np.empty(len(first), np.int64)
            place[np.argsort(first)] = np.arange(len(first))
            codes = place[codes]
    assert codes is not None
    return codes


@kernel
def gather_groups(codes: Ints, bounds: Ints) -> Ints:
    """The rows by group, each group's in the order they come."""
    into = bounds[:-1].copy()
    order = np.empty(len(codes), np.int64)
    for row in range(len(codes)):
        order[into[codes[row]]] = row
        into[codes[row]] += 1
    return order


@kernel
def reach_of(bounds: Ints, clock: npt.NDArray[np.float64 | np.uint64], length: np.uint64 | float) -> Ints:
    """For each row the first of its partition, in order, that is so far behind it or farther."""
    limits = np.empty(len(clock), np.int64)
    for k in range(len(bounds) - 1):
        far = bounds[k]
        for row in range(bounds[k], bounds[k + 1]):
            while far < bounds[k + 1] and clock[far] - clock[row] < length:
                far += 1
            limits[row] = far
    return limits
