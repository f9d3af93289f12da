"""By name, each way to share matches, and each way to count, runs what it says: spies on what does the work."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

import seqube as sq
from seqube.engine.aggregates import per_start, two_step, window_product
from seqube.engine.ecube.reuse import Sharing

CONCEPTS = sq.Hierarchy.from_dict({"First": ["A", "B"], "Second": ["C", "D"]})
WORKLOAD = {
    "coarse": "SEQ(First a, Second b) WITHIN 20",
    "fine": "SEQ(A a, Second b) WITHIN 20",
    "other": "SEQ(B a, Second b) WITHIN 20",
    "longer": "SEQ(A a, Second b, E c) WITHIN 20",
}
EVENTS = pa.table({"type": list("ABCDE") * 40, "ts": range(200), "id": [1] * 200})


def spied(monkeypatch: pytest.MonkeyPatch, place: Any, name: str, called: list[str]) -> None:
    inner = getattr(place, name)

    def spy(*arguments: Any, **named: Any) -> Any:
        called.append(name)
        return inner(*arguments, **named)

    monkeypatch.setattr(place, name, spy)


@pytest.mark.parametrize(
    ("strategy", "works"),
    [
        ("independent", {}),  # each by its own operator
        ("top-down", {"compute": 1, "_narrow": 3}),
        ("bottom-up", {"compute": 3, "_widen": 2}),  # two finer queries are computed to make one coarser, and the longest
        ("chase", {"compute": 1, "_narrow": 3}),
    ],
)
def test_shared_matches(strategy: str, works: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[str] = []
    alone = {name: sq.run(text, EVENTS, hierarchy=CONCEPTS).table for name, text in WORKLOAD.items()}
    for name in ("compute", "_narrow", "_widen"):
        spied(monkeypatch, Sharing, name, called)
    results = sq.run(WORKLOAD, EVENTS, hierarchy=CONCEPTS, strategy=strategy)
    assert Counter(called) == works
    for name, table in alone.items():
        assert sorted(map(str, results[name].table.to_pylist())) == sorted(map(str, table.to_pylist()))


KERNELS = {
    "two-step": (two_step, "aggregate_matches"),
    "per-start": (per_start, "count_per_start"),
    "window-product": (window_product, "slide"),
}


@pytest.mark.parametrize("strategy", KERNELS)
def test_counts_of_one_query(strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[str] = []
    for place, name in KERNELS.values():
        spied(monkeypatch, place, name, called)
    found = sq.run("SEQ(A a, C b, [id]) WITHIN 20 AGG COUNT(*), SUM(b.id) EMIT TOTAL", EVENTS, strategy=strategy)
    # four C follow each of 40 A in time, but for the last three: 160 - 6
    assert found.table.to_pylist() == [{"count": 154, "sum_b_id": 154}]
    assert set(called) == {KERNELS[strategy][1]}
