"""Notes on a query over certain events: what is not wrong, but is often not what was meant, said before the answer is trusted.

- A type that no event has: its matches are none, or a negation that never cancels. Types of a hierarchy are expected, and quiet.
- EMIT EVERY more often than the window is long: a match is in several rows, and their sum is many times the total.
- A greedy repetition in a NEXT that takes what the part after it waits for, as `ANY+` does: such a query finds nothing.
- `!B x, B b` read as "the next B", where B events share a time: of two that do, neither comes after the other, so both are "next".
  ORDER BY says which is, as far as its columns differ.

Cost: a look at the names of the types; for the last, one pass over the events of that type.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator
from itertools import pairwise

from seqube.events import Events, Hierarchy
from seqube.events.schema import ANY
from seqube.events.times import NOT_TIMESTAMP
from seqube.language.mentions import inner_predicates, leaves, variables_of
from seqube.language.tree import Next, Not, Part, Query, Same, Seq, Type, walk
from seqube.plan.physical import ticks

NEAR, KNOWN = 3, 8  # names shown: the nearest ones, or some of those there are


def notes_on(query: Query, events: Events, hierarchy: Hierarchy | None = None) -> tuple[str, ...]:
    """What a person should know of this query over these events."""
    if not len(events):
        return (_none(events), *_overlapping_rows(query, events))
    present = [name for name, count in events.statistics.counts.items() if count]
    missing = missing_types(query, present, hierarchy)
    return (*missing, *_overlapping_rows(query, events), *_swallowed(query, hierarchy), *_ties(query, events))


def _none(events: Events) -> str:
    if not events.rejected:
        return "there are no events"
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in events.rejected.reasons.items())
    as_text = "; times as text are ISO 8601: '2026-03-29 08:30'" if NOT_TIMESTAMP in events.rejected.reasons else ""
    return f"there are no events: all {events.rejected.count:,} rows were rejected ({reasons}){as_text}"


def missing_types(query: Query, present: Collection[str], hierarchy: Hierarchy | None = None) -> Iterator[str]:
    """Which types of a query are none of those that are there."""
    for name in dict.fromkeys(leaf.name for leaf in leaves(query.pattern)):
        if name != ANY and name not in present and not (hierarchy and name in hierarchy):
            near = _near(name, present)
            others = near or sorted(present)[:KNOWN]
            shown = ", ".join(map(repr, others)) + (", ..." if not near and len(present) > KNOWN else "")
            yield f"no event is of the type {name!r}; {'near it' if near else 'there'} are {shown}"


def _near(name: str, names: Collection[str]) -> list[str]:
    """Names that look like this one, or begin with it, or with which it begins."""
    low = name.casefold()
    kin = [other for other in sorted(names) if other.casefold().startswith(low) or (other and low.startswith(other.casefold()))]
    return list(dict.fromkeys([*kin, *difflib.get_close_matches(name, sorted(names), NEAR)]))[:NEAR]


def _overlapping_rows(query: Query, events: Events) -> Iterator[str]:
    period = query.emit.period if query.emit is not None and query.emit.when == "every" else None
    if period is None or query.window.counts_events:
        return
    if ticks(period, events.unit) < ticks(query.window, events.unit):
        yield (
            "EMIT EVERY is shorter than WITHIN, so the windows overlap: a match is in several rows, and their sum is more than "
            "the total; EMIT PER and EMIT TOTAL count each match once"
        )


def _swallowed(query: Query, hierarchy: Hierarchy | None) -> Iterator[str]:
    """Parts of a NEXT that take whatever the part after them waits for: nothing is taken back, so there is no match."""
    asked = frozenset().union(*map(variables_of, (*query.where, *inner_predicates(query.pattern))))
    for node in walk(query.pattern):
        for part, after in pairwise(each for each in node.parts if not isinstance(each, Not)) if isinstance(node, Next) else ():
            if not (isinstance(part, Type) and isinstance(after, Type)) or part.variable in asked:
                continue
            takes = part.name in (ANY, after.name) or (hierarchy is not None and after.name in hierarchy.covers(part.name))
            if takes and part.quantifier is not None and part.quantifier.most is None and not part.quantifier.reluctant:
                written = f"{part.name}{part.quantifier}"
                yield (
                    f"in this NEXT, {written} takes every {after.name} event too, so that none is left for the part after it and "
                    f"nothing is found; {written}? moves on as soon as one comes"
                )


def _ties(query: Query, events: Events) -> Iterator[str]:
    """Negations that stand before their own type."""
    shared = [predicate.attribute for predicate in query.where if isinstance(predicate, Same)]
    for node in walk(query.pattern):
        if not isinstance(node, Seq):
            continue
        keys = {*shared, *query.partition_by, *(predicate.attribute for predicate in node.where if isinstance(predicate, Same))}
        for name in dict.fromkeys(_next_by_negation(node.parts)):
            share = events.tied(name, sorted({*keys, *query.order_by} & set(events.schema)))
            if share:
                yield (
                    f"'!{name}, {name}' is the next {name} only where no two have the same time, and {share:.1%} of the {name} "
                    "events share theirs with another: neither is after the other, so both count as next; ORDER BY a column that "
                    "says which came first"
                )


def _next_by_negation(parts: tuple[Part, ...]) -> Iterator[str]:
    """Types that stand right after their own negation, however many negations are between."""
    negated: set[str] = set()
    for part in parts:
        if isinstance(part, Not):
            negated |= {part.part.name} if isinstance(part.part, Type) else set()
            continue
        if isinstance(part, Type) and part.name in negated:
            yield part.name
        negated = set()
