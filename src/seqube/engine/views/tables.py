"""A nested plan as tables for the loops of `iterative`.

Every predicate is taken apart into clauses of tests on single events, and every clause is placed where its last variable is bound:
at an own event of an operator, where a child's result is joined, or on the finished instance. A clause that ties a sub-query to an
outer variable is pushed into it when it is evaluated from scratch (its value is passed down); a view must not depend on what is
outside, so there it is tested when results are taken, save one equality that divides the view by value.

Cost: linear in the plan, and the room that is asked for. Invariant: places name only variables that are bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from seqube.engine.predicates import NULL, Ints
from seqube.engine.sequence import OPS
from seqube.engine.views.compute import KID_COUNTERS
from seqube.engine.views.frames import COUNTERS
from seqube.engine.views.program import (
    AGGRESSIVE,
    ALTERNATIVES,
    BALANCED,
    BOUND,
    CONJUNCTION,
    FRAME_WORDS,
    FRAMES,
    GAP_WORDS,
    HALF,
    INTERVAL_TOP,
    IS_FIRST,
    IS_LAST,
    ITERATIVE,
    KID_NODE,
    KID_PLACE,
    KID_WORDS,
    LIVE,
    N_COMPUTED,
    N_REGISTERS,
    N_VIEWS,
    NEGATED_PLACE,
    NEGATION_WORDS,
    OWN_PLACE,
    OWN_VARIABLE,
    OWN_WORDS,
    PASSIVE,
    PEAK,
    POOL_TOP,
    SCAN,
    SEQUENCE,
    SLAB_IS_NARROW,
    SLAB_WORDS,
    SLABS,
    VIEW_CODES,
    VIEW_FIRST,
    VIEW_N_VALUES,
    VIEW_VARIABLE,
    VIEW_WORDS,
    Program,
)
from seqube.language.mentions import attributes, variable_of
from seqube.language.tree import AnyOf, Comparison, Predicate, Value
from seqube.plan.physical import (
    Absence,
    Atom,
    Guarded,
    Link,
    MatchAlternatives,
    MatchConjunction,
    MatchPlan,
    MatchRepeat,
    MatchRun,
    MatchSequence,
    PlanNode,
    Scan,
    Scope,
    scans,
)
from seqube.plan.views import Test, Tests, clauses

MODES = {"iterative": ITERATIVE, "aggressive": AGGRESSIVE, "passive": PASSIVE, "balanced": BALANCED}


@dataclass(frozen=True, slots=True)
class TestColumn:
    """What a test compares: a value of one variable's events, or a constant (`name` is None); or whether a predicate is true."""

    test: int  # columns of one test are compared with each other
    op: str
    name: str | None
    value: Value | None
    truth: Predicate | None = None


@dataclass(frozen=True, slots=True)
class Divided:
    """A view that is divided by the value of an outer variable."""

    node: int
    name: str
    value: Value


@dataclass(slots=True)
class _Clause:
    tests: Tests
    guard: frozenset[str]
    names: frozenset[str]


@dataclass(slots=True)
class _Lists:
    """Entries that grow in groups: group k holds `entries[at[k]:at[k + 1]]` once all groups are there."""

    groups: list[list[list[int]]] = field(default_factory=list)

    def add(self) -> int:
        self.groups.append([])
        return len(self.groups) - 1

    def arrays(self, width: int) -> tuple[Ints, Ints]:
        at = np.cumsum([0, *(len(group) for group in self.groups)]).astype(np.int64)
        flat = [entry for group in self.groups for entry in group]
        return at, np.array(flat, np.int64).reshape(-1, width)


