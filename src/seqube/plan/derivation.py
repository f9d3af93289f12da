"""How the matches of one query are had from those of another: the six ways of E-Cube's section 5, as frozen data.

Downwards (`Narrow`), every match of the finer query is a match of the coarser one with more to it: its types are looked at
again, what was put in is joined, what must not be there is looked for. Upwards (`Widen`), matches of the finer query lose the
components that were put in, each is taken once, and the rest (the delta) is computed by plans that find exactly what the finer
query could not have:

    coarser SEQ(A, B), finer SEQ(A, M, B)        delta: SEQ(A, !M, B)
    coarser SEQ(A, B), finer SEQ(A, B, M)        delta: SEQ(A, B, !M), whose scope ends with the window, as M's place did
    coarser SEQ(P, Q), finer SEQ(P1, Q1)         deltas: SEQ(P - P1, Q) and SEQ(P1, Q - Q1)
    coarser SEQ(A, B), finer SEQ(A, !N, B)       delta: matches of SEQ(A, B) with an N between them

Several differences are taken one after the other, through queries in between that nobody asked for (Equations 8 and 11).

Reuse is offered only where it is right. The finer query's predicates must imply the coarser one's. A negation of the coarser
query must be implied by one of the finer query that has the same scope: in `SEQ(A, !N, M, B)` the scope of `!N` ends at M, so
its matches are not all matches of `SEQ(A, !N, B)`. A finer query may have a shorter window; upwards, windows and predicates
must be the same.

    Paper                                    | Here
    5.1, 5.2, 5.3 general to specific        | narrow
    5.4, 5.5, 5.6 specific to general        | widen
    checkNegativeE                           | Forbid
    ComputeDeltaResults                      | Widen.deltas
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import islice
from typing import assert_never

from seqube.language.mentions import variables_of
from seqube.language.tree import Attribute, Comparison, Not, Part, Predicate, Query, Seq, Type, Value, renaming, transform
from seqube.plan.ecube import Component, Cuboid
from seqube.plan.physical import (
    Absence,
    MatchAlternatives,
    MatchConjunction,
    MatchPlan,
    MatchRepeat,
    MatchRun,
    MatchSequence,
    PlanNode,
    Scan,
)
from seqube.plan.planner import plan_matches

MAX_EMBEDDINGS = 16  # ways to find a pattern in another that are tried; types that repeat make many

Embedding = tuple[int, ...]  # for each positive component of the coarser query, its number in the finer one


@dataclass(frozen=True, slots=True)
class Join:
    """Bind one more component. `key` pairs values of the new event with values of events that are bound already."""

    slot: int  # its place in the finer query; `left` and `right` are the nearest bound ones
    left: int | None
    right: int | None
    scan: Scan
    key: tuple[tuple[Value, Value], ...] = ()


@dataclass(frozen=True, slots=True)
class Forbid:
    """Nothing of `scan` between slot `gap - 1` and slot `gap`; at the ends, within the window."""

    gap: int
    scan: Scan


@dataclass(frozen=True, slots=True)
class Keep:
    """Only matches for which this is true."""

    predicate: Predicate


@dataclass(frozen=True, slots=True)
class Narrow:
    """From a coarser query's matches to a finer one's."""

    gives: Cuboid
    slots: tuple[int | None, ...]  # for each slot of the finer query, the slot it is taken from; None where it is joined
    retyped: tuple[tuple[int, frozenset[str]], ...]
    shorter: bool  # the window
    steps: tuple[Join | Forbid | Keep, ...]

    @property
    def extends(self) -> bool:
        """Whether matches end later than those they are made from."""
        return self.slots[-1] is None


@dataclass(frozen=True)
class Delta:
    """Matches that the finer query has none for. `present`: only those with one of these in its gap."""

    cuboid: Cuboid  # what is found; for estimates only, where `parts` say more
    present: tuple[Forbid, ...] = ()
    parts: tuple[Part, ...] = ()  # the pattern, where it is more than the cuboid's
    hidden: tuple[Component, ...] = ()  # components of the parts that the cuboid has not
    waits: bool = False

    @cached_property
    def plan(self) -> MatchPlan:
        """Made when it is run: most deltas are only considered."""
        query, components = self.cuboid.query, (*self.cuboid.components, *self.hidden)
        pattern = Seq(self.parts or tuple(map(_part, components)), self.cuboid.predicates)
        plan = plan_matches(Query(pattern, query.window, partition_by=query.partition_by))
        types = {component.variable: component.types for component in components}
        return _with_scans(plan, lambda scan: replace(scan, types=types[scan.variable]))


@dataclass(frozen=True, slots=True)
class Dropped:
    """A single component that is left out: of the matches that differ in it alone, the one with the nearest event is taken."""

    slot: int
    scan: Scan
    after: int | None  # nearest after this slot of the finer query, else
    before: int | None  # nearest before this one


@dataclass(frozen=True, slots=True)
class Widen:
    """From a finer query's matches to a coarser one's."""

    gives: Cuboid
    slots: tuple[int, ...]  # for each slot of the coarser query, the slot it is taken from
    deltas: tuple[Delta, ...]
    dropped: Dropped | None = None

    @property
    def waits(self) -> bool:
        """Whether a match may be known only after it has ended."""
        return any(delta.waits for delta in self.deltas)


Derivation = tuple[Narrow | Widen, ...]


# ---------------------------------------------------------------- downwards


def narrow(coarse: Cuboid, fine: Cuboid) -> Narrow | None:
    """The way from the coarser query's matches to the finer one's, or None where there is none that is right."""
    if not _comparable(coarse, fine) or coarse.query.window.length < fine.query.window.length:
        return None
    return next((found for pair in _pairs(coarse, fine) if (found := _narrow(pair))), None)


def _narrow(pair: _Pair) -> Narrow | None:
    fine, n = pair.fine, len(pair.fine.positives)
    source_of = {place: number for number, place in enumerate(pair.places)}
    slots = tuple(source_of.get(slot) for slot in range(n))
    retyped = tuple(
        (slot, fine.positives[slot].types)
        for slot, source in enumerate(slots)
        if source is not None and fine.positives[slot].types != pair.coarse.positives[source].types
    )
    forbidden = _to_forbid(pair)
    if forbidden is None:
        return None
    have = {slot for slot, source in enumerate(slots) if source is not None}
    steps: list[Join | Forbid | Keep] = []
    waiting: list[Predicate | Forbid] = [*pair.unchecked(), *forbidden]

    def settle() -> None:
        bound = {fine.positives[slot].variable for slot in have}
        for item in list(waiting):
            if isinstance(item, Forbid):
                needs = {0, n - 1} if item.gap in (0, n) else {item.gap - 1, item.gap}
                if needs <= have:
                    waiting.remove(item)
                    steps.append(item)
            elif variables_of(item) <= bound:
                waiting.remove(item)
                steps.append(Keep(item))

    settle()
    first = min(have)
    for slot in [*range(first - 1, -1, -1), *(slot for slot in range(first, n) if slot not in have)]:
        component = fine.positives[slot]
        bound = frozenset(fine.positives[other].variable for other in have)
        own = [p for p in waiting if not isinstance(p, Forbid) and variables_of(p) == {component.variable}]
        waiting = [item for item in waiting if item not in own]
        key = []
        for item in list(waiting):
            if not isinstance(item, Forbid) and (sides := _equality(item, component.variable, bound)):
                key.append(sides)
                waiting.remove(item)
        left, right = (max((s for s in have if s < slot), default=None), min((s for s in have if s > slot), default=None))
        steps.append(Join(slot, left, right, _scan(component, own), tuple(key)))
        have.add(slot)
        settle()
    shorter = fine.query.window.length < pair.coarse.query.window.length
    return Narrow(fine, slots, retyped, shorter, tuple(steps))


def _to_forbid(pair: _Pair, retained: bool = False) -> list[Forbid] | None:
    """What the finer query's negations still have to look for; None where they are tied to the match by predicates."""
    found = []
    for gap, negation, rest in pair.open_negations(retained):
        own = pair.fine.predicates_on(negation.variable)
        if any(variables_of(predicate) != {negation.variable} for predicate in own):
            return None
        found.append(Forbid(gap, _scan(replace(negation, types=rest), own)))
    return found


