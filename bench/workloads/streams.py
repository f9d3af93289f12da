"""What a step of a stream costs, by the window: batches of 1,000 events, and windows of a thousand to a million of them.

A stream that goes on costs what is new, so the cost of a step should not depend on the window. The window is filled first; then
steps are timed one by one, by CPU, and the median is what counts. There are as many keys as it takes for a step to find a few
matches whatever the window, so that only what is kept differs. All rows that come out, from the first step to the end of the
stream, must be as many as one run over the whole stream gives. For another query there is one more row in `CASES`.

Nested queries by their views look at every pair of outer events, and store what they compute, by nature; so for them a trigger is
one event in a hundred, and a window has a few of each other part, whatever its length. Forecasts have 10,000 rules, of
which what comes first is never so rare that the shortest window is without it: else a longer one had more to predict.

A workload shares: matches of queries are made from those of coarser or finer ones.

What does not go on evaluates its window again at every step: that is measured too, with windows that are not as long (`REPLAYED`).

Beside it: one event at a time, to the operator and to `sq.Stream`, Q-a as events per second, the memory of views over time, and
that of A-Seq's counters, by the length of the pattern and by the window (the thesis' Figures 5.1b and 5.2b).
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

import seqube as sq
from bench.measure import Measurement, spread
from bench.view_memory import draw_memory, follow_memory
from bench.workloads.matching import QUERIES, SEED
from seqube.engine.ecube.adaptation import SharedMatcher
from seqube.engine.operator import Operator, open_plan
from seqube.generate import generate
from seqube.language import parse
from seqube.plan.strategies import LOOPS
from seqube.predict.forecasts import Forecaster
from seqube.query import prepare

WORKLOAD = "streams"
BATCH = 1_000
WINDOWS = (1_000, 10_000, 100_000, 1_000_000)
TYPES = list("ABCDEFGH")


@dataclass(frozen=True)
class Case:
    """A query over a window, how many events of the window there are for every key, and how it is asked to be evaluated."""

    text: str
    events_per_key: float = 1.0
    strategy: str = "auto"


CASES = {
    "keyed SEQ of three": Case("SEQ(A a, B b, C c, [id]) WITHIN {window}"),
    "keyed SEQ, window of events": Case("SEQ(A a, B b, C c, [id]) WITHIN {window} EVENTS"),
    "partitioned SEQ": Case("PATTERN SEQ(A a, B b, C c) PARTITION BY id WITHIN {window}"),
    "SEQ with a comparison": Case("SEQ(A a, B b, C c, [id], b.x > a.x * 1.05) WITHIN {window}"),
    "negation between": Case("SEQ(A a, !B b, C c, [id]) WITHIN {window}", 0.1),
    "negation before": Case("SEQ(!A a, B b, C c, [id]) WITHIN {window}", 0.1),
    "negation after": Case("SEQ(A a, B b, !C c, [id]) WITHIN {window}", 0.1),
    "negated sub-query, latest-start": Case("SEQ(A a, !SEQ(B b, C c), D d, [id]) WITHIN {window}", 0.1, "latest-start"),
    "COUNT": Case("SEQ(A a, B b, C c) WITHIN {window} AGG COUNT(*)", strategy="window-product"),
    "keyed COUNT": Case("SEQ(A a, B b, C c, [id]) WITHIN {window} AGG COUNT(*)", strategy="window-product"),
    "SUM": Case("SEQ(A a, B b, C c) WITHIN {window} AGG SUM(b.x)", strategy="window-product"),
    "COUNT with a negation": Case("SEQ(A a, !D d, B b, C c) WITHIN {window} AGG COUNT(*)", strategy="window-product"),
}
REPLAYED = {  # a step costs the window, with PARTITION BY that of the partitions which have new events
    "AND": Case("AND(A a, B b, C c, [id]) WITHIN {window}"),
    "OR": Case("OR(SEQ(A a, B b, [id]), SEQ(C c, D d, [id])) WITHIN {window}"),
    "sub-query that is returned": Case("SEQ(A a, AND(B b, C c), D d, [id]) WITHIN {window}"),
    "repetition": Case("SEQ(A a, B+ b, C c, [id]) WITHIN {window}"),
    "NEXT": Case("NEXT(A a, B b, C c, [id]) WITHIN {window}"),
    "STRICT": Case("STRICT(A a, B b, C c) PARTITION BY id WITHIN {window}"),
    "ORDER BY": Case("SEQ(A a, B b, C c, [id]) ORDER BY x WITHIN {window}"),
    "negated sub-query, balanced, partitioned": Case(
        "SEQ(A a, !SEQ(B b, C c), D d) PARTITION BY id WITHIN {window}", 0.1, "balanced"
    ),
    "COUNT by two-step": Case("SEQ(A a, B b, C c, [id]) WITHIN {window} AGG COUNT(*)", strategy="two-step"),
}
REPLAYED_WINDOWS = WINDOWS[:3]
NESTED = "SEQ(A a, !SEQ(B b, C c), D d) WITHIN {window}"
CONCEPTS = sq.Hierarchy.from_dict({"P": ["A", "B"], "Q": ["C", "D"]})
MATCHED = {
    "wide": "SEQ(P a, Q b, [id]) WITHIN {window}",
    "fine": "SEQ(A a, C b, [id]) WITHIN {window}",
    "between": "SEQ(A a, F f, C b, [id]) WITHIN {window}",
    "longer": "SEQ(A a, C b, E c, [id]) WITHIN {window}",
}
N_RULES = 10_000
N_CAUSES, N_ENDS = 50, 200  # kinds of events that rules name


def measurements(quick: bool = False) -> Iterator[Measurement]:
    n_steps = 60 if quick else 400
    for name, case in CASES.items():
        yield from by_window(partial(stepped, name, case), n_steps)
    for measure, strategies in (
        (nested, LOOPS),
        (foreseen, ("index", "cbs-tree")),
        (matched_together, ("top-down", "bottom-up")),
    ):
        for strategy in strategies:
            yield from by_window(partial(measure, strategy), n_steps)
    for name, case in REPLAYED.items():
        yield from by_window(partial(stepped, name, case), n_steps // 6, REPLAYED_WINDOWS)
    yield from one_at_a_time(1_000_000, 2_000 if quick else 20_000)
    yield from trades(200_000 if quick else 2_000_000)
    yield from follow_memory(WORKLOAD)
    yield from counters(20_000 if quick else 200_000)


def by_window(measure: Callable[[int, int], Measurement], n_steps: int, windows: Sequence[int] = WINDOWS) -> Iterator[Measurement]:
    """One query with each window; the last one says what its step costs beside one of the first."""
    found = [measure(window, n_steps) for window in windows]
    if found[0].cpu_s and found[-1].cpu_s:
        note = f"a step costs {found[-1].cpu_s / found[0].cpu_s:.2f} times one of {found[0].contender}"
        found[-1] = replace(found[-1], note=note)
    yield from found


def stream(n: int, n_keys: int) -> pa.Table:
    """An event for every tick."""
    random = np.random.default_rng(SEED)
    types = pa.DictionaryArray.from_arrays(pa.array(random.integers(0, len(TYPES), n)), TYPES).cast(pa.string())
    return pa.table({"type": types, "ts": np.arange(n), "id": random.integers(0, n_keys, n), "x": random.random(n)})


def stepped(name: str, case: Case, window: int, n_steps: int) -> Measurement:
    table = stream(window + n_steps * BATCH, max(1, round(window / case.events_per_key)))
    text = case.text.format(window=window)
    whole = sq.Events(table)
    operator = open_plan(prepare(text, whole, strategy=case.strategy))
    return in_steps(
        name, operator, table, window, n_steps, lambda: sq.run(text, whole, strategy=case.strategy, threads=1).table.num_rows
    )


def nested(strategy: str, window: int, n_steps: int) -> Measurement:
    """A negated sub-query by one of the published strategies."""
    random = np.random.default_rng(SEED)
    chance = random.random(window + n_steps * BATCH)
    types = np.full(len(chance), "X")
    types[chance < 0.01] = "D"
    for name, at in (("A", 0.2), ("B", 0.4), ("C", 0.6)):
        types[(chance >= at) & (chance < at + 4 / window)] = name
    table = pa.table({"type": types, "ts": np.arange(len(chance))})
    text, whole = NESTED.format(window=window), sq.Events(table)
    operator = open_plan(prepare(text, whole, strategy=strategy))
    return in_steps(
        f"negated sub-query, {strategy}", operator, table, window, n_steps, lambda: sq.run(text, whole, threads=1).table.num_rows
    )


def foreseen(strategy: str, window: int, n_steps: int) -> Measurement:
    """Predictions by many rules, of four kinds of events each, of which the last is rare."""
    random = np.random.default_rng(SEED)
    causes, ends = np.array([f"e{i}" for i in range(N_CAUSES)]), np.array([f"f{i}" for i in range(N_ENDS)])
    rules = []
    for number in range(N_RULES):
        (a, b, c), d = random.permutation(causes)[:3], random.choice(ends)
        predicate = f"{a} -> {b} -> {c} -> {d}" if number % 2 else f"{a}, {b}, {c} -> {d}"
        rules.append(sq.Rule(predicate, "next", window, window + 10, 0.5, f"rule {number}"))
    n, weights = window + n_steps * BATCH, 1 / np.arange(10, N_CAUSES + 10)
    types = np.where(random.random(n) < 0.05, random.choice(ends, n), random.choice(causes, n, p=weights / weights.sum()))
    table = pa.table({"type": types, "ts": np.arange(n)})
    operator = Forecaster(sq.Rules(rules), sq.Events(table).schema, strategy=strategy)
    name = f"{N_RULES:,} rules, {strategy}"
    return in_steps(name, operator, table, window, n_steps, lambda: len(sq.forecast(rules, table).table))


def matched_together(strategy: str, window: int, n_steps: int) -> Measurement:
    """Queries whose matches are made from each other's."""
    table = stream(window + n_steps * BATCH, window)
    texts = {name: text.format(window=window) for name, text in MATCHED.items()}
    operator = SharedMatcher({name: parse(text) for name, text in texts.items()}, CONCEPTS, strategy)
    whole = sq.Events(table)
    name = f"{len(texts)} keyed SEQs, {strategy}"
    return in_steps(
        name, operator, table, window, n_steps, lambda: sum(len(sq.run(text, whole, hierarchy=CONCEPTS)) for text in texts.values())
    )


