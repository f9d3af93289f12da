"""The tree finds the latest instance in an interval, in all four cases, full or not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqube.predict.cbs_tree import CbsTree, _find, _holds, _insert, plant


def grow(symbols: list[int], n_leaves: int, n_symbols: int) -> CbsTree:
    tree = plant(n_leaves, n_symbols)
    for number, symbol in enumerate(symbols):
        _insert(number, number, symbol, number, tree)
    return tree


@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=40),
    st.sampled_from([2, 4, 8, 16]),
    st.integers(0, 3),
    st.integers(0, 16),
    st.integers(0, 16),
)
def test_finds_the_latest_between(symbols: list[int], n_leaves: int, wanted: int, back: int, width: int) -> None:
    head = len(symbols) - 1
    oldest = max(0, head - n_leaves + 1)
    rt = max(oldest, head - back)
    lt = max(oldest, rt - width)
    stack = np.empty((256, 5), np.int64)
    expected = max((k for k in range(lt, rt + 1) if symbols[k] == wanted), default=-1)
    assert _find(wanted, lt, rt, head, stack, grow(symbols, n_leaves, 4)) == expected


@given(st.lists(st.integers(0, 70), min_size=1, max_size=60), st.sampled_from([2, 8, 16]))
def test_sets_hold_what_lies_below(symbols: list[int], n_leaves: int) -> None:
    tree = grow(symbols, n_leaves, 71)
    for node in range(1, n_leaves):
        low, high = node, node
        while low < n_leaves:
            low, high = 2 * low, 2 * high + 1
        below = set(tree.symbols[low - n_leaves : high - n_leaves + 1].tolist()) - {-1}
        assert {symbol for symbol in range(71) if _holds(node, symbol, tree)} == below


# Section 3: A1 B2 A3 C4 D5 C6 B7 D8, here numbered from 0.
PAPER = [0, 1, 0, 2, 3, 2, 1, 3]


@pytest.mark.parametrize(
    ("event", "lt", "rt", "expected"),
    [
        (1, 2, 8, 7),  # Example 1: B within [2, 8] is (B, 7)
        (2, 2, 8, 6),  # the example of Case 4: C within [2, 8] is (C, 6), not (C, 4)
        (0, 2, 8, 3),
        (0, 4, 8, -1),
        (2, 2, 5, 4),
        (3, 8, 8, 8),
        (3, 2, 7, 5),
    ],
)
def test_the_papers_tree(event: int, lt: int, rt: int, expected: int) -> None:
    # Instance t has number t - 1. With 8 leaves (A, 1) is still there, and [2, 8] leaves it out.
    found = _find(event, lt - 1, rt - 1, 7, np.empty((256, 5), np.int64), grow(PAPER, 8, 4))
    assert found == (expected - 1 if expected > 0 else -1)


@pytest.mark.parametrize(
    ("event", "lt", "rt", "expected"), [(3, 8, 8, 8), (2, 5, 8, 6), (2, 5, 5, -1), (1, 5, 8, 7), (0, 5, 8, -1)]
)
def test_the_papers_tree_after_it_has_gone_round(event: int, lt: int, rt: int, expected: int) -> None:
    # Four leaves: (D, 8) is where (C, 4) was, as (D, 8) took the place of (A, 1) in Figure 5.
    found = _find(event, lt - 1, rt - 1, 7, np.empty((256, 5), np.int64), grow(PAPER, 4, 4))
    assert found == (expected - 1 if expected > 0 else -1)
