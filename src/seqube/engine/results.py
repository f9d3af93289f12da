"""What a query returns: an Arrow table, with what was set aside on the way, shown as a table wherever it is looked at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from seqube.errors import PlanError
from seqube.events.batch import Rejected

if TYPE_CHECKING:
    import altair
    import pandas as pd
    import polars as pl

SHOWN_ROWS = 20
DRAWN_ROWS = 500


@dataclass(frozen=True, slots=True, repr=False)
class Result:
    """The rows of one query, and the input rows that were no events (`rejected`)."""

    table: pa.Table
    rejected: Rejected

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def to_pandas(self) -> pd.DataFrame:
        frame: pd.DataFrame = self.table.to_pandas()
        return frame

    def to_polars(self) -> pl.DataFrame:
        import polars as pl

        frame = pl.from_arrow(self.table)
        assert isinstance(frame, pl.DataFrame)
        return frame

    def __repr__(self) -> str:
        head = self.table.slice(0, SHOWN_ROWS).to_pylist()
        lines = [f"{len(self):,} rows: {', '.join(self.table.column_names)}"]
        lines += ["  " + "  ".join(f"{name}={_brief(value)}" for name, value in row.items()) for row in head]
        return "\n".join([*lines, *self._more()])

    def _repr_html_(self) -> str:
        names = "".join(f"<th>{escape(name)}</th>" for name in self.table.column_names)
        rows = "".join(
            f"<tr>{''.join(f'<td>{escape(_brief(value))}</td>' for value in row.values())}</tr>"
            for row in self.table.slice(0, SHOWN_ROWS).to_pylist()
        )
        notes = "".join(f"<p>{escape(line.strip())}</p>" for line in self._more())
        return f"<table><thead><tr>{names}</tr></thead><tbody>{rows}</tbody></table>{notes}"

    def plot(self) -> altair.Chart:
        """Matches: each from its start to its end, or, if many, how many end when. Aggregates: lines over time, bars by group."""
        import altair as alt

        names = self.table.column_names
        if "start" in names and "end" in names and len(self) <= DRAWN_ROWS:
            rows = [{"match": k, **_times(row)} for k, row in enumerate(self.table.select(["start", "end"]).to_pylist())]
            kind = _axis(self.table, "start")
            return _chart(rows, "bar", x=alt.X(f"start:{kind}", title="time"), x2="end", y=alt.Y("match:Q", axis=None))
        if "start" in names and "end" in names:
            return self._plot_density()
        time = "ts" if "ts" in names else None
        numbers = [field.name for field in self.table.schema if field.name != time and _is_number(field.type)]
        groups = [name for name in names if name != time and name not in numbers]
        if not numbers:
            raise PlanError("there are no times and no numbers to plot\n  hint: leave out RETURN, or return numbers")
        rows = [
            {
                "value": row[name],
                "series": ", ".join([name, *(str(row[group]) for group in groups)]),
                **_times({"ts": row.get("ts")}),
            }
            for row in self.table.slice(0, 10 * DRAWN_ROWS).to_pylist()
            for name in numbers
        ]
        if time is None:
            return _chart(rows, "bar", x="value:Q", y=alt.Y("series:N", sort=None))
        return _chart(rows, "line", x=f"ts:{_axis(self.table, 'ts')}", y="value:Q", color="series:N")

    def _plot_density(self) -> altair.Chart:
        import altair as alt
        import numpy as np

        ends = self.table.column("end")
        is_time = _axis(self.table, "end") == "T"
        ticks = (ends.cast(pa.timestamp("us")) if is_time else ends).cast(pa.int64()).to_numpy() // (1_000 if is_time else 1)
        counts, edges = np.histogram(ticks, bins=200)
        rows = [{"from": float(edges[k]), "to": float(edges[k + 1]), "matches": int(n)} for k, n in enumerate(counts)]
        x = alt.X("from:T" if is_time else "from:Q", title="time of the last event")
        return _chart(rows, "bar", x=x, x2="to", y="matches:Q")

    def _more(self) -> list[str]:
        lines = [f"  ... {len(self) - SHOWN_ROWS:,} more"] if len(self) > SHOWN_ROWS else []
        if self.rejected:
            reasons = ", ".join(f"{count:,} {reason}" for reason, count in self.rejected.reasons.items())
            lines.append(f"  {self.rejected.count:,} input rows were set aside: {reasons}")
        return lines


def _chart(rows: list[dict[str, Any]], mark: str, **channels: Any) -> altair.Chart:
    import altair as alt

    chart = alt.Chart(alt.Data(values=rows))  # type: ignore[no-untyped-call]
    drawn: altair.Chart = getattr(chart, f"mark_{mark}")().encode(**channels)
    return drawn


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _axis(table: pa.Table, name: str) -> str:
    """How a chart takes a column: as moments or as numbers."""
    return "T" if pa.types.is_temporal(table.schema.field(name).type) else "Q"


def _times(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value.isoformat() if hasattr(value, "isoformat") else value for name, value in row.items()}


def _brief(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {inner}" for name, inner in value.items()) + "}"
    return str(value)


class Results(Mapping[str, Result]):
    """The results of a workload, by query name."""

    def __init__(self, by_name: Mapping[str, Result]) -> None:
        self._by_name = dict(by_name)

    def __getitem__(self, name: str) -> Result:
        return self._by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)

    def __repr__(self) -> str:
        return "\n".join(f"{name}: {len(result):,} rows" for name, result in self._by_name.items())

    def _repr_html_(self) -> str:
        return "".join(f"<h4>{escape(name)}</h4>{result._repr_html_()}" for name, result in self._by_name.items())
