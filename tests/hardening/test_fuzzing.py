"""Whatever a file or a text holds, what comes of it is a result or a documented error; what once was not, is tried again."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardening.fuzzing import CORPUS, READERS, Fault, attempt, cases, fuzz, seeds
from seqube.errors import QueryError
from seqube.language import parse


@pytest.mark.parametrize("case", sorted(CORPUS.iterdir()), ids=lambda path: path.name)
def test_past_faults(case: Path, tmp_path: Path) -> None:
    outcome = attempt(case.name.split("-")[0], case.read_bytes(), tmp_path / "case")
    assert not isinstance(outcome, Fault), outcome
    assert outcome != "read"


@pytest.mark.parametrize("kind", READERS)
def test_valid_texts_are_read(kind: str, tmp_path: Path) -> None:
    """The mutations start from something: most of the texts are right."""
    outcomes = [attempt(kind, text.encode(), tmp_path / "case") for text in seeds(kind)]
    assert outcomes.count("read") >= len(outcomes) - 1


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


def test_hostile_texts() -> None:
    came, faults = fuzz(2_500, seed=0)
    assert not faults, [(fault.data, fault.error, fault.trace) for fault in faults]
    assert all(came[kind, "read"] > 10 for kind in READERS)  # not all of them fail at their first word
    assert came.total() - sum(count for (_, outcome), count in came.items() if outcome == "read") > 1_000


@given(kind=st.sampled_from(sorted(READERS)), data=st.binary(max_size=200))
def test_any_bytes(kind: str, data: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    outcome = attempt(kind, data, tmp_path_factory.getbasetemp() / "bytes")
    assert not isinstance(outcome, Fault), outcome


def test_a_fault_would_be_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(data: bytes, _: Path) -> None:
        raise RecursionError(data)

    monkeypatch.setitem(READERS, "query", crash)
    assert isinstance(attempt("query", b"A WITHIN 5", tmp_path / "case"), Fault)
    assert fuzz(20, seed=1)[1]


def test_a_seed_makes_the_same_inputs() -> None:
    assert list(cases(200, seed=5)) == list(cases(200, seed=5)) != list(cases(200, seed=6))
