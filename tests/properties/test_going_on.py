"""Matches that go on from step to step: however a stream is cut, and wherever its state is saved, they are the oracle's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import oracle
from answers import counted, show
from seqube.engine import growing, kept, matching
from seqube.engine.at_hand import batch_for
from seqube.engine.instances import Batch
from seqube.engine.matching import Matcher
from seqube.events import Events
from seqube.language import parse
from seqube.language.definitions import spell_out
from seqube.plan.needs import replays_partitions, why_replayed
from seqube.plan.physical import MatchPlan
from seqube.plan.planner import plan_matches
from steps import assert_goes_on, feed, rows
from strategies import queries, streams, table

flat = queries(depth=1, words=("SEQ",))


@given(data=st.data(), text=flat, events=streams())
def test_flat_sequences(data: st.DataObject, text: str, events: list[oracle.Event]) -> None:
    assert_goes_on(data, text, events)


@given(data=st.data(), text=queries(depth=1, words=("SEQ",), predicates=False), events=streams(max_time=4))
def test_structure_alone(data: st.DataObject, text: str, events: list[oracle.Event]) -> None:
    assert_goes_on(data, text, events)


@given(data=st.data(), text=queries(depth=1, words=("SEQ",), counted=True), events=streams(max_time=6))
def test_windows_of_events(data: st.DataObject, text: str, events: list[oracle.Event]) -> None:
    assert_goes_on(data, text, events)


@given(data=st.data(), text=queries(), events=streams())
def test_any_query(data: st.DataObject, text: str, events: list[oracle.Event]) -> None:
    assert_goes_on(data, text, events)


@given(data=st.data(), text=queries(depth=1, words=("SEQ",), counted=False), events=streams(max_size=9))
def test_events_in_any_order_as_long_as_they_are_not_decided(data: st.DataObject, text: str, events: list[oracle.Event]) -> None:
    """Each by itself, with a watermark that waits for all that is still to come."""
    show(text, events)
    stream, operator = Events(table(events)), Matcher(plan_matches(spell_out(parse(text))))
    order = data.draw(st.permutations(range(len(events))))
    state, found = operator.start(), []
    for number, row in enumerate(order):
        watermark = min((events[other].ts for other in order[number + 1 :]), default=None)
        state, matches = operator.step(state, stream.slice(row, row + 1), watermark)
        found += rows(matches)
        if data.draw(st.booleans()):
            state = operator.restore(state.to_bytes())
    last = operator.finish(state)[1]
    found += [] if last is None else rows(last)
    assert counted(found) == counted(oracle.matches(parse(text), events))


@given(data=st.data(), text=flat, events=streams())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_is_kept_is_put_together_and_forgotten_at_once(
    monkeypatch: pytest.MonkeyPatch, data: st.DataObject, text: str, events: list[oracle.Event]
) -> None:
    """What is done now and then over a long stream, done at every step."""
    monkeypatch.setattr(kept, "NEIGHBOURS", 2)
    monkeypatch.setattr(growing, "ROOM", 1)
    monkeypatch.setattr(matching, "SLACK", 0)
    assert_goes_on(data, text, events)


LONG = {
    "keyed": "SEQ(A a, B b, C c, [id]) WITHIN 300",
    "texts": "SEQ(A a, B b, [name]) WITHIN 200",
    "stacks": "SEQ(A a, B b, C c) WITHIN 12",
    "between": "SEQ(A a, !D d, C c, [id]) WITHIN 400",
    "of any key": "SEQ(A a, B b, !D d, C c, a.id = b.id = c.id) WITHIN 400",
    "leading": "SEQ(!D d, A a, B b, [id]) WITHIN 300",
    "trailing": "SEQ(A a, B b, !D d, [id]) WITHIN 300",
    "trailing, of any key": "SEQ(A a, B b, !D d, a.id = b.id) WITHIN 20",
    "around": "SEQ(!D d, A a, B b, C c, !D e, [id]) WITHIN 300",
    "compared": "SEQ(A a, B b, C c, [id], b.x > a.x, c.y < a.x + 0.5) WITHIN 500",
    "filtered": "SEQ(A a, B b, a.x > 3, b.y < 0.5, a.x + b.x + a.x > 12) WITHIN 30",
    "partitioned": "PATTERN SEQ(A a, B b, !D d, C c) PARTITION BY name WITHIN 300",
    "events": "SEQ(A a, B b, C c, [id]) WITHIN 150 EVENTS",
    "events, waiting": "SEQ(A a, B b, !C c, [id]) WITHIN 150 EVENTS",
    "events of a partition": "PATTERN SEQ(A a, B b, C c) PARTITION BY id WITHIN 6 EVENTS",
    "events of a partition, waiting": "PATTERN SEQ(A a, B b, !D d) PARTITION BY id WITHIN 6 EVENTS",
    "keys in partitions": "PATTERN SEQ(A a, B b, !D d, !E e, a.x = b.x = d.x) PARTITION BY id WITHIN 8 EVENTS",
    "any type": "SEQ(A a, ANY b, C c, [id], b.x > 4) WITHIN 100",
    "one": "SEQ(A a, !B b, [id]) WITHIN 200",
}


def long_stream(n: int = 6_000, seed: int = 7) -> Events:
    """Few types, many ties, and keys that come and go."""
    random = np.random.default_rng(seed)
    ids = np.arange(n) // 100 + random.integers(0, 30, n)
    return Events(
        pa.table(
            {
                "type": random.choice(list("AABBCCDE"), n),
                "ts": np.cumsum(random.choice([0, 1, 1, 2], n)),
                "id": pa.array(ids, mask=random.random(n) < 0.02),
                "name": [f"name {number}" for number in ids],
                "x": random.integers(0, 6, n),
                "y": random.random(n) * 6,
                "row": np.arange(n),
            }
        )
    )


@pytest.mark.parametrize("name", LONG)
@pytest.mark.parametrize("size", [1, 37, 1_000])
def test_long_streams(monkeypatch: pytest.MonkeyPatch, name: str, size: int) -> None:
    """As many steps as it takes for arrays to fill, chunks to be put together and keys to be forgotten."""
    monkeypatch.setattr(matching, "SLACK", 200)
    events = long_stream(600 if size == 1 else 6_000)
    plan = plan_matches(parse(LONG[name]))
    pieces = [(start, min(start + size, len(events))) for start in range(0, len(events), size)]
    found = feed(Matcher(plan), events, pieces, saved=[number % 40 == 39 and size > 1 for number in range(len(pieces))])
    whole = Matcher(plan).run(events)
    assert why_replayed(plan) is None
    assert len(whole) > 5
    assert counted(rows(found)) == counted(rows(whole))


def test_matches_come_in_the_order_of_the_stream() -> None:
    events = Events(pa.table({"type": list("AABBC"), "ts": range(5), "row": range(5)}))
    plan = plan_matches(parse("SEQ(A a, B b, C c) WITHIN 10"))
    assert rows(feed(Matcher(plan), events, [(0, 3), (3, 5)])) == rows(Matcher(plan).run(events))


# ---------------------------------------------------------------- negated sub-queries: the latest start, in stages

NEGATED = (
    "SEQ(A a, !SEQ(B b, C c), D d)",
    "SEQ(A a, !AND(B b, C c), D d)",
    "SEQ(!SEQ(B b, C c), A a, D d)",
    "SEQ(!AND(B b, C c, b.x > 1), A a, !SEQ(B e, B f), D d)",
    "SEQ(A a, !SEQ(B b, C c, A e), D d, [id])",
    "SEQ(A a, !AND(B b, C c), D d, [id])",
    "SEQ(A a, !SEQ(B b, C c, b.x = 2 OR b.x IS NULL), B e, !SEQ(C f, A g), D d)",
    "SEQ(A a, !SEQ(B b, C c), D d, !B e, [id])",
)


@pytest.mark.parametrize("window", ["WITHIN 9", "WITHIN 7 EVENTS", "WITHIN 9 PARTITION BY k"])
@pytest.mark.parametrize("pattern", NEGATED)
@given(data=st.data(), events=streams(max_time=12))
def test_negated_subqueries_in_stages(pattern: str, window: str, data: st.DataObject, events: list[oracle.Event]) -> None:
    text = f"{pattern} {window}"
    assert why_replayed(plan_matches(parse(text))) is None
    assert_goes_on(data, text, events)


@pytest.mark.parametrize(
    "pattern",
    [
        "SEQ(A a, !SEQ(B b, !C c, D e), D d)",  # a negation inside
        "SEQ(A a, !SEQ(B b, C c, b.x < c.x), D d)",  # more than keys between its parts
        "SEQ(A a, !SEQ(B b, C c, b.id = c.id), D d)",  # a key of its own
        "SEQ(A a, !AND(B b, B c), D d)",  # one event could be two parts
        "SEQ(A a, !AND(B b, ANY c), D d)",
        "SEQ(A a, D d, !SEQ(B b, C c))",  # the earliest end is asked, not the latest start
    ],
)
def test_other_negated_subqueries_are_replayed(pattern: str) -> None:
    assert why_replayed(plan_matches(parse(f"{pattern} WITHIN 9"))) is not None


# ---------------------------------------------------------------- partitions that are replayed

REPLAYED = (
    "AND(A a, B b)",
    "SEQ(A a, OR(B b, C c), D d)",
    "NEXT(A a, B b)",
    "SEQ(A a, B+ b)",
    "SEQ(A a, !SEQ(B b, C c, b.x < c.x), D d)",
)


@settings(max_examples=settings.default.max_examples // 2)
@given(data=st.data(), pattern=st.sampled_from(REPLAYED), window=st.sampled_from(["6", "4 EVENTS"]), events=streams(max_time=12))
def test_partitions_with_new_events_are_replayed(
    data: st.DataObject, pattern: str, window: str, events: list[oracle.Event]
) -> None:
    text = f"PATTERN {pattern} PARTITION BY id WITHIN {window}"
    assert replays_partitions(plan_matches(parse(text)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matching, "SLACK", data.draw(st.sampled_from([0, matching.SLACK])))
        assert_goes_on(data, text, events)


def test_other_partitions_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two events in each step, of a hundred partitions: what is looked at is what is kept of their own."""
    n, looked_at = 2_000, []
    columns = {"type": ["A", "B"] * (n // 2), "ts": np.arange(n), "id": np.arange(n) // 2 % 100, "row": np.arange(n)}
    events, plan = Events(pa.table(columns)), plan_matches(parse("PATTERN AND(A a, B b) PARTITION BY id WITHIN 1000"))
    whole = Matcher(plan).run(events)

    def noted(plan: MatchPlan, events: Events, *others: Any) -> Batch:
        looked_at.append(len(events))
        return batch_for(plan, events, *others)

    monkeypatch.setattr(matching, "batch_for", noted)
    found = feed(Matcher(plan), events, [(start, start + 2) for start in range(0, n, 2)], saved=[False] * (n // 2))
    assert max(looked_at) <= 2 * (1000 // 100 + 2)
    assert counted(rows(found)) == counted(rows(whole))


def test_what_is_held_follows_the_window(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys that never come back are forgotten with their events, and nothing else grows."""
    monkeypatch.setattr(matching, "SLACK", 100)
    n, size = 20_000, 100
    random = np.random.default_rng(3)
    events = Events(pa.table({"type": random.choice(list("ABC"), n), "ts": np.arange(n), "id": np.arange(n) // 3}))
    operator = Matcher(plan_matches(parse("SEQ(A a, B b, !C c, [id]) WITHIN 1000")))
    state, held, n_found = operator.start(), [], 0
    for start in range(0, n, size):
        state, found = operator.step(state, events.slice(start, start + size))
        n_found += len(found)
        if start > 3_000:
            held.append(state.n_bytes)
            assert state.n_kept <= 1_001
    assert n_found > 0
    assert max(held) < 2 * np.median(held)
    assert np.mean(held[-40:]) < 1.2 * np.mean(held[:40])
