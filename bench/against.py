"""Is it as fast as before? `python -m bench.against COMMIT` runs the same tasks by the code of a commit and by the code here.

Each has a process of its own, which is told what to run, and they take turns: what else the machine does falls on both alike. What
is compared is CPU time, that of Spark's processes included, by the median of the rounds. The sources of the commit are put under
build/against, and run by the packages that are installed here. A task that has become slower by more than `--within` fails.

The tasks use what `seqube` has always had: `run`, `Events`, `generate`, and `seqube.spark.run`; the queries are told, because the
workloads of today do not run by the code of yesterday.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from bench.measure import tree_cpu

ROOT = Path(__file__).resolve().parents[1]
HERE = "here"
SPARK = "spark keyed"
TASKS = (*(f"Q-{name}" for name in "abcdef"), SPARK)
SEED = 0
N_KEYS = 10_000

# ---------------------------------------------------------------- in the process of one of the two


def work(n_events: int, folder: str) -> None:
    """Run the tasks that come in, line by line; say the answer and the CPU seconds."""
    for line in sys.stdin:
        task, query = json.loads(line)
        run = prepare(task, query, n_events, folder)
        cpu_clock = tree_cpu if task == SPARK else time.process_time  # the first counts hundredths of a second
        for _ in iter(sys.stdin.readline, "end\n"):
            began = cpu_clock()
            answer = run()
            print(json.dumps({"answer": answer, "cpu_s": cpu_clock() - began}), flush=True)


def prepare(task: str, query: str, n_events: int, folder: str) -> Callable[[], int]:
    import seqube as sq
    from seqube.generate import generate

    if task == SPARK:
        import seqube.spark as sqs

        frame = sqs.session("against").read.parquet(folder)
        return lambda: int(sqs.run(query, frame).count())
    events = sq.Events(generate("stock", n_events, SEED))
    return lambda: sq.run(query, events).table.num_rows


# ---------------------------------------------------------------- in the one that compares


def put_sources(commit: str, folder: Path) -> Path:
    """The sources of a commit, in a folder of their own."""
    packed = subprocess.run(["git", "archive", commit, "src"], cwd=ROOT, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(folder, filter="data")
    return folder / "src"


@contextmanager
def contender(sources: Path, n_events: int, folder: str) -> Iterator[Callable[[str], dict[str, Any]]]:
    """A process that runs what it is told by these sources."""
    paths = os.pathsep.join([str(sources), str(ROOT)])
    settings = os.environ | {"PYTHONPATH": paths, "SEQUBE_CACHE": str(ROOT / "build" / "against" / "cache")}
    command = [sys.executable, "-m", "bench.against", "--work", folder, "--events", str(n_events)]
    process = subprocess.Popen(command, env=settings, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None

    def tell(line: str) -> dict[str, Any]:
        process.stdin.write(line + "\n")  # type: ignore[union-attr]
        process.stdin.flush()  # type: ignore[union-attr]
        if line != "run":
            return {}
        answer = process.stdout.readline()  # type: ignore[union-attr]
        if not answer:
            sys.exit(f"{sources}: the process has ended")
        found: dict[str, Any] = json.loads(answer)
        return found

    try:
        yield tell
    finally:
        process.stdin.close()
        process.wait()


def compare_task(task: str, query: str, contenders: dict[str, Callable[[str], dict[str, Any]]], rounds: int) -> dict[str, float]:
    """The median CPU seconds of each, run in turns after a warm-up; whoever begins, changes."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for tell in contenders.values():
        tell(json.dumps([task, query]))
    answers = {name: tell("run")["answer"] for name, tell in contenders.items()}
    if len(set(answers.values())) > 1:
        sys.exit(f"{task}: the answers differ, {answers}")
    for number in range(rounds):
        for name in list(contenders)[:: 1 if number % 2 else -1]:
            times[name].append(contenders[name]("run")["cpu_s"])
    for tell in contenders.values():
        tell("end")
    return {name: statistics.median(each) for name, each in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.against", description="Compare this code with that of a commit, in turns.")
    parser.add_argument("commit", nargs="?", help="any name that git knows it by")
    parser.add_argument("--task", action="append", choices=TASKS, help="only this one; may be given more than once")
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--within", type=float, default=0.05, help="how much slower is still as fast")
    parser.add_argument("--work", metavar="FOLDER", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work is not None:
        work(options.events, options.work)
        return
    if options.commit is None:
        parser.error("which commit?")
    from bench.workloads.matching import QUERIES
    from bench.workloads.spark import KEYED, write_events

    queries = {f"Q-{name}": query for name, query in QUERIES.items()} | {SPARK: KEYED.format(window=N_KEYS * 4)}
    before = put_sources(options.commit, ROOT / "build" / "against" / options.commit)
    lost = []
    with tempfile.TemporaryDirectory() as folder, ExitStack() as open_:
        write_events(Path(folder), options.events, N_KEYS)
        sources = {options.commit: before, HERE: ROOT / "src"}
        contenders = {name: open_.enter_context(contender(each, options.events, folder)) for name, each in sources.items()}
        for task in options.task or TASKS:
            seconds = compare_task(task, queries[task], contenders, options.rounds)
            ratio = seconds[HERE] / seconds[options.commit]
            lost += [task] if ratio > 1 + options.within else []
            print(f"{task:12} {1e3 * seconds[options.commit]:9.1f} ms before {1e3 * seconds[HERE]:9.1f} ms now {ratio:6.2f}")
    if lost:
        sys.exit(f"slower by more than {options.within:.0%}: {', '.join(lost)}")


if __name__ == "__main__":
    main()
