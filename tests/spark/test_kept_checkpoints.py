"""Checkpoints of earlier versions are gone on with: nothing of what they remember is lost."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from kept_checkpoints import KEPT, QUERIES, unpack
from pipelines import expected, results, write_pipeline

from seqube.spark.streaming.declaration import read_declaration
from seqube.spark.streaming.pipeline import run_stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_there_is_one_of_every_version() -> None:
    assert [file.name for file in sorted(KEPT.glob("*.tar.gz"))] == ["0.1.0.tar.gz"]


@pytest.mark.parametrize("version", ["0.1.0"])
def test_a_checkpoint_of_an_earlier_version_is_gone_on_with(spark: SparkSession, tmp_path: Path, version: str) -> None:
    unpack(version, tmp_path)
    before = {name: sum(results(tmp_path, name).values()) for name in QUERIES}
    counts = run_stream(read_declaration(write_pipeline(tmp_path, QUERIES, drain=True)))
    table = pa.concat_tables([pq.read_table(tmp_path / "in" / f"{number}.parquet") for number in range(2)])
    assert (counts.read, counts.late) == (200, 0)  # the first file was read then
    for name, query in QUERIES.items():
        assert results(tmp_path, name) == expected(table, query), name
        assert 0 <= before[name] < sum(results(tmp_path, name).values()), name
