"""Parameters: values that are given when a query is run, typed, and never text."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import seqube as sq
from seqube.language.parameters import read_parameter

EVENTS = pa.table(
    {
        "type": ["A", "B", "B"],
        "ts": pa.array([0, 60_000_000, 120_000_000], pa.timestamp("us", "UTC")),
        "x": [1, 2, 3],
        "s": ["it's", "p", "' OR TRUE --"],
        "m": pa.array([Decimal("0.10"), Decimal("0.20"), None], pa.decimal128(5, 2)),
        "f": [True, False, None],
    }
)


@pytest.mark.parametrize(
    ("condition", "value", "expected"),
    [
        ("b.x > :p", 2, [3]),
        ("b.x > :p", 1.5, [2, 3]),
        ("b.x > :p", np.int64(2), [3]),
        ("b.x > :p", np.float64("nan"), []),
        ("b.x > :p", Decimal("sNaN"), []),
        ("b.x < :p", Decimal("1e300"), [2, 3]),
        ("b.m = :p", Decimal("0.20"), [2]),
        ("b.s = :p", "' OR TRUE --", [3]),
        ("b.s LIKE :p", "p%", [2]),
        ("b.f = :p", False, [2]),
        ("b.x = :p", None, []),
        ("b.x IN (:p)", [1, 3], [3]),
        ("b.x IN (2, :p)", 3, [2, 3]),
        ("b.x NOT IN (:p, 7)", (2,), [3]),
        ("b.s IN (:p)", [], []),
        ("b.ts > :p", datetime(1970, 1, 1, 0, 1, 30, tzinfo=UTC), [3]),
        ("b.ts > :p", date(1970, 1, 1), [2, 3]),
        ("b.ts - a.ts > :p", timedelta(seconds=90), [3]),
        ("ROUND(b.x / 2, :p) = 1.5", 1, [3]),
    ],
)
def test_values(condition: str, value: Any, expected: list[int]) -> None:
    query = f"SEQ(A a, B b) WHERE {condition} WITHIN 1 hour RETURN b.x AS x"
    assert sq.run(query, EVENTS, params={"p": value}).table.column("x").to_pylist() == expected
    assert sq.run(sq.parse(query), EVENTS, params={"p": value}).table.column("x").to_pylist() == expected


def test_a_parameter_may_stand_several_times_and_in_several_queries() -> None:
    workload = {
        "one": "B b WHERE b.x > :n AND b.x < :n + 2 WITHIN 1",
        "other": "A a WITHIN 1 AGG COUNT(*) AS n HAVING COUNT(*) > :n EMIT TOTAL",
    }
    results = sq.run(workload, EVENTS, params={"n": 1})
    assert (len(results["one"]), len(results["other"])) == (1, 0)
    assert sq.run("A a WITHIN 1 RETURN :v AS v", EVENTS, params={"v": 5}).table.to_pylist() == [{"v": 5}]


def test_the_text_of_a_query_keeps_its_parameters() -> None:
    query = sq.parse("a a where a.x > :limit and a.s in (:names, 'p') within 5")
    assert str(query) == "PATTERN a\nWHERE a.x > :limit AND a.s IN (:names, 'p')\nWITHIN 5".replace("PATTERN a", "PATTERN a")
    assert sq.parse(str(query)) == query
    assert (
        str(sq.parse(str(query), params={"limit": 3, "names": ["it's"]})).split("\n")[1]
        == "WHERE a.x > 3 AND a.s IN ('it''s', 'p')"
    )


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({}, r"there is no value for :limit \(line 1, column 17\)\n(.*\n)*  hint: give it: params=\{'limit': ...\}"),
        ({"limit": 1, "limt": 2}, r"the query has no parameter :limt\n  hint: did you mean 'limit'\?"),
        ({"limit": [1]}, r":limit is a list .*\n(.*\n)*  hint: a list stands in IN"),
        ({"limit": "x"}, r"A.x \(a number\) is compared with a string"),
        ({"limit": object()}, r"the value of :limit is a object, which no query can hold"),
        ({"limit": 2**70}, r"the value of :limit does not fit into 64 bits"),
        ({"limit": float("inf")}, r"the value of :limit is not finite"),
        ({"limit": Decimal("0.12345678901234567890123")}, r"has more digits than a number of a query"),
        ({"limit": timedelta.max}, r"the value of :limit is longer than 2\^63 - 1 microseconds"),
        ({"limit": np.array([1, 2])}, r"the value of :limit is a ndarray, which no query can hold"),
        ({"limit": "\ud800"}, r"the value of :limit contains half of a character"),
    ],
)
def test_what_is_wrong_is_named(params: dict[str, Any], message: str) -> None:
    for query in ("A WHERE A.x > :limit WITHIN 5", sq.parse("A WHERE A.x > :limit WITHIN 5")):
        with pytest.raises(sq.QueryError, match=message.replace("column 17", "column 15")):
            sq.run(query, EVENTS, params=params)


def test_a_query_without_parameters_takes_none() -> None:
    with pytest.raises(sq.QueryError, match=r"no parameter :n\n  hint: write :n where its value shall stand"):
        sq.run("A WITHIN 5", EVENTS, params={"n": 1})


def test_explain_and_cube_take_them() -> None:
    assert "a.x > 3" in str(sq.explain("A a WHERE a.x > :n WITHIN 5", EVENTS, params={"n": 3}))
    assert sq.Cube(EVENTS, "SEQ(A a, B b) WHERE b.x > :n WITHIN 1 h", params={"n": 2}).count == 1
    with pytest.raises(sq.QueryError, match="no parameter :m"):
        sq.Cube(EVENTS, "SEQ(A a, B b) WHERE b.x > :n WITHIN 1 h", params={"m": 2})


def test_rule_files_take_them(tmp_path: Path) -> None:
    file = tmp_path / "rules.yaml"
    file.write_text('rules: [{predicate: "A WHERE x < :n AND s != :t", consequent: B, within: 1, horizon: 100, probability: 1}]')
    rules = sq.Rules.load(file, params={"n": 2, "t": "event.x ' AND"})
    assert rules[0].vertices[0].where == "x < 2 AND s != 'event.x '' AND'"
    assert len(sq.forecast(rules, EVENTS).table) == 1
    with pytest.raises(sq.QueryError, match="no parameter :m"):
        sq.Rules.load(file, params={"m": 2})
    with pytest.raises(sq.QueryError, match="there is no value for :n"):
        sq.forecast(sq.Rules.load(file), EVENTS)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("500", 500),
        ("-2.5", -2.5),
        ("TRUE", True),
        ("null", None),
        ("10 min", timedelta(minutes=10)),
        ("'500'", "500"),
        ("it's", "it's"),
        ("Acme Ltd", "Acme Ltd"),
        ("a.x", "a.x"),
        ("1 AS x", "1 AS x"),
        ("", ""),
    ],
)
def test_the_command_line_reads_values_as_they_are_written(text: str, value: Any) -> None:
    assert read_parameter(text) == value
    assert type(read_parameter(text)) is type(value)
