"""Predictions: rules and events in, a table of "this is expected between then and then" out, and how each turned out.

`forecast` answers for a whole table; a `Forecaster` is the same thing as an operator over a stream, and `forecast` feeds it piece
after piece. A prediction is reported for the end time of its occurrence, and never twice.

    start, end          the first and the last time of the occurrence
    earliest, latest    the consequent is expected strictly between these: end and start + horizon, both exclusive

Invariant: rows are ordered by end, then by the rules' own order, then by key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import pairwise
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from seqube.arguments import checked
from seqube.engine.limits import NO_LIMITS, Budget, Limits, Named, read_limits
from seqube.engine.operator import Operator
from seqube.engine.partitions import KeyCodes
from seqube.engine.results import whole_result
from seqube.engine.sequence import HIGHEST, LOWEST
from seqube.engine.slices import answer_slices
from seqube.engine.snapshots import check_version, seal, unseal
from seqube.errors import ArgumentError, DataError, PlanError, Problem, QueryError, SchemaError
from seqube.events import Events, Hierarchy, Schema
from seqube.events.batch import Codes
from seqube.language import check
from seqube.plan.slices import n_stretches
from seqube.predict.episodes import Arrivals, Episodes, Symbol, compile_episodes, find_instances
from seqube.predict.matcher import EMPTY, GONE_OVER_ANEW, EpisodeMatcher, MatcherState, Occurrences, choose_strategy
from seqube.predict.outcomes import COLUMNS, draw, judge, name_key, score, write_times
from seqube.predict.rules import Rule, RuleEdge, Rules
from seqube.predict.ruletext import Vertex, read_condition
from seqube.threads import n_pieces, read_threads, spread

if TYPE_CHECKING:
    import altair
    import pandas as pd
    import polars as pl

ForecastProgress = Callable[[int, int], None]  # events done, events in all

FIRST_STEP = 1 << 14  # events taken at once at first; then as many as take some SECONDS: limits are looked at in between
STEP_SECONDS = 0.2
MOST_KEYS = 4096
FORECAST_LAYOUT = 1  # the version of what a state looks like as bytes
_LATEST = np.iinfo(np.int64).max


@checked
def forecast(
    rules: Rules | Rule | Iterable[Rule] | Mapping[str, Any] | str | Path,
    events: Any,
    *,
    type: str = "type",
    time: str = "ts",
    unit: str = "ms",
    hierarchy: Hierarchy | None = None,
    strategy: str = "auto",
    key: Any = None,
    progress: ForecastProgress | None = None,
    threads: int | None = None,
    limits: Limits | None = None,
    **named: Unpack[Named],
) -> Forecast:
    """Every useful prediction of these rules over these events, and how it turned out.

    - `rules`: `Rules`, one or several `Rule`, or a rule file's path or content.
    - `events`, `type`, `time`, `unit`: as for `run`.
    - `hierarchy`: the concepts above the event types, which rules may name.
    - `strategy`: how to match: "auto", "direct", "tofel", "cbs-tree" or "index"; the predictions are the same.
    - `key`: what comes next for one key of the rules' `partition_by` (for several columns a mapping): by its events alone, up to
      the last of them; `expected` of the result says what.
    - `progress`: called with the number of events done and of all.
    - `threads`: as for `run`.
    - `limits`: what all rules together may use; past that it is a `LimitError`.
    - `named`: the same limits one by one: `max_matches=1_000`.

    >>> events = pa.table({"ts": [0, 4, 7], "type": ["Jam", "Rain", "Crash"]})
    >>> found = sq.forecast(sq.Rule("Jam -> Rain", "Crash", 5, 10, 0.5, name="wet"), events)
    >>> found.table.select(["rule", "start", "end", "earliest", "latest"]).to_pylist()
    [{'rule': 'wet', 'start': 0, 'end': 4, 'earliest': 4, 'latest': 10}]
    >>> found.outcomes.column("outcome").to_pylist()
    ['hit']
    """
    limits = read_limits(limits, named)
    known = read_rules(rules)
    threads = read_threads(threads)
    stream = Events(events, type, time, unit, threads=threads)
    if key is not None:
        stream = events_of_key(known, stream, key)
    forecaster = Forecaster(known, stream.schema, hierarchy, strategy)
    return Forecast(forecaster.run(stream, limits.budget("forecast"), progress, threads), known, stream, hierarchy)


def read_rules(rules: Rules | Rule | Iterable[Rule] | Mapping[str, Any] | str | Path) -> Rules:
    """Rules from anything that holds some."""
    if isinstance(rules, Rules):
        return rules
    if isinstance(rules, Rule):
        return Rules([rules])
    if isinstance(rules, (str, Path)):
        return Rules.load(rules)
    return Rules.from_dict(rules) if isinstance(rules, Mapping) else Rules(rules)


def events_of_key(rules: Rules, events: Events, key: Any) -> Events:
    """The events of one key of these rules."""
    columns = dict.fromkeys(rule.partition_by for rule in rules)
    if len(columns) != 1 or not next(iter(columns)):
        raise PlanError("key= is for rules that all have the same partition_by\n  hint: give the rules partition_by")
    names = next(iter(columns))
    values = key if isinstance(key, Mapping) else {names[0]: key}
    if set(values) != set(names):
        raise ArgumentError(
            f"forecast: key: these rules have the columns {', '.join(names)}\n  hint: give a value for each, by name"
        )
    mask = np.ones(len(events), np.bool_)
    for name, value in values.items():
        if name not in events.schema:
            raise SchemaError(f"there is no column {name!r}, by which the rules are partitioned")
        column = events.column(name)
        kind = _plain(column.type)
        try:
            wanted = pa.scalar(value).cast(kind)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
            raise ArgumentError(f"forecast: key: {value!r} cannot be a value of {name!r}, which holds {kind}") from error
        mask &= np.asarray(pc.fill_null(pc.equal(column.cast(kind), wanted), False))
    if not mask.any():
        shown = ", ".join(f"{name} {value!r}" for name, value in values.items())
        raise PlanError(f"no event has {shown}\n  hint: give a key that is in the events")
    return events.take(np.flatnonzero(mask))


def find_halo(rules: Rules, unit: str) -> int:
    """How many ticks of events before a slice of time its predictions need; those that end in the slice are then complete."""
    return max((min(within, horizon - 1) for within, horizon in (rule.ticks(unit) for rule in rules)), default=0)


# ---------------------------------------------------------------- one step after the other


@dataclass
class _Group:
    """The rules that share a partition."""

    numbers: Codes  # which of all rules
    partition_by: tuple[str, ...]
    episodes: Episodes
    symbols: tuple[Symbol, ...]


@dataclass
class _Watched:
    """What is remembered for a group: its matcher, and the keys that the matcher has codes for."""

    matcher: EpisodeMatcher
    keys: KeyCodes
    most: int = MOST_KEYS  # so many before it is worth while to look for some that nothing needs any more


@dataclass
class ForecastState:
    """What must be remembered of a stream: one predicate window of events, as what the rules call them."""

    watched: list[_Watched]
    events: Events | None = None  # none of them are kept: only their columns, once there were some
    decided: int = LOWEST

    @property
    def has_begun(self) -> bool:
        return self.events is not None

    @property
    def reported(self) -> int:
        return self.decided

    @property
    def n_kept(self) -> int:
        return sum(watched.matcher.n_kept for watched in self.watched)

    @property
    def n_bytes(self) -> int:
        return sum(watched.matcher.n_bytes for watched in self.watched)

    def to_bytes(self) -> bytes:
        """The whole state, as Arrow: how far it is decided, then the matcher and the keys of every group."""
        parts = [pa.table({"version": [FORECAST_LAYOUT], "decided": [self.decided], "begun": [self.has_begun]})]
        for watched in self.watched:
            parts.append(watched.matcher.kept().to_arrow())
            parts.append(watched.keys.table)
        return seal(*parts)


class Forecaster(Operator[ForecastState, pa.Table]):
    """Predictions over a stream, batch by batch. `index` and `cbs-tree` go on in place: a step costs the new events."""

    def __init__(self, rules: Rules, schema: Schema, hierarchy: Hierarchy | None = None, strategy: str = "auto") -> None:
        choose_strategy(strategy)
        _check_rules(rules, schema, hierarchy)
        self.rules = rules
        self._source, self._hierarchy, self._strategy = schema, hierarchy, strategy
        self._horizons = np.array([rule.ticks(schema.unit)[1] for rule in rules], np.int64)
        self._names = pa.array([rule.name for rule in rules], pa.string())
        self._consequents = pa.array([rule.consequent.text for rule in rules], pa.string())
        self._probabilities = np.array([rule.probability for rule in rules], np.float64)
        numbers: dict[tuple[str, ...], list[int]] = {}
        for number, rule in enumerate(rules):
            numbers.setdefault(rule.partition_by, []).append(number)
        self._groups = [self._make_group(columns, members) for columns, members in numbers.items()]
        self.key_columns = tuple(dict.fromkeys(column for group in self._groups for column in group.partition_by))

    def _make_group(self, columns: tuple[str, ...], members: list[int]) -> _Group:
        episodes, symbols = compile_episodes([self.rules[number] for number in members], self._source.unit)
        return _Group(np.array(members, np.int32), columns, episodes, symbols)

    @property
    def schema(self) -> pa.Schema:
        """The columns of predictions."""
        return self._write(self.start(), []).schema

    # ------------------------------------------------------------ states

    def start(self) -> ForecastState:
        return ForecastState([self._watch(group, EMPTY, KeyCodes(group.partition_by)) for group in self._groups])

    @cached_property
    def _no_events(self) -> Events:
        source = self._source
        return Events(source.columns.empty_table(), source.type_column, source.time_column, source.unit)

    def _watch(self, group: _Group, state: MatcherState, keys: KeyCodes) -> _Watched:
        matcher = EpisodeMatcher(group.episodes, self._strategy, bool(group.partition_by), state)
        return _Watched(matcher, keys, 2 * len(keys) + MOST_KEYS)

    def _restored(self, data: bytes) -> ForecastState:
        """Go on where a forecaster of the same rules stood; it may have had another strategy."""
        about, *parts = unseal(data)
        (facts,) = about.to_pylist()
        check_version(facts["version"], FORECAST_LAYOUT)
        if len(parts) != 2 * len(self._groups):
            raise DataError("this is the state of other rules\n  hint: go on with the rules that it was written for, or begin anew")
        watched = [
            self._watch(group, MatcherState.from_arrow(kept), KeyCodes.of(keys) if group.partition_by else KeyCodes(()))
            for group, kept, keys in zip(self._groups, parts[::2], parts[1::2], strict=True)
        ]
        return ForecastState(watched, self._no_events if facts["begun"] else None, facts["decided"])

    def resume(self, events: Events, decided: int, reported: int, last: int) -> ForecastState:
        """As `Operator.resume`; what was reported shows when the events that were decided are gone through again."""
        n_old = int(np.searchsorted(events.times, decided, "right"))
        state, _ = self.decide(self.take(self.start(), events.slice(0, n_old)), decided, final=False)
        return self.take(state, events.slice(n_old, len(events)))

    def goes_on(self, events: Events) -> bool:
        return self._strategy not in GONE_OVER_ANEW

    def wake(self, state: ForecastState) -> int | None:
        times = [watched.matcher.next_time for watched in state.watched]
        return min((time + 1 for time in times if time is not None), default=None)

    # ------------------------------------------------------------ steps

    def take(self, state: ForecastState, batch: Events) -> ForecastState:
        state.events = self._no_events
        for number, (group, watched) in enumerate(zip(self._groups, state.watched, strict=True)):
            rows, symbols = find_instances(batch, group.symbols, self._hierarchy)
            keys = None
            if group.partition_by:
                if len(watched.keys) > watched.most:
                    watched = state.watched[number] = self._forget_keys(group, watched)
                codes = watched.keys.code([batch.column(column).take(pa.array(rows)) for column in group.partition_by])
                rows, symbols, keys = rows[codes >= 0], symbols[codes >= 0], codes[codes >= 0]
            watched.matcher.take(batch.times[rows], symbols, keys)
        return state

    def _forget_keys(self, group: _Group, watched: _Watched) -> _Watched:
        """Only the keys that the window still knows, and the matcher with their new codes."""
        kept = watched.matcher.kept()
        codes = watched.keys.keep(np.concatenate((kept.keys, kept.report_keys)))
        return self._watch(group, replace(kept, keys=codes[kept.keys], report_keys=codes[kept.report_keys]), watched.keys)

    def decide(self, state: ForecastState, upto: int, final: bool) -> tuple[ForecastState, pa.Table]:
        state.decided = upto
        found = [
            watched.matcher.finish() if final else watched.matcher.release(min(upto, _LATEST - 1) + 1) for watched in state.watched
        ]
        return state, self._write(state, found)

    def run(
        self, events: Events, budget: Budget | None = None, progress: ForecastProgress | None = None, threads: int = 1
    ) -> pa.Table:
        """The predictions of a whole stream, as far as the budget allows."""
        pieces, budget = [], budget or NO_LIMITS.budget()
        budget.keeps_all = True
        for piece in self.pieces(events, budget, threads, progress):
            budget.check()
            budget.find(piece.num_rows)
            budget.hold(piece.nbytes)
            pieces.append(piece)
        return pa.concat_tables(pieces, promote_options="permissive").combine_chunks()

    def pieces(
        self, events: Events, budget: Budget, threads: int = 1, progress: ForecastProgress | None = None
    ) -> Iterator[pa.Table]:
        """The predictions of a whole stream in pieces, each of which takes a while, by slices of time.

        A slice goes over the events of a longest predicate window before it, too. Keys are coded once for all slices: among
        predictions of one rule that end at one time they come in the order in which they are first met.
        """
        yield self._write(self.start(), [])
        came, keys = self._gather(events, threads)
        n_came, n_done = sum(len(each.times) for each in came), 0
        slices = [partial(self._of_slice, came, keys, *bounds) for bounds in self._bounds(events, threads)]
        for n_more, piece in answer_slices(slices, threads, budget, lambda found: found[1].num_rows):
            yield piece
            n_done += n_more
            if progress:
                progress(n_done * len(events) // n_came, len(events))
        if progress and not n_came:
            progress(len(events), len(events))

    def _gather(self, events: Events, threads: int) -> tuple[list[Arrivals], list[KeyCodes]]:
        """What came of each group's symbols, in all the stream, and the keys that it has."""
        came, coded = [], []
        bounds = np.linspace(0, len(events), n_pieces(len(events), threads) + 1).astype(np.int64).tolist()
        stretches = [events.slice(*pair) for pair in pairwise(bounds)]
        for group in self._groups:
            find = partial(find_instances, symbols=group.symbols, hierarchy=self._hierarchy)
            found = spread(find, stretches, threads)
            rows = np.concatenate([low + own.rows for low, own in zip(bounds, found, strict=False)])
            symbols = np.concatenate([own.symbols for own in found])
            keys, codes = KeyCodes(group.partition_by), np.zeros(len(rows), np.int64)
            if group.partition_by and len(rows):
                codes = keys.code([events.column(column).take(pa.array(rows)) for column in group.partition_by])
                rows, symbols, codes = rows[codes >= 0], symbols[codes >= 0], codes[codes >= 0]
            came.append(Arrivals(events.times[rows], symbols, codes))
            coded.append(keys)
        return came, coded

    def _bounds(self, events: Events, threads: int) -> list[tuple[int, int]]:
        """The first and the last time that each slice owns."""
        n = n_stretches(events.statistics, find_halo(self.rules, self._source.unit), threads)
        marks = np.unique(events.times[np.arange(1, n) * len(events) // n])
        return list(zip([LOWEST, *(marks + 1).tolist()], [*marks.tolist(), HIGHEST], strict=True))

    def _of_slice(
        self, came: Sequence[Arrivals], keys: Sequence[KeyCodes], first: int, last: int
    ) -> Iterator[tuple[int, pa.Table]]:
        """The predictions that end in a slice, in pieces, each with the number of its own arrivals that are gone through then."""
        state = self.start()
        begin = max(LOWEST, first - find_halo(self.rules, self._source.unit))
        left = [each.between(begin, last) for each in came]
        for watched, coded in zip(state.watched, keys, strict=True):
            watched.keys = coded
        size = FIRST_STEP
        while any(len(each.times) for each in left):
            began, n_done = perf_counter(), 0
            # Up to the time at which the first group has had its share: all see the same stretch.
            until = min(int(each.times[min(size, len(each.times)) - 1]) for each in left if len(each.times))
            found = []
            for number, watched in enumerate(state.watched):
                new, left[number] = left[number].cut(int(np.searchsorted(left[number].times, until, "right")))
                watched.matcher.take(*new)
                found.append(watched.matcher.release(until + 1).since(first))
                n_done += int(np.count_nonzero(new.times >= first))
            yield n_done, self._write(state, found)
            size = max(1, int(size * min(8.0, STEP_SECONDS / (perf_counter() - began))))

    # ------------------------------------------------------------ rows

    def _write(self, state: ForecastState, found: list[Occurrences]) -> pa.Table:
        counts = [len(occurrences.rules) for occurrences in found]
        numbers = [group.numbers[o.rules] for group, o in zip(self._groups, found, strict=False)]
        rules = np.concatenate([np.empty(0, np.int32), *numbers]).astype(np.int64)
        starts = np.concatenate([np.empty(0, np.int64), *(o.starts for o in found)])
        ends = np.concatenate([np.empty(0, np.int64), *(o.ends for o in found)])
        horizons = self._horizons[rules]
        latest = np.where(starts > _LATEST - horizons, _LATEST, starts + horizons)
        kind = _plain(self._source.arrow("ts"))
        columns = {
            "rule": self._names.take(pa.array(rules)),
            "consequent": self._consequents.take(pa.array(rules)),
            "start": write_times(starts, kind),
            "end": write_times(ends, kind),
            "earliest": write_times(ends, kind),
            "latest": write_times(latest, kind, up=True),
            "probability": pa.array(self._probabilities[rules]),
        }
        for column in self.key_columns:
            columns[name_key(column)] = self._write_key(column, state, found, counts)
        # A stable sort keeps the order of keys that each matcher gave.
        return pa.table(columns).take(pa.array(np.lexsort((rules, ends))))

    def _write_key(self, column: str, state: ForecastState, found: list[Occurrences], counts: list[int]) -> pa.Array:
        kind = _plain(self._source.arrow(column))
        pieces = [pa.nulls(0, kind)]
        for group, watched, occurrences, count in zip(self._groups, state.watched, found, counts, strict=False):
            if column in group.partition_by:
                keys = watched.keys.table.column(column)
                pieces.append(keys.take(pa.array(occurrences.keys)).combine_chunks().cast(kind))
            else:
                pieces.append(pa.nulls(count, kind))
        return pa.concat_arrays(pieces)


# ---------------------------------------------------------------- checks before the first event


def _check_rules(rules: Rules, schema: Schema, hierarchy: Hierarchy | None) -> None:
    """Windows in the stream's unit, columns of keys and conditions, and that no two unordered events of a rule can be one."""
    problems: list[Problem] = []
    for rule in rules:
        try:
            rule.ticks(schema.unit)
            for vertex in (*rule.vertices, rule.consequent):
                if vertex.where is not None:
                    check(read_condition(vertex.type, vertex.where), schema)
        except QueryError as error:
            for problem in error.problems:
                message = problem.message if problem.message.startswith("rule ") else f"rule {rule.name!r}: {problem.message}"
                problems.append(replace(problem, message=message, at=None))
        for column in rule.partition_by:
            if column not in schema:
                raise SchemaError(f"rule {rule.name!r}: there is no column {column!r} to partition by")
        problems += _overlaps(rule, hierarchy) if hierarchy else []
    if problems:
        raise QueryError(problems)


def _overlaps(rule: Rule, hierarchy: Hierarchy) -> list[Problem]:
    problems = []
    plain = [vertex for vertex in rule.vertices if vertex.where is None]
    for number, one in enumerate(plain):
        for other in plain[number + 1 :]:
            shared = hierarchy.covers(one.type) & hierarchy.covers(other.type)
            if shared and not _is_ordered(one, other, rule.edges):
                message = f"rule {rule.name!r}: {one.type!r} and {other.type!r} are not distinct: both cover {min(shared)!r}"
                problems.append(Problem(message, hint="put one before the other, or choose events that do not overlap"))
    return problems


def _is_ordered(one: Vertex, other: Vertex, edges: tuple[RuleEdge, ...]) -> bool:
    def reached(alias: str) -> set[str]:
        found = {alias}
        while True:
            further = {v for u, v in edges if u in found} - found
            if not further:
                return found
            found |= further

    return other.alias in reached(one.alias) or one.alias in reached(other.alias)


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pat.is_dictionary(kind) else kind


# ---------------------------------------------------------------- the result


class Forecast:
    """Predictions as an Arrow table (`table`), as `forecast` gives them, and how they turned out over the same events.

    >>> found = sq.forecast(sq.Rule("Jam", "Crash", 5, 10, 0.5), pa.table({"ts": [0, 99], "type": ["Jam", "Jam"]}))
    >>> found.quality.select(["predictions", "hits", "misses", "open"]).to_pylist()
    [{'predictions': 2, 'hits': 0, 'misses': 1, 'open': 1}]
    """

    def __init__(self, table: pa.Table, rules: Rules, events: Events, hierarchy: Hierarchy | None) -> None:
        self.table = table
        self.rules = rules
        self.rejected = events.rejected
        self._events, self._hierarchy = events, hierarchy

    @cached_property
    def outcomes(self) -> pa.Table:
        """`table` with `outcome` ("hit", "miss", or "open" while its interval is not over), `occurred`, `lead` and `closed`."""
        return judge(self.table, self.rules, self._events, self._hierarchy)

    @cached_property
    def quality(self) -> pa.Table:
        """A row per rule: predictions, hits, misses, open, precision, mean lead, stated probability and observed rate."""
        return score(self.outcomes, self.rules)

    @cached_property
    def expected(self) -> pa.Table:
        """What is still to come, the most probable first: for each key and consequent the open prediction that is most certain.

        `earliest` and `latest` say between when.
        """
        is_open = pc.equal(self.outcomes.column("outcome"), "open")
        table = self.table.filter(is_open).sort_by([("probability", "descending"), ("latest", "ascending")])
        keys = [name for name in table.column_names if name not in COLUMNS]
        numbered = table.append_column("#", pa.array(range(len(table)), pa.int64()))
        firsts = numbered.group_by([*keys, "consequent"], use_threads=False).aggregate([("#", "min")])
        rows = firsts.column("#_min").sort() if len(table) else pa.array([], pa.int64())
        return table.take(rows).select([*keys, "consequent", "probability", "earliest", "latest", "rule"])

    @property
    def unseen(self) -> tuple[str, ...]:
        """Event types that rules name and no event has: perhaps misspelt."""
        named = dict.fromkeys(vertex.type for rule in self.rules for vertex in (*rule.vertices, rule.consequent))
        seen = set(self._events.type_names)
        covers = self._hierarchy.covers if self._hierarchy else lambda name: frozenset((name,))
        return tuple(name for name in named if not covers(name) & seen)

    def plot(self) -> altair.LayerChart | altair.FacetChart:
        """How the observed rate of each rule compares with its stated probability."""
        return draw(self.quality)

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def to_pandas(self) -> pd.DataFrame:
        """The predictions as a pandas DataFrame."""
        return whole_result(self.table, self.rejected).to_pandas(flat=False)

    def to_polars(self) -> pl.DataFrame:
        """The predictions as a polars DataFrame."""
        return whole_result(self.table, self.rejected).to_polars()

    def __repr__(self) -> str:
        return repr(whole_result(self.table, self.rejected)) + self._note()

    def _repr_html_(self) -> str:
        from html import escape

        return whole_result(self.table, self.rejected)._repr_html_() + (
            f"<p>{escape(self._note().strip())}</p>" if self._note() else ""
        )

    def _note(self) -> str:
        unseen = self.unseen
        shown = ", ".join(map(repr, unseen[:5])) + (", ..." if len(unseen) > 5 else "")
        return f"\n  no event has the type {shown}" if unseen else ""
