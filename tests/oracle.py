"""The slow truth: what a query means, tried out combination by combination.

Idea: this module is the executable form of the design's page on meaning. It builds every instance of every expression from its
parts, keeps those that fit the window, and then walks the pattern once per candidate to ask of each predicate whether it is true
and of each negation whether something in its scope cancels the candidate. It knows the language's trees and nothing of plans and
kernels, so that agreement with the engine means something.

Cost: exponential in the length of the pattern; meant for streams of a dozen events.

Invariant: a match is a mapping from positive variables to events; a variable of an OR branch that was not taken is absent from it
(and shown as None at the very end).

What the page on meaning leaves open is decided here:

(a) Bounds inherited through AND and OR pass unchanged: neither puts its components in an order. A SEQ inside an AND with a leading
    or trailing negation inherits from where the AND stands.
(b) A negation directly in AND looks at `ts(x) > te(AND) - W` and `te(x) <= te(AND)`, and at the bounds inherited from outside.
    It is cancelled by any such x, also by one made of events that fill positive components.
(c) Inside a negated expression, the inherited bounds are that negation's own scope, its closed right bound (AND) included.
(d) With `WITHIN n EVENTS`, bounds made from W are in event numbers: first number of x > number(last) - n, last number of x <
    number(first) + n. All other bounds, and AND's right bound, stay in time.
(e) `[id]` at an operator: the events of its positive components have equal non-null ids (a single event has nothing to be compared
    with), and an instance of any negation below it, however deep, counts only with that same id on all its events.
(f) NaN is null. Division by zero is null, `/` is the quotient of doubles, `%` has the sign of the dividend. Comparisons are exact.
    A result of integers is exact where it fits into 64 bits with a sign, else it is computed in doubles. Decimals are exact, and
    integers and numbers of the query (as they are written) are decimals next to one; a decimal next to another double is a double.
    A mean is a double; that of durations, and a duration by a number, is rounded to the microsecond. VARIANCE and STDDEV are those
    of a sample: null with fewer than two values, or where a value is infinite; exact up to the double that they are.
(g) A predicate belongs to the innermost negation among those its variables stand under, wherever it stands, else to the operator it
    stands in. In an OR branch that was not taken an operator's own predicates do not apply; a negation outside the branch keeps
    those that belong to it, and there the branch's variables are null.
(h) Aggregates are grouped by GROUP BY alone: PARTITION BY restricts what matches, it does not split the result.
(i) An emission at t looks at the matches of the events up to and including t ("not cancelled up to t"). In a tuple-count window,
    the window that ends at t is the last n events (of the partition) with timestamps up to t.
(j) EMIT EVERY d reports at the multiples of d from the first at or after the first event to the first at or after the last event of
    the input: no event is left out of the last report. Without GROUP BY there is a row also where there is no match.
(k) Null is a group of its own, as in SQL.
(l) Where times are integers, a period of the query (`10 ms`) that meets a number is one, in their unit.
(m) Functions are SQL's, one value at a time (`oracle_functions`): null where an argument is, save those that are about null. CASE
    asks its conditions in order. What cannot be cast is null.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any

import oracle_functions as functions
from oracle_values import (
    EPOCH,
    MICROSECOND,
    MOMENTS,
    Period,
    Written,
    all_same,
    all_true,
    any_true,
    calculate,
    compare,
    decimal_of,
    inverse,
    is_number,
    or_null,
    ticks,
    ticks_of,
    whole,
)
from seqube.errors import Span
from seqube.language import tree

Env = dict[str, "Event"]  # positive variable -> event; for a negated instance x, its variables added to those outside it
Row = dict[str, Any]
Condition = Callable[[Sequence["Event"]], bool]


@dataclass(frozen=True, eq=False)
class Event:
    """One event. `row` is its position in the stream, by which matches are told apart."""

    type: str
    ts: int
    attributes: Mapping[str, Any] = field(default_factory=dict)
    row: int = 0

    def get(self, name: str) -> Any:
        if name == tree.TYPE_ATTRIBUTE:
            return self.type
        return self.ts if name == tree.TIME_ATTRIBUTE else or_null(self.attributes.get(name))


def stream(*events: tuple[Any, ...]) -> list[Event]:
    """Events from `(type, ts)` or `(type, ts, {attributes})`, in stream order and numbered by it."""
    ordered = sorted(events, key=lambda event: event[1])
    return [Event(event[0], event[1], event[2] if len(event) > 2 else {}, row) for row, event in enumerate(ordered)]


# ---------------------------------------------------------------- what is asked of it


def matches(query: tree.Query, events: Sequence[Event], hierarchy: Any = None, unit: str = "ms") -> list[dict[str, int | None]]:
    """Every match once, as positive variable -> row of its event, or None where the OR branch was not taken."""
    variables = _variables(query)
    found = [{v: env[v].row if v in env else None for v in variables} for _, env in _all_matches(query, events, hierarchy, unit)]
    return sorted(found, key=lambda match: [(row is None, row or 0) for row in match.values()])


def results(query: tree.Query, events: Sequence[Event], hierarchy: Any = None, unit: str = "ms") -> list[Row]:
    """One row per match: RETURN's items, or `start`, `end` and each variable's event as a dict."""
    rows = []
    for part, env in _all_matches(query, events, hierarchy, unit):
        if query.returns:
            rows.append({str(output.name): part.value(output.value, env) for output in query.returns})
        else:
            row: Row = {"start": start(list(env.values())), "end": end(list(env.values()))}
            for v in _variables(query):
                row[v] = {"type": env[v].type, "ts": env[v].ts, **env[v].attributes} if v in env else None
            rows.append(row)
    return rows


def aggregates(query: tree.Query, events: Sequence[Event], hierarchy: Any = None, unit: str = "ms") -> list[Row]:
    """The rows of AGG with GROUP BY, HAVING and EMIT: `ts` (not with TOTAL), group columns, aggregates."""
    emit = query.emit or tree.Emit("trigger")
    partitions = _partitions(query, events, hierarchy, unit)
    rows: list[Row] = []
    if emit.when == "total":
        pairs = [(part, env) for part in partitions for env in part.matches()]
        rows += _report(query, pairs, _groups(query, pairs), {})
    elif emit.when == "every":
        assert emit.every is not None
        for t in _multiples(ticks(emit.every, unit), events):
            pairs = [(part, env) for part in partitions for env in part.until(t).matches_in_window_ending(t)]
            rows += _report(query, pairs, _groups(query, pairs), {"ts": t})
    else:
        for t in sorted({event.ts for part in partitions for event in part.events}):
            ending = [part.until(t) for part in partitions]
            pairs = [(part, env) for part in ending for env in part.matches_in_window_ending(t)]
            new = [(part, env) for part, env in pairs if end(list(env.values())) == t]
            last = _trigger_type(query)
            if last is None:
                reported = _groups(query, new) if new else []
            else:
                triggers = [(part, {last: e}) for part in ending for e in part.events if e.ts == t and part.triggers(last, e)]
                if not triggers:
                    continue
                alone = all(key.variable in (last, None) for key in query.group_by)
                reported = _groups(query, triggers if alone else new)
            rows += _report(query, pairs, reported, {"ts": t})
    return rows


# ---------------------------------------------------------------- intervals and scopes


def start(events: Sequence[Event]) -> int:
    return min(event.ts for event in events)


def end(events: Sequence[Event]) -> int:
    return max(event.ts for event in events)


@dataclass(frozen=True)
class Scope:
    """Where a negated instance counts: conditions on its left and on its right side, all of which must hold."""

    left: tuple[Condition, ...]
    right: tuple[Condition, ...]

    def admits(self, x: Sequence[Event]) -> bool:
        return all(condition(x) for condition in (*self.left, *self.right))


def _starts_after(time: int | Fraction) -> Condition:
    return lambda x: start(x) > time


def _ends_before(time: int | Fraction) -> Condition:
    return lambda x: end(x) < time


def _ends_by(time: int) -> Condition:
    return lambda x: end(x) <= time


# ---------------------------------------------------------------- one stream


@dataclass(frozen=True)
class SameAs:
    """What `[id]` asks of an operator's own events, and of these together with an instance of a negation below it."""

    attribute: str
    of: tuple[tree.Pattern, ...]


