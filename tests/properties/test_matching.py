"""The engine finds exactly what the oracle finds, on random queries and streams; and a query's text says all of it."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

import hand_worked
import oracle
from answers import assert_equal_matches, run, show
from seqube.language import parse
from strategies import concepts, hierarchies, queries, streams


@pytest.mark.parametrize(("query", "text", "expected"), hand_worked.CASES)
def test_hand_worked_cases(query: str, text: str, expected: list[str]) -> None:
    """The same cases that the oracle has to get right; their answers do not come from it."""
    events = hand_worked.events(text)
    found = []
    for row in run(query, events):
        bound = [event for name, event in row.items() if name not in ("start", "end")]
        found.append(" ".join(f"{event['type']}{event['ts']}" if event else "-" for event in bound))
    assert sorted(found) == sorted(expected)


@given(text=queries(), events=streams())
def test_any_query(text: str, events: list[oracle.Event]) -> None:
    assert_equal_matches(text, events)


@given(text=queries(predicates=False), events=streams())
def test_structure_alone(text: str, events: list[oracle.Event]) -> None:
    assert_equal_matches(text, events)


@given(text=queries(depth=1, words=("SEQ",)), events=streams())
def test_flat_sequences(text: str, events: list[oracle.Event]) -> None:
    assert_equal_matches(text, events)


@given(text=queries(counted=True), events=streams(max_time=4))
def test_windows_of_events(text: str, events: list[oracle.Event]) -> None:
    assert_equal_matches(text, events)


@given(text=queries(counted=False), events=streams(max_time=2))
def test_ties(text: str, events: list[oracle.Event]) -> None:
    assert_equal_matches(text, events)


@given(data=st.data(), hierarchy=hierarchies(), events=streams())
def test_hierarchies(data: st.DataObject, hierarchy: dict[str, Any] | None, events: list[oracle.Event]) -> None:
    text = data.draw(queries(names=concepts(hierarchy)))
    assert_equal_matches(text, events, hierarchy)


@given(text=queries(returns=True, depth=2), events=streams())
def test_returned_values(text: str, events: list[oracle.Event]) -> None:
    show(text, events)
    expected = oracle.results(parse(text), events)
    assert Counter(map(comparable, run(text, events))) == Counter(map(comparable, expected))


def comparable(row: dict[str, Any]) -> tuple[tuple[str, Any], ...]:
    """A row whose floats are rounded to what any order of evaluation agrees on; NaN is null."""

    def plain(value: Any) -> Any:
        if isinstance(value, float):
            return None if math.isnan(value) else round(value, 9)
        return value

    return tuple(sorted((name, plain(value)) for name, value in row.items()))


@given(text=queries(), returning=queries(returns=True))
def test_text_and_tree_are_the_same_thing(text: str, returning: str) -> None:
    for written in (text, returning):
        note(written)
        query = parse(written)
        note(str(query))
        assert parse(str(query)) == query
        assert str(parse(str(query))) == str(query)
