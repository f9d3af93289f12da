"""Definitions 3 to 5 of E-Cube: which query is coarser than which, and how."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import seqube as sq
from seqube.language import parse
from seqube.plan.ecube import Cuboid, Lattice, cuboid_of, refinement
from strategies import concepts, hierarchies, queries

CITIES = sq.Hierarchy.from_dict(
    {
        "TX": {"G": [], "A": [], "D": ["DBusStation", "DHospital", "DShelter"]},
        "OK": {"T": ["TBusStation", "THospital", "TShelter"]},
    }
)
FIGURE_1 = {
    "q1": "SEQ(TX, OK)",
    "q2": "SEQ(D, T)",
    "q3": "SEQ(G, A, T)",
    "q4": "SEQ(G, !DBusStation, A, T)",
    "q5": "SEQ(DBusStation, TBusStation, THospital)",
    "q6": "SEQ(G, A, D, T)",
    "q7": "SEQ(G, !D, A, T)",
}


def cuboid(text: str, hierarchy: sq.Hierarchy | None = CITIES) -> Cuboid:
    found = cuboid_of(parse(f"{text} WITHIN 48 hours" if "WITHIN" not in text else text), hierarchy)
    assert isinstance(found, Cuboid), found
    return found


@pytest.mark.parametrize(
    ("coarse", "fine", "label"),
    [
        ("SEQ(TX, OK)", "SEQ(D, T)", "concept"),
        ("SEQ(TX, OK)", "SEQ(D, OK)", "concept"),
        ("SEQ(D, T)", "SEQ(TX, OK)", None),
        ("SEQ(TX, OK)", "SEQ(TX, OK)", None),
        ("SEQ(TX, T)", "SEQ(D, OK)", None),
        ("SEQ(G, !DBusStation, A, T)", "SEQ(G, !D, A, T)", "concept"),
        ("SEQ(G, !D, A, T)", "SEQ(G, !DBusStation, A, T)", None),
        ("SEQ(G, A, T)", "SEQ(G, A, D, T)", "pattern"),
        ("SEQ(G, A, T)", "SEQ(G, !D, A, T)", "pattern"),
        ("SEQ(G, A, T)", "SEQ(G, D, T)", None),
        ("SEQ(G, A, T)", "SEQ(A, G, T)", None),
        ("SEQ(G, D, T)", "SEQ(G, !D, T)", None),
        ("SEQ(TX, OK)", "SEQ(G, A, T)", "both"),
        ("SEQ(TX, TX, OK)", "SEQ(G, OK, A, T)", "both"),
        ("SEQ(TX, A, OK)", "SEQ(A, G, A, OK)", "both"),
        ("SEQ(A, A)", "SEQ(A, A, A)", "pattern"),
    ],
)
def test_definitions(coarse: str, fine: str, label: str | None) -> None:
    assert refinement(cuboid(coarse), cuboid(fine), CITIES) == label


def test_figure_1_as_a_labelled_hierarchy() -> None:
    lattice = Lattice.of({name: cuboid(text) for name, text in FIGURE_1.items()}, CITIES)
    assert {(edge.coarse, edge.fine, edge.label) for edge in lattice.edges} == {
        ("q1", "q2", "concept"),
        ("q1", "q3", "both"),
        ("q1", "q4", "both"),
        ("q1", "q5", "both"),
        ("q1", "q6", "both"),
        ("q1", "q7", "both"),
        ("q2", "q5", "both"),
        ("q2", "q6", "pattern"),
        ("q3", "q4", "pattern"),
        ("q3", "q6", "pattern"),
        ("q3", "q7", "pattern"),
        ("q4", "q7", "concept"),
    }
    drawn = {(edge["source"], edge["target"], edge["label"]) for edge in lattice.graph["edges"]}
    assert ("q1", "q7", "both") not in drawn  # it goes through q3 and q4
    assert ("q4", "q7", "concept") in drawn
    assert "├─ concept: q2 SEQ(D, T)" in list(lattice.lines())


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("AND(G, A) WITHIN 1", "not a SEQ"),
        ("SEQ(G, OR(A, D)) WITHIN 1", "an expression"),
        ("SEQ(G, !SEQ(A, D), T) WITHIN 1", "an expression"),
        ("SEQ(G, A) AGG COUNT(*) WITHIN 1", "aggregates"),
    ],
)
def test_what_is_no_cuboid_says_why(text: str, why: str) -> None:
    found = cuboid_of(parse(text), CITIES)
    assert isinstance(found, str)
    assert why in found


def test_nested_sequences_are_flat_and_negations_keep_their_predicates() -> None:
    found = cuboid("SEQ(SEQ(G g, A a), !D d, T t, d.x > t.x AND t.x = 1) WITHIN 1")
    assert str(found) == "SEQ(G, A, !D, T)"
    assert len(found.predicates_on("d")) == 1
    assert len(found.positive_predicates) == 1


@given(data=st.data(), tree=hierarchies())
def test_refinement_is_a_strict_order(data: st.DataObject, tree: dict[str, Any] | None) -> None:
    hierarchy = sq.Hierarchy.from_dict(tree) if tree else None
    names = concepts(tree)
    texts = queries(names=names, depth=1, words=("SEQ",), predicates=False).filter(lambda text: "ANY" not in text)
    drawn = [cuboid_of(parse(data.draw(texts)), hierarchy) for _ in range(3)]
    a, b, c = (found for found in drawn if isinstance(found, Cuboid))
    assert refinement(a, a, hierarchy) is None
    if refinement(a, b, hierarchy):
        assert refinement(b, a, hierarchy) is None
        if refinement(b, c, hierarchy):
            assert refinement(a, c, hierarchy)
