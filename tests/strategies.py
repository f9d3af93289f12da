"""Random streams, hierarchies and queries, small enough for the oracle and for a reader.

Idea: a query is drawn as a skeleton (operators, types, negations) and then written out as text with predicates that the scopes
allow, so every text is valid and goes through the real parser. Streams have a handful of types, few distinct times (so ties are
common) and attributes with few values (so predicates often hold) and nulls.

Cost: a query has at most `LEAVES` types in at most four levels, a stream at most fourteen events: the oracle takes milliseconds.

Invariant: everything shrinks towards `SEQ(A v1) WITHIN 1` over an empty stream.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any, Literal

import pyarrow as pa
from hypothesis import strategies as st

from oracle import Event, stream
from oracle_values import EPOCH, MICROSECOND

TYPES = ["A", "B", "C", "D"]
COMMON = ["A", "A", "B", "B", "C", "C", "D"]  # some types are met more often than others
LEAVES = 6
LOWEST, HIGHEST = -(2**63), 2**63 - 1
ATTRIBUTES: dict[str, list[Any]] = {  # few values, so that events often agree; a null now and then
    "id": [0, 0, 0, 1, 1, 2, None],
    "x": [0, 1, 1, 2, 2, 3, -2, None],
    "y": [0.0, 0.5, 0.5, 2.0, 2.0, -1.5, None, float("nan"), 2.0**53, 2.0**63],
    "s": ["p", "p", "p", "q", "it's", None],
    "f": [True, True, False, None],
    "w": [2**53, 2**53, 2**53 + 1, 2**53 + 1, 1, HIGHEST, HIGHEST - 1, LOWEST, None],  # of 64 bits
    "u": [2**64 - 1, 2**64 - 1, 2**64 - 2, 2**63, 2**53 + 1, 1, None],  # of 64 bits without a sign
    "c": [None, *map(Decimal, ["0.10", "0.10", "0.20", "0.20", "0.30", "-1.50", "2.00", "90071992547409.93"])],
    "k": ["p", "p", "q", None],  # coded by a dictionary
    "d": [None, *(timedelta(milliseconds=n) for n in (0, 1, 1, 2, 1500, -1500, 3000))],
}
NUMBERS = ["id", "id", "x", "x", "y", "w", "u", "c"]
SCHEMA = pa.schema(
    [
        ("type", pa.string()),
        ("ts", pa.int64()),
        ("row", pa.int64()),
        ("id", pa.int64()),
        ("x", pa.int64()),
        ("y", pa.float64()),
        ("s", pa.string()),
        ("f", pa.bool_()),
        ("w", pa.int64()),
        ("u", pa.uint64()),
        ("c", pa.decimal128(16, 2)),
        ("k", pa.dictionary(pa.int8(), pa.string())),
        ("d", pa.duration("ms")),
    ]
)
# Spark has no unsigned numbers and no dictionaries, and reads no durations from files.
SPARK_TYPES = {"u": pa.decimal128(20, 0), "k": pa.string()}
SPARK_SCHEMA = pa.schema([(field.name, SPARK_TYPES.get(field.name, field.type)) for field in SCHEMA if field.name != "d"])


# ---------------------------------------------------------------- streams


def table(events: Sequence[Event], schema: pa.Schema = SCHEMA) -> pa.Table:
    """The events as the user's table; `row` tells them apart."""
    rows = [{"type": event.type, "ts": event.ts, "row": event.row, **event.attributes} for event in events]
    columns = {name: [row.get(name) for row in rows] for name in schema.names}
    return pa.table({name: pa.array(columns[name], schema.field(name).type) for name in schema.names}, schema=schema)


def spark_table(events: Sequence[Event]) -> pa.Table:
    """The events in types that Spark has; for queries without durations."""
    return table(events, SPARK_SCHEMA)


