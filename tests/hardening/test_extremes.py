"""The ends of every range: times, numbers, sizes and names; answers are right there too, or there is a clear error."""

from __future__ import annotations

import datetime as dt
import math
import re
from dataclasses import replace
from decimal import Decimal
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
import seqube as sq
from aggregate_queries import assert_same_rows, with_aggregates
from answers import assert_equal_matches, show
from seqube.language import parse
from strategies import queries, streams, table

LOWEST, HIGHEST = -(2**63), 2**63 - 1
NAN, INF = float("nan"), float("inf")


def events_of(types: Any, times: Any, **columns: Any) -> pa.Table:
    return pa.table({"type": pa.array(types, pa.string()), "ts": pa.array(times, pa.int64()), **columns})


# ---------------------------------------------------------------- times

# Times 0 to 9 moved to the ends of 64 bits: all to one of them, or the first half to one and the second to the other.
ENDS = st.sampled_from(
    [
        lambda t: LOWEST + 1 + t,
        lambda t: HIGHEST - 10 + t,
        lambda t: LOWEST + 1 + t if t < 5 else HIGHEST - 10 + t,
        lambda t: -5 + t,
    ]
)
WIDE = st.sampled_from([HIGHEST, HIGHEST - 1, HIGHEST - 5, 2**62, 2**32, 5, 1])


def moved(events: list[oracle.Event], move: Any) -> list[oracle.Event]:
    return [replace(event, ts=move(event.ts)) for event in events]


def widened(text: str, window: int) -> str:
    before, _, after = text.partition("\nWITHIN ")
    _, newline, rest = after.partition("\n")
    return f"{before}\nWITHIN {window}{newline}{rest}"


@given(text=queries(counted=False), events=streams(), move=ENDS, window=WIDE)
def test_matches_at_the_ends_of_time(text: str, events: list[oracle.Event], move: Any, window: int) -> None:
    assert_equal_matches(widened(text, window), moved(events, move))


@given(data=st.data(), text=queries(counted=False, depth=2), events=streams(), move=ENDS, window=WIDE)
def test_aggregates_at_the_ends_of_time(data: st.DataObject, text: str, events: list[oracle.Event], move: Any, window: int) -> None:
    text = data.draw(with_aggregates(widened(text, window)))
    lines = [line for line in text.split("\n") if not line.startswith("EMIT EVERY")]
    lines[-1] = lines[-1] if "ts" not in lines[-1] else lines[-1].replace(".ts", ".x")
    text, events = "\n".join(lines).replace(".ts)", ".x)"), moved(events, move)
    show(text, events)
    assert_same_rows(sq.run(text, table(events)).table.to_pylist(), oracle.aggregates(parse(text), events))


def test_times_that_nothing_can_be_before_or_after_are_set_aside() -> None:
    result = sq.run("SEQ(A a, A b) WITHIN 9223372036854775807", events_of(["A"] * 4, [LOWEST, LOWEST + 1, -1, HIGHEST]))
    assert [(row["start"], row["end"]) for row in result.table.to_pylist()] == [(LOWEST + 1, -1)]
    assert result.rejected.count == 2


@pytest.mark.parametrize("unit", ["s", "ms", "us"])
def test_calendar_ends(unit: str) -> None:
    days = [dt.datetime.fromisoformat(day) for day in ("0001-01-01", "0001-01-02", "9999-12-30", "9999-12-31")]
    found = sq.run("SEQ(A a, A b) WITHIN 2 days", pa.table({"type": ["A"] * 4, "ts": pa.array(days, pa.timestamp(unit))}))
    assert [row["start"].year for row in found.table.to_pylist()] == [1, 9999]


@pytest.mark.parametrize("when", ["9999999-01-01", "-1", "", "0000-00-00", "2024-02-30"])
def test_times_that_are_none_are_set_aside(when: str) -> None:
    result = sq.run("A WITHIN 1 s", pa.table({"type": ["A", "A"], "ts": ["2024-01-01T00:00:00", when]}))
    assert (len(result), result.rejected.count) == (1, 1)


# ---------------------------------------------------------------- numbers