@dataclass
class Partition:
    """One stream of its own: all the events, or those of one partition key, numbered 0, 1, 2 ..."""

    query: tree.Query
    events: list[Event]
    hierarchy: Any
    unit: str
    key: Mapping[str, Any]

    def __post_init__(self) -> None:
        self.number = {event: number for number, event in enumerate(self.events)}
        self.counted = self.query.window.unit == "events"
        self.window = self.query.window.length if self.counted else ticks(self.query.window, self.unit)
        self.owned = _assign_predicates(self.query)
        self._instances: dict[tree.Pattern, list[Env]] = {}

    def until(self, t: int | Fraction) -> Partition:
        """This stream as it was at time t, with all events of time t."""
        return Partition(self.query, [event for event in self.events if event.ts <= t], self.hierarchy, self.unit, self.key)

    # -- matches

    def matches(self) -> Iterator[Env]:
        pattern = self.query.pattern
        for env in self.instances(pattern):
            match = list(env.values())
            if self._fits_window(match):
                root = Scope((self._within_window_before(match),), (self._within_window_after(match),))
                if self.stands(pattern, env, root):
                    yield env

    def matches_in_window_ending(self, t: int | Fraction) -> Iterator[Env]:
        """The matches inside the window that ends at t, for a stream that ends at t."""
        for env in self.matches():
            if self.counted:
                inside = self._first(list(env.values())) > len(self.events) - 1 - self.window
            else:
                inside = start(list(env.values())) > t - self.window
            if inside:
                yield env

    def instances(self, node: tree.Pattern) -> list[Env]:
        """Every way to bind the positive components, by order and type alone."""
        if node not in self._instances:
            self._instances[node] = list(self._build(node))
        return self._instances[node]

    def _build(self, node: tree.Pattern) -> Iterator[Env]:
        if isinstance(node, tree.Type):
            assert node.variable is not None
            names = _at_or_below(node.name, self.hierarchy)
            yield from ({node.variable: event} for event in self.events if event.type in names)
        elif isinstance(node, tree.Or):
            for branch in node.parts:
                yield from self.instances(branch)
        else:
            fits = _follows if isinstance(node, tree.Seq) else _is_disjoint
            partial: list[Env] = [{}]
            for part in node.parts:
                if not isinstance(part, tree.Not):
                    partial = [{**env, **x} for env in partial for x in self.instances(part) if fits(env, x)]
            yield from partial

    def stands(self, node: tree.Pattern, env: Env, scope: Scope) -> bool:
        """Whether the instance of `node` in `env` meets its predicates and is cancelled by none of its negations.

        `scope` holds the bounds inherited from where the node stands.
        """
        if not self._meets_predicates(node, env):
            return False
        match node:
            case tree.Type():
                return True
            case tree.Or(parts):
                return all(self.stands(part, env, scope) for part in parts if _events(part, env))
            case tree.Seq(parts):
                return all(self._part_stands(part, env, self._between(parts, i, env, scope)) for i, part in enumerate(parts))
            case tree.And(parts):
                around = self._around(node, env, scope)
                return all(self._part_stands(part, env, around if isinstance(part, tree.Not) else scope) for part in parts)

    def _part_stands(self, part: tree.Part, env: Env, scope: Scope) -> bool:
        if not isinstance(part, tree.Not):
            return self.stands(part, env, scope)
        return not any(self._cancels(part, {**env, **x}, list(x.values()), scope) for x in self.instances(part.part))

    def _cancels(self, negation: tree.Not, env: Env, x: list[Event], scope: Scope) -> bool:
        return scope.admits(x) and self._meets_predicates(negation, env) and self.stands(negation.part, env, scope)

    def _meets_predicates(self, owner: tree.Part, env: Env) -> bool:
        return all(self.truth(predicate, env) is True for predicate in self.owned.get(owner, ()))

    # -- scopes

    def _between(self, parts: tuple[tree.Part, ...], i: int, env: Env, inherited: Scope) -> Scope:
        """The scope at position i of a SEQ: up to the nearest positive neighbours, else as inherited."""
        before = [part for part in parts[:i] if not isinstance(part, tree.Not)]
        after = [part for part in parts[i + 1 :] if not isinstance(part, tree.Not)]
        left = (_starts_after(end(_events(before[-1], env))),) if before else inherited.left
        right = (_ends_before(start(_events(after[0], env))),) if after else inherited.right
        return Scope(left, right)

    def _around(self, node: tree.And, env: Env, inherited: Scope) -> Scope:
        """The scope of a negation in AND: the window that ends with its last event, inside what is inherited."""
        match = _events(node, env)
        return Scope((self._within_window_before(match), *inherited.left), (_ends_by(end(match)), *inherited.right))

    def _within_window_before(self, match: list[Event]) -> Condition:
        if self.counted:
            return lambda x: self._first(x) > self._last(match) - self.window
        return _starts_after(end(match) - self.window)

    def _within_window_after(self, match: list[Event]) -> Condition:
        if self.counted:
            return lambda x: self._last(x) < self._first(match) + self.window
        return _ends_before(start(match) + self.window)

    def _fits_window(self, match: list[Event]) -> bool:
        span = self._last(match) - self._first(match) if self.counted else end(match) - start(match)
        return span < self.window

    def _first(self, events: Sequence[Event]) -> int:
        return min(self.number[event] for event in events)

    def _last(self, events: Sequence[Event]) -> int:
        return max(self.number[event] for event in events)

    # -- predicates, with SQL's three values: True, False and None for unknown

    def triggers(self, last: str, event: Event) -> bool:
        """Whether an event of the last positive type passes that type's own predicates."""
        pattern = self.query.pattern
        whole = [p for p in self.owned.get(pattern, ()) if not isinstance(p, SameAs)]
        own = [p for p in whole if {a.variable for a in tree.attributes(p)} == {last}]
        types = [leaf for leaf in tree.positives(pattern) if leaf.variable == last]
        return event.type in _at_or_below(types[0].name, self.hierarchy) and all(self.truth(p, {last: event}) is True for p in own)

    def truth(self, predicate: tree.Predicate | SameAs, env: Env, names: Mapping[str, Any] | None = None) -> bool | None:
        def value(node: tree.Value) -> Any:
            return self.value(node, env, names)

        match predicate:
            case tree.Comparison(op, left, right):
                return compare(op, *self.alike(value(left), value(right)))
            case tree.Among(operand, values, negated):
                verdict = any_true([compare("=", *self.alike(value(operand), value(v))) for v in values])
                return inverse(verdict) if negated else verdict
            case tree.Between(operand, low, high, negated):
                x = value(operand)
                verdict = all_true([compare(">=", *self.alike(x, value(low))), compare("<=", *self.alike(x, value(high)))])
                return inverse(verdict) if negated else verdict
            case tree.IsNull(operand, negated):
                return (value(operand) is None) != negated
            case tree.IsTrue(operand):
                x = value(operand)
                return None if x is None else bool(x)
            case tree.AllOf(parts):
                return all_true([self.truth(part, env, names) for part in parts])
            case tree.AnyOf(parts):
                return any_true([self.truth(part, env, names) for part in parts])
            case tree.Inverse(part):
                return inverse(self.truth(part, env, names))
            case SameAs(attribute, of):
                return all_same([event.get(attribute) for node in of for event in _events(node, env)])
        raise TypeError(f"not a bound predicate: {predicate}")

    def value(self, node: tree.Value, env: Env, names: Mapping[str, Any] | None = None) -> Any:
        """A value over the events in `env`; bare names are partition keys, or in HAVING the columns in `names`."""
        match node:
            case tree.Literal(constant):
                return Written(constant) if isinstance(constant, float) and names is None else or_null(constant)
            case tree.Duration(microseconds):
                return Period(microseconds=microseconds)
            case tree.Attribute(None, name):
                return (self.key if names is None else names)[name]
            case tree.Attribute(variable, name):
                assert variable is not None
                if name == tree.TIME_ATTRIBUTE and self.unit == MOMENTS and variable in env:
                    return EPOCH + timedelta(microseconds=env[variable].ts)
                return env[variable].get(name) if variable in env else None
            case tree.Minus(operand):
                x = self.value(operand, env, names)
                return None if x is None else calculate("-", timedelta(0) if isinstance(x, timedelta) else 0, x)
            case tree.Arithmetic(op, left, right):
                return calculate(op, *self.alike(self.value(left, env, names), self.value(right, env, names)))
            case tree.Condition(predicate):
                return self.truth(predicate, env, names)
            case tree.Call("CASE", arguments):
                for condition, chosen in zip(arguments[:-1:2], arguments[1::2], strict=True):
                    if self.value(condition, env, names) is True:
                        return self.value(chosen, env, names)
                return self.value(arguments[-1], env, names)
            case tree.Call("CAST", (operand, tree.Literal(made))):
                return functions.cast(self.value(operand, env, names), str(made))
            case tree.Call(function, arguments):
                return functions.call(function, [self.value(argument, env, names) for argument in arguments])
        raise TypeError(f"not a value of one match: {node}")

    def alike(self, left: Any, right: Any) -> tuple[Any, Any]:
        """A period that meets a number is one, and a text that meets a moment is one."""
        if isinstance(left, Period) and is_number(right):
            return ticks_of(left, self.unit), right
        if isinstance(right, Period) and is_number(left):
            return left, ticks_of(right, self.unit)
        if isinstance(left, datetime) and isinstance(right, str):
            return left, datetime.fromisoformat(right).replace(tzinfo=UTC)
        return left, right