@dataclass(frozen=True)
class Clock:
    """How points in time are written. What a stream counts as 0, 1, 2 ... are its units around 1970, on both sides."""

    unit: str
    zone: str | None

    @property
    def period(self) -> str:
        """The unit that a query tells such times apart by."""
        return "us" if self.unit == "ns" else self.unit

    def moved(self, events: Sequence[Event]) -> list[Event]:
        """The events in microseconds since 1970."""
        return [replace(event, ts=(event.ts - 5) * _US[self.period]) for event in events]

    def table(self, moved: Sequence[Event]) -> pa.Table:
        """What was moved, as the user's table. What nanoseconds have below a microsecond is not seen."""
        times = [event.ts * 1_000 + event.row * 77 % 1_000 if self.unit == "ns" else event.ts // _US[self.unit] for event in moved]
        return table(moved).set_column(1, "ts", pa.array(times, pa.timestamp(self.unit, self.zone)))


_US = {"s": 1_000_000, "ms": 1_000, "us": 1}
clocks = st.builds(
    Clock, st.sampled_from(["s", "ms", "us", "ns"]), st.sampled_from([None, "UTC", "Europe/Berlin", "America/New_York", "+05:30"])
)


def plain(value: Any) -> Any:
    """A value that is equal for equal answers: doubles up to rounding (NaN is null), moments and durations in microseconds."""
    if isinstance(value, float):
        return None if math.isnan(value) else float(f"{value:.12g}") + 0.0
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else str(value.normalize())
    if isinstance(value, datetime):
        return (value.replace(tzinfo=value.tzinfo or UTC) - EPOCH) // MICROSECOND
    return value // MICROSECOND if isinstance(value, timedelta) else value


@st.composite
def streams(draw: st.DrawFn, max_size: int = 14, max_time: int = 9) -> list[Event]:
    """Events in stream order, with ties and nulls.

    The events come from a seed and each is kept or not: drawn one by one, most streams would be too short or too even to match
    anything, while dropping events is all that shrinking needs to make a stream readable.
    """
    random = Random(draw(st.integers(0, 2**32)))
    kept = draw(st.lists(st.sampled_from([False, True, True, True]), min_size=max_size, max_size=max_size))
    events = [
        (random.choice(COMMON), random.randint(0, max_time), {name: random.choice(values) for name, values in ATTRIBUTES.items()})
        for _ in range(max_size)
    ]
    return stream(*(event for event, keep in zip(events, kept, strict=True) if keep))


def cuts(n: int) -> st.SearchStrategy[list[tuple[int, int]]]:
    """Ways to cut n events into consecutive pieces, empty ones among them."""

    def pieces(at: list[int]) -> list[tuple[int, int]]:
        ends = [*sorted(at), n]
        return list(zip([0, *ends[:-1]], ends, strict=True))

    return st.lists(st.integers(0, n), max_size=6).map(pieces)


@st.composite
def hierarchies(draw: st.DrawFn) -> dict[str, Any] | None:
    """No hierarchy, or concepts P and Q above some of the types; as nested mappings and lists."""
    shape = draw(st.sampled_from(["none", "one", "two", "deep"]))
    first, second = TYPES[: draw(st.integers(1, 2))], TYPES[2 : 2 + draw(st.integers(1, 2))]
    if shape == "none":
        return None
    if shape == "one":
        return {"P": first}
    if shape == "two":
        return {"P": first, "Q": second}
    return {"P": [{"Q": first}, *second]}


def concepts(hierarchy: dict[str, Any] | None) -> list[str]:
    """The names a query may use: the types, and the concepts above them."""
    return COMMON + [name for name in ("P", "Q") if f"'{name}'" in repr(hierarchy)]


# ---------------------------------------------------------------- queries


PARTITIONS = ["id", "s", "id, f", "k", "w", "u", "c"]
KEYS = ["id", "id", "s", "w", "u", "c", "k"]


@dataclass(frozen=True)
class About:
    """What predicates may be about: what tells points in time apart (None: times are integers), and a column of durations."""

    period: str | None
    durations: bool
    repeated: tuple[Leaf, ...] = ()  # parts with a quantifier


@dataclass(frozen=True)
class Leaf:
    name: str
    variable: str
    times: str = ""  # the quantifier

    @property
    def is_list(self) -> bool:
        return self.times not in ("", "?", "??")


@dataclass(frozen=True)
class Operator:
    word: str
    parts: tuple[tuple[bool, Leaf | Operator], ...]  # negated, component


@st.composite
def queries(
    draw: st.DrawFn,
    names: Sequence[str] = COMMON,
    depth: int = 4,
    counted: bool | None = None,
    returns: bool = False,
    predicates: bool = True,
    words: Sequence[str] = ("SEQ", "SEQ", "AND", "OR"),
    period: str | None = None,
    durations: bool = True,
    repeats: bool = False,
    clauses: Sequence[str] = (),
) -> str:
    """The text of a valid query. `counted` asks for (or excludes) tuple-count windows, `words` names the operators to use.

    Times are integers (in ms), or points in time that are some `period`s apart. `durations` excludes the column of these.

    `repeats` adds quantifiers, and `clauses` names further clauses to write.

    Without `predicates` (and partitions) the structure alone decides, and far more of the matches live or die by their negations.
    """
    defined = draw(_definitions(names)) if predicates else []
    names = (*names, "ANY", *(name for name, _ in defined))
    pattern = draw(_skeletons(tuple(names), depth, tuple(words), repeats))
    positives = _positives(pattern)
    about = About(period, durations, tuple(leaf for leaf in _leaves(pattern) if leaf.times))
    lines = [f"PATTERN {_write(draw, pattern, [], [], predicates and about)}"]
    if defined:
        lines.append("DEFINE " + ", ".join(text for _, text in defined))
    if predicates and (where := _predicates(draw, positives, [], about)):
        lines.append("WHERE " + where)
    if predicates and draw(st.integers(0, 4)) == 4:
        lines.append("PARTITION BY " + draw(st.sampled_from(PARTITIONS)))
    lines.append("WITHIN " + draw(windows(counted, period)))
    if "ORDER BY" in clauses:
        lines.append(
            "ORDER BY " + ", ".join(draw(st.lists(st.sampled_from(["x", "s", "f", "y", "c"]), min_size=1, max_size=2, unique=True)))
        )
    if "SKIP" in clauses:
        lines.append(
            "SKIP "
            + draw(st.sampled_from(["PAST LAST", "TO NEXT", *(f"TO {w} {v}" for v in positives for w in ("FIRST", "LAST"))]))
        )
    if "KEEP PARTIAL" in clauses:
        lines.append("KEEP PARTIAL")
    if returns:
        items = draw(st.lists(_values(positives, about), min_size=1, max_size=3))
        lines.append("RETURN " + ", ".join(f"{item} AS r{i}" for i, item in enumerate(items)))
    return "\n".join(lines)


@st.composite
def _definitions(draw: st.DrawFn, names: Sequence[str]) -> list[tuple[str, str]]:
    """Names of types with a condition, and how they are written."""
    if draw(st.integers(0, 4)) < 4:
        return []
    conditions = ["x > 0", "x >= 1 AND f", "s LIKE 'p%' OR id = 0", "COALESCE(y, 0.0) < 1.0", "type IN ('A', 'B')"]
    first = f"T1 AS {draw(st.sampled_from((*names, 'ANY')))} WHERE {draw(st.sampled_from(conditions))}"
    second = f"T2 AS {draw(st.sampled_from((*names, 'T1')))} WHERE NOT ({draw(st.sampled_from(conditions))})"
    return [("T1", first), ("T2", second)]


@st.composite
def windows(draw: st.DrawFn, counted: bool | None = None, period: str | None = None) -> str:
    n = draw(st.sampled_from([1, 2, 3, 4, 5, 6, 8, 8, 12]))
    if draw(st.booleans()) if counted is None else counted:
        return f"{n} EVENTS"
    if period is not None:
        return f"{n} {period}"
    return draw(st.sampled_from([f"{n}", f"{n} ms", f"{n}500 us"]))


@st.composite
def _skeletons(draw: st.DrawFn, names: tuple[str, ...], depth: int, words: tuple[str, ...], repeats: bool = False) -> Operator:
    n_leaves = 0
    n_repeats = 0

    def times(word: str) -> str:
        """A quantifier now and then; more than two of them would make more lists than anyone can read."""
        nonlocal n_repeats
        if not repeats or n_repeats == 2 or word in ("AND", "OR") or not draw(st.booleans()):
            return ""
        n_repeats += 1
        written = draw(st.sampled_from(["?", "+", "*", "{2}", "{2,}", "{1,2}", "{,2}", "?", "+"]))
        return written + "?" * (word != "SEQ" and draw(st.integers(0, 2)) == 2)

    def steps(word: str) -> Operator:
        """A NEXT or STRICT: types, now and then alternatives, and anything negated."""
        nonlocal n_leaves
        parts: list[tuple[bool, Leaf | Operator]] = []
        for _ in range(draw(st.sampled_from([1, 2, 3, 3, 4]))):
            negated = draw(st.sampled_from([False, False, False, False, True]))
            if n_leaves < LEAVES - 1 and draw(st.integers(0, 5)) == 5:
                n_leaves += 2
                either = (
                    Leaf(draw(st.sampled_from(names)), f"v{n_leaves - 1}"),
                    Leaf(draw(st.sampled_from(names)), f"v{n_leaves}"),
                )
                parts.append((negated, Operator("OR", tuple((False, leaf) for leaf in either))))
            elif n_leaves < LEAVES:
                n_leaves += 1
                parts.append((negated, Leaf(draw(st.sampled_from(names)), f"v{n_leaves}", "" if negated else times(word))))
        if all(negated for negated, _ in parts):
            n_leaves += 1
            parts.append((False, Leaf(draw(st.sampled_from(names)), f"v{n_leaves}")))
        return Operator(word, tuple(parts))

    def component(depth: int) -> Leaf | Operator:
        nonlocal n_leaves
        if depth > 0 and n_leaves < LEAVES - 1 and draw(st.sampled_from([False, False, True, True, True])):
            return operator(depth)
        n_leaves += 1
        return Leaf(draw(st.sampled_from(names)), f"v{n_leaves}")

    def operator(depth: int) -> Operator:
        word = draw(st.sampled_from(words))
        if word in ("NEXT", "STRICT"):
            return steps(word)
        n_parts = draw(st.sampled_from([1, 2, 2, 3, 3, 4]))
        parts: list[tuple[bool, Leaf | Operator]] = []
        while not parts or (len(parts) < n_parts and n_leaves < LEAVES):
            negated = word != "OR" and draw(st.sampled_from([False, False, False, True, True]))
            child = component(depth - 1)
            parts.append((negated, replace(child, times=times(word)) if isinstance(child, Leaf) and not negated else child))
        if all(negated for negated, _ in parts):
            parts[0] = (False, parts[0][1])
        return Operator(word, tuple(parts))

    return operator(depth)


def _leaves(part: Leaf | Operator) -> list[Leaf]:
    return [part] if isinstance(part, Leaf) else [leaf for _, child in part.parts for leaf in _leaves(child)]


def _positives(part: Leaf | Operator) -> list[str]:
    if isinstance(part, Leaf):
        return [part.variable]
    return [variable for negated, child in part.parts if not negated for variable in _positives(child)]


def _write(draw: st.DrawFn, node: Operator, outer: list[str], outer_negated: list[str], about: About | Literal[False]) -> str:
    """The operator as text. `outer` and `outer_negated` hold the variables that the enclosing expressions make visible."""
    visible = outer + [child.variable for negated, child in node.parts if isinstance(child, Leaf) and not negated]
    negations = outer_negated + [child.variable for negated, child in node.parts if isinstance(child, Leaf) and negated]
    items = []
    for negated, child in node.parts:
        if isinstance(child, Leaf):
            text = f"{child.name}{child.times} {child.variable}"
        else:  # inside a negation, a predicate on another negation would name two of them
            text = _write(draw, child, visible, [] if negated else negations, about)
        items.append("!" + text if negated else text)
    if about and (predicates := _predicates(draw, visible, negations, about)):
        items.append(predicates)
    return f"{node.word}({', '.join(items)})"


def _predicates(draw: st.DrawFn, visible: list[str], negated: list[str], about: About) -> str:
    """Up to two conjuncts over the visible variables, each naming at most one negated component."""
    conjuncts = []
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 1, 2]))):
        absent = draw(st.sampled_from([[v] for v in negated] or [[]]))
        variables = visible + absent
        kind = draw(st.sampled_from(["local", "pair", "same", "chain", "any", "whole"])) if variables else "same"
        lists = [leaf for leaf in about.repeated if leaf.variable in variables]
        if lists and draw(st.booleans()):
            conjuncts.append(draw(_of_lists(lists, variables)))
        elif kind == "same":
            conjuncts.append(f"[{draw(st.sampled_from(KEYS))}]")
        elif kind == "chain" and len(variables) > 2:
            attribute = draw(st.sampled_from(["id", "x", "w", "u", "c"]))
            conjuncts.append(" = ".join(f"{v}.{attribute}" for v in draw(st.permutations(variables))[:3]))
        elif kind == "whole":
            conjuncts.append(draw(_wholes(variables, absent or variables)))
        elif kind == "any":
            conjuncts.append(f"({draw(_comparisons(variables, about))} OR {draw(_comparisons(variables, about))})")
        else:
            conjuncts.append(draw(_locals(variables, about) if kind == "local" else _comparisons(variables, about)))
    return " AND ".join(conjuncts)


