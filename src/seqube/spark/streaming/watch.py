"""One bucket of one query of a stream, without Spark: rows come with a watermark, and all that ends up to it is decided.

An event waits until the watermark has passed it; then all events up to there are put in order and handed to the engine at once, so
that results are those of the ordered stream and final when they come. A row that comes after the watermark has passed it is late:
it goes to the late output and changes nothing.

State is Arrow bytes. Rows are written once, as they come, into *chunks*; small neighbours are merged, and a chunk is forgotten when
the window has left all of it behind. Counters may stand for chunks: the operator's own state is written where it is smaller than
the chunks that it covers, and those go. So it is where it outlives the events: the numbers of windows of so many EVENTS, buckets of
EMIT PER, what SKIP has taken. Chunks tell the rest:

    operator's state    covers  chunks   [......]  [...]  [..]  <- new rows        decided            watermark
    ==========================>|           A        B                            ----|----------- C ------|------>

What is made of that is kept by the worker, between calls, and is made again where it is missing:

- Where the operator goes on in place, its live state. A worker that was passed over for some calls has one that is behind: it
  takes the rows of those calls first, and drops what they find, which is out already. Whether a state is one that this bucket was
  once in, the *marks* tell: hashes of everything that led to a state, of which a bucket remembers the last ones.
- Where it does not, the chunks that were read. Only keys that can have something new are looked at: those with an event now that
  can end a match, or whose first event's window is over now.

Cost of a call: its new rows and the rows that are due, once for every worker that takes its turn; where an operator does not go on,
also the events in the window of keys with something new. The operator's state is written when there is twice as much new as it
took the last time, which is a part of the cost of those rows.
Invariant: what comes out depends on the events and the watermarks alone, not on how they were cut into calls.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from seqube.engine.instances import minus, plus
from seqube.engine.operator import Operator, State
from seqube.engine.predicates import Ints
from seqube.engine.sequence import LOWEST
from seqube.engine.snapshots import adapted
from seqube.events import Events
from seqube.events.schema import ANY, Schema
from seqube.events.sources import one_chunk
from seqube.plan.needs import Needs, needs_of
from seqube.spark.ingest import EPOCH, IDENTITY, INPUT_ORDER, KEY
from seqube.spark.rows import ShippedQuery
from seqube.spark.streaming.at_hand import AT_HAND, AtHand, BucketPlace, ChunkRows, Live
from seqube.spark.streaming.held import Chunk, Held
from seqube.spark.transport.blobs import read_blobs, write_blob
from seqube.spark.transport.columns import Columns, needed_schema, number_identities

STATE_BUCKETS = 16  # per query with a key, unless a checkpoint says otherwise: a running query keeps the number it began with
FIRST_TAKER = "#first"  # 1 where this query is the first of those a row goes to
CHUNK_ROWS = 32_768  # small chunks are merged up to this size
MOST_ROWS = 1 << 20  # of a chunk, however many come at once
SPARE_BYTES = 1 << 14  # of chunks that the operator's state could stand for, before it is worth while to write it


@dataclass(frozen=True, slots=True)
class Outcome:
    held: Held | None  # None: nothing is left to remember
    matches: pa.Table | None
    late: pa.Table | None
    wake: int | None  # the tick that, once the watermark has reached it, there is something to do
    switches: int = 0  # of plans, that the events made worth while
    plan: str | None = None  # the one that is gone on by, where there were any


@dataclass(frozen=True)
class Watch:
    """One query of a stream as workers need it."""

    name: str
    wanted: ShippedQuery
    arriving: Columns  # what comes in, whole rows where late ones are wanted
    keeping: Columns  # what the query looks at
    generation: int = 0  # counts how often the checkpoint has met a query of this name that is new to it
    n_buckets: int = STATE_BUCKETS
    keeps_live: bool = True  # where its operator can go on; else it looks at the keys that have something new

    called = "query"  # where a limit stops it

    @property
    def schemas(self) -> dict[str, pa.Schema]:
        """The columns of its rows, by query."""
        return {self.name: self.wanted.schema}

    def by_query(self, found: pa.Table) -> Iterator[tuple[str, pa.Table]]:
        """Rows that came out, by query."""
        yield self.name, found

    @property
    def fingerprint(self) -> str:
        """What state is marked with: that of another query, or of a time when this one was not always there, is not continued."""
        return f"{self.asks}.{self.generation}" if self.generation else self.asks

    @cached_property
    def asks(self) -> str:
        """Changes when the query does."""
        return asked_of(self.wanted, self.keeping.schema.unit)

    @property
    def working(self) -> str:
        """How its operator works: a live state of another one is not gone on with, and is made anew."""
        return self.fingerprint

    @property
    def at_hand(self) -> AtHand:
        return AT_HAND

    @property
    def own_columns(self) -> tuple[str, ...]:
        """Columns of chunks that are no part of the events."""
        return (KEY,)

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of a chunk."""
        return pa.schema([field for field in self.keeping.arrow if field.name != INPUT_ORDER])

    def take(
        self, held: Held | None, blobs: Iterable[bytes], watermark: int, store: MutableMapping[int, bytes], bucket: int = 0
    ) -> Outcome:
        """Take new rows of a bucket, and decide all that ends up to the watermark. `store` holds the chunks' bytes by number."""
        held, place = held or Held(), (self.fingerprint, bucket)
        if self.goes_on and self._replays_keys and held.engine is None and not AT_HAND.has_room(place, held.n_rows):
            # To make it anew at every call would cost the whole window; to look at some keys of it costs no more than that.
            return self._replaying.take(held, blobs, watermark, store, bucket)
        arrived, late = self._arrived(blobs, watermark)
        upto, live = max(watermark, held.decided), self._live(held, store, place) if self.goes_on else None
        budget = self.wanted.limits.budget(self.called)
        if live is None:
            held, matches = self._decide(held, upto, store)
        else:
            held, live, matches = self._go_on(live, held, upto, store)
        held = self._forget(held, store)
        if live is not None:
            held = self._cover(held, live, store)
        if arrived is not None and arrived.num_rows:
            held = self._append(held, arrived, store)
        budget.check()
        budget.find(0 if matches is None else matches.num_rows)
        budget.need(held.n_bytes)
        wake = self._wake(held, store)
        remembers = held.chunks or held.engine is not None or held.last > LOWEST
        if live is not None and remembers:
            held = held.marked()
            AT_HAND.put_live(place, replace(live, mark=held.marks[-1]))
        # What is decided is in the live state, if there is one.
        wanted = (chunk for chunk in held.chunks if live is None or chunk.newest > held.decided)
        AT_HAND.keep(place, frozenset(chunk.digest for chunk in wanted))
        switched = () if live is None else (live.switches, live.plan)
        return Outcome(held if remembers else None, matches, late, wake, *switched)

    def _arrived(self, blobs: Iterable[bytes], watermark: int) -> tuple[pa.Table | None, pa.Table | None]:
        """New rows that are in time, in the order of arrival, and those that are late."""
        table = read_blobs(blobs)
        if table is None:
            return None, None
        table = adapt(table, self.arriving.arrow)
        if INPUT_ORDER in table.column_names:
            table = table.take(pa.array(np.argsort(table.column(INPUT_ORDER).to_numpy(), kind="stable")))
        late = self.arriving.times(table) <= watermark
        if not late.any():
            return self._kept(table), None
        return self._kept(table.filter(pa.array(~late))), self._reported(table.filter(pa.array(late)))

    def _kept(self, table: pa.Table) -> pa.Table:
        """What is remembered of rows that came."""
        return table.select(self.schema.names)

    def _reported(self, table: pa.Table) -> pa.Table | None:
        """Late rows that this query is the first to look at, so that each is reported once."""
        table = table.filter(pa.array(table.column(FIRST_TAKER).to_numpy() == 1)) if FIRST_TAKER in table.column_names else table
        return table.select([name for name in table.column_names if not name.startswith("#")]) if table.num_rows else None

    def settle(self, held: Held, pieces: Iterable[pa.Table], store: MutableMapping[int, bytes]) -> Outcome:
        """Remember rows of chunks that were another bucket's, in the order in which they came there."""
        for table in pieces:
            held = self._append(held, one_chunk(adapt(table, self.schema)), store)
        return Outcome(held, None, None, self._wake(held, store))

    # ------------------------------------------------------------ deciding

    @cached_property
    def needs(self) -> Needs:
        return needs_of(self.wanted.plan, self.keeping.schema.unit)

    def _decide(self, held: Held, upto: int, store: MutableMapping[int, bytes]) -> tuple[Held, pa.Table | None]:
        due = self._between(held, held.decided, upto, store)
        held, before = replace(held, decided=upto), held
        if self.needs.period is None:
            picked = self._touched(before, due, upto, store)
        else:
            times = np.concatenate([rows.times[numbers] for rows, numbers in due]) if due else np.empty(0, np.int64)
            if len(times):
                first = int(times.min()) - 1 if before.reported == LOWEST else before.reported
                held = replace(held, last=max(before.last, int(times.max())), reported=first)
            ended = -(-held.last // self.needs.period) * self.needs.period
            due_now = held.last > LOWEST and min(ended, upto) // self.needs.period * self.needs.period > held.reported
            picked = self._between(held, LOWEST, upto, store) if due_now else None
        if picked is None:
            return held, None
        return self._evaluate(held, before.decided, self._events(picked))

    # ------------------------------------------------------------ going on

    @property
    def operator(self) -> Operator[Any, pa.Table]:
        return AT_HAND.operator(self.working, self.schema, self.wanted)

    @cached_property
    def goes_on(self) -> bool:
        """Whether the live state is kept: it goes on in place, or remembers what the events in the window do not tell."""
        return self.keeps_live and (self.needs.outlives_events or self.operator.goes_on(self._events([])))

    @property
    def _replays_keys(self) -> bool:
        """Whether what a micro-batch changes can be found out of the events of some keys, too."""
        return self.wanted.replays_keys and KEY in self.schema.names and not self.needs.outlives_events

    @cached_property
    def _replaying(self) -> Watch:
        return replace(self, keeps_live=False)

    def _live(self, held: Held, store: MutableMapping[int, bytes], place: BucketPlace) -> Live:
        """The operator's state after the last call: as it was left here and taken further, or made of what is held."""
        live = AT_HAND.take_live(place, held, self.schema, self.working)
        if live is None and held.engine is None and not self.needs.outlives_events:
            events = self._events(self._between(held, LOWEST, held.decided, store))
            return Live(self._resumed(held, events), self.schema, self.working)
        if live is None:
            engine = None if held.engine is None else adapted(held.engine, self._as_events)
            live = Live(self.operator.start() if engine is None else self.operator.restore(engine), self.schema, self.working)
        if live.state.decided == held.decided:
            return live
        events = self._events(self._between(held, max(live.state.decided, held.covered), held.decided, store))
        # What is found was out before, and had its limits then.
        unlimited = AT_HAND.operator(self.working, self.schema, self.wanted.unlimited)
        return replace(live, state=unlimited.step(live.state, events, held.decided + 1)[0])

    def _resumed(self, held: Held, events: Events) -> State:
        """The operator's state, made of the events that are held."""
        reported = held.decided if self.needs.period is None else held.reported
        state: State = self.operator.resume(events, held.decided, reported, held.last)
        return state

    def _go_on(self, live: Live, held: Held, upto: int, store: MutableMapping[int, bytes]) -> tuple[Held, Live, pa.Table | None]:
        events = self._events(self._between(held, held.decided, upto, store))
        state, found = self.operator.step(live.state, events, upto + 1)
        held = replace(held, decided=upto)
        if self.needs.period is not None:
            last = int(events.times[-1]) if len(events) else LOWEST
            held = replace(held, reported=state.reported, last=max(held.last, last))
        if self.needs.outlives_events:
            held = self._outlived(held, state, events)
        rows = None if found is None or not found.num_rows else self.wanted.rows(found)
        return held, replace(live, state=state), rows

    def _outlived(self, held: Held, state: State, events: Events) -> Held:
        """When a state that outlives its events has something to say, and whether it is still of use to anyone."""
        wake = self.operator.wake(state)
        if self.needs.by_position or self.needs.period is not None:
            return replace(held, wake=wake)
        last = max(held.last, int(events.times[-1]) if len(events) else LOWEST)
        over = int(plus(np.array([last]), self.needs.back)[0])
        if wake is None and over <= held.decided:  # all is said, and no event is left in the window
            return replace(held, engine=None, engine_rows=0, covered=held.decided, last=LOWEST, wake=None)
        return replace(held, last=last, wake=over + 1 if wake is None else wake)

    def _cover(self, held: Held, live: Live, store: MutableMapping[int, bytes]) -> Held:
        """Let the operator's state stand for the chunks that are decided, where it is the smaller."""
        if not (self.needs.outlives_events or self.wanted.has_counters):
            return held
        spare = sum(chunk.n_bytes for chunk in held.chunks if chunk.newest <= held.decided)
        if spare <= max(SPARE_BYTES, 2 * held.weight):
            return held
        data = live.state.to_bytes()
        held = replace(held, weight=len(data))
        if len(data) > spare and not self.needs.outlives_events:
            return held
        return self._forget(replace(held, engine=data, engine_rows=live.state.n_kept, covered=held.decided), store)

    # ------------------------------------------------------------ replaying

    def _between(self, held: Held, after: int, upto: int, store: MutableMapping[int, bytes]) -> list[tuple[ChunkRows, Ints]]:
        """The events in (after, upto]."""
        return [
            (rows, np.flatnonzero((rows.times > after) & (rows.times <= upto)))
            for rows in self._read(held, store, newer_than=after, upto=upto)
        ]

    def _evaluate(self, held: Held, decided: int, events: Events) -> tuple[Held, pa.Table | None]:
        operator = self.operator
        reported = decided if self.needs.period is None else held.reported
        state = operator.resume(events, decided, reported, held.last)
        state, found = operator.step(state, None, held.decided + 1)
        held = held if self.needs.period is None else replace(held, reported=state.reported)
        return held, None if found is None else self.wanted.rows(found)

    def _touched(
        self, held: Held, due: list[tuple[ChunkRows, Ints]], upto: int, store: MutableMapping[int, bytes]
    ) -> list[tuple[ChunkRows, Ints]] | None:
        """The events of all keys that can have something new; None where there is none."""
        if self.needs.ahead:
            low, high = (int(minus(np.array([tick]), self.needs.window - 1)[0]) for tick in (held.decided, upto))
            starting = self._between(held, low, high, store)
        else:
            types = pa.array(sorted(self.needs.ends), pa.string())
            starting = due if ANY in self.needs.ends else []
            for rows, numbers in due if ANY not in self.needs.ends else ():
                names = rows.table.column(self.keeping.schema.type_column).take(pa.array(numbers)).cast(pa.string())
                starting.append((rows, numbers[pc.is_in(names, types).to_numpy().astype(np.bool_)]))
        starting = [(rows, numbers) for rows, numbers in starting if len(numbers)]
        if not starting:
            return None
        kept = self._read(held, store, newer_than=LOWEST, upto=upto)
        if any(rows.keys is None for rows in kept):
            return self._between(held, LOWEST, upto, store)
        keys = np.unique(np.concatenate([rows.keys[numbers] for rows, numbers in starting if rows.keys is not None]))
        picked = []
        for rows in kept:
            numbers = rows.of_keys(keys)
            picked.append((rows, numbers[rows.times[numbers] <= upto]))
        return picked

    def _events(self, picked: Sequence[tuple[ChunkRows, Ints]]) -> Events:
        tables = [adapt(rows.table.take(pa.array(numbers)), self.schema) for rows, numbers in picked if len(numbers)]
        events = self._as_events(pa.concat_tables(tables) if tables else self.schema.empty_table())
        return number_identities(events) if IDENTITY in self.keeping.hidden else events

    def _as_events(self, table: pa.Table) -> Events:
        schema = self.keeping.schema
        table = adapt(table, self.schema).select([name for name in self.schema.names if name not in self.own_columns])
        return Events(table, type=schema.type_column, time=schema.time_column, unit=schema.unit, threads=1)

    # ------------------------------------------------------------ chunks

    def _read(self, held: Held, store: MutableMapping[int, bytes], newer_than: int, upto: int) -> list[ChunkRows]:
        return [self._rows(chunk, store) for chunk in held.chunks if chunk.newest > newer_than and chunk.oldest <= upto]

    def _rows(self, chunk: Chunk, store: MutableMapping[int, bytes]) -> ChunkRows:
        rows = AT_HAND.get(chunk.digest)
        if rows is None or (rows.keys is None and self._looks_for_keys):
            table = read_blobs([store[chunk.number]])
            assert table is not None
            rows = self._decoded(table)
            AT_HAND.put(chunk.digest, rows)
        return rows

    @property
    def _looks_for_keys(self) -> bool:
        return KEY in self.schema.names and not self.goes_on

    def _decoded(self, table: pa.Table) -> ChunkRows:
        keys = table.column(KEY).to_numpy() if self._looks_for_keys and KEY in table.column_names else None
        if keys is not None and np.any(keys[1:] < keys[:-1]):  # written when nobody looked for keys
            table = _by_key(table)
            keys = table.column(KEY).to_numpy()
        return ChunkRows(table, self.keeping.times(table), keys)

    def _forget(self, held: Held, store: MutableMapping[int, bytes]) -> Held:
        """Drop the chunks, and the operator's state, that nothing to come depends on; and the chunks that it stands for."""
        floor = self._floor(held)
        if held.engine is not None and held.covered <= floor:
            held = replace(held, engine=None, engine_rows=0, covered=LOWEST)
        floor = max(floor, held.covered)
        for chunk in held.chunks:
            if chunk.newest <= floor:
                del store[chunk.number]
        return replace(held, chunks=tuple(chunk for chunk in held.chunks if chunk.newest > floor))

    def _floor(self, held: Held) -> int:
        """No event up to here matters any more."""
        if self.needs.outlives_events:
            return LOWEST  # which those are, the operator knows
        upto = held.decided
        if self.needs.period is not None and held.reported > LOWEST:
            upto = min(upto, (held.reported // self.needs.period + 1) * self.needs.period - 1)
        return int(minus(np.array([upto]), self.needs.back)[0])

    def _append(self, held: Held, table: pa.Table, store: MutableMapping[int, bytes]) -> Held:
        """Write rows as a chunk, together with small ones before it."""
        chunks = list(held.chunks)
        while chunks and chunks[-1].n_rows < 2 * table.num_rows and chunks[-1].n_rows + table.num_rows <= CHUNK_ROWS:
            last = chunks.pop()
            table = pa.concat_tables([adapt(self._rows(last, store).table, self.schema), table])
            del store[last.number]
        table = one_chunk(table)
        if self._looks_for_keys:
            table = _by_key(table)
        for start in range(0, table.num_rows, MOST_ROWS):
            piece = self._coded(table.slice(start, MOST_ROWS))
            blob = write_blob(piece)
            rows = self._decoded(piece)
            digest = hashlib.blake2b(blob, digest_size=16).hexdigest()
            store[held.next] = blob
            AT_HAND.put(digest, rows)
            first = int(pc.min(piece.column(EPOCH)).as_py()) if EPOCH in piece.column_names else 0
            times = int(rows.times.min()), int(rows.times.max())
            chunks.append(Chunk(held.next, digest, piece.num_rows, len(blob), *times, first))
            held = replace(held, next=held.next + 1)
        return replace(held, chunks=tuple(chunks))

    def _coded(self, table: pa.Table) -> pa.Table:
        """The same rows with a code of one byte for their type, where there are few types."""
        place = table.schema.get_field_index(self.keeping.schema.type_column)
        codes = table.column(place).chunk(0)
        if not pa.types.is_string(codes.type):
            return table
        codes = codes.dictionary_encode()
        if len(codes.dictionary) > 127:
            return table
        narrow = pa.DictionaryArray.from_arrays(codes.indices.cast(pa.int8()), codes.dictionary)
        return table.set_column(place, table.schema.names[place], narrow)

    @property
    def _has_periods(self) -> bool:
        """Whether what the window has left behind can matter to a row that is due by the clock."""
        return self.needs.period is not None

    def _wake(self, held: Held, store: MutableMapping[int, bytes]) -> int | None:
        """When a waiting event is due, a match or a report that waits is final, and when all chunks can go."""
        wakes = [self._next(held, store, held.decided), None if held.wake is None else held.wake - 1]
        if not self.needs.outlives_events and (held.chunks or held.engine is not None):
            if not self._has_periods:
                newest = max([held.covered, *(chunk.newest for chunk in held.chunks)])
                wakes.append(int(plus(np.array([newest]), self.needs.back)[0]))
            if self.needs.ahead:
                oldest = self._next(held, store, int(minus(np.array([held.decided]), self.needs.window - 1)[0]))
                wakes.append(None if oldest is None else int(plus(np.array([oldest]), self.needs.window - 1)[0]))
        if self.needs.period is not None and -(-held.last // self.needs.period) * self.needs.period > held.reported > LOWEST:
            wakes.append((held.reported // self.needs.period + 1) * self.needs.period)
        return min((wake for wake in wakes if wake is not None), default=None)

    def _next(self, held: Held, store: MutableMapping[int, bytes], after: int) -> int | None:
        """The time of the first event after this one."""
        found = [chunk.oldest for chunk in held.chunks if chunk.oldest > after]
        for chunk in held.chunks:
            if chunk.oldest <= after < chunk.newest and not any(time <= after + 1 for time in found):
                times = self._rows(chunk, store).times
                found.append(int(times[times > after].min()))
        return min(found, default=None)


def _by_key(table: pa.Table) -> pa.Table:
    return table.take(pa.array(np.argsort(table.column(KEY).to_numpy(), kind="stable")))


def watch_query(name: str, own: ShippedQuery, schema: Schema, generation: int = 0) -> Watch:
    """The watch of a query by itself."""
    columns = Columns(needed_schema([own.plan], schema), own_columns(needs_of(own.plan, schema.unit), own.with_ids))
    return Watch(name, own, columns, columns, generation)


def own_columns(needs: Needs, with_ids: bool) -> tuple[str, ...]:
    """What of our own travels beside the columns of events: the order they came in where it matters, hashes of key and row."""
    by_arrival = needs.by_position or needs.by_order
    keyed = bool(needs.key) and not needs.by_position
    wanted = {INPUT_ORDER: by_arrival, KEY: keyed, IDENTITY: with_ids}
    return tuple(name for name, is_wanted in wanted.items() if is_wanted)


def adapt(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows remembered under an older schema, or coded, in today's: a new column is null, one that is gone is left out."""
    if table.schema.equals(schema):
        return table
    columns = []
    for field in schema:
        if field.name not in table.column_names:
            columns.append(pa.nulls(table.num_rows, field.type))
            continue
        column = table.column(field.name)
        columns.append(column if column.type == field.type else column.cast(field.type))
    return pa.Table.from_arrays(columns, schema=schema)


def asked_of(wanted: ShippedQuery, unit: str) -> str:
    """What changes when a query does, or what is made of its rows."""
    return hashlib.sha256(repr(plain_plan((wanted.plan, wanted.with_ids, unit))).encode()).hexdigest()


def plain_plan(part: Any) -> Any:
    """A plan as nested lists that print the same in every process."""
    if is_dataclass(part):
        return [type(part).__name__, *(plain_plan(getattr(part, field.name)) for field in fields(part) if field.compare)]
    if isinstance(part, (tuple, list)):
        return [plain_plan(item) for item in part]
    return sorted(part) if isinstance(part, frozenset) else part
