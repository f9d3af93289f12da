"""Matches of one query from those of another: joins and filters over arrays of row numbers.

Matches are kept as pieces, matrices with a row per slot and a column per match. Going down, a piece is filtered by types, by
what must not be there and by predicates, and joined with one more component at a time: the events that fit between two bound
ones are a range of that component's rows, so a join writes each result once and looks at no other. Going up, a piece whose
slots all stay is handed on as it is, without a copy; one that loses a slot keeps, of the matches that differ in that slot
alone, the one with the nearest event.

Where a range begins or ends hangs on one bound event only, so for many matches it is looked up once per event instead of per
match.

Cost: linear in the matches taken over and in those written, plus a search per event (or per match, where these are fewer).
Invariant: within one query a match is in one piece once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal as OneOf

import numpy as np
import pyarrow as pa

from seqube.engine.evaluation import PIECE, Evaluation
from seqube.engine.instances import Batch, Instances, minus, plus
from seqube.engine.jit import kernel
from seqube.engine.keys import column_codes, event_numbers, named_columns, partition_codes
from seqube.engine.limits import NO_LIMITS, Budget, Limits
from seqube.engine.output import MatchWriter
from seqube.engine.predicates import Evaluator, Ints, Mask, code_columns
from seqube.engine.sequence import HIGHEST, LOWEST, by_code
from seqube.engine.slices import Slices, StreamSlice
from seqube.events import Events, Hierarchy
from seqube.language.tree import Attribute, Query, Value, Window
from seqube.plan.chase import SharedPlan, SharedStep, planned
from seqube.plan.derivation import Derivation, Dropped, Forbid, Join, Keep, Narrow, Widen
from seqube.plan.physical import MatchPlan, Scan, ticks
from seqube.plan.slices import Cut, cut_of
from seqube.threads import spread

SLICES = 5
SAMPLED_EVENTS = 5_000  # events looked at to see how many matches a stream has

Place = OneOf["after", "until", "window start", "window end"]


@dataclass(frozen=True, slots=True)
class Matches:
    """The matches of one query: pieces of shape (n_slots, n)."""

    pieces: tuple[Ints, ...] = ()

    def __len__(self) -> int:
        return sum(piece.shape[1] for piece in self.pieces)

    @property
    def n_slots(self) -> int:
        return self.pieces[0].shape[0] if self.pieces else 0

    def whole(self) -> Ints:
        """All pieces as one."""
        if len(self.pieces) == 1:
            return self.pieces[0]
        return np.concatenate(self.pieces, axis=1) if self.pieces else np.empty((0, 0), np.int64)

    def instances(self, variables: Sequence[str]) -> Iterable[Instances]:
        """The pieces as the rest of the engine knows them."""
        for piece in self.pieces:
            yield Instances(dict(zip(variables, piece, strict=True)), piece[0], piece[-1])

    def select(self, masks: Iterable[Mask]) -> Matches:
        return _pieces(choose(piece, mask) for piece, mask in zip(self.pieces, masks, strict=True))


def matrix(n_slots: int, n: int) -> Ints:
    """Room for matches, from Arrow's pool: it keeps what it is given back, where NumPy would pay for every page again."""
    cells = n_slots * n
    return np.frombuffer(pa.allocate_buffer(8 * max(cells, 1)), np.int64)[:cells].reshape(n_slots, n)


def choose(rows: Ints, which: Ints | Mask) -> Ints:
    """Some of the matches, by their numbers or by a mask."""
    numbers = np.flatnonzero(which) if which.dtype == np.bool_ else which
    return rows.take(numbers, axis=1, out=matrix(len(rows), len(numbers)), mode="clip")  # numbers in range: no copy to check them


def _pieces(pieces: Iterable[Ints]) -> Matches:
    return Matches(tuple(piece for piece in pieces if piece.shape[1]))


