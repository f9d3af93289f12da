"""A stream in steps is measured only where it finds what one run over it finds."""

from __future__ import annotations

import pytest
from bench.workloads.streams import CASES, matched_together, nested, stepped

from seqube.plan.strategies import LOOPS


@pytest.mark.parametrize("name", CASES)
def test_steps_find_what_a_whole_run_finds(name: str) -> None:
    measured = stepped(name, CASES[name], window=2_000, n_steps=3)
    assert measured.right
    assert measured.answer > 0
    assert measured.repetitions == 3


@pytest.mark.parametrize("strategy", [pytest.param(name, marks=[pytest.mark.slow] * (name != "balanced")) for name in LOOPS])
def test_views_find_what_a_whole_run_finds(strategy: str) -> None:
    measured = nested(strategy, window=2_000, n_steps=3)
    assert measured.right
    assert measured.answer > 0


def test_a_workload_finds_what_whole_runs_find() -> None:
    measured = matched_together("top-down", window=2_000, n_steps=3)
    assert measured.right
    assert measured.answer > 0
