"""Text to a draft of a query: names as they were written, nothing resolved yet.

The grammar (`grammar.lark`) is parsed by LALR with an embedded builder: each reduction makes a tree node at once, so nothing
recurses while parsing, whatever the text nests, and cost is linear in the text. The parser is made at the first parse and kept,
and its tables in the cache folder, for other processes.

Invariant: a draft is at most `MAX_DEPTH` levels deep and its integers fit 64 bits, so everything after this module may recurse
over it. `draft` is the only door: the text's length and characters are checked before, depth and numbers (without recursion)
after.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.resources import files
from typing import TYPE_CHECKING, Any, cast

from seqube.caches import caches
from seqube.errors import Problem, QueryError, Span
from seqube.language import tree
from seqube.language.functions import (
    AGGREGATES,
    CASTS,
    COUNT_DISTINCT,
    FUNCTIONS,
    OF_EVENTS,
    OF_LISTS,
    PLAIN_CALLS,
    PREVIOUS,
    aggregate_function,
    value_function,
)
from seqube.language.tokens import MAX_INT64, MAX_UINT64, place, refuse_halves, whole_of
from seqube.language.tokens import at_token as _at
from seqube.language.tokens import column_of as _column
from seqube.language.tokens import cover as _cover
from seqube.language.tokens import duration_of as _microseconds
from seqube.language.tokens import fail as _fail
from seqube.language.tokens import name_of as _name
from seqube.language.tokens import read_number as _number
from seqube.language.tree import Attribute, Emit, Output, Part, Pattern, Predicate, Value, Window

if TYPE_CHECKING:
    from lark import Lark, Token

MAX_LENGTH = 1_000_000
MAX_DEPTH = 100
MAX_TIMES = 1_000_000  # of a repeated part, where a number is given


@dataclass(frozen=True, slots=True)
class Returned:
    """What RETURN asks for: columns, or (none) all of them; each row, or each that is unlike those before."""

    outputs: tuple[Output, ...] = ()
    is_distinct: bool = False

    @property
    def is_all(self) -> bool:
        return not self.outputs


@dataclass(frozen=True, slots=True)
class Draft:
    """A query as written. `places` says where each clause starts; `problems` are mistakes that need no names to be seen."""

    pattern: Pattern
    window: Window | None = None
    where: Predicate | None = None
    partition_by: tuple[Attribute, ...] = ()
    order_by: tuple[Attribute, ...] = ()
    definitions: tuple[tree.Definition, ...] = ()
    skip: tree.Skip | None = None
    keep: bool = False
    group_by: tuple[Value, ...] = ()
    aggregates: tuple[Output, ...] = ()
    having: Predicate | None = None
    emit: Emit | None = None
    returns: Returned | None = None
    limit: int | None = None
    places: dict[str, Span] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()


def draft(text: str) -> Draft:
    """Parse `text`; raise a `QueryError` for the first mistake."""
    from lark.exceptions import UnexpectedInput

    from seqube.language.syntax import explain

    try:
        _check_text(text)
        try:
            result = cast(Draft, _parser().parse(text))
        except UnexpectedInput as error:
            raise QueryError(explain(error, text, _parser())) from None
        check_limits(_roots(result), tree.children)
    except QueryError as error:
        raise QueryError(error.problems, text) from None
    return result


@functools.cache
def _parser() -> Lark:
    from lark import Lark
    from lark import __version__ as version

    grammar = files("seqube.language").joinpath("grammar.lark").read_text(encoding="utf-8")
    grammar = grammar.replace("(?:FUNCTIONS)", f"(?:{'|'.join(FUNCTIONS)})")
    grammar = grammar.replace("(?:OF_EVENTS)", f"(?:{'|'.join(OF_EVENTS)})")
    grammar = grammar.replace("(?:VALUE_FUNCTIONS)", f"(?:{'|'.join(PLAIN_CALLS)})")
    # Its tables take longer to make than most queries to run. Lark makes them again where it cannot read what was kept.
    kept = caches() / f"grammar-{hashlib.sha256((grammar + version).encode()).hexdigest()[:12]}"
    with suppress(OSError):
        kept.parent.mkdir(parents=True, exist_ok=True)
    return Lark(grammar, parser="lalr", lexer="contextual", transformer=Builder(), cache=str(kept))


def in_order(problems: Iterable[Problem]) -> list[Problem]:
    """The problems in the order of their places, the first of each place: what else is said of a wrong name follows from it."""
    first: dict[Span | Problem, Problem] = {}
    for problem in problems:
        first.setdefault(problem.at or problem, problem)
    return sorted(first.values(), key=lambda problem: (problem.at.line, problem.at.column) if problem.at else (0, 0))


# ---------------------------------------------------------------- limits


def _check_text(text: str) -> None:
    if len(text) > MAX_LENGTH:
        _fail(
            f"the query has {len(text):,} characters; the limit is {MAX_LENGTH:,}",
            None,
            "put long lists of values into a column of the events",
        )
    if "\0" in text:
        at = place(text, text.index("\0"))
        _fail("the query contains a NUL character", at, "remove it; was a binary file read as text?")
    refuse_halves(text, "query")


def _roots(query: Draft) -> Iterable[Any]:
    """Everything of a draft that has something below it."""
    values = [output.value for output in (*query.aggregates, *(query.returns.outputs if query.returns else ()))]
    conditions = [condition for definition in query.definitions for condition in definition.where]
    return (query.pattern, query.where, query.having, *query.group_by, *values, *conditions)


def check_limits(roots: Iterable[Any], below: Callable[[Any], Iterable[Any]]) -> None:
    """Refuse what is nested too deeply; with a stack of its own, since before this check nobody may recurse."""
    stack = [(root, 1) for root in roots if root is not None]
    while stack:
        node, depth = stack.pop()
        if depth > MAX_DEPTH:
            _fail(
                f"the query is nested more than {MAX_DEPTH} levels deep",
                getattr(node, "at", None),
                "flatten it: AND, OR and SEQ take any number of parts, and a long sum counts a level for each term",
            )
        if isinstance(node, tree.Literal):
            if type(node.value) is int and not -MAX_INT64 - 1 <= node.value <= MAX_UINT64:
                _fail("this number does not fit into 64 bits", node.at, "write it with a decimal point to make it a float")
        else:
            stack.extend((child, depth + 1) for child in below(node))


# ---------------------------------------------------------------- values and predicates


def _value(node: Any) -> Value:
    if not isinstance(node, Value):
        _fail("a condition stands where a value is needed", node.at, "compare values, and join comparisons with AND or OR")
    return node


def as_predicate(node: Any) -> Predicate:
    return tree.IsTrue(node, node.at) if isinstance(node, Value) else node


def as_item(node: Any) -> Value:
    """A value, or a condition that stands for one: in RETURN, in comparisons, and among the arguments of functions."""
    if isinstance(node, Value):
        return node
    return node.operand if isinstance(node, tree.IsTrue) else tree.Condition(node, node.at)


def _inverse(predicate: Predicate, token: Token | None) -> Predicate:
    return predicate if token is None else tree.Inverse(predicate, predicate.at)


def _negate(node: Value, at: Span | None) -> Value:
    at = _cover(at, node.at)
    match node:
        case tree.Literal(value) if isinstance(value, (int, float)) and not isinstance(value, bool):
            return tree.Literal(-value, at)
        case tree.Duration(microseconds):
            return tree.Duration(-microseconds, at)
        case _:
            return tree.Minus(node, at)


_OPERATORS: dict[str, type[tree.Composite]] = {
    "SEQ": tree.Seq,
    "NEXT": tree.Next,
    "STRICT": tree.Strict,
    "AND": tree.And,
    "OR": tree.Or,
}
_BOUNDS: dict[str, tuple[int, int | None]] = {"+": (1, None), "*": (0, None), "?": (0, 1)}


def _quantifier(token: Token) -> tree.Quantifier:
    """`+`, `{2,5}`, and a question mark behind it: reluctant."""
    text = "".join(token.split())
    reluctant = len(text) > 1 and text.endswith("?")
    text = text[:-1] if reluctant else text
    if text in _BOUNDS:
        return tree.Quantifier(*_BOUNDS[text], reluctant, _at(token))
    low, comma, high = text[1:-1].partition(",")
    least = whole_of(low)
    most = (whole_of(high) if high else None) if comma else least
    if least > MAX_TIMES or (most or 0) > MAX_TIMES:
        _fail(
            f"a part is repeated at most {MAX_TIMES:,} times, or any number of times",
            _at(token),
            f"write {{{min(least, MAX_TIMES)},}}",
        )
    if most == 0:
        _fail("a part that takes no event at all", _at(token), "leave it out; an event that must not be there is negated: !B")
    if most is not None and most < least:
        _fail(f"at least {least} and at most {most} events", _at(token), f"write the smaller number first: {{{most},{least}}}")
    return tree.Quantifier(least, most, reluctant, _at(token))


class Builder:
    """What each rule of the grammar becomes. Lark calls the method that has the rule's name with the rule's children."""

    casts = CASTS  # what CAST can make

    # ---- values

    def literal(self, children: list[Token]) -> Value:
        (token,) = children
        at = _at(token)
        match token.type:
            case "NUMBER":
                return tree.Literal(_number(token), at)
            case "STRING":
                return tree.Literal(token[1:-1].replace("''", "'"), at)
            case "DURATION":
                return tree.Duration(_microseconds(token), at)
            case word:
                return tree.Literal({"TRUE": True, "FALSE": False, "NULL": None}[word], at)

    def parameter(self, children: list[Token]) -> tree.Parameter:
        return tree.Parameter(str(children[0])[1:], _at(children[0]))

    def attribute(self, children: list[Token]) -> Attribute:
        variable, name = children
        return Attribute(_name(variable), _column(name), _cover(_at(variable), _at(name)))

    def of_event(self, children: list[Token]) -> Attribute:
        function, variable = children
        at = _cover(_at(function), _at(variable))
        return Attribute(_name(variable), OF_EVENTS[function.upper()], at, sure=True)

    def bare(self, children: list[Token]) -> Attribute:
        return Attribute(None, _column(children[0]), _at(children[0]))

    def call(self, children: list[Any]) -> tree.Aggregate | tree.Prev:
        """A function of matches or of a list: which of the two, its place decides, and the binder sees."""
        token, argument, *shares = children
        function, share = token.upper(), shares[0] if shares else None
        at = _cover(_at(token), getattr(argument, "at", None))
        bare = isinstance(argument, Attribute) and argument.variable is None
        if function == PREVIOUS or (function in OF_LISTS and not OF_LISTS[function].of_events):
            takes_events = True
        elif bare and function in OF_LISTS:  # COUNT(f)
            return tree.Aggregate(function, argument, at)
        else:
            takes_events = bool(aggregate_function(function, _at(token)).takes)
        if not takes_events:
            if argument != "*":
                _fail(f"{function} takes *: it counts matches", at, f"write {function}(*)")
            return tree.Aggregate(function, None, at)
        if argument == "*" or bare or (function == PREVIOUS and not isinstance(argument, Attribute)):
            _fail(f"{function} takes one attribute of one variable", at, f"write {function}(v.x), with a variable of the pattern")
        takes_share = function in AGGREGATES and AGGREGATES[function].takes_share
        if takes_share != (share is not None):
            wanted = AGGREGATES[function].call if takes_share else f"{function}(v.x)"
            _fail(f"{function} takes {'a value and a share' if takes_share else 'one value'}", at, f"write {wanted}")
        return tree.Prev(argument, at) if function == PREVIOUS else tree.Aggregate(function, as_item(argument), at, share)

    def call_distinct(self, children: list[Any]) -> tree.Aggregate:
        token, _, argument = children
        at = _cover(_at(token), getattr(argument, "at", None))
        if token.upper() != "COUNT":
            _fail(f"{token.upper()} takes no DISTINCT", at, "write COUNT(DISTINCT v.x)")
        return tree.Aggregate(COUNT_DISTINCT, as_item(argument), at)

    def applied(self, children: list[Any]) -> Value:
        token, *given = children
        function = value_function(token.upper(), _at(token))
        arguments = tuple(map(as_item, filter(None, given)))
        at = _cover(_at(token), arguments[-1].at) if arguments else _at(token)
        least, most = len(function.takes) - function.n_optional, len(function.takes)
        if len(arguments) < least or (len(arguments) > most and not function.repeats):
            _fail(f"{function.name} does not take {len(arguments)} arguments", at, f"write {function.call}")
        if function.name == "MOD":
            return tree.Arithmetic("%", arguments[0], arguments[1], at)
        return tree.Call(function.name, arguments, at)

    def extract(self, children: list[Any]) -> Value:
        token, part, time = children
        return tree.Call("EXTRACT", (tree.Literal(_name(part).upper(), _at(part)), as_item(time)), _cover(_at(token), time.at))

    def cast(self, children: list[Any]) -> Value:
        token, operand, name, *digits = children
        word = _name(name).upper()
        if word not in self.casts:
            types = dict.fromkeys(known for known, _ in self.casts.values())
            _fail(f"there is no type {_name(name)!r} to make of a value", _at(name), f"there are {', '.join(types)}")
        made, _ = self.casts[word]
        sizes = [int(size) if size.isdecimal() and len(size) < 10 else -1 for size in digits if size is not None]
        if sizes and (made != "DECIMAL" or not 0 < sizes[0] <= 38 or not 0 <= sizes[-1] <= sizes[0]):
            _fail(
                f"{made} does not take these digits", _at(name), "write DECIMAL(10, 2): up to 38 digits, of which 2 after the point"
            )
        if made == "DECIMAL":
            made = f"DECIMAL({sizes[0] if sizes else 38}, {sizes[1] if len(sizes) == 2 else 0 if sizes else 18})"
        return tree.Call("CAST", (as_item(operand), tree.Literal(made, _at(name))), _cover(_at(token), _at(name)))

    def case(self, children: list[Any]) -> Value:
        token, operand, *branches, end = children
        *pairs, otherwise = branches
        arguments = []
        for when, then in zip(pairs[::2], pairs[1::2], strict=True):
            if operand is not None:
                when = tree.Comparison("=", _value(operand), _value(when), when.at)
            arguments += [as_item(as_predicate(when)), as_item(then)]
        last = tree.Literal(None) if otherwise is None else as_item(otherwise)
        return tree.Call("CASE", (*arguments, last), _cover(_at(token), _at(end)))

    def minus(self, children: list[Any]) -> Value:
        sign, operand = children
        return _negate(_value(operand), _at(sign))

    def arithmetic(self, children: list[Any]) -> Value:
        result = _value(children[0])
        if len(children) > 2 * MAX_DEPTH:
            _fail(f"more than {MAX_DEPTH} terms in one calculation", result.at, "compute it as a column of the events beforehand")
        for op, operand in zip(children[1::2], children[2::2], strict=True):
            right = _value(operand)
            at = _cover(result.at, right.at)
            if op == "||":
                result = tree.Call("CONCAT", (result, right), at)
            else:
                result = tree.Arithmetic(cast(tree.ArithmeticOp, str(op)), result, right, at)
        return result

    # ---- predicates

    def compare(self, children: list[Any]) -> Predicate:
        operands = [as_item(operand) for operand in children[0::2]]
        ops = [{"==": "=", "<>": "!="}.get(op, str(op)) for op in children[1::2]]
        at = _cover(operands[0].at, operands[-1].at)
        if len(ops) == 1:
            return tree.Comparison(cast(tree.ComparisonOp, ops[0]), operands[0], operands[1], at)
        if set(ops) != {"="}:
            _fail("only = can be chained", at, "join the comparisons with AND: a < b AND b < c")
        return tree.Chain(tuple(operands), at)

    def among(self, children: list[Any]) -> Predicate:
        operand, negated, *values = children
        for value in values:
            if not isinstance(value, tree.Literal | tree.Parameter):
                _fail("IN takes plain values: numbers, strings, TRUE, FALSE, NULL", value.at, "join comparisons with OR instead")
        operand = _value(operand)
        return tree.Among(operand, tuple(values), negated is not None, operand.at)

    def between(self, children: list[Any]) -> Predicate:
        operand, negated, low, high = children
        return tree.Between(_value(operand), _value(low), _value(high), negated is not None, _cover(operand.at, high.at))

    def is_null(self, children: list[Any]) -> Predicate:
        operand, negated, null = children
        return tree.IsNull(as_item(operand), negated is not None, _cover(operand.at, _at(null)))

    def is_distinct(self, children: list[Any]) -> Predicate:
        left, negated, right = as_item(children[0]), children[1], as_item(children[3])
        at = _cover(left.at, right.at)
        return _inverse(tree.IsTrue(tree.Call("IS DISTINCT FROM", (left, right), at), at), negated)

    def like(self, children: list[Any]) -> Predicate:
        text, negated, word, pattern = children
        at = _cover(text.at, pattern.at)
        return _inverse(tree.IsTrue(tree.Call(word.upper(), (_value(text), _value(pattern)), at), at), negated)

    def same(self, children: list[Attribute]) -> Predicate:
        parts = tuple(tree.Same(key.name, key.at) for key in children)
        return parts[0] if len(parts) == 1 else tree.AllOf(parts, _cover(parts[0].at, parts[-1].at))

    def inverse(self, children: list[Any]) -> Predicate:
        token, part = children
        return tree.Inverse(as_predicate(part), _cover(_at(token), part.at))

    def all_of(self, children: list[Any]) -> Predicate:
        return tree.AllOf(tuple(map(as_predicate, children)), _cover(children[0].at, children[-1].at))

    def any_of(self, children: list[Any]) -> Predicate:
        return tree.AnyOf(tuple(map(as_predicate, children)), _cover(children[0].at, children[-1].at))

    # ---- patterns

    def type(self, children: list[Token | None]) -> tree.Type:
        name, quantifier, variable = children
        assert name is not None
        found = None if quantifier is None else _quantifier(quantifier)
        return tree.Type(_name(name), None if variable is None else _name(variable), found, _at(name))

    def negation(self, children: list[Any]) -> tree.Not:
        token, part = children
        if isinstance(part, tree.Not):
            _fail("a negation of a negation", _at(token), "one ! is enough; !SEQ(B, !C) negates a sequence that has a negation")
        return tree.Not(part, _at(token))

    def conditioned(self, children: list[Any]) -> tree.Seq:
        """`(E e, e.x > 3)`, as the papers write a part with a condition of its own: a SEQ of one."""
        part, *where = children
        return tree.Seq((part,), tuple(map(as_predicate, where)), part.at)

    def operator(self, children: list[Any]) -> tree.Pattern:
        token, *items, quantifier = children
        if quantifier is not None:
            _fail(
                f"{token.upper()} carries the quantifier {quantifier}",
                _at(quantifier),
                "types are repeated, not operators: SEQ(A a, B+ b)",
            )
        n_parts = sum(isinstance(item, Part) for item in items)
        for item in items[n_parts:]:
            if isinstance(item, Part):
                _fail("a component stands after a predicate", item.at, "inside an operator, components come first, then predicates")
        if n_parts == 0:
            _fail(f"{token.upper()} has no component", _at(token), f"write event types first: {token.upper()}(A a, B b, a.x = b.x)")
        parts, where = tuple(items[:n_parts]), tuple(map(as_predicate, items[n_parts:]))
        return _OPERATORS[token.upper()](parts, where, _at(token))

    # ---- clauses: (field of Draft, place, content)

    def where(self, children: list[Any]) -> tuple[str, Span, object]:
        return "where", _at(children[0]), as_predicate(children[1])

    def having(self, children: list[Any]) -> tuple[str, Span, object]:
        return "having", _at(children[0]), as_predicate(children[1])

    def partition_by(self, children: list[Any]) -> tuple[str, Span, object]:
        return "partition_by", _at(children[0]), tuple(children[1:])

    def definition(self, children: list[Any]) -> tree.Definition:
        name, base, _, condition = children
        return tree.Definition(_name(name), _name(base), (as_predicate(condition),), _at(name))

    def definitions(self, children: list[Any]) -> tuple[str, Span, object]:
        return "definitions", _at(children[0]), tuple(children[1:])

    def order_by(self, children: list[Any]) -> tuple[str, Span, object]:
        return "order_by", _at(children[0]), tuple(children[1:])

    def skip(self, children: list[Any]) -> tuple[str, Span, object]:
        match [token.type for token in children[1:]]:
            case ["PAST", "LAST"]:
                found = tree.Skip("PAST LAST", at=_at(children[0]))
            case ["NEXT"]:
                found = tree.Skip("TO NEXT", at=_at(children[0]))
            case _:
                to: Any = f"TO {children[1].type}"
                found = tree.Skip(to, _name(children[2]), _at(children[2]))
        return "skip", _at(children[0]), found

    def keep(self, children: list[Any]) -> tuple[str, Span, object]:
        return "keep", _at(children[0]), True

    def group_by(self, children: list[Any]) -> tuple[str, Span, object]:
        return "group_by", _at(children[0]), tuple(map(as_item, children[1:]))

    def at_level(self, children: list[Any]) -> Value:
        """The leaves' level is that of the types themselves."""
        value, level = children
        if not isinstance(value, Attribute) or value.variable is None or value.name != tree.TYPE_ATTRIBUTE:
            _fail("AT takes the type of an event: nothing else has levels", value.at, "write a.type AT 1, with its variable")
        if level.type == "LEAF":
            return value
        if not level.isdecimal() or (number := _number(level)) < 1:
            _fail("levels are whole numbers, from 1 at the top of the hierarchy", _at(level), "write AT 1, or AT LEAF")
        return tree.AtLevel(value, min(int(number), MAX_INT64), _cover(value.at, _at(level)))

    def aggregates(self, children: list[Any]) -> tuple[str, Span, object]:
        return "aggregates", _at(children[0]), tuple(children[1:])

    def returns(self, children: list[Any]) -> tuple[str, Span, object]:
        token, distinct, *outputs = children
        return "returns", _at(token), Returned(() if outputs == ["*"] else tuple(outputs), distinct is not None)

    def limit(self, children: list[Any]) -> tuple[str, Span, object]:
        token, number = children
        if not number.isdecimal():
            _fail("LIMIT takes a whole number of rows", _at(number), "write LIMIT 10")
        return "limit", _at(token), min(_number(number), MAX_INT64)

    def output(self, children: list[Any]) -> Output:
        value, name = children
        return Output(as_item(value), None if name is None else _name(name), value.at)

    def window(self, children: list[Any]) -> tuple[str, Span, object]:
        return "window", _at(children[0]), children[1]

    def emit(self, children: list[Any]) -> tuple[str, Span, object]:
        at = _at(children[0])
        when: dict[str, Emit] = {"TRIGGER": Emit("trigger", at=at), "TOTAL": Emit("total", at=at)}
        if len(children) == 2:
            return "emit", at, when[children[1].type]
        return "emit", at, Emit("every" if children[1].type == "EVERY" else "per", children[2], at)

    def length(self, children: list[Any]) -> Window:
        sign, token = children
        at = _at(token)
        if sign is not None:
            _fail("a length of time cannot be negative", at)
        if token.type == "DURATION":
            return Window(_microseconds(token), "us", at)
        digits = re.match(r"\d+", token) if token.type == "EVENTS" or token.isdecimal() else None
        if digits is None:
            _fail("a window without a unit must be a whole number", at, "give it a unit: 1.5 s, 10 min, 2 days")
        if (number := whole_of(digits.group())) > MAX_INT64:
            _fail("this number does not fit into 64 bits", at)
        return Window(number, "events" if token.type == "EVENTS" else "ticks", at)

    def start(self, children: list[Any]) -> Draft:
        pattern, *clauses = children
        if isinstance(pattern, tree.Not):
            _fail("the whole pattern cannot be negated", pattern.at, "negate a component: SEQ(A, !B)")
        contents: dict[str, Any] = {}
        places: dict[str, Span] = {}
        problems = []
        for name, at, content in clauses:
            if name in contents:
                word = CLAUSES[name]
                problems.append(Problem(f"{word} is given twice (first in line {places[name].line})", at, f"keep one {word}"))
            else:
                contents[name], places[name] = content, at
        return Draft(pattern, **contents, places=places, problems=tuple(problems))


CLAUSES = {
    "where": "WHERE",
    "partition_by": "PARTITION BY",
    "order_by": "ORDER BY",
    "definitions": "DEFINE",
    "skip": "SKIP",
    "keep": "KEEP PARTIAL",
    "group_by": "GROUP BY",
    "aggregates": "AGG",
    "having": "HAVING",
    "window": "WITHIN",
    "emit": "EMIT",
    "returns": "RETURN",
    "limit": "LIMIT",
}
