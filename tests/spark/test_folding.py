"""Numbers that travel side by side arrive as they were: every kind of column, nulls and extremes included."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import seqube as sq
import seqube.spark as sqs
from seqube.spark.transport.folding import CODED, Fold, Texts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = (
    "type string, ts timestamp, plain timestamp_ntz, tiny tinyint, small smallint, whole int, long bigint, "
    "real double, yes boolean, day date, `a.b` string, `c.d` bigint, list array<int>"
)
EARLY = datetime.datetime.fromisoformat("1905-03-01T12:30:15.123456")
LATE = datetime.datetime.fromisoformat("2199-12-31T23:59:59.999999")
ROWS: list[tuple[Any, ...]] = [
    ("A", LATE, EARLY, 127, -32768, 2**31 - 1, 2**63 - 1, 0.1, True, EARLY.date(), "x", 2**53 + 1, [1, 2]),
    ("B", EARLY, LATE, -128, 32767, -(2**31), -(2**63), -0.0, False, LATE.date(), "", -1, []),
    ("A", None, None, None, None, None, None, None, None, None, None, None, None),
]


@pytest.mark.parametrize("types", [(), ("A", "B")])
@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_every_kind_of_column_arrives_as_it_was(spark: SparkSession, types: tuple[str, ...], zone: str) -> None:
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        frame = spark.createDataFrame(ROWS, SCHEMA)
        fold = Fold.of(frame, {"type": Texts(types)} if types else {})
        names = frame.columns

        def unfolded(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                assert batch.schema.field("type").type == (CODED if types else pa.string())
                table = pa.table(batch).select(names)
                yield from table.set_column(0, "type", table.column("type").cast(pa.string())).to_batches()

        assert set(fold.numbers) == {"ts", "tiny", "small", "whole", "long", "c.d", *(["type"] if types else [])}
        assert fold.map(frame, unfolded, SCHEMA).collect() == frame.collect()
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_a_text_that_is_not_known_arrives_as_the_rest(spark: SparkSession) -> None:
    frame = spark.createDataFrame([("A",), ("B",), ("C",), (None,), ("",)], "name string")
    fold = Fold.of(frame, {"name": Texts(("A", "B"), "rest")})

    def decoded(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.RecordBatch.from_arrays([batch.column("name").dictionary_decode()], ["name"])

    assert [row.name for row in fold.map(frame, decoded, "name string").collect()] == ["A", "B", "rest", None, "rest"]


@pytest.mark.parametrize("n_types", [3, 40])
def test_types_as_numbers_and_by_name_give_the_same_matches(spark: SparkSession, n_types: int) -> None:
    names = [f"T{number}" for number in range(n_types)]
    random = np.random.default_rng(1)
    table = pa.table(
        {
            "ts": np.arange(2_000),
            "type": pa.array([*names, "other"]).take(pa.array(random.integers(0, n_types + 1, 2_000))),
            "id": random.integers(0, 20, 2_000),
        }
    )
    either = " ".join(f"{name} t{number}," for number, name in enumerate(names[1:-1]))
    query = f"SEQ({names[0]} a, OR({either} {names[-1]} b)) PARTITION BY id WITHIN 100"
    found = sqs.run(query, spark.createDataFrame(table)).toArrow()
    expected = sq.run(query, table).table
    assert expected.num_rows > 0
    assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, expected.to_pylist()))
