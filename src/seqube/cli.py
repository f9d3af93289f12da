"""The command line: a person -> everything else.

What a command is asked for goes to stdout, everything about how it went (progress, notes, rejected rows, errors) to stderr. Exit
codes: 0 done; 1 failed while running; 2 the query or the usage is wrong. Errors come without a traceback; SEQUBE_DEBUG=1 shows it.
"""

from __future__ import annotations

import datetime
import json
import math
import os
import sys
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress
from rich.table import Table

from seqube.errors import DataError, LimitError, PlanError, QueryError, SequbeError

if TYPE_CHECKING:
    import pyarrow as pa

    from seqube.events import Hierarchy
    from seqube.language import Query
    from seqube.predict import Rules

out = Console()
err = Console(stderr=True)

FAILED, WRONG = 1, 2
SHOWN_ROWS = 20
REJECTED = "_rejected"

program = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


def app() -> None:
    """Run the command that was typed, and turn errors into a message and an exit code."""
    try:
        program()
    except SequbeError as error:
        _fail(type(error).__name__, str(error), FAILED if isinstance(error, DataError | LimitError) else WRONG)
    except OSError as error:
        _fail("error", str(error), FAILED)
    except Exception as error:
        if os.environ.get("SEQUBE_DEBUG"):
            raise
        hint = "this is a mistake in Seqube; SEQUBE_DEBUG=1 shows where"
        _fail("internal error", f"{type(error).__name__}: {error}\n  hint: {hint}", FAILED)


def _fail(kind: str, message: str, code: int) -> NoReturn:
    if "--json" in sys.argv:
        _print_json({"error": {"kind": kind, "message": message}})
    _note(f"{kind}: {message}")
    raise SystemExit(code)


class Format(StrEnum):
    parquet = "parquet"
    csv = "csv"
    json = "json"


QueryFile = Annotated[Path | None, typer.Argument(metavar="QUERY.sqb", help="A file with one query, or several with names.")]
QueryText = Annotated[str | None, typer.Option("--query", metavar="TEXT", help="The query itself, instead of a file.")]
EventsPath = Annotated[str, typer.Option("--events", metavar="PATH", help="CSV, JSON lines or Parquet.")]
TypeColumn = Annotated[str, typer.Option("--type", metavar="COL", help="The column that holds the event type.")]
TimeColumn = Annotated[str, typer.Option("--time", metavar="COL", help="The column that holds the time.")]
Unit = Annotated[str, typer.Option(help="The unit of an integer time column: us, ms, s ...")]
HierarchyPath = Annotated[Path | None, typer.Option("--hierarchy", metavar="H.yaml", help="The concepts above the event types.")]
OnSpark = Annotated[bool, typer.Option("--spark", help="On Spark, for logs too large for one process.")]
Strategy = Annotated[str, typer.Option(help="How to evaluate; auto takes the cheapest.")]


def _version(wanted: bool) -> None:
    if wanted:
        import seqube

        out.print(f"seqube {seqube.__version__}", highlight=False)
        raise typer.Exit


@program.callback()
def main(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")] = False,
) -> None:
    """Find, count, compare and predict sequences of events."""


