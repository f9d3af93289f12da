"""Totals of pieces of a stream as one: what every piece has found of a group, merged as its measure says.

A total is a row with its group (and, per bucket, where that begins) and a column for each measure. Pieces are added up exactly:
Arrow's own sums wrap at 64 bits, so what may leave them is added up as decimals, and is a whole number again where it fits. Cost:
the pieces' rows, a few times. Invariant: totals of any cutting of a stream merge to those of the whole.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from seqube.engine.aggregates.lists_of_values import joined_lists
from seqube.engine.aggregates.measures import Collected, Extreme, Means, Moved, Sum, means
from seqube.engine.numbers import DIGITS
from seqube.engine.predicates import Ints
from seqube.engine.sequence import HIGHEST
from seqube.plan.aggregates import AggregatePlan

BUCKET = "#bucket"  # the column that says where each bucket begins


def total_keys(plan: AggregatePlan) -> list[str]:
    return [*([BUCKET] if plan.emit.when == "per" else []), *(f"#group{i}" for i in range(len(plan.group_by)))]


def merge_totals(parts: list[pa.Table], plan: AggregatePlan) -> pa.Table:
    """Totals of pieces of the stream as one."""
    keys = total_keys(plan)
    rows = {i: means(measure.function) for i, measure in enumerate(plan.measures, len(keys))}
    # Arrow compares no durations here, adds up decimals of one width only, and sums of 64 bits wrap.
    fields = [(i, field.type) for part in parts for i, field in enumerate(part.schema) if i >= len(keys)]
    plain = {i: pa.int64() for i, kind in fields if pat.is_duration(kind)}
    plain |= {i: pa.decimal256(DIGITS, kind.scale) for i, kind in fields if pat.is_decimal(kind)}
    added = {i: [part.column(i) for part in parts] for i, row in rows.items() if i not in plain and row.merge == "sum"}
    large = {i for i, columns in added.items() if _largest(columns) * sum(map(len, columns)) > HIGHEST}
    plain |= dict.fromkeys(large, pa.decimal256(DIGITS, 0))
    table = pa.concat_tables([_cast(part, plain) for part in parts])
    moving = {i: row.moved for i, row in rows.items() if isinstance(row, Sum) and row.moved is not None}
    if moving:
        table = _moved(table, keys, rows, moving, plan)
    merged, _ = _grouped(table, keys, rows)
    fitting = {i: pa.int64() for i in plain if rows[i].merge == "sum" and _largest([merged.column(i)]) <= HIGHEST}
    return _cast(merged, fitting | {i: kind for i, kind in fields if i in plain and isinstance(rows[i], Extreme)})


def stacked(parts: list[pa.Table]) -> pa.Table:
    """Rows of pieces behind each other. A count that leaves 64 bits is a decimal, and then so are those of other pieces."""
    kinds = [max((part.schema.types[i] for part in parts), key=_width) for i in range(parts[0].num_columns)]
    return pa.concat_tables([_cast(part, {i: k for i, k in enumerate(kinds) if part.schema.types[i] != k}) for part in parts])


def _width(kind: pa.DataType) -> int:
    return int(kind.precision) if pat.is_decimal(kind) else 0


def _largest(columns: list[pa.ChunkedArray]) -> int:
    """The largest whole number, whatever its sign; doubles do not count."""
    ends = [end.as_py() or 0 for column in columns if not pat.is_floating(column.type) for end in pc.min_max(column).values()]
    return int(max(map(abs, ends), default=0))


def _grouped(table: pa.Table, keys: list[str], rows: dict[int, Means], numbers: bool = False) -> tuple[pa.Table, Ints]:
    """Every measure of every group, merged as its row says; and, where that is asked for, the group of every piece."""
    lists = [i for i, row in rows.items() if isinstance(row, Collected)]
    how = [(table.field(i).name, row.merge) for i, row in rows.items() if i not in lists]
    groups = np.zeros(table.num_rows, np.int64)
    names, whole = table.column_names, table
    if lists:
        table = table.select([i for i in range(table.num_columns) if i not in lists])
    if (numbers or lists) and keys:
        table = table.append_column("#piece", pa.array(np.arange(table.num_rows)))
        merged = table.group_by(keys, use_threads=False).aggregate([*how, ("#piece", "list")])
        pieces = one_array(merged.column("#piece_list"))
        groups[np.asarray(pieces.flatten())] = np.repeat(np.arange(len(pieces)), np.asarray(pieces.value_lengths()))
    else:
        merged = table.group_by(keys, use_threads=False).aggregate(how)
    found = {name: merged.column(f"{name}_{word}") for name, word in how}
    found |= {names[i]: joined_lists(one_array(whole.column(i)), groups, merged.num_rows) for i in lists}
    return pa.table([*(merged.column(key) for key in keys), *(found[name] for name in names[len(keys) :])], names=names), groups


def _moved(table: pa.Table, keys: list[str], rows: dict[int, Means], moving: dict[int, Moved], plan: AggregatePlan) -> pa.Table:
    """The pieces with what each adds to its group, where that depends on the group as a whole."""
    merged, groups = _grouped(table, keys, rows, numbers=True)
    whole = merged.take(pa.array(groups))
    arguments = {i: measure.argument for i, measure in enumerate(plan.measures, len(keys))}
    for i, moved in moving.items():
        places = {rows[j].name: j for j in rows if arguments[j] == arguments[i]}
        own, group = ({name: one_array(side.column(j)) for name, j in places.items()} for side in (table, whole))
        table = table.set_column(i, table.field(i).name, moved(own, group))
    return table


def _cast(table: pa.Table, kinds: dict[int, pa.DataType]) -> pa.Table:
    for i, kind in kinds.items():
        table = table.set_column(i, table.field(i).name, table.column(i).cast(kind))
    return table


def one_array(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
