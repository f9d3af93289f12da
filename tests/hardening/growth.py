"""Hours of a stream in minutes: does anything grow? Memory of the process and of the states, step by step.

    python tests/hardening/growth.py [--hours 1] [--pace 0] [--out build/growth.html]

A second of the stream is a thousand events and one step of every query: a sequence with keys, a negated sub-query, a trailing
negation, a window counted in events, aggregates, and forecasts. States travel through bytes, as they do between machines. The
first tenth warms up caches and pools; after that, the memory of the process may move but not climb. With `--pace 1` a second of
the stream takes a second of the clock: an hour is an hour then, and the machine is idle most of it.
"""

# ruff: noqa: T201 - it is a program

from __future__ import annotations

import argparse
import gc
import resource
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

import seqube as sq
from seqube.engine.operator import open_plan
from seqube.predict.forecasts import Forecaster
from seqube.query import prepare

EVENTS = 1_000  # in a step, which is a second of the stream
QUERIES = [
    "SEQ(A a, B b, C c, [id]) WITHIN 5 s",
    "SEQ(A a, !SEQ(B b, C c), D d, [id]) WITHIN 3 s",
    "SEQ(A a, B b, !C c, [id]) WITHIN 2 s",
    "SEQ(A a, B b, [id]) WITHIN 2000 EVENTS",
    "SEQ(A a, B b, C c) WITHIN 5 s AGG COUNT(*), SUM(b.x) EMIT EVERY 1 s",
    "SEQ(A a, B b, [id]) WITHIN 5 s AGG COUNT(*) GROUP BY a.id EMIT TOTAL",
]
RULES = [
    sq.Rule(predicate="A -> B -> C", consequent="D", within="2 s", horizon="5 s", probability=0.5, partition_by=["id"]),
    sq.Rule(predicate="E, F -> G", consequent="H", within="1 s", horizon="3 s", probability=0.5),
]


@dataclass(frozen=True)
class Point:
    """After so many steps: what the process and the states hold, and the results so far."""

    step: int
    process_bytes: int
    state_bytes: int
    rows: int


def resident() -> int:
    with Path("/proc/self/statm").open() as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def batch(step: int) -> sq.Events:
    random = np.random.default_rng(step)
    times = np.sort(random.integers(step * 1_000, (step + 1) * 1_000, EVENTS))
    columns = {
        "type": random.choice(list("ABCDEFGH"), EVENTS),
        "id": random.integers(0, 500, EVENTS),
        "x": random.integers(0, 9, EVENTS),
    }
    return sq.Events(pa.table({**columns, "ts": times}))


def run(n_steps: int, every: int = 50, pace: float = 0.0) -> list[Point]:
    """Feed so many seconds to all queries and rules, each in `pace` seconds or more; a point now and then."""
    first = batch(0)
    plans = [prepare(query, first) for query in QUERIES]
    operators = [open_plan(plan) for plan in plans]
    kept: list[bytes | None] = [None] * len(operators)
    foreseen: bytes | None = None
    points, rows, began = [], 0, time.monotonic()
    for step in range(n_steps):
        time.sleep(max(0.0, began + step * pace - time.monotonic()))
        events = batch(step)
        for number, operator in enumerate(operators):
            data = kept[number]
            state, found = operator.step(operator.restore(data) if data is not None else operator.start(), events)
            kept[number] = state.to_bytes()
            rows += found.num_rows if found is not None else 0
        forecaster = Forecaster(sq.Rules(RULES), first.schema)
        ahead = forecaster.start() if foreseen is None else forecaster.restore(foreseen)
        ahead, predicted = forecaster.step(ahead, events)
        foreseen = ahead.to_bytes()
        rows += predicted.num_rows if predicted is not None else 0
        if (step + 1) % every == 0:
            gc.collect()
            held = sum(len(data) for data in [*kept, foreseen] if data is not None)
            points.append(Point(step + 1, resident(), held, rows))
    return points


def draw(points: list[Point], place: Path) -> None:
    import altair as alt

    rows = [
        {"minutes": point.step / 60, "MB": value / 1e6, "of": name}
        for point in points
        for name, value in (("the process", point.process_bytes), ("the states", point.state_bytes))
    ]
    place.parent.mkdir(parents=True, exist_ok=True)
    alt.Chart(alt.Data(values=rows)).mark_line().encode(x="minutes:Q", y="MB:Q", color="of:N").save(str(place))  # type: ignore[no-untyped-call]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--hours", type=float, default=1.0)
    parser.add_argument("--pace", type=float, default=0.0)
    parser.add_argument("--out", type=Path, default=Path("build") / "growth.html")
    asked = parser.parse_args()
    points = run(int(asked.hours * 3_600), pace=asked.pace)
    for point in points[:: max(1, len(points) // 12)]:
        held = f"{point.process_bytes / 1e6:8.1f} MB  states {point.state_bytes / 1e6:6.2f} MB"
        print(f"{point.step / 60:6.1f} min  {held}  {point.rows:>12,} rows")
    draw(points, asked.out)
    print(f"drawn in {asked.out}")


if __name__ == "__main__":
    main()
