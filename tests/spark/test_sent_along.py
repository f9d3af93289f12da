"""Workers whose Python has no Seqube: it travels as a zip, or in a packed environment, and what finds it missing says so."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Iterator
from contextlib import ExitStack
from importlib.metadata import distribution
from pathlib import Path

import pyspark
import pytest
from bench.standalone import Cluster, standalone

import seqube
from packages import needed

pytestmark = pytest.mark.slow

QUERY = "SEQ(Recycle r, Wash w, [id]) WITHIN 30 min"
PACKAGE = Path(seqube.__file__).parent
BESIDE = ("pandas", "protobuf")  # of Spark's extra, what workers need: Spark itself sends PySpark along
FEW = ["--conf", "spark.sql.shuffle.partitions=4", "--conf", "spark.cores.max=1"]
# What the executors' Python takes Seqube from, by a batch of the session that the options make.
WHERE = """
import sys
import seqube.spark as sqs

def whence(rows):
    import pyarrow, seqube
    yield pyarrow.record_batch({"seqube": [seqube.__file__], "numba": [__import__("numba").__file__], "by": [sys.executable]})

spark = sqs.session()
print("FOUND", *spark.range(1, numPartitions=1).mapInArrow(whence, "seqube string, numba string, by string").first())
spark.stop()
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One that hands workers no path to the packages of whoever started it."""
    with ExitStack() as stack:
        with pytest.MonkeyPatch.context() as patch:
            patch.delenv("PYTHONPATH", raising=False)
            running = stack.enter_context(standalone(tmp_path_factory.mktemp("cluster"), n_workers=1))
        yield running


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python with all packages that are here, but without Seqube, wherever that is installed."""
    folder = tmp_path_factory.mktemp("bare")
    python = new_environment(folder)
    packages = folder / "packages"
    packages.mkdir()
    for each in Path(sysconfig.get_path("purelib")).iterdir():
        if "seqube" not in each.name:
            (packages / each.name).symlink_to(each)
    (library_of(folder) / "packages.pth").write_text(str(packages))  # the `.pth` files in there are not read
    found = subprocess.run(
        [str(python), "-c", "import numba, pyarrow, seqube"], capture_output=True, text=True, check=False, env={}
    )
    assert "No module named 'seqube'" in found.stderr
    return python


def new_environment(folder: Path) -> Path:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    return folder / "bin" / "python"


def library_of(environment: Path) -> Path:
    return next((environment / "lib").glob("python*/site-packages"))


@pytest.fixture(scope="module")
def zipped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(shutil.make_archive(str(tmp_path_factory.mktemp("zip") / "seqube"), "zip", PACKAGE.parent, "seqube"))


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As venv-pack packs one: an environment with Seqube and what it needs, whose Python is that of the machine."""
    folder = tmp_path_factory.mktemp("packed")
    new_environment(folder / "env")
    library = library_of(folder / "env")
    shutil.copytree(PACKAGE, library / "seqube", ignore=shutil.ignore_patterns("__pycache__"))
    for package in needed({"seqube", *BESIDE}) - {"seqube"}:
        for file in distribution(package).files or ():
            if ".." not in file.parts and file.suffix != ".pyc":
                (library / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(str(file.locate()), library / file)
    with tarfile.open(folder / "env.tar.gz", "w:gz", compresslevel=1) as archive:
        archive.add(folder / "env", ".")
    shutil.rmtree(folder / "env")
    return folder / "env.tar.gz"


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("events") / "day.parquet"
    done([sys.executable, "-m", "seqube", "generate", "hospital", "--events", "2000", "--seed", "1", "--out", str(file)])
    return file


def done(command: list[str], **settings: str | Path) -> str:
    ended = run(command, **settings)
    assert ended.returncode == 0, ended.stderr[-4000:]
    return ended.stdout


def run(command: list[str], **settings: str | Path) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {name: str(value) for name, value in settings.items()}
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=400, env=environment)


def asked(events: Path) -> list[str]:
    return ["run", "--query", QUERY, "--events", str(events), "--format", "json"]


def rows(said: str) -> list[str]:
    """What was found, without the warnings that spark-submit writes beside it."""
    found = sorted(line for line in said.splitlines() if line.startswith("{"))
    assert found
    return found


def submit(cluster: Cluster, job: Path, code: str, bare: Path, zipped: Path, *arguments: str) -> str:
    """By spark-submit, whose driver has no Seqube of its own either."""
    job.write_text(code)
    command = [str(Path(pyspark.__file__).parent / "bin" / "spark-submit"), "--master", cluster.url, *FEW]
    command += ["--py-files", str(zipped), str(job), *arguments]
    return done(command, PYSPARK_PYTHON=bare, PYSPARK_DRIVER_PYTHON=bare, PYTHONPATH="")


def test_workers_without_seqube_are_an_error_that_says_what_to_do(cluster: Cluster, bare: Path, events: Path) -> None:
    command = [sys.executable, "-m", "seqube", *asked(events), "--spark", "--master", cluster.url, *FEW]
    ended = run(command, PYSPARK_PYTHON=bare)
    assert ended.returncode == 1
    assert "the Python of Spark's workers has no Seqube" in ended.stderr
    assert "--py-files seqube.zip" in ended.stderr


def test_seqube_as_a_zip(cluster: Cluster, bare: Path, zipped: Path, events: Path, tmp_path: Path) -> None:
    code = "from seqube.cli import app\napp()\n"
    there = submit(cluster, tmp_path / "job.py", code, bare, zipped, *asked(events), "--spark")
    here = done([sys.executable, "-m", "seqube", *asked(events)])
    assert rows(there) == rows(here)
    found = submit(cluster, tmp_path / "where.py", WHERE, bare, zipped).partition("FOUND ")[2].split()
    assert "seqube.zip" in found[0]
    assert found[2] == str(bare)


def test_an_environment_as_an_archive(cluster: Cluster, packed: Path, events: Path, tmp_path: Path) -> None:
    options, python = ["--master", cluster.url, *FEW], {"PYSPARK_PYTHON": "./env/bin/python"}
    sent = ["--conf", f"spark.archives={packed}#env"]
    there = done([sys.executable, "-m", "seqube", *asked(events), "--spark", *options, *sent], **python)
    here = done([sys.executable, "-m", "seqube", *asked(events)])
    assert rows(there) == rows(here)
    (tmp_path / "where.py").write_text(WHERE)
    arguments = " ".join([*options, "--archives", f"{packed}#env", "pyspark-shell"])  # as spark-submit calls it
    told = done([sys.executable, str(tmp_path / "where.py")], PYSPARK_SUBMIT_ARGS=arguments, **python)
    found = told.partition("FOUND ")[2].split()
    assert found[0].endswith("/env/" + str(library_of(Path(sys.prefix)).relative_to(sys.prefix)) + "/seqube/__init__.py")
    assert all(str(cluster.folder) in each and "/env/" in each for each in found)
