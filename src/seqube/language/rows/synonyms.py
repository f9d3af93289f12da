"""Functions of other dialects that a clause takes: each is said by functions that there are, so nobody else has to know them.

What is not here has a hint: most functions of one row can stand in a sub-query before the clause, as a column of its table.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from seqube.errors import Problem, Span, did_you_mean
from seqube.language import tree
from seqube.language.functions import VALUE_FUNCTIONS
from seqube.language.tokens import fail
from seqube.language.tree import Call, Literal, Value

ARRAY = "ARRAY"  # of values as written, beside ARRAY_AGG
_SAME = {
    "CHAR_LENGTH": "LENGTH",
    "CHARACTER_LENGTH": "LENGTH",
    "SUBSTR": "SUBSTRING",
    "CEILING": "CEIL",
    "POW": "POWER",
    "NVL": "COALESCE",
    "IFNULL": "COALESCE",
    "LCASE": "LOWER",
    "UCASE": "UPPER",
    "STARTSWITH": "STARTS_WITH",
    "ENDSWITH": "ENDS_WITH",
    "REGEXP_LIKE": "RLIKE",
}
_PARTS = {
    **{part: part for part in ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE")},
    "DAYOFMONTH": "DAY",
    "DAYOFYEAR": "DOY",
    "DAYOFWEEK": "DOW",
    "WEEKOFYEAR": "WEEK",
}
_BETWEEN_TIMES = "a time minus a time is a duration: (b.ts - a.ts) / INTERVAL '1' SECOND is a number"
_NOW = "ask for it once: (SELECT CURRENT_TIMESTAMP)"
HINTS = {  # by the name of what there is not
    **dict.fromkeys(("DATEDIFF", "DATE_DIFF", "TIMESTAMPDIFF", "TIMEDIFF", "AGE"), _BETWEEN_TIMES),
    **dict.fromkeys(("DATEADD", "DATE_ADD", "TIMESTAMPADD"), "add an interval: a.ts + INTERVAL '1' DAY"),
    **dict.fromkeys(("NOW", "GETDATE", "SYSDATE", "CURRENT_TIMESTAMP", "CURRENT_DATE", "LOCALTIMESTAMP"), _NOW),
    **dict.fromkeys(("LAG", "LEAD"), "write PREV(price) or NEXT(price)"),
    **dict.fromkeys(("FIRST_VALUE", "LAST_VALUE", "NTH_VALUE"), "write FIRST(a.price), LAST(a.price), or FIRST(a.price, 2)"),
    **dict.fromkeys(("ROW_NUMBER", "RANK"), "COUNT(*) counts the rows of the match up to this one"),
    **dict.fromkeys(("CARDINALITY", "ARRAY_LENGTH", "ARRAY_SIZE"), "COUNT(a.*) is how many values ARRAY_AGG(a.x) has"),
    "MATCH_ROWTIME": "the time of a match is that of its last row: LAST(ts)",
    "MATCH_SEQUENCE_NUMBER": "write COUNT(*)",
    ARRAY: "arrays stand beside ARRAY_AGG: ARRAY_AGG(a.x) = ARRAY['p', 'q']",
}


def in_known_functions(name: str, arguments: tuple[Value, ...], at: Span | None) -> Value:
    """A function of another name by those that there are; as it is where nothing is known of it."""
    if name in _SAME:
        return _called(name, _SAME[name], arguments, at)
    if name in _PARTS:
        return _called(name, "EXTRACT", (Literal(_PARTS[name], at), *arguments), at)
    if name in _MADE:
        least, most, example, make = _MADE[name]
        if not least <= len(arguments) <= most:
            fail(f"{name} does not take {len(arguments)} arguments", at, f"write {example}")
        return make(arguments, at)
    return Call(name, arguments, at)


def unknown(node: Call) -> Problem:
    """What to say of a function that there is not."""
    name = node.function
    hint = HINTS.get(name) or did_you_mean(name, (*VALUE_FUNCTIONS, *_SAME, *_MADE))
    if hint is None or not (name in HINTS or hint.startswith("did you mean")):
        hint = f"compute it before the clause: FROM (SELECT *, {name}(...) AS x FROM t) MATCH_RECOGNIZE (...)"  # noqa: S608
    return Problem(f"there is no function {name!r}", node.at, hint)


def _called(name: str, meant: str, arguments: tuple[Value, ...], at: Span | None) -> Value:
    function = VALUE_FUNCTIONS[meant]
    least = len(function.takes) - function.n_optional
    if len(arguments) < least or (len(arguments) > len(function.takes) and not function.repeats):
        fail(f"{name} does not take {len(arguments)} arguments", at, f"it is {function.call}")
    return Call(meant, arguments, at)


def _if(arguments: tuple[Value, ...], at: Span | None) -> Value:
    return Call("CASE", (*arguments, Literal(None))[:3], at)


def _if_null(arguments: tuple[Value, ...], at: Span | None) -> Value:
    value, known, null = arguments
    return Call("CASE", (tree.Condition(tree.IsNull(value, True, at), at), known, null), at)


def _left(arguments: tuple[Value, ...], at: Span | None) -> Value:
    return Call("SUBSTRING", (arguments[0], Literal(1), arguments[1]), at)


def _right(arguments: tuple[Value, ...], at: Span | None) -> Value:
    length = arguments[1].value if isinstance(arguments[1], Literal) else None
    if type(length) is not int or length <= 0:
        fail("RIGHT takes how many characters, as it stands here", arguments[1].at or at, "write RIGHT(s, 3)")
    return Call("SUBSTRING", (arguments[0], Literal(-length)), at)


def _joined(arguments: tuple[Value, ...], at: Span | None) -> Value:
    """CONCAT_WS: texts that are not null with another between them; also what ARRAY_AGG would list."""
    between, *texts = arguments
    if not (isinstance(between, Literal) and isinstance(between.value, str)):
        fail("CONCAT_WS puts a text between values, as it stands here", between.at or at, "write CONCAT_WS(', ', a.x, a.y)")
    if len(texts) == 1 and (listed := _listed(texts[0], between)) is not None:
        return Call("COALESCE", (listed, Literal("")), at)
    behind = [Call("COALESCE", (Call("CONCAT", (between, text), at), Literal("")), at) for text in texts]
    joined = behind[0] if len(behind) == 1 else Call("CONCAT", tuple(behind), at)
    return Call("SUBSTRING", (joined, Literal(len(between.value) + 1)), at)


def _array_joined(arguments: tuple[Value, ...], at: Span | None) -> Value:
    listed = _listed(arguments[0], arguments[1])
    if listed is None:
        fail("only what ARRAY_AGG lists can be joined", at, "write LISTAGG(a.x, ', ')")
    return listed


def _listed(value: Value, between: Value) -> Value | None:
    match value:
        case Call("RUNNING" | "FINAL" as mode, (inner,), at):
            listed = _listed(inner, between)
            return None if listed is None else Call(mode, (listed,), at)
        case Call("ARRAY_AGG", (Call("DISTINCT", (argument,), at),), outer):
            return Call("LISTAGG", (Call("DISTINCT", (argument, between), at),), outer)
        case Call("ARRAY_AGG", (argument,), at):
            return Call("LISTAGG", (argument, between), at)
        case _:
            return None


_Made = tuple[int, int, str, Callable[[tuple[Value, ...], Any], Value]]
_MADE: dict[str, _Made] = {
    "IF": (2, 3, "IF(a.x > 1, 'p', 'q')", _if),
    "IIF": (2, 3, "IIF(a.x > 1, 'p', 'q')", _if),
    "NVL2": (3, 3, "NVL2(a.x, 'known', 'null')", _if_null),
    "LEFT": (2, 2, "LEFT(s, 3)", _left),
    "RIGHT": (2, 2, "RIGHT(s, 3)", _right),
    "CONCAT_WS": (2, 99, "CONCAT_WS(', ', a.x, a.y)", _joined),
    "ARRAY_JOIN": (2, 2, "ARRAY_JOIN(ARRAY_AGG(a.x), ', ')", _array_joined),
    "ARRAY_TO_STRING": (2, 2, "ARRAY_TO_STRING(ARRAY_AGG(a.x), ', ')", _array_joined),
}
