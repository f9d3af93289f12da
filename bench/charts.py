"""The plots of the report: Altair specifications, as PNG files and as one HTML page that needs no network."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

from bench.measure import from_line

Line = dict[str, Any]

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Seqube: benchmarks</title>
<style>body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }}</style>
<script>{library}</script></head>
<body><h1>Seqube: benchmarks</h1>{places}<script>{script}</script></body></html>
"""


def write_charts(runs: dict[str, list[Line]], docs: Path) -> dict[str, list[tuple[str, str]]]:
    """A PNG for each plot, and all of them in charts.html; by run, the title and file of each."""
    try:
        import vl_convert
    except ImportError:
        print("no plots: vl-convert is not installed (make bench-peers)")
        return {}
    written: dict[str, list[tuple[str, str]]] = {}
    specs: dict[str, tuple[str, Any]] = {}
    for run, lines in runs.items():
        workload, _, size = run.partition("-")
        for name, title, chart in draw(workload, lines):
            name, title = (f"{name}-{size}", f"{title} ({size})") if size else (name, title)
            spec = chart.to_dict()
            (docs / f"{name}.png").write_bytes(vl_convert.vegalite_to_png(spec, scale=1.5))
            specs[name] = title, spec
            written.setdefault(run, []).append((title, f"{name}.png"))
    if specs:
        script = "".join(f"vegaEmbed('#{name}', {json.dumps(spec)});\n" for name, (_, spec) in specs.items())
        places = "".join(f'<h2>{title}</h2><div id="{name}"></div>' for name, (title, _) in specs.items())
        page = _PAGE.format(
            library=vl_convert.javascript_bundle(),  # type: ignore[call-arg] # its stub asks for what has a default
            script=script,
            places=places,
        )
        (docs / "charts.html").write_text(page, encoding="utf-8")
    return written


def draw(workload: str, lines: list[Line]) -> list[tuple[str, str, Any]]:
    """The plots of a workload, each with a name and a title: ours here, or the one its own module draws."""
    if workload == "peers":
        return draw_peers(lines)
    if workload == "scaling":
        return draw_scaling(lines)
    module = importlib.import_module(f"bench.workloads.{workload}")
    if not lines or not hasattr(module, "draw"):
        return []
    return [(workload, workload.capitalize(), module.draw([from_line(line) for line in lines]))]


def _numbers() -> Any:
    """An axis of numbers from fractions to millions: 0.1, 10, 1k, 1M. By itself `~s` calls a tenth 100m."""
    import altair as alt

    return alt.Axis(labelExpr="datum.value < 1 ? format(datum.value, '~r') : format(datum.value, '~s')")


def finding(points: list[Line], categories: bool = False) -> str:
    """What a panel shows, in a few words: who has the least and who the most, at the end of the axis or over all categories."""
    values: dict[str, dict[Any, float]] = {}
    for point in points:
        if point["y"]:
            values.setdefault(point["contender"], {})[point["x"]] = point["y"]
    if not values:
        return ""
    if categories:
        shared = sorted(set.intersection(*(set(of) for of in values.values())), key=str)
        least = [min(values, key=lambda who: values[who][x]) for x in shared]
        who = max(dict.fromkeys(least), key=least.count, default="")
        return f"least: {who}, in {least.count(who)} of {len(shared)}" if len(values) > 1 and least else ""
    if len(values) == 1:
        ((_, of),) = values.items()
        first, last = min(of), max(of)
        return f"from {first:g} to {last:g}: {_times(of[last] / of[first])} times" if first < last else ""
    at = max(x for of in values.values() for x in of)
    there = {who: of[at] for who, of in values.items() if at in of}
    least, most = min(there, key=there.__getitem__), max(there, key=there.__getitem__)
    return f"at {at:g}: least {least}, {most} {_times(there[most] / there[least])} times as much" if least != most else ""


def _times(ratio: float) -> str:
    return f"{ratio:,.0f}" if ratio >= 10 else f"{ratio:.2g}"


