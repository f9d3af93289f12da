"""The page: events to choose from, the query with help while it is written, and what it found as table, timeline, chart and plan.

Each browser tab has a `Screen`. Its state (data, view, query, the way through the cube, what is shown of each) is in the address,
so that it can be kept, shared and gone back to; opening an address does the same work again. What a tab shows is in the browser,
its rows are in a file of its own, and both go when the tab does.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from fastapi import Request
from nicegui import events as happenings
from nicegui import run, ui

from seqube.errors import SequbeError
from seqube.explorer.editor import EditorCard
from seqube.explorer.funnels import FunnelPanel
from seqube.explorer.jobs import Opened, Progress, Ran
from seqube.explorer.live import LivePanel
from seqube.explorer.panels import CubePanel, ForecastPanel, ResultTable, Timeline, draw_chart, show_exports, show_plan
from seqube.explorer.results import ResultFile
from seqube.explorer.sources import ENDINGS, Source
from seqube.explorer.statements import SqlPanel
from seqube.explorer.worker import Worker
from seqube.language.words import COLOURED, SIGNATURES
from seqube.plan.strategies import names
from seqube.query import prepare

OFFERED = ("auto", *names("matches", "aggregates"))
TABS = ("query", "sql", "funnel", "cube", "forecast", "live")
# What else an address says of a view.
DETAILS = {"query": ("show", "between"), "sql": ("sql",), "funnel": ("funnel",), "cube": ("pivot",), "forecast": ("rule", "at")}
LONGEST_DETAIL = 20_000
FIRST_STEPS = """
1. **Choose events** above, or upload a file. Those that are open have a query that fits them.
2. **Change the query**, or take one of the *Examples*; what is wrong is underlined while you type. **Run** it (Ctrl-Enter).
3. **Look at what was found** as table, timeline or chart, and at the plan: how it was found, and why in that way.
4. Go on in **SQL**, with MATCH_RECOGNIZE over the same events, in the **Funnel**, how many keys get how far, in the **Cube**,
   where types become finer and coarser at a click, and to **Forecasts**, what rules predict.
