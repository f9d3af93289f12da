"""Mined rules say exactly what happened in the history they come from."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from itertools import combinations, pairwise, permutations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import seqube as sq
from predict.oracle import minimal, occurrences
from predict.streams import Stream, streams
from seqube.errors import PlanError, QueryError
from seqube.predict import Rules, forecast, mine
from seqube.predict.mining import Slice, at_least, read_aim, search


def table(stream: Stream) -> pa.Table:
    columns = {"ts": pa.array(stream.times, pa.int64()), "id": pa.array(stream.keys, pa.int64())}
    return pa.table({"type": pa.array(stream.names, pa.string()), **columns})


def brute_force(
    stream: Stream, window: int, horizon: int, min_support: int, min_confidence: float, max_events: int
) -> dict[str, float]:
    """Level by level, straight from the definition: name -> confidence."""
    names = sorted(set(stream.names))
    pairs = stream.pairs()
    newest = max(stream.times, default=0)
    found: dict[str, float] = {}
    level: set[tuple[str, ...]]

    def occurred(events: tuple[str, ...], is_chain: bool) -> list[tuple[int, int]]:
        edges = list(pairwise(events)) if is_chain else []
        return sorted(minimal(occurrences(pairs, {e: e for e in events}, edges, min(window, horizon - 1))))

    common = {n for n in names if stream.names.count(n) >= min_support}
    for is_chain in (True, False):
        level = {(n,) for n in common}
        for size in range(1, max_events + 1):
            if size > 1:
                tried = permutations(sorted(common), size) if is_chain else combinations(sorted(common), size)
                level = {
                    e
                    for e in tried
                    if all(part in level for part in combinations(e, size - 1)) and len(occurred(e, is_chain)) >= min_support
                }
            for events in level:
                intervals = [(s, e) for s, e in occurred(events, is_chain) if s + horizon <= newest + 1]
                for consequent in common:
                    hits = sum(any(n == consequent and e < t < s + horizon for n, t in pairs) for s, e in intervals)
                    if hits >= max(1, min_support) and hits >= Fraction(str(min_confidence)) * len(intervals):
                        joined = (" -> " if is_chain else ", ").join(events)
                        found[f"{joined} => {consequent}"] = hits / len(intervals)
    return found


@given(
    stream=streams(16),
    window=st.integers(2, 8),
    more=st.integers(0, 4),
    least=st.integers(1, 3),
    confidence=st.sampled_from([0, 0.1, 0.3, 0.5, 0.6, 0.7, 0.8]),
)
def test_equals_brute_force(stream: Stream, window: int, more: int, least: int, confidence: float) -> None:
    rules = mine(table(stream), window, least, confidence, horizon=window + more)
    expected = brute_force(stream, window, window + more, least, confidence, 3)
    assert {rule.name: rule.probability for rule in rules} == expected
    probabilities = [rule.probability for rule in rules]
    assert probabilities == sorted(probabilities, reverse=True)


def test_lift_is_how_much_more_often_than_after_any_event() -> None:
    events = pa.table({"type": ["A", "B", "C", "D"] * 50 + ["C"] * 40, "ts": [*range(0, 2_000, 10), *range(2_000, 2_400, 10)]})
    rules = {rule.name: rule for rule in mine(events, 11, 10, 0, horizon=11, max_events=1)}
    types, times = events.column("type").to_pylist(), events.column("ts").to_pylist()
    for name, rule in rules.items():
        cause, effect = name.split(" => ")
        # The share of all events, and of those of the cause, that the effect followed within the horizon.
        shares = []
        for chosen in (set(types), {cause}):
            past = [k for k, t in enumerate(times) if types[k] in chosen and t + 11 <= times[-1] + 1]
            came = [
                any(types[j] == effect and times[k] < times[j] < times[k] + 11 for j in range(k, min(k + 3, len(types))))
                for k in past
            ]
            shares.append(Fraction(sum(came), len(past)))
        assert rule.lift == float(shares[1] / shares[0])
    assert (
        {rule.name for rule in mine(events, 11, 10, 0, horizon=11, max_events=1, min_lift=3.5)}
        == {name for name, rule in rules.items() if rule.lift is not None and rule.lift >= 3.5}
        < set(rules)
    )


@given(stream=streams(16), gain=st.sampled_from([0, 0.1, 0.25]), lift=st.sampled_from([0, 1, 1.5]))
def test_what_a_shorter_rule_says_as_well_is_left_out(stream: Stream, gain: float, lift: float) -> None:
    every = mine(table(stream), 6, 1, 0.3, min_lift=lift)
    kept = mine(table(stream), 6, 1, 0.3, min_lift=lift, min_gain=gain)

    def parts(rule: sq.Rule) -> list[sq.Rule]:
        """Rules for the same consequent that ask for less: fewer events in the same order, or the same ones in any."""
        order = {(u, v) for u, v in rule.edges} | {(a, c) for a, b in rule.edges for d, c in rule.edges if b == d}
        return [
            other
            for other in every
            if other != rule
            and other.consequent == rule.consequent
            and {v.alias for v in other.vertices} <= {v.alias for v in rule.vertices}
            and set(other.edges) <= order
        ]

    def share(rule: sq.Rule) -> Fraction:
        return Fraction(rule.probability).limit_denominator(1_000)

    expected = [r for r in every if all(share(r) > share(p) and share(r) - share(p) >= Fraction(str(gain)) for p in parts(r))]
    assert list(kept) == expected


def followed(n_hits: int, n: int) -> pa.Table:
    """An A every 10 ticks, n of them, B after the first so many of them; then an event that ends the last interval."""
    times = [*range(0, 10 * n, 10), *range(1, 10 * n_hits, 10), 10 * n]
    return pa.table({"type": ["A"] * n + ["B"] * n_hits + ["end"], "ts": times}).sort_by("ts")


def test_a_confidence_is_the_number_that_was_written() -> None:
    """55 of 100 is 0.55, though 0.55 * 100 is a little more than 55 in doubles."""
    events = followed(55, 100)
    assert [rule.name for rule in mine(events, 5, 1, 0.55, max_events=1)] == ["A => B"]
    assert [rule.probability for rule in mine(events, 5, 1, 0.55, max_events=1)] == [0.55]
    assert not mine(events, 5, 1, 0.5500000000000001, max_events=1)
    assert not mine(followed(54, 100), 5, 1, 0.55, max_events=1)


@pytest.mark.parametrize("share", [0.07, np.float64(0.07), np.float32(0.07), Decimal("0.07"), Fraction(7, 100)])
def test_a_support_is_the_share_that_was_written(share: Any) -> None:
    """7 of 100 events are 0.07 of them, though 0.07 * 100 is a little more than 7 in doubles."""
    events = pa.table({"type": ["A", "B"] * 7 + ["other"] * 86, "ts": list(range(100))})
    assert "A => B" in {rule.name for rule in mine(events, 5, share, 0.9, max_events=1)}
    assert "A => B" not in {rule.name for rule in mine(events, 5, 0.0700001, 0.9, max_events=1)}


@given(data=st.data(), n=st.integers(1, 200), digits=st.integers(1, 3))
def test_thresholds_are_exact(data: st.DataObject, n: int, digits: int) -> None:
    written = Decimal(data.draw(st.integers(1, 10**digits - 1))).scaleb(-digits)
    aim = read_aim("ms", 5, float(written), float(written), None, 1, ("serial",), (), None)
    assert aim.least(n) == next(count for count in range(1, n + 1) if count >= written * n)
    assert at_least(aim.min_confidence, n) == aim.least(n)


@pytest.mark.parametrize("key", [(), "id"])
@given(stream=streams(20))
def test_forecasts_observe_what_mined_rules_state(key: Any, stream: Stream) -> None:
    events = table(stream)
    rules = mine(events, 5, 1, 0.3, horizon=7, partition_by=key)
    for row in forecast(rules, events).quality.to_pylist():
        assert row["observed_rate"] == row["probability"]


@given(stream=streams(30), cuts=st.lists(st.integers(0, 40), max_size=3))
def test_counts_of_slices_add_up(stream: Stream, cuts: list[int]) -> None:
    names = sorted(set(stream.names))
    times = np.array(stream.times, np.int64)
    symbols = np.array([names.index(n) for n in stream.names], np.int32)
    newest = int(times[-1]) if len(times) else 0
    within, horizon = 4, 6

    def piece(low: int, high: int) -> Slice:
        near = (times >= low - within) & (times < high + horizon)
        closed = times[near] <= newest + 1 - horizon
        own = (times[near] >= low) & (times[near] < high)
        return Slice(times[near], symbols[near], closed, own, horizon, len(names))

    class Sum:
        def __init__(self, pieces: list[Slice]) -> None:
            self.pieces = pieces

        def totals(self) -> Any:
            return sum(p.totals() for p in self.pieces)

        def count(self, episodes: Any) -> Any:
            return sum(p.count(episodes) for p in self.pieces)

        def follow(self, episodes: Any, wanted: Any) -> Any:
            counted = [p.follow(episodes, wanted) for p in self.pieces]
            return sum(c for c, _ in counted), sum(h for _, h in counted)

    bounds = [0, *sorted(cuts), newest + 1] if not cuts or max(cuts) <= newest else [0, newest + 1]
    whole = search(piece(0, newest + 1), within, 1, Fraction(1, 5), 3, ("serial", "parallel"))
    cut = search(Sum([piece(a, b) for a, b in pairwise(bounds)]), within, 1, Fraction(1, 5), 3, ("serial", "parallel"))
    assert cut == whole


def test_a_planted_rule_is_found_and_its_file_is_read(tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    rows: list[tuple[str, int]] = []
    for start in range(0, 20_000, 100):
        rows += [("smoke", start), ("heat", start + 5)]
        rows += [("alarm", start + 9)] if start % 500 else []
    rows += [(f"noise {k}", int(t)) for k in range(5) for t in rng.integers(0, 20_000, 100)]
    rows.sort(key=lambda row: row[1])
    events = pa.table({"type": [name for name, _ in rows], "ts": [time for _, time in rows]})
    rules = mine(events, 20, 0.05, 0.7)
    assert rules["smoke -> heat => alarm"].probability == pytest.approx(0.8, abs=0.01)
    assert not any("noise" in rule.name for rule in rules)
    rules.save(tmp_path / "mined.yaml")
    assert Rules.load(tmp_path / "mined.yaml") == rules
    assert len(forecast(tmp_path / "mined.yaml", events)) > 0


def test_durations_and_kinds() -> None:
    events = pa.table({"type": ["A", "B", "A", "B"], "ts": pa.array([0, 1_000_000, 10_000_000, 11_000_000], pa.timestamp("us"))})
    rules = mine(events, "2 s", 1, 0, kinds=["serial"], max_events=1)
    assert [rule.name for rule in rules] == ["A => B"]
    assert len(mine(events.slice(0, 0), "2 s", 1, 0)) == 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"window": "x"}, "not a length of time"),
        ({"window": 0}, "mined rules"),
        ({"min_support": 0}, "neither a count nor a share"),
        ({"min_support": 2.5}, "neither a count nor a share"),
        ({"min_support": float("nan")}, "neither a count nor a share"),
        ({"min_support": float("inf")}, "neither a count nor a share"),
        ({"min_confidence": float("nan")}, "not a number from 0 to 1"),
        ({"min_confidence": 2}, "not a number from 0 to 1"),
        ({"min_lift": -1}, "not a number of times"),
        ({"min_gain": 2}, "not a number from 0 to 1"),
        ({"kinds": ["sideways"]}, "cannot mine"),
        ({"horizon": 1, "window": 5}, "shorter than within"),
    ],
)
def test_what_cannot_be_mined(changes: dict[str, Any], message: str) -> None:
    arguments = {"window": 5, "min_support": 1, "min_confidence": 0, **changes}
    with pytest.raises(QueryError, match=message):
        mine(pa.table({"type": ["A"], "ts": [1]}), **arguments)


def test_too_many_candidates_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seqube.predict.mining.MOST_EPISODES", 1)
    with pytest.raises(PlanError, match="raise min_support"):
        mine(pa.table({"type": ["A", "B", "C"], "ts": [1, 2, 3]}), 5, 1, 0)
