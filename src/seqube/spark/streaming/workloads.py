"""A workload that is edited while its stream runs, and the log by which all tasks of a micro-batch see the same queries.

The driver writes an entry of the log for every change: the queries, each with its text, the number of the entry that brought it,
its *generation*, and whether it goes together with others of its key (`together`), as it then does for as long as it is there. A
Python worker knows the number of its micro-batch. The first task of a micro-batch notes which entry was the last one then, in a
file that is there whole or not at all and that nobody replaces; every other task, and every repetition of that micro-batch after a
crash, reads the note.

    entry-00000000.json    {"pairs": ["SEQ(...) ...", 0, true]}
    entry-00000001.json    {"pairs": ["SEQ(...) ...", 0, true], "more": ["SEQ(...) ...", 1, true]}
    batch-00000007         0
    batch-00000008         1          the change is seen from here on

State is marked with a query's text and generation, or its rows with an epoch: what a query left behind that was replaced, or went
and came back, is not continued. A query that is new begins with the micro-batch that sees it first.

Since queries come and go, there are no columns for each: all columns of the source travel, what a query wants is chosen in the
worker by the types of events alone, and rows come out as JSON.

Cost: two small files for a change, one for a micro-batch; in a worker, plans are made once for each entry.
Invariant: all tasks of a micro-batch, whenever and how often it runs, work on one entry.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from threading import Lock

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from seqube.arguments import checked
from seqube.engine.jsonable import plain
from seqube.engine.limits import Limits
from seqube.engine.predicates import Ints
from seqube.errors import DataError, PlanError, did_you_mean
from seqube.events import Hierarchy
from seqube.events.schema import TIME, Schema
from seqube.language import Query, check, parse
from seqube.language.tree import Attribute, Output
from seqube.plan.needs import Plan
from seqube.plan.optimizer import plan_query
from seqube.plan.physical import MatchPlan
from seqube.spark.planning import plan_stream
from seqube.spark.rows import MATCH_ID, refuse_in_streams, ship_query
from seqube.spark.streaming.placing import refuse_totals
from seqube.spark.streaming.together import SharedWorkload, company_of, may_go_together, no_events
from seqube.spark.streaming.watch import Watch, watch_query
from seqube.spark.transport.columns import mix

NOTES_KEPT = 200  # micro-batches whose notes are kept: Spark repeats the last one, and remembers a hundred
BOUND_AT = "#at."  # columns with the times of the events of a match, which RETURN may not name

Entry = dict[str, tuple[str, int, bool]]  # text and generation of each query, and whether it goes together with others


class WorkloadLog:
    """The entries of a folder, and which of them a micro-batch works on."""

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder)

    def append(self, entry: Entry) -> int:
        """Write another entry; its number."""
        self._folder.mkdir(parents=True, exist_ok=True)
        number = 0 if (last := self.last()) is None else last + 1
        if not self._put(f"entry-{number:08d}.json", json.dumps(entry)):
            raise DataError(
                f"the workload log {self._folder} is written by somebody else\n  hint: give this workload one of its own"
            )
        return number

    def last(self) -> int | None:
        """The number of the last entry."""
        return max((int(path.name[6:14]) for path in self._folder.glob("entry-*.json")), default=None)

    def read(self, number: int) -> Entry:
        text = (self._folder / f"entry-{number:08d}.json").read_text(encoding="utf-8")
        # Before queries went together, nothing was said of it.
        return {name: (query, generation, any(rest)) for name, (query, generation, *rest) in json.loads(text).items()}

    def of_batch(self, batch: int) -> int:
        """The entry that a micro-batch works on: noted when it is first asked for, and the same ever after."""
        note = self._folder / f"batch-{batch:08d}"
        if not note.exists():
            last = self.last()
            if last is None:
                raise DataError(
                    f"the workload log {self._folder} is gone\n  hint: it belongs to the stream, as its checkpoint does"
                )
            if self._put(note.name, str(last)):
                (self._folder / f"batch-{batch - NOTES_KEPT:08d}").unlink(missing_ok=True)
        return int(note.read_text(encoding="utf-8"))

    def _put(self, name: str, content: str) -> bool:
        """Write a file, whole, unless it is there; whether it was written."""
        handle, draft = tempfile.mkstemp(prefix=".", dir=self._folder)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(content)
        try:
            os.link(draft, self._folder / name)
        except FileExistsError:
            return False
        finally:
            Path(draft).unlink()
        return True


class Workload:
    """Queries by name that may be added, replaced and removed while `sqs.run` answers them on a stream.

    - `queries`: a mapping from names to texts or parsed queries.
    - `log`: the folder of the workload log, which the driver and all workers see and which stays with the stream's checkpoint, so
      that a stream that is started again goes on with the same queries and states. A new folder of this machine, unless given.

    A change is seen from the next micro-batch on, by all tasks at once. A query that is new, or replaces another, begins with the
    events of that micro-batch; the others go on. There is one DataFrame for all: `query`, `match_id`, `start`, `end` and, as JSON,
    `row`.

    >>> work = sqs.Workload({"pairs": "SEQ(A a, B b, [id]) WITHIN 5 min"})
    >>> work.add("near", "SEQ(A a, B b, [id]) WITHIN 1 min")
    >>> work.remove("pairs")
    >>> list(work.queries)
    ['near']
    """

    @checked
    def __init__(self, queries: Mapping[str, str | Query], log: str | Path | None = None) -> None:
        self._lock = Lock()
        self._streams: list[tuple[Schema, Hierarchy | None, str]] = []
        self.folder = str(Path(tempfile.mkdtemp(prefix="seqube-workload-") if log is None else log).resolve())
        self._log = WorkloadLog(self.folder)
        last = self._log.last()
        before = {} if last is None else self._log.read(last)
        texts = {str(name): str(_parsed(query)) for name, query in queries.items()}
        number = 0 if last is None else last + 1
        self._entry: Entry = {
            name: before[name] if name in before and before[name][0] == text else (text, number, _has_company(name, texts))
            for name, text in texts.items()
        }
        if last is None or self._entry != before:
            self._log.append(self._entry)

    @property
    def queries(self) -> dict[str, Query]:
        """The queries by name."""
        with self._lock:
            return {name: parse(text) for name, (text, *_) in self._entry.items()}

    @checked
    def add(self, name: str, query: str | Query) -> None:
        """Add a query, from the next micro-batch on.

        - `name`, `query`: another name, and a text or a parsed query.
        """
        with self._lock:
            if name in self._entry:
                raise PlanError(f"there is a query {name!r} already\n  hint: replace it, remove it first, or take another name")
            self._put(name, query)

    @checked
    def replace(self, name: str, query: str | Query) -> None:
        """Let another query answer under this name, from the next micro-batch on.

        - `name`, `query`: the name, and the new text or parsed query.
        """
        with self._lock:
            self._demand(name)
            self._put(name, query)

    @checked
    def remove(self, name: str) -> None:
        """Remove a query, from the next micro-batch on.

        - `name`: that of the query.
        """
        with self._lock:
            self._demand(name)
            self._change({other: asked for other, asked in self._entry.items() if other != name})

    def watched_over(self, schema: Schema, hierarchy: Hierarchy | None, strategy: str) -> None:
        """Check the queries, and all that come later, against the columns of a source and what is asked of it."""
        with self._lock:
            for text, *_ in self._entry.values():
                _check_streams(parse(text), schema)
            plan_stream({name: parse(text) for name, (text, *_) in self._entry.items()}, hierarchy, strategy)
            self._streams.append((schema, hierarchy, strategy))

    def _put(self, name: str, query: str | Query) -> None:
        parsed = _parsed(query)
        texts = {other: text for other, (text, *_) in self._entry.items()} | {name: str(parsed)}
        for schema, hierarchy, strategy in self._streams:
            _check_streams(parsed, schema)
            plan_stream({name: parse(text) for name, text in texts.items()}, hierarchy, strategy)
        number = (self._log.last() or 0) + 1
        self._change({**self._entry, name: (texts[name], number, _has_company(name, texts))})

    def _change(self, entry: Entry) -> None:
        self._log.append(entry)
        self._entry = entry

    def _demand(self, name: str) -> None:
        if name not in self._entry:
            raise PlanError(f"there is no query {name!r}\n  hint: {did_you_mean(name, self._entry) or 'the workload has none'}")


def _parsed(query: str | Query) -> Query:
    return parse(query) if isinstance(query, str) else query


def _has_company(name: str, texts: Mapping[str, str]) -> bool:
    """Whether a new query goes together with others: as `going_together` has it, as far as that is known without any columns."""
    found = {other: company_of(plan_query(parse(text)), "ms") for other, text in texts.items()}
    return not parse(texts[name]).aggregates or list(found.values()).count(found[name]) > 1


def _check_streams(query: Query, schema: Schema) -> None:
    """Refuse what a stream on Spark over these columns cannot answer."""
    check(query, schema)
    plan = plan_query(query)
    refuse_totals(plan)
    refuse_in_streams(plan)
    ship_query(plan, schema)


# ---------------------------------------------------------------- what a worker does


@dataclass(frozen=True)
class ChangingWatches:
    """The watches of the micro-batch that a worker is at, as the log has them."""

    folder: str
    schema: Schema
    hierarchy: Hierarchy | None
    limits: Limits
    strategy: str = "auto"

    def now(self) -> Mapping[str, Watch]:
        return _watches(self, WorkloadLog(self.folder).of_batch(_micro_batch()))

    def place(self, table: pa.Table, watch: Watch) -> pa.Array:
        """A number for the key of every row, null where this query does not look at it."""
        needs = watch.needs
        keys, wanted = np.zeros(len(table), np.int64), np.ones(len(table), np.bool_)
        if needs.sent_types is not None:
            names = table.column(self.schema.type_column).cast(pa.string()).combine_chunks()
            wanted &= np.asarray(pc.is_in(names, pa.array(sorted(needs.sent_types), pa.string())))
        for name in needs.key:
            column = table.column(self.schema.column_of(name)).combine_chunks()
            wanted &= np.asarray(column.is_valid())
            keys = mix(keys, _hashes(column))
        return pa.array(keys, mask=~wanted)


@lru_cache(maxsize=8)
def _watches(changing: ChangingWatches, number: int) -> dict[str, Watch]:
    """The watches of an entry: for each key one of the queries that go together, and one for every other query."""
    entry, schema = WorkloadLog(changing.folder).read(number), changing.schema
    queries = {name: parse(text) for name, (text, *_) in entry.items()}
    plans = {
        name: replace(plan, returns=(*plan.returns, *_times(plan))) if isinstance(plan, MatchPlan) and plan.returns else plan
        for name, plan in plan_stream(queries, changing.hierarchy, changing.strategy, refuses=False).items()
    }
    shipped = {name: ship_query(plan, schema, True, changing.limits) for name, plan in plans.items()}
    nothing = no_events(schema)
    since = {
        name: generation
        for name, (_, generation, together) in entry.items()
        if together and may_go_together(shipped[name], nothing)
    }
    asked = {
        name: replace(query, returns=(*query.returns, *_times(plans[name]))) if query.returns else query
        for name, query in queries.items()
    }
    workload = SharedWorkload(asked, changing.hierarchy, changing.strategy)
    alone = {name: watch_query(name, own, schema, entry[name][1]) for name, own in shipped.items() if name not in since}
    return {**workload.watches(shipped, schema, changing.limits, since), **alone}


def _times(plan: Plan) -> tuple[Output, ...]:
    """The times of all events of a match, which are told where it returns something else."""
    return tuple(Output(Attribute(name, TIME), f"{BOUND_AT}{name}") for name in plan.matches.variables)


def _micro_batch() -> int:
    from pyspark import TaskContext

    context = TaskContext.get()
    number = None if context is None else context.getLocalProperty("streaming.sql.batchId")
    if number is None:
        raise PlanError("a workload that changes is for streams\n  hint: give sqs.run a mapping of queries over a batch")
    return int(number)


def _hashes(column: pa.Array) -> Ints:
    """A number for every value, the same in every process."""
    coded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    values = [value + 0.0 if isinstance(value, float) else value for value in coded.dictionary.to_pylist()]
    digests = [hashlib.blake2b(repr(value).encode(), digest_size=8).digest() for value in values]
    numbers = np.array([*(int.from_bytes(digest, "big", signed=True) for digest in digests), 0], np.int64)
    found: Ints = numbers[coded.indices.fill_null(len(digests)).to_numpy()]
    return found


def row_schema(time: pa.DataType) -> pa.Schema:
    """The columns of all that comes out of a workload that changes."""
    return pa.schema(
        [("query", pa.string()), (MATCH_ID, pa.int64()), ("start", time), ("end", time), ("row", pa.string())],
    )


def as_json(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Blobs of the rows of queries -> one kind of rows for all."""
    for batch in batches:
        for name, blob in zip(batch.column(0).to_pylist(), batch.column(1), strict=True):
            yield from _told(name, pa.ipc.open_stream(blob.as_buffer()).read_all(), schema).to_batches()


