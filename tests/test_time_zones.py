"""A column of times in Berlin is Berlin time wherever it is read, asked or shown; durations in text are ISO 8601."""

from __future__ import annotations

import csv
import datetime
import io
import json
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

import seqube as sq
from seqube import output
from seqube.explorer import charts
from seqube.explorer.results import ResultFile, to_axis

BERLIN = ZoneInfo("Europe/Berlin")
# The clocks go forward at 2026-03-29 02:00 there, when it is 01:00 in UTC.
CLOCKS = [(28, 23, 0), (29, 0, 30), (29, 1, 30), (30, 1, 0)]
MOMENTS = [datetime.datetime(2026, 3, *clock, tzinfo=BERLIN) for clock in CLOCKS]
TABLE = pa.table({"type": ["A", "B", "A", "B"], "ts": pa.array(MOMENTS, pa.timestamp("us", "Europe/Berlin"))})
QUERY = "SEQ(A a, B b) WITHIN 5 days"
LAGS = QUERY + " RETURN a.ts AS began, b.ts - a.ts AS lag"


def test_what_comes_out_is_in_its_zone() -> None:
    rows = sq.run(QUERY, TABLE).table.to_pylist()
    assert {(row["start"], row["end"]) for row in rows} == {
        (MOMENTS[0], MOMENTS[1]),
        (MOMENTS[0], MOMENTS[3]),
        (MOMENTS[2], MOMENTS[3]),
    }
    assert {row["start"].hour for row in rows} == {23, 1}
    frame = sq.run(LAGS, TABLE).to_pandas()
    assert str(frame["began"].dt.tz) == "Europe/Berlin"


def test_events_say_their_span_in_their_zone() -> None:
    assert "ts 2026-03-28T23:00:00+01:00 to 2026-03-30T01:00:00+02:00" in repr(sq.Events(TABLE))
    plain = TABLE.set_column(1, "ts", TABLE.column("ts").cast(pa.timestamp("us", "UTC")).cast(pa.timestamp("us")))
    assert "ts 2026-03-28T22:00:00 to 2026-03-29T23:00:00" in repr(sq.Events(plain))


def test_times_are_printed_whole() -> None:
    printed = str(sq.run(LAGS, TABLE))
    assert "2026-03-28 23:00:00+01:00  PT1H30M" in printed
    assert "…" not in printed
    assert "<td>2026-03-28 23:00:00+01:00</td>" in sq.run(LAGS, TABLE)._repr_html_()


def test_files_say_times_and_durations_in_one_way(tmp_path: Path) -> None:
    rows = sq.run(LAGS, TABLE).table
    for ending in ("csv", "json"):
        output.write(rows, tmp_path / f"lags.{ending}")
    in_csv = list(csv.DictReader((tmp_path / "lags.csv").open()))
    in_json = [json.loads(line) for line in (tmp_path / "lags.json").read_text().splitlines()]
    assert in_csv == in_json == _on_the_page(rows, tmp_path)
    assert in_csv[0] == {"began": "2026-03-28T23:00:00+01:00", "lag": "PT1H30M"}


def _on_the_page(rows: pa.Table, folder: Path) -> list[dict[str, Any]]:
    """What the page shows, which is what it exports."""
    result = _result(rows, folder)
    shown = result.page(0, 10)
    assert list(csv.DictReader(io.StringIO(b"".join(result.as_csv()).decode()))) == shown
    return shown


def _result(rows: pa.Table, folder: Path) -> ResultFile:
    path = folder / "rows.arrow"
    with pa.ipc.new_file(path, rows.schema) as file:
        file.write_table(rows)
    return ResultFile(path)


@pytest.mark.parametrize("fraction", [0, 1, 500_000])
@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin", "Asia/Kolkata", "-03:30"])
def test_a_time_in_text_is_what_python_writes(zone: str | None, fraction: int) -> None:
    times = pa.array([1_774_731_600_000_000 + fraction, None, -1], pa.timestamp("us", zone))
    expected = [None if time is None else time.isoformat() for time in times.to_pylist()]
    assert output.flatten(pa.table({"t": times})).column("t").to_pylist() == expected


def test_a_day_begins_at_midnight_there() -> None:
    days = sq.run("A a WITHIN 1 RETURN DATE_TRUNC('day', a.ts) AS day, EXTRACT(HOUR FROM a.ts) AS hour", TABLE).table.to_pylist()
    assert [(row["day"].isoformat(), row["hour"]) for row in days] == [
        ("2026-03-28T00:00:00+01:00", 23),
        ("2026-03-29T00:00:00+01:00", 1),
    ]


@pytest.mark.parametrize(
    ("moment", "count"), [("2026-03-29", 1), ("2026-03-29 01:30", 1), ("2026-03-29 00:30Z", 1), ("2026-03-29 01:30Z", 0)]
)
def test_a_time_in_a_query_is_in_the_zone_of_the_events(moment: str, count: int) -> None:
    assert len(sq.run(f"A a WHERE a.ts >= '{moment}' WITHIN 1", TABLE)) == count


# ---------------------------------------------------------------- charts: the clock of the zone, wherever the browser is


def test_the_pages_axes_show_the_clock_of_the_zone() -> None:
    clocks = [datetime.datetime(2026, 3, *clock, tzinfo=datetime.UTC).timestamp() * 1000 for clock in CLOCKS]
    assert to_axis(TABLE.column("ts")).tolist() == clocks
    spec = charts.draw_aggregates(pa.table({"ts": TABLE.column("ts"), "count": [1, 2, 3, 4]}), [])
    assert spec is not None
    assert spec["useUTC"]
    assert spec["xAxis"]["name"] == "28 Mar to 30 Mar 2026, Europe/Berlin"
    assert [point[0] for point in spec["series"][0]["data"]] == clocks


def test_plots_show_the_clock_of_the_zone() -> None:
    drawn = sq.run(QUERY, TABLE).plot().to_dict()
    assert drawn["encoding"]["x"]["scale"] == {"type": "utc"}
    assert drawn["encoding"]["x"]["title"] == "time (Europe/Berlin)"
    assert drawn["data"]["values"][0]["start"] == "2026-03-28T23:00:00+00:00"
    counted = sq.run("A a WITHIN 1 hour AGG COUNT(*) EMIT EVERY 1 hour", TABLE).plot().to_dict()
    assert counted["encoding"]["x"]["scale"] == {"type": "utc"}
    assert counted["data"]["values"][0]["ts"] == "2026-03-28T23:00:00+00:00"


def test_the_page_orders_durations_by_length(tmp_path: Path) -> None:
    minutes = [10, 9, 120]
    lags = pa.array([datetime.timedelta(minutes=length) for length in minutes], pa.duration("us"))
    result = _result(pa.table({"lag": lags}), tmp_path)
    assert [row["lag"] for row in result.page(0, 3, "lag")] == ["PT9M", "PT10M", "PT2H"]
