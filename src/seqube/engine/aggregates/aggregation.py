"""A query with AGG as a state machine: feed batches in time order, get each row of the result once, when it is final.

What is reported when is worked out here, once for all strategies: a `Task` holds the events at hand, the moments at which a row may
be due, the groups, and the columns that are measured. A strategy fills `Cells` (group, moment) with measures; what comes after
(means, HAVING, column names) is the same for all of them.

Between steps only events remain that a later row can still depend on: those of one window (two where a negation looks back from a
match's end), of the plan's types or, in a tuple-count window, of all types, since all are counted. EMIT TOTAL adds a row per group,
EMIT PER one per group and bucket that is not over.

Cost of a step: the events kept and the new ones, plus what the strategy costs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pat

from seqube.engine.aggregates.buckets import TimeBuckets
from seqube.engine.aggregates.columns import kind_of_value, with_columns
from seqube.engine.aggregates.groups import Groups
from seqube.engine.aggregates.measured import Measured
from seqube.engine.aggregates.measures import Collected, finisher, means
from seqube.engine.aggregates.state import LiveCounts, Reporter, State
from seqube.engine.aggregates.totals import BUCKET, merge_totals, one_array, stacked, total_keys
from seqube.engine.bindings import Bindings
from seqube.engine.instances import Batch, minus, plus
from seqube.engine.keys import event_numbers, partition_codes
from seqube.engine.limits import NO_LIMITS, Budget, Limits
from seqube.engine.order import Settled, order_events, rank_events, refuse_resuming, refuse_steps
from seqube.engine.partitions import number_events
from seqube.engine.predicates import Evaluator, Ints
from seqube.engine.sequence import HIGHEST, LOWEST
from seqube.engine.slices import Slices, StreamSlice, answer_slices
from seqube.engine.snapshots import read_state
from seqube.errors import DataError
from seqube.events import Events
from seqube.events.schema import UNITS, Schema
from seqube.language.functions import aggregate_function
from seqube.language.tree import Aggregate, Attribute, Literal, Value
from seqube.language.writer import write_value
from seqube.plan.aggregates import AggregatePlan, Measure
from seqube.plan.needs import Needs, needs_of
from seqube.plan.physical import Scan
from seqube.plan.slices import cut_of

if TYPE_CHECKING:
    from seqube.engine.aggregates.live import Course

Floats = npt.NDArray[np.float64]

TIMES_AS_LONG = 8  # times as many events are taken to be long enough to leave most of them out
CELL_BYTES = 64  # about what a group at a moment takes while it is measured


class Aggregator(Reporter[pa.Table]):
    """Runs a plan with AGG over a stream that comes in batches. The limits are those of a step, or of a whole run."""

    def __init__(self, plan: AggregatePlan, limits: Limits = NO_LIMITS) -> None:
        self.plan = plan
        self._limits = limits
        self._courses: dict[Schema, Course | str] = {}

    def course(self, events: Events) -> Course | str:
        """How the plan goes on over such events, or why its window is replayed."""
        from seqube.engine.aggregates.live import course_of

        if events.schema not in self._courses:
            self._courses = {events.schema: course_of(self.plan, events, self._limits)}
        return self._courses[events.schema]

    def goes_on(self, events: Events) -> bool:
        return not isinstance(self.course(with_columns(events, self.plan.computed)), str)

    def start(self) -> State:
        refuse_steps(self.plan)
        return State()

    def take(self, state: State | LiveCounts, batch: Events) -> State | LiveCounts:
        batch = with_columns(batch, self.plan.computed)
        if not state.has_begun and not isinstance(course := self.course(batch), str):
            state = course.start(batch)
        return state.take(batch) if isinstance(state, LiveCounts) else super().take(state, batch)

    def _restored(self, data: bytes) -> State | LiveCounts:
        events, numbers, about, beside = read_state(data)
        events = with_columns(events, self.plan.computed)
        if "level" not in about:
            return State.of(events, numbers, about, beside)
        course = self.course(events)
        assert not isinstance(course, str), course
        return course.restore(about, events, beside)

    def resume(self, events: Events, decided: int, reported: int, last: int) -> Any:
        """As `Operator.resume`; counters are made of the events that were decided, and what those report is out already."""
        refuse_resuming(self.plan)
        events = with_columns(events, self.plan.computed)
        if isinstance(course := self.course(events), str):
            events = self.order(events)
            return State(events, self.number(events, None), decided, reported, last)
        n_old = int(np.searchsorted(events.times, decided, "right"))
        state = course.start(events)
        state.reported, state.pending.last = reported, last
        state, _ = course.decide(state.take(events.slice(0, n_old)), decided, final=False)
        return state.take(events.slice(n_old, len(events)))

    def run(self, events: Events) -> pa.Table:
        """The rows of a whole stream: all its events at once, whatever goes on."""
        return next(self.pieces(events, self._limits.budget()))

    def pieces(self, events: Events, budget: Budget, threads: int = 1) -> Iterator[pa.Table]:
        """The rows of a whole stream, at once. A slice reports what is due in it, as a step would; totals of slices are merged."""
        events = with_columns(self._needed(events), self.plan.computed)
        whole = super().take(State(), events)
        assert whole.events is not None
        cut = cut_of(self.plan, events.unit, events.statistics)
        makers = Slices(self.plan, whole.events, cut, whole.numbers).makers
        slices = [
            partial(self._of_slice, make, whole, is_last, budget)
            for make, is_last in zip(makers, [*([False] * (len(makers) - 1)), True], strict=True)
        ]
        budget.keeps_all = True
        found = list(answer_slices(slices, threads, budget, lambda _: 0))
        task = found[-1][0]
        if not self.plan.emit.counts_once:
            yield stacked([table for _, table in found])
        else:
            totals = [table for _, table in found]
            yield name_totals(task, totals[0] if len(totals) == 1 else merge_totals(totals, self.plan))

    def _of_slice(
        self, make: Callable[[], StreamSlice], whole: State, is_last: bool, budget: Budget
    ) -> Iterator[tuple[Task, pa.Table]]:
        """What a slice reports, or adds to the totals."""
        part = make()
        reported = max(part.after, whole.reported)
        state = State(part.events, part.numbers, reported, reported, whole.last)
        task = self.task(state, part.upto, is_last, budget)
        answer = strategy(self.plan.strategy)(task)
        yield task, measured(task, answer) if self.plan.emit.counts_once else write(task, answer)

    def _needed(self, events: Events) -> Events:
        """What the plan needs of a whole stream, where that is little: then it costs what its events cost, however many others."""
        needs = needs_of(self.plan, events.unit)
        if needs.sent_types is None or events.statistics.count(needs.sent_types) * TIMES_AS_LONG > len(events):
            return events
        return events.take(events.rows_of(needs.sent_types), needs.columns)

    def order(self, events: Events) -> Events:
        names = self.plan.matches.order_by
        return order_events(events, names) if names else events

    def number(self, events: Events, known: Ints | None) -> Ints | None:
        """Numbers of all events in their partition; those kept of a partition are its last ones, without a hole."""
        if not self.plan.matches.numbers_events:
            return None
        names = self.plan.matches.partition_by
        return event_numbers(events, names) if known is None else number_events(partition_codes(events, names), len(events), known)

    def wake(self, state: State | LiveCounts) -> int | None:
        """The next multiple of EMIT EVERY, up to the first at or after the last event; with EMIT PER, when a bucket is over."""
        events, last = (state.pending.template, state.pending.last) if isinstance(state, LiveCounts) else (state.events, state.last)
        if last == LOWEST:
            return None
        assert events is not None
        needs = needs_of(self.plan, events.unit)
        if needs.bucket is not None:
            ends = TimeBuckets.of(needs.bucket, events.column("ts").type).ends(state.open_times)
            waits = self.plan.matches.waits and not needs.by_position
            moments = plus(ends, needs.window) if waits else ends
            moments = moments[moments > state.decided + 1]
            return int(moments.min()) if len(moments) else None
        period = needs.period
        if period is None:
            return None
        due = (state.reported // period + 1) * period
        return due + 1 if due <= -(-last // period) * period else None

    def decide(self, state: State | LiveCounts, upto: int, final: bool) -> tuple[State | LiveCounts, pa.Table]:
        if isinstance(state, LiveCounts):
            course = self.course(state.pending.template)
            assert not isinstance(course, str), course
            return course.decide(state, upto, final)
        assert state.events is not None
        task = self.task(state, upto, final)
        answer = strategy(self.plan.strategy)(task)
        if not self.plan.emit.counts_once:
            table = write(task, answer)
            if final:
                return State(state.events.slice(0, 0), decided=upto, reported=upto, last=state.last), table
            reported = task.due if self.plan.emit.when == "every" else upto
            return self._purge(replace(state, decided=upto, reported=reported), task), table
        totals, rows = add_totals(task, state.totals, measured(task, answer))
        if final:
            return State(state.events.slice(0, 0), decided=upto, reported=upto, last=state.last), rows
        return self._purge(replace(state, decided=upto, reported=upto, totals=totals), task), rows

    def within(
        self, events: Events, after: int, upto: int, numbers: Ints | None = None, budget: Budget | None = None
    ) -> Iterator[pa.Table]:
        """The rows that are due in a slice of time."""
        if (after, upto) == (LOWEST, HIGHEST):
            yield self.run(events)
            return
        assert not self.plan.emit.counts_once, "slices of these add up"
        task = self._slice(events, after, upto)
        yield write(task, strategy(self.plan.strategy)(task))

    def totals_within(self, events: Events, after: int, upto: int) -> pa.Table:
        """What a slice of time adds to the totals, where slices add up (`needs.adds_up`); `merge_slices` makes rows of them."""
        task = self._slice(events, after, upto)
        return measured(task, strategy(self.plan.strategy)(task))

    def _slice(self, events: Events, after: int, upto: int) -> Task:
        """What a stream that has come to the beginning of a slice would report next, up to its end."""
        events = self._needed(events.slice(0, int(np.searchsorted(events.times, upto, "right"))))
        state = super().take(State(), with_columns(events, self.plan.computed))
        if after > LOWEST:
            state = replace(state, decided=after, reported=after)
        return self.task(replace(state, last=state.last if upto == HIGHEST else max(state.last, upto)), upto, upto == HIGHEST)

    def merge_slices(self, totals: Sequence[pa.Table], nothing: Events) -> pa.Table:
        """The rows of a stream, of the totals of its slices in the order of time."""
        task = self.task(super().take(State(), with_columns(nothing, self.plan.computed)), HIGHEST, final=True)
        return name_totals(task, merge_totals(list(totals), self.plan))

    def task(self, state: State, upto: int, final: bool, budget: Budget | None = None) -> Task:
        assert state.events is not None
        events, matches = state.events, self.plan.matches
        clocks = events.times if state.numbers is None or not matches.window.counts_events else state.numbers
        codes = partition_codes(events, matches.partition_by)
        ranks = rank_events(events, matches.order_by) if matches.order_by else None
        window = needs_of(self.plan, events.unit).window
        batch = Batch(events, window, clocks, codes, budget or self._limits.budget(), state.numbers, ranks)
        return Task(self.plan, batch, state.reported, upto, state.last, final, state.settled or Settled.nothing())

    def _purge(self, state: State, task: Task) -> State:
        """Forget what no later row can depend on."""
        assert state.events is not None
        events = state.events
        rows = task.rows_within(task.needs.back)
        if state.numbers is None:
            rows = rows[np.isin(rows, events.rows_of(self.plan.matches.types), assume_unique=True)]
        settled = state.settled
        if self.plan.matches.skip is not None:
            # A row to come is about matches of a window, and what they wait for is over by then.
            ends = np.ones(len(events), np.bool_)
            ends[task.rows_within(task.needs.window)] = False
            settled = settle(task, ends).take(rows)
        numbers = None if state.numbers is None else state.numbers[rows]
        return replace(state, events=events.take(rows), numbers=numbers, settled=settled)


def by_partition(codes: Ints | None, size: int) -> tuple[Ints, Ints, Ints]:
    """Rows in partitions, ordered by partition and then time; where each partition begins among them, and its size."""
    if codes is None:
        return np.arange(size), np.zeros(min(size, 1), np.int64), np.full(min(size, 1), size)
    order = np.argsort(codes, kind="stable")
    order = order[codes[order] >= 0]
    _, starts, counts = np.unique(codes[order], return_index=True, return_counts=True)
    return order, starts, counts


# ---------------------------------------------------------------- tasks


def last_due(period: int, after: int, last: int, upto: int) -> int:
    """The last multiple of EMIT EVERY up to a time: none is due behind the first at or after the last event."""
    if last == LOWEST:
        return after
    return max(min(-(-last // period) * period, upto // period * period), after)


@dataclass(frozen=True, slots=True)
class Cells:
    """Groups and moments to be measured, ascending by (group, moment). A moment is a position in the task's `moments`."""

    groups: Ints
    moments: Ints

    def __len__(self) -> int:
        return len(self.groups)


