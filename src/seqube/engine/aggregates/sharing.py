"""A workload counted together over a stream: one store of events for all queries, one pass over what is new for all of a family.

The counters of a way to share go on from step to step. Numbers are doubles; of a query whose counts or sums reach 2^53 the window
is counted again by itself, exactly. So the events of the window are kept, and only looked at then, and when a state that was
written goes on: counters are made of them anew.

Cost: that of the way the plan chose (`prefix_tree`, `chop_connect`, or every query by itself) for the new events, and of the rows.
Invariant: counters have seen the events up to `decided`, each once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from seqube.engine.aggregates.aggregation import Aggregator, Task, name_totals
from seqube.engine.aggregates.buckets import TimeBuckets
from seqube.engine.aggregates.chop_connect import Connected
from seqube.engine.aggregates.labels import LabelLayout
from seqube.engine.aggregates.measured import Measured
from seqube.engine.aggregates.prefix_tree import PrefixTrees
from seqube.engine.aggregates.readings import OF_PATH, EventWeights, Operations, Passage, Path, PathChanges, arithmetic_of
from seqube.engine.aggregates.shared_rows import SharedRows, Sizes, Told, watches
from seqube.engine.aggregates.state import Pending, State
from seqube.engine.aggregates.totals import merge_totals, stacked
from seqube.engine.aggregates.tracks import order_bits
from seqube.engine.instances import Batch, minus
from seqube.engine.kept import Kept
from seqube.engine.limits import NO_LIMITS, Budget, Limits
from seqube.engine.operator import Operator
from seqube.engine.predicates import Ints
from seqube.engine.sequence import HIGHEST, LOWEST, by_code
from seqube.engine.slices import Slices, StreamSlice, answer_slices
from seqube.engine.snapshots import bundle, read_state, unbundle, write_state
from seqube.errors import DataError
from seqube.events import Events
from seqube.plan.aggregates import AggregatePlan
from seqube.plan.needs import needs_of
from seqube.plan.sharing import COMPARING, Counted, SharingPlan, Weight, is_extreme
from seqube.plan.slices import cut_together

WayToShare = type[PrefixTrees] | type[Connected]

_WAYS: dict[str, WayToShare] = {
    "prefix-tree": PrefixTrees,
    "pre-tree": Connected,
    "chop-connect": Connected,
    "exhaustive": Connected,
}
FEWEST_LANES = 1_024  # that are not worth forgetting
_TOTALS = "#totals "  # before the name of the query, in a state


# ---------------------------------------------------------------- queries that lie in the same lanes


class Board:
    """Patterns of a family that are counted by one arithmetic."""

    def __init__(self, way: WayToShare, paths: Sequence[Path], layout: LabelLayout, arithmetic: Operations) -> None:
        self.arithmetic, self.n_paths = arithmetic, len(paths)
        labels = (label for path in paths for label in path.pattern)
        self._weights = list(dict.fromkeys(label.weight for label in labels if label.weight is not None))
        self.counters = way(paths, layout, self._weights, arithmetic)

    def weigh(self, events: Events) -> Any:
        """What events weigh, a row for each measure."""
        kind = np.array(self.arithmetic.zero).dtype
        rows = [_weigh(weight, events).astype(kind, copy=False) for weight in self._weights]
        return np.stack(rows) if rows else np.empty((0, len(events)), kind)

    def by_path(self, changes: PathChanges) -> list[PathChanges]:
        order, offsets = by_code(changes.facts[:, OF_PATH].copy(), self.n_paths)
        facts, values = changes.facts.take(order, 0), changes.values.take(order)
        return [PathChanges(facts[begin:end], values[begin:end]) for begin, end in pairwise(offsets.tolist())]


def _weigh(weight: Weight, events: Events) -> Any:
    column = Measured.of(events.column(weight.column), weight.column)
    if weight.function in COMPARING:
        return order_bits(column, 1.0 if weight.function == "MIN" else -1.0)
    return column.valid if weight.function == "COUNT" else np.where(column.valid, column.numbers, 0)


class LaneFamily:
    """The queries of a workload that lie in the same lanes, and their counters."""

    def __init__(
        self, sharing: SharingPlan, plans: Mapping[str, AggregatePlan], names: Sequence[str], filled: Collection[str] = ()
    ) -> None:
        """`filled` are columns that have a value in every event that will come: to count their values is to count events."""
        self._filled = {Weight("COUNT", name) for name in filled}
        self._queries = {name: sharing.queries[name] for name in names}
        one = next(iter(self._queries.values()))
        self.window, self.key, self._period = one.window, one.key, one.period or 0
        self._lengths = [None, *dict.fromkeys(plans[name].emit.period for name in names if plans[name].emit.when == "per")]
        self._plans, self._pieces, self._way = plans, sharing.pieces, _WAYS[sharing.strategy]
        self.n_alive = 0  # lanes when the dead were last forgotten
        self.begin()

    def begin(self) -> None:
        """Counters that have seen nothing."""
        paths = {path: counted for name, query in self._queries.items() for path, counted in query.paths(name).items()}
        self.layout = LabelLayout([counted.pattern for counted in paths.values()], self.key)
        found: dict[bool, dict[Path, int]] = {}  # by arithmetic: what is the same for several queries is counted once
        self.places: dict[str, list[tuple[bool, int]]] = {}
        for name, query in self._queries.items():
            for number, (path, counted) in enumerate(query.paths(name).items()):
                extreme = is_extreme(counted.pattern)
                known = found.setdefault(extreme, {})
                place = known.setdefault(self._path(name, query, path, number == 0), len(known))
                self.places.setdefault(name, []).append((extreme, place))
        self._boards = {
            extreme: Board(self._way, list(known), self.layout, arithmetic_of(extreme)) for extreme, known in found.items()
        }
        self.has_begun = False

    def _path(self, name: str, query: Counted, path: str, is_count: bool) -> Path:
        plan = self._plans[name]
        bucket = -1
        if plan.emit.counts_once:
            bucket = self._lengths.index(plan.emit.period) if plan.emit.when == "per" else 0
        is_new, is_watched = plan.report == "new", watches(plan, query)
        pieces = tuple(
            tuple(replace(label, weight=None) if label.weight in self._filled else label for label in piece)
            for piece in self._pieces[path]
        )
        return Path(pieces, is_watched, bucket, is_count and is_new, is_new and not is_watched)

    @property
    def n_bytes(self) -> int:
        return sum(board.counters.n_bytes for board in self._boards.values())

    def take(self, events: Events, upto: int, is_last: bool, budget: Budget) -> dict[str, list[PathChanges]]:
        """The changes of every measure of every query when these events have come, and time has passed up to a moment."""
        maps = self.layout.lay_out(events)
        clock = Passage(self.window, upto, False, is_last and not self.has_begun, self._period)
        self.has_begun = True
        found = {}
        for extreme, board in self._boards.items():
            weights = EventWeights(board.weigh(events), self._buckets(events))
            found[extreme] = board.by_path(board.counters.take(maps, self.layout.n_lanes, weights, clock, budget))
        return {name: [found[board][path] for board, path in places] for name, places in self.places.items()}

    def _buckets(self, events: Events) -> Any:
        rows = np.zeros((len(self._lengths), len(events)), np.int64)
        for name, query in self._plans.items():
            if name in self._queries and query.emit.when == "per":
                bucket = needs_of(query, events.unit).bucket
                assert bucket is not None
                starts = TimeBuckets.of(bucket, events.column("ts").type).starts(events.times)
                rows[self._lengths.index(query.emit.period)] = starts
        return rows


def families(sharing: SharingPlan) -> list[list[str]]:
    """The names of queries that lie in the same lanes."""
    found: dict[Any, list[str]] = {}
    for name, query in sharing.queries.items():
        found.setdefault(query.family[:3], []).append(name)
    return list(found.values())


# ---------------------------------------------------------------- the workload


@dataclass(slots=True)
class Together:
    """What is remembered of a stream whose queries are counted together."""

    alone: dict[str, Any]  # the states of queries that are counted by themselves
    pending: Pending | None = None  # None before the first batch
    kept: Kept | None = None  # events of the window that were taken
    families: list[LaneFamily] = field(default_factory=list)
    told: dict[str, Told] = field(default_factory=dict)
    decided: int = LOWEST

    @property
    def has_begun(self) -> bool:
        return self.pending is not None

    @property
    def reported(self) -> int:
        """What is out of every query."""
        return min([told.reported for told in self.told.values()] + [own.reported for own in self.alone.values()], default=LOWEST)

    @property
    def n_kept(self) -> int:
        return (len(self.pending) if self.pending else 0) + (len(self.kept) if self.kept else 0)

    @property
    def n_bytes(self) -> int:
        parts = (self.pending, self.kept, *self.families, *self.told.values(), *self.alone.values())
        return sum(part.n_bytes for part in parts if part is not None)

    @property
    def events(self) -> Events | None:
        return self._events if self.n_kept else None

    @property
    def _events(self) -> Events:
        assert self.pending is not None
        return Events.concat([*([self.kept.events] if self.kept else []), self.pending.events])

    def to_bytes(self) -> bytes:
        if self.pending is None:
            raise DataError("a stream that has not begun has no state to write")
        reports = {name: told.reported for name, told in self.told.items()}
        about = {"decided": self.decided, "reported": self.reported, "last": self.pending.last, "reports": reports}
        parts: dict[str, Any] = {name: np.frombuffer(state.to_bytes(), np.uint8) for name, state in self.alone.items()}
        parts |= {_TOTALS + name: told.totals for name, told in self.told.items() if told.totals is not None}
        return write_state(self._events, None, about, bundle(parts) if parts else None)


class SharedAggregator(Operator[Together, dict[str, pa.Table]]):
    """Runs the queries of a sharing plan over a stream that comes in batches; a report has a table for each, by name.

    The limits are those of a step for all that is counted together, and for each query that is counted by itself.
    """

    def __init__(self, sharing: SharingPlan, plans: Mapping[str, AggregatePlan], limits: Limits = NO_LIMITS) -> None:
        self._sharing, self._limits, self._plans = sharing, limits, plans
        self._shares = sharing.strategy in _WAYS
        self._aggregators = {name: Aggregator(plans[name], limits) for name in sharing.queries}
        self._types = frozenset().union(*(plans[name].matches.types for name in sharing.queries))
        self._window = max((query.window for query in sharing.queries.values()), default=0)
        self._rows = {name: SharedRows(self._aggregators[name], query, name) for name, query in sharing.queries.items()}

    def start(self) -> Together:
        return self._start()

    def _start(self, filled: Collection[str] = ()) -> Together:
        if not self._shares:
            return Together({name: aggregator.start() for name, aggregator in self._aggregators.items()})
        found = [LaneFamily(self._sharing, self._plans, names, filled) for names in families(self._sharing)]
        return Together({}, families=found, told={name: rows.start() for name, rows in self._rows.items()})

    def _filled(self, events: Events) -> set[str]:
        """The columns that are measured and have a value in every event."""
        labels = (label for query in self._sharing.queries.values() for pattern in query.weighed for label in pattern)
        columns = {label.weight.column for label in labels if label.weight is not None}
        return {name for name in columns if Measured.of(events.column(name), name).valid.all()}

    def _restored(self, data: bytes) -> Together:
        events, _, about, beside = read_state(data)
        parts = unbundle(beside) if beside is not None else {}
        reports = dict.fromkeys(self._sharing.queries, about["reported"]) | about.get("reports", {})
        state = self.resume_each(events, about["decided"], reports, about["last"])
        for name in about.get("reports", {}):
            state.told[name].totals = parts.get(_TOTALS + name)
        for name in state.alone:
            state.alone[name] = self._aggregators[name].restore(parts[name].tobytes())
        return state

    def resume(self, events: Events, decided: int, reported: int, last: int) -> Together:
        return self.resume_each(events, decided, dict.fromkeys(self._sharing.queries, reported), last)

    def resume_each(self, events: Events, decided: int, reports: Mapping[str, int], last: int) -> Together:
        """As `resume`, where up to when every row is out differs from query to query."""
        return self._resumed(self.start(), events, decided, reports, last)

    def _resumed(self, state: Together, events: Events, decided: int, reports: Mapping[str, int], last: int) -> Together:
        state.pending, state.decided = Pending(events, last), decided
        for name, told in state.told.items():
            told.reported = reports[name]
        if self._shares:
            known = state.pending.release(decided)
            for family in state.families:
                self._count(state, family, known)
            self._keep(state, known, decided)
        else:
            state.alone = {name: own.resume(events, decided, reports[name], last) for name, own in self._aggregators.items()}
        return state

    def goes_on(self, events: Events) -> bool:
        return self._shares or all(aggregator.goes_on(events) for aggregator in self._aggregators.values())

    def wake(self, state: Together) -> int | None:
        """When the first of the queries has something to say."""
        if state.pending is None:
            return None
        moments = [self._aggregators[name].wake(own) for name, own in state.alone.items()]
        for name, told in state.told.items():
            events, last = state.pending.events, state.pending.last
            moments.append(self._aggregators[name].wake(State(events, None, state.decided, told.reported, last, told.totals)))
        return min((moment for moment in moments if moment is not None), default=None)

    def take(self, state: Together, batch: Events) -> Together:
        if state.pending is None:
            state.pending = Pending(batch.slice(0, 0))
        state.pending.take(batch)
        for told in state.told.values():
            if len(batch) and told.reported == LOWEST:
                told.reported = int(batch.times[0]) - 1
        state.alone = {name: self._aggregators[name].take(own, batch) for name, own in state.alone.items()}
        return state

    def decide(self, state: Together, upto: int, final: bool) -> tuple[Together, dict[str, pa.Table]]:
        return self._decided(state, upto, final, self._limits.budget())

    def _decided(
        self, state: Together, upto: int, final: bool, budget: Budget, of_slice: bool = False
    ) -> tuple[Together, dict[str, pa.Table]]:
        assert state.pending is not None
        events, tables = state.pending.release(upto), {}
        for name, own in state.alone.items():
            state.alone[name], tables[name] = self._aggregators[name].decide(own, upto, final)
        for family in state.families:
            tables |= self._decide(state, family, events, upto, final, budget, of_slice)
        if self._shares and not final:
            self._keep(state, events, upto)
            self._forget(state)
        state.decided = upto
        return state, {name: tables[name] for name in self._sharing.queries}

    def pieces(self, events: Events, budget: Budget, threads: int = 1) -> Iterator[dict[str, pa.Table]]:
        """The rows of a whole stream, at once; of slices of time one after the other, or merged where they are totals."""
        plans = {name: self._plans[name] for name in self._sharing.queries}
        widest, cut = cut_together(list(plans.values()), events.unit, events.statistics)
        if cut.by is None or not self._shares:
            yield self._decided(self.take(self._start(self._filled(events)), events), HIGHEST, True, budget)[1]
            return
        slices = [partial(self._of_slice, make, budget) for make in Slices(widest, events, cut).makers]
        budget.keeps_all = True
        found = list(answer_slices(slices, threads, budget, lambda _: 0))
        rows = {}
        for name, plan in plans.items():
            if plan.emit.counts_once:
                task = Task(plan, Batch(events, self._window, events.times, budget=budget), LOWEST, HIGHEST, LOWEST, True)
                totals = [state.told[name].totals for state, _ in found]
                rows[name] = name_totals(task, merge_totals([own for own in totals if own is not None], plan))
            else:
                rows[name] = stacked([tables[name] for _, tables in found])
        yield rows

    def _of_slice(self, make: Callable[[], StreamSlice], budget: Budget) -> Iterator[tuple[Together, dict[str, pa.Table]]]:
        part = make()
        yield self._decided(self._begun(part.events, part.after, part.upto), part.upto, part.upto == HIGHEST, budget)

    def within(
        self, events: Events, after: int, upto: int, numbers: Ints | None = None, budget: Budget | None = None
    ) -> Iterator[dict[str, pa.Table]]:
        """The rows of each query that are due in a slice of time; of totals that add up over slices, what it adds to them."""
        budget = budget or self._limits.budget()
        yield self._decided(self._begun(events, after, upto), upto, upto == HIGHEST, budget, of_slice=True)[1]

    def _begun(self, events: Events, after: int, upto: int) -> Together:
        """The state of a stream that has come to the beginning of a slice, with the events up to its end."""
        is_first, is_last = after == LOWEST, upto == HIGHEST
        events = events.slice(0, int(np.searchsorted(events.times, upto, "right")))
        began, ended = (int(events.times[0]) - 1, int(events.times[-1])) if len(events) else (LOWEST, LOWEST)
        if not is_last and (len(events) or not is_first):
            ended = max(ended, upto)  # the stream goes on, and so do rows that are due without an event
        reports = dict.fromkeys(self._sharing.queries, began if is_first else after)
        return self._resumed(self._start(self._filled(events)), events, after, reports, ended)

    def _decide(
        self, state: Together, family: LaneFamily, events: Events, upto: int, final: bool, budget: Budget, of_slice: bool
    ) -> dict[str, pa.Table]:
        """The rows of a family that are due; of slices that add up, totals."""
        assert state.pending is not None
        batch, last = Batch(events, family.window, events.times, budget=budget), state.pending.last
        tasks = {name: Task(self._plans[name], batch, state.told[name].reported, upto, last, final) for name in family.places}
        changes = family.take(events, self._clock(events, list(tasks.values())), final, budget)
        tables, sizes = {}, Sizes(events)
        for name, task in tasks.items():
            told, rows = state.told[name], self._rows[name]
            rows.meet(told, family.layout.keys, sizes)
            whole = partial(self._whole, state, events, told)
            if of_slice and task.needs.adds_up:
                tables[name] = rows.share(told, task, changes[name], whole)
                continue
            tables[name] = rows.decide(told, task, changes[name], family.layout.lane_of, whole)
            told.reported = task.due if task.plan.emit.when == "every" and not final else upto
        return tables

    def _clock(self, events: Events, tasks: Sequence[Task]) -> int:
        """The last moment at which anything is due: time that has passed since is not looked at, so that later rows can be."""
        moments = [int(events.times[-1])] if len(events) else []
        moments += [int(task.moments[-1]) for task in tasks if task.plan.emit.when == "every" and len(task.moments)]
        return max(moments, default=LOWEST)

    def _whole(self, state: Together, events: Events, told: Told) -> State:
        """The window with its new events."""
        assert state.pending is not None
        whole = events if state.kept is None else Events.concat([state.kept.events, events])
        return State(whole, reported=told.reported, last=state.pending.last)

    def _count(self, state: Together, family: LaneFamily, events: Events) -> None:
        """Take events that were reported."""
        upto = max([int(events.times[-1])] if len(events) else [LOWEST])
        upto = max([upto, *(state.told[name].reported for name in family.places if self._plans[name].emit.when == "every")])
        changes = family.take(events, min(upto, state.decided), False, self._limits.budget())
        sizes = Sizes(events)
        for name in family.places:
            self._rows[name].meet(state.told[name], family.layout.keys, sizes)
            self._rows[name].forget(state.told[name], changes[name])

    def _keep(self, state: Together, events: Events, upto: int) -> None:
        assert state.pending is not None
        if state.kept is None:
            state.kept = Kept(state.pending.template)
        state.kept.append(events, events.times, events.rows_of(self._types))
        state.kept.drop_upto(int(minus(np.array([upto]), self._window)[0]), True)

    def _forget(self, state: Together) -> None:
        """Begin a family anew with the events that are kept, where most of its lanes may have nothing alive."""
        assert state.kept is not None
        for family in state.families:
            if family.layout.n_lanes > 2 * family.n_alive + FEWEST_LANES:
                family.begin()
                for name in family.places:
                    told = self._rows[name].start()
                    state.told[name] = replace(told, reported=state.told[name].reported, totals=state.told[name].totals)
                self._count(state, family, state.kept.events)
                family.n_alive = family.layout.n_lanes
