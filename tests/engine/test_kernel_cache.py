"""Where compiled kernels are kept: in a folder of our own, that nobody else's code moves to, and that need not be there.

Some tests hold what Numba promises nobody: a Numba in which it is otherwise must fail here, with a sentence, and not in a query.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import seqube
from seqube.engine.jit import _Files, cache_folder

# One of our loops, and one that is compiled in no time.
LOOP = """
import numpy as np
from seqube.engine.partitions import count_on
print(count_on(np.array([0, 0, 0, 0]), np.zeros(1, np.int64))[-1])
"""
SAID = "compiled loops cannot be kept"


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], env=kept | environment, capture_output=True, text=True, check=False
    )


def files(folder: Path) -> dict[str, int]:
    return {str(path.relative_to(folder)): path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


def test_kernels_have_a_folder_of_their_own_whoever_imported_numba_first(tmp_path: Path) -> None:
    (tmp_path / "theirs.py").write_text("import numba\n@numba.njit(cache=True)\ndef twice(x):\n    return 2 * x\n")
    code = f"""
    import os, numba
    before = dict(os.environ), numba.config.CACHE_DIR
    {textwrap.indent(LOOP, "    ").strip()}
    import theirs
    print(theirs.twice(21))
    assert (dict(os.environ), numba.config.CACHE_DIR) == before
    """
    places = {"SEQUBE_CACHE": str(tmp_path / "ours"), "NUMBA_CACHE_DIR": str(tmp_path / "numba")}
    done = run(code, **places, PYTHONPATH=os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    assert done.stdout.split() == ["3", "42"], done.stderr
    assert done.stderr == ""
    ours, numbas = files(tmp_path / "ours"), files(tmp_path / "numba")
    assert any(name.endswith(".nbc") for name in ours)
    assert not any("theirs" in name for name in ours)
    assert numbas
    assert all("theirs" in name for name in numbas)


def test_a_warm_folder_is_read_and_left_alone(tmp_path: Path) -> None:
    """As an image has it: warmed where it was made, and another process, another user, finds everything there."""
    first = run(LOOP, SEQUBE_CACHE=str(tmp_path))
    assert first.stdout == "3\n", first.stderr
    warm = files(tmp_path)
    frozen = """
    import numba.core.caching as caching
    def refuse(*_):
        raise AssertionError("a warm cache is written to")
    caching.IndexDataCacheFile.save = refuse
    """
    for path in sorted(tmp_path.rglob("*"), reverse=True):
        path.chmod(0o555 if path.is_dir() else 0o444)
    tmp_path.chmod(0o555)
    try:
        second = run(textwrap.dedent(frozen) + LOOP, SEQUBE_CACHE=str(tmp_path))
    finally:
        for path in (tmp_path, *tmp_path.rglob("*")):
            path.chmod(0o755)
    assert (second.stdout, second.stderr) == ("3\n", "")
    assert files(tmp_path) == warm


def test_where_nothing_can_be_written_it_works_and_says_so_once(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = run(LOOP, SEQUBE_CACHE=str(tmp_path / "file"))
    assert done.stdout == "3\n", done.stderr
    assert done.stderr.count(SAID) == 1
    assert "SEQUBE_CACHE" in done.stderr


def test_a_user_without_a_home_can_work() -> None:
    code = """
    from pathlib import Path
    def nowhere(*_):
        raise RuntimeError("Could not determine home directory.")
    Path.home = Path.expanduser = nowhere
    """
    environment = {"HOME": "", "XDG_CACHE_HOME": "", "SEQUBE_CACHE": ""}
    done = run(textwrap.dedent(code) + LOOP, **environment)
    assert done.stdout == "3\n", done.stderr
    assert done.stderr.count(SAID) == 1


def test_a_folder_that_was_moved_is_still_warm(tmp_path: Path) -> None:
    """Nothing in it depends on where it stands, so executors can be handed a copy."""
    assert run(LOOP, SEQUBE_CACHE=str(tmp_path / "made")).stdout == "3\n"
    (tmp_path / "made").rename(tmp_path / "moved")
    warm = files(tmp_path / "moved")
    assert run(LOOP, SEQUBE_CACHE=str(tmp_path / "moved")).stdout == "3\n"
    assert files(tmp_path / "moved") == warm


def test_a_zip_has_the_version_of_what_is_in_it(tmp_path: Path) -> None:
    """As Spark's workers get it by --py-files: what was compiled here is found there."""
    package = Path(seqube.__file__).parent
    archive = Path(shutil.make_archive(str(tmp_path / "seqube"), "zip", package.parent, "seqube"))
    code = f"""
    import sys
    sys.path.insert(0, {str(archive)!r})
    import seqube
    assert {archive.name!r} in seqube.__file__
    from seqube.engine.jit import cache_folder
    print(cache_folder().name, seqube.parse("SEQ(A a, B b) WITHIN 5"))
    """
    done = run(code)
    assert done.stdout.split(maxsplit=1)[0] == cache_folder().name, done.stderr
    assert "SEQ(A a, B b)" in done.stdout


