"""Tables as chart specs: plain dictionaries in the words of ECharts, drawn in the browser and made of nothing but data.

No spec holds code, so no value of an event can become any. Every function takes what is shown and no more; the callers see to that.
Times are drawn by the clocks of their own zone (`to_axis`), which the chart takes for UTC: else it would show those of the browser.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from seqube.engine.display import name_group
from seqube.engine.plots import are_far_apart, in_units
from seqube.explorer.results import ResultFile, holds_events, to_axis
from seqube.plan.explain import Explanation, Step
from seqube.plan.physical import milliseconds

Spec = dict[str, Any]

COLOURS = ["#0f766e", "#b45309", "#4f46e5", "#be123c", "#0369a1", "#4d7c0f", "#7e22ce", "#a16207", "#334155", "#c2410c"]
HIT_COLOUR, MISS_COLOUR, OPEN_COLOUR = "#0f766e", "#be123c", "#94a3b8"
INK, FAINT = "#334155", "#e2e8f0"

MAX_POINTS = 1_000
LANE_NAME = 210  # pixels for the name of a lane
MAX_GROUPS = 30
SMALL_CHART = 210  # pixels of one of several charts, one below the other
PLAN_STEP = 290  # pixels from one step of a plan to the next
PLAN_LETTERS = 40  # that fit between them


def _base(about: str, **parts: Any) -> Spec:
    """A spec of these parts; `about` is what those hear who do not see it."""
    spoken = {"enabled": True, "label": {"description": about}}
    return {
        "aria": spoken,
        "color": COLOURS,
        "animation": False,
        "useUTC": True,
        "textStyle": {"fontFamily": "inherit", "color": INK},
        **parts,
    }


def _grid(left: int = 90, bottom: int = 40) -> Spec:
    return {"left": left, "right": 30, "top": 20, "bottom": bottom}


# What is written at a tick that begins a year, a month, ...: a day says its month.
_TICKS = {"year": "{yyyy}", "month": "{MMM} {yyyy}", "day": "{d} {MMM}", "hour": "{HH}:{mm}", "minute": "{HH}:{mm}"}
_TICKS |= {"second": "{HH}:{mm}:{ss}", "millisecond": "{HH}:{mm}:{ss}.{SSS}"}


def time_axis(kind: pa.DataType, low: float, high: float, **parts: Any) -> Spec:
    """An axis from one time to another: of moments it says of which days and zone they are."""
    if not pa.types.is_temporal(kind):
        return {"type": "value", "scale": True, **parts}
    zone = getattr(kind, "tz", None)
    days = [np.datetime64(int(end), "ms").item().strftime("%-d %b %Y") for end in (low, high)]
    first = days[0].removesuffix(days[1][-5:])  # a year that both have is said once
    name = (days[1] if days[0] == days[1] else f"{first} to {days[1]}") + (f", {zone}" if zone else "")
    label = {"formatter": _TICKS, "hideOverlap": True}
    return {"type": "time", "name": name, "nameLocation": "middle", "nameGap": 24, "axisLabel": label, **parts}


# ---------------------------------------------------------------- matches in time


def draw_density(edges: npt.NDArray[np.float64], counts: npt.NDArray[np.int64], kind: pa.DataType, low: float, high: float) -> Spec:
    """How many matches end when, with a slider for the stretch that is looked at in detail."""
    middles = (edges[1:] + edges[:-1]) / 2
    span = float(edges[-1] - edges[0]) or 1.0
    shown = {"start": 100 * (low - float(edges[0])) / span, "end": 100 * (high - float(edges[0])) / span}
    ends = {"min": float(edges[0]), "max": float(edges[-1])}
    return _base(
        f"How many of {int(counts.sum()):,} matches end when",
        grid={"left": 90, "right": 30, "top": 26, "bottom": 80},
        # The slider moves a second, unseen axis: the bars stay where they are, and the slider says what is drawn below them.
        xAxis=[
            time_axis(kind, ends["min"], ends["max"], **ends, splitLine={"show": False}),
            time_axis(kind, ends["min"], ends["max"], **ends, show=False),
        ],
        yAxis={"type": "value", "name": "matches", "minInterval": 1, "splitLine": {"lineStyle": {"color": FAINT}}},
        dataZoom=[{"type": "slider", "xAxisIndex": 1, "filterMode": "none", "height": 24, "bottom": 6, "realtime": False, **shown}],
        tooltip={"trigger": "axis"},
        series=[
            {"type": "bar", "barWidth": "99%", "data": [[float(x), int(n)] for x, n in zip(middles, counts, strict=True)]},
            {"type": "line", "xAxisIndex": 1, "data": [], "silent": True},
        ],
    )


def draw_timeline(result: ResultFile, rows: npt.NDArray[np.int64], time: str, kind: str, low: float, high: float) -> Spec:
    """A lane per type, a point per event, a match as a line through its events."""
    part = result.table.take(pa.array(rows))
    found = []  # of each event its match, time, type, variable, and its place in a list
    for field in part.schema:
        if holds_events(field.type):
            owners, places, events = _events_of(part.column(field.name).combine_chunks())
            times = to_axis(pa.chunked_array([events.field(time)]))
            types = events.field(kind).cast(pa.string()).to_pylist()
            found += [(*each, field.name, place) for *each, place in zip(owners, times, types, places, strict=True)]
    found.sort(key=lambda each: each[:2])
    lanes = sorted({name for _, _, name, _, _ in found})
    lane_of = {name: number for number, name in enumerate(lanes)}
    spots: dict[int, list[list[float]]] = {}
    points = []
    for owner, moment, name, variable, place in found:
        spot = [float(moment), lane_of[name]]
        spots.setdefault(owner, []).append(spot)
        of = variable if place is None else f"{variable} {place}"
        points.append({"value": spot, "match": int(rows[owner]), "variable": of, "name": f"{of}: {name}"})
    lines = [{"coords": taken, "match": int(rows[owner])} for owner, taken in sorted(spots.items()) if len(taken) > 1]
    opacity = 0.7 if len(rows) < 60 else 0.25
    return _base(
        f"{len(rows):,} matches in time, with events of {', '.join(lanes)}",
        grid=_grid(left=110, bottom=50),
        xAxis=time_axis(
            result.table.schema.field("start").type, low, high, min=low, max=high, splitLine={"lineStyle": {"color": FAINT}}
        ),
        yAxis={
            "type": "category",
            "data": lanes,
            "splitLine": {"show": True, "lineStyle": {"color": FAINT}},
            "axisTick": {"show": False},
        },
        dataZoom=[{"type": "inside", "filterMode": "none"}],
        tooltip={"trigger": "item", "formatter": "{b}"},
        series=[
            {
                "type": "lines",
                "coordinateSystem": "cartesian2d",
                "polyline": True,
                "silent": True,
                "data": lines,
                "lineStyle": {"color": COLOURS[2], "width": 1.2, "opacity": opacity},
            },
            {"type": "scatter", "symbolSize": 9, "data": points, "itemStyle": {"color": COLOURS[0]}, "cursor": "pointer"},
        ],
    )


def _events_of(column: pa.Array) -> tuple[list[int], list[int | None], pa.StructArray]:
    """The events of a variable: the row of each, where it stands in its list (from 1; None of single events), and themselves."""
    if not pa.types.is_list(column.type):
        there = column.is_valid()
        return np.flatnonzero(np.asarray(there)).tolist(), [None] * int(pc.sum(there).as_py() or 0), column.filter(there)
    counts = np.asarray(pc.list_value_length(column).fill_null(0))
    places: list[int | None] = [place for count in counts.tolist() for place in range(1, count + 1)]
    return np.repeat(np.arange(len(column)), counts).tolist(), places, column.flatten()


# ---------------------------------------------------------------- aggregates


def draw_aggregates(table: pa.Table, groups: Sequence[str]) -> Spec | None:
    """A line over time for each aggregate (and group), or bars by group; None where there is nothing to draw."""
    table = in_units(table, groups)
    values = [field.name for field in table.schema if field.name != "ts" and field.name not in groups and _is_number(field.type)]
    if not values or not table.num_rows:
        return None
    return _draw_lines(table, values, list(groups)) if "ts" in table.column_names else _draw_bars(table, values, list(groups))


def height_of(spec: Spec) -> int:
    """How many pixels a chart of aggregates needs."""
    return SMALL_CHART * len(spec["yAxis"]) + 90 if isinstance(spec["yAxis"], list) else 380


def _one_each(spec: Spec, values: list[str], sizes: Mapping[str, float], below: int) -> Spec:
    """The same chart, with one for each measure, one below the other, where their sizes are too far apart for one axis."""
    if len(values) < 2 or not are_far_apart(sizes.values()):
        return spec
    places = range(len(values))
    grids = [{"left": 90, "right": 30, "top": 40 + SMALL_CHART * place, "height": SMALL_CHART - below} for place in places]
    named = {"nameTextStyle": {"align": "left"}, "minInterval": 0}
    axes = [{**spec["yAxis"], **named, "name": name, "gridIndex": place} for place, name in enumerate(values)]
    per_value = len(spec["series"]) // len(values)
    series = [
        {**each, "xAxisIndex": number // per_value, "yAxisIndex": number // per_value} for number, each in enumerate(spec["series"])
    ]
    zooms = [{**each, "xAxisIndex": list(places)} for each in spec.get("dataZoom", [])]
    drawn = {"grid": grids, "xAxis": [{**spec["xAxis"], "gridIndex": place} for place in places], "yAxis": axes, "series": series}
    return spec | drawn | ({"dataZoom": zooms} if zooms else {})


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _draw_lines(table: pa.Table, values: list[str], groups: list[str]) -> Spec:
    times = to_axis(table.column("ts"))
    labels = _labels(table, groups)
    series = []
    sizes = {name: _largest(table.column(name)) for name in values}
    distinct = sorted(set(labels))[:MAX_GROUPS]
    members = {label: [] for label in distinct}  # type: dict[str, list[int]]
    for row, label in enumerate(labels):
        if label in members:
            members[label].append(row)
    for name in values:
        column = np.asarray(table.column(name).cast(pa.float64(), safe=False).to_numpy())
        for label in distinct:
            chosen = np.array(members[label])
            points = _thin(*_with_gaps(times[chosen], column[chosen]))
            title = f"{name}, {label}" if groups else name
            series.append({"type": "line", "name": title, "showSymbol": len(points) < 60, "data": points})
    spec = _base(
        f"{', '.join(values)} over time",
        grid=_grid(bottom=90),
        legend={"top": 0, "type": "scroll"},
        tooltip={"trigger": "axis"},
        xAxis=time_axis(table.column("ts").type, float(times.min()), float(times.max()), splitLine={"show": False}),
        yAxis={"type": "value", "scale": True, "splitLine": {"lineStyle": {"color": FAINT}}},
        dataZoom=[{"type": "slider", "height": 22, "bottom": 10}, {"type": "inside"}],
        series=series,
    )
    return _one_each(spec, values, sizes, below=80)


def _largest(column: pa.ChunkedArray) -> float:
    return float(pc.max(pc.abs(column.cast(pa.float64(), safe=False))).as_py() or 0)


def _with_gaps(
    times: npt.NDArray[np.float64], values: npt.NDArray[np.float64]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """The points of a line, with one without a value where a regular one is missing, at which the line ends."""
    steps = np.diff(times)
    if len(steps) < 3 or np.sort(steps)[len(steps) // 2] != steps.min():
        return times, values
    before = np.flatnonzero(steps > steps.min())
    return np.insert(times, before + 1, times[before] + steps.min()), np.insert(values, before + 1, np.nan)


def _thin(times: npt.NDArray[np.float64], values: npt.NDArray[np.float64]) -> list[list[float | None]]:
    """At most so many points: of every stretch, the lowest and the highest, so that no peak is lost."""
    if len(times) > MAX_POINTS:
        keep = []
        for part in np.array_split(np.arange(len(times)), MAX_POINTS // 2):
            known = part[~np.isnan(values[part])]
            if len(known):
                keep += sorted({int(known[np.argmin(values[known])]), int(known[np.argmax(values[known])])})
        times, values = times[keep], values[keep]
    return [[float(t), None if np.isnan(v) else float(v)] for t, v in zip(times, values, strict=True)]


def _draw_bars(table: pa.Table, values: list[str], groups: list[str]) -> Spec:
    table = table.slice(0, MAX_POINTS)
    labels = _labels(table, groups)
    series = [
        {"type": "bar", "name": name, "data": [None if v is None else float(v) for v in table.column(name).to_pylist()]}
        for name in values
    ]
    spec = _base(
        f"{', '.join(values)} by {', '.join(groups)}" if groups else ", ".join(values),
        grid=_grid(bottom=70),
        legend={"top": 0},
        tooltip={"trigger": "axis"},
        xAxis={"type": "category", "data": labels, "axisLabel": {"hideOverlap": True}},
        yAxis={"type": "value", "splitLine": {"lineStyle": {"color": FAINT}}},
        series=series,
    )
    return _one_each(spec, values, {name: _largest(table.column(name)) for name in values}, below=60)


def draw_funnel(rows: Sequence[Mapping[str, Any]], breakdown: str | None, measure: str) -> Spec:
    """A bar for every step from top to bottom; with a breakdown one for each of its first values."""
    steps = list(dict.fromkeys(f"{row['step']} {row['type']}" for row in rows))
    values = list(dict.fromkeys(None if breakdown is None else row[breakdown] for row in rows))[:MAX_GROUPS]
    series = []
    for value in values:
        mine = [row for row in rows if breakdown is None or row[breakdown] == value]
        data = []
        for row in mine:
            share = "" if measure != "reached" or row["share"] is None else f" ({row['share']:.1%})"
            told = "" if row[measure] is None else f"{row[measure]:,{'' if measure == 'reached' else '.4g'}}{share}"
            data.append({"value": row[measure], "label": {"show": True, "position": "right", "formatter": _as_label(told)}})
        name = {} if breakdown is None else {"name": str(value)}
        series.append({"type": "bar", "data": data, **name})
    return _base(
        f"{'Keys' if measure == 'reached' else 'Median seconds'} at the steps {', '.join(steps)}",
        grid={"left": 120, "right": 90, "top": 30 if breakdown is not None else 10, "bottom": 30},
        legend={"show": breakdown is not None, "top": 0, "type": "scroll"},
        xAxis={"type": "value", "min": 0, "axisLabel": {"hideOverlap": True}, "splitLine": {"lineStyle": {"color": FAINT}}},
        yAxis={"type": "category", "data": steps, "inverse": True, "axisTick": {"show": False}},
        tooltip={"trigger": "axis"},
        series=series,
    )


def _labels(table: pa.Table, groups: list[str]) -> list[str]:
    columns = [table.column(name).to_pylist() for name in groups]
    return [name_group(row) for row in zip(*columns, strict=True)] if columns else ["all"] * table.num_rows


def draw_growth(lines: Mapping[str, Sequence[Sequence[float]]], times: pa.DataType | None = None) -> Spec:
    """Small lines of numbers that are looked at again and again; with `times`, what their first numbers stand for."""
    axis: Spec = {"type": "value", "scale": True, "minInterval": 1, "splitLine": {"show": False}}
    is_named = times is not None and pa.types.is_temporal(times) and any(lines.values())
    if is_named:
        ends = [point[0] for points in lines.values() for point in points]
        axis = time_axis(times, min(ends), max(ends), splitLine={"show": False})
    return _base(
        f"{', '.join(lines)} while one looks",
        grid={"left": 60, "right": 14, "top": 28 if len(lines) > 1 else 10, "bottom": 44 if is_named else 26},
        legend={"show": len(lines) > 1, "type": "scroll", "top": 0},
        tooltip={"trigger": "axis"},
        xAxis=axis,
        yAxis={"type": "value", "minInterval": 1, "splitLine": {"lineStyle": {"color": FAINT}}},
        series=[
            {"type": "line", "name": name, "showSymbol": len(points) < 30, "data": list(points)} for name, points in lines.items()
        ],
    )


def _as_label(text: str) -> str:
    """Text for a label as it is: braces would be places for other values."""
    return text.replace("{", "(").replace("}", ")")


def draw_pivot(pivot: Mapping[str, Any]) -> Spec:
    """Counts by the types at two positions, as a heat map; where all are equal there is no scale of colours."""
    counts = pivot["counts"]
    cells = [[x, y, count] for y, line in enumerate(counts) for x, count in enumerate(line)]
    lowest, highest = min((cell[2] for cell in cells), default=0), max((cell[2] for cell in cells), default=0)
    names = {"nameLocation": "middle", "axisTick": {"show": False}, "axisLabel": {"width": LANE_NAME // 2, "overflow": "truncate"}}
    scale = {"min": lowest, "max": max(highest, lowest + 1), "show": lowest < highest, "orient": "horizontal"}
    return _base(
        f"Counts by {pivot['names'][0]} and {pivot['names'][1]}, from {lowest:,} to {highest:,}",
        grid={"left": LANE_NAME // 2 + 40, "right": 20, "top": 52, "bottom": 50},
        tooltip={"trigger": "item"},
        xAxis={"type": "category", "data": pivot["columns"], "name": pivot["names"][1], "nameGap": 28, **names},
        yAxis={"type": "category", "data": pivot["rows"], "name": pivot["names"][0], "nameGap": LANE_NAME // 2 + 14}
        | {"inverse": True, **names},
        visualMap={**scale, "calculable": True, "right": 10, "top": 0, "itemHeight": 110}
        | {"itemWidth": 12, "inRange": {"color": ["#f0fdfa", "#99f6e4", "#2dd4bf"]}},
        series=[
            {
                "type": "heatmap",
                "data": cells,
                "label": {"show": len(cells) <= 150},
                "itemStyle": {"borderColor": "#fff", "borderWidth": 2},
            }
        ],
    )


# ---------------------------------------------------------------- forecasts


def draw_predictions(table: pa.Table) -> Spec:
    """The interval of each prediction as a bar in its rule's lane, coloured by how it turned out; a dot where it came true."""
    lows, highs = to_axis(table.column("earliest")), to_axis(table.column("latest"))
    outcomes, rules = table.column("outcome").to_pylist(), table.column("rule").to_pylist()
    lanes = {name: number for number, name in enumerate(dict.fromkeys(rules))}
    # Predictions of one rule overlap, so each is drawn a little above or below its neighbour.
    heights = [lanes[name] + (k % 9 - 4) / 12 for k, name in enumerate(rules)]
    series: list[dict[str, Any]] = []
    for outcome, colour in (("hit", HIT_COLOUR), ("miss", MISS_COLOUR), ("open", OPEN_COLOUR)):
        bars = [
            {"coords": [[float(lows[k]), heights[k]], [float(highs[k]), heights[k]]]}
            for k in range(len(rules))
            if outcomes[k] == outcome
        ]
        style = {"color": colour, "width": 3, "opacity": 0.75, "cap": "round"}
        series.append(
            {"type": "lines", "coordinateSystem": "cartesian2d", "name": outcome, "data": bars, "lineStyle": style}
            | {"itemStyle": {"color": colour}}
        )
    came = [k for k in range(len(rules)) if outcomes[k] == "hit"]
    if came:
        moments = to_axis(table.column("occurred").take(pa.array(came)))
        dots = [[float(t), heights[k]] for k, t in zip(came, moments, strict=True)]
        series.append({"type": "scatter", "name": "occurred", "symbolSize": 6, "data": dots, "itemStyle": {"color": INK}})
    label = {"width": LANE_NAME, "overflow": "truncate", "interval": 0}
    return _base(
        f"{len(rules):,} predictions of {len(lanes):,} rules in time, {outcomes.count('hit'):,} of them hits",
        grid={"left": LANE_NAME + 20, "right": 30, "top": 36, "bottom": 84},
        legend={"top": 0, "data": ["hit", "miss", "open", "occurred"]},
        xAxis=time_axis(
            table.column("earliest").type,
            float(lows.min()),
            float(highs.max()),
            splitLine={"lineStyle": {"color": FAINT}},
            axisLine={"onZero": False},
        ),
        # The bars have their own heights; beside them stand the names of the lanes.
        yAxis=[
            {"type": "value", "min": -0.5, "max": len(lanes) - 0.5, "inverse": True, "show": False},
            {"type": "category", "data": [_as_label(name) for name in lanes], "inverse": True, "position": "left"}
            | {"axisLabel": label, "axisTick": {"show": False}, "splitLine": {"show": True, "lineStyle": {"color": FAINT}}},
        ],
        dataZoom=[
            # What a slider draws of a series behind itself is a scribble where that is made of stretches.
            {"type": "slider", "xAxisIndex": 0, "filterMode": "none", "height": 22, "bottom": 10, "showDataShadow": False},
            {"type": "inside", "xAxisIndex": 0, "filterMode": "none"},
        ],
        # On a phone the names have less room.
        media=[{"query": {"maxWidth": 600}, "option": {"grid": {"left": 110}, "yAxis": [{}, {"axisLabel": {"width": 90}}]}}],
        series=series,
    )