"""
LARGEST_UPLOAD = 512 * 2**20


class Explorer:
    """What all tabs share: the sources, a worker for each that is open, and the files of results."""

    def __init__(self, sources: list[Source], folder: Path, live: Path | None = None) -> None:
        self.sources = {source.name: source for source in reversed(sources)}
        self.sources = dict(reversed(self.sources.items()))
        self.folder = folder
        self.live = live
        self.results: dict[str, ResultFile] = {}
        self._workers: dict[str, Worker] = {}

    def worker(self, name: str) -> Worker:
        if name not in self._workers:
            self._workers[name] = Worker(self.sources[name])
        return self._workers[name]

    def new_file(self) -> tuple[str, Path]:
        number = secrets.token_hex(8)
        return number, self.folder / f"{number}.arrow"

    def add(self, number: str, path: Path) -> ResultFile:
        self.results[number] = ResultFile(path)
        return self.results[number]

    def drop(self, number: str) -> None:
        if number in self.results:
            self.results.pop(number).close()

    def close(self) -> None:
        for worker in self._workers.values():
            worker.stop()


async def show_page(explorer: Explorer, request: Request) -> None:
    """Build the page for one tab, and bring it to where its address says."""
    screen = Screen(explorer, dict(request.query_params), request.query_params.getlist("via"))
    screen.build()
    ui.context.client.on_delete(screen.leave)
    await ui.context.client.connected()
    if not screen.is_left:  # else it was asked for, and never shown
        await screen.open(screen.data)
        await screen.arrive()


class Screen:
    """One tab: what it looks at, and how to get there."""

    def __init__(self, explorer: Explorer, given: dict[str, str], via: list[str]) -> None:
        self.explorer = explorer
        self.data = given.get("data", "") if given.get("data") in explorer.sources else next(iter(explorer.sources))
        self.view = given.get("view", "") if given.get("view") in TABS else "query"
        self.text = re.sub("\r\n?", "\n", given.get("q", "")[:LONGEST_DETAIL])  # lines end in the editor's way
        self.strategy = given.get("strategy", "") if given.get("strategy") in OFFERED else "auto"
        self.via = via[-20:]
        self.detail = {name: given[name][:LONGEST_DETAIL] for names in DETAILS.values() for name in names if name in given}
        self.opened: Opened | None = None
        self._task: asyncio.Future[Any] | None = None
        self._job = ""
        self._address: str | None = None
        self.is_left = False

    @property
    def source(self) -> Source:
        return self.explorer.sources[self.data]

    # ------------------------------------------------------------ the frame

    def build(self) -> None:
        ui.add_css(Path(__file__).with_name("style.css"))
        ui.add_body_html("<script>addEventListener('popstate', () => location.reload())</script>")
        ui.colors(primary="#0f766e")
        ui.dark_mode(None)  # as the reader's system has it
        with ui.header().classes("sq-header items-center py-2").style("gap: 16px"):
            ui.label("Seqube").classes("text-xl font-bold sq-name").props("role=heading aria-level=1")
            self._chosen = ui.select(list(self.explorer.sources), value=self.data, label="Events", on_change=self._choose)
            self._chosen.props("dense outlined options-dense data-testid=data").classes("w-64")
            self._build_upload()
            self._facts = ui.label().classes("text-slate-500 sq-fact").props("data-testid=facts")
            ui.space()
            self._busy = ui.spinner(size="sm").classes("mr-2")
            self._busy.visible = False
            self._clock = ui.label().classes("text-slate-500 sq-fact").props("data-testid=progress")
            self._stop = ui.button("Stop", icon="stop", color="red-7", on_click=self.stop).props(
                "dense unelevated data-testid=stop"
            )
            self._stop.visible = False
            self._bar = ui.linear_progress(show_value=False, size="3px").classes("sq-bar")
            self._bar.visible = False
        self._ticker = ui.timer(0.2, self._tick, active=False)
        names = {"query": "Query", "sql": "SQL", "funnel": "Funnel", "cube": "Cube", "forecast": "Forecasts", "live": "Live"}
        with ui.tabs(on_change=self._turn).classes("px-4").props("align=left dense no-caps") as tabs:
            for view in TABS:
                if view != "live" or self.explorer.live is not None:
                    ui.tab(view, names[view]).props(f"data-testid=tab-{view}")
        if not (self.text or self.detail):
            self._show_first_steps()
        with ui.tab_panels(tabs, value=self.view, animated=False).classes("w-full bg-transparent"):
            with ui.tab_panel("query").classes("gap-3"):
                self.query = QueryPanel(self)
            with ui.tab_panel("sql").classes("gap-3"):
                self.sql = SqlPanel(self)
            with ui.tab_panel("funnel").classes("gap-3"):
                self.funnel = FunnelPanel(self)
            with ui.tab_panel("cube").classes("gap-3"):
                self.cube = CubePanel(self)
            with ui.tab_panel("forecast").classes("gap-3"):
                self.forecast = ForecastPanel(self)
            if self.explorer.live is not None:
                with ui.tab_panel("live").classes("gap-3"):
                    LivePanel(self.explorer.live)

    def _show_first_steps(self) -> None:
        """What to do, for whoever comes without an address that says what to look at."""
        with ui.row().classes("sq-card sq-guide items-start no-wrap gap-2").props("data-testid=first-steps") as guide:
            ui.markdown(FIRST_STEPS).classes("grow")
            ui.button(icon="close", on_click=guide.delete).props("flat dense round size=sm aria-label='Close the first steps'")

    def _build_upload(self) -> None:
        with ui.dialog() as dialog, ui.card().classes("w-96"):
            ui.label("Upload events").classes("text-lg font-semibold")
            kind = ui.input("Column of the type", value="type").classes("w-full").props("dense")
            time = ui.input("Column of the time", value="ts").classes("w-full").props("dense")
            unit = ui.input("Unit of an integer time", value="ms").classes("w-full").props("dense")

            async def take(event: happenings.UploadEventArguments) -> None:
                ending = Path(event.file.name).suffix.lower()
                if ending not in ENDINGS:
                    ui.notify(f"Files end in {', '.join(ENDINGS)}", type="negative")
                    return
                path = self.explorer.folder / f"{secrets.token_hex(8)}{ending}"  # never the name that came with it
                await event.file.save(path)
                name = f"upload {Path(event.file.name).name[:60]}"
                self.explorer.sources[name] = Source(name, path, "", kind.value, time.value, unit.value)
                self._chosen.set_options(list(self.explorer.sources), value=name)
                dialog.close()

            ui.upload(on_upload=take, auto_upload=True, max_file_size=LARGEST_UPLOAD, max_files=1).classes("w-full")
        button = ui.button(icon="upload", on_click=dialog.open).tooltip("Upload events")
        button.props("flat dense round data-testid=upload aria-label='Upload events'")

    async def _choose(self, event: happenings.ValueChangeEventArguments[Any]) -> None:
        if event.value != self.data:
            self.data, self.via = event.value, []
            self.text, self.detail = "", {}
            await self.open(self.data)
            self.go()

    async def _turn(self, event: happenings.ValueChangeEventArguments[Any]) -> None:
        if event.value != self.view:
            self.view = event.value
            self.go()
            await self.arrive(only_if_new=True)

    async def open(self, name: str) -> None:
        """Have a worker read the events, and show what they are."""
        self._facts.text = "reading events …"
        opened = await self.work("open")
        if self.is_left:
            return
        self.opened = opened
        if opened is None:
            self._facts.text = "these events could not be read"
            return
        aside = f" · {opened.n_rejected:,} rows rejected" if opened.n_rejected else ""
        self._facts.text = f"{opened.n_events:,} events · {sum(map(bool, opened.counts.values()))} types{aside}"
        if not self.text:
            self.text = next(iter(self.source.queries(opened.sample.type_names, opened.window, opened.key).values()))
        self.query.meet(opened)
        self.sql.meet(opened)
        self.funnel.meet(opened)
        self.forecast.meet()
        self.cube.shown = ""

    async def arrive(self, only_if_new: bool = False) -> None:
        """Do what the address asks for."""
        if self.opened is None:
            return
        if self.view == "query" and not only_if_new:
            await self.query.run()
        elif self.view == "sql":
            await self.sql.arrive()
        elif self.view == "funnel":
            await self.funnel.run()
        elif self.view == "cube" and self.cube.shown != self.text:
            await self.cube.look(self.text)
        elif self.view == "forecast":
            await self.forecast.run()

    def look_at(self, **detail: str) -> None:
        """Another part of the same view: the address says so, and there is no step to go back to."""
        self.detail |= detail
        self.go(is_step=False)

    def go(self, is_step: bool = True) -> None:
        """Put what is looked at now into the address."""
        parts = [("data", self.data), ("view", self.view), ("q", self.text)]
        parts += [("strategy", self.strategy)] if self.strategy != "auto" else []
        parts += [("via", text) for text in self.via] if self.view == "cube" else []
        parts += [(name, self.detail[name]) for name in DETAILS.get(self.view, ()) if name in self.detail]
        address = "/?" + urlencode(parts)
        if self._address is None or not is_step:
            ui.navigate.history.replace(address)  # what was asked for, written out: no step to go back to
        elif address != self._address:
            ui.navigate.history.push(address)
        self._address = address

    # ------------------------------------------------------------ work

    async def work(self, job: str, tell: Callable[[SequbeError], None] | None = None, **values: Any) -> Any:
        """The worker's answer, or None when it was stopped or failed; then `tell`, or a note, says why.

        What is asked twice is refused the second time; anything else waits for its turn.
        """
        while self._task is not None:
            if job == self._job:
                ui.notify("One thing at a time: wait for the current work or stop it", type="warning")
                return None
            await asyncio.wait([self._task])
        self._job = job
        self._progress = Progress(None)
        self._task = asyncio.ensure_future(self.explorer.worker(self.data).do(job, self._hear, **values))
        self._since = asyncio.get_running_loop().time()
        self._busy.visible = self._stop.visible = self._bar.visible = self._ticker.active = True
        try:
            return await self._task
        except asyncio.CancelledError:
            if not self.is_left:
                ui.notify("Stopped")
        except SequbeError as error:
            if not self.is_left:
                (tell or _notify)(error)
        finally:
            self._task = None
            self._busy.visible = self._stop.visible = self._bar.visible = self._ticker.active = False
            self._clock.text = ""
        return None

    async def find(
        self, job: str, tell: Callable[[SequbeError], None] | None = None, **values: Any
    ) -> tuple[Any, tuple[str, ResultFile]] | None:
        """The worker's answer, and the rows that it wrote; of work that was stopped or failed no file is left."""
        number, path = self.explorer.new_file()
        answer = await self.work(job, tell, out=path, **values)
        if answer is None:
            path.unlink(missing_ok=True)
            return None
        return answer, (number, self.explorer.add(number, path))

    async def fetch(self, text: str, strategy: str, start: int, n: int) -> list[dict[str, Any]] | None:
        """Some rows of a query whose matches are too many to be kept."""
        found: list[dict[str, Any]] | None = await self.work("page", text=text, strategy=strategy, start=start, n=n)
        return found

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def leave(self) -> None:
        """The tab is closed: nothing goes on for it, nothing of it stays."""
        self.is_left = True
        self.stop()
        self.query.forget()
        self.sql.forget()
        self.forecast.forget()

    def _hear(self, progress: Progress) -> None:
        self._progress = progress

    def _tick(self) -> None:
        share, n_rows = self._progress.share, self._progress.n_rows
        parts = [f"{share:.0%}" if share is not None else "", f"{n_rows:,} rows" if n_rows else ""]
        parts.append(f"{asyncio.get_running_loop().time() - self._since:.1f} s")
        self._clock.text = " · ".join(part for part in parts if part)
        self._bar.props["indeterminate"] = share is None
        self._bar.value = share or 0.0


