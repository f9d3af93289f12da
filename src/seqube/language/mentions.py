"""What a tree names: its types and variables, the columns it reads, and how values name the events of a repeated part.

Pure questions over `tree.walk`; nobody takes a tree apart to answer one of them again.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from seqube.language.tree import (
    Attribute,
    Composite,
    Not,
    OfList,
    Part,
    Predicate,
    Prev,
    Quantifier,
    Query,
    Same,
    Type,
    Value,
    children,
    query_nodes,
    walk,
)


def columns_of(query: Query) -> frozenset[str]:
    """The columns that a query names, wherever it does."""
    attributes = (node.name for node in query_nodes(query) if isinstance(node, Attribute))
    same = (node.attribute for node in query_nodes(query) if isinstance(node, Same))
    return frozenset((*query.partition_by, *query.order_by, *attributes, *same))


def leaves(part: Part) -> Iterator[Type]:
    """The types of a pattern from left to right, negated ones included."""
    return (node for node in walk(part) if isinstance(node, Type))


def positives(part: Part) -> Iterator[Type]:
    """The types that a match of `part` binds: those under no negation inside it."""
    if isinstance(part, Type):
        yield part
    elif not isinstance(part, Not):
        for child in part.parts:
            yield from positives(child)


def inner_predicates(part: Part) -> Iterator[Predicate]:
    """The predicates that stand inside the operators of a pattern, however deep."""
    return (predicate for node in walk(part) if isinstance(node, Composite) for predicate in node.where)


def attributes(node: Value | Predicate) -> Iterator[Attribute]:
    """Every attribute that a value or predicate names, from left to right. `Same` names none by itself."""
    return (part for part in walk(node) if isinstance(part, Attribute))


def by_event(node: Value | Predicate) -> Iterator[Attribute]:
    """The attributes that a value or predicate names event by event: not those of a list as a whole."""
    if isinstance(node, Attribute):
        yield node
    elif not isinstance(node, OfList):
        for child in children(node):
            yield from by_event(child)  # type: ignore[arg-type]  # below values and predicates there is nothing else


@lru_cache(maxsize=4096)
def named_by_event(node: Value | Predicate) -> frozenset[str]:
    return frozenset(attribute.variable for attribute in by_event(node) if attribute.variable is not None)


@lru_cache(maxsize=4096)
def named_as_lists(node: Value | Predicate) -> frozenset[str]:
    """The variables whose lists a value or predicate asks for as wholes."""
    return frozenset(part.argument.variable or "" for part in walk(node) if isinstance(part, OfList))


@lru_cache(maxsize=4096)
def named_before(node: Value | Predicate) -> frozenset[str]:
    """The variables of which a value or predicate asks for the event before."""
    return frozenset(part.argument.variable or "" for part in walk(node) if isinstance(part, Prev))


def quantifiers(part: Part) -> dict[str, Quantifier]:
    """The variables of repeated and optional parts of a bound pattern, with how many events they take."""
    return {leaf.variable: leaf.quantifier for leaf in leaves(part) if leaf.quantifier is not None and leaf.variable is not None}


@lru_cache(maxsize=4096)
def variables_of(node: Value | Predicate) -> frozenset[str]:
    """The variables that a value or predicate names."""
    return frozenset(attribute.variable for attribute in attributes(node) if attribute.variable is not None)


def variable_of(node: Value | Predicate) -> str | None:
    """The one variable that a value or predicate names; None for a constant."""
    return next((attribute.variable for attribute in attributes(node)), None)
