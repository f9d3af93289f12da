"""Rules learnt from history: frequent episodes by their minimal occurrences, and what tends to follow them.

An episode is a chain (`A -> B`, serial) or a set (`A, B`, parallel) of distinct event types. Its support is the number of its
minimal occurrences within the window, found by the same loop that forecasts use. Episodes grow event by event: one is tried only
if all its parts with one event less are frequent. A rule "episode => type" is given if the type followed at least `min_support`
occurrences before the horizon, and at least `min_confidence` of those whose interval lies in the past; that share is its
probability, so over the same events `forecast(...).quality` observes exactly what the rule states. Its lift is that share
divided by the share of all events (of types with that support) that the type followed before the horizon: with 1 the rule says
nothing, with 3 the type comes three times as often as after any event.

A rule is redundant where one with fewer of its events, or with the same ones in any order, is as certain (`min_gain`): what it says
beyond that one is nothing.

Counting is kept apart from searching, and adds up: a `Slice` counts the occurrences that end with its own events, given those of
one window before them and one horizon after them. Whoever has many slices (of time, or of keys) adds their counts.

Cost: per level, one pass of the index over all candidates; then a search per frequent episode, occurrence and type.

| Mannila, Toivonen, Verkamo (as the paper cites it) | Here |
|---|---|
| mo(alpha), minimal occurrences | `Slice.count` |
| serial, parallel episode | `chain`, `crowd` |
| confidence of alpha => beta | hits / closed occurrences, from `Slice.follow` |
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, pairwise
from math import ceil, inf
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from seqube.arguments import checked
from seqube.engine.jit import kernel
from seqube.engine.keys import whole_codes
from seqube.engine.sequence import HIGHEST, LOWEST
from seqube.errors import PlanError, Problem, QueryError
from seqube.events import Events
from seqube.events.batch import Codes
from seqube.events.times import Ints
from seqube.language.tree import Window
from seqube.plan.slices import n_stretches
from seqube.predict.episodes import Episodes, Found, line_up
from seqube.predict.index import match_index
from seqube.predict.matcher import lay_end_to_end
from seqube.predict.rules import Rule, Rules
from seqube.predict.ruletext import Vertex, read_length, write_length
from seqube.threads import read_threads, spread

MiningProgress = Callable[[int, int], None]  # events in an episode, episodes that are counted

MOST_EPISODES = 2_000_000
_BATCH = 20_000_000  # occurrences held at once


@checked
def mine(
    events: Any,
    window: int | str | Window,
    min_support: float,
    min_confidence: float,
    *,
    horizon: int | str | Window | None = None,
    max_events: int = 3,
    kinds: Sequence[str] = ("serial", "parallel"),
    partition_by: str | Sequence[str] = (),
    min_lift: float = 0,
    min_gain: float | None = None,
    limit: int | None = None,
    type: str = "type",
    time: str = "ts",
    unit: str = "ms",
    progress: MiningProgress | None = None,
    threads: int | None = None,
) -> Rules:
    """Rules over event types that held in these events, the most certain first: `Rules` that `forecast` takes.

    - `events`, `type`, `time`, `unit`: as for `run`.
    - `window`: how long a predicate may take: "10 min", or a number in the unit of the time column.
    - `min_support`: how many occurrences a rule has at least, or, below 1, what share of all events.
    - `min_confidence`: how often the consequent must have followed, from 0 to 1.
    - `horizon`: how long predicate and consequent may take together; `window` unless given.
    - `max_events`: the size of the largest predicate.
    - `kinds`: of predicates: "serial" (one after the other), "parallel" (in any order).
    - `partition_by`: columns; each of their values is a stream of its own.
    - `min_lift`: how many times more often than after any event the consequent must have followed.
    - `min_gain`: by how much a rule must be more certain than every rule with part of what it asks for; 0 leaves out the redundant
      ones, None leaves out none.
    - `limit`: how many rules to give at most.
    - `progress`: called with each size of episodes and how many of it are counted.
    - `threads`: as for `run`.

    >>> types = ["Jam", "Crash", "Jam", "Crash", "Jam", "Crash", "Jam", "Rain"]
    >>> events = pa.table({"ts": [0, 1, 10, 11, 20, 21, 30, 40], "type": types})
    >>> for rule in sq.mine(events, window=5, min_support=3, min_confidence=0.5):
    ...     print(rule.name, rule.probability)
    Jam => Crash 0.75
    """
    threads = read_threads(threads)
    stream = Events(events, type, time, unit, threads=threads)
    lengths = (stream.unit, window, min_support, min_confidence, horizon)
    aim = read_aim(*lengths, max_events, kinds, partition_by, limit, min_lift, min_gain)
    names = sorted(stream.type_names)  # so that the order of rules does not depend on the order of rows
    return aim.find(_Slices(_cut_all(stream, names, aim, threads), len(names), threads), names, len(stream), progress)


def _cut_all(events: Events, names: Sequence[str], aim: Aim, threads: int) -> list[Slice]:
    """A whole stream in slices of time, each with the events of a window before and a horizon after its own."""
    if not len(events):
        return []
    times, newest = events.times, int(events.times[-1])
    n = n_stretches(events.statistics, sum(aim.ticks), threads)
    marks = np.unique(times[np.arange(1, n) * len(times) // n])
    slices: list[Slice] = []
    for low, high in pairwise([LOWEST, *marks.tolist(), newest + 1]):
        begin = np.searchsorted(times, max(LOWEST, low - aim.ticks[0]))
        end = np.searchsorted(times, min(HIGHEST, high + aim.ticks[1]))
        slices += cut_slices(events.slice(int(begin), int(end)), names, aim, newest, low, high)
    return slices


@dataclass(frozen=True)
class Aim:
    """What is looked for, checked, and with lengths in ticks: the same whoever counts."""

    within: Window
    horizon: Window
    ticks: tuple[int, int]
    min_support: Fraction
    min_confidence: Fraction
    min_lift: Fraction
    min_gain: Fraction | None
    max_events: int
    kinds: tuple[str, ...]
    partition_by: tuple[str, ...]
    limit: int | None

    def least(self, n_events: int) -> int:
        """The support that is asked for, as a number of occurrences."""
        return int(self.min_support) if self.min_support >= 1 else at_least(self.min_support, n_events)

    def find(self, counter: Counter, names: Sequence[str], n_events: int, progress: MiningProgress | None = None) -> Rules:
        """The rules that hold. `names` are what the counter's symbols stand for, `n_events` counts those of every type."""
        within, least = min(self.ticks[0], self.ticks[1] - 1), self.least(n_events)
        found = search(counter, within, least, self.min_confidence, self.max_events, self.kinds, progress)
        rates = follow_rates(counter, within, least) if found else {}
        found = [pattern for pattern in found if pattern.share >= self.min_lift * rates[pattern.consequent]]
        if self.min_gain is not None:
            found = list(_without_redundant(found, self.min_gain))
        return Rules(_write_rule(pattern, names, rates[pattern.consequent], self) for pattern in found[: self.limit])


