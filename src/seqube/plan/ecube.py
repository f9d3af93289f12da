"""The E-Cube hierarchy: which queries of a workload are coarser and finer views of each other.

A `Cuboid` is a query seen as E-Cube sees it: a flat SEQ of types, some negated. One cuboid is coarser than another when its
components can be found in the other in order, each with an equal or coarser type where it is positive and an equal or finer type
where it is negated. With as many components on both sides that is concept refinement, with equal types pattern refinement, else
both. Patterns alone are compared here; whether results can be taken over from one query to another also hangs on windows,
predicates and scopes, and is decided in `derivation`.

Cost: linear in the length of two patterns per pair; only those are looked at of which the finer has something below the type of the
coarser that fewest have. Invariant: the relation is a strict order, so the hierarchy has no cycles.

    Paper                                | Here
    q_k >c q_j (Definition 3)            | refinement(q_k, q_j) == "concept"
    q_k >p q_j (Definition 4)            | refinement(q_k, q_j) == "pattern"
    E-Cube hierarchy (Definition 5)      | Lattice
    E-cuboid (Definition 6)              | Cuboid, and its matches
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any
from typing import Literal as OneOf

from seqube.events import Hierarchy
from seqube.events.schema import ANY
from seqube.language.mentions import variables_of
from seqube.language.tree import Not, Predicate, Query, Seq, Type, renaming, transform
from seqube.language.writer import quote
from seqube.plan.rewrite import conjuncts, rooted

RefinedBy = OneOf["concept", "pattern", "both"]
_Seen = list[tuple[str, bool, frozenset[str]]]


@dataclass(frozen=True, slots=True)
class Component:
    """A type in a SEQ, with the types of events it stands for."""

    name: str
    variable: str
    negated: bool
    types: frozenset[str]

    def __str__(self) -> str:
        return "!" * self.negated + quote(self.name)


@dataclass(frozen=True, eq=False)  # each is itself only: a key of what is known of it, without looking through all of it
class Cuboid:
    """A query as a flat SEQ. `predicates` are conjuncts over its variables, each naming at most one negated one."""

    query: Query
    components: tuple[Component, ...]
    predicates: tuple[Predicate, ...] = ()

    def __str__(self) -> str:
        return f"SEQ({', '.join(map(str, self.components))})"

    @cached_property
    def positives(self) -> tuple[Component, ...]:
        return tuple(component for component in self.components if not component.negated)

    @cached_property
    def gaps(self) -> tuple[tuple[Component, ...], ...]:
        """What is negated before the first positive component, between each two, and after the last."""
        found: list[list[Component]] = [[]]
        for component in self.components:
            if component.negated:
                found[-1].append(component)
            else:
                found.append([])
        return tuple(map(tuple, found))

    @cached_property
    def positive_predicates(self) -> tuple[Predicate, ...]:
        negated = {component.variable for component in self.components if component.negated}
        return tuple(predicate for predicate in self.predicates if not variables_of(predicate) & negated)

    def predicates_on(self, variable: str) -> tuple[Predicate, ...]:
        return tuple(predicate for predicate in self.predicates if variable in variables_of(predicate))

    def renamed(self, names: Mapping[str, str]) -> Cuboid:
        """The same with other variables."""
        components = tuple(replace(part, variable=names.get(part.variable, part.variable)) for part in self.components)
        return Cuboid(self.query, components, tuple(transform(predicate, renaming(names)) for predicate in self.predicates))


def cuboid_of(query: Query, hierarchy: Hierarchy | None = None) -> Cuboid | str:
    """The query as a cuboid, or why it is none."""
    if query.aggregates:
        return "it returns aggregates, which need no matches of other queries"
    if query.order_by or query.skip is not None:
        return "its matches depend on the order of events with equal times, or of matches"
    if query.is_distinct or query.limit is not None:
        return f"{'RETURN DISTINCT' if query.is_distinct else 'LIMIT'} leaves out rows, which other queries may need"
    pattern = rooted(query)
    if isinstance(pattern, Type):
        pattern = Seq((pattern,))
    if not isinstance(pattern, Seq):
        return "its pattern is not a SEQ"
    components: list[Component] = []
    predicates = list(pattern.where)
    for part in pattern.parts:
        inner = part.part if isinstance(part, Not) else part
        if isinstance(inner, Seq) and len(inner.parts) == 1:  # a negated type with predicates of its own
            predicates += inner.where
            inner = inner.parts[0]  # type: ignore[assignment]
        if not isinstance(inner, Type) or inner.variable is None:
            return "a component of its SEQ is an expression"
        if inner.quantifier is not None:
            return "a component of its SEQ is repeated"
        if inner.name == ANY:
            return "a component of its SEQ is ANY, of which no type is told apart"
        types = hierarchy.covers(inner.name) if hierarchy else frozenset({inner.name})
        components.append(Component(inner.name, inner.variable, isinstance(part, Not), types))
    negated = frozenset(component.variable for component in components if component.negated)
    return Cuboid(query, tuple(components), tuple(c for predicate in predicates for c in conjuncts(predicate, negated)))


# ---------------------------------------------------------------- refinement


def refinement(coarse: Cuboid, fine: Cuboid, hierarchy: Hierarchy | None = None) -> RefinedBy | None:
    """How `coarse` is coarser than `fine`, or None where it is not."""
    return _Relation(hierarchy).label(coarse.components, fine.components)


class _Relation:
    """Compares components by name. A component is seen as its name, its sign, and the names at or above it, looked up once."""

    def __init__(self, hierarchy: Hierarchy | None) -> None:
        self._hierarchy = hierarchy
        self._above: dict[str, frozenset[str]] = {}

    def label(self, coarse: tuple[Component, ...], fine: tuple[Component, ...]) -> RefinedBy | None:
        return self.compare(self.seen(coarse), self.seen(fine))

    def seen(self, components: tuple[Component, ...]) -> _Seen:
        return [(part.name, part.negated, self._at_or_above(part.name)) for part in components]

    def compare(self, coarse: _Seen, fine: _Seen) -> RefinedBy | None:
        spare = extra = len(fine) - len(coarse)
        if extra < 0:
            return None
        # Each component takes the earliest finer (or equal) one, which leaves most for the rest.
        at = 0
        for name, negated, above in coarse:
            while True:
                other, other_negated, other_above = fine[at]
                at += 1
                if negated is other_negated and (other in above if negated else name in other_above):
                    break
                spare -= 1
                if spare < 0:
                    return None
        if not extra:
            return "concept" if any(c[0] != f[0] for c, f in zip(coarse, fine, strict=True)) else None
        return "pattern" if _contains(fine, coarse) else "both"

    def _at_or_above(self, name: str) -> frozenset[str]:
        if name not in self._above:
            ancestors = self._hierarchy.ancestors(name) if self._hierarchy is not None and name in self._hierarchy else ()
            self._above[name] = frozenset((name, *ancestors))
        return self._above[name]


def _contains(fine: _Seen, coarse: _Seen) -> bool:
    rest = iter([part[:2] for part in fine])
    return all(part[:2] in rest for part in coarse)


# ---------------------------------------------------------------- the hierarchy of a workload


@dataclass(frozen=True, slots=True)
class Refinement:
    """`coarse` is coarser than `fine`."""

    coarse: str
    fine: str
    label: RefinedBy


@dataclass(frozen=True)
class Lattice:
    """The cuboids of a workload by name, and every refinement between them."""

    cuboids: Mapping[str, Cuboid]
    edges: tuple[Refinement, ...]

    @staticmethod
    def of(cuboids: Mapping[str, Cuboid], hierarchy: Hierarchy | None = None) -> Lattice:
        relation = _Relation(hierarchy)
        seen = [(name, relation.seen(cuboid.components)) for name, cuboid in cuboids.items()]
        below: dict[str, list[int]] = {}  # for each name, the cuboids with a positive component at or below it
        for number, (_, parts) in enumerate(seen):
            for name in frozenset[str]().union(*(above for _, negated, above in parts if not negated)):
                below.setdefault(name, []).append(number)
        edges = []
        for coarse, upper in seen:
            rarest = min((below[name] for name, negated, _ in upper if not negated), key=len)
            for fine, lower in (seen[number] for number in rarest):
                if upper is not lower and (label := relation.compare(upper, lower)):
                    edges.append(Refinement(coarse, fine, label))
        return Lattice(cuboids, tuple(edges))

    @cached_property
    def steps(self) -> tuple[Refinement, ...]:
        """The edges that no path of other edges explains: what is drawn."""
        finer: dict[str, set[str]] = {name: set() for name in self.cuboids}
        for edge in self.edges:
            finer[edge.coarse].add(edge.fine)
        return tuple(
            edge for edge in self.edges if not any(edge.fine in finer[between] for between in finer[edge.coarse] - {edge.fine})
        )

    def lines(self) -> Iterator[str]:
        """The hierarchy as text: every query with those one step finer."""
        steps = self.steps
        for name, cuboid in self.cuboids.items():
            below = [edge for edge in steps if edge.coarse == name]
            yield f"{name}: {cuboid}"
            for number, edge in enumerate(below):
                branch = "└─" if number == len(below) - 1 else "├─"
                yield f"{branch} {edge.label}: {edge.fine} {self.cuboids[edge.fine]}"

    @property
    def graph(self) -> dict[str, Any]:
        """Nodes (id, title, notes) and edges (source: the coarser, target: the finer, label), for drawing."""
        nodes = [{"id": name, "title": name, "notes": [str(cuboid)]} for name, cuboid in self.cuboids.items()]
        return {"nodes": nodes, "edges": [{"source": e.coarse, "target": e.fine, "label": e.label} for e in self.steps]}
