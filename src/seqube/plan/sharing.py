"""How a workload of aggregates shares its counters: by common prefixes, by common substrings, or not at all.

Shareable are COUNT, SUM, AVG, MIN and MAX over a chain of single events in a time window, with a key or none, by groups of that key
or none, with negations inside it or behind it, however they are reported (`counted` says why others are not). A pattern is a string
of labels: what an event must be to fill a slot, what it weighs there, and which events must not come behind it. A query has a
pattern for its matches and one for each thing that is measured: SUM(b.x) of SEQ(A, B, C) is the count of (A, B weighing x, C), and
shares (A) with its count. Patterns share where they lie in the same lanes (`Counted.family`).

    independent   every query by its own cheapest strategy (`window-product` is hard to beat: it is the competitor)
    prefix-tree   all patterns that begin alike in one tree of products, so that a common prefix is counted once
    pre-tree      the same tree with a row of counters for every live start, as in the thesis
    chop-connect  patterns chopped into pieces, common pieces counted once (in such trees), and connected by snapshots
    exhaustive    the same with the best pieces, found by trying all sets of them: for few queries, by name only

What to chop: candidates are substrings of at least two labels in at least two patterns, grown label by label from those that are
frequent (the Apriori rule). The benefit of sharing one is what its patterns cost in one tree of prefixes less what they cost
chopped there, with the frequencies of the stream in place of the paper's uniform ones. Candidates that overlap in a common query
are in conflict; the plan is an independent set of that graph: greedily by benefit, or the best one by exhaustive search.

    Paper (A-Seq)                        | Here
    BValue                               | Candidate.benefit
    N_0, f N_0                           | Frequencies.count, measured per label
    sharing conflict, maximum independent set | conflicts, exhaustive / greedy
    Q5, chopped at a prefix of others    | `chop`: a piece that stands first is a prefix in the tree already
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from math import prod

from seqube.errors import PlanError
from seqube.events import Statistics
from seqube.language.tree import Attribute, Predicate, renaming, transform
from seqube.language.writer import write_value
from seqube.plan.aggregates import (
    LAY_OUT,
    MANY_VALUES,
    MATCHES,
    MULTIPLY,
    PER_SLOT,
    REPORT,
    SCAN_EVENT,
    SORT,
    AggregatePlan,
    Measure,
    group_positions,
)
from seqube.plan.chains import EventChain
from seqube.plan.measured import Measurements
from seqube.plan.physical import Option, Scan, ticks

CHOPPED = ("chop-connect", "exhaustive")  # strategies that share pieces
COMPARING = ("MIN", "MAX")
SUMMED = ("COUNT", "SUM")
# Seconds, measured on one core: an event in a lane of many, a node of a tree filled by an event, a live counter of it, a snapshot,
# an end that adds up what its starts have (and each of these); and the key that a query by itself looks up for its groups.
LAY_IN_LANES, FILL, TOUCH_NODE, SNAPSHOT, LOOK_UP = 50e-9, 65e-9, 1.4e-9, 100e-9, 15e-9
ADD_UP, TOUCH_START = 12e-9, 0.5e-9
MOST_CANDIDATES = 24  # of an exhaustive search, which is exponential in them
MOST_STARTS = 2_048  # live starts of a piece: a snapshot has a number for every pair of starts


@dataclass(frozen=True, slots=True)
class Weight:
    """What is measured of an event: whether a column has a value, or the value itself, to be added up or compared."""

    function: str
    column: str


@dataclass(frozen=True, slots=True)
class SlotLabel:
    """What an event must be to fill a slot, whatever the slot's variable is called; what it weighs, and what must not follow it."""

    name: str
    types: frozenset[str]
    filters: tuple[Predicate, ...] = ()
    weight: Weight | None = None
    absent: frozenset[SlotLabel] = frozenset()

    @property
    def kind(self) -> SlotLabel:
        """What the event must be, alone."""
        return SlotLabel(self.name, self.types, self.filters)

    def __str__(self) -> str:
        weighed = f" weighing {self.weight.function}({self.weight.column})" if self.weight else ""
        return "".join([self.name, weighed, *sorted(f", !{label.name}" for label in self.absent)])


