"""A query stretch by stretch gives the rows of the whole, and says truly how far it is."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

import seqube as sq
from seqube.explorer import stretches
from seqube.explorer.jobs import Desk, Progress
from seqube.explorer.results import ResultFile
from seqube.explorer.sources import Source, generated
from seqube.explorer.stretches import run_by_stretches
from seqube.generate import generate, hierarchy
from seqube.query import prepare

CONCEPTS = sq.Hierarchy.from_dict(hierarchy("stock"))
QUERIES = [
    "SEQ(Computer a, Finance b) WITHIN 20 ms",
    "SEQ(DELL a, IPIX b, [id]) WITHIN 200 ms RETURN a.ts AS began, b.price - a.price AS rise",
    "SEQ(!MSFT m, DELL a, IPIX b, !QQQ q) WITHIN 20 ms",
    "AND(DELL a, !QQQ q, IPIX b) WITHIN 20 ms",
    "SEQ(DELL a, !SEQ(IPIX b, QQQ c), MSFT m) WITHIN 50 ms",
    "SEQ(DELL a, QQQ b) WITHIN 30 EVENTS",
    "SEQ(DELL a, QQQ b) PARTITION BY id WITHIN 3 EVENTS",
    "SEQ(Computer a, Finance b) GROUP BY a.type AGG COUNT(*), MAX(b.price) WITHIN 20 ms EMIT TOTAL",
    "SEQ(Computer a, Finance b) AGG COUNT(*), MIN(a.price) WITHIN 20 ms",
    "SEQ(Computer a, Finance b) AGG COUNT(*) WITHIN 20 ms EMIT EVERY 7 ms",
    "SEQ(Computer a, Finance b) WITHIN 20 ms SKIP PAST LAST",
]


@pytest.fixture(scope="module")
def events() -> sq.Events:
    return sq.Events(generate("stock", 3_000, seed=5))


def rows(table: pa.Table) -> Counter[str]:
    return Counter(map(repr, table.to_pylist()))


@pytest.mark.parametrize("text", QUERIES)
def test_stretches_give_the_whole(text: str, events: sq.Events, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stretches, "SHORTEST", 10)
    plan = prepare(text, events, CONCEPTS)
    shares, pieces = zip(*run_by_stretches(plan, events), strict=True)
    whole = sq.run(text, events, hierarchy=CONCEPTS).table
    assert rows(pa.concat_tables(pieces)) == rows(whole)
    assert whole.num_rows > 0
    if "PARTITION BY" not in text:  # windows of events in partitions have no length in the stream: rows are told, no share
        assert len(set(shares)) > 3
        assert list(shares) == sorted(shares)
        assert shares[-1] == 1.0


@pytest.mark.parametrize("clause", ["RETURN DISTINCT a.id", "RETURN a.id LIMIT 5"])
def test_what_depends_on_all_rows_before_is_not_cut(clause: str, events: sq.Events, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stretches, "SHORTEST", 10)
    text = f"SEQ(Computer a, Finance b) WITHIN 20 ms {clause}"
    shares, pieces = zip(*run_by_stretches(prepare(text, events, CONCEPTS), events), strict=True)
    whole = sq.run(text, events, hierarchy=CONCEPTS).table
    assert set(shares) == {None}
    assert rows(pa.concat_tables(pieces)) == rows(whole)
    assert whole.num_rows > 0


def test_a_window_as_long_as_the_stream_has_no_share_to_tell(events: sq.Events) -> None:
    plan = prepare("SEQ(DELL a, QQQ b) WITHIN 1 hour", events)
    assert {share for share, _ in run_by_stretches(plan, events)} == {None}


@pytest.mark.parametrize("text", QUERIES)
def test_no_events_at_all(text: str, events: sq.Events) -> None:
    none = events.slice(0, 0)
    found = pa.concat_tables([piece for _, piece in run_by_stretches(prepare(text, none, CONCEPTS), none)])
    assert found.to_pylist() == sq.run(text, none, hierarchy=CONCEPTS).table.to_pylist()


def test_the_desk_tells_how_far_it_is(tmp_path: Path) -> None:
    told: list[Progress] = []
    stock = next(source for source in generated() if source.kind == "stock")
    ran = Desk(stock, told.append).run("SEQ(DELL a, QQQ b) WITHIN 20 ms", "auto", tmp_path / "out")
    assert told[-1] == Progress(1.0, ran.n_rows)
    assert len(told) > 10


def test_counts_that_outgrow_64_bits_half_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stretches, "SHORTEST", 10)
    monkeypatch.setattr(stretches, "WINDOWS", 0)
    from pyarrow import parquet

    # Two of them, and after a pause hundreds: the first counts are small, the last do not fit into 64 bits.
    times = [0, 1, *range(10_000, 10_400)]
    parquet.write_table(pa.table({"type": ["A"] * len(times), "ts": times}), tmp_path / "many.parquet")
    text = f"SEQ({', '.join(f'A a{i}' for i in range(12))}) WITHIN 400 AGG COUNT(*)"
    Desk(Source("many", tmp_path / "many.parquet")).run(text, "auto", tmp_path / "out")
    expected = sq.run(text, tmp_path / "many.parquet").table
    assert ResultFile(tmp_path / "out").table.to_pylist() == expected.to_pylist()
    assert max(expected.column("count").to_pylist()) > 2**64
