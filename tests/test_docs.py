"""Every code block of the README and of docs/ is run, in order, in an empty folder; the blocks of a page share names and files.

- `python` blocks with `>>>` are doctests; others are run, and where they have lines `#> ...`, those are what they print.
- `bash` blocks must succeed.
- `console` blocks hold `$ command` lines, each followed by what it prints (stdout and stderr); `...` stands for anything. Where
  nothing follows, the command must succeed.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from scheduling import is_on_spark, scope_of
from seqube import cli

ROOT = Path(__file__).resolve().parent.parent
SCREEN = {"COLUMNS": "120", "NO_COLOR": "1"}
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


@dataclass(frozen=True)
class Block:
    language: str
    text: str
    page: Path
    line: int

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}, line {self.line}"


def read_blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    fences = re.finditer(r"^```(python|bash|console)\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    return [Block(found[1], found[2], page, text.count("\n", 0, found.start(2)) + 1) for found in fences]


def agree(expected: str, printed: str) -> bool:
    """Equal but for trailing blanks and `...`."""
    tidy = ["\n".join(line.rstrip() for line in text.strip("\n").split("\n")) + "\n" for text in (expected, printed)]
    return doctest.OutputChecker().check_output(tidy[0], tidy[1], doctest.ELLIPSIS)


def run_python(block: Block, names: dict[str, Any]) -> None:
    if ">>>" in block.text:
        test = doctest.DocTestParser().get_doctest(block.text, names, str(block), str(block.page), block.line - 1)
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
        report = io.StringIO()
        runner.run(test, out=report.write, clear_globs=False)
        names.update(test.globs)
        assert runner.summarize(verbose=False).failed == 0, report.getvalue()
        return
    printed = io.StringIO()
    code = compile("\n" * (block.line - 1) + block.text, str(block.page), "exec")
    with contextlib.redirect_stdout(printed):
        exec(code, names)
    expected = re.findall(r"^#> ?(.*)$", block.text, flags=re.MULTILINE)
    if expected:
        assert agree("\n".join(expected), printed.getvalue()), f"{block} printed:\n{printed.getvalue()}"


# Of the language of the shell, quotes alone; and no settings of a session, which is there already.
_PLAIN = re.compile(r"""seqube (?:'[^']*'|"[^"$`\\\\]*"|[^'"|<>&;$`\\\\*#()\n])*""")


def run_shell(command: str, folder: Path, block: Block, expected: str = "") -> None:
    code, printed = run_here(command) if is_plain(command) else run_apart(command, folder)
    if expected.strip():
        assert agree(expected, printed), f"{block}: {command} printed:\n{printed}"
    else:
        assert code == 0, f"{block}: {command} failed:\n{printed}"


def is_plain(command: str) -> bool:
    """A command of ours alone, which this process can run: starting another takes longer than what it does."""
    joined = command.replace("\\\n", " ").strip()
    return _PLAIN.fullmatch(joined) is not None and not re.search(r" --(master|conf)\b", joined)


def run_here(command: str) -> tuple[int, str]:
    printed = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        patch.setattr(sys, "argv", shlex.split(command.replace("\\\n", " ")))
        for name, value in SCREEN.items():
            patch.setenv(name, value)
        with pytest.raises(SystemExit) as stopped:
            cli.app()
    return int(stopped.value.code or 0), printed.getvalue()


def run_apart(command: str, folder: Path) -> tuple[int, str]:
    paths = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command],
        cwd=folder,
        env=os.environ | {"PATH": paths, **SCREEN},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


def run_lines(block: Block, folder: Path) -> None:
    """Lines that are commands of ours by themselves, the others together."""
    for plain, lines in groupby(block.text.splitlines(keepends=True), is_plain):
        for command in lines if plain else ["".join(lines)]:
            run_shell(command, folder, block)


def run_console(block: Block, folder: Path) -> None:
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        # A command goes on while its lines end in a backslash.
        command, expected = re.fullmatch(r"((?:[^\n]*\\\n)*[^\n]*\n)(.*)", part, flags=re.DOTALL).groups()  # type: ignore[union-attr]
        run_shell(command, folder, block, expected)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_page(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    if is_on_spark(scope_of(request.node.nodeid)):
        request.getfixturevalue("spark")  # which blocks find running
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in read_blocks(page):
        match block.language:
            case "python":
                run_python(block, names)
            case "console":
                run_console(block, tmp_path)
            case _:
                run_lines(block, tmp_path)


def test_the_readme_has_a_tour() -> None:
    assert len(read_blocks(ROOT / "README.md")) >= 3


@pytest.mark.parametrize(
    "page", [*PAGES, *(ROOT / name for name in ("CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"))], ids=lambda page: page.name
)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\((?!https?://|#)([^)#]+)", page.read_text(encoding="utf-8"))
    missing = [target for target in targets if not (page.parent / target).exists()]
    assert not missing
