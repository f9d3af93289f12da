"""Run workloads and print what was measured: `python -m bench [--quick] [WORKLOAD ...]`; JSON lines go to build/bench."""

from __future__ import annotations

import argparse
import importlib
import json
from itertools import groupby
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.measure import Measurement, about_this_run, as_line

WORKLOADS = ("matching",)


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench", description="Measure Seqube.")
    parser.add_argument("workloads", nargs="*", default=list(WORKLOADS), help=f"of {', '.join(WORKLOADS)}; all by default")
    parser.add_argument("--quick", action="store_true", help="fewer repetitions and smaller sizes")
    parser.add_argument("--out", type=Path, default=Path("build/bench"), help="the folder for JSON lines")
    options = parser.parse_args()
    if unknown := set(options.workloads) - set(WORKLOADS):
        parser.error(f"no workload called {', '.join(sorted(unknown))}; there are {', '.join(WORKLOADS)}")
    options.out.mkdir(parents=True, exist_ok=True)
    console = Console()
    for name in options.workloads:
        module = importlib.import_module(f"bench.workloads.{name}")
        with (options.out / f"{name}.jsonl").open("w", encoding="utf-8") as file:
            print(json.dumps(about_this_run()), file=file)
            for task, group in groupby(module.measurements(options.quick), key=lambda m: m.task):
                measured = list(group)
                file.writelines(as_line(measurement) + "\n" for measurement in measured)
                show(console, f"{name}: {task}", measured)


def show(console: Console, title: str, measured: list[Measurement]) -> None:
    """How much faster than the first contender, by CPU time (other work on the machine does not change it), then the numbers."""
    table = Table(title=title, title_justify="left")
    for column in ("contender", "ratio", "events/s", "ms", "± ms", "CPU ms", "peak MB", "answer"):
        table.add_column(column, justify="left" if column == "contender" else "right", no_wrap=True)
    base = measured[0].cpu_s
    for m in measured:
        if not m.right or m.wall_s is None or m.spread_s is None or m.cpu_s is None:
            table.add_row(m.contender, "wrong", *[""] * 5, m.note)
            continue
        ratio = f"{base / m.cpu_s:.2f}" if base and m.cpu_s else ""
        numbers = (f"{m.events / m.wall_s:,.0f}", *(f"{1000 * seconds:.1f}" for seconds in (m.wall_s, m.spread_s, m.cpu_s)))
        table.add_row(m.contender, ratio, *numbers, str(m.peak_mb), str(m.answer))
    console.print(table)


if __name__ == "__main__":
    main()
