"""Values that are handed to public functions, and to functions of values in a query, chosen by bytes."""

from __future__ import annotations

import random
import re
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import seqube as sq
from function_rows import NAN, ROWS, SCHEMA, of
from hardening.calls import CALLS, STRANGE
from hardening.hostile import NUMBERS, ODD, WORDS, as_text

# ---------------------------------------------------------------- arguments of public functions


class Chosen:
    """Choices by bytes; where these have ended, the first of everything."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def below(self, n: int) -> int:
        self._at += 1
        return self._data[self._at - 1] % n if self._at <= len(self._data) else 0

    def value(self, depth: int = 0) -> Any:
        """Anything that one could hand over by mistake."""
        kind = self.below(16)
        if kind < 7 or depth > 3:
            return STRANGE[self.below(len(STRANGE))]
        if kind < 9:
            return PLAIN[self.below(len(PLAIN))]
        if kind == 9:
            return [self.value(depth + 1) for _ in range(self.below(4))]
        if kind == 10:
            return tuple(self.value(depth + 1) for _ in range(self.below(4)))
        if kind == 11:
            return {WORDS_OF_CALLS[self.below(len(WORDS_OF_CALLS))]: self.value(depth + 1) for _ in range(self.below(4))}
        if kind == 12:
            return WORDS_OF_CALLS[self.below(len(WORDS_OF_CALLS))]
        if kind == 13:
            return " ".join(WORDS[self.below(len(WORDS))] for _ in range(self.below(8)))
        if kind == 14:
            return self._table()
        return {"type": WORDS_OF_CALLS[self.below(5)], "ts": self.value(depth + 1), "x": self.value(depth + 1)}

    def _table(self) -> pa.Table:
        columns = COLUMNS[: 1 + self.below(len(COLUMNS))]
        names = [WORDS_OF_CALLS[self.below(len(WORDS_OF_CALLS) - 1)] for _ in columns]  # the last cannot be one
        return pa.Table.from_arrays(columns, names=names)


PLAIN: list[Any] = [
    0,
    1,
    2,
    7,
    -1,
    2**31,
    2**63,
    -(2**63),
    2**64,
    0.5,
    1e308,
    float("inf"),
    -0.0,
    True,
    False,
    1j,
    "5",
    "5 min",
    "1e3 s",
    "us",
    "auto",
]
PLAIN += [
    np.int8(5),
    np.float32("nan"),
    np.array([1, 2]),
    np.array("x"),
    Decimal("NaN"),
    Decimal("1e5"),
    b"\xff",
    bytearray(3),
    range(3),
    ...,
]
WORDS_OF_CALLS = [
    "type",
    "ts",
    "x",
    "A",
    "B",
    "C",
    "name",
    "",
    "\0",
    "é",
    "unit",
    "queries",
    "rules",
    "p",
    "predicate",
    "horizon",
    "\ud800",
]
COLUMNS = [
    pa.array(["A", "B", None]),
    pa.array([1, 2, None]),
    pa.array([1.5, float("nan"), None]),
    pa.array([None, None, None]),
    pa.array([[1], [], None]),
    pa.array([{"a": 1}, {}, None]),
    pa.array([1, 2, 3], pa.timestamp("ns", "Europe/Berlin")),
    pa.array([1, 2, 3], pa.uint64()),
    pa.array([b"\xff", b"", None]),
    pa.array(["A", "A", "B"]).dictionary_encode(),
    pa.array([Decimal("1.5"), None, Decimal(2)], pa.decimal256(50, 2)),
    pa.array([1, 2, 3], pa.duration("us")),
]


def read_arguments(data: bytes, _: Path) -> None:
    """A call, with some of its arguments exchanged for others."""
    chosen = Chosen(data)
    function, given = list(CALLS.values())[chosen.below(len(CALLS))]
    names = list(given)
    changed = {names[chosen.below(len(names))]: chosen.value() for _ in range(1 + chosen.below(3))}
    str(function(**given | changed))


def make_choices(known: list[bytes], chance: random.Random) -> bytes:
    return chance.randbytes(chance.choice([4, 8, 16, 32]))


# ---------------------------------------------------------------- arguments of functions of values

EXPRESSIONS = [expression for expression, _ in ROWS]
N_ROWS = 256


@cache
def pools() -> dict[str, pa.Array]:
    """256 values for every column: those of the rows that are worked out, and what is at the edges."""
    edges: dict[str, list[Any]] = {
        "i": [0, 1, -1, 2**63 - 1, -(2**63), 2**53, 10**18, 255, 65_536],
        "x": [0.0, -0.0, 1e308, -1e308, 5e-324, float("inf"), float("-inf"), NAN, 0.1, 2.5, 2.0**53, 2.0**63, -(2.0**63)],
        "m": [Decimal("0.00"), Decimal("99999999.99"), Decimal("-99999999.99"), Decimal("0.01")],
        "s": [
            "",
            " ",
            "a" * 3_000,
            "\0",
            "%",
            "_",
            "\\",
            "(",
            "é",
            "ß",
            "İ",
            "\N{PILE OF POO}",
            "2026-02-30",
            "1e400",
            "NaN",
            "-",
            "0x1f",
            *ODD[3:],
        ],
        "f": [True, False],
        "t": [-(2**62), 0, 2**62, 253_402_300_800_000_000, -62_135_596_800_000_001],
    }
    edges |= {"j": edges["i"], "y": edges["x"], "r": edges["s"], "n": edges["t"]}
    found = {}
    for name, kind in SCHEMA.items():
        known = [given[name] for _, rows in ROWS for given, _ in rows if given.get(name) is not None]
        array = pa.concat_arrays([pa.array([None], kind), pa.array(edges[name], kind), pa.array(known, kind)])
        found[name] = array.take(pa.array(np.arange(256) % len(array)))
    return found


def read_rows(data: bytes, _: Path) -> None:
    """An expression, and for every row a byte for each column."""
    text, _, choices = data.partition(b"\0")
    n = len(choices) // len(SCHEMA)
    places = np.frombuffer(choices[: n * len(SCHEMA)], np.uint8).reshape(n, len(SCHEMA))
    columns = {name: pools()[name].take(pa.array(places[:, number])) for number, name in enumerate(SCHEMA)}
    table = pa.table({"type": pa.array(["A"] * n, pa.string()), **columns})
    turned = table.take(pa.array(np.arange(n)[::-1]))
    query = sq.parse(f"A a WITHIN 1 RETURN {of(as_text(text), 'a.{}')} AS value")
    found, again = (answers(query, rows) for rows in (table, turned))
    assert len(found) == n
    assert found.equals(again.take(pa.array(np.arange(n)[::-1]))), "a row has another answer among other rows"


def answers(query: sq.Query, rows: pa.Table) -> pa.Array:
    found = sq.run(query, sq.Events(rows.append_column("ts", pa.array(range(len(rows)), pa.int64()))))
    found.to_native()
    values = found.table.column("value").combine_chunks()
    return values.view(pa.int64()) if values.type == pa.float64() else values  # NaN is itself by its bits alone


def make_rows(known: list[bytes], chance: random.Random) -> bytes:
    text = chance.choice(EXPRESSIONS)
    for _ in range(chance.choice([0, 0, 1, 2])):
        literals = list(re.finditer(r"'(?:[^']|'')*'|\b\d+(?:\.\d+)?\b", text))
        if literals:
            at = chance.choice(literals)
            other = chance.choice(NUMBERS) if chance.random() < 0.5 else "'" + chance.choice(ODD + TEXTS).replace("'", "''") + "'"
            text = text[: at.start()] + other + text[at.end() :]
    return text.encode("utf-8", "surrogatepass") + b"\0" + chance.randbytes(N_ROWS * len(SCHEMA))


TEXTS = [
    "",
    "%",
    "_%_",
    "(",
    "[a-",
    "a{9999}",
    "(a+)+b",
    "\\",
    "%\\",
    "Mars/Phobos",
    "Europe/Berlin",
    "century",
    "day",
    "'",
    "2026-01-01",
    "(?i)x",
    "$1",
]


def right_rows() -> list[bytes]:
    return [expression.encode() + b"\0" + bytes(range(8 * len(SCHEMA))) for expression in EXPRESSIONS]
