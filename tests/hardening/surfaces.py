"""Everything that strangers can write to, as surfaces: seeds that are right, changes of them, and what reads the outcome.

A surface reads bytes and is silent, or raises a documented error. What is chosen rather than written (arguments, rows) is chosen by
bytes, so that any input can be kept in a file, and a library that knows only bytes can look for others.

Cost: from some hundreds of inputs a second (pipeline files) to some ten thousands (states, lines, rows).
"""

# ruff: noqa: E501 - a row is a line

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import random
import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import h11
import numpy as np
import pyarrow as pa
import uvicorn
import yaml
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

import seqube as sq
from engine.kept_states import KINDS, STATES, WORKLOADS, opened, opened_together
from function_rows import NAN, ROWS, SCHEMA, of
from hardening.calls import CALLS, STRANGE
from hardening.hostile import (
    HIERARCHY,
    NUMBERS,
    ODD,
    PIPELINE,
    QUERIES,
    ROOT,
    RULES,
    SQL_WORDS,
    WORDS,
    YAML_WORDS,
    as_text,
    make_text,
    mutate,
    spoil,
)
from predict import kept_forecasts
from seqube.engine.limits import Limits
from seqube.errors import PlanError
from seqube.events import Hierarchy
from seqube.explorer.funnels import _read as read_funnel
from seqube.explorer.page import Explorer, Screen
from seqube.explorer.panels import CubePanel, ForecastPanel, Timeline
from seqube.explorer.server import Guard, downloads
from seqube.language import Query, parse, parse_file
from seqube.language.rows.statement import all_of, read_statement
from seqube.plan.explain import explain_workload
from seqube.plan.optimizer import ALONE, optimize
from seqube.predict.forecasts import Forecaster
from seqube.predict.rules import Rules
from seqube.spark.streaming.declaration import read_declaration
from seqube.statements import plan_step
from seqube.watch import Watcher

TESTS = ROOT / "tests"
EXAMPLES = ROOT / "examples"


@dataclass(frozen=True, slots=True)
class Surface:
    """Where strangers' bytes are read."""

    seeds: Callable[[], list[bytes]]
    make: Callable[[list[bytes], random.Random], bytes]
    read: Callable[[bytes, Path], None]  # the file: where bytes can be put that are read from one
    share: int  # of ten thousand inputs: the quick ones are tried more often
    size: Callable[[bytes], int] = lambda _: 1  # how many inputs some bytes are
    seconds: int = 60  # of the processor, that some bytes may take; more where many loops may have to be compiled
    words: tuple[str, ...] = ()  # that say something to what reads


# ---------------------------------------------------------------- queries and files


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


def texts_of_queries() -> list[str]:
    """Those that the tests of plans ask, and some that hold much."""
    files = sorted((TESTS / "plan" / "queries").glob("*.sqb"))
    asked = [text.partition("\n")[2] for file in files for text in file.read_text("utf-8").split("-- name: ")[1:]]
    return [*QUERIES, *(text.strip() for text in asked)]


def files_of_queries() -> list[str]:
    joined = "\n\n".join(f"-- name: q{number}\n{text}" for number, text in enumerate(QUERIES[:4]))
    return [joined, *(path.read_text("utf-8") for path in sorted(EXAMPLES.glob("*/*.sqb")))]


def files_of_yaml(own: Any, pattern: str) -> list[str]:
    found = [path.read_text("utf-8") for path in sorted(EXAMPLES.glob(f"*/{pattern}"))]
    return [yaml.safe_dump(own), yaml.safe_dump(own, default_flow_style=True), *(text for text in found if len(text) < 3_000)]


def of_text(
    seeds: Callable[[], list[str]], read: Callable[[bytes, Path], None], share: int, words: list[str], own: Any = None
) -> Surface:
    def make(known: list[bytes], chance: random.Random) -> bytes:
        return make_text([each.decode() for each in known], words, own, chance)

    return Surface(lambda: [text.encode() for text in seeds()], make, read, share, words=tuple(words))


# ---------------------------------------------------------------- SQL

