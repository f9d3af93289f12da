"""Rules as arrays: what the matching loops read.

Every distinct event of the rules (a type with its condition) is a *symbol*, a small integer. The vertices of a rule lie side by
side, sinks first and each vertex after all its successors, so one pass over them maps a whole occurrence. `Episodes` holds no
strings and no objects: 20,000 rules of 5 vertices are about 3 MB.

The min-latest occurrence for an end time t, the only thing any strategy looks for: each sink is the latest instance at or before t,
each other vertex the latest strictly before the earliest of its successors. Its start never decreases as t grows, hence

- it is an occurrence exactly if start >= t - within, and
- it is minimal exactly if start lies after the start reported last; an equal start means that a shorter occurrence was reported
  before, whose predicted interval encloses this one's.

So one lower bound, max(t - within, last start + 1), decides window, minimality and redundancy at once, and every strategy may
stop as soon as any vertex falls below it.

| Paper (CBS-Tree) | Here |
|---|---|
| event instance (e, t) | an entry of `times` and `symbols`, side by side |
| latest occurrence of alpha to t (Definition 2) | as above; `t - 1` becomes "strictly before", since times may be equal |
| lt = rt - w_alpha (as corrected) | `withins`, cut to horizon - 1 tick: a longer occurrence would predict an empty interval |
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from seqube.engine.jit import inner_kernel, kernel
from seqube.engine.predicates import Evaluator
from seqube.engine.series import CodeNumbers, NumberTable, number_of
from seqube.events import Events, Hierarchy
from seqube.events.batch import Codes
from seqube.events.times import Ints
from seqube.predict.rules import Rule
from seqube.predict.ruletext import VARIABLE, read_condition

NEVER = -(2**62)  # before every time, and far enough from the edge to add to


class Episodes(NamedTuple):
    """The predicates of rules. A list per rule, vertex or symbol is a slice of one array between two entries of its `*_starts`."""

    withins: Ints
    vertex_starts: Ints  # by rule
    n_sinks: Codes  # by rule: the first so many of its vertices
    vertex_symbols: Codes
    vertex_rules: Codes
    lifts: Codes  # by vertex: edges of the longest path to a sink, so many ticks at least lie between
    next_starts: Ints  # by vertex: its direct successors, numbered within the rule
    nexts: Codes
    before_starts: Ints  # by vertex: its direct predecessors, numbered within the rule
    befores: Codes
    sink_starts: Ints  # by symbol: the rules that have it as a sink
    sink_rules: Codes
    role_starts: Ints  # by symbol: the vertices that it fills
    roles: Codes

    @property
    def n_rules(self) -> int:
        return len(self.withins)

    @property
    def n_symbols(self) -> int:
        return len(self.sink_starts) - 1

    @property
    def longest(self) -> int:
        """The longest predicate window: nothing older is ever looked at."""
        return int(self.withins.max(initial=0))


class Symbol(NamedTuple):
    """A distinct event of the rules: its type name, and its condition or None."""

    type: str
    where: str | None


def compile_episodes(rules: Sequence[Rule], unit: str) -> tuple[Episodes, tuple[Symbol, ...]]:
    """The arrays of these rules, for times in `unit`, and what their symbols stand for."""
    codes: dict[Symbol, int] = {}
    withins: list[int] = []
    n_sinks: list[int] = []
    symbols: list[int] = []
    lifts: list[int] = []
    vertex_counts: list[int] = []
    nexts: list[list[int]] = []
    befores: list[list[int]] = []
    for rule in rules:
        within, horizon = rule.ticks(unit)
        withins.append(min(within, horizon - 1))
        place = {alias: number for number, alias in enumerate(rule.lifts)}
        by_alias = {vertex.alias: vertex for vertex in rule.vertices}
        after: list[list[int]] = [[] for _ in place]
        before: list[list[int]] = [[] for _ in place]
        for u, v in rule.edges:
            after[place[u]].append(place[v])
            before[place[v]].append(place[u])
        for alias, lift in rule.lifts.items():
            symbols.append(codes.setdefault(Symbol(by_alias[alias].type, by_alias[alias].where), len(codes)))
            lifts.append(lift)
        nexts += after
        befores += before
        n_sinks.append(sum(not successors for successors in after))
        vertex_counts.append(len(place))
    vertex_starts = _starts(vertex_counts)
    vertex_symbols = np.array(symbols, np.int32)
    vertex_rules = np.repeat(np.arange(len(withins), dtype=np.int32), vertex_counts)
    is_sink = np.arange(len(symbols)) - vertex_starts[vertex_rules] < np.array(n_sinks, np.int64)[vertex_rules]
    sinks = np.flatnonzero(is_sink)
    sink_starts, sink_order = _group(vertex_symbols[sinks], len(codes))
    role_starts, roles = _group(vertex_symbols, len(codes))
    episodes = Episodes(
        np.array(withins, np.int64),
        vertex_starts,
        np.array(n_sinks, np.int32),
        vertex_symbols,
        vertex_rules,
        np.array(lifts, np.int32),
        _starts([len(successors) for successors in nexts]),
        np.array([v for successors in nexts for v in successors], np.int32),
        _starts([len(predecessors) for predecessors in befores]),
        np.array([v for predecessors in befores for v in predecessors], np.int32),
        sink_starts,
        vertex_rules[sinks[sink_order]],
        role_starts,
        roles.astype(np.int32),
    )
    return episodes, tuple(codes)


def line_up(symbols: Codes, is_chain: bool, within: int, n_symbols: int) -> Episodes:
    """Episodes of one shape, a row each: chains in the order of the row, or sets without order."""
    n_rules, n_vertices = symbols.shape
    rules = np.repeat(np.arange(n_rules, dtype=np.int32), n_vertices)
    vertex_symbols = np.ascontiguousarray(symbols[:, ::-1]).astype(np.int32).ravel()
    places = np.tile(np.arange(n_vertices, dtype=np.int32), n_rules)
    has_next = (places > 0) & is_chain
    has_before = (places < n_vertices - 1) & is_chain
    sinks = np.flatnonzero(~has_next)
    sink_starts, sink_order = _group(vertex_symbols[sinks], n_symbols)
    role_starts, roles = _group(vertex_symbols, n_symbols)
    return Episodes(
        np.full(n_rules, within, np.int64),
        np.arange(n_rules + 1, dtype=np.int64) * n_vertices,
        np.full(n_rules, 1 if is_chain else n_vertices, np.int32),
        vertex_symbols,
        rules,
        places * np.int32(is_chain),
        _starts(has_next),
        places[has_next] - np.int32(1),
        _starts(has_before),
        places[has_before] + np.int32(1),
        sink_starts,
        rules[sinks[sink_order]],
        role_starts,
        roles.astype(np.int32),
    )


def _starts(counts: Any) -> Ints:
    return np.concatenate(([0], np.cumsum(counts, dtype=np.int64))).astype(np.int64)


def _group(codes: Codes, n_codes: int) -> tuple[Ints, Ints]:
    """Where each code's group begins, and the positions of all codes, grouped and ascending in each group."""
    return _starts(np.bincount(codes, minlength=n_codes)), np.argsort(codes, kind="stable").astype(np.int64)


