"""The four experiments of the CBS-Tree paper, on today's copies of its two data sets, with all strategies.

Events are made as in the paper: a sensor with its rounded reading (sparse), a flow with its occupancy percent (dense); the record
number is the time. Episodes are made as in the paper, from a seed: a window length, events picked from the records of one window
beginning anywhere, a number of successors for each among those after it (with dummies that mean no edge), and the fewest further
edges that make it one piece. Normal distributions have a quarter of their mean as deviation, which the paper leaves open.

All strategies see the same records. The peers of the index take up to milliseconds per event on dense data, so cases cover
some hundred or thousand records from the middle of the data, and the index alone is measured over the whole of the sparse set too.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from bench.charts import finding
from bench.data import DATA
from bench.measure import Measurement, compare
from seqube.predict.episodes import Codes, Episodes, compile_episodes
from seqube.predict.matcher import EpisodeMatcher, join
from seqube.predict.rules import Rule

if TYPE_CHECKING:
    import altair

WORKLOAD = "forecast"
SEED = 1207
STRATEGIES = ("cbs-tree", "tofel", "direct", "index")  # the first is what the others are compared with


@dataclass(frozen=True)
class Stream:
    """A data set as event codes in record order."""

    name: str
    codes: Codes


@dataclass(frozen=True)
class Case:
    """How episodes are made; the defaults are the paper's."""

    n_rules: int = 10_000
    vertices: int = 5
    edges: int = 2
    window: int = 500


# ---------------------------------------------------------------- data


def load_sparse(folder: Path = DATA) -> Stream:
    """Intel lab: a sensor with its temperature in whole degrees."""
    table = pq.read_table(folder / "intel_lab_temperature_5d.parquet", columns=["mote_id", "temperature_c"])
    readings = np.rint(table["temperature_c"].to_numpy()).astype(np.int64)
    return _coded("intel-lab", table["mote_id"].to_numpy().astype(np.int64) * 1_000 + readings)


def load_dense(folder: Path = DATA) -> Stream:
    """Freeway detectors: a flow with its occupancy in whole percent; records without either, or above 100 percent, are left out."""
    table = pq.read_table(folder / "mndot_th610_30s.parquet", columns=["volume", "occupancy_scans"])
    flow, scans = (table[name].to_numpy(zero_copy_only=False).astype(np.float64) for name in table.column_names)
    sound = np.isfinite(flow) & (scans <= 1_800)
    return _coded("traffic", flow[sound].astype(np.int64) * 1_000 + np.rint(scans[sound] / 18).astype(np.int64))


def _coded(name: str, events: npt.NDArray[np.int64]) -> Stream:
    return Stream(name, np.unique(events, return_inverse=True)[1].astype(np.int32))


# ---------------------------------------------------------------- episodes


def make_rules(stream: Stream, case: Case, seed: int = SEED) -> list[Rule]:
    """Episodes as the paper makes them; event k of the stream is called `k`. Only the predicate matters here."""
    rng = np.random.default_rng(seed)
    return [_make_rule(rng, stream.codes, case, number) for number in range(case.n_rules)]


def _draw(rng: np.random.Generator, mean: int, least: int) -> int:
    return max(least, round(rng.normal(mean, mean / 4)))


def _make_rule(rng: np.random.Generator, codes: Codes, case: Case, number: int) -> Rule:
    while True:
        within = _draw(rng, case.window, case.vertices)
        n_vertices = _draw(rng, case.vertices, 2)
        start = int(rng.integers(0, len(codes) - case.window))
        # Records are picked, not kinds of events: what is frequent in the data is frequent in the rules.
        picked = codes[start + rng.permutation(case.window)]
        events = list(dict.fromkeys(picked.tolist()))[:n_vertices]
        if len(events) < 2:
            continue  # a night without a car: the same record over and over
        names = [str(code) for code in events]
        edges = _draw_edges(rng, len(names), case.edges)
        predicate = {"vertices": dict(zip(names, names, strict=True)), "edges": [[names[u], names[v]] for u, v in edges]}
        return Rule(predicate, "next", max(within, len(names)), 2 * max(within, len(names)), 0.5, name=str(number))


def _draw_edges(rng: np.random.Generator, n_vertices: int, mean: int) -> list[tuple[int, int]]:
    edges = []
    pieces = list(range(n_vertices))  # by vertex: the piece of the graph it is in
    for u in range(n_vertices):
        candidates = np.arange(u + 1, n_vertices + mean)  # those from n_vertices on are dummies
        chosen = rng.permutation(candidates)[: max(0, _draw(rng, mean, 0))]
        for v in sorted(int(v) for v in chosen if v < n_vertices):
            edges.append((u, v))
            pieces = [pieces[u] if piece == pieces[v] else piece for piece in pieces]
    for v in range(1, n_vertices):
        if pieces[v] != pieces[0]:
            edges.append((v - 1, v))
            pieces = [pieces[v - 1] if piece == pieces[v] else piece for piece in pieces]
    return edges


def symbols_of(stream: Stream, rules: list[Rule]) -> tuple[Episodes, Codes]:
    """The rules as arrays, and the stream in their symbols."""
    episodes, symbols = compile_episodes(rules, "ms")
    lookup = np.full(int(stream.codes.max()) + 1, -1, np.int32)
    for code, symbol in enumerate(symbols):
        lookup[int(symbol.type)] = code
    return episodes, lookup[stream.codes]