TRADES = pa.table(
    {
        "id": [1, 1, 1, 2, 2, 2, 1, 2],
        "ts": pa.array([1, 2, 3, 3, 4, 5, 9, 9], pa.timestamp("s")),
        "price": [10.0, 9.0, 11.0, 5.0, 4.0, 7.0, None, 1.0],
        "qty": [1, 2, 3, 4, 5, 6, 7, None],
        "name": ["p", "q", "p", None, "q", "r", "r", "p"],
    }
)
LIMITS = Limits(max_seconds=60, max_matches=10_000, max_state_bytes=1 << 28)


def read_sql(data: bytes, _: Path) -> None:
    statement = read_statement(as_text(data), "duckdb")
    for step in statement.steps:
        step.input(statement)
        if step.clause and not step.queries and step.input(statement) == all_of("t"):
            from seqube.engine.rows.clause import match_rows

            match_rows(plan_step(step, TRADES.schema), TRADES, LIMITS)


def statements() -> list[str]:
    """Of the page on SQL, over other tables, and some that hold what a clause can."""
    down = "PATTERN (strt down+ up+) DEFINE down AS price < PREV(price), up AS price > PREV(price)"
    clauses = [
        f"PARTITION BY id ORDER BY ts MEASURES LAST(down.price) AS low, LAST(up.ts) AS ended {down}",
        f"ORDER BY id, ts MEASURES MATCH_NUMBER() AS n, CLASSIFIER() AS c ALL ROWS PER MATCH AFTER MATCH SKIP TO NEXT ROW {down}",
        "ORDER BY ts ALL ROWS PER MATCH PATTERN (a b* c? {- d{2,3} -} | PERMUTE(e, f)) DEFINE a AS qty IN (1, 2), b AS name LIKE 'p%' OR b.qty > AVG(b.qty)",
        "ORDER BY ts MEASURES FINAL COUNT(*) AS n, RUNNING SUM(a.qty) AS s, FIRST(a.price, 1) AS p PATTERN (^ a+? b $) SUBSET u = (a, b) DEFINE b AS CASE WHEN price IS NULL THEN 1 ELSE qty END > 2 AND NOT u.qty BETWEEN 3 AND 4",
        "PARTITION BY name ORDER BY ts ALL ROWS PER MATCH WITH UNMATCHED ROWS AFTER MATCH SKIP TO LAST b PATTERN (a b+) WITHIN INTERVAL '5' SECOND DEFINE b AS COALESCE(NEXT(price, 2), 0) <> PREV(LAST(a.price), 1) + ABS(qty)",
        "ORDER BY ts MEASURES COUNT(*) AS k PATTERN ((a | b){2,5} ()) DEFINE a AS CAST(qty AS DOUBLE) / 0 > 1, b AS name = 'it''s'",
    ]
    own = [f"SELECT * FROM t MATCH_RECOGNIZE ({clause}) AS m WHERE 1 = 1" for clause in clauses]
    wrapped = f"WITH c AS (SELECT * FROM t), d AS (SELECT * FROM c MATCH_RECOGNIZE ({clauses[0]})) SELECT count(*) FROM d JOIN c USING (id)"
    ours = "EXPLAIN SELECT n FROM SEQUBE(t, 'SEQ(A a, B b) WITHIN 5 min', type => 'name', time => 'ts') ORDER BY 1"
    page = re.findall(r"```sql\n(.*?)```", (ROOT / "docs" / "sql.md").read_text("utf-8"), re.DOTALL)
    return [*own, *own, wrapped, ours, *page]


# ---------------------------------------------------------------- states


@cache
def takers() -> list[tuple[Callable[[bytes], Any], bytes]]:
    """Whatever goes on with a state, and one that was kept for it: the operators of every kind, a forecaster, a stream."""

    def kept(kind: str) -> bytes:
        return (STATES / f"{kind.replace(' ', '-')}.arrow").read_bytes()

    one = [(opened(kind).restore, kept(kind)) for kind in KINDS]
    several = [(opened_together(kind).restore, kept(kind)) for kind in WORKLOADS]
    forecaster = Forecaster(kept_forecasts.RULES, kept_forecasts.EVENTS.schema)
    return [(sq.Stream.load, kept("stream")), *one, *several, (forecaster.restore, kept_forecasts.STATE.read_bytes())]


