"""A nested plan over a batch as tables for the loops of `iterative`.

Every predicate is taken apart into clauses of tests on single events, and every clause is placed where its last variable is bound:
at an own event of an operator, where a child's result is joined, or on the finished instance. A clause that ties a sub-query to an
outer variable is pushed into it when it is evaluated from scratch (its value is passed down); a view must not depend on what is
outside, so there it is tested when results are taken, save one equality that divides the view by value.

Cost: a pass over the events of the plan per clause. Invariant: places name only variables that are bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pyarrow as pa

from seqube.engine.bindings import UNBOUND
from seqube.engine.instances import Batch
from seqube.engine.jit import kernel
from seqube.engine.predicates import NULL, Evaluator, Ints, code_columns, rank
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
    IS_FIRST,
    IS_LAST,
    ITERATIVE,
    KID_NODE,
    KID_PLACE,
    KID_WORDS,
    N_REGISTERS,
    N_VIEWS,
    NEGATED_PLACE,
    NEGATION_WORDS,
    OWN_PLACE,
    OWN_VARIABLE,
    OWN_WORDS,
    PASSIVE,
    SCAN,
    SEQUENCE,
    SLAB_IS_NARROW,
    SLAB_WORDS,
    SLABS,
    VIEW_FIRST,
    VIEW_N_VALUES,
    VIEW_VARIABLE,
    VIEW_WORDS,
    Program,
    Store,
)
from seqube.language.tree import AnyOf, Comparison, Predicate, Value, attributes, variable_of
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


@kernel
def _mark_positions(times: Ints, clocks: Ints, partitions: Ints, window: int) -> tuple[Ints, Ints, Ints, Ints]:
    """Per position: the first of its time, the first later one, the first in the window that ends here, the first behind it."""
    n = len(times)
    begins, afters, oldest, horizons = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    begin = old = 0
    for i in range(n):
        if i > 0 and partitions[i] != partitions[i - 1]:
            begin, old = i, i
        elif times[i] != times[begin]:
            begin = i
        begins[i] = begin
        while clocks[i] - clocks[old] >= window:
            old += 1
        oldest[i] = old
    end = far = n
    for i in range(n - 1, -1, -1):
        if i < n - 1 and partitions[i] != partitions[i + 1]:
            end, far = i + 1, i + 1
        elif i < n - 1 and times[i] != times[i + 1]:
            end = i + 1
        afters[i] = end
        while far > i and clocks[far - 1] - clocks[i] >= window:
            far -= 1
        horizons[i] = far
    return begins, afters, oldest, horizons


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
    """Builds the program of one plan over one batch."""

    def __init__(self, plan: MatchPlan, batch: Batch, evaluator: Evaluator) -> None:
        self._plan, self._batch, self._evaluator = plan, batch, evaluator
        self._ways = {way.subquery: MODES[way.strategy] for way in plan.ways}
        self._number: dict[str, int] = {}
        self._rows: list[Ints] = []  # positions of each variable's events
        self._scan_rows: dict[str, Ints] = {}  # the same as rows of the batch, with UNBOUND at the end
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
        self._n_views = 0
        self._narrow_views: list[int] = []
        self._codes: list[Ints] = []
        self._guards: list[list[int]] = []
        self._clauses, self._sides = _Lists(), _Lists()
        self._values: list[Ints] = []
        self._n_values = 0
        self.rest: list[Guarded] = []  # what the loops cannot test on positive variables: filters on the matches
        self._place_positions()

    def _place_positions(self) -> None:
        batch = self._batch
        rows = batch.events.rows_of(self._plan.types)
        parts = np.zeros(len(rows), np.int64) if batch.partitions is None else batch.partitions[rows]
        if batch.partitions is not None:
            rows = rows[parts >= 0]
            rows = rows[np.argsort(batch.partitions[rows], kind="stable")]
            parts = batch.partitions[rows]
        self.order = rows
        self._position = np.full(len(batch.events) + 1, -1, np.int64)
        self._position[rows] = np.arange(len(rows))
        self._marks = _mark_positions(batch.events.times[rows], batch.clocks[rows], parts, batch.window)

    # ------------------------------------------------------------ nodes

    def build(self) -> Program:
        self._add_variables(self._plan.pattern)
        self._places.add()
        root = self._node(self._plan.pattern)
        assert root == 0
        self._modes[0] = ITERATIVE
        self._predicates(self._plan.pattern, frozenset(), in_negation=False)
        root_checks = [self._negation(check) for check in (*self._edge_gaps(), *self._plan.checks)]
        self._give_views()
        return self._program(root_checks)

    def _edge_gaps(self) -> list[Absence]:
        """Negations before the first and after the last slot of the root: their scope needs the whole match."""
        node = self._plan.pattern
        if not isinstance(node, MatchSequence):
            return []
        return [_gap_absence(node, i) for i, gap in enumerate(node.gaps) if gap.position in (0, len(node.slots))]

    def _add_variables(self, node: PlanNode) -> None:
        """Number the variables of a node one after the other, and find their events."""
        for scan in scans(node):
            if scan.variable not in node.binds:
                continue
            rows = self._batch.scan(scan, self._evaluator)
            self._number[scan.variable] = len(self._rows)
            self._scan_rows[scan.variable] = np.append(rows, UNBOUND)
            self._rows.append(np.sort(self._position[rows]) if self._batch.partitions is not None else self._position[rows])

    def _node(self, node: PlanNode) -> int:
        """Add a node and everything below it."""
        number = len(self._kinds)
        self._node_numbers[node] = number
        self._nodes.append(node)
        names = node.binds
        kind = {Scan: SCAN, MatchSequence: SEQUENCE, MatchConjunction: CONJUNCTION, MatchAlternatives: ALTERNATIVES}[type(node)]
        self._kinds.append(kind)
        self._modes.append(self._ways.get(node, ITERATIVE))
        self._bases.append(self._number[names[0]])
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
                self._own.groups[number].append([self._number[slot.variable], self._places.add(), flags])
                continue
            child = self._node(slot)
            left = right = -1
            if kind == SEQUENCE:
                left = next((self._number[s.variable] for s in reversed(slots[:i]) if isinstance(s, Scan)), -1)
                right = next((self._number[s.variable] for s in slots[i + 1 :] if isinstance(s, Scan)), -1)
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
        numbers = sorted(self._number[name] for name in names)
        assert numbers[-1] - numbers[0] == len(numbers) - 1, "the variables of an expression are numbered one after the other"
        return [numbers[0], numbers[-1] + 1]

    def _give_views(self) -> None:
        """Number the views: one per sub-query and outer value; when passive and negated two, of what is empty and what is not."""
        for node, mode in enumerate(self._modes):
            if mode != ITERATIVE and self._kinds[node] != SCAN:
                n_values = max(self._views[node][VIEW_N_VALUES], 1)
                self._views[node][VIEW_FIRST], self._views[node][VIEW_N_VALUES] = self._n_views, n_values
                self._n_views += n_values
                if mode == PASSIVE and node in self._negated:
                    self._narrow_views += range(self._n_views, self._n_views + n_values)
                    self._n_views += n_values

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
                needed = {self._number[name] for name in _outer_names(absence)}
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
        """Take an equality with one outer value as what a view is divided by, if it is the first one."""
        test = clause.tests[0]
        if len(clause.tests) > 1 or clause.guard or test.op != "=" or len(test.left) > 1 or len(test.right) > 1:
            return False
        if self._views[node][VIEW_VARIABLE] >= 0:
            return False
        inside = set(self._nodes[node].binds)
        sides = [(test.left[0], test.right[0]), (test.right[0], test.left[0])]
        for inner, outer in sides:
            inner_name, outer_name = variable_of(inner), variable_of(outer)
            if inner_name in inside and outer_name is not None and outer_name not in inside:
                columns = [[self._column(value, name)] for value, name in ((inner, inner_name), (outer, outer_name))]
                (_, codes), n_codes = code_columns(columns)
                self._views[node][VIEW_N_VALUES:] = [n_codes, self._number[outer_name], sum(len(part) for part in self._codes)]
                self._codes.append(self._spread(codes, outer_name, -1))
                return True
        return False

    def _place(self, clause: _Clause, node: int) -> None:
        """Write a clause where its last variable below `node` is bound; variables outside are bound already."""
        inside = {self._number[name] for name in clause.names | clause.guard}
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
            names = {self._number[name] for name in clause.names | clause.guard}
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
        if test.op is None:
            name = variable_of(test.predicate)
            rows = self._scan_rows[name] if name is not None else np.array([UNBOUND])
            true = self._evaluator.true([test.predicate], {name: rows} if name is not None else {}, len(rows)).astype(np.int64)
            one = self._side([(None, np.ones(1, np.int64))])
            return [OPS["="], self._side([(name, true)]), one]
        names = [[variable_of(value) for value in side] for side in (test.left, test.right)]
        columns = [
            [self._column(value, name) for value, name in zip(side, of_side, strict=True)]
            for side, of_side in zip((test.left, test.right), names, strict=True)
        ]
        ranks = iter(rank([column for side in columns for column in side], self._evaluator))
        return [OPS[test.op], *(self._side([(name, next(ranks)) for name in of_side]) for of_side in names)]

    def _column(self, value: Value, name: str | None) -> pa.Array | pa.Scalar:
        """A value at the events of its variable, and where that is not bound; a constant is one."""
        if name is None:
            return self._evaluator.value(value, {})
        rows = self._scan_rows[name]
        return self._evaluator.array(value, {name: rows}, len(rows))

    def _side(self, choices: Sequence[tuple[str | None, Ints]]) -> int:
        number = self._sides.add()
        for name, values in choices:
            spread = values if name is None else self._spread(values, name, NULL)
            self._sides.groups[number].append([-1 if name is None else self._number[name], self._n_values])
            self._values.append(spread)
            self._n_values += len(spread)
        return number

    def _spread(self, values: Ints, name: str, nothing: int) -> Ints:
        """Values at the events of a variable as values at all positions; the one for "not bound" comes last."""
        spread = np.full(len(self.order) + 1, nothing, np.int64)
        spread[self._position[self._scan_rows[name]]] = values  # UNBOUND stands for the last position of both
        spread[-1] = values[-1]
        return spread

    # ------------------------------------------------------------ arrays

    def _program(self, root_checks: list[int]) -> Program:
        def ints(values: Sequence[object], width: int = 0) -> Ints:
            array = np.array(values, np.int64)
            return array.reshape(-1, width) if width else array

        rows_at = np.cumsum([0, *(len(rows) for rows in self._rows)]).astype(np.int64)
        checks_at, checks = self._checks.arrays(1)
        places_at, placed = self._places.arrays(1)
        own_at, own = self._own.arrays(OWN_WORDS)
        kids_at, kids = self._kids.arrays(KID_WORDS)
        gaps_at, gaps = self._gaps.arrays(GAP_WORDS)
        clauses_at, atoms = self._clauses.arrays(3)
        sides_at, sides = self._sides.arrays(2)
        nothing = np.empty(0, np.int64)
        return Program(
            *self._marks,
            rows_at,
            np.concatenate([nothing, *self._rows]),
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
            ints(root_checks),
            ints(self._views, VIEW_WORDS),
            np.concatenate([nothing, *self._codes]),
            places_at,
            placed.ravel(),
            ints(self._guards, 2),
            clauses_at,
            atoms,
            sides_at,
            sides,
            np.concatenate([nothing, *self._values]),
        )

    def store(self) -> Store:
        # A node is never evaluated inside its own evaluation, so there are at most two frames for each, and one per negation.
        counters = max(
            max(len(own), KID_COUNTERS * len(kids)) for own, kids in zip(self._own.groups, self._kids.groups, strict=True)
        )
        frame_words = COUNTERS + counters + 1
        frames = frame_words * (2 * len(self._kinds) + len(self._negations))
        work = np.zeros(N_REGISTERS + frames + len(self._rows) + SLAB_WORDS * self._n_views, np.int64)
        work[FRAME_WORDS] = frame_words
        work[FRAMES] = N_REGISTERS
        work[BOUND] = N_REGISTERS + frames
        work[SLABS] = work[BOUND] + len(self._rows)
        work[N_VIEWS] = self._n_views
        work[work[BOUND] : work[SLABS]] = -1
        work[work[SLABS] :].reshape(-1, SLAB_WORDS)[self._narrow_views, SLAB_IS_NARROW] = 1
        return Store(work, np.empty(1 << 16, np.int64), np.empty((2, 1 << 12), np.int64), np.empty((2, 64, 4), np.int64))

    def triggers(self, after: int, upto: int) -> Ints:
        """Positions of events that may be the last of a match and whose time lies in (after, upto]."""
        last = [self._number[scan.variable] for scan in self._plan.pattern.may_end]
        positions = np.unique(np.concatenate([self._rows[number] for number in last]))
        times = self._batch.events.times[self.order[positions]]
        chosen: Ints = positions[(times > after) & (times <= upto)]
        return chosen


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
