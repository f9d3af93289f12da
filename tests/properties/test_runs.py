"""NEXT and STRICT: for every start the run that the oracle walks, at the root and inside others, whole and cut."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import hand_worked
import oracle
from answers import assert_equal_matches, run, shown
from seqube.engine.instances import Batch
from seqube.engine.predicates import Evaluator
from seqube.engine.runs import finding
from seqube.engine.runs.courses import RunCourse
from seqube.engine.runs.walking import walk_along
from seqube.events import Events
from seqube.language import parse
from seqube.plan.physical import MatchRun
from seqube.plan.planner import plan_matches
from steps import assert_goes_on
from strategies import queries, streams, table

RUNS = ("NEXT", "STRICT")
small = streams(max_size=10)
nested = queries(repeats=True, depth=2, words=("SEQ", "AND", "OR", "NEXT", "NEXT", "STRICT"))


@pytest.mark.parametrize(("query", "text", "expected"), hand_worked.NEXTS + hand_worked.STRICTS)
def test_hand_worked_cases(query: str, text: str, expected: list[str]) -> None:
    assert sorted(map(shown, run(query, hand_worked.events(text)))) == sorted(expected)


@given(text=queries(depth=1, words=RUNS), events=streams())
def test_single_events(text: str, events: list[oracle.Event]) -> None:
    assert_equal_matches(text, events)


@given(text=queries(depth=1, words=RUNS, predicates=False), events=streams())
def test_structure_alone(text: str, events: list[oracle.Event]) -> None:
    assert_equal_matches(text, events)


@given(text=queries(repeats=True, depth=1, words=RUNS), events=streams())
def test_repeated_parts(text: str, events: list[oracle.Event]) -> None:
    assert_equal_matches(text, events)


@given(text=queries(repeats=True, depth=1, words=RUNS, predicates=False), events=streams(max_time=5))
def test_repeated_parts_alone(text: str, events: list[oracle.Event]) -> None:
    assert_equal_matches(text, events)


@given(text=queries(repeats=True, depth=1, words=RUNS), events=streams())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_repeated_parts_by_threads(monkeypatch: pytest.MonkeyPatch, text: str, events: list[oracle.Event]) -> None:
    """Whatever is asked, also what a loop could ask."""
    monkeypatch.setattr(finding, "walk_along", lambda course, partial: None)
    assert_equal_matches(text, events)


@pytest.mark.parametrize(
    ("query", "is_walked"),
    [
        ("NEXT(A a, B b, C c) WHERE b.x > a.x AND (c.x = a.x OR c.s LIKE 'p%') WITHIN 9", True),
        ("NEXT(A a, B+ b, C? c, D d) WHERE b.x > PREV(b.x) AND d.x > b.x WITHIN 9", True),
        ("STRICT(A a, B* b, OR(C c, D d)) WHERE b.x > a.x WITHIN 9", True),
        ("NEXT(A a, B{2,3} b) WITHIN 9", True),
        ("STRICT(A a, B+ b) WITHIN 9", False),  # threads that meet go on as one
        ("NEXT(A a, B+ b, C c) WHERE COUNT(b) > 1 WITHIN 9", False),
        ("NEXT(A a, B b, C c) WHERE a.x + b.x > c.x WITHIN 9", False),
        ("NEXT(A+ a, B+ b, C c) WHERE a.x > b.x OR b.x > c.x OR a.x = c.x WITHIN 9", False),  # two lists at once
    ],
)
def test_comparisons_are_asked_in_a_loop(query: str, is_walked: bool) -> None:
    events = Events(table(hand_worked.events("A1 B2 C3 D4")))
    node = plan_matches(parse(query)).pattern
    assert isinstance(node, MatchRun)
    batch = Batch(events, 9, events.times, positions=events.times)
    found = [events.rows_of(scan.types) for step in node.steps for scan in step.scans]
    assert (walk_along(RunCourse(node, batch, Evaluator(events), found), False) is not None) == is_walked


@given(text=nested, events=small)
def test_inside_others(text: str, events: list[oracle.Event]) -> None:
    assert_equal_matches(text, events)


@given(data=st.data(), text=nested, events=small)
def test_any_cutting(data: st.DataObject, text: str, events: list[oracle.Event]) -> None:
    assert_goes_on(data, text, events)
