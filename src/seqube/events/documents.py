"""YAML documents, read strictly and as data alone.

A key that stands twice in one mapping is an error, where YAML readers silently keep the last. A document is weighed before it is
read: aliases may make a few lines mean billions of values, or a value that holds itself, and nesting may be deeper than any reader
can follow. Only plain mappings, lists and scalars come out; tags that ask for objects are errors.

Cost: a document is scanned twice. Invariant: what is read has at most `MAX_VALUES` values, counted as often as they are used, in at
most `MOST_LEVELS` levels.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, cast

from seqube.errors import DataError, SchemaError

MOST_LEVELS = 200
MAX_VALUES = 1_000_000
MOST_DIGITS = 1_000  # of a number; Python writes no longer ones than some thousands, and reads some of them
_NUMBER = re.compile(r"[-+]?[0-9][0-9a-fA-FxXoO_:.]*")

# What YAML readers let through where a scalar is not what its tag or look says: 2001-99-99, !!float x, 9 * 5,000.
BAD_VALUE = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


def read_yaml(path: str | os.PathLike[str]) -> Any:
    """The content of a YAML file, as plain mappings, lists and scalars."""
    name = os.fspath(path)
    try:
        text = Path(path).read_text("utf-8")
    except FileNotFoundError:
        raise DataError(f"there is no file {name!r}\n  hint: check the path; relative paths start at {str(Path.cwd())!r}") from None
    except (OSError, ValueError) as problem:  # a ValueError: bytes that are no text, or a zero byte in the path
        raise DataError(f"the file {name!r} cannot be read: {problem}\n  hint: is it a text file?") from problem
    return parse_yaml(text, name)


def parse_yaml(text: str, name: str = "the document") -> Any:
    """The content of a YAML text; `name` is what errors call it."""
    import yaml

    try:
        if problem := weigh(text):
            raise SchemaError(f"{name} {problem}")
        return yaml.load(text, _strict_loader())  # noqa: S506 - it is a safe one, and stricter
    except yaml.YAMLError as problem:
        raise DataError(f"{name} is not YAML: {problem}\n  hint: check indentation, colons and quotes there") from problem
    except _TwiceError as problem:
        raise SchemaError(f"{name}, {problem}\n  hint: put what belongs to it together in one place") from None
    except BAD_VALUE as problem:
        raise DataError(f"{name} holds a value that cannot be read: {problem}\n  hint: write it in quotes") from problem


class _TwiceError(Exception):
    """A key that stands twice in one mapping."""


def safe_loader() -> Any:
    """YAML's reader of plain values: in C where it was built so, which takes a tenth of the time."""
    import yaml

    return getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@cache
def _strict_loader() -> Any:
    import yaml

    base: Any = safe_loader()  # which one it is depends on the machine

    class StrictLoader(base):  # type: ignore[misc]
        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
            seen = set()
            for key, _ in node.value:
                if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                    if (key.tag, key.value) in seen:
                        raise _TwiceError(f"line {key.start_mark.line + 1}: {key.value!r} stands twice in one mapping")
                    seen.add((key.tag, key.value))
            return cast(dict[Any, Any], super().construct_mapping(node, deep))

    return StrictLoader


def weigh(text: str) -> str | None:
    """What makes the document unfit to be read, if anything; nothing recurses here, whatever the text nests."""
    import yaml

    n_values = 0
    sizes: dict[str | None, int] = {}  # values under an anchor, aliases in it included
    open_: list[tuple[str | None, int]] = []
    for event in cast(Iterator[Any], yaml.parse(text, Loader=safe_loader())):
        line = event.start_mark.line + 1
        if isinstance(event, yaml.AliasEvent):
            if any(event.anchor == anchor for anchor, _ in open_):
                return f"holds itself, in line {line}\n  hint: an alias cannot stand inside what it names"
            n_values += sizes.get(event.anchor, 0)
        elif isinstance(event, yaml.NodeEvent):
            n_values += 1
            anchor = event.anchor
            if isinstance(event, yaml.ScalarEvent):
                if re.search("[\ud800-\udfff]", event.value):
                    return f"holds half of a character (a lone surrogate), in line {line}\n  hint: remove it"
                if len(event.value) > MOST_DIGITS and _NUMBER.fullmatch(event.value):
                    return f"holds a number of more than {MOST_DIGITS:,} digits, in line {line}\n  hint: shorten it"
                if anchor is not None:
                    sizes[anchor] = 1
            else:
                open_.append((anchor, n_values))
                if len(open_) > MOST_LEVELS:
                    return "is nested too deeply\n  hint: keep the tree flatter"
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = open_.pop()
            if anchor is not None:
                sizes[anchor] = n_values - before + 1
        if n_values > MAX_VALUES:
            return f"holds more than {MAX_VALUES:,} values, aliases counted\n  hint: write less, or use fewer aliases"
    return None
