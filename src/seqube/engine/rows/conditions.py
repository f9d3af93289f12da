"""Conditions that look at rows that are bound, as programs of a small machine with a stack of doubles.

What such a condition reads is made columns of doubles first: a value of one row, whatever functions are in it, is computed for all
rows at once; texts, large numbers and decimals that are only compared become their ranks. The machine then loads a column at a row
that the match so far tells (the first or last of a variable, so many further), takes the running aggregates that it carries from
row to row, calculates and compares. Nulls are SQL's.

A condition that says more (a function of values of several rows, decimals that are added) has no program: the machine stops and
asks for it. It also does where whole numbers leave the 53 bits that doubles hold exactly, so that what it answers is right.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pat

from seqube.engine.jit import inner_kernel
from seqube.engine.predicates import NULL, Evaluator, Ints, rank
from seqube.engine.rows.automaton import Bytes
from seqube.engine.rows.framing import Floats, PlainColumns, RowValues, names_in
from seqube.language import tree
from seqube.language.rows.tree import OF_MATCH, Expression, Frame, MatchNumber, Navigation, RowFold
from seqube.language.tree import Attribute, Literal, Predicate, Value
from seqube.plan.rows import RowPlan

LARGEST_EXACT = float(1 << 53)
MAX_STACK = 64

(CONSTANT, LOAD, FOLDED, _NUMBER, CLASS, _ADD, SUBTRACT, _MULTIPLY, DIVIDE, REMAINDER, NEGATE, ABSOLUTE, EQUAL, UNEQUAL, LESS,
 LESS_EQUAL, MORE, MORE_EQUAL, AND, OR, NOT, IS_NULL, COALESCE) = range(23)  # fmt: skip
_COMPARE = {"=": EQUAL, "!=": UNEQUAL, "<": LESS, "<=": LESS_EQUAL, ">": MORE, ">=": MORE_EQUAL}
_CALCULATE = {"+": _ADD, "-": SUBTRACT, "*": _MULTIPLY, "/": DIVIDE, "%": REMAINDER}
COUNT, SUM, AVG, MIN, MAX = range(5)
_FOLDS = {"COUNT": COUNT, "SUM": SUM, "AVG": AVG, "MIN": MIN, "MAX": MAX, "EVERY": MIN, "BOOL_OR": MAX}

FALSE, TRUE, UNKNOWN, INEXACT = 0, 1, 2, 3


class Programs(NamedTuple):
    """All conditions of a clause that look at bound rows, as arrays."""

    code: Ints  # [instruction, (operation, first, second)]
    begin: Ints  # of every condition in the code; an empty program is one that must be asked for
    of_variable: Ints  # of every variable, where its conditions begin
    constants: Floats
    values: Floats  # [column, row]
    valid: Bytes
    whole: Bytes  # of every column: whole numbers, which must stay exact
    among: Bytes  # [set, variable]
    navigation: Ints  # [navigation, (set, whether first, logical, physical)]
    folds: Ints  # [fold, (function, set, column)]; column -1 counts rows
    classes: Floats  # [table, variable]: a number for the name of each


class Bound(NamedTuple):
    """What is carried from row to row of a match: [rows so far, set or fold]."""

    counts: Ints
    first: Ints
    last: Ints
    sums: Floats
    seen: Ints


class _NoProgram(Exception):  # noqa: N818 - not an error: such a condition is asked for
    """The machine cannot say this."""


@dataclass
class _Program:
    """What the conditions of a clause have in common."""

    values: RowValues
    names: tuple[str, ...]
    code: list[tuple[int, int, int]] = field(default_factory=list)
    constants: list[float] = field(default_factory=list)
    columns: list[tuple[Floats, Bytes, bool]] = field(default_factory=list)
    known: dict[Value, int] = field(default_factory=dict)
    sets: dict[frozenset[str] | None, int] = field(default_factory=dict)
    navigation: dict[tuple[int, int, int, int], int] = field(default_factory=dict)
    folds: dict[tuple[int, int, int], int] = field(default_factory=dict)
    classes: list[list[float]] = field(default_factory=list)


def compile_conditions(plan: RowPlan, values: RowValues) -> tuple[Programs, list[Expression]]:
    """Programs for what is asked while matching, and the conditions they are of."""
    shared = _Program(values, plan.clause.variables)
    begin, of_variable, asked = [0], [0], []
    for condition in plan.conditions:
        for expression in condition.asked:
            before = len(shared.code)
            try:
                _Compiler(shared, dict(expression.frames)).predicate(expression.root)
                _check_depth(shared.code[before:])
            except _NoProgram:
                del shared.code[before:]
            begin.append(len(shared.code))
            asked.append(expression)
        of_variable.append(len(asked))
    n_rows, n_variables = values.table.num_rows, len(plan.clause.variables)
    programs = Programs(
        np.array(shared.code, np.int64).reshape(-1, 3),
        np.array(begin, np.int64),
        np.array(of_variable, np.int64),
        np.array(shared.constants, np.float64),
        _stacked([column for column, _, _ in shared.columns], n_rows, np.float64),
        _stacked([valid for _, valid, _ in shared.columns], n_rows, np.uint8),
        np.array([whole for _, _, whole in shared.columns], np.uint8),
        np.array([[of is None or name in of for name in plan.clause.variables] for of in shared.sets], np.uint8).reshape(
            -1, n_variables
        ),
        np.array(list(shared.navigation), np.int64).reshape(-1, 4),
        np.array(list(shared.folds), np.int64).reshape(-1, 3),
        np.array(shared.classes, np.float64).reshape(-1, n_variables),
    )
    return programs, asked


def _stacked(columns: list[Any], n_rows: int, kind: type[np.generic]) -> npt.NDArray[Any]:
    return np.stack(columns).astype(kind) if columns else np.zeros((0, n_rows), kind)


def _check_depth(code: list[tuple[int, int, int]]) -> None:
    """The stack of a program must not get too high."""
    deepest = depth = 0
    for operation, _, _ in code:
        if operation <= CLASS:
            depth += 1
        elif operation not in (NEGATE, ABSOLUTE, NOT, IS_NULL):
            depth -= 1
        deepest = max(deepest, depth)
    if deepest > MAX_STACK:
        raise _NoProgram


class _Compiler:
    """One condition to instructions. A value's family says what may be done with it: whole, double, time, duration, boolean."""

    def __init__(self, shared: _Program, frames: dict[str, Frame]) -> None:
        self.shared, self.frames = shared, frames

    def emit(self, operation: int, first: int = 0, second: int = 0) -> None:
        self.shared.code.append((operation, first, second))

    def constant(self, value: float | None) -> None:
        self.shared.constants.append(np.nan if value is None else value)
        self.emit(CONSTANT, len(self.shared.constants) - 1)

    # ------------------------------------------------------------ predicates

    def predicate(self, node: Value | Predicate) -> None:
        match node:
            case tree.AllOf(parts) | tree.AnyOf(parts):
                self.predicate(parts[0])
                for part in parts[1:]:
                    self.predicate(part)
                    self.emit(AND if isinstance(node, tree.AllOf) else OR)
            case tree.Inverse(part):
                self.predicate(part)
                self.emit(NOT)
            case tree.Comparison(op, left, right):
                self.compare(op, left, right)
            case tree.Between(operand, low, high, negated):
                self.compare(">=", operand, low)
                self.compare("<=", operand, high)
                self.emit(AND)
                if negated:
                    self.emit(NOT)
            case tree.Among(operand, listed, negated):
                for place, literal in enumerate(listed):
                    self.compare("=", operand, literal)
                    if place:
                        self.emit(OR)
                if negated:
                    self.emit(NOT)
            case tree.IsNull(operand, negated):
                self.value(operand)
                self.emit(IS_NULL)
                if negated:
                    self.emit(NOT)
            case tree.IsTrue(operand):
                if self.value(operand) != "boolean":
                    raise _NoProgram
            case _:
                raise _NoProgram

    def compare(self, op: str, left: Value, right: Value) -> None:
        before = len(self.shared.code)
        try:
            self.one_family({self.value(left), self.value(right)})
        except _NoProgram:
            del self.shared.code[before:]
            self.ranked(left, right)
        self.emit(_COMPARE[op])

    def one_family(self, families: set[str]) -> None:
        if len({"number" if family in ("whole", "double") else family for family in families - {"null"}}) > 1:
            raise _NoProgram

    def ranked(self, left: Value, right: Value) -> None:
        """Sides that are only compared: values of rows and constants of any kind by their joint ranks."""
        sides = [self.frames[side.name] if isinstance(side, Attribute) else side for side in (left, right)]
        if any(isinstance(side, Navigation) and side.value is None for side in sides):
            return self.classified(sides)
        if not all(isinstance(side, Navigation | Literal) for side in sides):
            raise _NoProgram
        if any(isinstance(side, Navigation) and side.value is not None and names_in(side.value) & OF_MATCH for side in sides):
            raise _NoProgram
        columns = [self.shared.values.of(side.value) if isinstance(side, Navigation) else pa.scalar(side.value) for side in sides]  # type: ignore[union-attr, arg-type]
        ranks = rank(columns, Evaluator(PlainColumns({})))
        _, codes = np.unique(np.concatenate(ranks), return_inverse=True)
        for side, code, ranked in zip(sides, np.split(codes, [len(ranks[0])]), ranks, strict=True):
            if isinstance(side, Navigation):
                self.shared.columns.append((code.astype(np.float64), (ranked != NULL).astype(np.uint8), False))
                self.emit(LOAD, self.navigated(side), len(self.shared.columns) - 1)
            else:
                self.constant(None if ranked[0] == NULL else float(code[0]))
        return None

    def classified(self, sides: Sequence[Frame | Value]) -> None:
        """CLASSIFIER beside a name, or beside another."""
        texts = [side.value for side in sides if isinstance(side, Literal)]
        if not all(isinstance(side, Literal) or (isinstance(side, Navigation) and side.value is None) for side in sides):
            raise _NoProgram
        codes = {
            text: float(code) for code, text in enumerate(sorted({*self.shared.names, *(t for t in texts if isinstance(t, str))}))
        }
        self.shared.classes.append([codes[name] for name in self.shared.names])
        for side in sides:
            if isinstance(side, Navigation):
                self.emit(CLASS, self.navigated(side), len(self.shared.classes) - 1)
            else:
                assert isinstance(side, Literal)
                self.constant(codes[side.value] if isinstance(side.value, str) else None)

    # ------------------------------------------------------------ values

    def value(self, node: Value) -> str:
        match node:
            case Literal(None):
                self.constant(None)
                return "null"
            case Literal(bool() as truth):
                self.constant(float(truth))
                return "boolean"
            case Literal(int() | float() as number) if abs(number) <= LARGEST_EXACT:
                self.constant(float(number))
                return "whole" if isinstance(number, int) else "double"
            case tree.Duration(microseconds) if abs(microseconds) <= LARGEST_EXACT:
                self.constant(float(microseconds))
                return "duration"
            case Attribute(_, name):
                return self.frame(self.frames[name])
            case tree.Minus(operand):
                family = self.value(operand)
                self.emit(NEGATE)
                return self.numeric(family)
            case tree.Arithmetic(op, left, right):
                return self.calculate(op, self.value(left), self.value(right))
            case tree.Call("ABS", (argument,)):
                family = self.value(argument)
                self.emit(ABSOLUTE)
                return self.numeric(family)
            case tree.Call("COALESCE", arguments):
                families = {self.value(arguments[0])}
                for argument in arguments[1:]:
                    families.add(self.value(argument))
                    self.emit(COALESCE)
                families -= {"null"}
                if families == {"whole", "double"} or not families:
                    return "double"
                if len(families) > 1:
                    raise _NoProgram
                return next(iter(families))
            case tree.Condition(predicate):
                self.predicate(predicate)
                return "boolean"
            case _:
                raise _NoProgram

    def numeric(self, family: str) -> str:
        if family not in ("whole", "double", "duration"):
            raise _NoProgram
        return family

    def calculate(self, op: str, left: str, right: str) -> str:
        families = (left, right)
        if "boolean" in families or "null" in families:
            raise _NoProgram
        numbers = set(families) <= {"whole", "double"}
        if numbers:
            result = "double" if op == "/" or "double" in families else "whole"
        elif op in "+-" and families in (("time", "duration"), ("duration", "duration")):
            result = left
        elif (op == "-" and families == ("time", "time")) or (op == "+" and families == ("duration", "time")):
            result = "duration" if op == "-" else "time"
        else:
            raise _NoProgram
        self.emit(_CALCULATE[op], int(result != "double"))
        return result

    def frame(self, frame: Frame) -> str:
        match frame:
            case MatchNumber():
                self.emit(_NUMBER)
                return "whole"
            case Navigation(value):
                if value is None:
                    raise _NoProgram
                column, family = self.column(value)
                self.emit(LOAD, self.navigated(frame), column)
                return family
            case RowFold(function, argument, variables, distinct):
                if distinct or function not in _FOLDS:
                    raise _NoProgram
                column, family = (-1, "whole") if argument is None else self.column(argument)
                if family not in ("whole", "double") and function in ("SUM", "AVG"):
                    raise _NoProgram
                key = (_FOLDS[function], self.set_of(variables), column)
                self.emit(FOLDED, self.shared.folds.setdefault(key, len(self.shared.folds)))
                return {"COUNT": "whole", "AVG": "double"}.get(function, family)

    def column(self, value: Value) -> tuple[int, str]:
        """The number of a column of doubles, and what they are."""
        if names_in(value) & OF_MATCH:
            raise _NoProgram
        found = self.shared.values.of(value)
        kind = found.type
        family = (
            "whole" if pat.is_int64(kind)
            else "double" if pat.is_floating(kind)
            else "time" if pat.is_timestamp(kind)
            else "duration" if pat.is_duration(kind)
            else "boolean" if pat.is_boolean(kind)
            else None
        )  # fmt: skip
        if family is None:
            raise _NoProgram
        if value not in self.shared.known:
            valid = np.asarray(found.is_valid()).astype(np.uint8)
            plain = found if family == "double" else found.cast(pa.int64())
            doubles = np.asarray(plain.fill_null(0)).astype(np.float64)
            if family != "double" and len(doubles) and np.abs(doubles).max() > LARGEST_EXACT:
                raise _NoProgram
            self.shared.columns.append((doubles, valid, family != "double"))
            self.shared.known[value] = len(self.shared.columns) - 1
        return self.shared.known[value], family

    def set_of(self, variables: frozenset[str] | None) -> int:
        return self.shared.sets.setdefault(variables, len(self.shared.sets))

    def navigated(self, frame: Navigation) -> int:
        key = (self.set_of(frame.variables), int(frame.end == "FIRST"), frame.logical, frame.physical)
        return self.shared.navigation.setdefault(key, len(self.shared.navigation))


