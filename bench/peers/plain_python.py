"""Plain Python: a textbook matcher in the manner of SASE, as one would write it without an engine at hand.

Paper (Wu, Diao, Rizvi: High-Performance Complex Event Processing over Streams) | Here
------------------------------------------------------------------------------- | ----
active instance stacks, one per state                                           | `stacks[slot]`
RIP pointer, the most recent instance in the previous stack                     | `Instance.below`
sequence construction, from the last state back to the first                    | `_construct`
partitioned stacks (PAIS) for an equality on all components                     | a `Stacks` per id
window pushed down into the stacks                                              | `_expire`
negation after construction                                                     | `_is_free`, a binary search
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from bench.peers import Answer, Peer, Task, answer_of


class Event(NamedTuple):
    row: int
    ts: int
    type: str
    id: int


class Instance(NamedTuple):
    """An event on a stack, and how many instances had ever been pushed on the stack below when it came."""

    event: Event
    below: int


@dataclass
class Stack:
    """Instances in order of arrival; those before `removed` have left the window."""

    instances: deque[Instance]
    removed: int = 0

    @property
    def pushed(self) -> int:
        return self.removed + len(self.instances)


class Matcher:
    """One query over a stream of events."""

    def __init__(self, task: Task) -> None:
        self._slot_of = {name: slot for slot, name in enumerate(task.positives)}
        self._n_slots = len(task.positives)
        self._window = task.window
        self._keyed = task.keyed
        self._negated = None if task.negated is None else task.types[task.negated]
        self._gap = task.negated or 0  # the negation lies before this positive slot
        self._forbidden: list[int] = []
        self._stacks: dict[Any, list[Stack]] = defaultdict(lambda: [Stack(deque()) for _ in range(self._n_slots - 1)])

    def feed(self, event: Event) -> Iterator[tuple[Event, ...]]:
        """The matches that this event completes."""
        if event.type == self._negated:
            self._forbidden.append(event.ts)
            return
        slot = self._slot_of.get(event.type)
        if slot is None:
            return
        stacks = self._stacks[event.id if self._keyed else None]
        self._expire(stacks, event.ts - self._window)
        if slot and not stacks[slot - 1].instances:
            return
        instance = Instance(event, stacks[slot - 1].pushed if slot else 0)
        if slot < self._n_slots - 1:
            stacks[slot].instances.append(instance)
        else:
            yield from self._construct(stacks, slot, instance)

    def _expire(self, stacks: list[Stack], oldest: int) -> None:
        for stack in stacks:
            while stack.instances and stack.instances[0].event.ts <= oldest:
                stack.instances.popleft()
                stack.removed += 1

    def _construct(self, stacks: list[Stack], slot: int, instance: Instance) -> Iterator[tuple[Event, ...]]:
        """Every sequence that ends with this instance, walking down the stacks."""
        event = instance.event
        if slot == 0:
            yield (event,)
            return
        stack = stacks[slot - 1]
        for place in range(instance.below - stack.removed):
            lower = stack.instances[place]
            if lower.event.ts < event.ts and (slot != self._gap or self._is_free(lower.event.ts, event.ts)):
                for match in self._construct(stacks, slot - 1, lower):
                    yield (*match, event)

    def _is_free(self, after: int, before: int) -> bool:
        """Whether no forbidden event lies strictly between the two."""
        if self._negated is None:
            return True
        place = bisect_right(self._forbidden, after)
        return place == len(self._forbidden) or self._forbidden[place] >= before


class Adapter(Peer):
    name = "plain Python"
    about = "a textbook SASE matcher (active instance stacks) in Python, one thread, events as named tuples"
    largest = {"c": 200_000, "d": 50_000}  # noqa: RUF012

    def prepare(self, events: pa.Table) -> None:
        columns = [events.column(name).to_pylist() for name in Event._fields]
        self._events = [Event(*values) for values in zip(*columns, strict=True)]

    def run(self, task: Task) -> list[tuple[int, ...]]:
        matcher = Matcher(task)
        return [tuple(event.row for event in match) for event in self._events for match in matcher.feed(event)]

    def answer(self, outcome: list[tuple[int, ...]]) -> Answer:
        return answer_of(np.array(outcome, np.int64).T if outcome else [np.empty(0, np.int64)])
