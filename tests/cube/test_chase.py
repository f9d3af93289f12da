"""Plans of workloads: every strategy gives every query its own matches, and Chase's plan is the cheapest there is."""

from __future__ import annotations

from itertools import product
from random import Random
from typing import Any

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
import seqube as sq
from answers import counted, show
from cube.workloads import workloads
from seqube.events import Events, Statistics
from seqube.generate import generate
from seqube.language import parse
from seqube.plan.chase import Chase, DerivationEdge, Estimates, cheapest
from seqube.plan.measured import Measurements
from seqube.plan.strategies import names
from strategies import hierarchies, streams, table

COMPANIES = sq.Hierarchy.from_dict(
    {"Computer": ["DELL", "INTC", "MSFT"], "Finance": ["QQQ", "FCF", "ROM"], "Education": ["EFC", "ANAT", "OREL"]}
)
WORKLOAD_7 = {
    "q20": "SEQ(DELL, QQQ, ANAT)",
    "q21": "SEQ(DELL, QQQ, ANAT, ROM)",
    "q22": "SEQ(FCF, DELL, QQQ, ANAT)",
    "q23": "SEQ(DELL, QQQ, ANAT, OREL)",
    "q24": "SEQ(DELL, QQQ, ANAT, INTC)",
    "q25": "SEQ(DELL, QQQ, ANAT, INTC, EFC)",
    "q16": "SEQ(Computer, Finance, Education)",
    "q26": "SEQ(Computer, Finance, ANAT)",
    "q27": "SEQ(DELL, Finance, ANAT)",
    "q28": "SEQ(QQQ, DELL, Finance, ANAT)",
}


def rows(result: sq.query.Result) -> list[dict[str, Any]]:
    return [{name: event["row"] for name, event in row.items() if name not in ("start", "end")} for row in result.table.to_pylist()]


