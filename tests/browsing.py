"""Pages as a person meets them: the explorer's own server, headless Chromium, screenshots in build/screenshots."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

SCREENSHOTS = Path(__file__).resolve().parents[1] / "build" / "screenshots"
PICTURES = Path(__file__).resolve().parents[1] / "docs" / "pictures"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
FLAGS += ["--disable-component-update", "--disable-sync"]
PATIENCE_MS = 180_000  # what is asked for the first time is compiled, which takes long on a busy machine

in_browser = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine"),
]


def browsed(test: Callable[..., None]) -> Callable[..., None]:
    """A single test that needs a browser."""
    for mark in in_browser:
        test = mark(test)
    return test


@contextmanager
def serve(*options: str | Path) -> Iterator[str]:
    """The address that `seqube explore` prints."""
    command = [sys.executable, "-m", "seqube", "explore", "--port", "0", *map(str, options)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONUNBUFFERED": "1"})
    assert server.stdout is not None
    found = next((found for line in server.stdout if (found := re.search(r"http\S+", line))), None)
    assert found
    try:
        yield found[0]
    finally:
        server.terminate()
        server.wait(30)


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser; starting one takes longer than most of what is done in it."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@contextmanager
def browse(browser: Browser, address: str) -> Iterator[Page]:
    """A page that knows nothing of others; no request of it may leave the machine, and no script of it may fail."""
    from playwright.sync_api import expect

    outside: list[str] = []
    errors: list[str] = []
    context = browser.new_context(viewport={"width": 1400, "height": 1000}, accept_downloads=True)
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    expect.set_options(timeout=PATIENCE_MS)
    home = urlsplit(address).netloc
    page.on("request", lambda request: None if urlsplit(request.url).netloc in (home, "") else outside.append(request.url))
    page.on("pageerror", lambda error: errors.append(str(error)))
    try:
        yield page
    finally:
        context.close()
    assert outside == []
    assert errors == []


def home(address: str) -> str:
    return f"http://{urlsplit(address).netloc}/"


def shoot(page: Page, name: str) -> None:
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    page.wait_for_timeout(400)
    page.screenshot(path=SCREENSHOTS / f"{name}.png", full_page=True)


def picture(page: Page, name: str) -> None:
    """A picture of the page for the docs, and what can be read on it: the picture is never older than that.

    `SEQUBE_PICTURES=write` takes it anew. Numbers of seconds are left out of what is compared, because they differ each time.
    """
    from playwright.sync_api import expect

    expect(page.get_by_test_id("progress")).to_have_text("")

    def said() -> str:
        return re.sub(r"[\d.,]+ m?s\b", "... s", page.locator("body").inner_text())

    if os.environ.get("SEQUBE_PICTURES") == "write":
        PICTURES.mkdir(parents=True, exist_ok=True)
        page.wait_for_timeout(1_000)  # charts move for a while
        page.screenshot(path=PICTURES / f"{name}.png")
        (PICTURES / f"{name}.txt").write_text(said(), encoding="utf-8")
    kept = (PICTURES / f"{name}.txt").read_text(encoding="utf-8")
    expect_soon(page, said, kept, f"docs/pictures/{name}.png is older than the page: SEQUBE_PICTURES=write takes it anew")


def expect_soon(page: Page, look: Callable[[], Any], wanted: Any, why: str = "") -> None:
    """Look at the page until it shows what is wanted: its parts are drawn one after the other."""
    until = time.monotonic() + PATIENCE_MS / 1000
    while (seen := look()) != wanted and time.monotonic() < until:
        page.wait_for_timeout(100)
    assert seen == wanted, why


def write(page: Page, text: str, editor: str = "Query") -> None:
    """Put a text into an editor, once it knows the language; the page needs a moment to notice."""
    page.get_by_role("textbox", name=editor, exact=True).click()
    page.keyboard.press("Control+a")
    page.keyboard.press("Delete")
    page.keyboard.insert_text(text)
    page.wait_for_timeout(600)


def number(page: Page, name: str) -> int:
    return int(page.get_by_test_id(name).inner_text().replace(",", ""))


def expect_count(page: Page, name: str, count: int) -> None:
    from playwright.sync_api import expect

    expect(page.get_by_test_id(name)).to_have_text(f"{count:,}")


def run(page: Page, text: str) -> None:
    write(page, text)
    page.get_by_test_id("run").click()


# ---------------------------------------------------------------- charts: what they were told to draw, and clicks on it

_CHART = "getElement(Number(document.querySelector(`[data-testid=${name}]`).id.slice(1))).chart"


def drawn(page: Page, name: str) -> dict[str, Any]:
    """The spec of a chart, as the browser has it."""
    page.get_by_test_id(name).locator("canvas").first.wait_for()
    spec: dict[str, Any] = page.evaluate(f"name => {_CHART}.getOption()", name)
    return spec


def click_point(page: Page, name: str, series: int, point: int, shows: str) -> None:
    """Click where a chart has drawn a point of a series until that shows something: a chart that still moves hears no clicks."""
    from playwright.sync_api import TimeoutError as TooLate

    def clicked() -> bool:
        _click(page, name, series, point)
        with contextlib.suppress(TooLate):
            page.get_by_test_id(shows).wait_for(timeout=3_000)
        return page.get_by_test_id(shows).is_visible()

    expect_soon(page, clicked, True)


def _click(page: Page, name: str, series: int, point: int) -> None:
    page.get_by_test_id(name).scroll_into_view_if_needed()
    x, y = page.evaluate(
        f"""([name, series, point]) => {{
            const chart = {_CHART};
            const data = chart.getModel().getSeriesByIndex(series).getData();
            return data.getItemLayout(point);
        }}""",
        [name, series, point],
    )
    page.get_by_test_id(name).click(position={"x": x, "y": y})
