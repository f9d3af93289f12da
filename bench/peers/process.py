"""The other end of `bench.peers.worker`: a peer's process, asked for one thing at a time, and ended when it takes too long."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from bench.peers import Task

ROOT = Path(__file__).resolve().parents[2]


class PeerError(Exception):
    """A peer that gave no answer, and why."""


class Process:
    """A peer in a process group of its own, started when it is first needed and again after it had to be ended."""

    def __init__(self, peer: str, log: Path) -> None:
        self.peer = peer
        self._log = log
        self._running: subprocess.Popen[str] | None = None
        self._prepared: Path | None = None
        self.prepare_s: float | None = None
        self.n_runs = 0  # since it was started

    def prepare(self, events: Path, limit_s: float) -> None:
        """Hand over a file of events, unless it has it already."""
        if self._running is None or self._prepared != events:
            self.prepare_s = float(self._ask({"prepare": str(events)}, limit_s)["seconds"])
            self._prepared = events

    def run(self, task: Task, limit_s: float) -> dict[str, Any]:
        reply = self._ask({"run": vars(task)}, limit_s)
        self.n_runs += 1
        return reply

    def _ask(self, command: dict[str, Any], limit_s: float) -> dict[str, Any]:
        if self._running is None:
            self._start()
        assert self._running is not None
        assert self._running.stdin is not None
        assert self._running.stdout is not None
        with suppress(BrokenPipeError):  # it has ended: reading says so
            print(json.dumps(command), file=self._running.stdin, flush=True)
        with selectors.DefaultSelector() as selector:
            selector.register(self._running.stdout, selectors.EVENT_READ)
            if not selector.select(limit_s):
                self.end()
                raise PeerError(f"not done after {limit_s:,.0f} s")
        line = self._running.stdout.readline()
        if not line:
            code = self._running.wait()
            self.end()
            raise PeerError(f"its process ended with exit code {code}")
        reply: dict[str, Any] = json.loads(line)
        if "error" in reply:
            raise PeerError(reply["error"])
        return reply

    def _start(self) -> None:
        self._prepared = None
        self.n_runs = 0
        with self._log.open("ab") as log:
            self._running = subprocess.Popen(
                [sys.executable, "-m", "bench.peers.worker", self.peer],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=ROOT,
                start_new_session=True,  # a JVM it started ends with it
            )

    def end(self) -> None:
        if self._running is None:
            return
        running, self._running = self._running, None
        with suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGKILL)
        running.wait()
