"""The slow truth: what a query means, tried out combination by combination.

Idea: this module is the executable form of the design's page on meaning. It builds every instance of every expression from its
parts, keeps those that fit the window, and then walks the pattern once per candidate to ask of each predicate whether it is true
and of each negation whether something in its scope cancels the candidate. It knows the language's trees and nothing of plans and
kernels, so that agreement with the engine means something.

Cost: exponential in the length of the pattern; meant for streams of a dozen events.

Invariant: a match is a mapping from positive variables to their events, one unless the part is repeated; a variable of an OR branch
that was not taken, or of a part that is absent, is absent from it (and shown as None, or as no events, at the very end).

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
(m) Every instance of an operator has at least one event, also that of an operator inside another. A repeated variable without
    events (absent, or of an OR branch not taken) meets every predicate that names it event by event; as a list it is empty.
(n) The window is part of a STRICT: an event outside it ends a repetition. Where a NEXT could be over and could go on, it waits as
    long as the part it is in is greedy and has room, or a part after it is greedy.
(o) In the order of SKIP, a variable without events comes before one with some.
(p) KEEP PARTIAL: a negation is asked of a run where the parts next to it are bound; one at the end, of a match. The first that
    cancels tells how far the run got.
(q) A SEQ whose last part may be absent has no type it surely ends in: its triggers are the end times of its matches.
(r) Functions are SQL's, one value at a time (`oracle_functions`): null where an argument is, save those that are about null. CASE
    asks its conditions in order. What cannot be cast is null.
(s) A text next to a moment that names no zone is in that of the time column.
(t) Rows of RETURN DISTINCT are equal where their values are, as numbers or texts; null is equal to null. LIMIT n leaves n of the
    rows, or all where there are fewer; which is left open (`results` gives all).
(u) FIRST and LAST of matches are by their ends, then by their starts, then by the value; nulls are skipped. PERCENTILE is
    interpolated between two neighbours, and a double.
(v) EMIT PER d has a row for a bucket and a group only where a match of that group ends in it: there are no rows of zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from datetime import datetime, timedelta
from fractions import Fraction
from itertools import pairwise, product
from typing import Any

import oracle_functions as functions
from oracle_runs import Groups, Run, Runner, left_by_skip
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
    of_list,
    or_null,
    ticks,
    ticks_of,
    whole,
    zone_of,
)
from seqube.errors import Span
from seqube.language import mentions, tree
from seqube.language.names import group_name

Env = dict[
    str, tuple["Event", ...]
]  # positive variable -> events; for a negated instance x, its variables added to those outside it
AT, PREVIOUS = "@", "<"  # before a variable: the event of its list that is looked at, and the one before
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


Rows = int | None | tuple[int, ...]


def matches(query: tree.Query, events: Sequence[Event], hierarchy: Any = None, unit: str = "ms") -> list[dict[str, Rows]]:
    """Every match once, as positive variable -> row of its event (of a list, rows), or None where there is none."""
    found = [_rows(query, env) for _, env in _all_matches(query, events, hierarchy, unit)]
    return sorted(
        found, key=lambda match: [(row is None, row or 0) if not isinstance(row, tuple) else row for row in match.values()]
    )


def partial_runs(query: tree.Query, events: Sequence[Event], hierarchy: Any = None, unit: str = "ms") -> list[dict[str, Any]]:
    """Every run of a NEXT, as far as it got: its variables as `matches` gives them, and `start`, `end` and `reached`."""
    found = []
    for part in _partitions(query, events, hierarchy, unit):
        for run in part.runs(query.pattern):
            env, reached = part.partial(run)
            told = list(_flat(env))
            found.append({**_rows(query, env), "start": start(told), "end": end(told), "reached": reached})
    return found


def _rows(query: tree.Query, env: Env) -> dict[str, Rows]:
    rows: dict[str, Rows] = {}
    for leaf in mentions.positives(query.pattern):
        assert leaf.variable is not None
        bound = tuple(event.row for event in env.get(leaf.variable, ()))
        rows[leaf.variable] = bound if leaf.is_list else bound[0] if bound else None
    return rows


def results(query: tree.Query, events: Sequence[Event], hierarchy: Any = None, unit: str = "ms") -> list[Row]:
    """One row per match: RETURN's items, or `start`, `end` and each variable's event as a dict."""
    rows = []
    for part, env in _all_matches(query, events, hierarchy, unit):
        if query.returns:
            rows.append({str(output.name): part.value(output.value, env) for output in query.returns})
        else:
            row: Row = {"start": start(_flat(env)), "end": end(_flat(env))}
            for leaf in mentions.positives(query.pattern):
                told = [{"type": e.type, "ts": e.ts, **e.attributes} for e in env.get(str(leaf.variable), ())]
                row[str(leaf.variable)] = told if leaf.is_list else told[0] if told else None
            rows.append(row)
    return _distinct(rows) if query.is_distinct else rows


def _distinct(rows: list[Row]) -> list[Row]:
    found: list[Row] = []
    for row in rows:
        if row not in found:
            found.append(row)
    return found


def aggregates(query: tree.Query, events: Sequence[Event], hierarchy: Any = None, unit: str = "ms") -> list[Row]:
    """The rows of AGG with GROUP BY, HAVING and EMIT: `ts` (not with TOTAL), group columns, aggregates."""
    emit = query.emit or tree.Emit("trigger")
    partitions = _partitions(query, events, hierarchy, unit)
    rows: list[Row] = []
    if emit.when == "total":
        pairs = [(part, env) for part in partitions for env in part.matches()]
        rows += _report(query, pairs, _groups(query, pairs), {})
    elif emit.when == "per":
        assert emit.period is not None
        length = ticks(emit.period, unit)
        ended: dict[int, list[tuple[Partition, Env]]] = {}
        for part in partitions:
            for env in part.matches():
                ended.setdefault(int(end(_flat(env)) // length * length), []).append((part, env))
        for bucket in sorted(ended):
            rows += _report(query, ended[bucket], _groups(query, ended[bucket]), {"ts": bucket})
    elif emit.when == "every":
        assert emit.period is not None
        for t in _multiples(ticks(emit.period, unit), events):
            pairs = [(part, env) for part in partitions for env in part.until(t).matches_in_window_ending(t)]
            rows += _report(query, pairs, _groups(query, pairs), {"ts": t})
    else:
        for t in sorted({event.ts for part in partitions for event in part.events}):
            ending = [part.until(t) for part in partitions]
            pairs = [(part, env) for part in ending for env in part.matches_in_window_ending(t)]
            new = [(part, env) for part, env in pairs if end(_flat(env)) == t]
            last = _trigger_type(query)
            if last is None:
                reported = _groups(query, new) if new else []
            else:
                triggers = [(part, {last: (e,)}) for part in ending for e in part.events if e.ts == t and part.triggers(last, e)]
                if not triggers:
                    continue
                alone = all(mentions.variables_of(key) <= {last} for key in query.group_by)
                reported = _groups(query, triggers if alone else new)
            rows += _report(query, pairs, reported, {"ts": t})
    return rows


# ---------------------------------------------------------------- intervals and scopes


def start(events: Sequence[Event]) -> int:
    return min(event.ts for event in events)


def end(events: Sequence[Event]) -> int:
    return max(event.ts for event in events)


def _flat(env: Env) -> list[Event]:
    return [event for bound in env.values() for event in bound]


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
        places = {event: _place(self.query, event) for event in self.events}
        order = {place: rank for rank, place in enumerate(sorted(set(places.values())))}
        self.order = {event: order[places[event]] for event in self.events}  # one event is after another where it is larger
        self.repeated = mentions.quantifiers(self.query.pattern)
        self.counted = self.query.window.unit == "events"
        self.window = self.query.window.length if self.counted else ticks(self.query.window, self.unit)
        self.owned = _assign_predicates(self.query)
        self._instances: dict[tree.Pattern, list[Env]] = {}

    def until(self, t: int | Fraction) -> Partition:
        """This stream as it was at time t, with all events of time t."""
        return Partition(self.query, [event for event in self.events if event.ts <= t], self.hierarchy, self.unit, self.key)

    # -- matches

    def matches(self) -> Iterator[Env]:
        found = list(self._found())
        if self.query.skip is None:
            yield from found
        else:
            names = _variables(self.query)
            places = [tuple(tuple(self.number[e] for e in env.get(v, ())) for v in names) for env in found]
            yield from (found[n] for n in left_by_skip(self.query.skip, names, places))

    def _found(self) -> Iterator[Env]:
        pattern = self.query.pattern
        for env in self.instances(pattern):
            match = _flat(env)
            if self._fits_window(match):
                root = Scope((self._within_window_before(match),), (self._within_window_after(match),))
                if self.stands(pattern, env, root):
                    yield env

    def matches_in_window_ending(self, t: int | Fraction) -> Iterator[Env]:
        """The matches inside the window that ends at t, for a stream that ends at t."""
        for env in self.matches():
            if self.counted:
                inside = self._first(_flat(env)) > len(self.events) - 1 - self.window
            else:
                inside = start(_flat(env)) > t - self.window
            if inside:
                yield env

    def instances(self, node: tree.Pattern) -> list[Env]:
        """Every way to bind the positive components, by order and type alone."""
        if node not in self._instances:
            self._instances[node] = list(self._build(node))
        return self._instances[node]

    def _build(self, node: tree.Pattern) -> Iterator[Env]:
        if isinstance(node, tree.Type):
            yield from (
                self._lists(node) if node.quantifier is not None else ({str(node.variable): (e,)} for e in self._of_type(node))
            )
        elif isinstance(node, tree.Or):
            for branch in node.parts:
                yield from self.instances(branch)
        elif isinstance(node, tree.Next | tree.Strict):
            yield from (_bound(run.groups) for run in self.runs(node) if run.is_match)
        else:
            fits = self._follows if isinstance(node, tree.Seq) else _is_disjoint
            partial: list[Env] = [{}]
            for part in node.parts:
                if not isinstance(part, tree.Not):
                    partial = [{**env, **x} for env in partial for x in self.instances(part) if fits(env, x)]
            yield from (env for env in partial if env)

    def _of_type(self, node: tree.Type) -> list[Event]:
        return [event for event in self.events if self.is_of(event, node.name)]

    def is_of(self, event: Event, name: str) -> bool:
        """Whether an event is of a type: ANY, a defined one, or a name at or above the event's own."""
        if name == "ANY":
            return True
        for definition in self.query.definitions:
            if definition.name == name:
                conditions = (tree.transform(condition, _of_one) for condition in definition.where)
                return self.is_of(event, definition.type) and all(self.holds(each, {"": (event,)}) for each in conditions)
        return event.type in _at_or_below(name, self.hierarchy)

    def _lists(self, node: tree.Type) -> Iterator[Env]:
        """Every list of events of a type, each after the one before."""
        assert node.quantifier is not None
        assert node.variable is not None
        grown: list[tuple[Event, ...]] = [()]
        for length in range(len(self.events) + 1):
            if length >= node.quantifier.least and (node.quantifier.most is None or length <= node.quantifier.most):
                yield from ({node.variable: events} if events else {} for events in grown)
            grown = [(*events, e) for events in grown for e in self._of_type(node) if not events or self.after(events[-1], e)]
            grown = [events for events in grown if self._fits_window(list(events))]

    def after(self, first: Event, second: Event) -> bool:
        return self.order[first] < self.order[second]

    def _follows(self, env: Env, x: Env) -> bool:
        return not env or not x or self._end(_flat(env)) < self._start(_flat(x))

    def _start(self, events: Sequence[Event]) -> int:
        """Where events begin in the order in which one is after another."""
        return min(self.order[event] for event in events)

    def _end(self, events: Sequence[Event]) -> int:
        return max(self.order[event] for event in events)

    # -- runs

    def runs(self, node: tree.Pattern) -> list[Run]:
        assert isinstance(node, tree.Next | tree.Strict)
        parts = [part for part in node.parts if isinstance(part, tree.Type | tree.Or)]
        runner = Runner(
            parts,
            self.events,
            takes=lambda leaf, event: self.is_of(event, leaf.name),
            after=self.after,
            in_window=lambda first, last: self._fits_window([first, last]),
            asks=lambda groups, over: self._asks(node, parts, groups, over),
        )
        return list(runner.next_runs() if isinstance(node, tree.Next) else runner.strict_runs())

    def _asks(self, node: tree.Part, parts: Sequence[tree.Part], groups: Groups, over: bool) -> bool:
        """Whether everything is true that can be asked of a run that has left all parts but the last of these, or all."""
        names = [{leaf.variable for leaf in mentions.positives(part)} for part in parts]
        seen = set().union(*(names if over else names[: len(groups)]))
        left = set().union(*(names if over else names[: len(groups) - 1]))
        env = _bound(groups)
        for predicate in self.owned.get(node, ()):
            if isinstance(predicate, SameAs):
                if not self.truth(replace(predicate, of=(node,)), env):
                    return False
            elif _by_event(predicate) <= seen and _by_list(predicate) <= left and not self.holds(predicate, env):
                return False
        return True

    def partial(self, run: Run) -> tuple[Env, int]:
        """What a run has bound, and how far it got: up to the first negation that cancels it."""
        pattern = self.query.pattern
        assert isinstance(pattern, tree.Next)
        env = _bound(run.groups)
        reached, number = (sum(not isinstance(part, tree.Not) for part in pattern.parts) if run.is_match else len(run.groups)), 0
        root = Scope((), (self._within_window_after(_flat(env)),))
        for i, part in enumerate(pattern.parts):
            if not isinstance(part, tree.Not):
                number += 1
                continue
            after = [other for other in pattern.parts[i + 1 :] if not isinstance(other, tree.Not) and _events(other, env)]
            if (after or run.is_match) and not self._part_stands(part, env, self._between(pattern.parts, i, env, root)):
                kept = [leaf.variable for other in pattern.parts[:i] for leaf in mentions.positives(other)]
                env = {variable: events for variable, events in env.items() if variable in kept}
                bound = [n for n, other in enumerate(_positive_parts(pattern), 1) if n <= number and _events(other, env)]
                return env, bound[-1]
        return env, reached

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
            case tree.Seq(parts) | tree.Next(parts) | tree.Strict(parts):
                return all(self._part_stands(part, env, self._between(parts, i, env, scope)) for i, part in enumerate(parts))
            case tree.And(parts):
                around = self._around(node, env, scope)
                return all(self._part_stands(part, env, around if isinstance(part, tree.Not) else scope) for part in parts)

    def _part_stands(self, part: tree.Part, env: Env, scope: Scope) -> bool:
        if not isinstance(part, tree.Not):
            return self.stands(part, env, scope)
        return not any(self._cancels(part, {**env, **x}, _flat(x), scope) for x in self.instances(part.part))

    def _cancels(self, negation: tree.Not, env: Env, x: list[Event], scope: Scope) -> bool:
        return scope.admits(x) and self._meets_predicates(negation, env) and self.stands(negation.part, env, scope)

    def _meets_predicates(self, owner: tree.Part, env: Env) -> bool:
        return all(self.holds(predicate, env) for predicate in self.owned.get(owner, ()))

    # -- scopes

    def _between(self, parts: tuple[tree.Part, ...], i: int, env: Env, inherited: Scope) -> Scope:
        """The scope at position i of a SEQ: up to the nearest positive neighbours, else as inherited."""
        before = [part for part in parts[:i] if not isinstance(part, tree.Not) and _events(part, env)]
        after = [part for part in parts[i + 1 :] if not isinstance(part, tree.Not) and _events(part, env)]
        ends, starts = self._end(_events(before[-1], env)) if before else 0, self._start(_events(after[0], env)) if after else 0
        left: tuple[Condition, ...] = (lambda x: self._start(x) > ends,) if before else inherited.left
        right: tuple[Condition, ...] = (lambda x: self._end(x) < starts,) if after else inherited.right
        return Scope(left, right)

    def _around(self, node: tree.And, env: Env, inherited: Scope) -> Scope:
        """The scope of a negation in AND: the window that ends with its last event, inside what is inherited."""
        match = _events(node, env)
        ends = self._end(match)
        return Scope((self._within_window_before(match), *inherited.left), (lambda x: self._end(x) <= ends, *inherited.right))

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
        own = [p for p in whole if _by_event(p) == {last} and not _by_list(p) and not _asks_before(p)]
        types = [leaf for leaf in mentions.positives(pattern) if leaf.variable == last]
        return self.is_of(event, types[0].name) and all(self.holds(p, {last: (event,)}) for p in own)

    def holds(self, predicate: tree.Predicate | SameAs, env: Env) -> bool:
        """Whether a predicate is true of every event of the lists it names; where it asks for the one before, but the first."""
        if isinstance(predicate, SameAs):
            return bool(self.truth(predicate, env))
        lists = sorted(_by_event(predicate) & self.repeated.keys())
        before = _asks_before(predicate)
        ways = [list(pairwise(env.get(v, ()))) if v in before else [(e, e) for e in env.get(v, ())] for v in lists]
        return all(
            self.truth(
                predicate,
                {**env, **{PREVIOUS + v: (old,) for v, (old, _) in zip(lists, way, strict=True)}}
                | {AT + v: (e,) for v, (_, e) in zip(lists, way, strict=True)},
            )
            is True
            for way in product(*ways)
        )

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
                bound = env.get(AT + variable, env.get(variable, ()))
                told = [self._told(event, name) for event in bound]
                whole = variable in self.repeated and self.repeated[variable].is_list and AT + variable not in env
                return told if whole else told[0] if told else None
            case tree.Prev(tree.Attribute(variable, name)):
                return self._told(env[f"{PREVIOUS}{variable}"][0], name)
            case tree.AtLevel(argument, level):
                name = self.value(argument, env)
                path = _path(name, self.hierarchy)
                return path[level - 1] if level <= len(path) else name
            case tree.OfList(function, tree.Attribute(variable, name)):
                return of_list(function, [self._told(event, name) for event in env.get(str(variable), ())])
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
            case tree.Call(
                "EXTRACT" | "DATE_TRUNC" as function, (tree.Literal(part), operand)
            ):  # by the clocks of the time's own zone
                moment = self.value(operand, env, names)
                return moment and functions.call(function, [part, moment.astimezone(zone_of(self.unit))])
            case tree.Call(function, arguments):
                return functions.call(function, [self.value(argument, env, names) for argument in arguments])
        raise TypeError(f"not a value of one match: {node}")

    def _told(self, event: Event, name: str) -> Any:
        if name == tree.TIME_ATTRIBUTE and self.unit == MOMENTS:
            return EPOCH + timedelta(microseconds=event.ts)
        return event.get(name)

    def alike(self, left: Any, right: Any) -> tuple[Any, Any]:
        """A period that meets a number is one, and a text that meets a moment is one."""
        if isinstance(left, Period) and is_number(right):
            return ticks_of(left, self.unit), right
        if isinstance(right, Period) and is_number(left):
            return left, ticks_of(right, self.unit)
        if isinstance(left, datetime) and isinstance(right, str):
            moment = datetime.fromisoformat(right)
            return left, moment if moment.tzinfo else moment.replace(tzinfo=zone_of(self.unit))
        return left, right