def read_aim(
    unit: str,
    window: int | str | Window,
    min_support: float,
    min_confidence: float,
    horizon: int | str | Window | None,
    max_events: int,
    kinds: Sequence[str],
    partition_by: str | Sequence[str],
    limit: int | None,
    min_lift: float = 0,
    min_gain: float | None = None,
) -> Aim:
    """Check what a user asks for; `unit` is that of the time column."""
    columns = (partition_by,) if isinstance(partition_by, str) else tuple(partition_by)
    within, until = _read_windows(window, horizon)
    # A throw-away rule checks the lengths, and turns them into ticks as forecasts do.
    ticks = Rule("event", "event", within, until, 1.0, name="mined rules").ticks(unit)
    if not 0 < min_support < inf or (min_support >= 1 and min_support != int(min_support)):
        raise QueryError(
            Problem(f"min_support {min_support!r} is neither a count nor a share", hint="give 50, or 0.01 of all events")
        )
    if not 0 <= min_confidence <= 1:
        raise QueryError(Problem(f"min_confidence {min_confidence!r} is not a number from 0 to 1"))
    if not 0 <= min_lift < inf:
        raise QueryError(
            Problem(f"min_lift {min_lift!r} is not a number of times", hint="give 2 for twice as often as after any event")
        )
    if min_gain is not None and not 0 <= min_gain <= 1:
        raise QueryError(Problem(f"min_gain {min_gain!r} is not a number from 0 to 1"))
    unknown = [kind for kind in kinds if kind not in ("serial", "parallel")]
    if unknown or not kinds or max_events < 1:
        raise QueryError(
            Problem(f"cannot mine {unknown or 'nothing'}", hint="kinds are 'serial' and 'parallel', max_events at least 1")
        )
    # As they were written: 0.55 is 55 of 100 then, and not the double next to it.
    support, confidence, lift = (Fraction(str(size)) for size in (min_support, min_confidence, min_lift))
    gain = None if min_gain is None else Fraction(str(min_gain))
    return Aim(within, until, ticks, support, confidence, lift, gain, max_events, tuple(kinds), columns, limit)


