"""How a workload of counts shares its counters: by common prefixes, by common substrings, or not at all.

Shareable are queries that ask for COUNT(*) ON TRIGGER of a plain sequence (no key, group or negation) in a time window; windows may
differ. The others run by themselves. A pattern is a string of labels: what an event must be to fill a slot.

    independent   every query by its own cheapest strategy (`window-product` is hard to beat: it is the competitor)
    prefix-tree   all patterns in one tree, so that a common prefix is counted once
    chop-connect  patterns chopped into pieces, common pieces counted once, and connected by snapshots
    exhaustive    the same with the best pieces, found by trying all sets of them: for few queries, by name only

What to chop: candidates are substrings of at least two labels in at least two queries, grown label by label from those that are
frequent (the Apriori rule). The benefit of sharing one is what its queries cost by themselves less what they cost chopped there,
with the frequencies of the stream in place of the paper's uniform ones. Candidates that overlap in a common query are in conflict;
the plan is an independent set of that graph: greedily by benefit, or the best one by exhaustive search.

    Paper (A-Seq)                        | Here
    BValue                               | Candidate.benefit
    N_0, f N_0                           | Frequencies.count, measured per label
    sharing conflict, maximum independent set | conflicts, exhaustive / greedy
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from seqube.errors import PlanError
from seqube.events import Statistics
from seqube.language.tree import Predicate, renaming, transform
from seqube.plan.aggregates import (
    LAY_OUT,
    MATCHES,
    MULTIPLY,
    PER_SLOT,
    SCAN_EVENT,
    TOUCH,
    UPDATE,
    AggregatePlan,
)
from seqube.plan.chains import EventChain
from seqube.plan.physical import Option, Scan, ticks

CHOPPED = ("chop-connect", "exhaustive")  # strategies that share pieces
MOST_CANDIDATES = 24  # of an exhaustive search, which is exponential in them
MOST_STARTS = 2_048  # live starts of a piece: a snapshot has a number for every pair of starts


@dataclass(frozen=True, slots=True)
class SlotLabel:
    """What an event must be to fill a slot, whatever the slot's variable is called."""

    name: str
    types: frozenset[str]
    filters: tuple[Predicate, ...] = ()


SlotPattern = tuple[SlotLabel, ...]


@dataclass(frozen=True, slots=True)
class Counted:
    """A shareable query: its labels and its window in ticks."""

    pattern: SlotPattern
    window: int


@dataclass(frozen=True, slots=True)
class Candidate:
    """A substring that several queries could share, and the seconds that would be saved."""

    piece: SlotPattern
    queries: frozenset[str]
    benefit: float


@dataclass(frozen=True, slots=True)
class SharingPlan:
    """The shareable queries, the strategy taken, and how each is chopped (into one piece, unless by chop-connect)."""

    queries: Mapping[str, Counted]
    strategy: str
    pieces: Mapping[str, tuple[SlotPattern, ...]]
    candidates: tuple[Candidate, ...] = ()
    chosen: tuple[Candidate, ...] = ()
    conflicts: tuple[tuple[int, int], ...] = ()  # positions in `candidates`
    options: tuple[Option, ...] = ()


def counted(plan: AggregatePlan, chain: EventChain | str, unit: str) -> Counted | str:
    """The query as one whose counters can be shared, or why they cannot."""
    window = plan.matches.window
    if not isinstance(chain, EventChain):
        return chain
    if chain.key or plan.matches.partition_by:
        return "it counts by a key"
    if plan.group_by:
        return "it counts by groups"
    if chain.absences:
        return "it has a negation"
    if chain.is_repeated:
        return "it has repeated parts"
    if plan.measures != (MATCHES,):
        return "it asks for more than COUNT(*)"
    if plan.trigger is None:
        return "it does not report ON TRIGGER"
    if window.counts_events:
        return "its window counts events"
    last = chain.slots[-1]
    if (plan.trigger.types, frozenset(plan.trigger.filters)) != (last.types, frozenset(last.filters)):
        return "it also reports at events that end no match"
    return Counted(tuple(_label(slot) for slot in chain.slots), ticks(window, unit))


