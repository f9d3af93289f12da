"""What an event must be to fill a slot, for patterns that lie in the same lanes: events as maps, laid out once for all of them.

A map is an event that bears a label: one that fills slots, or one that must not come. An event of several labels is several maps. A
lane has the events of one key, in the order of time; without a key there is one lane for all.

Cost: a pass over the events and, with a key, one more to put them in lanes: linear, whatever the number of patterns.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from seqube.engine.jit import kernel
from seqube.engine.partitions import KeyCodes
from seqube.engine.predicates import Evaluator, Ints, Mask
from seqube.engine.sequence import by_code
from seqube.events import Events
from seqube.events.batch import Codes
from seqube.events.schema import is_of
from seqube.plan.sharing import SlotPattern


class LabelMaps(NamedTuple):
    """LabelMaps by (lane, time): those of `lanes[i]` begin at `offsets[i]`."""

    lanes: Ints
    offsets: Ints
    times: Ints
    labels: Ints
    rows: Ints

    def only(self, chosen: Mask) -> LabelMaps:
        """Those of some labels, in all lanes."""
        kept = chosen[self.labels]
        if kept.all():
            return self
        offsets = np.concatenate(([0], np.cumsum(kept)))[self.offsets]
        return LabelMaps(self.lanes, offsets, self.times[kept], self.labels[kept], self.rows[kept])

    def over(self, lanes: Ints) -> LabelMaps:
        """The same with these lanes, which ascend and hold all that have maps."""
        sizes, own = np.zeros(len(lanes), np.int64), np.diff(self.offsets)
        sizes[np.searchsorted(lanes, self.lanes[own > 0])] = own[own > 0]
        return self._replace(lanes=lanes, offsets=np.concatenate(([0], np.cumsum(sizes))).astype(np.int64))


class LabelLayout:
    """The labels of patterns as numbers, and the keys of their lanes, which go on from batch to batch."""

    def __init__(self, patterns: Iterable[SlotPattern], key: tuple[str, ...]) -> None:
        labels = [label for pattern in patterns for label in pattern]
        self.filling = {kind: i for i, kind in enumerate(dict.fromkeys(label.kind for label in labels))}
        absent = dict.fromkeys(kind for label in labels for kind in sorted(label.absent, key=str))
        self.cancelling = {kind: len(self.filling) + i for i, kind in enumerate(absent)}
        self._labels = [*self.filling, *self.cancelling]
        self._types = frozenset().union(*(label.types for label in self._labels))
        self.keys = KeyCodes(key) if key else None
        self.lane_of = np.empty(0, np.int64)  # of the rows that were laid out last

    @property
    def n_labels(self) -> int:
        return len(self._labels)

    @property
    def n_lanes(self) -> int:
        return 1 if self.keys is None else len(self.keys)

    def lay_out(self, events: Events) -> LabelMaps:
        """The maps of new events."""
        rows, labels = bear_labels(events.types, *self._table(events))
        if self.keys is None:
            return LabelMaps(np.zeros(1, np.int64), np.array([0, len(rows)]), events.times[rows], labels, rows)
        keyed = events.rows_of(self._types)
        self.lane_of = np.full(len(events), -1, np.int64)
        self.lane_of[keyed] = self.keys.code([events.column(name).take(pa.array(keyed)) for name in self.keys.names])
        order, offsets = by_code(self.lane_of[rows], self.n_lanes)
        lanes = np.flatnonzero(np.diff(offsets))
        rows = rows[order]
        return LabelMaps(lanes, np.append(offsets[lanes], offsets[-1]), events.times[rows], labels[order], rows)

    def _table(self, events: Events) -> tuple[Ints, Mask]:
        """The labels of every type, and which events bear those that ask for more."""
        evaluator = Evaluator(events)
        filtered = any(label.filters for label in self._labels)
        masks = np.ones((self.n_labels, len(events) if filtered else 0), np.bool_)
        of_type: list[list[int]] = [[] for _ in events.type_names]
        for number, label in enumerate(self._labels):
            for code, name in enumerate(events.type_names):
                if is_of(name, label.types):
                    of_type[code].append(number)
            if label.filters:
                rows = events.rows_of(label.types)
                masks[number] = False
                masks[number, rows[evaluator.true(label.filters, {"": rows}, len(rows))]] = True
        table = np.full((len(of_type), max(map(len, of_type), default=0) + 1), -1, np.int64)
        for code, found in enumerate(of_type):
            table[code, : len(found)] = found
        return table, masks


@kernel
def bear_labels(types: Codes, table: Ints, masks: npt.NDArray[np.bool_]) -> tuple[Ints, Ints]:
    """Rows with each of their labels, in the order of rows."""
    masked = masks.shape[1] > 0
    size = 0
    for row in range(len(types)):
        i = 0
        while table[types[row], i] >= 0:
            i += 1
        size += i
    rows, labels = np.empty(size, np.int64), np.empty(size, np.int64)
    n = 0
    for row in range(len(types)):
        i = 0
        while table[types[row], i] >= 0:
            label = table[types[row], i]
            i += 1
            if not masked or masks[label, row]:
                rows[n], labels[n] = row, label
                n += 1
    return rows[:n], labels[:n]


def lists(lists: Iterable[Iterable[int]]) -> tuple[Ints, Ints]:
    """Lists behind each other, and where each begins."""
    found = [list(items) for items in lists]
    offsets = np.concatenate(([0], np.cumsum([len(items) for items in found]))).astype(np.int64)
    return offsets, np.array([item for items in found for item in items], np.int64)
