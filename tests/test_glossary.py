"""One word for each idea: what is said, and what things are called, held against `docs/glossary.md`."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from pathlib import Path

import pytest

import seqube as sq
import seqube.spark as sqs
from seqube.spark.streaming.declaration import SINKS
from seqube.spark.streaming.pipeline import METRICS, Counts

ROOT = Path(__file__).resolve().parents[1]
SRC, DOCS = ROOT / "src" / "seqube", ROOT / "docs"
GLOSSARY = DOCS / "glossary.md"
COUNTED = "quarantined"  # the number of rows in the quarantine, as metrics have called it from the first version on


def rows_of(heading: str) -> Iterator[tuple[str, str]]:
    """The rows of the table that has this heading first."""
    table = GLOSSARY.read_text(encoding="utf-8").split(f"| {heading} |", 1)[1].split("\n\n", 1)[0]
    for line in table.splitlines()[2:]:
        first, second = line.strip("| ").split(" | ", 1)
        yield first, second


TERMS = {term: meaning for words, meaning in rows_of("word") for term in words.split(", ")}
RULED_OUT = {word: instead for words, instead in rows_of("not") for word in words.split(", ")}


@cache
def prose_of(path: Path) -> str:
    """What a file says to people: not its names, nor what it quotes as code."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        tokens = tokenize.generate_tokens(io.StringIO(text).readline)
        said = [token.string for token in tokens if token.type in (tokenize.COMMENT, tokenize.STRING) and " " in token.string]
        text = "\n".join(said)
    else:
        text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    return " ".join(re.sub(r"`[^`\n]+`", "", text).replace("#", " ").split()).lower()


def read_by_people() -> Iterator[Path]:
    yield from (ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md"))
    yield from (path for path in sorted(DOCS.rglob("*.md")) if path != GLOSSARY)
    yield from sorted((ROOT / "examples").rglob("README.md"))
    yield from sorted(SRC.rglob("*.py"))


def is_said(word: str, prose: str) -> bool:
    return re.search(rf"\b{re.escape(word)}(s|es)?\b", prose) is not None


@pytest.mark.parametrize("word", RULED_OUT)
def test_words_that_are_ruled_out_are_not_used(word: str) -> None:
    assert [str(path.relative_to(ROOT)) for path in read_by_people() if is_said(word, prose_of(path))] == []


def test_each_word_that_is_ruled_out_has_one_that_is_not() -> None:
    assert not RULED_OUT.keys() & TERMS.keys()
    assert set(RULED_OUT.values()) <= TERMS.keys()
    assert (words := [words for words, _ in rows_of("word")]) == sorted(words)


def test_every_term_is_used() -> None:
    prose = " ".join(map(prose_of, read_by_people()))
    assert [term for term in TERMS if not is_said(term, prose)] == []


def test_what_is_public_is_called_by_the_glossary() -> None:
    """The nouns of the interface, the sinks, and what becomes of a row."""
    classes = [name.lower() for name in sq.__all__ if name[0].isupper() and not name.endswith(("Error", "Warning"))]
    counts = [field.name for field in fields(Counts)]
    assert set(counts) <= METRICS.keys()
    for name in [*classes, *SINKS, *counts]:
        term = {"matches": "match", COUNTED: "quarantine", "queries": "query", "null_keys": "null key"}.get(name, name)
        assert term in TERMS or term.removesuffix("s") in TERMS, name


def test_no_name_is_made_of_words_that_are_ruled_out() -> None:
    names = {*sq.__all__, *sqs.__all__, *public_names(), *METRICS} - {COUNTED}
    wrong = {word.replace(" ", "_").replace("-", "_") for word in RULED_OUT}
    assert [name for name in sorted(names) if any(word in name.lower() for word in wrong - {"subquery"})] == []


# ---------------------------------------------------------------- names of one meaning


@cache
def public_names() -> dict[str, list[str]]:
    """The names at the top of each module, and where they are made."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(SRC.rglob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            match node:
                case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                    names = {name}
                case ast.Assign(targets=targets):
                    names = {name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)}
                case ast.AnnAssign(target=ast.Name(id=name)):
                    names = {name}
                case _:
                    continue
            for name in names:
                place = str(path.relative_to(SRC))
                if not name.startswith("_") and place not in found[name]:
                    found[name].append(place)
    return found


DOORS = {
    "check",
    "explain",
    "explore",
    "forecast",
    "funnel",
    "generate",
    "mine",
    "register",
    "run",
    "sql",
    "warm",
}  # one verb, at several public doors
SAME = {"Cube", "Cuboid", "Floats", "Ints", "Mask", "walk"}  # one meaning, in several packages
# What the engine's loops, the page and the command line call so each for themselves, and what is still to be named apart.
APART = {
    "BEGIN", "END", "Kind", "MODES", "NEXT", "PIECE", "State", "bind", "gather", "holds", "plus", "write",
}  # fmt: skip


def test_names_mean_one_thing() -> None:
    """A name that two modules make is one of those that are known; one that is no longer made twice is taken from the list."""
    twice = {name: places for name, places in public_names().items() if len(places) > 1}
    known = DOORS | SAME | APART
    assert {name: places for name, places in twice.items() if name not in known} == {}
    assert known - twice.keys() == set()


def test_plans_predictions_and_spark_use_no_name_twice() -> None:
    for name in public_names().keys() - DOORS:
        own = [place for place in public_names()[name] if place.split("/")[0] in ("plan", "predict", "spark")]
        assert len(own) <= 1, (name, own)
