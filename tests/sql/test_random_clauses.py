"""Random clauses over random partitions, held against the definition."""

# ruff: noqa: E501 - a case is a line

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from oracle_rows import Pattern, Question, Row, SkipError, View, recognize, write_pattern
from seqube import threads
from seqube.engine.rows.clause import match_rows
from seqube.errors import DataError
from seqube.events.schema import kind_of
from seqube.language.rows.binder import bind_clause
from seqube.plan.rows import plan_rows

Asked = Callable[[View], Any]


def compared(left: Any, op: str, right: Any) -> bool | None:
    if left is None or right is None:
        return None
    return {"<": left < right, ">": left > right, "=": left == right, "<=": left <= right, "!=": left != right}[op]


def mean(values: list[Any]) -> float | None:
    return sum(values) / len(values) if values else None


# What a condition may be: of a row and those beside it, or of rows that are bound. `v` stands for the variable itself.
LOCAL: list[tuple[str, Callable[[str], Asked]]] = [
    ("x < PREV(x)", lambda v: lambda m: compared(m.at(m.last(), "x"), "<", m.at(m.last(), "x", -1))),
    ("{v}.x > PREV({v}.x)", lambda v: lambda m: compared(m.at(m.last(), "x"), ">", m.at(m.last(), "x", -1))),
    ("x <= NEXT(x, 2)", lambda v: lambda m: compared(m.at(m.last(), "x"), "<=", m.at(m.last(), "x", 2))),
    ("x > 1", lambda v: lambda m: compared(m.at(m.last(), "x"), ">", 1)),
    ("name = 'p'", lambda v: lambda m: compared(m.at(m.last(), "name"), "=", "p")),
    ("x IS NOT NULL", lambda v: lambda m: m.at(m.last(), "x") is not None),
    ("CLASSIFIER() = '{v}'", lambda v: lambda m: True),
]
BOUND: list[tuple[str, Callable[[str], Asked]]] = [
    ("x >= FIRST(x)", lambda v: lambda m: compared(m.at(m.first(), "x"), "<=", m.at(m.last(), "x"))),
    ("x < AVG(A.x) + 1", lambda v: lambda m: compared(m.at(m.last(), "x"), "<", (mean(m.values("x", "A")) or 0) + 1) if m.values("x", "A") else None),
    ("COUNT({v}.*) <= 2", lambda v: lambda m: len(m.of(v)) <= 2),
    ("LAST({v}.x, 1) IS NULL OR {v}.x != LAST({v}.x, 1)", lambda v: lambda m: _or(m.at(m.last(v, 1), "x") is None, compared(m.at(m.last(v), "x"), "!=", m.at(m.last(v, 1), "x")))),
    ("name = FIRST(name)", lambda v: lambda m: compared(m.at(m.last(), "name"), "=", m.at(m.first(), "name"))),
    ("SUM(x) < 6", lambda v: lambda m: compared(sum(m.values("x")), "<", 6) if m.values("x") else None),
    ("MAX(B.x) > MIN(x)", lambda v: lambda m: compared(max(m.values("x", "B"), default=None), ">", min(m.values("x"), default=None))),
    ("PREV(CLASSIFIER()) = 'A'", lambda v: lambda m: compared(m.name(m.last(), -1), "=", "A")),
    ("MATCH_NUMBER() < 3", lambda v: lambda m: m.number < 3),
    ("PREV(FIRST(A.x, 1)) < x", lambda v: lambda m: compared(m.at(m.first("A", 1), "x", -1), "<", m.at(m.last(), "x"))),
    ("UPPER(name) || FIRST(name) != 'Pp'", lambda v: lambda m: None if m.at(m.last(), "name") is None or m.at(m.first(), "name") is None else m.at(m.last(), "name").upper() + m.at(m.first(), "name") != "Pp"),
    ("COUNT(DISTINCT S.name) < 2", lambda v: lambda m: len(set(m.values("name", "AB"))) < 2),
]  # fmt: skip


