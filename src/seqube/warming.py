"""Compiling ahead: the one place that knows which compiled loops there is work for, and has all of them compiled and kept.

    seqube warm                 for an image, a new machine, or the folder that Spark's executors are handed
    warm(jobs)                  the same from Python; how many loops there are now, and how many of them are new

What a plan needs is compiled when it first runs over columns of the same types, so each kind of work is done once, over a few
events, in as many processes as there are cores (Numba compiles one loop at a time in each). Loops that another kind of work has
compiled meanwhile are found, not compiled again.

Cost: some minutes of CPU for everything, once for each version; nothing where all is there.
"""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from seqube.events import Events

WARM = "warm"  # the file that says that all was compiled
_KEYED = "SEQ(Recycle r, Wash w, Operate o, [id]) WITHIN 1 hour"
_FLAT = "SEQ(Recycle r, Wash w, Operate o) WITHIN 2 min"

MATCHED = (
    _KEYED,
    _FLAT,
    "SEQ(Recycle r, Wash w) WITHIN 20 EVENTS",
    "SEQ(Recycle r, Wash w, w.weight > r.weight AND r.ward != w.ward) WITHIN 10 min",
    "SEQ(Recycle r, Wash w, r.id = w.id) WHERE w.weight > 1 PARTITION BY ward WITHIN 1 hour RETURN r.id, w.ts - r.ts AS lag",
    "SEQ(Recycle r, !Wash w, Operate o, [id]) WITHIN 1 hour",
    "SEQ(Recycle r, Wash w, !Operate o, [id]) WITHIN 1 hour",
    "SEQ(Recycle r, !Wash w, Operate o) WITHIN 5 min",
    "SEQ(Recycle r, Wash w, Operate o, r.id = w.id AND w.ward = o.ward) WITHIN 1 hour",
    "AND(Recycle r, Wash w, [id]) WITHIN 10 min",
    "SEQ(Recycle r, Wash+ w, Operate o, [id]) WITHIN 20 min",
    "NEXT(Recycle r, Wash+ w, Operate o, [id]) WITHIN 1 hour",
    "NEXT(Recycle r, Wash w, Operate o, [id]) WITHIN 1 hour SKIP PAST LAST",
    "STRICT(Recycle r, Wash w) PARTITION BY id WITHIN 1 hour",
)
NESTED_QUERY = "SEQ(Recycle r, !SEQ(Sharpen s, Disinfect d, s.id = d.id = r.id), Operate o, r.id = o.id) WITHIN 1 hour"
AGGREGATED = (
    "AGG COUNT(*)",
    "AGG COUNT(*), SUM(o.weight), AVG(o.duration), MIN(r.weight), MAX(o.weight) GROUP BY r.id",
    "AGG COUNT(*) EMIT EVERY 10 min",
    "AGG COUNT(*) GROUP BY r.ward EMIT PER 1 hour",
    "AGG COUNT(*), AVG(o.weight) EMIT TOTAL",
)


class Warmth(NamedTuple):
    """Where compiled loops are, how many there are, and how many were not there before."""

    folder: Path
    n_kernels: int
    n_new: int


def warm(jobs: int | None = None) -> Warmth:
    """Have everything compiled, in so many processes at once (as many as there are cores unless it is said)."""
    from seqube.engine.jit import cache_folder
    from seqube.errors import DataError

    folder = cache_folder()
    before = _kept(folder)
    if not (folder / WARM).exists():
        command = [sys.executable, "-c", "import sys; from seqube.warming import do_work; do_work(sys.argv[1])"]

        def run(name: str) -> None:
            done = subprocess.run([*command, name], capture_output=True, text=True, check=False)  # noqa: S603
            if done.returncode:
                said = (done.stderr.strip().splitlines() or ["nothing"])[-1]
                raise DataError(f"compiling ahead failed at {name}: {said}")

        with ThreadPoolExecutor(jobs or os.cpu_count() or 1) as pool:
            list(pool.map(run, KINDS_OF_WORK))
        if folder.is_dir():
            (folder / WARM).touch()
    after = _kept(folder)
    return Warmth(folder, after, after - before)


def pack_kernels(target: Path) -> int:
    """Write what is compiled to an archive, as Spark hands it to executors; how many loops are in it."""
    from seqube.engine.jit import cache_folder

    folder = cache_folder()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.rglob("*")):
            archive.write(path, Path(folder.name) / path.relative_to(folder))
    return _kept(folder)


