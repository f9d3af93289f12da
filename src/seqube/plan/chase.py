"""Chase: which query of a workload is computed by itself, and which from which other, at the least cost in all.

Every query is a vertex, and a virtual ground stands for "by itself". An edge from one query (or the ground) to another weighs what
computing the second from the first is estimated to cost. Each query is computed once, from one source, without going round in
circles: that is a spanning arborescence rooted in the ground, and the cheapest one is the plan (Theorem 1).

An edge that weighs no less than the ground's own is never needed: the ground can take its place without closing a circle. And
circles lie within strongly connected components, so these are solved one by one. What remains is small, often nothing.

Costs are estimated in seconds from the numbers of events by type, the window, and the sizes of results, measured where they are
known (`measured`), else expected for events that come independently of each other. The unit costs were measured on this engine.

    Paper                              | Here
    |S_i| = Rate * TW * P_E            | Estimates.count, over the span, times the window
    Pt (half of all pairs, in order)   | 1 / (n - 1)!: the share of n events of a window that come in the right order
    C_compute(q), Equations 4 to 11    | Estimates.alone, Estimates.derived
    virtual ground v_0                 | GROUND
    Gabow's algorithm                  | networkx.minimum_spanning_arborescence
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import permutations
from typing import NamedTuple

from seqube.errors import PlanError
from seqube.events import Hierarchy
from seqube.language.mentions import variables_of
from seqube.language.tree import Attribute, Comparison, Predicate, Query
from seqube.plan.derivation import Delta, Derivation, Forbid, Join, Keep, Narrow, Widen, narrow, waits, widen
from seqube.plan.ecube import Component, Cuboid, Lattice, RefinedBy, cuboid_of
from seqube.plan.measured import Measurements
from seqube.plan.physical import MatchPlan, Option, ticks
from seqube.plan.planner import plan_matches

GROUND = "\0"  # no query is called that
# Whether a strategy goes down, from coarser queries to finer ones, and up.
DIRECTIONS = {"independent": (False, False), "top-down": (True, False), "bottom-up": (False, True), "chase": (True, True)}
WORTHWHILE = 0.97  # reuse is taken when it is expected to cost less than this share of computing alone


class Units(NamedTuple):
    """Seconds for one of each, as measured."""

    query: float = 4e-4  # planning, arrays and calls, whatever the size
    step: float = 1e-4
    event: float = 2.5e-8  # an instance in a stack, linked
    key: float = 6e-8  # an instance or match that is coded and sorted by a key
    cell: float = 2.7e-9  # one row number of a match, found and written
    copy: float = 1.5e-9  # one row number of a match, taken over
    test: float = 1.6e-9  # a match that is looked at
    lookup: float = 3e-9  # an event or match whose place among others is looked up
    predicate: float = 2e-8  # a match for which a predicate is evaluated
    sort: float = 1.2e-7  # a match that is sorted to be taken once


UNIT_COSTS = Units()

# ---------------------------------------------------------------- what things cost


@dataclass
class Estimates:
    """Sizes and costs for one stream."""

    measured: Measurements
    units: Units = UNIT_COSTS
    _counts: dict[frozenset[str], int] = field(default_factory=dict)
    _sizes: dict[Cuboid, float] = field(default_factory=dict)

    def count(self, types: frozenset[str]) -> int:
        if types not in self._counts:
            self._counts[types] = self.measured.statistics.count(types)
        return self._counts[types]

    def size(self, cuboid: Cuboid, components: Sequence[Component] | None = None) -> float:
        """How many matches to expect, of all components or of some."""
        if components is not None:
            return self._expected(cuboid, components)
        if cuboid not in self._sizes:
            self._sizes[cuboid] = self._expected(cuboid, cuboid.components)
        return self._sizes[cuboid]

    def _expected(self, cuboid: Cuboid, parts: Sequence[Component]) -> float:
        window = cuboid.query.window
        statistics = self.measured.statistics
        span = float(max(statistics.n if window.counts_events else statistics.span, 1))
        length = min(float(ticks(window, self.measured.unit)), span)
        positives = [part for part in parts if not part.negated]
        n = len(positives)
        expected = span * length ** (n - 1) / math.factorial(n - 1)
        for part in parts:
            rate = self.count(part.types) / span
            if part.negated:  # nothing in a gap, whose length is spread as the gaps of n events in a window are
                expected *= math.exp(-rate * length) if n == 1 else 1 / (1 + rate * length / (n - 1))
            else:
                expected *= rate
        for name in cuboid.query.partition_by:
            expected /= self.measured.values(name) ** (n - 1)
        if cuboid.predicates:
            bound = {part.variable for part in positives}
            for predicate in cuboid.predicates:
                if variables_of(predicate) <= bound:
                    expected *= self._share(predicate)
        return expected

    def _share(self, predicate: Predicate) -> float:
        """The share of matches that meet a predicate."""
        if isinstance(predicate, Comparison) and predicate.op == "=":
            name = next((side.name for side in (predicate.left, predicate.right) if isinstance(side, Attribute)), "")
            return 1 / self.measured.values(name)
        return 0.5 if len(variables_of(predicate)) > 1 else 0.3

    def all_sizes(self, cuboids: Mapping[str, Cuboid]) -> dict[str, float]:
        """The sizes of some queries' results: measured, where they were."""
        return {name: self.measured.sizes.get(name, self.size(cuboid)) for name, cuboid in cuboids.items()}

    def alone(self, cuboid: Cuboid, size: float | None = None) -> float:
        """Seconds to compute a query by itself."""
        units, n = self.units, len(cuboid.positives)
        size = self.size(cuboid) if size is None else size
        instances = sum(self.count(part.types) for part in cuboid.components)
        tied = [predicate for predicate in cuboid.positive_predicates if len(variables_of(predicate)) > 1]
        keyed = bool(cuboid.query.partition_by) or len([p for p in tied if isinstance(p, Comparison) and p.op == "="]) >= n - 1 > 0
        cost = units.query + instances * (units.event + units.key * keyed) + size * n * units.cell
        if tied and not keyed:  # chains that the predicates then refuse are walked too
            free = Cuboid(cuboid.query, cuboid.components)
            cost += self.size(free) * 2 * units.test * len(tied)
        return cost

    def derived(self, derivation: Derivation, source: Cuboid, source_size: float, target_size: float) -> float:
        """Seconds to compute a query from another's matches."""
        cost = 0.0
        here, size = source, source_size
        for number, step in enumerate(derivation):
            last = number == len(derivation) - 1
            after = target_size if last else self.size(step.gives) * _ratio(source_size, self.size(source))
            cost += self._narrowed(step, here, size, after) if isinstance(step, Narrow) else self._widened(step, here, size, after)
            here, size = step.gives, after
        return cost

    def least_down(self, source_size: float) -> float:
        """What any way down costs at least."""
        return self.units.step + source_size * self.units.test

    def least_up(self, source: Cuboid, target: Cuboid, label: RefinedBy | None, source_size: float, alone: float) -> float:
        """What any way up costs at least: a delta is computed without the matches taken over.

        Where concepts change, it also goes without the finer events of one component; where components are left out, another
        delta (or a larger one) looks for what they had nothing for.
        """
        least = alone + self.units.step - source_size * len(target.positives) * self.units.cell
        if label != "pattern":
            least -= max(self.count(part.types) for part in source.positives) * (self.units.event + self.units.key)
        return least + self.units.query if label == "both" else least

    def _narrowed(self, step: Narrow, source: Cuboid, size: float, target_size: float) -> float:
        units, cuboid = self.units, step.gives
        have = [slot for slot, taken in enumerate(step.slots) if taken is not None]
        forbidden = {part.scan.variable for part in step.steps if isinstance(part, Forbid)}
        settled = [part for part in cuboid.components if part.negated and part.variable not in forbidden]
        cost = units.step
        scale = _ratio(target_size, self.size(cuboid))
        if step.retyped or step.shorter:
            cost += size * units.test * (1 + 0.5 * len(step.retyped))
            size = min(size, scale * self.size(cuboid, [*settled, *(cuboid.positives[slot] for slot in have)]))
            cost += size * len(have) * units.copy
        elif len(have) < len(source.positives):
            cost += size * len(have) * units.copy
        for part in step.steps:
            match part:
                case Join():
                    cost += units.step + 2 * (min(size, self.measured.statistics.n) + size) * units.lookup
                    if part.key or cuboid.query.partition_by:
                        cost += (size + self.count(part.scan.types)) * units.key * 2
                    have = sorted([*have, part.slot])
                    size = scale * self.size(cuboid, [*settled, *(cuboid.positives[slot] for slot in have)])
                    cost += size * len(have) * units.copy
                case Forbid():
                    cost += units.step + 2 * (min(size, self.measured.statistics.n) + size) * units.lookup + size * units.test
                    cost += target_size * len(have) * units.copy
                case Keep():
                    cost += units.step + size * units.predicate
        return cost

    def _widened(self, step: Widen, source: Cuboid, size: float, target_size: float) -> float:
        units = self.units
        cost = units.step
        if len(step.slots) < len(source.positives):
            cost += size * (units.lookup * 2 + units.test) if step.dropped else size * units.sort
            cost += target_size * len(step.slots) * units.copy
        for delta in step.deltas:
            cost += self._delta(delta, target_size / max(self.size(step.gives), 1e-9))
        return cost

    def _delta(self, delta: Delta, scale: float) -> float:
        size = self.size(delta.cuboid) * scale
        cost = self.alone(delta.cuboid, size)
        if delta.present:
            cost += size * (self.units.lookup * 2 + self.units.test) * len(delta.present)
        return cost


