"""Kinds of values: whether a query makes sense for the columns the events have.

Every value has a kind (`Kind`), or none when it cannot be known (an attribute without a schema, NULL, a column of nulls): what is
not known fits everything, so the same walk finds `'a' + 1` without a schema and `r.ward > 3` with one. All mistakes are collected.

A duration in the text (`10 min`) is a "period": a duration where times are timestamps; where the time column is an integer, a
number in its unit. Cost: linear in the query.

    time - time      duration        duration * number, / number      duration
    time +- duration time            duration / duration              number

"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from itertools import pairwise
from typing import Literal as OneOf

from seqube.errors import Problem, QueryError, Span, did_you_mean
from seqube.events.schema import ANY, Schema
from seqube.language import mentions, tree
from seqube.language.functions import (
    OF_EVENTS,
    OF_LISTS,
    PARTS,
    SQL_CASTS,
    TRUNCATED,
    Function,
    Kind,
    aggregate_function,
    value_function,
)
from seqube.language.parser import draft, in_order
from seqube.language.tree import TIME_ATTRIBUTE, TYPE_ATTRIBUTE, Attribute, Predicate, Query, Value

_Kind = Kind | OneOf["period"] | None

_ARTICLES: dict[_Kind, str] = {
    "number": "a number",
    "string": "a string",
    "boolean": "a boolean",
    "time": "a time",
    "duration": "a duration",
    "period": "a duration",
    "clock": "a time of day",
    "binary": "a binary value",
    "other": "a value that cannot be compared",
}
_OWN = frozenset(OF_EVENTS.values())
_ISO = "write times in single quotes as '2024-03-01' or '2024-03-01T08:30:00'"


def check(query: Query, schema: Mapping[str, Kind] | None, known_types: Collection[str] | None = None) -> None:
    """Check a bound query against the kinds of the events' columns; raise a `QueryError` with every problem found.

    `schema` maps column names to kinds, with `v.type` and `v.ts` under their own names; None checks what needs no schema.
    `known_types` are the event types (and concepts) there are; None leaves types unchecked.
    """
    problems = mismatches(query, schema, known_types)
    if problems:
        raise QueryError(in_order(problems), query.source)


def mismatches(query: Query, schema: Mapping[str, Kind] | None, known_types: Collection[str] | None = None) -> list[Problem]:
    """What `check` would complain about."""
    checker = _Checker(query, schema)
    if known_types is not None:
        checker.check_types(known_types)
    checker.check_query()
    return checker.problems


class ValueChecker:
    """Values and predicates over columns of these kinds: what is wrong with them is in `problems`."""

    incomparable, instead_of_comparing = "nested or binary values", "only IS NULL and RETURN take them"

    def __init__(self, schema: Mapping[str, Kind] | None, integer_time: bool = False) -> None:
        self.schema = schema
        self.integer_time = integer_time
        self.problems: list[Problem] = []

    def fail(self, message: str, at: Span | None, hint: str | None = None) -> None:
        self.problems.append(Problem(message, at, hint))

    # ---------------------------------------------------------------- columns

    def column(self, name: str, at: Span | None) -> _Kind:
        if self.schema is None:
            return "string" if name == TYPE_ATTRIBUTE else None
        if name not in self.schema:
            self.fail(f"the events have no column {name!r}", at, did_you_mean(name, self.schema))
        kind = self.schema.get(name)
        return None if kind == "null" else kind

    def hidden(self, variable: str | None, name: str, at: Span | None) -> None:
        """Refuse what could be the event's own type or time, or a column that has that name."""
        if not isinstance(self.schema, Schema) or name not in self.schema.hidden:
            return
        of_event = next(function for function, attribute in OF_EVENTS.items() if attribute == name)
        own = self.schema.column_of(name)
        one = f"{of_event}({variable})" if variable else own
        other = f'{variable}."{name}"' if variable else f'"{name}"'
        meaning = "type" if name == TYPE_ATTRIBUTE else "time"
        self.fail(
            f"{name!r} is the event's {meaning} here and also a column, while {own!r} holds the {meaning}s",
            at,
            f"write {one} for the {meaning}, or {other} for the column",
        )

    def key(self, name: str, at: Span | None, place: str) -> None:
        if self.column(name, at) == "other":
            self.fail(
                f"{place} needs plain values, and {name!r} holds nested or binary ones",
                at,
                "use a column of numbers, strings or times",
            )

    # ---------------------------------------------------------------- predicates

    def predicate(self, node: Predicate) -> None:
        match node:
            case tree.AllOf(parts) | tree.AnyOf(parts):
                for part in parts:
                    self.predicate(part)
            case tree.Inverse(part):
                self.predicate(part)
            case tree.Same(attribute, at):
                self.hidden(None, attribute, at)
                self.key(attribute, at, f"[{attribute}]")
            case tree.Comparison(_, left, right):
                self.comparable(left, right, node.at)
            case tree.Chain(operands):
                for left, right in pairwise(operands):
                    self.comparable(left, right, node.at)
            case tree.Between(operand, low, high):
                self.comparable(operand, low, node.at)
                self.comparable(operand, high, node.at)
            case tree.Among(operand, values):
                self.among(operand, values)
            case tree.IsNull(operand):
                self.kind(operand)
            case tree.IsTrue(operand):
                kind = self.kind(operand)
                if kind not in (None, "boolean"):
                    joined = isinstance(operand, tree.Call) and operand.function == "CONCAT"
                    hint = "|| puts texts behind each other: write OR" if joined else "compare it with something"
                    self.fail(f"{_ARTICLES[kind]} is not a condition", operand.at, hint)

    def among(self, operand: Value, values: tuple[tree.Literal | tree.Parameter, ...]) -> None:
        kind = self.kind(operand)
        for value in values:
            if not self.fits(kind, operand, self.kind(value), value):
                return self.fail_comparison(kind, operand, self.kind(value), value, value.at)
        return None

    def comparable(self, left: Value, right: Value, at: Span | None) -> None:
        kinds = self.kind(left), self.kind(right)
        if not self.fits(kinds[0], left, kinds[1], right):
            self.fail_comparison(kinds[0], left, kinds[1], right, at)

    def fits(self, left_kind: _Kind, left: Value, right_kind: _Kind, right: Value) -> bool:
        if "other" in (left_kind, right_kind):
            return False
        first, second = self.settle(left_kind, right_kind)
        if first is None or second is None or first == second:
            return True
        return (first == "time" and _is_time_text(right)) or (second == "time" and _is_time_text(left))

    def fail_comparison(self, left_kind: _Kind, left: Value, right_kind: _Kind, right: Value, at: Span | None) -> None:
        kinds = (left_kind, right_kind)
        if "other" in kinds:
            self.fail(f"{self.incomparable} cannot be compared", at, self.instead_of_comparing)
            return
        hint = None
        if "time" in kinds and "string" in kinds:
            text = right if right_kind == "string" else left
            if isinstance(text, tree.Literal):
                self.fail(f"{text.value!r} is not a date or time", text.at or at, _ISO)
                return
        elif "time" in kinds and "number" in kinds:
            hint = _ISO
        elif "clock" in kinds:
            hint = "write a time of day as TIME '12:30:00'"
        elif "binary" in kinds:
            hint = "write a binary value as X'0AFF'"
        elif "number" in kinds and "duration" in kinds:
            number = right if right_kind == "number" else left
            if isinstance(number, tree.Literal):
                hint = f"a length of time takes a unit: {number.value!r} s, {number.value!r} min"
        elif "number" in kinds and "string" in kinds:
            text = right if right_kind == "string" else left
            hint = (
                "numbers are written without quotes" if isinstance(text, tree.Literal) else "strings are written in single quotes"
            )
        self.fail(f"{_describe(left, left_kind)} is compared with {_describe(right, right_kind)}", at, hint)

    def settle(self, left: _Kind, right: _Kind) -> tuple[_Kind, _Kind]:
        """Decide what a period is, seeing what it meets."""

        def decide(kind: _Kind, other: _Kind) -> _Kind:
            if kind != "period":
                return kind
            return "number" if self.integer_time and other == "number" else "duration"

        return decide(left, right), decide(right, left)

    # ---------------------------------------------------------------- values

    def kind(self, node: Value) -> _Kind:
        match node:
            case tree.Literal(None):
                return None
            case tree.Literal(bool()):
                return "boolean"
            case tree.Literal(str()):
                return "string"
            case tree.Literal(bytes()):
                return "binary"
            case tree.Literal():
                return "number"
            case tree.Duration():
                # Without a schema nobody knows yet whether time is a number.
                return None if self.schema is None else "period"
            case tree.Parameter(name, at):
                if self.schema is not None:
                    hint = f"give it: params={{'{name}': ...}}, on the command line --param {name}=..., or write it in its place"
                    self.fail(f"there is no value for :{name}", at, hint)
                return None
            case Attribute(variable, name, at):
                if not node.sure:
                    self.hidden(variable, name, at)
                return self.column(name, at)
            case tree.FirstOf(values):
                return self.kind(values[0])
            case tree.Minus(operand):
                kind = self.kind(operand)
                if kind not in (None, "number", "duration", "period"):
                    self.fail(f"minus {_describe(operand, kind)}", node.at, "only numbers and durations have a sign")
                    return None
                return kind
            case tree.Aggregate():
                return self.aggregate(node)
            case tree.Call():
                return self.call(node)
            case tree.Condition(predicate):
                self.predicate(predicate)
                return "boolean"
            case tree.OfList(function, argument):
                row = OF_LISTS[function]
                kind = self.kind(argument)
                if kind is not None and row.takes and kind not in row.takes:
                    self.fail(f"{function} of {_describe(argument, kind)}", node.at, f"{function} takes {_either(row.takes)}")
                    return None
                return row.result or kind
            case tree.Prev(argument) | tree.AtLevel(argument):
                return self.kind(argument)
            case tree.Arithmetic():
                return self.arithmetic(node)

    def arithmetic(self, node: tree.Arithmetic) -> _Kind:
        found = self.kind(node.left), self.kind(node.right)
        left, right = ("duration", "duration") if found == ("period", "period") else self.settle(*found)
        bad = [kind for kind in (left, right) if kind in ("string", "boolean", "binary", "other")]
        if bad:
            self.fail(
                f"{_ARTICLES[bad[0]]} in a calculation with {node.op}", node.at, "calculate with numbers, times and durations"
            )
            return None
        if left is None or right is None:
            return None
        result: _Kind
        match left, node.op, right:
            case "number", _, "number":
                result = "number"
            case ("time", "-", "time") | ("clock", "-", "clock") | ("duration", "+" | "-" | "%", "duration"):
                result = "duration"
            case ("duration", "*" | "/", "number") | ("number", "*", "duration"):
                result = "duration"
            case ("time", "+" | "-", "duration") | ("duration", "+", "time"):
                result = "time"
            case "duration", "/", "duration":
                result = "number"
            case _:
                hint = "give the number a unit: 10 min" if "number" in (left, right) else "a time minus a time is a duration"
                self.fail(f"{_ARTICLES[left]} {node.op} {_ARTICLES[right]} has no meaning", node.at, hint)
                return None
        # With integer time, what is made of periods alone can still meet a number.
        alone = set(found) <= {"period", "number"} and "period" in found and result == "duration"
        return "period" if alone else result

    def aggregate(self, node: tree.Aggregate) -> _Kind:
        function = aggregate_function(node.function, node.at)
        if node.argument is None:
            return function.result
        kind = self.kind(node.argument)
        kind = "duration" if kind == "period" else kind
        if kind is not None and kind not in function.takes:
            wrong = f"{function.name} of {_describe(node.argument, kind)}"
            self.fail(wrong, node.at, f"{function.name} takes {_either(function.takes)}")
            return None
        match node.share:
            case None | tree.Parameter():
                pass
            case tree.Literal(int() | float() as share) if 0 <= share <= 1:
                pass
            case _:
                self.fail(f"{function.name} takes a share between 0 and 1", node.share.at or node.at, f"write {function.call}")
        return function.result or kind

    # ---------------------------------------------------------------- functions

    def call(self, node: tree.Call) -> _Kind:
        function = value_function(node.function, node.at)
        if node.function == "CASE":
            return self.case(node)
        kinds = [self.kind(argument) for argument in node.arguments]
        n_problems = len(self.problems)
        for place, (argument, kind) in enumerate(zip(node.arguments, kinds, strict=True)):
            takes = function.takes[min(place, len(function.takes) - 1)]
            if place in function.constants:
                self.constant(function, node, place)
            elif kind == "other" and function.name != "COALESCE":
                self.fail(f"{function.name} of {_describe(argument, kind)}", argument.at or node.at, self.instead_of_comparing)
            elif takes and kind is not None and not self.is_one_of(kind, takes):
                self.fail(
                    f"{function.name} of {_describe(argument, kind)}", argument.at or node.at, self.instead(function, kind, takes)
                )
        if node.function == "CAST":
            return self.cast(node, kinds[0])
        if len(self.problems) > n_problems:
            return function.result
        common = self.common(function.name, node.arguments, kinds) if function.alike else kinds[0]
        return function.result or common

    def is_one_of(self, kind: _Kind, takes: tuple[Kind, ...]) -> bool:
        return kind in takes or (kind == "period" and ("duration" in takes or ("number" in takes and self.integer_time)))

    def instead(self, function: Function, kind: _Kind, takes: tuple[Kind, ...]) -> str:
        if takes == ("time",) and kind == "number" and self.integer_time:
            return "where times are integers they have no calendar: give the events a column of timestamps"
        if takes == ("string",) and kind in ("number", "boolean", "time"):
            return "make it a text: CAST(... AS STRING)"
        return f"{function.name} takes {_either(takes)}"

    def constant(self, function: Function, node: tree.Call, place: int) -> None:
        """An argument that must stand in the query as it is."""
        argument, takes = node.arguments[place], function.takes[place]
        if isinstance(argument, tree.Parameter):
            return
        value = argument.value if isinstance(argument, tree.Literal) else None
        wanted = {"string": "a string in single quotes", "number": "a whole number"}[takes[0]]
        if type(value) is not {"string": str, "number": int}[takes[0]]:
            self.fail(
                f"{function.name} takes {wanted} here, as it stands in the query", argument.at or node.at, f"write {function.call}"
            )
            return
        known = {"EXTRACT": PARTS, "DATE_TRUNC": TRUNCATED}.get(function.name, ())
        if known and str(value).upper() not in known:
            self.fail(f"{function.name} knows no {value!r}", argument.at or node.at, f"there are {', '.join(known)}")

    def cast(self, node: tree.Call, kind: _Kind) -> _Kind:
        name = node.arguments[1]
        assert isinstance(name, tree.Literal)
        made, result = SQL_CASTS[str(name.value).split("(")[0]]
        if kind in ("duration", "period"):
            self.fail("a duration has no unit to be a number in", node.at, "divide it by one: (b.ts - a.ts) / 1 s")
        elif kind in ("clock", "binary") and result not in ("string" if kind == "clock" else kind, kind):
            self.fail(f"{_ARTICLES[kind]} cannot be made a {made}", node.at, "take it as it is")
        elif result in ("clock", "binary") and kind not in (None, result, "string", "time" if result == "clock" else result):
            self.fail(f"{_ARTICLES[kind]} cannot be made a {made}", node.at, f"a {made} is made of a text")
        elif kind == "time" and result not in ("string", "time", "clock"):
            self.fail(f"a time cannot be made a {made}", node.at, "take a part of it: EXTRACT(HOUR FROM a.ts)")
        elif kind in ("number", "boolean") and result == "time":
            self.fail(f"{_ARTICLES[kind]} cannot be made a time", node.at, _ISO)
        return result

    def case(self, node: tree.Call) -> _Kind:
        for condition in node.arguments[:-1:2]:
            kind = self.kind(condition)
            if kind not in (None, "boolean"):
                self.fail(f"{_ARTICLES[kind]} is not a condition", condition.at or node.at, "compare it with something")
        values = (*node.arguments[1::2], node.arguments[-1])
        return self.common("CASE", values, [self.kind(value) for value in values])

    def common(self, name: str, values: tuple[Value, ...], kinds: list[_Kind]) -> _Kind:
        """The one kind that values have that may stand for each other."""
        known = [(value, kind) for value, kind in zip(values, kinds, strict=True) if kind is not None]
        if not known:
            return None
        first = next(((value, kind) for value, kind in known if kind == "time"), known[0])
        for value, kind in known:
            if not self.fits(first[1], first[0], kind, value) and kind != "other":
                self.fail(
                    f"{name} of {_describe(first[0], first[1])} and {_describe(value, kind)}", value.at, "they must be of one kind"
                )
                return None
            if first[1] == "period" and kind != "period":
                first = (value, kind)
        return first[1]


