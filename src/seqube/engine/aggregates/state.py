"""What aggregation remembers of a stream, whatever strategy counts, and whether for one query or for several together.

Cost of a step: the events kept and the new ones, plus what the report costs.
Invariant: a state holds every event that a later row can depend on, and what was reported once is never reported again.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace

import pyarrow as pa

from seqube.engine.operator import Operator, Rows
from seqube.engine.predicates import Ints
from seqube.engine.sequence import LOWEST
from seqube.engine.snapshots import read_state, write_state
from seqube.events import Events


@dataclass(frozen=True, slots=True)
class State:
    """What must be remembered of a stream: events inside the window, how far it is decided and reported, and totals so far."""

    events: Events | None = None
    numbers: Ints | None = None  # of the kept events in their partition, with a tuple-count window
    decided: int = LOWEST  # no event up to here can come any more
    reported: int = LOWEST  # every row up to here is out
    last: int = LOWEST  # time of the last event of the stream
    totals: pa.Table | None = None

    @property
    def has_begun(self) -> bool:
        return self.events is not None

    @property
    def n_kept(self) -> int:
        return 0 if self.events is None else len(self.events)

    @property
    def n_bytes(self) -> int:
        return 0 if self.events is None else self.events.table.nbytes

    def to_bytes(self) -> bytes:
        about = {"decided": self.decided, "reported": self.reported, "last": self.last}
        return write_state(self.events, self.numbers, about, self.totals)

    @staticmethod
    def from_bytes(data: bytes) -> State:
        events, numbers, about, totals = read_state(data)
        return State(events, numbers, about["decided"], about["reported"], about["last"], totals)


class Reporter(Operator[State, Rows]):
    """Takes a stream in batches, and reports what is due."""

    def start(self) -> State:
        return State()

    def restore(self, data: bytes) -> State:
        return State.from_bytes(data)

    def resume(self, events: Events, decided: int, reported: int, last: int) -> State:
        return State(events, decided=decided, reported=reported, last=last)

    @abstractmethod
    def number(self, events: Events, known: Ints | None) -> Ints | None:
        """Numbers of all events in their partition, of which the first ones are known; None where the window is one of time."""

    def take(self, state: State, batch: Events) -> State:
        events = batch if state.events is None else Events.concat([state.events, batch])
        reported = state.reported
        if reported == LOWEST and len(batch):
            reported = int(batch.times[0]) - 1
        last = max(state.last, int(batch.times[-1])) if len(batch) else state.last
        return replace(state, events=events, numbers=self.number(events, state.numbers), reported=reported, last=last)
