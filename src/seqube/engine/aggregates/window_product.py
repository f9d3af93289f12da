"""Aggregates of a sequence as a product of maps over a sliding window: cost per event in the pattern's length, whatever the window.

The counters of all prefixes form a row (1, c1, .. cn): c_i counts the ways to fill the first i slots. An event of slot i adds entry
i to entry i + 1, a negated event at position p sets entry p to zero; repeated parts have more entries, or one that is added to
itself (`automaton`). All of these are linear maps, so a window's events form a product, and the number of matches is its entry from
0 to the final state. A window slides over a product as a queue of two stacks:

    back    events that came after the last turn: one matrix, multiplied from the right as they come (a column is added to another)
    front   events before it: for every start among them, the first row of the product from there to the turn

    value = front row of the oldest live start . final column of the back        (the unit row, when the front is empty)

When the front is used up, the back is turned: it is multiplied up once from its end, and its rows are kept. Only starts leave the
window (what else leaves matters to no live start), so only starts have rows.

Weights make the same product into sums (the value of a variable at its slot, one elsewhere), and the semiring (min, +) into
extremes. Ties: within one timestamp maps are applied from the last slot to the first, each negation before the slot on its left, so
that no event sees another of its own time. A leading negation at time a sets entry 0 to zero: no start behind it counts while it is
in the window. Since a match looks back from its own end, ends before a + W are void for those starts even later: a second map at
a + W sets what is final to zero, at a moment when no start before a is left.

Cost: O(n) per event and step of its map, amortised; memory: a row per start in the window.
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

from seqube.engine.aggregates.automaton import Automaton
from seqube.engine.aggregates.lanes import Maps, Numbers, Ring, Samples, plus, read_product, times
from seqube.engine.jit import inner_kernel, kernel, kernel_part
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
    auto: Automaton,
    part: tuple[int, int, int],
    leading: int,
    own: bool,
    rows: Numbers,
    untils: Ints,
    product: Numbers,
) -> int:
    """Multiply up a part (begin, end, moment) of the maps from its end; keep and count rows of starts that live at `moment`."""
    begin, end, moment = part
    one, zero, tropical, modulus = ring
    n = len(auto.before)
    firsts, tos, sources, behind = auto.firsts, auto.tos, auto.sources, auto.behind
    _identity(product, one, zero)
    top = 0
    for k in range(end - 1, begin - 1, -1):
        rank = maps.ranks[k]
        kept = auto.begins[rank] or (rank == leading and not own)
        if kept and maps.untils[k] <= moment and not own:
            break  # this start has left, and so have all before it
        if own and kept:
            for j in range(n):
                rows[top, j] = zero
        for step in range(firsts[rank + 1] - 1, firsts[rank] - 1, -1):
            to, source = tos[step], sources[step]
            first = behind[to]
            if source < 0:
                for j in range(first, n):
                    product[to, j] = zero
            elif own and source == 0:  # what this start has by itself
                for j in range(first, n):
                    term = product[to, j]
                    if weights is not None and auto.weighted[step]:
                        term = times(term, weights[k], tropical, modulus)
                    rows[top, j] = plus(rows[top, j], term, tropical, modulus)
            elif weights is not None and auto.weighted[step]:
                for j in range(first, n):
                    term = times(product[to, j], weights[k], tropical, modulus)
                    product[source, j] = plus(product[source, j], term, tropical, modulus)
            else:
                for j in range(first, n):
                    product[source, j] = plus(product[source, j], product[to, j], tropical, modulus)
        if kept:
            if not own:
                for j in range(n):
                    rows[top, j] = product[0, j]
            untils[top] = maps.untils[k]
            top += 1
    return top


@kernel_part
def _read(state: int, rows: Numbers, top: int, back: Numbers, before: Ints, ring: Ring) -> Any:
    """What there is in a state now."""
    _, zero, tropical, modulus = ring
    if top == 0:
        return back[state, 0]
    value = zero
    for j in range(before[state]):
        value = plus(value, read_product(rows[top - 1, j], back[state, j], tropical, modulus), tropical, modulus)
    return value


@kernel
def slide(
    maps: Maps,
    weights: Numbers | None,
    samples: Samples,
    ring: Ring,
    auto: Automaton,
    leading: int,
    span: tuple[int, int],
    own: bool,
    bell: Ints,
    values: Numbers,
    news: Numbers,
) -> None:
    """Fill `values` (the window's value at each sample) and `news` (what ended since the sample before; empty if nobody asks).

    `leading` is the rank of negations that stand first. `span` (after, upto) says which ends are new. With `own`, `news` are the
    matches that a start has when it leaves. Once the `bell` rings, nothing more is filled.
    """
    one, zero, tropical, modulus = ring
    after, upto = span
    n = len(auto.before)
    firsts, tos, sources, before, final = auto.firsts, auto.tos, auto.sources, auto.before, auto.final
    back = np.empty((n, n), values.dtype)  # transposed: a column is a row
    product = np.empty_like(back)
    rows = np.empty((64, n), values.dtype)
    entry_untils = np.empty(64, np.int64)
    wants_news = len(news) > 0
    for lane in range(len(maps.offsets) - 1):
        k, end = maps.offsets[lane], maps.offsets[lane + 1]
        e, last_e = samples.offsets[lane], samples.offsets[lane + 1]
        _identity(back, one, zero)
        begin, top, oldest, n_starts = k, 0, HIGHEST, 0
        while bell[0] == 0:
            now = maps.times[k] if k < end else HIGHEST
            rank = maps.ranks[k] if k < end else 0
            sampled = e < last_e and (samples.times[e] < now or k == end)
            if not sampled and k == end:
                break
            moment = samples.times[e] if sampled else now
            if sampled or own or (wants_news and auto.ends[rank]):
                while True:
                    if top > 0:
                        if entry_untils[top - 1] > moment:
                            break
                        top -= 1
                        if own and after < entry_untils[top] <= upto and e < last_e:
                            for state in range(final, n):
                                for j in range(before[state]):
                                    term = read_product(rows[top, j], back[state, j], tropical, modulus)
                                    news[e] = plus(news[e], term, tropical, modulus)
                    elif n_starts > 0 and oldest <= moment:
                        if n_starts > len(entry_untils):
                            rows = np.empty((2 * n_starts, n), values.dtype)
                            entry_untils = np.empty(2 * n_starts, np.int64)
                        part = (begin, k, moment)
                        top = _turn(maps, weights, ring, auto, part, leading, own, rows, entry_untils, product)
                        _identity(back, one, zero)
                        begin, oldest, n_starts = k, HIGHEST, 0
                    else:
                        break
            if sampled:
                value = zero
                for state in range(final, n):
                    value = plus(value, _read(state, rows, top, back, before, ring), tropical, modulus)
                values[e] = value
                e += 1
                continue
            counts = wants_news and not own and after < now <= upto and e < last_e
            for step in range(firsts[rank], firsts[rank + 1]):
                to, source = tos[step], sources[step]
                if source < 0:
                    for j in range(before[to]):
                        back[to, j] = zero
                    continue
                if counts and to >= final:
                    fresh = _read(source, rows, top, back, before, ring)
                    if weights is not None and auto.weighted[step]:
                        fresh = times(fresh, weights[k], tropical, modulus)
                    news[e] = plus(news[e], fresh, tropical, modulus)
                if weights is not None and auto.weighted[step]:
                    for j in range(before[source]):
                        term = times(back[source, j], weights[k], tropical, modulus)
                        back[to, j] = plus(back[to, j], term, tropical, modulus)
                else:
                    for j in range(before[source]):
                        back[to, j] = plus(back[to, j], back[source, j], tropical, modulus)
            if auto.begins[rank] or rank == leading:
                oldest = min(oldest, maps.untils[k])
                n_starts += 1
            k += 1
