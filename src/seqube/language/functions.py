"""The functions of the language as tables: a row says everything that is known of a function, and whoever needs it asks the row.

An aggregate is made of measures, numbers (or values) that every strategy can compute over matches: AVG of a sum and a count. Its
row says which measures these are and how they become the aggregate (`finish`). How a measure is computed and what `finish` does is
the engine's: `engine/aggregates/measures.py` is the other table. Grammar, parser, binder, types, writer, planner and page read this
one, so that a new aggregate is a row here, and one there where it needs a measure that is not there yet.

A function of values takes what one match holds and gives one value. Its row says what it takes and gives; what it computes over
columns is the function of its name in `engine/functions.py`, and what Spark may ask instead, `spark/ingest.py` says. Some have a
form of their own in the grammar (CASE, CAST, EXTRACT, LIKE ...), and are calls like the others from there on.

Invariant: whoever meets a name that has no row raises, and names it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal as OneOf
from typing import TypeVar

from seqube.errors import Problem, QueryError, Span, did_you_mean

Kind = OneOf["number", "string", "boolean", "time", "duration", "clock", "binary", "null", "other"]


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
    takes_share: bool = False  # a second argument, between 0 and 1, which must stand in the query as it is
    form: str = ""  # how it is written, where that is not name(v.x)

    @property
    def call(self) -> str:
        """How it is written."""
        return self.form or f"{self.name}({'v.x' if self.takes else '*'})"


@dataclass(frozen=True, slots=True)
class Function:
    """A row of the table of functions of values."""

    name: str
    takes: tuple[tuple[Kind, ...], ...]  # what each argument may be; () is anything that compares
    result: Kind | None  # None: what its arguments are (see `alike`), or for ABS, ROUND ... what its first one is
    meaning: str  # a line of the docs page
    n_optional: int = 0  # how many of the last arguments may be left out
    repeats: bool = False  # whether the last argument may be there several times
    alike: bool = False  # whether all arguments must be of one kind
    constants: frozenset[int] = frozenset()  # arguments that must stand in the query as they are
    nulls: OneOf["strict", "own"] = "strict"  # strict: null where an argument is
    form: str = ""  # how it is written, where that is not name(a, b)

    @property
    def call(self) -> str:
        """How it is written."""
        if self.form:
            return self.form
        least = len(self.takes) - self.n_optional
        words = [_PLACES[kinds[0] if kinds else "other"] for kinds in self.takes]
        names = [f"{word}{words[:i].count(word) + 1}" if words.count(word) > 1 else word for i, word in enumerate(words)]
        optional = "".join(f"[, {name}]" for name in names[least:])
        return f"{self.name}({', '.join(names[:least])}{optional}{', ...' if self.repeats else ''})"


_PLACES: dict[Kind, str] = {
    "number": "x",
    "string": "s",
    "boolean": "p",
    "time": "t",
    "duration": "d",
    "clock": "t",
    "binary": "v",
    "null": "v",
    "other": "v",
}

_Row = TypeVar("_Row", AggregateFunction, Function)


def _table(rows: Iterable[_Row]) -> dict[str, _Row]:
    return {row.name: row for row in rows}


COUNT_DISTINCT = "COUNT DISTINCT"  # has a form of its own
_PLAIN: tuple[Kind, ...] = ("number", "string", "boolean", "time", "duration")

AGGREGATES = _table(
    (
        AggregateFunction("COUNT", (), ("COUNT",), "value", result="number"),
        AggregateFunction("APPROX_COUNT", (), ("APPROX",), "value", result="number"),  # a double, however many there are
        AggregateFunction("SUM", ("number", "duration"), ("COUNT", "SUM"), "total"),  # without values it is null
        AggregateFunction("AVG", ("number", "duration"), ("COUNT", "SUM"), "mean"),
        AggregateFunction("MIN", ("number", "duration", "time"), ("MIN",), "value"),
        AggregateFunction("MAX", ("number", "duration", "time"), ("MAX",), "value"),
        AggregateFunction("STDDEV", ("number", "duration"), ("COUNT", "SUM", "SQUARES"), "deviation"),  # of a sample, as in SQL
        AggregateFunction("VARIANCE", ("number",), ("COUNT", "SUM", "SQUARES"), "variance"),  # a duration's would have no unit
        AggregateFunction(COUNT_DISTINCT, _PLAIN, ("VALUES",), "distinct", result="number", form="COUNT(DISTINCT v.x)"),
        AggregateFunction("MEDIAN", ("number", "duration"), ("VALUES",), "median"),
        AggregateFunction(
            "PERCENTILE", ("number", "duration"), ("VALUES",), "percentile", takes_share=True, form="PERCENTILE(v.x, 0.9)"
        ),
        AggregateFunction("FIRST", _PLAIN, ("IN_ORDER",), "first"),
        AggregateFunction("LAST", _PLAIN, ("IN_ORDER",), "last"),
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
# What every event has, whatever its columns are called, and the attribute that is.
OF_EVENTS = {"TYPE": "type", "TIME": "ts"}
FUNCTIONS = tuple(name for name in dict.fromkeys((*AGGREGATES, *OF_LISTS, PREVIOUS)) if name != COUNT_DISTINCT)


def aggregate_function(name: str, at: Span | None = None) -> AggregateFunction:
    """The row of an aggregate; a `QueryError` where there is none of that name."""
    if name not in AGGREGATES:
        raise QueryError(Problem(f"there is no aggregate {name!r}", at, did_you_mean(name, AGGREGATES)))
    return AGGREGATES[name]


_NUMBER: tuple[Kind, ...] = ("number",)
_NUMBERS: tuple[Kind, ...] = ("number", "duration")
_TEXT: tuple[Kind, ...] = ("string",)
_TIME: tuple[Kind, ...] = ("time",)
_SECOND = frozenset({1})

VALUE_FUNCTIONS = _table(
    (
        Function(
            "CASE",
            (("boolean",), ()),
            None,
            "the value of the first condition that is true, else that of ELSE, else null",
            repeats=True,
            nulls="own",
            form="CASE WHEN p THEN v ... [ELSE v] END",
        ),
        Function("COALESCE", ((),), None, "the first argument that is not null", repeats=True, alike=True, nulls="own"),
        Function("NULLIF", ((), ()), None, "null where both are equal, else the first", alike=True, nulls="own"),
        Function("LEAST", ((), ()), None, "the smallest of the arguments that are not null", repeats=True, alike=True, nulls="own"),
        Function(
            "GREATEST", ((), ()), None, "the largest of the arguments that are not null", repeats=True, alike=True, nulls="own"
        ),
        Function(
            "IS DISTINCT FROM",
            ((), ()),
            "boolean",
            "whether they differ, where two nulls do not and a null and a value do",
            alike=True,
            nulls="own",
            form="a IS [NOT] DISTINCT FROM b",
        ),
        Function(
            "CAST",
            ((), _TEXT),
            None,
            "the value as another type; null where it cannot be one",
            constants=_SECOND,
            form="CAST(v AS type)",
        ),
        Function("ABS", (_NUMBERS,), None, "without its sign"),
        Function("SIGN", (_NUMBERS,), "number", "-1, 0 or 1"),
        Function(
            "ROUND",
            (_NUMBER, _NUMBER),
            None,
            "to so many digits after the point (0 if left out; before it, if negative), halves away from zero",
            n_optional=1,
            constants=_SECOND,
        ),
        Function("FLOOR", (_NUMBER,), None, "the largest whole number that is not larger"),
        Function("CEIL", (_NUMBER,), None, "the smallest whole number that is not smaller"),
        Function("SQRT", (_NUMBER,), "number", "the square root; null below zero"),
        Function("EXP", (_NUMBER,), "number", "e to this power"),
        Function("LN", (_NUMBER,), "number", "the natural logarithm; null at zero and below"),
        Function("LOG10", (_NUMBER,), "number", "the logarithm to base 10; null at zero and below"),
        Function("POWER", (_NUMBER, _NUMBER), "number", "the first to the power of the second, as doubles"),
        Function("MOD", (_NUMBERS, _NUMBERS), None, "what a division leaves, with the sign of the first: the same as x % y"),
        Function("LOWER", (_TEXT,), "string", "in small letters, one for one"),
        Function("UPPER", (_TEXT,), "string", "in capital letters, one for one"),
        Function("TRIM", (_TEXT,), "string", "without spaces at both ends"),
        Function("LENGTH", (_TEXT,), "number", "how many characters it has"),
        Function(
            "SUBSTRING",
            (_TEXT, _NUMBER, _NUMBER),
            "string",
            "from that character on (the first is 1, negative ones count from the end), so many or all",
            n_optional=1,
            constants=frozenset({1, 2}),
        ),
        Function(
            "REPLACE",
            (_TEXT, _TEXT, _TEXT),
            "string",
            "with every occurrence of the second text replaced by the third",
            constants=frozenset({1, 2}),
        ),
        Function("CONCAT", (_TEXT,), "string", "one text behind the other; also written s || t", repeats=True),
        Function("STARTS_WITH", (_TEXT, _TEXT), "boolean", "whether it starts with this text", constants=_SECOND),
        Function("ENDS_WITH", (_TEXT, _TEXT), "boolean", "whether it ends with this text", constants=_SECOND),
        Function("CONTAINS", (_TEXT, _TEXT), "boolean", "whether this text is in it", constants=_SECOND),
        Function(
            "LIKE",
            (_TEXT, _TEXT),
            "boolean",
            "whether it has this shape: % is any text, _ any character, \\ takes the next one as it is",
            constants=_SECOND,
            form="s [NOT] LIKE 'pattern'",
        ),
        Function(
            "ILIKE",
            (_TEXT, _TEXT),
            "boolean",
            "LIKE, whatever the case of letters",
            constants=_SECOND,
            form="s [NOT] ILIKE 'pattern'",
        ),
        Function(
            "RLIKE",
            (_TEXT, _TEXT),
            "boolean",
            "whether this regular expression (RE2's) is found in it",
            constants=_SECOND,
            form="s [NOT] RLIKE 'expression'",
        ),
        Function(
            "EXTRACT",
            (_TEXT, _TIME),
            "number",
            "a part of a time, in its own zone",
            constants=frozenset({0}),
            form="EXTRACT(part FROM t)",
        ),
        Function(
            "DATE_TRUNC",
            (_TEXT, _TIME),
            "time",
            "the start of the hour, day ... that the time lies in, in its own zone",
            constants=frozenset({0}),
            form="DATE_TRUNC('unit', t)",
        ),
    )
)

PLAIN_CALLS = tuple(name for name, row in VALUE_FUNCTIONS.items() if not row.form or row.form.startswith(f"{name}('"))  # name(a, b)

# What CAST can make, by every name that it has; DECIMAL also takes its digits, DECIMAL(10, 2).
CASTS: dict[str, tuple[str, Kind]] = {
    **dict.fromkeys(("BIGINT", "INT", "INTEGER", "LONG"), ("BIGINT", "number")),
    **dict.fromkeys(("DOUBLE", "FLOAT", "REAL"), ("DOUBLE", "number")),
    **dict.fromkeys(("DECIMAL", "NUMERIC"), ("DECIMAL", "number")),
    **dict.fromkeys(("STRING", "TEXT", "VARCHAR"), ("STRING", "string")),
    **dict.fromkeys(("BOOLEAN", "BOOL"), ("BOOLEAN", "boolean")),
    "TIMESTAMP": ("TIMESTAMP", "time"),
}
SQL_CASTS: dict[str, tuple[str, Kind]] = {  # in a clause of SQL, whose tables have such columns
    **CASTS,
    "DATE": ("DATE", "time"),
    "TIME": ("TIME", "clock"),
    **dict.fromkeys(("BINARY", "VARBINARY", "BLOB", "BYTEA"), ("BINARY", "binary")),
}

PARTS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "DOW", "DOY", "HOUR", "MINUTE", "SECOND")  # of a time, for EXTRACT
TRUNCATED = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND")


def value_function(name: str, at: Span | None = None) -> Function:
    """The row of a function of values; a `QueryError` where there is none of that name."""
    if name not in VALUE_FUNCTIONS:
        raise QueryError(Problem(f"there is no function {name!r}", at, did_you_mean(name, VALUE_FUNCTIONS)))
    return VALUE_FUNCTIONS[name]
