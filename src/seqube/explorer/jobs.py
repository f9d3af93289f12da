"""What the worker can do, in the process that holds the events: open, run, explain, funnels, the cube, forecasts.

A job takes plain values and gives plain values back; rows go to an Arrow file in the server's own folder, so that nothing large
passes between the processes. Each job is a method of `Desk`; `worker` calls it by name.
"""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

import seqube as sq
from seqube.engine.display import flat
from seqube.engine.limits import Limits
from seqube.engine.unbuilt import Unbuilt
from seqube.errors import SequbeWarning
from seqube.events import Events
from seqube.explorer.results import for_browser, plain_rows
from seqube.explorer.sources import Source, key_for, window_for
from seqube.explorer.stretches import run_by_stretches
from seqube.language import parse
from seqube.output import flatten
from seqube.plan.aggregates import AggregatePlan
from seqube.plan.explain import Explanation, Step, explain_workload
from seqube.plan.optimizer import ALONE, WorkloadPlan
from seqube.plan.physical import MatchPlan
from seqube.predict import forecast
from seqube.query import plan

MAX_NEIGHBOURS = 60
WARM_UP = 200
ROWS_OF_MANY = 100_000  # that are written of a result that is too large for a file


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a job is: a share of the work, where that can be said, and rows so far."""

    share: float | None
    n_rows: int = 0


@dataclass(frozen=True, slots=True)
class Opened:
    """What the page knows of open events: their shape, never the rows."""

    sample: Events  # no rows, but the columns and the type names: enough to check a query
    n_events: int
    n_rejected: int
    reasons: dict[str, int]
    counts: dict[str, int]
    window: str  # to start with
    key: str | None  # whose events they seem to be
    seconds: float


@dataclass(frozen=True, slots=True)
class Ran:
    """A query's answer: the rows are in the file."""

    text: str  # the query in canonical form
    n_rows: int
    is_aggregate: bool
    noun: str  # what the rows are
    seconds: float
    plan: Explanation
    how: str  # the strategies that were taken, in a few words
    notes: tuple[str, ...] = ()  # what a person should know of it
    groups: tuple[str, ...] = ()  # of an aggregate: the columns that name its groups


@dataclass(frozen=True, slots=True)
class Cuboid:
    """A query near the one that is looked at: the move that leads there, its text to go on from, and its count."""

    move: str
    pattern: str
    text: str
    count: int


@dataclass(frozen=True, slots=True)
class Around:
    """A cuboid and what is one step away. A part is (name, negated, coarser names, finer names)."""

    here: Cuboid
    parts: tuple[tuple[str, bool, tuple[str, ...], tuple[str, ...]], ...]
    coarser: tuple[Cuboid, ...]
    finer: tuple[Cuboid, ...]
    n_left_out: int
    seconds: float


