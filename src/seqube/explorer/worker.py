"""A process of its own for the work, so that the page stays awake and anything can be stopped.

A worker reads its source once and then answers jobs one after the other. To stop a job is to end the process: no query has to look
out for a flag. The next job starts a new one, which reads the source again (seconds, also for ten million events). The process is
spawned, not forked: a fork of a server with threads can lock up.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import signal
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from seqube.errors import SequbeError
from seqube.explorer.sources import Source

TELL_EVERY_S = 0.1

_SPAWN = multiprocessing.get_context("spawn")


class Worker:
    """Jobs on one source. A job that is cancelled takes its process with it; others wait for their turn."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self._turn = asyncio.Lock()
        self._process: Any = None
        self._pipe: Connection | None = None

    async def do(self, job: str, hear: Callable[[Any], None] = lambda _: None, **values: Any) -> Any:
        """The answer of a job of `Desk`, by its name; a SequbeError in it is raised here. `hear` is told how far it is."""
        async with self._turn:
            pipe = self._start()
            try:
                pipe.send((job, values))
                while True:
                    done, answer = await asyncio.to_thread(pipe.recv)
                    if done is not None:
                        break
                    hear(answer)
            except (EOFError, OSError):
                self.stop()
                raise SequbeError("the worker process ended\n  hint: perhaps memory ran out; ask for less at once") from None
            except asyncio.CancelledError:
                self.stop()
                raise
        if not done:
            raise answer
        return answer

    def _start(self) -> Connection:
        if self._pipe is None or not self._process.is_alive():
            self._pipe, theirs = _SPAWN.Pipe()
            self._process = _SPAWN.Process(target=_work, args=(theirs, self.source), daemon=True, name="seqube-worker")
            self._process.start()
            theirs.close()
        return self._pipe

    def stop(self) -> None:
        """End the process, whatever it does."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
        self._process = self._pipe = None  # the thread that still reads the pipe sees its end, and closes it


def _work(pipe: Connection, source: Source) -> None:
    from seqube.explorer.jobs import Desk

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the server decides when to end
    told = 0.0

    def tell(progress: Any) -> None:
        nonlocal told
        if time.monotonic() - told > TELL_EVERY_S:
            pipe.send((None, progress))
            told = time.monotonic()

    desk = Desk(source, tell)
    with contextlib.suppress(EOFError, OSError):
        while True:
            job, values = pipe.recv()
            try:
                pipe.send((True, getattr(desk, job)(**values)))
            except SequbeError as error:
                pipe.send((False, error))
            except Exception as error:  # noqa: BLE001 - the page shows it; the worker goes on
                pipe.send((False, SequbeError(f"{type(error).__name__}: {error}")))
