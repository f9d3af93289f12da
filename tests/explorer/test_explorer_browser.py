"""The page as a person uses it, in headless Chromium: it must say what `sq.run` says."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from pyarrow import parquet

import seqube as sq
from browsing import (
    browse,
    chromium,
    click_point,
    drawn,
    expect_count,
    expect_soon,
    home,
    in_browser,
    number,
    picture,
    run,
    serve,
    shoot,
    write,
)
from seqube.generate import generate, hierarchy

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, WebSocketRoute

HIERARCHY = """\
Computer: [DELL, INTC, MSFT]
Finance: [QQQ, FCF, ROM]
"""

RULED = ("DELL", "INTC", "MSFT", "FCF", "ROM", "DELL -> INTC", "INTC -> DELL", "DELL, MSFT", "MSFT -> ROM", "FCF -> ROM")

pytestmark = in_browser


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("explorer")
    parquet.write_table(generate("stock", 20_000, seed=7), folder / "trades.parquet")
    (folder / "companies.yaml").write_text(HIERARCHY)
    sq.Rules(sq.Rule(name, "QQQ", 20, 60, 0.5) for name in RULED).save(folder / "rules.yaml")
    return folder / "trades.parquet"


@pytest.fixture(scope="module")
def address(events: Path) -> Iterator[str]:
    more = ("--hierarchy", events.with_name("companies.yaml"), "--rules", events.with_name("rules.yaml"))
    with serve("--events", events, *more) as address:
        yield address


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    with browse(browser, address) as page:
        yield page


@pytest.fixture
def concepts(events: Path) -> sq.Hierarchy:
    return sq.Hierarchy.load(events.with_name("companies.yaml"))


def test_from_a_typo_to_an_export(page: Page, address: str, events: Path, concepts: sq.Hierarchy, tmp_path: Path) -> None:
    from playwright.sync_api import expect

    page.goto(address)
    assert "token" not in page.url
    expect(page.get_by_test_id("facts")).to_have_text("20,000 events · 20 types")
    page.get_by_test_id("count").wait_for()

    # A typo is underlined where it is, and the message says what was meant.
    wrong = "PATTERN SEQ(Computer a, Finance b)\nWHERE a.price < b.prise\nWITHIN 50 ms"
    write(page, wrong)
    expect(page.get_by_test_id("problems")).to_contain_text("did you mean 'price'?")
    expect(page.locator(".sq-wrong")).to_have_text(["b.prise"])
    shoot(page, "1-typo")

    right = wrong.replace("prise", "price")
    write(page, right)
    expect(page.get_by_test_id("problems")).to_have_text("")
    page.get_by_test_id("run").click()
    expected = sq.run(right, events, hierarchy=concepts)
    expect_count(page, "count", len(expected))
    expect(page.get_by_test_id("outcome")).to_contain_text("array-stacks")
    shoot(page, "2-matches")

    # Sorted by the server, page by page.
    page.get_by_test_id("rows").get_by_role("columnheader", name="b_price").click()
    lowest = min(expected.table.column("b").combine_chunks().field("price").to_pylist())
    expect(page.get_by_test_id("rows").locator("tbody tr").first).to_contain_text(f"{lowest:g}")

    for ending in ("csv", "parquet"):
        with page.expect_download() as waiting:
            page.get_by_test_id(f"export-{ending}").click()
        waiting.value.save_as(tmp_path / f"matches.{ending}")
    with (tmp_path / "matches.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(expected)
    assert [int(row["start"]) for row in rows] == expected.table.column("start").to_pylist()
    assert parquet.read_table(tmp_path / "matches.parquet").to_pylist() == expected.table.to_pylist()


def complete(page: Page, name: str) -> None:
    """Take the first name that the editor offers; it takes no key as an answer to a list that has just come up."""
    from playwright.sync_api import expect

    expect(page.locator(".cm-completionLabel").first).to_have_text(name)
    page.wait_for_timeout(150)
    page.keyboard.press("Enter")


def test_names_are_completed(page: Page, address: str) -> None:
    from playwright.sync_api import expect

    page.goto(address)
    page.get_by_test_id("count").wait_for()
    write(page, "")
    page.keyboard.type("PATTERN SEQ(Comp")
    complete(page, "Computer")
    page.keyboard.type(" opening, Finance b, b.pri")
    complete(page, "price")
    page.keyboard.type(" > open")
    complete(page, "opening")
    expect(page.locator(".cm-content")).to_have_text("PATTERN SEQ(Computer opening, Finance b, b.price > opening)")
    page.keyboard.type(" WHERE rou")
    expect(page.locator(".cm-completionDetail").first).to_have_text("ROUND(x1[, x2])")
    complete(page, "ROUND")
    page.locator(".cm-line span", has_text="ROUND").hover()
    expect(page.locator(".sq-signature")).to_contain_text("halves away from zero")


def test_what_is_typed_while_an_answer_is_on_its_way_stays(page: Page, address: str) -> None:
    from playwright.sync_api import expect

    held: list[tuple[WebSocketRoute, str | bytes]] = []
    holding = False

    def meet(client: WebSocketRoute) -> None:
        server = client.connect_to_server()
        server.on_message(lambda message: held.append((client, message)) if holding else client.send(message))

    page.route_web_socket("**", meet)
    page.goto(address)
    page.get_by_test_id("count").wait_for()
    write(page, "PATTERN SEQ(DELL a, QQQ b)\nWITHIN 5 ms")
    expect(page.get_by_test_id("problems")).to_have_text("")
    holding = True
    page.keyboard.type(" oops")
    expect_soon(page, lambda: any("oops" in str(message) for _, message in held), True, "the server complains")
    late, held[:] = held[:], []
    page.keyboard.type(" and")
    for client, message in late:
        client.send(message)
    page.keyboard.type(" more")
    holding = False
    for client, message in held:
        client.send(message)
    expect(page.get_by_test_id("problems")).to_contain_text("oops")
    expect(page.locator(".cm-content")).to_contain_text("WITHIN 5 ms oops and more")


def test_what_is_typed_before_the_events_are_read_stays(page: Page, address: str) -> None:
    """The query that the server offers does not cross with what is being typed: page and server hold the same text."""
    from playwright.sync_api import expect

    held: list[tuple[WebSocketRoute, str | bytes]] = []
    holding = True

    def meet(client: WebSocketRoute) -> None:
        server = client.connect_to_server()

        def pass_on(message: str | bytes) -> None:
            if holding and (held or "editor.write" in str(message)):
                held.append((client, message))
            else:
                client.send(message)

        server.on_message(pass_on)

    page.route_web_socket("**", meet)
    page.goto(address)
    expect_soon(page, lambda: bool(held), True, "the server offers a query")
    page.locator(".cm-content").click()
    page.keyboard.type("PATTERN mine")
    holding = False
    for client, message in held:
        client.send(message)
    expect(page.get_by_test_id("problems")).to_contain_text("mine")
    expect(page.locator(".cm-content")).to_have_text("PATTERN mine")
    page.get_by_test_id("examples").click()
    page.get_by_text("How many", exact=True).click()
    expect(page.locator(".cm-content")).to_contain_text("EMIT")
    expect(page.get_by_test_id("problems")).to_have_text("")


def test_words_are_coloured_and_examples_run(page: Page, address: str) -> None:
    from playwright.sync_api import expect

    page.goto(address)
    page.get_by_test_id("count").wait_for()
    write(page, "PATTERN SEQ(DELL a, QQQ b)\nWITHIN 5 ms -- soon")
    expect(page.locator(".cm-line span", has_text="-- soon")).to_be_visible()
    words = page.locator(".cm-line span").all()
    colours = {word.inner_text().strip(): word.evaluate("word => getComputedStyle(word).color") for word in words}
    assert len({colours[word] for word in ("PATTERN", "DELL", "5 ms", "-- soon")}) == 4
    page.get_by_test_id("examples").click()
    page.get_by_text("How many", exact=True).click()
    expect(page.locator(".cm-content")).to_contain_text("AGG")
    page.get_by_test_id("run").click()
    expect_count(page, "count", 1)


def test_a_click_on_the_timeline_shows_the_events(page: Page, address: str, events: Path, concepts: sq.Hierarchy) -> None:
    from playwright.sync_api import expect

    page.goto(address)
    page.get_by_test_id("count").wait_for()
    text = "PATTERN SEQ(DELL a, QQQ b)\nWITHIN 50 ms"
    run(page, text)
    expected = sq.run(text, events, hierarchy=concepts)
    expect_count(page, "count", len(expected))
    page.get_by_test_id("show-timeline").click()
    spec = drawn(page, "timeline")
    assert set(spec["yAxis"][0]["data"]) == {"DELL", "QQQ"}
    density = drawn(page, "density")
    assert sum(bar[1] for bar in density["series"][0]["data"]) == len(expected)

    # A point may be that of several matches: one of them is shown, with all its events.
    click_point(page, "timeline", series=1, point=0, shows="event-a")
    shown = {variable: page.get_by_test_id(f"event-{variable}").inner_text() for variable in ("a", "b")}
    point = spec["series"][1]["data"][0]
    assert f"ts: {point['value'][0]}" in shown["a"].splitlines()
    assert any(
        all(f"{name}: {value}" in shown[variable].splitlines() for variable in shown for name, value in match[variable].items())
        for match in expected.table.to_pylist()
    )
    shoot(page, "3-timeline")

    # The slider's stretch is in the address, and the address leads back to it.
    page.evaluate(
        """() => getElement(Number(document.querySelector('[data-testid=density]').id.slice(1)))
            .chart.dispatchAction({type: 'dataZoom', start: 40, end: 50})"""
    )
    page.wait_for_url(lambda url: "between=" in url)
    shared = parse_qs(urlsplit(page.url).query)
    assert shared["show"] == ["timeline"]
    low, high = map(float, shared["between"][0].split("~"))
    inside = sum(row["end"] >= low and row["start"] <= high for row in expected.table.select(["start", "end"]).to_pylist())
    expect(page.get_by_test_id("timeline-note")).to_contain_text(f"{inside:,} matches here")
    page.goto(page.url)
    expect(page.get_by_test_id("timeline-note")).to_contain_text(f"{inside:,} matches here")


@pytest.mark.parametrize(
    ("text", "taken", "rejected"),
    [
        pytest.param("PATTERN SEQ(DELL a, QQQ b, [id])\nWITHIN 50 ms", "array-stacks", "iterative", marks=pytest.mark.slow),
        pytest.param("PATTERN AND(DELL a, QQQ b)\nWITHIN 50 ms", "time-join", "iterative", marks=pytest.mark.slow),
        ("PATTERN SEQ(DELL a, !SEQ(INTC i, MSFT m), QQQ b)\nWITHIN 50 ms", "latest-start", "aggressive"),
        ("PATTERN SEQ(DELL a, QQQ b)\nAGG COUNT(*)\nWITHIN 5 s", "window-product", "two-step"),
    ],
    ids=["sequence", "conjunction", "nested", "aggregate"],
)
def test_a_plan_is_drawn_with_costs_and_what_was_rejected(page: Page, address: str, text: str, taken: str, rejected: str) -> None:
    page.goto(address)
    page.goto(home(address) + "?" + urlencode({"q": text, "show": "plan"}))
    labels = str(drawn(page, "plan")["series"][0]["data"])
    assert f"{{taken|taken: {taken}" in labels
    assert f"{{rejected|rejected: {rejected}" in labels
    costs = drawn(page, "costs")
    assert {taken, rejected} <= set(costs["yAxis"][0]["data"])
    bars = dict(zip(costs["yAxis"][0]["data"], (bar["value"] for bar in costs["series"][0]["data"]), strict=True))
    assert 0 < bars[taken] < bars[rejected]
    shoot(page, f"4-plan-{taken}")


def test_down_the_cube_and_back(page: Page, address: str, events: Path, concepts: sq.Hierarchy) -> None:
    stream = sq.Events(events)

    def count(pattern: str) -> int:
        return len(sq.run(f"{pattern} WITHIN 50 ms", stream, hierarchy=concepts))

    page.goto(address)
    page.get_by_test_id("count").wait_for()
    write(page, "PATTERN SEQ(Computer a, Finance b)\nWITHIN 50 ms")
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
    page.get_by_test_id("lattice").locator(".sq-here").wait_for()
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

    # A roll-up of a position.
    page.get_by_test_id("position-2").click()
    page.get_by_test_id("to-Finance").click()
    expect_count(page, "cube-count", count("SEQ(DELL a, Finance b)"))


def test_the_lattice_is_clicked_and_types_come_and_go(page: Page, address: str, events: Path, concepts: sq.Hierarchy) -> None:
    from playwright.sync_api import expect

    cube = sq.Cube(sq.Events(events), "SEQ(Computer a, Finance b) WITHIN 50 ms", hierarchy=concepts)
    page.goto(address)
    page.goto(home(address) + "?" + urlencode({"view": "cube", "q": str(cube.query)}))
    expect_count(page, "cube-count", cube.count)

    # Every cuboid of the lattice says its count, and a click leads there.
    nodes = page.get_by_test_id("lattice").get_by_role("button")
    assert sorted(text.split("\n")[:2] for text in nodes.all_inner_texts()) == sorted(
        [near.pattern.removeprefix("SEQ(").removesuffix(")"), f"{near.count:,}"]
        for near in (cube, *cube.parents(), *cube.children())
    )
    for node in nodes.all():  # no text leaves its box
        assert node.evaluate("node => node.scrollWidth <= node.clientWidth + 1 && node.scrollHeight <= node.clientHeight + 1")
    to_rom = nodes.filter(has_text="Computer, ROM")
    to_rom.focus()
    page.keyboard.press("Enter")
    lower = cube.drill_down(concept=[("Finance", "ROM", 2)])
    expect_count(page, "cube-count", lower.count)
    expect(page.get_by_test_id("position-2")).to_have_text("ROM")

    # One more type, which must not occur, and out again.
    page.get_by_test_id("gap-2").click()
    page.get_by_label("Put in").fill("MSFT")
    page.get_by_role("option", name="MSFT").click()
    page.get_by_text("must not occur").click()
    page.get_by_role("button", name="Put in").click()
    expect_count(page, "cube-count", lower.drill_down(pattern=[("!MSFT", 2)]).count)
    expect(page.get_by_test_id("position-2")).to_have_text("!MSFT")
    page.get_by_test_id("position-2").click()
    page.get_by_text("Take out", exact=True).click()
    expect_count(page, "cube-count", lower.count)

    # The pivot has the counts of the cube; which one is in the address.
    page.get_by_test_id("crumb-0").click()
    expect_count(page, "cube-count", cube.count)
    table = cube.pivot(1, 2)

    def axes() -> list[list[str]]:
        spec = drawn(page, "pivot")
        return [spec["xAxis"][0]["data"], spec["yAxis"][0]["data"]]

    expect_soon(page, axes, [list(table.columns), list(table.index)])
    cells = {(x, y): n for x, y, n in drawn(page, "pivot")["series"][0]["data"]}
    assert cells == {(x, y): int(table.iloc[y, x]) for y in range(len(table.index)) for x in range(len(table.columns))}
    shoot(page, "7-pivot")
    page.goto(page.url + "&pivot=2,1,1")
    expect_soon(page, axes, [list(table.index), list(table.columns)])


def test_aggregates_forecasts_and_generated_events(page: Page, address: str) -> None:
    from playwright.sync_api import expect

    text = "PATTERN SEQ(DELL a, IPIX b)\nAGG COUNT(*)\nWITHIN 1 s\nEMIT EVERY 1 s"
    stream = sq.Events(generate("stock", 100_000, seed=2026))
    expected = sq.run(text, stream, hierarchy=sq.Hierarchy.from_dict(hierarchy("stock")))
    page.goto(address)
    page.goto(home(address) + "?" + urlencode({"data": "generated stock", "q": text, "show": "chart"}))
    expect_count(page, "count", len(expected))
    points = drawn(page, "chart")["series"][0]["data"]
    assert [point[1] for point in points] == expected.table.column("count").to_pylist()
    shoot(page, "8-aggregates")
    page.goto(home(address) + "?data=generated+hospital&view=forecast")

    def drawn_outcomes() -> dict[str, int]:
        lines = [series for series in drawn(page, "predictions")["series"] if series["type"] == "lines"]
        return {series["name"]: len(series["data"]) for series in lines}

    # The last predictions that are decided, hits and misses; later ones are open, and the address says which are shown.
    decided = drawn_outcomes()
    assert decided["open"] == 0
    assert decided["hit"] + decided["miss"] == 120 < number(page, "n-predictions")
    assert decided["miss"] > 0
    assert page.get_by_test_id("quality").locator("tbody tr").count() == 2
    shoot(page, "9-forecasts")
    text = "PATTERN SEQ(Recycle r, Wash w, !Disinfect d, Operate o, [id])\nWITHIN  2 hours"
    page.goto(home(address) + "?" + urlencode({"data": "generated hospital", "q": text, "show": "timeline"}))
    drawn(page, "timeline")
    page.set_viewport_size({"width": 1200, "height": 860})
    picture(page, "explorer")
    page.set_viewport_size({"width": 1400, "height": 1000})
    page.goto(home(address) + "?data=generated+hospital&view=forecast")
    drawn(page, "predictions")
    before = page.get_by_test_id("stretch").inner_text()
    page.get_by_test_id("chevron_right").click()
    page.wait_for_url(lambda url: "at=" in url)
    expect(page.get_by_test_id("stretch")).not_to_have_text(before, ignore_case=True)
    moved = page.get_by_test_id("stretch").inner_text()
    page.goto(page.url)
    expect(page.get_by_test_id("stretch")).to_have_text(moved, ignore_case=True)


def test_a_funnel_is_counted_drawn_and_kept_in_the_address(page: Page, address: str, events: Path, concepts: sq.Hierarchy) -> None:
    from playwright.sync_api import expect

    def counted(**options: Any) -> list[int]:
        found = sq.funnel(events, ["DELL", "Finance", "MSFT"], by="id", within="5 s", hierarchy=concepts, **options)
        reached: list[int] = found.table.column("reached").to_pylist()
        return reached

    def bars(name: str) -> list[int]:
        return [bar["value"] for bar in drawn(page, name)["series"][0]["data"]]

    asked = {"steps": ["DELL", "Finance", "MSFT"], "by": "id", "within": "5 s"}
    page.goto(address)
    page.goto(home(address) + "?" + urlencode({"view": "funnel", "funnel": json.dumps(asked)}))
    expect(page.get_by_test_id("funnel-rows").locator("tbody tr")).to_have_count(3)
    expect_soon(page, lambda: bars("funnel"), counted())
    assert len(bars("funnel-times")) == 3

    # With what must not lie between two steps; Enter counts.
    control = page.get_by_label("Not before Finance")
    control.focus()
    control.press("ArrowDown")
    page.get_by_role("option", name="INTC", exact=True).click()
    page.keyboard.press("Escape")
    page.get_by_label("Within").press("Enter")
    fewer = counted(without={2: "INTC"})
    assert fewer[1] < counted()[1]
    expect(page.get_by_test_id("funnel-rows").locator("tbody tr").nth(1)).to_contain_text(f"{fewer[1]}")
    page.wait_for_url(lambda url: "INTC" in url)
    expect_soon(page, lambda: bars("funnel"), fewer)
    shoot(page, "10-funnel")
    page.goto(page.url)
    expect(page.get_by_test_id("funnel-rows").locator("tbody tr").nth(1)).to_contain_text(f"{fewer[1]}")
    page.get_by_test_id("tab-query").click()
    page.get_by_test_id("run").click()
    page.get_by_test_id("count").wait_for()


def test_many_rules_have_a_lane_each(page: Page, address: str, events: Path) -> None:
    """Of many rules one is drawn first; drawn together, each has its name beside its lane."""
    from playwright.sync_api import expect

    found = sq.forecast(events.with_name("rules.yaml"), events)
    most = max(found.quality.to_pylist(), key=lambda row: row["predictions"])
    page.goto(address)
    page.goto(home(address) + "?view=forecast")
    assert drawn(page, "predictions")["yAxis"][1]["data"] == [most["rule"]]
    expect(page.get_by_test_id("stretch")).to_contain_text(f"of {most['predictions']:,}", ignore_case=True)
    page.goto(home(address) + "?view=forecast&rule=0")
    spec = drawn(page, "predictions")
    assert set(spec["yAxis"][1]["data"]) <= {rule.name for rule in found.rules}
    assert len(spec["yAxis"][1]["data"]) > 8
    assert spec["yAxis"][0]["max"] == len(spec["yAxis"][1]["data"]) - 0.5
    shoot(page, "12-many-rules")


def test_a_first_visit_in_the_dark_on_a_phone_without_a_mouse(page: Page, address: str) -> None:
    from playwright.sync_api import expect

    page.emulate_media(color_scheme="dark")
    page.set_viewport_size({"width": 390, "height": 800})
    page.goto(address)
    page.get_by_test_id("count").wait_for()

    # What to do is said, and goes when it was read.
    expect(page.get_by_test_id("first-steps")).to_contain_text("Choose events")
    expect(page.locator(".cm-content")).to_contain_text("[id]")
    shoot(page, "13-first-visit")
    page.get_by_role("button", name="Close the first steps").click()
    expect(page.get_by_test_id("first-steps")).to_have_count(0)

    # Dark, and light on dark.
    def brightness(of: str) -> float:
        digits = page.evaluate("of => getComputedStyle(document.querySelector('.sq-card'))[of].match(/[0-9.]+/g)", of)
        return sum(float(part) for part in digits[:3]) / 3

    assert brightness("backgroundColor") < 60 < 180 < brightness("color")

    # Nothing is wider than the phone; what is beside the query on a desk is below it.
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 390
    page.get_by_test_id("tab-funnel").click()
    steps = page.get_by_test_id("funnel-steps").bounding_box()
    assert steps
    assert steps["x"] + steps["width"] <= 366  # the card's edge
    page.get_by_test_id("tab-query").click()
    query, types = (page.get_by_role("heading", name=name).bounding_box() for name in ("Query", "Event types"))
    assert query
    assert types
    assert types["y"] > query["y"] + 100

    # Every button and field has a name, and the query can be run by keys alone.
    unnamed = page.evaluate(
        """() => [...document.querySelectorAll('button, input, [role=combobox], .cm-content')]
            .filter(part => part.offsetParent !== null)
            .filter(part => !(part.innerText || part.ariaLabel || part.labels?.length || part.closest('label')))
            .map(part => part.outerHTML.slice(0, 200))"""
    )
    assert unnamed == []
    before = page.get_by_test_id("rows").get_attribute("id")
    page.get_by_test_id("run").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_test_id("rows")).not_to_have_attribute("id", str(before))
    page.get_by_test_id("show-timeline").focus()
    page.keyboard.press("Enter")
    page.get_by_test_id("timeline").locator("canvas").first.wait_for()
    expect(page.get_by_test_id("timeline")).to_have_attribute("aria-label", re.compile("matches in time"))


def test_work_shows_how_far_it_is_and_can_be_stopped(page: Page, address: str) -> None:
    from playwright.sync_api import expect

    page.goto(address)
    page.goto(home(address) + "?data=generated+stock")
    page.get_by_test_id("count").wait_for()
    long = "PATTERN SEQ(Computer a, Finance b, Computer c, Finance d, Computer e)\nWHERE a.price + b.price + c.price > 1000"
    run(page, f"{long}\nWITHIN 300 ms")
    expect(page.get_by_test_id("progress")).to_have_text(re.compile(r"^[1-9]\d*% · ([\d,]+ rows · )?[\d.]+ s$"))
    shoot(page, "10-progress")
    # The page is awake meanwhile: a mistake is underlined as ever.
    write(page, "PATTERN SEQ(DELL a, QQQ b, a.prise > 1)\nWITHIN 5 ms")
    expect(page.get_by_test_id("problems")).to_contain_text("did you mean 'price'?")
    page.get_by_test_id("stop").click()
    page.get_by_text("Stopped").wait_for()
    text = "PATTERN SEQ(DELL a, QQQ b)\nWITHIN 5 ms"
    run(page, text)
    expect_count(page, "count", len(sq.run(text, generate("stock", 100_000, seed=2026))))


def test_an_upload_is_queried_like_any_file(page: Page, address: str, tmp_path: Path) -> None:
    from playwright.sync_api import expect

    (tmp_path / "visits.csv").write_text("when,what,user\n1000,view,1\n2000,view,2\n3000,buy,1\nsoon,buy,2\n")
    page.goto(address)
    page.get_by_test_id("count").wait_for()
    page.get_by_test_id("upload").click()
    page.get_by_label("Column of the type").fill("what")
    page.get_by_label("Column of the time").fill("when")
    page.locator("input[type=file]").set_input_files(tmp_path / "visits.csv")
    expect(page.get_by_test_id("facts")).to_have_text("3 events · 2 types · 1 rows rejected")
    run(page, "PATTERN SEQ(view v, buy b, [user])\nWITHIN 1 min")
    expect_count(page, "count", 1)


def test_names_of_events_stay_names(browser: Browser, tmp_path: Path) -> None:
    """A type that looks like a script, a property or a template is shown as it is."""
    names = ["<img src=x onerror=window.caught=1>", 'x" :title="window.caught=1', "{{window.caught=1}}", "{b|x}"]
    table = {"type": names * 5, "ts": list(range(20)), ":x": names * 5}
    import pyarrow as pa

    parquet.write_table(pa.table(table), tmp_path / "odd.parquet")
    quoted = ['"' + name.replace('"', '""') + '"' for name in names]
    (tmp_path / "odd.yaml").write_text("All:\n" + "".join(f"  - '{name}'\n" for name in names))
    with serve("--events", tmp_path / "odd.parquet", "--hierarchy", tmp_path / "odd.yaml") as own, browse(browser, own) as page:
        page.goto(own)
        text = f"PATTERN SEQ({quoted[0]} a, {quoted[1]} b)\nWITHIN 10"
        for view in ({"show": "timeline"}, {"show": "plan"}, {"view": "cube"}, {"show": "table"}):
            page.goto(home(own) + "?" + urlencode({"q": text, **view}))
            page.get_by_test_id("cube-count" if "view" in view else "count").wait_for()
            page.wait_for_timeout(500)
        page.get_by_test_id("show-timeline").click()
        drawn(page, "timeline")
        click_point(page, "timeline", series=1, point=0, shows="event-a")
        assert names[0] in page.get_by_test_id("event-a").inner_text()
        page.goto(home(own) + "?" + urlencode({"q": "PATTERN SEQ(All a, All b)\nWITHIN 10", "view": "cube"}))
        page.get_by_test_id("cube-count").wait_for()
        page.get_by_test_id("position-1").click()
        page.get_by_text(names[1]).first.wait_for()
        assert page.evaluate("() => window.caught") is None


def test_without_the_token_there_is_no_page(page: Page, address: str) -> None:
    response = page.goto(home(address))
    assert response is not None
    assert response.status == 403


@pytest.mark.slow
def test_ten_million_events(browser: Browser, tmp_path: Path) -> None:
    """The page stays awake while a worker reads and searches them, and what it finds is right."""
    from playwright.sync_api import expect

    events = tmp_path / "many.parquet"
    parquet.write_table(generate("stock", 10_000_000, seed=3), events)
    text = "PATTERN SEQ(DELL a, QQQ b, [id])\nWITHIN 1 s"
    with serve("--events", events) as own, browse(browser, own) as page:
        page.goto(own)
        expect(page.get_by_test_id("facts")).to_have_text("10,000,000 events · 20 types")
        page.get_by_test_id("count").wait_for()
        run(page, "PATTERN SEQ(DELL a, IPIX b, QQQ c)\nWHERE a.price + b.price + c.price > 100000\nWITHIN 1 s")
        expect(page.get_by_test_id("progress")).to_have_text(re.compile(r"^[1-9]\d*% · "))
        write(page, "PATTERN SEQ(DELL a, QQQ b, a.prise > 1)\nWITHIN 1 s")
        expect(page.get_by_test_id("problems")).to_contain_text("did you mean 'price'?")
        expect(page.get_by_test_id("progress")).to_have_text(re.compile(r"^\d+% · "))
        page.get_by_test_id("stop").click()
        page.get_by_text("Stopped").wait_for()
        run(page, text)
        expect_count(page, "count", len(sq.run(text, events)))
        page.get_by_test_id("show-timeline").click()
        drawn(page, "timeline")
        shoot(page, "11-ten-million")
