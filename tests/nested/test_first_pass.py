"""Balanced views are made complete for all results of a trigger before any is gone on with, for every outer value alike."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
from answers import counted, show
from seqube.engine.matching import Matcher
from seqube.events import Events
from seqube.language import parse
from seqube.plan.optimizer import plan_query
from seqube.plan.physical import MatchPlan
from steps import feed, rows
from strategies import cuts, streams, table

DIVIDED = (
    "SEQ(A a, SEQ(B b, C c, b.id = a.id), D d)",
    "SEQ(A a, B x, AND(B b, C c, c.id = x.id), D d)",
    "SEQ(A a, !SEQ(B b, C c, b.id = a.id), D d)",
    "SEQ(A a, B x, !AND(B b, C c, c.x = x.x), C y, D d)",
    "SEQ(A a, !SEQ(B b, C c), D d, [id])",
    "SEQ(A a, AND(B b, C c, b.id = a.id), A m, SEQ(B e, C f, f.x = m.x), D d)",
    "SEQ(A a, SEQ(B b, AND(C c, D e, c.id = a.id), B f), D d)",
    "SEQ(A a, SEQ(B b, AND(C c, D e, c.id = b.id), b.x = a.x), D d)",
    "SEQ(A a, !SEQ(B b, C c, b.id = a.id), B m, !SEQ(C e, D f, f.id = m.id), D d)",
    "SEQ(A a, !SEQ(B b, C c, b.x < a.x), D d)",
    "SEQ(A a, !SEQ(B b, !C c, D e, b.id = a.id), D d)",
    "SEQ(A a, B x, !SEQ(C c, D e, c.id = a.id))",
    "AND(A a, SEQ(B b, C c, b.id = a.id), D d)",
    "OR(SEQ(A a, SEQ(B b, C c, b.id = a.id), D d), SEQ(B x, !SEQ(C e, A f, f.id = x.id), D y))",
)


@given(
    data=st.data(),
    pattern=st.sampled_from(DIVIDED),
    window=st.sampled_from([3, 6, 20]),
    events=streams(max_size=18),
    strategy=st.sampled_from(["balanced", "aggressive", "passive"]),
)
def test_views_by_an_outer_value_find_what_the_oracle_finds(
    data: st.DataObject, pattern: str, window: int, events: list[oracle.Event], strategy: str
) -> None:
    text = f"{pattern} WITHIN {window}"
    show(text, events)
    plan = plan_query(parse(text), strategy=strategy)
    assert isinstance(plan, MatchPlan)
    matcher, stream = Matcher(plan), Events(table(events))
    expected = counted(oracle.matches(parse(text), events))
    assert counted(rows(matcher.run(stream))) == expected
    assert counted(rows(feed(matcher, stream, data.draw(cuts(len(events))), data.draw(st.booleans())))) == expected


@pytest.mark.parametrize(
    "pattern",
    [
        "SEQ(A a, SEQ(B b, C c), D d, E e)",
        "SEQ(A a, SEQ(B b, C c, b.id = a.id), D d, E e)",
        "SEQ(A a, !SEQ(B b, C c, b.id = a.id), D d, E e)",
        "SEQ(A a, !SEQ(B b, C c, b.x > a.id), D d, E e)",
    ],
)
def test_what_all_results_of_a_trigger_need_is_computed_once(pattern: str) -> None:
    types = "ABCDABCDABCDE"
    events = Events(pa.table({"type": [*types], "ts": range(len(types)), "id": [1] * len(types), "x": [0] * len(types)}))
    plan = plan_query(parse(f"{pattern} WITHIN 100"), strategy="balanced")
    assert isinstance(plan, MatchPlan)
    matcher = Matcher(plan)
    state, _ = matcher.step(matcher.start(), events, watermark=len(types))
    assert state.views is not None
    assert state.views.loops.n_computed == 6  # pairs of a B and a later C
