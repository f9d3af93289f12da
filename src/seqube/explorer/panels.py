"""What the page is made of beside the query: a table of any size, matches in time, plans, charts, the cube, forecasts.

A panel asks the screen's worker and shows the answer; it holds what it shows and the name of a file of results.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.compute as pc
from nicegui import events as happenings
from nicegui import run, ui

from seqube.errors import SequbeError
from seqube.explorer import charts
from seqube.explorer.jobs import Around, Cuboid
from seqube.explorer.results import ResultFile, for_browser
from seqube.plan.explain import Explanation

if TYPE_CHECKING:
    from seqube.explorer.page import Screen

ROWS_SHOWN = 15
MATCHES_DRAWN = 300
PREDICTIONS_DRAWN = 120
LANES_DRAWN = 8  # rules whose predictions are still told apart when all are drawn together
RULES_SHOWN = 10
ALL_RULES = "all rules"


def show_title(text: str) -> ui.label:
    """What a card is about, as a heading for those who jump from one to the next."""
    return ui.label(text).classes("sq-title").props("role=heading aria-level=2")


class ResultTable:
    """A result page by page, in any column's order; the browser has one page.

    Of `total` rows the file may have the first alone: the pages behind them are asked for by `fetch`, and there is no other order.
    """

    def __init__(
        self,
        result: ResultFile,
        n: int = ROWS_SHOWN,
        name: str = "rows",
        total: int | None = None,
        fetch: Callable[[int, int], Awaitable[list[dict[str, Any]] | None]] | None = None,
    ) -> None:
        self._result, self._total, self._fetch = result, len(result) if total is None else total, fetch
        can_sort = self._total == len(result)
        columns = [{"name": name, "label": name, "field": name, "sortable": can_sort, "align": "left"} for name in result.telling]
        pages = {"page": 1, "rowsPerPage": n, "rowsNumber": self._total, "sortBy": None, "descending": False}
        self._table = ui.table(columns=columns, rows=self._numbered(0, result.page(0, n)), row_key="#", pagination=pages)
        self._table.classes("sq-table").props(
            f'flat dense binary-state-sort :rows-per-page-options="[15, 50, 200]" data-testid={name}'
        )
        self._table.on("request", self._turn)

    @staticmethod
    def _numbered(start: int, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [{**row, "#": start + number} for number, row in enumerate(rows)]

    async def _turn(self, event: happenings.GenericEventArguments) -> None:
        asked = event.args["pagination"]
        n = min(int(asked["rowsPerPage"]) or ROWS_SHOWN, 500)
        start = (max(int(asked["page"]), 1) - 1) * n
        if self._fetch is not None and start + n > len(self._result):
            rows = await self._fetch(start, n)
        else:
            rows = await run.io_bound(self._result.page, start, n, asked.get("sortBy"), bool(asked.get("descending")))
        self._table.rows = self._numbered(start, rows or [])
        self._table.pagination = {**asked, "rowsNumber": self._total, "rowsPerPage": n}


def show_exports(number: str) -> None:
    """Buttons for the rows of a result as files."""
    for ending in ("csv", "parquet"):
        link = f"/export/{number}.{ending}"
        button = ui.button(ending.upper(), icon="download", on_click=lambda link=link: ui.download.from_url(link))
        button.props(f"flat dense data-testid=export-{ending}")


class Timeline:
    """All matches as a density over time; those of the stretch that is chosen there as lines through their events."""

    def __init__(self, screen: Screen, result: ResultFile, time: str, kind: str) -> None:
        self._screen, self._result, self._time, self._kind = screen, result, time, kind
        if not result.is_in_time:
            ui.label("There are no matches to draw.").classes("text-slate-500")
            return
        self._edges, counts = result.density
        low, high = self._asked_stretch() or self._first_stretch()
        spec = charts.draw_density(self._edges, counts, result.table.schema.field("start").type, low, high)
        overview = ui.echart(spec).classes("w-full").style("height: 190px").props("data-testid=density")
        overview.on("chart:datazoom", self._zoom, ["start", "end"], throttle=0.3)
        self._note = ui.label().classes("text-slate-500 text-sm").props("data-testid=timeline-note")
        self._place = ui.column().classes("w-full")
        self._about = ui.column().classes("w-full")
        self._draw(low, high)

    def _asked_stretch(self) -> tuple[float, float] | None:
        """What the address asks for, as far as there are matches."""
        try:
            low, high = map(float, self._screen.detail.get("between", "").split("~"))
        except ValueError:
            return None
        low, high = max(low, float(self._edges[0])), min(high, float(self._edges[-1]))
        return (low, high) if low < high else None

    def _first_stretch(self) -> tuple[float, float]:
        low, high = float(self._edges[0]), float(self._edges[-1])
        if len(self._result) <= MATCHES_DRAWN:
            return low, high
        half = MATCHES_DRAWN // 2
        return low, min(high, max(float(np.partition(self._result.ends, half)[half]), low + (high - low) / 200))

    def _zoom(self, event: happenings.GenericEventArguments) -> None:
        low, span = float(self._edges[0]), float(self._edges[-1] - self._edges[0])
        low, high = (low + span * float(event.args[end]) / 100 for end in ("start", "end"))
        self._screen.look_at(between=f"{low:.0f}~{high:.0f}")
        self._draw(low, high)

    def _draw(self, low: float, high: float) -> None:
        rows, total = self._result.between(low, high, MATCHES_DRAWN)
        shown = f"{len(rows):,} of {total:,} matches" if total > len(rows) else f"{total:,} matches"
        more = " here; move or narrow the slider to see others" if total > len(rows) else " here"
        self._note.text = f"{shown}{more}. Click a point for its event."
        spec = charts.draw_timeline(self._result, rows, self._time, self._kind, low, high)
        lanes = len(spec["yAxis"]["data"])
        self._place.clear()
        with self._place:
            chart = ui.echart(spec, on_point_click=self._pick).classes("w-full").style(f"height: {max(220, 44 * lanes + 80)}px")
            chart.props("data-testid=timeline")

    def _pick(self, event: happenings.EChartPointClickEventArguments) -> None:
        """Show the event behind a point, with the others of its match."""
        data: Any = event.data
        if not isinstance(data, dict) or "match" not in data:
            return
        row = self._result.row(int(data["match"]))
        self._about.clear()
        with self._about, ui.row().classes("gap-3"):
            for variable, values in _events_in(row):
                mark = "border-teal-700 border-2" if variable == data.get("variable") else ""
                with ui.column().classes(f"sq-card gap-0 {mark}").style("width: auto") as card:
                    card.props["data-testid"] = f"event-{variable}"
                    ui.label(variable).classes("sq-title")
                    for name, value in values.items():
                        ui.label(f"{name}: {value}").classes("text-sm sq-fact")


def _events_in(row: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The events of a match, each under its variable; those of a list are numbered."""
    for variable, values in row.items():
        if isinstance(values, dict):
            yield variable, values
        elif isinstance(values, list):
            yield from ((f"{variable} {place}", value) for place, value in enumerate(values, 1) if isinstance(value, dict))


