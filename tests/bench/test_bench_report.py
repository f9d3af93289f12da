"""What is published: agreed answers only, losses as clearly as wins, and a guard that notices."""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from bench.__main__ import already_measured, run
from bench.measure import Measurement, about_this_run, as_line, compare, spread
from bench.peers import Answer, tasks
from bench.peers.process import PeerError, Process
from bench.report import write_report
from bench.workloads.peers import Pace, _keep, agreed, contest, stock20
from bench.workloads.scaling import model
from bench.workloads.spark import wanted_of_streams
from rich.console import Console

from bench import guard

RIGHT, WRONG = Answer(3, 99), Answer(3, 98)


def test_most_contenders_decide_and_ties_go_against_us() -> None:
    assert agreed({"seqube_engine": WRONG, "a": RIGHT, "b": RIGHT}) == RIGHT
    assert agreed({"seqube_engine": RIGHT, "a": RIGHT, "b": WRONG}) == RIGHT
    assert agreed({"seqube_engine": WRONG, "a": RIGHT}) == RIGHT
    assert agreed({}) is None


def test_a_wrong_answer_has_no_time() -> None:
    first, second = compare("w", "t", 10, {"right": lambda: 1, "wrong": lambda: 2}, repetitions=3)
    assert first.right
    assert first.wall_s is not None
    assert not second.right
    assert second.wall_s is None
    assert spread([1.0, 2.0]) is None


def test_what_takes_long_is_run_once_and_judged_outside_its_time() -> None:
    runs: list[str] = []
    contenders = {name: lambda name=name: runs.append(name) or len(name) for name in ("fast", "slow")}
    measured = list(compare("w", "t", 10, contenders, repetitions=3, judge=lambda length: length == 4))
    assert [(m.answer, m.repetitions) for m in measured] == [(True, 3), (True, 3)]
    runs.clear()
    measured = list(compare("w", "t", 10, contenders, repetitions=3, once_above_s=-1.0))
    assert [m.repetitions for m in measured] == [1, 1]
    assert runs == ["fast", "slow"]
    assert all(m.cpu_s is not None and m.spread_s is None for m in measured)
    (waits,) = compare("w", "t", 10, {"waits": lambda: time.sleep(0.03)}, repetitions=2, once_above_s=0.02)
    assert waits.repetitions == 2


def test_a_run_in_which_a_kernel_was_compiled_never_counts() -> None:
    import numba

    runs: list[str] = []
    compiled = numba.njit(lambda number: number + 1)
    (measured,) = compare("w", "t", 10, {"compiled": lambda: runs.append("run") or compiled(1)}, repetitions=3, once_above_s=-1.0)
    assert measured.repetitions == 1
    assert len(runs) == 2


def line(contender: str, wall_s: float | None, **more: object) -> str:
    one = Measurement("peers", "Q-a", contender, 1000, 5, right=True, wall_s=wall_s, cpu_s=wall_s, repetitions=3)
    return as_line(replace(one, **more))  # type: ignore[arg-type]


def test_the_report_names_those_who_beat_us_and_hides_no_wrong_answer(tmp_path: Path) -> None:
    pytest.importorskip("vl_convert", reason="the plots need vl-convert: make bench-peers")
    lines = [
        json.dumps(about_this_run("a test")),
        line("Seqube", 0.2),
        line("Polars", 0.1, cores=2),
        line("Flink CEP", 40.0),
        line("DuckDB", None, right=False, note="found 4, the others 5"),
        line("Spark SQL", None, note="not done after 60 s"),
    ]
    (tmp_path / "peers.jsonl").write_text("\n".join(lines) + "\n")
    first = write_report(tmp_path, tmp_path / "docs").read_text()
    page = (tmp_path / "docs" / "peers.md").read_text()
    for text in (first, page):
        assert "**Polars on Q-a** (1,000 events) takes 0.50 of our time" in text
    assert "Flink CEP: 200 to 200 times" in first
    assert "DuckDB, Q-a: found 4, the others 5. Its time is not published." in page
    assert "Spark SQL, Q-a (1,000 events): not done after 60 s" in page
    assert (tmp_path / "docs" / "peers-generated.png").read_bytes().startswith(b"\x89PNG")
    assert "vegaEmbed('#peers-generated'" in (tmp_path / "docs" / "charts.html").read_text()
    assert "```" not in page


