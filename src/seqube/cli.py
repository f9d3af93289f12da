"""The command line: a person -> everything else.

Commands work in this process unless `--spark` is given; `pipeline` and `demo` work on Spark.

What a command is asked for goes to stdout, everything about how it went (progress, notes, rejected rows, errors) to stderr. Exit
codes: 0 done; 1 failed while running; 2 the query or the usage is wrong. Errors come without a traceback; SEQUBE_DEBUG=1 shows it.
"""

from __future__ import annotations

import os
import re
import sys
import warnings
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.progress import Progress

from seqube.engine.jsonable import plain
from seqube.engine.limits import LIMITS
from seqube.errors import DataError, LimitError, PlanError, SequbeError, SequbeWarning
from seqube.finding import PRINTED_ROWS, REJECTED, RunRequest, find_here, find_on_spark, predict_on_spark
from seqube.options import (
    Conf,
    EventsPath,
    HierarchyPath,
    Master,
    OnSpark,
    Param,
    QueryFile,
    QueryText,
    StrategyName,
    TimeColumn,
    TypeColumn,
    Unit,
    concepts_from,
    from_stdin,
    named_values,
    params_from,
    queries_from,
    settings_of,
    spark_settings,
    text_from,
)
from seqube.output import Format, err, note, out, places_for, print_json, print_table, show, write

FAILED, WRONG = 1, 2
MOST = 10**12  # of rows that anybody can ask for

program = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


def app() -> None:
    """Run the command that was typed, and turn errors into a message and an exit code."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", SequbeWarning)
            warnings.showwarning = _tell  # type: ignore[assignment]  # where it was raised is of no use here
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


def _tell(message: Warning | str, *where: object) -> None:
    """A warning as a note."""
    note(f"note: {_as_options(str(message))}")


def _as_options(message: str) -> str:
    """What is an argument in Python is an option here."""
    message = re.sub(
        r"\b(min_support|min_confidence|min_lift|min_gain)\b", lambda found: f"--{found[1].replace('_', '-')}", message
    )
    return re.sub(r'\b(type|time|unit|within)="([^"]*)"', lambda found: f"--{found[1]} {found[2].replace('...', 'COL')}", message)


def _fail(kind: str, message: str, code: int) -> NoReturn:
    message = _as_options(message)
    if "--json" in sys.argv:
        print_json({"error": {"kind": kind, "message": message}})
    note(f"{kind}: {message}")
    raise SystemExit(code)


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
    file_format: Annotated[
        Format | None, typer.Option("--format", help="What --out writes, parquet unless given; without --out, what is printed.")
    ] = None,
    strategy: StrategyName = "auto",
    param: Param = None,
    limit: Annotated[int | None, typer.Option(min=0, max=MOST, help="At most so many rows of each result.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
    on_spark: OnSpark = False,
    master: Master = None,
    conf: Conf = None,
    max_matches: Annotated[int | None, typer.Option(min=0, help="Stop at a result of more rows; on Spark, of a task.")] = None,
    max_state_bytes: Annotated[int | None, typer.Option(min=0, help="Stop a query, or task, that holds more memory.")] = None,
    max_seconds: Annotated[float | None, typer.Option(min=0, help="Stop a query, or task, that takes longer.")] = None,
    truncate: Annotated[bool, typer.Option("--truncate", help="At a limit, keep the matches so far; not with --spark.")] = False,
) -> None:
    """Run queries over events, and show or write their results."""
    queries = queries_from(query, text, param)
    asked: dict[str, Any] = {"max_matches": max_matches, "max_state_bytes": max_state_bytes, "max_seconds": max_seconds}
    asked |= {"on_limit": "truncate"} if truncate else {}
    limits = replace(LIMITS, **{name: value for name, value in asked.items() if value is not None})
    settings = spark_settings(on_spark, master, conf)
    if truncate and on_spark:
        raise typer.BadParameter("what tasks of Spark give cannot be cut short and marked", param_hint="--truncate with --spark")
    if folder is None and file_format is not None and (file_format is Format.parquet or len(queries) > 1 or as_json):
        what = "parquet" if file_format is Format.parquet else "--json" if as_json else "several queries"
        raise typer.BadParameter("with --out DIR there is a file for each query", param_hint=f"--format without --out, and {what}")
    concepts = concepts_from(hierarchy)
    places = places_for(folder, [*queries, REJECTED], file_format or Format.parquet) if folder is not None else {}
    asked_for = RunRequest(events, type_column, time_column, unit, concepts, strategy, limit)
    found = (
        find_here(asked_for, queries, limits, places)
        if settings is None
        else find_on_spark(settings, asked_for, queries, limits, places)
    )
    tables = found.tables
    if found.reasons:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in found.reasons.items())
        note(f"note: {sum(found.reasons.values()):,} rows are not events and were rejected ({reasons})")
    for name, said in found.truncated.items():
        note(f"note: {name} is not whole: {said}")
    if as_json:
        print_json(
            {
                "events": found.n_events,
                "rejected": {"count": sum(found.reasons.values()), "reasons": found.reasons},
                "results": {
                    name: {"count": found.totals[name], "columns": table.column_names}
                    | ({"truncated": found.truncated[name]} if name in found.truncated else {})
                    | ({"notes": found.notes[name]} if found.notes.get(name) else {})
                    | ({"file": str(places[name])} if places else {"rows": plain(table.to_pylist())})
                    for name, table in tables.items()
                },
            }
        )
        return
    for name, table in tables.items():
        if folder is None and file_format is not None:
            print_table(table, file_format)
        elif places:
            n_rows = found.totals[name] if limit is None else min(limit, found.totals[name])
            out.print(f"{name}: {n_rows:,} rows in {places[name]}", highlight=False, soft_wrap=True, markup=False)
        else:
            show(name, table.slice(0, PRINTED_ROWS if limit is None else limit), found.totals[name])


@program.command()
def check(
    query: QueryFile = None,
    text: QueryText = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Parse and bind queries, and print their canonical text."""
    if as_json:
        _check_as_json(query, text)
    for name, parsed in queries_from(query, text).items():
        print(f"-- name: {name}\n{parsed}")  # noqa: T201


