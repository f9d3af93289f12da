"""The concept hierarchy: which event types are kinds of which others.

A forest of names. A type in a pattern matches the events of that type and of every type below it (`covers`). It is kept as one map
from name to parent, in the order in which the names were written; everything else follows from that.

Cost: building is linear in the number of names; `covers` walks the part of the tree below its name.
Invariant: every name stands in one place, so there are no cycles.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from seqube.arguments import checked, for_engine
from seqube.errors import SchemaError, did_you_mean
from seqube.events.documents import read_yaml

MAX_LEVELS = 100


@dataclass(frozen=True, repr=False)
class Hierarchy:
    """Names, and what they are kinds of: the concepts above event types. Immutable, hashable, picklable.

    Made by `from_dict` or `load`.

    >>> concepts = sq.Hierarchy.from_dict({"Computer": ["DELL", "INTC"], "Finance": {"Funds": ["QQQ"]}})
    >>> concepts.ancestors("QQQ"), sorted(concepts.covers("Computer"))
    (('Funds', 'Finance'), ['Computer', 'DELL', 'INTC'])
    >>> trades = pa.table({"type": ["INTC", "QQQ"], "ts": [1, 2]})
    >>> len(sq.run("SEQ(Computer a, Funds b) WITHIN 1 s", trades, hierarchy=concepts))
    1
    """

    _parents: Mapping[str, str | None]

    # ------------------------------------------------------------ made from

    @classmethod
    def from_dict(cls, tree: Mapping[str, Any]) -> Hierarchy:
        """From nested mappings and lists: `{"Computer": ["DELL", "INTC"], "Finance": {"Funds": ["QQQ"]}}`."""
        if not isinstance(tree, Mapping):
            raise SchemaError(f"a hierarchy is a mapping of names, not {_shape(tree)}\n  hint: {{'Computer': ['DELL', 'INTC']}}")
        parents: dict[str, str | None] = {}
        for name, path in _walk(tree, ()):
            if name in path:
                raise SchemaError(
                    f"type {name!r} is below itself: {_show((*path, name))}\n  hint: remove it from one of the two places"
                )
            if name in parents:
                raise SchemaError(
                    f"type {name!r} stands in two places: {_place(parents[name])} and {_place(path[-1] if path else None)}\n"
                    "  hint: a type has one place in the hierarchy; remove one of them"
                )
            parents[name] = path[-1] if path else None
        return cls(parents)

    @classmethod
    @checked
    def load(cls, path: str | os.PathLike[str]) -> Hierarchy:
        """From a YAML file of nested mappings and lists."""
        tree = read_yaml(path)
        try:
            return cls.from_dict({} if tree is None else tree)
        except SchemaError as problem:
            raise SchemaError(f"{os.fspath(path)}: {problem}") from None

    # ------------------------------------------------------------ asked for

    @cached_property
    def _children(self) -> dict[str, list[str]]:
        below: dict[str, list[str]] = {name: [] for name in self._parents}
        for name, parent in self._parents.items():
            if parent is not None:
                below[parent].append(name)
        return below

    @property
    def names(self) -> tuple[str, ...]:
        """All names, each after its parent."""
        return tuple(self._parents)

    @property
    def roots(self) -> tuple[str, ...]:
        """The names that have none above them."""
        return tuple(name for name, parent in self._parents.items() if parent is None)

    @checked
    def covers(self, name: str) -> frozenset[str]:
        """The types whose events `name` matches: itself and all below it. A name outside the hierarchy covers itself alone."""
        return frozenset((name, *(self.descendants(name) if name in self._parents else ())))

    @for_engine
    def below(self, parents: Mapping[str, str]) -> Hierarchy:
        """The same with more names, each below another one that is there, or is a root then."""
        more: dict[str, str | None] = dict(self._parents)
        for name, above in parents.items():
            if name in more:
                raise SchemaError(f"{name!r} is a name of the hierarchy already\n  hint: define it under another name")
            more.setdefault(above, None)
            more[name] = above
        return Hierarchy(more)

    @checked
    def parent(self, name: str) -> str | None:
        """The name one step above; None for a root."""
        return self._parents[self._known(name)]

    @checked
    def children(self, name: str) -> tuple[str, ...]:
        """The names one step below."""
        return tuple(self._children[self._known(name)])

    @checked
    def ancestors(self, name: str) -> tuple[str, ...]:
        """From the parent up to the root."""
        found = []
        above = self.parent(name)
        while above is not None:
            found.append(above)
            above = self._parents[above]
        return tuple(found)

    @checked
    def descendants(self, name: str) -> tuple[str, ...]:
        """All names below, each after its parent."""
        found: list[str] = []
        waiting = list(reversed(self.children(name)))
        while waiting:
            below = waiting.pop()
            found.append(below)
            waiting.extend(reversed(self._children[below]))
        return tuple(found)

    @checked
    def level(self, name: str) -> int:
        """0 for a root, one more for every step down."""
        return len(self.ancestors(name))

    @checked
    def is_a(self, name: str, ancestor: str) -> bool:
        """Whether `name` is `ancestor` or below it."""
        return name == ancestor or (name in self._parents and ancestor in self.ancestors(name))

    def to_dict(self) -> dict[str, Any]:
        """Nested mappings that `from_dict` turns back into an equal hierarchy; leaves have an empty one."""
        nodes: dict[str, dict[str, Any]] = {name: {} for name in self._parents}
        for name, parent in self._parents.items():
            if parent is not None:
                nodes[parent][name] = nodes[name]
        return {root: nodes[root] for root in self.roots}

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._parents

    def __iter__(self) -> Iterator[str]:
        return iter(self._parents)

    def __len__(self) -> int:
        return len(self._parents)

    def __hash__(self) -> int:
        return hash(frozenset(self._parents.items()))

    def __repr__(self) -> str:
        return f"Hierarchy({len(self)} names under {', '.join(self.roots)})"

    def _known(self, name: str) -> str:
        if name not in self._parents:
            raise SchemaError(f"{name!r} is not in the hierarchy\n  hint: {did_you_mean(name, self._parents) or 'it is empty'}")
        return name


def _walk(node: Any, path: tuple[str, ...]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Every name below a node, each with the names above it, from the outside in."""
    if len(path) > MAX_LEVELS:
        raise SchemaError(
            f"the hierarchy is more than {MAX_LEVELS} levels deep, below {_show(path[:4])} ...\n  hint: is it a tree of types?"
        )
    if node is None:
        return
    if isinstance(node, Mapping):
        for key, below in node.items():
            name = _name(key, path)
            yield name, path
            yield from _walk(below, (*path, name))
    elif isinstance(node, (list, tuple)):
        for item in node:
            if isinstance(item, Mapping):
                yield from _walk(item, path)
            else:
                yield _name(item, path), path
    else:
        yield _name(node, path), path


def _name(value: Any, path: tuple[str, ...]) -> str:
    """A name as text. Numbers count, since types may be numbers; YAML's yes, no and null are not names but slips."""
    if isinstance(value, str) and value:
        return value
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return str(value)
    where = f"below {_show(path)}" if path else "at the top"
    raise SchemaError(f"{_shape(value)} {where} is not the name of a type\n  hint: write names as text, in quotes if need be")


def _shape(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return "a list"
    if isinstance(value, Mapping):
        return "a mapping"
    return repr(value)


def _place(parent: str | None) -> str:
    return "at the top" if parent is None else f"below {parent!r}"


def _show(path: tuple[str, ...]) -> str:
    return " > ".join(path)