class Desk:
    """The events of one source, and the work that is done on them; `tell` hears how far it is."""

    def __init__(self, source: Source, tell: Callable[[Progress], None] = lambda _: None) -> None:
        self._source = source
        self._events: Events | None = None
        self._others: dict[str, pa.Table] = {}
        self._asked: tuple[tuple[str, str], Unbuilt] | None = (
            None  # the last query, by text and strategy, that has too many matches
        )
        self._tell = tell

    def open(self) -> Opened:
        before = time.perf_counter()
        events = self._read()
        rejected = events.rejected
        counts = events.statistics.counts
        seconds = time.perf_counter() - before
        window = window_for(events)
        return Opened(
            events.slice(0, 0), len(events), rejected.count, dict(rejected.reasons), dict(counts), window, key_for(events), seconds
        )

    def _read(self) -> Events:
        if self._events is None:
            self._events = self._source.read()
        return self._events

    # ------------------------------------------------------------ queries

    def run(self, text: str, strategy: str, out: Path) -> Ran:
        events = self._read()
        query = parse(text, events.schema)
        concepts = self._source.concepts
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SequbeWarning)  # the first events may lack a type
            sq.run(query, events.slice(0, WARM_UP), hierarchy=concepts, strategy=strategy)  # compiles the loops of its kind
        before = time.perf_counter()
        planned = plan(query, events, concepts, strategy)
        notes = (*events.notes, *planned.notes[ALONE])
        many = self._many(planned, text, strategy)
        first = None if many is None else many.page(0, ROWS_OF_MANY)
        if many is not None and first is not None:
            _write([first], out)
            n_rows = many.n_rows
            notes += (
                f"The table has all matches, page by page; the timeline and the files have the {len(first):,} that end first.",
            )
        else:
            n_rows = self._find(planned, out)
        seconds = time.perf_counter() - before
        explained = explain_workload(planned, events.statistics, events.unit)
        noun = "rows" if query.aggregates else "runs" if query.keeps_partial else "matches"
        answering = planned.plans[ALONE]
        groups = answering.group_names if isinstance(answering, AggregatePlan) else ()
        return Ran(str(query), n_rows, bool(query.aggregates), noun, seconds, explained, _how(explained.root), notes, groups)

    def _many(self, planned: WorkloadPlan, text: str, strategy: str) -> Unbuilt | None:
        """The matches of a query that has more of them than may be kept, where they can be counted without being built."""
        answering, limits = planned.plans[ALONE], Limits()
        self._asked = None
        if not isinstance(answering, MatchPlan):
            return None
        unbuilt = Unbuilt(answering, self._read(), limits)
        if limits.max_matches is None or not unbuilt.is_counted or unbuilt.n_rows <= limits.max_matches:
            return None
        self._asked = (text, strategy), unbuilt
        return unbuilt

    def page(self, text: str, strategy: str, start: int, n: int) -> list[dict[str, Any]]:
        """Some rows of a query that has too many to be kept, as the page shows them."""
        events = self._read()
        if self._asked is None or self._asked[0] != (text, strategy):  # another page's query was the last, or this process is new
            self._many(plan(parse(text, events.schema), events, self._source.concepts, strategy), text, strategy)
        found = None if self._asked is None else self._asked[1].page(start, n)
        return [] if found is None else plain_rows(flatten(flat(found)))

    def matches(self, text: str, out: Path) -> int:
        """The matches of a query with their events, whatever it returns."""
        events = self._read()
        return self._find(plan(replace(parse(text, events.schema), returns=()), events, self._source.concepts), out)

    def _find(self, planned: WorkloadPlan, out: Path) -> int:
        """The rows of a query, to the file as they are found."""
        events = self._read()
        n_rows = 0

        def pieces() -> Iterable[pa.Table]:
            nonlocal n_rows
            for share, piece in run_by_stretches(planned.plans[ALONE], events):
                n_rows += len(piece)
                self._tell(Progress(share, n_rows))
                yield piece

        # A number that outgrows 64 bits changes the type of its column, from then on: aggregates are written together.
        _write([pa.concat_tables(pieces(), promote_options="permissive")] if planned.aggregates else pieces(), out)
        return n_rows

    # ------------------------------------------------------------ SQL

    def sql(self, text: str, others: dict[str, Source], out: Path) -> dict[str, Any]:
        """The rows of a statement over these events and other sources, to the file."""
        tables = self._tables(others)
        before = time.perf_counter()
        found = sq.sql(text, **tables)
        seconds = time.perf_counter() - before
        _write([found.rename_columns(_told_apart(found.column_names))], out)
        return {"seconds": seconds}

    def explain_sql(self, text: str, others: dict[str, Source]) -> str:
        """How the clauses of a statement are run."""
        asked = text if re.match(r"\s*explain\b", text, re.IGNORECASE) else f"EXPLAIN {text}"
        return "\n\n".join(sq.sql(asked, **self._tables(others)).column("plan").to_pylist())

    def _tables(self, others: dict[str, Source]) -> dict[str, pa.Table]:
        """The events as `events`; other sources are read once, too."""
        for name, source in others.items():
            if name not in self._others:
                self._others[name] = source.read().table
        return {"events": self._read().table} | {name: self._others[name] for name in others}

    # ------------------------------------------------------------ funnels

    def funnel(self, asked: dict[str, Any]) -> dict[str, Any]:
        """The rows of a funnel: `asked` is what `sq.funnel` takes, as an address can hold it."""
        before = time.perf_counter()
        without = {int(step): names for step, names in asked.get("without", {}).items()}
        found = sq.funnel(
            self._read(),
            asked["steps"],
            by=asked["by"],
            within=asked["within"],
            mode=asked.get("mode", "next"),
            without=without,
            breakdown=asked.get("breakdown"),
            hierarchy=self._source.concepts,
        )
        return {"rows": for_browser(found.table.to_pylist()), "seconds": time.perf_counter() - before}

    # ------------------------------------------------------------ the cube

    def cube(self, text: str) -> Around:
        before = time.perf_counter()
        cube = sq.Cube(self._read(), text, hierarchy=self._source.concepts)
        coarser, finer = cube.parents(), cube.children()
        near = [*coarser, *finer[: MAX_NEIGHBOURS - len(coarser)]]
        shown = []
        for cuboid in near:
            shown.append(_cuboid(cuboid))
            self._tell(Progress(len(shown) / len(near)))
        return Around(
            _cuboid(cube),
            self._parts(cube),
            tuple(shown[: len(coarser)]),
            tuple(shown[len(coarser) :]),
            len(coarser) + len(finer) - len(shown),
            time.perf_counter() - before,
        )

    def _parts(self, cube: sq.Cube) -> tuple[tuple[str, bool, tuple[str, ...], tuple[str, ...]], ...]:
        concepts = self._source.concepts
        parts = []
        for name, negated in cube.components:
            known = concepts is not None and name in concepts
            above = concepts.ancestors(name) if concepts and known else ()
            below = concepts.children(name) if concepts and known else ()
            parts.append((name, negated, *((below, above) if negated else (above, below))))
        return tuple(parts)

    def move(self, text: str, verb: str, concept: tuple[str, str, int] | None, pattern: tuple[str, int] | None) -> str:
        """The text of the query that a move leads to."""
        cube = sq.Cube(self._read(), text, hierarchy=self._source.concepts)
        step = cube.drill_down if verb == "drill down" else cube.roll_up
        return str(step([concept] if concept else [], [pattern] if pattern else []).query)

    def pivot(self, text: str, rows: tuple[int, int], columns: tuple[int, int]) -> dict[str, Any]:
        cube = sq.Cube(self._read(), text, hierarchy=self._source.concepts)
        table = cube.pivot(rows, columns)
        return {
            "rows": list(table.index),
            "columns": list(table.columns),
            "names": (str(table.index.name), str(table.columns.name)),
            "counts": [[int(cell) for cell in line] for line in table.to_numpy()],
        }

    # ------------------------------------------------------------ forecasts

    def forecast(self, out: Path) -> dict[str, Any]:
        """Predictions and how they turned out, to the file; the quality of each rule."""
        assert self._source.rules is not None
        before = time.perf_counter()
        found = forecast(self._source.rules, self._read(), hierarchy=self._source.concepts)
        _write([found.outcomes], out)
        quality = [row | {"lift": rule.lift} for row, rule in zip(found.quality.to_pylist(), found.rules, strict=True)]
        return {"quality": quality, "n_rows": len(found), "unseen": found.unseen, "seconds": time.perf_counter() - before}


def _how(root: Step) -> str:
    """The ways that were taken, in the order of the plan."""
    taken, waiting = [], [root]
    while waiting:
        step = waiting.pop(0)
        taken += [option.strategy for option in step.options if option.is_taken]
        waiting += step.children
    return ", ".join(dict.fromkeys(taken))


def _told_apart(names: list[str]) -> list[str]:
    """Names of columns, none twice: a statement may give two columns one name, a page shows both."""
    seen: dict[str, int] = {}
    told = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        told.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return told


def _cuboid(cube: sq.Cube) -> Cuboid:
    return Cuboid(cube.move, cube.pattern, str(cube.query), cube.count)


def _write(pieces: Iterable[pa.Table], path: Path) -> None:
    """Rows as an Arrow file, which the server maps instead of reading it."""
    writer = None
    with pa.OSFile(str(path), "wb") as file:
        for piece in pieces:
            if writer is None:
                writer = pa.ipc.new_file(file, piece.schema)
            writer.write_table(piece, max_chunksize=1_000_000)
        if writer is not None:
            writer.close()
