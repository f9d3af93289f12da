"""What every function gives, row by row: an expression over columns, what they hold, and its value.

The columns: `i`, `j` whole numbers, `x`, `y` doubles, `m` decimals, `s`, `r` texts, `f` booleans, `t` times in Berlin, `n` times without a
zone. A row that a function should not be asked of holds nulls.

`SPARK_SAYS` has the rows in which Spark SQL means something else; docs/functions.md says so too.
"""

# ruff: noqa: E501  (a row is a line)

from __future__ import annotations

import re
from datetime import datetime
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa

HIGH, LOW = 2**63 - 1, -(2**63)
NAN, INF = float("nan"), float("inf")
BERLIN = ZoneInfo("Europe/Berlin")
SCHEMA = {
    "i": pa.int64(), "j": pa.int64(), "x": pa.float64(), "y": pa.float64(), "m": pa.decimal128(10, 2), "s": pa.string(),
    "r": pa.string(), "f": pa.bool_(), "t": pa.timestamp("us", "Europe/Berlin"), "n": pa.timestamp("us"),
}  # fmt: skip


def at(text: str, fold: int = 0) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=BERLIN, fold=fold)


def naive(text: str) -> datetime:
    return datetime.fromisoformat(text)


SUMMER, WINTER = at("2026-10-25 02:30", 0), at("2026-10-25 02:30", 1)  # the hour that is there twice
MOMENT = at("2026-03-29 13:45:10.250000")
dec = Decimal