def _check_as_json(query: Path | None, text: str | None) -> NoReturn:
    """What an editor asks for: the queries that are right, by name, and every problem of the others with its place."""
    from seqube.language.files import read_file
    from seqube.language.parameters import parameters_of

    queries, problems = read_file(text_from(query, text))
    right = {name: {"text": str(each), "parameters": parameters_of(each)} for name, each in queries.items()}
    wrong = [
        {"query": name, "message": each.message, "hint": each.hint} | (asdict(each.at) if each.at is not None else {})
        for name, each in problems
    ]
    print_json({"queries": right, "problems": wrong})
    raise SystemExit(WRONG if wrong else 0)


@program.command()
def explain(
    events: EventsPath,
    query: QueryFile = None,
    text: QueryText = None,
    type_column: TypeColumn = "type",
    time_column: TimeColumn = "ts",
    unit: Unit = "ms",
    hierarchy: HierarchyPath = None,
    strategy: StrategyName = "auto",
    param: Param = None,
    on_spark: Annotated[bool, typer.Option("--spark", help="How Spark splits it, and what is pushed to the files.")] = False,
    master: Master = None,
    conf: Conf = None,
) -> None:
    """Show the plan of each query, its alternatives and why it was taken."""
    queries = queries_from(query, text, param)
    concepts = concepts_from(hierarchy)
    settings = spark_settings(on_spark, master, conf)
    if settings is not None:
        import seqube.spark as sqs
        from seqube.spark.failures import spark_errors
        from seqube.spark.ingest import load_files

        columns: dict[str, Any] = {"type": type_column, "time": time_column, "unit": unit}
        with spark_errors(events):
            frame = load_files(sqs.session(**settings), events, time_column)
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
    strategy: StrategyName = "auto",
    param: Param = None,
    limit: Annotated[int | None, typer.Option(min=0, max=MOST, help="At most so many predictions.")] = None,
    key: Annotated[
        str | None, typer.Option(metavar="KEY", help="What comes next for this key alone: its own events, by its rules.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
    on_spark: OnSpark = False,
    master: Master = None,
    conf: Conf = None,
) -> None:
    """Predict what comes next by episode rules, and say how the predictions turned out (on Spark: only predict)."""
    import seqube as sq

    known, concepts, settings = (
        sq.Rules.load(rules, params=params_from(param)),
        concepts_from(hierarchy),
        spark_settings(on_spark, master, conf),
    )
    if settings is not None:
        if key is not None:
            raise typer.BadParameter("the events of one key need no Spark", param_hint="--key with --spark")
        place = None if folder is None else places_for(folder, ["predictions"], file_format)["predictions"]
        found = predict_on_spark(
            settings, RunRequest(events, type_column, time_column, unit, concepts, strategy, limit), known, place
        )
        if as_json:
            rows = {} if place else {"predictions": plain(found.tables["predictions"].to_pylist())}
            print_json({"events": found.n_events, "count": found.totals["predictions"]} | rows)
        elif place is not None:
            out.print(f"predictions in {place}", highlight=False, soft_wrap=True, markup=False)
        else:
            show("predictions", found.tables["predictions"], found.totals["predictions"])
        return
    stream = sq.Events(events, type=type_column, time=time_column, unit=unit)
    with Progress(console=err, transient=True) as bar:
        task = bar.add_task("Predicting", total=len(stream))
        forecasts = sq.forecast(
            known, stream, hierarchy=concepts, strategy=strategy, key=key, progress=lambda done, _: bar.update(task, completed=done)
        )
    n_predictions = forecasts.table.num_rows
    tables = {"predictions": forecasts.table.slice(0, limit), "outcomes": forecasts.outcomes, "quality": forecasts.quality}
    tables |= {"expected": forecasts.expected} if key is not None else {}
    if folder is not None:
        for name, place in places_for(folder, list(tables), file_format).items():
            write(tables[name], place)
    if as_json:
        shown = ("quality",) if folder is not None else tuple(name for name in tables if name != "outcomes")
        print_json({"events": len(stream), "count": n_predictions} | {name: plain(tables[name].to_pylist()) for name in shown})
        return
    if folder is None:
        show("predictions", tables["predictions"].slice(0, PRINTED_ROWS if limit is None else limit), n_predictions)
    last = "quality" if key is None else "expected"
    show(last, tables[last].slice(0, PRINTED_ROWS), tables[last].num_rows)


@program.command()
def watch(
    query: QueryFile = None,
    text: QueryText = None,
    lateness: Annotated[str, typer.Option(metavar="D", help="By how much events may come out of order: 5 s, 10 min ...")] = "0",
    path: Annotated[Path | None, typer.Option("--follow", metavar="FILE", help="A growing file, instead of stdin.")] = None,
    type_column: TypeColumn = "type",
    time_column: TimeColumn = "ts",
    unit: Unit = "ms",
    hierarchy: HierarchyPath = None,
    strategy: StrategyName = "auto",
) -> None:
    """Read events as JSON lines, and print what queries find as JSON lines, when it is final. Ctrl-C ends it."""
    import seqube as sq
    from seqube.watch import watch_lines

    columns: dict[str, Any] = {"type": type_column, "time": time_column, "unit": unit}
    queries, concepts = queries_from(query, text), concepts_from(hierarchy)
    stream = sq.Stream(queries, hierarchy=concepts, lateness=lateness, strategy=strategy, **columns)
    note(watch_lines(stream, path, (type_column, time_column)))


@program.command()
def mine(
    events: EventsPath,
    path: Annotated[Path, typer.Option("--out", metavar="RULES.yaml", help="The rule file to write.")],
    window: Annotated[str, typer.Option(help="How long an episode may take: 10 min, 500 ms, ...")],
    min_support: Annotated[float, typer.Option(help="Occurrences, or a share of all events if below 1.")],
    min_confidence: Annotated[float, typer.Option(min=0, max=1, help="How often the consequent must have followed.")],
    horizon: Annotated[str | None, typer.Option(help="How long the whole rule may take; the window unless given.")] = None,
    max_events: Annotated[int, typer.Option(min=1, help="Events in the largest predicate.")] = 3,
    min_lift: Annotated[
        float, typer.Option(min=0, help="How many times more often than after any event it must have followed.")
    ] = 0,
    min_gain: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="How much more certain than any rule with part of its events; 0: no redundant ones."),
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="At most so many rules, the most certain first.")] = None,
    partition_by: Annotated[list[str] | None, typer.Option(metavar="COL", help="One stream per value of this column.")] = None,
    type_column: TypeColumn = "type",
    time_column: TimeColumn = "ts",
    unit: Unit = "ms",
    on_spark: OnSpark = False,
    master: Master = None,
    conf: Conf = None,
) -> None:
    """Learn episode rules from events, and write them as a file that `forecast` reads."""
    settings = spark_settings(on_spark, master, conf)
    columns: dict[str, Any] = {"type": type_column, "time": time_column, "unit": unit}
    wanted: dict[str, Any] = {"horizon": horizon, "max_events": max_events, "limit": limit, "partition_by": partition_by or ()}
    wanted |= {"min_lift": min_lift, "min_gain": min_gain}
    with err.status("Reading events") as status:

        def show(size: int, n_episodes: int) -> None:
            status.update(f"Counting {n_episodes:,} episodes of {size} events")

        if settings is not None:
            import seqube.spark as sqs
            from seqube.spark.failures import spark_errors
            from seqube.spark.ingest import load_files

            with spark_errors(events):
                frame = load_files(sqs.session(**settings), events, columns["time"])
                rules = sqs.mine(frame, window, min_support, min_confidence, progress=show, **columns, **wanted)
        else:
            import seqube as sq

            stream = sq.Events(events, **columns)
            status.update(f"Learning from {len(stream):,} events")
            rules = sq.mine(stream, window, min_support, min_confidence, progress=show, **wanted)
    rules.save(path)
    out.print(f"{len(rules):,} rules in {path}", highlight=False, soft_wrap=True, markup=False)


