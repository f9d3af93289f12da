"""Seqube itself, behind the face of a peer: events made once, the query planned and run each time.

The text of the query is read in the first run: one that was read lately is not read again, whoever asks.
"""

from __future__ import annotations

import pyarrow as pa

import seqube as sq
from bench.peers import Ints, Peer, Task


class Adapter(Peer):
    name = "Seqube"
    package = "seqube"
    cores = 2
    about = "`sq.run(text, events)`, two threads"

    def prepare(self, events: pa.Table) -> None:
        self._events = sq.Events(events)

    def run(self, task: Task) -> list[Ints]:
        return [column.to_numpy() for column in sq.run(task.text, self._events, threads=self.cores).table.columns]