def _all_matches(query: tree.Query, events: Sequence[Event], hierarchy: Any, unit: str) -> list[tuple[Partition, Env]]:
    return [(part, env) for part in _partitions(query, events, hierarchy, unit) for env in part.matches()]


def _partitions(query: tree.Query, events: Sequence[Event], hierarchy: Any, unit: str) -> list[Partition]:
    """The streams of the query; an event with a null key is in none."""
    split: dict[tuple[Any, ...], list[Event]] = {}
    for event in sorted(events, key=lambda event: event.ts):
        key = tuple(event.get(name) for name in query.partition_by)
        if None not in key:
            split.setdefault(key, []).append(event)
    return [Partition(query, part, hierarchy, unit, dict(zip(query.partition_by, key, strict=True))) for key, part in split.items()]


def _assign_predicates(query: tree.Query) -> dict[tree.Part, list[tree.Predicate | SameAs]]:
    """Every predicate with the operator or negation that it belongs to; WHERE stands at the root."""
    owned: dict[tree.Part, list[tree.Predicate | SameAs]] = {}

    def visit(node: tree.Pattern, standing: tuple[tree.Predicate, ...], around: tuple[tree.Not, ...]) -> None:
        for predicate in standing:
            if isinstance(predicate, tree.Same):
                owned.setdefault(node, []).append(SameAs(predicate.attribute, (node,)))
                for negation in _negations(node):
                    owned.setdefault(negation, []).append(SameAs(predicate.attribute, (node, negation.part)))
            else:
                paths = [around, *(_negations_above(query.pattern, a.variable) for a in tree.attributes(predicate))]
                innermost = max(paths, key=len)
                assert all(innermost[: len(path)] == path for path in paths), "a predicate on two different negations"
                owner = innermost[-1] if len(innermost) > len(around) else node
                owned.setdefault(owner, []).append(predicate)
        for part in () if isinstance(node, tree.Type) else node.parts:
            child, inside = (part.part, (*around, part)) if isinstance(part, tree.Not) else (part, around)
            visit(child, () if isinstance(child, tree.Type) else child.where, inside)

    visit(query.pattern, query.where + (() if isinstance(query.pattern, tree.Type) else query.pattern.where), ())
    return owned


