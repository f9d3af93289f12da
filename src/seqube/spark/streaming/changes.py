"""A pipeline file that is edited while its stream runs: what changed, and whether the stream can go on with it.

Queries and rules may be added, replaced and removed. Everything else (the source, the sinks, the checkpoint) is what the stream
stands on: a file in which that changed, or in which something is wrong, changes nothing, and it is said why.

The file and those that it names are looked at now and then. They are read when they have rested since the look before, so that a
file is not read while it is being written.
Cost of a look: a question to the file system for each file.
Invariant: a change is told once, whether it is taken or refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TypeAlias

from seqube.errors import SequbeError
from seqube.spark.streaming.declaration import Declaration, read_declaration

Stamp: TypeAlias = tuple[int, int] | None
_MAY_CHANGE = ("queries", "rules", "files")


@dataclass(frozen=True, slots=True)
class WorkloadChange:
    """What became of a changed file: the queries that came and went, or why it was refused. Rules change all together."""

    added: tuple[str, ...] = ()
    replaced: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()  # the names of those that are new, other or gone
    refused: str | None = None

    @classmethod
    def between(cls, before: Declaration, after: Declaration) -> WorkloadChange:
        old, new = before.queries, after.queries
        rules = [{rule.name: rule for rule in declared.rules} for declared in (before, after)]
        return cls(
            tuple(name for name in new if name not in old),
            tuple(name for name in new if name in old and new[name] != old[name]),
            tuple(name for name in old if name not in new),
            tuple(name for name in {**rules[0], **rules[1]} if rules[0].get(name) != rules[1].get(name)),
        )

    def __bool__(self) -> bool:
        return self != WorkloadChange()

    def __str__(self) -> str:
        if self.refused is not None:
            return f"refused: {self.refused}"
        parts = {"added": self.added, "replaced": self.replaced, "removed": self.removed, "rules": self.rules}
        return "; ".join(f"{what}: {', '.join(names)}" for what, names in parts.items() if names)


class FileWatch:
    """Looks at the file of a declaration. `may_run` raises what is wrong with one that could be read."""

    def __init__(self, declared: Declaration, may_run: Callable[[Declaration], object]) -> None:
        self._declared, self._may_run = declared, may_run
        self._known: list[Stamp] = []  # it may have been written since it was read: the first look reads it again
        self._seen = _stamps(declared.files)

    def look(self) -> tuple[Declaration, WorkloadChange] | None:
        """The declaration to go on with, and what changed; the old one where the change was refused. None where nothing did."""
        before, self._seen = self._seen, _stamps(self._declared.files)
        if self._seen == self._known or self._seen != before:
            return None
        self._known = self._seen
        try:
            declared = read_declaration(self._declared.file)
            if fixed := [field.name for field in fields(declared) if self._differs(declared, field.name)]:
                return self._declared, WorkloadChange(refused=f"{fixed[0]} cannot change while the stream runs; start it again")
            self._may_run(declared)
        except SequbeError as error:
            return self._declared, WorkloadChange(refused=str(error))
        change = WorkloadChange.between(self._declared, declared)
        self._declared = declared
        self._known = self._seen = _stamps(declared.files)
        return (declared, change) if change else None

    def _differs(self, declared: Declaration, name: str) -> bool:
        return name not in _MAY_CHANGE and getattr(declared, name) != getattr(self._declared, name)


def _stamps(files: Iterable[Path]) -> list[Stamp]:
    """What tells that a file was written: its time and its size; None where it is gone."""
    found: list[Stamp] = []
    for path in files:
        try:
            about = path.stat()
            found.append((about.st_mtime_ns, about.st_size))
        except OSError:
            found.append(None)
    return found
