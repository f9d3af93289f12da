"""However a stream is cut, the same matches come out, each once; and nothing is kept that the window has left behind."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

import oracle
from answers import counted, show
from seqube.engine.matching import Matcher, State
from seqube.engine.sequence import LOWEST
from seqube.events import Events
from seqube.events.schema import is_of
from seqube.language import parse
from seqube.language.definitions import spell_out
from seqube.plan.physical import ticks
from seqube.plan.planner import plan_matches
from steps import feed, rows
from strategies import cuts, queries, streams, table


@given(data=st.data(), text=queries(), events=streams(), watermarks=st.booleans())
def test_any_cutting_equals_whole(data: st.DataObject, text: str, events: list[oracle.Event], watermarks: bool) -> None:
    show(text, events)
    stream = Events(table(events))
    plan = plan_matches(spell_out(parse(text)))
    whole = rows(Matcher(plan).run(stream))
    assert counted(rows(feed(Matcher(plan), stream, data.draw(cuts(len(events))), watermarks))) == counted(whole)


@given(text=queries(), events=streams(max_time=30))
def test_state_keeps_to_the_window(text: str, events: list[oracle.Event]) -> None:
    show(text, events)
    stream = Events(table(events))
    plan = plan_matches(spell_out(parse(text)))
    matcher, state = Matcher(plan), State()
    for row in range(len(stream)):
        state, _ = matcher.step(state, stream.slice(row, row + 1))
        kept = state.events
        assert kept is not None
        assert all(is_of(name, plan.types) for name in kept.column("type").to_pylist())
        windows = 2 if plan.waits and plan.looks_back else 1
        if plan.window.unit != "events" and state.decided > LOWEST:
            assert all(kept.times > state.decided - windows * ticks(plan.window, "ms"))
        elif not plan.partition_by and state.numbers is not None:
            open_ties = (kept.times == kept.times[-1]).sum() if len(kept) else 0
            assert all(state.numbers >= state.n_seen - open_ties - windows * plan.window.length - 1)
