"""Files of results: pages in any order, stretches of time, exports that hold every row, and charts made of data alone."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, parquet

import seqube as sq
from seqube.explorer import charts
from seqube.explorer.jobs import Desk
from seqube.explorer.results import ResultFile, for_browser
from seqube.explorer.sources import Source, generated
from seqube.generate import generate

QUERY = "PATTERN SEQ(Computer a, Finance b) WITHIN 20 ms"


@pytest.fixture(scope="module")
def stock() -> Source:
    return next(source for source in generated() if source.kind == "stock")


@pytest.fixture(scope="module")
def desk(stock: Source) -> Desk:
    return Desk(stock)


@pytest.fixture
def matches(desk: Desk, tmp_path: Path) -> ResultFile:
    desk.run(QUERY, "auto", tmp_path / "matches.arrow")
    return ResultFile(tmp_path / "matches.arrow")


def test_a_result_is_what_run_gives(desk: Desk, stock: Source, matches: ResultFile) -> None:
    expected = sq.run(QUERY, stock.read(), hierarchy=stock.concepts)
    assert matches.table.equals(expected.table.combine_chunks()) or matches.table.to_pylist() == expected.table.to_pylist()


def test_pages_together_are_the_whole(matches: ResultFile) -> None:
    first, second = matches.page(0, 50), matches.page(50, 50)
    assert first + second == matches.page(0, 100)
    assert len(matches.page(len(matches) - 3, 50)) == 3


@pytest.mark.parametrize("descending", [False, True])
def test_a_page_in_the_order_of_a_column(matches: ResultFile, descending: bool) -> None:
    prices = sorted(matches.flat.column("a_price").to_pylist(), reverse=descending)
    assert [row["a_price"] for row in matches.page(100, 20, "a_price", descending)] == prices[100:120]


def test_columns_without_a_value_are_exported_but_not_shown(tmp_path: Path) -> None:
    events = [{"x": None, "y": 1}, {"x": None, "y": None}]
    with pa.ipc.new_file(tmp_path / "rows.arrow", (table := pa.table({"start": [1, 2], "a": events})).schema) as file:
        file.write_table(table)
    assert ResultFile(tmp_path / "rows.arrow").telling == ["start", "a_y"]
    assert ResultFile(tmp_path / "rows.arrow").flat.column_names == ["start", "a_x", "a_y"]


def test_a_column_that_is_not_there_orders_nothing(matches: ResultFile) -> None:
    assert matches.page(0, 5, "no such column") == matches.page(0, 5)


def test_the_density_counts_every_match_once(matches: ResultFile) -> None:
    _, counts = matches.density
    assert counts.sum() == len(matches)


def test_a_stretch_of_time_has_the_matches_that_touch_it(matches: ResultFile) -> None:
    rows, total = matches.between(1_000, 2_000, 10_000)
    starts, ends = (np.array(matches.table.column(name)) for name in ("start", "end"))
    assert rows.tolist() == np.flatnonzero((ends >= 1_000) & (starts <= 2_000)).tolist()
    assert total == len(rows) > 0
    few, total_of_few = matches.between(1_000, 2_000, 7)
    assert (len(few), total_of_few) == (7, total)


def test_exports_hold_every_row(matches: ResultFile) -> None:
    whole = parquet.read_table(io.BytesIO(b"".join(matches.as_parquet())))
    assert whole.to_pylist() == matches.table.to_pylist()
    lines = csv.read_csv(io.BytesIO(b"".join(matches.as_csv())))
    assert lines.num_rows == len(matches)
    assert lines.column("b_price").to_pylist() == matches.flat.column("b_price").to_pylist()


def test_columns_called_start_and_end_are_no_matches(desk: Desk, tmp_path: Path) -> None:
    desk.run("SEQ(DELL a, QQQ b) WITHIN 20 ms RETURN a.ts AS start, b.ts AS end", "auto", tmp_path / "out")
    assert not ResultFile(tmp_path / "out").is_in_time


def test_values_fit_a_browser() -> None:
    assert for_browser({"a": float("nan"), "b": 2**60, "c": [float("inf")]}) == {"a": None, "b": str(2**60), "c": [None]}


# ---------------------------------------------------------------- charts


def assert_is_data(spec: Any) -> None:
    """A spec is JSON, and no key asks the browser to evaluate its value."""
    json.dumps(spec)
    waiting = [spec]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            assert not any(str(key).startswith(":") for key in part)
            waiting.extend(part.values())
        elif isinstance(part, list):
            waiting.extend(part)


def test_the_timeline_draws_each_match_through_its_events(matches: ResultFile) -> None:
    rows, _ = matches.between(0, 100, 20)
    spec = charts.draw_timeline(matches, rows, "ts", "type", 0, 100)
    assert_is_data(spec)
    lines, points = spec["series"][0]["data"], spec["series"][1]["data"]
    assert len(lines) == len(rows)
    assert len(points) == 2 * len(rows)
    row = matches.table.slice(int(rows[0]), 1).to_pylist()[0]
    assert [spot[0] for spot in lines[0]["coords"]] == [row["a"]["ts"], row["b"]["ts"]]
    assert spec["yAxis"]["data"][lines[0]["coords"][1][1]] == row["b"]["type"]


def test_branches_that_were_not_taken_are_not_drawn(tmp_path: Path) -> None:
    table = pa.table({"type": ["A", "C", "B"], "ts": pa.array([1, 2, 3], pa.timestamp("s"))})
    parquet.write_table(table, tmp_path / "few.parquet")
    Desk(Source("few", tmp_path / "few.parquet")).run("SEQ(A a, OR(B b, C c)) WITHIN 10 s", "auto", tmp_path / "out")
    result = ResultFile(tmp_path / "out")
    spec = charts.draw_timeline(result, np.arange(len(result)), "ts", "type", 0, 4_000)
    assert sorted(len(line["coords"]) for line in spec["series"][0]["data"]) == [2, 2]
    assert {point["variable"] for point in spec["series"][1]["data"]} == {"a", "b", "c"}


def test_the_events_of_lists_are_drawn_each(tmp_path: Path) -> None:
    table = pa.table({"type": list("ABCBB"), "ts": [1, 2, 3, 4, 9]})
    parquet.write_table(table, tmp_path / "few.parquet")
    Desk(Source("few", tmp_path / "few.parquet")).run("NEXT(A? a, B+ b) WITHIN 5", "auto", tmp_path / "out")
    result = ResultFile(tmp_path / "out")
    assert result.is_in_time
    spec = charts.draw_timeline(result, np.arange(len(result)), "ts", "type", 0, 10)
    assert_is_data(spec)
    lines, points = spec["series"][0]["data"], spec["series"][1]["data"]
    assert [[spot[0] for spot in line["coords"]] for line in lines] == [[1, 2, 4], [2, 4]]
    assert [point["name"] for point in points if point["match"] == 0] == ["a: A", "b 1: B", "b 2: B"]
    assert sum(len(line["coords"]) for line in lines) + 2 == len(points)  # two runs are one event each


def test_a_funnel_is_what_funnel_gives(desk: Desk, stock: Source) -> None:
    asked = {"steps": ["DELL", "IPIX", "QQQ"], "by": "id", "within": "500 ms", "without": {"2": ["MSFT"]}}
    expected = sq.funnel(stock.read(), asked["steps"], by="id", within="500 ms", without={2: ["MSFT"]})
    rows = desk.funnel(asked)["rows"]
    assert rows == expected.table.to_pylist()
    spec = charts.draw_funnel(rows, None, "reached")
    assert_is_data(spec)
    assert spec["yAxis"]["data"] == ["1 DELL", "2 IPIX", "3 QQQ"]
    assert [bar["value"] for bar in spec["series"][0]["data"]] == expected.table.column("reached").to_pylist()
    apart = [{**row, "side": side} for side in ("buy", None) for row in rows]
    assert [series["name"] for series in charts.draw_funnel(apart, "side", "median_seconds")["series"]] == ["buy", "None"]


def test_lines_over_time_keep_their_peaks() -> None:
    counts = np.zeros(50_000)
    counts[31_234] = 7.0
    spec = charts.draw_aggregates(pa.table({"ts": np.arange(50_000), "count": counts}), ())
    assert spec is not None
    assert_is_data(spec)
    points = spec["series"][0]["data"]
    assert len(points) <= charts.MAX_POINTS
    assert max(points, key=lambda point: point[1]) == [31_234.0, 7.0]


def test_bars_by_group() -> None:
    spec = charts.draw_aggregates(pa.table({"a_type": ["X", "Y"], "count": [3, 4]}), ("a_type",))
    assert spec is not None
    assert spec["xAxis"]["data"] == ["X", "Y"]
    assert spec["series"][0]["data"] == [3.0, 4.0]
    assert charts.draw_aggregates(pa.table({"count": pa.array([], pa.int64())}), ()) is None


def test_a_number_that_names_a_group_is_no_measure(desk: Desk, tmp_path: Path) -> None:
    ran = desk.run("SEQ(DELL a, QQQ b) WITHIN 5 ms GROUP BY a.id AGG COUNT(*) EMIT TOTAL", "auto", tmp_path / "rows.arrow")
    assert ran.groups == ("a_id",)
    table = ResultFile(tmp_path / "rows.arrow").table
    spec = charts.draw_aggregates(table, ran.groups)
    assert spec is not None
    assert [series["name"] for series in spec["series"]] == ["count"]
    assert spec["xAxis"]["data"] == [str(each) for each in table.column("a_id").to_pylist()][: charts.MAX_POINTS]


@pytest.mark.parametrize("is_timed", [False, True])
def test_measures_of_very_different_size_are_drawn_one_below_the_other(is_timed: bool) -> None:
    waits = pa.array([60_000_000, 120_000_000, 600_000_000], pa.duration("us"))
    table = pa.table({"ward": ["A", "B", "C"], "count": [1, 2, 3], "sum": [1e6, 2e6, 3e6], "wait": waits})
    table = table.append_column("ts", pa.array([1, 2, 3])) if is_timed else table
    spec = charts.draw_aggregates(table, ("ward",))
    assert spec is not None
    assert_is_data(spec)
    assert [axis["name"] for axis in spec["yAxis"]] == ["count", "sum", "wait (minutes)"]
    each = 3 if is_timed else 1
    assert [series["yAxisIndex"] for series in spec["series"]] == [place for place in range(3) for _ in range(each)]
    assert charts.height_of(spec) > 3 * 200
    near = charts.draw_aggregates(table.drop_columns(["sum"]), ("ward",))
    assert near is not None
    assert charts.height_of(near) == 380


def test_a_line_ends_where_moments_are_missing() -> None:
    spec = charts.draw_aggregates(pa.table({"ts": [0, 10, 20, 30, 60, 70], "count": [1, 2, 3, 4, 5, 6]}), ())
    assert spec is not None
    assert spec["series"][0]["data"] == [[0, 1], [10, 2], [20, 3], [30, 4], [40, None], [60, 5], [70, 6]]


def test_a_pivot_of_equal_counts_has_no_scale_of_colours() -> None:
    pivot = {"rows": ["A"], "columns": ["B", "C"], "names": ("A", "Any"), "counts": [[3, 3]]}
    assert not charts.draw_pivot(pivot)["visualMap"]["show"]
    assert charts.draw_pivot({**pivot, "counts": [[3, 4]]})["visualMap"]["show"]


def test_the_lattice_and_the_pivot_have_the_cubes_counts(desk: Desk, stock: Source) -> None:
    around = desk.cube(QUERY)
    events = stock.read()
    cube = sq.Cube(events, QUERY, hierarchy=stock.concepts)
    assert around.here.count == cube.count == len(sq.run(QUERY, events, hierarchy=stock.concepts))
    assert [near.count for near in around.finer] == [near.count for near in cube.children()]
    pivot = desk.pivot(QUERY, (1, 1), (2, 1))
    assert sum(map(sum, pivot["counts"])) == around.here.count
    assert_is_data(charts.draw_pivot(pivot))


def test_a_move_leads_to_a_query_that_can_be_moved_on(desk: Desk) -> None:
    text = desk.move(QUERY, "drill down", ("Computer", "DELL", 1), None)
    text = desk.move(text, "drill down", None, ("!MSFT", 2))
    assert desk.cube(text).here.pattern == "SEQ(DELL, !MSFT, Finance)"
    assert desk.move(text, "roll up", None, ("!MSFT", 2)).startswith("PATTERN SEQ(DELL a, Finance b)")


def test_predictions_are_drawn_by_outcome(tmp_path: Path) -> None:
    source = next(source for source in generated() if source.kind == "hospital")
    found = Desk(source).forecast(tmp_path / "out")
    result = ResultFile(tmp_path / "out")
    assert sum(rule["predictions"] for rule in found["quality"]) == len(result) > 0
    spec = charts.draw_predictions(result.table.slice(0, 100))
    assert_is_data(spec)
    assert sum(len(series["data"]) for series in spec["series"] if series["type"] == "lines") == 100


def test_a_plan_is_drawn_whole(desk: Desk, tmp_path: Path) -> None:
    plan = desk.run(QUERY, "auto", tmp_path / "out").plan
    spec = charts.draw_plan(plan)
    assert_is_data(spec)

    def names(node: dict[str, Any]) -> list[str]:
        return [node["name"].split("\n")[0], *(name for child in node["children"] for name in names(child))]

    assert sorted(names(spec["series"][0]["data"][0])) == sorted(node["title"] for node in plan.graph["nodes"])


def test_sources_start_with_queries_that_run(tmp_path: Path) -> None:
    for source in generated():
        desk = Desk(source)
        opened = desk.open()
        for text in source.queries(opened.sample.type_names, opened.window).values():
            desk.run(text, "auto", tmp_path / "out")


@pytest.mark.parametrize(
    ("kind", "unit", "gap", "window"), [("int64", "ms", 1, "100 ms"), ("int64", "s", 60, "1 hour"), ("us", "", 5_000, "100 ms")]
)
def test_the_first_window_of_own_events_fits_them(tmp_path: Path, kind: str, unit: str, gap: int, window: str) -> None:
    times = pa.array(range(0, 4_000 * gap, gap), pa.int64()).cast(pa.int64() if unit else pa.timestamp(kind))
    parquet.write_table(pa.table({"type": ["A", "B"] * 2_000, "ts": times}), tmp_path / "some.parquet")
    desk = Desk(Source("some", tmp_path / "some.parquet", unit=unit or "ms"))
    opened = desk.open()
    assert opened.window == window
    for text in Source("some").queries(opened.sample.type_names, opened.window, opened.key).values():
        assert 0 < desk.run(text, "auto", tmp_path / "out").n_rows < 400_000


@pytest.mark.parametrize(
    ("columns", "key"),
    [
        ({"case": ["x", "y"] * 20, "ward": ["A"] * 40}, "case"),
        ({"case": [f"c{k // 4}" for k in range(40)], "ward": ["A", "B"] * 20, "seq": list(range(40))}, "case"),
        ({"user_id": [k % 3 for k in range(40)], "price": [k % 15 for k in range(40)]}, "user_id"),
        ({"seq": list(range(40)), "value": [k % 7 / 2 for k in range(40)]}, None),
    ],
    ids=["a constant is none", "the finest with several events each", "what is called an id", "numbers and measures are none"],
)
def test_the_first_query_takes_a_key_that_the_events_suggest(tmp_path: Path, columns: dict[str, Any], key: str | None) -> None:
    parquet.write_table(pa.table({"type": ["A", "B"] * 20, "ts": range(40), **columns}), tmp_path / "some.parquet")
    opened = Desk(Source("some", tmp_path / "some.parquet")).open()
    assert opened.key == key
    query = Source("some").queries(opened.sample.type_names, opened.window, opened.key)["One after the other"]
    assert query.startswith(f"PATTERN SEQ(A a, B b, [{key}])" if key else "PATTERN SEQ(A a, B b)\n")


def test_more_matches_than_can_be_kept_are_looked_at_page_by_page(tmp_path: Path) -> None:
    """As many as no file holds: counted, the first in the file, and any page of the table, for what the events cost."""
    parquet.write_table(generate("stock", 10_000, seed=1), tmp_path / "trades.parquet")
    desk, text = Desk(Source("trades", tmp_path / "trades.parquet")), "SEQ(DELL a, IPIX b, QQQ c, AMAT d, MSFT e) WITHIN 10 s"
    ran = desk.run(text, "auto", tmp_path / "out")
    assert ran.n_rows > 10**10
    assert "page by page" in ran.notes[-1]
    kept = ResultFile(tmp_path / "out")
    assert kept.page(40, 15) == desk.page(text, "auto", 40, 15)
    last = desk.page(text, "auto", ran.n_rows - 10, 15)
    assert len(last) == 10
    assert last[-1]["end"] >= last[0]["end"] > kept.page(len(kept) - 1, 1)[0]["end"]
    assert Desk(Source("trades", tmp_path / "trades.parquet")).page(text, "auto", ran.n_rows - 10, 15) == last
