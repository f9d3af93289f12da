"""Random expressions of functions and operators, between two events and on one, hold where the oracle says so."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
from answers import assert_equal_matches
from strategies import Clock, clocks, streams

numbers = st.sampled_from(["a.x", "b.x", "a.id", "b.id", "a.y", "b.y", "0", "1", "-3", "2.5", "LENGTH(a.s)"])
texts = st.sampled_from(["a.s", "b.s", "a.k", "b.k", "'p'", "''", "'It''s '"])
comparators = st.sampled_from(["=", "!=", "<", "<=", ">", ">="])


def grow_numbers(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    one = st.sampled_from(["ABS", "ROUND", "FLOOR", "CEIL", "SIGN"])
    two = st.sampled_from(["COALESCE", "NULLIF", "LEAST", "GREATEST", "MOD"])
    return (
        st.builds("{}({})".format, one, inner)
        | st.builds("{}({}, {})".format, two, inner, inner)
        | st.builds("({} {} {})".format, inner, st.sampled_from(["+", "-", "*", "/", "%"]), inner)
        | st.builds("CASE WHEN {} {} {} THEN {} ELSE {} END".format, inner, comparators, inner, inner, inner)
    )


def grow_texts(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    one = st.sampled_from(
        ["LOWER({})", "UPPER({})", "TRIM({})", "SUBSTRING({}, 2, 2)", "REPLACE({}, 'p', 'qq')", "SUBSTRING({}, -1)"]
    )
    two = st.sampled_from(["({} || {})", "CONCAT({}, '-', {})", "COALESCE({}, {})", "NULLIF({}, {})", "LEAST({}, {})"])
    return st.builds(str.format, one, inner) | st.builds(str.format, two, inner, inner)


def grow_conditions(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.builds("({} {} {})".format, inner, st.sampled_from(["AND", "OR"]), inner) | st.builds("NOT ({})".format, inner)


of_numbers = st.recursive(numbers, grow_numbers, max_leaves=6)
of_texts = st.recursive(texts, grow_texts, max_leaves=4)
tests_of_texts = st.sampled_from(
    [
        "{} LIKE 'p%'", "{} ILIKE '%T_'", "{} IS NULL", "STARTS_WITH({}, 'p')", "ENDS_WITH({}, 'q')", "CONTAINS({}, 's')",
        "{} RLIKE '^[pq]+$'", "{} IN ('p', 'qq')", "{} IS DISTINCT FROM 'p'", "CAST({} AS BIGINT) IS NULL",
    ]
)  # fmt: skip
# Against numbers that none of these comes near to: the last digit of a logarithm is nobody's.
tests_of_numbers = st.sampled_from(
    [
        "SQRT({}) > 1.2345", "EXP({}) < 7.6543", "LN({}) > 0.3456", "LOG10({}) < 0.3456", "POWER({}, 3) > 3.3333",
        "POWER({}, -1) < 0.7654", "POWER({}, 0.5) > 1.2345",
    ]
)  # fmt: skip
simple = (
    st.builds("{} {} {}".format, of_numbers, comparators, of_numbers)
    | st.builds("{} {} {}".format, of_texts, comparators, of_texts)
    | st.builds("{} IS NOT DISTINCT FROM {}".format, of_numbers, of_numbers)
    | st.builds("{} BETWEEN {} AND {}".format, of_numbers, of_numbers, of_numbers)
    | st.builds(str.format, tests_of_texts, of_texts)
    | st.builds(str.format, tests_of_numbers, of_numbers)
)
conditions = st.recursive(simple, grow_conditions, max_leaves=3)
few = streams(max_size=8)


@given(condition=conditions, events=few)
def test_an_expression_holds_where_the_oracle_says(condition: str, events: list[oracle.Event]) -> None:
    assert_equal_matches(f"SEQ(A a, B b) WHERE {condition} WITHIN 99", events)


@pytest.mark.slow
@settings(max_examples=2_000)
@given(condition=conditions, events=few)
def test_two_thousand_expressions(condition: str, events: list[oracle.Event]) -> None:
    assert_equal_matches(f"SEQ(A a, B b) WHERE {condition} WITHIN 99", events)


# ---------------------------------------------------------------- times

a_time = st.sampled_from(["a.ts", "b.ts", "a.ts + 30 min", "b.ts - 1 day", "b.ts + (b.ts - a.ts)"])
units = ["second", "minute", "hour", "day", "week", "month", "quarter", "year"]
truncated = st.builds("DATE_TRUNC('{}', {})".format, st.sampled_from(units), a_time)
parts = st.sampled_from(["YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "DOW", "DOY", "HOUR", "MINUTE", "SECOND"])
of_times = (
    st.builds("{0} {1} {2}".format, truncated, comparators, truncated | a_time)
    | st.builds("EXTRACT({0} FROM {1}) {2} EXTRACT({0} FROM {3})".format, parts, a_time, comparators, a_time | truncated)
    | st.builds("EXTRACT({} FROM {}) % 5 {} 2".format, parts, truncated, comparators)
    | st.builds("{} - {} > 36 hours".format, a_time, truncated)
    | st.builds("COALESCE({}, {}) >= '1970-03-29 02:30'".format, truncated, a_time)
)


stretches = st.sampled_from([1, 1_799, 86_399, 2_700_001])  # seconds: half an hour, a day, a month


@given(condition=st.recursive(of_times, grow_conditions, max_leaves=3), events=few, clock=clocks, stretch=stretches)
def test_times_are_taken_apart_by_their_own_clocks(condition: str, events: list[oracle.Event], clock: Clock, stretch: int) -> None:
    seconds = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000}[clock.unit]
    apart = [replace(event, ts=event.ts * stretch * seconds) for event in events]
    assert_equal_matches(f"SEQ(A a, B b) WHERE {condition} WITHIN 1000 days", clock.moved(apart), clock=clock)
