"""Counting a workload together gives every query the result it has alone; and the optimizer chooses what to share as it says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

import oracle
import seqube as sq
from aggregate_queries import assert_same_rows, families, shareable
from seqube.engine.aggregates import chop_connect, per_start, prefix_tree, two_step, window_product
from seqube.engine.aggregates.chop_connect import Pieces
from seqube.engine.aggregates.prefix_tree import Prefixes
from seqube.engine.aggregates.sharing import SharedAggregator
from seqube.events import Events, Statistics
from seqube.language import parse
from seqube.plan.aggregates import chain_of, plan_aggregates
from seqube.plan.measured import Measurements
from seqube.plan.optimizer import share_counts
from seqube.plan.sharing import (
    Candidate,
    Counted,
    Frequencies,
    SlotLabel,
    SlotPattern,
    chop,
    counted,
    exhaustive,
    find_candidates,
    find_conflicts,
    greedy,
)
from strategies import cuts, streams, table

WAYS = ["prefix-tree", "pre-tree", "chop-connect"]


def pattern(letters: str) -> SlotPattern:
    return tuple(SlotLabel(letter, frozenset({letter})) for letter in letters)


def query(letters: str, window: int = 10) -> Counted:
    return Counted(pattern(letters), window)


@st.composite
def workloads(draw: st.DrawFn) -> dict[str, str]:
    """Counts of overlapping sequences, some of them with predicates or another window."""
    queries = {}
    for number in range(draw(st.integers(2, 5))):
        letters = draw(st.lists(st.sampled_from("ABC"), min_size=1, max_size=5))
        parts = ", ".join(f"{letter} v{i}" for i, letter in enumerate(letters))
        where = draw(st.sampled_from(["", "", "", f" WHERE v{len(letters) - 1}.x > 0"]))
        queries[f"q{number}"] = f"SEQ({parts}){where} WITHIN {draw(st.sampled_from([3, 6, 6, 6]))} AGG COUNT(*)"
    return queries


@pytest.mark.parametrize("strategy", ["auto", *WAYS, "exhaustive"])
@given(workload=workloads(), events=streams(max_size=20, max_time=14))
def test_shared_equals_unshared(strategy: str, workload: dict[str, str], events: list[oracle.Event]) -> None:
    note(str(workload))
    note(" ".join(f"{event.type}{event.ts}" for event in events))
    results = sq.run(workload, table(events), strategy=strategy)
    for name, text in workload.items():
        assert results[name].table.to_pylist() == oracle.aggregates(parse(text), events), name


@pytest.mark.parametrize("strategy", ["independent", *WAYS])
@given(data=st.data(), workload=workloads(), events=streams(max_size=20, max_time=14), watermarks=st.booleans())
def test_any_cutting_equals_whole(
    strategy: str, data: st.DataObject, workload: dict[str, str], events: list[oracle.Event], watermarks: bool
) -> None:
    note(str(workload))
    stream = Events(table(events))
    plans = {name: plan_aggregates(parse(text)) for name, text in workload.items()}
    found_queries = {name: counted(plan, chain_of(plan), stream.unit) for name, plan in plans.items()}
    queries = {name: query for name, query in found_queries.items() if isinstance(query, Counted)}
    aggregator = SharedAggregator(share_counts(queries, Measurements(stream.statistics), strategy), plans)
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in workload}

    def take(report: dict[str, pa.Table] | None) -> None:
        for name, rows in (report or {}).items():
            found[name] += rows.to_pylist()

    state = aggregator.start()
    for start, stop in data.draw(cuts(len(events))):
        state, report = aggregator.step(state, stream.slice(start, stop))
        take(report)
        if watermarks and stop < len(events):
            state, more = aggregator.step(state, None, int(stream.times[stop]))
            take(more)
        if data.draw(st.booleans()):
            state = aggregator.restore(state.to_bytes())
        assert state.events is None or all(state.events.times > state.decided - 6)
    take(aggregator.finish(state)[1])
    assert found == {name: oracle.aggregates(parse(text), events) for name, text in workload.items()}


@pytest.mark.parametrize("strategy", WAYS)
@given(workload=families(), events=streams(max_size=20, max_time=14))
def test_every_shape_equals_the_oracle(strategy: str, workload: dict[str, str], events: list[oracle.Event]) -> None:
    note("\n".join(workload.values()))
    note(" ".join(f"{event.type}{event.ts}" for event in events))
    if not workload:
        return
    results = sq.run(workload, table(events), strategy=strategy)
    for name, text in workload.items():
        assert_same_rows(results[name].table.to_pylist(), oracle.aggregates(parse(text), events))


@pytest.mark.parametrize("strategy", WAYS)
@given(data=st.data(), workload=families(), events=streams(max_size=20, max_time=14), watermarks=st.booleans())
def test_every_shape_however_it_is_cut(
    strategy: str, data: st.DataObject, workload: dict[str, str], events: list[oracle.Event], watermarks: bool
) -> None:
    note("\n".join(workload.values()))
    note(" ".join(f"{event.type}{event.ts}" for event in events))
    if not workload:
        return
    stream = Events(table(events))
    plans = {name: plan_aggregates(parse(text)) for name, text in workload.items()}
    queries = {name: query for name, text in workload.items() if isinstance(query := shareable(text), Counted)}
    aggregator = SharedAggregator(share_counts(queries, Measurements(stream.statistics), strategy), plans)
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in workload}
    state = aggregator.start()
    for start, stop in data.draw(cuts(len(events))):
        state, report = aggregator.step(state, stream.slice(start, stop))
        reports = [report]
        if watermarks and stop < len(events):
            state, more = aggregator.step(state, None, int(stream.times[stop]))
            reports.append(more)
        for rows in reports:
            for name, each in (rows or {}).items():
                found[name] += each.to_pylist()
        if data.draw(st.booleans()):
            state = aggregator.restore(state.to_bytes())
    for name, rest in (aggregator.finish(state)[1] or {}).items():
        found[name] += rest.to_pylist()
    for name, text in workload.items():
        assert_same_rows(found[name], oracle.aggregates(parse(text), events))


def test_many_pieces_over_a_longer_stream() -> None:
    """Three pieces and more (multi-connect), against every query by itself."""
    random = np.random.default_rng(4)
    letters = random.choice(list("ABCDEFGH"), 3_000)
    stream = Events(pa.table({"type": letters, "ts": np.sort(random.integers(0, 4_000, 3_000))}))
    workload = {
        name: f"SEQ({', '.join(text)}) WITHIN {window} AGG COUNT(*)"
        for name, text, window in [
            ("a", "ABCDEFG", 60),
            ("b", "HCDAFG", 60),
            ("c", "BCDFG", 40),
            ("d", "FGAB", 60),
            ("e", "GABCD", 30),
        ]
    }
    alone = {name: sq.run(text, stream, strategy="window-product").table for name, text in workload.items()}
    for strategy in WAYS:
        together = sq.run(workload, stream, strategy=strategy)
        assert all(together[name].table.equals(alone[name]) for name in workload)


def test_what_cannot_be_shared_runs_by_itself() -> None:
    stream = pa.table({"type": list("ABAB"), "ts": [1, 2, 3, 4], "id": [1, 1, 2, 2]})
    workload = {
        "count": "SEQ(A, B) WITHIN 9 AGG COUNT(*)",
        "again": "SEQ(A, B) WITHIN 9 AGG COUNT(*) HAVING COUNT(*) > 1",
        "repeated": "SEQ(A, B+) WITHIN 9 AGG COUNT(*)",
        "matches": "SEQ(A a, B b) WITHIN 9 RETURN a.ts, b.ts",
    }
    results = sq.run(workload, stream)
    assert results["count"].table.to_pylist() == [{"ts": 2, "count": 1}, {"ts": 4, "count": 3}]
    assert results["again"].table.to_pylist() == [{"ts": 4, "count": 3}]
    assert results["repeated"].table.to_pylist() == [{"ts": 2, "count": 1}, {"ts": 4, "count": 4}]
    assert len(results["matches"]) == 3


def test_counts_that_outgrow_doubles_are_exact() -> None:
    stream = Events(pa.table({"type": ["A"] * 400, "ts": list(range(400))}))
    workload = {
        name: f"SEQ({', '.join(f'A v{i}' for i in range(length))}) WITHIN 400 AGG COUNT(*)" for name, length in (("a", 2), ("b", 9))
    }
    results = sq.run(workload, stream, strategy="prefix-tree")
    assert results["a"].table["count"][-1].as_py() == 400 * 399 // 2
    assert results["b"].table.equals(sq.run(workload["b"], stream).table)


# ---------------------------------------------------------------- the optimizer


def test_candidates_are_common_substrings_of_two_labels_and_more() -> None:
    queries = {"q1": query("ABCD"), "q2": query("XABC"), "q3": query("CDY")}
    statistics = Statistics(1_000, 0, 1_000, dict.fromkeys("ABCDXY", 100))
    found = {candidate.piece: candidate.queries for candidate in find_candidates(queries, Frequencies(statistics))}
    assert found == {
        pattern("AB"): {"q1", "q2"},
        pattern("BC"): {"q1", "q2"},
        pattern("ABC"): {"q1", "q2"},
        pattern("CD"): {"q1", "q3"},
    }


def test_conflicts_are_overlaps_in_a_common_query() -> None:
    """The thesis' example: (A, B, C) and (B, C, D) exclude each other in q1 and q2, not if they are shared by different queries."""
    queries = {"q1": query("ABCD"), "q2": query("ABCD"), "q3": query("BCD"), "q5": query("BCD"), "q4": query("ABC")}
    one, other = (
        Candidate(pattern("ABC"), frozenset({"q1", "q2", "q4"}), 1.0),
        Candidate(pattern("BCD"), frozenset({"q1", "q2"}), 1.0),
    )
    assert find_conflicts(queries, [one, other]) == ((0, 1),)
    apart = Candidate(pattern("BCD"), frozenset({"q3", "q5"}), 1.0)
    assert find_conflicts(queries, [one, apart]) == ()


