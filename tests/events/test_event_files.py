"""Events from files: round trips, folders, broken lines and broken files."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqube.errors import DataError, SchemaError
from seqube.events import Events, files

TABLE = pa.table(
    {
        "type": ["A", "NA", "C", "B,b"],
        "ts": pa.array([1, 2, 2, 4_000_000_000_000], pa.int64()),
        "price": [1.5, None, -2.0, 4.0],
        "note": ['say "hi"', None, "two\nlines", "ä"],
    }
)


def write(path: Path, table: pa.Table) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if ".csv" in path.suffixes:
        sink = pa.BufferOutputStream()
        pa.csv.write_csv(table, sink)
        content = sink.getvalue().to_pybytes()
        path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    elif path.suffix == ".parquet":
        pa.parquet.write_table(table, path)
    else:
        path.write_text("\n".join(json.dumps(row) for row in table.to_pylist()), "utf-8")
    return path


@pytest.mark.parametrize("name", ["e.csv", "e.csv.gz", "e.CSV", "e.json", "e.jsonl", "e.ndjson", "e.parquet", "v1.2.csv"])
def test_round_trip(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    write(tmp_path / name.lower(), TABLE).rename(path)
    for given_path in (path, str(path), [path]):
        events = Events(given_path)
        assert events.table.to_pylist() == TABLE.to_pylist()
        assert events.times.tolist() == TABLE.column("ts").to_pylist()
        assert not events.rejected


@pytest.mark.parametrize("name", ["e.csv", "e.json", "e.parquet"])
def test_timestamps_round_trip(tmp_path: Path, name: str) -> None:
    moments = ["2020-01-01T00:00:00.25Z", "2020-01-01T00:00:01Z"]
    column: Any = moments if name != "e.parquet" else pa.array(moments).cast(pa.timestamp("ns", "UTC"))
    events = Events(write(tmp_path / name, pa.table({"type": ["A", "B"], "ts": column})))
    assert events.times.tolist() == [1_577_836_800_250_000, 1_577_836_801_000_000]
    assert events.unit == "us"


def test_folder_pattern_and_list_of_files(tmp_path: Path) -> None:
    folder = tmp_path / "events"
    write(folder / "day=1" / "part-0.parquet", TABLE.slice(0, 2))
    write(folder / "day=2" / "part-0.parquet", TABLE.slice(2))
    (folder / "_SUCCESS").touch()
    (folder / ".part.parquet").touch()
    (folder / "_spark_metadata").mkdir()
    (folder / "_spark_metadata" / "0.json").write_text("v1")
    whole = Events(folder)
    assert whole.table.drop_columns("day").to_pylist() == TABLE.to_pylist()
    assert whole.table.column("day").to_pylist() == [1, 1, 2, 2]
    assert Events(str(folder / "*" / "*.parquet")).table.to_pylist() == TABLE.to_pylist()
    assert Events([folder / "day=1", folder / "day=2"]).table.to_pylist() == TABLE.to_pylist()


def test_files_with_other_columns_are_filled_with_nulls(tmp_path: Path) -> None:
    first = write(tmp_path / "1.csv", pa.table({"type": ["A"], "ts": [1], "x": [1]}))
    second = write(tmp_path / "2.csv", pa.table({"type": ["B"], "ts": [2], "x": [2.5], "y": ["s"]}))
    assert Events([first, second]).table.to_pylist() == [
        {"type": "A", "ts": 1, "x": 1.0, "y": None},
        {"type": "B", "ts": 2, "x": 2.5, "y": "s"},
    ]


# ---------------------------------------------------------------- broken lines


def test_broken_lines_of_csv_are_rejected_rows(tmp_path: Path) -> None:
    path = tmp_path / "e.csv"
    path.write_text("type,ts,x\nA,1,\n\nB,2\n,3,5\nC,4,5,6\nD,zz,7\nE,5,8\n")
    events = Events(path)
    assert events.column("type").to_pylist() == ["A", "E"]
    assert events.table.column("x").to_pylist() == [None, 8]
    assert [(row["row"], row["text"], row["reason"]) for row in events.rejected.table.to_pylist()] == [
        (1, "B,2", "2 fields instead of 3"),
        (2, None, "no type"),
        (3, "C,4,5,6", "4 fields instead of 3"),
        (4, None, "time is not an integer"),
    ]


def test_broken_lines_of_json_are_rejected_rows(tmp_path: Path) -> None:
    path = tmp_path / "e.jsonl"
    path.write_bytes(
        b'{"type": "A", "ts": 1, "x": 1}\n\n{"type": "B", "ts": 2\n[1]\n{"type": null, "ts": 3}\n{"type": "C", "ts": 4, "ts": 5}\n'
        b'{"type": "D\xff", "ts": 4}\n{"type": "E", "ts": 5, "x": NaN}\n' + b"[" * 100_000 + b"\n"
    )
    events = Events(path)
    assert events.table.to_pylist() == [{"type": "A", "ts": 1, "x": 1}, {"type": "E", "ts": 5, "x": None}]
    rejected = events.rejected.table.to_pylist()
    assert [row["row"] for row in rejected] == [1, 2, 3, 4, 5, 7]
    assert rejected[0]["text"] == '{"type": "B", "ts": 2'
    assert rejected[0]["reason"].startswith("not a JSON record: Expecting ',' delimiter")
    assert [row["reason"] for row in rejected[1:4]] == [
        "not a JSON record: not an object", "no type", "not a JSON record: a name stands twice in one object",
    ]  # fmt: skip
    assert "utf-8" in rejected[4]["reason"]
    assert len(events) + events.rejected.count == 8


NULLS = [b"null\n%s", b"\n \t null\r\n%s", b"\xef\xbb\xbfnull\n%s", b"%s\nnull", b"%snull\n"]


@pytest.mark.parametrize("content", NULLS, ids=range(len(NULLS)))
@pytest.mark.parametrize("block", [48, 49, 50, 51, 52, 53, 8 << 20])
def test_nulls_for_records_are_rejected_rows(content: bytes, block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrow's own reader ends the process where one begins a block."""
    monkeypatch.setattr(files, "_BLOCK", block)
    path = tmp_path / "e.jsonl"
    path.write_bytes(content.replace(b"%s", b'{"type": "A", "ts": 1, "x": null, "s": "null"}\n'))
    events = Events(path)
    assert events.table.select(["type", "ts", "s"]).to_pylist() == [{"type": "A", "ts": 1, "s": "null"}]
    assert [row["reason"] for row in events.rejected.table.to_pylist()] == ["not a JSON record: not an object"]


