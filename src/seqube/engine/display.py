"""Rows as people see them: flat columns, times and durations as text, a table that fits the screen.

A struct of a variable becomes its attributes as columns (`r_id`, `w_ts`), a list of structs (a repeated variable) a list for each
attribute. Times and durations are ISO 8601 in text, wherever text is written: `PT5M`, and a time by the clocks of its own zone.

Cost: `flat` copies nothing but the offsets of lists. What is drawn is a few rows.
"""

from __future__ import annotations

import datetime
import shutil
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

WIDEST = 32  # characters of a cell on the screen: a time with microseconds and its zone


def flat(table: pa.Table) -> pa.Table:
    """The same rows without structs: `r_id` instead of `r` with an `id`; a name that is taken gets a `_` more."""
    names: list[str] = []
    columns = []
    for name, column in zip(table.column_names, table.columns, strict=True):
        for inner, values in _spread(name, column):
            while inner in names:
                inner += "_"
            names.append(inner)
            columns.append(values)
    return pa.table(columns, names)


def _spread(name: str, column: pa.ChunkedArray) -> Iterator[tuple[str, pa.ChunkedArray]]:
    kind = column.type
    if pat.is_struct(kind):
        for field, values in zip(kind, column.flatten(), strict=True):
            yield from _spread(f"{name}_{field.name}", values)
    elif pat.is_list(kind) and pat.is_struct(kind.value_type):
        for number, field in enumerate(kind.value_type):
            chunks = [
                pa.ListArray.from_arrays(chunk.offsets, pc.struct_field(chunk.values, [number]), mask=chunk.is_null())
                for chunk in map(_whole, column.chunks)
            ]
            yield from _spread(f"{name}_{field.name}", pa.chunked_array(chunks, pa.list_(field.type)))
    else:
        yield name, column


def _whole(chunk: pa.ListArray) -> pa.ListArray:
    """A list array whose offsets are its own: a slice keeps those of what it was cut from, which no mask goes with."""
    return pa.concat_arrays([chunk]) if chunk.offset == 0 else chunk.take(pa.array(range(len(chunk))))


# ---------------------------------------------------------------- durations


def iso_duration(value: datetime.timedelta) -> str:
    """A duration in ISO 8601: P1DT2H, PT0.5S, -PT5M."""
    return str(iso_durations(pa.array([value], pa.duration("us")))[0])