def _equality(predicate: Predicate, variable: str, bound: frozenset[str]) -> tuple[Value, Value] | None:
    """An equality of the new event with events that are bound, as (new, bound)."""
    if isinstance(predicate, Comparison) and predicate.op == "=":
        for inner, outer in ((predicate.left, predicate.right), (predicate.right, predicate.left)):
            if variables_of(inner) == {variable} and variables_of(outer) and variables_of(outer) <= bound:
                return inner, outer
    return None


def _scan(component: Component, filters: Sequence[Predicate]) -> Scan:
    return Scan(component.variable, component.name, component.types, tuple(filters))


# ---------------------------------------------------------------- upwards


def widen(fine: Cuboid, coarse: Cuboid) -> Iterator[Derivation]:
    """Ways from the finer query's matches to the coarser one's: patterns first, then concepts, and the other way round."""
    if not _comparable(coarse, fine) or coarse.query.window.length != fine.query.window.length:
        return
    for pair in _pairs(coarse, fine):
        at_ends = pair.places[0] == 0 and pair.places[-1] == len(fine.positives) - 1
        at_edge = any(cuboid.gaps[0] or cuboid.gaps[-1] for cuboid in (coarse, fine))
        if not (at_ends or not at_edge) or pair.unchecked(retained=True):
            continue
        forbidden = _to_forbid(pair, retained=True)
        if forbidden is None:
            continue
        changed = any(fine.positives[p].types != c.types for p, c in zip(pair.places, coarse.positives, strict=True))
        yield _widen(pair, forbidden, concepts_first=False)
        if changed and len(fine.positives) > len(pair.places):
            yield _widen(pair, forbidden, concepts_first=True)
        return