def _all_matches(query: tree.Query, events: Sequence[Event], hierarchy: Any, unit: str) -> list[tuple[Partition, Env]]:
    return [(part, env) for part in _partitions(query, events, hierarchy, unit) for env in part.matches()]


def _partitions(query: tree.Query, events: Sequence[Event], hierarchy: Any, unit: str) -> list[Partition]:
    """The streams of the query; an event with a null key is in none."""
    split: dict[tuple[Any, ...], list[Event]] = {}
    for event in sorted(events, key=lambda event: _place(query, event)):
        key = tuple(event.get(name) for name in query.partition_by)
        if None not in key:
            split.setdefault(key, []).append(event)
    return [Partition(query, part, hierarchy, unit, dict(zip(query.partition_by, key, strict=True))) for key, part in split.items()]


def _place(query: tree.Query, event: Event) -> tuple[Any, ...]:
    """Where an event stands in its stream but for ties: by time, then by the columns of ORDER BY, nulls last."""
    values = [event.get(name) for name in query.order_by]
    return (event.ts, *((value is None, 0 if value is None else value) for value in values))


def _assign_predicates(query: tree.Query) -> dict[tree.Part, list[tree.Predicate | SameAs]]:
    """Every predicate with the operator or negation that it belongs to; WHERE stands at the root.

    One that names events of a single NEXT or STRICT, negated ones aside, is part of that.
    """
    owned: dict[tree.Part, list[tree.Predicate | SameAs]] = {}
    runs = [node for node in tree.walk(query.pattern) if isinstance(node, tree.Next | tree.Strict)]

    def visit(node: tree.Pattern, standing: tuple[tree.Predicate, ...], around: tuple[tree.Not, ...]) -> None:
        for predicate in standing:
            if isinstance(predicate, tree.Same):
                owned.setdefault(node, []).append(SameAs(predicate.attribute, (node,)))
                for negation in _negations(node):
                    owned.setdefault(negation, []).append(SameAs(predicate.attribute, (node, negation.part)))
                for run in tree.walk(node):
                    if isinstance(run, tree.Next | tree.Strict) and run is not node:
                        owned.setdefault(run, []).append(SameAs(predicate.attribute, (run,)))
            else:
                named = mentions.variables_of(predicate)
                paths = [around, *(_negations_above(query.pattern, variable) for variable in named)]
                innermost = max(paths, key=len)
                assert all(innermost[: len(path)] == path for path in paths), "a predicate on two different negations"
                owner: tree.Part = innermost[-1] if len(innermost) > len(around) else node
                inside = [run for run in runs if named and named <= {leaf.variable for leaf in mentions.positives(run)}]
                owned.setdefault(inside[-1] if inside else owner, []).append(predicate)
        for part in () if isinstance(node, tree.Type) else node.parts:
            child, inner = (part.part, (*around, part)) if isinstance(part, tree.Not) else (part, around)
            visit(child, () if isinstance(child, tree.Type) else child.where, inner)

    visit(query.pattern, query.where + (() if isinstance(query.pattern, tree.Type) else query.pattern.where), ())
    return owned


