"""Nested queries rewritten into flat ones, as the sliding-views paper's rival does: the baseline of its Figure 23.

A query becomes several whose matches are together its own, each once, where no two events have the same time:

    SEQ in SEQ             its parts, in its place
    AND of single events   a query for each order of them
    !SEQ(A, B, C)          no A; or a first A and no B behind it; or a first A, a first B behind it, and no C behind that
    !AND(A, B)             no A; or a first A and no B before or behind it

So a query grows with what it negates, and doubles with every AND. What has no such form is refused with None: a negated sub-query
with conditions of its own, an AND of sequences. Cost: the number of flat queries, a product over the sub-queries.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, permutations, product

from seqube.language import parse
from seqube.language.tree import And, Not, Part, Pattern, Predicate, Seq, Type
from seqube.language.writer import write

Flat = tuple[Part, ...]  # single events, and single events that are negated


class UnwritableError(Exception):
    """A pattern that no flat ones say."""


def rewritten(text: str) -> list[str] | None:
    """Flat queries that have the matches of a nested one together; None where there are none."""
    query = parse(text)
    try:
        flat = _flat(query.pattern)
    except UnwritableError:
        return None
    conditions = tuple(_conditions(query.pattern))
    return [write(replace(query, pattern=Seq(_named(parts), conditions))) for parts in flat]


def _named(parts: Flat) -> Flat:
    """With a name for every negated event that has none."""
    return tuple(
        Not(replace(part.part, variable=f"no{number}"))
        if isinstance(part, Not) and isinstance(part.part, Type) and part.part.variable is None
        else part
        for number, part in enumerate(parts)
    )


def _conditions(pattern: Pattern) -> Iterator[Predicate]:
    """Those of the operators whose events a match has."""
    if not isinstance(pattern, Type):
        yield from pattern.where
        yield from chain.from_iterable(_conditions(part) for part in pattern.parts if not isinstance(part, Not))


def _flat(part: Part) -> list[Flat]:
    match part:
        case Type():
            return [(part,)]
        case Not():
            return list(_absent(part.part))
        case Seq():
            return [tuple(chain.from_iterable(chosen)) for chosen in product(*map(_flat, part.parts))]
        case And() if all(isinstance(each, Type) for each in part.parts):
            return list(permutations(part.parts))
        case _:
            raise UnwritableError


def _absent(pattern: Pattern) -> Iterator[Flat]:
    """Every way to have no instance of a pattern."""
    if isinstance(pattern, Type):
        yield (Not(pattern),)
        return
    if pattern.where:
        raise UnwritableError
    match pattern:
        case And(parts=(first, second)):
            yield (_no(first),)
            yield (_no(second), _no(first), first, _no(second))
        case Seq() if len(chains := _flat(pattern)) == 1:
            found: Flat = ()
            for part in chains[0]:
                yield (*found, _no(part))
                found = (*found, _no(part), part)
        case _:
            raise UnwritableError


def _no(part: Part) -> Not:
    """A single event, negated; it is named when all are there."""
    if not isinstance(part, Type):
        raise UnwritableError
    return Not(Type(part.name))