class _Checker(ValueChecker):
    def __init__(self, query: Query, schema: Mapping[str, Kind] | None) -> None:
        super().__init__(schema, schema is not None and schema.get(TIME_ATTRIBUTE) == "number")
        self.query = query

    def check_types(self, known: Collection[str]) -> None:
        for leaf in mentions.leaves(self.query.pattern):
            if leaf.name not in known and leaf.name != ANY:
                self.fail(f"unknown event type {leaf.name!r}", leaf.at, did_you_mean(leaf.name, known))

    def check_query(self) -> None:
        query = self.query
        for predicate in (*mentions.inner_predicates(query.pattern), *query.where):
            self.predicate(predicate)
        self.named_columns()
        for key in query.group_by:
            if not isinstance(key, Attribute):
                if self.kind(key) == "other":
                    self.fail("GROUP BY needs plain values", key.at, "use numbers, strings or times")
                continue
            if not key.sure:
                self.hidden(key.variable, key.name, key.at)
            self.key(key.name, key.at, "GROUP BY")
        for output in (*query.aggregates, *query.returns):
            if self.kind(output.value) == "other":
                self.distinct_nested(output.at)
        if query.returns_all and "other" in (self.schema or {}).values():
            self.distinct_nested(None)
        for predicate in query.having:
            self.predicate(predicate)

    def distinct_nested(self, at: Span | None) -> None:
        if self.query.is_distinct:
            message = "RETURN DISTINCT compares plain values, and here is a nested or binary one"
            self.fail(message, at, "return columns of numbers, strings or times")

    @property
    def result_columns(self) -> set[str | None]:
        return {"start", "end", *(output.name for output in self.query.returns)}

    def named_columns(self) -> None:
        """The columns that PARTITION BY and ORDER BY name."""
        query, schema = self.query, self.schema
        named = {"PARTITION BY": query.partition_by, "ORDER BY": query.order_by}
        places: dict[tuple[str, str], Span | None] = {}
        if (
            schema is not None
            and query.source
            and any(schema.get(name, "other") == "other" or name in _OWN for each in named.values() for name in each)
        ):
            # The tree keeps the columns' names only; their places are looked up when there is something to show.
            written = draft(query.source)
            drafted = {"PARTITION BY": written.partition_by, "ORDER BY": written.order_by}
            places = {(clause, column.name): column.at for clause, columns in drafted.items() for column in columns}
        for clause, names in named.items():
            for name in names:
                if clause == "ORDER BY" and schema is not None and name not in schema and name in self.result_columns:
                    self.fail(
                        f"ORDER BY orders events of one time, and {name!r} is a column of the result",
                        places.get((clause, name)),
                        f'put the rows in order afterwards: result.table.sort_by("{name}")',
                    )
                else:
                    self.hidden(None, name, places.get((clause, name)))
                    self.key(name, places.get((clause, name)), clause)


def _either(words: tuple[str, ...]) -> str:
    *others, last = (f"{word}s" for word in words)
    return f"{', '.join(others)} or {last}" if others else last


def _describe(node: Value, kind: _Kind) -> str:
    """`r.ward, a string`: the words a message uses for a value."""
    from seqube.language.writer import write_value

    article = _ARTICLES[kind]
    return f"{write_value(node)} ({article})" if isinstance(node, Attribute | tree.Aggregate) else article


def _is_time_text(node: Value) -> bool:
    if not isinstance(node, tree.Literal) or not isinstance(node.value, str):
        return False
    try:
        datetime.fromisoformat(node.value)
    except ValueError:
        return False
    return True
