"""The concept hierarchy: what covers what, and trees that are none."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqube.errors import DataError, SchemaError
from seqube.events import Hierarchy

STATES: dict[str, Any] = {
    "TX": {"G": ["GBus", "GHospital"], "A": None, "D": "DBus"},
    "OK": [{"T": ["TBus", {"THospital": ["Ward"]}]}, "Norman"],
    "Alone": {},
}


def test_every_relation() -> None:
    tree = Hierarchy.from_dict(STATES)
    assert tree.roots == ("TX", "OK", "Alone")
    assert tree.names == (
        "TX",
        "G",
        "GBus",
        "GHospital",
        "A",
        "D",
        "DBus",
        "OK",
        "T",
        "TBus",
        "THospital",
        "Ward",
        "Norman",
        "Alone",
    )
    assert tree.covers("TX") == {"TX", "G", "GBus", "GHospital", "A", "D", "DBus"}
    assert tree.covers("GBus") == {"GBus"}
    assert tree.covers("not there") == {"not there"}
    assert tree.children("OK") == ("T", "Norman")
    assert tree.descendants("OK") == ("T", "TBus", "THospital", "Ward", "Norman")
    assert tree.ancestors("Ward") == ("THospital", "T", "OK")
    assert (tree.parent("Ward"), tree.parent("TX")) == ("THospital", None)
    assert (tree.level("TX"), tree.level("Ward")) == (0, 3)
    assert tree.is_a("Ward", "OK")
    assert tree.is_a("Ward", "Ward")
    assert not tree.is_a("OK", "Ward")
    assert not tree.is_a("Ward", "TX")
    assert "Ward" in tree
    assert "ward" not in tree
    assert len(tree) == 14


def test_equal_hashed_pickled_and_written_back() -> None:
    tree = Hierarchy.from_dict(STATES)
    for same in (
        Hierarchy.from_dict(tree.to_dict()),
        pickle.loads(pickle.dumps(tree)),
        Hierarchy.from_dict(dict(reversed(STATES.items()))),
    ):
        assert same == tree
        assert hash(same) == hash(tree)
    assert tree != Hierarchy.from_dict({"TX": None})
    assert tree != STATES  # type: ignore[comparison-overlap]
    with pytest.raises(AttributeError):
        tree.roots = ()  # type: ignore[misc]


def test_numbers_are_names() -> None:
    assert Hierarchy.from_dict({1: [2, 3.5]}).names == ("1", "2", "3.5")  # type: ignore[dict-item]


def test_unknown_name() -> None:
    tree = Hierarchy.from_dict(STATES)
    for ask in (tree.parent, tree.children, tree.ancestors, tree.descendants, tree.level):
        with pytest.raises(SchemaError, match="'Normn' is not in the hierarchy\n  hint: did you mean 'Norman'"):
            ask("Normn")


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({"A": ["x"], "B": ["x"]}, "type 'x' stands in two places: below 'A' and below 'B'"),
        ({"A": ["x", "x"]}, "type 'x' stands in two places: below 'A' and below 'A'"),
        ({"A": ["x"], "x": None}, "type 'x' stands in two places: below 'A' and at the top"),
        ({"A": {"B": {"A": None}}}, "type 'A' is below itself: A > B > A"),
        ({"A": "A"}, "type 'A' is below itself: A > A"),
        ({"A": [["x"]]}, "a list below A is not the name of a type"),
        ({"A": {"B": [None]}}, "None below A > B is not the name of a type"),
        ({True: ["x"]}, "True at the top is not the name of a type\n  hint: write names as text, in quotes"),
        ({("a", "b"): ["x"]}, "a list at the top is not the name of a type"),
        ({"A": object}, "<class 'object'> below A is not the name of a type"),
        ({"": ["x"]}, "'' at the top is not the name of a type"),
        (["A", "B"], "a hierarchy is a mapping of names, not a list"),
        ("A", "a hierarchy is a mapping of names, not 'A'"),
    ],
)
def test_trees_that_are_none(tree: Any, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        Hierarchy.from_dict(tree)


def nest(depth: int) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for level in range(depth, 0, -1):
        tree = {f"n{level}": tree}
    return tree


def test_depth_is_limited() -> None:
    assert Hierarchy.from_dict(nest(100)).level("n100") == 99
    for depth in (101, 5_000):
        with pytest.raises(SchemaError, match="more than 100 levels deep, below n1 > n2"):
            Hierarchy.from_dict(nest(depth))


def test_a_tree_that_holds_itself() -> None:
    tree: dict[str, Any] = {"A": {}}
    tree["A"]["B"] = tree
    with pytest.raises(SchemaError, match="type 'A' is below itself: A > B > A"):
        Hierarchy.from_dict(tree)


# ---------------------------------------------------------------- YAML


def load(tmp_path: Path, text: str) -> Hierarchy:
    path = tmp_path / "companies.yaml"
    path.write_text(text, "utf-8")
    return Hierarchy.load(path)


def test_yaml(tmp_path: Path) -> None:
    text = "Computer: [DELL, INTC]\nFinance:\n  Funds:\n    - QQQ\n    - 42\n  Banks: FCF\nEducation:\n"
    expected = {"Computer": ["DELL", "INTC"], "Finance": {"Funds": ["QQQ", "42"], "Banks": ["FCF"]}, "Education": None}
    assert load(tmp_path, text) == Hierarchy.from_dict(expected)
    assert len(load(tmp_path, "# nothing yet\n")) == 0


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("A: [x]\nB: [y]\nA: [z]\n", SchemaError, "companies.yaml, line 3: 'A' stands twice in one mapping"),
        ("A:\n  B: [x]\n  B: [y]\n", SchemaError, "line 3: 'B' stands twice in one mapping"),
        ("A: [x, x]\n", SchemaError, "companies.yaml: type 'x' stands in two places"),
        ("- A\n- B\n", SchemaError, "companies.yaml: a hierarchy is a mapping of names, not a list"),
        ("A: [yes]\n", SchemaError, "True below A is not the name of a type"),
        ("A: &a {B: *a}\n", SchemaError, "companies.yaml holds itself, in line 1"),
        ("A: [x\n", DataError, "companies.yaml is not YAML: "),
        ("? [a]\n: b\n? {c: d}\n: e\n", DataError, "companies.yaml is not YAML: .*unhashable"),
        ("A: !!python/object/apply:os.getcwd []\n", DataError, "companies.yaml is not YAML: could not determine a constructor"),
        ("{a: " * 3_000 + "}" * 3_000, SchemaError, "companies.yaml is nested too deeply"),
    ],
)
def test_yaml_that_is_no_tree(tmp_path: Path, text: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=f"(?s){message}"):
        load(tmp_path, text)


def test_yaml_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"there is no file .*nowhere.yaml"):
        Hierarchy.load(tmp_path / "nowhere.yaml")
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\xfd")
    with pytest.raises(DataError, match=r"binary.yaml' cannot be read"):
        Hierarchy.load(tmp_path / "binary.yaml")


# ---------------------------------------------------------------- properties


@given(st.lists(st.integers(-1, 20), max_size=20))
def test_relations_agree(choices: list[int]) -> None:
    # Name i hangs below an earlier name, or is a root.
    parents = [choice if choice < number else -1 for number, choice in enumerate(choices)]
    nodes: list[dict[str, Any]] = [{} for _ in parents]
    roots: dict[str, Any] = {}
    for number, parent in enumerate(parents):
        (roots if parent < 0 else nodes[parent])[f"t{number}"] = nodes[number]
    tree = Hierarchy.from_dict(roots)
    assert tree.to_dict() == roots
    for name in tree.names:
        assert tree.covers(name) == {other for other in tree.names if tree.is_a(other, name)}
        assert tree.covers(name) - {name} == set(tree.descendants(name)) == {n for n in tree.names if name in tree.ancestors(n)}
        assert all(tree.parent(child) == name and tree.level(child) == tree.level(name) + 1 for child in tree.children(name))
