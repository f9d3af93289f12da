"""A stream in this process: what is pushed in which form, what is late or rejected, time, queries that come and go, misuse."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import seqube as sq
from seqube.engine import standing
from seqube.engine.snapshots import seal

PAIRS = "SEQ(A a, B b, [id]) WITHIN 10 RETURN a.ts AS start, b.ts AS end"


def row(name: str, time: Any, **more: Any) -> dict[str, Any]:
    return {"type": name, "ts": time, "id": 1, **more}


def pairs(tables: dict[str, pa.Table], name: str = "query") -> list[tuple[int, int]]:
    return [(each["start"], each["end"]) for each in tables[name].to_pylist()]


# ---------------------------------------------------------------- what is pushed


FORMS = {
    "table": pa.Table.from_pylist,
    "record batch": pa.RecordBatch.from_pylist,
    "pandas": pd.DataFrame,
    "dictionaries": lambda rows: rows,
    "tuple": tuple,
    "events": lambda rows: sq.Events(pa.Table.from_pylist(rows)),
}


@pytest.mark.parametrize("form", FORMS)
def test_rows_come_in_any_form(form: str) -> None:
    stream = sq.Stream(PAIRS)
    assert stream.push(FORMS[form]([row("A", 1), row("B", 3)])) == {}
    assert pairs(stream.push(FORMS[form]([row("C", 4)]))) == [(1, 3)]


def test_polars_frames_are_taken() -> None:
    polars = pytest.importorskip("polars")
    stream = sq.Stream(PAIRS)
    stream.push(polars.DataFrame([row("A", 1), row("B", 3)]))
    assert pairs(stream.close()) == [(1, 3)]


def test_one_dictionary_is_a_row() -> None:
    stream = sq.Stream(PAIRS)
    for each in (row("A", 1), row("B", 3)):
        assert stream.push(each) == {}
    assert pairs(stream.push(row("C", 4))) == [(1, 3)]


RISES = (
    "SEQ(Low a, High b, [id]) DEFINE Low AS ANY WHERE x < 3, High AS ANY WHERE x > 5 WITHIN 10 RETURN a.ts AS start, b.ts AS end"
)
READINGS = [{"ts": time, "id": 1, "x": x} for time, x in enumerate([1, 9, 4, 2, None, 7, 1])]


@pytest.mark.parametrize("form", ["table", "record batch", "pandas", "dictionaries", "one by one", "saved"])
def test_events_may_have_no_types(form: str) -> None:
    """Every event is of the type ANY, as in `Events(type=None)`."""
    stream, found = sq.Stream(RISES, type=None, columns={"x": "double"}), []
    pieces: list[Any] = READINGS if form == "one by one" else [READINGS[:3], READINGS[3:4], READINGS[4:]]
    for piece in pieces:
        found += pairs(stream.push(FORMS[form](piece) if form in FORMS else piece))
        if form == "saved":
            stream = sq.Stream.load(stream.save())
    found += pairs(stream.close())
    whole = sq.run(RISES, sq.Events(pa.Table.from_pylist(READINGS), type=None)).table
    assert found == pairs({"query": whole}) == [(0, 1), (0, 5), (3, 5)]


def test_columns_may_come_later_where_events_have_no_types() -> None:
    stream = sq.Stream(RISES, type=None)
    stream.push({"ts": 1, "x": 1, "id": 1})
    stream.push({"ts": 2, "x": 9, "id": 1, "note": "new"})
    stream.push([{"ts": 3, "x": 2, "id": 1}])
    assert pairs(stream.close()) == []


def test_a_row_with_a_type_is_refused_where_events_have_none() -> None:
    stream = sq.Stream(RISES, type=None)
    stream.push(READINGS[0])
    for rows in (row("A", 4, x=1), [row("A", 4, x=1)], pa.Table.from_pylist([row("A", 4, x=1)])):
        with pytest.raises(sq.SchemaError, match="its events have types"):
            stream.push(rows)


def test_only_queries_with_rows_are_reported_and_others_can_be_asked_for() -> None:
    stream = sq.Stream({"p": PAIRS, "q": PAIRS})
    stream.remove("q")
    found = stream.push([row("A", 1)])
    assert (dict(found), found["p"].num_rows) == ({}, 0)
    with pytest.raises(KeyError):
        found["q"]
    found = stream.push([row("B", 2), row("C", 3)])
    assert list(found) == ["p"]
    assert stream.push([row("C", 4)])["p"].schema == found["p"].schema


@pytest.mark.parametrize(
    "times", [["2026-01-01T10:00:00Z", "2026-01-01T10:00:03+00:00", "2026-01-01 10:00:04"], [0, 3, 4], [0.0, 3.0, 4.0]]
)
def test_times_are_written_in_many_ways(times: list[Any]) -> None:
    stream = sq.Stream("SEQ(A a, B b) WITHIN 10 s RETURN b.ts - a.ts AS lag", unit="s")
    stream.push(row("A", times[0]))
    stream.push([row("B", times[1])])
    assert [
        float(pd.Timedelta(each["lag"], "s").total_seconds()) for each in stream.push(row("C", times[2]))["query"].to_pylist()
    ] == [3]


def test_moments_of_python_are_taken() -> None:
    stream = sq.Stream("SEQ(A a, B b) WITHIN 1 min RETURN b.ts AS at")
    now = datetime(2026, 1, 1, 10, tzinfo=UTC)
    for number, name in enumerate("ABC"):
        found = stream.push(row(name, now + timedelta(seconds=number)))
    assert found["query"].to_pylist() == [{"at": now + timedelta(seconds=1)}]


# ---------------------------------------------------------------- columns


def test_dictionaries_may_bring_columns_later() -> None:
    stream = sq.Stream("SEQ(A a, B b, a.x < b.y) WITHIN 10 RETURN a.x AS x, b.y AS y")
    stream.push({"type": "A", "ts": 1})
    assert stream.stats.unseen == ("x", "y")
    stream.push({"type": "A", "ts": 2, "x": 1})
    stream.push({"type": "B", "ts": 3, "y": 1.5})
    assert stream.stats.unseen == ()
    assert stream.close()["query"].to_pylist() == [{"x": 1, "y": 1.5}]


def test_whole_numbers_become_doubles_when_a_fraction_comes() -> None:
    stream = sq.Stream("SEQ(A a, A b, a.x < b.x) WITHIN 10 RETURN a.x AS x, b.x AS y")
    for time, value in enumerate([1, 1.5, 2]):
        found = stream.push({"type": "A", "ts": time, "x": value})
        assert not stream.rejected
    assert found["query"].to_pylist() == [{"x": 1.0, "y": 1.5}]
    assert stream.close()["query"].to_pylist() == [{"x": 1.0, "y": 2.0}, {"x": 1.5, "y": 2.0}]


@pytest.mark.parametrize("lateness", [0, 5])
def test_a_column_that_cannot_grow_is_refused_and_nothing_is_lost(lateness: int) -> None:
    stream = sq.Stream("SEQ(A a, B b) WITHIN 10 RETURN a.x AS x, b.x AS y", lateness=lateness)
    stream.push(row("A", 1, x=2**53 + 1))
    with pytest.raises(sq.SchemaError, match=r"'x' of this push is double, and the stream holds int64 values that are no double\n"):
        stream.push(row("B", 2, x=1.5, fresh=1))
    stream = sq.Stream.load(stream.save())
    after = [row("B", 3, x=7), row("C", 9, fresh=1)]  # the last with a column that can come
    found = [*map(stream.push, after), stream.close()]
    assert [each for rows in found if rows for each in rows["query"].to_pylist()] == [{"x": 2**53 + 1, "y": 7}]
    assert stream.stats.events == 3


def test_a_push_that_a_query_cannot_take_leaves_the_stream_as_it_was() -> None:
    stream = sq.Stream({"any": "SEQ(A a, B b) WITHIN 10 RETURN b.ts AS t", "sums": "SEQ(A a, B b) WITHIN 10 RETURN a.x + 1 AS y"})
    stream.push(row("A", 1))
    with pytest.raises(sq.QueryError, match="a string in a calculation"):
        stream.push(row("A", 2, x="text"))
    stream.push(row("B", 3))
    stream = sq.Stream.load(stream.save())
    found = [stream.push([row("A", 4, x=4), row("B", 5)]), stream.close()]
    assert [each["y"] for rows in found if rows for each in rows["sums"].to_pylist()] == [None, None, 5]


def test_a_row_with_half_of_a_character_in_a_name_is_rejected() -> None:
    stream = sq.Stream("A a WITHIN 5 RETURN a.id AS id")
    stream.push([row("A", 1, **{"\ud800": 1}), row("A", 2, é=1)])
    assert stream.rejected.table.column("reason").to_pylist() == ["the name '\\ud800' is no text"]
    assert stream.stats.events == 1


def test_declared_columns_are_there_from_the_beginning() -> None:
    stream = sq.Stream("SEQ(A a, B b, a.x < b.x) WITHIN 10 RETURN b.x AS x", columns={"x": "double"})
    stream.push({"type": "A", "ts": 1, "x": 1})
    stream.push({"type": "B", "ts": 2, "x": 1.5})
    assert stream.close()["query"].to_pylist() == [{"x": 1.5}]


def test_columns_that_come_when_events_are_forgotten_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standing, "KEPT_ANYWAY", 2)
    stream = sq.Stream("SEQ(A a, B b) WITHIN 10 AGG COUNT(*)")
    for time in range(5):
        stream.push(row("A", time))
    with pytest.raises(sq.SchemaError, match=r"has forgotten events that 'query' needs.*\n.*columns=.*keep="):
        stream.push(row("B", 6, fresh=1))
    stream.push(row("B", 6))
    assert stream.close()["query"].to_pylist() == [{"ts": 6, "count": 5}]


TABLE = pa.table({"type": ["A"], "ts": [1], "id": [1]})


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (TABLE.append_column("x", pa.array([1])), r"has a column 'x' that the stream does not have"),
        (TABLE.drop_columns(["id"]), r"has no column 'id'"),
        (TABLE.set_column(2, "id", pa.array(["one"])), r"'id' of this push is string, and the stream's is int64"),
        (TABLE.set_column(1, "ts", pa.array([datetime(2026, 1, 1, tzinfo=UTC)])), r"times of this push are timestamp.*int64"),
    ],
)
def test_a_table_with_other_columns_is_refused_and_changes_nothing(other: pa.Table, said: str) -> None:
    stream = sq.Stream(PAIRS)
    stream.push(TABLE)
    with pytest.raises(sq.SchemaError, match=said):
        stream.push(other)
    stream.push([row("B", 3)])
    assert pairs(stream.close()) == [(1, 3)]


def test_a_narrower_column_is_taken() -> None:
    stream = sq.Stream(PAIRS)
    stream.push(TABLE)
    narrow = pa.table({"id": pa.array([1], pa.int8()), "ts": pa.array([2], pa.int32()), "type": ["B"]})
    stream.push(narrow)
    assert pairs(stream.close()) == [(1, 2)]


def test_a_first_push_that_queries_cannot_use_is_refused_and_another_may_begin() -> None:
    stream = sq.Stream("SEQ(A a, B b, a.x = b.x) WITHIN 10 RETURN a.x AS x")
    with pytest.raises(sq.QueryError, match="no column 'x'"):
        stream.push(TABLE)
    stream.push([row("A", 1, x=2), row("B", 2, x=2)])
    assert stream.close()["query"].to_pylist() == [{"x": 2}]


# ---------------------------------------------------------------- late and rejected


@pytest.mark.parametrize("rows", [[{}], [{}, {}], [{}, "x"], [{}, {"\ud800": 1}]])
def test_rows_without_names_are_rejected_also_where_no_name_is_known(rows: list[Any]) -> None:
    stream = sq.Stream(PAIRS)
    stream.push(rows)
    assert (stream.stats.rejected, len(stream.rejected.table)) == (len(rows), len(rows))


def test_rows_that_are_no_events_are_rejected_with_reasons() -> None:
    stream = sq.Stream(PAIRS)
    stream.push([row("A", 1), {"type": "B"}, {"ts": 2}, 7, row("B", "soon"), row("B", 2, id="one")])
    assert stream.rejected.reasons == {
        "no time": 1,
        "no type": 1,
        "not an object with names and values": 1,
        "ts is 'soon', which is no int64": 1,
        "id is 'one', which is no int64": 1,
    }
    assert stream.rejected.table.column("row").to_pylist() == [1, 2, 3, 4, 5]
    stream.push(row("B", 3))
    assert (len(stream.rejected), stream.stats.rejected, stream.stats.events) == (0, 5, 2)


def test_what_was_rejected_adds_no_columns() -> None:
    stream = sq.Stream("SEQ(A a, B b) WITHIN 10")
    stream.push([row("A", 1)])
    stream.push([{"junk": 1}, row("B", 2)])
    assert set(stream.close()["query"].to_pylist()[0]["a"]) == {"type", "ts", "id"}


def test_events_out_of_order_wait_for_the_lateness() -> None:
    stream = sq.Stream(PAIRS, lateness="2 ms")
    stream.push([row("A", 1), row("B", 5)])
    assert stream.stats.waiting == 1
    stream.push(row("A", 3))
    assert pairs(stream.push(row("C", 9))) == [(1, 5), (3, 5)]


def test_later_than_that_is_late_and_changes_nothing() -> None:
    stream = sq.Stream(PAIRS, lateness=2)
    stream.push([row("A", 4), row("C", 9)])
    stream.push([row("A", 6), row("B", 8), row("A", 7)])
    assert stream.late.to_pylist() == [{"type": "A", "ts": 6, "id": 1, "reason": "it came when the watermark had passed 7"}]
    assert stream.stats.late == 1
    stream.push(row("C", 10))
    assert stream.late.num_rows == 0
    assert pairs(stream.close()) == [(4, 8), (7, 8)]


def test_rows_of_one_push_are_in_order_among_themselves() -> None:
    stream = sq.Stream(PAIRS)
    stream.push([row("B", 3), row("A", 1)])
    assert (pairs(stream.close()), stream.stats.late) == ([(1, 3)], 0)


# ---------------------------------------------------------------- time


def test_time_passes_without_events() -> None:
    stream = sq.Stream("SEQ(A a, !B b) WITHIN 5 RETURN a.ts AS at")
    stream.push(row("A", 1))
    assert stream.advance(5) == {}
    assert stream.advance(6)["query"].to_pylist() == [{"at": 1}]
    stream.push(row("A", 5))
    assert stream.late.num_rows == 1


def test_moments_are_advanced_to_by_texts_and_datetimes() -> None:
    stream = sq.Stream("SEQ(A a, !B b) WITHIN 5 s RETURN a.id AS id")
    stream.push(row("A", "2026-01-01T10:00:00Z"))
    assert stream.advance("2026-01-01T10:00:04Z") == {}
    assert stream.advance(datetime(2026, 1, 1, 10, 0, 5, tzinfo=UTC))["query"].num_rows == 1
    assert stream.stats.watermark == datetime(2026, 1, 1, 10, 0, 5, tzinfo=UTC)


def test_time_does_not_go_back() -> None:
    stream = sq.Stream(PAIRS)
    stream.push(row("A", 7))
    with pytest.raises(sq.DataError, match=r"advance: time goes back, from 7 to 6"):
        stream.advance(6)
    assert stream.advance(7) == {}


@pytest.mark.parametrize("time", [None, True, 1.5, "2026-01-01", "soon", 2**70, datetime(2026, 1, 1, tzinfo=UTC)])
def test_advancing_takes_times_of_the_stream_alone(time: Any) -> None:
    stream = sq.Stream(PAIRS)
    stream.push(row("A", 7))
    with pytest.raises(sq.DataError, match=r"advance: .* is no time of this stream\n  hint: .*a whole number of ms"):
        stream.advance(time)


def test_advancing_before_the_first_push_is_refused() -> None:
    with pytest.raises(sq.DataError, match="advance: the stream has not begun"):
        sq.Stream(PAIRS).advance(5)


# ---------------------------------------------------------------- queries that come and go


def test_a_query_that_is_added_sees_what_is_kept() -> None:
    stream = sq.Stream({"p": PAIRS})
    stream.push([row("A", 1), row("B", 2)])
    assert stream.add("q", PAIRS) is None
    assert pairs(stream.push(row("B", 4)), "q") == [(1, 2)]
    assert pairs(stream.close(), "q") == [(1, 4)]


def test_a_query_that_comes_too_late_says_from_when_on_it_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standing, "KEPT_ANYWAY", 0)
    stream = sq.Stream({"p": PAIRS}, keep=3)
    stream.push([row("A", time) for time in range(10)])
    assert stream.add("q", PAIRS) == 16  # what came up to 6 is forgotten
    assert (stream.stats.queries["q"].since, stream.stats.queries["q"].is_whole) == (16, False)
    stream.push(row("B", 10))
    assert pairs(stream.push(row("C", 16)), "q") == [(7, 10), (8, 10), (9, 10)]
    assert stream.stats.queries["q"].is_whole
    assert (stream.stats.queries["p"].since, stream.stats.queries["p"].is_whole) == (None, True)


def test_what_counts_everything_is_never_whole_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standing, "KEPT_ANYWAY", 0)
    stream = sq.Stream({"p": PAIRS}, keep=3)
    stream.push([row("A", time) for time in range(10)])
    total = "A a WITHIN 5 AGG COUNT(*) EMIT TOTAL"
    assert stream.add("q", total) is None
    assert not stream.stats.queries["q"].is_whole
    with pytest.raises(sq.PlanError, match="not known from when on the new 'p' would be whole"):
        stream.replace("p", total)
    with pytest.raises(sq.PlanError, match="not known from when on"):
        stream.replace("p", "SEQ(A a, B b) WITHIN 5 EVENTS")


def test_a_query_is_replaced_at_once_where_all_is_kept() -> None:
    stream = sq.Stream({"p": PAIRS})
    stream.push([row("A", 1), row("B", 2), row("C", 3)])
    assert stream.replace("p", "SEQ(A a, C b, [id]) WITHIN 10 RETURN a.ts AS start, b.ts AS end") is None
    assert pairs(stream.push([row("B", 4), row("C", 5)]), "p") == [(1, 3)]
    assert pairs(stream.close(), "p") == [(1, 5)]
    assert stream.queries["p"] == sq.parse("SEQ(A a, C b, [id]) WITHIN 10 RETURN a.ts AS start, b.ts AS end")


def test_a_query_that_is_replaced_goes_on_until_the_new_one_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standing, "KEPT_ANYWAY", 0)
    stream = sq.Stream({"p": "SEQ(A a, B b) WITHIN 3 RETURN a.ts AS start, b.ts AS end"})
    stream.push([row("A", time) for time in range(6)])
    assert stream.replace("p", PAIRS) == 12
    assert pairs(stream.push([row("B", 6), row("B", 7)]), "p") == [(4, 6), (5, 6)]
    stream = sq.Stream.load(stream.save())  # also while it is being replaced
    assert pairs(stream.push([row("A", 11), row("C", 12)]), "p") == [(5, 7)]
    assert pairs(stream.push([row("B", 13), row("C", 14)]), "p") == [(4, 13), (5, 13), (11, 13)]


def test_a_stream_without_queries_waits_for_some() -> None:
    stream = sq.Stream()
    stream.push(row("A", 1))
    stream.add("q", PAIRS)
    stream.push(row("B", 2))
    assert pairs(stream.close(), "q") == [(1, 2)]


def test_before_the_first_push_queries_come_and_go_freely() -> None:
    stream = sq.Stream({"p": PAIRS})
    stream.add("q", PAIRS)
    stream.replace("q", "SEQ(A a, B b) WITHIN 1")
    stream.remove("p")
    assert list(stream.queries) == ["q"]
    assert stream.stats.queries["q"].rows == 0
    stream.push([row("A", 1), row("B", 2)])
    assert stream.close() == {}


@pytest.mark.parametrize("begun", [False, True])
def test_names_that_are_taken_or_unknown_are_refused(begun: bool) -> None:
    stream = sq.Stream({"hygiene": PAIRS})
    if begun:
        stream.push(row("A", 1))
    with pytest.raises(sq.PlanError, match=r"there is a query 'hygiene' already\n  hint: replace it"):
        stream.add("hygiene", PAIRS)
    for call in (stream.remove, lambda name: stream.replace(name, PAIRS)):
        with pytest.raises(sq.PlanError, match=r"there is no query 'hygeine'\n  hint: did you mean 'hygiene'"):
            call("hygeine")
    with pytest.raises(sq.ArgumentError, match="add: name is"):
        stream.add(5, PAIRS)  # type: ignore[arg-type]
    with pytest.raises(sq.ArgumentError, match="add: query is"):
        stream.add("more", 5)  # type: ignore[arg-type]
    with pytest.raises(sq.PlanError, match="a query is called by a text, not by ''"):
        stream.add("", PAIRS)


def test_a_wrong_query_is_refused_and_changes_nothing() -> None:
    stream = sq.Stream({"p": PAIRS})
    stream.push(row("A", 1))
    for call in (lambda text: stream.add("q", text), lambda text: stream.replace("p", text)):
        with pytest.raises(sq.QueryError, match="no column 'price'"):
            call("SEQ(A a, B b, a.price = 1) WITHIN 5")
    stream.push(row("B", 2))
    assert (pairs(stream.close(), "p"), list(stream.queries)) == ([(1, 2)], ["p"])


# ---------------------------------------------------------------- sharing, strategies, limits


COUNTS = {name: f"SEQ(A a, B b, {name} c) WITHIN 50 AGG COUNT(*)" for name in ("C", "D")}


def test_counts_are_shared_where_that_pays_and_stay_right() -> None:
    table = pa.table({"type": ["A", "B", "C", "D", "B"] * 400, "ts": range(2000)})
    stream = sq.Stream(COUNTS, strategy="prefix-tree")
    pieces = [stream.push(table.slice(start, 500)) for start in range(0, 2000, 500)]
    assert stream.stats.queries["C"].shared_with == ("D",)
    stream = sq.Stream.load(stream.save())
    pieces.append(stream.close())
    for name, result in sq.run(COUNTS, table).items():
        found = pa.concat_tables([tables[name] for tables in pieces if name in tables])
        assert found.to_pylist() == result.table.to_pylist()


def test_a_query_that_shares_can_be_removed_and_replaced() -> None:
    table = pa.table({"type": ["A", "B", "C", "D", "B"] * 40, "ts": range(200)})
    stream = sq.Stream(COUNTS, strategy="prefix-tree")
    stream.push(table)
    stream.remove("D")
    stream.replace("C", "SEQ(A a, C c) WITHIN 3 AGG COUNT(*)")
    stream.push({"type": "C", "ts": 201})
    assert stream.close()["C"].to_pylist() == [{"ts": 201, "count": 0}]


@pytest.mark.parametrize(
    ("query", "batch_takes"),
    [
        ("SEQ(A a, B b, C c, [id]) WITHIN 400 AGG COUNT(*)", "two-step"),
        ("SEQ(A a, !SEQ(B b, C c), D d) PARTITION BY id WITHIN 400", "iterative"),
    ],
)
def test_a_stream_takes_what_goes_on(query: str, batch_takes: str) -> None:
    """Over all events at once it is cheaper to build the few matches, or to look into each partition; at every step it is not."""
    again, n = "evaluated again at every step", 2000
    table = pa.table({"type": ["A", "B", "C", "D", "B"] * (n // 5), "ts": range(n), "id": [i * i % 997 for i in range(n)]})
    whole = str(sq.explain(query, table))
    assert again in whole
    assert f"taken: {batch_takes}" in whole
    stream = sq.Stream(query)
    pieces = [stream.push(table.slice(start, n // 2)) for start in (0, n // 2)]
    plan = stream.stats.queries["query"].plan
    assert "on a stream it evaluates its window again" in plan  # the reason why not the one of a batch
    assert again not in plan
    pieces.append(stream.close())
    found = pa.concat_tables([tables["query"] for tables in pieces if tables])
    assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, sq.run(query, table).table.to_pylist()))
    assert len(found) > 0


def test_a_stream_is_planned_for_windows_that_are_full() -> None:
    """Of a first push that is shorter than the window, a counter for each of its starts would be cheapest, and soon no more."""
    table = pa.table({"type": ["A", "B", "C", "D"] * 300, "ts": range(1200), "id": [i % 2 for i in range(1200)]})
    taken = {}
    for window in (10, 1_000_000):
        stream = sq.Stream(f"SEQ(A a, B b, C c, D d, A e, B f, C g, [id]) WITHIN {window} AGG COUNT(*)")
        stream.push(table)
        plan = stream.stats.queries["query"].plan
        taken[window] = next(name for name in ("per-start", "window-product") if f"taken: {name}" in plan)
    assert taken == {10: "per-start", 1_000_000: "window-product"}


def test_matches_are_shared_where_it_is_asked_for_and_stay_right() -> None:
    queries = {"ab": "SEQ(A a, B b) WITHIN 5", "abc": "SEQ(A a, B b, C c) WITHIN 5"}
    table = pa.table({"type": ["A", "B", "C", "D", "B"] * 40, "ts": range(200)})
    stream = sq.Stream(queries, strategy="bottom-up")
    pieces = []
    for start in range(0, 200, 50):
        pieces.append(stream.push(table.slice(start, 50)))
        stream = sq.Stream.load(stream.save())
    assert stream.stats.queries["ab"].shared_with == ("abc",)
    pieces.append(stream.close())
    for name, result in sq.run(queries, table).items():
        found = pa.concat_tables([tables[name] for tables in pieces if name in tables])
        assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, result.table.to_pylist()))


def test_parameters_have_values() -> None:
    above = "SEQ(A a, B b, b.id > :limit) WITHIN 10 RETURN b.id AS id"
    stream = sq.Stream({"p": above}, params={"limit": 3})
    stream.add("q", above, params={"limit": 5})
    with pytest.raises(sq.QueryError, match="no parameter :limt"):
        stream.add("r", above, params={"limt": 5})
    with pytest.raises(sq.QueryError, match="limit"):
        sq.Stream(above).push(row("A", 1))
    stream.push([row("A", 1), row("B", 2, id=4), row("B", 3, id=6)])
    stream = sq.Stream.load(stream.save())
    rest = stream.close()
    assert (rest["p"].num_rows, rest["q"].num_rows) == (1, 1)


def test_a_strategy_that_does_not_apply_is_refused() -> None:
    with pytest.raises(sq.PlanError, match="strategy 'per-start' does not apply"):
        sq.Stream(PAIRS, strategy="per-start").push(row("A", 1))


def test_limits_are_those_of_a_push_and_stop_the_stream() -> None:
    stream = sq.Stream(PAIRS, max_matches=3)
    stream.push([row("A", 1), row("A", 2)])
    stream.push([row("B", 3), row("C", 4)])
    saved = stream.save()
    with pytest.raises(sq.LimitError, match="more than 3 rows"):
        stream.push([row("B", 5), row("B", 6), row("C", 7)])
    with pytest.raises(sq.PlanError, match=r"takes nothing any more: it was stopped by an error: .*more than 3 rows.*\n.*save"):
        stream.push(row("C", 8))
    again = sq.Stream.load(saved)
    assert pairs(again.push([row("B", 5), row("C", 7)])) == [(1, 5), (2, 5)]


# ---------------------------------------------------------------- rules


def test_rules_predict_while_events_come() -> None:
    stream = sq.Stream(rules=sq.Rule("Jam -> Rain", "Crash", 5, 10, 0.5, name="wet"))
    stream.push([row("Jam", 1), row("Rain", 4)])
    stream = sq.Stream.load(stream.save())
    found = stream.push(row("Crash", 7))
    assert found["forecasts"].select(["rule", "earliest", "latest"]).to_pylist() == [{"rule": "wet", "earliest": 4, "latest": 11}]
    assert stream.close()["forecasts"].num_rows == 0


def test_the_name_of_predictions_is_taken() -> None:
    rule = sq.Rule("Jam -> Rain", "Crash", 5, 10, 0.5)
    with pytest.raises(sq.PlanError, match="'forecasts' is the name of what rules predict"):
        sq.Stream({"forecasts": PAIRS}, rules=rule)
    with pytest.raises(sq.PlanError, match="there is a query 'forecasts' already"):
        sq.Stream(rules=rule).add("forecasts", PAIRS)


# ---------------------------------------------------------------- states, threads, the end


def test_a_stream_is_loaded_as_it_was_saved() -> None:
    hierarchy = sq.Hierarchy.from_dict({"Start": ["A"]})
    stream = sq.Stream(
        {"p": "SEQ(Start a, B b) WITHIN 10 RETURN a.ts AS start, b.ts AS end"},
        hierarchy=hierarchy,
        lateness=2,
        keep="1 s",
        max_matches=9,
    )
    again = sq.Stream.load(stream.save())  # before it begins
    assert (again.queries, again.stats) == (stream.queries, stream.stats)
    for each in (stream, again):
        each.push([row("A", 1), row("B", 5), row("B", 4)])
    third = sq.Stream.load(again.save())
    one, other = (replace(each.stats.queries["p"], n_bytes=0) for each in (third, stream))
    assert one == other
    assert replace(third.stats, queries={}) == replace(stream.stats, queries={})
    assert pairs(third.close(), "p") == pairs(stream.close(), "p") == [(1, 4), (1, 5)]


@pytest.mark.parametrize("data", ["text", b"", b"1234567", seal(pa.table({"x": [1]}))])
def test_other_bytes_are_not_loaded(data: Any) -> None:
    with pytest.raises(sq.DataError, match=r"data: |this is not the state|damaged"):
        sq.Stream.load(data)


def test_a_closed_stream_takes_nothing_any_more() -> None:
    stream = sq.Stream(PAIRS)
    stream.push([row("A", 1), row("B", 2)])
    assert pairs(stream.close()) == [(1, 2)]
    calls = [
        lambda: stream.push(row("A", 3)),
        lambda: stream.advance(5),
        lambda: stream.add("p", PAIRS),
        lambda: stream.remove("query"),
        lambda: stream.replace("query", PAIRS),
        stream.save,
        stream.close,
    ]
    for call in calls:
        with pytest.raises(sq.PlanError, match=r"takes nothing any more: it was closed\n  hint: make another one"):
            call()
    assert stream.stats.events == 2


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"lateness": "soon"}, "lateness: "),
        ({"lateness": -1}, "lateness: "),
        ({"keep": "a while"}, "keep: "),
        ({"columns": {"x": "number"}}, "columns: 'number' of 'x' is no type"),
        ({"columns": 5}, "columns is a int"),
    ],
)
def test_wrong_arguments_are_named(how: dict[str, Any], said: str) -> None:
    with pytest.raises(sq.SequbeError, match=said):
        sq.Stream(PAIRS, **how)


def test_queries_are_checked_when_the_stream_is_made() -> None:
    with pytest.raises(sq.QueryError, match="there is no variable 'c'"):
        sq.Stream({"p": "SEQ(A a, B b, a.x = c.x) WITHIN 5 min"})


def test_threads_take_turns() -> None:
    stream = sq.Stream("SEQ(A a, B b) WITHIN 1000000 AGG COUNT(*) EMIT TOTAL", lateness=10_000)
    failed: list[BaseException] = []

    def work(first: int) -> None:
        try:
            for time in range(first, 400, 4):
                stream.push(row("AB"[time % 2], time))
                assert stream.stats.events <= 400
        except BaseException as error:  # noqa: BLE001
            failed.append(error)

    threads = [threading.Thread(target=work, args=[first]) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert stream.close()["query"].to_pylist() == [{"count": sum(range(1, 201))}]


def test_a_queue_is_followed_to_its_end() -> None:
    async def follow() -> list[tuple[str, list[Any]]]:
        queue: asyncio.Queue[Any] = asyncio.Queue()
        for each in ([row("A", 1), row("B", 2)], row("C", 3), row("A", 4), row("B", 5), None):
            queue.put_nowait(each)
        return [(name, pairs({name: table}, name)) async for name, table in sq.Stream({"p": PAIRS}).follow(queue)]

    assert asyncio.run(follow()) == [("p", [(1, 2)]), ("p", [(1, 5), (4, 5)])]


def test_whatever_is_for_async_for_is_followed() -> None:
    async def source() -> Any:
        yield row("A", 1)
        yield row("B", 2)

    async def follow() -> list[str]:
        return [name async for name, _ in sq.Stream(PAIRS).follow(source())]

    assert asyncio.run(follow()) == ["query"]


def test_stats_tell_how_each_query_is_doing() -> None:
    stream = sq.Stream({"p": PAIRS, "n": "SEQ(A a, B b) WITHIN 10 AGG COUNT(*)"}, lateness=1)
    stream.push([row("A", 1), row("B", 2), row("C", 4), {}])
    stats = stream.stats
    assert (stats.events, stats.late, stats.rejected, stats.waiting, stats.newest, stats.watermark) == (3, 0, 1, 1, 4, 3)
    assert (stats.queries["p"].rows, stats.queries["p"].lag, stats.queries["p"].kept) == (1, 1, 2)
    assert stats.queries["p"].n_bytes > 0
    assert "match sequence of 2" in stats.queries["p"].plan
    assert "window-product" in stats.queries["n"].plan
