"""As in a locked-down container: the root is read-only, the user is nobody, there is no HOME, and /tmp is in memory."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

QUERY = "SEQ(Recycle r, Wash w, [id]) WITHIN 30 min"
# The owner of the tests may be the only one who can look into the home that Python lies in: it is shown at the same place again.
JAIL = """
set -e
mkdir -p "$1/python"
mount --bind "$2" "$1/python"
mount -t tmpfs none "$3"
mkdir -p "$2"
mount --bind "$1/python" "$2"
mount -t tmpfs -o mode=1777 none /tmp
mount -o remount,ro,bind /
shift 3
cd "$1"
shift
exec setpriv --reuid=65534 --regid=65534 --clear-groups env -i PATH=/usr/bin:/bin "$@"
"""


def can_be_tried() -> bool:
    tools = all(map(shutil.which, ("unshare", "setpriv", "mount")))
    return (
        tools and os.geteuid() == 0 and subprocess.run(["unshare", "-m", "true"], check=False, capture_output=True).returncode == 0
    )


pytestmark = [pytest.mark.slow, pytest.mark.skipif(not can_be_tried(), reason="only root can make a root read-only")]


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """A folder in memory, with events and a warm cache that nobody can write to."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "cache").mkdir(mode=0o755)
        seqube("generate", "hospital", "--events", "2000", "--seed", "1", "--out", str(folder / "tools.parquet"))
        seqube("run", *asked(folder), SEQUBE_CACHE=str(folder / "cache"))
        yield folder


def seqube(*arguments: str, **settings: str) -> str:
    command = [sys.executable, "-m", "seqube", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, env=os.environ | settings).stdout


def asked(folder: Path) -> list[str]:
    return ["--events", str(folder / "tools.parquet"), "--query", QUERY, "--format", "json"]


def locked_down(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    python = Path(sys.base_prefix)
    hidden = next(folder for folder in (*reversed(python.parents), python) if folder != Path("/"))
    settings = [f"SEQUBE_CACHE={folder / 'cache'}", f"PYTHONPATH={os.pathsep.join(each for each in sys.path if each)}"]
    command = ["unshare", "-m", "bash", "-c", JAIL, "jail", str(folder), str(python), str(hidden), str(folder), *settings]
    command += [sys.executable, "-m", "seqube", *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True)


def test_a_query_runs(place: Path) -> None:
    done = locked_down(place, "run", *asked(place))
    assert done.returncode == 0, done.stderr
    assert done.stdout == seqube("run", *asked(place))
    assert "warning" not in done.stderr.lower()  # the cache is warm, and is read


def test_a_batch_on_spark_runs(place: Path) -> None:
    done = locked_down(place, "run", *asked(place), "--spark")
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == sorted(seqube("run", *asked(place)).splitlines())


def test_the_root_is_read_only_and_the_user_is_nobody(place: Path) -> None:
    command = ["unshare", "-m", "bash", "-c", JAIL, "jail", str(place), sys.base_prefix, "/mnt", str(place)]
    done = subprocess.run([*command, "bash", "-c", "id -u; echo $HOME; touch /usr/x"], check=False, capture_output=True, text=True)
    assert done.stdout == "65534\n\n"
    assert "Read-only file system" in done.stderr
