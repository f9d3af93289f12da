"""The command line: what it prints where, what it writes, and its exit codes."""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

import seqube as sq
from seqube import cli
from seqube.generate import generate

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVENTS = """\
ts,type,id,note
0,Recycle,1,
60,Recycle,2,x
120,Wash,1,
180,Wash,2,
200,Disinfect,2,
300,Operate,1,
360,Operate,2,
"""
CARE = """\
-- name: undisinfected
SEQ(Recycle r, Wash w, !Disinfect d, Operate o, [id]) WITHIN 10 min
RETURN r.id AS tool, o.ts - r.ts AS lag

-- name: washed
SEQ(Wash w, Operate o, [id]) WITHIN 10 min
"""


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)


Command = Callable[..., Outcome]


@pytest.fixture
def seqube(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Run a command in a folder with `events.csv` and `care.sqb`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    Path("events.csv").write_text(EVENTS)
    Path("care.sqb").write_text(CARE)

    def run(*arguments: str) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["seqube", *arguments])
        with pytest.raises(SystemExit) as stopped:
            cli.app()
        printed = capsys.readouterr()
        assert "Traceback" not in printed.err
        return Outcome(int(stopped.value.code or 0), printed.out, printed.err)

    return run


RUN = ("run", "care.sqb", "--events", "events.csv", "--unit", "s")


# ---------------------------------------------------------------- run


def test_run_shows_each_result_as_a_table(seqube: Command) -> None:
    done = seqube(*RUN)
    assert done.code == 0
    assert "undisinfected: 1 rows" in done.out
    assert "washed: 2 rows" in done.out
    assert "300" in done.out
    assert done.err == ""


def test_a_wide_result_shows_the_columns_that_fit(seqube: Command) -> None:
    """Never a table whose columns are a letter wide; what is not shown is named."""
    seqube("generate", "hospital", "--events", "500", "--out", "wide.csv")
    done = seqube("run", "--query", "SEQ(Wash w, Check c, Operate o, [id]) WITHIN 2 h", "--events", "wide.csv")
    header = next(line for line in done.out.splitlines() if "start" in line)
    shown = [name for name in re.split(r"[\s┃|]+", header) if name]
    assert shown[:2] == ["start", "end"]
    assert len(shown) > 2
    hidden = done.out.replace("\n", " ").partition("not shown here, for want of room: ")[2].partition("(RETURN")[0]
    assert len(shown) + len(re.split(r",\s+", hidden)) == 2 + 3 * 8 - 2  # no Wash and no Check has a duration


def test_check_as_json_says_every_problem_with_its_place(seqube: Command) -> None:
    found = seqube("check", "care.sqb", "--json")
    assert (found.code, list(found.document["queries"]), found.document["problems"]) == (0, ["undisinfected", "washed"], [])
    found = seqube("check", "--query", "A a WHERE a.x > :least WITHIN 5", "--json")
    assert found.document["queries"]["query"] == {"text": "PATTERN A a\nWHERE a.x > :least\nWITHIN 5", "parameters": ["least"]}
    found = seqube("check", "--query", "A a WHERE b.x > 1 AND LOWR(a.s) = 'x' WITHIN 5", "--json")
    assert (found.code, found.document["queries"]) == (2, {})
    (problem,) = found.document["problems"]
    assert problem == {
        "query": "query", "message": "there is no function 'LOWR'", "hint": "did you mean LOWER?",
        "line": 1, "column": 23, "length": 4,
    }  # fmt: skip
    found = seqube("check", "--query", "A a WHERE b.x > 1 AND c.s = 'x' WITHIN 5", "--json")
    assert [(each["line"], each["column"]) for each in found.document["problems"]] == [(1, 11), (1, 23)]


def test_check_as_json_says_of_every_query_of_a_file_what_it_is(seqube: Command) -> None:
    Path("several.sqb").write_text(
        "-- name: first\nSEQ(A a, B b) WHERE c.x > 1 AND d.y = 2 WITHIN 5\n"
        "-- name: good\nA a WHERE a.x > :least WITHIN 5\n"
        "-- name: last\nSEQ(A a, B b WITHIN 5\n"
        "-- name: twice\nA a WITHIN 5\n-- name: twice\nB b WITHIN 5\n"
        "-- name: empty\n"
    )
    found = seqube("check", "several.sqb", "--json")
    assert (found.code, found.err) == (2, "")
    assert found.document["queries"] == {"good": {"text": "PATTERN A a\nWHERE a.x > :least\nWITHIN 5", "parameters": ["least"]}}
    told = [(each["query"], each["line"], each["column"]) for each in found.document["problems"]]
    assert told == [("first", 2, 21), ("first", 2, 33), ("last", 6, 14), ("twice", 9, 1), ("empty", 11, 1)]
    assert all(each["hint"] for each in found.document["problems"])


