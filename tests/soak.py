"""Random cases for as long as you have: rounds of every property, hostile inputs, Spark and kills, each from its own seed.

    make soak                              30 minutes
    make soak SOAK_MINUTES=480
    make soak SOAK_SEED=1234567            begins with the round of that seed: what failed there fails again

A round draws new queries, streams, hierarchies, workloads and rules for every property there is: what the engine finds is what the
oracle finds, by every strategy, alone and shared, whole, cut, sliced and in batches. Every fourth round also goes through real
Spark, batch and stream; the first kills a running pipeline now and then and compares what it wrote. The first failure ends it.

Invariant: a round depends on its seed alone (kills fall where they fall).
"""

# ruff: noqa: T201 - it is a program

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import time
from pathlib import Path

TESTS = Path(__file__).resolve().parent
EXAMPLES = "60"  # cases of each property in one round: a round takes some minutes
INPUTS = "300000"  # hostile ones in one round
KILLS = "25"

PYTEST = [sys.executable, "-m", "pytest", "-q", "--no-header", "-p", "no:cacheprovider"]


def steps(seed: int, number: int) -> dict[str, list[str]]:
    """The commands of a round, by name."""
    drawn = f"--hypothesis-seed={seed}"
    apart = ["--ignore", str(TESTS / "spark"), "--ignore", str(TESTS / "explorer"), "--ignore", str(TESTS / "bench")]
    fuzzing = str(TESTS / "hardening" / "fuzzing.py")
    found = {
        "properties": [*PYTEST, "-n", "2", "-m", "hypothesis", drawn, str(TESTS), *apart],
        "slices": [*PYTEST, "-m", "hypothesis", drawn, str(TESTS / "spark" / "test_slices.py")],
        "hostile inputs": [sys.executable, fuzzing, "--inputs", INPUTS, "--minutes", "5", "--seed", str(seed)],
    }
    if number % 4 == 0:
        found["spark"] = [*PYTEST, "-m", "hypothesis", drawn, str(TESTS / "spark" / "test_random.py")]
        found["runs on spark"] = [*PYTEST, "-m", "slow", drawn, str(TESTS / "spark" / "test_random_runs.py")]
    if number == 0:
        found["kills"] = [*PYTEST, "-m", "slow", str(TESTS / "spark" / "test_faults.py")]
    return found


def asked_for(**numbers: str) -> argparse.Namespace:
    """How long it is to go on, the first seed (the one that was asked for, or any), and other whole numbers, with their meaning."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**9))
    for name, meaning in numbers.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=0, help=meaning)
    return parser.parse_args()


def main() -> None:
    asked = asked_for()
    minutes, first = asked.minutes, asked.seed
    environment = os.environ | {"SEQUBE_EXAMPLES": os.environ.get("SEQUBE_EXAMPLES", EXAMPLES), "SEQUBE_KILLS": KILLS}
    ends = time.monotonic() + 60 * minutes
    number = 0
    while time.monotonic() < ends:
        seed = first + number
        for name, command in steps(seed, number).items():
            left = ends - time.monotonic()
            if left <= 0:
                break
            began = time.monotonic()
            done = subprocess.run(command, cwd=TESTS.parent, env=environment, capture_output=True, text=True, check=False)
            seconds = time.monotonic() - began
            said = [line for line in done.stdout.strip().split("\n") if line.strip("= ")]
            print(f"seed {seed}  {name:<14} {seconds:>5.0f} s  {said[-1] if said else ''}", flush=True)
            if done.returncode != 0:
                print(f"{done.stdout}\n{done.stderr}\n{name} failed; to see it again:\n\n    make soak SOAK_SEED={seed}\n")
                sys.exit(1)
        number += 1
    print(f"no failure in {number} rounds of {minutes:g} minutes, seeds {first} to {first + max(number, 1) - 1}")


if __name__ == "__main__":
    main()