@program.command()
def funnel(
    steps: Annotated[list[str], typer.Argument(metavar="STEP...", help="Event types, in order.")],
    events: EventsPath,
    by: Annotated[list[str], typer.Option(metavar="COL", help="Whose events they are; may be given more than once.")],
    within: Annotated[str, typer.Option(metavar="D", help="How long all steps may take: 30 min, 2 days, ...")],
    mode: Annotated[
        str, typer.Option(help="next: the first event that fits; strict: consecutive events; any: some way through.")
    ] = "next",
    without: Annotated[
        list[str] | None, typer.Option(metavar="N=TYPE", help="What must not occur before step N; may be given more than once.")
    ] = None,
    breakdown: Annotated[str | None, typer.Option(metavar="COL", help="A funnel for each of its values at the first step.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
    type_column: TypeColumn = "type",
    time_column: TimeColumn = "ts",
    unit: Unit = "ms",
    hierarchy: HierarchyPath = None,
) -> None:
    """Count how many keys got how far through some steps, and how long they took."""
    import seqube as sq

    excluded: dict[int, list[str]] = {}
    for item in without or ():
        number, _, name = item.partition("=")
        if not number.isdecimal() or not name:
            raise PlanError(f"--without {item!r} is not a step and a type\n  hint: --without 2=logout")
        excluded.setdefault(int(number), []).append(name)
    columns: dict[str, Any] = {"type": type_column, "time": time_column, "unit": unit, "hierarchy": concepts_from(hierarchy)}
    with err.status("Reading events"):
        found = sq.funnel(events, steps, by=by, within=within, mode=mode, without=excluded, breakdown=breakdown, **columns)
    if as_json:
        print_json({"funnel": plain(found.table.to_pylist())})
    else:
        show("funnel", found.table, len(found))


@program.command()
def sql(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="A statement, with MATCH_RECOGNIZE or SEQUBE(...) in it or not.")],
    table: Annotated[
        list[str] | None, typer.Option("--table", metavar="NAME=PATH", help="A table; may be given more than once.")
    ] = None,
    limit: Annotated[int, typer.Option(min=0, max=MOST, help="How many rows to print.")] = PRINTED_ROWS,
    to: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write the rows to a csv, json or parquet file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Run a SQL statement over files: row patterns (MATCH_RECOGNIZE) and queries in it are Seqube's, the rest is DuckDB's."""
    import seqube as sq

    tables: dict[str, Any] = {name: from_stdin(path) for name, path in named_values(table, "--table").items()}
    found = sq.sql(text, **tables)
    if to is not None:
        if to.suffix[1:] not in set(Format):
            raise typer.BadParameter(f"the ending of {to.name!r} is none of {', '.join(Format)}", param_hint="--out")
        write(found, to)
    if as_json:
        print_json({"count": found.num_rows, "rows": plain(found.slice(0, limit).to_pylist())})
    elif found.column_names == ["plan"]:
        out.print("\n".join(found["plan"].to_pylist()), highlight=False, soft_wrap=True, markup=False)
    elif to is None:
        show("result", found.slice(0, limit), found.num_rows)


@program.command()
def generate(
    kind: Annotated[str, typer.Argument(metavar="stock|hospital|transit|traffic")],
    path: Annotated[Path, typer.Option("--out", metavar="FILE", help="Its ending says which kind: .parquet, .csv or .json.")],
    n: Annotated[int, typer.Option("--events", metavar="N", min=0, max=MOST)] = 100_000,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same events.")] = 0,
) -> None:
    """Write generated events to a file."""
    from seqube.generate import KINDS_OF_DATA
    from seqube.generate import generate as draw

    if kind not in KINDS_OF_DATA:
        raise typer.BadParameter(f"{kind!r} is none of {', '.join(KINDS_OF_DATA)}")
    if path.suffix[1:] not in set(Format):
        raise typer.BadParameter(f"the ending of {path.name!r} is none of {', '.join(Format)}", param_hint="--out")
    write(draw(kind, n, seed), path)
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
    drain: Annotated[
        bool, typer.Option("--drain", help="Take what is there, and decide at the end what waits for events that could still come.")
    ] = False,
    rescale: Annotated[
        int | None,
        typer.Option(
            "--rescale",
            metavar="N",
            help="Cut the state of a stream that has stopped into N buckets, and end; the next start goes on.",
        ),
    ] = None,
    master: Master = None,
    conf: Conf = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Run a declared pipeline on Spark: source, checks, queries, sinks. A stream goes on where it stopped; Ctrl-C stops it."""
    import seqube.spark as sqs
    from seqube.spark.streaming.changes import WorkloadChange
    from seqube.spark.streaming.declaration import AVAILABLE_NOW, read_declaration
    from seqube.spark.streaming.pipeline import Counts, run_once, run_stream

    declared, settings = read_declaration(path), settings_of(master, conf)
    if rescale is not None:
        if once or drain:
            raise PlanError("--rescale runs nothing\n  hint: start the pipeline again, without --rescale")
        from seqube.spark.streaming.rescaling import rescale as cut_anew

        with err.status(f"Cutting the state of {path}"):
            cut = cut_anew(declared, rescale, sqs.session(**settings))
        if as_json:
            print_json(asdict(cut))
        else:
            out.print(str(cut), highlight=False, soft_wrap=True, markup=False)
        return
    if drain:
        declared = replace(declared, trigger=AVAILABLE_NOW, drain=True)

    def report(number: int, counts: Counts) -> None:
        if not as_json:
            err.print(f"batch {number}: {_counted(counts)}", highlight=False, soft_wrap=True, markup=False)

    def tell(change: WorkloadChange) -> None:
        note(f"{path}: {change}")

    with err.status(f"Running {path}; Ctrl-C stops it"):
        spark = sqs.session(**settings)
        counts = run_once(declared, spark) if once else run_stream(declared, report, tell=tell, spark=spark)
    if as_json:
        print_json(asdict(counts))
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
def warm(
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes at once; as many as there are cores unless given.")] = None,
    archive: Annotated[
        Path | None, typer.Option("--archive", metavar="FILE.zip", help="Also write what is compiled there, for Spark's executors.")
    ] = None,
) -> None:
    """Compile ahead, for images and for Spark's executors; minutes of CPU, once for each version."""
    from seqube.warming import KINDS_OF_WORK, pack_kernels
    from seqube.warming import warm as compile_ahead

    if archive is not None and not archive.absolute().parent.is_dir():  # known before minutes of work
        raise DataError(f"--archive: there is no folder {str(archive.parent)!r}\n  hint: make it first")
    with err.status(f"Compiling {len(KINDS_OF_WORK)} kinds of work"):
        found = compile_ahead(jobs)
    out.print(f"{found.n_kernels:,} compiled loops in {found.folder}, {found.n_new:,} of them new", highlight=False, soft_wrap=True)
    if archive is not None:
        out.print(f"{pack_kernels(archive):,} compiled loops in {archive}", highlight=False, soft_wrap=True)


@program.command()
def demo() -> None:
    """Take a tour on generated data."""
    from seqube.tour import take_tour

    take_tour(out)
