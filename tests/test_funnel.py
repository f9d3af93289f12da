"""Funnels: for each key the furthest run, held against the oracle's runs and matches."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
import seqube as sq
from answers import show
from seqube.language import parse
from strategies import streams, table

VISITS = pa.table(
    {
        "user": [1, 1, 1, 2, 2, 3, 4, None],
        "type": ["view", "cart", "pay", "view", "cart", "cart", "view", "view"],
        "ts": [0, 10, 70, 0, 30, 5, 9, 9],
        "country": ["de", "de", "de", "fr", "fr", "fr", "fr", "de"],
    }
)
STEPS = ["view", "cart", "pay"]
COLUMNS = ["step", "type", "reached", "share", "of_previous", "median_seconds"]


def reached(found: Any) -> list[int]:
    numbers: list[int] = found.table.column("reached").to_pylist()
    return numbers


def test_a_funnel() -> None:
    found = sq.funnel(VISITS, STEPS, by="user", within="5 min", unit="s")
    assert found.table.column_names == COLUMNS
    assert [tuple(row.values()) for row in found.table.to_pylist()] == [
        (1, "view", 3, 1.0, 1.0, 0.0),
        (2, "cart", 2, 2 / 3, 2 / 3, 20.0),
        (3, "pay", 1, 1 / 3, 1 / 2, 70.0),
    ]
    assert str(found).splitlines()[1] == "2 cart: 2 (66.7%)"


def test_a_funnel_of_moments() -> None:
    moments = VISITS.set_column(2, "ts", VISITS.column("ts").cast(pa.timestamp("s")))
    assert sq.funnel(moments, STEPS, by="user", within="5 min").table.column("median_seconds").to_pylist() == [0.0, 20.0, 70.0]


def test_a_breakdown() -> None:
    found = sq.funnel(VISITS, STEPS, by="user", within="5 min", unit="s", breakdown="country")
    assert found.table.column_names == ["country", *COLUMNS]
    assert [tuple(row.values())[:4] for row in found.table.to_pylist()] == [
        ("de", 1, "view", 1), ("de", 2, "cart", 1), ("de", 3, "pay", 1),
        ("fr", 1, "view", 2), ("fr", 2, "cart", 1), ("fr", 3, "pay", 0),
    ]  # fmt: skip


def test_exclusions() -> None:
    assert reached(sq.funnel(VISITS, ["view", "pay"], by="user", within="5 min", unit="s")) == [3, 1]
    assert reached(sq.funnel(VISITS, ["view", "pay"], by="user", within="5 min", unit="s", without={2: "cart"})) == [3, 0]
    assert reached(
        sq.funnel(VISITS, ["view", "pay"], by="user", within="5 min", unit="s", without={2: ["x", "cart"]}, mode="any")
    ) == [3, 0]


def test_no_one_began() -> None:
    with pytest.warns(sq.SequbeWarning):
        found = sq.funnel(VISITS, ["nothing", "pay"], by="user", within="5 min", unit="s")
    assert [tuple(row.values())[2:] for row in found.table.to_pylist()] == [(0, None, None, None)] * 2


def test_a_funnel_is_drawn() -> None:
    assert sq.funnel(VISITS, STEPS, by="user", within="5 min", unit="s").plot().to_dict()["mark"]["type"] == "bar"


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"steps": []}, "a funnel needs steps"),
        ({"mode": "nxt"}, "there is no mode 'nxt'\n  hint: did you mean 'next'"),
        ({"by": []}, "a funnel is about keys"),
        ({"without": {1: "x"}}, "nothing lies between step 1 and a step before it"),
    ],
)
def test_mistakes(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(sq.PlanError) as caught:
        sq.funnel(VISITS, changed.pop("steps", STEPS), **{"by": "user", "within": "5 min", **changed})
    assert str(caught.value).startswith(message)


@given(
    steps=st.lists(st.sampled_from("ABC"), min_size=1, max_size=3),
    excluded=st.sampled_from([{}, {}, {2: "D"}, {2: "C", 3: "D"}]),
    window=st.sampled_from([2, 4, 9]),
    mode=st.sampled_from(["next", "strict", "any"]),
    events=streams(),
)
def test_any_funnel(steps: list[str], excluded: dict[int, str], window: int, mode: str, events: list[oracle.Event]) -> None:
    excluded = {step: name for step, name in excluded.items() if step <= len(steps)}

    def text(n: int) -> str:
        parts = [f"{f'!{excluded[i]} x{i}, ' if i in excluded else ''}{name} s{i}" for i, name in enumerate(steps[:n], 1)]
        word = {"next": "NEXT", "strict": "STRICT", "any": "SEQ"}[mode]
        return f"{word}({', '.join(parts)}) PARTITION BY id WITHIN {window}"

    show(text(len(steps)), events)
    far: dict[Any, int] = {}
    for n in range(1, len(steps) + 1):
        for match in oracle.matches(parse(text(n)), events):
            far[events[match["s1"]].attributes["id"]] = n  # type: ignore[index]
    if mode == "next":
        far = {}
        for run in oracle.partial_runs(parse(f"{text(len(steps))} KEEP PARTIAL"), events):
            key = events[run["s1"]].attributes["id"]
            far[key] = max(far.get(key, 0), run["reached"])
    expected = [sum(length >= n for length in far.values()) for n in range(1, len(steps) + 1)]
    given = table(events)
    assert reached(sq.funnel(given, steps, by="id", within=window, mode=mode, without=excluded)) == expected


@pytest.mark.parametrize(("argument", "columns"), [("by", {"by": "usr"}), ("breakdown", {"by": "user", "breakdown": "usr"})])
def test_a_column_that_is_not_there_is_named_by_its_argument(argument: str, columns: dict[str, str]) -> None:
    visits = pa.table({"type": ["A", "B"], "ts": [1, 2], "user": [1, 1]})
    with pytest.raises(sq.SchemaError) as refused:
        sq.funnel(visits, ["A", "B"], within="5", **columns)  # type: ignore[arg-type]
    assert str(refused.value) == f"{argument}: the events have no column 'usr'\n  hint: did you mean 'user'?"
