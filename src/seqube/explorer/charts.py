"""Tables as chart specs: plain dictionaries in the words of ECharts, drawn in the browser and made of nothing but data.

No spec holds code, so no value of an event can become any. Every function takes what is shown and no more; the callers see to that.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from seqube.explorer.jobs import Around, Cuboid
from seqube.explorer.results import ResultFile, holds_events, to_axis
from seqube.plan.explain import Explanation, Step
from seqube.plan.physical import milliseconds

Spec = dict[str, Any]

COLOURS = ["#0f766e", "#b45309", "#4f46e5", "#be123c", "#0369a1", "#4d7c0f", "#7e22ce", "#a16207", "#334155", "#c2410c"]
HIT_COLOUR, MISS_COLOUR, OPEN_COLOUR = "#0f766e", "#be123c", "#94a3b8"
INK, FAINT = "#334155", "#e2e8f0"

MAX_POINTS = 1_000
MAX_GROUPS = 30
PLAN_STEP = 290  # pixels from one step of a plan to the next
PLAN_LETTERS = 40  # that fit between them


def _base(**parts: Any) -> Spec:
    return {"color": COLOURS, "animation": False, "textStyle": {"fontFamily": "inherit", "color": INK}, **parts}


def _grid(left: int = 90, bottom: int = 40) -> Spec:
    return {"left": left, "right": 30, "top": 20, "bottom": bottom}


# ---------------------------------------------------------------- matches in time


def draw_density(edges: npt.NDArray[np.float64], counts: npt.NDArray[np.int64], axis: str, low: float, high: float) -> Spec:
    """How many matches end when, with a slider for the stretch that is looked at in detail."""
    middles = (edges[1:] + edges[:-1]) / 2
    span = float(edges[-1] - edges[0]) or 1.0
    shown = {"start": 100 * (low - float(edges[0])) / span, "end": 100 * (high - float(edges[0])) / span}
    return _base(
        grid={"left": 90, "right": 30, "top": 10, "bottom": 60},
        # The slider moves a second, unseen axis: the bars stay where they are, and the slider says what is drawn below them.
        xAxis=[
            {"type": axis, "min": float(edges[0]), "max": float(edges[-1]), "splitLine": {"show": False}},
            {"type": axis, "min": float(edges[0]), "max": float(edges[-1]), "show": False},
        ],
        yAxis={"type": "value", "name": "matches", "minInterval": 1, "splitLine": {"lineStyle": {"color": FAINT}}},
        dataZoom=[{"type": "slider", "xAxisIndex": 1, "filterMode": "none", "height": 24, "bottom": 6, "realtime": False, **shown}],
        tooltip={"trigger": "axis"},
        series=[
            {"type": "bar", "barWidth": "99%", "data": [[float(x), int(n)] for x, n in zip(middles, counts, strict=True)]},
            {"type": "line", "xAxisIndex": 1, "data": [], "silent": True},
        ],
    )


def draw_timeline(
    result: ResultFile, rows: npt.NDArray[np.int64], time: str, kind: str, axis: str, low: float, high: float
) -> Spec:
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
        grid=_grid(left=110, bottom=50),
        xAxis={"type": axis, "min": low, "max": high, "splitLine": {"lineStyle": {"color": FAINT}}},
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


def draw_aggregates(table: pa.Table) -> Spec | None:
    """A line over time for each aggregate (and group), or bars by group; None where there is nothing to draw."""
    timed = "ts" in table.column_names
    names = [field.name for field in table.schema if field.name != "ts"]
    values = [name for name in names if _is_number(table.schema.field(name).type)]
    groups = [name for name in names if name not in values]
    if not values or not table.num_rows:
        return None
    return _draw_lines(table, values, groups) if timed else _draw_bars(table, values, groups)


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _draw_lines(table: pa.Table, values: list[str], groups: list[str]) -> Spec:
    axis = "time" if pa.types.is_temporal(table.column("ts").type) else "value"
    times = to_axis(table.column("ts"))
    labels = _labels(table, groups)
    series = []
    distinct = sorted(set(labels))[:MAX_GROUPS]
    members = {label: [] for label in distinct}  # type: dict[str, list[int]]
    for row, label in enumerate(labels):
        if label in members:
            members[label].append(row)
    for name in values:
        column = np.asarray(table.column(name).cast(pa.float64(), safe=False).to_numpy())
        for label in distinct:
            chosen = np.array(members[label])
            points = _thin(times[chosen], column[chosen])
            title = f"{name}, {label}" if groups else name
            series.append({"type": "line", "name": title, "showSymbol": len(points) < 60, "data": points})
    return _base(
        grid=_grid(bottom=70),
        legend={"top": 0, "type": "scroll"},
        tooltip={"trigger": "axis"},
        xAxis={"type": axis, "splitLine": {"show": False}, "scale": True},
        yAxis={"type": "value", "scale": True, "splitLine": {"lineStyle": {"color": FAINT}}},
        dataZoom=[{"type": "slider", "height": 22, "bottom": 10}, {"type": "inside"}],
        series=series,
    )


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
    return _base(
        grid=_grid(bottom=70),
        legend={"top": 0},
        tooltip={"trigger": "axis"},
        xAxis={"type": "category", "data": labels, "axisLabel": {"hideOverlap": True}},
        yAxis={"type": "value", "splitLine": {"lineStyle": {"color": FAINT}}},
        series=series,
    )


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
            data.append({"value": row[measure], "label": {"formatter": _as_label(told)}})
        name = {} if breakdown is None else {"name": str(value)}
        series.append({"type": "bar", "data": data, "label": {"show": True, "position": "insideLeft"}, **name})
    return _base(
        grid={"left": 120, "right": 30, "top": 30 if breakdown is not None else 10, "bottom": 30},
        legend={"show": breakdown is not None, "top": 0, "type": "scroll"},
        xAxis={"type": "value", "min": 0, "splitLine": {"lineStyle": {"color": FAINT}}},
        yAxis={"type": "category", "data": steps, "inverse": True, "axisTick": {"show": False}},
        tooltip={"trigger": "axis"},
        series=series,
    )


def _labels(table: pa.Table, groups: list[str]) -> list[str]:
    columns = [table.column(name).to_pylist() for name in groups]
    return [", ".join(str(value) for value in row) for row in zip(*columns, strict=True)] if columns else ["all"] * table.num_rows


def draw_growth(lines: Mapping[str, Sequence[Sequence[float]]]) -> Spec:
    """Small lines of numbers that are looked at again and again."""
    return _base(
        grid={"left": 60, "right": 14, "top": 28 if len(lines) > 1 else 10, "bottom": 26},
        legend={"show": len(lines) > 1, "type": "scroll", "top": 0},
        tooltip={"trigger": "axis"},
        xAxis={"type": "value", "scale": True, "minInterval": 1, "splitLine": {"show": False}},
        yAxis={"type": "value", "minInterval": 1, "splitLine": {"lineStyle": {"color": FAINT}}},
        series=[
            {"type": "line", "name": name, "showSymbol": len(points) < 30, "data": list(points)} for name, points in lines.items()
        ],
    )


# ---------------------------------------------------------------- the cube


def draw_lattice(around: Around) -> Spec:
    """Coarser queries above, finer ones below, each with its count; the one that is looked at in the middle."""
    nodes, links = [], []

    def place(cuboids: Sequence[Cuboid], top: float, step: float, colour: str, is_above: bool) -> None:
        per_line = 6
        for number, cuboid in enumerate(cuboids):
            line, spot = divmod(number, per_line)
            n_here = min(per_line, len(cuboids) - line * per_line)
            x, y = (spot - (n_here - 1) / 2) * 190, top + step * line
            nodes.append(_lattice_node(cuboid, x, y, colour))
            ends = (cuboid.pattern + cuboid.move, "here")
            links.append({"source": ends[0], "target": ends[1]} if is_above else {"source": ends[1], "target": ends[0]})

    place(around.coarser, -110, -70, "#e0e7ff", is_above=True)
    place(around.finer, 110, 70, "#ccfbf1", is_above=False)
    here = _lattice_node(around.here, 0, 0, "#0f766e")
    here |= {"name": "here", "label": {**here["label"], "color": "#fff", "fontWeight": "bold"}}
    nodes.append(here)
    return _base(
        tooltip={"trigger": "item", "formatter": "{b}"},
        series=[
            {
                "type": "graph",
                "layout": "none",
                "roam": True,
                "symbol": "roundRect",
                "symbolSize": [178, 44],
                "left": 110,
                "right": 110,
                "top": 40,
                "bottom": 40,
                "data": nodes,
                "links": links,
                "lineStyle": {"color": "#94a3b8", "curveness": 0.05},
                "cursor": "pointer",
            }
        ],
    )


def _lattice_node(cuboid: Cuboid, x: float, y: float, colour: str) -> dict[str, Any]:
    pattern = cuboid.pattern.removeprefix("SEQ(").removesuffix(")")
    short = pattern if len(pattern) <= 26 else pattern[:25] + "…"
    label = {
        "show": True,
        "formatter": _as_label(f"{short}\n{cuboid.count:,}"),
        "color": INK,
        "lineHeight": 16,
    }
    return {
        "name": cuboid.pattern + cuboid.move,
        "x": x,
        "y": y,
        "value": cuboid.count,
        "text": cuboid.text,
        "label": label,
        "itemStyle": {"color": colour},
    }


def _as_label(text: str) -> str:
    """Text for a label as it is: braces would be places for other values."""
    return text.replace("{", "(").replace("}", ")")


def draw_pivot(pivot: Mapping[str, Any]) -> Spec:
    """Counts by the types at two positions, as a heat map."""
    counts = pivot["counts"]
    cells = [[x, y, count] for y, line in enumerate(counts) for x, count in enumerate(line)]
    lowest, highest = min((cell[2] for cell in cells), default=0), max((cell[2] for cell in cells), default=0)
    return _base(
        grid={"left": 120, "right": 110, "top": 30, "bottom": 50},
        tooltip={"trigger": "item"},
        xAxis={"type": "category", "data": pivot["columns"], "name": pivot["names"][1], "nameLocation": "middle", "nameGap": 28},
        yAxis={"type": "category", "data": pivot["rows"], "name": pivot["names"][0], "inverse": True},
        visualMap={
            "min": lowest,
            "max": max(highest, lowest + 1),
            "calculable": True,
            "right": 0,
            "top": "middle",
            "itemHeight": 110,
            "inRange": {"color": ["#f0fdfa", "#99f6e4", "#2dd4bf"]},
        },
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
    axis = "time" if pa.types.is_temporal(table.column("earliest").type) else "value"
    outcomes, rules = table.column("outcome").to_pylist(), table.column("rule").to_pylist()
    names = list(dict.fromkeys(rules))
    offsets = {name: number for number, name in enumerate(names)}
    series: list[dict[str, Any]] = []
    for outcome, colour in (("hit", HIT_COLOUR), ("miss", MISS_COLOUR), ("open", OPEN_COLOUR)):
        # Predictions of one rule overlap, so each is drawn a little above or below its neighbour.
        bars = [
            {"coords": [[float(lows[k]), (y := offsets[rules[k]] + (k % 9 - 4) / 12)], [float(highs[k]), y]]}
            for k in range(len(rules))
            if outcomes[k] == outcome
        ]
        style = {"color": colour, "width": 4, "opacity": 0.75, "cap": "round"}
        series.append(
            {
                "type": "lines",
                "coordinateSystem": "cartesian2d",
                "name": outcome,
                "data": bars,
                "lineStyle": style,
                "itemStyle": {"color": colour},
            }
        )
    came = [k for k in range(len(rules)) if outcomes[k] == "hit"]
    if came:
        moments = to_axis(table.column("occurred").take(pa.array(came)))
        dots = [[float(t), offsets[rules[k]] + (k % 9 - 4) / 12] for k, t in zip(came, moments, strict=True)]
        series.append({"type": "scatter", "name": "occurred", "symbolSize": 6, "data": dots, "itemStyle": {"color": INK}})
    titles = [
        {"value": [float(lows.min()), number + 0.45], "label": {"show": True, "position": "right", "formatter": _as_label(name)}}
        for name, number in offsets.items()
    ]
    series.append({"type": "scatter", "symbolSize": 1, "silent": True, "data": titles, "itemStyle": {"color": INK}})
    return _base(
        grid={"left": 30, "right": 30, "top": 40, "bottom": 60},
        legend={"top": 0, "data": ["hit", "miss", "open", "occurred"]},
        xAxis={"type": axis, "scale": True, "splitLine": {"lineStyle": {"color": FAINT}}, "axisLine": {"onZero": False}},
        yAxis={
            "type": "value",
            "min": -0.6,
            "max": len(names) - 0.4,
            "interval": 1,
            "axisLabel": {"show": False},
            "splitLine": {"show": False},
        },
        dataZoom=[{"type": "slider", "filterMode": "none", "height": 22, "bottom": 10}, {"type": "inside", "filterMode": "none"}],
        series=series,
    )


# ---------------------------------------------------------------- plans


def draw_plan(plan: Explanation) -> Spec:
    """The plan as a tree, rows flowing from the leaves on the right to the answer on the left; with the ways not taken."""
    return _base(
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
        {"value": max(1e3 * (option.seconds or 0.0), 1e-4), "itemStyle": {"color": HIT_COLOUR if option.is_taken else "#cbd5e1"}}
        for option in options
    ]
    labels = [_as_label(milliseconds(option.seconds or 0.0)) for option in options]
    return _base(
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