SlotPattern = tuple[SlotLabel, ...]
Family = tuple[int, tuple[str, ...], int | None, bool]


def unweighed(pattern: SlotPattern) -> SlotPattern:
    """The pattern that counts what this one weighs."""
    return tuple(replace(label, weight=None) if label.weight is not None else label for label in pattern)


@dataclass(frozen=True, slots=True)
class Counted:
    """A shareable query: its labels and its window in ticks; beside its matches, what else is measured of them.

    `key` are the columns on which all events of a match agree (partitions among them), `groups` those in GROUP BY, by number.
    """

    pattern: SlotPattern
    window: int
    weighed: tuple[SlotPattern, ...] = ()  # for each measure but the first, in the order of the plan
    key: tuple[str, ...] = ()
    groups: tuple[int, ...] = ()
    period: int | None = None  # ticks of EMIT EVERY
    is_due_at_ends: bool = True  # ON TRIGGER: whether it reports at no other events than those that may end a match

    @property
    def family(self) -> Family:
        """What patterns have in common that lie in the same lanes and are counted by the same arithmetic."""
        return self.window, self.key, self.period, is_extreme(self.pattern)

    def paths(self, name: str) -> dict[str, Counted]:
        """Its patterns by names of their own, that of the matches first."""
        found = {name: replace(self, weighed=())}
        for pattern in self.weighed:
            label = next(label for label in pattern if label.weight is not None)
            assert label.weight is not None
            path = f"{name}: {label.weight.function}({label.name}.{label.weight.column})"
            while path in found:
                path += "'"
            found[path] = replace(self, pattern=pattern, weighed=())
        return found


def is_extreme(pattern: SlotPattern) -> bool:
    """Whether a pattern is compared, not added up."""
    return any(label.weight is not None and label.weight.function in COMPARING for label in pattern)


def paths_of(queries: Mapping[str, Counted]) -> dict[str, Counted]:
    """All patterns of a workload."""
    return {path: counted for name, query in queries.items() for path, counted in query.paths(name).items()}


@dataclass(frozen=True, slots=True)
class Candidate:
    """A substring that several patterns could share, and the seconds that would be saved."""

    piece: SlotPattern
    queries: frozenset[str]
    benefit: float


@dataclass(frozen=True, slots=True)
class SharingPlan:
    """The shareable queries, the strategy taken, and how each pattern is chopped (into one piece, unless by chop-connect)."""

    queries: Mapping[str, Counted]
    strategy: str
    pieces: Mapping[str, tuple[SlotPattern, ...]]
    candidates: tuple[Candidate, ...] = ()
    chosen: tuple[Candidate, ...] = ()
    conflicts: tuple[tuple[int, int], ...] = ()  # positions in `candidates`
    options: tuple[Option, ...] = ()

    @property
    def shares(self) -> bool:
        """Whether anything is counted together."""
        return self.strategy != "independent"

    def only(self, names: Collection[str]) -> SharingPlan:
        """The same for some of the queries, chopped as they are."""
        queries = {name: query for name, query in self.queries.items() if name in names}
        return replace(self, queries=queries, pieces={path: self.pieces[path] for path in paths_of(queries)})


