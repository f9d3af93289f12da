"""Counting without building matches gives what the oracle says: keys, ties, negations everywhere, groups, all reports."""

from __future__ import annotations

import math
from dataclasses import replace
from math import prod

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import oracle
import seqube as sq
from aggregate_queries import COUNTED, applies, assert_same_rows, chains, expected
from answers import show
from seqube.engine.aggregates.aggregation import Aggregator
from seqube.engine.aggregates.measured import PRIMES, from_residues, whole_numbers
from seqube.events import Events
from seqube.language import parse
from seqube.plan.aggregates import plan_aggregates
from steps import feed
from strategies import cuts, streams, table


@pytest.mark.parametrize("strategy", COUNTED)
@given(data=st.data(), text=chains(), events=streams(max_size=18, max_time=12))
def test_counters_equal_the_oracle(strategy: str, data: st.DataObject, text: str, events: list[oracle.Event]) -> None:
    assert_counted(strategy, data, text, events)


@pytest.mark.parametrize("strategy", COUNTED)
@given(data=st.data(), text=chains(both_keys=True), events=streams(max_size=18, max_time=12))
def test_null_keys_in_partitions(strategy: str, data: st.DataObject, text: str, events: list[oracle.Event]) -> None:
    """With every other id null, since by chance two events of one type seldom are without one."""
    events = [replace(event, attributes={**event.attributes, "id": None}) if event.row % 2 else event for event in events]
    assert_counted(strategy, data, text, events)


def assert_counted(strategy: str, data: st.DataObject, text: str, events: list[oracle.Event]) -> None:
    assume(applies(text))
    show(text, events)
    aggregator = Aggregator(replace(plan_aggregates(parse(text)), strategy=strategy))
    stream, wanted = Events(table(events)), expected(text, events)
    assert_same_rows(aggregator.run(stream).to_pylist(), wanted)
    assert_same_rows(feed(aggregator, stream, data.draw(cuts(len(events)))).to_pylist(), wanted)


@given(data=st.data(), events=streams(max_size=24, max_time=16), types=st.lists(st.sampled_from("ABC"), min_size=1, max_size=4))
def test_plain_sequences(data: st.DataObject, events: list[oracle.Event], types: list[str]) -> None:
    """What events add is taken back when they leave the window."""
    key = data.draw(st.sampled_from(["", ", [id]"])) if len(types) > 1 else ""
    by = data.draw(st.sampled_from(["", "", " GROUP BY v0.x", " PARTITION BY s GROUP BY s"]))
    parted, _, grouped = by.rpartition(" GROUP BY ")
    text = f"SEQ({', '.join(f'{name} v{i}' for i, name in enumerate(types))}{key}){parted} WITHIN {data.draw(st.integers(1, 9))}"
    text += f" AGG COUNT(*) AS n{by and f' GROUP BY {grouped}'} EMIT {data.draw(st.sampled_from(['TOTAL', 'PER 3']))}"
    assert_counted("window-product", data, text, events)


@pytest.mark.parametrize(("rounds", "inside"), [(40, 40), (600, 90), (700, 700), (1_500, 1_500), (3_000, 2_000), (7_000, 7_000)])
@pytest.mark.parametrize("emit", ["TOTAL", "PER 1 s"])
def test_counts_of_any_size(emit: str, rounds: int, inside: int) -> None:
    """Of so many rounds of six events, with windows of some of these: below 2^53, in 64 bits, and beyond."""
    events = Events(pa.table({"type": [*"ABCDEF"] * rounds, "ts": np.arange(6 * rounds)}))
    text = f"SEQ(A a, B b, C c, D d, E e, F f) WITHIN {6 * inside} ms AGG COUNT(*) AS n EMIT {emit}"
    found = sq.run(text, events, strategy="window-product").table.column("n").to_pylist()
    assert sum(map(int, found)) == sum(math.comb(min(end, inside) + 4, 5) for end in range(1, rounds + 1))


def test_two_negations_at_one_place() -> None:
    """A12 passes the predicate of one of them only; the other one still cancels."""
    text = "SEQ(A v0, !A v1, !A v2) WHERE v1.x > 0 WITHIN 3 AGG COUNT(*) AS n"
    events = oracle.stream(("A", 10, {"x": -2}), ("A", 12, {"x": 0}))
    for strategy in COUNTED:
        aggregator = Aggregator(replace(plan_aggregates(parse(text)), strategy=strategy))
        assert aggregator.run(Events(table(events))).to_pylist() == [{"ts": 10, "n": 1}, {"ts": 12, "n": 1}]