class Tables:
    """A plan as tables; what its events are is left open (`loading`), save how much room there is for them."""

    def __init__(self, plan: MatchPlan) -> None:
        self._plan = plan
        self._ways = {way.subquery: MODES[way.strategy] for way in plan.ways}
        self.number: dict[str, int] = {}
        self.scans: list[Scan] = []  # per variable
        self._kinds: list[int] = []
        self._modes: list[int] = []
        self._bases: list[int] = []
        self._widths: list[int] = []
        self._node_places: list[int] = []
        self._node_numbers: dict[PlanNode, int] = {}  # a node is known by its variables, which no other has
        self._nodes: list[PlanNode] = []
        self._own, self._kids, self._gaps, self._checks, self._places = _Lists(), _Lists(), _Lists(), _Lists(), _Lists()
        self._negations: list[list[int]] = []
        self._views: list[list[int]] = []
        self._negated: set[int] = set()
        self.divided: list[Divided] = []
        self._guards: list[list[int]] = []
        self._clauses, self._sides = _Lists(), _Lists()
        self.columns: list[TestColumn] = []
        self._n_tests = 0
        self.rest: list[Guarded] = []  # what the loops cannot test on positive variables: filters on the matches
        self._add_variables(plan.pattern)
        self._places.add()
        root = self._node(plan.pattern)
        assert root == 0
        self._modes[0] = ITERATIVE
        self._predicates(plan.pattern, frozenset(), in_negation=False)
        self._root_checks = [self._negation(check) for check in (*self._edge_gaps(), *plan.checks)]
        self.last = sorted(self.number[scan.variable] for scan in plan.pattern.may_end)  # variables of what may end a match

    # ------------------------------------------------------------ nodes

    def _edge_gaps(self) -> list[Absence]:
        """Negations before the first and after the last slot of the root: their scope needs the whole match."""
        node = self._plan.pattern
        if not isinstance(node, MatchSequence):
            return []
        return [_gap_absence(node, i) for i, gap in enumerate(node.gaps) if gap.position in (0, len(node.slots))]

    def _add_variables(self, node: PlanNode) -> None:
        """Number the variables of a node one after the other."""
        for scan in scans(node):
            if scan.variable in node.binds:
                self.number[scan.variable] = len(self.scans)
                self.scans.append(scan)

    def _node(self, node: PlanNode) -> int:
        """Add a node and everything below it."""
        number = len(self._kinds)
        self._node_numbers[node] = number
        self._nodes.append(node)
        names = node.binds
        kind = {Scan: SCAN, MatchSequence: SEQUENCE, MatchConjunction: CONJUNCTION, MatchAlternatives: ALTERNATIVES}[type(node)]
        self._kinds.append(kind)
        self._modes.append(self._ways.get(node, ITERATIVE))
        self._bases.append(self.number[names[0]])
        self._widths.append(len(names))
        self._node_places.append(self._places.add())
        self._views.append([0, 0, -1, 0])
        own, kids, gaps = self._own.add(), self._kids.add(), self._gaps.add()
        assert own == kids == gaps == number
        slots: Sequence[PlanNode] = ()
        if not isinstance(node, Scan):
            assert not isinstance(node, MatchRepeat | MatchRun), "lists and runs are for the matcher's own loops"
            slots = node.branches if isinstance(node, MatchAlternatives) else node.slots
        for i, slot in enumerate(slots):
            flags = (IS_FIRST if i == 0 else 0) | (IS_LAST if i == len(slots) - 1 else 0)
            if isinstance(slot, Scan) and kind != ALTERNATIVES:
                self._own.groups[number].append([self.number[slot.variable], self._places.add(), flags])
                continue
            child = self._node(slot)
            left = right = -1
            if kind == SEQUENCE:
                left = next((self.number[s.variable] for s in reversed(slots[:i]) if isinstance(s, Scan)), -1)
                right = next((self.number[s.variable] for s in slots[i + 1 :] if isinstance(s, Scan)), -1)
            follows_kid = int(kind == SEQUENCE and i > 0 and not isinstance(slots[i - 1], Scan))
            self._kids.groups[number].append([child, self._places.add(), left, right, follows_kid, flags])
        if kind == SEQUENCE:
            self._own.groups[number].reverse()
        return number

    def _binds(self, node: int, variable: int) -> bool:
        return self._bases[node] <= variable < self._bases[node] + self._widths[node]

    def _own_variables(self, number: int) -> list[int]:
        return [entry[OWN_VARIABLE] for entry in self._own.groups[number]]

    # ------------------------------------------------------------ negations

    def _negation(self, absence: Absence) -> int:
        node = absence.instance
        self._add_variables(node)
        inner = self._node(node)
        number = len(self._negations)
        about = [inner, self._places.add()]
        for names in (absence.scope.after, absence.scope.before, absence.scope.around, absence.when or None):
            about += self._range(names)
        self._negations.append(about)
        self._checks.add()
        predicates = [Guarded(Comparison("=", link.inner, link.outer)) for link in absence.links]
        tied = [self._take_apart(guarded, in_negation=True) for guarded in (*predicates, *absence.filters)]
        self._predicates(node, frozenset(), in_negation=True)
        for clause in [clause for group in tied for clause in group]:
            self._tie(clause, inner, about[NEGATED_PLACE])
        self._negated.add(inner)
        self._checks.groups[number] += [[self._negation(check)] for check in absence.checks]
        return number

    def _range(self, names: Sequence[str] | frozenset[str] | None) -> list[int]:
        if names is None:
            return [-1, -1]
        numbers = sorted(self.number[name] for name in names)
        assert numbers[-1] - numbers[0] == len(numbers) - 1, "the variables of an expression are numbered one after the other"
        return [numbers[0], numbers[-1] + 1]

    def _has_flags(self, node: int) -> bool:
        """Whether there are two lists of intervals, of what is known to be empty and of what is known not to be."""
        return self._modes[node] == PASSIVE and node in self._negated

    def _number_views(self, n_values: Sequence[int]) -> tuple[Ints, int, list[int]]:
        """The views: one per sub-query and outer value; when passive and negated two, of what is empty and what is not.

        `n_values` says for how many values each divided view has room. Also how many views there are, and which are narrow.
        """
        rooms = {divided.node: room for divided, room in zip(self.divided, n_values, strict=True)}
        views, n_views = [list(row) for row in self._views], 0
        narrow: list[int] = []
        for node, mode in enumerate(self._modes):
            if mode != ITERATIVE and self._kinds[node] != SCAN:
                room = rooms.get(node, 1)
                views[node][VIEW_FIRST], views[node][VIEW_N_VALUES] = n_views, room
                n_views += room
                if self._has_flags(node):
                    narrow += range(n_views, n_views + room)
                    n_views += room
        return np.array(views, np.int64).reshape(-1, VIEW_WORDS), n_views, narrow

    # ------------------------------------------------------------ predicates

    def _predicates(self, node: PlanNode, taken: frozenset[str], in_negation: bool) -> None:
        """Place the predicates and inner negations of a node and of all below it. `taken`: the OR branch it stands in."""
        number = self._node_numbers[node]
        found: list[Guarded] = []
        if isinstance(node, MatchAlternatives):
            found += node.filters
            for branch in node.branches:
                self._predicates(branch, frozenset(branch.binds), in_negation)
        elif not isinstance(node, Scan | MatchRepeat | MatchRun):
            for slot in node.slots:
                if not isinstance(slot, Scan):
                    self._predicates(slot, taken, in_negation)
            for column in node.key:
                found += [Guarded(Comparison("=", a, b)) for a, b in pairwise(column)]
            for clause in node.clauses:
                parts = tuple(
                    Comparison(atom.op, atom.left, atom.right) if isinstance(atom, Atom) else atom.predicate for atom in clause
                )
                found.append(Guarded(_any_of(parts)))
            found += node.filters
        for guarded in found:
            for taken_apart in self._take_apart(guarded, in_negation, taken):
                self._place(taken_apart, number)
        if isinstance(node, MatchSequence):
            own = set(self._own_variables(number))
            for i, gap in enumerate(node.gaps):
                if gap.position in (0, len(node.slots)):
                    assert number == 0, "only the root decides negations at its edges"
                    continue
                absence = _gap_absence(node, i)
                negation = self._negation(absence)
                needed = {self.number[name] for name in _outer_names(absence)}
                self._gaps.groups[number].append([negation, int(not needed <= own)])

    def _take_apart(self, guarded: Guarded, in_negation: bool, taken: frozenset[str] = frozenset()) -> list[_Clause]:
        parts = clauses(guarded.predicate)
        if parts is None:
            assert not in_negation, "the planner refuses this"
            self.rest.append(Guarded(guarded.predicate, guarded.when or taken))
            return []
        found = []
        for tests in parts:
            names = frozenset(a.variable for test in tests for a in attributes(test.predicate) if a.variable is not None)
            found.append(_Clause(tests, guarded.when, names))
        return found

    def _tie(self, clause: _Clause, node: int, place: int) -> None:
        """Place a clause between a negated sub-query and what is outside: inside if that is allowed, else where it is used."""
        if self._modes[node] == ITERATIVE or self._kinds[node] == SCAN or self._divides(clause, node):
            self._place(clause, node)
        else:
            self._write(clause, place)

    def _divides(self, clause: _Clause, node: int) -> bool:
        """Take an equality with one outer value as what a view is divided by, if it is the first one, or the same value again."""
        test = clause.tests[0]
        if len(clause.tests) > 1 or clause.guard or test.op != "=" or len(test.left) > 1 or len(test.right) > 1:
            return False
        known = next((divided.value for divided in self.divided if divided.node == node), None)
        inside = set(self._nodes[node].binds)
        sides = [(test.left[0], test.right[0]), (test.right[0], test.left[0])]
        for inner, outer in sides:
            inner_name, outer_name = variable_of(inner), variable_of(outer)
            if inner_name in inside and outer_name is not None and outer_name not in inside:
                if known is not None:
                    return known == outer
                self._views[node][VIEW_VARIABLE:] = [self.number[outer_name], len(self.divided)]
                self.divided.append(Divided(node, outer_name, outer))
                return True
        return False

    def _place(self, clause: _Clause, node: int) -> None:
        """Write a clause where its last variable below `node` is bound; variables outside are bound already."""
        inside = {self.number[name] for name in clause.names | clause.guard}
        inside = {v for v in inside if self._binds(node, v)}
        if self._kinds[node] in (SCAN, ALTERNATIVES):
            self._write(clause, self._node_places[node])
            return
        kids = self._kids.groups[node]
        touched = [i for i, kid in enumerate(kids) if any(self._binds(kid[KID_NODE], v) for v in inside)]
        if not touched:
            places = [entry[OWN_PLACE] for entry in self._own.groups[node] if entry[OWN_VARIABLE] in inside]
            self._write(clause, places[-1] if places else self._node_places[node])
        elif len(touched) > 1:
            self._write(clause, kids[touched[-1]][KID_PLACE])
        else:
            child, place = kids[touched[0]][KID_NODE], kids[touched[0]][KID_PLACE]
            names = {self.number[name] for name in clause.names | clause.guard}
            alone = all(self._binds(child, v) for v in names)
            if alone or self._modes[child] == ITERATIVE or self._kinds[child] == SCAN or self._divides(clause, child):
                self._place(clause, child)
            else:
                self._write(clause, place)

    def _write(self, clause: _Clause, place: int) -> None:
        number = self._clauses.add()
        self._guards.append(self._range(clause.guard or None))
        self._clauses.groups[number] += [self._atom(test) for test in clause.tests]
        self._places.groups[place].append([number])

    def _atom(self, test: Test) -> list[int]:
        number = self._n_tests
        self._n_tests += 1
        if test.op is None:  # true is 1 and anything else null, so that it equals itself where it is true
            side = self._side([TestColumn(number, "=", variable_of(test.predicate), None, test.predicate)])
            return [OPS["="], side, side]
        op = test.op
        sides = [[TestColumn(number, op, variable_of(value), value) for value in side] for side in (test.left, test.right)]
        return [OPS[op], *map(self._side, sides)]

    def _side(self, choices: Sequence[TestColumn]) -> int:
        number = self._sides.add()
        for column in choices:
            variable = -1 if column.name is None else self.number[column.name]
            self._sides.groups[number].append([variable, len(self.columns)])
            self.columns.append(column)
        return number

    # ------------------------------------------------------------ arrays

    def program(self, room: int, n_values: Sequence[int]) -> Program:
        """The program with room for so many positions, and so many values of each divided view; all of that is still empty."""

        def ints(values: Sequence[object], width: int = 0) -> Ints:
            array = np.array(values, np.int64)
            return array.reshape(-1, width) if width else array

        checks_at, checks = self._checks.arrays(1)
        places_at, placed = self._places.arrays(1)
        own_at, own = self._own.arrays(OWN_WORDS)
        kids_at, kids = self._kids.arrays(KID_WORDS)
        gaps_at, gaps = self._gaps.arrays(GAP_WORDS)
        clauses_at, atoms = self._clauses.arrays(3)
        sides_at, sides = self._sides.arrays(2)
        bases, n_words = self.value_bases(room)
        if len(sides):
            sides = np.stack((sides[:, 0], bases[sides[:, 1]]), axis=1)
        views, _, _ = self._number_views(n_values)
        views[:, VIEW_CODES] *= room + 1
        row_begins = np.arange(len(self.scans)) * room
        begins, afters, oldest, horizons = np.zeros((4, room), np.int64)
        return Program(
            begins,
            afters,
            oldest,
            horizons,
            row_begins,
            row_begins,
            np.zeros(len(self.scans) * room, np.int64),
            ints(self._kinds),
            ints(self._modes),
            ints(self._bases),
            ints(self._widths),
            ints(self._node_places),
            own_at,
            own,
            kids_at,
            kids,
            gaps_at,
            gaps,
            ints(self._negations, NEGATION_WORDS),
            checks_at,
            checks.ravel(),
            ints(self._root_checks),
            views,
            np.full(len(self.divided) * (room + 1), -1, np.int64),
            places_at,
            placed.ravel(),
            ints(self._guards, 2),
            clauses_at,
            atoms,
            sides_at,
            sides,
            np.full(n_words, NULL, np.int64),
        )

    def value_bases(self, room: int) -> tuple[Ints, int]:
        """Where the values of each column begin, and the words of all: one per position and one for "not bound"; or a constant."""
        sizes = np.array([1 if column.name is None else room + 1 for column in self.columns], np.int64)
        return np.cumsum(sizes) - sizes, int(sizes.sum())

    def work(self, n_values: Sequence[int]) -> Ints:
        """Registers, stack, bindings and slabs, for a store that is empty."""
        # A node is never evaluated inside its own evaluation, so there are at most two frames for each, and one per negation.
        counters = max(
            max(len(own), KID_COUNTERS * len(kids)) for own, kids in zip(self._own.groups, self._kids.groups, strict=True)
        )
        frame_words = COUNTERS + counters + 1
        frames = frame_words * (2 * len(self._kinds) + len(self._negations))
        _, n_views, narrow = self._number_views(n_values)
        work = np.zeros(N_REGISTERS + frames + len(self.scans) + SLAB_WORDS * n_views, np.int64)
        work[FRAME_WORDS] = frame_words
        work[FRAMES] = N_REGISTERS
        work[BOUND] = N_REGISTERS + frames
        work[SLABS] = work[BOUND] + len(self.scans)
        work[N_VIEWS] = n_views
        work[work[BOUND] : work[SLABS]] = -1
        work[work[SLABS] :].reshape(-1, SLAB_WORDS)[narrow, SLAB_IS_NARROW] = 1
        return work

    def moved(self, work: Ints, before: Sequence[int], n_values: Sequence[int], codes: Sequence[Ints]) -> Ints:
        """The same with room for other numbers of values; `codes` has the new code of every old one, -1 where it is gone."""
        new = self.work(n_values)
        carried = [POOL_TOP, HALF, INTERVAL_TOP, LIVE, PEAK, N_COMPUTED]
        new[carried] = work[carried]
        slabs, to = work[work[SLABS] :].reshape(-1, SLAB_WORDS), new[new[SLABS] :].reshape(-1, SLAB_WORDS)
        old_views, new_views = self._number_views(before)[0], self._number_views(n_values)[0]
        renumbered = {divided.node: code for divided, code in zip(self.divided, codes, strict=True)}
        for node, (old_row, new_row) in enumerate(zip(old_views, new_views, strict=True)):
            room = old_row[VIEW_N_VALUES]
            code = renumbered.get(node, np.zeros(1, np.int64))[:room]
            kept = np.flatnonzero(code >= 0)
            for k in range((1 + self._has_flags(node)) if room else 0):
                to[new_row[VIEW_FIRST] + k * new_row[VIEW_N_VALUES] + code[kept]] = slabs[old_row[VIEW_FIRST] + k * room + kept]
        return new


# ---------------------------------------------------------------- plans


def _gap_absence(node: MatchSequence, i: int) -> Absence:
    """A gap as a negation with a scope: between its neighbours, and with the key of one of the slots."""
    gap = node.gaps[i]
    after = node.slots[gap.position - 1].binds if gap.position > 0 else None
    before = node.slots[gap.position].binds if gap.position < len(node.slots) else None
    neighbour = min(gap.position, len(node.slots) - 1)
    # A neighbour that is a single event is bound first.
    if gap.position > 0 and not isinstance(node.slots[neighbour], Scan):
        neighbour = gap.position - 1
    links = tuple(Link(inner, column[neighbour]) for inner, column in zip(gap.key or (), node.key, strict=False))
    return Absence(gap.instance, Scope(after, before), links)


def _outer_names(absence: Absence) -> set[str]:
    names = {*(absence.scope.after or ()), *(absence.scope.before or ())}
    for link in absence.links:
        names |= {a.variable for a in attributes(link.outer) if a.variable is not None}
    return names


def _any_of(parts: tuple[Predicate, ...]) -> Predicate:
    return parts[0] if len(parts) == 1 else AnyOf(parts)
