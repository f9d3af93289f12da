"""DEFINE and ANY: types with a condition, every event, and tables without a type column."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import seqube as sq
from seqube.language.definitions import spell_out

TRADES = pa.table(
    {
        "type": ["Trade", "Quote", "Trade", "Trade", "Quote"],
        "ts": [1, 2, 3, 4, 5],
        "price": [10, 20, 30, 5, 50],
        "shares": [1, 1, 2, 3, None],
    }
)
DEFINE = "DEFINE Big AS Trade WHERE price * shares >= 15, Huge AS Big WHERE price > 20"


def times(query: str, table: pa.Table = TRADES, **how: object) -> list[tuple[int, ...]]:
    rows = sq.run(query, table, **how).table.to_pylist()  # type: ignore[call-overload]
    return sorted(tuple(row[v]["ts"] for v in row if v not in ("start", "end") and row[v]) for row in rows)


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("Big b", [(3,), (4,)]),
        ("Huge", [(3,)]),
        ("SEQ(Quote q, Big b)", [(2, 3), (2, 4)]),
        ("SEQ(Trade t, !Big b, Quote q)", [(1, 2), (4, 5)]),
        ("OR(Huge h, Quote q)", [(2,), (3,), (5,)]),
        ("AND(Big a, Big b)", [(3, 4), (4, 3)]),
        ("SEQ(ANY a, Huge h, ANY b)", [(1, 3, 4), (1, 3, 5), (2, 3, 4), (2, 3, 5)]),
        ("SEQ(Trade a, !ANY x, Trade b)", [(3, 4)]),
        ("SEQ(Trade t, OR(Huge h, SEQ(Quote q, Big b)))", [(1, 2, 3), (1, 2, 4), (1, 3)]),
    ],
)
def test_matches(query: str, found: list[tuple[int, ...]]) -> None:
    assert times(f"PATTERN {query} {DEFINE} WITHIN 10") == found


def test_a_defined_type_counts_like_its_condition() -> None:
    defined = sq.run(f"SEQ(Quote q, Big b) {DEFINE} WITHIN 10 AGG COUNT(*), SUM(b.price) AS s", TRADES).table
    written = sq.run("SEQ(Quote q, Trade b, b.price * b.shares >= 15) WITHIN 10 AGG COUNT(*), SUM(b.price) AS s", TRADES).table
    assert defined.to_pylist() == written.to_pylist()
    for strategy in ("two-step", "per-start", "window-product"):
        query = f"SEQ(ANY a, Big b) {DEFINE} WITHIN 10 AGG COUNT(*) AS n EMIT TOTAL"
        assert sq.run(query, TRADES, strategy=strategy).table.to_pylist() == [{"n": 5}]


def test_any_as_the_only_part() -> None:
    assert times("ANY WITHIN 1") == [(1,), (2,), (3,), (4,), (5,)]
    assert [row["type"] for row in sq.run("ANY a WITHIN 1 RETURN a.type AS type", TRADES).table.to_pylist()][:2] == [
        "Trade",
        "Quote",
    ]
    assert {row["a"]["type"] for row in sq.run("ANY a WITHIN 1", TRADES).table.to_pylist()} == {"Trade", "Quote"}


def test_return_everything_flat() -> None:
    query = "SEQ(Quote q, Trade t) WITHIN 2 RETURN *"
    assert sq.run(query, TRADES).table.to_pylist() == [
        {
            "start": 2, "end": 3, "q_type": "Quote", "q_ts": 2, "q_price": 20, "q_shares": 1,
            "t_type": "Trade", "t_ts": 3, "t_price": 30, "t_shares": 2,
        }
    ]  # fmt: skip
    assert str(sq.parse(query)).split("\n")[-1] == "RETURN *"
    assert sq.parse(str(sq.parse(query))) == sq.parse(query)
    with pytest.raises(sq.QueryError, match="RETURN and AGG do not go together"):
        sq.parse("A WITHIN 5 AGG COUNT(*) RETURN *")
    with pytest.raises(sq.QueryError, match="RETURN is given twice"):
        sq.parse("A WITHIN 5 RETURN A.x RETURN *")


def test_the_text_keeps_definitions() -> None:
    query = sq.parse(f"seq(Big, not Huge) {DEFINE} within 10")
    assert str(query) == (
        "PATTERN SEQ(Big, !Huge)\nDEFINE Big AS Trade WHERE price * shares >= 15, Huge AS Big WHERE price > 20\nWITHIN 10"
    )
    assert sq.parse(str(query)) == query
    assert str(spell_out(query)).split("\n")[0] == (
        "PATTERN SEQ(Trade Big, !Trade Huge, Big.price * Big.shares >= 15, Huge.price > 20, Huge.price * Huge.shares >= 15)"
    )


def test_parameters_in_definitions() -> None:
    query = "Big b DEFINE Big AS Trade WHERE price > :least WITHIN 1"
    assert len(sq.run(query, TRADES, params={"least": 9})) == 2


@pytest.mark.parametrize(
    ("definitions", "message"),
    [
        ("Big AS Trade WHERE prize > 1", "the events have no column 'prize'"),
        ("Big AS Trade WHERE b.price > 1", "DEFINE knows no variable 'b'"),
        ("Big AS Trade WHERE [price]", r"\[price\] has no meaning in DEFINE"),
        ("Big AS Trade WHERE COUNT(*) > 1", "a condition of DEFINE is about one event"),
        ("Big AS Trade WHERE price > 1, Big AS Quote WHERE price > 1", "'Big' is defined twice"),
        (
            "Big AS Small WHERE price > 1, Small AS Trade WHERE price > 1",
            "'Big' is made of 'Small', which is not defined before it",
        ),
        ("Big AS Big WHERE price > 1", "'Big' is made of 'Big', which is not defined before it"),
        ("ANY AS Trade WHERE price > 1", "ANY is every event"),
        ("Big AS Trade", "expected WHERE and a condition after 'Trade'"),
        ("Big AS trade WHERE price > 1", "unknown event type 'trade'"),
    ],
)
def test_what_is_wrong(definitions: str, message: str) -> None:
    with pytest.raises(sq.QueryError, match=message):
        sq.run(f"SEQ(Big b, Trade t) DEFINE {definitions} WITHIN 10".replace("SEQ(Big b, Trade t)", "SEQ(Big b)"), TRADES)


def test_own_names_of_a_definition_may_be_written() -> None:
    assert times("Big DEFINE Big AS Trade WHERE Trade.price > 20 AND Big.shares = 2 WITHIN 1") == [(3,)]


def test_a_cube_walks_down_to_defined_types() -> None:
    concepts = sq.Hierarchy.from_dict({"Thing": ["Trade", "Quote"]})
    cube = sq.Cube(TRADES, f"SEQ(Thing a, Trade b) {DEFINE} WITHIN 10", concepts)
    assert cube.count == 5
    assert cube.drill_down(concept=[("Trade", "Big", 2)]).count == 5 - 1 + 1
    assert cube.drill_down(concept=[("Trade", "Huge", 2)]).count == 2
    assert [child.count for child in cube.children() if "Big" in child.pattern] == [5]
    assert cube.drill_down(concept=[("Trade", "Huge", 2)]).roll_up(concept=[("Huge", "Trade", 2)]).count == cube.count


def test_a_table_without_types() -> None:
    table = TRADES.drop_columns(["type"])
    events = sq.Events(table, type=None)
    assert events.type_names == ("ANY",)
    kinds = "DEFINE High AS ANY WHERE price >= 20, Low AS ANY WHERE price < 20"
    assert times(f"SEQ(High h, Low l) {kinds} WITHIN 10", events) == [(2, 4), (3, 4)]
    assert times(f"SEQ(High h, Low l) {kinds} WITHIN 10", table, type=None) == [(2, 4), (3, 4)]
    with pytest.raises(sq.SchemaError, match="there is a column 'type'"):
        sq.Events(TRADES, type=None)


def test_rule_files_define(tmp_path: Path) -> None:
    file = tmp_path / "rules.yaml"
    file.write_text(
        "define:\n  Big: Trade WHERE price >= 30\n  Huge: Big WHERE shares > 1 OR shares < 0\n"
        'rules: [{predicate: "Huge WHERE price < 99", consequent: Quote, within: 1, horizon: 10, probability: 1}]\n'
    )
    rules = sq.Rules.load(file)
    assert rules[0].vertices[0].type == "Trade"
    assert rules[0].vertices[0].where == "((price >= 30) AND (shares > 1 OR shares < 0)) AND (price < 99)"
    assert sq.forecast(rules, TRADES).table.column("start").to_pylist() == [3]
    file.write_text("define: [Big]\nrules: []\n")
    with pytest.raises(sq.QueryError, match="'define' is a mapping of names to events"):
        sq.Rules.load(file)
