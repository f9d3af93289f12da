"""Forecasts: tables in the events' own time type, conditions, hierarchies, keys, streams, outcomes and quality."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import seqube as sq
from predict.oracle import predictions
from predict.streams import Stream, graph, rule_sets, streams
from seqube.engine.snapshots import seal, unseal
from seqube.errors import DataError, PlanError, QueryError, SchemaError
from seqube.events import Events, Hierarchy
from seqube.predict import Rule, Rules, forecast, forecasts
from seqube.predict.forecasts import Forecaster, find_halo
from seqube.predict.matcher import EPISODE_STRATEGIES
from seqube.predict.outcomes import COLUMNS

EIGHT = datetime.fromisoformat("2024-05-06T08:00")


def table(names: str, times: list[Any], **columns: list[Any]) -> pa.Table:
    return pa.table({"type": list(names), "ts": times, **columns})


def minutes(*after: int) -> list[datetime]:
    return [EIGHT + timedelta(minutes=m) for m in after]


TRAFFIC = table("XWXYY", minutes(0, 2, 3, 5, 7))
JAM = Rule("W, X -> Y", "Z", "10 min", "15 min", 0.8, "jam")


def test_the_table() -> None:
    found = forecast(JAM, TRAFFIC)
    assert tuple(found.table.column_names) == COLUMNS
    (row,) = found.table.to_pylist()
    start, end, latest = minutes(2, 5, 17)
    assert row == {
        "rule": "jam",
        "consequent": "Z",
        "start": start,
        "end": end,
        "earliest": end,
        "latest": latest,
        "probability": 0.8,
    }


@given(chosen=rule_sets(), stream=streams())
def test_equals_the_oracle(chosen: list[Rule], stream: Stream) -> None:
    events = pa.table({"type": pa.array(stream.names, pa.string()), "ts": pa.array(stream.times, pa.int64())})
    rows = forecast(chosen, events).table.to_pylist()
    expected = [
        (end, number, start, earliest, latest)
        for number, rule in enumerate(chosen)
        for start, end, earliest, latest in predictions(stream.pairs(), *graph(rule))
    ]
    numbers = {rule.name: number for number, rule in enumerate(chosen)}
    assert [(r["end"], numbers[r["rule"]], r["start"], r["earliest"], r["latest"]) for r in rows] == sorted(expected)


@pytest.mark.parametrize(
    ("kind", "times", "unit", "latest"),
    [
        (pa.int64(), [1, 2], "ms", 9),
        (pa.int32(), [1, 2], "ms", 9),
        (pa.float64(), [1.0, 2.0], "ms", 9.0),
        (pa.timestamp("us"), minutes(1, 2), "ms", minutes(9)[0]),
        (pa.timestamp("s"), minutes(1, 2), "ms", minutes(9)[0]),
        (pa.timestamp("ms", "UTC"), minutes(1, 2), "ms", None),
        (pa.timestamp("ns"), minutes(1, 2), "ms", None),
        (pa.date32(), [date(2024, 5, 1), date(2024, 5, 2)], "ms", date(2024, 5, 2)),
        (pa.string(), ["2024-05-06T08:01:00", "2024-05-06T08:02:00"], "ms", minutes(9)[0]),
    ],
)
def test_times_keep_their_type(kind: pa.DataType, times: list[Any], unit: str, latest: Any) -> None:
    events = pa.table({"type": ["A", "B"], "ts": pa.array(times, kind)})
    length: int | str = 8 if unit == "ms" and not isinstance(times[0], (datetime, date, str)) else "8 min"
    found = forecast(Rule("A", "B", length, length, 0.5), events, unit=unit).table
    expected = pa.timestamp("us") if pa.types.is_string(kind) else kind
    assert {found.schema.field(name).type for name in ("start", "end", "earliest", "latest")} == {expected}
    if latest is not None:
        assert found["latest"][0].as_py() == latest


def test_a_narrow_time_column_does_not_overflow() -> None:
    events = pa.table({"type": ["A"], "ts": pa.array([120], pa.int8())})
    assert forecast(Rule("A", "B", 5, 100, 0.5), events).table["latest"].to_pylist() == [220]


def test_conditions() -> None:
    events = table("SSSC", [1, 2, 3, 4], flow=[50, 10, 60, 0], site=["a", "a", None, "a"])
    rule = Rule("S WHERE flow > 40 AND site = 'a' -> C", "S WHERE flow < 20", 10, 20, 0.5)
    assert forecast(rule, events).table.to_pylist()[0]["start"] == 1
    with pytest.raises(QueryError, match=r"rule 'typo': (.|\n)*'flw'"):
        forecast(Rule("S WHERE flw > 40", "C", 1, 2, 0.5, "typo"), events)


def test_one_event_may_fill_two_unordered_conditions() -> None:
    events = table("S", [1], flow=[50], occupancy=[30])
    rule = Rule("S WHERE flow > 40, S WHERE occupancy > 20", "C", 10, 20, 0.5)
    assert [(r["start"], r["end"]) for r in forecast(rule, events).table.to_pylist()] == [(1, 1)]


def test_hierarchy_names_are_events() -> None:
    tree = Hierarchy.from_dict({"Computer": ["DELL", "INTC"], "Finance": ["QQQ"]})
    events = pa.table({"type": ["DELL", "QQQ", "INTC", "QQQ"], "ts": [1, 2, 3, 4]})
    found = forecast(Rule("Computer -> Finance", "DELL", 5, 9, 0.5), events, hierarchy=tree)
    assert [(r["start"], r["end"]) for r in found.table.to_pylist()] == [(1, 2), (3, 4)]
    assert forecast(Rule("Computer -> DELL", "DELL", 5, 9, 0.5), events, hierarchy=tree).table.num_rows == 0
    with pytest.raises(QueryError, match="rule 'twice': 'Computer' and 'DELL' are not distinct"):
        forecast(Rule("Computer, DELL -> QQQ", "INTC", 5, 9, 0.5, "twice"), events, hierarchy=tree)


def test_keys_are_streams_of_their_own() -> None:
    events = table("AABBA", [1, 2, 3, 4, 5], id=["x", "y", "y", None, "x"], ward=[1, 1, 1, 1, 1])
    rules = Rules([Rule("A -> B", "A", 9, 20, 0.5, "keyed", "id"), Rule("A -> B", "A", 9, 20, 0.5, "open")])
    rows = forecast(rules, events).table.to_pylist()
    assert [(r["rule"], r["start"], r["end"], r["id"]) for r in rows] == [("keyed", 2, 3, "y"), ("open", 2, 3, None)]
    found = forecast(Rule("A -> B", "A", 9, 20, 0.5, "keyed", "start"), events.rename_columns(["type", "ts", "start", "ward"]))
    assert found.outcomes["start_key"].to_pylist() == ["y"]
    with pytest.raises(SchemaError, match="rule 'keyed': there is no column 'ward2'"):
        forecast(Rule("A", "B", 1, 2, 0.5, "keyed", "ward2"), events)


@given(chosen=rule_sets(), stream=streams(12), data=st.data())
def test_a_stream_gives_what_the_whole_gives(chosen: list[Rule], stream: Stream, data: st.DataObject) -> None:
    keyed = [
        Rule(rule.predicate, rule.consequent.text, rule.within, rule.horizon, 0.5, rule.name + "k", ["id", "name"])
        for rule in chosen
    ]
    events = Events(
        pa.table(
            {
                "type": pa.array(stream.names, pa.string()),
                "ts": pa.array(stream.times, pa.int64()),
                "id": pa.array(stream.keys, pa.int32()),
                "name": pa.array(["x" if k % 3 else None for k in range(len(stream.names))], pa.string()),
            }
        )
    )
    rules = Rules([*chosen, *keyed])
    whole = forecast(rules, events).table
    cuts = sorted(data.draw(st.lists(st.integers(0, len(events)), max_size=4)))
    pieces = []
    forecaster = Forecaster(rules, events.schema, None, data.draw(st.sampled_from(sorted(EPISODE_STRATEGIES))))
    state = forecaster.start()
    for low, high in zip([0, *cuts], [*cuts, len(events)], strict=True):
        if data.draw(st.booleans()):
            forecaster = Forecaster(rules, events.schema, None, data.draw(st.sampled_from(sorted(EPISODE_STRATEGIES))))
            state = forecaster.restore(state.to_bytes())
        state, piece = forecaster.step(state, events.slice(low, high))
        pieces.append(piece)
        if data.draw(st.booleans()) and (when := forecaster.wake(state)) is not None and high < len(events):
            state, piece = forecaster.step(state, None, min(when, int(events.times[high])))
            pieces.append(piece)
    state, piece = forecaster.finish(state)
    assert pa.concat_tables([*pieces, piece]).to_pylist() == whole.to_pylist()


def test_keys_that_nothing_needs_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forecasts, "MOST_KEYS", 10)
    n = 400
    events = Events(pa.table({"type": ["A", "B"] * (n // 2), "ts": list(range(n)), "car": [f"car {k // 4}" for k in range(n)]}))
    rules = Rules([Rule("A -> B", "C", 20, 30, 0.5, "k", "car")])
    forecaster = Forecaster(rules, events.schema)
    state, found = forecaster.start(), []
    for low in range(0, n, 8):
        state, piece = forecaster.step(state, events.slice(low, low + 8))
        found.append(piece)
        assert len(state.watched[0].keys) < 40
    found.append(forecaster.finish(state)[1])
    assert pa.concat_tables(found).to_pylist() == forecast(rules, events).table.to_pylist()


@given(chosen=rule_sets(), stream=streams(20), data=st.data())
def test_a_forecast_resumes_from_the_events_of_a_window(chosen: list[Rule], stream: Stream, data: st.DataObject) -> None:
    events = Events(pa.table({"type": pa.array(stream.names, pa.string()), "ts": pa.array(stream.times, pa.int64())}))
    decided = data.draw(st.integers(-1, 30))
    kept = events.take(np.flatnonzero(events.times > decided - find_halo(Rules(chosen), "ms")))
    forecaster = Forecaster(Rules(chosen), events.schema)
    _, rest = forecaster.finish(forecaster.resume(kept, decided, decided, decided))
    assert rest is not None
    expected = [row for row in forecast(chosen, events).table.to_pylist() if row["end"] > decided]
    assert rest.to_pylist() == expected


def test_a_state_of_other_rules_or_another_version_is_refused() -> None:
    one, keyed = Rule("Jam", "Crash", 5, 10, 0.5), Rule("Jam", "Crash", 5, 10, 0.5, "k", "car")
    events = Events(pa.table({"type": ["Jam"], "ts": [1], "car": [7]}))
    forecaster = Forecaster(Rules([one]), events.schema)
    state, _ = forecaster.step(forecaster.start(), events)
    data = state.to_bytes()
    with pytest.raises(DataError, match="state of other rules"):
        Forecaster(Rules([one, keyed]), events.schema).restore(data)
    about, *rest = unseal(data)
    newer = about.set_column(0, "version", pa.array([forecasts.FORECAST_LAYOUT + 1]))
    with pytest.raises(DataError, match=f"version {forecasts.FORECAST_LAYOUT + 1}"):
        forecaster.restore(seal(newer, *rest))


@given(chosen=rule_sets(), stream=streams(20), cut=st.integers(0, 20))
def test_slices_of_time_with_a_halo_give_the_whole(chosen: list[Rule], stream: Stream, cut: int) -> None:
    events = pa.table({"type": pa.array(stream.names, pa.string()), "ts": pa.array(stream.times, pa.int64())})
    halo = find_halo(Rules(chosen), "ms")
    before = events.filter(pa.array([t < cut for t in stream.times], pa.bool_()))
    after = events.filter(pa.array([t >= cut - halo for t in stream.times], pa.bool_()))
    rows = forecast(chosen, before).table.to_pylist()
    rows += [row for row in forecast(chosen, after).table.to_pylist() if row["end"] >= cut]
    assert rows == forecast(chosen, events).table.to_pylist()


# ---------------------------------------------------------------- how they turned out


def test_outcomes() -> None:
    # A1 hit by B3; A10 ends in a miss (B15 is exactly at latest); A20 is hit early; A24 is open.
    events = table("ABABABA", [1, 3, 10, 15, 20, 21, 24])
    found = forecast(Rule("A", "B", 0, 5, 0.9, "r"), events)
    rows = found.outcomes.to_pylist()
    assert [(r["end"], r["outcome"], r["occurred"], r["lead"], r["closed"]) for r in rows] == [
        (1, "hit", 3, 2, True),
        (10, "miss", None, None, True),
        (20, "hit", 21, 1, True),
        (24, "open", None, None, False),
    ]
    (quality,) = found.quality.to_pylist()
    assert {key: quality[key] for key in ("rule", "predictions", "hits", "misses", "open", "probability", "mean_lead")} == {
        "rule": "r",
        "predictions": 4,
        "hits": 2,
        "misses": 1,
        "open": 1,
        "probability": 0.9,
        "mean_lead": 1.5,
    }
    assert quality["precision"] == quality["observed_rate"] == pytest.approx(2 / 3)
    assert quality["difference"] == pytest.approx(2 / 3 - 0.9)
    assert quality["observed_low"] < 2 / 3 < quality["observed_high"]


def test_a_hit_known_early_does_not_count_as_a_rate() -> None:
    found = forecast(Rule("A", "B", 0, 50, 0.9, "r"), table("AB", [1, 3]))
    (quality,) = found.quality.to_pylist()
    assert (quality["hits"], quality["precision"], quality["observed_rate"]) == (1, 1.0, None)


@given(chosen=rule_sets(), stream=streams(16))
def test_outcomes_equal_a_plain_search(chosen: list[Rule], stream: Stream) -> None:
    keyed = [Rule(rule.predicate, rule.consequent.text, rule.within, rule.horizon, 0.5, rule.name + "k", "id") for rule in chosen]
    events = pa.table(
        {
            "type": pa.array(stream.names, pa.string()),
            "ts": pa.array(stream.times, pa.int64()),
            "id": pa.array(stream.keys, pa.int64()),
        }
    )
    for row in forecast([*chosen, *keyed], events).outcomes.to_pylist():
        candidates = [
            time
            for name, time, key in zip(stream.names, stream.times, stream.keys, strict=True)
            if name == row["consequent"] and row["earliest"] < time < row["latest"] and row["id"] in (None, key)
        ]
        past = row["latest"] <= stream.times[-1] + 1
        assert row["outcome"] == ("hit" if candidates else "miss" if past else "open")
        assert row["occurred"] == (min(candidates) if candidates else None)


def test_lead_times_of_timestamps_are_durations() -> None:
    found = forecast(JAM, pa.concat_tables([TRAFFIC, table("Z", minutes(9))]))
    assert found.outcomes["lead"].to_pylist() == [timedelta(minutes=4)]
    assert found.quality["mean_lead"].to_pylist() == [timedelta(minutes=4)]


def test_plot_and_looks() -> None:
    found = forecast([JAM, Rule("Q", "R", 1, 2, 0.5, "<b>")], pa.concat_tables([TRAFFIC, table("Z", minutes(30))]))
    chart = found.plot().to_dict()
    assert len(chart["layer"]) == 3
    assert found.unseen == ("Q", "R")
    assert "no event has the type 'Q', 'R'" in repr(found)
    assert "<table>" in found._repr_html_()
    assert len(found) == len(found.to_pandas()) == found.to_polars().height == 1


# ---------------------------------------------------------------- the door


def test_progress_is_told_and_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = forecast(JAM, TRAFFIC).table
    monkeypatch.setattr("seqube.predict.forecasts.FIRST_STEP", 2)
    monkeypatch.setattr("seqube.predict.forecasts.STEP_SECONDS", 0.0)
    told: list[tuple[int, int]] = []
    assert forecast(JAM, TRAFFIC, progress=lambda done, total: told.append((done, total))).table.equals(whole)
    assert told == [(2, 5), (3, 5), (4, 5), (5, 5)]


def test_rules_from_anywhere(tmp_path: Path) -> None:
    rules = Rules([JAM])
    rules.save(tmp_path / "rules.yaml")
    for given_rules in (JAM, [JAM], rules.to_dict(), tmp_path / "rules.yaml", str(tmp_path / "rules.yaml")):
        assert forecast(given_rules, TRAFFIC).table.num_rows == 1


def test_no_events_and_no_rules() -> None:
    empty = TRAFFIC.slice(0, 0)
    assert forecast(JAM, empty).table.schema == forecast(JAM, TRAFFIC).table.schema
    assert forecast(JAM, empty).quality["predictions"].to_pylist() == [0]
    assert len(forecast([], TRAFFIC).outcomes) == 0


def test_strategies() -> None:
    tables = [forecast(JAM, TRAFFIC, strategy=name).table for name in ("auto", *EPISODE_STRATEGIES)]
    assert all(one.equals(tables[0]) for one in tables)
    with pytest.raises(PlanError, match="unknown strategy 'magic'"):
        forecast(JAM, TRAFFIC, strategy="magic")


# ---------------------------------------------------------------- one key


CASES = pa.table(
    {"case": ["x", "y", "x", "y", "x"], "type": ["A", "A", "B", "B", "D"], "ts": [0, 5, 10, 15, 20], "n": [1, 2, 1, 2, 1]}
)
NEXT = [
    sq.Rule("A -> B", "C", 20, 40, 0.7, partition_by="case"),
    sq.Rule("B", "C", 20, 40, 0.9, partition_by="case"),
    sq.Rule("B", "D", 20, 40, 0.4, partition_by="case"),
]


def test_what_comes_next_for_one_key() -> None:
    """The events of a key alone, up to the last of them; of several rules for one consequent the most certain speaks."""
    expected = sq.forecast(NEXT, CASES, key="y").expected.to_pylist()
    assert [(row["consequent"], row["probability"], row["earliest"], row["latest"]) for row in expected] == [
        ("C", 0.9, 15, 55),
        ("D", 0.4, 15, 55),
    ]
    assert {row["case"] for row in expected} == {"y"}
    assert [row["consequent"] for row in sq.forecast(NEXT, CASES, key="x").expected.to_pylist()] == ["C"]  # D has come
    whole = sq.forecast(NEXT, CASES).expected.to_pylist()
    assert [(row["case"], row["consequent"]) for row in whole] == [("x", "C"), ("y", "C"), ("y", "D")]


@pytest.mark.parametrize(
    ("rules", "key", "message"),
    [
        (NEXT, "z", "no event has case 'z'"),
        (NEXT, {"ward": 1}, "these rules have the columns case"),
        (sq.Rule("A", "B", 5, 9, 1, partition_by="n"), "many", "'many' cannot be a value of 'n', which holds int64"),
        (sq.Rule("A", "B", 5, 9, 1), "x", "rules that all have the same partition_by"),
        (sq.Rule("A", "B", 5, 9, 1, partition_by="ward"), "x", "there is no column 'ward'"),
    ],
)
def test_a_key_that_is_none_is_named(rules: Any, key: Any, message: str) -> None:
    with pytest.raises(sq.SequbeError, match=message):
        sq.forecast(rules, CASES, key=key)
