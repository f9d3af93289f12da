"""Binding: default variables, scopes, negation, clauses; all mistakes at once, each with its place and hint."""

from __future__ import annotations

import pytest

from seqube.errors import QueryError
from seqube.language import mentions, parse, tree
from seqube.language.tree import Attribute


def problems(text: str) -> list[tuple[str, int | None, str | None]]:
    with pytest.raises(QueryError) as caught:
        parse(text)
    return [(problem.message, problem.at.column if problem.at else None, problem.hint) for problem in caught.value.problems]


def variables(pattern: str) -> list[str | None]:
    return [leaf.variable for leaf in mentions.leaves(parse(f"{pattern} WITHIN 5").pattern)]


# ---------------------------------------------------------------- default variables


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("SEQ(A, B)", ["A", "B"]),
        ("SEQ(A, A)", ["A_1", "A_2"]),
        ("SEQ(A, B, SEQ(A, C), !A)", ["A_1", "B", "A_2", "C", "A_3"]),
        ("SEQ(A a, A)", ["a", "A"]),
        ("SEQ(B A, A)", ["A", "A_1"]),
        ("SEQ(B A_1, A, A)", ["A_1", "A_2", "A_3"]),
        ("SEQ(A, A, A_1)", ["A_2", "A_3", "A_1"]),
    ],
)
def test_default_variables(pattern: str, expected: list[str]) -> None:
    assert variables(pattern) == expected


def test_default_variables_can_be_named() -> None:
    assert parse("SEQ(A, B) WHERE A.x = B.x WITHIN 5").where
    assert parse("SEQ(A, A) WHERE A_1.x = A_2.x WITHIN 5").where


# ---------------------------------------------------------------- scopes


@pytest.mark.parametrize(
    "text",
    [
        "SEQ(A a, !B b, SEQ(C c, D d, a.x = b.x, c.x = d.x), b.x = a.x) WITHIN 5",
        "SEQ(A a, SEQ(B b, !SEQ(C c, c.x = a.x AND c.x = b.x))) WITHIN 5",
        "SEQ(A a, SEQ(C c, !D d)) WHERE a.x = c.x WITHIN 5",
        "SEQ(A a, !B b) WHERE b.x > 3 AND a.x = b.x WITHIN 5",
        "OR(A a, SEQ(B b, C c)) WHERE a.x = 3 OR c.x = 4 WITHIN 5 RETURN b.x",
        "SEQ(A a, !SEQ(B b, !C c, b.x = c.x), D d) WITHIN 5",
        "SEQ(A a, !AND(B b, !SEQ(C c, c.x = b.x, c.x = a.x)), D d) WITHIN 5",
        "A a WHERE a.x = 3 WITHIN 5",
    ],
)
def test_visible(text: str) -> None:
    assert parse(text)


def test_a_nested_variable_is_not_visible_outside() -> None:
    assert problems("SEQ(A a, SEQ(B b, C c), a.x = b.x) WITHIN 5") == [
        (
            "'b' cannot be seen here: it is declared inside SEQ in line 1, column 10",
            31,
            "move this predicate to WHERE, or into the parentheses where 'b' is declared",
        )
    ]


def test_a_sibling_is_not_visible() -> None:
    ((message, column, _),) = problems("SEQ(AND(A a, D d), OR(B b, b.x = a.x)) WITHIN 5")
    assert (message, column) == ("'a' cannot be seen here: it is declared inside AND in line 1, column 5", 34)


def test_the_inside_of_a_negation_is_not_visible_in_where() -> None:
    assert problems("SEQ(A a, !SEQ(B b)) WHERE b.x = 3 WITHIN 5") == [
        (
            "'b' cannot be seen here: it is declared inside SEQ in line 1, column 11",
            27,
            "it is negated: move this predicate into the parentheses where it is declared",
        )
    ]


