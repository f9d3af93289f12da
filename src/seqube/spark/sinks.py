"""Where rows go: a folder of files, here or at a URL, in one of the formats of a table.

    sink.write(frame, "pairs", folder_of(7))    <sink>/pairs/batch=00000007/part-...     replaced as a whole
    sink.write_row(spark, row, columns, 7)      <sink>/00000007.json, or a folder as above: what is said about a micro-batch
    sink.claim(name), sink.refuse(spark, name)  what a checkpoint remembers of it; what must not be written to

Spark writes, so that a URL is whatever its file systems make of it; one that they do not know is refused before a row is read. What
is said about a micro-batch is a single row, for which a job of Spark may take longer than the micro-batch did: as JSON, and in a
folder of this machine, it is a file that is written here.

Invariant: a place is written as declared or refused, and to write the same rows a second time changes nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seqube.errors import DataError
from seqube.spark.ingest import column

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

ONCE = "once"  # the number of the one batch of a run that is no stream
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://.+")


def is_url(place: str) -> bool:
    return _URL.fullmatch(place) is not None


def may_be_url(place: str) -> bool:
    """Whether a place that is no URL may have been meant as one: `s3:/bucket` would be a folder called `s3:`."""
    return ":" in place.split("/", 1)[0]


def folder_of(number: int | str) -> str:
    """The folder that the rows of one micro-batch have to themselves."""
    return f"batch={_padded(number)}"


def _padded(number: int | str) -> str:
    return f"{number:08d}" if isinstance(number, int) else number


@dataclass(frozen=True, slots=True)
class Sink:
    path: str
    format: str = "parquet"
    options: Mapping[str, str] = field(default_factory=dict)  # of Spark's writer

    def write(self, frame: DataFrame, *inside: str) -> None:
        """Write rows to the folder of these names inside, in place of what was there."""
        kind = FORMATS[self.format]
        rows = kind.fit(frame) if kind.fit is not None else frame
        rows.write.mode("overwrite").format(self.format).options(**{**kind.options, **self.options}).save(self._place(*inside))

    def write_row(self, spark: SparkSession, row: Mapping[str, Any], columns: Mapping[str, str], number: int | str) -> None:
        """Write what there is to say about one micro-batch, in place of what was said before."""
        if self.format != "json" or is_url(self.path):
            self.write(frame_of(spark, row, columns), folder_of(number))
            return
        folder = Path(self.path)
        folder.mkdir(parents=True, exist_ok=True)
        draft = folder / f".{_padded(number)}.json"  # a file that is there whole or not at all
        draft.write_text(json.dumps({"batch": number, **row}) + "\n", encoding="utf-8")
        draft.replace(folder / f"{_padded(number)}.json")

    def claim(self, name: str) -> dict[str, str]:
        """What a checkpoint remembers: a stream that went on elsewhere would leave half of its results behind."""
        return {name: self.path}

    def refuse(self, spark: SparkSession, name: str) -> None:
        """Refuse, before a row is read, a place that Spark cannot write to; `name` is what the sink is called."""
        if is_url(self.path):
            self._finds(spark, name, f"{self.path}/no-such-name")

    def refuse_stream(self, spark: SparkSession, name: str, *inside: str) -> None:
        """Refuse to add, in other folders, what a stream has written already."""
        place = self._place(*inside)
        if is_url(place):
            has_streamed = self._finds(spark, name, f"{place}/batch=[0-9]*")
        else:
            has_streamed = any(child.name != folder_of(ONCE) for child in Path(place).glob("batch=*"))
        if has_streamed:
            raise DataError(f"{place} holds the results of a stream, and --once would add them again\n  hint: give another path")

    def _finds(self, spark: SparkSession, name: str, pattern: str) -> bool:
        """Whether there is something at a URL. Spark looks, and opens no file: a row of text has one column, whatever it says."""
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException

        try:
            return bool(spark.read.text(pattern).columns)
        except (PySparkException, Py4JJavaError) as error:
            if "PATH_NOT_FOUND" in str(error):
                return False
            raise DataError(
                f"the sink {name!r} is at {self.path}, for which Spark has no file system that it can write to\n"
                "  hint: add the connector of that storage to Spark (--conf spark.jars.packages=...), or give a folder"
            ) from error

    def _place(self, *inside: str) -> str:
        return "/".join((self.path.rstrip("/"), *inside))


def frame_of(spark: SparkSession, row: Mapping[str, Any], columns: Mapping[str, str]) -> DataFrame:
    """A single row, in these types."""
    schema = ", ".join(f"{name} {kind}" for name, kind in columns.items())
    return spark.createDataFrame([tuple(row.get(name) for name in columns)], schema).coalesce(1)


# ---------------------------------------------------------------- formats


@dataclass(frozen=True, slots=True)
class SinkFormat:
    """What Spark has to be told to write a format, and how rows are made to fit into it where they do not."""

    options: Mapping[str, str]
    fit: Callable[[DataFrame], DataFrame] | None = None


def _flat(frame: DataFrame) -> DataFrame:
    """CSV has no structs: theirs become columns of their own (`r_id`); lists and maps are texts."""
    from pyspark.sql import functions as F  # noqa: N812

    columns: list[Column] = []
    for each in frame.schema:
        whole = column(each.name)
        match each.dataType.typeName():
            case "struct":
                columns += [whole[inner.name].cast("string").alias(f"{each.name}_{inner.name}") for inner in each.dataType]  # type: ignore[attr-defined]
            case "array" | "map":
                columns.append(F.to_json(whole).alias(each.name))
            case "binary" | "day-time interval":
                columns.append(whole.cast("string").alias(each.name))
            case _:
                columns.append(whole)
    return frame.select(*columns)


FORMATS: Mapping[str, SinkFormat] = {
    "parquet": SinkFormat({}),
    "json": SinkFormat({}),
    "csv": SinkFormat({"header": "true"}, _flat),
    "orc": SinkFormat({}),
}
