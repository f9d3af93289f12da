"""RETURN DISTINCT and LIMIT: which rows of a result remain."""

from __future__ import annotations

from itertools import islice
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
import seqube as sq
from answers import counted, run, show
from seqube.language import parse
from strategies import plain, queries, streams, table

small = streams(max_size=9)
AB = pa.table({"type": ["A", "A", "A", "B"], "ts": [1, 2, 3, 4], "x": [5, None, None, 1], "y": [1.0, float("nan"), None, 0.0]})


def told(rows: list[dict[str, Any]]) -> Any:
    return counted([{name: plain(value) for name, value in row.items()} for row in rows])


@given(text=queries(depth=2, returns=True, durations=False), events=small)
def test_distinct_rows(text: str, events: list[oracle.Event]) -> None:
    text = text.replace("RETURN", "RETURN DISTINCT")
    show(text, events)
    assert told(run(text, events)) == told(oracle.results(parse(text), events))


@given(text=queries(depth=2, returns=True, durations=False), events=small, limit=st.integers(0, 4), distinct=st.booleans())
def test_a_limit_leaves_so_many_of_the_rows(text: str, events: list[oracle.Event], limit: int, distinct: bool) -> None:
    text = text.replace("RETURN", "RETURN DISTINCT") if distinct else text
    show(text, events)
    everything, found = told(run(text, events)), told(run(f"{text} LIMIT {limit}", events))
    assert found <= everything
    assert found.total() == min(limit, everything.total())


def test_null_is_equal_to_null_and_nan_is_null() -> None:
    found = sq.run("SEQ(A a, B b) WITHIN 9 RETURN DISTINCT a.x AS x, a.y AS y", AB).table.to_pylist()
    assert [(row["x"], plain(row["y"])) for row in found] == [(5, 1.0), (None, None)]


def test_distinct_rows_of_everything_tell_events_apart_by_their_columns() -> None:
    twice = pa.table({"type": ["A", "A", "B"], "ts": [1, 1, 2], "x": [7, 7, 8]})
    assert len(sq.run("SEQ(A a, B b) WITHIN 9 RETURN *", twice)) == 2
    assert sq.run("SEQ(A a, B b) WITHIN 9 RETURN DISTINCT *", twice).table.column("a_x").to_pylist() == [7]


def test_equal_rows_in_different_pieces_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    from seqube.engine import evaluation

    monkeypatch.setattr(evaluation, "PIECE", 2)
    many = pa.table({"type": ["A"] * 5 + ["B"] * 5, "ts": range(10), "x": ["p", "q"] * 5})
    found = sq.run("SEQ(A a, B b) WITHIN 99 RETURN DISTINCT a.x, b.x", many).table.to_pylist()
    assert {tuple(row.values()) for row in found} == {(a, b) for a in "pq" for b in "pq"}
    assert len(found) == 4


def test_a_limit_stops_early() -> None:
    """2,000 to the power of 4 matches are never found."""
    size = 2_000
    many = pa.table({"type": ["A"] * size + ["B"] * size + ["C"] * size + ["D"] * size, "ts": range(4 * size)})
    result = sq.run("SEQ(A a, B b, C c, D d) WITHIN 99999 LIMIT 3", many, max_seconds=60)
    assert len(result) == 3
    assert result.truncated is None
    assert sum(len(batch) for batch in islice(result.batches(), 9)) == 3


def test_a_limit_in_a_workload_leaves_the_others_whole() -> None:
    queries = {
        "all": "SEQ(A a, B b) WITHIN 9",
        "one": "SEQ(A a, B b) WITHIN 9 LIMIT 1",
        "x": "SEQ(A a, B b) WITHIN 9 RETURN DISTINCT a.x",
    }
    for strategy in ("auto", "independent"):
        assert {name: len(result) for name, result in sq.run(queries, AB, strategy=strategy).items()} == {
            "all": 3,
            "one": 1,
            "x": 2,
        }
    assert "limit: it ends with 1 rows" in str(sq.explain(queries["one"]))


@pytest.mark.parametrize(
    ("clause", "why"),
    [("RETURN DISTINCT a.x", "RETURN DISTINCT leaves out rows by all that came before"), ("LIMIT 3", "LIMIT ends a result")],
)
def test_streams_and_cubes_refuse_them_by_name(clause: str, why: str) -> None:
    query = f"SEQ(A a, B b) WITHIN 9 {clause}"
    stream = sq.Stream(query)
    with pytest.raises(sq.PlanError, match=rf"{why}.*: it needs the whole stream"):
        stream.push(AB)
    with pytest.raises(sq.PlanError, match="leave out DISTINCT and LIMIT"):
        sq.Cube(AB, query)


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("RETURN a.x ORDER BY a.x", "ORDER BY takes columns of the events", "result.table.sort_by"),
        ("RETURN a.x AS price ORDER BY price", "'price' is a column of the result", 'result.table.sort_by\\("price"\\)'),
        ("ORDER BY end", "'end' is a column of the result", "afterwards"),
        ("LIMIT 2.5", "LIMIT takes a whole number of rows", "LIMIT 10"),
        ("LIMIT", "expected a number of rows after 'LIMIT'", ""),
        ("AGG COUNT(*) LIMIT 3", "LIMIT and AGG do not go together", "first rows of the table"),
    ],
)
def test_what_is_refused_says_what_to_do(text: str, message: str, hint: str) -> None:
    with pytest.raises(sq.QueryError, match=rf"(?s){message}.*{hint}"):
        sq.run(f"SEQ(A a, B b) WITHIN 9 {text}", AB)


def test_lists_and_nested_values_are_not_compared() -> None:
    with pytest.raises(sq.QueryError, match=r"(?s)which is a list: lists are not compared.*LAST\(b.x\)"):
        sq.parse("SEQ(A a, B+ b) WITHIN 9 RETURN DISTINCT b.x")
    nested = AB.append_column("n", pa.array([[1], [1], [2], [3]]))
    with pytest.raises(sq.QueryError, match="RETURN DISTINCT compares plain values"):
        sq.run("SEQ(A a, B b) WITHIN 9 RETURN DISTINCT a.n", nested)
    with pytest.raises(sq.QueryError, match="RETURN DISTINCT compares plain values"):
        sq.run("SEQ(A a, B b) WITHIN 9 RETURN DISTINCT *", nested)


def test_more_rows_than_any_table_has_are_all() -> None:
    assert len(sq.run(f"SEQ(A a, B b) WITHIN 9 LIMIT {10**30}", AB)) == 3
    assert len(sq.run("A WITHIN 9 LIMIT 2", table([]))) == 0
