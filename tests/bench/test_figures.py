"""What the papers' figures claim, asked of measurements: so, so but not by more and more, not so, not measured."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from bench.claims import Choice, CostModel, Figure, Turn, begins, ratios
from bench.figures import FIGURES, judged
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
        (measured((1, 2), (1, 0.95)), "Not told apart at 1 of 2 points: cbs-tree is 0.95 to 2 times as fast as tofel"),
        (measured((1, 1), (1, 0.95)), "Not told apart at every point: cbs-tree is 0.95 to 1 times as fast as tofel"),
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
    figure = FIGURES["cube"][0]
    assert isinstance(figure, Figure)
    lines = [
        {"task": f"{task}, as a stream", "events": 5, "contender": contender, "cpu_s": cpu_s, "wall_s": None, "about": {}}
        for task, taken in (("workload 1", 9.0), ("workload 2", 3.0))
        for contender, cpu_s in (("top-down", 1.0), ("one matcher for each", taken))
    ]
    assert "not by more and more" in judged("cube", lines)[0]
    assert ratios(figure, lines) == [9.0, 3.0]


@pytest.mark.parametrize(("exception", "said"), [(0.5, "The same shape"), (1.5, "at the printed exception too (1.5 times)")])
def test_a_printed_exception_has_to_be_one_here_too(exception: float, said: str) -> None:
    lines = [
        {"task": task, "events": 5, "contender": contender, "cpu_s": cpu_s, "wall_s": None}
        for task, taken in (("rules 5000 on intel-lab", exception), ("rules 10000 on intel-lab", 2.0))
        for contender, cpu_s in (("cbs-tree", 1.0), ("tofel", taken))
    ]
    (sentence,) = (each for each in judged("forecast", lines) if each.startswith("- **12: rules**"))
    assert said in sentence


def test_memory_is_compared_by_what_is_held() -> None:
    held = {"aggressive": 30.0, "passive": 10.0, "balanced": 15.0}
    task, untimed = "memory, positive AND, window 100", {"events": 5, "cpu_s": None, "wall_s": None}
    lines = [{**untimed, "task": task, "contender": name, "about": {"kilobytes": kilobytes}} for name, kilobytes in held.items()]
    said = [each for each in judged("nested", lines) if "memory" in each.partition(":")[2][:10]]
    assert "The same shape: aggressive holds 3 times what passive does." in said[0]
    assert "The same shape: aggressive holds 2 times what balanced does." in said[1]
    assert "Not so at 1 of 1 points: passive holds 0.67 times what balanced does" in said[2]


@pytest.mark.parametrize(
    ("workload", "task", "contender", "taken", "said"),
    [
        ("nested", "depth of a negated child, {} (q7)", "iterative", (1, 2, 3), "The same shape: iterative takes 2, 3 times"),
        ("nested", "depth of a negated child, {} (q7)", "iterative", (1, 3, 2), "Not so: iterative takes 3, 2 times"),
        (
            "aggregates",
            "stress, length {}, generated",
            "per-start",
            (1, 1.5, 1.9),
            "The same shape: per-start takes 1.5, 1.9 times",
        ),
        ("aggregates", "stress, length {}, generated", "per-start", (1, 1.5, 2.1), "Not so: per-start takes 1.5, 2.1 times"),
    ],
)
def test_a_course_rises_or_does_not(workload: str, task: str, contender: str, taken: tuple[float, ...], said: str) -> None:
    lines = [
        {"task": task.format(number), "events": 5, "contender": contender, "cpu_s": cpu_s, "wall_s": None, "about": {}}
        for number, cpu_s in enumerate(taken)
    ]
    assert any(said in sentence for sentence in judged(workload, lines))


@pytest.mark.parametrize(
    ("ratios_by_frequency", "said"),
    [
        (
            {0.001: 2.0, 0.01: 1.2, 0.02: 0.8},
            "The same shape: a is 0.8 to 2 times as fast as b, and the turn is between 1.0% and 2.0%.",
        ),
        ({0.001: 2.0, 0.002: 0.8, 0.02: 0.7}, "turn is between 0.1% and 0.2%; because."),
        ({0.001: 2.0, 0.01: 1.2, 0.02: 1.1}, "Slower nowhere from 0.1% to 2.0%: a is 1.1 to 2 times as fast as b; because."),
        ({0.001: 0.5, 0.01: 0.2, 0.02: 0.8}, "Faster nowhere"),
        ({0.001: 2.0, 0.01: 0.2, 0.02: 1.8}, "No one turn"),
        (
            {0.001: 2.0, 0.01: 0.95, 0.013: 1.04, 0.02: 0.8},
            "and the turn is between 0.1% and 2.0%, with 2 points where they are not told apart.",
        ),
        ({0.001: 2.0}, "Not measured"),
    ],
)
def test_a_turn_is_found_between_two_points(ratios_by_frequency: dict[float, float], said: str) -> None:
    lines = [
        {"task": f"t {at}", "events": 5, "contender": name, "cpu_s": cpu_s, "wall_s": None, "about": {"frequency": at}}
        for at, ratio in ratios_by_frequency.items()
        for name, cpu_s in (("a", 1.0), ("b", ratio))
    ]
    assert said in Turn("t", "printed", begins("t "), "frequency", 0.013, "a", "b", "because").here(lines)


def test_a_choice_is_held_against_the_best_one() -> None:
    claim = Choice("c", "printed", begins("optimizer"), begins("counting"), "near", "best")
    shares = [1.0, 0.8, 1.0]
    lines = [{"task": f"optimizer {i}", "events": 5, "contender": "near", "about": {"share": s}} for i, s in enumerate(shares)]
    lines += [
        {"task": "counting 1", "events": 5, "contender": name, "cpu_s": cpu_s, "wall_s": None, "about": {}}
        for name, cpu_s in (("near", 1.1), ("best", 1.0))
    ]
    said = claim.here(lines)
    assert "in 2 of 3 groups the choice is worth what the best one is, in the others at least 80% of it" in said
    assert "counting by it takes 1.1 times as long there" in said
    assert "Not measured" in claim.here([])


@pytest.mark.parametrize(("cpu_s", "said"), [((1.0, 2.0, 3.0), "So: of 3 pairs"), ((3.0, 2.0, 1.0), "Not everywhere: of 3 pairs")])
def test_a_cost_model_has_to_put_plans_in_order(cpu_s: tuple[float, ...], said: str) -> None:
    lines = [
        {"task": "workload 1", "events": 5, "contender": str(i), "cpu_s": taken, "wall_s": None, "about": {"expected_s": i + 1.0}}
        for i, taken in enumerate(cpu_s)
    ]
    claim = CostModel("m", "printed", begins("workload"), "because")
    assert claim.here(lines).startswith(said)
    assert "Not measured" in claim.here([])
    assert ("in 1 of 1 workloads" in claim.here(lines)) == (cpu_s[0] == 1.0)
