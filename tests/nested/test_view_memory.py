"""What views hold: as much as the window needs, whatever the length of the stream, and no more than a strategy promises."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

from seqube.engine.instances import Batch
from seqube.engine.matching import Matcher
from seqube.engine.views.iterative import Loops, NestedEvaluation
from seqube.events import Events
from seqube.language import parse, parse_file
from seqube.language.tree import Query
from seqube.plan.optimizer import plan_query
from seqube.plan.physical import MatchPlan
from seqube.plan.strategies import names

VIEWS = ("aggressive", "passive", "balanced")
PATTERNS = (
    "SEQ(A a, AND(B b, C c), D d)",
    "SEQ(A a, !AND(B b, C c, b.id = c.id), D d)",
    "SEQ(A a, SEQ(B b, C c, b.id = a.id), D d)",
)
EXAMPLE = Path(__file__).resolve().parent.parent.parent / "examples" / "nested-passive-views"


def stream(n: int) -> Events:
    """Types in turn, an event at every time."""
    ids = [row * 7 % 5 for row in range(n)]
    return Events(pa.table({"type": [*"ABCD"] * (n // 4), "ts": range(n), "id": ids}))


def peak_words(query: Query, events: Events, strategy: str) -> int:
    plan = plan_query(query, strategy=strategy)
    assert isinstance(plan, MatchPlan)
    evaluation = NestedEvaluation(plan, Batch(events, plan.window.length, events.times))
    assert sum(len(piece) for piece in evaluation.matches()) > 0
    return evaluation.peak_words


@pytest.mark.parametrize("strategy", VIEWS)
@pytest.mark.parametrize("pattern", PATTERNS)
def test_views_are_purged_as_the_window_moves(pattern: str, strategy: str) -> None:
    query = parse(f"{pattern} WITHIN 60")
    shorter, longer = (peak_words(query, stream(n), strategy) for n in (4_000, 16_000))
    assert longer <= 1.05 * shorter


@pytest.mark.parametrize("strategy", [*VIEWS, "iterative", "auto"])
def test_what_loops_write_to_is_gone_with_them(strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where they were told that something is full, and began again with more room."""
    written: list[weakref.ref[np.ndarray[Any, Any]]] = []
    grow = Loops._grow

    def noted(loops: Loops) -> None:
        written.extend(map(weakref.ref, loops.store))
        grow(loops)
        written.extend(map(weakref.ref, loops.store))

    monkeypatch.setattr(Loops, "_grow", noted)
    assert peak_words(parse(f"{PATTERNS[0]} WITHIN 240"), stream(1_200), strategy) >= 0
    stepped = Matcher(plan_query(parse(f"{PATTERNS[1]} WITHIN 240"), strategy=strategy))
    assert stepped.run(stream(1_200)).num_rows
    gc.collect()
    assert written
    assert not any(array() is not None for array in written)


@pytest.mark.parametrize("strategy", VIEWS)
def test_views_grow_with_the_window(strategy: str) -> None:
    narrow, wide = (peak_words(parse(f"{PATTERNS[0]} WITHIN {window}"), stream(1_200), strategy) for window in (60, 240))
    assert wide > 4 * narrow


@pytest.mark.parametrize("strategy", [*names("matches"), "auto"])
def test_the_state_of_a_stream_does_not_grow(strategy: str) -> None:
    events = stream(4_000)
    plan = plan_query(parse(f"{PATTERNS[0]} WITHIN 60"), strategy=strategy)
    assert isinstance(plan, MatchPlan)
    matcher = Matcher(plan)
    state, sizes, n_matches = matcher.start(), [], 0
    for start in range(0, len(events), 100):
        state, found = matcher.step(state, events.slice(start, start + 100))
        n_matches += len(found)
        assert state.events is not None
        assert len(state.events) <= 61  # a window, and an event whose time may not be over
        sizes.append(len(state.to_bytes()))
    assert n_matches > 0
    assert max(sizes) <= 1.05 * np.median(sizes)


def test_only_what_is_asked_for_is_stored() -> None:
    """Examples 4 to 6 of the paper on sliding views: over-computation, exact intervals, and flags instead of results."""
    events = Events(pyarrow.csv.read_csv(EXAMPLE / "events.csv"))
    queries = parse_file((EXAMPLE / "query.sqb").read_text())
    held = {(name, strategy): peak_words(query, events, strategy) for name, query in queries.items() for strategy in VIEWS}
    assert held["over-computation", "aggressive"] > held["over-computation", "passive"]
    assert held["emptiness", "passive"] < held["over-computation", "passive"]
    assert held["emptiness", "passive"] < held["emptiness", "aggressive"]
