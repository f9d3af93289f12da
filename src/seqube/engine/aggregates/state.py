"""What aggregation remembers of a stream, and the steps in which it takes it.

    step      adds a batch, reports what is due before its last timestamp (more events may still come at that time)
    finish    reports what a watermark allows or, at the end of the stream, everything

Cost of a step: the events kept and the new ones, plus what the report costs.
Invariant: a state holds every event that a later row can depend on, and what was reported once is never reported again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import pyarrow as pa

from seqube.engine.predicates import Ints
from seqube.engine.sequence import HIGHEST, LOWEST
from seqube.engine.state import read_state, write_state
from seqube.errors import DataError
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

    def to_bytes(self) -> bytes:
        about = {"decided": self.decided, "reported": self.reported, "last": self.last}
        return write_state(self.events, self.numbers, about, self.totals)

    @staticmethod
    def from_bytes(data: bytes) -> State:
        events, numbers, about, totals = read_state(data)
        return State(events, numbers, about["decided"], about["reported"], about["last"], totals)


Rows = TypeVar("Rows")  # what a report is: a table, or one for each query of a workload


class Reporter(ABC, Generic[Rows]):
    """Takes a stream in batches, and reports what is due."""

    def start(self) -> State:
        return State()

    def run(self, events: Events) -> Rows:
        """The rows of a whole stream."""
        return self.report(self._add(self.start(), events), HIGHEST, final=True)[1]

    def step(self, state: State, batch: Events) -> tuple[State, Rows]:
        """Take the next batch, which must not begin before the last one ended."""
        state = self._add(state, batch)
        newest = int(batch.times[-1]) - 1 if len(batch) else state.decided
        return self.report(state, max(state.decided, newest), final=False)

    def finish(self, state: State, watermark: int | None = None) -> tuple[State, Rows | None]:
        """Report all that is due before the watermark, or, without one, all that is left; None if the stream never began."""
        if state.events is None:
            return state, None
        if watermark is None:
            return self.report(state, HIGHEST, final=True)
        return self.report(state, max(state.decided, watermark - 1), final=False)

    @abstractmethod
    def report(self, state: State, upto: int, final: bool) -> tuple[State, Rows]:
        """What is due up to a time, and the state without what no later row can depend on."""

    @abstractmethod
    def number(self, events: Events, known: Ints | None) -> Ints | None:
        """Numbers of all events in their partition, of which the first ones are known; None where the window is one of time."""

    def _add(self, state: State, batch: Events) -> State:
        if state.events is not None and len(batch) and int(batch.times[0]) <= state.decided:
            raise DataError(
                f"an event at {int(batch.times[0])} comes after the stream was decided up to {state.decided}\n"
                "  hint: feed events in time order; late ones belong to the late output"
            )
        events = batch if state.events is None else Events.concat([state.events, batch])
        reported = state.reported
        if reported == LOWEST and len(batch):
            reported = int(batch.times[0]) - 1
        last = max(state.last, int(batch.times[-1])) if len(batch) else state.last
        return replace(state, events=events, numbers=self.number(events, state.numbers), reported=reported, last=last)
