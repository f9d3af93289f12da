"""Random expressions of functions and operators, between two events and on one, hold where the oracle says so."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
from answers import assert_equal_matches
from strategies import streams

numbers = st.sampled_from(["a.x", "b.x", "a.id", "b.id", "a.y", "b.y", "0", "1", "-3", "2.5", "LENGTH(a.s)"])
texts = st.sampled_from(["a.s", "b.s", "a.k", "b.k", "'p'", "''", "'It''s '"])
comparators = st.sampled_from(["=", "!=", "<", "<=", ">", ">="])


def grow_numbers(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    one = st.sampled_from(["ABS", "ROUND", "FLOOR", "CEIL", "SIGN"])
    two = st.sampled_from(["COALESCE", "NULLIF", "LEAST", "GREATEST"])
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
    two = st.sampled_from(["({} || {})", "COALESCE({}, {})", "NULLIF({}, {})", "LEAST({}, {})"])
    return st.builds(str.format, one, inner) | st.builds(str.format, two, inner, inner)


def grow_conditions(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.builds("({} {} {})".format, inner, st.sampled_from(["AND", "OR"]), inner) | st.builds("NOT ({})".format, inner)


of_numbers = st.recursive(numbers, grow_numbers, max_leaves=6)
of_texts = st.recursive(texts, grow_texts, max_leaves=4)
tests_of_texts = st.sampled_from(["{} LIKE 'p%'", "{} ILIKE '%T_'", "{} IS NULL", "STARTS_WITH({}, 'p')", "{} IN ('p', 'qq')"])
simple = (
    st.builds("{} {} {}".format, of_numbers, comparators, of_numbers)
    | st.builds("{} {} {}".format, of_texts, comparators, of_texts)
    | st.builds("{} IS NOT DISTINCT FROM {}".format, of_numbers, of_numbers)
    | st.builds("{} BETWEEN {} AND {}".format, of_numbers, of_numbers, of_numbers)
    | st.builds(str.format, tests_of_texts, of_texts)
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
