"""Counts of plain sequences of events by what lies in the window: what an event adds is taken back when it leaves.

The product of maps over a window (`window_product`) needs a queue of two stacks because a negation, or a list, cannot be undone.
What a single event adds can. `inside[j, i]` is the number of sequences of the slots i .. j - 1 that lie in the window:

    an event of slot j comes      inside[j + 1, i] += inside[j, i]      for all i up to j: it ends what came before it
    one of slot i leaves          inside[j, i] -= inside[j, i + 1]      for all j behind i: the oldest, it begins what is there

    matches that end now = inside[n - 1, 0]

Events leave in the order in which they came, so one that leaves late takes back what it was part of meanwhile. Counts wrap at 2^64.
How large one can be is told beside it: at most as many matches end with an event as the numbers of events of the other slots in its
window multiplied. Below 2^53 the count is exact, and whoever asks for more counts in another way.

Cost: for an event as many additions as its slot has a number when it comes, and the others when it leaves: a few nanoseconds each,
whatever the window. Memory: a small matrix.
Invariant: maps are in the order of time, and leave in it; of one time, later slots come first, and leave first.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from seqube.engine.aggregates.lanes import Maps, Samples
from seqube.engine.jit import kernel
from seqube.engine.predicates import Ints

Words = npt.NDArray[np.uint64]
Floats = npt.NDArray[np.float64]


@kernel
def count_and_undo(maps: Maps, samples: Samples, n: int, span: tuple[int, int], bell: Ints, counts: Words, bounds: Floats) -> None:
    """Add up, for every sample, the matches of n events that ended in `span` (after, upto] since the one before, and their bounds.

    Once the `bell` rings, nothing more is counted.
    """
    after, upto = span
    inside = np.empty((n, n), np.uint64)
    present = np.empty(n)  # how many events of each slot the window has
    for lane in range(len(maps.offsets) - 1):
        for i in range(n):
            for j in range(n):
                inside[i, j] = np.uint64(1 if i == j else 0)
            present[i] = 0.0
        leaving = maps.offsets[lane]
        e, last_e = samples.offsets[lane], samples.offsets[lane + 1]
        for k in range(maps.offsets[lane], maps.offsets[lane + 1]):
            if bell[0] != 0 or e == last_e:
                break
            slot = n - 1 - (maps.ranks[k] >> 1)
            if slot < n - 1:
                for i in range(slot + 1):
                    inside[slot + 1, i] += inside[slot, i]
                present[slot] += 1.0
                continue
            now = maps.times[k]
            while e < last_e and samples.times[e] < now:
                e += 1
            if e == last_e or not after < now <= upto:
                continue
            while maps.untils[leaving] <= now:
                left = n - 1 - (maps.ranks[leaving] >> 1)
                if left < n - 1:
                    for j in range(left + 1, n):
                        inside[j, left] -= inside[j, left + 1]
                    present[left] -= 1.0
                leaving += 1
            bound = 1.0
            for j in range(n - 1):
                bound *= present[j]
            counts[e] += inside[n - 1, 0]
            bounds[e] += bound
