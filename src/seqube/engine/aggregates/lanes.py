"""Chains of events laid out for counting: lanes of maps, in the order in which they take effect.

A lane is a stream of maps (see `window_product`) that counts by itself: one for every key, partition and group. Lanes lie behind
each other, each in the order in which its maps are applied, so one call of a kernel runs through all of them. An event that belongs
to several groups (GROUP BY names another component) or keys (a negation that any key triggers) lies in each of their lanes.

Cost: without keys one pass over the events, which are in order but for ties; with keys, sorting the relevant ones by (lane, time).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from seqube.engine.aggregates.aggregation import Task
from seqube.engine.aggregates.automaton import gap_rank, meets_itself, settled_rank, slot_rank, tied_rank
from seqube.engine.aggregates.groups import Groups
from seqube.engine.jit import kernel
from seqube.engine.keys import column_codes, named_columns
from seqube.engine.predicates import Ints, code_columns
from seqube.engine.sequence import HIGHEST, LOWEST, by_code
from seqube.events.batch import Codes
from seqube.events.schema import is_of
from seqube.language.tree import Value
from seqube.plan.chains import EventChain

Numbers = npt.NDArray[Any]  # float64 or uint64, as the ring asks
Ranks = npt.NDArray[np.int16]

LARGEST = 1 << 24  # events in all lanes; beyond this, matches are built instead


class Ring(NamedTuple):
    """How maps are multiplied: plainly (both None), modulo a prime, or with min and + (`tropical`)."""

    one: Any
    zero: Any
    tropical: int | None = None
    modulus: Any = None


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
    if modulus is not None:  # both are below it, and to divide would take ten times as long
        total = left + right
        return total - modulus if total >= modulus else total
    return left + right


@kernel
def read_product(left: Any, right: Any, tropical: int | None, modulus: Any) -> Any:
    """The product of two counts, where a double may have left its range: nothing times infinity is nothing."""
    if tropical is None and modulus is None and (left == 0 or right == 0):
        return left if left == 0 else right
    return times(left, right, tropical, modulus)


class Maps(NamedTuple):
    """The maps of all lanes, by the ranks of `automaton`: slots from the last (1) to the first are odd, negations even."""

    offsets: Ints
    times: Ints
    ranks: Ranks
    untils: Ints  # of starts and leading negations: when they leave the window


class Samples(NamedTuple):
    offsets: Ints  # where each lane's samples begin
    times: Ints


@dataclass(frozen=True)
class Lanes:
    """Maps with where they came from: the row of each, the lane of each, the group of each lane (ascending)."""

    maps: Maps
    rows: Ints
    groups: Ints
    has_ties: bool  # whether events of one repeated part come at one time

    @property
    def of_maps(self) -> Ints:
        return np.repeat(np.arange(len(self.groups)), np.diff(self.maps.offsets))


# ---------------------------------------------------------------- laying out


def make_lanes(task: Task, chain: EventChain) -> Lanes | None:
    """Lanes of a chain; None where events would lie in too many of them."""
    n_slots, batch = len(chain.slots), task.batch
    if not (chain.key or chain.has_leading or task.plan.group_by or batch.partitions is not None or batch.counts_events):
        return _single(task, chain)
    slots = [task.scan(slot) for slot in chain.slots]
    gaps = [task.scan(gap.instance) for gap in chain.absences]  # type: ignore[arg-type]
    slot_ranks = [slot_rank(n_slots, i) for i in range(n_slots)]
    gap_ranks = [gap_rank(n_slots, gap.position) for gap in chain.absences]
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
            parents = _first_rows(lanes, rows, ranks, [slot_ranks[i] for i in _required(chain)[-1:]] or slot_ranks)
            of_lane = np.where(parents < 0, -1, 0 if batch.partitions is None else batch.partitions[parents])
            asked = np.zeros(len(gap), np.int64) if batch.partitions is None else batch.partitions[gap]
            spread = _spread(asked, of_lane)
            if spread is None:
                return None
            which, new_lanes = spread
            rows = np.concatenate([rows, gap[which]])
            ranks = np.concatenate([ranks, np.full(len(which), rank, np.int16)])
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


def _single(task: Task, chain: EventChain) -> Lanes:
    """All events in one lane: they are in time order already, and only ties have to be looked at."""
    events, n_slots = task.batch.events, len(chain.slots)
    places = [(slot_rank(n_slots, i), slot) for i, slot in enumerate(chain.slots)]
    places += [(gap_rank(n_slots, gap.position), gap.instance) for gap in chain.absences]  # type: ignore[misc]
    ranks_of: list[list[int]] = [[] for _ in events.type_names]
    masks = np.ones((2 * n_slots + 1, len(events) if any(scan.filters for _, scan in places) else 0), np.bool_)
    for rank in sorted({rank for rank, _ in places}):
        scans = [scan for place, scan in places if place == rank]  # several negations may stand at one place
        for code, name in enumerate(events.type_names):
            if any(is_of(name, scan.types) for scan in scans):
                ranks_of[code].append(rank)
        if any(scan.filters for scan in scans):
            masks[rank] = False
            for scan in scans:
                masks[rank, task.scan(scan)] = True
    width = max(map(len, ranks_of), default=0)
    table = np.full((len(ranks_of), max(width, 1)), -1, np.int16)
    for code, known in enumerate(ranks_of):
        table[code, : len(known)] = known
    chosen = events.rows_of(frozenset[str]().union(*(scan.types for _, scan in places)))
    chosen = chosen[: np.searchsorted(chosen, np.searchsorted(events.times, task.upto, "right"))]
    after = task.after if _only_ends(task, chain) else LOWEST
    times, ranks, untils, rows = gather(events.times, events.types, only_read(chosen), table, masks, task.batch.window, after)
    ties = told_ties(chain, np.zeros(len(times), np.int64), times, ranks)
    if ties is not None:
        which, ranks = ties
        times, untils, rows = times[which], untils[which], rows[which]
    return Lanes(Maps(np.array([0, len(times)]), times, ranks, untils), rows, np.zeros(1, np.int64), ties is not None)


def _required(chain: EventChain) -> list[int]:
    """The slots that every match has."""
    return [i for i in range(len(chain.slots)) if not chain.times_of(i).may_be_absent]


def _only_ends(task: Task, chain: EventChain) -> bool:
    """Whether an event of the last slot does nothing but end matches, and those are counted once, when they end."""
    return task.plan.emit.counts_once and not chain.has_trailing and not meets_itself(chain.times_of(len(chain.slots) - 1))


def told_ties(chain: EventChain, lanes: Ints, times: Ints, ranks: Ranks | Ints) -> tuple[Ints, Ranks] | None:
    """Which maps there are, and their ranks, where events of one repeated part come at one time; None where none do.

    Such events have ranks of their own, and a map follows them by which they are settled (`automaton`).
    """
    n_slots = len(chain.slots)
    repeated = [slot_rank(n_slots, i) for i in range(n_slots) if meets_itself(chain.times_of(i))]
    if not repeated or len(ranks) < 2:
        return None
    same = (lanes[1:] == lanes[:-1]) & (times[1:] == times[:-1]) & (ranks[1:] == ranks[:-1]) & np.isin(ranks[1:], repeated)
    if not same.any():
        return None
    follows, is_last = np.append(False, same), np.append(~same, True)
    tied = follows | ~is_last
    is_last &= tied
    slots = n_slots - 1 - (ranks >> 1)
    which = np.repeat(np.arange(len(ranks)), 1 + is_last)
    told = np.where(tied, tied_rank(n_slots, slots), ranks)[which]
    told[np.cumsum(1 + is_last)[is_last] - 1] = settled_rank(n_slots, slots[is_last])
    return which, told.astype(np.int16)


def only_read(rows: Ints) -> Ints:
    """Rows as those of a type are, so that a kernel is compiled once for all."""
    rows.flags.writeable = False
    return rows


@kernel
def gather(
    times: Ints,
    types: Codes,
    chosen: Ints,
    table: Ranks,
    masks: npt.NDArray[np.bool_],
    window: int,
    after: int,
) -> tuple[Ints, Ranks, Ints, Ints]:
    """The maps of one lane: every event that is chosen, with the ranks of its type, by (time, rank)."""
    width, n_ranks = table.shape[1], masks.shape[0]
    masked = masks.shape[1] > 0
    used = np.zeros(table.shape[0], np.int64)
    for code in range(table.shape[0]):
        for i in range(width):
            used[code] += table[code, i] >= 0
    size = 0
    for row in chosen:
        size += used[types[row]]
    out_times, out_untils, out_rows = np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size, np.int64)
    out_ranks = np.empty(size, np.int16)
    n, begin = 0, 0
    while begin < len(chosen):
        row = chosen[begin]
        time = times[row]
        end = begin + 1
        while end < len(chosen) and times[chosen[end]] == time:
            end += 1
        until = time + window if time <= HIGHEST - window else HIGHEST
        if end == begin + 1:
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
                for place in range(begin, end):
                    tied = chosen[place]
                    code = types[tied]
                    for i in range(used[code]):
                        if table[code, i] == rank and (not masked or masks[rank, tied]):
                            out_times[n], out_ranks[n], out_untils[n], out_rows[n] = time, rank, until, tied
                            n += 1
        begin = end
    return out_times[:n], out_ranks[:n], out_untils[:n], out_rows[:n]


def _repeat(ranks: list[int], parts: list[Ints]) -> Ranks:
    return np.repeat(np.array(ranks, np.int16), [len(part) for part in parts])


def _codes(task: Task, chain: EventChain, slots: list[Ints], gaps: list[Ints]) -> tuple[list[Ints], list[Ints]]:
    """The key of every event as a lane number, -1 where it is null; of gaps without a key, the lane is not known here."""
    batch, partitions = task.batch, task.batch.partitions
    if not chain.key and partitions is None:
        return [np.zeros(len(rows), np.int64) for rows in slots], [np.zeros(len(rows), np.int64) for rows in gaps]
    tables = [
        (rows, slot.variable, [column[i] for column in chain.key])
        for i, (rows, slot) in enumerate(zip(slots, chain.slots, strict=True))
    ]
    tables += [
        (rows, gap.instance.variable, list(gap.key or ()))  # type: ignore[union-attr]
        for rows, gap in zip(gaps, chain.absences, strict=True)
        if gap.key is not None or not chain.key
    ]

    def columns(rows: Ints, variable: str, values: list[Value]) -> list[pa.Array]:
        return batch.partition_column(rows) + [task.evaluator.array(value, {variable: rows}, len(rows)) for value in values]

    names = named_columns([values for _, _, values in tables])
    known = None
    if names is not None:
        known = column_codes(batch.events, (*task.plan.matches.partition_by, *names), [rows for rows, _, _ in tables])
    codes, n_codes = known or code_columns([columns(*table) for table in tables])
    if len(slots) == 1:
        # One event needs no equal, and without a key no event of its own key cancels it: a lane for those in each partition.
        without_key = n_codes if partitions is None else n_codes + partitions[slots[0]]
        codes[0] = np.where(codes[0] < 0, without_key, codes[0])
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


def _first_rows(lanes: Ints, rows: Ints, ranks: Ranks, chosen: list[int]) -> Ints:
    """For every lane a row with one of these ranks, -1 where there is none."""
    found = np.full(int(lanes.max(initial=-1)) + 1, -1, np.int64)
    here = np.isin(ranks, chosen)
    found[lanes[here]] = rows[here]
    return found


def _in_key(task: Task, chain: EventChain, variable: str) -> bool:
    """Whether all GROUP BY attributes of a variable are part of the key, so that a lane has one value of each."""
    number = [slot.variable for slot in chain.slots].index(variable)
    known = [column[number] for column in chain.key] if len(chain.slots) > 1 else []
    return all(key in known for key in task.plan.group_by if key.variable == variable)


def _split(task: Task, variable: str, rank: int, rows: Ints, ranks: Ranks, lanes: Ints) -> Any:
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


def _in_time(clock: Ints, rows: Ints, ranks: Ranks, lanes: Ints, n_lanes: int) -> Ints:
    """Maps by (lane, time, rank), each at the time of its row: merged, as rows ascend in each slot, then dealt out to the lanes."""
    ties = clock[1:] == clock[:-1]
    moments = np.append(0, np.cumsum(~ties))[rows] if ties.any() else rows
    by_time = np.argsort(moments * (int(ranks.max(initial=0)) + 1) + ranks, kind="stable")
    order: Ints = by_time[by_code(lanes[by_time], n_lanes)[0]]
    return order


def _ordered(task: Task, chain: EventChain, slot_ranks: list[int], rows: Ints, ranks: Ranks, lanes: Ints) -> Lanes:
    """Lanes numbered by group, maps in the order in which they are applied."""
    n_slots, batch = len(chain.slots), task.batch
    total = task.plan.emit.counts_once
    times = batch.events.times[rows]
    needed = times <= task.upto
    if _only_ends(task, chain):
        needed &= (ranks != 1) | (times > task.after)  # ends that were counted before
    if not needed.all():
        rows, ranks, lanes, times = rows[needed], ranks[needed], lanes[needed], times[needed]
    bindings = {slot.variable: _first_rows(lanes, rows, ranks, [rank]) for slot, rank in zip(chain.slots, slot_ranks, strict=True)}
    needed_rows = [bindings[chain.slots[i].variable] for i in _required(chain)] or [np.maximum.reduce(list(bindings.values()))]
    complete = np.flatnonzero(np.minimum.reduce(needed_rows) >= 0)  # a lane without what every match has holds no match
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
        leading = ranks == gap_rank(n_slots, 0)
        rows, lanes = np.concatenate([rows, rows[leading]]), np.concatenate([lanes, lanes[leading]])
        times, untils = np.concatenate([times, untils[leading]]), np.concatenate([untils, untils[leading]])
        ranks = np.concatenate([ranks, np.zeros(int(leading.sum()), np.int16)])
    order = (
        np.lexsort((ranks, times, lanes)) if chain.has_leading else _in_time(batch.events.times, rows, ranks, lanes, len(complete))
    )
    ranks = ranks[order]
    ties = told_ties(chain, lanes[order], times[order], ranks)
    if ties is not None:
        which, ranks = ties
        order = order[which]
    offsets = np.searchsorted(lanes[order], np.arange(len(complete) + 1))
    moments = batch.clocks[rows[order]] if by_number else times[order]
    return Lanes(Maps(offsets, moments, ranks, untils[order]), rows[order], groups[by_group], ties is not None)
