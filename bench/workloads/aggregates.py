"""The A-Seq thesis' experiments: counting without building matches, for one query and for many, on real trades and generated ones.

Single queries: length 2 to 5, windows, stress (length 6 to 10, two seconds), negation, each by `two-step` (the thesis' state of the
art, here on our own matcher, which is far quicker than the one it was measured against), `per-start` (the thesis' own counters) and
`window-product`. "sweep" goes where matches are many and shows how the ratio to two-step grows with length and window; the thesis
reports 16,736 at length 5. "flat" holds the length and lets the window grow.

Workloads: Chop-Connect over the frequency of the connecting event, the length of the shared piece and the number of queries,
against every query by itself; the optimizer's greedy choice against the exhaustive one on 12 groups of queries; 50 overlapping
queries. 50 of every shape, with a key, are measured with the cubes.

"state" feeds a stream in batches and notes the largest state between them, in bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import seqube as sq
from bench.charts import panels
from bench.data import stock_trace
from bench.measure import Measurement, compare
from seqube.engine.aggregates.aggregation import Aggregator
from seqube.engine.aggregates.sharing import SharedAggregator
from seqube.events import Statistics
from seqube.language import parse
from seqube.plan.aggregates import plan_aggregates
from seqube.plan.measured import Measurements
from seqube.plan.optimizer import optimize
from seqube.plan.sharing import (
    Candidate,
    Counted,
    Frequencies,
    SlotLabel,
    exhaustive,
    find_candidates,
    find_conflicts,
    greedy,
)

if TYPE_CHECKING:
    import altair

WORKLOAD = "aggregates"
PUBLISHED = 16_736  # times two-step, at length 5
SEED = 0
TICKERS = ["DELL", "IPIX", "QQQ", "AMAT", "MSFT", "CSCO", "INTC", "ORCL", "YHOO", "RIMM"]
OTHERS = ["IBM", "FB", "AMAZ", "VMW", "GOOG", "LNKD", "NTAP", "EBAY", "SUNW", "JNPR"]
ALL = ("two-step", "per-start", "window-product")
LONG_S = 1.0  # what takes longer is timed once


def measurements(quick: bool = False) -> Iterator[Measurement]:
    n, repetitions = (400_000, 3) if quick else (2_000_000, 7)
    made = generated(n)
    streams = {"generated": generated(n // 20)}
    if (trace := stock_trace()) is not None:
        streams["real trades"] = sq.Events(trace, type="ticker")
    for name, events in streams.items():
        for length in range(2, 6):
            yield from single(f"length {length}, {name}", TICKERS[:length], 100, events, repetitions, about={"length": length})
        for window in (100, 200, 300, 400, 500):
            yield from single(f"window {window} ms, {name}", TICKERS[:3], window, events, repetitions, about={"window": window})
        for length in (6, 8, 10):
            about = {"length": length}
            yield from single(f"stress, length {length}, {name}", TICKERS[:length], 2_000, events, repetitions, ALL[1:], about)
        for pattern in (["DELL", "IPIX", "AMAT"], ["DELL", "IPIX", "!QQQ", "AMAT"]):
            yield from single(f"negation, ({', '.join(pattern)}), {name}", pattern, 500, events, repetitions)
    yield from sweep(generated(10_000 if quick else 40_000), repetitions, 1_000 if quick else 1_500)
    for window in (100, 2_000, 20_000):
        about = {"window": window}
        yield from single(f"flat, length 3, window {window} ms", TICKERS[:3], window, made, repetitions, ALL[1:], about)
    dense = generated(n, TICKERS[:3])
    for window in (100, 20_000):
        about = {"window": window}
        yield from single(f"flat, every event counts, window {window} ms", TICKERS[:3], window, dense, repetitions, ALL[1:], about)
    yield from chop_connect(n // 20, repetitions)
    yield from optimizer()
    yield from fifty(made, repetitions)
    yield from state(made)


# ---------------------------------------------------------------- data


def generated(n: int, tickers: list[str] | None = None, weights: list[float] | None = None) -> sq.Events:
    """Tickers at random, one event per millisecond."""
    tickers = tickers or TICKERS + OTHERS
    random = np.random.default_rng(SEED)
    codes = random.choice(len(tickers), n, p=weights).astype(np.int32)
    types = pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(tickers))
    return sq.Events(pa.table({"type": types, "ts": np.arange(n)}))


# ---------------------------------------------------------------- one query


def text_of(pattern: list[str], window: int) -> str:
    return f"SEQ({', '.join(pattern)}) WITHIN {window} ms AGG COUNT(*)"


def runner(text: str, events: sq.Events, strategy: str) -> Callable[[], pa.Table]:
    """Runs a query; `digest` makes an answer of its rows, outside of its time."""
    aggregator = Aggregator(replace(plan_aggregates(parse(text)), strategy=strategy))
    return lambda: aggregator.run(events)


def digest(table: pa.Table) -> tuple[int, int]:
    """The number of rows and the sum of all counts, which may leave 64 bits."""
    counts = table.column("count")
    if pa.types.is_decimal(counts.type):
        return len(counts), sum(int(count) for count in counts.to_pylist())
    high, low = pc.shift_right(counts, 32), pc.bit_wise_and(counts, 0xFFFFFFFF)
    return len(counts), ((pc.sum(high).as_py() or 0) << 32) + (pc.sum(low).as_py() or 0)


def single(
    task: str,
    pattern: list[str],
    window: int,
    events: sq.Events,
    repetitions: int,
    strategies: tuple[str, ...] = ALL,
    about: Mapping[str, int] | None = None,
) -> Iterator[Measurement]:
    text = text_of(pattern, window)
    contenders = {name: runner(text, events, name) for name in strategies}
    for measured in compare(WORKLOAD, task, len(events), contenders, repetitions, LONG_S, digest):
        yield replace(measured, about=dict(about or {}))


def sweep(events: sq.Events, repetitions: int, longest: int) -> Iterator[Measurement]:
    """Two-step against window-product where there are many matches."""
    for length in range(2, 6):
        for window in sorted({100, 200, 500, 1_000, longest}):
            about = {"length": length, "window": window}
            task = f"sweep, length {length}, window {window} ms"
            yield from single(task, TICKERS[:length], window, events, repetitions, about=about)


# ---------------------------------------------------------------- many queries


def together(workload: Mapping[str, str], events: sq.Events, strategy: str) -> Callable[[], list[tuple[int, int]]]:
    """Runs a workload by a plan for all of it, made beforehand like those of single queries."""
    queries = {name: parse(text) for name, text in workload.items()}
    planned = optimize(queries, None, Measurements(events.statistics, events.unit), strategy)
    assert planned.counts is not None
    aggregator = SharedAggregator(planned.counts, planned.aggregates)
    return lambda: [digest(table) for table in aggregator.run(events).values()]


def alone(workload: Mapping[str, str], events: sq.Events, strategy: str) -> Callable[[], list[tuple[int, int]]]:
    runs = [runner(text, events, strategy) for text in workload.values()]
    return lambda: [run() for run in runs]


def chop_connect(n: int, repetitions: int) -> Iterator[Measurement]:
    """Queries that end alike: the shared piece is as long, as frequent and as common as said."""
    tickers = TICKERS + OTHERS
    cases = [("connecting event", f, 7, 3) for f in (0.001, 0.025, 0.05, 0.075, 0.1)]
    cases += [("shared length", 0.01, length, 3) for length in (2, 4, 6, 8)]
    cases += [("queries", 0.01, 7, k) for k in (2, 4, 6, 8)]
    for what, frequency, length, k in cases:
        shared = tickers[:length]
        weights = [frequency] + [(1 - frequency) / (len(tickers) - 1)] * (len(tickers) - 1)
        events = generated(n, tickers, weights)
        workload = {f"q{i}": text_of([tickers[length + i], *shared], 1_000) for i in range(k)}
        contenders = {
            "each per-start": alone(workload, events, "per-start"),
            "each window-product": alone(workload, events, "window-product"),
            "chop-connect": together(workload, events, "chop-connect"),
            "prefix-tree": together(workload, events, "prefix-tree"),
            "auto": together(workload, events, "auto"),
        }
        task = f"chop-connect, {what}: frequency {frequency:.1%}, length {length}, {k} queries"
        for measured in compare(WORKLOAD, task, n, contenders, repetitions):
            yield replace(measured, about={"frequency": frequency, "length": length, "queries": k})


def optimizer() -> Iterator[Measurement]:
    """Twelve groups of overlapping queries; the answer says whether a choice is free of conflicts, the note what it is worth."""
    for group in range(12):
        random = Random(group)
        base = [[f"T{i}" for i in random.sample(range(20), 8)] for _ in range(2)]
        queries = {}
        for i in range(4 + group // 3):
            whole = random.choice(base)
            begin = random.randrange(3)
            names = [f"S{i}", *whole[begin : begin + random.randint(3, 5)]]
            queries[f"q{i}"] = Counted(tuple(SlotLabel(name, frozenset({name})) for name in names), 100)
        counts = {f"T{i}": random.randrange(20, 400) for i in range(20)} | {f"S{i}": 500 for i in range(20)}
        candidates = find_candidates(queries, Frequencies(Statistics(10_000, 0, 10_000, counts)))
        conflicts = find_conflicts(queries, candidates)
        best = sum(candidates[i].benefit for i in exhaustive(candidates, conflicts))
        near = sum(candidates[i].benefit for i in greedy(candidates, conflicts))
        contenders = {choice.__name__: checked(choice, candidates, conflicts) for choice in (exhaustive, greedy)}
        share = near / best if best else 1.0
        task = f"optimizer, group {group + 1}: {len(queries)} queries, {len(candidates)} candidates"
        for measured in compare(WORKLOAD, task, len(queries), contenders, 5):
            yield replace(measured, note=f"greedy reaches {share:.1%} of the best benefit")


def checked(
    choice: Callable[[Sequence[Candidate], Sequence[tuple[int, int]]], tuple[int, ...]],
    candidates: Sequence[Candidate],
    conflicts: Sequence[tuple[int, int]],
) -> Callable[[], bool]:
    def run() -> bool:
        taken = set(choice(candidates, conflicts))
        return not any(i in taken and j in taken for i, j in conflicts)

    return run


def fifty(events: sq.Events, repetitions: int) -> Iterator[Measurement]:
    """Fifty queries that overlap, against one of them."""
    random = Random(SEED)
    base = [random.sample(TICKERS + OTHERS, 8) for _ in range(6)]
    workload = {f"q{i}": text_of(random.choice(base)[: random.randint(3, 5)], 1_000) for i in range(50)}
    (one,) = compare(
        WORKLOAD, "one of 50 queries", len(events), {"auto": lambda: digest(sq.run(workload["q0"], events).table)}, repetitions
    )
    yield one
    contenders = {name: asked(workload, events, name) for name in ("auto", "prefix-tree", "independent")}
    for measured in compare(WORKLOAD, "50 overlapping queries", len(events), contenders, repetitions):
        ratio = measured.cpu_s / one.cpu_s if measured.cpu_s and one.cpu_s else 0.0
        yield replace(measured, note=f"{ratio:.1f} times one query")


def asked(workload: Mapping[str, str], events: sq.Events, strategy: str) -> Callable[[], list[tuple[int, int]]]:
    """As a user asks: from the texts, planning included."""
    return lambda: [digest(result.table) for result in sq.run(workload, events, strategy=strategy).values()]


# ---------------------------------------------------------------- plots


def draw(measured: Sequence[Measurement]) -> altair.ConcatChart:
    """CPU time against what was varied, as in the thesis; and the sweep as times two-step, beside the published number."""
    points: list[dict[str, Any]] = []
    two_step = {m.task: m.cpu_s for m in measured if m.contender == "two-step"}
    for m in measured:
        name, _, rest = m.task.partition(", ")
        what = name.partition(" ")[0]
        if not m.cpu_s:
            continue
        point = {"contender": m.contender, "y": 1e9 * m.cpu_s / m.events}
        if what == "sweep":
            if m.contender == "window-product" and two_step.get(m.task):
                point = {"contender": f"length {m.about['length']}", "y": two_step[m.task] / m.cpu_s}
                points.append({"panel": "times two-step, by window in ms", "x": m.about["window"], **point})
        elif what in ("length", "window"):
            points.append({"panel": f"{what}, {rest}: CPU ns per event", "x": m.about[what], **point})
        elif what == "stress":
            points.append({"panel": f"stress, {rest.partition(', ')[2]}: CPU ns per event", "x": m.about["length"], **point})
        elif what == "flat":
            points.append(
                {"panel": f"{rest.rpartition(', ')[0]}, by window in ms: CPU ns per event", "x": m.about["window"], **point}
            )
        elif what == "chop-connect":
            varied = rest.partition(":")[0]
            key = {"connecting event": "frequency", "shared length": "length", "queries": "queries"}[varied]
            points.append({"panel": f"sharing, by {varied}: CPU ns per event", "x": m.about[key], **point})
    published = {"panel": "times two-step, by window in ms", "contender": f"published, length 5: {PUBLISHED:,}", "y": PUBLISHED}
    points += [{**published, "x": x} for x in (100, 1_200)]
    return panels(points)


# ---------------------------------------------------------------- state


def state(events: sq.Events) -> Iterator[Measurement]:
    """The largest state between batches, against the events of a window."""
    for window in (100, 2_000, 20_000):
        aggregator = Aggregator(replace(plan_aggregates(parse(text_of(TICKERS[:3], window))), strategy="window-product"))

        def run(aggregator: Aggregator = aggregator) -> int:
            held, peak = aggregator.start(), 0
            for begin in range(0, min(len(events), 200_000), 20_000):
                held, _ = aggregator.step(held, events.slice(begin, begin + 20_000))
                peak = max(peak, len(held.to_bytes()))
            return peak

        for measured in compare(WORKLOAD, f"state, window {window} ms", min(len(events), 200_000), {"window-product": run}, 1):
            yield replace(measured, note=f"at most {measured.answer:,} bytes between batches")