def show_plan(plan: Explanation) -> None:
    """The plan as a tree, what was weighed as bars, and all of it as text."""
    width, height = charts.size_plan(plan.root)
    with ui.scroll_area().classes("w-full").style(f"height: {max(200, height) + 30}px"):
        chart = ui.echart(charts.draw_plan(plan)).props("data-testid=plan")
        chart.style(f"height: {max(200, height)}px; width: {width}px; max-width: none")
    weighed = charts.weighed(plan.root)
    if weighed:
        show_title("What was weighed: expected cost, on a logarithmic scale")
        with ui.row().classes("w-full gap-4"):
            for step in weighed:
                costs = ui.echart(charts.draw_options(step)).props("data-testid=costs")
                costs.style(f"height: {26 * len(step.options) + 90}px; width: 460px; max-width: 100%")
    with ui.expansion("As text").classes("w-full"):
        ui.label(str(plan)).classes("sq-mono").props("data-testid=plan-text")


async def draw_chart(result: ResultFile, groups: Sequence[str], place: ui.column) -> None:
    """Aggregates, as lines or bars."""
    spec = await run.io_bound(charts.draw_aggregates, result.table, groups)
    with place:
        if spec is None:
            ui.label("There is nothing to draw.").classes("text-slate-500")
        else:
            ui.echart(spec).classes("w-full").style(f"height: {charts.height_of(spec)}px").props("data-testid=chart")


# ---------------------------------------------------------------- the cube


