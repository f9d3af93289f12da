"""SQL on the page, in headless Chromium: it must say what `sq.sql` says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import pyarrow as pa
import pytest
from pyarrow import parquet

import seqube as sq
from browsing import browse, browsed, chromium, expect_count, home, serve, shoot, write
from seqube.explorer.jobs import Desk
from seqube.explorer.sources import Source
from seqube.explorer.statements import examples_for
from seqube.generate import generate

if TYPE_CHECKING:
    from playwright.sync_api import Page


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sql") / "trades.parquet"
    parquet.write_table(generate("stock", 5_000, seed=7), path)
    return path


def test_every_example_runs_and_tells_what_sql_tells(events: Path, tmp_path: Path) -> None:
    desk = Desk(Source("trades.parquet", events))
    opened = desk.open()
    table = parquet.read_table(events)
    for number, (title, text) in enumerate(examples_for(opened).items()):
        out = tmp_path / f"{number}.arrow"
        desk.sql(text, {}, out)
        found = pa.ipc.open_file(out).read_all()
        assert found.num_rows > 0, title
        told = sq.sql(text, events=table)
        assert found.schema.equals(told.schema), title
        # Without ORDER BY around a clause, DuckDB's threads give rows in any order.
        assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, told.to_pylist())), title
    assert "machine: linear" in desk.explain_sql(next(iter(examples_for(opened).values())), {})


def test_names_that_mean_something_in_sql_and_columns_of_one_name(tmp_path: Path) -> None:
    pa_table = pa.table({"when": [1, 2, 3], "user": ["it's", "b", "it's"], "order": [3, 1, 2]})
    parquet.write_table(pa_table, tmp_path / "odd.parquet")
    desk = Desk(Source("odd", tmp_path / "odd.parquet", "", "user", "when", "ms"))
    for text in examples_for(desk.open()).values():
        desk.sql(text, {}, tmp_path / "out.arrow")
    other = Source("other", tmp_path / "odd.parquet", "", "user", "when", "ms")
    desk.sql('SELECT a."when", b."when" FROM events a JOIN other b USING ("order")', {"other": other}, tmp_path / "out.arrow")
    assert pa.ipc.open_file(tmp_path / "out.arrow").read_all().column_names == ["when", "when (2)"]


@pytest.fixture(scope="module")
def address(events: Path) -> Iterator[str]:
    with serve("--events", events) as address:
        yield address


@pytest.fixture
def page(address: str) -> Iterator[Page]:
    with chromium() as browser, browse(browser, address) as page:
        yield page


@browsed
def test_a_statement_is_written_run_explained_stopped_and_kept(page: Page, address: str, events: Path) -> None:
    from playwright.sync_api import expect

    table = parquet.read_table(events)
    page.goto(address)
    page.goto(home(address) + "?view=sql")

    # A first visit: a statement that fits the events has run.
    first = next(iter(examples_for(Desk(Source("trades.parquet", events)).open()).values()))
    expect_count(page, "sql-count", sq.sql(first, events=table).num_rows)
    shoot(page, "20-sql")

    # A mistake is underlined while it is typed, and told with its place and a hint.
    clause = "SELECT * FROM events MATCH_RECOGNIZE (\n  PARTITION BY id ORDER BY ts\n  MEASURES COUNT(*) AS n\n  PATTERN (a b+)\n"
    write(page, f"{clause}  DEFINE b AS prise > PREV(price))", "Statement")
    expect(page.get_by_test_id("sql-problems")).to_contain_text("did you mean 'price'?")
    expect(page.get_by_test_id("sql-problems")).to_contain_text("(line 5, column 15)")
    expect(page.locator(".sq-wrong")).to_have_text(["prise"])
    shoot(page, "21-sql-mistake")

    right = f"{clause}  DEFINE b AS price > PREV(price)) ORDER BY n DESC, id"
    write(page, right, "Statement")
    expect(page.get_by_test_id("sql-problems")).to_have_text("")
    page.get_by_test_id("sql-run").click()
    expected = sq.sql(right, events=table)
    expect_count(page, "sql-count", expected.num_rows)
    expect(page.get_by_test_id("sql-rows").locator("tbody tr").first).to_contain_text(str(expected["n"][0].as_py()))
    page.get_by_test_id("sql-show-plan").click()
    expect(page.get_by_test_id("sql-plan")).to_contain_text("column price > PREV(price)")
    shoot(page, "22-sql-plan")

    # What DuckDB finds wrong outside of the clause is told, and files are closed to it.
    write(page, "SELECT nothing FROM events", "Statement")
    page.get_by_test_id("sql-run").click()
    expect(page.get_by_test_id("sql-problems")).to_contain_text("nothing")
    write(page, f"SELECT * FROM '{events}'", "Statement")
    page.get_by_test_id("sql-run").click()
    expect(page.get_by_test_id("sql-problems")).to_contain_text("hand files in by name")

    # It can be stopped, and goes on afterwards; the address keeps the statement.
    write(
        page, "SELECT count(*) FROM events a, events b, events c, events d WHERE a.price + b.price + c.price < d.price", "Statement"
    )
    page.get_by_test_id("sql-run").click()
    page.get_by_test_id("stop").click()
    page.get_by_text("Stopped").wait_for()
    write(page, right, "Statement")
    page.get_by_test_id("sql-run").click()
    expect_count(page, "sql-count", expected.num_rows)
    page.goto(page.url)
    expect_count(page, "sql-count", expected.num_rows)

    # In the dark, on a phone.
    page.emulate_media(color_scheme="dark")
    page.set_viewport_size({"width": 390, "height": 800})
    page.goto(home(address) + "?" + urlencode({"view": "sql", "sql": right}))
    expect_count(page, "sql-count", expected.num_rows)
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 390
    shoot(page, "23-sql-phone")
