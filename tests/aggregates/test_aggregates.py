"""Aggregates are what the oracle says, by every strategy, on random queries and streams."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import hand_worked
import oracle
import seqube as sq
from aggregate_queries import aggregate_queries, assert_same_rows, expected, found
from answers import show
from seqube.plan.strategies import names
from strategies import concepts, hierarchies, streams


@pytest.mark.parametrize("strategy", ["auto", *names("aggregates")])
@pytest.mark.parametrize(("query", "text", "wanted"), hand_worked.AGGREGATES)
def test_hand_worked_cases(query: str, text: str, wanted: list[tuple[Any, ...]], strategy: str) -> None:
    """The same cases that the oracle has to get right; their answers do not come from it."""
    try:
        rows = found(query, hand_worked.events(text), strategy=strategy)
    except sq.PlanError:
        assert strategy not in ("auto", "two-step")
        return
    assert Counter(tuple(row.values()) for row in rows) == Counter(wanted)


@given(text=aggregate_queries(), events=streams())
def test_any_query(text: str, events: list[oracle.Event]) -> None:
    show(text, events)
    assert_same_rows(found(text, events), expected(text, events))


@given(text=aggregate_queries(predicates=False), events=streams())
def test_structure_alone(text: str, events: list[oracle.Event]) -> None:
    show(text, events)
    assert_same_rows(found(text, events), expected(text, events))


@given(text=aggregate_queries(depth=1, words=("SEQ",)), events=streams())
def test_flat_sequences(text: str, events: list[oracle.Event]) -> None:
    show(text, events)
    assert_same_rows(found(text, events), expected(text, events))


@given(data=st.data(), hierarchy=hierarchies(), events=streams())
def test_hierarchies(data: st.DataObject, hierarchy: dict[str, Any] | None, events: list[oracle.Event]) -> None:
    text = data.draw(aggregate_queries(names=concepts(hierarchy), depth=2))
    show(text, events, hierarchy)
    assert_same_rows(found(text, events, hierarchy), expected(text, events, hierarchy))
