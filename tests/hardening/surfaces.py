"""Everything that strangers can write to, as surfaces: seeds that are right, changes of them, and what reads the outcome.

A surface reads bytes and is silent, or raises a documented error. What is chosen rather than written (arguments, rows) is chosen by
bytes, so that any input can be kept in a file, and a library that knows only bytes can look for others.

Cost, in inputs a second of one core, once all loops are compiled: some hundreds of files of queries, statements and calls with
strange arguments, one to three thousand queries and files of YAML, five thousand requests, states and lines, eighty thousand rows.
Shares are such that ten million, at least 100,000 of each kind, take about forty minutes of a core.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from function_rows import SCHEMA
from hardening.hostile import HIERARCHY, PIPELINE, RULES, SQL_WORDS, WORDS, YAML_WORDS, make_text
from hardening.reading_bytes import lines_of_events, make_lines, make_state, read_lines, read_state, states
from hardening.reading_requests import REQUEST_WORDS, make_request, read_request, requests
from hardening.reading_texts import (
    files_of_queries,
    files_of_yaml,
    read_hierarchy,
    read_pipeline,
    read_queries,
    read_query,
    read_rules,
    read_sql,
    statements,
    texts_of_queries,
)
from hardening.reading_values import make_choices, make_rows, read_arguments, read_rows, right_rows


@dataclass(frozen=True, slots=True)
class Surface:
    """Where strangers' bytes are read."""

    seeds: Callable[[], list[bytes]]
    make: Callable[[list[bytes], random.Random], bytes]
    read: Callable[[bytes, Path], None]  # the file: where bytes can be put that are read from one
    share: int  # of ten thousand inputs: the quick ones are tried more often
    size: Callable[[bytes], int] = lambda _: 1  # how many inputs some bytes are, each of which is judged by itself
    seconds: int = 60  # of the processor, that some bytes may take; more where many loops may have to be compiled
    words: tuple[str, ...] = ()  # that say something to what reads


def of_text(
    seeds: Callable[[], list[str]], read: Callable[[bytes, Path], None], share: int, words: list[str], own: Any = None
) -> Surface:
    def make(known: list[bytes], chance: random.Random) -> bytes:
        return make_text([each.decode() for each in known], words, own, chance)

    return Surface(lambda: [text.encode() for text in seeds()], make, read, share, words=tuple(words))


SURFACES: dict[str, Surface] = {
    "query": of_text(texts_of_queries, read_query, 300, WORDS),
    "queries": of_text(files_of_queries, read_queries, 100, WORDS),
    "hierarchy": of_text(partial(files_of_yaml, HIERARCHY, "hierarchy*.yaml"), read_hierarchy, 300, YAML_WORDS, HIERARCHY),
    "rules": of_text(partial(files_of_yaml, RULES, "rules.yaml"), read_rules, 300, YAML_WORDS, RULES),
    "pipeline": of_text(partial(files_of_yaml, PIPELINE, "pipeline.yaml"), read_pipeline, 200, YAML_WORDS, PIPELINE),
    "sql": of_text(statements, read_sql, 100, SQL_WORDS),
    "request": Surface(requests, make_request, read_request, 1_000, words=tuple(REQUEST_WORDS)),
    "arguments": Surface(lambda: [b"\0" * 8], make_choices, read_arguments, 100, seconds=180),
    "state": Surface(states, make_state, read_state, 1_000, seconds=180),
    "rows": Surface(
        right_rows, make_rows, read_rows, 5_800, lambda data: max((len(data) - data.find(b"\0") - 1) // len(SCHEMA), 1)
    ),
    "lines": Surface(lines_of_events, make_lines, read_lines, 800, lambda data: data.count(b"\n") + 1, seconds=180),
}
