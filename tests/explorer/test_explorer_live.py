"""A running pipeline, looked at from outside: what its sinks hold, while they grow, and the page beside it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyarrow import csv, orc, parquet

import seqube as sq
from browsing import browse, browsed, chromium, drawn, home, serve, shoot
from seqube.explorer.charts import draw_growth
from seqube.explorer.live import DONE, find_sinks
from seqube.explorer.live_cubes import CubeFiles
from seqube.generate import generate
from seqube.live_cube import read_pattern
from seqube.predict.ruletext import read_length

ROWS = pa.table({"match_id": ["a", "b"], "r": [{"id": 1}, {"id": 2}]})


def add_batch(folder: Path, number: int, is_done: bool = True) -> None:
    place = folder / "matches" / "hot" / f"batch={number:08d}"
    place.mkdir(parents=True)
    parquet.write_table(ROWS, place / "part-0.parquet")
    if is_done:
        (place / DONE).touch()


def add_metrics(folder: Path, number: int, read: int | None, changes: str | None = None, **more: Any) -> None:
    (folder / "metrics").mkdir(exist_ok=True)
    row = {"batch": number, "read": read, "matches": {"hot": 2}, "changes": changes, **more}
    (folder / "metrics" / f"{number:08d}.json").write_text(json.dumps(row) + "\n")


def test_sinks_are_found_and_counted_while_they_grow(tmp_path: Path) -> None:
    add_batch(tmp_path, 0)
    add_metrics(tmp_path, 0, None)
    sinks = {sink.name: sink for sink in find_sinks(tmp_path)}
    assert set(sinks) == {"matches/hot", "metrics"}
    assert sinks["matches/hot"].look().n_rows == 2
    assert sinks["metrics"].look().numbers == {"matches: hot": [[0, 2]]}
    add_batch(tmp_path, 1)
    add_batch(tmp_path, 2, is_done=False)
    half = tmp_path / "matches" / "hot" / "_temporary" / "part-1.parquet"
    half.parent.mkdir()
    parquet.write_table(ROWS, half)
    look = sinks["matches/hot"].look()
    assert (look.n_rows, look.newest[0]) == (4, {"match_id": "b", "r_id": 2})
    # The numbers of a micro-batch are completed in a second writing of its file.
    add_metrics(tmp_path, 0, 10)
    add_metrics(tmp_path, 1, 10)
    assert sinks["metrics"].look().numbers == {"read": [[0, 10], [1, 10]], "matches: hot": [[0, 2], [1, 2]]}


def test_what_became_of_edited_files_is_told_newest_first(tmp_path: Path) -> None:
    for number, changes in enumerate([None, "added: warm", None, "refused: there is no variable 'c'"]):
        add_metrics(tmp_path, number, 10, changes)
    (sink,) = find_sinks(tmp_path)
    assert sink.look().changes == ["before micro-batch 3: refused: there is no variable 'c'", "before micro-batch 1: added: warm"]
    add_metrics(tmp_path, 4, 10, plan_switches=3, plans="together id: hot by itself, warm from hot")
    assert sink.look().changes[0] == "in micro-batch 4: 3 switched plans; now together id: hot by itself, warm from hot"


@pytest.mark.parametrize("ending", ["parquet", "csv", "orc"])
def test_metrics_of_every_format(tmp_path: Path, ending: str) -> None:
    """As a pipeline writes them where they are no JSON: a folder for each micro-batch."""
    by_query = pa.array([[("hot", 2)]], pa.map_(pa.string(), pa.int64())) if ending != "csv" else pa.array(['{"hot": 2}'])
    for number in range(2):
        place = tmp_path / "metrics" / f"batch={number:08d}"
        place.mkdir(parents=True)
        changes = pa.array(["removed: hot" if number else None], pa.string())
        table = pa.table({"read": [10], "used": [number], "matches": by_query, "changes": changes})
        {"csv": csv.write_csv, "orc": orc.write_table, "parquet": parquet.write_table}[ending](table, place / f"part-0.{ending}")
        (place / DONE).touch()
    (sink,) = find_sinks(tmp_path)
    look = sink.look()
    assert look.numbers == {"read": [[0, 10], [1, 10]], "used": [[0, 0], [1, 1]], "matches: hot": [[0, 2], [1, 2]]}
    assert look.changes == ["before micro-batch 1: removed: hot"]


@pytest.mark.parametrize("ending", ["parquet", "csv", "orc", "json"])
def test_sinks_of_every_format(tmp_path: Path, ending: str) -> None:
    table = pa.table({"id": [1, 2, 3], "ward": ["A", "B, or\nC", None]})
    path = tmp_path / f"part-0.{ending}"
    match ending:
        case "parquet":
            parquet.write_table(table, path)
        case "csv":
            csv.write_csv(table, path)
        case "orc":
            orc.write_table(table, path)
        case _:
            path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
    (sink,) = find_sinks(tmp_path)
    look = sink.look()
    assert look.n_rows == 3
    assert [row["id"] for row in look.newest] == [3, 2, 1]
    path.write_bytes(path.read_bytes()[:-5])  # as if its writer were not ready
    assert sink.look().n_rows <= 3


def test_files_that_sparks_log_does_not_name_do_not_count(tmp_path: Path) -> None:
    for name in ("done", "half"):
        parquet.write_table(pa.table({"x": [1]}), tmp_path / f"{name}.parquet")
    log = tmp_path / "_spark_metadata"
    log.mkdir()
    (log / "0").write_text('v1\n{"path":"file:///somewhere/done.parquet","size":1,"action":"add"}\n')
    assert [sink.look().n_rows for sink in find_sinks(tmp_path)] == [1]


@pytest.mark.parametrize("ending", ["parquet", "csv", "orc", "json"])
def test_the_counts_of_a_cube_are_read_of_its_files(tmp_path: Path, ending: str) -> None:
    """Those of all files together, each read once; moments between them without rows are zeros."""
    concepts = sq.Hierarchy.from_dict({"C": ["A", "B"]})
    files = CubeFiles(read_pattern("SEQ(C a, C b) WITHIN 5"), read_length("10 ms"), concepts, "ms")
    writers = {
        "parquet": parquet.write_table,
        "csv": csv.write_csv,
        "orc": orc.write_table,
        "json": lambda table, path: path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist())),
    }
    found = []
    for number, (ts, counts) in enumerate([(10, [1, 2]), (40, [3, 4])]):
        rows = {"match_id": ["x", "y"], "ts": [ts] * 2, "a_type": ["A", "B"], "b_type": ["B", "B"], "count": counts}
        path = tmp_path / f"{number}.{ending}"
        writers[ending](pa.table(rows), path)
        found.append((path, number, number))
        cube = files.look(found)
    assert cube.over_time().to_pydict() == {"moment": [10, 20, 30, 40], "count": [3, 0, 0, 7]}
    assert [child.count for child in cube.now.children()] == [3, 4, 0, 7]
    passed = datetime(1970, 1, 1, microsecond=60_000, tzinfo=UTC)  # at 60 events may still come
    later = files.look(found, passed)
    assert later.over_time().to_pydict() == {"moment": [10, 20, 30, 40, 50], "count": [3, 0, 0, 7, 0]}
    assert (later.count, [child.count for child in later.now.children()]) == (0, [0] * 4)
    assert files.look(found, datetime(1970, 1, 1, tzinfo=UTC)).moments == cube.moments


def test_the_watermark_of_metrics_tells_how_far_cubes_are(tmp_path: Path) -> None:
    for number, watermark in enumerate(["2026-01-01T10:00:00.000Z", "2026-01-01T12:30:00.000Z"]):
        folder = tmp_path / f"batch={number}"
        folder.mkdir()
        (folder / "part.json").write_text(json.dumps({"read": 1, "matches": {}, "watermark": watermark}) + "\n")
        (folder / "_SUCCESS").touch()
    (sink,) = find_sinks(tmp_path)
    assert sink.look().watermark == datetime(2026, 1, 1, 12, 30, tzinfo=UTC)


def test_counts_over_time_are_drawn_by_the_clock() -> None:
    kind = pa.timestamp("us", "UTC")
    hours = [0, 3_600_000]
    assert draw_growth({"count": [[hours[0], 1], [hours[1], 2]]}, kind)["xAxis"]["type"] == "time"
    assert draw_growth({"count": [[0, 1], [1, 2]]}, pa.int64())["xAxis"]["type"] == "value"
    assert draw_growth({"count": []}, kind)["xAxis"]["type"] == "value"  # nothing to name yet


# ---------------------------------------------------------------- beside a pipeline that runs

QUERY = "SEQ(Wash w, !Disinfect d, Operate o, [id]) WITHIN 2 hours"
CUBE = "SEQ(Cleaning a, Use b) WITHIN 10 min"
CONCEPTS = sq.Hierarchy.from_dict({"Cleaning": ["Wash", "Disinfect"], "Use": ["Operate", "Sharpen"]})
PIPELINE = f"""\
source:     {{format: parquet, path: in, type: type, time: ts, lateness: 1 second}}
queries:    {{unclean: "{QUERY}"}}
hierarchy:  {{Cleaning: [Wash, Disinfect], Use: [Operate, Sharpen]}}
cubes:      {{uses: {{pattern: "{CUBE}", every: 1 hour}}}}
sinks:
  matches:  {{path: out/matches}}
  cubes:    {{path: out/cubes}}
  metrics:  {{path: out/metrics}}
