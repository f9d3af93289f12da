"""Hostile inputs for everything that reads one, from a seed: `surfaces.py` says what there is, and what reads it.

All that may come of an input is an answer or a documented error, in bounded time and memory. Anything else is a fault, and its
bytes go into `corpus/`, where they are a test.

    python tests/hardening/fuzzing.py --inputs 10000000 --minutes 60 --seed 1
    python tests/hardening/fuzzing.py --surface query --inputs 100000 --guided

Each surface has a process of its own, one after the other, so that a crash is a fault of one of them. With `--guided`, Atheris
looks for inputs that reach code which none reached before (`pip install atheris`); without it, inputs are drawn.

Invariant: drawn input k of a seed is always the same bytes.
"""

# ruff: noqa: BLE001, T201 - every error counts here, and it is a program too

from __future__ import annotations

import argparse
import faulthandler
import gc
import hashlib
import json
import os
import random
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import types
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from hardening.hostile import as_text, mutate
from hardening.surfaces import SURFACES
from seqube.errors import SequbeError

HERE = Path(__file__).parent
CORPUS = HERE / "corpus"
MEMORY = 12 << 30  # bytes of addresses: what is mapped, used or not
PROGRESS = 60  # seconds after which it is told how far a surface is
MOST_KEPT = 200  # faults of one sort are one; so many sorts end a run


@dataclass(frozen=True)
class Fault:
    kind: str
    data: bytes
    error: str
    trace: str

    @property
    def sort(self) -> str:
        """Faults that come from one place are one."""
        return self.kind + re.sub(r'File "[^"]*"', "", self.trace[-400:]) if self.trace else self.error


class TooLongError(BaseException):
    """Raised into whatever takes too long; nothing catches it by chance."""


def attempt(kind: str, data: bytes, file: Path) -> str | Fault:
    """What comes of one input: `read`, the name of a documented error, or a fault."""

    def late(*_: object) -> None:
        raise TooLongError

    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, SURFACES[kind].seconds)
    try:
        SURFACES[kind].read(data, file)
    except SequbeError as error:
        try:
            str(error).encode("utf-8", "backslashreplace")
            return type(error).__name__ if len(str(error)) < 1_000_000 else Fault(kind, data, "a message without end", "")
        except Exception as second:
            return Fault(kind, data, repr(second)[:300], traceback.format_exc()[-2_000:])
    except (Exception, TooLongError) as error:
        return Fault(kind, data, repr(error)[:300], traceback.format_exc()[-2_000:])
    else:
        return "read"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def cases(kind: str, seed: int, first: int = 0) -> Iterator[bytes]:
    """What is drawn of a seed, from one number on."""
    surface = SURFACES[kind]
    known = surface.seeds()
    for number in count(first):
        yield surface.make(known, random.Random(f"{seed}/{kind}/{number}"))


@dataclass
class Tally:
    """What came of the inputs of a surface: how often what, and the faults, the shortest of each sort."""

    kind: str
    came: Counter[str] = field(default_factory=Counter)
    faults: dict[str, Fault] = field(default_factory=dict)

    def take(self, data: bytes, file: Path) -> None:
        outcome = attempt(self.kind, data, file)
        if isinstance(outcome, Fault):
            sort = outcome.sort
            if sort not in self.faults or len(data) < len(self.faults[sort].data):
                self.faults[sort] = outcome
            outcome = "fault"
        # What is refused as a whole is one input, however much it holds: nobody has judged the rest.
        self.came[outcome] += SURFACES[self.kind].size(data) if outcome == "read" else 1


def fuzz(
    kind: str, inputs: int, seed: int, seconds: float = float("inf"), watch: Callable[[Tally, int], None] | None = None
) -> Tally:
    """Try so many inputs of a kind, or as many as there is time for; before each, `watch` is told its number."""
    tally = Tally(kind)
    ends = time.monotonic() + seconds
    with scratch() as file:
        for number, data in enumerate(cases(kind, seed)):
            if tally.came.total() >= inputs or time.monotonic() > ends or len(tally.faults) > MOST_KEPT:
                break
            if watch is not None:
                watch(tally, number)
            tally.take(data, file)
    return tally


class scratch:  # noqa: N801 - a context
    """A file in a folder of its own, which is where relative paths lead meanwhile."""

    def __enter__(self) -> Path:
        self._folder = tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
        self._before = Path.cwd()
        os.chdir(self._folder.name)
        return Path(self._folder.name) / "case.yaml"

    def __exit__(self, *_: object) -> None:
        os.chdir(self._before)
        self._folder.cleanup()


# ---------------------------------------------------------------- guided by what is reached


def fuzz_guided(kind: str, inputs: int, seed: int, seconds: float, report: Callable[[Tally], None]) -> None:
    """As `fuzz`, led by coverage of our own code; it ends the process, as libFuzzer does."""
    import atheris

    surface = SURFACES[kind]
    ours = [each for each in gc.get_objects() if isinstance(each, types.FunctionType) and is_followed(each)]
    for function in ours:
        atheris.instrument_func(function)
    known = surface.seeds()
    texts = [as_text(each) for each in known]
    tally = Tally(kind)
    ends = time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as corpus, scratch() as file:
        for number, data in enumerate(known[:2_000]):
            (Path(corpus) / str(number)).write_bytes(data)

        def one(data: bytes) -> None:
            tally.take(data, file)
            if tally.came.total() >= inputs or time.monotonic() > ends or len(tally.faults) > MOST_KEPT:
                report(tally)
                os._exit(0)

        def change(data: bytes, most: int, chance_seed: int) -> bytes:
            """Half by bytes, as libFuzzer does, half by words and by drawing anew."""
            chance = random.Random(chance_seed)
            way = chance.randrange(4)
            if way > 1:
                return bytes(atheris.Mutate(data, most))
            if way == 0 or not surface.words:
                return surface.make(known, chance)[:most]
            return mutate(as_text(data), texts, list(surface.words), chance).encode("utf-8", "surrogatepass")[:most]

        settings = [f"-seed={seed + 1}", "-max_len=20000", "-len_control=0", "-timeout=600", "-rss_limit_mb=0", "-verbosity=0"]
        atheris.Setup(["fuzzing", *settings, corpus], one, custom_mutator=change)
        atheris.Fuzz()