def counted(plan: AggregatePlan, chain: EventChain | str, unit: str) -> Counted | str:
    """The query as one whose counters can be shared, or why they cannot."""
    window, emit = plan.matches.window, plan.emit
    if not isinstance(chain, EventChain):
        return chain
    if chain.is_repeated:
        return "it has repeated parts"
    if window.counts_events:
        return "its window counts events"
    if chain.has_leading:
        return "it begins with a negation, which looks back from the end of every match"
    if chain.has_trailing and emit.counts_once:
        return "it ends with a negation, and its matches count when nothing can cancel them any more"
    if plan.computed:
        return "it measures, or groups by, an expression"
    key = _key_names(plan, chain)
    if isinstance(key, str):
        return key
    positions = group_positions(plan, chain)
    if positions is None:
        return "it counts by groups of more than its key"
    order = sorted(range(len(key)), key=lambda place: key[place])
    labels = [_label(slot) for slot in chain.slots]
    for gap in chain.absences:
        assert isinstance(gap.instance, Scan)
        before = labels[gap.position - 1]
        labels[gap.position - 1] = replace(before, absent=before.absent | {_label(gap.instance)})
    variables = [slot.variable for slot in chain.slots]
    weighed = []
    for measure in plan.measures:
        if measure == MATCHES:
            continue
        pattern = _weighed(measure, labels, variables)
        if isinstance(pattern, str):
            return pattern
        weighed.append(pattern)
    period = ticks(emit.period, unit) if emit.period is not None and emit.when == "every" else None
    names, groups = tuple(key[place] for place in order), tuple(order.index(place) for place in positions)
    last, trigger = chain.slots[-1], plan.trigger
    same = trigger is not None and (trigger.types, frozenset(trigger.filters)) == (last.types, frozenset(last.filters))
    return Counted(tuple(labels), ticks(window, unit), tuple(weighed), names, groups, period, same or emit.when != "trigger")


def _key_names(plan: AggregatePlan, chain: EventChain) -> list[str] | str:
    """The columns on which all events of a match agree, where they are the same for all of them."""
    names = list(plan.matches.partition_by)
    if chain.key and len(chain.slots) == 1:
        return "it has a key, and one event that needs no equal"
    if chain.key and any(gap.key is None for gap in chain.absences):
        return "it has a negation that events of any key meet"
    for number, column in enumerate(chain.key):
        values = [*column, *(gap.key[number] for gap in chain.absences if gap.key is not None)]
        found = {value.name for value in values if isinstance(value, Attribute)}
        if len(found) != 1 or not all(isinstance(value, Attribute) for value in values):
            return "its events are tied by different columns"
        names += found
    return names


def _label(slot: Scan) -> SlotLabel:
    unnamed = renaming({slot.variable: ""})
    return SlotLabel(slot.name, slot.types, tuple(transform(predicate, unnamed) for predicate in slot.filters))


def _weighed(measure: Measure, labels: Sequence[SlotLabel], variables: Sequence[str]) -> SlotPattern | str:
    """The pattern with what is measured at its slot, or why that cannot be."""
    argument = measure.argument
    if measure.function not in (*SUMMED, *COMPARING) or not isinstance(argument, Attribute):
        asked = "" if argument is None else f" of {write_value(argument)}"
        return f"it asks for more than counts, sums and extremes: {measure.function}{asked}"
    assert argument.variable is not None
    place, weight = variables.index(argument.variable), Weight(measure.function, argument.name)
    return tuple(replace(label, weight=weight) if number == place else label for number, label in enumerate(labels))


# ---------------------------------------------------------------- costs


