"""What is told of matches without building them: how many, the first, and a sample in which each is as likely as any other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
import seqube as sq
from answers import show
from seqube.engine import results, unbuilt
from seqube.engine.output import MatchWriter
from strategies import queries, streams, table

few = settings(max_examples=max(20, settings().max_examples // 2))


@pytest.fixture(autouse=True, scope="module")
def drawn_of_few() -> Iterator[None]:
    """Results of which almost nothing is found by running them, and samples that are drawn even of few matches."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(results, "EAGER_ROWS", 1)
        patch.setattr(unbuilt, "FEW_TIMES", 1)
        patch.setattr(unbuilt, "DRAWN_FIRST", 256)
        yield


def as_rows(found: pa.Table) -> list[str]:
    return [str(row) for row in found.to_pylist()]


def assert_told(text: str, events: list[oracle.Event], n: int) -> None:
    """However many there are, that many are told, the first are the first, and a sample is some of them, each once."""
    show(text, events)
    stream = sq.Events(table(events))
    whole = as_rows(sq.run(text, stream).table)
    result = sq.run(text, stream)
    assert unbuilt.Unbuilt(result._unbuilt.plan, stream, sq.Limits()).n_rows == len(result) == len(whole)  # type: ignore[union-attr]
    assert as_rows(result.head(n)) == whole[:n]
    sample = as_rows(result.sample(n, seed=3))
    assert len(sample) == min(n, len(whole))
    assert not Counter(sample) - Counter(whole)
    assert as_rows(result.sample(n, seed=3)) == sample


@few
@given(text=queries(), events=streams(), n=st.integers(0, 6))
def test_any_query(text: str, events: list[oracle.Event], n: int) -> None:
    assert_told(text, events, n)


@few
@given(text=queries(depth=1, words=("SEQ",)), events=streams(), n=st.integers(1, 4))
def test_sequences(text: str, events: list[oracle.Event], n: int) -> None:
    assert_told(text, events, n)


@few
@given(
    text=queries(repeats=True, depth=2, words=("SEQ", "AND", "NEXT", "STRICT")), events=streams(max_size=10), n=st.integers(0, 5)
)
def test_runs_and_lists(text: str, events: list[oracle.Event], n: int) -> None:
    assert_told(text, events, n)


@few
@given(text=queries(depth=1, words=("SEQ",)), events=streams(), n=st.integers(1, 4))
def test_pages_are_all_matches_by_their_ends(text: str, events: list[oracle.Event], n: int) -> None:
    show(text, events)
    stream = sq.Events(table(events))
    result = sq.run(text, stream)
    matches = unbuilt.Unbuilt(result._unbuilt.plan, stream, sq.Limits())  # type: ignore[union-attr]
    pages = [matches.page(start, n) for start in range(0, len(result) + 1, n)]
    if pages[0] is None:
        return
    rows = [row for page in pages if page is not None for row in page.to_pylist()]
    assert Counter(map(str, rows)) == Counter(as_rows(result.table))
    ends = [row["end"] for row in rows if "end" in row]
    assert ends == sorted(ends)


def stream(n: int, seed: int = 1) -> sq.Events:
    random = np.random.default_rng(seed)
    types = np.array(list("ABCX"))[random.integers(0, 4, n)]
    times = np.sort(random.integers(0, n, n))  # with ties
    return sq.Events(
        pa.table({"type": types, "ts": times, "id": random.integers(0, 2, n), "x": random.integers(0, 9, n), "row": np.arange(n)})
    )


@pytest.mark.parametrize(
    "query",
    [
        "SEQ(A a, B b, C c) WITHIN 12",
        "SEQ(A a, B b, C c, [id]) WITHIN 20",
        "SEQ(A a, B b) PARTITION BY id WITHIN 15 EVENTS",
        "SEQ(A a, !X x, B b, C c) WITHIN 25",
        "SEQ(!X x, A a, B b) WITHIN 12",
        "SEQ(A a, B b, C c) WHERE a.x < c.x WITHIN 15",
        "SEQ(A a, !X x, B b, C c, x.x > c.x) WITHIN 14",
    ],
)
def test_a_drawn_sample_is_uniform(query: str, monkeypatch: pytest.MonkeyPatch) -> None:
    events = stream(60)
    result = sq.run(query, events)
    whole = as_rows(result.table)
    assert 12 < len(whole) < 600
    monkeypatch.setattr(unbuilt, "sample_rows", None)  # it is drawn
    n_samples, size = 120, len(whole) // 4
    drawn = Counter(row for seed in range(n_samples) for row in as_rows(result.sample(size, seed)))
    assert drawn.keys() <= set(whole)
    expected = n_samples * size / len(whole)
    squares = sum((drawn[row] - expected) ** 2 / expected for row in whole)
    freedom = len(whole) - 1
    # Drawn without putting back, counts vary less than by themselves; five standard deviations of a chi-square are never met.
    assert 0.4 * freedom < squares < freedom + 5 * np.sqrt(2 * freedom)


