"""Measure, and write the report: `python -m bench [--full] [--resume] [--peer NAME] [--task NAME] [--no-report] [WORKLOAD ...]`.

Every workload writes its JSON lines to build/bench; the report is made from them and from those it was made from before. A run that
was ended before it was done left a draft there, task by task, which `--resume` goes on with: a long run may be made in pieces.
"""

from __future__ import annotations

import argparse
import importlib
import json
import pkgutil
import signal
import sys
import time
import traceback
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import IO, Any

from rich.console import Console
from rich.table import Table

import bench.workloads
from bench.measure import Measurement, about_this_run, as_line, from_line, remember
from bench.peers import peer_names

OUT = Path("build/bench")


def workload_names() -> list[str]:
    """Every module in bench/workloads, the peers first."""
    return sorted(
        (module.name for module in pkgutil.iter_modules(bench.workloads.__path__)), key=lambda name: (name != "peers", name)
    )


def main() -> None:
    known = workload_names()
    parser = argparse.ArgumentParser(prog="bench", description="Measure Seqube and its peers, and write the report.")
    parser.add_argument("workloads", nargs="*", help=f"of {', '.join(known)}; all by default")
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--quick", action="store_true", help="smaller sizes and fewer repetitions (the default)")
    mode.add_argument("--full", action="store_true", help="full sizes; takes hours with all peers")
    parser.add_argument("--no-peers", action="store_true", help="Seqube alone")
    parser.add_argument(
        "--peer", action="append", choices=peer_names(), help="only this one of the peers, beside Seqube", dest="chosen"
    )
    parser.add_argument("--task", action="append", help="only this task of a workload on Spark: slices, stream, ...", dest="tasks")
    parser.add_argument("--resume", action="store_true", help="go on with a run of this commit that was ended before it was done")
    parser.add_argument("--remark", help="what a reader of the page should know of this run, a sentence")
    parser.add_argument("--no-report", action="store_true", help="measure only")
    parser.add_argument("--out", type=Path, default=OUT, help="the folder for JSON lines")
    options = parser.parse_args()
    if unknown := set(options.workloads) - set(known):
        parser.error(f"no workload called {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    options.out.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # an exit ends the processes of peers; a signal would not
    console = Console()
    wanted = [name for name in options.workloads or known if name != "peers" or not options.no_peers]
    chosen = {"peers": options.chosen, "spark": options.tasks}
    how = (not options.full, options.out, console)
    failed = [name for name in wanted if not run(name, *how, chosen.get(name), options.resume, options.remark)]
    if not options.no_report:
        from bench.report import write_report

        console.print(f"report: {write_report(options.out)}")
    if failed:
        sys.exit(f"not measured to the end: {', '.join(failed)}")


def run(
    name: str,
    quick: bool,
    out: Path,
    console: Console,
    chosen: Sequence[str] | None = None,
    resume: bool = False,
    remark: str | None = None,
) -> bool:
    """One workload, printed and written as it goes; one that breaks off does not stop the others."""
    began = time.perf_counter()
    command = f"python -m bench {'--quick' if quick else '--full'} {name}"
    only = {"chosen": chosen} if chosen else {}
    command += "".join(f" --{'peer' if name == 'peers' else 'task'} {each}" for each in chosen or ())
    measured_as = "-".join((name, *(() if quick else ("full",)), *only.get("chosen", ())))
    draft = out / f"{measured_as}.jsonl.draft"
    about = about_this_run(command)
    done, pieces = already_measured(draft, about["commit"]) if resume else ([], [])
    remember(done)
    if remark:
        about |= {"remarks": [remark]}
    if pieces:
        about |= {"pieces": [*pieces, {"at": about["at"], "load": about["load"]}]}
    lines = [json.dumps(about)]
    with draft.open("w", encoding="utf-8") as file:
        file.writelines(line + "\n" for line in (*lines, *map(as_line, done)))
        file.flush()
        try:
            measured = importlib.import_module(f"bench.workloads.{name}").measurements(quick, **only)
            for task, group in _by_task(_kept(measured, file)):
                lines += map(as_line, group)
                show(console, f"{name}: {task}", group)
        except Exception:  # noqa: BLE001 - a broken workload is reported, and the others are measured
            traceback.print_exc()
            return False
    (out / f"{measured_as}.jsonl").write_text("\n".join((*lines, "")), encoding="utf-8")
    draft.unlink()
    console.print(f"{name} took {time.perf_counter() - began:.0f} s\n")
    return True


def already_measured(draft: Path, commit: str) -> tuple[list[Measurement], list[dict[str, Any]]]:
    """What a draft has, and when its pieces were measured; nothing where there is none, or it is of another commit."""
    if not draft.exists():
        return [], []
    about, *lines = [json.loads(line) for line in draft.read_text(encoding="utf-8").splitlines()]
    if about["commit"] != commit:
        return [], []
    latest = {(line["task"], line["events"], line["contender"]): line for line in lines}
    return list(map(from_line, latest.values())), about.get("pieces", [{"at": about["at"], "load": about["load"]}])


def _kept(measured: Iterable[Measurement], file: IO[str]) -> Iterator[Measurement]:
    """What is measured, written down at once."""
    for measurement in measured:
        file.write(as_line(measurement) + "\n")
        file.flush()
        yield measurement


def _by_task(measured: Iterable[Measurement]) -> Iterator[tuple[str, list[Measurement]]]:
    for (task, events), group in groupby(measured, key=lambda m: (m.task, m.events)):
        yield f"{task}, {events:,} events" if events else task, list(group)


def show(console: Console, title: str, measured: list[Measurement]) -> None:
    """How much faster than the first contender, by CPU time (other work on the machine changes it little), then the numbers."""
    if all(m.wall_s is None and m.right for m in measured):  # nothing was timed: what was found is said
        for m in measured:
            console.print(f"{title}: {m.contender}: {m.note}", soft_wrap=True, highlight=False)
        return
    table = Table(title=title, title_justify="left")
    for column in ("contender", "ratio", "events/s", "ms", "± ms", "CPU ms", "peak MB", "answer"):
        table.add_column(column, justify="left" if column == "contender" else "right", no_wrap=True)
    base = measured[0].cpu_s
    for m in measured:
        if m.wall_s is None:
            table.add_row(m.contender, "" if m.right else "wrong", *[""] * 5, m.note)
            continue
        ratio = f"{base / m.cpu_s:.3g}" if base and m.cpu_s else ""
        times = (f"{1000 * seconds:,.1f}" if seconds is not None else "" for seconds in (m.wall_s, m.spread_s, m.cpu_s))
        peak = "" if m.peak_mb is None else f"{m.peak_mb:,}"
        table.add_row(m.contender, ratio, f"{m.events / m.wall_s:,.0f}", *times, peak, str(m.answer))
    console.print(table)


if __name__ == "__main__":
    main()
