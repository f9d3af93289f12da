"""The figures of the papers, one by one: what is printed, asked of what was measured here.

Most figures claim that one contender takes less time than another, at every point, by more and more where the figure grows. Whether
that holds here is worked out of the measurements, whatever run they are of; why it does not is written beside the claim.
"""

from __future__ import annotations

from collections.abc import Iterable

from bench.claims import (
    Choice,
    Claim,
    CostModel,
    Course,
    Figure,
    Line,
    Shares,
    Turn,
    Which,
    among,
    begins,
    kilobytes,
    on,
)
from bench.workloads.forecast import TABLE_2

STACK_JOIN = "stack join, as published"
OUR_MATCHER = "all contenders are compiled loops over columns here, so less is left to be saved than in the paper's engine"
FEW_MATCHES = "where a window holds few matches, as on the real trades, to build them costs less than a counter for each start"
OUTPUT = (
    "to look for a match costs no more than to write its row here, so that what is shared is written all the same; longer patterns "
    "have more rows, and workloads 1 to 3 as counts alone show what is shared"
)
A_THIRD_IS_SHARED = (
    "a third of the coarser query's results are the finer one's here, and to find these anew costs less than to look through all"
)
DEAD_BRANCHES = "its parts are computed by loops that know which branches lead nowhere, which the stack join walks"
LITTLE_TO_ADD = "what it looks for beside what it takes over is little here"
TYPES_ARE_CODES = "to look at the types of a match costs a table look-up here, far less than to find it"
LITTLE_IS_SHARED = (
    "in workloads 5 and 6 the finer query has about a ninth of the coarser one's results or less, so that little is taken over, "
    "and the rest is looked for in several parts"
)
STEPS = "what a step of 500 events costs is to begin and end it, and to write its results as rows; neither is shared"
NOT_INDEPENDENT = "sizes that were not sampled are those of events that come independently of each other, which trades do not"
ALIKE = "where Chase's plan is hardly cheaper than the other one, both take the same time"
OTHER_RECORDS = (
    "the copy of Intel lab has no humidity, which is part of an event in the paper (787 kinds for its 3,931), and the traffic is "
    "of 44 detectors where most half minutes have few cars or none, not of the paper's one"
)
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
NEGATIONS_BOUND = (
    "a negation bounds how far back the matcher looks here, so that flat queries hardly build what rewriting adds to them, while "
    "balanced views hold every instance of the sub-query; the paper's engine asks negations of what it has built"
)
JOINING = (
    "what takes the time here is to join the children's results with the outer ones, a third of a microsecond a match, which all "
    "views do alike"
)
NOTHING_TWICE = "in the smallest window hardly a result is used twice, and larger ones spend their time on joining results"
NOTHING_TO_DIVIDE = "with one value there is nothing to divide"
FIRST_IS_ENOUGH = "iterating ends at the first instance of a negated sub-query, while balanced views hold all of them"
A_NUMBER_A_PART = "a start has a number for every part of the pattern, and longer patterns more events that touch them"
ONE_PASS = "a snapshot is one pass over the counts of live starts, about a nanosecond each, where the thesis connects objects"
FEW_SETS = "where few candidates are in conflict there are few sets to try: the others are taken at once"


def of_neel(what: str) -> Which:
    return lambda task: task.startswith(f"{what}, ") and "(q" in task


def of_forecasts(what: str) -> Which:
    return lambda task: task.startswith(f"{what} ") and " on " in task and not task.endswith("all of intel-lab")


def of_cube(
    pattern: str, concept: str, first: str, mixed: str, of: str, kind: str, baseline: str, why: str = ""
) -> tuple[Claim, ...]:
    """What four of the paper's figures say of workloads 1 to 8, by one measure; `why` not, where one reason is that of all."""

    def workloads(*numbers: int) -> Which:
        return among(*(f"workload {number}{kind}" for number in numbers))

    return (
        Figure(
            f"{pattern}: changes of the pattern, {of}",
            "top-down is 8, 10 and 28 times as fast as the state of the art at lengths 3, 4 and 5",
            workloads(1, 2, 3), "top-down", baseline, why or OUTPUT, grows=True, why_no_growth=OUTPUT,
        ),
        Figure(
            f"{pattern}: changes of the pattern, {of}", "bottom-up is slower than the state of the art",
            workloads(1, 2, 3), baseline, "bottom-up", why or DEAD_BRANCHES,
        ),
        Figure(
            f"{pattern}: changes of the pattern, {of}", "bottom-up is slower than the state of the art, here by our own loops",
            workloads(1, 2, 3), "independent", "bottom-up", why or LITTLE_TO_ADD,
        ),
        Figure(
            f"{concept}: changes of concepts, {of}", "bottom-up is about twice as fast as the state of the art",
            workloads(4, 5, 6), "bottom-up", baseline, why or LITTLE_IS_SHARED,
        ),
        Figure(
            f"{first}: changes of one concept, {of}", "in workload 4 top-down is faster than the state of the art",
            workloads(4), "top-down", baseline, why or A_THIRD_IS_SHARED,
        ),
        Figure(
            f"{concept}: changes of concepts, {of}", "in workloads 5 and 6 top-down is slower than the state of the art",
            workloads(5, 6), baseline, "top-down", TYPES_ARE_CODES,
        ),
        *(
            Figure(f"{mixed}: both, {of}", f"Chase is faster than {name}", workloads(7, 8), "chase", other, why or reason)
            for name, other, reason in (
                ("the state of the art", baseline, OUR_MATCHER), ("top-down", "top-down", ALIKE), ("bottom-up", "bottom-up", ALIKE),
            )
        ),
    )  # fmt: skip


