"""What an event must be to fill a slot, for a workload: labels as numbers, and the events that bear them, found once for all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from seqube.engine.aggregates.aggregation import distinct
from seqube.engine.predicates import Evaluator, Ints
from seqube.events import Events
from seqube.events.batch import Codes
from seqube.events.schema import is_of
from seqube.plan.sharing import SharingPlan, SlotLabel, SlotPattern


class Labelled(NamedTuple):
    """Events as loops see them: when they come, the labels of every type, and which events bear those that ask for more."""

    times: Ints
    types: Codes
    table: Ints
    masks: npt.NDArray[np.bool_]


def label_numbers(sharing: SharingPlan) -> dict[SlotLabel, int]:
    """All labels of a workload, numbered."""
    labels = (label for query in sharing.queries.values() for label in query.pattern)
    return {label: number for number, label in enumerate(dict.fromkeys(labels))}


class Labels:
    """The labels of a workload as numbers, and which events bear them."""

    def __init__(self, numbers: Mapping[SlotLabel, int], events: Events) -> None:
        self.numbers = numbers
        evaluator = Evaluator(events)
        self._times, self._types = events.times, events.types
        self._moments: dict[SlotLabel, Ints] = {}
        self._rows: list[Ints] = []
        for label in self.numbers:
            rows = events.rows_of(label.types)
            self._rows.append(rows[evaluator.true(label.filters, {"": rows}, len(rows))] if label.filters else rows)
        # Labels of every event, one behind the other: plain ones by its type, those with predicates by its row.
        self.masks = np.zeros((len(self.numbers), len(events) if any(label.filters for label in self.numbers) else 0), np.bool_)
        of_type: list[list[int]] = [[] for _ in events.type_names]
        for label, number in self.numbers.items():
            for code, name in enumerate(events.type_names):
                if is_of(name, label.types):
                    of_type[code].append(number)
            if self.masks.shape[1]:
                self.masks[number, self._rows[number]] = True
        width = max(map(len, of_type), default=0)
        self.table = np.full((len(of_type), max(width, 1)), -1, np.int64)
        for code, found in enumerate(of_type):
            self.table[code, : len(found)] = found

    @property
    def events(self) -> Labelled:
        return Labelled(self._times, self._types, self.table, self.masks)

    def moments(self, label: SlotLabel) -> Ints:
        """The distinct times at which events of a label come."""
        if label not in self._moments:
            self._moments[label] = distinct(self._times[self._rows[self.numbers[label]]])
        return self._moments[label]

    def offsets(self, patterns: Iterable[SlotPattern]) -> Ints:
        """Where the counts of each pattern begin, one for every moment of its last label, and where they all end."""
        sizes = [len(self.moments(pattern[-1])) for pattern in patterns]
        return np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)

    def most(self, label: SlotLabel, window: int, before: Ints) -> int:
        """The most events of a label that are inside a window at once, with those of one more timestamp; `before` came before."""
        times = np.concatenate([before, self._times[self._rows[self.numbers[label]]]])
        if not len(times):
            return 0
        return int((np.searchsorted(times, times, "right") - np.searchsorted(times, times - window, "left")).max())


def lists(lists: Sequence[Sequence[int]]) -> tuple[Ints, Ints]:
    """Lists behind each other, and where each begins."""
    offsets = np.concatenate(([0], np.cumsum([len(items) for items in lists]))).astype(np.int64)
    return offsets, np.array([item for items in lists for item in items], np.int64)
