"""DEFINE: names that stand for a type with a condition, and what a query means by them.

`DEFINE Big AS Trade WHERE price > 1000` makes a type of those events of a type that meet a condition on their own attributes. A
query keeps its definitions, and says so in its text; `spell_out` writes each such type out as the type it is made of, with its
condition beside it, so that nothing below the language knows of them.

    SEQ(Big a, !Big b)        SEQ(Trade a, !Trade b, a.price > 1000 AND b.price > 1000)
    OR(Big a, Small b)        OR(Trade a, Trade b, TIME(a) IS NULL OR a.price > 1000, TIME(b) IS NULL OR b.price < 10)

The condition stands in the operator whose part the type is: there it belongs to the part alone, or to its negation. In an OR the
variable of another branch is null, and asks for nothing.

Invariant: a query that is planned has been expanded.
"""

from __future__ import annotations

from dataclasses import replace

from seqube.language.tree import (
    TIME_ATTRIBUTE,
    AnyOf,
    Attribute,
    Definition,
    IsNull,
    Node,
    Not,
    Or,
    Part,
    Pattern,
    Predicate,
    Query,
    Type,
    transform,
)


def spell_out(query: Query) -> Query:
    """The query with every defined type written out."""
    if not query.definitions:
        return query
    defined = {definition.name: definition for definition in query.definitions}
    pattern, conditions = _expanded(query.pattern, defined)
    return replace(query, pattern=pattern, where=(*query.where, *conditions), definitions=())


def _expanded(part: Pattern, defined: dict[str, Definition]) -> tuple[Pattern, tuple[Predicate, ...]]:
    """A part with its types written out, and the conditions that the operator around it has to ask."""
    if isinstance(part, Type):
        return _plain(part, defined)
    parts: list[Part] = []
    where = list(part.where)
    for child in part.parts:
        plain, conditions = _expanded(child.part if isinstance(child, Not) else child, defined)
        parts.append(replace(child, part=plain) if isinstance(child, Not) else plain)
        where += [_if_bound(condition, plain) for condition in conditions] if isinstance(part, Or) else conditions
    return replace(part, parts=tuple(parts), where=tuple(where)), ()  # type: ignore[arg-type]  # no negation comes into an OR


def _if_bound(condition: Predicate, plain: Part) -> Predicate:
    assert isinstance(plain, Type)
    return AnyOf((IsNull(Attribute(plain.variable, TIME_ATTRIBUTE, sure=True)), condition), condition.at)


def _plain(part: Type, defined: dict[str, Definition]) -> tuple[Pattern, tuple[Predicate, ...]]:
    conditions: list[Predicate] = []

    def own(node: Node) -> Node:
        return replace(node, variable=part.variable) if isinstance(node, Attribute) else node

    name = part.name
    for definition in reversed(defined.values()):  # each is made of earlier ones alone
        if definition.name == name:
            conditions += [transform(condition, own) for condition in definition.where]
            name = definition.type
    return replace(part, name=name), tuple(conditions)
