"""However a stream is cut, the same rows come out, each once; and nothing is kept that the window has left behind."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
from aggregate_queries import aggregate_queries, assert_same_rows, expected
from answers import show
from seqube.engine.aggregates.aggregation import Aggregator
from seqube.engine.aggregates.state import State
from seqube.events import Events
from seqube.events.schema import is_of
from seqube.language import parse
from seqube.plan.aggregates import plan_aggregates
from seqube.plan.physical import ticks
from steps import feed, feed_anyhow
from strategies import streams, table


@given(data=st.data(), text=aggregate_queries(depth=2), events=streams())
def test_any_cutting(data: st.DataObject, text: str, events: list[oracle.Event]) -> None:
    show(text, events)
    found = feed_anyhow(data, Aggregator(plan_aggregates(parse(text))), events)
    assert_same_rows(found.to_pylist(), expected(text, events))


@pytest.mark.parametrize("grouped", [False, True])
def test_sums_of_pieces_do_not_wrap(grouped: bool) -> None:
    """Each piece fits into 64 bits, all of them together do not; and what fits again is of 64 bits again."""
    many = {"type": ["A"] * 6, "ts": range(6), "x": [2**62] * 6, "y": [2**62, 2**62, 2**62, -(2**62), -(2**62), 1]}
    stream = Events(pa.table({**many, "g": ["p"] * 6}))
    query = f"A a WITHIN 9 {'GROUP BY a.g' if grouped else ''} AGG SUM(a.x) AS x, SUM(a.y) AS y, COUNT(*) AS n EMIT TOTAL"
    rows = feed(Aggregator(plan_aggregates(parse(query))), stream, [(row, row + 1) for row in range(6)])
    assert rows.select(["x", "y", "n"]).to_pylist() == [{"x": 6 * 2**62, "y": 2**62 + 1, "n": 6}]
    assert [rows.schema.field(name).type for name in ("y", "n")] == [pa.int64(), pa.int64()]


@given(text=aggregate_queries(depth=2, counted=False), events=streams(max_time=30))
def test_state_keeps_to_the_window(text: str, events: list[oracle.Event]) -> None:
    show(text, events)
    plan = plan_aggregates(parse(text))
    stream, aggregator, state = Events(table(events)), Aggregator(plan), State()
    windows = 2 if plan.matches.looks_back else 1
    for row in range(len(stream)):
        state, _ = aggregator.step(state, stream.slice(row, row + 1))
        assert state.events is not None
        assert all(is_of(name, plan.matches.types) for name in state.events.column("type").to_pylist())
        assert all(state.events.times > state.reported - windows * ticks(plan.matches.window, "ms"))


@given(text=aggregate_queries(depth=1, counted=True, predicates=False), events=streams())
def test_state_keeps_to_the_last_events(text: str, events: list[oracle.Event]) -> None:
    show(text, events)
    plan = plan_aggregates(parse(text))
    stream, aggregator, state = Events(table(events)), Aggregator(plan), State()
    windows = 2 if plan.matches.looks_back else 1
    for row in range(len(stream)):
        state, _ = aggregator.step(state, stream.slice(row, row + 1))
        assert state.events is not None
        open_ = int((state.events.times > state.reported).sum())
        assert len(state.events) <= windows * plan.matches.window.length + open_
