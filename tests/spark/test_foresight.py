"""Rules on a stream predict what they predict of the ordered stream, however its events come and are cut, restarts included."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pipelines import PAIRS, add_file, expected, results, write_pipeline
from tables import keyed, plain, rows_of, table_of, with_end
from watching import arrivals

import seqube as sq
import seqube.spark as sqs
from predict.streams import Stream, rule_sets, streams
from seqube.engine.sequence import LOWEST
from seqube.events import Events
from seqube.generate import generate
from seqube.spark.forecasting import Share, share_rules
from seqube.spark.streaming.at_hand import AT_HAND, AtHand
from seqube.spark.streaming.declaration import read_declaration
from seqube.spark.streaming.foresight import Predictions, RuleWatch
from seqube.spark.streaming.held import Held
from seqube.spark.streaming.pipeline import run_stream
from seqube.spark.streaming.watch import KEY
from seqube.spark.transport.blobs import write_blob
from seqube.spark.transport.columns import Columns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Replay:
    """One bucket of the rules of one partition, fed with the watermarks that Spark would give; every call may be a new process."""

    def __init__(self, share: Share, lateness: int, worker: Callable[[], AtHand] = lambda: AT_HAND) -> None:
        self.worker = worker  # that is given the next call, with what it has at hand
        columns = Columns(share.schema, (KEY,) if share.key else ())
        self.watch = RuleWatch("r", Predictions(share), Columns(EVENTS, columns.hidden), columns)
        self.share, self.lateness = share, lateness
        self.held: Held | None = None
        self.store: dict[int, bytes] = {}
        self.wake: int | None = None
        self.newest = LOWEST
        self.predictions: list[pa.Table] = []
        self.late: list[dict[str, Any]] = []

    def feed(self, piece: pa.Table) -> None:
        watermark = LOWEST if self.newest == LOWEST else self.newest - self.lateness
        piece = piece.filter(pa.array([name in self.share.types for name in piece.column("type").to_pylist()], pa.bool_()))
        if piece.num_rows or (self.wake is not None and watermark >= self.wake):
            if self.share.key:
                piece = piece.append_column(KEY, piece.column("id"))
            held = self.held and Held.from_text(self.held.to_text(), None)
            blobs = [write_blob(self.watch.arriving.select(piece))] if piece.num_rows else []
            with mock.patch("seqube.spark.streaming.watch.AT_HAND", self.worker()):
                outcome = self.watch.take(held, blobs, watermark, self.store)
            self.held, self.wake = outcome.held, outcome.wake
            self.predictions += [] if outcome.matches is None else [outcome.matches]
            self.late += [] if outcome.late is None else outcome.late.to_pylist()

    def pass_time(self, newest: int) -> None:
        self.newest = max(self.newest, newest)


KINDS = {"type": pa.string(), "ts": pa.int64(), "id": pa.int64(), "row": pa.int64()}
EVENTS = Events(pa.schema(list(KINDS.items())).empty_table()).schema


@given(chosen=rule_sets(), stream=streams(24), lateness=st.integers(0, 6), data=st.data())
def test_any_arrival_has_the_predictions_of_the_ordered_stream(
    chosen: list[sq.Rule], stream: Stream, lateness: int, data: st.DataObject
) -> None:
    rules = sq.Rules(keyed(rule, data.draw(st.sampled_from([(), ("id",)]))) for rule in chosen)
    table = table_of(stream).append_column("row", pa.array(range(len(stream.names)), pa.int64()))
    strategy = data.draw(st.sampled_from(["index", "cbs-tree", "tofel"]))
    workers = [AtHand(1 << data.draw(st.sampled_from([0, 30]))) for _ in range(2)]
    replays = [
        Replay(share, lateness, lambda: data.draw(st.sampled_from([*workers, AtHand(1 << 30)])))
        for share in share_rules(rules, EVENTS, strategy=strategy)
    ]
    with mock.patch("seqube.spark.streaming.watch.CHUNK_ROWS", data.draw(st.sampled_from([0, 4, 100]))):
        for rows in data.draw(arrivals(table.num_rows)):
            piece = table.take(pa.array(rows, pa.int64()))
            for replay in replays:
                replay.feed(piece)
                replay.pass_time(max(piece.column("ts").to_pylist(), default=LOWEST))
        for replay in replays:
            replay.pass_time(10_000)
            replay.feed(table.slice(0, 0))
            replay.feed(table.slice(0, 0))
    found, wanted = Counter[str](), Counter[str]()
    for replay in replays:
        late = {row["row"] for row in replay.late}
        in_time = table.filter(pa.array([row not in late for row in range(table.num_rows)], pa.bool_()))
        for predictions in replay.predictions:
            found += rows_of(predictions)
        local = replay.share.write(sq.forecast(replay.share.rules, in_time).table)
        wanted += rows_of(local)
        assert replay.held is None  # and nothing is remembered when the windows have passed
        assert not replay.store
    assert found == wanted


@pytest.mark.parametrize("strategy", ["index", "cbs-tree"])
def test_rules_go_on_where_they_left_off(strategy: str) -> None:
    """A call looks at what is due in it, whatever the window; a worker that is new, once at the window."""
    rules = sq.Rules([sq.Rule("A -> B", "C", 1_000, 2_000, 0.5, partition_by="id")])
    numbers = np.arange(600)
    names = pa.array(np.where(numbers % 2, "B", "A"))
    table = pa.table({"type": names, "ts": numbers, "id": numbers % 7, "row": numbers})
    workers, turns, looked = [AtHand(1 << 30), AtHand(1 << 30)], [0, 0, 0, 1, 1, 0], []
    replay = Replay(share_rules(rules, EVENTS, strategy=strategy)[0], 0, lambda: workers[turns[len(looked)]])
    for k in range(len(turns)):
        with mock.patch.object(RuleWatch, "_as_events", autospec=True, side_effect=RuleWatch._as_events) as spy:
            replay.feed(table.slice(50 * k, 50))
            replay.pass_time(50 * k + 49)
        looked.append(sum(call.args[1].num_rows for call in spy.call_args_list))
    assert looked == [0, 50, 50, 150, 50, 150]


# ---------------------------------------------------------------- through Spark

GONE = "SEQ(Recycl r, Wash w, [id]) WITHIN 30 min RETURN r.id AS tool"
RULES = [
    {"name": "washed", "predicate": "Recycle -> Wash", "consequent": "Operate", "within": "30 min", "horizon": "2 h",
     "probability": 0.5, "partition_by": "id"},
    {"name": "checked", "predicate": "Check, Wash", "consequent": "Operate", "within": "2 min", "horizon": "5 min",
     "probability": 0.2},
]  # fmt: skip


@pytest.fixture(scope="module")
def day() -> pa.Table:
    return with_end(generate("hospital", 1_200, seed=9))


def forecasts(folder: Path) -> Counter[str]:
    files = sorted((folder / "out" / "forecasts").rglob("*.parquet"))
    return Counter(repr(plain(row)) for file in files for row in pq.ParquetFile(file).read().to_pylist())


@pytest.mark.slow  # in the everyday run: a streaming frame, and rules in a batch
def test_rules_and_queries_in_a_pipeline(spark: SparkSession, tmp_path: Path, day: pa.Table) -> None:
    """Stopped and started again, with a query taken out: the rules go on. Types that no event has are told while somebody asks."""
    sinks = {name: f"out/{name}" for name in ("matches", "forecasts", "late", "metrics")}
    half = day.num_rows // 2
    add_file(tmp_path, "1", day.slice(0, half))
    first = run_stream(read_declaration(write_pipeline(tmp_path, {"pairs": PAIRS, "gone": GONE}, rules=RULES, sinks=sinks)))
    add_file(tmp_path, "2", day.slice(half))
    second = run_stream(read_declaration(write_pipeline(tmp_path, {"pairs": PAIRS}, rules=RULES, sinks=sinks)))
    wanted = Counter(repr(row) for row in sq.forecast({"rules": RULES}, day).table.to_pylist())
    assert forecasts(tmp_path) == wanted
    assert results(tmp_path, "pairs") == expected(day, PAIRS)
    total = first + second
    assert total.forecasts == sum(wanted.values()) > 100
    assert total.read == day.num_rows == total.used + total.irrelevant + total.late + total.quarantined  # type: ignore[operator]
    metrics = [json.loads(path.read_text()) for path in sorted((tmp_path / "out" / "metrics").glob("*.json"))]
    assert sum(row["forecasts"] for row in metrics) == total.forecasts
    assert metrics[-1]["state_rows"] == 0
    assert metrics[0]["unknown_types"] == "no event is of the type 'Recycl'; near it are 'Recycle'"
    assert metrics[-1]["unknown_types"] is None


@pytest.mark.slow
def test_forecast_of_a_streaming_frame(spark: SparkSession, tmp_path: Path, day: pa.Table) -> None:
    add_file(tmp_path, "1", day.slice(0, 700))
    add_file(tmp_path, "2", day.slice(700))
    columns = spark.read.parquet(str(tmp_path / "in")).schema
    frame = spark.readStream.schema(columns).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "in"))
    found = sqs.forecast({"rules": RULES}, frame, lateness="1 minute")
    writer = found.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
    writer.option("path", str(tmp_path / "out")).trigger(availableNow=True).start().awaitTermination()
    wanted = sq.forecast({"rules": RULES}, day).table
    assert found.columns == wanted.column_names
    assert rows_of(spark.read.parquet(str(tmp_path / "out")).toArrow()) == rows_of(wanted)
    with pytest.raises(sq.PlanError, match="no rules"):
        sqs.forecast([], frame)
