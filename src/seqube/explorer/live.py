"""A running pipeline, looked at from outside: the files of its sinks and metrics, counted and shown while they grow.

A pipeline file says where its sinks are; without one, folders with files of rows are sinks. Files count when their writer has
finished: those of a folder `batch=N` when it has its `_SUCCESS`, those beside a log of Spark's (`_spark_metadata`) when that names
them.
The rows of a cube are shown as a cube (`live_cubes`).
Counting reads the footers of Parquet and ORC files alone, others once; what is shown is read from the newest file.

Invariant: a row is counted once, whatever is written or replaced while one looks.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from nicegui import run, ui
from pyarrow import csv, orc, parquet

from seqube.errors import SequbeError
from seqube.explorer.charts import draw_growth
from seqube.explorer.live_cubes import CubeCard, CubeFiles
from seqube.explorer.results import for_browser
from seqube.live_cube import LiveCube
from seqube.output import flatten

NEWEST_SHOWN = 8
REFRESH_S = 2.0
LOG = "_spark_metadata"
DONE = "_SUCCESS"
SINK_ENDINGS = (".parquet", ".json", ".jsonl", ".csv", ".orc")
SHOWN_METRICS = ("read", "used", "irrelevant", "late", "quarantined", "forecasts")
POINTS_KEPT = 300


Version = tuple[Path, int, int]  # a file, its size and when it was written: one that is replaced is read anew


@dataclass(frozen=True, slots=True)
class Look:
    """What one look at a sink saw."""

    n_rows: int
    age_s: float | None  # since its newest file was written
    newest: list[dict[str, Any]]
    numbers: dict[str, list[list[float]]]  # of metrics: each number, micro-batch by micro-batch
    changes: list[str]  # of metrics: what became of edited pipeline files, the newest first
    cube: LiveCube | None = None  # of a cube's sink
    watermark: datetime | None = None  # of metrics: up to which time all is written


@dataclass
class WatchedSink:
    """A folder of files that grows, and what is known of it."""

    name: str
    folder: Path
    counts: dict[Version, int] = field(default_factory=dict)
    metrics: dict[Version, dict[str, Any]] = field(default_factory=dict)
    history: list[tuple[float, int]] = field(default_factory=list)
    cube: CubeFiles | None = None  # where its rows are the counts of one

    def files(self) -> list[Version]:
        """The finished files, oldest first."""
        found = [path for path in self.folder.rglob("*") if path.suffix in SINK_ENDINGS and path.is_file()]
        found = [path for path in found if not _is_hidden(path.relative_to(self.folder)) and _is_done(path.parent)]
        log = self.folder / LOG
        if log.is_dir():
            logged = _read_log(log)
            found = [path for path in found if path.name in logged]
        versions = [_version(path) for path in found]
        return sorted((version for version in versions if version), key=lambda version: (version[2], version[0]))

    def look(self, watermark: datetime | None = None) -> Look:
        """What is there now. The watermark was seen before: what is up to it has been written since."""
        files = self.files()
        self.counts = {file: self.counts[file] if file in self.counts else _count(file[0]) for file in files}
        newest = next((rows for path, _, _ in reversed(files) if (rows := _tail(path))), [])
        age_s = max(0.0, time.time() - files[-1][2] / 1e9) if files else None
        numbers, changes, passed = {}, [], None
        if newest and newest[0].keys() >= {"read", "matches"}:
            numbers = self._numbers(files[-POINTS_KEPT:])
            told = [line for (path, _, _), row in self.metrics.items() for line in _events_of(_batch_of(path), row)]
            changes, passed = told[::-1], _moment(newest[0].get("watermark"))
        cube = self.cube.look(files, watermark) if self.cube is not None else None
        return Look(sum(self.counts.values()), age_s, newest, numbers, changes[:NEWEST_SHOWN], cube, passed)

    def _numbers(self, files: list[Version]) -> dict[str, list[list[float]]]:
        """The numbers of each micro-batch, in the order of the micro-batches."""
        self.metrics = {
            file: self.metrics[file] if file in self.metrics else next(iter(_tail(file[0])), {})
            for file in sorted(files, key=lambda version: version[0])
        }
        lines: dict[str, list[list[float]]] = {}
        for at, row in enumerate(self.metrics.values()):
            flat = row | {f"matches: {name}": n for name, n in _by_name(row["matches"]).items()}
            for name, value in flat.items():
                if (name in SHOWN_METRICS or name.startswith("matches: ")) and value is not None:
                    lines.setdefault(name, []).append([at, value])
        return lines


def _events_of(batch: int | str, row: Mapping[str, Any]) -> Iterator[str]:
    """What happened to a workload, by the metrics of a micro-batch."""
    if row.get("changes"):
        yield f"before micro-batch {batch}: {row['changes']}"
    if row.get("plans"):
        yield f"in micro-batch {batch}: {row.get('plan_switches') or 1} switched plans; now {row['plans']}"


def _moment(text: str | None) -> datetime | None:
    found = datetime.fromisoformat(text) if text else None
    return found if found is None or found.tzinfo is not None else found.replace(tzinfo=UTC)


def _batch_of(path: Path) -> int | str:
    """The micro-batch that a file of metrics is about: by its own name, or by that of its folder."""
    name = path.parent.name.removeprefix("batch=") if path.parent.name.startswith("batch=") else path.stem
    return int(name) if name.isdigit() else name


def _by_name(matches: Any) -> dict[str, int]:
    """The matches of each query: an object in JSON and in CSV, where it is a text, and a list of pairs in the other formats."""
    return dict(json.loads(matches) if isinstance(matches, str) else matches or {})


def _version(path: Path) -> Version | None:
    try:
        about = path.stat()
    except FileNotFoundError:  # replaced just now: the next look will tell
        return None
    return path, about.st_size, about.st_mtime_ns


def _is_done(folder: Path) -> bool:
    """Whether a micro-batch is written as a whole; other folders have no such mark."""
    return not folder.name.startswith("batch=") or (folder / DONE).exists()


def find_sinks(place: Path) -> list[WatchedSink]:
    """The sinks that a pipeline file declares, or those that lie below a folder."""
    if place.is_file():
        from seqube.spark.streaming.declaration import read_declaration

        declared = read_declaration(place)
        folders = {name: Path(sink.path) for name, sink in declared.sinks.items()}
        matches = folders.pop("matches", None)
        by_query = {name: matches / name for name in declared.queries} if matches else {}
        counted = folders.pop("cubes", None)
        cubes = {
            name: WatchedSink(name, counted / name, cube=CubeFiles(cube.pattern, cube.every, declared.hierarchy, declared.unit))
            for name, cube in declared.cubes.items()
            if counted is not None
        }
        found = [*cubes.values(), *(WatchedSink(name, folder) for name, folder in {**by_query, **folders}.items())]
        return [sink for sink in found if sink.folder.is_dir()]
    if not place.is_dir():
        return []
    sinks: list[WatchedSink] = []
    for folder in [place, *sorted(p for pattern in ("*", "*/*") for p in place.glob(pattern) if p.is_dir())]:
        inside = any(sink.folder in folder.parents for sink in sinks)
        if not inside and not _is_hidden(folder.relative_to(place)) and any(map(_is_row_file, folder.iterdir())):
            sinks.append(WatchedSink(str(folder.relative_to(place)) if folder != place else folder.name, folder))
    return sinks


def _is_row_file(path: Path) -> bool:
    return path.name == LOG or path.name.startswith("batch=") or (path.suffix in SINK_ENDINGS and not _is_hidden(Path(path.name)))


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
        match path.suffix:
            case ".parquet":
                return int(parquet.read_metadata(path).num_rows)
            case ".orc":
                return int(orc.ORCFile(path).nrows)
            case ".csv":
                return sum(batch.num_rows for batch in csv.open_csv(path))
            case _:
                with path.open("rb") as file:
                    return sum(1 for line in file if line.strip())
    except (OSError, pa.ArrowInvalid):
        return 0  # still being written, or already gone: the next look will tell


def _tail(path: Path) -> list[dict[str, Any]]:
    """The last rows of a file, the newest first."""
    try:
        match path.suffix:
            case ".parquet":
                groups = parquet.ParquetFile(path)
                return _last(groups.read_row_group(groups.num_row_groups - 1)) if groups.num_row_groups else []
            case ".orc":
                stripes = orc.ORCFile(path)
                return _last(pa.Table.from_batches([stripes.read_stripe(stripes.nstripes - 1)])) if stripes.nstripes else []
            case ".csv":
                return _last(csv.read_csv(path))
            case _:
                with path.open("rb") as file:
                    file.seek(max(0, path.stat().st_size - 64 * 1024))
                    lines = file.read().decode("utf-8", "replace").splitlines()
                whole = [line for line in lines if line.startswith("{") and line.endswith("}")]
                return [for_browser(json.loads(line)) for line in whole[-NEWEST_SHOWN:]][::-1]
    except (OSError, pa.ArrowInvalid, ValueError):
        return []


def _last(table: pa.Table) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = for_browser(flatten(table.slice(max(0, table.num_rows - NEWEST_SHOWN))).to_pylist())
    return rows[::-1]


class LivePanel:
    """A card for every sink: how many rows, how they grew while one looked, and the newest."""

    def __init__(self, place: Path) -> None:
        self._watched = place
        self._sinks: dict[Path, WatchedSink] = {}
        self._cards: dict[Path, _Card] = {}
        self._cubes: dict[Path, CubeCard] = {}
        self._note = ui.label().classes("text-slate-500").props("data-testid=live-note")
        self._place = ui.column().classes("w-full gap-3")
        self._seconds = 0.0
        ui.timer(REFRESH_S, self._refresh)

    async def _refresh(self) -> None:
        try:
            looks = await run.io_bound(self._look) or []
        except SequbeError as error:  # the pipeline file is being edited
            self._note.text = str(error)
            return
        ages = [look.age_s for _, look in looks if look.age_s is not None]
        sinks = f"{len(looks)} sinks, looked at every {REFRESH_S:.0f} s" if looks else "nothing written yet"
        self._note.text = f"{self._watched.name}: {sinks}" + (f" · last written {min(ages):,.0f} s ago" if ages else "")
        for sink, look in looks:
            if sink.cube is not None and look.cube is not None:
                if sink.folder not in self._cubes:
                    with self._place:
                        self._cubes[sink.folder] = CubeCard(sink.name, sink.cube)
                self._cubes[sink.folder].show(look.cube)
                continue
            sink.history = [*sink.history, (self._seconds, look.n_rows)][-POINTS_KEPT:]
            if sink.folder not in self._cards:
                with self._place:
                    self._cards[sink.folder] = _Card(sink.name)
            self._cards[sink.folder].show(look, sink.history)
        self._seconds += REFRESH_S

    def _look(self) -> list[tuple[WatchedSink, Look]]:
        for sink in find_sinks(self._watched):
            self._sinks.setdefault(sink.folder, sink)
        looks: dict[Path, Look] = {}
        watermark = None
        for sink in sorted(self._sinks.values(), key=lambda sink: sink.cube is not None):  # metrics, which are written last, first
            looks[sink.folder] = sink.look(watermark)
            watermark = looks[sink.folder].watermark or watermark
        return [(sink, looks[sink.folder]) for sink in self._sinks.values()]


class _Card:
    def __init__(self, name: str) -> None:
        with ui.column().classes("sq-card gap-1"):
            with ui.row().classes("items-center gap-3"):
                ui.label(name).classes("sq-title")
                self._total = ui.label().classes("sq-big")
                self._total.props["data-testid"] = f"live-{name}"  # not as text: a name must not become a property
            with ui.row().classes("w-full no-wrap gap-4"):
                self._chart = ui.echart(draw_growth({"rows": []})).style("height: 190px; width: 420px; flex: none")
                self._chart.props["data-testid"] = f"chart-{name}"
                self._table = ui.table(rows=[], columns=[], row_key="#").classes("sq-table").props("flat dense")
                self._table.style("min-width: 0")  # scrolls inside its card
            self._changes = ui.label().classes("text-slate-500").style("white-space: pre-line")
            self._changes.props["data-testid"] = f"changes-{name}"

    def show(self, look: Look, history: list[tuple[float, int]]) -> None:
        self._total.text = f"{look.n_rows:,}"
        self._chart.options.clear()
        self._chart.options.update(draw_growth(look.numbers or {"rows": [list(point) for point in history]}))
        self._chart.update()
        self._changes.text = "\n".join(look.changes)
        self._changes.visible = bool(look.changes)
        names = list(look.newest[0]) if look.newest else []
        self._table.columns = [{"name": name, "label": name, "field": name, "align": "left"} for name in names]
        self._table.rows = [{name: _cell(value) for name, value in row.items()} | {"#": n} for n, row in enumerate(look.newest)]


def _cell(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, (dict, list)) else value
