"""Kafka without Spark's connector, against the brokers that librdkafka brings along for tests."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pipelines import PAIRS, expected, results, write_pipeline

import seqube as sq
from seqube.generate import generate
from seqube.spark.streaming.declaration import read_declaration
from seqube.spark.streaming.kafka import Broker, Stretch, limited, stretches
from seqube.spark.streaming.pipeline import run_once, run_stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def broker() -> Iterator[tuple[str, Any]]:
    """A broker that lives as long as its producer."""
    from confluent_kafka import Producer

    producer = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "x"})
    (about,) = producer.list_topics(timeout=30).brokers.values()
    yield f"{about.host}:{about.port}", producer
    producer.flush(10)


def options(address: str, topic: str, **more: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": address, "subscribe": topic, "startingOffsets": "earliest", **more}


def test_stretches_are_what_lies_between_offsets() -> None:
    start, stop = {"t": {"0": 3, "1": 5}}, {"t": {"0": 7, "1": 5, "2": 4}}
    assert stretches(start, stop) == [Stretch("t", 0, 3, 7), Stretch("t", 2, 0, 4)]
    part = limited(start, stop, 4)
    assert sum(each.stop - each.start for each in stretches(start, part)) <= 5
    assert limited(start, stop, 100) == stop
    seen = start
    while seen != stop:  # ends, however few are taken at once
        seen = limited(seen, stop, 1)


def test_records_are_read_from_one_number_to_another(broker: tuple[str, Any]) -> None:
    address, producer = broker
    for number in range(25):
        producer.produce("plain", str(number).encode(), b"k" if number % 2 else None, partition=0)
    assert producer.flush(60) == 0  # all have arrived
    kafka = Broker(options(address, "plain"))
    first, last = kafka.bounds()
    assert last["plain"]["0"] - first["plain"]["0"] == 25
    table = pa.Table.from_batches(kafka.read(Stretch("plain", 0, 5, 20)))
    assert table.column("value").to_pylist() == [str(number).encode() for number in range(5, 20)]
    assert table.column("offset").to_pylist() == list(range(5, 20))
    assert table.column("key").null_count == 7
    assert kafka.chosen("startingoffsets", "latest") == first
    asked = Broker(options(address, "plain", startingOffsets='{"plain": {"0": 11}}')).chosen("startingoffsets", "latest")
    assert asked["plain"]["0"] == 11


def test_wrong_options_are_named() -> None:
    with pytest.raises(sq.SchemaError, match="no broker to ask"):
        Broker({"subscribe": "t"})
    with pytest.raises(sq.SchemaError, match="no option 'subscribepattern'"):
        Broker({"kafka.bootstrap.servers": "x", "subscribePattern": "t.*"})


@pytest.mark.slow  # in the everyday run: the records and stretches, above
def test_a_pipeline_from_kafka_says_what_a_batch_says(spark: SparkSession, tmp_path: Path, broker: tuple[str, Any]) -> None:
    """Records that cannot be decoded are in the quarantine; a stream goes on where it stopped, and nothing is read twice."""
    address, producer = broker
    table = generate("hospital", 600, seed=6).select(["type", "ts", "id"])
    rows = [json.dumps({"kind": row["type"], "at": row["ts"].isoformat(), "id": row["id"]}).encode() for row in table.to_pylist()]

    def send(values: list[bytes]) -> None:
        for value in values:
            producer.produce("tools", value, partition=0)
        assert producer.flush(60) == 0  # all have arrived

    send([*rows[:300], b"no json"])
    source = {
        "format": "kafka",
        "options": options(address, "tools", maxOffsetsPerTrigger="200"),
        "decode": {"format": "json", "column": "value", "schema": "kind string, at timestamp_ntz, id bigint"},
        "select": {"type": "kind", "ts": "at", "id": "id"},
        "lateness": "1 minute",
    }
    file = write_pipeline(tmp_path, {"pairs": PAIRS}, source=source)
    first = run_stream(read_declaration(file))
    assert (first.read, first.quarantined) == (301, 1)
    send(rows[300:])
    second = run_stream(read_declaration(write_pipeline(tmp_path, {"pairs": PAIRS}, source=source, drain=True)))
    assert (second.read, second.quarantined) == (300, 0)
    wanted = expected(table, PAIRS)
    assert results(tmp_path, "pairs") == wanted
    sinks = {"matches": "once/matches", "quarantine": "once/quarantine"}
    whole = run_once(read_declaration(write_pipeline(tmp_path, {"pairs": PAIRS}, source=source, sinks=sinks)))
    assert (whole.read, whole.quarantined, whole.matches) == (601, 1, {"pairs": sum(wanted.values())})
    assert Counter(wanted)
