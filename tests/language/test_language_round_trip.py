"""A query's canonical text parses back to the same query."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import HealthCheck, given, settings
from query_trees import queries

from seqube.language import parse, tree
from seqube.language.tree import Attribute, Query, Type, Window
from seqube.language.writer import duration, write, write_predicate, write_value


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(queries())
def test_any_tree_survives_writing_and_parsing(query: Query) -> None:
    again = parse(write(query))
    assert again == query
    assert repr(again) == repr(query)  # 1, 1.0 and TRUE are equal in Python, but not the same query
    assert write(again) == write(query)


def test_text_is_canonical() -> None:
    text = "seq( A a,B, not C c, c.x==a.x and [id] ) where ((a.x<>-3)) and not (a.y or b.z) within 90 min return a.x as x,(a.x+1)*2"
    text = text.replace("b.z", "B.z")
    assert str(parse(text)) == (
        "PATTERN SEQ(A a, B, !C c, c.x = a.x, [id])\n"
        "WHERE a.x != -3 AND NOT (a.y OR B.z)\n"
        "WITHIN 90 min\n"
        "RETURN a.x AS x, (a.x + 1) * 2"
    )


@pytest.mark.parametrize(
    ("microseconds", "text"),
    [
        (0, "0 s"),
        (1, "1 us"),
        (1_500, "1500 us"),
        (60_000_000, "1 min"),
        (3_600_000_000, "1 hour"),
        (172_800_000_000, "2 days"),
        (-7_000, "-7 ms"),
    ],
)
def test_durations_take_the_largest_whole_unit(microseconds: int, text: str) -> None:
    assert duration(microseconds) == text


def test_parentheses_stand_only_where_needed() -> None:
    a = Attribute("a", "x")
    assert write_value(tree.Arithmetic("-", a, tree.Arithmetic("-", a, a))) == "a.x - (a.x - a.x)"
    assert write_value(tree.Arithmetic("-", tree.Arithmetic("-", a, a), a)) == "a.x - a.x - a.x"
    assert write_value(tree.Minus(tree.Minus(a))) == "-(-a.x)"
    both = tree.AllOf((tree.IsTrue(a), tree.AnyOf((tree.IsTrue(a), tree.IsTrue(a)))))
    assert write_predicate(both) == "a.x AND (a.x OR a.x)"


def test_default_variables_are_not_written() -> None:
    query = Query(tree.Seq((Type("A", "A"), Type("A", "b"))), Window(5, "ticks"))
    assert write(query) == "PATTERN SEQ(A, A b)\nWITHIN 5"
    assert parse(write(query)) == query


def test_queries_pickle_and_hash() -> None:
    query = parse("SEQ(A, B) WHERE A.x = B.x WITHIN 5 min")
    assert pickle.loads(pickle.dumps(query)) == query
    assert len({query, parse(str(query))}) == 1
