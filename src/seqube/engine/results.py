"""What a query returns: an Arrow table, with what was rejected on the way, shown as a table wherever it is looked at.

Rows are found in pieces, when they are asked for: all of them (`table`) or piece by piece (`batches`), so a result may be far
larger than memory. Making a `Result` finds nothing. Whoever runs a query begins it (`begin_result`): the first rows are
found then, so that most results are whole, and what is wrong with a query shows where it was run, not where it is first looked at.

How many rows there are, and what a few of them look like, is told without building them (`engine/unbuilt.py`).

Cost: `batches` finds all rows anew and holds one piece at a time; `table` holds everything, once.
Invariant: `truncated` is set exactly when rows are missing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from html import escape
from importlib import import_module
from threading import RLock
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from seqube.arguments import checked
from seqube.engine.display import brief, draw_text, shown_columns
from seqube.engine.display import flat as flat_table
from seqube.engine.limits import NO_LIMITS, Budget, Limits
from seqube.errors import ArgumentError, LimitError, UnknownNameError, did_you_mean
from seqube.events.batch import Rejected
from seqube.extras import need

if TYPE_CHECKING:
    import altair
    import pandas as pd
    import polars as pl

    from seqube.engine.unbuilt import Unbuilt

SHOWN_ROWS = 20
EAGER_ROWS = 1 << 16  # found where a query is run
BATCH_ROWS = 1 << 16

Finder: TypeAlias = Callable[[Budget], Iterator[pa.Table]]  # finds the rows of a query in pieces, from the beginning


class Result:
    """The rows of one query, as `run` gives them; `len(result)` is their number, and notebooks show them as a table.

    `rejected` holds the input rows that were no events. `truncated` says which limit cut the rows short, or is None. `notes` says
    what a person should know: a type that no event has, times that look like those of another unit. `groups` are the columns of
    aggregates that name their groups; None, where rows are matches.

    >>> result = sq.run("SEQ(A a, B b) WITHIN 5", pa.table({"type": ["A", "B"], "ts": [1, 2]}))
    >>> len(result), result.table.column_names
    (1, ['start', 'end', 'a', 'b'])
    >>> result
    1 row
    start  end  a_type  a_ts  b_type  b_ts
        1    2  A          1  B          2
    """

    def __init__(
        self,
        find: Finder,
        rejected: Rejected,
        limits: Limits = NO_LIMITS,
        notes: tuple[str, ...] = (),
        unbuilt: Unbuilt | None = None,
    ) -> None:
        self.rejected = rejected
        self.notes = notes
        self.native = "pyarrow"
        self.groups: tuple[str, ...] | None = None
        self.truncated: str | None = None
        self._find = find
        self._limits = limits
        self._unbuilt = unbuilt if limits.on_limit == "error" else None  # what is cut short has to be found to be known
        self._table: pa.Table | None = None
        self._taking = RLock()
        self._start()

    @property
    def table(self) -> pa.Table:
        """All rows as a `pyarrow.Table`: `start`, `end` and a struct per variable, or what RETURN and AGG name."""
        self._take(None)
        return self._table

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows in batches, at least one, of which one is held at a time. Unless they are all there, they are found anew."""
        if self._table is None:
            self._start()  # what was found so far is not kept beside the batches
        pieces = self._pieces(self._limits.budget()) if self._table is None else iter([self._table])
        none = True
        for piece in pieces:
            for batch in piece.to_batches(max_chunksize=BATCH_ROWS):
                if batch.num_rows:
                    none = False
                    yield batch
        if none:
            yield pa.RecordBatch.from_pylist([], schema=piece.schema)

    def _start(self) -> None:
        self._budget = self._limits.budget()
        self._held: list[pa.Table] = []
        self._rest = self._pieces(self._budget)

    def _take(self, enough: int | None) -> None:
        """Find rows, until there are enough or these are all."""
        with self._taking:
            if self._table is not None or (enough is not None and sum(map(len, self._held)) >= enough):
                return
            try:
                self._budget.keeps_all = enough is None
                for piece in self._held_pieces():
                    self._held.append(piece)
                    if enough is not None and self._budget.n_rows + len(piece) >= enough:
                        return
            except BaseException:
                self._start()  # whoever asks again begins again
                raise
            self._table, self._held = pa.concat_tables(self._held), []

    def _pieces(self, budget: Budget) -> Iterator[pa.Table]:
        """The rows in pieces, as far as the limits allow. The time that others take between pieces does not count."""
        try:
            budget.resume()
            for piece in self._find(budget):
                budget.pause()
                yield piece.slice(0, budget.room(len(piece)))
                budget.resume()
                budget.find(len(piece))
        except LimitError as error:
            self._cut(error)

    def _held_pieces(self) -> Iterator[pa.Table]:
        """The pieces that are left, as far as there is room to keep them."""
        try:
            for piece in self._rest:
                self._budget.hold(piece.nbytes)
                yield piece
        except LimitError as error:
            self._cut(error)

    def _cut(self, error: LimitError) -> None:
        """A limit was reached: the rows so far are all there will be, if that was asked for."""
        if self._limits.on_limit != "truncate":
            raise error
        self.truncated = str(error).partition("\n")[0]

    def __reduce__(self) -> tuple[Callable[..., Result], tuple[Any, ...]]:
        return _restored, (self.table, self.rejected, self.notes, self.truncated, self.groups)

    @property
    def n_rows(self) -> int:
        """How many rows there are, however many: `len` of what leaves 64 bits. Matches are counted without building them."""
        if self._table is None and self._unbuilt is not None:
            return self._unbuilt.n_rows
        return int(self.table.num_rows)

    def __len__(self) -> int:
        n_rows = self.n_rows
        if n_rows > sys.maxsize:
            raise OverflowError(f"there are {n_rows:,} rows, more than len() can say: ask for .n_rows")
        return n_rows

    @checked
    def head(self, n: int = SHOWN_ROWS) -> pa.Table:
        """The first rows; no more are found than it takes.

        - `n`: how many.
        """
        n = min(max(n, 0), sys.maxsize)
        self._take(max(n, 1))
        return (self._table if self._table is not None else pa.concat_tables(self._held)).slice(0, n)

    @checked
    def sample(self, n: int, seed: int | None = None) -> pa.Table:
        """So many rows, any of which is as likely as any other; all, where there are fewer.

        - `n`: how many.
        - `seed`: any whole number that is not negative; the same one gives the same rows.

        Matches of a sequence of single events are drawn without building the others; `explain` says what is.
        """
        if seed is not None and seed < 0:
            raise ArgumentError(f"Result.sample: seed is {seed}\n  hint: any whole number that is not negative")
        n = min(max(n, 0), sys.maxsize)
        if self._unbuilt is not None:
            return self._unbuilt.sample(n, seed)
        import numpy as np

        from seqube.engine.unbuilt import sample_rows

        return sample_rows(iter([self.table]), n, np.random.default_rng(seed))

    @checked
    def to_pandas(self, *, flat: bool = True) -> pd.DataFrame:
        """All rows as a pandas DataFrame: a column for each attribute (`r_id`, `w_ts`), or, not `flat`, one for each variable."""
        need("pandas")
        frame: pd.DataFrame = self._columns(flat).to_pandas()
        return frame

    @checked
    def to_polars(self, *, flat: bool = True) -> pl.DataFrame:
        """All rows as a polars DataFrame: a column for each attribute (`r_id`, `w_ts`), or, not `flat`, one for each variable."""
        need("polars")
        import polars as pl

        frame = pl.from_arrow(self._columns(flat))
        assert isinstance(frame, pl.DataFrame)
        return frame

    @checked
    def to_native(self, *, flat: bool = True) -> Any:
        """All rows as the kind of table that the events came in: of pandas, polars, DuckDB or narwhals, else a `pyarrow.Table`."""
        match self.native:
            case "pandas":
                return self.to_pandas(flat=flat)
            case "polars":
                return self.to_polars(flat=flat)
            case "duckdb":
                return import_module("duckdb").from_arrow(self._columns(flat))
            case "narwhals":
                return import_module("narwhals").from_native(self._columns(flat))
            case _:
                return self._columns(flat)

    def _columns(self, flat: bool) -> pa.Table:
        return flat_table(self.table) if flat else self.table

    def __repr__(self) -> str:
        table, n_rows = self._shown()
        return "\n".join([f"{n_rows} row{'' if n_rows == '1' else 's'}", *draw_text(table), *self._more()])

    def _repr_html_(self) -> str:
        table = shown_columns(self._shown()[0])
        names = "".join(f"<th>{escape(name)}</th>" for name in table.column_names)
        rows = "".join(
            f"<tr>{''.join(f'<td>{escape(brief(value))}</td>' for value in row.values())}</tr>" for row in table.to_pylist()
        )
        notes = "".join(f"<p>{escape(line.strip())}</p>" for line in self._more())
        return f"<table><thead><tr>{names}</tr></thead><tbody>{rows}</tbody></table>{notes}"

    def _shown(self) -> tuple[pa.Table, str]:
        """The first rows, and how many there are; looking at a result does not find all of it."""
        self._take(EAGER_ROWS)
        if self._table is None:
            known = pa.concat_tables(self._held)
            is_counted = self._unbuilt is not None and self._unbuilt.is_counted
            return known.slice(0, SHOWN_ROWS), f"{self.n_rows:,}" if is_counted else f"more than {len(known):,}"
        return self._table.slice(0, SHOWN_ROWS), f"{len(self._table):,}"

    def plot(self) -> altair.Chart:
        """Matches in time, or, if many, how many end when; durations as a histogram; aggregates as lines or bars."""
        from seqube.engine.plots import plot_rows

        return plot_rows(self.table, self.groups)

    def _more(self) -> list[str]:
        table, n_rows = self._shown()
        lines = [f"  ... {n_rows} in all"] if self._table is None else []
        if self._table is not None and len(self._table) > len(table):
            lines.append(f"  ... {len(self._table) - len(table):,} more")
        if self.truncated:
            lines.append(f"  not all: {self.truncated}")
        if self.rejected:
            reasons = ", ".join(f"{count:,} {reason}" for reason, count in self.rejected.reasons.items())
            lines.append(f"  {self.rejected.count:,} input rows were rejected: {reasons}")
        return lines + [f"  note: {note}" for note in self.notes]


