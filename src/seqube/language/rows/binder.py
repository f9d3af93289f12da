"""A draft of a clause to a bound one: names are resolved, and whatever the standard forbids is said.

Mistakes are collected and shown together, each with its place. Cost: linear in the clause.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, cast

from seqube.errors import Problem, QueryError, Span, did_you_mean
from seqube.events.schema import Kind
from seqube.language import tree
from seqube.language.functions import VALUE_FUNCTIONS
from seqube.language.parser import in_order
from seqube.language.rows import tree as rows
from seqube.language.rows.answers import with_answers
from seqube.language.rows.parser import ALL_ROWS, FOLDS, NAVIGATIONS, ClauseDraft, Name, draft_clause
from seqube.language.rows.synonyms import HINTS, unknown
from seqube.language.rows.tree import CLASSIFIER, NUMBER_OF_MATCH, Expression, Frame, MatchNumber, Navigation, RowClause, RowFold
from seqube.language.tree import Attribute, Call, Duration, Literal, Predicate, Value
from seqube.language.types import ValueChecker
from seqube.language.writer import quote, write_value

_LOGICAL, _PHYSICAL, _MODES = ("FIRST", "LAST"), ("PREV", "NEXT"), ("RUNNING", "FINAL")
_OF_ROWS = frozenset((*NAVIGATIONS, *FOLDS, *_MODES, "CLASSIFIER", "MATCH_NUMBER", "DISTINCT"))
# What an aggregate takes and gives; nothing: anything that compares.
_TAKES: dict[str, tuple[tuple[Kind, ...], Kind | None]] = {
    "COUNT": ((), "number"),
    "SUM": (("number", "duration"), None),
    "AVG": (("number", "duration"), None),
    "MIN": ((), None),
    "MAX": ((), None),
    "MIN_BY": ((), None),
    "MAX_BY": ((), None),
    "EVERY": (("boolean",), "boolean"),
    "BOOL_OR": (("boolean",), "boolean"),
    "ANY_VALUE": ((), None),
    "STDDEV": (("number",), "number"),
    "STDDEV_POP": (("number",), "number"),
    "VARIANCE": (("number",), "number"),
    "VAR_POP": (("number",), "number"),
    "MEDIAN": (("number",), "number"),
    "ARRAY_AGG": ((), "other"),
    "LISTAGG": (("string",), "string"),
}
_ALSO = {"ARBITRARY": "ANY_VALUE", "BOOL_AND": "EVERY", "STDDEV_SAMP": "STDDEV", "VAR_SAMP": "VARIANCE", "STRING_AGG": "LISTAGG"}
_OF_TWO = ("MIN_BY", "MAX_BY", "LISTAGG")
_OF_ANYTHING = ("ARRAY_AGG", "COUNT", "ANY_VALUE", "MIN_BY", "MAX_BY")  # nested values too: they are handed on, not compared


def bind_clause(
    text: str, columns: Mapping[str, Kind], source: str = "", queried: Sequence[Sequence[Any]] | None = None
) -> RowClause:
    """The clause in this text, for a table with these columns; a `QueryError` with every problem found.

    `source` is the statement that the clause stands in, for messages; the text has blanks in the place of everything else, and
    numbers in that of sub-queries. `queried` is what these gave; None where nobody has asked yet.
    """
    try:
        return _Binder(draft_clause(text), columns, source or text, queried).bind()
    except QueryError as error:
        raise QueryError(error.problems, source or text) from None


class _Binder:
    def __init__(
        self, draft: ClauseDraft, columns: Mapping[str, Kind], text: str, queried: Sequence[Sequence[Any]] | None = None
    ) -> None:
        self.columns, self.text = columns, text
        self.problems = list(draft.problems)
        self.draft = with_answers(draft, queried, self.problems)
        pattern = draft.pattern if draft.pattern is not None else rows.Concatenation()
        self.pattern = pattern
        named = (node.name for node in rows.walk_pattern(pattern) if isinstance(node, rows.Variable))
        self.variables = tuple(dict.fromkeys(named))
        self.subsets: dict[str, frozenset[str]] = {}

    def fail(self, message: str, at: Span | None, hint: str | None = None) -> None:
        self.problems.append(Problem(message, at, hint))

    def bind(self) -> RowClause:
        draft = self.draft
        if draft.pattern is None:
            self.fail("the clause has no PATTERN", draft.places.get("definitions"), "write PATTERN (a b+)")
        self._bind_subsets()
        partition_by = self._columns(draft.partition_by)
        ordered = ((self._column(name.written, name.at), down, first) for name, down, first in draft.order_by)
        order_by = tuple(rows.Ordered(name, down, first) for name, down, first in ordered if name is not None)
        for what, name in (*(("PARTITION BY", each) for each in partition_by), *(("ORDER BY", each.column) for each in order_by)):
            if self.columns[name] == "other":
                at = draft.places["partition_by" if what[0] == "P" else "order_by"]
                wrong = f"{what} needs values that compare, and {name!r} holds {_Checker.incomparable}"
                self.fail(wrong, at, "take what is inside of them before: FROM (SELECT *, st.a AS k FROM t) MATCH_RECOGNIZE (...)")
        clause = RowClause(
            self.pattern,
            partition_by,
            order_by,
            (),
            draft.shown,
            self._skip(),
            self._within(order_by),
            self._definitions(),
            self.variables,
            tuple(self.columns),
            self.text,
        )
        clause = replace(clause, measures=self._measures(clause))
        self._check_exclusions()
        if not (clause.output or clause.measures or self.problems):
            hint = "add MEASURES, PARTITION BY, or ALL ROWS PER MATCH"
            self.fail("the clause gives no column", draft.places.get("pattern"), hint)
        if self.problems:
            raise QueryError(in_order(self.problems), self.text)
        return clause

    # ------------------------------------------------------------ names

    def _column(self, name: str, at: Span | None) -> str | None:
        if name in self.columns:
            return name
        alike = [column for column in self.columns if column.casefold() == name.casefold()]
        if len(alike) == 1:
            return alike[0]
        if alike:
            self.fail(f"{name!r} could be any of the columns {', '.join(alike)}", at, f'write one of them in quotes: "{alike[0]}"')
        elif name.upper() in (*self.variables, *self.subsets):
            self.fail(
                f"{name!r} is a variable of the pattern", at, f"name a column of its rows: {name}.{next(iter(self.columns), 'x')}"
            )
        elif name.upper() in ("MATCH_NUMBER", "CLASSIFIER"):
            self.fail(f"there is no column {name!r}", at, f"the function has parentheses: {name.upper()}()")
        else:
            self.fail(f"there is no column {name!r}", at, HINTS.get(name.upper()) or did_you_mean(name, self.columns))
        return None

    def _columns(self, names: Iterable[Name]) -> tuple[str, ...]:
        found = (self._column(name.written, name.at) for name in names)
        return tuple(dict.fromkeys(name for name in found if name is not None))

    def _of(self, name: str | None, at: Span | None, column: str = "") -> frozenset[str] | None:
        """The variables that a name stands for; None is all of them. `column` is what it stands before."""
        if name is None:
            return None
        if name in self.variables:
            return frozenset({name})
        if name not in self.subsets:
            hint = did_you_mean(name, (*self.variables, *self.subsets)) or ""
            if column and not hint.startswith("did you mean"):
                hint = f"{hint}; a column of whatever row stands alone: {column}"
            self.fail(f"there is no variable {name!r} in the pattern", at, hint)
        return self.subsets.get(name, frozenset())

    def _bind_subsets(self) -> None:
        for name, members in self.draft.subsets:
            if name.text in self.variables:
                self.fail(f"{name.text!r} is a variable of the pattern already", name.at, "give the subset another name")
            if name.text in self.subsets:
                self.fail(f"the subset {name.text!r} is defined twice", name.at, "keep one of them")
            for member in members:
                if member.text not in self.variables:
                    self.fail(
                        f"there is no variable {member.text!r} in the pattern", member.at, did_you_mean(member.text, self.variables)
                    )
            self.subsets[name.text] = frozenset(member.text for member in members)

    # ------------------------------------------------------------ clauses

    def _skip(self) -> rows.RowSkip:
        to, name, at = self.draft.skip
        if name is None:
            return rows.RowSkip(cast(Any, to), at=at)
        return rows.RowSkip(cast(Any, to), self._of(name.text, name.at) or frozenset(), name.text, name.at)

    def _within(self, order_by: tuple[rows.Ordered, ...]) -> int | float | None:
        length = self.draft.within
        if length is None:
            return None
        at = self.draft.places["within"]
        if not order_by:
            self.fail("WITHIN measures along ORDER BY, and there is none", at, "add ORDER BY with a column of times or numbers")
            return None
        kind = self.columns[order_by[0].column]
        match length:
            case Duration(microseconds) if kind == "time" and microseconds > 0:
                return microseconds
            case Literal(int() | float() as number) if kind == "number" and number > 0:
                return number
        wanted = {"time": "INTERVAL '10' MINUTE", "number": "a number above zero"}.get(kind)
        if wanted is None:
            self.fail(
                f"rows in the order of {order_by[0].column!r}, a {kind}, have no distance", at, "order by times or numbers first"
            )
        else:
            hint = "order by a time for an INTERVAL" if kind == "number" else "order by a number for a number"
            self.fail(f"WITHIN takes {wanted} here, for {order_by[0].column!r} is a {kind}", at, hint)
        return None

    def _definitions(self) -> tuple[tuple[str, Expression], ...]:
        found: dict[str, Expression] = {}
        for name, condition in self.draft.definitions:
            if name.text in found:
                self.fail(f"{name.text!r} is defined twice", name.at, "keep one of them, or join them with AND")
            elif name.text in self.subsets:
                self.fail(f"{name.text!r} is a subset, which has no condition of its own", name.at, "define its variables")
            elif name.text not in self.variables and self.draft.pattern is not None:
                self.fail(f"{name.text!r} is not in the pattern", name.at, did_you_mean(name.text, self.variables))
            else:
                found[name.text] = _Values(self, in_define=True, final=False).bind(condition)
        return tuple(found.items())

    def _measures(self, clause: RowClause) -> tuple[tuple[str, Expression], ...]:
        found: dict[str, Expression] = {}
        taken = {name.casefold(): f"a column of the result, from {'the table' if clause.shown != 'one' else 'PARTITION BY'}"
                 for name in clause.output}  # fmt: skip
        for value, name in self.draft.measures:
            if name is None:
                self.fail("a measure has no name", value.at, "give it one with AS: LAST(a.price) AS low")
                continue
            if (what := taken.get(name.written.casefold())) is not None:
                self.fail(f"{name.written!r} is {what} already", name.at, "give the measure another name")
            taken[name.written.casefold()] = "a measure"
            found[name.written] = _Values(self, in_define=False, final=clause.shown == "one").bind(value)
        return tuple(found.items())

    def _check_exclusions(self) -> None:
        excluded = [node for node in rows.walk_pattern(self.pattern) if isinstance(node, rows.Exclusion)]
        if excluded and self.draft.shown == "unmatched":
            self.fail(
                "{- -} leaves rows out, and WITH UNMATCHED ROWS shows all",
                excluded[0].at,
                "write ALL ROWS PER MATCH alone, or leave out {- -}",
            )


class _Checker(ValueChecker):
    incomparable, instead_of_comparing = "nested values or intervals of months", "MEASURES hands them on, and IS NULL takes them"


class _Argument(NamedTuple):
    """What a function of rows is asked of: a value over columns of the table, and the variables whose rows it is of."""

    value: Value
    variables: frozenset[str] | None


class _Values:
    """One condition or measure, bound: what asks for rows of the match becomes a column with a frame."""

    def __init__(self, clause: _Binder, in_define: bool, final: bool) -> None:
        self.clause, self.in_define, self.final = clause, in_define, final
        self.frames: dict[str, Frame] = {}
        self.kinds: dict[str, Kind] = {}
        self.columns: dict[str, Kind] = {**clause.columns, CLASSIFIER: "string", NUMBER_OF_MATCH: "number"}
        self.fail = clause.fail

    def bind(self, root: Any) -> Expression:
        n_problems = len(self.clause.problems)
        bound = self._bound(root)
        if len(self.clause.problems) == n_problems:
            self._check(bound, self.kinds)
        return Expression(bound, tuple(self.frames.items()))

    def _check(self, root: Any, kinds: Mapping[str, Kind]) -> Kind | None:
        checker = _Checker(kinds)
        kind = None
        if isinstance(root, Predicate):
            checker.predicate(root)
        else:
            kind = checker.kind(root)
        self.clause.problems += checker.problems
        return "duration" if kind == "period" else kind

    def _framed(self, frame: Frame, kind: Kind | None, at: Span | None) -> Value:
        name = describe(frame)
        self.frames[name] = frame
        self.kinds[name] = kind or "null"
        return Attribute(None, name, at, sure=True)

    def _bound(self, node: Any) -> Any:
        match node:
            case Attribute(variable, name, at):
                if name == ALL_ROWS:
                    self.fail("* stands for rows, which only COUNT takes", at, "write COUNT(*)")
                    return Literal(None)
                column = self.clause._column(name, at)
                of = self.clause._of(variable, at, name if column is not None else "")
                if column is None:
                    return Literal(None)
                return self._framed(Navigation(Attribute(None, column), of, final=self.final), self.clause.columns[column], at)
            case Call("MATCH_NUMBER", arguments, at):
                if arguments:
                    self.fail("MATCH_NUMBER takes nothing", at, "write MATCH_NUMBER()")
                return self._framed(MatchNumber(), "number", at)
            case Call("RUNNING" | "FINAL" as mode, (inner,), at):
                return self._with_mode(mode, inner, at)
            case Call(function) if function in (*NAVIGATIONS, "CLASSIFIER"):
                return self._navigation(node, self.final)
            case Call(function) if function in FOLDS:
                return self._fold(node, self.final)
            case tree.Comparison("=" | "!=" as op, Call("ARRAY") as written, listed, at):
                return self._same_lists(op, listed, written, at)
            case tree.Comparison("=" | "!=" as op, listed, Call("ARRAY") as written, at):
                return self._same_lists(op, listed, written, at)
            case Call() if self._is_unknown(node):
                return Literal(None)
            case _:
                return tree.rebuilt(node, self._bound)

    def _is_unknown(self, node: Call) -> bool:
        if node.function not in VALUE_FUNCTIONS:
            self.clause.problems.append(unknown(node))
        return node.function not in VALUE_FUNCTIONS

    def _same_lists(self, op: str, listed: Value, written: Call, at: Span | None) -> Predicate:
        """ARRAY_AGG(a.x) = ARRAY[p, q]: so many rows, and of these the first is p, the next q. Without rows there is no list."""
        final = self.final
        match listed:
            case Call("RUNNING" | "FINAL" as mode, (Call("ARRAY_AGG", (argument,)) as fold,)) if not _is_distinct(argument):
                self._check_mode(mode, listed.at)
                final = final or mode == "FINAL"
            case Call("ARRAY_AGG", (argument,)) as fold if not _is_distinct(argument):
                pass
            case _:
                self.clause.problems.append(unknown(written))
                return tree.IsTrue(Literal(None))
        asked = self._argument(fold, argument)
        count = self._framed(RowFold("COUNT", None, asked.variables, False, final), "number", at)
        n_rows: Value = Call("NULLIF", (count, Literal(0)))
        parts = [tree.Comparison("=", n_rows, Literal(len(written.arguments)), at)]
        for place, value in enumerate(written.arguments):
            there = self._navigated(asked, "FIRST", place, 0, final, at)
            parts.append(tree.Comparison("=", there, self._bound(value), value.at))
        same = tree.AllOf(tuple(parts), at)
        return same if op == "=" else tree.Inverse(same, at)

    def _with_mode(self, mode: str, inner: Any, at: Span | None) -> Value:
        self._check_mode(mode, at)
        final = self.final or mode == "FINAL"
        written = inner.function if isinstance(inner, Call) else "before a value"
        if written in _LOGICAL:
            return self._navigation(inner, final)
        if written in FOLDS:
            return self._fold(inner, final)
        self.fail(f"{mode} {written} has no meaning", at, f"{mode} stands before FIRST, LAST and aggregates")
        return Literal(None)

    def _check_mode(self, mode: str, at: Span | None) -> None:
        if mode == "FINAL" and self.in_define:
            self.fail("FINAL in DEFINE: the match is not known yet", at, "leave it out; in DEFINE values are RUNNING")

    # ------------------------------------------------------------ navigation

    def _navigation(self, node: Call, final: bool) -> Value:
        physical, inner = 0, node
        if node.function in _PHYSICAL:
            physical = self._offset(node, 1) * (1 if node.function == "NEXT" else -1)
            first = node.arguments[0] if node.arguments else None
            if isinstance(first, Call) and first.function in _MODES:
                self._check_mode(first.function, first.at)
                final, first = final or first.function == "FINAL", first.arguments[0]
            if isinstance(first, Call) and first.function in _LOGICAL:
                inner = first
        end, logical = "LAST", 0
        if inner.function in _LOGICAL:
            end, logical = inner.function, self._offset(inner, 0)
        if inner.function == "CLASSIFIER":
            argument = self._classifier(inner)
        elif not inner.arguments:
            self.fail(f"{inner.function} of nothing", inner.at, f"write {inner.function}(a.x)")
            return Literal(None)
        elif isinstance(inner.arguments[0], Call) and inner.arguments[0].function == "CLASSIFIER":
            argument = self._classifier(inner.arguments[0])
        else:
            argument = self._argument(inner, inner.arguments[0])
        return self._navigated(argument, end, logical, physical, final, node.at)

    def _navigated(self, argument: _Argument, end: str, logical: int, physical: int, final: bool, at: Span | None) -> Value:
        frame = Navigation(argument.value, argument.variables, cast(Any, end), logical, physical, final)
        if argument.value == Attribute(None, CLASSIFIER):
            return self._framed(replace(frame, value=None), "string", at)
        return self._framed(frame, self._check(argument.value, self.columns), at)

    def _offset(self, node: Call, default: int) -> int:
        if len(node.arguments) > 2:
            self.fail(f"{node.function} takes a value and a number of rows", node.at, f"write {node.function}(a.x, 2)")
        match node.arguments[1:]:
            case ():
                return default
            case (Literal(int() as offset),) if 0 <= offset <= 2**31 and not isinstance(offset, bool):
                return offset
        self.fail(
            f"{node.function} takes a whole number of rows that is not negative",
            node.arguments[1].at,
            f"write {node.function}(a.x, 2)",
        )
        return default

    def _classifier(self, node: Call) -> _Argument:
        match node.arguments:
            case ():
                return _Argument(Attribute(None, CLASSIFIER), None)
            case (Attribute(None, name, at),):
                return _Argument(Attribute(None, CLASSIFIER), self.clause._of(self._variable(name), at))
            case _:
                pass
        self.fail("CLASSIFIER takes a variable, or nothing", node.at, "write CLASSIFIER() or CLASSIFIER(a)")
        return _Argument(Attribute(None, CLASSIFIER), None)

    def _variable(self, written: str) -> str:
        """What stands where a column might is known as it was written: in quotes as it is, else in capitals."""
        return written if written in (*self.clause.variables, *self.clause.subsets) else written.upper()

    def _argument(self, node: Call, *values: Value) -> _Argument:
        """What stands in a function of rows: columns of rows of one variable, or of one subset. It is of the first value."""
        named: dict[str | None, None] = {}

        def change(part: Any) -> Any:
            match part:
                case Attribute(variable, name, at):
                    named[variable] = None
                    column = self.clause._column(name, at)
                    return Literal(None) if column is None else Attribute(None, column, at, sure=True)
                case Call("CLASSIFIER"):
                    asked = self._classifier(part)
                    of = part.arguments[0] if part.arguments else None
                    named[self._variable(of.name) if isinstance(of, Attribute) else None] = None
                    return asked.value
                case Call("MATCH_NUMBER", ()):
                    return Attribute(None, NUMBER_OF_MATCH, part.at, sure=True)
                case Call(function, _, at) if function in _OF_ROWS:
                    self._forbidden(node.function, function, at)
                    return Literal(None)
                case Call() if self._is_unknown(part):
                    return Literal(None)
            return tree.rebuilt(part, change)

        n_problems = len(self.clause.problems)
        bound, *_ = [change(value) for value in values]
        if not named and node.function not in FOLDS and len(self.clause.problems) == n_problems:
            self.fail(f"{node.function} of a value that is of no row", node.at, "name a column")
        if len(named) > 1:
            shown = " and ".join("all rows" if name is None else f"{name}" for name in named)
            self.fail(
                f"{node.function} of a value of several variables: {shown}",
                node.at,
                "each takes columns of one variable, or of one subset",
            )
        name = next(iter(named), None)
        return _Argument(bound, self.clause._of(name, node.at))

    def _forbidden(self, outer: str, inner: str, at: Span | None) -> None:
        if outer in FOLDS and inner in FOLDS:
            self.fail(f"{inner} inside {outer}: aggregates do not nest", at, "compute the inner one in a sub-query")
        elif outer in FOLDS:
            self.fail(f"{inner} inside {outer}: an aggregate takes values of its own rows", at, f"leave out {inner}")
        elif inner in FOLDS:
            self.fail(f"{inner} inside {outer}: an aggregate is of no row", at, f"leave out {outer}")
        elif outer in _LOGICAL and inner in _PHYSICAL:
            self.fail(f"{inner} inside {outer}", at, f"nest them the other way round: {inner}({outer}(a.x))")
        else:
            self.fail(f"{inner} inside {outer}", at, "PREV and NEXT take FIRST or LAST, and these take values of a row")

    # ------------------------------------------------------------ aggregates

    def _fold(self, node: Call, final: bool) -> Value:
        arguments, distinct, function = node.arguments, False, _ALSO.get(node.function, node.function)
        if arguments and _is_distinct(arguments[0]):
            arguments, distinct = cast(Call, arguments[0]).arguments, True
        if function == "COUNT" and not arguments and not distinct:
            arguments = (Attribute(None, ALL_ROWS, node.at),)
        if len(arguments) != (wanted := 2 if function in _OF_TWO else 1):
            example = {"LISTAGG": "a.x, ', '", "MIN_BY": "a.x, a.y", "MAX_BY": "a.x, a.y"}.get(function, "a.x")
            self.fail(
                f"{node.function} takes {'two values' if wanted == 2 else 'one value'}",
                node.at,
                f"write {node.function}({example})",
            )
            return Literal(None)
        argument = arguments[0]
        if isinstance(argument, Attribute) and argument.name == ALL_ROWS:
            if function != "COUNT" or distinct:
                self.fail("* stands for rows, which only COUNT takes", node.at, "write COUNT(*)")
            of = self.clause._of(argument.variable, argument.at)
            return self._framed(RowFold("COUNT", None, of, False, final), "number", node.at)
        asked, second = self._argument(node, *arguments), None
        kind = self._check(asked.value, self.columns)
        takes, result = _TAKES[function]
        if kind is not None and kind != "null" and takes and kind not in takes:
            shown = " and ".join("truth values" if each == "boolean" else f"{each}s" for each in takes)
            given = {"other": _Checker.incomparable, "clock": "a time of day", "binary": "a binary value"}.get(kind, f"a {kind}")
            self.fail(f"{node.function} of {given}", node.at, f"{node.function} takes {shown}")
        elif kind == "other" and (distinct or function not in _OF_ANYTHING):
            what = f"{node.function}({'DISTINCT' * distinct} ...)" if distinct else node.function
            self.fail(
                f"{what} of {_Checker.incomparable}, which do not compare", node.at, "ARRAY_AGG, COUNT and ANY_VALUE take them"
            )
        if wanted == 2:
            second = self._second(node, function, arguments[1], distinct)
        distinct = distinct and function not in ("MIN", "MAX", "EVERY", "BOOL_OR", "ANY_VALUE")
        fold = RowFold(function, asked.value, asked.variables, distinct, final, second)
        return self._framed(fold, result or kind, node.at)

    def _second(self, node: Call, function: str, given: Value, distinct: bool) -> Value:
        """What MAX_BY compares, or what LISTAGG puts between."""
        if function == "LISTAGG":
            if not (isinstance(given, Literal) and isinstance(given.value, str)):
                self.fail(f"{node.function} puts a text between values", given.at, f"write {node.function}(a.x, ', ')")
            return given
        if distinct:
            self.fail(f"{node.function} takes one row, so DISTINCT changes nothing", node.at, "leave out DISTINCT")
        value = self._argument(node, given).value
        if self._check(value, self.columns) == "other":
            self.fail(f"{_Checker.incomparable} cannot be compared", given.at, "compare by a number, a text or a time")
        return value


def _is_distinct(argument: Value) -> bool:
    return isinstance(argument, Call) and argument.function == "DISTINCT"


def describe(frame: Frame) -> str:
    """What a frame's column is called: what stood in the text."""
    match frame:
        case MatchNumber():
            return "MATCH_NUMBER()"
        case RowFold(function, argument, variables, distinct, final, second):
            value = _over(argument, variables) if argument is not None else _of_variables(variables, "*")
            more = "" if second is None else f", {_over(second, variables)}"
            return f"{'FINAL ' * final}{function}({'DISTINCT ' * distinct}{value}{more})"
        case Navigation(value, variables, end, logical, physical, final):
            text = f"CLASSIFIER({_of_variables(variables, '')})" if value is None else _over(value, variables)
            if (end, logical) != ("LAST", 0) or final:
                text = f"{'FINAL ' * final}{end}({text}{f', {logical}' if logical else ''})"
            if physical:
                text = f"{'NEXT' if physical > 0 else 'PREV'}({text}{f', {abs(physical)}' if abs(physical) > 1 else ''})"
            return text


def _of_variables(variables: frozenset[str] | None, name: str) -> str:
    return name if variables is None else "|".join(sorted(variables)) + (f".{name}" if name else "")


def _over(value: Value, variables: frozenset[str] | None) -> str:
    if isinstance(value, Attribute):
        return _of_variables(variables, quote(value.name))
    written = write_value(value)
    return written if variables is None else f"{written} of {_of_variables(variables, '')}"