NUMBERS = [LOWEST, LOWEST + 1, -1, 0, 1, 2**53, 2**53 + 1, HIGHEST - 1, HIGHEST, None]
FLOATS = [NAN, INF, -INF, 0.0, -0.0, 5e-324, 1e308, -1e308, 2.0**63, 2.0**53 + 2, None]


PLAIN = ["x", "y", "u"]
LARGE = ["x + 1", "x - 1", "x * 3", "x * x", "u + 1", "u - x", "u % x", "x % u", "-u", "-x"]  # which leave 64 bits in some rows
DECIMAL = ["c", "c + x", "c * 0.5", "c % 7", "-c"]
OPERANDS = st.one_of(*(st.tuples(*map(st.sampled_from, pair)) for pair in ((PLAIN + LARGE,) * 2, (PLAIN + DECIMAL,) * 2)))


def extremes(seed: Random) -> dict[str, Any]:
    unsigned = [2**64 - 1, 2**64 - 2, 2**63, 2**53 + 1, 1, 0, None]
    decimals = [None, *map(Decimal, ["0.00", "1.00", "0.50", "-90071992547409.93", "90071992547409.92"])]
    return {"x": seed.choice(NUMBERS), "y": seed.choice(FLOATS), "u": seed.choice(unsigned), "c": seed.choice(decimals)}


@given(
    op=st.sampled_from(["=", "=", "!=", "<", "<=", ">", ">="]),
    operands=OPERANDS,
    seed=st.randoms(use_true_random=False),
    pattern=st.sampled_from(
        ["SEQ(A a, A b) WHERE {} WITHIN 100", "SEQ(A a, A b, {}) WITHIN 100", "SEQ(A a, !SEQ(A b, A c, {})) WITHIN 9"]
    ),
)
def test_comparisons_of_extreme_numbers(op: str, operands: tuple[str, str], seed: Random, pattern: str) -> None:
    """Numbers of every type with each other: where all are evaluated, in loops, as keys and tied to a negation."""
    events = oracle.stream(*(("A", ts, extremes(seed)) for ts in range(7)))
    sides = [re.sub(r"\b([xyuc])\b", rf"{variable}.\1", side) for variable, side in zip("ab", operands, strict=True)]
    assert_equal_matches(pattern.format(f"{sides[0]} {op} {sides[1]}"), events)


def test_sums_beyond_64_bits_are_exact() -> None:
    n = 100
    table = events_of(["A", "B"] * n, range(2 * n), x=pa.array([HIGHEST, LOWEST] * n, pa.int64()))
    (row,) = sq.run(
        "SEQ(A a, B b) WITHIN 1000 AGG SUM(a.x) AS a, SUM(b.x) AS b, AVG(a.x) AS m, COUNT EMIT TOTAL", table
    ).table.to_pylist()
    pairs = n * (n + 1) // 2
    assert (int(row["a"]), int(row["b"]), row["count"]) == (pairs * HIGHEST, pairs * LOWEST, pairs)
    assert row["m"] == float(HIGHEST)


@pytest.mark.parametrize("expression", ["a.x + 1", "a.x * 2", "a.x - -1", "-(-a.x - 1)", "a.x * a.x"])
def test_arithmetic_beyond_64_bits_is_an_error_or_a_double(expression: str) -> None:
    table = events_of(["A"], [0], x=pa.array([HIGHEST]))
    with pytest.raises(sq.DataError, match=r"v is a column of whole numbers, .* leaves 64 bits\n  hint: .* multiply by 1.0"):
        sq.run(f"A a WITHIN 1 RETURN {expression} AS v", table)
    exact = eval(expression.replace("a.x", str(HIGHEST)))
    (row,) = sq.run(f"A a WITHIN 1 RETURN {expression.replace('a.x', '(1.0 * a.x)')} AS v", table).table.to_pylist()
    assert math.isclose(row["v"], exact, rel_tol=1e-12)
    assert len(sq.run(f"A a WHERE {expression} > 0 WITHIN 1", table)) == 1  # never wrapped to a negative number


@pytest.mark.parametrize("expression", ["a.x % 0", "a.x / 0", "0 / 0 * a.x"])
def test_division_by_zero_is_null(expression: str) -> None:
    found = sq.run(f"A a WITHIN 1 RETURN {expression} AS v", events_of(["A"], [0], x=pa.array([HIGHEST])))
    assert found.table.to_pylist() == [{"v": None}]


