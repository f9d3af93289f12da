"""What the language accepts, and what tree it makes of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from seqube.errors import QueryError
from seqube.language import parse, parser
from seqube.language.tokens import UNIT_US
from seqube.language.tree import (
    Aggregate,
    AllOf,
    Among,
    And,
    AnyOf,
    Arithmetic,
    Attribute,
    Between,
    Comparison,
    Duration,
    Emit,
    Inverse,
    IsNull,
    IsTrue,
    Literal,
    Minus,
    Not,
    Or,
    Output,
    Predicate,
    Query,
    Same,
    Seq,
    Type,
    Value,
    Window,
)

# The example of the language's description. It shows every clause; AGG and RETURN do not go together.
EXAMPLE = """\
PATTERN   SEQ(Recycle r, Wash w, !SEQ(Sharpen s, Disinfect d, Check c, s.id = d.id = c.id = o.id), Operate o,
              r.id = w.id = o.id AND o.instrument = 'surgery')
WHERE     r.weight * 1.1 < o.weight AND r.ward IN ('A', 'B')
PARTITION BY hospital
GROUP BY  r.ward                 -- GROUPBY is accepted too
AGG       COUNT(*), AVG(o.duration) AS mean_duration
HAVING    COUNT(*) > 3
WITHIN    1 hour                 -- 10 min, 500 ms, 2 days, 1h30m, 100 EVENTS, or a bare number in the time column's unit
EMIT      ON TRIGGER             -- or EVERY 5 min, or TOTAL
RETURN    r.id AS tool, o.ts - r.ts AS lag
"""


def a(name: str) -> Attribute:
    return Attribute("a", name)


def eq(left: Value, right: Value) -> Comparison:
    return Comparison("=", left, right)


def where(text: str) -> tuple[Predicate, ...]:
    return parse(f"SEQ(A a, B b) WHERE {text} WITHIN 5").where


def value(text: str) -> Value:
    return parse(f"SEQ(A a, B b) WITHIN 5 RETURN {text} AS it").returns[0].value


def without(*clauses: str) -> str:
    return "\n".join(line for line in EXAMPLE.splitlines() if not line.startswith(clauses))


def test_the_example_as_aggregates() -> None:
    r, o = (lambda name: Attribute("r", name)), (lambda name: Attribute("o", name))
    ids = [Attribute(variable, "id") for variable in "sdco"]
    assert parse(without("RETURN")) == Query(
        pattern=Seq(
            (
                Type("Recycle", "r"),
                Type("Wash", "w"),
                Not(
                    Seq(
                        (Type("Sharpen", "s"), Type("Disinfect", "d"), Type("Check", "c")),
                        (eq(ids[0], ids[1]), eq(ids[1], ids[2]), eq(ids[2], ids[3])),
                    )
                ),
                Type("Operate", "o"),
            ),
            (eq(r("id"), Attribute("w", "id")), eq(Attribute("w", "id"), o("id")), eq(o("instrument"), Literal("surgery"))),
        ),
        window=Window(3_600_000_000, "us"),
        where=(
            Comparison("<", Arithmetic("*", r("weight"), Literal(1.1)), o("weight")),
            Among(r("ward"), (Literal("A"), Literal("B"))),
        ),
        partition_by=("hospital",),
        group_by=(r("ward"),),
        aggregates=(Output(Aggregate("COUNT", None), "count"), Output(Aggregate("AVG", o("duration")), "mean_duration")),
        having=(Comparison(">", Aggregate("COUNT", None), Literal(3)),),
        emit=Emit("trigger"),
    )


def test_the_example_as_matches() -> None:
    query = parse(without("GROUP", "AGG", "HAVING", "EMIT"))
    lag = Arithmetic("-", Attribute("o", "ts"), Attribute("r", "ts"))
    assert query.returns == (Output(Attribute("r", "id"), "tool"), Output(lag, "lag"))
    assert query.emit is None
    assert query.source == without("GROUP", "AGG", "HAVING", "EMIT")


def test_the_whole_example_has_one_problem() -> None:
    with pytest.raises(QueryError) as caught:
        parse(EXAMPLE)
    assert [problem.message for problem in caught.value.problems] == ["RETURN and AGG do not go together"]
    assert (caught.value.line, caught.value.column) == (10, 1)


def test_patterns() -> None:
    assert parse("PATTERN A a WITHIN 5").pattern == Type("A", "a")
    assert parse("A WITHIN 5;").pattern == Type("A", "A")
    nested = parse("and(A a, or(B b, SEQ(C c)), NOT D d) WITHIN 5").pattern
    assert nested == And((Type("A", "a"), Or((Type("B", "b"), Seq((Type("C", "c"),)))), Not(Type("D", "d"))))
    assert parse("SEQ((A a), !(SEQ(B b))) WITHIN 5").pattern == Seq((Type("A", "a"), Not(Seq((Type("B", "b"),)))))


def test_clauses_in_any_order_and_any_case() -> None:
    one = parse("pattern SEQ(A a) where a.x = 1 partition by k group by k agg count having count > 1 within 5 emit total")
    two = parse("SEQ(A a) EMIT TOTAL WITHIN 5 HAVING COUNT(*) > 1 AGG COUNT(*) GROUPBY k PARTITION BY k WHERE a.x == 1;")
    assert one == two


def test_comments_and_odd_spaces() -> None:
    assert parse("\ufeffSEQ -- the operator\n (A\u00a0a, -- first\r\n B b) -- done\n WITHIN -- ever\n 5 --") == parse(
        "SEQ(A a,B b) WITHIN 5"
    )


def test_predicates_inside_operators() -> None:
    query = parse("SEQ(A a, B b, a.x = 1 AND a.y = 2, [id], NOT a.z = 3, (a.x = 1 OR b.x = 2)) WITHIN 5")
    assert isinstance(query.pattern, Seq)
    x_is_1 = eq(a("x"), Literal(1))
    assert query.pattern.where == (
        x_is_1,
        eq(a("y"), Literal(2)),
        Same("id"),
        Inverse(eq(a("z"), Literal(3))),
        AnyOf((x_is_1, eq(Attribute("b", "x"), Literal(2)))),
    )


def test_same() -> None:
    assert where("[id]") == (Same("id"),)
    assert where("[id, ward] AND a.x > 3") == (Same("id"), Same("ward"), Comparison(">", a("x"), Literal(3)))
    assert where('a.x > 3 AND ["my id"]') == (Comparison(">", a("x"), Literal(3)), Same("my id"))


def test_chains() -> None:
    assert where("a.id = b.id = 3") == (eq(a("id"), Attribute("b", "id")), eq(Attribute("b", "id"), Literal(3)))
    assert where("NOT a.x == a.y = 3") == (Inverse(AllOf((eq(a("x"), a("y")), eq(a("y"), Literal(3))))),)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a.x <> 3", Comparison("!=", a("x"), Literal(3))),
        ("a.x NOT IN (1, -2.5, 'it''s', TRUE, NULL)", Among(a("x"), tuple(map(Literal, (1, -2.5, "it's", True, None))), True)),
        ("a.x in (1)", Among(a("x"), (Literal(1),))),
        ("a.x BETWEEN 1 AND 2", Between(a("x"), Literal(1), Literal(2))),
        ("a.x NOT BETWEEN -1 AND a.y + 1", Between(a("x"), Literal(-1), Arithmetic("+", a("y"), Literal(1)), True)),
        ("a.x IS NULL", IsNull(a("x"))),
        ("a.x + 1 is not null", IsNull(Arithmetic("+", a("x"), Literal(1)), True)),
        ("a.infused", IsTrue(a("infused"))),
        ("!a.infused", Inverse(IsTrue(a("infused")))),
        ("NOT NOT a.infused", Inverse(Inverse(IsTrue(a("infused"))))),
        ("TRUE", IsTrue(Literal(True))),
        ("a.ts - b.ts < 1h30m", Comparison("<", Arithmetic("-", a("ts"), Attribute("b", "ts")), Duration(5_400_000_000))),
        ("NOT a.x = 1 OR a.y AND a.z", AnyOf((Inverse(eq(a("x"), Literal(1))), AllOf((IsTrue(a("y")), IsTrue(a("z"))))))),
        ("((a.x)) = (1)", eq(a("x"), Literal(1))),
    ],
)
def test_predicates(text: str, expected: Predicate) -> None:
    assert where(text) == (expected,)


def test_conjuncts_are_split_through_parentheses() -> None:
    assert where("(a.x AND (a.y AND a.z))") == (IsTrue(a("x")), IsTrue(a("y")), IsTrue(a("z")))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a.x + 2 * a.y % 3", Arithmetic("+", a("x"), Arithmetic("%", Arithmetic("*", Literal(2), a("y")), Literal(3)))),
        ("a.x - a.y - 1", Arithmetic("-", Arithmetic("-", a("x"), a("y")), Literal(1))),
        ("(a.x - 1) / 2.0", Arithmetic("/", Arithmetic("-", a("x"), Literal(1)), Literal(2.0))),
        ("-a.x * - 3", Arithmetic("*", Minus(a("x")), Literal(-3))),
        ("- -3", Literal(3)),
        ("-9223372036854775808", Literal(-(2**63))),
        ("1e3", Literal(1000.0)),
        (".5", Literal(0.5)),
        ("007", Literal(7)),
        ("-(10 min)", Duration(-600_000_000)),
        ("''", Literal("")),
        ("'-- no comment'", Literal("-- no comment")),
    ],
)
def test_values(text: str, expected: Value) -> None:
    assert repr(value(text)) == repr(expected)


@pytest.mark.parametrize("unit", UNIT_US)
def test_every_unit_of_time(unit: str) -> None:
    assert parse(f"A WITHIN 2 {unit}").window == Window(2 * UNIT_US[unit], "us")
    assert parse(f"A WITHIN 2{unit.upper() if unit.isascii() else unit}").window == Window(2 * UNIT_US[unit], "us")


@pytest.mark.parametrize(
    ("text", "window"),
    [
        ("1h30m", Window(5_400_000_000, "us")),
        ("1 hour 30 min", Window(5_400_000_000, "us")),
        ("1.5 s", Window(1_500_000, "us")),
        ("0.000001 seconds", Window(1, "us")),
        ("100 EVENTS", Window(100, "events")),
        ("1 event", Window(1, "events")),
        ("250", Window(250, "ticks")),
        ("9223372036854775807", Window(2**63 - 1, "ticks")),
    ],
)
def test_windows(text: str, window: Window) -> None:
    assert parse(f"A WITHIN {text}").window == window
    assert parse(f"A WITHIN {text} PARTITION BY k").window == window


def test_emit() -> None:
    assert parse("A WITHIN 5 AGG COUNT EMIT EVERY 5 min").emit == Emit("every", Window(300_000_000, "us"))
    assert parse("A WITHIN 5 AGG COUNT EMIT EVERY 100").emit == Emit("every", Window(100, "ticks"))
    assert parse("A WITHIN 5 AGG COUNT").emit == Emit("trigger")


# ---------------------------------------------------------------- names


def test_quoted_names() -> None:
    query = parse('SEQ("ER Triage" t, `say ``hi``` u, "a ""b""") WHERE t."heart rate" = u.`x.y` AND "a ""b""".z WITHIN 5')
    assert query.pattern == Seq((Type("ER Triage", "t"), Type("say `hi`", "u"), Type('a "b"', 'a "b"')))
    assert query.where[0] == eq(Attribute("t", "heart rate"), Attribute("u", "x.y"))
    assert query.where[1] == IsTrue(Attribute('a "b"', "z"))