# ---------------------------------------------------------------- the machine


@inner_kernel
def bind_row(programs: Programs, bound: Bound, so_far: int, variable: int, row: int) -> bool:
    """Carry what is known of a match one row further; false where a sum is no longer exact."""
    exact = True
    for k in range(len(programs.among)):
        counts, first, last = bound.counts[so_far, k], bound.first[so_far, k], bound.last[so_far, k]
        if programs.among[k, variable]:
            first = row if counts == 0 else first
            last = row
            counts += 1
        bound.counts[so_far + 1, k], bound.first[so_far + 1, k], bound.last[so_far + 1, k] = counts, first, last
    for k in range(len(programs.folds)):
        function, of, column = programs.folds[k]
        total, seen = bound.sums[so_far, k], bound.seen[so_far, k]
        if programs.among[of, variable] and (column < 0 or programs.valid[column, row]):
            if column >= 0:
                value = programs.values[column, row]
                if function >= MIN:
                    total = value if seen == 0 or (value < total) == (function == MIN) else total
                else:
                    total += value
                    if programs.whole[column] and abs(total) > LARGEST_EXACT:
                        exact = False
            seen += 1
        bound.sums[so_far + 1, k], bound.seen[so_far + 1, k] = total, seen
    return exact


@inner_kernel
def row_of(
    programs: Programs, bound: Bound, variables: Ints, path: Ints, base: int, start: int, so_far: int, navigation: int
) -> int:
    """The row that a navigation leads to before it moves on to rows beside it, -1 for none."""
    of, first, logical, _ = programs.navigation[navigation]
    if bound.counts[so_far, of] <= logical:
        return -1
    if logical == 0:
        return int(bound.first[so_far, of] if first else bound.last[so_far, of])
    left = logical
    for i in range(so_far):
        place = i if first else so_far - 1 - i
        if programs.among[of, variables[path[base + place]]]:
            if left == 0:
                return start + place
            left -= 1
    return -1


