"""What AGG asks for, as frozen data: the matches, what is measured over them, when it is reported, and for which groups.

A strategy computes `Measure`s (counts, sums, smallest and largest values) for cells, which are pairs of a group and a moment; means
and HAVING are made of measures afterwards. `chain_of` says whether a pattern can be counted without building its matches, as
`plan/chains.py` has it.

    report    cells
    given     known from the events alone: every trigger, or every multiple of EMIT EVERY
    new       groups and moments at which a match ends
    present   groups with a match in the window, at every multiple of EMIT EVERY
    per       groups and buckets of EMIT PER in which a match ends
    total     groups that have a match at all; the only one without GROUP BY
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import factorial, prod
from typing import Literal as OneOf

from seqube.events import Hierarchy
from seqube.events.schema import ANY, TYPE
from seqube.language.functions import aggregate_function
from seqube.language.mentions import named_as_lists, named_before, variables_of
from seqube.language.names import group_name
from seqube.language.tree import Aggregate, AtLevel, Attribute, Emit, N, Not, Output, Predicate, Query, Same, Seq, Type, Value, walk
from seqube.language.writer import write_value
from seqube.plan.arguments import ADDED_UP, COLLECTED, COMPUTED_MARK, ColumnsToCompute, ComputedColumn, as_written, terms_of
from seqube.plan.chains import EventChain, chain_of_matches
from seqube.plan.measured import Measurements
from seqube.plan.physical import KeyColumn, MatchPlan, MatchSequence, Option, Scan, scans, ticks
from seqube.plan.planner import plan_matches
from seqube.plan.rewrite import conjuncts

MOST_COMBINATIONS = 4_096  # of types at several slots, for each of which there is a lane
ReportKind = OneOf["given", "new", "present", "per", "total"]


@dataclass(frozen=True, slots=True)
class Measure:
    """A number (or value) per cell: how many matches, how many with a value, its sum, its smallest or largest.

    Its function is one that the table of aggregates (`language/functions.py`) names. Its argument is a column of one event's, or a
    value of several events (`plan.arguments`).
    """

    function: str
    argument: Value | None = None


MATCHES, ABOUT = Measure("COUNT"), Measure("APPROX")  # how many matches there are: exactly, and as a double


@dataclass(frozen=True, slots=True)
class AggregatePlan:
    """A query that returns aggregates."""

    matches: MatchPlan
    emit: Emit
    aggregates: tuple[Output, ...]
    group_by: tuple[Attribute, ...] = ()
    group_names: tuple[str, ...] = ()  # of the columns of the result
    having: tuple[Predicate, ...] = ()
    computed: tuple[ComputedColumn, ...] = ()  # what the events have to have beside their own columns
    trigger: Scan | None = None  # the events that ON TRIGGER reports at; None: wherever matches end
    strategy: str = "two-step"
    options: tuple[Option, ...] = ()

    @property
    def asked(self) -> tuple[Aggregate, ...]:
        """The aggregates of AGG and HAVING."""
        nodes = (*(output.value for output in self.aggregates), *self.having)
        return tuple(part for node in nodes for part in walk(node) if isinstance(part, Aggregate))

    def as_written(self, node: N) -> N:
        """A node of this plan as the query has it."""
        return as_written(node, self.computed)

    @property
    def measures(self) -> tuple[Measure, ...]:
        """Everything that must be computed; the number of matches always is, exactly unless it is asked for as a double."""
        found = dict.fromkeys(
            Measure(function, aggregate.argument)
            for aggregate in self.asked
            for function in aggregate_function(aggregate.function, aggregate.at).measures
        )
        return tuple(found if ABOUT in found else {MATCHES: None, **found})

    @property
    def report(self) -> ReportKind:
        if self.emit.when in ("per", "total"):
            return self.emit.when
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
    keys = [_with_concepts(key, hierarchy) for key in query.group_by]
    columns = ColumnsToCompute({scan.variable: scan.types for scan in scans(matches)})
    return AggregatePlan(
        matches,
        query.emit,
        tuple(replace(output, value=columns.of_aggregates(output.value)) for output in query.aggregates),
        tuple(map(columns.column, keys)),
        tuple(group_name(key, number) for number, key in enumerate(keys, 1)),
        tuple(map(columns.of_aggregates, query.having)),
        tuple(columns.found.values()),
        trigger,
    )


def _with_concepts(key: Value, hierarchy: Hierarchy | None) -> Value:
    """A key of GROUP BY; a level of the hierarchy with what stands on it above each type that is further down."""
    if not isinstance(key, AtLevel) or hierarchy is None:
        return key
    paths = [(*reversed(hierarchy.ancestors(name)), name) for name in hierarchy]
    return replace(key, concepts=tuple((path[-1], path[key.level - 1]) for path in paths if len(path) > key.level))


def _trigger(query: Query, hierarchy: Hierarchy | None) -> Scan | None:
    """The last positive component of a SEQ, if it is a type, with the predicates that name it alone."""
    if not isinstance(query.pattern, Seq):
        return None
    last = [part for part in query.pattern.parts if not isinstance(part, Not)][-1]
    if not isinstance(last, Type) or last.is_optional:
        return None
    assert last.variable is not None
    written = [p for p in (*query.where, *query.pattern.where) if not isinstance(p, Same) and variables_of(p) == {last.variable}]
    alone = [predicate for predicate in written if not named_as_lists(predicate) and not named_before(predicate)]
    filters = tuple(conjunct for predicate in alone for conjunct in conjuncts(predicate))
    types = hierarchy.covers(last.name) if hierarchy else frozenset({last.name})
    return Scan(last.variable, last.name, types, filters)


# ---------------------------------------------------------------- patterns that need no matches


def chain_of(plan: AggregatePlan) -> EventChain | str:
    """The pattern as a chain, or why it is none that can be counted."""
    for measure in plan.measures:
        if reason := _why_of_matches(plan, measure):
            return reason
    found = chain_of_matches(plan.matches)
    if isinstance(found, str):
        return found
    absent = {slot.variable for i, slot in enumerate(found.slots) if found.times_of(i).may_be_absent}
    if any(key.variable in absent for key in plan.group_by):
        return "GROUP BY names a part that may be absent"
    single = {slot.variable for i, slot in enumerate(found.slots) if found.times_of(i).is_one}
    for argument in (measure.argument for measure in plan.measures):
        if argument is not None and not isinstance(argument, Attribute) and not variables_of(argument) <= single:
            return f"{write_value(plan.as_written(argument))} names a part that may be absent"
    if plan.matches.window.counts_events:
        if found.has_leading:
            return "a leading negation looks back over a number of events"
        if found.has_trailing and plan.emit.when == "total":
            return "a trailing negation waits for a number of events"
        if plan.emit.counts_once and found.times_of(len(found.slots) - 1).most != 1:
            return "its last part is repeated, in a window that counts events"
        if plan.report == "new" and len(found.slots) == 1:
            return "an event may leave the window at the time at which it came, in a window that counts events"
        if found.begins_or_ends_variously:
            return "a part at the edge may be absent, in a window that counts events"
    if found.has_trailing and plan.emit.when == "per":
        return "a trailing negation decides on a match when its bucket may be over"
    return found


def _why_of_matches(plan: AggregatePlan, measure: Measure) -> str | None:
    """Why a measure is not made of what single events weigh; None where it is."""
    argument = measure.argument
    if argument is None:
        return None
    text = write_value(plan.as_written(argument))
    if measure.function in COLLECTED:
        return f"all values of {text} are needed, of each match by itself"
    if isinstance(argument, Attribute) or (measure.function in ADDED_UP and terms_of(argument) is not None):
        return None
    return f"{text} is a value of several events, of each match by itself"


def group_positions(plan: AggregatePlan, chain: EventChain) -> list[int] | None:
    """Which columns of a lane's key are those of GROUP BY (partitions first, then the key); None where one is not among them."""
    names, found = list(plan.matches.partition_by), []
    numbers = {slot.variable: i for i, slot in enumerate(chain.slots)}
    for key in plan.group_by:
        columns = [column[numbers[key.variable]] for column in chain.key] if key.variable is not None and len(numbers) > 1 else []
        if key.name in names:
            found.append(names.index(key.name))
        elif key in columns:
            found.append(len(names) + columns.index(key))
        else:
            return None
    return found