def _by_event(node: Any) -> set[str]:
    """The variables that a value or predicate names event by event."""
    if isinstance(node, tree.OfList):
        return set()
    if isinstance(node, tree.Attribute):
        return {node.variable} if node.variable is not None else set()
    return set().union(*map(_by_event, tree.children(node)))


def _by_list(node: Any) -> set[str | None]:
    """The variables whose lists it asks for as wholes."""
    return {part.argument.variable for part in tree.walk(node) if isinstance(part, tree.OfList)}


def _asks_before(node: Any) -> set[str | None]:
    """The variables of which it asks for the event before."""
    return {part.argument.variable for part in tree.walk(node) if isinstance(part, tree.Prev)}


def _bound(groups: Groups) -> Env:
    env: Env = {}
    for group in groups:
        for variable, event in group:
            env[variable] = (*env.get(variable, ()), event)
    return env


def _positive_parts(pattern: tree.Next) -> list[tree.Part]:
    return [part for part in pattern.parts if not isinstance(part, tree.Not)]


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
        if any(leaf.variable == variable for leaf in mentions.leaves(part)):
            return _negations_above(part, variable)
    return ()


def _events(node: tree.Pattern, env: Env) -> list[Event]:
    """The events of an instance of `node`: none for an OR branch that was not taken."""
    return [event for leaf in mentions.positives(node) for event in env.get(str(leaf.variable), ())]


