"""The one place that decides how kernels are compiled, cached and warmed.

Kernels are compiled on first use and cached on disk, so only the first run on a machine pays. The cache sits in one folder per
code version: processes of different versions never read each other's code, and Spark workers are handed a folder that was
warmed before they started, because parallel processes that write one cache at the same moment can crash.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def cache_folder() -> Path:
    """Where compiled kernels of this code version are kept: SEQUBE_CACHE, else the user's cache folder."""
    chosen = os.environ.get("SEQUBE_CACHE")
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    return (Path(chosen) if chosen else caches / "seqube") / f"kernels-{_code_version()}"


def _code_version() -> str:
    """A digest of the sources of all kernels: a changed kernel gets a new folder, an unchanged one is found again."""
    root = Path(__file__).resolve().parent.parent
    digest = hashlib.sha256()
    for folder in ("engine", "predict"):
        for path in sorted((root / folder).rglob("*.py")):
            digest.update(str(path.relative_to(root)).encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


# Numba reads the folder when it is imported, so it is named before that; a user's own choice stands.
os.environ.setdefault("NUMBA_CACHE_DIR", str(cache_folder()))

import numba  # noqa: E402


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a loop over arrays: no Python objects, no GIL, integer wrap-around never relied upon, cached on disk."""
    compiled: Callable[P, R] = numba.njit(cache=True, nogil=True)(function)
    return compiled


def kernel_part(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a piece of a kernel: its code is copied to wherever it is called, so that names cost nothing."""
    compiled: Callable[P, R] = numba.njit(cache=True, nogil=True, forceinline=True)(function)
    return compiled
