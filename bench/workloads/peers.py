"""The peer suite: Q-a to Q-f on made-up and on real trades, by Seqube and by every peer that is installed.

Everyone gets the same file of events and is run in turns, each in a process of its own. A peer that would need minutes for a
million events gets fewer (`Peer.largest`), and Seqube runs at that size too, so that every ratio is between equal inputs. The right
answer is the one that most contenders give; a tie goes against Seqube.

The real trace has its trades further apart than a millisecond, so a full run also has windows ten times as long. Its `id` is the
number of shares.
"""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench.data import TRACE
from bench.measure import Measurement, spread
from bench.peers import Answer, Peer, Task, load, peer_names, tasks
from bench.peers.process import PeerError, Process
from seqube.generate import generate

WORKLOAD = "peers"
SEED = 0
MILLION = 1_000_000
BUILD = Path("build/bench/peers")


START_S = 120  # for starting a JVM and compiling
LONG_S = 5  # the first run at a task counts if it takes so long, in a process that has run something before
SHORT_S, LEAST = 0.5, 3  # what takes less is run so often at least, whatever the budget: pages may be cold


class Pace(NamedTuple):
    """How much time there is: repetitions at most, seconds for all of a contender's at one task, seconds for any one run."""

    repetitions: int
    budget_s: float
    limit_s: float


QUICK = Pace(5, 0.6, 120)
FULL = Pace(9, 30, 300)


def measurements(
    quick: bool = False, sizes: tuple[int, ...] = (MILLION,), chosen: Collection[str] | None = None
) -> Iterator[Measurement]:
    """Everyone, or Seqube and those chosen."""
    BUILD.mkdir(parents=True, exist_ok=True)
    adapters = {name: load(name) for name in peer_names() if not chosen or name in {"seqube_engine", *chosen}}
    absent = {name: reason for name, adapter in adapters.items() if (reason := adapter.missing())}
    for name, reason in absent.items():
        yield Measurement(WORKLOAD, "skipped", adapters[name].name, 0, None, right=True, note=reason)
    processes = {name: Process(name, BUILD / f"{name}.log") for name in adapters if name not in absent}
    pace = QUICK if quick else FULL
    try:
        for size in sizes:
            for task in tasks().values():
                yield from _by_size(task, size, adapters, processes, pace, quick)
        if TRACE.exists():
            events = _keep("trace", trace())
            n_events = pq.read_metadata(TRACE).num_rows
            for stretch in (1,) if quick else (1, 10):
                for task in tasks(stretch).values():
                    label = f"trace Q-{task.name}" + (f" x{stretch}" if stretch > 1 else "")
                    yield from contest(label, task, events, n_events, adapters, processes, pace)
        else:
            yield Measurement(WORKLOAD, "skipped", "real trace", 0, None, right=True, note=f"no {TRACE.name} in SEQUBE_DATA")
    finally:
        for process in processes.values():
            process.end()


def _by_size(
    task: Task, size: int, adapters: dict[str, Peer], processes: dict[str, Process], pace: Pace, quick: bool
) -> Iterator[Measurement]:
    """The task at its size for all that can do it, then at the smaller sizes of those that cannot."""
    share = {name: min(size, adapters[name].largest.get(task.name, size)) if quick else size for name in processes}
    for n_events in sorted(set(share.values()), reverse=True):
        chosen = {name: processes[name] for name, most in share.items() if most == n_events or name == "seqube_engine"}
        events = _keep(f"stock20-{n_events}", stock20(n_events))
        yield from contest(f"Q-{task.name}", task, events, n_events, adapters, chosen, pace)


# ---------------------------------------------------------------- events


def stock20(n_events: int) -> pa.Table:
    return _numbered(generate("stock", n_events, SEED).select(["ts", "type", "id", "price"]))


def trace() -> pa.Table:
    """The real trades, with times in ms from the first."""
    table = pq.read_table(TRACE)
    times = table.column("ts").to_numpy().astype("datetime64[ms]").astype(np.int64)
    return _numbered(
        pa.table(
            {
                "ts": times - times[0],
                "type": table.column("ticker"),
                "id": pc.cast(table.column("shares"), pa.int64()),
                "price": table.column("price"),
            }
        )
    )