# fmt: off
KEYWORDS = [
    "seq", "and", "or", "in", "between", "is", "pattern", "where", "partition", "group", "groupby", "by", "agg", "having",
    "within", "emit", "on", "trigger", "every", "total", "return", "as", "count", "sum", "avg", "min", "max", "events", "s",
    "min", "h", "not", "null", "true", "false", "at", "leaf",
]
# fmt: on


@pytest.mark.parametrize("word", KEYWORDS)
def test_keywords_are_names_where_a_name_is_expected(word: str) -> None:
    query = parse(
        f"SEQ(A {word}, B b, {word}.{word} = b.{word}) WHERE {word}.x > 1 PARTITION BY {word} WITHIN 5 "
        f"RETURN {word}.{word} AS {word}"
    )
    assert query.pattern == Seq((Type("A", word), Type("B", "b")), (eq(Attribute(word, word), Attribute("b", word)),))
    assert query.partition_by == (word,)
    assert query.returns == (Output(Attribute(word, word), word),)


@pytest.mark.parametrize("word", [word for word in KEYWORDS if word not in ("true", "false", "null")])
def test_keywords_are_types(word: str) -> None:
    assert parse(f"SEQ({word}, B) WITHIN 5").pattern == Seq((Type(word, word), Type("B", "B")))
    if word != "not":
        assert parse(f"SEQ(!{word} v, B) WITHIN 5").pattern == Seq((Not(Type(word, "v")), Type("B", "B")))


