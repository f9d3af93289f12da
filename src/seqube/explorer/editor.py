"""An editor on the page, and the card it stands in: its text belongs to the browser, and the server follows it.

What the server wants there (another text, marks under what is wrong, the words of a language) it asks of `editor.js`, which does it
unless somebody is typing.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from html import escape
from typing import Any

from nicegui import events as happenings
from nicegui import ui

from seqube.errors import Problem, QueryError, SequbeError
from seqube.explorer.panels import show_title

TYPING_PAUSE = 0.25


class Editor:
    """A text, what is wrong with it below, and what is done when it rests. `hear` is told the text whenever it changes."""

    def __init__(
        self,
        text: str,
        label: str,
        name: str,
        rest: Callable[[], object],
        run: Callable[[], Awaitable[None]],
        hear: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.text = text
        self._label, self._rest, self._hear = label, rest, hear
        self._typed = 0
        self._there = text  # what the editor holds, as far as was heard of it
        self._element = ui.codemirror(text, on_change=self._type, theme="vscodeLight", line_wrapping=True, indent="  ")
        self._element.classes("sq-editor").props(f"data-testid={name}")
        self._element.map_key("Mod-Enter", run)

    def show_problems(self, name: str) -> None:
        """Where what is wrong is told."""
        self._problems = ui.label().classes("sq-problems").props(f"data-testid={name} role=alert")

    def teach(self, names: Sequence[str], attributes: Sequence[str], words: Sequence[str], functions: Mapping[str, Any]) -> None:
        """Colours and completion: names that stand alone, those behind a dot, words of the language, and what functions take."""
        self._ask("teach", list(dict.fromkeys(names)), list(attributes), list(words), dict(functions), self._label)

    def write(self, text: str) -> None:
        """Put a text into the editor, unless somebody is typing there: then theirs stays, and is heard of."""
        self.text = text
        self._hear(text)
        self._ask("write", self._there, text)
        self._there = text

    def tell(self, error: SequbeError | None) -> None:
        """Mark and tell what is wrong, or that nothing is."""
        problems = error.problems if isinstance(error, QueryError) else ()
        self._ask("mark", self.text, [place for problem in problems if (place := _offsets(problem, self.text)) is not None])
        self._problems.text = str(error or "")

    def _ask(self, function: str, *arguments: Any) -> None:
        """Call a function of editor.js with this editor."""
        given = ", ".join([str(self._element.id), f"() => getElement({self._element.id})", *map(json.dumps, arguments)])
        ui.run_javascript(f"import('/seqube/editor.js').then((editor) => editor.{function}({given}))")

    async def _type(self, event: happenings.ValueChangeEventArguments[Any]) -> None:
        self.text = self._there = event.value
        self._hear(self.text)
        self._typed += 1
        mine = self._typed
        await asyncio.sleep(TYPING_PAUSE)
        if mine == self._typed:
            self._rest()


def _offsets(problem: Problem, text: str) -> tuple[int, int] | None:
    """A place in lines and columns as positions in the text; something is marked even at the text's end."""
    if problem.at is None or not text:
        return None
    lines = text.split("\n")
    line = min(problem.at.line, len(lines)) - 1
    start = sum(len(before) + 1 for before in lines[:line]) + problem.at.column - 1
    start = min(start, len(text) - 1)
    return start, min(max(start + problem.at.length, start + 1), len(text))


class EditorCard:
    """An editor with examples above it and what came of its text below, names beside it, and a place for the answer."""

    def __init__(
        self,
        title: str,
        beside: str,
        prefix: str,
        text: str,
        rest: Callable[[], object],
        run: Callable[[], Awaitable[None]],
        hear: Callable[[str], None] = lambda _: None,
        show_settings: Callable[[], object] = lambda: None,
    ) -> None:
        self._prefix = prefix  # of the names by which its parts are found
        with ui.row().classes("sq-split w-full gap-3 items-stretch"):
            with ui.column().classes("sq-card gap-2 grow"):
                with ui.row().classes("w-full items-center gap-2"):
                    show_title(title)
                    ui.space()
                    with ui.button("Examples", icon="menu_book").props(f"flat dense data-testid={prefix}examples"):
                        self._examples = ui.menu()
                self.editor = Editor(text, title, f"{prefix}editor", rest, run, hear)
                self.editor.show_problems(f"{prefix}problems")
                with ui.row().classes("items-center gap-3"):
                    button = ui.button("Run", icon="play_arrow", on_click=run).tooltip("Ctrl-Enter")
                    button.props(f"unelevated data-testid={prefix}run")
                    show_settings()
                    self._outcome = ui.html("", sanitize=False).props(f"data-testid={prefix}outcome role=status")
            with ui.column().classes("sq-card sq-side gap-1"):
                show_title(beside)
                self._names = ui.scroll_area().style("height: 230px").classes("w-full")
        self.answer = ui.column().classes("w-full gap-3")

    def offer(self, examples: Mapping[str, str]) -> None:
        """Examples by their titles, in the place of those before."""
        self._examples.clear()
        with self._examples:
            for title, text in examples.items():
                ui.menu_item(title, on_click=lambda text=text: self.editor.write(text))

    def list_names(self, lines: Iterable[tuple[str, str, str]]) -> None:
        """Names beside the editor, each with something about it and the classes of its line."""
        self._names.clear()
        with self._names, ui.column().classes("gap-0 w-full"):
            for name, about, style in lines:
                with ui.row().classes(f"w-full justify-between no-wrap text-sm {style}"):
                    ui.label(name).classes("ellipsis")
                    ui.label(about).classes("sq-fact text-slate-500 ellipsis")

    def say(self, n_rows: int, noun: str, seconds: float, how: str = "") -> None:
        """What came of a run."""
        pace = f"{seconds:.2f} s" if seconds >= 0.1 else f"{1000 * seconds:.0f} ms"
        count = f'<span class="sq-big" data-testid="{self._prefix}count">{n_rows:,}</span>'
        by = f' <span class="text-slate-500">· {escape(how)}</span>' if how else ""
        self._outcome.content = f"{count} {noun} in {pace}{by}"

    def clear(self) -> None:
        """Nothing of a text before stays under one that fails."""
        self.answer.clear()
        self._outcome.content = ""
