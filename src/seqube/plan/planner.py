"""From a bound query to a physical plan: every predicate and every negation finds the earliest place where it is right.

Predicates travel twice. Downwards, a predicate goes to the lowest node that binds all its variables, but never into the branch
of an OR (where the branch is not taken its variables are null, and the match must fail). Upwards, a predicate written inside an
expression that names a variable from outside is lifted to the node that binds both; out of an OR branch it takes a guard along,
because it only holds when that branch was taken. At the border of a negation what is still on its way up is a correlated
predicate of that negation.

A part that may be absent makes a sequence of each case, with and without it: what names an absent part event by event is met, and
the values of its list are known. A repeated part is a slot of lists; an equality with its events is one with the first of them, and
of each with the one before.

At a node with several slots a predicate becomes, in order of preference: part of the key (an equality that reaches every slot), a
clause of the loop, or a filter on the node's results. A negation becomes a gap of its sequence when one number per event answers it
(not correlated, or only through the sequence's own key); otherwise it is checked against complete matches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any, NamedTuple, TypeGuard

from seqube.errors import PlanError
from seqube.events import Hierarchy
from seqube.language.mentions import named_as_lists, named_before, named_by_event, positives, quantifiers, variables_of
from seqube.language.tree import (
    And,
    Attribute,
    Comparison,
    Literal,
    Next,
    Not,
    OfList,
    Or,
    Pattern,
    Predicate,
    Prev,
    Quantifier,
    Query,
    Same,
    Seq,
    Strict,
    Type,
    Value,
    transform,
)
from seqube.plan.joining import join_conditions
from seqube.plan.physical import (
    Absence,
    Clause,
    Gap,
    Guarded,
    KeyColumn,
    Link,
    MatchAlternatives,
    MatchConjunction,
    MatchPlan,
    MatchRepeat,
    MatchRun,
    MatchSequence,
    PlanNode,
    RunStep,
    Scan,
    Scope,
)
from seqube.plan.rewrite import conjuncts, negated_variables, rooted
from seqube.plan.views import nested_root


def plan_matches(query: Query, hierarchy: Hierarchy | None = None) -> MatchPlan:
    """The plan by which the matcher finds the matches of a query by itself: right for every pattern."""
    return _plan(query, rooted(query), hierarchy)


def plan_nested(query: Query, hierarchy: Hierarchy | None = None) -> MatchPlan:
    """The plan with operators nested as they were written, for strategies that evaluate sub-queries outer first."""
    return _plan(query, nested_root(query), hierarchy)


def _plan(query: Query, pattern: Pattern, hierarchy: Hierarchy | None) -> MatchPlan:
    times = quantifiers(pattern)
    optional = frozenset(name for name, quantifier in times.items() if quantifier.is_optional)
    built = _Builder(hierarchy, negated_variables(pattern), frozenset(times), optional).build(pattern, (), Scope(), is_root=True)
    assert not built.lifted, "the binder lets no predicate name a variable that nothing binds"
    cut_at = None
    if query.keeps_partial:
        assert isinstance(pattern, Next), "the binder lets nothing else keep its runs"
        cut_at = tuple(_position(pattern, part) for part in pattern.parts if isinstance(part, Not))
    return MatchPlan(
        built.node,
        query.window,
        built.checks,
        query.partition_by,
        query.returns,
        order_by=query.order_by,
        skip=query.skip,
        cut_at=cut_at,
        is_flat=query.returns_all,
        is_distinct=query.is_distinct,
        limit=query.limit,
    )


@dataclass(frozen=True, slots=True)
class _Built:
    """A node, and what it could not settle by itself: predicates on outer variables, negations to be checked per match."""

    node: PlanNode
    lifted: tuple[Guarded, ...] = ()
    checks: tuple[Absence, ...] = ()


@dataclass(slots=True)
class _Sorted:
    """Predicates at an operator by where they go: into a slot, into a negation, here, or further up."""

    into_slot: list[list[Predicate]]
    into_negation: dict[int, list[Predicate]] = field(default_factory=dict)
    here: list[Guarded] = field(default_factory=list)
    lifted: list[Guarded] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Builder:
    hierarchy: Hierarchy | None
    negated: frozenset[str]  # variables of negated types: what names one goes there as a whole
    repeated: frozenset[str]  # variables that stand for lists, or for an event that may be absent
    optional: frozenset[str]  # those of them whose part may be absent

    def build(self, part: Pattern, given: Sequence[Predicate], scope: Scope, is_root: bool = False) -> _Built:
        """Plan one positive expression, with predicates `given` from above over its variables alone, and `scope` around it."""
        if isinstance(part, Type):
            return _Built(self._scan(part, given) if part.quantifier is None else self._repeat(part, part.quantifier, given))
        # A run asks a predicate once all that it names is bound: parts of one that name less would be asked too early.
        tied = self.repeated | frozenset(_names(part)) if isinstance(part, Next | Strict) else self.repeated
        own = [Guarded(conjunct) for predicate in part.where for conjunct in conjuncts(predicate, self.negated, tied)]
        own += [Guarded(predicate) for predicate in given]
        if isinstance(part, Or):
            return self._alternatives(part, own, scope)
        if isinstance(part, Next | Strict):
            return self._run(part, own, scope)
        return self._joined(part, own, scope, is_root)

    def _scan(self, part: Type, filters: Sequence[Predicate]) -> Scan:
        assert part.variable is not None
        types = self.hierarchy.covers(part.name) if self.hierarchy else frozenset({part.name})
        return Scan(part.variable, part.name, types, tuple(filters))

    def _repeat(self, part: Type, quantifier: Quantifier, given: Sequence[Predicate]) -> MatchRepeat:
        """The lists of a repeated part, where it is there; what events and neighbours are asked is asked as they grow."""
        scans: list[Predicate] = []
        key: list[Value] = []
        steps: list[Predicate] = []
        filters: list[Guarded] = []
        for predicate in given:
            match predicate:
                case Comparison("=", Attribute() as value, Prev(before)) if value == before:
                    key.append(value)
                case _ if named_as_lists(predicate):
                    filters.append(Guarded(predicate))
                case _:
                    (steps if named_before(predicate) else scans).append(predicate)
        return MatchRepeat(
            self._scan(part, scans),
            max(quantifier.least, 1),
            quantifier.most,
            not quantifier.is_list,
            tuple(dict.fromkeys(key)),
            tuple(steps),
            tuple(filters),
        )

    def _alternatives(self, part: Or, own: list[Guarded], scope: Scope) -> _Built:
        branches = [self.build(branch, (), scope) for branch in part.parts]
        lifted: list[Guarded] = []
        checks: list[Absence] = []
        for branch in branches:
            taken = frozenset(branch.node.binds)
            own += [replace(guarded, when=guarded.when or taken) for guarded in branch.lifted]
            checks += [replace(check, when=check.when or taken) for check in branch.checks]
        bound = frozenset(name for branch in branches for name in branch.node.binds)
        here: list[Guarded] = []
        for guarded in own:
            (here if variables_of(guarded.predicate) <= bound else lifted).append(guarded)
        node = MatchAlternatives(tuple(branch.node for branch in branches), tuple(here))
        return _Built(node, tuple(lifted), tuple(checks))

    def _run(self, part: Next | Strict, own: list[Guarded], scope: Scope) -> _Built:
        """NEXT and STRICT: what names its own events alone decides which it takes; negations are asked of what was found."""
        components = [child for child in part.parts if not isinstance(child, Not)]
        negations = [child for child in part.parts if isinstance(child, Not)]
        key = tuple(dict.fromkeys(guarded.predicate.attribute for guarded in own if isinstance(guarded.predicate, Same)))
        inner = [Guarded(predicate) for child in components if isinstance(child, Or) for predicate in child.where]
        asked = [guarded for guarded in (*own, *inner) if not isinstance(guarded.predicate, Same)]
        names = frozenset(name for child in components for name in _names(child))
        # To the run everything of its own is alike, so what it asks is sorted as for one component.
        whole: list[Pattern] = [Seq(tuple(components))]
        placed = self._sort(asked, whole, negations, [names])
        steps, rest = [], [*placed.into_slot[0], *(guarded.predicate for guarded in placed.here)]
        for child in components:
            leaves = list(positives(child))
            alone = [] if isinstance(child, Or) else [p for p in rest if self._is_local(p, leaves[0])]
            rest = [predicate for predicate in rest if predicate not in alone]
            scans = tuple(self._scan(leaf, alone) for leaf in leaves)
            quantifier = None if isinstance(child, Or) else leaves[0].quantifier
            if quantifier is None:
                steps.append(RunStep(scans))
            else:
                least, most = quantifier.least, quantifier.most
                steps.append(RunStep(scans, least, most, quantifier.reluctant, True, not quantifier.is_list))
        checks = [
            self._absence(
                negation,
                placed.into_negation.get(number, []),
                _beside(components[: _position(part, negation)], components[_position(part, negation) :], scope),
            )
            for number, negation in enumerate(negations)
        ]
        constant = [predicate for predicate in rest if not variables_of(predicate)]
        decisive = tuple(predicate for predicate in rest if predicate not in constant)
        node = MatchRun(tuple(steps), isinstance(part, Strict), decisive, key, tuple(map(Guarded, constant)))
        return _Built(node, tuple(placed.lifted), tuple(checks))

    def _is_local(self, predicate: Predicate, leaf: Type) -> bool:
        """Whether it is asked of each event of a part by itself."""
        alone = variables_of(predicate) == {leaf.variable}
        return alone and not named_as_lists(predicate) and not named_before(predicate)

    def _joined(self, part: Seq | And, own: list[Guarded], scope: Scope, is_root: bool) -> _Built:
        """SEQ and AND: slots joined by order or by window, with negations between or around them."""
        components = [child for child in part.parts if not isinstance(child, Not)]
        negations = [child for child in part.parts if isinstance(child, Not)]
        names = [frozenset(_names(component)) for component in components]
        scopes = [self._slot_scope(part, i, components, scope) for i in range(len(components))]

        # Downwards first; what the slots then lift is settled here, also where it names a single slot: that slot is planned
        # already.
        placed = self._sort(own, components, negations, names)
        optional = [i for i, component in enumerate(components) if isinstance(component, Type) and component.is_optional]
        for i in optional:  # what is asked of its list as a whole is asked of an absent part too
            placed.here += [Guarded(predicate) for predicate in placed.into_slot[i] if not named_by_event(predicate)]
            placed.into_slot[i] = [predicate for predicate in placed.into_slot[i] if named_by_event(predicate)]
        own_lists = frozenset(part.variable or "" for part in components if isinstance(part, Type) and part.quantifier is not None)
        for predicate in [same for guarded in placed.here for same in _same_in_lists(guarded, own_lists, self.optional)]:
            placed.into_slot[next(i for i, each in enumerate(names) if variables_of(predicate) <= each)].append(predicate)
        single = frozenset(name for name, times in quantifiers(part).items() if name in own_lists and not times.is_list)
        lists = _Lists(own_lists, single, _alike(placed.into_slot))
        slots = [self.build(components[i], placed.into_slot[i], scopes[i]) for i in range(len(components))]
        risen = self._sort([guarded for slot in slots for guarded in slot.lifted], components, negations, names)
        here = [*placed.here, *risen.here, *(Guarded(predicate) for into in risen.into_slot for predicate in into)]
        absences = [
            self._absence(
                negation,
                placed.into_negation.get(number, []) + risen.into_negation.get(number, []),
                self._negation_scope(part, negation, components, scope),
            )
            for number, negation in enumerate(negations)
        ]
        if optional:
            assert isinstance(part, Seq), "a part that may be absent is one of a sequence"
            checks = [*(check for slot in slots for check in slot.checks), *absences]
            cases = self._cases(here, [slot.node for slot in slots], names, optional, lists)
            return _Built(cases, (*placed.lifted, *risen.lifted), tuple(checks))
        key, clauses, filters = self._join(here, names, lists)
        if isinstance(part, Seq) and len(components) == 1:  # nothing to join, but a key tells apart which instances may cancel
            outers = dict.fromkeys(link.outer for absence in absences for link in absence.links)
            key = tuple((outer,) for outer in outers if variables_of(outer) <= names[0])
        gaps: list[Gap] = []
        checks = [check for slot in slots for check in slot.checks]
        for negation, absence in zip(negations, absences, strict=True):
            gap = _as_gap(absence, part, negation, key, is_root) if isinstance(part, Seq) else None
            if gap is not None:
                gaps.append(gap)
            else:
                checks.append(absence)
        nodes = tuple(slot.node for slot in slots)
        node: PlanNode = (
            MatchSequence(nodes, clauses, key, tuple(gaps), filters)
            if isinstance(part, Seq)
            else MatchConjunction(nodes, clauses, key, filters)
        )
        return _Built(node, (*placed.lifted, *risen.lifted), tuple(checks))

    def _cases(
        self,
        here: list[Guarded],
        slots: list[PlanNode],
        names: list[frozenset[str]],
        optional: list[int],
        lists: _Lists,
    ) -> PlanNode:
        """A sequence for each choice of the parts that are there, at least one."""
        if len(optional) > MAX_OPTIONAL:
            raise PlanError(
                f"{len(optional)} parts of one SEQ may be absent; the limit is {MAX_OPTIONAL}\n"
                "  hint: split the pattern, or write NEXT, which takes each part where it can"
            )
        branches: list[PlanNode] = []
        for n_absent in range(len(optional) + 1):
            for absent in combinations(optional, n_absent):
                chosen = [i for i in range(len(slots)) if i not in absent]
                gone = frozenset().union(*(names[i] for i in absent))
                asked = [guarded for guarded in here if not named_by_event(guarded.predicate) & gone]
                if chosen:
                    known = [replace(guarded, predicate=transform(guarded.predicate, _without(gone))) for guarded in asked]
                    key, clauses, filters = self._join(known, [names[i] for i in chosen], lists)
                    branches.append(MatchSequence(tuple(slots[i] for i in chosen), clauses, key, (), filters))
        return branches[0] if len(branches) == 1 else MatchAlternatives(tuple(branches))

    def _join(
        self, here: list[Guarded], names: list[frozenset[str]], lists: _Lists
    ) -> tuple[tuple[KeyColumn, ...], tuple[Clause, ...], tuple[Guarded, ...]]:
        """How slots are joined, lists by their first events where these tell all; what asks every event is a filter."""
        told = [replace(guarded, predicate=_told_by_first(guarded.predicate, lists)) for guarded in here]
        each = [guarded for guarded in told if named_by_event(guarded.predicate) & self.repeated]
        key, clauses, filters = join_conditions([guarded for guarded in told if guarded not in each], names)
        return key, clauses, (*filters, *each)

    def _sort(
        self, predicates: Iterable[Guarded], components: list[Pattern], negations: list[Not], names: list[frozenset[str]]
    ) -> _Sorted:
        result = _Sorted([[] for _ in components])
        bound = frozenset().union(*names)
        for guarded in predicates:
            used = variables_of(guarded.predicate)
            negation = next((n for n, negated in enumerate(negations) if used & frozenset(_names(negated.part))), None)
            slot = next((i for i, slot_names in enumerate(names) if used and used <= slot_names), None)
            if negation is not None:  # part of that negation wherever it was written, so it leaves its guard behind
                result.into_negation.setdefault(negation, []).append(guarded.predicate)
            elif not used <= bound:
                result.lifted.append(guarded)
            elif slot is not None and not guarded.when:
                result.into_slot[slot].append(guarded.predicate)
            else:
                result.here.append(guarded)
        return result

    def _slot_scope(self, part: Seq | And, i: int, components: list[Pattern], scope: Scope) -> Scope:
        """What a negation at the edge of slot `i` inherits: its neighbours in SEQ; AND and OR pass on what they have."""
        return scope if isinstance(part, And) else _beside(components[:i], components[i + 1 :], scope)

    def _negation_scope(self, part: Seq | And, negation: Not, components: list[Pattern], scope: Scope) -> Scope:
        if isinstance(part, And):
            return replace(scope, around=tuple(name for component in components for name in _names(component)))
        position = _position(part, negation)
        return _beside(components[:position], components[position:], scope)

    def _absence(self, negation: Not, predicates: list[Predicate], scope: Scope) -> Absence:
        inner_names = frozenset(_names(negation.part))
        placed = [conjunct for predicate in predicates for conjunct in conjuncts(predicate, repeated=self.repeated)]
        local = [predicate for predicate in placed if variables_of(predicate) <= inner_names]
        correlated = [Guarded(predicate) for predicate in placed if not variables_of(predicate) <= inner_names]
        built = self.build(negation.part, local, Scope())
        links: list[Link] = []
        filters: list[Guarded] = []
        for guarded in [*correlated, *built.lifted]:
            link = None if named_by_event(guarded.predicate) & self.repeated else _as_link(guarded, inner_names)
            if link is not None:
                links.append(link)
            else:
                filters.append(guarded)
        return Absence(built.node, scope, tuple(links), tuple(filters), built.checks)


MAX_OPTIONAL = 10  # parts of one SEQ that may be absent: there is a case for every choice of them


def _is_tied(predicate: Predicate, lists: frozenset[str]) -> TypeGuard[Comparison]:
    """Whether it is an equality of an event of a list with something else, so of all of its events with the same."""
    if not isinstance(predicate, Comparison) or predicate.op != "=" or named_before(predicate):
        return False
    sides = (predicate.left, predicate.right)
    plain = [side for side in sides if isinstance(side, Attribute) and side.variable in lists]
    others = [side for side in sides if side not in plain]
    return bool(plain) and not any(named_by_event(side) & lists for side in others) and len(variables_of(predicate)) > 1


class _Lists(NamedTuple):
    """Lists of the slots themselves, which are there (one further inside may be absent), and what first events tell of all."""

    variables: frozenset[str]
    single: frozenset[str]  # of one event
    alike: frozenset[Attribute]  # what all events of a list agree on

    def is_told_by_first(self, value: Attribute) -> bool:
        return value.variable in self.single or value in self.alike


def _alike(into_slot: Sequence[Sequence[Predicate]]) -> frozenset[Attribute]:
    """What all events of a list have alike, because it is asked of them."""
    found = set()
    for predicate in (predicate for into in into_slot for predicate in into):
        match predicate:
            case Comparison("=", Attribute() as value, Prev(before)) if value == before:
                found.add(value)
    return frozenset(found)


def _same_in_lists(guarded: Guarded, lists: frozenset[str], optional: frozenset[str]) -> Iterator[Predicate]:
    """What an equality with something else says of the events of a list: each is equal to the one before.

    Where that may be absent it says nothing: an absent part meets the equality, and the list may be any.
    """
    predicate = guarded.predicate
    if not guarded.when and _is_tied(predicate, lists):
        for side, other in ((predicate.left, predicate.right), (predicate.right, predicate.left)):
            if isinstance(side, Attribute) and side.variable in lists and not named_by_event(other) & optional:
                yield Comparison("=", side, Prev(side))


def _told_by_first(predicate: Predicate, lists: _Lists) -> Predicate:
    """An equality with the events of lists as one with the first of each, where that tells all."""
    if not _is_tied(predicate, lists.variables):
        return predicate
    sides = [side for side in (predicate.left, predicate.right) if isinstance(side, Attribute) and side.variable in lists.variables]
    if not all(map(lists.is_told_by_first, sides)):
        return predicate
    left, right = (OfList("FIRST", side) if side in sides else side for side in (predicate.left, predicate.right))
    return replace(predicate, left=left, right=right)


def _without(gone: frozenset[str]) -> Callable[[Any], Any]:
    """A change for `transform`: the values of lists that are empty."""

    def change(node: Any) -> Any:
        if isinstance(node, OfList) and node.argument.variable in gone:
            return Literal(0 if node.function == "COUNT" else None)
        return node

    return change


def _beside(left: Sequence[Pattern], right: Sequence[Pattern], scope: Scope) -> Scope:
    """What lies between neighbours: past those that may be absent up to one that is surely there, else what is inherited."""
    after, after_open = _nearest(reversed(left))
    before, before_open = _nearest(right)
    return Scope(
        (*after, *(scope.after or ())) if after and after_open else after or scope.after,
        (*before, *(scope.before or ())) if before and before_open else before or scope.before,
        None,
        after_open and (scope.after is None or scope.after_may_inherit),
        before_open and (scope.before is None or scope.before_may_inherit),
    )


def _nearest(parts: Iterable[Pattern]) -> tuple[tuple[str, ...], bool]:
    """The variables of the nearest part that is surely there and of those before it that may be, and whether all may be absent."""
    names: list[str] = []
    for part in parts:
        names += _names(part)
        if not (isinstance(part, Type) and part.is_optional):
            return tuple(names), False
    return tuple(names), True


def _names(part: Pattern) -> tuple[str, ...]:
    """The variables that an instance of a bound pattern binds."""
    return tuple(leaf.variable for leaf in positives(part) if leaf.variable is not None)


def _position(part: Seq | Next | Strict, negation: Not) -> int:
    """How many positive components stand left of a negation."""
    count = 0
    for child in part.parts:
        if child is negation:
            break
        count += not isinstance(child, Not)
    return count


# ---------------------------------------------------------------- negations


def _as_link(guarded: Guarded, inner: frozenset[str]) -> Link | None:
    """A correlated equality with one side inside the negation and the other outside."""
    predicate = guarded.predicate
    if guarded.when or not isinstance(predicate, Comparison) or predicate.op != "=":
        return None
    for inside, outside in ((predicate.left, predicate.right), (predicate.right, predicate.left)):
        if variables_of(inside) and variables_of(inside) <= inner and variables_of(outside) and not variables_of(outside) & inner:
            return Link(inside, outside)
    return None


def _as_gap(absence: Absence, part: Seq, negation: Not, key: tuple[KeyColumn, ...], is_root: bool) -> Gap | None:
    """The negation as one number per event, or None where its instances must be looked at match by match."""
    position = _position(part, negation)
    n_slots = sum(not isinstance(child, Not) for child in part.parts)
    at_edge = position in (0, n_slots)
    if absence.checks or absence.filters or (at_edge and not is_root):
        return None
    if not absence.links:
        return Gap(position, absence.instance)
    keyed: list[Value] = []
    for column in key:
        link = next((link for link in absence.links if link.outer in column), None)
        if link is None:
            return None
        keyed.append(link.inner)
    if len(absence.links) != len(keyed):
        return None
    return Gap(position, absence.instance, tuple(keyed))
