"""Whole numbers of a row side by side in one array, for the way from Spark to Python.

Spark asks every column for its size after every row that it writes for Python (to keep `arrow.maxBytesPerBatch`), which takes
longer than to write the row. An array is one column, however many numbers it holds. So integers and timestamps are folded into one,
and with them the types of events, as numbers, where it is known which there can be.

Cost: about half of what the columns would take one by one, and 2 ns a number to unfold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from seqube.spark.ingest import arrow_columns, column

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

Work = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]

CODED = pa.dictionary(pa.int16(), pa.string())


@dataclass(frozen=True, slots=True)
class Fold:
    """How the columns of a frame travel: `numbers` in one array, the rest as they are."""

    numbers: Mapping[str, pa.DataType]
    others: tuple[str, ...]
    types: tuple[str, ...]  # that the codes of the one column that is `CODED` stand for

    @staticmethod
    def of(frame: DataFrame, type_column: str, types: Sequence[str] = ()) -> Fold:
        """`types` are all that the type column of any row can be; without them it travels by name."""
        kinds = {field.name: field.type for field in arrow_columns(frame.schema)}
        if types:
            kinds[type_column] = CODED
        numbers = {name: kind for name, kind in kinds.items() if kind == CODED or _is_number(kind)}
        return Fold(numbers, tuple(name for name in kinds if name not in numbers), tuple(types))

    def map(self, frame: DataFrame, work: Work, rows: str) -> DataFrame:
        """Hand the rows of the frame to `work` in Python, which gives back `rows`."""
        return self._fold(frame).mapInArrow(lambda batches: work(self._unfold(batches)), rows)

    def _fold(self, frame: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F  # noqa: N812

        numbers = [self._number(column(name), kind) for name, kind in self.numbers.items()]
        # Under plain names: PySpark hands a column whose name has a dot to no function.
        others = [column(name).alias(f"#{place}") for place, name in enumerate(self.others)]
        return frame.select(F.array(*numbers).alias("#folded"), *others)

    def _number(self, value: Column, kind: pa.DataType) -> Column:
        from pyspark.sql import functions as F  # noqa: N812

        if kind == CODED:
            code = F.lit(None)
            for number, name in reversed(list(enumerate(self.types))):
                code = F.when(value == name, F.lit(number)).otherwise(code)
            return code.cast("long")
        return F.unix_micros(value) if pat.is_timestamp(kind) else value.cast("long")

    def _unfold(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The columns again; a type column with codes as a dictionary."""
        for batch in batches:
            folded = batch.column(0).flatten()
            columns = {name: batch.column(place) for place, name in enumerate(self.others, start=1)}
            for place, (name, kind) in enumerate(self.numbers.items()):
                values = folded.take(pa.array(np.arange(place, len(folded), len(self.numbers))))
                if kind == CODED:
                    columns[name] = pa.DictionaryArray.from_arrays(values.cast(CODED.index_type), pa.array(self.types))
                else:
                    columns[name] = values.cast(kind)
            yield pa.RecordBatch.from_pydict(columns)


def _is_number(kind: pa.DataType) -> bool:
    return pat.is_integer(kind) or (pat.is_timestamp(kind) and kind.tz is not None)
