"""States as bytes: Arrow tables one behind the other with a checksum at the end, and the version of their layout; never pickled.

Cost: linear in the state. Invariant: bytes that are damaged, or of another version, are refused, never misread.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from seqube.engine.predicates import Ints
from seqube.errors import DataError
from seqube.events import Events

VERSION = 2
_TABLE = "table"  # among the types of arrays in a bundle
_NUMBER = "#number"  # the column of event numbers that travels with the kept events of a tuple-count window


def seal(*parts: pa.Table) -> bytes:
    """Tables as Arrow IPC streams, one behind the other, and their checksum; at the end, so that columns stay aligned."""
    sink = pa.BufferOutputStream()
    for part in parts:
        with pa.ipc.new_stream(sink, part.schema) as writer:
            writer.write_table(part)
    data: bytes = sink.getvalue().to_pybytes()
    return data + zlib.crc32(data).to_bytes(4, "big")


def unseal(data: bytes) -> list[pa.Table]:
    """The tables that were sealed, in order."""
    parts: list[pa.Table] = []
    if zlib.crc32(memoryview(data)[:-4]) == int.from_bytes(data[-4:], "big"):
        source = pa.BufferReader(pa.py_buffer(data).slice(0, len(data) - 4)) if len(data) > 4 else pa.BufferReader(b"")
        with suppress(pa.ArrowException, OSError):  # zeros alone, say, have the right checksum
            while source.tell() < source.size():
                parts.append(pa.ipc.open_stream(source).read_all())
            if parts:
                return parts
    raise DataError("this is not the state of a query, or it is damaged\n  hint: begin the stream anew, with a new checkpoint")


def check_version(version: int, known: int = VERSION) -> None:
    """Refuse a layout that is not read here."""
    if version != known:
        raise DataError(
            f"this state was written in version {version} of its layout, and version {known} is read here\n"
            "  hint: go on with the release that wrote it, or begin the stream anew, with a new checkpoint"
        )


def write_state(events: Events | None, numbers: Ints | None, about: Mapping[str, Any], beside: pa.Table | None) -> bytes:
    """A state as Arrow IPC, never pickled: events with their numbers, a few facts, and a table of its own kind."""
    if events is None:
        raise DataError("a stream that has not begun has no state to write")
    schema, table = events.schema, events.table
    if numbers is not None:
        table = table.append_column(_NUMBER, pa.array(numbers))
    facts = {"version": VERSION, "type": schema.type_column, "time": schema.time_column, "unit": schema.unit, **about}
    table = table.replace_schema_metadata({b"seqube": json.dumps(facts).encode()})
    return seal(table, beside if beside is not None else pa.table({}))


def adapted(data: bytes, change: Callable[[pa.Table], Events]) -> bytes:
    """A state whose events look as they are made by `change`: for streams whose columns changed since it was written."""
    events, numbers, about, beside = read_state(data)
    changed = change(events.table)
    if changed.schema == events.schema:
        return data
    facts = {name: value for name, value in about.items() if name not in ("version", "type", "time", "unit")}
    return write_state(changed, numbers, facts, beside)


def read_state(data: bytes) -> tuple[Events, Ints | None, dict[str, Any], pa.Table | None]:
    """What `write_state` was given."""
    table, beside = unseal(data)
    about = json.loads(table.schema.metadata[b"seqube"])
    check_version(about.get("version", 1))
    numbers = None
    if _NUMBER in table.column_names:
        numbers = table.column(_NUMBER).to_numpy()
        table = table.drop_columns([_NUMBER])
    events = Events(table.replace_schema_metadata(None), type=about["type"], time=about["time"], unit=about["unit"])
    return events, numbers, about, beside if beside.num_columns else None


def bundle(parts: Mapping[str, npt.NDArray[Any] | pa.Table]) -> pa.Table:
    """Arrays and tables by name, as one table."""
    rows: list[tuple[str, str, Sequence[int], bytes]] = []
    for name, part in parts.items():
        if isinstance(part, pa.Table):
            rows.append((name, _TABLE, [], seal(part)))
        else:
            rows.append((name, part.dtype.str, part.shape, np.ascontiguousarray(part).tobytes()))
    names, kinds, shapes, values = zip(*rows, strict=True)
    columns = {"name": names, "type": kinds, "shape": pa.array(shapes, pa.list_(pa.int64()))}
    return pa.table({**columns, "values": pa.array(values, pa.large_binary())})


def unbundle(table: pa.Table) -> dict[str, Any]:
    """What `bundle` was given."""
    found: dict[str, Any] = {}
    for name, kind, shape, values in zip(*(column.to_pylist() for column in table.columns), strict=True):
        found[name] = unseal(values)[0] if kind == _TABLE else np.frombuffer(values, kind).reshape(shape).copy()
    return found
