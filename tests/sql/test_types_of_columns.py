"""Columns of every type of Arrow: handed on as they are, partitioned and ordered by, compared beside rows and over bound ones."""

# ruff: noqa: E501 - a case is a line

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pytest

import seqube as sq
from seqube.engine.rows.clause import match_rows
from seqube.events.schema import sql_kind_of
from seqube.events.sources import plain_columns
from seqube.language.rows.binder import bind_clause
from seqube.plan.rows import plan_rows

DAYS = [datetime(2020, 1, 1), datetime(2020, 1, 3), datetime(2020, 1, 2)]  # noqa: DTZ001 - a column without a zone
LENGTHS = [timedelta(1), timedelta(3), timedelta(2)]
CLOCKS = [time(1), time(13, 30), time(2, 0, 1)]
BYTES = [b"aa", b"c\xff", b"b\x00"]
WHOLE = [1, 3, 2]
DECIMALS = [Decimal("-1.5"), Decimal("99.5"), Decimal(3)]


def column(kind: pa.DataType, values: list[Any]) -> pa.Array:
    return pa.array([*values, None], kind)


# A smallest value, a largest one, one between them, and null.
COLUMNS: dict[str, pa.Array] = {
    **{str(kind): column(kind, WHOLE) for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32())},
    "uint64": column(pa.uint64(), [1, 2**64 - 1, 2**63]),
    "float16": column(pa.float16(), [np.float16(value) for value in WHOLE]),
    **{str(kind): column(kind, [-0.5, 1e30, 0.25]) for kind in (pa.float32(), pa.float64())},
    **{
        str(kind): column(kind, DECIMALS)
        for kind in (pa.decimal32(5, 2), pa.decimal64(12, 1), pa.decimal128(3, 1), pa.decimal128(38, 10), pa.decimal256(40, 2))
    },
    "digits": column(pa.decimal128(38, 0), [Decimal(-(10**37)), Decimal("9" * 38), Decimal(10**37)]),
    **{str(kind): column(kind, [day.date() for day in DAYS]) for kind in (pa.date32(), pa.date64())},
    **{str(pa.timestamp(unit)): column(pa.timestamp(unit), DAYS) for unit in ("s", "ms", "us", "ns")},
    **{f"zoned {unit}": column(pa.timestamp(unit, "Europe/Berlin"), DAYS) for unit in ("s", "ms", "us", "ns")},
    **{str(pa.duration(unit)): column(pa.duration(unit), LENGTHS) for unit in ("s", "ms", "us", "ns")},
    **{str(kind): column(kind, CLOCKS) for kind in (pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns"))},
    **{str(kind): column(kind, ["", "ü", "a"]) for kind in (pa.string(), pa.large_string(), pa.string_view())},
    **{str(kind): column(kind, BYTES) for kind in (pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(2))},
    "uuid": pa.ExtensionArray.from_storage(pa.uuid(), column(pa.binary(16), [bytes([k]) * 16 for k in WHOLE])),
    "dictionary of texts": column(pa.string(), ["a", "c", "b"]).dictionary_encode(),
    "dictionary of numbers": column(pa.int64(), WHOLE).dictionary_encode(),
    "dictionary of bytes": column(pa.binary(), BYTES).dictionary_encode(),
    "run ends": pa.RunEndEncodedArray.from_arrays(pa.array([1, 2, 3, 4], pa.int32()), column(pa.int64(), WHOLE)),
}  # fmt: skip


def asked(rest: str, column: pa.Array) -> list[Any]:
    table = pa.table({"id": [1, 2, 3, 4], "x": column})
    return [tuple(row.values()) for row in sq.sql(f"SELECT * FROM t MATCH_RECOGNIZE ({rest})", t=table).to_pylist()]


def found_by_clause(rest: str, column: pa.Array) -> list[Any]:
    """The same without a statement around it."""
    table = plain_columns(pa.table({"id": [1, 2, 3, 4], "x": column}))
    clause = bind_clause(rest, {field.name: sql_kind_of(field.type) for field in table.schema})
    found = match_rows(plan_rows(clause), table)
    return list(zip(*(plain(found.column(name)) for name in found.column_names), strict=True))


def plain(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """The values, a UUID as DuckDB shows it."""
    return [str(value) if isinstance(value, UUID) else value for value in column.to_pylist()]


@pytest.mark.parametrize("name", COLUMNS)
def test_a_column_is_handed_on_and_compares(name: str) -> None:
    column = COLUMNS[name]
    least, most, middle, null = plain(column)
    measures = "FIRST(x) AS f, LAST(x, 1) AS l, COUNT(x) AS n, MIN(x) AS low, MAX(x) AS high, COUNT(DISTINCT x) AS d"
    found = asked(f"ORDER BY id MEASURES {measures} ALL ROWS PER MATCH PATTERN (a+)", column)
    assert found == [
        (1, least, None, 1, least, least, 1, least),
        (2, least, least, 2, least, most, 2, most),
        (3, least, most, 3, least, most, 3, middle),
        (4, least, middle, 3, least, most, 3, null),
    ]
    ids = "LISTAGG(CAST(id AS VARCHAR), '') AS ids"
    assert found_by_clause(f"ORDER BY x DESC MEASURES {ids} PATTERN (a+)", column) == [("2314",)]
    assert found_by_clause(f"ORDER BY x NULLS FIRST MEASURES {ids} PATTERN (a+)", column) == [("4132",)]
    parts = found_by_clause("PARTITION BY x ORDER BY id MEASURES COUNT(*) AS n PATTERN (a+)", column)
    assert parts == [(least, 1), (most, 1), (middle, 1), (null, 1)]
    beside = "DEFINE b AS x > PREV(x), c AS x < PREV(x)"
    assert found_by_clause(f"ORDER BY id MEASURES {ids}, COALESCE(PREV(x), x) AS k PATTERN (a b c) {beside}", column) == [
        ("123", most)
    ]
    bound = "DEFINE b AS x <> a.x AND MAX(x) >= x AND x IN (FIRST(x), LAST(x))"
    told = found_by_clause(f"ORDER BY id MEASURES {ids}, MAX(x) = LAST(x, 1) AS same PATTERN (a b+) {bound}", column)
    assert told == [("123", True)]


PASSED_ON: dict[str, pa.Array] = {
    "list": column(pa.list_(pa.int64()), [[1], [3, None], []]),
    "large list": column(pa.large_list(pa.string()), [["a"], ["c"], []]),
    "list of fixed size": column(pa.list_(pa.int64(), 1), [[1], [3], [2]]),
    "struct": column(pa.struct({"a": pa.int64(), "b": pa.string()}), [{"a": 1, "b": "p"}, {"a": 3, "b": None}, {"a": 2, "b": "q"}]),
    "map": column(pa.map_(pa.string(), pa.int64()), [[("a", 1)], [("a", 3)], []]),
    "interval": column(pa.month_day_nano_interval(), [(1, 2, 3000), (3, 2, 1000), (2, 2, 2000)]),
}  # fmt: skip


@pytest.mark.parametrize("name", PASSED_ON)
def test_nested_values_are_handed_on_and_do_not_compare(name: str) -> None:
    column = PASSED_ON[name]
    values = column.to_pylist()
    measures = "FIRST(x) AS f, LAST(x, 1) AS l, ARRAY_AGG(x) AS a, ANY_VALUE(x) AS v, COUNT(x) AS n, x IS NULL AS i"
    found = asked(f"ORDER BY id MEASURES {measures} ALL ROWS PER MATCH PATTERN (a+)", column)
    assert found == [
        (k + 1, values[0], values[k - 1] if k else None, values[: k + 1], values[0], min(k + 1, 3), k == 3, values[k]) for k in range(4)
    ]  # fmt: skip
    for refused in (
        "PARTITION BY x MEASURES id AS i PATTERN (a)",
        "ORDER BY x MEASURES id AS i PATTERN (a)",
        "MEASURES id AS i PATTERN (a) DEFINE a AS x = PREV(x)",
        "MEASURES MAX(x) AS i PATTERN (a)",
        "MEASURES COUNT(DISTINCT x) AS i PATTERN (a)",
    ):
        with pytest.raises(sq.QueryError, match="nested values or intervals of months"):
            found_by_clause(refused, column)


def test_nan_is_no_number_and_more_digits_than_there_are_is_said() -> None:
    assert asked(
        "ORDER BY id MEASURES COUNT(x) AS n, SUM(x) AS s PATTERN (a+)", column(pa.float64(), [1.0, float("nan"), 2.0])
    ) == [(2, 3.0)]
    with pytest.raises(sq.DataError, match="more than 38 digits"):
        asked("MEASURES x AS y PATTERN (a)", column(pa.decimal256(50, 0), [Decimal("9" * 50), Decimal(1), Decimal(2)]))


TIMES = pa.table({
    "id": [1, 2], "d": [date(2020, 1, 1), date(2020, 1, 3)], "t": CLOCKS[:2], "ts": [DAYS[0] + timedelta(hours=5), DAYS[1]], "b": [b"\x01", b"\x0a\xff"],
    "z": pa.array([datetime(2020, 1, 1, 23, 30), None], pa.timestamp("us", "Europe/Berlin")),  # noqa: DTZ001 - of UTC
})  # fmt: skip
LITERALS = [
    ("t > TIME '12:00:00'", [False, True]), ("t - FIRST(t)", [timedelta(0), timedelta(hours=12, minutes=30)]), ("CAST(ts AS TIME)", [time(5), time(0)]),
    ("CAST('13:30' AS TIME) = t", [False, True]), ("CAST('25:00' AS TIME)", [None, None]), ("CAST(t AS VARCHAR)", ["01:00:00", "13:30:00"]),
    ("GREATEST(t, TIME '02:00')", [time(2), time(13, 30)]), ("t BETWEEN TIME '01:00' AND TIME '02:00'", [True, False]),
    ("t IN (TIME '13:30:00', (SELECT TIME '00:30'))", [False, True]), ("b = X'0AFF'", [False, True]), ("b IN (X'01', X'02')", [True, False]),
    ("b > X'05'", [False, True]), ("CAST('p' AS BINARY) = X'70'", [True, True]), ("b < (SELECT '\\x05'::BLOB)", [True, False]), ("MAX(b)", [b"\x01", b"\x0a\xff"]),
    ("COALESCE(LAST(d), FIRST(d))", [date(2020, 1, 1), date(2020, 1, 3)]), ("CAST(ts AS DATE)", [date(2020, 1, 1), date(2020, 1, 3)]),
    ("MAX(CAST(ts AS DATE))", [date(2020, 1, 1), date(2020, 1, 3)]), ("CAST(z AS DATE)", [date(2020, 1, 2), None]), ("NULLIF(d, DATE '2020-01-03')", [date(2020, 1, 1), None]),
    ("CASE WHEN id > 1 THEN d END", [None, date(2020, 1, 3)]), ("d + INTERVAL '1' DAY", [DAYS[2], datetime(2020, 1, 4)]),  # noqa: DTZ001
    ("d = (SELECT DATE '2020-01-03')", [False, True]), ("CAST(ts AS DATE) = d", [True, True]),
]  # fmt: skip


@pytest.mark.parametrize(("value", "expected"), LITERALS)
def test_dates_times_of_day_and_bytes(value: str, expected: list[Any]) -> None:
    # From the table itself: DuckDB would hand out the zone of its session.
    rest = f"ORDER BY id MEASURES {value} AS m ALL ROWS PER MATCH PATTERN (a b)"
    assert sq.sql(f"SELECT m FROM t MATCH_RECOGNIZE ({rest})", t=TIMES)["m"].to_pylist() == expected


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("SUM(t)", "SUM of a time of day"), ("t = '13:30'", "TIME '12:30:00'"), ("b = 'x'", "X'0AFF'"), ("CAST(b AS VARCHAR)", "a binary value cannot be made a STRING"),
        ("CAST(id AS TIME)", "a number cannot be made a TIME"), ("b || b", "CONCAT of .* \\(a binary value\\)"), ("TIME 'noon'", "'noon' is not a time of day"),
        ("X'123'", "two digits for each byte"), ("TIMESTAMP 'soon'", "'soon' is not a date or time"), ("t + t", "a time of day \\+ a time of day has no meaning"),
        ("AVG(b)", "AVG of a binary value"),
    ],
)  # fmt: skip
def test_what_has_no_meaning_is_refused(value: str, message: str) -> None:
    with pytest.raises(sq.QueryError, match=message):
        sq.sql(f"SELECT m FROM t MATCH_RECOGNIZE (ORDER BY id MEASURES {value} AS m PATTERN (a b))", t=TIMES)


@pytest.mark.parametrize("order", ["n", "n DESC"])
@pytest.mark.parametrize(
    ("numbers", "within", "lengths"),
    [
        (pa.array([-(2**63), 5, 2**63 - 1]), "10", [1, 1, 1]),
        (pa.array([-(2**63), 5, 2**63 - 1]), "18446744073709551615", [1, 2]),
        (pa.array([-(2**63), 5, 2**63 - 1]), "1e300", [3]),
        (pa.array([0, 5, 2**64 - 1], pa.uint64()), "10", [1, 2]),
        (pa.array([2**53, 2**53 + 1, 2**53 + 3]), "1.5", [1, 2]),
        (pa.array([0.5, 1.5, 2.5e300]), "1.5", [1, 2]),
    ],
)
def test_no_distance_is_too_far_for_within(order: str, numbers: pa.Array, within: str, lengths: list[int]) -> None:
    clause = f"ORDER BY {order} MEASURES COUNT(*) AS k PATTERN (a+) WITHIN {within} DEFINE a AS TRUE"
    found = sq.sql(f"SELECT k FROM t MATCH_RECOGNIZE ({clause})", t=pa.table({"n": numbers}))
    assert sorted(found.column("k").to_pylist()) == lengths
