"""Random queries with repetition, NEXT, STRICT, SKIP, ORDER BY, KEEP PARTIAL and AGG through real Spark: what the oracle says.

A job costs a second and a query in it next to nothing, so many queries share few streams of events: 60 for each, over a batch
(keyed, whole and in slices), over a stream that comes in pieces, and some of them by the SQL function. `SEQUBE_EXAMPLES` asks
for more streams.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pipelines import add_file
from tables import keyed_queries
from travel import carried

import oracle
import seqube as sq
import seqube.spark as sqs
from aggregate_queries import assert_same_rows, with_aggregates
from answers import counted
from seqube.language import parse
from seqube.plan.optimizer import plan_query
from seqube.spark import ingest
from seqube.spark.streaming.stream import MATCH_ROW, unpack, watch_stream
from steps import rows
from strategies import ATTRIBUTES, queries, spark_table, streams

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.spark]

STREAMS = max(1, settings.default.max_examples // 400)
QUERIES = 60
END = oracle.Event("Z", 200, dict.fromkeys(ATTRIBUTES), -1)  # later than anything that is still to be decided
LATENESS = 20
WORDS = ("SEQ", "NEXT", "NEXT", "STRICT")
CLAUSES: list[list[str]] = [[], [], ["SKIP"], ["ORDER BY"], ["SKIP", "ORDER BY"]]

flat = st.sampled_from(CLAUSES).flatmap(
    lambda clauses: queries(durations=False, repeats=True, depth=2, words=WORDS, clauses=clauses)
)
partial = queries(durations=False, repeats=True, depth=1, words=("NEXT",), clauses=["KEEP PARTIAL"])
shapes = flat | flat | keyed_queries(depth=2, repeats=True, words=WORDS) | partial
T = TypeVar("T")


def drawn(strategy: st.SearchStrategy[T], n: int) -> list[T]:
    """Some values, by the profile of the tests: the same every time, or, where more are asked for, new ones."""
    found: list[T] = []

    @settings(max_examples=n, phases=[Phase.generate], database=None)
    @given(value=strategy)
    def note(value: T) -> None:
        found.append(value)

    note()
    return found


def is_valid(text: str) -> bool:
    try:
        parse(text)
    except sq.QueryError:  # KEEP PARTIAL, with a negation where nothing surely stands before it
        return False
    return True


asked = shapes.filter(is_valid).flatmap(
    lambda text: st.just(text) if "KEEP PARTIAL" in text else st.just(text) | st.just(text) | with_aggregates(text, durations=False)
)


@pytest.fixture(scope="module", params=range(STREAMS))
def case() -> tuple[dict[str, str], list[oracle.Event]]:
    """Queries and a stream whose times differ: of equal ones, Spark takes an order that their contents tell."""
    texts = drawn(asked, QUERIES)
    events = drawn(streams(max_size=12, max_time=25).filter(lambda events: len(events) > 6), 2)[-1]  # the first is the simplest
    apart = [replace(event, ts=2 * number) for number, event in enumerate(events)]
    return {f"q{number}": text for number, text in enumerate(texts)}, apart


def assert_answer(text: str, found: pa.Table, events: list[oracle.Event]) -> None:
    query = parse(text)
    if query.aggregates:
        assert_same_rows(found.to_pylist(), oracle.aggregates(query, events))
        return
    runs = oracle.partial_runs(query, events) if query.keeps_partial else oracle.matches(query, events)
    expected = [{name: value for name, value in run.items() if name not in ("start", "end")} for run in runs]
    assert counted(rows(found)) == counted(expected), text


@pytest.mark.parametrize("slices", [None, 3])
def test_batch(spark: SparkSession, case: tuple[dict[str, str], list[oracle.Event]], slices: int | None) -> None:
    workload, events = case
    found = sqs.run(workload, spark.createDataFrame(carried(spark_table(events))), slices=slices)
    try:
        for name, text in workload.items():
            assert_answer(text, found[name].toArrow(), events)
    finally:
        found.unpersist()


def goes_on(text: str) -> bool:
    """Whether a stream answers it by some time: not at its end, and not when so many more events have come."""
    plan = plan_query(parse(text))
    return "EMIT TOTAL" not in text and "EMIT EVERY" not in text and not (plan.matches.waits and plan.matches.window.counts_events)


def test_stream(spark: SparkSession, case: tuple[dict[str, str], list[oracle.Event]], tmp_path: Path) -> None:
    workload, events = case
    workload = {name: text for name, text in workload.items() if goes_on(text)}
    arrived, end = carried(spark_table(events)), carried(spark_table([END]))
    thirds = [len(events) // 3, len(events) * 2 // 3]
    pieces = [arrived.slice(start, stop - start) for start, stop in zip([0, *thirds], [*thirds, len(events)], strict=True)]
    for number, piece in enumerate([*pieces, end]):
        add_file(tmp_path, str(number), piece)
    columns = spark.createDataFrame(arrived).schema
    frame = spark.readStream.schema(columns).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "in"))
    source = ingest.read_source(frame, "type", "ts", "ms")
    plans = {name: ingest.plan_over(text, source) for name, text in workload.items()}
    watched = watch_stream(plans, source, f"{LATENESS} milliseconds")
    writer = watched.out.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
    writer.option("path", str(tmp_path / "out")).trigger(availableNow=True).start().awaitTermination()
    out = spark.read.parquet(str(tmp_path / "out")).where(f"kind = '{MATCH_ROW}'").toArrow()
    schemas = {name: schema for watch in watched.watches.values() for name, schema in watch.schemas.items()}
    for name, text in workload.items():
        blobs = out.filter(pc.equal(out.column("query"), name)).select(["blob"]).to_batches()
        assert_answer(text, pa.Table.from_batches(unpack(iter(blobs), schemas[name]), schemas[name]), events)


def test_sql(spark: SparkSession, case: tuple[dict[str, str], list[oracle.Event]]) -> None:
    workload, events = case
    sqs.register(spark)
    spark.createDataFrame(carried(spark_table(events))).createOrReplaceTempView("random_runs")
    for text in list(workload.values())[: int(os.environ.get("SEQUBE_SQL_QUERIES", "8"))]:
        written = text.replace("'", "''")
        found = spark.sql(f"SELECT * FROM seqube(TABLE(random_runs), '{written}')").toArrow()
        assert_answer(text, found, events)