def _edges(times: pa.ChunkedArray) -> list[pa.ChunkedArray | pa.Array]:
    """The times of single events, or of the first and the last event of lists; null where there is none."""
    if not pa.types.is_list(times.type):
        return [times]
    lists = times.combine_chunks()
    offsets = lists.offsets.to_numpy()
    begins, ends = offsets[:-1].astype(np.int64), offsets[1:].astype(np.int64)
    return [lists.values.take(pa.array(places, mask=begins == ends)) for places in (begins, ends - 1)]


def _told(name: str, table: pa.Table, schema: pa.Schema) -> pa.Table:
    times = [edge for column in table.column_names if column.startswith(BOUND_AT) for edge in _edges(table.column(column))]
    own = [column for column in table.column_names if column != MATCH_ID and not column.startswith(BOUND_AT)]
    none, kind = pa.nulls(len(table), schema.field("start").type), schema.field("start").type
    if times:
        start, end = pc.min_element_wise(*times), pc.max_element_wise(*times)
    elif "start" in own:
        start, end = table.column("start"), table.column("end")
    else:  # an aggregate, at a moment
        start, end = none, table.column("ts")
    ids = table.column(MATCH_ID) if MATCH_ID in table.column_names else pa.nulls(len(table), pa.int64())
    rows = pa.array([json.dumps(plain(row)) for row in table.select(own).to_pylist()], pa.string())
    columns = [pa.array([name] * len(table), pa.string()), ids, start.cast(kind), end.cast(kind), rows]
    return pa.table(columns, schema=schema)
