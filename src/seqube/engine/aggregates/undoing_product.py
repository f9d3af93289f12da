"""Counts of plain sequences of events as products of maps that can be undone: what has left the window is divided out.

The product of maps over a window (`window_product`) needs a queue of two stacks because a negation, or a list, cannot be undone.
The map of a single event can: it adds one entry to the next, so its inverse subtracts it. So two products are kept, that of all
maps so far and the inverse of the product of those that have left, and neither is ever begun anew:

    P    all maps so far: an event of slot i adds column i to column i + 1
    Q    the inverse of those that have left: one of slot i that leaves subtracts row i + 1 from row i

    matches that end now = row 0 of Q . column n - 1 of P

Both grow far beyond what a double holds, so all of it is modulo 2^64, by wrapping. How large a count can be is told beside it: at
most as many matches end with an event as the numbers of events of the other slots in its window multiplied. Below 2^53 the count is
exact, and whoever asks for more counts in another way.

Cost: for an event as many additions as its slot has a number when it comes, the others when it leaves, and n products for an end: a
few nanoseconds each, whatever the window. Memory: two small matrices.
Invariant: maps are in the order of time, and leave in it.
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
    product, undone = np.empty((n, n), np.uint64), np.empty((n, n), np.uint64)  # of the product, a column is a row
    present = np.empty(n)  # how many events of each slot the window has
    for lane in range(len(maps.offsets) - 1):
        for i in range(n):
            for j in range(n):
                product[i, j] = undone[i, j] = np.uint64(1 if i == j else 0)
            present[i] = 0.0
        leaving = maps.offsets[lane]
        e, last_e = samples.offsets[lane], samples.offsets[lane + 1]
        for k in range(maps.offsets[lane], maps.offsets[lane + 1]):
            if bell[0] != 0 or e == last_e:
                break
            slot = n - 1 - (maps.ranks[k] >> 1)
            if slot < n - 1:
                for j in range(slot + 1):
                    product[slot + 1, j] += product[slot, j]
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
                        undone[left, j] -= undone[left + 1, j]
                    present[left] -= 1.0
                leaving += 1
            count, bound = np.uint64(0), 1.0
            for j in range(n):
                count += undone[0, j] * product[n - 1, j]
            for j in range(n - 1):
                bound *= present[j]
            counts[e] += count
            bounds[e] += bound
