"""GROUP BY a.type AT 1: groups by what stands above the types, on one level of the hierarchy; GROUPBY TX, OK: by the types."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
import seqube as sq
from aggregate_queries import assert_same_rows, expected
from answers import show
from seqube.engine.aggregates.aggregation import Aggregator
from seqube.events import Events
from seqube.language import parse
from seqube.plan.optimizer import plan_query
from seqube.plan.strategies import names
from steps import feed
from strategies import concepts, cuts, hierarchies, streams, table

STATES = {"TX": {"D": ["DBus", "DHospital"], "A": []}, "OK": ["T"]}


@st.composite
def leveled(draw: st.DrawFn, tree: Any) -> str:
    """Aggregates of a chain, by levels of one or two of its components."""
    name = st.sampled_from([*concepts(tree), "ANY"])
    level = st.sampled_from(["1", "2", "3", "LEAF"])
    keys = [f"{variable}.type AT {draw(level)}" for variable in draw(st.sampled_from(["a", "b", "ab", "ba"]))]
    negated = draw(st.sampled_from(["", "", "!C c, "]))
    function = draw(st.sampled_from(["COUNT(*)", "COUNT(*)", "SUM(b.x) AS s"]))
    emit = draw(st.sampled_from(["", "EMIT EVERY 3 ms", "EMIT PER 3 ms", "EMIT TOTAL", "EMIT TOTAL"]))
    where = draw(st.sampled_from(["", ", [id]"]))
    return f"SEQ({draw(name)} a, {negated}{draw(name)} b{where}) WITHIN 6 ms AGG {function} GROUP BY {', '.join(keys)} {emit}"


@pytest.mark.parametrize("strategy", names("aggregates"))
@given(data=st.data(), tree=hierarchies(), events=streams(max_size=12, max_time=12))
def test_levels_equal_the_oracle_whole_and_cut(strategy: str, data: st.DataObject, tree: Any, events: list[oracle.Event]) -> None:
    text = data.draw(leveled(tree))
    show(text, events, tree)
    hierarchy = sq.Hierarchy.from_dict(tree) if tree else None
    operator = Aggregator(plan_query(parse(text), hierarchy, strategy=strategy))
    wanted = expected(text, events, tree)
    assert_same_rows(operator.run(Events(table(events))).to_pylist(), wanted)
    assert_same_rows(feed(operator, Events(table(events)), data.draw(cuts(len(events)))).to_pylist(), wanted)


@given(data=st.data(), tree=hierarchies(), events=streams(max_size=12, max_time=12))
def test_the_name_of_a_component_stands_for_its_type(data: st.DataObject, tree: Any, events: list[oracle.Event]) -> None:
    """The E-Cube paper's GROUPBY TX, OK: what the pairs of events themselves add up to, and as with the types written out."""
    first, second = data.draw(st.permutations(sorted(set(concepts(tree)))))[:2]
    one, other = data.draw(st.sampled_from([("", ""), (" a", " b"), ("", " b")]))
    text = f"SEQ({first}{one}, {second}{other}) WITHIN 6 ms GROUPBY {first}, {second} AGG COUNT(*) AS n EMIT TOTAL"
    show(text, events, tree)
    hierarchy = sq.Hierarchy.from_dict(tree) if tree else None
    starts, ends = (hierarchy.covers(name) if hierarchy and name in hierarchy else {name} for name in (first, second))
    pairs = [(a.type, b.type) for a in events if a.type in starts for b in events if b.type in ends and 0 < b.ts - a.ts < 6]
    found = sq.run(text, table(events), hierarchy=hierarchy).table.to_pylist()
    assert {tuple(row.values())[:-1]: row["n"] for row in found} == Counter(pairs)
    assert_same_rows(found, expected(text, events, tree))
    assert parse(text) == parse(text.replace(f"GROUPBY {first}, {second}", f"GROUP BY {one or first}.type, {other or second}.type"))


def counts(keys: str, tree: Any = STATES) -> dict[tuple[str, ...], int]:
    """How many pairs of a stop and a later one there are, by groups."""
    stops = pa.table({"type": ["DBus", "A", "DHospital", "X", "T", "D"], "ts": range(6)})
    hierarchy = sq.Hierarchy.from_dict(tree) if tree else None
    found = sq.run(f"SEQ(ANY a, ANY b) WITHIN 9 AGG COUNT(*) AS n GROUP BY {keys} EMIT TOTAL", stops, hierarchy=hierarchy).table
    return {tuple(row.values())[:-1]: row["n"] for row in found.to_pylist()}


def test_levels_count_from_the_top_and_a_type_above_them_stays() -> None:
    assert counts("a.type AT 1") == {("TX",): 12, ("X",): 2, ("OK",): 1}
    assert counts("a.type AT 2") == {("D",): 8, ("A",): 4, ("X",): 2, ("T",): 1}
    assert counts("a.type AT 3") == counts("a.type AT LEAF") == counts("a.type") == counts("TYPE(a) AT 99")
    assert counts("a.type AT 1, b.type AT 2")["TX", "D"] == 5
    assert counts("a.type AT 1", None) == counts("a.type")


def test_columns_are_named_after_the_level() -> None:
    query = "A a WITHIN 9 AGG COUNT(*) GROUP BY a.type AT 1, a.type AT 2, a.type AT LEAF EMIT TOTAL"
    found = sq.run(query, pa.table({"type": ["A"], "ts": [1]}), hierarchy=sq.Hierarchy.from_dict(STATES)).table
    assert found.to_pylist() == [{"a_type_at_1": "TX", "a_type_at_2": "A", "a_type": "A", "count": 1}]


def test_explain_shows_it_as_it_was_written() -> None:
    query = "SEQ(TX a, OK b) WITHIN 9 AGG COUNT(*) GROUP BY a.type AT 1 EMIT TOTAL"
    told = str(sq.explain(query, pa.table({"type": ["A", "T"], "ts": [1, 2]}), hierarchy=sq.Hierarchy.from_dict(STATES)))
    assert "grouped by a.type AT 1" in told
    assert "a.type AT 1 is computed once for every event" in told


def test_sharing_counts_refuses_it_by_name() -> None:
    query = "SEQ(TX a, OK b) WITHIN 9 AGG COUNT(*) GROUP BY a.type AT 1 EMIT TOTAL"
    data, hierarchy = pa.table({"type": ["A", "T"], "ts": [1, 2]}), sq.Hierarchy.from_dict(STATES)
    with pytest.raises(sq.PlanError, match="it measures, or groups by, an expression"):
        sq.run({"one": query, "two": query}, data, hierarchy=hierarchy, strategy="prefix-tree")


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("a.x AT 1", "AT takes the type of an event"),
        ("type AT LEAF", "AT takes the type of an event"),
        ("UPPER(a.type) AT 1", "AT takes the type of an event"),
        ("a.type AT 0", "levels are whole numbers, from 1"),
        ("a.type AT 1.5", "levels are whole numbers, from 1"),
        ("a.type AT city", "expected the number of a level, or LEAF, after 'AT', found 'city'"),
        ("a.type AT 1, a.type AT 1", "two columns of the result are called 'a_type_at_1'"),
        ("c.type AT 1", "GROUP BY names 'c', which is negated"),
        ("b.type AT 1", "GROUP BY names 'b', which is a list"),
    ],
)
def test_what_has_no_level_is_refused(key: str, said: str) -> None:
    with pytest.raises(sq.QueryError, match=said):
        parse(f"SEQ(A a, !C c, B+ b) WITHIN 9 AGG COUNT(*) GROUP BY {key}")
