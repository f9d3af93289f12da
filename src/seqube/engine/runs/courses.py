"""The course that runs go along: the events that some part could take, in the order in which a run meets them, and its choices.

A *place* is the number of an event on the course. Events that can stand in one run (of a partition and, for NEXT, of a key) lie
behind each other, so that a run never leaves its group; an event that no part takes has no place. What a run asks of an event is
told by its part alone: a list of choices, each a part and the variable by which it takes the event, in the order in which they are
tried.

Cost: a pass over the events, and a sort of those with a place where there are groups.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from seqube.engine.bindings import Ints, Mask
from seqube.engine.instances import Batch, Instances, order_by_code, plus
from seqube.engine.predicates import Evaluator, code_columns
from seqube.language.tree import Attribute
from seqube.plan.physical import MatchRun

NO_PLACE = -1  # no part yet, or no event before
ANY_NUMBER = 1 << 60  # events that a part takes at most, where no number is given


@dataclass(frozen=True, slots=True)
class Runs:
    """Runs as instances; which of them are matches, and the number of the last part that each has reached (from 1)."""

    instances: Instances
    are_matches: Mask
    reached: Ints


@dataclass(frozen=True, slots=True)
class Choice:
    """The event in a part, by one of its variables; or, without a variable, the end of the run."""

    part: int
    variable: str | None = None


class RunCourse:
    """One NEXT or STRICT over one batch. `found` are the rows of each variable."""

    def __init__(self, node: MatchRun, batch: Batch, evaluator: Evaluator, found: list[Ints]) -> None:
        self.node, self.batch, self.evaluator = node, batch, evaluator
        self.steps, self.names = node.steps, node.binds
        self.number = {name: n for n, name in enumerate(self.names)}
        self.part_of = {scan.variable: n for n, step in enumerate(self.steps) for scan in step.scans}
        self.repeated = {scan.variable: step.is_single for step in self.steps if step.is_repeated for scan in step.scans}
        takes = np.zeros((len(self.names), len(batch.times)), np.bool_)
        for mask, each in zip(takes, found, strict=True):
            mask[each] = True
        rows = np.flatnonzero(takes.any(axis=0))
        groups = self._groups(rows)
        if len(groups) and groups.min() != groups.max():
            order = order_by_code(groups)
            rows, groups = rows[order], groups[order]
        self.rows, self.groups = rows, groups
        self.takes = takes[:, rows]  # whether each variable takes the event at a place
        self.clocks = batch.clocks[rows]
        self.closed = plus(self.clocks, batch.window)
        self.stop = np.searchsorted(groups, groups, "right")
        times = batch.times[rows]
        same_time = np.zeros(len(rows), np.bool_)  # as the place after it, in one group
        same_time[:-1] = (np.diff(times) == 0) & (np.diff(groups) == 0)
        ends = np.flatnonzero(~same_time) + 1
        self.later = ends[np.searchsorted(ends, np.arange(len(rows)), "right")] if len(rows) else np.empty(0, np.int64)

    def __len__(self) -> int:
        return len(self.rows)

    def fits(self, variable: str) -> Mask:
        """Which places have an event that a variable takes."""
        mask: Mask = self.takes[self.number[variable]]
        return mask

    def _groups(self, rows: Ints) -> Ints:
        """Events that can stand in one run: of a partition and, unless others between them matter, of a key."""
        keys = () if self.node.is_strict else self.node.key
        if self.batch.partitions is None and not keys:
            return np.zeros(len(rows), np.int64)
        columns = [] if self.batch.partitions is None else [pa.array(self.batch.partitions[rows])]
        columns += [values_of(self.evaluator, key, rows) for key in keys]
        (codes,), n_codes = code_columns([columns])
        return np.where(codes < 0, n_codes + np.arange(len(codes)), codes)

    def follows(self) -> Mask:
        """Whether each place follows the one before without an event between them, and agrees with it on the key."""
        positions = self.batch.positions
        assert positions is not None
        follows = np.zeros(len(self), np.bool_)
        follows[1:] = (np.diff(self.groups) == 0) & (np.diff(positions[self.rows]) == 1)
        if self.node.key:
            keys = [values_of(self.evaluator, key, self.rows) for key in self.node.key]
            (codes,), _ = code_columns([keys])
            follows[1:] &= (np.diff(codes) == 0) & (codes[1:] >= 0)
        return follows

    # ------------------------------------------------------------ choices

    def choices(self, part: int) -> list[Choice]:
        """What an event can be for a run of NEXT in a part, in the order in which it is tried."""
        here = [Choice(part, scan.variable) for scan in self.steps[part].scans] if part != NO_PLACE else []
        further = []
        for to in range(part + 1, len(self.steps)):
            further += [Choice(to, scan.variable) for scan in self.steps[to].scans]
            if self.steps[to].least > 0:
                break
        return further + here if part != NO_PLACE and self.steps[part].is_reluctant else here + further

    def preferred(self, part: int) -> list[Choice]:
        """The choices of the regular expression of STRICT in a part, the preferred ones first."""

        def leave(to: int) -> list[Choice]:
            if to == len(self.steps):
                return [Choice(to)]
            step = self.steps[to]
            take = [Choice(to, scan.variable) for scan in step.scans]
            if step.least > 0:
                return take
            return leave(to + 1) + take if step.is_reluctant else take + leave(to + 1)

        if part == NO_PLACE:
            return leave(0)
        here = [Choice(part, scan.variable) for scan in self.steps[part].scans]
        return leave(part + 1) + here if self.steps[part].is_reluctant else here + leave(part + 1)


def values_of(evaluator: Evaluator, name: str, rows: Ints) -> pa.Array:
    """An attribute of events."""
    return evaluator.array(Attribute("event", name), {"event": rows}, len(rows))
