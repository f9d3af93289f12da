"""`sq.Cube`: moves through the lattice, their counts, and what is said about moves that are none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
import seqube as sq
from answers import show
from seqube import cube as cubes
from strategies import concepts, hierarchies, queries, streams, table

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "ecube-figure-1"
HIERARCHY = sq.Hierarchy.load(EXAMPLE / "hierarchy.yaml")


def cube(text: str) -> sq.Cube:
    return sq.Cube(str(EXAMPLE / "events.csv"), f"{text} WITHIN 48 hours", hierarchy=HIERARCHY)


# ---------------------------------------------------------------- the moves of Example 2


@pytest.mark.parametrize(
    ("start", "direction", "moves", "pattern", "count"),
    [
        ("SEQ(G, A, T)", "drill_down", {"pattern": [("!D", 2)]}, "SEQ(G, !D, A, T)", 2),
        ("SEQ(TX, OK)", "drill_down", {"concept": [("TX", "D", 1)]}, "SEQ(D, OK)", 6),
        ("SEQ(TX, OK)", "drill_down", {"concept": [("TX", "D", 1), ("OK", "T", 2)]}, "SEQ(D, T)", 6),
        ("SEQ(G, A, D, T)", "roll_up", {"pattern": [("G", 1), ("A", 2)]}, "SEQ(D, T)", 6),
        ("SEQ(D, T)", "roll_up", {"concept": [("D", "TX", 1)]}, "SEQ(TX, T)", 17),
        ("SEQ(D, T)", "drill_down", {"pattern": [("G", 1), ("A", 2)]}, "SEQ(G, A, D, T)", 6),
        ("SEQ(G, !DBusStation, A, T)", "drill_down", {"concept": [("!DBusStation", "D", 2)]}, "SEQ(G, !D, A, T)", 2),
        ("SEQ(G, !D, A, T)", "roll_up", {"concept": [("D", "DBusStation", 2)]}, "SEQ(G, !DBusStation, A, T)", 4),
        ("SEQ(TX, OK)", "drill_down", {"concept": [("TX", "G", 1)], "pattern": [("A", 2)]}, "SEQ(G, A, OK)", 6),
        ("SEQ(G, A)", "drill_down", {"pattern": [("T", 3)]}, "SEQ(G, A, T)", 6),
    ],
)
def test_moves(start: str, direction: str, moves: dict[str, Any], pattern: str, count: int) -> None:
    there = getattr(cube(start), direction)(**moves)
    assert there.pattern == pattern
    assert there.count == count == there.table().num_rows
    assert there.count == cube(pattern).count


@pytest.mark.parametrize(
    ("start", "direction", "moves", "says"),
    [
        ("SEQ(TX, OK)", "drill_down", {"concept": [("D", "DHospital", 1)]}, ["is TX, not D", "TX is at 1, OK is at 2"]),
        ("SEQ(TX, OK)", "drill_down", {"concept": [("TX", "T", 1)]}, ["T is not below TX", "G, GBusStation"]),
        ("SEQ(D, T)", "roll_up", {"concept": [("D", "OK", 1)]}, ["OK is not above D", "above D there is TX"]),
        ("SEQ(TX, OK)", "roll_up", {"concept": [("TX", "D", 1)]}, ["D is not above TX", "nothing is above TX"]),
        ("SEQ(G, !D, A)", "drill_down", {"concept": [("D", "DHospital", 2)]}, ["not above D (drilling down on a negated type"]),
        ("SEQ(TX, OK)", "drill_down", {"pattern": [("Huston", 1)]}, ["no type 'Huston'"]),
        ("SEQ(TX, OK)", "drill_down", {"pattern": [("D", 5)]}, ["position 5 of SEQ(TX, OK)", "positions 1 to 3"]),
        ("SEQ(TX, OK)", "roll_up", {"pattern": [("TX", 2)]}, ["is OK, not TX"]),
        ("SEQ(TX, OK)", "roll_up", {"pattern": [("TX", 3)]}, ["no position 3", "positions 1 to 2"]),
        ("SEQ(!G, TX)", "roll_up", {"pattern": [("TX", 2)]}, ["nothing would be left"]),
    ],
)
def test_moves_that_are_none(start: str, direction: str, moves: dict[str, Any], says: list[str]) -> None:
    with pytest.raises(sq.PlanError) as error:
        getattr(cube(start), direction)(**moves)
    assert all(text in str(error.value) for text in says), error.value


@pytest.mark.parametrize("text", ["AND(G, A)", "SEQ(G, OR(A, D))", "SEQ(G, !SEQ(A, D), T)", "SEQ(G, A) AGG COUNT(*)"])
def test_what_is_no_cube(text: str) -> None:
    with pytest.raises(sq.PlanError, match="cube"):
        cube(text)


# ---------------------------------------------------------------- the cuboids around one


def test_children_and_parents_come_with_their_counts() -> None:
    here = cube("SEQ(D, !A, OK)")
    children = {(row["pattern"], row["count"]) for row in here.children().table.to_pylist()}
    assert {pattern for pattern, _ in children} == {
        "SEQ(DBusStation, !A, OK)",
        "SEQ(DHospital, !A, OK)",
        "SEQ(DShelter, !A, OK)",
        "SEQ(D, !TX, OK)",
        "SEQ(D, !A, T)",
    }
    parents = {row["pattern"]: row["count"] for row in here.parents().table.to_pylist()}
    assert set(parents) == {
        "SEQ(TX, !A, OK)",
        "SEQ(D, !ABusStation, OK)",
        "SEQ(D, !AHospital, OK)",
        "SEQ(D, !AShelter, OK)",
        "SEQ(!A, OK)",
        "SEQ(D, OK)",
        "SEQ(D, !A)",
    }
    for pattern, count in [*children, *parents.items()]:
        assert cube(pattern).count == count, pattern


def test_children_with_a_type_put_in() -> None:
    inserted = [child.pattern for child in cube("SEQ(D, T)").children(insert=["!A"]) if "!A" in child.pattern]
    assert inserted == ["SEQ(!A, D, T)", "SEQ(D, !A, T)", "SEQ(D, T, !A)"]


def test_pivot_counts_by_the_types_of_two_positions() -> None:
    here = cube("SEQ(TX, OK)")
    cities = here.pivot(rows=1, columns=2)
    assert list(cities.index) == ["G", "A", "D"]
    assert cities["T"].tolist() == [2, 9, 6]
    places = here.pivot(rows=(1, 2), columns=(2, 2))
    assert places.loc["DHospital"].tolist() == [1, 1, 1]
    assert int(places.to_numpy().sum()) == here.count
    with pytest.raises(sq.PlanError, match="positions 1, 3"):
        cube("SEQ(G, !D, A)").pivot(rows=1, columns=2)


def test_slice_keeps_the_pattern_and_moves_keep_the_slice() -> None:
    sliced = cube("SEQ(TX x, OK y)").slice("x.reading > 3")
    assert sliced.count == 9
    assert sliced.drill_down(concept=[("TX", "A", 1)]).count == 6
    assert sliced.roll_up(pattern=[("TX", 1)]).count == 3  # the predicate goes with its component
    with pytest.raises(sq.QueryError):
        sliced.slice("z.reading > 3")


def test_variables_nobody_chose_go_with_their_type() -> None:
    drilled = cube("SEQ(TX, OK, TX.reading < OK.reading)").drill_down(concept=[("TX", "D", 1)])
    assert drilled.table().column_names == ["start", "end", "D", "OK"]
    assert drilled.count == 6
    chosen = cube("SEQ(TX x, OK y)").drill_down(concept=[("TX", "D", 1)], pattern=[("D", 1)])
    assert chosen.table().column_names == ["start", "end", "D", "x", "y"]


def test_shown_as_text_and_html() -> None:
    assert repr(cube("SEQ(D, T)")) == "SEQ(D, T): 6 matches"
    assert "DHospital" in cube("SEQ(D, T)")._repr_html_()


# ---------------------------------------------------------------- any cube


@given(data=st.data(), tree=hierarchies(), events=streams())
def test_every_neighbour_counts_what_the_oracle_counts(data: st.DataObject, tree: Any, events: list[oracle.Event]) -> None:
    text = data.draw(queries(names=concepts(tree), depth=1, words=("SEQ",)))
    show(text, events, tree)
    if not events:
        return
    try:
        here = sq.Cube(table(events), text, hierarchy=sq.Hierarchy.from_dict(tree) if tree else None)
    except sq.PlanError:
        return
    known = {*here.events.type_names, *(here.hierarchy or ())}  # a type that is nowhere cannot be put in
    insert = [text for text in ("A", "!B") if text.removeprefix("!") in known]
    for there in [here, *here.parents(), *here.children(insert=insert)][:8]:
        assert there.count == len(oracle.matches(there.query, events, tree)), str(there.query)


# ---------------------------------------------------------------- what was counted once


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Every run that a cube asks for: its queries."""
    asked: list[Any] = []
    run = cubes.run
    monkeypatch.setattr(cubes, "run", lambda query, *rest, **more: asked.append(query) or run(query, *rest, **more))
    return asked


