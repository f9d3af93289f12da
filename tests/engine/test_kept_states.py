"""States that this version wrote are read for ever, or refused by version: the bytes lie in `states`, one file for each kind.

What is written there is never written again; `SEQUBE_STATES=write` adds the files of kinds that are new.
"""

from __future__ import annotations

import os
from typing import Any

import pyarrow as pa
import pytest

import seqube as sq
from engine.kept_states import COUNTED, KINDS, STATES, WORKLOADS, opened, opened_together, stream
from seqube.engine.operator import Operator


def kept_bytes(kind: str, written: bytes) -> bytes:
    """What was written once, by the first version that knew this kind; `written` where that is this one."""
    path = STATES / f"{kind.replace(' ', '-')}.arrow"
    if os.environ.get("SEQUBE_STATES") == "write" and not path.exists():
        path.write_bytes(written)
    return path.read_bytes()


def rest(operator: Operator[Any, pa.Table], state: Any) -> list[dict[str, Any]]:
    """What comes after the cut."""
    events = stream()
    state, found = operator.step(state, events.slice(6, len(events)))
    last = operator.finish(state)[1]
    assert found is not None
    assert last is not None
    rows: list[dict[str, Any]] = pa.concat_tables([found, last]).to_pylist()
    return rows


@pytest.mark.parametrize("kind", KINDS)
def test_a_state_that_was_kept_goes_on(kind: str) -> None:
    operator = opened(kind)
    state, found = operator.step(operator.start(), stream().slice(0, 6))
    assert found is not None
    before, after = found.to_pylist(), rest(operator, opened(kind).restore(kept_bytes(kind, state.to_bytes())))
    assert after
    key = str
    assert sorted(before + after, key=key) == sorted(operator.run(stream()).to_pylist(), key=key)


@pytest.mark.parametrize("kind", WORKLOADS)
def test_a_state_of_a_workload_that_was_kept_goes_on(kind: str) -> None:
    operator, events = opened_together(kind), stream()
    state, before = operator.step(operator.start(), events.slice(0, 6))
    other = opened_together(kind)
    state, after = other.step(other.restore(kept_bytes(kind, state.to_bytes())), events.slice(6, len(events)))
    last = other.finish(state)[1]
    for name, expected in operator.run(events).items():
        rows = [row for found in (before, after, last) if found is not None for row in found[name].to_pylist()]
        assert expected.num_rows
        assert sorted(rows, key=str) == sorted(expected.to_pylist(), key=str), name


RULES = sq.Rules([sq.Rule("A -> B", "C", 4, 9, 0.5, name="serial")])


def pushed(live: sq.Stream, begin: int, end: int) -> list[Any]:
    found = live.push(stream().table.slice(begin, end - begin))
    return [(name, row) for name, table in found.items() for row in table.to_pylist()]


def test_a_stream_that_was_saved_goes_on() -> None:
    """With events that wait for the watermark, states of operators, rules, and a query that was added."""
    queries = {name: KINDS[name] for name in ("keyed", "waiting", "products", "views")} | COUNTED
    live = sq.Stream(queries, rules=RULES, lateness=2, strategy="auto")
    before = pushed(live, 0, 4)
    live.add("more", KINDS["negated"])
    before += pushed(live, 4, 6)
    loaded = sq.Stream.load(kept_bytes("stream", live.save()))
    assert loaded.queries == live.queries
    ends = []
    for each in (live, loaded):
        rows = pushed(each, 6, 10)
        ends.append(rows + [(name, row) for name, table in each.close().items() for row in table.to_pylist()])
    assert ends[0]
    assert sorted(ends[0], key=str) == sorted(ends[1], key=str)


@pytest.mark.parametrize("taker", ["keyed", "events", "thinned out", "products", "counters of lists", "replayed buckets"])
def test_a_state_of_another_query_is_never_a_crash(taker: str) -> None:
    """Those that have the same parts are told apart by who keeps them; all others are refused with what to do."""
    refused = []
    for kind in set(KINDS) - {taker}:
        try:
            opened(taker).restore((STATES / f"{kind.replace(' ', '-')}.arrow").read_bytes())
        except sq.DataError as error:
            refused.append(str(error))
    assert len(refused) >= len(KINDS) // 3
    assert all("the state of another query" in each and "go on with the query that it was written for" in each for each in refused)


def test_a_state_of_other_queries_together_is_refused() -> None:
    for taker in WORKLOADS:
        with pytest.raises(sq.DataError):
            opened_together(taker).restore((STATES / "keyed.arrow").read_bytes())