@pytest.mark.parametrize("values", [[NAN, INF, 1.0], [NAN, NAN], [-INF, 1e308, None], [INF, INF], [-0.0, 0.0]])
def test_floats_that_are_no_numbers(values: list[float | None]) -> None:
    query = "A a WITHIN 1 AGG SUM(a.y) AS s, AVG(a.y) AS m, MIN(a.y) AS low, MAX(a.y) AS high, COUNT EMIT TOTAL"
    table = events_of(["A"] * len(values), range(len(values)), y=pa.array(values, pa.float64()))
    expected = oracle.aggregates(parse(query), oracle.stream(*(("A", ts, {"y": y}) for ts, y in enumerate(values))))
    assert_same_rows(sq.run(query, table).table.to_pylist(), expected)


# ---------------------------------------------------------------- sizes

QUERIES = [
    "SEQ(A a, B b) WITHIN 5",
    "SEQ(A a, !SEQ(B b, C c), D d) WITHIN 5 EVENTS",
    "AND(A a, !B b, OR(C c, D d)) WITHIN 5",
    "A WITHIN 1",
    "SEQ(A a, B b) WITHIN 5 AGG COUNT(*), SUM(a.x), MIN(b.x)",
    "SEQ(A a, B b) WITHIN 5 AGG COUNT(*) GROUP BY a.x EMIT EVERY 2",
    "SEQ(A a, AND(B b, C c)) WITHIN 5 AGG AVG(a.x) EMIT TOTAL",
]


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("types", ["", "A", "B", "Z", "AB", "BA", "AAAA"])
def test_few_events(query: str, types: str) -> None:
    events = oracle.stream(*((name, ts, {"x": ts}) for ts, name in enumerate(types)))
    stream = events_of(list(types), range(len(types)), x=pa.array(range(len(types)), pa.int64()))
    if "AGG" in query:
        assert_same_rows(sq.run(query, stream).table.to_pylist(), oracle.aggregates(parse(query), events))
    else:
        assert len(sq.run(query, stream)) == len(oracle.matches(parse(query), events))


