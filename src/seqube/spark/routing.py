"""Where events have to meet: the key that may split a stream, and the tasks that its pieces go to. Plain Python, no Spark.

A *bucket* is a hash of the shuffle key; without a key all events are in bucket 0. A bucket that is too large for one task is cut
into time slices. A slice owns the matches that end in it, and gets the events of one window before it and, where matches wait for
their end, of one window after it: every scope of a match lies strictly between a window before its last event and a window after
its first.

    slice 1 owns (-inf, 20]          slice 2 owns (20, 45]              slice 3 owns (45, inf)
    ------------------------20 |  20-W ------- 20 ------------ 45 | 45-W --- 45 -------------

Cost: planning is linear in the plan; routing is one pass over the times per slice of a bucket. Invariant: a match is owned by
exactly one task, and that task has every event the match binds or could be cancelled by.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from seqube.engine.instances import minus, plus
from seqube.engine.predicates import Ints
from seqube.engine.sequence import HIGHEST, LOWEST
from seqube.language.tree import Attribute, FirstOf, Output, Predicate, Value, attributes
from seqube.plan.aggregates import AggregatePlan
from seqube.plan.physical import (
    Absence,
    Atom,
    Gap,
    Guarded,
    LocalAtom,
    MatchAlternatives,
    MatchConjunction,
    MatchPlan,
    MatchSequence,
    Node,
    Scan,
)

Plan = MatchPlan | AggregatePlan


def matches_of(plan: Plan) -> MatchPlan:
    return plan.matches if isinstance(plan, AggregatePlan) else plan


# ---------------------------------------------------------------- the key that splits a stream


def shuffle_key(plan: Plan) -> tuple[str, ...]:
    """The columns whose equal values every event of a match shares with all that could cancel it; () where there are none.

    PARTITION BY, or an attribute whose equality reaches every component, negated ones included, at every level. Aggregates can be
    split by what they are grouped by as well; not with EMIT EVERY, whose first and last report depend on the whole input.
    """
    if isinstance(plan, AggregatePlan):
        grouped = {attribute.name for attribute in plan.group_by}
        return () if plan.emit.when == "every" else tuple(name for name in shuffle_key(plan.matches) if name in grouped)
    if plan.partition_by:
        return plan.partition_by
    if plan.window.counts_events:  # events are numbered over the whole stream
        return ()
    names = _shared(plan.pattern)
    for check in plan.checks:
        names &= _correlated(check)
    return tuple(sorted(names))


_ANY = frozenset({"*"})  # a single event agrees with itself on everything


def _meet(sets: Iterable[frozenset[str]]) -> frozenset[str]:
    result = _ANY
    for names in sets:
        result = names if result == _ANY else result if names == _ANY else result & names
    return result


def _shared(node: Node) -> frozenset[str]:
    """Attributes on which all events of an instance of `node`, and all that could cancel it, agree."""
    names = _agreed(node)
    return frozenset() if names == _ANY else names


def _agreed(node: Node) -> frozenset[str]:
    match node:
        case Scan():
            return _ANY
        case MatchAlternatives(branches):
            return _meet(_agreed(branch) for branch in branches)
        case MatchSequence(slots, _, key) | MatchConjunction(slots, _, key):
            gaps = node.gaps if isinstance(node, MatchSequence) else ()
            if len(slots) == 1 and not gaps:
                return _agreed(slots[0])
            found = set()
            for number, column in enumerate(key):
                name = _common_name(column, slots)
                if name is None or not all(_holds(slot, name) for slot in slots):
                    continue
                if all(
                    gap.key is not None and _common_name((gap.key[number],), (gap.instance,)) == name and _holds(gap.instance, name)
                    for gap in gaps
                ):
                    found.add(name)
            return frozenset(found)


def _holds(node: Node, name: str) -> bool:
    agreed = _agreed(node)
    return agreed == _ANY or name in agreed


def _common_name(column: Sequence[Value], slots: Sequence[Node]) -> str | None:
    """The attribute that all values of a key column are, each of a variable that its slot surely binds."""
    found: set[str | None] = set()
    for value, slot in zip(column, slots, strict=True):
        match value:
            case Attribute(variable, name) if variable is not None and not isinstance(slot, MatchAlternatives):
                found.add(name if variable in _surely_bound(slot) else None)
            case FirstOf(values) if isinstance(slot, MatchAlternatives) and all(isinstance(each, Attribute) for each in values):
                named = {each.variable for each in values if isinstance(each, Attribute)}
                covered = all(named & set(_surely_bound(branch)) for branch in slot.branches)
                found |= {each.name if covered else None for each in values if isinstance(each, Attribute)}
            case _:
                found.add(None)
    return found.pop() if len(found) == 1 else None


def _surely_bound(node: Node) -> tuple[str, ...]:
    match node:
        case Scan():
            return (node.variable,)
        case MatchAlternatives():
            return ()
        case _:
            return tuple(name for slot in node.slots for name in _surely_bound(slot))


def _correlated(absence: Absence) -> frozenset[str]:
    """Attributes on which whatever this negation finds agrees with the match it cancels."""
    names = set()
    for link in absence.links:
        if isinstance(link.inner, Attribute) and isinstance(link.outer, Attribute) and link.inner.name == link.outer.name:
            name = link.inner.name
            if link.inner.variable in _surely_bound(absence.instance) and _holds(absence.instance, name):
                names.add(name)
    for check in absence.checks:
        names &= _correlated(check)
    return frozenset(names)


# ---------------------------------------------------------------- the columns that have to travel


def needed_columns(plan: Plan) -> frozenset[str] | None:
    """The attributes a plan looks at; None where it returns whole events."""
    if isinstance(plan, MatchPlan) and not plan.returns:
        return None
    names = set(matches_of(plan).partition_by)
    for attribute in _attributes(plan):
        names.add(attribute.name)
    return frozenset(names)


def _attributes(part: object) -> Iterator[Attribute]:
    """Every attribute named anywhere in a plan."""
    match part:
        case tuple():
            for item in part:
                yield from _attributes(item)
        case AggregatePlan():
            yield from _attributes((part.matches, part.aggregates, part.group_by, part.having, part.trigger or ()))
        case MatchPlan():
            yield from _attributes((part.pattern, part.checks, part.returns))
        case Scan():
            yield from _attributes(part.filters)
        case MatchSequence():
            yield from _attributes((part.slots, part.clauses, part.key, part.gaps, part.filters))
        case MatchConjunction():
            yield from _attributes((part.slots, part.clauses, part.key, part.filters))
        case MatchAlternatives():
            yield from _attributes((part.branches, part.filters))
        case Absence():
            yield from _attributes((part.instance, part.filters, part.checks))
            for link in part.links:
                yield from _attributes((link.inner, link.outer))
        case Gap():
            yield from _attributes((part.instance, part.key or ()))
        case Guarded() | LocalAtom():
            yield from attributes(part.predicate)
        case Atom():
            yield from _attributes((part.left, part.right))
        case Output():
            yield from attributes(part.value)
        case _:
            value: Value | Predicate = part  # type: ignore[assignment]
            yield from attributes(value)


# ---------------------------------------------------------------- tasks


@dataclass(frozen=True, slots=True)
class Task:
    """One piece of work: the matches of one group of queries that end in (after, upto]."""

    number: int
    group: int
    after: int = LOWEST
    upto: int = HIGHEST


@dataclass(frozen=True, slots=True)
class Layout:
    """Which task the events of each bucket of a group go to. A bucket that is cut has several, in the order of time."""

    tasks: tuple[Task, ...]
    of_bucket: tuple[tuple[int, ...], ...]  # positions in `tasks`
    before: int = 0  # ticks that a slice reaches back
    ahead: int = 0

    def route(self, buckets: Ints, times: Ints) -> Iterator[tuple[Task, Ints]]:
        """The rows that each task gets, ascending; rows of a cut bucket may go to several."""
        owners: dict[int, list[int]] = {}
        for bucket, positions in enumerate(self.of_bucket):
            if len(positions) == 1:
                owners.setdefault(positions[0], []).append(bucket)
        target = np.full(len(self.of_bucket), -1, np.int64)
        for position, whole in owners.items():
            target[whole] = position
        wanted = target[buckets]
        order = np.argsort(wanted.astype(np.int16 if len(self.tasks) < 32_000 else np.int64), kind="stable")
        starts = np.searchsorted(wanted[order], np.arange(len(self.tasks) + 1))
        for position in sorted(owners):
            rows = order[starts[position] : starts[position + 1]]
            if len(rows):
                yield self.tasks[position], rows
        for bucket, positions in enumerate(self.of_bucket):
            if len(positions) > 1:
                inside = np.flatnonzero(buckets == bucket)
                yield from self._cut(positions, inside, times[inside])

    def _cut(self, positions: tuple[int, ...], rows: Ints, times: Ints) -> Iterator[tuple[Task, Ints]]:
        for position in positions:
            task = self.tasks[position]
            lowest = minus(np.array([task.after]), self.before)[0] if task.after > LOWEST else LOWEST
            highest = plus(np.array([task.upto]), self.ahead)[0]
            chosen = rows[(times > lowest) & (times <= highest)] if task.after > LOWEST else rows[times <= highest]
            if len(chosen):
                yield task, chosen


def lay_out(
    group: int, first: int, sizes: Sequence[int], cuts: Mapping[int, Sequence[int]], n_tasks: int, before: int, ahead: int
) -> Layout:
    """Tasks for the buckets of one group, numbered from `first`: buckets are spread evenly, those in `cuts` are cut there.

    `sizes` are the rows of each bucket; a cut belongs to the slice that it ends.
    """
    tasks: list[Task] = []
    of_bucket: list[tuple[int, ...]] = [()] * len(sizes)
    for bucket, bounds in cuts.items():
        edges = [LOWEST, *sorted(set(bounds)), HIGHEST]
        of_bucket[bucket] = tuple(range(len(tasks), len(tasks) + len(edges) - 1))
        tasks += [Task(first + len(tasks) + i, group, after, upto) for i, (after, upto) in enumerate(pairwise(edges))]
    whole = sorted((bucket for bucket in range(len(sizes)) if bucket not in cuts), key=lambda bucket: -sizes[bucket])
    n_whole = max(1, min(n_tasks, len(whole))) if whole else 0
    loads = np.zeros(n_whole, np.int64)
    base = len(tasks)
    for bucket in whole:  # the largest first, each to the task with the least
        lightest = int(np.argmin(loads))
        loads[lightest] += sizes[bucket] + 1
        of_bucket[bucket] = (base + lightest,)
    tasks += [Task(first + base + i, group) for i in range(n_whole)]
    return Layout(tuple(tasks), tuple(of_bucket), before, ahead)
