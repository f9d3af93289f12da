"""Events as JSON lines, from standard input or from a file that grows, through a stream, and what is final as JSON lines out.

Lines are taken as they are there: whatever one read gives is one push, so that a slow source is answered at once and a fast one
in large pieces. A line that is no event is told with its number and reason, counted, and nothing else.

A file that is followed may be cut short (then it is read from its beginning) and may be moved away for a new one (then the old one
is read to its end, and the new one from its beginning), as log files are.

Cost: a Python object for each line, until its push is over.
Invariant: what was read is answered before a signal ends the program, and nothing is reported that was not final.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import IO, Any

import pyarrow as pa

from seqube.engine.jsonable import plain
from seqube.errors import DataError, SchemaError
from seqube.events.batch import NO_TYPE
from seqube.events.rows import NO_OBJECT
from seqube.events.times import NO_TIME
from seqube.output import note
from seqube.stream import Stream

AT_ONCE = 1 << 20  # bytes that are read at once
LOOK_AGAIN = 0.1  # seconds after which a file is looked at again
TOLD = 100  # lines whose faults are told one by one


class Patience:
    """Ctrl-C, or being asked to end: at once while nothing is to do, else when what was read is answered."""

    def __init__(self) -> None:
        self.is_over = False
        self._waiting = False

    @contextmanager
    def waiting(self) -> Iterator[None]:
        self._waiting = True
        try:
            if self.is_over:
                raise KeyboardInterrupt
            yield
        finally:
            self._waiting = False

    @contextmanager
    def listening(self) -> Iterator[None]:
        """While signals are heard."""
        before = {number: signal.signal(number, self._hear) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        self.is_over = True
        if self._waiting:
            raise KeyboardInterrupt


# ---------------------------------------------------------------- lines


def read_lines(file: int, patience: Patience) -> Iterator[list[bytes]]:
    """The lines that come from a file descriptor, those that are there at once together, until it ends."""
    tail = b""
    while True:
        with patience.waiting():
            data = os.read(file, AT_ONCE)
        if not data:
            break
        *lines, tail = (tail + data).split(b"\n")
        if lines:
            yield lines
    if tail:
        yield [tail]


def follow_file(path: Path, patience: Patience, tell: Callable[[str], None]) -> Iterator[list[bytes]]:
    """The lines of a file and those that are added to it, for ever; it may be cut short, or moved away for another one."""
    if not path.is_file():
        raise DataError(f"there is no file {path} to follow\n  hint: --follow takes the path of a file of JSON lines")
    while True:
        with path.open("rb") as file:
            yield from _follow_open(file, path, patience, tell)
        while not path.is_file():
            _rest(patience)
        tell(f"{path} is another file now, and is read from its beginning")


def _follow_open(file: IO[bytes], path: Path, patience: Patience, tell: Callable[[str], None]) -> Iterator[list[bytes]]:
    """The lines of the file that is open, until there is another one in its place."""
    tail = b""
    while True:
        # It is asked whether the file was moved before it is read to its end: what was added in between is not lost.
        was_moved = not _is_there(file, path)
        while data := file.read(AT_ONCE):
            *lines, tail = (tail + data).split(b"\n")
            if lines:
                yield lines
        if was_moved:
            if tail:
                yield [tail]
            return
        if os.fstat(file.fileno()).st_size < file.tell():
            tell(f"{path} was cut short, and is read from its beginning")
            file.seek(0)
            tail = b""
        else:
            _rest(patience)


def _is_there(file: IO[bytes], path: Path) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False


def _rest(patience: Patience) -> None:
    with patience.waiting():
        time.sleep(LOOK_AGAIN)


# ---------------------------------------------------------------- events


class Watcher:
    """Pushes lines into a stream, writes what is final, and tells what is no event."""

    def __init__(self, stream: Stream, write: Callable[[str], None], tell: Callable[[str], None], columns: tuple[str, str]) -> None:
        self._stream, self._write, self._tell, self._columns = stream, write, tell, columns
        self._n_lines = 0
        self.n_rejected = 0
        self.n_rows = dict.fromkeys(stream.queries, 0)
        self._has_begun = False

    def push(self, lines: list[bytes]) -> None:
        """Take the next lines, and write what is final."""
        rows, kept, numbers = [], [], []
        for line in lines:
            self._n_lines += 1
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                self._reject(self._n_lines, f"not JSON: {'nested too deeply' if isinstance(error, RecursionError) else error}")
                continue
            if not self._has_begun and (fault := self._fault(row)) is not None:
                self._reject(self._n_lines, fault)  # before the first event nobody knows what the columns are
                continue
            rows.append(row)
            kept.append(line)
            numbers.append(self._n_lines)
        if not rows:
            return
        try:
            self._out(self._stream.push(rows))
        except SchemaError as error:
            if not self._has_begun:
                raise
            self._push_one_by_one(kept, numbers, error)
            return
        self._has_begun = True
        if rejected := self._stream.rejected:
            *_, reasons, places = rejected.table.columns
            for reason, place in zip(reasons.to_pylist(), places.to_pylist(), strict=True):
                self._reject(numbers[place], reason)
        if n_late := self._stream.late.num_rows:
            self._tell(f"{n_late:,} late: {self._stream.late.column(self._stream.late.num_columns - 1)[0]}")

    def _push_one_by_one(self, lines: list[bytes], numbers: list[int], error: SchemaError) -> None:
        """Rows with columns that the stream cannot take any more are rejected, and the others taken."""
        if len(lines) == 1:
            self._reject(numbers[0], str(error).partition("\n")[0])
            return
        n_lines = self._n_lines
        for line, number in zip(lines, numbers, strict=True):
            self._n_lines = number - 1
            self.push([line])
        self._n_lines = n_lines  # further than the last of these where lines after it were none

    def close(self) -> None:
        """The input has ended: write what is left."""
        self._out(self._stream.close())

    def summary(self) -> str:
        stats = self._stream.stats
        found = "".join(f"; {name}: {n:,} rows" for name, n in self.n_rows.items())
        unseen = f"\nno event has a column {', '.join(map(repr, stats.unseen))}" if stats.unseen else ""
        waiting = f", {stats.waiting:,} waiting" if stats.waiting else ""
        return f"{stats.events:,} events, {stats.late:,} late, {self.n_rejected:,} rejected{waiting}{found}{unseen}"

    def _fault(self, row: Any) -> str | None:
        kind, moment = self._columns
        if not isinstance(row, dict):
            return NO_OBJECT
        return NO_TYPE if row.get(kind) is None else NO_TIME if row.get(moment) is None else None

    def _reject(self, number: int, reason: str) -> None:
        self.n_rejected += 1
        if self.n_rejected <= TOLD:
            self._tell(f"line {number}: {reason}")
        elif self.n_rejected == TOLD + 1:
            self._tell("further lines that are no events are counted, and not told")

    def _out(self, found: dict[str, pa.Table]) -> None:
        for name, table in found.items():
            key = "query" if "query" not in table.column_names else "query_"
            self._write("".join(json.dumps({key: name, **plain(row)}) + "\n" for row in table.to_pylist()))
            self.n_rows[name] += table.num_rows


def watch_lines(stream: Stream, path: Path | None, columns: tuple[str, str]) -> str:
    """Watch standard input to its end, or a file until a signal comes, and give a summary.

    At the end of the input what is left is final. A signal is no end of the stream: what waits for time to pass is not reported.
    """
    patience = Patience()
    watcher = Watcher(stream, _print, note, columns)
    with patience.listening(), suppress(KeyboardInterrupt, BrokenPipeError):
        for lines in read_lines(sys.stdin.fileno(), patience) if path is None else follow_file(path, patience, note):
            watcher.push(lines)
        watcher.close()
    return watcher.summary()


def _print(text: str) -> None:
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nobody reads on, and Python flushes once more at its end
        raise