def _is_disjoint(env: Env, x: Env) -> bool:
    return not set(_flat(env)) & set(_flat(x))


def _variables(query: tree.Query) -> list[str]:
    return [leaf.variable for leaf in mentions.positives(query.pattern) if leaf.variable is not None]


def _of_one(node: Any) -> Any:
    """A bare attribute as one of the only event there is."""
    return tree.Attribute("", node.name) if isinstance(node, tree.Attribute) else node


def _at_or_below(name: str, hierarchy: Any) -> set[str]:
    """A type's name and those of its descendants. The hierarchy is nested mappings and lists, as in its YAML file."""
    found = {name}
    for parent, children in _concepts(hierarchy):
        if parent == name:
            found |= {child for child, _ in _concepts(children)}
    return found


def _path(name: str | None, hierarchy: Any) -> list[str]:
    """The names from the top of the hierarchy down to this one: wider ones cover more."""
    above = [concept for concept, _ in _concepts(hierarchy) if concept != name and name in _at_or_below(concept, hierarchy)]
    return [*sorted(above, key=lambda concept: -len(_at_or_below(concept, hierarchy))), *([] if name is None else [name])]


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
    return last.variable if isinstance(last, tree.Type) and not last.is_optional else None


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
        names = [group_name(key, number) for number, key in enumerate(query.group_by, 1)]
        columns = dict(zip(names, group, strict=True))
        for output in query.aggregates:
            columns[str(output.name)] = calculator.value(_computed(output.value, members), {}, columns)
        if all(calculator.truth(_computed(predicate, members), {}, columns) is True for predicate in query.having):
            rows.append({**head, **columns})
    return rows