def at_least(share: Fraction, n: int) -> int:
    """The smallest count that is this share of n, and no less than one: counts below one are no rates at all."""
    return max(1, ceil(share * n))


def _read_windows(window: int | str | Window, horizon: int | str | Window | None) -> tuple[Window, Window]:
    try:
        within = read_length(window)
        return within, within if horizon is None else read_length(horizon)
    except ValueError as error:
        raise QueryError(Problem(str(error), hint="write '10 min', or a bare number in the time column's unit")) from error


# ---------------------------------------------------------------- counting


class Counter(Protocol):
    """What the search asks: how often each symbol and each episode occurs, and what follows the episodes."""

    def totals(self) -> Ints:
        """Instances by symbol."""

    def count(self, episodes: Episodes) -> Ints:
        """Minimal occurrences by episode."""

    def follow(self, episodes: Episodes, symbols: Codes) -> tuple[Ints, Ints]:
        """By episode: occurrences whose interval lies in the past; by episode and symbol: how many of these it followed."""


@dataclass(frozen=True)
class Slice:
    """A stretch of a stream: events of its own, and those of a window before and a horizon after them.

    Occurrences that end with its own events are its own; events of equal time are all its own, or none is.
    """

    times: Ints
    symbols: Codes
    closed: npt.NDArray[np.bool_]  # by event: whether an interval of an occurrence that starts there lies in the past
    own: npt.NDArray[np.bool_]
    horizon: int
    n_symbols: int

    def totals(self) -> Ints:
        return np.bincount(self.symbols[self.own], minlength=self.n_symbols).astype(np.int64)

    def count(self, episodes: Episodes) -> Ints:
        return np.bincount(self._match(episodes).rules, minlength=episodes.n_rules).astype(np.int64)

    def follow(self, episodes: Episodes, symbols: Codes) -> tuple[Ints, Ints]:
        found = self._match(episodes)
        past = self.closed[np.searchsorted(self.times, found.starts)]
        rules, starts, ends = found.rules[past], found.starts[past], found.ends[past]
        order = np.lexsort((ends, rules))
        bounds = np.searchsorted(rules[order], np.arange(episodes.n_rules + 1)).astype(np.int64)
        by_symbol = np.argsort(self.symbols, kind="stable")
        symbol_bounds = np.searchsorted(self.symbols[by_symbol], np.arange(self.n_symbols + 1)).astype(np.int64)
        hits = _count_hits(bounds, starts[order], ends[order], self.horizon, symbol_bounds, self.times[by_symbol], symbols)
        return np.diff(bounds), hits

    def _match(self, episodes: Episodes) -> Found:
        until = int(np.max(np.flatnonzero(self.own), initial=-1)) + 1
        found = match_index(self.times[:until], self.symbols[:until], episodes)
        own = self.own[np.searchsorted(self.times, found.ends)]
        return Found(found.rules[own], found.starts[own], found.ends[own])


@kernel
def _count_hits(
    bounds: Ints, starts: Ints, ends: Ints, horizon: int, symbol_bounds: Ints, times: Ints, symbols: Codes
) -> npt.NDArray[np.int64]:
    """By episode and symbol: occurrences with an instance strictly between their end and their start + horizon."""
    hits = np.zeros((bounds.size - 1, symbols.size), np.int64)
    for rule in range(bounds.size - 1):
        for k in range(symbols.size):
            position = symbol_bounds[symbols[k]]
            stop = symbol_bounds[symbols[k] + 1]
            for row in range(bounds[rule], bounds[rule + 1]):
                # Ends ascend, so the search goes on from where it stood: doubling steps, then halving.
                step = 1
                while position + step <= stop and times[position + step - 1] <= ends[row]:
                    position += step
                    step *= 2
                while step:
                    if position + step <= stop and times[position + step - 1] <= ends[row]:
                        position += step
                    step >>= 1
                if position == stop:
                    break
                if times[position] < starts[row] + horizon:
                    hits[rule, k] += 1
    return hits


