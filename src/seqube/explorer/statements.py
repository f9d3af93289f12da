"""SQL on the page: a statement over the events that are open, called `events`, and over any other source by its name.

The worker runs it, so it can be stopped like a query; it sees these tables and nothing else. What is wrong in a clause is marked
while it is typed, as far as that can be told without running anything.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from nicegui import events as happenings
from nicegui import ui

from seqube.errors import SequbeError
from seqube.explorer.editor import EditorCard
from seqube.explorer.jobs import Opened
from seqube.explorer.panels import ResultTable, show_exports
from seqube.explorer.results import ResultFile
from seqube.explorer.sources import Source
from seqube.language.functions import PLAIN_CALLS
from seqube.language.rows.parser import OF_ROWS
from seqube.language.rows.statement import all_of
from seqube.language.words import SIGNATURES
from seqube.language.writer import quote
from seqube.statements import check_clauses

if TYPE_CHECKING:
    from seqube.explorer.page import Screen

EVENTS = "events"  # what those that are open are called
SQL_WORDS = (
    "SELECT", "FROM", "WHERE", "GROUP", "ORDER", "BY", "HAVING", "LIMIT", "WITH", "AS", "JOIN", "LEFT", "ON", "USING", "UNION",
    "AND", "OR", "NOT", "IN", "IS", "NULL", "BETWEEN", "LIKE", "CASE", "WHEN", "THEN", "ELSE", "END", "CAST", "DISTINCT",
    "INTERVAL", "TIMESTAMP", "DATE", "TRUE", "FALSE", "ASC", "DESC", "EXPLAIN", "SEQUBE", "MATCH_RECOGNIZE", "PARTITION",
    "MEASURES", "ONE", "ALL", "ROW", "ROWS", "PER", "MATCH", "SHOW", "OMIT", "EMPTY", "MATCHES", "UNMATCHED", "AFTER", "SKIP",
    "PAST", "TO", "PATTERN", "PERMUTE", "WITHIN", "SUBSET", "DEFINE", "RUNNING", "FINAL", *OF_ROWS, *PLAIN_CALLS,
)  # fmt: skip


_RESERVED = "USER TABLE COLUMN DEFAULT CHECK PRIMARY FOR DO OFFSET LATERAL ANY SOME ONLY INTO WINDOW OVER"


class SqlPanel:
    """A statement and, below it, its rows and how its clauses were run."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._result: tuple[str, ResultFile] | None = None
        self._shown = ""
        self._card = EditorCard("Statement", "Tables", "sql-", screen.detail.get("sql", ""), self._check, self.run)
        self._editor = self._card.editor

    def meet(self, opened: Opened) -> None:
        """New events: another table, other examples."""
        schema = opened.sample.table.schema
        others = sorted(self._names())
        self._editor.teach([EVENTS, *others, *schema.names], schema.names, SQL_WORDS, SIGNATURES)
        examples = examples_for(opened)
        self._card.offer(examples)
        self._editor.write(self._screen.detail.get("sql", "") or next(iter(examples.values())))
        columns = [(field.name, str(field.type), "pl-3") for field in schema]
        tables = [(name, "another source", "font-semibold") for name in others]
        self._card.list_names([(EVENTS, f"{opened.n_events:,}", "font-semibold"), *columns, *tables])
        self._forget_answer()
        self._check()

    def _names(self) -> dict[str, Source]:
        """The other sources, by names that SQL takes without quotes."""
        found: dict[str, Source] = {}
        for source in self._screen.explorer.sources.values():
            plain = re.sub(r"^(upload|generated) |\.\w+$", "", source.name)
            name = re.sub(r"\W+", "_", plain).strip("_").lower() or "source"
            name = f"t_{name}" if name[0].isdigit() else name
            if source.name != self._screen.data and name != EVENTS:
                found.setdefault(name, source)
        return found

    def _check(self) -> bool:
        """Mark what is wrong in the clauses, as far as it can be told without running anything."""
        opened = self._screen.opened
        if opened is None or not self._editor.text.strip():
            return False
        try:
            check_clauses(self._editor.text, {EVENTS: opened.sample.table.schema})
        except SequbeError as error:
            self._editor.tell(error)
            return False
        self._editor.tell(None)
        return True

    # ------------------------------------------------------------ running

    async def run(self) -> None:
        self._forget_answer()
        if not self._check():
            return
        text = self._editor.text
        others = {name: source for name, source in self._names().items() if re.search(rf"\b{name}\b", text, re.IGNORECASE)}
        found = await self._screen.find("sql", self._editor.tell, text=text, others=others)
        if found is None:
            return
        ran, self._result = found
        self._shown = text
        self._screen.detail["sql"] = text
        self._screen.go()
        self._card.say(len(self._result[1]), "rows", ran["seconds"])
        self._show(others)

    async def arrive(self) -> None:
        """Whoever comes to the tab sees an answer; what is there already stays."""
        if self._editor.text != self._shown:
            await self.run()

    def _show(self, others: dict[str, Source]) -> None:
        assert self._result is not None
        number, result = self._result
        text = self._shown
        with self._card.answer, ui.column().classes("sq-card gap-2"):
            with ui.row().classes("w-full items-center"):
                with ui.tabs().props("dense no-caps align=left") as tabs:
                    ui.tab("table", "Table").props("data-testid=sql-show-table")
                    ui.tab("plan", "Plan").props("data-testid=sql-show-plan")
                ui.space()
                show_exports(number)
            with ui.tab_panels(tabs, value="table", animated=False).classes("w-full"):
                with ui.tab_panel("table").classes("p-0"):
                    ResultTable(result, name="sql-rows")
                with ui.tab_panel("plan").classes("p-0"):
                    plan = ui.label().classes("sq-mono w-full").props("data-testid=sql-plan")

        async def turn(event: happenings.ValueChangeEventArguments[Any]) -> None:
            if event.value == "plan" and not plan.text:
                told = await self._screen.work("explain_sql", text=text, others=others)
                plan.text = "" if told is None else told or "This statement has no MATCH_RECOGNIZE clause."

        tabs.on_value_change(turn)

    def _forget_answer(self) -> None:
        self.forget()
        self._shown = ""
        self._card.clear()

    def forget(self) -> None:
        if self._result is not None:
            self._screen.explorer.drop(self._result[0])
        self._result = None


