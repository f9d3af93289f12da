"""Whatever holds rows comes in, and results go out as the same kind of table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import seqube as sq

TABLE = pa.table({"type": ["A", "B"], "ts": ["2026-03-29T01:00:00", "2026-03-29T01:00:05"], "x": [1, 2]})
QUERY = "SEQ(A a, B b) WITHIN 1 min RETURN b.ts - a.ts AS lag, a.x AS x"


class Streamed:
    """Something of another library, of which nothing is known but that it speaks Arrow's stream interface."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return TABLE.__arrow_c_stream__(requested_schema)


def narwhals_of(table: pa.Table) -> Any:
    return pytest.importorskip("narwhals").from_native(table)


def narwhals_lazily(table: pa.Table) -> Any:
    return pytest.importorskip("narwhals").from_native(pl.DataFrame(table).lazy())


def relation_of(table: pa.Table) -> Any:
    return pytest.importorskip("duckdb").from_arrow(table)


SOURCES: dict[str, Callable[[Path], Any]] = {
    "table": lambda _: TABLE,
    "batch": lambda _: TABLE.to_batches()[0],
    "reader": lambda _: pa.RecordBatchReader.from_batches(TABLE.schema, TABLE.to_batches(max_chunksize=1)),
    "stream": lambda _: Streamed(),
    "dataset": ds.dataset,
    "scanner": lambda path: ds.dataset(path).scanner(),
    "pandas": lambda _: TABLE.to_pandas(),
    "polars": lambda _: pl.DataFrame(TABLE),
    "lazy": lambda _: pl.DataFrame(TABLE).lazy(),
    "narwhals": lambda _: narwhals_of(TABLE),
    "lazy narwhals": lambda _: narwhals_lazily(TABLE),
    "duckdb": lambda _: relation_of(TABLE),
    "path": lambda path: path,
}


@pytest.mark.parametrize("kind", SOURCES)
def test_any_table_comes_in(kind: str, tmp_path: Path) -> None:
    pq.write_table(TABLE, tmp_path / "events.parquet")
    found = sq.run(QUERY, SOURCES[kind](tmp_path / "events.parquet")).table.to_pylist()
    assert [(row["lag"].total_seconds(), row["x"]) for row in found] == [(5.0, 1)]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("table", pa.Table), ("pandas", pd.DataFrame), ("polars", pl.DataFrame), ("lazy", pl.DataFrame), ("stream", pa.Table)],
)
def test_results_go_out_as_they_came_in(kind: str, expected: type, tmp_path: Path) -> None:
    source = SOURCES[kind](tmp_path)
    for events in (source, sq.Events(source)):
        for result in (sq.run("SEQ(A a, B b) WITHIN 1 min", events), sq.run({"q": "SEQ(A a, B b) WITHIN 1 min"}, events)["q"]):
            assert isinstance(result.to_native(), expected)
            names = ["start", "end", "a_type", "a_ts", "a_x", "b_type", "b_ts", "b_x"]
            assert [str(name) for name in getattr(result.to_native(), "column_names", result.to_native().columns)] == names
            assert isinstance(result.to_native(flat=False), expected)


@pytest.mark.parametrize(
    ("kind", "library", "name"),
    [("narwhals", "narwhals", "DataFrame"), ("lazy narwhals", "narwhals", "DataFrame"), ("duckdb", "duckdb", "DuckDBPyRelation")],
)
def test_libraries_that_need_not_be_there_get_their_own_kind(kind: str, library: str, name: str, tmp_path: Path) -> None:
    expected = getattr(pytest.importorskip(library), name)
    given = sq.run(QUERY, SOURCES[kind](tmp_path)).to_native()
    assert isinstance(given, expected)
    assert list(given.columns) == ["lag", "x"]
    assert sq.Events(given.select("x"), type=None, time="x").times.tolist() == [1]


def test_an_index_of_times_is_a_column_even_without_a_name() -> None:
    frame = pd.DataFrame({"type": ["A", "B"], "x": [1, 2]}, index=pd.to_datetime(TABLE.column("ts").to_pylist()))
    with pytest.raises(sq.SchemaError, match="there is no time column 'ts'; the columns are 'index', 'type', 'x'"):
        sq.Events(frame)
    assert sq.run("SEQ(A a, B b) WITHIN 1 min RETURN b.x AS x", frame, time="index").table.to_pylist() == [{"x": 2}]
    numbered = pd.DataFrame(TABLE.to_pandas(), index=[5, 7])
    assert sq.Events(numbered).table.column_names == ["type", "ts", "x"]


def test_numbers_that_no_column_holds_are_told() -> None:
    frame = pd.DataFrame({"type": ["A"], "ts": [1], "id": [2**70]})
    with pytest.raises(sq.DataError, match=r"this DataFrame cannot be read as a table: .*too large"):
        sq.Events(frame)


@pytest.mark.parametrize("sign", [";", "\t", "|"])
def test_a_file_without_commas_is_told_from_one_without_the_column(sign: str, tmp_path: Path) -> None:
    (tmp_path / "events.csv").write_text(f"ts{sign}type\n1{sign}A\n", encoding="utf-8")
    with pytest.raises(sq.SchemaError) as told:
        sq.Events(tmp_path / "events.csv")
    assert str(told.value).endswith(f"are its columns separated by {sign!r}? without commas: pandas.read_csv(path, sep={sign!r})")
