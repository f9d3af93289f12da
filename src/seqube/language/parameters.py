"""Parameters: `:limit` in a query stands for a value that is given when the query is run. It is a value, never text.

Numbers, strings, booleans, None, times, dates and durations of Python become what the query could have said in their place, so that
a query with its parameters filled in is a query like any other: types are checked after that, plans are made of it, and its text
says what was asked. A list stands in IN alone.

Invariant: a query that is run has none left. Whoever checks it against columns (`types.check`) names those without a value; those
given that no query has are refused by `refuse_unknown`.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

from seqube.errors import Problem, QueryError, did_you_mean
from seqube.language.parser import draft
from seqube.language.tokens import MAX_INT64, MAX_UINT64, refuse_halves
from seqube.language.tree import Among, Duration, Literal, Node, Parameter, Query, Value, query_nodes, transform_query

Params = Mapping[str, Any]

_MICROSECOND = timedelta(microseconds=1)


def fill(query: Query, given: Params) -> Query:
    """The query with the values that are given in the places of its parameters; those without one stay."""

    def change(node: Node) -> Node:
        if isinstance(node, Parameter) and node.name in given and not isinstance(given[node.name], list | tuple):
            return _constant(node, given[node.name], query)
        if isinstance(node, Among):
            return _listed(node)
        return node

    def _listed(node: Among) -> Among:
        values: list[Any] = []
        for value in node.values:
            if isinstance(value, Parameter) and value.name in given:
                values += [_constant(value, each, query) for each in given[value.name]]
            else:
                values.append(value)
        return Among(node.operand, tuple(values), node.negated, node.at)

    filled = transform_query(query, change)
    for node in query_nodes(filled):
        if isinstance(node, Parameter) and node.name in given:
            raise QueryError(Problem(f":{node.name} is a list", node.at, "a list stands in IN: x IN (:names)"), query.source)
    return filled


def parameters_of(query: Query) -> list[str]:
    """The names of its parameters, each once."""
    return list(dict.fromkeys(node.name for node in query_nodes(query) if isinstance(node, Parameter)))


def refuse_unknown(queries: Iterable[str | Query], given: Params) -> None:
    """Refuse values for parameters that no query has."""
    names = {node.name for query in queries for node in _nodes(query) if isinstance(node, Parameter)} if given else set()
    for name in given:
        if name not in names:
            hint = did_you_mean(name, names) if names else f"write :{name} where its value shall stand"
            raise QueryError(Problem(f"the query has no parameter :{name}", None, hint))


def _nodes(query: str | Query) -> Iterable[Node]:
    from seqube.language.binder import resolve

    return query_nodes(resolve(draft(query), query)[0] if isinstance(query, str) else query)


def _constant(place: Parameter, value: Any, query: Query) -> Value:
    """What stands in a query for a value of Python."""
    if hasattr(value, "item"):  # NumPy's numbers; what holds several values has no one to give
        with contextlib.suppress(ValueError):
            value = value.item()
    match value:
        case bool() | int() | str() | None:
            if type(value) is int and not -MAX_INT64 - 1 <= value <= MAX_UINT64:
                raise _refused(place, "does not fit into 64 bits", query)
            if isinstance(value, str):
                refuse_halves(value, f"value of :{place.name}")
            return Literal(value, place.at)
        case float():
            return Literal(None if math.isnan(value) else _finite(place, value, query), place.at)
        case Decimal() if value.is_nan():
            return Literal(None, place.at)
        case Decimal():
            near = _finite(place, float(value), query)
            if Decimal(repr(near)) != value:
                raise _refused(place, "has more digits than a number of a query", query)
            is_whole = -MAX_INT64 <= value <= MAX_UINT64 and value == int(value)
            return Literal(int(value) if is_whole else near, place.at)
        case timedelta():
            if not -MAX_INT64 <= value // _MICROSECOND <= MAX_INT64:
                raise _refused(place, "is longer than 2^63 - 1 microseconds, about 292,000 years", query)
            return Duration(value // _MICROSECOND, place.at)
        case datetime() | date():
            return Literal(value.isoformat(), place.at)
        case _:
            raise _refused(place, f"is a {type(value).__name__}, which no query can hold", query)


def _finite(place: Parameter, value: float, query: Query) -> float:
    if math.isinf(value):
        raise _refused(place, "is not finite", query)
    return value


def _refused(place: Parameter, why: str, query: Query) -> QueryError:
    hint = "give a number, a string, a boolean, None, a time, a date or a duration"
    return QueryError(Problem(f"the value of :{place.name} {why}", place.at, hint), query.source)


def read_parameter(text: str) -> Any:
    """The value that a command line or a file means: `500`, `2.5`, `TRUE`, `NULL`, `10 min`, `'500'`; all else is a string."""
    try:
        returned = draft(f"A WITHIN 1 RETURN {text}").returns
    except QueryError:
        return text
    if returned is None or len(returned.outputs) != 1 or returned.is_distinct:
        return text
    (output,) = returned.outputs
    match output.value:
        case Literal(value) if output.name is None:
            return value
        case Duration(microseconds) if output.name is None:
            return timedelta(microseconds=microseconds)
        case _:
            return text
