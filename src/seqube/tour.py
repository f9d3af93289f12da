"""The tour that `seqube demo` takes: five stops on generated data, each a question, its query and the answer.

It runs on Spark in this machine; the second stop is in this process, to show the pace of the loops alone. Every number shown is
computed while you watch; the last stop makes a mistake on purpose, to show what a mistake looks like.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from rich.console import Console, Group
from rich.markup import escape
from rich.panel import Panel
from rich.rule import Rule
from rich.table import Table

import seqube as sq
import seqube.spark as sqs
from seqube.generate import generate, hierarchy

HYGIENE = """\
PATTERN   SEQ(Recycle r, Wash w,
              !SEQ(Sharpen s, Disinfect d, Check c, s.id = d.id = c.id = o.id),
              Operate o, r.id = w.id = o.id)
WHERE     o.instrument = 'surgery'
WITHIN    90 min
RETURN    r.id AS tool, o.ward AS ward, o.ts AS used, o.ts - r.ts AS lag"""

SHOCK_WAVE = """\
PATTERN   SEQ(Jam a, Jam b, Jam c)
WHERE     b.station = a.station - 1 AND c.station = b.station - 1
          AND a.lane = b.lane = c.lane
WITHIN    5 min
RETURN    a.station AS station, a.lane AS lane,
          a.ts AS began, c.ts AS ended"""

TRADES = "SEQ(DELL, IPIX, QQQ) WITHIN 100 ms"

JOURNEYS = {
    "Texas, Oklahoma": "SEQ(TX a, OK b, [id]) WITHIN 48 h",
    "Dallas, Tulsa": "SEQ(D a, T b, [id]) WITHIN 48 h",
    "Galveston, Austin, Tulsa": "SEQ(G a, A b, T c, [id]) WITHIN 48 h",
    "... not by Dallas": "SEQ(G a, A b, !D x, T c, [id]) WITHIN 48 h",
    "... by Dallas": "SEQ(G a, A b, D c, T d, [id]) WITHIN 48 h",
}

MISTAKE = "PATTERN SEQ(Recycle r, Wash w, r.id = x.id) WITHIN 1 hour"


def take_tour(out: Console) -> None:
    started = time.perf_counter()
    out.print(Rule("Seqube: a tour"))
    with out.status("Starting Spark"):
        spark = sqs.session("seqube-demo")
    out.print(f"Spark {spark.version}, started in {time.perf_counter() - started:.1f} s", style="dim", highlight=False)

    tools = _draw(out, "hospital", 20_000)
    found, seconds = _run_on_spark(out, HYGIENE, tools)
    _stop(out, 1, "Which surgical tools were used again without sharpening, disinfection and check?", HYGIENE)
    _rows(out, found.sort_by("used"), 5)
    _pace(out, len(tools), len(found), seconds)

    trades = _draw(out, "stock", 1_000_000, unit="ms")
    found, seconds = _run(TRADES, trades)
    _stop(out, 2, "How often is DELL followed by IPIX followed by QQQ? Every combination counts. (In this process.)", TRADES)
    _pace(out, len(trades), len(found), seconds)

    travellers = _draw(out, "transit", 20_000)
    places = sq.Hierarchy.from_dict(hierarchy("transit"))
    results, seconds = _run_on_spark(out, JOURNEYS, travellers, hierarchy=places)
    _stop(out, 3, "How do people travel? Queries over concepts: a state stands for its cities, a city for its places.")
    _journeys(out, results)
    _pace(out, len(travellers), sum(len(results[name]) for name in JOURNEYS), seconds)

    road = _draw(out, "traffic", 50_000)
    found, seconds = _run_on_spark(out, SHOCK_WAVE, road)
    _stop(out, 4, "Where do queues grow against the traffic? Many detectors report at the same instant.", SHOCK_WAVE)
    _rows(out, found.sort_by("began"), 5)
    _pace(out, len(road), len(found), seconds)
    out.print("How it was run:", style="bold")
    out.print(str(sq.explain(SHOCK_WAVE, road)), markup=False, highlight=False)

    _stop(out, 5, "And if a query is wrong?", MISTAKE)
    try:
        sq.parse(MISTAKE)
    except sq.QueryError as error:
        out.print(f"QueryError: {error}", style="red", markup=False, highlight=False)

    out.print(Rule(f"{time.perf_counter() - started:.1f} s"))
    out.print("Next: README.md, or [bold]seqube generate stock --out trades.parquet[/] and [bold]seqube run --help[/]")


def _draw(out: Console, kind: str, n: int, unit: str = "ms") -> sq.Events:
    with out.status(f"Drawing {n:,} events"):
        return sq.Events(generate(kind, n, seed=2026), unit=unit)


def _run(query: str | Mapping[str, str], events: sq.Events, **options: Any) -> tuple[Any, float]:
    sq.run(query, events.slice(0, 500), **options)  # the first run on a machine compiles its loops; that is not what is shown here
    before = time.perf_counter()
    result = sq.run(query, events, **options)
    for each in [result] if isinstance(result, sq.Result) else result.values():
        _ = each.table  # all rows, not the first
    return result, time.perf_counter() - before


def _run_on_spark(out: Console, query: str | Mapping[str, str], events: sq.Events, **options: Any) -> tuple[Any, float]:
    """The rows of a query, or of several by name, all read and shuffled together."""
    spark = sqs.session()
    with out.status(f"Matching {len(events):,} events on Spark"):
        frame = spark.createDataFrame(events.table)
        before = time.perf_counter()
        if isinstance(query, str):
            return sqs.run(query, frame, **options).toArrow(), time.perf_counter() - before
        tables = sqs.run(query, frame, **options)
        found = {name: table.toArrow() for name, table in tables.items()}
        tables.unpersist()
        return found, time.perf_counter() - before


def _stop(out: Console, number: int, question: str, query: str | None = None) -> None:
    heading = f"[bold]{number}. {escape(question)}[/]"
    out.print()
    out.print(Panel(Group(heading, "", escape(query)) if query else heading, border_style="cyan"))


def _rows(out: Console, table: pa.Table, limit: int) -> None:
    shown = Table(header_style="bold")
    for name in table.column_names:
        shown.add_column(name)
    for row in table.slice(0, limit).to_pylist():
        shown.add_row(*(escape(str(value)) for value in row.values()))
    out.print(shown)


def _journeys(out: Console, results: Any) -> None:
    shown = Table("journey", "query", "matches", header_style="bold")
    shown.columns[-1].justify = "right"
    for name, query in JOURNEYS.items():
        shown.add_row(escape(name), escape(query), f"{len(results[name]):,}")
    out.print(shown)


def _pace(out: Console, n_events: int, n_matches: int, seconds: float) -> None:
    out.print(f"{n_matches:,} matches in {n_events:,} events, {seconds * 1000:,.0f} ms", style="green", highlight=False)
