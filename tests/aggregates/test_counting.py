"""Counting without building matches gives what the oracle says: keys, ties, negations everywhere, groups, all reports."""

from __future__ import annotations

from dataclasses import replace

import pytest
from aggregate_queries import COUNTED, applies, assert_same_rows, chains, expected, show, table
from hypothesis import assume, given
from hypothesis import strategies as st
from test_aggregate_cuts import feed

import oracle
from seqube.engine.aggregation import Aggregator
from seqube.events import Events
from seqube.language import parse
from seqube.plan.aggregates import plan_aggregates
from strategies import cuts, streams


@pytest.mark.parametrize("strategy", COUNTED)
@given(data=st.data(), text=chains(), events=streams(max_size=18, max_time=12))
def test_counters_equal_the_oracle(strategy: str, data: st.DataObject, text: str, events: list[oracle.Event]) -> None:
    assume(applies(text))
    show(text, events)
    aggregator = Aggregator(replace(plan_aggregates(parse(text)), strategy=strategy))
    stream, wanted = Events(table(events)), expected(text, events)
    assert_same_rows(aggregator.run(stream).to_pylist(), wanted)
    assert_same_rows(feed(aggregator, stream, data.draw(cuts(len(events))), watermarks=False), wanted)