@pytest.mark.slow
def test_what_was_compiled_ahead_is_not_compiled_again(tmp_path: Path) -> None:
    """Also from an archive, as executors get it: in a folder that nobody can write to, not one loop is missing."""
    code = """
    import sys
    from pathlib import Path
    from seqube import warming
    warming.KINDS_OF_WORK = {"matches with keys": warming.KINDS_OF_WORK["matches with keys"]}
    found = warming.warm(1)
    assert found.n_kernels == found.n_new > 5, found
    assert warming.warm(1).n_new == 0
    assert warming.pack_kernels(Path(sys.argv[1])) == found.n_kernels
    """
    archive = tmp_path / "kernels.zip"
    kept = os.environ | {"SEQUBE_CACHE": str(tmp_path / "made")}
    subprocess.run([sys.executable, "-c", textwrap.dedent(code), str(archive)], env=kept, check=True)
    shutil.unpack_archive(archive, tmp_path / "handed")
    again = """
    from seqube.engine.jit import KernelCache
    def refuse(self, sig, data):
        raise AssertionError(f"{self._name} is compiled again")
    KernelCache.save_overload = refuse
    from seqube.warming import do_work
    do_work("matches with keys")
    """
    done = run(again, SEQUBE_CACHE=str(tmp_path / "handed"))
    assert done.returncode == 0, done.stderr


def test_two_processes_that_write_at_once_never_lead_to_each_others_code(tmp_path: Path) -> None:
    """Both saw an empty index; whoever writes last, what it leads to is what it says."""
    first, second = (_Files(str(tmp_path), "f", "stamp") for _ in range(2))
    first._load_index = second._load_index = dict  # type: ignore[method-assign]
    first.save("for integers", "code for integers")
    second.save("for doubles", "code for doubles")
    reader = _Files(str(tmp_path), "f", "stamp")
    assert reader.load("for doubles") == "code for doubles"
    assert reader.load("for integers") is None  # lost, and compiled again
    reader.save("for integers", "code for integers")
    assert reader.load("for integers") == "code for integers"
    assert reader.load("for doubles") == "code for doubles"


# ---------------------------------------------------------------- what rests on Numba's internals


def test_numba_caches_as_our_kernels_need_it() -> None:
    from seqube.engine.jit import KernelCache
    from seqube.engine.sequence import link_slots

    kept = getattr(link_slots, "_cache", None)
    assert isinstance(kept, KernelCache), "Numba keeps a dispatcher's cache elsewhere than in `_cache`: see seqube.engine.jit"
    assert Path(kept.cache_path).is_relative_to(cache_folder()), "Numba asks no longer our locator for the folder of a kernel"


def test_parts_of_kernels_are_copied_to_where_they_are_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from seqube.engine.jit import kernel, kernel_part

    monkeypatch.setenv("SEQUBE_CACHE", str(tmp_path))  # what comes from a cache has no LLVM to look at

    @kernel_part
    def churn(x: int) -> int:
        total = 0
        for k in range(x):  # long enough that nobody copies it unasked
            total += k * x if k % 3 else k - x
            total ^= total >> 3
        return total

    @kernel
    def whole(values: np.ndarray) -> int:
        return churn(values[0]) + churn(values[1]) + churn(values[2]) + churn(values[3])

    whole(np.arange(4))
    (code,) = whole.inspect_llvm().values()  # type: ignore[attr-defined]
    why = "`forceinline=True` no longer means that LLVM copies a function to where it is called: see seqube.engine.jit"
    assert not re.search(r"call [^\n]*churn", code), why


@pytest.mark.parametrize("option", ["nogil", "forceinline"])
def test_numba_knows_the_options_that_kernels_are_compiled_with(option: str) -> None:
    from numba.core.cpu import CPUTargetOptions

    assert hasattr(CPUTargetOptions, option), f"Numba knows no option {option!r}: see seqube.engine.jit"
