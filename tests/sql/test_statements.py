"""Statements around clauses: joins, sub-queries, common table expressions, several clauses, queries of our own."""

# ruff: noqa: E501 - a case is a line

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import seqube as sq
from seqube.cli import program

TRADES = pa.table(
    {"s": ["x"] * 5 + ["y"] * 4, "ts": [1, 2, 3, 4, 5, 1, 2, 3, 4], "price": [10, 9, 8, 9, 10, 5, 4, 5, 3]},
)
V = (
    "MATCH_RECOGNIZE (PARTITION BY s ORDER BY ts MEASURES LAST(down.price) AS low, LAST(up.ts) AS ended "
    "PATTERN (strt down+ up+) DEFINE down AS price < PREV(price), up AS price > PREV(price))"
)


def rows(text: str, **tables: Any) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in sq.sql(text, **({"trades": TRADES} | tables)).to_pylist()]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"SELECT s, low FROM trades {V}", [("x", 8), ("y", 4)]),
        (f"SELECT m.low FROM trades {V} AS m WHERE m.low > 4", [(8,)]),
        (f"SELECT m.low FROM trades {V} m ORDER BY low LIMIT 1", [(4,)]),
        (f"SELECT low FROM trades t {V}", [(8,), (4,)]),
        (f"SELECT low FROM trades AS t {V}", [(8,), (4,)]),
        (f"SELECT low FROM (SELECT s, ts, price * 2 AS price FROM trades) {V}", [(16,), (8,)]),
        (f"SELECT low FROM (SELECT s, ts, -price AS price FROM trades) AS z {V}", [(-5,)]),
        (f"SELECT low FROM (SELECT * FROM trades) AS z(s, ts, price) {V}", [(8,), (4,)]),
        (f"WITH c AS (SELECT * FROM trades WHERE s = 'y') SELECT low FROM c {V}", [(4,)]),
        (f"WITH c AS (SELECT low FROM trades {V}) SELECT sum(low) FROM c", [(12,)]),
        (f"WITH a AS (SELECT * FROM trades), b AS (SELECT * FROM a {V}) SELECT count(*) FROM b, b AS c", [(4,)]),
        (f"SELECT a.low AS one, b.low AS two FROM trades {V} a JOIN trades {V} b ON a.s < b.s", [(8, 4)]),
        (f"SELECT t.price FROM trades {V} m JOIN trades t ON t.s = m.s AND t.ts = m.ended ORDER BY 1", [(5,), (10,)]),
        (f"SELECT (SELECT max(low) FROM trades {V}) AS top", [(8,)]),
        (f"SELECT count(*) FROM trades WHERE s IN (SELECT s FROM trades {V} WHERE low < 5)", [(4,)]),
        (f"SELECT low FROM trades {V} UNION ALL SELECT low FROM trades {V} ORDER BY 1", [(4,), (4,), (8,), (8,)]),
        (f"SELECT k FROM (SELECT * FROM trades {V}) MATCH_RECOGNIZE (ORDER BY ended MEASURES COUNT(*) AS k PATTERN (a+))", [(2,)]),
        ("SELECT count(*) FROM trades -- MATCH_RECOGNIZE (", [(9,)]),
        ("SELECT 'MATCH_RECOGNIZE (' AS x", [("MATCH_RECOGNIZE (",)]),
        ("SELECT k FROM (VALUES (1, 5), (2, 3)) t(id, v) MATCH_RECOGNIZE (ORDER BY id MEASURES v AS k PATTERN (a b))", [(3,)]),
        (f"SELECT low FROM trades {V.lower()} ;", [(8,), (4,)]),
    ],
)
def test_statements(text: str, expected: list[tuple[Any, ...]]) -> None:
    assert rows(text) == expected


