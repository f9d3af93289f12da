"""Where events have to meet: the tasks that the pieces of a stream go to. Plain Python, no Spark.

A *bucket* is a hash of the key that a plan needs (`plan.needs`); without a key all events are in bucket 0. A bucket that is too
large for one task is cut into time slices. A slice owns the matches that end in it, and gets the events of one window before it
and, where matches wait for their end, of one window after it: every scope of a match lies strictly between a window before its last
event and a window after its first.

    slice 1 owns (-inf, 20]          slice 2 owns (20, 45]              slice 3 owns (45, inf)
    ------------------------20 |  20-W ------- 20 ------------ 45 | 45-W --- 45 -------------

Cost: routing is one pass over the times per slice of a bucket. Invariant: a match is owned by
exactly one task, and that task has every event the match binds or could be cancelled by.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from seqube.engine.instances import minus, plus
from seqube.engine.predicates import Ints
from seqube.engine.sequence import HIGHEST, LOWEST


@dataclass(frozen=True, slots=True)
class SparkTask:
    """One piece of work: the matches of one group of queries that end in (after, upto]."""

    number: int
    group: int
    after: int = LOWEST
    upto: int = HIGHEST


@dataclass(frozen=True, slots=True)
class Layout:
    """Which task the events of each bucket of a group go to. A bucket that is cut has several, in the order of time."""

    tasks: tuple[SparkTask, ...]
    of_bucket: tuple[tuple[int, ...], ...]  # positions in `tasks`
    before: int = 0  # ticks that a slice reaches back
    ahead: int = 0

    def route(self, buckets: Ints, times: Ints) -> Iterator[tuple[SparkTask, Ints]]:
        """The rows that each task gets, ascending; rows of a cut bucket may go to several."""
        owners: dict[int, list[int]] = {}
        for bucket, positions in enumerate(self.of_bucket):
            if len(positions) == 1:
                owners.setdefault(positions[0], []).append(bucket)
        target = np.full(len(self.of_bucket), -1, np.int64)
        for position, whole in owners.items():
            target[whole] = position
        wanted = target[buckets]
        order = np.argsort(wanted.astype(np.int16 if len(self.tasks) < 32_000 else np.int64), kind="stable")
        starts = np.searchsorted(wanted[order], np.arange(len(self.tasks) + 1))
        for position in sorted(owners):
            rows = order[starts[position] : starts[position + 1]]
            if len(rows):
                yield self.tasks[position], rows
        for bucket, positions in enumerate(self.of_bucket):
            if len(positions) > 1:
                inside = np.flatnonzero(buckets == bucket)
                yield from self._cut(positions, inside, times[inside])

    def _cut(self, positions: tuple[int, ...], rows: Ints, times: Ints) -> Iterator[tuple[SparkTask, Ints]]:
        for position in positions:
            task = self.tasks[position]
            lowest = minus(np.array([task.after]), self.before)[0] if task.after > LOWEST else LOWEST
            highest = plus(np.array([task.upto]), self.ahead)[0]
            chosen = rows[(times > lowest) & (times <= highest)] if task.after > LOWEST else rows[times <= highest]
            if len(chosen):
                yield task, chosen


def lay_out(
    group: int, first: int, sizes: Sequence[int], cuts: Mapping[int, Sequence[int]], n_tasks: int, before: int, ahead: int
) -> Layout:
    """Tasks for the buckets of one group, numbered from `first`: buckets are spread evenly, those in `cuts` are cut there.

    `sizes` are the rows of each bucket; a cut belongs to the slice that it ends.
    """
    tasks: list[SparkTask] = []
    of_bucket: list[tuple[int, ...]] = [()] * len(sizes)
    for bucket, bounds in cuts.items():
        edges = [LOWEST, *sorted(set(bounds)), HIGHEST]
        of_bucket[bucket] = tuple(range(len(tasks), len(tasks) + len(edges) - 1))
        tasks += [SparkTask(first + len(tasks) + i, group, after, upto) for i, (after, upto) in enumerate(pairwise(edges))]
    whole = sorted((bucket for bucket in range(len(sizes)) if bucket not in cuts), key=lambda bucket: -sizes[bucket])
    n_whole = max(1, min(n_tasks, len(whole))) if whole else 0
    loads = np.zeros(n_whole, np.int64)
    base = len(tasks)
    for bucket in whole:  # the largest first, each to the task with the least
        lightest = int(np.argmin(loads))
        loads[lightest] += sizes[bucket] + 1
        of_bucket[bucket] = (base + lightest,)
    tasks += [SparkTask(first + base + i, group) for i in range(n_whole)]
    return Layout(tuple(tasks), tuple(of_bucket), before, ahead)
