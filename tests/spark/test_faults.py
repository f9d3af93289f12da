"""What goes wrong around a pipeline ends in a clear error or in the quarantine; once mended and started again, nothing is lost."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pipelines import FREE, PAIRS, WAITS, add_file, expected, results, write_pipeline
from tables import with_end

import seqube as sq
from seqube.generate import generate
from seqube.spark.streaming.checkpoint import hold
from seqube.spark.streaming.declaration import read_declaration
from seqube.spark.streaming.pipeline import Counts, run_stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KILLS = int(os.environ.get("SEQUBE_KILLS", "3"))  # `make soak` asks for more
SEED = int(os.environ.get("SEQUBE_SEED", "13"))  # of the moments of kills: some kills at a time are as good as many at once
QUERIES = {"pairs": PAIRS, "waits": WAITS, "free": FREE}
COMMAND = [sys.executable, "-m", "seqube", "pipeline"]


@pytest.fixture(scope="module")
def day() -> pa.Table:
    return with_end(generate("hospital", 900, seed=8))


def thirds(table: pa.Table) -> list[pa.Table]:
    n = table.num_rows // 3
    return [table.slice(0, n), table.slice(n, n), table.slice(2 * n)]


def quarantined(folder: Path) -> list[dict[str, object]]:
    files = sorted((folder / "out" / "quarantine").rglob("*.parquet"))
    return [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]


def check_all(folder: Path, table: pa.Table, queries: dict[str, str]) -> None:
    """The sink is that of a run without a fault: nothing lost, nothing twice."""
    for name, query in queries.items():
        wanted = expected(table, query)
        assert results(folder, name) == wanted, name
        assert sum(wanted.values()) > 0


# ---------------------------------------------------------------- what comes in


@pytest.mark.slow  # in the everyday run: rows that are poison, below
def test_a_file_that_cannot_be_read(spark: SparkSession, tmp_path: Path, day: pa.Table) -> None:
    """It stops the stream; repaired, it is read as if nothing had been."""
    first, second, third = thirds(day)
    add_file(tmp_path, "1", first)
    add_file(tmp_path, "2", second)
    broken = tmp_path / "in" / "2.parquet"
    whole = broken.read_bytes()
    middle = len(whole) // 2
    broken.write_bytes(whole[: middle - 200] + bytes(400) + whole[middle + 200 :])  # its footer is in order, its pages are not
    os.utime(broken, (2_000, 2_000))
    file = write_pipeline(tmp_path, {"pairs": PAIRS})
    with pytest.raises(sq.DataError, match=r"(?s)cannot be read.*2\.parquet.*nothing is lost"):
        run_stream(read_declaration(file))
    broken.write_bytes(whole)
    os.utime(broken, (2_000, 2_000))
    add_file(tmp_path, "3000", third)
    run_stream(read_declaration(file))
    check_all(tmp_path, day, {"pairs": PAIRS})


def test_rows_that_are_poison(spark: SparkSession, tmp_path: Path) -> None:
    """Times at the edge of 64 bits, values of no kind, lines that are no rows: all in the quarantine, none stops the stream."""
    times = [10, 20, 2**63 - 1, -(2**63), 10**17, None, 30, 40]
    rows = [{"type": "AB"[number % 2], "ts": moment, "id": 1} for number, moment in enumerate(times)]
    lines = [json.dumps(row) for row in rows]
    lines[2:2] = [
        '{"type": "A", "ts": "soon", "id": 1}',
        '{"type": "B", "ts": 15, "id"',
        '{"type": "A", "ts": 16, "id": -5}',
        "\0\0",
    ]
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.json").write_text("\n".join(lines) + "\n")
    columns = {"type": "string", "ts": "bigint", "id": {"type": "bigint", "min": 0}}
    source = {"format": "json", "path": "in", "unit": "s", "lateness": "1 second"}
    query = "SEQ(A a, B b, [id]) WITHIN 15 RETURN a.ts AS first, b.ts AS last"
    file = write_pipeline(tmp_path, {"q": query}, source=source, schema=columns)
    counts = run_stream(read_declaration(file))
    assert counts.read == 12
    assert (counts.used, counts.quarantined) == (4, 8)
    reasons = Counter(row["reason"] for row in quarantined(tmp_path))
    assert reasons == {
        "time is out of range": 3,
        "no time": 1,
        "the line does not fit the declared columns": 3,
        "id is less than 0": 1,
    }
    (tmp_path / "in" / "2.json").write_text('{"type": "End", "ts": 1000, "id": 1}\n')
    run_stream(read_declaration(file))
    good = pa.table({"type": ["A", "B", "A", "B"], "ts": [10, 20, 30, 40], "id": [1] * 4})
    assert results(tmp_path, "q") == Counter(repr(row) for row in sq.run(query, good, unit="s").table.to_pylist())


@pytest.mark.slow  # in the everyday run: checkpoints of others, below
def test_columns_that_change_between_restarts(spark: SparkSession, tmp_path: Path, day: pa.Table) -> None:
    """A column more or less is taken as it comes; one of another type stops the stream before it reads a row."""
    first, second, third = thirds(day)
    source = {"format": "parquet", "path": "in", "lateness": "1 minute", "options": {"maxFilesPerTrigger": 1, "mergeSchema": True}}
    file = write_pipeline(tmp_path, {"pairs": PAIRS}, source=source)
    add_file(tmp_path, "1", first)
    run_stream(read_declaration(file))

    add_file(tmp_path, "2", second.append_column("colour", pa.array(["red"] * second.num_rows)).drop_columns(["weight"]))
    run_stream(read_declaration(file))

    # Another type in one file: that file, not what was there before, is wrong.
    wrong = third.set_column(third.schema.get_field_index("id"), "id", third.column("id").cast(pa.string()))
    add_file(tmp_path, "3", wrong)
    with pytest.raises(sq.DataError, match="the columns of its files do not fit together"):
        run_stream(read_declaration(file))
    add_file(tmp_path, "3", third)
    run_stream(read_declaration(file))
    check_all(tmp_path, day, {"pairs": PAIRS})

    # Another type in all of them: what was remembered would not be found again.
    for path in (tmp_path / "in").glob("*.parquet"):
        table = pq.ParquetFile(path).read()
        add_file(
            tmp_path, path.stem, table.set_column(table.schema.get_field_index("id"), "id", table.column("id").cast(pa.string()))
        )
    with pytest.raises(sq.DataError, match="columns of other types: id was 'bigint' and is 'string'"):
        run_stream(read_declaration(file))


@pytest.mark.slow
def test_files_of_a_clock_that_was_ahead(spark: SparkSession, tmp_path: Path, day: pa.Table) -> None:
    """Those that come after it with earlier times are read."""
    file = write_pipeline(tmp_path, {"pairs": PAIRS})
    for number, part in enumerate(thirds(day)):
        add_file(tmp_path, str(number), part)
        if number == 0:
            os.utime(tmp_path / "in" / "0.parquet", (90 * 86_400, 90 * 86_400))
        run_stream(read_declaration(file))
    check_all(tmp_path, day, {"pairs": PAIRS})


# ---------------------------------------------------------------- the checkpoint


def test_checkpoints_of_others_are_refused(spark: SparkSession, tmp_path: Path, day: pa.Table) -> None:
    add_file(tmp_path, "1", day)
    run_stream(read_declaration(write_pipeline(tmp_path, {"pairs": PAIRS})))
    sinks = {"matches": "elsewhere"}
    with pytest.raises(sq.DataError, match=r"belongs to another pipeline: matches was .*out/matches"):
        run_stream(read_declaration(write_pipeline(tmp_path, {"pairs": PAIRS}, sinks=sinks)))
    seconds = write_pipeline(tmp_path, {"pairs": PAIRS}, source={"path": "in", "unit": "s"})
    with pytest.raises(sq.DataError, match="belongs to another source: unit was 'ms' and is 's'"):
        run_stream(read_declaration(seconds))
    # One that some other program of Spark made.
    (tmp_path / "out" / "checkpoint" / "seqube.json").unlink()
    with pytest.raises(sq.DataError, match="no checkpoint of ours"):
        run_stream(read_declaration(write_pipeline(tmp_path, {"pairs": PAIRS})))
    check_all(tmp_path, day, {"pairs": PAIRS})


def test_one_stream_at_a_time_uses_a_checkpoint(spark: SparkSession, tmp_path: Path, day: pa.Table) -> None:
    add_file(tmp_path, "1", day)
    declared = read_declaration(write_pipeline(tmp_path, {"pairs": PAIRS}))
    assert declared.checkpoint is not None
    program = "import time\nfrom seqube.spark.streaming.checkpoint import hold\n"
    program += f"with hold({declared.checkpoint!r}):\n print(1, flush=True)\n "
    other = subprocess.Popen([sys.executable, "-c", program + "time.sleep(600)"], stdout=subprocess.PIPE)
    try:
        assert other.stdout is not None
        assert other.stdout.readline() == b"1\n"
        with pytest.raises(sq.DataError, match=f"in use by process {other.pid}"):
            run_stream(declared)
    finally:
        other.kill()
        other.wait()
    run_stream(declared)  # the lock went with the process that was killed
    check_all(tmp_path, day, {"pairs": PAIRS})
    with hold(declared.checkpoint):  # and with the stream that ended
        pass


# ---------------------------------------------------------------- interrupted, killed, out of space


def test_ctrl_c_stops_and_a_restart_goes_on(spark: SparkSession, tmp_path: Path, day: pa.Table) -> None:
    for number, part in enumerate(thirds(day)):
        add_file(tmp_path, str(number), part)
    declared = read_declaration(write_pipeline(tmp_path, QUERIES, trigger="1 second"))

    def press(number: int, counts: Counts) -> None:
        os.kill(os.getpid(), signal.SIGINT)

    first = run_stream(declared, press)
    assert first.read is not None
    assert 0 < first.read < day.num_rows
    rest = read_declaration(write_pipeline(tmp_path, QUERIES))
    run_stream(rest)
    check_all(tmp_path, day, QUERIES)


def start(file: Path, *options: str) -> subprocess.Popen[bytes]:
    """The pipeline in processes of its own, which can be signalled together as a terminal does it."""
    return subprocess.Popen([*COMMAND, str(file), *options], start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def wait_for(process: subprocess.Popen[bytes], folder: Path, n: int) -> None:
    """Until the pipeline has written so many entries of its log, or has ended."""
    deadline = time.monotonic() + 180
    while process.poll() is None and len(list(folder.glob("[0-9]*"))) < n and time.monotonic() < deadline:
        time.sleep(0.05)


@pytest.mark.slow
def test_ctrl_c_in_a_terminal(tmp_path: Path, day: pa.Table) -> None:
    for number, part in enumerate(thirds(day)):
        add_file(tmp_path, str(number), part)
    process = start(write_pipeline(tmp_path, {"pairs": PAIRS}, trigger="1 second"))
    wait_for(process, tmp_path / "out" / "checkpoint" / "commits", 1)
    os.killpg(process.pid, signal.SIGINT)
    said, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors.decode()
    assert b"read" in said
    assert b"Traceback" not in errors
    process = start(write_pipeline(tmp_path, {"pairs": PAIRS}))
    _, errors = process.communicate(timeout=600)
    assert process.returncode == 0, errors.decode()
    check_all(tmp_path, day, {"pairs": PAIRS})


@pytest.mark.slow
@pytest.mark.parametrize("whom", ["Python", "Java too"])
def test_a_polite_kill_is_quiet(tmp_path: Path, day: pa.Table, whom: str) -> None:
    """In the first micro-batch and later. Spark would tell of it with its whole stack, and the way back from Python with a thousand
    lines more."""
    for number, part in enumerate(thirds(day)):
        add_file(tmp_path, str(number), part)
    file = write_pipeline(tmp_path, QUERIES, trigger="1 second")
    # What Spark says when it starts, and its worker that declares the state; an empty line follows each of that.
    usual = ("batch ", "WARNING: Using incubator modules", "Starting Streaming", "Streaming TransformWithState")
    for log in ("offsets", "commits"):  # while it matches; while the next one is written by Python
        process = start(file)
        folder = tmp_path / "out" / "checkpoint" / log
        wait_for(process, folder, len(list(folder.glob("[0-9]*"))) + 1)
        time.sleep(0.3)
        process.terminate() if whom == "Python" else os.killpg(process.pid, signal.SIGTERM)
        said, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors.decode()
        assert b"read" in said
        assert [line for line in errors.decode().splitlines() if line and not line.startswith(usual)] == []


@pytest.mark.slow
def test_a_stop_while_python_waits_for_a_job_is_quiet(tmp_path: Path, day: pa.Table) -> None:
    """What Python says about the job that was cancelled is long, and Spark would overflow its stack over it."""
    add_file(tmp_path, "0", day)
    file = write_pipeline(tmp_path, {"pairs": PAIRS}, trigger="1 second")
    program = f"""