def test_json_values_of_mixed_kinds_become_texts(tmp_path: Path) -> None:
    path = tmp_path / "e.json"
    path.write_text('{"type": "A", "ts": 1, "x": 1, "n": {"a": 1}}\n{"type": "B", "ts": 2, "x": "one", "n": {"a": [2]}}\n')
    assert Events(path).table.to_pylist() == [
        {"type": "A", "ts": 1, "x": "1", "n": '{"a": 1}'}, {"type": "B", "ts": 2, "x": "one", "n": '{"a": [2]}'},
    ]  # fmt: skip


def test_json_array_of_records(tmp_path: Path) -> None:
    path = tmp_path / "e.json"
    path.write_text('[{"type": "A", "ts": 1},\n {"type": "B", "ts": 2}]')
    assert Events(path).column("type").to_pylist() == ["A", "B"]


def test_row_numbers_run_on_from_file_to_file(tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text("type,ts\nA,1\nbroken\n")
    (tmp_path / "2.csv").write_text("type,ts\n,2\nB,3\nalso,broken,here\n")
    events = Events(tmp_path)
    assert events.rejected.table.column("row").to_pylist() == [1, 2, 4]
    assert len(events) + events.rejected.count == 5
    again = Events.concat([events, Events(pa.table({"type": ["A", None], "ts": [7, 8]}))])
    assert again.rejected.table.column("row").to_pylist() == [1, 2, 4, 6]
    assert again.rejected.reasons == {"1 fields instead of 2": 1, "no type": 2, "3 fields instead of 2": 1}


def test_bytes_that_are_no_utf8_do_not_spoil_the_column(tmp_path: Path) -> None:
    path = tmp_path / "e.csv"
    path.write_bytes(b"type,ts\nA,1\n\xe9t\xe9,2\n,3\n")
    events = Events(path)
    assert events.column("type").to_pylist() == ["A", "\ufffdt\ufffd"]
    assert events.rejected.reasons == {"no type": 1}


def test_a_quote_that_is_never_closed(tmp_path: Path) -> None:
    path = tmp_path / "e.csv"
    path.write_text('type,ts,x\nA,1,"fine\n"\nD\nB,2,"oops\nC,3,y\n')
    events = Events(path)
    assert events.table.to_pylist() == [{"type": "A", "ts": 1, "x": "fine\n"}]
    assert events.rejected.reasons == {"1 fields instead of 3": 1, "a quote is never closed": 1}
    assert events.rejected.table.column("text").to_pylist() == ["D", 'B,2,"oops\nC,3,y\n']
    assert events.rejected.table.column("row").to_pylist() == [1, 2]


def test_types_of_csv_are_taken_as_they_are_written(tmp_path: Path) -> None:
    path = tmp_path / "e.csv"
    for names in (["007", "1.50"], ["True", "false"], ["2020-01-01", "12:00"], ["NA", "null"]):
        path.write_text(f"type,ts\n{names[0]},1\n{names[1]},2\n,3\n")
        events = Events(path)
        assert events.column("type").to_pylist() == names
        assert events.rejected.reasons == {"no type": 1}


def test_folders_without_a_value_and_with_texts(tmp_path: Path) -> None:
    for number, folder in enumerate(["ward=A", "ward=7", "ward=__HIVE_DEFAULT_PARTITION__"]):
        write(tmp_path / folder / "part.csv", pa.table({"type": ["T"], "ts": [number]}))
    events = Events(tmp_path)
    assert dict(zip(events.times.tolist(), events.table.column("ward").to_pylist(), strict=True)) == {0: "A", 1: "7", 2: None}


LINES = st.lists(st.sampled_from(["A,1,x", "B,2,", ",3,y", "C,,z", "D", "E,5,x,y", "F,oops,z", '"G,g",-7,"q"']), max_size=20)


@given(LINES)
def test_no_line_of_csv_vanishes(tmp_path_factory: pytest.TempPathFactory, lines: list[str]) -> None:
    path = tmp_path_factory.mktemp("csv") / "e.csv"
    path.write_text("\n".join(["type,ts,x", *lines]) + "\n")
    events = Events(path)
    good = [line for line in lines if line[0] in 'AB"']
    assert len(events) == len(good)
    assert sorted([*events.rejected.table.column("row").to_pylist()]) == [row for row, line in enumerate(lines) if line not in good]


# ---------------------------------------------------------------- broken files


def test_folders_that_cannot_be_looked_through_and_names_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "leads-nowhere").symlink_to("x" * 300)
    for wrong in (str(tmp_path), "x" * 300, "x\0.csv"):
        with pytest.raises(DataError, match=r"cannot be looked through|there is no file"):
            Events(wrong)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("e.xlsx", b"x", "cannot tell what kind of file .*e.xlsx' is\n  hint: the name should end in one of csv, csv.gz"),
        ("events", b"x", "cannot tell what kind of file .*events' is"),
        ("e.csv", b"", "e.csv' is empty"),
        ("e.json", b"", "e.json' is empty"),
        ("e.parquet", b"", "e.parquet' is empty"),
        ("e.csv", b"\n\n", "e.csv' cannot be read: .*[Ee]mpty CSV"),
        ("e.json", b"\n \n", "e.json' holds no columns"),
        ("e.json", b"type,ts\nA,1\n", r"e.json' cannot be read: no line is a JSON record \(not a JSON record: Expecting value\)"),
        ("e.parquet", b"PAR1 but not really", "e.parquet' cannot be read: .*Parquet.*\n  hint: is it whole, and really parquet"),
        ("e.csv.gz", b"type,ts\nA,1\n", "e.csv.gz' cannot be read: "),
        ("e.csv.gz", gzip.compress(b"type,ts\n" + b"A,1\n" * 1000, mtime=0)[:-20], "e.csv.gz' cannot be read: "),
    ],
)
def test_files_that_cannot_be_read(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message):
        Events(tmp_path / name)


def test_files_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"there is no file .*nowhere.csv'\n  hint: check the path"):
        Events(tmp_path / "nowhere.csv")
    with pytest.raises(DataError, match=r"no file matches .*\*.csv'"):
        Events(str(tmp_path / "*.csv"))
    (tmp_path / "notes.txt").touch()
    with pytest.raises(DataError, match=r"the folder .* holds no data files"):
        Events(tmp_path)


def test_files_that_do_not_fit_together(tmp_path: Path) -> None:
    write(tmp_path / "1.parquet", pa.table({"type": ["A"], "ts": [1], "x": ["s"]}))
    write(tmp_path / "2.parquet", pa.table({"type": ["A"], "ts": [1], "x": [1]}))
    with pytest.raises(DataError, match=r"do not fit together: .*x.*\n  hint: a column must hold one kind"):
        Events(tmp_path)


def test_a_header_alone_is_no_events(tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_text("type,ts,x\n")
    events = Events(tmp_path / "e.csv")
    assert (len(events), events.rejected.count) == (0, 0)
    with pytest.raises(SchemaError, match="there is no type column 'ticker'; the columns are 'type', 'ts', 'x'"):
        Events(tmp_path / "e.csv", type="ticker")
