"""Predictions: rules and events in, a table of "this is expected between then and then" out, and how each turned out.

`forecast` answers for a whole table; a `Forecaster` is the same thing as a state machine for a stream (`step`, `finish`,
`snapshot`, `restore`), and `forecast` is one step of it. A prediction is reported for the end time of its occurrence, and never
twice.

    start, end          the first and the last time of the occurrence
    earliest, latest    the consequent is expected strictly between these: end and start + horizon, both exclusive

Invariant: rows are ordered by end, then by the rules' own order, then by key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from seqube.arguments import checked
from seqube.engine.limits import Budget, Limits, Named, read_limits
from seqube.engine.predicates import code_columns
from seqube.engine.results import whole_result
from seqube.errors import Problem, QueryError, SchemaError
from seqube.events import Events, Hierarchy, Schema
from seqube.events.batch import Codes
from seqube.events.times import Ints
from seqube.language import check
from seqube.predict.episodes import Episodes, Symbol, compile_episodes, find_instances
from seqube.predict.matcher import EpisodeMatcher, MatcherState, Occurrences, choose_strategy, join
from seqube.predict.outcomes import draw, judge, name_key, score, write_times
from seqube.predict.rules import Rule, RuleEdge, Rules
from seqube.predict.ruletext import Vertex, read_condition

if TYPE_CHECKING:
    import altair
    import pandas as pd
    import polars as pl

ForecastProgress = Callable[[int, int], None]  # events done, events in all

FIRST_STEP = 1 << 14  # events taken at once at first; then as many as take some SECONDS: limits are looked at in between
STEP_SECONDS = 0.2
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
    progress: ForecastProgress | None = None,
    limits: Limits | None = None,
    **named: Unpack[Named],
) -> Forecast:
    """Every useful prediction of these rules over these events, and how it turned out.

    - `rules`: `Rules`, one or several `Rule`, or a rule file's path or content.
    - `events`, `type`, `time`, `unit`: as for `run`.
    - `hierarchy`: the concepts above the event types, which rules may name.
    - `strategy`: how to match: "auto", "direct", "tofel", "cbs-tree" or "index"; the predictions are the same.
    - `progress`: called with the number of events done and of all.
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
    stream = Events(events, type, time, unit)
    forecaster = Forecaster(known, stream.schema, hierarchy, strategy)
    return Forecast(forecaster.run(stream, limits.budget("forecast"), progress), known, stream, hierarchy)


def read_rules(rules: Rules | Rule | Iterable[Rule] | Mapping[str, Any] | str | Path) -> Rules:
    """Rules from anything that holds some."""
    if isinstance(rules, Rules):
        return rules
    if isinstance(rules, Rule):
        return Rules([rules])
    if isinstance(rules, (str, Path)):
        return Rules.load(rules)
    return Rules.from_dict(rules) if isinstance(rules, Mapping) else Rules(rules)


def find_halo(rules: Rules, unit: str) -> int:
    """How many ticks of events before a slice of time its predictions need; those that end in the slice are then complete."""
    return max((min(within, horizon - 1) for within, horizon in (rule.ticks(unit) for rule in rules)), default=0)


# ---------------------------------------------------------------- one step after the other


@dataclass
class _Group:
    """The rules that share a partition: one matcher, and the values of the keys its state names."""

    numbers: Codes  # which of all rules
    partition_by: tuple[str, ...]
    episodes: Episodes
    symbols: tuple[Symbol, ...]
    matcher: EpisodeMatcher
    keys: list[pa.Array]  # by partition column: the value of each key code


