"""Kafka without Spark's connector, which is a jar: a data source in Python, over `confluent-kafka`, with its options and columns.

    spark.readStream.format(kafka_format(spark)).option("kafka.bootstrap.servers", ...).option("subscribe", "orders,returns")

The offset of a stream is, for each partition of each topic, the number of the next record. Spark writes it to the checkpoint before
it reads, so that a micro-batch which is repeated reads the same records: every record is read once, whatever was killed when.
Records that the broker no longer has are an error (`failOnDataLoss`), never a gap in silence.

Cost: a consumer for each partition of a micro-batch, and columns, not objects, on the way to Spark.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, DataSourceWriter, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from seqube.errors import DataError, SchemaError
from seqube.extras import need

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession
    from pyspark.sql.types import StructType

RECORD_COLUMNS = "key binary, value binary, topic string, partition int, offset long, timestamp timestamp, timestampType int"
_ARROW = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("timestampType", pa.int32()),
    ]
)
_KNOWN = ("subscribe", "startingoffsets", "endingoffsets", "maxoffsetspertrigger", "failondataloss", "topic")
_AT_ONCE = 10_000
_PATIENCE = 60.0  # seconds that a broker may take to answer

Offsets = dict[str, dict[str, int]]  # by topic, by partition: the next record


def kafka_format(spark: SparkSession) -> str:
    """The format that a session reads and writes Kafka by: Spark's own connector, else this one, which it then knows."""
    if _has_connector(spark):
        return "kafka"
    need("kafka")
    spark.dataSource.register(KafkaSource)
    return KafkaSource.name()


def _has_connector(spark: SparkSession) -> bool:
    from py4j.protocol import Py4JJavaError

    if ".connect." in type(spark).__module__:
        return True  # what a server has, it says itself
    jvm: Any = spark.sparkContext._jvm
    try:
        loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
        jvm.java.lang.Class.forName("org.apache.spark.sql.kafka010.KafkaSourceProvider", False, loader)
    except Py4JJavaError:
        return False
    return True