def _computed(node: Any, members: list[tuple[Partition, Env]]) -> Any:
    """A value or predicate of AGG or HAVING, its aggregates replaced by what they are and group keys by their columns' names."""
    match node:
        case tree.Aggregate(function, argument, share=share):
            return tree.Literal(_aggregate(function, argument, members, share.value if isinstance(share, tree.Literal) else None))
        case tree.Attribute():
            return tree.Attribute(None, _column(node))
        case tuple():
            return tuple(_computed(item, members) for item in node)
    if is_dataclass(node) and not isinstance(node, type | Span):
        return replace(node, **{f.name: _computed(getattr(node, f.name), members) for f in fields(node)})
    return node


def _aggregate(function: str, argument: tree.Value | None, members: list[tuple[Partition, Env]], share: Any = None) -> Any:
    if argument is None:
        return len(members) if function == "COUNT" else float(len(members))
    if function in ("FIRST", "LAST"):
        return _at_an_end(function, argument, members)
    told = [part.value(argument, env) for part, env in members]  # of a list, its values
    values = [value for each in told for value in (each if isinstance(each, list) else [each]) if value is not None]
    if function in ("COUNT", "COUNT DISTINCT"):
        return len(values) if function == "COUNT" else len(set(values))
    if not values:
        return None
    if function in ("MEDIAN", "PERCENTILE"):
        return _percentile(values, 0.5 if share is None else share)
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


def _at_an_end(function: str, argument: tree.Value, members: list[tuple[Partition, Env]]) -> Any:
    """The value of the match that ended first; of those together, that began first; of those, the least. LAST: the contrary."""
    told = [(end(_flat(env)), start(_flat(env)), part.value(argument, env)) for part, env in members]
    known = [(e, s, value) for e, s, each in told for value in (each if isinstance(each, list) else [each]) if value is not None]
    return None if not known else min(known)[2] if function == "FIRST" else max(known)[2]


def _percentile(values: list[Any], share: float) -> Any:
    """Between two neighbours in proportion, as doubles."""
    is_duration = isinstance(values[0], timedelta)
    doubles = sorted(float(value // MICROSECOND if is_duration else value) for value in values)
    place = share * (len(doubles) - 1)
    low = math.floor(place)
    below, above = doubles[low], doubles[min(low + 1, len(doubles) - 1)]
    found = below if place == low or below == above else below + (above - below) * (place - low)
    return timedelta(microseconds=round(found)) if is_duration else found


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
