"""Rows as both sides write them, and tables, rules and queries for Spark to work on."""

from __future__ import annotations

import datetime
from collections import Counter
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

import seqube as sq
from answers import rows_of as bound
from predict.streams import Stream
from strategies import queries


def plain(value: Any) -> Any:
    """A value as both sides write it: instants in UTC without a zone, rows as mappings."""
    if isinstance(value, datetime.datetime) and value.tzinfo:
        return value.astimezone(datetime.UTC).replace(tzinfo=None)
    if isinstance(value, dict):
        return {name: plain(inner) for name, inner in value.items()}
    return value


def rows_of(table: pa.Table) -> Counter[str]:
    return Counter(repr(plain(row)) for row in table.to_pylist())


def with_end(table: pa.Table) -> pa.Table:
    """The events, and one long after them that brings the watermark past all others."""
    last = table.slice(table.num_rows - 1).to_pylist()[0]
    end = {**last, "type": "End", "ts": last["ts"].replace(year=2027)}
    return pa.concat_tables([table, pa.Table.from_pylist([end], table.schema)])


def table_of(stream: Stream) -> pa.Table:
    columns = {"ts": pa.array(stream.times, pa.int64()), "id": pa.array(stream.keys, pa.int64())}
    return pa.table({"type": pa.array(stream.names, pa.string()), **columns})


def keyed(rule: sq.Rule, columns: tuple[str, ...]) -> sq.Rule:
    return sq.Rule(rule.predicate, rule.consequent.text, rule.within, rule.horizon, rule.probability, rule.name, columns)


def bound_rows(rows: list[dict[str, Any]]) -> list[tuple[tuple[str, Any], ...]]:
    """Which rows of input each match binds, sorted: results come in any order."""
    names = [name for name in (rows[0] if rows else {}) if name not in ("start", "end", "match_id")]
    return sorted((tuple((name, bound(row[name])) for name in names) for row in rows), key=repr)


@st.composite
def keyed_queries(draw: st.DrawFn, depth: int = 4, **how: Any) -> str:
    """Queries with an equality over all their components, or a partition."""
    text = draw(
        queries(durations=False, depth=depth, predicates=draw(st.booleans()), counted=None if draw(st.booleans()) else False, **how)
    )
    if "PARTITION" in text or draw(st.booleans()):
        return text if "PARTITION" in text else text.replace("\nWITHIN", "\nPARTITION BY id\nWITHIN")
    within = text.index("\nWITHIN")
    where = " AND [id]" if "\nWHERE" in text else "\nWHERE [id]"
    return text[:within] + where + text[within:]
