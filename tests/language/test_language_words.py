"""The words of the language are one list: the grammar spells no other, and everyone else reads it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from lark.lexer import PatternStr

import seqube
from seqube.language import parse
from seqube.language.functions import FUNCTIONS, PLAIN_CALLS, VALUE_FUNCTIONS
from seqube.language.parser import _parser
from seqube.language.tokens import UNIT_US
from seqube.language.words import CALLED, CLAUSE_WORDS, COLOURED, COUNTED, KEYWORDS, OF_FUNCTIONS, OF_LEVELS, OPERATORS
from seqube.language.writer import write

TERMINALS = {terminal.name: terminal.pattern for terminal in _parser().terminals}


def alternatives(name: str) -> set[str]:
    spelled = re.match(r"\(\?:([a-z_|]+)\)", TERMINALS[name].value, re.IGNORECASE)
    assert spelled is not None
    return set(spelled[1].upper().split("|"))


def test_the_grammar_has_these_keywords() -> None:
    words = {name.lstrip("_"): re.match(r"([a-z]+)\\b", pattern.value) for name, pattern in TERMINALS.items()}
    spelled = {name: found[1].upper() for name, found in words.items() if found is not None}
    assert all(name == word for name, word in spelled.items())
    assert set(spelled) | set(CALLED) == set(KEYWORDS) | set(spelled) & {*OF_FUNCTIONS, *OF_LEVELS}


def test_the_grammar_has_these_operators_and_functions() -> None:
    assert alternatives("OPERATOR") == set(OPERATORS)
    assert alternatives("FUNCTION") == set(FUNCTIONS)


def test_the_grammar_has_these_functions() -> None:
    assert set(TERMINALS["CALLED"].value.split("(?:")[1].split(")")[0].split("|")) == set(PLAIN_CALLS)
    assert {"CASE", "CAST", "EXTRACT"} <= set(TERMINALS)
    assert {name for name in VALUE_FUNCTIONS if " " not in name} <= set(COLOURED)


def test_what_begins_a_clause_does_so_in_the_grammar() -> None:
    begins = {rule.expansion[0].name for rule in _parser().rules if rule.origin.name == "clause"}
    assert begins == set(CLAUSE_WORDS)


@pytest.mark.parametrize("word", [*KEYWORDS, *COUNTED])
def test_a_type_that_is_called_like_a_word_is_written_in_quotes(word: str) -> None:
    query = parse(f'PATTERN "{word}" v WITHIN 9')
    assert write(query).startswith(f'PATTERN "{word}" v\n')
    assert parse(write(query)) == query


def test_the_page_is_told_the_words() -> None:
    """The editor's own file has none."""
    editor = (Path(seqube.__file__).parent / "explorer" / "editor.js").read_text()
    assert not [word for word in KEYWORDS if re.search(rf"\b{word}\b", editor)]


def test_the_page_of_the_language_has_every_word_unit_and_sign() -> None:
    """A new word, unit or sign is not there until it is written down."""
    page = (Path(__file__).resolve().parents[2] / "docs" / "language.md").read_text(encoding="utf-8")
    units = [unit for unit in UNIT_US if unit == "ms" or unit.removesuffix("s") not in UNIT_US]  # the others have an s behind them
    for word in (*COLOURED, *COUNTED, *units):
        assert re.search(rf"(?<!\w){re.escape(word)}(?!\w)", page), word
    signs = {pattern.value for pattern in TERMINALS.values() if isinstance(pattern, PatternStr)}
    signs |= set(TERMINALS["COMPARE"].value.split("|"))
    assert {"||", "%", "==", ";"} <= signs
    assert [sign for sign in signs if sign not in page.replace("\\|", "|")] == []
