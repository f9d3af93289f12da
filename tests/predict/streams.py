"""Random rules and streams: few event types, many ties, windows that sometimes just hold and sometimes just do not."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from seqube.predict.episodes import Episodes, compile_episodes
from seqube.predict.matcher import EMPTY, EpisodeMatcher, MatcherState, Occurrences
from seqube.predict.rules import Rule

LETTERS = "ABCDE"
Row = tuple[int, int, int, int]  # end, rule, start, key


@dataclass(frozen=True)
class Stream:
    """Names, times and keys side by side; `X` is an event that no rule names."""

    names: tuple[str, ...]
    times: tuple[int, ...]
    keys: tuple[int, ...]

    def pairs(self, key: int | None = None) -> list[tuple[str, int]]:
        rows = zip(self.names, self.times, self.keys, strict=True)
        return [(name, time) for name, time, k in rows if key is None or k == key]


@st.composite
def rules(draw: st.DrawFn, name: str = "rule", letters: str = LETTERS) -> Rule:
    """A random DAG with any number of sources and sinks, isolated vertices among them."""
    events = draw(st.lists(st.sampled_from(letters), min_size=1, max_size=4, unique=True))
    pairs = [(u, v) for number, u in enumerate(events) for v in events[number + 1 :]]
    edges = [pair for pair in pairs if draw(st.booleans())]
    within = draw(st.integers(len(events) - 1, 9))
    horizon = max(len(events), within) + draw(st.integers(0, 4))
    predicate = {"vertices": {event.lower(): event for event in events}, "edges": [[u.lower(), v.lower()] for u, v in edges]}
    return Rule(predicate, draw(st.sampled_from(LETTERS)), within, max(1, horizon), draw(st.floats(0, 1)), name)


@st.composite
def rule_sets(draw: st.DrawFn) -> list[Rule]:
    return [draw(rules(f"rule {number}")) for number in range(draw(st.integers(1, 4)))]


@st.composite
def streams(draw: st.DrawFn, max_size: int = 14) -> Stream:
    size = draw(st.integers(0, max_size))
    gaps = draw(st.lists(st.sampled_from((0, 0, 1, 1, 1, 2, 6)), min_size=size, max_size=size))
    names = draw(st.lists(st.sampled_from(LETTERS + "X"), min_size=size, max_size=size))
    keys = draw(st.lists(st.sampled_from((0, 1)), min_size=size, max_size=size))
    return Stream(tuple(names), tuple(np.cumsum(gaps, dtype=int).tolist()), tuple(keys))


@dataclass
class Run:
    """A matcher over a stream, cut wherever one likes."""

    matcher: EpisodeMatcher
    codes: dict[str, int]

    @classmethod
    def of(cls, chosen: list[Rule], strategy: str, keyed: bool = False, state: MatcherState = EMPTY) -> Run:
        episodes, symbols = compile_episodes(chosen, "ms")
        return cls(EpisodeMatcher(episodes, strategy, keyed, state), {symbol.type: code for code, symbol in enumerate(symbols)})

    def step(self, stream: Stream, low: int, high: int) -> list[Row]:
        symbols = np.array([self.codes.get(name, -1) for name in stream.names[low:high]], np.int32)
        keys = np.array(stream.keys[low:high], np.int64)
        return rows(self.matcher.step(np.array(stream.times[low:high], np.int64), symbols, keys if self.matcher.keyed else None))

    def whole(self, stream: Stream) -> list[Row]:
        return self.step(stream, 0, len(stream.names)) + rows(self.matcher.finish())


def rows(found: Occurrences) -> list[Row]:
    columns: tuple[npt.NDArray[np.int64], ...] = (found.ends, found.rules.astype(np.int64), found.starts, found.keys)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def graph(rule: Rule) -> tuple[dict[str, str], list[tuple[str, str]], int, int]:
    """What the oracle asks for."""
    return {v.alias: v.type for v in rule.vertices}, list(rule.edges), rule.within.length, rule.horizon.length


def long_stream(
    seed: int, n_types: int, n_events: int
) -> tuple[list[Rule], npt.NDArray[np.int64], npt.NDArray[np.int32], Episodes]:
    """Many rules over a long stream with frequent and rare events, pauses and ties: too long for the oracle."""
    rng = np.random.default_rng(seed)
    names = [f"e{number}" for number in range(n_types)]
    chosen = []
    for number in range(30):
        events = [str(event) for event in rng.permutation(names)[: rng.integers(1, 7)]]
        edges = [[u, v] for k, u in enumerate(events) for v in events[k + 1 :] if rng.random() < 0.4]
        within = max(len(events), int(rng.choice([8, 40, 100])))
        chosen.append(Rule({"vertices": {e: e for e in events}, "edges": edges}, "next", within, within + 5, 0.5, f"rule {number}"))
    episodes, symbols = compile_episodes(chosen, "ms")
    codes = {symbol.type: code for code, symbol in enumerate(symbols)}
    weights = 1 / np.arange(1, n_types + 1)
    drawn = rng.choice(n_types, n_events, p=weights / weights.sum())
    gaps = np.where(rng.random(n_events) < 0.01, 70, rng.choice([0, 1, 1, 2], n_events))
    return chosen, np.cumsum(gaps), np.array([codes.get(names[k], -1) for k in drawn], np.int32), episodes
