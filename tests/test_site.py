"""The site builds, has every page in its order, and asks nothing of other machines."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    subprocess.run([sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", folder], cwd=ROOT, check=True)
    return folder


def test_every_page_can_be_reached(site: Path) -> None:
    start = (site / "index.html").read_text(encoding="utf-8")
    reached = set(re.findall(r'class="[^"]*reference internal[^"]*" href="([^"#]+)', start))
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


def test_the_order_of_pages_names_what_the_benchmarks_write(tmp_path: Path) -> None:
    from bench.report import DOCS, write_report

    first = write_report(tmp_path / "nothing measured", tmp_path / "docs")
    page = DOCS.relative_to("docs") / first.name
    assert f"Benchmarks: {page}\n" in (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
