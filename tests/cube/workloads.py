"""Random workloads whose queries are coarser and finer views of each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

import seqube as sq
from strategies import TYPES

Part = tuple[bool, str]  # negated, type

PREDICATES = ["", "", "", "[id]", "{a}.x > 0", "{a}.id = {b}.id", "{a}.x < {b}.x", "{a}.x IN (1, 2) AND {a}.id = {b}.id"]
PREDICATES += ["{n}.x BETWEEN 0 AND 2", "{a}.x BETWEEN 1 AND {n}.x", "NOT ({a}.x < 1 OR {n}.x < 1 OR {b}.id != {n}.id)"]


def above_and_below(hierarchy: dict[str, Any] | None) -> dict[str, list[str]]:
    """For each name, the names above it and those below it."""
    if not hierarchy:
        return {name: [] for name in TYPES}
    tree = sq.Hierarchy.from_dict(hierarchy)
    names = dict.fromkeys([*TYPES, *tree.names])
    return {name: [*tree.ancestors(name), *tree.descendants(name)] if name in tree else [] for name in names}


@st.composite
def workloads(
    draw: st.DrawFn, hierarchy: dict[str, Any] | None, size: int = 4, counted: bool = False, negations: bool = True
) -> dict[str, str]:
    """Queries by name; each but the first is another one after a move or two."""
    near = above_and_below(hierarchy)
    names = list(near)
    patterns: list[list[Part]] = [draw(st.lists(st.tuples(st.just(False), st.sampled_from(names)), min_size=1, max_size=3))]
    while len(patterns) < size:
        pattern = list(draw(st.sampled_from(patterns)))
        for _ in range(draw(st.integers(1, 3))):
            pattern = draw(moved(pattern, near, negations))
        patterns.append(pattern)
    unit = draw(st.sampled_from([" EVENTS"] if counted else ["", " ms"]))
    window = draw(st.sampled_from([3, 4, 6, 8, 12]))
    shared = draw(st.sampled_from(PREDICATES))
    partition = draw(st.sampled_from(["", "", "", "PARTITION BY id "]))
    texts = {}
    for number, pattern in enumerate(patterns):
        predicate = draw(st.sampled_from([shared, shared, shared, draw(st.sampled_from(PREDICATES))]))
        length = draw(st.sampled_from([window, window, window, window + 2]))
        texts[f"q{number}"] = written(pattern, predicate, f"{partition}WITHIN {length}{unit}")
    return texts


@st.composite
def moved(draw: st.DrawFn, pattern: Sequence[Part], near: dict[str, list[str]], negations: bool) -> list[Part]:
    """A pattern with one type replaced by one above or below it, one component more, or one less."""
    parts = list(pattern)
    at = draw(st.integers(0, len(parts) - 1))
    move = draw(st.sampled_from(["concept", "concept", "put in", "put in", "forbid", "take out"]))
    if move == "concept" and near[parts[at][1]]:
        parts[at] = (parts[at][0], draw(st.sampled_from(near[parts[at][1]])))
    elif move == "take out" and len(parts) > 1 and (parts[at][0] or sum(not negated for negated, _ in parts) > 1):
        del parts[at]
    elif len(parts) < 5:
        negated = move == "forbid" and negations
        parts.insert(draw(st.integers(0, len(parts))), (negated, draw(st.sampled_from(list(near)))))
    return parts


def written(parts: Sequence[Part], predicate: str, rest: str) -> str:
    variables = [f"v{number}" for number in range(len(parts))]
    positive = [variable for variable, (negated, _) in zip(variables, parts, strict=True) if not negated]
    absent = next((variable for variable, (negated, _) in zip(variables, parts, strict=True) if negated), positive[-1])
    items = [f"{'!' * negated}{name} {variable}" for variable, (negated, name) in zip(variables, parts, strict=True)]
    if predicate:
        items.append(predicate.format(a=positive[0], b=positive[-1], n=absent))
    return f"SEQ({', '.join(items)}) {rest}"
