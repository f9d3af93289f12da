"""The events of each partition, among those that a stream keeps: what is evaluated again is what lies where something is new.

Cost of a step: the new events, and those kept of the partitions that they are in.
Invariant: an event that is kept and in a partition is found by it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from seqube.engine.chained import Chained
from seqube.engine.kept import Kept
from seqube.engine.partitions import NOWHERE
from seqube.engine.predicates import Ints
from seqube.engine.sequence import HIGHEST, LOWEST
from seqube.events import Events


class PartitionMembers:
    """Rows of what is kept, by partition."""

    def __init__(self, partition_by: Sequence[str], kept: Kept) -> None:
        self._names = tuple(partition_by)
        self._rows = Chained(1, len(self._names))
        if len(kept):
            self.append(kept.events, kept.head)

    @property
    def n_bytes(self) -> int:
        return self._rows.n_bytes

    @property
    def n_codes(self) -> int:
        return self._rows.n_codes

    def append(self, events: Events, first: int) -> None:
        """More events, all of which are kept, the first as this row."""
        rows = first + np.arange(len(events))[None, :]
        self._rows.append(rows, events.times, events.times, self._code(events))

    def beside(self, pieces: Sequence[Events]) -> Ints:
        """The rows of all events in the partitions that these events are in, in the order of time."""
        codes = np.unique(np.concatenate([self._code(events) for events in pieces]))
        codes = codes[codes != NOWHERE]
        lows = np.full(len(codes), LOWEST)
        found = self._rows.find(codes, lows, np.full(len(codes), HIGHEST))
        out = np.empty((1, int(found[1].sum())), np.int64)
        self._rows.join(np.empty((0, len(codes)), np.int64), lows, found, np.zeros(1, np.int64), out)
        return np.sort(out[0])

    def drop(self, upto: int) -> None:
        """Forget what has this time or an earlier one."""
        self._rows.drop(upto)

    def _code(self, events: Events) -> Ints:
        assert self._rows.keys is not None
        return self._rows.keys.code([events.column(name) for name in self._names])
