"""What a query returns: an Arrow table, with what was set aside on the way, shown as a table wherever it is looked at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from seqube.events.batch import Rejected

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

SHOWN_ROWS = 20


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

    def _more(self) -> list[str]:
        lines = [f"  ... {len(self) - SHOWN_ROWS:,} more"] if len(self) > SHOWN_ROWS else []
        if self.rejected:
            reasons = ", ".join(f"{count:,} {reason}" for reason, count in self.rejected.reasons.items())
            lines.append(f"  {self.rejected.count:,} input rows were set aside: {reasons}")
        return lines


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