def _widen(pair: _Pair, forbidden: list[Forbid], concepts_first: bool) -> Derivation:
    fine = pair.fine
    kept = {fine.positives[place].variable: number for number, place in enumerate(pair.places)}
    steps: list[Widen] = []
    # What the coarser query asks for is implied, perhaps through components that are left out: `a.id = m.id AND m.id = b.id`.
    implied = [predicate for predicate in pair.asked if predicate not in fine.predicates]
    here = replace(fine, predicates=(*fine.predicates, *implied))

    def generalise() -> None:
        nonlocal here
        here, step = _with_concepts(here, {name: pair.coarse.positives[number].types for name, number in kept.items()})
        if step is not None:
            steps.append(step)

    if concepts_first:
        generalise()
    for run in _runs(fine, kept):
        here, step = _without_run(here, run)
        steps.append(step)
    if forbidden:
        here, step = _without_negations(here, pair, forbidden)
        steps.append(step)
    generalise()
    if not steps:  # the same query under another name
        steps.append(Widen(here, tuple(range(len(here.positives))), ()))
    return tuple(steps)


def _runs(fine: Cuboid, kept: Mapping[str, int]) -> Iterator[tuple[Component, ...]]:
    """What stands between components that are kept, where a positive component is among it."""
    run: list[Component] = []
    for component in (*fine.components, None):
        if component is None or component.variable in kept:
            if any(not part.negated for part in run):
                yield tuple(run)
            run = []
        else:
            run.append(component)


def _without_run(here: Cuboid, run: tuple[Component, ...]) -> tuple[Cuboid, Widen]:
    gone = {component.variable for component in run}
    rest = tuple(component for component in here.components if component.variable not in gone)
    inside = [predicate for predicate in here.predicates if variables_of(predicate) & gone]
    there = Cuboid(here.query, rest, tuple(predicate for predicate in here.predicates if predicate not in inside))
    at = here.components.index(run[0])
    absent = Not(Seq(tuple(map(_part, run)), tuple(inside)))
    parts = (*map(_part, rest[:at]), absent, *map(_part, rest[at:]))
    one = replace(next(part for part in run if not part.negated), negated=True)
    about = replace(there, components=(*rest[:at], one, *rest[at:]))
    delta = Delta(about, parts=parts, hidden=run, waits=at == len(rest))
    slots = tuple(slot for slot, component in enumerate(here.positives) if component.variable not in gone)
    dropped = None
    local = all(variables_of(predicate) <= gone for predicate in inside)
    if len(run) == 1 and local and not here.query.partition_by:
        slot = here.positives.index(run[0])
        scan = _scan(run[0], inside)
        dropped = Dropped(slot, scan, slot - 1, None) if slot else Dropped(slot, scan, None, slot + 1)
    return there, Widen(there, slots, (delta,), dropped)


def _without_negations(here: Cuboid, pair: _Pair, forbidden: list[Forbid]) -> tuple[Cuboid, Widen]:
    """The coarser query's own negations in the place of the finer one's; the delta has something in one of the gaps."""
    view = pair.coarse.renamed(pair.names)
    positives = iter(here.positives)
    components = tuple(part if part.negated else next(positives) for part in view.components)
    negated = {part.variable for part in view.components if part.negated}
    predicates = (
        *here.positive_predicates,
        *(predicate for predicate in view.predicates if variables_of(predicate) & negated),
    )
    there = Cuboid(here.query, components, predicates)
    gap_of = {gap: number for number, gap in enumerate((0, *pair.places[1:], len(pair.fine.positives)))}
    present = tuple(Forbid(gap_of[item.gap], item.scan) for item in forbidden)
    slots = tuple(range(len(here.positives)))
    return there, Widen(there, slots, (Delta(there, present, waits=bool(there.gaps[-1])),))


