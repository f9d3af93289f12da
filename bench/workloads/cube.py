"""E-Cube's workloads 1 to 8: four strategies, against the stack join as published, on the paper's tickers and on real trades.

Every contender ends with the row numbers of all matches of all queries, so what is compared is finding them. The first contender
is the stack join of the paper's own baseline, as a compiled loop: it follows pointers from the last event back to the first and
looks at the window and at negations on the way, without knowing which branches are dead. "independent" is Seqube's own evaluation,
query by query. Plans are made beforehand; making them is measured by itself.

Windows are chosen so that every workload has some hundred thousand to some million matches. The real trace has four of the paper's
tickers (DELL, INTC, MSFT, QQQ); five others that it has stand in for the rest of its hierarchy.

Workloads 1 to 3 are run once more as counts, where nothing is written, so that what is shared shows. Fifty random queries with a
key, negations and sums are counted together and one by one; a thousand queries on rare types as they are asked for; and of a cube,
its count, its children and a pivot.

The workloads are run a second time with the same `id` on all events: then results are few and what costs is finding them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import permutations, product
from random import Random
from typing import TYPE_CHECKING, Any

import numba
import numpy as np
import numpy.typing as npt
import pyarrow as pa

import seqube as sq
from bench.charts import panels
from bench.data import stock_trace
from bench.measure import Measurement, compare
from bench.workloads.aggregates import OTHERS, TICKERS, asked, digest
from seqube.engine.ecube.adaptation import SharedMatcher
from seqube.engine.ecube.reuse import compute_shared, matrix, sample_sizes
from seqube.engine.matching import Matcher
from seqube.generate import generate
from seqube.language import parse
from seqube.plan.chase import Chase, Estimates, SharedPlan
from seqube.plan.ecube import Cuboid
from seqube.plan.measured import Measurements
from seqube.plan.physical import ticks
from seqube.plan.planner import plan_matches
from seqube.plan.strategies import names

if TYPE_CHECKING:
    import altair

WORKLOAD = "cube"
SEED = 0
CONTROL = "independent, again"  # the same plan: what differs between the two is noise
Ints = npt.NDArray[np.int64]

COMPANIES = {"Computer": ["DELL", "INTC", "MSFT"], "Finance": ["QQQ", "FCF", "ROM"], "Education": ["EFC", "ANAT", "OREL"]}
IN_THE_TRACE = {"FCF": "AMAT", "ROM": "IPIX", "EFC": "CSCO", "ANAT": "ORCL", "OREL": "YHOO"}

PATTERNS = {
    "1": ["INTC, !MSFT, FCF", *(f"INTC, !MSFT, FCF, {name}" for name in ("ROM", "EFC", "ANAT", "OREL"))],
    "2": ["DELL, INTC, !MSFT, FCF", *(f"DELL, INTC, !MSFT, FCF, {name}" for name in ("ROM", "OREL", "ANAT", "QQQ"))],
    "3": ["QQQ, DELL, INTC, !MSFT, FCF", *(f"QQQ, DELL, INTC, !MSFT, FCF, {name}" for name in ("ROM", "ANAT", "OREL", "EFC"))],
    "4": ["Computer, Finance, Education", "Computer, Finance, EFC"],
    "5": ["Computer, Finance, Education", "Computer, QQQ, EFC"],
    "6": ["Computer, Finance, Education", "INTC, QQQ, EFC"],
    "7": [
        "DELL, QQQ, ANAT",
        "DELL, QQQ, ANAT, ROM",
        "FCF, DELL, QQQ, ANAT",
        "DELL, QQQ, ANAT, OREL",
        "DELL, QQQ, ANAT, INTC",
        "DELL, QQQ, ANAT, INTC, EFC",
        "Computer, Finance, Education",
        "Computer, Finance, ANAT",
        "DELL, Finance, ANAT",
        "QQQ, DELL, Finance, ANAT",
    ],
    "8": [
        "Computer, Finance, Education",
        "Computer, Finance, OREL",
        "INTC, QQQ, Education",
        "INTC, QQQ, EFC",
        "MSFT, INTC, QQQ, EFC",
        "INTC, QQQ, EFC, DELL",
        "Computer, ROM, Education",
        "Computer, ROM, ANAT",
        "INTC, ROM, ANAT",
    ],
}
WINDOWS_MS = {"1": 400, "2": 400, "3": 300, "4": 120, "5": 120, "6": 120, "7": 120, "8": 120}  # generated: one event a millisecond
TRACE_MS = 1_000  # as in the paper
SAME_ID_MS = 20_000


def measurements(quick: bool = False) -> Iterator[Measurement]:
    n, repetitions = (60_000, 7) if quick else (200_000, 15)
    events = sq.Events(generate("stock", n, SEED))
    companies = sq.Hierarchy.from_dict(COMPANIES)
    for number, patterns in PATTERNS.items():
        queries = workload(patterns, WINDOWS_MS[number])
        yield from strategies(f"workload {number}", queries, events, companies, repetitions, stack_join=True)
    for number in ("1", "2", "3"):
        yield from counted(f"workload {number}, counts alone", workload(PATTERNS[number], WINDOWS_MS[number]), events, repetitions)
    for number, patterns in PATTERNS.items():
        queries = workload(patterns, SAME_ID_MS, "[id]")
        yield from strategies(f"workload {number}, same id", queries, events, companies, repetitions)
    if (trades := stock_trace()) is not None:
        trace = sq.Events(trades.slice(0, 100_000 if quick else None), type="ticker")
        known = {parent: [IN_THE_TRACE.get(name, name) for name in names] for parent, names in COMPANIES.items()}
        for number, patterns in PATTERNS.items():
            queries = workload([in_the_trace(pattern) for pattern in patterns], TRACE_MS)
            hierarchy = sq.Hierarchy.from_dict(known)
            yield from strategies(f"workload {number}, real trades", queries, trace, hierarchy, repetitions, stack_join=True)
    for number in ("2", "4", "7") if quick else PATTERNS:
        yield from latency(number, workload(PATTERNS[number], WINDOWS_MS[number] // 2), events, companies, 5)
    yield from optimizer_time(events, companies)
    yield from rare_types(1_000, 1_000_000, 3 if quick else 7)
    yield from fifty_of_every_shape(*((400_000, 1) if quick else (2_000_000, 3)))
    yield from moves(300_000, repetitions)


def workload(patterns: list[str], window_ms: int, predicate: str = "") -> dict[str, str]:
    return {
        f"q{number}": f"SEQ({pattern}{', ' * bool(predicate)}{predicate}) WITHIN {window_ms} ms"
        for number, pattern in enumerate(named(pattern) for pattern in patterns)
    }


def named(pattern: str) -> str:
    """A variable for every component: a type may come twice."""
    return ", ".join(f"{name} v{number}" for number, name in enumerate(pattern.split(", ")))


def related_patterns(n: int) -> list[str]:
    """Patterns that are coarser and finer, longer and shorter views of one."""
    random, names = Random(SEED), [name for below in COMPANIES.values() for name in below]
    patterns = [("Computer", "Finance", "Education")]
    while len(patterns) < n:
        pattern = list(random.choice(patterns))
        at = random.randrange(len(pattern))
        if random.random() < 0.5 and pattern[at] in COMPANIES:
            pattern[at] = random.choice(COMPANIES[pattern[at]])
        elif len(pattern) < 5:
            pattern.insert(at, random.choice(names))
        if tuple(pattern) not in patterns:
            patterns.append(tuple(pattern))
    return [", ".join(pattern) for pattern in patterns]


def in_the_trace(pattern: str) -> str:
    for name, other in IN_THE_TRACE.items():
        pattern = pattern.replace(name, other)
    return pattern


# ---------------------------------------------------------------- contenders


def strategies(
    task: str, queries: dict[str, str], events: sq.Events, hierarchy: sq.Hierarchy, repetitions: int, stack_join: bool = False
) -> Iterator[Measurement]:
    bound = {name: parse(text) for name, text in queries.items()}
    chase = Chase(bound, hierarchy)
    sizes = sample_sizes(bound, events, hierarchy)
    estimates = Estimates(Measurements(events.statistics, events.unit, events.distinct, sizes))
    plans = {strategy: chase.plan(strategy, estimates) for strategy in names("shared matches")}
    contenders: dict[str, Callable[[], int]] = {}
    if stack_join:
        found = {step.name: len(matches) for step, matches in compute_shared(plans["independent"], events)}
        contenders["stack join, as published"] = lambda: joined(chase, events, found)
        check_rows(chase, plans["independent"], events, found)
    for strategy, plan in plans.items():
        check_against(plans["independent"], plan, events)
        contenders[strategy] = lambda plan=plan: sum(len(matches) for _, matches in compute_shared(plan, events))
    contenders[CONTROL] = contenders["independent"]
    for measured in compare(WORKLOAD, task, len(events), contenders, repetitions):
        note, about = measured.note, dict(measured.about)
        if measured.cpu_s is not None:
            note = f"{1e6 * measured.cpu_s / max(1, measured.answer):.3f} us of CPU a result"
            if (plan := plans.get(measured.contender)) is not None:
                about["expected_s"] = plan.seconds
                note += f"; {sum(step.source is not None for step in plan.steps)} of {len(plan.steps)} reused"
                alike = [name for name, other in plans.items() if other is not plan and other.sources == plan.sources]
                note += f"; the same plan as {' and '.join(alike)}" * bool(alike)
        yield replace(measured, note=note, about=about)


def counted(task: str, queries: dict[str, str], events: sq.Events, repetitions: int) -> Iterator[Measurement]:
    """The same workload where nothing is written but counts: one by one, and counted together."""
    texts = {name: f"{text} AGG COUNT(*) EMIT TOTAL" for name, text in queries.items()}

    def count(strategy: str) -> int:
        found = sq.run(texts, events, strategy=strategy, threads=1)
        return sum(int(found[name].table.column("count")[0].as_py()) for name in texts)

    contenders = {strategy: partial(count, strategy) for strategy in ("independent", "prefix-tree", "chop-connect")}
    yield from compare(WORKLOAD, task, len(events), {**contenders, CONTROL: contenders["independent"]}, repetitions)


def joined(chase: Chase, events: sq.Events, sizes: dict[str, int]) -> int:
    return sum(join(cuboid, events, sizes[name]).shape[1] for name, cuboid in chase.cuboids.items())


def fingerprints(plan: SharedPlan, events: sq.Events) -> dict[str, int]:
    """A number for each query's set of matches, whatever their order."""
    found = {}
    for step, matches in compute_shared(plan, events):
        found[step.name] = sum(fingerprint(piece) for piece in matches.pieces) & 0xFFFFFFFF
    return found


