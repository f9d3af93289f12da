"""Results, plans, cubes and forecasts show themselves in a notebook: as HTML that escapes what it shows, and as charts."""

from __future__ import annotations

import ast
import json
import os
import re
from html import escape
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import seqube as sq
from seqube.generate import generate, hierarchy
from seqube.predict import Rule, forecast

DOCS = Path(__file__).resolve().parent.parent / "docs"
EVENTS = sq.Events(generate("stock", 2_000, seed=1))
CONCEPTS = sq.Hierarchy.from_dict(hierarchy("stock"))


def test_the_notebook_runs() -> None:
    """Cell by cell, as Jupyter does it; what a cell ends with shows itself."""
    cells = json.loads((Path(__file__).resolve().parent.parent / "examples" / "hospital.ipynb").read_text(encoding="utf-8"))[
        "cells"
    ]
    names: dict[str, Any] = {}
    shown = []
    for cell in cells:
        if cell["cell_type"] == "code":
            tree = ast.parse("".join(cell["source"]))
            last = tree.body.pop()
            assert isinstance(last, ast.Expr)
            exec(compile(tree, cell["id"], "exec"), names)
            value = eval(compile(ast.Expression(last.value), cell["id"], "eval"), names)
            shown.append(value.to_dict() if hasattr(value, "mark_bar") else getattr(value, "_repr_html_", value.__repr__)())
        assert not cell.get("outputs"), "a notebook is kept without what it shows"
    assert len(shown) == 9
    assert names["expected"].column("consequent").to_pylist() == ["Disinfect", "Check", "Sharpen"]


def values_of(chart: Any) -> list[dict[str, Any]]:
    """The rows behind a chart; making the document checks it against the schema of charts."""
    document = chart.to_dict()
    return (
        document["data"]["values"]
        if "data" in document
        else [row for layer in document["layer"] for row in layer["data"]["values"]]
    )


@pytest.mark.parametrize(("page", "name", "picture"), [("index", "risky", "plot"), ("results", "result", "lags")])
def test_a_picture_of_a_plot_is_what_its_page_draws(page: str, name: str, picture: str) -> None:
    """Beside the picture lies what it was drawn from. `SEQUBE_PICTURES=write` draws both anew."""
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    assert f"](pictures/{picture}.png)" in text
    names: dict[str, Any] = {}
    exec(text.split("```python\n")[1].split("```")[0], names)
    chart = names[name].plot()
    spec = {part: chart.to_dict()[part] for part in ("mark", "encoding", "data")}
    drawn = json.loads(json.dumps(spec), parse_float=lambda number: round(float(number), 6))
    kept = DOCS / "pictures" / f"{picture}.json"
    if os.environ.get("SEQUBE_PICTURES") == "write":
        chart.properties(width=390, height=135).save(kept.with_suffix(".png"), scale_factor=2)
        kept.write_text(json.dumps(drawn), encoding="utf-8")
    assert json.loads(kept.read_text(encoding="utf-8")) == drawn, "the picture is older than the plot: SEQUBE_PICTURES=write"


def test_few_matches_are_drawn_one_by_one() -> None:
    result = sq.run("SEQ(DELL a, QQQ b) WITHIN 20 ms", EVENTS)
    rows = values_of(result.plot())
    assert [(row["start"], row["end"]) for row in rows] == [(row["start"], row["end"]) for row in result.table.to_pylist()]


def test_many_matches_are_drawn_as_a_density() -> None:
    result = sq.run("SEQ(Computer a, Finance b) WITHIN 100 ms", EVENTS, hierarchy=CONCEPTS)
    rows = values_of(result.plot())
    assert sum(row["matches"] for row in rows) == len(result) > 500


def test_times_are_drawn_as_times() -> None:
    tools = generate("hospital", 3_000, seed=1)
    assert sq.run("SEQ(Wash w, Operate o, [id]) WITHIN 2 h", tools).plot().to_dict()["encoding"]["x"]["type"] == "temporal"
    few = sq.run("SEQ(Wash w, !Check c, Operate o, [id]) WITHIN 1 h", sq.Events(tools).slice(0, 500)).plot().to_dict()
    assert few["encoding"]["x"]["type"] == "temporal"


def test_aggregates_are_lines_or_bars() -> None:
    timed = sq.run("PATTERN SEQ(DELL a, QQQ b) AGG COUNT(*) WITHIN 50 ms EMIT EVERY 100 ms", EVENTS)
    assert timed.plot().to_dict()["mark"]["type"] == "line"
    assert len(values_of(timed.plot())) == len(timed)
    total = sq.run(
        "PATTERN SEQ(Computer a, QQQ b) GROUP BY a.type AGG COUNT(*) WITHIN 50 ms EMIT TOTAL", EVENTS, hierarchy=CONCEPTS
    )
    assert {row["series"]: row["value"] for row in values_of(total.plot())} == {
        row["a_type"]: row["count"] for row in total.table.to_pylist()
    }


def test_nothing_to_plot_is_told() -> None:
    texts = sq.run("SEQ(DELL a, QQQ b) WITHIN 20 ms RETURN a.type AS first", EVENTS)
    with pytest.raises(sq.PlanError, match="no numbers to plot"):
        texts.plot()


def test_a_plan_is_drawn_with_all_its_steps() -> None:
    plan = sq.explain("SEQ(DELL a, !SEQ(MSFT m, INTC i), QQQ b) WITHIN 20 ms", EVENTS)
    titles = {row["title"] for row in values_of(plan.plot()) if "title" in row}
    assert titles == {node["title"] for node in plan.graph["nodes"]}
    shown = plan._repr_html_()
    assert shown.startswith("<pre>")
    assert re.sub(r"</?span[^>]*>", "", shown) == f"<pre>{escape(str(plan))}</pre>"
    assert shown.count("color:#94a3b8") == str(plan).count("rejected: ") > 0


def test_a_cube_is_drawn_with_its_neighbours() -> None:
    cube = sq.Cube(EVENTS, "SEQ(Computer a, Finance b) WITHIN 20 ms", hierarchy=CONCEPTS)
    rows = values_of(cube.plot())
    assert len(rows) == len(cube.parents()) + 1 + len(cube.children())
    assert next(row["matches"] for row in rows if row["move"] == "here") == cube.count


def test_a_forecast_is_drawn() -> None:
    rule = Rule("DELL -> QQQ", consequent="MSFT", within=20, horizon=60, probability=0.9)
    assert forecast(rule, EVENTS).plot().to_dict()["layer"]


def test_what_is_shown_is_escaped() -> None:
    table = pa.table({"ts": [1, 2], "type": ["<b>", "x"]})
    result = sq.run('SEQ("<b>" a, x b) WITHIN 5', table)
    assert "&lt;b&gt;" in result._repr_html_()
    assert "<b>" not in result._repr_html_()
    assert "<b>" not in sq.explain('SEQ("<b>" a, x b) WITHIN 5', table)._repr_html_()
