"""TYPE(v) and TIME(v), and columns that are called `type` or `ts` and are not the event's own."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest
from hypothesis import given

import oracle
import seqube as sq
from answers import counted, rows_of, show
from seqube.language import parse
from strategies import queries, streams, table

HIDDEN = sq.Events(
    pa.table({"kind": ["A", "B", "A", "B"], "when": [0, 1, 2, 3], "type": [7, 8, 9, 9], "ts": ["p", "p", "q", "q"]}),
    type="kind",
    time="when",
)


def with_hidden_columns(text: str) -> str:
    """The same query where `x` is called `type` and `id` is called `ts`, while the type is in `kind` and the time in `when`."""
    text = re.sub(r"\b(\w+)\.type\b", r"TYPE(\1)", text)
    text = re.sub(r"\b(\w+)\.ts\b", r"TIME(\1)", text)
    text = re.sub(r"\btype\b", "kind", text)
    return re.sub(r"\bid\b", '"ts"', re.sub(r"\bx\b", '"type"', text))


@given(text=queries(depth=2, repeats=True, clauses=["ORDER BY"]), events=streams(max_size=8))
def test_columns_called_type_and_ts_are_like_others(text: str, events: list[oracle.Event]) -> None:
    hidden = with_hidden_columns(text)
    show(hidden, events)
    expected = oracle.matches(parse(text), events)
    names = {"type": "kind", "ts": "when", "x": "type", "id": "ts"}
    given_table = table(events)
    given_table = given_table.rename_columns([names.get(name, name) for name in given_table.column_names])
    found = sq.run(hidden, given_table, type="kind", time="when").table.to_pylist()
    rows = [{name: rows_of(bound) for name, bound in row.items() if name not in ("start", "end")} for row in found]
    assert counted(rows) == counted(expected)
    assert parse(str(parse(hidden))) == parse(hidden)


@pytest.mark.parametrize(
    ("clause", "hint"),
    [
        ("WHERE a.type = 7", 'write TYPE(a) for the type, or a."type" for the column'),
        ("RETURN a.ts", 'write TIME(a) for the time, or a."ts" for the column'),
        ("GROUP BY a.type AGG COUNT(*)", 'write TYPE(a) for the type, or a."type" for the column'),
        ("AGG MAX(b.ts)", 'write TIME(b) for the time, or b."ts" for the column'),
        ("PARTITION BY type", 'write kind for the type, or "type" for the column'),
        ("ORDER BY ts", 'write when for the time, or "ts" for the column'),
        ("WHERE [type]", 'write kind for the type, or "type" for the column'),
    ],
)
def test_what_could_be_either_is_refused_and_both_ways_out_work(clause: str, hint: str) -> None:
    query = f"SEQ(A a, B b) WITHIN 9 {clause}"
    with pytest.raises(sq.QueryError) as caught:
        sq.run(query, HIDDEN)
    assert caught.value.hint == hint
    written = r"[ab]\.\w+" if "." in clause else r"\b(type|ts)\b"
    for way_out in re.findall(r"(?:write|or) (\S+) for", hint):
        text = re.sub(written, lambda _, way_out=way_out: way_out, clause)  # type: ignore[misc]
        text = text if "TYPE" not in text else text.replace("7", "'A'")
        if 'MAX(b."ts")' not in text:  # a text has no largest one
            sq.run(f"SEQ(A a, B b) WITHIN 9 {text}", HIDDEN)


def test_both_are_there_in_results() -> None:
    query = 'SEQ(A a, B b, ["type"]) WITHIN 9 RETURN TYPE(a), TIME(b), a."type" AS seven, b."ts" AS letter'
    assert sq.run(query, HIDDEN).table.to_pylist() == [{"a_type": "A", "b_ts": 3, "seven": 9, "letter": "q"}]
    flat = sq.run("SEQ(A a, B b) WITHIN 2 RETURN *", HIDDEN).table.to_pylist()[0]
    assert {name: flat[name] for name in ("a_kind", "a_when", "a_type", "a_ts")} == {
        "a_kind": "A",
        "a_when": 0,
        "a_type": 7,
        "a_ts": "p",
    }
    assert parse(query) == parse(str(parse(query)))


def test_a_defined_type_asks_for_either() -> None:
    query = (
        """SEQ(Big a, B b) DEFINE Big AS A WHERE "type" > 7 AND TYPE(Big) = 'A' AND TIME(Big) > 0 WITHIN 9 RETURN TIME(a) AS at"""
    )
    assert sq.run(query, HIDDEN).table.to_pylist() == [{"at": 2}]
    assert str(parse(str(parse(query)))) == str(parse(query))
    with pytest.raises(sq.QueryError, match=r"(?s)DEFINE knows no variable 'a'.*hint: TYPE\(Big\)"):
        parse("SEQ(Big a, B b) DEFINE Big AS A WHERE TYPE(a) = 'A' WITHIN 9")


def test_without_such_a_column_all_ways_mean_the_same() -> None:
    events = pa.table({"type": ["A", "B"], "ts": [1, 2]})
    query = 'SEQ(A a, B b) WITHIN 9 RETURN TYPE(a) AS x, a.type AS y, a."type" AS z, TIME(b) AS t, b.ts AS u, b."ts" AS v'
    assert sq.run(query, events).table.to_pylist() == [{"x": "A", "y": "A", "z": "A", "t": 2, "u": 2, "v": 2}]
    renamed = sq.Events(events.rename_columns(["kind", "when"]), type="kind", time="when")
    assert sq.run(query, renamed).table.to_pylist() == sq.run(query, events).table.to_pylist()
    assert parse("A a WITHIN 9 RETURN TYPE(a)") == parse("A a WITHIN 9 RETURN a.type")


def test_a_column_with_quotes_in_its_name_is_refused() -> None:
    with pytest.raises(sq.QueryError, match="rename the column"):
        parse('A a WITHIN 9 RETURN a."""type"""')


def test_streams_cubes_and_funnels_know_them() -> None:
    stream = sq.Stream('SEQ(A a, B b, ["ts"]) WITHIN 9 RETURN TIME(a) AS at, b."type" AS x', type="kind", time="when")
    found = [*stream.push(HIDDEN.table.to_pylist()).values(), *stream.close().values()]
    assert [row for each in found for row in each.to_pylist()] == [{"at": 0, "x": 8}, {"at": 2, "x": 9}]
    assert sq.Cube(HIDDEN, "SEQ(A a, B b) WITHIN 9").count == 3
    steps = sq.funnel(HIDDEN, ["A", "B"], by="ts", within=9).table.to_pylist()
    assert [step["reached"] for step in steps] == [2, 2]