def test_values_for_parameters(seqube: Command) -> None:
    asked = ("--query", "A a WHERE a.id > :least AND a.s = :s WITHIN 1 RETURN a.id AS id", "--events", "few.csv", "--json")
    Path("few.csv").write_text("ts,type,id,s\n1,A,1,p q\n2,A,2,p q\n3,A,3,\n")
    found = seqube("run", *asked, "--param", "least=1", "--param", "s=p q")
    assert found.document["results"]["query"]["rows"] == [{"id": 2}]
    assert "a.id > 1" in seqube("explain", *asked[:-1], "--param", "least=1", "--param", "s=p q").out
    missing = seqube("run", *asked, "--param", "least=1").err
    assert "there is no value for :s" in missing
    assert "on the command line --param s=..." in missing
    assert "the query has no parameter :leest" in seqube("run", *asked, "--param", "leest=1").err
    assert seqube("run", *asked, "--param", "least").code == 2


def test_run_as_json_prints_one_object_and_nothing_else(seqube: Command) -> None:
    done = seqube(*RUN, "--json")
    assert done.code == 0
    assert done.document["events"] == 7
    assert done.document["rejected"] == {"count": 0, "reasons": {}}
    assert done.document["results"]["undisinfected"] == {"count": 1, "columns": ["tool", "lag"], "rows": [{"tool": 1, "lag": 300}]}
    washed = done.document["results"]["washed"]
    assert washed["rows"][0]["w"] == {"ts": 120, "type": "Wash", "id": 1, "note": None}


