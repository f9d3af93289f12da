"""The page as a person uses it, in headless Chromium: it must say what `sq.run` says. Screenshots go to build/screenshots."""

from __future__ import annotations

import csv
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import pytest

import seqube as sq
from seqube.generate import generate, hierarchy

if TYPE_CHECKING:
    from playwright.sync_api import Page

ROOT = Path(__file__).resolve().parents[2]
SCREENSHOTS = ROOT / "build" / "screenshots"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
FLAGS += ["--disable-component-update", "--disable-sync"]
PATIENCE_MS = 120_000  # compiling on a busy machine takes long

HIERARCHY = """\
Computer: [DELL, INTC, MSFT]
Finance: [QQQ, FCF, ROM]
"""

pytestmark = [
    pytest.mark.browser,
    pytest.mark.xdist_group("browser"),
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine"),
]


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from pyarrow import parquet

    folder = tmp_path_factory.mktemp("explorer")
    parquet.write_table(generate("stock", 20_000, seed=7), folder / "trades.parquet")
    (folder / "companies.yaml").write_text(HIERARCHY)
    return folder / "trades.parquet"


@pytest.fixture(scope="module")
def address(events: Path) -> Iterator[str]:
    files = ["--events", str(events), "--hierarchy", str(events.with_name("companies.yaml"))]
    command = [sys.executable, "-m", "seqube", "explore", "--port", "0", *files]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONUNBUFFERED": "1"})
    assert server.stdout is not None
    found = re.search(r"http\S+", server.stdout.readline())
    assert found
    yield found[0]
    server.terminate()
    server.wait(30)


@pytest.fixture
def page(address: str) -> Iterator[Page]:
    from playwright.sync_api import expect, sync_playwright

    outside: list[str] = []
    errors: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        context = browser.new_context(viewport={"width": 1400, "height": 1000}, accept_downloads=True)
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        expect.set_options(timeout=PATIENCE_MS)
        home = urlsplit(address).netloc
        page.on("request", lambda request: None if urlsplit(request.url).netloc in (home, "") else outside.append(request.url))
        page.on("pageerror", lambda error: errors.append(str(error)))
        yield page
        browser.close()
    assert outside == []  # no request leaves the machine
    assert errors == []


def shoot(page: Page, name: str) -> None:
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    page.wait_for_timeout(400)
    page.screenshot(path=SCREENSHOTS / f"{name}.png", full_page=True)


def write(page: Page, text: str) -> None:
    page.locator(".cm-content").click()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(text)


def number(page: Page, name: str) -> int:
    return int(page.get_by_test_id(name).inner_text().replace(",", ""))


def expect_count(page: Page, name: str, count: int) -> None:
    from playwright.sync_api import expect

    expect(page.get_by_test_id(name)).to_have_text(f"{count:,}")


