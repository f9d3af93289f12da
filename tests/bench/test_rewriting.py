"""Flat queries that a nested one is rewritten into have its matches together, each once."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from bench.rewriting import rewritten
from bench.workloads.nested import summary

import seqube as sq

NESTED = {
    "SEQ(A v, SEQ(B, C), D)": 1,
    "SEQ(A v, AND(B, C), D)": 2,
    "SEQ(A v, AND(B, C), D, AND(E, B b, C c), A a, v.x = a.x)": 12,
    "SEQ(A v, AND(B b, C c, b.x = v.x), D)": 2,
    "SEQ(A v, !SEQ(B, C), D)": 2,
    "SEQ(A v, !SEQ(B, C, E, A a), D)": 4,
    "SEQ(A v, !SEQ(B, SEQ(C, E), A a), D)": 4,
    "SEQ(A v, !AND(B, C), D)": 2,
    "SEQ(A v, !SEQ(B, C), D, !AND(A a, E), B b)": 4,
    "SEQ(A v, !B, SEQ(C, !D, E), A a)": 1,
}


@pytest.mark.parametrize(("pattern", "n_flat"), NESTED.items())
def test_flat_queries_together_have_the_matches_of_the_nested_one(pattern: str, n_flat: int) -> None:
    text = f"PATTERN {pattern} WITHIN 30 EVENTS RETURN v.ts AS begin_ts, v.x AS end_ts"
    flat = rewritten(text)
    assert flat is not None
    assert len(flat) == n_flat
    assert not any("AND" in each or "SEQ" in each.removeprefix("PATTERN SEQ") for each in flat)
    n_found = 0
    for seed in range(3):
        random = np.random.default_rng(seed)
        events = sq.Events(pa.table({"type": random.choice([*"ABCDE"], 120), "ts": range(120), "x": random.integers(0, 3, 120)}))
        whole = sq.run(text, events).table
        assert summary(pa.concat_tables(sq.run(each, events).table for each in flat)) == summary(whole)
        n_found += len(whole)
    assert n_found > 0


@pytest.mark.parametrize(
    "pattern",
    ["SEQ(A a, !SEQ(B b, C, b.x = a.x), D)", "SEQ(A, AND(SEQ(B, C), E), D)", "SEQ(A, !AND(B, C, E), D)", "SEQ(A, OR(B, C), D)"],
)
def test_what_has_no_flat_form_is_refused(pattern: str) -> None:
    assert rewritten(f"{pattern} WITHIN 10") is None
