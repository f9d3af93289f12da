"""Columns in large pieces: many rows travel through Spark as one binary value, and come out as the same columns.

Spark moves rows one by one; a blob holds thousands of rows of one task as Arrow IPC, so that a shuffle moves a few large values and
sorting is left to NumPy. Plain functions over Arrow, usable without Spark.

Cost: one gather per column and one copy into the blob.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from seqube.engine.predicates import Ints
from seqube.events.sources import one_chunk

ROWS = 500_000  # packed at once: large enough for few blobs, small enough for a worker's memory


def write_blob(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def read_blobs(blobs: Iterable[bytes | pa.Buffer]) -> pa.Table | None:
    """The rows of all blobs, which have one schema; None where there are no blobs."""
    tables = [pa.ipc.open_stream(blob).read_all() for blob in blobs]
    return one_chunk(pa.concat_tables(tables)) if tables else None


def gather_batches(batches: Iterable[pa.RecordBatch], rows: int = ROWS) -> Iterator[pa.Table]:
    """Batches put together to tables of about so many rows."""
    held: list[pa.RecordBatch] = []
    n_held = 0
    for batch in batches:
        if batch.num_rows:
            held.append(batch)
            n_held += batch.num_rows
        if n_held >= rows:
            yield one_chunk(pa.Table.from_batches(held))
            held, n_held = [], 0
    if held:
        yield one_chunk(pa.Table.from_batches(held))


def mix(hashes: Ints, more: Ints) -> Ints:
    """Two columns of hashes as one (the finaliser of SplitMix64, which spreads every bit)."""
    with np.errstate(over="ignore"):
        x = hashes.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + more.astype(np.uint64)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (x ^ (x >> np.uint64(31))).view(np.int64)


def number_equals(hashes: Ints) -> Ints:
    """0, 1, 2 ... for every further row with the same hash, so that rows that are equal in all columns are still told apart."""
    order = np.argsort(hashes, kind="stable")
    ordered = hashes[order]
    fresh = np.concatenate(([True], ordered[1:] != ordered[:-1])) if len(ordered) else np.empty(0, np.bool_)
    starts = np.flatnonzero(fresh)
    numbers = np.empty(len(hashes), np.int64)
    numbers[order] = np.arange(len(hashes)) - np.repeat(starts, np.diff(np.append(starts, len(hashes))))
    return numbers


def conform(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The table in the declared types: what is computed row by row may come in a narrower or wider type of its kind."""
    if table.schema.equals(schema):
        return table
    columns = []
    for field, column in zip(schema, table.columns, strict=True):
        if pat.is_timestamp(field.type) and pat.is_timestamp(column.type) and column.type.tz != field.type.tz:
            column = column.cast(pa.timestamp(column.type.unit, field.type.tz))
        columns.append(column.cast(field.type))
    return pa.Table.from_arrays(columns, schema=schema)
