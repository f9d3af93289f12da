"""STDDEV and VARIANCE are exact where nearly everything cancels, by every strategy and however a stream is cut."""

from __future__ import annotations

import math
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from random import Random
from statistics import stdev, variance
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import seqube as sq
from seqube.engine.aggregates.aggregation import Aggregator
from seqube.engine.aggregates.measured import WORD, Measured
from seqube.engine.aggregates.measures import _multiples, _squared
from seqube.language import parse
from seqube.plan.aggregates import plan_aggregates
from seqube.plan.strategies import names
from steps import feed

QUERY = "SEQ(A a, B b) WITHIN 1000000 AGG VARIANCE(b.x), STDDEV(b.x) EMIT TOTAL"
STRATEGIES = names("aggregates")


def stream(values: Any, kind: pa.DataType | None = None) -> pa.Table:
    """An A, and then a B for every value: one match each."""
    types = ["A", *("B" for _ in values)]
    return pa.table({"type": types, "ts": range(len(types)), "x": pa.array([None, *values], kind)})


def spread(values: Any, kind: pa.DataType | None = None, strategy: str = "auto") -> tuple[Any, Any]:
    (row,) = sq.run(QUERY, stream(values, kind), strategy=strategy).table.to_pylist()
    return row["variance_b_x"], row["stddev_b_x"]


COLUMNS: dict[str, tuple[list[Any], pa.DataType]] = {
    "small": ([3, 5, 8, 13], pa.int64()),
    "far from zero": ([10**18 + 1, 10**18 + 2, 10**18 + 4], pa.int64()),
    "of 64 bits": ([-(2**63), 2**63 - 1, 5, -7], pa.int64()),
    "without a sign": ([2**64 - 1, 2**64 - 2, 2**63, 1], pa.uint64()),
    "decimals": ([Decimal("0.10"), Decimal("0.30"), Decimal("-1.25")], pa.decimal128(10, 2)),
    "wide decimals": ([Decimal(10**30 + n) for n in (1, 2, 4)] + [-Decimal(10**30)], pa.decimal128(38, 0)),
    "doubles": ([0.1, 0.2, 0.4, -17.25], pa.float64()),
    "doubles far from zero": ([1e9 + n / 10 for n in (1, 2, 4)], pa.float64()),
    "large doubles and small ones": ([1e12, 1e-3, 0.25, 3e-6], pa.float64()),
    "tiny doubles": ([1e-100, 3e-100, -2e-100], pa.float64()),
    "the same double": ([0.1] * 7, pa.float64()),
}


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("name", COLUMNS)
def test_exact_up_to_the_last_digits(name: str, strategy: str) -> None:
    values, kind = COLUMNS[name]
    exact = [Fraction(value) for value in values]
    found = spread(values, kind, strategy)
    assert found == (pytest.approx(float(variance(exact)), rel=1e-15), pytest.approx(math.sqrt(variance(exact)), rel=1e-15))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_group_of_small_numbers_beside_one_of_large_ones(strategy: str) -> None:
    """Doubles of one column, whose squares differ by more digits than a double has."""
    small, large = [0.5, 2.0, 0.25], [2.0**63, 2.0**63 + 2048, 2.0**63 - 1024]
    table = stream([*small, *large]).append_column("g", pa.array([None, *"sss", *"lll"]))
    query = "SEQ(A a, B b) WITHIN 1000000 GROUP BY b.g AGG STDDEV(b.x) AS s EMIT TOTAL"
    rows = {row["b_g"]: row["s"] for row in sq.run(query, table, strategy=strategy).table.to_pylist()}
    assert rows == {"s": pytest.approx(stdev(small), rel=1e-15), "l": pytest.approx(stdev(map(Fraction, large)), rel=1e-15)}


@pytest.mark.filterwarnings("error::RuntimeWarning")  # of infinities, too
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_fewer_than_two_values_and_infinite_ones_are_null(strategy: str) -> None:
    assert spread([], pa.int64(), strategy) == (None, None)
    assert spread([None, 7.5], pa.float64(), strategy) == (None, None)
    assert spread([7.5, math.nan], pa.float64(), strategy) == (None, None)
    assert spread([1.0, 2.0, math.inf], pa.float64(), strategy) == (None, None)
    assert spread([math.inf, -math.inf], pa.float64(), strategy) == (None, None)
    assert spread([1.0, 2.0], pa.float64(), strategy) == (0.5, math.sqrt(0.5))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_deviation_of_durations_is_one(strategy: str) -> None:
    table = stream([timedelta(seconds=n) for n in (2, 4, 6)], pa.duration("ms"))
    (row,) = sq.run("SEQ(A a, B b) WITHIN 99 AGG STDDEV(b.x) AS s EMIT TOTAL", table, strategy=strategy).table.to_pylist()
    assert row == {"s": timedelta(seconds=2)}
    with pytest.raises(sq.QueryError, match=r"VARIANCE of b\.x \(a duration\)") as refused:
        sq.run("SEQ(A a, B b) WITHIN 99 AGG VARIANCE(b.x) EMIT TOTAL", table, strategy=strategy)
    assert refused.value.hint == "VARIANCE takes numbers"


@pytest.mark.parametrize("kind", [pa.int64(), pa.float64(), pa.decimal128(24, 3)])
@pytest.mark.parametrize("grouped", [False, True])
def test_totals_of_pieces_are_those_of_the_whole(kind: pa.DataType, grouped: bool) -> None:
    random = Random(4)
    values = [10**6 + random.randint(-50, 50) for _ in range(60)]
    table = stream(values, pa.int64()).cast(pa.schema([("type", pa.string()), ("ts", pa.int64()), ("x", kind)]))
    table = table.append_column("g", pa.array([random.choice(["p", "q", None]) for _ in range(table.num_rows)]))
    query = QUERY.replace("AGG", "GROUP BY b.g AGG" if grouped else "AGG")
    wanted = {row.pop("b_g", None): row for row in sq.run(query, table).table.to_pylist()}
    assert len(wanted) == (3 if grouped else 1)
    events = sq.Events(table)
    for cut in (1, 2, 17, 60):
        pieces = list(pairwise([*range(0, len(events), cut), len(events)]))
        found = feed(Aggregator(plan_aggregates(parse(query))), events, pieces, watermarks=False).to_pylist()
        assert {row.pop("b_g", None): row for row in found} == {key: pytest.approx(row, rel=1e-12) for key, row in wanted.items()}


@pytest.mark.parametrize("name", COLUMNS)
def test_squares_of_any_width(name: str) -> None:
    values, kind = COLUMNS[name]
    column = Measured.of(pa.array(values, kind))
    exponent, column = (0, column) if column.is_whole else _multiples(column)
    squares = _squared(column)
    scale = 10**kind.scale if pa.types.is_decimal(kind) else 1
    wanted = [(Fraction(value) * scale / Fraction(2) ** exponent) ** 2 for value in values]
    found = [sum(int(word[row]) << (WORD * k) for k, word in enumerate(squares.words)) for row in range(len(values))]
    if name != "large doubles and small ones":
        assert found == wanted
    for prime in (2147483647, 2147483629):
        assert squares.modulo(prime).tolist() == [number % prime for number in found]
    assert squares.modulo(None).astype(np.uint64).tolist() == [number % 2**64 for number in found]
    assert max(found) <= squares.largest * (1 + 1e-12)
