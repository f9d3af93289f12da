"""Lanes by the types at several slots: an event that fills one of them lies in a lane for every choice of types at the others.

    SEQ(A a, B b) GROUP BY a.type, b.type, where A is A1 or A2 and B is B1 or B2

    combination     0: A1 B1    1: A1 B2    2: A2 B1    3: A2 B2
    an A1 as a      lies in 0 and 1
    a B2 as b       lies in 1 and 3
    a negated C     lies in all of them

So a combination's lane counts the matches with these types, and no others: whoever asks for coarser types adds up.

Cost: of an event, as many maps as there are combinations of types at the other slots. Invariant: combinations have the same numbers
for the same plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod

import numpy as np
import pyarrow as pa

from seqube.engine.aggregates.automaton import slot_rank
from seqube.engine.predicates import Ints
from seqube.events import Events
from seqube.plan.chains import EventChain


class Combinations:
    """The types that some slots of a chain can have together, numbered."""

    def __init__(self, chain: EventChain, slots: Sequence[int]) -> None:
        self.names = [sorted(chain.slots[slot].types) for slot in slots]
        self._size = prod(map(len, self.names))
        self._columns = [pa.array(column, pa.string()) for column in zip(*product(*self.names), strict=True)]
        places = np.stack(np.unravel_index(np.arange(self._size), [len(names) for names in self.names]))
        # For every slot and type, then for whatever is no such event: the numbers of the combinations, one list behind the other.
        lists = [np.flatnonzero(places[at] == code) for at, names in enumerate(self.names) for code in range(len(names))]
        lists.append(np.arange(self._size))
        self._numbers = np.concatenate(lists)
        self._sizes = np.array([len(each) for each in lists])
        self._starts = np.cumsum(self._sizes) - self._sizes
        self._ranks = [slot_rank(len(chain.slots), slot) for slot in slots]

    def spread(self, events: Events, ranks: Ints, rows: Ints) -> tuple[Ints, Ints]:
        """Every map once for each combination that it belongs to: which map, and the number of the combination."""
        lists, first = np.full(len(ranks), len(self._sizes) - 1), 0
        for names, rank in zip(self.names, self._ranks, strict=True):
            codes = {name: first + code for code, name in enumerate(names)}
            list_of = np.array([codes.get(name, -1) for name in events.type_names], np.int64)
            ours = np.flatnonzero(ranks == rank)
            lists[ours] = list_of[events.types[rows[ours]]]
            first += len(names)
        sizes = self._sizes[lists]
        which = np.repeat(np.arange(len(ranks)), sizes)
        within = np.arange(len(which)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        return which, self._numbers[self._starts[lists][which] + within]

    def found(self, numbers: Ints) -> tuple[Ints, Ints]:
        """Which combinations there are among these, each once, and the place of each among those."""
        used = np.flatnonzero(np.bincount(numbers, minlength=self._size))
        places = np.empty(self._size, np.int64)
        places[used] = np.arange(len(used))
        return used, places[numbers]

    def types(self, numbers: Ints) -> list[pa.Array]:
        """The types of combinations, a column for each slot."""
        wanted = pa.array(numbers)
        return [column.take(wanted) for column in self._columns]