def examples_for(opened: Opened) -> dict[str, str]:
    """Statements that fit the events: along a number of theirs, by types, in our own language, and plain SQL."""
    events = opened.sample
    time, kind = _named(events.time_column), _named(events.type_column)
    apart = f"PARTITION BY {_named(opened.key)} " if opened.key else ""
    first, second, *_ = [*sorted(opened.counts, key=lambda name: -opened.counts[name]), "A", "B"]
    found = {}
    numbers = [name for name, sort in events.schema.items() if sort == "number" and name not in (opened.key, events.time_column)]
    if numbers:
        x = _named(numbers[0])
        found["Falls, then rises"] = all_of(f"""events MATCH_RECOGNIZE (
  {apart}ORDER BY {time}
  MEASURES FIRST({time}) AS began, LAST(down.{x}) AS low, LAST({time}) AS ended, COUNT(*) AS n
  PATTERN (strt down+ up+)
  DEFINE down AS {x} < PREV({x}), up AS {x} > PREV({x})
)
ORDER BY n DESC""")
    found["One type, then another"] = all_of(f"""events MATCH_RECOGNIZE (
  {apart}ORDER BY {time}
  MEASURES a.{time} AS began, b.{time} AS ended, COUNT(x.*) AS between_them
  PATTERN (a x*? b)
  DEFINE a AS {kind} = {_text(first)}, b AS {kind} = {_text(second)}
)""")
    called = (("type", "type", events.type_column), ("time", "ts", events.time_column))
    options = "".join(f", {option} => {_text(column)}" for option, usual, column in called if column != usual)
    pattern = f"SEQ({quote(first)} a, {quote(second)} b{f', [{quote(opened.key)}]' if opened.key else ''}) WITHIN {opened.window}"
    found["A query of our own as a table"] = f"SELECT count(*) AS n\nFROM SEQUBE(events, {_text(pattern)}{options}) AS q"
    found["How many of each type"] = f"SELECT {kind}, count(*) AS n\nFROM events\nGROUP BY 1\nORDER BY n DESC"
    return found


def _named(name: str) -> str:
    """A name as SQL and the clause take it: in quotes, unless it is a plain word that means nothing else."""
    plain = re.fullmatch(r"[a-z_][a-z0-9_]*", name) and name.upper() not in (*SQL_WORDS, *_RESERVED.split())
    return name if plain else '"' + name.replace('"', '""') + '"'


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
