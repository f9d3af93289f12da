"""Hostile texts for everything that reads one: mutations of valid queries, hierarchies, rule files and pipeline files, from a seed.

A case is a kind and bytes. It is read as a user's file would be; what reads well is used further (written and read again, planned).
All that may come of it is a documented error, in bounded time. Anything else is a fault, and its bytes go into `corpus/`, where
they are a test.

    python tests/hardening/fuzzing.py --inputs 1000000 --seed 1

Cost: about a thousand inputs a second. Invariant: case k of a seed is always the same bytes.
"""

# ruff: noqa: BLE001, T201 - every error counts here, and it is a program too

from __future__ import annotations

import argparse
import contextlib
import hashlib
import os
import random
import re
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from seqube.errors import PlanError, SequbeError
from seqube.events import Hierarchy
from seqube.language import Query, parse, parse_file
from seqube.plan.explain import explain_workload
from seqube.plan.optimizer import ALONE, optimize
from seqube.predict.rules import Rules
from seqube.spark.streaming.declaration import read_declaration

HERE = Path(__file__).parent
CORPUS = HERE / "corpus"
EXAMPLES = HERE.parent.parent / "examples"
SECONDS = 10  # that one input may take on a busy machine

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


# ---------------------------------------------------------------- what reads


def read_query(data: bytes, _: Path) -> None:
    use(parse(as_text(data)))


def read_queries(data: bytes, _: Path) -> None:
    for query in parse_file(as_text(data)).values():
        use(query)


def use(query: Query) -> None:
    again = parse(str(query))
    assert again == query, "a query that is written does not read as itself"
    with contextlib.suppress(PlanError):
        explain_workload(optimize({ALONE: query}))


def read_hierarchy(data: bytes, file: Path) -> None:
    file.write_bytes(data)
    found = Hierarchy.load(file)
    assert Hierarchy.from_dict(found.to_dict()) == found
    for name in found.roots[:3]:
        found.covers(name)


def read_rules(data: bytes, file: Path) -> None:
    file.write_bytes(data)
    found = Rules.load(file)
    assert list(Rules.from_text(found.to_text())) == list(found)


def read_pipeline(data: bytes, file: Path) -> None:
    file.write_bytes(data)
    for source in ("in", "events"):
        (file.parent / source).mkdir(exist_ok=True)
    read_declaration(file)


def as_text(data: bytes) -> str:
    """Bytes as a careless program hands them on: lone surrogates and all."""
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return data.decode("latin-1")


READERS: dict[str, Callable[[bytes, Path], None]] = {
    "query": read_query,
    "queries": read_queries,
    "hierarchy": read_hierarchy,
    "rules": read_rules,
    "pipeline": read_pipeline,
}
SHARES = {"query": 9, "queries": 3, "hierarchy": 3, "rules": 3, "pipeline": 2}  # of all inputs


# ---------------------------------------------------------------- what is read


def seeds(kind: str) -> list[str]:
    """Valid texts of a kind, those of the examples among them."""
    if kind == "query":
        return QUERIES
    if kind == "queries":
        joined = "\n\n".join(f"-- name: q{number}\n{text}" for number, text in enumerate(QUERIES[:4]))
        return [joined, *(path.read_text("utf-8") for path in sorted(EXAMPLES.glob("*/*.sqb")))]
    names = {"hierarchy": "hierarchy*.yaml", "rules": "rules.yaml", "pipeline": "pipeline.yaml"}
    own = {"hierarchy": HIERARCHY, "rules": RULES, "pipeline": PIPELINE}[kind]
    found = [path.read_text("utf-8") for path in sorted(EXAMPLES.glob(f"*/{names[kind]}"))]
    return [yaml.safe_dump(own), yaml.safe_dump(own, default_flow_style=True), *(text for text in found if len(text) < 3_000)]


