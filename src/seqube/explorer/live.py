"""A running pipeline, looked at from outside: the files of its sinks and metrics, counted and shown while they grow.

A pipeline file says where its sinks are; without one, folders with Parquet or JSON files are sinks. Where Spark keeps a log beside
a sink's files (`_spark_metadata`), the files in the log count: others are of a writer that was stopped half-way. Counting reads
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

from seqube.explorer.charts import draw_growth
from seqube.explorer.results import flatten, plain

ROWS_SHOWN = 8
REFRESH_S = 2.0
LOG = "_spark_metadata"
ENDINGS = (".parquet", ".json", ".jsonl")
SHOWN_METRICS = ("read", "used", "late", "quarantined")
POINTS_KEPT = 300


@dataclass(frozen=True, slots=True)
class Look:
    """What one look at a sink saw."""

    n_rows: int
    newest: list[dict[str, Any]]
    numbers: dict[str, list[list[float]]]  # of metrics: each number, micro-batch by micro-batch


@dataclass
class Sink:
    """A folder of files that grows, and what is known of it."""

    name: str
    folder: Path
    counts: dict[tuple[Path, int], int] = field(default_factory=dict)  # by file and its size: a file that grows is counted anew
    metrics: dict[Path, dict[str, Any]] = field(default_factory=dict)
    history: list[tuple[float, int]] = field(default_factory=list)

    def files(self) -> list[Path]:
        """The finished files, oldest first."""
        found = [path for path in self.folder.rglob("*") if path.suffix in ENDINGS and path.is_file()]
        found = [path for path in found if not _is_hidden(path.relative_to(self.folder))]
        log = self.folder / LOG
        if log.is_dir():
            logged = _read_log(log)
            found = [path for path in found if path.name in logged]
        return sorted(found, key=lambda path: (path.stat().st_mtime, path))

    def look(self) -> Look:
        files = self.files()
        sizes = [(path, path.stat().st_size) for path in files]
        for key in sizes:
            if key not in self.counts:
                self.counts[key] = _count(key[0])
        total = sum(self.counts[key] for key in sizes)
        newest = next((rows for path in reversed(files) if (rows := _tail(path))), [])
        return Look(total, newest, self._numbers(files) if newest and "batch" in newest[0] else {})

    def _numbers(self, files: list[Path]) -> dict[str, list[list[float]]]:
        for path in files[-POINTS_KEPT:]:
            if path not in self.metrics and (rows := _tail(path)):
                self.metrics[path] = rows[0]
        lines: dict[str, list[list[float]]] = {}
        for at, row in enumerate(self.metrics[path] for path in files[-POINTS_KEPT:] if path in self.metrics):
            flat = row | {f"matches: {name}": n for name, n in (row.get("matches") or {}).items()}
            for name, value in flat.items():
                if name in SHOWN_METRICS or name.startswith("matches: "):
                    lines.setdefault(name, []).append([at, value])
        return lines


def find_sinks(place: Path) -> list[Sink]:
    """The sinks that a pipeline file declares, or those that lie below a folder."""
    if place.is_file():
        from seqube.spark.streaming.declaration import read_declaration

        declared = read_declaration(place)
        folders = {name: Path(sink.path) for name, sink in declared.sinks.items()}
        matches = folders.pop("matches", None)
        by_query = {name: matches / name for name in declared.queries} if matches else {}
        return [Sink(name, folder) for name, folder in {**by_query, **folders}.items() if folder.is_dir()]
    if not place.is_dir():
        return []
    sinks: list[Sink] = []
    for folder in [place, *sorted(p for pattern in ("*", "*/*") for p in place.glob(pattern) if p.is_dir())]:
        inside = any(sink.folder in folder.parents for sink in sinks)
        if not inside and not _is_hidden(folder.relative_to(place)) and any(map(_is_row_file, folder.iterdir())):
            sinks.append(Sink(str(folder.relative_to(place)) if folder != place else folder.name, folder))
    return sinks


def _is_row_file(path: Path) -> bool:
    return path.name == LOG or path.name.startswith("batch=") or (path.suffix in ENDINGS and not _is_hidden(Path(path.name)))


def _is_hidden(path: Path) -> bool:
    """What Spark is still writing, and what is its own."""
    return any(part.startswith(("_", ".")) for part in path.parts)


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

    def __init__(self, place: Path) -> None:
        self._watched = place
        self._sinks: dict[Path, Sink] = {}
        self._cards: dict[Path, _Card] = {}
        self._note = ui.label().classes("text-slate-500")
        self._place = ui.column().classes("w-full gap-3")
        self._seconds = 0.0
        ui.timer(REFRESH_S, self._refresh)

    async def _refresh(self) -> None:
        looks = await run.io_bound(self._look)
        sinks = f"{len(self._sinks)} sinks, looked at every {REFRESH_S:.0f} s" if self._sinks else "no files yet"
        self._note.text = f"{self._watched.name}: {sinks}"
        for sink, look in looks or []:
            sink.history = [*sink.history, (self._seconds, look.n_rows)][-POINTS_KEPT:]
            if sink.folder not in self._cards:
                with self._place:
                    self._cards[sink.folder] = _Card(sink.name)
            self._cards[sink.folder].show(look, sink.history)
        self._seconds += REFRESH_S

    def _look(self) -> list[tuple[Sink, Look]]:
        for sink in find_sinks(self._watched):
            self._sinks.setdefault(sink.folder, sink)
        return [(sink, sink.look()) for sink in self._sinks.values()]


class _Card:
    def __init__(self, name: str) -> None:
        with ui.column().classes("sq-card gap-1"):
            with ui.row().classes("items-center gap-3"):
                ui.label(name).classes("sq-title")
                self._total = ui.label().classes("sq-big").props(f'data-testid="live-{name}"')
            with ui.row().classes("w-full no-wrap gap-4"):
                self._chart = ui.echart(draw_growth({"rows": []})).style("height: 190px; width: 420px; flex: none")
                self._table = ui.table(rows=[], columns=[], row_key="#").classes("sq-table").props("flat dense")

    def show(self, look: Look, history: list[tuple[float, int]]) -> None:
        self._total.text = f"{look.n_rows:,}"
        self._chart.options.clear()
        self._chart.options.update(draw_growth(look.numbers or {"rows": [list(point) for point in history]}))
        self._chart.update()
        names = list(look.newest[0]) if look.newest else []
        self._table.columns = [{"name": name, "label": name, "field": name, "align": "left"} for name in names]
        self._table.rows = [{name: _cell(value) for name, value in row.items()} | {"#": n} for n, row in enumerate(look.newest)]


def _cell(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, (dict, list)) else value
