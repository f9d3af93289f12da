"""The matches of a shared plan as a stream goes on: what is new is joined with what is remembered, and nothing is found twice.

A query that is computed by itself has its chains (`linking`), and so has each delta of one that is made upwards. One that is made
from another's matches takes those that are new, and asks series (`chained`) for the rest: events that belong between or before
them, events that must not be there. A pattern that is longer by its last component is the other way round: matches that it may be
made from lie in a series, and every new event of that component asks which of them it ends.

    (A, B) is new            -> (A, M, B)      asks the series of M between A and B
    (A, B) is new            -> (A, B, D)      is put into a series of (A, B)
    D is new                 -> (A, B, D)      asks that series, for what began in the window

Cost of a step: the new events, for each component that asks for them; a question for every new match; and the matches written.
Invariant: every way here has seen the same events, each once, all that are kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from seqube.engine.chained import Chained
from seqube.engine.ecube.reuse import choose, distinct_matches, matrix, select_types
from seqube.engine.instances import Instances, minus, plus
from seqube.engine.kept import Kept
from seqube.engine.limits import Budget
from seqube.engine.linking import Linker, NewEvents
from seqube.engine.output import MatchWriter
from seqube.engine.predicates import Evaluator, Ints, Mask, Unsteady, gather
from seqube.events import Events
from seqube.language.tree import Predicate, Query, Value
from seqube.plan.chase import SharedPlan, SharedStep
from seqube.plan.derivation import Derivation, Forbid, Join, Keep, Narrow, Widen
from seqube.plan.needs import why_replayed
from seqube.plan.physical import MatchPlan, MatchSequence, Scan, ticks

_NO_ROWS = np.empty(0, np.int64)


class CannotGoOn(Exception):  # noqa: N818 - not an error: the plan is to be made without it
    """A query of a plan cannot be computed in the way the plan says, with what is new alone."""

    def __init__(self, step: SharedStep) -> None:
        self.step = step


@dataclass(frozen=True, slots=True)
class New:
    """New events, all of which are kept, the first as row `first`; and what a step may use."""

    events: Events
    first: int
    evaluator: Evaluator
    kept: Kept
    budget: Budget

    def rows_of(self, scan: Scan) -> Ints:
        """Their places among the new events."""
        rows = self.events.rows_of(scan.types)
        if scan.filters and len(rows):
            rows = rows[self.evaluator.true(scan.filters, {scan.variable: rows}, len(rows))]
        return rows

    def room(self, n_slots: int, n: int) -> Ints:
        self.budget.hold(8 * n_slots * n)
        return matrix(n_slots, n)


class LiveMatches:
    """A plan at work over events that look like these (of which there are none)."""

    def __init__(self, plan: SharedPlan, none: Events) -> None:
        self.plan, self._none = plan, none
        self._alone: dict[MatchPlan, _Alone] = {}
        self._events: dict[tuple[Scan, tuple[Value, ...], tuple[str, ...]], _EventSeries] = {}
        self._ways: dict[str, list[_Narrow | _Widen]] = {}
        self._writers: dict[str, MatchWriter] = {}
        for step in plan.steps:
            try:
                if step.source is None:
                    self.alone(step.plan)
                self._ways[step.name] = self._way(step.derivation, step.query)
            except Unsteady:
                raise CannotGoOn(step) from None
            self._writers[step.name] = MatchWriter(step.plan, none, Evaluator(none))

    def _way(self, derivation: Derivation, query: Query) -> list[_Narrow | _Widen]:
        window = ticks(query.window, self._none.unit)
        found: list[_Narrow | _Widen] = []
        for step in derivation:
            names = [component.variable for component in step.gives.positives]
            asking = _Asking(self, names, window, query.partition_by, self._none)
            found.append(_Narrow(step, asking) if isinstance(step, Narrow) else _Widen(step, asking, self))
        return found

    # ------------------------------------------------------------ what is remembered

    def alone(self, plan: MatchPlan) -> _Alone:
        """The matches of a plan by itself, whoever asks for them."""
        if plan not in self._alone:
            self._alone[plan] = _Alone(plan, self._none)
        return self._alone[plan]

    def series(self, scan: Scan, values: tuple[Value, ...], partition_by: tuple[str, ...]) -> _EventSeries:
        """The events of a component by a key of theirs, whoever asks for them."""
        key = (scan, values, partition_by)
        if key not in self._events:
            self._events[key] = _EventSeries(*key)
        return self._events[key]

    @property
    def _open(self) -> Iterator[Chained]:
        for way in self._ways.values():
            yield from (step.open.series for step in way if isinstance(step, _Narrow) and step.open is not None)

    @property
    def _all_series(self) -> Iterator[Chained]:
        yield from (each.series for each in self._events.values())
        yield from self._open

    @property
    def n_open(self) -> int:
        """How many matches are held because a longer pattern may be made from them."""
        return sum(map(len, self._open))

    @property
    def n_bytes(self) -> int:
        return sum(each.links.n_bytes for each in self._alone.values()) + sum(each.n_bytes for each in self._all_series)

    @property
    def n_codes(self) -> int:
        """How many keys there were since all this was begun."""
        codes = [each.links.n_codes for each in self._alone.values()] + [each.n_codes for each in self._all_series]
        return max(codes, default=0)

    def drop(self, decided: int, longest: int) -> None:
        """Forget what no later match can be made with."""
        for alone in self._alone.values():
            alone.drop(decided)
        for series in self._events.values():
            series.series.drop(int(minus(np.array([decided]), longest)[0]))
        for way in self._ways.values():
            for step in way:
                if isinstance(step, _Narrow) and step.open is not None:
                    step.open.series.drop(int(minus(np.array([decided]), step.asking.window)[0]))

    # ------------------------------------------------------------ steps

    def read(self, events: Events) -> list[NewEvents]:
        """What is found among new events by each plan: this may be Unsteady, and what follows is not."""
        return [each.read(events) for each in self._alone.values()]

    def step(self, new: New, read: Sequence[NewEvents], wanted: frozenset[str] | None = None) -> dict[str, Ints]:
        """The new matches of every query, or of those that are wanted."""
        for alone, found in zip(self._alone.values(), read, strict=True):
            alone.link(new, found)
        for series in self._events.values():
            series.append(new)
        matches: dict[str, Ints] = {}
        for step in self.plan.steps:
            if wanted is not None and step.name not in wanted:
                continue
            rows = self._alone[step.plan].matches(new) if step.source is None else matches[step.source]
            for part in self._ways[step.name]:
                rows = part.made(rows, new)
            matches[step.name] = rows
        return matches

    def load(self, new: New) -> None:
        """All that is kept was gone through before: what is remembered of it is made again, and nothing is reported."""
        sources = self.plan.sources
        wanted: set[str] = set()
        for name, way in self._ways.items():
            if any(isinstance(step, _Narrow) and step.open is not None for step in way):
                wanted.add(name)
                while (above := sources[name]) is not None and above not in wanted:
                    wanted.add(above)
                    name = above
        self.step(new, self.read(new.events), frozenset(wanted))
        for alone in self._alone.values():
            alone.forget_ends()

    def write(self, matches: Mapping[str, Ints], kept: Kept, budget: Budget) -> dict[str, pa.Table]:
        tables = {}
        for step in self.plan.steps:
            writer, rows = self._writers[step.name], matches[step.name]
            if not rows.shape[1]:
                tables[step.name] = writer.empty()
                continue
            budget.find(rows.shape[1])
            if not step.plan.returns:
                tables[step.name] = writer.write_events(kept.columns(rows.ravel(), not writer.knows_types), rows.shape[1])
                continue
            events, _, places = kept.placed(rows)
            piece = Instances(dict(zip(step.plan.variables, places, strict=True)), places[0], places[-1])
            tables[step.name] = writer.over(events, Evaluator(events)).write(piece)
        return tables


class _Alone:
    """The matches of a plan by itself, by its chains."""

    def __init__(self, plan: MatchPlan, none: Events) -> None:
        if why_replayed(plan) is not None:
            raise Unsteady
        assert isinstance(plan.pattern, MatchSequence)
        self._plan, self._pattern = plan, plan.pattern
        self._order = [plan.pattern.binds.index(name) for name in plan.variables]
        self._linker = Linker(plan, none)
        self.links = self._linker.start()
        self._ends = _NO_ROWS
        self._found: Ints | None = None

    def read(self, events: Events) -> NewEvents:
        return self._linker.read(self.links, events, None)

    def link(self, new: New, found: NewEvents) -> None:
        times = new.events.times
        self._ends, self._found = self._linker.link(self.links, found.in_place(), new.first, times, times), None

    def matches(self, new: New) -> Ints:
        """Those that end with the events that were linked last."""
        if self._found is None:
            pieces = [new.room(len(self._order), 0)]
            for piece in self._linker.matches(self.links, self._ends, new.budget):
                pieces.append(new.room(*piece.shape))
                pieces[-1][:] = piece[self._order]
            rows = np.concatenate(pieces, axis=1) if len(pieces) > 2 else pieces[-1]
            if self._pattern.filters and rows.shape[1]:
                asked = [guarded.predicate for guarded in self._pattern.filters]
                rows = choose(rows, _Bound(new.kept, self._plan.variables, rows).true(asked))
            self._found = rows
        return self._found

    def forget_ends(self) -> None:
        self._ends, self._found = _NO_ROWS, None

    def drop(self, decided: int) -> None:
        self.links.drop(int(minus(np.array([decided]), self._linker.shape.window)[0]))


class _EventSeries:
    """The events of a component, by a key."""

    def __init__(self, scan: Scan, values: tuple[Value, ...], partition_by: tuple[str, ...]) -> None:
        self._scan, self._values, self._partition_by = scan, values, partition_by
        self.series = Chained(1, len(values) + len(partition_by))

    def append(self, new: New) -> None:
        rows = new.rows_of(self._scan)
        if not len(rows):
            return
        codes = None
        if self.series.keys is not None:
            columns = [new.evaluator.array(value, {self._scan.variable: rows}, len(rows)) for value in self._values]
            columns += [gather(new.events.column(name), rows) for name in self._partition_by]
            codes = self.series.keys.code(columns)
        times = new.events.times[rows]
        self.series.append(new.first + rows[None, :], times, times, codes)


class _Bound:
    """Matches whose events are looked at: these alone are put together."""

    def __init__(self, kept: Kept, names: Sequence[str], rows: Ints) -> None:
        self._events, _, self._places = kept.placed(rows)
        self._bound = dict(zip(names, self._places, strict=True))
        self._evaluator = Evaluator(self._events)

    def true(self, predicates: Sequence[Predicate]) -> Mask:
        return self._evaluator.true(predicates, self._bound, self._places.shape[1])

    def columns(self, values: Sequence[Value], partition_by: Sequence[str]) -> list[pa.Array]:
        found = [self._evaluator.array(value, self._bound, self._places.shape[1]) for value in values]
        return found + [gather(self._events.column(name), self._places[0]) for name in partition_by]


# ---------------------------------------------------------------- from matches to matches


@dataclass(frozen=True)
class _Asking:
    """What matches of one query ask of the events around them."""

    live: LiveMatches
    names: Sequence[str]  # the variables of the query, in order
    window: int
    partition_by: tuple[str, ...]
    none: Events

    def bound(self, rows: Ints, have: Sequence[int], new: New) -> _Bound:
        return _Bound(new.kept, [self.names[slot] for slot in have], rows)

    def codes(self, series: Chained, values: Sequence[Value], rows: Ints, have: Sequence[int], new: New) -> Ints | None:
        """The keys of matches, as a series knows them."""
        if series.keys is None:
            return None
        return series.keys.code(self.bound(rows, have, new).columns(values, self.partition_by))

    def check_key(self, join: Join) -> None:
        """Both sides of an equality must be of one type, which stays the same whatever comes."""
        evaluator = Evaluator(self.none)
        anything = dict.fromkeys(self.names, _NO_ROWS)
        for inner, outer in join.key:
            kinds = [evaluator.array(value, anything, 0).type for value in (inner, outer)]
            if kinds[0] != kinds[1] or pat.is_nested(kinds[0]):
                raise Unsteady

    def is_there(self, part: Forbid, rows: Ints, have: Sequence[int], new: New) -> Mask:
        """For which matches there is an event in the gap."""
        series = self.live.series(part.scan, (), self.partition_by).series
        of = dict(zip(have, rows, strict=True))
        first, last = new.kept.times_of(rows[0]), new.kept.times_of(rows[-1])
        lows = new.kept.times_of(of[part.gap - 1]) if part.gap else minus(last, self.window)
        highs = new.kept.times_of(of[part.gap]) if part.gap in of else plus(first, self.window)
        there: Mask = series.find(self.codes(series, (), rows, have, new), lows, highs, most=1)[1] > 0
        return there


@dataclass(frozen=True)
class _Open:
    """Matches that wait for a last event, and the component that it is of."""

    join: Join
    series: Chained


class _Narrow:
    """From a coarser query's new matches to a finer one's."""

    def __init__(self, step: Narrow, asking: _Asking) -> None:
        self._step, self.asking = step, asking
        self._have = [slot for slot, taken in enumerate(step.slots) if taken is not None]
        self._taken = [slot for slot in step.slots if slot is not None]
        self.open: _Open | None = None
        self._early: tuple[Join | Forbid | Keep, ...] = step.steps
        self._late: tuple[Join | Forbid | Keep, ...] = ()
        n_slots = len(step.slots)
        for number, part in enumerate(step.steps):
            if isinstance(part, Join):
                asking.check_key(part)
            if isinstance(part, Join) and step.extends and part.right is None and part.slot > max(self._have):
                if part.slot != n_slots - 1:
                    raise Unsteady  # more than one event is still to come
                self.open = _Open(part, Chained(n_slots - 1, len(part.key) + len(asking.partition_by)))
                self._early, self._late = step.steps[:number], step.steps[number + 1 :]
        for part in (*self._early, *self._late):
            if isinstance(part, Join):
                asking.live.series(part.scan, tuple(inner for inner, _ in part.key), asking.partition_by)
            elif isinstance(part, Forbid):
                asking.live.series(part.scan, (), asking.partition_by)

    def made(self, source: Ints, new: New) -> Ints:
        step, kept = self._step, new.kept
        rows = source if self._taken == list(range(len(source))) else source[self._taken]
        if step.retyped and rows.shape[1]:
            masks = np.stack([kept.are_of(types) for _, types in step.retyped])
            codes = np.stack([kept.types_of(rows[self._have.index(slot)]) for slot, _ in step.retyped])
            rows = choose(rows, select_types(codes, np.arange(len(codes)), masks))
        if step.shorter and rows.shape[1]:
            rows = choose(rows, kept.times_of(rows[-1]) - kept.times_of(rows[0]) < self.asking.window)
        rows = self._go(self._early, rows, list(self._have), new)
        if self.open is None:
            return rows
        self._put_open(rows, new)
        return self._go(self._late, self._ended(new), list(range(len(step.slots))), new)

    def _go(self, parts: Sequence[Join | Forbid | Keep], rows: Ints, have: list[int], new: New) -> Ints:
        n_slots = len(have) + sum(isinstance(part, Join) for part in parts)
        for part in parts:
            new.budget.check()
            if not rows.shape[1]:
                break
            match part:
                case Keep(predicate):
                    rows = choose(rows, self.asking.bound(rows, have, new).true([predicate]))
                case Forbid():
                    rows = choose(rows, ~self.asking.is_there(part, rows, have, new))
                case Join():
                    rows = self._join(part, rows, have, new)
                    have = sorted([*have, part.slot])
        return rows if rows.shape[1] else np.empty((n_slots, 0), np.int64)

    def _join(self, part: Join, rows: Ints, have: list[int], new: New) -> Ints:
        series = self.asking.live.series(part.scan, tuple(inner for inner, _ in part.key), self.asking.partition_by).series
        of, kept, window = dict(zip(have, rows, strict=True)), new.kept, self.asking.window
        codes = self.asking.codes(series, [outer for _, outer in part.key], rows, have, new)
        lows = minus(kept.times_of(rows[-1]), window) if part.left is None else kept.times_of(of[part.left])
        highs = plus(kept.times_of(rows[0]), window) if part.right is None else kept.times_of(of[part.right])
        found = series.find(codes, lows, highs)
        out = new.room(len(rows) + 1, int(found[1].sum()))
        series.join(rows, lows, found, np.array([sum(slot < part.slot for slot in have)]), out)
        return out

    def _put_open(self, rows: Ints, new: New) -> None:
        """Matches that wait for their last event, in the order in which they end."""
        assert self.open is not None
        if not rows.shape[1]:
            return
        ends = new.kept.times_of(rows[-1])
        order = np.argsort(ends, kind="stable")
        rows, series = choose(rows, order), self.open.series
        have = list(range(len(rows)))
        codes = self.asking.codes(series, [outer for _, outer in self.open.join.key], rows, have, new)
        series.append(rows, new.kept.times_of(rows[0]), ends[order], codes)

    def _ended(self, new: New) -> Ints:
        """Open matches, with each new event that is their last."""
        assert self.open is not None
        join, series = self.open.join, self.open.series
        rows = new.rows_of(join.scan)
        asking, times = new.first + rows[None, :], new.events.times[rows]
        codes = None
        if series.keys is not None:
            columns = [new.evaluator.array(inner, {join.scan.variable: rows}, len(rows)) for inner, _ in join.key]
            columns += [gather(new.events.column(name), rows) for name in self.asking.partition_by]
            codes = series.keys.code(columns)
        lows = minus(times, self.asking.window)
        found = series.find(codes, lows, times)
        out = new.room(len(self._step.slots), int(found[1].sum()))
        series.join(asking, lows, found, np.arange(len(self._step.slots) - 1), out)
        return out


class _Widen:
    """From a finer query's new matches to a coarser one's."""

    def __init__(self, step: Widen, asking: _Asking, live: LiveMatches) -> None:
        self._step, self.asking, self._live = step, asking, live
        self._deltas = [(live.alone(delta.plan), delta.present) for delta in step.deltas]
        for part in (part for _, present in self._deltas for part in present):
            live.series(part.scan, (), asking.partition_by)
        self._nearest = None if step.dropped is None else live.series(step.dropped.scan, (), ()).series

    def made(self, source: Ints, new: New) -> Ints:
        step = self._step
        if len(step.slots) < len(source):
            if step.dropped is not None:
                source = choose(source[list(step.slots)], self._is_nearest(source, new))
            else:
                source = distinct_matches(step.slots, source)
        pieces, slots = [source], list(range(len(step.slots)))
        for alone, present in self._deltas:
            found = alone.matches(new)
            if present and found.shape[1]:
                there = [self.asking.is_there(part, found, slots, new) for part in present]
                found = choose(found, np.logical_or.reduce(there))
            pieces.append(found)
        pieces = [piece for piece in pieces if piece.shape[1]] or pieces[:1]
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces, axis=1)

    def _is_nearest(self, source: Ints, new: New) -> Mask:
        """Of the matches that differ in one event alone, the one whose event is nearest."""
        dropped, series = self._step.dropped, self._nearest
        assert dropped is not None
        assert series is not None
        if dropped.after is not None:
            times = new.kept.times_of(source[dropped.after])
            nearest = series.find(None, times, times + 1, most=0)[0] + 1
        else:
            assert dropped.before is not None
            times = new.kept.times_of(source[dropped.before])
            nearest = series.find(None, times, times, most=0)[0]
        is_nearest: Mask = series.rows_at(nearest) == source[dropped.slot]
        return is_nearest