def _negations(part: tree.Part) -> Iterator[tree.Not]:
    """Every negation below a part, however deep."""
    if isinstance(part, tree.Not):
        yield part
        yield from _negations(part.part)
    elif not isinstance(part, tree.Type):
        for child in part.parts:
            yield from _negations(child)


def _negations_above(node: tree.Part, variable: str | None) -> tuple[tree.Not, ...]:
    """The negations between `node` and the variable, from the outermost to the innermost."""
    if isinstance(node, tree.Type) or variable is None:
        return ()
    if isinstance(node, tree.Not):
        return (node, *_negations_above(node.part, variable))
    for part in node.parts:
        if any(leaf.variable == variable for leaf in tree.leaves(part)):
            return _negations_above(part, variable)
    return ()


def _events(node: tree.Pattern, env: Env) -> list[Event]:
    """The events of an instance of `node`: none for an OR branch that was not taken."""
    return [env[leaf.variable] for leaf in tree.positives(node) if leaf.variable is not None and leaf.variable in env]


def _follows(env: Env, x: Env) -> bool:
    return not env or end(list(env.values())) < start(list(x.values()))


def _is_disjoint(env: Env, x: Env) -> bool:
    return not set(env.values()) & set(x.values())


def _variables(query: tree.Query) -> list[str]:
    return [leaf.variable for leaf in tree.positives(query.pattern) if leaf.variable is not None]