def lane_columns(plan: AggregatePlan, chain: EventChain) -> tuple[list[int], list[int]] | None:
    """Which columns of a lane's key are those of GROUP BY, and the slots whose types are columns of it, behind the key; or None.

    The types that may fill a slot are known beforehand, so that an event can lie in a lane for every type at the others; of values
    that are not known there would be lanes too late. That is None too where there would be too many of them.
    """
    if (positions := group_positions(plan, chain)) is not None:
        return positions, []
    n_key, slots = len(plan.matches.partition_by) + len(chain.key), {slot.variable: i for i, slot in enumerate(chain.slots)}
    own = [group_positions(replace(plan, group_by=(key,)), chain) for key in plan.group_by]
    beyond = [key for key, found in zip(plan.group_by, own, strict=True) if found is None]
    if (chain.key and len(slots) == 1) or any(key.variable is None or key.name != TYPE for key in beyond):
        return None
    typed = sorted({slots[key.variable] for key in beyond if key.variable is not None})
    types = [chain.slots[number].types for number in typed]
    if any(ANY in each for each in types) or prod(map(len, types)) > MOST_COMBINATIONS:
        return None
    places = (n_key + typed.index(slots[key.variable]) for key in beyond if key.variable is not None)
    return [next(places) if found is None else found[0] for found in own], typed