import os, signal
from seqube.spark.streaming import pipeline
from seqube.spark.streaming.declaration import read_declaration

def write(out, number, stream, declared):
    os.kill(os.getpid(), signal.SIGTERM)
    out.sparkSession.range(10**13).selectExpr("sum(id)").collect()

pipeline._write_batch = write
pipeline.run_stream(read_declaration({str(file)!r}))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-4000:]
    assert "Error" not in done.stderr
    assert "Exception" not in done.stderr


@pytest.mark.slow
def test_killed_at_random_moments(tmp_path: Path) -> None:
    events = generate("hospital", 6_000, seed=11)
    table = with_end(events)
    bad = pa.Table.from_pylist([{**events.slice(0, 1).to_pylist()[0], "type": None}] * 7, table.schema)
    n_files = 4 * KILLS + 4
    step = -(-table.num_rows // n_files)
    for number in range(n_files):
        add_file(tmp_path, str(number), pa.concat_tables([table.slice(number * step, step), bad]))
    file = write_pipeline(tmp_path, QUERIES)
    logs = tmp_path / "out" / "checkpoint"

    chance = random.Random(SEED)
    for _ in range(KILLS):
        process = start(file)
        # In the middle of a micro-batch, or at any time after one has been committed.
        log = logs / chance.choice(["offsets", "commits"])
        wait_for(process, log, len(list(log.glob("[0-9]*"))) + 1)
        time.sleep(chance.uniform(0, 3))
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
        else:
            assert process.returncode == 0, process.communicate()[1].decode()
    process = start(file)
    _, errors = process.communicate(timeout=1_200)
    assert process.returncode == 0, errors.decode()
    check_all(tmp_path, table, QUERIES)
    assert len(quarantined(tmp_path)) == 7 * n_files
    ids: Counter[int] = Counter()
    for path in (tmp_path / "out" / "matches" / "pairs").rglob("*.parquet"):
        ids.update(pq.ParquetFile(path).read(columns=["match_id"]).column(0).to_pylist())
    assert max(ids.values()) == 1


@pytest.mark.slow
def test_killed_while_queries_change(tmp_path: Path) -> None:
    """The file is edited while the stream runs, and the stream is killed soon after: before it sees that, while it turns to the
    new queries, or later. Queries that stay lose nothing; one that came has all from some file on, and nothing twice. Those of a
    key have one state, those that report EVERY so often another, and what is counted in each is counted together."""
    events = generate("hospital", 9_000, seed=12)
    table = with_end(events)
    n_files = 6 * KILLS + 6
    step = -(-table.num_rows // n_files)
    commits = tmp_path / "out" / "checkpoint" / "commits"
    counted = PAIRS.replace("RETURN r.id AS tool, r.ts AS a, w.ts AS b", "AGG COUNT(*) AS n GROUP BY r.id")
    clocked = f"{counted} EMIT EVERY 10 min"
    steady = {"pairs": PAIRS, "waits": WAITS}
    by_clock = {"clocked": clocked, "seldom": f"{counted} EMIT EVERY 1 h"}

    def come(number: int) -> None:
        for file in range(6 * number, 6 * number + 6):
            add_file(tmp_path, str(file), table.slice(file * step, step))

    def edit(number: int, **more: str) -> Path:
        """Two queries more, those from three edits ago no longer, and one that is another every time."""
        came = {f"came{n}": PAIRS for n in range(max(0, number - 3), number)}
        came |= {f"counted{n}": counted for n in range(max(0, number - 3), number)}
        came |= {f"clocked{n}": clocked for n in range(max(0, number - 3), number)}
        edited = PAIRS.replace("30 min", f"{10 + number} min")
        return write_pipeline(tmp_path, {**steady, **by_clock, **came, "edited": edited}, strategy="prefix-tree", **more)

    chance = random.Random(SEED)
    for number in range(KILLS):
        come(number)
        process = start(edit(number, trigger="100 milliseconds"))
        wait_for(process, commits, len(list(commits.glob("[0-9]*"))) + 1)
        edit(number + 1, trigger="100 milliseconds")
        time.sleep(chance.uniform(0, 6))
        assert process.poll() is None, process.communicate()[1].decode()
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    come(KILLS)
    process = start(edit(KILLS, trigger="available now"))
    _, errors = process.communicate(timeout=1_200)
    assert process.returncode == 0, errors.decode()
    check_all(tmp_path, table, steady)
    check_all(tmp_path, events, by_clock)  # the end of the stream is not reached by the watermark, so no row is due up to there
    edited = results(tmp_path, "edited")
    assert max(edited.values()) == 1
    assert edited <= expected(table, PAIRS)
    for number in range(max(0, KILLS - 3), KILLS):  # those that are there at the end
        for name, query in ((f"came{number}", PAIRS), (f"counted{number}", counted), (f"clocked{number}", clocked)):
            found = results(tmp_path, name)
            assert found in (expected(events.slice(first * step), query) for first in range(n_files)), name
    for number in range(max(0, KILLS - 3)):
        assert results(tmp_path, f"came{number}") <= expected(table, PAIRS)


@pytest.mark.slow
def test_killed_while_it_is_rescaled(tmp_path: Path) -> None:
    """The stream goes on with the buckets it had, or with those it was to have."""
    table = generate("hospital", 300 * KILLS + 300, seed=14)
    checkpoint, chance = tmp_path / "out" / "checkpoint", random.Random(SEED)
    may_be = {16}
    for number in range(KILLS):
        add_file(tmp_path, str(number), table.slice(300 * number, 300))
        file = write_pipeline(tmp_path, QUERIES)
        process = start(file)
        _, errors = process.communicate(timeout=600)
        assert process.returncode == 0, errors.decode()
        assert json.loads((checkpoint / "seqube.json").read_text())["buckets"] in may_be
        before = sorted(checkpoint.glob("rescaled-*"))
        may_be.add(8 + number)
        process = start(file, "--rescale", str(8 + number))
        while process.poll() is None and sorted(checkpoint.glob("rescaled-*")) == before:
            time.sleep(0.02)
        time.sleep(chance.uniform(0, 3))
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    add_file(tmp_path, str(KILLS), table.slice(300 * KILLS))
    process = start(file, "--drain")
    _, errors = process.communicate(timeout=600)
    assert process.returncode == 0, errors.decode()
    check_all(tmp_path, table, QUERIES)


@pytest.mark.slow
def test_no_space_left_for_the_sink(tmp_path: Path) -> None:
    """On a small disk of its own, which is then made larger."""
    apart = ["unshare", "--map-root-user", "--mount"]
    small = "mount -t tmpfs -o size=64k tmpfs"
    (tmp_path / "out").mkdir()
    if shutil.which("unshare") is None or subprocess.run([*apart, *small.split(), str(tmp_path / "out")], check=False).returncode:
        pytest.skip("no small disk can be mounted here")
    table = with_end(generate("hospital", 6_000, seed=11))
    for number, part in enumerate(thirds(table)):
        add_file(tmp_path, str(number), part)
    file = write_pipeline(tmp_path, QUERIES, checkpoint="checkpoint")
    script = f"""
        {small} out
        {" ".join(COMMAND)} {file} 2> errors; echo $? > code
        mount -o remount,size=1g out
        {" ".join(COMMAND)} {file} || exit 1
        cp -r out kept
    """
    subprocess.run([*apart, "sh", "-c", script], cwd=tmp_path, check=True, timeout=900, stdout=subprocess.DEVNULL)
    assert (tmp_path / "code").read_text().strip() == "1"
    assert "no space left" in (tmp_path / "errors").read_text()
    (tmp_path / "out").rmdir()
    (tmp_path / "kept").rename(tmp_path / "out")
    check_all(tmp_path, table, QUERIES)
