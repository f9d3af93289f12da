"""GROUP BY the types at positions: counted for every combination of types, step by step, as the oracle counts them."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import oracle
import seqube as sq
from aggregate_queries import COUNTED, assert_same_rows, expected
from answers import show
from seqube.engine.aggregates.aggregation import Aggregator
from seqube.engine.aggregates.state import LiveCounts
from seqube.events import Events
from seqube.language import parse
from seqube.plan.aggregates import MOST_COMBINATIONS, chain_of, plan_aggregates
from seqube.plan.chains import EventChain
from seqube.plan.needs import why_replayed
from steps import feed
from strategies import cuts, streams, table

CONCEPTS = {"All": {"First": ["A", "B"], "Second": ["C", "D"]}}
HIERARCHY = sq.Hierarchy.from_dict(CONCEPTS)


def counting(text: str, strategy: str = "window-product") -> Aggregator:
    return Aggregator(replace(plan_aggregates(parse(text), HIERARCHY), strategy=strategy))


@st.composite
def grouped(draw: st.DrawFn) -> str:
    """A SEQ of concepts and types, with and without a key, by the types at some of its positions, and by the key."""
    names = draw(st.lists(st.sampled_from(["All", "First", "Second", "A", "C"]), min_size=1, max_size=3))
    parts = [f"{name} v{number}" for number, name in enumerate(names)]
    if draw(st.booleans()):
        parts.insert(draw(st.integers(0, len(parts))), f"!{draw(st.sampled_from(['D', 'Second', 'B']))} n")
    key = draw(st.sampled_from(["", "", ", [id]", ", [s]"])) if len(names) > 1 else ""
    groups = [f"v{number}.type" for number in sorted(draw(st.sets(st.integers(0, len(names) - 1), min_size=1)))]
    if key and draw(st.booleans()):
        groups.insert(draw(st.integers(0, len(groups))), f"v0.{key[3:-1]}")
    measured = draw(st.sampled_from(["COUNT(*)", "COUNT(*), SUM(v0.x)", "COUNT(*), MAX(v0.x)"]))
    window = draw(st.sampled_from(["3", "6", "20", "4 EVENTS"]))
    emit = draw(st.sampled_from(["EVERY 1", "EVERY 3", "ON TRIGGER", "TOTAL", "PER 4"]))
    where = draw(st.sampled_from(["", "WHERE v0.x > 0"]))
    partition = draw(st.sampled_from(["", "", "PARTITION BY f"]))
    return (
        f"SEQ({', '.join(parts)}{key}) {where} {partition} WITHIN {window} AGG {measured} GROUP BY {', '.join(groups)} EMIT {emit}"
    )


@pytest.mark.parametrize("strategy", COUNTED)
@given(data=st.data(), text=grouped(), events=streams(max_size=16, max_time=12), watermarks=st.booleans())
def test_as_the_oracle_counts(strategy: str, data: st.DataObject, text: str, events: list[oracle.Event], watermarks: bool) -> None:
    """Whatever is cut and saved."""
    assume(isinstance(chain_of(plan_aggregates(parse(text), HIERARCHY)), EventChain))
    show(text, events)
    pieces = data.draw(cuts(len(events)))
    saved = data.draw(st.lists(st.booleans(), min_size=len(pieces), max_size=len(pieces)))
    found = feed(counting(text, strategy), Events(table(events)), pieces, watermarks, saved)
    assert_same_rows(found.to_pylist(), expected(text, events, CONCEPTS))


def test_no_event_is_kept_for_it() -> None:
    random = np.random.default_rng(5)
    events = Events(pa.table({"type": random.choice(list("ABCD"), 4_000), "ts": np.arange(4_000)}))
    aggregator = counting("SEQ(First a, Second b) WITHIN 500 AGG COUNT(*) GROUP BY a.type, b.type EMIT EVERY 100")
    state, found = aggregator.start(), []
    for start in range(0, len(events), 500):
        state, rows = aggregator.step(state, events.slice(start, start + 500))
        assert rows is not None
        assert isinstance(state, LiveCounts)
        assert state.n_kept == 1  # at its time more may come
        found.append(rows)
    assert {(row["a_type"], row["b_type"]) for row in pa.concat_tables(found).to_pylist()} == set(product("AB", "CD"))


@pytest.mark.parametrize(
    ("query", "goes_on"),
    [
        ("SEQ(First a, Second b) WITHIN 9 AGG COUNT(*) GROUP BY a.type, b.type EMIT EVERY 2", True),
        ("SEQ(First a, Second b, [id]) WITHIN 9 AGG COUNT(*) GROUP BY b.type, a.id", True),
        ("SEQ(First a, Second b) WITHIN 9 AGG COUNT(*) GROUP BY a.type, b.x", False),
        ("SEQ(First a, Second b) WITHIN 9 AGG COUNT(*) GROUP BY a.type AT 1", False),
        ("SEQ(ANY a, Second b) WITHIN 9 AGG COUNT(*) GROUP BY a.type", False),
    ],
)
def test_what_goes_on(query: str, goes_on: bool) -> None:
    assert (why_replayed(counting(query).plan) is None) == goes_on


def test_too_many_combinations_are_not_counted_ahead() -> None:
    side = int(MOST_COMBINATIONS**0.5)
    for more in (0, 1):
        wide = sq.Hierarchy.from_dict({"Wide": [f"T{number}" for number in range(side - 1 + more)]})
        query = parse("SEQ(Wide a, Wide b) WITHIN 9 AGG COUNT(*) GROUP BY a.type, b.type")
        plan = replace(plan_aggregates(query, wide), strategy="window-product")
        assert (why_replayed(plan) is None) == (not more)
