"""Options that several commands have, and what is read from them: where events are, how Spark is started, names and values."""

from __future__ import annotations

import atexit
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seqube.errors import QueryError
from seqube.finding import Settings
from seqube.output import note

if TYPE_CHECKING:
    from seqube.events import Hierarchy
    from seqube.language import Query


def from_stdin(path: str) -> str:
    """The path of the events; what comes through a pipe is put into a file first, so that it can be read like any other."""
    if path != "-":
        return path
    start = sys.stdin.buffer.read(64)
    kind = "parquet" if start.startswith(b"PAR1") else "json" if start.lstrip().startswith(b"{") else "csv"
    with tempfile.NamedTemporaryFile(suffix=f".{kind}", delete=False) as file:
        atexit.register(Path(file.name).unlink, missing_ok=True)
        file.write(start)
        shutil.copyfileobj(sys.stdin.buffer, file)
    return file.name


QueryFile = Annotated[Path | None, typer.Argument(metavar="QUERY.sqb", help="A file with one query, or several with names.")]
QueryText = Annotated[str | None, typer.Option("--query", metavar="TEXT", help="The query itself, instead of a file.")]
EventsPath = Annotated[
    str, typer.Option("--events", metavar="PATH", callback=from_stdin, help="CSV, JSON lines or Parquet; - reads standard input.")
]
TypeColumn = Annotated[str, typer.Option("--type", metavar="COL", help="The column that holds the event type.")]
TimeColumn = Annotated[str, typer.Option("--time", metavar="COL", help="The column that holds the time.")]
Unit = Annotated[str, typer.Option(help="The unit of an integer time column: us, ms, s ...")]
HierarchyPath = Annotated[Path | None, typer.Option("--hierarchy", metavar="H.yaml", help="The concepts above the event types.")]
OnSpark = Annotated[bool, typer.Option("--spark", help="On Spark, for logs too large for this process.")]
Master = Annotated[str | None, typer.Option(metavar="URL", help="The Spark to use; this machine, local[*], unless given.")]
Conf = Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help="A setting of Spark; may be given more than once.")]
Param = Annotated[
    list[str] | None, typer.Option("--param", metavar="NAME=VALUE", help="A value for :NAME; may be given more than once.")
]
StrategyName = Annotated[str, typer.Option(help="How to evaluate; auto takes the cheapest.")]


def spark_settings(on_spark: bool, master: str | None, conf: list[str] | None) -> Settings | None:
    """Where to work: on a Spark with these settings, or, where it is None, in this process."""
    if on_spark:
        return settings_of(master, conf)
    if master or conf:
        raise typer.BadParameter("this is how Spark is started", param_hint="--master or --conf without --spark")
    return None


def named_values(given: list[str] | None, option: str) -> dict[str, str]:
    found = {}
    for text in given or ():
        key, equals, value = text.partition("=")
        if not (key and equals):
            raise typer.BadParameter(f"{text!r} is not a key, =, and a value", param_hint=option)
        found[key] = value
    return found


def settings_of(master: str | None, conf: list[str] | None) -> Settings:
    return named_values(conf, "--conf") | ({"spark.master": master} if master else {})


def params_from(given: list[str] | None) -> dict[str, Any]:
    """Values for parameters, each of the kind that it is written as."""
    from seqube.language.parameters import read_parameter

    return {name: read_parameter(value) for name, value in named_values(given, "--param").items()}


def text_from(path: Path | None, text: str | None) -> str:
    """The text of the queries: that of a file, or the one that was typed."""
    if (path is None) == (text is None):
        raise typer.BadParameter("give a query file or --query TEXT, one of the two")
    if path is None:
        assert text is not None
        return text
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"cannot read the query file {path}: {error}") from None


def queries_from(path: Path | None, text: str | None, given: list[str] | None = None) -> dict[str, Query]:
    """The queries of a file or a text, with the values that are given for their parameters."""
    from seqube.language import parse_file
    from seqube.language.parameters import fill, refuse_unknown

    text = text_from(path, text)
    try:
        queries, values = parse_file(text), params_from(given)
        refuse_unknown(queries.values(), values)
        return {name: fill(query, values) for name, query in queries.items()}
    except QueryError:
        if path is not None:
            note(f"in {path}:")
        raise


def concepts_from(path: Path | None) -> Hierarchy | None:
    import seqube as sq

    return None if path is None else sq.Hierarchy.load(path)
