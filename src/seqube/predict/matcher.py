"""One state machine for all strategies: step by step over a stream, any cutting gives the same occurrences.

The state is plain arrays: the events of one longest predicate window (and those of the newest time, which wait until time moves
on, because events of equal time are taken together), and the starts reported inside that window. It is the same whatever the
strategy, so a snapshot of one continues under another; each strategy builds its own structure anew from it at every step, at the
price of one window.

Keyed rules see one stream per key. The keys' streams are laid end to end, with pauses longer than every window between them (longer
pauses inside a stream are shortened to that), so that the same loops serve, without a call per key.

Invariant: an occurrence that ends in a step needs no event older than one window, and whether it was reported before shows in the
starts of that window.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from seqube.errors import DataError, PlanError, did_you_mean
from seqube.events.batch import Codes
from seqube.events.times import Ints
from seqube.predict.cbs_tree import match_cbs_tree
from seqube.predict.episodes import NEVER, Episodes, Found, Seeds
from seqube.predict.index import match_index
from seqube.predict.tofel import match_direct, match_tofel

MatchEpisodes = Callable[[Ints, Codes, npt.NDArray[np.bool_], Seeds, Episodes], Found]

EPISODE_STRATEGIES: dict[str, MatchEpisodes] = {
    "index": match_index,
    "cbs-tree": match_cbs_tree,
    "tofel": match_tofel,
    "direct": match_direct,
}
_LONGEST_LINE = 2**61  # how far the streams of keys may reach when laid end to end


def choose_strategy(name: str) -> MatchEpisodes:
    """The strategy of this name; `auto` is the index, which no measured case has found slower than another."""
    if name == "auto":
        return match_index
    if name not in EPISODE_STRATEGIES:
        raise PlanError(f"unknown strategy {name!r} for a forecast\n  hint: {did_you_mean(name, ('auto', *EPISODE_STRATEGIES))}")
    return EPISODE_STRATEGIES[name]


class Occurrences(NamedTuple):
    """Min-latest occurrences by end time, then rule; `keys` is 0 for rules without a key."""

    rules: Codes
    starts: Ints
    ends: Ints
    keys: Ints


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

    def to_arrow(self) -> pa.RecordBatch:
        """One row, a list per array."""
        columns = {name: pa.array([getattr(self, name).astype(np.int64)], pa.list_(pa.int64())) for name in _ARRAYS}
        columns |= {name: pa.array([getattr(self, name)], pa.int64()) for name in ("n_old", "clock")}
        return pa.RecordBatch.from_pydict(columns)

    @classmethod
    def from_arrow(cls, batch: pa.RecordBatch) -> MatcherState:
        values: dict[str, Any] = {name: batch.column(name)[0].values.to_numpy() for name in _ARRAYS}
        values |= {name: batch.column(name)[0].as_py() for name in ("n_old", "clock")}
        for name in ("symbols", "report_rules"):
            values[name] = values[name].astype(np.int32)
        return cls(**values)


_ARRAYS = ("times", "symbols", "keys", "report_rules", "report_starts", "report_keys")
_NONE = np.empty(0, np.int64)
_NO_CODES = np.empty(0, np.int32)
EMPTY = MatcherState(_NONE, _NO_CODES, _NONE, 0, int(NEVER), _NO_CODES, _NONE, _NONE)


class EpisodeMatcher:
    """Finds the occurrences of episodes in a stream. Times ascend from step to step; symbol -1 is an event that no rule names."""

    def __init__(self, episodes: Episodes, strategy: str = "auto", keyed: bool = False, state: MatcherState = EMPTY) -> None:
        self.episodes = episodes
        self.keyed = keyed
        self.state = state
        self._match = choose_strategy(strategy)

    def step(self, times: Ints, symbols: Codes, keys: Ints | None = None) -> Occurrences:
        """Take the next events; give the occurrences that are complete, those that end before the newest time."""
        if len(times) == 0:
            return join([])
        if times[0] < self.state.clock or np.any(times[1:] < times[:-1]):
            raise DataError("events must come in time order\n  hint: sort them, or let the stream's lateness do it")
        named = symbols >= 0
        if keys is None:
            keys = np.zeros(len(times), np.int64)
        self.state = replace(
            self.state,
            times=np.concatenate((self.state.times, times[named])),
            symbols=np.concatenate((self.state.symbols, symbols[named])),
            keys=np.concatenate((self.state.keys, keys[named])),
            clock=int(times[-1]),
        )
        return self.release(int(times[-1]))

    def finish(self) -> Occurrences:
        """The stream has ended, or will go on after its newest time: give what waited for that."""
        return self.release(self.state.clock + 1)

    def release(self, watermark: int) -> Occurrences:
        """Give the occurrences that end before `watermark`: no event before it is still to come."""
        state = self.state
        n_ready = max(state.n_old, int(np.searchsorted(state.times, watermark)))
        found = self._match_ready(n_ready) if n_ready > state.n_old else join([])
        oldest = watermark - self.episodes.longest
        kept = int(np.searchsorted(state.times, oldest))
        report_starts = np.concatenate((state.report_starts, found.starts))
        recent = report_starts >= oldest
        self.state = MatcherState(
            state.times[kept:],
            state.symbols[kept:],
            state.keys[kept:],
            max(0, n_ready - kept),
            max(state.clock, watermark),
            np.concatenate((state.report_rules, found.rules))[recent],
            report_starts[recent],
            np.concatenate((state.report_keys, found.keys))[recent],
        )
        return found

    def _match_ready(self, n_ready: int) -> Occurrences:
        """The occurrences that end among the first `n_ready` events and not among the old ones."""
        state = self.state
        fresh = np.arange(n_ready) >= state.n_old
        times, symbols, keys = state.times[:n_ready], state.symbols[:n_ready], state.keys[:n_ready]
        if self.keyed:
            return self._match_keyed(times, symbols, keys, fresh)
        found = self._match(times, symbols, fresh, _by_start(state.report_rules, state.report_starts), self.episodes)
        return join([Occurrences(*found, np.zeros(len(found.rules), np.int64))])

    def _match_keyed(self, times: Ints, symbols: Codes, keys: Ints, fresh: npt.NDArray[np.bool_]) -> Occurrences:
        pieces = []
        for rows, line in lay_end_to_end(times, keys, self.episodes.longest + 1):
            ours = np.isin(self.state.report_keys, keys[rows])
            known = locate(keys[rows], times[rows], self.state.report_keys[ours], self.state.report_starts[ours])
            seeds = _by_start(self.state.report_rules[ours], line[known])
            found = self._match(line, symbols[rows], fresh[rows], seeds, self.episodes)
            begins, ends = rows[np.searchsorted(line, found.starts)], rows[np.searchsorted(line, found.ends)]
            pieces.append(Occurrences(found.rules, times[begins], times[ends], keys[ends]))
        return join(pieces)


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
