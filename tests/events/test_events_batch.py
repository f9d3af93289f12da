"""Events from tables: what is kept, in which order, how it is coded, and what is rejected."""

from __future__ import annotations

import datetime as dt
import pickle
from collections import Counter
from itertools import pairwise
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqube.errors import DataError, SchemaError
from seqube.events import Events


def table(types: Any, times: Any, **columns: Any) -> pa.Table:
    return pa.table({"type": types, "ts": times, **columns})


def names_of(events: Events) -> list[str]:
    return [events.type_names[code] for code in events.types]


# ---------------------------------------------------------------- what is taken in


def test_sorted_arrow_input_is_not_copied() -> None:
    source = table(["A", "B", "A"], pa.array([1, 2, 2]), x=[1.0, None, 3.0])
    events = Events(source)
    assert events.table.equals(source)
    for name in source.column_names:
        assert events.table.column(name).chunk(0).buffers()[-1].address == source.column(name).chunk(0).buffers()[-1].address
    assert events.times.tolist() == [1, 2, 2]
    assert names_of(events) == ["A", "B", "A"]
    assert (str(events.times.dtype), str(events.types.dtype), events.unit, len(events)) == ("int64", "int32", "ms", 3)


def test_unsorted_input_is_sorted_and_ties_keep_their_order() -> None:
    events = Events(table(["A", "B", "C", "D"], [5, 1, 5, 1], n=[0, 1, 2, 3]))
    assert events.table.column("n").to_pylist() == [1, 3, 0, 2]
    assert events.times.tolist() == [1, 1, 5, 5]
    assert names_of(events) == ["B", "D", "A", "C"]


def test_columns_may_have_other_names_and_many_chunks() -> None:
    part = pa.table({"ticker": ["A", "B"], "at": [1, 2], "type": [7, 8]})
    events = Events(pa.concat_tables([part, part]), type="ticker", time="at", unit="s")
    assert all(column.num_chunks == 1 for column in events.table.columns)
    assert (events.type_column, events.time_column, events.unit) == ("ticker", "at", "s")
    assert events.column("type").to_pylist() == ["A", "A", "B", "B"]  # the events' type wins over the column of that name
    assert events.column("ts").to_pylist() == [1, 1, 2, 2]
    assert dict(events.schema) == {"ticker": "string", "at": "number", "type": "string", "ts": "number", '"type"': "number"}


@pytest.mark.parametrize(
    "frame",
    [
        pa.RecordBatch.from_pydict({"type": ["B", "A"], "ts": [2, 1]}),
        pd.DataFrame({"type": ["B", "A"], "ts": [2, 1]}, index=[7, 3]),
        pd.DataFrame({"type": ["B", "A"], "ts": [2, 1]}).set_index("ts"),
        pl.DataFrame({"type": ["B", "A"], "ts": [2, 1]}),
        pl.LazyFrame({"type": ["B", "A"], "ts": [2, 1]}),
        pa.RecordBatchReader.from_batches(
            pa.schema({"type": pa.string(), "ts": pa.int64()}), [pa.RecordBatch.from_pydict({"type": ["B", "A"], "ts": [2, 1]})]
        ),
        Events(pa.table({"type": ["B", "A"], "ts": [2, 1]})),
    ],
    ids=["batch", "pandas", "pandas-index", "polars", "polars-lazy", "c-stream", "events"],
)
def test_every_kind_of_table(frame: Any) -> None:
    events = Events(frame)
    assert sorted(events.table.column_names) == ["ts", "type"]
    assert events.times.tolist() == [1, 2]
    assert names_of(events) == ["A", "B"]


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pa.array(["b", "a", "b"], pa.large_string()), ["b", "a", "b"]),
        (pa.array(["b", "a", "b"], pa.string_view()), ["b", "a", "b"]),
        (pa.array(["b", "a", "b"]).dictionary_encode(), ["b", "a", "b"]),
        (pa.array([3, -1, 3], pa.int16()), ["3", "-1", "3"]),
        (pa.array([True, False, True]), ["true", "false", "true"]),
        (pa.DictionaryArray.from_arrays([2, 0, 1], pa.array(["b", "b", "a"])), ["a", "b", "b"]),
        (pa.DictionaryArray.from_arrays([1, 0, 1], pa.array([10, 20])), ["20", "10", "20"]),
    ],
    ids=["large", "view", "dictionary", "integer", "boolean", "repeated-dictionary", "integer-dictionary"],
)
def test_every_kind_of_type_column(column: pa.Array, expected: list[str]) -> None:
    # The last row makes the table unsorted, so that rows are selected, too.
    events = Events(table(column, [2, 3, 1]))
    assert names_of(events) == [expected[2], *expected[:2]]
    assert events.column("type").to_pylist() == names_of(events)
    assert events.column("type").type == pa.string()
    assert len(set(events.type_names)) == len(events.type_names)