def test_a_negated_component_of_a_nested_operator_is_not_visible_in_where() -> None:
    ((message, _, _),) = problems("SEQ(A a, SEQ(B b, !C c)) WHERE c.x = 3 WITHIN 5")
    assert message == "'c' cannot be seen here: it is declared inside SEQ in line 1, column 10"


def test_unknown_variables() -> None:
    assert problems("SEQ(Wash wash, Dry d) WHERE wsh.x = 1 AND Dry.x = 2 AND zebra.x = 3 WITHIN 5") == [
        ("there is no variable 'wsh'", 29, "did you mean 'wash'?"),
        ("there is no variable 'Dry'", 43, "the component of type Dry has the variable 'd'"),
        ("there is no variable 'zebra'", 57, "known: d, wash"),
    ]


def test_ambiguous_types() -> None:
    assert problems("SEQ(A, A, A.x = 3) WITHIN 5") == [
        ("'A' could mean several components of that type", 11, "give them variables: A x, A y")
    ]


def test_duplicate_variables() -> None:
    assert problems("SEQ(A a, B b, C a) WITHIN 5") == [
        ("two components have the variable 'a' (the first is in line 1, column 5)", 15, "give each its own variable")
    ]


def test_bare_names_and_double_quoted_strings() -> None:
    assert problems('SEQ(A a) WHERE x = 1 AND a.x = "it" AND a > 3 WITHIN 5') == [
        ("'x' has no variable", 16, "write whose it is: a.x"),
        ('"it" is a name, not a string', 32, "strings take single quotes: 'it'"),
        ("'a' has no variable", 41, "write a.x for an attribute x of it"),
    ]


# ---------------------------------------------------------------- negation

ONE_EACH = "each negation is about events that are not there: write one predicate for each"


@pytest.mark.parametrize(
    ("text", "message", "column", "hint"),
    [
        (
            "SEQ(A a, OR(B, !C)) WITHIN 5",
            "a component of OR cannot be negated",
            16,
            "negate inside a SEQ or AND: OR(A, SEQ(B, !C))",
        ),
        ("SEQ(!A, !B) WITHIN 5", "SEQ has only negated components", 1, "give it at least one component that is not negated"),
        ("SEQ(A, AND(!B)) WITHIN 5", "AND has only negated components", 8, "give it at least one component that is not negated"),
        ("SEQ(A, !SEQ(!B)) WITHIN 5", "SEQ has only negated components", 9, "give it at least one component that is not negated"),
        ("SEQ(A a, !B b, !C c, b.x = c.x) WITHIN 5", "this predicate names two negated components, 'b' and 'c'", 22, ONE_EACH),
        (
            "SEQ(A a, !B b, !C c) WHERE a.x = b.x + c.x WITHIN 5",
            "this predicate names two negated components, 'b' and 'c'",
            28,
            ONE_EACH,
        ),
        (
            "SEQ(A a, !B b, !SEQ(C c, c.x = b.x)) WITHIN 5",
            "this predicate names two negated components, 'c' and 'b'",
            26,
            ONE_EACH,
        ),
        (
            "SEQ(A a, !B b, !SEQ(C c, a.x = b.x)) WITHIN 5",
            "this predicate stands inside a negation and names another negated component, 'b'",
            26,
            ONE_EACH,
        ),
    ],
)
def test_negation(text: str, message: str, column: int, hint: str) -> None:
    assert problems(text) == [(message, column, hint)]


# ---------------------------------------------------------------- clauses


