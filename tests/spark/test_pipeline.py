"""Declared pipelines: files that are wrong, rows that are wrong, restarts, and changes between restarts."""

from __future__ import annotations

import datetime
import json
import os
import shutil
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pipelines import FREE, PAIRS, WAITS, add_file, expected, results, write_pipeline
from tables import plain

import seqube as sq
from seqube.spark.streaming.changes import WorkloadChange
from seqube.spark.streaming.checkpoint import count_generations
from seqube.spark.streaming.declaration import read_declaration
from seqube.spark.streaming.pipeline import Counts, run_once, run_stream
from seqube.spark.streaming.rescaling import rescale

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "pipeline-hospital"


def test_stop_restart_and_changes_in_between(spark: SparkSession, tmp_path: Path, day: pa.Table) -> None:
    n = day.num_rows
    add_file(tmp_path, "1", day.slice(0, n // 3))
    add_file(tmp_path, "2", day.slice(n // 3, n // 3))
    first = run_stream(read_declaration(write_pipeline(tmp_path, {"pairs": PAIRS, "waits": WAITS, "free": FREE, "gone": FREE})))
    assert first.read == 2 * (n // 3)
    n_batches = len(list((tmp_path / "out" / "checkpoint" / "commits").glob("[0-9]*")))

    # A query is added, one replaced, one removed; the others go on as if nothing had happened.
    add_file(tmp_path, "3", day.slice(2 * (n // 3)))
    replaced = FREE.replace("2 min", "1 min")
    file = write_pipeline(tmp_path, {"pairs": PAIRS, "waits": WAITS, "free": replaced, "new": PAIRS})
    second = run_stream(read_declaration(file))
    total = first + second
    assert total.read == n == total.used + total.irrelevant + total.late + total.quarantined  # type: ignore[operator]
    assert results(tmp_path, "pairs") == expected(day, PAIRS)
    assert results(tmp_path, "waits") == expected(day, WAITS)
    rest = day.slice(2 * (n // 3))
    assert results(tmp_path, "free", since=n_batches) == expected(rest, replaced)
    assert results(tmp_path, "new") == expected(rest, PAIRS)
    metrics = [json.loads(path.read_text()) for path in sorted((tmp_path / "out" / "metrics").glob("*.json"))]
    assert sum(sum(row["matches"].values()) for row in metrics) == sum(total.matches.values())  # type: ignore[union-attr]
    assert metrics[-1]["state_rows"] == 0  # the window has left everything behind
    for row in metrics:
        assert row["read"] == row["used"] + row["irrelevant"] + row["late"] + row["quarantined"]
        assert (row["state_bytes"] > 0) == (row["state_rows"] > 0)
    assert max(row["state_rows"] for row in metrics) > 100
    assert metrics[1]["watermark_lag_seconds"] >= 60  # the lateness

    # Once more, with nothing new: nothing is written again.
    assert sum((run_stream(read_declaration(file)).matches or {}).values()) == 0
    assert results(tmp_path, "pairs") == expected(day, PAIRS)

    with pytest.raises(sq.DataError, match="results of a stream"):
        run_once(read_declaration(file))
    shutil.move(tmp_path / "in", tmp_path / "elsewhere")
    moved = {"format": "parquet", "path": "elsewhere"}
    with pytest.raises(sq.DataError, match="belongs to another source: path was"):
        run_stream(read_declaration(write_pipeline(tmp_path, {"pairs": PAIRS}, source=moved)))
    once = write_pipeline(tmp_path, {"pairs": PAIRS}, source=moved, sinks={"matches": "out/once"})
    assert run_once(read_declaration(once)).matches == {"pairs": sum(expected(day, PAIRS).values())}


NEGATED = "SEQ(A a, !C c, B b, [id]) WITHIN 1000 s RETURN a.ts AS a, b.ts AS b"
LIKELY = {"name": "r", "predicate": "A -> B", "consequent": "C", "within": "1000 s", "horizon": "2000 s", "probability": 0.5,
          "partition_by": "id"}  # fmt: skip


@pytest.mark.slow  # in the everyday run: the generations of queries, below
def test_a_query_that_comes_back_begins_anew(spark: SparkSession, tmp_path: Path) -> None:
    """What was seen before it was taken out, or replaced, is not all there was: here a C that cancels, and an occurrence's end."""
    stays = {"stays": "SEQ(A a, B b, [id]) WITHIN 3000 s RETURN a.ts AS a, b.ts AS b"}
    source = {"format": "parquet", "path": "in", "lateness": "1 ms", "options": {"maxFilesPerTrigger": 1}}
    sinks = {name: f"out/{name}" for name in ("matches", "forecasts")}
    whole = {"neg": NEGATED, "other": NEGATED, **stays}
    runs: list[tuple[list[tuple[str, int]], dict[str, str], dict[str, Any]]] = [
        ([("A", 1_000)], whole, {"rules": [LIKELY]}),
        ([("C", 2_000)], {"other": NEGATED.replace("1000", "900"), **stays}, {}),
        ([("B", 3_000), ("Z", 10_000_000)], whole, {"rules": [LIKELY]}),
    ]
    counts = Counts(matches={})
    for events, queries, rules in runs:
        for kind, time in events:
            add_file(tmp_path, str(time // 1_000), pa.table({"type": [kind], "ts": [time], "id": [7]}))
        counts += run_stream(read_declaration(write_pipeline(tmp_path, queries, source=source, sinks=sinks, **rules)))
    assert counts.matches == {"neg": 0, "other": 0, "stays": 1}
    assert counts.forecasts == 0


def test_generations_of_queries(tmp_path: Path) -> None:
    """The same while a query is there in every run, and never one that its name has had before."""
    place = str(tmp_path)
    places = dict.fromkeys("abc", False)

    def generations(*asked: str, together: str = "") -> dict[str, int]:
        counted = count_generations(place, {each[0]: each[1:] for each in asked}, together)
        assert all(is_together == places[name] for name, (_, is_together) in counted.items())
        return {name: generation for name, (generation, _) in counted.items()}

    assert generations("ax", "by", together="ab") == {"a": 0, "b": 0}  # the mark is older than that queries go together
    assert generations("ax", "by", together="ab") == {"a": 0, "b": 0}
    places |= {"b": True}
    assert generations("bz", "cx", together="b") == {"b": 1, "c": 1}
    assert generations("ax", "bz", "cx", together="bc") == {"a": 2, "b": 1, "c": 1}  # each stays where its state is
    places |= {"b": False}
    assert generations("ax", "by", "cx") == {"a": 2, "b": 3, "c": 1}
    assert generations("ax", "by") == {"a": 2, "b": 3}


def test_bad_text_times_beside_nested_times(spark: SparkSession, tmp_path: Path) -> None:
    """The time column is known by its name, wherever it stands and whatever zone the session shows times in."""
    moment = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
    nested = pa.array([{"at": moment}] * 3, pa.struct([("at", pa.timestamp("us", "UTC"))]))
    add_file(tmp_path, "1", pa.table({"seen": nested, "type": ["A", "B", "B"], "ts": ["2024-01-01", "soon", "2024-01-01T00:01"]}))
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        counts = run_stream(read_declaration(write_pipeline(tmp_path, {"q": "SEQ(A a, B b) WITHIN 5 min"})))
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(before))
    assert (counts.used, counts.quarantined) == (2, 1)
    files = (tmp_path / "out" / "quarantine").rglob("*.parquet")
    (rejected,) = [plain(row) for file in files for row in pq.ParquetFile(file).read().to_pylist()]
    assert rejected == {"seen": plain({"at": moment}), "type": "B", "ts": "soon", "reason": "time is not a timestamp"}


def test_the_example(spark: SparkSession, tmp_path: Path) -> None:
    shutil.copytree(EXAMPLE, tmp_path / "p", ignore=shutil.ignore_patterns("out"))
    for number, name in enumerate(("morning", "noon", "evening")):
        os.utime(tmp_path / "p" / "events" / f"{name}.csv", (1_000 + number, 1_000 + number))
    file = tmp_path / "p" / "pipeline.yaml"
    one_by_one = "  path: events\n  options: {maxFilesPerTrigger: 1}\n"
    file.write_text(file.read_text().replace("  path: events\n", one_by_one))
    declared = read_declaration(file)
    counts = run_stream(declared)
    assert (counts.read, counts.used, counts.irrelevant, counts.late, counts.quarantined) == (12, 8, 0, 1, 3)
    assert counts.matches == {"untouched": 1, "forgotten": 2}  # 5 was used untouched, too, but the stream does not yet know
    reasons = [json.loads(line)["reason"] for path in (tmp_path / "p/out/quarantine").rglob("*.json") for line in path.open()]
    assert sorted(reasons) == ["id is missing", "the line does not fit the declared columns", "ward is none of A, B, C"]
    shutil.rmtree(tmp_path / "p" / "out")
    assert run_once(declared).matches == {"untouched": 2, "forgotten": 2}


def test_all_mistakes_are_shown_at_once(tmp_path: Path) -> None:
    file = tmp_path / "wrong.yaml"
    file.write_text(
        "source:\n  fromat: csv\n  path: in\n  unit: year\nschema:\n  id: {type: number}\n"
        "queries:\n  a: SEQ(A a, B b\n  b: SEQ(A a, Lamp x) WITHIN 5\nhierarchy: none.yaml\n"
        "sinks:\n  late: {path: x}\ntrigger: soon\nrules: [{predicate: A, within: 5}]\n"
    )
    with pytest.raises(sq.SchemaError) as caught:
        read_declaration(file)
    said = str(caught.value)
    for words in (
        "unknown key 'fromat' (line 2, column 3)",
        "did you mean 'format'?",
        "unknown time unit 'year' (line 4",
        "'number' is no type (line 6",
        "in the query 'a', line 1, column ",
        "(line 8, column 3)",
        "there is no file",
        "there is no sink for matches (line 11",
        "'soon' is no length of time (line 13",
        "there is no sink for forecasts (line 11",
        "in the rules: rule 1",
        "(line 14, column 1)",
    ):
        assert words in said, words


def test_values_for_parameters(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    queries = {"late": "SEQ(A a, B b) WHERE b.ts - a.ts > :gap AND a.x > :least WITHIN 5 min"}
    rules = [{"predicate": "A WHERE x > :most", "consequent": "B", "within": 1, "horizon": 5, "probability": 1}]
    sinks = {name: {"path": f"out/{name}"} for name in ("matches", "forecasts")}
    params = {"gap": "10 s", "least": 3, "most": "9 lives"}
    declared = read_declaration(write_pipeline(tmp_path, queries, rules=rules, params=params, sinks=sinks))
    assert str(declared.queries["late"]).split("\n")[1] == "WHERE b.ts - a.ts > 10 s AND a.x > 3"
    assert declared.rules[0].vertices[0].where == "x > '9 lives'"
    for params, said in (
        ({"gap": "10 s", "most": 1}, r"there is no value for :least .*\n(.*\n)*.*hint: add least to 'params:'"),
        ({"gap": "10 s", "least": 3, "most": 9, "many": 5}, r"the query has no parameter :many"),
        ([1], "params are a mapping of names to values"),
    ):
        with pytest.raises(sq.SchemaError, match=said):
            read_declaration(write_pipeline(tmp_path, queries, rules=rules, params=params, sinks=sinks))


def test_types_that_no_event_may_have(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    schema = {"type": {"type": "string", "allowed": ["Lamp", "Door"]}}
    hierarchy = {"Thing": ["Lamp", "Door"]}
    queries = {"right": "SEQ(Thing a, Door b) WITHIN 5", "wrong": "SEQ(Thing a,\n    Dor b) WITHIN 5"}
    file = write_pipeline(tmp_path, queries, schema=schema, hierarchy=hierarchy)
    with pytest.raises(sq.SchemaError, match=r"in the query 'wrong', line 2, column 5: unknown event type 'Dor'") as caught:
        read_declaration(file)
    assert "did you mean 'Door'" in str(caught.value)
    assert "'right'" not in str(caught.value).split("\n", 1)[0]


def test_rules_in_a_batch(spark: SparkSession, tmp_path: Path, day: pa.Table) -> None:
    rules = [{"name": "r", "predicate": "Recycle -> Wash", "consequent": "Operate", "within": "30 min", "horizon": "2 h",
              "probability": 0.5, "partition_by": "id"}]  # fmt: skip
    add_file(tmp_path, "1", day)
    sinks = {"matches": "out/matches", "forecasts": "out/forecasts", "metrics": "out/metrics"}
    queries = {"lunch": "SEQ(Lunch l, Wash w, [id]) WITHIN 5 min"}
    counts = run_once(read_declaration(write_pipeline(tmp_path, queries, rules=rules, sinks=sinks)))
    (metrics,) = (tmp_path / "out" / "metrics").iterdir()
    assert json.loads(metrics.read_text())["unknown_types"].startswith("no event is of the type 'Lunch'; there are 'Check'")
    expected_rows = sq.forecast({"rules": rules}, day).table
    found = [row for path in (tmp_path / "out" / "forecasts").rglob("*.parquet") for row in pq.ParquetFile(path).read().to_pylist()]
    assert Counter(repr(plain(row)) for row in found) == Counter(repr(row) for row in expected_rows.to_pylist())
    assert counts.forecasts == expected_rows.num_rows > 0


@pytest.mark.slow  # in the everyday run: the mistakes that are shown at once
def test_sources_that_are_not_what_was_declared(spark: SparkSession, tmp_path: Path, day: pa.Table) -> None:
    with pytest.raises(sq.SchemaError, match=r"there is no .*in \(line 1, column"):
        read_declaration(write_pipeline(tmp_path, {"pairs": PAIRS}))
    add_file(tmp_path, "1", day.slice(0, 10))
    with pytest.raises(sq.SchemaError, match="no column 'colour'"):
        run_once(read_declaration(write_pipeline(tmp_path, {"pairs": PAIRS}, schema={"colour": "string"})))
    with pytest.raises(sq.SchemaError, match="'id' is declared string and holds bigint"):
        run_once(read_declaration(write_pipeline(tmp_path, {"pairs": PAIRS}, schema={"id": "string"})))
    with pytest.raises(sq.QueryError, match="did you mean 'Recycle'"):
        run_once(read_declaration(write_pipeline(tmp_path, {"pairs": PAIRS.replace("Recycle", "Recicle")})))
    (tmp_path / "in" / "2.parquet").write_bytes(b"PAR1 this is no Parquet PAR1")
    with pytest.raises(sq.DataError, match="cannot be read"):
        run_stream(read_declaration(write_pipeline(tmp_path, {"pairs": PAIRS})))
    (tmp_path / "in" / "2.parquet").unlink()  # repaired: it goes on
    assert run_stream(read_declaration(write_pipeline(tmp_path, {"pairs": PAIRS}))).read is not None


def test_a_file_that_changes_while_the_stream_runs(spark: SparkSession, tmp_path: Path, day: pa.Table) -> None:
    """Queries come, go and are replaced between two micro-batches; a wrong file changes nothing and says why."""
    n = day.num_rows // 3
    first, second, third = day.slice(0, n), day.slice(n, n), day.slice(2 * n)
    add_file(tmp_path, "1", first)
    more = {"trigger": "100 milliseconds"}
    file = write_pipeline(tmp_path, {"pairs": PAIRS, "free": FREE, "gone": PAIRS}, **more)
    other = FREE.replace("2 min", "1 min")
    told: list[str] = []
    read, is_over = 0, False

    def report(number: int, counts: Counts) -> None:
        nonlocal read, is_over
        is_over = read == day.num_rows  # the micro-batch before was the last with rows, and this one has the watermark behind all
        read += counts.read or 0
        if read == n and not told:
            write_pipeline(tmp_path, {"pairs": PAIRS, "free": other, "new": PAIRS}, **more)
        elif read == 2 * n and len(told) == 1:
            write_pipeline(tmp_path, {"pairs": "SEQ(A a, B b, a.x = c.x) WITHIN 5 s"}, **more)

    def tell(change: WorkloadChange) -> None:
        told.append(str(change))
        if len(told) == 1:  # no micro-batch has come yet to tell it
            newest = max((tmp_path / "out" / "metrics").glob("*.json"))
            assert json.loads(newest.read_text())["changes"] == told[0]
            add_file(tmp_path, "2", second)
        elif len(told) == 2:
            write_pipeline(tmp_path, {"pairs": PAIRS}, sinks={"matches": "elsewhere"}, **more)
        else:
            add_file(tmp_path, "3", third)

    counts = run_stream(read_declaration(file), report, lambda: is_over, tell)
    assert told[0] == "added: new; replaced: free; removed: gone"
    assert told[1].startswith("refused: in ")
    assert "there is no variable 'c'" in told[1]
    assert told[2] == "refused: sinks cannot change while the stream runs; start it again"
    assert counts.read == day.num_rows
    assert results(tmp_path, "pairs") == expected(day, PAIRS)
    assert results(tmp_path, "new") == expected(pa.concat_tables([second, third]), PAIRS)
    metrics = [json.loads(path.read_text()) for path in sorted((tmp_path / "out" / "metrics").glob("*.json"))]
    assert " | ".join(row["changes"] for row in metrics if row.get("changes")) == " | ".join(told)


CUBE = "SEQ(Cleaning a, Use b) WITHIN 2 h"
LEVELS = {"Cleaning": ["Recycle", "Wash"], "Use": ["Operate", "Sharpen"]}


def test_cubes_are_counted_and_written(spark: SparkSession, tmp_path: Path, day: pa.Table) -> None:
    """The counts of a batch at every moment, from several micro-batches and a restart."""
    sinks = {name: {"path": f"out/{name}"} for name in ("matches", "cubes", "metrics")}
    cubes = {"uses": {"pattern": CUBE, "every": "30 min"}}
    pieces = [day.slice(0, len(day) // 2), day.slice(len(day) // 2)]
    for number, piece in enumerate(pieces):
        add_file(tmp_path, str(number), piece)
        file = write_pipeline(tmp_path, {"pairs": PAIRS}, sinks=sinks, cubes=cubes, hierarchy=LEVELS, drain=number > 0)
        run_stream(read_declaration(file))
    files = sorted((tmp_path / "out" / "cubes" / "uses").glob("batch=*/*.parquet"))
    rows = [row for file in files for row in pq.ParquetFile(file).read(["ts", "a_type", "b_type", "count"]).to_pylist()]
    stream = sq.Stream(hierarchy=sq.Hierarchy.from_dict(LEVELS))
    stream.cube("uses", CUBE, every="30 min")
    wanted = [*stream.push(day)["uses"].to_pylist(), *stream.close()["uses"].to_pylist()]
    assert Counter(map(repr, map(_comparable, rows))) == Counter(map(repr, map(_comparable, wanted)))
    assert len({row["ts"] for row in rows}) > 3


def _comparable(row: dict[str, Any]) -> dict[str, Any]:
    return {name: plain(value) for name, value in row.items()}


@pytest.mark.parametrize(
    ("cubes", "message"),
    [
        ({}, "cubes are a mapping"),
        ({"c": "SEQ(A a) WITHIN 5"}, "the cube 'c' has no pattern"),
        ({"c": {"pattern": "SEQ(A a WITHIN 5", "every": "1 s"}}, "in the cube 'c'"),
        ({"c": {"pattern": "AND(A a, B b) WITHIN 5", "every": "1 s"}}, "a cube is a SEQ of types"),
        ({"c": {"pattern": "SEQ(A a, B b) WITHIN 5", "every": "soon"}}, "'soon' is no length of time"),
        ({"c": {"pattern": "SEQ(A a, B b) WITHIN 5"}}, "None is no length of time"),
        ({"pairs": {"pattern": "SEQ(A a, B b) WITHIN 5", "every": "1 s"}}, "'pairs' is a query and a cube"),
        ({"c": {"pattern": "SEQ(A a, B b) WITHIN 5", "every": "1 s"}}, "there is no sink for cubes"),
    ],
)
def test_cubes_that_are_none(tmp_path: Path, cubes: dict[str, Any], message: str) -> None:
    (tmp_path / "in").mkdir()
    with pytest.raises(sq.SchemaError, match=message):
        read_declaration(write_pipeline(tmp_path, {"pairs": PAIRS}, cubes=cubes))


@pytest.mark.slow  # in the everyday run: a pipeline that is stopped, changed and started again, and workloads without Spark
def test_queries_of_one_key_share_and_nothing_is_lost_when_they_change(spark: SparkSession, tmp_path: Path) -> None:
    """Stopped, started again with other queries, cut into other buckets: what comes out is what each finds in what it has seen."""
    texts = {
        "pairs": "SEQ(A a, B b, [id]) WITHIN 40 s RETURN a.ts AS x, b.ts AS y",
        "longer": "SEQ(A a, B b, C c, [id]) WITHIN 40 s RETURN a.ts AS x, b.ts AS y, c.ts AS z",
        "count": "SEQ(A a, B b, [id]) AGG COUNT(*) AS n WITHIN 40 s GROUP BY a.id",
        "new": "SEQ(A a, C c, [id]) WITHIN 40 s RETURN a.ts AS x, c.ts AS z",
    }
    n = 600
    kinds = ["ABC"[(i * 7 + i // 5) % 3] for i in range(n)]
    table = pa.table({"type": kinds, "ts": [i * 1_000 for i in range(n)], "id": [i % 4 for i in range(n)]})
    source = {"path": "in", "lateness": "0 seconds"}
    for number, names in enumerate((["pairs", "longer", "count"], ["pairs", "count", "new"], list(texts))):
        add_file(tmp_path, str(number), table.slice(number * 200, 200))
        asked = {name: texts[name] for name in names}
        declared = read_declaration(write_pipeline(tmp_path, asked, source=source, strategy="chase", drain=number == 2))
        if number == 1:
            rescale(declared, 3, spark)
        run_stream(declared, spark=spark)
    for name, first in {"pairs": 0, "count": 0, "new": 200}.items():
        assert results(tmp_path, name) == expected(table.slice(first), texts[name]), name
    # What `longer` had not decided went with it, and it came back anew.
    assert results(tmp_path, "longer") == sum((expected(table.slice(at, 200), texts["longer"]) for at in (0, 400)), Counter())
