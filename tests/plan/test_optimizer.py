"""One place decides: strategies apply where they say so and are refused by name elsewhere, and run does what explain tells."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import seqube as sq
from seqube.generate import generate, hierarchy
from seqube.language import parse
from seqube.plan import chase, sharing, strategies
from seqube.plan.aggregates import AggregatePlan, chain_of, plan_aggregates
from seqube.plan.explain import explain_workload
from seqube.plan.measured import Measurements
from seqube.plan.optimizer import ALONE, expected_seconds, optimize, undecided
from seqube.plan.physical import MatchPlan, Option, milliseconds
from seqube.plan.sharing import MOST_STARTS
from seqube.query import plan, prepare

EVENTS = sq.Events(generate("stock", 4_000, seed=1))
CONCEPTS = sq.Hierarchy.from_dict(hierarchy("stock") or {})
MEASURED = Measurements(EVENTS.statistics, EVENTS.unit, EVENTS.distinct)

YEARS = 1e9  # seconds
PAIR = "SEQ(DELL a, IPIX b) WITHIN 200 ms"
COUNT = "SEQ(DELL a, IPIX b) WITHIN 200 ms AGG COUNT(*)"
LONGER = "SEQ(DELL a, IPIX b, AMAT c) WITHIN 200 ms AGG COUNT(*)"
UNSHAREABLE = {
    "leading": (
        "SEQ(!MSFT x, DELL a, IPIX b) WITHIN 200 ms AGG COUNT(*)",
        "it begins with a negation, which looks back from the end of every match",
    ),
    "grouped": ("SEQ(DELL a, IPIX b) WITHIN 200 ms GROUP BY a.volume AGG COUNT(*)", "it counts by groups of more than its key"),
    "spread": (
        "SEQ(DELL a, IPIX b) WITHIN 200 ms AGG STDDEV(a.volume)",
        "it asks for more than counts, sums and extremes: SQUARES of a.volume",
    ),
    "repeated": ("SEQ(DELL a, IPIX+ b) WITHIN 20 ms AGG COUNT(*)", "it has repeated parts"),
}


# ---------------------------------------------------------------- the table


def test_every_strategy_is_a_row_of_the_table() -> None:
    assert strategies.names("matches") == ("iterative", "aggressive", "passive", "balanced", "latest-start")
    assert strategies.names("aggregates") == ("two-step", "per-start", "window-product")
    assert strategies.names("shared matches") == ("independent", "top-down", "bottom-up", "chase") == tuple(chase.DIRECTIONS)
    assert strategies.names("shared counts") == ("independent", "prefix-tree", "pre-tree", "chop-connect", "exhaustive")
    assert len(strategies.names()) == len(set(strategies.names())) == 16


def test_the_list_of_algorithms_has_every_strategy_with_its_paper() -> None:
    page = Path(__file__).resolve().parent.parent.parent / "docs" / "algorithms" / "index.md"
    for row in strategies.STRATEGIES:
        lines = [line for line in page.read_text(encoding="utf-8").splitlines() if f"`{row.name}`" in line]
        assert any(row.paper is None or row.paper in line for line in lines), row.name


def test_costs_are_seconds_everywhere() -> None:
    workload = {"nested": "SEQ(DELL a, !SEQ(MSFT x, INTC y), IPIX b) WITHIN 200 ms", "pair": PAIR, "count": COUNT, "longer": LONGER}
    for query in (workload, *workload.values()):
        told = [line for line in str(sq.explain(query, EVENTS)).splitlines() if "taken: " in line or "rejected: " in line]
        assert told
        assert all(re.search(r"about [\d,.]+ ms(,|$)", line) for line in told), told


def test_an_option_says_what_it_costs_or_why_not() -> None:
    assert str(Option("chase", 0.25, is_taken=True)) == "taken: chase, about 250.0 ms"
    assert str(Option("chase", 2.5e-6)) == "rejected: chase, about 0.003 ms"
    assert str(Option("per-start", reason="the pattern is not a SEQ")) == "rejected: per-start, the pattern is not a SEQ"
    assert milliseconds(-12.5) == "-12,500.0 ms"


@pytest.mark.parametrize(
    ("query", "seconds"),
    [
        ("SEQ(A a, B+ b, C c) WITHIN 1000", YEARS),
        ("SEQ(A a, B{2,400} b, C c) WITHIN 1000", YEARS),
        ("SEQ(A a, B{400} b, C c) PARTITION BY id WITHIN 1000", 1.0),  # no partition has so many
        ("SEQ(A a, B+ b, C c) PARTITION BY id WITHIN 1000", 1.0),
        ("SEQ(A a, B+ b, C c, [id]) WITHIN 1000", 1.0),
        ("SEQ(A a, B+ b, C c) PARTITION BY id WITHIN 20 EVENTS", 1.0),
        ("SEQ(A a, !B b, C c) WITHIN 2000", 0.01),  # there is a B soon
        ("SEQ(A a, C c) WITHIN 2000", 0.1),
    ],
)
def test_what_is_expected_follows_keys_partitions_and_negations(query: str, seconds: float) -> None:
    """Of 2,000 events of three types and 400 ids."""
    n = 2_000
    events = sq.Events(pa.table({"type": ["A", "B", "C", "B"] * (n // 4), "ts": range(n), "id": [i % 400 for i in range(n)]}))
    expected = expected_seconds(prepare(query, events))
    assert expected > YEARS / 10 if seconds == YEARS else 0 < expected < seconds


def test_events_that_come_together_are_not_spread_over_the_time_between() -> None:
    """Fifty bursts: building all combinations of each would take hours, though a window holds next to nothing on average."""
    times = np.concatenate([np.arange(1_200) + 10_000_000 * burst for burst in range(50)])
    events = sq.Events(pa.table({"type": np.tile(np.repeat(list("ABCD"), 300), 50), "ts": times}))
    counted = prepare("SEQ(A a, B b, C c, D d) WITHIN 2000 AGG COUNT(*) EMIT TOTAL", events)
    assert isinstance(counted, AggregatePlan)
    assert counted.strategy != "two-step"
    assert events.statistics.crowding(2_000) > 500
    assert EVENTS.statistics.crowding(200) == 1.0
    assert sq.Events(pa.table({"type": ["A"] * 3, "ts": [-(2**63), 0, 2**63 - 1]})).statistics.crowding(2**62) == 1.0
    assert sq.Events(pa.table({"type": ["A"][:0], "ts": pa.array([], pa.int64())})).statistics.crowding(5) == 1.0


# ---------------------------------------------------------------- asked for by name


@pytest.mark.parametrize("strategy", ["prefix-tree", "pre-tree", "chop-connect"])
@pytest.mark.parametrize("name", UNSHAREABLE)
def test_counts_that_cannot_be_shared_are_named(name: str, strategy: str) -> None:
    text, reason = UNSHAREABLE[name]
    for workload in ({"one": COUNT, name: text}, {"one": COUNT, "two": LONGER, name: text}, {name: text, "matches": PAIR}):
        for verb in (sq.run, sq.explain):
            with pytest.raises(
                sq.PlanError, match=re.escape(f"strategy '{strategy}' does not apply to the query '{name}': {reason}\n")
            ):
                verb(workload, EVENTS, strategy=strategy)  # type: ignore[operator]


def test_auto_shares_what_can_be_shared() -> None:
    workload = {"one": COUNT, "two": LONGER} | {name: text for name, (text, _) in UNSHAREABLE.items()}
    planned = plan(workload, EVENTS)
    assert planned.counts is not None
    assert set(planned.counts.queries) == {"one", "two"}
    results = sq.run(workload, EVENTS)
    assert {name: result.table for name, result in results.items()} == {
        name: sq.run(text, EVENTS).table for name, text in workload.items()
    }


def test_independent_is_for_counts_too() -> None:
    told = str(sq.explain({"one": COUNT, "two": LONGER}, EVENTS, strategy="independent"))
    assert told.startswith("count 2 sequences each by itself")
    assert "taken: independent, about" in told
    alone = {name: text for name, (text, _) in UNSHAREABLE.items()}
    assert str(sq.explain(alone, EVENTS, strategy="independent")) == str(sq.explain(alone, EVENTS))


@pytest.mark.parametrize(
    ("strategy", "workload", "message"),
    [
        ("prefix-tree", {"a": PAIR}, "does not apply to this workload: no query of it returns aggregates"),
        ("chase", {"a": COUNT}, "does not apply to this workload: no query of it returns matches"),
        ("chase", {"a": "AND(DELL x, IPIX y) WITHIN 9"}, "does not apply to the query 'a': its pattern is not a SEQ"),
        ("two-step", {"a": PAIR}, "does not apply to this workload: no query of it returns aggregates"),
        (
            "latest-start",
            {"a": PAIR, "b": "SEQ(DELL a, !MSFT x, IPIX b, x.price > a.price) WITHIN 9"},
            "to the query 'b': a negation is",
        ),
        ("fastest", {"a": PAIR}, "there is no strategy 'fastest'"),
    ],
)
def test_a_strategy_that_does_not_apply_to_a_workload(strategy: str, workload: dict[str, str], message: str) -> None:
    with pytest.raises(sq.PlanError, match=re.escape(message)):
        sq.run(workload, EVENTS, strategy=strategy)


@pytest.mark.parametrize(
    "query",
    [
        PAIR,
        COUNT,
        "SEQ(DELL a, IPIX b) WHERE a.price < b.price WITHIN 200 ms AGG COUNT(*)",
        "SEQ(DELL a, !SEQ(MSFT x, INTC y, x.price > a.price), IPIX b) WITHIN 200 ms",
        "SEQ(DELL a, !SEQ(MSFT x, INTC y, x.price + y.price > a.price), IPIX b) WITHIN 200 ms",
        {"a": PAIR, "b": COUNT},
        {"a": COUNT, "b": UNSHAREABLE["grouped"][0]},
        {"a": "AND(DELL x, IPIX y) WITHIN 9", "b": "OR(DELL x, IPIX y) WITHIN 9"},
    ],
    ids=str,
)
@pytest.mark.parametrize("events", [EVENTS, None], ids=["measured", "unmeasured"])
def test_hints_name_what_applies_and_all_of_it(query: Any, events: sq.Events | None) -> None:
    applies, hints = {"auto"}, set()
    for strategy in (*strategies.names(), "fastest"):
        try:
            sq.explain(query, events, strategy=strategy)
        except sq.PlanError as error:
            hints.add(str(error).partition("\n  hint: ")[2])
        else:
            applies.add(strategy)
    (hint,) = hints
    assert applies == ({"auto"} if hint == "auto does" else set(hint.removeprefix("one of ").split(", ")))


def test_without_events_nothing_is_shared_by_name() -> None:
    for strategy, workload in {"chase": {"a": PAIR, "b": PAIR}, "prefix-tree": {"a": COUNT, "b": LONGER}}.items():
        with pytest.raises(sq.PlanError, match="nothing is known about the events"):
            sq.explain(workload, strategy=strategy)
    assert optimize({"a": parse(PAIR), "b": parse(PAIR)}).matches is None


def test_where_queries_are_evaluated_by_themselves_nothing_is_shared() -> None:
    counts, pairs = {"a": parse(COUNT), "b": parse(LONGER)}, {"a": parse(PAIR), "b": parse(PAIR)}
    for strategy, workload in {"chase": pairs, "top-down": pairs, "prefix-tree": counts}.items():
        with pytest.raises(
            sq.PlanError, match=f"strategy '{strategy}' does not apply to the query 'a': every query is evaluated by"
        ):
            optimize(workload, None, MEASURED, strategy, shares=False)
    for workload in (counts, pairs):
        for strategy in ("auto", "independent"):
            planned = optimize(workload, None, MEASURED, strategy, shares=False)
            assert (planned.matches, planned.counts) == (None, None)
            assert planned.plans == {
                name: optimize({ALONE: query}, None, MEASURED).plans[ALONE] for name, query in workload.items()
            }


def test_a_strategy_is_meant_for_the_queries_of_its_kind() -> None:
    workload = {"pair": PAIR, "longer": "SEQ(DELL a, IPIX b, AMAT c) WITHIN 200 ms", "one": COUNT, "two": LONGER}
    expected = {name: sq.run(text, EVENTS).table.num_rows for name, text in workload.items()}
    for strategy in ("auto", *strategies.names()):
        planned = plan(workload, EVENTS, strategy=strategy)
        assert (planned.matches is None) == (strategy in strategies.names("matches")), strategy
        assert (planned.counts is None) == (strategy in strategies.names("aggregates")), strategy
        found = sq.run(workload, EVENTS, strategy=strategy)
        assert {name: result.table.num_rows for name, result in found.items()} == expected, strategy


def test_a_query_of_a_workload_may_have_an_empty_name() -> None:
    workload = {"": "SEQ(Computer a, IPIX b) WITHIN 200 ms", "finer": PAIR, "equal": "SEQ(Computer x, IPIX y) WITHIN 200 ms"}
    expected = {name: len(sq.run(text, EVENTS, hierarchy=CONCEPTS)) for name, text in workload.items()}
    for strategy in ("auto", *strategies.names("shared matches")):
        found = sq.run(workload, EVENTS, hierarchy=CONCEPTS, strategy=strategy)
        assert {name: len(result) for name, result in found.items()} == expected, strategy


# ---------------------------------------------------------------- what nobody knows


@dataclass(frozen=True, slots=True)
class MatchDream:
    """A node of plans that nobody knows."""

    name: str = "dream"


@pytest.mark.parametrize("strategy", ["auto", "balanced"])
def test_a_node_that_nobody_knows_is_refused_by_name(strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    query = parse(PAIR)
    monkeypatch.setattr(strategies, "plan_matches", lambda *_: MatchPlan(MatchDream(), query.window))  # type: ignore[arg-type]
    for verb in (sq.run, sq.explain):
        with pytest.raises(sq.PlanError, match="this query cannot be evaluated: nothing is known of MatchDream"):
            verb(query, EVENTS, strategy=strategy)  # type: ignore[operator]
        with pytest.raises(sq.PlanError, match="the query 'a' cannot be evaluated: nothing is known of MatchDream"):
            verb({"a": query}, EVENTS, strategy=strategy)  # type: ignore[operator]
    with pytest.raises(sq.PlanError, match="MatchDream"):
        sq.Cube(EVENTS, query)


def test_an_aggregate_that_nobody_knows_is_refused_by_name() -> None:
    dream = parse("SEQ(DELL a, IPIX b) WITHIN 200 ms AGG SUM(a.volume)")
    dream = replace(
        dream, aggregates=tuple(replace(output, value=replace(output.value, function="DREAM")) for output in dream.aggregates)
    )
    for strategy in ("auto", "two-step", "per-start"):
        for verb in (sq.run, sq.explain):
            with pytest.raises(sq.QueryError, match="there is no aggregate 'DREAM'"):
                verb(dream, EVENTS, strategy=strategy)  # type: ignore[operator]
        with pytest.raises(sq.PlanError, match="this query cannot be evaluated: there is no aggregate 'DREAM'"):
            optimize({ALONE: dream}, None, MEASURED, strategy)
    with pytest.raises(sq.QueryError, match="there is no aggregate 'DREAM'"):
        plan_aggregates(dream).measures  # noqa: B018


# ---------------------------------------------------------------- one decision


def test_run_and_explain_decide_once_and_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    monkeypatch.setattr("seqube.engine.workload.optimize", lambda *given: made.append(optimize(*given)) or made[-1])
    workload = {"pair": PAIR, "one": COUNT, "two": LONGER}
    sq.run(workload, EVENTS, strategy="prefix-tree")
    told = sq.explain(workload, EVENTS, strategy="prefix-tree")
    assert len(made) == 2
    assert [str(explain_workload(each, EVENTS.statistics)) for each in made] == [str(told)] * 2


def test_a_pattern_is_looked_through_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at = []
    monkeypatch.setattr(strategies, "chain_of", lambda plan: looked_at.append(plan) or chain_of(plan))
    plan({"one": COUNT, "two": LONGER, "keyed": UNSHAREABLE["grouped"][0], "pair": PAIR}, EVENTS)
    assert len(looked_at) == 3


def test_a_query_has_the_same_plan_in_a_workload() -> None:
    """Whatever columns the other queries make the optimizer look at."""
    nested = "SEQ(DELL a, !SEQ(MSFT x, INTC y, [volume]), IPIX b, [id]) WITHIN 200 ms"
    others = {"keyed": "SEQ(DELL a, IPIX b, a.id = b.id, a.volume = b.volume) WITHIN 200 ms", "groups": UNSHAREABLE["grouped"][0]}
    together = plan({"nested": nested} | others, EVENTS)
    assert together.plans["nested"] == prepare(nested, EVENTS)
    assert together.plans["groups"] == prepare(others["groups"], EVENTS)


def test_values_are_counted_when_they_are_asked_for() -> None:
    events = sq.Events(generate("stock", 500, seed=2))
    prepare(PAIR, events)
    assert events.distinct._counted == {}
    prepare("SEQ(DELL a, IPIX b, [id]) WITHIN 200 ms AGG COUNT(*)", events)
    assert set(events.distinct._counted) == {"id"}
    assert "nowhere" not in events.distinct
    assert Measurements(events.statistics, distinct=events.distinct).values("nowhere", 7) == 7


def test_what_was_weighed_is_kept_beside_what_was_taken() -> None:
    planned = optimize({"a": parse(PAIR), "b": parse("SEQ(Computer a, IPIX b) WITHIN 200 ms")}, CONCEPTS, MEASURED)
    assert planned.matches is not None
    assert [option.strategy for option in planned.matches.options if option.is_taken] == [planned.matches.strategy]
    assert {option.strategy for option in planned.matches.options} == {"independent", "chase"}
    by_costs = min(planned.matches.options, key=lambda option: option.seconds or 0.0)
    assert by_costs.is_taken or not planned.matches.reuses
    counted = optimize({ALONE: parse(COUNT)}, None, MEASURED).plans[ALONE]
    assert isinstance(counted, AggregatePlan)
    assert [option.strategy for option in counted.options if option.is_taken] == [counted.strategy]


def test_pieces_are_not_chopped_where_their_snapshots_would_be_too_large() -> None:
    many = sq.Events(pa.table({"type": ["A", "B", "C"] * (2 * MOST_STARTS), "ts": range(6 * MOST_STARTS)}))
    workload = {
        "one": f"SEQ(A, B) WITHIN {10 * MOST_STARTS} AGG COUNT(*)",
        "two": f"SEQ(A, B, C) WITHIN {10 * MOST_STARTS} AGG COUNT(*)",
    }
    planned = plan(workload, many)
    assert planned.counts is not None
    assert planned.counts.strategy != "chop-connect"
    (chopped,) = (option for option in planned.counts.options if option.strategy == "chop-connect")
    assert chopped.reason


def test_all_sets_of_pieces_are_tried_by_name_only(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []
    exhaustive = sharing.exhaustive
    monkeypatch.setattr(sharing, "exhaustive", lambda *given: tried.append(given) or exhaustive(*given))
    counts = {"one": "SEQ(DELL, IPIX, AMAT) WITHIN 9 AGG COUNT(*)", "two": "SEQ(IPIX, AMAT) WITHIN 9 AGG COUNT(*)"}
    queries = {name: parse(text) for name, text in counts.items()}
    assert optimize(queries, None, MEASURED, "chop-connect").counts is not None
    assert optimize(queries, None, MEASURED).counts is not None
    assert not tried
    planned = optimize(queries, None, MEASURED, "exhaustive").counts
    assert planned is not None
    assert tried
    assert planned.strategy == "exhaustive"
    assert {option.strategy for option in planned.options} == {"independent", "prefix-tree", "pre-tree", "exhaustive"}
    assert len(planned.pieces["one"]) == 2
    monkeypatch.setattr(sharing, "MOST_CANDIDATES", 0)
    monkeypatch.setattr(sharing.Frequencies, "connected", lambda *_: -1.0)  # so that a piece is worth sharing
    with pytest.raises(sq.PlanError, match="hint: strategy='chop-connect'"):
        optimize(queries, None, MEASURED, "exhaustive")


def test_nothing_is_weighed_where_nothing_can_be_shared() -> None:
    workload = {"a": "AND(DELL x, IPIX y) WITHIN 9", "b": PAIR}
    assert plan(workload, EVENTS).matches is None


def test_events_decide_where_several_strategies_apply() -> None:
    queries = {
        "flat": parse("SEQ(A a, B b, [id]) WITHIN 5"),
        "nested": parse("SEQ(A a, !SEQ(C c, D d, c.id = a.id), B b) WITHIN 5"),
        "count": parse("SEQ(A a, B b) AGG COUNT(*) GROUP BY b.ward WITHIN 5"),
        "one way": parse("AND(A a, B b) AGG COUNT(*) WITHIN 5"),
    }
    assert undecided(queries) == {"nested": {"id"}, "count": {"ward"}}
    assert undecided(queries, strategy="two-step").keys() == {"nested"}
    assert undecided(queries, strategy="iterative").keys() == {"count"}
    assert undecided({}) == {}


def test_loops_that_know_no_key_are_not_taken_where_there_are_many() -> None:
    """They go through all pairs of outer events, of which a thousandth have one key."""
    random, n = np.random.default_rng(1), 10_000
    table = pa.table({"type": random.choice(list("ABCDEFGH"), n), "ts": np.arange(n), "id": random.integers(0, 1_000, n)})
    taken = plan("SEQ(A a, AND(B b, C c), D d, [id]) WITHIN 1000", sq.Events(table)).plans[ALONE]
    assert isinstance(taken, MatchPlan)
    assert not taken.is_nested


# ---------------------------------------------------------------- counting together, or not


@pytest.mark.parametrize(
    ("patterns", "keys", "window", "shares"),
    [  # as they were measured: seconds one by one and in a tree, of 50,000 events
        (["A a, B b, C c", "D d, E e, F f", "B b, G g, H h", "F f, D d"], 20, "2 s", False),  # 0.020, 0.032
        (["A a, B b, C c", "D d, E e, F f", "B b, G g, H h", "F f, D d"], 500, "20 s", False),  # 0.016, 0.028
        (["A a, B b", "A a, B b, C c", "A a, B b, D d", "A a, B b, C c, D d"], 20, "20 s", True),  # 0.048, 0.025
    ],
)
@pytest.mark.parametrize("emit", ["EVERY 100 ms", "EVERY 10 s"])
def test_keyed_counts_are_shared_where_that_beats_building_their_matches(
    patterns: list[str], keys: int, window: str, shares: bool, emit: str
) -> None:
    random, n = np.random.default_rng(1), 5_000
    types, times = random.choice(list("ABCDEFGH"), n), np.cumsum(random.integers(1, 20, n))
    events = sq.Events(pa.table({"type": types, "ts": times, "id": random.integers(0, keys, n)}))
    texts = {f"q{i}": f"SEQ({text}, [id]) AGG COUNT(*) WITHIN {window} EMIT {emit}" for i, text in enumerate(patterns)}
    measured = Measurements(events.statistics, events.unit, events.distinct)
    found = optimize({name: parse(text) for name, text in texts.items()}, None, measured)
    assert found.counts is not None
    assert found.counts.shares == shares
    alone = sum(expected_seconds(found.plans[name]) for name in texts)
    assert next(option.seconds for option in found.counts.options if option.strategy == "independent") == pytest.approx(alone)


def test_queries_that_share_nothing_run_as_they_would_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not as a stream in one step, whose counters cost several times as much."""
    from seqube.engine.aggregates import sharing as counting

    def refuse(*_: Any) -> None:
        raise AssertionError("nothing is counted together")

    monkeypatch.setattr(counting, "SharedAggregator", refuse)
    found = sq.run({"one": COUNT, "two": LONGER}, EVENTS, hierarchy=CONCEPTS, strategy="independent")
    for name, text in {"one": COUNT, "two": LONGER}.items():
        assert found[name].table.equals(sq.run(text, EVENTS, hierarchy=CONCEPTS).table)
