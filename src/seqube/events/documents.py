"""YAML documents, read strictly: a key that stands twice in one mapping is an error, where YAML readers silently keep the last."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from seqube.errors import DataError, SchemaError


def read_yaml(path: str | os.PathLike[str]) -> Any:
    """The content of a YAML file, as plain mappings, lists and scalars."""
    name = os.fspath(path)
    try:
        text = Path(path).read_text("utf-8")
    except FileNotFoundError:
        raise DataError(f"there is no file {name!r}\n  hint: check the path; relative paths start at {str(Path.cwd())!r}") from None
    except (OSError, UnicodeDecodeError) as problem:
        raise DataError(f"the file {name!r} cannot be read: {problem}\n  hint: is it a text file?") from problem
    return parse_yaml(text, name)


def parse_yaml(text: str, name: str = "the document") -> Any:
    """The content of a YAML text; `name` is what errors call it."""
    import yaml

    class StrictLoader(yaml.SafeLoader):
        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
            seen = set()
            for key, _ in node.value:
                if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                    if (key.tag, key.value) in seen:
                        raise SchemaError(
                            f"{name}, line {key.start_mark.line + 1}: {key.value!r} stands twice in one mapping\n"
                            "  hint: put what belongs to it together in one place"
                        )
                    seen.add((key.tag, key.value))
            return super().construct_mapping(node, deep)

    try:
        return yaml.load(text, StrictLoader)  # noqa: S506 - it is a SafeLoader, and stricter
    except yaml.YAMLError as problem:
        raise DataError(f"{name} is not YAML: {problem}\n  hint: check indentation, colons and quotes there") from problem
    except RecursionError:
        raise SchemaError(f"{name} is nested too deeply\n  hint: keep the tree flatter") from None
