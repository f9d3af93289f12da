"""A stream in this process: events are pushed as they come, and what is final comes back.

    push -> Intake: columns, rejected rows -> late rows out -> EventBuffer: waits for the watermark -> StandingQueries -> rows

The watermark is the newest time less the lateness, or what `advance` says. Rows before it are late; the others wait until it has
come to them, and are then taken in the order of time, ties as they came. What a query reports is final, and comes once.

Cost of a push: the new rows, and what the operators do with those that are released.
Invariant: however a stream is cut into pushes, and wherever it was saved and loaded, the same rows come out.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import wraps
from itertools import zip_longest
from pathlib import Path
from threading import RLock
from typing import Any, Concatenate, ParamSpec, TypeVar, Unpack

import numpy as np
import pyarrow as pa

from seqube.arguments import checked
from seqube.engine.limits import Limits, Named, read_limits
from seqube.engine.operator import Operator
from seqube.engine.sequence import HIGHEST, LOWEST
from seqube.engine.snapshots import seal, unseal
from seqube.engine.standing import Asked, StandingQueries
from seqube.engine.workload import measure
from seqube.errors import DataError, PlanError
from seqube.events import Events, Hierarchy, Rejected, Schema
from seqube.events.buffer import EventBuffer
from seqube.events.intake import Declared, Intake, read_columns
from seqube.events.rows import MISFITS
from seqube.events.schema import HIDDEN_COLUMNS, TIME, TYPE, is_moment, is_text, value_type
from seqube.events.times import read_times
from seqube.language import Query
from seqube.language.mentions import columns_of
from seqube.language.parameters import Params, refuse_unknown
from seqube.language.tree import Window
from seqube.live_cube import LiveCube, counting, read_pattern
from seqube.plan.optimizer import AUTO
from seqube.plan.physical import ticks
from seqube.predict.forecasts import Forecaster, find_halo, read_rules
from seqube.predict.outcomes import write_times
from seqube.predict.rules import Rule, Rules
from seqube.predict.ruletext import read_condition, read_length, write_length
from seqube.query import bind

LAYOUT = 1  # of the bytes that `save` writes
FACTS = b"seqube stream"
FORECASTS = "forecasts"
QUERY = "query"  # the name of a query that was given alone, as in a file
CLOSED = "it was closed\n  hint: make another one"
MEASURED = 1_000  # events of a first push that say something about the stream

_P = ParamSpec("_P")
_T = TypeVar("_T")


class FinalRows(dict[str, pa.Table]):
    """What became final, by query: a table for each that has rows. Asked for another query of the stream, it gives an empty one."""

    def __init__(self, tables: Mapping[str, pa.Table], empty: Callable[[str], pa.Table]) -> None:
        super().__init__(tables)
        self._empty = empty

    def __missing__(self, name: str) -> pa.Table:
        return self._empty(name)


@dataclass(frozen=True, slots=True)
class QueryStats:
    """How one query of a stream is doing. Times are those of the time column; `lag` is in its ticks."""

    kept: int  # events that its operator remembers
    n_bytes: int  # of its state
    rows: int  # that have come out
    lag: int  # from what is decided to the newest event
    since: Any  # its answers are whole from this time on; None: from the beginning, or (where it is not whole) not known
    is_whole: bool
    shared_with: tuple[str, ...]
    plan: str  # as it is now
    switches: int = 0  # how often a workload that shares matches was planned anew, and the plan changed


@dataclass(frozen=True, slots=True)
class StreamStats:
    """How a stream is doing: events taken, rows late and rejected since it began, events that wait and that are kept."""

    events: int
    late: int
    rejected: int
    waiting: int
    kept: int
    newest: Any
    watermark: Any
    unseen: tuple[str, ...]  # columns that queries name and that no event has had
    queries: dict[str, QueryStats]


def _alone(method: Callable[Concatenate[Stream, _P], _T]) -> Callable[Concatenate[Stream, _P], _T]:
    """One thread at a time, and nothing in a stream that has come to an end."""

    @wraps(method)
    def guarded(self: Stream, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        with self._lock:
            self._check_open()
            return method(self, *args, **kwargs)

    return guarded


class Stream:
    """A running stream and its queries: push events as they come, and get what is final, each row once.

    - `queries`: a text, a parsed `Query`, or a mapping from names to these; one without a name is called "query".
    - `rules`: rules, as for `forecast`; their predictions come under the name "forecasts".
    - `hierarchy`: the concepts above the event types, a `Hierarchy`.
    - `lateness`: by how much events may come out of order: "5 s", or a number in the unit of the time column. They wait that long.
    - `type`, `time`, `unit`: the columns with the type and the time, and the unit of integer times. Where `type` is None every
      event is of the type ANY, and DEFINE gives it kinds.
    - `columns`: types of columns, by name ("int64", "double", "string", a PyArrow type), or a PyArrow schema. Without it, the first
      push decides; dictionaries may bring more columns later.
    - `keep`: how long events are kept for queries that are added later: "1 h". As long as the longest window of the queries that
      return matches, unless it is given; the last 10,000 events in any case.
    - `strategy`, `params`: how to evaluate, and values for the parameters of queries (`:limit`), as for `run`.
    - `limits`, `named`: what a query may use at each push, as for `run`.

    Any thread may call any method: one works, the others wait. `late` and `rejected` are about the last push, whoever made it.
    After an error inside a query the stream says so at every call: go on from what `save` gave before.

    >>> stream = sq.Stream("SEQ(Card c, Withdrawal w, [id]) WITHIN 5 min RETURN c.id AS card", unit="s")
    >>> stream.push({"type": "Card", "ts": 0, "id": 1})
    {}
    >>> stream.push([{"type": "Withdrawal", "ts": 90, "id": 1}, {"type": "Card", "ts": 95, "id": 2}])["query"].to_pylist()
    [{'card': 1}]
    """

    @checked
    def __init__(
        self,
        queries: str | Query | Mapping[str, str | Query] | None = None,
        *,
        rules: Rules | Rule | Iterable[Rule] | Mapping[str, Any] | str | Path | None = None,
        hierarchy: Hierarchy | None = None,
        lateness: int | str = 0,
        type: str | None = "type",
        time: str = "ts",
        unit: str = "ms",
        columns: Declared | None = None,
        keep: int | str | None = None,
        strategy: str = "auto",
        params: Params | None = None,
        limits: Limits | None = None,
        **named: Unpack[Named],
    ) -> None:
        self._lock = RLock()
        self._ended: str | None = None
        self._columns = (type, time, unit)
        self._lateness = _length("lateness", lateness)
        self._keep = None if keep is None else _length("keep", keep)
        self._intake = Intake(type, time, unit, read_columns(columns))
        by_name = {} if queries is None else queries if isinstance(queries, Mapping) else {QUERY: queries}
        refuse_unknown(by_name.values(), params or {})
        parsed = {_name(name): bind(query, None, params=params) for name, query in by_name.items()}
        self._rules = None if rules is None else read_rules(rules)
        asked = {FORECASTS: Asked(self._forecaster, self._halo)} if self._rules is not None else {}
        if asked.keys() & parsed.keys():
            raise PlanError(f"{FORECASTS!r} is the name of what rules predict\n  hint: give that query another one")
        self._standing = StandingQueries(parsed, hierarchy, strategy, read_limits(limits, named), asked)
        self._cubes: dict[str, LiveCube] = {}
        self._waiting = EventBuffer()
        self._delay = 0  # the lateness in ticks, once these are known
        self._newest = self._watermark = LOWEST
        self._counts = {"events": 0, "late": 0, "rejected": 0}
        self._late = pa.table({})
        self._last: Events | None = None  # the last push

    # ------------------------------------------------------------ events

    @_alone
    def push(self, batch: Any) -> FinalRows:
        """Take the next rows, and give what is final now: a table for each query that has something to say.

        - `batch`: a PyArrow table or record batch, a pandas or polars frame, a list of dictionaries, or one dictionary.
        """
        before = self._intake.schema
        try:
            events = self._intake.read(batch, self._named_columns)
            if before is None and self._intake.schema is not None:
                self._begin(events)
            elif self._intake.schema is not before:
                waiting = self._waiting.changed(self._intake.conform)
                self._standing.grow(events.schema, self._intake.conform)
                self._waiting = waiting
        except BaseException:
            self._intake.adopt(before)  # nothing of this push was taken
            raise
        self._last = events
        self._counts["rejected"] += events.n_rejected
        events = self._put_late_aside(events)
        self._counts["events"] += len(events)
        if len(events):
            self._waiting.append(events)
            self._newest = max(self._newest, int(events.times[-1]))
        return self._pass(max(self._watermark, self._newest - self._delay))

    @_alone
    def advance(self, time: Any) -> FinalRows:
        """Let time pass without events, so that absences become known, and give what is final: what comes later must not be before.

        - `time`: a number, or for timestamps a datetime or an ISO 8601 text, as in the time column.
        """
        tick = self._tick(time)
        if tick < self._watermark:
            raise DataError(
                f"advance: time goes back, from {self._shown(self._watermark)} to {self._shown(tick)}\n"
                "  hint: what was reported before is final; give a later time"
            )
        return self._pass(tick)

    @_alone
    def close(self) -> FinalRows:
        """End the stream, and give what is left: what waited for time to pass, and totals."""
        rest = self._waiting.take(HIGHEST)
        with self._breaking():
            found = self._standing.finish(rest)
        self._ended = CLOSED
        return self._found(found)

    @checked
    async def follow(self, source: asyncio.Queue[Any] | AsyncIterable[Any]) -> AsyncIterator[tuple[str, pa.Table]]:
        """Push whatever comes from an asyncio source, and give what is final as (name, table); the stream is closed at its end.

        - `source`: an `asyncio.Queue`, in which None is the end, or anything for `async for`. A push works in the event loop.
        """
        async for batch in _items(source):
            for name, table in self.push(batch).items():
                yield name, table
        for name, table in self.close().items():
            yield name, table

    # ------------------------------------------------------------ queries

    @property
    def queries(self) -> dict[str, Query]:
        """The queries by name; one that is being replaced is the new one."""
        with self._lock:
            return dict(self._standing.queries)

    @checked
    @_alone
    def add(self, name: str, query: str | Query, params: Params | None = None) -> Any:
        """Add a query to the running stream; it sees the events that are still kept, and reports what is final from now on.

        It gives the time from which on its answers are whole, None if they are so already; `stats` knows it too.

        - `name`, `query`: another name, and a text or a parsed `Query`.
        - `params`: values for its parameters.
        """
        self._standing.add(_name(name), self._bound(query, params))
        return self._whole_from(name)

    @checked
    @_alone
    def remove(self, name: str) -> None:
        """Remove a query; what it had not reported is not reported any more.

        - `name`: that of the query.
        """
        self._standing.remove(name)
        self._cubes.pop(name, None)

    @checked
    @_alone
    def replace(self, name: str, query: str | Query, params: Params | None = None) -> Any:
        """Let another query answer under this name as soon as it is whole: from the time on that this gives; None if that is now.

        Until the watermark has come to that time the old one answers; what is final then was reported by it, and the rest comes
        from the new one.

        - `name`, `query`: the name, and the new text or parsed `Query`.
        - `params`: values for its parameters.
        """
        if name in self._cubes:
            raise PlanError(f"{name!r} is a cube\n  hint: remove it, and make another one")
        self._standing.replace(name, self._bound(query, params))
        return self._whole_from(name)

    @checked
    @_alone
    def cube(self, name: str, query: str | Query, every: int | str, params: Params | None = None) -> LiveCube:
        """Count the matches of a pattern by the types at all positions, in the window that ends at every multiple of a period.

        Its rows (`ts`, the types, `count`) come under its name, as those of a query do; what it gives holds the last of them, and
        the counts of all coarser types: a cube that can be drilled down, rolled up and pivoted while the stream goes on.

        - `name`, `query`: another name, and a text or a `Query` of one SEQ without nesting, as for `Cube`.
        - `every`: how often counts are due: "10 s", or a number in the unit of the time column.
        - `params`: values for the parameters of the query.
        """
        pattern = read_pattern(query, params)
        asked = bind(counting(pattern, _length("every", every)), None)
        self._standing.add(_name(name), asked)
        self._cubes[name] = LiveCube(pattern, self._standing.hierarchy, self._standing.reported(name))
        return self._cubes[name]

    @property
    def cubes(self) -> dict[str, LiveCube]:
        """The cubes by name."""
        with self._lock:
            return dict(self._cubes)

    # ------------------------------------------------------------ looking

    @property
    def late(self) -> pa.Table:
        """The rows of the last push that came after the watermark had passed them, with a `reason`. They change no result."""
        return self._late

    @property
    def rejected(self) -> Rejected:
        """The rows of the last push that are no events, with the reasons."""
        return Rejected(0, {}, pa.table({})) if self._last is None else self._last.rejected

    @property
    def stats(self) -> StreamStats:
        """How the stream and each query are doing."""
        with self._lock:
            standing, schema = self._standing, self._intake.schema
            unseen = () if schema is None else tuple(field.name for field in schema.columns if pa.types.is_null(field.type))
            return StreamStats(
                **self._counts,
                waiting=len(self._waiting),
                kept=len(standing.history),
                newest=self._shown(self._newest),
                watermark=self._shown(self._watermark),
                unseen=unseen,
                queries={name: self._query_stats(name) for name in standing.queries},
            )

    def _query_stats(self, name: str) -> QueryStats:
        reporting, newcomer = self._standing.at_work(name)
        if reporting is None:
            return QueryStats(0, 0, 0, 0, None, True, (), "")
        state = reporting.state
        latest = newcomer or reporting
        return QueryStats(
            kept=state.n_kept if reporting.has_begun else 0,
            n_bytes=state.n_bytes if reporting.has_begun else 0,
            rows=reporting.n_rows.get(name, 0),
            lag=max(0, self._newest - self._watermark),
            since=self._shown(latest.since),
            is_whole=latest.is_whole_at(self._watermark),
            shared_with=tuple(other for other in reporting.queries if other != name),
            plan=self._standing.explain(name),
            switches=reporting.n_switches,
        )

    # ------------------------------------------------------------ states

    @_alone
    def save(self) -> bytes:
        """Everything that must be remembered, as bytes: `Stream.load` goes on as if nothing had happened."""
        kind, moment, unit = self._columns
        schema = self._intake.schema
        facts = {
            "version": LAYOUT,
            "columns": [kind, moment, unit],
            "lateness": write_length(self._lateness),
            "keep": None if self._keep is None else write_length(self._keep),
            "counts": self._counts,
            "newest": self._newest,
            "watermark": self._watermark,
            "begun": schema is not None,
            "rules": None if self._rules is None else self._rules.to_dict(),
            "cubes": {name: cube.facts() for name, cube in self._cubes.items()},
            **self._standing.facts(),
        }
        states = pa.table({"state": pa.array([each.to_bytes() for each in self._standing.everyone], pa.binary())})
        states = states.replace_schema_metadata({FACTS: json.dumps(facts).encode()})
        if schema is None:
            declared = pa.schema(list(self._intake.declared.items()))
            return seal(states, declared.empty_table())
        kept = [buffer.all() for buffer in (self._waiting, self._standing.history)]
        tables = (schema.columns.empty_table() if events is None else events.table for events in kept)
        return seal(states, *tables, *(cube.rows for cube in self._cubes.values()))

    @classmethod
    def load(cls, data: bytes) -> Stream:
        """The stream that `save` wrote.

        - `data`: its bytes.
        """
        if not isinstance(data, bytes | bytearray | memoryview):
            raise DataError(f"data: a stream is loaded from bytes, not from a {data.__class__.__name__}")
        parts = unseal(bytes(data))
        facts = json.loads((parts[0].schema.metadata or {}).get(FACTS, b"{}")) if parts else {}
        if facts.get("version") != LAYOUT:
            raise DataError(
                f"data: these bytes are not a stream of version {LAYOUT}, which is read here\n"
                "  hint: give what Stream.save wrote, with the release that wrote it"
            )
        states, waiting, *others = parts
        kind, moment, unit = facts["columns"]
        stream = cls(
            facts["queries"],
            rules=facts["rules"],
            hierarchy=None if facts["hierarchy"] is None else Hierarchy(facts["hierarchy"]),
            lateness=facts["lateness"],
            type=kind,
            time=moment,
            unit=unit,
            columns=pa.schema([field for field in waiting.schema if kind is not None or field.name != TYPE]),
            keep=facts["keep"],
            strategy=facts["strategy"],
            limits=Limits(**facts["limits"]),
        )
        cubes = facts.get("cubes", {})  # of a stream that was saved before there were any
        for (name, known), rows in zip_longest(cubes.items(), others[1:]):
            stream._cubes[name] = LiveCube.of(known, stream._standing.hierarchy, rows)
        stream._counts, stream._newest, stream._watermark = facts["counts"], facts["newest"], facts["watermark"]
        if facts["begun"]:
            pieces = [Events(table, kind or TYPE, moment, unit) for table in (waiting, others[0])]
            stream._intake.adopt(pieces[0].schema)
            stream._settle_lengths(pieces[0].schema.unit)
            pieces = [stream._intake.conform(piece) for piece in pieces]
            stream._waiting.append(pieces[0])
            stream._standing.restore(facts, states.column("state").to_pylist(), pieces[0].schema, pieces[1])
        return stream

    # ------------------------------------------------------------ rules

    def _forecaster(self, schema: Schema) -> Operator[Any, pa.Table]:
        assert self._rules is not None
        return Forecaster(self._rules, schema, self._standing.hierarchy)

    def _halo(self, unit: str) -> int:
        """How far predictions look back: a predicate window is closed on both sides."""
        assert self._rules is not None
        return find_halo(self._rules, unit) + 1

    # ------------------------------------------------------------ how time passes

    def _begin(self, events: Events) -> None:
        """The first push: columns and ticks are known, so queries are checked and planned."""
        self._settle_lengths(events.unit)
        queries = self._standing.queries
        measured = None
        if len(events) >= MEASURED or self._standing.strategy != AUTO:
            measured = replace(measure(queries, events, self._standing.hierarchy).only(self._named_columns()), continuous=True)
        self._standing.begin(events.schema, measured)

    def _settle_lengths(self, unit: str) -> None:
        self._delay = ticks(self._lateness, unit)
        self._standing.keep = None if self._keep is None else ticks(self._keep, unit)

    def _named_columns(self) -> list[str]:
        """The columns that queries name; `type` and `ts` are always there."""
        named = frozenset[str]().union(*map(columns_of, self._standing.queries.values()))
        for rule in self._rules or ():
            conditions = [read_condition(part.type, part.where) for part in (*rule.vertices, rule.consequent) if part.where]
            named = named.union(rule.partition_by, *map(columns_of, conditions))
        return sorted({HIDDEN_COLUMNS.get(name, name) for name in named - {TYPE, TIME}})

    def _put_late_aside(self, events: Events) -> Events:
        place = 0
        if len(events) and int(events.times[0]) < self._watermark:
            place = int(np.searchsorted(events.times, self._watermark))
        if place or len(self._late):
            name = "reason" if "reason" not in events.table.column_names else "reason_"
            reason = f"it came when the watermark had passed {self._shown(self._watermark)}"
            late = events.table.slice(0, place)
            self._late = late.append_column(name, pa.array([reason] * place, pa.string()))
        self._counts["late"] += place
        return events.slice(place, len(events)) if place else events

    def _pass(self, watermark: int) -> FinalRows:
        """Time has come to here: what is before is in order, and decided."""
        batch = self._waiting.take(watermark)
        if batch is None and watermark == self._watermark:
            return self._found({})
        with self._breaking():
            found = self._standing.step(batch, watermark)
        self._watermark = watermark
        return self._found(found)

    @contextmanager
    def _breaking(self) -> Iterator[None]:
        """Whoever fails while states change leaves them half changed."""
        try:
            yield
        except BaseException as error:
            self._ended = (
                f"it was stopped by an error: {str(error).partition(chr(10))[0]}\n  hint: go on from what Stream.save gave before"
            )
            raise

    def _check_open(self) -> None:
        if self._ended is not None:
            raise PlanError(f"this stream takes nothing any more: {self._ended}")

    def _found(self, tables: Mapping[str, pa.Table]) -> FinalRows:
        for name, cube in self._cubes.items():
            cube.take(tables.get(name), self._standing.moments(name, cube.last))
        return FinalRows(tables, self._standing.empty)

    # ------------------------------------------------------------ times as people write them

    def _tick(self, time: Any) -> int:
        schema = self._intake.schema
        if schema is None:
            raise DataError("advance: the stream has not begun, so nobody knows what its times are\n  hint: push events first")
        has_moments = schema[TIME] == "time"
        try:
            column = pa.array([time])
            is_time = (is_text(column.type) or is_moment(column.type)) if has_moments else pa.types.is_int64(column.type)
            clock = read_times(column) if is_time else None
        except MISFITS:
            clock = None
        if clock is None or clock.faults or is_moment(clock.column.type) != has_moments:
            wanted = "a datetime or an ISO 8601 text" if has_moments else f"a whole number of {schema.unit}"
            raise DataError(f"advance: {time!r} is no time of this stream\n  hint: its times are written as {wanted}")
        return int(clock.times[0])

    def _shown(self, tick: int | None) -> Any:
        """A tick as a value of the time column; None where there is none."""
        schema = self._intake.schema
        if tick is None or schema is None or not LOWEST < tick < HIGHEST:
            return None
        return write_times(np.array([tick]), value_type(schema.columns.field(schema.time_column).type))[0].as_py()

    @staticmethod
    def _bound(query: str | Query, params: Params | None) -> Query:
        refuse_unknown([query], params or {})
        return bind(query, None, params=params)

    def _whole_from(self, name: str) -> Any:
        reporting, newcomer = self._standing.at_work(name)
        standing = newcomer or reporting
        if standing is None or standing.is_whole_at(self._watermark):
            return None
        return self._shown(standing.since)


def _length(name: str, value: Any) -> Window:
    try:
        window = read_length(value)
    except ValueError as error:
        raise PlanError(f"{name}: {error}\n  hint: write '5 s', '1h30m', or a number in the unit of the time column") from None
    if window.length < 0:
        raise PlanError(f"{name}: {value!r} is negative\n  hint: 0 where events come in order")
    return window


def _name(name: Any) -> str:
    if not isinstance(name, str) or not name:
        raise PlanError(f"a query is called by a text, not by {name!r}\n  hint: {{'fraud': 'SEQ(...) WITHIN 1 h'}}")
    return name


async def _items(source: asyncio.Queue[Any] | AsyncIterable[Any]) -> AsyncIterator[Any]:
    if not isinstance(source, asyncio.Queue):
        async for batch in source:
            yield batch
        return
    ends: tuple[type[Exception], ...] = (asyncio.QueueShutDown,) if hasattr(asyncio, "QueueShutDown") else ()
    while True:
        try:
            batch = await source.get()
        except ends:
            return
        if batch is None:
            return
        yield batch
