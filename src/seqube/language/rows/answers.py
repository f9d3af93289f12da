"""Sub-queries in a clause: what the engine around it answered takes their place, before anything is bound.

They see the tables of the statement and nothing of the match, so each has one answer. Cost: linear in the draft and the answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

from seqube.errors import Problem, Span
from seqube.language import tree
from seqube.language.rows.parser import AMONG_QUERIED, EXISTS_QUERIED, QUERIED, ClauseDraft
from seqube.language.tokens import MAX_INT64, MAX_UINT64
from seqube.language.tree import Call, Literal, Predicate, Value


def with_answers(draft: ClauseDraft, queried: Sequence[Sequence[Any]] | None, problems: list[Problem]) -> ClauseDraft:
    """The draft with values in the place of sub-queries; None: nobody has asked yet, so they may be anything."""

    def change(node: Any) -> Any:
        match node:
            case Call(name, (Literal(int() as number),), at) if name == QUERIED:
                rows = queried[number] if queried is not None else ()
                if len(rows) > 1:
                    problems.append(Problem("this sub-query gives more than one row", at, "add LIMIT 1, or write IN (SELECT ...)"))
                return _value(rows[0], at, problems) if rows else Literal(None, at)
            case Call(name, (operand, Literal(int() as number)), at) if name == AMONG_QUERIED:
                return tree.Condition(_among(operand, queried[number], at, problems)) if queried is not None else Literal(None, at)
            case Call(name, (Literal(int() as number),), at) if name == EXISTS_QUERIED:
                return Literal(bool(queried[number]) if queried is not None else None, at)
            case tree.IsTrue(tree.Condition(predicate)):
                return predicate
            case _:
                pass
        return node

    return replace(
        draft,
        measures=tuple((tree.transform(value, change), name) for value, name in draft.measures),
        definitions=tuple((name, tree.transform(condition, change)) for name, condition in draft.definitions),
    )


def _among(operand: Value, rows: Sequence[Any], at: Span | None, problems: list[Problem]) -> Predicate:
    values = [_value(row, at, problems) for row in rows]
    if not values:
        return tree.IsTrue(Literal(False, at), at)
    plain = [value for value in values if isinstance(value, Literal)]
    if len(plain) == len(values):
        return tree.Among(operand, tuple(plain), False, at)
    equals = tuple(tree.Comparison("=", operand, value, at) for value in values)
    return equals[0] if len(equals) == 1 else tree.AnyOf(equals, at)


def _value(answer: Any, at: Span | None, problems: list[Problem]) -> Value:
    value = _constant(answer, at)
    match value:
        case None:
            hint = "a number, a text, a time or a truth value can stand here"
            problems.append(Problem(f"this sub-query gives a {type(answer).__name__}", at, hint))
        case Literal(int() as number) if not -MAX_INT64 - 1 <= number <= MAX_UINT64:
            problems.append(Problem("this sub-query gives a number beyond 64 bits", at, "cast it to a DOUBLE"))
        case _:
            return value
    return Literal(None, at)


def _constant(answer: Any, at: Span | None) -> Value | None:
    """What stands in a clause for a value of Python; None where nothing can."""
    match answer:
        case bytearray():  # as Spark gives them
            return Literal(bytes(answer), at)
        case None | bool() | int() | float() | str() | bytes():
            return Literal(answer, at)
        case Decimal():
            return Literal(int(answer) if answer == answer.to_integral_value() else float(answer), at)
        case datetime() | date() | time():
            made = {datetime: "TIMESTAMP", date: "DATE", time: "TIME"}[type(answer)]
            return Call("CAST", (Literal(answer.isoformat(), at), Literal(made, at)), at)
        case timedelta():
            return tree.Duration(round(answer.total_seconds() * 1_000_000), at)
        case _:
            return None
