"""Counts by the values of one or two components come from one pass, and mean what the definition says, whole and cut."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

import oracle
import seqube as sq
from aggregate_queries import assert_same_rows, expected
from seqube.engine.aggregates import grouped_product
from seqube.engine.aggregates.aggregation import Aggregator
from seqube.events import Events
from seqube.language import parse
from seqube.plan.optimizer import plan_query
from strategies import cuts, streams, table


@st.composite
def grouped_counts(draw: st.DrawFn) -> str:
    """COUNT(*) EMIT TOTAL of a chain, grouped by one to three values of its components."""
    n = draw(st.integers(1, 4))
    names = [draw(st.sampled_from(["A", "B", "C"])) for _ in range(n)]
    parts = []
    for i, name in enumerate(names):
        if i and draw(st.integers(0, 3)) == 3:
            parts.append(f"!{draw(st.sampled_from('ABC'))} n{i}")
        parts.append(f"{name} v{i}")
    where = draw(st.sampled_from(["", "", ", [id]", ", v0.x > 0"]))
    key = st.tuples(st.integers(0, n - 1), st.sampled_from(["type", "x", "id", "s"]))
    keys = draw(st.lists(key, min_size=1, max_size=3, unique=True))
    partition = draw(st.sampled_from(["", "", " PARTITION BY s"]))
    having = draw(st.sampled_from(["", "", " HAVING COUNT(*) > 1"]))
    groups = ", ".join(f"v{i}.{name}" for i, name in keys)
    pattern = f"SEQ({', '.join(parts)}{where}){partition} WITHIN {draw(st.integers(1, 9))}"
    return f"{pattern} AGG COUNT(*){having} GROUP BY {groups} EMIT TOTAL"


@given(text=grouped_counts(), events=streams(max_size=20, max_time=14))
def test_groups_equal_the_oracle(text: str, events: list[oracle.Event]) -> None:
    note(text)
    found = sq.run(text, table(events), strategy="window-product").table.to_pylist()
    assert_same_rows(found, expected(text, events))


@given(data=st.data(), text=grouped_counts(), events=streams(max_size=16, max_time=14))
def test_groups_of_a_stream_in_pieces(data: st.DataObject, text: str, events: list[oracle.Event]) -> None:
    note(text)
    stream = Events(table(events))
    counting = Aggregator(plan_query(parse(text), strategy="window-product"))
    state, rows = counting.start(), []
    for start, stop in data.draw(cuts(len(events))):
        state, found = counting.step(state, stream.slice(start, stop))
        rows += found.to_pylist() if found is not None else []
        state = counting.restore(state.to_bytes())
    rows += last.to_pylist() if (last := counting.finish(state)[1]) is not None else []
    if events:
        assert_same_rows(rows, expected(text, events))


CASES = {
    "the first and the last": ("SEQ(A a, B b) WITHIN 9 AGG COUNT(*) GROUP BY a.x, b.x EMIT TOTAL", "count_and_undo_groups"),
    "two in the middle": ("SEQ(A a, B b, C c, A d) WITHIN 9 AGG COUNT(*) GROUP BY b.x, c.x EMIT TOTAL", "count_and_undo_groups"),
    "by key": ("SEQ(A a, B b, [id]) WITHIN 9 AGG COUNT(*) GROUP BY a.id, b.x EMIT TOTAL", "count_and_undo_groups"),
    "with a negation": ("SEQ(A a, !C c, B b) WITHIN 9 AGG COUNT(*) GROUP BY a.x EMIT TOTAL", "slide_groups"),
    "three of them": ("SEQ(A a, B b, C c) WITHIN 9 AGG COUNT(*) GROUP BY a.x, b.x, c.x EMIT TOTAL", None),
    "more than a count": ("SEQ(A a, B b) WITHIN 9 AGG SUM(a.x) GROUP BY b.x EMIT TOTAL", None),
    "a window of events": ("SEQ(A a, B b) WITHIN 9 EVENTS AGG COUNT(*) GROUP BY b.x EMIT TOTAL", None),
    "a trailing negation": ("SEQ(A a, B b, !C c) WITHIN 9 AGG COUNT(*) GROUP BY b.x EMIT TOTAL", None),
    "a repeated part": ("SEQ(A+ a, B b) WITHIN 9 AGG COUNT(*) GROUP BY b.x EMIT TOTAL", None),
    "at every end": ("SEQ(A a, B b) WITHIN 9 AGG COUNT(*) GROUP BY a.x", None),
}
EVENTS = oracle.stream(*(("ABCA"[i % 4], i, {"x": i * 7 % 3, "id": i * 5 % 2}) for i in range(60)))


@pytest.mark.parametrize("case", CASES)
def test_what_is_counted_in_one_pass(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text, kernel = CASES[case]
    passes: list[str] = []

    def spied(name: str) -> Any:
        one_pass = getattr(grouped_product, name)
        return lambda *given: (passes.append(name), one_pass(*given))[1]

    for name in ("slide_groups", "count_and_undo_groups"):
        monkeypatch.setattr(grouped_product, name, spied(name))
    assert_same_rows(sq.run(text, table(EVENTS), strategy="window-product").table.to_pylist(), expected(text, EVENTS))
    assert passes == ([kernel] if kernel else [])


@pytest.mark.parametrize(("limit", "value"), [("EXACT", 60.0), ("EXACT", 5.0), ("MOST_NUMBERS", 2)])
def test_what_does_not_fit_is_counted_lane_by_lane(limit: str, value: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    text = CASES["two in the middle"][0]
    monkeypatch.setattr(grouped_product, limit, value)
    assert_same_rows(sq.run(text, table(EVENTS), strategy="window-product").table.to_pylist(), expected(text, EVENTS))
