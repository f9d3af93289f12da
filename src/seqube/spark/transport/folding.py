"""Whole numbers of a row side by side in one array, for the way from Spark to Python.

Spark asks every column for its size after every row that it writes for Python (to keep `arrow.maxBytesPerBatch`), which takes
longer than to write the row. An array is one column, however many numbers it holds. So integers and timestamps are folded into one,
and with them texts, as numbers, where it is known which there can be, or which matter.

Cost: about half of what the columns would take one by one, and 2 ns a number to unfold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
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
class Texts:
    """The texts of a column that travel as numbers."""

    known: tuple[str, ...]
    rest: str | None = None  # what arrives for any other text; without it there is no other

    @property
    def all(self) -> tuple[str, ...]:
        return self.known if self.rest is None else (*self.known, self.rest)


@dataclass(frozen=True, slots=True)
class Fold:
    """How the columns of a frame travel: `numbers` in one array, the rest as they are."""

    numbers: Mapping[str, pa.DataType]
    others: tuple[str, ...]
    coded: Mapping[str, Texts]

    @staticmethod
    def of(frame: DataFrame, coded: Mapping[str, Texts]) -> Fold:
        """The columns `coded` arrive as `CODED`."""
        kinds = {field.name: field.type for field in arrow_columns(frame.schema)} | dict.fromkeys(coded, CODED)
        numbers = {name: kind for name, kind in kinds.items() if name in coded or _is_number(kind)}
        return Fold(numbers, tuple(name for name in kinds if name not in numbers), dict(coded))

    def map(self, frame: DataFrame, work: Work, rows: str) -> DataFrame:
        """Hand the rows of the frame to `work` in Python, which gives back `rows`."""
        return self._fold(frame).mapInArrow(lambda batches: work(self._unfold(batches)), rows)

    def _fold(self, frame: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F  # noqa: N812

        numbers = [self._number(name, kind) for name, kind in self.numbers.items()]
        # Under plain names: PySpark hands a column whose name has a dot to no function.
        others = [column(name).alias(f"#{place}") for place, name in enumerate(self.others)]
        return frame.select(F.array(*numbers).alias("#folded"), *others)

    def _number(self, name: str, kind: pa.DataType) -> Column:
        from pyspark.sql import functions as F  # noqa: N812

        value = column(name)
        if name in self.coded:
            texts = self.coded[name]
            code = F.lit(None) if texts.rest is None else F.when(F.isnotnull(value), F.lit(len(texts.known)))
            for number, text in reversed(list(enumerate(texts.known))):
                code = F.when(value == text, F.lit(number)).otherwise(code)
            return code.cast("long")
        return F.unix_micros(value) if pat.is_timestamp(kind) else value.cast("long")

    def _unfold(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The columns again; those with codes as dictionaries."""
        for batch in batches:
            folded = batch.column(0).flatten()
            columns = {name: batch.column(place) for place, name in enumerate(self.others, start=1)}
            for place, (name, kind) in enumerate(self.numbers.items()):
                values = folded.take(pa.array(np.arange(place, len(folded), len(self.numbers))))
                if name in self.coded:
                    texts = pa.array(self.coded[name].all)
                    columns[name] = pa.DictionaryArray.from_arrays(values.cast(CODED.index_type), texts)
                else:
                    columns[name] = values.cast(kind)
            yield pa.RecordBatch.from_pydict(columns)


def _is_number(kind: pa.DataType) -> bool:
    return pat.is_integer(kind) or (pat.is_timestamp(kind) and kind.tz is not None)