@program.command()
def run(
    events: EventsPath,
    query: QueryFile = None,
    text: QueryText = None,
    type_column: TypeColumn = "type",
    time_column: TimeColumn = "ts",
    unit: Unit = "ms",
    hierarchy: HierarchyPath = None,
    folder: Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Write one file per query there.")] = None,
    file_format: Annotated[Format, typer.Option("--format", help="The kind of file that --out writes.")] = Format.parquet,
    strategy: Strategy = "auto",
    limit: Annotated[int | None, typer.Option(min=0, help="At most so many rows of each result.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
    local: Annotated[bool, typer.Option("--local", help="In this process, without Spark.")] = False,
    max_matches: Annotated[int | None, typer.Option(min=0, help="With --local: stop at a result of more rows.")] = None,
    max_state_bytes: Annotated[int | None, typer.Option(min=0, help="With --local: stop a query that holds more memory.")] = None,
    max_seconds: Annotated[float | None, typer.Option(min=0, help="With --local: stop a query that takes longer.")] = None,
    truncate: Annotated[bool, typer.Option("--truncate", help="With --local: at a limit, keep the matches so far.")] = False,
) -> None:
    """Run queries over events, and show or write their results."""
    queries = _read_queries(query, text)
    allowed = {"max_matches": max_matches, "max_state_bytes": max_state_bytes, "max_seconds": max_seconds}
    limits: dict[str, Any] = {name: value for name, value in allowed.items() if value is not None}
    limits |= {"on_limit": "truncate"} if truncate else {}
    if limits and not local:
        raise typer.BadParameter("limits are for runs in this process; on Spark, its own settings hold", param_hint="--local")
    concepts = _read_hierarchy(hierarchy)
    places = _places(folder, [*queries, REJECTED], file_format) if folder is not None else {}
    evaluate = partial(_run_here, limits) if local else _run_on_spark
    found = evaluate(queries, events, places, type_column, time_column, unit, concepts, strategy, limit)
    tables = found.tables
    if found.reasons:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in found.reasons.items())
        _note(f"note: {sum(found.reasons.values()):,} rows are not events and were set aside ({reasons})")
    for name, said in found.truncated.items():
        _note(f"note: {name} is not whole: {said}")
    if as_json:
        _print_json(
            {
                "events": found.n_events,
                "rejected": {"count": sum(found.reasons.values()), "reasons": found.reasons},
                "results": {
                    name: {"count": found.totals[name], "columns": table.column_names}
                    | ({"truncated": found.truncated[name]} if name in found.truncated else {})
                    | ({"file": str(places[name])} if places else {"rows": _plain(table.to_pylist())})
                    for name, table in tables.items()
                },
            }
        )
        return
    for name, table in tables.items():
        if places:
            n_rows = found.totals[name] if limit is None else min(limit, found.totals[name])
            out.print(f"{name}: {n_rows:,} rows in {places[name]}", highlight=False, soft_wrap=True, markup=False)
        else:
            _show(name, table.slice(0, SHOWN_ROWS if limit is None else limit), found.totals[name])


@dataclass(frozen=True)
class _Found:
    """What came of a run: how many rows were events, why others were not, and the rows of each result (all, or those asked for).

    `truncated` says of a result which limit cut it short.
    """

    n_events: int
    reasons: dict[str, int]
    totals: dict[str, int]
    tables: dict[str, pa.Table]
    truncated: dict[str, str]


def _run_here(
    limits: dict[str, Any],
    queries: dict[str, Query],
    events: str,
    places: dict[str, Path],
    type_column: str,
    time_column: str,
    unit: str,
    concepts: Hierarchy | None,
    strategy: str,
    limit: int | None,
) -> _Found:
    import seqube as sq

    with err.status("Reading events"):
        stream = sq.Events(events, type=type_column, time=time_column, unit=unit)
    with err.status(f"Matching {len(stream):,} events"):
        results = sq.run(queries, stream, hierarchy=concepts, strategy=strategy, **limits)
    tables = {name: results[name].table.slice(0, limit) for name in queries}
    if places:
        with err.status("Writing"):
            for name, table in tables.items():
                _write(table, places[name])
            if stream.rejected:
                _write(stream.rejected.table, places[REJECTED])
    cut = {name: said for name in queries if (said := results[name].truncated)}
    return _Found(len(stream), stream.rejected.reasons, {name: len(results[name]) for name in queries}, tables, cut)


def _run_on_spark(
    queries: dict[str, Query],
    events: str,
    places: dict[str, Path],
    type_column: str,
    time_column: str,
    unit: str,
    concepts: Hierarchy | None,
    strategy: str,
    limit: int | None,
) -> _Found:
    import seqube.spark as sqs
    from seqube.spark import batch, ingest
    from seqube.spark.failures import spark_errors

    with err.status("Starting Spark"):
        spark = sqs.session()
    with err.status("Reading events"), spark_errors(events):
        source = ingest.read_source(ingest.read_files(spark, events), type_column, time_column, unit)
        n_events, reasons, types = source.tally()
    for query in queries.values():
        ingest.check_types(query, types, concepts)
    totals: dict[str, int] = {}
    tables: dict[str, pa.Table] = {}
    with err.status(f"Matching {n_events:,} events"), spark_errors(events):
        plans = {name: ingest.prepare(query, source, concepts, strategy) for name, query in queries.items()}
        found = batch.find(plans, source)
        for name in queries:
            frame = found[name].persist()
            totals[name] = frame.count()
            chosen = frame if limit is None else frame.limit(limit)
            if places:
                batch.write_frame(chosen, str(places[name].resolve()), places[name].suffix[1:])
            tables[name] = chosen.limit(0 if places else totals[name]).toArrow()
            frame.unpersist()
        found.unpersist()
        if places and reasons:
            batch.write_frame(source.quarantined(), str(places[REJECTED].resolve()), places[REJECTED].suffix[1:])
    return _Found(n_events, reasons, totals, tables, {})


@program.command()
def check(query: QueryFile = None, text: QueryText = None) -> None:
    """Parse and bind queries, and print their canonical text."""
    for name, parsed in _read_queries(query, text).items():
        print(f"-- name: {name}\n{parsed}")  # noqa: T201


@program.command()
def explain(
    events: EventsPath,
    query: QueryFile = None,
    text: QueryText = None,
    type_column: TypeColumn = "type",
    time_column: TimeColumn = "ts",
    unit: Unit = "ms",
    hierarchy: HierarchyPath = None,
    strategy: Strategy = "auto",
    on_spark: Annotated[bool, typer.Option("--spark", help="How Spark splits it, and what is pushed to the files.")] = False,
) -> None:
    """Show the plan of each query, its alternatives and why it was taken."""
    queries = _read_queries(query, text)
    concepts = _read_hierarchy(hierarchy)
    if on_spark:
        import seqube.spark as sqs
        from seqube.spark.failures import spark_errors
        from seqube.spark.ingest import read_files

        columns = {"type": type_column, "time": time_column, "unit": unit}
        with spark_errors(events):
            frame = read_files(sqs.session(), events)
            for name, parsed in queries.items():
                print(f"-- name: {name}\n{sqs.explain(parsed, frame, hierarchy=concepts, strategy=strategy, **columns)}")  # noqa: T201
        return
    import seqube as sq

    stream = sq.Events(events, type=type_column, time=time_column, unit=unit)
    for name, parsed in queries.items():
        print(f"-- name: {name}\n{sq.explain(parsed, stream, hierarchy=concepts, strategy=strategy)}")  # noqa: T201


@program.command()
def forecast(
    rules: Annotated[Path, typer.Argument(metavar="RULES.yaml")],
    events: EventsPath,
    type_column: TypeColumn = "type",
    time_column: TimeColumn = "ts",
    unit: Unit = "ms",
    hierarchy: HierarchyPath = None,
    folder: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Write predictions, outcomes and quality there.")
    ] = None,
    file_format: Annotated[Format, typer.Option("--format", help="The kind of file that --out writes.")] = Format.parquet,
    strategy: Strategy = "auto",
    limit: Annotated[int | None, typer.Option(min=0, help="At most so many predictions.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
    on_spark: OnSpark = False,
) -> None:
    """Predict what comes next by episode rules, and say how the predictions turned out (on Spark: only predict)."""
    import seqube as sq
    from seqube.predict.forecasts import read_rules

    known, concepts = read_rules(rules), _read_hierarchy(hierarchy)
    if on_spark:
        place = None if folder is None else _places(folder, ["predictions"], file_format)["predictions"]
        found = _forecast_on_spark(known, events, place, type_column, time_column, unit, concepts, strategy, limit)
        if as_json:
            rows = {} if place else {"predictions": _plain(found.tables["predictions"].to_pylist())}
            _print_json({"events": found.n_events, "count": found.totals["predictions"]} | rows)
        elif place is not None:
            out.print(f"predictions in {place}", highlight=False, soft_wrap=True, markup=False)
        else:
            _show("predictions", found.tables["predictions"], found.totals["predictions"])
        return
    stream = sq.Events(events, type=type_column, time=time_column, unit=unit)
    with Progress(console=err, transient=True) as bar:
        task = bar.add_task("Predicting", total=len(stream))
        forecasts = sq.forecast(
            known, stream, hierarchy=concepts, strategy=strategy, progress=lambda done, _: bar.update(task, completed=done)
        )
    n_predictions = forecasts.table.num_rows
    tables = {"predictions": forecasts.table.slice(0, limit), "outcomes": forecasts.outcomes, "quality": forecasts.quality}
    if folder is not None:
        for name, place in _places(folder, list(tables), file_format).items():
            _write(tables[name], place)
    if as_json:
        shown = ("quality",) if folder is not None else ("predictions", "quality")
        _print_json({"events": len(stream), "count": n_predictions} | {name: _plain(tables[name].to_pylist()) for name in shown})
        return
    if folder is None:
        _show("predictions", tables["predictions"].slice(0, SHOWN_ROWS if limit is None else limit), n_predictions)
    _show("quality", forecasts.quality.slice(0, SHOWN_ROWS), forecasts.quality.num_rows)


def _forecast_on_spark(
    rules: Rules,
    events: str,
    place: Path | None,
    type_column: str,
    time_column: str,
    unit: str,
    concepts: Hierarchy | None,
    strategy: str,
    limit: int | None,
) -> _Found:
    import seqube.spark as sqs
    from seqube.spark import batch, forecasting, ingest
    from seqube.spark.failures import spark_errors

    with err.status("Starting Spark"):
        spark = sqs.session()
    with err.status("Reading events"), spark_errors(events):
        source = ingest.read_source(ingest.read_files(spark, events), type_column, time_column, unit)
        n_events, reasons, _ = source.tally()
    with err.status(f"Predicting over {n_events:,} events"), spark_errors(events):
        frame = forecasting.forecast(rules, source, concepts, strategy).persist()
        n_predictions = frame.count()
        chosen = frame if limit is None else frame.limit(limit)
        if place is not None:
            batch.write_frame(chosen, str(place.resolve()), place.suffix[1:])
        shown = chosen.limit(0 if place else n_predictions if limit is not None else SHOWN_ROWS).toArrow()
        frame.unpersist()
    return _Found(n_events, reasons, {"predictions": n_predictions}, {"predictions": shown}, {})


@program.command()
def mine(
    events: EventsPath,
    path: Annotated[Path, typer.Option("--out", metavar="RULES.yaml", help="The rule file to write.")],
    window: Annotated[str, typer.Option(help="How long an episode may take: 10 min, 500 ms, ...")],
    min_support: Annotated[float, typer.Option(help="Occurrences, or a share of all events if below 1.")],
    min_confidence: Annotated[float, typer.Option(min=0, max=1, help="How often the consequent must have followed.")],
    horizon: Annotated[str | None, typer.Option(help="How long the whole rule may take; the window unless given.")] = None,
    max_events: Annotated[int, typer.Option(min=1, help="Events in the largest predicate.")] = 3,
    limit: Annotated[int | None, typer.Option(min=1, help="At most so many rules, the most certain first.")] = None,
    partition_by: Annotated[list[str] | None, typer.Option(metavar="COL", help="One stream per value of this column.")] = None,
    type_column: TypeColumn = "type",
    time_column: TimeColumn = "ts",
    unit: Unit = "ms",
    on_spark: OnSpark = False,
) -> None:
    """Learn episode rules from events, and write them as a file that `forecast` reads."""
    columns: dict[str, Any] = {"type": type_column, "time": time_column, "unit": unit}
    wanted: dict[str, Any] = {"horizon": horizon, "max_events": max_events, "limit": limit, "partition_by": partition_by or ()}
    with err.status("Reading events") as status:

        def show(size: int, n_episodes: int) -> None:
            status.update(f"Counting {n_episodes:,} episodes of {size} events")

        if on_spark:
            import seqube.spark as sqs
            from seqube.spark.failures import spark_errors
            from seqube.spark.ingest import read_files

            with spark_errors(events):
                frame = read_files(sqs.session(), events)
                rules = sqs.mine(frame, window, min_support, min_confidence, progress=show, **columns, **wanted)
        else:
            import seqube as sq

            stream = sq.Events(events, **columns)
            status.update(f"Learning from {len(stream):,} events")
            rules = sq.mine(stream, window, min_support, min_confidence, progress=show, **wanted)
    rules.save(path)
    out.print(f"{len(rules):,} rules in {path}", highlight=False, soft_wrap=True, markup=False)


@program.command()
def generate(
    kind: Annotated[str, typer.Argument(metavar="stock|hospital|transit|traffic")],
    path: Annotated[Path, typer.Option("--out", metavar="FILE", help="Its ending says which kind: .parquet, .csv or .json.")],
    n: Annotated[int, typer.Option("--events", metavar="N", min=0)] = 100_000,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same events.")] = 0,
) -> None:
    """Write generated events to a file."""
    from seqube.generate import KINDS
    from seqube.generate import generate as draw

    if kind not in KINDS:
        raise typer.BadParameter(f"{kind!r} is none of {', '.join(KINDS)}")
    if path.suffix[1:] not in set(Format):
        raise typer.BadParameter(f"the ending of {path.name!r} is none of {', '.join(Format)}", param_hint="--out")
    _write(draw(kind, n, seed), path)
    out.print(f"{n:,} events in {path}", highlight=False, soft_wrap=True, markup=False)


@program.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []})
def explore(context: typer.Context) -> None:
    """Open the page for writing queries and looking at what they find, on 127.0.0.1."""
    import runpy

    # The page is a program of its own: it and the command line know nothing of each other.
    sys.argv = ["seqube explore", *context.args]
    runpy.run_module("seqube.explorer.server", run_name="__main__")


