"""The evaluator that is right for every plan: nodes become instances, negations become barriers or checks.

Inner nodes are evaluated to `Instances` (all of them, in the order of their last event); the root is enumerated in pieces of
bounded size, filtered, checked, and handed on, so memory is bounded by the events, the instances of sub-expressions and one
piece.

Since rows are in time order, an instance is known by its first and its last row. Times say what comes before what; clocks
measure the window: with a time window they are the times, with `WITHIN n EVENTS` the numbers of the events in their stream or
partition.

Cost: linear in the events and instances of every node, plus the output of every node; a correlated negation adds the candidates in
scope with an equal link for every match.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import assert_never

import numpy as np
import pyarrow as pa

from seqube.engine.bindings import Bindings, Lists, is_bound, last_rows
from seqube.engine.conjunction import Members, enumerate_combinations, latest_combinations, members_of
from seqube.engine.instances import (
    Batch,
    Instances,
    Keys,
    Reach,
    expand,
    gather,
    latest_before,
    minus,
    order_by_code,
    plus,
    sorted_by_group,
    spanning,
    stack_slots,
    unbind,
    where_bound,
    with_others,
)
from seqube.engine.keys import KeyedSlots
from seqube.engine.lists import grow_lists
from seqube.engine.pairs import enumerate_pairs, join_pairs
from seqube.engine.predicates import Evaluator, Ints, Mask, code_columns, rank
from seqube.engine.runs.finding import find_runs
from seqube.engine.sequence import (
    HIGHEST,
    LOWEST,
    OPS,
    Clauses,
    Stacks,
    enumerate_matches,
    is_over,
    link,
    new_cursor,
)
from seqube.language.mentions import attributes
from seqube.language.tree import Value
from seqube.plan.pairs import indexed, pairs_to_index
from seqube.plan.physical import (
    Absence,
    Atom,
    Clause,
    Gap,
    Guarded,
    LocalAtom,
    MatchAlternatives,
    MatchConjunction,
    MatchPlan,
    MatchRepeat,
    MatchRun,
    MatchSequence,
    PlanNode,
    Scan,
    Scope,
    list_variables,
    scans,
    walk,
)
from seqube.plan.witnesses import latest_tells, may_share, slots_of

PIECE = 1 << 16  # matches per piece: large enough to amortise calls, small enough to stay in the cache
FIRST_PAIRS = 16  # candidates per match in the first round of a correlated check; later rounds take more


class Evaluation:
    """One plan over one batch. `upto` and `after` restrict the matches by the time of their end (after, upto].

    Where only some variables of a match will be `read`, the rows of others may be left out.
    """

    def __init__(
        self, plan: MatchPlan, batch: Batch, after: int = LOWEST, upto: int = HIGHEST, read: frozenset[str] = frozenset()
    ) -> None:
        self._plan = plan
        self._batch = batch
        self._read = read or frozenset(plan.variables)
        self._times = batch.times
        self.evaluator = Evaluator(batch.events)
        self._keyed = KeyedSlots(batch, self.evaluator, plan.partition_by)
        self._made: dict[PlanNode, Instances] = {}
        self._told: dict[tuple[PlanNode, tuple[Value, ...]], Instances] = {}
        self._ends = (after, upto)
        self._ways = {way.subquery: way.strategy for way in plan.ways}
        self._needed: Mask | None = None  # rows that the instances being built may use; None: all
        self._wider: Evaluation | None = None  # the same over twice the window

    def matches(self) -> Iterator[Instances]:
        """The matches, in pieces."""
        plan = self._plan
        after, upto = self._ends
        # A sequence was told where it may end when its last slot was stacked.
        is_within = self._ends == (LOWEST, HIGHEST) or isinstance(plan.pattern, MatchSequence)
        pieces = self._pieces(plan.pattern, is_root=True) if plan.cut_at is None else iter([self._kept_runs(plan.cut_at)])
        for piece in pieces:
            if not is_within and len(piece):
                ends = self._batch.events.times[piece.last_rows]
                piece = piece.select((ends > after) & (ends <= upto))
            for check in plan.checks if plan.cut_at is None else ():
                if len(piece):
                    piece = piece.select(~self._cancelled(check, piece.rows, len(piece), self._root_reach(piece)))
            if len(piece):
                yield piece

    def _kept_runs(self, cut_at: Sequence[int]) -> Instances:
        """Every run of a NEXT, as far as it got: up to the last part before the first negation that cancels it."""
        node = self._plan.pattern
        assert isinstance(node, MatchRun)
        runs = find_runs(node, self._batch, self.evaluator, lambda scan: self._scan(scan).last_rows, partial=True)
        rows, reached = dict(runs.instances.rows), runs.reached
        names = [[scan.variable for scan in step.scans] for step in node.steps]
        left = np.ones(len(runs.instances), np.bool_)  # not cancelled so far
        for check, position in zip(self._plan.checks, cut_at, strict=True):
            further = [is_bound(rows[name]) for step in names[position:] for name in step]
            asked = np.flatnonzero(left & np.logical_or.reduce([runs.are_matches, *further]))
            found = runs.instances.select(asked)
            cancelled = asked[self._cancelled(check, found.rows, len(found), self._root_reach(found))]
            left[cancelled] = False
            for step in names[position:]:
                rows |= {name: unbind(rows[name], cancelled) for name in step}
            for number, step in enumerate(names[:position], 1):
                bound = np.logical_or.reduce([is_bound(rows[name]) for name in step])[cancelled]
                reached = reached.copy()
                reached[cancelled[bound]] = number
        return replace(spanning(rows), reached=reached)

    # ------------------------------------------------------------ nodes

    def _instances(self, node: PlanNode) -> Instances:
        """All instances of an inner node."""
        if node not in self._made:
            if isinstance(node, Scan):
                self._made[node] = self._scan(node)
            else:
                self._made[node] = gather([self._kept(piece) for piece in self._pieces(node)], node.binds, list_variables(node))
                self._batch.budget.check()
        return self._made[node]

    def _kept(self, piece: Instances) -> Instances:
        self._batch.budget.hold(piece.n_bytes)
        return piece.copy()

    def _pieces(self, node: PlanNode, is_root: bool = False) -> Iterator[Instances]:
        """Instances of a node in pieces, in no particular order. A piece may be overwritten by the next one."""
        match node:
            case Scan():
                yield self._scan(node)
                return
            case MatchSequence():
                pieces = self._sequences(node, is_root)
            case MatchConjunction():
                pieces = self._conjunctions(node)
            case MatchAlternatives():
                pieces = self._alternatives(node)
            case MatchRepeat():
                pieces = iter([self._lists(node)])
            case MatchRun():
                pieces = iter([find_runs(node, self._batch, self.evaluator, lambda scan: self._scan(scan).last_rows).instances])
            case _:
                assert_never(node)
        for piece in pieces:
            yield piece.select(self._passes(node.filters, piece)) if node.filters else piece

    def _scan(self, node: Scan) -> Instances:
        rows = self._batch.scan(node, self.evaluator, None if self._needed is None else self._needed.__getitem__)
        return Instances({node.variable: rows}, rows, rows)

    def _alternatives(self, node: MatchAlternatives) -> Iterator[Instances]:
        for branch in node.branches:
            for piece in self._pieces(branch):
                yield with_others(piece, node)

    def _lists(self, node: MatchRepeat) -> Instances:
        """Every list of a repeated part."""
        rows = self._instances(node.item).last_rows
        columns = [self._batch.partition_column(rows)]
        columns[0] += [self.evaluator.array(value, {node.item.variable: rows}, len(rows)) for value in node.key]
        codes = code_columns(columns)[0][0] if columns[0] else np.zeros(len(rows), np.int64)
        return grow_lists(node, rows, codes, self._batch, self.evaluator)

    def _sequences(self, node: MatchSequence, is_root: bool) -> Iterator[Instances]:
        slots, clauses, stacks = self._stacked(node, is_root)
        pairs = pairs_to_index(node, self._ways.get(node))
        tested = [clause for clause in clauses if not any(clause in pair.clauses for pair in indexed(pairs).values())]
        tables, window = self._clauses(tested, slots, min), self._batch.window
        if pairs:
            fill = partial(enumerate_pairs, join_pairs(pairs, slots, stacks, window, self.evaluator), tables, window)
        else:
            fill = partial(enumerate_matches, link(stacks, window), tables, window)
        read = self._read if is_root and not node.filters and not self._plan.checks else frozenset(node.binds)
        written = np.array([not read.isdisjoint(slot.rows) for slot in slots])
        written[[0, -1]] = True  # these tell where a match begins and ends
        cursor = new_cursor(len(slots))
        out = np.empty((len(slots), PIECE), np.int64)
        while not is_over(cursor):
            count = fill(cursor, written, out)
            self._batch.budget.check()
            if count:
                yield expand(slots, out[:, :count], read, in_order=True)

    def _stacked(self, node: MatchSequence, is_root: bool) -> tuple[list[Instances], list[Clause], Stacks]:
        """The slots of a sequence by key and time, the clauses between them, and their stacks with what must not be there noted."""
        slots, clauses = self._slots(node)
        if is_root and self._ends != (LOWEST, HIGHEST):
            bounds = np.searchsorted(self._batch.events.times, self._ends, "right")  # rows ascend with times
            slots[-1] = slots[-1].select(np.arange(*np.searchsorted(slots[-1].last_rows, bounds)))
        gaps = [self._witnesses(gap.instance, gap.key or ()) for gap in node.gaps]
        slots, codes, gap_codes, n_codes = self._keyed.grouped(node, slots, gaps)
        stacks = stack_slots(self._batch, slots, codes, n_codes + 1, guarded=bool(gaps))
        for gap, instances, code in zip(node.gaps, gaps, gap_codes, strict=True):
            self._raise_barriers(stacks, gap, instances, code, slots, codes, gap.key is not None)
        return slots, clauses, stacks

    def _witnesses(self, node: PlanNode, tied: Sequence[Value]) -> Instances:
        """Instances enough to tell whether there is any in a scope (of a key, if values of the node are `tied` to what is outside).

        Of the instances that end with an event, the one that starts latest lies in every scope that another of them lies in.
        """
        asked = (node, tuple(tied))
        if asked not in self._told:
            self._told[asked] = self._latest_instances(node, tied)
        return self._told[asked]

    def _latest_instances(self, node: PlanNode, tied: Sequence[Value]) -> Instances:
        if isinstance(node, MatchSequence) and latest_tells(node, tied):
            slots, _, stacks = self._stacked(node, is_root=False)
            links = link(stacks, HIGHEST)
            top = len(slots) - 1
            at = links.offsets[top] + np.arange(links.sizes[top])
            # Later events have later predecessors, and none that `link` keeps has none: the last one in range starts latest.
            rows: dict[str, Ints] = {}
            for i in range(top, -1, -1):
                rows[next(iter(slots[i].rows))] = links.ids[at]
                at = links.high[at] - 1
            names = node.binds
            found = Instances(rows, rows[names[0]], rows[names[-1]])
            return found.select(np.argsort(found.last_rows, kind="stable"))
        if isinstance(node, MatchSequence) and not node.gaps and latest_tells(node, tied, at_first=True):
            # Of those that start with an event, the one that ends earliest: each next event is the first that may follow.
            slots, _ = self._slots(node)
            codes, _, _ = self._keyed.codes(node, slots)
            size = len(self._times)
            followed: list[Ints] = [slots[0].last_rows[codes[0] >= 0]]
            code = codes[0][codes[0] >= 0]
            for slot, slot_codes in zip(slots[1:], codes[1:], strict=True):
                keys = np.append(np.sort(slot_codes * size + slot.last_rows), HIGHEST)
                later = np.searchsorted(self._times, self._times[followed[-1]], "right")
                follower = keys[np.searchsorted(keys, code * size + later)]
                whole = (follower // size == code) & (follower < HIGHEST)
                followed = [column[whole] for column in (*followed, follower % size)]
                code = code[whole]
            found = Instances(dict(zip(node.binds, followed, strict=True)), followed[0], followed[-1])
            return found.select(np.argsort(found.last_rows, kind="stable"))
        if isinstance(node, MatchConjunction) and latest_tells(node, tied):
            slots, _ = self._slots(node)
            codes, _, _ = self._keyed.codes(node, slots)
            slots, codes = sorted_by_group(slots, codes, drop_null=True)
            offsets = np.cumsum([0, *(len(slot) for slot in slots)])
            latest = latest_combinations(offsets, np.concatenate(codes), np.concatenate([slot.last_rows for slot in slots]))
            found = spanning(dict(zip(node.binds, latest, strict=True)))
            return found.select(np.argsort(found.last_rows, kind="stable"))
        if isinstance(node, MatchAlternatives) and not node.filters and not tied:
            pieces = [with_others(self._witnesses(branch, ()), node) for branch in node.branches]
            return gather(pieces, node.binds, list_variables(node))
        return self._instances(node)

    def _conjunctions(self, node: MatchConjunction) -> Iterator[Instances]:
        slots, clauses = self._slots(node)
        codes, _, n_codes = self._keyed.codes(node, slots)
        slots, codes = sorted_by_group(slots, codes, drop_null=len(slots) > 1)
        stacks = stack_slots(self._batch, slots, codes, n_codes)
        tables = self._clauses(clauses, slots, max)
        names = frozenset(node.binds)
        members = members_of(slots) if may_share(node.slots) else Members(*(np.empty(0, np.int64) for _ in range(3)))
        cursor = new_cursor(len(slots))
        out = np.empty((len(slots), PIECE), np.int64)
        while not is_over(cursor):
            count = enumerate_combinations(stacks, tables, members, self._batch.window, cursor, out)
            self._batch.budget.check()
            if count:
                yield expand(slots, out[:, :count], names, in_order=False)

    def _passes(self, filters: Sequence[Guarded], piece: Instances) -> Mask:
        mask = np.ones(len(piece), np.bool_)
        for guarded in filters:
            holds = self.evaluator.true([guarded.predicate], piece.rows, len(piece))
            mask &= holds | ~where_bound(guarded.when, piece.rows) if guarded.when else holds
        return mask

    # ------------------------------------------------------------ slots

    def _slots(self, node: MatchSequence | MatchConjunction) -> tuple[list[Instances], list[Clause]]:
        """The instances of every slot, with clauses that look at one slot alone applied; and the other clauses."""
        slots = [self._instances(slot) if isinstance(slot, Scan) else self._nearby(node, i) for i, slot in enumerate(node.slots)]
        rest: list[Clause] = []
        for clause in node.clauses:
            alone = {atom.slot for atom in clause if isinstance(atom, LocalAtom)}
            if len(alone) == 1 and all(isinstance(atom, LocalAtom) for atom in clause):
                (number,) = alone
                slot = slots[number]
                true = [self.evaluator.true([atom.predicate], slot.rows, len(slot)) for atom in clause]
                slots[number] = slot.select(np.logical_or.reduce(true))
            else:
                rest.append(clause)
        return slots, rest

    def _nearby(self, node: MatchSequence | MatchConjunction, i: int) -> Instances:
        """The instances of a sub-query, built from events in reach of its sequence's single events: others join nothing.

        What cancels an instance that joins lies inside it, so it is in their reach as well.
        """
        slot, batch, before = node.slots[i], self._batch, self._needed
        others = [(j, other) for j, other in enumerate(node.slots) if isinstance(other, Scan)]
        if isinstance(node, MatchConjunction) or not others or (batch.counts_events and batch.partitions is not None):
            return self._instances(slot)
        if any(isinstance(inner, MatchRun) for inner in walk(slot)):  # which event a run takes depends on all of them
            self._needed = None
            found = self._instances(slot)
            self._needed = before
            return found
        rows = batch.events.rows_of(frozenset().union(*(scan.types for scan in scans(slot))))
        if before is not None:
            rows = rows[before[rows]]
        for j, other in others:
            partners = self._instances(other).last_rows
            if j > i:
                at = np.searchsorted(self._times[partners], self._times[rows], "right")
                rows, at = rows[at < len(partners)], at[at < len(partners)]
                apart = batch.clocks[partners[at]] - batch.clocks[rows]
            else:
                at = np.searchsorted(self._times[partners], self._times[rows], "left") - 1
                rows, at = rows[at >= 0], at[at >= 0]
                apart = batch.clocks[rows] - batch.clocks[partners[at]]
            rows = rows[apart < batch.window]
        self._needed = np.zeros(len(self._times), np.bool_)
        self._needed[rows] = True
        found = self._instances(slot)
        self._needed = before
        return found

    def _raise_barriers(
        self,
        stacks: Stacks,
        gap: Gap,
        instances: Instances,
        codes: Ints,
        slots: list[Instances],
        slot_codes: list[Ints],
        keyed: bool,
    ) -> None:
        """Note for every instance next to the gap how far back (or for how long) nothing forbidden may lie."""
        trailing = gap.position == len(slots)
        number = gap.position - 1 if trailing else gap.position
        slot = slots[number]
        where = slice(stacks.offsets[number], stacks.offsets[number] + len(slot))
        asked = slot_codes[number] if keyed else self._batch.partitions_of(slot.last_rows)
        clocks, times = self._batch.clocks, self._times
        if trailing:
            # The earliest end of what starts later is the latest start of what ends earlier, with time running backwards.
            found = latest_before(codes, -times[instances.first_rows], -clocks[instances.last_rows], asked, -times[slot.last_rows])
            limits = np.where(found == LOWEST, HIGHEST, minus(-np.where(found == LOWEST, 0, found), self._batch.window))
            stacks.limits[where] = np.minimum(stacks.limits[where], limits)
            return
        starts = clocks[instances.first_rows] if gap.position == 0 else times[instances.first_rows]
        found = latest_before(codes, times[instances.last_rows], starts, asked, times[slot.first_rows])
        stacks.barriers[where] = np.maximum(stacks.barriers[where], found)

    def _clauses(self, clauses: list[Clause], slots: list[Instances], when: Callable[[set[int]], int]) -> Clauses:
        """Clauses as tables; each is checked at the first slot at which all its slots are chosen (`when` of them)."""
        levels = [when(slots_of(clause)) for clause in clauses]
        order = sorted(range(len(clauses)), key=levels.__getitem__)
        bounds, tests, values, n_values = [0], [], [], 0
        for c in order:
            for atom in clauses[c]:
                if isinstance(atom, Atom):
                    columns = (self._column(atom.left, slots[atom.left_slot]), self._column(atom.right, slots[atom.right_slot]))
                    left, right = rank(columns, self.evaluator)
                    sides = (OPS[atom.op], atom.left_slot, n_values, atom.right_slot, n_values + len(left))
                else:
                    slot = slots[atom.slot]
                    left = self.evaluator.true([atom.predicate], slot.rows, len(slot)).astype(np.int64)
                    right = np.ones(len(slot), np.int64)
                    sides = (OPS["="], atom.slot, n_values, atom.slot, n_values + len(left))
                tests.append(sides)
                values += [left, right]
                n_values += len(left) + len(right)
            bounds.append(len(tests))
        at = np.searchsorted(np.sort(levels), np.arange(len(slots) + 1)).astype(np.int64)
        return Clauses(
            at,
            np.array(bounds, np.int64),
            np.array(tests, np.int64).reshape(-1, 5),
            np.concatenate([np.empty(0, np.int64), *values]),
        )

    def _column(self, value: Value, slot: Instances) -> pa.Array:
        return self.evaluator.array(value, slot.rows, len(slot))

    # ------------------------------------------------------------ negations that are checked

    def _root_reach(self, piece: Instances) -> Reach:
        size, clocks, window = len(piece), self._batch.clocks, self._batch.window
        return Reach(
            np.full(size, LOWEST),
            np.full(size, HIGHEST),
            minus(clocks[piece.last_rows], window),
            plus(clocks[piece.first_rows], window),
        )

    def _cancelled(self, absence: Absence, rows: Bindings, size: int, reach: Reach) -> Mask:
        """Which matches an instance of the negated expression cancels. `reach` is the scope the enclosing expression hands on."""
        if absence.when:
            taken = where_bound(absence.when, rows)
            result = np.zeros(size, np.bool_)
            chosen = {name: column[taken] for name, column in rows.items()}
            result[taken] = self._cancelled_in(absence, chosen, int(taken.sum()), reach.select(taken))
            return result
        return self._cancelled_in(absence, rows, size, reach)

    def _cancelled_in(self, absence: Absence, rows: Bindings, size: int, reach: Reach) -> Mask:
        self._batch.budget.check()
        reach = self._narrow(absence.scope, rows, reach)
        inner = self._cancelling(absence)
        asked, codes = self._link_codes(absence, inner, rows, size)
        self._batch.budget.check()
        if not absence.filters and not absence.checks and self._batch.has_one_clock:
            times = self._times
            before = np.minimum(reach.before_times, reach.before_clocks)
            after = np.maximum(reach.after_times, reach.after_clocks)
            return latest_before(codes, times[inner.last_rows], times[inner.first_rows], asked, before) > after
        if not absence.filters and not absence.checks and self._batch.partitions is None:
            begins, ends = self._row_ranges(reach)
            return latest_before(codes, inner.last_rows, inner.first_rows, asked, ends) >= begins
        return self._search(absence, inner, codes, rows, asked, reach)

    def _row_ranges(self, reach: Reach) -> tuple[Ints, Ints]:
        """Scopes as ranges of rows: without partitions, rows, times and clocks ascend together."""
        times, clocks = self._times, self._batch.clocks
        begins, ends = np.searchsorted(times, reach.after_times, "right"), np.searchsorted(times, reach.before_times, "left")
        if reach.after_clocks.max(initial=LOWEST) > LOWEST:
            begins = np.maximum(begins, np.searchsorted(clocks, reach.after_clocks, "right"))
        if reach.before_clocks.min(initial=HIGHEST) < HIGHEST:
            ends = np.minimum(ends, np.searchsorted(clocks, reach.before_clocks, "left"))
        return begins, ends

    def _cancelling(self, absence: Absence) -> Instances:
        """The instances that can cancel: all that fit the window, because every scope does.

        Only the scope of a negation in AND ends by time, so with a tuple-count window and ties an instance in it may span more
        events than the window, though never two windows.
        """
        source = self
        if absence.scope.around is not None and self._batch.counts_events:
            if self._wider is None:
                self._wider = Evaluation(self._plan, replace(self._batch, window=min(2 * self._batch.window, HIGHEST)))
            source = self._wider
        if absence.filters or absence.checks:
            return source._instances(absence.instance)
        return source._witnesses(absence.instance, [link.inner for link in absence.links])

    def _narrow(self, scope: Scope, rows: Bindings, reach: Reach) -> Reach:
        """The scope of a negation inside an expression that has the scope `reach`."""
        after_times, before_times = reach.after_times, reach.before_times
        after_clocks, before_clocks = reach.after_clocks, reach.before_clocks
        if scope.after is not None:
            ends = _span(scope.after, rows).last_rows
            there = ends >= 0  # where all these parts are absent, the scope is what is inherited
            after_times = np.where(there, self._times[ends], after_times)
            after_clocks = np.where(there, LOWEST, after_clocks)
        if scope.before is not None:
            starts = _span(scope.before, rows).first_rows
            there = (starts >= 0) & (starts < HIGHEST)
            before_times = np.where(there, self._times[np.where(there, starts, 0)], before_times)
            before_clocks = np.where(there, HIGHEST, before_clocks)
        if scope.around is not None:
            ends = _span(scope.around, rows).last_rows
            before_times = np.minimum(before_times, self._times[ends] + 1)
            after_clocks = np.maximum(after_clocks, minus(self._batch.clocks[ends], self._batch.window))
        return Reach(after_times, before_times, after_clocks, before_clocks)

    def _link_codes(self, absence: Absence, inner: Instances, rows: Bindings, size: int) -> tuple[Ints, Ints]:
        """Codes of the matches and of the instances that may cancel them: only equal codes meet; null meets nothing."""
        names = {attribute.variable for link in absence.links for attribute in attributes(link.outer)}
        name = names.pop() or "" if len(names) == 1 else ""
        only = rows.get(name)
        if only is not None and not isinstance(only, Lists) and size and only.min() >= 0 and len(rows) > 1:
            # Tied to one event only: each of these is looked up once, however many matches it is in.
            marks = np.zeros(len(self._times), np.int64)
            marks[only] = 1
            distinct = np.flatnonzero(marks)
            marks[distinct] = np.arange(len(distinct))
            asked, codes = self._link_codes(absence, inner, {name: distinct}, len(distinct))
            return asked[marks[only]], codes
        outer_columns = [self.evaluator.array(link.outer, rows, size) for link in absence.links]
        inner_columns = [self.evaluator.array(link.inner, inner.rows, len(inner)) for link in absence.links]
        if self._batch.partitions is not None:
            anywhere = np.maximum.reduce([last_rows(column) for column in rows.values()])
            outer_columns.append(pa.array(self._batch.partitions[anywhere]))
            inner_columns += self._batch.partition_column(inner.last_rows)
        if not outer_columns:
            return np.zeros(size, np.int64), np.zeros(len(inner), np.int64)
        (asked, codes), n_codes = code_columns([outer_columns, inner_columns])
        return np.where(asked < 0, n_codes, asked), codes

    def _search(self, absence: Absence, inner: Instances, codes: Ints, rows: Bindings, asked: Ints, reach: Reach) -> Mask:
        """Look at the candidates in scope, match by match, in rounds: most matches are decided by their first few candidates."""
        times, clocks = self._times, self._batch.clocks
        order = order_by_code(codes)  # they ascend by their last row
        inner, codes = inner.select(order), codes[order]
        # Within one code (and so one partition), rows, times and clocks ascend together: scopes are ranges.
        keys = Keys(codes, times[inner.last_rows], clocks[inner.last_rows])
        begins, ends = keys.ranges(asked, reach)
        cancelled = np.zeros(len(asked), np.bool_)
        width = FIRST_PAIRS
        while True:
            open_ = np.flatnonzero(~cancelled & (begins < ends))
            if not len(open_):
                return cancelled
            for block in np.array_split(open_, max(1, len(open_) * width // PIECE)):
                self._batch.budget.check()
                counts = np.minimum(ends[block] - begins[block], width)
                outer = np.repeat(block, counts)
                within = np.arange(len(outer)) - np.repeat(np.cumsum(counts) - counts, counts)
                candidates = inner.select(np.repeat(begins[block], counts) + within)
                here = reach.select(outer)
                fits = times[candidates.first_rows] > here.after_times
                fits &= clocks[candidates.first_rows] > here.after_clocks
                outer, candidates, here = outer[fits], candidates.select(fits), here.select(fits)
                pairs = {**{name: column[outer] for name, column in rows.items()}, **candidates.rows}
                alive = self._passes(absence.filters, Instances(pairs, candidates.first_rows, candidates.last_rows))
                for check in absence.checks:
                    kept = np.flatnonzero(alive)
                    if len(kept):
                        chosen = {name: column[kept] for name, column in pairs.items()}
                        alive[kept] &= ~self._cancelled(check, chosen, len(kept), here.select(kept))
                cancelled[outer[alive]] = True
            begins = begins + width
            width *= 4


def _span(names: Sequence[str], rows: Bindings) -> Instances:
    return spanning({name: rows[name] for name in names})
