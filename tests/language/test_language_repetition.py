"""Repetition, NEXT and STRICT, ORDER BY, SKIP, KEEP PARTIAL: what can be written, and what is a mistake with a hint."""

from __future__ import annotations

import pytest

from seqube.errors import QueryError
from seqube.language import parse
from seqube.language.tree import Attribute, Next, OfList, Or, Prev, Quantifier, Seq, Skip, Strict, Type


def problem(text: str) -> tuple[str, int | None, str | None]:
    with pytest.raises(QueryError) as caught:
        parse(text)
    (found,) = caught.value.problems
    return found.message, found.at.column if found.at else None, found.hint


@pytest.mark.parametrize(
    ("written", "least", "most", "reluctant"),
    [
        ("+", 1, None, False), ("*", 0, None, False), ("?", 0, 1, False), ("{3}", 3, 3, False), ("{3,}", 3, None, False),
        ("{2,5}", 2, 5, False), ("{,5}", 0, 5, False), ("{ 2 , 5 }", 2, 5, False), ("{0,1}", 0, 1, False), ("{1,}", 1, None, False),
        ("+?", 1, None, True), ("*?", 0, None, True), ("??", 0, 1, True), ("{2,5}?", 2, 5, True), ("{3}?", 3, 3, True),
    ],
)  # fmt: skip
def test_quantifiers(written: str, least: int, most: int | None, reluctant: bool) -> None:
    pattern = parse(f"NEXT(A a, B{written} b) WITHIN 5").pattern
    assert pattern == Next((Type("A", "a"), Type("B", "b", Quantifier(least, most, reluctant))))


@pytest.mark.parametrize(
    ("written", "canonical"), [("{1,}", "+"), ("{0,}", "*"), ("{0,1}", "?"), ("{,1}?", "??"), ("{2,2}", "{2}"), ("{,4}", "{0,4}")]
)
def test_a_quantifier_is_written_in_its_shortest_form(written: str, canonical: str) -> None:
    assert str(parse(f"STRICT(A, B{written} b) WITHIN 5")).startswith(f"PATTERN STRICT(A, B{canonical} b)\n")


def test_a_part_without_a_variable_may_be_repeated() -> None:
    assert parse("SEQ(A, B+, C) WITHIN 5").pattern == Seq((Type("A", "A"), Type("B", "B", Quantifier(1, None)), Type("C", "C")))


def test_runs_take_types_and_alternatives() -> None:
    pattern = parse("STRICT(A a, OR(B b, C c), !D d, E e) WITHIN 5").pattern
    assert isinstance(pattern, Strict)
    assert pattern.parts[1] == Or((Type("B", "b"), Type("C", "c")))


def test_values_of_a_list() -> None:
    query = parse(
        "SEQ(A a, B+ b) WHERE COUNT(b) >= 3 AND b.x > PREV(b.x) WITHIN 5 RETURN b.x, LAST(b.x), COUNT(b), SUM(b.y) AS all_y"
    )
    first, second = query.where
    assert first.left == OfList("COUNT", Attribute("b", "ts"))  # type: ignore[union-attr]
    assert second.right == Prev(Attribute("b", "x"))  # type: ignore[union-attr]
    assert [output.name for output in query.returns] == ["b_x", "last_b_x", "count_b", "all_y"]
    assert parse(str(query)) == query


@pytest.mark.parametrize(
    ("clause", "skip"),
    [
        ("SKIP PAST LAST", Skip("PAST LAST")), ("skip to next", Skip("TO NEXT")), ("SKIP TO FIRST b", Skip("TO FIRST", "b")),
        ("SKIP TO LAST b", Skip("TO LAST", "b")),
    ],
)  # fmt: skip
def test_skip(clause: str, skip: Skip) -> None:
    query = parse(f"SEQ(A a, B+ b) {clause} WITHIN 5")
    assert query.skip == skip
    assert parse(str(query)) == query


def test_order_by_and_keep_partial() -> None:
    query = parse("NEXT(A a, B b) ORDER BY seq, n WITHIN 5 KEEP PARTIAL")
    assert query.order_by == ("seq", "n")
    assert query.keeps_partial
    assert str(query) == "PATTERN NEXT(A a, B b)\nORDER BY seq, n\nKEEP PARTIAL\nWITHIN 5"


