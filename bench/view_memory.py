"""The memory of sliding views over time, as in their paper: Figures 16 and 26 for a positive sub-query, 25 for a negated one.

The figures are lost in the paper's text; these have the shapes that its words describe, over the stock trace that it used.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import seqube as sq
from bench.data import stock_trace
from bench.measure import Measurement
from seqube.engine.matching import Matcher
from seqube.language import parse
from seqube.plan.optimizer import plan_query
from seqube.plan.physical import MatchPlan

N_EVENTS = 10_000
PIECE = 100  # events between two looks
WINDOW = 500  # events
VIEWS = ("aggressive", "passive", "balanced")
SHAPES = {
    "positive sub-query (Figures 16, 26)": "SEQ(MSFT m, AND(RIMM r, AMAT a), ORCL o, IPIX i)",
    "negated sub-query (Figure 25)": "SEQ(MSFT m, !AND(RIMM r, AMAT a), ORCL o, IPIX i)",
}


def follow_memory(workload: str) -> Iterator[Measurement]:
    """What the views of a query hold, in kilobytes: after every piece of the trace, and at most."""
    trace = stock_trace()
    if trace is None:
        return
    events = sq.Events(trace.slice(0, N_EVENTS).select(["ts", "ticker"]), type="ticker", time="ts")
    for shape, pattern in SHAPES.items():
        for strategy in VIEWS:
            held = kilobytes(f"{pattern} WITHIN {WINDOW} EVENTS", events, strategy)
            note = f"{max(held):,.0f} kB at most"
            about = {"figure": shape, "kilobytes": held}
            yield Measurement(workload, f"memory of views, {shape}", strategy, N_EVENTS, note, True, note=note, about=about)


def kilobytes(text: str, events: sq.Events, strategy: str) -> list[float]:
    plan = plan_query(parse(text), strategy=strategy)
    assert isinstance(plan, MatchPlan)
    matcher = Matcher(plan)
    state, held = matcher.start(), []
    for begin in range(0, len(events), PIECE):
        state, _ = matcher.step(state, events.slice(begin, begin + PIECE))
        assert state.views is not None
        held.append(8 * state.views.loops.words / 1024)
    return held


def draw_memory(measured: Sequence[Measurement]) -> list[Any]:
    """A plot for each shape, side by side: kilobytes of views against the events that came; none where the trace is not at hand."""
    import altair as alt

    charts = []
    for shape in SHAPES:
        rows = [
            {"strategy": m.contender, "events": PIECE * (number + 1), "kB": value}
            for m in measured
            if m.about.get("figure") == shape
            for number, value in enumerate(m.about["kilobytes"])
        ]
        lines = alt.Chart(alt.InlineData(rows), title=f"Memory of views, {shape}").mark_line(interpolate="step-after")
        charts.append(
            lines.encode(
                x=alt.X("events:Q", title="events that came"),
                y=alt.Y("kB:Q", title="kB of views"),
                color=alt.Color("strategy:N", sort=list(VIEWS), title=None),
                tooltip=["strategy:N", "events:Q", alt.Tooltip("kB:Q", format=",.0f")],
            ).properties(width=330, height=200)
        )
    return [alt.hconcat(*charts)] if any("figure" in m.about for m in measured) else []
