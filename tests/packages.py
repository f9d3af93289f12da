"""Which of the packages that are installed here some of them need."""

from __future__ import annotations

from importlib.metadata import distribution

from packaging.requirements import Requirement


def needed(names: set[str]) -> set[str]:
    """These and all that they need, without their extras."""
    found: set[str] = set()
    waiting = set(names)
    while waiting:
        name = waiting.pop()
        found.add(name)
        wanted = map(Requirement, distribution(name).requires or ())
        waiting |= {each.name for each in wanted if each.marker is None or each.marker.evaluate({"extra": ""})} - found
    return found