def begin_result(
    find: Finder, rejected: Rejected, limits: Limits, notes: tuple[str, ...] = (), unbuilt: Unbuilt | None = None
) -> Result:
    """A result whose first rows are found."""
    result = Result(find, rejected, limits, notes, unbuilt)
    result._take(EAGER_ROWS)
    return result


def whole_result(table: pa.Table, rejected: Rejected, limits: Limits = NO_LIMITS, notes: tuple[str, ...] = ()) -> Result:
    """A result of rows that are there already: only their number is limited."""
    result = Result(lambda budget: iter([table]), rejected, limits, notes)
    result._table = pa.concat_tables(result._rest)
    return result


def _restored(
    table: pa.Table, rejected: Rejected, notes: tuple[str, ...], truncated: str | None, groups: tuple[str, ...] | None
) -> Result:
    result = whole_result(table, rejected, notes=notes)
    result.truncated, result.groups = truncated, groups
    return result


class Results(Mapping[str, Result]):
    """The results of a workload: a mapping from the name of a query to its `Result`.

    >>> workload = {"pairs": "SEQ(A a, B b) WITHIN 5", "all": "A WITHIN 5 AGG COUNT(*) EMIT TOTAL"}
    >>> results = sq.run(workload, pa.table({"type": ["A", "B"], "ts": [1, 2]}))
    >>> list(results), len(results["pairs"])
    (['pairs', 'all'], 1)
    """

    def __init__(self, by_name: Mapping[str, Result]) -> None:
        self._by_name = dict(by_name)

    def __getitem__(self, name: str) -> Result:
        if not isinstance(name, str) or name not in self._by_name:
            near = did_you_mean(str(name), self._by_name)
            raise UnknownNameError(f"there is no query {name!r}\n  hint: {near or 'none was asked'}")
        return self._by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)

    def __repr__(self) -> str:
        return "\n".join(f"{name}: {len(result):,} rows" for name, result in self._by_name.items())

    def _repr_html_(self) -> str:
        return "".join(f"<h4>{escape(name)}</h4>{result._repr_html_()}" for name, result in self._by_name.items())