def test_from_a_typo_to_an_export(page: Page, address: str, events: Path, tmp_path: Path) -> None:
    from playwright.sync_api import expect

    concepts = sq.Hierarchy.load(events.with_name("companies.yaml"))
    stream = sq.Events(events)

    page.goto(address)
    assert "token" not in page.url
    expect(page.get_by_test_id("facts")).to_have_text("20,000 events · 20 types")
    page.get_by_test_id("count").wait_for()

    # A typo is underlined where it is, and the message says what was meant.
    wrong = "PATTERN SEQ(Computer a, Finance b)\nWHERE a.price < b.prise\nWITHIN 50 ms"
    write(page, wrong)
    expect(page.get_by_test_id("problems")).to_contain_text("did you mean 'price'?")
    assert page.locator(".sq-wrong").all_inner_texts() == ["b.prise"]
    shoot(page, "1-typo")

    right = wrong.replace("prise", "price")
    write(page, right)
    expect(page.get_by_test_id("problems")).to_have_text("")
    page.get_by_test_id("run").click()
    expected = sq.run(right, stream, hierarchy=concepts)
    expect_count(page, "count", len(expected))
    shoot(page, "2-matches")

    # Sorted by the server, page by page.
    page.get_by_test_id("rows").get_by_role("columnheader", name="b.price").click()
    lowest = min(expected.table.column("b").combine_chunks().field("price").to_pylist())
    expect(page.get_by_test_id("rows").locator("tbody tr").first).to_contain_text(f"{lowest:g}")

    page.get_by_test_id("show-timeline").click()
    expect(page.get_by_test_id("timeline-note")).to_contain_text("matches")
    page.get_by_test_id("timeline").locator("canvas").first.wait_for()
    shoot(page, "3-timeline")
    page.get_by_test_id("show-plan").click()
    page.get_by_test_id("plan").locator("canvas").first.wait_for()
    shoot(page, "4-plan")

    with page.expect_download() as waiting:
        page.get_by_test_id("export-csv").click()
    waiting.value.save_as(tmp_path / "matches.csv")
    with (tmp_path / "matches.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(expected)
    assert [int(row["start"]) for row in rows] == expected.table.column("start").to_pylist()


def test_down_the_cube_and_back(page: Page, address: str, events: Path) -> None:
    concepts = sq.Hierarchy.load(events.with_name("companies.yaml"))
    stream = sq.Events(events)

    def count(pattern: str) -> int:
        return len(sq.run(f"{pattern} WITHIN 50 ms", stream, hierarchy=concepts))

    page.goto(address)
    page.get_by_test_id("count").wait_for()
    write(page, "PATTERN SEQ(Computer a, Finance b)\nWITHIN 50 ms")
    page.wait_for_timeout(600)
    page.get_by_test_id("tab-cube").click()
    expect_count(page, "cube-count", count("SEQ(Computer a, Finance b)"))
    shoot(page, "5-cube")

    page.get_by_test_id("position-1").click()
    page.get_by_test_id("to-DELL").click()
    expect_count(page, "cube-count", count("SEQ(DELL a, Finance b)"))
    page.get_by_test_id("position-2").click()
    page.get_by_test_id("to-QQQ").click()
    finest = count("SEQ(DELL a, QQQ b)")
    expect_count(page, "cube-count", finest)
    page.get_by_test_id("lattice").locator("canvas").first.wait_for()
    shoot(page, "6-drilled-down")
    shared = page.url
    assert parse_qs(urlsplit(shared).query)["q"] == ["PATTERN SEQ(DELL a, QQQ b)\nWITHIN 50 ms"]

    # The first crumb leads all the way back; so does the browser, a step at a time; and an address leads to its view.
    page.get_by_test_id("crumb-0").click()
    expect_count(page, "cube-count", count("SEQ(Computer a, Finance b)"))
    page.wait_for_url(lambda url: "Computer" in url and "via" not in url)
    page.go_back()
    expect_count(page, "cube-count", finest)
    page.goto(shared)
    expect_count(page, "cube-count", finest)
    assert page.get_by_test_id("crumb-1").is_visible()


def test_aggregates_forecasts_and_generated_events(page: Page, address: str) -> None:
    home = f"http://{urlsplit(address).netloc}/"
    text = "PATTERN SEQ(DELL a, IPIX b)\nAGG COUNT(*)\nWITHIN 1 s\nEMIT EVERY 1 s"
    stream = sq.Events(generate("stock", 100_000, seed=2026))
    page.goto(address)
    page.goto(home + "?" + "&".join(["data=generated+stock", "q=" + text.replace("\n", "%0A").replace(" ", "+")]))
    expect_count(page, "count", len(sq.run(text, stream, hierarchy=sq.Hierarchy.from_dict(hierarchy("stock")))))
    page.get_by_test_id("show-chart").click()
    page.get_by_test_id("chart").locator("canvas").first.wait_for()
    shoot(page, "7-aggregates")
    page.goto(home + "?data=generated+hospital&view=forecast")
    page.get_by_test_id("predictions").locator("canvas").first.wait_for()
    assert number(page, "n-predictions") > 0
    shoot(page, "8-forecasts")


def test_work_can_be_stopped(page: Page, address: str) -> None:
    page.goto(address)
    page.get_by_test_id("count").wait_for()
    write(page, "PATTERN SEQ(Computer a, Finance b, Computer c, Finance d, Computer e)\nWITHIN 5 s")
    page.wait_for_timeout(600)
    page.get_by_test_id("run").click()
    page.get_by_test_id("stop").click()
    page.get_by_text("Stopped").wait_for()
    write(page, "PATTERN SEQ(DELL a, QQQ b)\nWITHIN 5 ms")
    page.wait_for_timeout(600)
    page.get_by_test_id("run").click()
    page.get_by_test_id("count").wait_for()


def test_without_the_token_there_is_no_page(page: Page, address: str) -> None:
    response = page.goto(f"http://{urlsplit(address).netloc}/")
    assert response is not None
    assert response.status == 403
