"""Has a kernel become slower? `python -m bench.guard` compares with what was recorded; `--record` records anew.

What is compared is a ratio: the CPU time of a fixed reference loop (`bench.reference`, which nobody tunes) over Seqube's, both
measured in turns in one run. Machines differ in speed, and so does one machine from hour to hour; the ratio differs little. A loss
of more than a quarter fails, once it has shown in three tries: the best of them counts.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

import seqube as sq
from bench.measure import compare
from bench.reference import as_table, count_three, match
from bench.workloads.matching import QUERIES, SEED
from seqube.generate import generate

RECORD = Path(__file__).with_name("guard.json")
N_EVENTS = 300_000
LOSS = 0.25
TRIES = 3
REPETITIONS = 9

Contenders = dict[str, Callable[[], int]]


def kernels(n_events: int = N_EVENTS) -> dict[str, Contenders]:
    """What is guarded: for each name, the reference loop and Seqube, each giving the same number."""
    events = sq.Events(generate("stock", n_events, SEED))
    types, ids = events.types.astype(np.int64), events.column("id").to_numpy()
    code_of = {name: code for code, name in enumerate(events.type_names)}

    def matching(task: str) -> Contenders:
        return {
            "reference": lambda: as_table(match(task, types, events.times, ids, code_of), events.table).num_rows,
            "seqube": lambda: sq.run(QUERIES[task], events, threads=1).table.num_rows,
        }

    def counting(window: int) -> Contenders:
        text = f"SEQ(DELL a, IPIX b, QQQ c) WITHIN {window} ms AGG COUNT"
        return {
            "reference": lambda: int(count_three(types, events.times, code_of, window).sum()),
            "seqube": lambda: int(sq.run(text, events).table.column("count").to_numpy().sum()),
        }

    return {f"matches Q-{task}": matching(task) for task in QUERIES} | {"COUNT, 1 s": counting(1_000)}


def ratio(name: str, contenders: Contenders) -> float:
    """How many times as fast as the reference loop."""
    reference, ours = compare("guard", name, N_EVENTS, contenders, REPETITIONS)
    if not ours.right:
        sys.exit(f"{name}: {ours.note}")
    assert reference.cpu_s is not None
    assert ours.cpu_s is not None
    return reference.cpu_s / ours.cpu_s


def losses(recorded: dict[str, float], measure: Callable[[str], float]) -> dict[str, float]:
    """The kernels that lost more than allowed in every try, with their best ratio."""
    lost = {}
    for name, before in recorded.items():
        best = 0.0
        for _ in range(TRIES):
            best = max(best, measure(name))
            if best >= (1 - LOSS) * before:
                break
        else:
            lost[name] = best
        print(f"{name:14} {best:6.2f} times the reference loop, recorded {before:.2f}{'   LOST' if name in lost else ''}")
    return lost


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.guard", description="Fail when a kernel has become slower.")
    parser.add_argument("--record", action="store_true", help="take the ratios of this run as the ones to keep")
    options = parser.parse_args()
    guarded = kernels()
    if options.record:
        found = {name: round(ratio(name, contenders), 3) for name, contenders in guarded.items()}
        RECORD.write_text(json.dumps(found, indent=1) + "\n")
        print(RECORD.read_text())
        return
    recorded: dict[str, float] = json.loads(RECORD.read_text())
    if unknown := set(recorded) ^ set(guarded):
        sys.exit(f"recorded and guarded kernels differ: {', '.join(sorted(unknown))}; python -m bench.guard --record")
    if losses(recorded, lambda name: ratio(name, guarded[name])):
        sys.exit(f"lost more than {LOSS:.0%}: see above; if that is meant, python -m bench.guard --record")


if __name__ == "__main__":
    main()
