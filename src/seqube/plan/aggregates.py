"""What AGG asks for, as frozen data: the matches, what is measured over them, when it is reported, and for which groups.

A strategy computes `Measure`s (counts, sums, smallest and largest values) for cells, which are pairs of a group and a moment; means
and HAVING are made of measures afterwards. `chain_of` says whether a pattern can be counted without building its matches: a SEQ of
single events, with negated single events between them, tied together by nothing but order, window and one key.

    report    cells
    given     known from the events alone: every trigger, or every multiple of EMIT EVERY
    new       groups and moments at which a match ends
    present   groups with a match in the window, at every multiple of EMIT EVERY
    total     groups that have a match at all; the only one without GROUP BY
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal as OneOf

from seqube.events import Hierarchy
from seqube.language.tree import Aggregate, Attribute, Emit, Not, Output, Predicate, Query, Same, Seq, Type, Value
from seqube.plan.physical import Gap, KeyColumn, MatchPlan, MatchSequence, Scan
from seqube.plan.planner import named, plan_matches
from seqube.plan.rewrite import conjuncts

Report = OneOf["given", "new", "present", "total"]


@dataclass(frozen=True, slots=True)
class Measure:
    """A number (or value) per cell: how many matches, how many with a value, its sum, its smallest or largest."""

    function: OneOf["COUNT", "SUM", "MIN", "MAX"]
    argument: Attribute | None = None


MATCHES = Measure("COUNT")


@dataclass(frozen=True, slots=True)
class Choice:
    """A strategy that was considered: its estimated cost in seconds, or why it does not apply."""

    strategy: str
    seconds: float | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class AggregatePlan:
    """A query that returns aggregates."""

    matches: MatchPlan
    emit: Emit
    aggregates: tuple[Output, ...]
    group_by: tuple[Attribute, ...] = ()
    having: tuple[Predicate, ...] = ()
    trigger: Scan | None = None  # the events that ON TRIGGER reports at; None: wherever matches end
    strategy: str = "two-step"
    choices: tuple[Choice, ...] = ()

    @property
    def measures(self) -> tuple[Measure, ...]:
        """Everything that must be computed; the number of matches always is."""
        found = {MATCHES: None}
        for node in (*(output.value for output in self.aggregates), *self.having):
            for aggregate in _aggregates(node):
                if aggregate.function in ("SUM", "AVG"):  # without values they are null, and a mean divides by their number
                    found[Measure("COUNT", aggregate.argument)] = None
                    found[Measure("SUM", aggregate.argument)] = None
                else:
                    found[Measure(aggregate.function, aggregate.argument)] = None  # type: ignore[arg-type]
        return tuple(found)

    @property
    def report(self) -> Report:
        if self.emit.when == "total":
            return "total"
        if self.emit.when == "every":
            return "present" if self.group_by else "given"
        if self.trigger is None:
            return "new"
        decided = all(key.variable in (self.trigger.variable, None) for key in self.group_by)
        return "given" if decided else "new"


def plan_aggregates(query: Query, hierarchy: Hierarchy | None = None) -> AggregatePlan:
    """The plan of a query with AGG, by the strategy that is right for every pattern."""
    assert query.emit is not None, "the binder says when aggregates are reported"
    matches = plan_matches(query, hierarchy)
    trigger = _trigger(query, hierarchy) if query.emit.when == "trigger" else None
    return AggregatePlan(matches, query.emit, query.aggregates, query.group_by, query.having, trigger)


def _trigger(query: Query, hierarchy: Hierarchy | None) -> Scan | None:
    """The last positive component of a SEQ, if it is a type, with the predicates that name it alone."""
    if not isinstance(query.pattern, Seq):
        return None
    last = [part for part in query.pattern.parts if not isinstance(part, Not)][-1]
    if not isinstance(last, Type):
        return None
    assert last.variable is not None
    written = [p for p in (*query.where, *query.pattern.where) if not isinstance(p, Same) and named(p) == {last.variable}]
    filters = tuple(conjunct for predicate in written for conjunct in conjuncts(predicate))
    types = hierarchy.covers(last.name) if hierarchy else frozenset({last.name})
    return Scan(last.variable, last.name, types, filters)


def _aggregates(node: Value | Predicate | tuple[Predicate, ...]) -> Iterator[Aggregate]:
    if isinstance(node, Aggregate):
        yield node
    elif isinstance(node, tuple):
        for item in node:
            yield from _aggregates(item)
    else:
        for name in ("left", "right", "operand", "low", "high", "parts", "part"):
            if (child := getattr(node, name, None)) is not None:
                yield from _aggregates(child)


# ---------------------------------------------------------------- patterns that need no matches


@dataclass(frozen=True, slots=True)
class Chain:
    """A sequence of single events: what a row of prefix counters can count. `absences` are gaps that wait for a single event."""

    slots: tuple[Scan, ...]
    absences: tuple[Gap, ...] = ()
    key: tuple[KeyColumn, ...] = ()

    @property
    def has_leading(self) -> bool:
        return any(gap.position == 0 for gap in self.absences)

    @property
    def has_trailing(self) -> bool:
        return any(gap.position == len(self.slots) for gap in self.absences)


def chain_of(plan: AggregatePlan) -> Chain | str:
    """The pattern as a chain, or why it is none."""
    node = plan.matches.pattern
    if isinstance(node, Scan):
        return Chain((node,))
    if not isinstance(node, MatchSequence):
        return "the pattern is not a SEQ"
    if not all(isinstance(slot, Scan) for slot in node.slots):
        return "a component of the SEQ is an expression"
    if node.clauses or node.filters:
        return "a predicate compares events by more than one equality through all components"
    if plan.matches.checks:
        return "a negation is tied to the match by more than its key"
    if not all(isinstance(gap.instance, Scan) for gap in node.gaps):
        return "a negated expression is not a single event"
    found = Chain(node.slots, node.gaps, node.key)  # type: ignore[arg-type]
    if plan.matches.window.unit == "events":
        if found.has_leading:
            return "a leading negation looks back over a number of events"
        if found.has_trailing and plan.emit.when == "total":
            return "a trailing negation waits for a number of events"
    return found
