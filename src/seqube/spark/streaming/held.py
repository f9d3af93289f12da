"""What a bucket of a stream remembers between calls, as a text and bytes in Spark's state store.

A number is added at the end, and has a value where it is missing: what was written before is read for ever.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

from seqube.engine.sequence import HIGHEST, LOWEST

KEPT_MARKS = 64  # that a bucket remembers: a state that is further behind is made anew


@dataclass(frozen=True, slots=True)
class Chunk:
    """What is known of a chunk without reading it."""

    number: int
    digest: str  # of its bytes: tells whether what a worker has at hand is this chunk
    n_rows: int
    n_bytes: int
    oldest: int
    newest: int
    epoch: int = 0  # the first that a row of it came in


class SeenSpan(NamedTuple):
    """When the first and the last event came that the queries of a generation have seen."""

    generation: int
    begun: int = HIGHEST
    ended: int = LOWEST


@dataclass(frozen=True, slots=True)
class Held:
    """What a bucket remembers between calls, beside the bytes of its chunks."""

    chunks: tuple[Chunk, ...] = ()
    next: int = 0  # number of the next chunk
    decided: int = LOWEST
    reported: int = LOWEST  # aggregates: every row up to here is out
    last: int = LOWEST  # aggregates: time of the last event
    engine_rows: int = 0
    engine: bytes | None = None  # the operator's own state, in the place of chunks
    marks: tuple[str, ...] = ()  # of the states that led here, this one last
    covered: int = LOWEST  # the operator's state is that of the events up to here
    weight: int = 0  # bytes that the operator's state took when it was last looked at
    wake: int | None = None  # the watermark at which the operator has something to say, where chunks do not tell
    spans: tuple[SeenSpan, ...] = ()  # where queries go together that report EVERY so often

    def to_text(self) -> str:
        """Everything but the operator's state."""
        return json.dumps([*self._about, list(self.marks), self.covered, self.weight, self.wake, self.spans])

    @property
    def _about(self) -> list[Any]:
        chunks = [[getattr(chunk, field.name) for field in fields(chunk)] for chunk in self.chunks]
        return [chunks, self.next, self.decided, self.reported, self.last, self.engine_rows]

    @staticmethod
    def from_text(text: str, engine: bytes | None) -> Held:
        chunks, following, decided, reported, last, engine_rows, *later = json.loads(text)  # no more than these before 0.2.0
        marks, covered, weight, wake, *newest = later or ((), LOWEST if engine is None else decided, 0, None)
        spans = tuple(SeenSpan(*span) for span in (newest or [()])[0])
        known = tuple(Chunk(*chunk) for chunk in chunks)
        return Held(known, following, decided, reported, last, engine_rows, engine, tuple(marks), covered, weight, wake, spans)

    def marked(self) -> Held:
        """The same, with its own mark."""
        before = self.marks[-1] if self.marks else ""
        mark = hashlib.blake2b((before + json.dumps(self._about)).encode(), digest_size=12).hexdigest()
        return replace(self, marks=(*self.marks, mark)[-KEPT_MARKS:])

    @property
    def n_rows(self) -> int:
        return sum(chunk.n_rows for chunk in self.chunks) + self.engine_rows

    @property
    def n_bytes(self) -> int:
        return sum(chunk.n_bytes for chunk in self.chunks) + len(self.engine or b"")
