"""Repeated parts: the engine finds exactly the lists that the oracle finds, whole and cut, and what is returned of them."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

import hand_worked
import oracle
from answers import assert_equal_matches, run, show, shown
from seqube.language import parse
from steps import assert_goes_on
from strategies import plain, queries, streams

repeated = queries(repeats=True, depth=2)
flat = queries(repeats=True, depth=1, words=("SEQ",))
small = streams(max_size=9)


@pytest.mark.parametrize(("query", "text", "expected"), hand_worked.REPETITIONS)
def test_hand_worked_cases(query: str, text: str, expected: list[str]) -> None:
    assert sorted(map(shown, run(query, hand_worked.events(text)))) == sorted(expected)


@given(text=flat, events=small)
def test_flat_sequences(text: str, events: list[oracle.Event]) -> None:
    assert_equal_matches(text, events)


@given(text=repeated, events=small)
def test_any_query(text: str, events: list[oracle.Event]) -> None:
    assert_equal_matches(text, events)


@given(text=queries(repeats=True, depth=2, predicates=False), events=small)
def test_structure_alone(text: str, events: list[oracle.Event]) -> None:
    assert_equal_matches(text, events)


@given(text=queries(repeats=True, depth=1, words=("SEQ",), returns=True), events=small)
def test_returned_values(text: str, events: list[oracle.Event]) -> None:
    show(text, events)
    expected = oracle.results(parse(text), events)
    kinds = [{type(value) for row in expected for value in [row[name]]} for name in (expected[0] if expected else ())]
    if any(float in kind for kind in kinds):  # whole numbers that leave 64 bits are refused; `test_matching` holds that
        return
    found = run(text, events)
    assert Counter(map(_comparable, found)) == Counter(map(_comparable, expected))


def _comparable(row: dict[str, object]) -> tuple[tuple[str, object], ...]:
    told = {name: tuple(map(plain, value)) if isinstance(value, list) else plain(value) for name, value in row.items()}
    return tuple(sorted(told.items()))


@given(data=st.data(), text=repeated, events=small)
def test_any_cutting(data: st.DataObject, text: str, events: list[oracle.Event]) -> None:
    assert_goes_on(data, text, events)
