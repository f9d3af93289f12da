"""The one place that decides how kernels are compiled, cached and warmed.

Kernels are compiled on first use and cached on disk, so only the first run on a machine pays. The cache sits in one folder per
code version: processes of different versions never read each other's code. Those of one version share it, Spark's workers too, and
may write it at the same moment: what is compiled has a file that is named by its signature, written before the index that leads to
it, so that an index never leads to other code. (Numba itself numbers these files, and two processes can take the same number.) One
writes the index at a time; where that cannot be had, an entry may be lost, and is compiled again when it is next asked for.

The folder is ours alone: where Numba keeps what others compile is left as it is, whoever imports it first. It is written to when
something new was compiled, never before, so a warm folder may be read-only; where it cannot be written, every process compiles for
itself, and says so once.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numba
from numba.core import caching
from numba.extending import intrinsic

from seqube.caches import caches
from seqube.loading import collector_at_rest

fcntl: Any
try:
    import fcntl
except ImportError:  # no POSIX
    fcntl = None

P = ParamSpec("P")
R = TypeVar("R")


def cache_folder() -> Path:
    """Where compiled kernels of this code version are kept."""
    return caches() / f"kernels-{_code_version()}"


@cache
def _code_version() -> str:
    """A digest of the sources of all kernels: a changed kernel gets a new folder, an unchanged one is found again."""
    digest = hashlib.sha256()
    package = files("seqube")  # which may be in a zip, as Spark's workers get it
    for folder in ("engine", "predict"):
        for name, source in sorted(_sources(package / folder, folder)):
            digest.update(name.encode())
            digest.update(source.read_bytes())
    return digest.hexdigest()[:12]


def _sources(folder: Traversable, name: str) -> Iterator[tuple[str, Traversable]]:
    for each in folder.iterdir():
        if each.is_dir():
            yield from _sources(each, f"{name}/{each.name}")
        elif each.name.endswith(".py"):
            yield f"{name}/{each.name}", each


class _Locator(caching._CacheLocator):
    """A folder per module; nothing in it depends on where the sources or the folder stand."""

    def __init__(self, function: Callable[..., Any], path: str) -> None:
        self._folder = cache_folder() / function.__module__
        self._line = function.__code__.co_firstlineno
        self._py_file = path  # which warnings of Numba name

    def get_cache_path(self) -> str:
        return str(self._folder)

    def get_source_stamp(self) -> str:
        return _code_version()

    def get_disambiguator(self) -> str:
        return str(self._line)

    @classmethod
    def from_function(cls, py_func: Callable[..., Any], py_file: str) -> _Locator:
        return cls(py_func, py_file)


class _Kernels(caching.CompileResultCacheImpl):
    _locator_classes: list[type[object]] = [_Locator]  # noqa: RUF012 - as Numba has it


class _Files(caching.IndexDataCacheFile):
    """The index of a function's signatures, and a file for each."""

    def save(self, key: Any, data: Any) -> None:
        own: Any = self  # Numba has no types
        name = own._data_name_pattern.replace("{number:d}", hashlib.sha256(own._dump(key)).hexdigest()[:16])
        own._save_data(name, data)
        with _alone(Path(own._index_path)):
            own._save_index(own._load_index() | {key: name})


@contextmanager
def _alone(index: Path) -> Iterator[None]:
    """While nobody else writes an index of this folder, where systems and folders know locks."""
    with (index.parent / "lock").open("a") as file:
        if fcntl is not None:
            with suppress(OSError):
                fcntl.flock(file, fcntl.LOCK_EX)
        yield


class KernelCache(caching.FunctionCache):
    """Numba's cache, in our folder. A folder that cannot be read or written is no reason to fail."""

    _impl_class = _Kernels

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)  # type: ignore[no-untyped-call]
        stamp = self._impl.locator.get_source_stamp()
        self._cache_file = _Files(self.cache_path, self._impl.filename_base, stamp)  # type: ignore[no-untyped-call]

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            with collector_at_rest():  # the first one loads much of Numba
                return super().load_overload(sig, target_context)  # type: ignore[no-untyped-call]
        except OSError:
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)  # type: ignore[no-untyped-call]
        except OSError:
            _tell(cache_folder())


@cache
def _tell(folder: Path) -> None:
    warnings.warn(
        f"compiled loops cannot be kept in {folder}, so every process compiles its own\n"
        "  hint: name a folder you can write to in SEQUBE_CACHE",
        RuntimeWarning,
        stacklevel=2,
    )


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a loop over arrays: no Python objects, no GIL, integer wrap-around never relied upon, cached on disk."""
    return _keep(function, numba.njit(nogil=True)(function))


def inner_kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a loop that only kernels call: without a door for Python, which takes as long to compile as a loop does.

    Python that calls it is lost: tests/engine/test_kernels.py sees to it that none does.
    """
    return _keep(function, _doorless(function))


def kernel_part(function: Callable[P, R]) -> Callable[P, R]:
    """The same for a piece of a kernel: its code is copied to wherever it is called, so that names cost nothing."""
    return _keep(function, _doorless(function, forceinline=True))


def _not_counted(_: Any, array: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        bare = context.make_array(array)(context, builder, arguments[0])
        bare.meminfo, bare.parent = bare.meminfo.type(None), bare.parent.type(None)
        return bare._getvalue()

    return array(array), generate


# An array as one that compiled code need not give back. What raises there gives back nothing of what it holds, which then stays for
# ever; so who catches what its callees raise lends them arrays in this way, while its own caller holds them.
borrowed: Any = intrinsic(_not_counted)


def _doorless(function: Callable[P, R], **options: bool) -> Any:
    compile_as: Any = numba.njit  # whose types do not know all of its options
    return compile_as(nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True, **options)(function)


def _keep(function: Callable[P, R], compiled: Any) -> Callable[P, R]:
    """What Numba's `cache=True` does, in our folder."""
    compiled._cache = KernelCache(function)
    kept: Callable[P, R] = compiled
    return kept
