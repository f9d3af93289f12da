"""Hostile texts and bytes: what is valid, changed at random. A chance makes the same changes whenever it has the same seed."""

# ruff: noqa: E501 - a row is a line

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
LONGEST = 200_000  # characters of a text

LONG = """PATTERN SEQ(Recycle r, Wash w, !SEQ(Sharpen s, Disinfect d, Check c, s.id = d.id = c.id = o.id), Operate o,
  r.id = w.id = o.id AND o.instrument = 'surgery')
WHERE r.weight * 1.1 < o.weight AND r.ward IN ('A', 'B')
PARTITION BY hospital
GROUP BY r.ward
AGG COUNT(*), AVG(o.duration) AS mean
HAVING COUNT(*) > 3
WITHIN 1 hour
EMIT ON TRIGGER"""
QUERIES = [
    "SEQ(A a, B b) WITHIN 5 min",
    LONG,
    'AND(OR("ER Triage" t, `b``c` u), SEQ(A a, NOT B b), [id, s]) WITHIN 1h30m RETURN t.id AS tool, a.ts - u.ts AS lag, -a.x % 2',
    "A WHERE A.x BETWEEN 1 AND 2.5e3 AND NOT A.s IS NULL OR A.y NOT IN ('it''s', 'q') -- a comment\nWITHIN 100 EVENTS",
    "PATTERN SEQ(A a, B b, (a.x + b.x) / 2 >= -1, a.type != b.type) AGG SUM(a.x) AS s, MIN(b.y) EMIT EVERY 5 min WITHIN 500 ms",
    "PATTERN SEQ(A a, B b, !C c) AGG MAX(a.x) EMIT TOTAL GROUPBY a.type WITHIN 7",
]
RULES = {
    "rules": [
        {"name": "jam", "predicate": "A -> B", "consequent": "C", "within": "10 min", "horizon": "1h30m", "probability": 0.5},
        {
            "predicate": {"vertices": {"a": "Event A", "b": "Sensor WHERE flow > 40"}, "edges": [["a", "b"]]},
            "consequent": '"C, D"',
            "within": 10,
            "horizon": 20,
            "probability": 1,
            "partition_by": ["road"],
        },
    ]
}
PIPELINE = {
    "source": {"format": "json", "path": "in", "type": "type", "time": "ts", "unit": "ms", "lateness": "9 s", "options": {"a": 1}},
    "schema": {"id": {"type": "bigint", "required": True, "min": 0, "max": 9}, "s": "string", "w": {"allowed": ["A", "B"]}},
    "hierarchy": {"P": ["A", "B"]},
    "queries": {"pairs": "SEQ(A a, B b) WITHIN 5 min", "more": "SEQ(A a, !B b) WITHIN 3"},
    "sinks": {"matches": {"path": "out/m", "format": "parquet"}, "quarantine": "out/q", "forecasts": {"path": "x"}},
    "rules": RULES["rules"],
    "trigger": "1 second",
    "checkpoint": "out/checkpoint",
    "limits": {"max_matches": 1_000_000, "max_state_bytes": None, "max_seconds": 0.5},
}
HIERARCHY = {"Computer": ["DELL", "INTC", {"Chips": ["AMD", 7]}], "Finance": {"Funds": ["QQQ"], "Banks": None}, "Other": "X"}


def _listed(text: str) -> list[str]:
    return text.split(" ")


ODD = _listed("\0 \ud800 \udfff \ufeff \u2028 \u200b \u202e \xa0 é \N{PILE OF POO} ﬁ İ ß \x1b \x7f \x85")
NUMBERS = [*_listed("0 -0 1e400 1e-400 0x7f 1_000 1.5 .5 5. -1 NaN inf"), "9" * 20, "9" * 5_000, str(2**63), str(-(2**63))]
WORDS = _listed(
    "PATTERN SEQ AND OR NOT ! WHERE PARTITION BY GROUP GROUPBY AGG COUNT COUNT(*) SUM AVG MIN MAX HAVING WITHIN EMIT ON TRIGGER "
    "EVERY TOTAL RETURN AS IN BETWEEN IS NULL TRUE FALSE EVENTS ms min hours ( ) [ ] , . = != <> < <= > >= + - * / % ' \" ` -- ; "
    "a b A.x a.ts a.type [id] 5 ''"
)
YAML_WORDS = [
    *_listed("&a *a *b --- ... | > >- { } [ ] # ~ ! ? : null yes = <<: ' \" \t 2001-99-99 1:99:99 0o9 0b"),
    *("<<: *a", "!!python/object/apply:os.system ['true']", "!!binary x", "!!set {a, b}", "!!timestamp x", "!!int ''", "!!float x"),
    *("!!bool x", "!!omap [a: 1]", "%YAML 9.9", "? [a, b]", "? {a: b}\n: c", "- - - -", "&a [*a]", "&a {x: *a}", "!!null x"),
    *('"\\ud800"', '"\\U00110000"', '"\\x00"', "!<tag:yaml.org,2002:str> x", "!!str {a: b}", "!!seq a", "!!map a"),
]
SQL_WORDS = _listed(
    "SELECT FROM t MATCH_RECOGNIZE ( ) PARTITION BY ORDER MEASURES AS ONE ROW PER MATCH ALL ROWS SHOW EMPTY MATCHES OMIT WITH UNMATCHED "
    "AFTER SKIP TO NEXT PAST LAST FIRST PATTERN DEFINE SUBSET WITHIN PERMUTE {- -} * + ? {2,3} {,5} | ^ $ *? +? a b c a+ PREV(price) "
    "NEXT(price) LAST(a.price) FIRST(a.id) CLASSIFIER() MATCH_NUMBER() RUNNING FINAL COUNT(*) SUM(a.price) AVG AND OR NOT IN BETWEEN NULL "
    "IS CASE WHEN THEN ELSE END CAST LIKE > < = <> , . ; -- /* */ ' \" WITH SEQUBE JOIN UNION EXPLAIN (SELECT 1) price id name ts 5 -1 '2 s'"
)