def test_greedy_and_exhaustive_choices() -> None:
    """A path of three: the middle one is worth most, the two ends together more. Greedy takes the middle, exhaustive the ends."""
    candidates = [Candidate(pattern("AB"), frozenset("pq"), benefit) for benefit in (3.0, 4.0, 3.0)]
    conflicts = [(0, 1), (1, 2)]
    assert greedy(candidates, conflicts) == (1,)
    assert exhaustive(candidates, conflicts) == (0, 2)
    losing = [Candidate(pattern("AB"), frozenset("pq"), -1.0)]
    assert greedy(losing, []) == exhaustive(losing, []) == ()


@given(
    benefits=st.lists(st.integers(-3, 9), min_size=1, max_size=7),
    edges=st.sets(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=12),
)
def test_exhaustive_is_the_best_of_all_sets(benefits: list[int], edges: set[tuple[int, int]]) -> None:
    candidates = [Candidate(pattern("AB"), frozenset(), float(benefit)) for benefit in benefits]
    conflicts = [(i, j) for i, j in edges if i < j < len(benefits)]

    def independent(chosen: set[int]) -> bool:
        return not any(i in chosen and j in chosen for i, j in conflicts)

    sets = [{i for i in range(len(benefits)) if bits >> i & 1} for bits in range(1 << len(benefits))]
    best = max(sum(benefits[i] for i in chosen) for chosen in sets if independent(chosen))
    for taken in (exhaustive(candidates, conflicts), greedy(candidates, conflicts)):
        assert independent(set(taken))
        assert sum(benefits[i] for i in taken) <= best
    assert sum(benefits[i] for i in exhaustive(candidates, conflicts)) == best


