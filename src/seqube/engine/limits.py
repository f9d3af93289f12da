"""What one run may use: rows, memory and time. Past a limit it stops with the numbers, or hands over what it has and says so.

`Limits` are what a user allows, a `Budget` is what one run has used of them. Whoever builds something large asks first (`need`) or
tells as it grows (`hold`); whoever loops tells the time now and then (`check`). Compiled loops come back to Python after a bounded
number of steps, or look at a word that is set when the time is over (`bell`), so a query that finds nothing for hours is stopped
like one that finds too much.

Bytes are those of the arrays that grow with matches: results that are kept, instances of sub-queries, views, sums per group and
moment. The events themselves, and what is linear in them, are not counted.

Cost: a comparison per piece of results.
Invariant: a result that a limit cut short is marked, and no number is wrong because of a limit.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from math import inf
from threading import Condition, Lock, Thread
from typing import TYPE_CHECKING, NoReturn, TypedDict

from seqube.errors import LimitError, PlanError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

ON_LIMIT = ("error", "truncate")
LONGEST = 1e6  # seconds that a bell is set to at most


@dataclass(frozen=True, slots=True)
class Limits:
    """What a query may use, for `run` and `forecast`. The defaults leave a laptop usable; None means no limit.

    - `max_matches`: rows of a result.
    - `max_state_bytes`: bytes of what grows with matches, at once.
    - `max_seconds`: time.
    - `on_limit`: "error" is a `LimitError`; "truncate" (for `run` in this process) keeps the matches so far, and marks them.

    >>> few = sq.Limits(max_matches=1, on_limit="truncate")
    >>> result = sq.run("A WITHIN 5", pa.table({"type": ["A", "A"], "ts": [1, 2]}), limits=few)
    >>> len(result), result.truncated
    (1, 'the query was stopped after 1 rows: it has more than 1 rows (max_matches)')
    """

    max_matches: int | None = 100_000_000
    max_state_bytes: int | None = 4 << 30
    max_seconds: float | None = 3_600
    on_limit: str = "error"

    def __post_init__(self) -> None:
        for name in ("max_matches", "max_state_bytes", "max_seconds"):
            value = getattr(self, name)
            is_number = isinstance(value, int | float) if name == "max_seconds" else isinstance(value, int)
            if value is not None and (not is_number or isinstance(value, bool) or not value >= 0):
                raise PlanError(f"{name} is a number that is not negative, or None, not {value!r}")
        if not isinstance(self.on_limit, str) or self.on_limit not in ON_LIMIT:
            raise PlanError(f"on_limit={self.on_limit!r} is not known\n  hint: one of {', '.join(ON_LIMIT)}")

    def budget(self, of: str = "query") -> Budget:
        """What one run has to spend."""
        return Budget(self, of)


LIMITS = Limits()
NO_LIMITS = Limits(None, None, None)


class Named(TypedDict, total=False):
    """Limits as arguments of their own: `max_matches=5` instead of `limits=Limits(max_matches=5)`."""

    max_matches: int | None
    max_state_bytes: int | None
    max_seconds: float | None
    on_limit: str


def read_limits(limits: Limits | None, named: Named, *, may_truncate: bool = False) -> Limits:
    """The limits that a caller gave, either way; the defaults where none were given."""
    if limits is not None and named:
        raise PlanError(f"limits= and {min(named)}= are both given\n  hint: write all of them in sq.Limits(...)")
    found = Limits(**named) if limits is None else limits
    if not isinstance(found, Limits):
        raise PlanError(f"limits is a {type(found).__name__}\n  hint: limits=sq.Limits(max_matches=1_000)")
    if found.on_limit == "truncate" and not may_truncate:
        raise PlanError("only what sq.run finds can be cut short and marked\n  hint: leave on_limit as it is, 'error'")
    return found


class Budget:
    """What one run has used of its limits."""

    def __init__(self, limits: Limits, of: str) -> None:
        self.limits = limits
        self._of = of
        self.n_rows = 0
        self.n_bytes = 0
        self.keeps_all = False  # whether all rows will be kept: then none need wait to be taken
        self._seconds = 0.0
        self._since: float | None = time.monotonic()
        self._changing = Lock()  # several threads may find and hold something at once

    def check(self) -> None:
        """Stop if the time is over."""
        allowed = self.limits.max_seconds
        if allowed is not None and (used := self._used()) > allowed:
            self._too_long(used, allowed)

    def _too_long(self, used: float, allowed: float) -> NoReturn:
        self._stop(f"it took {used:,.1f} s and may take {allowed:,.1f} s (max_seconds)", "narrow the window or the predicates")

    @contextmanager
    def bell(self, word: npt.NDArray[np.int64] | None = None) -> Iterator[npt.NDArray[np.int64]]:
        """A word (one's own, if given) that is 0 until the time is over. A loop that sees it set returns, and is stopped here."""
        import numpy as np

        bell = np.zeros(1, np.int64) if word is None else word
        if self.limits.max_seconds is None:
            yield bell
            return
        # A little late rather than early: a loop that hears the bell must find its time over at the check below.
        left = max(0.0, min(self.limits.max_seconds, LONGEST) - self._used()) + 0.02
        number = _CLOCK.ring(time.monotonic() + left, bell)
        try:
            yield bell
        finally:
            _CLOCK.cancel(number)
        if bell[0]:  # whoever heard it has left something out, even where others have stopped the clock since
            self._too_long(max(self._used(), self.limits.max_seconds), self.limits.max_seconds)
        self.check()

    def _used(self) -> float:
        since = self._since
        return self._seconds + (0.0 if since is None else time.monotonic() - since)

    def need(self, n_bytes: int) -> None:
        """Stop if so many bytes more are too many."""
        allowed = self.limits.max_state_bytes
        if allowed is not None and (wanted := self.n_bytes + n_bytes) > allowed:
            self._stop(
                f"it needs {wanted:,} bytes at once and may hold {allowed:,} (max_state_bytes)",
                "take results piece by piece with batches(), count them with AGG COUNT EMIT TOTAL, or narrow the window",
            )

    def hold(self, n_bytes: int) -> None:
        """Note that so many bytes more are kept until the run is over."""
        with self._changing:
            self.need(n_bytes)
            self.n_bytes += n_bytes

    def room(self, n_rows: int) -> int:
        """How many of so many rows may still come."""
        allowed = self.limits.max_matches
        return n_rows if allowed is None else min(n_rows, allowed - self.n_rows)

    def find(self, n_rows: int) -> None:
        """Note that so many rows more were found; stop if they are too many."""
        with self._changing:
            room = self.room(n_rows)
            self.n_rows += room
        if room < n_rows:
            self._stop(
                f"it has more than {self.limits.max_matches:,} rows (max_matches)",
                "count them with AGG COUNT EMIT TOTAL, or narrow the window or the predicates",
            )

    def pause(self) -> None:
        """From here on somebody else works, until `resume`."""
        self._seconds, self._since = self._used(), None

    def resume(self) -> None:
        self._since = time.monotonic()

    def _stop(self, why: str, hint: str) -> NoReturn:
        raise LimitError(f"the {self._of} was stopped after {self.n_rows:,} rows: {why}\n  hint: {hint}, or allow more")


class _Clock:
    """Rings all bells of a process: one thread, which sleeps until the first of them is due. Setting one costs no thread."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._numbers = count()
        self._set: dict[int, tuple[float, npt.NDArray[np.int64]]] = {}  # when, and the word to set then
        self._wakes = inf
        self._thread: Thread | None = None

    def ring(self, when: float, word: npt.NDArray[np.int64]) -> int:
        """Set a word to 1 at a time; the number by which that is cancelled."""
        with self._changed:
            number = next(self._numbers)
            self._set[number] = when, word
            if self._thread is None:
                self._thread = Thread(target=self._wait, name="seqube-clock", daemon=True)
                self._thread.start()
            elif when < self._wakes:
                self._changed.notify()
            return number

    def cancel(self, number: int) -> None:
        with self._changed:
            self._set.pop(number, None)

    def _wait(self) -> None:
        with self._changed:
            while True:
                now = time.monotonic()
                for number in [number for number, (when, _) in self._set.items() if when <= now]:
                    self._set.pop(number)[1].fill(1)
                self._wakes = min((when for when, _ in self._set.values()), default=inf)
                self._changed.wait(None if self._wakes == inf else self._wakes - now)


_CLOCK = _Clock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_CLOCK.__init__)  # type: ignore[misc]  # a child has none of its parent's threads
