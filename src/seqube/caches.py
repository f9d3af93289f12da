"""Where that is kept which takes long to make and is the same every time: compiled kernels, the tables of the parser, Java.

Nothing of it is needed: what cannot be read is made again, and what cannot be written is not kept.
"""

from __future__ import annotations

import os
from pathlib import Path


def caches() -> Path:
    """SEQUBE_CACHE, else the user's cache folder."""
    chosen = os.environ.get("SEQUBE_CACHE")
    return Path(chosen) if chosen else _users_caches() / "seqube"


def _users_caches() -> Path:
    if chosen := os.environ.get("XDG_CACHE_HOME"):
        return Path(chosen)
    try:
        return Path.home() / ".cache"
    except RuntimeError:  # a user without a home, as containers have them: a place where nothing can be
        return Path(os.devnull)
