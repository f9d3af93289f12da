"""A bound query to its canonical text, which parses back to an equal query.

One clause a line, in the order of the language's own description. Names are quoted only where they must be, what the binder would
add by itself (a variable that is its type's name, a column's default name, EMIT ON TRIGGER) is left out, and parentheses stand
only where the tree needs them. Cost: linear in the query.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import assert_never

from seqube.events.schema import HIDDEN_COLUMNS
from seqube.language import tree
from seqube.language.functions import COUNT_DISTINCT, OF_EVENTS, OF_LISTS, PREVIOUS
from seqube.language.names import column_name
from seqube.language.tree import Attribute, Output, Part, Predicate, Query, Value, Window
from seqube.language.words import COUNTED, KEYWORDS

_KEYWORD = re.compile("|".join((*KEYWORDS, *COUNTED)), re.IGNORECASE)
_OF_EVENT = {attribute: name for name, attribute in OF_EVENTS.items()}
_WORD = re.compile(r"[^\W\d]\w*")
_UNITS = ((86_400_000_000, "day"), (3_600_000_000, "hour"), (60_000_000, "min"), (1_000_000, "s"), (1_000, "ms"), (1, "us"))

# How tightly things bind, loosest first; what binds looser than its place allows is put in parentheses.
_OR, _AND, _NOT, _COMPARISON = range(4)
_CONDITION, _SUM, _PRODUCT, _SIGN, _ATOM = range(5)


def write(query: Query) -> str:
    """The canonical text of a bound query."""
    lines = [f"PATTERN {write_pattern(query.pattern, _quote_keyword)}"]
    if query.definitions:
        lines.append(f"DEFINE {', '.join(map(_definition, query.definitions))}")
    if query.where:
        lines.append(f"WHERE {write_conjunction(query.where)}")
    if query.partition_by:
        lines.append(f"PARTITION BY {', '.join(map(_quote_attribute, query.partition_by))}")
    if query.order_by:
        lines.append(f"ORDER BY {', '.join(map(_quote_attribute, query.order_by))}")
    if query.skip is not None:
        lines.append(f"SKIP {query.skip.to}{'' if query.skip.variable is None else ' ' + quote(query.skip.variable)}")
    if query.keeps_partial:
        lines.append("KEEP PARTIAL")
    if query.group_by:
        lines.append(f"GROUP BY {', '.join(map(write_value, query.group_by))}")
    if query.aggregates:
        lines.append(f"AGG {_outputs(query.aggregates)}")
    if query.having:
        lines.append(f"HAVING {write_conjunction(query.having)}")
    lines.append(f"WITHIN {_window(query.window)}")
    if query.emit is not None and query.emit.when == "total":
        lines.append("EMIT TOTAL")
    elif query.emit is not None and query.emit.period is not None:
        lines.append(f"EMIT {query.emit.when.upper()} {_window(query.emit.period)}")
    if query.returns or query.returns_all:
        lines.append(f"RETURN {'DISTINCT ' * query.is_distinct}{_outputs(query.returns) or '*'}")
    if query.limit is not None:
        lines.append(f"LIMIT {query.limit}")
    return "\n".join(lines)


def _definition(node: tree.Definition) -> str:
    where = (tree.transform(condition, lambda part: _of_event(part, node.name)) for condition in node.where)
    return f"{quote(node.name)} AS {quote(node.type)} WHERE {write_conjunction(tuple(where))}"


def _of_event(node: tree.Node, name: str) -> tree.Node:
    """The event's own type and time in a condition on it: TYPE(Big)."""
    return replace(node, variable=name) if isinstance(node, Attribute) and node.sure else node


def quote(name: str) -> str:
    """A name as it must be written where only a name can stand: bare if it is a word, else in double quotes."""
    return name if _WORD.fullmatch(name) else '"' + name.replace('"', '""') + '"'


def quote_column(name: str) -> str:
    """A column by its own name, also where the event's type or time would hide it."""
    return f'"{name}"' if name in HIDDEN_COLUMNS.values() else quote(name)


def _quote_attribute(name: str) -> str:
    """The name of an attribute; one that is in quotes by itself stays so."""
    return name if name in HIDDEN_COLUMNS else quote(name)


def _quote_keyword(name: str) -> str:
    """A name where a keyword could stand too."""
    return f'"{name}"' if _KEYWORD.fullmatch(name) else _quote_attribute(name)


def write_pattern(part: Part, variable_quote: Callable[[str], str] = quote) -> str:
    """A pattern or a component of one, with its predicates."""
    match part:
        case tree.Type(name, variable, quantifier):
            times = "" if quantifier is None else str(quantifier)
            return _quote_keyword(name) + times + ("" if variable in (None, name) else f" {variable_quote(variable)}")
        case tree.Not(inner):
            return f"!{write_pattern(inner)}"
        case tree.Seq() | tree.Next() | tree.Strict() | tree.And() | tree.Or():
            items = [*map(write_pattern, part.parts), *map(write_predicate, part.where)]
            return f"{type(part).__name__.upper()}({', '.join(items)})"
        case _:
            assert_never(part)


def _window(window: Window) -> str:
    match window.unit:
        case "us":
            return duration(window.length)
        case "events":
            return f"{window.length} EVENTS"
        case "ticks":
            return str(window.length)
        case _:
            assert_never(window.unit)


def duration(microseconds: int) -> str:
    """A length of time in the largest unit that divides it."""
    size, unit = next((size, unit) for size, unit in _UNITS if microseconds % size == 0 or size == 1)
    if microseconds == 0:
        size, unit = 1_000_000, "s"
    number = microseconds // size
    plural = "s" if unit in ("day", "hour") and abs(number) != 1 else ""
    return f"{number} {unit}{plural}"


