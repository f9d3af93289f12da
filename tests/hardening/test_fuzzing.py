"""Whatever a file or a text holds, what comes of it is a result or a documented error; what once was not, is tried again."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardening.fuzzing import CORPUS, Fault, Tally, attempt, cases, fuzz, scratch
from hardening.surfaces import SURFACES, Surface
from seqube.errors import QueryError
from seqube.language import parse

WHOLE = ("lines", "request", "rows")  # are answered, whatever they hold; of the others it is known what is right
TEXTS = ("query", "queries", "hierarchy", "rules", "pipeline")


@pytest.mark.parametrize("case", sorted(CORPUS.iterdir()), ids=lambda path: path.name)
def test_past_faults(case: Path) -> None:
    kind = case.name.split("-")[0]
    with scratch() as file:
        outcome = attempt(kind, case.read_bytes(), file)
    assert not isinstance(outcome, Fault), outcome
    assert outcome != "read" or kind in WHOLE or case.name == "sql-quote-that-stays-open"  # DuckDB says so, in its own words


COMPILING = ("sql", "state")  # what others compile every day, or this test alone


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=pytest.mark.slow) if kind in COMPILING else kind for kind in SURFACES if kind != "arguments"]
)
def test_what_is_right_is_read(kind: str) -> None:
    """The changes start from something: most of the seeds are right."""
    seeds = SURFACES[kind].seeds()[:40]
    with scratch() as file:
        outcomes = [attempt(kind, data, file) for data in seeds]
    assert outcomes.count("read") >= 0.7 * len(outcomes), outcomes


def test_thousands_of_problems_make_one_short_message(tmp_path: Path) -> None:
    many = {"rules": "rules:\n" + "- consequent:\n" * 5_000, "query": f"SEQ(A a, B b) WITHIN 5 RETURN {', '.join(['z.q'] * 5_000)}"}
    for kind, text in many.items():
        assert attempt(kind, text.encode(), tmp_path / "case") == "QueryError"
    with pytest.raises(QueryError) as caught:
        parse(many["query"])
    n_problems = len(caught.value.problems)
    assert n_problems >= 5_000
    assert len(str(caught.value)) < 20_000
    assert str(caught.value).endswith(f"... and {n_problems - 50:,} more problems")


@pytest.mark.parametrize(("kind", "inputs"), [("query", 900), *((kind, 350) for kind in TEXTS[1:])])
def test_hostile_texts(kind: str, inputs: int) -> None:
    tally = fuzz(kind, inputs, seed=0)
    assert not tally.faults, tally.faults
    assert tally.came["read"] > 10  # not all of them fail at their first word
    assert tally.came.total() - tally.came["read"] > inputs / 3


@pytest.mark.parametrize(("kind", "inputs"), [("request", 500), ("state", 300), ("rows", 10_000), ("lines", 2_000)])
def test_hostile_bytes(kind: str, inputs: int) -> None:
    tally = fuzz(kind, inputs, seed=0)
    assert not tally.faults, tally.faults
    assert tally.came.total() >= inputs
    assert tally.came["read"] > 0


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "inputs"), [("sql", 3_000), ("arguments", 500)])
def test_hostile_statements_and_arguments(kind: str, inputs: int) -> None:
    test_hostile_bytes(kind, inputs)


@given(kind=st.sampled_from(TEXTS), data=st.binary(max_size=200))
def test_any_bytes(kind: str, data: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    outcome = attempt(kind, data, tmp_path_factory.getbasetemp() / "bytes")
    assert not isinstance(outcome, Fault), outcome


def test_a_fault_would_be_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(data: bytes, _: Path) -> None:
        raise RecursionError(data)

    def hang(data: bytes, _: Path) -> None:
        while True:
            pass

    for read in (crash, hang):
        monkeypatch.setitem(SURFACES, "query", Surface(lambda: [b"A WITHIN 5"], lambda known, _: known[0], read, 1, seconds=1))
        assert isinstance(attempt("query", b"A WITHIN 5", tmp_path / "case"), Fault)
    tally = Tally("query")
    tally.take(b"A WITHIN 5", tmp_path / "case")
    assert (tally.came["fault"], len(tally.faults)) == (1, 1)


def test_a_seed_makes_the_same_inputs() -> None:
    for kind in SURFACES:
        first, again, other = (list(islice(cases(kind, seed), 20)) for seed in (5, 5, 6))
        assert first == again != other
