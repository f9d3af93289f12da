"""The keys of events that are at hand, as codes that are equal where the keys are: made once for all queries over the same events.

Where a key is made of columns of the events, its codes stay in the events' index: for a whole sequence, with its events sorted by
them, and, once as many events were asked about as there are, for every event. What else is joined by (values that are computed,
levels of a hierarchy, instances that are no single events) is coded where it is asked for, and so are few events among many.

Cost: coding and sorting what is asked about, the first time; then copying a code for each. Memory: that of the index.
Invariant: codes are dense or nearly so; equal codes are equal keys, and -1 is a key with a null in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from seqube.engine.instances import Batch, Instances, sorted_by_group
from seqube.engine.partitions import number_events
from seqube.engine.predicates import Evaluator, Ints, code_columns
from seqube.events import Events
from seqube.events.schema import ANY
from seqube.language.tree import Attribute, Value
from seqube.plan.physical import MatchConjunction, MatchSequence, Scan

SPARSE = 8  # of so many codes for each event asked about most belong to none: such events are coded by themselves


def whole_codes(events: Events, names: Sequence[str]) -> tuple[Ints, int]:
    """The key of every event, and how many codes there are."""
    whole, start = events.whole

    def make() -> tuple[Ints, Ints]:
        (codes,), n_codes = code_columns([[whole.column(name) for name in names]])
        return codes, np.array([n_codes])

    codes, n_codes = make() if whole.index is None else whole.index.find(("codes", *names), make)
    return codes[start : start + len(events)], int(n_codes[0])


def partition_codes(events: Events, names: Sequence[str]) -> Ints | None:
    """The partition of every event, -1 for none; None where there are no partitions."""
    return whole_codes(events, names)[0] if names else None


def event_numbers(events: Events, names: Sequence[str]) -> Ints:
    """The number of every event in its partition, -1 for none; of whole streams."""

    def make() -> tuple[Ints]:
        codes = partition_codes(events, names)
        return (
            number_events(None if codes is None else codes.copy(), len(events)),
        )  # kernels are compiled for what may be written

    (numbers,) = make() if events.index is None else events.index.find(("numbers", *names), make)
    return numbers


def named_columns(tables: Sequence[Sequence[Value]]) -> tuple[str, ...] | None:
    """The columns that are the key in all of these tables; None where it is made of something else."""
    named = {tuple(value.name if isinstance(value, Attribute) else "" for value in values) for values in tables}
    (names,) = named if len(named) == 1 else (("",),)
    return None if "" in names else names


def column_codes(events: Events, names: Sequence[str], tables: Sequence[Ints]) -> tuple[list[Ints], int] | None:
    """The keys of some rows, where those of all are known or worth it; None where whoever asks had better code his own."""
    whole, _ = events.whole
    n_rows = sum(map(len, tables))
    if whole.index is None or not whole.index.is_worth(("codes", *names), n_rows, len(whole)):
        return None
    codes, n_codes = whole_codes(events, names)
    return ([codes.take(rows, mode="clip") for rows in tables], n_codes) if n_codes <= SPARSE * n_rows else None


class Grouped(NamedTuple):
    """Slots by key and time, with the codes of each; those of what must not be there, in time; and how many codes there are."""

    slots: list[Instances]
    codes: list[Ints]
    gap_codes: list[Ints]
    n_codes: int


class KeyedSlots:
    """The keys of a sequence or a conjunction: of its slots, of what must not be there, and of the partitions around both."""

    def __init__(self, batch: Batch, evaluator: Evaluator, partition_by: Sequence[str]) -> None:
        self._batch, self._evaluator, self._partition_by = batch, evaluator, tuple(partition_by)

    def codes(
        self, node: MatchSequence | MatchConjunction, slots: Sequence[Instances], gaps: Sequence[Instances] = ()
    ) -> tuple[list[Ints], list[Ints], int]:
        """The key of every slot instance and gap instance as a code: equal codes may be joined. -1 where a key is null."""
        batch, asked = self._batch, _asked_of(node, gaps)
        if not node.key and batch.partitions is None:
            return [np.zeros(len(slot), np.int64) for slot in slots], [np.zeros(len(gap), np.int64) for gap in gaps], 1
        tables = [*((slot, [column[i] for column in node.key]) for i, slot in enumerate(slots)), *asked]
        names = self._names([values for _, values in tables])
        known = None
        if names is not None and all(table.are_events for table, _ in tables):
            known = column_codes(batch.events, names, [table.last_rows for table, _ in tables])
        codes, n_codes = known or code_columns([self._columns(table, values) for table, values in tables])
        of_keyed = iter(codes[len(slots) :])
        keyed = [gap.key is not None for gap in node.gaps] if isinstance(node, MatchSequence) else []
        gap_codes = [
            next(of_keyed) if is_keyed else batch.partitions_of(gap.last_rows) for gap, is_keyed in zip(gaps, keyed, strict=True)
        ]
        return codes[: len(slots)], gap_codes, n_codes

    def grouped(self, node: MatchSequence, slots: list[Instances], gaps: Sequence[Instances]) -> Grouped:
        """The slots sorted by key; without one, an instance joins nothing, but for that of a single slot."""
        names = self._names([[column[i] for column in node.key] for i in range(len(slots))])
        index = self._batch.events.index
        if index is None or not names or gaps or len(slots) == 1:
            return self._sorted(node, slots, gaps)
        types = [self._types(part, found) for part, found in zip(node.slots, slots, strict=True)]
        if None in types:
            return self._sorted(node, slots, gaps)

        def make() -> tuple[Ints, ...]:
            found = self._sorted(node, slots, ())
            return (*(slot.last_rows for slot in found.slots), *found.codes, np.array([found.n_codes]))

        *found, n_codes = index.find(("sorted", names, *types), make)
        rows, codes = found[: len(slots)], found[len(slots) :]
        by_key = [Instances(dict.fromkeys(slot.rows, own), own, own) for own, slot in zip(rows, slots, strict=True)]
        return Grouped(by_key, codes, [], int(n_codes[0]))

    def _sorted(self, node: MatchSequence, slots: list[Instances], gaps: Sequence[Instances]) -> Grouped:
        codes, gap_codes, n_codes = self.codes(node, slots, gaps)
        codes = [np.where(code < 0, n_codes, code) if len(slots) == 1 else code for code in codes]
        return Grouped(*sorted_by_group(slots, codes, drop_null=len(slots) > 1), gap_codes, n_codes)

    def _names(self, tables: Sequence[Sequence[Value]]) -> tuple[str, ...] | None:
        names = named_columns(tables)
        return None if names is None else (*self._partition_by, *names)

    def _types(self, part: object, found: Instances) -> frozenset[str] | None:
        """The types of all of whose events these are; None where some were left out."""
        if not isinstance(part, Scan) or part.filters:
            return None
        events = self._batch.events
        n_events = len(events) if ANY in part.types else events.statistics.count(part.types)
        return part.types if len(found) == n_events else None

    def _columns(self, table: Instances, values: Sequence[Value]) -> list[pa.Array]:
        columns = (self._evaluator.array(value, table.rows, len(table)) for value in values)
        return [*self._batch.partition_column(table.last_rows), *columns]


def _asked_of(node: MatchSequence | MatchConjunction, gaps: Sequence[Instances]) -> list[tuple[Instances, Sequence[Value]]]:
    """What must not be there with a key of its own, and that key."""
    if not isinstance(node, MatchSequence):
        return []
    return [(found, gap.key) for gap, found in zip(node.gaps, gaps, strict=True) if gap.key is not None]
