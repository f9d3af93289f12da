"""Rows as people see them: flat, readable, no wider than the screen, and drawn as what they are."""

from __future__ import annotations

import datetime
import json
import pickle
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import seqube as sq
from seqube import output
from seqube.engine.display import draw_text, flat, iso_duration, iso_durations, that_fit
from seqube.engine.plots import plot_rows

MOMENTS = pa.array([3_600_000_000 * k for k in (0, 1, 2, 3, 6, 7)], pa.timestamp("us"))


def test_structs_and_lists_of_structs_become_columns() -> None:
    fails = [[{"ip": "x", "n": 1}, {"ip": "y", "n": 2}], [], None]
    table = pa.table({"start": [1, 2, 3], "l": [{"ip": "a"}, None, {"ip": "b"}], "f": fails})
    for cut in (table, table.slice(1), pa.concat_tables([table.slice(2), table.slice(0, 1)])):
        expected = [
            {"start": row["start"], "l_ip": row["l"] and row["l"]["ip"]}
            | {f"f_{name}": None if row["f"] is None else [each[name] for each in row["f"]] for name in ("ip", "n")}
            for row in cut.to_pylist()
        ]
        assert flat(cut).to_pylist() == expected


def test_a_name_that_is_taken_stays_with_the_first() -> None:
    table = pa.table({"a_b": [1], "a": [{"b": 2}]})
    assert flat(table).to_pydict() == {"a_b": [1], "a_b_": [2]}


def test_frames_are_flat_unless_structs_are_asked_for() -> None:
    result = sq.run("SEQ(A a, B b) WITHIN 5", pa.table({"type": ["A", "B"], "ts": [1, 2]}))
    columns = ["start", "end", "a_type", "a_ts", "b_type", "b_ts"]
    assert list(result.to_pandas()) == columns == result.to_polars().columns
    assert list(result.to_pandas(flat=False)) == ["start", "end", "a", "b"] == result.to_polars(flat=False).columns


@given(st.timedeltas(datetime.timedelta(-10_000), datetime.timedelta(10_000)))
def test_durations_in_text_say_what_they_are(value: datetime.timedelta) -> None:
    text = iso_duration(value)
    assert pd.Timedelta(text.removeprefix("-")).to_pytimedelta() == abs(value)
    assert text.startswith("-") == (value < datetime.timedelta())


@pytest.mark.parametrize(
    ("ticks", "unit", "text"),
    [(0, "s", "PT0S"), (90, "s", "PT1M30S"), (1, "ns", "PT0.000000001S"), (86_400_500, "ms", "P1DT0.5S"), (None, "us", None)],
)
def test_durations_of_every_unit(ticks: int | None, unit: str, text: str | None) -> None:
    assert iso_durations(pa.array([ticks], pa.duration(unit))).to_pylist() == [text]


def test_durations_are_written_in_one_way(tmp_path: Any) -> None:
    table = pa.table({"lag": pa.array([300_000_000], pa.duration("us"))})
    for ending in ("csv", "json"):
        output.write(table, tmp_path / f"lags.{ending}")
    assert (tmp_path / "lags.csv").read_text() == '"lag"\n"PT5M"\n'
    assert json.loads((tmp_path / "lags.json").read_text()) == {"lag": "PT5M"}
    assert draw_text(table) == ["lag", "PT5M"]


def test_a_wide_table_fits_the_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    wide = pa.table({f"column_{k}": ["x" * 50, f"{k}"] for k in range(15)} | {"nothing": pa.nulls(2)})
    lines = draw_text(wide)
    assert max(map(len, lines)) <= 80
    assert lines[0].split()[0] == "column_0"
    assert lines[0].split()[-1] == "column_14"
    assert "nothing" not in lines[0]
    assert lines[-1].endswith("more columns)")


# ---------------------------------------------------------------- charts


def values_of(chart: Any) -> list[dict[str, Any]]:
    return list(chart.to_dict()["data"]["values"])


