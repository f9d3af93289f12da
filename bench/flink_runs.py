"""Patterns of Flink CEP beside queries of ours, over the same random streams: `python -m bench.flink_runs [SEED]`.

Every row of `PAIRS` has to give the same matches, event by event; those of `DIFFERENCES` do not, and the page
docs/how-to/from-other-engines.md says why. All of them run in one job of one JVM (`peers/flink/RunPatterns.java`), each stream by
its key. Times in a stream differ, because what Flink does with equal ones depends on the order in which they come.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import seqube as sq
from bench.peers.flink_cep import BUILD, Adapter, start

WINDOW = 12
N_STREAMS, N_EVENTS = 400, 9

# A pattern as the program reads it: a skip strategy and parts, without the window; and the query.
PAIRS = {
    "followedByAny": ("noSkip begin:a:A followedByAny:b:B followedByAny:c:C", "SEQ(A a, B b, C c)"),
    "followedBy": ("noSkip begin:a:A followedBy:b:B followedBy:c:C", "NEXT(A a, B b, C c)"),
    "followedBy, of one type": ("noSkip begin:a:B followedBy:b:B followedBy:c:C", "NEXT(B a, B b, C c)"),
    "followedBy, then followedByAny": ("noSkip begin:a:A followedBy:b:B followedByAny:c:C", "SEQ(NEXT(A a, B b), C c)"),
    "next": ("noSkip begin:a:A next:b:B next:c:C", "STRICT(A a, B b, C c)"),
    "next, of any type": ("noSkip begin:a:A next:b:* next:c:C", "STRICT(A a, ANY b, C c)"),
    "next, then followedByAny": ("noSkip begin:a:A next:b:B followedByAny:c:C", "SEQ(STRICT(A a, B b), C c)"),
    "notFollowedBy": ("noSkip begin:a:A notFollowedBy:d:D followedBy:c:C", "NEXT(A a, !D d, C c)"),
    "notFollowedBy at the end": ("noSkip begin:a:A notFollowedBy:b:B", "NEXT(A a, !B b)"),
    "times": ("noSkip begin:a:A followedBy:b:B:times,2 followedBy:c:C", "NEXT(A a, B{2} b, C c)"),
    "times at the end": ("noSkip begin:a:A followedBy:b:B:times,2", "NEXT(A a, B{2} b)"),
    "oneOrMore, greedy, skipToNext": (
        "skipToNext begin:a:A followedBy:b:B:oneOrMore:greedy followedBy:c:C",
        "NEXT(A a, B+ b, C c)",
    ),
    "timesOrMore, greedy, skipToNext": (
        "skipToNext begin:a:A followedBy:b:B:timesOrMore,2:greedy followedBy:c:C",
        "NEXT(A a, B{2,} b, C c)",
    ),
    "oneOrMore at the end, skipToNext": ("skipToNext begin:a:A followedBy:b:B:oneOrMore", "NEXT(A a, B+? b)"),
    "oneOrMore, combinations": (
        "noSkip begin:a:A followedByAny:b:B:oneOrMore:allowCombinations followedByAny:c:C",
        "SEQ(A a, B+ b, C c)",
    ),
    "oneOrMore, combinations, at the end": ("noSkip begin:a:A followedByAny:b:B:oneOrMore:allowCombinations", "SEQ(A a, B+ b)"),
    "times, combinations": (
        "noSkip begin:a:A followedByAny:b:B:times,2,3:allowCombinations followedByAny:c:C",
        "SEQ(A a, B{2,3} b, C c)",
    ),
    "oneOrMore, optional, combinations": (
        "noSkip begin:a:A followedByAny:b:B:oneOrMore:optional:allowCombinations followedByAny:c:C",
        "SEQ(A a, B* b, C c)",
    ),
    "oneOrMore, consecutive": ("noSkip begin:a:A next:b:B:oneOrMore:consecutive next:c:C", "STRICT(A a, B+ b, C c)"),
    "oneOrMore, greedy, consecutive": ("noSkip begin:a:A next:b:B:oneOrMore:greedy:consecutive next:c:C", "STRICT(A a, B+ b, C c)"),
    "oneOrMore, optional, consecutive": (
        "noSkip begin:a:A next:b:B:oneOrMore:optional:consecutive next:c:C",
        "STRICT(A a, B* b, C c)",
    ),
    "times, consecutive": ("noSkip begin:a:A next:b:B:times,2:consecutive next:c:C", "STRICT(A a, B{2} b, C c)"),
    "optional, followedByAny": ("noSkip begin:a:A followedByAny:b:B:optional followedByAny:c:C", "SEQ(A a, B? b, C c)"),
    "optional, next": ("noSkip begin:a:A next:b:B:optional next:c:C", "STRICT(A a, B? b, C c)"),
    "skipPastLastEvent, followedByAny": ("skipPastLastEvent begin:a:A followedByAny:b:B", "SEQ(A a, B b) SKIP PAST LAST"),
    "skipPastLastEvent, followedBy": (
        "skipPastLastEvent begin:a:A followedBy:b:B followedBy:c:C",
        "NEXT(A a, B b, C c) SKIP PAST LAST",
    ),
    "skipPastLastEvent, next": ("skipPastLastEvent begin:a:A next:b:B:times,2:consecutive", "STRICT(A a, B{2} b) SKIP PAST LAST"),
    "skipToNext, followedBy": ("skipToNext begin:a:A followedBy:b:B followedBy:c:C", "NEXT(A a, B b, C c) SKIP TO NEXT"),
    "skipToFirst, followedByAny": ("skipToFirst,b begin:a:A followedByAny:b:B", "SEQ(A a, B b) SKIP TO FIRST b"),
    "skipToFirst, followedBy": (
        "skipToFirst,b begin:a:A followedBy:b:B:times,2 followedBy:c:C",
        "NEXT(A a, B{2} b, C c) SKIP TO FIRST b",
    ),
    "skipToLast, followedBy": (
        "skipToLast,b begin:a:A followedBy:b:B:times,2 followedBy:c:C",
        "NEXT(A a, B{2} b, C c) SKIP TO LAST b",
    ),
}
# What was not finished in its window goes to Flink's side output for timeouts.
PAIRS |= {
    "timeouts, followedBy": ("noSkip begin:a:A followedBy:b:B followedBy:c:C", "NEXT(A a, B b, C c) KEEP PARTIAL"),
    "timeouts, times": ("noSkip begin:a:A followedBy:b:B:times,2 followedBy:c:C", "NEXT(A a, B{2} b, C c) KEEP PARTIAL"),
}
DIFFERENCES = {
    "oneOrMore: every length": ("noSkip begin:a:A followedBy:b:B:oneOrMore followedBy:c:C", "NEXT(A a, B+ b, C c)"),
    "oneOrMore, greedy: goes on after a match": (
        "noSkip begin:a:A followedBy:b:B:oneOrMore:greedy followedBy:c:C",
        "NEXT(A a, B+ b, C c)",
    ),
    "oneOrMore at the end: every length": ("noSkip begin:a:A followedBy:b:B:oneOrMore", "NEXT(A a, B+ b)"),
    "oneOrMore, consecutive, at the end: every length": ("noSkip begin:a:A next:b:B:oneOrMore:consecutive", "STRICT(A a, B+ b)"),
    "times, greedy: one more of the type ends it": (
        "skipToNext begin:a:A followedBy:b:B:times,1,2:greedy followedBy:c:C",
        "NEXT(A a, B{1,2} b, C c)",
    ),
    "oneOrMore, combinations from the first on": (
        "noSkip begin:a:A followedBy:b:B:oneOrMore:allowCombinations followedBy:c:C",
        "SEQ(A a, B+ b, C c)",
    ),
    "optional: with and without": ("noSkip begin:a:A followedBy:b:B:optional followedBy:c:C", "NEXT(A a, B? b, C c)"),
    "until: ends the loop": ("skipToNext begin:a:A followedBy:b:B:oneOrMore:greedy:until,D followedBy:c:C", "NEXT(A a, B+ b, C c)"),
    "notNext: the very next event": ("noSkip begin:a:A notNext:d:D followedBy:c:C", "NEXT(A a, !D d, C c)"),
    "skipToNext: which of equals": ("skipToNext begin:a:A followedByAny:b:B followedByAny:c:C", "SEQ(A a, B b, C c) SKIP TO NEXT"),
    "skipToLast: which of equals": (
        "skipToLast,b begin:a:A followedByAny:b:A followedByAny:c:C",
        "SEQ(A a, A b, C c) SKIP TO LAST b",
    ),
    "skipPastLastEvent: which of equals": (
        "skipPastLastEvent begin:a:A followedByAny:b:B:oneOrMore:allowCombinations followedByAny:c:C",
        "SEQ(A a, B+ b, C c) SKIP PAST LAST",
    ),
}


@dataclass(frozen=True)
class Compared:
    """What both find, as counted texts."""

    flink: Counter[str]
    ours: Counter[str]

    @property
    def are_equal(self) -> bool:
        return self.flink == self.ours


def missing() -> str:
    """Why Flink cannot run here; empty where it can."""
    return Adapter().missing()


def random_streams(seed: int) -> pa.Table:
    """Many short streams of four types, by time."""
    random = np.random.default_rng(seed)
    times = np.cumsum(random.integers(1, 4, (N_STREAMS, N_EVENTS)), axis=1).ravel()
    order = np.argsort(times, kind="stable")
    types = random.choice(list("AABBBCCD"), N_STREAMS * N_EVENTS)
    return pa.table({"stream": np.repeat(np.arange(N_STREAMS), N_EVENTS)[order], "ts": times[order], "type": types[order]})


def compare(pairs: dict[str, tuple[str, str]], events: pa.Table) -> dict[str, Compared]:
    """The matches of both for every pair."""
    BUILD.mkdir(parents=True, exist_ok=True)
    path = BUILD / "streams.txt"
    path.write_text("".join(f"{row['stream']} {row['ts']} {row['type']}\n" for row in events.to_pylist()))
    patterns = " | ".join(f"{WINDOW} {pattern}" for pattern, _ in pairs.values())
    flink = _ask(path, patterns)
    found = {}
    for number, (name, (_, query)) in enumerate(pairs.items()):
        kinds = ("match", "partial") if "KEEP PARTIAL" in query else ("match",)
        theirs = Counter(_text(stream, match) for pattern, stream, match, kind in flink if pattern == number and kind in kinds)
        found[name] = Compared(theirs, _ours(query, events))
    return found


def _ask(path: Path, patterns: str) -> list[Any]:
    java = start("RunPatterns")
    answers, _ = java.communicate(f"load {path.resolve()}\nrun {patterns}\n")
    lines = [line for line in answers.splitlines() if line.startswith("[")]
    if java.returncode or len(lines) != 2:
        raise RuntimeError(f"the Flink program ended with exit code {java.returncode}")
    found: list[Any] = json.loads(lines[1])
    return found


def _ours(query: str, events: pa.Table) -> Counter[str]:
    found_here = sq.run(f"{query} PARTITION BY stream WITHIN {WINDOW}", events).table
    rows = found_here.drop_columns([name for name in ("start", "end", "reached") if name in found_here.column_names]).to_pylist()
    found: Counter[str] = Counter()
    for row in rows:
        bound = {name: value if isinstance(value, list) else [value] for name, value in row.items() if value}
        stream = next(iter(bound.values()))[0]["stream"]
        found[_text(stream, {name: [event["ts"] for event in taken] for name, taken in bound.items()})] += 1
    return found


def _text(stream: int, match: dict[str, list[int]]) -> str:
    return json.dumps([stream, match], sort_keys=True)


def main() -> None:
    if reason := missing():
        sys.exit(reason)
    found = compare(PAIRS | DIFFERENCES, random_streams(int(sys.argv[1]) if len(sys.argv) > 1 else 1))
    for name, each in found.items():
        same = (each.flink & each.ours).total()
        told = "equal" if each.are_equal else f"{each.flink.total() - same} only in Flink, {each.ours.total() - same} only here"
        print(f"{name}: {same} matches of both; {told}")
    if any(not found[name].are_equal for name in PAIRS):
        sys.exit(1)


if __name__ == "__main__":
    main()
