"""How far keys get through steps: a funnel over the runs of a NEXT, or over the matches of its beginnings.

    next     the first event that fits, step by step: NEXT(...) KEEP PARTIAL, one query for all steps
    strict   consecutive events of a key: STRICT of the first step, of the first two, and so on
    any      some way through the steps: SEQ of the first step, of the first two, and so on

Some way through single types that nothing excludes is there exactly where the first events that fit are one, so `any` is then asked
as `next`. For each key the furthest run counts, and of equals the one that starts first. Times to convert are those from its first
event to the step, so that a median is over one number for each key that got there.

Cost: one query (else a query for each step), and a sort of its rows.
Invariant: the keys of a step are keys of the step before; without a breakdown the first row counts the keys that began.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from seqube.arguments import checked
from seqube.engine.limits import Limits, Named, read_limits
from seqube.engine.predicates import code_columns
from seqube.errors import PlanError, SchemaError, did_you_mean
from seqube.events import Events, Hierarchy
from seqube.events.schema import UNITS
from seqube.extras import need
from seqube.language.writer import quote, quote_column
from seqube.predict.ruletext import read_length
from seqube.query import run

if TYPE_CHECKING:
    import altair

MODES_OF_FUNNELS = {"next": "NEXT", "strict": "STRICT", "any": "SEQ"}
_REACHED = "#reached"
_Numbers = npt.NDArray[Any]


@dataclass(frozen=True)
class Funnel:
    """What `funnel` gives: `table`, with a row for every step (of every value of the breakdown), and `plot()`."""

    table: pa.Table
    breakdown: str | None = None

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def __repr__(self) -> str:
        lines = []
        for row in self.table.to_pylist():
            of = "" if self.breakdown is None else f"{row[self.breakdown]}  "
            share = "-" if row["share"] is None else f"{row['share']:.1%}"
            lines.append(f"{of}{row['step']} {row['type']}: {row['reached']:,} ({share})")
        return "\n".join(lines)

    def plot(self) -> altair.Chart:
        """A bar for every step, as long as the number of keys that reached it."""
        need("plot")
        import altair as alt

        rows = [{**row, "name": f"{row['step']} {row['type']}"} for row in self.table.to_pylist()]
        channels: dict[str, Any] = {"x": alt.X("reached:Q", title="reached"), "y": alt.Y("name:N", sort=None, title=None)}
        channels["tooltip"] = ["reached:Q", alt.Tooltip("share:Q", format=".1%"), alt.Tooltip("of_previous:Q", format=".1%")]
        if self.breakdown is not None:
            channels |= {"color": f"{self.breakdown}:N", "yOffset": f"{self.breakdown}:N"}
        chart: altair.Chart = alt.Chart(alt.Data(values=rows)).mark_bar().encode(**channels)  # type: ignore[no-untyped-call]
        return chart


@checked
def funnel(
    events: Any,
    steps: Sequence[str],
    *,
    by: str | Sequence[str],
    within: str | int,
    mode: str = "next",
    without: Mapping[int, str | Sequence[str]] | None = None,
    breakdown: str | None = None,
    type: str = "type",
    time: str = "ts",
    unit: str = "ms",
    hierarchy: Hierarchy | None = None,
    limits: Limits | None = None,
    **named: Unpack[Named],
) -> Funnel:
    """How many keys got how far through some steps: a `Funnel`, whose `table` has a row for every step.

    - `events`: what `run` takes.
    - `steps`: event types, in order.
    - `by`: the column, or columns, that tell whose events they are; each of their values is a key.
    - `within`: how long all steps may take: "30 min", or a number in the unit of the time column.
    - `mode`: "next" takes the first event that fits, "strict" consecutive events of a key, "any" some way through the steps.
    - `without`: types that must not occur before a step, since the step before: `{2: "logout"}`.
    - `breakdown`: a column; the funnel is told for each of its values at the first step.
    - `type`, `time`, `unit`, `hierarchy`: as for `run`.
    - `limits`, `named`: what the queries may use, as for `run`.

    Columns: `step`, `type`, `reached` (keys that got at least that far), `share` of the first step, `of_previous` step, and
    `median_seconds` from the first step to this one.

    >>> visits = pa.table({"user": [1, 1, 2, 2], "type": ["view", "pay", "view", "view"], "ts": [0, 90, 0, 50]})
    >>> sq.funnel(visits, ["view", "pay"], by="user", within="30 min", unit="s").table.to_pylist()[1]
    {'step': 2, 'type': 'pay', 'reached': 1, 'share': 0.5, 'of_previous': 0.5, 'median_seconds': 90.0}
    """
    asked = ask_funnel(steps, by, within, mode, without, breakdown)
    allowed = read_limits(limits, named)
    stream = events if isinstance(events, Events) else Events(events, type=type, time=time, unit=unit)
    asked.check_columns(stream.schema)
    tables = [run(asked.query(n), stream, hierarchy=hierarchy, limits=allowed).table for n in asked.lengths]
    return Funnel(_told(asked, tables, stream), breakdown)


def ask_funnel(
    steps: Sequence[str],
    by: str | Sequence[str],
    within: str | int,
    mode: str,
    without: Mapping[int, str | Sequence[str]] | None,
    breakdown: str | None,
) -> FunnelQueries:
    """What a funnel asks, checked."""
    if not steps:
        raise PlanError('a funnel needs steps\n  hint: event types in order, ["view", "cart", "pay"]')
    if mode not in MODES_OF_FUNNELS:
        raise PlanError(f"there is no mode {mode!r}\n  hint: {did_you_mean(mode, MODES_OF_FUNNELS) or 'one of next, strict, any'}")
    keys = (by,) if isinstance(by, str) else tuple(by)
    if not keys:
        raise PlanError('a funnel is about keys\n  hint: name the column that tells whose events they are: by="user"')
    excluded = {step: (names,) if isinstance(names, str) else tuple(names) for step, names in (without or {}).items()}
    if wrong := [step for step in excluded if not 2 <= step <= len(steps)]:
        hint = "without={2: ...} is between the first and the second"
        raise PlanError(f"nothing lies between step {wrong[0]} and a step before it\n  hint: {hint}")
    try:
        read_length(within)  # it becomes part of a query, so it must be a length and nothing else
    except ValueError as error:
        raise PlanError(f'within: {error}\n  hint: how long all steps may take, within="30 min"') from error
    word = "NEXT" if mode == "any" and not excluded else MODES_OF_FUNNELS[mode]
    return FunnelQueries(tuple(steps), keys, excluded, breakdown, word, str(within))


@dataclass(frozen=True)
class FunnelQueries:
    """The queries behind a funnel: one over all steps, or one for each beginning of them."""

    steps: tuple[str, ...]
    keys: tuple[str, ...]
    excluded: Mapping[int, tuple[str, ...]]
    breakdown: str | None
    word: str
    within: str

    @property
    def keeps_runs(self) -> bool:
        """Whether each row says itself how far it got."""
        return self.word == "NEXT"

    @property
    def lengths(self) -> range:
        """Over how many steps each query is."""
        return range(len(self.steps) if self.keeps_runs else 1, len(self.steps) + 1)

    def check_columns(self, there: Collection[str]) -> None:
        """Refuse keys and a breakdown that the events do not have, before they are part of a query that nobody wrote."""
        for argument, names in (("by", self.keys), ("breakdown", () if self.breakdown is None else (self.breakdown,))):
            for name in names:
                if name not in there:
                    raise SchemaError(f"{argument}: the events have no column {name!r}\n  hint: {did_you_mean(name, there)}")

    def query(self, n_steps: int, moments: bool = False) -> str:
        """The query over the first steps: the keys, the breakdown, how long after the first each step was, or when (`moments`)."""
        parts = []
        for number, name in enumerate(self.steps[:n_steps], 1):
            parts += [f"!{quote(other)} n{number}_{i}" for i, other in enumerate(self.excluded.get(number, ()))]
            parts.append(f"{quote(name)} s{number}")
        items = [f"{quote_column(key)} AS key{i}" for i, key in enumerate(self.keys)]
        items += [f"s1.{quote_column(self.breakdown)} AS breakdown"] if self.breakdown is not None else []
        times = [f"TIME(s{n}) AS at{n}" if moments else f"TIME(s{n}) - TIME(s1) AS lag{n}" for n in range(1, n_steps + 1)]
        items += ["TIME(s1) AS start", *times]
        lines = [
            f"PATTERN {self.word}({', '.join(parts)})",
            f"PARTITION BY {', '.join(map(quote_column, self.keys))}",
            "KEEP PARTIAL" if self.keeps_runs else "",
            f"WITHIN {self.within}",
            f"RETURN {', '.join(items)}",
        ]
        return "\n".join(filter(None, lines))


def _told(asked: FunnelQueries, tables: Sequence[pa.Table], stream: Events) -> pa.Table:
    """The rows of the funnel, from the furthest run of every key."""
    n_steps = len(asked.steps)
    lags = [f"lag{n}" for n in range(1, n_steps + 1)]
    whole = []
    for n, table in enumerate(tables, 1):
        reached = table.column("reached") if asked.keeps_runs else pa.chunked_array([pa.array(np.full(len(table), n, np.int64))])
        missing = {name: pa.nulls(len(table), table.column("lag1").type) for name in lags if name not in table.column_names}
        for name, column in missing.items():
            table = table.append_column(name, column)
        kept = [name for name in table.column_names if name.startswith(("key", "breakdown", "start", "lag"))]
        whole.append(table.select(sorted(kept)).append_column(_REACHED, reached))
    runs = pa.concat_tables(whole).combine_chunks()
    (codes,), _ = code_columns([[_column(runs, f"key{i}") for i in range(len(asked.keys))]])
    reached = runs.column(_REACHED).to_numpy()
    starts = runs.column("start").cast(pa.int64()).to_numpy()
    order = np.lexsort((starts, -reached, codes))
    best = order[np.concatenate(([True], np.diff(codes[order]) != 0))] if len(order) else order
    furthest = runs.take(pa.array(best))
    groups: list[tuple[Any, npt.NDArray[np.bool_]]] = [(None, np.ones(len(furthest), np.bool_))]
    if asked.breakdown is not None:
        column = _column(furthest, "breakdown")
        coded = column.dictionary_encode(null_encoding="encode") if not pa.types.is_dictionary(column.type) else column
        numbers, values = coded.indices.to_numpy(zero_copy_only=False), coded.dictionary.to_pylist()
        ordered = sorted(range(len(values)), key=lambda n: (values[n] is None, str(values[n])))
        groups = [(values[n], numbers == n) for n in ordered]
    rows = [row for value, members in groups for row in _steps(asked, furthest.filter(pa.array(members)), value, stream)]
    return funnel_table(asked, rows, _column(furthest, "breakdown").type if asked.breakdown is not None else None)


_COLUMNS = {
    "step": pa.int64(),
    "type": pa.string(),
    "reached": pa.int64(),
    "share": pa.float64(),
    "of_previous": pa.float64(),
    "median_seconds": pa.float64(),
}


def _steps(asked: FunnelQueries, furthest: pa.Table, value: Any, stream: Events) -> list[dict[str, Any]]:
    """A row for every step, over the furthest run of each key."""
    reached = furthest.column(_REACHED).to_numpy()
    counts, medians = [], []
    for n in range(1, len(asked.steps) + 1):
        there = reached >= n
        seconds = _seconds(furthest.column(f"lag{n}").filter(pa.array(there)), stream)
        counts.append(int(there.sum()))
        medians.append(float(np.median(seconds)) if len(seconds) else None)
    return step_rows(asked, counts, medians, value)


def step_rows(asked: FunnelQueries, counts: Sequence[int], medians: Sequence[float | None], value: Any) -> list[dict[str, Any]]:
    """The rows of one funnel, from how many keys reached each step and how long they took."""
    rows: list[dict[str, Any]] = []
    for n, (name, count, median) in enumerate(zip(asked.steps, counts, medians, strict=True), 1):
        row: dict[str, Any] = {"step": n, "type": name, "reached": count}
        row["share"] = count / counts[0] if counts[0] else None
        before = counts[max(n - 2, 0)]
        row["of_previous"] = count / before if before else None
        row["median_seconds"] = median
        rows.append(row if asked.breakdown is None else {asked.breakdown: value, **row})
    return rows


def funnel_table(asked: FunnelQueries, rows: Sequence[dict[str, Any]], kind: pa.DataType | None) -> pa.Table:
    """Rows as the table of a funnel; `kind` is that of the breakdown's values."""
    kinds = {**({asked.breakdown: kind} if asked.breakdown is not None else {}), **_COLUMNS}
    return pa.table({name: pa.array([row[name] for row in rows], kind) for name, kind in kinds.items()})


def _seconds(lags: pa.ChunkedArray, stream: Events) -> _Numbers:
    """Periods between times in seconds: durations, or numbers in the unit of the time column."""
    is_duration = pa.types.is_duration(lags.type)
    numbers: _Numbers = (lags.cast(pa.duration("us")).cast(pa.int64()) if is_duration else lags).to_numpy()
    return numbers / 1e6 if is_duration else numbers * (UNITS[stream.unit] / 1e9)


def _column(table: pa.Table, name: str) -> pa.Array:
    return table.column(name).combine_chunks()