class _Slices:
    """A counter over slices: their counts add up."""

    def __init__(self, slices: Sequence[Slice], n_symbols: int, threads: int) -> None:
        self._slices, self._n_symbols, self._threads = slices, n_symbols, threads

    def totals(self) -> Ints:
        return sum((piece.totals() for piece in self._slices), np.zeros(self._n_symbols, np.int64))

    def count(self, episodes: Episodes) -> Ints:
        counts = spread(lambda piece: piece.count(episodes), self._slices, self._threads)
        return sum(counts, np.zeros(episodes.n_rules, np.int64))

    def follow(self, episodes: Episodes, symbols: Codes) -> tuple[Ints, Ints]:
        counts = spread(lambda piece: piece.follow(episodes, symbols), self._slices, self._threads)
        closed = sum((more for more, _ in counts), np.zeros(episodes.n_rules, np.int64))
        return closed, sum((more for _, more in counts), np.zeros((episodes.n_rules, len(symbols)), np.int64))


def cut_slices(
    events: Events, names: Sequence[str], aim: Aim, newest: int, low: int = LOWEST, high: int | None = None
) -> Iterator[Slice]:
    """Events as one slice; with keys, their streams laid end to end (in as many slices as 64 bits ask for).

    `names` ascend; events of other types do not count. `newest` is the time of the last event of the whole stream. The events may
    be those of a stretch [low, high) and of what it needs around it.
    """
    within, horizon = aim.ticks
    ranks = {name: rank for rank, name in enumerate(names)}
    ranked = np.array([ranks.get(name, -1) for name in events.type_names], np.int32)
    symbols = ranked[events.types] if len(ranked) else np.empty(0, np.int32)
    rows = np.flatnonzero(symbols >= 0)
    if aim.partition_by and len(events):
        keys, _ = whole_codes(events, aim.partition_by)
        rows = rows[keys[rows] >= 0]
    if len(rows) == 0:
        return
    times = events.times
    closed = times <= newest + 1 - horizon
    own = (times >= low) & (times < (newest + 1 if high is None else high))
    lines = lay_end_to_end(times[rows], keys[rows], max(within, horizon) + 1) if aim.partition_by else [(slice(None), times[rows])]
    for chosen, line in lines:
        laid = rows[chosen]
        yield Slice(line, symbols[laid], closed[laid], own[laid], horizon, len(names))


# ---------------------------------------------------------------- searching


class FoundRule(NamedTuple):
    """A rule that held: the symbols of its predicate, whether they are a chain, what followed, how often of how many."""

    symbols: tuple[int, ...]
    is_chain: bool
    consequent: int
    n_hits: int
    n_closed: int

    @property
    def share(self) -> Fraction:
        return Fraction(self.n_hits, self.n_closed)

    @property
    def confidence(self) -> float:
        return self.n_hits / self.n_closed


def search(
    counter: Counter,
    within: int,
    min_support: int,
    min_confidence: Fraction,
    max_events: int,
    kinds: tuple[str, ...],
    progress: MiningProgress | None = None,
) -> list[FoundRule]:
    """All patterns with enough support and confidence, the most certain first."""
    totals = counter.totals()
    frequent = np.flatnonzero(totals >= min_support).astype(np.int32)
    singles = frequent.reshape(-1, 1)
    found = _follow(counter, singles, "serial" in kinds, within, totals, frequent, min_support, min_confidence)
    for kind in kinds:
        is_chain = kind == "serial"
        level = singles
        for size in range(2, max_events + 1):
            level = _grow(level, is_chain)
            if progress:
                progress(size, len(level))
            if len(level) > MOST_EPISODES:
                raise PlanError(f"{len(level):,} episodes would have to be counted\n  hint: raise min_support or lower max_events")
            supports = [counter.count(line_up(batch, is_chain, within, len(totals))) for batch in _batches(level, totals)]
            level = level[np.concatenate([np.empty(0, np.int64), *supports]) >= min_support]
            if len(level) == 0:
                break
            found += _follow(counter, level, is_chain, within, totals, frequent, min_support, min_confidence)
    return sorted(found, key=lambda p: (-p.confidence, -p.n_hits, len(p.symbols), not p.is_chain, p.symbols, p.consequent))