def panels(points: list[Line], columns: int = 2, categories: bool = False) -> Any:
    """A panel for each `panel`, in it a line for each `contender` through its points (x, y); y is logarithmic.

    Where x numbers things that have no order (`categories`), a bar for each contender instead of a line from one to the next.
    """
    import altair as alt

    def one(name: str) -> Any:
        here = [point for point in points if point["panel"] == name]
        data = alt.Chart(alt.InlineData(here))
        if categories:
            along = data.mark_bar().encode(
                x=alt.X("x:N", title=None, axis=alt.Axis(labelAngle=0)), xOffset=alt.XOffset("contender:N", sort=None)
            )
        else:
            along = data.mark_line(point=True).encode(x=alt.X("x:Q", title=None, scale=alt.Scale(zero=False)))
        return along.encode(
            y=alt.Y("y:Q", title=None, scale=alt.Scale(type="log"), axis=_numbers(), stack=None),
            color=alt.Color("contender:N", sort=None, title=None),
            tooltip=["contender:N", "x:Q", alt.Tooltip("y:Q", format=",.4~r")],
        ).properties(width=300, height=180, title=alt.Title(name, subtitle=finding(here, categories)))

    charts = [one(name) for name in dict.fromkeys(point["panel"] for point in points)]
    return alt.concat(*charts, columns=columns).resolve_scale(color="independent")


def draw_peers(lines: list[Line]) -> list[tuple[str, str, Any]]:
    """Events per second of everyone, on made-up and on real events; each contender at the largest size it was given."""
    import altair as alt

    best: dict[tuple[str, str], Line] = {}
    for line in lines:
        key = line["task"], line["contender"]
        if line["rate"] and (key not in best or line["events"] > best[key]["events"]):
            best[key] = line
    charts = []
    for name, title, real in (
        ("peers-generated", "Events per second, made-up trades", False),
        ("peers-trace", "Events per second, a day of real trades", True),
    ):
        rows = [
            {
                "query": task,
                "contender": who,
                "events per second": line["rate"],
                "events": line["events"],
                "matches": line["answer"],
            }
            for (task, who), line in best.items()
            if task.startswith("trace") is real
        ]
        if rows:
            chart = (
                alt.Chart(alt.InlineData(rows))
                .mark_circle(size=110, opacity=0.85)
                .encode(
                    x=alt.X("events per second:Q", scale=alt.Scale(type="log"), axis=_numbers()),
                    y=alt.Y("query:N", sort=None, title=None, axis=alt.Axis(grid=True)),
                    color=alt.Color("contender:N", sort=None, title=None),
                    tooltip=["query:N", "contender:N", alt.Tooltip("events per second:Q", format=",.0f"), "events:Q", "matches:Q"],
                )
                .properties(
                    width=620,
                    height=30 * len({row["query"] for row in rows}) + 20,
                    title=alt.Title(title, subtitle=who_is_first(rows)),
                )
            )
            charts.append((name, title, chart))
    return charts


def who_is_first(rows: list[Line]) -> str:
    """In how many queries the one who is first most often is first, and by how much."""
    queries: dict[str, list[Line]] = {}
    for row in rows:
        queries.setdefault(row["query"], []).append(row)
    ranked = [sorted(group, key=lambda row: -row["events per second"]) for group in queries.values()]
    firsts = [group[0]["contender"] for group in ranked]
    who = max(dict.fromkeys(firsts), key=firsts.count)
    ahead = [
        group[0]["events per second"] / group[1]["events per second"]
        for group in ranked
        if group[0]["contender"] == who and len(group) > 1
    ]
    by = f", by {_times(min(ahead))} to {_times(max(ahead))} times the second" if ahead else ""
    return f"{who} is first in {firsts.count(who)} of {len(ranked)} queries{by}"


def draw_scaling(lines: list[Line]) -> list[tuple[str, str, Any]]:
    """CPU time per event against what was varied."""
    import altair as alt

    rows = [
        {
            "series": line["about"]["series"],
            "value": line["about"]["value"],
            "CPU ns per event": 1e9 * line["cpu_s"] / line["events"],
            "rows found": line["answer"],
        }
        for line in lines
        if line["cpu_s"] and line["about"]["series"] not in ("cores", "stream")
    ]
    if not rows:
        return []
    title = "CPU time per event"
    panels = [
        alt.Chart(alt.InlineData([row for row in rows if row["series"] == series]))
        .mark_line(point=True)
        .encode(
            x=alt.X("value:Q", scale=alt.Scale(type="log"), title=None, axis=_numbers()),
            y=alt.Y("CPU ns per event:Q", scale=alt.Scale(zero=True)),
            tooltip=["value:Q", alt.Tooltip("CPU ns per event:Q", format=",.1f"), "rows found:Q"],
        )
        .properties(width=230, height=150, title=alt.Title(series, subtitle=finding(_points(rows, series))))
        for series in dict.fromkeys(row["series"] for row in rows)
    ]
    return [("scaling", title, alt.concat(*panels, columns=3).properties(title=title))]


def _points(rows: list[Line], series: str) -> list[Line]:
    return [
        {"contender": series, "x": row["value"], "y": row["CPU ns per event"]}
        for row in rows
        if row["series"] == series and isinstance(row["value"], (int, float))
    ]