def in_steps(
    name: str, operator: Operator[Any, Any], table: pa.Table, window: int, n_steps: int, expected: Callable[[], int]
) -> Measurement:
    """The median step of a stream whose window is full."""
    state, n_rows = operator.start(), 0
    batches = [sq.Events(table.slice(start, BATCH)) for start in range(0, len(table), BATCH)]
    walls, cpus = [], []
    for batch in batches:
        wall, cpu = time.perf_counter(), time.process_time()
        state, rows = operator.step(state, batch)
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
        n_rows += _count(rows)
    n_bytes, n_kept = state.n_bytes, state.n_kept
    rest = operator.finish(state)[1]
    n_rows += _count(rest)
    if n_rows != (whole := expected()):
        return Measurement(WORKLOAD, name, f"window {window:,}", BATCH, n_rows, right=False, note=f"a whole run has {whole:,}")
    about = {"window": window, "kept": n_kept, "bytes": n_bytes, "mean_s": statistics.mean(cpus[-n_steps:])}
    return _timed(name, f"window {window:,}", BATCH, n_rows, walls[-n_steps:], cpus[-n_steps:], about)


def _count(rows: pa.Table | dict[str, pa.Table] | None) -> int:
    """The rows of a table, or of those of several queries."""
    return 0 if rows is None else sum(map(len, rows.values())) if isinstance(rows, dict) else len(rows)