def read_state(data: bytes, _: Path) -> None:
    """The first byte says who is asked to go on with the others."""
    known = takers()
    known[data[0] % len(known) if data else 0][0](data[1:])


def states() -> list[bytes]:
    """What was kept for every taker; a stream, which people load, is asked to take the states of all others too."""
    kept = [state for _, state in takers()]
    return [*(bytes([number]) + state for number, state in enumerate(kept)), *(b"\0" + state for state in kept)]


def make_state(known: list[bytes], chance: random.Random) -> bytes:
    data = chance.choice(known)
    taker, data = data[:1], data[1:]  # who takes it stays: that a stream's states are its own queries' is the checkpoint's to see
    at = chance.randrange(len(data))
    match chance.randrange(32) % 9:  # what stays as it is takes longest, and is chosen least
        case 8:
            pass
        case 0 | 1:
            data = data[:at]
        case 2:
            data += chance.choice(known)[at:]
        case 3:
            data = data[: at + 1] + chance.choice(known)[at + 1 :]
        case 4:
            data = data[:at] + bytes(chance.choice([1, 8, 64, 512])) + data[at + chance.choice([0, 64]) :]
        case _:
            for _ in range(chance.choice([1, 1, 2, 8])):
                data = spoil(data, chance)
    return taker + data


# ---------------------------------------------------------------- JSON lines

WATCHED = {"pairs": "SEQ(A a, B b, [id]) WITHIN 5", "wide": "SEQ(A a, !C c, B b, a.x < b.x) WITHIN 9 RETURN a.x + b.x AS sum, b.s"}
VALUES = [
    *('1', '2', '3', '2', '1', '"A"', '"B"', '"C"', 'null', '0', '-1', '1.5', '1e400', '-1e-400', 'NaN', '-Infinity', 'true', '[]', '{}', '""'),
    *("[[]]", '{"a":{"b":[1,null]}}', '"\\ud800"', '"\\u0000"', '"2026-03-29T02:30:00"', '"2026-13-45"', "9" * 19, "9" * 400, "9" * 5_000, str(2**63)),
    *('"x" ', '"é"', "[1,2]", '[1,"a"]', "01", "1.", "tru", '"', "[" * 2_000, "[" * 30_000, '{"a":' * 500, "[" * 300 + "]" * 300, '{"a":' * 900 + "1" + "}" * 900, "1e5", "-0", '"1"', str(-(2**63))),
]  # fmt: skip
FIELDS = ["type", "ts", "id", "x", "s", "type", "ts", "", "é", "a.b", "#number", "query", "\\u0000", "x" * 300]
N_LINES = 400


def read_lines(data: bytes, file: Path) -> None:
    lines = data.split(b"\n")
    told: list[str] = []
    watcher = Watcher(sq.Stream(WATCHED), lambda _: None, told.append, ("type", "ts"))
    half = len(lines) // 2
    watcher.push(lines[:half])
    watcher.push(lines[half:])
    watcher.push([b'{"type": "A", "ts": 1000000, "id": 1, "x": 1}'])
    watcher.close()
    json.dumps([watcher.summary(), *told])
    if zlib.crc32(data) % 8 == 0:  # the same lines as a file
        place = file.with_suffix(".jsonl")
        place.write_bytes(data)
        sq.Events(place)


def make_lines(known: list[bytes], chance: random.Random) -> bytes:
    choose, roll = chance.choice, chance.random
    lines = []
    now = 0
    for _ in range(N_LINES):
        if roll() < 0.5:  # an event, so that there is something to find
            now += chance.randrange(3)
            line = f'{{"type":"{choose("ABC")}","ts":{now},"id":{choose("123")},"x":{choose(VALUES) if roll() < 0.1 else now}}}'
        elif roll() < 0.8:
            named = [(choose(FIELDS), choose(VALUES)) for _ in range(choose((1, 2, 3, 4, 6)))]
            line = f'{{"type":"{choose("AB")}","ts":{now},' + ",".join(f'"{name}":{value}' for name, value in named) + "}"
        else:
            line = choose(VALUES)
        data = line.encode()
        if roll() < 0.1:
            data = spoil(data, chance)
        lines.append(data)
    return b"\n".join(lines)


