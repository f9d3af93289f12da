"""A PostgreSQL of its own for tests, on a socket in a folder; none where it is not installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

USER = "postgres"  # the server refuses to be run by root


def programs() -> Path | None:
    """Where its programs are."""
    for folder in sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True):
        if (folder / "initdb").exists():
            return folder
    found = shutil.which("initdb")
    return Path(found).resolve().parent if found else None


@contextmanager
def serving() -> Iterator[str]:
    """The URL of a server that runs meanwhile."""
    folder = programs()
    assert folder is not None
    place = Path(tempfile.mkdtemp(prefix="seqube-postgres-"))
    whose = {"user": USER} if os.getuid() == 0 else {}
    if whose:
        shutil.chown(place, USER)
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.STDOUT, "cwd": place, **whose}
    subprocess.run([folder / "initdb", "-D", place / "data", "-A", "trust", "-U", "seqube", "--no-sync"], check=True, **quiet)
    options = f"-c listen_addresses='' -c unix_socket_directories={place} -c fsync=off"
    subprocess.run(
        [folder / "pg_ctl", "-D", place / "data", "-l", place / "log", "-o", options, "-w", "start"], check=True, **quiet
    )
    try:
        yield f"postgresql://seqube@/postgres?host={place}"
    finally:
        subprocess.run([folder / "pg_ctl", "-D", place / "data", "-m", "immediate", "stop"], check=False, **quiet)
        shutil.rmtree(place, ignore_errors=True)