def _or(left: bool | None, right: bool | None) -> bool | None:
    return True if left or right else None if left is None or right is None else False


MEASURES: list[tuple[str, Asked]] = [
    ("MATCH_NUMBER()", lambda m: m.number),
    ("CLASSIFIER()", lambda m: m.name(m.last())),
    ("CLASSIFIER(S)", lambda m: m.name(m.last("AB"))),
    ("x", lambda m: m.at(m.last(), "x")),
    ("B.x", lambda m: m.at(m.last("B"), "x")),
    ("FINAL LAST(A.x)", lambda m: m.at(m.final.last("A"), "x")),
    ("FIRST(S.x, 1)", lambda m: m.at(m.first("AB", 1), "x")),
    ("LAST(x, 2)", lambda m: m.at(m.last(None, 2), "x")),
    ("PREV(LAST(A.x), 2)", lambda m: m.at(m.last("A"), "x", -2)),
    ("NEXT(FINAL LAST(C.x, 1))", lambda m: m.at(m.final.last("C", 1), "x", 1)),
    ("COUNT(*)", lambda m: len(m.of())),
    ("FINAL COUNT(B.*)", lambda m: len(m.final.of("B"))),
    ("COUNT(S.x)", lambda m: len(m.values("x", "AB"))),
    ("SUM(A.x)", lambda m: sum(m.values("x", "A")) if m.values("x", "A") else None),
    ("AVG(x * 2)", lambda m: mean([2 * value for value in m.values("x")])),
    ("MIN(name)", lambda m: min(m.values("name"), default=None)),
    ("FINAL MAX(S.x)", lambda m: max(m.final.values("x", "AB"), default=None)),
    ("COUNT(DISTINCT name)", lambda m: len(set(m.values("name")))),
    ("ARRAY_AGG(CLASSIFIER())", lambda m: [m.name(row) for row in m.of()] or None),
    (
        "COALESCE(LAST(B.x), -1) + COUNT(*)",
        lambda m: (-1 if m.at(m.last("B"), "x") is None else m.at(m.last("B"), "x")) + len(m.of()),
    ),
]


def a_pattern(chance: random.Random, depth: int, excluding: bool) -> Pattern:
    kind = chance.choice(
        ["var"] * 3
        + (["seq", "seq", "alt", "repeat", "repeat"] if depth else [])
        + ["permute", "excluded", "anchor"] * (depth == 2)
    )
    if kind == "seq":
        return ("seq", *(a_pattern(chance, depth - 1, excluding) for _ in range(chance.choice([0, 2, 2, 3]))))
    if kind == "alt":
        return ("alt", *(a_pattern(chance, depth - 1, excluding) for _ in range(2)))
    if kind == "repeat":
        least = chance.choice([0, 0, 1, 1, 2])
        most = chance.choice([None, None, None, max(1, least), least + 2])
        return ("repeat", a_pattern(chance, depth - 1, excluding), least, most, chance.random() < 0.3)
    if kind == "permute":
        return ("permute", *(a_pattern(chance, 0, excluding) for _ in range(chance.choice([2, 3]))))
    if kind == "excluded" and excluding:
        return ("seq", ("excluded", a_pattern(chance, 1, False)), ("var", "B"))
    if kind == "anchor":
        return chance.choice([("seq", ("^",), ("var", "A")), ("seq", ("repeat", ("var", "A"), 1, None, False), ("$",))])
    return ("var", chance.choice("ABC"))


