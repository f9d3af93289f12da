"""Generated events: as many as asked for, in time order, the same for the same seed, and shaped as promised."""

from __future__ import annotations

import hashlib

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from seqube.errors import DataError
from seqube.generate import KINDS_OF_DATA, TICKERS, generate, hierarchy

# The same bytes on every machine and every supported Python: a changed digest is a changed data set.
DIGESTS = {
    "stock": "cb19894ad4cb07c3",
    "hospital": "f49c1a240c952ad2",
    "transit": "955a438cbf9fb219",
    "traffic": "6e35ef2d6ddae413",
}


def digest(table: pa.Table) -> str:
    rows = "\n".join(repr(row) for row in table.to_pylist())
    return hashlib.sha256(rows.encode()).hexdigest()[:16]


@pytest.mark.parametrize("kind", KINDS_OF_DATA)
def test_the_same_seed_gives_the_same_events(kind: str) -> None:
    table = generate(kind, 5_000, seed=7)
    assert table.equals(generate(kind, 5_000, seed=7))
    assert not table.equals(generate(kind, 5_000, seed=8))
    assert digest(table) == DIGESTS[kind]


@pytest.mark.parametrize("kind", KINDS_OF_DATA)
@pytest.mark.parametrize("n", [0, 1, 31, 1_000])
def test_as_many_as_asked_for_in_time_order(kind: str, n: int) -> None:
    table = generate(kind, n, seed=1)
    assert table.num_rows == n
    assert np.all(np.diff(table["ts"].cast(pa.int64()).to_numpy()) >= 0)
    assert table["type"].null_count == 0
    assert table["ts"].type == (pa.int64() if kind == "stock" else pa.timestamp("us"))


def test_stock_has_twenty_tickers_one_trade_a_millisecond() -> None:
    table = generate("stock", 100_000, seed=3)
    assert table["ts"].to_pylist() == list(range(100_000))
    assert set(table["type"].unique().to_pylist()) == set(TICKERS)
    assert len(TICKERS) == 20
    counts = [entry["counts"] for entry in table["type"].value_counts().to_pylist()]
    assert 4_500 < min(counts) <= max(counts) < 5_500
    assert pc.min_max(table["id"]).as_py() == {"min": 0, "max": 999}


def test_tools_go_round_in_order_and_some_steps_are_skipped() -> None:
    table = generate("hospital", 20_000, seed=3)
    own = table.filter(pc.equal(table["id"], 4))["type"].to_pylist()
    order = ["Recycle", "Wash", "Sharpen", "Disinfect", "Check", "Operate"]
    rounds = "".join(str(order.index(step)) for step in own).split("0")[1:-1]
    assert len(rounds) > 10
    assert all(list(steps) == sorted(steps) for steps in rounds)
    assert all(steps.endswith("5") for steps in rounds)
    assert any(steps != "12345" for steps in rounds)
    assert table["duration"].null_count == table.num_rows - own_count(table, "Operate")


def own_count(table: pa.Table, name: str) -> int:
    return int(pc.sum(pc.equal(table["type"], name)).as_py())


def test_travellers_pass_only_places_of_the_hierarchy() -> None:
    tree = hierarchy("transit")
    leaves = {place for cities in tree.values() for places in cities.values() for place in places}
    assert set(generate("transit", 10_000, seed=3)["type"].unique().to_pylist()) == leaves
    assert set(tree["TX"]) == {"G", "A", "D"}


def test_detectors_report_together_and_type_follows_occupancy() -> None:
    table = generate("traffic", 64_000, seed=3)
    assert len(table["ts"].unique()) == 2_000
    jams = table.filter(pc.equal(table["type"], "Jam"))
    assert jams.num_rows > 0
    assert pc.min(jams["occupancy"]).as_py() >= 30


def test_a_hierarchy_names_types_that_occur() -> None:
    named = {ticker for tickers in hierarchy("stock").values() for ticker in tickers}
    assert named == set(TICKERS)
    assert hierarchy("hospital") == {}


def test_wrong_requests() -> None:
    with pytest.raises(DataError, match="did you mean 'hospital'"):
        generate("hospitl", 10)
    with pytest.raises(DataError, match="-1 events"):
        generate("stock", -1)
