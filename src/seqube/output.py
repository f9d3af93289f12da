"""What a command says: tables to files and to the terminal, notes, JSON.

What was asked for goes to stdout, everything about how it went to stderr. A file is there whole or not at all.
"""

from __future__ import annotations

import json
import os
import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Any, BinaryIO, assert_never

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from seqube.engine.jsonable import plain
from seqube.errors import PlanError

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

out = Console()
err = Console(stderr=True)


class Format(StrEnum):
    parquet = "parquet"
    csv = "csv"
    json = "json"


def places_for(folder: Path, names: list[str], file_format: Format) -> dict[str, Path]:
    """A file for each name, without the characters that files cannot have."""
    if folder.parts and folder.parts[0].endswith(":"):  # the one slash that is left of two
        raise PlanError(
            f"--out is a folder of this machine, and {folder} was a URL\n"
            "  hint: write to a folder and copy it, or give the URL to a sink of a pipeline file"
        )
    places: dict[str, Path] = {}
    for name in names:
        path = folder / ("".join(letter if letter.isalnum() or letter in "._-" else "_" for letter in name) + f".{file_format}")
        if path in places.values():
            raise PlanError(f"two results would be written to {path}\n  hint: give the query {name!r} another name")
        places[name] = path
    return places


def write(table: pa.Table, path: Path) -> None:
    """Write a table in the format that the path's ending names; a file is there whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with draft.open("wb") as file:
            _write_to(table, file, Format(path.suffix[1:]))
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def print_table(table: pa.Table, file_format: Format) -> None:
    """A whole table on stdout, for the next program."""
    sys.stdout.flush()
    _write_to(table, sys.stdout.buffer, file_format)
    sys.stdout.flush()


def _write_to(table: pa.Table, file: BinaryIO, file_format: Format) -> None:
    match file_format:
        case Format.parquet:
            from pyarrow import parquet

            parquet.write_table(table, file)
        case Format.csv:
            from pyarrow import csv

            csv.write_csv(flatten(table), file)
        case Format.json:  # an object a line
            for batch in table.to_batches(max_chunksize=10_000):
                file.writelines(json.dumps(plain(row)).encode() + b"\n" for row in batch.to_pylist())
        case _:
            assert_never(file_format)


def flatten(table: pa.Table) -> pa.Table:
    """Flat columns (`r_id`) of what CSV can hold: times and durations as ISO 8601, lists and the like as JSON."""
    import pyarrow as pa

    from seqube.engine.display import flat, iso_durations
    from seqube.events.times import iso_times

    table = flat(table)
    for number, field in enumerate(table.schema):
        if pa.types.is_duration(field.type):
            table = table.set_column(number, field.name, iso_durations(table.column(number)))
        elif pa.types.is_timestamp(field.type):
            table = table.set_column(number, field.name, iso_times(table.column(number)))
        elif pa.types.is_nested(field.type):
            texts = [None if value is None else json.dumps(plain(value)) for value in table.column(number).to_pylist()]
            table = table.set_column(number, field.name, pa.array(texts, pa.string()))
    return table


def note(message: str) -> None:
    """A line on stderr just as it is: carets must stay where they are, so nothing is wrapped or coloured."""
    print(message, file=sys.stderr)  # noqa: T201


def print_json(document: dict[str, Any]) -> None:
    print(json.dumps(document))  # noqa: T201


def show(name: str, table: pa.Table, total: int) -> None:
    """The first rows as a table on the terminal: the columns that have something to show, as far as they fit."""
    from seqube.engine.display import cell_texts, shown_columns, that_fit

    out.print(f"{name}: {total:,} rows", style="bold", highlight=False, markup=False)
    cells = cell_texts(shown_columns(table))
    fitting = that_fit(cells, out.width - 1, between=3)
    left_out = [column for column in cells if column not in fitting]
    shown = Table(header_style="bold")
    for column in fitting:
        shown.add_column(escape(column), overflow="fold")
    for texts in zip(*(cells[column] for column in fitting), strict=True):
        shown.add_row(*map(escape, texts))
    if table.num_rows:
        out.print(shown)
        if left_out:
            more = f"not shown here, for want of room: {', '.join(left_out)} (RETURN chooses columns, --format csv prints all)"
            out.print(more, style="dim", highlight=False, markup=False)
    if total > table.num_rows:
        out.print(
            f"... and {total - table.num_rows:,} more (--limit N shows N, --out DIR writes all)", style="dim", highlight=False
        )