def test_null_in_a_dictionary_is_no_type() -> None:
    events = Events(table(pa.DictionaryArray.from_arrays(pa.array([0, 1, None]), pa.array(["a", None])), [1, 2, 3]))
    assert names_of(events) == ["a"]
    assert events.rejected.reasons == {"no type": 2}


def test_an_empty_table_has_no_events() -> None:
    events = Events(table(pa.array([], pa.string()), pa.array([], pa.int64())))
    assert (len(events), events.rejected.count, events.statistics.span) == (0, 0, 0)
    assert events.rows_of("A").tolist() == []
    assert [column.num_chunks for column in events.table.columns] == [1, 1]
    assert len(Events(pa.table({"type": pa.nulls(0), "ts": pa.nulls(0)}))) == 0


def test_events_are_frozen_and_picklable() -> None:
    events = Events(table(["A"], [1]))
    with pytest.raises(AttributeError, match="frozen"):
        events.unit = "s"  # type: ignore[misc]
    with pytest.raises(ValueError, match="read-only"):
        events.times[0] = 3
    again = pickle.loads(pickle.dumps(events))
    assert again.table.equals(events.table)
    assert again.schema == events.schema
    assert hash(again.schema) == hash(events.schema)


def test_shown_in_a_line() -> None:
    events = Events(table(["A", "B", None], [1, 2, 3]))
    assert repr(events) == "Events(2 events of 2 types, ts 1 ms to 2 ms, 1 rejected)"
    assert "1970-01-01T00:00:00.000001" in repr(Events(table(["A"], pa.array([1001], pa.timestamp("ns")))))


def test_schema_knows_kinds_and_arrow_types() -> None:
    schema = Events(
        table(
            pa.array([1]),
            pa.array([0], pa.timestamp("s", "Europe/Berlin")),
            n=pa.array([1.5]),
            s=pa.array(["x"]).dictionary_encode(),
            b=[True],
            d=pa.array([1], pa.date32()),
            gap=pa.array([1], pa.duration("s")),
            many=[[1]],
        )
    ).schema
    assert dict(schema) == {
        "type": "string", "ts": "time", "n": "number", "s": "string", "b": "boolean",
        "d": "time", "gap": "duration", "many": "other",
    }  # fmt: skip
    assert schema.arrow("type") == pa.string()
    assert schema.arrow("ts") == pa.timestamp("s", "Europe/Berlin")
    assert schema.arrow("gap") == pa.duration("s")
    assert schema.unit == "us"


# ---------------------------------------------------------------- rejected rows


def test_rows_without_type_or_time_are_set_aside_as_they_came() -> None:
    events = Events(table(["A", None, "B", None], [3, 2, None, None], x=["p", "q", "r", "s"]))
    assert names_of(events) == ["A"]
    assert events.rejected.count == 3
    assert events.rejected.reasons == {"no type": 2, "no time": 1}
    assert events.rejected.table.to_pylist() == [
        {"type": None, "ts": 2, "x": "q", "reason": "no type", "row": 1},
        {"type": "B", "ts": None, "x": "r", "reason": "no time", "row": 2},
        {"type": None, "ts": None, "x": "s", "reason": "no type", "row": 3},
    ]


def test_columns_called_reason_and_row_are_kept() -> None:
    rejected = Events(table(["A", None], [1, 2], reason=["x", "y"], row=[8, 9])).rejected
    assert rejected.table.to_pylist() == [{"type": None, "ts": 2, "reason": "y", "row": 9, "reason_": "no type", "row_": 1}]


def test_nothing_rejected() -> None:
    rejected = Events(table(["A"], [1])).rejected
    assert not rejected
    assert (rejected.count, rejected.reasons, rejected.table.num_rows) == (0, {}, 0)
    assert rejected.table.column_names == ["type", "ts", "reason", "row"]


