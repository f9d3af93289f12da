"""Every way to evaluate nested queries finds what the oracle finds, in one go and however the stream is cut."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import hand_worked
import oracle
import seqube as sq
from answers import counted, show
from seqube.engine.matching import Matcher
from seqube.errors import PlanError
from seqube.events import Events
from seqube.language import parse, parse_file
from seqube.plan.explain import explain_plan
from seqube.plan.measured import Measurements
from seqube.plan.optimizer import plan_query
from seqube.plan.physical import MatchPlan
from seqube.plan.strategies import LOOPS, names
from steps import feed, rows
from strategies import cuts, queries, streams, table

Row = dict[str, Any]
NESTED = ("SEQ", "SEQ", "SEQ", "AND", "OR")


def plan(text: str, strategy: str, events: Events) -> MatchPlan:
    try:
        planned = plan_query(parse(text), None, Measurements(events.statistics), strategy)
    except PlanError as error:
        assume(False)
        raise AssertionError from error
    assert isinstance(planned, MatchPlan)
    return planned


def assert_right(text: str, events: list[oracle.Event], strategy: str) -> None:
    show(text, events)
    stream = Events(table(events))
    found = rows(Matcher(plan(text, strategy, stream)).run(stream))
    assert counted(found) == counted(oracle.matches(parse(text), events))


@pytest.mark.parametrize("strategy", LOOPS)
@pytest.mark.parametrize(("query", "text", "expected"), hand_worked.PREDICATES + hand_worked.SAME)
def test_hand_worked_cases(query: str, text: str, expected: list[str], strategy: str) -> None:
    """The same cases that the oracle has to get right; their answers do not come from it."""
    events = hand_worked.events(text)
    names = {event.row: f"{event.type}{event.ts}" for event in events}
    stream = Events(table(events))
    found = rows(Matcher(plan_query(parse(query), None, Measurements(stream.statistics), strategy)).run(stream))
    assert sorted(" ".join(names.get(row, "-") for row in match.values()) for match in found) == sorted(expected)


@pytest.mark.parametrize("strategy", LOOPS)
@given(text=queries(words=NESTED), events=streams())
def test_any_query(strategy: str, text: str, events: list[oracle.Event]) -> None:
    assert_right(text, events, strategy)


@pytest.mark.parametrize("strategy", LOOPS)
@given(text=queries(predicates=False, words=NESTED), events=streams())
def test_structure_alone(strategy: str, text: str, events: list[oracle.Event]) -> None:
    assert_right(text, events, strategy)


@pytest.mark.parametrize("strategy", LOOPS)
@given(text=queries(words=NESTED), events=streams(max_time=2))
def test_ties(strategy: str, text: str, events: list[oracle.Event]) -> None:
    assert_right(text, events, strategy)


@given(
    data=st.data(),
    text=queries(words=NESTED),
    events=streams(),
    strategy=st.sampled_from((*names("matches"), "auto")),
    watermarks=st.booleans(),
)
def test_any_cutting(data: st.DataObject, text: str, events: list[oracle.Event], strategy: str, watermarks: bool) -> None:
    show(text, events)
    stream = Events(table(events))
    matcher = Matcher(plan(text, strategy, stream))
    whole = counted(oracle.matches(parse(text), events))
    assert counted(rows(feed(matcher, stream, data.draw(cuts(len(events))), watermarks))) == whole


@given(data=st.data(), text=queries(words=NESTED), events=streams())
def test_strategies_may_differ_from_subquery_to_subquery(data: st.DataObject, text: str, events: list[oracle.Event]) -> None:
    show(text, events)
    stream = Events(table(events))
    mixed = plan(text, "iterative", stream)
    mixed = replace(mixed, ways=tuple(replace(way, strategy=data.draw(st.sampled_from(LOOPS))) for way in mixed.ways))
    assert counted(rows(Matcher(mixed).run(stream))) == counted(oracle.matches(parse(text), events))


@given(text=queries(words=NESTED), events=streams())
def test_costs_decide_and_are_shown(text: str, events: list[oracle.Event]) -> None:
    stream = Events(table(events))
    chosen = plan(text, "auto", stream)
    shown = str(explain_plan(chosen, stream.statistics))
    for way in chosen.ways:
        assert f"taken: {way.strategy}, about" in shown
        assert {option.strategy for option in way.options} > ({"iterative"} if way.subquery == chosen.pattern else set(LOOPS))
    assert counted(rows(Matcher(chosen).run(stream))) == counted(oracle.matches(parse(text), events))


@pytest.mark.parametrize("strategy", LOOPS)
def test_long_sequences(strategy: str) -> None:
    events = oracle.stream(("B", 1), ("C", 3), *[(f"T{i}", 10 + i) for i in range(60)])
    slots = ", ".join(f"T{i} t{i}" for i in range(60))
    stream = Events(table(events))
    for text in (f"SEQ({slots})", f"SEQ(SEQ({slots}), !SEQ(B b, C c))", f"AND(SEQ({slots}), SEQ(B b, C c))"):
        assert len(rows(Matcher(plan(f"{text} WITHIN 1000", strategy, stream)).run(stream))) == 1


def test_costs_of_no_events() -> None:
    """An equality over a column without a value says nothing of how many agree."""
    nothing = pa.table({"type": pa.array([], pa.string()), "ts": pa.array([], pa.int64()), "id": pa.array([], pa.int64())})
    assert len(sq.run("SEQ(A a, !SEQ(B b, C c, b.id = c.id), D d) WITHIN 5", nothing)) == 0


def test_a_strategy_that_does_not_apply_says_which_do() -> None:
    with pytest.raises(PlanError, match="hint: one of auto, iterative, aggressive, passive, balanced"):
        plan_query(parse("SEQ(A a, !SEQ(B b, C c, b.x < a.x), D d) WITHIN 5"), strategy="latest-start")
    with pytest.raises(PlanError, match=r"a\.x \+ b\.x > 3.*\n.*hint: auto does"):
        plan_query(parse("SEQ(A a, !SEQ(B b, C c, a.x + b.x > 3), D d) WITHIN 5"), strategy="passive")


EXAMPLES = Path(__file__).resolve().parent.parent.parent / "examples"


@pytest.mark.parametrize("strategy", LOOPS)
@pytest.mark.parametrize(
    "folder", sorted(path.name for path in EXAMPLES.iterdir() if path.name.startswith(("nested-", "hospital-")))
)
def test_worked_examples_of_the_papers(folder: str, strategy: str) -> None:
    queries = parse_file((EXAMPLES / folder / "query.sqb").read_text())
    expected = json.loads((EXAMPLES / folder / "expected.json").read_text())
    for name, query in queries.items():
        answer = expected[name] if isinstance(expected, dict) else expected
        found = sq.run(query, str(EXAMPLES / folder / "events.csv"), strategy=strategy).table.to_pylist()
        assert counted(found) == counted(answer)