@settings(max_examples=settings.default.max_examples // 2)
@given(data=st.data(), tree=hierarchies(), events=streams(), is_counted=st.booleans())
def test_every_strategy_equals_the_oracle(data: st.DataObject, tree: Any, events: list[oracle.Event], is_counted: bool) -> None:
    texts = data.draw(workloads(tree, counted=is_counted))
    show("\n".join(texts.values()), events, tree)
    hierarchy = sq.Hierarchy.from_dict(tree) if tree else None
    expected = {name: counted(oracle.matches(parse(text), events, tree)) for name, text in texts.items()}
    for strategy in names("shared matches"):
        results = sq.run(texts, table(events), hierarchy=hierarchy, strategy=strategy)
        assert {name: counted(rows(result)) for name, result in results.items()} == expected, strategy


def test_a_workload_may_mix_in_what_cannot_share() -> None:
    events = table(oracle.stream(("A", 1), ("B", 2), ("C", 3), ("A", 4), ("B", 5)))
    texts = {
        "pair": "SEQ(A, B) WITHIN 9",
        "longer": "SEQ(A, B, C) WITHIN 9",
        "both": "AND(A, C) WITHIN 9",
        "count": "SEQ(A, B) AGG COUNT(*) WITHIN 9 EMIT TOTAL",
        "returns": "SEQ(A a, B b) WITHIN 3 RETURN b.ts - a.ts AS lag",
    }
    for strategy in names("shared matches"):
        results = sq.run(texts, events, strategy=strategy)
        assert list(results) == list(texts)
        assert [len(results[name]) for name in ("pair", "longer", "both")] == [3, 1, 2]
        assert results["count"].table.to_pylist() == [{"count": 3}]
        assert results["returns"].table.to_pylist() == [{"lag": 1}, {"lag": 1}]
    with pytest.raises(sq.PlanError):
        sq.run("SEQ(A, B) WITHIN 9", events, strategy="chase")


# ---------------------------------------------------------------- the optimum


def brute_force(alone: dict[str, float], edges: list[DerivationEdge]) -> float:
    """The cheapest of all choices of one source (or none) for every query that go round in no circle."""
    costs = {(edge.source, edge.target): edge.seconds for edge in edges}
    best = float("inf")
    for sources in product([None, *alone], repeat=len(alone)):
        choice = dict(zip(alone, sources, strict=True))
        if all(source is None or (source, name) in costs for name, source in choice.items()) and acyclic(choice):
            cost = sum(alone[name] if source is None else costs[source, name] for name, source in choice.items())
            best = min(best, cost)
    return best


def acyclic(choice: dict[str, str | None]) -> bool:
    for name in choice:
        seen = set()
        at: str | None = name
        while at is not None:
            if at in seen:
                return False
            seen.add(at)
            at = choice[at]
    return True


@given(st.data())
def test_chase_finds_the_exhaustive_optimum(data: st.DataObject) -> None:
    names = [f"q{number}" for number in range(data.draw(st.integers(1, 5)))]
    weights = st.integers(1, 12).map(float)
    alone = {name: data.draw(weights) for name in names}
    edges = [
        DerivationEdge(source, target, (), data.draw(weights))
        for source in names
        for target in names
        if source != target and data.draw(st.booleans())
    ]
    chosen = cheapest(alone, edges)
    assert acyclic({name: edge.source if edge else None for name, edge in chosen.items()})
    cost = sum(edge.seconds if edge else alone[name] for name, edge in chosen.items())
    assert cost == brute_force(alone, edges)


@settings(max_examples=20)
@given(seed=st.integers(0, 2**32))
def test_large_graphs_cost_what_networkx_says(seed: int) -> None:
    random = Random(seed)
    names = [f"q{number}" for number in range(30)]
    alone = {name: random.uniform(5, 10) for name in names}
    edges = [DerivationEdge(*random.sample(names, 2), (), random.uniform(1, 12)) for _ in range(80)]
    edges = list({(edge.source, edge.target): edge for edge in edges}.values())
    graph = nx.DiGraph()
    graph.add_weighted_edges_from(("", name, cost) for name, cost in alone.items())
    graph.add_weighted_edges_from((edge.source, edge.target, edge.seconds) for edge in edges)
    optimum = nx.minimum_spanning_arborescence(graph).size(weight="weight")
    cost = sum(edge.seconds if edge else alone[name] for name, edge in cheapest(alone, edges).items())
    assert cost == pytest.approx(optimum)


def estimates(**rates: int) -> Estimates:
    names = [name for name in COMPANIES.names if not COMPANIES.children(name)]
    counts = {name: rates.get(name, 10_000) for name in names}
    return Estimates(Measurements(Statistics(sum(counts.values()), 0, 1_000_000, counts)))


def test_chase_is_the_cheapest_of_the_strategies_by_its_own_costs() -> None:
    queries = {name: parse(f"{text} WITHIN 100 ms") for name, text in WORKLOAD_7.items()}
    chase = Chase(queries, COMPANIES)
    plans = {strategy: chase.plan(strategy, estimates()) for strategy in names("shared matches")}
    assert all(plans["chase"].seconds <= plan.seconds + 1e-12 for plan in plans.values())
    assert set(plans["independent"].sources.values()) == {None}
    assert plans["top-down"].sources["q21"] is not None
    assert plans["bottom-up"].sources["q16"] is not None
    for plan in plans.values():
        done: set[str | None] = {None}
        for step in plan.steps:
            assert step.source in done
            done.add(step.name)
        assert done == {None, *queries}


def test_chase_prices_plans_by_the_statistics() -> None:
    texts = {"wide": "SEQ(Computer, Finance) WITHIN 1 s", "fine": "SEQ(DELL, QQQ) WITHIN 1 s"}
    chase = Chase({name: parse(text) for name, text in texts.items()}, COMPANIES)
    rare = estimates(DELL=10, QQQ=10)
    plan = chase.plan("chase", rare)
    assert plan.sources["fine"] is None  # filtering millions of matches for a handful is no gain
    assert chase.cost(chase.plan("top-down", rare), rare) > chase.cost(plan, rare)
    mostly = estimates(DELL=100_000, QQQ=100_000, INTC=10, MSFT=10, FCF=10, ROM=10)
    assert chase.plan("chase", mostly).sources != {"wide": None, "fine": None}  # nearly all matches are shared


def test_explained_in_text_and_as_a_graph() -> None:
    events = table(oracle.stream(("DELL", 1), ("QQQ", 2), ("ANAT", 3)))
    texts = {name: f"{text} WITHIN 100 ms" for name, text in WORKLOAD_7.items()}
    explained = sq.explain(texts, events, hierarchy=COMPANIES, strategy="top-down")
    assert "q21: from q20, downwards" in str(explained)
    assert "concept: q26 SEQ(Computer, Finance, ANAT)" in str(explained)
    assert {"source": "q16", "target": "q26", "label": "concept"} in explained.graph["edges"]
    assert next(node for node in explained.graph["nodes"] if node["id"] == "q21")["source"] == "q20"


def test_a_workload_shares_where_it_pays_without_being_asked() -> None:
    stream = Events(generate("stock", 5_000, 0))
    texts = {
        "short": "SEQ(DELL a, INTC b) WITHIN 100 ms",
        "long": "SEQ(DELL a, INTC b, QQQ c) WITHIN 100 ms",
        "count": "SEQ(DELL a, INTC b) WITHIN 100 ms AGG COUNT(*) EMIT TOTAL",
    }
    explained = str(sq.explain(texts, stream))
    assert "long: from short, downwards" in explained
    assert "query count\n" in explained
    results = sq.run(texts, stream)
    assert {name: results[name].table.num_rows for name in texts} == {
        name: len(sq.run(text, stream)) for name, text in texts.items()
    }
