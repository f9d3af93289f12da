"""Types that are probably misspelt: no event has them, and they look like one that some event has.

Cost: a comparison with every type that is there, for each type of the query that is not.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from seqube.errors import Problem, QueryError
from seqube.events import Hierarchy
from seqube.events.schema import ANY
from seqube.language.mentions import leaves
from seqube.language.tree import Query


def check_types(query: Query, present: Iterable[str], hierarchy: Hierarchy | None) -> None:
    """Refuse a type that no event has when it looks like a misspelling of one that some have.

    A type without events is nothing wrong: a quiet day has no matches. So it is only called unknown when it differs in case alone
    from a type that is there, or in a letter or so of a long name, and the query does not use that other type as well.
    """
    names = set(present) | (set(hierarchy.names) if hierarchy else set())
    used = {leaf.name for leaf in leaves(query.pattern)}
    problems = []
    for leaf in leaves(query.pattern):
        if leaf.name not in (names | {ANY}):
            meant = next((name for name in sorted(names - used) if _looks_like(leaf.name, name)), None)
            if meant is not None:
                problems.append(Problem(f"unknown event type {leaf.name!r}", leaf.at, f"did you mean {meant!r}?"))
    if problems:
        raise QueryError(problems, query.source)


def _looks_like(name: str, other: str) -> bool:
    if name.casefold() == other.casefold():
        return True
    letters = [text.translate({ord(digit): None for digit in "0123456789"}) for text in (name, other)]
    return (
        min(len(name), len(other)) >= 5
        and letters[0] != letters[1]  # sensor1 and sensor2 are two names, not one misspelt
        and difflib.SequenceMatcher(None, name, other).ratio() >= 0.85
    )