# ---------------------------------------------------------------- plans


def draw_plan(plan: Explanation) -> Spec:
    """The plan as a tree, rows flowing from the leaves on the right to the answer on the left; with the ways not taken."""
    return _base(
        f"The plan: {plan.root.title}",
        series=[
            {
                "type": "tree",
                "data": [_tree(plan.root)],
                "left": 20,
                "right": PLAN_STEP,
                "top": 10,
                "bottom": 10,
                "symbolSize": 9,
                "roam": True,
                "initialTreeDepth": -1,
                "expandAndCollapse": False,
                "label": {
                    "position": "right",
                    "align": "left",
                    "fontSize": 12,
                    "lineHeight": 16,
                    "backgroundColor": "#fff",
                    "padding": [2, 4],
                    "rich": {
                        "title": {"fontWeight": "bold", "lineHeight": 17},
                        "note": {"color": "#475569"},
                        "taken": {"color": HIT_COLOUR, "fontWeight": "bold"},
                        "rejected": {"color": "#94a3b8"},
                    },
                },
                "lineStyle": {"color": "#94a3b8", "width": 1.5},
                "itemStyle": {"color": COLOURS[0]},
            }
        ],
    )


def _tree(step: Step) -> dict[str, Any]:
    words = [("title", step.title), *(("note", note) for note in step.notes)]
    words += [("taken" if option.is_taken else "rejected", str(option)) for option in step.options]
    label = "\n".join(f"{{{style}|{_as_label(line)}}}" for style, text in words for line in _wrap(text))
    return {"name": step.title, "label": {"formatter": label}, "children": [_tree(child) for child in step.children]}