def lines_of_events() -> list[bytes]:
    events = [f'{{"type": "{kind}", "ts": {time}, "id": 1, "x": {time}}}' for time, kind in enumerate("ABACABBC")]
    return ["\n".join(events).encode()]


# ---------------------------------------------------------------- requests to the page

TOKEN = "right"
ADDRESS = b"/?token=right&data=generated+stock&view=cube&q=SEQ%28A+a%29&strategy=auto&via=x&via=y"
DETAILS = b"/?show=table&between=1.5~9&sql=SELECT+1&funnel=%7B%22steps%22%3A%5B%22A%22%5D%2C%22by%22%3A%22id%22%7D&pivot=1,2,1&rule=1&at=5"


class Shut(asyncio.Transport):
    """The other end of a connection, which keeps what is said to it."""

    def __init__(self) -> None:
        super().__init__()
        self.said = b""
        self.is_shut = False

    def write(self, data: Any) -> None:
        self.said += bytes(data)

    def close(self) -> None:
        self.is_shut = True

    def is_closing(self) -> bool:
        return self.is_shut

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.1", 1) if name in ("peername", "sockname") else default

    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...
    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...


class Door:
    """The page's server up to the page itself: the protocol, the guard, the downloads, what a tab reads of its address."""

    def __init__(self, folder: Path) -> None:
        from seqube.explorer.sources import generated

        self.loop = asyncio.new_event_loop()
        self._explorer = Explorer(generated(), folder)
        self._exports = downloads(self._explorer)
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL + 1)
        self._config = uvicorn.Config(
            Guard(self._inner, TOKEN, "seqube-1"), http="h11", ws="none", log_config=None, access_log=False
        )
        self._config.load()

    def ask(self, data: bytes) -> bytes:
        return self.loop.run_until_complete(self._ask(data))

    async def _ask(self, data: bytes) -> bytes:
        state, other = ServerState(), Shut()
        protocol = H11Protocol(self._config, state, {}, self.loop)
        protocol.connection_made(other)
        half = len(data) // 2
        for piece in (data[:half], data[half:]):
            if piece and not other.is_shut:  # no bytes are the end to it, which asyncio tells in another way
                try:
                    protocol.data_received(piece)
                except h11.LocalProtocolError:
                    other.close()  # a fault of the protocol's own, which asyncio answers in this way
        waiting = set(state.tasks)
        protocol.connection_lost(None)
        if waiting:
            await asyncio.wait(waiting)
        return other.said

    async def _inner(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["path"] != "/":
            await self._exports(scope, receive, send)
            return
        request = Request(scope, receive)
        while (await receive()).get("more_body"):
            pass
        given = request.query_params
        screen = Screen(self._explorer, dict(given), given.getlist("via"))
        read_funnel(screen.detail.get("funnel", ""))
        panel: Any = SimpleNamespace(_screen=screen, _edges=[0, 10], _drawn=pa.table({"outcome": ["open"]}))
        CubePanel._asked_pivot(panel, {1: "a", 2: "b"})
        Timeline._asked_stretch(panel)
        ForecastPanel._first_rule(panel, [{"rule": "r", "predictions": 1}])
        ForecastPanel._first(panel)
        await PlainTextResponse("in")(scope, receive, send)


_doors: dict[Path, Door] = {}


def read_request(data: bytes, file: Path) -> None:
    """One that is answered, with anything but a fault of the server."""
    if file.parent not in _doors:
        _doors[file.parent] = Door(file.parent)
    said = _doors[file.parent].ask(data)
    status = said[9:12]
    assert status != b"500", said[:300]
    is_known = b"token=right" in data or b"seqube-1=right" in data
    assert is_known or status in (b"", b"403", b"400", b"431", b"101"), f"{status!r} without the token"


def requests() -> list[bytes]:
    cookie = b"Host: 127.0.0.1:1\r\nCookie: seqube-1=right\r\n"
    return [
        b"GET " + ADDRESS + b" HTTP/1.1\r\nHost: 127.0.0.1:1\r\n\r\n",
        b"GET " + DETAILS + b" HTTP/1.1\r\n" + cookie + b"Accept: */*\r\n\r\n",
        b"GET /export/7.csv HTTP/1.1\r\n" + cookie + b"Origin: http://127.0.0.1:1\r\n\r\n",
        b"POST / HTTP/1.1\r\n" + cookie + b"Content-Length: 5\r\nContent-Type: text/plain\r\n\r\nhello",
        b"POST / HTTP/1.1\r\n" + cookie + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        b"GET /_nicegui_ws/socket.io/ HTTP/1.1\r\n"
        + cookie
        + b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: x\r\n\r\n",
        b"GET /?token=wrong HTTP/1.1\r\nHost: x\r\nOrigin: http://evil\r\nX-Forwarded-For: 1\r\n\r\n",
        b"HEAD / HTTP/1.0\r\n\r\n",
    ]


REQUEST_WORDS = [
    *("token=right", "token=", "&token=right&token=wrong", "%00", "%ff", "%u0041", "+", "&", "&&", "=", ";", "#", "?", "//", "/../../etc/passwd"),
    *("\r\n", "\n", "\r\n\r\n", "Cookie: seqube-1=right\r\n", "Cookie: seqube-1=\r\n", "Host: y\r\n", "Origin: http://[\r\n", "Origin: null\r\n"),
    *("Origin: http://127.0.0.1:1\r\n", "Origin: //127.0.0.1:1\r\n", "Content-Length: 99\r\n", "Content-Length: -1\r\n", "Expect: 100-continue\r\n"),
    *("Transfer-Encoding: chunked\r\n", "HTTP/1.0", "HTTP/2", "GET", "POST", "PUT", "CONNECT", "OPTIONS", "*", "/export/", ".csv", ".parquet"),
    *("funnel=", "pivot=", "between=", "at=", "rule=", "nan~inf", "1e999~2", "[[[[", "²", "%C2%B2", '{"without":{"2":5}}', "9" * 4_400, "[" * 5_000),
]  # fmt: skip


def make_request(known: list[bytes], chance: random.Random) -> bytes:
    texts = [each.decode("latin-1") for each in known]
    text = chance.choice(texts)
    for _ in range(chance.choice([0, 1, 1, 2, 3])):
        text = mutate(text, texts, REQUEST_WORDS, chance)
    data = text[:100_000].encode("utf-8", "surrogatepass")
    for _ in range(chance.choice([0, 0, 0, 1, 4])):
        data = spoil(data, chance)
    return data


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
    events = sq.Events(pa.table({"type": pa.array(["A"] * n, pa.string()), "ts": pa.array(range(n), pa.int64()), **columns}))
    found = sq.run(f"A a WITHIN 1 RETURN {of(as_text(text), 'a.{}')} AS value", events)
    assert len(found) == n
    found.to_native()


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


# ---------------------------------------------------------------- all of them

SURFACES: dict[str, Surface] = {
    "query": of_text(texts_of_queries, read_query, 120, WORDS),
    "queries": of_text(files_of_queries, read_queries, 20, WORDS),
    "hierarchy": of_text(partial(files_of_yaml, HIERARCHY, "hierarchy*.yaml"), read_hierarchy, 30, YAML_WORDS, HIERARCHY),
    "rules": of_text(partial(files_of_yaml, RULES, "rules.yaml"), read_rules, 30, YAML_WORDS, RULES),
    "pipeline": of_text(partial(files_of_yaml, PIPELINE, "pipeline.yaml"), read_pipeline, 20, YAML_WORDS, PIPELINE),
    "sql": of_text(statements, read_sql, 30, SQL_WORDS),
    "request": Surface(requests, make_request, read_request, 250, words=tuple(REQUEST_WORDS)),
    "arguments": Surface(lambda: [b"\0" * 8], make_choices, read_arguments, 100, seconds=180),
    "state": Surface(states, make_state, read_state, 1_500, seconds=180),
    "rows": Surface(
        right_rows, make_rows, read_rows, 6_400, lambda data: max((len(data) - data.find(b"\0") - 1) // len(SCHEMA), 1)
    ),
    "lines": Surface(lines_of_events, make_lines, read_lines, 1_500, lambda data: data.count(b"\n") + 1, seconds=180),
}
