"""The Python engine of the Event Query Language (the PyPI package `eql`), asked for a sequence of each key.

Of a key it holds one sequence that has begun, the newest: what `SEQ` finds too, where every key has every step once. Its window
includes the moment at its end and ours does not, so it is one second shorter there.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

TICKS = 10_000_000  # of its clock, in a second


def missing() -> str:
    """Why it cannot run here; empty where it can."""
    return "" if importlib.util.find_spec("eql") else "eql is not installed: make bench-peers"


class KeyedEvents:
    """Events (key, ts in seconds, type) as its own."""

    def __init__(self, events: pa.Table) -> None:
        import eql

        columns = (events.column(name).to_pylist() for name in ("type", "ts", "key"))
        self._events = [eql.Event(kind, ts * TICKS, {"key": key}) for kind, ts, key in zip(*columns, strict=True)]

    def n_sequences(self, steps: Sequence[str], within: int) -> int:
        """How many sequences of these steps it finds."""
        import eql

        found: list[Any] = []
        parts = " ".join(f"[{step} where true]" for step in steps)
        engine = eql.PythonEngine()
        engine.add_output_hook(found.append)
        engine.add_query(eql.parse_query(f"sequence by key with maxspan={within - 1}s {parts}"))
        engine.stream_events(self._events)
        engine.finalize()
        return len(found)
