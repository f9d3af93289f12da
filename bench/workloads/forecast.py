"""The four experiments of the CBS-Tree paper, on today's copies of its two data sets, with all strategies.

Events are made as in the paper: a sensor with its rounded reading (sparse), a flow with its occupancy percent (dense); the record
number is the time. Episodes are made as in the paper, from a seed: a window length, events picked from the records of one window
beginning anywhere, a number of successors for each among those after it (with dummies that mean no edge), and the fewest further
edges that make it one piece. Normal distributions have a quarter of their mean as deviation, which the paper leaves open.

Answers are compared in every case: a case whose strategies disagree raises instead of giving times. ToFel and the direct scan are
slow on dense data, so a case says how many records it covers and everyone gets the same.

    python bench/workloads/forecast.py [--records N] [--rules-index N] [--out DIR]
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from seqube.predict.episodes import Codes, Episodes, Ints, compile_episodes
from seqube.predict.matcher import STRATEGIES, Matcher, Occurrences, join
from seqube.predict.rules import Rule

DATA = Path(os.environ.get("SEQUBE_DATA") or Path(__file__).resolve().parents[2].parent / "shared" / "data")
SEED = 1207


@dataclass(frozen=True)
class Stream:
    """A data set as event codes in record order."""

    name: str
    codes: Codes

    @property
    def times(self) -> Ints:
        return np.arange(len(self.codes), dtype=np.int64)


@dataclass(frozen=True)
class Case:
    """One point of one figure: a data set and how the episodes are made."""

    experiment: str
    stream: str
    n_rules: int = 10_000
    vertices: int = 5
    edges: int = 2
    window: int = 500


@dataclass(frozen=True)
class Measurement:
    """How long a strategy took for a case, and how many occurrences it reported."""

    case: Case
    strategy: str
    n_records: int
    seconds: float
    n_found: int

    @property
    def rate(self) -> float:
        return self.n_records / self.seconds


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
        picked = codes[start + np.sort(rng.permutation(case.window))]
        events = rng.permutation(np.unique(picked))[:n_vertices]
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


def cases() -> Iterator[Case]:
    """Figures 9 to 12: windows, vertices, edges (with 14 vertices), number of rules."""
    for stream in ("intel-lab", "traffic"):
        for window in (50, 100, 200, 300, 400, 500):
            yield Case("window", stream, window=window)
        for vertices in (2, 5, 8, 11, 14):
            yield Case("vertices", stream, vertices=vertices)
        for edges in (1, 2, 4, 6):
            yield Case("edges", stream, vertices=14, edges=edges)
        for n_rules in (5_000, 10_000, 15_000, 20_000):
            yield Case("rules", stream, n_rules=n_rules)


def measure(case: Case, stream: Stream, n_records: int, strategies: tuple[str, ...] = tuple(STRATEGIES)) -> list[Measurement]:
    """Run a case with each strategy over the first records; raises if two answers differ."""
    episodes, symbols = symbols_of(stream, make_rules(stream, case))
    times, symbols = stream.times[:n_records], symbols[:n_records]
    measurements = []
    answers: dict[str, Occurrences] = {}
    for strategy in strategies:
        Matcher(episodes, strategy).step(times[:50], symbols[:50])  # compiled beforehand
        matcher = Matcher(episodes, strategy)
        began = time.perf_counter()
        stepped, finished = matcher.step(times, symbols), matcher.finish()
        seconds = time.perf_counter() - began
        found = answers[strategy] = join([stepped, finished])
        first = answers[strategies[0]]
        same = [np.array_equal(getattr(found, name), getattr(first, name)) for name in Occurrences._fields]
        if not all(same):
            raise AssertionError(f"{strategy} and {strategies[0]} answer {case} differently")
        measurements.append(Measurement(case, strategy, len(times), seconds, len(found.rules)))
    return measurements


def run(n_records: int, strategies: tuple[str, ...] = tuple(STRATEGIES)) -> Iterator[Measurement]:
    """Every case with every strategy over `n_records`, and the index alone over the whole of the sparse data set."""
    streams = {stream.name: stream for stream in (load_sparse(), load_dense())}
    for case in cases():
        yield from measure(case, streams[case.stream], n_records, strategies)
    sparse = streams["intel-lab"]
    yield from measure(Case("whole", "intel-lab"), sparse, len(sparse.codes), ("index",))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--records", type=int, default=20_000, help="records per case (default 20000)")
    parser.add_argument("--strategies", default=",".join(STRATEGIES))
    parser.add_argument("--out", type=Path, help="write the measurements as JSON to this file")
    arguments = parser.parse_args()
    rows = []
    for measurement in run(arguments.records, tuple(arguments.strategies.split(","))):
        rows.append({**asdict(measurement), "rate": measurement.rate})
        case = measurement.case
        print(
            f"{case.experiment:9} {case.stream:10} w={case.window:<4} v={case.vertices:<3} e={case.edges} rules={case.n_rules:<6}"
            f"{measurement.strategy:9} {measurement.seconds:8.3f} s {measurement.rate:12,.0f} events/s {measurement.n_found:10,} found",
            flush=True,
        )
    if arguments.out:
        arguments.out.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
