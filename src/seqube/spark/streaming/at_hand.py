"""What a worker keeps between calls: chunks that it has read, the live states of operators, and the operators themselves.

All of it is a cache: what is missing is read or made again, with the same answers.
Cost: of live states as much memory as they may take (`live_bytes`), of chunks `AT_HAND_BYTES`.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from seqube.engine.limits import Limits
from seqube.engine.operator import Operator, State
from seqube.engine.predicates import Ints
from seqube.plan.sharing import SharingPlan
from seqube.spark.rows import ShippedQuery
from seqube.spark.streaming.held import Held

AT_HAND_BYTES = 1 << 30  # of chunks, and of live states where the machine has little memory
SHARE_OF_MEMORY = 1 / 3  # for the live states of all workers of a machine
ROOMY = 0.8  # of what live states may take: one that is made anew must not have to go again for what the others grow by
ROUNDS = 4  # in which a live state was not asked for, before it counts as left behind
KEPT_OPERATORS = 64  # that are ready


@dataclass(frozen=True, slots=True)
class ChunkRows:
    """A chunk at hand; `keys` ascend, and are there where it is asked for some of them."""

    table: pa.Table
    times: Ints
    keys: npt.NDArray[np.int32] | None

    def of_keys(self, keys: npt.NDArray[np.int32]) -> Ints:
        """The rows of these keys, which ascend."""
        assert self.keys is not None
        begins, ends = np.searchsorted(self.keys, keys, "left"), np.searchsorted(self.keys, keys, "right")
        sizes = ends - begins
        return np.repeat(begins - np.cumsum(sizes) + sizes, sizes) + np.arange(sizes.sum())


BucketPlace = tuple[str, int]  # a query, and a bucket


@dataclass(frozen=True, slots=True)
class Live:
    """The live state of an operator, and which state of the bucket it is."""

    state: State
    schema: pa.Schema
    working: str = ""  # how the operator works that it is the state of
    mark: str = ""
    n_bytes: int = 0
    turn: int = 0  # when it was put there
    switches: int = 0  # of its plan, in the last call
    plan: str | None = None  # the one that it goes on by, if there were any


class AtHand:
    """What this process has read or made lately: chunks by digest, a live state for each place.

    The longest unused chunks go first. Of live states, those that nobody asked for in the last rounds; buckets are asked for in
    turns, so where all of them are in use and too large together the newest goes, and not one after the other. Who asks before
    (`has_room`) need not make it anew at every call.
    """

    def __init__(self, limit: int, live_limit: int | None = None) -> None:
        self._limit, self._live_limit = limit, limit if live_limit is None else live_limit
        self.clear()

    def clear(self) -> None:
        self._rows: OrderedDict[str, ChunkRows] = OrderedDict()
        self._places: dict[BucketPlace, frozenset[str]] = {}
        self._size = 0
        self._live: OrderedDict[BucketPlace, Live] = OrderedDict()
        self._n_puts = 0
        self.plans: dict[str, SharingPlan | None] = {}  # what queries of a workload count together, where that was worked out
        self._operators: OrderedDict[tuple[str, pa.Schema, Limits], Operator[Any, pa.Table]] = OrderedDict()

    def operator(self, working: str, schema: pa.Schema, wanted: ShippedQuery) -> Operator[Any, pa.Table]:
        """The operator of what is wanted of events with these columns, ready to use."""
        place = working, schema, wanted.limits
        if place not in self._operators:
            self._operators[place] = wanted.operator
        self._operators.move_to_end(place)
        while len(self._operators) > KEPT_OPERATORS:
            self._operators.popitem(last=False)
        return self._operators[place]

    def take_live(self, place: BucketPlace, held: Held, schema: pa.Schema, working: str) -> Live | None:
        """The live state of this place, if the bucket was once in it, and still holds what came since.

        It is gone then: whoever goes on with it puts it back.
        """
        live = self._live.pop(place, None)
        if live is None or live.working != working or not live.schema.equals(schema):
            return None
        if live.mark not in held.marks or live.state.decided < held.covered:
            return None
        return live

    def has_room(self, place: BucketPlace, n_events: int) -> bool:
        """Whether a live state of so many events is here, or would fit beside the others, if it is like them."""
        if place in self._live or not self._live:
            return True
        size = self._live_size
        kept = sum(each.state.n_kept for each in self._live.values())
        return size + n_events * size / max(1, kept) <= ROOMY * self._live_limit

    def put_live(self, place: BucketPlace, live: Live) -> None:
        self._n_puts += 1
        self._live[place] = replace(live, n_bytes=live.state.n_bytes, turn=self._n_puts)
        while self._live_size > self._live_limit and len(self._live) > 1:
            oldest = next(iter(self._live.values()))
            is_idle = self._n_puts - oldest.turn > ROUNDS * len(self._live)
            self._live.popitem(last=not is_idle)

    @property
    def _live_size(self) -> int:
        return sum(each.n_bytes for each in self._live.values())

    def get(self, digest: str) -> ChunkRows | None:
        rows = self._rows.get(digest)
        if rows is not None:
            self._rows.move_to_end(digest)
        return rows

    def put(self, digest: str, rows: ChunkRows) -> None:
        self._drop(digest)
        self._rows[digest] = rows
        self._size += rows.table.nbytes
        while self._size > self._limit and len(self._rows) > 1:
            self._drop(next(iter(self._rows)))

    def keep(self, place: BucketPlace, digests: frozenset[str]) -> None:
        """Let go of what this place (a query and a bucket) had and has no more, whoever dropped it."""
        for digest in self._places.get(place, frozenset()) - digests:
            self._drop(digest)
        self._places[place] = digests

    def _drop(self, digest: str) -> None:
        rows = self._rows.pop(digest, None)
        if rows is not None:
            self._size -= rows.table.nbytes


def live_bytes() -> int:
    """What the live states of one worker may take: its part, with a worker for each core, of a share of the memory there is."""
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError):  # not told by this system
        return AT_HAND_BYTES
    with suppress(OSError, ValueError):  # of a container, unless it may have all
        memory = min(memory, int(Path("/sys/fs/cgroup/memory.max").read_text(encoding="utf-8")))
    return max(AT_HAND_BYTES, int(SHARE_OF_MEMORY * memory / (os.cpu_count() or 1)))


AT_HAND = AtHand(AT_HAND_BYTES, live_bytes())
