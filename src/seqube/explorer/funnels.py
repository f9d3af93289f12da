"""The funnel on the page: steps and what may not lie between them, how many keys got how far, and how long they took.

What is asked stands in the address, as one value. A funnel is a few rows, so they come with the worker's answer and lie in no file.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from nicegui import ui

from seqube.errors import SequbeError
from seqube.explorer import charts
from seqube.explorer.jobs import Opened
from seqube.explorer.panels import show_title
from seqube.funnels import MODES_OF_FUNNELS

if TYPE_CHECKING:
    from seqube.explorer.page import Screen

N_STEPS = 3  # to begin with
MEANINGS = {"next": "the first event that fits", "strict": "consecutive events", "any": "some way through"}


class FunnelPanel:
    """Steps, keys and a window to choose; below them the funnel, drawn and as a table."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._shown: dict[str, Any] | None = None  # what was asked, of what is drawn
        self._excluded: dict[int, Any] = {}
        with ui.column().classes("sq-card gap-2"):
            show_title("Funnel")
            with ui.row().classes("w-full items-center gap-3"):
                self._steps = ui.select([], label="Steps, in order", multiple=True, on_change=self._meet_steps)
                self._steps.props("dense outlined options-dense use-chips data-testid=funnel-steps").classes("w-96 max-w-full")
                self._by = _choice("Keys", "funnel-by")
                self._within = ui.input("Within").props("dense outlined data-testid=funnel-within").classes("w-32")
                self._within.on("keydown.enter", self.run)
                modes = {mode: MEANINGS[mode] for mode in MODES_OF_FUNNELS}
                self._mode = ui.select(modes, value="next", label="Which events").props("dense outlined options-dense")
                self._mode.props("data-testid=funnel-mode").classes("w-52")
                self._breakdown = _choice("Broken down by", "funnel-breakdown").props("clearable")
            self._between = ui.row().classes("w-full items-center gap-3")
            with ui.row().classes("items-center gap-3"):
                ui.button("Count", icon="play_arrow", on_click=self.run).props("unelevated data-testid=funnel-run")
                self._outcome = ui.label().classes("text-slate-500").props("data-testid=funnel-outcome role=status")
            self._problem = ui.label().classes("sq-problems").props("data-testid=funnel-problem role=alert")
        self._place = ui.column().classes("w-full gap-3")

    def meet(self, opened: Opened) -> None:
        """New events: other types to choose from, other columns."""
        screen, schema = self._screen, opened.sample.schema
        concepts = screen.source.concepts
        self._types = list(dict.fromkeys([*opened.counts, *(concepts.names if concepts else ())]))
        columns = [name for name in schema if name not in (schema.type_column, schema.time_column)]
        most = sorted(opened.counts, key=lambda name: -opened.counts[name])[:N_STEPS]
        first_to_last = [name for name in opened.counts if name in most]  # types stand as they first come in
        asked: dict[str, Any] = {"steps": first_to_last, "by": opened.key, "within": opened.window, "mode": "next"}
        asked |= _read(screen.detail.get("funnel", ""))
        for control in (self._by, self._breakdown):
            control.set_options(columns)
        self._steps.set_options(self._types, value=[name for name in asked["steps"] if name in self._types])
        self._by.set_value(asked["by"] if asked["by"] in columns else None)
        self._breakdown.set_value(asked.get("breakdown") if asked.get("breakdown") in columns else None)
        self._within.set_value(asked["within"])
        self._mode.set_value(asked["mode"] if asked["mode"] in MODES_OF_FUNNELS else "next")
        self._meet_steps()
        for number, select in self._excluded.items():
            select.set_value([name for name in asked.get("without", {}).get(str(number), []) if name in self._types])
        self._shown = None
        self._place.clear()
        self._problem.text = self._outcome.text = ""

    def _meet_steps(self) -> None:
        """A choice of what may not occur before each step but the first."""
        before = {number: select.value for number, select in self._excluded.items()}
        self._between.clear()
        self._excluded = {}
        with self._between:
            for number, name in enumerate(self._steps.value or (), 1):
                if number > 1:
                    select = ui.select(self._types, label=f"Not before {name}", multiple=True, value=before.get(number, []))
                    select.props(f"dense outlined options-dense use-chips data-testid=funnel-without-{number}").classes("w-56")
                    self._excluded[number] = select

    @property
    def _asked(self) -> dict[str, Any]:
        without = {str(number): select.value for number, select in self._excluded.items() if select.value}
        asked = {"steps": list(self._steps.value or ()), "by": self._by.value, "within": str(self._within.value or "").strip()}
        asked |= {"mode": self._mode.value, "breakdown": self._breakdown.value, "without": without}
        return {name: value for name, value in asked.items() if value}

    async def run(self) -> None:
        asked = self._asked
        if asked == self._shown:
            return
        self._place.clear()
        self._problem.text = self._outcome.text = ""
        self._shown = None
        missing = [what for name, what in (("steps", "steps"), ("by", "keys"), ("within", "a window")) if name not in asked]
        if missing:
            self._problem.text = f"A funnel needs {' and '.join(missing)}: choose above."
            return
        answer = await self._screen.work("funnel", self._tell, asked=asked)
        if answer is None:
            return
        self._shown = asked
        self._screen.look_at(funnel=json.dumps(asked, separators=(",", ":")))
        rows, breakdown = answer["rows"], asked.get("breakdown")
        self._outcome.text = f"counted in {answer['seconds']:.2f} s"
        with self._place:
            with ui.row().classes("w-full gap-3 items-stretch"):
                for title, name, measure in (
                    ("Keys that got so far", "funnel", "reached"),
                    ("Time from the first step, median seconds", "funnel-times", "median_seconds"),
                ):
                    with ui.column().classes("sq-card gap-1").style("flex: 1 1 300px; min-width: 0"):
                        show_title(title)
                        spec = charts.draw_funnel(rows, breakdown, measure)
                        height = 60 + len(asked["steps"]) * max(40, 12 + 20 * len(spec["series"]))  # a label beside each bar
                        ui.echart(spec).classes("w-full").style(f"height: {height}px").props(f"data-testid={name}")
            with ui.column().classes("sq-card gap-1"):
                _show_table(rows, breakdown)

    def _tell(self, error: SequbeError) -> None:
        self._problem.text = str(error)


