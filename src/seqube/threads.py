"""How many threads may work at once, and pieces of work that are spread over them.

Kernels, NumPy and Arrow leave other threads alone while they go through whole columns; pieces should be large enough that little
else is left. Whoever asks for the pieces is one of the threads: others have to be woken, which takes long beside a small piece. The
others stay when the work is done: memory that a thread gave back is handed to the same thread again, and a new one would wait for
fresh pages of the system, which takes as long as finding what is written there.

Cost: that of the pieces. Invariant: what comes out does not depend on how many threads there are.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from functools import partial
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
    others = helpers(min(threads, len(pieces)) - 1)
    futures = [others.submit(work, piece) for piece in pieces]
    try:
        for number in reversed(range(len(pieces))):  # the others go through them from the first one on
            if futures[number].cancel():
                futures[number] = done_here(partial(work, pieces[number]))
        return [future.result() for future in futures]
    finally:
        for future in futures:
            future.cancel()


def helpers(n: int) -> Executor:
    """So many threads beside whoever asks, begun with their first work.

    They may work for several at once: nobody waits for work that they have not begun (`Future.cancel` tells).
    """
    return _helpers.get(n) or _helpers.setdefault(n, ThreadPoolExecutor(n, "seqube"))


def done_here(work: Callable[[], Done]) -> Future[Done]:
    """What this thread did itself."""
    future: Future[Done] = Future()
    try:
        future.set_result(work())
    except Exception as error:  # noqa: BLE001 - it is raised when its turn comes
        future.set_exception(error)
    return future


_helpers: dict[int, Executor] = {}
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_helpers.clear)  # a process that was forked has none of the threads