def follow_rates(counter: Counter, within: int, min_support: int) -> dict[int, Fraction]:
    """By frequent symbol: the share of the events of such symbols, with intervals that lie in the past, that it followed."""
    totals = counter.totals()
    frequent = np.flatnonzero(totals >= min_support).astype(np.int32)
    closed, hits = counter.follow(line_up(frequent.reshape(-1, 1), True, within, len(totals)), frequent)
    n_closed = max(1, int(closed.sum()))
    return {symbol: Fraction(n_hits, n_closed) for symbol, n_hits in zip(frequent.tolist(), hits.sum(axis=0).tolist(), strict=True)}


def _without_redundant(found: Sequence[FoundRule], min_gain: Fraction) -> Iterator[FoundRule]:
    """The rules that say more than every rule with part of what they ask for, and by so much."""
    shares = {(rule.is_chain or len(rule.symbols) == 1, rule.symbols, rule.consequent): rule.share for rule in found}
    for rule in found:
        parts = [
            shares[known]
            for size in range(1, len(rule.symbols) + 1)
            for symbols in combinations(rule.symbols, size)
            for is_chain in (True, False)
            if (is_chain, symbols) != (rule.is_chain or size == 1, rule.symbols)
            and (not is_chain or rule.is_chain or size == 1)
            and (known := (is_chain, symbols if is_chain else tuple(sorted(symbols)), rule.consequent)) in shares
        ]
        if all(rule.share > part and rule.share - part >= min_gain for part in parts):
            yield rule


def _grow(level: Codes, is_chain: bool) -> Codes:
    """Episodes with one event more, all of whose parts with one event less are in `level`."""
    known = {tuple(row) for row in level.tolist()}
    ends: dict[tuple[int, ...], list[int]] = {}
    for *head, last in known:
        ends.setdefault(tuple(head), []).append(last)
    grown = []
    for row in sorted(known):
        # A chain goes on from its own tail; a set takes a larger symbol in place of its last.
        for last in sorted(ends.get(row[1:] if is_chain else row[:-1], [])):
            candidate = (*row, last)
            if last in row or (not is_chain and last < row[-1]):
                continue
            if all(part in known for part in combinations(candidate, len(row))):
                grown.append(candidate)
    return np.array(grown, np.int32).reshape(len(grown), level.shape[1] + 1)


def _batches(level: Codes, totals: Ints) -> Iterator[Codes]:
    """Episodes in batches that cannot have more occurrences than fit in memory: each has at most its rarest event's."""
    weights = np.cumsum(totals[level].min(axis=1)) // _BATCH
    cuts = np.flatnonzero(np.diff(weights)) + 1
    yield from (batch for batch in np.split(level, cuts) if len(batch))


def _follow(
    counter: Counter,
    level: Codes,
    is_chain: bool,
    within: int,
    totals: Ints,
    frequent: Codes,
    min_support: int,
    min_confidence: Fraction,
) -> list[FoundRule]:
    found = []
    for batch in _batches(level, totals):
        closed, hits = counter.follow(line_up(batch, is_chain, within, len(totals)), frequent)
        counts, which = np.unique(closed, return_inverse=True)
        least = np.array([max(min_support, at_least(min_confidence, n)) for n in counts.tolist()], np.int64)[which]
        for row, k in np.argwhere(hits >= least[:, None]):
            symbols = tuple(batch[row].tolist())
            found.append(FoundRule(symbols, is_chain, int(frequent[k]), int(hits[row, k]), int(closed[row])))
    return found


def _write_rule(pattern: FoundRule, names: Sequence[str], rate: Fraction, aim: Aim) -> Rule:
    events = [Vertex("", names[symbol]).text for symbol in pattern.symbols]
    consequent = Vertex("", names[pattern.consequent]).text
    edges = [list(pair) for pair in pairwise(events)] if pattern.is_chain else []
    predicate = {"vertices": {event: event for event in events}, "edges": edges}
    name = f"{(' -> ' if pattern.is_chain else ', ').join(events)} => {consequent}"
    lengths = write_length(aim.within), write_length(aim.horizon)
    lift = float(pattern.share / rate) if rate else None
    return Rule(predicate, consequent, *lengths, pattern.confidence, name, aim.partition_by, lift)
