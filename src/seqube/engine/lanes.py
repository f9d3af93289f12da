"""Chains of events laid out for counting, and what their counters mean: lanes, weights, exact numbers, cells.

A lane is a stream of maps (see `window_product`) that counts by itself: one for every key, partition and group. Lanes lie behind
each other, each in the order in which its maps are applied, so one call of a kernel runs through all of them. An event that belongs
to several groups (GROUP BY names another component) or keys (a negation that any key triggers) lies in each of their lanes.

A kernel gives the window's value at samples. Where a group is one lane, samples are the group's cells; where it is many, samples
are the moments at which a lane changes, and a binary tree over the lanes adds them up as time goes by.

Counts run in doubles, which never wrap: below 2^53 they are exact. Beyond that they are computed again, modulo 2^64 and, if they
leave 64 bits, modulo as many primes as their size asks for. Sums of whole numbers go the second and third way from the start.

Cost: sorting the relevant events by (lane, time), then the kernel once per measure.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from seqube.engine.aggregation import Answer, Cells, Floats, Groups, Measured, Task, distinct_cells, whole_numbers
from seqube.engine.jit import kernel
from seqube.engine.predicates import Ints, code_columns
from seqube.engine.sequence import HIGHEST, LOWEST
from seqube.errors import DataError
from seqube.events.batch import Codes
from seqube.plan.aggregates import MATCHES, Chain, Measure, chain_of

Numbers = npt.NDArray[Any]  # float64 or uint64, as the ring asks

EXACT = float(1 << 53)  # doubles hold every whole number below this
LARGEST = 1 << 26  # events in all lanes; beyond this, matches are built instead
PRIMES = (2147483647, 2147483629, 2147483587, 2147483579, 2147483563, 2147483549, 2147483543, 2147483497, 2147483489)  # below 2^31


class Ring(NamedTuple):
    """How maps are multiplied: plainly (both None), modulo a prime, or with min and + (`tropical`)."""

    one: Any
    zero: Any
    tropical: int | None = None
    modulus: Any = None


DOUBLES = Ring(1.0, 0.0)
WORDS = Ring(np.uint64(1), np.uint64(0))  # modulo 2^64, by wrapping
EXTREMES = Ring(0.0, np.inf, tropical=1)


class Maps(NamedTuple):
    """The maps of all lanes. Odd ranks are slots from the last (1) to the first, even ones zero a counter from the last (0) on."""

    offsets: Ints
    times: Ints
    ranks: npt.NDArray[np.int8]
    untils: Ints  # of starts and leading negations: when they leave the window


class Samples(NamedTuple):
    offsets: Ints  # where each lane's samples begin
    times: Ints


# maps, weights, samples, ring, n_slots, (after, upto), own, values, news: see `window_product.slide`
Kernel = Callable[[Maps, Numbers | None, Samples, Ring, int, tuple[int, int], bool, Numbers, Numbers], None]


@dataclass(frozen=True)
class Lanes:
    """Maps with where they came from: the row of each, the lane of each, the group of each lane (ascending)."""

    n_slots: int
    maps: Maps
    rows: Ints
    groups: Ints

    @property
    def of_maps(self) -> Ints:
        return np.repeat(np.arange(len(self.groups)), np.diff(self.maps.offsets))


# ---------------------------------------------------------------- laying out


def make_lanes(task: Task, chain: Chain) -> Lanes | None:
    """Lanes of a chain; None where events would lie in too many of them."""
    n_slots, batch = len(chain.slots), task.batch
    if not (chain.key or chain.has_leading or task.plan.group_by or batch.partitions is not None or batch.counts_events):
        return _single(task, chain)
    slots = [task.scan(slot) for slot in chain.slots]
    gaps = [task.scan(gap.instance) for gap in chain.absences]  # type: ignore[arg-type]
    slot_ranks = [2 * (n_slots - 1 - i) + 1 for i in range(n_slots)]
    gap_ranks = [2 * (n_slots - gap.position) for gap in chain.absences]
    codes, gap_codes = _codes(task, chain, slots, gaps)
    keyed = [gap.key is not None or not chain.key for gap in chain.absences]
    rows = np.concatenate([*slots, *(gap for gap, own in zip(gaps, keyed, strict=True) if own)])
    ranks = _repeat(
        [*slot_ranks, *(rank for rank, own in zip(gap_ranks, keyed, strict=True) if own)],
        [*slots, *(gap for gap, own in zip(gaps, keyed, strict=True) if own)],
    )
    lanes = np.concatenate([*codes, *(code for code, own in zip(gap_codes, keyed, strict=True) if own)])
    known = lanes >= 0
    rows, ranks, lanes = rows[known], ranks[known], lanes[known]
    for gap, rank, own in zip(gaps, gap_ranks, keyed, strict=True):
        if not own:  # an instance of any key cancels: it lies in every lane of its partition
            parents = _first_rows(lanes, rows, ranks, slot_ranks[-1])
            of_lane = np.where(parents < 0, -1, 0 if batch.partitions is None else batch.partitions[parents])
            asked = np.zeros(len(gap), np.int64) if batch.partitions is None else batch.partitions[gap]
            spread = _spread(asked, of_lane)
            if spread is None:
                return None
            which, new_lanes = spread
            rows = np.concatenate([rows, gap[which]])
            ranks = np.concatenate([ranks, np.full(len(which), rank, np.int8)])
            lanes = np.concatenate([lanes, new_lanes])
    for variable in dict.fromkeys(key.variable for key in task.plan.group_by):
        if variable is None or _in_key(task, chain, variable):
            continue
        number = [slot.variable for slot in chain.slots].index(variable)
        grouped = _split(task, variable, slot_ranks[number], rows, ranks, lanes)
        if grouped is None:
            return None
        rows, ranks, lanes = grouped
    return _ordered(task, chain, slot_ranks, rows, ranks, lanes)


def _single(task: Task, chain: Chain) -> Lanes:
    """All events in one lane: they are in time order already, and only ties have to be looked at."""
    events, n_slots = task.batch.events, len(chain.slots)
    places = [(2 * (n_slots - 1 - i) + 1, slot) for i, slot in enumerate(chain.slots)]
    places += [(2 * (n_slots - gap.position), gap.instance) for gap in chain.absences]  # type: ignore[misc]
    ranks_of: list[list[int]] = [[] for _ in events.type_names]
    masks = np.ones((2 * n_slots + 1, len(events) if any(scan.filters for _, scan in places) else 0), np.bool_)
    for rank in sorted({rank for rank, _ in places}):
        scans = [scan for place, scan in places if place == rank]  # several negations may stand at one place
        for code, name in enumerate(events.type_names):
            if any(name in scan.types for scan in scans):
                ranks_of[code].append(rank)
        if any(scan.filters for scan in scans):
            masks[rank] = False
            for scan in scans:
                masks[rank, task.scan(scan)] = True
    width = max(map(len, ranks_of), default=0)
    table = np.full((len(ranks_of), max(width, 1)), -1, np.int8)
    for code, known in enumerate(ranks_of):
        table[code, : len(known)] = known
    stop = int(np.searchsorted(events.times, task.upto, "right"))
    after = task.after if task.plan.emit.when == "total" and not chain.has_trailing else LOWEST
    times, ranks, untils, rows = gather(events.times, events.types, table, masks, task.batch.window, stop, after)
    return Lanes(n_slots, Maps(np.array([0, len(times)]), times, ranks, untils), rows, np.zeros(1, np.int64))


@kernel
def gather(
    times: Ints,
    types: Codes,
    table: npt.NDArray[np.int8],
    masks: npt.NDArray[np.bool_],
    window: int,
    stop: int,
    after: int,
) -> tuple[Ints, npt.NDArray[np.int8], Ints, Ints]:
    """The maps of one lane: every event with the ranks of its type, by (time, rank)."""
    width, n_ranks = table.shape[1], masks.shape[0]
    masked = masks.shape[1] > 0
    used = np.zeros(table.shape[0], np.int64)
    for code in range(table.shape[0]):
        for i in range(width):
            used[code] += table[code, i] >= 0
    size = 0
    for row in range(stop):
        size += used[types[row]]
    out_times, out_untils, out_rows = np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size, np.int64)
    out_ranks = np.empty(size, np.int8)
    n, row = 0, 0
    while row < stop:
        time = times[row]
        end = row + 1
        while end < stop and times[end] == time:
            end += 1
        until = time + window if time <= HIGHEST - window else HIGHEST
        if end == row + 1:
            code = types[row]
            for i in range(used[code]):
                rank = table[code, i]
                if (not masked or masks[rank, row]) and (rank != 1 or time > after):
                    out_times[n], out_ranks[n], out_untils[n], out_rows[n] = time, rank, until, row
                    n += 1
        else:
            for rank in range(n_ranks):
                if rank == 1 and time <= after:
                    continue
                for tied in range(row, end):
                    code = types[tied]
                    for i in range(used[code]):
                        if table[code, i] == rank and (not masked or masks[rank, tied]):
                            out_times[n], out_ranks[n], out_untils[n], out_rows[n] = time, rank, until, tied
                            n += 1
        row = end
    return out_times[:n], out_ranks[:n], out_untils[:n], out_rows[:n]


def _repeat(ranks: list[int], parts: list[Ints]) -> npt.NDArray[np.int8]:
    return np.repeat(np.array(ranks, np.int8), [len(part) for part in parts])


def _codes(task: Task, chain: Chain, slots: list[Ints], gaps: list[Ints]) -> tuple[list[Ints], list[Ints]]:
    """The key of every event as a lane number, -1 where it is null; of gaps without a key, the lane is not known here."""
    partitions = task.batch.partitions

    def columns(rows: Ints, variable: str, values: Any) -> list[pa.Array]:
        first = [] if partitions is None else [pa.array(partitions[rows])]
        return [*first, *(task.evaluator.array(value, {variable: rows}, len(rows)) for value in values)]

    of_slots = [
        columns(rows, slot.variable, (column[i] for column in chain.key))
        for i, (rows, slot) in enumerate(zip(slots, chain.slots, strict=True))
    ]
    if not of_slots[0]:
        return [np.zeros(len(rows), np.int64) for rows in slots], [np.zeros(len(rows), np.int64) for rows in gaps]
    of_gaps = [
        columns(rows, gap.instance.variable, gap.key or ())  # type: ignore[union-attr]
        for rows, gap in zip(gaps, chain.absences, strict=True)
        if gap.key is not None or not chain.key
    ]
    codes, n_codes = code_columns([*of_slots, *of_gaps])
    if len(slots) == 1:
        codes[0] = np.where(codes[0] < 0, n_codes, codes[0])  # one event needs no equal; without a key nothing cancels it
    rest = iter(codes[len(slots) :])
    none = np.empty(0, np.int64)
    return codes[: len(slots)], [next(rest) if gap.key is not None or not chain.key else none for gap in chain.absences]


def _spread(asked: Ints, of_lane: Ints) -> tuple[Ints, Ints] | None:
    """Every event in every lane below its parent: positions of events (repeated) and the lanes they go to."""
    order = np.argsort(of_lane, kind="stable")
    begin, end = np.searchsorted(of_lane[order], asked), np.searchsorted(of_lane[order], asked, "right")
    counts = end - begin
    if counts.sum() > LARGEST:
        return None
    which = np.repeat(np.arange(len(asked)), counts)
    within = np.arange(len(which)) - np.repeat(np.cumsum(counts) - counts, counts)
    return which, order[np.repeat(begin, counts) + within]


def _first_rows(lanes: Ints, rows: Ints, ranks: npt.NDArray[np.int8], rank: int) -> Ints:
    """For every lane a row with this rank, -1 where there is none."""
    found = np.full(int(lanes.max(initial=-1)) + 1, -1, np.int64)
    here = ranks == rank
    found[lanes[here]] = rows[here]
    return found


def _in_key(task: Task, chain: Chain, variable: str) -> bool:
    """Whether all GROUP BY attributes of a variable are part of the key, so that a lane has one value of each."""
    number = [slot.variable for slot in chain.slots].index(variable)
    known = [column[number] for column in chain.key] if len(chain.slots) > 1 else []
    return all(key in known for key in task.plan.group_by if key.variable == variable)


def _split(task: Task, variable: str, rank: int, rows: Ints, ranks: npt.NDArray[np.int8], lanes: Ints) -> Any:
    """A lane for every value that a component is grouped by; all other events lie in each of these."""
    keys = tuple(key for key in task.plan.group_by if key.variable == variable)
    digits = Groups(keys, task.batch.events).codes({variable: rows}, len(rows))
    own = ranks == rank
    parents, new_lanes = _pairs(lanes[own], digits[own])
    spread = _spread(lanes[~own], parents)
    if spread is None:
        return None
    which, spread_lanes = spread
    others = np.flatnonzero(~own)[which]
    return (
        np.concatenate([rows[own], rows[others]]),
        np.concatenate([ranks[own], ranks[others]]),
        np.concatenate([new_lanes, spread_lanes]),
    )


def _pairs(left: Ints, right: Ints) -> tuple[Ints, Ints]:
    """Distinct pairs: the left part of each, and the number of the pair for every element."""
    _, dense = np.unique(right, return_inverse=True)
    width = int(dense.max(initial=0)) + 1
    pairs, numbers = np.unique(left * width + dense, return_inverse=True)
    return pairs // width, numbers


def _ordered(task: Task, chain: Chain, slot_ranks: list[int], rows: Ints, ranks: npt.NDArray[np.int8], lanes: Ints) -> Lanes:
    """Lanes numbered by group, maps in the order in which they are applied."""
    n_slots, batch = len(chain.slots), task.batch
    total = task.plan.emit.when == "total"
    times = batch.events.times[rows]
    needed = times <= task.upto
    if total and not chain.has_trailing:
        needed &= (ranks != 1) | (times > task.after)  # ends that were counted before
    if not needed.all():
        rows, ranks, lanes, times = rows[needed], ranks[needed], lanes[needed], times[needed]
    bindings = {slot.variable: _first_rows(lanes, rows, ranks, rank) for slot, rank in zip(chain.slots, slot_ranks, strict=True)}
    complete = np.flatnonzero(np.minimum.reduce(list(bindings.values())) >= 0)  # a lane without some component has no match
    groups = task.groups.codes({name: found[complete] for name, found in bindings.items()}, len(complete))
    by_group = np.argsort(groups, kind="stable")
    number = np.full(int(lanes.max(initial=-1)) + 1, -1, np.int64)
    number[complete[by_group]] = np.arange(len(complete))
    lanes = number[lanes]
    if (lanes < 0).any():
        kept = lanes >= 0
        rows, ranks, lanes, times = rows[kept], ranks[kept], lanes[kept], times[kept]
    by_number = batch.counts_events and total  # an end looks back from its own number, not from that of the last event of its time
    untils = batch.clocks[rows] + batch.window if by_number else task.untils[rows]
    if chain.has_leading:
        # What a leading negation made void stays so: ends before it leaves the window do not count when it has left.
        leading = ranks == 2 * n_slots
        rows, lanes = np.concatenate([rows, rows[leading]]), np.concatenate([lanes, lanes[leading]])
        times, untils = np.concatenate([times, untils[leading]]), np.concatenate([untils, untils[leading]])
        ranks = np.concatenate([ranks, np.zeros(int(leading.sum()), np.int8)])
    order = np.lexsort((ranks, times, lanes))
    offsets = np.searchsorted(lanes[order], np.arange(len(complete) + 1))
    moments = batch.clocks[rows[order]] if by_number else times[order]
    return Lanes(n_slots, Maps(offsets, moments, ranks[order], untils[order]), rows[order], groups[by_group])


# ---------------------------------------------------------------- counting


def aggregate_chain(task: Task, run: Kernel) -> Answer:
    """Answer a task with a kernel that counts; where lanes would hold too many events, by building the matches."""
    chain = chain_of(task.plan)
    assert isinstance(chain, Chain), "the plan chooses this strategy for chains only"
    lanes = make_lanes(task, chain)
    if lanes is None:
        from seqube.engine.two_step import aggregate_matches

        return aggregate_matches(task)
    counter = _Total(task, chain, lanes, run) if task.plan.emit.when == "total" else _Shared(task, chain, lanes, run)
    return _Measures(counter).answer()


class _Counter:
    """Runs a kernel over lanes and brings its samples to cells. `settle` finds the cells with the first count."""

    def __init__(self, task: Task, chain: Chain, lanes: Lanes, run: Kernel) -> None:
        self.task, self.chain, self.lanes = task, chain, lanes
        self._run = run
        self.firsts = (
            np.flatnonzero(np.concatenate(([True], lanes.groups[1:] != lanes.groups[:-1])))
            if len(lanes.groups)
            else np.empty(0, np.int64)
        )
        self.samples = self._samples()
        self.cells, self.counts = self._settle()

    def _samples(self) -> Samples:
        raise NotImplementedError

    def _settle(self) -> tuple[Cells, Floats]:
        raise NotImplementedError

    def at_cells(self, weights: Numbers | None, ring: Ring) -> Numbers:
        """The measure for every cell."""
        raise NotImplementedError

    def run(self, weights: Numbers | None, ring: Ring, news: bool) -> tuple[Numbers, Numbers]:
        size = len(self.samples.times)
        kind = np.array(ring.zero).dtype
        values, fresh = np.full(size, ring.zero, kind), np.full(size if news else 0, ring.zero, kind)
        total = self.task.plan.emit.when == "total"
        span = (LOWEST, HIGHEST) if total and self.task.batch.counts_events else (self.task.after, self.task.upto)
        own = total and self.chain.has_trailing
        self._run(self.lanes.maps, weights, self.samples, ring, self.lanes.n_slots, span, own, values, fresh)
        return values, fresh

    def weights(self, variable: str, by_row: Numbers, ring: Ring) -> Numbers:
        """One for every map, but for those of the variable's slot."""
        number = [slot.variable for slot in self.chain.slots].index(variable)
        here = self.lanes.maps.ranks == 2 * (self.lanes.n_slots - 1 - number) + 1
        weights = np.full(len(here), ring.one, np.array(ring.one).dtype)
        weights[here] = by_row[self.lanes.rows[here]]
        return weights