def _timed(
    task: str, contender: str, events: int, answer: int, walls: list[float], cpus: list[float], about: dict[str, Any]
) -> Measurement:
    return Measurement(
        WORKLOAD,
        task,
        contender,
        events,
        answer,
        right=True,
        wall_s=statistics.median(walls),
        spread_s=spread(walls),
        cpu_s=statistics.median(cpus),
        repetitions=len(walls),
        about=about,
    )


def one_at_a_time(window: int, n_events: int) -> Iterator[Measurement]:
    """A keyed SEQ of three, an event at a time: the operator alone, and `push` of a dictionary."""
    text = CASES["keyed SEQ of three"].text.format(window=window)
    table = stream(window + n_events, window)
    filled, single = table.slice(0, window), [table.slice(row, 1) for row in range(window, len(table))]
    operator = open_plan(prepare(text, sq.Events(filled)))
    state, _ = operator.step(operator.start(), sq.Events(filled))

    def step(event: sq.Events) -> int:
        nonlocal state
        state, rows = operator.step(state, event)
        return len(rows)

    live = sq.Stream(text, columns=table.schema)
    live.push(filled)

    def push(event: dict[str, Any]) -> int:
        return sum(map(len, live.push(event).values()))

    for contender, feed in (
        ("the operator", [partial(step, sq.Events(event)) for event in single]),
        ("sq.Stream.push of a dictionary", [partial(push, event.to_pylist()[0]) for event in single]),
    ):
        yield _each("one event at a time", contender, feed, window)


