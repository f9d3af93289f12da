"""One peer in a process of its own: commands come as JSON lines, each answered by one line.

    {"prepare": "events.arrow"}      -> {"seconds": ...}
    {"run": {...a task...}}          -> {"seconds", "cpu_s", "peak_mb", "count", "checksum"}

What a library prints goes to stderr, so that the answers stay alone on stdout. CPU time and peak memory are those of the process
that does the work (the JVM, where there is one), from /proc; elsewhere than on Linux they are left out.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from bench.measure import wake_cores
from bench.peers import Peer, Task, load


def cpu_seconds(pid: int) -> float | None:
    """User and system time of a process so far."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peak_mb(pid: int) -> int | None:
    """The most memory a process held since `forget_peak`."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) // 1024 for line in lines if line.startswith("VmHWM")), None)


def forget_peak(pid: int) -> None:
    try:
        Path(f"/proc/{pid}/clear_refs").write_text("5")
    except OSError:
        return


def prepare(peer: Peer, path: str) -> dict[str, Any]:
    with pa.memory_map(path) as source:
        table = pa.ipc.open_file(source).read_all()
    began = time.perf_counter()
    peer.prepare(table)
    return {"seconds": time.perf_counter() - began}


def run(peer: Peer, task: Task) -> dict[str, Any]:
    gc.collect()
    pid = peer.pid
    forget_peak(pid)
    wake_cores(os.cpu_count() or 1)
    # In this process the finer clock is at hand; another's time comes in hundredths of a second.
    clock: Callable[[], float | None] = time.process_time if pid == os.getpid() else partial(cpu_seconds, pid)
    cpu, began = clock(), time.perf_counter()
    outcome = peer.run(task)
    wall_s, after = time.perf_counter() - began, clock()
    peak = peak_mb(pid)
    answer = peer.answer(outcome)
    return {
        "seconds": peer.seconds(outcome, wall_s),
        "cpu_s": after - cpu if cpu is not None and after is not None else None,
        "peak_mb": peak,
        "count": answer.count,
        "checksum": answer.checksum,
    }


def main(name: str) -> None:
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    peer = load(name)
    for line in sys.stdin:
        command = json.loads(line)
        try:
            if "prepare" in command:
                reply = prepare(peer, command["prepare"])
            else:
                about = command["run"]
                reply = run(peer, Task(**(about | {"types": tuple(about["types"])})))
        except Exception as error:  # noqa: BLE001 - whatever a peer raises is reported in its place
            traceback.print_exc()
            reply = {"error": f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"[:300]}
        print(json.dumps(reply), file=answers, flush=True)
    peer.close()


if __name__ == "__main__":
    main(sys.argv[1])
