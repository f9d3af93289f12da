"""The one door of the engine: what every operator promises, whatever plan it holds."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

import seqube as sq
from seqube.engine.operator import Operator, open_plan
from seqube.engine.snapshots import VERSION, seal, unseal
from seqube.query import prepare

QUERIES = {
    "matches": "SEQ(A a, B b) WITHIN 10",
    "waiting": "SEQ(A a, !B b) WITHIN 10",
    "counted": "SEQ(A a, B b) WITHIN 3 EVENTS",
    "trigger": "SEQ(A a, B b) WITHIN 10 AGG COUNT(*)",
    "every": "SEQ(A a, B b) WITHIN 10 AGG COUNT(*) EMIT EVERY 5",
    "per": "SEQ(A a, B b) WITHIN 10 AGG COUNT(*) EMIT PER 5",
    "total": "SEQ(A a, B b) WITHIN 10 AGG COUNT(*) EMIT TOTAL",
}


def events(text: str) -> sq.Events:
    rows = [(name[0], int(name[1:])) for name in text.split()]
    return sq.Events(
        pa.table({"type": pa.array([t for t, _ in rows], pa.string()), "ts": pa.array([t for _, t in rows], pa.int64())})
    )


def opened(name: str) -> Operator[Any, pa.Table]:
    return open_plan(prepare(QUERIES[name], None))


@pytest.mark.parametrize("name", QUERIES)
def test_a_stream_that_never_began_has_nothing_to_say(name: str) -> None:
    operator = opened(name)
    assert operator.step(operator.start(), None, watermark=5)[1] is None
    assert operator.finish(operator.start())[1] is None
    assert operator.wake(operator.start()) is None


@pytest.mark.parametrize("name", QUERIES)
def test_an_event_before_what_was_decided_is_refused(name: str) -> None:
    operator = opened(name)
    state, _ = operator.step(operator.start(), events("A1 B5"), watermark=8)
    with pytest.raises(sq.DataError, match="an event at 7 comes after the stream was decided up to 7"):
        operator.step(state, events("A7"))


@pytest.mark.parametrize("name", QUERIES)
def test_time_may_pass_without_events(name: str) -> None:
    operator = opened(name)
    whole = operator.run(events("A1 B5"))
    state, first = operator.step(operator.start(), events("A1 B5"))
    state, second = operator.step(state, None, watermark=100)
    last = operator.finish(operator.restore(state.to_bytes()))[1]
    assert sum(table.num_rows for table in (first, second, last) if table is not None) == whole.num_rows


def test_what_waits_says_when_it_will_be_known() -> None:
    operator = opened("waiting")
    state, rows = operator.step(operator.start(), events("A1 A4"))
    assert (operator.wake(state), rows.num_rows) == (11, 0)
    state, rows = operator.step(state, None, watermark=11)
    assert (operator.wake(state), rows.num_rows) == (14, 1)
    state, rows = operator.step(state, None, watermark=14)
    assert (operator.wake(state), rows.num_rows) == (None, 1)


def test_reports_on_time_alone_say_when_they_are_due() -> None:
    operator = opened("every")
    state, rows = operator.step(operator.start(), events("A1 B7"))
    assert (operator.wake(state), rows.to_pylist()) == (11, [{"ts": 5, "count": 0}])
    state, rows = operator.step(state, None, watermark=11)
    assert (operator.wake(state), rows.to_pylist()) == (None, [{"ts": 10, "count": 1}])


@pytest.mark.parametrize("name", QUERIES)
def test_a_state_of_another_version_is_refused(name: str) -> None:
    operator = opened(name)
    table, beside = unseal(operator.step(operator.start(), events("A1 B5"))[0].to_bytes())
    about = json.loads(table.schema.metadata[b"seqube"])
    assert about["version"] == VERSION
    newer = table.replace_schema_metadata({b"seqube": json.dumps({**about, "version": VERSION + 1}).encode()})
    with pytest.raises(sq.DataError, match=f"written in version {VERSION + 1} of its layout"):
        operator.restore(seal(newer, beside))


def test_a_kind_of_plan_that_nobody_knows_is_refused() -> None:
    with pytest.raises(AssertionError, match="Unheard"):
        open_plan("Unheard of")  # type: ignore[arg-type]
