"""Events to try things on, made up but plausible: trades, surgical tools, travellers, road traffic.

Everything is drawn from one seeded generator and computed in whole columns (a million events take well under a second), with
integer arithmetic wherever a sum runs over many rows, so that a kind, a number and a seed give the same table on every machine.
Rows are in time order. `traffic` has many events at one instant, `hospital` has nulls: real data has both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from seqube.arguments import checked
from seqube.errors import DataError, did_you_mean

Ints = npt.NDArray[np.int64]

TICKERS = (
    *("DELL", "IPIX", "QQQ", "AMAT", "MSFT", "INTC", "FCF", "ROM", "EFC", "ANAT"),
    *("OREL", "CSCO", "ORCL", "YHOO", "AAPL", "IBM", "SUNW", "JDSU", "AMZN", "EBAY"),
)
CARE_STEPS = ("Recycle", "Wash", "Sharpen", "Disinfect", "Check", "Operate")
CITIES = ("G", "A", "D", "T")  # Galveston, Austin, Dallas, Tulsa
FACILITIES = ("BusStation", "Hospital", "Shelter")
FLOWS = ("Free", "Dense", "Slow", "Jam")

MOST_EVENTS = 1_000_000_000  # events, of which a kind holds some hundred bytes each while they are made
SECOND_US = 1_000_000
MINUTE_US = 60 * SECOND_US
START_US = 1_767_225_600 * SECOND_US  # 2026-01-01 00:00 UTC

_HIERARCHIES: dict[str, dict[str, Any]] = {
    "stock": {
        "Computer": ["DELL", "INTC", "MSFT"],
        "Finance": ["QQQ", "FCF", "ROM"],
        "Education": ["EFC", "ANAT", "OREL"],
        "Hardware": ["AMAT", "CSCO", "AAPL", "IBM", "SUNW", "JDSU"],
        "Internet": ["IPIX", "ORCL", "YHOO", "AMZN", "EBAY"],
    },
    "transit": {
        "TX": {city: [city + place for place in FACILITIES] for city in CITIES[:3]},
        "OK": {CITIES[3]: [CITIES[3] + place for place in FACILITIES]},
    },
    "traffic": {"Flowing": ["Free", "Dense"], "Congested": ["Slow", "Jam"]},
}


@checked
def generate(kind: str, n: int, seed: int = 0) -> pa.Table:
    """`n` events of a kind, the same for the same seed: stock, hospital, transit or traffic."""
    if kind not in _KINDS:
        raise DataError(f"no generator called {kind!r}\n  hint: {did_you_mean(kind, _KINDS)}")
    if n < 0:
        raise DataError(f"cannot generate {n} events\n  hint: ask for zero or more")
    if n > MOST_EVENTS:
        raise DataError(f"cannot generate {n:,} events\n  hint: ask for {MOST_EVENTS:,} at most, and put several together")
    if seed < 0:
        raise DataError(f"seed={seed} is negative\n  hint: any other whole number will do")
    return _KINDS[kind](n, np.random.default_rng(seed))


@checked
def hierarchy(kind: str) -> dict[str, Any]:
    """The concepts above a kind's event types, as `Hierarchy.from_dict` takes them; empty where there are none."""
    return _HIERARCHIES.get(kind, {})


def _stock(n: int, rng: np.random.Generator) -> pa.Table:
    """One trade per millisecond, every ticker equally likely, each ticker's price a random walk in cents."""
    codes = rng.integers(0, len(TICKERS), n)
    ids = rng.integers(0, 1000, n)
    steps = rng.integers(-5, 6, n)
    volumes = 100 * rng.integers(1, 51, n)
    openings = rng.integers(2_000, 20_000, len(TICKERS))
    prices = np.empty(n, np.int64)
    for code in range(len(TICKERS)):
        own = np.flatnonzero(codes == code)
        prices[own] = np.abs(openings[code] + np.cumsum(steps[own]))
    return pa.table(
        {"ts": np.arange(n, dtype=np.int64), "type": _names(TICKERS, codes), "price": prices / 100, "id": ids, "volume": volumes}
    )


