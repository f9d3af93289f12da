"""One state machine for all strategies: step by step over a stream, any cutting gives the same occurrences.

A matcher goes on in place: `index` and `cbs-tree` take the new events into what they remember of one longest predicate window,
and the window is never walked again; `direct` and `tofel`, the yardsticks, keep the events and go over them anew at every step.
Events of the newest time wait until time moves on, because events of equal time are taken together. What is remembered can be
written as plain arrays (`MatcherState`): events, and the starts reported inside the window. They are the same whatever the
strategy, so that a state of one continues under another.

Keyed rules see one stream per key. Where events are gone over anew, the keys' streams are laid end to end, with pauses longer than
every window between them (longer pauses inside a stream are shortened to that), so that the same loops serve, without a call per
key.

Cost of a step: see the strategies; waiting events once per step. Memory: one window of events.
Invariant: an occurrence that ends in a step needs no event older than one window, and whether it was reported before shows in the
starts of that window.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from seqube.errors import DataError, PlanError, did_you_mean
from seqube.events.batch import Codes
from seqube.events.times import Ints
from seqube.predict.cbs_tree import TreeMemory
from seqube.predict.episodes import NEVER, NOTHING_CAME, NOTHING_FOUND, Arrivals, Episodes, Found, Reported, Seeds, line_up
from seqube.predict.index import IndexMemory
from seqube.predict.tofel import match_direct, match_tofel

MatchEpisodes = Callable[[Ints, Codes, npt.NDArray[np.bool_], Seeds, Episodes], Found]

_NONE = np.empty(0, np.int64)
_NO_CODES = np.empty(0, np.int32)
_LONGEST_LINE = 2**61  # how far the streams of keys may reach when laid end to end


class Memory(Protocol):
    """What a strategy remembers of one window."""

    def match(self, new: Arrivals, reported: Reported | None) -> tuple[Found, Ints]:
        """Remember the next events, and give the occurrences that end at one of them, with their keys; without `reported`, none."""

    def contents(self, oldest: int) -> Arrivals:
        """The instances from `oldest` on."""

    @property
    def n_kept(self) -> int: ...

    @property
    def n_bytes(self) -> int: ...


class Occurrences(NamedTuple):
    """Min-latest occurrences by end time, then rule; `keys` is 0 for rules without a key."""

    rules: Codes
    starts: Ints
    ends: Ints
    keys: Ints

    def since(self, time: int) -> Occurrences:
        """Those that end at this time or later."""
        begin = int(np.searchsorted(self.ends, time))
        return Occurrences(self.rules[begin:], self.starts[begin:], self.ends[begin:], self.keys[begin:])


@dataclass(frozen=True)
class MatcherState:
    """All that a matcher remembers."""

    times: Ints
    symbols: Codes
    keys: Ints
    n_old: int  # the first so many events have been matched already
    clock: int  # the newest time seen
    report_rules: Codes
    report_starts: Ints
    report_keys: Ints

    def to_arrow(self) -> pa.Table:
        """One row, a list per array."""
        columns = {name: pa.array([getattr(self, name).astype(np.int64)], pa.list_(pa.int64())) for name in _ARRAYS}
        columns |= {name: pa.array([getattr(self, name)], pa.int64()) for name in ("n_old", "clock")}
        return pa.table(columns)

    @classmethod
    def from_arrow(cls, table: pa.Table) -> MatcherState:
        values: dict[str, Any] = {name: table.column(name)[0].values.to_numpy() for name in _ARRAYS}
        values |= {name: table.column(name)[0].as_py() for name in ("n_old", "clock")}
        for name in ("symbols", "report_rules"):
            values[name] = values[name].astype(np.int32)
        return cls(**values)


_ARRAYS = ("times", "symbols", "keys", "report_rules", "report_starts", "report_keys")
EMPTY = MatcherState(_NONE, _NO_CODES, _NONE, 0, int(NEVER), _NO_CODES, _NONE, _NONE)


class EpisodeMatcher:
    """Finds the occurrences of episodes in a stream. Times ascend from step to step; symbol -1 is an event that no rule names."""

    def __init__(self, episodes: Episodes, strategy: str = "auto", keyed: bool = False, state: MatcherState = EMPTY) -> None:
        self.episodes = episodes
        self.keyed = keyed
        self.clock = state.clock  # the newest time seen
        self._memory = choose_strategy(strategy)(episodes, keyed)
        self._reported = Reported(episodes.n_rules, keyed)
        self._reported.note(state.report_rules, state.report_starts, state.report_keys, int(NEVER))
        old, self._waiting = Arrivals(state.times, state.symbols, state.keys).cut(state.n_old)
        if state.n_old:
            self._memory.match(old, None)

    @property
    def next_time(self) -> int | None:
        """The time of the first event that waits for time to move on."""
        return int(self._waiting.times[0]) if len(self._waiting.times) else None

    @property
    def n_kept(self) -> int:
        """How many events are remembered, those included that left the window and whose memory is still to be used again."""
        return self._memory.n_kept + len(self._waiting.times)

    @property
    def n_bytes(self) -> int:
        """About what is held in memory."""
        return self._memory.n_bytes + self._reported.n_bytes + sum(column.nbytes for column in self._waiting)

    def step(self, times: Ints, symbols: Codes, keys: Ints | None = None) -> Occurrences:
        """Take the next events; give the occurrences that are complete, those that end before the newest time."""
        if len(times) == 0:
            return join([])
        self.take(times, symbols, keys)
        return self.release(self.clock)

    def take(self, times: Ints, symbols: Codes, keys: Ints | None = None) -> None:
        """Let the next events wait."""
        if len(times) == 0:
            return
        if times[0] < self.clock or np.any(times[1:] < times[:-1]):
            raise DataError("events must come in time order\n  hint: sort them, or let the stream's lateness do it")
        named = symbols >= 0
        if keys is None:
            keys = np.zeros(len(times), np.int64)
        self._waiting = self._waiting.join(Arrivals(times[named], symbols[named], keys[named]))
        self.clock = int(times[-1])

    def finish(self) -> Occurrences:
        """The stream has ended, or will go on after its newest time: give what waited for that."""
        return self.release(self.clock + 1)

    def release(self, watermark: int) -> Occurrences:
        """Give the occurrences that end before `watermark`: no event before it is still to come."""
        self.clock = max(self.clock, watermark)
        ready, self._waiting = self._waiting.cut(int(np.searchsorted(self._waiting.times, watermark)))
        if not len(ready.times):
            return join([])
        found, keys = self._memory.match(ready, self._reported)
        self._reported.note(found.rules, found.starts, keys, watermark - self.episodes.longest)
        return join([Occurrences(*found, keys)])

    def kept(self) -> MatcherState:
        """All that must be remembered, as plain arrays."""
        oldest = self.clock - self.episodes.longest
        old = self._memory.contents(oldest)
        return MatcherState(*old.join(self._waiting), len(old.times), self.clock, *self._reported.contents(oldest))


# ---------------------------------------------------------------- events gone over anew


class ReplayMemory:
    """What strategies remember that keep the events themselves, and go over them anew."""

    def __init__(self, match: MatchEpisodes, episodes: Episodes, keyed: bool) -> None:
        self._match, self._episodes, self._keyed = match, episodes, keyed
        self._kept = NOTHING_CAME

    def match(self, new: Arrivals, reported: Reported | None) -> tuple[Found, Ints]:
        old = self.contents(int(new.times[0]) - self._episodes.longest)
        self._kept = old.join(new)
        times, symbols, keys = self._kept
        if reported is None:
            return NOTHING_FOUND, NOTHING_CAME.keys
        fresh = np.arange(len(times)) >= len(old.times)
        seeds = reported.contents(int(times[0]))
        if self._keyed:
            return self._match_keyed(times, symbols, keys, fresh, seeds)
        found = self._match(times, symbols, fresh, _by_start(*seeds[:2]), self._episodes)
        return found, np.zeros(len(found.rules), np.int64)

    def _match_keyed(
        self, times: Ints, symbols: Codes, keys: Ints, fresh: npt.NDArray[np.bool_], seeds: tuple[Codes, Ints, Ints]
    ) -> tuple[Found, Ints]:
        pieces = []
        seed_rules, seed_starts, seed_keys = seeds
        for rows, line in lay_end_to_end(times, keys, self._episodes.longest + 1):
            ours = np.isin(seed_keys, keys[rows])
            known = locate(keys[rows], times[rows], seed_keys[ours], seed_starts[ours])
            found = self._match(line, symbols[rows], fresh[rows], _by_start(seed_rules[ours], line[known]), self._episodes)
            begins, ends = rows[np.searchsorted(line, found.starts)], rows[np.searchsorted(line, found.ends)]
            pieces.append(Occurrences(found.rules, times[begins], times[ends], keys[ends]))
        whole = join(pieces)
        return Found(whole.rules, whole.starts, whole.ends), whole.keys

    def contents(self, oldest: int) -> Arrivals:
        return self._kept.cut(int(np.searchsorted(self._kept.times, oldest)))[1]

    @property
    def n_kept(self) -> int:
        return len(self._kept.times)

    @property
    def n_bytes(self) -> int:
        return sum(column.nbytes for column in self._kept)


EPISODE_STRATEGIES: dict[str, Callable[[Episodes, bool], Memory]] = {
    "index": IndexMemory,
    "cbs-tree": TreeMemory,
    "tofel": partial(ReplayMemory, match_tofel),
    "direct": partial(ReplayMemory, match_direct),
}
GONE_OVER_ANEW = ("tofel", "direct")  # with all events of the window at every step


def choose_strategy(name: str) -> Callable[[Episodes, bool], Memory]:
    """The strategy of this name; `auto` is the index, which no measured case has found slower than another."""
    if name == "auto":
        return IndexMemory
    if name not in EPISODE_STRATEGIES:
        raise PlanError(f"unknown strategy {name!r} for a forecast\n  hint: {did_you_mean(name, ('auto', *EPISODE_STRATEGIES))}")
    return EPISODE_STRATEGIES[name]


def compile_strategy(name: str) -> None:
    """Compile the loops of a strategy, for processes that must not do so themselves."""
    moment, symbol = np.zeros(1, np.int64), np.zeros(1, np.int32)
    for keyed in (False, True):
        matcher = EpisodeMatcher(line_up(np.zeros((1, 1), np.int32), True, 0, 1), name, keyed)
        matcher.step(moment, symbol)
        matcher.finish()
        matcher.kept()


def lay_end_to_end(times: Ints, keys: Ints, pause: int) -> Iterator[tuple[Ints, Ints]]:
    """The streams of the keys as one stream: the rows in their new order, and their times on one line.

    Between keys lies a pause, to which longer ones inside a key are shortened: whatever spans less than that stays as it was. Where
    one line would leave 64 bits, there are several, each with keys of its own.
    """
    rows = np.argsort(keys, kind="stable")
    is_new_key = np.diff(keys[rows], prepend=keys[rows[0]]) != 0
    gaps = np.where(is_new_key, pause, np.minimum(np.diff(times[rows], prepend=times[rows[0]]), pause))
    lengths = np.cumsum(gaps, dtype=np.float64)
    first_rows = np.flatnonzero(is_new_key)
    pieces = (lengths[first_rows] // _LONGEST_LINE).astype(np.int64)
    cuts = first_rows[np.flatnonzero(np.diff(pieces, prepend=0))]
    for part, part_gaps in zip(np.split(rows, cuts), np.split(gaps, cuts), strict=True):
        yield part, np.cumsum(part_gaps)


def join(pieces: Sequence[Occurrences]) -> Occurrences:
    """Several lists of occurrences as one, in its order."""
    rules = np.concatenate([_NO_CODES, *(piece.rules for piece in pieces)])
    starts = np.concatenate([_NONE, *(piece.starts for piece in pieces)])
    ends = np.concatenate([_NONE, *(piece.ends for piece in pieces)])
    keys = np.concatenate([_NONE, *(piece.keys for piece in pieces)])
    order = np.lexsort((keys, rules, ends))
    return Occurrences(rules[order], starts[order], ends[order], keys[order])


def locate(keys: Ints, times: Ints, wanted_keys: Ints, wanted_times: Ints, side: Any = "left") -> Ints:
    """Where in rows sorted by key and time the wanted ones would stand, as `np.searchsorted` says it of one column."""
    moments, ranks = np.unique(times, return_inverse=True)
    distinct, key_ranks = np.unique(keys, return_inverse=True)
    width = len(moments) + 1
    line = key_ranks.astype(np.int64) * width + ranks
    key_places = np.searchsorted(distinct, wanted_keys)
    is_known = np.zeros(len(wanted_keys), np.bool_)
    inside = key_places < len(distinct)
    is_known[inside] = distinct[key_places[inside]] == wanted_keys[inside]
    # A key that is not there stands before the next one, whatever the time.
    wanted_ranks = np.where(is_known, np.searchsorted(moments, wanted_times, side), 0)
    places: Ints = np.searchsorted(line, key_places.astype(np.int64) * width + wanted_ranks).astype(np.int64)
    return places


def _by_start(rules: Codes, starts: Ints) -> Seeds:
    order = np.argsort(starts, kind="stable")
    return Seeds(rules[order], starts[order])