@pytest.mark.parametrize(
    "command",
    [
        ("run", "care.sqb", "--events", "events.csv"),
        ("explain", "care.sqb", "--events", "events.csv"),
        ("forecast", "rules.yaml", "--events", "events.csv"),
        ("mine", "--events", "events.csv", "--window", "5", "--min-support", "1", "--min-confidence", "0.5", "--out", "mined.yaml"),
    ],
    ids=lambda command: command[0],
)
def test_commands_work_in_this_process_unless_spark_is_asked_for(
    seqube: Command, command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    import seqube.spark as sqs

    started: list[dict[str, str]] = []

    def start(**settings: str) -> None:
        started.append(settings)
        raise sq.PlanError("no Spark here")

    monkeypatch.setattr(sqs, "session", start)
    Path("rules.yaml").write_text("rules: [{predicate: Wash, consequent: Operate, within: 5, horizon: 9, probability: 0.5}]")
    assert seqube(*command).code == 0
    assert started == []
    asked = ("--spark", "--master", "local[2]", "--conf", "spark.a=b=c", "--conf", "spark.d=1")
    assert "no Spark here" in seqube(*command, *asked).err
    assert started == [{"spark.master": "local[2]", "spark.a": "b=c", "spark.d": "1"}]
    for wrong in (
        ("--conf", "spark.a=b"),
        ("--master", "local"),
        ("--spark", "--conf", "=b"),
        ("--spark", "--conf", "a"),
        ("--local",),
    ):
        assert seqube(*command, *wrong).code == 2
    assert len(started) == 1


@pytest.mark.slow
def test_the_spark_that_was_asked_for_is_the_one_that_runs(tmp_path: Path) -> None:
    """Settings that only hold when the JVM starts, in a process of its own."""
    (tmp_path / "events.csv").write_text(EVENTS)
    (tmp_path / "care.sqb").write_text(CARE)
    code = """
import sys
from seqube import cli
asked = "--spark --master local[1] --conf spark.driver.memory=700m --conf spark.sql.shuffle.partitions=3"
sys.argv = ["seqube", "run", "care.sqb", "--events", "events.csv", "--unit", "s", "--json", *asked.split()]
try:
    cli.app()
finally:
    from pyspark.sql import SparkSession
    spark = SparkSession.getActiveSession()
    heap = spark._jvm.java.lang.Runtime.getRuntime().maxMemory() >> 20
    print(spark.sparkContext.master, spark.conf.get("spark.sql.shuffle.partitions"), heap < 800, file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["results"]["washed"]["count"] == 2
    assert done.stderr.splitlines()[-1] == "local[1] 3 True"


@pytest.mark.slow
def test_a_spark_that_there_is_not_is_wrong_usage(tmp_path: Path) -> None:
    (tmp_path / "events.csv").write_text(EVENTS)
    query = ("--query", "SEQ(Wash w, Operate o) WITHIN 10 min", "--events", "events.csv", "--spark", "--master", "nonsense")
    done = subprocess.run(
        [sys.executable, "-m", "seqube", "run", *query], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "PlanError: Spark does not start with spark.master=nonsense" in done.stderr


def test_the_query_may_be_given_as_text(seqube: Command) -> None:
    done = seqube("run", "--query", "SEQ(Wash a, Operate b) WITHIN 1 ms", "--events", "events.csv", "--json")
    assert done.document["results"] == {"query": {"count": 0, "columns": ["start", "end", "a", "b"], "rows": []}}


def test_limit_cuts_rows_but_not_the_count(seqube: Command) -> None:
    washed = seqube(*RUN, "--json", "--limit", "1").document["results"]["washed"]
    assert (washed["count"], len(washed["rows"])) == (2, 1)
    assert "... and 1 more" in seqube(*RUN, "--limit", "1").out


def test_limits_stop_a_query_or_cut_it_short(seqube: Command) -> None:
    stopped = seqube(*RUN, "--max-matches", "1")
    assert stopped.code == 1
    assert "LimitError: the query was stopped after 1 rows: it has more than 1 rows (max_matches)" in stopped.err
    cut = seqube(*RUN, "--max-matches", "1", "--truncate", "--json")
    assert cut.code == 0
    assert "note: washed is not whole: the query was stopped" in cut.err
    assert cut.document["results"]["washed"]["count"] == 1
    assert "max_matches" in cut.document["results"]["washed"]["truncated"]
    assert "truncated" not in cut.document["results"]["undisinfected"]
    assert seqube(*RUN, "--max-seconds", "0").code == 1
    assert "--truncate with --spark" in seqube(*RUN, "--spark", "--max-matches", "1", "--truncate").err


def test_parquet_files_hold_the_matches(seqube: Command) -> None:
    done = seqube(*RUN, "--out", "found")
    assert done.code == 0
    assert "2 rows in found/washed.parquet" in done.out
    assert sorted(path.name for path in Path("found").iterdir()) == ["undisinfected.parquet", "washed.parquet"]
    table = pq.read_table("found/washed.parquet")
    assert table.to_pylist()[0]["o"]["ts"] == 300


def test_csv_files_have_a_column_for_each_attribute(seqube: Command) -> None:
    seqube(*RUN, "--out", "found", "--format", "csv")
    rows = list(csv.DictReader(Path("found/washed.csv").read_text().splitlines()))
    assert {(row["w_id"], row["o_ts"], row["o_type"]) for row in rows} == {("1", "300", "Operate"), ("2", "360", "Operate")}


def test_json_files_hold_a_match_a_line(seqube: Command) -> None:
    done = seqube(*RUN, "--out", "found", "--format", "json", "--json")
    assert done.document["results"]["washed"] == {"count": 2, "columns": ["start", "end", "w", "o"], "file": "found/washed.json"}
    lines = [json.loads(line) for line in Path("found/washed.json").read_text().splitlines()]
    assert [line["w"]["id"] for line in lines] == [1, 2]


def test_rejected_rows_are_reported_and_kept(seqube: Command) -> None:
    with Path("events.csv").open("a") as file:
        file.write("400,,3,\n,Wash,3,\n")
    done = seqube(*RUN, "--out", "found", "--format", "csv", "--json")
    assert done.code == 0
    assert done.document["events"] == 7
    assert done.document["rejected"]["count"] == 2
    assert sum(done.document["rejected"]["reasons"].values()) == 2
    assert "2 rows are not events" in done.err
    assert len(Path("found/_rejected.csv").read_text().splitlines()) == 3


def test_times_and_lengths_of_time_are_written_in_every_format(seqube: Command) -> None:
    seqube("generate", "hospital", "--events", "500", "--out", "tools.parquet")
    query = ("--query", "SEQ(Wash w, Operate o, [id]) WITHIN 2 h RETURN w.ts AS washed, o.ts - w.ts AS lag, o.duration AS duration")
    for name in ("parquet", "csv", "json"):
        done = seqube("run", *query, "--events", "tools.parquet", "--out", "found", "--format", name)
        assert done.code == 0, done.err
        assert Path(f"found/query.{name}").stat().st_size > 1000


def test_two_results_never_share_a_file(seqube: Command) -> None:
    Path("care.sqb").write_text(CARE.replace("undisinfected", "a b").replace("washed", "a/b"))
    done = seqube(*RUN, "--out", "found")
    assert done.code == 2
    assert "a_b.parquet" in done.err
    assert not Path("found").exists()


def test_a_url_is_no_folder_of_this_machine(seqube: Command) -> None:
    done = seqube(*RUN, "--out", "s3://bucket/found")
    assert done.code == 2
    assert "--out is a folder of this machine, and s3:/bucket/found was a URL" in done.err
    assert not Path("s3:").exists()


def test_a_hierarchy_is_read(seqube: Command) -> None:
    Path("care.yaml").write_text("Care: [Wash, Disinfect]\n")
    query = ("--query", "SEQ(Care c, Operate o, [id]) WITHIN 1 h")
    done = seqube("run", *query, "--events", "events.csv", "--unit", "s", "--hierarchy", "care.yaml", "--json")
    assert done.document["results"]["query"]["count"] == 3


def test_columns_are_chosen(seqube: Command) -> None:
    Path("events.csv").write_text(EVENTS.replace("ts,type", "clock,what"))
    assert seqube(*RUN, "--type", "what", "--time", "clock", "--json").document["results"]["washed"]["count"] == 2


# ---------------------------------------------------------------- what is wrong


def test_a_wrong_query_is_2_with_its_place(seqube: Command) -> None:
    Path("wrong.sqb").write_text("SEQ(Wash w, Operate o, w.id = x.id) WITHIN 1 h")
    for command in (
        ("check", "wrong.sqb"),
        ("run", "wrong.sqb", "--events", "events.csv"),
        ("explain", "wrong.sqb", "--events", "events.csv"),
    ):
        done = seqube(*command)
        assert done.code == 2
        assert done.out == ""
        assert "wrong.sqb" in done.err
        assert "line 1" in done.err
        assert "^" in done.err


def test_an_error_is_json_too_where_that_was_asked_for(seqube: Command) -> None:
    done = seqube("run", "--query", "SEQ(", "--events", "events.csv", "--json")
    assert done.code == 2
    assert done.document["error"]["kind"] == "QueryError"
    assert done.document["error"]["message"] in done.err


def test_a_missing_column_is_2(seqube: Command) -> None:
    done = seqube(*RUN, "--type", "tipe")
    assert done.code == 2
    assert "tipe" in done.err


def test_a_strategy_that_does_not_exist_is_2(seqube: Command) -> None:
    done = seqube(*RUN, "--strategy", "magic")
    assert done.code == 2
    assert "magic" in done.err


@pytest.mark.parametrize("name", ["nowhere.csv", "broken.parquet"])
def test_events_that_cannot_be_read_are_1(seqube: Command, name: str) -> None:
    Path("broken.parquet").write_bytes(b"nothing")
    done = seqube("run", "care.sqb", "--events", name)
    assert done.code == 1
    assert name in done.err


def test_a_folder_that_cannot_be_written_is_1(seqube: Command) -> None:
    done = seqube(*RUN, "--out", "events.csv")
    assert done.code == 1
    assert "events.csv" in done.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "--events", "events.csv"),
        ("run", "care.sqb", "--query", "SEQ(A a, B b) WITHIN 1 s", "--events", "events.csv"),
        ("run", "nowhere.sqb", "--events", "events.csv"),
        ("run", "care.sqb"),
        ("run", "care.sqb", "--events", "events.csv", "--format", "xlsx"),
        ("check",),
        ("generate", "weather", "--out", "x.csv"),
        ("generate", "stock", "--out", "x.xlsx"),
        ("generate", "stock", "--events", "-5", "--out", "x.csv"),
        ("nonsense",),
    ],
    ids=" ".join,
)
def test_wrong_usage_is_2(seqube: Command, arguments: tuple[str, ...]) -> None:
    done = seqube(*arguments)
    assert done.code == 2
    assert done.out == ""
    assert done.err != ""


def test_a_mistake_of_ours_is_1_without_a_traceback(seqube: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("surprise")

    monkeypatch.setattr(sq, "run", fail)
    done = seqube(*RUN)
    assert done.code == 1
    assert "surprise" in done.err
    assert "SEQUBE_DEBUG" in done.err


# ---------------------------------------------------------------- the other commands


def test_check_prints_text_that_checks_again(seqube: Command) -> None:
    first = seqube("check", "care.sqb")
    assert first.code == 0
    Path("again.sqb").write_text(first.out)
    assert seqube("check", "again.sqb").out == first.out


def test_explain_prints_a_plan_for_each_query(seqube: Command) -> None:
    done = seqube("explain", "care.sqb", "--events", "events.csv", "--unit", "s")
    assert done.code == 0
    assert "-- name: undisinfected\n" in done.out
    assert "-- name: washed\n" in done.out


def test_funnel_counts_keys(seqube: Command) -> None:
    asked = ("funnel", "Recycle", "Wash", "Operate", "--events", "events.csv", "--unit", "s", "--by", "id", "--within", "1 hour")
    found = seqube(*asked, "--json").document["funnel"]
    assert [(row["type"], row["reached"]) for row in found] == [("Recycle", 2), ("Wash", 2), ("Operate", 2)]
    without = seqube(*asked, "--without", "3=Disinfect", "--json").document["funnel"]
    assert [row["reached"] for row in without] == [2, 2, 1]
    assert "median_seconds" in seqube(*asked).out
    wrong = seqube(*asked, "--without", "Disinfect")
    assert (wrong.code, "--without 2=logout" in wrong.err) == (2, True)


@pytest.mark.parametrize("ending", ["parquet", "csv", "json"])
def test_generated_events_can_be_run(seqube: Command, ending: str) -> None:
    path = f"trades.{ending}"
    assert seqube("generate", "stock", "--events", "2000", "--seed", "3", "--out", path).code == 0
    query = ("--query", "SEQ(DELL a, QQQ b) WITHIN 100 ms")
    found = seqube("run", *query, "--events", path, "--json", "--limit", "0").document
    types = generate("stock", 2000, seed=3)["type"].to_pylist()
    pairs = sum(
        types[late] == "QQQ" for early in range(2000) if types[early] == "DELL" for late in range(early + 1, min(early + 100, 2000))
    )
    assert found["events"] == 2000
    assert found["results"]["query"]["count"] == pairs


def test_rules_are_learnt_and_predict(seqube: Command) -> None:
    assert seqube("generate", "traffic", "--events", "20000", "--seed", "1", "--out", "flow.parquet").code == 0
    learn = ("--window", "10 min", "--min-support", "20", "--min-confidence", "0.2", "--limit", "5", "--out", "rules.yaml")
    assert "rules in rules.yaml" in seqube("mine", "--events", "flow.parquet", *learn).out
    predicted = seqube("forecast", "rules.yaml", "--events", "flow.parquet", "--json", "--limit", "2").document
    expected = sq.forecast("rules.yaml", "flow.parquet")
    assert predicted["count"] == expected.table.num_rows > 0
    assert len(predicted["predictions"]) == 2
    assert len(predicted["quality"]) == len(sq.Rules.load("rules.yaml"))
    assert seqube("forecast", "rules.yaml", "--events", "flow.parquet", "--out", "found").code == 0
    assert sorted(path.name for path in Path("found").iterdir()) == ["outcomes.parquet", "predictions.parquet", "quality.parquet"]


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_rules_on_spark_are_those_of_one_process(seqube: Command) -> None:
    assert seqube("generate", "traffic", "--events", "5000", "--seed", "1", "--out", "flow.parquet").code == 0
    learn = ("--window", "10 min", "--min-support", "20", "--min-confidence", "0.2", "--limit", "5", "--max-events", "2")
    for more in ((), ("--spark",)):
        assert seqube("mine", "--events", "flow.parquet", *learn, "--out", f"rules{len(more)}.yaml", *more).code == 0
    assert Path("rules0.yaml").read_text() == Path("rules1.yaml").read_text()
    predicted = seqube("forecast", "rules0.yaml", "--events", "flow.parquet", "--json", "--limit", "2", "--spark").document
    assert predicted["count"] == len(sq.forecast("rules0.yaml", "flow.parquet")) > 0
    assert (predicted["events"], len(predicted["predictions"])) == (5_000, 2)
    done = seqube("forecast", "rules0.yaml", "--events", "flow.parquet", "--out", "found", "--spark")
    assert "predictions in found" in done.out
    assert pq.read_table("found/predictions.parquet").num_rows == predicted["count"]


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_limits_on_spark_are_those_of_tasks(seqube: Command) -> None:
    stopped = seqube("run", "care.sqb", "--events", "events.csv", "--unit", "s", "--max-matches", "0", "--json", "--spark")
    assert stopped.code == 1
    assert stopped.document["error"]["kind"] == "LimitError"
    assert stopped.document["error"]["message"].startswith(
        "the query was stopped after 0 rows: it has more than 0 rows (max_matches)"
    )


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_mistakes_on_spark_are_those_of_one_process(seqube: Command) -> None:
    misspelt = seqube("run", "--query", "SEQ(Recicle a, Wash b) WITHIN 10 min", "--events", "events.csv", "--unit", "s", "--spark")
    assert misspelt.code == 2
    assert "unknown event type 'Recicle'" in misspelt.err
    Path("broken.parquet").write_bytes(b"PAR1 this is no Parquet PAR1")
    broken = seqube("run", "care.sqb", "--events", "broken.parquet", "--spark")
    assert broken.code == 1
    assert "cannot be read" in broken.err
    assert "split by a hash of id" in seqube("explain", "care.sqb", "--events", "events.csv", "--unit", "s", "--spark").out


def test_a_wrong_rule_file_is_wrong_usage(seqube: Command) -> None:
    Path("bad.yaml").write_text("rules: [{name: r, predicate: A -> B, consequent: C, within: 5, horizon: 9, probability: 7}]")
    done = seqube("forecast", "bad.yaml", "--events", "events.csv", "--unit", "s")
    assert done.code == 2
    assert "probability" in done.err


def test_version(seqube: Command) -> None:
    assert seqube("--version").out == f"seqube {sq.__version__}\n"


def test_the_tour_runs_through(spark: SparkSession, seqube: Command) -> None:
    done = seqube("demo")
    assert done.code == 0, done.err
    assert "matches in 1,000,000 events" in done.out
    assert "there is no variable 'x'" in done.out


# ---------------------------------------------------------------- a first day


def test_what_a_person_should_know_is_said_on_stderr_and_in_json(seqube: Command) -> None:
    done = seqube("run", "--query", "SEQ(Wash w, Operation o) WITHIN 5 min", "--events", "events.csv", "--unit", "s", "--json")
    assert done.code == 0
    assert done.err == "note: no event is of the type 'Operation'; near it are 'Operate'\n"
    assert "Operate" in done.document["results"]["query"]["notes"][0]


def test_arguments_are_called_by_their_options(seqube: Command) -> None:
    missing = seqube("run", "--query", "A WITHIN 5", "--events", "events.csv", "--type", "kind")
    assert (missing.code, "--type COL" in missing.err, 'type="' in missing.err) == (2, True, False)


@pytest.mark.parametrize(("file_format", "line"), [("csv", '"tool","lag"'), ("json", '{"tool": 1, "lag": 300}')])
def test_a_format_without_a_folder_is_printed(file_format: str, line: str, seqube: Command) -> None:
    text = "SEQ(Recycle r, !Disinfect d, Operate o, [id]) WITHIN 10 min RETURN r.id AS tool, o.ts - r.ts AS lag"
    done = seqube("run", "--query", text, "--events", "events.csv", "--unit", "s", "--format", file_format)
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines()[0] == line


@pytest.mark.parametrize("more", [["--format", "parquet"], ["--format", "csv"], ["--format", "json", "--json"]])
def test_a_format_that_cannot_be_printed_is_refused(more: list[str], seqube: Command) -> None:
    done = seqube(*RUN, *more)
    assert (done.code, done.out) == (2, "")
    assert "--out" in done.err


@pytest.mark.parametrize("kind", ["csv", "json", "parquet"])
def test_events_from_standard_input(kind: str, tmp_path: Path) -> None:
    table = generate("stock", 300, 1)
    cli.write(table, tmp_path / f"events.{kind}")
    command = [sys.executable, "-m", "seqube", "run", "--query", "SEQ(DELL a, QQQ b) WITHIN 1 s AGG COUNT(*) EMIT TOTAL"]
    command += ["--events", "-", "--json"]
    with (tmp_path / f"events.{kind}").open("rb") as file:
        done = subprocess.run(command, stdin=file, capture_output=True, check=True, text=True)
    assert json.loads(done.stdout)["events"] == 300
