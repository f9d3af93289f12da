"""Events as columns: typed, coded and in time order, once, for every query that follows.

An `Events` holds an Arrow table sorted by time (ties in input order) with two NumPy columns beside it: `times` (64-bit integers)
and `types` (small codes into `type_names`). Rows that cannot be events (no type, no time, a time that is none, a broken line of a
file) are rejected: kept in `rejected`, with a reason.

Cost: one pass to code the types and one to see that times ascend; sorted Arrow input is not copied. The index behind `rows_of` is
a radix sort of the codes, made when first asked for.
Invariant: len(events) + events.rejected.count == the number of input rows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pat

from seqube.arguments import checked, for_engine
from seqube.errors import SchemaError, did_you_mean, warn
from seqube.events.files import Malformed
from seqube.events.index import Index
from seqube.events.schema import ANY, HIDDEN_COLUMNS, TIME, TYPE, Schema, schema_of
from seqube.events.sources import kind_of_table, load, one_chunk
from seqube.events.statistics import Distinct, Statistics
from seqube.events.times import Ints, Mask, doubt_unit, iso_times, read_times
from seqube.threads import FEWEST_ROWS, n_pieces, read_threads, spread

Codes = npt.NDArray[np.int32]

NO_TYPE = "no type"
ENDS = 128  # events looked at to see how close together they lie
LOWEST_TIME = -(2**63)
SORTED_TIMES = 64  # times of a piece that are looked at to cut evenly
INDEX_BYTES = 64  # for each event: a code for each of some keys, and some sequences sorted by them
SAMPLE = 65_536  # events looked at to see how many values a column has


@dataclass(frozen=True, slots=True)
class Rejected:
    """Rows that are not events. `table` holds them as they came, then `text` (of broken lines, if any), `reason` and `row`."""

    count: int
    reasons: dict[str, int]
    table: pa.Table

    def __len__(self) -> int:
        return self.count

    def __repr__(self) -> str:
        return f"Rejected({self.count}: {self.reasons})" if self.count else "Rejected(0)"


class Events:
    """Events in time order, with coded types: made once, and used by any number of queries. `len(events)` is their number.

    - `data`: a PyArrow table, batch, reader or dataset, a pandas or polars frame, what else speaks the Arrow stream interface, a
      path of CSV, JSON lines or Parquet files, or other `Events`.
    - `type`, `time`: the columns that hold the event type and the time. Where `type` is None every event is of the type ANY, and
      DEFINE gives it kinds.
    - `unit`: the unit of integer times: "ns", "us", "ms", "s", ...; timestamps have their own.
    - `order`: columns that say what is after what among equal times, for every query that has no ORDER BY of its own.
    - `threads`: how many may code and sort at once, as for `run`.

    Rows without a type or a time are rejected: `rejected` has them, with the reasons. Methods that say that they are for the engine
    (`take`, `rows_of`, ...) trust whoever calls them, and may change.

    >>> events = sq.Events(pa.table({"what": ["Wash", "Recycle", None], "at": [9, 3, 5]}), type="what", time="at", unit="s")
    >>> len(events), events.type_names, events.rejected.reasons
    (2, ('Wash', 'Recycle'), {'no type': 1})
    """

    table: pa.Table
    times: Ints
    types: Codes
    type_names: tuple[str, ...]
    schema: Schema
    native: str = "pyarrow"  # the library that the rows came in a table of
    order: tuple[str, ...] = ()  # the ORDER BY of queries that have none

    @checked
    def __init__(
        self,
        data: Any,
        type: str | None = "type",
        time: str = "ts",
        unit: str = "ms",
        order: str | Sequence[str] = (),
        threads: int | None = None,
    ) -> None:
        if isinstance(data, Events):
            self.__dict__.update(data.__dict__)
        elif type is None:
            raw, malformed = load(data, TYPE)
            self._read(with_one_type(raw), malformed, TYPE, time, unit, read_threads(threads))
        else:
            self._read(*load(data, type), type, time, unit, read_threads(threads))
        self.__dict__.setdefault("native", kind_of_table(data))
        if order:
            self.__dict__["order"] = _read_order([order] if isinstance(order, str) else order, self.schema)

    @classmethod
    @for_engine
    def of_rows(cls, raw: pa.Table, malformed: Malformed | None, type: str, time: str, unit: str) -> Events:
        """Events from rows that were loaded already, and what of them were no rows."""
        events = cls.__new__(cls)
        events._read(raw, malformed, type, time, unit)
        return events

    def _read(self, raw: pa.Table, malformed: Malformed | None, type: str, time: str, unit: str, threads: int = 1) -> None:
        schema = schema_of(raw.schema, type, time, unit)
        codes, names, untyped = _code_types(raw.column(type).chunk(0), threads)
        clock = read_times(raw.column(time).chunk(0))
        faults = ([(untyped, NO_TYPE)] if untyped is not None else []) + clock.faults
        table = raw
        if clock.column.type != raw.schema.field(time).type:
            # Texts were parsed: the column is kept as the times they stand for, so that results and arithmetic see times.
            table = raw.set_column(raw.schema.get_field_index(time), time, clock.column)
            schema = schema_of(table.schema, type, time, unit)
        times = clock.times
        rejected = _reject(raw, faults, malformed) if faults or malformed is not None else None
        if faults:
            kept = ~np.logical_or.reduce([mask for mask, _ in faults])
            table, times, codes = table.filter(pa.array(kept)), times[kept], codes[kept]
        table, times, codes = _sort(table, times, codes, threads)
        self._fill(raw if table is raw else one_chunk(table), times, codes, names, schema, rejected)
        self.__dict__["_index"] = Index(INDEX_BYTES * max(len(self), FEWEST_ROWS))
        for note in self.notes:
            warn(note)

    @classmethod
    def _of(
        cls, table: pa.Table, times: Ints, types: Codes, names: tuple[str, ...], schema: Schema, rejected: Rejected | None = None
    ) -> Events:
        events = cls.__new__(cls)
        events._fill(one_chunk(table), times, types, names, schema, rejected)
        return events

    def _fill(
        self, table: pa.Table, times: Ints, types: Codes, names: tuple[str, ...], schema: Schema, rejected: Rejected | None
    ) -> None:
        for column in (times, types):
            column.flags.writeable = False
        self.__dict__.update(table=table, times=times, types=types, type_names=names, schema=schema)
        if rejected is not None:
            self.__dict__["rejected"] = rejected

    @cached_property
    def rejected(self) -> Rejected:
        """The rows that are no events. An empty table is made when it is asked for: of most pieces of a stream nobody does."""
        return _nothing_rejected(self.schema.columns)

    @property
    def n_rejected(self) -> int:
        """How many rows are no events."""
        return len(self.rejected) if "rejected" in self.__dict__ else 0

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"Events are frozen: cannot set {name!r}")

    __delattr__ = __setattr__  # type: ignore[assignment]

    @property
    def type_column(self) -> str:
        """The name of the column that holds the type."""
        return self.schema.type_column

    @property
    def time_column(self) -> str:
        """The name of the column that holds the time."""
        return self.schema.time_column

    @property
    def unit(self) -> str:
        """What one tick of `times` is: "us" for timestamps and dates, the declared unit for integers."""
        return self.schema.unit

    def __len__(self) -> int:
        return len(self.times)

    def __repr__(self) -> str:
        span = f", {self.time_column} {self._show(0)} to {self._show(-1)}" if len(self) else ""
        rejected = f", {self.rejected.count} rejected" if self.rejected else ""
        return f"Events({len(self)} events of {np.count_nonzero(self._counts)} types{span}{rejected})"

    def _show(self, row: int) -> str:
        time = int(self.times[row])
        if self.schema[TIME] != "time":
            return f"{time} {self.unit}"
        zone = getattr(self.column(TIME).type, "tz", None)
        return str(iso_times(pa.array([time], pa.timestamp("us", zone)))[0])

    @checked
    def column(self, name: str) -> pa.Array:
        """A column by name. `type` is the events' type as a string and `ts` the time column, whatever they are called.

        A column that one of these hides is asked for in quotes, `"type"`.
        """
        if name in HIDDEN_COLUMNS:
            name = self.schema.resolve(name)
        if name == TYPE:
            column = self.table.column(self.type_column).chunk(0)
            if pat.is_string(column.type):
                return column
            return pa.array(self.type_names, pa.string()).take(pa.array(self.types))
        name = self.schema.column_of(name)
        if name not in self.table.column_names:
            raise SchemaError(f"there is no column {name!r}\n  hint: {did_you_mean(name, self.schema)}")
        return self.table.column(name).chunk(0)

    # ------------------------------------------------------------ what is made once

    @property
    def index(self) -> Index | None:
        """What was worked out of these events for queries; of their pieces, which are soon gone, nothing is kept."""
        return self.__dict__.get("_index")

    @property
    def whole(self) -> tuple[Events, int]:
        """The events that these are a stretch of, and the row among them at which it begins; of others, themselves."""
        within: tuple[Events, int] = self.__dict__.get("_within", (self, 0))
        return within

    # ------------------------------------------------------------ by type

    @cached_property
    def _by_type(self) -> tuple[Ints, Ints]:
        """Row numbers grouped by type code, ascending in each group, and where each group begins."""
        n_types = len(self.type_names)
        # NumPy's stable sort is a radix sort for 8 and 16 bits only.
        width = np.uint8 if n_types <= 256 else np.uint16 if n_types <= 65_536 else np.int32
        rows = np.argsort(self.types.astype(width), kind="stable")
        starts = np.concatenate(([0], np.cumsum(self._counts))).astype(np.int64)
        rows.flags.writeable = False
        return rows, starts

    @cached_property
    def _codes(self) -> dict[str, int]:
        return {name: code for code, name in enumerate(self.type_names)}

    @cached_property
    def _counts(self) -> Ints:
        return np.bincount(self.types, minlength=len(self.type_names)).astype(np.int64)

    @for_engine
    def rows_of(self, names: str | Iterable[str]) -> Ints:
        """Ascending numbers of the rows whose type is one of these names; a name that no event has adds none."""
        wanted = {names} if isinstance(names, str) else set(names)
        if ANY in wanted:
            return np.arange(len(self))
        codes = sorted(self._codes[name] for name in wanted if name in self._codes)
        if not codes:
            return np.empty(0, np.int64)
        if len(codes) == 1:
            return self._rows_of_code(codes[0])
        whole, start = self.whole
        if whole.index is None:
            return self._rows_of_codes(codes)
        (rows,) = whole.index.find(("rows", *codes), lambda: (whole._rows_of_codes(codes),))
        return rows if whole is self else self._cut(rows, start)

    def _rows_of_codes(self, codes: list[int]) -> Ints:
        """Ascending numbers of the rows of some types."""
        groups = [self._rows_of_code(code) for code in codes]
        if sum(map(len, groups)) < len(self) // 4:
            return np.sort(np.concatenate(groups), kind="stable")  # merges the ascending groups
        chosen = np.zeros(len(self.type_names), np.bool_)
        chosen[codes] = True
        return np.flatnonzero(chosen[self.types])

    @for_engine
    def some_rows_of(self, names: Iterable[str] | None, n: int) -> Ints:
        """Ascending numbers of about so many rows of these types (None: of all), spread evenly; all where they are few."""
        if names is None or ANY in (wanted := set(names)):
            return np.arange(0, len(self), max(1, len(self) // n))
        groups = [self._rows_of_code(self._codes[name]) for name in wanted if name in self._codes]
        step = max(1, sum(map(len, groups)) // n)
        return np.sort(np.concatenate([np.empty(0, np.int64), *(group[::step] for group in groups)]))

    def _rows_of_code(self, code: int) -> Ints:
        """Ascending numbers of the rows of a type; of a stretch, from the index of the whole."""
        whole, start = self.whole
        if whole is not self:
            return self._cut(whole._rows_of_code(code), start)
        rows, starts = self._by_type
        return rows[starts[code] : starts[code + 1]]

    def _cut(self, rows: Ints, start: int) -> Ints:
        """Of ascending rows of the whole, those of a stretch that begins there."""
        low, high = np.searchsorted(rows, (start, start + len(self)))
        found: Ints = rows[low:high] - start
        return found

    @for_engine
    def tied(self, name: str, keys: Sequence[str] = ()) -> float:
        """The share of the events of a type that have their time, and these columns, in common with another one of it."""
        rows = self.rows_of(name)
        if not len(rows) or not np.any(self.times[rows[1:]] == self.times[rows[:-1]]):
            return 0.0
        columns = {str(number): self.column(key).take(pa.array(rows)) for number, key in enumerate(keys)}
        table = pa.table({"time": self.times[rows], **columns})
        sizes = table.group_by(table.column_names).aggregate([([], "count_all")]).column("count_all").to_numpy()
        return float(sizes[sizes > 1].sum() / len(rows))

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """What a person should know of these events: integer times that look like those of another unit."""
        doubt = (
            doubt_unit(int(self.times[0]), int(self.times[-1]), self.unit) if len(self) and self.schema[TIME] != "time" else None
        )
        return () if doubt is None else (doubt,)

    @cached_property
    def statistics(self) -> Statistics:
        """How many events of each type there are, and over which time."""
        first, last = (int(self.times[0]), int(self.times[-1])) if len(self) else (None, None)
        return Statistics(len(self), first, last, dict(zip(self.type_names, self._counts.tolist(), strict=True)), self._crowds())

    def _crowds(self) -> tuple[tuple[int, float], ...]:
        """For lengths of time that double: how many events lie in so long a stretch, in the quadratic mean over some."""
        if not len(self):
            return ()
        rows = np.unique(np.linspace(0, len(self) - 1, ENDS).astype(np.int64))
        ends, found = self.times[rows], []
        span = int(self.times[-1]) - int(self.times[0])
        for length in (1 << bit for bit in range(min(span, 1 << 62).bit_length())):
            begins = np.maximum(ends, LOWEST_TIME + length) - length
            held = rows + 1.0 - np.searchsorted(self.times, begins, "right")
            found.append((length, float(np.sqrt(np.mean(held**2)))))
        return tuple(found)

    @cached_property
    def distinct(self) -> Distinct:
        """How many values columns have among the first events: enough to tell few keys from many."""
        return Distinct(self.schema, lambda name: len(self.column(name).slice(0, SAMPLE).drop_null().unique()))

    # ------------------------------------------------------------ pieces

    @classmethod
    @for_engine
    def single(cls, table: pa.Table, time: int, name: str, schema: Schema) -> Events:
        """One event whose time and type are known, in a table of one chunk."""
        events = cls.__new__(cls)
        times, types = np.array([time], np.int64), np.zeros(1, np.int32)
        times.flags.writeable = types.flags.writeable = False
        events.__dict__.update(table=table, times=times, types=types, type_names=(name,), schema=schema)
        return events

    @for_engine
    def with_table(self, table: pa.Table, schema: Schema) -> Events:
        """The same events with other columns beside their times and types."""
        return Events._of(table, self.times, self.types, self.type_names, schema, self.__dict__.get("rejected"))

    @for_engine
    def take(self, rows: npt.NDArray[np.integer[Any]], columns: Collection[str] | None = None) -> Events:
        """The events of these row numbers, whose times must ascend; all columns, or those of some attributes."""
        if columns is not None:
            return self._with_columns(frozenset(columns)).take(rows)
        times = self.times[rows]
        assert bool(np.all(times[1:] >= times[:-1]))
        return self._part(self.table.take(pa.array(rows)), times, self.types[rows])

    @cached_property
    def _narrowed(self) -> dict[frozenset[str], Events]:
        return {}

    def _with_columns(self, names: frozenset[str]) -> Events:
        """The same events with the columns of these attributes only, and those of their types and times; made once."""
        if names not in self._narrowed:
            wanted = {self.schema.column_of(name) for name in (TYPE, TIME, *names)}
            table = self.table.select([name for name in self.table.column_names if name in wanted])
            schema = Schema(table.schema, self.type_column, self.time_column, self.unit)
            self._narrowed[names] = self.with_table(table, schema)
        return self._narrowed[names]

    @for_engine
    def slice(self, start: int, stop: int) -> Events:
        """The events of rows start, start + 1 .. stop - 1, without a copy."""
        start, stop, _ = slice(start, stop).indices(len(self))
        length = max(0, stop - start)
        if length == len(self) and "rejected" not in self.__dict__:
            return self
        cut = slice(start, start + length)
        return self._part(self.table.slice(start, length), self.times[cut], self.types[cut])

    @for_engine
    def stretch(self, start: int, stop: int) -> Events:
        """A slice that looks for its types in the index of these events: for pieces of a stream that is asked as a whole."""
        part = self.slice(start, stop)
        if part is not self and len(part):
            part.__dict__["_within"] = self, start
        return part

    def _part(self, table: pa.Table, times: Ints, types: Codes) -> Events:
        """Some of these events. Their columns are in one chunk, as ours are; only those of none may be in no chunk."""
        if not len(times):
            return Events._of(table, times, types, self.type_names, self.schema)
        return self.like(table, times, types, self.type_names)

    @for_engine
    def like(self, table: pa.Table, times: Ints, types: Codes, names: tuple[str, ...]) -> Events:
        """Other events with the same columns, in one chunk and in time order, of which all that makes them events is known."""
        times.flags.writeable = types.flags.writeable = False
        events = Events.__new__(Events)
        events.__dict__.update(table=table, times=times, types=types, type_names=names, schema=self.schema)
        return events

    @staticmethod
    @for_engine
    def concat(pieces: Sequence[Events]) -> Events:
        """Pieces of one stream as one batch; ties keep the order of the pieces."""
        if not pieces:
            raise SchemaError("there is nothing to put together\n  hint: give at least one piece")
        if len(pieces) == 1:
            return pieces[0]
        schema = pieces[0].schema
        for piece in pieces:
            if piece.schema != schema:
                raise SchemaError(f"pieces of a stream differ in their columns: {schema} and {piece.schema}")
        codes: dict[str, int] = {}
        types = []
        for piece in pieces:
            recoded = np.array([codes.setdefault(name, len(codes)) for name in piece.type_names], np.int32)
            types.append(recoded[piece.types] if len(piece) else piece.types)
        table = one_chunk(pa.concat_tables([piece.table for piece in pieces]))
        if table.schema != schema.columns:  # very long columns change their type
            schema = Schema(table.schema, schema.type_column, schema.time_column, schema.unit)
        times = np.concatenate([piece.times for piece in pieces])
        return Events._of(*_sort(table, times, np.concatenate(types)), tuple(codes), schema, _join_rejected(pieces))


def _code_types(column: pa.Array, threads: int) -> tuple[Codes, tuple[str, ...], Mask | None]:
    """Codes, their names, and the rows without a type (None where there are none)."""
    if pat.is_null(column.type):
        column = column.cast(pa.string())
    if not pat.is_dictionary(column.type):
        column = _encoded(column, threads)
    dictionary, indices = column.dictionary, column.indices
    texts = (dictionary if pat.is_string(dictionary.type) else dictionary.cast(pa.string())).to_pylist()
    names = {name: None for name in texts if name is not None}
    untyped = np.asarray(indices.is_null()) if indices.null_count else None
    indices = indices.fill_null(0) if indices.null_count else indices
    codes = (indices if pat.is_int32(indices.type) else indices.cast(pa.int32())).to_numpy()
    if len(names) < len(texts):
        # A dictionary made elsewhere may hold a name twice, or null.
        code_of: dict[str | None, int] = {name: code for code, name in enumerate(names)}
        recoded = np.array([code_of.get(text, -1) for text in texts], np.int32)
        codes = recoded[codes] if len(texts) else codes
        missing = codes < 0
        untyped = missing if untyped is None else untyped | missing
    return codes, tuple(names), untyped


def _encoded(column: pa.Array, threads: int) -> pa.Array:
    """Texts as codes, in the order in which they first come."""
    bounds = np.linspace(0, len(column), n_pieces(len(column), threads) + 1).astype(np.int64).tolist()
    if len(bounds) == 2:
        return column.dictionary_encode()
    pieces = spread(lambda at: column.slice(at[0], at[1] - at[0]).dictionary_encode(), list(pairwise(bounds)), threads)
    return pa.chunked_array(pieces).unify_dictionaries().combine_chunks()


def _sort(table: pa.Table, times: Ints, types: Codes, threads: int = 1) -> tuple[pa.Table, Ints, Codes]:
    if len(times) < 2 or bool((times[1:] >= times[:-1]).all()):
        return table, times, types
    order = _order(times, threads)
    rows = pa.array(order)
    columns = spread(lambda column: column.take(rows), table.columns, threads if len(times) > FEWEST_ROWS else 1)
    return pa.table(columns, schema=table.schema), times[order], types[order]


def _order(times: Ints, threads: int) -> Ints:
    """Where the times stand in order, equal ones as they came. Each thread sorts those between two marks: nothing is merged."""
    n = n_pieces(len(times), threads)
    if n == 1:
        return np.argsort(times, kind="stable")
    some = np.sort(times[:: max(1, len(times) // (SORTED_TIMES * n))])
    marks = np.unique(some[np.arange(1, n) * len(some) // n])

    def part(number: int) -> Ints:
        above = times >= marks[number - 1] if number else np.ones(len(times), np.bool_)
        rows = np.flatnonzero(above & (times < marks[number]) if number < len(marks) else above)
        return rows[np.argsort(times[rows], kind="stable")]

    return np.concatenate(spread(part, range(len(marks) + 1), threads))


# ---------------------------------------------------------------- rejected rows


def _reject(raw: pa.Table, faults: list[tuple[Mask, str]], malformed: Malformed | None) -> Rejected:
    """Reject the faulty rows of `raw`, each with the first reason that holds, and the broken lines of the file."""
    n = raw.num_rows
    first = np.full(n, -1, np.int32)
    for number, (mask, _) in reversed(list(enumerate(faults))):
        first[mask] = number
    bad = np.flatnonzero(first >= 0)
    reasons = pa.array([reason for _, reason in faults], pa.string()).take(pa.array(first[bad]))
    name = _unused(raw.column_names)
    table = raw.take(pa.array(bad))
    if malformed is None:
        table = table.append_column(name("reason"), reasons).append_column(name("row"), pa.array(bad, pa.int64()))
        return _summarize(table)
    # Row numbers count the rows of the file, broken ones included.
    sound = np.setdiff1d(np.arange(n + len(malformed.rows)), malformed.rows, assume_unique=True)
    table = table.append_column(name("text"), pa.nulls(len(bad), pa.string()))
    table = table.append_column(name("reason"), reasons).append_column(name("row"), pa.array(sound[bad], pa.int64()))
    broken = pa.table([malformed.texts, malformed.reasons, pa.array(malformed.rows, pa.int64())], names=table.column_names[-3:])
    table = pa.concat_tables([table, broken], promote_options="default")
    return _summarize(table.take(pa.array(np.argsort(table.column(-1).to_numpy(), kind="stable"))))


def _nothing_rejected(columns: pa.Schema) -> Rejected:
    name = _unused(columns.names)
    columns = columns.append(pa.field(name("reason"), pa.string())).append(pa.field(name("row"), pa.int64()))
    return Rejected(0, {}, columns.empty_table())


def _unused(taken: Iterable[str]) -> Callable[[str], str]:
    used = set(taken)

    def name(wanted: str) -> str:
        while wanted in used:
            wanted += "_"
        return wanted

    return name


def _summarize(table: pa.Table) -> Rejected:
    reasons = table.column(table.num_columns - 2)
    counts = {entry["values"]: entry["counts"] for entry in reasons.value_counts().to_pylist()}
    return Rejected(table.num_rows, counts, table)


def _join_rejected(pieces: Sequence[Events]) -> Rejected | None:
    """Rejected rows of all pieces; their row numbers go on from piece to piece."""
    if not any(piece.n_rejected for piece in pieces):
        return None
    tables = []
    n_before = 0
    for piece in pieces:
        table = piece.rejected.table
        if piece.rejected:
            last = table.num_columns - 1
            rows = pa.array(table.column(last).to_numpy() + n_before, pa.int64())
            tables.append(table.set_column(last, table.field(last), rows))
        n_before += len(piece) + piece.rejected.count
    if not tables:
        return None
    # Only pieces with broken lines have a column of texts; the widest table has every column in its place.
    widest = max(tables, key=lambda table: table.num_columns)
    return _summarize(pa.concat_tables(tables, promote_options="permissive").select(widest.column_names))


def with_one_type(table: pa.Table) -> pa.Table:
    """A table whose rows have no type, with a column that says they are of any."""
    if TYPE in table.column_names:
        raise SchemaError(
            f"there is a column {TYPE!r}, so its events have types\n  hint: leave out type=None, or rename the column"
        )
    return one_chunk(table.append_column(TYPE, pa.repeat(pa.scalar(ANY), len(table)).dictionary_encode()))


def _read_order(names: Sequence[str], schema: Schema) -> tuple[str, ...]:
    """Columns by their own names, as a query asks for them."""
    for name in names:
        if name not in schema.columns.names:
            raise SchemaError(
                f"order names {name!r}, and there is no such column\n  hint: {did_you_mean(name, schema.columns.names)}"
            )
        if schema[name] == "other":
            raise SchemaError(f"order names {name!r}, which holds nested or binary values\n  hint: use numbers, strings or times")
    return tuple(f'"{name}"' if name in HIDDEN_COLUMNS.values() else name for name in dict.fromkeys(names))