trigger:    1 second
checkpoint: out/checkpoint
"""


class _Feed:
    """Events that arrive file by file, each there whole or not at all."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "in"
        self._folder.mkdir()
        self.table = generate("hospital", 3_000, seed=1)
        self._fed = 0

    def send(self, n: int) -> None:
        draft = self._folder / f".{self._fed}.parquet"
        parquet.write_table(self.table.slice(self._fed, n), draft)
        draft.rename(self._folder / f"{self._fed}.parquet")
        self._fed += n

    def expected(self) -> int:
        """The matches that are certain: those that end before the newest event, less the lateness."""
        so_far = sq.Events(self.table.slice(0, self._fed))
        ends = sq.run(QUERY, so_far).table.column("end")
        newest = self.table.column("ts")[self._fed - 1].as_py()
        return sum((newest - end.as_py()).total_seconds() > 1 for end in ends)

    def cube(self) -> sq.Cube:
        """The window that ended last, of those that are certain, counted as a batch."""
        newest = self.table.column("ts")[self._fed - 1].as_py()
        moment = (newest - timedelta(seconds=1)).replace(minute=0, second=0, microsecond=0)
        times = self.table.column("ts")
        inside = pc.and_(pc.greater(times, pa.scalar(moment - timedelta(minutes=10), times.type)), pc.less_equal(times, moment))
        return sq.Cube(self.table.filter(inside), CUBE, CONCEPTS)


