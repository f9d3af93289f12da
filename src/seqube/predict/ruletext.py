"""The small texts of a rule file: events with conditions, arrows, durations, and YAML with places.

`Sensor WHERE flow > 40` is an event type with a condition on its own attributes, in the words of the query language. A type name
may hold spaces; one that holds a comma, an arrow or the word WHERE, or begins like a negation (`!`, NOT), stands in double quotes
or backticks. There is no negation in rules: what was found of an episode is never taken back.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import Any

from seqube.errors import Problem, QueryError, Span
from seqube.events.documents import BAD_VALUE, weigh
from seqube.language.binder import bind
from seqube.language.parameters import Params, fill
from seqube.language.parser import draft
from seqube.language.tokens import UNIT_US
from seqube.language.tree import Attribute, Node, Query, Window, transform
from seqube.language.writer import duration, write_conjunction

_QUOTED = r"\"(?:[^\"]|\"\")*\"|`(?:[^`]|``)*`|'(?:[^']|'')*'"
_LAYER_TOKENS = re.compile(rf"{_QUOTED}|->|[(),]|[^\"`'(),-]+|.", re.DOTALL)
_WHERE = re.compile(rf"({_QUOTED})|\bWHERE\b", re.IGNORECASE)
_NEGATED = re.compile(r"!|NOT\b", re.IGNORECASE)
_LENGTH_PART = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-zµμ]+)\s*", re.IGNORECASE)
_NUMBER = re.compile(r"[+-]?[0-9]+")

_LONGEST = 2**62  # so that a time plus a length stays in 64 bits


@dataclass(frozen=True, slots=True)
class Vertex:
    """An event of a rule: a type (or a name of the hierarchy above types), and a condition on its attributes or None."""

    alias: str
    type: str
    where: str | None = None

    @property
    def text(self) -> str:
        """The event as written, with quotes only where they are needed."""
        return _quote(self.type) + (f" WHERE {self.where}" if self.where else "")

    @property
    def condition(self) -> Query | None:
        """Its condition as a query over one event."""
        return None if self.where is None else read_condition(self.type, self.where)

    def filled(self, params: Params) -> Vertex:
        """The same with these values for the parameters of its condition."""
        if self.condition is None:
            return self

        def bare(node: Node) -> Node:
            return replace(node, variable=None) if isinstance(node, Attribute) else node

        return replace(self, where=write_conjunction(tuple(transform(part, bare) for part in fill(self.condition, params).where)))

    def expanded(self, defined: Mapping[str, Vertex]) -> Vertex:
        """The same with a defined type written out as the event it stands for."""
        if self.type not in defined:
            return self
        base = defined[self.type]
        conditions = [where for where in (base.where, self.where) if where is not None]
        joined = (
            " AND ".join(f"({where})" for where in conditions) if len(conditions) > 1 else conditions[0] if conditions else None
        )
        return replace(self, type=base.type, where=joined)

    @classmethod
    def read(cls, text: Any, alias: str = "") -> Vertex:
        """From `Type` or `Type WHERE condition`; ValueError says what is wrong with it."""
        if not isinstance(text, str):
            text = str(text) if isinstance(text, int) and not isinstance(text, bool) else None
        if not text or not text.strip():
            raise ValueError("an event has a type name, such as 'Login' or 'Sensor WHERE flow > 40'")
        where = None
        name = text
        for found in _WHERE.finditer(text):
            if found[1] is None:
                name, where = text[: found.start()], " ".join(text[found.end() :].split())
                if not where:
                    raise ValueError(f"{text.strip()!r} has WHERE without a condition")
                break
        name = name.strip()
        if _NEGATED.match(name):
            raise ValueError(
                f"{text.strip()!r} negates an event, which rules cannot: an occurrence of an episode is never taken back by what "
                "comes later; a type of that name stands in double quotes"
            )
        if len(name) > 1 and name[0] == name[-1] and name[0] in '"`':
            name = name[1:-1].replace(name[0] * 2, name[0])
        if not name:
            raise ValueError(f"{text.strip()!r} has a condition but no event type")
        if where is not None:
            try:
                read_condition(name, where)
            except QueryError as error:
                raise ValueError(f"in {text.strip()!r}: {error.problems[0].message}") from error
        return cls(alias, name, where)


def _quote(name: str) -> str:
    plain = not re.search(r"[,()'\"`]|->|\bwhere\b", name, re.IGNORECASE) and not _NEGATED.match(name) and name == name.strip()
    if plain:
        return name
    return '"' + name.replace('"', '""') + '"'


VARIABLE = "event"


@lru_cache(maxsize=4096)
def read_condition(type: str, where: str) -> Query:
    """A condition as a query over that one event, bound to `VARIABLE`; bare names and `Type.name` are its attributes."""
    quoted = '"' + type.replace('"', '""') + '"'
    written = draft(f"PATTERN {quoted} {VARIABLE}\nWHERE {where}\nWITHIN 1")

    def own(node: Node) -> Node:
        if isinstance(node, Attribute) and node.variable in (None, type):
            return replace(node, variable=VARIABLE)
        return node

    assert written.where is not None
    return bind(replace(written, where=transform(written.where, own)), where)


# ---------------------------------------------------------------- arrows


def split_layers(text: str) -> list[list[str]]:
    """`"A, B -> C"` as `[["A", "B"], ["C"]]`; quotes and parentheses hide what they hold."""
    layers: list[list[str]] = [[""]]
    depth = 0
    for token in _LAYER_TOKENS.findall(text):
        depth += (token == "(") - (token == ")")
        if token == "->" and depth == 0:
            layers.append([""])
        elif token == "," and depth == 0:
            layers[-1].append("")
        else:
            layers[-1][-1] += token
    if any(not event.strip() for layer in layers for event in layer):
        raise ValueError(f"{text!r} lacks an event beside an arrow or a comma")
    return [[event.strip() for event in layer] for layer in layers]


def join_layers(vertices: Sequence[Vertex], edges: Iterable[tuple[str, str]]) -> str | None:
    """The shorthand that reads back as exactly these vertices and edges, or None where there is none."""
    if any(vertex.alias != vertex.text for vertex in vertices):
        return None
    wanted = set(edges)
    layers: list[list[str]] = []
    for vertex in vertices:
        # A layer ends where a vertex follows one of it.
        if not layers or any((u, vertex.alias) in wanted for u in layers[-1]):
            layers.append([])
        layers[-1].append(vertex.alias)
    if {(u, v) for a, b in pairwise(layers) for u in a for v in b} != wanted:
        return None
    return " -> ".join(", ".join(layer) for layer in layers)


# ---------------------------------------------------------------- durations


def read_length(value: Any) -> Window:
    """`"10 min"`, `"1h30m"` (microseconds), or a bare number (ticks of the time column); ValueError says what is wrong."""
    if isinstance(value, Window):
        if value.counts_events:
            raise ValueError("rules have windows of time, not of events")
        return value
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise ValueError(f"{value!r} is not a length of time")
    if isinstance(value, float):
        if not value.is_integer():
            raise ValueError(f"{value!r} is not a whole number")
        value = int(value)
    if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
        value = int(value)
    if isinstance(value, int):
        return _checked(Window(value, "ticks"), value)
    text, position, total = value, 0, Fraction(0)
    while position < len(text):
        part = _LENGTH_PART.match(text, position)
        if part is None or part[2].lower() not in UNIT_US:
            raise ValueError(f"{value!r} is not a length of time")
        total += Fraction(part[1]) * UNIT_US[part[2].lower()]
        position = part.end()
    if not text.strip() or total.denominator != 1:
        raise ValueError(f"{value!r} is not a length of time in whole microseconds")
    return _checked(Window(int(total), "us"), value)


def _checked(window: Window, value: object) -> Window:
    if abs(window.length) > _LONGEST:
        raise ValueError(f"{value!r} is longer than time itself here")
    return window


def write_length(window: Window) -> int | str:
    """The length as `read_length` reads it, in the largest unit that holds it whole."""
    return window.length if window.unit == "ticks" else duration(window.length)


# ---------------------------------------------------------------- YAML with places

_DEEPEST = 32


def read_located_yaml(text: str) -> tuple[Any, dict[tuple[Any, ...], Span], list[Problem]]:
    """The document, where each of its values stands (by path of keys), and the problems met: bad YAML, a key given twice."""
    import yaml

    loader: Any = None
    places: dict[tuple[Any, ...], Span] = {}
    problems: list[Problem] = []

    def span(node: Any) -> Span:
        same_line = node.end_mark.line == node.start_mark.line
        length = node.end_mark.column - node.start_mark.column if same_line else 1
        return Span(node.start_mark.line + 1, node.start_mark.column + 1, max(1, length))

    def build(node: Any, path: tuple[Any, ...]) -> Any:
        places[path] = span(node)
        if len(path) > _DEEPEST:
            raise yaml.constructor.ConstructorError(None, None, "the file is nested too deeply", node.start_mark)
        if isinstance(node, yaml.SequenceNode):
            return [build(child, (*path, number)) for number, child in enumerate(node.value)]
        if not isinstance(node, yaml.MappingNode):
            return loader.construct_object(node, deep=True)
        result: dict[Any, Any] = {}
        for key_node, value_node in node.value:
            key = loader.construct_object(key_node, deep=True) if isinstance(key_node, yaml.ScalarNode) else str(key_node.value)
            if key in result:
                problems.append(Problem(f"key {key!r} is given twice", span(key_node), "keep one of the two"))
            result[key] = build(value_node, (*path, key))
        return result

    try:
        if unfit := weigh(text):
            what, _, hint = unfit.partition("\n  hint: ")
            return None, places, [Problem(f"the rule file {what}", None, hint)]
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(text)
        root = loader.get_single_node()
        document = build(root, ()) if root is not None else None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = Span(mark.line + 1, mark.column + 1) if mark is not None else None
        what = getattr(error, "problem", None) or str(error)
        return None, places, [Problem(f"the rule file is not YAML: {what}", place, "check indentation, colons and quotes")]
    except BAD_VALUE as error:
        return None, places, [Problem(f"the rule file holds a value that cannot be read: {error}", None, "write it in quotes")]
    finally:
        if loader is not None:
            loader.dispose()
    return document, places, problems