@st.composite
def _of_lists(draw: st.DrawFn, lists: Sequence[Leaf], variables: Sequence[str]) -> str:
    """A predicate on the events of a list, or on it as a whole."""
    leaf = draw(st.sampled_from(lists))
    v, u = leaf.variable, draw(st.sampled_from(variables))
    a, b = draw(st.sampled_from(NUMBERS)), draw(st.sampled_from(NUMBERS))
    function = draw(st.sampled_from(["SUM", "AVG", "MIN", "MAX", "FIRST", "LAST"]))
    choices = [
        f"COUNT({v}) {draw(_comparators)} {draw(st.integers(0, 3))}",
        f"{function}({v}.{a}) {draw(_comparators)} {draw(st.integers(-1, 3))}",
        f"{function}({v}.{a}) {draw(_comparators)} {u}.{b}",
        f"{v}.{a} {draw(_comparators)} {function}({v}.{a})",
        f"({u}.{a} > 0 OR COUNT({v}) > 1)",
        f"FIRST({v}.s) = {u}.s",
        f"{v}.{a} = {u}.{a}",
    ]
    if leaf.is_list:
        choices += [
            f"{v}.{a} {draw(_comparators)} PREV({v}.{a})",
            f"{v}.{a} BETWEEN PREV({v}.{a}) AND 2",
            f"{v}.{a} + PREV({v}.{b}) > {u}.{a}",
            f"PREV({v}.{a}) IS NOT NULL",
        ]
    return draw(st.sampled_from(choices))