def _ratio(measured: float, expected: float) -> float:
    return measured / expected if expected > 0 else 1.0


# ---------------------------------------------------------------- plans of a workload


planned = lru_cache(maxsize=1024)(plan_matches)


@dataclass(frozen=True, slots=True)
class SharedStep:
    """One query: computed from `source` by `derivation`, or by itself."""

    name: str
    query: Query
    hierarchy: Hierarchy | None
    source: str | None
    derivation: Derivation
    seconds: float  # as estimated
    alone: float  # if it were computed by itself

    @property
    def plan(self) -> MatchPlan:
        return planned(self.query, self.hierarchy)

    @property
    def how(self) -> str:
        if self.source is None:
            return "by itself"
        kinds = "downwards" if isinstance(self.derivation[0], Narrow) else "upwards"
        return f"from {self.source}, {kinds}"


@dataclass(frozen=True)
class SharedPlan:
    """The queries of a workload that can share, in the order in which they are computed."""

    strategy: str
    steps: tuple[SharedStep, ...]
    lattice: Lattice
    apart: Mapping[str, str] = field(default_factory=dict)  # queries that cannot share, and why
    options: tuple[Option, ...] = ()

    @property
    def seconds(self) -> float:
        return sum(step.seconds for step in self.steps)

    @property
    def alone(self) -> float:
        """Seconds if every query were computed by itself."""
        return sum(step.alone for step in self.steps)

    @property
    def reuses(self) -> bool:
        return any(step.source is not None for step in self.steps)

    @property
    def sharing(self) -> SharedPlan:
        """The same for those alone that are made from another's matches, or that others are made from."""
        sources = {step.source for step in self.steps}
        return replace(self, steps=tuple(step for step in self.steps if step.source is not None or step.name in sources))

    @property
    def sources(self) -> dict[str, str | None]:
        return {step.name: step.source for step in self.steps}