def make(kind: str, known: list[str], chance: random.Random) -> bytes:
    """One hostile input."""
    if chance.random() < 0.04:
        return chance.randbytes(chance.choice([0, 1, 5, 50, 500]))
    is_yaml = kind not in ("query", "queries")
    if is_yaml and chance.random() < 0.4:
        own: Any = {"hierarchy": HIERARCHY, "rules": RULES, "pipeline": PIPELINE}[kind]
        text = yaml.dump(twist(own, chance, 3), Dumper=Lenient)
    else:
        text = chance.choice(known)
    for _ in range(chance.choice([0, 1, 1, 1, 2, 3, 6])):
        text = mutate(text, known, YAML_WORDS if is_yaml else WORDS, chance)
    data = text[:200_000].encode("utf-8", "surrogatepass")
    for _ in range(chance.choice([0, 0, 0, 0, 1, 3])):
        at = chance.randrange(len(data) + 1)
        data = data[:at] + chance.randbytes(chance.choice([1, 1, 2])) + data[at + chance.choice([0, 1]) :]
    return data


class Lenient(yaml.SafeDumper):
    """Writes what can be written, of anything."""


Lenient.add_multi_representer(object, lambda dumper, value: dumper.represent_str(repr(value)))


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


# ---------------------------------------------------------------- the loop


@dataclass(frozen=True)
class Fault:
    kind: str
    data: bytes
    error: str
    trace: str


class TooLongError(BaseException):
    """Raised into whatever takes too long; nothing catches it by chance."""


def attempt(kind: str, data: bytes, file: Path) -> str | Fault:
    """What comes of one input: `read`, the name of a documented error, or a fault."""

    def late(*_: object) -> None:
        raise TooLongError

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        READERS[kind](data, file)
    except SequbeError as error:
        try:
            str(error).encode("utf-8", "backslashreplace")
            return type(error).__name__ if len(str(error)) < 1_000_000 else Fault(kind, data, "a message without end", "")
        except Exception as second:
            return Fault(kind, data, repr(second)[:300], traceback.format_exc()[-2_000:])
    except (Exception, TooLongError) as error:
        return Fault(kind, data, repr(error)[:300], traceback.format_exc()[-2_000:])
    else:
        return "read"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def cases(inputs: int, seed: int) -> Iterator[tuple[str, bytes]]:
    known = {kind: seeds(kind) for kind in READERS}
    kinds = [kind for kind, share in SHARES.items() for _ in range(share)]
    for number in range(inputs):
        chance = random.Random(f"{seed}/{number}")
        kind = kinds[number % len(kinds)]
        yield kind, make(kind, known[kind], chance)


def fuzz(inputs: int, seed: int, seconds: float = float("inf")) -> tuple[Counter[tuple[str, str]], list[Fault]]:
    """Try so many inputs; how often each kind came to what, and the faults, one of each sort."""
    came: Counter[tuple[str, str]] = Counter()
    faults: dict[str, Fault] = {}
    began = time.monotonic()
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as folder:
        file = Path(folder) / "case.yaml"
        for kind, data in cases(inputs, seed):
            outcome = attempt(kind, data, file)
            if isinstance(outcome, Fault):
                sort = kind + re.sub(r"[^\n]*File .*?, line", "line", outcome.trace[-600:]) if outcome.trace else outcome.error
                if sort not in faults or len(data) < len(faults[sort].data):
                    faults[sort] = outcome
                outcome = "fault"
            came[kind, outcome] += 1
            if time.monotonic() - began > seconds:
                break
    return came, list(faults.values())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--inputs", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    came, faults = fuzz(asked.inputs, asked.seed)
    for (kind, outcome), count in sorted(came.items()):
        print(f"{kind:>10}  {outcome:<12} {count:>9,}")
    print(f"{'all':>10}  {'inputs':<12} {came.total():>9,}   seed {asked.seed}")
    CORPUS.mkdir(exist_ok=True)
    for fault in faults:
        place = CORPUS / f"{fault.kind}-{hashlib.sha256(fault.data).hexdigest()[:10]}"
        place.write_bytes(fault.data)
        print(f"\n{place.name}: {fault.error}\n{fault.trace}")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
