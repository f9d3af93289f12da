"""The kinds of claim that a figure makes, each with a way to ask measurements for it; `figures` says who claims what.

A claim knows what was printed, and why it may not hold here; whether it holds is worked out of a run's lines. Cost: a look at every
line. Nothing is said of points that were not measured.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median
from typing import Any, Protocol

Line = dict[str, Any]
Which = Callable[[str], bool]

FULL_RUN = "a quick run has one point of it; `python -m bench --full` has all"
NOISE = 1.1  # times that differ by less are not told apart


class Claim(Protocol):
    """What a figure or a table says, and how that is asked of measurements."""

    @property
    def name(self) -> str: ...

    @property
    def printed(self) -> str: ...

    def here(self, lines: Sequence[Line]) -> str:
        """Whether it is so, in a sentence."""
        ...


def seconds(line: Line) -> float | None:
    taken: float | None = line["cpu_s"] or line["wall_s"]
    return taken


def kilobytes(line: Line) -> float | None:
    held: float | None = line["about"].get("kilobytes")
    return held


def between(values: Sequence[float]) -> str:
    """The least and the greatest, in two digits."""
    low, high = (f"{value:.2g}" if value < 100 else f"{value:,.0f}" for value in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"


@dataclass(frozen=True)
class Figure:
    """A claim: `quick` takes less of what is measured than `slow` in the tasks of the figure, and more in the `exceptions`."""

    name: str
    printed: str
    tasks: Which
    quick: str
    slow: str
    why_not: str
    grows: bool = False
    why_no_growth: str = ""  # where that is another reason
    measured: Callable[[Line], float | None] = seconds
    exceptions: Which = lambda _: False
    why_no_exception: str = ""

    def here(self, lines: Sequence[Line]) -> str:
        found = ratios(self, lines)
        if not found:
            return f"Not measured: {FULL_RUN}."
        said = (
            f"{self.quick} is {between(found)} times as fast as {self.slow}"
            if self.measured is seconds
            else f"{self.slow} holds {between(found)} times what {self.quick} does"
        )
        noise = NOISE if self.measured is seconds else 1.0
        n_not = sum(ratio <= 1 for ratio in found)
        if any(ratio <= 1 and ratio * noise <= 1 for ratio in found):
            return f"Not so at {n_not} of {len(found)} points: {said}; {self.why_not}."
        if n_not:
            alike = f"at {n_not} of {len(found)} points" if n_not < len(found) else "at every point"
            return f"Not told apart {alike}: {said}; {self.why_not}."
        if wrong := [ratio for ratio in ratios(self, lines, self.exceptions) if ratio > 1]:
            return f"So, and at the printed exception too ({wrong[0]:.3g} times): {said}; {self.why_no_exception}."
        if self.grows and len(found) > 1 and found[-1] < found[0]:
            return f"So at every point, and not by more and more: {said}; {self.why_no_growth or self.why_not}."
        return f"The same shape: {said}."


def ratios(figure: Figure, lines: Sequence[Line], tasks: Which | None = None) -> list[float]:
    """How many times as much the slow one takes, point by point: of the figure without exceptions, or of some tasks."""
    asked = tasks or (lambda task: figure.tasks(task) and not figure.exceptions(task))
    return [
        of[figure.slow] / of[figure.quick]
        for of in taken(lines, asked, figure.measured)
        if {figure.slow, figure.quick} <= of.keys()
    ]


def taken(lines: Sequence[Line], tasks: Which, measured: Callable[[Line], float | None] = seconds) -> list[dict[str, float]]:
    """What every contender took, point by point."""
    found: dict[tuple[str, int], dict[str, float]] = {}
    for line in lines:
        if tasks(line["task"]) and (value := measured(line)):
            found.setdefault((line["task"], line["events"]), {})[line["contender"]] = value
    return list(found.values())


@dataclass(frozen=True)
class Course:
    """A claim about one contender alone: its time for an event rises from task to task, or does not (less than twice the first)."""

    name: str
    printed: str
    tasks: Which
    contender: str
    rises: bool
    why_not: str

    def here(self, lines: Sequence[Line]) -> str:
        of = [line for line in lines if self.tasks(line["task"]) and line["contender"] == self.contender]
        found = [taken / line["events"] for line in of if (taken := seconds(line))]
        if len(found) < 2:
            return f"Not measured: {FULL_RUN}."
        times = [each / found[0] for each in found[1:]]
        held = found == sorted(found) if self.rises else max(times) < 2
        said = f"{self.contender} takes {', '.join(f'{each:.2g}' for each in times)} times as long as for the first"
        return f"The same shape: {said}." if held else f"Not so: {said}; {self.why_not}."


@dataclass(frozen=True)
class Turn:
    """A claim: `quick` is the faster up to some value of what is varied, and the slower behind it."""

    name: str
    printed: str
    tasks: Which
    varied: str
    at: float  # as printed
    quick: str
    slow: str
    why_not: str

    def here(self, lines: Sequence[Line]) -> str:
        points: dict[float, dict[str, float]] = {}
        for line in lines:
            if self.tasks(line["task"]) and (value := seconds(line)):
                points.setdefault(line["about"][self.varied], {})[line["contender"]] = value
        found = {at: of[self.slow] / of[self.quick] for at, of in sorted(points.items()) if {self.slow, self.quick} <= of.keys()}
        if len(found) < 2:
            return f"Not measured: {FULL_RUN}."
        gained = [at for at, ratio in found.items() if ratio > NOISE]
        lost = [at for at, ratio in found.items() if ratio < 1 / NOISE]
        said = f"{self.quick} is {between(list(found.values()))} times as fast as {self.slow}"
        if not gained or not lost:
            where = "Slower nowhere" if gained else "Faster nowhere"
            return f"{where} from {min(found):.1%} to {max(found):.1%}: {said}; {self.why_not}."
        if max(gained) > min(lost):
            return f"No one turn: {said}, faster at {', '.join(f'{at:.1%}' for at in gained)}; {self.why_not}."
        said += f", and the turn is between {max(gained):.1%} and {min(lost):.1%}"
        alike = len(found) - len(gained) - len(lost)
        said += f", with {alike} points where they are not told apart" * (alike > 0)
        return f"The same shape: {said}" + ("." if max(gained) <= self.at <= min(lost) else f"; {self.why_not}.")


@dataclass(frozen=True)
class Choice:
    """A claim: the choice made by a rule of thumb is the best one in nearly all tasks, and hardly worse where it is not."""

    name: str
    printed: str
    tasks: Which
    counted: Which  # tasks that count by the choices
    chosen: str
    best: str

    def here(self, lines: Sequence[Line]) -> str:
        shares = {line["task"]: line["about"]["share"] for line in lines if self.tasks(line["task"])}
        if not shares:
            return f"Not measured: {FULL_RUN}."
        n_best = sum(share > 1 - 1e-9 for share in shares.values())
        said = f"in {n_best} of {len(shares)} groups the choice is worth what the best one is"
        if n_best < len(shares):
            said += f", in the others at least {min(shares.values()):.0%} of it"
        found = [of[self.chosen] / of[self.best] for of in taken(lines, self.counted) if {self.chosen, self.best} <= of.keys()]
        if found:
            said += f"; counting by it takes {between(found)} times as long there"
        return f"The same shape: {said}." if n_best > len(shares) / 2 else f"Not so: {said}."


@dataclass(frozen=True)
class CostModel:
    """A claim: what plans were expected to cost puts them in the order in which they were measured."""

    name: str
    printed: str
    tasks: Which
    why_not: str

    def here(self, lines: Sequence[Line]) -> str:
        points: dict[tuple[str, int], list[tuple[float, float]]] = {}
        for line in lines:
            if self.tasks(line["task"]) and "expected_s" in line["about"] and (value := seconds(line)):
                points.setdefault((line["task"], line["events"]), []).append((line["about"]["expected_s"], value))
        if not points:
            return f"Not measured: {FULL_RUN}."
        right = wrong = n_least = 0
        for plans in points.values():
            for (expected, one), (other_expected, other) in combinations(plans, 2):
                if expected != other_expected and max(one, other) > NOISE * min(one, other):
                    is_right = (expected < other_expected) == (one < other)
                    right, wrong = right + is_right, wrong + (not is_right)
            n_least += min(plans)[1] <= NOISE * min(value for _, value in plans)
        off = [value / expected for plans in points.values() for expected, value in plans]
        said = (
            f"of {right + wrong} pairs of plans that are more than a tenth apart, {right} are expected in that order; the plan "
            f"expected to be the cheapest is the fastest, or within a tenth of it, in {n_least} of {len(points)} workloads; plans "
            f"take {between(off)} times what is expected, {median(off):.2g} in the median"
        )
        held = right >= 0.9 * (right + wrong) and n_least >= 0.9 * len(points)
        return f"So: {said}." if held else f"Not everywhere: {said}; {self.why_not}."


@dataclass(frozen=True)
class Shares:
    """A claim: the k most frequent events are more of all records in `dense` than in `sparse`, for every k."""

    name: str
    printed: str
    table: dict[str, dict[int, float]]  # by data set, by k: percent as printed
    sparse: str
    dense: str
    why_not: str

    def here(self, lines: Sequence[Line]) -> str:
        found: dict[str, dict[int, float]] = {name: {} for name in self.table}
        for line in lines:
            if (name := line["task"].removeprefix("Table 2, ")) in found:
                found[name][line["about"]["k"]] = line["about"]["percent"]
        sparse, dense = found[self.sparse], found[self.dense]
        if not sparse.keys() & dense.keys():
            return f"Not measured: {FULL_RUN}."
        said = " and ".join(
            f"{min(of.values()):.3g}% to {max(of.values()):.3g}% of {name} (printed {min(was):.3g}% to {max(was):.3g}%)"
            for name, of in found.items()
            for was in [self.table[name].values()]
        )
        held = all(dense[k] > sparse[k] for k in sparse.keys() & dense.keys())
        verdict = f"The same order at every k: {self.dense} is the denser" if held else "Not in this order at every k"
        return f"{verdict}; here they are {said}: {self.why_not}."


# ---------------------------------------------------------------- which tasks


def begins(*starts: str) -> Which:
    return lambda task: task.startswith(starts)


def among(*tasks: str) -> Which:
    return lambda task: task in tasks


def on(data: str, start: str) -> Which:
    """What begins so, on one of several data sets."""
    return lambda task: task.startswith(start) and task.endswith(f", {data}")
