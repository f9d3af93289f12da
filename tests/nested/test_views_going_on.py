"""Views that go on from step to step: however a stream is cut, and wherever its state is saved, the oracle's matches."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import oracle
from answers import counted
from seqube.engine.matching import Matcher
from seqube.engine.views import continuing
from seqube.errors import PlanError
from seqube.events import Events
from seqube.language import parse
from seqube.plan.needs import why_replayed
from seqube.plan.optimizer import plan_query
from seqube.plan.physical import MatchPlan
from seqube.plan.strategies import LOOPS
from steps import assert_goes_on, feed, rows
from strategies import queries, streams

NESTED = ("SEQ", "SEQ", "SEQ", "AND", "OR")


def plan(text: str, strategy: str) -> MatchPlan:
    try:
        planned = plan_query(parse(text), strategy=strategy)
    except PlanError as error:
        assume(False)
        raise AssertionError from error
    assert isinstance(planned, MatchPlan)
    return planned


@pytest.mark.parametrize("strategy", LOOPS)
@given(data=st.data(), text=queries(words=NESTED), events=streams())
def test_any_query(strategy: str, data: st.DataObject, text: str, events: list[oracle.Event]) -> None:
    assert_goes_on(data, text, events, Matcher(plan(text, strategy)))


@pytest.mark.parametrize("strategy", LOOPS)
@given(data=st.data(), text=queries(words=NESTED, counted=True), events=streams(max_time=6))
def test_windows_of_events(strategy: str, data: st.DataObject, text: str, events: list[oracle.Event]) -> None:
    assert_goes_on(data, text, events, Matcher(plan(text, strategy)))


@pytest.mark.parametrize("strategy", LOOPS)
@given(data=st.data(), text=queries(words=NESTED), events=streams())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_positions_and_values_that_move_up_at_once(
    monkeypatch: pytest.MonkeyPatch, strategy: str, data: st.DataObject, text: str, events: list[oracle.Event]
) -> None:
    """What is done now and then over a long stream, done at nearly every step."""
    monkeypatch.setattr(continuing, "_LEAST", 0)
    monkeypatch.setattr(continuing, "_FEW", 0)
    assert_goes_on(data, text, events, Matcher(plan(text, strategy)))


@pytest.mark.parametrize("strategy", LOOPS)
def test_a_long_stream_of_many_values(strategy: str) -> None:
    """Positions move up, views are purged, and values that a view is divided by come and go."""
    n = 6_000
    ids = [f"customer {row // 9}" for row in range(n)]
    events = Events(pa.table({"type": [*"ABCACD"] * (n // 6), "ts": range(n), "id": ids}))
    for text in (
        "SEQ(A a, SEQ(B b, C c, b.id = a.id), D d) WITHIN 30",
        "SEQ(A a, !SEQ(B b, C c, b.id = a.id), D d) WITHIN 30",
        "SEQ(A a, D d, !AND(B b, C c, b.id = a.id)) WITHIN 30",
    ):
        matcher = Matcher(plan(text, strategy))
        whole = rows(Matcher(plan(text, "auto")).run(with_rows(events)))
        found = rows(feed(matcher, with_rows(events), [(low, low + 50) for low in range(0, n, 50)], saved=[False] * (n // 50)))
        assert counted(found) == counted(whole)
        assert len(whole) > 100


def with_rows(events: Events) -> Events:
    return Events(events.table.append_column("row", pa.array(range(len(events)))))


def test_what_goes_on_and_what_is_replayed() -> None:
    nested = "SEQ(A a, SEQ(B b, C c), D d) WITHIN 30"
    assert why_replayed(plan(nested, "balanced")) is None
    assert why_replayed(plan(f"{nested} PARTITION BY id", "balanced")) == "its sub-queries are evaluated in each partition"