class _Total(_Counter):
    """EMIT TOTAL: all that ends (or, with a trailing negation, outlives its window), per group."""

    def _samples(self) -> Samples:
        n_lanes = len(self.lanes.groups)
        return Samples(np.arange(n_lanes + 1), np.full(n_lanes, HIGHEST))

    def _settle(self) -> tuple[Cells, Floats]:
        if not self.task.plan.group_by:
            self._keep = np.ones(len(self.firsts), np.bool_)
            return self.task.given, self.at_cells(None, DOUBLES)
        sums = self._sums(None, DOUBLES)
        self._keep = sums != 0
        groups = self.lanes.groups[self.firsts[self._keep]]
        return Cells(groups, np.zeros(len(groups), np.int64)), sums[self._keep]

    def _sums(self, weights: Numbers | None, ring: Ring) -> Numbers:
        news = self.run(weights, ring, news=True)[1]
        if not len(self.firsts):
            return news
        if ring.tropical is not None:
            return np.minimum.reduceat(news, self.firsts)
        sums = np.add.reduceat(news, self.firsts)
        return sums if ring.modulus is None else sums % ring.modulus

    def at_cells(self, weights: Numbers | None, ring: Ring) -> Numbers:
        sums = self._sums(weights, ring)
        if not self.task.plan.group_by and not len(sums):
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
        start_rank = 2 * self.lanes.n_slots - 1
        lanes = self.lanes.of_maps
        ends = maps.ranks <= 1
        if self._is_single:
            ends &= (maps.ranks == 1) & (maps.times > task.after) & (maps.times <= task.upto)
            return _distinct_samples(lanes[ends], maps.times[ends], len(groups))
        starts = maps.ranks >= start_rank
        changes = np.concatenate([maps.times[ends], maps.untils[starts]])
        return _distinct_samples(np.concatenate([lanes[ends], lanes[starts]]), changes, len(groups))

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

    def at_cells(self, weights: Numbers | None, ring: Ring) -> Numbers:
        values, _ = self.run(weights, ring, news=False)
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
def times(left: Any, right: Any, tropical: int | None, modulus: Any) -> Any:
    if tropical is not None:
        return left + right
    if modulus is not None:
        return left * right % modulus
    return left * right


