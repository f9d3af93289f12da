"""What can be told of matches that are not built: how many there are, a sample of them, and those of any page.

How many is a count of the plan's aggregates, by counters where the pattern is a chain of events (`plan/chains.py`); what is none is
walked through, and nothing of it is kept.

A sample is drawn where a sequence of single events can be counted. How many matches end when are the weights of the times. Of a
time that was drawn, the stacks of its window tell in how many ways each event is reached, and a walk from the last slot to the
first takes each predecessor by these:

    A1  A2  B3  C4  B5  C6       matches that end at C4: 2, at C6: 4       drawn: C6, then B3 (2 of 4) or B5 (2 of 4), then an A

Whatever else is asked of a match (comparisons of its events, negations that are checked) is asked of those that were drawn, as long
as it holds of one in a thousand: each match is as likely as any other. Else all matches are walked through, and those are kept that
get the smallest random numbers.

A page takes matches by their number instead of by lot: those that end earlier come first. The same walk finds the match of a
number, where counts are exact and nothing else is asked of matches.

Cost: the events, and for every time that was drawn those of its window; where it cannot be drawn, all matches, of which a few are
held. Invariant: no match twice; the same seed gives the same rows, however many threads there are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from seqube.engine.at_hand import batch_for, evaluation_of, find_everywhere, number_all
from seqube.engine.evaluation import Evaluation
from seqube.engine.instances import Batch, Instances, expand
from seqube.engine.jit import inner_kernel, kernel
from seqube.engine.limits import Budget, Limits
from seqube.engine.numbers import EXACT
from seqube.engine.operator import open_plan
from seqube.engine.order import Skipping, order_events
from seqube.engine.output import MatchWriter
from seqube.engine.predicates import Evaluator, Ints, Mask
from seqube.engine.sequence import HIGHEST, LOWEST, Links, Stacks, link
from seqube.events import Events
from seqube.events.schema import UNITS
from seqube.language.tree import Emit, Window
from seqube.plan.physical import MatchPlan, MatchSequence
from seqube.plan.unbuilt import COUNT_COLUMN, counting_plan, is_tested, why_walked, without_tests

ENOUGH = 1_000  # draws of which one has to be a match
DRAWN_FIRST = 1 << 14  # draws before that is asked
FEW_TIMES = 4  # times as many matches as are asked for: so few are walked through
ENDS_AT_ONCE = 1 << 6  # times that are drawn from between two looks at the clock

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Unbuilt:
    """The matches of a plan over events."""

    plan: MatchPlan
    events: Events
    limits: Limits
    threads: int = 1

    @property
    def is_counted(self) -> bool:
        """Whether it is counted, not walked through, how many there are."""
        return not self.plan.is_distinct and not isinstance(counting_plan(self.plan, Emit("total")), str)

    @cached_property
    def n_rows(self) -> int:
        """How many rows there are, however many that is."""
        plan = self.plan
        if plan.is_distinct:
            return sum(map(len, self._rows()))
        counts = self._counts(plan, Emit("total"))
        n_matches = sum(map(len, self._walked())) if counts is None else int(counts.column(COUNT_COLUMN)[0].as_py())
        return n_matches if plan.limit is None else min(n_matches, plan.limit)

    def sample(self, n: int, seed: int | None) -> pa.Table:
        """So many rows (all, where there are fewer), any of which is as likely as any other."""
        random = np.random.default_rng(seed)
        drawn = self._drawn(n, random) if n and why_walked(self.plan) is None else None
        return sample_rows(self._rows(), n, random) if drawn is None else drawn

    def page(self, start: int, n: int) -> pa.Table | None:
        """The matches from a number on, in the order of their ends; None where they cannot be numbered without building them."""
        if (walks := self._walks) is None:
            return None
        numbers = np.arange(start, max(start, min(start + n, self.n_rows)), dtype=np.float64)
        return MatchWriter(self.plan, self.events, Evaluator(self.events)).write(walks.instances(walks.of_numbers(numbers)))

    @cached_property
    def _walks(self) -> _Walks | None:
        """Walks to matches of which each has a number."""
        if why_walked(self.plan) is not None or is_tested(self.plan) or self.n_rows > EXACT:
            return None
        ends = self._ends(self.plan)
        return None if ends is None else _Walks(self.plan, self._batch(), *ends)

    def _batch(self) -> Batch:
        return batch_for(self.plan, self.events, number_all(self.plan, self.events), self.limits.budget())

    def _rows(self) -> Iterator[pa.Table]:
        return find_everywhere(self.plan, self.events, self.limits.budget(), self.threads)

    def _counts(self, plan: MatchPlan, emit: Emit) -> pa.Table | None:
        """How many matches there are, as an aggregate; None where they would have to be built for that."""
        counting = counting_plan(plan, emit)
        if isinstance(counting, str):
            return None
        return next(open_plan(counting, self.limits).pieces(self.events, self.limits.budget(), self.threads))

    def _walked(self) -> Iterator[Instances]:
        """All matches, in pieces of which each is overwritten by the next."""
        plan, events = self.plan, self.events
        if plan.order_by:
            events = order_events(events, plan.order_by)
        batch = batch_for(plan, events, number_all(plan, events), self.limits.budget())
        pieces = evaluation_of(plan, batch).matches()
        if plan.skip is None:
            return pieces
        return iter([Skipping(plan).remaining(pieces, events, np.arange(len(events)), batch.budget)])

    # ------------------------------------------------------------ drawing

    def _drawn(self, n: int, random: np.random.Generator) -> pa.Table | None:
        """A sample by the weights of ends; None where too few that are drawn are matches, or there are few altogether."""
        untested = without_tests(self.plan)
        ends = self._ends(untested)
        if ends is None or (total := float(ends[1].sum())) <= FEW_TIMES * n:
            return None
        batch = self._batch()
        walks, asked = _Walks(untested, batch, *ends), _Asked(self.plan, batch)
        matches: Ints = np.empty((len(walks.slots), 0), np.int64)
        n_drawn, n_held = 0, 0
        while matches.shape[1] < n:
            share = n_held / n_drawn if n_drawn else 1.0
            if n_drawn > DRAWN_FIRST and (share * ENOUGH < 1 or share * total <= FEW_TIMES * n):
                return None
            share = share or 1 / ENOUGH
            rows = walks.draw(min(4 * DRAWN_FIRST, int((n - matches.shape[1]) / share * 1.2) + 16), random)
            held = asked.holds_of(walks.instances(rows))
            n_drawn, n_held = n_drawn + rows.shape[1], n_held + int(held.sum())
            matches = np.unique(np.concatenate([matches, rows[:, held]], axis=1)[::-1], axis=1)[::-1]
        chosen = np.sort(random.choice(matches.shape[1], n, replace=False))
        return MatchWriter(self.plan, self.events, asked.evaluator).write(walks.instances(matches[:, chosen]))

    def _ends(self, plan: MatchPlan) -> tuple[Ints, Floats] | None:
        """When matches end, by the tick (by the microsecond, where ticks are shorter), and how many."""
        counts = self._counts(plan, Emit("per", Window(max(1, UNITS[self.events.unit] // 1_000), "us")))
        if counts is None:
            return None
        times = counts.column("ts")
        if not pa.types.is_integer(times.type):
            times = times.cast(pa.timestamp("us", times.type.tz)).cast(pa.int64())
        return times.to_numpy(), counts.column(COUNT_COLUMN).cast(pa.float64(), safe=False).to_numpy()


def sample_rows(pieces: Iterator[pa.Table], n: int, random: np.random.Generator) -> pa.Table:
    """A sample of rows, each of which is looked at: those with the smallest random numbers, in their order."""
    held, lots = [next(pieces)], np.empty(0)
    lots = random.random(len(held[0]))
    for piece in pieces:
        bound = np.partition(lots, n - 1)[n - 1] if 0 < n <= len(lots) else 1.0 if n else 0.0
        own = random.random(len(piece))
        held.append(piece.filter(pa.array(own < bound)))
        lots = np.concatenate([lots, own[own < bound]])
    chosen = np.sort(np.argpartition(lots, n)[:n] if n < len(lots) else np.arange(len(lots)))
    return pa.concat_tables(held).take(pa.array(chosen))


class _Asked(Evaluation):
    """What is asked of matches beyond what drawing them sees to."""

    def holds_of(self, piece: Instances) -> Mask:
        node = self._plan.pattern
        assert isinstance(node, MatchSequence)
        holds = self._passes(node.filters, piece)
        for clause in node.clauses:
            holds &= np.logical_or.reduce([self.evaluator.true([atom.predicate], piece.rows, len(piece)) for atom in clause])
        for check in self._plan.checks:
            left = np.flatnonzero(holds)
            found = piece.select(left)
            holds[left] = ~self._cancelled(check, found.rows, len(found), self._root_reach(found))
        return holds

    def stacked(self, node: MatchSequence) -> tuple[list[Instances], Stacks]:
        slots, _, stacks = self._stacked(node, is_root=True)
        return slots, stacks


class _Walks:
    """Walks from ends that are drawn by their weights. `times` are when matches end, ascending, and `counts` how many do."""

    def __init__(self, plan: MatchPlan, batch: Batch, times: Ints, counts: Floats) -> None:
        assert isinstance(plan.pattern, MatchSequence)
        self.slots, stacks = _Asked(plan, batch).stacked(plan.pattern)
        self._links, self._budget, self._window = link(stacks, batch.window), batch.budget, batch.window
        self._names = frozenset(plan.variables)
        self._times, self._sums = times, np.cumsum(counts)
        width = 1 if UNITS[batch.events.unit] >= 1_000 else 1_000
        top = len(self.slots) - 1
        lasts = stacks.offsets[top] + np.arange(self._links.sizes[top])
        ends = stacks.ends[stacks.offsets[top] + self._links.origins[lasts]]
        by_end = np.argsort(ends, kind="stable")
        self._lasts, ends = lasts[by_end], ends[by_end]
        self._begins, self._stops = np.searchsorted(ends, times), np.searchsorted(ends, times + width)
        self._room = np.zeros(len(stacks.starts) + len(self.slots) + 1)

    def instances(self, rows: Ints) -> Instances:
        return expand(self.slots, rows, self._names, in_order=True)

    def draw(self, n: int, random: np.random.Generator) -> Ints:
        """So many matches, a column of row numbers for each; one may be drawn more than once."""
        places = np.searchsorted(self._sums, random.random(n) * self._sums[-1], "right")
        places = np.sort(np.minimum(places, len(self._sums) - 1))
        return self._walked(places, random.random((n, len(self.slots))), False, self._budget)

    def of_numbers(self, numbers: Floats) -> Ints:
        """The matches of these numbers, which ascend, in the order of their ends."""
        places = np.searchsorted(self._sums, numbers, "right")
        in_time = numbers - np.append(0.0, self._sums)[places]
        fresh = self._budget.limits.budget()  # pages are looked at one after the other, for any length of time
        return self._walked(places, np.tile(in_time[:, None], len(self.slots)), True, fresh)

    def _walked(self, places: Ints, lots: Floats, is_number: bool, budget: Budget) -> Ints:
        """A match for each place among the times."""
        drawn, counts = np.unique(places, return_counts=True)
        out = np.empty((len(self.slots), len(places)), np.int64)
        done = 0
        for begin in range(0, len(drawn), ENDS_AT_ONCE):
            part = slice(begin, begin + ENDS_AT_ONCE)
            begins, stops, wanted = self._begins[drawn[part]], self._stops[drawn[part]], counts[part]
            upto = done + int(wanted.sum())
            lasts = (self._lasts, begins, stops, wanted)
            draw_back(self._links, self._window, lasts, lots[done:upto], is_number, self._room, out[:, done:upto])
            done = upto
            budget.check()
        return out


@inner_kernel
def count_ways(links: Links, window: int, last: int, group: int, room: Floats, spans: Ints) -> float:
    """In how many ways a match can end with this instance.

    `room[k + i]` is how many ways lead to the instances of slot i before k that the window has; `spans` are the first of these
    and the one behind the last, for every slot but the last.
    """
    offsets, groups, low, high, reach = links.offsets, links.groups, links.low, links.high, links.reach
    guarded, top = len(links.barriers) > 0, groups.shape[1] - 1
    bound = links.lasts[last] - window if links.lasts[last] >= LOWEST + window else LOWEST
    limit = links.limits[last] if guarded else HIGHEST
    if top == 0:
        barrier = links.barriers[last] if guarded else LOWEST
        return 1.0 if barrier <= bound < links.firsts[last] <= limit else 0.0
    stop = high[last]
    for i in range(top - 1, -1, -1):
        begin, end = offsets[i] + groups[group, i], stop
        while begin < end:  # `reach` never falls: the first that a chain inside the window leads to
            middle = (begin + end) // 2
            if reach[middle] <= bound:
                begin = middle + 1
            else:
                end = middle
        if begin >= stop:
            return 0.0
        spans[i, 0], spans[i, 1] = begin, stop
        if i > 0:
            stop = high[stop - 1]
    for i in range(top):
        begin, stop = spans[i, 0], spans[i, 1]
        total = 0.0
        room[begin + i] = total
        for k in range(begin, stop):
            if i == 0:
                barrier = links.barriers[k] if guarded else LOWEST
                if barrier <= bound < links.firsts[k] <= limit:
                    total += 1.0
            else:
                left = max(low[k], spans[i - 1, 0])
                if left < high[k]:
                    total += room[high[k] + i - 1] - room[left + i - 1]
            room[k + 1 + i] = total
    left = max(low[last], spans[top - 1, 0])
    return room[high[last] + top - 1] - room[left + top - 1] if left < high[last] else 0.0


@kernel
def draw_back(
    links: Links,
    window: int,
    drawn: tuple[Ints, Ints, Ints, Ints],
    lots: Floats,
    is_number: bool,
    room: Floats,
    out: Ints,
) -> None:
    """Fill `out` with the ids of matches that end at the times that were drawn, each predecessor by the ways that lead to it.

    `lots` are shares of these ways, a column for each slot; or, in the last, the number of a match among those that end then.
    `drawn` are the last instances in the order of time and, for each time, the first and the end of its own, and how many matches.
    """
    lasts, begins, stops, wanted = drawn
    groups, top = links.groups, links.groups.shape[1] - 1
    spans = np.empty((top + 1, 2), np.int64)
    at = 0
    for t in range(len(wanted)):
        ways = np.empty(stops[t] - begins[t])
        of_group = np.empty(stops[t] - begins[t], np.int64)
        for c in range(len(ways)):
            place = lasts[begins[t] + c] - links.offsets[top]
            group, end = 0, groups.shape[0] - 1
            while group < end:  # the last that begins up to here
                middle = (group + end + 1) // 2
                if groups[middle, top] <= place:
                    group = middle
                else:
                    end = middle - 1
            of_group[c] = group
            ways[c] = count_ways(links, window, lasts[begins[t] + c], group, room, spans)
        total = ways.sum()
        known = len(ways) - 1  # the one whose ways are in the room
        for m in range(at, at + wanted[t]):
            chosen, left = 0, lots[m, top] * (1.0 if is_number else total)
            while chosen < len(ways) - 1 and left >= ways[chosen]:
                left -= ways[chosen]
                chosen += 1
            while ways[chosen] == 0.0 and chosen > 0:
                chosen -= 1
            last = lasts[begins[t] + chosen]
            if chosen != known:
                count_ways(links, window, last, of_group[chosen], room, spans)
                known = chosen
            out[top, m] = links.ids[last]
            place = last
            for i in range(top - 1, -1, -1):
                low, high = max(links.low[place], spans[i, 0]), links.high[place]
                target = room[low + i] + (left if is_number else lots[m, i] * (room[high + i] - room[low + i]))
                while low < high - 1:  # the first behind which there are more ways than that
                    middle = (low + high) // 2
                    if room[middle + i] <= target:
                        low = middle
                    else:
                        high = middle
                while room[low + 1 + i] == room[low + i]:  # where rounding has led behind the last way
                    low -= 1
                left = target - room[low + i]
                place = low
                out[i, m] = links.ids[place]
        at += wanted[t]
