"""What aggregation remembers of a stream: counters that go on and no events, or the events of the window, which are replayed.

Cost: writing counters is linear in them; replaying, in the events kept and the new ones.
Invariant: what was reported once is never reported again; nothing is forgotten that a later row can depend on.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from seqube.engine.aggregates.counters import DOMAIN_OF, GROUP_OF, N_DOMAINS, N_FRESH, N_GROUPS, N_LANES, Counters
from seqube.engine.aggregates.ledger import FEWEST, Ledger
from seqube.engine.aggregates.progress import leave
from seqube.engine.operator import Operator, Rows
from seqube.engine.order import Settled
from seqube.engine.partitions import KeyCodes
from seqube.engine.predicates import Ints
from seqube.engine.sequence import HIGHEST, LOWEST
from seqube.engine.snapshots import bundle, read_state, unbundle, write_state
from seqube.errors import SchemaError
from seqube.events import Events


@dataclass(frozen=True, slots=True)
class State:
    """What is remembered of a stream that is replayed: events inside the window, how far it is reported, and totals so far."""

    events: Events | None = None
    numbers: Ints | None = None  # of the kept events in their partition, with a tuple-count window
    decided: int = LOWEST  # no event up to here can come any more
    reported: int = LOWEST  # every row up to here is out
    last: int = LOWEST  # time of the last event of the stream
    totals: pa.Table | None = None
    settled: Settled | None = None  # with SKIP: what the matches before the window leave to those in it

    @property
    def has_begun(self) -> bool:
        return self.events is not None

    @property
    def open_times(self) -> Ints:
        """Times in all buckets of which more may be said."""
        starts = [] if self.totals is None else [np.asarray(self.totals.column(0))]
        return np.unique(np.concatenate([*starts, *([] if self.events is None else [self.events.times])]))

    @property
    def n_kept(self) -> int:
        return 0 if self.events is None else len(self.events)

    @property
    def n_bytes(self) -> int:
        return 0 if self.events is None else self.events.table.nbytes

    def to_bytes(self) -> bytes:
        about: dict[str, Any] = {"decided": self.decided, "reported": self.reported, "last": self.last}
        if self.settled is None:
            return write_state(self.events, self.numbers, about, self.totals)
        parts: dict[str, Any] = {"ends": self.settled.ends, "begun": self.settled.begun}
        parts |= {} if self.totals is None else {"totals": self.totals}
        return write_state(self.events, self.numbers, {**about, "settled": True}, bundle(parts))

    @staticmethod
    def of(events: Events, numbers: Ints | None, about: Mapping[str, Any], beside: pa.Table | None) -> State:
        """What was written."""
        state = State(events, numbers, about["decided"], about["reported"], about["last"], beside)
        if "settled" not in about:
            return state
        assert beside is not None
        parts = unbundle(beside)
        return replace(state, totals=parts.get("totals"), settled=Settled(parts["ends"], parts["begun"]))


class Pending:
    """Events whose time is not decided, and how far the stream has come."""

    __slots__ = ("_pieces", "last", "template")

    def __init__(self, events: Events, last: int = LOWEST) -> None:
        self.template = events.slice(0, 0)  # what events look like
        self._pieces = [events] if len(events) else []
        self.last = last  # time of the last event of the stream

    def __len__(self) -> int:
        return sum(map(len, self._pieces))

    @property
    def events(self) -> Events:
        return Events.concat([self.template, *self._pieces])

    @property
    def n_bytes(self) -> int:
        return sum(int(piece.table.nbytes) for piece in self._pieces)

    def take(self, batch: Events) -> None:
        if batch.schema is not self.template.schema and batch.schema != self.template.schema:
            raise SchemaError(f"pieces of a stream differ in their columns: {self.template.schema} and {batch.schema}")
        if len(batch):
            self._pieces.append(batch)
            self.last = max(self.last, int(batch.times[-1]))

    def has_any(self, upto: int) -> bool:
        """Whether there is an event up to a time."""
        return bool(self._pieces) and int(self._pieces[0].times[0]) <= upto

    def release(self, upto: int) -> Events:
        """The events up to a time, which are no longer kept."""
        pieces, self._pieces, released = self._pieces, [], []
        for piece in pieces:
            stop = int(np.searchsorted(piece.times, upto, "right"))
            if stop:
                released.append(piece if stop == len(piece) else piece.slice(0, stop))
            if stop < len(piece):
                self._pieces.append(piece if not stop else piece.slice(stop, len(piece)))
        return Events.concat(released) if released else self.template


@dataclass(slots=True)
class LiveCounts:
    """What is remembered of a stream that goes on: counters, the keys of their lanes, and events whose time is not decided."""

    pending: Pending
    ledger: Ledger
    keys: KeyCodes  # of lanes
    groups: KeyCodes
    partitions: KeyCodes  # whose events are numbered
    decided: int = LOWEST
    reported: int = LOWEST
    alive: int = 0  # lanes, groups or partitions that were left when the dead were last forgotten

    has_begun = True

    @property
    def open_times(self) -> Ints:
        """Times in all buckets of which more may be said."""
        filled = [self.reported] if self.ledger.at[N_FRESH] else []
        return np.concatenate([np.array(filled, np.int64), self.pending.events.times])

    @property
    def n_kept(self) -> int:
        return len(self.pending)

    @property
    def n_bytes(self) -> int:
        return self.ledger.n_bytes + self.pending.n_bytes

    @property
    def events(self) -> Events | None:
        return self.pending.events if len(self.pending) else None

    def take(self, batch: Events) -> LiveCounts:
        """Remember events, until their time is decided."""
        self.pending.take(batch)
        if len(batch) and self.reported == LOWEST:
            self.reported = int(batch.times[0]) - 1
        return self

    def forget(self) -> None:
        """Forget lanes in which nothing is alive, and groups and partitions without lanes."""
        ledger = self.ledger
        if self.keys.names:
            dead = ledger.dead
            while not leave(ledger.columns, np.flatnonzero(dead), HIGHEST, ledger.how, ledger.exact, *ledger.counting):
                ledger.widen()
            kept = np.flatnonzero(~dead)
            self.keys.keep(kept)
            ledger.keep_lanes(kept)
        lanes = ledger.columns.lanes[: ledger.at[N_LANES]]
        if self.groups.names and (ledger.how.news or not ledger.how.total):
            kept = np.unique(np.append(lanes[:, GROUP_OF], ledger.fresh))
            self.groups.keep(kept)
            ledger.keep_groups(kept)
        if self.partitions.names:
            kept = np.unique(lanes[:, DOMAIN_OF])
            self.partitions.keep(kept)
            ledger.keep_domains(kept)
        self.alive = self._most

    @property
    def _most(self) -> int:
        return int(self.ledger.at[[N_LANES, N_GROUPS, N_DOMAINS]].max())

    def tidy(self) -> None:
        """Forget what is dead, where it is as much as what is alive."""
        if self._most > 2 * self.alive + FEWEST:
            self.forget()
        self.ledger.shrink(0.75)

    def to_bytes(self) -> bytes:
        self.forget()
        self.ledger.shrink(0.0)
        about = {"decided": self.decided, "reported": self.reported, "last": self.pending.last, "level": self.ledger.level}
        codes = {"#keys": self.keys.table, "#groups": self.groups.table, "#partitions": self.partitions.table}
        largest = {"#largest": np.array([self.ledger.largest])}
        parts = bundle({**self.ledger.columns._asdict(), **largest, **codes})
        return write_state(self.pending.events, None, about, parts)

    @staticmethod
    def read(about: dict[str, Any], events: Events, ledger: Ledger, beside: pa.Table) -> LiveCounts:
        """What was written, into an empty ledger."""
        parts = unbundle(beside)
        for _ in range(about["level"]):
            ledger.widen()
        ledger.bear(float(parts["#largest"][0]))
        ledger.columns = Counters(**{name: parts[name] for name in Counters._fields})
        keys, groups, partitions = (KeyCodes.of(parts[name]) for name in ("#keys", "#groups", "#partitions"))
        pending = Pending(events, about["last"])
        state = LiveCounts(pending, ledger, keys, groups, partitions, about["decided"], about["reported"])
        state.alive = state._most
        return state


class Reporter(Operator[Any, Rows]):
    """Takes a stream in batches, and reports what is due."""

    def start(self) -> State:
        return State()

    def _restored(self, data: bytes) -> Any:
        return State.of(*read_state(data))

    def order(self, events: Events) -> Events:
        """Events in the order of time, and in that of the plan where it has one of its own."""
        return events

    @abstractmethod
    def number(self, events: Events, known: Ints | None) -> Ints | None:
        """Numbers of all events in their partition, of which the first ones are known; None where the window is one of time."""

    def take(self, state: Any, batch: Events) -> Any:
        events = self.order(batch if state.events is None else Events.concat([state.events, batch]))
        known = None if state.numbers is None else state.numbers[: int(np.searchsorted(state.events.times, state.decided, "right"))]
        reported = state.reported
        if reported == LOWEST and len(batch):
            reported = int(batch.times[0]) - 1
        last = max(state.last, int(batch.times[-1])) if len(batch) else state.last
        return replace(state, events=events, numbers=self.number(events, known), reported=reported, last=last)