@pytest.mark.slow
@browsed
def test_the_page_follows_a_pipeline_that_runs(tmp_path: Path) -> None:
    from playwright.sync_api import expect

    feed = _Feed(tmp_path)
    feed.send(1_000)
    (tmp_path / "hygiene.yaml").write_text(PIPELINE)
    command = [sys.executable, "-m", "seqube", "pipeline", str(tmp_path / "hygiene.yaml")]
    pipeline = subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        with serve("--live", tmp_path / "hygiene.yaml") as address, chromium() as browser, browse(browser, address) as page:
            page.goto(address)
            page.goto(home(address) + "?view=live")
            expect(page.get_by_test_id("live-note")).to_contain_text("hygiene.yaml")
            last = []
            for n in (0, 1_000, 850):  # what is there at first, and what arrives while the page is open
                if n:
                    feed.send(n)
                expect(page.get_by_test_id("live-unclean")).to_have_text(f"{feed.expected():,}", timeout=180_000)
                assert pipeline.poll() is None, "the pipeline runs on"
                last.append(feed.cube().count)
                expect(page.get_by_test_id("cube-uses")).to_have_text(f"{last[-1]:,}", timeout=60_000)
            assert last[1] == 0 < last[2], "a window without matches, and one with some"
            expect(page.get_by_test_id("live-note")).to_contain_text("3 sinks")
            for move in [("Cleaning", "Wash"), ("Wash", "Disinfect"), ("Disinfect", "Cleaning")]:  # down, aside, up
                page.get_by_label("position 1").first.click()
                page.get_by_role("option", name=move[1], exact=True).click()
                wanted = feed.cube() if move[1] == "Cleaning" else feed.cube().drill_down(concept=[("Cleaning", move[1], 1)])
                expect(page.get_by_test_id("cube-pattern-uses")).to_have_text(wanted.pattern)
                expect(page.get_by_test_id("cube-uses")).to_have_text(f"{wanted.count:,}")
            cells = drawn(page, "cube-pivot-uses")["series"][0]["data"]
            assert [cell[2] for cell in cells] == feed.cube().pivot(1, 2).to_numpy().ravel().tolist()
            chart = drawn(page, "cube-over-time-uses")
            assert (chart["xAxis"][0]["type"], chart["series"][0]["data"][-1][1]) == ("time", feed.cube().count)
            page.wait_for_function(
                """() => {
                    const chart = getElement(Number(document.querySelector('[data-testid="chart-metrics"]').id.slice(1))).chart;
                    const read = chart.getOption().series.find((line) => line.name === 'read');
                    return read && read.data.reduce((sum, point) => sum + point[1], 0) === 2850;
                }"""
            )
            lines = {line["name"]: sum(point[1] for point in line["data"]) for line in drawn(page, "chart-metrics")["series"]}
            assert lines["matches: unclean"] == feed.expected()
            (tmp_path / "hygiene.yaml").write_text(PIPELINE.replace("unclean:", "washed:"))
            feed.send(100)
            changed = page.get_by_test_id("changes-metrics")
            expect(changed).to_contain_text("added: washed; removed: unclean", timeout=180_000)
            shoot(page, "12-live")
    finally:
        os.killpg(pipeline.pid, signal.SIGINT)
        try:
            _, errors = pipeline.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            os.killpg(pipeline.pid, signal.SIGKILL)
            raise
    assert pipeline.returncode == 0, errors.decode()