@dataclass(frozen=True, slots=True)
class Frequencies:
    """How often labels come, and what counting costs then. A predicate is taken to let everything pass."""

    statistics: Statistics
    distinct: Mapping[str, int] = field(default_factory=dict)  # values of columns
    _known: dict[frozenset[str], float] = field(default_factory=dict, compare=False, repr=False)

    def count(self, label: SlotLabel) -> float:
        if label.types not in self._known:
            self._known[label.types] = float(self.statistics.count(label.types))
        return self._known[label.types]

    def lanes(self, query: Counted) -> int:
        """How many keys there are, each with counters of its own."""
        return prod(max(1, self.distinct.get(name, MANY_VALUES)) for name in query.key)

    def live(self, label: SlotLabel, query: Counted) -> float:
        """Events of a label in a window of one lane."""
        return self.count(label) * min(1.0, query.window / max(self.statistics.span, 1)) / self.lanes(query)

    def alone(self, query: Counted) -> float:
        """A query by itself, as a window product for each of its patterns."""
        events, patterns = sum(map(self.count, query.pattern)), 1 + len(query.weighed)
        each = (SORT + REPORT if query.key else LAY_OUT) + (MULTIPLY + PER_SLOT * len(query.pattern)) * patterns
        return SCAN_EVENT * self.statistics.n + events * each

    def layout(self, paths: Mapping[str, Counted]) -> float:
        """Laying out all events of a workload, once for every family."""
        seconds = 0.0
        labels: dict[tuple[int, tuple[str, ...], int | None], set[SlotLabel]] = {}
        for path in paths.values():
            labels.setdefault(path.family[:3], set()).update(label.kind for label in path.pattern)
        for (_, key, _), found in labels.items():
            each = LAY_IN_LANES if key else LAY_OUT
            seconds += SCAN_EVENT * self.statistics.n + each * sum(map(self.count, found))
        return seconds

    def connected(self, query: Counted, pieces: Sequence[SlotPattern]) -> float:
        """Snapshots and final sums of a chopped pattern; its pieces' counters are not in it."""
        starts = self.live(query.pattern[0], query)
        seconds = 0.0
        for number, piece in enumerate(pieces[1:]):
            before = self.live(pieces[number][0], query) if number else 1.0
            seconds += self.count(piece[0]) * (SNAPSHOT + TOUCH_START * starts * max(before, 1.0))
        rows = self.live(pieces[-1][0], query) * (starts if len(pieces) > 1 else 1.0)
        return seconds + self.count(query.pattern[-1]) * (ADD_UP + TOUCH_START * rows)

    def tree(self, queries: Mapping[str, Counted]) -> float:
        """All patterns of a family in prefix trees of products."""
        paths = paths_of(queries)
        seconds = self.layout(paths)
        for family in {path.family for path in paths.values()}:
            patterns = [path.pattern for path in paths.values() if path.family == family]
            nodes = {pattern[: i + 1] for pattern in patterns for i in range(len(pattern))}
            seconds += sum(self.count(node[-1]) * (FILL + (MULTIPLY + PER_SLOT * len(node)) / 2) for node in nodes)
            seconds += sum(self.count(pattern[-1]) * MULTIPLY for pattern in patterns)
        return seconds

    def chopped(self, paths: Mapping[str, Counted], pieces: Mapping[str, Sequence[SlotPattern]]) -> float:
        """Patterns in pieces, whose prefixes have one counter each, for every start."""
        return self.layout(paths) + self.counters(paths, pieces)

    def counters(self, paths: Mapping[str, Counted], pieces: Mapping[str, Sequence[SlotPattern]]) -> float:
        """The same without laying out events, which is the same for all pieces."""
        return self._prefixes(paths, pieces) + sum(self.connected(paths[name], parts) for name, parts in pieces.items())

    def _prefixes(self, paths: Mapping[str, Counted], pieces: Mapping[str, Sequence[SlotPattern]]) -> float:
        families = {name: paths[name].family for name in pieces}
        found = {
            (families[name], part[: i + 1]): paths[name]
            for name, parts in pieces.items()
            for part in parts
            for i in range(len(part))
        }
        return sum(
            self.count(prefix[-1]) * (FILL + TOUCH_NODE * self.live(prefix[0], query)) for (_, prefix), query in found.items()
        )


# ---------------------------------------------------------------- candidates and conflicts


def find_candidates(queries: Mapping[str, Counted], frequencies: Frequencies) -> tuple[Candidate, ...]:
    """Substrings of two labels or more in two patterns or more of one family, by benefit."""
    found = []
    unchopped: dict[frozenset[str], float] = {}  # common prefixes are shared anyway
    for (_, piece), names in _frequent(queries).items():
        sharing = {name: queries[name] for name in sorted(names)}
        if names not in unchopped:
            unchopped[names] = frequencies.counters(sharing, {name: (query.pattern,) for name, query in sharing.items()})
        chops = {name: chop(query.pattern, [piece]) for name, query in sharing.items()}
        found.append(Candidate(piece, names, unchopped[names] - frequencies.counters(sharing, chops)))
    return tuple(sorted(found, key=lambda candidate: (-candidate.benefit, [str(label) for label in candidate.piece])))