def test_children_by_concept_are_one_count_by_two_types(runs: list[Any]) -> None:
    here = cube("SEQ(TX, OK)")
    counts = {child.pattern: child.count for child in here.children()}
    assert len(runs) == 1
    assert here.count == 17 == counts["SEQ(TX, T)"]  # told by the same count
    assert len(runs) == 1
    assert counts["SEQ(D, OK)"] == cube("SEQ(D, OK)").count


def test_a_pivot_is_one_count_and_tells_what_is_below_it(runs: list[Any]) -> None:
    here = cube("SEQ(TX, OK)")
    places = here.pivot(rows=(1, 2), columns=(2, 2))
    finer = here.drill_down(concept=[("TX", "D", 1)]).drill_down(concept=[("OK", "THospital", 2), ("D", "DHospital", 1)])
    assert finer.count == places.loc["DHospital", "THospital"]
    assert here.pivot(rows=2, columns=1).loc["T"].tolist() == [2, 9, 6]
    assert here.drill_down(concept=[("TX", "A", 1)]).count == 9
    assert len(runs) == 1


def test_moves_that_lead_back_are_not_counted_again(runs: list[Any]) -> None:
    here = cube("SEQ(G, A, T)")
    there = here.drill_down(pattern=[("!D", 2)])
    assert (here.count, there.count, there.roll_up(pattern=[("!D", 2)]).count) == (6, 2, 6)
    assert len(runs) == 2


def test_children_are_one_workload_with_those_that_no_type_tells(runs: list[Any]) -> None:
    children = cube("SEQ(G, !DBusStation, A)").children(insert=["T", "!T"])
    assert len({child.count for child in children}) > 1
    (asked,) = runs
    assert len(asked) == 1 + len(children) - 6  # one count tells of the three places below each of the two cities


def test_a_defined_type_is_counted_by_what_it_says() -> None:
    trades = {"type": ["Trade", "Trade", "Sale", "Trade", "Sale"], "ts": [1, 2, 3, 4, 5], "price": [1, 9, 1, 9, 1]}
    here = sq.Cube(pa.table(trades), "SEQ(Trade a, Sale b) WITHIN 9 DEFINE Big AS Trade WHERE price > 5")
    assert here.count == 5
    assert [(child.pattern, child.count) for child in here.children()] == [("SEQ(Big, Sale)", 3)]
