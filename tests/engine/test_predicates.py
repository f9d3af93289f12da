"""Values and predicates as in SQL, over every kind of column: nulls, NaN, moments, durations, decimals, wide numbers."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import seqube as sq
from seqube.engine.predicates import code_columns

# Two A and two B in turns: SEQ(A a, B b) has the pairs (0, 1), (0, 3) and (2, 3).
EVENTS = pa.table(
    {
        "type": ["A", "B", "A", "B"],
        "ts": [1, 2, 3, 4],
        "x": pa.array([1, None, 3, 4]),
        "y": pa.array([1.5, 2.0, float("nan"), None]),
        "s": ["p", None, "q", "p"],
        "f": [True, False, None, True],
        "day": pa.array([date(2024, 1, 1)] * 4),
        "at": pa.array([datetime(2024, 1, 1, 5, tzinfo=UTC)] * 4, pa.timestamp("ms", "Europe/Berlin")),
        "lag": pa.array([timedelta(seconds=3)] * 4),
        "cost": pa.array(["1.10", "2.10", "3.10", "4.10"]).cast(pa.decimal128(22, 2)),
        "huge": pa.array([2**64 - 1] * 4, pa.uint64()),
    }
)


@pytest.mark.parametrize(
    ("predicate", "n_matches"),
    [
        ("TRUE", 3),
        ("FALSE", 0),
        ("1 = 1", 3),
        ("NULL IS NULL", 3),
        # null is never equal, never different, and NOT does not change that
        ("a.x = NULL", 0),
        ("a.x + NULL = 1", 0),
        ("b.x != 4", 0),
        ("NOT b.x = 4", 0),
        ("b.x IS NULL", 1),
        ("b.x IS NOT NULL", 2),
        ("b.x IS NULL OR b.x > 3", 3),
        ("NOT (a.x = 1 AND b.x = 4)", 1),
        ("a.x BETWEEN 1 AND NULL", 0),
        ("a.s IN ('p', NULL)", 2),
        ("a.s NOT IN ('p', NULL)", 0),
        ("a.s NOT IN ('p')", 1),
        ("a.x IN (1, 2.5)", 2),
        # NaN is no number
        ("a.y > 1", 2),
        ("a.y IS NULL", 1),
        ("a.y != 7", 2),
        ("a.y = b.y", 0),
        ("a.f", 2),
        ("NOT a.f", 0),
        ("a.f = TRUE", 2),
        ("a.f = b.f", 1),
        # arithmetic
        ("a.x / 0 > 1", 0),
        ("a.x / 0 IS NULL", 3),
        ("a.x / 2 = 0.5", 2),
        ("a.x % 2 = 1", 3),
        ("-a.x % 2 = -1", 3),
        ("-a.x < 0", 3),
        ("a.x * 9223372036854775807 > 9000000000000000000", 3),
        ("b.x - a.x > 0", 2),
        ("a.x < 2.5", 2),
        # text
        ("a.s < b.s", 0),
        ("a.s > b.s", 1),
        ("a.s != b.s", 1),
        ("a.type = 'A'", 3),
        # moments and durations
        ("a.day > '2023-12-31'", 3),
        ("a.day = b.day", 3),
        ("a.at = '2024-01-01T05:00:00+00:00'", 3),
        ("a.at > '2024-01-01T05:00:00'", 3),  # in the column's zone: four o'clock in UTC
        ("a.at > '2024-01-01T06:00:00'", 0),
        ("a.at <= b.at", 3),
        ("b.at - a.at >= 0 s", 3),
        ("a.lag > 2 s", 3),
        ("a.lag = b.lag", 3),
        ("a.lag / 2 = 1500 ms", 3),
        ("a.lag / b.lag = 1", 3),
        ("a.at + 1 h > b.at", 3),
        ("b.ts - a.ts < 2 ms", 2),
        # decimals and integers beyond 64 bits
        ("a.cost = 1.1", 2),
        ("a.cost < b.cost", 3),
        ("a.huge > 5", 3),
        ("a.huge = b.huge", 3),
        # sides of different kinds of numbers
        ("a.x = b.cost", 0),
        ("a.x < b.y", 1),
    ],
)
def test_predicate(predicate: str, n_matches: int) -> None:
    assert len(sq.run(f"SEQ(A a, B b) WHERE {predicate} WITHIN 10", EVENTS)) == n_matches
    if not predicate.startswith("NULL"):
        nested = sq.run(f"SEQ(A a, B b, {predicate}) WITHIN 10", EVENTS)
        assert len(nested) == n_matches


def test_returned_values_keep_their_kind() -> None:
    text = """
        SEQ(A a, B b) WITHIN 10
        RETURN a.x + 1 AS n, a.y * 2 AS y, b.ts - a.ts AS ticks, a.at - b.at AS gap, a.s, a.type AS kind, a.lag * 2 AS twice
    """
    table = sq.run(text, EVENTS).table
    assert table.schema.types == [
        pa.int64(), pa.float64(), pa.int64(), pa.duration("us"), pa.string(), pa.string(), pa.duration("us")
    ]  # fmt: skip
    assert table.slice(0, 1).to_pylist() == [
        {"n": 2, "y": 3.0, "ticks": 1, "gap": timedelta(0), "a_s": "p", "kind": "A", "twice": timedelta(seconds=6)}
    ]


WHOLE = st.one_of(st.none(), st.integers(-3, 12), st.sampled_from([-(2**63), 2**63 - 1]))
ROWS = st.lists(st.tuples(WHOLE, st.sampled_from([None, "p", "q"])), max_size=30)


@given(ROWS, ROWS)
def test_codes_are_dense_and_equal_where_keys_are(
    left: list[tuple[int | None, str | None]], right: list[tuple[int | None, str | None]]
) -> None:
    """Numbers close together, far apart, with gaps and with nulls; over two tables."""
    tables = [
        [pa.array([row[0] for row in rows], pa.int64()), pa.array([row[1] for row in rows], pa.string())] for rows in (left, right)
    ]
    for columns in (slice(0, 1), slice(0, 2)):
        codes, n_codes = code_columns([table[columns] for table in tables])
        keys = [row[columns] for row in (*left, *right)]
        coded = [int(code) for part in codes for code in part]
        assert all((code == -1) == (None in key) for code, key in zip(coded, keys, strict=True))
        pairs = {(code, key) for code, key in zip(coded, keys, strict=True) if code >= 0}
        assert len(pairs) == len({code for code, _ in pairs}) == len({key for _, key in pairs})
        assert max(coded, default=-1) < n_codes <= max(1, len(coded))