class Sharing:
    """Computes and derives matches that end in (after, upto], over one batch, by several threads where it is a whole stream."""

    def __init__(self, batch: Batch, after: int = LOWEST, upto: int = HIGHEST, threads: int = 1) -> None:
        self._batch, self._threads = batch, threads
        self._ends = (after, upto)
        self._times, self._clocks = batch.events.times, batch.clocks
        self.evaluator = Evaluator(batch.events)

    def compute(self, plan: MatchPlan) -> Matches:
        """The matches of a plan by itself."""
        events, whole = self._batch.events, (LOWEST, HIGHEST)
        cut = cut_of(plan, events.unit, events.statistics) if self._ends == whole else Cut(1)
        if cut.by != "time":
            return _pieces(self._stack(plan, piece) for piece in Evaluation(plan, self._batch, *self._ends).matches())
        makers = Slices(plan, events, cut, np.arange(len(events))).makers
        found = spread(lambda make: self._of_slice(plan, make()), makers, self._threads)
        return Matches(tuple(piece for pieces in found for piece in pieces))

    def _of_slice(self, plan: MatchPlan, part: StreamSlice) -> list[Ints]:
        """The matches that a slice of the batch owns, by their rows in the batch."""
        batch, rows = self._batch, part.numbers
        assert rows is not None
        if not len(rows):
            return []
        own = slice(int(rows[0]), int(rows[-1]) + 1)
        partitions = None if batch.partitions is None else batch.partitions[own]
        sliced = replace(batch, events=part.events, clocks=batch.clocks[own], partitions=partitions)
        pieces = Evaluation(plan, sliced, part.after, part.upto).matches()
        return [np.add(stacked, own.start, out=stacked) for stacked in (self._stack(plan, piece) for piece in pieces)]

    def _stack(self, plan: MatchPlan, piece: Instances) -> Ints:
        return np.stack([piece.single_rows[name] for name in plan.variables], out=self._room(len(plan.variables), len(piece)))

    def _room(self, n_slots: int, n: int) -> Ints:
        self._batch.budget.hold(8 * n_slots * n)
        return matrix(n_slots, n)

    def derive(self, derivation: Derivation, source: Matches) -> Matches:
        """The target's matches. Where they end later than the source's, `source` holds all that ended in the window before."""
        if len(source) <= PIECE:
            source = _pieces([source.whole()])  # few matches, kept from several batches, cost less as one piece
        for step in derivation:
            source = self._narrow(step, source) if isinstance(step, Narrow) else self._widen(step, source)
        return source

    # ------------------------------------------------------------ downwards

    def _narrow(self, step: Narrow, source: Matches) -> Matches:
        have = [slot for slot, taken in enumerate(step.slots) if taken is not None]
        taken = [slot for slot in step.slots if slot is not None]
        if any(isinstance(part, Join) and (part.key or self._batch.partitions is not None) for part in step.steps):
            source = _pieces([source.whole()])  # keys are coded once for all
        lookups = _Lookups(self._batch, many=len(source) > len(self._times) // 16)
        filters = self._type_masks(step, have)

        def narrowed(piece: Ints) -> Ints:
            rows = piece if taken == list(range(len(piece))) else piece[taken]
            if filters is not None:
                rows = choose(rows, select_types(rows, *filters))
            if step.shorter:
                rows = choose(rows, self._clocks[rows[-1]] - self._clocks[rows[0]] < self._batch.window)
            return self._steps(step, rows, list(have), lookups)

        return _pieces(spread(narrowed, source.pieces, self._threads))

    def _type_masks(self, step: Narrow, have: list[int]) -> tuple[Ints, Mask] | None:
        """Which rows of the matrix to look at, and which events are of the types they must be."""
        if not step.retyped:
            return None
        masks = np.zeros((len(step.retyped), len(self._times)), np.bool_)
        for mask, (_, types) in zip(masks, step.retyped, strict=True):
            mask[self._batch.events.rows_of(types)] = True
        return np.array([have.index(slot) for slot, _ in step.retyped], np.int64), masks

    def _steps(self, step: Narrow, rows: Ints, have: list[int], lookups: _Lookups) -> Ints:
        names = [component.variable for component in step.gives.positives]
        for part in step.steps:
            self._batch.budget.check()
            if not rows.shape[1]:
                return np.empty((len(names), 0), np.int64)
            match part:
                case Keep(predicate):
                    bound = {names[slot]: column for slot, column in zip(have, rows, strict=True)}
                    rows = choose(rows, self.evaluator.true([predicate], bound, rows.shape[1]))
                case Forbid():
                    rows = choose(rows, ~self._is_there(part, rows, have, lookups))
                case Join():
                    rows = self._join(part, rows, have, names, lookups)
                    have = sorted([*have, part.slot])
        return rows

    def _join(self, part: Join, rows: Ints, have: list[int], names: list[str], lookups: _Lookups) -> Ints:
        # Only the last component must be new: what comes before it may have been there when the matches before were found.
        ends_here = part.slot == len(names) - 1
        members = self._scan(part.scan, ends_here)
        columns = dict(zip(have, rows, strict=True))
        asked = None
        if part.key or self._batch.partitions is not None:
            bound = {names[slot]: column for slot, column in columns.items()}
            (asked, codes), n_codes = self._join_keys(part, bound, rows, members)
            series = _Series.grouped(members, (part.scan, ends_here), codes, n_codes)
        else:
            series = _Series(members, (part.scan, ends_here))
        if part.left is None:
            begins = lookups.find(series, "window start", rows[-1], asked)
        else:
            begins = lookups.find(series, "after", columns[part.left], asked)
        if part.right is None:
            ends = lookups.find(series, "window end", rows[0], asked)
        else:
            ends = lookups.find(series, "until", columns[part.right], asked)
        found = self._room(len(rows) + 1, int(np.maximum(ends - begins, 0).sum()))
        join_ranges(rows, begins, ends, series.rows, sum(slot < part.slot for slot in have), found)
        return found

    def _join_keys(self, part: Join, bound: Mapping[str, Ints], rows: Ints, members: Ints) -> tuple[list[Ints], int]:
        """The keys of matches and of what may join them as codes, and how many there are."""
        keys: list[tuple[Value, Value, pa.Array]] = []
        for inner, outer in part.key:
            values = self.evaluator.array(outer, bound, rows.shape[1])
            # Equal keys say of every event before that theirs is the same: once is enough.
            if not any(inner == known and values.equals(same) for known, _, same in keys):
                keys.append((inner, outer, values))
        partitions = self._batch.partitions
        if partitions is None and len(keys) == 1:
            ((inner, outer, _),) = keys
            names = named_columns([[inner], [outer]])
            known = None
            if names is not None and isinstance(outer, Attribute):
                known = column_codes(self._batch.events, names, [bound[outer.variable or ""], members])
            if known is not None:
                return known
        outers = [values for _, _, values in keys]
        inners = [self.evaluator.array(inner, {part.scan.variable: members}, len(members)) for inner, _, _ in keys]
        if partitions is not None:
            outers.append(pa.array(partitions[rows[0]]))
            inners.append(pa.array(partitions[members]))
        return code_columns([outers, inners])

    def _is_there(self, part: Forbid, rows: Ints, have: list[int], lookups: _Lookups) -> Mask:
        """For which matches there is an event in the gap."""
        members = self._scan(part.scan)
        partitions = self._batch.partitions
        asked = None
        series = _Series(members, (part.scan, False))
        if partitions is not None:
            series = _Series.grouped(members, series.members, partitions[members], int(partitions.max(initial=-1)) + 1)
            asked = partitions[rows[0]]
        columns = dict(zip(have, rows, strict=True))
        left = None if part.gap == 0 else columns[part.gap - 1]
        right = columns.get(part.gap)
        begins = lookups.find(series, "after", left, asked) if left is not None else None
        ends = lookups.find(series, "until", right, asked) if right is not None else None
        if begins is None:
            begins = lookups.find(series, "window start", rows[-1], asked)
        if ends is None:
            ends = lookups.find(series, "window end", rows[0], asked)
        there: Mask = begins < ends
        return there

    def _scan(self, scan: Scan, ends_here: bool = False) -> Ints:
        ends_anywhere = not ends_here or self._ends == (LOWEST, HIGHEST)
        return self._batch.scan(scan, self.evaluator, None if ends_anywhere else self._ends_here)

    def _ends_here(self, rows: Ints) -> Mask:
        times = self._times[rows]
        return (times > self._ends[0]) & (times <= self._ends[1])

    # ------------------------------------------------------------ upwards

    def _widen(self, step: Widen, source: Matches) -> Matches:
        if source.pieces and len(step.slots) < source.n_slots:
            if step.dropped is not None:
                source = self._nearest(step.dropped, step.slots, source)
            else:
                source = _pieces([distinct_matches(step.slots, source.whole())])
        pieces = list(source.pieces)
        for delta in step.deltas:
            found = self.compute(delta.plan)
            if delta.present:
                lookups = _Lookups(self._batch, many=len(found) > len(self._times) // 16)
                slots = list(range(len(step.slots)))
                found = found.select(
                    np.logical_or.reduce([self._is_there(part, piece, slots, lookups) for part in delta.present])
                    for piece in found.pieces
                )
            pieces += found.pieces
        return _pieces(pieces)

    def _nearest(self, dropped: Dropped, slots: Sequence[int], source: Matches) -> Matches:
        series = _Series(self._scan(dropped.scan), (dropped.scan, False))
        lookups = _Lookups(self._batch, many=len(source) > len(self._times) // 16)
        found = []
        for piece in source.pieces:
            if dropped.after is not None:
                nearest = lookups.find(series, "after", piece[dropped.after])
            else:
                assert dropped.before is not None
                nearest = lookups.find(series, "until", piece[dropped.before]) - 1
            found.append(choose(piece[list(slots)], series.rows[nearest] == piece[dropped.slot]))
        return _pieces(found)


def distinct_matches(slots: Sequence[int], rows: Ints) -> Ints:
    """Matches without some of their slots, each once."""
    rows = rows[list(slots)]
    rows = choose(rows, np.lexsort(rows))
    new = np.ones(rows.shape[1], np.bool_)
    new[1:] = (rows[:, 1:] != rows[:, :-1]).any(axis=0)
    return choose(rows, new)


# ---------------------------------------------------------------- ranges of events

_Members = tuple[Scan, bool]  # which rows: those of a scan, of the whole batch or only of the times that are being decided


@dataclass(frozen=True, slots=True)
class _Series:
    """Rows of one component in time order; with keys, key after key, those of key k from groups[k]."""

    rows: Ints
    members: _Members
    groups: Ints | None = None

    @staticmethod
    def grouped(rows: Ints, members: _Members, codes: Ints, n_codes: int) -> _Series:
        order, groups = by_code(codes, n_codes)
        return _Series(rows[order], members, groups)


@dataclass(slots=True)
class _Lookups:
    """Where in a series the events after (until, a window before, a window after) an event begin or end.

    For many matches the answer is looked up once for every event of the batch.
    """

    batch: Batch
    many: bool
    _tables: dict[tuple[_Members, Place], Ints] = field(default_factory=dict)

    def find(self, series: _Series, place: Place, rows: Ints, asked: Ints | None = None) -> Ints:
        if series.groups is not None:
            assert asked is not None
            values, bounds, right = self._question(series, place, rows)
            return search_groups(series.groups, values, asked, bounds, right)
        if not self.many:
            values, bounds, right = self._question(series, place, rows)
            return np.searchsorted(values, bounds, "right" if right else "left")
        key = (series.members, place)
        if key not in self._tables:
            self._tables[key] = merge_positions(*self._question(series, place, slice(None)))
        return self._tables[key][rows]

    def _question(self, series: _Series, place: Place, rows: Ints | slice) -> tuple[Ints, Ints, bool]:
        times, clocks = self.batch.events.times, self.batch.clocks
        match place:
            case "after":
                return times[series.rows], times[rows], True
            case "until":
                return times[series.rows], times[rows], False
            case "window start":
                return clocks[series.rows], minus(clocks[rows], self.batch.window), True
            case "window end":
                return clocks[series.rows], plus(clocks[rows], self.batch.window), False


@kernel
def merge_positions(values: Ints, bounds: Ints, right: bool) -> Ints:
    """Where each bound stands among the values; both ascend."""
    out = np.empty(len(bounds), np.int64)
    at = 0
    for q in range(len(bounds)):
        while at < len(values) and (values[at] < bounds[q] or (right and values[at] == bounds[q])):
            at += 1
        out[q] = at
    return out


@kernel
def search_groups(groups: Ints, values: Ints, asked: Ints, bounds: Ints, right: bool) -> Ints:
    """Binary search for many bounds, each among the values of its own key; a key without values gives 0."""
    out = np.zeros(len(asked), np.int64)
    for q in range(len(asked)):
        g = asked[q]
        if 0 <= g < len(groups) - 1:
            begin, end = groups[g], groups[g + 1]
            while begin < end:
                middle = (begin + end) // 2
                if values[middle] < bounds[q] or (right and values[middle] == bounds[q]):
                    begin = middle + 1
                else:
                    end = middle
            out[q] = begin
    return out


@kernel
def select_types(rows: Ints, slots: Ints, masks: Mask) -> Ints:
    """Numbers of the matches whose events in these slots are all in the mask of their slot."""
    chosen = np.empty(rows.shape[1], np.int64)
    count = 0
    for i in range(rows.shape[1]):
        fits = True
        for s in range(len(slots)):
            if not masks[s, rows[slots[s], i]]:
                fits = False
                break
        if fits:
            chosen[count] = i
            count += 1
    return chosen[:count]


@kernel
def join_ranges(rows: Ints, begins: Ints, ends: Ints, members: Ints, at: int, out: Ints) -> None:
    """Every match with each of its members (a range of `members`) as a new slot `at`."""
    n_slots, n = rows.shape
    for s in range(n_slots):
        to = s if s < at else s + 1
        write = 0
        for i in range(n):
            value = rows[s, i]
            for _ in range(begins[i], ends[i]):
                out[to, write] = value
                write += 1
    write = 0
    for i in range(n):
        for j in range(begins[i], ends[i]):
            out[at, write] = members[j]
            write += 1


# ---------------------------------------------------------------- a workload over a whole stream


def compute_shared(
    plan: SharedPlan, events: Events, limits: Limits = NO_LIMITS, threads: int = 1
) -> Iterator[tuple[SharedStep, Matches]]:
    """Every query with its matches, sources first. Matches are kept as long as others are made from them."""
    uses = {step.source: number for number, step in enumerate(plan.steps)}
    batches = Batches(events, limits.budget())
    kept: dict[str, Matches] = {}
    for number, step in enumerate(plan.steps):
        sharing = Sharing(batches.of(step.query), threads=threads)
        matches = sharing.compute(step.plan) if step.source is None else sharing.derive(step.derivation, kept[step.source])
        if uses.get(step.name, -1) > number:
            kept[step.name] = matches
        kept = {name: found for name, found in kept.items() if uses[name] > number}
        yield step, matches


def run_shared(plan: SharedPlan, events: Events, limits: Limits, threads: int = 1) -> dict[str, pa.Table]:
    """The result tables of the queries that share with another; those that do not are found like any query."""
    evaluator, found = Evaluator(events), compute_shared(plan.sharing, events, limits, threads)
    return {step.name: write_matches(step.plan, matches, events, evaluator, threads) for step, matches in found}


def write_matches(plan: MatchPlan, matches: Matches, events: Events, evaluator: Evaluator, threads: int = 1) -> pa.Table:
    writer = MatchWriter(plan, events, evaluator)
    pieces = list(matches.instances(plan.variables))
    return pa.concat_tables([writer.empty(), *spread(writer.write, pieces, threads)])


def sample_sizes(queries: Mapping[str, Query], events: Events, hierarchy: Hierarchy | None = None) -> dict[str, float]:
    """How many matches queries have in a long stream, by the matches in a sample of it; of a short one, nothing."""
    if len(events) < 10 * SAMPLED_EVENTS:
        return {}
    sizes: dict[str, float] = {}
    # Slices from all over the stream: events come in bursts, and one place says little about the others.
    length = SAMPLED_EVENTS // SLICES
    starts = [(2 * number + 1) * len(events) // (2 * SLICES) - length // 2 for number in range(SLICES)]
    slices = [Batches(events.slice(start, start + length)) for start in starts]
    for name, query in queries.items():
        batches = [batch.of(query) for batch in slices]
        if all(_is_long(batch) for batch in batches):
            plan = planned(query, hierarchy)
            found = sum(len(piece) for batch in batches for piece in Evaluation(plan, batch).matches())
            sizes[name] = max(found, 0.5) * len(events) / SAMPLED_EVENTS
    return sizes


def _is_long(batch: Batch) -> bool:
    """Whether a slice is so much longer than the window that few matches are cut off at its ends."""
    clocks = batch.clocks
    return bool(clocks[-1] - clocks[0] > 8 * batch.window)


@dataclass(slots=True)
class Batches:
    """The events as each query wants them; queries with equal windows and partitions share."""

    events: Events
    budget: Budget = field(default_factory=NO_LIMITS.budget)
    _made: dict[tuple[Window, tuple[str, ...]], Batch] = field(default_factory=dict)

    def of(self, query: Query) -> Batch:
        key = (query.window, query.partition_by)
        if key not in self._made:
            self._made[key] = replace(batch_of(query, self.events), budget=self.budget)
        return self._made[key]


def batch_of(query: Query, events: Events) -> Batch:
    """The events with the clock and the partitions that a query asks for."""
    partitions = partition_codes(events, query.partition_by)
    clocks = events.times
    if query.window.counts_events:
        clocks = event_numbers(events, query.partition_by)
    return Batch(events, ticks(query.window, events.unit), clocks, partitions)
