"""Which types of events come in a stream, as far as its queries ask: a type that never comes may be misspelt.

A stream counts the events of every type that its queries name, among the metrics of each micro-batch, and tells which other type is
nearest to it: one that begins as it does, or differs in the fewest letters.
Cost: a comparison for each row and name; of letters, where a row is of a type that no query names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from seqube.events.schema import ANY
from seqube.spark.ingest import REASON, EventFrame, column

if TYPE_CHECKING:
    from pyspark.sql import Column

COUNT_OF, NEAREST_TO = "events of ", "nearest to "  # the metrics, before the name of a type
MOST_COUNTED = 32  # types: each is a metric, and a cost of every row


def count_types(names: Iterable[str], source: EventFrame) -> list[Column]:
    """Aggregates over rows: how many events there are of each of these types, and which other type is nearest to it."""
    from pyspark.sql import functions as F  # noqa: N812

    named = sorted(set(names) - {ANY})[:MOST_COUNTED]
    given, is_event = column(source.type_column).cast("string"), F.isnull(column(REASON))
    found = []
    for name in named:
        low, own = F.lower(given), F.lower(F.lit(name))
        is_kin = F.startswith(low, own) | F.startswith(own, low)
        rank = F.struct(F.when(is_kin, 0).otherwise(1), F.levenshtein(low, own), given.alias("name"))
        found.append(F.count(F.when(is_event & (given == name), 1)).alias(f"{COUNT_OF}{name}"))
        found.append(F.min(F.when(is_event & ~given.isin(*named), rank))["name"].alias(f"{NEAREST_TO}{name}"))
    return found


def types_present(row: Mapping[str, Any]) -> set[str]:
    """The types that are there by these metrics of a micro-batch."""
    named = {name.removeprefix(COUNT_OF) for name, count in row.items() if name.startswith(COUNT_OF) and count}
    return named | {near for name, near in row.items() if name.startswith(NEAREST_TO) and near is not None}
