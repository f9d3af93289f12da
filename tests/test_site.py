"""The site builds, has every page in its order, and asks nothing of other machines."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from browsing import browse, browsed, chromium, shoot

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", folder]
    subprocess.run(command, cwd=ROOT, check=True, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"})
    return folder


def test_every_page_can_be_reached(site: Path) -> None:
    start = (site / "index.html").read_text(encoding="utf-8")
    reached = set(re.findall(r'href="([^"#]+)" class="md-nav__link', start))
    pages = {str(page.relative_to(ROOT / "docs").with_suffix(".html")) for page in (ROOT / "docs").rglob("*.md")}
    assert {"tutorial.html", "how-to/fraud.html", "algorithms/nested.html", "reference.html"} <= reached
    assert {page for page in pages if "/" not in page} - reached <= {"index.html"}


def test_the_reference_has_every_public_name(site: Path) -> None:
    import seqube

    text = (site / "reference.html").read_text(encoding="utf-8")
    assert all(f'id="{name.lower()}"' in text for name in seqube.__all__ if not name.startswith("_"))


def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        loaded = re.findall(r'<(?:script|link|img|iframe)[^>]+(?:src|href)="(https?:)?//[^"]+', page.read_text(encoding="utf-8"))
        assert not loaded, page.name


@browsed
def test_the_first_page_is_coloured_has_its_pictures_and_goes_dark(site: Path) -> None:
    from playwright.sync_api import expect

    address = (site / "index.html").as_uri()
    with chromium() as browser, browse(browser, address) as page:  # which asks for nothing outside
        for scheme, is_dark in (("light", False), ("dark", True)):
            page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
            page.goto(address)
            digits = page.evaluate("() => getComputedStyle(document.body).backgroundColor.match(/[0-9.]+/g)")
            assert (sum(map(float, digits[:3])) / 3 < 60) is is_dark
            colour = "kind => getComputedStyle(document.querySelector(kind)).color"
            colours = [page.evaluate(colour, kind) for kind in (".kn", ".s2", ".mi")]
            assert len(set(colours)) == 3
            assert page.evaluate("() => [...document.images].map(image => image.naturalWidth > 0)") == [True, True]
            shoot(page, f"site-{scheme}")
        page.locator("[data-md-component=search-query]").first.click()
        page.keyboard.type("absence")
        expect(page.locator(".md-search-result__link").first).to_be_visible()
        page.set_viewport_size({"width": 390, "height": 800})
        for name in ("index.html", "benchmarks/peers.html", "aggregates.html", "reference.html"):
            page.goto((site / name).as_uri())
            assert page.evaluate("() => document.documentElement.scrollWidth") <= 390, name


def test_the_order_of_pages_names_what_the_benchmarks_write(tmp_path: Path) -> None:
    from bench.report import DOCS, write_report

    first = write_report(tmp_path / "nothing measured", tmp_path / "docs")
    page = DOCS.relative_to("docs") / first.name
    assert f"Benchmarks: {page}\n" in (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