def _kept(folder: Path) -> int:
    return sum(1 for _ in folder.rglob("*.nbc"))


# ---------------------------------------------------------------- kinds of work


def do_work(name: str) -> None:
    """Do one kind of work, over a few events."""
    KINDS_OF_WORK[name]()


def _events() -> Events:
    import seqube as sq
    from seqube.generate import generate

    return sq.Events(generate("hospital", 300, seed=1))


def _run(queries: Sequence[str], strategy: str = "auto") -> None:
    """In a batch, and on a stream that is saved and goes on."""
    import seqube as sq
    from seqube.generate import generate

    events = _events()
    for query in queries:
        len(sq.run(query, events, strategy=strategy).table)
    rows = generate("hospital", 300, seed=1)
    stream = sq.Stream({str(n): text for n, text in enumerate(queries) if "TOTAL" not in text}, strategy=strategy)
    for start in range(0, 300, 100):
        stream.push(rows.slice(start, 100))
        stream = sq.Stream.load(stream.save())
    stream.close()


def _match_rows() -> None:
    """By the machine that is linear, with WITHIN and without, and by the one that goes back; one row and all rows per match."""
    from seqube.engine.rows.clause import match_rows
    from seqube.events.schema import kind_of
    from seqube.generate import generate
    from seqube.language.rows.binder import bind_clause
    from seqube.plan.rows import plan_rows

    rows = generate("stock", 300, seed=1)
    measures = "MEASURES LAST(d.price, 1) AS low, SUM(d.price) AS total, SUM(volume) AS volumes, MAX(price) AS top"
    for more in ("", "ALL ROWS PER MATCH WITHIN 100", "AND price < AVG(d.price)"):
        within, asked = (more, "") if more.startswith("ALL") else ("", more)
        define = f"DEFINE d AS price < PREV(price), u AS price > 1 {asked}"
        text = f"PARTITION BY type ORDER BY ts {measures} PATTERN (s d+ u+) {within} {define}"
        match_rows(plan_rows(bind_clause(text, {field.name: kind_of(field.type) for field in rows.schema})), rows)


def _run_together() -> None:
    import seqube as sq

    events = _events()
    ends = ("Wash w", "Operate o", "Sharpen s")
    sq.run({f"q{n}": f"SEQ(Recycle r, {end}, [id]) WITHIN 1 hour" for n, end in enumerate(ends)}, events)
    counted = {f"q{n}": f"SEQ(Recycle r, Disinfect d, {end}) WITHIN 2 min AGG COUNT(*)" for n, end in enumerate(ends)}
    for strategy in ("prefix-tree", "chop-connect"):
        sq.run(counted, events, strategy=strategy)
    cube = sq.Cube(events, "SEQ(Recycle r, Wash w) WITHIN 10 min")
    cube.count, cube.children(), cube.parents()
    sq.funnel(events, ["Recycle", "Wash", "Operate"], by="id", within="1 hour")


def _predict() -> None:
    import seqube as sq

    events = _events()
    rules = sq.mine(events, window="10 min", min_support=5, min_confidence=0.1, limit=5)
    for strategy in ("direct", "tofel", "cbs-tree", "index"):
        sq.forecast(rules, events, strategy=strategy)


def _each(queries: Sequence[str], strategy: str = "auto") -> Callable[[], None]:
    return lambda: _run(queries, strategy)


KINDS_OF_WORK: Mapping[str, Callable[[], Any]] = {
    "matches with keys": _each(MATCHED[:1] + MATCHED[5:7]),
    "matches": _each(MATCHED[1:5]),
    "negations": _each(MATCHED[7:10]),
    "lists and runs": _each(MATCHED[10:]),
    **{
        f"nested, {name}": _each((NESTED_QUERY,), name)
        for name in ("iterative", "aggressive", "passive", "balanced", "latest-start")
    },
    **{
        f"counts, {name}": _each([f"{pattern} {clause}" for pattern in (_KEYED, _FLAT) for clause in AGGREGATED], name)
        for name in ("two-step", "per-start", "window-product")
    },
    "workloads, cubes, funnels": _run_together,
    "forecasts and mining": _predict,
    "row patterns": _match_rows,
}
