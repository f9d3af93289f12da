"""The A-Seq thesis' experiments: counting without building matches, for one query and for many, on real trades and generated ones.

Single queries: length 2 to 5, windows, stress (length 6 to 10, two seconds), negation, each by `two-step` (the thesis' state of the
art, here on our own matcher, which is far quicker than the one it was measured against), `per-start` (the thesis' own counters) and
`window-product`; with what each takes of memory at most while it runs, where the thesis has a figure of it. "sweep" goes where
matches are many and shows how the ratio to two-step grows with length and window; the thesis reports 16,736 at length 5. "flat"
holds the length and lets the window grow.

Workloads, with the thesis' queries, frequencies and 10,000 events: Chop-Connect over the frequency of the connecting event, the
length of the shared piece and the number of queries that share it, by its fixed plan, against every query by itself; the greedy
choice of what to share against the exhaustive one on 12 groups of 8 to 20 queries, and what counting by their plans takes. 50
overlapping queries are ours; 50 of every shape, with a key, are measured with the cubes.

"state" feeds a stream in batches and notes the largest state between them, in bytes.
"""

from __future__ import annotations

import tracemalloc
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
from seqube.language import parse
from seqube.plan.aggregates import AggregatePlan, plan_aggregates
from seqube.plan.measured import Measurements
from seqube.plan.optimizer import optimize
from seqube.plan.sharing import Candidate, SharingPlan, chop, exhaustive, greedy

if TYPE_CHECKING:
    import altair

WORKLOAD = "aggregates"
PUBLISHED = 16_736  # times two-step, at length 5
SEED = 0
TICKERS = ["DELL", "IPIX", "QQQ", "AMAT", "MSFT", "CSCO", "INTC", "ORCL", "YHOO", "RIMM"]
OTHERS = ["IBM", "FB", "AMAZ", "VMW", "GOOG", "LNKD", "NTAP", "EBAY", "SUNW", "JNPR"]
ALL = ("two-step", "per-start", "window-product")
N_SHARED = 10_000  # events of the thesis' streams for many queries
SHARED = ["YHOO", "AMAZ", "MSFT", "ORCL", "RIMM", "CSCO", "INTC", "IBM", "GOOG", "LNKD", "FB", "NTAP"]  # its sub1, and how it grows
FREQUENCIES = (0.001, 0.004, 0.007, 0.01, 0.013, 0.016, 0.019, 0.025, 0.05, 0.075, 0.1)
LONG_S = 1.0  # what takes longer is timed once