@st.composite
def _locals(draw: st.DrawFn, variables: Sequence[str], about: About) -> str:
    """A predicate on one event."""
    v = draw(st.sampled_from(variables))
    number = f"{v}.{draw(st.sampled_from(NUMBERS))}"
    choices = [
        f"{number} {draw(_comparators)} {draw(st.integers(-2, 3))}",
        f"{v}.s {draw(st.sampled_from(['=', '!=']))} 'p'",
        f"{v}.s IN ('p', 'it''s')",
        f"{v}.x NOT IN (0, 1, 2)",
        f"{number} BETWEEN 0 AND 2",
        f"{number} NOT BETWEEN {v}.id AND 1.5",
        f"{number} IS NULL",
        f"{number} IS NOT NULL",
        f"NOT {number} > 0",
        f"{v}.f",
        f"NOT {v}.f",
        f"{v}.type = 'A'",
        f"{v}.x * 2 + 1 > {v}.y / {v}.id",
        f"-{number} % 2 = -1",
        f"{v}.k IN ('p', 'r')",
        f"{number} IN (0.1, 1, 9007199254740992.0)",
        f"{number} NOT IN (9007199254740993, 1e19, 0.5, NULL)",
        f"{number} NOT IN (9007199254740993, 1e19, 0.5)",
        f"{number} {draw(_comparators)} 9007199254740992.0",
        f"{v}.u {draw(_comparators)} 18446744073709551615",
        f"{v}.c + 0.2 {draw(_comparators)} 0.3",
    ]
    choices += [
        f"ABS({number}) {draw(_comparators)} 1",
        f"SIGN({number}) = -1",
        f"ROUND({v}.y) {draw(_comparators)} {v}.id",
        f"FLOOR({v}.y) = CEIL({v}.x)",
        f"COALESCE({v}.x, {v}.id, 0) {draw(_comparators)} 1",
        f"NULLIF({v}.x, {v}.id) IS NULL",
        f"LEAST({v}.x, {v}.id, 2) < GREATEST({v}.id, 0)",
        f"CASE WHEN {number} > 0 THEN {v}.x WHEN {v}.f THEN {v}.id ELSE 1 END {draw(_comparators)} 1",
        f"CASE {v}.s WHEN 'p' THEN 1 END IS NOT NULL",
        f"{v}.s IS {draw(st.sampled_from(['', 'NOT ']))}DISTINCT FROM {v}.k",
        f"{v}.s {draw(st.sampled_from(['', 'NOT ']))}LIKE {draw(st.sampled_from(_LIKE))}",
        f"UPPER({v}.s) ILIKE 'P%'",
        f"LENGTH({v}.s || {v}.k) {draw(_comparators)} 2",
        f"SUBSTRING({v}.s, {draw(st.integers(-3, 3))}, 1) = 'p'",
        f"CAST({v}.x AS STRING) || {v}.s RLIKE '^[0-9]p'",
        f"CAST({v}.y AS BIGINT) = {v}.x",
    ]
    if about.period is None:
        choices += [f"{v}.ts % 2 = 0", f"{v}.ts % 2 ms = 0", f"{v}.ts / 1 ms > 3"]
    else:
        choices += [f"{v}.ts {draw(_comparators)} '1970-01-01T00:00:00'", f"{v}.ts + 1 {about.period} >= '1970-01-01'"]
    if about.durations:
        choices += [f"{v}.d {draw(_comparators)} 1500 ms", f"{v}.d % 1 s = 500 ms", f"-{v}.d / 1 s > 0.5", f"{v}.d * 2 = 3 s"]
    return draw(st.sampled_from(choices))