@pytest.mark.parametrize("n", [10_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_many_types(n: int) -> None:
    names = [f"t{k}" for k in range(n)]
    stream = sq.Events(events_of(names * 2, range(2 * n)))
    assert len(sq.run(f"SEQ(t7 a, t{n - 1} b) WITHIN {n}", stream)) == 2
    assert len(sq.run(f"SEQ(t7 a, t{n - 1} b) WITHIN {3 * n}", stream)) == 3
    hierarchy = sq.Hierarchy.from_dict({"All": names})
    (row,) = sq.run("SEQ(All a, All b) WITHIN 10 EVENTS AGG COUNT EMIT TOTAL", stream, hierarchy=hierarchy).table.to_pylist()
    assert row["count"] == sum(min(9, k) for k in range(2 * n))


@pytest.mark.parametrize("n", [300, pytest.param(2_000, marks=pytest.mark.slow)])
def test_or_of_many(n: int) -> None:
    names = [f"t{k}" for k in range(n)]
    query = f"SEQ(S s, OR({', '.join(f'{name} v{k}' for k, name in enumerate(names))})) WITHIN 5000 RETURN s.ts AS ts"
    assert len(sq.run(query, events_of(["S", *names, *names], range(2 * n + 1)))) == 2 * n
    counting = query.replace("RETURN s.ts AS ts", "AGG COUNT EMIT TOTAL")
    assert sq.run(counting, events_of(["S", *names, *names], range(2 * n + 1))).table.to_pylist() == [{"count": 2 * n}]


def test_huge_lists() -> None:
    x = pa.array(range(50_000), pa.int64())
    table = events_of(["A"] * 50_000, range(50_000), x=x, s=x.cast(pa.string()))
    numbers = ", ".join(map(str, range(0, 100_000, 2)))
    assert len(sq.run(f"A a WHERE a.x IN ({numbers}) WITHIN 1", table)) == 25_000
    assert len(sq.run(f"A a WHERE a.x NOT IN ({numbers}) WITHIN 1", table)) == 25_000
    texts = ", ".join(f"'{number}'" for number in range(0, 60_000, 3))
    assert len(sq.run(f"A a WHERE a.s IN ({texts}) WITHIN 1", table)) == 16_667


def test_a_hundred_slots() -> None:
    slots = ", ".join(f"A a{k}" for k in range(100))
    assert len(sq.run(f"SEQ({slots}) WITHIN 1000", events_of(["A"] * 101, range(101)))) == 101


def test_duplicate_rows_are_events_of_their_own() -> None:
    table = events_of(["A", "A", "B", "B"], [0, 0, 1, 1], x=pa.array([1, 1, 2, 2]))
    assert len(sq.run("SEQ(A a, B b) WITHIN 5", table)) == 4
    assert sq.run("SEQ(A a, B b) WITHIN 5 AGG COUNT(*) EMIT TOTAL", table).table.to_pylist() == [{"count": 4}]


# ---------------------------------------------------------------- names

NAMES = [
    *("it's", 'say "x"', "back`tick", "Ünïcode ☃", "日本", "a.b", "SELECT", "SEQ", "within", "ER Triage"),
    *("-- name: x", "\u202eabc", "💩", "'", '"'),
]


@pytest.mark.parametrize("name", NAMES)
def test_any_text_names_a_type(name: str) -> None:
    quoted = '"' + name.replace('"', '""') + '"'
    query = f"SEQ({quoted} a, B b, a.type = '{name.replace(chr(39), chr(39) * 2)}') WITHIN 5"
    found = sq.run(query, events_of([name, "B"], [0, 1]))
    assert found.table.to_pylist()[0]["a"]["type"] == name
    assert parse(str(parse(query))) == parse(query)
    assert name in repr(found)


@pytest.mark.parametrize("name", [*NAMES, "where", "count", "start", "end", "a", "group", "null", "true", "events", "row"])
def test_any_text_names_a_column(name: str) -> None:
    quoted = '"' + name.replace('"', '""') + '"'
    table = events_of(["A", "B"], [0, 1]).append_column(name, pa.array([7, 7]))
    result = sq.run(f"SEQ(A a, B b, a.{quoted} = b.{quoted}) WITHIN 5", table)
    assert result.table.to_pylist()[0]["a"][name] == 7
    query = f"SEQ(A a, B b) WITHIN 5 PARTITION BY {quoted} AGG SUM(b.{quoted}) AS total GROUP BY a.{quoted} EMIT TOTAL"
    assert sq.run(query, table).table.column("total").to_pylist() == [7]


def test_html_in_values_stays_text() -> None:
    page = sq.run("A a WITHIN 1", events_of(["A"], [0], s=pa.array(["<script>alert(1)</script>"])))._repr_html_()
    assert "<script>" not in page
    assert "&lt;script&gt;" in page


def test_every_type_of_column() -> None:
    """Columns that no predicate can use travel through all the same."""
    n = 3
    columns = {
        "list": pa.array([[1], None, []]),
        "struct": pa.array([{"k": 1}, None, {"k": 2}]),
        "binary": pa.array([b"\xff", None, b""]),
        "decimal": pa.array([1, None, 2], pa.decimal128(38, 2)),
        "half": pa.array(np.array([1, 2, 3], np.float16)),
        "none": pa.nulls(n),
        "category": pa.array(["p", None, "q"]).dictionary_encode(),
        "day": pa.array([dt.date(1, 1, 1), None, dt.date(9999, 12, 31)]),
        "clock": pa.array([dt.time(0), None, dt.time(23, 59)]),
        "unsigned": pa.array([2**64 - 1, 0, 1], pa.uint64()),
    }
    result = sq.run("SEQ(A a, A b) WITHIN 5", events_of(["A"] * n, range(n), **columns))
    assert len(result) == 3
    assert result.table.to_pylist()[0]["a"]["binary"] == b"\xff"
    assert len(repr(result)) > 0


def test_a_nested_window_over_all_of_time() -> None:
    """Two events that are further apart than 64 bits hold."""
    ends = pa.table({"type": ["A", "B"], "ts": [-(2**63) + 2, 2**63 - 5]})
    for strategy in ("iterative", "aggressive", "passive", "balanced"):
        assert len(sq.run("SEQ(A a, OR(A b, B c)) WITHIN 4294967296", ends, strategy=strategy)) == 0