def _with_concepts(here: Cuboid, types: Mapping[str, frozenset[str]]) -> tuple[Cuboid, Widen | None]:
    """Coarser types: one delta for each that changes, with finer types before it and coarser ones after it."""
    if all(types.get(part.variable, part.types) == part.types for part in here.positives):
        return here, None
    there = replace(here, components=tuple(replace(c, types=types.get(c.variable, c.types)) for c in here.components))
    deltas = []
    for slot, (old, new) in enumerate(zip(here.positives, there.positives, strict=True)):
        if old.types != new.types:
            by_slot = [*here.positives[:slot], replace(new, types=new.types - old.types), *there.positives[slot + 1 :]]
            of = {component.variable: component for component in by_slot}
            components = tuple(of.get(component.variable, component) for component in there.components)
            deltas.append(Delta(replace(there, components=components), waits=bool(there.gaps[-1])))
    return there, Widen(there, tuple(range(len(there.positives))), tuple(deltas))


def _part(component: Component) -> Part:
    leaf = Type(component.name, component.variable)
    return Not(leaf) if component.negated else leaf


# ---------------------------------------------------------------- one query inside another


def _comparable(one: Cuboid, other: Cuboid) -> bool:
    return one.query.partition_by == other.query.partition_by and one.query.window.unit == other.query.window.unit


def _pairs(coarse: Cuboid, fine: Cuboid) -> Iterator[_Pair]:
    """The ways in which every match of `fine` holds a match of `coarse`."""
    for places in islice(_embeddings(coarse.positives, fine.positives), MAX_EMBEDDINGS):
        pair = _Pair(coarse, fine, places)
        if pair.holds():
            yield pair


def _embeddings(coarse: Sequence[Component], fine: Sequence[Component], start: int = 0) -> Iterator[Embedding]:
    if not coarse:
        yield ()
        return
    for place in range(start, len(fine) - len(coarse) + 1):
        if fine[place].types <= coarse[0].types:
            for rest in _embeddings(coarse[1:], fine, place + 1):
                yield (place, *rest)


class _Pair:
    """A coarser query found in a finer one, at these places; the coarser one is compared in the finer one's variables."""

    def __init__(self, coarse: Cuboid, fine: Cuboid, places: Embedding) -> None:
        self.coarse, self.fine, self.places = coarse, fine, places
        self.names = {c.variable: fine.positives[place].variable for c, place in zip(coarse.positives, places, strict=True)}
        self.names |= {c.variable: f"~{c.variable}" for c in coarse.components if c.negated}
        self._coarse_rules = _rules(tuple(transform(predicate, renaming(self.names)) for predicate in coarse.positive_predicates))
        self._fine_rules = _rules(fine.positive_predicates)
        self.asked = self._coarse_rules.predicates

    def holds(self) -> bool:
        """Whether the finer query's predicates and negations imply the coarser one's."""
        if not all(map(self._fine_rules.imply, self.asked)):
            return False
        for gap, negations in enumerate(self.coarse.gaps):
            for negation in negations:
                same = self._same_scope(gap)
                if same is None or not any(
                    negation.types <= other.types and self._on(other) <= self._on(negation, as_=other)
                    for other in self.fine.gaps[same]
                ):
                    return False
        return True

    def unchecked(self, retained: bool = False) -> list[Predicate]:
        """The finer query's predicates that matches of the coarser one need not meet; of retained components alone, or all."""
        bound = {self.fine.positives[place].variable for place in self.places}
        return [
            predicate
            for predicate in self.fine.positive_predicates
            if not self._coarse_rules.imply(predicate) and (not retained or variables_of(predicate) <= bound)
        ]

    def open_negations(self, retained: bool) -> Iterator[tuple[int, Component, frozenset[str]]]:
        """The finer query's negations (of gaps that the coarser one has too, or all), with the types not looked for yet."""
        coarse_gap = {same: gap for gap in range(len(self.coarse.gaps)) if (same := self._same_scope(gap)) is not None}
        for gap, negations in enumerate(self.fine.gaps):
            for negation in negations if gap in coarse_gap or not retained else ():
                rest = negation.types
                for other in self.coarse.gaps[coarse_gap[gap]] if gap in coarse_gap else ():
                    if self._on(other, as_=negation) <= self._on(negation):
                        rest -= other.types
                if rest:
                    yield gap, negation, rest

    def _same_scope(self, gap: int) -> int | None:
        """The gap of the finer query with the scope of this gap of the coarser one."""
        n = len(self.fine.positives)
        if gap in (0, len(self.places)):
            same_window = self.coarse.query.window.length == self.fine.query.window.length
            if not same_window or self.places[0] != 0 or self.places[-1] != n - 1:
                return None
            return 0 if gap == 0 else n
        return self.places[gap] if self.places[gap] == self.places[gap - 1] + 1 else None

    def _on(self, negation: Component, as_: Component | None = None) -> frozenset[Predicate]:
        """The predicates of a negation, comparable: of the finer query, or of the coarser one under the name of another."""
        if as_ is None:
            own = self.fine.predicates_on(negation.variable)
        else:
            names = {**self.names, negation.variable: as_.variable}
            own = tuple(transform(predicate, renaming(names)) for predicate in self.coarse.predicates_on(negation.variable))
        return frozenset(map(self._fine_rules.normal, own))