@st.composite
def _comparisons(draw: st.DrawFn, variables: Sequence[str], about: About) -> str:
    """A predicate on two events, which may be the same one."""
    u, v = draw(st.sampled_from(variables)), draw(st.sampled_from(variables))
    a, b = draw(st.sampled_from(NUMBERS)), draw(st.sampled_from(NUMBERS))
    choices = [
        f"{u}.id = {v}.id",
        f"{u}.{a} {draw(_comparators)} {v}.{b}",
        f"{u}.s {draw(_comparators)} {v}.s",
        f"{u}.{a} + {v}.{b} {draw(_comparators)} 1",
        f"{u}.{a} * 1.5 < {v}.{b}",
        f"NOT {u}.{a} = {v}.{b}",
        f"{u}.{a} BETWEEN {v}.id AND {v}.x",
        f"{u}.type != {v}.type",
        f"{u}.w + 1 {draw(_comparators)} {v}.w",
        f"{u}.u - {v}.w {draw(_comparators)} 0",
        f"{u}.k {draw(_comparators)} {v}.k",
        f"{u}.c {draw(st.sampled_from('+-*'))} {v}.c {draw(_comparators)} 0.3",
        f"{u}.w {draw(_comparators)} {v}.y",
        f"ABS({u}.{a} - {v}.{b}) {draw(_comparators)} 1",
        f"GREATEST({u}.x, {v}.x) {draw(_comparators)} LEAST({u}.id, {v}.id)",
        f"{u}.{a} IS {draw(st.sampled_from(['', 'NOT ']))}DISTINCT FROM {v}.{b}",
        f"COALESCE({u}.x, {v}.x, {u}.id) {draw(_comparators)} 1",
        f"CASE WHEN {u}.{a} > {v}.{b} THEN {u}.x ELSE {v}.x END {draw(_comparators)} 1",
        f"{u}.s || {v}.s LIKE {draw(st.sampled_from(_LIKE))}",
        f"ROUND({u}.y - {v}.y) = {u}.x",
    ]
    if about.period is None:
        choices += [f"{v}.ts - {u}.ts < 3", f"{v}.ts - {u}.ts >= 2 ms", f"({v}.ts - {u}.ts) / 1 ms > 1.5"]
        choices += [f"{u}.ts + {v}.x * 1 ms > {v}.ts", f"{v}.ts - {u}.ts = {u}.x * 2 ms"]
    else:
        p = about.period
        choices += [f"{v}.ts - {u}.ts < 3 {p}", f"({v}.ts - {u}.ts) / 1 {p} > 1.5", f"{u}.ts + 2 {p} > {v}.ts"]
        choices += [f"({v}.ts - {u}.ts) % 2 {p} = 0 s", f"{v}.ts != {u}.ts"]
        choices += [f"{v}.ts - {u}.ts < {v}.d"] if about.durations else []
    if about.durations:
        choices += [f"{u}.d {draw(_comparators)} {v}.d", f"{u}.d - {v}.d > 1 s", f"{u}.d / {v}.d > 1"]
    return draw(st.sampled_from(choices))


