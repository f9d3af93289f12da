"""What the papers' figures claim, asked of measurements: so, so but not by more and more, not so, not measured."""

from __future__ import annotations

from typing import Any

import pytest
from bench.figures import FIGURES, judged, ratios


def measured(*seconds: tuple[float, float]) -> list[dict[str, Any]]:
    """CBS-Tree and ToFel at some points of figure 9."""
    found = []
    for point, taken in enumerate(seconds):
        for contender, cpu_s in zip(("cbs-tree", "tofel"), taken, strict=True):
            found.append({"task": f"window {point} on traffic", "events": 5, "contender": contender, "cpu_s": cpu_s, "wall_s": 9.0})
    return found


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (measured((1, 2), (1, 3)), "The same shape: cbs-tree is 2 to 3 times as fast as tofel."),
        (measured((1, 2), (2, 1)), "Not so at 1 of 2 points: cbs-tree is 0.5 to 2 times as fast as tofel"),
        ([], "Not measured"),
    ],
)
def test_a_figure_is_held_against_what_was_measured(lines: list[dict[str, Any]], said: str) -> None:
    (sentence,) = (each for each in judged("forecast", lines) if each.startswith("- **9: window**"))
    assert said in sentence


def test_a_figure_that_grows_has_to_grow() -> None:
    lines = [
        {"task": task, "events": 5, "contender": contender, "cpu_s": cpu_s, "wall_s": None}
        for task, taken in (("workload 1", 9.0), ("workload 2", 3.0))
        for contender, cpu_s in (("top-down", 1.0), ("stack join, as published", taken))
    ]
    assert "not by more and more" in judged("cube", lines)[0]
    assert ratios(FIGURES["cube"][0], lines) == [9.0, 3.0]