def test_the_guard_fails_on_a_lasting_loss_only() -> None:
    recorded = {"steady": 2.0, "slower": 2.0, "noisy": 2.0}
    tries = {"steady": [1.6], "slower": [1.4, 1.2, 1.45], "noisy": [1.0, 1.0, 1.9]}
    assert guard.losses(recorded, lambda name: tries[name].pop(0)) == {"slower": 1.45}


def test_the_guarded_kernels_are_the_recorded_ones() -> None:
    kernels = guard.kernels(20_000)
    assert set(json.loads(guard.RECORD.read_text())) == set(kernels)
    for contenders in kernels.values():
        assert len({run() for run in contenders.values()}) == 1


def test_the_model_finds_the_costs_it_was_given() -> None:
    runs = [
        {"events": n, "answer": found, "cpu_s": 20e-9 * n + 5e-9 * 3 * found, "about": {"slots": 3}}
        for n, found in ((10**6, 0), (10**6, 10**5), (10**7, 10**7))
    ]
    fitted = model(runs)
    assert fitted["event_ns"] == pytest.approx(20)
    assert fitted["bound_ns"] == pytest.approx(5)
    assert fitted["largest_error"] == pytest.approx(0, abs=1e-9)


def test_peers_answer_from_processes_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from bench.peers import load
    from bench.workloads import peers

    monkeypatch.setattr(peers, "BUILD", tmp_path)
    names = ("seqube_engine", "plain_python")
    processes = {name: Process(name, tmp_path / "log") for name in names}
    try:
        events = _keep("few", stock20(2_000))
        pace = Pace(3, 600, 600)  # kernels may have to be compiled first
        measured = list(contest("Q-a", tasks()["a"], events, 2_000, {name: load(name) for name in names}, processes, pace))
        with pytest.raises(PeerError, match="FileNotFoundError"):
            processes["plain_python"].prepare(tmp_path / "none", 600)
        asleep = processes["plain_python"]._running
        assert asleep is not None
        asleep.send_signal(signal.SIGSTOP)
        with pytest.raises(PeerError, match="not done after 0 s"):
            processes["plain_python"].run(tasks()["a"], 0.0)
        running = processes["seqube_engine"]._running
        assert running is not None
        running.kill()
        running.wait()
        with pytest.raises(PeerError, match="its process ended with exit code -9"):
            processes["seqube_engine"].run(tasks()["a"], 600)
    finally:
        for process in processes.values():
            process.end()
    assert [one.contender for one in measured] == ["Seqube", "plain Python"]
    assert measured[0].answer == measured[1].answer > 0
    assert all(one.right and one.wall_s and one.repetitions == 3 and one.prepare_s for one in measured)


def test_a_tenth_is_a_tenth_and_things_without_order_are_bars() -> None:
    from bench.charts import panels

    points = [{"panel": "p", "contender": who, "x": x, "y": 0.1 * x} for who in ("a", "b") for x in (1, 2)]
    line, bar = (panels(points, categories=given).to_dict()["concat"][0] for given in (False, True))
    assert "'~r'" in line["encoding"]["y"]["axis"]["labelExpr"]  # `~s` alone says 100m
    assert (line["mark"]["type"], line["encoding"]["x"]["type"]) == ("line", "quantitative")
    assert (bar["mark"]["type"], bar["encoding"]["x"]["type"]) == ("bar", "nominal")


def test_what_a_plot_shows_is_said_above_it() -> None:
    from bench.charts import finding, panels, who_is_first

    points = [
        {"panel": "p", "contender": who, "x": x, "y": factor * x} for who, factor in (("a", 1.0), ("b", 12.0)) for x in (1, 5)
    ]
    assert finding(points) == "at 5: least a, b 12 times as much"
    assert finding(points, categories=True) == "least: a, in 2 of 2"
    assert finding(points[:2]) == "from 1 to 5: 5 times"
    assert finding([]) == ""
    assert panels(points).to_dict()["concat"][0]["title"]["subtitle"] == finding(points)
    rates = [("Q-a", "Seqube", 40), ("Q-a", "other", 20), ("Q-b", "Seqube", 9), ("Q-b", "other", 3), ("Q-c", "other", 2)]
    rows = [{"query": query, "contender": who, "events per second": rate} for query, who, rate in rates]
    assert who_is_first(rows) == "Seqube is first in 2 of 3 queries, by 2 to 3 times the second"