@st.composite
def _wholes(draw: st.DrawFn, variables: Sequence[str], named: Sequence[str]) -> str:
    """A predicate that could be written as several but is one, and so belongs to the negation of the variable it names, if any."""
    u, v, n = draw(st.sampled_from(variables)), draw(st.sampled_from(variables)), draw(st.sampled_from(named))
    a, b, c = (draw(st.sampled_from(NUMBERS)) for _ in range(3))
    choices = [
        f"{u}.{a} BETWEEN 1 AND {n}.{b}",
        f"{u}.{a} BETWEEN {v}.{b} AND {n}.{c}",
        f"{n}.{a} BETWEEN {u}.{b} AND 2",
        f"1 BETWEEN {u}.{a} AND {n}.{b}",
        f"{u}.{a} NOT BETWEEN {n}.{b} AND {v}.{c}",
        f"NOT ({u}.{a} NOT BETWEEN 0 AND {n}.{b})",
        f"NOT ({u}.{a} < 1 OR {n}.{b} < 1)",
        f"NOT ({u}.id != {n}.id OR {v}.{a} {draw(_comparators)} {draw(st.integers(-2, 3))})",
        f"NOT ({u}.s IS NULL OR {n}.x IN (0, 1) OR NOT {v}.f)",
        f"({u}.{a} > 0 OR {n}.{b} BETWEEN 0 AND {v}.{c})",
    ]
    return draw(st.sampled_from(choices))