def test_durations_are_a_histogram() -> None:
    chart = plot_rows(pa.table({"lag": pa.array([1_000_000, 1_000_000, 5_000_000], pa.duration("us"))}))
    assert chart.to_dict()["mark"]["type"] == "bar"
    assert sum(row["rows"] for row in values_of(chart)) == 3
    assert chart.to_dict()["encoding"]["x"]["title"] == "lag (seconds)"
    assert chart.to_dict()["encoding"]["x"]["bin"] == "binned"  # without it a bar is a dash at its height


def test_a_line_ends_where_moments_are_missing() -> None:
    rows = values_of(plot_rows(pa.table({"ts": MOMENTS, "count": [1, 2, 3, 4, 5, 6]})))
    assert [row["value"] for row in rows] == [1, 2, 3, 4, None, 5, 6]
    irregular = pa.table({"ts": [1, 2, 10, 11, 50], "count": [1, 2, 3, 4, 5]})
    assert None not in [row["value"] for row in values_of(plot_rows(irregular.slice(0, 3)))]


def test_measures_of_very_different_size_have_a_chart_each() -> None:
    near = plot_rows(pa.table({"ts": MOMENTS, "count": [9] * 6, "mean": [90.0] * 6}))
    far = plot_rows(pa.table({"ts": MOMENTS, "count": [9] * 6, "sum": [9_000.0] * 6}))
    assert "facet" not in near.to_dict()
    assert far.to_dict()["resolve"]["scale"]["y"] == "independent"
    assert {row["measure"] for row in values_of(far)} == {"count", "sum"}


def test_groups_are_bars() -> None:
    chart = plot_rows(pa.table({"ward": ["A", "B"], "count": [3, 4]}))
    assert chart.to_dict()["mark"]["type"] == "bar"
    assert {row["series"]: row["value"] for row in values_of(chart)} == {"A": 3, "B": 4}


def test_groups_of_aggregates_are_bars_whatever_their_columns_hold() -> None:
    """A number that names a group is no measure, and the mean duration of each group is no histogram."""
    table = pa.table({"type": ["A", "B", "A", "B"], "ts": pa.array([0, 60, 600, 900], pa.timestamp("s")), "id": [7, 7, 8, 8]})
    query = "SEQ(A a, B b, [id]) WITHIN 1 hour AGG COUNT(*), AVG(b.ts - a.ts) AS mean GROUP BY a.id EMIT TOTAL"
    result = sq.run(query, sq.Events(table))
    for each in (result, pickle.loads(pickle.dumps(result))):
        assert each.groups == ("a_id",)
        rows = values_of(each.plot())
        assert [(row["measure"], row["series"], row["value"]) for row in rows] == [
            ("count", "7", 1),
            ("mean (minutes)", "7", 1.0),
            ("count", "8", 1),
            ("mean (minutes)", "8", 5.0),
        ]
    assert sq.run("SEQ(A a, B b, [id]) WITHIN 1 hour", table).groups is None


@pytest.mark.parametrize(
    ("longest", "unit"), [(2, "seconds"), (179, "seconds"), (180, "minutes"), (3 * 3_600, "hours"), (3 * 86_400, "days")]
)
def test_durations_are_drawn_in_a_unit_of_their_size(longest: int, unit: str) -> None:
    chart = plot_rows(pa.table({"lag": pa.array([1, longest, None], pa.duration("s"))})).to_dict()
    assert chart["encoding"]["x"]["title"] == f"lag ({unit})"


def test_of_too_many_columns_those_that_tell_least_go_first() -> None:
    cells = {"start": ["1", "2"], "a_ts": ["1", "2"], "a_type": ["A", "A"], "a_x": ["3", "4"], "a_y": ["5", "6"], "end": ["7", "8"]}
    assert that_fit(cells, 100, between=2) == list(cells)
    assert that_fit(cells, 33, between=2) == ["start", "a_type", "a_x", "a_y", "end"]  # a_ts is the start
    assert that_fit(cells, 28, between=2) == ["start", "a_x", "a_y", "end"]  # a_type is always A
    assert that_fit(cells, 20, between=2) == ["start", "a_x", "end"]
    assert that_fit(cells, 1, between=2) == ["start", "end"]