def _numbered(table: pa.Table) -> pa.Table:
    return table.append_column("row", pa.array(np.arange(len(table)))).combine_chunks()


def _keep(name: str, table: pa.Table) -> Path:
    """The events as a file that every process can read."""
    path = (BUILD / f"{name}.arrow").resolve()
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return path


# ---------------------------------------------------------------- measuring


def contest(
    label: str, task: Task, events: Path, n_events: int, adapters: dict[str, Peer], processes: dict[str, Process], pace: Pace
) -> Iterator[Measurement]:
    """One task for everyone: a first run for warming up and for the answer, then in turns."""
    answers: dict[str, Answer] = {}
    replies: dict[str, list[dict[str, Any]]] = {}
    failures: dict[str, str] = {}
    for name, process in processes.items():
        try:
            process.prepare(events, START_S + pace.limit_s)
            reply = process.run(task, pace.limit_s)
            answers[name] = Answer(reply["count"], reply["checksum"])
            replies[name] = [reply] if reply["seconds"] > LONG_S and process.n_runs > 1 else []
        except PeerError as error:
            failures[name] = str(error)
    truth = agreed(answers)
    _take_turns(task, {name: processes[name] for name in answers if answers[name] == truth}, truth, pace, replies, failures)
    for name, process in processes.items():
        common = (WORKLOAD, label, adapters[name].name, n_events)
        about = {"query": task.short, "window": task.window, "data": label.partition("Q-")[0].strip() or "stock20"}
        if name in failures:
            yield Measurement(*common, None, right=True, note=failures[name], about=about)
        elif answers[name] != truth:
            note = f"found {answers[name]}, the others {truth}"
            yield Measurement(*common, answers[name].count, right=False, note=note, about=about)
        else:
            walls, cpus = ([reply[key] for reply in replies[name] if reply[key] is not None] for key in ("seconds", "cpu_s"))
            peaks = [reply["peak_mb"] for reply in replies[name] if reply["peak_mb"] is not None]
            yield Measurement(
                *common,
                answers[name].count,
                right=True,
                wall_s=statistics.median(walls),
                spread_s=spread(walls),
                cpu_s=statistics.median(cpus) if cpus else None,
                peak_mb=max(peaks, default=None),
                repetitions=len(walls),
                prepare_s=process.prepare_s,
                cores=adapters[name].cores,
                about=about | {"checksum": f"{answers[name].checksum:x}"},
                note="" if Counter(answers.values())[truth] > 1 else "nobody else answered: not confirmed",
            )


def _take_turns(
    task: Task,
    processes: dict[str, Process],
    truth: Answer | None,
    pace: Pace,
    replies: dict[str, list[dict[str, Any]]],
    failures: dict[str, str],
) -> None:
    """Repeat until there are enough, or, for the slow, until their time is used up; everyone gets at least one."""
    spent_s = {name: sum(reply["seconds"] for reply in replies[name]) for name in processes}
    for _ in range(pace.repetitions):
        for name, process in processes.items():
            done, least = len(replies[name]), LEAST if spent_s[name] < SHORT_S * len(replies[name]) else 1
            if name in failures or (spent_s[name] > pace.budget_s and done >= least):
                continue
            began = time.perf_counter()
            try:
                reply = process.run(task, pace.limit_s)
            except PeerError as error:
                failures[name] = str(error)
                continue
            if Answer(reply["count"], reply["checksum"]) == truth:
                replies[name].append(reply)
            else:
                failures[name] = "another run gave another answer"
            spent_s[name] += time.perf_counter() - began


def agreed(answers: dict[str, Answer]) -> Answer | None:
    """The answer most contenders give; where two are equally common, not Seqube's."""
    votes = Counter(answers.values())
    ours = answers.get("seqube_engine")
    return max(votes, key=lambda answer: (votes[answer], answer != ours), default=None)
