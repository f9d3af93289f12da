"""State that is cut into other buckets between two runs of a stream: nothing is lost, and nothing is there twice."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, note
from hypothesis import strategies as st
from numpy.typing import NDArray
from pipelines import FREE, PAIRS, WAITS, add_file, expected, results, write_pipeline
from tables import bound_rows, keyed_queries
from watching import Watched, arrivals, watch

import oracle
import seqube as sq
from aggregate_queries import assert_same_rows, with_aggregates
from seqube.generate import generate
from seqube.spark.streaming.at_hand import AtHand
from seqube.spark.streaming.declaration import read_declaration
from seqube.spark.streaming.held import Held
from seqube.spark.streaming.pipeline import run_stream
from seqube.spark.streaming.rescaling import KEY_HASH, folded, pack_chunks, rescale, tell, unpack_chunks
from seqube.spark.transport.blobs import read_blobs, write_blob
from strategies import spark_table, streams

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NUMBERS = st.sampled_from([1, 2, 3, 4, 6, 16])


@dataclass
class Bucket:
    held: Held | None = None
    store: dict[int, bytes] = field(default_factory=dict)
    wake: int | None = None


class Stream(Watched):
    """The buckets of a query; a bucket is called when rows come for it, or when it asked to be."""

    def __init__(self, text: str, table: pa.Table, n_buckets: int, lateness: int) -> None:
        super().__init__(replace(watch(text, table), n_buckets=n_buckets), lateness)
        self.buckets: dict[int, Bucket] = {}

    def hidden_key(self, piece: pa.Table) -> NDArray[Any]:
        return (self.hashes(piece) >> 32).astype(np.int32)  # the rest of it chooses the bucket

    def take(self, piece: pa.Table) -> None:
        places = self.hashes(piece) % self.watch.n_buckets if self.watch.needs.key else np.zeros(piece.num_rows, np.int64)
        for number in {*self.buckets, *places.tolist()}:
            bucket, own = self.buckets.setdefault(number, Bucket()), np.flatnonzero(places == number)
            if len(own) or (bucket.wake is not None and self.watermark >= bucket.wake):
                blobs = [write_blob(self.watch.arriving.select(piece.take(pa.array(own))))] if len(own) else []
                outcome = self.watch.take(bucket.held, blobs, self.watermark, bucket.store, number)
                bucket.held, bucket.wake = outcome.held, outcome.wake
                self.note(outcome)

    def cut(self, n_buckets: int) -> None:
        """Into so many buckets, by the steps that are taken on Spark; as it is, where it holds numbers in the place of events."""
        if not self.watch.needs.key or any(
            each.held is not None and each.held.engine is not None for each in self.buckets.values()
        ):
            return
        helds = {number: each.held for number, each in self.buckets.items() if each.held is not None}
        rows = [(number, chunk, blob) for number in helds for chunk, blob in self.buckets[number].store.items()]
        columns = [pa.array(column) for column in zip(*rows, strict=True)] or [pa.nulls(0)] * 3
        chunks = pa.RecordBatch.from_arrays(columns, names=["bucket", "number", "blob"])

        def hashed() -> Iterator[pa.RecordBatch]:
            for batch in unpack_chunks([chunks], self.watch, helds):
                table = pa.Table.from_batches([batch])
                yield from table.append_column(KEY_HASH, pa.array(self.hashes(table))).to_batches()

        pieces = [row for batch in pack_chunks(hashed(), self.watch, n_buckets) for row in batch.to_pylist()]
        told = [row.asDict() for row in tell("q", helds, self.watch.n_buckets, n_buckets)]
        self.watch = replace(self.watch, n_buckets=n_buckets)
        self.buckets = {}
        for number in {row["bucket"] for row in told}:
            own = sorted((row for row in pieces if row["bucket"] == number), key=lambda row: (row["part"], row["number"]))
            bucket = self.buckets[number] = Bucket()
            held = folded(Held.from_text(row["held"], None) for row in told if row["bucket"] == number)
            outcome = self.watch.settle(held, [read_blobs([row["blob"]]) for row in own], bucket.store)
            bucket.held, bucket.wake = outcome.held, outcome.wake


@given(base=keyed_queries(depth=2), events=streams(max_time=14), lateness=st.integers(0, 8), data=st.data())
def test_any_cut_between_micro_batches_changes_nothing(
    base: str, events: list[oracle.Event], lateness: int, data: st.DataObject
) -> None:
    text, is_aggregate = base, data.draw(st.booleans())
    if is_aggregate:
        text = data.draw(with_aggregates(base, durations=False).filter(lambda text: "EMIT TOTAL" not in text))
    note(text)
    table = spark_table(events)
    stream = Stream(text, table, data.draw(NUMBERS), lateness)
    needs, waits = stream.watch.needs, stream.watch.wanted.plan.matches.waits
    waits_for_events = waits and needs.by_position and needs.window > 1  # which may never come
    assume(not (is_aggregate and waits_for_events))
    seen: list[int] = []
    room = data.draw(st.sampled_from([0, 30]))  # for the live state of one bucket, or of all
    with mock.patch("seqube.spark.streaming.watch.AT_HAND", AtHand(1 << 30, 1 << room)):
        for piece in data.draw(arrivals(len(events))):
            stream.feed(table.take(pa.array(piece, pa.int64())))
            seen += piece
            if data.draw(st.booleans()):
                stream.cut(data.draw(NUMBERS))
        stream.end()
    late = {row["row"] for row in stream.late}
    wanted = sq.run(text, table.take(pa.array([row for row in seen if row not in late], pa.int64()))).table.to_pylist()
    if is_aggregate:
        assert_same_rows(stream.matches, wanted)
    elif waits_for_events:
        assert set(bound_rows(stream.matches)) <= set(bound_rows(wanted))
    else:
        assert bound_rows(stream.matches) == bound_rows(wanted)


@pytest.mark.parametrize("cuts", [[2], [1, 1]])
@pytest.mark.parametrize("asked", ["", ", [id]"])
def test_nothing_waits_in_a_window_of_one_event(cuts: list[int], asked: str) -> None:
    """Buckets of EMIT PER are out when their time is over, the last one too: no next event is waited for."""
    table = pa.table({"type": ["A", "A"], "ts": [1, 8], "id": [1, 1]})
    text = f"SEQ(A a, !A b{asked}) WITHIN 1 EVENTS AGG COUNT(*) AS n EMIT PER 5"
    stream, at = Stream(text, table, 1, 0), 0
    for n in cuts:
        stream.feed(table.slice(at, n))
        at += n
    stream.end()
    assert stream.matches == sq.run(text, table).table.to_pylist() == [{"ts": 0, "n": 1}, {"ts": 5, "n": 1}]


COUNTED = PAIRS.replace("RETURN r.id AS tool, r.ts AS a, w.ts AS b", "AGG COUNT(*) AS n GROUP BY r.id")


@pytest.mark.slow
def test_a_pipeline_goes_on_with_other_buckets(spark: SparkSession, tmp_path: Path) -> None:
    """More of them and fewer, with queries that have a key and that have none; micro-batches go on being counted."""
    table = generate("hospital", 900, seed=9)
    queries = {"pairs": PAIRS, "waits": WAITS, "free": FREE, "counted": COUNTED}
    mark = tmp_path / "out" / "checkpoint" / "seqube.json"
    before = 5  # nothing is remembered yet, and it begins with those
    for number, buckets in enumerate((5, 32, 8)):
        add_file(tmp_path, str(number), table.slice(300 * number, 300))
        file = write_pipeline(tmp_path, queries, **({"drain": True} if number == 2 else {}))
        told = rescale(read_declaration(file), buckets, spark)
        assert (told.buckets, told.before, told.uncut) == (buckets, before, ())
        counts = run_stream(read_declaration(file))
        assert (counts.read, counts.late) == (300, 0)
        assert json.loads(mark.read_text())["buckets"] == buckets
        before = buckets
    for name, query in queries.items():
        assert results(tmp_path, name) == expected(table, query), name
    assert len(list((tmp_path / "out" / "checkpoint").glob("rescaled-*"))) == 1
    with pytest.raises(sq.SchemaError, match="1 to 65,536 buckets, not 0"):
        rescale(read_declaration(file), 0, spark)
