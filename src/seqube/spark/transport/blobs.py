"""Columns in large pieces: many rows travel through Spark as one binary value, and come out as the same columns.

Spark moves rows one by one; a blob holds thousands of rows of one task as Arrow IPC, so that a shuffle moves a few large values and
sorting is left to NumPy. Plain functions over Arrow, usable without Spark.

Cost: one gather per column and one copy into the blob.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from seqube.events.sources import one_chunk

BLOB_ROWS = 500_000  # packed at once: large enough for few blobs, small enough for a worker's memory
PIECE_ROWS = 100_000  # of a blob of rows that come out


def write_blob(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def read_blobs(blobs: Iterable[bytes | pa.Buffer]) -> pa.Table | None:
    """The rows of all blobs, which have one schema; None where there are no blobs."""
    tables = [pa.ipc.open_stream(blob).read_all() for blob in blobs]
    return one_chunk(pa.concat_tables(tables)) if tables else None


def gather_batches(batches: Iterable[pa.RecordBatch], rows: int = BLOB_ROWS) -> Iterator[pa.Table]:
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
