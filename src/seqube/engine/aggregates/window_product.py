"""Aggregates of a sequence as a product of maps over a sliding window: cost per event in the pattern's length, whatever the window.

The counters of all prefixes form a row (1, c1, .. cn): c_i counts the ways to fill the first i slots. An event of slot i adds entry
i to entry i + 1, a negated event at position p sets entry p to zero. Both are linear maps, so a window's events form a product, and
`c_n` is its entry (0, n). A window slides over a product as a queue of two stacks:

    back    events that came after the last turn: one matrix, multiplied from the right as they come (a column is added to another)
    front   events before it: for every start among them, the first row of the product from there to the turn

    value = front row of the oldest live start . last column of the back        (the unit row, when the front is empty)

When the front is used up, the back is turned: it is multiplied up once from its end, and its rows are kept. Only starts leave the
window (what else leaves matters to no live start), so only starts have rows.

Weights make the same product into sums (the value of a variable at its slot, one elsewhere), and the semiring (min, +) into
extremes. Ties: within one timestamp maps are applied from the last slot to the first, each negation before the slot on its left, so
that no event sees another of its own time. A leading negation at time a sets entry 0 to zero: no start behind it counts while it is
in the window. Since a match looks back from its own end, ends before a + W are void for those starts even later: a second map at
a + W sets entry n to zero, at a moment when no start before a is left.

Cost: O(n) per event, amortised; memory: a row per start in the window.
Invariant: every event is multiplied into the back once and into the front at most once.

    Paper (A-Seq)                  | Here
    prefix counter (PreCntr)       | a row of the product
    update rules i and ii          | the map of a slot
    recounting rule (RR)           | the map of a negation
    expiration of START            | leaving the front
"""

from __future__ import annotations

from typing import Any

import numpy as np

from seqube.engine.aggregates.lanes import Maps, Numbers, Ring, Samples, plus, times
from seqube.engine.jit import inner_kernel, kernel
from seqube.engine.predicates import Ints
from seqube.engine.sequence import HIGHEST


@inner_kernel
def _identity(matrix: Numbers, one: Any, zero: Any) -> None:
    for i in range(matrix.shape[0]):
        for j in range(matrix.shape[0]):
            matrix[i, j] = zero
        matrix[i, i] = one


@inner_kernel
def _turn(
    maps: Maps,
    weights: Numbers | None,
    ring: Ring,
    n_slots: int,
    part: tuple[int, int, int],
    own: bool,
    rows: Numbers,
    untils: Ints,
    product: Numbers,
) -> int:
    """Multiply up a part (begin, end, moment) of the maps from its end; keep and count rows of starts that live at `moment`."""
    begin, end, moment = part
    one, zero, tropical, modulus = ring
    _identity(product, one, zero)
    top = 0
    for k in range(end - 1, begin - 1, -1):
        rank = maps.ranks[k]
        if rank & 1:
            slot = n_slots - 1 - (rank >> 1)
            if slot == 0 and maps.untils[k] <= moment and not own:
                break  # this start has left, and so have all before it
            for j in range(slot + 1, n_slots + 1):
                term = product[slot + 1, j]
                if weights is not None:
                    term = times(term, weights[k], tropical, modulus)
                product[slot, j] = plus(product[slot, j], term, tropical, modulus)
                if own and slot == 0:
                    rows[top, j] = term
            if slot == 0:
                if not own:
                    for j in range(n_slots + 1):
                        rows[top, j] = product[0, j]
                untils[top] = maps.untils[k]
                top += 1
        else:
            position = n_slots - (rank >> 1)
            for j in range(position, n_slots + 1):
                product[position, j] = zero
            if position == 0 and not own:
                if maps.untils[k] <= moment:
                    break
                for j in range(n_slots + 1):
                    rows[top, j] = zero
                untils[top] = maps.untils[k]
                top += 1
    return top


