"""A pipeline on a standalone cluster to which bad things happen, for as long as you have: it writes what a batch finds.

    make chaos                                        30 minutes
    make chaos CHAOS_MINUTES=480 CHAOS_SEED=7
    make chaos CHAOS="--driver-kills 100 --executor-kills 50"     until there were so many, or the minutes are over

A round is a stream of files into a pipeline with queries that stay and queries that come and go. Its driver and executors are
killed, its queries are edited, its state is cut into other buckets, it is stopped politely; its checkpoint is slow, its disk full,
its sink takes nothing for a minute, clocks jump: those of its processes and of who writes its files. What happens mostly ends in a
kill, at a random moment. At the end the stream is drained, and what stands in the sink is compared with what a batch finds: nothing
lost, nothing twice. The first difference ends it, and the folder of that round is kept.

A slow disk and a clock that jumps are made by a library that processes are started with (chaos.c), where there is a compiler for
it. A full disk is a limit on the length of files, which every process can be given while it runs.

Invariant: what happens in a round is drawn from its seed; when it happens depends on the machine.
"""

# ruff: noqa: T201 - it is a program

from __future__ import annotations

import os
import random
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

TESTS = Path(__file__).resolve().parent
sys.path[:0] = [str(TESTS), str(TESTS / "spark"), str(TESTS.parent)]

import pyarrow as pa  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402
from bench.standalone import Cluster, standalone  # noqa: E402
from pipelines import FREE, PAIRS, WAITS, add_file, expected, results, write_pipeline  # noqa: E402

import conftest  # noqa: E402, F401 - settings of Spark and the folder of what is compiled
from seqube.generate import generate  # noqa: E402
from soak import asked_for  # noqa: E402

STEADY = {"pairs": PAIRS, "waits": WAITS, "free": FREE}
COUNTED = PAIRS.replace("RETURN r.id AS tool, r.ts AS a, w.ts AS b", "AGG COUNT(*) AS n GROUP BY r.id")
SOON = "100 milliseconds"
N_FILES, FILE_ROWS = 24, 150
PATIENCE = 300.0  # seconds that a driver may take to its next micro-batch
REFUSING = 60.0  # seconds
DAY = 86_400
SUBMIT = b"org.apache.spark.deploy.SparkSubmit"  # by which the Java of a driver is known


class WrongError(Exception):
    """The stream has not done what it promises."""


class Bent:
    """The disk and the clock of processes that are started with the library; none where there is no compiler."""

    def __init__(self, folder: Path) -> None:
        self.library, self.file, self.place = folder / "chaos.so", folder / "control", "/out/checkpoint"
        self.set()
        compiler = shutil.which("cc")
        self.is_there = compiler is not None
        if compiler is not None:
            subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-o", self.library, TESTS / "chaos.c", "-ldl"], check=True)

    def set(self, slow_ms: int = 0, ahead_s: int = 0) -> None:
        with self.file.open("r+b" if self.file.exists() else "wb") as file:
            file.write(struct.pack("qq", 1_000 * slow_ms, ahead_s))

    @property
    def environment(self) -> dict[str, str]:
        if not self.is_there:
            return {}
        return {"LD_PRELOAD": str(self.library), "CHAOS_CONTROL": str(self.file), "CHAOS_PLACE": self.place}