def free_slots(plan: AggregatePlan, chain: EventChain) -> list[int] | None:
    """The slots that GROUP BY names beyond the key, where matches can be counted by their values at once; None where they cannot.

    That is so for plain counts at the end of it all, of events that each come once, by the values of one component or two.
    """
    if plan.emit.when != "total" or plan.measures != (MATCHES,) or plan.matches.window.counts_events:
        return None
    if chain.has_leading or chain.has_trailing or chain.is_repeated:
        return None
    found = set()
    for number, slot in enumerate(chain.slots):
        keys = [key for key in plan.group_by if key.variable == slot.variable]
        known = [column[number] for column in chain.key] if len(chain.slots) > 1 else []
        if any(key not in known for key in keys):
            found.add(number)
    return sorted(found) if len(found) <= 2 else None


def can_be_taken_back(plan: AggregatePlan, chain: EventChain) -> bool:
    """Whether what an event adds is taken back when it leaves the window, as each match counts once, when it ends."""
    return plan.emit.counts_once and chain.is_plain and not plan.matches.window.counts_events


# ---------------------------------------------------------------- costs

# Seconds, measured on one core: what an event costs to lay out (in time order, or by key, and what all keys together report of it),
# a map to multiply (and a number of one that is a row of them; or to multiply and undo), a live counter to update, and a match to
# build, to add, to find the group of, and the cell of that group.
SCAN_EVENT, LAY_OUT, SORT, REPORT = 2e-9, 12e-9, 50e-9, 150e-9
MULTIPLY, PER_SLOT, PER_VALUE, UNDO = 30e-9, 10e-9, 2e-9, 8e-9
UPDATE, TOUCH = 75e-9, 1e-9
BUILD_MATCH, ADD, FIND_GROUP, FIND_CELL = 8e-9, 12e-9, 10e-9, 200e-9
ANEW = 400e-6  # matching one window again, where a trailing negation asks for it
MANY_VALUES = 100  # of a key or group whose column was not looked at


