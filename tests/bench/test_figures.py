"""What the papers' figures claim, asked of measurements: so, so but not by more and more, not so, not measured."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from bench.figures import FIGURES, judged, ratios
from bench.measure import as_line
from bench.workloads.forecast import TABLE_2, Stream, most_frequent


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


def test_the_share_of_the_most_frequent_events_is_counted_and_held_against_the_table() -> None:
    often = Stream("traffic", np.repeat(np.arange(50), np.arange(50) ** 2 + 1).astype(np.int32))
    evenly = Stream("intel-lab", np.arange(500, dtype=np.int32) % 100)
    lines = [json.loads(as_line(m)) for stream in (evenly, often) for m in most_frequent(stream)]
    percent = {(line["task"], line["about"]["k"]): line["about"]["percent"] for line in lines}
    assert [percent["Table 2, intel-lab", k] for k in TABLE_2["intel-lab"]] == [5, 10, 15, 20, 25, 30, 35, 40]
    assert percent["Table 2, traffic", 5] == round(100 * sum(k**2 + 1 for k in range(45, 50)) / len(often.codes), 1)
    sentence = judged("forecast", lines)[0]
    assert "The same order at every k: traffic is the denser" in sentence
    assert "5% to 40% of intel-lab (printed 1.3% to 8.4%)" in sentence
    swapped = [{**line, "task": f"Table 2, {'traffic' if 'intel' in line['task'] else 'intel-lab'}"} for line in lines]
    assert "Not in this order at every k" in judged("forecast", swapped)[0]
    assert "Not measured" in judged("forecast", [])[0]


def test_a_figure_that_grows_has_to_grow() -> None:
    lines = [
        {"task": task, "events": 5, "contender": contender, "cpu_s": cpu_s, "wall_s": None}
        for task, taken in (("workload 1", 9.0), ("workload 2", 3.0))
        for contender, cpu_s in (("top-down", 1.0), ("stack join, as published", taken))
    ]
    assert "not by more and more" in judged("cube", lines)[0]
    assert ratios(FIGURES["cube"][0], lines) == [9.0, 3.0]
