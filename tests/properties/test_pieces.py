"""Matches come in pieces of bounded size; where a piece ends makes no difference."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import oracle
from answers import assert_equal_matches
from seqube.engine import evaluation
from strategies import queries, streams


@given(text=queries(), events=streams(), piece=st.integers(1, 5))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_size_of_piece(monkeypatch: pytest.MonkeyPatch, text: str, events: list[oracle.Event], piece: int) -> None:
    monkeypatch.setattr(evaluation, "PIECE", piece)
    assert_equal_matches(text, events)