class Forecaster:
    """Predictions over a stream, batch by batch; the state is one predicate window of events."""

    def __init__(self, rules: Rules, schema: Schema, hierarchy: Hierarchy | None = None, strategy: str = "auto") -> None:
        choose_strategy(strategy)
        _check_rules(rules, schema, hierarchy)
        self.rules, self.schema, self.hierarchy = rules, schema, hierarchy
        self._horizons = np.array([rule.ticks(schema.unit)[1] for rule in rules], np.int64)
        self._names = pa.array([rule.name for rule in rules], pa.string())
        self._consequents = pa.array([rule.consequent.text for rule in rules], pa.string())
        self._probabilities = np.array([rule.probability for rule in rules], np.float64)
        numbers: dict[tuple[str, ...], list[int]] = {}
        for number, rule in enumerate(rules):
            numbers.setdefault(rule.partition_by, []).append(number)
        self._groups = [self._make_group(columns, members, strategy) for columns, members in numbers.items()]
        self.key_columns = tuple(dict.fromkeys(column for group in self._groups for column in group.partition_by))

    def _make_group(self, columns: tuple[str, ...], members: list[int], strategy: str) -> _Group:
        episodes, symbols = compile_episodes([self.rules[number] for number in members], self.schema.unit)
        matcher = EpisodeMatcher(episodes, strategy, keyed=bool(columns))
        keys = [pa.array([], _plain(self.schema.arrow(column))) for column in columns]
        return _Group(np.array(members, np.int32), columns, episodes, symbols, matcher, keys)

    def step(self, events: Events) -> pa.Table:
        """Take the next events; give the predictions that are certain, those whose occurrence ends before the newest time."""
        if len(events) == 0:
            return self._write([])
        return self._write([self._step_group(group, events) for group in self._groups])

    def run(self, events: Events, budget: Budget, progress: ForecastProgress | None = None) -> pa.Table:
        """The predictions of a whole stream, as far as the budget allows."""
        pieces: list[pa.Table] = []

        def keep(piece: pa.Table) -> None:
            budget.check()
            budget.find(piece.num_rows)
            budget.hold(piece.nbytes)
            pieces.append(piece)

        start, size = 0, FIRST_STEP
        while start < len(events):
            began = perf_counter()
            keep(self.step(events.slice(start, start + size)))
            start = min(start + size, len(events))
            size = max(1, int(size * min(8.0, STEP_SECONDS / (perf_counter() - began))))
            if progress:
                progress(start, len(events))
        keep(self.finish())
        return pa.concat_tables(pieces, promote_options="permissive").combine_chunks()

    def finish(self) -> pa.Table:
        """The stream has ended: give what waited for time to move on."""
        return self._write([(group, group.matcher.finish()) for group in self._groups])

    def _step_group(self, group: _Group, events: Events) -> tuple[_Group, Occurrences]:
        rows, symbols = find_instances(events, group.symbols, self.hierarchy)
        keys = None
        if group.partition_by:
            codes = self._code_keys(group, events)[rows]
            rows, symbols, keys = rows[codes >= 0], symbols[codes >= 0], codes[codes >= 0]
        newest = int(events.times[-1])
        stepped = group.matcher.step(events.times[rows], symbols, keys)
        return group, join([stepped, group.matcher.release(newest)])

    def _code_keys(self, group: _Group, events: Events) -> Ints:
        """A code per row, the same as in the steps before; the state's codes and `group.keys` are brought up to date."""
        state = group.matcher.state
        used = np.unique(np.concatenate((state.keys, state.report_keys)))
        known = [values.take(pa.array(used)) for values in group.keys]
        columns = [_decoded(events.column(column)) for column in group.partition_by]
        (old, new), _ = code_columns([known, columns])
        codes = np.concatenate((old, new))
        distinct, first = np.unique(codes, return_index=True)
        group.keys = [pa.concat_arrays(pair).take(pa.array(first[distinct >= 0])) for pair in zip(known, columns, strict=True)]
        dense = np.searchsorted(distinct[distinct >= 0], codes)
        carried = dense[: len(old)]
        group.matcher.state = replace(
            state,
            keys=carried[np.searchsorted(used, state.keys)],
            report_keys=carried[np.searchsorted(used, state.report_keys)],
        )
        return np.where(new >= 0, dense[len(old) :], -1)

    def _write(self, found: list[tuple[_Group, Occurrences]]) -> pa.Table:
        counts = [len(occurrences.rules) for _, occurrences in found]
        rules = np.concatenate([np.empty(0, np.int32), *(group.numbers[o.rules] for group, o in found)]).astype(np.int64)
        starts = np.concatenate([np.empty(0, np.int64), *(o.starts for _, o in found)])
        ends = np.concatenate([np.empty(0, np.int64), *(o.ends for _, o in found)])
        horizons = self._horizons[rules]
        latest = np.where(starts > _LATEST - horizons, _LATEST, starts + horizons)
        kind = _plain(self.schema.arrow("ts"))
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
            columns[name_key(column)] = self._write_key(column, found, counts)
        # A stable sort keeps the order of keys that each matcher gave.
        return pa.table(columns).take(pa.array(np.lexsort((rules, ends))))

    def _write_key(self, column: str, found: list[tuple[_Group, Occurrences]], counts: list[int]) -> pa.Array:
        kind = _plain(self.schema.arrow(column))
        pieces = [pa.nulls(0, kind)]
        for (group, occurrences), count in zip(found, counts, strict=True):
            if column in group.partition_by:
                pieces.append(group.keys[group.partition_by.index(column)].take(pa.array(occurrences.keys)).cast(kind))
            else:
                pieces.append(pa.nulls(count, kind))
        return pa.concat_arrays(pieces)

    # ------------------------------------------------------------ state

    def snapshot(self) -> bytes:
        """The whole state, as Arrow."""
        states = [_to_ipc(group.matcher.state.to_arrow()) for group in self._groups]
        keys = [
            _to_ipc(pa.RecordBatch.from_arrays(group.keys, names=[str(k) for k in range(len(group.keys))])) if group.keys else b""
            for group in self._groups
        ]
        return _to_ipc(pa.record_batch({"state": pa.array(states, pa.binary()), "keys": pa.array(keys, pa.binary())}))

    def restore(self, snapshot: bytes) -> None:
        """Go on where a forecaster of the same rules stood; it may have had another strategy."""
        rows = _from_ipc(snapshot).to_pylist()
        for group, row in zip(self._groups, rows, strict=True):
            group.matcher.state = MatcherState.from_arrow(_from_ipc(row["state"]))
            if row["keys"]:
                group.keys = _from_ipc(row["keys"]).columns


def _to_ipc(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue().to_pybytes())


def _from_ipc(data: bytes) -> pa.RecordBatch:
    with pa.ipc.open_stream(data) as reader:
        return reader.read_next_batch()


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


def _decoded(column: pa.Array) -> pa.Array:
    return column.dictionary_decode() if pat.is_dictionary(column.type) else column


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
        frame: pd.DataFrame = self.table.to_pandas()
        return frame

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