# (expression, [(columns, value), ...])
ROWS: list[tuple[str, list[tuple[dict[str, Any], Any]]]] = [
    ("ABS(i)", [({"i": -5}, 5), ({"i": 0}, 0), ({"i": HIGH}, HIGH), ({}, None)]),
    ("ABS(x)", [({"x": -2.5}, 2.5), ({"x": -INF}, INF), ({"x": NAN}, None), ({}, None)]),
    ("ABS(m)", [({"m": dec("-1.25")}, dec("1.25")), ({}, None)]),
    ("ABS(DATE_TRUNC('day', t) - t) > 2 hours", [({"t": MOMENT}, True), ({"t": at("2026-03-29 00:30")}, False), ({}, None)]),
    ("SIGN(i)", [({"i": -5}, -1), ({"i": 0}, 0), ({"i": HIGH}, 1), ({}, None)]),
    ("SIGN(x)", [({"x": -0.5}, -1.0), ({"x": 0.0}, 0.0), ({"x": INF}, 1.0), ({"x": NAN}, None)]),
    ("SIGN(m)", [({"m": dec("-0.01")}, -1), ({"m": dec("0.00")}, 0)]),
    ("ROUND(x)", [({"x": 2.5}, 3.0), ({"x": -2.5}, -3.0), ({"x": 0.49}, 0.0), ({"x": INF}, INF), ({"x": NAN}, None), ({}, None)]),
    ("ROUND(x, 1)", [({"x": 2.25}, 2.3), ({"x": 1e300}, 1e300), ({"x": -0.05}, -0.1)]),
    ("CAST(x AS DECIMAL(5, 2))", [({"x": 5e-324}, dec("0.00")), ({"x": -1.2345678901234567e-25}, dec("0.00")), ({"x": 999.994}, dec("999.99"))]),
    ("CAST(x AS DECIMAL(38, 36))", [({"x": 4.6e-37}, dec(0)), ({"x": 5e-37}, dec("1e-36")), ({"x": 12.5}, dec("12.5"))]),
    ("ROUND(x, 2)", [({"x": 1.005}, 1.0), ({"x": 3.14159}, 3.14)]),
    ("ROUND(x, -2)", [({"x": 1250.0}, 1300.0), ({"x": 49.0}, 0.0)]),
    ("ROUND(i, -2)", [({"i": 1250}, 1300), ({"i": -1250}, -1300), ({"i": 7}, 0), ({}, None)]),
    ("ROUND(i, 3)", [({"i": 7}, 7)]),
    ("ROUND(m, 1)", [({"m": dec("1.25")}, dec("1.3")), ({"m": dec("-1.25")}, dec("-1.3")), ({"m": dec("99999999.99")}, dec("100000000"))]),
    ("FLOOR(x)", [({"x": 2.7}, 2.0), ({"x": -2.1}, -3.0), ({"x": NAN}, None), ({}, None)]),
    ("CEIL(x)", [({"x": 2.1}, 3.0), ({"x": -2.7}, -2.0), ({}, None)]),
    ("FLOOR(i)", [({"i": HIGH}, HIGH)]),
    ("CEIL(i)", [({"i": LOW}, LOW)]),
    ("FLOOR(m)", [({"m": dec("-1.25")}, dec("-2"))]),
    ("CEIL(m)", [({"m": dec("99999999.99")}, dec("100000000"))]),
    ("SQRT(x)", [({"x": 2.25}, 1.5), ({"x": -1.0}, None), ({"x": INF}, INF), ({}, None)]),
    ("SQRT(i)", [({"i": 9}, 3.0)]),
    ("EXP(x)", [({"x": 0.0}, 1.0), ({"x": 1000.0}, INF), ({"x": -INF}, 0.0), ({}, None)]),
    ("LN(x)", [({"x": 1.0}, 0.0), ({"x": 0.0}, None), ({"x": -1.0}, None), ({"x": INF}, INF), ({}, None)]),
    ("LOG10(x)", [({"x": 1000.0}, 3.0), ({"x": 0.0}, None), ({}, None)]),
    ("POWER(x, y)", [({"x": 2.0, "y": 10.0}, 1024.0), ({"x": 0.0, "y": -1.0}, INF), ({"x": -8.0, "y": 0.5}, None), ({"x": 2.0}, None)]),
    ("POWER(i, 2)", [({"i": 3}, 9.0)]),
    ("MOD(i, j)", [({"i": 7, "j": 3}, 1), ({"i": -7, "j": 3}, -1), ({"i": 7, "j": 0}, None), ({"i": 7}, None)]),
    ("LEAST(i, j, 5)", [({"i": 7, "j": 3}, 3), ({"j": 9}, 5), ({}, 5)]),
    ("GREATEST(x, y)", [({"x": 1.5, "y": 2.5}, 2.5), ({"y": -1.0}, -1.0), ({"x": INF, "y": 0.0}, INF), ({}, None)]),
    ("GREATEST(x, y) IS NULL", [({"x": NAN}, True)]),
    ("GREATEST(s, r)", [({"s": "a", "r": "b"}, "b"), ({"s": "", "r": None}, ""), ({"s": "é", "r": "z"}, "é")]),
    ("LEAST(t, t + 1 sec)", [({"t": MOMENT}, MOMENT)]),
    ("COALESCE(i, j, 0)", [({"i": 1, "j": 2}, 1), ({"j": 2}, 2), ({}, 0)]),
    ("COALESCE(i, x)", [({"i": 1}, 1.0), ({"x": 2.5}, 2.5), ({"x": NAN}, None)]),
    ("COALESCE(s, '')", [({"s": "a"}, "a"), ({}, "")]),
    ("NULLIF(i, 0)", [({"i": 0}, None), ({"i": 1}, 1), ({}, None)]),
    ("NULLIF(s, '')", [({"s": ""}, None), ({"s": " "}, " "), ({}, None)]),
    ("i IS DISTINCT FROM j", [({"i": 1, "j": 1}, False), ({"i": 1, "j": 2}, True), ({"i": 1}, True), ({}, False)]),
    ("s IS NOT DISTINCT FROM r", [({"s": "", "r": ""}, True), ({"s": ""}, False), ({}, True)]),
    ("CASE WHEN i > 0 THEN 'up' WHEN i < 0 THEN 'down' ELSE 'flat' END", [({"i": 1}, "up"), ({"i": -1}, "down"), ({"i": 0}, "flat"), ({}, "flat")]),
    ("CASE WHEN i > 0 THEN x END", [({"i": 1, "x": 2.5}, 2.5), ({"i": 0, "x": 2.5}, None), ({"x": 2.5}, None)]),
    ("CASE WHEN f THEN i ELSE x END", [({"f": True, "i": 1}, 1.0), ({"f": False, "x": 0.5}, 0.5), ({"x": 0.5}, 0.5)]),
    ("CASE WHEN i BETWEEN 1 AND 3 OR s LIKE 'a%' THEN 1 ELSE 0 END", [({"i": 2}, 1), ({"s": "ab"}, 1), ({"i": 5}, 0), ({}, 0)]),
    ("LOWER(s)", [({"s": "ÄbC"}, "äbc"), ({"s": ""}, ""), ({}, None)]),
    ("UPPER(s)", [({"s": "äbc"}, "ÄBC"), ({"s": "ß"}, "ẞ"), ({}, None)]),
    ("TRIM(s)", [({"s": "  a b "}, "a b"), ({"s": "   "}, ""), ({"s": "\ta"}, "\ta"), ({}, None)]),
    ("LENGTH(s)", [({"s": "äöü"}, 3), ({"s": "😀"}, 1), ({"s": ""}, 0), ({}, None)]),
    ("SUBSTRING(s, 2)", [({"s": "äöü"}, "öü"), ({"s": "a"}, ""), ({}, None)]),
    ("SUBSTRING(s, 2, 2)", [({"s": "abcde"}, "bc"), ({"s": "ab"}, "b"), ({"s": ""}, "")]),
    ("SUBSTRING(s, 0, 2)", [({"s": "abc"}, "ab")]),
    ("SUBSTRING(s, -3, 2)", [({"s": "abcde"}, "cd"), ({"s": "ab"}, "a"), ({"s": ""}, "")]),
    ("SUBSTRING(s, -2)", [({"s": "abcde"}, "de"), ({"s": "a"}, "a")]),
    ("SUBSTRING(s, -2, 5)", [({"s": "abcde"}, "de")]),
    ("SUBSTRING(s, 1, -1)", [({"s": "abc"}, "")]),
    ("REPLACE(s, 'a', 'xy')", [({"s": "banana"}, "bxynxynxy"), ({"s": ""}, ""), ({}, None)]),
    ("REPLACE(s, '', 'x')", [({"s": "abc"}, "abc")]),
    ("CONCAT(s, '-', r)", [({"s": "a", "r": "b"}, "a-b"), ({"s": "", "r": ""}, "-"), ({"s": "a"}, None)]),
    ("s || r", [({"s": "a", "r": "b"}, "ab"), ({"r": "b"}, None)]),
    ("STARTS_WITH(s, 'ab')", [({"s": "abc"}, True), ({"s": "a"}, False), ({"s": ""}, False), ({}, None)]),
    ("ENDS_WITH(s, 'c')", [({"s": "abc"}, True), ({"s": ""}, False), ({}, None)]),
    ("CONTAINS(s, '.')", [({"s": "a.c"}, True), ({"s": "abc"}, False), ({}, None)]),
    ("CONTAINS(s, '')", [({"s": ""}, True), ({}, None)]),
    ("s LIKE 'a_c%'", [({"s": "abcd"}, True), ({"s": "a\nc"}, True), ({"s": "ac"}, False), ({"s": ""}, False), ({}, None)]),
    ("s LIKE '10\\%'", [({"s": "10%"}, True), ({"s": "100"}, False)]),
    ("s LIKE ''", [({"s": ""}, True), ({"s": "a"}, False)]),
    ("s LIKE 'a.c'", [({"s": "abc"}, False), ({"s": "a.c"}, True)]),
    ("s NOT LIKE 'a%'", [({"s": "b"}, True), ({"s": "ab"}, False), ({}, None)]),
    ("s ILIKE 'Ä%'", [({"s": "äb"}, True), ({"s": "ab"}, False), ({}, None)]),
    ("s RLIKE '^a+b?$'", [({"s": "aab"}, True), ({"s": "aac"}, False), ({"s": ""}, False), ({}, None)]),
    ("s RLIKE 'b'", [({"s": "abc"}, True)]),
    ("CAST(s AS BIGINT)", [({"s": " 42 "}, 42), ({"s": "-7"}, -7), ({"s": "+7"}, 7), ({"s": str(HIGH)}, HIGH), ({"s": str(HIGH + 1)}, None), ({"s": "abc"}, None), ({"s": ""}, None), ({}, None)]),
    ("CAST(x AS BIGINT)", [({"x": 2.9}, 2), ({"x": -2.9}, -2), ({"x": NAN}, None), ({}, None)]),
    ("CAST(m AS BIGINT)", [({"m": dec("2.99")}, 2), ({"m": dec("-2.99")}, -2)]),
    ("CAST(f AS BIGINT)", [({"f": True}, 1), ({"f": False}, 0), ({}, None)]),
    ("CAST(s AS DOUBLE)", [({"s": "1.5"}, 1.5), ({"s": " 1e3 "}, 1000.0), ({"s": "."}, None), ({"s": "abc"}, None), ({"s": ""}, None), ({}, None)]),
    ("CAST(m AS DOUBLE)", [({"m": dec("0.30")}, 0.3)]),
    ("CAST(s AS DECIMAL(5, 2))", [({"s": "1.255"}, dec("1.26")), ({"s": "999.99"}, dec("999.99")), ({"s": "1000"}, None), ({"s": "x"}, None)]),
    ("CAST(x AS DECIMAL(5, 2))", [({"x": 1.25}, dec("1.25")), ({"x": 1e9}, None), ({"x": NAN}, None)]),
    ("CAST(i AS STRING)", [({"i": -5}, "-5"), ({"i": HIGH}, str(HIGH)), ({}, None)]),
    ("CAST(x AS STRING)", [({"x": 1.5}, "1.5"), ({"x": 2.0}, "2.0"), ({"x": 1e20}, "1e+20"), ({}, None)]),
    ("CAST(m AS STRING)", [({"m": dec("1.50")}, "1.50")]),
    ("CAST(f AS STRING)", [({"f": True}, "true"), ({}, None)]),
    ("CAST(n AS STRING)", [({"n": naive("2026-03-29 01:02:03")}, "2026-03-29 01:02:03"), ({"n": naive("2026-03-29 01:02:03.500")}, "2026-03-29 01:02:03.5"), ({}, None)]),
    ("CAST(s AS BOOLEAN)", [({"s": "True"}, True), ({"s": " no "}, False), ({"s": "2"}, None), ({"s": ""}, None), ({}, None)]),
    ("CAST(i AS BOOLEAN)", [({"i": 2}, True), ({"i": 0}, False), ({}, None)]),
    ("EXTRACT(YEAR FROM t)", [({"t": MOMENT}, 2026), ({}, None)]),
    ("EXTRACT(QUARTER FROM t)", [({"t": MOMENT}, 1)]),
    ("EXTRACT(MONTH FROM t)", [({"t": MOMENT}, 3)]),
    ("EXTRACT(WEEK FROM t)", [({"t": MOMENT}, 13), ({"t": at("2027-01-01 00:00")}, 53)]),
    ("EXTRACT(DAY FROM t)", [({"t": MOMENT}, 29), ({"t": at("2026-03-30 00:30")}, 30)]),
    ("EXTRACT(DOW FROM t)", [({"t": MOMENT}, 1), ({"t": at("2026-03-30 00:30")}, 2)]),
    ("EXTRACT(DOY FROM t)", [({"t": MOMENT}, 88)]),
    ("EXTRACT(HOUR FROM t)", [({"t": MOMENT}, 13), ({"t": SUMMER}, 2), ({"t": WINTER}, 2)]),
    ("EXTRACT(MINUTE FROM t)", [({"t": MOMENT}, 45)]),
    ("EXTRACT(SECOND FROM t)", [({"t": MOMENT}, dec("10.25")), ({}, None)]),
    ("EXTRACT(HOUR FROM n)", [({"n": naive("1969-12-31 23:59:59")}, 23)]),
    ("DATE_TRUNC('hour', t)", [({"t": SUMMER}, at("2026-10-25 02:00", 0)), ({"t": WINTER}, at("2026-10-25 02:00", 1)), ({}, None)]),
    ("DATE_TRUNC('day', t)", [({"t": MOMENT}, at("2026-03-29 00:00")), ({"t": WINTER}, at("2026-10-25 00:00"))]),
    ("DATE_TRUNC('week', t)", [({"t": MOMENT}, at("2026-03-23 00:00"))]),
    ("DATE_TRUNC('month', t)", [({"t": MOMENT}, at("2026-03-01 00:00"))]),
    ("DATE_TRUNC('year', t)", [({"t": MOMENT}, at("2026-01-01 00:00"))]),
    ("EXTRACT(SECOND FROM DATE_TRUNC('second', n))", [({"n": naive("1969-12-31 23:59:59.999")}, 59)]),
]  # fmt: skip