CUBE: tuple[Claim, ...] = (
    *of_cube("12 (a, b)", "12 (c)", "13 (a)", "13 (b, c)", "latency", ", as a stream", "one matcher for each", STEPS),
    *of_cube("14 (a, b)", "14 (c)", "15 (a)", "15 (b, c)", "CPU time, generated", "", STACK_JOIN),
    *of_cube("14 (a, b)", "14 (c)", "15 (a)", "15 (b, c)", "CPU time, real trades", ", real trades", STACK_JOIN),
    Figure(
        "12 (a), 14 (a), beside them: workloads 1 to 3 as counts alone",
        "sharing saves the more the longer the shared pattern is",
        among(*(f"workload {number}, counts alone" for number in (1, 2, 3))), "prefix-tree", "independent", OUR_MATCHER, grows=True,
    ),
    CostModel(
        "7.1: the cost model", "its estimates reflect how the four methods do on all workloads",
        lambda task: task.startswith("workload ") and not task.endswith(("as a stream", "counts alone")), NOT_INDEPENDENT,
    ),
)  # fmt: skip

NESTED: tuple[Claim, ...] = (
    *(
        Course(
            f"NEEL 6 ({letter}): {what}", f"iterating takes longest for the {most}",
            of_neel(what), "iterative", rises=True, why_not=SHORT_WINDOW,
        )
        for letter, what, most in (
            ("a", "number of negated children", "most children"),
            ("b", "length of a negated child", "longest child"),
            ("c", "depth of a negated child", "deepest child"),
        )
    ),
    Figure(
        "NEEL 8: interval-driven caching", "with its cache q10 is faster than without",
        begins("q10, "), "passive", "iterative", NOTHING_TWICE,
    ),
    Figure(
        "views 10: by the window", "views are 6, 9 and 16 times as fast as iterating at windows of 100, 500 and 1000",
        begins("positive AND, "), "aggressive", "iterative", NOTHING_TWICE, grows=True,
    ),
    Figure(
        "views 16: memory", "aggressive views hold three times what passive ones do",
        begins("memory, positive AND, "), "passive", "aggressive", ALL_IS_ASKED_FOR, measured=kilobytes,
    ),
    *(
        Figure(
            f"views {number}: {what}", f"balanced views are faster than {other} ones",
            begins(what), "balanced", other, JOINING, grows=other == "passive",
        )
        for number, what in (("19", "length of a positive child"), ("21", "number of positive children"))
        for other in ("passive", "aggressive")
    ),
    Figure(
        "views 23 (a, b, c): length of a negated child", "balanced views are faster than iterating",
        begins("length of a negated child, longest interval"), "balanced", "iterative", FIRST_IS_ENOUGH,
    ),
    Figure(
        "views 23 (a, b, c): length of a negated child", "rewriting is faster than iterating",
        begins("length of a negated child, longest interval"), "rewriting", "iterative", NEGATIONS_BOUND,
    ),
    Figure(
        "views 23 (a, b, c): length of a negated child", "balanced views are faster than rewriting, the more so the longer it is",
        begins("length of a negated child, longest interval"), "balanced", "rewriting", NEGATIONS_BOUND, grows=True,
    ),
    Figure(
        "views 23 (d), 25: a correlated equality", "divided views are faster than undivided ones, the more values",
        lambda task: "values of a correlated attribute" in task, "balanced", "balanced, not divided", NOTHING_TO_DIVIDE, grows=True,
    ),
    *(
        Figure(
            "views 26: memory at a window of 100", f"balanced views hold less than {other} ones",
            among("memory, positive AND, window 100"), "balanced", other, SHORT_LISTS, measured=kilobytes,
        )
        for other in ("aggressive", "passive")
    ),
)  # fmt: skip


