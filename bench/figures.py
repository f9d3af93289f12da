"""The figures of the papers, one by one: what is printed, asked of what was measured here.

Most figures claim that one contender takes less time than another, at every point, by more and more where the figure grows. Whether
that holds here is worked out of the measurements, whatever run they are of; why it does not is written beside the claim.
Cost: a look at every measurement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from bench.workloads.forecast import TABLE_2

Line = dict[str, Any]
Which = Callable[[str], bool]

STACK_JOIN = "stack join, as published"
OUR_MATCHER = "all contenders are compiled loops over columns here, so less is left to be saved than in the paper's engine"
FEW_MATCHES = "where a window holds few matches, as on the real trades, to build them costs less than a counter for each start"
OTHER_RECORDS = (
    "the copy of Intel lab has no humidity, which is part of an event in the paper (787 kinds for its 3,931), and the traffic is "
    "of 44 detectors where most half minutes have few cars or none, not of the paper's one"
)
UNEXPLAINED = "not explained yet"
TWO_VERTICES = (
    "on sparse data the tree's time grows far less with the vertices than ToFel's, which is the shorter where they are two"
)
NO_FIXED_PART = "both take time in proportion to the rules here, so that few rules favour neither"
SHORT_WINDOW = (
    "in the quick run's window, half as long, the interval seldom has room for all events of a longer child, "
    "and the search ends early"
)
SHORT_LISTS = "an interval is a few words here and joined with those it overlaps, so that a passive view's list of them is short"
ALL_IS_ASKED_FOR = "in larger windows nearly all that can be computed is asked for, and both hold about the same"
FULL_RUN = "a quick run has one point of it; `python -m bench --full` has all"


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


@dataclass(frozen=True)
class Figure:
    """A claim: `quick` takes less of what is measured than `slow` in the tasks of the figure, and more in the `exceptions`."""

    name: str
    printed: str
    tasks: Which
    quick: str
    slow: str
    grows: bool = False
    why_not: str = OUR_MATCHER
    measured: Callable[[Line], float | None] = seconds
    exceptions: Which = lambda _: False
    why_no_exception: str = UNEXPLAINED

    def here(self, lines: Sequence[Line]) -> str:
        found = ratios(self, lines)
        if not found:
            return f"Not measured: {FULL_RUN}."
        n_held = sum(ratio > 1 for ratio in found)
        low, high = f"{min(found):.2g}", f"{max(found):.2g}"
        times = low if low == high else f"{low} to {high}"
        said = (
            f"{self.quick} is {times} times as fast as {self.slow}"
            if self.measured is seconds
            else f"{self.slow} holds {times} times what {self.quick} does"
        )
        if n_held < len(found):
            return f"Not so at {len(found) - n_held} of {len(found)} points: {said}; {self.why_not}."
        if wrong := [ratio for ratio in ratios(self, lines, self.exceptions) if ratio > 1]:
            return f"So, and at the printed exception too ({wrong[0]:.3g} times): {said}; {self.why_no_exception}."
        if self.grows and len(found) > 1 and found[-1] < found[0]:
            return f"So at every point, and not by more and more: {said}; {self.why_not}."
        return f"The same shape: {said}."


@dataclass(frozen=True)
class Course:
    """A claim about one contender alone: its time for an event rises from task to task, or does not (less than twice the first)."""

    name: str
    printed: str
    tasks: Which
    contender: str
    rises: bool
    why_not: str = UNEXPLAINED

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


def begins(*starts: str) -> Which:
    return lambda task: task.startswith(starts)


def among(*tasks: str) -> Which:
    return lambda task: task in tasks


def of_neel(what: str) -> Which:
    return lambda task: task.startswith(f"{what}, ") and "(q" in task


def of_stress(data: str) -> Which:
    return lambda task: task.startswith("stress, ") and task.endswith(data)


def of_forecasts(what: str) -> Which:
    return lambda task: task.startswith(f"{what} ") and " on " in task and not task.endswith("all of intel-lab")


FIGURES: dict[str, tuple[Claim, ...]] = {
    "cube": (
        Figure(
            "12 (a, b), 14 (a, b): changes of the pattern",
            "top-down is 8, 10 and 28 times as fast as the state of the art at lengths 3, 4 and 5",
            among("workload 1", "workload 2", "workload 3"), "top-down", STACK_JOIN, grows=True,
        ),
        Figure(
            "12 (c), 13 (a), 14 (c), 15 (a): changes of concepts",
            "bottom-up is about twice as fast as the state of the art",
            among("workload 4", "workload 5", "workload 6"), "bottom-up", STACK_JOIN,
        ),
        Figure(
            "12 (c), top-down: changes of concepts",
            "in workloads 5 and 6 top-down is slower than the state of the art",
            among("workload 5", "workload 6"), STACK_JOIN, "top-down",
            why_not="to look at the types of a match costs a table look-up here, far less than to find it",
        ),
        Figure(
            "13 (b, c), 15 (b, c): both",
            "Chase is faster than the state of the art",
            among("workload 7", "workload 8"), "chase", STACK_JOIN,
        ),
        *(
            Figure("13 (b, c), 15 (b, c): both", f"Chase is faster than {other}", among("workload 7", "workload 8"), "chase", other)
            for other in ("top-down", "bottom-up")
        ),
    ),
    "nested": (
        *(
            Course(
                f"NEEL 6 ({letter}): {what}",
                f"iterating takes longest for the {most}",
                of_neel(what),
                "iterative",
                True,
                SHORT_WINDOW,
            )
            for letter, what, most in (
                ("a", "number of negated children", "most children"),
                ("b", "length of a negated child", "longest child"),
                ("c", "depth of a negated child", "deepest child"),
            )
        ),
        Figure(
            "NEEL 8: interval-driven caching", "with its cache q10 is faster than without", begins("q10, "), "passive", "iterative"
        ),
        Figure(
            "views 10: by the window", "views are 6, 9 and 16 times as fast as iterating at windows of 100, 500 and 1000",
            begins("positive AND, "), "aggressive", "iterative", grows=True,
        ),
        Figure(
            "views 16: memory", "aggressive views hold three times what passive ones do",
            begins("memory, positive AND, "), "passive", "aggressive", measured=kilobytes, why_not=ALL_IS_ASKED_FOR,
        ),
        Figure(
            "views 19: length of a positive child", "balanced views are faster than passive ones",
            begins("length of a positive child"), "balanced", "passive", grows=True,
        ),
        Figure(
            "views 21: number of positive children", "balanced views are faster than passive ones",
            begins("number of positive children"), "balanced", "passive", grows=True,
        ),
        Figure(
            "views 23 (a, b, c): length of a negated child", "balanced views are faster than iterating",
            begins("length of a negated child, longest interval"), "balanced", "iterative",
        ),
        Figure(
            "views 23 (d), 25: a correlated equality", "divided views are faster than undivided ones, the more values",
            lambda task: "values of a correlated attribute" in task, "balanced", "balanced, not divided", grows=True,
        ),
        *(
            Figure(
                "views 26: memory at a window of 100", f"balanced views hold less than {other} ones",
                among("memory, positive AND, window 100"), "balanced", other, measured=kilobytes, why_not=SHORT_LISTS,
            )
            for other in ("aggressive", "passive")
        ),
    ),
    "aggregates": (
        Figure(
            "5.1 (a): length", "counters are faster than two steps, 16,736 times at length 5",
            begins("length "), "per-start", "two-step", grows=True, why_not=FEW_MATCHES,
        ),
        Figure(
            "5.2 (a): window", "counters are faster than two steps, by more with every window",
            begins("window "), "per-start", "two-step", grows=True, why_not=FEW_MATCHES,
        ),
        *(
            Course(
                f"5.3 (a): stress, {data}", "no significant loss from length 6 to 10 with a window of two seconds",
                of_stress(data), "per-start", rises=False,
            )
            for data in ("generated", "real trades")
        ),
        Figure(
            "5.3 (b): negation", "counters are faster than two steps",
            begins("negation, "), "per-start", "two-step", why_not=FEW_MATCHES,
        ),
        Figure(
            "5.4: frequency of the connecting event", "Chop-Connect is faster than no sharing while the event is rare (0.1%)",
            begins("chop-connect, connecting event: frequency 0.1%"), "chop-connect", "each per-start",
        ),
        Figure(
            "5.5 (a): shared length", "Chop-Connect is faster than no sharing, by more with every length",
            begins("chop-connect, shared length"), "chop-connect", "each per-start", grows=True,
        ),
        Figure(
            "5.5 (b): queries", "Chop-Connect is faster than no sharing, by more with every query",
            begins("chop-connect, queries"), "chop-connect", "each per-start", grows=True,
        ),
        Figure(
            "5.6 (a): optimizers", "the greedy choice takes less time than the exhaustive one",
            begins("optimizer, group"), "greedy", "exhaustive",
        ),
    ),
    "forecast": (
        Shares(
            "Table 2: event frequencies", "the most frequent events are a larger share of the traffic data than of Intel lab",
            TABLE_2, "intel-lab", "traffic", why_not=OTHER_RECORDS,
        ),
        *(
            Figure(f"{number}: {what}", "CBS-Tree is faster than ToFel" + but, of_forecasts(what), "cbs-tree", "tofel", why_not=why)
            for number, what, but, why in (
                ("9", "window", ", at every window", OUR_MATCHER),
                ("10", "vertices", ", at every size", TWO_VERTICES),
                ("11", "edges", ", with any number of edges", OUR_MATCHER),
            )
        ),
        Figure(
            "12: rules", "CBS-Tree is faster than ToFel, but for 5,000 rules on sparse data", of_forecasts("rules"),
            "cbs-tree", "tofel", exceptions=among("rules 5000 on intel-lab"), why_no_exception=NO_FIXED_PART,
        ),
    ),
}  # fmt: skip


def judged(workload: str, lines: Iterable[Line]) -> list[str]:
    """A sentence for every figure of a workload: what is printed, and whether it is so here."""
    lines = list(lines)
    return [f"- **{figure.name}**: printed, {figure.printed}. {figure.here(lines)}" for figure in FIGURES.get(workload, ())]


def ratios(figure: Figure, lines: Sequence[Line], tasks: Which | None = None) -> list[float]:
    """How many times as much the slow one takes, point by point: of the figure without exceptions, or of some tasks."""
    asked = tasks or (lambda task: figure.tasks(task) and not figure.exceptions(task))
    taken: dict[tuple[str, int], dict[str, float]] = {}
    for line in lines:
        if asked(line["task"]) and (found := figure.measured(line)):
            taken.setdefault((line["task"], line["events"]), {})[line["contender"]] = found
    return [of[figure.slow] / of[figure.quick] for of in taken.values() if {figure.slow, figure.quick} <= of.keys()]