@kernel
def slide(
    maps: Maps,
    weights: Numbers | None,
    samples: Samples,
    ring: Ring,
    n_slots: int,
    span: tuple[int, int],
    own: bool,
    bell: Ints,
    values: Numbers,
    news: Numbers,
) -> None:
    """Fill `values` (the window's value at each sample) and `news` (what ended since the sample before; empty if nobody asks).

    `span` (after, upto) says which ends are new. With `own`, `news` are instead the matches that a start has when it leaves.
    Once the `bell` rings, nothing more is filled.
    """
    one, zero, tropical, modulus = ring
    after, upto = span
    back = np.empty((n_slots + 1, n_slots + 1), values.dtype)  # transposed: a column is a row
    product = np.empty_like(back)
    rows = np.empty((64, n_slots + 1), values.dtype)
    entry_untils = np.empty(64, np.int64)
    wants_news = len(news) > 0
    start_rank = 2 * n_slots - 1
    for lane in range(len(maps.offsets) - 1):
        k, end = maps.offsets[lane], maps.offsets[lane + 1]
        e, last_e = samples.offsets[lane], samples.offsets[lane + 1]
        _identity(back, one, zero)
        begin, top, oldest, n_starts = k, 0, HIGHEST, 0
        while bell[0] == 0:
            now = maps.times[k] if k < end else HIGHEST
            rank = maps.ranks[k] if k < end else -1
            sampled = e < last_e and (samples.times[e] < now or k == end)
            if not sampled and k == end:
                break
            moment = samples.times[e] if sampled else now
            if sampled or own or (wants_news and rank == 1):
                while True:
                    if top > 0:
                        if entry_untils[top - 1] > moment:
                            break
                        top -= 1
                        if own and after < entry_untils[top] <= upto and e < last_e:
                            for j in range(1, n_slots + 1):
                                term = times(rows[top, j], back[n_slots, j], tropical, modulus)
                                news[e] = plus(news[e], term, tropical, modulus)
                    elif n_starts > 0 and oldest <= moment:
                        if n_starts > len(entry_untils):
                            rows = np.empty((2 * n_starts, n_slots + 1), values.dtype)
                            entry_untils = np.empty(2 * n_starts, np.int64)
                        top = _turn(maps, weights, ring, n_slots, (begin, k, moment), own, rows, entry_untils, product)
                        _identity(back, one, zero)
                        begin, oldest, n_starts = k, HIGHEST, 0
                    else:
                        break
            if sampled:
                value = back[n_slots, 0]
                if top > 0:
                    value = zero
                    for j in range(n_slots + 1):
                        value = plus(value, times(rows[top - 1, j], back[n_slots, j], tropical, modulus), tropical, modulus)
                values[e] = value
                e += 1
                continue
            if rank & 1:
                slot = n_slots - 1 - (rank >> 1)
                if wants_news and not own and rank == 1 and after < now <= upto and e < last_e:
                    fresh = back[slot, 0]
                    if top > 0:
                        fresh = zero
                        for j in range(slot + 1):
                            fresh = plus(fresh, times(rows[top - 1, j], back[slot, j], tropical, modulus), tropical, modulus)
                    if weights is not None:
                        fresh = times(fresh, weights[k], tropical, modulus)
                    news[e] = plus(news[e], fresh, tropical, modulus)
                if weights is None:
                    for j in range(slot + 1):
                        back[slot + 1, j] = plus(back[slot + 1, j], back[slot, j], tropical, modulus)
                else:
                    for j in range(slot + 1):
                        term = times(back[slot, j], weights[k], tropical, modulus)
                        back[slot + 1, j] = plus(back[slot + 1, j], term, tropical, modulus)
            else:
                position = n_slots - (rank >> 1)
                for j in range(position + 1):
                    back[position, j] = zero
            if rank >= start_rank:
                oldest = min(oldest, maps.untils[k])
                n_starts += 1
            k += 1
