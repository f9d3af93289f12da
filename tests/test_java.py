"""Which Java is taken, and that Spark runs on the packaged one where there is no other."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from seqube.errors import PlanError
from seqube.spark.java import VECTOR_MODULE, find_java, major_version, make_shim, read_settings

# What Spark's start script and the shim call; nothing here is Java.
SHELL_TOOLS = (
    "sh",
    "bash",
    "dirname",
    "basename",
    "readlink",
    "uname",
    "cat",
    "env",
    "rm",
    "mkdir",
    "hostname",
    "ps",
    "grep",
    "sed",
    "tr",
)


@pytest.mark.parametrize(
    ("text", "major"), [("17.0.15", 17), ("21", 21), ("22-ea", 22), ("1.8.0_402", 8), ("11.0.2", 11), ("", None), ("abc", None)]
)
def test_major_version(text: str, major: int | None) -> None:
    assert major_version(text) == major


def test_settings_are_read_from_what_java_prints() -> None:
    text = (
        "Property settings:\n    java.home = /opt/my java/17\n    java.version = 17.0.1\n    java.class.path = \n\nopenjdk version"
    )
    assert read_settings(text) == {"java.home": "/opt/my java/17", "java.version": "17.0.1", "java.class.path": ""}


def fake_java(home: Path, version: str, knows_vector_module: bool = True) -> Path:
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    refusal = "" if knows_vector_module else "exit 1"
    java.write_text(f'#!/bin/sh\n{refusal}\necho "    java.home = {home}" >&2\necho "    java.version = {version}" >&2\n')
    java.chmod(0o755)
    return java


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without Java: an empty PATH, no JAVA_HOME, a cache of its own."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setenv("SEQUBE_CACHE", str(tmp_path / "cache"))
    return tmp_path


def test_java_home_comes_first(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(bare / "named", "17.0.2")
    fake_java(bare / "other", "21.0.1")
    monkeypatch.setenv("JAVA_HOME", str(bare / "named"))
    monkeypatch.setenv("PATH", str(bare / "other" / "bin"))
    found = find_java()
    assert (found.path, found.version, found.origin) == (bare / "named", 17, "JAVA_HOME")


def test_an_old_java_home_gives_way_to_path(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(bare / "named", "11.0.2")
    fake_java(bare / "other", "21.0.1")
    monkeypatch.setenv("JAVA_HOME", str(bare / "named"))
    monkeypatch.setenv("PATH", str(bare / "other" / "bin"))
    found = find_java()
    assert (found.path, found.version, found.origin) == (bare / "other", 21, "PATH")


def test_path_is_followed_to_the_home_that_java_names(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = fake_java(bare / "real", "17.0.2")
    (bare / "links").mkdir()
    (bare / "links" / "java").symlink_to(java)
    monkeypatch.setenv("PATH", str(bare / "links"))
    assert find_java().path == bare / "real"


@pytest.mark.parametrize(("version", "knows"), [("1.8.0_402", True), ("16.0.1", True), ("21.0.1", False), ("none", True)])
def test_a_java_that_will_not_do_is_passed_over(bare: Path, monkeypatch: pytest.MonkeyPatch, version: str, knows: bool) -> None:
    fake_java(bare / "other", version, knows)
    monkeypatch.setenv("PATH", str(bare / "other" / "bin"))
    found = find_java()
    assert found.origin == "packaged"
    assert found.version == 21


def test_a_broken_java_home_is_passed_over(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(bare / "nowhere"))
    assert find_java().origin == "packaged"


def test_the_shim_drops_one_argument_and_keeps_the_rest(bare: Path) -> None:
    echo = bare / "echo all"
    echo.write_text('#!/bin/sh\nfor argument do printf "<%s>" "$argument"; done\n')
    echo.chmod(0o755)
    java = make_shim(echo) / "bin" / "java"
    given = ["-cp", "a b:*", VECTOR_MODULE, "", "--add-modules=jdk.other", "x'y\"$z", VECTOR_MODULE]
    done = subprocess.run([java, *given], capture_output=True, text=True, check=True)
    assert done.stdout == "<-cp><a b:*><><--add-modules=jdk.other><x'y\"$z>"


def test_the_shim_is_made_once_by_many(bare: Path) -> None:
    java = bare / "java"
    homes: list[Path] = []
    threads = [threading.Thread(target=lambda: homes.append(make_shim(java))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(homes) == 8
    assert len(set(homes)) == 1
    assert [path.name for path in (homes[0] / "bin").iterdir()] == ["java"]
    made = (homes[0] / "bin" / "java").stat().st_mtime_ns
    assert (make_shim(java) / "bin" / "java").stat().st_mtime_ns == made


def test_where_the_cache_cannot_be_written_there_is_a_folder_for_now(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (bare / "file").touch()
    monkeypatch.setenv("SEQUBE_CACHE", str(bare / "file"))
    monkeypatch.setattr(tempfile, "tempdir", str(bare))
    found = find_java()
    assert found.origin == "packaged"
    assert (found.path / "bin" / "java").is_relative_to(bare)
    monkeypatch.setattr(tempfile, "mkdtemp", lambda **_: str(bare / "file"))
    with pytest.raises(PlanError, match="SEQUBE_CACHE"):
        find_java()


SESSION = """
import pyarrow as pa
from seqube.spark import session
from seqube.spark.java import find_java

def double(batches):
    for batch in batches:
        yield pa.RecordBatch.from_arrays([pa.array([2 * x for x in batch.column(0).to_pylist()])], ["x"])

print(find_java().origin)
spark = session(**{"spark.master": "local[1]"})
print(sorted(row.x for row in spark.range(4).mapInArrow(double, "x long").collect()))
print(spark.conf.get("spark.sql.session.timeZone"))
print(session() is spark)
spark.stop()
"""


def test_the_packaged_java_starts_with_what_spark_passes(bare: Path) -> None:
    home = find_java().path
    done = subprocess.run(
        [home / "bin" / "java", VECTOR_MODULE, "-XshowSettings:properties", "-version"], capture_output=True, text=True, check=True
    )
    assert major_version(read_settings(done.stderr)["java.version"]) == 21


@pytest.mark.slow
@pytest.mark.spark
def test_spark_runs_on_the_packaged_java_where_there_is_no_other(tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in SHELL_TOOLS:
        if path := shutil.which(name):
            (tools / name).symlink_to(path)
    assert not (tools / "java").exists()
    hidden = {name: value for name, value in os.environ.items() if name not in {"JAVA_HOME", "SPARK_HOME"}}
    hidden |= {"PATH": str(tools), "SEQUBE_CACHE": str(tmp_path / "cache")}
    done = subprocess.run([sys.executable, "-c", SESSION], env=hidden, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:4] == ["packaged", "[0, 2, 4, 6]", "UTC", "True"]
