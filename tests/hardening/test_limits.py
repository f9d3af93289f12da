"""A query that would use too much is stopped with the numbers, or cut short and marked; and a huge result is taken in batches."""

from __future__ import annotations

import itertools
import pickle
import re
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

import oracle
import seqube as sq
from answers import counted
from seqube.engine import results
from seqube.engine.aggregates.aggregation import Aggregator
from seqube.engine.limits import LIMITS, Limits
from seqube.engine.matching import Matcher
from seqube.plan.aggregates import AggregatePlan
from seqube.plan.physical import MatchPlan
from seqube.query import prepare
from strategies import queries, streams, table

SIX = "SEQ(A a, B b, C c, D d, E e, F f) WITHIN 100000 EVENTS"


def stream(n: int, types: str = "ABCDEF") -> sq.Events:
    """Types in turn, one event each tick."""
    return sq.Events(pa.table({"type": [types[k % len(types)] for k in range(n)], "ts": np.arange(n)}))


def pairs(n: int) -> int:
    """SEQ(A, B) over so many events A B A B ...: every A with every later B."""
    return (n // 2) * (n // 2 + 1) // 2


@pytest.fixture
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Results of which only ten rows are found at once."""
    monkeypatch.setattr(results, "EAGER_ROWS", 10)


def test_making_a_result_finds_nothing() -> None:
    asked = []

    def find(budget: object) -> Iterator[pa.Table]:
        asked.append(budget)
        yield pa.table({"x": [1, 2]})

    events = stream(2)
    result = results.Result(find, events.rejected)
    assert not asked
    assert len(result) == 2
    assert len(asked) == 1
    results.begin_result(find, events.rejected, LIMITS)
    assert len(asked) == 2


def test_more_matches_than_allowed() -> None:
    with pytest.raises(sq.LimitError, match=r"after 100 rows: it has more than 100 rows \(max_matches\)\n  hint: .*EMIT TOTAL"):
        sq.run("SEQ(A a, B b) WITHIN 1000", stream(60, "AB"), max_matches=100)


def test_as_many_matches_as_allowed() -> None:
    result = sq.run("SEQ(A a, B b) WITHIN 1000", stream(60, "AB"), max_matches=pairs(60))
    assert len(result) == pairs(60)
    assert result.truncated is None


@pytest.mark.parametrize("allowed", [0, 1, 7, 464, 465, 466])
def test_truncation_is_exact_and_marked(allowed: int) -> None:
    query, events = "SEQ(A a, B b) WITHIN 1000", stream(60, "AB")
    whole = sq.run(query, events).table.to_pylist()
    result = sq.run(query, events, max_matches=allowed, on_limit="truncate")
    assert len(whole) == pairs(60) == 465
    assert result.table.to_pylist() == whole[:allowed]
    assert bool(result.truncated) == (allowed < 465)
    assert ("max_matches" in repr(result)) == ("max_matches" in result._repr_html_()) == (allowed < 465)


@pytest.mark.usefixtures("small_steps")
def test_truncated_batches_are_marked() -> None:
    result = sq.run("SEQ(A a, B b) WITHIN 1000", stream(60, "AB"), max_matches=99, on_limit="truncate")
    assert sum(batch.num_rows for batch in result.batches()) == 99
    assert result.truncated is not None
    assert len(result) == 99


@pytest.mark.usefixtures("small_steps")
def test_a_result_that_is_stopped_is_stopped_every_time() -> None:
    query, events = "SEQ(A a, B b) WITHIN 1000", stream(1_000, "AB")
    result = sq.run(query, events, max_state_bytes=sq.run(query, events).table.nbytes - 1)
    for _ in range(2):
        with pytest.raises(sq.LimitError, match="max_state_bytes"):
            _ = result.table
        assert len(result) == pairs(1_000)  # counted, whatever can be held


def test_memory_of_results_is_limited() -> None:
    with pytest.raises(sq.LimitError, match=r"bytes at once and may hold 1,000,000 \(max_state_bytes\)"):
        sq.run("SEQ(A a, B b) WITHIN 100000", stream(3_000, "AB"), max_state_bytes=1_000_000)


@pytest.mark.parametrize(
    "query",
    [
        "SEQ(A a, OR(SEQ(B b, C c), SEQ(D d, C e)), F f) WHERE b.x + f.x > 0 WITHIN 100000",  # instances of a sub-query
        "SEQ(A a, !SEQ(B b, C c, D d, b.x * c.x = a.x), F f) WITHIN 100000",  # candidates that may cancel
        "AND(SEQ(A a, B b), SEQ(C c, D d)) WITHIN 100000",
    ],
)
def test_memory_of_sub_queries_is_limited(query: str) -> None:
    events = stream(6_000)
    events = sq.Events(events.table.append_column("x", pa.array(np.arange(6_000) % 7)))
    with pytest.raises(sq.LimitError, match="max_state_bytes"):
        sq.run(query, events, max_state_bytes=2_000_000).table  # noqa: B018


@pytest.mark.parametrize("strategy", ["iterative", "aggressive", "passive", "balanced"])
def test_memory_of_nested_strategies_is_limited(strategy: str) -> None:
    query = "SEQ(A a, AND(B b, C c), AND(D d, E e), F f, a.ts < f.ts) WITHIN 100000"
    with pytest.raises(sq.LimitError, match="max_state_bytes"):
        sq.run(query, stream(600), strategy=strategy, max_state_bytes=30_000_000).table  # noqa: B018


def test_time_is_limited_where_nothing_is_found() -> None:
    events = stream(20_000, "ABC")
    began = time.monotonic()
    with pytest.raises(sq.LimitError, match=r"after 0 rows: it took .* s and may take 0.2 s \(max_seconds\)"):
        sq.run("SEQ(A a, B b, C c, a.ts + b.ts > c.ts * 5) WITHIN 100000", events, max_seconds=0.2)
    with pytest.raises(sq.LimitError, match="max_seconds"):
        sq.run("AND(A a, B b, C c, a.ts + b.ts + c.ts < 0) WITHIN 100000", events, max_seconds=0.2)
    assert time.monotonic() - began < 60  # without the limit: hours


def numbers(n: int, types: str = "ABCDEF") -> sq.Events:
    """Types and values at random."""
    random = np.random.default_rng(1)
    return sq.Events(pa.table({"type": random.choice(list(types), n), "ts": np.arange(n), "x": random.integers(0, 1_000, n)}))


FOUR = {f"q{k}": f"PATTERN SEQ({first} a, B b, C c, D d) AGG COUNT WITHIN 9000" for k, first in enumerate("AEFD")}


@pytest.mark.parametrize(
    ("query", "strategy", "n"),
    [
        *(
            ("SEQ(A a, AND(B b, C c, b.x < c.x), AND(D d, E e), F f, a.x + f.x > 1990) WITHIN 20000", strategy, 30_000)
            for strategy in ("auto", "iterative", "aggressive", "passive", "balanced")
        ),
        ("SEQ(A a, SEQ(B b, C c, D d, b.x + c.x + d.x > 2990), F f) WITHIN 20000", "iterative", 30_000),
        ("SEQ(A a, !SEQ(B b, C c, b.x * c.x = a.x + d.x), D d) WITHIN 20000", "auto", 30_000),
        ("PATTERN SEQ(A a, B b, C c) AGG COUNT WITHIN 2000000", "per-start", 2_000_000),
        ("PATTERN SEQ(A a, B b, C c) AGG COUNT, SUM(a.x) EMIT TOTAL WITHIN 2000000", "per-start", 2_000_000),
        ("PATTERN SEQ(A a, B b, C c) AGG COUNT, MIN(b.x) GROUP BY c.x WITHIN 2000", "two-step", 1_000_000),
        ("PATTERN SEQ(A a, B b, !C c) AGG COUNT WITHIN 5000", "two-step", 100_000),
        (FOUR, "chop-connect", 1_000_000),
        ({"a": "SEQ(A a, B b, C c) WITHIN 900", "b": "SEQ(A a, B b, C c, D d) WITHIN 900"}, "top-down", 200_000),
    ],
)
def test_time_is_limited_in_every_strategy(query: Any, strategy: str, n: int) -> None:
    """What would take minutes or hours, most of it inside one loop, ends soon after its time."""
    began = time.monotonic()
    with pytest.raises(sq.LimitError, match=r"may take 0.2 s \(max_seconds\)"):
        sq.run(query, numbers(n), strategy=strategy, max_seconds=0.2, max_matches=None)
    assert time.monotonic() - began < 60  # on a busy machine, with all that is compiled before


@pytest.mark.parametrize("strategy", ["direct", "tofel", "cbs-tree", "index"])
def test_forecasts_are_limited(strategy: str) -> None:
    rules = [sq.Rule(predicate="A -> B", consequent="C", within=50, horizon=99, probability=0.5)]
    whole = sq.forecast(rules, numbers(3_000), strategy=strategy).table
    assert sq.forecast(rules, numbers(3_000), strategy=strategy, max_matches=len(whole)).table.equals(whole)
    with pytest.raises(sq.LimitError, match=r"^the forecast was stopped after 9 rows: .*\(max_matches\)"):
        sq.forecast(rules, numbers(3_000), strategy=strategy, max_matches=9)
    with pytest.raises(sq.LimitError, match="max_state_bytes"):
        sq.forecast(rules, numbers(3_000), strategy=strategy, max_state_bytes=whole.nbytes // 2)
    with pytest.raises(sq.LimitError, match="max_seconds"):
        sq.forecast(rules, numbers(3_000), strategy=strategy, max_seconds=0)


def test_the_time_of_forecasts_is_limited() -> None:
    """Nothing is found, however far back one looks."""
    rules = [
        sq.Rule(predicate=f"Z{k} -> B", consequent="C", within=1_000_000, horizon=2_000_000, probability=0.5) for k in range(50)
    ]
    rules += [sq.Rule(predicate="A", consequent="C", within=1_000_000, horizon=2_000_000, probability=0.5)]
    began = time.monotonic()
    with pytest.raises(sq.LimitError, match=r"may take 0.2 s \(max_seconds\)"):
        sq.forecast(rules, numbers(2_000_000), strategy="direct", max_seconds=0.2)
    assert time.monotonic() - began < 60


def test_the_bell_rings_when_time_is_over() -> None:
    word = np.zeros(1, np.int64)

    def wait() -> None:
        with Limits(max_seconds=0.05).budget().bell(word) as bell:
            while bell[0] == 0:
                time.sleep(0.001)

    with pytest.raises(sq.LimitError, match="max_seconds"):
        wait()
    assert word[0] == 1
    before = threading.active_count()
    for allowed in (None, 1e300, float("inf"), 10**400):  # it does not, and nobody is left waiting
        with Limits(max_seconds=allowed).budget().bell() as bell:
            assert bell[0] == 0
    ends = time.monotonic() + 60
    while threading.active_count() > before and time.monotonic() < ends:
        time.sleep(0.001)
    assert threading.active_count() <= before


@pytest.mark.usefixtures("small_steps")
def test_time_between_batches_is_not_counted() -> None:
    result = sq.run("SEQ(A a, B b) WITHIN 1000", stream(600, "AB"), max_seconds=5)
    result._budget._seconds = 4.0  # as if finding had taken so long
    assert result._budget._since is None  # however long it is looked at, no time goes by
    assert len(result) == pairs(600)


def test_walks_that_find_nothing_for_long_go_on() -> None:
    """The loops come back every few million steps; where they do makes no difference."""
    n = 10_000
    x = np.random.default_rng(1).integers(0, 1 << 40, n)
    events = sq.Events(pa.table({"type": ["A", "B"] * (n // 2), "ts": np.arange(n), "x": x, "y": x + 200_000}))
    apart = x[None, 1::2] - x[::2, None]  # a row for every A, a column for every B
    close = (apart > 0) & (apart < 200_000)
    both = "(A a, B b, a.x < b.x, b.x < a.y) WITHIN 100000"
    assert len(sq.run(f"SEQ{both}", events)) == np.triu(close).sum() > 0
    assert len(sq.run(f"AND{both}", events)) == close.sum() > 0


def test_every_moment_is_counted_before_it_is_made() -> None:
    far = sq.Events(pa.table({"type": ["A", "B"], "ts": pa.array([0, 10**18])}))
    with pytest.raises(sq.LimitError, match="max_state_bytes"):
        sq.run("PATTERN SEQ(A a, B b) AGG COUNT EMIT EVERY 1 ms WITHIN 10 ms", far)


@pytest.mark.parametrize(
    "clauses", ["AGG COUNT", "AGG COUNT GROUP BY a.x", "AGG COUNT GROUP BY a.x EMIT EVERY 10 ms", "AGG SUM(a.x) EMIT TOTAL"]
)
def test_aggregates_are_never_cut_short(clauses: str) -> None:
    """A number over some of the matches would be wrong; rows past the limit may go."""
    events = sq.Events(stream(600, "AB").table.append_column("x", pa.array(np.arange(600) % 50)))
    query = f"PATTERN SEQ(A a, B b, b.x >= a.x) {clauses} WITHIN 500"
    whole = sq.run(query, events).table
    assert sq.run(query, events, max_matches=3, on_limit="truncate").table.equals(whole.slice(0, 3))
    plan = prepare(query, events, strategy="two-step")
    assert isinstance(plan, AggregatePlan)
    if "GROUP BY" in clauses:
        with pytest.raises(sq.LimitError, match="max_state_bytes"):
            Aggregator(plan, Limits(max_state_bytes=10_000, on_limit="truncate")).run(events)


def test_steps_of_a_stream_are_limited() -> None:
    plan = prepare("SEQ(A a, B b) WITHIN 100000", stream(10))
    assert isinstance(plan, MatchPlan)
    matcher = Matcher(plan, Limits(max_matches=1_000))
    state, _ = matcher.step(matcher.start(), stream(100))
    with pytest.raises(sq.LimitError, match="max_matches"):
        matcher.step(state, sq.Events(pa.table({"type": ["B", "A"] * 100, "ts": np.arange(200, 400)})))
    with pytest.raises(sq.LimitError, match="max_matches"):
        matcher.run(stream(1_000))


@pytest.mark.parametrize("strategy", ["chase", "top-down", "bottom-up"])
def test_shared_matches_are_limited(strategy: str) -> None:
    workload = {"long": "SEQ(A a, B b, C c) WITHIN 10000", "short": "SEQ(A a, B b) WITHIN 10000", "alone": "SEQ(E e, F f) WITHIN 9"}
    with pytest.raises(sq.LimitError):
        sq.run(workload, stream(3_000), strategy=strategy, max_state_bytes=10_000_000)
    cut = sq.run(workload, stream(300), strategy=strategy, max_matches=20, on_limit="truncate")
    assert [len(result) for result in cut.values()] == [20, 20, 20]
    assert all(result.truncated for result in cut.values())


@pytest.mark.parametrize(
    "wrong", [{"max_matches": -1}, {"max_matches": 1.5}, {"max_seconds": "1"}, {"max_state_bytes": True}, {"on_limit": "stop"}]
)
def test_limits_that_are_none(wrong: dict[str, object]) -> None:
    with pytest.raises(sq.PlanError, match=next(iter(wrong))):
        sq.run("SEQ(A a) WITHIN 1", stream(6), **wrong)  # type: ignore[call-overload]


def test_limits_may_be_given_as_one_thing() -> None:
    query, events = "SEQ(A a, B b) WITHIN 1000", stream(60, "AB")
    few = sq.Limits(max_matches=100)
    with pytest.raises(sq.LimitError, match=r"more than 100 rows \(max_matches\)"):
        sq.run(query, events, limits=few)
    cut = sq.run({"q": query}, events, limits=sq.Limits(max_matches=100, on_limit="truncate"))["q"]
    assert (len(cut), cut.truncated is not None) == (100, True)
    rule = sq.Rule("A -> B", "C", 100, 200, 0.5)
    with pytest.raises(sq.LimitError, match="the forecast was stopped after 9 rows"):
        sq.forecast(rule, numbers(3_000), limits=sq.Limits(max_matches=9))


@pytest.mark.parametrize(
    ("wrong", "error", "said"),
    [
        ({"limits": LIMITS, "max_matches": 5}, sq.PlanError, "limits= and max_matches= are both given"),
        ({"limits": {"max_matches": 5}}, sq.ArgumentError, "limits is a dict"),
        ({"max_rows": 5}, TypeError, "max_rows"),
    ],
)
def test_limits_that_cannot_be_meant(wrong: dict[str, Any], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        sq.run("SEQ(A a) WITHIN 1", stream(6), **wrong)
    with pytest.raises(error, match=said):
        sq.forecast([], stream(6), **wrong)


def test_only_a_run_is_cut_short() -> None:
    with pytest.raises(sq.PlanError, match=r"only what sq\.run finds can be cut short"):
        sq.forecast([], stream(6), limits=sq.Limits(on_limit="truncate"))


# ---------------------------------------------------------------- batches


def test_an_explosion_comes_in_batches() -> None:
    """A window of 100,000 events and six types: some 10 to the power of 22 matches."""
    events = stream(100_000)
    result = sq.run(SIX, events)
    taken = list(itertools.islice(result.batches(), 40))
    assert sum(batch.num_rows for batch in taken) == 40 * results.BATCH_ROWS
    assert re.match(r"[\d,]{27,} rows\nstart  end  a_type", repr(result))
    rows = {tuple(event["ts"] for event in list(row.values())[2:]) for row in taken[-1].to_pylist()}
    assert len(rows) == results.BATCH_ROWS
    assert all(list(row) == sorted(row) and [ts % 6 for ts in row] == [0, 1, 2, 3, 4, 5] for row in rows)


def test_an_explosion_is_counted() -> None:
    (row,) = sq.run(f"PATTERN {SIX} AGG COUNT EMIT TOTAL", stream(99_996)).table.to_pylist()
    rounds = 99_996 // 6  # six numbers of rounds that never fall: combinations with repetition
    expected = 1
    for k in range(6):
        expected = expected * (rounds + k) // (k + 1)
    assert int(row["count"]) == expected > 10**21


@given(text=queries(), events=streams())
def test_batches_hold_what_the_table_holds(text: str, events: list[oracle.Event]) -> None:
    result = sq.run(text, table(events))
    before = results.EAGER_ROWS
    results.EAGER_ROWS = 1
    try:
        lazy = sq.run(text, table(events))
        batches = list(lazy.batches())
    finally:
        results.EAGER_ROWS = before

    def rows(found: list[dict[str, object]]) -> list[dict[str, object]]:
        return [{name: str(value) for name, value in row.items()} for row in found]

    assert len(batches) >= 1
    assert counted(rows(pa.Table.from_batches(batches).to_pylist())) == counted(rows(result.table.to_pylist()))
    assert counted(rows(lazy.table.to_pylist())) == counted(rows(result.table.to_pylist()))


def test_no_rows_are_one_batch_with_columns() -> None:
    (batch,) = sq.run("SEQ(A a, Z z) WITHIN 5", stream(12)).batches()
    assert (batch.num_rows, batch.schema.names) == (0, ["start", "end", "a", "z"])
    (row,) = sq.run("PATTERN SEQ(A a, Z z) AGG COUNT EMIT TOTAL WITHIN 5", stream(12)).batches()
    assert row.to_pylist() == [{"count": 0}]


@pytest.mark.usefixtures("small_steps")
def test_a_result_travels_whole() -> None:
    result = sq.run("SEQ(A a, B b) WITHIN 1000", stream(60), max_matches=50, on_limit="truncate")
    copy = pickle.loads(pickle.dumps(result))
    assert copy.table.equals(result.table)
    assert copy.truncated == result.truncated is not None


@pytest.mark.usefixtures("small_steps")
def test_two_threads_take_one_result() -> None:
    result = sq.run("SEQ(A a, B b) WITHIN 100000", stream(2_000, "AB"))
    lengths: list[int] = []
    threads = [threading.Thread(target=lambda: lengths.append(len(result))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert lengths == [pairs(2_000)] * 4