def _outputs(outputs: tuple[Output, ...]) -> str:
    texts = []
    for position, output in enumerate(outputs, 1):
        text = write_value(output.value, _CONDITION)
        if output.name is not None and output.name != column_name(output.value, position):
            text += f" AS {quote(output.name)}"
        texts.append(text)
    return ", ".join(texts)


def write_conjunction(predicates: tuple[Predicate, ...]) -> str:
    """Predicates that all hold, joined by AND."""
    return " AND ".join(write_predicate(predicate, _NOT) for predicate in predicates)


def write_predicate(node: Predicate, least: int = _OR) -> str:
    """A predicate, in parentheses if it binds looser than `least`."""
    binds = _COMPARISON
    match node:
        case tree.AnyOf(parts):
            binds, text = _OR, " OR ".join(write_predicate(part, _AND) for part in parts)
        case tree.AllOf(parts):
            binds, text = _AND, " AND ".join(write_predicate(part, _NOT) for part in parts)
        case tree.Inverse(part):
            binds, text = _NOT, f"NOT {write_predicate(part, _NOT)}"
        case tree.Comparison(op, left, right):
            text = f"{write_value(left)} {op} {write_value(right)}"
        case tree.Chain(operands):
            text = " = ".join(map(write_value, operands))
        case tree.Among(operand, values, negated):
            text = f"{write_value(operand)} {'NOT ' * negated}IN ({', '.join(map(write_value, values))})"
        case tree.Between(operand, low, high, negated):
            text = f"{write_value(operand)} {'NOT ' * negated}BETWEEN {write_value(low)} AND {write_value(high)}"
        case tree.IsNull(operand, negated):
            text = f"{write_value(operand)} IS {'NOT ' * negated}NULL"
        case tree.IsTrue(operand):
            text = write_value(operand, _CONDITION)
        case tree.Same(attribute):
            text = f"[{_quote_attribute(attribute)}]"
        case _:
            assert_never(node)
    return f"({text})" if binds < least else text


def _call(node: tree.Call) -> tuple[int, str]:
    """A function as it is written, and how tightly that binds."""
    name, arguments = node.function, [write_value(argument, _CONDITION) for argument in node.arguments]
    match name:
        case "LIKE" | "ILIKE" | "RLIKE" | "IS DISTINCT FROM" if len(arguments) == 2:  # else it is refused, and named as it came
            left, right = map(write_value, node.arguments)  # a condition on either side stands in parentheses
            return _CONDITION, f"{left} {name} {right}"
        case "CASE":
            branches = (f"WHEN {when} THEN {then}" for when, then in zip(arguments[:-1:2], arguments[1::2], strict=True))
            otherwise = "" if node.arguments[-1] == tree.Literal(None) else f" ELSE {arguments[-1]}"
            return _ATOM, f"CASE {' '.join(branches)}{otherwise} END"
        case "CAST":
            return _ATOM, f"CAST({arguments[0]} AS {arguments[1][1:-1]})"
        case "EXTRACT":
            return _ATOM, f"EXTRACT({quote(arguments[0][1:-1])} FROM {arguments[1]})"
        case _:
            return _ATOM, f"{name}({', '.join(arguments)})"


def write_value(node: Value, least: int = _SUM) -> str:
    """A value, in parentheses if it binds looser than `least`."""
    binds = _ATOM
    match node:
        case tree.Literal(None):
            text = "NULL"
        case tree.Literal(bool(value)):
            text = "TRUE" if value else "FALSE"
        case tree.Literal(str(string)):
            text = "'" + string.replace("'", "''") + "'"
        case tree.Literal(bytes(value)):
            text = f"X'{value.hex().upper()}'"
        case tree.Literal(number):
            text = repr(number)
            binds = _SIGN if text.startswith("-") else _ATOM
        case tree.Duration(microseconds):
            binds, text = (_SIGN if microseconds < 0 else _ATOM), duration(microseconds)
        case tree.Parameter(name):
            text = f":{name}"
        case Attribute(str(variable), name) if node.sure:
            text = f"{_OF_EVENT[name]}({quote(variable)})"
        case Attribute(variable, name):
            text = _quote_keyword(name) if variable is None else f"{quote(variable)}.{_quote_attribute(name)}"
        case tree.Aggregate(function, argument, share=share):
            inside = "*" if argument is None else write_value(argument)
            word = f"COUNT(DISTINCT {inside}" if function == COUNT_DISTINCT else f"{function}({inside}"
            text = f"{word})" if share is None else f"{word}, {write_value(share)})"
        case tree.OfList(function, argument):
            of_events = OF_LISTS[function].of_events
            text = f"{function}({_quote_keyword(argument.variable or '') if of_events else write_value(argument)})"
        case tree.Prev(argument):
            text = f"{PREVIOUS}({write_value(argument)})"
        case tree.AtLevel(argument, level):
            text = f"{write_value(argument)} AT {level}"
        case tree.FirstOf(values):
            text = f"FIRST({', '.join(map(write_value, values))})"
        case tree.Call():
            binds, text = _call(node)
        case tree.Condition(predicate):
            binds, text = _CONDITION, write_predicate(predicate)
        case tree.Minus(operand):
            binds, text = _SIGN, f"-{write_value(operand, _ATOM)}"
        case tree.Arithmetic(op, left, right):
            binds = _SUM if op in "+-" else _PRODUCT
            text = f"{write_value(left, binds)} {op} {write_value(right, binds + 1)}"
        case _:
            assert_never(node)
    return f"({text})" if binds < least else text
