"""Matches as an operator: feed batches in time order, get each match exactly once, when it is final.

A match is decided when time has passed its end; one with a trailing negation when the window that began with it is over. However a
stream is cut, the same matches come out.

Between steps only events remain that a later match can still bind or be cancelled by: those of the plan's types inside the
window (one more window back where a match waits for its end and a negation looks back from there). The state is a table and a
few numbers and is written as Arrow bytes.

Cost of a step: the events kept and the new ones, plus the matches decided.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from seqube.engine.evaluation import Evaluation
from seqube.engine.instances import Batch, Instances, minus, plus
from seqube.engine.limits import NO_LIMITS, Budget, Limits
from seqube.engine.operator import Operator
from seqube.engine.order import order_events, rank_events, skip_matches
from seqube.engine.output import MatchWriter, read_by_return
from seqube.engine.predicates import Evaluator, Ints, Mask, code_columns, shown
from seqube.engine.sequence import HIGHEST, LOWEST
from seqube.engine.snapshots import read_state, write_state
from seqube.engine.views.iterative import NestedEvaluation
from seqube.errors import PlanError
from seqube.events import Events
from seqube.plan.needs import needs_of
from seqube.plan.physical import MatchPlan


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

    @property
    def reported(self) -> int:
        return self.decided

    @property
    def has_begun(self) -> bool:
        return self.events is not None

    @property
    def n_kept(self) -> int:
        return 0 if self.events is None else len(self.events)

    @property
    def n_bytes(self) -> int:
        return 0 if self.events is None else self.events.table.nbytes

    def to_bytes(self) -> bytes:
        about = {"decided": self.decided, "seen": self.n_seen, "settled": self.n_settled}
        return write_state(self.events, self.numbers, about, self.counted)

    @staticmethod
    def from_bytes(data: bytes) -> State:
        events, numbers, about, counted = read_state(data)
        return State(events, numbers, about["decided"], about["seen"], about["settled"], counted)


class Matcher(Operator[State, pa.Table]):
    """Finds the matches of a plan. The limits are those of a step, or of a whole run."""

    def __init__(self, plan: MatchPlan, limits: Limits = NO_LIMITS) -> None:
        self._plan = plan
        self._limits = limits

    def start(self) -> State:
        return State()

    def restore(self, data: bytes) -> State:
        return State.from_bytes(data)

    def resume(self, events: Events, decided: int, reported: int, last: int) -> State:
        return State(events, decided=decided)

    def wake(self, state: State) -> int | None:
        if state.events is None or not len(state.events) or not self._plan.waits or self._plan.window.counts_events:
            return None
        window = needs_of(self._plan, state.events.unit).window
        ends = plus(state.events.times, window)
        still_open = ends[ends - 1 > state.decided]
        return int(still_open.min()) if len(still_open) else None

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
        state = self.take(self.start(), events)
        if numbers is not None:
            state = replace(state, numbers=numbers)
        batch = self._prepare(state, budget)[0]
        evaluation = _evaluation(self._plan, batch, after, upto)
        writer = MatchWriter(self._plan, batch.events, evaluation.evaluator)
        for piece in self._remaining(evaluation.matches(), batch):
            yield writer.write(piece)

    def _remaining(self, pieces: Iterator[Instances], batch: Batch) -> Iterator[Instances]:
        """What SKIP leaves of the matches; all of them where there is none."""
        if self._plan.skip is None:
            return pieces
        return iter([skip_matches(self._plan.skip, pieces, self._plan, batch)])

    # ------------------------------------------------------------ adding

    def take(self, state: State, batch: Events) -> State:
        numbers, counted = self._number(state, batch)
        kept = batch if state.events is None else Events.concat([state.events, batch])
        if state.numbers is not None and numbers is not None:
            numbers = np.concatenate([state.numbers, numbers])
        if self._plan.order_by:
            kept, numbers = order_events(kept, numbers, self._plan)
        return replace(state, events=kept, numbers=numbers, counted=counted, n_seen=state.n_seen + len(batch))

    def _number(self, state: State, batch: Events) -> tuple[Ints | None, pa.Table | None]:
        """The numbers of the batch's events in the stream, or in their partition."""
        if not self._plan.numbers_events:
            return None, None
        if not self._plan.partition_by:
            return np.arange(state.n_seen, state.n_seen + len(batch), dtype=np.int64), None
        names = list(self._plan.partition_by)
        keys = pa.table({name: shown(batch.column(name)) for name in names})  # of one type, whatever values a batch has
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

    def decide(self, state: State, upto: int, final: bool) -> tuple[State, pa.Table]:
        assert state.events is not None
        if self._plan.skip is not None and not final:
            raise PlanError("SKIP leaves out matches by all that end before them: it needs the whole stream\n  hint: use sq.run")
        plan, batch, progress = self._plan, *self._prepare(state)
        # Where matches wait, their end does not tell when they are final: all are found, and those that are ready now are taken.
        evaluation = _evaluation(plan, batch) if plan.waits else _evaluation(plan, batch, state.decided, upto)
        writer = MatchWriter(plan, state.events, evaluation.evaluator)
        tables = [writer.empty()]
        for piece in self._remaining(evaluation.matches(), batch):
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
            keys = [[events.column(name) for name in plan.partition_by]]
            if state.counted is not None:
                keys.append([_one(state.counted.column(name)) for name in plan.partition_by])
            codes, n_codes = code_columns(keys)
            partitions = codes[0]
            if state.counted is not None:
                of_code = np.zeros((2, n_codes + 1), np.int64)
                of_code[0, codes[1]] = state.counted.column("seen").to_numpy()
                of_code[1, codes[1]] = state.counted.column("settled").to_numpy()
                seen, settled = of_code[:, partitions]
        clocks = state.numbers if plan.window.counts_events and state.numbers is not None else events.times
        ranks = rank_events(events, plan.order_by) if plan.order_by else None
        batch = Batch(events, window, clocks, partitions, budget or self._limits.budget(), state.numbers, ranks)
        return batch, _Progress(batch, seen, settled, plan.waits_from_end)

    def _purge(self, state: State, batch: Batch, progress: _Progress, upto: int) -> State:
        """Forget what no later match can bind or be cancelled by."""
        assert state.events is not None
        plan, events = self._plan, state.events
        needs = needs_of(plan, events.unit)
        rows = events.rows_of(needs.types)
        if batch.partitions is not None:
            rows = rows[batch.partitions[rows] >= 0]
        if not batch.counts_events:
            rows = rows[events.times[rows] > minus(np.array([upto]), needs.back)[0]]
            numbers = None if state.numbers is None else state.numbers[rows]
            return replace(state, events=events.take(rows), numbers=numbers, decided=upto)
        assert state.numbers is not None
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
    from_end: bool = False  # a match waits from its end on, not from its start

    def ready(self, piece: Instances, upto: int, counts: Ints) -> Mask:
        """Matches whose window is over: no event can come any more that lies in it."""
        batch = self.batch
        begins = batch.clocks[piece.last_rows if self.from_end else piece.first_rows]
        if not batch.counts_events:
            return plus(begins, batch.window) - 1 <= upto
        return (batch.events.times[piece.last_rows] <= upto) & (plus(begins, batch.window) <= counts[piece.first_rows])

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
