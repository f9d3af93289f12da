"""A query as a state machine: feed batches in time order, get each match exactly once, when it is final.

`step` takes a batch and decides every match that ends before the batch's last timestamp (more events may still come at that
time); `finish` decides what a watermark allows, or, at the end of the stream, everything. A match with a trailing negation is
decided when the window that began with it is over. However a stream is cut, the same matches come out.

Between steps only events remain that a later match can still bind or be cancelled by: those of the plan's types inside the
window (one more window back where a match waits for its end and a negation looks back from there). The state is a table and a
few numbers and is written as Arrow bytes.

Cost of a step: the events kept and the new ones, plus the matches decided.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from seqube.engine.instances import Batch, Instances, minus, plus
from seqube.engine.limits import NO_LIMITS, Budget, Limits
from seqube.engine.nested import Evaluation
from seqube.engine.nesting.iterative import NestedEvaluation
from seqube.engine.output import MatchWriter, read_by_return
from seqube.engine.predicates import Evaluator, Ints, Mask, code_columns, normalise
from seqube.engine.sequence import HIGHEST, LOWEST
from seqube.errors import DataError
from seqube.events import Events
from seqube.plan.needs import needs_of
from seqube.plan.physical import MatchPlan

_NUMBER = "#number"  # the column of event numbers that travels with the kept events of a tuple-count window


def seal(*parts: pa.Table) -> bytes:
    """Tables as Arrow IPC streams, one behind the other, and their checksum; at the end, so that columns stay aligned."""
    sink = pa.BufferOutputStream()
    for part in parts:
        with pa.ipc.new_stream(sink, part.schema) as writer:
            writer.write_table(part)
    data: bytes = sink.getvalue().to_pybytes()
    return data + zlib.crc32(data).to_bytes(4, "big")


def unseal(data: bytes) -> list[pa.Table]:
    """The tables that were sealed, in order."""
    if zlib.crc32(memoryview(data)[:-4]) != int.from_bytes(data[-4:], "big") or len(data) < 4:
        raise DataError("this is not the state of a query, or it is damaged\n  hint: begin the stream anew, with a new checkpoint")
    source = pa.BufferReader(pa.py_buffer(data).slice(0, len(data) - 4))
    parts = []
    while source.tell() < source.size():
        parts.append(pa.ipc.open_stream(source).read_all())
    return parts


def write_state(events: Events | None, numbers: Ints | None, about: Mapping[str, int], beside: pa.Table | None) -> bytes:
    """A state as Arrow IPC, never pickled: events with their numbers, a few facts, and a table of its own kind."""
    if events is None:
        raise DataError("a stream that has not begun has no state to write")
    schema, table = events.schema, events.table
    if numbers is not None:
        table = table.append_column(_NUMBER, pa.array(numbers))
    facts = {"type": schema.type_column, "time": schema.time_column, "unit": schema.unit, **about}
    table = table.replace_schema_metadata({b"seqube": json.dumps(facts).encode()})
    return seal(table, beside if beside is not None else pa.table({}))


def read_state(data: bytes) -> tuple[Events, Ints | None, dict[str, Any], pa.Table | None]:
    """What `write_state` was given."""
    table, beside = unseal(data)
    about = json.loads(table.schema.metadata[b"seqube"])
    numbers = None
    if _NUMBER in table.column_names:
        numbers = table.column(_NUMBER).to_numpy()
        table = table.drop_columns([_NUMBER])
    events = Events(table.replace_schema_metadata(None), type=about["type"], time=about["time"], unit=about["unit"])
    return events, numbers, about, beside if beside.num_columns else None


@dataclass(frozen=True, slots=True)
class State:
    """What must be remembered of a stream: events inside the window, how far it is decided, and how many events there were."""

    events: Events | None = None
    numbers: Ints | None = None  # of the kept events, with a tuple-count window
    decided: int = LOWEST  # all matches that end up to here (or whose window ends here) are out
    # With a tuple-count window: how many events there were, now and at the last decision; per partition in `counted`
    # (the key columns, `seen` and `settled`).
    n_seen: int = 0
    n_settled: int = 0
    counted: pa.Table | None = None

    def to_bytes(self) -> bytes:
        about = {"decided": self.decided, "seen": self.n_seen, "settled": self.n_settled}
        return write_state(self.events, self.numbers, about, self.counted)

    @staticmethod
    def from_bytes(data: bytes) -> State:
        events, numbers, about, counted = read_state(data)
        return State(events, numbers, about["decided"], about["seen"], about["settled"], counted)


class Matcher:
    """Runs a plan over a stream that comes in batches. The limits are those of a step, or of a whole run."""

    def __init__(self, plan: MatchPlan, limits: Limits = NO_LIMITS) -> None:
        self._plan = plan
        self._limits = limits

    def start(self) -> State:
        return State()

    def run(self, events: Events) -> pa.Table:
        """The matches of a whole stream."""
        budget = self._limits.budget()
        tables = []
        for piece in self.pieces(events, budget):
            budget.find(len(piece))
            budget.hold(piece.nbytes)
            tables.append(piece)
        return pa.concat_tables(tables)

    def pieces(self, events: Events, budget: Budget) -> Iterator[pa.Table]:
        """The matches of a whole stream, in pieces, as they are found; the first piece is empty and tells the columns."""
        yield MatchWriter(self._plan, events, Evaluator(events)).empty()
        yield from self.within(events, LOWEST, HIGHEST, budget=budget)

    def within(
        self, events: Events, after: int, upto: int, numbers: Ints | None = None, budget: Budget | None = None
    ) -> Iterator[pa.Table]:
        """The matches that end in (after, upto], in pieces: those a slice of a stream owns.

        The events must reach back a window from there and, where the plan waits, a window ahead. With a tuple-count window
        `numbers` are those of the events in the whole stream.
        """
        state = self._add(self.start(), events)
        if numbers is not None:
            state = replace(state, numbers=numbers)
        evaluation = _evaluation(self._plan, self._prepare(state, budget)[0], after, upto)
        writer = MatchWriter(self._plan, events, evaluation.evaluator)
        for piece in evaluation.matches():
            yield writer.write(piece)

    def advance(self, state: State, batch: Events, watermark: int) -> tuple[State, pa.Table]:
        """Take a batch that ends before the watermark, and decide all that ends before it: a step and a finish in one."""
        return self._decide(self._add(state, batch), max(state.decided, watermark - 1), final=False)

    def step(self, state: State, batch: Events) -> tuple[State, pa.Table]:
        """Take the next batch, which must not begin before the last one ended."""
        state = self._add(state, batch)
        assert state.events is not None
        newest = int(batch.times[-1]) - 1 if len(batch) else state.decided
        return self._decide(state, max(state.decided, newest), final=False)

    def finish(self, state: State, watermark: int | None = None) -> tuple[State, pa.Table | None]:
        """Decide all that ends before the watermark, or, without one, all that is left; None if the stream never began."""
        if state.events is None:
            return state, None
        if watermark is None:
            return self._decide(state, HIGHEST, final=True)
        return self._decide(state, max(state.decided, watermark - 1), final=False)

    # ------------------------------------------------------------ adding

    def _add(self, state: State, batch: Events) -> State:
        if state.events is not None and len(batch) and int(batch.times[0]) <= state.decided:
            raise DataError(
                f"an event at {int(batch.times[0])} comes after the stream was decided up to {state.decided}\n"
                "  hint: feed events in time order; late ones belong to the late output"
            )
        numbers, counted = self._number(state, batch)
        kept = batch if state.events is None else Events.concat([state.events, batch])
        if state.numbers is not None and numbers is not None:
            numbers = np.concatenate([state.numbers, numbers])
        return replace(state, events=kept, numbers=numbers, counted=counted, n_seen=state.n_seen + len(batch))

    def _number(self, state: State, batch: Events) -> tuple[Ints | None, pa.Table | None]:
        """The numbers of the batch's events in the stream, or in their partition."""
        if not self._plan.window.counts_events:
            return None, None
        if not self._plan.partition_by:
            return np.arange(state.n_seen, state.n_seen + len(batch), dtype=np.int64), None
        names = list(self._plan.partition_by)
        keys = pa.table({name: normalise(batch.column(name)) for name in names})
        none = pa.array([], pa.int64())
        known = state.counted
        if known is None:
            known = keys.slice(0, 0).append_column("seen", none).append_column("settled", none)
        (old, new), n_codes = code_columns(
            [[_one(known.column(name)) for name in names], [_one(keys.column(name)) for name in names]]
        )
        counts = np.zeros((2, n_codes + 1), np.int64)  # seen and settled; the last column is for rows in no partition
        counts[:, old] = known.column("seen").to_numpy(), known.column("settled").to_numpy()
        new = np.where(new < 0, n_codes, new)
        order = np.argsort(new, kind="stable")
        sizes = np.bincount(new, minlength=n_codes + 1)
        numbers = np.empty(len(new), np.int64)
        numbers[order] = np.arange(len(new)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        numbers += counts[0, new]
        counts[0] += sizes
        # One row for every partition: those known before, then the first row of each new one.
        fresh, first = np.unique(new, return_index=True)
        unknown = first[~np.isin(fresh, np.append(old, n_codes))]
        seen, settled = counts[:, np.concatenate([old, new[unknown]])]
        table = pa.concat_tables([known.select(names), keys.take(pa.array(unknown))])
        return numbers, table.append_column("seen", pa.array(seen)).append_column("settled", pa.array(settled))

    # ------------------------------------------------------------ deciding

    def _decide(self, state: State, upto: int, final: bool) -> tuple[State, pa.Table]:
        assert state.events is not None
        plan, batch, progress = self._plan, *self._prepare(state)
        # Where matches wait, their end does not tell when they are final: all are found, and those that are ready now are taken.
        evaluation = _evaluation(plan, batch) if plan.waits else _evaluation(plan, batch, state.decided, upto)
        writer = MatchWriter(plan, state.events, evaluation.evaluator)
        tables = [writer.empty()]
        for piece in evaluation.matches():
            if plan.waits:
                ready = progress.ready(piece, upto, progress.seen) if not final else np.ones(len(piece), np.bool_)
                piece = piece.select(ready & ~progress.ready(piece, state.decided, progress.settled))
            batch.budget.find(len(piece))
            tables.append(writer.write(piece))
            batch.budget.hold(tables[-1].nbytes)
        if final:
            return State(state.events.slice(0, 0), decided=upto, n_seen=state.n_seen), pa.concat_tables(tables)
        return self._purge(state, batch, progress, upto), pa.concat_tables(tables)

    def _prepare(self, state: State, budget: Budget | None = None) -> tuple[Batch, _Progress]:
        assert state.events is not None
        events, plan = state.events, self._plan
        window = needs_of(plan, events.unit).window
        partitions = None
        seen, settled = np.full(len(events), state.n_seen), np.full(len(events), state.n_settled)
        if plan.partition_by:
            keys = [[normalise(events.column(name)) for name in plan.partition_by]]
            if state.counted is not None:
                keys.append([_one(state.counted.column(name)) for name in plan.partition_by])
            codes, n_codes = code_columns(keys)
            partitions = codes[0]
            if state.counted is not None:
                of_code = np.zeros((2, n_codes + 1), np.int64)
                of_code[0, codes[1]] = state.counted.column("seen").to_numpy()
                of_code[1, codes[1]] = state.counted.column("settled").to_numpy()
                seen, settled = of_code[:, partitions]
        clocks = events.times if state.numbers is None else state.numbers
        batch = Batch(events, window, clocks, partitions, budget or self._limits.budget())
        return batch, _Progress(batch, seen, settled)

    def _purge(self, state: State, batch: Batch, progress: _Progress, upto: int) -> State:
        """Forget what no later match can bind or be cancelled by."""
        assert state.events is not None
        plan, events = self._plan, state.events
        needs = needs_of(plan, events.unit)
        rows = events.rows_of(needs.types)
        if batch.partitions is not None:
            rows = rows[batch.partitions[rows] >= 0]
        if state.numbers is None:
            rows = rows[events.times[rows] > minus(np.array([upto]), needs.back)[0]]
            return replace(state, events=events.take(rows), decided=upto)
        rows = rows[state.numbers[rows] > minus(progress.oldest_open(upto)[rows], needs.back)]
        counted = state.counted
        if counted is not None:
            counted = counted.set_column(counted.schema.get_field_index("settled"), "settled", counted.column("seen"))
        return replace(
            state, events=events.take(rows), numbers=state.numbers[rows], decided=upto, counted=counted, n_settled=state.n_seen
        )


@dataclass(frozen=True, slots=True)
class _Progress:
    """How far the stream had come at the last decision (`settled`) and is now (`seen`), per row: the events of its partition."""

    batch: Batch
    seen: Ints
    settled: Ints

    def ready(self, piece: Instances, upto: int, counts: Ints) -> Mask:
        """Matches whose window is over: no event can come any more that lies in it."""
        batch = self.batch
        firsts = batch.clocks[piece.first_rows]
        if not batch.counts_events:
            return plus(firsts, batch.window) - 1 <= upto
        return (batch.events.times[piece.last_rows] <= upto) & (plus(firsts, batch.window) <= counts[piece.first_rows])

    def oldest_open(self, upto: int) -> Ints:
        """Per row, the smallest number in its partition that a match still to be decided can end with."""
        batch = self.batch
        codes = np.zeros(len(batch.events), np.int64) if batch.partitions is None else np.maximum(batch.partitions, 0)
        oldest = np.full(int(codes.max(initial=0)) + 1, HIGHEST)
        np.minimum.at(oldest, codes, self.seen)
        open_ = np.flatnonzero(batch.events.times > upto)
        np.minimum.at(oldest, codes[open_], batch.clocks[open_])
        return oldest[codes]


def _evaluation(plan: MatchPlan, batch: Batch, after: int = LOWEST, upto: int = HIGHEST) -> Evaluation | NestedEvaluation:
    if plan.is_nested:
        return NestedEvaluation(plan, batch, after, upto)
    return Evaluation(plan, batch, after, upto, read_by_return(plan))


def _one(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
