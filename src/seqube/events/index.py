"""What was worked out of events for one query and is worth as much to the next: made once, and only read from then on.

Any number of threads may ask. Who asks first makes it, and others wait for that instead of making it again. What takes more room
than there is makes way, the longest unasked first; it is made again when somebody asks.

Cost: a look into a dictionary where it is there. Memory: `room` bytes at most.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from threading import RLock

import numpy as np
import numpy.typing as npt

Arrays = tuple[npt.NDArray[np.int64], ...]

ENTRY_BYTES = 1 << 10  # that the least of them takes, whatever is in it


class Index:
    """Tuples of arrays, by what they are."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._found: dict[Hashable, Arrays] = {}  # the longest unasked first
        self._wanted: dict[Hashable, int] = {}
        self._lock = RLock()
        self.n_bytes = 0  # that are taken

    def find(self, what: Hashable, make: Callable[[], Arrays]) -> Arrays:
        """The arrays that are called so, made if they are not there."""
        with self._lock:
            arrays = self._found.pop(what, None)
            if arrays is None:
                arrays = make()
                for array in arrays:
                    array.flags.writeable = False
                self._wanted.pop(what, None)
                self.n_bytes += _size_of(arrays)
            self._found[what] = arrays
            while self.n_bytes > self._room and len(self._found) > 1:
                self.n_bytes -= _size_of(self._found.pop(next(iter(self._found))))
            return arrays

    def is_worth(self, what: Hashable, n_rows: int, all_rows: int) -> bool:
        """Whether it pays to make something for all rows that was wanted for some: it does once these were as many altogether."""
        with self._lock:
            if what not in self._found:
                self._wanted[what] = self._wanted.get(what, 0) + n_rows
            return what in self._found or self._wanted[what] >= all_rows

    def __reduce__(self) -> tuple[type[Index], tuple[int]]:
        return Index, (self._room,)  # whoever gets a copy makes his own


def _size_of(arrays: Arrays) -> int:
    return ENTRY_BYTES + sum(array.nbytes for array in arrays)