def test_a_sample_of_what_is_walked_through_is_uniform() -> None:
    result = sq.run("AND(A a, B b) WITHIN 6", stream(40))
    whole = as_rows(result.table)
    drawn = Counter(row for seed in range(300) for row in as_rows(result.sample(5, seed)))
    expected = 300 * 5 / len(whole)
    squares = sum((drawn[row] - expected) ** 2 / expected for row in whole)
    assert squares < len(whole) - 1 + 5 * np.sqrt(2 * (len(whole) - 1))


def explosion(n: int = 30_000) -> sq.Events:
    return sq.Events(pa.table({"type": [*"ABCDEF"] * (n // 6), "ts": np.arange(n), "x": np.arange(n) % 1_000}))


SIX = "SEQ(A a, B b, C c, D d, E e, F f) WITHIN 100000"


def test_more_matches_than_can_be_built(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[int] = []
    write = MatchWriter.write
    monkeypatch.setattr(MatchWriter, "write", lambda self, piece: written.append(len(piece)) or write(self, piece))
    result = sq.run(SIX, explosion())
    rounds, expected = 5_000, 1
    for k in range(6):
        expected = expected * (rounds + k) // (k + 1)
    assert result.n_rows == expected > 10**19
    with pytest.raises(OverflowError, match=r"n_rows"):
        len(result)
    assert repr(result).startswith(f"{expected:,} rows\n")
    assert len(result.head(5)) == 5
    sample = result.sample(200, seed=1)
    times = np.array([[row[name]["ts"] for name in "abcdef"] for row in sample.to_pylist()])
    assert (np.diff(times, axis=1) > 0).all()
    # Six points among all, in order: the k-th is at k sevenths, on average.
    assert np.allclose(times.mean(axis=0) / 30_000, np.arange(1, 7) / 7, atol=0.04)
    assert sum(written) < 1_000_000


def test_what_holds_of_few_is_walked_through() -> None:
    events = explosion(1_200)
    query = "SEQ(A a, B b) WHERE a.x = b.x - 1 AND a.x > 990 WITHIN 100000"
    whole = as_rows(sq.run(query, events).table)
    assert set(as_rows(sq.run(query, events).sample(50, seed=0))) == set(whole)


@pytest.mark.parametrize("unit", ["ns", "us", "ms", "s", "d"])
def test_every_unit(unit: str) -> None:
    events = sq.Events(stream(60).table, unit=unit)
    result = sq.run("SEQ(A a, B b) WITHIN 9", events)
    assert set(as_rows(result.sample(7, seed=1))) <= set(as_rows(result.table))


def test_points_in_time() -> None:
    data = stream(60).table
    moments = pa.array(np.asarray(data.column("ts")) * 1_000_000, pa.timestamp("us", "Europe/Berlin"))
    result = sq.run("SEQ(A a, B b) WITHIN 9 s", sq.Events(data.set_column(1, "ts", moments)))
    assert len(result.sample(7, seed=1)) == 7
    assert set(as_rows(result.sample(7, seed=1))) <= set(as_rows(result.table))


def test_aggregates_and_what_is_cut_short_are_sampled_of_their_rows() -> None:
    rows: Any = sq.run("SEQ(A a, B b) WITHIN 9 AGG COUNT(*)", stream(60))
    assert len(rows.sample(3, seed=1)) == 3
    cut = sq.run("SEQ(A a, B b) WITHIN 9", stream(60), max_matches=4, on_limit="truncate")
    assert len(cut) == len(cut.sample(10)) == 4
    assert len(sq.run("SEQ(A a, B b) WITHIN 9 LIMIT 6", stream(60))) == 6