def of_a_seq(data: str) -> tuple[Claim, ...]:
    """Figures 5.1 to 5.3 on one of two streams."""
    return (
        Figure(
            f"5.1 (a): length, {data}", "counters are faster than two steps, 16,736 times at length 5",
            on(data, "length "), "per-start", "two-step", FEW_MATCHES, grows=True,
        ),
        Figure(
            f"5.1 (b): memory by length, {data}", "counters hold far less than two steps, the more so the longer the pattern",
            on(data, "length "), "per-start", "two-step", FEW_MATCHES, grows=True, measured=kilobytes,
        ),
        Figure(
            f"5.2 (a): window, {data}", "counters are faster than two steps, by more with every window",
            on(data, "window "), "per-start", "two-step", FEW_MATCHES, grows=True,
        ),
        Figure(
            f"5.2 (b): memory by window, {data}", "counters hold far less than two steps, the more so the larger the window",
            on(data, "window "), "per-start", "two-step", FEW_MATCHES, grows=True, measured=kilobytes,
        ),
        Course(
            f"5.3 (a): stress, {data}", "no significant loss from length 6 to 10 with a window of two seconds",
            on(data, "stress, "), "per-start", rises=False, why_not=A_NUMBER_A_PART,
        ),
        Figure(
            f"5.3 (b): negation, {data}", "counters are faster than two steps",
            on(data, "negation, "), "per-start", "two-step", FEW_MATCHES,
        ),
        Course(
            f"5.3 (b): negation, {data}", "a negation costs counters next to nothing",
            on(data, "negation, "), "per-start", rises=False, why_not=A_NUMBER_A_PART,
        ),
    )  # fmt: skip


AGGREGATES: tuple[Claim, ...] = (
    *of_a_seq("generated"),
    *of_a_seq("real trades"),
    Figure(
        "5.1 (a), 5.2 (a): where a window holds many matches", "counters are 16,736 times as fast as two steps at length 5",
        begins("sweep, length 5"), "per-start", "two-step", FEW_MATCHES, grows=True,
    ),
    *(
        Turn(
            f"5.4 (a, b): frequency of the connecting event, {said}", "Chop-Connect is faster up to 1.3%, and slower behind it",
            begins("chop-connect, connecting event"), "frequency", 0.013, "chop-connect", other, ONE_PASS,
        )
        for said, other in (("without sharing", "each per-start"), ("without sharing, by our own counts", "each window-product"))
    ),
    Figure(
        "5.5 (a): shared length", "Chop-Connect is faster than no sharing, by more with every length",
        begins("chop-connect, shared length"), "chop-connect", "each per-start", OUR_MATCHER, grows=True,
    ),
    Figure(
        "5.5 (b): queries", "Chop-Connect is faster than no sharing, by more with every query",
        begins("chop-connect, queries"), "chop-connect", "each per-start", OUR_MATCHER, grows=True,
    ),
    Figure(
        "5.6 (a): optimizers", "the greedy choice takes less time than the exhaustive one, by more the more queries",
        begins("optimizer, group"), "greedy", "exhaustive", FEW_SETS, grows=True,
    ),
    Choice(
        "5.6 (a): the choice", "the greedy choice is the best one in 11 of 12 groups, and hardly slower in the other",
        begins("optimizer, group"), begins("counting by a plan"), "by the greedy choice", "by the exhaustive choice",
    ),
    Figure(
        "5.6 (b): counting by the plan", "where the optimizer shares, sharing is faster than not sharing",
        begins("counting by a plan"), "by the greedy choice", "each per-start", OUR_MATCHER,
    ),
)  # fmt: skip

FORECAST: tuple[Claim, ...] = (
    Shares(
        "Table 2: event frequencies", "the most frequent events are a larger share of the traffic data than of Intel lab",
        TABLE_2, "intel-lab", "traffic", why_not=OTHER_RECORDS,
    ),
    *(
        Figure(f"{number}: {what}", "CBS-Tree is faster than ToFel" + but, of_forecasts(what), "cbs-tree", "tofel", why)
        for number, what, but, why in (
            ("9", "window", ", at every window", OUR_MATCHER),
            ("10", "vertices", ", at every size", TWO_VERTICES),
            ("11", "edges", ", with any number of edges", OUR_MATCHER),
        )
    ),
    Figure(
        "12: rules", "CBS-Tree is faster than ToFel, but for 5,000 rules on sparse data", of_forecasts("rules"),
        "cbs-tree", "tofel", OUR_MATCHER, exceptions=among("rules 5000 on intel-lab"), why_no_exception=NO_FIXED_PART,
    ),
)  # fmt: skip

FIGURES: dict[str, tuple[Claim, ...]] = {"cube": CUBE, "nested": NESTED, "aggregates": AGGREGATES, "forecast": FORECAST}


def judged(workload: str, lines: Iterable[Line]) -> list[str]:
    """A sentence for every figure of a workload: what is printed, and whether it is so here."""
    lines = list(lines)
    return [f"- **{figure.name}**: printed, {figure.printed}. {figure.here(lines)}" for figure in FIGURES.get(workload, ())]
