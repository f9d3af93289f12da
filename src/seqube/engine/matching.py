"""Matches as an operator: feed batches in time order, get each match exactly once, when it is final.

A match is decided when time has passed its end; one with a trailing negation when the window that began with it is over. With SKIP
it must be known which matches end before it, so where they wait it is decided when the window that begins with its end is over.
However a stream is cut, the same matches come out.

Events wait until they are decided: until then others may come that stand before them. Those that are decided go on in one of two
ways. Flat sequences are linked into chains (`linking`), once, and what is linked finds its matches by itself. What is not flat, or
compares what has no integer of its own, is *replayed*: the events in the window are evaluated again at every step, with PARTITION
BY those of partitions that have a new one.

Between steps only events remain that a later match can still bind or be cancelled by: those of the plan's types inside the
window (one more window back where a match waits for its end and a negation looks back from there). They are the state, with a few
numbers and, with SKIP, a mark on those that begin no match any more, and are written as Arrow bytes; chains are made from them when
they are missing.

Cost of a step: the new events and the matches decided; replayed, the events kept as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from seqube.engine.at_hand import batch_for, evaluation_of, find_everywhere, find_in_slice
from seqube.engine.instances import Batch, Instances, minus, plus
from seqube.engine.kept import Kept
from seqube.engine.limits import NO_LIMITS, Budget, Limits
from seqube.engine.linking import NONE_FOUND, Chains, Linker
from seqube.engine.members import PartitionMembers
from seqube.engine.operator import Operator
from seqube.engine.order import Skipping, order_events, refuse_resuming, refuse_steps
from seqube.engine.output import MatchWriter
from seqube.engine.partitions import Partitions
from seqube.engine.predicates import Evaluator, Ints, Mask, Unsteady
from seqube.engine.sequence import HIGHEST, LOWEST
from seqube.engine.slices import StreamSlice
from seqube.engine.snapshots import read_state, write_state
from seqube.engine.views.continuing import LiveViews
from seqube.engine.views.iterative import passing
from seqube.engine.views.program import FIRST, LAST, MEMBERS
from seqube.events import Events
from seqube.plan.needs import needs_of, replays_partitions, why_replayed
from seqube.plan.physical import MatchPlan, MatchSequence

SLACK = 1 << 14  # keys, or events of a partition, that may be held in vain before all that is kept is linked anew


class Prepared:
    """What follows from a plan and from what its events look like: made once, for every step."""

    __slots__ = ("empty", "goes_on", "linker", "needs", "none", "writer")

    def __init__(self, plan: MatchPlan, none: Events) -> None:
        self.none = none
        self.needs = needs_of(plan, none.unit)
        self.writer = MatchWriter(plan, none, Evaluator(none))
        self.empty = self.writer.empty()
        self.goes_on = why_replayed(plan) is None
        self.linker: Linker | None = None
        if self.goes_on and not plan.is_nested:
            try:
                self.linker = Linker(plan, none)
            except Unsteady:
                self.goes_on = False


@dataclass(slots=True)
class State:
    """What must be remembered of a stream: the events that may still matter, those that wait, and how far it is decided."""

    known: Prepared | None = None
    kept: Kept | None = None
    waiting: list[Events] = field(default_factory=list)  # not decided yet, in order
    decided: int = LOWEST  # all matches that end up to here (or whose window ends here) are out
    counted: Partitions | None = None  # where events are numbered: how many there were, up to what is decided
    goes_on: bool = False  # else what is kept is replayed
    linker: Linker | None = None  # of a flat sequence
    chains: Chains | None = None  # None: what is kept is still to be linked
    views: LiveViews | None = None  # of a nested query; None: what is kept is still to be loaded
    members: PartitionMembers | None = None  # of partitions that are replayed; None: what is kept is still to be looked at
    skipping: Skipping | None = None  # with SKIP: what the matches before forbid
    n_live: int = 0  # events kept when those of every partition were last looked through

    @property
    def has_begun(self) -> bool:
        return self.kept is not None

    @property
    def reported(self) -> int:
        return self.decided

    @property
    def n_kept(self) -> int:
        return (0 if self.kept is None else len(self.kept)) + sum(map(len, self.waiting))

    @property
    def n_bytes(self) -> int:
        live = (0 if each is None else each.n_bytes for each in (self.kept, self.chains, self.views, self.members))
        return sum(live) + sum(int(events.table.nbytes) for events in self.waiting)

    @property
    def events(self) -> Events | None:
        return None if self.kept is None else Events.concat([self.kept.events, *self.waiting])

    def to_bytes(self) -> bytes:
        about = {"decided": self.decided, "kept": 0 if self.kept is None else len(self.kept)}
        if self.kept is None:
            return write_state(None, None, about, None)
        kept, numbers = self.kept.events, None
        events = Events.concat([kept, *self.waiting])
        beside: dict[str, Ints | Mask] = {}  # a value for each event that is kept
        if self.counted is not None:
            # A partition that no kept event is in can be forgotten: only differences of numbers matter, so it may begin anew.
            numbers = np.zeros(len(events), np.int64)
            numbers[: len(kept)] = self.kept.clocks
            beside["seen"] = self.counted.counts[self.counted.code(kept)]
        if self.skipping is not None:
            beside["marked"] = self.skipping.marks(kept, self.kept.head)
        return write_state(events, numbers, about, pa.table(beside))

    def due(self, upto: int) -> list[Events]:
        """Those of the waiting events that are decided now, in pieces: most are all of a batch but its last."""
        waiting, n_due = self.waiting, 0
        while n_due < len(waiting) and waiting[n_due].times[-1] <= upto:
            n_due += 1
        due, rest = waiting[:n_due], waiting[n_due:]
        if rest and rest[0].times[0] <= upto:
            cut = int(np.searchsorted(rest[0].times, upto, "right"))
            due.append(rest[0].slice(0, cut))
            rest[0] = rest[0].slice(cut, len(rest[0]))
        self.waiting = rest
        return due


class Matcher(Operator[State, pa.Table]):
    """Finds the matches of a plan. The limits are those of a step, or of a whole run."""

    def __init__(self, plan: MatchPlan, limits: Limits = NO_LIMITS) -> None:
        self._plan = plan
        self._limits = limits
        self._waits = plan.waits
        pattern = plan.pattern
        self._gives_events = not plan.returns and isinstance(pattern, MatchSequence) and not pattern.filters
        self._known: Prepared | None = None  # of the last stream: mostly all look alike

    def start(self) -> State:
        refuse_steps(self._plan)
        return State()

    def _restored(self, data: bytes) -> State:
        events, numbers, about, beside = read_state(data)
        state = self._begin(State(), events)
        kept, waiting = events.slice(0, about["kept"]), events.slice(about["kept"], len(events))
        if state.counted is not None:
            assert beside is not None
            seen = beside.column("seen").to_numpy()
            where = state.counted.code(kept) if self._plan.partition_by else np.zeros(len(seen), np.int64)
            state.counted.counts[where] = seen
        if state.skipping is not None:
            assert beside is not None
            state.skipping = state.skipping.marked(kept, 0, beside.column("marked").to_numpy())
        return _resumed(state, kept, kept.times if numbers is None else numbers[: len(kept)], waiting, about["decided"])

    def resume(self, events: Events, decided: int, reported: int, last: int) -> State:
        refuse_resuming(self._plan)
        if self._plan.order_by:
            events = order_events(events, self._plan.order_by)
        n_kept = int(np.searchsorted(events.times, decided, "right"))
        kept, waiting = events.slice(0, n_kept), events.slice(n_kept, len(events))
        state = self._begin(State(), events)
        clocks = kept.times if state.counted is None else state.counted.number(state.counted.code(kept))
        return _resumed(state, kept, clocks, waiting, decided)

    def _begin(self, state: State, batch: Events) -> State:
        known = self._prepared(batch)
        state.known, state.kept = known, Kept(known.none)
        state.goes_on, state.linker = known.goes_on, known.linker
        if self._plan.numbers_events:
            state.counted = Partitions(self._plan.partition_by)
        if self._plan.skip is not None:
            state.skipping = Skipping(self._plan)
        return state

    def _prepared(self, events: Events) -> Prepared:
        if self._known is None or self._known.none.schema != events.schema:
            self._known = Prepared(self._plan, events.slice(0, 0))
        return self._known

    def goes_on(self, events: Events) -> bool:
        return self._prepared(events).goes_on

    def wake(self, state: State) -> int | None:
        if state.kept is None or state.known is None or not self._waits or self._plan.window.counts_events:
            return None
        window, chains, views = state.known.needs.window, self._linked(state), self._viewed(state)
        firsts = [int(state.waiting[0].times[0])] if state.waiting else []
        if views is not None:
            firsts += views.next_due
        elif chains is None or state.linker is None:
            times = state.kept.times
            firsts += times[plus(times, window) - 1 > state.decided][:1].tolist()
        elif (first := state.linker.next_due(chains)) is not None:
            firsts.append(first)
        return min(min(firsts) + window, HIGHEST) if firsts else None

    # ------------------------------------------------------------ whole streams

    def run(self, events: Events) -> pa.Table:
        budget = self._limits.budget()
        return _held(self.pieces(events, budget), budget)

    def pieces(self, events: Events, budget: Budget, threads: int = 1) -> Iterator[pa.Table]:
        """The matches of a whole stream, in pieces, as they are found; the first piece is empty and tells the columns."""
        return find_everywhere(self._plan, events, budget, threads)

    def within(
        self, events: Events, after: int, upto: int, numbers: Ints | None = None, budget: Budget | None = None
    ) -> Iterator[pa.Table]:
        """The matches that end in (after, upto], in pieces: those a slice of a stream owns.

        The events must reach back a window from there and, where the plan waits, a window ahead. With a tuple-count window
        `numbers` are those of the events in the whole stream.
        """
        writer = MatchWriter(self._plan, events, Evaluator(events))
        return find_in_slice(self._plan, StreamSlice(events, after, upto, numbers), writer, budget or self._limits.budget())

    # ------------------------------------------------------------ steps

    def take(self, state: State, batch: Events) -> State:
        if state.kept is None:
            self._begin(state, batch)
        else:
            state.kept.check(batch)
        if len(batch):
            if state.waiting and batch.times[0] < state.waiting[-1].times[-1]:
                state.waiting = [Events.concat([*state.waiting, batch])]
            else:
                state.waiting.append(batch)
        return state

    def decide(self, state: State, upto: int, final: bool) -> tuple[State, pa.Table]:
        assert state.known is not None
        budget = self._limits.budget()
        self._linked(state)  # before anything is counted that is not linked
        self._viewed(state)
        due = state.due(upto)
        if due and self._plan.order_by:  # what has one time may lie in several pieces
            due = [order_events(Events.concat(due), self._plan.order_by)]
        step = _Step(upto, final, [_numbered(events, state.counted) for events in due])
        found = self._go_on_with_views(state, step, budget) if self._plan.is_nested else self._go_on(state, step, budget)
        tables = list(self._replay(state, step, budget) if found is None else found)
        state.decided = upto
        if final:
            state.kept, state.waiting = Kept(state.known.none), []
            state.chains, state.views, state.members = None, None, None
        else:
            self._purge(state)
        return state, pa.concat_tables(tables) if tables else state.known.empty

    # ------------------------------------------------------------ going on

    def _linked(self, state: State) -> Chains | None:
        """The chains of what is kept, linked anew where they are missing; None where it is replayed."""
        if not state.goes_on or state.linker is None or state.kept is None:
            return None
        if state.chains is None:
            linker, events = state.linker, state.kept.events
            chains, clocks = linker.start(), state.kept.clocks
            parts = state.counted.code(events) if state.counted is not None else None
            try:
                new = linker.read(chains, events, parts)
            except Unsteady:
                state.goes_on = False
                return None
            linker.link(chains, new.in_place(), state.kept.head, events.times, clocks)
            state.chains = chains
            if self._waits:  # what was due before is out already
                self._due(state, linker, chains, _Step(state.decided, False, [_New(events, clocks, parts)]))
        return state.chains

    def _go_on(self, state: State, step: _Step, budget: Budget) -> list[pa.Table] | None:
        """Link what is new, and write the matches that it, or the time that has passed, makes final; None where it is replayed."""
        chains, linker, kept = self._linked(state), state.linker, state.kept
        if chains is None or linker is None or kept is None or state.known is None:
            return None
        ends = []
        for number, (events, clocks, parts) in enumerate(step.new):
            try:
                read = linker.read(chains, events, parts)
            except Unsteady:
                state.goes_on, state.chains, step.n_kept = False, None, number
                return None
            if len(read.kept):
                first = kept.append(events, clocks, None if len(read.kept) == len(events) else read.kept)
                ends.append(linker.link(chains, read, first, events.times, clocks))
        if self._waits:
            edges = self._due(state, linker, chains, step)
        else:
            edges = ends[0] if len(ends) == 1 else np.concatenate([NONE_FOUND, *ends])
        found = linker.matches(chains, edges, budget)
        if self._gives_events and state.skipping is None:
            writer = state.known.writer
            tables = [
                _counted(writer.write_events(kept.columns(rows.ravel(), not writer.knows_types), rows.shape[1]), budget)
                for rows in found
            ]
        else:
            tables = _written(state, found, self._sequences, budget)
        return tables if self._waits else tables[::-1]

    def _viewed(self, state: State) -> LiveViews | None:
        """The views of what is kept, loaded anew where they are missing; None where it is replayed, or flat."""
        if not state.goes_on or not self._plan.is_nested or state.kept is None or state.known is None:
            return None
        if state.views is None:
            kept = state.kept
            try:
                views = LiveViews(self._plan, state.known.none, kept.head)
                new = views.read(kept.events)
            except Unsteady:
                state.goes_on = False
                return None
            views.append(new, kept.clocks)
            views.catch_up(self._due_clock(state, _Step(state.decided, False, [])), self._limits.budget())
            state.views = views
        return state.views

    def _go_on_with_views(self, state: State, step: _Step, budget: Budget) -> list[pa.Table] | None:
        """The same for a nested query, which goes on with its views."""
        views, kept = self._viewed(state), state.kept
        if views is None or kept is None or state.known is None:
            return None
        if step.new:  # as one, because what has one time may lie in several pieces
            events = Events.concat([events for events, _, _ in step.new])
            rows = events.rows_of(state.known.needs.types)
            events, clocks = events.take(rows), np.concatenate([clocks for _, clocks, _ in step.new])[rows]
            try:
                new = views.read(events)
            except Unsteady:
                state.goes_on, state.views = False, None
                return None
            kept.append(events, clocks)
            views.append(new, clocks)

        def results(places: Ints, evaluator: Evaluator) -> Instances:
            """From first and last row, and one for each variable, which may be not bound."""
            piece = Instances(dict(zip(self._plan.variables, places[MEMBERS:], strict=True)), places[FIRST], places[LAST])
            return passing(views.tables.rest, piece, evaluator)

        return _written(state, views.matches(self._due_clock(state, step), budget), results, budget)

    def _due_clock(self, state: State, step: _Step) -> int:
        """Matches that begin up to this clock wait no longer; without partitions."""
        assert state.known is not None
        if step.final:
            return HIGHEST
        counted = state.counted if self._plan.window.counts_events else None
        newest = step.upto + 1 if counted is None else int(counted.counts[0])
        return max(newest - state.known.needs.window, LOWEST)

    def _due(self, state: State, linker: Linker, chains: Chains, step: _Step) -> Ints:
        """The entries that begin matches whose window is over now."""
        counted = state.counted
        if counted is None or not self._plan.partition_by:
            return linker.due(chains, self._due_clock(state, step))
        if step.final:
            return linker.due_in(chains, np.arange(len(chains.parts)), np.full(len(chains.parts), HIGHEST))
        return linker.due_in(chains, np.unique(step.parts), counted.counts)

    def _sequences(self, places: Ints, evaluator: Evaluator) -> Instances:
        """Matches of a flat sequence, from one row for each variable."""
        pattern = self._plan.pattern
        assert isinstance(pattern, MatchSequence)
        piece = Instances(dict(zip(pattern.binds, places, strict=True)), places[0], places[-1])
        if pattern.filters:
            asked = [guarded.predicate for guarded in pattern.filters]
            piece = piece.select(evaluator.true(asked, piece.rows, len(piece)))
        return piece

    # ------------------------------------------------------------ replaying

    def _replay(self, state: State, step: _Step, budget: Budget) -> Iterator[pa.Table]:
        """Evaluate what is kept, and write the matches that are final now and were not before."""
        assert state.kept is not None
        plan = self._plan
        events, clocks = self._replayed(state, step)
        batch = batch_for(self._plan, events, None if state.counted is None else clocks, budget)
        # Where matches wait, their end does not tell when they are final: all are found, and those that are ready now are taken.
        evaluation = evaluation_of(self._plan, batch) if plan.waits else evaluation_of(self._plan, batch, state.decided, step.upto)
        writer = MatchWriter(plan, events, evaluation.evaluator)
        seen, settled = _counts(state.counted, events, step.parts) if plan.waits else (NONE_FOUND, NONE_FOUND)

        def final() -> Iterator[Instances]:
            for piece in evaluation.matches():
                if plan.waits:
                    begins = batch.clocks[piece.last_rows if plan.waits_from_end else piece.first_rows]
                    ready = np.ones(len(piece), np.bool_) if step.final else _ready(batch, piece, begins, step.upto, seen)
                    piece = piece.select(ready & ~_ready(batch, piece, begins, state.decided, settled))
                yield piece

        pieces = final()
        if state.skipping is not None:
            numbers = state.kept.head + np.arange(len(events))
            pieces = iter([state.skipping.remaining(pieces, events, numbers, budget)])
        for piece in pieces:
            yield _counted(writer.write(piece), budget)

    def _replayed(self, state: State, step: _Step) -> tuple[Events, Ints]:
        """Keep what is new, and give all that is kept, or what is kept of the partitions that have something new; with clocks."""
        assert state.kept is not None
        assert state.known is not None
        kept, by_partition = state.kept, replays_partitions(self._plan)
        if by_partition and state.members is None:
            state.members = PartitionMembers(self._plan.partition_by, kept)
        for number, (new, clocks, parts) in enumerate(step.new):
            rows = new.rows_of(state.known.needs.types)
            if parts is not None:
                rows = rows[parts[rows] >= 0]
            if number >= step.n_kept:
                first = kept.append(new, clocks, rows)
                if state.members is not None:
                    state.members.append(new.take(rows), first)
        if state.members is None:
            return kept.events, kept.clocks
        rows = state.members.beside([new for new, _, _ in step.new]) if step.new else NONE_FOUND
        return kept.take(rows) if len(rows) else state.known.none, kept.clocks_of(rows)

    # ------------------------------------------------------------ forgetting

    def _purge(self, state: State) -> None:
        """Forget what no later match can bind or be cancelled by."""
        kept, chains, counted = state.kept, state.chains, state.counted
        assert kept is not None
        assert state.known is not None
        needs = state.known.needs
        by_number = counted is not None and self._plan.window.counts_events
        if state.skipping is not None and len(state.skipping) > 2 * len(kept) + SLACK:
            events = kept.events
            state.skipping = state.skipping.marked(events, kept.head, state.skipping.marks(events, kept.head))
        if by_number and self._plan.partition_by:
            self._purge_partitions(state)
            return
        newest = int(counted.counts[0]) if by_number and counted is not None else state.decided
        kept.drop_upto(max(newest - needs.back, LOWEST), not by_number)
        if state.views is not None:
            state.views.drop(max(newest - needs.back, LOWEST))
        if state.members is not None:
            state.members.drop(max(newest - needs.back, LOWEST))
            if state.members.n_codes > 2 * len(kept) + SLACK:
                state.members = None
        if counted is not None and len(counted.keys) > 2 * len(kept) + SLACK:
            counted.keep(np.unique(counted.code(kept.events)))
        if chains is not None:
            chains.drop(max(newest - needs.window, LOWEST))
            if chains.n_codes > 2 * len(kept) + SLACK:  # keys come and go: those that are gone are forgotten
                state.chains = None

    def _purge_partitions(self, state: State) -> None:
        """The same where each partition has its own numbers: looked through once there may be as much to forget as to keep."""
        kept, counted = state.kept, state.counted
        assert kept is not None
        assert counted is not None
        assert state.known is not None
        if len(kept) <= 2 * state.n_live + SLACK and len(counted.keys) <= 2 * len(kept) + SLACK:
            return
        events, numbers = kept.events, kept.clocks
        codes = counted.code(events)
        live = numbers > minus(counted.counts[codes], state.known.needs.back)
        if state.skipping is not None:  # whose rows have other numbers now
            alive = events.take(np.flatnonzero(live))
            state.skipping = state.skipping.marked(alive, 0, state.skipping.marks(events, kept.head)[live])
        state.kept = Kept(state.known.none)
        state.kept.append(events, numbers, np.flatnonzero(live))
        state.n_live, state.chains, state.members = len(state.kept), None, None
        counted.keep(np.unique(codes[live]))


class _New(NamedTuple):
    """New events with their clocks and, where events are counted, their partitions."""

    events: Events
    clocks: Ints
    parts: Ints | None


def _numbered(events: Events, counted: Partitions | None) -> _New:
    if counted is None:
        return _New(events, events.times, None)
    parts = counted.code(events)
    return _New(events, counted.number(parts), parts)


@dataclass(slots=True)
class _Step:
    """What a step decides, and the events that are new in it, of which the first may be kept already."""

    upto: int
    final: bool
    new: list[_New]
    n_kept: int = 0

    @property
    def parts(self) -> Ints:
        """The partitions of all new events, where events are counted."""
        return np.concatenate([NONE_FOUND, *(parts for _, _, parts in self.new if parts is not None)])


def _resumed(state: State, kept: Events, clocks: Ints, waiting: Events, decided: int) -> State:
    assert state.kept is not None
    state.kept.append(kept, clocks)
    state.waiting, state.decided = [waiting] if len(waiting) else [], decided
    return state


def _written(state: State, found: Iterator[Ints], read: Callable[[Ints, Evaluator], Instances], budget: Budget) -> list[pa.Table]:
    """Matches as tables, from the numbers of their rows, which `read` knows how to look at; their events alone are put together."""
    assert state.known is not None
    assert state.kept is not None
    tables = []
    for rows in found if state.skipping is None else _as_one(found, budget):
        events, numbers, places = state.kept.placed(rows)
        evaluator = Evaluator(events)
        piece = read(places, evaluator)
        if state.skipping is not None:
            piece = state.skipping.remaining(iter([piece]), events, numbers, budget)
        tables.append(_counted(state.known.writer.over(events, evaluator).write(piece), budget))
    return tables


def _as_one(found: Iterator[Ints], budget: Budget) -> list[Ints]:
    """Pieces, of which each is overwritten by the next, as one; none where there are none."""
    held = []
    for rows in found:
        budget.hold(rows.nbytes)
        held.append(rows.copy())
    return [np.concatenate(held, axis=1)] if held else []


def _counted(table: pa.Table, budget: Budget) -> pa.Table:
    budget.find(len(table))
    if budget.limits.max_state_bytes is not None:
        budget.hold(table.get_total_buffer_size())
    return table


def _held(pieces: Iterator[pa.Table], budget: Budget) -> pa.Table:
    """Pieces as one table, as far as there is room to keep them."""
    return pa.concat_tables([_counted(table, budget) for table in pieces])


def _counts(counted: Partitions | None, events: Events, new: Ints) -> tuple[Ints, Ints]:
    """How many events of its partition there were for every event kept: now, and at the last decision."""
    if counted is None:
        return NONE_FOUND, NONE_FOUND
    codes, counts = counted.code(events), counted.counts
    before = counts - np.bincount(new[new >= 0], minlength=len(counts))
    return counts[codes], before[codes]


def _ready(batch: Batch, piece: Instances, begins: Ints, upto: int, counts: Ints) -> Mask:
    """Matches whose window is over, which began at these clocks: no event can come any more that lies in it."""
    if not batch.counts_events:
        return plus(begins, batch.window) - 1 <= upto
    return (batch.events.times[piece.last_rows] <= upto) & (plus(begins, batch.window) <= counts[piece.first_rows])
