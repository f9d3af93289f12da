"""Tree-to-tree rewrites that keep the meaning and leave less for the planner to know.

    settle_runs   what names events of one NEXT or STRICT alone is written inside it, wherever it was
    spread_same   `[id]` becomes equalities between parts, and between the events of a list, at every level it reaches
    flatten       a SEQ in a SEQ, an OR in an OR, an AND without negation in an AND become one operator
    conjuncts     predicates in negation normal form, split at AND (no NOT, no BETWEEN, no AND at the top) unless that would
                  tear one apart that belongs to a negation

A SEQ nested in a SEQ is the same as its parts written in its place: order is transitive, and the scope of a negation at its
edge is inherited from exactly the neighbour it then stands next to. An AND with a negation is not flattened, since that
negation's scope ends with its own AND.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import combinations, pairwise

from seqube.language.definitions import spell_out
from seqube.language.mentions import inner_predicates, named_before, named_by_event, positives, variables_of
from seqube.language.tree import (
    AllOf,
    Among,
    And,
    AnyOf,
    Attribute,
    Between,
    Comparison,
    ComparisonOp,
    Composite,
    FirstOf,
    Inverse,
    IsNull,
    IsTrue,
    Literal,
    Next,
    Not,
    OfList,
    Or,
    Part,
    Pattern,
    Predicate,
    Prev,
    Query,
    Same,
    Seq,
    Strict,
    Type,
    Value,
    walk,
)

INVERSE_OP: dict[ComparisonOp, ComparisonOp] = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


def rooted(query: Query) -> Pattern:
    """The pattern with WHERE at its root, rewritten; what the planner works on."""
    query = spell_out(query)
    pattern = query.pattern
    if query.where:
        if isinstance(pattern, Type):
            pattern = Seq((pattern,))
        pattern = replace(pattern, where=pattern.where + query.where)
    return settle_runs(flatten_pattern(spread_same(pattern)))


# ---------------------------------------------------------------- the same attribute


def spread_same(pattern: Pattern) -> Pattern:
    """Replace every `Same` by equalities at the operators below it."""
    if isinstance(pattern, Type):
        return pattern
    sames = [predicate for predicate in pattern.where if isinstance(predicate, Same)]
    others = tuple(predicate for predicate in pattern.where if not isinstance(predicate, Same))
    result: Pattern = _rebuilt(pattern, _each(spread_same, pattern.parts), others)
    for same in sames:
        result, _ = _equate(result, same)
    return result


def _equate(pattern: Pattern, same: Same) -> tuple[Pattern, Value]:
    """`pattern` with equalities added that make all its events agree on `same.attribute`, and the value they agree on."""
    if isinstance(pattern, Type):
        return pattern, Attribute(pattern.variable, same.attribute, at=same.at)
    children: list[Part] = []
    positive: list[Value] = []
    negated: list[Value] = []
    for child in pattern.parts:
        inner, value = _equate(child.part if isinstance(child, Not) else child, same)
        children.append(replace(child, part=inner) if isinstance(child, Not) else inner)
        (negated if isinstance(child, Not) else positive).append(value)
    if isinstance(pattern, Or):
        return _rebuilt(pattern, children, pattern.where), FirstOf(tuple(positive))
    repeated = {child.variable for child in pattern.parts if isinstance(child, Type) and child.quantifier is not None}
    told = [OfList("FIRST", value) if isinstance(value, Attribute) and value.variable in repeated else value for value in positive]
    told_by = told[0] if not isinstance(told[0], OfList) else FirstOf(tuple(told))
    if isinstance(pattern, Next | Strict):  # the run itself sees to it that its events agree
        tied = (Comparison("=", value, told_by, at=same.at) for value in negated)
        return _rebuilt(pattern, children, (*pattern.where, same, *tied)), told_by
    # Where a part is absent the others still agree, so all pairs are compared.
    joined = combinations(positive, 2) if repeated else pairwise(positive)
    pairs = [*joined, *((value, told_by) for value in negated)]
    pairs += [(value, Prev(value)) for value in positive if isinstance(value, Attribute) and value.variable in repeated]
    equalities = tuple(Comparison("=", left, right, at=same.at) for left, right in pairs)
    return _rebuilt(pattern, children, pattern.where + equalities), told_by


def settle_runs(pattern: Pattern) -> Pattern:
    """Move every predicate that names events of one NEXT or STRICT alone into it: it is part of the run wherever it is written."""
    runs = [node for node in walk(pattern) if isinstance(node, Next | Strict)]
    if not runs:
        return pattern
    names = {run: frozenset(leaf.variable for leaf in positives(run)) for run in runs}
    moved: dict[Next | Strict, list[Predicate]] = {run: [] for run in runs}
    staying: list[Predicate] = []
    for predicate in inner_predicates(pattern):
        named = variables_of(predicate)
        run = next((run for run in runs if named and named <= names[run]), None)
        if run is None:
            staying.append(predicate)
        else:
            moved[run].append(predicate)

    def settled(part: Part) -> Part:
        if isinstance(part, Type):
            return part
        if isinstance(part, Not):
            return replace(part, part=settled(part.part))  # type: ignore[arg-type]  # a pattern stays one
        kept = tuple(predicate for predicate in part.where if not variables_of(predicate) or predicate in staying)
        own = tuple(moved[part]) if isinstance(part, Next | Strict) else ()
        return _rebuilt(part, map(settled, part.parts), kept + own)

    return settled(pattern)  # type: ignore[return-value]  # a pattern stays one


def _each(rewrite: Callable[[Pattern], Pattern], parts: Iterable[Part]) -> list[Part]:
    """The parts rewritten, under their negations where they have one."""
    return [replace(part, part=rewrite(part.part)) if isinstance(part, Not) else rewrite(part) for part in parts]


def _rebuilt(operator: Composite, parts: Iterable[Part], where: tuple[Predicate, ...]) -> Composite:
    return replace(operator, parts=tuple(parts), where=where)  # type: ignore[arg-type]  # a rewrite adds no negation to an OR


# ---------------------------------------------------------------- nesting


def flatten_pattern(pattern: Pattern) -> Pattern:
    """Operators of one kind inside each other as one, where that means the same; an operator of one part as that part."""
    if isinstance(pattern, Type):
        return pattern
    parts: list[Part] = []
    where = pattern.where
    for child in _each(flatten_pattern, pattern.parts):
        if isinstance(child, Composite) and type(child) is type(pattern) and _splices(child):
            parts.extend(child.parts)
            where += child.where
        else:
            parts.append(child)
    only = parts[0] if len(parts) == 1 and not isinstance(pattern, Next | Strict) else None
    if isinstance(only, Composite):
        return replace(only, where=only.where + where)
    if isinstance(only, Type) and not where and not only.is_optional:
        return only
    return _rebuilt(pattern, parts, where)


def _splices(child: Composite) -> bool:
    """Whether a nested operator of the same kind may be written out in its parent."""
    if isinstance(child, And):
        return not any(isinstance(part, Not) for part in child.parts)
    if isinstance(child, Or):
        return not child.where  # its predicates hold for its own branches only
    return any(not isinstance(part, Not) and not (isinstance(part, Type) and part.is_optional) for part in child.parts)


# ---------------------------------------------------------------- predicates


def conjuncts(
    predicate: Predicate, negated: frozenset[str] = frozenset(), repeated: frozenset[str] = frozenset()
) -> tuple[Predicate, ...]:
    """The predicate as a conjunction of parts without NOT or BETWEEN; three-valued logic gives the same answer.

    A predicate that has no place yet needs `negated` (see `negated_variables`): one that names such a variable is part of that
    negation as a whole, so it is split only where each of its parts names it too. Likewise one that names `repeated` variables is
    asked of every combination of their events: its parts are, by themselves, only where they name the same.
    """
    normal = _normal(predicate, inverted=False)
    if not isinstance(normal, AllOf):
        return (normal,)
    tied = {(bool(variables_of(part) & negated), named_by_event(part) & repeated, named_before(part)) for part in normal.parts}
    return normal.parts if len(tied) == 1 else (normal,)


def negated_variables(pattern: Pattern) -> frozenset[str]:
    """The variables of negated types: all that a predicate can name of a negation that it does not stand in."""
    negated = (node.part for node in walk(pattern) if isinstance(node, Not))
    return frozenset(part.variable for part in negated if isinstance(part, Type) and part.variable is not None)


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
