"""Texts that strangers write, and what reads them: queries, files of rules, hierarchies and pipelines, statements of SQL."""

# ruff: noqa: E501 - a row is a line

from __future__ import annotations

import contextlib
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import yaml

from hardening.hostile import QUERIES, ROOT, as_text
from seqube.engine.limits import Limits
from seqube.engine.rows.clause import match_rows
from seqube.errors import PlanError
from seqube.events import Hierarchy
from seqube.language import Query, parse, parse_file
from seqube.language.rows.statement import all_of, read_statement
from seqube.plan.explain import explain_workload
from seqube.plan.optimizer import ALONE, optimize
from seqube.predict.rules import Rules
from seqube.spark.streaming.declaration import read_declaration
from seqube.statements import plan_step

TESTS = ROOT / "tests"
EXAMPLES = ROOT / "examples"

# ---------------------------------------------------------------- queries and files


def read_query(data: bytes, _: Path) -> None:
    use(parse(as_text(data)))


def read_queries(data: bytes, _: Path) -> None:
    for query in parse_file(as_text(data)).values():
        use(query)


def use(query: Query) -> None:
    again = parse(str(query))
    assert again == query, "a query that is written does not read as itself"
    with contextlib.suppress(PlanError):
        explain_workload(optimize({ALONE: query}))


def read_hierarchy(data: bytes, file: Path) -> None:
    file.write_bytes(data)
    found = Hierarchy.load(file)
    assert Hierarchy.from_dict(found.to_dict()) == found
    for name in found.roots[:3]:
        found.covers(name)


def read_rules(data: bytes, file: Path) -> None:
    file.write_bytes(data)
    found = Rules.load(file)
    assert list(Rules.from_text(found.to_text())) == list(found)


def read_pipeline(data: bytes, file: Path) -> None:
    file.write_bytes(data)
    for source in ("in", "events"):
        (file.parent / source).mkdir(exist_ok=True)
    read_declaration(file)


def texts_of_queries() -> list[str]:
    """Those that the tests of plans ask, and some that hold much."""
    files = sorted((TESTS / "plan" / "queries").glob("*.sqb"))
    asked = [text.partition("\n")[2] for file in files for text in file.read_text("utf-8").split("-- name: ")[1:]]
    return [*QUERIES, *(text.strip() for text in asked)]


def files_of_queries() -> list[str]:
    joined = "\n\n".join(f"-- name: q{number}\n{text}" for number, text in enumerate(QUERIES[:4]))
    return [joined, *(path.read_text("utf-8") for path in sorted(EXAMPLES.glob("*/*.sqb")))]


def files_of_yaml(own: Any, pattern: str) -> list[str]:
    found = [path.read_text("utf-8") for path in sorted(EXAMPLES.glob(f"*/{pattern}"))]
    return [yaml.safe_dump(own), yaml.safe_dump(own, default_flow_style=True), *(text for text in found if len(text) < 3_000)]


# ---------------------------------------------------------------- SQL

TRADES = pa.table(
    {
        "id": [1, 1, 1, 2, 2, 2, 1, 2],
        "ts": pa.array([1, 2, 3, 3, 4, 5, 9, 9], pa.timestamp("s")),
        "price": [10.0, 9.0, 11.0, 5.0, 4.0, 7.0, None, 1.0],
        "qty": [1, 2, 3, 4, 5, 6, 7, None],
        "name": ["p", "q", "p", None, "q", "r", "r", "p"],
    }
)
LIMITS = Limits(max_seconds=60, max_matches=10_000, max_state_bytes=1 << 28)


def read_sql(data: bytes, _: Path) -> None:
    statement = read_statement(as_text(data), "duckdb")
    for step in statement.steps:
        step.input(statement)
        if step.clause and not step.queries and step.input(statement) == all_of("t"):
            match_rows(plan_step(step, TRADES.schema), TRADES, LIMITS)


def statements() -> list[str]:
    """Of the page on SQL, over other tables, and some that hold what a clause can."""
    down = "PATTERN (strt down+ up+) DEFINE down AS price < PREV(price), up AS price > PREV(price)"
    clauses = [
        f"PARTITION BY id ORDER BY ts MEASURES LAST(down.price) AS low, LAST(up.ts) AS ended {down}",
        f"ORDER BY id, ts MEASURES MATCH_NUMBER() AS n, CLASSIFIER() AS c ALL ROWS PER MATCH AFTER MATCH SKIP TO NEXT ROW {down}",
        "ORDER BY ts ALL ROWS PER MATCH PATTERN (a b* c? {- d{2,3} -} | PERMUTE(e, f)) DEFINE a AS qty IN (1, 2), b AS name LIKE 'p%' OR b.qty > AVG(b.qty)",
        "ORDER BY ts MEASURES FINAL COUNT(*) AS n, RUNNING SUM(a.qty) AS s, FIRST(a.price, 1) AS p PATTERN (^ a+? b $) SUBSET u = (a, b) DEFINE b AS CASE WHEN price IS NULL THEN 1 ELSE qty END > 2 AND NOT u.qty BETWEEN 3 AND 4",
        "PARTITION BY name ORDER BY ts ALL ROWS PER MATCH WITH UNMATCHED ROWS AFTER MATCH SKIP TO LAST b PATTERN (a b+) WITHIN INTERVAL '5' SECOND DEFINE b AS COALESCE(NEXT(price, 2), 0) <> PREV(LAST(a.price), 1) + ABS(qty)",
        "ORDER BY ts MEASURES COUNT(*) AS k PATTERN ((a | b){2,5} ()) DEFINE a AS CAST(qty AS DOUBLE) / 0 > 1, b AS name = 'it''s'",
    ]
    own = [f"SELECT * FROM t MATCH_RECOGNIZE ({clause}) AS m WHERE 1 = 1" for clause in clauses]
    wrapped = f"WITH c AS (SELECT * FROM t), d AS (SELECT * FROM c MATCH_RECOGNIZE ({clauses[0]})) SELECT count(*) FROM d JOIN c USING (id)"
    ours = "EXPLAIN SELECT n FROM SEQUBE(t, 'SEQ(A a, B b) WITHIN 5 min', type => 'name', time => 'ts') ORDER BY 1"
    page = re.findall(r"```sql\n(.*?)```", (ROOT / "docs" / "sql.md").read_text("utf-8"), re.DOTALL)
    return [*own, *own, wrapped, ours, *page]
