"""Keys of a stream: a code that stays whatever batches it comes in, and a number for every event of its partition."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from time import process_time
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqube.engine.partitions import NOWHERE, KeyCodes, Partitions, number_events
from seqube.engine.predicates import code_columns
from seqube.errors import DataError
from seqube.events import Events

LARGE = 2**53 + 1  # no double holds it
LAST = 2**63 - 1

# Values that are equal or nearly so, and the types they may come in.
KINDS: list[tuple[pa.DataType, list[Any]]] = [
    (pa.int64(), [0, 1, -1, 3, LARGE, LARGE - 1, LAST, -LAST - 1]),
    (pa.int8(), [0, 1, -1, 3]),
    (pa.float64(), [0.0, -0.0, 1.0, -1.0, 3.0, float(LARGE - 1)]),
    (
        pa.decimal128(30, 2),
        [Decimal(0), Decimal("1.00"), Decimal(-1), Decimal("3.50"), Decimal(LARGE), Decimal(LAST), Decimal(LAST + 1)],
    ),
    (pa.decimal128(20, 9), [Decimal(0), Decimal(1), Decimal("3.5"), Decimal("0.000000015"), Decimal("-3.5")]),
    (pa.decimal256(60, 30), [Decimal(0), Decimal(1), Decimal("3.5"), Decimal("0.000000015"), Decimal(LAST + 1)]),
    (pa.uint64(), [0, 1, 3, LAST, LAST + 1, 2**64 - 1]),
]
TEXTS: list[tuple[pa.DataType, list[Any]]] = [
    (kind, ["", "a", "b", "ab", "a" * 40, "é"]) for kind in (pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string()))
]
SINGLE: list[tuple[pa.DataType, list[Any]]] = [
    (pa.bool_(), [True, False]),
    (pa.timestamp("us"), [datetime(1960, 1, 1), datetime(2026, 1, 1)]),  # noqa: DTZ001
    (pa.float64(), [0.5, -0.5, 1.0, float("inf"), 1e300, -1e300]),
    (pa.binary(), [b"", b"\0", b"\0\0"]),
]


@st.composite
def batches_of_keys(draw: st.DrawFn) -> list[list[pa.Array]]:
    """Batches of a key of one to three columns; a column may come in another type in every batch."""
    columns = [draw(st.sampled_from([KINDS, TEXTS, *([kind] for kind in SINGLE)])) for _ in range(draw(st.integers(1, 3)))]
    batches = []
    for _ in range(draw(st.integers(1, 5))):
        size = draw(st.integers(0, 6))
        batch = []
        for kinds in columns:
            kind, values = draw(st.sampled_from([*kinds, (pa.null(), [None])]))
            batch.append(pa.array(draw(st.lists(st.sampled_from([*values, None]), min_size=size, max_size=size)), kind))
        batches.append(batch)
    return batches


def expected(batches: list[list[pa.Array]]) -> list[list[int]]:
    known: dict[Any, int] = {}
    found = []
    for batch in batches:
        rows = zip(*(column.to_pylist() for column in batch), strict=True)
        found.append([NOWHERE if None in row else known.setdefault(row, len(known)) for row in rows])
    return found


@given(batches_of_keys())
def test_a_key_has_one_code_whatever_batch_and_type_it_comes_in(batches: list[list[pa.Array]]) -> None:
    codes = KeyCodes([str(k) for k in range(len(batches[0]))])
    assert [codes.code(batch).tolist() for batch in batches] == expected(batches)
    assert len(codes) == max((code for found in expected(batches) for code in found), default=-1) + 1


@given(batches_of_keys())
def test_one_batch_is_coded_like_all_that_are_kept(batches: list[list[pa.Array]]) -> None:
    (wanted,), _ = code_columns([batches[0]])
    (found,) = (KeyCodes([str(k) for k in range(len(batches[0]))]).code(batches[0]),)
    assert [(found[i] == found[j]) for i in range(len(found)) for j in range(i)] == [
        (wanted[i] == wanted[j]) for i in range(len(found)) for j in range(i)
    ]
    assert ((found < 0) == (wanted < 0)).all()


@given(st.lists(st.lists(st.one_of(st.none(), st.integers(0, 9), st.just(LARGE)), max_size=9), max_size=6), st.data())
def test_forgetting_keys_keeps_the_others(batches: list[list[int | None]], data: st.DataObject) -> None:
    codes, keys = KeyCodes(["k"]), []
    for batch in batches:
        column = pa.array(batch, pa.int64())
        keys += [key for key in dict.fromkeys(batch) if key is not None and key not in keys]
        assert codes.code([column]).tolist() == [NOWHERE if key is None else keys.index(key) for key in batch]
        assert codes.table.column("k").to_pylist() == keys
        kept = data.draw(st.lists(st.integers(0, len(keys) - 1), unique=True)) if keys else []
        renumbered = codes.keep(np.array(kept, np.int64))
        left = [key for code, key in enumerate(keys) if code in kept]
        assert renumbered.tolist() == [left.index(key) if key in left else NOWHERE for key in keys]
        keys = left


def test_many_keys_make_the_tables_grow() -> None:
    codes = KeyCodes(["word", "number"])
    numbers = np.arange(200_000)
    batch = [pa.array([f"w{number % 777}" for number in numbers]), pa.array(numbers)]
    assert (codes.code(batch) == numbers).all()
    assert (codes.code([column.slice(100_001, 500) for column in batch]) == numbers[100_001:100_501]).all()
    assert (KeyCodes.of(codes.table).code(batch) == numbers).all()


def test_doubles_and_decimals_of_one_key_are_refused() -> None:
    codes = KeyCodes(["amount"])
    codes.code([pa.array([0.5, 1.0])])
    codes.code([pa.array([Decimal("1.0")])])  # a whole number is one in every type
    with pytest.raises(
        DataError, match=r"column 'amount' is a key and came as doubles in one batch(.|\n)*hint: cast it to one type"
    ):
        codes.code([pa.array([Decimal("0.5")])])


def test_a_key_of_a_type_that_is_not_known_is_refused_by_name() -> None:
    with pytest.raises(DataError, match=r"column 'tags' is a key, and values of type list<item: int64>"):
        KeyCodes(["tags"]).code([pa.array([[1], [2]])])


def events_of(keys: list[int | None], since: int) -> Events:
    times = range(since, since + len(keys))
    return Events(pa.table({"type": ["A"] * len(keys), "ts": pa.array(times, pa.int64()), "k": pa.array(keys, pa.int64())}))


@given(st.lists(st.lists(st.one_of(st.none(), st.integers(0, 3)), max_size=6), max_size=5), st.booleans())
def test_events_are_numbered_on_from_batch_to_batch(batches: list[list[int | None]], partitioned: bool) -> None:
    partitions = Partitions(["k"] if partitioned else [])
    seen: dict[int | None, int] = {}
    for number, batch in enumerate(batches):
        wanted = []
        for key in batch:
            place = key if partitioned else 0
            wanted.append(NOWHERE if place is None else seen.get(place, 0))
            seen[place] = seen.get(place, 0) + 1
        assert partitions.number(partitions.code(events_of(batch, 10 * number))).tolist() == wanted
        partitions = Partitions.of(partitions.table)  # as a state that was written


def test_partitions_that_nothing_needs_are_forgotten_with_their_counts() -> None:
    partitions = Partitions(["k"])
    partitions.number(partitions.code(events_of([7, 8, 8, 9, 9, 9], 0)))
    assert partitions.keep(np.array([1, 2])).tolist() == [NOWHERE, 0, 1]
    assert partitions.number(partitions.code(events_of([7, 8, 9], 10))).tolist() == [0, 2, 3]


def test_events_at_hand_are_numbered_from_where_their_partitions_stand() -> None:
    codes = np.array([0, 2, -1, 0, 1, 0])
    assert number_events(codes, 6).tolist() == [0, 0, NOWHERE, 1, 0, 2]
    assert number_events(codes, 6, np.array([5, 7, 9, 6])).tolist() == [5, 7, NOWHERE, 6, 0, 7]
    assert number_events(None, 3, np.array([5, 6])).tolist() == [5, 6, 7]


def best_seconds(act: Callable[[], object]) -> float:
    times = []
    for _ in range(7):
        began = process_time()
        act()
        times.append(process_time() - began)
    return min(times)


def test_a_step_costs_its_own_rows_whatever_is_known() -> None:
    batch = [pa.array(np.arange(1_000) * 999_983 % 5_000)]
    few, many = KeyCodes(["k"]), KeyCodes(["k"])
    for codes, known in ((few, 5_000), (many, 500_000)):
        codes.code([pa.array(np.arange(known))])
    seconds = [best_seconds(lambda codes=codes: [codes.code(batch) for _ in range(50)]) for codes in (few, many)]
    assert seconds[1] < 3 * seconds[0]
