"""Cubes of a running stream: at every moment the counts of a `Cube` over the window that ends there, however the stream is cut."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
import seqube as sq
from strategies import cuts, streams, table

CONCEPTS = sq.Hierarchy.from_dict({"All": {"First": ["A", "B"], "Second": ["C", "D"]}})
WINDOW, EVERY = 6, 2
PATTERNS = [
    "SEQ(First a, Second b)",
    "SEQ(All a, All b)",
    "SEQ(First a, !D n, All b, [id])",
    "SEQ(All a, First, Second c, a.x > 0)",
    "SEQ(First a)",
]


def batch(pattern: str, events: list[oracle.Event], moment: int) -> sq.Cube:
    """The cube of the window that ends at a moment, counted from scratch."""
    inside = [event for event in events if moment - WINDOW < event.ts <= moment]
    return sq.Cube(table(inside), f"{pattern} WITHIN {WINDOW}", CONCEPTS)


@given(data=st.data(), pattern=st.sampled_from(PATTERNS), events=streams(max_size=16, max_time=14))
def test_the_counts_of_a_batch_at_every_moment(data: st.DataObject, pattern: str, events: list[oracle.Event]) -> None:
    """The whole, every child, and the parents of a child; whatever the stream is cut into and wherever it is saved."""
    rows = table(sorted(events, key=lambda event: event.ts))
    stream = sq.Stream(hierarchy=CONCEPTS, columns=rows.schema)
    stream.cube("cube", f"{pattern} WITHIN {WINDOW}", every=EVERY)
    for start, stop in data.draw(cuts(len(events))):
        stream.push(rows.slice(start, stop - start))
        if data.draw(st.booleans()):
            stream = sq.Stream.load(stream.save())
    stream.close()
    cube = stream.cubes["cube"]
    ends = [event.ts for event in events]
    last = -(-max(ends, default=0) // EVERY) * EVERY
    assert cube.moments == list(range(-(-min(ends, default=1) // EVERY) * EVERY, last + 1, EVERY))
    over_time = dict(zip(*cube.over_time().to_pydict().values(), strict=True))
    for moment in cube.moments:
        found, wanted = cube.at(moment), batch(pattern, events, moment)
        assert found.count == wanted.count == over_time[moment]
        counts = {child.move: child.count for child in wanted.children()}
        assert {child.move: child.count for child in found.children()}.items() <= counts.items()
        for child in found.children():
            assert found.count in [parent.count for parent in child.parents()]
            assert [finer.count for finer in child.children()] == [
                wanted.drill_down(concept=[_move(child.move)]).drill_down(concept=[_move(finer.move)]).count
                for finer in child.children()
            ]


def _move(text: str) -> tuple[str, str, int]:
    old, _, new, _, position = text.split(" ")
    return old, new, int(position)


def test_a_pivot_of_a_moment() -> None:
    stream = sq.Stream(hierarchy=CONCEPTS)
    cube = stream.cube("cube", "SEQ(All a, All b) WITHIN 10", every=10)
    types = list("ACBDAADC")
    stream.push(pa.table({"type": types, "ts": range(1, 9)}))
    stream.advance(11)
    wanted = sq.Cube(pa.table({"type": types, "ts": range(1, 9)}), "SEQ(All a, All b) WITHIN 10", CONCEPTS)
    for rows, columns in [(1, 2), ((1, 2), 2), (2, (1, 2))]:
        assert cube.now.pivot(rows, columns).equals(wanted.pivot(rows, columns))
    narrow = [("All", "Second", 2)]
    assert cube.now.drill_down(concept=narrow).pivot(1, 2).equals(wanted.drill_down(concept=narrow).pivot(1, 2))
    assert repr(cube) == f"SEQ(All, All): {wanted.count} matches in the last window"


def test_a_cube_that_comes_later_and_goes() -> None:
    stream = sq.Stream("SEQ(A a, C c) WITHIN 6", hierarchy=CONCEPTS)
    stream.push(pa.table({"type": list("ABAC"), "ts": [1, 2, 3, 5]}))
    cube = stream.cube("later", "SEQ(First a, Second b) WITHIN 6", every=2)
    assert (cube.moments, cube.count) == ([], 0)
    rows = stream.push(pa.table({"type": ["D"], "ts": [7]}))["later"]
    assert (cube.moments, cube.count) == ([6], 3)
    assert rows.to_pylist() == cube.rows.to_pylist()
    stream.remove("later")
    assert stream.cubes == {}
    assert stream.push(pa.table({"type": ["D"], "ts": [70]})).keys() <= {"query"}


def test_zeros_are_seen_and_old_moments_forgotten() -> None:
    stream = sq.Stream(hierarchy=CONCEPTS)
    cube = stream.cube("cube", "SEQ(First a, Second b) WITHIN 5", every=1)
    stream.push(pa.table({"type": ["A", "C"], "ts": [1, 2]}))
    stream.push(pa.table({"type": ["X"], "ts": [20]}))
    stream.push(pa.table({"type": ["A"], "ts": [21]}))
    assert cube.over_time()["count"].to_pylist() == [0, 1, 1, 1, 1, *[0] * 15]
    stream.push(pa.table({"type": ["A"], "ts": [2_000]}))
    assert len(cube.moments) == 360
    assert len(cube.rows) == 0


@pytest.mark.parametrize(
    ("query", "every", "message"),
    [
        ("SEQ(A a, B b) WITHIN 5 AGG COUNT(*)", 1, "without AGG"),
        ("AND(A a, B b) WITHIN 5", 1, "a cube is a SEQ of types"),
        ("SEQ(A a, B b) WITHIN 5", 0, "after a length of time"),
        ("SEQ(A a, B b) WITHIN 5", "soon", "every"),
    ],
)
def test_what_is_no_cube(query: str, every: int | str, message: str) -> None:
    with pytest.raises(sq.SequbeError, match=message):
        sq.Stream().cube("cube", query, every)


def test_what_is_not_counted_is_refused() -> None:
    stream = sq.Stream(hierarchy=CONCEPTS)
    now = stream.cube("cube", "SEQ(First a, !C n, Second b) WITHIN 5", every=1).now
    moves = [
        lambda: now.roll_up(concept=[("First", "All", 1)]),
        lambda: now.roll_up(pattern=[("!C", 2)]),
        lambda: now.drill_down(concept=[("!C", "Second", 2)]),
        lambda: now.drill_down(pattern=[("D", 1)]),
        lambda: now.slice("a.x > 1"),
    ]
    for move in moves:
        with pytest.raises(sq.PlanError, match=r"not counted by this cube|there is no type|unknown"):
            move()
    with pytest.raises(sq.PlanError, match="builds none"):
        now.table()
    with pytest.raises(sq.PlanError, match="is a cube"):
        stream.replace("cube", "SEQ(A a) WITHIN 5")
    with pytest.raises(sq.PlanError, match="already"):
        stream.cube("cube", "SEQ(A a) WITHIN 5", every=1)