@inner_kernel
def condition_holds(
    programs: Programs, bound: Bound, variables: Ints, path: Ints, base: int, start: int, so_far: int, low: int, high: int,
    number: int, condition: int, stack: Floats, known: Bytes,
) -> int:  # fmt: skip
    """What a condition says of the rows that are bound so far: TRUE, FALSE, UNKNOWN, or INEXACT."""
    top = -1
    for at in range(programs.begin[condition], programs.begin[condition + 1]):
        operation, first, second = programs.code[at]
        if operation <= CLASS:
            top += 1
            known[top] = 1
            if operation == CONSTANT:
                stack[top] = programs.constants[first]
                known[top] = not np.isnan(stack[top])
            elif operation == _NUMBER:
                stack[top] = number
            elif operation == FOLDED:
                function, seen = programs.folds[first, 0], bound.seen[so_far, first]
                stack[top] = bound.sums[so_far, first]
                if function == COUNT:
                    stack[top] = seen
                elif seen == 0:
                    known[top] = 0
                elif function == AVG:
                    stack[top] /= seen
            else:
                row = row_of(programs, bound, variables, path, base, start, so_far, first)
                known[top] = 0
                if row >= 0:
                    row += programs.navigation[first, 3]
                    if operation == CLASS:
                        if start <= row < start + so_far:
                            known[top] = 1
                            stack[top] = programs.classes[second, variables[path[base + row - start]]]
                    elif low <= row < high and programs.valid[second, row]:
                        known[top] = 1
                        stack[top] = programs.values[second, row]
        elif operation == NEGATE:
            stack[top] = -stack[top]
        elif operation == ABSOLUTE:
            stack[top] = abs(stack[top])
        elif operation == NOT:
            stack[top] = 1.0 - stack[top]
        elif operation == IS_NULL:
            stack[top] = 1.0 - known[top]
            known[top] = 1
        else:
            right, has_right = stack[top], known[top]
            top -= 1
            left, has_left = stack[top], known[top]
            if operation == AND:
                is_false = (has_left and left == 0.0) or (has_right and right == 0.0)
                stack[top] = 0.0 if is_false else 1.0
                known[top] = 1 if is_false or (has_left and has_right) else 0
            elif operation == OR:
                is_true = (has_left and left != 0.0) or (has_right and right != 0.0)
                stack[top] = 1.0 if is_true else 0.0
                known[top] = 1 if is_true or (has_left and has_right) else 0
            elif operation == COALESCE:
                if not has_left:
                    stack[top], known[top] = right, has_right
            elif not (has_left and has_right):
                known[top] = 0
            elif operation == EQUAL:
                stack[top] = left == right
            elif operation == UNEQUAL:
                stack[top] = left != right
            elif operation == LESS:
                stack[top] = left < right
            elif operation == LESS_EQUAL:
                stack[top] = left <= right
            elif operation == MORE:
                stack[top] = left > right
            elif operation == MORE_EQUAL:
                stack[top] = left >= right
            else:
                if operation == _ADD:
                    result = left + right
                elif operation == SUBTRACT:
                    result = left - right
                elif operation == _MULTIPLY:
                    result = left * right
                elif right == 0.0:
                    result = np.nan
                elif operation == DIVIDE:
                    result = left / right
                else:
                    result = np.fmod(left, right)
                if first and abs(result) > LARGEST_EXACT:
                    return INEXACT
                stack[top] = result
                if np.isnan(result):
                    known[top] = 0
    if not known[0]:
        return UNKNOWN
    return TRUE if stack[0] != 0.0 else FALSE