@st.composite
def _values(draw: st.DrawFn, variables: Sequence[str], about: About) -> str:
    """Something to RETURN."""
    u, v = draw(st.sampled_from(variables)), draw(st.sampled_from(variables))
    a, b = draw(st.sampled_from(NUMBERS)), draw(st.sampled_from(NUMBERS))
    choices = [
        f"{u}.{draw(st.sampled_from(['id', 'x', 'y', 's', 'f', 'type', 'ts', 'w', 'u', 'c', 'k']))}",
        f"{u}.ts - {v}.ts",
        f"{u}.{a} {draw(st.sampled_from(['+', '-', '*', '/']))} {v}.{b}",
        f"-{u}.{a} % 2",
        f"({u}.x + 1) * {v}.x - 3",
        f"{u}.x > {v}.x OR {u}.s LIKE 'p'",
        f"COALESCE({u}.x, {v}.x)",
        f"CASE WHEN {u}.{a} > {v}.{b} THEN {u}.s ELSE {v}.s || '!' END",
        f"ABS({u}.x - {v}.y)",
        f"{u}.c {draw(st.sampled_from('+-*'))} {draw(st.sampled_from(['0.1', '3', f'{v}.x', f'{v}.c']))}",
    ]
    if about.period is not None:
        choices += [f"{u}.ts + 2 {about.period}", f"({u}.ts - {v}.ts) / 2"]
    else:
        choices += [f"({u}.ts - {v}.ts) / 1 s", f"{u}.ts + {v}.x * 1 ms"]
    if about.durations:
        choices += [f"{u}.d", f"{u}.d + {v}.d", f"{u}.d * 2", f"{u}.d / {v}.d", f"{u}.d % 1 s"]
    lists = {leaf.variable for leaf in about.repeated if leaf.is_list}
    if about.repeated and draw(st.booleans()):
        v = draw(st.sampled_from(about.repeated)).variable
        function = draw(st.sampled_from(["SUM", "AVG", "MIN", "MAX", "FIRST", "LAST"]))
        if v in variables:
            choices = [
                f"{function}({v}.{a})",
                f"COUNT({v})",
                f"{v}.{a}",
                f"{v}.s",
                f"LAST({v}.ts) - FIRST({v}.ts)",
                f"COUNT({v}) * 2",
            ]
    if {u, v} & lists and not choices[0].startswith(("SUM", "AVG", "MIN", "MAX", "FIRST", "LAST")):
        choices = [f"{u}.{a}", f"{v}.s", f"{u}.ts"]  # a list is returned as it is
    return draw(st.sampled_from(choices))


_LIKE = ["'p'", "'_'", "'%p%'", "'it''%'", "''", "'p_%'"]
_comparators = st.sampled_from(["=", "!=", "<", "<=", ">", ">="])