@kernel
def plus(left: Any, right: Any, tropical: int | None, modulus: Any) -> Any:
    if tropical is not None:
        return min(left, right)
    if modulus is not None:
        return (left + right) % modulus
    return left + right


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

    def __init__(self, counter: _Counter) -> None:
        self._counter = counter
        self._counts: dict[Measure, Floats] = {MATCHES: counter.counts}

    def answer(self) -> Answer:
        measures = {measure: self._measure(measure) for measure in self._counter.task.plan.measures}
        return Answer(self._counter.cells, measures)

    def _measure(self, measure: Measure) -> pa.Array:
        if measure.argument is None:
            return whole_numbers(self._whole(self._counter.counts, None, None))
        column = self._counter.task.column(measure.argument)
        variable = measure.argument.variable
        assert variable is not None
        if measure.function == "COUNT":
            ones = column.valid.astype(np.int64)
            counts = self._counter.at_cells(self._counter.weights(variable, ones.astype(np.float64), DOUBLES), DOUBLES)
            self._counts[measure] = counts
            return whole_numbers(self._whole(counts, variable, ones))
        if measure.function == "SUM":
            counts = self._counts[Measure("COUNT", measure.argument)]
            return self._sum(column, variable, counts)
        return self._extreme(column, variable, measure.function)

    def _sum(self, column: Measured, variable: str, counts: Floats) -> pa.Array:
        empty = counts == 0
        if column.is_whole:
            largest = max(abs(int(column.numbers.min(initial=0))), abs(int(column.numbers.max(initial=0))))
            sums = column.whole(self._whole(counts * largest, variable, column.numbers, signed=True))
            return sums.take(pa.array(np.arange(len(counts)), mask=empty))
        finite = np.where(np.isfinite(column.numbers), column.numbers, 0.0)
        sums = self._weighted(variable, finite)
        for infinity in (np.inf, -np.inf):
            if (column.numbers == infinity).any():  # kept apart: nothing times infinity would be no number
                sums[self._weighted(variable, (column.numbers == infinity).astype(np.float64)) > 0] += infinity
        return pa.array(sums, mask=empty)

    def _weighted(self, variable: str, by_row: Floats) -> Numbers:
        return self._counter.at_cells(self._counter.weights(variable, by_row, DOUBLES), DOUBLES)

    def _extreme(self, column: Measured, variable: str, function: str) -> pa.Array:
        ranks, rows = column.ranks()
        if function == "MAX":
            ranks = np.where(column.valid, len(rows) - 1 - ranks, np.inf)
        best = self._counter.at_cells(self._counter.weights(variable, ranks, EXTREMES), EXTREMES)
        found = np.isfinite(best)
        chosen = np.where(found, best, 0).astype(np.int64)
        if function == "MAX":
            chosen = len(rows) - 1 - chosen
        return column.column.take(pa.array(rows[chosen] if len(rows) else chosen, mask=~found))

    def _whole(self, bounds: Floats, variable: str | None, by_row: Any, signed: bool = False) -> Ints | list[int]:
        """Whole numbers of at most the size of `bounds` (which are exact themselves where they are counts below 2^53)."""
        bound = float(bounds.max(initial=0.0))
        if not signed and bound < EXACT:
            return bounds.astype(np.int64)
        if bound < float(1 << 62):
            return self._residues(variable, by_row, WORDS).view(np.int64)
        bits = np.log2(bound) + 3 if np.isfinite(bound) else np.inf
        if bits > 31 * len(PRIMES) - 1:
            raise DataError("a count or sum has more than 76 digits\n  hint: shorten the window or the pattern")
        primes = PRIMES[: int(bits // 30.99) + 1]
        product = int(np.prod([int(prime) for prime in primes], dtype=object))
        values = [0] * len(bounds)
        for prime in primes:
            rest = product // prime
            factor = rest * pow(rest, -1, prime)
            ring = Ring(np.uint64(1), np.uint64(0), None, np.uint64(prime))
            values = [
                value + residue * factor
                for value, residue in zip(values, self._residues(variable, by_row, ring).tolist(), strict=True)
            ]
        values = [value % product for value in values]
        return [value - product if value > product // 2 else value for value in values]

    def _residues(self, variable: str | None, by_row: Any, ring: Ring) -> Numbers:
        if variable is None:
            return self._counter.at_cells(None, ring)
        numbers = by_row if ring.modulus is None else by_row % int(ring.modulus)
        return self._counter.at_cells(self._counter.weights(variable, numbers.astype(np.int64).view(np.uint64), ring), ring)