def measurements(quick: bool = False) -> Iterator[Measurement]:
    n, repetitions = (400_000, 3) if quick else (2_000_000, 7)
    made = generated(n)
    streams = {"generated": generated(n // 20)}
    if (trace := stock_trace()) is not None:
        streams["real trades"] = sq.Events(trace, type="ticker")
    for name, events in streams.items():
        for length in range(2, 6):
            about = {"length": length}
            yield from single(f"length {length}, {name}", TICKERS[:length], 100, events, repetitions, about=about, weigh=True)
        for window in (100, 200, 300, 400, 500):
            about = {"window": window}
            yield from single(f"window {window} ms, {name}", TICKERS[:3], window, events, repetitions, about=about, weigh=True)
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
    yield from chop_connect(5 * repetitions)
    yield from optimizer(repetitions)
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


def text_of(pattern: Sequence[str], window: int) -> str:
    """A count; a type may come twice, so every part has a name."""
    parts = (f"{name} v{number}" for number, name in enumerate(pattern))
    return f"SEQ({', '.join(parts)}) WITHIN {window} ms AGG COUNT(*)"


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
    weigh: bool = False,
) -> Iterator[Measurement]:
    text = text_of(pattern, window)
    contenders = {name: runner(text, events, name) for name in strategies}
    for measured in compare(WORKLOAD, task, len(events), contenders, repetitions, LONG_S, digest):
        found: dict[str, Any] = dict(about or {})
        if weigh:
            found["kilobytes"] = kilobytes(contenders[measured.contender])
            measured = replace(measured, note=f"{found['kilobytes']:,.0f} kB at most")
        yield replace(measured, about=found)


def kilobytes(run: Callable[[], Any]) -> float:
    """What a run takes of memory at most, beside its events: that of arrays, which kernels get from Python."""
    tracemalloc.start()
    try:
        run()
        return tracemalloc.get_traced_memory()[1] / 1024
    finally:
        tracemalloc.stop()


def sweep(events: sq.Events, repetitions: int, longest: int) -> Iterator[Measurement]:
    """Two-step against window-product where there are many matches."""
    for length in range(2, 6):
        for window in sorted({100, 200, 500, 1_000, longest}):
            about = {"length": length, "window": window}
            task = f"sweep, length {length}, window {window} ms"
            yield from single(task, TICKERS[:length], window, events, repetitions, about=about)


# ---------------------------------------------------------------- many queries


def planned(workload: Mapping[str, str], events: sq.Events, strategy: str) -> tuple[SharingPlan, Mapping[str, AggregatePlan]]:
    """A plan for all of a workload, made beforehand like those of single queries."""
    queries = {name: parse(text) for name, text in workload.items()}
    found = optimize(queries, None, Measurements(events.statistics, events.unit), strategy)
    assert found.counts is not None
    return found.counts, found.aggregates


def together(plan: tuple[SharingPlan, Mapping[str, AggregatePlan]], events: sq.Events) -> Callable[[], list[pa.Table]]:
    counts, plans = plan
    if not counts.shares:
        apart = [Aggregator(plans[name]) for name in counts.queries]
        return lambda: [aggregator.run(events) for aggregator in apart]
    aggregator = SharedAggregator(counts, plans)
    return lambda: list(aggregator.run(events).values())


def alone(workload: Mapping[str, str], events: sq.Events, strategy: str) -> Callable[[], list[pa.Table]]:
    runs = [runner(text, events, strategy) for text in workload.values()]
    return lambda: [run() for run in runs]


def digests(tables: Sequence[pa.Table]) -> list[tuple[int, int]]:
    return list(map(digest, tables))


def shared_piece(length: int) -> dict[str, list[str]]:
    """The thesis' first workload: three of five queries end with the same piece, which is as long as said."""
    piece = SHARED[:length]
    return {
        "q1": ["DELL", "AMAT", *piece],
        "q2": ["IPIX", "FB", *SHARED[:4]],
        "q3": ["QQQ", "IBM", *SHARED[2:7]],
        "q4": ["VMW", "GOOG", *piece],
        "q5": ["LNKD", "NTAP", *piece],
    }


def shared_by(k: int) -> dict[str, list[str]]:
    """Eight queries, of which so many end with the same piece, and the others with its types in some other order."""
    random, begins = Random(SEED), [name for name in TICKERS + OTHERS if name not in SHARED[:7]]
    ends = [SHARED[:7] if number < k else random.sample(SHARED[:7], 7) for number in range(8)]
    return {f"q{number}": [begins[number], begins[number + 1], *end] for number, end in enumerate(ends)}


def chop_connect(repetitions: int) -> Iterator[Measurement]:
    """One thing is varied, the others are as in the thesis: the piece is of 7 types, shared by 3 queries, and begins with YHOO."""
    cases = [(f"connecting event: frequency {f:.1%}", {"frequency": f}, f, shared_piece(7), 7) for f in FREQUENCIES]
    cases += [(f"shared length: {n}", {"length": n}, 0.005, shared_piece(n), n) for n in (4, 6, 8, 10, 12)]
    cases += [(f"queries: {k} of 8", {"queries": k}, 0.005, shared_by(k), 7) for k in (2, 3, 4, 5, 6)]
    for task, about, frequency, patterns, length in cases:
        others = [name for name in TICKERS + OTHERS if name != SHARED[0]]
        weights = [frequency] + [(1 - frequency) / len(others)] * len(others)
        events = generated(N_SHARED, [SHARED[0], *others], weights)
        workload = {name: text_of(pattern, 1_000) for name, pattern in patterns.items()}
        counts, plans = planned(workload, events, "chop-connect")
        contenders = {
            "each per-start": alone(workload, events, "per-start"),
            "each window-product": alone(workload, events, "window-product"),
            "chop-connect": together((chopped(counts, SHARED[:length]), plans), events),
            "prefix-tree": together(planned(workload, events, "prefix-tree"), events),
            "auto": together(planned(workload, events, "auto"), events),
        }
        for measured in compare(WORKLOAD, f"chop-connect, {task}", len(events), contenders, repetitions, judge=digests):
            yield replace(measured, about=about)


def chopped(counts: SharingPlan, piece: Sequence[str]) -> SharingPlan:
    """The plan that shares this piece wherever it stands, and nothing else."""
    pieces = {}
    for name, query in counts.queries.items():
        pattern, names = query.pattern, [label.name for label in query.pattern]
        at = next((i for i in range(len(names)) if names[i : i + len(piece)] == list(piece)), None)
        pieces[name] = (pattern,) if at is None else chop(pattern, [pattern[at : at + len(piece)]])
    return replace(counts, pieces=pieces)


def query_group(number: int) -> tuple[dict[str, list[str]], set[str]]:
    """8 to 20 queries, each of two or three of 8 pieces of two or three types; and the first types of the pieces."""
    random = Random(number)
    pieces = [random.sample(TICKERS + OTHERS, random.randint(2, 3)) for _ in range(8)]
    queries: dict[str, list[str]] = {}
    while len(queries) < 8 + 4 * (number // 3):
        names = [name for piece in random.sample(pieces, random.randint(2, 3)) for name in piece]
        if len(set(names)) == len(names):
            queries[f"q{len(queries)}"] = names
    return queries, {piece[0] for piece in pieces}


def optimizer(repetitions: int) -> Iterator[Measurement]:
    """Twelve groups of queries: how long the choice takes and what it is worth, then counting by it; connecting events are rare."""
    for number in range(12):
        group, rare = query_group(number)
        weights = np.array([0.1 if name in rare else 1.0 for name in TICKERS + OTHERS])
        events = generated(N_SHARED, TICKERS + OTHERS, list(weights / weights.sum()))
        workload = {name: text_of(pattern, 1_000) for name, pattern in group.items()}
        near, best = (planned(workload, events, strategy) for strategy in ("chop-connect", "exhaustive"))
        candidates, conflicts = near[0].candidates, near[0].conflicts
        worth = [sum(candidates[i].benefit for i in choose(candidates, conflicts)) for choose in (greedy, exhaustive)]
        share = worth[0] / worth[1] if worth[1] else 1.0
        name = f"group {number + 1}: {len(group)} queries"
        choices = {choose.__name__: checked(choose, candidates, conflicts) for choose in (exhaustive, greedy)}
        for measured in compare(WORKLOAD, f"optimizer, {name}", len(group), choices, 5 * repetitions):
            note = f"of {len(candidates)} candidates; greedy reaches {share:.1%} of the best benefit"
            yield replace(measured, note=note, about={"share": share})
        if worth[0] > 0:  # else no piece is shared by either
            contenders = {"each per-start": alone(workload, events, "per-start"), "by the greedy choice": together(near, events)}
            if near[0].chosen != best[0].chosen:
                contenders["by the exhaustive choice"] = together(best, events)
            yield from compare(WORKLOAD, f"counting by a plan, {name}", len(events), contenders, repetitions, judge=digests)


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
    """CPU time and memory against what was varied, as in the thesis; the sweep as times two-step, beside the published number."""
    points: list[dict[str, Any]] = []
    held: list[dict[str, Any]] = []
    groups: list[dict[str, Any]] = []
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
            held.append({**point, "panel": f"{what}, {rest}: kB at most", "x": m.about[what], "y": m.about["kilobytes"]})
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
        elif what in ("optimizer", "counting"):
            group = int(rest.partition(":")[0].removeprefix("group "))
            of = "the choice: CPU us, by group" if what == "optimizer" else "counting by the choice: CPU ns per event, by group"
            groups.append({"panel": of, "x": group, **point, "y": 1e6 * m.cpu_s if what == "optimizer" else point["y"]})
    published = {"panel": "times two-step, by window in ms", "contender": f"published, length 5: {PUBLISHED:,}", "y": PUBLISHED}
    windows = [point["x"] for point in points if point["panel"] == published["panel"]]
    points += [{**published, "x": x} for x in sorted({*windows[:1], *windows[-1:]})]
    return panels([*points, *held, *sorted(groups, key=lambda point: str(point["panel"]), reverse=True)])


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
