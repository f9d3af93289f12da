"""How many threads may work at once, and pieces of work that are spread over them.

Kernels, NumPy and Arrow leave other threads alone while they go through whole columns; pieces should be large enough that little
else is left. Cost: that of the pieces. Invariant: what comes out does not depend on how many threads there are.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from seqube.errors import PlanError

THREADS_VARIABLE = "SEQUBE_THREADS"
FEWEST_ROWS = 1 << 15  # rows in a piece: fewer cost more to hand out than they save
PIECES_PER_THREAD = 2  # so that whoever is done early goes on with another

Piece = TypeVar("Piece")
Done = TypeVar("Done")


def read_threads(threads: int | None) -> int:
    """How many threads a run may use: as asked for, else as SEQUBE_THREADS says, else all cores that there are."""
    told = os.environ.get(THREADS_VARIABLE, "")
    if threads is None and told:
        if not told.isdecimal():
            raise PlanError(
                f"{THREADS_VARIABLE} is {told!r}, not a number of threads\n  hint: 1 for one, and nothing for all cores"
            )
        threads = int(told)
    if threads is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if threads < 1:
        raise PlanError(f"threads={threads}: at least one has to work\n  hint: 1 for one, None for all cores")
    return threads


def n_pieces(n_rows: int, threads: int) -> int:
    """Into how many pieces rows are cut where the cut does not show in what comes out."""
    return max(1, min(PIECES_PER_THREAD * threads, n_rows // FEWEST_ROWS)) if threads > 1 else 1


def spread(work: Callable[[Piece], Done], pieces: Sequence[Piece], threads: int) -> list[Done]:
    """The answers to all pieces, in their order, by so many threads. The first piece that fails fails for all."""
    if threads == 1 or len(pieces) < 2:
        return [work(piece) for piece in pieces]
    with ThreadPoolExecutor(min(threads, len(pieces)), "seqube") as pool:
        return list(pool.map(work, pieces))