def test_a_query_of_our_own_stands_in_the_place_of_a_table() -> None:
    query = "SEQ(x a, y b, a.price > b.price) WITHIN 2 RETURN a.price AS high, b.price AS low"
    found = rows(f"SELECT q.high, q.low FROM SEQUBE(trades, '{query}', type => 's', time => 'ts') AS q ORDER BY 1, 2")
    assert found == [(8, 3), (9, 5), (10, 4)]
    inner = rows(f"SELECT count(*) FROM SEQUBE((SELECT * FROM trades WHERE ts < 3), '{query}', type => 's') q")
    assert inner == [(1,)]
    both = rows(
        f"SELECT k FROM SEQUBE(trades, '{query}', type => 's') MATCH_RECOGNIZE (ORDER BY high MEASURES COUNT(*) AS k PATTERN (a b+) "
        "DEFINE b AS high > PREV(high))"
    )
    assert both == [(3,)]


def test_tables_of_a_connection(tmp_path: Path) -> None:
    import duckdb

    connection = duckdb.connect()
    connection.execute("CREATE TEMP TABLE held AS SELECT 1 AS n UNION ALL SELECT 2")
    assert rows("SELECT k FROM held MATCH_RECOGNIZE (ORDER BY n MEASURES COUNT(*) AS k PATTERN (a+))", connection=connection) == [
        (2,)
    ]
    pq.write_table(TRADES, tmp_path / "trades.parquet")
    assert rows(f"SELECT low FROM trades {V}", trades=str(tmp_path / "trades.parquet")) == [(8,), (4,)]


def test_explain_tells_columns_and_what_is_asked() -> None:
    text = f"EXPLAIN SELECT * FROM trades {V[:-1]} AND up.price < 2 * AVG(down.price))"
    (told,) = sq.sql(text, trades=TRADES)["plan"].to_pylist()
    assert "DOWN: column price < PREV(price)" in told
    assert "UP: column price > PREV(price); asked UP.price < 2 * AVG(DOWN.price)" in told
    assert "backtracking" in told
    assert "linear" in sq.sql(f"EXPLAIN SELECT * FROM trades {V}", trades=TRADES)["plan"][0].as_py()


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM '{path}'",
        "SELECT * FROM read_text('{path}')",
        "SELECT * FROM (SELECT * FROM '{path}') " + V,
        "SELECT * FROM SEQUBE((SELECT * FROM read_csv('{path}')), 'A a WITHIN 1')",
        "SELECT * FROM glob('{folder}/*')",
        "COPY trades TO '{folder}/out.csv'",
        "ATTACH '{folder}/base.db'",
        "LOAD httpfs",
    ],
)
def test_a_statement_sees_what_was_handed_in_and_no_files(tmp_path: Path, text: str) -> None:
    path = tmp_path / "secret.csv"
    path.write_text("s,ts,price\nx,1,2\n")
    with pytest.raises(sq.QueryError, match=r"(?s)Permission Error: .*hint: hand files in by name"):
        rows(text.format(path=path, folder=tmp_path))
    assert [each.name for each in tmp_path.iterdir()] == ["secret.csv"]


def test_nobody_opens_what_is_closed_and_a_connection_of_yours_stays_as_it_is(tmp_path: Path) -> None:
    with pytest.raises(sq.QueryError, match="Cannot enable external access"):
        rows("SET enable_external_access = true")
    path = tmp_path / "t.csv"
    path.write_text("s,ts,price\nx,1,2\n")
    assert rows("SELECT price FROM t", t=path) == [(2,)]
    assert rows(f"SELECT price FROM '{path}'", connection=duckdb.connect()) == [(2,)]


def test_the_command(tmp_path: Path) -> None:
    pq.write_table(TRADES, tmp_path / "t.parquet")
    runner = CliRunner()
    done = runner.invoke(program, ["sql", f"SELECT s, low FROM t {V}", "--table", f"t={tmp_path / 't.parquet'}", "--json"])
    assert done.output == '{"count": 2, "rows": [{"s": "x", "low": 8}, {"s": "y", "low": 4}]}\n'
    done = runner.invoke(program, ["sql", "SELECT 1 AS one", "--out", str(tmp_path / "one.csv")])
    assert (done.exit_code, (tmp_path / "one.csv").read_text()) == (0, '"one"\n1\n')
    done = runner.invoke(program, ["sql", f"EXPLAIN SELECT * FROM t {V}", "--table", f"t={tmp_path / 't.parquet'}"])
    assert done.output.startswith("match rows of each s\n")