@dataclass(frozen=True, slots=True)
class Answer:
    """Cells and, for each measure, an Arrow array with a value per cell."""

    cells: Cells
    measures: dict[Measure, pa.Array]


@dataclass(frozen=True)
class Task:
    """One plan over the events at hand: report what is due in (after, upto]."""

    plan: AggregatePlan
    batch: Batch
    after: int
    upto: int
    last: int
    final: bool
    settled: Settled = field(default_factory=Settled.nothing)  # about the matches before those at hand
    evaluator: Evaluator = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "evaluator", Evaluator(self.batch.events))

    @cached_property
    def needs(self) -> Needs:
        return needs_of(self.plan, self.batch.events.unit)

    @property
    def period(self) -> int:
        assert self.needs.period is not None
        return self.needs.period

    @property
    def due(self) -> int:
        """The last multiple of EMIT EVERY up to now."""
        return last_due(self.period, self.after, self.last, self.last + self.period if self.final else self.upto)

    @property
    def next_due(self) -> int:
        """No row will be reported at an earlier time than this."""
        return self.due // self.period * self.period + self.period if self.plan.emit.when == "every" else self.upto + 1

    @cached_property
    def buckets(self) -> TimeBuckets:
        assert self.needs.bucket is not None
        return TimeBuckets.of(self.needs.bucket, self.batch.events.column("ts").type)

    @cached_property
    def bucket_starts(self) -> Ints:
        """Where the bucket of every event begins."""
        return self.buckets.starts(self.batch.events.times)

    @cached_property
    def trigger_rows(self) -> Ints:
        assert self.plan.trigger is not None
        rows = self.scan(self.plan.trigger)
        times = self.batch.events.times[rows]
        return rows[(times > self.after) & (times <= self.upto)]

    @cached_property
    def moments(self) -> Ints:
        """Times at which a row may be due; buckets by their starts."""
        times = self.batch.events.times
        if self.plan.emit.when == "total":
            return np.zeros(1, np.int64)
        if self.plan.emit.when == "per":
            return distinct(self.bucket_starts)
        if self.plan.emit.when == "every":
            if self.last == LOWEST:
                return np.empty(0, np.int64)
            first = self.after // self.period * self.period + self.period
            self.batch.budget.need(max(0, self.due - first) // self.period * CELL_BYTES)
            return np.arange(first, self.due + 1, self.period, dtype=np.int64)
        if self.plan.trigger is not None:
            return distinct(times[self.trigger_rows])
        return distinct(times[(times > self.after) & (times <= self.upto)])

    @cached_property
    def untils(self) -> Ints:
        """When an event leaves the window: the first time at which it is no longer inside, for every row."""
        times = self.batch.events.times
        return self._times_after(self.batch.window) if self.batch.counts_events else plus(times, self.batch.window)

    @cached_property
    def known_at(self) -> Ints:
        """When all is known that lies in the window from an event on, for every row: with its last event, or when it is over."""
        return self._times_after(self.batch.window - 1) if self.batch.counts_events else self.untils

    def _times_after(self, n: int) -> Ints:
        """The time of the event that is so many after it in its partition, for every row; HIGHEST where it has not come."""
        times = self.batch.events.times
        order, starts, counts = by_partition(self.batch.partitions, len(times))
        stops = np.repeat(starts + counts, counts)
        follower = np.arange(len(order)) + n
        found = np.full(len(times), HIGHEST)
        inside = follower < stops
        found[order[inside]] = times[order[follower[inside]]]
        return found

    def rows_within(self, span: int) -> Ints:
        """The events that lie so far before the next row that is due, or after that."""
        times = self.batch.events.times
        if not self.batch.counts_events:
            return np.flatnonzero(times > int(minus(np.array([self.next_due - 1]), span)[0]))
        order, starts, counts = by_partition(self.batch.partitions, len(times))
        n_decided = np.add.reduceat(times[order] < self.next_due, starts) if len(starts) else starts
        return np.sort(order[np.arange(len(order)) >= np.repeat(starts + n_decided - span, counts)])

    def scan(self, node: Scan) -> Ints:
        """The rows of a type that pass their own predicates and are in a partition."""
        return self.batch.scan(node, self.evaluator)

    @cached_property
    def groups(self) -> Groups:
        return Groups(self.plan.group_by, self.batch.events)

    @cached_property
    def given(self) -> Cells:
        """The cells that are known from the events alone (report `given`, or `total` without GROUP BY)."""
        if not self.plan.group_by:
            return Cells(np.zeros(len(self.moments), np.int64), np.arange(len(self.moments)))
        rows = self.trigger_rows
        assert self.plan.trigger is not None
        codes = self.groups.codes({self.plan.trigger.variable: rows}, len(rows))
        return distinct_cells(codes, np.searchsorted(self.moments, self.batch.events.times[rows]))

    @property
    def is_given(self) -> bool:
        return self.plan.report == "given" or (self.plan.report == "total" and not self.plan.group_by)

    def values(self, argument: Attribute) -> pa.Array:
        return self.batch.events.column(argument.name)

    def column(self, argument: Attribute) -> Measured:
        return Measured.of(self.values(argument), argument.name)

    @cached_property
    def asks_for_order(self) -> bool:
        """Whether it matters when a match ended and began."""
        return any(isinstance(row, Collected) and row.in_order for row in map(means, {m.function for m in self.plan.measures}))

    @cached_property
    def of_matches(self) -> tuple[Value, ...]:
        """What is measured of several events at once."""
        arguments = (measure.argument for measure in self.plan.measures)
        return tuple(dict.fromkeys(value for value in arguments if value is not None and not isinstance(value, Attribute)))


def distinct(values: Ints) -> Ints:
    """Distinct values of an ascending array."""
    if len(values) < 2:
        return values
    return values[np.concatenate(([True], values[1:] != values[:-1]))]


def distinct_cells(groups: Ints, moments: Ints) -> Cells:
    order = np.lexsort((moments, groups))
    groups, moments = groups[order], moments[order]
    new = np.ones(len(groups), np.bool_)
    new[1:] = (groups[1:] != groups[:-1]) | (moments[1:] != moments[:-1])
    return Cells(groups[new], moments[new])


def settle(task: Task, ends: npt.NDArray[np.bool_]) -> Settled:
    """What is known of the matches that SKIP takes when those that end at these events are over."""
    from seqube.engine.aggregates.two_step import settle_matches

    return settle_matches(task, ends)


def strategy(name: str) -> Callable[[Task], Answer]:
    """The function that answers a task by this strategy."""
    if name == "two-step":
        from seqube.engine.aggregates.two_step import aggregate_matches

        return aggregate_matches
    from seqube.engine.aggregates.counting import aggregate_chain
    from seqube.engine.aggregates.per_start import count_per_start
    from seqube.engine.aggregates.window_product import slide

    kernel = {"per-start": count_per_start, "window-product": slide}[name]
    return lambda task: aggregate_chain(task, kernel)


# ---------------------------------------------------------------- results


def measured(task: Task, answer: Answer) -> pa.Table:
    """The measures of every cell beside its group, and its bucket: what totals are added up from."""
    keys = task.groups.columns(answer.cells.groups)
    if task.plan.emit.when == "per":
        keys = [pa.array(task.moments[answer.cells.moments]), *keys]
    names = [*total_keys(task.plan), *(f"#measure{i}" for i in range(len(task.plan.measures)))]
    return pa.table([*keys, *(answer.measures[measure] for measure in task.plan.measures)], names=names)


def add_totals(task: Task, before: pa.Table | None, partial: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Totals with those of one more piece of the stream, and the rows that are due."""
    totals = partial if before is None else merge_totals([before, partial], task.plan)
    if task.final:
        return totals, name_totals(task, totals)
    if task.plan.emit.when == "per":
        rows, totals = _whole_buckets(task, totals)
        return totals, rows
    return totals, name_totals(task, partial).slice(0, 0)


def _whole_buckets(task: Task, totals: pa.Table) -> tuple[pa.Table, pa.Table]:
    """The rows of buckets in which no more matches can end or be cancelled, and the totals of the others."""
    times, first = task.batch.events.times, task.upto + 1
    if task.plan.matches.waits:
        first = min(first, int(times.min(initial=HIGHEST, where=task.known_at > task.upto)))
    starts = np.asarray(totals.column(BUCKET))
    order = np.argsort(starts, kind="stable")
    are_whole = np.empty(len(starts), np.bool_)
    are_whole[order] = task.buckets.ends(starts[order]) <= first
    return name_totals(task, totals.filter(pa.array(are_whole))), totals.filter(pa.array(~are_whole))


def name_totals(task: Task, totals: pa.Table) -> pa.Table:
    """Totals as the user's rows, by bucket where there are any."""
    if not (is_per := task.plan.emit.when == "per"):
        starts = []
    else:
        totals = totals.take(pa.array(np.argsort(totals.column(BUCKET).to_numpy(), kind="stable")))
        starts = [shown_times(task, totals.column(BUCKET).to_numpy())]
    columns = [one_array(column) for column in totals.columns][is_per:]
    n_keys = len(task.plan.group_by)
    measures = dict(zip(task.plan.measures, columns[n_keys:], strict=True))
    return result_rows(task, starts, columns[:n_keys], measures, totals.num_rows)


def write(task: Task, answer: Answer) -> pa.Table:
    """The rows of a result, by time and then group."""
    if not task.plan.group_by:  # in order of time already
        return result_rows(task, [shown_times(task, task.moments[answer.cells.moments])], [], answer.measures, len(answer.cells))
    order = pa.array(np.lexsort((answer.cells.groups, answer.cells.moments)))
    moments = task.moments[answer.cells.moments[np.asarray(order)]]
    groups = task.groups.columns(answer.cells.groups[np.asarray(order)])
    measures = {measure: values.take(order) for measure, values in answer.measures.items()}
    return result_rows(task, [shown_times(task, moments)], groups, measures, len(answer.cells))


def result_rows(
    task: Task, times: list[pa.Array], groups: list[pa.Array], measures: dict[Measure, pa.Array], size: int
) -> pa.Table:
    plan = task.plan
    results = _Results(task.batch.events, measures)
    columns = [*times, *groups, *(results.value(output.value, {}) for output in plan.aggregates)]
    names = [
        *(["ts"] if times else []),
        *plan.group_names,
        *(str(output.name) for output in plan.aggregates),
    ]
    table = pa.table(columns, names=names)
    return table.filter(pa.array(results.true(plan.having, {}, size))) if plan.having else table


def shown_times(task: Task, moments: Ints) -> pa.Array:
    """Moments in the type of the events' own time column."""
    events = task.batch.events
    kind = events.column("ts").type
    if events.schema["ts"] != "time":
        return pa.array(moments)
    if not pat.is_timestamp(kind):
        return pa.array(moments).cast(pa.timestamp("us"))
    times = pa.array(moments).cast(pa.timestamp("us", kind.tz))
    # A row every 1500 ms is not due at whole seconds.
    length = task.needs.period or task.needs.bucket or 0
    coarse = length * 1_000 % UNITS[kind.unit]
    return times if coarse else times.cast(kind)


class _Results(Evaluator):
    """Evaluates AGG and HAVING: aggregates are made of the measures at hand."""

    def __init__(self, events: Events, measures: dict[Measure, pa.Array]) -> None:
        super().__init__(events)
        self._stream = events
        self._measures = measures

    def value(self, node: Value, bindings: Bindings) -> pa.Array | pa.Scalar:
        if not isinstance(node, Aggregate):
            return super().value(node, bindings)
        function = aggregate_function(node.function, node.at)
        measures = [self._measures[Measure(name, node.argument)] for name in function.measures]
        kind = None if node.argument is None else kind_of_value(node.argument, self._stream)
        shares = [float(node.share.value)] if isinstance(node.share, Literal) else []  # type: ignore[arg-type]  # checked before
        try:
            return finisher(function.finish)(kind, *measures, *shares)
        except pa.ArrowInvalid:
            raise DataError(
                f"{write_value(node)} leaves the range of its type, {kind}\n  hint: shorten the window, or leave out large values"
            ) from None
