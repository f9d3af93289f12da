"""Texts that were read stay read, which does not show in what they mean."""

from __future__ import annotations

import pytest

import seqube as sq
from seqube.errors import QueryError
from seqube.language import files

TEXT = "SEQ(A a, B b, a.x < :most) WITHIN 5 min"


@pytest.fixture(autouse=True)
def _nothing_kept() -> None:
    files._kept.cache_clear()


def test_a_text_is_read_once() -> None:
    assert sq.parse(TEXT) == sq.parse(TEXT)
    assert files._kept.cache_info().hits == 1


def test_parameters_and_columns_are_looked_at_each_time() -> None:
    assert sq.parse(TEXT, params={"most": 1}) != sq.parse(TEXT, params={"most": 2})
    for _ in range(2):
        with pytest.raises(QueryError, match="x"):
            sq.parse(TEXT, schema={"type": "string", "ts": "number"}, params={"most": 1})
    assert sq.parse(TEXT, schema={"type": "string", "ts": "number", "x": "number"}, params={"most": 1})


@pytest.mark.parametrize("text", ["SEQ(A a, B b) WITHIN 5 min RETURN c.x", "SEQ(A a,, B b) WITHIN 5 min"])
def test_what_is_wrong_is_said_each_time(text: str) -> None:
    said = []
    for _ in range(2):
        with pytest.raises(QueryError) as error:
            sq.parse(text)
        said.append(str(error.value))
    assert said[0] == said[1]


def test_long_texts_are_not_kept() -> None:
    long = "SEQ(A a, B b) WITHIN 5 min -- " + "x" * files.LONGEST_KEPT
    assert sq.parse(long) == sq.parse(long)
    assert files._kept.cache_info().currsize == 0


def test_so_many_texts_are_kept_and_no_more() -> None:
    for length in range(1, files.KEPT + 20):
        sq.parse(f"SEQ(A a, B b) WITHIN {length} min")
    assert files._kept.cache_info().currsize == files.KEPT