@dataclass
class Round:
    """One stream, and what happens to it."""

    seed: int
    folder: Path
    cluster: Cluster
    bent: Bent
    happened: Counter[str]
    n_files: int = 0
    n_edits: int = 0
    heard: int = 0  # how much was said before the last start
    chance: random.Random = field(init=False)
    table: pa.Table = field(init=False)

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.table = generate("hospital", N_FILES * FILE_ROWS, seed=self.seed)
        (self.folder / "in").mkdir(parents=True)

    @property
    def checkpoint(self) -> Path:
        return self.folder / "out" / "checkpoint"

    # ------------------------------------------------------------ the stream

    def came(self) -> dict[str, str]:
        """Queries that came with the last edits."""
        return {f"came{n}": (PAIRS, COUNTED)[n % 2] for n in range(max(0, self.n_edits - 2), self.n_edits)}

    def write(self) -> Path:
        """The pipeline file: queries that stay, those that came, and one that is another after every edit."""
        edited = {"edited": PAIRS.replace("30 min", f"{10 + self.n_edits} min")}
        return write_pipeline(self.folder, {**STEADY, **self.came(), **edited}, trigger=SOON)

    def come(self, n: int = 2) -> bool:
        """The next files, if there are any."""
        before = self.n_files
        for _ in range(min(n, N_FILES - self.n_files)):
            add_file(self.folder, str(self.n_files), self.table.slice(self.n_files * FILE_ROWS, FILE_ROWS))
            self.n_files += 1
        return self.n_files > before

    def start(self, *options: str) -> subprocess.Popen[bytes]:
        local = self.folder.parent / "local"
        once = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # what lives for seconds
        settings = {
            "spark.sql.shuffle.partitions": 4,
            "spark.driver.memory": "1g",
            "spark.executor.memory": "768m",
            "spark.executor.extraJavaOptions": f"{once} -Duser.timezone=UTC",
            "spark.executorEnv.SEQUBE_CACHE": os.environ["SEQUBE_CACHE"],  # what one has compiled is there for all
            **{f"spark.executorEnv.{name}": value for name, value in self.bent.environment.items()},
        }
        command = [sys.executable, "-m", "seqube", "pipeline", str(self.write()), "--master", self.cluster.url, *options]
        for name, value in settings.items():
            command += ["--conf", f"{name}={value}"]
        environment = {
            **os.environ,
            **self.bent.environment,
            "SPARK_LOCAL_DIRS": str(local),
            "TMPDIR": str(local),
            "SPARK_SUBMIT_OPTS": f"{once} -Djava.io.tmpdir={local}",
        }
        self.happened["starts"] += 1
        with (self.folder / "said").open("ab") as said:
            self.heard = said.tell()
            return subprocess.Popen(command, start_new_session=True, stdout=said, stderr=said, env=environment)

    def said(self) -> str:
        """What the driver that was started last has said."""
        return (self.folder / "said").read_bytes()[self.heard :].decode(errors="replace")

    def steps(self) -> int:
        """A number that is another one after a micro-batch was begun or finished, in whatever section of the stream."""
        logs = self.checkpoint.glob("**/[oc]*s/[0-9]*")
        return hash(frozenset(str(file) for file in logs if file.name.isdigit()))

    def waits(self, process: subprocess.Popen[bytes], until: Callable[[], bool], patience: float = PATIENCE) -> bool:
        """Wait for something; False where the process has ended before."""
        ends = time.monotonic() + patience
        while process.poll() is None:
            if until():
                return True
            if time.monotonic() > ends:
                raise WrongError(f"nothing moved for {patience:g} seconds")
            time.sleep(0.05)
        return False

    def moves(self, process: subprocess.Popen[bytes], may_end: bool = False) -> bool:
        """Wait until it has begun or finished something; False where it has ended, as it may where it was wronged."""
        before = self.steps()
        if self.waits(process, lambda: self.steps() != before):
            return True
        if not may_end or process.returncode == 0:
            raise WrongError(f"the driver ended with {process.returncode}, and nothing was done to it")
        self.happened["streams that stopped with an error"] += 1
        return False

    def running(self) -> subprocess.Popen[bytes]:
        """A driver that has something to do, and has begun; with two files, it begins, finishes and begins at least."""
        self.come()
        process = self.start()
        for _ in range(self.chance.randint(1, 3)):
            self.moves(process)
        return process

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        """Kill a driver: all of it, or Java or Python alone, as the machine does it when memory is short."""
        whole = self.chance.random() < 0.7
        one = self.chance.choice([process.pid, *java_of(process.pid)])
        if process.poll() is None:
            self.happened["drivers killed"] += 1
            if whole:
                os.killpg(process.pid, signal.SIGKILL)
            else:
                send(one, signal.SIGKILL)
        try:
            code = process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise WrongError("the driver goes on without Java") from None
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        if code == 0:
            raise WrongError("a driver that was killed ended as if all was well")

    def sleep(self, most: float) -> None:
        time.sleep(self.chance.uniform(0, most))

    def kill_executors(self, n: int) -> None:
        for _ in range(n):
            self.sleep(2)
            self.happened["executors killed"] += self.cluster.kill_executor(self.chance)

    # ------------------------------------------------------------ what happens to it

    def driver(self) -> None:
        process = self.running()
        self.sleep(3)
        self.kill(process)

    def early(self) -> None:
        """Killed while it starts, or at whatever it does first; mostly there is nothing new for it."""
        self.come(self.chance.choice([0, 0, 1]) if self.n_files else 1)
        process = self.start()
        self.sleep(10)
        self.kill(process)

    def executor(self) -> None:
        process = self.running()
        self.kill_executors(self.chance.randint(1, 5))
        if self.come(1):
            self.moves(process, may_end=True)
        self.kill(process)

    def edit(self) -> None:
        process = self.running()
        self.n_edits += 1
        self.write()
        self.happened["edits"] += 1
        if self.chance.random() < 0.4:
            self.kill_executors(1)
        self.sleep(6)
        self.kill(process)

    def rescale(self) -> None:
        """Of a stream that was killed; half of them are killed in the middle, or lose an executor."""
        if self.n_files == 0:
            self.come()
        process = self.start("--rescale", str(self.chance.choice([4, 8, 16, 24, 64])))
        happens = self.chance.choice(["nothing", "nothing", "driver", "executor"])
        if happens != "nothing":
            before = {file.name for file in self.checkpoint.glob("rescaled-*")}
            self.waits(process, lambda: {file.name for file in self.checkpoint.glob("rescaled-*")} != before)
            self.sleep(3)
        if happens == "driver" and process.poll() is None:
            self.happened["rescalings killed"] += 1
            self.kill(process)
            return
        if happens == "executor":
            self.kill_executors(1)
        if process.wait(PATIENCE) == 0:
            self.happened["rescalings"] += 1
        elif happens == "nothing":
            raise WrongError("--rescale failed")

    def stop(self) -> None:
        """Politely: the driver alone, or Java with it."""
        process = self.running()
        self.sleep(2)
        if self.chance.random() < 0.5:
            process.terminate()
        else:
            os.killpg(process.pid, signal.SIGTERM)
        if process.wait(PATIENCE) != 0 or "\tat " in self.said() or "Traceback" in self.said():
            raise WrongError(f"a polite stop ended with {process.returncode}")
        self.happened["polite stops"] += 1

    def slow(self) -> None:
        """Every file of the checkpoint takes its time, from the start or from some moment on."""
        with self.bending(slow_ms=self.chance.choice([5, 20, 60])):
            process = self.running()
            self.sleep(6)
            self.kill(process)
        self.happened["slow checkpoints"] += 1

    def jump(self) -> None:
        """The clock of all processes, while they run."""
        process = self.running()
        with self.bending(ahead_s=self.chance.choice([-DAY, -60, 60, 3_600, 90 * DAY])):
            self.come(1)
            self.sleep(8)
            self.kill(process)
        self.happened["clocks that jumped"] += 1

    def ahead(self) -> None:
        """The clock of who writes files is far ahead, and then right again."""
        if not self.come(1):
            return
        file = self.folder / "in" / f"{self.n_files - 1}.parquet"
        os.utime(file, (90 * DAY, 90 * DAY))
        process = self.start()
        self.waits(process, lambda: any(file.name in log.read_text() for log in self.checkpoint.glob("**/sources/*/[0-9]*")))
        self.sleep(2)
        self.kill(process)
        self.happened["files of a clock that was ahead"] += 1

    def full(self) -> None:
        """No process can make a file longer, for some seconds: the driver with the checkpoint, or executors with the state."""
        process = self.running()
        whose = [process.pid, *java_of(process.pid)] if self.chance.random() < 0.5 else self.cluster.executors()
        limits = {}
        for pid in whose:
            with suppress(OSError):
                limits[pid] = resource.prlimit(pid, resource.RLIMIT_FSIZE)
                resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, limits[pid][1]))
        self.come(1)
        with suppress(subprocess.TimeoutExpired):
            process.wait(self.chance.uniform(2, 15))
        for pid, limit in limits.items():
            with suppress(OSError):
                resource.prlimit(pid, resource.RLIMIT_FSIZE, limit)
        self.happened["full disks"] += 1
        self.kill(process)

    def refuse(self) -> None:
        """A file stands where the folder of matches should be; whoever watches the stream starts it again and again."""
        place, away = self.folder / "out" / "matches", self.folder / "out" / "matches-away"
        place.parent.mkdir(exist_ok=True)
        if place.exists():
            place.rename(away)
        place.write_text("")
        self.come()
        ends = time.monotonic() + REFUSING
        while time.monotonic() < ends:
            process = self.start()
            with suppress(subprocess.TimeoutExpired):
                process.wait(ends - time.monotonic())
            if process.poll() is not None and "the sink 'matches' cannot be written" not in self.said():
                raise WrongError("a sink that refuses is not named")
            self.kill(process)
        place.unlink()
        if away.exists():
            away.rename(place)
        self.happened["sinks that refused for a minute"] += 1

    @contextmanager
    def bending(self, slow_ms: int = 0, ahead_s: int = 0) -> Iterator[None]:
        self.bent.set(slow_ms, ahead_s)
        try:
            yield
        finally:
            self.bent.set()

    # ------------------------------------------------------------ from beginning to end

    def run(self, is_over: Callable[[], bool], only_kills: bool) -> None:
        often = [self.driver, self.executor, self.edit, self.rescale]
        faults = (
            [self.early, self.early, self.early, *often, self.executor]
            if only_kills
            else [
                *often,
                *often,
                self.early,
                self.stop,
                self.ahead,
                self.full,
                self.refuse,
                *((self.slow, self.jump) if self.bent.is_there else ()),
            ]
        )
        while self.n_files < N_FILES and not is_over():
            fault = self.chance.choice(faults)
            began = time.monotonic()
            fault()
            print(f"seed {self.seed}  {fault.__name__:<8} {time.monotonic() - began:>4.0f} s", flush=True)
        self.come(1 if self.n_files == 0 else 0)
        process = self.start("--drain")
        if process.wait(4 * PATIENCE) != 0:
            raise WrongError("the last run failed")
        self.compare(self.table.slice(0, self.n_files * FILE_ROWS))

    def compare(self, table: pa.Table) -> None:
        for name, query in STEADY.items():
            found, wanted = results(self.folder, name), expected(table, query)
            if found != wanted:
                raise WrongError(f"{name}: {sum((wanted - found).values())} lost, {sum((found - wanted).values())} too many")
            self.happened["matches compared"] += sum(wanted.values())
            files = (self.folder / "out" / "matches" / name).rglob("*.parquet")
            ids = Counter(number for file in files for number in pq.ParquetFile(file).read(["match_id"]).column(0).to_pylist())
            if any(n > 1 for n in ids.values()):
                raise WrongError(f"{name}: a match is there twice")
        edited = results(self.folder, "edited")
        if edited - expected(table, PAIRS) or any(n > 1 for n in edited.values()):
            raise WrongError("edited: rows that no query of that name finds")
        for name, query in self.came().items():  # which have all from some file on
            found = results(self.folder, name)
            if not any(found == expected(table.slice(first * FILE_ROWS), query) for first in range(self.n_files + 1)):
                raise WrongError(f"{name}: not what there is from any file on")