@pytest.mark.parametrize(
    ("text", "message", "column", "hint"),
    [
        ("SEQ(A a)", "WITHIN is missing", 9, "say how long a match may take: WITHIN 10 min"),
        ("A WITHIN 0 s", "WITHIN must be longer than zero", 10, "a match spans less than its window: WITHIN 10 min"),
        ("A WITHIN 5 WITHIN 6", "WITHIN is given twice (first in line 1)", 12, "keep one WITHIN"),
        ("A WITHIN 5 PARTITION BY k, k", "'k' is twice in PARTITION BY", 28, "name each key once"),
        ("A WITHIN 5 GROUP BY A.x", "GROUP BY needs AGG", 12, "add AGG COUNT(*), or leave GROUP BY out"),
        ("A WITHIN 5 HAVING COUNT > 1", "HAVING needs AGG", 12, "add AGG COUNT(*), or leave HAVING out"),
        ("A WITHIN 5 EMIT TOTAL", "EMIT needs AGG", 12, "add AGG COUNT(*), or leave EMIT out"),
        (
            "A WITHIN 5 AGG COUNT RETURN A.x",
            "RETURN and AGG do not go together",
            22,
            "leave one of them out; GROUP BY adds columns to AGG",
        ),
        (
            "A WITHIN 5 AGG COUNT EMIT EVERY 5 EVENTS",
            "EMIT EVERY takes a time, not a number of events",
            33,
            "write a time: EMIT EVERY 5 min",
        ),
        ("A WITHIN 5 AGG COUNT EMIT EVERY 0", "EMIT EVERY must be longer than zero", 33, "write a time: EMIT EVERY 5 min"),
        (
            "A WITHIN 5 AGG A.x",
            "AGG takes aggregates only",
            16,
            (
                "write COUNT(*), APPROX_COUNT(*), SUM(v.x), AVG(v.x), MIN(v.x), MAX(v.x), STDDEV(v.x), VARIANCE(v.x), "
                "COUNT(DISTINCT v.x), MEDIAN(v.x), PERCENTILE(v.x, 0.9), FIRST(v.x) or LAST(v.x)"
            ),
        ),
        ("A WITHIN 5 AGG SUM(B.x)", "there is no variable 'B'", 20, "known: A"),
        ("A WHERE SUM(A.x) > 3 WITHIN 5", "SUM stands outside AGG and HAVING", 9, "compare aggregates in HAVING"),
        ("A WITHIN 5 RETURN COUNT(*)", "COUNT stands outside AGG and HAVING", 19, "aggregates go into AGG, in place of RETURN"),
        ("A WITHIN 5 AGG COUNT HAVING A.x > 1", "HAVING compares aggregates, not attributes", 29, "test attributes in WHERE"),
        ("A WITHIN 5 AGG COUNT AS n HAVING m > 1", "'m' in HAVING is not the name of an aggregate", 34, "known: n"),
        ("A WITHIN 5 AGG COUNT HAVING [id]", "[id] has no meaning in HAVING", 30, "put it into WHERE"),
        (
            "A WHERE [id] OR A.x WITHIN 5",
            "[id] can only be joined to other predicates by AND",
            10,
            "compare the variables one by one here",
        ),
        (
            "A WITHIN 5 RETURN ward",
            "'ward' in RETURN is not a partition key",
            19,
            "write whose it is (A.ward), or add it to PARTITION BY",
        ),
        (
            "SEQ(TX a, !OK b, TX c) WITHIN 5 AGG COUNT GROUPBY TX",
            "'TX' in GROUP BY could mean several things",
            51,
            "write a.type, or c.type",
        ),
        (
            "SEQ(A B, B b) WITHIN 5 AGG COUNT GROUP BY B",  # a variable of one component, the type of another
            "'B' in GROUP BY could mean several things",
            43,
            "write B.type, or b.type",
        ),
        (
            "SEQ(A id, B) PARTITION BY id WITHIN 5 AGG COUNT GROUP BY id",
            "'id' in GROUP BY could mean several things",
            58,
            "write id.type, or id.id for the partition key",
        ),
        (
            "SEQ(A, !B b) WITHIN 5 AGG COUNT GROUP BY b",
            "GROUP BY names 'b', which is negated: a match has no event for it",
            42,
            "name a component that is not negated",
        ),
        (
            "SEQ(A, B) WITHIN 5 AGG COUNT GROUP BY C",
            "'C' in GROUP BY is not a partition key",
            39,
            "write whose it is (A.C), or add it to PARTITION BY",
        ),
        (
            "SEQ(A a, !B b) WITHIN 5 RETURN b.x",
            "RETURN names 'b', which is negated: a match has no event for it",
            32,
            "name a component that is not negated",
        ),
        (
            "SEQ(A a, !SEQ(B b)) WITHIN 5 AGG SUM(b.x)",
            "AGG names 'b', which is negated: a match has no event for it",
            38,
            "name a component that is not negated",
        ),
        (
            "SEQ(A a, !B b) WITHIN 5 AGG COUNT GROUP BY b.x",
            "GROUP BY names 'b', which is negated: a match has no event for it",
            44,
            "name a component that is not negated",
        ),
        (
            "A WITHIN 5 RETURN A.x, 3 AS A_x",
            "two columns of the result are called 'A_x' (the other is in line 1, column 19)",
            24,
            "name it with AS",
        ),
        (
            "A WITHIN 5 AGG SUM(A.x) AS ts",
            "two columns of the result are called 'ts' (the other is the time of each row)",
            16,
            "name it with AS",
        ),
        (
            "SEQ(start, B) WITHIN 5",
            "two columns of the result are called 'start' (the other is the start of each match)",
            5,
            "give it another variable, or use RETURN",
        ),
    ],
)
def test_clause_rules(text: str, message: str, column: int, hint: str) -> None:
    assert problems(text) == [(message, column, hint)]


