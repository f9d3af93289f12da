"""Files of events -> one Arrow table, and the lines that are no rows.

CSV (plain or compressed), JSON lines and Parquet; a path may be a file, a folder (searched all the way down) or a pattern with `*`.
A broken line of CSV or JSON does not stop the reading: it is rejected with its text, its row number and a reason.

Cost: Arrow's own readers. Only a file in which they find a broken line is read a second time, to number the lines (CSV) or to find
the broken ones (JSON, line by line).
Invariant: rows of the table + broken lines == rows of the files; row numbers run on from file to file, in the order of their names.
"""

from __future__ import annotations

import glob
import json
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from seqube.errors import DataError

_COMPRESSED = {".gz", ".bz2", ".zst"}
_KNOWN = "csv, csv.gz, json, jsonl, ndjson and parquet"
_NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"
_BLOCK = 8 << 20  # no row may be longer than a block
_NULL_LINE = re.compile(rb"\n(?:\xef\xbb\xbf)?[ \t\r]*null")


class Malformed(NamedTuple):
    """Lines that are no rows: their row numbers in the input, their texts, and what is wrong with each."""

    rows: npt.NDArray[np.int64]
    texts: pa.Array
    reasons: pa.Array


class _File(NamedTuple):
    table: pa.Table
    malformed: Malformed | None = None


def read_files(paths: Sequence[str | os.PathLike[str]], text_column: str) -> tuple[pa.Table, Malformed | None]:
    """The rows of all files that these paths stand for, in order. CSV has no types: `text_column` is not guessed to be numbers."""
    found = [entry for given in paths for entry in _found(os.fspath(given))]
    files = [_read(path, text_column) for path, _ in found]
    files = _add_keys(files, [keys for _, keys in found])
    malformed = _number_on(files)
    if len(files) == 1:
        return files[0].table, malformed
    try:
        return pa.concat_tables([file.table for file in files], promote_options="permissive"), malformed
    except pa.ArrowException as problem:
        raise DataError(
            f"the files of {os.fspath(paths[0])!r} do not fit together: {problem}\n"
            "  hint: a column must hold one kind of value in all files"
        ) from problem


def _add_keys(files: list[_File], keys: list[dict[str, str]]) -> list[_File]:
    """Give the rows of every file the `key=value` folders it lies in, as columns: numbers where all values are."""
    names = dict.fromkeys(name for found in keys for name in found)
    for name in names:
        texts = [None if found.get(name) == _NULL_FOLDER else found.get(name) for found in keys]
        is_number = all(text is None or (text.isdecimal() and len(text) < 19) for text in texts)
        arrow = pa.int64() if is_number else pa.string()
        for number, (file, text) in enumerate(zip(files, texts, strict=True)):
            if name not in file.table.column_names:
                column = pa.repeat(pa.scalar(text, pa.string()).cast(arrow), file.table.num_rows)
                files[number] = file._replace(table=file.table.append_column(name, column))
    return files


def _number_on(files: Sequence[_File]) -> Malformed | None:
    parts = []
    n_before = 0
    for file in files:
        n_rows = file.table.num_rows
        if file.malformed is not None:
            parts.append(file.malformed._replace(rows=file.malformed.rows + n_before))
            n_rows += len(file.malformed.rows)
        n_before += n_rows
    if not parts:
        return None
    rows, texts, reasons = zip(*parts, strict=True)
    return Malformed(np.concatenate(rows), pa.concat_arrays(texts), pa.concat_arrays(reasons))


# ---------------------------------------------------------------- finding


def _found(given: str) -> list[tuple[Path, dict[str, str]]]:
    try:
        return _expand(given)
    except (OSError, ValueError) as problem:  # a ValueError: a zero byte in the path
        raise DataError(f"{given!r} cannot be looked through: {problem}\n  hint: name the files themselves") from problem


def _expand(given: str) -> list[tuple[Path, dict[str, str]]]:
    """The files that a path stands for, each with the `key=value` folders on the way to it."""
    path = Path(given)
    if path.is_dir():
        inside = sorted(file for file in path.rglob("*") if file.is_file() and _is_data(file.relative_to(path)))
        if not inside:
            raise DataError(f"the folder {given!r} holds no data files\n  hint: files end in {_KNOWN}")
        return [(file, _keys(file.relative_to(path))) for file in inside]
    if path.exists():
        return [(path, {})]
    if glob.has_magic(given):
        matching = sorted(file for file in map(Path, glob.glob(given, recursive=True)) if file.is_file())  # noqa: PTH207
        if not matching:
            raise DataError(f"no file matches {given!r}\n  hint: check the folder and the pattern")
        return [(file, {}) for file in matching]
    raise DataError(f"there is no file {given!r}\n  hint: check the path; relative paths start at {str(Path.cwd())!r}")


