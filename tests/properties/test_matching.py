"""The engine finds exactly what the oracle finds, on random queries and streams; and a query's text says all of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

import hand_worked
import oracle
import seqube as sq
from aggregate_queries import assert_same_rows, with_aggregates
from answers import assert_equal_matches, run, show, shown
from oracle_values import moments_in
from seqube.language import parse
from strategies import Clock, clocks, concepts, hierarchies, plain, queries, streams


@pytest.mark.parametrize(("query", "text", "expected"), hand_worked.CASES)
def test_hand_worked_cases(query: str, text: str, expected: list[str]) -> None:
    """The same cases that the oracle has to get right; their answers do not come from it."""
    assert sorted(map(shown, run(query, hand_worked.events(text)))) == sorted(expected)


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
    assert_equal_values(text, events, None)


def assert_equal_values(text: str, events: Sequence[oracle.Event], clock: Clock | None) -> None:
    expected = oracle.results(parse(text), events, unit=moments_in(clock.zone) if clock else "ms")
    kinds = [{type(row[name]) for row in expected} for name in (expected[0] if expected else ())]
    if any({int, float} <= of_column for of_column in kinds):
        with pytest.raises(sq.DataError, match="is a column of whole numbers"):
            run(text, events, clock=clock)
        return
    try:
        found = run(text, events, clock=clock)
    except sq.DataError:  # of the whole numbers in a column, none is whole
        assert any(float in of_column for of_column in kinds)
        return
    assert Counter(map(comparable, found)) == Counter(map(comparable, expected))


def comparable(row: dict[str, Any]) -> tuple[tuple[str, Any], ...]:
    return tuple(sorted((name, plain(value)) for name, value in row.items()))


# ---------------------------------------------------------------- points in time, in every unit and zone


@given(data=st.data(), clock=clocks, events=streams())
def test_moments(data: st.DataObject, clock: Clock, events: list[oracle.Event]) -> None:
    note(str(clock))
    assert_equal_matches(data.draw(queries(period=clock.period)), clock.moved(events), clock=clock)


@given(data=st.data(), clock=clocks, events=streams())
def test_returned_moments(data: st.DataObject, clock: Clock, events: list[oracle.Event]) -> None:
    text, events = data.draw(queries(returns=True, depth=2, period=clock.period)), clock.moved(events)
    show(f"{text}  -- {clock}", events)
    assert_equal_values(text, events, clock)


@given(data=st.data(), clock=clocks, events=streams())
def test_aggregates_of_moments(data: st.DataObject, clock: Clock, events: list[oracle.Event]) -> None:
    text = data.draw(queries(depth=2, period=clock.period).flatmap(lambda base: with_aggregates(base, period=clock.period)))
    events = clock.moved(events)
    show(f"{text}  -- {clock}", events)
    found = sq.run(text, clock.table(events)).table.to_pylist()
    assert_same_rows(found, oracle.aggregates(parse(text), events, unit=moments_in(clock.zone)))


@given(text=queries(), returning=queries(returns=True))
def test_text_and_tree_are_the_same_thing(text: str, returning: str) -> None:
    for written in (text, returning):
        note(written)
        query = parse(written)
        note(str(query))
        assert parse(str(query)) == query
        assert str(parse(str(query))) == str(query)
