"""Runs one by one, in a compiled loop: where all that is asked compares a value of one event with a value of another.

A run is known by the places it took, in order; each part has taken some that lie behind each other. The loop tries the choices of
the part it is in (`Course.choices`) and asks, of an event that fits, the clauses of the part that would take it: a clause is true
if one of its tests is, and a test is two look-ups. It stops at the first clause that is not.

    NEXT     from an event that was taken or skipped to the next one that fits a choice (`following`), until the run is over.
    STRICT   from place to place; where no choice fits, the last event is given back and its next choice tried. The first way to
             the end is the preferred one, so none behind it is looked at.

A clause that names an earlier list is asked of each of its events; with PREV, of each but the first, with the one before it. Two
such lists in one clause, values of lists as wholes, and what is no comparison are left to threads.

Cost: for each start the events in its window that fit a choice, each with the tests up to the first that fails; for STRICT the ways
that are tried. Invariant: what is found does not depend on how the starts are cut into pieces.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from seqube.engine.bindings import UNBOUND, Column, Ints, Lists, Mask, before, offsets_of
from seqube.engine.instances import Instances
from seqube.engine.jit import kernel, kernel_part
from seqube.engine.predicates import NULL, rank
from seqube.engine.runs.courses import ANY_NUMBER, NO_PLACE, RunCourse, Runs
from seqube.engine.sequence import OPS, compare
from seqube.language.mentions import named_as_lists
from seqube.language.tree import Attribute, Predicate, Prev, transform
from seqube.plan.joining import as_clause
from seqube.plan.physical import Atom, LocalAtom
from seqube.plan.witnesses import slots_of

STARTS = 1 << 14  # walked at once: time and memory are looked at in between
ROOM_FOR_RUNS = 1 << 12  # places that there is room for at first

# Of which event a side of a test is: the one in question, the one taken before it, that of a variable, the one of a list that is
# gone through, and the one before that.
_HERE, _BEFORE, _SINGLE, _LISTED, _LISTED_BEFORE = range(5)


class Road(NamedTuple):
    """The places of a course, as the loops walk them."""

    takes: Mask  # (n_variables, n_places)
    following: Ints  # (n_parts + 1, n_places + 1): from here on, the first place that a run in that part (-1: none yet) could take
    later: Ints
    clocks: Ints
    closed: Ints
    stop: Ints
    follows: Mask  # of STRICT


class RunProgram(NamedTuple):
    """Parts as tables."""

    choices: Ints  # (n, 2): part and variable; a variable of -1 is the end
    choices_at: Ints  # n_parts + 2: part p has the choices at[p + 1] .. at[p + 2]
    least: Ints
    most: Ints
    may_end: Mask  # nothing has to come after this part
    is_over: Mask  # nothing behind this part is waited for
    is_reluctant: Mask
    is_listed: Mask  # of each variable


class AskedOfRuns(NamedTuple):
    """What is asked of an event that a part would take. Clause c has the tests first .. end."""

    at: Ints  # n_parts + 1: those of part p are at[p] .. at[p + 1]
    clauses: Ints  # (n, 5): the part whose list is gone through (or -1), from which event on, whether not of a part's first, tests
    tests: Ints  # (n, 7): op; side, variable and base of the values, left and right
    values: Ints  # by place, and of what is not bound behind the last


class Walked(NamedTuple):
    """Runs: where each began, the part it came to, whether it is a match, how many events it took; and these, with variables."""

    starts: Ints
    parts: Ints
    are_matches: Mask
    counts: Ints
    places: Ints
    variables: Ints


def walk_along(course: RunCourse, partial: bool) -> Runs | None:
    """The runs of a course; None where it asks more than comparisons, or where threads that meet go on as one."""
    node, budget = course.node, course.batch.budget
    if node.is_strict and not node.asked:
        return None
    asked = _Asking(course).tables()
    if asked is None:
        return None
    road, program = _road(course), _program(course)
    pieces, n_bytes = [], 0
    for begin in range(0, max(len(course), 1), STARTS):
        end = min(begin + STARTS, len(course))
        walked = (
            walk_strict(begin, end, road, program, asked)
            if node.is_strict
            else walk_next(begin, end, road, program, asked, partial)
        )
        n_bytes += sum(column.nbytes for column in walked)
        budget.need(n_bytes)
        budget.check()
        pieces.append(walked)
    return _runs(course, Walked(*(np.concatenate(columns) for columns in zip(*pieces, strict=True))))


def _runs(course: RunCourse, walked: Walked) -> Runs:
    size = len(walked.starts)
    run_of = np.repeat(np.arange(size), walked.counts)
    taken = course.rows[walked.places]
    rows: dict[str, Column] = {}
    for number, name in enumerate(course.names):
        mine = walked.variables == number
        if name in course.repeated:
            counts = np.bincount(run_of[mine], minlength=size)
            rows[name] = Lists(taken[mine], offsets_of(counts), course.repeated[name])
        else:
            column = np.full(size, UNBOUND, np.int64)
            column[run_of[mine]] = taken[mine]
            rows[name] = column
    reached = np.where(walked.are_matches, len(course.steps), walked.parts + 1)
    last = taken[np.cumsum(walked.counts) - 1]
    return Runs(Instances(rows, course.rows[walked.starts], last), walked.are_matches, reached)


# ---------------------------------------------------------------- tables


def _program(course: RunCourse) -> RunProgram:
    steps, choose = course.steps, course.preferred if course.node.is_strict else course.choices
    choices, at = [], [0]
    for part in range(NO_PLACE, len(steps)):
        choices += [(choice.part, course.number.get(choice.variable or "", NO_PLACE)) for choice in choose(part)]
        at.append(len(choices))
    return RunProgram(
        np.array(choices, np.int64).reshape(-1, 2),
        np.array(at),
        np.array([step.least for step in steps]),
        np.array([step.most or ANY_NUMBER for step in steps]),
        np.array([all(later.least == 0 for later in steps[part + 1 :]) for part in range(len(steps))]),
        np.array([all(later.is_reluctant for later in steps[part + 1 :]) for part in range(len(steps))]),
        np.array([step.is_reluctant for step in steps]),
        np.array([name in course.repeated for name in course.names]),
    )


def _road(course: RunCourse) -> Road:
    size = len(course)
    if course.node.is_strict:
        following, follows = np.empty((0, 0), np.int64), course.follows()
    else:
        wanted = np.zeros((len(course.steps) + 1, len(course.names)), np.bool_)
        for part in range(NO_PLACE, len(course.steps)):
            wanted[part + 1, [course.number[choice.variable or ""] for choice in course.choices(part)]] = True
        following, follows = follow_runs(course.takes, wanted), np.empty(0, np.bool_)
    assert len(course.later) == size
    return Road(course.takes, following, course.later, course.clocks, course.closed, course.stop, follows)


@kernel
def follow_runs(takes: Mask, wanted: Mask) -> Ints:
    """For each part, from each place on, the first place with an event that one of the wanted variables takes."""
    size = takes.shape[1]
    out = np.empty((len(wanted), size + 1), np.int64)
    for p in range(len(wanted)):
        nearest = size
        out[p, size] = size
        for at in range(size - 1, -1, -1):
            for v in range(len(takes)):
                if wanted[p, v] and takes[v, at]:
                    nearest = at
                    break
            out[p, at] = nearest
    return out


@dataclass
class _Asking:
    """The predicates of a run as tests."""

    course: RunCourse

    def __post_init__(self) -> None:
        names = self.course.names
        self.slots = {name: n for n, name in enumerate((*names, *map(before, names)))}
        self.tests: list[tuple[int, ...]] = []
        self.values: list[Ints] = []
        self.n_values = 0

    def tables(self) -> AskedOfRuns | None:
        clauses: list[list[tuple[int, ...]]] = [[] for _ in self.course.steps]
        for predicate in self.course.node.asked:
            if named_as_lists(predicate) or (told := self._clause(predicate)) is None:
                return None
            part, clause = told
            clauses[part].append(clause)
        at = np.cumsum([0, *map(len, clauses)])
        flat = np.array([clause for each in clauses for clause in each], np.int64).reshape(-1, 5)
        tests = np.array(self.tests, np.int64).reshape(-1, 7)
        return AskedOfRuns(at, flat, tests, np.concatenate([np.empty(0, np.int64), *self.values]))

    def _clause(self, predicate: Predicate) -> tuple[int, tuple[int, ...]] | None:
        """The part that asks it, which is the last that it names, and the clause."""
        course = self.course
        clause = as_clause(transform(predicate, _name_before), self.slots)
        if clause is None:
            return None
        named = [divmod(slot, len(course.names))[::-1] for slot in slots_of(clause)]  # variable, and whether the one before it
        parts = {course.part_of[course.names[variable]] for variable, _ in named}
        part = max(parts)
        lists = {other for other in parts if other != part and course.steps[other].is_repeated}
        if len(lists) > 1:
            return None
        through = lists.pop() if lists else NO_PLACE
        skips_first = any(is_before and course.part_of[course.names[variable]] == part for variable, is_before in named)
        begin = any(is_before and course.part_of[course.names[variable]] == through for variable, is_before in named)
        first = len(self.tests)
        for atom in clause:
            self._add(atom, part)
        return part, (through, int(begin), int(skips_first), first, len(self.tests))

    def _add(self, atom: Atom | LocalAtom, part: int) -> None:
        course, size = self.course, len(self.course)
        rows = np.append(course.rows, UNBOUND)  # what is not bound stands behind the last place
        if isinstance(atom, Atom):
            op, slots = OPS[atom.op], (atom.left_slot, atom.right_slot)
            sides = zip(slots, (atom.left, atom.right), strict=True)
            columns = [course.evaluator.array(value, {self._name(slot): rows}, size + 1) for slot, value in sides]
            values = rank(columns, course.evaluator)
        else:
            op, slots = OPS["="], (atom.slot, atom.slot)
            true = course.evaluator.true([atom.predicate], {self._name(atom.slot): rows}, size + 1)
            values = [true.astype(np.int64), np.ones(size + 1, np.int64)]
        test = [op]
        for slot, column in zip(slots, values, strict=True):
            is_before, variable = divmod(slot, len(course.names))
            test += [self._side(variable, bool(is_before), part), variable, self.n_values]
            self.values.append(column)
            self.n_values += len(column)
        self.tests.append(tuple(test))

    def _name(self, slot: int) -> str:
        is_before, variable = divmod(slot, len(self.course.names))
        name = self.course.names[variable]
        return before(name) if is_before else name

    def _side(self, variable: int, is_before: bool, part: int) -> int:
        name = self.course.names[variable]
        if name not in self.course.repeated:
            return _SINGLE
        if self.course.part_of[name] == part:
            return _BEFORE if is_before else _HERE
        return _LISTED_BEFORE if is_before else _LISTED


def _name_before(node: object) -> object:
    """PREV(f.x) as an attribute of an event of its own."""
    if isinstance(node, Prev):
        return Attribute(before(node.argument.variable or ""), node.argument.name)
    return node


# ---------------------------------------------------------------- loops


class Taken(NamedTuple):
    """What a run has taken: places in order, which of them each part has, and those of variables that are one event."""

    places: Ints
    begins: Ints
    ends: Ints
    chosen: Ints


@kernel_part
def value_of(asked: AskedOfRuns, test: int, side: int, place: int, last: int, listed: int, taken: Taken) -> int:
    """One side of a test, of which `place` is the event in question and `listed` the one of a list that is gone through."""
    kind, variable, base = asked.tests[test, side], asked.tests[test, side + 1], asked.tests[test, side + 2]
    if kind == _HERE:
        at = place
    elif kind == _BEFORE:
        at = last
    elif kind == _SINGLE:
        at = taken.chosen[variable]
    elif kind == _LISTED:
        at = taken.places[listed]
    else:
        at = taken.places[listed - 1]
    return asked.values[base + at]  # type: ignore[no-any-return]  # Numba's integers are Python's


@kernel_part
def fits_in(asked: AskedOfRuns, to: int, is_first: bool, place: int, last: int, taken: Taken) -> bool:
    """Whether an event is all that is asked of it in a part, of which it would be the first or be taken after `last`."""
    for c in range(asked.at[to], asked.at[to + 1]):
        through, begin, skips_first, first, end = asked.clauses[c]
        if skips_first == 1 and is_first:
            continue
        low, high = 0, 1
        if through >= 0:
            low, high = taken.begins[through] + begin, taken.ends[through]
        for k in range(low, high):
            any_true = False
            for t in range(first, end):
                left, right = value_of(asked, t, 1, place, last, k, taken), value_of(asked, t, 4, place, last, k, taken)
                if left != NULL and right != NULL and compare(asked.tests[t, 0], left, right):
                    any_true = True
                    break
            if not any_true:
                return False
    return True


@kernel
def grown(column: Ints, size: int) -> Ints:
    """The column with room for so many."""
    if size <= len(column):
        return column
    longer = np.empty(max(size, 2 * len(column)), np.int64)
    for i in range(len(column)):
        longer[i] = column[i]
    return longer


@kernel
def walk_next(begin: int, end: int, road: Road, program: RunProgram, asked: AskedOfRuns, partial: bool) -> Walked:
    """The runs of NEXT that begin in these places: the matches, or with `partial` all."""
    n_parts, size = len(program.least), len(road.clocks)
    runs = np.empty((4, end - begin), np.int64)  # start, part, whether it is a match, count
    n_runs, n_kept = 0, 0
    taken, variables = (
        np.empty(ROOM_FOR_RUNS, np.int64),
        np.empty(ROOM_FOR_RUNS, np.int64),
    )  # of all runs, the present one behind those that are kept
    begins, ends = np.zeros(n_parts, np.int64), np.zeros(n_parts, np.int64)
    chosen = np.full(len(program.is_listed), size)
    start = begin - 1
    while True:
        start = road.following[0, start + 1]
        if start >= end:
            break
        part, count, n, at = -1, 0, n_kept, start
        begins[:], ends[:], chosen[:] = 0, 0, size
        is_match = False
        while True:
            if part >= 0 and (at >= road.stop[start] or road.clocks[at] >= road.closed[start]):
                is_match = program.may_end[part] and count >= program.least[part]
                break
            took = False
            for c in range(program.choices_at[part + 1], program.choices_at[part + 2]):
                to, variable = program.choices[c]
                if not road.takes[variable, at]:
                    continue
                if part >= 0 and (count >= program.most[part] if to == part else count < program.least[part]):
                    continue
                if not program.is_listed[variable]:
                    chosen[variable] = at
                if fits_in(asked, to, to != part, at, taken[max(n - 1, 0)], Taken(taken, begins, ends, chosen)):
                    took = True
                    taken, variables = grown(taken, n + 1), grown(variables, n + 1)
                    taken[n], variables[n] = at, variable
                    if to != part:
                        begins[to], count = n, 0
                    n, count, part = n + 1, count + 1, to
                    ends[to] = n
                    break
                if not program.is_listed[variable]:
                    chosen[variable] = size
            if took:
                is_full = program.is_reluctant[part] or count >= program.most[part]
                if is_full and program.is_over[part] and program.may_end[part] and count >= program.least[part]:
                    is_match = True
                    break
            elif part < 0:
                break
            following = road.later[at] if took else at + 1
            at = road.following[part + 1, following]
        if is_match or (partial and part >= 0):
            runs[0, n_runs], runs[1, n_runs], runs[2, n_runs], runs[3, n_runs] = start, part, is_match, n - n_kept
            n_runs += 1
            n_kept = n
    kept = runs[:, :n_runs].copy()
    return Walked(kept[0], kept[1], kept[2] == 1, kept[3], taken[:n_kept].copy(), variables[:n_kept].copy())


@kernel
def walk_strict(begin: int, end: int, road: Road, program: RunProgram, asked: AskedOfRuns) -> Walked:
    """For each of these places the preferred match of STRICT that begins there, if there is one."""
    n_parts, size = len(program.least), len(road.clocks)
    runs = np.empty((2, end - begin), np.int64)  # start, count
    n_runs, n_kept = 0, 0
    taken, variables = np.empty(ROOM_FOR_RUNS, np.int64), np.empty(ROOM_FOR_RUNS, np.int64)
    # Before each event that was taken: the part, how many events that had, and the choice that is next.
    parts, counts, tried = np.empty(ROOM_FOR_RUNS, np.int64), np.empty(ROOM_FOR_RUNS, np.int64), np.empty(ROOM_FOR_RUNS, np.int64)
    begins, ends = np.zeros(n_parts, np.int64), np.zeros(n_parts, np.int64)
    chosen = np.full(len(program.is_listed), size)
    for start in range(begin, end):
        n = n_kept
        begins[:], ends[:], chosen[:] = 0, 0, size
        parts[0], counts[0], tried[0] = -1, 0, program.choices_at[0]
        while n >= n_kept:
            depth = n - n_kept
            part, count, at = parts[depth], counts[depth], start + depth
            is_there = at < size and (depth == 0 or road.follows[at]) and road.clocks[at] < road.closed[start]
            took, is_match = False, False
            for c in range(tried[depth], program.choices_at[part + 2]):
                to, variable = program.choices[c]
                if part >= 0 and (count >= program.most[part] if to == part else count < program.least[part]):
                    continue
                if variable < 0:
                    is_match = part >= 0
                    if is_match:
                        break
                    continue
                if not is_there or not road.takes[variable, at]:
                    continue
                if not program.is_listed[variable]:
                    chosen[variable] = at
                if fits_in(asked, to, to != part, at, taken[max(n - 1, 0)], Taken(taken, begins, ends, chosen)):
                    tried[depth] = c + 1
                    taken, variables = grown(taken, n + 1), grown(variables, n + 1)
                    parts, counts, tried = grown(parts, depth + 2), grown(counts, depth + 2), grown(tried, depth + 2)
                    taken[n], variables[n] = at, variable
                    if to != part:
                        begins[to] = n
                    n += 1
                    ends[to] = n
                    parts[depth + 1], counts[depth + 1] = to, count + 1 if to == part else 1
                    tried[depth + 1] = program.choices_at[to + 1]
                    took = True
                    break
                if not program.is_listed[variable]:
                    chosen[variable] = size
            if is_match:
                runs[0, n_runs], runs[1, n_runs] = start, depth
                n_runs += 1
                n_kept = n
                break
            if took:
                continue
            n -= 1  # the last event is given back
            if n >= n_kept:
                given, before_it = parts[n - n_kept + 1], parts[n - n_kept]
                ends[given] = n if given == before_it else begins[given]
                chosen[variables[n]] = size
    kept = runs[:, :n_runs].copy()
    return Walked(
        kept[0], np.full(n_runs, n_parts - 1), np.ones(n_runs, np.bool_), kept[1], taken[:n_kept].copy(), variables[:n_kept].copy()
    )