@lru_cache(maxsize=4096)
def _rules(predicates: tuple[Predicate, ...]) -> _Rules:
    return _Rules(predicates)


class _Rules:
    """Predicates and what follows from their equalities: `a.id = m.id` and `m.id = b.id` also say `a.id = b.id`."""

    def __init__(self, predicates: Sequence[Predicate]) -> None:
        self.predicates = tuple(predicates)
        self._first: dict[tuple[str | None, str], str | None] = {}
        for predicate in self.predicates:
            if (
                isinstance(predicate, Comparison)
                and predicate.op == "="
                and isinstance(predicate.left, Attribute)
                and isinstance(predicate.right, Attribute)
                and predicate.left.name == predicate.right.name  # of one column, so that equality is transitive
            ):
                self._join(predicate.left, predicate.right)
        self._normal: dict[Predicate, Predicate] = {}
        self._known = frozenset(map(self.normal, self.predicates))

    def _join(self, left: Attribute, right: Attribute) -> None:
        old, new = self._of(right), self._of(left)
        for key in [*self._first, (left.variable, left.name), (right.variable, right.name)]:
            if key[1] == left.name and self._first.get(key, key[0]) in (old, new):
                self._first[key] = new

    def _of(self, attribute: Attribute) -> str | None:
        return self._first.get((attribute.variable, attribute.name), attribute.variable)

    def imply(self, predicate: Predicate) -> bool:
        normal = self.normal(predicate)
        trivial = isinstance(normal, Comparison) and normal.op == "=" and normal.left == normal.right
        return (trivial and normal != predicate) or normal in self._known

    def normal(self, predicate: Predicate) -> Predicate:
        """The predicate with each attribute under the first variable that is known to have the same value."""
        if predicate not in self._normal:
            self._normal[predicate] = self._normalised(predicate)
        return self._normal[predicate]

    def _normalised(self, predicate: Predicate) -> Predicate:
        result = transform(predicate, lambda part: replace(part, variable=self._of(part)) if isinstance(part, Attribute) else part)
        if isinstance(result, Comparison) and result.op == "=" and repr(result.left) > repr(result.right):
            return replace(result, left=result.right, right=result.left)
        return result


def waits(derivation: Derivation) -> bool:
    """Whether a match may be known only after it has ended, or waits for two events, so that a stream is not answered this way."""
    return any(step.waits if isinstance(step, Widen) else step.slots[-2:] == (None, None) for step in derivation)


# ---------------------------------------------------------------- other scans


def _with_scans(plan: MatchPlan, change: Callable[[Scan], Scan]) -> MatchPlan:
    """The plan with other scans, those of negations included."""

    def node(part: PlanNode) -> PlanNode:
        match part:
            case Scan():
                return change(part)
            case MatchSequence():
                gaps = tuple(replace(gap, instance=node(gap.instance)) for gap in part.gaps)
                return replace(part, slots=tuple(map(node, part.slots)), gaps=gaps)
            case MatchConjunction():
                return replace(part, slots=tuple(map(node, part.slots)))
            case MatchAlternatives():
                return replace(part, branches=tuple(map(node, part.branches)))
            case MatchRepeat():
                return replace(part, item=change(part.item))
            case MatchRun():
                steps = (replace(step, scans=tuple(map(change, step.scans))) for step in part.steps)
                return replace(part, steps=tuple(steps))
            case _:
                assert_never(part)

    def check(absence: Absence) -> Absence:
        return replace(absence, instance=node(absence.instance), checks=tuple(map(check, absence.checks)))

    ways = tuple(replace(way, subquery=node(way.subquery)) for way in plan.ways)
    return replace(plan, pattern=node(plan.pattern), checks=tuple(map(check, plan.checks)), ways=ways)