class DerivationEdge(NamedTuple):
    """A way to compute `target` from `source`."""

    source: str
    target: str
    derivation: Derivation
    seconds: float


class Chase:
    """Plans one workload again and again, as statistics change; what does not hang on them is worked out once."""

    def __init__(self, queries: Mapping[str, Query], hierarchy: Hierarchy | None = None, streaming: bool = False) -> None:
        found = {name: cuboid_of(query, hierarchy) for name, query in queries.items()}
        self.hierarchy = hierarchy
        self._streaming = streaming
        self.apart = {name: why for name, why in found.items() if isinstance(why, str)}
        self.cuboids = {name: cuboid for name, cuboid in found.items() if isinstance(cuboid, Cuboid)}
        if streaming:
            for name, cuboid in list(self.cuboids.items()):
                if cuboid.gaps[-1] or cuboid.query.window.counts_events:
                    late = "its matches are final only when their window is over"
                    self.apart[name] = late if cuboid.gaps[-1] else "its window counts events"
                    del self.cuboids[name]
        self.lattice = Lattice.of(self.cuboids, hierarchy)
        self._ways: dict[tuple[str, str, bool], tuple[list[Derivation], Iterator[Derivation]]] = {}
        self._pairs = list(self._related())

    def _related(self) -> Iterator[tuple[str, str, RefinedBy | None]]:
        """Coarser and finer queries; of those with equal patterns, each with each (windows and predicates may differ)."""
        yield from ((edge.coarse, edge.fine, edge.label) for edge in self.lattice.edges)
        alike: dict[tuple[tuple[str, bool], ...], list[str]] = {}
        for name, cuboid in self.cuboids.items():
            alike.setdefault(tuple((part.name, part.negated) for part in cuboid.components), []).append(name)
        for names in alike.values():
            yield from ((one, other, None) for one, other in permutations(names, 2))

    def _derivations(self, source: str, target: str, down: bool) -> Iterator[Derivation]:
        """Ways from one query to another, worked out when they are first asked for."""
        key = (source, target, down)
        if key not in self._ways:
            one, other = self.cuboids[source], self.cuboids[target]
            self._ways[key] = [], _downwards(one, other) if down else widen(one, other)
        found, more = self._ways[key]
        yield from list(found)
        for way in more:
            if not (self._streaming and waits(way)):
                found.append(way)
                yield way

    def refuse(self, step: SharedStep) -> None:
        """Plan from now on without this way from one query to another."""
        for down in (True, False):
            found = self._ways.get((step.source or GROUND, step.name, down), ([], None))[0]
            if step.derivation in found:
                found.remove(step.derivation)

    def plan(self, strategy: str, estimates: Estimates) -> SharedPlan:
        """The plan of a strategy, whatever it costs."""
        if strategy not in DIRECTIONS:
            raise PlanError(f"there is no strategy {strategy!r} to share matches by\n  hint: one of {', '.join(DIRECTIONS)}")
        goes_down, goes_up = DIRECTIONS[strategy]
        sizes = estimates.all_sizes(self.cuboids)
        alone = {name: estimates.alone(cuboid, sizes[name]) for name, cuboid in self.cuboids.items()}
        edges: list[DerivationEdge] = []
        for coarse, fine, label in self._pairs if goes_down or goes_up else ():
            down, up = sizes[coarse], sizes[fine]
            limits = {name: WORTHWHILE * alone[name] if strategy == "chase" else math.inf for name in (coarse, fine)}
            upper, lower = self.cuboids[coarse], self.cuboids[fine]
            if goes_down and estimates.least_down(down) < limits[fine]:
                edges += self._cheapest_way(coarse, fine, True, estimates, sizes, limits[fine])
            if goes_up and estimates.least_up(lower, upper, label, up, alone[coarse]) < limits[coarse]:
                edges += self._cheapest_way(fine, coarse, False, estimates, sizes, limits[coarse])
        chosen = cheapest(alone, edges) if strategy == "chase" else _one_way(list(alone), edges)
        return SharedPlan(strategy, self._steps(chosen, alone), self.lattice, self.apart)

    def _cheapest_way(
        self, source: str, target: str, down: bool, estimates: Estimates, sizes: Mapping[str, float], limit: float
    ) -> Iterator[DerivationEdge]:
        """The cheapest way from one query to another, where it costs less than the limit."""
        best: DerivationEdge | None = None
        for way in self._derivations(source, target, down):
            seconds = estimates.derived(way, self.cuboids[source], sizes[source], sizes[target])
            if seconds < limit and (best is None or seconds < best.seconds):
                best = DerivationEdge(source, target, way, seconds)
            if seconds > 1.2 * limit:
                break  # the other order (Equations 8 and 11) will not make up for that
        if best is not None:
            yield best

    def cost(self, plan: SharedPlan, estimates: Estimates) -> float:
        """What a plan is expected to cost under other statistics."""
        sizes = estimates.all_sizes(self.cuboids)
        total = 0.0
        for step in plan.steps:
            if step.source is None:
                total += estimates.alone(self.cuboids[step.name], sizes[step.name])
            else:
                source = self.cuboids[step.source]
                total += estimates.derived(step.derivation, source, sizes[step.source], sizes[step.name])
        return total

    def _steps(self, chosen: Mapping[str, DerivationEdge | None], alone: Mapping[str, float]) -> tuple[SharedStep, ...]:
        """Sources before what is made from them."""
        steps: dict[str, SharedStep] = {}

        def add(name: str) -> None:
            if name in steps:
                return
            edge = chosen[name]
            if edge is not None:
                add(edge.source)
            source, derivation, seconds = (edge.source, edge.derivation, edge.seconds) if edge else (None, (), alone[name])
            query = self.cuboids[name].query
            steps[name] = SharedStep(name, query, self.hierarchy, source, derivation, seconds, alone[name])

        for name in chosen:
            add(name)
        return tuple(steps.values())


