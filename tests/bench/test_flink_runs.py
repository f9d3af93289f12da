"""What Flink CEP finds, live, is what our queries find; where it is not, the documentation says why."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import flink_runs

PAGE = Path(__file__).parents[2] / "docs/how-to/from-other-engines.md"


@pytest.mark.slow
def test_flink_finds_the_same() -> None:
    if reason := flink_runs.missing():
        pytest.skip(reason)
    found = flink_runs.compare(flink_runs.PAIRS | flink_runs.DIFFERENCES, flink_runs.random_streams(seed=2))
    for name in flink_runs.PAIRS:
        assert found[name].are_equal, name
        assert found[name].ours, name
    equal = [name for name in flink_runs.DIFFERENCES if found[name].are_equal]
    assert not equal, "these need no explanation"


def test_differences_are_explained() -> None:
    text = PAGE.read_text()
    assert [name for name in flink_runs.DIFFERENCES if f"*{name}*" not in text] == []