# ---------------------------------------------------------------- what cannot be events


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        (
            {"typ": ["A"], "ts": [1]},
            {},
            "no type column 'type'; the columns are 'typ', 'ts'\n  hint: did you mean 'typ'. choose it with type=",
        ),
        ({"type": ["A"], "price": [1]}, {}, "no time column 'ts'; the columns are 'type', 'price'\n  hint: choose it with time="),
        ({"type": ["A"], "ts": [1]}, {"unit": "hours"}, "unknown time unit 'hours'\n  hint: one of ns, us, ms, s, min, h, d"),
        ({"type": ["A"], "ts": [True]}, {}, "time column 'ts' holds bool, which cannot be a time"),
        ({"type": ["A"], "ts": [[1]]}, {}, "time column 'ts' holds list<.*>, which cannot be a time"),
        (
            {"type": ["A"], "ts": pa.array([1], pa.duration("s"))},
            {},
            r"time column 'ts' holds duration\[s\], which cannot be a time",
        ),
        ({"type": [1.5], "ts": [1]}, {}, "type column 'type' holds double, which cannot name event types"),
        ({"type": ["A"], "ts": [1]}, {"time": "type"}, "column 'type' cannot be both the type and the time"),
    ],
)
def test_wrong_columns(columns: dict[str, Any], options: dict[str, str], message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        Events(pa.table(columns), **options)


def test_repeated_column_names() -> None:
    message = "several columns have the name 'x'\n  hint: rename"
    with pytest.raises(SchemaError, match=message):
        Events(pa.table([["A"], [1], [1], [2]], names=["type", "ts", "x", "x"]))
    with pytest.raises(SchemaError, match=message):
        Events(pd.DataFrame([["A", 1, 2, 3]], columns=["type", "ts", "x", "x"]))


@pytest.mark.parametrize("data", [None, 3, {"type": ["A"]}, [1, 2], []])
def test_not_a_table(data: object) -> None:
    with pytest.raises(DataError, match=r"events cannot be read from a (NoneType|int|dict|list)\n  hint: give a pyarrow table"):
        Events(data)


def test_a_frame_with_values_of_many_kinds_in_one_column() -> None:
    with pytest.raises(DataError, match="this DataFrame cannot be read as a table"):
        Events(pd.DataFrame({"type": ["A", "B"], "ts": [1, 2], "x": [object(), 3]}))


def test_unknown_column() -> None:
    with pytest.raises(SchemaError, match="no column 'prise'\n  hint: did you mean 'price'"):
        Events(table(["A"], [1], price=[2])).column("prise")


# ---------------------------------------------------------------- pieces


def test_concat_unifies_names_dictionaries_and_rejected_rows() -> None:
    first = Events(table(pa.array(["A", "B", None]).dictionary_encode(), [1, 2, 3]))
    second = Events(table(pa.array([None, "C", "B"]).dictionary_encode(), [3, 4, 5]))
    whole = Events.concat([first, second])
    assert names_of(whole) == ["A", "B", "C", "B"]
    assert whole.column("type").to_pylist() == ["A", "B", "C", "B"]
    assert whole.table.column("type").to_pylist() == ["A", "B", "C", "B"]
    assert whole.rejected.reasons == {"no type": 2}
    assert whole.rejected.table.column("row").to_pylist() == [2, 3]
    assert whole.rows_of("B").tolist() == [1, 3]


def test_concat_of_overlapping_pieces_is_sorted() -> None:
    whole = Events.concat([Events(table(["A", "B"], [1, 5])), Events(table(["C", "D"], [3, 5]))])
    assert names_of(whole) == ["A", "C", "B", "D"]
    assert whole.times.tolist() == [1, 3, 5, 5]


def test_concat_of_different_columns() -> None:
    with pytest.raises(SchemaError, match="pieces of a stream differ in their columns"):
        Events.concat([Events(table(["A"], [1])), Events(table(["A"], [1], x=[1]))])
    with pytest.raises(SchemaError, match="nothing to put together"):
        Events.concat([])


def test_statistics() -> None:
    statistics = Events(table(["A", "B", "A", "C"], [10, 12, 15, 20])).statistics
    assert (statistics.n, statistics.first, statistics.last, statistics.span) == (4, 10, 20, 10)
    assert statistics.counts == {"A": 2, "B": 1, "C": 1}
    assert statistics.count(["A", "C", "nothing", "A"]) == 3
    assert statistics.count("A") == 2
    assert statistics.rates == {"A": 0.2, "B": 0.1, "C": 0.1}


def test_rows_of_more_types_than_a_byte_can_count() -> None:
    types = [f"T{number % 300}" for number in range(900)]
    events = Events(table(types, range(900)))
    assert events.rows_of("T299").tolist() == [299, 599, 899]
    assert events.rows_of({"T0", "T299"}).tolist() == [0, 299, 300, 599, 600, 899]


# ---------------------------------------------------------------- properties

ROWS = st.lists(st.tuples(st.sampled_from(["A", "B", "C", "D", None]), st.one_of(st.none(), st.integers(-3, 3))), max_size=30)


def arrow_of(rows: list[tuple[str | None, int | None]], moments: bool, coded: bool) -> pa.Table:
    types = pa.array([name for name, _ in rows], pa.string())
    times = pa.array([time for _, time in rows], pa.int64())
    return table(
        types.dictionary_encode() if coded else types, times.cast(pa.timestamp("us")) if moments else times, number=range(len(rows))
    )


@given(ROWS, st.booleans(), st.booleans())
def test_no_row_vanishes_and_order_is_stable(rows: list[tuple[str | None, int | None]], moments: bool, coded: bool) -> None:
    events = Events(arrow_of(rows, moments, coded))
    good = [(time, row, name) for row, (name, time) in enumerate(rows) if name is not None and time is not None]
    assert list(zip(events.times.tolist(), events.table.column("number").to_pylist(), names_of(events), strict=True)) == sorted(
        good
    )
    assert len(events) + events.rejected.count == len(rows)
    assert sum(events.rejected.reasons.values()) == events.rejected.count
    assert events.rejected.table.column("row").to_pylist() == [
        row for row, (name, time) in enumerate(rows) if name is None or time is None
    ]
    assert {k: n for k, n in events.statistics.counts.items() if n} == Counter(name for _, _, name in good)


@given(ROWS, st.sets(st.sampled_from(["A", "B", "C", "D", "E"])))
def test_rows_of_is_what_a_scan_finds(rows: list[tuple[str | None, int | None]], wanted: set[str]) -> None:
    events = Events(arrow_of(rows, moments=False, coded=False))
    assert events.rows_of(wanted).tolist() == [row for row, name in enumerate(names_of(events)) if name in wanted]
    chosen = events.take(events.rows_of(wanted))
    assert names_of(chosen) == [name for name in names_of(events) if name in wanted]
    assert chosen.table.column("number").to_pylist() == [
        number for number, name in zip(events.table.column("number").to_pylist(), names_of(events), strict=True) if name in wanted
    ]


@given(ROWS, st.lists(st.integers(0, 30), max_size=4), st.booleans())
def test_slices_put_together_are_the_whole(rows: list[tuple[str | None, int | None]], cuts: list[int], coded: bool) -> None:
    events = Events(arrow_of(rows, moments=False, coded=coded))
    edges = [0, *sorted(min(cut, len(events)) for cut in cuts), len(events)]
    whole = Events.concat([events.slice(start, stop) for start, stop in pairwise(edges)])
    assert whole.table.to_pylist() == events.table.to_pylist()
    assert whole.table.schema == events.table.schema
    assert whole.times.tolist() == events.times.tolist()
    assert names_of(whole) == names_of(events)
    assert whole.rows_of(["A", "B"]).tolist() == events.rows_of(["A", "B"]).tolist()
    assert whole.rejected.count == 0


@given(ROWS, st.integers(0, 30), st.booleans())
def test_parts_of_the_input_put_together_are_the_whole(rows: list[tuple[str | None, int | None]], cut: int, coded: bool) -> None:
    source = arrow_of(rows, moments=True, coded=coded)
    whole = Events(source)
    joined = Events.concat([Events(source.slice(0, cut)), Events(source.slice(cut))])
    assert joined.table.to_pylist() == whole.table.to_pylist()
    assert names_of(joined) == names_of(whole)
    assert joined.rejected.table.to_pylist() == whole.rejected.table.to_pylist()
    assert joined.rejected.reasons == whole.rejected.reasons


def test_dates_of_python_are_times() -> None:
    assert Events(table(["A"], [dt.date(1970, 1, 2)])).times.tolist() == [86_400_000_000]


def test_pieces_of_a_stream_share_what_is_known_of_their_columns() -> None:
    both = table(["A", "B"], [1, 2])
    assert Events(both.slice(0, 1)).schema is Events(both.slice(1, 1)).schema
    assert Events(both, unit="s").schema is not Events(both).schema