def _notify(error: SequbeError) -> None:
    ui.notify(str(error), type="negative", multi_line=True, close_button=True, timeout=0)


# ---------------------------------------------------------------- the query and what it found


class QueryPanel:
    """The editor and, below it, the answer."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._result: tuple[str, ResultFile] | None = None
        self._timeline: tuple[str, ResultFile] | None = None
        self._shown: tuple[str, str] | None = None
        self._card = EditorCard("Query", "Event types", "", screen.text, self._check, self.run, self._hear, self._show_strategies)
        self._editor = self._card.editor

    def _show_strategies(self) -> None:
        chosen = ui.select(list(OFFERED), value=self._screen.strategy, label="Strategy", on_change=self._plan_by)
        chosen.props("dense outlined options-dense").classes("w-40")

    def meet(self, opened: Opened) -> None:
        """New events: other names to complete, other examples."""
        screen = self._screen
        concepts = screen.source.concepts
        names = [*opened.counts, *(concepts.names if concepts else ())]
        attributes = list(dict.fromkeys([*opened.sample.schema, "type", "ts"]))
        self.set_text(screen.text)
        self._editor.teach(names, attributes, COLOURED, SIGNATURES)
        self._card.offer(screen.source.queries(opened.sample.type_names, opened.window, opened.key))
        lines = []
        for name in concepts.roots if concepts else ():
            covered = concepts.covers(name) if concepts else ()
            lines.append((name, f"{sum(opened.counts.get(below, 0) for below in covered):,}", "font-semibold"))
        for name, count in sorted(opened.counts.items(), key=lambda pair: -pair[1])[:200]:
            lines.append((name, f"{count:,}", ""))
        self._card.list_names(lines)
        self._check()

    def _hear(self, text: str) -> None:
        self._screen.text = text

    def set_text(self, text: str) -> None:
        """Put a query into the editor."""
        self._editor.write(text)

    def _plan_by(self, event: happenings.ValueChangeEventArguments[Any]) -> None:
        self._screen.strategy = event.value
        self._check()

    def _check(self) -> bool:
        """Bind the query against the events' columns and names; mark and tell what is wrong."""
        screen = self._screen
        if screen.opened is None:
            return False
        try:
            prepare(screen.text, screen.opened.sample, screen.source.concepts, screen.strategy)
        except SequbeError as error:
            self._editor.tell(error)
            return False
        self._editor.tell(None)
        return True

    # ------------------------------------------------------------ running

    async def run(self) -> None:
        self.forget()
        self._card.clear()
        if not self._check():
            return
        screen = self._screen
        text = screen.text
        found = await screen.find("run", self._editor.tell, text=text, strategy=screen.strategy)
        if found is None:
            return
        ran: Ran = found[0]
        self._result = found[1]
        if self._shown not in (None, (screen.data, text)):
            screen.detail.pop("between", None)  # it was a stretch of other matches
        self._shown = screen.data, text
        screen.go()
        self._card.say(ran.n_rows, ran.noun, ran.seconds, ran.how)
        self._show(ran, text)

    def _show(self, ran: Ran, text: str) -> None:
        assert self._result is not None
        number, result = self._result
        views = ("table", "chart" if ran.is_aggregate else "timeline", "plan")
        with self._card.answer:
            for note in ran.notes:
                ui.label(note).classes("sq-note").props("data-testid=note role=status")
        with self._card.answer, ui.column().classes("sq-card gap-2"):
            with ui.row().classes("w-full items-center"):
                with ui.tabs().props("dense no-caps align=left") as tabs:
                    for view in views:
                        ui.tab(view, view.capitalize()).props(f"data-testid=show-{view}")
                ui.space()
                show_exports(number)
            with ui.tab_panels(tabs, value="table", animated=False).classes("w-full"):
                with ui.tab_panel("table").classes("p-0"):
                    is_whole = ran.n_rows == len(result)
                    fetch = None if is_whole else partial(self._screen.fetch, text, self._screen.strategy)
                    ResultTable(result, total=ran.n_rows, fetch=fetch)
                if ran.is_aggregate:
                    with ui.tab_panel("chart").classes("p-0"):
                        chart_place = ui.column().classes("w-full")
                else:
                    with ui.tab_panel("timeline").classes("p-0"):
                        self._timeline_place = ui.column().classes("w-full gap-1")
                with ui.tab_panel("plan").classes("p-0"):
                    show_plan(ran.plan)

            async def turn(event: happenings.ValueChangeEventArguments[Any]) -> None:
                self._screen.look_at(show=event.value)
                if event.value == "timeline" and self._timeline is None:
                    await self._draw_timeline(text)
                elif event.value == "chart" and not chart_place.default_slot.children:
                    await draw_chart(result, ran.groups, chart_place)

            tabs.on_value_change(turn)
            if (show := self._screen.detail.get("show")) in views:
                tabs.set_value(show)

    async def _draw_timeline(self, text: str) -> None:
        """The matches with their events: the result itself or, where the query returns something else, found again."""
        assert self._result is not None
        screen = self._screen
        place = self._timeline_place
        self._timeline = self._result
        if screen.opened is None:
            return
        if not self._result[1].is_in_time and len(self._result[1]):
            found = await screen.find("matches", text=text)
            self._timeline = found[1] if found else None
            if self._timeline is None:
                return
        if self._timeline[1].is_in_time:
            await run.io_bound(lambda result: result.density, self._timeline[1])  # a pass over all matches, and not here
        with place:
            Timeline(screen, self._timeline[1], screen.opened.sample.time_column, screen.opened.sample.type_column)

    def forget(self) -> None:
        for kept in (self._result, self._timeline):
            if kept is not None:
                self._screen.explorer.drop(kept[0])
        self._result = self._timeline = None
