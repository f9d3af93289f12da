"""Walks over trees: every kind of node is known to them, and nothing below a node is left out."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any, get_args

import pytest
from hypothesis import given
from query_trees import queries

from seqube.language import mentions, tree
from seqube.language.tree import Attribute, Node, Query, children, rebuilt, renaming, transform, transform_query, walk


def below(node: Any) -> list[Any]:
    """What stands below a node by its fields alone."""
    values = [getattr(node, field.name) for field in fields(node)]
    items = [item for value in values for item in (value if isinstance(value, tuple) else (value,))]
    return [item for item in items if is_dataclass(item) and type(item) in get_args(Node)]


def everything(query: Query) -> list[Any]:
    outputs = [output.value for output in (*query.aggregates, *query.returns)]
    return [query.pattern, *query.where, *query.group_by, *query.having, *outputs]


@given(queries())
def test_walks_leave_nothing_out(query: Query) -> None:
    for root in everything(query):
        for node in walk(root):
            assert list(children(node)) == below(node)
            assert rebuilt(node, lambda child: child) is node


@given(queries())
def test_a_transformation_that_changes_nothing_gives_the_same_query(query: Query) -> None:
    assert transform_query(query, lambda node: node) == query


@given(queries())
def test_renaming_there_and_back(query: Query) -> None:
    names = {leaf.variable: f"new {leaf.variable}" for leaf in mentions.leaves(query.pattern) if leaf.variable is not None}
    renamed = transform_query(query, renaming(names))
    assert {leaf.variable for leaf in mentions.leaves(renamed.pattern)} == set(names.values())
    assert transform_query(renamed, renaming({new: old for old, new in names.items()})) == query


def test_children_are_transformed_before_their_parents() -> None:
    seen: list[str] = []

    def note(node: Any) -> Any:
        seen.append(type(node).__name__)
        return node

    transform(tree.Comparison("=", tree.Minus(Attribute("a", "x")), tree.Literal(1)), note)
    assert seen == ["Attribute", "Minus", "Literal", "Comparison"]


def test_what_is_no_node_is_refused() -> None:
    with pytest.raises(AssertionError, match="Span"):
        children(tree.Span(1, 1))  # type: ignore[arg-type]