@dataclass(frozen=True, slots=True)
class Aggregation:
    """A query to be priced, from the frequencies of types, and from how close together events lie."""

    plan: AggregatePlan
    chain: EventChain | str
    measured: Measurements

    def two_step(self) -> float:
        """Seconds to build all matches, and to add them up."""
        statistics, node = self.measured.statistics, self.plan.matches.pattern
        slots = [slot for slot in node.slots if isinstance(slot, Scan)] if isinstance(node, MatchSequence) else []
        if isinstance(self.chain, EventChain) and self.chain.is_repeated:
            matches = self._lists(self.chain)
        elif len(slots) < 2:
            matches = float(statistics.n)
        else:
            keys = self._values([*_key_names(node.key if isinstance(node, MatchSequence) else ()), *self.plan.matches.partition_by])
            before = prod(self._per_window(slot.types) / keys for slot in slots[:-1]) / factorial(len(slots) - 1)
            matches = statistics.count(slots[-1].types) * before
        anew = ANEW * statistics.n if self.plan.matches.waits and not self.plan.emit.counts_once else 0.0
        each = ADD * len(self.plan.measures) + FIND_GROUP * len(self.plan.group_by)
        if self.plan.group_by and not self.plan.emit.counts_once:
            each += FIND_CELL
        each *= self._rows_of_a_match()
        return (SCAN_EVENT + LAY_OUT) * statistics.n + matches * (BUILD_MATCH + each) + anew

    def _rows_of_a_match(self) -> float:
        """In how many cells a match counts: with EMIT EVERY, by groups, in those of all windows that it lies in."""
        window, emit = self.plan.matches.window, self.plan.emit
        if emit.when != "every" or emit.period is None or window.counts_events or not self.plan.group_by:
            return 1.0
        return max(1.0, ticks(window, self.measured.unit) / max(ticks(emit.period, self.measured.unit), 1))

    def _lists(self, chain: EventChain) -> float:
        """How many matches there are where every list counts: a window's events of a part make a list of each of their subsets.

        Where lists have no longest, the events are taken to lie in one window: twenty that come together make a million lists,
        however far apart most of them are.
        """
        keys, statistics = self._keys(chain), self.measured.statistics
        matches = float(statistics.count(chain.slots[0].types))
        for i, slot in enumerate(chain.slots):
            m, most = self._per_window(slot.types) / keys, chain.times_of(i).most
            together = 2.0 ** min(statistics.count(slot.types) / keys, 60.0)
            matches *= max(1.0, together if most is None else min(m, 1e9) ** min(most, 9))
        return matches

    def per_start(self) -> float:
        """Seconds with a row of counters for every event that begins a match."""
        assert isinstance(self.chain, EventChain)
        return self._counted(UPDATE + TOUCH * self._per_window(self.chain.slots[0].types) / self._keys(self.chain))

    def window_product(self) -> float:
        """Seconds with one product of maps for the window; by groups, of maps of some numbers in a row."""
        assert isinstance(self.chain, EventChain)
        each = MULTIPLY + PER_SLOT * self.chain.n_states
        if can_be_taken_back(self.plan, self.chain) and self.plan.measures == (MATCHES,):
            each = UNDO * len(self.chain.slots)
        if free_slots(self.plan, self.chain):
            return self._counted(each + PER_VALUE * self._groups(self.chain, self._free(self.chain)[:1]), copied=False)
        return self._counted(each)

    def _free(self, chain: EventChain) -> list[Attribute]:
        """What GROUP BY names beyond the key."""
        return [key for key in self.plan.group_by if key.variable is not None and not any(key in column for column in chain.key)]

    def _groups(self, chain: EventChain, keys: Iterable[Attribute]) -> int:
        """How many values keys of GROUP BY have together; the types of a part are known."""
        types = {slot.variable: len(slot.types) for slot in chain.slots if ANY not in slot.types}
        return prod(types[key.variable] if key.name == TYPE and key.variable in types else self._values([key.name]) for key in keys)

    def _counted(self, each: float, copied: bool = True) -> float:
        """What counters cost, each of whose maps costs so much; unless they are not `copied`, one for every group."""
        chain, statistics = self.chain, self.measured.statistics
        assert isinstance(chain, EventChain)
        copies = self._groups(chain, self._free(chain)) if copied else 1
        scans = [*chain.slots, *(gap.instance for gap in chain.absences if isinstance(gap.instance, Scan))]
        maps = sum(statistics.count(scan.types) for scan in scans) * copies
        layout = maps * (LAY_OUT if self._keys(chain) * copies == 1 and not (copied and self.plan.group_by) else self._by_key)
        return SCAN_EVENT * statistics.n + layout + maps * each * len(self.plan.measures)

    @property
    def _by_key(self) -> float:
        """What an event costs in a lane of many."""
        return SORT if self.plan.emit.counts_once else SORT + REPORT

    def _keys(self, chain: EventChain) -> int:
        return self._values([*_key_names(chain.key), *self.plan.matches.partition_by])

    def _per_window(self, types: frozenset[str]) -> float:
        """How many events of these types a window holds, where they lie; of a stream, once it is full."""
        window, statistics = self.plan.matches.window, self.measured.statistics
        if window.counts_events:
            share = window.length / max(statistics.n, 1)
        else:
            length = ticks(window, self.measured.unit)
            share = length / max(statistics.span, 1) * statistics.crowding(length)
        return statistics.count(types) * (share if self.measured.continuous else min(share, 1.0))

    def _values(self, names: Iterable[str]) -> int:
        return prod(self.measured.values(name, MANY_VALUES) for name in names)


def _key_names(key: tuple[KeyColumn, ...]) -> list[str]:
    """The columns of a key, as the first component names them."""
    return [column[0].name for column in key if isinstance(column[0], Attribute)]


def looked_up(plan: AggregatePlan, chain: EventChain | str) -> frozenset[str]:
    """The columns whose number of values the cost depends on: keys, partitions and groups."""
    keys = _key_names(chain.key) if isinstance(chain, EventChain) else []
    return frozenset(
        [*keys, *plan.matches.partition_by, *(key.name for key in plan.group_by if not key.name.startswith(COMPUTED_MARK))]
    )