def fingerprint(rows: Ints) -> int:
    mixed = np.zeros(rows.shape[1], np.uint64)
    for slot in rows:
        mixed = (mixed ^ slot.astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
    return int(mixed.sum(dtype=np.uint64))


def check_against(truth: SharedPlan, plan: SharedPlan, events: sq.Events) -> None:
    if fingerprints(truth, events) != fingerprints(plan, events):
        raise AssertionError(f"{plan.strategy} finds other matches")


def check_rows(chase: Chase, plan: SharedPlan, events: sq.Events, sizes: dict[str, int]) -> None:
    truth = fingerprints(plan, events)
    for name, cuboid in chase.cuboids.items():
        if fingerprint(join(cuboid, events, sizes[name])) & 0xFFFFFFFF != truth[name]:
            raise AssertionError(f"the stack join finds other matches for {cuboid}")


def latency(
    number: str, queries: dict[str, str], events: sq.Events, hierarchy: sq.Hierarchy, repetitions: int
) -> Iterator[Measurement]:
    """The same workloads as streams, in batches of 500 events: results as tables, at the end of each batch."""
    bound = {name: parse(text) for name, text in queries.items()}
    pieces = [events.slice(start, start + 500) for start in range(0, min(len(events), 20_000), 500)]

    def apart() -> int:
        found = 0
        for query in bound.values():
            matcher = Matcher(plan_matches(query, hierarchy))
            state = matcher.start()
            for piece in pieces:
                state, table = matcher.step(state, piece)
                found += len(table)
        return found

    def shared(strategy: str) -> int:
        matcher, found = SharedMatcher(bound, hierarchy, strategy), 0
        state = matcher.start()
        for piece in pieces:
            state, tables = matcher.step(state, piece)
            found += sum(map(len, (tables or {}).values()))
        return found

    contenders: dict[str, Callable[[], int]] = {"one matcher for each": apart}
    contenders |= {strategy: lambda strategy=strategy: shared(strategy) for strategy in names("shared matches")}
    for measured in compare(WORKLOAD, f"workload {number}, as a stream", sum(map(len, pieces)), contenders, repetitions):
        wall = measured.wall_s or 0.0
        yield replace(measured, note=f"{1e3 * wall / len(pieces):.2f} ms from the arrival of a batch to its results")


def optimizer_time(events: sq.Events, hierarchy: sq.Hierarchy) -> Iterator[Measurement]:
    """A hundred queries: hierarchy, costs and arborescence."""
    queries = {name: parse(text) for name, text in workload(related_patterns(100), 100).items()}

    def plan() -> int:
        return len(Chase(queries, hierarchy).plan("chase", Estimates(Measurements(events.statistics, events.unit))).steps)

    yield from compare(WORKLOAD, "optimizing 100 queries", len(queries), {"chase": plan})


def rare_types(n_queries: int, n: int, repetitions: int) -> Iterator[Measurement]:
    """Many queries, each on two types that one event in a thousand is of: planning included, they cost what their events cost."""
    random = np.random.default_rng(SEED)
    names = np.array([*(f"Rare{i}" for i in range(60)), *(f"Common{i}" for i in range(12))])
    types = np.where(random.random(n) < 60 * 0.0005, random.integers(0, 60, n), random.integers(60, 72, n))
    columns = {"ts": np.arange(0, 10 * n, 10), "type": names[types], "id": random.integers(0, 50, n)}
    events = sq.Events(pa.table(columns))
    pairs = list(permutations(range(60), 2))
    chosen = [pairs[i] for i in random.permutation(len(pairs))[:n_queries]]
    for kind, rest in (("matches", "b) WITHIN 10 s"), ("counts", "b) WITHIN 10 s AGG COUNT(*)")):
        queries = {f"q{i}": f"SEQ(Rare{one} a, Rare{other} {rest}" for i, (one, other) in enumerate(chosen)}
        task = f"{n_queries:,} queries on rare types, {kind}"
        contenders = {"auto": lambda queries=queries: sum(map(len, sq.run(queries, events).values()))}
        for measured in compare(WORKLOAD, task, n, contenders, repetitions):
            yield replace(measured, note=f"{measured.cpu_s or 0.0:.2f} s of CPU in all, planning included")


def fifty_of_every_shape(n: int, repetitions: int) -> Iterator[Measurement]:
    """Fifty random queries that overlap, by a key, most of them negated and summed, reported as said: together, and one by one."""
    random, numbers = Random(SEED), np.random.default_rng(SEED)
    tickers = TICKERS + OTHERS
    types = pa.DictionaryArray.from_arrays(pa.array(numbers.integers(0, len(tickers), n).astype(np.int32)), pa.array(tickers))
    columns = {"type": types, "ts": np.arange(n), "x": numbers.integers(0, 100, n)}
    keyed = {n_keys: sq.Events(pa.table({**columns, "id": numbers.integers(0, n_keys, n)})) for n_keys in (100, 500)}
    base = [(random.sample(tickers, 8), random.choice(tickers), random.randint(1, 2)) for _ in range(6)]
    for (n_keys, events), emit in product(keyed.items(), ("TOTAL", "EVERY 100000", "ON TRIGGER")):
        queries = {}
        for i in range(50):
            names, absent, place = random.choice(base)
            parts = [f"{name} v{k}" for k, name in enumerate(names[: random.randint(3, 5)])]
            measured = f"{random.choice(['SUM', 'AVG'])}(v{random.randrange(len(parts))}.x)"
            if random.random() < 0.7:
                parts.insert(place, f"!{absent} n")
            aggregates = f"COUNT(*), {measured}" if random.random() < 0.7 else "COUNT(*)"
            queries[f"q{i}"] = f"SEQ({', '.join(parts)}, [id]) WITHIN 20000 GROUP BY v0.id AGG {aggregates} EMIT {emit}"
        contenders: dict[str, Callable[[], Any]] = {
            "one by one": lambda queries=queries, events=events: [digest(sq.run(text, events).table) for text in queries.values()]
        }
        contenders |= {name: asked(queries, events, name) for name in ("auto", "prefix-tree", "pre-tree", "chop-connect")}
        task = f"50 keyed, negated, summed queries, {n_keys} keys, EMIT {emit}"
        yield from compare(WORKLOAD, task, n, contenders, repetitions)


def moves(n: int, repetitions: int) -> Iterator[Measurement]:
    """A cuboid's own count, the counts of its twenty children, and a pivot of ten by ten, each by a cube that knows nothing yet."""
    random = np.random.default_rng(SEED)
    tree = {concept: [f"{concept}{i}" for i in range(10)] for concept in ("X", "Y", "Z")}
    names = np.array([name for below in tree.values() for name in below])
    events = sq.Events(pa.table({"ts": np.arange(n), "type": names[random.integers(0, 30, n)], "id": random.integers(0, 100, n)}))
    hierarchy = sq.Hierarchy.from_dict(tree)
    for text in ("SEQ(X a, Y b) WITHIN 100 ms", "SEQ(X a, Y b, [id]) WITHIN 1 s", "SEQ(X a, !Z0 z, Y b) WITHIN 100 ms"):

        def cube(text: str = text) -> sq.Cube:
            return sq.Cube(events, text, hierarchy)

        last, n_children = len(cube().components), len(cube().children())
        contenders: dict[str, Callable[[], int]] = {
            "its own count": lambda cube=cube: cube().count,
            f"{n_children} children": lambda cube=cube: (
                sum(c.count for c in cube().children() if "Z" not in c.move) // 2
            ),  # each match is in two
            "10 by 10 pivot": lambda cube=cube, last=last: int(cube().pivot(rows=1, columns=last).to_numpy().sum()),
        }
        own: float | None = None
        for measured in compare(WORKLOAD, f"moves from {text}", n, contenders, repetitions):
            own = own or measured.cpu_s
            note = f"{measured.cpu_s / own:.2f} times the CPU time of its own count" if own and measured.cpu_s else ""
            yield replace(measured, note=note)


def draw(measured: Sequence[Measurement]) -> altair.ConcatChart:
    """CPU time of each strategy on workloads 1 to 8, as in the paper's figures, and the time from a batch to its results."""
    points: list[dict[str, Any]] = []
    for m in measured:
        name, _, kind = m.task.partition(", ")
        if name.startswith("workload ") and m.cpu_s and m.contender != CONTROL:
            what = f"{kind or 'generated'}: CPU us a result, by workload"
            points.append({"panel": what, "x": int(name.split()[1]), "contender": m.contender, "y": 1e6 * m.cpu_s / m.answer})
    return panels(points, categories=True)


# ---------------------------------------------------------------- the baseline


def join(cuboid: Cuboid, events: sq.Events, size: int) -> Ints:
    """The matches of one query by the stack join. It is told how many there are, and gets room from the pool that Seqube uses."""
    slots = [events.rows_of(part.types) for part in cuboid.positives]
    offsets = np.concatenate(([0], np.cumsum([len(rows) for rows in slots]))).astype(np.int64)
    barriers = [before(events, [part.types for part in gap], rows) for gap, rows in zip(cuboid.gaps, slots, strict=False)]
    found = matrix(len(slots), size)
    window = ticks(cuboid.query.window, events.unit)
    count = walk_stacks(events.times, np.concatenate(slots), offsets, np.concatenate(barriers), window, found)
    return found[:, :count]


def before(events: sq.Events, negated: list[frozenset[str]], rows: Ints) -> Ints:
    """For each row, the time of the most recent negated event before it: what an instance knows when it arrives."""
    times = events.times[events.rows_of(frozenset().union(*negated))]
    place = np.searchsorted(times, events.times[rows])
    return (
        np.where(place > 0, times[place - 1], np.iinfo(np.int64).min) if len(times) else np.full(len(rows), np.iinfo(np.int64).min)
    )


@numba.njit(cache=True)
def walk_stacks(times: Ints, rows: Ints, offsets: Ints, barriers: Ints, window: int, out: Ints) -> int:
    n = len(offsets) - 1
    pointers = np.zeros(len(rows), np.int64)  # the most recent instance in the stack before, when this one arrived
    for s in range(1, n):
        at = offsets[s - 1]
        for i in range(offsets[s], offsets[s + 1]):
            while at < offsets[s] and times[rows[at]] < times[rows[i]]:
                at += 1
            pointers[i] = at
    count = 0
    current = np.zeros(n, np.int64)
    floors = offsets[:-1].copy()  # instances below have left the window
    for last in range(offsets[n - 1], offsets[n]):
        now = times[rows[last]]
        for s in range(n):
            while floors[s] < offsets[s + 1] and times[rows[floors[s]]] <= now - window:
                floors[s] += 1
        current[n - 1] = last
        level = n - 1
        if n > 1:
            level = n - 2
            current[level] = pointers[last]
        while level < n - 1:
            current[level] -= 1
            c = current[level]
            if c < floors[level]:
                level += 1
                continue
            if times[rows[c]] < barriers[current[level + 1]]:
                continue
            if level > 0:
                level -= 1
                current[level] = pointers[c]
                continue
            for s in range(n):
                out[s, count] = rows[current[s]]
            count += 1
    return count
