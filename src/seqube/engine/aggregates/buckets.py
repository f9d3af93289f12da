"""Buckets of time, for EMIT PER: where the bucket of a moment begins and ends, by the clocks of the time column's own zone.

Buckets begin at the multiples of their length since 1970 by these clocks, so a day begins at local midnight. Where clocks change:

    set on     1:00        3:00  4:00       what would begin at 2:00 begins with the change; a day has 23 hours
    set back   1:00  2:00  2:00  3:00       a bucket shorter than a day begins twice; a day begins once, and has 25 hours

Cost: a look at each time and, in a zone, three questions to its table for every bucket that has one.
Invariant: buckets follow each other without a hole; a later moment is in no earlier bucket.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from seqube.engine.instances import plus
from seqube.engine.predicates import Ints
from seqube.engine.sequence import LOWEST

DAY = 86_400_000_000  # in microseconds, which times with a zone are in


@dataclass(frozen=True, slots=True)
class TimeBuckets:
    """Buckets of a length in ticks."""

    length: int
    zone: str | None = None

    @staticmethod
    def of(length: int, kind: pa.DataType) -> TimeBuckets:
        """Buckets of times in a column of this type."""
        return TimeBuckets(length, kind.tz if pat.is_timestamp(kind) and kind.tz not in ("UTC", "Etc/UTC") else None)

    def starts(self, times: Ints) -> Ints:
        """Where the buckets of these times begin. They ascend."""
        return self._bounds(times)[0]

    def ends(self, times: Ints) -> Ints:
        """Where the next buckets begin."""
        return self._bounds(times)[1]

    def _bounds(self, times: Ints) -> tuple[Ints, Ints]:
        if self.zone is None:
            starts = self._floor(times)
            starts = np.where(starts > times, LOWEST, starts)  # before the first multiple that there is
            return starts, plus(starts, self.length)
        offsets = self._offsets(times)
        floors = self._floor(times + offsets)
        new = np.ones(len(times), np.bool_)
        new[1:] = (floors[1:] != floors[:-1]) | (offsets[1:] != offsets[:-1])
        firsts = np.flatnonzero(new)
        starts, ends = self._by_clocks(times[firsts], floors[firsts], offsets[firsts])
        sizes = np.diff(np.append(firsts, len(times)))
        return np.repeat(starts, sizes), np.repeat(ends, sizes)

    def _floor(self, times: Ints) -> Ints:
        floors: Ints = times - times % self.length
        return floors

    def _offsets(self, times: Ints) -> Ints:
        """What clocks show beyond UTC at these times."""
        moments = pa.array(times).cast(pa.timestamp("us", self.zone))
        offsets: Ints = np.asarray(pc.local_timestamp(moments).cast(pa.int64())) - times
        return offsets

    def _by_clocks(self, times: Ints, floors: Ints, offsets: Ints) -> tuple[Ints, Ints]:
        """The bounds of buckets, from what clocks show at some time in them, rounded down."""
        if self.length >= DAY:
            starts, ends, later = (self._when(floors + k * self.length) for k in range(3))
            shown_twice = ends <= times  # the bucket began when clocks showed its start for the first time
            return np.where(shown_twice, ends, starts), np.where(shown_twice, later, ends)
        starts, ends = floors - offsets, floors + self.length - offsets
        before, after = self._offsets(starts), self._offsets(ends)
        for k in np.flatnonzero((before != after) & ((before != offsets) | (after != offsets))).tolist():
            change = self._change(int(starts[k]), int(ends[k]), int(before[k]))
            shown, next_shown = change - 1 + int(before[k]), change + int(after[k])
            skips = next_shown > shown and next_shown // self.length > shown // self.length
            begins = skips or next_shown % self.length == 0
            if times[k] < change:
                ends[k] = change if begins else -(-next_shown // self.length) * self.length - int(after[k])
            else:
                starts[k] = change if begins else shown // self.length * self.length - int(before[k])
        return starts, ends

    def _when(self, shown: Ints) -> Ints:
        """When clocks show this for the first time; where they skip it, when they do so."""
        local = pa.array(shown).cast(pa.timestamp("us"))
        moments = pc.assume_timezone(local, self.zone, ambiguous="earliest", nonexistent="latest")
        found: Ints = np.asarray(moments.cast(pa.int64()))
        return found

    def _change(self, low: int, high: int, before: int) -> int:
        """The moment in (low, high] at which clocks change."""
        while high - low > 1:
            middle = (low + high) // 2
            same = int(self._offsets(np.array([middle]))[0]) == before
            low, high = (middle, high) if same else (low, middle)
        return high