def _at_or_below(name: str, hierarchy: Any) -> set[str]:
    """A type's name and those of its descendants. The hierarchy is nested mappings and lists, as in its YAML file."""
    found = {name}
    for parent, children in _concepts(hierarchy):
        if parent == name:
            found |= {child for child, _ in _concepts(children)}
    return found


def _concepts(hierarchy: Any) -> Iterator[tuple[str, Any]]:
    """Every name in a hierarchy with what is below it."""
    if isinstance(hierarchy, str):
        yield hierarchy, None
    elif isinstance(hierarchy, Mapping):
        for name, children in hierarchy.items():
            yield name, children
            yield from _concepts(children)
    else:
        for child in hierarchy or ():
            yield from _concepts(child)


# ---------------------------------------------------------------- aggregates


def _trigger_type(query: tree.Query) -> str | None:
    """The last positive component's variable where the pattern is a SEQ that ends in a type."""
    if not isinstance(query.pattern, tree.Seq):
        return None
    last = [part for part in query.pattern.parts if not isinstance(part, tree.Not)][-1]
    return last.variable if isinstance(last, tree.Type) else None


def _multiples(period: Fraction, events: Sequence[Event]) -> list[int | Fraction]:
    if not events:
        return []
    first, last = (math.ceil(bound(event.ts for event in events) / period) for bound in (min, max))
    return [whole(k * period) for k in range(first, last + 1)]