def try_case(seed: int, n_threads: int = 1) -> None:
    chance = random.Random(seed)
    shown = chance.choice(["one", "show", "omit", "unmatched"])
    pattern = (
        "seq",
        a_pattern(chance, 3, shown != "unmatched"),
        *([("repeat", ("alt", ("var", "A"), ("var", "B"), ("var", "C")), 0, 1, True)]),
    )
    define: dict[str, Asked] = {}
    texts = []
    for variable in chance.sample("ABC", chance.choice([1, 2, 3])):
        conditions = chance.sample(LOCAL, 1) + (chance.sample(BOUND, 1) if chance.random() < 0.5 else [])
        conditions = conditions[chance.choice([0, 0, 1]) :] or conditions
        asked = [make(variable) for _, make in conditions]
        define[variable] = lambda m, asked=asked: all(each(m) is True for each in asked)
        texts.append(f"{variable} AS {' AND '.join('(' + text.format(v=variable) + ')' for text, _ in conditions)}")
    measures = chance.sample(MEASURES, 4)
    how = chance.choice(["PAST LAST", "PAST LAST", "NEXT", "FIRST", "LAST"])
    variables = chance.choice(["A", "B", "AB"]) if how in ("FIRST", "LAST") else ""
    within = chance.random() < 0.2
    skip = {"PAST LAST": "PAST LAST ROW", "NEXT": "TO NEXT ROW"}.get(how) or f"TO {how} {'S' if variables == 'AB' else variables}"
    rows_of = {"one": "ONE ROW", "show": "ALL ROWS", "omit": "ALL ROWS", "unmatched": "ALL ROWS"}[shown]
    option = {"omit": " OMIT EMPTY MATCHES", "unmatched": " WITH UNMATCHED ROWS"}.get(shown, "")
    text = (
        f"PARTITION BY k ORDER BY t MEASURES {', '.join(f'{text} AS m{i}' for i, (text, _) in enumerate(measures))} "
        f"{rows_of} PER MATCH{option} AFTER MATCH SKIP {skip} PATTERN ({write_pattern(pattern)}) {'WITHIN 4' if within else ''} "
        f"SUBSET S = (A, B) DEFINE {', '.join(texts)}"
    )
    rows = [
        {"k": k, "t": t, "x": chance.choice([None, 0, 1, 1, 2, 3]), "name": chance.choice(["p", "q", None])}
        for k in chance.sample([1, 2, None], chance.choice([1, 2]))
        for t in sorted(chance.sample(range(10), chance.choice([0, 1, 3, 5, 6])))
    ]
    chance.shuffle(rows)
    table = pa.Table.from_pylist(
        rows, schema=pa.schema([("k", pa.int64()), ("t", pa.int64()), ("x", pa.int64()), ("name", pa.string())])
    )

    def near(first: Row, row: Row) -> bool:
        return bool(row["t"] - first["t"] < 4)

    ask = Question(
        pattern,
        define,
        {f"m{i}": measure for i, (_, measure) in enumerate(measures)},
        shown,
        (how, variables),
        near if within else None,
    )
    used = {name for name in "ABC" if name in write_pattern(pattern).replace("PERMUTE", "")}
    assert used == set("ABC")
    expected: Any = []
    try:
        for key in dict.fromkeys(row["k"] for row in rows):
            part = sorted((row for row in rows if row["k"] == key), key=lambda row: row["t"])
            for found in recognize(ask, part):
                row = part[found.pop("#row")]
                expected.append(
                    {"k": key, **found}
                    if shown == "one"
                    else {"k": key, "t": row["t"], **found, "x": row["x"], "name": row["name"]}
                )
    except SkipError as error:
        expected = str(error)
    plan = plan_rows(bind_clause(text, {field.name: kind_of(field.type) for field in table.schema}))
    try:
        answer: Any = match_rows(plan, table, threads=n_threads).to_pylist()
    except DataError as error:
        answer = "same row" if "leads back" in str(error) else "no target"
    assert answer == expected, f"seed {seed}: {text}\n{rows}"


@pytest.mark.parametrize("seed", range(0, 100, 10))
def test_clauses_give_what_the_definition_says(seed: int) -> None:
    for each in range(seed, seed + 10):
        try_case(each)


def test_threads_share_the_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "FEWEST_ROWS", 1)
    for each in range(200, 240):
        try_case(each, n_threads=3)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 5000, 100))
def test_many_clauses_give_what_the_definition_says(seed: int) -> None:
    for each in range(seed, seed + 100):
        try_case(each)
