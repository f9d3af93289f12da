"""Queries from text and from files.

A `*.sqb` file holds one query, or several, each headed by a line `-- name: hygiene`. Every query keeps its line numbers in the
file: its source is the file with everything else blanked out, so a mistake found much later still points into the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache

from seqube.arguments import checked
from seqube.errors import Problem, QueryError
from seqube.language.binder import resolve
from seqube.language.definitions import spell_out
from seqube.language.functions import Kind
from seqube.language.parameters import Params, fill
from seqube.language.parser import draft, in_order
from seqube.language.syntax import without_clause
from seqube.language.tokens import place
from seqube.language.tree import Query
from seqube.language.types import check, mismatches

# Strings, quoted names and comments, so that a header is never found inside a string and a quote never inside a comment.
_PIECES = re.compile(r"""'[^']*'|"[^"]*"|`[^`]*`|--(?P<comment>[^\n]*)""")
_HEADER = re.compile(r"\s*name\s*:(?P<name>.*)", re.IGNORECASE)
_ATTRIBUTE = re.compile(r"\b\d*[^\W\d]\w*\s*\.\s*[^\W\d]")  # from where a word begins: not from each of its letters
_ALONE = "query"  # the name of one that has none
KEPT = 256  # texts that were read last, of so many letters at most
LONGEST_KEPT = 2_000


@checked
def parse(text: str, schema: Mapping[str, Kind] | None = None, params: Params | None = None) -> Query:
    """Parse and bind one query, and give a `Query`; a `QueryError` has every problem found.

    - `text`: the query.
    - `schema`: the columns and their kinds, to check attributes against; by names alone without it. `run` checks them anyway.
    - `params`: values for its parameters (`:limit`), by name; those without one stay until the query is run.

    >>> query = sq.parse("SEQ(Card c, !Recharge r, Withdrawal w, [id]) WITHIN 5 min")
    >>> query.window
    Window(length=300000000, unit='us')
    """
    try:
        query, problems = (_resolved if len(text) > LONGEST_KEPT else _kept)(text)
    except QueryError as error:
        raise QueryError(in_order(_with_those_elsewhere(text, error.problems[0], schema, params)), text) from None
    query = fill(query, params or {})
    if wrong := in_order([*problems, *mismatches(spell_out(query), schema)]):
        raise QueryError(wrong, text)
    return query


def _resolved(text: str) -> tuple[Query, tuple[Problem, ...]]:
    """A text as a query, and what is wrong in it whatever it is asked of."""
    query, problems = resolve(draft(text), text)
    return query, tuple(problems)


_kept = lru_cache(maxsize=KEPT)(_resolved)  # to read a text takes longer than most queries over few events


def read_query(query: str | Query, schema: Mapping[str, Kind] | None = None, params: Params | None = None) -> Query:
    """A query as it is planned, from a text or a parsed one: with values for parameters, checked, defined types written out."""
    if isinstance(query, str):
        return spell_out(parse(query, schema, params))
    if not isinstance(query, Query):
        raise QueryError(Problem(f"a query is a text or a parsed Query, not a {type(query).__name__}"))
    query = spell_out(fill(query, params or {}))
    check(query, schema)
    return query


def _with_those_elsewhere(
    text: str, unread: Problem, schema: Mapping[str, Kind] | None, params: Params | None
) -> Iterator[Problem]:
    """What cannot be read, and what is wrong in the other clauses, where its own can be left out without making one wrong."""
    rest = without_clause(text, unread.at)
    left_out = text if rest is None else "".join(char for char, kept in zip(text, rest, strict=True) if char != kept)
    hides = _ATTRIBUTE.search(_PIECES.sub("", left_out)) is not None
    where = "query" if rest is None else "clause"
    yield replace(unread, note=f"no other name in this {where} is looked up until this can be read") if hides else unread
    if rest is not None:
        try:
            parse(rest, schema, params)
        except QueryError as more:
            yield from more.problems


def parse_file(text: str) -> dict[str, Query]:
    """The queries of a `*.sqb` file by name; a single query without a name is called `query`."""
    queries, problems = read_file(text)
    if problems:
        raise QueryError([problem for _, problem in problems], text)
    return queries


def read_file(text: str) -> tuple[dict[str, Query], list[tuple[str, Problem]]]:
    """The queries of a file that are right, by name, and all that is wrong, each with the name of its query."""
    headers = []
    for piece in _PIECES.finditer(text):
        header = _HEADER.fullmatch(piece["comment"] or "")
        line_start = text.rfind("\n", 0, piece.start()) + 1
        if header and not text[line_start : piece.start()].strip("\ufeff \t"):
            headers.append((header["name"].strip(), piece.start(), piece.end()))
    problems: list[tuple[str, Problem]] = []
    queries: dict[str, Query] = {}

    def read(name: str, source: str) -> None:
        try:
            queries[name] = parse(source)
        except QueryError as error:
            problems.extend((name, problem) for problem in error.problems)

    if not headers:
        read(_ALONE, text)
        return queries, problems
    stray = _code(text[: headers[0][1]])
    if stray.strip():
        at = place(text, len(stray) - len(stray.lstrip()))
        problems.append(("", Problem("a query stands before the first '-- name:' line", at, "give it a name of its own")))
    first: dict[str, int] = {}
    ends = [start for _, start, _ in headers[1:]] + [len(text)]
    for (name, start, body), end in zip(headers, ends, strict=True):
        at = place(text, start, body - start)
        if not name:
            problems.append((name, Problem("a query without a name", at, "write the name after the colon: -- name: hygiene")))
        elif name in first:
            told = f"two queries are called {name!r} (the first in line {first[name]})"
            problems.append((name, Problem(told, at, "give one another name")))
        first.setdefault(name, at.line)
        if not _code(text[body:end]).strip():
            told = f"there is no query under the name {name!r}"
            problems.append((name, Problem(told, at, "write it below, or remove this line")))
            continue
        read(name, "\n" * (at.line - 1) + text[body:end])
    wrong = {name for name, _ in problems}  # also where only the name is: of two that are called the same, who knows which is meant
    return {name: query for name, query in queries.items() if name not in wrong}, problems


def _code(text: str) -> str:
    """The text with its comments blanked out."""
    return re.sub(r"--[^\n]*|\ufeff", lambda found: " " * len(found[0]), text)