def _label(slot: Scan) -> SlotLabel:
    unnamed = renaming({slot.variable: ""})
    return SlotLabel(slot.name, slot.types, tuple(transform(predicate, unnamed) for predicate in slot.filters))


# ---------------------------------------------------------------- costs


@dataclass(frozen=True, slots=True)
class Frequencies:
    """How often labels come, and what counting costs then. A predicate is taken to let everything pass."""

    statistics: Statistics

    def count(self, label: SlotLabel) -> float:
        return float(self.statistics.count(label.types))

    def live(self, label: SlotLabel, window: int) -> float:
        """Events of a label in a window."""
        return self.count(label) * min(1.0, window / max(self.statistics.span, 1))

    def alone(self, query: Counted) -> float:
        """A query by itself, as a window product."""
        events = sum(map(self.count, query.pattern))
        return SCAN_EVENT * self.statistics.n + events * (LAY_OUT + MULTIPLY + PER_SLOT * len(query.pattern))

    def counters(self, piece: SlotPattern, window: int) -> float:
        """The prefix counters of a piece, per start."""
        return sum(self.count(label) * (UPDATE + TOUCH * self.live(piece[0], window)) for label in piece)

    def connected(self, query: Counted, pieces: Sequence[SlotPattern]) -> float:
        """Snapshots and final sums of a chopped query; its pieces' counters are not in it."""
        starts = self.live(query.pattern[0], query.window)
        seconds = 0.0
        for number, piece in enumerate(pieces[1:]):
            before = self.live(pieces[number][0], query.window) if number else 1.0
            seconds += self.count(piece[0]) * TOUCH * starts * max(before, 1.0)
        rows = self.live(pieces[-1][0], query.window) * (starts if len(pieces) > 1 else 1.0)
        return seconds + self.count(query.pattern[-1]) * (UPDATE + TOUCH * rows)

    def tree(self, queries: Mapping[str, Counted]) -> float:
        """All queries of a window in one prefix tree of products."""
        seconds = 0.0
        for window in {query.window for query in queries.values()}:
            patterns = [query.pattern for query in queries.values() if query.window == window]
            nodes = {pattern[: i + 1] for pattern in patterns for i in range(len(pattern))}
            seconds += SCAN_EVENT * self.statistics.n
            seconds += sum(self.count(node[-1]) * (MULTIPLY + PER_SLOT * len(node)) / 2 for node in nodes)
            seconds += sum(self.count(pattern[-1]) * MULTIPLY for pattern in patterns)
        return seconds

    def chopped(self, queries: Mapping[str, Counted], pieces: Mapping[str, Sequence[SlotPattern]]) -> float:
        windows: dict[SlotPattern, int] = {}
        for name, parts in pieces.items():
            for piece in parts:
                windows[piece] = max(windows.get(piece, 0), queries[name].window)
        shared = sum(self.counters(piece, window) for piece, window in windows.items())
        return SCAN_EVENT * self.statistics.n + shared + sum(self.connected(queries[name], parts) for name, parts in pieces.items())


# ---------------------------------------------------------------- candidates and conflicts


def find_candidates(queries: Mapping[str, Counted], frequencies: Frequencies) -> tuple[Candidate, ...]:
    """Substrings of two labels or more in two queries or more, by benefit."""
    frequent = _frequent(queries)
    found = []
    for piece, names in frequent.items():
        unshared = sum(frequencies.chopped({name: queries[name]}, {name: (queries[name].pattern,)}) for name in sorted(names))
        sharing = {name: queries[name] for name in sorted(names)}
        chops = {name: chop(query.pattern, [piece]) for name, query in sharing.items()}
        once = SCAN_EVENT * frequencies.statistics.n * (len(names) - 1)  # the scan is shared whatever is chopped
        found.append(Candidate(piece, names, unshared - once - frequencies.chopped(sharing, chops)))
    return tuple(sorted(found, key=lambda candidate: (-candidate.benefit, [label.name for label in candidate.piece])))


