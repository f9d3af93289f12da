"""Memory follows the events and what is kept of the results: checked in processes that may not have more."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

from hardening.growth import run

PRELUDE = """
import resource
import numpy as np
import pyarrow as pa
import seqube as sq


def stream(n, types="ABCDEF"):
    return sq.Events(pa.table({"type": pa.array(np.resize(list(types), n)), "ts": np.arange(n)}))


def used():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * resource.getpagesize()


def allow(n_bytes):
    # Address space, so a little more than is in use: threads and pools reserve some before they use it.
    limit = used() + n_bytes
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
"""


def in_a_process(code: str) -> str:
    """Run code in a process of its own, with one arena, so that what it reserves is what it uses."""
    source = PRELUDE + textwrap.dedent(code)
    environment = os.environ | {"MALLOC_ARENA_MAX": "1", "ARROW_DEFAULT_MEMORY_POOL": "system", "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", source], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3_000:]
    return done.stdout.strip()


pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="address space is limited on Linux only")


def test_an_explosion_streams_within_a_quarter_gigabyte() -> None:
    """10 to the 22 matches, of which as many are looked at as would fill gigabytes."""
    rows = in_a_process("""
        events = stream(100_000)
        query = "SEQ(A a, B b, C c, D d, E e, F f) WITHIN 100000 EVENTS"
        next(sq.run(query, stream(100)).batches())  # compiled before the limit
        counting = "PATTERN " + query + " AGG COUNT EMIT TOTAL"
        sq.run(counting, stream(600))
        allow(450 << 20)
        rows = 0
        for batch in sq.run(query, events).batches():
            rows += batch.num_rows
            if rows > 20_000_000:
                break
        assert sq.run(counting, events).table.num_rows == 1
        print(rows)
    """)
    assert int(rows) > 20_000_000


def test_tables_are_refused_before_memory_is_gone() -> None:
    """The error of the limit comes, not that of the machine."""
    said = in_a_process("""
        query = "SEQ(A a, B b) WITHIN 1000000"
        sq.run(query, stream(100))
        events = stream(60_000, "AB")
        allow(1200 << 20)
        try:
            sq.run(query, events, max_state_bytes=300 << 20).table
        except sq.LimitError as error:
            print(error)
    """)
    assert "max_state_bytes" in said


@pytest.mark.parametrize(
    "query",
    [
        "SEQ(A a, B b, C c) WITHIN 60",
        "SEQ(A a, !SEQ(B b, C c), D d) WITHIN 60",
        "SEQ(A a, AND(B b, C c), !D d, E e) WITHIN 12",
        "SEQ(A a, B b) WITHIN 60 AGG COUNT(*), SUM(b.ts)",
    ],
)
def test_a_run_needs_memory_for_events_and_results(query: str) -> None:
    """Twice the events, twice the memory and no more: what a run adds is in proportion to its input and output."""
    out = in_a_process(f"""
        import gc, threading, time
        query = {query!r}
        sq.run(query, stream(1_000)).table

        def peak(n):
            events = stream(n)
            gc.collect()
            before, most, stop = used(), 0, threading.Event()

            def watch():
                nonlocal most
                while not stop.is_set():
                    most = max(most, used())
                    time.sleep(0.001)

            watcher = threading.Thread(target=watch)
            watcher.start()
            table = sq.run(query, events).table
            stop.set()
            watcher.join()
            return (most - before) / (events.table.nbytes + table.nbytes)

        peak(50_000)
        print(peak(200_000), peak(400_000))
    """)
    small, large = map(float, out.split())
    assert large < 25  # bytes for every byte that comes in or goes out
    assert large < 2 * small + 2


@pytest.mark.slow
def test_a_long_stream_does_not_grow() -> None:
    """Ten minutes of a stream, a thousand events a second: after the first three, memory stays where it is."""
    points = run(600)
    warm = [point for point in points if point.step > 180]
    third = len(warm) // 3
    before = sorted(point.process_bytes for point in warm[:third])[third // 2]
    after = sorted(point.process_bytes for point in warm[-third:])[third // 2]
    assert after < before * 1.05 + 5e6
    assert max(point.state_bytes for point in warm) < 1.2 * min(point.state_bytes for point in warm)
    assert points[-1].rows > 100_000
