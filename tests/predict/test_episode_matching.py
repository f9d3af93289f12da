"""Every strategy finds exactly the min-latest occurrences, whole or cut, keyed or not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from predict.oracle import predictions
from predict.streams import Row, Run, Stream, graph, long_stream, rows, rule_sets, streams
from seqube.errors import DataError, PlanError
from seqube.predict.matcher import EPISODE_STRATEGIES, EpisodeMatcher, MatcherState, lay_end_to_end
from seqube.predict.rules import Rule


def truth(chosen: list[Rule], stream: Stream, keyed: bool = False) -> list[Row]:
    found = []
    for key in sorted(set(stream.keys)) if keyed else (None,):
        for number, rule in enumerate(chosen):
            found += [(end, number, start, key or 0) for start, end, _, _ in predictions(stream.pairs(key), *graph(rule))]
    return sorted(found, key=lambda row: (row[0], row[1], row[3]))


@pytest.mark.parametrize("keyed", [False, True])
@given(chosen=rule_sets(), stream=streams())
def test_strategies_equal_the_oracle(keyed: bool, chosen: list[Rule], stream: Stream) -> None:
    expected = truth(chosen, stream, keyed)
    for strategy in EPISODE_STRATEGIES:
        assert Run.of(chosen, strategy, keyed).whole(stream) == expected, strategy


@pytest.mark.parametrize("keyed", [False, True])
@given(chosen=rule_sets(), stream=streams(), data=st.data())
def test_any_cutting_equals_the_whole_under_any_strategies(
    keyed: bool, chosen: list[Rule], stream: Stream, data: st.DataObject
) -> None:
    whole = Run.of(chosen, "index", keyed).whole(stream)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream.names)), max_size=4)))
    found: list[Row] = []
    run = Run.of(chosen, data.draw(st.sampled_from(sorted(EPISODE_STRATEGIES))), keyed)
    for low, high in zip([0, *cuts], [*cuts, len(stream.names)], strict=True):
        # Each piece goes to another machine, perhaps with another strategy; only the Arrow state travels.
        # Or it stays where it is, and the matcher goes on with what it has in memory.
        if data.draw(st.booleans()):
            state = MatcherState.from_arrow(run.matcher.kept().to_arrow())
            run = Run.of(chosen, data.draw(st.sampled_from(sorted(EPISODE_STRATEGIES))), keyed, state)
        found += run.step(stream, low, high)
    assert found + rows(run.matcher.finish()) == whole


@pytest.mark.parametrize(("seed", "n_types", "n_events"), [(1, 6, 600), (2, 12, 1500), (3, 80, 3000)])
def test_strategies_agree_on_long_streams(seed: int, n_types: int, n_events: int) -> None:
    _, times, symbols, episodes = long_stream(seed, n_types, n_events)
    answers = []
    for strategy in EPISODE_STRATEGIES:
        matcher = EpisodeMatcher(episodes, strategy)
        answers.append(rows(matcher.step(times, symbols)) + rows(matcher.finish()))
    assert len(answers[0]) > 20
    assert all(answer == answers[0] for answer in answers)


@pytest.mark.parametrize("strategy", EPISODE_STRATEGIES)
def test_strategies_go_on_through_long_streams(strategy: str) -> None:
    """Small steps, so that series, trees and tables grow, shrink and close ranks; keys come and go."""
    _, times, symbols, episodes = long_stream(6, 12, 3000)
    keys = np.arange(3000) // 40 % 7 + np.arange(3000) // 500 * 7
    for keyed in (False, True):
        whole, stepped = EpisodeMatcher(episodes, "index", keyed), EpisodeMatcher(episodes, strategy, keyed)
        expected = rows(whole.step(times, symbols, keys if keyed else None)) + rows(whole.finish())
        found = []
        for low in range(0, 3000, 30):
            part = slice(low, low + 30)
            found += rows(stepped.step(times[part], symbols[part], keys[part] if keyed else None))
        assert found + rows(stepped.finish()) == expected
        assert len(expected) > 20


@pytest.mark.parametrize("strategy", EPISODE_STRATEGIES)
def test_state_holds_one_window_only(strategy: str) -> None:
    _, times, symbols, episodes = long_stream(4, 6, 2000)
    matcher = EpisodeMatcher(episodes, strategy)
    for low in range(0, 2000, 50):
        matcher.step(times[low : low + 50], symbols[low : low + 50])
        state = matcher.kept()
        assert np.all(state.times >= state.clock - episodes.longest)
        assert np.all(state.report_starts >= state.clock - episodes.longest)


def test_state_empties_when_only_other_events_come() -> None:
    _, times, symbols, episodes = long_stream(4, 6, 100)
    matcher = EpisodeMatcher(episodes)
    matcher.step(times, symbols)
    matcher.release(int(times[-1]) + 1000)
    state = matcher.kept()
    assert len(state.times) == len(state.report_starts) == 0
    with pytest.raises(DataError):
        matcher.step(times, symbols)


def test_streams_of_many_keys_leave_no_64_bits() -> None:
    times = np.array([0, 5, 7, 2**61], np.int64)
    keys = np.arange(4, dtype=np.int64)
    pieces = list(lay_end_to_end(times, keys, 2**60))
    assert len(pieces) > 1
    assert np.array_equal(np.concatenate([part for part, _ in pieces]), np.arange(4))


def test_events_out_of_order_are_refused() -> None:
    _, _, _, episodes = long_stream(5, 6, 10)
    with pytest.raises(DataError, match="time order"):
        EpisodeMatcher(episodes).step(np.array([2, 1], np.int64), np.zeros(2, np.int32))


def test_an_unknown_strategy_says_which_there_are() -> None:
    _, _, _, episodes = long_stream(5, 6, 10)
    with pytest.raises(PlanError, match=r"unknown strategy 'tree'(.|\n)*cbs-tree"):
        EpisodeMatcher(episodes, "tree")
