"""Results as charts: matches in time, durations as a histogram, aggregates as lines over time or bars by group.

What names a group is known of aggregates, whose groups may be numbers as well; of other rows, what is no number names one.
Measures whose sizes are more than a hundred times apart get a chart each, because on one axis all but the largest lie on the
ground. A line does not go on where moments that come at regular times are missing. Times are drawn by the clocks of their own zone,
which the chart takes for UTC: else it would show the clocks of whoever looks at it.

Durations are drawn in the largest unit that the longest of them has a few of.

Cost: what is drawn is a few thousand rows at most.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from seqube.engine.display import name_group
from seqube.engine.jsonable import plain
from seqube.errors import PlanError
from seqube.events.times import wall_clock
from seqube.extras import need

if TYPE_CHECKING:
    import altair

DRAWN_ROWS = 500  # matches that are still told apart
DRAWN_CELLS = 5_000
BINS = 200
FAR_APART = 100  # times that one measure is larger than another
DRAWN_IN = {"days": 86_400.0, "hours": 3_600.0, "minutes": 60.0, "seconds": 1.0}
A_FEW = 3

Points = list[dict[str, Any]]


def plot_rows(table: pa.Table, groups: Sequence[str] | None = None) -> altair.Chart:
    """The chart that suits these rows; of aggregates, with the columns that name their `groups`."""
    need("plot")
    table = in_units(_by_clock(table), groups or ())
    names = set(table.column_names)
    if {"start", "end"} <= names:
        return _plot_matches(table) if len(table) <= DRAWN_ROWS else _plot_density(table)
    if "ts" in names:
        return _plot_over_time(table, groups)
    durations = [field.name for field in table.schema if field.metadata and b"unit" in field.metadata]
    if durations and groups is None:
        return _plot_durations(table, durations)
    return _plot_groups(table, groups)


def _plot_matches(table: pa.Table) -> altair.Chart:
    import altair as alt

    rows = [{"match": k, **plain(row)} for k, row in enumerate(table.select(["start", "end"]).to_pylist())]
    return _chart(rows, "bar", x=_axis(table, "start", "time"), x2="end", y=alt.Y("match:Q", axis=None))


def _plot_density(table: pa.Table) -> altair.Chart:
    ends = table.column("end")
    ticks = ends.cast(pa.int64()).to_numpy() // (1_000 if pat.is_timestamp(ends.type) else 1)
    x = _axis(table, "end", "time of the last event", shown="from").bin("binned")
    return _chart(_binned(ticks, "matches"), "bar", x=x, x2="to", y=_counted("matches"))


def _plot_durations(table: pa.Table, names: list[str]) -> altair.Chart:
    import altair as alt

    rows: Points = []
    for name in names:
        rows += [{"measure": name, **row} for row in _binned(table.column(name).drop_null().to_numpy(), "rows")]
    x = alt.X("from:Q", title=names[0] if len(names) == 1 else None, bin="binned")
    chart = _chart(rows, "bar", x=x, x2="to", y=_counted("rows"))
    return chart if len(names) == 1 else _one_each(chart)


def _plot_over_time(table: pa.Table, known: Sequence[str] | None) -> altair.Chart:
    import altair as alt

    numbers, groups = _columns(table, known)
    rows: Points = []
    sliced = table.slice(0, DRAWN_CELLS).to_pylist()
    for name in numbers:
        for group, points in _by_group(sliced, groups).items():
            series = ", ".join([name, *group]) if len(numbers) > 1 or not group else ", ".join(group)
            rows += [
                {"measure": name, "series": series, "value": value, "ts": plain(moment)}
                for moment, value in _with_gaps([(row["ts"], _number(row[name])) for row in points])
            ]
    is_apart = _are_far_apart(rows)
    y = _value(numbers, is_apart)
    chart = _chart(rows, "line", x=_axis(table, "ts", "ts"), y=alt.Y(**y), color=alt.Color("series:N", title=None))
    return _one_each(chart) if is_apart else chart


def _plot_groups(table: pa.Table, known: Sequence[str] | None) -> altair.Chart:
    import altair as alt

    numbers, groups = _columns(table, known)
    rows: Points = [
        {"measure": name, "value": _number(row[name]), "series": name_group(row[group] for group in groups) or name}
        for row in table.slice(0, DRAWN_CELLS).to_pylist()
        for name in numbers
    ]
    is_each = len(numbers) > 1 and (bool(groups) or _are_far_apart(rows))
    x = _value(numbers, is_each)
    chart = _chart(rows, "bar", x=alt.X(**x), y=alt.Y("series:N", sort=None, title=", ".join(groups) or None))
    return _one_each(chart) if is_each else chart


# ---------------------------------------------------------------- rows


def _columns(table: pa.Table, known: Sequence[str] | None) -> tuple[list[str], list[str]]:
    """The columns that are measured, and those that name groups, as far as these are known."""
    named = {"ts", *(known or ())}
    numbers = [field.name for field in table.schema if field.name not in named and _is_number(field.type)]
    if not numbers:
        raise PlanError("there are no times and no numbers to plot\n  hint: leave out RETURN, or return numbers")
    return numbers, [name for name in table.column_names if name != "ts" and name not in numbers]


def _by_group(rows: Points, groups: list[str]) -> dict[tuple[str, ...], Points]:
    found: dict[tuple[str, ...], Points] = {}
    for row in rows:
        found.setdefault(tuple(name_group([row[group]]) for group in groups), []).append(row)
    return found


def _with_gaps(points: list[tuple[Any, Any]]) -> Iterator[tuple[Any, Any]]:
    """The points of a line, with a point without a value where a regular one is missing, at which the line ends."""
    steps = sorted(after[0] - before[0] for before, after in pairwise(points))
    is_regular = len(steps) > 2 and steps[len(steps) // 2] == steps[0]
    for number, (moment, value) in enumerate(points):
        if number and is_regular and moment - points[number - 1][0] > steps[0]:
            yield points[number - 1][0] + steps[0], None
        yield moment, value


def _binned(values: Any, counted: str) -> Points:
    counts, edges = np.histogram(values, bins=min(BINS, max(1, int(2 * len(values) ** 0.5))))
    return [{"from": float(edges[k]), "to": float(edges[k + 1]), counted: int(n)} for k, n in enumerate(counts)]


def _are_far_apart(rows: Points) -> bool:
    largest: dict[str, float] = {}
    for row in rows:
        largest[row["measure"]] = max(largest.get(row["measure"], 0.0), abs(row["value"] or 0))
    return are_far_apart(largest.values())


def are_far_apart(largest: Iterable[float]) -> bool:
    """Whether measures with these largest values are of too different a size for one axis."""
    sizes = sorted(size for size in largest if size)
    return len(sizes) > 1 and sizes[-1] > FAR_APART * sizes[0]


def _number(value: Any) -> Any:
    return float(value) if isinstance(value, Decimal) else value


# ---------------------------------------------------------------- charts


def _chart(rows: Points, mark: str, **channels: Any) -> altair.Chart:
    import altair as alt

    chart = alt.Chart(alt.Data(values=rows))  # type: ignore[no-untyped-call]
    drawn: altair.Chart = getattr(chart, f"mark_{mark}")().encode(**channels)
    return drawn


def _one_each(chart: altair.Chart) -> altair.Chart:
    """A small chart for each measure, with its own axis."""
    import altair as alt

    row = alt.Row("measure:N", title=None, sort=None)
    small: altair.Chart = chart.properties(height=120).facet(row=row).resolve_scale(y="independent", x="independent")
    return small


def _value(numbers: list[str], is_each: bool) -> dict[str, Any]:
    """The axis of what is measured; charts of one measure each have its name beside them."""
    return {"shorthand": "value:Q", "title": None if is_each or len(numbers) > 1 else numbers[0]}


def _counted(name: str) -> altair.Y:
    """The axis of how many there are, which are whole numbers."""
    import altair as alt

    return alt.Y(f"{name}:Q", axis=alt.Axis(tickMinStep=1))


def _is_number(kind: pa.DataType) -> bool:
    return bool(pat.is_integer(kind) or pat.is_floating(kind) or pat.is_decimal(kind))


def in_units(table: pa.Table, groups: Sequence[str]) -> pa.Table:
    """The same rows, with durations that are no groups as numbers of a unit, which their column is named with."""
    for number, field in enumerate(table.schema):
        if pat.is_duration(field.type) and field.name not in groups:
            seconds = pc.divide(table.column(number).cast(pa.duration("us"), safe=False).cast(pa.int64()).cast(pa.float64()), 1e6)
            longest = pc.max(pc.abs(seconds)).as_py() or 0
            unit = next((name for name, length in DRAWN_IN.items() if longest >= A_FEW * length), "seconds")
            drawn = pa.field(f"{field.name} ({unit})", pa.float64(), metadata={"unit": unit})
            table = table.set_column(number, drawn, pc.divide(seconds, DRAWN_IN[unit]))
    return table


def _by_clock(table: pa.Table) -> pa.Table:
    """The same rows, with moments as the clocks of their zone show them, said to be in UTC; `zone` of a field is where that was."""
    for number, field in enumerate(table.schema):
        if pat.is_timestamp(field.type) or pat.is_date(field.type):
            clocks = wall_clock(table.column(number)).cast(pa.timestamp("us"), safe=False).cast(pa.timestamp("us", "UTC"))
            zone = getattr(field.type, "tz", None) or ""
            table = table.set_column(number, pa.field(field.name, clocks.type, metadata={"zone": zone}), clocks)
    return table


def _axis(table: pa.Table, name: str, title: str, shown: str = "") -> altair.X:
    """The axis along a column, as moments or as numbers."""
    import altair as alt

    field = table.schema.field(name)
    if not pat.is_timestamp(field.type):
        return alt.X(f"{shown or name}:Q", title=title)
    zone = field.metadata[b"zone"].decode()
    return alt.X(f"{shown or name}:T", title=f"{title} ({zone})" if zone else title, scale=alt.Scale(type="utc"))