def _wrap(text: str) -> list[str]:
    """Lines that fit beside a step: styled text is not broken by the chart."""
    return textwrap.wrap(text, PLAN_LETTERS) or [""]


def size_plan(step: Step) -> tuple[int, int]:
    """The width and the height, in pixels, that the drawing of a plan needs."""

    def measure(step: Step) -> tuple[int, int]:
        own = 1 + sum(len(_wrap(line)) for line in (step.title, *step.notes, *map(str, step.options)))
        sizes = [measure(child) for child in step.children]
        return 1 + max((size[0] for size in sizes), default=0), max(sum(size[1] for size in sizes), own)

    depth, n_lines = measure(step)
    return PLAN_STEP * depth + 40, 17 * n_lines + 40


def weighed(step: Step) -> list[Step]:
    """The steps for which the costs of several ways are known."""
    own = [step] if sum(option.seconds is not None for option in step.options) > 1 else []
    return own + [found for child in step.children for found in weighed(child)]


def draw_options(step: Step) -> Spec:
    """What each way was expected to cost, the taken one in colour."""
    options = [option for option in step.options if option.seconds is not None]
    bars = [
        # In microseconds: bars of a logarithmic axis begin at one.
        {"value": max(1e6 * (option.seconds or 0.0), 1.001), "itemStyle": {"color": HIT_COLOUR if option.is_taken else "#cbd5e1"}}
        for option in options
    ]
    labels = [_as_label(milliseconds(option.seconds or 0.0)) for option in options]
    return _base(
        f"What each way of {step.title} was expected to cost",
        title={"text": step.title, "textStyle": {"fontSize": 12}},
        grid={"left": 10, "right": 90, "top": 34, "bottom": 6, "containLabel": True},
        xAxis={"type": "log", "show": False},
        yAxis={"type": "category", "data": [option.strategy for option in options], "inverse": True, "axisTick": {"show": False}},
        series=[
            {
                "type": "bar",
                "barWidth": 14,
                "data": [
                    {**bar, "label": {"show": True, "position": "right", "formatter": label}}
                    for bar, label in zip(bars, labels, strict=True)
                ],
            }
        ],
    )
