"""What a plan needs of a stream, worked out once: types and columns, the key that may split it, how far back and ahead it looks.

State is purged, rows are pushed down and routed, buckets are woken and plans are explained by what stands here; nobody works it
out again. Lengths are in ticks of the time column, or in events where the window counts them.

    back                     decided                       ahead
    |<---------- kept ---------->|  what comes next  |<-- a match waits -->|

Cost: linear in the plan. Invariant: an event that `needs` leaves out changes no result.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import assert_never

from seqube.events.schema import ANY
from seqube.language.mentions import attributes
from seqube.language.tree import Attribute, FirstOf, OfList, Value
from seqube.plan.aggregates import AggregatePlan, chain_of, lane_columns
from seqube.plan.chains import EventChain
from seqube.plan.physical import (
    ALL_OF_TIME,
    Absence,
    Gap,
    MatchAlternatives,
    MatchConjunction,
    MatchPlan,
    MatchRepeat,
    MatchRun,
    MatchSequence,
    PlanNode,
    Scan,
    predicates,
    scans,
    ticks,
    walk,
    whole_ticks,
)

Plan = MatchPlan | AggregatePlan


@dataclass(frozen=True, slots=True)
class Needs:
    """What a plan needs of a stream."""

    window: int
    key: tuple[str, ...]  # columns whose equal values all events of a result share; () where there are none
    ends: frozenset[str]  # the types of events at which a match can end or a report is due
    scans: tuple[Scan, ...] = ()  # what is looked for, negated events and triggers included
    columns: frozenset[str] | None = None  # None: all of them, because whole events are returned
    every_event: bool = False  # other events matter too: they are numbered, or tell when the input begins and ends
    by_position: bool = False  # lengths are numbers of events
    by_order: bool = False  # of events with equal times, which comes first can matter
    reaches: int = 1  # windows before what is still to be decided in which an event can matter
    ahead: int = 0  # how long after its first event a match waits to be final
    period: int | None = None  # of EMIT EVERY
    bucket: int | None = None  # of EMIT PER
    skips: bool = False  # which matches remain depends on those that end before them
    can_be_cut: bool = True  # results of a stretch of time need only its events and those around it
    halo: int = 0  # how far before a stretch of time the events reach that its results need
    adds_up: bool = False  # what stretches of time find are totals, from which the rows are made

    @property
    def back(self) -> int:
        """How far before what is still to be decided an event can matter."""
        return min(self.window * self.reaches, ALL_OF_TIME)

    @property
    def outlives_events(self) -> bool:
        """Whether more has to be remembered than the events in the window: how many there were, open buckets, what was taken."""
        return self.by_position or self.bucket is not None or self.skips

    @property
    def types(self) -> frozenset[str]:
        """The types that can take part in a result."""
        return frozenset[str]().union(*(scan.types for scan in self.scans))

    @property
    def sent_types(self) -> frozenset[str] | None:
        """The types of events that have to be sent; None: all events."""
        return None if self.every_event else self.types


@lru_cache(maxsize=1024)
def needs_of(plan: Plan, unit: str) -> Needs:
    """What a plan needs of a stream whose times are in this unit."""
    matches = plan.matches
    common = Needs(
        window=ticks(matches.window, unit),
        key=_key(plan),
        ends=_types(scans(matches.pattern) if matches.keeps_partial else matches.pattern.may_end),
        scans=tuple(scans(matches)),
        columns=_columns(plan),
        every_event=matches.numbers_events or ANY in matches.types,
        by_position=matches.window.counts_events,
        by_order=matches.skip is not None or any(isinstance(node, MatchRun) for node in walk(matches)),
    )
    if isinstance(plan, MatchPlan):
        # A match that waits is decided a window after it began, and its negations may look back a window from its end.
        reaches = 2 if (plan.waits and plan.looks_back) or plan.waits_from_end else 1
        skips, ahead = plan.skip is not None, common.window if plan.waits else 0
        return replace(common, reaches=reaches, ahead=ahead, skips=skips, can_be_cut=not skips, halo=common.window)
    triggers = () if plan.trigger is None else (plan.trigger,)
    # A report is over a window, from any match in which a negation may look back one; or a match waits for one from its end on.
    # Which of its matches SKIP takes depends on those that end in it and begin before it.
    reaches = (2 if matches.looks_back or matches.waits_from_end else 1) + (matches.skip is not None)
    # Totals of a key stay with it: to merge them would bring all keys to one place.
    can_be_cut = matches.skip is None and not common.by_position and not (plan.emit.counts_once and common.key)
    return replace(
        common,
        ends=common.ends | _types(triggers),
        scans=(*common.scans, *triggers),
        every_event=common.every_event or plan.emit.when == "every",
        reaches=reaches,
        period=whole_ticks(plan.emit, unit) if plan.emit.when == "every" else None,
        bucket=whole_ticks(plan.emit, unit) if plan.emit.when == "per" else None,
        skips=matches.skip is not None,
        can_be_cut=can_be_cut,
        halo=min(common.window * reaches, ALL_OF_TIME),
        adds_up=can_be_cut and plan.emit.counts_once,
    )


def why_whole(plan: Plan) -> str | None:
    """Why a query is answered over a whole stream alone, and refused where one goes on; None where it may go on."""
    matches = plan.matches
    if matches.is_distinct:
        return "RETURN DISTINCT leaves out rows by all that came before them"
    return None if matches.limit is None else "LIMIT ends a result, and that of a stream goes on"


def why_replayed(plan: Plan) -> str | None:
    """Why a stream's window is evaluated again at every step; None where matches or counters go on from step to step.

    Flat sequences go on: single events in order, with whatever is asked of them, and what must not be there: single events, or a
    sub-query of such whose latest start tells all. So do nested queries by one of the published strategies, with their views, and
    counters where it is known which of them an event belongs to: its key, partition and group say that, and what types there are.
    """
    if isinstance(plan, AggregatePlan):
        return _why_counted_anew(plan)
    if plan.skip is not None and plan.waits:
        return "SKIP takes matches in the order in which they end, and these are not final in that order"
    pattern = plan.pattern
    if plan.is_nested:
        return "its sub-queries are evaluated in each partition" if plan.partition_by else None
    if not isinstance(pattern, MatchSequence):
        return "it is no sequence of single events"
    if not all(isinstance(part, Scan) for part in pattern.parts):
        return "its sequence has sub-queries"
    for gap in pattern.gaps:
        if not isinstance(gap.instance, Scan) and not (gap.position < len(pattern.slots) and has_stages(gap)):
            return "a negated sub-query is more than single events, in order or not, with the sequence's key"
    if plan.checks:
        return "a negation is checked match by match"
    if plan.order_by:
        return "ORDER BY says what is after what"
    return None


def _why_counted_anew(plan: AggregatePlan) -> str | None:
    chain = chain_of(plan)
    if not isinstance(chain, EventChain):
        return chain
    if plan.strategy == "two-step":
        return "its matches are built"
    if lane_columns(plan, chain) is None:
        return "GROUP BY names more of a component than its key"
    if chain.key and any(gap.key is None for gap in chain.absences):
        return "a negated event of any key cancels"
    return None


def replays_partitions(plan: Plan) -> bool:
    """Whether, of a window that is evaluated again, those partitions will do that have new events: none has a match without one."""
    return isinstance(plan, MatchPlan) and bool(plan.partition_by) and not plan.waits and plan.skip is None


def has_stages(gap: Gap) -> bool:
    """Whether one number for each part of a negated sub-query, and each key, tells the latest start of an instance."""
    inner = gap.instance
    if not isinstance(inner, MatchSequence | MatchConjunction) or inner.absent or inner.filters:
        return False
    if not all(isinstance(slot, Scan) for slot in inner.slots):
        return False
    if any(len({slot for atom in clause for slot in atom.slots}) > 1 for clause in inner.clauses):
        return False
    if isinstance(inner, MatchConjunction):
        types = [name for slot in inner.slots for name in _types((slot,) if isinstance(slot, Scan) else ())]
        if ANY in types or len(types) != len(set(types)):  # one event could be two of its parts
            return False
    # Tied by its whole key, or by nothing: then what is known of a key is known of all of its parts.
    asked = gap.key or ()
    return len(inner.key) == len(asked) and all(any(value in column for column in inner.key) for value in asked)


def staged_scans(inner: PlanNode) -> list[Scan]:
    """The parts of what a gap forbids, each of which is a stage."""
    parts = (inner,) if isinstance(inner, Scan) else inner.parts
    return [part for part in parts if isinstance(part, Scan)]


def staged_key(gap: Gap, part: int) -> tuple[Value, ...]:
    """The values of one part that are the key by which a gap is tied to its sequence."""
    inner = gap.instance
    if isinstance(inner, MatchSequence | MatchConjunction):
        return tuple(next(column[part] for column in inner.key if value in column) for value in gap.key or ())
    return gap.key or ()


def together(needs: Iterable[Needs]) -> tuple[frozenset[str] | None, frozenset[str] | None]:
    """The types and the columns of events that several plans need; None: all."""
    found = list(needs)
    types = [each.sent_types for each in found]
    columns = [each.columns for each in found]
    return (
        None if None in types else frozenset[str]().union(*(each for each in types if each is not None)),
        None if None in columns else frozenset[str]().union(*(each for each in columns if each is not None)),
    )


def _types(found: Iterable[Scan]) -> frozenset[str]:
    return frozenset[str]().union(*(scan.types for scan in found))


# ---------------------------------------------------------------- columns


def _columns(plan: Plan) -> frozenset[str] | None:
    """The attributes a plan looks at; None where it returns whole events."""
    asked = list(predicates(plan.matches))
    named: list[Value]
    if isinstance(plan, AggregatePlan):
        asked += [*map(plan.as_written, plan.having), *(plan.trigger.filters if plan.trigger is not None else ())]
        named = [plan.as_written(value) for value in (*plan.group_by, *(output.value for output in plan.aggregates))]
    elif plan.returns:
        named = [output.value for output in plan.returns]
    else:
        return None
    names = {attribute.name for part in (*asked, *named) for attribute in attributes(part)}
    return frozenset(names | {*plan.matches.partition_by, *plan.matches.order_by})


# ---------------------------------------------------------------- the key that splits a stream


def _key(plan: Plan) -> tuple[str, ...]:
    """The columns whose equal values every event of a match shares with all that could cancel it; () where there are none.

    PARTITION BY, or an attribute whose equality reaches every component, negated ones included, at every level; not with SKIP, by
    which a match of one value leaves out those of others. Aggregates can be split by what they are grouped by as well; not with
    EMIT EVERY, whose first and last report depend on the whole input.
    """
    if isinstance(plan, AggregatePlan):
        grouped = {attribute.name for attribute in plan.group_by}
        return () if plan.emit.when == "every" else tuple(name for name in _key(plan.matches) if name in grouped)
    if plan.partition_by:
        return plan.partition_by
    if plan.numbers_events or plan.skip is not None:  # over the whole stream
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


def _shared(node: PlanNode) -> frozenset[str]:
    """Attributes on which all events of an instance of `node`, and all that could cancel it, agree."""
    names = _agreed(node)
    return frozenset() if names == _ANY else names


def _agreed(node: PlanNode) -> frozenset[str]:
    match node:
        case Scan():
            return _ANY
        case MatchAlternatives(branches):
            return _meet(_agreed(branch) for branch in branches)
        case MatchRun():
            return _ANY if len(node.steps) == 1 and node.steps[0].most == 1 else frozenset(node.key)
        case MatchRepeat():
            return _ANY if node.most == 1 else frozenset(value.name for value in node.key if isinstance(value, Attribute))
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
        case _:
            assert_never(node)


def _holds(node: PlanNode, name: str) -> bool:
    agreed = _agreed(node)
    return agreed == _ANY or name in agreed


def _common_name(column: Sequence[Value], slots: Sequence[PlanNode]) -> str | None:
    """The attribute that all values of a key column are, each of a variable that its slot surely binds."""
    found: set[str | None] = set()
    for value, slot in zip(column, slots, strict=True):
        match value:
            case Attribute(variable, name) | OfList("FIRST", Attribute(variable, name)) if not (
                variable is None or isinstance(slot, MatchAlternatives)
            ):
                found.add(name if variable in _surely_bound(slot) else None)
            case FirstOf(values) if isinstance(slot, MatchAlternatives) and all(isinstance(each, Attribute) for each in values):
                named = {each.variable for each in values if isinstance(each, Attribute)}
                covered = all(named & set(_surely_bound(branch)) for branch in slot.branches)
                found |= {each.name if covered else None for each in values if isinstance(each, Attribute)}
            case _:
                found.add(None)
    return found.pop() if len(found) == 1 else None


def _surely_bound(node: PlanNode) -> tuple[str, ...]:
    match node:
        case Scan():
            return (node.variable,)
        case MatchRepeat():
            return node.binds
        case MatchRun():
            return tuple(step.scans[0].variable for step in node.steps if step.least > 0 and len(step.scans) == 1)
        case MatchAlternatives():
            return ()
        case MatchSequence() | MatchConjunction():
            return tuple(name for slot in node.slots for name in _surely_bound(slot))
        case _:
            assert_never(node)


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