def _group(query: tree.Query, part: Partition, env: Env) -> tuple[Any, ...]:
    return tuple(part.value(key, env) for key in query.group_by)


def _groups(query: tree.Query, pairs: list[tuple[Partition, Env]]) -> list[tuple[Any, ...]]:
    """The distinct groups of some matches; without GROUP BY there is one, also when there is no match."""
    return list(dict.fromkeys(_group(query, part, env) for part, env in pairs)) if query.group_by else [()]


def _report(query: tree.Query, pairs: list[tuple[Partition, Env]], groups: list[tuple[Any, ...]], head: Row) -> list[Row]:
    rows = []
    calculator = Partition(query, [], None, "us", {})
    for group in groups:
        members = [(part, env) for part, env in pairs if _group(query, part, env) == group]
        columns = {_column(key): value for key, value in zip(query.group_by, group, strict=True)}
        for output in query.aggregates:
            columns[str(output.name)] = calculator.value(_computed(output.value, members), {}, columns)
        if all(calculator.truth(_computed(predicate, members), {}, columns) is True for predicate in query.having):
            rows.append({**head, **columns})
    return rows


def _computed(node: Any, members: list[tuple[Partition, Env]]) -> Any:
    """A value or predicate of AGG or HAVING, its aggregates replaced by what they are and group keys by their columns' names."""
    match node:
        case tree.Aggregate(function, argument):
            return tree.Literal(_aggregate(function, argument, members))
        case tree.Attribute():
            return tree.Attribute(None, _column(node))
        case tuple():
            return tuple(_computed(item, members) for item in node)
    if is_dataclass(node) and not isinstance(node, type | Span):
        return replace(node, **{f.name: _computed(getattr(node, f.name), members) for f in fields(node)})
    return node


def _aggregate(function: str, argument: tree.Attribute | None, members: list[tuple[Partition, Env]]) -> Any:
    if argument is None:
        return len(members)
    values = [value for part, env in members if (value := part.value(argument, env)) is not None]
    if function == "COUNT":
        return len(values)
    if not values:
        return None
    if function in ("MIN", "MAX"):
        return min(values) if function == "MIN" else max(values)
    if function in ("VARIANCE", "STDDEV"):
        return _spread(function, values)
    assert function in ("SUM", "AVG"), function
    if isinstance(values[0], float):
        total = math.fsum(values)
        return total if function == "SUM" else total / len(values)
    if isinstance(values[0], timedelta):
        microseconds = sum(value // MICROSECOND for value in values)
        return timedelta(microseconds=microseconds if function == "SUM" else round(microseconds / len(values)))
    if isinstance(values[0], int):
        return sum(values) if function == "SUM" else sum(values) / len(values)
    exact = sum(map(Fraction, values), Fraction(0))
    return decimal_of(exact) if function == "SUM" else float(exact / len(values))


def _spread(function: str, values: list[Any]) -> Any:
    """How far values lie apart: the mean of the squares of their distances from their mean, by one less than there are."""
    if len(values) < 2 or any(isinstance(value, float) and math.isinf(value) for value in values):
        return None
    numbers = [Fraction(value // MICROSECOND if isinstance(value, timedelta) else value) for value in values]
    mean = sum(numbers, Fraction(0)) / len(numbers)
    variance = sum(((number - mean) ** 2 for number in numbers), Fraction(0)) / (len(numbers) - 1)
    if function == "VARIANCE":
        return float(variance)
    deviation = math.sqrt(variance)
    return timedelta(microseconds=round(deviation)) if isinstance(values[0], timedelta) else deviation


def _column(attribute: tree.Attribute) -> str:
    return attribute.name if attribute.variable is None else f"{attribute.variable}_{attribute.name}"