def test_output_names() -> None:
    query = parse("SEQ(A r, B o) WITHIN 5 PARTITION BY k RETURN r.id, r.x + 1, k, r.type, o.ts - r.ts AS lag")
    assert [output.name for output in query.returns] == ["r_id", "column_2", "k", "r_type", "lag"]
    query = parse("SEQ(A r, B o) WITHIN 5 AGG COUNT, AVG(o.duration), MAX(o.ts) AS latest EMIT TOTAL")
    assert [output.name for output in query.aggregates] == ["count", "avg_o_duration", "latest"]
    assert parse("SEQ(start) WITHIN 5 AGG SUM(start.x) AS ts EMIT TOTAL").aggregates[0].name == "ts"


def test_having_resolves_names() -> None:
    query = parse("A WITHIN 5 AGG SUM(A.x) AS total, COUNT HAVING total / count > 2 AND COUNT > 3 AND MIN(A.y) > 0")
    total, count = query.aggregates[0].value, tree.Aggregate("COUNT", None)
    assert query.having == (
        tree.Comparison(">", tree.Arithmetic("/", total, count), tree.Literal(2)),
        tree.Comparison(">", count, tree.Literal(3)),
        tree.Comparison(">", tree.Aggregate("MIN", Attribute("A", "y")), tree.Literal(0)),
    )


def test_all_problems_are_shown_together_in_order() -> None:
    text = "SEQ(A a,\n    !B b, a.x = z.x = 3)\nWHERE c.x = 3\nRETURN b.x\nGROUP BY a.x"
    with pytest.raises(QueryError) as caught:
        parse(text)
    error = caught.value
    assert [(problem.at.line, problem.at.column) for problem in error.problems if problem.at] == [
        (2, 17),
        (3, 7),
        (4, 8),
        (5, 1),
        (5, 13),
    ]
    assert str(error).count("^") > 4
    assert (error.line, error.column) == (2, 17)


def test_kinds_are_checked_as_far_as_they_are_known() -> None:
    assert problems("A WHERE A.x = 'a' + 1 AND A.type > 3 AND 'x' WITHIN 5") == [
        ("a string in a calculation with +", 15, "calculate with numbers, times and durations"),
        ("A.type (a string) is compared with a number", 27, "strings are written in single quotes"),
        ("a string is not a condition", 42, "compare it with something"),
    ]
