"""Where patterns that are counted together end, what is read there, and how numbers are added up: for all ways to share.

A pattern is read when an event fills or cancels its last slot, and, where that matters, when a start leaves the window: each time
that gives a change, the pattern's value in a lane from that time on. Where rows are due at multiples of a period (EMIT EVERY),
patterns are read then, in lanes where something has come or left since. Matches that count once (EMIT TOTAL and PER) are added up
by bucket instead, as they end. Where only those groups are told in which a match ends, and each is one lane, patterns are read
then alone: that of a sum where its count has just grown.

    values      doubles, which hold every whole number below 2^53, with + and x; or 64-bit numbers, of which the smallest counts,
                with min and max (see `tracks`, which has the order of a column's values in such numbers)

Invariant: changes are in the order of lanes, those of a lane in the order of time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from seqube.engine.aggregates.lanes import Numbers
from seqube.engine.jit import inner_kernel, kernel_part
from seqube.engine.predicates import Ints, Mask
from seqube.engine.sequence import HIGHEST, LOWEST
from seqube.plan.sharing import SlotPattern

AT_ENDS, OF_PATH, OF_LANE, HAS_ENDED = range(4)  # columns of changes: when (or in which bucket), of which pattern, where, and
N_COLUMNS = 4  # whether a match ended just now


@dataclass(frozen=True, slots=True)
class Path:
    """A pattern in pieces, and what is read of it."""

    pieces: tuple[SlotPattern, ...]
    watches: bool  # whether it matters when a start leaves
    bucket: int  # -1: what is in the window counts; else each match counts once, in these buckets
    fresh: bool  # whether it is asked where matches end
    at_ends: bool  # whether it is told nowhere else

    @property
    def pattern(self) -> SlotPattern:
        return tuple(label for piece in self.pieces for label in piece)


class Reads(NamedTuple):
    """The paths of some patterns, as loops see them; `ends_at` and `ends` are the paths that end at each node."""

    nodes: Ints
    watches: Mask
    buckets: Ints
    fresh: Mask
    follows: Ints  # the path of the count where matches have to end for this one to be told, -1: it is told wherever it changes
    ends_at: Ints
    ends: Ints
    held: Mask  # nodes whose counts are asked for later: they have children, or are read


class Operations(NamedTuple):
    """What one and zero are; with `least`, plus is min and times is max."""

    one: Any
    zero: Any
    least: int | None = None


SUMS = Operations(1.0, 0.0)
LEAST = Operations(LOWEST, HIGHEST, 1)


def arithmetic_of(extreme: bool) -> Operations:
    return LEAST if extreme else SUMS


class Passage(NamedTuple):
    """How far time goes: starts leave a window after they came; `upto` is the last moment that is looked at."""

    window: int
    upto: int
    is_watched: bool  # whether leaving is a moment of its own
    is_last: bool  # whether nothing is asked later: every lane is begun anew, and takes the place of the one before
    period: int = 0  # patterns are read at its multiples; 0: whenever they change


class EventWeights(NamedTuple):
    """What the events weigh (a row for each measure) and in which bucket they end (a row for each length)."""

    numbers: Numbers
    buckets: Ints


class PathChanges(NamedTuple):
    """`facts` has a row for each change."""

    facts: Ints
    values: Numbers


def no_changes(arithmetic: Operations) -> PathChanges:
    return PathChanges(np.empty((0, N_COLUMNS), np.int64), np.empty(0, np.array(arithmetic.zero).dtype))


def joined_changes(parts: Sequence[PathChanges], arithmetic: Operations) -> PathChanges:
    parts = [part for part in parts if len(part.values)]
    if len(parts) == 1:
        return parts[0]
    return PathChanges(*map(np.concatenate, zip(*parts, strict=True))) if parts else no_changes(arithmetic)


@kernel_part
def met(left: Any, right: Any, least: int | None) -> Any:
    """Plus."""
    if least is not None:
        return min(left, right)
    return left + right


@kernel_part
def carried(left: Any, right: Any, least: int | None) -> Any:
    """Times; nothing times infinity is nothing."""
    if least is not None:
        return max(left, right)
    if left == 0 or right == 0:
        return left if left == 0 else right
    return left * right


@kernel_part
def due_at(moment: int, period: int) -> int:
    """When what happens at a moment is read: at once, or at the next multiple of the period."""
    if period == 0 or moment > HIGHEST - period:
        return moment if period == 0 else HIGHEST
    return -(-moment // period) * period


@kernel_part
def noted(hit: Mask, hits: Ints, n: int, path: int) -> int:
    """A pattern is to be read: it is noted once; and how many are."""
    if not hit[path]:
        hit[path] = True
        hits[n] = path
        n += 1
    return n


@inner_kernel
def more_changes(facts: Ints, values: Numbers, n: int, needed: int) -> tuple[Ints, Numbers]:
    """Room for so many more."""
    if n + needed <= len(values):
        return facts, values
    size = 2 * (n + needed)
    wider, numbers = np.empty((size, facts.shape[1]), np.int64), np.empty(size, values.dtype)
    for i in range(n):
        numbers[i] = values[i]
        for j in range(facts.shape[1]):
            wider[i, j] = facts[i, j]
    return wider, numbers


@inner_kernel
def write_change(facts: Ints, values: Numbers, n: int, moment: int, path: int, lane: int, fresh: bool, value: Any) -> int:
    facts[n, AT_ENDS], facts[n, OF_PATH], facts[n, OF_LANE], facts[n, HAS_ENDED] = moment, path, lane, fresh
    values[n] = value
    return n + 1