def make_text(known: list[str], words: list[str], own: Any, chance: random.Random) -> bytes:
    """One hostile text: of those that are known, of these words, or of a document of YAML where there is an own one."""
    if chance.random() < 0.04:
        return chance.randbytes(chance.choice([0, 1, 5, 50, 500]))
    if own is not None and chance.random() < 0.4:
        text = written(twist(own, chance, 3))
    else:
        text = chance.choice(known)
    for _ in range(chance.choice([0, 1, 1, 1, 2, 3, 6])):
        text = mutate(text, known, words, chance)[:LONGEST]
    data = text.encode("utf-8", "surrogatepass")
    for _ in range(chance.choice([0, 0, 0, 0, 1, 3])):
        data = spoil(data, chance)
    return data


def spoil(data: bytes, chance: random.Random) -> bytes:
    """A byte or two more, fewer or others."""
    at = chance.randrange(len(data) + 1)
    return data[:at] + chance.randbytes(chance.choice([0, 1, 1, 2])) + data[at + chance.choice([0, 1, 1, 8]) :]


def as_text(data: bytes) -> str:
    """Bytes as a careless program hands them on: lone surrogates and all."""
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return data.decode("latin-1")


class Lenient(yaml.SafeDumper):
    """Writes what can be written, of anything."""


class Quick(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    """The same in C, which knows no halves of characters."""


for dumper in (Lenient, Quick):
    dumper.add_multi_representer(object, lambda dumper, value: dumper.represent_str(repr(value)))


def written(document: Any) -> str:
    """A document as YAML."""
    try:
        return str(yaml.dump(document, Dumper=Quick))
    except UnicodeEncodeError:
        return str(yaml.dump(document, Dumper=Lenient))


def mutate(text: str, known: list[str], words: list[str], chance: random.Random) -> str:
    tokens = re.findall(r"\w+|\s+|[^\w\s]", text) or [""]
    at = chance.randrange(len(tokens))
    to = min(len(tokens), at + chance.choice([1, 1, 2, 5, 20]))
    match chance.randrange(13):
        case 0:
            del tokens[at:to]
        case 1:
            tokens[at:at] = tokens[at:to]
        case 2:
            other = chance.randrange(len(tokens))
            tokens[at], tokens[other] = tokens[other], tokens[at]
        case 3:
            tokens[at] = chance.choice(words)
        case 4:
            tokens.insert(at, f" {chance.choice(words)} ")
        case 5:
            tokens[at] = chance.choice(NUMBERS)
        case 6:
            tokens.insert(at, chance.choice(ODD))
        case 7:
            other = chance.choice(known)
            tokens[at:] = [other[chance.randrange(len(other) + 1) :]]
        case 8:
            tokens[at:to] = ["".join(tokens[at:to]) * chance.choice([2, 10, 100, 1_000])]
        case 9:
            opening, closing = chance.choice(
                [("SEQ(", ")"), ("(", ")"), ("!", ""), ("NOT ", ""), ("[", "]"), ("{a: ", "}"), ("- ", ""), ("-", "")]
            )
            times = chance.choice([1, 10, 99, 101, 500, 3_000])
            tokens[at:to] = [opening * times, *tokens[at:to], closing * times]
        case 10:
            tokens[at] = tokens[at].swapcase()
        case 11:
            del tokens[at:]
        case 12:
            indent = chance.choice(["\n", "\n  ", "\n- ", " ", "\t", ": ", "\r", "\r\n"])
            tokens.insert(at, indent)
    return "".join(tokens)


def twist(node: Any, chance: random.Random, times: int) -> Any:
    """A document with some of its values or keys exchanged for others."""
    for _ in range(chance.randint(1, times)):
        node = _twisted(node, chance)
    return node


def _twisted(node: Any, chance: random.Random) -> Any:
    if chance.random() < 0.25 or not isinstance(node, dict | list) or not node:
        return chance.choice([*STRANGE, lambda: node])() if chance.random() < 0.7 else chance.choice(NUMBERS + ODD + WORDS)
    if isinstance(node, list):
        at = chance.randrange(len(node))
        return [*node[:at], _twisted(node[at], chance), *node[at + chance.choice([0, 1]) :]]
    key = chance.choice(list(node))
    if chance.random() < 0.2:
        other = chance.choice([None, True, 7, 1.5, "", "name", "x" * 300, *ODD, *node])
        return {(other if name == key else name): value for name, value in node.items()}
    return node | {key: _twisted(node[key], chance)}


def _deep() -> Any:
    node: Any = "x"
    for _ in range(150):
        node = {"n": [node]}
    return node


STRANGE: list[Callable[[], Any]] = [
    *(
        lambda value=value: value
        for value in (None, True, -1, 10**400, float("nan"), float("-inf"), 1e308, b"\xff", "", "x" * 10_000)
    ),
    *(lambda value=value: value for value in ("A -> A", "A -> , -> B", "1e400 min", "9" * 5_000, "../../etc/passwd", "/dev/null")),
    *(list, dict, lambda: [[]], lambda: [None], lambda: {"": None}, lambda: [["a"] * 3] * 3, _deep),
    lambda: {"vertices": {"a": "A"}, "edges": [["a", "a"]]},
    lambda: {"vertices": [], "edges": {}},
    lambda: {"vertices": {"a": None}},
]
