"""Aggregates that go on: what is new of a stream becomes maps and samples, and counters take them from there.

A chain of events (`plan.aggregates.chain_of`) is counted by `counters`, one lane for every key and partition; with GROUP BY a.type,
b.type one for every combination of types too (`combinations`), in many of which an event then lies. What a step has to do
is to say which maps the new events are and in which lanes, what they weigh, and when rows are due; then the counters go on, and
rows are made of what they were sampled for. No event is kept but those of a time at which more may come.

Cost of a step: the new events, the rows that are due, and what counters cost. Invariant: events are taken once, when their time is
decided; a state that was written goes on like the one it was written from.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from seqube.engine.aggregates.aggregation import Task, distinct, result_rows, shown_times
from seqube.engine.aggregates.automaton import gap_rank, slot_rank
from seqube.engine.aggregates.combinations import Combinations
from seqube.engine.aggregates.counters import (
    CLOCK_NOW,
    N_DOMAINS,
    N_GROUPS,
    N_LANES,
    N_OUT,
    WITHIN_BATCH,
    How,
)
from seqube.engine.aggregates.lanes import Ranks, gather, only_read, told_ties
from seqube.engine.aggregates.ledger import FEWEST, Ledger
from seqube.engine.aggregates.progress import ALL_TAKEN, DUE_AT, NO_MORE_ROOM, OF_GROUP, Arrived, Sampled, go_on, leave, pass_time
from seqube.engine.aggregates.state import LiveCounts, Pending
from seqube.engine.aggregates.tracks import Weighing, why_not
from seqube.engine.instances import Batch
from seqube.engine.limits import Limits
from seqube.engine.partitions import KeyCodes
from seqube.engine.predicates import Evaluator, Ints, shown
from seqube.engine.sequence import HIGHEST, LOWEST
from seqube.events import Events
from seqube.events.schema import is_of
from seqube.language.tree import Attribute, Value
from seqube.plan.aggregates import AggregatePlan, chain_of, lane_columns
from seqube.plan.chains import EventChain
from seqube.plan.needs import needs_of, why_replayed
from seqube.plan.physical import Scan

_NO_ROWS = np.empty(0, np.int64)
_Types = tuple[Ranks, list[int], npt.NDArray[np.bool_]]


# ---------------------------------------------------------------- what a plan means for events of one schema


class Course:
    """How a plan goes on over events of one schema."""

    def __init__(self, plan: AggregatePlan, chain: EventChain, events: Events, limits: Limits) -> None:
        self.plan, self.chain, self.schema, self._limits = plan, chain, events.schema, limits
        self._needs = needs_of(plan, events.unit)
        self._names = plan.matches.partition_by
        self._keyed = bool(chain.key) or bool(self._names)
        columns = lane_columns(plan, chain)
        assert columns is not None, "others are replayed"
        self._positions, typed = columns
        self._combinations = Combinations(chain, typed) if typed else None
        n_columns = len(self._names) + len(chain.key) + len(typed)
        self._told_apart = len(chain.slots) == 1 and bool(chain.key)
        n = len(chain.slots)
        self._places: list[tuple[int, Scan, tuple[Value, ...]]] = [
            (slot_rank(n, i), slot, tuple(column[i] for column in chain.key)) for i, slot in enumerate(chain.slots)
        ]
        self._places += [(gap_rank(n, gap.position), gap.instance, gap.key or ()) for gap in chain.absences]  # type: ignore[misc]
        self._common = self._common_names()
        self._weighing = Weighing(plan.measures, chain, events)
        once = plan.emit.counts_once
        self.how = How(
            auto=self._weighing.automaton,
            leading=gap_rank(n, 0),
            window=self._needs.window,
            by_position=plan.matches.window.counts_events,
            total=once,
            own=once and chain.has_trailing,
            news=plan.report in ("new", "per"),
            single=set(self._positions) == set(range(n_columns)),
        )
        self._tables: dict[tuple[str, ...], _Types] = {}
        self._empty: pa.Table | None = None

    def _common_names(self) -> list[str] | None:
        """The names of the columns that all events of a lane agree on, where each is the same for all of them."""
        names = list(self._names)
        for k in range(len(self.chain.key)):
            values = [values[k] for _, _, values in self._places if len(values) > k]
            found = {value.name for value in values if isinstance(value, Attribute)}
            if len(found) != 1 or not all(isinstance(value, Attribute) for value in values):
                return None
            names += found
        return names

    def start(self, events: Events) -> LiveCounts:
        """The state before the first of these events."""
        ledger = self._ledger()
        numbered = self._names if self.how.by_position else ()
        n_keys = len(self._names) + len(self.chain.key) * (2 if self._told_apart else 1)
        n_keys += len(self._combinations.names) if self._combinations is not None else 0
        keys, groups = ([f"{word}{i}" for i in range(n)] for word, n in (("key", n_keys), ("group", 2 * len(self.plan.group_by))))
        state = LiveCounts(Pending(events.slice(0, 0)), ledger, KeyCodes(keys), KeyCodes(groups), KeyCodes(numbered))
        ledger.add_domains(0 if numbered else 1)
        ledger.add_groups(0 if self.plan.group_by else 1)
        if not n_keys:
            ledger.add_lanes(np.zeros(1, np.int64), np.zeros(1, np.int64))
        return state

    def _ledger(self) -> Ledger:
        starts = 1 if self.plan.strategy == "per-start" else None
        return Ledger(self.how, self._weighing.widths, starts, self.chain.has_leading)

    def restore(self, about: dict[str, Any], events: Events, beside: pa.Table) -> LiveCounts:
        """The state that was written."""
        return LiveCounts.read(about, events, self._ledger(), beside)

    # ------------------------------------------------------------ deciding

    def decide(self, state: LiveCounts, upto: int, final: bool) -> tuple[LiveCounts, pa.Table]:
        if self._is_quiet(state, upto, final):
            state.decided = state.reported = upto
            assert self._empty is not None
            return state, self._empty
        events = state.pending.release(upto)
        batch = Batch(events, self._needs.window, events.times, budget=self._limits.budget())
        task = Task(self.plan, batch, state.reported, upto, state.pending.last, final)
        cells = self._run(state, events, self._samples(state, task))
        state.decided = upto
        state.reported = task.due if self.plan.emit.when == "every" and not final else upto
        if self._empty is not None and not len(cells.cells) and not (final and self.plan.emit.when == "total"):
            table = self._empty
        elif self.plan.emit.when == "total":
            table = self._totals(state, task, final)
        else:
            table = self._table(state, task, cells)
        if self._empty is None:
            self._empty = table.slice(0, 0)
        state.tidy()
        return state, table

    def _is_quiet(self, state: LiveCounts, upto: int, final: bool) -> bool:
        """Whether there is nothing to take, and nothing to say."""
        if final or self._empty is None or self._needs.period is not None or state.pending.has_any(upto):
            return False
        return self._needs.bucket is None or not len(state.ledger.fresh)

    def _samples(self, state: LiveCounts, task: Task) -> tuple[Ints, Ints]:
        """When rows are due, and of which groups (-1: of all that have a match)."""
        plan, events = self.plan, task.batch.events
        if plan.emit.when == "every":
            return task.moments, np.full(len(task.moments), -1 if plan.group_by else 0)
        if plan.emit.when == "per":
            opened = [] if state.reported == LOWEST else [state.reported]  # what is open ends with the bucket of this time
            lasts = distinct(task.buckets.ends(np.append(np.array(opened, np.int64), events.times))) - 1
            lasts = lasts[(lasts > task.after) & ((lasts <= task.upto) | task.final)]
            return lasts, np.zeros(len(lasts), np.int64)
        if plan.report != "given":
            return _NO_ROWS, _NO_ROWS
        assert plan.trigger is not None
        rows = np.flatnonzero(self._table_of(events.type_names)[2][events.types])
        if plan.trigger.filters:
            rows = rows[task.evaluator.true(plan.trigger.filters, {plan.trigger.variable: rows}, len(rows))]
        for name in self._names:
            valid = events.column(name).is_valid()
            rows = rows[np.asarray(valid)[rows]] if valid.false_count else rows
        times = events.times[rows]
        if not plan.group_by:
            times = distinct(times)
            return times, np.zeros(len(times), np.int64)
        groups = self._code_groups(state, [events.column(key.name).take(pa.array(rows)) for key in plan.group_by])
        order = np.lexsort((groups, times))
        times, groups = times[order], groups[order]
        new = np.ones(len(times), np.bool_)
        new[1:] = (times[1:] != times[:-1]) | (groups[1:] != groups[:-1])
        return times[new], groups[new]

    def _rows(self, scan: Scan, events: Events, evaluator: Evaluator) -> Ints:
        """The rows of a scan that pass its own predicates."""
        rows = events.rows_of(scan.types)
        return rows[evaluator.true(scan.filters, {scan.variable: rows}, len(rows))] if scan.filters else rows

    def _run(self, state: LiveCounts, events: Events, samples: tuple[Ints, Ints]) -> Sampled:
        """Take events, and give what was sampled."""
        ledger, auto = state.ledger, self.how.auto
        ranks, rows, lanes = self._with_ties(events, *self._lay_out(state, events))
        ticks = np.empty((0, 3), np.int64)
        if self.how.by_position:
            domains = self._code_partitions(state, [events.column(name) for name in self._names], len(events))
            ticks = np.stack([events.times, domains, domains], 1)
        weights = self._weighing.weigh(events, ranks, rows, ledger)
        ledger.reserve(len(ranks), int(auto.begins[ranks].sum()), int((ranks == self.how.leading).sum()))
        batch = Arrived(np.stack([events.times[rows], ranks, lanes, rows], 1), weights, ticks, np.stack(samples, 1))
        size = max(len(samples[0]), int(auto.ends[ranks].sum()) if self.how.news else 0) + (FEWEST if self.plan.group_by else 0)
        out, pieces = Sampled(np.empty((size, 2), np.int64), ledger.nothing(size)), []
        ledger.at[:WITHIN_BATCH] = 0
        while (why := go_on(ledger.columns, batch, self.how, ledger.exact, *ledger.counting, out)) != ALL_TAKEN:
            pieces.append(_first(out, int(ledger.at[N_OUT])))
            out = Sampled(np.empty((size, 2), np.int64), ledger.nothing(size))  # the piece keeps the one before
            ledger.at[N_OUT] = 0
            if why != NO_MORE_ROOM:
                wider = ledger.widen()
                batch = batch._replace(weights=self._weighing.weigh(events, ranks, rows, ledger))
                pieces = [piece._replace(values=wider(piece.values)) for piece in pieces]
                out = out._replace(values=ledger.nothing(size))
        pieces.append(_first(out, int(ledger.at[N_OUT])))
        return pieces[0] if len(pieces) == 1 else Sampled(*(np.concatenate(parts) for parts in zip(*pieces, strict=True)))

    # ------------------------------------------------------------ laying out

    def _lay_out(self, state: LiveCounts, events: Events) -> tuple[Ints, Ints, Ints]:
        """The maps of new events in the order in which they are applied: ranks, rows and lanes."""
        evaluator = Evaluator(events)
        if self._common is None or self._told_apart:
            return self._lay_out_each(state, events, evaluator)
        table, filtered, _ = self._table_of(events.type_names)
        masks = np.ones((self.how.leading + 1, len(events) if len(filtered) else 0), np.bool_)
        for rank in filtered:
            masks[rank] = False
            for place, scan, _ in self._places:
                if place == rank:
                    masks[rank, self._rows(scan, events, evaluator)] = True
        chosen = np.flatnonzero((table[:, 0] >= 0)[events.types])
        _, small, _, rows = gather(events.times, events.types, only_read(chosen), table, masks, 1, LOWEST)
        return self._in_lanes(state, events, small.astype(np.int64), rows, self._common)

    def _in_lanes(
        self, state: LiveCounts, events: Events, ranks: Ints, rows: Ints, names: Sequence[str]
    ) -> tuple[Ints, Ints, Ints]:
        """The maps in their lanes, of which these columns are the key, and the types at slots where GROUP BY names them."""
        types: list[pa.Array] = []
        if self._combinations is not None:
            which, numbers = self._combinations.spread(events, ranks, rows)
            ranks, rows = ranks[which], rows[which]
            if not self._keyed:
                used, places = self._combinations.found(numbers)
                return ranks, rows, self._code_lanes(state, self._combinations.types(used))[places]
            types = self._combinations.types(numbers)
        if not self._keyed:
            return ranks, rows, np.zeros(len(rows), np.int64)
        lanes = self._code_lanes(state, [*(events.column(name).take(pa.array(rows)) for name in names), *types])
        known = lanes >= 0
        return (ranks, rows, lanes) if known.all() else (ranks[known], rows[known], lanes[known])

    def _with_ties(self, events: Events, ranks: Ints, rows: Ints, lanes: Ints) -> tuple[Ints, Ints, Ints]:
        """The maps with those by which events of one time and repeated part are settled."""
        if not self.chain.is_repeated:
            return ranks, rows, lanes
        order = np.lexsort((lanes, ranks, events.times[rows]))
        ranks, rows, lanes = ranks[order], rows[order], lanes[order]
        ties = told_ties(self.chain, lanes, events.times[rows], ranks)
        return (ranks, rows, lanes) if ties is None else (ties[1].astype(np.int64), rows[ties[0]], lanes[ties[0]])

    def _lay_out_each(self, state: LiveCounts, events: Events, evaluator: Evaluator) -> tuple[Ints, Ints, Ints]:
        """The same where components name different columns."""
        found = []
        for rank, scan, values in self._places:
            rows, types = self._rows(scan, events, evaluator), list[pa.Array]()
            if self._combinations is not None:
                which, numbers = self._combinations.spread(events, np.full(len(rows), rank), rows)
                rows, types = rows[which], self._combinations.types(numbers)
            columns = [events.column(name).take(pa.array(rows)) for name in self._names]
            keys = [evaluator.array(value, {scan.variable: rows}, len(rows)) for value in values]
            if self._told_apart:
                if not rank & 1:  # without a key, it cancels nothing
                    valid = np.logical_and.reduce([np.ones(len(rows), np.bool_), *(np.asarray(key.is_valid()) for key in keys)])
                    rows, columns, keys = (
                        rows[valid],
                        *([each.filter(pa.array(valid)) for each in part] for part in (columns, keys)),
                    )
                keys = told_apart(keys)
            lanes = self._code_lanes(state, [*columns, *keys, *types])
            known = lanes >= 0
            found.append((np.full(int(known.sum()), rank), rows[known], lanes[known]))
        ranks, rows, lanes = (np.concatenate(column) for column in zip(*found, strict=True))
        order = np.lexsort((ranks, events.times[rows]))
        return ranks[order], rows[order], lanes[order]

    def _table_of(self, names: tuple[str, ...]) -> _Types:
        """The ranks of every type, which ranks ask for more than a type, and which types trigger a report."""
        if names not in self._tables:
            ranks = sorted({rank for rank, _, _ in self._places})
            of = [
                [rank for rank in ranks if any(is_of(name, scan.types) for r, scan, _ in self._places if r == rank)]
                for name in names
            ]
            table = np.full((len(of), max(1, *map(len, of)) if of else 1), -1, np.int16)
            for code, known in enumerate(of):
                table[code, : len(known)] = known
            filtered = sorted({rank for rank, scan, _ in self._places if scan.filters})
            trigger = self.plan.trigger
            triggers = np.array([trigger is not None and is_of(name, trigger.types) for name in names], np.bool_)
            self._tables = {names: (table, filtered, triggers)}
        return self._tables[names]

    def _code_lanes(self, state: LiveCounts, columns: list[pa.Array]) -> Ints:
        known = len(state.keys)
        lanes = state.keys.code(columns)
        if len(state.keys) > known:
            found, firsts = np.unique(lanes, return_index=True)
            first = pa.array(firsts[found >= known])
            values = [column.take(first) for column in columns]
            groups = domains = np.zeros(len(first), np.int64)
            if self.plan.group_by:
                groups = self._code_groups(state, [values[place] for place in self._positions])
            if self.how.by_position:
                domains = self._code_partitions(state, values[: len(self._names)], len(first))
            state.ledger.add_lanes(groups, domains)
        return lanes

    def _code_groups(self, state: LiveCounts, columns: list[pa.Array]) -> Ints:
        codes = state.groups.code(told_apart(columns))
        state.ledger.add_groups(len(state.groups) - int(state.ledger.at[N_GROUPS]))
        return codes

    def _code_partitions(self, state: LiveCounts, columns: list[pa.Array], size: int) -> Ints:
        if not columns:
            return np.zeros(size, np.int64)
        codes = state.partitions.code(columns)
        state.ledger.add_domains(len(state.partitions) - int(state.ledger.at[N_DOMAINS]))
        return codes

    # ------------------------------------------------------------ rows

    def _table(self, state: LiveCounts, task: Task, found: Sampled) -> pa.Table:
        times, groups, values = found.cells[:, DUE_AT], found.cells[:, OF_GROUP], found.values
        times = task.buckets.starts(times) if self.plan.emit.when == "per" else times
        columns = []
        if self.plan.group_by:
            order = np.lexsort((groups, times))
            times, values = times[order], values[order]
            columns = group_columns(self.plan, state.groups, task.batch.events, groups[order])
        measures = self._weighing.measures(values, state.ledger)
        return result_rows(task, [shown_times(task, times)], columns, measures, len(times))

    def _totals(self, state: LiveCounts, task: Task, final: bool) -> pa.Table:
        """The totals at the end of the stream; before, there are none yet."""
        ledger, groups = state.ledger, _NO_ROWS
        if final:
            self._leave(ledger)
            groups = np.arange(int(ledger.at[N_GROUPS]))
            if self.plan.group_by:
                groups = groups[ledger.columns.totals[groups, 0] != 0]
        columns = group_columns(self.plan, state.groups, task.batch.events, groups) if self.plan.group_by else []
        return result_rows(task, [], columns, self._weighing.measures(ledger.columns.totals[groups], ledger), len(groups))

    def _leave(self, ledger: Ledger) -> None:
        """Let all starts leave, each with what it has."""
        if not self.how.own:
            return
        ledger.reserve(0, 0, 0)
        ledger.columns.domains[:, CLOCK_NOW] = HIGHEST
        while not pass_time(ledger.columns, 0, self.how, ledger.exact, *ledger.counting):
            ledger.widen()
        lanes = np.arange(int(ledger.at[N_LANES]))
        while not leave(ledger.columns, lanes, HIGHEST, self.how, ledger.exact, *ledger.counting):
            ledger.widen()


def group_columns(plan: AggregatePlan, groups: KeyCodes, events: Events, codes: Ints) -> list[pa.Array]:
    """The values of GROUP BY for these codes, which were given to columns that are `told_apart`."""
    values, columns = groups.values(codes), []
    for i, key in enumerate(plan.group_by):
        kind = shown(events.column(key.name).slice(0, 0)).type
        missing, found = (values[2 * i], values[2 * i + 1]) if len(codes) else (pa.array([], pa.bool_()), pa.nulls(0, kind))
        columns.append(pc.if_else(missing, pa.scalar(None, found.type), found).cast(kind))
    return columns


def _first(sampled: Sampled, n: int) -> Sampled:
    return Sampled(sampled.cells[:n], sampled.values[:n])


def told_apart(columns: Sequence[pa.Array]) -> list[pa.Array]:
    """Columns in which null is a value like others: whether each is null, and what it is where it is not."""
    found = []
    for column in map(shown, columns):
        if pat.is_null(column.type):
            column = column.cast(pa.int64())
        filled = column.fill_null(_anything(column.type)) if column.null_count else column
        found += [column.is_null(), filled]
    return found


def _anything(kind: pa.DataType) -> pa.Scalar:
    if pat.is_string(kind) or pat.is_large_string(kind) or pat.is_string_view(kind):
        return pa.scalar("", kind)
    if pat.is_decimal(kind):
        return pa.scalar(Decimal(0), kind)
    return pa.scalar(False) if pat.is_boolean(kind) else pa.scalar(0).cast(kind)


# ---------------------------------------------------------------- what can go on


def course_of(plan: AggregatePlan, events: Events, limits: Limits) -> Course | str:
    """How a plan goes on over such events, or why its window has to be replayed."""
    if reason := why_replayed(plan) or why_not(plan.measures, events):
        return reason
    chain = chain_of(plan)
    assert isinstance(chain, EventChain)
    evaluator = Evaluator(events.slice(0, 0))
    scans = {**{slot.variable: _NO_ROWS for slot in chain.slots}, **{gap.instance.variable: _NO_ROWS for gap in chain.absences}}  # type: ignore[union-attr]
    for number, column in enumerate(chain.key):
        values = [*column, *(gap.key[number] for gap in chain.absences if gap.key is not None)]
        if len({evaluator.array(value, scans, 0).type for value in values}) > 1:
            return "components name keys of different types"
    return Course(plan, chain, events, limits)
