"""Two contenders in turns: how the code of a commit is compared with the code here."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
from bench.against import compare_task


def contender(answer: int, cpu_s: list[float], told: list[str], name: str) -> Callable[[str], dict[str, Any]]:
    times = itertools.cycle(cpu_s)

    def tell(line: str) -> dict[str, Any]:
        told.append(f"{name} {line}")
        return {"answer": answer, "cpu_s": next(times)} if line == "run" else {}

    return tell


def test_they_take_turns_and_the_median_counts() -> None:
    told: list[str] = []
    both = {"before": contender(7, [9.0, 1.0, 1.0, 5.0], told, "before"), "here": contender(7, [2.0], told, "here")}
    assert compare_task("Q-a", "SEQ(A a)", both, 3) == {"before": 1.0, "here": 2.0}
    assert told == [
        *('before ["Q-a", "SEQ(A a)"]', 'here ["Q-a", "SEQ(A a)"]', "before run", "here run"),  # the warm-up
        *("here run", "before run", "before run", "here run", "here run", "before run"),
        *("before end", "here end"),
    ]


def test_other_answers_are_not_compared() -> None:
    both = {"before": contender(7, [1.0], [], "before"), "here": contender(8, [1.0], [], "here")}
    with pytest.raises(SystemExit, match="Q-a: the answers differ"):
        compare_task("Q-a", "SEQ(A a)", both, 3)
