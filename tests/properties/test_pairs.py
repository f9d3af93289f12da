"""Equalities that differ from pair to pair: by an index for each pair, and by a loop over the window, the same matches."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
import seqube as sq
from answers import counted, rows_of, show
from seqube.engine.limits import NO_LIMITS
from seqube.engine.operator import open_plan
from seqube.language import parse
from seqube.plan.pairs import pairs_of
from seqube.plan.physical import PAIR_INDEX, MatchPlan, MatchSequence, Way
from seqube.query import prepare
from strategies import streams, table

COLUMNS = ("id", "x", "y", "s", "k", "c", "w")


@st.composite
def joins(draw: st.DrawFn) -> str:
    """A SEQ of single events, some pairs of which agree on something, with whatever else a sequence may have."""
    size = draw(st.integers(2, 4))
    parts = [f"{draw(st.sampled_from('AABBCD'))} v{i}" for i in range(size)]
    places = list(combinations(range(size), 2))
    chosen = draw(st.lists(st.sampled_from(places), min_size=1, max_size=3))
    asked = []
    for left, right in chosen:
        sides = [f"v{left}.{draw(st.sampled_from(COLUMNS[:3]))}", f"v{right}.{draw(st.sampled_from(COLUMNS[:3]))}"]
        if draw(st.booleans()):
            name = draw(st.sampled_from(COLUMNS))
            sides = [f"v{left}.{name}", f"v{right}.{name}"]
        asked.append(" = ".join(draw(st.permutations(sides))))
    others = ["v0.x < v1.x", "v1.x + 1 = v0.x", "(v0.y <= v1.y OR v0.f)", f"v0.x + v1.x < v{size - 1}.id", "[id]", f"v{size - 1}.f"]
    asked += draw(st.lists(st.sampled_from(others), max_size=2, unique=True))
    if draw(st.integers(0, 2)) == 0:
        at = draw(st.integers(0, size))
        parts.insert(at, draw(st.sampled_from(["!D n", "!B n", "!SEQ(C n, D m)"])))
    lines = [f"SEQ({', '.join(parts)})", f"WHERE {' AND '.join(asked)}"]
    lines += draw(st.sampled_from([[], [], ["PARTITION BY s"], ["ORDER BY x"]]))
    return " ".join([*lines, "WITHIN", draw(st.sampled_from(["2", "5", "9", "3 EVENTS", "99"]))])


def ways(text: str, stream: sq.Events) -> list[MatchPlan]:
    """Its plan with every sequence found by one way, and by the other."""
    plan = prepare(text, stream)
    assert isinstance(plan, MatchPlan)
    return [replace(plan, ways=(Way(plan.pattern, strategy),)) for strategy in (PAIR_INDEX, "array-stacks")]


@given(text=joins(), events=streams(max_size=12))
def test_an_index_finds_what_a_loop_finds(text: str, events: list[oracle.Event]) -> None:
    show(text, events)
    expected = counted(oracle.matches(parse(text), events))
    stream = sq.Events(table(events))
    for plan in ways(text, stream):
        found = open_plan(plan).run(stream).to_pylist()
        rows = [{name: rows_of(bound) for name, bound in row.items() if name not in ("start", "end")} for row in found]
        assert counted(rows) == expected


def test_matches_that_fill_many_pieces_come_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from seqube.engine import evaluation

    monkeypatch.setattr(evaluation, "PIECE", 3)
    size = 40
    events = sq.Events(
        pa.table({"type": ["A", "B", "C", "D"] * size, "ts": range(4 * size), "x": [n // 3 % 3 for n in range(4 * size)]})
    )
    text = "SEQ(A a, B b, C c, D d) WHERE a.x = b.x AND b.x != c.x AND c.x = d.x WITHIN 25"
    by_index, by_loop = (open_plan(plan, NO_LIMITS).run(events).to_pylist() for plan in ways(text, events))
    assert len(by_index) > 50
    assert counted([{name: str(value) for name, value in row.items()} for row in by_index]) == counted(
        [{name: str(value) for name, value in row.items()} for row in by_loop]
    )


def chain(n: int, values: int) -> sq.Events:
    numbers = range(n)
    columns = {name: [hash((name, number)) % values for number in numbers] for name in "xyz"}
    return sq.Events(pa.table({"type": ["ABCD"[hash((number,)) % 4] for number in numbers], "ts": numbers, **columns}))


CHAIN = "SEQ(A a, B b, C c, D d) WHERE a.x = b.x AND b.y = c.y AND c.z = d.z WITHIN "


def test_cost_decides_between_index_and_loop() -> None:
    events = chain(20_000, 5_000)
    wide, narrow = str(sq.explain(CHAIN + "20000", events)), str(sq.explain(CHAIN + "8", events))
    assert "taken: pair-index" in wide
    assert "rejected: array-stacks" in wide
    assert "an index for each pair, looked into from the last slot" in wide
    assert "looked up: a.x = b.x" in wide
    assert "taken: array-stacks" in narrow
    assert "in the loop: a.x = b.x" in narrow
    unknown = str(sq.explain(CHAIN + "8"))
    assert "looked up: c.z = d.z" in unknown


def test_a_wide_window_does_not_matter() -> None:
    """A loop over this window would look at billions of pairs."""
    assert len(sq.run(CHAIN + "100000", chain(100_000, 1_000_000), max_seconds=60)) < 100


def test_what_is_expected_to_take_longer_than_it_may_says_so_before_it_starts() -> None:
    events = sq.Events(pa.table({"type": ["A", "B", "C", "D"] * 5_000, "ts": range(20_000), "x": [1] * 20_000}))
    query = "SEQ(A a, B b, C c, D d) WHERE a.x = d.x WITHIN 20000"
    with pytest.warns(sq.errors.SequbeWarning, match=r"expected to take about .* s, and may take 5 s \(max_seconds\)"):
        result = sq.run(query, events, max_seconds=5, max_matches=10, on_limit="truncate")
    assert any("expected to take" in note for note in result.notes)
    assert not sq.run(query.replace("20000", "20"), events, max_seconds=5).notes
    assert not sq.run(query + " LIMIT 3", events, max_seconds=5).notes


def test_what_no_index_knows_stays_in_the_loop() -> None:
    def pairs(text: str) -> list[tuple[int, int]]:
        plan = prepare(f"SEQ({text}) WITHIN 9", None).matches.pattern
        assert isinstance(plan, MatchSequence)
        return [(pair.left, pair.right) for pair in pairs_of(plan)]

    assert pairs("A a, B b, C c, a.x = b.x, c.y = b.y, a.z = c.z") == [(0, 1), (0, 2), (1, 2)]
    assert pairs("A a, B b, C c, D d, a.x = b.x, a.x = c.x, b.x = 3") == [(0, 1), (0, 2), (1, 2)]  # so b.x = c.x
    assert pairs("A a, B b, a.x = b.x") == []  # that is a key
    assert pairs("A a, B b, C c, a.x = b.x OR a.y = b.y, b.x < c.x") == []
    assert pairs("A a, AND(B b, D d, a.x = b.x), C c") == []
