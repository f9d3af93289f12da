"""Every way to evaluate nested queries finds what the oracle finds, in one go and however the stream is cut."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import oracle
from properties.test_matching import counted, show, table
from seqube.engine.state import Matcher, State
from seqube.errors import PlanError
from seqube.events import Events
from seqube.language import parse
from seqube.plan.physical import MatchPlan
from seqube.plan.planner import plan_matches
from seqube.plan.views import LOOPS
from strategies import cuts, queries, streams

Row = dict[str, Any]
NESTED = ("SEQ", "SEQ", "SEQ", "AND", "OR")


def plan(text: str, strategy: str, events: Events) -> MatchPlan:
    try:
        return plan_matches(parse(text), strategy=strategy, statistics=events.statistics)
    except PlanError as error:
        assume(False)
        raise AssertionError from error


def rows(matches: pa.Table) -> list[Row]:
    return [
        {name: event and event["row"] for name, event in row.items() if name not in ("start", "end")} for row in matches.to_pylist()
    ]


def feed(matcher: Matcher, events: Events, pieces: list[tuple[int, int]], watermarks: bool) -> list[Row]:
    """What is found step by step; the state goes through bytes between any two."""
    state, found = matcher.start(), []
    for start, stop in pieces:
        state, matches = matcher.step(state, events.slice(start, stop))
        found += rows(matches)
        if watermarks and stop < len(events):
            state, more = matcher.finish(state, watermark=int(events.times[stop]))
            assert more is not None
            found += rows(more)
        state = State.from_bytes(state.to_bytes())
    _, left = matcher.finish(state)
    return found + (rows(left) if left is not None else [])


def assert_right(text: str, events: list[oracle.Event], strategy: str) -> None:
    show(text, events)
    stream = Events(table(events))
    found = rows(Matcher(plan(text, strategy, stream)).run(stream))
    assert counted(found) == counted(oracle.matches(parse(text), events))


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


@given(data=st.data(), text=queries(words=NESTED), events=streams(), strategy=st.sampled_from(LOOPS), watermarks=st.booleans())
def test_any_cutting(data: st.DataObject, text: str, events: list[oracle.Event], strategy: str, watermarks: bool) -> None:
    show(text, events)
    stream = Events(table(events))
    matcher = Matcher(plan(text, strategy, stream))
    whole = counted(oracle.matches(parse(text), events))
    assert counted(feed(matcher, stream, data.draw(cuts(len(events))), watermarks)) == whole