@pytest.mark.parametrize(
    ("text", "message", "column", "hint"),
    [
        ("AND(A a, B+ b) WITHIN 5", "a part of AND carries a quantifier", 11, "put it into a SEQ: AND(SEQ(B+ b), ...)"),
        ("SEQ(A a, OR(B b, C? c)) WITHIN 5", "a part of OR carries a quantifier", 19, "put it into a SEQ: OR(SEQ(C? c), ...)"),
        ("B+ b WITHIN 5", "the whole pattern carries a quantifier", 2, "put it into a SEQ: SEQ(B+ b)"),
        ("SEQ(A a, !B+ b) WITHIN 5", "a negated part carries a quantifier", 12, "!B already means none"),
        ("SEQ(A a, SEQ(B b)+) WITHIN 5", "SEQ carries the quantifier +", 18, "types are repeated, not operators: SEQ(A a, B+ b)"),
        (
            "SEQ(A a, B+? b) WITHIN 5",
            "in SEQ every list counts, so none is reluctant",
            11,
            "leave the second question mark out, or write NEXT or STRICT",
        ),
        ("SEQ(A a, B{5,2} b) WITHIN 5", "at least 5 and at most 2 events", 11, "write the smaller number first: {2,5}"),
        (
            "SEQ(A a, B{0} b) WITHIN 5",
            "a part that takes no event at all",
            11,
            "leave it out; an event that must not be there is negated: !B",
        ),
        (
            "SEQ(A a, B{9999999999} b) WITHIN 5",
            "a part is repeated at most 1,000,000 times, or any number of times",
            11,
            "write {1000000,}",
        ),
        (
            "NEXT(A a, SEQ(B b, C c)) WITHIN 5",
            "a part of NEXT is a type or an OR of types",
            11,
            "give the other operator a place outside: SEQ(NEXT(A a, B b), AND(C c, D d))",
        ),
        (
            "SEQ(A a, B+ b) AGG COUNT(*) GROUP BY b.x WITHIN 5",
            "GROUP BY names 'b', which is a list: a match has many of its values",
            38,
            "group by a part that is one event",
        ),
        (
            "SEQ(A a, B+ b) WITHIN 5 RETURN b.x + 1",
            "b.x is a list, and stands in a calculation",
            32,
            "take one value of it: LAST(b.x)",
        ),
        (
            "SEQ(A a, B b) WHERE a.x > PREV(b.x) WITHIN 5",
            "PREV asks for the event before, and 'b' is no list",
            27,
            "repeat the part: B+ b",
        ),
        (
            "SEQ(A a, B+ b) WITHIN 5 RETURN PREV(b.x)",
            "PREV has no meaning in RETURN",
            32,
            "it is for conditions: WHERE f.x > PREV(f.x)",
        ),
        ("SEQ(A a, B+ b) AGG COUNT(*) HAVING PREV(b.x) > 1 WITHIN 5", "PREV has no meaning in HAVING", 36, "put it into WHERE"),
        ("SEQ(A a, B+ b) WHERE SUM(a.x) > 1 WITHIN 5", "SUM stands outside AGG and HAVING", 22, "compare aggregates in HAVING"),
        (
            "SEQ(A a, B+ b) WHERE STDDEV(b.x) > 1 WITHIN 5",
            "STDDEV is no function of a list",
            22,
            "there are COUNT(v), SUM(v.x), AVG(v.x), MIN(v.x), MAX(v.x), FIRST(v.x), LAST(v.x)",
        ),
        ("SEQ(A a, B+ b) AGG COUNT(b) WITHIN 5", "COUNT takes *: it counts matches", 20, "write COUNT(*)"),
        ("SEQ(A a, B+ b) WHERE COUNT(c) > 1 WITHIN 5", "there is no variable 'c'", 28, None),
        ("SEQ(A a, B+ b) SKIP TO FIRST c WITHIN 5", "there is no variable 'c'", 30, None),
        (
            "SEQ(A a, !B b, C c) SKIP TO LAST b WITHIN 5",
            "SKIP names 'b', which is negated: a match has no event for it",
            34,
            "name a component that is not negated",
        ),
        (
            "SEQ(A a, B b) KEEP PARTIAL WITHIN 5",
            "KEEP PARTIAL is for a NEXT that is the whole pattern",
            15,
            "write PATTERN NEXT(A a, B b)",
        ),
        (
            "NEXT(A a, B b) KEEP PARTIAL SKIP TO NEXT WITHIN 5",
            "KEEP PARTIAL and SKIP do not go together",
            16,
            "leave one of them out",
        ),
        (
            "NEXT(A a, B b) KEEP PARTIAL AGG COUNT(*) WITHIN 5",
            "KEEP PARTIAL and AGG do not go together",
            16,
            "leave AGG out, and count the rows by reached",
        ),
        (
            "NEXT(A a, B reached) KEEP PARTIAL WITHIN 5",
            "two columns of the result are called 'reached' (the other is how far each run got)",
            11,
            "give it another variable, or use RETURN",
        ),
        (
            "NEXT(A? a, !X x, B b) KEEP PARTIAL WITHIN 5",
            "KEEP PARTIAL with a negation that no part surely stands before",
            12,
            "how far a run got is told by the parts before the negation that cancels it",
        ),
        ("SEQ(A a, B b) ORDER BY x, x WITHIN 5", "'x' is twice in ORDER BY", 27, "name each column once"),
    ],
)  # fmt: skip
def test_mistakes(text: str, message: str, column: int, hint: str | None) -> None:
    found = problem(text)
    assert found[:2] == (message, column)
    assert hint is None or found[2] == hint