SPARK_SAYS: dict[tuple[str, str], Any] = {
    ("CAST(x AS BIGINT)", "{'x': nan}"): 0,
    ("CAST(x AS STRING)", "{'x': 1e+20}"): "1.0E20",
    ("FLOOR(x)", "{'x': nan}"): 0,
    ("GREATEST(x, y) IS NULL", "{'x': nan}"): False,
    ("ROUND(x, 2)", "{'x': 1.005}"): 1.01,
    ("UPPER(s)", "{'s': 'ß'}"): "SS",
}

NAMES = re.compile(r"'[^']*'|\b[a-z]\b(?!\()")  # strings, which are left alone, and columns


def of(expression: str, prefix: str) -> str:
    """The expression with a column written in another way."""
    return NAMES.sub(lambda found: found[0] if found[0].startswith("'") else prefix.format(found[0]), expression)


def numbered() -> list[tuple[int, str, dict[str, Any], Any]]:
    flat = [(expression, columns, value) for expression, rows in ROWS for columns, value in rows]
    return [(number, *row) for number, row in enumerate(flat)]


def table() -> pa.Table:
    """A row of columns for each row above, as an event of type A, and as many of type B."""
    rows = numbered()
    columns = {name: pa.array([given.get(name) for _, _, given, _ in rows], kind) for name, kind in SCHEMA.items()}
    # A Spark table knows NaN from null, and so does this one.
    columns["row"] = pa.array(range(len(rows)), pa.int64())
    one = pa.table({"type": ["A"] * len(rows), "ts": pa.array([0] * len(rows), pa.int64()), **columns})
    other = one.set_column(0, "type", pa.array(["B"] * len(rows))).set_column(1, "ts", pa.array([1] * len(rows), pa.int64()))
    return pa.concat_tables([one, other]).combine_chunks()


def plain(value: Any) -> Any:
    """A value that is equal for equal answers."""
    if isinstance(value, float):
        return None if value != value else float(f"{value:.12g}") + 0.0
    if isinstance(value, Decimal):
        return float(value) if value != value.to_integral_value() else int(value)
    return value.astimezone(ZoneInfo("UTC")) if isinstance(value, datetime) and value.tzinfo else value
