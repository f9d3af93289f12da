"""Tree-to-tree rewrites that keep the meaning and leave less for the planner to know.

    spread_same   `[id]` becomes equalities between neighbours, at every level it reaches
    flatten       a SEQ in a SEQ, an OR in an OR, an AND without negation in an AND become one operator
    conjuncts     predicates in negation normal form, split at AND: no NOT, no BETWEEN, no AND at the top

A SEQ nested in a SEQ is the same as its parts written in its place: order is transitive, and the scope of a negation at its edge is
inherited from exactly the neighbour it then stands next to. An AND with a negation is not flattened, since that negation's scope ends
with its own AND.
"""

from __future__ import annotations

from dataclasses import replace

from seqube.language.tree import (
    AllOf,
    And,
    AnyOf,
    Attribute,
    Between,
    Comparison,
    ComparisonOp,
    FirstOf,
    Inverse,
    IsNull,
    IsTrue,
    Literal,
    Among,
    Not,
    Or,
    Part,
    Pattern,
    Predicate,
    Query,
    Same,
    Seq,
    Type,
    Value,
)

INVERSE_OP: dict[ComparisonOp, ComparisonOp] = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


def rooted(query: Query) -> Pattern:
    """The pattern with WHERE at its root, rewritten; what the planner works on."""
    pattern = query.pattern
    if query.where:
        if isinstance(pattern, Type):
            pattern = Seq((pattern,))
        pattern = replace(pattern, where=pattern.where + query.where)
    return flatten(spread_same(pattern))


# ---------------------------------------------------------------- [id]


def spread_same(part: Part) -> Part:  # type: ignore[misc]
    """Replace every `Same` by equalities at the operators below it."""
    if isinstance(part, Type):
        return part
    if isinstance(part, Not):
        return replace(part, part=spread_same(part.part))
    part = replace(part, parts=tuple(spread_same(child) for child in part.parts))
    for same in [predicate for predicate in part.where if isinstance(predicate, Same)]:
        part, _ = _equate(part, same)
    return replace(part, where=tuple(predicate for predicate in part.where if not isinstance(predicate, Same)))


def _equate(part: Pattern, same: Same) -> tuple[Pattern, Value]:
    """`part` with equalities added that make all its events agree on `same.attribute`, and the value they agree on."""
    if isinstance(part, Type):
        return part, Attribute(part.variable, same.attribute, at=same.at)
    children: list[Part] = []
    positive: list[Value] = []
    negated: list[Value] = []
    for child in part.parts:
        inner, value = _equate(child.part if isinstance(child, Not) else child, same)
        children.append(replace(child, part=inner) if isinstance(child, Not) else inner)
        (negated if isinstance(child, Not) else positive).append(value)
    if isinstance(part, Or):
        return replace(part, parts=tuple(children)), FirstOf(tuple(positive))
    pairs = [*zip(positive, positive[1:], strict=False), *((value, positive[0]) for value in negated)]
    equalities = tuple(Comparison("=", left, right, at=same.at) for left, right in pairs)
    return replace(part, parts=tuple(children), where=part.where + equalities), positive[0]


# ---------------------------------------------------------------- nesting


def flatten(part: Part) -> Part:  # type: ignore[misc]
    if isinstance(part, Type):
        return part
    if isinstance(part, Not):
        return replace(part, part=flatten(part.part))
    parts: list[Part] = []
    where = part.where
    for child in map(flatten, part.parts):
        if isinstance(child, Seq | And | Or) and type(child) is type(part) and _splices(child):
            parts.extend(child.parts)
            where += child.where
        else:
            parts.append(child)
    if len(parts) == 1 and not isinstance(parts[0], Not):
        (only,) = parts
        if not isinstance(only, Type):
            return replace(only, where=only.where + where)
        if not where:
            return only
    return replace(part, parts=tuple(parts), where=where)


def _splices(child: Seq | And | Or) -> bool:
    """Whether a nested operator of the same kind may be written out in its parent."""
    if isinstance(child, And):
        return not any(isinstance(part, Not) for part in child.parts)
    if isinstance(child, Or):
        return not child.where  # its predicates hold for its own branches only
    return True


# ---------------------------------------------------------------- predicates


def conjuncts(predicate: Predicate) -> tuple[Predicate, ...]:
    """The predicate as a conjunction of parts without NOT or BETWEEN; three-valued logic gives the same answer."""
    normal = _normal(predicate, inverted=False)
    return normal.parts if isinstance(normal, AllOf) else (normal,)


def _normal(predicate: Predicate, inverted: bool) -> Predicate:
    match predicate:
        case Inverse(part):
            return _normal(part, not inverted)
        case AllOf(parts) | AnyOf(parts):
            kind = AllOf if isinstance(predicate, AllOf) != inverted else AnyOf
            flat: list[Predicate] = []
            for part in parts:
                normal = _normal(part, inverted)
                flat.extend(normal.parts if isinstance(normal, kind) else (normal,))
            return kind(tuple(flat), at=predicate.at)
        case Between(operand, low, high, negated):
            bounds = (Comparison(">=", operand, low, at=predicate.at), Comparison("<=", operand, high, at=predicate.at))
            return _normal(AllOf(bounds, at=predicate.at), inverted != negated)
        case Comparison(op, left, right) if inverted:
            return Comparison(INVERSE_OP[op], left, right, at=predicate.at)
        case Among() | IsNull() if inverted:
            return replace(predicate, negated=not predicate.negated)
        case IsTrue(operand) if inverted:
            return Comparison("=", operand, Literal(False), at=predicate.at)
        case _:
            return predicate