def is_followed(function: types.FunctionType) -> bool:
    """What is compiled must stay as it is; the rest of our code tells when it is reached."""
    module = function.__module__ or ""
    return module.startswith("seqube.") and not module.startswith(("seqube.engine", "seqube.predict", "seqube.errors"))


# ---------------------------------------------------------------- the program


def try_one_surface(asked: argparse.Namespace) -> None:
    """In a process of its own: what it came to is written where `--report` says, now and then and at the end, and beside it which
    input comes next, so that it is known what ended the process."""
    faulthandler.enable()  # who ends a process without a word says where
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    warnings.simplefilter("ignore")
    began = time.monotonic()

    def report(tally: Tally) -> None:
        faults = [f"{keep(fault.kind, fault.data)}: {fault.error}\n{fault.trace}" for fault in tally.faults.values()]
        megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
        told = {"came": dict(tally.came), "faults": faults, "seconds": time.monotonic() - began, "megabytes": megabytes}
        Path(asked.report).write_text(json.dumps(told), "utf-8")

    seconds, told_at = 60 * asked.minutes, began
    if asked.guided:
        fuzz_guided(asked.surface, asked.inputs, asked.seed, seconds, report)
        return
    with next_of(asked.report).open("wb") as place:

        def watch(tally: Tally, number: int) -> None:
            nonlocal told_at
            os.pwrite(place.fileno(), number.to_bytes(8, "big"), 0)
            if time.monotonic() > told_at + PROGRESS / 10:
                told_at = time.monotonic()
                report(tally)

        report(fuzz(asked.surface, asked.inputs, asked.seed, seconds, watch))


def next_of(report: str | Path) -> Path:
    """Where the number of the input stands that is tried."""
    return Path(report).with_suffix(".next")


def keep(kind: str, data: bytes) -> str:
    """What was a fault is a test from now on."""
    place = CORPUS / f"{kind}-{hashlib.sha256(data).hexdigest()[:10]}"
    place.write_bytes(data)
    return place.name


def run_surface(kind: str, inputs: int, asked: argparse.Namespace, minutes: float) -> dict[str, Any]:
    """What a process of its own says of a surface."""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+", errors="replace") as said:
        file = Path(folder) / "report.json"
        command = [sys.executable, __file__, "--surface", kind, "--inputs", str(inputs), "--minutes", str(minutes)]
        command += ["--seed", str(asked.seed), "--report", str(file), *(["--guided"] if asked.guided else [])]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=said)
        told: dict[str, Any] = {"came": {}, "faults": [], "seconds": 0, "megabytes": 0}
        is_running = True
        while is_running:
            with suppress(subprocess.TimeoutExpired):
                process.wait(PROGRESS)
                is_running = False
            with suppress(FileNotFoundError, json.JSONDecodeError):  # there is nothing yet, or it is just being written
                told = json.loads(file.read_text("utf-8"))
            if is_running:
                print(f"{kind:>10} {sum(told['came'].values()):>11,} of {inputs:,}, {len(told['faults'])} faults", flush=True)
        if process.returncode:
            said.seek(0)
            ended = f"the process of {kind} ended with {process.returncode}"
            if process.returncode < 0 and next_of(file).exists():
                number = int.from_bytes(next_of(file).read_bytes(), "big")
                ended += f" at input {number}: {keep(kind, next(cases(kind, asked.seed, number)))}"
            told["faults"].append(f"{ended}\n{said.read()[:6_000]}")
        return told


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--inputs", type=int, default=1_000_000, help="of all surfaces together, by their shares")
    parser.add_argument("--minutes", type=float, default=60, help="for all surfaces together")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--guided", action="store_true", help="by Atheris")
    parser.add_argument("--surface", choices=SURFACES, action="append", help="only this one; may be repeated")
    parser.add_argument("--report", help="where the process of one surface writes what it came to")
    asked = parser.parse_args()
    chosen = asked.surface or list(SURFACES)
    if asked.report:
        asked.surface = chosen[0]
        try_one_surface(asked)
        return
    shares = {kind: SURFACES[kind].share for kind in chosen}
    total, is_faulty = 0, False
    ends = time.monotonic() + 60 * asked.minutes
    for number, (kind, share) in enumerate(shares.items()):
        minutes = (ends - time.monotonic()) / 60 / (len(shares) - number)  # what one leaves over, the others have
        told = run_surface(kind, asked.inputs * share // sum(shares.values()), asked, minutes)
        n = sum(told["came"].values())
        total += n
        outcomes = ", ".join(f"{outcome} {count:,}" for outcome, count in sorted(told["came"].items(), key=lambda each: -each[1]))
        print(f"{kind:>10} {n:>11,} inputs {told['seconds']:>6.0f} s {told['megabytes']:>6,} MB   {outcomes}", flush=True)
        for fault in told["faults"]:
            is_faulty = True
            print(f"\n{fault}\n", flush=True)
    print(f"{'all':>10} {total:>11,} inputs, seed {asked.seed}{', guided by coverage' if asked.guided else ''}")
    sys.exit(is_faulty)


if __name__ == "__main__":
    main()