@program.command()
def pipeline(
    path: Annotated[Path, typer.Argument(metavar="PIPELINE.yaml")],
    once: Annotated[bool, typer.Option("--once", help="As a batch over what is there now, instead of a stream.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Run a declared pipeline: source, checks, queries, sinks. As a stream it goes on where it stopped; Ctrl-C stops it."""
    from seqube.spark.streaming.declaration import read_declaration
    from seqube.spark.streaming.pipeline import Counts, run_once, run_stream

    declared = read_declaration(path)

    def report(number: int, counts: Counts) -> None:
        if not as_json:
            err.print(f"batch {number}: {_counted(counts)}", highlight=False, soft_wrap=True, markup=False)

    with err.status(f"Running {path}; Ctrl-C stops it"):
        counts = run_once(declared) if once else run_stream(declared, report)
    if as_json:
        _print_json(asdict(counts))
    else:
        out.print(_counted(counts), highlight=False, soft_wrap=True, markup=False)


def _counted(counts: Any) -> str:
    parts = [
        f"{value:,} {name}"
        for name in ("read", "used", "irrelevant", "late", "quarantined")
        if (value := getattr(counts, name)) is not None
    ]
    found = {**(counts.matches or {}), **({"forecasts": counts.forecasts} if counts.forecasts else {})}
    return ", ".join(parts) + "".join(f"; {name}: {n:,}" for name, n in found.items())


@program.command()
def bench(
    suite: Annotated[str | None, typer.Argument(metavar="SUITE", help="One workload; all of them by default.")] = None,
    peers: Annotated[bool, typer.Option(help="Measure other systems beside it.")] = False,
) -> None:
    """Measure, and write the report."""
    import subprocess

    root = Path(__file__).resolve().parents[2]
    if not (root / "bench" / "__main__.py").exists():
        raise PlanError("the benchmarks come with the source, not with the package\n  hint: run this in a checkout of Seqube")
    chosen = [] if suite is None else [suite] + ["peers"] * (peers and suite != "peers")
    alone = ["--no-peers"] * (suite is None and not peers)
    raise typer.Exit(subprocess.run([sys.executable, "-m", "bench", *alone, *chosen], cwd=root, check=False).returncode)  # noqa: S603


@program.command()
def demo() -> None:
    """Take a tour on generated data."""
    from seqube.tour import take_tour

    take_tour(out)


# ---------------------------------------------------------------- what comes in


def _read_queries(path: Path | None, text: str | None) -> dict[str, Query]:
    from seqube.language import parse_file

    if (path is None) == (text is None):
        raise typer.BadParameter("give a query file or --query TEXT, one of the two")
    if path is not None:
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise typer.BadParameter(f"cannot read the query file {path}: {error}") from None
    assert text is not None
    try:
        return parse_file(text)
    except QueryError:
        if path is not None:
            _note(f"in {path}:")
        raise


def _read_hierarchy(path: Path | None) -> Hierarchy | None:
    import seqube as sq

    return None if path is None else sq.Hierarchy.load(path)


# ---------------------------------------------------------------- what goes out


def _places(folder: Path, names: list[str], file_format: Format) -> dict[str, Path]:
    """A file for each name, without the characters that files cannot have."""
    places: dict[str, Path] = {}
    for name in names:
        path = folder / ("".join(letter if letter.isalnum() or letter in "._-" else "_" for letter in name) + f".{file_format}")
        if path in places.values():
            raise PlanError(f"two results would be written to {path}\n  hint: give the query {name!r} another name")
        places[name] = path
    return places


def _write(table: pa.Table, path: Path) -> None:
    """Write a table in the format that the path's ending names; a file is there whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        match path.suffix:
            case ".parquet":
                from pyarrow import parquet

                parquet.write_table(table, draft)
            case ".csv":
                from pyarrow import csv

                csv.write_csv(_flatten(table), draft)
            case _:  # JSON, an object a line
                with draft.open("w", encoding="utf-8") as file:
                    for batch in table.to_batches(max_chunksize=10_000):
                        file.writelines(json.dumps(_plain(row)) + "\n" for row in batch.to_pylist())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def _flatten(table: pa.Table) -> pa.Table:
    """Structs as columns of their own (`r.id`), since CSV has no others; lists and the like as JSON."""
    import pyarrow as pa

    while any(pa.types.is_struct(field.type) for field in table.schema):
        table = table.flatten()
    for number, field in enumerate(table.schema):
        if pa.types.is_nested(field.type):
            texts = [None if value is None else json.dumps(_plain(value)) for value in table.column(number).to_pylist()]
            table = table.set_column(number, field.name, pa.array(texts, pa.string()))
    return table


def _plain(value: Any) -> Any:
    """A value as JSON can hold it: times in ISO form, what is no number as null, anything unusual as text."""
    match value:
        case dict():
            return {str(key): _plain(inner) for key, inner in value.items()}
        case list() | tuple():
            return [_plain(inner) for inner in value]
        case float():
            return value if math.isfinite(value) else None
        case None | bool() | int() | str():
            return value
        case datetime.datetime() | datetime.date() | datetime.time():
            return value.isoformat()
        case _:
            return str(value)


def _note(message: str) -> None:
    """A line on stderr just as it is: carets must stay where they are, so nothing is wrapped or coloured."""
    print(message, file=sys.stderr)  # noqa: T201


def _print_json(document: dict[str, Any]) -> None:
    print(json.dumps(document))  # noqa: T201


def _show(name: str, table: pa.Table, total: int) -> None:
    """The first rows as a table on the terminal; a struct is shown as its columns' values."""
    out.print(f"{name}: {total:,} rows", style="bold", highlight=False, markup=False)
    shown = Table(header_style="bold")
    for column in table.column_names:
        shown.add_column(escape(column), overflow="fold")
    for row in table.to_pylist():
        shown.add_row(*(escape(_brief(value)) for value in row.values()))
    if table.num_rows:
        out.print(shown)
    if total > table.num_rows:
        out.print(
            f"... and {total - table.num_rows:,} more (--limit N shows N, --out DIR writes all)", style="dim", highlight=False
        )


def _brief(value: Any) -> str:
    if isinstance(value, dict):
        return " ".join(f"{name}={_brief(inner)}" for name, inner in value.items() if inner is not None)
    return "" if value is None else str(value)
