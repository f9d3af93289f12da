"""Bytes that come from elsewhere, and what reads them: states that were kept, and events as JSON lines."""

# ruff: noqa: E501 - a row is a line

from __future__ import annotations

import json
import random
import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import seqube as sq
from engine.kept_states import KINDS, STATES, WORKLOADS, opened, opened_together
from hardening.hostile import spoil
from predict import kept_forecasts
from seqube.predict.forecasts import Forecaster
from seqube.watch import Watcher

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
    """What was kept for every taker; a stream, which people load, is asked to take the states of all others more often."""
    kept = [state for _, state in takers()]
    return [*(bytes([number]) + state for number, state in enumerate(kept)), *(b"\0" + state for state in kept)]


def make_state(known: list[bytes], chance: random.Random) -> bytes:
    data = chance.choice(known)
    taker, data = data[:1], data[1:]
    if chance.randrange(8) == 0:
        taker = chance.choice(known)[:1]  # who goes on with it is another one
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


class Judged(Watcher):
    """Remembers which lines were refused."""

    def __init__(self, stream: sq.Stream, tell: Callable[[str], None]) -> None:
        super().__init__(stream, lambda _: None, tell, ("type", "ts"))
        self.refused: list[int] = []

    def _reject(self, number: int, reason: str) -> None:
        self.refused.append(number - 1)
        super()._reject(number, reason)


def read_lines(data: bytes, file: Path) -> None:
    """Lines as they come, each of which is judged by itself: it is taken, or refused once; what can be no event is refused."""
    lines = data.split(b"\n")
    told: list[str] = []
    stream = sq.Stream(WATCHED)
    watcher = Judged(stream, told.append)
    half = len(lines) // 2
    watcher.push(lines[:half])
    watcher.push(lines[half:])
    watcher.push([b'{"type": "A", "ts": 1000000, "id": 1, "x": 1}'])
    watcher.close()
    stats, refused = stream.stats, set(watcher.refused)
    blank = {number for number, line in enumerate(lines) if not line.strip()}
    assert len(refused) == len(watcher.refused) == watcher.n_rejected, "a line is refused twice"
    assert not refused & blank, "nothing is refused"
    assert stats.events + stats.late + len(refused) + len(blank) == len(lines) + 1, "a line is neither taken nor told"
    for number, line in enumerate(lines):
        assert number in refused or number in blank or may_be_event(line), f"line {number + 1} is taken"
    json.dumps([watcher.summary(), *told])
    if zlib.crc32(data) % 8 == 0:  # the same lines as a file
        place = file.with_suffix(".jsonl")
        place.write_bytes(data)
        sq.Events(place)


def may_be_event(line: bytes) -> bool:
    """An object of JSON with a type and a time: the rest depends on the lines before it."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(found, dict) and not isinstance(found.get("type"), dict | list | None) and found.get("ts") is not None


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
