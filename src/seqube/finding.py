"""What a command finds, in this process or on Spark: rows to show, or written where they were asked for. Progress goes to stderr.

Both ways give the same (`FoundRows`), so that a command need not ask twice which of them it is on.
Cost: that of the run; on Spark the events are counted first, and each result is kept until its rows are counted and taken.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seqube.engine.limits import LIMITS, Limits
from seqube.output import err, write

if TYPE_CHECKING:
    import pyarrow as pa

    from seqube.events import Hierarchy
    from seqube.language import Query
    from seqube.predict import Rules
    from seqube.spark.ingest import EventFrame

PRINTED_ROWS = 20
REJECTED = "_rejected"  # the name of the rows that are no events, among those of results

Settings = dict[str, str]  # of Spark


@dataclass(frozen=True)
class RunRequest:
    """What a command is asked to look at, and how."""

    events: str
    type_column: str
    time_column: str
    unit: str
    concepts: Hierarchy | None
    strategy: str
    limit: int | None


@dataclass(frozen=True)
class FoundRows:
    """What came of a run: how many rows were events, why others were not, and the rows of each result (all, or those asked for).

    `truncated` says of a result which limit cut it short, `notes` what a person should know of it.
    """

    n_events: int
    reasons: dict[str, int]
    totals: dict[str, int]
    tables: dict[str, pa.Table]
    truncated: dict[str, str]
    notes: dict[str, tuple[str, ...]]


def find_here(asked: RunRequest, queries: dict[str, Query], limits: Limits, places: dict[str, Path]) -> FoundRows:
    import seqube as sq

    with err.status("Reading events"):
        stream = sq.Events(asked.events, type=asked.type_column, time=asked.time_column, unit=asked.unit)
    with err.status(f"Matching {len(stream):,} events"):
        results = sq.run(queries, stream, hierarchy=asked.concepts, strategy=asked.strategy, limits=limits)
    tables = {name: results[name].table if asked.limit is None else results[name].head(asked.limit) for name in queries}
    if places:
        with err.status("Writing"):
            for name, table in tables.items():
                write(table, places[name])
            if stream.rejected:
                write(stream.rejected.table, places[REJECTED])
    cut = {name: said for name in queries if (said := results[name].truncated)}
    totals, notes = {name: len(results[name]) for name in queries}, {name: results[name].notes for name in queries}
    return FoundRows(len(stream), stream.rejected.reasons, totals, tables, cut, notes)


def _read_on_spark(settings: Settings, asked: RunRequest) -> tuple[EventFrame, int, dict[str, int], list[str]]:
    """The events as Spark reads them, how many there are, why other rows are none, and the types that occur."""
    import seqube.spark as sqs
    from seqube.spark import ingest
    from seqube.spark.failures import spark_errors

    with err.status("Starting Spark"):
        spark = sqs.session(**settings)
    with err.status("Reading events"), spark_errors(asked.events):
        frame = ingest.load_files(spark, asked.events, asked.time_column)
        source = ingest.read_source(frame, asked.type_column, asked.time_column, asked.unit)
        return source, *source.tally()


def _take(frame: Any, name: str, place: Path | None, limit: int | None, shown: int | None) -> tuple[int, pa.Table]:
    """How many rows there are, and those to look at: none where they are written to a place, else as many as are shown."""
    from seqube.spark.session import described, step_of
    from seqube.spark.sinks import Sink

    kept = frame.persist()
    with described(frame.sparkSession, step_of([name], "match")):
        n_rows = kept.count()
    chosen = kept if limit is None else kept.limit(limit)
    with described(frame.sparkSession, step_of([name], "fetch rows" if place is None else "write rows")):
        if place is not None:
            Sink(str(place.resolve()), place.suffix[1:]).write(chosen)
        table = chosen.limit(0 if place is not None else n_rows if shown is None else shown).toArrow()
    kept.unpersist()
    return n_rows, table


def find_on_spark(
    settings: Settings, asked: RunRequest, queries: dict[str, Query], limits: Limits, places: dict[str, Path]
) -> FoundRows:
    from seqube.spark import batch, ingest, planning
    from seqube.spark.failures import spark_errors
    from seqube.spark.sinks import Sink

    source, n_events, reasons, types = _read_on_spark(settings, asked)
    for query in queries.values():
        ingest.refuse_unknown_types(query, types, asked.concepts)
    totals: dict[str, int] = {}
    tables: dict[str, pa.Table] = {}
    with err.status(f"Matching {n_events:,} events"), spark_errors(asked.events):
        planned = planning.plan_batch(queries, source, asked.concepts, asked.strategy)
        found = batch.find(planned, source, limits=limits)
        for name in queries:
            totals[name], tables[name] = _take(found[name], name, places.get(name), asked.limit, None)
        found.unpersist()
        if places and reasons:
            Sink(str(places[REJECTED].resolve()), places[REJECTED].suffix[1:]).write(source.rejected())
    return FoundRows(n_events, reasons, totals, tables, {}, {})


def predict_on_spark(settings: Settings, asked: RunRequest, rules: Rules, place: Path | None) -> FoundRows:
    from seqube.spark import forecasting
    from seqube.spark.failures import spark_errors

    source, n_events, reasons, _ = _read_on_spark(settings, asked)
    with err.status(f"Predicting over {n_events:,} events"), spark_errors(asked.events):
        frame = forecasting.forecast(rules, source, asked.concepts, asked.strategy, limits=LIMITS)
        n_predictions, shown = _take(frame, "forecast", place, asked.limit, PRINTED_ROWS if asked.limit is None else None)
    return FoundRows(n_events, reasons, {"predictions": n_predictions}, {"predictions": shown}, {}, {})