@pytest.mark.parametrize("strategy", ["auto", "two-step", *COUNTED])
@pytest.mark.parametrize(
    ("query", "events", "wanted"),
    [
        ("SEQ(A a, !B b, [id]) PARTITION BY s WITHIN 10 GROUP BY s", "A0p A1q", [(0, "p", 1), (1, "q", 1)]),
        ("SEQ(A a, !B b, [id]) PARTITION BY s WITHIN 10 GROUP BY s EMIT TOTAL", "A0p A1q A2q", [("p", 1), ("q", 2)]),
        ("SEQ(A a, !B b, [id]) PARTITION BY s WITHIN 10 GROUP BY s EMIT EVERY 2", "A1p A2q", [(2, "p", 1), (2, "q", 1)]),
        ("SEQ(A a, !B b, [id]) PARTITION BY s WITHIN 10 GROUP BY a.s EMIT TOTAL", "A0p A1q A2q", [("p", 1), ("q", 2)]),
        ("SEQ(A a, !B b, !C c, b.id = a.id) PARTITION BY s WITHIN 10 EMIT EVERY 1", "A0p A1q C2q", [(0, 1), (1, 2), (2, 1)]),
        ("SEQ(A a, !B b, !C c, b.id = a.id) PARTITION BY s WITHIN 10 EMIT TOTAL", "A0p A1q C2q", [(1,)]),
        ("SEQ(!C c, A a, !B b, b.id = a.id) PARTITION BY s WITHIN 10 EMIT TOTAL", "C0q A1p A2q", [(1,)]),
        ("SEQ(A a, !B b, !C c, b.id = a.id) PARTITION BY s WITHIN 10", "A0p A1q C2q A3p", [(0, 1), (1, 2), (3, 2)]),
    ],
)
def test_null_keys_keep_to_their_partitions(query: str, events: str, wanted: list[tuple[object, ...]], strategy: str) -> None:
    """No event has an id, so nothing tells them apart but the partition."""
    stream = table(oracle.stream(*((word[0], int(word[1]), {"s": word[2]}) for word in events.split())))
    rows = sq.run(f"{query} AGG COUNT(*)", stream, strategy=strategy).table.to_pylist()
    assert sorted(tuple(row.values()) for row in rows) == wanted


@pytest.mark.parametrize("strategy", COUNTED)
def test_counts_beyond_64_bits_are_exact(strategy: str) -> None:
    """n events of one type hold binomial(n, k) sequences of length k."""
    for n, length in ((60, 4), (400, 9), (2_000, 12), (2_000, 24)):
        stream = Events(pa.table({"type": ["A"] * n, "ts": list(range(n)), "x": [3] * n}))
        parts = ", ".join(f"A v{i}" for i in range(length))
        text = f"SEQ({parts}) WITHIN {n} AGG COUNT(*) AS n, SUM(v0.x) AS s, AVG(v0.x) AS a EMIT TOTAL"
        (row,) = Aggregator(replace(plan_aggregates(parse(text)), strategy=strategy)).run(stream).to_pylist()
        assert (int(row["n"]), int(row["s"]), row["a"]) == (math.comb(n, length), 3 * math.comb(n, length), 3.0)
    # At the last trigger all sequences are in the window, too.
    text = f"SEQ({parts}) WITHIN {n} AGG COUNT(*) AS n"
    rows = Aggregator(replace(plan_aggregates(parse(text)), strategy=strategy)).run(stream)
    assert int(rows.column("n")[-1].as_py()) == math.comb(n, length)


def test_more_than_76_digits_are_an_error() -> None:
    stream = Events(pa.table({"type": ["A"] * 3_000, "ts": list(range(3_000))}))
    text = f"SEQ({', '.join(f'A v{i}' for i in range(60))}) WITHIN 3000 AGG COUNT(*) EMIT TOTAL"
    with pytest.raises(sq.DataError, match="76 digits"):
        sq.run(text, stream, strategy="window-product")


EDGES = [0, 1, 2**31, 2**63 - 1, 2**63, 2**64, 10**38 - 1, 10**38, 10**76 - 1, 10**76]


@given(data=st.data(), n_primes=st.integers(1, len(PRIMES)))
def test_whole_numbers_from_what_they_are_modulo_primes(data: st.DataObject, n_primes: int) -> None:
    primes = PRIMES[:n_primes]
    half = (prod(primes) - 1) // 2
    near = st.sampled_from([*EDGES, half, half - 1]).flatmap(lambda edge: st.integers(edge - 1, edge + 1))
    drawn = data.draw(st.lists(near | st.integers(-half, half), max_size=5))
    values = [sign * value for value in drawn for sign in (1, -1) if abs(value) <= half]
    residues = [np.array([value % prime for value in values], np.int64) for prime in primes]
    if any(abs(value) >= 10**76 for value in values):
        with pytest.raises(sq.DataError, match="more than 76 digits"):
            from_residues(residues, primes)
        return
    found = from_residues(residues, primes)
    assert found.type == whole_numbers(values).type
    assert [int(value) for value in found.to_pylist()] == values