def test_rare_connecting_events_make_chopping_pay() -> None:
    """The thesis' finding: the rarer the event a shared piece begins with, the more sharing it saves."""
    queries = {f"q{i}": query(f"{i}YABCDEF", 1_000) for i in range(3)}

    def benefit(frequency: int) -> float:
        counts = dict.fromkeys("012ABCDEF", 1_000) | {"Y": frequency}
        statistics = Statistics(10_000, 0, 10_000, counts)
        return next(c.benefit for c in find_candidates(queries, Frequencies(statistics)) if c.piece == pattern("YABCDEF"))

    assert benefit(10) > benefit(100) > benefit(1_000)


def test_chopping_leaves_what_stands_between() -> None:
    assert chop(pattern("ABCDE"), [pattern("BC")]) == (pattern("A"), pattern("BC"), pattern("DE"))
    assert chop(pattern("ABC"), []) == (pattern("ABC"),)


def test_a_piece_is_a_prefix_of_others_trees() -> None:
    """The thesis' Q5: four queries begin with the common piece; only the fifth is chopped, its piece a node of their tree."""
    texts = {"q1": "KBC", "q2": "KBD", "q3": "KBCE", "q4": "KBCF", "q5": "PFKB"}
    statistics = Statistics(1_000, 0, 1_000, dict.fromkeys("KBCDEFP", 100))
    plan = share_counts({name: query(text) for name, text in texts.items()}, Measurements(statistics), "chop-connect")
    assert {name: len(pieces) for name, pieces in plan.pieces.items()} == {"q1": 1, "q2": 1, "q3": 1, "q4": 1, "q5": 2}
    prefixes = Prefixes([piece for pieces in plan.pieces.values() for piece in pieces])
    assert len(prefixes.order) == 1 + len(["K", "KB", "KBC", "KBD", "KBCE", "KBCF", "P", "PF"])
    assert plan.pieces["q5"][1] in prefixes.numbers


KERNELS = {"prefix-tree": "slide_tree", "pre-tree": "connect", "chop-connect": "connect", "exhaustive": "connect"}


