"""A cube of a running pipeline: its counts in the last window, over time, and by the types at two positions.

What is counted are the finest cuboids (`seqube.live_cube`), a row each for every moment; the card reads the files of the sink, each
once, and adds up. So a type chosen at a position, finer or coarser, is shown at once, and as the stream goes on. A moment without
matches has no rows: that it is over is known of the watermark in the metrics.

Invariant: the counts are those of the files that are finished. Without a sink of metrics the last moment is the last with matches.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
from nicegui import ui
from pyarrow import csv, json, orc, parquet

from seqube.cube import Cube
from seqube.events import Hierarchy
from seqube.events.schema import TIME, UNITS, is_moment
from seqube.explorer.charts import draw_growth, draw_pivot
from seqube.explorer.results import to_axis
from seqube.language.tree import Query, Window
from seqube.live_cube import KEPT_MOMENTS, MATCH_COUNT, CountedCube, LiveCube, ticks_of
from seqube.plan.physical import ticks

READERS: dict[str, Callable[[Any], pa.Table]] = {
    ".parquet": lambda path: parquet.ParquetFile(path).read(),
    ".orc": lambda path: orc.ORCFile(path).read(),
    ".csv": csv.read_csv,
    ".json": json.read_json,
}


@dataclass
class CubeFiles:
    """The rows of a cube's sink, read as its files come."""

    pattern: Query
    every: Window
    hierarchy: Hierarchy | None
    unit: str
    tables: dict[Any, pa.Table] = field(default_factory=dict)  # by the file, and its version

    def look(self, files: list[Any], watermark: datetime | None = None) -> LiveCube:
        """The cube with what the finished files say, all of which up to the watermark are written."""
        self.tables = {file: self.tables[file] if file in self.tables else _read(file[0]) for file in files}
        cube = LiveCube(self.pattern, self.hierarchy)
        found = [table for table in self.tables.values() if table.num_rows]
        if not found:
            return cube
        rows = pa.concat_tables(found, promote_options="permissive").sort_by(TIME)
        due = ticks_of(rows.column(TIME))
        unit = "us" if is_moment(rows.column(TIME).type) else self.unit
        period, last = ticks(self.every, unit), int(due[-1])
        if watermark is not None:
            passed = (watermark - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) * UNITS["us"] // UNITS[unit]
            last = max(last, (passed - 1) // period * period)
        first = max(int(due[0]), last - (KEPT_MOMENTS - 1) * period)
        later = np.flatnonzero(due >= first)
        cube.take(rows.take(pa.array(later)), np.arange(first, last + 1, period))
        return cube


def _read(path: Any) -> pa.Table:
    try:
        return READERS[path.suffix](path)
    except (OSError, pa.ArrowInvalid, KeyError):
        return pa.table({})  # already gone, or of another kind


class CubeCard:
    """The pattern with a type to choose at every position, its count, the same over time, and a pivot."""

    def __init__(self, name: str, files: CubeFiles) -> None:
        self._cube = LiveCube(files.pattern, files.hierarchy)
        top = self._cube.now
        self._places = {at: type_name for at, (type_name, negated) in enumerate(top.components, 1) if not negated}
        self._chosen = dict(self._places)
        self._sides = dict(zip(("rows", "columns"), self._places, strict=False))  # the positions of the pivot
        with ui.column().classes("sq-card gap-1"):
            with ui.row().classes("items-center gap-3"):
                ui.label(name).classes("sq-title")
                self._total = ui.label("0").classes("sq-big")
                self._total.props["data-testid"] = f"cube-{name}"
                self._pattern = ui.label(top.pattern).classes("text-slate-500")
                self._pattern.props["data-testid"] = f"cube-pattern-{name}"
            with ui.row().classes("items-center gap-3"):
                for at, type_name in self._places.items():
                    offered = ui.select(
                        _below(top, type_name),
                        value=type_name,
                        label=f"position {at}",
                        on_change=lambda event, at=at: self._choose(at, event.value),
                    ).props("dense options-dense")
                    offered.props["data-testid"] = f"cube-at-{at}-{name}"
                for side, at in self._sides.items() if len(self._places) > 1 else ():
                    ui.select(
                        list(self._places),
                        value=at,
                        label=f"pivot: {side} by position",
                        on_change=lambda event, side=side: self._turn(side, event.value),
                    ).props("dense options-dense").classes("w-40").props["data-testid"] = f"cube-{side}-{name}"
            with ui.row().classes("w-full no-wrap gap-4"):
                self._chart = ui.echart(draw_growth({MATCH_COUNT: []})).style("height: 190px; width: 420px; flex: none")
                self._chart.props["data-testid"] = f"cube-over-time-{name}"
                self._pivot = ui.echart({}).style("height: 260px; width: 420px; flex: none")
                self._pivot.props["data-testid"] = f"cube-pivot-{name}"
                self._pivot.visible = len(self._places) > 1

    def show(self, cube: LiveCube) -> None:
        """What is known now, at the types that are chosen."""
        self._cube = cube
        self._draw()

    def _choose(self, at: int, name: str) -> None:
        self._chosen[at] = name
        self._draw()

    def _turn(self, side: str, at: int) -> None:
        """Pivot by another position; the two change places where it is the other's."""
        other = "columns" if side == "rows" else "rows"
        if self._sides[other] == at:
            self._sides[other] = self._sides[side]
        self._sides[side] = at
        self._draw()

    def _draw(self) -> None:
        moves = [(top, self._chosen[at], at) for at, top in self._places.items() if self._chosen[at] != top]
        here = self._cube.now.drill_down(concept=moves) if moves else self._cube.now
        self._total.text = f"{here.count:,}"
        self._pattern.text = here.pattern
        counts, times = self._cube.over_time(here).column(MATCH_COUNT).to_pylist(), self._cube.times
        points = [list(point) for point in zip(to_axis(times).tolist(), counts, strict=True)]
        _set(self._chart, draw_growth({MATCH_COUNT: points}, times.type))
        if self._pivot.visible:
            _set(self._pivot, draw_pivot(_pivot(here, self._sides["rows"], self._sides["columns"])))


def _set(chart: Any, options: Any) -> None:
    chart.options.clear()
    chart.options.update(options)
    chart.update()


def _below(cube: Cube, name: str) -> list[str]:
    concepts = cube.hierarchy
    defined = {definition.name for definition in cube.query.definitions}
    below = concepts.descendants(name) if concepts is not None and name in concepts else ()
    return [name, *(each for each in below if each not in defined)]


def _pivot(cube: CountedCube, rows: int, columns: int) -> dict[str, Any]:
    found = cube.pivot(rows, columns)
    names = [found.index.name, found.columns.name]
    return {"names": names, "rows": list(found.index), "columns": list(found.columns), "counts": found.to_numpy().tolist()}
