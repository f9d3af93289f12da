"""The files that people and hosts look for say what the project itself says elsewhere."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import seqube

ROOT = Path(__file__).resolve().parent.parent


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def document(name: str) -> Any:
    return yaml.safe_load(text(name))


def test_the_hooks_of_a_commit_are_those_of_make_check() -> None:
    (repository,) = document(".pre-commit-config.yaml")["repos"]
    assert repository["repo"] == "local"  # nothing is fetched: the pinned tools of .venv
    commands = re.search(r"^check: setup\n((?:\t.*\n)+)", text("Makefile"), flags=re.MULTILINE)
    assert commands is not None
    asked = [line.strip("\t@").replace("$(PYTHON)", ".venv/bin/python") for line in commands[1].splitlines()]
    assert [hook["entry"] for hook in repository["hooks"]] == asked
    assert all(hook["language"] == "system" and not hook["pass_filenames"] for hook in repository["hooks"])


def test_the_workflow_calls_ci_run_and_nothing_else() -> None:
    (job,) = document(".github/workflows/ci.yml")["jobs"].values()
    assert [step["run"] for step in job["steps"] if "run" in step] == [".ci/run"]
    project = tomllib.loads(text("pyproject.toml"))["project"]
    known = [name.rpartition(" ")[2] for name in project["classifiers"] if re.search(r":: 3\.\d+$", name)]
    assert job["strategy"]["matrix"]["python"] == known


def test_the_citation_names_this_version_and_five_papers() -> None:
    cited = document("CITATION.cff")
    assert str(cited["version"]) == seqube.__version__
    assert len({paper["title"] for paper in cited["references"]}) == 5
    assert all(paper["authors"] and 2000 < paper["year"] < 2020 for paper in cited["references"])


def test_editors_keep_the_length_of_lines() -> None:
    length = tomllib.loads(text("pyproject.toml"))["tool"]["ruff"]["line-length"]
    assert f"max_line_length = {length}" in text(".editorconfig")


@pytest.mark.parametrize("heading", ["## To report a weakness", "## What is promised"])
def test_how_to_report_a_weakness_is_said(heading: str) -> None:
    assert heading in text("SECURITY.md")


def test_no_test_is_imported_by_another() -> None:
    """What tests share stands in modules of its own, so that each test can be changed without looking elsewhere."""
    borrowed = {
        f"{path.relative_to(ROOT)}: {line}"
        for path in (ROOT / "tests").rglob("*.py")
        for line in re.findall(r"^ *(?:from|import) +[\w.]*\btest_\w+.*$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    }
    assert not borrowed


# ---------------------------------------------------------------- how long things are


def sources() -> list[Path]:
    return sorted((ROOT / "src" / "seqube").rglob("*.py"))


def length_of(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def test_the_story_is_on_a_screen_and_a_half() -> None:
    assert length_of(ROOT / "src" / "seqube" / "query.py") <= 150


def test_no_module_is_too_long() -> None:
    """Split by idea where it becomes so."""
    assert {path.name: length for path in sources() if (length := length_of(path)) > 600} == {}


KERNELS = {"kernel", "inner_kernel", "kernel_part"}


def statements(node: ast.AST) -> Iterator[ast.stmt]:
    """All of them, but for what stands in an expression: no function can."""
    for each in ast.iter_child_nodes(node):
        if isinstance(each, ast.stmt):
            yield each
        if not isinstance(each, ast.expr):
            yield from statements(each)


def test_no_function_is_too_long() -> None:
    """Kernels aside, which are one loop."""
    long = {}
    for path in sources():
        for node in statements(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None:
                length = node.end_lineno - node.lineno + 1
                kernels = {name.id for name in node.decorator_list if isinstance(name, ast.Name)} & KERNELS
                if length > 80 and not kernels:
                    long[f"{path.name}: {node.name}"] = length
    assert long == {}


def test_no_two_test_modules_have_one_name() -> None:
    """Folders of tests are no packages: of two modules of one name only the first would be found."""
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert [name for name, times in Counter(names).items() if times > 1] == []
