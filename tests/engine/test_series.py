"""Growing series hold what a dictionary of lists holds, and no more than a few windows of it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqube.engine.series import SeriesPool, number_of


@pytest.mark.parametrize("n_fixed", [None, 6])
@given(batches=st.lists(st.lists(st.integers(0, 5), max_size=30), max_size=12), window=st.integers(0, 60))
def test_series_hold_what_lists_hold(n_fixed: int | None, batches: list[list[int]], window: int) -> None:
    pool, lists, clock = SeriesPool(2, n_fixed), {code: [] for code in range(6)}, 0
    for batch in batches:
        codes = np.sort(np.array(batch, np.int64))
        distinct, starts = np.unique(codes, return_index=True)
        times = np.arange(clock, clock + len(codes))
        for code, time in zip(codes.tolist(), times.tolist(), strict=True):
            lists[code].append(time)
        clock += len(codes)
        pool.extend(distinct, np.append(starts, len(codes)).astype(np.int64), np.stack((times, 2 * times)), clock - window)
        lists = {code: [time for time in series if time >= clock - window] for code, series in lists.items()}
        found, columns = pool.contents(clock - window)
        held: dict[int, list[int]] = {code: [] for code in range(6)}
        for code, time, double in zip(found.tolist(), *columns.tolist(), strict=True):
            held[code].append(time)
            assert double == 2 * time
        assert held == lists


def test_codes_far_apart_are_found_again() -> None:
    pool = SeriesPool()
    codes = np.arange(1000) * 2**50 - 2**59
    pool.extend(codes, np.arange(1001), np.arange(1000).reshape(1, -1), 0)
    table = pool.numbering.table
    assert [number_of(table, int(code)) for code in codes] == list(range(1000))
    assert number_of(table, 5) == -1


def test_memory_follows_the_window() -> None:
    pool = SeriesPool()
    for step in range(3000):
        times = np.arange(100 * step, 100 * step + 100)
        codes = np.arange(100) + 50 * step  # every series dies after a while
        pool.extend(codes, np.arange(101), times.reshape(1, -1), 100 * step - 1000)
    assert pool.n_bytes < 8 * 40 * 1000
