"""The experiments of the two papers on nested queries, on the stock trace they used: every strategy, in one run, answers compared.

From the paper on iterative execution: more children (q1 to q3), longer ones (q4 to q6), deeper ones (q7 to q9), and q10 by window.
From the paper on sliding views: windows of 100, 500 and 1000 with positive and negated children, longer and more positive children,
longer negated ones, a correlated equality of rising selectivity (with views that are divided by its values, and without), and the
memory of the views. The figures that hold that paper's queries are lost in its text; these have the shapes that its words describe.
Its rival, "rewriting", takes part wherever a query has a flat form (`bench.rewriting`).

As in the papers, 10,000 events are used. Windows are counted in events, since the trace is as fast at its peak as it is slow before
the market opens, and time is the order in which trades came: the papers' engines know no two events of one time. Every query
returns two columns, so that building matches is measured and not the writing of wide tables; answers are compared by their number
and by the sums of both columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.compute as pc

import seqube as sq
from bench.charts import finding
from bench.data import stock_trace
from bench.measure import Measurement, compare
from bench.rewriting import rewritten
from seqube.engine.instances import Batch
from seqube.engine.views.iterative import NestedEvaluation
from seqube.engine.views.tables import Tables
from seqube.language import parse
from seqube.plan.optimizer import plan_query
from seqube.plan.physical import MatchPlan

if TYPE_CHECKING:
    import altair

WORKLOAD = "nested"
N_EVENTS = 10_000
VIEWS = ("aggressive", "passive", "balanced")
STRATEGIES = ("iterative", *VIEWS, "auto")  # the first is what the others are compared with
REWRITING = "rewriting"
WINDOWS = (100, 500, 1000)
CORRELATION = "values of a correlated attribute"


@dataclass(frozen=True)
class Experiment:
    """One thing is varied: the pattern, or the window where there are several."""

    title: str
    patterns: dict[str, str]
    windows: tuple[int, ...]
    quick_windows: tuple[int, ...]


def by_pattern(title: str, window: int, patterns: dict[str, str]) -> Experiment:
    """Iterative execution takes up to a minute for the longest of these; at half the window, a second."""
    return Experiment(title, patterns, (window,), (window // 2,))


def by_window(title: str, pattern: str, windows: tuple[int, ...] = WINDOWS) -> Experiment:
    return Experiment(title, {"": pattern}, windows, windows[:-1])


# The iterative paper's window of 10 ms is one of 300 events here, which gives its queries results.
EXPERIMENTS = (
    by_pattern(
        "number of negated children",
        300,
        {
            "1 (q1)": "SEQ(MSFT, !SEQ(RIMM, AMAT), ORCL, IPIX, INTC)",
            "2 (q2)": "SEQ(MSFT, !SEQ(RIMM, AMAT), ORCL, !SEQ(YHOO, DELL), IPIX, INTC)",
            "3 (q3)": "SEQ(MSFT, !SEQ(RIMM, AMAT), ORCL, !SEQ(YHOO, DELL), IPIX, !SEQ(CSCO, QQQ), INTC)",
        },
    ),
    by_pattern(
        "length of a negated child",
        300,
        {
            "2 (q4)": "SEQ(MSFT, !SEQ(RIMM, AMAT), ORCL, INTC)",
            "3 (q5)": "SEQ(MSFT, !SEQ(RIMM, AMAT, YHOO), ORCL, INTC)",
            "4 (q6)": "SEQ(MSFT, !SEQ(RIMM, AMAT, YHOO, DELL), ORCL, INTC)",
        },
    ),
    by_pattern(
        "depth of a negated child",
        300,
        {
            "1 (q7)": "SEQ(MSFT, !SEQ(IPIX, QQQ), ORCL, INTC)",
            "2 (q8)": "SEQ(MSFT, !SEQ(IPIX, SEQ(RIMM, AMAT), QQQ), ORCL, INTC)",
            "3 (q9)": "SEQ(MSFT, !SEQ(IPIX, SEQ(RIMM, SEQ(YHOO, DELL), AMAT), QQQ), ORCL, INTC)",
        },
    ),
    by_window("q10", "SEQ(YHOO, SEQ(QQQ, AMAT, DELL), ORCL, IPIX)", (100, 200, 300)),
    by_window("positive SEQ", "SEQ(YHOO, SEQ(QQQ, AMAT), IPIX)"),
    by_window("positive AND", "SEQ(YHOO, AND(QQQ, AMAT), IPIX)"),
    by_window("negated SEQ", "SEQ(MSFT, !SEQ(RIMM, AMAT), ORCL, IPIX)"),
    by_window("negated AND", "SEQ(MSFT, !AND(RIMM, AMAT), ORCL, IPIX)"),
    by_window("correlated", "SEQ(MSFT, !SEQ(RIMM r, AMAT a, r.side = MSFT.side), ORCL, IPIX)"),
    by_pattern(
        "length of a positive child",
        500,
        {
            "2": "SEQ(YHOO, SEQ(QQQ, AMAT), IPIX)",
            "3": "SEQ(YHOO, SEQ(QQQ, AMAT, DELL), IPIX)",
            "4": "SEQ(YHOO, SEQ(QQQ, AMAT, DELL, CSCO), IPIX, YHOO.shares = IPIX.shares)",
        },
    ),
    by_pattern(
        "number of positive children",
        500,
        {
            "1": "SEQ(YHOO, AND(QQQ, AMAT), IPIX)",
            "2": "SEQ(YHOO, AND(QQQ, AMAT), MSFT, AND(ORCL, YHOO y), IPIX, MSFT.shares = IPIX.shares)",
            "3": "SEQ(AND(RIMM, DELL), YHOO, AND(QQQ, AMAT), MSFT, AND(ORCL, CSCO), IPIX, "
            "YHOO.shares = MSFT.shares = IPIX.shares, YHOO.side = MSFT.side = IPIX.side)",
        },
    ),
    by_pattern(
        "length of a negated child, longest interval",
        500,
        {
            "2": "SEQ(MSFT, !SEQ(RIMM, AMAT), ORCL, IPIX)",
            "3": "SEQ(MSFT, !SEQ(RIMM, AMAT, QQQ), ORCL, IPIX)",
            "4": "SEQ(MSFT, !SEQ(RIMM, AMAT, QQQ, DELL), ORCL, IPIX)",
        },
    ),
)
CORRELATED = "SEQ(MSFT, AND(QQQ q, AMAT a, q.key = MSFT.key), IPIX)"
DOMAINS = (1, 4, 16, 64)


def query(pattern: str, window: int) -> str:
    """The pattern with a window, returning the times of two of its events."""
    first, last = "YHOO" if "YHOO," in pattern and "MSFT, !" not in pattern else "MSFT", "INTC" if "INTC" in pattern else "IPIX"
    return f"PATTERN {pattern} WITHIN {window} EVENTS RETURN {first}.ts AS begin_ts, {last}.ts AS end_ts"


def measurements(quick: bool = False) -> Iterator[Measurement]:
    trace = stock_trace()
    if trace is None:
        return
    trace = trace.select(["seq", "ticker", "price", "shares", "side"]).rename_columns({"seq": "ts"})
    table = trace.slice(0, N_EVENTS)
    events = sq.Events(table, type="ticker", time="ts")
    pace = {"repetitions": 3, "once_above_s": 0.25} if quick else {"repetitions": 5, "once_above_s": 5.0}
    for strategy in STRATEGIES:  # compiled before anything is timed
        for window in (20, 40):
            run(query(CORRELATED.replace("key", "side"), window), events, strategy)
    measured: list[Measurement] = []
    for task, about, text, stream in tasks(table, events, quick):
        runs: dict[str, Callable[[], Any]] = {name: partial(run, text, stream, name) for name in STRATEGIES}
        if (flat := rewritten(text)) is not None:
            runs[REWRITING] = partial(run_each, flat, stream)
        if about["experiment"] == CORRELATION:
            runs |= {f"{name}, not divided": partial(run_undivided, text, stream, name) for name in VIEWS}
        for m in compare(WORKLOAD, task, len(stream), runs, judge=summary, **pace):  # type: ignore[arg-type]
            measured.append(replace(m, about=about))
            yield measured[-1]
    for m in beside_the_outer_query(sq.Events(trace, type="ticker", time="ts"), 9 if quick else 25):
        measured.append(m)
        yield m
    yield from memory(events)
    yield from in_short(measured)


def tasks(table: pa.Table, events: sq.Events, quick: bool) -> Iterator[tuple[str, dict[str, Any], str, sq.Events]]:
    """What is run: a name, what is varied in it, the query, the events."""
    for experiment in EXPERIMENTS:
        windows = experiment.quick_windows if quick else experiment.windows
        for varied, pattern in experiment.patterns.items():
            for window in windows:
                about = {"experiment": experiment.title, "value": varied or str(window), "window": window}
                yield ", ".join(filter(None, (experiment.title, varied, f"window {window}"))), about, query(pattern, window), events
    for n_values in DOMAINS:
        keys = pa.array([row * 7919 % n_values for row in range(len(table))])
        keyed = sq.Events(table.append_column("key", keys), type="ticker", time="ts")
        about = {"experiment": CORRELATION, "value": str(n_values), "window": 500}
        yield f"{n_values} {CORRELATION}, window 500", about, query(CORRELATED, 500), keyed


def run(text: str, events: sq.Events, strategy: str) -> pa.Table:
    return sq.run(text, events, strategy=strategy).table


def run_each(texts: Sequence[str], events: sq.Events) -> pa.Table:
    return pa.concat_tables(run(text, events, "auto") for text in texts)


def run_undivided(text: str, events: sq.Events, strategy: str) -> pa.Table:
    """With views that hold the results for all values of what is correlated, which is asked when they are used."""
    with patch.object(Tables, "_divides", lambda *_: False):
        return run(text, events, strategy)


def summary(table: pa.Table) -> tuple[int, ...]:
    sums = (pc.sum(column.cast(pa.int64())).as_py() or 0 for column in table.columns)
    return (len(table), *(int(total) % 1_000_003 for total in sums))


def beside_the_outer_query(events: sq.Events, repetitions: int) -> Iterator[Measurement]:
    """What negated children cost beside the outer query alone, over the whole trace; answers differ, only times are compared."""
    children = {
        "one negated child": "SEQ(MSFT, !SEQ(RIMM, AMAT), ORCL, IPIX)",
        "two negated children": "SEQ(MSFT, !SEQ(RIMM, AMAT), ORCL, !AND(CSCO, QQQ), IPIX)",
    }
    for number, nested in children.items():
        for window in (50, 100, 200):
            runs = {
                "outer query alone": partial(run, query("SEQ(MSFT, ORCL, IPIX)", window), events, "latest-start"),
                "latest-start": partial(run, query(nested, window), events, "latest-start"),
            }
            task = f"{number} beside none, window {window}"
            yield from compare(WORKLOAD, task, len(events), runs, repetitions, judge=lambda table: len(table) > 0)


def memory(events: sq.Events) -> Iterator[Measurement]:
    """The most that the views of a query held at any time, in kilobytes; iterative has none."""
    patterns = {experiment.title: experiment.patterns.get("") for experiment in EXPERIMENTS}
    for title in ("positive AND", "negated AND"):
        for window in WINDOWS:
            for strategy in VIEWS:
                kilobytes = peak_kilobytes(f"PATTERN {patterns[title]} WITHIN {window} EVENTS", events, strategy)
                note = f"{kilobytes:,.0f} kB of views"
                about = {"experiment": f"memory, {title}", "value": str(window), "kilobytes": kilobytes}
                task = f"memory, {title}, window {window}"
                yield Measurement(WORKLOAD, task, strategy, len(events), note, right=True, note=note, about=about)


def peak_kilobytes(text: str, events: sq.Events, strategy: str) -> float:
    plan = plan_query(parse(text), strategy=strategy)
    assert isinstance(plan, MatchPlan)
    clocks = pa.array(range(len(events))).to_numpy()
    evaluation = NestedEvaluation(plan, Batch(events, plan.window.length, clocks))
    for _ in evaluation.matches():
        pass
    return evaluation.peak_words * 8 / 1024


def in_short(measured: Sequence[Measurement]) -> Iterator[Measurement]:
    """What all of it comes to, at its worst and at its best."""
    contests: dict[str, dict[str, float]] = {}
    for m in measured:
        contests.setdefault(m.task, {})[m.contender] = m.cpu_s or float("nan")
    compared = {task: times for task, times in contests.items() if "auto" in times}
    window = max(m.about["window"] for m in measured if m.task in compared)
    largest = {task: times["iterative"] / times["auto"] for task, times in compared.items() if task.endswith(f", window {window}")}
    behind = {task: times["auto"] / min(times[name] for name in VIEWS) for task, times in compared.items()}
    beside = {
        task: times["latest-start"] / times["outer query alone"] for task, times in contests.items() if "latest-start" in times
    }
    for contender, ratios in (
        ("iterative / auto, at the largest window", largest),
        ("auto / the best of the three views", behind),
        ("latest-start / the outer query alone", beside),
    ):
        low, high = min(ratios, key=ratios.__getitem__), max(ratios, key=ratios.__getitem__)
        note = f"{ratios[low]:.3g} ({low}) to {ratios[high]:.3g} ({high}), by CPU time"
        yield Measurement(WORKLOAD, "in short", contender, N_EVENTS, note, right=True, note=note)


# ---------------------------------------------------------------- plots


def draw(measured: Sequence[Measurement]) -> altair.ConcatChart:
    """Plots like those of the papers: CPU time, and memory of the views, against what was varied: lines, or bars by query."""
    import altair as alt

    times = [_point(m, "CPU ms", 1000 * m.cpu_s) for m in measured if m.about and m.cpu_s is not None]
    sizes = [_point(m, "kB of views", m.about["kilobytes"]) for m in measured if "kilobytes" in m.about]
    charts = []
    for points, unit in ((times, "CPU ms"), (sizes, "kB of views")):
        for title in dict.fromkeys(point["experiment"] for point in points):
            here = _of(points, title)
            are_numbers = all(str(point["value"]).isdecimal() for point in here)
            shown = [
                {"contender": p["strategy"], "x": float(p["value"]) if are_numbers else p["value"], "y": p[unit]} for p in here
            ]
            data = alt.Chart(alt.InlineData(here), title=alt.Title(title, subtitle=finding(shown, categories=not are_numbers)))
            drawn = (
                data.mark_line(point=True) if are_numbers else data.mark_bar().encode(xOffset=alt.XOffset("strategy:N", sort=None))
            )
            chart = drawn.encode(
                x=alt.X("value:N", sort=None, title=None, axis=alt.Axis(labelAngle=0)),
                y=alt.Y(f"{unit}:Q", scale=alt.Scale(type="log"), stack=None),
                color=alt.Color("strategy:N", sort=[*STRATEGIES, REWRITING]),
                tooltip=["strategy:N", "value:N", alt.Tooltip(f"{unit}:Q", format=",.3g")],
            ).properties(width=230, height=150)
            charts.append(chart)
    return alt.concat(*charts, columns=3)


def _point(m: Measurement, unit: str, value: float) -> dict[str, Any]:
    return {"experiment": m.about["experiment"], "value": m.about["value"], "strategy": m.contender, unit: value}


def _of(points: Iterable[dict[str, Any]], title: str) -> list[dict[str, Any]]:
    return [point for point in points if point["experiment"] == title]