# ---------------------------------------------------------------- from events to instances


class SymbolInstances(NamedTuple):
    """Instances of symbols in time order: the row of each and its symbol. A row of several symbols stands there several times."""

    rows: Ints
    symbols: Codes


def find_instances(events: Events, symbols: Sequence[Symbol], hierarchy: Hierarchy | None) -> SymbolInstances:
    """Which rows are instances of which symbols: by type, by types below it in the hierarchy, and by condition."""
    covers = [hierarchy.covers(symbol.type) if hierarchy else frozenset((symbol.type,)) for symbol in symbols]
    codes = {name: code for code, name in enumerate(events.type_names)}
    lookup = np.full(len(codes), -1, np.int32)
    n_meanings = 0
    for number, names in enumerate(covers):
        known = [codes[name] for name in names if name in codes]
        lookup[known] = number
        n_meanings += len(known)
    if n_meanings == np.count_nonzero(lookup >= 0) and all(symbol.where is None for symbol in symbols):
        found = lookup[events.types] if codes else np.empty(0, np.int32)
        rows = np.flatnonzero(found >= 0)
        return SymbolInstances(rows, found[rows])
    evaluator = Evaluator(events)
    pieces = []
    for symbol, names in zip(symbols, covers, strict=True):
        rows = events.rows_of(names)
        if symbol.where is not None:
            condition = read_condition(symbol.type, symbol.where)
            rows = rows[evaluator.true(condition.where, {VARIABLE: rows}, len(rows))]
        pieces.append(rows)
    rows = np.concatenate(pieces)
    order = np.argsort(rows, kind="stable")
    numbers = np.repeat(np.arange(len(symbols), dtype=np.int32), [len(piece) for piece in pieces])
    return SymbolInstances(rows[order], numbers[order])


