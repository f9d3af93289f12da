"""Whatever is given to an option of a command: an answer, or a message of ours that names the option or what was given."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import typer
from pyarrow import parquet

import seqube as sq
from seqube import cli
from seqube.explorer.server import explore

QUERY = "SEQ(A a, B b, [x]) WHERE a.x > :low WITHIN 5"
STRANGE = ("", "-1", "nan", "1e400", "nonsense", "no/such/file.yaml", "a=b", "--", "é\u2028", "9" * 30, ".")
ON_SPARK = {"--spark", "--master", "--conf"}  # held by the tests of Spark
ENDLESS = {"--follow"}  # waits for a file that is still to come

# What each command is asked for when nothing is wrong, by option; "" stands for its argument.
GIVEN: dict[str, dict[str, list[str]]] = {
    "run": {"": [], "--query": [QUERY], "--events": ["events.parquet"], "--param": ["low=0"]},
    "check": {"": ["query.sqb"]},
    "explain": {"": [], "--query": [QUERY], "--events": ["events.parquet"], "--param": ["low=0"]},
    "forecast": {"": ["rules.yaml"], "--events": ["events.parquet"]},
    "watch": {"": [], "--query": [QUERY.replace(":low", "0")]},
    "mine": {
        "--events": ["events.parquet"],
        "--out": ["mined.yaml"],
        "--window": ["5"],
        "--min-support": ["1"],
        "--min-confidence": ["0"],
    },
    "funnel": {"": ["A", "B"], "--events": ["events.parquet"], "--by": ["x"], "--within": ["5"]},
    "sql": {"": ["SELECT * FROM t"], "--table": ["t=events.parquet"]},
    "generate": {"": ["stock"], "--events": ["10"], "--out": ["made.parquet"]},
}


def options() -> list[Any]:
    """Every option of every command that takes a value, and every argument."""
    commands = typer.main.get_command(cli.program).commands  # type: ignore[attr-defined]
    found = []
    for command, given in GIVEN.items():
        known = {param.opts[0] if param.opts[0].startswith("-") else "": param for param in commands[command].params}
        taken = {name for name, param in known.items() if not getattr(param, "is_flag", False)}
        assert set(given) <= taken, f"{command}: {set(given) - taken}"
        found += [pytest.param(command, name, id=f"{command} {name}") for name in sorted(taken - ON_SPARK - ENDLESS - {"--help"})]
    return found


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    parquet.write_table(pa.table({"type": ["A", "B", "A", "B"], "ts": [1, 2, 3, 4], "x": [1, 1, 3, 3]}), "events.parquet")
    Path("query.sqb").write_text(QUERY, encoding="utf-8")
    sq.Rules([sq.Rule("A", "B", 5, 10, 0.5, partition_by="x")]).save("rules.yaml")
    return tmp_path


def say(arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """The exit code of a command, and what it said of how it went."""
    monkeypatch.setattr(sys, "argv", ["seqube", *arguments])
    with Path(os.devnull).open() as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)
        try:
            cli.app()
        except SystemExit as end:
            return int(end.code or 0), capsys.readouterr().err
    return 0, capsys.readouterr().err


@pytest.mark.parametrize(("command", "option"), options())
def test_only_our_messages_come_out(
    command: str, option: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = []
    for strange in STRANGE:
        given = GIVEN[command] | {option: [strange]}
        arguments = [value for name, values in given.items() if name for value in (name, *values)]
        code, said = say([command, *arguments, "--", *given.get("", [])], monkeypatch, capsys)
        given_name = strange.strip().partition("=")[0]  # of a parameter that the query does not have
        named = (option, f":{given_name}", f"table {given_name!r}", strange.strip())
        names_it = any(name in said for name in named) if option else bool(said)
        if "internal error" in said or code not in (0, 1, 2) or (code and not names_it):
            wrong.append((strange, code, said[-400:]))
    assert wrong == []


def test_what_takes_long_is_refused_before_it_starts(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A folder that is not there, after minutes of compiling; a unit or an interface, by a page that says so when it is opened."""
    assert say(["warm", "--archive", "no/such/folder.zip"], monkeypatch, capsys)[0] == 1
    with pytest.raises(sq.SchemaError, match="unknown time unit 'parsec'"):
        explore(unit="parsec", port=0)
    with pytest.raises(sq.DataError, match="hint: --host takes an address of this machine"):
        explore(host="999.1.1.1", port=0)
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(sq.DataError, match="hint: --port 0 takes a free one"):
        explore(port=taken.getsockname()[1])
    for name in ("no-such.yaml", "query.sqb"):
        code, said = say(["pipeline", name], monkeypatch, capsys)
        assert (code, name in said) == (2, True)
