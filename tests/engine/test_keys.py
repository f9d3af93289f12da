"""Keys are coded and sorted once for all queries over the same events, and it does not show in what comes out."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import seqube as sq
from seqube.engine import keys
from seqube.events.index import ENTRY_BYTES, Index

QUERIES = (
    "SEQ(A a, B b, [id]) WITHIN {} ms",
    "SEQ(A a, B b, C c, [id, size]) WITHIN {} ms",
    "SEQ(A a, C c, a.name = c.name AND a.size < c.size) WITHIN {} ms",
    "SEQ(A a, B b) PARTITION BY name WITHIN {} ms",
    "SEQ(A a, !B b, C c, [id]) WITHIN {} ms",
    "SEQ(A a, B b, [id]) WHERE a.size > 1 PARTITION BY name WITHIN {} ms",
    "SEQ(A a, ANY b, [id]) WITHIN {} ms",
    "SEQ(A a, B b) PARTITION BY id WITHIN {} EVENTS",
    "AND(A a, B b, [name]) WITHIN {} ms",
    "NEXT(A a, B+ b, [id]) PARTITION BY name WITHIN {} ms",
    "SEQ(A a, B b, [id]) WITHIN {} ms AGG COUNT GROUP BY a.name EMIT TOTAL",
    "SEQ(A a, B b) PARTITION BY id WITHIN {} EVENTS AGG COUNT",
)


def table_of(rows: list[tuple[str, int | None, str | None, float | None]]) -> pa.Table:
    types, ids, names, sizes = zip(*rows, strict=True) if rows else ((), (), (), ())
    columns = {
        "ts": pa.array(np.arange(len(rows)) // 2, pa.int64()),
        "type": pa.array(types, pa.string()),
        "id": pa.array(ids, pa.int64()),
        "name": pa.array(names, pa.string()),
        "size": pa.array(sizes, pa.float64()),
    }
    return pa.table(columns)


rows = st.tuples(
    st.sampled_from("ABCD"),
    st.sampled_from([None, 1, 2, 10**12, -(2**62)]),
    st.sampled_from([None, "x", "y", ""]),
    st.sampled_from([None, 0.0, -0.0, 2.0, float("nan")]),
)


@given(st.lists(rows, max_size=40), st.lists(st.tuples(st.sampled_from(QUERIES), st.integers(1, 30)), min_size=2, max_size=8))
@settings(deadline=None)
def test_queries_before_do_not_show(
    found: list[tuple[str, int | None, str | None, float | None]], asked: list[tuple[str, int]]
) -> None:
    table = table_of(found)
    shared = sq.Events(table)
    for query, window in asked:
        text = query.format(window)
        assert sq.run(text, shared).table.equals(sq.run(text, sq.Events(table)).table), text


@pytest.fixture
def coded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows were coded, each time."""
    found: list[int] = []
    code = keys.code_columns

    def counted(tables: list[list[pa.Array]]) -> tuple[list[keys.Ints], int]:
        found.append(sum(len(columns[0]) for columns in tables))
        return code(tables)

    monkeypatch.setattr(keys, "code_columns", counted)
    return found


def many(n: int = 600) -> sq.Events:
    random = np.random.default_rng(7)
    columns = {"ts": np.arange(n), "type": random.choice(list("ABCDEF"), n), "id": random.integers(0, 9, n)}
    return sq.Events(pa.table({name: pa.array(column) for name, column in columns.items()}))


def test_a_sequence_is_sorted_by_key_once_whatever_is_asked_about_it(coded: list[int]) -> None:
    events = many()
    assert len(sq.run("SEQ(A a, B b, [id]) WITHIN 50 ms", events).table)
    assert len(coded) == 1
    for query in ("SEQ(A a, B b, [id]) WITHIN 100 ms", "SEQ(A x, B y, [id], x.ts + 3 < y.ts) WITHIN 1 s"):
        assert len(sq.run(query, events).table)
    assert len(coded) == 1


def test_partitions_are_coded_once(coded: list[int]) -> None:
    events = many()
    for query in (
        "SEQ(A a, B b) PARTITION BY id WITHIN 50 ms",
        "SEQ(C a, B b) PARTITION BY id WITHIN 9 EVENTS",
        "AND(A a, D d) PARTITION BY id WITHIN 5 ms",
    ):
        assert len(sq.run(query, events).table)
    assert len([n for n in coded if n == len(events)]) == 1


def test_all_events_are_coded_once_as_many_were_asked_about(coded: list[int]) -> None:
    events = many()
    pairs = [f"SEQ({first} a, {second} b, [id]) WITHIN 50 ms" for first in "ABCDEF" for second in "ABCDEF" if first != second]
    for query in pairs:
        sq.run(query, events)
    assert coded[-1] == len(events)
    assert sum(coded) < 3 * len(events)


def test_few_events_among_many_are_coded_alone(coded: list[int]) -> None:
    n = 5_000
    types = np.where(np.arange(n) % 1_000 == 0, "A", np.where(np.arange(n) % 1_000 == 1, "B", "C"))
    events = sq.Events(pa.table({"ts": np.arange(n), "type": types, "id": np.arange(n) % 2_500}))
    sq.run("SEQ(C c, C d, [id]) WITHIN 10 s", events)
    sq.run("SEQ(C c, C d, C e, [id]) WITHIN 10 s", events)
    coded.clear()
    sq.run("SEQ(A a, B b, [id]) WITHIN 10 s", events)
    assert coded == [10]


# ---------------------------------------------------------------- the index


def test_what_is_in_the_index_is_only_read() -> None:
    (array,) = Index(1 << 10).find("it", lambda: (np.arange(3),))
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 1


def test_the_longest_unasked_makes_way() -> None:
    room = 2 * ENTRY_BYTES + 40  # for two arrays of two numbers
    index, made = Index(room), []

    def ask(what: str) -> None:
        def make() -> tuple[keys.Ints]:
            made.append(what)
            return (np.arange(2),)

        index.find(what, make)

    for what in "aba":
        ask(what)
    for what in "cabdb":
        ask(what)
    assert "".join(made) == "abcbd"
    assert index.n_bytes <= room


def test_what_is_larger_than_the_room_is_handed_out_and_kept_alone() -> None:
    index = Index(10)
    index.find("small", lambda: (np.arange(1),))
    (large,) = index.find("large", lambda: (np.arange(100),))
    assert len(large) == 100
    assert index.n_bytes == ENTRY_BYTES + large.nbytes


def test_threads_wait_for_what_one_of_them_makes() -> None:
    index, made = Index(1 << 10), []

    def make() -> tuple[keys.Ints]:
        made.append(1)
        time.sleep(0.01)
        return (np.arange(4),)

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: index.find("it", make)[0], range(32)))
    assert len(made) == 1
    assert all(array is found[0] for array in found)


def test_threads_share_the_index_of_events() -> None:
    events, queries = many(4_000), [query.format(50) for query in QUERIES if "name" not in query and "size" not in query]
    alone = [sq.run(query, sq.Events(events.table)).table for query in queries]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda query: sq.run(query, events).table, queries * 3))
    assert all(found.equals(table) for found, table in zip(together, alone * 3, strict=True))


def test_what_made_way_is_worth_as_much_as_at_first() -> None:
    index = Index(2 * ENTRY_BYTES)
    assert [index.is_worth("codes", 4, 10) for _ in range(3)] == [False, False, True]
    for what in ("codes", "more"):
        index.find(what, lambda: (np.arange(100),))
    assert [index.is_worth("codes", 4, 10) for _ in range(3)] == [False, False, True]