def _is_data(path: Path) -> bool:
    # Names that start with _ or . are the notes of the programs that write such folders (_SUCCESS, .part.crc).
    return _format(path) is not None and not any(part.startswith(("_", ".")) for part in path.parts)


def _keys(path: Path) -> dict[str, str]:
    return dict(part.split("=", 1) for part in path.parts[:-1] if "=" in part)


def _format(path: Path) -> str | None:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    packed = bool(suffixes) and suffixes[-1] in _COMPRESSED
    suffix = "".join(suffixes[-2:-1] if packed else suffixes[-1:])
    if suffix == ".csv":
        return "csv"
    if suffix in {".json", ".jsonl", ".ndjson"}:
        return "json"
    return "parquet" if suffix == ".parquet" and not packed else None


# ---------------------------------------------------------------- reading


def _read(path: Path, text_column: str) -> _File:
    kind = _format(path)
    if kind is None:
        raise DataError(f"cannot tell what kind of file {str(path)!r} is\n  hint: the name should end in one of {_KNOWN}")
    try:
        if path.stat().st_size == 0:
            raise DataError(f"the file {str(path)!r} is empty\n  hint: it should hold at least the names of the columns")
        if kind == "csv":
            file = _read_csv(path, text_column)
        else:
            file = _read_json(path) if kind == "json" else _read_parquet(path)
    except (pa.ArrowException, OSError, EOFError, ValueError) as problem:
        raise DataError(f"the file {str(path)!r} cannot be read: {problem}\n  hint: is it whole, and really {kind}?") from problem
    if not file.table.num_columns:
        raise DataError(f"the file {str(path)!r} holds no columns\n  hint: is it whole, and really {kind}?")
    return file


def _read_parquet(path: Path) -> _File:
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        return _File(file.read())


def _read_csv(path: Path, text_column: str) -> _File:
    from pyarrow import csv

    def read(threads: bool) -> tuple[pa.Table, list[Any]]:
        broken: list[Any] = []

        def set_aside(row: Any) -> str:
            broken.append(row)
            return "skip"

        with pa.input_stream(str(path)) as stream:
            table = csv.read_csv(
                stream,
                csv.ReadOptions(use_threads=threads, block_size=_BLOCK),
                csv.ParseOptions(newlines_in_values=True, invalid_row_handler=set_aside),
                csv.ConvertOptions(column_types={text_column: pa.binary()}),  # `_clean_texts` forgives bytes that are no UTF-8
            )
        return table, broken

    table, broken = read(threads=True)
    if broken:
        table, broken = read(threads=False)  # rows are numbered only when they are read one after the other
    # Arrow counts from 1, and the names of the columns are its first row.
    rows = [row.number - 2 for row in broken]
    texts = [row.text for row in broken]
    reasons = [f"{row.actual_columns} fields instead of {row.expected_columns}" for row in broken]
    unclosed = _find_unclosed(path, table)
    if unclosed is not None:
        table = table.slice(0, table.num_rows - 1)
        rows.append(table.num_rows + len(broken))
        texts.append(unclosed)
        reasons.append("a quote is never closed")
    malformed = Malformed(np.array(rows, np.int64), pa.array(texts), pa.array(reasons)) if rows else None
    return _File(_clean_texts(table), malformed)


def _find_unclosed(path: Path, table: pa.Table) -> str | None:
    """The text of a last row whose open quote has swallowed the rest of the file, which Arrow takes for one long value."""
    last = table.column(table.num_columns - 1)
    if not len(last) or not (pat.is_string(last.type) or pat.is_binary(last.type)):
        return None
    value = last[-1].cast(pa.binary()).as_py() or b""
    if b"\n" not in value:
        return None
    with pa.input_stream(str(path)) as stream:
        content = stream.read()
    if content.count(b'"') % 2 == 0:
        return None
    quote = content.rfind(b'"' + value.partition(b"\n")[0].rstrip(b"\r"))
    return str(content[content.rfind(b"\n", 0, quote) + 1 :].decode("utf-8", "replace"))