def _frequent(queries: Mapping[str, Counted]) -> dict[tuple[Family, SlotPattern], frozenset[str]]:
    """Apriori: a substring is looked at only if what is left without its last label is shared already."""
    found: dict[tuple[Family, SlotPattern], frozenset[str]] = {}
    length, grown = 2, None
    while grown is None or grown:
        holders: dict[tuple[Family, SlotPattern], set[str]] = {}
        for name, query in queries.items():
            family = query.family
            for piece in _substrings(query.pattern, length):
                if length == 2 or ((family, piece[:-1]) in found and (family, piece[1:]) in found):
                    holders.setdefault((family, piece), set()).add(name)
        grown = {piece: frozenset(names) for piece, names in holders.items() if len(names) > 1}
        found |= grown
        length += 1
    return found


def _substrings(pattern: SlotPattern, length: int) -> Iterator[SlotPattern]:
    return (pattern[i : i + length] for i in range(len(pattern) - length + 1))


def _place(pattern: SlotPattern, piece: SlotPattern) -> range:
    """Where a piece stands first in a pattern."""
    at = next(i for i in range(len(pattern)) if pattern[i : i + len(piece)] == piece)
    return range(at, at + len(piece))


def find_conflicts(queries: Mapping[str, Counted], candidates: Sequence[Candidate]) -> tuple[tuple[int, int], ...]:
    """Pairs of candidates that overlap in a query both would be shared in."""
    places = [{name: _place(queries[name].pattern, each.piece) for name in each.queries} for each in candidates]
    edges = []
    for i, one in enumerate(places):
        for j, other in enumerate(places[:i]):
            both = ((one[name], other[name]) for name in one.keys() & other.keys())
            if any(own.start < theirs.stop and theirs.start < own.stop for own, theirs in both):
                edges.append((j, i))
    return tuple(edges)


def greedy(candidates: Sequence[Candidate], conflicts: Sequence[tuple[int, int]]) -> tuple[int, ...]:
    """The most beneficial first, then whatever is not in conflict with what was taken."""
    against = _against(conflicts)
    taken: list[int] = []
    for i in sorted(range(len(candidates)), key=lambda i: -candidates[i].benefit):
        if candidates[i].benefit > 0 and not against.get(i, set()) & set(taken):
            taken.append(i)
    return tuple(sorted(taken))


def exhaustive(candidates: Sequence[Candidate], conflicts: Sequence[tuple[int, int]]) -> tuple[int, ...]:
    """The independent set of the greatest total benefit."""
    useful = [i for i in range(len(candidates)) if candidates[i].benefit > 0]
    if len(useful) > MOST_CANDIDATES:
        raise PlanError(
            f"{len(useful)} candidates are too many to try all sets of them\n  hint: strategy='chop-connect' takes the best first"
        )
    against = _against(conflicts)

    def best(rest: tuple[int, ...]) -> tuple[float, tuple[int, ...]]:
        if not rest:
            return 0.0, ()
        first, others = rest[0], rest[1:]
        with_first, taken = best(tuple(i for i in others if i not in against.get(first, set())))
        with_first += candidates[first].benefit
        if not against.get(first, set()) & set(others):
            return with_first, (first, *taken)
        without, instead = best(others)
        return (with_first, (first, *taken)) if with_first >= without else (without, instead)

    return tuple(sorted(best(tuple(useful))[1]))


def _against(conflicts: Sequence[tuple[int, int]]) -> dict[int, set[int]]:
    against: dict[int, set[int]] = {}
    for i, j in conflicts:
        against.setdefault(i, set()).add(j)
        against.setdefault(j, set()).add(i)
    return against