def iso_durations(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Durations as ISO 8601 texts."""
    unit = column.type.unit
    per_second = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}[unit]
    ticks = column.cast(pa.int64())
    size = pc.abs(ticks)

    def whole(length: int, of: Any = size) -> Any:
        return pc.divide(of, pa.scalar(length, pa.int64()))

    def rest(length: int) -> Any:
        return pc.subtract(size, pc.multiply(whole(length), pa.scalar(length, pa.int64())))

    def part(number: Any, letter: str) -> Any:
        texts = pc.binary_join_element_wise(number.cast(pa.string()), letter, "")
        return pc.if_else(pc.equal(number, 0), "", texts)

    day, hour, minute = 86_400 * per_second, 3_600 * per_second, 60 * per_second
    seconds, fraction = whole(per_second, rest(minute)), rest(per_second)
    digits = pc.utf8_rtrim(pc.utf8_lpad(fraction.cast(pa.string()), len(str(per_second)) - 1, "0"), "0")
    exact = pc.binary_join_element_wise(seconds.cast(pa.string()), digits, ".")
    of_second = pc.if_else(pc.equal(fraction, 0), part(seconds, "S"), pc.binary_join_element_wise(exact, "S", ""))
    of_day = pc.binary_join_element_wise(part(whole(hour, rest(day)), "H"), part(whole(minute, rest(hour)), "M"), of_second, "")
    time = pc.if_else(pc.equal(of_day, ""), pc.if_else(pc.less(size, day), "T0S", ""), pc.binary_join_element_wise("T", of_day, ""))
    sign = pc.if_else(pc.less(ticks, 0), "-P", "P")
    return pc.binary_join_element_wise(sign, part(whole(day), "D"), time, "")


# ---------------------------------------------------------------- on a screen


def brief(value: Any) -> str:
    """A value in a few characters."""
    match value:
        case None:
            return ""
        case datetime.timedelta():
            return iso_duration(value)
        case datetime.datetime():
            return value.isoformat(" ", "microseconds" if value.microsecond else "seconds")
        case float():
            return f"{value:.10g}"
        case list():
            return f"[{', '.join(map(brief, value))}]"
        case dict():
            return "{" + ", ".join(f"{name}: {brief(inner)}" for name, inner in value.items()) + "}"
        case _:
            return str(value)


def name_group(values: Iterable[Any]) -> str:
    """The values of a group as one label."""
    return ", ".join("null" if value is None else brief(value) for value in values)


def shown_columns(table: pa.Table) -> pa.Table:
    """The columns that have something to show, flat; all of them where none has."""
    columns = flat(table)
    telling = [name for name, column in zip(columns.column_names, columns.columns, strict=True) if column.null_count < len(column)]
    return columns.select(telling or columns.column_names)


def cell_texts(columns: pa.Table) -> dict[str, list[str]]:
    """What is shown of each column, row by row."""
    return {name: [_cut(brief(value)) for value in columns.column(name).to_pylist()] for name in columns.column_names}


def that_fit(cells: dict[str, list[str]], room: int, between: int) -> list[str]:
    """The columns that fit into so many characters, with so many between two.

    Of too many, those go first that say what another says (the first event's time is the start), then those that are the same in
    all rows, then those in the middle.
    """
    widths = {name: max(map(len, [_cut(name), *texts])) + between for name, texts in cells.items()}
    names = list(cells)

    def too_many() -> bool:
        return len(names) > 2 and sum(widths[name] for name in names) + (1 + between) * (len(names) < len(cells)) > room

    rows = {name: tuple(texts) for name, texts in cells.items()}
    first = {texts: name for name, texts in reversed(rows.items())}
    repeated = [name for name in names if first[rows[name]] != name]
    constant = [name for name in names if len(rows[name]) > 1 and len(set(rows[name])) == 1 and name not in repeated]
    for name in (*reversed(repeated), *reversed(constant)):
        if too_many():
            names.remove(name)
    while too_many():
        del names[len(names) // 2]
    return names


def draw_text(table: pa.Table) -> list[str]:
    """A table as lines, as wide as the screen: of too many columns those in the middle are left out, and counted."""
    columns = shown_columns(table)
    cells = cell_texts(columns)
    widths = {name: max(map(len, [_cut(name), *texts])) for name, texts in cells.items()}
    names = that_fit(cells, shutil.get_terminal_size((120, 24)).columns, between=2)
    left_out = len(cells) - len(names)
    gap = next((number for number, (name, first) in enumerate(zip(names, cells, strict=False)) if name != first), len(names))
    if not names:
        return []
    is_number = {name: pat.is_integer(kind) or pat.is_floating(kind) or pat.is_decimal(kind) for name, kind in _types(columns)}

    def line(texts: list[str]) -> str:
        aligned = [
            text.rjust(widths[name]) if is_number[name] else text.ljust(widths[name])
            for name, text in zip(names, texts, strict=True)
        ]
        if left_out:
            aligned.insert(gap, "…")
        return "  ".join(aligned).rstrip()

    rows = [line([cells[name][number] for name in names]) for number in range(len(columns))]
    return [line([_cut(name) for name in names]), *rows, *([f"({left_out} more columns)"] if left_out else [])]


def _types(table: pa.Table) -> Iterator[tuple[str, pa.DataType]]:
    return ((field.name, field.type) for field in table.schema)


def _cut(text: str) -> str:
    text = " ".join(text.split("\n"))
    return text if len(text) <= WIDEST else text[: WIDEST - 1] + "…"
