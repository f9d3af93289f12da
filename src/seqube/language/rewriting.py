"""How the binder rewrites what was drafted: predicates into conjuncts, chains into comparisons, leaves into what they stand for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise

from seqube.errors import Span
from seqube.language import tree
from seqube.language.mentions import variables_of
from seqube.language.tree import Aggregate, Attribute, Node, Predicate, Type, Value

NamedLeaf = Attribute | Aggregate | tree.Prev  # what stands for something that has to be looked up


def split_conjuncts(predicate: Predicate) -> Iterator[Predicate]:
    """The conjuncts of a predicate, with chains opened into comparisons of neighbours."""
    match predicate:
        case tree.AllOf(parts):
            for part in parts:
                yield from split_conjuncts(part)
        case tree.Chain(operands):
            yield from link_neighbours(operands)
        case _:
            yield predicate


def link_neighbours(operands: tuple[Value, ...]) -> Iterator[tree.Comparison]:
    for left, right in pairwise(operands):
        at = left.at
        if left.at and right.at and left.at.line == right.at.line:
            at = Span(left.at.line, left.at.column, right.at.column + right.at.length - left.at.column)
        yield tree.Comparison("=", left, right, at)


def rewrite_leaves(node: tree.N, leaf: Callable[[NamedLeaf], Value]) -> tree.N:
    """The same with every attribute and every function of some events as a whole replaced, and every chain opened."""

    def change(part: Node) -> Node:
        match part:
            case Attribute() | Aggregate() | tree.Prev():
                return leaf(part)
            case tree.Chain(operands, at):
                return tree.AllOf(tuple(link_neighbours(tuple(rewrite_leaves(operand, leaf) for operand in operands))), at)
            case _:
                return tree.rebuilt(part, change)

    return change(node)  # type: ignore[return-value]  # a value stays a value, a predicate a predicate


def values_of_events(
    value: Value,
    clause: str,
    positive: Callable[[Attribute, str], Value],
    is_list: Callable[[str | None], bool],
    fail: Callable[[str, Span | None, str], None],
) -> Value:
    """What a clause takes of the events of a match: attributes of positive variables, and what is made of them."""

    def resolve(leaf: NamedLeaf) -> Value:
        if isinstance(leaf, Attribute) and leaf.variable is not None:
            return positive(leaf, clause)
        word = "PREV" if isinstance(leaf, tree.Prev) else leaf.function if isinstance(leaf, Aggregate) else repr(leaf.name)
        fail(f"{word} stands inside a value of {clause}", leaf.at, "write what is meant of one event: a.x, with its variable")
        return leaf

    found = rewrite_leaves(value, resolve)
    names = sorted(variables_of(found))
    if not names:
        fail(f"a value in {clause} names no event", value.at, "name an attribute: a.x")
    for name in filter(is_list, names if len(names) > 1 else ()):
        fail(f"{name!r} is a list, and stands beside other events", value.at, f"take values of {name!r} alone")
    return found


def with_variables(pattern: tree.N, names: Iterator[str]) -> tree.N:
    """The pattern with these variables on its types, from left to right."""
    if isinstance(pattern, Type):
        return replace(pattern, variable=next(names))
    return tree.rebuilt(pattern, lambda part: with_variables(part, names))
