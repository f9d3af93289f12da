"""A running pipeline, looked at from outside: the files of its sinks and metrics, counted and shown while they grow.

A folder is a sink where it holds Parquet or JSON files, at any depth up to two. Where Spark keeps a log beside a sink's files
(`_spark_metadata`), the files that count are those in the log: others are of a writer that was stopped half-way. Counting reads
footers of Parquet files alone, once per file; what is shown is read from the newest file.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from nicegui import run, ui
from pyarrow import parquet

from seqube.explorer.results import flatten, plain

ROWS_SHOWN = 8
REFRESH_S = 2.0
LOG = "_spark_metadata"
POINTS_KEPT = 300


@dataclass
class Sink:
    """A folder of files that grows, and what is known of it."""

    name: str
    folder: Path
    counts: dict[tuple[Path, int], int] = field(default_factory=dict)  # by file and its size: a file that grows is counted anew
    history: list[tuple[float, int]] = field(default_factory=list)

    def files(self) -> list[Path]:
        """The finished files, oldest first."""
        found = [path for path in self.folder.rglob("*") if path.suffix in (".parquet", ".json", ".jsonl") and path.is_file()]
        found = [path for path in found if LOG not in path.parts and not path.name.startswith((".", "_"))]
        log = self.folder / LOG
        if log.is_dir():
            logged = _read_log(log)
            found = [path for path in found if path.name in logged]
        return sorted(found, key=lambda path: path.stat().st_mtime)

    def refresh(self) -> tuple[int, list[dict[str, Any]]]:
        """How many rows there are, and the newest of them."""
        files = self.files()
        sizes = [(path, path.stat().st_size) for path in files]
        for key in sizes:
            if key not in self.counts:
                self.counts[key] = _count(key[0])
        total = sum(self.counts[key] for key in sizes)
        for path in reversed(files):
            rows = _tail(path)
            if rows:
                return total, rows
        return total, []


def find_sinks(folder: Path) -> list[Sink]:
    """The sinks below a folder, or the folder itself where it holds files."""
    if not folder.is_dir():
        return []
    places = [folder, *sorted(p for p in folder.glob("*") if p.is_dir()), *sorted(p for p in folder.glob("*/*") if p.is_dir())]
    sinks: list[Sink] = []
    for place in places:
        inside = any(sink.folder in place.parents for sink in sinks)
        hidden = any(part.startswith(("_", ".")) for part in place.relative_to(folder).parts)
        has_files = any(p.suffix in (".parquet", ".json", ".jsonl") for p in place.iterdir() if not p.name.startswith(("_", ".")))
        if not inside and not hidden and (has_files or (place / LOG).is_dir()):
            sinks.append(Sink(str(place.relative_to(folder)) if place != folder else folder.name, place))
    return sinks


def _read_log(log: Path) -> set[str]:
    """The names of the files that Spark has committed: a line of JSON each, in numbered and compacted batches."""
    names = set()
    for batch in log.iterdir():
        if not batch.name.startswith("."):
            for line in batch.read_text(encoding="utf-8", errors="replace").splitlines():
                if line.startswith("{"):
                    names.add(Path(unquote(urlsplit(json.loads(line)["path"]).path)).name)
    return names


def _count(path: Path) -> int:
    try:
        if path.suffix == ".parquet":
            return int(parquet.read_metadata(path).num_rows)
        with path.open("rb") as file:
            return sum(1 for line in file if line.strip())
    except (OSError, pa.ArrowInvalid):
        return 0  # still being written, or already gone: the next look will tell


def _tail(path: Path) -> list[dict[str, Any]]:
    try:
        if path.suffix == ".parquet":
            file = parquet.ParquetFile(path)
            if not file.num_row_groups:
                return []
            table = file.read_row_group(file.num_row_groups - 1)
            rows: list[dict[str, Any]] = plain(flatten(table.slice(max(0, table.num_rows - ROWS_SHOWN))).to_pylist())
            return rows[::-1]
        with path.open("rb") as lines:
            lines.seek(max(0, path.stat().st_size - 64 * 1024))
            last = [
                line for line in lines.read().decode("utf-8", "replace").splitlines() if line.startswith("{") and line.endswith("}")
            ]
        return [plain(json.loads(line)) for line in last[-ROWS_SHOWN:]][::-1]
    except (OSError, pa.ArrowInvalid, ValueError):
        return []


class LivePanel:
    """A card for every sink: how many rows, how they grew while one looked, and the newest."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._sinks: dict[Path, Sink] = {}
        self._cards: dict[Path, _Card] = {}
        self._note = ui.label().classes("text-slate-500")
        self._place = ui.column().classes("w-full gap-3")
        self._timer = ui.timer(REFRESH_S, self._refresh)
        self._seconds = 0.0

    async def _refresh(self) -> None:
        looked = await run.io_bound(self._look)
        self._note.text = (
            f"{self._folder.name}: {len(self._sinks)} sinks, looked at every {REFRESH_S:.0f} s" if self._sinks else "No files yet."
        )
        for sink, total, rows in looked or []:
            sink.history = [*sink.history, (self._seconds, total)][-POINTS_KEPT:]
            if sink.folder not in self._cards:
                with self._place:
                    self._cards[sink.folder] = _Card(sink.name)
            self._cards[sink.folder].show(total, rows, sink.history)
        self._seconds += REFRESH_S

    def _look(self) -> list[tuple[Sink, int, list[dict[str, Any]]]]:
        for sink in find_sinks(self._folder):
            self._sinks.setdefault(sink.folder, sink)
        return [(sink, *sink.refresh()) for sink in self._sinks.values()]


class _Card:
    def __init__(self, name: str) -> None:
        with ui.column().classes("sq-card gap-1"):
            with ui.row().classes("items-center gap-3"):
                ui.label(name).classes("sq-title")
                self._total = ui.label().classes("sq-big").props(f'data-testid="live-{name}"')
            with ui.row().classes("w-full no-wrap gap-4"):
                self._chart = ui.echart(
                    {
                        "animation": False,
                        "color": ["#0f766e"],
                        "grid": {"left": 60, "right": 10, "top": 10, "bottom": 24},
                        "xAxis": {"type": "value", "axisLabel": {"formatter": "{value} s"}, "splitLine": {"show": False}},
                        "yAxis": {"type": "value", "scale": True, "minInterval": 1},
                        "series": [{"type": "line", "areaStyle": {"opacity": 0.15}, "showSymbol": False, "data": []}],
                    }
                ).style("height: 170px; width: 320px; flex: none")
                self._table = ui.table(rows=[], columns=[], row_key="#").classes("sq-table").props("flat dense")

    def show(self, total: int, rows: list[dict[str, Any]], history: list[tuple[float, int]]) -> None:
        self._total.text = f"{total:,}"
        self._chart.options["series"][0]["data"] = [list(point) for point in history]
        self._chart.update()
        names = list(rows[0]) if rows else []
        self._table.columns = [{"name": name, "label": name, "field": name, "align": "left"} for name in names]
        self._table.rows = [
            {**{k: v if not isinstance(v, (dict, list)) else json.dumps(v) for k, v in row.items()}, "#": n}
            for n, row in enumerate(rows)
        ]