# ---------------------------------------------------------------- experiments

EXPERIMENTS: dict[str, tuple[int, ...]] = {  # Figures 9 to 12
    "window": (50, 100, 200, 300, 400, 500),
    "vertices": (2, 5, 8, 11, 14),
    "edges": (1, 2, 4, 6),
    "rules": (5_000, 10_000, 15_000, 20_000),
}


TABLE_2: dict[str, dict[int, float]] = {  # as printed: percent of all records, by how many of the most frequent events
    "intel-lab": {5: 1.3, 10: 2.6, 15: 3.8, 20: 4.8, 25: 5.8, 30: 6.7, 35: 7.6, 40: 8.4},
    "traffic": {5: 26.4, 10: 37.3, 15: 44.2, 20: 49.5, 25: 53.4, 30: 56.2, 35: 58.6, 40: 60.6},
}


def make_case(experiment: str, value: int) -> Case:
    """A point of a figure: all but one setting as the paper has them by default; edges are varied with 14 vertices."""
    match experiment:
        case "window":
            return Case(window=value)
        case "vertices":
            return Case(vertices=value)
        case "edges":
            return Case(vertices=14, edges=value)
    return Case(n_rules=value)


def measurements(quick: bool = False) -> Iterator[Measurement]:
    if not DATA.is_dir():
        print(f"forecast: skipped, there is no folder {DATA} (SEQUBE_DATA names it)")
        return
    sparse, dense = load_sparse(), load_dense()
    for stream in (sparse, dense):
        yield from most_frequent(stream)
    for stream, n_records in ((sparse, 5_000 if quick else 10_000), (dense, 300 if quick else 1_500)):
        for experiment, values in EXPERIMENTS.items():
            for value in values[-1:] if quick else values:
                task = f"{experiment} {value} on {stream.name}"
                yield from _compare(task, stream, make_case(experiment, value), n_records, STRATEGIES, 2, 0.5 if quick else 10.0)
    yield from _compare("10000 rules on all of intel-lab", sparse, Case(), len(sparse.codes), ("index",), 3 if quick else 7)


def most_frequent(stream: Stream) -> Iterator[Measurement]:
    """Table 2: the share of the k most frequent events in all records of a data set."""
    counts = np.sort(np.bincount(stream.codes))[::-1]
    for k in TABLE_2[stream.name]:
        share = counts[:k].sum() / len(stream.codes)
        task, about = f"Table 2, {stream.name}", {"k": k, "percent": round(100 * share, 1)}
        contender = f"the {k} most frequent events"
        yield Measurement(WORKLOAD, task, contender, len(stream.codes), None, right=True, note=f"{share:.1%}", about=about)


def _compare(
    task: str,
    stream: Stream,
    case: Case,
    n_records: int,
    strategies: Sequence[str],
    repetitions: int,
    once_above_s: float = math.inf,
) -> Iterator[Measurement]:
    episodes, symbols = symbols_of(stream, make_rules(stream, case))
    middle = (len(symbols) - n_records) // 2
    symbols = symbols[middle : middle + n_records]
    times = np.arange(n_records, dtype=np.int64)

    def run(strategy: str) -> tuple[int, int]:
        """How many occurrences there are, and a checksum of all of them."""
        matcher = EpisodeMatcher(episodes, strategy)
        found = join([matcher.step(times, symbols), matcher.finish()])
        return len(found.rules), zlib.crc32(np.concatenate((found.rules.astype(np.int64), found.starts, found.ends)).tobytes())

    contenders: dict[str, Callable[[], Any]] = {strategy: partial(run, strategy) for strategy in strategies}
    yield from compare(WORKLOAD, task, n_records, contenders, repetitions, once_above_s)


def draw(measured: Sequence[Measurement]) -> altair.VConcatChart:
    """Seconds per million events of each strategy, a row per data set and a plot per experiment, as in the paper's figures."""
    import altair as alt

    rows = []
    for m in measured:
        experiment, value, _, stream = (*m.task.split(" ", 3), "")[:4]
        if experiment in EXPERIMENTS and m.wall_s:
            seconds = 1e6 * m.wall_s / m.events
            rows.append({"experiment": experiment, "value": int(value), "data": stream, "strategy": m.contender, "s": seconds})
    y = alt.Y("s:Q", title="seconds per million events", scale=alt.Scale(type="log"))
    plots = []
    for stream in ("intel-lab", "traffic"):
        row = []
        for experiment in EXPERIMENTS:
            here = [r for r in rows if (r["experiment"], r["data"]) == (experiment, stream)]
            said = finding([{"contender": r["strategy"], "x": r["value"], "y": r["s"]} for r in here])
            data = alt.Data(values=here)  # type: ignore[no-untyped-call]
            lines = alt.Chart(data, title=alt.Title(f"{stream}: {experiment}", subtitle=said)).mark_line(point=True)
            row.append(lines.encode(x=alt.X("value:Q", title=experiment), y=y, color="strategy:N"))
        plots.append(alt.hconcat(*row))
    return alt.vconcat(*plots)