class CubePanel:
    """The pattern as positions to click, the queries around it with their counts, and a pivot of two positions."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self.shown = ""
        self._crumbs = ui.row().classes("items-center gap-1").props("data-testid=crumbs")
        self._problem = ui.label().classes("sq-problems").props("data-testid=cube-problem")
        self._place = ui.column().classes("w-full gap-3")

    async def look(self, text: str) -> None:
        """Show the cuboid of a query and what is around it."""
        screen = self._screen
        around: Around | None = await screen.work("cube", self._tell, text=text)
        if around is None:
            return
        self.shown = around.here.text
        screen.query.set_text(around.here.text)
        screen.go()
        self._problem.text = ""
        self._show_crumbs()
        self._place.clear()
        with self._place:
            self._show_positions(around)
            with ui.column().classes("sq-card gap-1"):
                show_title("Coarser above, finer below: click to go there")
                with ui.column().classes("w-full items-center gap-3").props("data-testid=lattice"):
                    self._show_cuboids(around.coarser, "coarser")
                    self._show_cuboids((around.here,), "here")
                    self._show_cuboids(around.finer, "finer")
                if around.n_left_out:
                    ui.label(f"{around.n_left_out:,} finer ones are not drawn").classes("text-slate-500 text-sm")
            await self._show_pivot(around)

    def _tell(self, error: SequbeError) -> None:
        self._place.clear()
        self._problem.text = str(error)

    def _show_crumbs(self) -> None:
        self._crumbs.clear()
        with self._crumbs:
            for number, text in enumerate(self._screen.via):
                ui.button(_headline(text), on_click=lambda number=number: self._back(number)).props(
                    f"flat dense no-caps data-testid=crumb-{number}"
                )
                ui.icon("chevron_right").classes("text-slate-400")

    async def _back(self, number: int) -> None:
        text = self._screen.via[number]
        self._screen.via = self._screen.via[:number]
        self._screen.detail.pop("pivot", None)
        await self.look(text)

    async def _go(self, text: str) -> None:
        self._screen.detail.pop("pivot", None)  # the positions are others there
        self._screen.via = [*self._screen.via, self.shown][-20:]
        await self.look(text)

    def _show_cuboids(self, cuboids: Sequence[Cuboid], where: str) -> None:
        """Queries side by side, each with what leads there and its count."""
        with ui.row().classes("justify-center gap-2 w-full"):
            for cuboid in cuboids:
                go = None if where == "here" else lambda text=cuboid.text: self._go(text)
                with ui.button(on_click=go, color=None).props("flat no-caps").classes(f"sq-cuboid sq-{where}") as button:
                    button.props["data-query"] = cuboid.text  # not as text: a name must not become a property
                    ui.label(cuboid.pattern.removeprefix("SEQ(").removesuffix(")"))
                    ui.label(f"{cuboid.count:,}").classes("sq-fact font-bold")
                    if where != "here":
                        ui.label(cuboid.move).classes("sq-move")

    async def _move(self, verb: str, concept: tuple[str, str, int] | None = None, pattern: tuple[str, int] | None = None) -> None:
        text = await self._screen.work("move", text=self.shown, verb=verb, concept=concept, pattern=pattern)
        if text is not None:
            await self._go(text)

    # ------------------------------------------------------------ positions

    def _show_positions(self, around: Around) -> None:
        counts = {near.move: near.count for near in (*around.coarser, *around.finer)}
        with ui.column().classes("sq-card gap-2"):
            with ui.row().classes("items-center gap-3"):
                show_title("Pattern")
                ui.html(f'<span class="sq-big" data-testid="cube-count">{around.here.count:,}</span> matches', sanitize=False)
                ui.label(f"{around.seconds:.2f} s").classes("text-slate-400 text-sm")
            with ui.row().classes("items-center gap-1"):
                self._show_gap(1)
                for at, (name, negated, coarser, finer) in enumerate(around.parts, 1):
                    with ui.button(f"{'!' * negated}{name}").props(f"outline no-caps data-testid=position-{at}"), ui.menu():
                        for other in finer:
                            self._show_move(f"{other}", counts, "drill down", (name, other, at))
                        for other in coarser:
                            self._show_move(f"{other}", counts, "roll up", (name, other, at))
                        if len(around.parts) > 1:
                            gone = ("!" * negated + name, at)
                            ui.menu_item("Take out", on_click=lambda gone=gone: self._move("roll up", None, gone))
                    self._show_gap(at + 1)

    def _show_move(self, name: str, counts: dict[str, int], verb: str, move: tuple[str, str, int]) -> None:
        known = counts.get(f"{move[0]} -> {move[1]} at {move[2]}")
        arrow = "↓" if verb == "drill down" else "↑"
        label = f"{arrow} {name}" + (f"   {known:,}" if known is not None else "")
        item = ui.menu_item(label, on_click=lambda: self._move(verb, move))
        item.props["data-testid"] = f"to-{name}"  # not as text: a name must not become a property

    def _show_gap(self, at: int) -> None:
        opened, concepts = self._screen.opened, self._screen.source.concepts
        names = sorted({*(opened.counts if opened else ()), *(concepts.names if concepts else ())})
        with (
            ui.button(icon="add").props(f"flat dense round size=sm data-testid=gap-{at} aria-label='Put a type in at {at}'"),
            ui.menu(),
            ui.column().classes("p-3 gap-2"),
        ):
            choice = ui.select(names, label="Put in", with_input=True).props("dense outlined").classes("w-48")
            negated = ui.checkbox("must not occur")

            async def put() -> None:
                if choice.value:
                    await self._move("drill down", None, (f"{'!' if negated.value else ''}{choice.value}", at))

            ui.button("Put in", on_click=put).props("unelevated dense")

    # ------------------------------------------------------------ pivot

    async def _show_pivot(self, around: Around) -> None:
        places = {at: f"{at}: {name}" for at, (name, negated, _, _) in enumerate(around.parts, 1) if not negated}
        if len(places) < 2:
            return
        first, second, n_down = self._asked_pivot(places) or (*list(places)[:2], 1)
        with ui.column().classes("sq-card gap-1"):
            with ui.row().classes("items-center gap-3"):
                show_title("Pivot")
                rows = ui.select(places, value=first, label="Rows").props("dense outlined options-dense").classes("w-36")
                columns = ui.select(places, value=second, label="Columns").props("dense outlined options-dense").classes("w-36")
                steps = ui.number("Steps down", value=n_down, min=1, max=9).props("dense outlined").classes("w-24")
            place = ui.column().classes("w-full")

            async def draw() -> None:
                if rows.value == columns.value:
                    return
                n = int(steps.value or 1)
                if (rows.value, columns.value, n) != (first, second, n_down):
                    self._screen.look_at(pivot=f"{rows.value},{columns.value},{n}")
                pivot = await self._screen.work("pivot", text=self.shown, rows=(rows.value, n), columns=(columns.value, n))
                if pivot is not None:
                    place.clear()
                    with place:
                        self._draw_pivot(pivot)

            for control in (rows, columns, steps):
                control.on_value_change(draw)
            await draw()

    @staticmethod
    def _draw_pivot(pivot: dict[str, Any]) -> None:
        if len(pivot["rows"]) == len(pivot["columns"]) == 1:
            note = "Nothing is finer than these two types: choose a coarser one, or start with --hierarchy H.yaml."
            ui.label(note).classes("text-slate-500").props("data-testid=no-pivot")
            return
        height = max(220, 34 * len(pivot["rows"]) + 130)
        ui.echart(charts.draw_pivot(pivot)).classes("w-full").style(f"height: {height}px").props("data-testid=pivot")

    def _asked_pivot(self, places: dict[int, str]) -> tuple[int, int, int] | None:
        """The rows, the columns and the steps down that the address asks for, if there are such positions."""
        try:
            rows, columns, n_down = map(int, self._screen.detail.get("pivot", "").split(","))
        except ValueError:
            return None
        return (rows, columns, min(max(n_down, 1), 9)) if {rows, columns} <= set(places) and rows != columns else None


def _headline(text: str) -> str:
    return text.split("\n", maxsplit=1)[0].removeprefix("PATTERN ").strip()


# ---------------------------------------------------------------- forecasts


class ForecastPanel:
    """What rules predicted and how it turned out: the quality of each rule, a stretch of intervals, all rows.

    Of many rules the one with the most predictions is drawn first: together they would be a few moments of each.
    """

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._result: tuple[str, ResultFile] | None = None
        self._drawn: Any = None  # the predictions of the rule that is chosen
        self._at = 0
        self._place = ui.column().classes("w-full gap-3")

    def meet(self) -> None:
        """New events: other rules, or none."""
        self.forget()
        self._place.clear()
        if self._screen.source.rules is None:
            with self._place:
                ui.label("There are no rules for these events. Start with --rules R.yaml to forecast.").classes("text-slate-500")

    async def run(self) -> None:
        screen = self._screen
        if screen.source.rules is None or self._result is not None:
            return
        answer = await screen.find("forecast")
        if answer is None:
            return
        found, self._result = answer
        result = self._result[1]
        self._place.clear()
        with self._place:
            with ui.column().classes("sq-card gap-2"):
                with ui.row().classes("items-center gap-3"):
                    show_title("Rules")
                    big = f'<span class="sq-big" data-testid="n-predictions">{len(result):,}</span>'
                    ui.html(f"{big} predictions in {found['seconds']:.2f} s", sanitize=False)
                if found["unseen"]:
                    ui.label(f"No event is called {', '.join(found['unseen'])}").classes("text-amber-700")
                self._show_quality(found["quality"])
            if len(result):
                with ui.column().classes("sq-card gap-1"):
                    with ui.row().classes("w-full items-center gap-2"):
                        rule = self._first_rule(found["quality"])
                        self._names = [ALL_RULES, *(row["rule"] for row in found["quality"])]
                        choice = ui.select(self._names, value=rule, label="Rule", on_change=lambda event: self._choose(event.value))
                        choice.props("dense outlined options-dense data-testid=rule").classes("w-96 max-w-full")
                        self._stretch = ui.label().classes("sq-title").props("data-testid=stretch")
                        for icon, way in (("chevron_left", -1), ("chevron_right", 1)):
                            button = ui.button(icon=icon, on_click=lambda way=way: self._move(way))
                            button.props(f"flat dense round size=sm data-testid={icon}")
                            button.props["aria-label"] = "Earlier predictions" if way < 0 else "Later predictions"
                    self._chart = ui.column().classes("w-full")
                self._show_rule(rule)
                self._draw(self._first())
            with ui.column().classes("sq-card gap-1"):
                ResultTable(result)

    def _first_rule(self, quality: list[dict[str, Any]]) -> str:
        names = [str(row["rule"]) for row in quality]
        asked = self._screen.detail.get("rule", "")
        if asked.isdecimal() and len(asked) < 19 and int(asked) <= len(names):
            return [ALL_RULES, *names][int(asked)]
        return ALL_RULES if len(names) <= LANES_DRAWN else str(max(quality, key=lambda row: row["predictions"])["rule"])

    def _choose(self, name: str) -> None:
        self._show_rule(name)
        self._screen.detail.pop("at", None)
        self._draw(self._first())
        self._screen.look_at(rule=str(self._names.index(name)))

    def _show_rule(self, name: str) -> None:
        assert self._result is not None
        table = self._result[1].table
        self._drawn = table if name == ALL_RULES else table.filter(pc.field("rule") == name)

    def _first(self) -> int:
        """Where the address asks to begin; else with the last predictions that are all decided."""
        asked = self._screen.detail.get("at", "")
        if asked.isdecimal() and len(asked) < 19:
            return int(asked)
        undecided = pc.index(self._drawn.column("outcome"), "open").as_py()
        return (undecided if undecided >= 0 else len(self._drawn)) - PREDICTIONS_DRAWN

    def _move(self, way: int) -> None:
        self._draw(self._at + way * PREDICTIONS_DRAWN)
        self._screen.look_at(at=str(self._at))

    def _draw(self, at: int) -> None:
        n = len(self._drawn)
        self._at = min(max(at, 0), max(n - PREDICTIONS_DRAWN, 0))
        shown = self._drawn.slice(self._at, PREDICTIONS_DRAWN)
        self._stretch.text = f"Predictions {self._at + 1:,} to {self._at + len(shown):,} of {n:,}" if n else "No predictions"
        self._chart.clear()
        if n:
            with self._chart:
                spec = charts.draw_predictions(shown)
                height = 120 + max(160, 34 * len(spec["yAxis"][1]["data"]))
                ui.echart(spec).classes("w-full").style(f"height: {height}px").props("data-testid=predictions")

    @staticmethod
    def _show_quality(quality: list[dict[str, Any]]) -> None:
        shown = ["rule", "predictions", "hits", "misses", "open", "precision", "probability", "observed_rate", "lift", "mean_lead"]
        shown = [name for name in shown if any(row.get(name) is not None for row in quality) or name != "lift"]
        columns = [
            {"name": name, "label": name.replace("_", " "), "field": name, "align": "left", "sortable": name != "mean_lead"}
            for name in shown
        ]
        rows = [{name: _brief(row.get(name)) for name in shown} | {"rule": _say(row["rule"])} for row in quality]
        table = ui.table(columns=columns, rows=rows, row_key="rule", pagination=RULES_SHOWN if len(rows) > RULES_SHOWN else 0)
        table.classes("sq-table").props("flat dense data-testid=quality")

    def forget(self) -> None:
        if self._result is not None:
            self._screen.explorer.drop(self._result[0])
        self._result = self._drawn = None


def _say(rule: str) -> str:
    """The name of a mined rule as it is read aloud."""
    return rule.replace(" => ", " ⇒ ").replace(" -> ", " → ")


def _brief(value: Any) -> Any:
    """A number or a duration in a few digits."""
    match value:
        case float():
            return round(value, 3)
        case timedelta() if value >= timedelta(seconds=10):
            return for_browser(timedelta(seconds=round(value.total_seconds())))
        case _:
            return for_browser(value)
