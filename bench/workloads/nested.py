"""The experiments of the two papers on nested queries, on the stock trace they used: every strategy, in one run, answers compared.

From the paper on iterative execution: more children (q1 to q3), longer ones (q4 to q6), deeper ones (q7 to q9), and q10 by window.
From the paper on sliding views: windows of 100, 500 and 1000 with positive and negated children, longer and more positive children,
longer negated ones, a correlated equality of rising selectivity, and the memory of the views. The figures that hold that paper's
queries are lost in its text; these have the shapes that its words describe.

As in the papers, 10,000 events are used. Windows are counted in events, since the trace is as fast at its peak as it is slow before
the market opens. Every query returns two columns, so that building matches is measured and not the writing of wide tables.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

import seqube as sq
from bench.measure import Measurement, compare
from seqube.engine.instances import Batch
from seqube.engine.nesting.iterative import NestedEvaluation
from seqube.language import parse
from seqube.plan.planner import plan_matches

if TYPE_CHECKING:
    import altair

WORKLOAD = "nested"
DATA = Path(os.environ.get("SEQUBE_DATA") or Path(__file__).resolve().parents[2].parent / "shared" / "data")
N_EVENTS = 10_000
STRATEGIES = ("iterative", "aggressive", "passive", "balanced", "auto")  # the first is what the others are compared with
WINDOWS = (100, 500, 1000)

# The iterative paper's queries; its window of 10 ms is one of 300 events here, which gives its queries results.
ITERATIVE = {
    "children, 1 (q1)": "SEQ(MSFT, !SEQ(RIMM, AMAT), ORCL, IPIX, INTC)",
    "children, 2 (q2)": "SEQ(MSFT, !SEQ(RIMM, AMAT), ORCL, !SEQ(YHOO, DELL), IPIX, INTC)",
    "children, 3 (q3)": "SEQ(MSFT, !SEQ(RIMM, AMAT), ORCL, !SEQ(YHOO, DELL), IPIX, !SEQ(CSCO, QQQ), INTC)",
    "length, 2 (q4)": "SEQ(MSFT, !SEQ(RIMM, AMAT), ORCL, INTC)",
    "length, 3 (q5)": "SEQ(MSFT, !SEQ(RIMM, AMAT, YHOO), ORCL, INTC)",
    "length, 4 (q6)": "SEQ(MSFT, !SEQ(RIMM, AMAT, YHOO, DELL), ORCL, INTC)",
    "depth, 1 (q7)": "SEQ(MSFT, !SEQ(IPIX, QQQ), ORCL, INTC)",
    "depth, 2 (q8)": "SEQ(MSFT, !SEQ(IPIX, SEQ(RIMM, AMAT), QQQ), ORCL, INTC)",
    "depth, 3 (q9)": "SEQ(MSFT, !SEQ(IPIX, SEQ(RIMM, SEQ(YHOO, DELL), AMAT), QQQ), ORCL, INTC)",
}
BY_WINDOW = {
    "positive SEQ": "SEQ(YHOO, SEQ(QQQ, AMAT), IPIX)",
    "positive AND": "SEQ(YHOO, AND(QQQ, AMAT), IPIX)",
    "negated SEQ": "SEQ(MSFT, !SEQ(RIMM, AMAT), ORCL, IPIX)",
    "negated AND": "SEQ(MSFT, !AND(RIMM, AMAT), ORCL, IPIX)",
    "correlated": "SEQ(MSFT, !SEQ(RIMM r, AMAT a, r.side = MSFT.side), ORCL, IPIX)",
}
AT_500 = {
    "positive length, 2": "SEQ(YHOO, SEQ(QQQ, AMAT), IPIX)",
    "positive length, 3": "SEQ(YHOO, SEQ(QQQ, AMAT, DELL), IPIX)",
    "positive number, 1": "SEQ(YHOO, AND(QQQ, AMAT), IPIX)",
    "positive number, 2": "SEQ(YHOO, AND(QQQ, AMAT), MSFT, AND(ORCL, YHOO y), IPIX, MSFT.shares = IPIX.shares)",
    "negated length, 2": "SEQ(MSFT, !SEQ(RIMM, AMAT), ORCL, IPIX)",
    "negated length, 3": "SEQ(MSFT, !SEQ(RIMM, AMAT, QQQ), ORCL, IPIX)",
    "negated length, 4": "SEQ(MSFT, !SEQ(RIMM, AMAT, QQQ, DELL), ORCL, IPIX)",
}
SELECTIVITY = "SEQ(MSFT, AND(QQQ q, AMAT a, q.key = MSFT.key), IPIX)"
DOMAINS = (1, 4, 16, 64)


def load(folder: Path = DATA) -> pa.Table:
    table = pq.read_table(folder / "stock_trace_wpi.parquet").slice(0, N_EVENTS)
    return table.select(["ts", "ticker", "price", "shares", "side"])


def query(pattern: str, window: int) -> str:
    """The pattern with a window, returning the times of its first and last event."""
    first, last = pattern.removeprefix("SEQ(").split(",")[0], "INTC" if "INTC" in pattern else "IPIX"
    return f"PATTERN {pattern} WITHIN {window} EVENTS RETURN {first}.ts AS begin_ts, {last}.ts AS end_ts"


def measurements(quick: bool = False) -> Iterator[Measurement]:
    repetitions = 3  # of seconds each, where views are at their worst
    table = load()
    events = sq.Events(table, type="ticker", time="ts")
    for task, pattern in ITERATIVE.items():
        yield from _compare(task, query(pattern, 300), events, repetitions)
    for window in WINDOWS[: 2 if quick else 3]:
        for task, pattern in BY_WINDOW.items():
            yield from _compare(f"{task}, window {window}", query(pattern, window), events, repetitions)
    for task, pattern in AT_500.items():
        if not (quick and task == "positive length, 3"):
            yield from _compare(task, query(pattern, 500), events, repetitions)
    for n_values in DOMAINS:
        keys = pa.array([row * 7919 % n_values for row in range(len(table))])
        keyed = sq.Events(table.append_column("key", keys), type="ticker", time="ts")
        yield from _compare(f"selectivity, {n_values} values", query(SELECTIVITY, 500), keyed, repetitions)
    yield from _beside_the_outer_query(repetitions=repetitions)
    yield from _memory(events)


def _compare(task: str, text: str, events: sq.Events, repetitions: int) -> Iterator[Measurement]:
    runs: dict[str, Callable[[], int]] = {name: partial(_count, text, events, name) for name in STRATEGIES}
    yield from compare(WORKLOAD, task, len(events), runs, repetitions)


def _count(text: str, events: sq.Events, strategy: str) -> int:
    return len(sq.run(text, events, strategy=strategy))


def _beside_the_outer_query(folder: Path = DATA, repetitions: int = 5) -> Iterator[Measurement]:
    """What negated children cost beside the outer query alone, over the whole trace; answers differ, only times are compared."""
    events = sq.Events(pq.read_table(folder / "stock_trace_wpi.parquet"), type="ticker", time="ts")
    outer = "SEQ(MSFT, ORCL, IPIX)"
    children = {"one": "SEQ(MSFT, !SEQ(RIMM, AMAT), ORCL, IPIX)", "two": "SEQ(MSFT, !SEQ(RIMM, AMAT), ORCL, !AND(CSCO, QQQ), IPIX)"}
    for number, nested in children.items():
        for window in (50, 100):
            runs: dict[str, Callable[[], bool]] = {
                "outer query alone": partial(_runs, query(outer, window), events),
                "latest-start": partial(_runs, query(nested, window), events),
            }
            yield from compare(WORKLOAD, f"{number} negated beside none, window {window}", len(events), runs, repetitions)


def _runs(text: str, events: sq.Events) -> bool:
    return len(sq.run(text, events, strategy="latest-start")) > 0


def _memory(events: sq.Events) -> Iterator[Measurement]:
    """The most that the views of a query held at any time, in kilobytes; iterative has none."""
    for task in ("positive AND", "negated AND"):
        for window in WINDOWS:
            text = f"PATTERN {BY_WINDOW[task]} WITHIN {window} EVENTS"
            for strategy in STRATEGIES[1:4]:
                kilobytes = peak_kilobytes(text, events, strategy)
                note = f"{kilobytes:,.0f} kB of views"
                yield replace(
                    Measurement(WORKLOAD, f"memory, {task}, window {window}", strategy, len(events), note, right=True, note=note),
                    about={"kilobytes": kilobytes},
                )


def peak_kilobytes(text: str, events: sq.Events, strategy: str) -> float:
    plan = plan_matches(parse(text), strategy=strategy)
    clocks = pa.array(range(len(events))).to_numpy()
    evaluation = NestedEvaluation(plan, Batch(events, plan.window.length, clocks))
    for _ in evaluation.matches():
        pass
    return evaluation.peak_words * 8 / 1024


# ---------------------------------------------------------------- plots


def draw(measured: Sequence[Measurement]) -> altair.VConcatChart:
    """Plots like those of the papers: CPU time against what was varied, a line per strategy."""
    import altair as alt

    rows = []
    for m in measured:
        name, _, value = m.task.rpartition(", ")
        if m.cpu_s is not None:
            rows.append({"experiment": name, "varied": value, "strategy": m.contender, "CPU ms": 1000 * m.cpu_s})
    charts = [
        alt.Chart(alt.Data(values=[row for row in rows if row["experiment"] == name]), title=name)
        .mark_line(point=True)
        .encode(
            x=alt.X("varied:N", sort=None, title=None),
            y=alt.Y("CPU ms:Q", scale=alt.Scale(type="log")),
            color=alt.Color("strategy:N", sort=list(STRATEGIES)),
        )
        .properties(width=320, height=180)
        for name in dict.fromkeys(row["experiment"] for row in rows)
    ]
    return alt.vconcat(*charts)