def _hospital(n: int, rng: np.random.Generator) -> pa.Table:
    """Tagged tools going round: recycled, cared for, used again. Now and then a step of the care is skipped.

    Each tool starts a round every two hours and is done with it in less, so the rounds of one tool never overlap.
    """
    n_tools = 10 + n // 500
    n_rounds = n // 5 + 8 * n_tools
    tools = np.arange(n_rounds) % n_tools
    starts_us = (np.arange(n_rounds) // n_tools * 120 + rng.integers(0, 30, n_rounds)) * MINUTE_US
    gaps_us = rng.integers(60, 840, (n_rounds, len(CARE_STEPS))) * SECOND_US + rng.integers(
        0, SECOND_US, (n_rounds, len(CARE_STEPS))
    )
    done = rng.random((n_rounds, len(CARE_STEPS))) >= np.array([0, 0.02, 0.2, 0.08, 0.1, 0])
    times = (START_US + starts_us[:, None] + np.cumsum(gaps_us, axis=1))[done]
    rounds, steps = np.nonzero(done)
    first = np.argsort(times, kind="stable")[:n]
    rounds, steps = rounds[first], steps[first]

    instruments = rng.integers(0, 3, n_tools)
    hospitals = rng.integers(0, 2, n_tools)
    grams = rng.integers(80, 900, n_tools)
    wards = rng.integers(0, 4, n_rounds)
    weights = grams[tools[rounds]] * rng.integers(90, 116, len(first)) / 100
    minutes = rng.integers(10, 240, len(first))
    return pa.table(
        {
            "ts": _timestamps(times[first]),
            "type": _names(CARE_STEPS, steps),
            "id": tools[rounds],
            "ward": _names(("A", "B", "C", "D"), wards[rounds]),
            "instrument": _names(("surgery", "endoscopy", "dentistry"), instruments[tools[rounds]]),
            "weight": weights,
            "duration": pa.array(minutes, mask=steps != CARE_STEPS.index("Operate")),
            "hospital": _names(("North", "South"), hospitals[tools[rounds]]),
        }
    )


def _transit(n: int, rng: np.random.Generator) -> pa.Table:
    """Travellers on their way from the coast inland: from city to city, in each past a bus station, a hospital or a shelter."""
    names = tuple(city + place for city in CITIES for place in FACILITIES)
    n_stops = len(names)
    n_travellers = n // 4 + 50
    starts_us = np.cumsum(rng.integers(10, 300, n_travellers)) * SECOND_US
    gaps_us = rng.integers(5, 240, (n_travellers, n_stops)) * MINUTE_US + rng.integers(0, MINUTE_US, (n_travellers, n_stops))
    visited = rng.random((n_travellers, n_stops)) < np.tile([0.8, 0.25, 0.45], len(CITIES))
    times = (START_US + starts_us[:, None] + np.cumsum(gaps_us, axis=1))[visited]
    travellers, stops = np.nonzero(visited)
    first = np.argsort(times, kind="stable")[:n]
    travellers, stops = travellers[first], stops[first]

    ages = rng.integers(1, 95, n_travellers)
    parties = rng.integers(1, 6, n_travellers)
    return pa.table(
        {
            "ts": _timestamps(times[first]),
            "type": _names(names, stops),
            "id": travellers,
            "age": ages[travellers],
            "party": parties[travellers],
        }
    )


def _traffic(n: int, rng: np.random.Generator) -> pa.Table:
    """Loop detectors along a road, all reporting every 30 seconds; queues start somewhere and grow against the traffic."""
    n_stations, n_lanes = 16, 2
    n_steps = -(-n // (n_stations * n_lanes))
    minutes_of_day = np.arange(n_steps) // 2 % 1440
    rush = np.maximum(0, 120 - np.abs(minutes_of_day - 480)) + np.maximum(0, 120 - np.abs(minutes_of_day - 1020))

    # A queue adds a block of occupancy at its own station and, two minutes later each, at up to five stations upstream.
    n_queues = n_steps // 150 + 1
    heads = rng.integers(0, n_stations, n_queues)
    starts = rng.integers(0, max(1, n_steps), n_queues)
    lengths = rng.integers(20, 80, n_queues)
    blocks = np.zeros((n_steps + 1, n_stations), np.int64)
    for reach in range(6):
        there = heads >= reach
        begins = np.minimum(starts[there] + 4 * reach, n_steps)
        ends = np.minimum(begins + np.maximum(lengths[there] - 8 * reach, 0), n_steps)
        np.add.at(blocks, (begins, heads[there] - reach), 220)
        np.add.at(blocks, (ends, heads[there] - reach), -220)
    queued = np.cumsum(blocks[:-1], axis=0)

    shape = (n_steps, n_stations, n_lanes)
    permille = np.clip(40 + rush[:, None, None] + queued[:, :, None] + rng.integers(-25, 60, shape), 0, 1000).reshape(-1)[:n]
    # Flow rises with occupancy until the road is full at about 180 per mille, and falls beyond it.
    flows = np.maximum(0, np.where(permille < 180, permille // 9, 20 - (permille - 180) // 40) + rng.integers(-2, 3, len(permille)))
    rows = np.arange(n)
    detectors = rows % (n_stations * n_lanes)
    return pa.table(
        {
            "ts": _timestamps(START_US + rows // (n_stations * n_lanes) * 30 * SECOND_US),
            "type": _names(FLOWS, np.searchsorted([100, 180, 300], permille, side="right")),
            "detector": detectors,
            "station": detectors // n_lanes,
            "lane": detectors % n_lanes + 1,
            "flow": flows,
            "occupancy": permille / 10,
        }
    )


_KINDS: dict[str, Callable[[int, np.random.Generator], pa.Table]] = {
    "stock": _stock,
    "hospital": _hospital,
    "transit": _transit,
    "traffic": _traffic,
}
KINDS_OF_DATA = tuple(_KINDS)


def _names(names: tuple[str, ...], codes: Ints) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), pa.array(names)).cast(pa.string())


def _timestamps(times_us: Ints) -> pa.Array:
    return pa.array(times_us, pa.timestamp("us"))