class KafkaSource(DataSource):
    """What Spark asks for: the columns, and who reads and writes them."""

    @classmethod
    def name(cls) -> str:
        return "seqube_kafka"  # `kafka` is Spark's, whether it has the connector or not

    def schema(self) -> str:
        return RECORD_COLUMNS

    def reader(self, schema: StructType) -> DataSourceReader:
        return KafkaReader(dict(self.options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        return KafkaStreamReader(dict(self.options))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        return KafkaWriter(dict(self.options))


@dataclass
class Stretch(InputPartition):
    """Records of one partition of a topic, from a number on and before another."""

    topic: str
    partition: int
    start: int
    stop: int


class Broker:
    """The topics of a Kafka, by the options of Spark's connector."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.options = {name.lower(): value for name, value in options.items()}
        unknown = [name for name in self.options if name not in _KNOWN and not name.startswith("kafka.") and name != "path"]
        if unknown:
            raise SchemaError(
                f"Kafka without Spark's connector knows no option {unknown[0]!r}\n  hint: {', '.join(_KNOWN)}, kafka.*"
            )
        if "kafka.bootstrap.servers" not in self.options:
            raise SchemaError(
                "there is no broker to ask\n  hint: options: {kafka.bootstrap.servers: 'host:9092', subscribe: topic}"
            )
        self.stops_at_loss = self.options.get("failondataloss", "true").lower() == "true"

    @property
    def settings(self) -> dict[str, Any]:
        """What `confluent-kafka` is told; offsets are kept by Spark, never by the broker."""
        own = {name[6:]: value for name, value in self.options.items() if name.startswith("kafka.")}
        return {
            "group.id": "seqube",
            **own,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
        }

    @property
    def topics(self) -> list[str]:
        if not self.options.get("subscribe"):
            raise SchemaError("there is no topic to read\n  hint: options: {subscribe: 'orders,returns'}")
        return [name.strip() for name in self.options["subscribe"].split(",")]

    def bounds(self) -> tuple[Offsets, Offsets]:
        """The first record that the broker has of each partition, and the one after its last."""
        from confluent_kafka import Consumer, KafkaException, TopicPartition

        consumer = Consumer(self.settings)
        first: Offsets = {}
        last: Offsets = {}
        try:
            for topic in self.topics:
                about = consumer.list_topics(topic, timeout=_PATIENCE).topics[topic]
                if about.error is not None:
                    raise DataError(f"Kafka has no topic {topic!r}: {about.error.str()}")
                for partition in about.partitions:
                    low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=_PATIENCE)
                    first.setdefault(topic, {})[str(partition)] = low
                    last.setdefault(topic, {})[str(partition)] = high
        except KafkaException as error:
            raise DataError(f"the broker does not answer: {error.args[0].str()}") from error
        finally:
            consumer.close()
        return first, last

    def chosen(self, name: str, default: str) -> Offsets:
        """The offsets that an option names: earliest, latest, or JSON as Spark's connector has it (-2 earliest, -1 latest)."""
        text = self.options.get(name, default)
        first, last = self.bounds()
        if text in ("earliest", "latest"):
            return first if text == "earliest" else last
        try:
            asked = {topic: {str(p): int(n) for p, n in parts.items()} for topic, parts in json.loads(text).items()}
        except (ValueError, AttributeError, TypeError) as error:
            raise SchemaError(f"{name} is earliest, latest, or JSON by topic and partition, not {text!r}") from error
        marks = {-2: first, -1: last}
        return {
            topic: {p: marks[n][topic][p] if (n := asked.get(topic, {}).get(p, -2)) in marks else n for p in parts}
            for topic, parts in first.items()
        }

    def read(self, stretch: Stretch) -> Iterator[pa.RecordBatch]:
        """The records of a stretch, in order."""
        from confluent_kafka import Consumer, KafkaError, TopicPartition

        consumer = Consumer(self.settings)
        try:
            place = TopicPartition(stretch.topic, stretch.partition, stretch.start)
            low, _ = consumer.get_watermark_offsets(place, timeout=_PATIENCE)
            if low > stretch.start:
                self._lost(stretch, low)
                place = TopicPartition(stretch.topic, stretch.partition, low)
            consumer.assign([place])
            position, rows, deadline = max(low, stretch.start), [], time.monotonic() + _PATIENCE
            while position < stretch.stop:
                if time.monotonic() > deadline:
                    raise DataError(
                        f"the broker has not answered for {_PATIENCE:.0f} s at {stretch.topic}/{stretch.partition}, {position}"
                    )
                for message in consumer.consume(min(_AT_ONCE, stretch.stop - position), timeout=1.0):
                    error, offset = message.error(), message.offset() or 0
                    if error is not None:
                        if error.code() != KafkaError._PARTITION_EOF:
                            raise DataError(f"Kafka cannot be read at {stretch.topic}/{stretch.partition}: {error.str()}")
                        if offset >= stretch.stop:
                            position = stretch.stop  # the last numbers belong to marks of transactions, which are no records
                        continue
                    deadline = time.monotonic() + _PATIENCE
                    position = offset + 1
                    if offset < stretch.stop:
                        kind, moment = message.timestamp()
                        rows.append((message.key(), message.value(), offset, moment, kind))
                if len(rows) >= _AT_ONCE:
                    yield _batch(stretch, rows)
                    rows = []
            if rows:
                yield _batch(stretch, rows)
        finally:
            consumer.close()

    def _lost(self, stretch: Stretch, low: int) -> None:
        if self.stops_at_loss:
            raise DataError(
                f"records {stretch.start:,} to {low:,} of {stretch.topic}/{stretch.partition} are gone before they were read\n"
                "  hint: options: {failOnDataLoss: false} goes on without them"
            )


def _batch(stretch: Stretch, rows: Sequence[tuple[bytes | None, bytes | None, int, int, int]]) -> pa.RecordBatch:
    keys, values, offsets, moments, kinds = zip(*rows, strict=True)
    n = len(rows)
    known = [None if kind == 0 else moment * 1_000 for moment, kind in zip(moments, kinds, strict=True)]
    columns = [
        pa.array(keys, pa.binary()),
        pa.array(values, pa.binary()),
        pa.array([stretch.topic] * n),
        pa.array([stretch.partition] * n, pa.int32()),
        pa.array(offsets, pa.int64()),
        pa.array(known, pa.timestamp("us", "UTC")),
        pa.array([kind - 1 for kind in kinds], pa.int32()),  # Spark: 0 by who wrote it, 1 by the broker
    ]
    return pa.RecordBatch.from_arrays(columns, schema=_ARROW)


def stretches(start: Offsets, stop: Offsets) -> list[Stretch]:
    """What lies between two offsets; a partition that is new begins with its first record."""
    found = []
    for topic, parts in stop.items():
        for partition, last in parts.items():
            first = start.get(topic, {}).get(partition, 0)
            if first < last:
                found.append(Stretch(topic, int(partition), first, last))
    return found


def limited(start: Offsets, last: Offsets, most: int) -> Offsets:
    """At most so many records in all, from each partition by its share of what there is."""
    waiting = {(s.topic, str(s.partition)): s.stop - s.start for s in stretches(start, last)}
    total = sum(waiting.values())
    if total <= most:
        return last
    begun = {topic: {p: start.get(topic, {}).get(p, 0) for p in parts} for topic, parts in last.items()}
    for (topic, partition), n in waiting.items():
        begun[topic][partition] += max(1, n * most // total)
    return begun


class KafkaReader(DataSourceReader):
    """All records that are there, as a batch."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.broker = Broker(options)

    def partitions(self) -> Sequence[InputPartition]:
        return stretches(self.broker.chosen("startingoffsets", "earliest"), self.broker.chosen("endingoffsets", "latest"))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Stretch)
        return self.broker.read(partition)


class KafkaStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Records as they come; how far it is, is in Spark's checkpoint."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.broker = Broker(options)
        self.target: Offsets | None = None  # where to stop, with `available now`

    def initialOffset(self) -> Offsets:  # noqa: N802
        return self.broker.chosen("startingoffsets", "latest")

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        most = self.broker.options.get("maxoffsetspertrigger")
        return ReadMaxRows(int(most)) if most else ReadAllAvailable()

    def latestOffset(self, start: Offsets, limit: ReadLimit) -> Offsets:  # noqa: N802
        last = self.target or self.broker.bounds()[1]
        return limited(start, last, limit.max_rows) if isinstance(limit, ReadMaxRows) else last

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self.target = self.broker.bounds()[1]

    def partitions(self, start: Offsets, end: Offsets) -> Sequence[InputPartition]:
        return stretches(start, end)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Stretch)
        return self.broker.read(partition)


class KafkaWriter(DataSourceWriter):
    """Rows with the columns `key` and `value` (and `topic`), written at least once: a record is there when its task ends."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.broker = Broker(options)

    def write(self, iterator: Iterator[Row]) -> None:  # type: ignore[override]
        from confluent_kafka import Producer

        own = {name[6:]: value for name, value in self.broker.options.items() if name.startswith("kafka.")}
        producer = Producer({"enable.idempotence": True, **own})
        failed: list[str] = []
        topic = self.broker.options.get("topic")

        def heard(error: Any, _: Any) -> None:
            if error is not None:
                failed.append(error.str())

        for row in iterator:
            while True:
                try:
                    producer.produce(topic or row["topic"], row["value"], row["key"], on_delivery=heard)
                    break
                except BufferError:
                    producer.poll(1.0)
        if producer.flush(_PATIENCE) or failed:
            raise DataError(f"Kafka has not taken all rows: {failed[0] if failed else 'the broker does not answer'}")
