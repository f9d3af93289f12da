"""The systems a user would pick instead, each behind the same small face, so that adding one is one file.

A peer is a module here with a class `Adapter(Peer)`. It runs in a process of its own (`bench.peers.worker`): its memory can be told
from everyone else's, and one that hangs or dies is a line in the report, not the end of it. All peers get the same table and end
with the row numbers of every match in memory (or with their count and checksum, where an adapter says so: that is less work, to
its advantage). An answer is the number of matches and a checksum that does not depend on their order.

The checksum of a match with rows r1, r2, ... is ((r1 p1 + r2 p2 + ...) mod M)² mod M, and they are added up: every step fits in a
signed 64-bit number for up to a hundred million events and a billion matches, so that SQL, Java and NumPy get the same.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Ints = npt.NDArray[np.int64]

MODULUS = 2**31 - 1
FACTORS = (1_000_003, 15_485_863, 179_424_673, 373_587_883, 982_451_653)


@dataclass(frozen=True)
class Task:
    """One query of the peer suite: a sequence of types, one of them perhaps negated, within a window in ms."""

    name: str
    types: tuple[str, ...]
    window: int
    keyed: bool = False
    negated: int | None = None

    @property
    def positives(self) -> tuple[str, ...]:
        return tuple(name for slot, name in enumerate(self.types) if slot != self.negated)

    @property
    def text(self) -> str:
        """The query in our language, with row numbers as its result."""
        variables = [f"v{slot}" for slot in range(len(self.types))]
        parts = [
            f"{'!' if slot == self.negated else ''}{name} {variable}"
            for slot, (name, variable) in enumerate(zip(self.types, variables, strict=True))
        ]
        returned = [f"{variable}.row AS {variable}" for slot, variable in enumerate(variables) if slot != self.negated]
        return f"SEQ({', '.join(parts + ['[id]'] * self.keyed)}) WITHIN {self.window} ms RETURN {', '.join(returned)}"

    @property
    def short(self) -> str:
        parts = [f"{'!' if slot == self.negated else ''}{name}" for slot, name in enumerate(self.types)]
        return f"SEQ({', '.join(parts)}){', same id' if self.keyed else ''}, {self.window:,} ms"


_THREE = ("DELL", "IPIX", "QQQ")
_FOUR = (*_THREE, "AMAT")
_FIVE = (*_FOUR, "MSFT")


def tasks(stretch: int = 1) -> dict[str, Task]:
    """The six queries, with windows `stretch` times as long."""
    suite = (
        Task("a", _THREE, 100),
        Task("b", _FOUR, 100),
        Task("c", _FIVE, 100),
        Task("d", _THREE, 500),
        Task("e", _THREE, 10_000, keyed=True),
        Task("f", _FOUR, 100, negated=2),
    )
    return {task.name: Task(task.name, task.types, task.window * stretch, task.keyed, task.negated) for task in suite}


@dataclass(frozen=True)
class Answer:
    """How many matches, and which."""

    count: int
    checksum: int

    def __str__(self) -> str:
        return f"{self.count:,} ({self.checksum:x})"


def answer_of(columns: Sequence[Ints] | Ints) -> Answer:
    """The answer in the row numbers of each variable's events, a column per variable; a piece at a time, to need little memory."""
    total, step = 0, 1 << 20
    for begin in range(0, len(columns[0]), step):
        mixed = np.zeros(len(columns[0][begin : begin + step]), np.int64)
        for column, factor in zip(columns, FACTORS, strict=False):
            mixed += column[begin : begin + step] * factor
        mixed %= MODULUS
        total += int((mixed * mixed % MODULUS).sum())
    return Answer(len(columns[0]), total)


class Peer:
    """What an adapter says and does. `prepare` and `run` are timed; `answer` is not."""

    name: str
    package: str | None = None  # whose version is written down
    cores = 1
    about = ""  # how the query is put to it, in a sentence
    # The largest input it is given in a quick run, where a million events would take it minutes.
    largest: dict[str, int] = {}  # noqa: RUF012

    def missing(self) -> str:
        """Why it cannot run here and what to do about it; empty when it can."""
        return ""

    def prepare(self, events: pa.Table) -> None:
        """Take a table (row, ts in ms, type, id, price) in the form this system likes best."""
        raise NotImplementedError

    def run(self, task: Task) -> Any:
        """Find the matches: columns of row numbers, one for each variable, unless `answer` is overridden."""
        raise NotImplementedError

    def answer(self, outcome: Any) -> Answer:
        return answer_of(outcome)

    def seconds(self, outcome: Any, wall_s: float) -> float:
        """How long the run took: what the clock said around it, unless the system knows better."""
        del outcome
        return wall_s

    @property
    def pid(self) -> int:
        """The process whose memory and CPU time count."""
        return os.getpid()

    def close(self) -> None:
        """Leave nothing running."""


def peer_names() -> list[str]:
    """Every peer there is an adapter for, ours first."""
    modules = [module.name for module in pkgutil.iter_modules(__path__) if not module.ispkg]
    found = [name for name in modules if hasattr(importlib.import_module(f"{__name__}.{name}"), "Adapter")]
    return sorted(found, key=lambda name: (name != "seqube_engine", name))


def load(name: str) -> Peer:
    adapter: Peer = importlib.import_module(f"{__name__}.{name}").Adapter()
    return adapter