def _clean_texts(table: pa.Table) -> pa.Table:
    """An empty field is no value, also in a column of strings (words like NA stay); bytes that are no UTF-8 are shown as such."""
    for number, field in enumerate(table.schema):
        column = table.column(number)
        if pat.is_binary(field.type):
            column = _decode(column)
        elif not pat.is_string(field.type):
            continue
        empty = pc.equal(column, "")
        if column.type != field.type or pc.any(empty).as_py():
            table = table.set_column(number, field.name, pc.if_else(empty, None, column))
    return table


def _decode(column: pa.ChunkedArray) -> pa.ChunkedArray:
    try:
        return column.cast(pa.string())
    except pa.ArrowInvalid:
        texts = [None if value is None else value.decode("utf-8", "replace") for value in column.to_pylist()]
        return pa.chunked_array([pa.array(texts, pa.string())])


# ---------------------------------------------------------------- JSON


def _read_json(path: Path) -> _File:
    import pyarrow.json as arrow_json

    try:
        with pa.input_stream(str(path)) as stream:
            return _File(arrow_json.read_json(_without_nulls(stream), arrow_json.ReadOptions(block_size=_BLOCK)))
    except pa.ArrowInvalid:
        with pa.input_stream(str(path)) as stream:
            return _mend_json(stream.read())


def _without_nulls(stream: pa.NativeFile) -> pa.NativeFile:
    """The stream, refused where a line begins with a null: a block that does ends the process, in PyArrow 26."""
    before = b"\n"  # what may be the beginning of such a line

    def look(block: pa.Buffer) -> pa.Buffer:
        nonlocal before
        data = before + bytes(block)
        if b"null" in data and _NULL_LINE.search(data):
            raise pa.ArrowInvalid("a line is no record")
        start = data.rfind(b"\n")
        line = data[start:].strip() if start >= 0 else b"no beginning"
        before = b"\n" + line if b"null".startswith(line) else b""
        return block

    return pa.TransformInputStream(stream, look)


def _mend_json(content: bytes) -> _File:
    """Read a file that Arrow refuses: set its broken lines aside, and write values of mixed kinds in one column as texts."""
    records: list[dict[str, Any]] = []
    rows, texts, reasons = [], [], []
    for row, line in enumerate(_split_records(content)):
        try:
            records.append(_record(line))
        except (ValueError, RecursionError) as problem:
            rows.append(row)
            texts.append(line.decode("utf-8", "replace"))
            reason = "too deeply nested" if isinstance(problem, RecursionError) else getattr(problem, "msg", str(problem))
            reasons.append(f"not a JSON record: {reason}")
    if not records:
        raise ValueError(f"no line is a JSON record ({reasons[0] if reasons else 'nothing but blank lines'})")
    malformed = Malformed(np.array(rows, np.int64), pa.array(texts, pa.string()), pa.array(reasons, pa.string())) if rows else None
    return _File(_table_of(records), malformed)


def _split_records(content: bytes) -> Iterable[bytes]:
    content = content.removeprefix(b"\xef\xbb\xbf")
    if content.lstrip()[:1] == b"[":
        # One array of records instead of a record a line.
        try:
            return [json.dumps(record).encode() for record in json.loads(content)]
        except (ValueError, RecursionError):
            pass
    return [line for line in content.split(b"\n") if line.strip()]


def _record(line: bytes) -> dict[str, Any]:
    record = json.loads(line.decode("utf-8"), object_pairs_hook=_unique_keys, parse_constant=lambda _: None)
    if not isinstance(record, dict):
        raise ValueError("not an object")
    return record


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) < len(pairs):
        raise ValueError("a name stands twice in one object")
    return record


def _table_of(records: list[dict[str, Any]]) -> pa.Table:
    import pyarrow.json as arrow_json

    kinds: dict[str, set[str]] = {}
    for record in records:
        for name, value in record.items():
            kinds.setdefault(name, set()).add(_kind(value))
    mixed = {name for name, found in kinds.items() if len(found - {"null"}) > 1}
    nested = {name for name, found in kinds.items() if "nested" in found}
    # Arrow may not find one type for lists and objects of many shapes either; then these are kept as texts, too.
    for as_text in (mixed, mixed | nested):
        lines = "\n".join(
            json.dumps({name: _text(value) if name in as_text else value for name, value in r.items()}) for r in records
        )
        content = lines.encode()
        try:
            options = arrow_json.ReadOptions(block_size=min(len(content) + 1, (1 << 31) - 1))
            return arrow_json.read_json(pa.BufferReader(content), options)
        except pa.ArrowInvalid:
            if as_text >= nested:
                raise
    raise AssertionError("unreachable")


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, str):
        return "string"
    return "number" if isinstance(value, (int, float)) else "nested"


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value)