def java_of(pid: int) -> list[int]:
    """The Java of a driver, once it is there; what finds and starts it comes and goes before."""
    found: list[int] = []
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            children = map(int, file.read_text().split())
            found += [child for child in children if SUBMIT in Path(f"/proc/{child}/cmdline").read_bytes()]
    return found


def send(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def main() -> None:
    asked = asked_for(driver_kills="with --executor-kills: only kills, until there were so many", executor_kills="as above")
    first = asked.seed
    place = Path(tempfile.mkdtemp(prefix="seqube-chaos-"))
    began, number = time.monotonic(), 0
    happened: Counter[str] = Counter()
    only_kills = bool(asked.driver_kills or asked.executor_kills)

    def is_over() -> bool:
        is_enough = happened["drivers killed"] >= asked.driver_kills and happened["executors killed"] >= asked.executor_kills
        return time.monotonic() > began + 60 * asked.minutes or (only_kills and is_enough)

    bent = Bent(place)
    with standalone(place / "cluster") as cluster:
        while number == 0 or not is_over():
            one = Round(first + number, place / str(first + number), cluster, bent, happened)
            try:
                one.run(is_over, only_kills)
            except WrongError as wrong:
                print(one.said()[-4000:], dict(happened), wrong, sep="\n")
                print(f"{one.folder} has what there is; to see it again:\n\n    make chaos CHAOS_SEED={one.seed}\n")
                sys.exit(1)
            for left in [*(place / "cluster").glob("work*/app-*"), place / "local", one.folder]:
                shutil.rmtree(left, ignore_errors=True)
            number += 1
    shutil.rmtree(place)
    minutes = (time.monotonic() - began) / 60
    print(f"{number} streams in {minutes:.0f} minutes, seeds {first} to {first + number - 1}: nothing lost, nothing twice")
    for what, n in sorted(happened.items()):
        print(f"  {what:<{max(map(len, happened))}} {n:>7,}")
    if not bent.is_there:
        print("  no compiler for chaos.c: no disk was slow, and no clock of a process jumped")


if __name__ == "__main__":
    main()