def test_states_of_the_union_are_types() -> None:
    query = parse("SEQ(TX, OK, OR, IN) WHERE OR.x = IN.x WITHIN 5")
    assert query.where == (eq(Attribute("OR", "x"), Attribute("IN", "x")),)


def test_parsing_the_same_text_twice_is_equal_but_keeps_places() -> None:
    query = parse("SEQ(A a,\n  B b) WITHIN 5")
    assert isinstance(query.pattern, Seq)
    at = query.pattern.parts[1].at
    assert at is not None
    assert (at.line, at.column, at.length) == (2, 3, 1)
    assert query == parse("SEQ(A a, B b) WITHIN 5")


@pytest.mark.parametrize(
    ("papers", "ours"),
    [
        ("SEQ<A a, B b> WITHIN 5", "SEQ(A a, B b) WITHIN 5"),
        (
            "seq < A a, !B b, OR<C c, D d> > WHERE a.x > 3 AND a.x < 4 WITHIN 5",
            "SEQ(A a, !B b, OR(C c, D d)) WHERE a.x > 3 AND a.x < 4 WITHIN 5",
        ),
        ("SEQ(A a, !(E e, e.x > a.x, [id]), B b) WITHIN 5", "SEQ(A a, !SEQ(E e, e.x > a.x, [id]), B b) WITHIN 5"),
        ("SEQ(A a, !(E e), B b) GROUPBY a.x AGG COUNT(*) WITHIN 5", "SEQ(A a, !E e, B b) GROUP BY a.x AGG COUNT(*) WITHIN 5"),
    ],
)
def test_the_papers_notation(papers: str, ours: str) -> None:
    assert parse(papers) == parse(ours)


def test_kept_tables_are_used_and_a_broken_file_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    from lark import lark as module

    monkeypatch.setenv("SEQUBE_CACHE", str(tmp_path / "made"))
    make, text = parser._parser.__wrapped__, "SEQ(A a, !B b, [id]) WHERE a.x > 1 WITHIN 5 min"
    made = make()
    (kept,) = (tmp_path / "made").iterdir()
    with monkeypatch.context() as patch:
        patch.setattr(module, "load_grammar", lambda *_: pytest.fail("the tables were made again"))
        read = make()
    assert read.parse(text) == made.parse(text)
    kept.write_bytes(kept.read_bytes()[:500])
    assert make().parse(text) == made.parse(text)
    (tmp_path / "file").touch()
    monkeypatch.setenv("SEQUBE_CACHE", str(tmp_path / "file"))
    assert make().parse(text) == made.parse(text)
    assert capfd.readouterr() == ("", "")
