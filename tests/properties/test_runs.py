"""NEXT and STRICT: for every start the run that the oracle walks, at the root and inside others, whole and cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import hand_worked
import oracle
from answers import assert_equal_matches, run, shown
from steps import assert_any_cutting_equals_whole
from strategies import cuts, queries, streams

RUNS = ("NEXT", "STRICT")
small = streams(max_size=10)
nested = queries(repeats=True, depth=2, words=("SEQ", "AND", "OR", "NEXT", "NEXT", "STRICT"))


@pytest.mark.parametrize(("query", "text", "expected"), hand_worked.NEXTS + hand_worked.STRICTS)
def test_hand_worked_cases(query: str, text: str, expected: list[str]) -> None:
    assert sorted(map(shown, run(query, hand_worked.events(text)))) == sorted(expected)


@given(text=queries(depth=1, words=RUNS), events=streams())
def test_single_events(text: str, events: list[oracle.Event]) -> None:
    assert_equal_matches(text, events)


@given(text=queries(depth=1, words=RUNS, predicates=False), events=streams())
def test_structure_alone(text: str, events: list[oracle.Event]) -> None:
    assert_equal_matches(text, events)


@given(text=queries(repeats=True, depth=1, words=RUNS), events=streams())
def test_repeated_parts(text: str, events: list[oracle.Event]) -> None:
    assert_equal_matches(text, events)


@given(text=queries(repeats=True, depth=1, words=RUNS, predicates=False), events=streams(max_time=5))
def test_repeated_parts_alone(text: str, events: list[oracle.Event]) -> None:
    assert_equal_matches(text, events)


@given(text=nested, events=small)
def test_inside_others(text: str, events: list[oracle.Event]) -> None:
    assert_equal_matches(text, events)


@given(data=st.data(), text=nested, events=small, watermarks=st.booleans())
def test_any_cutting_equals_whole(data: st.DataObject, text: str, events: list[oracle.Event], watermarks: bool) -> None:
    assert_any_cutting_equals_whole(text, events, data.draw(cuts(len(events))), watermarks)