@pytest.mark.parametrize("strategy", [*KERNELS, "independent"])
def test_a_strategy_runs_what_it_says(strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spies on the kernels: the strategy's own runs, and no other way of counting; pieces are chopped by those that say so."""
    called: list[str] = []

    def spied(module: Any, name: str) -> None:
        inner = getattr(module, name)

        def spy(*arguments: Any) -> Any:
            pieces = next((each for each in arguments if isinstance(each, Pieces)), None)
            called.append(name if pieces is None or not len(pieces.nexts) else f"{name} with snapshots")
            return inner(*arguments)

        monkeypatch.setattr(module, name, spy)

    spied(prefix_tree, "slide_tree")
    spied(chop_connect, "connect")
    spied(window_product, "slide")
    spied(per_start, "count_per_start")
    spied(two_step, "aggregate_matches")
    stream = table([oracle.Event(name, i, {"id": 1, "x": i}, i) for i, name in enumerate("DABCDABC")])
    workload = {
        "q1": "SEQ(D d, A a, B b, [id]) WITHIN 9 AGG COUNT(*), SUM(b.x)",
        "q2": "SEQ(C c, A a, B b, [id]) WITHIN 9 AGG COUNT(*), SUM(b.x)",
    }
    sq.run(workload, stream, strategy=strategy)
    if strategy == "independent":  # each by its own cheapest
        assert set(called) <= {"slide", "count_per_start", "aggregate_matches"}
    else:
        chopped = strategy in ("chop-connect", "exhaustive")
        assert set(called) == {f"{KERNELS[strategy]} with snapshots" if chopped else KERNELS[strategy]}


def test_explain_names_candidates_benefits_and_conflicts() -> None:
    stream = Events(pa.table({"type": list("ABCDABCD"), "ts": list(range(8))}))
    workload = {"q1": "SEQ(A, B, C) WITHIN 9 AGG COUNT(*)", "q2": "SEQ(D, A, B, C) WITHIN 9 AGG COUNT(*)"}
    text = str(sq.explain(workload, stream))
    assert "(A, B) in q1, q2, benefit" in text
    assert "in conflict with" in text
    assert "independent, about" in text


def test_what_is_shared_and_why_not() -> None:
    assert shareable("SEQ(A, B) WITHIN 9 AGG COUNT(*)") == query("AB", 9)
    shared = [
        "SEQ(A a, !C c, B b, [id]) WITHIN 9 GROUP BY b.id AGG COUNT(*)",
        "SEQ(A, B, !C) WITHIN 9 AGG COUNT(*)",
        "SEQ(A a, B b) WITHIN 9 PARTITION BY id AGG AVG(a.x), MAX(b.x) EMIT TOTAL",
        "SEQ(A, B) WITHIN 9 AGG COUNT(*) EMIT EVERY 3",
        "SEQ(A, B) WITHIN 9 AGG COUNT(*) EMIT PER 3",
    ]
    assert [text for text in shared if isinstance(shareable(text), str)] == []
    reasons = {
        "SEQ(!C, A, B) WITHIN 9 AGG COUNT(*)": "it begins with a negation, which looks back from the end of every match",
        "SEQ(A, B, !C) WITHIN 9 AGG COUNT(*) EMIT TOTAL": (
            "it ends with a negation, and its matches count when nothing can cancel them any more"
        ),
        "SEQ(A a, !C c, B b, a.id = b.id) WITHIN 9 AGG COUNT(*)": "it has a negation that events of any key meet",
        "SEQ(A a, B b, a.id = b.x) WITHIN 9 AGG COUNT(*)": "its events are tied by different columns",
        "SEQ(A a, B b) WITHIN 9 AGG COUNT(*) GROUP BY a.id": "it counts by groups of more than its key",
        "SEQ(A a, B b) WITHIN 9 AGG SUM(a.x * 2)": "it measures, or groups by, an expression",
        "SEQ(A a, B b) WITHIN 9 AGG STDDEV(a.x)": "it asks for more than counts, sums and extremes: SQUARES of a.x",
        "SEQ(A a, B+ b) WITHIN 9 AGG COUNT(*)": "it has repeated parts",
        "SEQ(A, B) WITHIN 9 EVENTS AGG COUNT(*)": "its window counts events",
        "AND(A, B) WITHIN 9 AGG COUNT(*)": "the pattern is not a SEQ",
    }
    assert {text: shareable(text) for text in reasons} == reasons


def test_sharing_plan_takes_the_cheapest() -> None:
    queries = {f"q{i}": query("ABCDEF"[: 3 + i % 4], 100) for i in range(20)}
    plan = share_counts(queries, Measurements(Statistics(100_000, 0, 100_000, dict.fromkeys("ABCDEF", 5_000))))
    costs = {option.strategy: option.seconds for option in plan.options}
    assert plan.strategy == min(costs, key=lambda name: costs[name] or 0.0)