# ---------------------------------------------------------------- what strategies take and give


class Found(NamedTuple):
    """Min-latest occurrences: the rule, and the interval [start, end] in which its predicate occurred."""

    rules: Codes
    starts: Ints
    ends: Ints


class Arrivals(NamedTuple):
    """Instances of symbols as they came, in time order; `keys` is 0 for rules without a key."""

    times: Ints
    symbols: Codes
    keys: Ints

    def cut(self, at: int) -> tuple[Arrivals, Arrivals]:
        """The first so many, and the rest."""
        times, symbols, keys = self
        return Arrivals(times[:at], symbols[:at], keys[:at]), Arrivals(times[at:], symbols[at:], keys[at:])

    def between(self, first: int, last: int) -> Arrivals:
        """Those of these times, and all between them."""
        begin, end = np.searchsorted(self.times, first), np.searchsorted(self.times, last, "right")
        return self.cut(int(end))[0].cut(int(begin))[1]

    def join(self, later: Arrivals) -> Arrivals:
        return Arrivals(
            np.concatenate((self.times, later.times)),
            np.concatenate((self.symbols, later.symbols)),
            np.concatenate((self.keys, later.keys)),
        )


NOTHING_CAME = Arrivals(np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.int64))
NOTHING_FOUND = Found(NOTHING_CAME.symbols, NOTHING_CAME.times, NOTHING_CAME.times)


class Lasts(NamedTuple):
    """The start that was reported last, by number; `table` numbers key * rules + rule."""

    table: NumberTable
    starts: Ints


@kernel
def look_up(lasts: Lasts, code: int) -> int:
    """The start that was reported last, NEVER where there is none."""
    number = number_of(lasts.table, code)
    return int(lasts.starts[number]) if number >= 0 else NEVER


class Reported:
    """What was reported last for every rule (and key): no later occurrence may start there or before.

    Cost: a word per rule; with keys, about four per key and rule that reported inside the window.
    """

    def __init__(self, n_rules: int, keyed: bool) -> None:
        self._n_rules, self._keyed = n_rules, keyed
        self._begin()

    def _begin(self) -> None:
        self._numbering = CodeNumbers(None if self._keyed else self._n_rules)
        self._starts = np.full(self._numbering.count, NEVER, np.int64)
        self._most = 1024  # so many before it is worth while to look for old ones

    @property
    def lasts(self) -> Lasts:
        return Lasts(self._numbering.table, self._starts)

    @property
    def n_bytes(self) -> int:
        return sum(part.nbytes for part in (*self._numbering.table, self._starts))

    def note(self, rules: Codes, starts: Ints, keys: Ints, oldest: int) -> None:
        """Remember reports; those that start before `oldest` need no longer be."""
        numbers = self._numbering.number(keys * self._n_rules + rules)
        if (count := self._numbering.count) > len(self._starts):
            self._starts = np.concatenate((self._starts, np.full(2 * count - len(self._starts), NEVER, np.int64)))
        np.maximum.at(self._starts, numbers, starts)
        if self._keyed and count > self._most:
            kept = self.contents(oldest)
            self._begin()
            self._most = 2 * len(kept[0]) + 1024
            self.note(*kept, oldest)

    def contents(self, oldest: int) -> tuple[Codes, Ints, Ints]:
        """Rules, starts and keys of what was reported last, where it starts at `oldest` or later."""
        codes, starts = self._numbering.codes, self._starts[: self._numbering.count]
        recent = starts >= oldest
        codes = codes[recent]
        return (codes % self._n_rules).astype(np.int32), starts[recent], codes // self._n_rules


@inner_kernel
def double_room(rules: Codes, starts: Ints, ends: Ints) -> tuple[Codes, Ints, Ints]:
    """Room for twice as many occurrences."""
    return (
        np.concatenate((rules, np.empty_like(rules))),
        np.concatenate((starts, np.empty_like(starts))),
        np.concatenate((ends, np.empty_like(ends))),
    )


class Seeds(NamedTuple):
    """Starts of occurrences that were reported before these events, in ascending order of start."""

    rules: Codes
    starts: Ints
