"""The functions of the language as tables: a row says everything that is known of a function, and whoever needs it asks the row.

An aggregate is made of measures, numbers (or values) that every strategy can compute over matches: AVG of a sum and a count. Its
row says which measures these are and how they become the aggregate (`finish`). How a measure is computed and what `finish` does is
the engine's: `engine/aggregates/measures.py` is the other table. Grammar, parser, binder, types, writer, planner and page read this
one, so that a new aggregate is a row here, and one there where it needs a measure that is not there yet.

Invariant: whoever meets a name that has no row raises, and names it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal as OneOf

from seqube.errors import Problem, QueryError, Span, did_you_mean

Kind = OneOf["number", "string", "boolean", "time", "duration", "null", "other"]


@dataclass(frozen=True, slots=True)
class AggregateFunction:
    """A row of the table of aggregates."""

    name: str
    takes: tuple[Kind, ...]  # what its argument may be; nothing: it has none and is of matches, COUNT(*)
    measures: tuple[
        str, ...
    ]  # what it is made of, in the order in which `finish` takes them; one that needs another comes after it
    finish: str  # the function of `engine/aggregates/measures.py` that makes it of them
    result: Kind | None = None  # None: of its argument's kind

    @property
    def call(self) -> str:
        """How it is written."""
        return f"{self.name}({'v.x' if self.takes else '*'})"


def _table(rows: Iterable[AggregateFunction]) -> dict[str, AggregateFunction]:
    return {row.name: row for row in rows}


AGGREGATES = _table(
    (
        AggregateFunction("COUNT", (), ("COUNT",), "value", result="number"),
        AggregateFunction("SUM", ("number", "duration"), ("COUNT", "SUM"), "total"),  # without values it is null
        AggregateFunction("AVG", ("number", "duration"), ("COUNT", "SUM"), "mean"),
        AggregateFunction("MIN", ("number", "duration", "time"), ("MIN",), "value"),
        AggregateFunction("MAX", ("number", "duration", "time"), ("MAX",), "value"),
        AggregateFunction("STDDEV", ("number", "duration"), ("COUNT", "SUM", "SQUARES"), "deviation"),  # of a sample, as in SQL
        AggregateFunction("VARIANCE", ("number",), ("COUNT", "SUM", "SQUARES"), "variance"),  # a duration's would have no unit
    )
)


@dataclass(frozen=True, slots=True)
class ListFunction:
    """A row of the table of functions of a list: what a repeated part binds, as one value of a match."""

    name: str
    takes: tuple[Kind, ...] = ()  # what its argument may be; nothing: anything
    of_events: bool = False  # it takes the variable itself, COUNT(f)
    result: Kind | None = None  # None: of its argument's kind

    @property
    def call(self) -> str:
        """How it is written."""
        return f"{self.name}({'v' if self.of_events else 'v.x'})"


OF_LISTS = {
    row.name: row
    for row in (
        ListFunction("COUNT", of_events=True, result="number"),
        ListFunction("SUM", ("number", "duration")),
        ListFunction("AVG", ("number", "duration")),
        ListFunction("MIN", ("number", "duration", "time")),
        ListFunction("MAX", ("number", "duration", "time")),
        ListFunction("FIRST"),
        ListFunction("LAST"),
    )
}
PREVIOUS = "PREV"  # of an event in a list, the one before
FUNCTIONS = tuple(dict.fromkeys((*AGGREGATES, *OF_LISTS, PREVIOUS)))


def aggregate_function(name: str, at: Span | None = None) -> AggregateFunction:
    """The row of an aggregate; a `QueryError` where there is none of that name."""
    if name not in AGGREGATES:
        raise QueryError(Problem(f"there is no aggregate {name!r}", at, did_you_mean(name, AGGREGATES)))
    return AGGREGATES[name]