def _choice(label: str, name: str) -> ui.select:
    return ui.select([], label=label).props(f"dense outlined options-dense data-testid={name}").classes("w-40")


def _show_table(rows: list[dict[str, Any]], breakdown: str | None) -> None:
    shown = {"step": "step", "type": "type", "reached": "keys", "share": "of the first step", "of_previous": "of the step before"}
    shown["median_seconds"] = "median seconds"
    if breakdown is not None:
        shown = {breakdown: breakdown, **shown}
    columns = [{"name": name, "label": label, "field": name, "align": "left"} for name, label in shown.items()]
    told = []
    for number, row in enumerate(rows):
        shares = {name: f"{row[name]:.1%}" for name in ("share", "of_previous") if row[name] is not None}
        seconds = {} if row["median_seconds"] is None else {"median_seconds": f"{row['median_seconds']:,.4g}"}
        told.append({**row, **shares, **seconds, "#": number})
    ui.table(columns=columns, rows=told, row_key="#").classes("sq-table").props("flat dense data-testid=funnel-rows")


def _read(text: str) -> dict[str, Any]:
    """What an address asks for, as far as it is what this page writes."""
    try:
        asked = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(asked, dict):
        return {}
    kinds: dict[str, type] = {"steps": list, "by": str, "within": str, "mode": str, "breakdown": str, "without": dict}
    return {name: asked[name] for name, kind in kinds.items() if isinstance(asked.get(name), kind)}
