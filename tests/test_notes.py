"""What a person is told when an answer may not be what was meant: in Python and, on the command line, as a note."""

from __future__ import annotations

import pickle
from typing import Any

import pyarrow as pa
import pytest

import seqube as sq
from seqube.errors import SequbeWarning

DAY = 1_700_000_000  # in November 2023


def events(*rows: tuple[str, int], **columns: list[Any]) -> pa.Table:
    return pa.table({"type": [row[0] for row in rows], "ts": [row[1] for row in rows], **columns})


LOGINS = events(("LOGIN_FAIL", 1), ("LOGIN", 2), ("DEPARTED_NO_ARRIVAL", 3))


def notes(query: str, table: pa.Table | sq.Events, **more: Any) -> tuple[str, ...]:
    return sq.run(query, table, **more).notes


# ---------------------------------------------------------------- types


@pytest.mark.parametrize(
    ("name", "near"),
    [("LOGIN_OK", "'LOGIN', 'LOGIN_FAIL'"), ("DEPARTED", "'DEPARTED_NO_ARRIVAL'"), ("Refund", "there are 'DEPARTED_NO_ARRIVAL'")],
)
def test_a_type_that_no_event_has(name: str, near: str) -> None:
    with pytest.warns(SequbeWarning, match=f"no event is of the type '{name}'") as said:
        result = sq.run(f"SEQ(LOGIN l, {name} x) WITHIN 5", LOGINS)
    assert len(said) == 1
    assert said[0].filename == __file__
    assert near in result.notes[0]
    assert f"note: {result.notes[0]}" in repr(result)
    assert pickle.loads(pickle.dumps(result)).notes == result.notes


def test_types_that_are_there_or_in_a_hierarchy_are_quiet() -> None:
    assert notes("SEQ(LOGIN l, LOGIN_FAIL f) WITHIN 5", LOGINS) == ()
    concepts = sq.Hierarchy.from_dict({"Access": ["LOGIN", "LOGIN_OK"]})
    assert notes("SEQ(Access a, LOGIN_OK o) WITHIN 5", LOGINS, hierarchy=concepts) == ()


def test_no_events_at_all_is_one_note() -> None:
    assert notes("SEQ(A a, B b) WITHIN 5", LOGINS.slice(0, 0)) == ("there are no events",)


def test_rows_that_are_all_rejected_say_why() -> None:
    days = pa.table({"type": ["A", "B"], "ts": ["31.01.2026", "01.02.2026"]})
    with pytest.warns(
        SequbeWarning, match=r"no events: all 2 rows were rejected \(2 time is not a timestamp\); times as text are ISO"
    ):
        sq.run("SEQ(A a, B b) WITHIN 5", days)
    with pytest.warns(SequbeWarning, match=r"all 1 rows were rejected \(1 time is not a whole number\)$"):
        sq.run("A a WITHIN 5", pa.table({"type": ["A"], "ts": [1.5]}))


def test_a_workload_says_a_thing_once_and_keeps_it_with_each_query() -> None:
    with pytest.warns(SequbeWarning) as said:
        found = sq.run({"a": "X x WITHIN 5", "b": "SEQ(LOGIN l, X x) WITHIN 5", "c": "LOGIN l WITHIN 5"}, LOGINS)
    assert len(said) == 1
    assert [len(found[name].notes) for name in "abc"] == [1, 1, 0]


# ---------------------------------------------------------------- rows that overlap


def test_emit_every_shorter_than_the_window() -> None:
    query = "SEQ(LOGIN_FAIL f, LOGIN l) WITHIN 10 ms AGG COUNT(*) EMIT EVERY {} ms"
    assert "the windows overlap" in notes(query.format(5), LOGINS)[0]
    assert notes(query.format(10), LOGINS) == ()


# ---------------------------------------------------------------- repetitions that take too much


def test_a_repetition_that_takes_what_comes_after_it() -> None:
    steps = events(("R", 1), ("W", 2), ("O", 3), id=[1, 1, 1])
    greedy = sq.run("NEXT(R r, ANY+ x, !S s, O o, [id]) WITHIN 10", steps)
    assert len(greedy) == 0
    assert "ANY+ takes every O event too" in greedy.notes[-1]
    assert greedy.notes[-1].endswith("ANY+? moves on as soon as one comes")
    assert len(sq.run("NEXT(R r, ANY+? x, O o, [id]) WITHIN 10", steps)) == 1  # what the note says works
    assert "W* takes every W event" in notes("NEXT(R r, W* x, W o) WITHIN 10", steps)[0]
    concepts = sq.Hierarchy.from_dict({"Care": ["W", "O"]})
    assert "Care+ takes every O event" in notes("NEXT(R r, Care+ x, O o) WITHIN 10", steps, hierarchy=concepts)[0]
    quiet = ("NEXT(R r, W+ x, O o)", "NEXT(R r, ANY{1,2} x, O o)", "SEQ(R r, ANY+ x, O o)", "NEXT(R r, ANY+ x, O o, x.type != 'O')")
    assert [notes(f"{query} WITHIN 10", steps) for query in quiet] == [()] * 4


# ---------------------------------------------------------------- ties


def test_the_next_one_by_negation_where_events_share_a_time() -> None:
    tied = events(("A", 1), ("B", 2), ("B", 2), ("B", 5), id=[1, 1, 2, 1])
    next_b = "SEQ(A a, !B x, B b) WITHIN 10"
    assert "66.7% of the B events" in notes(next_b, tied)[0]
    assert notes("SEQ(A a, !B x, B b, [id]) WITHIN 10", tied) == ()  # no two of one id have the same time
    assert notes(f"{next_b.replace('WITHIN', 'PARTITION BY id WITHIN')}", tied) == ()
    assert notes("SEQ(A a, B b) WITHIN 10", tied) == ()
    # ORDER BY is the way out, and says so itself; then the first of them is the next.
    assert notes(next_b, tied)[0].endswith("ORDER BY a column that says which came first")
    ordered = sq.run(f"{next_b} ORDER BY id", tied)
    assert (len(ordered), ordered.notes) == (1, ())
    assert notes(next_b, sq.Events(tied, order="id")) == ()
    assert notes(next_b, tied.slice(0, 2)) == ()


# ---------------------------------------------------------------- times


@pytest.mark.parametrize(
    ("factor", "unit", "meant"), [(1, "ms", "s"), (10**6, "ms", "us"), (10**9, "ms", "ns"), (1000, "s", "ms"), (1000, "us", "ms")]
)
def test_integer_times_of_another_unit(factor: int, unit: str, meant: str) -> None:
    table = events(("A", DAY * factor), ("B", (DAY + 86_400) * factor))
    with pytest.warns(SequbeWarning, match=f'2023-11-14 to 2023-11-15; perhaps unit="{meant}" is meant') as said:
        stream = sq.Events(table, unit=unit)
    assert len(said) == 1
    assert sq.run("SEQ(A a, B b) WITHIN 5", stream).notes == stream.notes


@pytest.mark.parametrize("times", [[0, 5], [0, DAY], [DAY * 1000, DAY * 1000 + 5], [-5, 10**18], [10**8, 2 * 10**8]])
def test_times_that_may_well_be_meant_are_quiet(times: list[int]) -> None:
    assert sq.Events(pa.table({"type": ["A", "A"], "ts": times})).notes == ()


def test_timestamps_have_their_own_unit() -> None:
    assert sq.Events(pa.table({"type": ["A"], "ts": pa.array([DAY], pa.timestamp("us"))})).notes == ()
