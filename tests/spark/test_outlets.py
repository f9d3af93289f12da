"""Sinks that are no folders: rows are there once, or the sink is named that did not take them."""

from __future__ import annotations

import json
import sys
import threading
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pipelines import PAIRS, add_file, expected, write_pipeline

import postgres
import seqube as sq
from seqube.spark import outlets
from seqube.spark.failures import spark_errors
from seqube.spark.outlets import Webhook, open_outlet
from seqube.spark.streaming.declaration import read_declaration
from seqube.spark.streaming.gauges import Gauges
from seqube.spark.streaming.pipeline import run_stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COUNTED = PAIRS.replace("RETURN r.id AS tool, r.ts AS a, w.ts AS b", "AGG COUNT(*) AS n GROUP BY r.id")


class Receiver:
    """Takes what is sent by POST, and answers as it is told."""

    def __init__(self) -> None:
        self.bodies: list[Any] = []
        self.answers: list[int] = []
        self.fetched = 0
        receiver = self

        class Page(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                answer = receiver.answers.pop(0) if receiver.answers else 200
                if answer == 200:
                    receiver.bodies.append((self.headers["Idempotency-Key"], self.headers["X-Key"], json.loads(body)))
                self.send_response(answer)
                if 300 <= answer < 400:
                    self.send_header("Location", "/elsewhere")
                self.end_headers()

            def do_GET(self) -> None:
                receiver.fetched += 1
                self.send_response(200)
                self.end_headers()

            def log_message(self, *said: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/alarm"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    found = Receiver()
    yield found
    found.server.shutdown()
    found.server.server_close()


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    if postgres.programs() is None:
        pytest.skip("PostgreSQL is not installed")
    with postgres.serving() as url:
        yield url


def asked(url: str, statement: str) -> list[tuple[Any, ...]]:
    import psycopg

    with psycopg.connect(url) as connection:
        return list(connection.execute(statement).fetchall())


def test_alarms_are_sent_again_where_that_may_help(
    spark: SparkSession, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outlets, "PAUSE", 0.01)
    rows = spark.createDataFrame([(1, "x"), (2, None)], "match_id long, name string").coalesce(1)
    hook = open_outlet("webhook", {"url": receiver.url, "headers.X-Key": "secret"}, "")
    receiver.answers = [503, 429]
    hook.write(rows, "pairs", "batch=00000007")
    ((name, key, body),) = receiver.bodies
    assert (name, key) == ("pairs/batch=00000007/0", "secret")
    assert body == {"from": "pairs", "batch": "00000007", "rows": [{"match_id": 1, "name": "x"}, {"match_id": 2, "name": None}]}
    receiver.answers = [400]
    with pytest.raises(sq.DataError, match=r"has not taken its rows: it answered 400"):
        hook.write(rows, "pairs", "batch=00000008")
    assert len(receiver.bodies) == 1


@pytest.mark.parametrize("answer", [301, 302, 303, 307, 308])
def test_alarms_that_are_sent_elsewhere_are_not_taken(receiver: Receiver, answer: int) -> None:
    """A redirect that is followed is a GET: it would be answered well, without a row, and with the headers that are a secret."""
    receiver.answers = [answer]
    with pytest.raises(sq.DataError, match=rf"has not taken its rows: it answered {answer}"):
        Webhook("webhook", {"url": receiver.url, "headers.X-Key": "secret"})._post(b"{}", "pairs/1/0")
    assert (receiver.bodies, receiver.fetched) == ([], 0)


def test_a_command_gets_lines_and_must_end_well(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.createDataFrame([(1, "x"), (2, "y")], "match_id long, name string").coalesce(1)
    code = f"import sys; open({str(tmp_path / 'got')!r}, 'a').write(sys.stdin.read())"
    open_outlet("command", {"command": f'{sys.executable} -c "{code}"'}, "").write(rows, "pairs", "batch=00000001")
    assert [json.loads(line)["name"] for line in (tmp_path / "got").read_text().splitlines()] == ["x", "y"]
    failing = open_outlet("command", {"command": f"{sys.executable} -c 'import sys; sys.exit(\"no bell\")'"}, "")
    with pytest.raises(sq.DataError, match=r"ended with 1 and said 'no bell'"):
        failing.write(rows, "pairs", "batch=00000001")


def test_whatever_spark_can_write_is_a_sink(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.createDataFrame([(1, "x")], "match_id long, name string")
    open_outlet("console", {"numRows": "5"}, "").write(rows, "pairs", "batch=00000001")
    added = open_outlet("orc", {"compression": "none"}, str(tmp_path))
    for _ in range(2):
        added.write(rows, "pairs", "batch=00000001")
    assert [tuple(row) for row in spark.read.orc(str(tmp_path / "pairs")).collect()] == [(1, "x")] * 2  # at least once
    with pytest.raises(sq.DataError, match="Spark has no connector for 'nonsense'"), spark_errors(None):
        open_outlet("nonsense", {}, "").write(rows, "pairs", "batch=00000001")


def test_a_repeated_micro_batch_changes_nothing_in_a_table(spark: SparkSession, database: str) -> None:
    table = open_outlet("postgres", {"url": database, "table": "found_{query}"}, "")
    columns = "match_id long, name string, at timestamp, part struct<x: int>, lag interval day to second"
    rows = spark.sql("SELECT 1L, 'x', timestamp'2026-01-01', named_struct('x', 1), interval '1' minute").toDF(
        "match_id", "name", "at", "part", "lag"
    )
    assert rows.columns == [each.split()[0] for each in columns.split(", ")]
    for _ in range(2):
        table.write(rows, "pairs", "batch=00000001")
    (row,) = asked(database, "SELECT match_id, name, part ->> 'x', extract(epoch FROM lag) FROM found_pairs")
    assert tuple(map(str, row)) == ("1", "x", "1", "60.000000")
    counts = spark.createDataFrame([("a", 1), ("b", 2)], "id string, n int")
    for number in (1, 2, 2):
        table.write(counts, "counts", f"batch={number:08d}")
    assert asked(database, "SELECT batch, sum(n) FROM found_counts GROUP BY batch ORDER BY batch") == [
        ("00000001", 3),
        ("00000002", 3),
    ]


def test_any_database_takes_a_micro_batch_once(spark: SparkSession, tmp_path: Path) -> None:
    """Derby, which Spark brings along, knows no statement that replaces rows."""
    url = f"jdbc:derby:{tmp_path / 'base'};create=true"
    table = open_outlet("jdbc", {"url": url, "dbtable": "found_{query}"}, "")

    def stands(name: str) -> list[tuple[Any, ...]]:
        frame = spark.read.format("jdbc").options(url=url, dbtable=f"found_{name}").load()
        return sorted(tuple(row) for row in frame.collect())

    first = spark.sql("SELECT 1L AS match_id, 'x' AS name, named_struct('x', 1) AS part, interval '1' minute AS lag")
    for _ in range(2):
        table.write(first, "pairs", "batch=00000001")
    assert stands("pairs") == [(1, "x", '{"x":1}', "INTERVAL '01' MINUTE")]
    more = spark.createDataFrame([(1, "z"), (2, "y")], "match_id long, name string").selectExpr("*", "null AS part", "null AS lag")
    more = more.selectExpr("match_id", "name", "cast(part AS string) AS part", "cast(lag AS string) AS lag")
    for _ in range(2):
        table.write(more, "pairs", "batch=00000002")
    assert [row[:2] for row in stands("pairs")] == [(1, "z"), (2, "y")]
    counts = spark.createDataFrame([("a", 1), ("b", 2)], "id string, n int")
    for number in (1, 2, 2):
        table.write(counts, "counts", f"batch={number:08d}")
    table.write(counts.limit(0), "counts", "batch=00000002")  # what is repeated may find nothing
    assert [row[1:] for row in stands("counts")] == [(1, "00000001"), (2, "00000001")]


def test_a_transaction_that_fails_leaves_the_table_as_it_was(spark: SparkSession, tmp_path: Path) -> None:
    url = f"jdbc:derby:{tmp_path / 'base'};create=true"
    table = open_outlet("jdbc", {"url": url, "dbtable": "seen"}, "")
    table.write(spark.createDataFrame([(1, 5)], "match_id long, n int"), "pairs", "batch=00000001")
    other = spark.createDataFrame([(1, 5, 6)], "match_id long, n int, more int")
    with pytest.raises(sq.DataError), spark_errors(None):
        table.write(other, "pairs", "batch=00000002")
    frame = spark.read.format("jdbc").options(url=url, dbtable="seen").load()
    assert [tuple(row) for row in frame.collect()] == [(1, 5)]
    with pytest.raises(sq.PlanError, match="Spark Connect does not show"):
        table.refuse(object(), "matches")  # type: ignore[arg-type]


def test_a_pipeline_into_a_table(spark: SparkSession, tmp_path: Path, day: pa.Table, database: str) -> None:
    add_file(tmp_path, "1", day)
    sinks: dict[str, Any] = {
        "matches": {"format": "postgres", "options": {"url": database, "table": "day_{query}"}},
        "metrics": {"format": "postgres", "options": {"url": database, "table": "day_metrics"}},
    }
    counts = run_stream(read_declaration(write_pipeline(tmp_path, {"pairs": PAIRS, "counted": COUNTED}, sinks=sinks)))
    n = sum(expected(day, PAIRS).values())
    assert asked(database, "SELECT count(*), count(DISTINCT match_id) FROM day_pairs") == [(n, n)]
    assert (counts.matches or {})["pairs"] == n
    assert asked(database, "SELECT count(*) FROM day_counted") == [((counts.matches or {})["counted"],)]
    assert asked(database, "SELECT sum(read) FROM day_metrics") == [(day.num_rows,)]


def test_a_sink_that_fails_is_named(spark: SparkSession, tmp_path: Path, day: pa.Table) -> None:
    add_file(tmp_path, "1", day)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "matches").write_text("no folder")
    with pytest.raises(sq.DataError, match=r"the sink 'matches' cannot be written: .*\n  hint: .*nothing is lost"):
        run_stream(read_declaration(write_pipeline(tmp_path, {"pairs": PAIRS})))
    (tmp_path / "out" / "matches").unlink()
    counts = run_stream(read_declaration(write_pipeline(tmp_path, {"pairs": PAIRS})))
    assert counts.matches == {"pairs": sum(expected(day, PAIRS).values())}
    gone = {"matches": {"format": "postgres", "options": {"url": "postgresql:///none?host=/no/such/folder"}}}
    with pytest.raises(sq.DataError, match="the sink 'matches': PostgreSQL cannot be reached"):
        run_stream(read_declaration(write_pipeline(tmp_path, {"pairs": PAIRS}, sinks=gone, checkpoint="other")))


@pytest.mark.parametrize(
    ("sink", "said"),
    [
        ({"format": "postgres"}, "has a url and a table"),
        ({"format": "jdbc", "options": {"url": "postgresql://x"}}, "has a url and a dbtable"),
        ({"format": "webhook", "options": {"url": "ftp://x"}}, "has the url"),
        ({"format": "command"}, "a program with its arguments"),
        ({"format": "command", "options": {"command": "ring 'the bell"}}, "a program with its arguments"),
        ({"format": "parquet"}, "has no path"),
        ({"path": "x", "options": 3}, "options are a mapping"),
        ({"path": "x", "port": 3}, "unknown key 'port'"),
    ],
)
def test_wrong_sinks_are_told_with_their_place(tmp_path: Path, sink: dict[str, Any], said: str) -> None:
    (tmp_path / "in").mkdir()
    with pytest.raises(sq.SchemaError, match=rf"{said}.* \(line 1, column"):
        read_declaration(write_pipeline(tmp_path, {"pairs": PAIRS}, sinks={"matches": sink}))


def test_counts_can_be_asked_for_at_a_port() -> None:
    gauges = Gauges(0)
    try:
        gauges.show(3, {"read": 9, "late": 1, "matches": {"pairs": 2}, "forecasts": 0}, {"state_bytes": 70, "duration_ms": None})
        with urllib.request.urlopen(f"http://127.0.0.1:{gauges.port}/metrics") as answer:
            lines = answer.read().decode().splitlines()
            assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        assert {
            'seqube_rows_total{kind="read"} 9',
            'seqube_matches_total{query="pairs"} 2',
            "seqube_batch 3",
            "seqube_state_bytes 70",
        } <= set(lines)
        with pytest.raises(sq.DataError, match="cannot be served at port"):
            Gauges(gauges.port)
    finally:
        gauges.close()
