"""Aggregates of expressions, and groups by them: of one event a column, of several a sum over events or a value of the match."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import oracle
import seqube as sq
from aggregate_queries import COUNTED, applies, assert_same_rows, chains, expected
from answers import show
from seqube.engine.aggregates.aggregation import Aggregator
from seqube.engine.aggregates.state import LiveCounts
from seqube.events import Events
from seqube.language import parse
from seqube.language.mentions import positives
from seqube.plan.aggregates import plan_aggregates
from seqube.plan.strategies import names
from steps import feed
from strategies import cuts, queries, streams, table

SINGLE = ["{a}.x * 2 + 1", "{a}.y * {a}.x", "ABS({a}.x)", "COALESCE({a}.x, 0) - {a}.ts", "{a}.c + {a}.c", "{a}.d * 2"]
SUMS = ["{b}.ts - {a}.ts", "{b}.x - {a}.x", "{a}.x + {b}.x * {b}.x - 3", "{b}.c - {a}.c + 1", "{b}.d - {a}.d", "-{a}.x - {b}.ts"]
OTHERS = ["ABS({b}.ts - {a}.ts)", "{a}.x * {b}.x", "({b}.ts - {a}.ts) / 2", "GREATEST({a}.x, {b}.x)", "{b}.y - {a}.x"]
COLLECTING = ["MEDIAN({})", "PERCENTILE({}, 0.9)", "PERCENTILE({}, 0)", "COUNT(DISTINCT {})", "FIRST({})", "LAST({})"]
OF_ANYTHING = ["COUNT(DISTINCT {})", "FIRST({})", "LAST({})"]
KEYS = ["UPPER({a}.s)", "{a}.x % 2", "{a}.ts / 4 > 1", "COALESCE({a}.id, 7)", "LENGTH({a}.s)"]


@st.composite
def of_expressions(draw: st.DrawFn, base: str, kinds: list[str]) -> str:
    """A query with aggregates of expressions of its variables, and often groups by some."""
    variables = [str(leaf.variable) for leaf in positives(parse(base).pattern) if not leaf.is_list]
    assume(variables)
    choose = st.sampled_from(variables)
    items = []
    for k, text in enumerate(draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=3))):
        value = text.format(a=draw(choose), b=draw(choose))
        functions = ["SUM", "AVG", "MIN", "MAX", "STDDEV"] if kinds is not SUMS else ["SUM", "AVG"]
        items.append(f"{draw(st.sampled_from(functions))}({value}) AS e{k}")
    if kinds is not SUMS and draw(st.booleans()):
        value = draw(st.sampled_from([*kinds, "{a}.x", "{a}.d"])).format(a=draw(choose), b=draw(choose))
        items += [f"{draw(st.sampled_from(COLLECTING)).format(value)} AS e9"]
        items += [f"{draw(st.sampled_from(OF_ANYTHING)).format(draw(choose) + '.' + draw(st.sampled_from('sfkux')))} AS e10"]
    lines = [base, "AGG " + ", ".join(["COUNT(*) AS n", *items])]
    if draw(st.booleans()):
        lines.append("GROUP BY " + draw(st.sampled_from(KEYS)).format(a=draw(choose)))
    return "\n".join([*lines, draw(st.sampled_from(["", "EMIT EVERY 3 ms", "EMIT PER 3 ms", "EMIT TOTAL"]))])


def plain_chain(text: str) -> str:
    """The pattern and the window alone."""
    return text.partition("\nAGG")[0]


@given(data=st.data(), base=queries(depth=2), events=streams(max_size=10))
def test_any_query_equals_the_oracle(data: st.DataObject, base: str, events: list[oracle.Event]) -> None:
    text = data.draw(of_expressions(base, SINGLE + SUMS + OTHERS))
    show(text, events)
    found = feed(Aggregator(plan_aggregates(parse(text))), Events(table(events)), data.draw(cuts(len(events))))
    assert_same_rows(found.to_pylist(), expected(text, events))


@pytest.mark.parametrize("strategy", COUNTED)
@given(data=st.data(), base=chains().map(plain_chain), events=streams(max_size=14, max_time=12))
def test_counted_without_matches(strategy: str, data: st.DataObject, base: str, events: list[oracle.Event]) -> None:
    """Whole, and in pieces with states that were bytes in between."""
    text = data.draw(of_expressions(base, SUMS) | of_expressions(base, SINGLE))
    assume(applies(text))
    show(text, events)
    operator = Aggregator(replace(plan_aggregates(parse(text)), strategy=strategy))
    wanted = expected(text, events)
    assert_same_rows(operator.run(Events(table(events))).to_pylist(), wanted)
    assert_same_rows(feed(operator, Events(table(events)), data.draw(cuts(len(events)))).to_pylist(), wanted)


# ---------------------------------------------------------------- by hand


def trips() -> pa.Table:
    seconds = [0, 10, 15, 40, 100, 130]
    return pa.table(
        {
            "type": ["go", "go", "stop", "stop", "go", "stop"],
            "ts": pa.array([1_000_000 * second for second in seconds], pa.timestamp("us")),
            "price": [1.5, 2.5, 3.0, 5.0, None, 4.0],
            "shares": [10, 20, 30, 40, 50, 60],
            "town": ["ulm", "Ulm", "bonn", "ulm", "ulm", None],
        }
    )


def rows(query: str, strategy: str = "auto", data: pa.Table | None = None) -> list[tuple[Any, ...]]:
    found = sq.run(query, trips() if data is None else data, strategy=strategy).table
    return [tuple(row.values()) for row in found.to_pylist()]


@pytest.mark.parametrize("strategy", names("aggregates"))
def test_the_mean_of_a_duration_is_a_duration(strategy: str) -> None:
    query = "SEQ(go a, stop b) WITHIN 1 min AGG AVG(b.ts - a.ts) AS mean, SUM(b.ts - a.ts) AS whole EMIT TOTAL"
    assert rows(query, strategy) == [(timedelta(seconds=24), timedelta(seconds=120))]  # 15, 5, 40, 30 and 30


@pytest.mark.parametrize("strategy", names("aggregates"))
def test_products_and_differences(strategy: str) -> None:
    query = "SEQ(go a, stop b) WITHIN 1 min AGG SUM(b.price * b.shares) AS worth, SUM(b.price - a.price) AS rise EMIT TOTAL"
    assert rows(query, strategy) == [(2 * 90.0 + 2 * 200.0 + 240.0, 1.5 + 0.5 + 3.5 + 2.5)]  # of the last pair a price is missing


def test_the_first_number_that_is_asked_for_builds_no_match() -> None:
    query = "SEQ(go a, stop b) WITHIN 1 min AGG AVG(b.ts - a.ts)"
    told = str(sq.explain(query, trips(), strategy="window-product"))
    assert "by window-product" in told
    assert "matches, counted without being built" in told
    operator = Aggregator(replace(plan_aggregates(parse(query)), strategy="window-product"))
    state, _ = operator.step(operator.start(), Events(trips()))
    assert isinstance(state, LiveCounts)  # and goes on over a stream


def test_explain_says_what_needs_matches_and_what_is_computed() -> None:
    told = str(sq.explain("SEQ(go a, stop b) WITHIN 1 min AGG AVG(ABS(b.price - a.price)) AS x EMIT TOTAL", trips()))
    assert "by two-step" in told
    assert "ABS(b.price - a.price) is a value of several events, of each match by itself" in told
    told = str(
        sq.explain("SEQ(go a, stop b) WITHIN 1 min AGG SUM(b.price * b.shares) AS x GROUP BY UPPER(a.town) EMIT TOTAL", trips())
    )
    assert "grouped by UPPER(a.town)" in told
    assert "b.price * b.shares is computed once for every event" in told
    assert "per-start" in told


@pytest.mark.parametrize("strategy", names("aggregates"))
def test_sums_are_exact_where_a_difference_leaves_64_bits(strategy: str) -> None:
    data = pa.table({"type": ["A", "B", "B"], "ts": [1, 2, 3], "x": [-(2**62), 2**62, 2**62]})
    assert rows("SEQ(A a, B b) WITHIN 5 AGG SUM(b.x - a.x) AS s EMIT TOTAL", strategy, data) == [(2**64,)]


def test_whole_numbers_that_leave_64_bits_in_an_event_are_an_error() -> None:
    data = pa.table({"type": ["A"], "ts": [1], "x": [2**62]})
    with pytest.raises(sq.DataError, match=r"a\.x \* 4 is a whole number, and somewhere leaves 64 bits"):
        rows("A a WITHIN 5 AGG SUM(a.x * 4) EMIT TOTAL", data=data)


def test_sums_of_doubles_that_nearly_cancel_are_exact() -> None:
    data = pa.table({"type": ["A", "A", "B"], "ts": [1, 2, 3], "x": [1e15, -1e15, 0.125]})
    for strategy in names("aggregates"):
        assert rows("SEQ(A a, B b) WITHIN 5 AGG SUM(a.x - b.x) AS s EMIT TOTAL", strategy, data) == [(-0.25,)]


@pytest.mark.parametrize("strategy", names("aggregates"))
@pytest.mark.parametrize("odd", [float("inf"), 1e-300])
def test_doubles_that_cannot_be_added_up_exactly_are_taken_match_by_match(strategy: str, odd: float) -> None:
    data = pa.table({"type": ["A", "A", "B"], "ts": [1, 2, 3], "x": [odd, 2.0, 0.5]})
    assert rows("SEQ(A a, B b) WITHIN 5 AGG SUM(a.x - b.x) AS s EMIT TOTAL", strategy, data) == [(odd + 1.0,)]


def test_groups_by_expressions() -> None:
    query = "SEQ(go a, stop b) WITHIN 1 min GROUP BY UPPER(a.town), EXTRACT(MINUTE FROM b.ts) AGG COUNT(*) AS n EMIT TOTAL"
    found = sq.run(query, trips()).table
    assert found.column_names == ["upper_a_town", "minute_b_ts", "n"]
    assert sorted(found.to_pylist(), key=str) == [
        {"upper_a_town": "ULM", "minute_b_ts": 0, "n": 4},
        {"upper_a_town": "ULM", "minute_b_ts": 2, "n": 1},
    ]


def test_a_group_by_what_the_trigger_says_alone_is_reported_at_zero() -> None:
    query = "SEQ(go a, stop b) WITHIN 1 s GROUP BY LENGTH(b.town) AGG COUNT(*) AS n"
    assert [row[1:] for row in rows(query)] == [(4, 0), (3, 0), (None, 0)]


def test_having_takes_expressions_too() -> None:
    query = "SEQ(go a, stop b) WITHIN 1 min GROUP BY b.town AGG COUNT(*) AS n HAVING AVG(b.ts - a.ts) > 20 s EMIT TOTAL"
    assert sorted(rows(query), key=str) == [("ulm", 2), (None, 1)]


@pytest.mark.parametrize(
    ("clauses", "said"),
    [
        ("AGG SUM(SUM(a.price))", "SUM stands inside a value of AGG"),
        ("AGG SUM(1 + 2)", "a value in AGG names no event"),
        ("AGG SUM(a.price + town)", "'town' stands inside a value of AGG"),
        ("AGG COUNT(*) GROUP BY a.shares + b.shares", "GROUP BY takes values of one event, and this is of a and b"),
        ("AGG SUM(UPPER(a.town))", "SUM of"),
        ("AGG SUM(a.ts)", "SUM of"),
    ],
)
def test_what_is_no_value_of_events_is_refused(clauses: str, said: str) -> None:
    with pytest.raises(sq.QueryError, match=said):
        rows(f"SEQ(go a, stop b) WITHIN 1 min {clauses}")


def test_a_list_stands_by_itself() -> None:
    with pytest.raises(sq.QueryError, match="'b' is a list, and stands beside other events"):
        rows("SEQ(go a, stop+ b) WITHIN 1 min AGG SUM(b.shares - a.shares) EMIT TOTAL")
    assert rows("SEQ(go a, stop+ b) WITHIN 20 s AGG SUM(b.shares * 2) AS s EMIT TOTAL") == [(120,)]


def test_durations_over_time_are_a_line_of_seconds() -> None:
    chart = sq.run("SEQ(go a, stop b) WITHIN 1 min AGG AVG(b.ts - a.ts) AS wait EMIT PER 1 min", trips()).plot().to_dict()
    assert chart["mark"]["type"] == "line"
    assert [row["value"] for row in chart["data"]["values"]] == [22.5, 30.0]


# ---------------------------------------------------------------- of all values


def test_medians_and_percentiles() -> None:
    agg = "MEDIAN(b.ts - a.ts) AS m, PERCENTILE(b.shares, 0.9) AS p, MEDIAN(b.price) AS x"
    query = f"SEQ(go a, stop b) WITHIN 1 min AGG {agg} EMIT TOTAL"
    assert rows(query) == [(timedelta(seconds=30), 52.0, 4.0)]  # of 5, 15, 30, 30, 40; 30, 30, 40, 40, 60; 3, 3, 4, 5, 5


def test_distinct_values_and_those_at_the_ends() -> None:
    agg = "COUNT(DISTINCT b.town) AS n, COUNT(DISTINCT UPPER(a.town)) AS u, FIRST(a.town), LAST(b.shares)"
    found = sq.run(f"SEQ(go a, stop b) WITHIN 1 min AGG {agg} EMIT TOTAL", trips()).table
    assert found.column_names == ["n", "u", "first_a_town", "last_b_shares"]
    assert [tuple(row.values()) for row in found.to_pylist()] == [(2, 1, "ulm", 60)]


def test_without_a_match_there_is_nothing_but_a_count() -> None:
    agg = "COUNT(DISTINCT a.town), MEDIAN(a.shares), FIRST(a.town), LAST(a.price)"
    assert rows(f"SEQ(go a, go b, go c) WITHIN 1 s AGG {agg} EMIT TOTAL") == [(0, None, None, None)]


def test_explain_says_that_all_values_are_needed() -> None:
    told = str(sq.explain("SEQ(go a, stop b) WITHIN 1 min AGG MEDIAN(b.price) AS m", trips()))
    assert "all values of b.price are needed, of each match by itself" in told


def test_a_share_may_be_a_parameter() -> None:
    query = "stop b WITHIN 1 s AGG PERCENTILE(b.shares, :p) AS x EMIT TOTAL"
    assert sq.run(query, trips(), params={"p": 0.5}).table.to_pylist() == [{"x": 40.0}]


@pytest.mark.parametrize(
    ("aggregate", "said"),
    [
        ("PERCENTILE(b.shares)", "PERCENTILE takes a value and a share"),
        ("PERCENTILE(b.shares, 90)", "PERCENTILE takes a share between 0 and 1"),
        ("MEDIAN(b.shares, 0.5)", "MEDIAN takes one value"),
        ("SUM(DISTINCT b.shares)", "SUM takes no DISTINCT"),
        ("MEDIAN(b.town)", "MEDIAN of"),
    ],
)
def test_what_is_wrong_with_them(aggregate: str, said: str) -> None:
    with pytest.raises(sq.QueryError, match=said):
        rows(f"stop b WITHIN 1 s AGG {aggregate} AS x EMIT TOTAL")


def test_a_written_query_is_read_the_same() -> None:
    agg = "AVG(b.ts - a.ts), SUM(-b.x * (a.x + 1)) AS s, COUNT(DISTINCT b.x), PERCENTILE(b.x, 0.25), LAST(a.s)"
    query = parse(f"SEQ(A a, B b) WITHIN 5 GROUP BY UPPER(a.s), b.x + 1 AGG {agg}")
    assert parse(str(query)) == query
    assert [output.name for output in query.aggregates] == ["avg_1", "s", "count_distinct_b_x", "percentile_b_x", "last_a_s"]
