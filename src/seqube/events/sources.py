"""Whatever holds rows -> one Arrow table.

Arrow tables, batches, readers and datasets, pandas and polars data frames and everything that speaks Arrow's C stream protocol
(DuckDB's relations, Ibis, narwhals) are taken without a copy where their memory allows it; paths go to `files`. pandas and polars
are recognised by name and never imported here, so a program that does not use them does not pay for them.
"""

from __future__ import annotations

import os
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from seqube.errors import DataError
from seqube.events.files import Malformed, read_files
from seqube.events.schema import check_unique

_VIEWS = {pa.string_view().id, pa.binary_view().id, pa.run_end_encoded(pa.int32(), pa.int32()).id}
_FRAMES = ("DataFrame", "LazyFrame")
_TABLES = {"pandas": _FRAMES, "polars": _FRAMES, "narwhals": _FRAMES, "duckdb": ("DuckDBPyRelation",)}
_BIG = 1 << 31  # what the 32-bit offsets of Arrow's plain_columns strings can reach


def load(data: Any, type_column: str) -> tuple[pa.Table, Malformed | None]:
    """The rows of `data` as a table with one chunk per column, and the lines of its files that are no rows."""
    malformed = None
    if isinstance(data, (str, os.PathLike)):
        table, malformed = read_files([data], type_column)
    elif isinstance(data, (list, tuple)) and data and all(isinstance(path, (str, os.PathLike)) for path in data):
        table, malformed = read_files(data, type_column)
    else:
        table = as_table(data)
    return plain_columns(table), malformed


def as_table(data: Any) -> pa.Table:
    """The rows of a table or a data frame, of whatever library."""
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    try:
        if _is_frame(data, "pandas", "DataFrame"):
            return _from_pandas(data)
        if _is_frame(data, "polars", "DataFrame"):
            return data.to_arrow()
        if _is_frame(data, "polars", "LazyFrame"):
            return data.collect().to_arrow()
        if hasattr(data, "__arrow_c_stream__"):
            return pa.table(data)
        if _is_frame(data, "narwhals", "LazyFrame"):
            return data.collect().to_arrow()
        if _is_frame(data, "pyarrow", "Dataset") or _is_frame(data, "pyarrow", "Scanner"):
            return data.to_table()
    except (pa.ArrowException, TypeError, ValueError, AttributeError, OverflowError) as problem:
        raise DataError(
            f"this {type(data).__name__} cannot be read as a table: {problem}\n  hint: give every column values of one kind"
        ) from problem
    raise DataError(
        f"events cannot be read from a {type(data).__name__}\n"
        "  hint: give a pyarrow table, a pandas or polars data frame, or the path of a csv, json or parquet file"
    )


def kind_of_table(data: Any) -> str:
    """The library whose kind of table it is, of those that results can be given as; all others take Arrow's."""
    if isinstance(data, pa.Table):
        return "pyarrow"
    found = [library for library, names in _TABLES.items() if any(_is_frame(data, library, name) for name in names)]
    return found[0] if found else "pyarrow"


def _is_frame(data: Any, library: str, name: str) -> bool:
    return any(cls.__name__ == name and cls.__module__.partition(".")[0] == library for cls in type(data).__mro__)


def _from_pandas(frame: Any) -> pa.Table:
    if set(frame.index.names) - {None, *frame.columns} or frame.index.dtype.kind == "M":
        # A named index, or one of times, is a column like any other; what else has no name only numbers the rows.
        frame = frame.reset_index()
    names = [str(name) for name in frame.columns]
    check_unique(names)
    return pa.Table.from_pandas(frame, preserve_index=False).rename_columns(names)


def plain_columns(table: pa.Table) -> pa.Table:
    """The same table in one chunk per column, and without what others wrote beside its schema."""
    return one_chunk(table if table.schema.metadata is None else table.replace_schema_metadata(None))


def one_chunk(table: pa.Table) -> pa.Table:
    """The same table with every column in one chunk, of a type that Arrow can select rows from."""
    for column in table.itercolumns():
        if column.num_chunks != 1 or _needs_cast(column.type):
            break
    else:
        return table
    arrays = [_one_array(column) for column in table.columns]
    fields = [field.with_type(array.type) for field, array in zip(table.schema, arrays, strict=True)]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields, table.schema.metadata))


def _needs_cast(arrow: pa.DataType) -> bool:
    return (arrow.value_type if pat.is_dictionary(arrow) else arrow).id in _VIEWS


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    arrow = column.type
    if pat.is_dictionary(arrow):
        if _needs_cast(arrow):
            chunks = [
                pa.DictionaryArray.from_arrays(chunk.indices, chunk.dictionary.cast(_plain(arrow.value_type)))
                for chunk in column.chunks
            ]
            column = pa.chunked_array(chunks, pa.dictionary(arrow.index_type, _plain(arrow.value_type), arrow.ordered))
        column = column.unify_dictionaries()
    elif pat.is_run_end_encoded(arrow):
        column = pc.run_end_decode(column)
    elif _needs_cast(arrow):
        column = column.cast(_plain(arrow))
    elif pat.is_string(arrow) and column.nbytes >= _BIG:
        column = column.cast(pa.large_string())
    elif pat.is_binary(arrow) and column.nbytes >= _BIG:
        column = column.cast(pa.large_binary())
    if column.num_chunks == 0:
        return pa.array([], column.type)
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)


def _plain(view: pa.DataType) -> pa.DataType:
    return pa.large_binary() if pat.is_binary_view(view) else pa.large_string()