def _frequent(queries: Mapping[str, Counted]) -> dict[SlotPattern, frozenset[str]]:
    """Apriori: a substring is looked at only if what is left without its last label is shared already."""
    found: dict[SlotPattern, frozenset[str]] = {}
    length, grown = 2, None
    while grown is None or grown:
        holders: dict[SlotPattern, set[str]] = {}
        for name, query in queries.items():
            for piece in _substrings(query.pattern, length):
                if length == 2 or (piece[:-1] in found and piece[1:] in found):
                    holders.setdefault(piece, set()).add(name)
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
    edges = []
    for i, one in enumerate(candidates):
        for j, other in enumerate(candidates[:i]):
            for name in one.queries & other.queries:
                pattern = queries[name].pattern
                if set(_place(pattern, one.piece)) & set(_place(pattern, other.piece)):
                    edges.append((j, i))
                    break
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
    """The pattern in pieces: the shared ones, and what is left between them."""
    places = sorted((_place(pattern, piece) for piece in shared), key=lambda place: place.start)
    cuts = sorted({0, len(pattern), *(place.start for place in places), *(place.stop for place in places)})
    return tuple(pattern[a:b] for a, b in pairwise(cuts))


# ---------------------------------------------------------------- the plan


@dataclass(frozen=True)
class Counting:
    """A workload of counts to be priced and planned.

    `must_chop`: a piece is shared even if that does not pay; `tries_all`: which ones is found by trying all sets of them.
    """

    queries: Mapping[str, Counted]
    statistics: Statistics
    must_chop: bool = False
    tries_all: bool = False

    @cached_property
    def frequencies(self) -> Frequencies:
        return Frequencies(self.statistics)

    @cached_property
    def candidates(self) -> tuple[Candidate, ...]:
        return find_candidates(self.queries, self.frequencies)

    @cached_property
    def conflicts(self) -> tuple[tuple[int, int], ...]:
        return find_conflicts(self.queries, self.candidates)

    @cached_property
    def chosen(self) -> tuple[Candidate, ...]:
        choose = exhaustive if self.tries_all else greedy
        chosen = tuple(self.candidates[i] for i in choose(self.candidates, self.conflicts))
        return self.candidates[:1] if self.must_chop and not chosen else chosen

    @cached_property
    def pieces(self) -> dict[str, tuple[SlotPattern, ...]]:
        return {
            name: chop(query.pattern, [candidate.piece for candidate in self.chosen if name in candidate.queries])
            for name, query in self.queries.items()
        }

    @property
    def starts(self) -> float:
        """The most live starts of a query."""
        return max((self.frequencies.live(query.pattern[0], query.window) for query in self.queries.values()), default=0.0)

    def independent(self) -> float:
        """Seconds with every query by itself."""
        return sum(map(self.frequencies.alone, self.queries.values()))

    def by_tree(self) -> float:
        return self.frequencies.tree(self.queries)

    def by_pieces(self) -> float:
        return self.frequencies.chopped(self.queries, self.pieces)

    def why_not_chopped(self) -> str:
        """Why nobody would chop without being asked to; nothing where it may pay."""
        if not self.chosen:
            return "sharing no piece pays"
        return "a snapshot would have a number for too many pairs of starts" if self.starts >= MOST_STARTS else ""

    def plan(self, strategy: str, options: tuple[Option, ...] = ()) -> SharingPlan:
        whole = {name: (query.pattern,) for name, query in self.queries.items()}
        pieces = self.pieces if strategy in CHOPPED else whole
        return SharingPlan(self.queries, strategy, pieces, self.candidates, self.chosen, self.conflicts, options)
