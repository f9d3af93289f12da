"""However a stream is cut, the same matches come out, each once; and nothing is kept that the window has left behind."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

import oracle
from answers import show
from seqube.engine.matching import Matcher, State
from seqube.engine.sequence import LOWEST
from seqube.events import Events
from seqube.events.schema import is_of
from seqube.language import parse
from seqube.plan.physical import ticks
from seqube.plan.planner import plan_matches
from steps import assert_goes_on
from strategies import queries, streams, table


@given(data=st.data(), text=queries(), events=streams())
def test_any_cutting(data: st.DataObject, text: str, events: list[oracle.Event]) -> None:
    assert_goes_on(data, text, events)


@given(text=queries(), events=streams(max_time=30))
def test_state_keeps_to_the_window(text: str, events: list[oracle.Event]) -> None:
    show(text, events)
    stream = Events(table(events))
    plan = plan_matches(parse(text))
    matcher, state = Matcher(plan), State()
    for row in range(len(stream)):
        state, _ = matcher.step(state, stream.slice(row, row + 1))
        kept = state.events
        assert kept is not None
        assert state.kept is not None
        decided = kept.slice(0, len(state.kept))
        assert all(is_of(name, plan.types) for name in decided.column("type").to_pylist())
        windows = 2 if plan.waits and plan.looks_back else 1
        if plan.window.unit != "events" and state.decided > LOWEST:
            assert all(kept.times > state.decided - windows * ticks(plan.window, "ms"))
        elif state.counted is not None and not plan.partition_by:
            assert all(state.kept.clocks > state.counted.counts[0] - windows * plan.window.length - 1)