def _downwards(coarse: Cuboid, fine: Cuboid) -> Iterator[Derivation]:
    way = narrow(coarse, fine)
    if way is not None:
        yield (way,)


def _one_way(names: Sequence[str], edges: Iterable[DerivationEdge]) -> dict[str, DerivationEdge | None]:
    """The cheapest source for each query, whatever computing it alone would cost.

    Edges of one direction close circles only among queries that ask for the same.
    """
    chosen: dict[str, DerivationEdge | None] = dict.fromkeys(names)
    for edge in sorted(edges, key=lambda edge: edge.seconds):
        above: str | None = edge.source
        while above is not None and above != edge.target:
            upper = chosen[above]
            above = upper.source if upper else None
        if chosen[edge.target] is None and above is None:
            chosen[edge.target] = edge
    return chosen


def cheapest(alone: Mapping[str, float], edges: Iterable[DerivationEdge]) -> dict[str, DerivationEdge | None]:
    """The minimum-cost arborescence: for each query the edge that reaches it, or None where the ground does."""
    import networkx as nx

    into: dict[str, dict[str, DerivationEdge]] = {name: {} for name in alone}
    for edge in edges:
        if edge.seconds < alone[edge.target]:
            into[edge.target][edge.source] = edge
    graph = nx.DiGraph()
    graph.add_nodes_from(alone)
    graph.add_edges_from((edge.source, edge.target) for by_source in into.values() for edge in by_source.values())
    chosen: dict[str, DerivationEdge | None] = {}
    place = {name: number for number, name in enumerate(alone)}
    for component in nx.strongly_connected_components(graph):
        members = sorted(component, key=place.__getitem__)  # a set has another order in every process, and ties go to the first
        # What comes from outside cannot close a circle, so the best of it stands in for the ground.
        outside: dict[str, DerivationEdge | None] = {}
        inside = nx.DiGraph()
        for name in members:
            entering = [edge for edge in into[name].values() if edge.source not in component]
            outside[name] = min(entering, key=lambda edge: edge.seconds, default=None)
            best = outside[name]
            ground = best.seconds if best else alone[name]
            inside.add_edge(GROUND, name, weight=ground)
            within = (edge for edge in into[name].values() if edge.source in component and edge.seconds < ground)
            inside.add_weighted_edges_from((edge.source, name, edge.seconds) for edge in within)
        nearest = {name: min(inside.in_edges(name, data="weight"), key=lambda edge: edge[2])[0] for name in members}
        if not _is_acyclic(nearest):
            nearest = {target: source for source, target in nx.minimum_spanning_arborescence(inside).edges}
        for name, source in nearest.items():
            chosen[name] = into[name][source] if source != GROUND else outside[name]
    return {name: chosen[name] for name in alone}


def _is_acyclic(sources: Mapping[str, str]) -> bool:
    grounded: set[str] = {GROUND}
    for name in sources:
        path = []
        while name not in grounded:
            if name in path:
                return False
            path.append(name)
            name = sources[name]
        grounded.update(path)
    return True
