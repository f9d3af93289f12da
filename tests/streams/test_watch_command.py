"""`seqube watch`: JSON lines in, from standard input or a growing file, and JSON lines out when they are final."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import seqube as sq
from seqube import watch
from seqube.language import parse_file
from seqube.watch import Patience, Watcher, follow_file, read_lines

PAIRS = "-- name: pairs\nSEQ(A a, B b, [id]) WITHIN 10 RETURN a.ts AS start, b.ts AS end\n-- name: lone\nSEQ(A a, !B b) WITHIN 5\n"


def row(name: str, time: Any, **more: Any) -> str:
    return json.dumps({"type": name, "ts": time, "id": 1, **more}) + "\n"


def run(tmp_path: Path, lines: str, *options: str) -> tuple[int, list[Any], str]:
    (tmp_path / "pairs.sqb").write_text(PAIRS)
    command = [sys.executable, "-m", "seqube", "watch", *(options or ["pairs.sqb"])]
    done = subprocess.run(command, input=lines, capture_output=True, text=True, cwd=tmp_path, timeout=120, check=False)
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr


def test_lines_come_in_and_go_out(tmp_path: Path) -> None:
    """Broken lines have their number and reason; late ones are counted; the end of the input is the end of the stream."""
    lines = "no\n" + row("A", 1) + "\n" + row("B", 4) + "{}\n[1]\n" + row("A", 2) + '{"type": "A", "ts": "soon"}\n' + row("A", 9)
    code, found, said = run(tmp_path, lines, "pairs.sqb", "--lateness", "3 ms")
    assert code == 0
    pairs = [each for each in found if each["query"] == "pairs"]
    assert pairs == [{"query": "pairs", "start": 1, "end": 4}, {"query": "pairs", "start": 2, "end": 4}]
    assert [each["start"] for each in found if each["query"] == "lone"] == [9]
    assert [line for line in said.splitlines() if line.startswith("line")] == [
        "line 1: not JSON: Expecting value: line 1 column 1 (char 0)",
        "line 5: no type",
        "line 6: not an object with names and values",
        "line 8: ts is 'soon', which is no int64",
    ]
    assert said.splitlines()[-1] == "4 events, 0 late, 4 rejected; pairs: 2 rows; lone: 1 rows"


def test_the_example_finds_what_it_says() -> None:
    folder = Path(__file__).resolve().parents[2] / "examples" / "watch-log"
    written = list[str]()
    queries = parse_file((folder / "logins.sqb").read_text())
    watcher = Watcher(sq.Stream(queries, type="event", time="at", lateness="5 s"), written.append, print, ("event", "at"))
    for line in (folder / "log.jsonl").read_bytes().splitlines():
        watcher.push([line])
    watcher.close()
    assert "".join(written) == (folder / "found.jsonl").read_text()
    assert watcher.summary() == "10 events, 0 late, 1 rejected; guessed: 1 rows; left_open: 1 rows"


def test_a_wrong_query_or_usage_exits_with_2(tmp_path: Path) -> None:
    code, _, said = run(tmp_path, row("A", 1), "--query", "SEQ(A a, B b) WITHIN")
    assert (code, "QueryError" in said) == (2, True)
    code, _, said = run(tmp_path, row("A", 1), "pairs.sqb", "--lateness", "soon")
    assert (code, "lateness: " in said) == (2, True)


def test_a_file_that_is_not_there_exits_with_1(tmp_path: Path) -> None:
    code, _, said = run(tmp_path, "", "pairs.sqb", "--follow", "log.jsonl")
    assert (code, "there is no file log.jsonl to follow" in said) == (1, True)


def test_a_growing_file_is_followed_until_it_is_interrupted(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text(row("A", 1) + row("B", 2))
    (tmp_path / "pairs.sqb").write_text(PAIRS)
    command = [sys.executable, "-m", "seqube", "watch", "pairs.sqb", "--follow", "log.jsonl"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path) as process:
        with log.open("a") as file:
            file.write(row("B", 3) + row("A", 4))
        assert process.stdout is not None
        assert process.stderr is not None
        assert json.loads(process.stdout.readline()) == {"query": "pairs", "start": 1, "end": 2}
        assert json.loads(process.stdout.readline()) == {"query": "pairs", "start": 1, "end": 3}
        process.send_signal(signal.SIGINT)
        rest, said = process.communicate(timeout=60)
    assert (process.returncode, rest) == (0, "")  # the stream has not ended, so that nothing is known of the A at 4
    assert said.splitlines()[-1] == "4 events, 0 late, 0 rejected; pairs: 2 rows; lone: 0 rows"


# ---------------------------------------------------------------- without a process of its own


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "LOOK_AGAIN", 0.001)


def some(source: Iterator[list[bytes]], n: int) -> list[str]:
    found: list[str] = []
    while len(found) < n:
        found += [line.decode() for line in next(source)]
    return found


def test_a_file_may_be_cut_short_and_moved_away(tmp_path: Path) -> None:
    log, told = tmp_path / "log", list[str]()
    log.write_text("one\ntwo\nthr")
    source = follow_file(log, Patience(), told.append)
    assert some(source, 2) == ["one", "two"]
    with log.open("a") as file:
        file.write("ee\n")
    assert some(source, 1) == ["three"]
    log.write_text("4\n")  # cut short, and written anew
    assert some(source, 1) == ["4"]
    with log.open("a") as file:
        file.write("five\nsix")
    log.rename(tmp_path / "log.1")
    log.write_text("seven\n")
    assert some(source, 3) == ["five", "six", "seven"]
    assert [text.partition(" ")[2] for text in told] == [
        "was cut short, and is read from its beginning",
        "is another file now, and is read from its beginning",
    ]


def test_what_one_read_gives_is_one_push_and_the_last_line_needs_no_end() -> None:
    reading, writing = os.pipe()
    source = read_lines(reading, Patience())
    os.write(writing, b"one\ntwo\nthr")
    assert next(source) == [b"one", b"two"]
    os.write(writing, b"ee\nfour")
    assert next(source) == [b"three"]
    os.close(writing)
    assert next(source) == [b"four"]
    assert list(source) == []
    os.close(reading)


def test_a_signal_ends_waiting_at_once_and_work_when_it_is_done() -> None:
    patience = Patience()
    with patience.listening():
        signal.raise_signal(signal.SIGTERM)  # at work: nothing happens
        assert patience.is_over
        with pytest.raises(KeyboardInterrupt), patience.waiting():
            pass
    again = Patience()
    with again.listening():
        threading.Timer(0.01, signal.pthread_kill, [threading.get_ident(), signal.SIGINT]).start()  # not before somebody listens
        with pytest.raises(KeyboardInterrupt), again.waiting():
            time.sleep(60)


def test_lines_with_columns_that_come_too_late_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seqube.engine.standing.KEPT_ANYWAY", 1)
    written, told = list[str](), list[str]()
    stream = sq.Stream({"n": "SEQ(A a, B b) WITHIN 10 AGG COUNT(*)"})
    watcher = Watcher(stream, written.append, told.append, ("type", "ts"))
    watcher.push([row("A", number).encode() for number in range(4)])
    watcher.push([row("A", 4).encode()])
    watcher.push([row("A", 5, fresh=1).encode(), row("B", 6).encode(), b"", b"x"])
    watcher.push([b"y"])
    watcher.close()
    assert [text.partition(",")[0] for text in told] == [
        "line 9: not JSON: Expecting value: line 1 column 1 (char 0)",
        "line 6: these rows have other columns than the stream",
        "line 10: not JSON: Expecting value: line 1 column 1 (char 0)",
    ]
    assert list(map(json.loads, written)) == [{"query": "n", "ts": 6, "count": 5}]
    assert watcher.summary() == "6 events, 0 late, 3 rejected; n: 1 rows"


def test_very_many_broken_lines_are_counted_and_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "TOLD", 2)
    told = list[str]()
    watcher = Watcher(sq.Stream("A a WITHIN 1"), print, told.append, ("type", "ts"))
    watcher.push([b"x"] * 10)
    assert (len(told), watcher.n_rejected) == (3, 10)


def test_a_column_that_no_event_has_is_told_at_the_end() -> None:
    watcher = Watcher(sq.Stream("SEQ(A a, B b, a.prise = b.prise) WITHIN 5"), print, print, ("type", "ts"))
    watcher.push([row("A", 1, price=3).encode()])
    assert watcher.summary().endswith("\nno event has a column 'prise'")