def chop(pattern: SlotPattern, shared: Sequence[SlotPattern]) -> tuple[SlotPattern, ...]:
    """The pattern in pieces: the shared ones, and what is left between them.

    A shared piece that stands first is a prefix of the tree of pieces already: nothing is cut behind it.
    """
    places = [place for place in (_place(pattern, piece) for piece in shared) if place.start]
    cuts = sorted({0, len(pattern), *(place.start for place in places), *(place.stop for place in places)})
    return tuple(pattern[a:b] for a, b in pairwise(cuts))


# ---------------------------------------------------------------- the plan


@dataclass(frozen=True)
class Counting:
    """A workload of counts to be priced and planned.

    `alone`: the seconds of queries whose own plan was priced, whatever it does: of a keyed query whose matches are few, it builds
    them, and the counters of a tree have to beat that. `must_chop`: a piece is shared even if that does not pay; `tries_all`: which
    ones is found by trying all sets of them.
    """

    queries: Mapping[str, Counted]
    measured: Measurements
    alone: Mapping[str, float] = field(default_factory=dict)
    must_chop: bool = False
    tries_all: bool = False

    @cached_property
    def frequencies(self) -> Frequencies:
        return Frequencies(self.measured.statistics, self.measured.distinct)

    @cached_property
    def paths(self) -> dict[str, Counted]:
        return paths_of(self.queries)

    @cached_property
    def whole(self) -> dict[str, tuple[SlotPattern, ...]]:
        return {name: (path.pattern,) for name, path in self.paths.items()}

    @cached_property
    def candidates(self) -> tuple[Candidate, ...]:
        return find_candidates(self.paths, self.frequencies)

    @cached_property
    def conflicts(self) -> tuple[tuple[int, int], ...]:
        return find_conflicts(self.paths, self.candidates)

    @cached_property
    def chosen(self) -> tuple[Candidate, ...]:
        choose = exhaustive if self.tries_all else greedy
        chosen = tuple(self.candidates[i] for i in choose(self.candidates, self.conflicts))
        return chosen if chosen or not self.must_chop else tuple(filter(self._chops, self.candidates))[:1]

    def _chops(self, candidate: Candidate) -> bool:
        """Whether a pattern is chopped for it: not where it begins all of them."""
        return any(len(chop(self.paths[name].pattern, [candidate.piece])) > 1 for name in candidate.queries)

    @cached_property
    def pieces(self) -> dict[str, tuple[SlotPattern, ...]]:
        return {
            name: chop(path.pattern, [candidate.piece for candidate in self.chosen if name in candidate.queries])
            for name, path in self.paths.items()
        }

    @property
    def starts(self) -> float:
        """The most live starts of a query."""
        return max((self.frequencies.live(query.pattern[0], query) for query in self.queries.values()), default=0.0)

    def independent(self) -> float:
        """Seconds with every query by itself."""
        known, alone = self.alone, self.frequencies.alone
        look_up = LOOK_UP * self.measured.statistics.n
        return sum(
            (known[name] if name in known else alone(query)) + look_up * len(query.groups) for name, query in self.queries.items()
        )

    def by_tree(self) -> float:
        return self.frequencies.tree(self.queries)

    def by_starts(self) -> float:
        return self.frequencies.chopped(self.paths, self.whole)

    def by_pieces(self) -> float:
        return self.frequencies.chopped(self.paths, self.pieces)

    def why_not_chopped(self) -> str:
        """Why nobody would chop without being asked to; nothing where it may pay."""
        if not self.chosen:
            return "sharing no piece pays"
        return "a snapshot would have a number for too many pairs of starts" if self.starts >= MOST_STARTS else ""

    def plan(self, strategy: str, options: tuple[Option, ...] = ()) -> SharingPlan:
        pieces = self.pieces if strategy in CHOPPED else self.whole
        return SharingPlan(self.queries, strategy, pieces, self.candidates, self.chosen, self.conflicts, options)
