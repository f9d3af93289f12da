"""Funnels of ours and ClickHouse's `windowFunnel` count the same keys."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import seqube as sq
from bench import clickhouse

pytestmark = pytest.mark.slow  # ClickHouse is a process of its own within ours, and large


@pytest.fixture(autouse=True)
def _installed() -> None:
    if reason := clickhouse.missing():
        pytest.skip(reason)


@pytest.mark.parametrize("seed", range(8))
def test_windowed_funnels_are_equal(seed: int) -> None:
    """Times of a key differ: of equal ones ClickHouse remembers the last, and forgets that one before would have fitted."""
    random = np.random.default_rng(seed)
    n_keys, n = 300, 4_000
    types = list("ABCDE")[: random.integers(2, 6)]
    keys, times = random.integers(0, n_keys, n), np.sort(random.choice(20 * n, n, replace=False))
    events = pa.table({"key": keys, "ts": times, "type": random.choice([*types, "other"], n)})
    peer = clickhouse.Funnels(events)
    for within in (500, 5_000, 60_000):
        expected = peer.reached(types, within)
        for mode in ("any", "next"):
            assert sq.funnel(events, types, by="key", within=within, mode=mode).table.column("reached").to_pylist() == expected
    peer.close()