def _each(task: str, contender: str, feed: list[Callable[[], int]], window: int) -> Measurement:
    """Calls that are too short to be timed one by one: a hundred at a time."""
    walls, cpus, n_rows = [], [], 0
    for start in range(0, len(feed), 100):
        wall, cpu = time.perf_counter(), time.process_time()
        for call in feed[start : start + 100]:
            n_rows += call()
        walls.append((time.perf_counter() - wall) / 100)
        cpus.append((time.process_time() - cpu) / 100)
    return _timed(task, contender, 1, n_rows, walls, cpus, {"window": window})


def trades(n_events: int) -> Iterator[Measurement]:
    """Q-a over made-up trades, in batches of 1,000, with `Events` made of each."""
    table = generate("stock", n_events, SEED)
    plan = prepare(QUERIES["a"], sq.Events(table))
    operator = open_plan(plan)
    batches = [table.slice(start, BATCH) for start in range(0, n_events, BATCH)]
    walls, cpus = [], []
    for _ in range(4):  # the first one warms up
        state, n_rows = operator.start(), 0
        wall, cpu = time.perf_counter(), time.process_time()
        for batch in batches:
            state, rows = operator.step(state, sq.Events(batch))
            n_rows += len(rows)
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
    yield _timed("Q-a in batches of 1,000", "seqube", n_events, n_rows, walls[1:], cpus[1:], {})


def counters(n_events: int) -> Iterator[Measurement]:
    """What A-Seq's counters take over time, by the length of the pattern and by the window; beside them, the products."""
    events = sq.Events(stream(n_events, 1))
    varied = [("length", n, ", ".join(TYPES[:n]), 100) for n in range(2, 6)]
    varied += [("window", window, ", ".join(TYPES[:3]), window) for window in range(100, 501, 100)]
    for what, value, parts, window in varied:
        for strategy in ("per-start", "window-product"):
            operator = open_plan(prepare(f"SEQ({parts}) WITHIN {window} AGG COUNT(*)", events, strategy=strategy))
            state, n_rows, sizes = operator.start(), 0, []
            for start in range(0, n_events, 100):
                state, rows = operator.step(state, events.slice(start, start + 100))
                n_rows += len(rows)
                if start % (n_events // 20) == 0:
                    sizes.append((start, len(state.to_bytes())))
            about = {"varied": what, "value": value, "sizes": sizes}
            peak = max(size for _, size in sizes)
            note = f"at most {peak:,} bytes of counters"
            yield Measurement(
                WORKLOAD, f"memory by {what}: {value}", strategy, n_events, n_rows, right=True, note=note, about=about
            )


def draw(measured: list[Measurement]) -> Any:
    """CPU time of a step against the window, a line for each query: flat is what is wanted; and the counters' memory over time."""
    import altair as alt

    sizes = [
        {"varied": f"by {m.about['varied']}, {m.contender}", "value": str(m.about["value"]), "event": event, "bytes": size}
        for m in measured
        if "sizes" in m.about
        for event, size in m.about["sizes"]
    ]
    memory = (
        alt.Chart(alt.InlineData(sizes))
        .mark_line()
        .encode(
            x=alt.X("event:Q", axis=alt.Axis(format="~s")),
            y=alt.Y("bytes:Q", title="bytes of the state"),
            color=alt.Color("value:N", sort=None),
        )
        .properties(width=250, height=160)
        .facet("varied:N", columns=2, title="Counters over time (the thesis' Figures 5.1b and 5.2b)")
    )
    rows = [
        {"query": m.task, "window": m.about["window"], "CPU ms per step": 1e3 * m.cpu_s}
        for m in measured
        if m.cpu_s and m.events == BATCH and m.task not in REPLAYED
    ]
    widest = {row["query"]: [r["CPU ms per step"] for r in rows if r["query"] == row["query"]] for row in rows}
    most = max((max(costs) / min(costs) for costs in widest.values()), default=1.0)
    said = f"whatever the window, no query's dearest step costs more than {most:.2g} times its cheapest"
    steps = (
        alt.Chart(alt.InlineData(rows))
        .mark_line(point=True)
        .encode(
            x=alt.X("window:Q", scale=alt.Scale(type="log"), title="events in the window", axis=alt.Axis(format="~s")),
            y=alt.Y("CPU ms per step:Q", scale=alt.Scale(type="log")),
            color=alt.Color("query:N", sort=None, title=None, scale=alt.Scale(scheme="tableau20")),
            tooltip=["query:N", "window:Q", alt.Tooltip("CPU ms per step:Q", format=",.3f")],
        )
        .properties(width=560, height=320, title=alt.Title("A step of 1,000 events, by the window", subtitle=said))
    )
    charts = [steps, *([memory] if sizes else []), *draw_memory(measured)]
    return alt.vconcat(*charts).resolve_scale(color="independent")
