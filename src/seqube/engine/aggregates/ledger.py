"""The columns of counters: room for what is new, wider numbers, and forgetting what is dead.

Columns grow by doubling, before a batch is taken, to what it can need at most, so that loops never allocate. What is dead is
forgotten when it has become as much as what is alive: memory follows the window.

Whole numbers are doubles as long as they are exact, below 2^53. Beyond that they are residues modulo a few primes, then of more;
one double still bounds all counts. A stream begins at the first of these levels, and `widen` takes all its numbers, which are exact
at that moment, to the next. Primes are below 2^26, so that products of residues are exact, too.

Cost: amortised, a few times what is added. Invariant: numbers of one level are exact as long as counts stay below its limit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from seqube.engine.aggregates.counters import (
    BACK_STARTS,
    BLOCK,
    CLOCK_NOW,
    DIRTY,
    DOMAIN_OF,
    FIRST_ROW,
    FIRST_WAITING,
    FREE,
    FREE_MAPS,
    FREE_ROWS,
    FREE_WAITING,
    FRESH,
    GROUP_OF,
    IS_DIRTY,
    LANE,
    LAST_LEAVES,
    LAST_MAP,
    LAST_WAITING,
    LEAF,
    LINK,
    N_DIRTY,
    N_DOMAINS,
    N_FRESH,
    N_GROUPS,
    N_LANES,
    N_OF_LANES,
    N_PLACES,
    N_TREES,
    NEXT_LEAVES,
    OFFSET,
    ONE_LANE,
    WIDTH,
    Array,
    Counters,
    Exact,
    How,
)
from seqube.engine.aggregates.measured import count_too_long, from_residues
from seqube.engine.predicates import Ints
from seqube.engine.sequence import HIGHEST, LOWEST

FEWEST = 1_024  # of anything, below which it is not worth forgetting

_ZERO, _ONE = np.array([HIGHEST, LOWEST], np.int64).view(np.float64)  # of smallest ones, which are compared by their bits
_PRIMES = (67108859, 67108837, 67108819, 67108777, 67108763, 67108757, 67108753, 67108747, 67108739, 67108729, 67108721)


class Level(NamedTuple):
    """The primes that whole numbers are residues of, none for the numbers themselves; exact below the limit."""

    primes: tuple[int, ...]
    limit: float


LEVELS = (Level((), 2.0**53), Level(_PRIMES[:3], 2.0**75), Level(_PRIMES, 2.0**282))


class Widths(NamedTuple):
    """How many tracks there are: of whole numbers, the first of which bounds all others, of doubles, and of smallest ones."""

    whole: int
    real: int
    low: int
    reads: Array  # (final state, track): which final states each track reads
    is_exact: bool = True  # whether whole numbers are asked for, or nothing but doubles

    def exact(self, level: int, largest: float) -> Exact:
        """The rings of a level.

        No count goes beyond the limit, so that nothing made of as many weights leaves what is exact. At the last level residues go
        on, whatever they stand for, and the limit is one of what is read: ways that never end may be as many as they like.
        """
        primes, limit = LEVELS[level]
        others = self.real + self.low
        tracks = np.repeat(np.arange(self.whole + others), [len(primes) or 1] * self.whole + [1] * others)
        tracks = np.append(0, tracks) if primes else tracks
        rings = np.array([*([0.0, *primes * self.whole] if primes else [0.0] * self.whole), *[0.0] * self.real, *[-1.0] * self.low])
        zeros, ones = (np.where(rings < 0, bits, number) for bits, number in ((_ZERO, 0.0), (_ONE, 1.0)))
        most = limit / largest if self.is_exact else np.inf
        return Exact(rings, zeros, ones, self.reads[:, tracks], np.inf if level + 1 == len(LEVELS) else most, most)


class Ledger:
    """The counters of a stream."""

    def __init__(self, how: How, widths: Widths, starts: int | None, leading: bool) -> None:
        self.how, self.widths, self.starts = how, widths, starts
        self._leading = leading  # whether a negation stands first: when it leaves, it leaves a map behind
        self.level, self.largest = 0, 1.0  # no weight of a whole number was larger
        self.exact = widths.exact(0, 1.0)
        n = how.auto.n_states
        side = 0 if starts is not None else n

        def ints(n_columns: int) -> Ints:
            return np.empty((0, n_columns), np.int64)

        self.columns = Counters(
            lanes=ints(DIRTY + 1),
            back=self.nothing(0, side, side),
            rows=ints(4),
            entries=self.nothing(0, n),
            maps=ints(4),
            weights=self.nothing(0),
            queue=ints(5),
            groups=ints(6),
            totals=self.nothing(0),
            trees=self.nothing(0),
            domains=ints(3),
            scratch=self.nothing(n, n),
            at=np.zeros(N_PLACES, np.int64),
        )
        self.room = self.nothing(1)[0]

    @property
    def counting(self) -> tuple[Array, int | None]:
        """Where numbers are put together, and which strategy it is, as `progress` wants to know it."""
        return self.room, self.starts

    @property
    def at(self) -> Ints:
        return self.columns.at

    @property
    def n_bytes(self) -> int:
        return sum(column.nbytes for column in self.columns)

    def nothing(self, *shape: int) -> Array:
        """The zero of every track, so many times."""
        numbers = np.empty((*shape, len(self.exact.zeros)))
        numbers[:] = self.exact.zeros
        return numbers

    # ------------------------------------------------------------ more room

    def _longer(self, size: int, numbers: str, ints: str, **fills: int) -> None:
        """Room for so many, and as many more."""
        column, wide = getattr(self.columns, ints), getattr(self.columns, numbers) if numbers else None
        longer = np.zeros((2 * size, column.shape[1]), np.int64)
        for name, value in fills.items():
            longer[:, int(name[1:])] = value
        longer[: len(column)] = column
        self.columns = self.columns._replace(**{ints: longer})
        if wide is not None:
            self.columns = self.columns._replace(**{numbers: self._extended(wide, 2 * size)})

    def _extended(self, numbers: Array, size: int) -> Array:
        extended = self.nothing(size, *numbers.shape[1:-1])
        extended[: len(numbers)] = numbers
        return extended

    def add_domains(self, n: int) -> None:
        self.at[N_DOMAINS] += n
        if (size := int(self.at[N_DOMAINS])) > len(self.columns.domains):
            first = -1 if self.how.by_position else LOWEST  # before the first event
            self._longer(size, "", "domains", **{f"_{CLOCK_NOW}": first, f"_{FIRST_WAITING}": -1, f"_{LAST_WAITING}": -1})

    def add_groups(self, n: int) -> None:
        self.at[N_GROUPS] += n
        if (size := int(self.at[N_GROUPS])) > len(self.columns.groups):
            self._longer(size, "totals", "groups", **{f"_{ONE_LANE}": -1})

    def add_lanes(self, groups: Ints, domains: Ints) -> None:
        """A new lane for every element, which says its group and domain."""
        old, size = int(self.at[N_LANES]), int(self.at[N_LANES]) + len(groups)
        self.at[N_LANES] = size
        if size > len(self.columns.lanes):
            self._longer(size, "back", "lanes")
        lanes, back = self.columns.lanes, self.columns.back
        lanes[old:size, :DIRTY] = 0
        lanes[old:size, [FIRST_ROW, LAST_MAP]], lanes[old:size, NEXT_LEAVES] = -1, HIGHEST
        lanes[old:size, [LAST_LEAVES, BLOCK]] = LOWEST
        lanes[old:size, GROUP_OF], lanes[old:size, DOMAIN_OF] = groups, domains
        diagonal = np.arange(back.shape[1])
        back[old:size] = self.exact.zeros
        back[old:size, diagonal, diagonal] = self.exact.ones
        if self.how.single:
            self.columns.groups[groups, ONE_LANE] = np.arange(old, size)
        elif not self.how.total:
            self._add_leaves(np.arange(old, size))

    def reserve(self, n_maps: int, n_starts: int, n_negations: int) -> None:
        """Nodes for so many maps, among them starts and leading negations."""
        product = self.starts is None
        self._free("rows", "entries", FREE_ROWS, n_starts + n_negations + self._owed_rows if product else n_starts)
        self._free("maps", "weights", FREE_MAPS, n_maps + n_negations + self._owed_maps if product else 0)
        self._free("queue", "", FREE_WAITING, n_starts + n_negations)

    @property
    def _owed_rows(self) -> int:
        """Rows that a turn will ask for."""
        return int(self.at[BACK_STARTS])

    @property
    def _owed_maps(self) -> int:
        """Maps that will be asked for when what waits has left."""
        return len(self.columns.queue) - int(self.at[FREE_WAITING]) if self._leading else 0

    def _free(self, ints: str, numbers: str, free: int, wanted: int) -> None:
        """A pool in which so many nodes are free."""
        old, n_free = len(getattr(self.columns, ints)), int(self.at[free])
        if wanted > n_free:
            self._longer(old - n_free + wanted, numbers, ints)
            nodes = getattr(self.columns, ints)
            nodes[n_free : n_free + len(nodes) - old, FREE] = np.arange(old, len(nodes))[::-1]
            self.at[free] += len(nodes) - old

    # ------------------------------------------------------------ trees

    def _add_leaves(self, lanes: Ints) -> None:
        """Places for new lanes in the trees of their groups; a tree that is full is written anew, with twice the leaves or more."""
        groups, of_lane = self.columns.groups, self.columns.lanes[lanes, GROUP_OF]
        order = np.argsort(of_lane, kind="stable")
        found, firsts, counts = np.unique(of_lane[order], return_index=True, return_counts=True)
        self.columns.lanes[lanes[order], LEAF] = np.arange(len(order)) + np.repeat(groups[found, N_OF_LANES] - firsts, counts)
        groups[found, N_OF_LANES] += counts
        full = found[groups[found, N_OF_LANES] > groups[found, WIDTH]]
        if not len(full):
            return
        old_leaves, old_widths = groups[full, OFFSET] + groups[full, WIDTH], groups[full, WIDTH]
        widths = np.left_shift(1, np.ceil(np.log2(np.maximum(2, groups[full, N_OF_LANES]))).astype(np.int64))
        offsets = int(self.at[N_TREES]) + np.cumsum(2 * widths) - 2 * widths
        self.at[N_TREES] += 2 * int(widths.sum())
        if self.at[N_TREES] > len(self.columns.trees):
            self.columns = self.columns._replace(trees=self._extended(self.columns.trees, 2 * int(self.at[N_TREES])))
        trees = self.columns.trees
        trees[int(offsets[0]) : int(self.at[N_TREES])] = self.exact.zeros
        trees[_spans(offsets + widths, old_widths)] = trees[_spans(old_leaves, old_widths)]
        groups[full, OFFSET], groups[full, WIDTH] = offsets, widths
        self._add_up(offsets, widths)
        if self.at[N_TREES] > 16 * self.at[N_LANES] + FEWEST:
            self._plant()

    def _add_up(self, offsets: Ints, widths: Ints) -> None:
        """All inner nodes of these trees, level by level."""
        trees, rings, width = self.columns.trees, self.exact.rings, int(widths.max(initial=1)) // 2
        while width >= 1:
            roots = np.repeat(offsets[widths > width], width)
            nodes = roots + width + np.tile(np.arange(width), len(roots) // width)
            left, right = trees[2 * nodes - roots], trees[2 * nodes - roots + 1]
            smallest = np.minimum(left.view(np.int64), right.view(np.int64)).view(np.float64)
            sums = np.where(rings < 0, 0.0, left) + np.where(rings < 0, 0.0, right)
            trees[nodes] = np.where(rings < 0, smallest, np.where(rings > 0, sums % np.maximum(rings, 1.0), sums))
            width //= 2

    def _plant(self) -> None:
        """All trees anew, without those that were outgrown and the leaves of lanes that are gone."""
        groups, lanes = self.columns.groups, np.arange(int(self.at[N_LANES]))
        values = self.columns.trees[self._leaves(lanes)]
        groups[:, [N_OF_LANES, WIDTH, OFFSET]] = 0
        self.at[N_TREES] = 0
        self.columns = self.columns._replace(trees=self.nothing(0))
        self._add_leaves(lanes)
        self.columns.trees[self._leaves(lanes)] = values
        planted = groups[groups[:, WIDTH] > 0]
        self._add_up(planted[:, OFFSET], planted[:, WIDTH])

    def _leaves(self, lanes: Ints) -> Ints:
        groups = self.columns.groups[self.columns.lanes[lanes, GROUP_OF]]
        places: Ints = groups[:, OFFSET] + groups[:, WIDTH] + self.columns.lanes[lanes, LEAF]
        return places

    # ------------------------------------------------------------ wider numbers

    def bear(self, largest: float) -> None:
        """Be wide enough for weights of this size."""
        if largest <= self.largest:
            return
        self.largest = largest
        while LEVELS[self.level].limit <= self.largest:
            self.widen()
        self.exact = self.widths.exact(self.level, self.largest)

    def widen(self) -> Callable[[Array], Array]:
        """Take all numbers to the next level; gives what does so to others."""
        if self.level + 1 == len(LEVELS):
            raise count_too_long()
        old, new, n_whole = LEVELS[self.level].primes, LEVELS[self.level + 1].primes, self.widths.whole
        n_old = 1 + n_whole * len(old) if old else n_whole

        def wider(numbers: Array) -> Array:
            whole = numbers[..., 1:n_old] if old else numbers[..., :n_whole]
            pieces = [numbers[..., :1]]
            for track in range(n_whole):
                residues = [whole[..., track * max(1, len(old)) + i].astype(np.int64) for i in range(max(1, len(old)))]
                found = _more_residues(residues, old, new) if old else [residues[0] % prime for prime in new]
                pieces += [residue[..., None].astype(np.float64) for residue in found]
            return np.concatenate([*pieces, numbers[..., n_old:]], -1)

        self.level += 1
        names = ("back", "entries", "weights", "totals", "trees", "scratch")
        self.columns = self.columns._replace(**{name: wider(getattr(self.columns, name)) for name in names})
        self.room = wider(self.room)
        self.exact = self.widths.exact(self.level, self.largest)
        return wider

    def whole(self, numbers: Array, track: int) -> Ints | pa.Array:
        """The whole numbers of a track."""
        primes = LEVELS[self.level].primes
        if not primes:
            return numbers[:, track].astype(np.int64)
        return from_residues([numbers[:, 1 + track * len(primes) + i].astype(np.int64) for i in range(len(primes))], primes)

    def place(self, other: int) -> int:
        """The column of a track of doubles or, after these, of smallest ones."""
        primes = LEVELS[self.level].primes
        return (1 + self.widths.whole * len(primes) if primes else self.widths.whole) + other

    # ------------------------------------------------------------ forgetting

    @property
    def dead(self) -> Array:
        """Which lanes have nothing alive in them."""
        lanes = self.columns.lanes[: self.at[N_LANES]]
        clocks = self.columns.domains[lanes[:, DOMAIN_OF], CLOCK_NOW]
        found: Array = (lanes[:, LAST_LEAVES] <= clocks) & (lanes[:, BLOCK] <= clocks)
        return found

    @property
    def fresh(self) -> Ints:
        """Groups in which a match has ended since they were last reported."""
        return self.columns.groups[: self.at[N_FRESH], FRESH]

    def keep_lanes(self, kept: Ints) -> None:
        """Forget all other lanes, which are empty."""
        c, numbers = self.columns, np.zeros(len(self.columns.lanes), np.int64)
        numbers[kept] = np.arange(len(kept))
        lanes = c.lanes[kept]
        changed = np.flatnonzero(lanes[:, IS_DIRTY])
        lanes[: len(changed), DIRTY] = changed
        self.at[N_LANES], self.at[N_DIRTY] = len(kept), len(changed)
        c.queue[:, LANE] = numbers[c.queue[:, LANE]] if len(numbers) else 0
        self.columns = c._replace(lanes=lanes, back=c.back[kept])
        if self.how.single:
            c.groups[:, ONE_LANE] = -1
            c.groups[lanes[:, GROUP_OF], ONE_LANE] = np.arange(len(kept))
        elif not self.how.total:
            self._plant()

    def keep_groups(self, kept: Ints) -> None:
        """Forget all other groups, which have no lane and nothing to report."""
        c, numbers = self.columns, np.zeros(len(self.columns.groups), np.int64)
        numbers[kept] = np.arange(len(kept))
        groups, fresh = c.groups[kept], numbers[self.fresh]
        groups[: len(fresh), FRESH] = fresh
        self.at[N_GROUPS] = len(kept)
        c.lanes[:, GROUP_OF] = numbers[c.lanes[:, GROUP_OF]] if len(numbers) else 0
        self.columns = c._replace(groups=groups, totals=c.totals[kept])

    def keep_domains(self, kept: Ints) -> None:
        """Forget all other domains, which have no lane."""
        c, numbers = self.columns, np.zeros(len(self.columns.domains), np.int64)
        numbers[kept] = np.arange(len(kept))
        self.at[N_DOMAINS] = len(kept)
        c.lanes[:, DOMAIN_OF] = numbers[c.lanes[:, DOMAIN_OF]] if len(numbers) else 0
        self.columns = c._replace(domains=c.domains[kept])

    def shrink(self, share: float) -> None:
        """Give back the free nodes of pools in which those that nobody will ask for are more than this share, and than a few."""
        c = self.columns
        few, owed_rows, owed_maps = (FEWEST, self._owed_rows, self._owed_maps) if share else (0, 0, 0)
        if self.at[FREE_ROWS] - owed_rows > few + share * len(c.rows):
            rows, entries, places = self._without_free(c.rows, c.entries, FREE_ROWS)
            c.lanes[:, FIRST_ROW] = places[c.lanes[:, FIRST_ROW]]
            c = c._replace(rows=rows, entries=entries)
        if self.at[FREE_MAPS] - owed_maps > few + share * len(c.maps):
            maps, weights, places = self._without_free(c.maps, c.weights, FREE_MAPS)
            c.lanes[:, LAST_MAP] = places[c.lanes[:, LAST_MAP]]
            c = c._replace(maps=maps, weights=weights)
        if self.at[FREE_WAITING] > few + share * len(c.queue):
            queue, _, places = self._without_free(c.queue, c.queue, FREE_WAITING)
            c.domains[:, [FIRST_WAITING, LAST_WAITING]] = places[c.domains[:, [FIRST_WAITING, LAST_WAITING]]]
            c = c._replace(queue=queue)
        self.columns = c

    def _without_free(self, nodes: Ints, numbers: Array, free: int) -> tuple[Ints, Array, Ints]:
        """Nodes with their numbers, and the new place of each; none stays none."""
        used = np.ones(len(nodes), np.bool_)
        used[nodes[: self.at[free], FREE]] = False
        places = np.append(np.where(used, np.cumsum(used) - 1, -1), -1)
        self.at[free] = 0
        nodes, numbers = nodes[used], numbers[used]
        nodes[:, LINK] = places[nodes[:, LINK]]
        return nodes, numbers, places


def _more_residues(residues: Sequence[Ints], old: Sequence[int], new: Sequence[int]) -> list[Ints]:
    """Numbers from their residues modulo old primes modulo new ones: by their digits in the mixed radix of the old ones."""
    product = 1
    for prime in old:
        product *= prime
    half = product // 2  # numbers are signed: moved up by this, they are not
    digits: list[Ints] = []
    for i, prime in enumerate(old):
        digit = (residues[i] + half % prime) % prime
        for earlier, value in zip(old, digits, strict=False):
            digit = (digit - value) % prime * pow(earlier, -1, prime) % prime
        digits.append(digit)
    found = []
    for prime in new:
        value, weight = np.zeros_like(digits[0]), 1
        for digit, each in zip(digits, old, strict=True):
            value = (value + digit * (weight % prime)) % prime
            weight *= each
        found.append((value - half % prime) % prime)
    return found


def _spans(begins: Ints, sizes: Ints) -> Ints:
    """The numbers from each begin on, so many, behind each other."""
    numbers: Ints = np.arange(int(sizes.sum())) + np.repeat(begins - np.cumsum(sizes) + sizes, sizes)
    return numbers
