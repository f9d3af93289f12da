"""On a standalone cluster: the answers of this process, by executors that compile nothing, whatever is killed meanwhile."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml
from bench.standalone import Cluster, standalone
from pipelines import FREE, PAIRS, WAITS, add_file, expected, results, write_pipeline

import postgres
import seqube as sq
from seqube.engine.jit import cache_folder
from seqube.generate import generate

pytestmark = pytest.mark.slow

SEQUBE = [sys.executable, "-m", "seqube"]
FEW = ["--conf", "spark.sql.shuffle.partitions=4"]
KILLS = int(os.environ.get("SEQUBE_KILLS", "3"))
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "pipeline-hospital" / "pipeline.yaml"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with standalone(tmp_path_factory.mktemp("cluster")) as running:
        yield running


def seqube(*arguments: str) -> str:
    done = subprocess.run([*SEQUBE, *arguments], capture_output=True, text=True, check=False, timeout=500)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def compiled(folder: Path) -> int:
    return sum(1 for _ in folder.rglob("*.nbc"))


def test_a_batch_says_what_this_process_says_and_compiles_nothing(cluster: Cluster, tmp_path: Path) -> None:
    pq.write_table(generate("hospital", 2_000, seed=1), tmp_path / "day.parquet")
    command = ["run", "--query", PAIRS, "--events", str(tmp_path / "day.parquet"), "--format", "json"]
    here = seqube(*command)
    seqube(*command, "--spark")  # which compiles what is missing
    there = seqube(*command, "--spark", "--master", cluster.url, *FEW)
    assert here.strip()
    assert sorted(there.splitlines()) == sorted(here.splitlines())
    handed = list(cluster.folder.glob("work*/*/*/seqube-kernels"))
    assert handed, "executors were handed nothing"
    assert {compiled(folder) for folder in handed} == {compiled(cache_folder())}


def test_a_pipeline_says_what_a_batch_says_and_is_rescaled(cluster: Cluster, tmp_path: Path) -> None:
    table = generate("hospital", 900, seed=9)
    queries = {"pairs": PAIRS, "waits": WAITS, "free": FREE}
    add_file(tmp_path, "0", table.slice(0, 500))
    file = write_pipeline(tmp_path, queries)
    seqube("pipeline", str(file), "--master", cluster.url, *FEW)
    told = json.loads(seqube("pipeline", str(file), "--rescale", "24", "--master", cluster.url, *FEW, "--json"))
    assert told == {"buckets": 24, "before": 16, "uncut": []}
    add_file(tmp_path, "1", table.slice(500))
    seqube("pipeline", str(file), "--drain", "--master", cluster.url, *FEW)
    for name, query in queries.items():
        assert results(tmp_path, name) == expected(table, query), name


@pytest.mark.skipif(postgres.programs() is None, reason="there is no PostgreSQL here")
def test_from_kafka_to_postgres_killed_now_and_then(cluster: Cluster, tmp_path: Path) -> None:
    """The pipeline of the example with another source and another sink; SEQUBE_KILLS says how often. Every second time an
    executor is killed before the driver."""
    import psycopg
    from confluent_kafka import Producer

    table = generate("hospital", 400 * (KILLS + 1), seed=21).select(["ts", "type", "id", "ward"])
    lines = [json.dumps({**row, "ts": row["ts"].isoformat()}).encode() for row in table.to_pylist()]
    producer = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "x"})
    (broker,) = producer.list_topics(timeout=30).brokers.values()
    declared = yaml.safe_load(EXAMPLE.read_text())
    declared["source"] = {
        "format": "kafka",
        "options": {
            "kafka.bootstrap.servers": f"{broker.host}:{broker.port}",
            "subscribe": "tools",
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": 100,
        },
        "decode": {"format": "json", "column": "value", "schema": "ts timestamp_ntz, type string, id bigint, ward string"},
        "lateness": declared["source"]["lateness"],
    }
    declared["schema"] |= {"ts": "timestamp_ntz", "ward": "string"}  # the generator has other wards
    logs, file, chance = tmp_path / "out" / "checkpoint", tmp_path / "pipeline.yaml", random.Random(21)

    def start(*options: str, trigger: str) -> subprocess.Popen[bytes]:
        file.write_text(yaml.safe_dump({**declared, "trigger": trigger}))
        command = [*SEQUBE, "pipeline", str(file), "--master", cluster.url, *FEW, *options]
        return subprocess.Popen(command, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def send(number: int) -> None:
        for line in lines[400 * number : 400 * number + 400]:
            producer.produce("tools", line, partition=0)
        producer.flush(10)

    with postgres.serving() as url:
        declared["sinks"]["matches"] = {"format": "postgres", "options": {"url": url, "table": "found_{query}"}}
        for number in range(KILLS):
            send(number)
            process, log = start(trigger="100 milliseconds"), logs / chance.choice(["offsets", "commits"])
            before, until = sorted(log.glob("[0-9]*")), time.monotonic() + 240
            while process.poll() is None and sorted(log.glob("[0-9]*")) == before and time.monotonic() < until:
                time.sleep(0.05)
            time.sleep(chance.uniform(0, 3))
            if number % 2:
                cluster.kill_executor(chance)
                time.sleep(chance.uniform(0, 3))
            assert process.poll() is None, process.communicate()[1].decode()[-4000:]
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
        send(KILLS)
        process = start("--drain", trigger="available now")
        _, errors = process.communicate(timeout=500)
        assert process.returncode == 0, errors.decode()[-4000:]
        with psycopg.connect(url) as connection:
            for name, query in declared["queries"].items():
                wanted = sq.run(query, table).table
                found = connection.execute(f"SELECT {', '.join(wanted.column_names)} FROM found_{name}").fetchall()
                assert Counter(found) == Counter(tuple(row.values()) for row in wanted.to_pylist()), name
                assert found
