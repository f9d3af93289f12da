"""ClickHouse in this process (the PyPI package `chdb`): its `windowFunnel`, asked what `sq.funnel` is asked.

`strict_increase` wants later times from step to step, as we do. Its window includes the moment at its end and ours does not, so it
is one tick shorter there. It finds some way through the steps, as `mode="any"` does.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa


def missing() -> str:
    """Why it cannot run here; empty where it can."""
    spec = importlib.util.find_spec("chdb")
    folders = spec.submodule_search_locations or [] if spec else []
    if not any(path for folder in folders for path in Path(folder).glob("_chdb*.so")):  # the engine, a package of its own
        return "chdb (with chdb-core) is not installed: make bench-peers"
    return ""


def open_table(events: pa.Table, columns: str) -> Any:
    """A session with `bench.events`: these columns of the events, in its memory."""
    from chdb.session import Session

    session: Any = Session()
    session.query("CREATE DATABASE IF NOT EXISTS bench")
    session.query(f"CREATE OR REPLACE TABLE bench.events ENGINE = Memory AS SELECT {columns} FROM Python(events)")
    return session


class Funnels:
    """Events (key, ts, type) as a table in ClickHouse's memory."""

    def __init__(self, events: pa.Table) -> None:
        self._session = open_table(events, "toUInt64(key) AS key, toUInt64(ts) AS ts, type")

    def reached(self, steps: Sequence[str], within: int, threads: int = 1) -> list[int]:
        """How many keys got at least as far as each step."""
        conditions = ", ".join(f"type = '{step}'" for step in steps)
        levels = f"SELECT windowFunnel({within - 1}, 'strict_increase')(ts, {conditions}) AS level FROM bench.events GROUP BY key"
        counted = ", ".join(f"countIf(level >= {n})" for n in range(1, len(steps) + 1))
        answer = self._session.query(f"SELECT {counted} FROM ({levels}) SETTINGS max_threads = {threads}", "CSV")
        return [int(number) for number in str(answer).strip().split(",")]

    def close(self) -> None:
        self._session.close()
