"""Rules: shorthands, lengths, files there and back, and everything that can be wrong with them."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from predict.streams import rule_sets
from seqube.errors import DataError, QueryError
from seqube.language.tree import Window
from seqube.predict import Rule, Rules


def entry(**changes: Any) -> dict[str, Any]:
    base = {"name": "jam", "predicate": "A, B -> C", "consequent": "D", "within": "10 min", "horizon": "15 min", "probability": 0.8}
    return {key: value for key, value in {**base, **changes}.items() if value is not ...}


def problems(*entries: Any) -> list[str]:
    with pytest.raises(QueryError) as caught:
        Rules.from_dict({"rules": list(entries)})
    return [problem.message for problem in caught.value.problems]


# ---------------------------------------------------------------- what is right


@pytest.mark.parametrize(
    ("text", "events", "edges"),
    [
        ("A", ["A"], []),
        ("A -> B -> C", ["A", "B", "C"], [("A", "B"), ("B", "C")]),
        ("A, B -> C", ["A", "B", "C"], [("A", "C"), ("B", "C")]),
        ("A, B -> C, D", ["A", "B", "C", "D"], [("A", "C"), ("A", "D"), ("B", "C"), ("B", "D")]),
        ("ER Triage->IV-Liquid", ["ER Triage", "IV-Liquid"], [("ER Triage", "IV-Liquid")]),
        ('"A, B" -> `C->D`', ["A, B", "C->D"], [('"A, B"', '"C->D"')]),
        ("A WHERE x IN (1, 2), B", ["A", "B"], []),
        ('"!A" -> `NOT B` -> Nothing', ["!A", "NOT B", "Nothing"], [('"!A"', '"NOT B"'), ('"NOT B"', "Nothing")]),
    ],
)
def test_shorthands(text: str, events: list[str], edges: list[tuple[str, str]]) -> None:
    rule = Rule(text, "Z", 10, 20, 0.5)
    assert [vertex.type for vertex in rule.vertices] == events
    assert list(rule.edges) == edges
    assert Rule(rule.predicate, "Z", 10, 20, 0.5) == rule


@pytest.mark.parametrize(
    ("written", "length", "unit"),
    [
        (30, 30, "ticks"),
        ("30", 30, "ticks"),
        (30.0, 30, "ticks"),
        ("10 min", 600_000_000, "us"),
        ("1h30m", 5_400_000_000, "us"),
        ("0.5 s", 500_000, "us"),
        ("2 Days", 172_800_000_000, "us"),
        (Window(7, "ticks"), 7, "ticks"),
    ],
)
def test_lengths(written: Any, length: int, unit: Any) -> None:
    assert Rule("A", "Z", written, written, 0.5).within == Window(length, unit)


def test_lengths_round_so_that_no_answer_changes() -> None:
    rule = Rule("A", "Z", "1500 us", "2500 us", 0.5)
    assert rule.ticks("us") == (1500, 2500)
    assert rule.ticks("ms") == (1, 3)  # te - ts <= 1.5 means 1; t < ts + 2.5 means t < ts + 3


@pytest.mark.parametrize("predicate", ["A, !B -> C", "! B", "A -> not B", {"vertices": {"b": "!B WHERE x > 1"}, "edges": []}])
def test_a_negation_is_not_taken_for_a_type(predicate: Any) -> None:
    (said,) = problems(entry(predicate=predicate))
    assert "negates an event, which rules cannot: an occurrence of an episode is never taken back" in said
    assert "negates" in problems(entry(consequent="!D"))[0]


def test_a_type_that_looks_like_a_negation_reads_back() -> None:
    rules = Rules([Rule('"!A" -> B', '"NOT C"', 10, 20, 0.5, name="odd")])
    assert Rules.from_text(rules.to_text()) == rules
    assert Rules.from_dict(rules.to_dict()) == rules


@given(rule_sets())
def test_a_file_reads_back_as_it_was_written(chosen: list[Rule]) -> None:
    rules = Rules(chosen)
    assert Rules.from_text(rules.to_text()) == rules
    assert Rules.from_dict(rules.to_dict()) == rules
    assert pickle.loads(pickle.dumps(rules)) == rules


@given(st.text(min_size=1, max_size=8).filter(str.strip), st.sampled_from(["{}", "{} -> B", "B, {}"]))
def test_any_type_name_survives_a_file(name: str, shape: str) -> None:
    from seqube.predict.ruletext import Vertex

    name = name.strip()
    text = Vertex("", name).text
    if name == "B" or any(not c.isprintable() for c in name):
        return
    rules = Rules([Rule(shape.format(text), text, 10, 20, 0.5, partition_by=["a", "b"])])
    assert name in [vertex.type for vertex in rules[0].vertices]
    assert Rules.from_text(rules.to_text()) == rules


def test_files(tmp_path: Path) -> None:
    rules = Rules([Rule("A -> B WHERE x > 1", "C", "10 min", "1 hour", 0.25, "one", "id"), Rule("A", "B", 5, 6, 1)])
    rules.save(tmp_path / "rules.yaml")
    assert Rules.load(tmp_path / "rules.yaml") == rules
    assert rules["one"] is rules[0]
    assert rules[1].name == "A => B"
    assert len(rules[:1]) == 1
    with pytest.raises(DataError, match="cannot read the rule file"):
        Rules.load(tmp_path / "none.yaml")


def test_rules_are_values() -> None:
    one, other = Rule("A -> B", "C", 5, 6, 0.5), Rule("A -> B", "C", 5, 6, 0.5)
    assert one == other
    assert hash(one) == hash(other)
    with pytest.raises(AttributeError):
        one.name = "x"  # type: ignore[misc]


def test_disconnected_events_are_fine() -> None:
    assert len(Rule({"vertices": {"a": "A", "b": "B", "c": "C"}, "edges": [["a", "b"]]}, "D", 5, 6, 0.5).vertices) == 3


# ---------------------------------------------------------------- what is wrong


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"predicate": {"vertices": {"a": "A", "b": "B"}, "edges": [["a", "b"], ["b", "a"]]}}, "a cycle: a -> b -> a"),
        ({"predicate": {"vertices": {"a": "A"}, "edges": [["a", "a"]]}}, "a cycle: a -> a"),
        ({"predicate": "A -> B -> A"}, "event 'A' stands twice"),
        ({"predicate": {"vertices": {"a": "A", "b": "A"}}}, "event 'A' stands twice"),
        ({"predicate": {"vertices": {"a": "A"}, "edges": [["a", "c"]]}}, "names no vertex 'c'"),
        ({"predicate": {"vertices": {"a": "A"}, "edges": [["a"]]}}, "is not a pair of vertices"),
        ({"predicate": {"vertices": {"a": "A"}, "edges": "a"}}, "'edges' of its predicate is not a list"),
        ({"predicate": {"vertices": ["A"]}}, "'vertices' of its predicate is not a mapping"),
        ({"predicate": {"vertices": {"a": "A"}, "edgs": []}}, "unknown key 'edgs' in its predicate"),
        ({"predicate": {"vertices": {}}}, "has no events"),
        ({"predicate": "A -> "}, "lacks an event"),
        ({"predicate": 5}, "neither a text nor a graph"),
        ({"predicate": "A WHERE"}, "WHERE without a condition"),
        ({"predicate": "WHERE x > 1"}, "a condition but no event type"),
        ({"predicate": "A WHERE x >"}, "in 'A WHERE x >'"),
        ({"predicate": "A WHERE b.x > 1"}, "there is no variable 'b'"),
        ({"consequent": ""}, "consequent: an event has a type name"),
        ({"consequent": ["D"]}, "consequent: an event has a type name"),
        ({"within": -1, "horizon": 5}, "within -1 is negative"),
        ({"within": 0, "horizon": 5}, "2 events one after the other never fit within 0 ticks"),
        ({"predicate": "A -> B -> C", "within": 1, "horizon": 5}, "3 events one after the other never fit within 1 ticks"),
        ({"within": "5 parsecs"}, "'5 parsecs' is not a length of time"),
        ({"within": "1.00000001 s"}, "in whole microseconds"),
        ({"within": True}, "True is not a length of time"),
        ({"within": 1.5}, "1.5 is not a whole number"),
        ({"within": 2**63}, "longer than time itself"),
        ({"horizon": 0, "within": 1}, "horizon 0 leaves no time"),
        ({"horizon": -5, "within": 1}, "horizon -5 leaves no time"),
        ({"horizon": "5 min"}, "horizon is shorter than within"),
        ({"horizon": 1, "within": 1}, "horizon 1 ticks is over before 2 events"),
        ({"probability": 1.2}, "probability 1.2 is not a number from 0 to 1"),
        ({"probability": -0.1}, "probability -0.1 is not"),
        ({"probability": float("nan")}, "probability nan is not"),
        ({"probability": "high"}, "probability 'high' is not"),
        ({"probability": True}, "probability True is not"),
        ({"partition_by": 5}, "partition_by 5 does not name columns"),
        ({"partition_by": ["id", "id"]}, "names a column twice"),
        ({"name": 5}, "its name 5 is not a text"),
        *(({key: ...}, f"{key!r} is missing") for key in ("predicate", "consequent", "within", "horizon", "probability")),
    ],
)
def test_problems_name_the_rule(changes: dict[str, Any], message: str) -> None:
    (found,) = problems(entry(**changes))
    assert message in found
    assert found.startswith("rule 1: " if "name" in changes else "rule 'jam': ")


def test_unknown_keys_have_a_hint() -> None:
    with pytest.raises(QueryError, match=r"unknown key 'widthin'(.|\n)*did you mean 'within'"):
        Rules.from_dict({"rules": [entry(widthin=5)]})


def test_all_problems_of_all_rules_are_shown_together() -> None:
    found = problems(entry(probability=2, within="x"), entry(name="other", horizon=0), 5, entry())
    assert len(found) == 5
    assert found[-1] == "two rules are called 'jam'"
    assert "rule 3 is not a mapping" in found


def test_names_are_distinct() -> None:
    rule = Rule("A", "B", 1, 2, 0.5)
    with pytest.raises(QueryError, match="two rules are called 'A => B'"):
        Rules([rule, rule])


def test_a_single_rule_says_what_is_wrong() -> None:
    with pytest.raises(QueryError, match="rule: probability 7"):
        Rule("A", "B", 1, 2, 7)


@pytest.mark.parametrize("document", [{}, {"rules": "x"}, [], None, {"rules": {"a": 1}}])
def test_not_a_rule_file(document: Any) -> None:
    with pytest.raises(QueryError, match="holds a list called 'rules'"):
        Rules.from_dict(document)


def test_problems_of_a_file_have_places() -> None:
    text = Rules([Rule("A", "B", 1, 2, 0.5, "one")]).to_text().replace("0.5", "5") + "  name: two\nmore: 1\n"
    with pytest.raises(QueryError) as caught:
        Rules.from_text(text)
    twice, unknown, probability = caught.value.problems
    assert "'name' is given twice" in twice.message
    assert "unknown key 'more'" in unknown.message
    assert (probability.at and probability.at.line) == 7
    assert "  probability: 5\n                 ^" in str(caught.value)


@pytest.mark.parametrize("text", ["rules: [", "a: b: c", "rules:\n\t- x", "&a [*a]"])
def test_a_file_that_is_not_yaml(text: str) -> None:
    with pytest.raises(QueryError):
        Rules.from_text(text)


def test_windows_in_different_units_are_checked_with_the_events_unit() -> None:
    rule = Rule("A", "B", "10 s", 5, 0.5)
    assert rule.ticks("min") == (0, 5)
    with pytest.raises(QueryError, match="rule 'A => B': horizon is shorter than within"):
        rule.ticks("ms")
