"""A bound MATCH_RECOGNIZE clause to a plan: an automaton whose choices are in the order of preference, and what is asked of rows.

A pattern becomes *positions*, one for every place where a row is taken, as in Glushkov's construction; each has the list of what
may follow it, the preferred first: other positions, or the end of the match. Repetitions are written out, so that everything
that the standard says of preference is in the order of these lists. After what is required, a repetition that takes no
row is left out: it would lead back to where it began.

    PATTERN (a b* (c | d))      positions a b c d      a -> b c d      b -> b c d      c, d -> end

A condition is split at its ANDs. What asks for the row itself and for rows beside it (PREV, NEXT) is a column of truth values; what
looks at rows that are bound (other variables, FIRST, aggregates) is asked while matching.

Cost: the written-out pattern, times the choices that follow each position; past a limit it is an error that says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import permutations
from typing import assert_never

from seqube.errors import PlanError
from seqube.language import tree
from seqube.language.rows.tree import (
    OF_MATCH,
    Alternation,
    Anchor,
    Concatenation,
    Exclusion,
    Expression,
    Navigation,
    Permutation,
    Repetition,
    RowClause,
    RowFold,
    RowPattern,
    Variable,
)
from seqube.language.tree import Attribute, Literal, Predicate
from seqube.language.writer import write_predicate

MAX_STATES = 100_000  # of a pattern that is written out
MAX_CHOICES = 2_000_000


@dataclass(frozen=True, slots=True)
class RowCondition:
    """What is asked of a row that is to be mapped to a variable."""

    columns: tuple[Expression, ...] = ()  # of the row and those beside it
    asked: tuple[Expression, ...] = ()  # of rows that are bound


@dataclass(frozen=True, slots=True)
class RowPlan:
    """An automaton with priorities and the conditions of its variables."""

    clause: RowClause
    variable_of: tuple[int, ...]  # of every position
    excluded: tuple[bool, ...]
    follows: tuple[
        tuple[int, ...], ...
    ]  # what may come after each position, the preferred first; the number of positions is the end
    ends: tuple[bool, ...]  # whether a match may end behind a position where the partition ends
    starts: tuple[int, ...]  # what may come first, from the first row of a partition
    later_starts: tuple[int, ...]  # from any other row
    conditions: tuple[RowCondition, ...]  # of every variable

    @property
    def end(self) -> int:
        return len(self.variable_of)

    @property
    def asks(self) -> bool:
        """Whether matching has to look at rows that are bound."""
        return any(condition.asked for condition in self.conditions)


def plan_rows(clause: RowClause) -> RowPlan:
    """How the clause is matched."""
    program = _Program(clause.variables)
    start = program.add(clause.pattern, program.state(("match",)))
    positions = program.positions
    follows, ends, n_choices = [], [], 0
    for _, _, after in positions:
        follows.append(program.choices(after, first=False, last=False))
        ends.append(len(positions) in program.choices(after, first=False, last=True))
        n_choices += len(follows[-1])
        if n_choices > MAX_CHOICES:
            raise PlanError(_TOO_LARGE)
    definitions = dict(clause.definitions)
    conditions = tuple(_condition(name, definitions[name]) if name in definitions else RowCondition() for name in clause.variables)
    return RowPlan(
        clause,
        tuple(variable for variable, _, _ in positions),
        tuple(excluded for _, excluded, _ in positions),
        tuple(follows),
        tuple(ends),
        program.choices(start, first=True, last=False),
        program.choices(start, first=False, last=False),
        conditions,
    )


# ---------------------------------------------------------------- patterns

_TOO_LARGE = (
    "the pattern is too large when its repetitions and permutations are written out\n"
    "  hint: repeat without numbers (+, *), or name fewer parts in PERMUTE"
)
_State = tuple[str | int, ...]


class _Program:
    """States that lead to others: ("row", position), ("split", preferred, other), ("anchor", where, next), ("match",).

    A repetition whose part may take no row is known by its split: ("into", split, part), ("back", split) and ("past", split, next).
    """

    def __init__(self, variables: tuple[str, ...]) -> None:
        self._numbers = {name: number for number, name in enumerate(variables)}
        self._states: list[_State] = []
        self.positions: list[tuple[int, bool, int]] = []  # variable, excluded, the state behind it
        self._excluding = 0

    def state(self, state: _State) -> int:
        if len(self._states) >= MAX_STATES:
            raise PlanError(_TOO_LARGE)
        self._states.append(state)
        return len(self._states) - 1

    def add(self, pattern: RowPattern, after: int) -> int:
        """States for a pattern that leads to `after`, and the one to begin with."""
        match pattern:
            case Variable(name):
                self.positions.append((self._numbers[name], self._excluding > 0, after))
                return self.state(("row", len(self.positions) - 1))
            case Anchor(where):
                return self.state(("anchor", where, after))
            case Concatenation(parts):
                for part in reversed(parts):
                    after = self.add(part, after)
                return after
            case Alternation(parts):
                return self._one_of([self.add(part, after) for part in parts])
            case Permutation(parts):
                if len(parts) > 10:
                    raise PlanError(_TOO_LARGE)
                return self._one_of([self.add(Concatenation(order), after) for order in permutations(parts)])
            case Exclusion(part):
                self._excluding += 1
                start = self.add(part, after)
                self._excluding -= 1
                return start
            case Repetition():
                return self._repeat(pattern, after)
            case _:
                assert_never(pattern)

    def _one_of(self, starts: list[int]) -> int:
        result = starts[-1]
        for start in reversed(starts[:-1]):
            result = self.state(("split", start, result))
        return result

    def _split(self, into: int, past: int, reluctant: bool) -> int:
        return self.state(("split", past, into) if reluctant else ("split", into, past))

    def _repeat(self, node: Repetition, after: int) -> int:
        least, most, reluctant = node.quantifier.least, node.quantifier.most, node.quantifier.reluctant
        start = after
        if most is None:
            loop = self.state(("later",))  # is set below: it leads to what leads back to it
            if can_be_empty(node.part):
                body = self.add(node.part, self.state(("back", loop)))
                into, past = self.state(("into", loop, body)), self.state(("past", loop, after))
                start = self.state(("past", loop, loop))
            else:
                into = start = self.add(node.part, loop)
                past = after
                # A last required repetition and those that may follow share their states.
                start, least = (start, least - 1) if least else (loop, 0)
            self._states[loop] = ("split", past, into) if reluctant else ("split", into, past)
        else:
            for _ in range(most - least):
                start = self._split(self.add(node.part, start), after, reluctant)
        for _ in range(least):
            start = self.add(node.part, start)
        return start

    def choices(self, state: int, first: bool, last: bool) -> tuple[int, ...]:
        """What can be reached from a state without taking a row, the preferred first.

        Beside the state it is known which repetitions have taken no row so far: one of these may not be done again.
        """
        found: dict[int, None] = {}
        seen: set[tuple[int, frozenset[int]]] = set()
        stack: list[tuple[int, frozenset[int]]] = [(state, frozenset())]
        while stack:
            at, idle = stack.pop()
            if (at, idle) in seen:
                continue
            seen.add((at, idle))
            match self._states[at]:
                case ("row", int(position)):
                    if not last:
                        found[position] = None
                case ("split", int(preferred), int(other)):
                    stack += [(other, idle), (preferred, idle)]
                case ("anchor", where, int(after)):
                    if first if where == "^" else last:
                        stack.append((after, idle))
                case ("into", int(loop), int(after)):
                    stack.append((after, idle | {loop}))
                case ("past", int(loop), int(after)):
                    stack.append((after, idle - {loop}))
                case ("back", int(loop)):
                    if loop not in idle:
                        stack.append((loop, idle))
                case _:
                    found[len(self.positions)] = None
        return tuple(found)


def can_be_empty(pattern: RowPattern) -> bool:
    """Whether a pattern may take no row."""
    match pattern:
        case Variable():
            return False
        case Anchor():
            return True
        case Concatenation(parts) | Permutation(parts):
            return all(map(can_be_empty, parts))
        case Alternation(parts):
            return any(map(can_be_empty, parts))
        case Repetition(part, quantifier):
            return quantifier.least == 0 or can_be_empty(part)
        case Exclusion(part):
            return can_be_empty(part)
        case _:
            assert_never(pattern)


# ---------------------------------------------------------------- conditions


def _condition(variable: str, expression: Expression) -> RowCondition:
    root = expression.root
    assert isinstance(root, Predicate)
    frames = dict(expression.frames)
    columns: list[Expression] = []
    asked: list[Expression] = []
    for part in _conjuncts(root):
        part = tree.transform(part, lambda node: _own_name(node, variable, frames))
        named = {node.name for node in tree.walk(part) if isinstance(node, Attribute)}
        own = tuple((name, frames[name]) for name in frames if name in named)
        is_local = all(isinstance(frame, Navigation) and _is_here(frame, variable) and _is_of_table(frame) for _, frame in own)
        (columns if is_local else asked).append(Expression(part, own))
    return RowCondition(tuple(columns), tuple(asked))


def _conjuncts(predicate: Predicate) -> Iterable[Predicate]:
    if isinstance(predicate, tree.AllOf):
        for part in predicate.parts:
            yield from _conjuncts(part)
    else:
        yield predicate


def _own_name(node: tree.Node, variable: str, frames: Mapping[str, object]) -> tree.Node:
    """CLASSIFIER() of the row that is asked about is the variable that it is asked for."""
    if isinstance(node, Attribute):
        frame = frames[node.name]
        if isinstance(frame, Navigation) and frame.value is None and frame.physical == 0 and _is_here(frame, variable):
            return Literal(variable, node.at)
    return node


def _is_here(frame: Navigation, variable: str) -> bool:
    """Whether it starts from the row that is to be mapped to the variable."""
    return (frame.end, frame.logical) == ("LAST", 0) and (frame.variables is None or variable in frame.variables)


def _is_of_table(frame: Navigation) -> bool:
    """Whether its value is of a row of the table, wherever a match maps it."""
    return frame.value is not None and not any(isinstance(n, Attribute) and n.name in OF_MATCH for n in tree.walk(frame.value))


def compared_texts(clause: RowClause) -> dict[str, tuple[str, ...]]:
    """Columns of which a clause asks nothing but whether they are null, or which of some texts they are; and these texts."""
    told: dict[str, set[str]] = {}
    used = {*clause.output, *clause.partition_by, *(each.column for each in clause.order_by)}  # for more than that
    for _, expression in (*clause.measures, *clause.definitions):
        of_frame: dict[str, str] = {}
        for name, frame in expression.frames:
            if isinstance(frame, Navigation) and isinstance(frame.value, Attribute):
                of_frame[name] = frame.value.name
                continue
            values = (frame.argument, frame.second) if isinstance(frame, RowFold) else (getattr(frame, "value", None),)
            for value in values:
                used |= set() if value is None else {node.name for node in tree.walk(value) if isinstance(node, Attribute)}
        left = [node.name for node in tree.walk(expression.root) if isinstance(node, Attribute)]
        for node in tree.walk(expression.root):
            match node:
                case tree.Comparison("=" | "!=", Attribute(_, name), Literal(str(text))) if name in of_frame:
                    texts = {text}
                case tree.Comparison("=" | "!=", Literal(str(text)), Attribute(_, name)) if name in of_frame:
                    texts = {text}
                case tree.Among(Attribute(_, name), chosen) if name in of_frame:
                    if not all(isinstance(value, Literal) and isinstance(value.value, str) for value in chosen):
                        continue
                    texts = {str(value.value) for value in chosen if isinstance(value, Literal)}
                case tree.IsNull(Attribute(_, name)) if name in of_frame:
                    texts = set()
                case _:
                    continue
            left.remove(name)
            told.setdefault(of_frame[name], set()).update(texts)
        used |= {of_frame[name] for name in left if name in of_frame}
    return {name: tuple(sorted(texts)) for name, texts in told.items() if name not in used}


# ---------------------------------------------------------------- explain


def explain_rows(plan: RowPlan, spread: str = "") -> str:
    """What was made of a clause: its conditions, the machine, how partitions are spread."""
    clause = plan.clause
    lines = [f"match rows of {'each ' + ', '.join(clause.partition_by) if clause.partition_by else 'the whole table'}"]
    order = ", ".join(f"{each.column}{' desc' * each.descending}" for each in clause.order_by)
    lines += [f"│   order: {order or 'as they come'}", f"│   {spread}" if spread else ""]
    if plan.asks:
        lines.append("│   machine: backtracking under the limits, since conditions look at rows that are bound")
    else:
        lines.append("│   machine: linear, in two passes (which choices lead to a match, then the preferred one)")
    lines.append(f"│   pattern: {plan.end} positions, {sum(map(len, plan.follows)):,} choices")
    for name, condition in zip(clause.variables, plan.conditions, strict=True):
        told = [f"column {_plainly(each)}" for each in condition.columns]
        told += [f"asked {_plainly(each)}" for each in condition.asked]
        lines.append(f"├─ {name}: {'; '.join(told) or 'every row'}")
    measures = ", ".join(name for name, _ in clause.measures) or "no measures"
    lines.append(f"└─ {'one row' if clause.shown == 'one' else 'all rows'} per match: {measures}")
    return "\n".join(line for line in lines if line)


def _plainly(expression: Expression) -> str:
    assert isinstance(expression.root, Predicate)
    text = write_predicate(expression.root)
    for name, _ in expression.frames:
        text = text.replace(f'"{name}"', name)
    return text