def test_what_is_asked_of_micro_batches_stands_beside_what_they_did(tmp_path: Path) -> None:
    about = {"wall_s": 0.25, "cpu_s": 0.5, "note": "200,000 events/s; state 1 to 2 bytes"}
    short = Measurement("spark", "stream", "a window of 10 micro-batches", 50_000, 7, right=True, **about)
    long = replace(short, contender="a window of 200 micro-batches", wall_s=0.275, cpu_s=0.55)
    large = replace(short, events=400_000, contender="a window of 100 micro-batches", note="412,345 events/s; state 1 to 2 bytes")
    found = list(wanted_of_streams([short, long, large]))
    assert [m.note for m in found] == ["1.10 times the time, 1.10 times the CPU", "275 ms", "412,345 events/s"]
    lines = [json.dumps(about_this_run("python -m bench --full spark --task stream")), *map(as_line, found)]
    (tmp_path / "spark-full-stream.jsonl").write_text("\n".join(lines), encoding="utf-8")
    write_report(tmp_path, tmp_path / "docs")
    page = (tmp_path / "docs" / "spark-full-stream.md").read_text(encoding="utf-8")
    assert "| micro-batches of 50,000, the median, with a window of 200 micro-batches: less than 400 ms |" in page
    assert not list(wanted_of_streams([]))


def test_a_run_that_was_ended_is_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    timed: list[str] = []
    ended = ["b"]  # the task in which the run is ended, once

    def one(task: str) -> int:
        if task in ended:
            ended.remove(task)
            sys.exit("stopped")
        timed.append(task)
        return len(task)

    def measurements(quick: bool) -> Iterator[Measurement]:
        for task in "abc":
            for measured in compare("pieces", task, 10, {"x": lambda task=task: one(task)}, repetitions=1):
                yield replace(measured, note=f"{task} of {3 if quick else 4}")

    monkeypatch.setitem(sys.modules, "bench.workloads.pieces", SimpleNamespace(measurements=measurements))
    console = Console(quiet=True)
    with pytest.raises(SystemExit):
        run("pieces", False, tmp_path, console)
    assert not (tmp_path / "pieces-full.jsonl").exists()
    timed.clear()
    assert run("pieces", False, tmp_path, console, resume=True, remark="In the rain.")
    assert timed == ["b", "b", "c", "c"]  # a warm-up and a repetition each
    about, *lines = map(json.loads, (tmp_path / "pieces-full.jsonl").read_text().splitlines())
    assert [(line["task"], line["note"]) for line in lines] == [("a", "a of 4"), ("b", "b of 4"), ("c", "c of 4")]
    assert len(about["pieces"]) == 2
    assert about["remarks"] == ["In the rain."]
    assert run("pieces", False, tmp_path, console, resume=True)  # it was done, so this is a run of its own
    assert timed[4:] == [*"aabbcc"]
    about, *_ = map(json.loads, (tmp_path / "pieces-full.jsonl").read_text().splitlines())
    assert "pieces" not in about


def test_a_draft_of_another_commit_is_not_gone_on_with(tmp_path: Path) -> None:
    draft = tmp_path / "pieces-full.jsonl.draft"
    assert already_measured(draft, "abc") == ([], [])
    draft.write_text(json.dumps({"commit": "abc", "at": "now", "load": 0.5}) + "\n" + line("Seqube", 0.2))
    measured, pieces = already_measured(draft, "abc")
    assert [(one.contender, one.wall_s) for one in measured] == [("Seqube", 0.2)]
    assert pieces == [{"at": "now", "load": 0.5}]
    assert already_measured(draft, "abd") == ([], [])


def test_pages_of_other_workloads_stay_where_one_is_measured(tmp_path: Path) -> None:
    for folder, name in (("one", "matching"), ("other", "runs-full")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / f"{name}.jsonl").write_text("\n".join([json.dumps(about_this_run("a test")), line("Seqube", 0.2)]))
        first = write_report(tmp_path / folder, tmp_path / "docs")
    assert all(f"({name}.md)" in first.read_text() for name in ("matching", "runs-full"))


def test_a_page_says_of_how_many_pieces_it_is(tmp_path: Path) -> None:
    about = {**about_this_run("a test"), "cores": 2, "load": 0.1}
    about["pieces"] = [{"at": "2026-11-19T04:05:06+00:00", "load": 1.5}, {"at": "2026-11-19T04:35:06+00:00", "load": 0.1}]
    (tmp_path / "matching-full.jsonl").write_text("\n".join([json.dumps(about), line("Seqube", 0.2)]))
    write_report(tmp_path, tmp_path / "docs")
    page = (tmp_path / "docs" / "matching-full.md").read_text()
    assert "In 2 pieces, the first of 04:05 UTC and the last of 04:35." in page
    assert "(load 1.5 on 2 cores when one of them began)" in page
