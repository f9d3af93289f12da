"""Values of every type are exact, or a clear error: unsigned integers, decimals, dictionaries, moments, zones, durations."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

import seqube as sq

MAX = 2**63 - 1
STRATEGIES = ["auto", "two-step", "per-start", "window-product"]


def events_of(types: str, times: Any = None, **columns: Any) -> pa.Table:
    return pa.table({"type": list(types), "ts": range(len(types)) if times is None else times, **columns})


def run(query: str, table: pa.Table, **how: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = sq.run(query, table, **how).table.to_pylist()
    return rows


def u64(*values: int | None) -> pa.Array:
    return pa.array(values, pa.uint64())


def decimals(*values: str | None, precision: int = 12, scale: int = 2) -> pa.Array:
    return pa.array([None if value is None else Decimal(value) for value in values], pa.decimal128(precision, scale))


# ---------------------------------------------------------------- unsigned integers above 2^63


@pytest.mark.parametrize(
    "condition",
    ["[id]", "a.id = b.id", "a.id >= b.id", "NOT a.id < b.id", "a.id - 9223372036854775808 = b.id - 9223372036854775808"],
)
def test_unsigned_ids_are_told_apart(condition: str) -> None:
    table = events_of("ABB", id=u64(2**64 - 2, 2**64 - 1, 2**64 - 2))
    assert [row["end"] for row in run(f"SEQ(A a, B b, {condition}) WITHIN 10", table)] == [2]
    assert [row["end"] for row in run(f"SEQ(A a, B b) WHERE {condition} WITHIN 10", table)] == [2]


def test_unsigned_ids_cancel_only_their_own() -> None:
    table = events_of("ACB", id=u64(2**64 - 2, 2**64 - 1, 2**64 - 2))
    assert len(run("SEQ(A a, !C c, B b, [id]) WITHIN 10", table)) == 1
    assert len(run("SEQ(A a, !C c, B b, a.id = b.id, c.id = a.id) WITHIN 10 PARTITION BY type", table)) == 0
    assert run("SEQ(A a, !C c, B b, [id]) WITHIN 10 AGG COUNT(*) EMIT TOTAL", table) == [{"count": 1}]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_unsigned_groups_partitions_and_aggregates(strategy: str) -> None:
    table = events_of("ABAB", id=u64(2**64 - 2, 2**64 - 2, 2**64 - 1, 2**64 - 1))
    measures = "COUNT(*) AS n, SUM(b.id) AS s, MIN(b.id) AS low, MAX(a.id) AS high"
    query = f"SEQ(A a, B b) WITHIN 10 PARTITION BY id AGG {measures} GROUP BY id EMIT TOTAL"
    found = [{**row, "s": int(row["s"])} for row in run(query, table, strategy=strategy)]
    assert found == [{"id": v, "n": 1, "s": v, "low": v, "high": v} for v in (2**64 - 2, 2**64 - 1)]
    having = "MAX(b.id) = 18446744073709551615 AND MIN(a.id) < 18446744073709551615"
    query = f"SEQ(A a, B b) WITHIN 10 AGG COUNT(*) AS n GROUP BY a.id HAVING {having} EMIT TOTAL"
    assert run(query, table, strategy=strategy) == [{"a_id": 2**64 - 2, "n": 2}]


def test_unsigned_values_are_returned_as_they_are() -> None:
    for values in (u64(2**64 - 1, None), u64(1, None)):
        result = sq.run("A a WITHIN 1 RETURN a.id AS v", events_of("AA", id=values)).table
        assert result.column("v").type == pa.uint64()
        assert result.column("v").to_pylist() == values.to_pylist()
    assert run("A a WITHIN 1 RETURN a.id - 18446744073709551614 AS v", events_of("A", id=u64(2**64 - 1))) == [{"v": 1}]


# ---------------------------------------------------------------- decimals


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_decimals_are_summed_exactly(strategy: str) -> None:
    table = events_of("AAA", c=decimals("0.10", "0.20", "0.30"))
    query = "A a WITHIN 10 AGG SUM(a.c) AS s, AVG(a.c) AS m, MIN(a.c) AS low, MAX(a.c) AS high HAVING SUM(a.c) = 0.6 EMIT TOTAL"
    (row,) = run(query, table, strategy=strategy)
    assert row == {"s": Decimal("0.60"), "m": 0.2, "low": Decimal("0.10"), "high": Decimal("0.30")}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_wide_decimals_are_summed_exactly(strategy: str) -> None:
    large = "123456789012345678901234567890123456.78"
    table = events_of("ABABA", c=decimals(large, "0.01", "-" + large, None, "-0.03", precision=38))
    query = "SEQ(A a, B b) WITHIN 10 AGG SUM(a.c) AS s, MIN(a.c) AS low, MAX(a.c) AS high EMIT TOTAL"
    expected = {"s": Decimal(large), "low": Decimal("-" + large), "high": Decimal(large)}
    assert run(query, table, strategy=strategy) == [expected]
    assert run("A a WITHIN 10 AGG SUM(a.c) AS s EMIT TOTAL", table, strategy=strategy) == [{"s": Decimal("-0.03")}]


def test_decimals_in_keys_and_groups() -> None:
    near = ("9007199254740992.01", "9007199254740992.02", "9007199254740992.01")  # one double
    table = events_of("ABB", c=decimals(*near, precision=20))
    assert [row["end"] for row in run("SEQ(A a, B b, [c]) WITHIN 10", table)] == [2]
    assert len(run("SEQ(A a, B b) WITHIN 10 AGG COUNT(*) GROUP BY b.c EMIT TOTAL", table)) == 2
    assert len(run("SEQ(A a, B b) WITHIN 10 PARTITION BY c", table)) == 1
    assert len(run("SEQ(A a, B b, a.c = b.x) WITHIN 10", events_of("AB", c=decimals("5.00", "1.00"), x=[0, 5]))) == 1


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("a.c + b.c", Decimal("0.30")),
        ("a.c - 1", Decimal("-0.90")),
        ("a.c * b.c", Decimal("0.0200")),
        ("a.c * 0.1", Decimal("0.010")),
        ("-a.c", Decimal("-0.10")),
        ("1.25 % a.c", Decimal("0.05")),
        ("a.c / b.c", 0.5),
        ("a.c + 0.5 * b.y", 1.1),
    ],
)
def test_decimal_arithmetic_is_decimal(expression: str, value: Any) -> None:
    table = events_of("AB", c=decimals("0.10", "0.20"), y=[2.0, 2.0])
    assert run(f"SEQ(A a, B b) WITHIN 10 RETURN {expression} AS v", table) == [{"v": value}]


def test_a_number_next_to_a_decimal_is_read_as_it_is_written() -> None:
    table = events_of("A", c=decimals("0.10"))
    for condition in (
        "a.c = 0.1",
        "a.c IN (0.1)",
        "a.c + 0.2 = 0.3",
        "a.c BETWEEN 0.1 AND 0.1",
        "a.c NOT IN (0.10000000001, 1e300)",
    ):
        assert len(run(f"A a WHERE {condition} WITHIN 1", table)) == 1


def test_decimals_of_more_digits_than_there_are() -> None:
    table = events_of("A", c=decimals("9" * 30 + ".00", precision=38))
    with pytest.raises(sq.DataError, match=r"more than 76 digits\n  hint: divide by 1"):
        run("A a WHERE a.c * a.c * a.c > 0 WITHIN 1", table)
    assert len(run("A a WHERE a.c / 1 * a.c * a.c > 0 WITHIN 1", table)) == 1


# ---------------------------------------------------------------- integers and doubles


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("a.x = 9007199254740992.0", False),
        ("a.x != 9007199254740992.0", True),
        ("a.x > 9007199254740992.0", True),
        ("a.x IN (9007199254740992.0)", False),
        ("a.x NOT IN (9007199254740992.0)", True),
        ("a.x IN (1, 1e19)", False),
        ("a.x NOT IN (1, 1e19)", True),
        ("a.x IN (1, 9007199254740993)", True),
        ("a.x = a.y", False),
        ("a.x > a.y", True),
        ("a.x = b.y", False),
        ("a.x != b.y", True),
        ("b.y < a.x", True),
        ("a.y = 9007199254740993", False),
        ("a.y IN (9007199254740993)", False),
        ("a.y IN (9007199254740992)", True),
        ("a.x < 18446744073709551615", True),
        ("a.y < 18446744073709551615", True),
        ("a.x < 1e300", True),
        ("a.x > -1e300", True),
    ],
)
def test_integers_and_doubles_are_compared_exactly(condition: str, holds: bool) -> None:
    table = events_of("AB", x=[2**53 + 1, 0], y=[2.0**53, 2.0**53])
    for query in (f"SEQ(A a, B b) WHERE {condition} WITHIN 10", f"SEQ(A a, B b, {condition}) WITHIN 10"):
        assert len(run(query, table)) == holds
    if "b." in condition:
        negated = f"SEQ(A a, !C c, B b, {condition.replace('b.', 'c.')}) WITHIN 10"
        assert len(run(negated, events_of("ACB", x=[2**53 + 1, 0, 0], y=[2.0**53] * 3))) != holds


# ---------------------------------------------------------------- beyond 64 bits


@pytest.mark.parametrize("condition", ["a.x + 1 = b.x", "b.x = 1 + a.x", "a.x + 1 - b.x = 0", "a.x * 2 = b.x * 2 - 2"])
def test_overflow_in_one_row_changes_no_other(condition: str) -> None:
    table = events_of("AABB", x=[MAX, 2**53, 2**53, 2**53 + 1])
    assert [(row["a"]["x"], row["b"]["x"]) for row in run(f"SEQ(A a, B b, {condition}) WITHIN 10", table)] == [(2**53, 2**53 + 1)]
    assert [(row["a"]["x"], row["b"]["x"]) for row in run(f"SEQ(A a, B b) WHERE {condition} WITHIN 10", table)] == [
        (2**53, 2**53 + 1)
    ]


def test_what_leaves_64_bits_is_a_double() -> None:
    table = events_of("AB", x=[MAX, 5], y=[2.0**63, 2.0**63])
    assert len(run("SEQ(A a, B b) WHERE a.x + 1 = b.y AND a.x < b.y AND a.x + 1 IN (9223372036854775808.0) WITHIN 10", table)) == 1


# ---------------------------------------------------------------- time


@pytest.mark.parametrize("unit", ["us", "ms", "s"])
def test_a_period_by_a_period_is_a_number_with_integer_times(unit: str) -> None:
    ticks = {"us": 1_000_000, "ms": 1_000, "s": 1}[unit]
    table = events_of("AB", [0, 90 * ticks], x=[1, 2])
    query = "SEQ(A a, B b) WITHIN 10 min RETURN (b.ts - a.ts) / 1 s AS v, b.ts / 1 min AS m, b.ts % 1 min AS r, 1 min / 1 s AS p"
    assert run(query, table, unit=unit) == [{"v": 90.0, "m": 1.5, "r": 30 * ticks, "p": 60.0}]
    assert run("SEQ(A a, B b) WHERE (b.ts - a.ts) / 1 min = 1.5 WITHIN 10 min", table, unit=unit)


def test_numbers_of_periods_with_integer_times() -> None:
    assert run("A a WITHIN 1 RETURN a.ts + a.x * 1 ms AS v", events_of("A", [5], x=[3])) == [{"v": 8}]
    assert len(run("SEQ(A a, B b) WHERE b.ts - a.ts = a.x * 1 s WITHIN 1 h", events_of("AB", [0, 3000], x=[3, 0]))) == 1
    assert len(run("SEQ(A a, B b, b.ts = a.x * 1 s) WITHIN 1 h", events_of("AB", [0, 3000], x=[3, 0]))) == 1


def moments(*values: int, unit: str = "us", zone: str | None = None) -> pa.Array:
    return pa.array(values, pa.timestamp(unit, zone))


@pytest.mark.parametrize(
    "expression",
    [
        "(b.ts - a.ts) * 1000000000000",
        "(b.ts - a.ts) / 1e-13",
        "a.ts + 106751991 days",
        "b.lag * 9e18",
        "b.lag + 106751991 days",
        "-106751991 days - b.lag",
    ],
)
def test_durations_do_not_wrap(expression: str) -> None:
    table = events_of("AB", moments(1700 * 10**12, 1701 * 10**12), lag=pa.array([10**15, 10**15], pa.duration("us")))
    with pytest.raises(sq.DataError, match=r"longer or later than there is time for") as caught:
        run(f"SEQ(A a, B b) WITHIN 100 days RETURN {expression} AS v", table)
    assert "b.lag" in str(caught.value) or ".ts" in str(caught.value)
    assert "hint:" in str(caught.value)


@pytest.mark.parametrize("kind", [pa.duration("s"), pa.timestamp("s"), pa.timestamp("s", "Europe/Berlin"), pa.timestamp("ms")])
def test_columns_of_time_too_large_for_microseconds(kind: pa.DataType) -> None:
    table = events_of("A", v=pa.array([2**60], kind))
    with pytest.raises(sq.DataError, match=r"column 'v' has a value beyond .*\n  hint"):
        run("A a WHERE a.v = a.v WITHIN 1", table)


def test_remainders_of_durations() -> None:
    table = events_of("AB", moments(0, 90_000_000), lag=pa.array([-7, 7], pa.duration("s")))
    query = "SEQ(A a, B b) WITHIN 10 min RETURN (b.ts - a.ts) % 1 min AS v, a.lag % 2 s AS w, a.lag % 0 s AS z"
    assert run(query, table) == [{"v": timedelta(seconds=30), "w": timedelta(seconds=-1), "z": None}]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_durations_beyond_64_bits_in_aggregates(strategy: str) -> None:
    table = events_of("AA", lag=pa.array([MAX, MAX - 2], pa.duration("us")))
    with pytest.raises(sq.DataError, match=r"SUM\(a.lag\) leaves the range of its type, duration\[us\]\n  hint"):
        run("A a WITHIN 9 AGG SUM(a.lag) EMIT TOTAL", table, strategy=strategy)
    small = events_of("AAA", lag=pa.array([2**62, 2**62, None], pa.duration("us")))
    assert sq.run("A a WITHIN 9 AGG AVG(a.lag) AS m EMIT TOTAL", small, strategy=strategy).table.column("m").cast(
        pa.int64()
    ).to_pylist() == [2**62]


def test_nanoseconds_before_1970_round_down_everywhere() -> None:
    table = events_of("AB", moments(-1_500, -1_000, unit="ns"), at=moments(-1_500, -2_000, unit="ns"))
    assert len(run("SEQ(A a, B b) WITHIN 2 us", table)) == 1  # -2 us and -1 us
    assert (
        len(run("SEQ(A a, B b) WHERE b.ts - a.ts = 1 us AND a.ts = '1969-12-31T23:59:59.999998' AND a.at = b.at WITHIN 1 s", table))
        == 1
    )
    assert len(run("SEQ(A a, B b, a.at = b.at) WITHIN 1 s", table)) == 1
    (row,) = run("SEQ(A a, B b) WITHIN 1 s RETURN b.ts - a.ts AS gap, a.ts AS t", table)
    assert row == {"gap": timedelta(microseconds=1), "t": datetime.fromisoformat("1969-12-31T23:59:59.999998")}
    assert len(run("OR(A a, B b) WITHIN 1 s AGG COUNT(*) GROUP BY a.at EMIT TOTAL", table)) == 2


@pytest.mark.parametrize("zone", ["Europe/Berlin", "UTC", "-05:00"])
@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_zones_are_kept(unit: str, zone: str) -> None:
    noon = datetime(2024, 7, 1, 12, tzinfo=UTC)
    table = events_of("AB", pa.array([noon, noon + timedelta(hours=1)], pa.timestamp(unit, zone)))
    result = sq.run("SEQ(A a, B b) WITHIN 1 day RETURN a.ts AS t, a.ts + 1 h AS u, b.ts - a.ts AS d", table).table
    assert result.schema.types == [pa.timestamp("us", zone), pa.timestamp("us", zone), pa.duration("us")]
    assert result.to_pylist() == [{"t": noon, "u": noon + timedelta(hours=1), "d": timedelta(hours=1)}]
    for strategy in STRATEGIES:
        found = sq.run(
            "SEQ(A a, B b) WITHIN 1 day AGG MIN(a.ts) AS low, MAX(b.ts) AS high EMIT TOTAL", table, strategy=strategy
        ).table
        assert found.schema.types == [pa.timestamp("us", zone)] * 2
        assert found.to_pylist() == [{"low": noon, "high": noon + timedelta(hours=1)}]


def test_zones_are_compared_as_instants() -> None:
    noon = datetime(2024, 7, 1, 12, tzinfo=UTC)
    table = events_of(
        "AB", one=pa.array([noon] * 2, pa.timestamp("us", "Europe/Berlin")), two=pa.array([noon] * 2, pa.timestamp("ms", "UTC"))
    )
    for condition in ("a.one = b.two", "a.one - b.two = 0 s", "a.one IN ('2024-07-01T14:00:00+02:00')"):
        assert len(run(f"SEQ(A a, B b, {condition}) WITHIN 10", table)) == 1
    assert noon.astimezone(ZoneInfo("Europe/Berlin")) == noon


def test_a_text_time_beyond_the_calendar() -> None:
    table = events_of("A", moments(0))
    assert len(run("A a WHERE a.ts < '9999-12-31T23:59:59-01:00' AND a.ts > '0001-01-01T00:00:00+01:00' WITHIN 1 s", table)) == 1


@pytest.mark.parametrize(
    ("unit", "every", "step_us"), [("s", "1500 ms", 1_500_000), ("ms", "500 us", 500), ("s", "2 s", 2_000_000)]
)
def test_reports_between_the_units_of_time(unit: str, every: str, step_us: int) -> None:
    table = events_of("AB", moments(0, 1, unit=unit, zone="Europe/Berlin"))
    found = sq.run(f"SEQ(A a, B b) WITHIN 1 h AGG COUNT(*) AS n EMIT EVERY {every}", table).table
    assert found.column("ts").type == pa.timestamp("us" if "500" in every else unit, "Europe/Berlin")
    times = found.column("ts").cast(pa.timestamp("us", "UTC")).cast(pa.int64()).to_pylist()
    assert times == [step_us * k for k in range(len(times))]
    assert found.column("n").to_pylist()[-1] == 1


# ---------------------------------------------------------------- dictionaries and nulls


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_dictionaries_are_what_they_stand_for(strategy: str) -> None:
    table = events_of("ABAB", v=pa.array(["p", "q", "q", "q"]).dictionary_encode(), w=pa.array(["p", "q", "q", "q"]))
    for query in (
        "SEQ(A a, B b, [{}]) WITHIN 10 AGG COUNT(*) AS n",
        "SEQ(A a, B b) WITHIN 10 PARTITION BY {} AGG COUNT(*) AS n GROUP BY {} EMIT TOTAL",
        "SEQ(A a, B b) WITHIN 10 AGG COUNT(*) AS n GROUP BY b.{} EMIT TOTAL",
    ):
        expected = run(query.replace("{}", "w"), table, strategy=strategy)
        assert [list(row.values()) for row in run(query.replace("{}", "v"), table, strategy=strategy)] == [
            list(row.values()) for row in expected
        ]


@pytest.mark.parametrize(
    "query", ["SEQ(A a, !SEQ(B b, C c, [{}]), D d, [{}]) WITHIN 10", "SEQ(A a, !SEQ(B b, C c, b.{} = a.{}), D d) WITHIN 10"]
)
def test_dictionaries_in_nested_queries(query: str) -> None:
    column = pa.array(["p", "p", "q", "p"])
    table = events_of("ABCD", v=column.dictionary_encode(), w=column)
    assert len(run(query.replace("{}", "v"), table)) == len(run(query.replace("{}", "w"), table))


def test_a_dictionary_in_returned_values_and_totals_of_pieces() -> None:
    table = events_of("AB", v=pa.array([2**64 - 1, None], pa.uint64()).dictionary_encode())
    assert run("SEQ(A a, B b) WITHIN 10 RETURN a.v AS v, b.v AS w", table) == [{"v": 2**64 - 1, "w": None}]


@pytest.mark.parametrize(
    "condition",
    ["a.v = 1", "a.v = b.v", "a.v < 'x'", "[v]", "a.v", "NOT a.v", "a.v IN (1, 2)", "a.v NOT IN ('p')", "a.v + 1 = 2",
     "a.v BETWEEN 1 AND 2", "a.v + a.v = 0",
     "a.v > '2024-01-01'", "a.v > 3 s", "a.v = a.ts", "a.ts + a.v > 0", "a.v AND a.v", "-a.v = 1", "b.v + 1 = a.ts"],
)  # fmt: skip
@pytest.mark.parametrize("timed", [False, True])
def test_a_column_of_nulls_is_never_true(condition: str, timed: bool) -> None:
    if timed and condition == "a.ts + a.v > 0":
        condition = "a.ts + a.v > '1970-01-01'"
    table = events_of("AB", moments(0, 1) if timed else None, v=pa.nulls(2))
    for query in (
        f"SEQ(A a, B b) WHERE {condition} WITHIN 10 s",
        f"SEQ(A a, B b, {condition}) WITHIN 10 s",
        f"SEQ(A a, B b) WHERE NOT ({condition}) WITHIN 10 s",
    ):
        if not ("NOT" in query and "[v]" in query):
            assert run(query, table) == []
    assert len(run("SEQ(A a, B b) WHERE a.v IS NULL WITHIN 10 s", table)) == 1


def test_a_column_of_nulls_in_results() -> None:
    table = events_of("AB", v=pa.nulls(2))
    assert run("SEQ(A a, B b) WITHIN 10 RETURN a.v AS v", table) == [{"v": None}]
    query = "SEQ(A a, B b) WITHIN 10 AGG SUM(a.v) AS s, MIN(a.v) AS m, COUNT(*) AS n GROUP BY b.v EMIT TOTAL"
    assert run(query, table) == [{"b_v": None, "s": None, "m": None, "n": 1}]
    assert run("SEQ(A a, B b) WITHIN 10 PARTITION BY v", table) == []


def test_values_of_lists_are_those_of_their_columns() -> None:
    table = pa.table({"type": ["D", "D"], "ts": [1, 2], "u": pa.array([2**64 - 1, 5], pa.uint64())})
    rows = sq.run("SEQ(D{2} d) WITHIN 3 RETURN FIRST(d.u) AS first, MIN(d.u) AS least, MAX(d.u) AS most, d.u AS all", table).table
    assert rows.to_pylist() == [{"first": 2**64 - 1, "least": 5, "most": 2**64 - 1, "all": [2**64 - 1, 5]}]
