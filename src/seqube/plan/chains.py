"""Patterns that are counted without building their matches: single events in sequence, each once, repeated or optional.

A chain is a SEQ of types, with negated types between them, tied together by nothing but order, window and one key. A part may carry
a quantifier, as long as nothing is asked of its list but of each event by itself: every list counts then, and how many there are
follows from how many there were. `chain_of_matches` finds the chain in a plan of matches, or says why there is none:

    parts that may be absent    the plan has a case for each choice of them; they are one chain where all cases have the same key
    negations                   gaps of the sequence, or, beside parts that may be absent, checks that are tied by the key alone

Cost: linear in the plan. Invariant: what is not thought of here is refused, and its matches are built.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from seqube.language.tree import Attribute, FirstOf, OfList, Value
from seqube.plan.physical import Absence, Gap, KeyColumn, MatchAlternatives, MatchPlan, MatchRepeat, MatchSequence, PlanNode, Scan

MOST_STATES = 100  # of repeated parts: every key has a matrix of as many rows and columns

NO_SEQUENCE = "the pattern is not a SEQ"
OTHER_PARTS = "a component of the SEQ is an expression"
COMPARED = "a predicate compares events by more than one equality through all components"
TIED = "a negation is tied to the match by more than its key"
NOT_SINGLE = "a negated expression is not a single event"


@dataclass(frozen=True, slots=True)
class Times:
    """How many events a part takes where it is there, and whether it may be absent."""

    least: int = 1
    most: int | None = 1
    may_be_absent: bool = False

    @property
    def n_states(self) -> int:
        """How many numbers of events in its list have to be told apart."""
        return self.least if self.most is None else self.most

    @property
    def is_one(self) -> bool:
        """Whether it takes one event in every match."""
        return self == ONE_EVENT


ONE_EVENT = Times()


@dataclass(frozen=True, slots=True)
class EventChain:
    """A sequence of events that counters can count. `absences` are gaps that wait for a single event."""

    slots: tuple[Scan, ...]
    absences: tuple[Gap, ...] = ()
    key: tuple[KeyColumn, ...] = ()
    times: tuple[Times, ...] = ()  # of every slot, where one of them is not there once

    def times_of(self, slot: int) -> Times:
        return self.times[slot] if self.times else ONE_EVENT

    @property
    def is_repeated(self) -> bool:
        return bool(self.times)

    @property
    def is_plain(self) -> bool:
        """Whether every event is one that each match has once, and nothing cancels a match."""
        return not self.absences and all(self.times_of(i).is_one for i in range(len(self.slots)))

    @property
    def n_states(self) -> int:
        """About how many counters it has."""
        return sum(self.times_of(i).n_states for i in range(len(self.slots)))

    @property
    def has_leading(self) -> bool:
        return any(gap.position == 0 for gap in self.absences)

    @property
    def has_trailing(self) -> bool:
        """Whether a negation can stand last: behind all parts that are there."""
        last = max((i for i in range(len(self.slots)) if not self.times_of(i).may_be_absent), default=-1)
        return any(gap.position > last for gap in self.absences)

    @property
    def begins_or_ends_variously(self) -> bool:
        """Whether the first or the last part may be absent, so that events of several parts can begin or end a match."""
        return self.times_of(0).may_be_absent or self.times_of(len(self.slots) - 1).may_be_absent


def chain_of_matches(plan: MatchPlan) -> EventChain | str:
    """The pattern as a chain, or why it is none."""
    if plan.order_by:
        return "ORDER BY says what is after what"
    if plan.skip is not None:
        return "SKIP asks which matches there are"
    match plan.pattern:
        case Scan() as scan:
            return EventChain((scan,)) if not plan.checks else TIED
        case MatchRepeat() as repeat:
            return _chain(plan, MatchSequence((repeat,)), frozenset())
        case MatchSequence() as sequence:
            return _chain(plan, sequence, frozenset())
        case MatchAlternatives() as cases:
            return _of_cases(plan, cases)
        case _:
            return NO_SEQUENCE


def _of_cases(plan: MatchPlan, cases: MatchAlternatives) -> EventChain | str:
    """The chain of a sequence of which there is a case for each choice of the parts that may be absent."""
    whole = cases.branches[0]
    if cases.filters or not isinstance(whole, MatchSequence):
        return NO_SEQUENCE
    chosen: list[tuple[int, ...]] = []
    for case in cases.branches:
        if not isinstance(case, MatchSequence) or not all(slot in whole.slots for slot in case.slots):
            return NO_SEQUENCE
        chosen.append(tuple(whole.slots.index(slot) for slot in case.slots))
        if case.clauses or case.filters:
            return COMPARED
        if {tuple(column[i] for i in chosen[-1]) for column in whole.key} != set(case.key):
            single = len(case.slots) == 1 and whole.key
            return "a part that is there alone needs no equal, though the others have a key" if single else COMPARED
    places = range(len(whole.slots))
    optional = frozenset(i for i in places if any(i not in case for case in chosen))
    absences = (absent for n in range(len(optional) + 1) for absent in combinations(sorted(optional), n))
    choices = [tuple(i for i in places if i not in absent) for absent in absences]
    if sorted(filter(None, choices)) != sorted(chosen):
        return NO_SEQUENCE
    return _chain(plan, whole, optional)


def _chain(plan: MatchPlan, sequence: MatchSequence, optional: frozenset[int]) -> EventChain | str:
    slots: list[Scan] = []
    times: list[Times] = []
    key = tuple(tuple(map(_of_each, column)) for column in sequence.key)
    for i, slot in enumerate(sequence.slots):
        scan = _scan_of(slot)
        if scan is None:
            return OTHER_PARTS
        slots.append(scan)
        times.append(ONE_EVENT)
        if isinstance(slot, MatchRepeat):
            times[i] = Times(slot.least, slot.most, i in optional)
            if reason := _why_lists_matter(slot, [column[i] for column in key], len(sequence.slots)):
                return reason
    if sequence.clauses or sequence.filters:
        return COMPARED
    variables = [slot.variable for slot in slots]
    gaps = [_as_keyed_gap(check, sequence.key, variables) for check in plan.checks]
    if not all(gaps):
        return TIED
    absences = (*sequence.gaps, *(gap for gap in gaps if gap is not None))
    if not all(isinstance(gap.instance, Scan) for gap in absences):
        return NOT_SINGLE
    first = next((i for i in range(len(slots)) if i not in optional), len(slots))
    if any(0 < gap.position <= first for gap in absences):
        return "a negation stands first where the parts before it are absent"
    varies = any(not each.is_one for each in times)
    found = EventChain(tuple(slots), absences, key, tuple(times) if varies else ())
    if varies and found.n_states > MOST_STATES:
        return f"its lists have more than {MOST_STATES} lengths that would have to be counted apart"
    return found


def _scan_of(slot: PlanNode) -> Scan | None:
    return slot.item if isinstance(slot, MatchRepeat) else slot if isinstance(slot, Scan) else None


def _why_lists_matter(repeat: MatchRepeat, key: Sequence[Value], n_slots: int) -> str | None:
    """What is asked of the events of a list together, if anything is but the key of the sequence."""
    if repeat.steps:
        return f"events of the list {repeat.item.variable!r} are compared with each other (PREV)"
    if repeat.filters:
        return f"something is asked of the list {repeat.item.variable!r} as a whole"
    several = repeat.most != 1
    if several and (set(repeat.key) != set(key) or (key and n_slots == 1)):
        return f"events of the list {repeat.item.variable!r} agree on more, or less, than the key of the SEQ"
    return None


def _of_each(value: Value) -> Value:
    """What tells the key of a list by its first event, as what every event of it has."""
    return value.argument if isinstance(value, OfList) and value.function == "FIRST" else value


def _as_keyed_gap(check: Absence, key: tuple[KeyColumn, ...], variables: Sequence[str]) -> Gap | None:
    """A negation that is checked match by match as a gap of a sequence of these variables; None where it is more than that."""
    scope = check.scope
    if check.filters or check.checks or check.when or scope.around is not None or len(check.links) not in (0, len(key)):
        return None
    position = variables.index(scope.before[0]) if scope.before else len(variables)
    if position > 0 and (not scope.after or scope.after[0] != variables[position - 1]):
        return None
    if not check.links:
        return Gap(position, check.instance)
    found: list[Value] = []
    for column in key:
        told = [link.inner for link in check.links if _is_told_by(link.outer, column)]
        if len(told) != 1:
            return None
        found += told
    return Gap(position, check.instance, tuple(found))


def _is_told_by(value: Value, column: KeyColumn) -> bool:
    """Whether a value is that of a key: of one part that is there in every match, or of the first that is there."""
    if isinstance(value, FirstOf):
        return all(each in column for each in value.values)
    return isinstance(value, Attribute) and value in column
