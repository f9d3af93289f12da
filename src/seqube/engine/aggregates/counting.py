"""What the counters of lanes mean: samples brought to cells, weights, and exact numbers.

A kernel gives the window's value at samples. Where a group is one lane, samples are the group's cells; where it is many, samples
are the moments at which a lane changes, and a binary tree over the lanes adds them up as time goes by.

Counts run in doubles, which never wrap: below 2^53 they are exact. Beyond that they are computed again, modulo 2^64 and, if they
leave 64 bits, modulo as many primes as their size asks for. Sums of whole numbers go the second and third way from the start.

Cost: the kernel once per measure, and once more for every modulus.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import NamedTuple, assert_never

import numpy as np
import pyarrow as pa

from seqube.engine.aggregates.aggregation import Answer, Cells, Floats, Task, distinct_cells
from seqube.engine.aggregates.automaton import Automaton, automaton, gap_rank, needs_layer, slot_rank, tied_rank
from seqube.engine.aggregates.columns import SumOverEvents, sum_over_events
from seqube.engine.aggregates.grouped_product import count_groups
from seqube.engine.aggregates.lanes import Lanes, Maps, Numbers, Ring, Samples, make_lanes, plus
from seqube.engine.aggregates.measured import PRIMES, Measured, count_too_long, from_residues, whole_numbers
from seqube.engine.aggregates.measures import Collected, Count, Extreme, Sum, means
from seqube.engine.aggregates.undoing_product import Words, count_and_undo
from seqube.engine.aggregates.window_product import slide
from seqube.engine.jit import kernel
from seqube.engine.numbers import EXACT
from seqube.engine.predicates import Ints, Mask
from seqube.engine.sequence import HIGHEST, LOWEST
from seqube.language.tree import Attribute, Value
from seqube.plan.aggregates import Measure, can_be_taken_back, chain_of
from seqube.plan.chains import EventChain

DOUBLES = Ring(1.0, 0.0)
WORDS = Ring(np.uint64(1), np.uint64(0))  # modulo 2^64, by wrapping
EXTREMES = Ring(0.0, np.inf, tropical=1)

ByRow = Mapping[str, Callable[[int | None], Ints]]  # of variables, the numbers of all rows modulo a prime, or 2^64

# maps, weights, samples, ring, automaton, leading, (after, upto), own, bell, values, news: see `window_product.slide`
Kernel = Callable[[Maps, Numbers | None, Samples, Ring, Automaton, int, tuple[int, int], bool, Ints, Numbers, Numbers], None]


def aggregate_chain(task: Task, run: Kernel) -> Answer:
    """Answer a task with a kernel that counts; where lanes would hold too many events, by building the matches."""
    chain = chain_of(task.plan)
    assert isinstance(chain, EventChain), "the plan chooses this strategy for chains only"
    if run is slide and (grouped := count_groups(task, chain)) is not None:
        return grouped
    lanes = make_lanes(task, chain)
    if lanes is None:
        return _aggregate_matches(task)
    sums = {argument: sum_over_events(argument, task.batch.events) for argument in task.of_matches}
    taken_apart = {argument: found for argument, found in sums.items() if not isinstance(found, str)}
    if len(taken_apart) < len(sums):
        return _aggregate_matches(task)
    counter = _Once(task, chain, lanes, run) if task.plan.emit.counts_once else _Shared(task, chain, lanes, run)
    return _Measures(counter, taken_apart).answer()


def _aggregate_matches(task: Task) -> Answer:
    from seqube.engine.aggregates.two_step import aggregate_matches

    return aggregate_matches(task)


class RowWeights(NamedTuple):
    """What the events of variables weigh, for every row. Of several, each is one event in every match."""

    by_row: Mapping[str, Numbers]

    @property
    def variable(self) -> str | None:
        """The variable, if there is one alone: it may be that of a list."""
        return next(iter(self.by_row)) if len(self.by_row) == 1 else None


class _Counter(ABC):
    """Runs a kernel over lanes and brings its samples to cells. `settle` finds the cells with the first count."""

    def __init__(self, task: Task, chain: EventChain, lanes: Lanes, run: Kernel) -> None:
        self.task, self.chain, self.lanes = task, chain, lanes
        self._run = run
        self._automata: dict[str | None, Automaton] = {}
        self.firsts = (
            np.flatnonzero(np.concatenate(([True], lanes.groups[1:] != lanes.groups[:-1])))
            if len(lanes.groups)
            else np.empty(0, np.int64)
        )
        self.samples = self._samples()
        self.cells, self.counts = self._settle()

    @abstractmethod
    def _samples(self) -> Samples:
        """When to sample every lane."""

    @abstractmethod
    def _settle(self) -> tuple[Cells, Floats]:
        """The cells, and the count of each."""

    @abstractmethod
    def at_cells(self, weighed: RowWeights | None, ring: Ring) -> Numbers:
        """The measure for every cell: how many matches or, `weighed`, what the events of a variable are together."""

    def automaton(self, variable: str | None) -> Automaton:
        """The maps that count matches, or pairs of a match and an event of this variable in it."""
        marked = (variable,) if variable is not None and needs_layer(self.chain, variable) else ()
        wanted = variable if marked else None
        if wanted not in self._automata:
            self._automata[wanted] = automaton(self.chain, marked, counts=not marked, ties=self.lanes.has_ties)
        return self._automata[wanted]

    def run(self, weighed: RowWeights | None, ring: Ring, news: bool) -> tuple[Numbers, Numbers]:
        size = len(self.samples.times)
        kind = np.array(ring.zero).dtype
        values, fresh = np.full(size, ring.zero, kind), np.full(size if news else 0, ring.zero, kind)
        span, own = self.span, self.task.plan.emit.counts_once and self.chain.has_trailing
        maps = self.automaton(None if weighed is None else weighed.variable)
        weights, leading = self._weights(weighed, ring), gap_rank(len(self.chain.slots), 0)
        with self.task.batch.budget.bell() as bell:
            self._run(self.lanes.maps, weights, self.samples, ring, maps, leading, span, own, bell, values, fresh)
        return values, fresh

    @property
    def span(self) -> tuple[int, int]:
        """Which ends are new: those in (after, upto]."""
        total = self.task.plan.emit.counts_once
        return (LOWEST, HIGHEST) if total and self.task.batch.counts_events else (self.task.after, self.task.upto)

    def _weights(self, weighed: RowWeights | None, ring: Ring) -> Numbers | None:
        """One for every map, but for those of the slots of these variables."""
        if weighed is None:
            return None
        n, ranks = len(self.chain.slots), self.lanes.maps.ranks
        weights = np.full(len(ranks), ring.one, np.array(ring.one).dtype)
        for number, slot in enumerate(self.chain.slots):
            if slot.variable in weighed.by_row:
                here = np.isin(ranks, (slot_rank(n, number), tied_rank(n, number)))
                weights[here] = weighed.by_row[slot.variable][self.lanes.rows[here]]
        return weights


class _Once(_Counter):
    """TOTAL and PER: all that ends (or, with a trailing negation, outlives its window), per group; with PER, and bucket.

    What ended in a bucket is new at a sample with its last end, if the one before is that of the bucket before.
    """

    def _samples(self) -> Samples:
        n_lanes = len(self.lanes.groups)
        if self.task.plan.emit.when == "total":
            self._moments = np.zeros(n_lanes, np.int64)
            return Samples(np.arange(n_lanes + 1), np.full(n_lanes, HIGHEST))
        ends = np.flatnonzero(self.automaton(None).ends[self.lanes.maps.ranks])
        lanes, starts = self.lanes.of_maps[ends], self.task.bucket_starts[self.lanes.rows[ends]]
        last = np.ones(len(ends), np.bool_)
        last[:-1] = (lanes[1:] != lanes[:-1]) | (starts[1:] != starts[:-1])
        self._moments = np.searchsorted(self.task.moments, starts[last])
        return Samples(np.searchsorted(lanes[last], np.arange(n_lanes + 1)), self.lanes.maps.times[ends[last]])

    def _settle(self) -> tuple[Cells, Floats]:
        groups = np.repeat(self.lanes.groups, np.diff(self.samples.offsets))
        self._order = np.lexsort((self._moments, groups))
        groups, moments = groups[self._order], self._moments[self._order]
        self._firsts = np.flatnonzero(np.append(True, (groups[1:] != groups[:-1]) | (moments[1:] != moments[:-1]))[: len(groups)])
        if self.task.is_given:
            self._keep = np.ones(len(self._firsts), np.bool_)
            return self.task.given, self.at_cells(None, DOUBLES)
        sums = self._sums(None, DOUBLES)
        self._keep = sums != 0
        kept = self._firsts[self._keep]
        return Cells(groups[kept], moments[kept]), sums[self._keep]

    @cached_property
    def _words(self) -> tuple[Words, float] | None:
        """The counts modulo 2^64 by what lies in the window, and what they are at most together; None where those are no help."""
        if self._run is not slide or not can_be_taken_back(self.task.plan, self.chain):
            return None
        counts, bounds = np.zeros(len(self.samples.times), np.uint64), np.zeros(len(self.samples.times))
        with self.task.batch.budget.bell() as bell:
            count_and_undo(self.lanes.maps, self.samples, len(self.chain.slots), self.span, bell, counts, bounds)
        return counts, float(bounds.sum())

    def _news(self, weighed: RowWeights | None, ring: Ring) -> Numbers:
        if weighed is None and self._words is not None:
            counts, bound = self._words
            if ring is WORDS:
                return counts
            if ring is DOUBLES and bound < EXACT:
                return counts.astype(np.float64)
        return self.run(weighed, ring, news=True)[1]

    def _sums(self, weighed: RowWeights | None, ring: Ring) -> Numbers:
        news = self._news(weighed, ring)[self._order]
        if not len(news):
            return news
        if ring.tropical is not None:
            return np.minimum.reduceat(news, self._firsts)
        sums = np.add.reduceat(news, self._firsts)
        return sums if ring.modulus is None else sums % ring.modulus

    def at_cells(self, weighed: RowWeights | None, ring: Ring) -> Numbers:
        sums = self._sums(weighed, ring)
        if self.task.is_given and not len(sums):
            return np.full(1, ring.zero, np.array(ring.zero).dtype)
        return sums[self._keep]


class _Shared(_Counter):
    """ON TRIGGER and EVERY: the value of a group is sampled at its cells, or put together from its lanes."""

    @cached_property
    def _is_single(self) -> bool:
        return len(self.firsts) == len(self.lanes.groups)

    @property
    def _sample_lanes(self) -> Ints:
        return np.repeat(np.arange(len(self.lanes.groups)), np.diff(self.samples.offsets))

    def _samples(self) -> Samples:
        task, maps, groups = self.task, self.lanes.maps, self.lanes.groups
        report = task.plan.report
        if self._is_single and report == "given":
            begin, end = np.searchsorted(task.given.groups, groups), np.searchsorted(task.given.groups, groups, "right")
            self._places = _ranges(begin, end)
            return Samples(_offsets(end - begin), task.moments[task.given.moments[self._places]])
        if self._is_single and report == "present":
            begin = np.searchsorted(task.moments, maps.times[maps.offsets[:-1]])
            ends = np.maximum.reduceat(maps.untils, maps.offsets[:-1]) if len(groups) else begin
            end = np.searchsorted(task.moments, ends)
            self._places = _ranges(begin, end)
            return Samples(_offsets(end - begin), task.moments[self._places])
        counts, lanes = self.automaton(None), self.lanes.of_maps
        if self._is_single:
            ends = counts.ends[maps.ranks] & (maps.times > task.after) & (maps.times <= task.upto)
            return _distinct_samples(lanes[ends], maps.times[ends], len(groups))
        changed = counts.changes[maps.ranks]
        starts = counts.begins[maps.ranks] | (maps.ranks == gap_rank(len(self.chain.slots), 0))
        changes = np.concatenate([maps.times[changed], maps.untils[starts]])
        return _distinct_samples(np.concatenate([lanes[changed], lanes[starts]]), changes, len(groups))

    def _settle(self) -> tuple[Cells, Floats]:
        task, report = self.task, self.task.plan.report
        values, news = self.run(None, DOUBLES, news=report == "new")
        groups = self.lanes.groups[self._sample_lanes]
        if report == "given":
            cells = task.given
        elif report == "new":
            cells = distinct_cells(groups[news > 0], np.searchsorted(task.moments, self.samples.times[news > 0]))
        elif self._is_single:
            cells = Cells(groups, self._places)
        else:
            cells = self._candidates(groups)
        if self._is_single:
            self._keep = news > 0 if report == "new" else np.ones(len(values), np.bool_)
        else:
            self._order = np.lexsort((self.samples.times, groups))
            self._change_firsts = np.searchsorted(groups[self._order], self.lanes.groups[self.firsts])
            self._change_firsts = np.append(self._change_firsts, len(groups))
        counts = self._bring(values, DOUBLES, cells)
        if report != "present":
            return cells, counts
        self._present = counts > 0
        return Cells(cells.groups[self._present], cells.moments[self._present]), counts[self._present]

    def _candidates(self, groups: Ints) -> Cells:
        """All moments from the first change of a group to its last."""
        order = np.lexsort((self.samples.times, groups))
        found, first, count = np.unique(groups[order], return_index=True, return_counts=True)
        times = self.samples.times[order]
        begin, end = np.searchsorted(self.task.moments, times[first]), np.searchsorted(self.task.moments, times[first + count - 1])
        return Cells(np.repeat(found, end - begin), _ranges(begin, end))

    def at_cells(self, weighed: RowWeights | None, ring: Ring) -> Numbers:
        values, _ = self.run(weighed, ring, news=False)
        if self.task.plan.report != "present":
            return self._bring(values, ring, self.cells)
        candidates = (
            Cells(self.lanes.groups[self._sample_lanes], self._places)
            if self._is_single
            else self._candidates(self.lanes.groups[self._sample_lanes])
        )
        return self._bring(values, ring, candidates)[self._present]

    def _bring(self, values: Numbers, ring: Ring, cells: Cells) -> Numbers:
        """Samples to cells."""
        if self._is_single:
            if self.task.plan.report != "given":
                return values[self._keep]
            out = np.full(len(cells), ring.zero, values.dtype)
            out[self._places] = values
            return out
        out = np.full(len(cells), ring.zero, values.dtype)
        known = self.lanes.groups[self.firsts]
        begin, end = np.searchsorted(cells.groups, known), np.searchsorted(cells.groups, known, "right")
        lane_firsts = np.append(self.firsts, len(self.lanes.groups))
        changes = Changes(lane_firsts, self._change_firsts, self._order, self._sample_lanes, self.samples.times)
        combine(changes, values, ring, begin, end, self.task.moments[cells.moments], out)
        return out


def _offsets(counts: Ints) -> Ints:
    return np.concatenate(([0], np.cumsum(counts))).astype(np.int64)


def _ranges(begin: Ints, end: Ints) -> Ints:
    """The numbers begin .. end - 1 of every pair, behind each other."""
    counts = end - begin
    numbers: Ints = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts - begin, counts)
    return numbers


def _distinct_samples(lanes: Ints, times: Ints, n_lanes: int) -> Samples:
    pairs = distinct_cells(lanes, times)
    return Samples(np.searchsorted(pairs.groups, np.arange(n_lanes + 1)), pairs.moments)


# ---------------------------------------------------------------- many lanes to a group


class Changes(NamedTuple):
    """The samples of all lanes as changes, by (group, time) in `order`; group g begins at `firsts[g]`, its lanes at `lanes[g]`."""

    lanes: Ints
    firsts: Ints
    order: Ints
    lane_of: Ints
    times: Ints


@kernel
def combine(changes: Changes, values: Numbers, ring: Ring, begin: Ints, end: Ints, moments: Ints, out: Numbers) -> None:
    """The value of every group at its cells (begin[g] .. end[g] - 1): the root of a tree over its lanes, never subtracted from."""
    _, zero, tropical, modulus = ring
    for g in range(len(begin)):
        width = 1
        while width < changes.lanes[g + 1] - changes.lanes[g]:
            width *= 2
        tree = np.full(2 * width, zero, values.dtype)
        c = changes.firsts[g]
        for cell in range(begin[g], end[g]):
            while c < changes.firsts[g + 1] and changes.times[changes.order[c]] <= moments[cell]:
                change = changes.order[c]
                node = width + changes.lane_of[change] - changes.lanes[g]
                tree[node] = values[change]
                while node > 1:
                    node //= 2
                    tree[node] = plus(tree[2 * node], tree[2 * node + 1], tropical, modulus)
                c += 1
            out[cell] = tree[1]


# ---------------------------------------------------------------- measures


class _Measures:
    """Every measure of a plan from a counter, exact where it is a whole number."""

    def __init__(self, counter: _Counter, sums: Mapping[Value, SumOverEvents]) -> None:
        self._counter, self._sums = counter, sums
        self._sizes: dict[Value, Floats] = {}  # about how many values of an argument each cell has
        self._found: dict[Measure, pa.Array] = {}

    def answer(self) -> Answer:
        return Answer(self._counter.cells, {measure: self.of(measure) for measure in self._counter.task.plan.measures})

    def of(self, measure: Measure) -> pa.Array:
        """A measure; what it needs is measured when it is asked for, so that their order does not matter."""
        if measure not in self._found:
            self._found[measure] = self._measure(measure)
        return self._found[measure]

    def _measure(self, measure: Measure) -> pa.Array:
        row, argument = means(measure.function), measure.argument
        if argument is None:
            counts = self._counter.counts
            is_exact = isinstance(row, Count) and row.is_exact
            return whole_numbers(self._whole(counts, None)) if is_exact else pa.array(counts)
        if not isinstance(argument, Attribute):
            return self._over_events(measure, argument, self._sums[argument])
        assert argument.variable is not None
        column = self._counter.task.column(argument)
        match row:
            case Count():
                return self._count(argument, {argument.variable: column.valid})
            case Sum():
                counts = self.of(Measure("COUNT", argument))
                weights = row.weights(column)
                sums = [self._sum(part, argument.variable, self._sizes[argument]) for part in weights.parts]
                return weights.total(counts, *sums)
            case Extreme(sign=sign):
                numbers, stand_for = column.ordered(sign)
                return stand_for(self._counter.at_cells(RowWeights({argument.variable: numbers}), EXTREMES))
            case Collected():
                raise AssertionError("the plan builds matches for this")
            case _:
                assert_never(row)

    def _count(self, argument: Value, valid: Mapping[str, Mask]) -> pa.Array:
        """How many matches have a value: those whose events have one each."""
        ones = {variable: mask.astype(np.int64) for variable, mask in valid.items()}
        sizes = self._sizes[argument] = self._weighted({variable: numbers.astype(np.float64) for variable, numbers in ones.items()})
        return whole_numbers(self._whole(sizes, {variable: _always(numbers) for variable, numbers in ones.items()}))

    def _over_events(self, measure: Measure, argument: Value, found: SumOverEvents) -> pa.Array:
        """A measure of a sum over events: how many there are, or what the terms add up to."""
        if measure.function == "COUNT":
            return self._count(argument, found.valid)
        counts, sums = self.of(Measure("COUNT", argument)), []
        for term in found.terms:
            numbers = {variable: _always(mask.astype(np.int64)) for variable, mask in found.valid.items()}
            numbers[term.variable] = term.column.where(found.valid[term.variable]).modulo
            sums.append(self._whole(self._sizes[argument] * term.column.largest, numbers, signed=True))
        return found.total(counts, sums)

    @np.errstate(invalid="ignore")  # infinities of both signs add up to no number, as they should
    def _sum(self, column: Measured, variable: str, sizes: Floats) -> pa.Array:
        if column.is_whole:
            return whole_numbers(self._whole(sizes * column.largest, {variable: column.modulo}, signed=True))
        finite = np.where(np.isfinite(column.numbers), column.numbers, 0.0)
        sums = self._weighted({variable: finite})
        for infinity in (np.inf, -np.inf):
            if (column.numbers == infinity).any():  # kept apart: nothing times infinity would be no number
                sums[self._weighted({variable: (column.numbers == infinity).astype(np.float64)}) > 0] += infinity
        return pa.array(sums)

    def _weighted(self, by_row: Mapping[str, Floats]) -> Numbers:
        return self._counter.at_cells(RowWeights(by_row), DOUBLES)

    def _whole(self, bounds: Floats, by_row: ByRow | None, signed: bool = False) -> Ints | pa.Array:
        """Whole numbers of at most the size of `bounds` (which are exact themselves where they are counts below 2^53)."""
        bound = float(bounds.max(initial=0.0))
        if not signed and bound < EXACT:
            return bounds.astype(np.int64)
        if bound < float(1 << 62):
            return self._residues(by_row, WORDS).view(np.int64)
        bits = np.log2(bound) + 3 if np.isfinite(bound) else np.inf
        if bits > 31 * len(PRIMES) - 1:
            raise count_too_long()
        primes = PRIMES[: int(bits // 30.99) + 1]
        rings = [Ring(np.uint64(1), np.uint64(0), None, np.uint64(prime)) for prime in primes]
        return from_residues([self._residues(by_row, ring) for ring in rings], primes)

    def _residues(self, by_row: ByRow | None, ring: Ring) -> Numbers:
        if by_row is None:
            return self._counter.at_cells(None, ring)
        modulus = None if ring.modulus is None else int(ring.modulus)
        numbers = {variable: modulo(modulus).view(np.uint64) for variable, modulo in by_row.items()}
        return self._counter.at_cells(RowWeights(numbers), ring)


def _always(numbers: Ints) -> Callable[[int | None], Ints]:
    """Numbers that are so small that they are the same modulo anything."""
    return lambda _: numbers
